//! `palisade serve` over PostgreSQL, as a client sees it.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use serde_json::{Value, json};

use crate::{
    desk::Desk,
    shop::{BOT, Shop},
};

/// A client of the protocol, message by message.
pub(crate) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    number: u64,
}

impl Client {
    pub(crate) fn new(desk: &Desk, arguments: &[&str]) -> Self {
        let mut child = desk
            .command(env!("CARGO_BIN_EXE_palisade"))
            .arg("serve")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut client = Self {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
            number: 0,
        };
        client.ask(
            "initialize",
            &json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}),
        );
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.number += 1;
        self.send(
            &json!({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}),
        );
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        if line.is_empty() {
            let mut told = String::new();
            self.child
                .stderr
                .take()
                .unwrap()
                .read_to_string(&mut told)
                .unwrap();
            panic!("the server closed its output: {told}");
        }
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["id"], self.number, "{answer}");
        answer["result"].clone()
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.ask("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    pub(crate) fn query(&mut self, sql: &str) -> Value {
        self.call("query", &json!({"sql": sql}))
    }

    /// What `ps` shows of the server.
    pub(crate) fn command_line(&self) -> String {
        let path = format!("/proc/{}/cmdline", self.child.id());
        String::from_utf8(std::fs::read(path).unwrap()).unwrap()
    }

    /// Ends the server by closing its input; what it logged.
    pub(crate) fn end(mut self) -> String {
        drop(self.input.take());
        let mut told = String::new();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut told)
            .unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{told}");
        told
    }
}

#[test]
fn a_client_sees_what_policy_shows() {
    let shop = Shop::new("serve");
    let url = shop.url();
    let mut client = Client::new(
        &shop.desk,
        &[&url, "--policies", "p", "--as", BOT, "--audit", "log.jsonl"],
    );

    let listed = client.call("list_tables", &json!({}));
    let tables: Vec<_> = listed["structuredContent"]["tables"]
        .as_array()
        .unwrap()
        .iter()
        .map(|table| format!("{} {}", table["name"].as_str().unwrap(), table["readable"]))
        .collect();
    assert_eq!(
        tables,
        [
            "credentials false",
            "customers true",
            "directory true",
            "tickets true"
        ]
    );

    let described = client.call("describe_table", &json!({"table": "customers"}));
    let columns: Vec<_> = described["structuredContent"]["columns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| format!("{} {}", column["name"].as_str().unwrap(), column["masked"]))
        .collect();
    assert_eq!(
        columns,
        [
            "id false",
            "tenant_id false",
            "name false",
            "email true",
            "national_id true"
        ]
    );
    let described = client.call("describe_table", &json!({"table": "tickets"}));
    assert!(!described.to_string().contains("note"), "{described}");

    let answer = client.query("SELECT name, email, national_id FROM customers");
    assert_eq!(
        answer["structuredContent"]["rows"],
        json!([{"name": "Ada Brandt", "email": null, "national_id": "****4821"}])
    );
    let answer = client.call(
        "query",
        &json!({"sql": "SELECT subject FROM tickets WHERE id > $1 ORDER BY id", "params": [1]}),
    );
    assert_eq!(
        answer["structuredContent"]["rows"],
        json!([{"subject": "screen"}])
    );

    for (sql, code) in [
        ("SELECT api_key FROM credentials", "policy.forbidden"),
        ("SELECT amount FROM hr.salaries", "name.unknown-relation"),
        ("SELECT note FROM tickets", "name.unknown-column"),
        ("UPDATE tickets SET subject = 'x'", "statement.not-allowed"),
        ("COPY tickets TO PROGRAM 'cat'", "statement.not-allowed"),
        ("SELECT pg_sleep(1)", "function.not-allowed"),
    ] {
        let answer = client.query(sql);
        assert_eq!(answer["isError"], true, "{sql}: {answer}");
        assert_eq!(answer["structuredContent"]["code"], code, "{sql}: {answer}");
    }

    // What the server itself says of values reaches neither the client nor the log.
    let answer = client.query("SELECT CAST(name AS int) FROM customers");
    assert_eq!(answer["structuredContent"]["code"], "database.rejected");
    assert_eq!(
        answer["structuredContent"]["context"]["connection"],
        shop.database
    );
    assert!(!answer.to_string().contains("Ada"), "{answer}");

    // The server closed our sessions; the next statement gets a new one.
    shop.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'palisade'");
    let answer = client.query("SELECT count(*) AS n FROM tickets");
    assert_eq!(
        answer["structuredContent"]["rows"],
        json!([{"n": 2}]),
        "{answer}"
    );

    let told = client.end();
    assert!(told.contains("serving") && !told.contains("Ada"), "{told}");
    // Nor does what the server says beside its answers: that can be anybody's text.
    assert!(!told.contains("there is no transaction"), "{told}");
    let log = std::fs::read_to_string(shop.desk.path("log.jsonl")).unwrap();
    assert_eq!(log.lines().count(), 10, "{log}");
    assert!(!log.contains("Ada") && !log.contains("4821"), "{log}");
    assert_eq!(shop.ask("SELECT count(*) FROM tickets"), "3");
}
