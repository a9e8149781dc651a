//! `palisade serve` over PostgreSQL, as a client sees it.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
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
        let mut command = desk.command(env!("CARGO_BIN_EXE_palisade"));
        Self::start(command.arg("serve").args(arguments))
    }

    /// A client of whatever a command serves.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
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
        self.read_answer(self.number)
    }

    /// The answer to the request `number`, which must be the next.
    pub(crate) fn read_answer(&mut self, number: u64) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        // Notifications come in between.
        while line.contains("\"method\":\"notifications/") {
            line.clear();
            self.output.read_line(&mut line).unwrap();
        }
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
        assert_eq!(answer["id"], number, "{answer}");
        answer["result"].clone()
    }

    /// Calls a tool; rows are wanted typed unless the arguments say otherwise.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let mut arguments = arguments.clone();
        if let Some(arguments) = arguments.as_object_mut()
            && ["execute", "query", "run_template"].contains(&tool)
        {
            arguments.entry("format").or_insert_with(|| json!("json"));
        }
        self.ask("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// Calls a tool without waiting for its answer; the number of the request.
    pub(crate) fn begin(&mut self, tool: &str, arguments: &Value) -> u64 {
        self.number += 1;
        let params = json!({"name": tool, "arguments": arguments});
        self.send(
            &json!({"jsonrpc": "2.0", "id": self.number, "method": "tools/call", "params": params}),
        );
        self.number
    }

    /// The next answer, whole.
    pub(crate) fn read(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Gives up on a request.
    pub(crate) fn cancel(&mut self, id: u64) {
        let params = json!({"requestId": id});
        self.send(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}),
        );
    }

    pub(crate) fn query(&mut self, sql: &str) -> Value {
        self.call("query", &json!({"sql": sql}))
    }

    /// The line with which the server answers this one.
    pub(crate) fn exchange(&mut self, line: &str) -> String {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        answer
    }

    /// The most memory that the server has had, in megabytes.
    pub(crate) fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.unwrap().trim().trim_end_matches(" kB");
        kilobytes.parse::<u64>().unwrap() / 1024
    }

    /// Memory of the server that is in no file, in kilobytes, now.
    pub(crate) fn own_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"));
        line.unwrap()
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .unwrap()
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What `ps` shows of the server.
    pub(crate) fn command_line(&self) -> String {
        let path = format!("/proc/{}/cmdline", self.child.id());
        String::from_utf8(std::fs::read(path).unwrap()).unwrap()
    }

    /// Kills the server, whatever it does.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks the server to end, as a client does whose patience is over; its exit code.
    pub(crate) fn terminate(mut self) -> Option<i32> {
        let id = self.child.id().to_string();
        let status = std::process::Command::new("kill").arg(&id).status();
        assert!(status.unwrap().success());
        self.child.wait().unwrap().code()
    }

    /// Asks the server to read its files again.
    pub(crate) fn hang_up(&self) {
        let status = std::process::Command::new("kill")
            .args(["-HUP", &self.child.id().to_string()])
            .status();
        assert!(status.unwrap().success());
    }

    /// Ends the server by closing its input; what it logged.
    pub(crate) fn end(self) -> String {
        let (code, told) = self.leave();
        assert_eq!(code, Some(0), "{told}");
        told
    }

    /// As [`end`](Self::end), with whatever exit code the server has.
    pub(crate) fn leave(mut self) -> (Option<i32>, String) {
        drop(self.input.take());
        let mut told = String::new();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut told)
            .unwrap();
        (self.child.wait().unwrap().code(), told)
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
    let statements = log
        .lines()
        .filter(|line| line.contains(r#""kind":"statement""#));
    assert_eq!(statements.count(), 10, "{log}");
    // Four digits alone may stand in a time or a digest.
    let is_told = ["Ada Brandt", "****4821", "-4821"].map(|told| log.contains(told));
    assert_eq!(is_told, [false; 3], "{log}");
    assert_eq!(shop.ask("SELECT count(*) FROM tickets"), "3");
}

impl Client {
    /// Asks until the answer is as expected, which changes that are being noticed take a while to bring about.
    fn becomes(&mut self, sql: &str, expected: impl Fn(&Value) -> bool) {
        let mut answer = Value::Null;
        for _ in 0..300 {
            answer = self.query(sql)["structuredContent"].clone();
            if expected(&answer) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        panic!("{sql}: {answer}");
    }
}

#[test]
fn policies_that_are_edited_hold_from_the_next_request_on() {
    let desk = Desk::new();
    let mut client = Client::new(
        &desk,
        &[
            "sqlite:demo.db",
            "--policies",
            "demo-policies",
            "--as",
            crate::desk::BOT,
            "--audit",
            "log.jsonl",
        ],
    );
    let base = std::fs::read_to_string(desk.path("demo-policies/base.cedar")).unwrap();
    let write = |more: &str| desk.write("demo-policies/base.cedar", format!("{base}\n{more}"));
    let sql = "SELECT count(*) AS n FROM customers";
    let is_answered = |answer: &Value| answer["rows"][0]["n"].is_number();
    let is_forbidden = |answer: &Value| answer["code"] == "policy.forbidden";
    client.becomes(sql, is_answered);
    write(
        "forbid (principal, action == Action::\"select\", resource == Table::\"main.customers\");",
    );
    client.becomes(sql, is_forbidden);

    // A set that is wrong is refused with its line, and the one before stays.
    write("forbid (principal, action == Action::\"selekt\", resource);");
    client.hang_up();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    client.becomes(sql, is_forbidden);

    write("");
    client.hang_up();
    client.becomes(sql, is_answered);
    let told = client.end();
    assert!(
        told.contains("those in force stay") && told.contains("selekt"),
        "{told}"
    );
    assert!(told.contains("policies loaded"), "{told}");
    let log = desk.records("log.jsonl");
    let versions: std::collections::BTreeSet<String> = (log.iter())
        .map(|record| record["policy_version"].to_string())
        .collect();
    // A line feed more than at first.
    assert_eq!(versions.len(), 3, "{versions:?}");
}

#[test]
fn a_table_that_is_made_is_there() {
    let shop = Shop::new("serve_live");
    let url = shop.url();
    let mut client = Client::new(&shop.desk, &[&url, "--policies", "p", "--as", BOT]);
    let sql = "SELECT a FROM later";
    client.becomes(sql, |answer| answer["code"] == "name.unknown-relation");
    shop.ask(&format!(
        "CREATE TABLE later (a int PRIMARY KEY); GRANT SELECT ON later TO {}",
        shop.reader
    ));
    // No principal may see its rows yet: policies permit them table by table.
    client.becomes(sql, |answer| answer["rows"] == json!([]));
    let described = client.call("describe_table", &json!({"table": "later"}));
    assert!(described.to_string().contains("\"a\""), "{described}");
    client.end();
}
