//! A broker that is asked to end, and one whose disk is full: no statement stays on a server, and no record is lost.

use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    broker::{Broker, configure, relay, relay_command, status, wait_for},
    cancel::{SLOW, wait_until},
    desk::{Answer, Desk},
    shop::{BOT, Shop},
};

fn configure_shop(shop: &Shop, drain: u64) {
    shop.secret("password", "x");
    shop.desk.write(
        "palisade.toml",
        format!(
            "audit = \"audit.jsonl\"\n\
             [grants]\nhosts = [\"{}:{}\"]\nfiles = [\"password\"]\n\
             [broker]\nprincipal = '{BOT}'\ndrain_seconds = {drain}\n\
             [connections.shop]\nurl = \"{}\"\npolicies = \"p\"\npassword_file = \"password\"\n",
            shop.server.host(),
            shop.server.port(),
            shop.url()
        ),
    );
}

fn activity(shop: &Shop) -> String {
    format!(
        "SELECT count(*) FROM pg_stat_activity WHERE usename = '{}' AND state = 'active'",
        shop.reader
    )
}

fn verify_audit(shop: &Shop) {
    shop.desk
        .run(&["audit", "verify", "audit.jsonl"])
        .expect_exit(0);
}

/// What runs ends, its client has the answer, and what would take longer is cancelled.
#[test]
fn a_broker_that_is_asked_to_end_drains_and_then_cancels() {
    let shop = Shop::new("drain");
    let reader = &shop.reader;
    shop.load(&format!(
        "CREATE TABLE numbers AS SELECT n::int FROM generate_series(1, 2000) AS n;
         CREATE VIEW patience AS SELECT n FROM numbers WHERE n = 1 AND pg_sleep(3)::text IS NOT NULL;
         GRANT SELECT ON numbers, patience TO {reader};"
    ));
    shop.desk.write(
        "p/numbers.cedar",
        "permit (principal, action == Action::\"see\", resource is row::public::numbers);\n\
         permit (principal, action == Action::\"see\", resource is row::public::patience);\n\
         permit (principal, action == Action::\"call\", resource == Function::\"pg_catalog.pg_sleep\");",
    );
    configure_shop(&shop, 8);
    let activity = activity(&shop);
    let mut broker = Broker::start(&shop.desk);
    let (mut short, mut long, mut idle) = (relay(&shop.desk), relay(&shop.desk), relay(&shop.desk));
    // It takes three seconds.
    short.begin("query", &json!({"sql": "SELECT n FROM patience"}));
    long.begin("query", &json!({"sql": SLOW}));
    wait_until(&shop, &activity, |running| running >= 2);
    let began = Instant::now();
    broker.terminate();
    // No new one comes in.
    wait_for(|| !shop.desk.path("broker/run/palisade.sock").exists());
    let mut late = relay_command(&shop.desk, &["--secret", "broker/secret"]);
    Answer::from_command(&mut late, b"").fails(4, &["no broker listens"]);
    let answer = short.read();
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    let lost = long.read();
    assert_eq!(lost["error"]["data"]["retryable"], true, "{lost}");
    assert_eq!(lost["error"]["data"]["code"], "limit.cancelled", "{lost}");
    assert!(
        began.elapsed() > Duration::from_secs(4),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(broker.wait(), Some(0), "{}", broker.log());
    // The server has none of it any more, though the broker is gone.
    wait_until(&shop, &activity, |running| running == 0);
    // What is asked now is answered too.
    let call = json!({"jsonrpc": "2.0", "id": "now", "method": "tools/call",
        "params": {"name": "query", "arguments": {"sql": "SELECT 1"}}});
    let answer: Value = serde_json::from_str(&idle.exchange(&call.to_string())).unwrap();
    assert_eq!(answer["error"]["data"]["retryable"], true, "{answer}");
    let log = shop.desk.records("audit.jsonl");
    let codes: Vec<&Value> = log.iter().map(|record| &record["code"]).collect();
    let count = |code: Value| codes.iter().filter(|one| ***one == code).count();
    assert_eq!(count(json!("limit.cancelled")), 1, "{log:?}");
    assert_eq!(count(Value::Null), 1, "{log:?}");
    verify_audit(&shop);
    // The next broker goes on with the sessions.
    let _broker = Broker::start(&shop.desk);
    wait_for(|| status(&shop.desk)["connections"] == 3);
    assert_eq!(short.query("SELECT 1 AS a")["isError"], false);
    assert_eq!(status(&shop.desk)["sessions"].as_array().unwrap().len(), 3);
}

/// What is cancelled through a relay, what a killed relay asked, and what a killed broker was asked ends on the server.
#[test]
fn a_statement_ends_with_whoever_wanted_it() {
    let shop = Shop::new("wanted");
    let reader = &shop.reader;
    shop.load(&format!(
        "CREATE TABLE numbers AS SELECT n::int FROM generate_series(1, 2000) AS n;
         GRANT SELECT ON numbers TO {reader};"
    ));
    shop.desk.write(
        "p/numbers.cedar",
        "permit (principal, action == Action::\"see\", resource is row::public::numbers);",
    );
    configure_shop(&shop, 8);
    let activity = activity(&shop);
    let mut broker = Broker::start(&shop.desk);
    let mut client = relay(&shop.desk);
    let first = client.begin("query", &json!({"sql": SLOW}));
    wait_until(&shop, &activity, |running| running == 1);
    client.cancel(first);
    wait_until(&shop, &activity, |running| running == 0);
    // It goes on with the same client.
    assert_eq!(client.query("SELECT 1 AS a")["isError"], false);

    let mut other = relay(&shop.desk);
    other.begin("query", &json!({"sql": SLOW}));
    wait_until(&shop, &activity, |running| running == 1);
    other.kill();
    wait_until(&shop, &activity, |running| running == 0);
    wait_for(|| status(&shop.desk)["connections"] == 1);
    let records = || shop.desk.records("audit.jsonl");
    let is_cancelled = |record: &Value| record["code"] == "limit.cancelled";
    wait_for(|| {
        records()
            .iter()
            .filter(|record| is_cancelled(record))
            .count()
            == 2
    });
    verify_audit(&shop);

    client.begin("query", &json!({"sql": SLOW}));
    wait_until(&shop, &activity, |running| running == 1);
    broker.kill();
    let told = client.read();
    assert_eq!(told["error"]["data"]["code"], "broker.gone", "{told}");
    // No process is left to cancel it. The server looks whether its client is there.
    wait_until(&shop, &activity, |running| running == 0);
    broker = Broker::start(&shop.desk);
    wait_for(|| status(&shop.desk)["connections"] == 1);
    assert_eq!(client.query("SELECT 1 AS a")["isError"], false);
    drop(broker);
    client.end();
}

/// A broker with nothing to wait for ends at once.
#[test]
fn an_idle_broker_does_not_wait() {
    let desk = Desk::new();
    configure(&desk, "drain_seconds = 600");
    let mut broker = Broker::start(&desk);
    let _client = relay(&desk);
    let began = Instant::now();
    broker.terminate();
    assert_eq!(broker.wait(), Some(0), "{}", broker.log());
    assert!(
        began.elapsed() < Duration::from_secs(15),
        "{:?}",
        began.elapsed()
    );
}

/// A broker whose files cannot grow beyond so many blocks of 512 bytes.
fn start_on_full_disk(desk: &Desk, blocks: u32) -> Broker {
    let script = format!(
        "trap '' XFSZ; ulimit -f {blocks}; exec {} broker --config palisade.toml",
        env!("CARGO_BIN_EXE_palisade")
    );
    let mut command = desk.command("sh");
    Broker::run(command.args(["-c", &script]))
}

#[test]
fn a_full_disk_is_told_and_nothing_is_half_stored() {
    let desk = Desk::new();
    configure(&desk, "principal = 'Agent::\"support-bot\"'");
    let text = fs::read_to_string(desk.path("palisade.toml")).unwrap();
    desk.write("palisade.toml", format!("audit = \"audit.jsonl\"\n{text}"));
    // Records stop first.
    let mut broker = start_on_full_disk(&desk, 12);
    let mut client = relay(&desk);
    let mut answers = (0..20).map(|_| client.query("SELECT count(*) AS n FROM customers"));
    let refused = answers.find(|answer| answer["isError"] == true).unwrap();
    assert_eq!(
        refused["structuredContent"]["code"], "internal",
        "{refused}"
    );
    assert!(!refused.to_string().contains("\"n\":"), "{refused}");
    drop(answers);
    broker.kill();
    client.kill();
    // A session that cannot be stored is none, and those that are stored stay.
    fs::remove_file(desk.path("broker/admin/sessions.json")).unwrap();
    desk.write("palisade.toml", text);
    let mut broker = start_on_full_disk(&desk, 1);
    let arguments = ["--secret", "broker/secret", "--resume", "session"];
    let first = crate::serve::Client::start(&mut relay_command(&desk, &arguments));
    let more: Vec<Answer> = (0..4)
        .map(|_| {
            let mut one = relay_command(&desk, &["--secret", "broker/secret"]);
            Answer::from_command(&mut one, b"")
        })
        .collect();
    let last = more.last().unwrap();
    assert_eq!(last.exit, 4, "{}", last.err);
    assert!(last.err.contains("broker.state"), "{}", last.err);
    let id = status(&desk)["sessions"][0]["id"].clone();
    let kept = fs::read_to_string(desk.path("broker/admin/sessions.json")).unwrap();
    serde_json::from_str::<Value>(&kept).unwrap();
    broker.kill();
    first.kill();
    let _broker = Broker::start(&desk);
    let mut again = crate::serve::Client::start(&mut relay_command(&desk, &arguments));
    assert_eq!(again.query("SELECT 1 AS a")["isError"], false);
    let told = status(&desk);
    let is_resumed = |one: &Value| one["id"] == id && one["connected"] == true;
    assert!(
        told["sessions"].as_array().unwrap().iter().any(is_resumed),
        "{told}"
    );
}

impl Broker {
    /// Asks it to end.
    fn terminate(&self) {
        let status = Command::new("kill").arg(self.id().to_string()).status();
        assert!(status.unwrap().success());
    }
}
