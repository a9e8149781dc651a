//! Sessions of `palisade serve --http`: clients of older revisions are asked and told as over standard input and output. No
//! one reaches the session of another.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    cancel::{SLOW, wait_until},
    desk::Desk,
    http::{BOT, PATIENCE, Request, Response, Server, desk, make_token},
    shop::Shop,
};

/// A client that has begun a session.
struct Client<'s> {
    server: &'s Server,
    token: String,
    id: String,
}

fn initialize(capabilities: &Value) -> Request {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "t", "version": "0"}});
    Request::post(
        "/mcp",
        &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}),
    )
}

impl<'s> Client<'s> {
    fn begin(server: &'s Server, token: &str, capabilities: &Value) -> Self {
        let answer = server.send(&initialize(capabilities).bearer(token));
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(
            answer.json()["result"]["capabilities"]["resources"]["subscribe"] == true,
            "{answer:?}"
        );
        let id = answer.header("mcp-session-id").unwrap().to_owned();
        let client = Self {
            server,
            token: token.to_owned(),
            id,
        };
        let told = client.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert_eq!(told.status, 202, "{told:?}");
        client
    }

    fn sign(&self, request: Request) -> Request {
        request
            .bearer(&self.token)
            .header("Mcp-Session-Id", &self.id)
    }

    fn post(&self, message: &Value) -> Response {
        self.server.send(&self.sign(Request::post("/mcp", message)))
    }

    fn ask(&self, method: &str, params: &Value) -> Value {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let answer = self.post(&message);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// Begins a call, whose answer comes later.
    fn call(&self, id: i64, tool: &str, arguments: &Value) -> Events {
        let params = json!({"name": tool, "arguments": arguments});
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        Events::open(self.server, &self.sign(Request::post("/mcp", &call)))
    }

    /// What the server says by itself, from after the event of this name on.
    fn listen(&self, last: Option<&str>) -> Events {
        let request = self.sign(Request::get("/mcp").header("Accept", "text/event-stream"));
        let request = match last {
            Some(last) => request.header("Last-Event-ID", last),
            None => request,
        };
        Events::open(self.server, &request)
    }

    fn delete(&self) -> Response {
        let request = Request::without_body("DELETE", "/mcp");
        self.server.send(&self.sign(request))
    }
}

/// A stream of events.
struct Events {
    lines: BufReader<TcpStream>,
    /// The name of the last event.
    last: String,
}

impl Events {
    fn open(server: &Server, request: &Request) -> Self {
        let mut stream = server.connect();
        stream
            .write_all(request.write(&server.address).as_bytes())
            .unwrap();
        let mut lines = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(lines.read_line(&mut head).unwrap() > 0, "{head}");
        }
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(head.contains("text/event-stream"), "{head}");
        Self {
            lines,
            last: String::new(),
        }
    }

    /// The next message. None where the stream ends first.
    fn next(&mut self) -> Option<Value> {
        let mut is_event = None;
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            if let Some(name) = line.strip_prefix("id: ") {
                name.trim().clone_into(&mut self.last);
            }
            if let Some(data) = line.strip_prefix("data: ") {
                is_event = serde_json::from_str(data).ok();
            }
            // An event ends with an empty line.
            if line.trim().is_empty() && is_event.is_some() {
                return is_event;
            }
        }
    }

    fn wait_for(&mut self, method: &str) -> Value {
        loop {
            let message = self.next().unwrap();
            if message["method"] == method {
                return message;
            }
        }
    }

    /// Reads on until the stream ends, which it does within `time`.
    fn end(mut self, time: Duration) {
        let began = Instant::now();
        while self.next().is_some() {
            assert!(began.elapsed() < time);
        }
        assert!(began.elapsed() < time, "{:?}", began.elapsed());
    }
}

