//! A client that speaks to a server over its standard input and output, a line a message.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use palisade_benches::process::resident_mib;
use serde_json::{Value, json};

use crate::server::Program;

/// A running server; it ends with this value.
pub(crate) struct Client {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    name: &'static str,
    tool: &'static str,
    arguments: Value,
    id: u64,
}

impl Client {
    /// Starts a server and waits for its answer to `initialize`.
    pub(crate) fn start(program: &Program) -> Self {
        let mut child = Command::new(&program.path)
            .args(&program.arguments)
            .envs(program.environment.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut client = Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::with_capacity(256 * 1024, child.stdout.take().unwrap()),
            child,
            name: program.name,
            tool: program.tool,
            arguments: program.extra.clone(),
            id: 0,
        };
        let initialize = json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": {"name": "bench", "version": "0"},
            },
        });
        client.send(&initialize);
        let answer = client.read();
        assert!(answer.contains("serverInfo"), "{}: {answer}", client.name);
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    /// Runs a statement; its answer must hold these texts.
    pub(crate) fn ask(&mut self, sql: &str, expected: &[&str]) {
        self.call(sql, json!({}));
        let answer = self.read();
        self.check(sql, &answer, expected);
    }

    /// As [`ask`](Self::ask), with what the tool takes where many rows are wanted.
    pub(crate) fn ask_rows(&mut self, sql: &str, expected: &[&str]) {
        self.call(sql, self.arguments.clone());
        let answer = self.read();
        self.check(sql, &answer, expected);
    }

    /// Runs statements, `in_flight` at a time; each has a text that its answer must hold.
    pub(crate) fn ask_many(&mut self, calls: &[(String, String)], in_flight: usize) {
        let first = self.id + 1;
        let mut waiting = calls.iter();
        for (sql, _) in waiting.by_ref().take(in_flight) {
            self.call(sql, json!({}));
        }
        for _ in calls {
            let answer = self.read();
            if let Some((sql, _)) = waiting.next() {
                self.call(sql, json!({}));
            }
            let parsed: Value = serde_json::from_str(&answer).unwrap();
            let index = usize::try_from(parsed["id"].as_u64().unwrap() - first).unwrap();
            let (sql, expected) = &calls[index];
            self.check(sql, &answer, &[expected]);
        }
    }

    fn call(&mut self, sql: &str, mut arguments: Value) {
        self.id += 1;
        arguments["sql"] = json!(sql);
        let call = json!({
            "jsonrpc": "2.0", "id": self.id, "method": "tools/call",
            "params": {"name": self.tool, "arguments": arguments},
        });
        self.send(&call);
    }

    fn check(&self, sql: &str, answer: &str, expected: &[&str]) {
        for text in expected {
            assert!(
                answer.contains(text) && !answer.contains("\"isError\":true"),
                "{} has not `{text}` for {sql}: {answer}",
                self.name
            );
        }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    /// The next line that is an answer, not a notification.
    fn read(&mut self) -> String {
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line).unwrap();
            assert!(read > 0, "{} closed its output", self.name);
            if line.contains("\"result\"") || line.contains("\"error\"") {
                return line;
            }
        }
    }

    /// What the process has resident, in MiB.
    pub(crate) fn resident_mib(&self) -> f64 {
        resident_mib(self.child.id())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
