//! Requests over HTTP ask for less than they could have, and never get more.

use serde_json::{Value, json};

use crate::{
    desk::Desk,
    http::{BOT, Request, Response, Server, make_token},
};

/// May read everything and change nothing.
const READER: &str = "Agent::\"reader\"";

const POLICY: &str = r#"
permit (principal == Agent::"support-bot", action, resource);
permit (principal, action in [Action::"select", Action::"see", Action::"read"], resource);
"#;

const ALL: [&str; 1] = ["/mcp"];
const BOTH: [&str; 2] = ["/mcp", "/mcp/readonly"];

/// Two databases of which everything may be changed.
struct Place {
    server: Server,
    bot: String,
    reader: String,
    desk: Desk,
}

impl Place {
    fn open() -> Self {
        let desk = Desk::new();
        desk.policy(POLICY);
        std::fs::copy(desk.path("demo.db"), desk.path("quiet.db")).unwrap();
        let connection = |name: &str| {
            format!("[connections.{name}]\nurl = \"sqlite:{name}.db\"\nwritable = true\n")
        };
        desk.write(
            "palisade.toml",
            format!(
                "policies = \"p\"\naudit = \"audit.jsonl\"\n[http]\nrequests_per_minute = 10000\n{}{}",
                connection("demo"),
                connection("quiet")
            ),
        );
        let bot = make_token(&desk, "bot", BOT, &[]);
        let reader = make_token(&desk, "reader", READER, &[]);
        let server = Server::start(&desk);
        Self {
            server,
            bot,
            reader,
            desk,
        }
    }

    fn ask(
        &self,
        method: &str,
        params: &Value,
        (path, headers): (&str, &[(&str, &str)]),
    ) -> Response {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let request = Request::post(path, &body).bearer(&self.bot);
        self.send(request, headers)
    }

    fn send(&self, request: Request, headers: &[(&str, &str)]) -> Response {
        let with = |request: Request, (name, value): &(&str, &str)| request.header(name, value);
        self.server.send(&headers.iter().fold(request, with))
    }

    fn tools(&self, place: (&str, &[(&str, &str)])) -> Vec<String> {
        let answer = self.ask("tools/list", &json!({}), place);
        assert_eq!(answer.status, 200, "{place:?} {answer:?}");
        let json = answer.json();
        let tools = json["result"]["tools"].as_array().unwrap().iter();
        tools
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    }

    fn call(&self, tool: &str, arguments: &Value, headers: &[(&str, &str)]) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        let answer = self.ask("tools/call", &params, ("/mcp", headers));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }
}

#[test]
fn a_request_leaves_tools() {
    let place = Place::open();
    let all = place.tools(("/mcp", &[]));
    assert!(
        all.len() > 10 && all.contains(&"execute".to_owned()),
        "{all:?}"
    );
    let few = &[("Palisade-Tools", "query, describe_table")][..];
    assert_eq!(place.tools(("/mcp", few)), ["describe_table", "query"]);
    // What is not left does not run, though its principal may do all of it.
    let unlisted = place.call("list_tables", &json!({"connection": "demo"}), few);
    let told = unlisted["error"]["message"].as_str().unwrap();
    assert!(told.contains("there is no such tool"), "{unlisted}");
    let made_up = place.call("no_such", &json!({"connection": "demo"}), few);
    assert_eq!(made_up["error"]["message"], told);
    let change = json!({"connection": "demo", "sql": "UPDATE tickets SET subject = 'x'"});
    let refused = place.call("execute", &change, few);
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    let sql = json!({"connection": "demo", "sql": "SELECT count(*) AS n FROM tickets WHERE subject = 'x'", "format": "json"});
    let answer = place.call("query", &sql, few);
    assert_eq!(
        answer["result"]["structuredContent"]["rows"],
        json!([{"n": 0}]),
        "{answer}"
    );
    // Nor by another way: resources say what tools say.
    let uri = json!({"uri": "palisade://databases"});
    let read = place.ask("resources/read", &uri, ("/mcp", few));
    assert!(!read.body.contains("quiet"), "{read:?}");
    // Instructions name no tool that is not left.
    let begin = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}});
    let instructions = |headers: &[(&str, &str)]| {
        let answer = place.ask("initialize", &begin, ("/mcp", headers));
        answer.json()["result"]["instructions"].to_string()
    };
    assert!(instructions(&[]).contains("list_tables"));
    assert!(!instructions(few).contains("list_tables"));
    // A hint names nothing that is not left.
    let missing = json!({"connection": "demo", "sql": "SELECT x FROM nothing_here"});
    let hinted = place.call("query", &missing, &[("Palisade-Tools", "query")]);
    assert!(!hinted.to_string().contains("list_tables"), "{hinted}");
    // Each request stands for itself.
    assert_eq!(place.tools(("/mcp", &[])), all);
    // What is not left is in records as what is not there.
    let records = place.desk.records("audit.jsonl");
    assert!(records.iter().any(|record| record["tool"] == "list_tables"
        && record["decision"] == "reject"
        && record["code"] == "request.invalid"));
}