#[test]
fn a_session_is_of_who_began_it() {
    let desk = desk("");
    let bot = make_token(&desk, "bot", BOT, &[]);
    let second = make_token(&desk, "second", BOT, &[]);
    let other = make_token(&desk, "other", "Agent::\"stranger\"", &[]);
    let server = Server::start(&desk);
    let client = Client::begin(&server, &bot, &json!({}));
    assert!(client.id.len() >= 43, "{}", client.id);
    let again = Client::begin(&server, &bot, &json!({}));
    assert_ne!(client.id, again.id);
    let query = json!({"name": "query", "arguments": {"sql": "SELECT count(*) AS n FROM customers", "format": "json"}});
    let answer = client.ask("tools/call", &query);
    let rows = &answer["result"]["structuredContent"]["rows"];
    assert!(rows[0]["n"].as_i64().is_some_and(|n| n > 0), "{answer}");
    // Records name the session, by another name than its client does.
    let records = desk.records("audit.jsonl");
    let session = records.last().unwrap()["session"].as_str().unwrap();
    assert!(!session.is_empty() && !client.id.contains(session));
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let requests = || {
        [
            Request::post("/mcp", &list),
            Request::get("/mcp").header("Accept", "text/event-stream"),
            Request::without_body("DELETE", "/mcp"),
        ]
    };
    // Another token's session is as one that there is not: of another principal, and of the same.
    for token in [&other, &second] {
        for (one, none) in requests().into_iter().zip(requests()) {
            let answer = |request: Request, id: &str| {
                let request = request.bearer(token).header("Mcp-Session-Id", id);
                let answer = server.send(&request);
                (answer.status, answer.body)
            };
            let made_up = answer(none, &"A".repeat(43));
            assert_eq!(made_up.0, 404, "{made_up:?}");
            assert!(made_up.1.contains("initialize"), "{made_up:?}");
            assert_eq!(answer(one, &client.id), made_up);
        }
    }
    // Neither does its id let anyone in.
    for request in requests() {
        let answer = server.send(&request.header("Mcp-Session-Id", &client.id));
        assert_eq!(answer.status, 401, "{answer:?}");
    }
    // A session stays as wide as it was begun.
    let narrowed = [
        Request::post("/mcp", &list).header("Palisade-Tools", "query"),
        Request::post("/mcp", &list).header("Palisade-Read-Only", "true"),
        Request::post("/mcp/readonly", &list),
    ];
    for request in narrowed {
        let answer = server.send(&client.sign(request));
        assert_eq!(answer.status, 400, "{answer:?}");
        assert!(answer.body.contains("send the same"), "{answer:?}");
    }
    let twice = client
        .sign(Request::post("/mcp", &list))
        .header("Mcp-Session-Id", &again.id);
    assert_eq!(server.send(&twice).status, 400);
    // The newest revision has no sessions, and the id says nothing there.
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let newest =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}});
    let newest = Request::post_in("2026-07-28", "/mcp", &newest)
        .header("Mcp-Method", "tools/list")
        .header("Mcp-Session-Id", "none")
        .bearer(&bot);
    let answer = server.send(&newest);
    assert_eq!(answer.status, 200, "{answer:?}");
    // Who names no session is answered request by request.
    let alone = server.send(&Request::post("/mcp", &list).bearer(&bot));
    assert!(alone.json()["result"]["tools"].is_array(), "{alone:?}");
    let unnamed = Request::get("/mcp").header("Accept", "text/event-stream");
    assert_eq!(server.send(&unnamed.bearer(&bot)).status, 405);
    // It ends by its client's word, and no other one ends.
    assert_eq!(client.delete().status, 204);
    assert_eq!(client.post(&list).status, 404);
    assert_eq!(client.delete().status, 404);
    assert_eq!(again.post(&list).status, 200);
    assert!(!server.log.lock().unwrap().contains(&again.id));
}

#[test]
fn a_narrowed_session_stays_so() {
    let desk = desk("");
    let bot = make_token(&desk, "bot", BOT, &[]);
    let server = Server::start(&desk);
    let few = |request: Request| request.header("Palisade-Tools", "query").bearer(&bot);
    let begun = server.send(&few(initialize(&json!({}))));
    let id = begun.header("mcp-session-id").unwrap();
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let list = Request::post("/mcp", &list).header("Mcp-Session-Id", id);
    let answer = server.send(&few(list.clone()));
    let tools = answer.json()["result"]["tools"].clone();
    assert_eq!(tools.as_array().unwrap().len(), 1, "{answer:?}");
    // Without the header it would be wider.
    let wider = server.send(&list.bearer(&bot));
    assert_eq!(wider.status, 400, "{wider:?}");
}

