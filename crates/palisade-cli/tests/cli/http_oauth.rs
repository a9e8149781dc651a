//! Tokens of authorization servers over real sockets: who is let in by them, and who is not.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread::{self, sleep},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _},
};
use serde_json::{Value, json};

use crate::{
    desk::Desk,
    http::{BOT, PATIENCE, Request, Server, desk, make_token},
};

/// What clients call the server.
const RESOURCE: &str = "https://palisade.example.com/mcp";

/// Who asks, in these tests.
const CLAIMS: &str = r#"
[[principal]]
claim = "groups"
value = "support"
is = 'Agent::"support-bot"'

[[principal]]
claim = "email"
pattern = '([a-z]+)@example\.com'
is = 'Agent::"$1"'

[[role]]
claim = ["realm_access", "roles"]
value = "desk"
is = 'Role::"support"'

[[attribute]]
claim = "https://example.com/tenant"
name = "tenant"
"#;

/// How an issuer answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mood {
    Fine,
    /// It takes connections, and says nothing.
    Silent,
    /// Its metadata are another's.
    Lying,
}

/// An authorization server, as far as a resource server needs it: metadata, and keys.
struct Issuer {
    name: String,
    keys: Arc<Mutex<Vec<Value>>>,
    mood: Arc<Mutex<Mood>>,
    asked: Arc<Mutex<u32>>,
}

impl Issuer {
    fn start(keys: Vec<Value>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let issuer = Self {
            name: format!("http://{}", listener.local_addr().unwrap()),
            keys: Arc::new(Mutex::new(keys)),
            mood: Arc::new(Mutex::new(Mood::Fine)),
            asked: Arc::default(),
        };
        let (name, keys) = (issuer.name.clone(), Arc::clone(&issuer.keys));
        let (mood, asked) = (Arc::clone(&issuer.mood), Arc::clone(&issuer.asked));
        thread::spawn(move || {
            let mut silent = Vec::new();
            for stream in listener.incoming() {
                let (Ok(stream), now) = (stream, *mood.lock().unwrap()) else {
                    continue;
                };
                if now == Mood::Silent {
                    silent.push(stream);
                    continue;
                }
                *asked.lock().unwrap() += 1;
                let told = match now {
                    Mood::Lying => "https://another.example.com",
                    Mood::Fine | Mood::Silent => &name,
                };
                let metadata = json!({"issuer": told, "jwks_uri": format!("{name}/keys")});
                answer(stream, &metadata, &json!({"keys": *keys.lock().unwrap()}));
            }
        });
        issuer
    }
}

