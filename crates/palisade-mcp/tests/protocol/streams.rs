//! Standard output belongs to the protocol, whatever else of the process prints there.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Command, Stdio, exit},
    sync::Arc,
    thread,
    time::Duration,
};

use palisade_mcp::{ProtocolStreams, serve_streams};
use serde_json::{Value, json};

use crate::{INITIALIZE, INITIALIZED, Records, server_over, sqlite};

/// Set where this test is the server.
const SERVES: &str = "PALISADE_TEST_SERVES";

const READY: &str = "the server begins";

/// What a dependency prints.
const NOISE: &str = "a library prints a note";

/// Serves over the standard streams while a thread prints.
fn serve_beside_noise() -> ! {
    println!("{READY}");
    let streams = ProtocolStreams::take().unwrap();
    thread::spawn(|| {
        loop {
            // Not `print!`, which the harness would keep.
            let mut stdout = std::io::stdout();
            writeln!(stdout, "{NOISE}").unwrap();
            stdout.flush().unwrap();
            thread::sleep(Duration::from_millis(1));
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let server = server_over(sqlite(), Arc::new(Records::default()));
    let ended = runtime.block_on(serve_streams(server, streams));
    exit(i32::from(ended.is_err()));
}

#[test]
fn what_others_print_is_no_message() {
    if std::env::var_os(SERVES).is_some() {
        serve_beside_noise();
    }
    // Clients start servers with pipes or with sockets.
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    for (output, socket) in [
        (Stdio::piped(), None),
        (Stdio::from(std::os::fd::OwnedFd::from(theirs)), Some(ours)),
    ] {
        let mut server = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "streams::what_others_print_is_no_message",
                "--nocapture",
            ])
            .env(SERVES, "1")
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output: Box<dyn std::io::Read> = match socket {
            Some(socket) => Box::new(socket),
            None => Box::new(server.stdout.take().unwrap()),
        };
        let mut input = server.stdin.take().unwrap();
        let mut errors = server.stderr.take().unwrap();
        let noise = thread::spawn(move || {
            let mut text = String::new();
            errors.read_to_string(&mut text).unwrap();
            text
        });
        let mut lines = BufReader::new(output).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.ends_with(READY)));
        for line in [INITIALIZE, INITIALIZED] {
            writeln!(input, "{line}").unwrap();
        }
        for id in 1..20 {
            let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
                "name": "query", "arguments": {"sql": "SELECT n FROM numbers"}}});
            writeln!(input, "{call}").unwrap();
        }
        for line in lines.by_ref().take(20) {
            let message: Value = serde_json::from_str(&line).expect(&line);
            assert!(message.get("result").is_some(), "{message}");
        }
        drop(input);
        assert!(server.wait().unwrap().success());
        assert_eq!(lines.next(), None);
        assert!(noise.join().unwrap().contains(NOISE));
    }
}