#[test]
fn sessions_can_be_turned_off() {
    let desk = desk("sessions = false");
    let bot = make_token(&desk, "bot", BOT, &[]);
    let server = Server::start(&desk);
    let answer = server.send(&initialize(&json!({})).bearer(&bot));
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("mcp-session-id"), None);
    // A client that had a session of another server of the fleet is answered all the same.
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let list = Request::post("/mcp", &list).header("Mcp-Session-Id", "x");
    assert_eq!(server.send(&list.bearer(&bot)).status, 200);
    let listen = Request::get("/mcp").header("Accept", "text/event-stream");
    assert_eq!(server.send(&listen.bearer(&bot)).status, 405);
}

const WITH_APPROVAL: &str = r#"
permit (principal, action in [Action::"select", Action::"see", Action::"read", Action::"write"], resource);
permit (principal, action in [Action::"change", Action::"add"], resource);
@id("with-approval") @approval("required")
permit (principal, action in [Action::"update", Action::"delete"], resource);
"#;

/// The demonstration's database, whose changes need an approval.
fn approving(lines: &str) -> Desk {
    let desk = Desk::new();
    desk.policy(WITH_APPROVAL);
    desk.write(
        "palisade.toml",
        format!(
            "policies = \"p\"\naudit = \"audit.jsonl\"\n[approvals]\nstate = \"approvals.db\"\n{lines}\n\
             [connections.desk]\nurl = \"sqlite:demo.db\"\nwritable = true\n"
        ),
    );
    desk
}

/// The ids of requests that wait.
fn list_waiting(desk: &Desk) -> Vec<String> {
    let run = ["approvals", "--format", "json", "--config", "palisade.toml"];
    let out = desk.run(&run).expect_exit(0).out;
    out.lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|line| line["id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_person_is_asked_within_a_session() {
    let desk = approving("");
    let bot = make_token(&desk, "bot", BOT, &[]);
    let other = make_token(&desk, "other", "Agent::\"other\"", &[]);
    let server = Server::start(&desk);
    let client = Client::begin(&server, &bot, &json!({"elicitation": {}}));
    let stranger = Client::begin(&server, &other, &json!({"elicitation": {}}));
    let change =
        |id: i64| json!({"sql": format!("UPDATE tickets SET subject = 'x' WHERE id = {id}")});
    let answer = |question: &Value, said: &Value| json!({"jsonrpc": "2.0", "id": question["id"], "result": said});
    let yes = json!({"action": "accept", "content": {"approve": true}});
    // The question comes with the answer to the call, whether the client listens or not.
    let mut call = client.call(7, "execute", &change(1));
    let question = call.wait_for("elicitation/create");
    let text = question["params"]["message"].as_str().unwrap();
    assert!(text.contains("UPDATE tickets"), "{text}");
    // No one else can answer it, in a session of their own or in this one.
    assert_eq!(stranger.post(&answer(&question, &yes)).status, 202);
    let forged = Request::post("/mcp", &answer(&question, &yes)).bearer(&other);
    let forged = server.send(&forged.header("Mcp-Session-Id", &client.id));
    assert_eq!(forged.status, 404, "{forged:?}");
    assert_eq!(list_waiting(&desk).len(), 1);
    assert_eq!(client.post(&answer(&question, &yes)).status, 202);
    let result = call.next().unwrap();
    assert_eq!(result["id"], 7, "{result}");
    assert_ne!(result["result"]["isError"], true, "{result}");
    call.end(PATIENCE);
    let subject = client.ask(
        "tools/call",
        &json!({"name": "query", "arguments": {"sql": "SELECT subject FROM tickets WHERE id = 1", "format": "json"}}),
    );
    assert_eq!(
        subject["result"]["structuredContent"]["rows"],
        json!([{"subject": "x"}])
    );
    // Who says no leaves it waiting for `palisade approve`, and is not asked again.
    let mut call = client.call(8, "execute", &change(2));
    let question = call.wait_for("elicitation/create");
    assert_eq!(
        client
            .post(&answer(&question, &json!({"action": "decline"})))
            .status,
        202
    );
    let refused = call.next().unwrap();
    assert_eq!(
        refused["result"]["structuredContent"]["code"], "approval.required",
        "{refused}"
    );
    assert_eq!(list_waiting(&desk).len(), 1);
    let again = client.call(9, "execute", &change(2)).next().unwrap();
    assert_eq!(again["id"], 9, "{again}");
    assert_eq!(again["result"]["isError"], true, "{again}");
}

#[test]
fn a_person_is_sent_to_the_page_within_a_session() {
    let desk = approving("page = \"https://desk.example/approve/{id}\"");
    let bot = make_token(&desk, "bot", BOT, &[]);
    let server = Server::start(&desk);
    let client = Client::begin(&server, &bot, &json!({"elicitation": {"url": {}}}));
    let change = json!({"sql": "UPDATE tickets SET subject = 'y' WHERE id = 1"});
    let mut call = client.call(7, "execute", &change);
    let question = call.wait_for("elicitation/create");
    let params = &question["params"];
    let id = params["elicitationId"].as_str().unwrap();
    assert_eq!(params["url"], format!("https://desk.example/approve/{id}"));
    // The client's word opens the page, and approves nothing.
    let opened = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"approve": true}}});
    assert_eq!(client.post(&opened).status, 202);
    assert_eq!(list_waiting(&desk), [id]);
    desk.run(&["approve", id, "--config", "palisade.toml"])
        .expect_exit(0);
    let told = call.next().unwrap();
    assert_eq!(
        told["method"], "notifications/elicitation/complete",
        "{told}"
    );
    let result = call.next().unwrap();
    assert_ne!(result["result"]["isError"], true, "{result}");
}

