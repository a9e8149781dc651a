//! `palisade sandbox --hand-in`: a relay that may make no sockets gets its connections from outside.

use std::{fs, process::Command};

use serde_json::{Value, json};

use crate::{
    broker::{Broker, configure, status, wait_for},
    broker_sandbox::require_sandbox,
    desk::{Answer, Desk},
    serve::Client,
};

const MASKED: &str = "SELECT national_id FROM customers WHERE id = 1";

/// The relay, in a sandbox that knows where it is.
const RELAY: &str = "exec \"$PALISADE\" relay --parent 3 --secret \"$PALISADE_SECRET\"";

fn hand_in(desk: &Desk, more: &[&str], script: &str) -> Command {
    let mut command = desk.command(env!("CARGO_BIN_EXE_palisade"));
    command
        .args(["sandbox", "--config", "palisade.toml", "--hand-in"])
        .args(more)
        .args(["--", "sh", "-c", script]);
    command
}

fn session(desk: &Desk) -> Value {
    let told = status(desk);
    let all = told["sessions"].as_array().unwrap();
    assert_eq!(all.len(), 1, "{told}");
    all[0]["id"].clone()
}

/// A client asks, its broker falls while it asks, and the next broker goes on with its session.
#[track_caller]
fn outlives_its_broker(desk: &Desk, mut broker: Broker, client: &mut Client) -> Broker {
    let answer = client.query(MASKED).to_string();
    assert!(answer.contains("****4821"), "{answer}");
    let id = session(desk);
    broker.kill();
    let call = json!({"jsonrpc": "2.0", "id": "lost", "method": "tools/call",
        "params": {"name": "query", "arguments": {"sql": MASKED}}});
    let answer: Value = serde_json::from_str(&client.exchange(&call.to_string())).unwrap();
    assert_eq!(answer["error"]["data"]["retryable"], true, "{answer}");
    let broker = Broker::start(desk);
    wait_for(|| status(desk)["connections"] == 1);
    let answer = client.query(MASKED).to_string();
    assert!(answer.contains("****4821"), "{answer}");
    assert_eq!(session(desk), id);
    broker
}

#[test]
fn connections_are_handed_into_a_sandbox_that_has_no_socket() {
    let desk = Desk::new();
    configure(&desk, "principal = 'Agent::\"support-bot\"'");
    require_sandbox(&desk);
    drop(Broker::start(&desk));
    let run = |script: &str| Answer::from_command(&mut hand_in(&desk, &[], script), b"");
    run(RELAY).fails(4, &["no broker listens outside of the sandbox"]);
    let broker = Broker::start(&desk);
    let mut client = Client::start(&mut hand_in(&desk, &[], RELAY));
    let broker = outlives_its_broker(&desk, broker, &mut client);
    // The socket itself is not there, and a connection is no way to its folder.
    let folder = fs::canonicalize(desk.path("broker/run")).unwrap();
    let script = format!("ls {} || echo \"none $PALISADE_RUN\"", folder.display());
    assert_eq!(run(&script).out, "none \n");
    // Descriptors that this process had are not handed on with it.
    let listed = run("exec 8</dev/null; ls /proc/self/fd | tr '\\n' ' '");
    let inherited = Answer::from_command(
        desk.command("sh").args([
            "-c",
            &format!(
                "exec {} sandbox --config palisade.toml --hand-in -- ls /proc/self/fd 7</dev/null",
                env!("CARGO_BIN_EXE_palisade")
            ),
        ]),
        b"",
    );
    assert!(listed.out.contains(" 3 ") && listed.out.contains(" 8 "));
    assert!(
        inherited.out.contains("\n3\n") && !inherited.out.contains("\n7\n"),
        "{}",
        inherited.out
    );
    // Exit codes and signals are the command's.
    run("exit 7").expect_exit(7);
    assert_eq!(client.terminate(), Some(143));
    wait_for(|| status(&desk)["connections"] == 0);
    // Several relays of one sandbox have a session each.
    let one = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"0\"}}}";
    let relay = RELAY.trim_start_matches("exec ");
    let each = format!("(echo '{one}'; sleep 1) | {relay} &");
    let answer = run(&format!("{each} {each} {each} wait"));
    assert_eq!(
        answer.out.matches("protocolVersion").count(),
        3,
        "{}",
        answer.err
    );
    assert_eq!(status(&desk)["sessions"].as_array().unwrap().len(), 4);
    drop(broker);
}

/// A filter of system calls that answers `socket(AF_UNIX)` with EPERM, as sandboxes of agents do.
fn forbid_sockets() -> Vec<u8> {
    let socket: u32 = if cfg!(target_arch = "aarch64") {
        198
    } else {
        41
    };
    let (load, if_equal, answer) = (0x20_u16, 0x15_u16, 0x06_u16);
    let (number, first_argument) = (0, 16);
    [
        (load, 0, 0, number),
        (if_equal, 0, 3, socket),
        (load, 0, 0, first_argument),
        // AF_UNIX
        (if_equal, 0, 1, 1),
        // EPERM
        (answer, 0, 0, 0x0005_0001),
        // All else is allowed.
        (answer, 0, 0, 0x7fff_0000),
    ]
    .into_iter()
    .flat_map(|(code, yes, no, k): (u16, u8, u8, u32)| {
        let [a, b] = code.to_ne_bytes();
        let [c, d, e, f] = k.to_ne_bytes();
        [a, b, yes, no, c, d, e, f]
    })
    .collect()
}

#[test]
fn a_sandbox_that_forbids_sockets_is_named_and_connected_for() {
    let desk = Desk::new();
    configure(&desk, "principal = 'Agent::\"support-bot\"'");
    require_sandbox(&desk);
    desk.write("filter", forbid_sockets());
    let broker = Broker::start(&desk);
    let within = |relay: &str| {
        format!(
            "exec bwrap --bind / / --dev-bind /dev /dev --seccomp 9 -- {} {relay} 9<filter",
            env!("CARGO_BIN_EXE_palisade")
        )
    };
    let script = within("relay --run broker/run --secret broker/secret");
    let mut command = desk.command("sh");
    Answer::from_command(command.args(["-c", &script]), b"").fails(
        4,
        &[
            "forbids Unix sockets (EPERM)",
            "--hand-in",
            "allowAllUnixSockets",
            "network_access",
        ],
    );
    let script = within("relay --parent 3 --secret broker/secret");
    let mut command = hand_in(&desk, &["--container"], &script);
    let mut client = Client::start(&mut command);
    let broker = outlives_its_broker(&desk, broker, &mut client);
    client.end();
    drop(broker);
}