#[test]
fn a_request_leaves_databases() {
    let place = Place::open();
    let one = &[("Palisade-Databases", "demo")][..];
    let listed = place.call("list_databases", &json!({}), &[]);
    assert!(listed.to_string().contains("quiet"), "{listed}");
    for (method, params) in [
        (
            "tools/call",
            json!({"name": "list_databases", "arguments": {}}),
        ),
        ("tools/list", json!({})),
        ("resources/list", json!({})),
        ("prompts/list", json!({})),
        (
            "tools/call",
            json!({"name": "query", "arguments": {"connection": "nothing", "sql": "SELECT 1"}}),
        ),
    ] {
        let wide = place.ask(method, &params, ("/mcp", &[]));
        let narrow = place.ask(method, &params, ("/mcp", one));
        assert_eq!(narrow.status, 200, "{method}: {narrow:?}");
        assert!(!narrow.body.contains("quiet"), "{method}: {narrow:?}");
        if method != "prompts/list" {
            assert!(wide.body.contains("quiet"), "{method}: {wide:?}");
        }
    }
    let ask = |connection: &str| {
        let sql = json!({"connection": connection, "sql": "SELECT id FROM tickets"});
        place.call("query", &sql, one)
    };
    assert_ne!(ask("demo")["result"]["isError"], true);
    let hidden = ask("quiet");
    assert_eq!(hidden["result"]["isError"], true, "{hidden}");
    let absent = ask("never");
    assert_eq!(
        hidden["result"]["structuredContent"]["message"],
        absent["result"]["structuredContent"]["message"]
    );
}

#[test]
fn names_that_are_hidden_and_that_are_not_there_get_one_answer() {
    let place = Place::open();
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let ask = |token: &str, header: (&str, &str)| {
        let request = Request::post("/mcp", &list).bearer(token);
        place.send(request, &[header])
    };
    // `execute` is for the bot, and hidden from the reader.
    assert_eq!(ask(&place.bot, ("Palisade-Tools", "execute")).status, 200);
    let hidden = ask(&place.reader, ("Palisade-Tools", "query,execute"));
    assert_eq!(hidden.status, 400, "{hidden:?}");
    for absent in [
        ask(&place.reader, ("Palisade-Tools", "query,no_such")),
        ask(&place.reader, ("Palisade-Databases", "demo,never")),
        ask(&place.bot, ("Palisade-Databases", "Demo")),
    ] {
        assert_eq!((absent.status, &absent.body), (400, &hidden.body));
    }
    // Without a token nothing is told of names at all.
    for header in [("Palisade-Tools", "query"), ("Palisade-Tools", "no_such")] {
        let answer = place.send(Request::post("/mcp", &list), &[header]);
        assert_eq!(answer.status, 401, "{answer:?}");
    }
}

