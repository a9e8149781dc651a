//! `palisade serve --http`, over real sockets.

use std::{
    io::{BufRead as _, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Stdio},
    sync::Arc,
    thread::sleep,
    time::{Duration, Instant},
};

use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, ServerName},
};
use serde_json::{Value, json};

use crate::{
    cancel::{SLOW, wait_until},
    desk::Desk,
    shop::Shop,
};

/// Time for what a busy machine does late.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A server at an address; it ends with this value.
pub(crate) struct Server {
    child: Child,
    /// Where it listens.
    pub(crate) address: String,
    /// Its lines on standard error, which a thread reads.
    pub(crate) log: Arc<std::sync::Mutex<String>>,
}

impl Server {
    pub(crate) fn start(desk: &Desk) -> Self {
        let mut child = desk
            .command(env!("CARGO_BIN_EXE_palisade"))
            .args(["serve", "--config", "palisade.toml"])
            .args(["--http", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let log = Arc::new(std::sync::Mutex::new(String::new()));
        let mut line = String::new();
        let address = loop {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "{log:?}");
            *log.lock().unwrap() += &line;
            let told = line.split_once("serving MCP at ");
            if let Some((_, rest)) = told {
                let (_, rest) = rest.split_once("://").unwrap();
                break rest.split_once("/mcp").unwrap().0.to_owned();
            }
        };
        let copy = Arc::clone(&log);
        std::thread::spawn(move || {
            let mut line = String::new();
            while lines.read_line(&mut line).is_ok_and(|read| read > 0) {
                *copy.lock().unwrap() += &line;
                line.clear();
            }
        });
        Self {
            child,
            address,
            log,
        }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address)
            .unwrap_or_else(|error| panic!("{error}: {}", self.log.lock().unwrap()));
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends a request, and reads the answer.
    pub(crate) fn send(&self, request: &Request) -> Response {
        exchange(self.connect(), &request.write(&self.address))
    }

    /// Calls a tool with a token.
    pub(crate) fn call(&self, token: &str, tool: &str, arguments: &Value) -> Value {
        let answer = self.send(&Request::call(tool, arguments).bearer(token));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["result"].clone()
    }

    pub(crate) fn query(&self, token: &str, sql: &str) -> Value {
        self.call(token, "query", &json!({"sql": sql, "format": "json"}))
    }

    /// Asks it to read its files again.
    pub(crate) fn hang_up(&self) {
        let id = self.child.id().to_string();
        let status = std::process::Command::new("kill")
            .args(["-HUP", &id])
            .status();
        assert!(status.unwrap().success());
    }

    /// Asks it to end.
    pub(crate) fn terminate(&mut self) -> Option<i32> {
        let id = i32::try_from(self.child.id()).unwrap();
        let status = std::process::Command::new("kill")
            .arg(id.to_string())
            .status();
        assert!(status.unwrap().success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A request as a client writes it.
#[derive(Clone)]
pub(crate) struct Request {
    method: &'static str,
    target: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Request {
    pub(crate) fn get(target: &str) -> Self {
        Self::without_body("GET", target)
    }

    pub(crate) fn without_body(method: &'static str, target: &str) -> Self {
        Self {
            method,
            target: target.to_owned(),
            headers: Vec::new(),
            body: String::new(),
        }
    }

    pub(crate) fn post(target: &str, body: &Value) -> Self {
        Self::post_in("2025-11-25", target, body)
    }

    /// In a revision of the protocol.
    pub(crate) fn post_in(revision: &str, target: &str, body: &Value) -> Self {
        Self {
            method: "POST",
            target: target.to_owned(),
            headers: vec![
                ("Content-Type".to_owned(), "application/json".to_owned()),
                (
                    "Accept".to_owned(),
                    "application/json, text/event-stream".to_owned(),
                ),
                ("MCP-Protocol-Version".to_owned(), revision.to_owned()),
            ],
            body: body.to_string(),
        }
    }

    pub(crate) fn call(tool: &str, arguments: &Value) -> Self {
        let params = json!({"name": tool, "arguments": arguments});
        Self::post(
            "/mcp",
            &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}),
        )
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn bearer(self, token: &str) -> Self {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn at(self, target: &str) -> Self {
        Self {
            target: target.to_owned(),
            ..self
        }
    }

    pub(crate) fn write(&self, host: &str) -> String {
        let mut out = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        let has_host = self.headers.iter().any(|(name, _)| name == "Host");
        if !has_host {
            out += &format!("Host: {host}\r\n");
        }
        for (name, value) in &self.headers {
            out += &format!("{name}: {value}\r\n");
        }
        out += &format!(
            "Content-Length: {}\r\nConnection: close\r\n\r\n{}",
            self.body.len(),
            self.body
        );
        out
    }
}

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Response {
    /// The message that it is, or that its one event is.
    pub(crate) fn json(&self) -> Value {
        let mut events = self
            .body
            .lines()
            .filter_map(|line| line.strip_prefix("data: "));
        let text = events.next_back().unwrap_or(&self.body);
        serde_json::from_str(text).unwrap_or_else(|_| panic!("{self:?}"))
    }

    /// The value of a header, whose name is in small letters.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }
}

/// Writes a request and reads until the server closes.
pub(crate) fn exchange(mut stream: impl Read + Write, request: &str) -> Response {
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = Vec::new();
    // TLS may end without saying so.
    let _ = stream.read_to_end(&mut text);
    read_response(&text).unwrap_or_else(|| panic!("no answer: {}", String::from_utf8_lossy(&text)))
}

/// An answer that is whole.
pub(crate) fn read_response(text: &[u8]) -> Option<Response> {
    let text = std::str::from_utf8(text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let lines = head.to_ascii_lowercase();
    let length = lines
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let body = match length {
        Some(length) => (length.parse() == Ok(body.len())).then(|| body.to_owned())?,
        None if lines.contains("transfer-encoding: chunked") => join_chunks(body)?,
        None => body.to_owned(),
    };
    Some(Response {
        status,
        head: head.to_owned(),
        body,
    })
}

fn join_chunks(mut rest: &str) -> Option<String> {
    let mut out = String::new();
    loop {
        let (length, after) = rest.split_once("\r\n")?;
        let length = usize::from_str_radix(length.trim(), 16).ok()?;
        if length == 0 {
            return Some(out);
        }
        out += after.get(..length)?;
        rest = after.get(length + 2..)?;
    }
}

/// The demonstration, served to bearers of tokens.
pub(crate) fn desk(http: &str) -> Desk {
    let desk = Desk::new();
    desk.write(
        "palisade.toml",
        format!(
            "policies = \"demo-policies\"\naudit = \"audit.jsonl\"\n[http]\n{http}\n[connections.demo]\nurl = \"sqlite:demo.db\"\n"
        ),
    );
    desk
}

/// Makes a token.
pub(crate) fn make_token(desk: &Desk, name: &str, principal: &str, more: &[&str]) -> String {
    let mut arguments = vec!["token", "create", name, "--as", principal];
    arguments.extend(["--config", "palisade.toml", "--format", "json"]);
    arguments.extend(more);
    let told = desk.run(&arguments).expect_exit(0).json();
    told["token"].as_str().unwrap().to_owned()
}

pub(crate) const BOT: &str = "Agent::\"support-bot\"";

#[test]
fn an_access_token_says_who_asks() {
    let desk = desk("");
    let empty = Server::start(&desk);
    assert!(empty.log.lock().unwrap().contains("palisade token create"));
    let bot = make_token(&desk, "support-laptop", BOT, &[]);
    let other = make_token(&desk, "other", "Agent::\"nobody\"", &[]);
    let server = Server::start(&desk);
    let sql = "SELECT name, email FROM customers ORDER BY id";
    let answer = server.query(&bot, sql);
    let rows = &answer["structuredContent"]["rows"];
    assert!(
        rows.as_array().is_some_and(|rows| !rows.is_empty()),
        "{answer}"
    );
    // As over standard input and output: the same policies, filters and masks.
    let mut stdio = crate::serve::Client::new(
        &desk,
        &["connection:demo", "--config", "palisade.toml", "--as", BOT],
    );
    let same = stdio.query(sql);
    assert_eq!(*rows, same["structuredContent"]["rows"]);
    // Another principal is told of nothing.
    let refused = server.query(&other, sql);
    assert_eq!(refused["isError"], true, "{refused}");
    let record = desk
        .records("audit.jsonl")
        .into_iter()
        .find(|record| record["transport"] == "http" && record["principal"] == BOT);
    assert_eq!(record.unwrap()["client"], "support-laptop");
    // Who has no token is told how to come by one, and nothing else.
    let call = Request::call("query", &json!({"sql": sql}));
    let unknown = format!("palisade_{}", "0".repeat(64));
    let upper = format!("bearer {bot}");
    for (request, error) in [
        (call.clone(), "a token is needed"),
        (call.clone().bearer("x"), "invalid_token"),
        (call.clone().bearer(&unknown), "invalid_token"),
        (
            call.clone().header("Authorization", "Basic eDp5"),
            "invalid_token",
        ),
        (
            call.clone().bearer(&bot).bearer(&other),
            "a token is needed",
        ),
        (Request::get("/mcp"), "a token is needed"),
        (Request::get("/mcp/readonly"), "a token is needed"),
    ] {
        let answer = server.send(&request);
        assert_eq!(answer.status, 401, "{answer:?}");
        let told = format!("{}{}", answer.head, answer.body);
        assert!(
            told.to_ascii_lowercase()
                .contains("www-authenticate: bearer"),
            "{told}"
        );
        assert!(told.contains(error), "{told}");
        assert!(
            !told.contains("customers") && !told.contains("demo"),
            "{told}"
        );
    }
    let answer = server.send(&call.clone().header("Authorization", &upper));
    assert_eq!(answer.status, 200, "the scheme is in any case: {answer:?}");
    // From the next request on.
    desk.run(&[
        "token",
        "revoke",
        "support-laptop",
        "--config",
        "palisade.toml",
    ])
    .expect_exit(0);
    assert_eq!(server.send(&call.clone().bearer(&bot)).status, 401);
    assert_eq!(server.send(&call.bearer(&other)).status, 200);
    // Secrets are in no file, and not in the log.
    let log = server.log.lock().unwrap().clone();
    for text in [
        log,
        std::fs::read_to_string(desk.path("audit.jsonl")).unwrap(),
        std::fs::read_to_string(desk.path("access-tokens.json")).unwrap(),
    ] {
        assert!(
            !text.contains(&bot[9..]) && !text.contains(&other[9..]),
            "{text}"
        );
    }
}

#[test]
fn access_tokens_are_listed_and_end() {
    let desk = desk("tokens = \"keys/tokens.json\"");
    std::fs::create_dir(desk.path("keys")).unwrap();
    let config = ["--config", "palisade.toml"];
    let list = || {
        let arguments = [&["token", "list"][..], &config].concat();
        desk.run(&arguments).expect_exit(0).out
    };
    assert!(list().contains("palisade token create"));
    make_token(&desk, "one", BOT, &["--expires", "never"]);
    make_token(&desk, "two", BOT, &["--expires", "1h"]);
    let listed = list();
    assert!(
        listed.contains("one  Agent::\"support-bot\"  until it is revoked"),
        "{listed}"
    );
    assert!(
        listed.contains("two  Agent::\"support-bot\"  until 20"),
        "{listed}"
    );
    // An hour later.
    let path = desk.path("keys/tokens.json");
    let mut file: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    file["tokens"][1]["expires"] = json!(1);
    std::fs::write(&path, file.to_string()).unwrap();
    assert!(list().contains("two  Agent::\"support-bot\"  ended"));
    for (arguments, error) in [
        (
            &["create", "one", "--as", BOT][..],
            "there is a token `one`",
        ),
        (&["create", "a b", "--as", BOT], "no name of a token"),
        (&["create", "three", "--as", "bot"], "is not a principal"),
        (
            &["create", "three", "--as", BOT, "--expires", "1y"],
            "is no time",
        ),
        (&["revoke", "three"], "there is no token `three`"),
    ] {
        let arguments = [&["token"], arguments, &config].concat();
        desk.run(&arguments).fails(2, &[error]);
    }
    std::fs::write(&path, "{}").unwrap();
    let arguments = [&["token", "list"][..], &config].concat();
    desk.run(&arguments)
        .fails(2, &["tokens.json", "missing field `tokens`"]);
}

#[test]
fn what_no_client_sends_is_refused_before_it_is_read() {
    let desk = desk("requests_per_minute = 40\nhosts = [\"palisade.example.com\"]");
    let token = make_token(&desk, "one", BOT, &[]);
    let server = Server::start(&desk);
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let good = Request::post("/mcp", &list).bearer(&token);
    let large = json!({"jsonrpc": "2.0", "id": 1, "method": "x".repeat(4_000_000)});
    for (request, status) in [
        (good.clone(), 200),
        (good.clone().header("Host", "palisade.example.com"), 200),
        (good.clone().header("Host", "evil.example"), 403),
        (
            good.clone()
                .header("Host", "palisade.example.com")
                .header("Host", "evil.example"),
            400,
        ),
        (good.clone().header("Origin", "http://evil.example"), 403),
        (good.clone().header("Origin", "null"), 403),
        // A page of the address itself; one of a name that was made to point here.
        (
            good.clone()
                .header("Host", "palisade.example.com")
                .header("Origin", "https://palisade.example.com"),
            200,
        ),
        (
            good.clone()
                .header("Host", "palisade.example.com")
                .header("Origin", "https://palisade.example.com:444"),
            403,
        ),
        (
            good.clone()
                .header("Host", "evil.example")
                .header("Origin", "http://evil.example"),
            403,
        ),
        (good.clone().at("/mcp?principal=admin"), 400),
        (
            good.clone()
                .header("Palisade-Principal", "Agent::\"admin\""),
            400,
        ),
        (good.clone().at("/mcp/other"), 404),
        (good.clone().at("/"), 404),
        (Request::post("/mcp", &large).bearer(&token), 413),
        (
            Request::post("/mcp", &json!([list, list])).bearer(&token),
            400,
        ),
        (
            Request::post(
                "/mcp",
                &json!({"jsonrpc": "2.0", "id": 1, "method": "x", "params": vec![0; 300_000]}),
            )
            .bearer(&token),
            400,
        ),
        (
            Request {
                method: "GET",
                ..good.clone()
            },
            405,
        ),
        (
            Request {
                method: "DELETE",
                ..good.clone()
            },
            405,
        ),
        (
            Request {
                method: "PUT",
                ..good.clone()
            },
            405,
        ),
        (Request::get("/healthz"), 200),
    ] {
        let answer = server.send(&request);
        assert_eq!(
            answer.status, status,
            "{} {:?}: {answer:?}",
            request.target, request.headers
        );
    }
    // Databases are opened behind it.
    let began = Instant::now();
    while server.send(&Request::get("/readyz")).status != 200 {
        assert!(began.elapsed() < Duration::from_secs(30));
        sleep(Duration::from_millis(200));
    }
    let spent = (0..40)
        .map(|_| server.send(&good))
        .find(|answer| answer.status != 200);
    let spent = spent.unwrap();
    assert_eq!(spent.status, 429, "{spent:?}");
    assert!(
        spent.head.to_ascii_lowercase().contains("retry-after: "),
        "{spent:?}"
    );
    // Bytes that are no HTTP end a connection, and nothing else.
    for garbage in [
        "\0\u{1}\u{2}\r\n\r\n",
        "GET /healthz HTTP/9.9\r\n\r\n",
        "POST /mcp HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\nG",
    ] {
        let mut stream = server.connect();
        stream.write_all(garbage.as_bytes()).unwrap();
        let mut told = Vec::new();
        let _ = stream.read_to_end(&mut told);
        let told = String::from_utf8_lossy(&told);
        assert!(
            told.is_empty() || told.starts_with("HTTP/1.1 4"),
            "{garbage}: {told}"
        );
    }
    assert_eq!(server.send(&Request::get("/healthz")).status, 200);
}

#[test]
fn one_address_changes_nothing() {
    let desk = Desk::new();
    desk.policy("permit (principal, action, resource);");
    desk.write(
        "palisade.toml",
        "policies = \"p\"\n[connections.demo]\nurl = \"sqlite:demo.db\"\nwritable = true\n",
    );
    let token = make_token(&desk, "one", BOT, &[]);
    let mut server = Server::start(&desk);
    let change = json!({"sql": "UPDATE tickets SET subject = 'x' WHERE id = 1"});
    let tools = |target: &str| {
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        let answer = server.send(&Request::post(target, &list).bearer(&token));
        answer.body.contains("\"execute\"")
    };
    assert!(tools("/mcp") && !tools("/mcp/readonly"));
    let reading = Request::call("execute", &change)
        .at("/mcp/readonly")
        .bearer(&token);
    let answer = server.send(&reading).json();
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    let subject = || server.query(&token, "SELECT subject FROM tickets WHERE id = 1");
    let before = subject()["structuredContent"]["rows"].clone();
    assert_ne!(before, json!([{"subject": "x"}]));
    let answer = server.call(&token, "execute", &change);
    assert_ne!(answer["isError"], true, "{answer}");
    assert_eq!(
        subject()["structuredContent"]["rows"],
        json!([{"subject": "x"}])
    );
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn connections_are_encrypted_and_certificates_read_again() {
    let desk = desk("certificate = \"cert.pem\"\nkey = \"key.pem\"");
    let token = make_token(&desk, "one", BOT, &[]);
    let make = || {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        desk.write("cert.pem", made.cert.pem());
        desk.write("key.pem", made.signing_key.serialize_pem());
        made.cert.der().clone()
    };
    let first = make();
    let server = Server::start(&desk);
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let request = Request::post("/mcp", &list).bearer(&token);
    let ask = |trusted: &CertificateDer<'static>| -> Option<u16> {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = server.connect();
        client.complete_io(&mut stream).ok()?;
        let stream = StreamOwned::new(client, stream);
        Some(exchange(stream, &request.write("localhost")).status)
    };
    assert_eq!(ask(&first), Some(200));
    // Plain text is no answer.
    let mut plain = server.connect();
    plain
        .write_all(request.write("localhost").as_bytes())
        .unwrap();
    let mut told = Vec::new();
    let _ = plain.read_to_end(&mut told);
    assert!(
        !String::from_utf8_lossy(&told).contains("HTTP/1.1"),
        "{told:?}"
    );
    let second = make();
    let began = Instant::now();
    while ask(&second).is_none() {
        assert!(began.elapsed() < PATIENCE, "{}", server.log.lock().unwrap());
        sleep(Duration::from_millis(100));
    }
    assert_eq!(ask(&first), None);
}

#[test]
fn other_machines_are_not_served_in_plain_text() {
    let desk = desk("");
    let serve =
        |address: &str| desk.run(&["serve", "--config", "palisade.toml", "--http", address]);
    serve("0.0.0.0:0").fails(3, &["connections are not encrypted", "certificate"]);
    serve("nowhere").fails(2, &["`nowhere` cannot be listened on", "127.0.0.1:8080"]);
    desk.run(&["serve", "sqlite:demo.db", "--http", "127.0.0.1:0"])
        .fails(2, &["--config"]);
    desk.write("palisade.toml", "[http]\ncertificate = \"c.pem\"\n");
    serve("127.0.0.1:0").fails(3, &["palisade.toml:2:15", "the certificate has no key"]);
    desk.write("palisade.toml", "[http]\nproxies = [\"proxy\"]\n");
    serve("127.0.0.1:0").fails(3, &["palisade.toml:2:12", "`proxy` is no address"]);
    desk.write("palisade.toml", "[http]\nshare_tokens = true\n");
    serve("127.0.0.1:0").fails(
        3,
        &["palisade.toml:2:16", "where the state is", "`[approvals]`"],
    );
    desk.write(
        "palisade.toml",
        "[http]\ntokens = \"t.json\"\nshare_tokens = true\n",
    );
    serve("127.0.0.1:0").fails(
        3,
        &["palisade.toml:3:16", "either in a file or in the state"],
    );
}

/// Who goes away leaves nothing running.
#[test]
fn a_client_that_goes_away_ends_its_statement() {
    let shop = Shop::new("http");
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
    let mut server = Server::start(desk);
    let activity = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE usename = '{}' AND state = 'active'",
        shop.reader
    );
    let slow = Request::call("query", &json!({"sql": SLOW})).bearer(&token);
    for _ in 0..2 {
        let mut stream = server.connect();
        stream
            .write_all(slow.write(&server.address).as_bytes())
            .unwrap();
        wait_until(&shop, &activity, |running| running == 1);
        drop(stream);
        wait_until(&shop, &activity, |running| running == 0);
    }
    // So does the end of the server.
    let mut stream = server.connect();
    stream
        .write_all(slow.write(&server.address).as_bytes())
        .unwrap();
    wait_until(&shop, &activity, |running| running == 1);
    assert_eq!(server.terminate(), Some(0));
    wait_until(&shop, &activity, |running| running == 0);
}

/// News are told over one long answer, which ends when its token does.
#[test]
fn a_long_answer_ends_with_its_token() {
    let desk = desk("");
    let token = make_token(&desk, "one", BOT, &[]);
    let server = Server::start(&desk);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
    });
    let params = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
    let listen =
        json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params});
    let mut request = Request::post("/mcp", &listen).bearer(&token);
    for (name, value) in &mut request.headers {
        if name == "MCP-Protocol-Version" {
            "2026-07-28".clone_into(value);
        }
    }
    let request = request.header("Mcp-Method", "subscriptions/listen");
    let mut stream = server.connect();
    stream
        .write_all(request.write(&server.address).as_bytes())
        .unwrap();
    let mut lines = BufReader::new(stream);
    let mut told = String::new();
    while !told.contains("subscriptions/acknowledged") {
        assert!(lines.read_line(&mut told).unwrap() > 0, "{told}");
    }
    desk.run(&["token", "revoke", "one", "--config", "palisade.toml"])
        .expect_exit(0);
    // Signs of life come in between, so that no reading ever takes too long.
    let began = Instant::now();
    while lines.read_line(&mut told).unwrap() > 0 {
        assert!(began.elapsed() < PATIENCE, "{told}");
    }
}
