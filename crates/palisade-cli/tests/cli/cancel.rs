//! Statements whose callers have given up: the database is told, and they end there.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    serve::Client,
    shop::{BOT, Shop},
};

/// As long as a database may take to end a statement that is cancelled, on a busy machine: less than the statement's own time.
const PATIENCE: Duration = Duration::from_secs(20);

/// Takes minutes on any engine.
pub(crate) const SLOW: &str = "SELECT count(*) AS n FROM numbers AS a CROSS JOIN numbers AS b CROSS JOIN numbers AS c WHERE a.n * b.n + 100000 < c.n";

/// Waits until as many statements of the agent's account run as `is_enough` says.
pub(crate) fn wait_until(shop: &Shop, activity: &str, is_enough: impl Fn(usize) -> bool) {
    let began = Instant::now();
    loop {
        let told = shop.ask(activity);
        let now = told.trim().parse().unwrap();
        if is_enough(now) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{now} statements run");
        sleep(Duration::from_millis(50));
    }
}

/// A cancelled statement, and one whose client has gone, end on the server long before their time is up, and hold no place.
fn is_ended(shop: &Shop, schema: &str, activity: &str) {
    let permit = format!(
        "permit (principal, action == Action::\"see\", resource is row::{schema}::numbers);"
    );
    shop.desk.write("p/numbers.cedar", permit);
    let url = shop.url();
    let serve = [
        url.as_str(),
        "--policies",
        "p",
        "--as",
        BOT,
        "--audit",
        "audit.jsonl",
    ];
    let mut client = Client::new(&shop.desk, &serve);
    let begun: Vec<u64> = (0..6)
        .map(|_| client.begin("query", &json!({"sql": SLOW})))
        .collect();
    wait_until(shop, activity, |running| running >= 4);
    for id in begun {
        client.cancel(id);
    }
    wait_until(shop, activity, |running| running == 0);
    let answer = client.query("SELECT count(*) AS n FROM numbers");
    assert_eq!(
        answer["structuredContent"]["rows"],
        json!([{"n": 2000}]),
        "{answer}"
    );
    client.begin("query", &json!({"sql": SLOW}));
    wait_until(shop, activity, |running| running > 0);
    client.end();
    // The server is gone, and its statement with it.
    wait_until(shop, activity, |running| running == 0);
    // Likewise where the server is asked to end.
    let mut client = Client::new(&shop.desk, &serve);
    client.begin("query", &json!({"sql": SLOW}));
    wait_until(shop, activity, |running| running > 0);
    assert_eq!(client.terminate(), Some(0));
    wait_until(shop, activity, |running| running == 0);
    let log = shop.desk.records("audit.jsonl");
    let codes: Vec<Value> = (log.iter())
        .map(|record| record["code"].clone())
        .filter(|code| code != "limit.time")
        .collect();
    let cancelled = codes
        .iter()
        .filter(|code| *code == "limit.cancelled")
        .count();
    assert!(cancelled >= 6 && codes.len() == cancelled + 1, "{log:?}");
}

#[test]
fn postgres_is_told_of_statements_that_nobody_waits_for() {
    let shop = Shop::new("cancel");
    shop.load(&format!(
        "CREATE TABLE numbers AS SELECT n::int FROM generate_series(1, 2000) AS n; GRANT SELECT ON numbers TO {};",
        shop.reader
    ));
    let activity = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE usename = '{}' AND state = 'active'",
        shop.reader
    );
    is_ended(&shop, "public", &activity);
}

#[test]
fn mariadb_is_told_of_statements_that_nobody_waits_for() {
    let shop = Shop::mariadb("cancel");
    shop.load("CREATE TABLE numbers AS SELECT seq AS n FROM seq_1_to_2000;");
    let activity = format!(
        "SELECT count(*) FROM information_schema.processlist WHERE user = '{}' AND command IN ('Query', 'Execute')",
        shop.reader
    );
    is_ended(&shop, &shop.database, &activity);
}