#[test]
fn news_are_told_to_who_listens() {
    const UPDATED: &str = "notifications/resources/updated";
    let everything = "permit (principal, action, resource);";
    let masked = format!(
        "{everything}\n@mask(\"null\") forbid (principal, action == Action::\"read_plain\", resource == Column::\"main.customers.email\");"
    );
    let desk = Desk::new();
    desk.policy(everything);
    desk.write(
        "palisade.toml",
        "policies = \"p\"\n[connections.demo]\nurl = \"sqlite:demo.db\"\n",
    );
    let bot = make_token(&desk, "bot", BOT, &[]);
    let mut server = Server::start(&desk);
    let client = Client::begin(&server, &bot, &json!({}));
    let uri = json!({"uri": "palisade://databases/demo/policy"});
    let mut heard = client.listen(None);
    assert!(client.ask("resources/subscribe", &uri)["result"].is_object());
    desk.policy(&masked);
    let told = heard.wait_for(UPDATED);
    assert_eq!(told["params"], uri, "{told}");
    let first = heard.last.clone();
    // What becomes other while no one listens is told to who comes again.
    drop(heard);
    desk.policy(everything);
    std::thread::sleep(Duration::from_secs(2));
    let mut heard = client.listen(None);
    heard.wait_for(UPDATED);
    let second = heard.last.clone();
    assert_ne!(first, second);
    // A client that says where it was is told what came after that, and whoever listened before is told nothing more.
    let mut again = client.listen(Some(&first));
    again.wait_for(UPDATED);
    assert_eq!(again.last, second);
    heard.end(PATIENCE);
    let mut again = client.listen(Some(&second));
    desk.policy(&masked);
    again.wait_for(UPDATED);
    assert_ne!(again.last, second);
    // The end of the server does not wait for who listens.
    let began = Instant::now();
    assert_eq!(server.terminate(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(8), "{began:?}");
    again.end(PATIENCE);
}

/// Who gives up a request within a session ends its statement, in each way there is.
#[test]
fn a_request_that_is_given_up_ends_its_statement() {
    let shop = Shop::new("sessions");
    shop.load(&format!(
        "CREATE TABLE numbers AS SELECT n::int FROM generate_series(1, 2000) AS n; GRANT SELECT ON numbers TO {};",
        shop.reader
    ));
    let desk = &shop.desk;
    desk.write(
        "p/numbers.cedar",
        "permit (principal, action == Action::\"see\", resource is row::public::numbers);",
    );
    desk.write(
        "palisade.toml",
        format!(
            "policies = \"p\"\n[grants]\nhosts = [\"{}:{}\"]\n[connections.shop]\nurl = \"{}\"\n",
            shop.server.host(),
            shop.server.port(),
            shop.url()
        ),
    );
    let token = make_token(desk, "one", crate::shop::BOT, &[]);
    let server = Server::start(desk);
    let activity = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE usename = '{}' AND state = 'active'",
        shop.reader
    );
    let client = Client::begin(&server, &token, &json!({}));
    let slow = json!({"sql": SLOW});
    let running = |count: usize| wait_until(&shop, &activity, |running| running == count);
    // By its word.
    let call = client.call(7, "query", &slow);
    running(1);
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    assert_eq!(client.post(&cancel).status, 202);
    running(0);
    call.end(PATIENCE);
    // By going away.
    let call = client.call(8, "query", &slow);
    running(1);
    drop(call);
    running(0);
    // Whoever comes again at once has not gone.
    let mut call = client.call(9, "query", &slow);
    running(1);
    let mut line = String::new();
    while !line.contains("id: ") {
        line.clear();
        call.lines.read_line(&mut line).unwrap();
    }
    let place = line.trim().strip_prefix("id: ").unwrap().to_owned();
    drop(call);
    let call = client.listen(Some(&place));
    std::thread::sleep(Duration::from_secs(2));
    running(1);
    // An id is given once at a time.
    let twice = client.call(9, "query", &slow).next().unwrap();
    assert!(
        twice["error"]["message"]
            .as_str()
            .unwrap()
            .contains("id of its own"),
        "{twice}"
    );
    // By the end of its session.
    assert_eq!(client.delete().status, 204);
    running(0);
    call.end(PATIENCE);
    // By the end of its token, within a second or so; and nothing is told any more.
    let client = Client::begin(&server, &token, &json!({}));
    let call = client.call(7, "query", &slow);
    let heard = client.listen(None);
    running(1);
    desk.run(&["token", "revoke", "one", "--config", "palisade.toml"])
        .expect_exit(0);
    heard.end(Duration::from_secs(4));
    call.end(Duration::from_secs(4));
    running(0);
}