#[test]
fn a_request_only_narrows() {
    let place = Place::open();
    let has_execute = |place: &Place, at: (&str, &[(&str, &str)])| {
        place.tools(at).contains(&"execute".to_owned())
    };
    assert!(has_execute(&place, ("/mcp", &[])));
    assert!(!has_execute(
        &place,
        ("/mcp", &[("Palisade-Read-Only", "true")])
    ));
    assert!(!has_execute(
        &place,
        ("/mcp/readonly", &[("Palisade-Tools", "query,execute")])
    ));
    let read_only = [
        ("Palisade-Read-Only", "true"),
        ("Palisade-Tools", "execute"),
    ];
    assert_eq!(place.tools(("/mcp", &read_only)), Vec::<String>::new());
    let change = json!({"connection": "demo", "sql": "UPDATE tickets SET subject = 'x'"});
    let refused = place.call("execute", &change, &read_only);
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    for (paths, header, why) in [
        (
            &BOTH[..],
            ("Palisade-Read-Only", "false"),
            "can only be `true`",
        ),
        (&BOTH, ("Palisade-Read-Only", "0"), "can only be `true`"),
        (&BOTH, ("Palisade-Principal", BOT), "there is no header"),
        (&BOTH, ("Palisade-Tenant", "a"), "there is no header"),
        (&BOTH, ("Palisade_Tools", "query"), "there is no header"),
        (&ALL, ("Palisade-Tools", ""), "names with commas"),
        (&ALL, ("Palisade-Tools", "*"), "names with commas"),
        (
            &ALL,
            ("Palisade-Databases", "demo;quiet"),
            "names with commas",
        ),
    ] {
        for path in paths {
            let answer = place.ask("tools/list", &json!({}), (path, &[header]));
            assert_eq!(answer.status, 400, "{header:?} {answer:?}");
            assert!(answer.body.contains(why), "{header:?} {answer:?}");
        }
    }
    let twice = [("Palisade-Tools", "query"), ("Palisade-Tools", "execute")];
    let answer = place.ask("tools/list", &json!({}), ("/mcp", &twice));
    assert!(
        answer.status == 400 && answer.body.contains("twice"),
        "{answer:?}"
    );
    for query in ["?tools=query", "?principal=x", "?"] {
        let path = format!("/mcp{query}");
        let answer = place.ask("tools/list", &json!({}), (&path, &[]));
        assert_eq!(answer.status, 400, "{query} {answer:?}");
    }
    // An argument chooses no principal either.
    for arguments in [
        json!({"connection": "demo", "sql": "SELECT 1", "principal": BOT}),
        json!({"connection": "demo", "sql": "SELECT 1", "tenant": "a"}),
    ] {
        let refused = place.call("query", &arguments, &[]);
        assert_eq!(
            refused["result"]["structuredContent"]["code"], "request.invalid",
            "{refused}"
        );
    }
}

/// In the revision without a handshake, headers of one request narrow that one.
#[test]
fn revisions_narrow_alike() {
    let place = Place::open();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
    });
    let ask = |method: &str, headers: &[(&str, &str)]| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta}});
        let request = Request::post_in("2026-07-28", "/mcp", &body).header("Mcp-Method", method);
        let answer = place.send(request.bearer(&place.bot), headers);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body
    };
    let narrowed = [("Palisade-Databases", "demo"), ("Palisade-Tools", "query")];
    for (method, name) in [("tools/list", "quiet"), ("server/discover", "list_tables")] {
        let (wide, narrow) = (ask(method, &[]), ask(method, &narrowed));
        assert!(wide.contains(name), "{method}: {wide}");
        assert!(!narrow.contains(name), "{method}: {narrow}");
    }
    let tools = ask("tools/list", &narrowed);
    assert!(
        tools.contains("\"query\"") && !tools.contains("\"execute\""),
        "{tools}"
    );
}
