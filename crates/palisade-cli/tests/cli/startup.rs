//! `palisade serve` answers before its databases are open. What is wrong with how it is set up still ends it.

use std::{
    io::{Read as _, copy},
    net::{Shutdown, TcpListener, TcpStream},
    process::Stdio,
    sync::{Arc, Condvar, Mutex},
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{
    desk::Desk,
    serve::Client,
    shop::{BOT, Shop},
};

/// A way to a server that lets nothing through until it is opened.
struct Gate {
    port: u16,
    open: Arc<(Mutex<bool>, Condvar)>,
}

impl Gate {
    fn before(address: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let open = Arc::new((Mutex::new(false), Condvar::new()));
        let waited = Arc::clone(&open);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (waited, address) = (Arc::clone(&waited), address.clone());
                thread::spawn(move || {
                    let (is_open, told) = &*waited;
                    let guard = is_open.lock().unwrap();
                    drop(told.wait_while(guard, |is_open| !*is_open).unwrap());
                    join(client, TcpStream::connect(address).unwrap());
                });
            }
        });
        Self { port, open }
    }

    fn open(&self) {
        *self.open.0.lock().unwrap() = true;
        self.open.1.notify_all();
    }
}

fn join(one: TcpStream, other: TcpStream) {
    let pass = |mut from: TcpStream, mut to: TcpStream| {
        thread::spawn(move || {
            // Either side may be gone.
            let _ = copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
    };
    pass(one.try_clone().unwrap(), other.try_clone().unwrap());
    pass(other, one);
}

/// The URL of `shop` by way of `gate`.
fn url_through(gate: &Gate, shop: &Shop) -> String {
    let port = format!(":{}/", shop.server.port());
    shop.url().replace(&port, &format!(":{}/", gate.port))
}

#[test]
fn initialize_is_answered_before_the_database_is() {
    let shop = Shop::new("startup");
    let gate = Gate::before(format!("{}:{}", shop.server.host(), shop.server.port()));
    let url = url_through(&gate, &shop);
    // It gets its answer while nothing is let through.
    let mut client = Client::new(
        &shop.desk,
        &[&url, "--policies", "p", "--as", BOT, "--audit", "log.jsonl"],
    );
    client.ask("ping", &json!({}));
    let before = client.ask("tools/list", &json!({}));
    let asked = client.begin(
        "query",
        &json!({"sql": "SELECT count(*) AS n FROM tickets", "format": "json"}),
    );
    client.ask("ping", &json!({}));
    gate.open();
    let answer = client.read_answer(asked);
    assert_eq!(
        answer["structuredContent"]["rows"],
        json!([{"n": 2}]),
        "{answer}"
    );
    let after = client.ask("tools/list", &json!({}));
    assert_eq!(before.to_string(), after.to_string());
    client.end();
}

/// A server that accepts and says nothing is no reason to wait for ever: the call is refused, told what to do, and recorded.
#[test]
fn a_server_that_never_answers_is_unavailable() {
    let desk = Desk::empty();
    let gate = Gate::before(String::new());
    let url = format!("postgres://a@127.0.0.1:{}/d", gate.port);
    let mut client = Client::new(&desk, &[&url, "--audit", "log.jsonl"]);
    let answer = client.query("SELECT 1");
    let refusal = &answer["structuredContent"];
    assert_eq!(refusal["code"], "database.unavailable", "{answer}");
    assert_eq!(refusal["retryable"], true);
    assert!(refusal["incident"].is_string() && refusal["remediation_hint"].is_string());
    let records = desk.records("log.jsonl");
    let last = records.last().unwrap();
    assert_eq!(
        (&last["tool"], &last["code"]),
        (&json!("query"), &json!("database.unavailable"))
    );
    // It served nothing, which its exit code tells the operator.
    let (code, told) = client.leave();
    assert_eq!(code, Some(4), "{told}");
    assert!(told.contains("not served yet"), "{told}");
}

/// Policies that do not fit the database end a server whose client is still there.
#[test]
fn what_is_wrong_with_policies_ends_the_server() {
    let desk = Desk::new();
    desk.write(
        "p/base.cedar",
        "permit (principal, action == Action::\"select\", resource == Table::\"main.nowhere\");",
    );
    let mut server = desk
        .command(env!("CARGO_BIN_EXE_palisade"))
        .args(["serve", "sqlite:demo.db", "--policies", "p"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let code = loop {
        if let Some(status) = server.try_wait().unwrap() {
            break status.code();
        }
        assert!(begun.elapsed().as_secs() < 60, "it goes on");
        thread::sleep(Duration::from_millis(20));
    };
    let mut told = String::new();
    server
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut told)
        .unwrap();
    assert_eq!(code, Some(3), "{told}");
    assert!(told.contains("nowhere"), "{told}");
}

/// A file that is not there does not come by itself.
#[test]
fn a_file_that_is_not_there_ends_the_server() {
    let desk = Desk::empty();
    desk.run(&["serve", "sqlite:nope.db"])
        .fails(4, &["nope.db"]);
    desk.run(&["serve", "--http", "127.0.0.1:0", "--config", "none.toml"])
        .fails(3, &["none.toml"]);
}
