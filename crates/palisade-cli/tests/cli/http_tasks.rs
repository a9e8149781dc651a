//! Calls over HTTP that go on as tasks: whose they are, how they end, and where there are none.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    cancel::{SLOW, wait_until},
    desk::Desk,
    http::{BOT, PATIENCE, Request, Server, make_token},
    shop::Shop,
};

/// One who asks: a server, a token, and what its requests narrow.
#[derive(Clone, Copy)]
struct Caller<'a> {
    server: &'a Server,
    token: &'a str,
    path: &'a str,
    headers: &'a [(&'a str, &'a str)],
}

impl<'a> Caller<'a> {
    fn new(server: &'a Server, token: &'a str) -> Self {
        Self {
            server,
            token,
            path: "/mcp",
            headers: &[],
        }
    }

    /// Sends a request of the newest revision, of a client that knows tasks.
    fn send(&self, method: &str, mut params: Value) -> Value {
        let name = params["name"].as_str().or(params["taskId"].as_str());
        let name = name.unwrap_or_default().to_owned();
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
        });
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut request = Request::post_in("2026-07-28", self.path, &body)
            .header("Mcp-Method", method)
            .header("Mcp-Name", &name)
            .bearer(self.token);
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        self.server.send(&request).json()
    }

    fn call(&self, tool: &str, arguments: &Value) -> Value {
        let answer = self.send("tools/call", json!({"name": tool, "arguments": arguments}));
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    /// The id of the task that a call becomes.
    fn begin(&self, tool: &str, arguments: &Value) -> String {
        let answer = self.call(tool, arguments);
        assert_eq!(answer["resultType"], "task", "{answer}");
        answer["taskId"].as_str().unwrap().to_owned()
    }

    fn ask(&self, method: &str, id: &str) -> Value {
        self.send(method, json!({"taskId": id, "inputResponses": {}}))
    }

    /// What the task becomes, once it is over.
    fn poll(&self, id: &str) -> Value {
        let began = Instant::now();
        loop {
            let answer = self.ask("tasks/get", id);
            let told = &answer["result"];
            let status = told["status"]
                .as_str()
                .unwrap_or_else(|| panic!("{answer}"));
            if !["working", "input_required"].contains(&status) {
                return told.clone();
            }
            assert!(began.elapsed() < PATIENCE, "{answer}");
            sleep(Duration::from_millis(200));
        }
    }
}

/// A shop with many numbers, served over HTTP.
fn numbers(label: &str) -> Shop {
    let shop = Shop::new(label);
    shop.load(&format!(
        "CREATE TABLE numbers AS SELECT n::int FROM generate_series(1, 2000) AS n; GRANT SELECT ON numbers TO {};",
        shop.reader
    ));
    shop.desk.write(
        "p/numbers.cedar",
        "permit (principal, action == Action::\"see\", resource is row::public::numbers);",
    );
    shop.desk.write(
        "palisade.toml",
        format!(
            "policies = \"p\"\naudit = \"audit.jsonl\"\n[grants]\nhosts = [\"{}:{}\"]\n[connections.shop]\nurl = \"{}\"\n",
            shop.server.host(),
            shop.server.port(),
            shop.url()
        ),
    );
    shop
}

/// The codes of the records, without those of trials that ran out of their time.
fn codes(desk: &Desk) -> Vec<Value> {
    let records = desk.records("audit.jsonl").into_iter();
    let codes = records.map(|record| record["code"].clone());
    codes.filter(|code| code != "limit.time").collect()
}

#[test]
fn a_task_ends_on_the_database_when_nobody_may_wait_for_it() {
    let shop = numbers("tasks");
    let desk = &shop.desk;
    let token = make_token(desk, "one", crate::shop::BOT, &[]);
    let other = make_token(desk, "two", crate::shop::BOT, &[]);
    let mut server = Server::start(desk);
    let activity = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE usename = '{}' AND state = 'active'",
        shop.reader
    );
    let running = |count: usize| wait_until(&shop, &activity, |running| running == count);
    let slow = json!({"sql": SLOW});
    let owner = Caller::new(&server, &token);
    // It runs on without its request, until it is cancelled.
    let id = owner.begin("query", &slow);
    running(1);
    let ack = owner.ask("tasks/cancel", &id);
    assert_eq!(ack["result"], json!({"resultType": "complete"}));
    running(0);
    assert_eq!(owner.poll(&id)["status"], "cancelled");
    assert_eq!(codes(desk), ["limit.cancelled"]);
    // To a token of the same principal, and to the same token that narrows its request, it is not there.
    let id = owner.begin("query", &slow);
    running(1);
    let made_up = owner.ask("tasks/get", &"0".repeat(64));
    assert_eq!(made_up["error"]["code"], -32602, "{made_up}");
    let narrowed = [("Palisade-Tools", "query")];
    let read_only = [("Palisade-Read-Only", "true")];
    for stranger in [
        Caller::new(&server, &other),
        Caller {
            headers: &narrowed,
            ..owner
        },
        Caller {
            headers: &read_only,
            ..owner
        },
        Caller {
            path: "/mcp/readonly",
            ..owner
        },
    ] {
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            assert_eq!(stranger.ask(method, &id), made_up, "{method}");
        }
    }
    running(1);
    assert_eq!(owner.ask("tasks/get", &id)["result"]["status"], "working");
    // It ends with its token, within some seconds.
    desk.run(&["token", "revoke", "one", "--config", "palisade.toml"])
        .expect_exit(0);
    running(0);
    // And with the server.
    Caller::new(&server, &other).begin("query", &slow);
    running(1);
    assert_eq!(server.terminate(), Some(0));
    running(0);
    assert_eq!(codes(desk), ["limit.cancelled"; 3]);
}

