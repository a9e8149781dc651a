//! A connection of several servers: an agent goes on while they end and change places.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use palisade_testkit::servers::PostgresServer;
use serde_json::{Value, json};

use crate::{desk::Desk, serve::Client};

const SCRIPT: &str = "
CREATE TABLE items (id integer PRIMARY KEY, tenant integer NOT NULL, name text);
INSERT INTO items VALUES (1, 1, 'ink'), (2, 1, 'pen'), (3, 2, 'canary');
REVOKE TEMPORARY ON DATABASE postgres FROM PUBLIC;
CREATE ROLE agent LOGIN CONNECTION LIMIT 30;
GRANT SELECT, UPDATE ON items TO agent;
";

const POLICIES: &str = r#"
permit (principal, action, resource);
forbid (principal, action, resource is row::public::items) unless { resource.tenant == 1 };
permit (principal, action == Action::"call", resource == Function::"pg_catalog.pg_is_in_recovery");
"#;

/// A primary, its standby, and a folder with the configuration of both.
struct Pair {
    primary: PostgresServer,
    standby: PostgresServer,
    desk: Desk,
}

impl Pair {
    fn new() -> Self {
        let primary = PostgresServer::start().unwrap();
        primary.load("postgres", SCRIPT).unwrap().clean().unwrap();
        let standby = PostgresServer::start_standby(&primary).unwrap();
        let desk = Desk::empty();
        desk.write("p/main.cedar", POLICIES);
        desk.write(
            "p/entities.json",
            r#"[{"uid": {"type": "Agent", "id": "a"}, "attrs": {}, "parents": []}]"#,
        );
        Self {
            primary,
            standby,
            desk,
        }
    }

    /// Writes the configuration: the hosts that are granted, what the URL wants, and more lines of the connection.
    fn configure(&self, granted: &[&PostgresServer], target: &str, lines: &str) {
        let place = |server: &PostgresServer| format!("127.0.0.1:{}", server.port());
        let granted: Vec<String> = granted.iter().map(|server| place(server)).collect();
        let text = format!(
            "policies = \"p\"\nprincipal = 'Agent::\"a\"'\n[grants]\nhosts = {granted:?}\n[connections.shop]\n\
             url = \"postgres://agent@{},{}/postgres?target_session_attrs={target}\"\n{lines}",
            place(&self.primary),
            place(&self.standby),
        );
        self.desk.write("palisade.toml", text);
    }
}

/// Asks until the answer is there, as an agent does that is told to try again.
fn retry(client: &mut Client, tool: &str, sql: &str) -> Value {
    let begun = Instant::now();
    loop {
        let answer = client.call(tool, &json!({"sql": sql}))["structuredContent"].clone();
        assert!(!answer.to_string().contains("canary"), "{answer}");
        if answer["code"] == Value::Null {
            return answer;
        }
        assert_eq!(answer["code"], "database.unavailable", "{answer}");
        assert_eq!(answer["retryable"], true, "{answer}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{answer}");
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn an_agent_goes_on_while_servers_end() {
    let pair = Pair::new();
    let both = [&pair.primary, &pair.standby];
    pair.configure(&both, "prefer-standby", "writable = true\n");
    let mut client = Client::new(
        &pair.desk,
        &["connection:shop", "--config", "palisade.toml"],
    );
    let is_standby = "SELECT pg_is_in_recovery() AS s";
    let names = "SELECT name FROM items ORDER BY id";
    assert_eq!(
        retry(&mut client, "query", is_standby)["rows"],
        json!([{"s": true}])
    );
    let sql = "UPDATE items SET name = 'nib' WHERE id > 1";
    assert_eq!(retry(&mut client, "execute", sql)["affected_rows"], 1);
    let begun = Instant::now();
    while retry(&mut client, "query", names)["rows"] != json!([{"name": "ink"}, {"name": "nib"}]) {
        assert!(begun.elapsed() < Duration::from_secs(20));
        sleep(Duration::from_millis(20));
    }
    let Pair {
        primary,
        standby,
        desk: _desk,
    } = pair;
    drop(primary);
    let found = retry(&mut client, "query", names);
    assert_eq!(found["rows"], json!([{"name": "ink"}, {"name": "nib"}]));
    standby.query("postgres", "SELECT pg_promote()").unwrap();
    let sql = "UPDATE items SET name = 'cap' WHERE id > 1";
    assert_eq!(retry(&mut client, "execute", sql)["affected_rows"], 1);
    let found = standby.query(
        "postgres",
        "SELECT string_agg(name, ',' ORDER BY id) FROM items",
    );
    assert_eq!(found.unwrap(), "ink,cap,canary");
    client.end();
}

#[test]
fn several_hosts_are_configured_and_granted_each() {
    let pair = Pair::new();
    let both = [&pair.primary, &pair.standby];
    let check = |lines: &str| {
        pair.configure(&both, "standby", lines);
        pair.desk.run(&["config", "check", "palisade.toml"])
    };
    check("max_lag = \"1h\"\n").expect_exit(0);
    check("max_lag = \"soon\"\n").fails(
        3,
        &[
            "palisade.toml:7:11",
            "`max_lag` cannot be `soon`",
            "`\"1s\"`",
        ],
    );
    pair.configure(&both[..1], "standby", "");
    let port = pair.standby.port();
    let granted = format!("`127.0.0.1:{port}` is not granted");
    let run = ["config", "check", "palisade.toml"];
    pair.desk.run(&run).fails(3, &[&granted, "hosts = ["]);
    pair.configure(&both, "replica", "");
    pair.desk
        .run(&run)
        .fails(3, &["`target_session_attrs`", "`prefer-standby`"]);
    pair.desk.write(
        "palisade.toml",
        "[connections.a]\nurl = \"sqlite:demo.db\"\nmax_lag = \"5s\"\n",
    );
    pair.desk
        .run(&run)
        .fails(3, &["palisade.toml:3:11", "a file follows no other"]);

    // What is too old is not read, and the operator is told why.
    pair.configure(
        &both,
        "standby",
        "max_lag = \"1s\"\nacknowledge_write = true\n",
    );
    pair.standby
        .query("postgres", "SELECT pg_wal_replay_pause()")
        .unwrap();
    pair.primary
        .query("postgres", "UPDATE items SET name = 'x'")
        .unwrap();
    sleep(Duration::from_millis(1500));
    let query = [
        "query",
        "connection:shop",
        "--config",
        "palisade.toml",
        "SELECT name FROM items",
    ];
    pair.desk
        .run(&query)
        .fails(4, &["no server is a standby that is recent enough"]);
}