fn answer(stream: TcpStream, metadata: &Value, keys: &Value) {
    let mut lines = BufReader::new(&stream).lines();
    let first = lines.next().and_then(Result::ok).unwrap_or_default();
    while lines
        .next()
        .and_then(Result::ok)
        .is_some_and(|line| !line.is_empty())
    {}
    let (status, body) = match first.split(' ').nth(1) {
        Some("/.well-known/openid-configuration") => ("200 OK", metadata.to_string()),
        Some("/keys") => ("200 OK", keys.to_string()),
        _ => ("404 Not Found", String::new()),
    };
    let _ = write!(
        &stream,
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
}

/// A key of an issuer's.
struct Key {
    name: &'static str,
    pair: EcdsaKeyPair,
}

impl Key {
    fn new(name: &'static str) -> Self {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap();
        Self { name, pair }
    }

    /// The public half, as an issuer publishes it.
    fn published(&self) -> Value {
        let (x, y) = self.pair.public_key().as_ref()[1..].split_at(32);
        json!({"kty": "EC", "crv": "P-256", "use": "sig", "kid": self.name, "x": encode(x), "y": encode(y)})
    }

    fn header(&self) -> Value {
        json!({"alg": "ES256", "typ": "at+jwt", "kid": self.name})
    }

    fn sign(&self, claims: &Value) -> String {
        self.sign_text(&self.header(), &claims.to_string())
    }

    fn sign_text(&self, header: &Value, claims: &str) -> String {
        let message = message(header, claims);
        let signature = self.pair.sign(&SystemRandom::new(), message.as_bytes());
        format!("{message}.{}", encode(signature.unwrap().as_ref()))
    }
}

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn message(header: &Value, claims: &str) -> String {
    let header = encode(header.to_string().as_bytes());
    format!("{header}.{}", encode(claims.as_bytes()))
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

/// Claims of a good token of `issuer`, with `more`.
fn claims(issuer: &Issuer, more: Value) -> Value {
    let mut claims = json!({"iss": issuer.name, "sub": "u-17", "aud": RESOURCE, "iat": now(), "exp": now() + 600,
        "scope": "openid palisade", "client_id": "helpdesk"});
    for (name, value) in more.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims
}

/// The demonstration, for bearers of tokens of `issuer`.
fn oauth_desk(issuer: &Issuer) -> Desk {
    let desk = desk(&format!(
        "[http.oauth]\nresource = \"{RESOURCE}\"\nscopes = [\"palisade\"]\n[http.oauth.issuers.login]\nissuer = \"{}\"",
        issuer.name
    ));
    desk.write("claims.toml", CLAIMS);
    desk
}

const TENANTS: &str = "SELECT DISTINCT tenant_id FROM customers ORDER BY tenant_id";

fn ask(server: &Server, token: &str) -> (u16, String) {
    let call = Request::call("query", &json!({"sql": TENANTS, "format": "json"}));
    let answer = server.send(&call.bearer(token));
    (answer.status, format!("{}\n{}", answer.head, answer.body))
}

#[test]
fn a_token_of_an_issuer_says_who_asks() {
    let key = Key::new("one");
    let issuer = Issuer::start(vec![key.published()]);
    let desk = oauth_desk(&issuer);
    let server = Server::start(&desk);
    let rows = |more: Value| {
        let answer = server.query(&key.sign(&claims(&issuer, more)), TENANTS);
        answer["structuredContent"]["rows"].clone()
    };
    // As `entities.json` has the principal that a group stands for.
    assert_eq!(
        rows(json!({"groups": ["x", "support"]})),
        json!([{"tenant_id": 1}])
    );
    // One that it does not have, with a role and an attribute of the token.
    let ana = |tenant: Value| json!({"email": "ana@example.com", "realm_access": {"roles": ["desk"]}, "https://example.com/tenant": tenant});
    assert_eq!(rows(ana(json!(2))), json!([{"tenant_id": 2}]));
    assert_eq!(
        rows(ana(json!(3))),
        json!([{"tenant_id": 3}]),
        "a later token says it otherwise"
    );
    // What `entities.json` says of a principal, no token changes.
    let mut both = ana(json!(2));
    both["groups"] = json!(["support"]);
    assert_eq!(rows(both), json!([{"tenant_id": 1}]));
    // An attribute of another type fits no policy.
    for wrong in [json!("2"), json!([2]), json!(true)] {
        let answer = server.query(&key.sign(&claims(&issuer, ana(wrong))), TENANTS);
        assert!(
            answer["structuredContent"]["rows"]
                .as_array()
                .is_none_or(Vec::is_empty),
            "{answer}"
        );
    }
    // Without the role there is nothing.
    let answer = server.query(
        &key.sign(&claims(&issuer, json!({"email": "ana@example.com"}))),
        TENANTS,
    );
    assert_eq!(answer["isError"], true, "{answer}");
    let records = desk.records("audit.jsonl");
    assert!(
        records.iter().any(|record| record["principal"] == "Agent::\"ana\""
            && record["client"] == "helpdesk"),
        "{records:?}"
    );
    // The server's own tokens let in beside them.
    let own = make_token(&desk, "laptop", BOT, &[]);
    assert_eq!(
        server.query(&own, TENANTS)["structuredContent"]["rows"],
        json!([{"tenant_id": 1}])
    );
}

#[test]
fn a_client_without_a_token_is_told_where_to_get_one() {
    let issuer = Issuer::start(vec![Key::new("one").published()]);
    // The desk stays: its databases are opened after the server answers.
    let desk = oauth_desk(&issuer);
    let server = Server::start(&desk);
    for (path, end) in [("/mcp", ""), ("/mcp/readonly", "/readonly")] {
        let call = Request::call("query", &json!({"sql": TENANTS})).at(path);
        let answer = server.send(&call);
        assert_eq!(answer.status, 401);
        let place = format!("/.well-known/oauth-protected-resource/mcp{end}");
        let told = format!(
            "Bearer realm=\"palisade\", resource_metadata=\"https://palisade.example.com{place}\", scope=\"palisade\""
        );
        assert!(answer.head.contains(&told), "{answer:?}");
        let metadata = server.send(&Request::get(&place));
        assert_eq!(metadata.status, 200);
        let metadata = metadata.json();
        assert_eq!(metadata["resource"], format!("{RESOURCE}{end}"));
        assert_eq!(metadata["authorization_servers"], json!([issuer.name]));
        assert_eq!(metadata["scopes_supported"], json!(["palisade"]));
    }
    let metadata = server.send(&Request::get("/.well-known/oauth-protected-resource"));
    assert_eq!(metadata.json()["resource"], RESOURCE);
    assert_eq!(*issuer.asked.lock().unwrap(), 0, "no token came");
}

#[test]
fn no_other_token_lets_in() {
    let (key, stranger) = (Key::new("one"), Key::new("one"));
    let random = SystemRandom::new();
    let document = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
    let edwards = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
    let edwards_key = json!({"kty": "OKP", "crv": "Ed25519", "kid": "edwards", "x": encode(edwards.public_key().as_ref())});
    let issuer = Issuer::start(vec![key.published(), edwards_key]);
    // The desk stays: its databases are opened after the server answers.
    let desk = oauth_desk(&issuer);
    let server = Server::start(&desk);
    let good = claims(&issuer, json!({"groups": ["support"]}));
    let with = |name: &str, value: Value| {
        let mut claims = good.clone();
        match value {
            Value::Null => {
                claims.as_object_mut().unwrap().remove(name);
            }
            value => claims[name] = value,
        }
        key.sign(&claims)
    };
    let header = |name: &str, value: Value| {
        let mut header = key.header();
        header[name] = value;
        key.sign_text(&header, &good.to_string())
    };
    let signed = key.sign(&good);
    assert_eq!(ask(&server, &signed).0, 200);
    // The public key as a secret that both sides share.
    let shared = {
        let message = message(&json!({"alg": "HS256", "kid": "one"}), &good.to_string());
        let public = key.pair.public_key().as_ref();
        let secret = hmac::Key::new(hmac::HMAC_SHA256, public);
        format!(
            "{message}.{}",
            encode(hmac::sign(&secret, message.as_bytes()).as_ref())
        )
    };
    // By a key of the issuer's, and an algorithm that is not one of those permitted.
    let unlisted = {
        let message = message(
            &json!({"alg": "EdDSA", "kid": "edwards"}),
            &good.to_string(),
        );
        format!(
            "{message}.{}",
            encode(edwards.sign(message.as_bytes()).as_ref())
        )
    };
    let mut parts = signed.split('.');
    let (head, _, signature) = (parts.next().unwrap(), parts.next(), parts.next().unwrap());
    let other = encode(good.to_string().replace("u-17", "u-18").as_bytes());
    let twice = good.to_string().replacen('{', "{\"sub\":\"u-18\",", 1);
    for (what, token) in [
        ("another's key", stranger.sign(&good)),
        ("other claims", format!("{head}.{other}.{signature}")),
        (
            "no signature",
            format!("{}.", message(&key.header(), &good.to_string())),
        ),
        (
            "alg none",
            format!("{}.", message(&json!({"alg": "none"}), &good.to_string())),
        ),
        ("alg none, signed", header("alg", json!("none"))),
        ("a shared secret", shared),
        ("an algorithm that is not listed", unlisted),
        (
            "the algorithm of another key",
            header("alg", json!("RS256")),
        ),
        ("an unknown key", header("kid", json!("two"))),
        ("an extension", header("crit", json!(["exp"]))),
        ("claims in plain text", header("b64", json!(false))),
        ("an id token", header("typ", json!("id+jwt"))),
        (
            "another audience",
            with("aud", json!("https://other.example.com/mcp")),
        ),
        (
            "an audience with more",
            with("aud", json!(format!("{RESOURCE}/"))),
        ),
        ("no audience", with("aud", Value::Null)),
        (
            "the reading part's audience",
            with("aud", json!(format!("{RESOURCE}/readonly"))),
        ),
        (
            "another issuer",
            with("iss", json!("https://login.example.com")),
        ),
        ("no issuer", with("iss", Value::Null)),
        ("an end that is over", with("exp", json!(now() - 61))),
        ("no end", with("exp", Value::Null)),
        (
            "an end that is no time",
            with("exp", json!((now() + 600).to_string())),
        ),
        ("an end below nothing", with("exp", json!(-1))),
        (
            "a beginning that is to come",
            with("nbf", json!(now() + 90)),
        ),
        ("a beginning that is no time", with("nbf", json!("0"))),
        ("no subject", with("sub", Value::Null)),
        ("a claim twice", key.sign_text(&key.header(), &twice)),
        ("claims that are none", key.sign_text(&key.header(), "[]")),
        ("four parts", format!("{signed}.x")),
        ("two parts", format!("{head}.{signature}")),
        ("too long", format!("{signed}{}", "A".repeat(20_000))),
        ("nothing", "..".to_owned()),
    ] {
        let (status, told) = ask(&server, &token);
        assert!(
            status == 401 || (what == "too long" && status == 431),
            "{what}: {status} {told}"
        );
        assert!(!told.contains("tenant"), "{what}: {told}");
    }
    // A good token of a stranger, and one without the scope.
    let (status, told) = ask(&server, &with("groups", json!(["supporters"])));
    assert_eq!(status, 403, "{told}");
    let (status, told) = ask(&server, &with("scope", json!("openid palisade2")));
    assert_eq!(status, 403, "{told}");
    assert!(
        told.contains("error=\"insufficient_scope\", resource_metadata="),
        "{told}"
    );
    // For reading alone.
    let reading = with("aud", json!([format!("{RESOURCE}/readonly")]));
    let call = Request::call("query", &json!({"sql": TENANTS}));
    let answer = server.send(&call.clone().at("/mcp/readonly").bearer(&reading));
    assert_eq!(answer.status, 200, "{answer:?}");
    // Tokens are in no file and no log.
    let log = server.log.lock().unwrap().clone();
    assert!(!log.contains(signature), "{log}");
}

#[test]
fn a_token_ends_by_itself() {
    let key = Key::new("one");
    let issuer = Issuer::start(vec![key.published()]);
    // The desk stays: its databases are opened after the server answers.
    let desk = oauth_desk(&issuer);
    let server = Server::start(&desk);
    // Clocks may differ by a minute.
    let more = json!({"groups": ["support"], "exp": now() - 56});
    let token = key.sign(&claims(&issuer, more));
    assert_eq!(ask(&server, &token).0, 200);
    let begun = Instant::now();
    while ask(&server, &token).0 == 200 {
        assert!(begun.elapsed() < PATIENCE);
        sleep(Duration::from_millis(200));
    }
    assert_eq!(ask(&server, &token).0, 401);
}

#[test]
fn keys_of_an_issuer_change_while_it_is_served() {
    let (old, new) = (Key::new("old"), Key::new("new"));
    let issuer = Issuer::start(vec![old.published()]);
    // The desk stays: its databases are opened after the server answers.
    let desk = oauth_desk(&issuer);
    let server = Server::start(&desk);
    let sign = |key: &Key| key.sign(&claims(&issuer, json!({"groups": ["support"]})));
    assert_eq!(ask(&server, &sign(&old)).0, 200);
    issuer.keys.lock().unwrap().push(new.published());
    let begun = Instant::now();
    while ask(&server, &sign(&new)).0 != 200 {
        assert!(begun.elapsed() < PATIENCE);
        sleep(Duration::from_millis(200));
    }
    // Unknown keys are not asked for at each request.
    let before = *issuer.asked.lock().unwrap();
    let stranger = Key::new("stranger");
    for _ in 0..50 {
        assert_eq!(ask(&server, &sign(&stranger)).0, 401);
    }
    assert!(*issuer.asked.lock().unwrap() - before <= 6);
    assert_eq!(ask(&server, &sign(&old)).0, 200);
}

#[test]
fn an_issuer_that_hangs_or_lies_lets_no_one_in() {
    let key = Key::new("one");
    for mood in [Mood::Silent, Mood::Lying] {
        let issuer = Issuer::start(vec![key.published()]);
        *issuer.mood.lock().unwrap() = mood;
        let desk = oauth_desk(&issuer);
        let own = make_token(&desk, "laptop", BOT, &[]);
        let server = Server::start(&desk);
        let token = key.sign(&claims(&issuer, json!({"groups": ["support"]})));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| ask(&server, &token));
            // Others do not wait for it.
            let begun = Instant::now();
            assert_eq!(ask(&server, &own).0, 200);
            assert!(
                begun.elapsed() < Duration::from_secs(4),
                "{:?}",
                begun.elapsed()
            );
            let (status, told) = waiting.join().unwrap();
            assert_eq!(status, 503, "{told}");
            assert!(!told.contains("another.example.com"), "{told}");
        });
        // Its lines are read beside.
        let begun = Instant::now();
        while !server.log.lock().unwrap().contains("cannot be fetched") {
            assert!(begun.elapsed() < PATIENCE, "{}", server.log.lock().unwrap());
            sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn the_configuration_of_issuers_is_strict() {
    let good = format!(
        "[http.oauth]\nresource = \"{RESOURCE}\"\n[http.oauth.issuers.login]\nissuer = \"https://login.example.com\""
    );
    for (from, to, told) in [
        ("https://login", "http://login", "not encrypted"),
        ("https://login.example.com", "login", "no address"),
        ("com/mcp", "com/other", "no address of the server"),
        ("issuer = ", "isuer = ", "did you mean `issuer`?"),
        (
            "[http.oauth.issuers.login]\nissuer = \"https://login.example.com\"",
            "",
            "no authorization server",
        ),
        (
            "issuer = ",
            "algorithms = [\"HS256\"]\nissuer = ",
            "`HS256` is none of",
        ),
        (
            "issuer = ",
            "algorithms = [\"none\"]\nissuer = ",
            "`none` is none of",
        ),
        ("\"\n[", "\"\nscopes = [\"a b\"]\n[", "no scope"),
        ("\"\n[", "\"\naudience = \"\"\n[", "audience is empty"),
    ] {
        let desk = desk(&good.replacen(from, to, 1));
        let answer = desk.run(&["config", "check"]).expect_exit(3);
        assert!(answer.err.contains(told), "{to}: {}", answer.err);
        assert!(answer.err.contains("palisade.toml:"), "{}", answer.err);
    }
    let desk = desk(&good);
    let serve = [
        "serve",
        "--config",
        "palisade.toml",
        "--http",
        "127.0.0.1:0",
    ];
    let answer = desk.run(&serve).expect_exit(3);
    assert!(answer.err.contains("claims.toml"), "{}", answer.err);
    desk.write(
        "claims.toml",
        "[[principal]]\nclaim = \"a\"\nis = 'Agent::\"x\"'",
    );
    let answer = desk.run(&serve).expect_exit(3);
    assert!(
        answer.err.contains("either a `value` or a `pattern`"),
        "{}",
        answer.err
    );
}

/// Who may ask is read again while the server runs; what cannot be read leaves it as it was.
#[test]
fn the_map_of_claims_is_read_again() {
    let key = Key::new("one");
    let issuer = Issuer::start(vec![key.published()]);
    let desk = oauth_desk(&issuer);
    let server = Server::start(&desk);
    let token = key.sign(&claims(&issuer, json!({"groups": ["support"]})));
    let wait_for = |status: u16| {
        let began = Instant::now();
        while ask(&server, &token).0 != status {
            assert!(began.elapsed() < PATIENCE, "{}", server.log.lock().unwrap());
            sleep(Duration::from_millis(100));
        }
    };
    assert_eq!(ask(&server, &token).0, 200);
    desk.write(
        "claims.toml",
        CLAIMS.replace("\"support\"\nis", "\"sales\"\nis"),
    );
    wait_for(403);
    // No line is half a map.
    desk.write("claims.toml", CLAIMS.replace("[[role]]", "[[roles]]"));
    let began = Instant::now();
    while !server.log.lock().unwrap().contains("stays the old one") {
        assert_eq!(ask(&server, &token).0, 403);
        assert!(began.elapsed() < PATIENCE, "{}", server.log.lock().unwrap());
        sleep(Duration::from_millis(100));
    }
    assert_eq!(ask(&server, &token).0, 403);
    desk.write("claims.toml", CLAIMS);
    wait_for(200);
}