/// A task is one server's. Where requests go to any of several, an operator has none.
#[test]
fn a_task_lives_in_one_server() {
    let shop = numbers("taskfleet");
    let desk = &shop.desk;
    let token = make_token(desk, "one", crate::shop::BOT, &[]);
    let (server, beside) = (Server::start(desk), Server::start(desk));
    let (owner, elsewhere) = (Caller::new(&server, &token), Caller::new(&beside, &token));
    let id = owner.begin("query", &json!({"sql": SLOW}));
    let lost = elsewhere.ask("tasks/get", &id);
    assert_eq!(lost["error"]["code"], -32602, "{lost}");
    owner.ask("tasks/cancel", &id);
    assert_eq!(owner.poll(&id)["status"], "cancelled");
    let config = std::fs::read_to_string(desk.path("palisade.toml")).unwrap();
    for (lines, has_tasks) in [
        ("sessions = false", false),
        ("tasks = false", false),
        ("sessions = false\ntasks = true", true),
    ] {
        desk.write("palisade.toml", format!("{config}[http]\n{lines}\n"));
        let server = Server::start(desk);
        let owner = Caller::new(&server, &token);
        let discovered = owner.send("server/discover", json!({}));
        let extensions = &discovered["result"]["capabilities"]["extensions"];
        assert_eq!(extensions.is_object(), has_tasks, "{lines}: {discovered}");
        let slow = json!({"sql": SLOW, "timeout_ms": 4000});
        let answer = owner.call("query", &slow);
        let kind = if has_tasks { "task" } else { "complete" };
        assert_eq!(answer["resultType"], kind, "{lines}: {answer}");
    }
}

/// A call that waits for a person is answered at once with a task, which goes on by itself when somebody approves it.
#[test]
fn a_task_goes_on_when_its_call_is_approved() {
    let desk = Desk::new();
    desk.policy(
        "permit (principal, action in [Action::\"select\", Action::\"see\", Action::\"read\", Action::\"write\"], resource);\n\
         permit (principal, action in [Action::\"change\", Action::\"add\"], resource);\n\
         @id(\"with-approval\") @approval(\"required\")\n\
         permit (principal, action == Action::\"update\", resource);",
    );
    desk.write(
        "palisade.toml",
        "policies = \"p\"\naudit = \"audit.jsonl\"\n[approvals]\nstate = \"approvals.db\"\n[http]\n[connections.desk]\nurl = \"sqlite:demo.db\"\nwritable = true\n",
    );
    let token = make_token(&desk, "one", BOT, &[]);
    let server = Server::start(&desk);
    let owner = Caller::new(&server, &token);
    let close =
        json!({"sql": "UPDATE tickets SET subject = 'geheim' WHERE id = 1", "format": "json"});
    let began = Instant::now();
    let id = owner.begin("execute", &close);
    // It is not waited for until it takes long.
    assert!(
        began.elapsed() < Duration::from_millis(1_900),
        "{:?}",
        began.elapsed()
    );
    let waiting = owner.ask("tasks/get", &id);
    let said = waiting["result"]["statusMessage"].as_str().unwrap();
    let (_, rest) = said.split_once("`palisade approve ").unwrap();
    let request = rest.split_once('`').unwrap().0.to_owned();
    desk.run(&["approve", &request, "--config", "palisade.toml"])
        .expect_exit(0);
    let done = owner.poll(&id);
    assert_eq!(
        done["result"]["structuredContent"]["affected_rows"], 1,
        "{done}"
    );
    // What waited and what ran are on record, and nothing of what was written.
    let text = std::fs::read_to_string(desk.path("audit.jsonl")).unwrap();
    assert!(!text.contains("geheim"));
    let records = desk.records("audit.jsonl");
    let decisions: Vec<_> = records.iter().map(|record| &record["decision"]).collect();
    assert_eq!(decisions, ["reject", "allow"], "{records:?}");
}
