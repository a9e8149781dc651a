//! Each example is run: a masked row and a filtered one on the way out, a refusal, and what an MCP client gets.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
};

const SQL: &str = "SELECT name, ssn FROM customers ORDER BY id";

fn printed(program: &str, sql: &str) -> String {
    printed_apart(program, sql).0
}

/// What an agent is given, and what the operator reads.
fn printed_apart(program: &str, sql: &str) -> (String, String) {
    let output = Command::new(program).arg(sql).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let [told, logged] = [output.stdout, output.stderr].map(String::from_utf8);
    (told.unwrap(), logged.unwrap())
}

fn has_masked_rows(text: &str) {
    for word in ["Ann", "Bob", "3456", "4321"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    for word in ["Eve", "900-12", "9999"] {
        assert!(!text.contains(word), "{word}: {text}");
    }
}

#[test]
fn decides_only() {
    let program = env!("CARGO_BIN_EXE_decide-only");
    let text = printed(program, SQL);
    assert!(
        text.contains("tenant_id") && text.contains("LIMIT"),
        "{text}"
    );
    let text = printed(program, "SELECT nothing FROM customers");
    assert!(text.contains("name.unknown-column"), "{text}");
}

#[test]
fn runs_over_a_driver_of_its_own() {
    let program = env!("CARGO_BIN_EXE_own-driver");
    has_masked_rows(&printed(program, SQL));
    let text = printed(program, "DELETE FROM customers");
    assert!(text.contains("\"code\""), "{text}");
}

#[test]
fn asks_the_gate() {
    let program = env!("CARGO_BIN_EXE_guard-on-sqlite");
    has_masked_rows(&printed(program, SQL));
    let text = printed(program, "DROP TABLE customers");
    assert!(text.contains("\"code\""), "{text}");
    // The engine's own words are the operator's.
    let overflow = "SELECT sum(id + 9223372036854775000) FROM customers";
    let (told, logged) = printed_apart(program, overflow);
    assert!(!told.contains("integer overflow"), "{told}");
    assert!(logged.contains("integer overflow"), "{logged}");
}

#[test]
fn reads_typed_rows() {
    let program = env!("CARGO_BIN_EXE_typed-rows");
    let sql = "SELECT id, 9223372036854775807 AS id, ssn, x'00ff' AS b FROM customers WHERE id = ?";
    let text = printed(program, sql);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "id: the integer 2",
            "id_2: the integer 9223372036854775807",
            "ssn: the text ****4321",
            "b: 2 bytes"
        ]
    );
}

#[test]
fn runs_what_a_person_approved() {
    let text = printed(
        env!("CARGO_BIN_EXE_approvals"),
        "SELECT name FROM customers",
    );
    let (refused, answered) = text.split_once('\n').unwrap();
    for told in [
        "approval.required",
        "expires_ms",
        "https://desk.example/approvals/",
    ] {
        assert!(refused.contains(told), "{told}: {refused}");
    }
    assert!(!text.contains("palisade approve"), "{text}");
    assert!(answered.contains("Ann"), "{answered}");
}

/// A program that is ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(program: &str) -> Running {
    let mut command = Command::new(program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    Running(command.spawn().unwrap())
}

fn initialize() -> String {
    let params = r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"0"}}"#;
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{params}}}"#)
}

fn call(tool: &str) -> String {
    call_with(tool, SQL)
}

fn call_with(tool: &str, sql: &str) -> String {
    let params = format!(r#"{{"name":"{tool}","arguments":{{"sql":"{sql}"}}}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{params}}}"#)
}

#[test]
fn serves_a_tool_of_its_own() {
    let mut server = start(env!("CARGO_BIN_EXE_own-mcp-server"));
    let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines();
    let mut input = server.0.stdin.take().unwrap();
    writeln!(input, "{}", initialize()).unwrap();
    assert!(lines.next().unwrap().unwrap().contains("\"tools\""));
    writeln!(
        input,
        r#"{{"jsonrpc":"2.0","method":"notifications/initialized"}}"#
    )
    .unwrap();
    writeln!(input, "{}", call("ask_customers")).unwrap();
    let answer = lines.next().unwrap().unwrap();
    has_masked_rows(&answer);
    for mark in ["data-not-instructions", "before_rows", "rows_end"] {
        assert!(answer.contains(mark), "{answer}");
    }
    let overflow = "SELECT sum(id + 9223372036854775000) FROM customers";
    writeln!(input, "{}", call_with("ask_customers", overflow)).unwrap();
    let refused = lines.next().unwrap().unwrap();
    for told in ["remediation_hint", "incident", "[\"ask_customers\"]"] {
        assert!(refused.contains(told), "{told}: {refused}");
    }
}

#[test]
fn serves_palisades_tools_beside_its_own() {
    let mut server = start(env!("CARGO_BIN_EXE_beside-own-tools"));
    let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines();
    let mut input = server.0.stdin.take().unwrap();
    let mut ask = |request: &str| {
        writeln!(input, "{request}").unwrap();
        lines.next().unwrap().unwrap()
    };
    let told = ask(&initialize());
    assert!(
        told.contains("\"tools\"") && !told.contains("\"prompts\""),
        "{told}"
    );
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let list = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;
    let tools = ask(&format!("{ready}\n{list}"));
    assert!(
        tools.contains("\"query\"") && tools.contains("\"opening_hours\""),
        "{tools}"
    );
    let hours =
        r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"opening_hours"}}"#;
    let hours = ask(hours);
    assert!(hours.contains("from nine to five"), "{hours}");
    has_masked_rows(&ask(&call("query")));
}

#[test]
fn is_mounted_in_another_server() {
    let mut server = start(env!("CARGO_BIN_EXE_mounted-in-axum"));
    let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines();
    let address = lines.next().unwrap().unwrap();
    let address = address
        .trim_start_matches("http://")
        .trim_end_matches("/mcp");
    let ask = |request: String| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let get = format!("GET /health HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    assert!(ask(get).ends_with("well"));
    let post = |key: &str, body: String| {
        let length = body.len();
        ask(format!(
            "POST /mcp HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\nconnection: close\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\nmcp-protocol-version: 2025-06-18\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
    };
    let answer = post("key-of-support", initialize());
    assert!(answer.contains("\"tools\""), "{answer}");
    has_masked_rows(&post("key-of-support", call("query")));
    let other = post("key-of-billing", call("query"));
    assert!(other.contains("Eve") && !other.contains("Ann"), "{other}");
    let none = post("key-of-nobody", call("query"));
    assert!(none.contains("policy.no-permit"), "{none}");
    assert!(!none.contains("Ann") && !none.contains("Eve"), "{none}");
}