#[test]
fn one_token_has_so_many_sessions() {
    let desk = desk("requests_per_minute = 10000\nconnections = 1000");
    let bot = make_token(&desk, "bot", BOT, &[]);
    let other = make_token(&desk, "other", BOT, &[]);
    let server = Server::start(&desk);
    let theirs = Client::begin(&server, &other, &json!({}));
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let oldest = Client::begin(&server, &bot, &json!({}));
    let read = Client::begin(&server, &bot, &json!({}));
    let mut heard = vec![read.listen(None)];
    // What was not used for longest gives way, and what is read does not.
    for _ in 0..63 {
        Client::begin(&server, &bot, &json!({}));
    }
    assert_eq!(oldest.post(&list).status, 404);
    assert_eq!(read.post(&list).status, 200);
    assert_eq!(theirs.post(&list).status, 200);
    // Where all are read, there is no other, and others are none the poorer.
    for _ in 0..63 {
        heard.push(Client::begin(&server, &bot, &json!({})).listen(None));
    }
    let refused = server.send(&initialize(&json!({})).bearer(&bot));
    assert_eq!(refused.status, 429, "{refused:?}");
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    assert!(refused.body.contains("DELETE"), "{refused:?}");
    Client::begin(&server, &other, &json!({}));
    assert_eq!(theirs.post(&list).status, 200);
    drop(heard);
}
