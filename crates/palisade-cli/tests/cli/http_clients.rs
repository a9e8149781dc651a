//! Client certificates over real sockets: who is let in by them, and who is not.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::Arc,
    thread::sleep,
    time::{Duration, Instant},
};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams,
    SanType, SerialNumber, date_time_ymd,
};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned,
    SupportedProtocolVersion,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName},
    version::{TLS12, TLS13},
};
use serde_json::{Value, json};

use crate::{
    desk::Desk,
    http::{BOT, PATIENCE, Request, Server, desk, make_token},
};

/// Who asks, in these tests.
const CLAIMS: &str = r#"
[[principal]]
claim = "uri"
value = "spiffe://acme.example/support"
is = 'Agent::"support-bot"'

[[principal]]
claim = "dns"
pattern = '([a-z-]+)\.agents\.acme\.example'
is = 'Agent::"$1"'

[[principal]]
claim = "email"
value = "desk@acme.example"
is = 'Agent::"support-bot"'

[[principal]]
claim = "common_name"
value = "Support Bot"
is = 'Agent::"support-bot"'
"#;

/// Both encrypted and asking for certificates.
const HTTP: &str = "certificate = \"cert.pem\"\nkey = \"key.pem\"\n[http.clients]\nauthorities = \"clients.pem\"\n";

const SQL: &str = "SELECT DISTINCT tenant_id FROM tickets";

/// An authority of clients.
struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key.
#[derive(Clone)]
struct Client {
    chain: Vec<CertificateDer<'static>>,
    key: Vec<u8>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate for clients, changed by `change`.
    fn sign(&self, names: Vec<SanType>, change: impl FnOnce(&mut CertificateParams)) -> Client {
        let params = client_params(names, change);
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &self.0).unwrap();
        Client {
            chain: vec![signed.der().clone()],
            key: key.serialize_der(),
        }
    }

    /// Its list of revoked certificates.
    fn revoke(&self, serials: &[u64], until: i32) -> String {
        let revoked = serials.iter().map(|serial| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(until, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.0).unwrap().pem().unwrap()
    }
}

fn client_params(
    names: Vec<SanType>,
    change: impl FnOnce(&mut CertificateParams),
) -> CertificateParams {
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, "Support Bot");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.subject_alt_names = names;
    change(&mut params);
    params
}

fn uri(text: &str) -> SanType {
    SanType::URI(text.try_into().unwrap())
}

fn dns(text: &str) -> SanType {
    SanType::DnsName(text.try_into().unwrap())
}

const SUPPORT: &str = "spiffe://acme.example/support";

fn plain(_: &mut CertificateParams) {}

/// A server with a certificate of its own, and what clients know of it.
struct Place {
    server: Server,
    trusted: CertificateDer<'static>,
}

impl Place {
    fn start(desk: &Desk) -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        desk.write("cert.pem", made.cert.pem());
        desk.write("key.pem", made.signing_key.serialize_pem());
        Self {
            server: Server::start(desk),
            trusted: made.cert.der().clone(),
        }
    }

    fn config(
        &self,
        client: Option<&Client>,
        version: &'static SupportedProtocolVersion,
    ) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.trusted.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots);
        Arc::new(match client {
            None => config.with_no_client_auth(),
            Some(client) => {
                let key = PrivateKeyDer::try_from(client.key.clone()).unwrap();
                config
                    .with_client_auth_cert(client.chain.clone(), key)
                    .unwrap()
            }
        })
    }

    fn open(&self, config: &Arc<ClientConfig>) -> Connection {
        let name = ServerName::try_from("localhost").unwrap();
        let client = ClientConnection::new(Arc::clone(config), name).unwrap();
        Connection(StreamOwned::new(client, self.server.connect()))
    }

    fn connect(&self, client: Option<&Client>) -> Connection {
        self.open(&self.config(client, &TLS13))
    }

    /// The status of an answer, if the connection came to be.
    fn ask(&self, client: Option<&Client>, request: &Request) -> Option<u16> {
        self.connect(client).ask(request).map(|(status, _)| status)
    }
}

/// An encrypted connection, which stays open after an answer.
struct Connection(StreamOwned<ClientConnection, TcpStream>);

impl Connection {
    /// What a request is answered; none where the connection is not there.
    fn ask(&mut self, request: &Request) -> Option<(u16, String)> {
        let text = request.write("localhost");
        let text = text.replace("Connection: close\r\n", "");
        self.0.write_all(text.as_bytes()).ok()?;
        let mut told = Vec::new();
        let mut byte = [0];
        while !told.ends_with(b"\r\n\r\n") {
            if self.0.read(&mut byte).ok()? == 0 {
                return None;
            }
            told.push(byte[0]);
        }
        let head = String::from_utf8(told).unwrap().to_ascii_lowercase();
        let (_, length) = head.split_once("content-length: ").unwrap();
        let length = length.lines().next().unwrap().parse().unwrap();
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).ok()?;
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Some((
            status,
            format!("{head}{}", String::from_utf8(body).unwrap()),
        ))
    }
}

fn query() -> Request {
    Request::call("query", &json!({"sql": SQL, "format": "json"}))
}

/// The rows of an answer.
fn rows(told: &str) -> Value {
    let (_, body) = told.split_once("\r\n\r\n").unwrap();
    let answer: Value = serde_json::from_str(body).unwrap();
    answer["result"]["structuredContent"]["rows"].clone()
}

#[test]
fn a_client_certificate_says_who_asks() {
    let desk = desk(HTTP);
    let authority = Authority::new("clients");
    desk.write("clients.pem", authority.0.pem());
    desk.write("clients.toml", CLAIMS);
    let place = Place::start(&desk);
    let log = place.server.log.lock().unwrap().clone();
    assert!(!log.contains("there is no access token"), "{log}");
    let bot = authority.sign(vec![uri(SUPPORT)], plain);
    // The row filter of the demonstration: tenant 1 alone.
    for version in [&TLS12, &TLS13] {
        let config = place.config(Some(&bot), version);
        let (status, told) = place.open(&config).ask(&query()).unwrap();
        assert_eq!(status, 200, "{told}");
        assert_eq!(rows(&told), json!([{"tenant_id": 1}]), "{told}");
    }
    let record = desk.records("audit.jsonl").into_iter().next_back().unwrap();
    assert_eq!(record["principal"], BOT, "{record}");
    assert_eq!(record["client"], SUPPORT, "{record}");
    assert_eq!(record["transport"], "http", "{record}");
    // Another principal sees nothing of it.
    let other = authority.sign(vec![dns("other.agents.acme.example")], plain);
    let (status, told) = place.connect(Some(&other)).ask(&query()).unwrap();
    assert!(status == 200 && told.contains("\"isError\":true"), "{told}");
    let email = SanType::Rfc822Name("desk@acme.example".try_into().unwrap());
    let plain_name = authority.sign(vec![], plain);
    for good in [authority.sign(vec![email], plain), plain_name] {
        let (status, told) = place.connect(Some(&good)).ask(&query()).unwrap();
        assert_eq!(
            (status, rows(&told)),
            (200, json!([{"tenant_id": 1}])),
            "{told}"
        );
    }
    // No line, no principal; a common name beside alternative names is none.
    for names in [
        vec![uri("spiffe://acme.example/supporter")],
        vec![uri("spiffe://acme.example/Support")],
        vec![uri("spiffe://acme.example/support/")],
        vec![dns("other")],
        vec![dns("OTHER.agents.acme.example")],
        vec![dns("*.agents.acme.example")],
        vec![dns("a.b.agents.acme.example")],
        vec![
            dns("support-bot.agents.acme.example"),
            dns("x.agents.acme.example"),
        ],
        vec![SanType::IpAddress([127, 0, 0, 1].into())],
    ] {
        let client = authority.sign(names.clone(), plain);
        let (status, told) = place.connect(Some(&client)).ask(&query()).unwrap();
        assert_eq!(status, 403, "{names:?}: {told}");
        assert!(
            told.contains("no principal is known for this client certificate"),
            "{told}"
        );
    }
}

#[test]
fn policies_see_the_name_of_a_certificate() {
    let desk = desk(HTTP);
    let authority = Authority::new("clients");
    desk.write("clients.pem", authority.0.pem());
    desk.write(
        "clients.toml",
        "[[principal]]\nclaim = \"dns\"\npattern = '[a-z]+\\.acme\\.example'\nis = 'Agent::\"support-bot\"'\n",
    );
    desk.write(
        "demo-policies/muted.cedar",
        "@id(\"muted\") forbid (principal, action, resource) when { context has client && context.client like \"muted.*\" };\n",
    );
    let place = Place::start(&desk);
    let ask = |name: &str| {
        let client = authority.sign(vec![dns(name)], plain);
        let (status, told) = place.connect(Some(&client)).ask(&query()).unwrap();
        assert_eq!(status, 200, "{told}");
        rows(&told)
    };
    assert_eq!(ask("loud.acme.example"), json!([{"tenant_id": 1}]));
    assert_eq!(ask("muted.acme.example"), Value::Null);
}

#[test]
fn other_certificates_let_no_client_in() {
    let desk = desk(HTTP);
    let (authority, stranger) = (Authority::new("clients"), Authority::new("clients"));
    desk.write("clients.pem", authority.0.pem());
    desk.write("clients.toml", CLAIMS);
    let place = Place::start(&desk);
    let good = authority.sign(vec![uri(SUPPORT)], plain);
    assert_eq!(place.ask(Some(&good), &query()), Some(200));
    let key = KeyPair::generate().unwrap();
    let own = client_params(vec![uri(SUPPORT)], plain)
        .self_signed(&key)
        .unwrap();
    let self_signed = Client {
        chain: vec![own.der().clone()],
        key: key.serialize_der(),
    };
    let names = || vec![uri(SUPPORT)];
    let uses = |uses: &[ExtendedKeyUsagePurpose]| {
        authority.sign(names(), |params| params.extended_key_usages = uses.to_vec())
    };
    // A client is no authority of others.
    let signer = KeyPair::generate().unwrap();
    let params = client_params(names(), plain);
    let middle = params.signed_by(&signer, &authority.0).unwrap();
    let issuer = rcgen::Issuer::new(params, &signer);
    let leaf_key = KeyPair::generate().unwrap();
    let leaf = client_params(names(), plain)
        .signed_by(&leaf_key, &issuer)
        .unwrap();
    let through_client = Client {
        chain: vec![leaf.der().clone(), middle.der().clone()],
        key: leaf_key.serialize_der(),
    };
    for (what, client) in [
        ("none", None),
        ("self-signed", Some(self_signed)),
        ("of another authority", Some(stranger.sign(names(), plain))),
        (
            "expired",
            Some(authority.sign(names(), |params| {
                params.not_after = date_time_ymd(2020, 1, 1)
            })),
        ),
        (
            "not yet",
            Some(authority.sign(names(), |params| {
                params.not_before = date_time_ymd(4000, 1, 1)
            })),
        ),
        (
            "for servers",
            Some(uses(&[ExtendedKeyUsagePurpose::ServerAuth])),
        ),
        ("for anything", Some(uses(&[ExtendedKeyUsagePurpose::Any]))),
        ("of no use", Some(uses(&[]))),
        ("through a client", Some(through_client)),
    ] {
        for version in [&TLS12, &TLS13] {
            let config = place.config(client.as_ref(), version);
            let told = place.open(&config).ask(&query());
            assert_eq!(told, None, "{what}");
            // Not even what needs no credential.
            let health = place.open(&config).ask(&Request::get("/healthz"));
            assert_eq!(health, None, "{what}");
        }
    }
    let log = place.server.log.lock().unwrap().clone();
    assert!(log.contains("a client's certificate was refused"), "{log}");
    assert!(log.contains("no certificates"), "{log}");
}

/// A request says who asks by one of the ways, or by two that agree.
#[test]
fn a_token_and_a_certificate_agree() {
    let desk = desk(&format!("tokens = \"access-tokens.json\"\n{HTTP}"));
    let authority = Authority::new("clients");
    desk.write("clients.pem", authority.0.pem());
    desk.write("clients.toml", CLAIMS);
    let same = make_token(&desk, "same", BOT, &[]);
    let other = make_token(&desk, "other", "Agent::\"other\"", &[]);
    let place = Place::start(&desk);
    let bot = authority.sign(vec![uri(SUPPORT)], plain);
    let unnamed = authority.sign(vec![uri("spiffe://acme.example/machine")], plain);
    let both = authority.sign(vec![uri(SUPPORT), dns("other.agents.acme.example")], plain);
    let stranger = Authority::new("clients").sign(vec![uri(SUPPORT)], plain);
    let unknown = format!("palisade_{}", "0".repeat(64));
    let pem = authority.0.pem().replace('\n', "");
    for (what, client, request, status) in [
        ("token alone", None, query().bearer(&same), Some(200)),
        ("neither", None, query(), Some(401)),
        ("certificate alone", Some(&bot), query(), Some(200)),
        ("the same", Some(&bot), query().bearer(&same), Some(200)),
        (
            "two principals",
            Some(&bot),
            query().bearer(&other),
            Some(403),
        ),
        (
            "a bad token",
            Some(&bot),
            query().bearer(&unknown),
            Some(401),
        ),
        (
            "another scheme",
            Some(&bot),
            query().header("Authorization", "Basic eDp5"),
            Some(401),
        ),
        (
            "two tokens",
            Some(&bot),
            query().bearer(&same).bearer(&same),
            Some(401),
        ),
        (
            "without a principal, alone",
            Some(&unnamed),
            query(),
            Some(403),
        ),
        (
            "without a principal",
            Some(&unnamed),
            query().bearer(&same),
            Some(200),
        ),
        ("of two, alone", Some(&both), query(), Some(403)),
        ("of two", Some(&both), query().bearer(&same), Some(403)),
        (
            "a bad certificate",
            Some(&stranger),
            query().bearer(&same),
            None,
        ),
        // What proxies tell of certificates counts for nothing here.
        (
            "headers",
            None,
            query()
                .header("Client-Cert", &format!(":{pem}:"))
                .header("X-Client-Cert", &pem)
                .header("X-SSL-Client-Verify", "SUCCESS")
                .header("X-SSL-Client-S-DN", "CN=Support Bot")
                .header("X-Forwarded-Client-Cert", &format!("URI={SUPPORT}")),
            Some(401),
        ),
    ] {
        assert_eq!(place.ask(client, &request), status, "{what}");
    }
    // A token that comes with a certificate is whose client policies see.
    place.ask(Some(&bot), &query().bearer(&same));
    let record = desk.records("audit.jsonl").into_iter().next_back().unwrap();
    assert_eq!(record["client"], "same", "{record}");
    assert_eq!(place.ask(None, &Request::get("/healthz")), Some(200));
}

/// Revoked, a certificate lets in no more, over a connection that was there before either.
#[test]
fn a_revoked_certificate_ends_at_once() {
    let desk = desk(&format!("{HTTP}revoked = \"revoked.pem\"\n"));
    let (authority, second) = (Authority::new("clients"), Authority::new("second"));
    desk.write(
        "clients.pem",
        format!("{}{}", authority.0.pem(), second.0.pem()),
    );
    desk.write("clients.toml", CLAIMS);
    desk.write("revoked.pem", authority.revoke(&[9], 4000));
    let place = Place::start(&desk);
    let sign = |serial: u64| {
        authority.sign(vec![uri(SUPPORT)], |params| {
            params.serial_number = Some(SerialNumber::from(serial));
        })
    };
    let (one, two) = (sign(1), sign(2));
    // Revoked before; and of an authority without a list.
    assert_eq!(place.ask(Some(&sign(9)), &query()), None);
    let unlisted = second.sign(vec![uri(SUPPORT)], plain);
    assert_eq!(place.ask(Some(&unlisted), &query()), None);
    let configs = [&TLS12, &TLS13].map(|version| place.config(Some(&one), version));
    let mut open = configs.each_ref().map(|config| place.open(config));
    let mut other = place.connect(Some(&two));
    for connection in open.iter_mut().chain([&mut other]) {
        for _ in 0..2 {
            assert_eq!(connection.ask(&query()).unwrap().0, 200);
        }
    }
    // What cannot be read changes nothing.
    desk.write("revoked.pem", "no list");
    ask_until(&place, "stay the old ones", || {
        assert_eq!(other.ask(&query()).unwrap().0, 200);
    });
    desk.write("revoked.pem", authority.revoke(&[9, 1], 4000));
    sleep(Duration::from_millis(2_100));
    for (connection, config) in open.iter_mut().zip(&configs) {
        let (status, told) = connection.ask(&query()).unwrap();
        assert_eq!(status, 403, "{told}");
        assert!(told.contains("connection: close"), "{told}");
        assert_eq!(connection.ask(&query()), None, "it is closed");
        // The session of before is not gone on with.
        let mut again = place.open(config);
        assert_eq!(again.ask(&query()), None);
    }
    assert_eq!(other.ask(&query()).unwrap().0, 200);
    // Nor is one that is good.
    for version in [&TLS12, &TLS13] {
        let config = place.config(Some(&two), version);
        for _ in 0..2 {
            let mut connection = place.open(&config);
            assert_eq!(connection.ask(&query()).unwrap().0, 200);
            assert_eq!(
                connection.0.conn.handshake_kind(),
                Some(HandshakeKind::Full)
            );
        }
    }
    // A list that has ended says nothing of what was revoked since.
    desk.write("revoked.pem", authority.revoke(&[9, 1], 2025));
    sleep(Duration::from_millis(2_100));
    assert_eq!(other.ask(&query()).unwrap().0, 403);
    assert_eq!(place.ask(Some(&two), &query()), None);
}

/// So do an authority that is struck out, and a line of the file of claims.
#[test]
fn what_the_files_say_now_counts() {
    let desk = desk(HTTP);
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    desk.write("clients.pem", old.0.pem());
    desk.write("clients.toml", CLAIMS);
    let place = Place::start(&desk);
    let (first, second) = (
        old.sign(vec![uri(SUPPORT)], plain),
        new.sign(vec![uri(SUPPORT)], plain),
    );
    let mut open = place.connect(Some(&first));
    assert_eq!(open.ask(&query()).unwrap().0, 200);
    assert_eq!(place.ask(Some(&second), &query()), None);
    desk.write("clients.pem", new.0.pem());
    let began = Instant::now();
    while place.ask(Some(&second), &query()) != Some(200) {
        assert!(began.elapsed() < PATIENCE);
        sleep(Duration::from_millis(100));
    }
    sleep(Duration::from_millis(1_100));
    assert_eq!(open.ask(&query()).unwrap().0, 403);
    let mut open = place.connect(Some(&second));
    assert_eq!(open.ask(&query()).unwrap().0, 200);
    desk.write("clients.toml", CLAIMS.replace("/support\"", "/helpdesk\""));
    sleep(Duration::from_millis(1_500));
    assert_eq!(open.ask(&query()).unwrap().0, 403);
}

/// News are told over one long answer, which ends when its certificate does.
#[test]
fn a_long_answer_ends_with_its_certificate() {
    let desk = desk(&format!("{HTTP}revoked = \"revoked.pem\"\n"));
    let authority = Authority::new("clients");
    desk.write("clients.pem", authority.0.pem());
    desk.write("clients.toml", CLAIMS);
    desk.write("revoked.pem", authority.revoke(&[9], 4000));
    let place = Place::start(&desk);
    let client = authority.sign(vec![uri(SUPPORT)], |params| {
        params.serial_number = Some(SerialNumber::from(1_u64));
    });
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
    });
    let params = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
    let listen =
        json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params});
    let request = Request::post_in("2026-07-28", "/mcp", &listen)
        .header("Mcp-Method", "subscriptions/listen");
    let mut stream = place.connect(Some(&client)).0;
    stream
        .write_all(request.write("localhost").as_bytes())
        .unwrap();
    let mut told = String::new();
    let mut part = [0; 4096];
    while !told.contains("subscriptions/acknowledged") {
        let read = stream.read(&mut part).unwrap();
        assert!(read > 0, "{told}");
        told += &String::from_utf8_lossy(&part[..read]);
    }
    desk.write("revoked.pem", authority.revoke(&[9, 1], 4000));
    let began = Instant::now();
    while stream.read(&mut part).is_ok_and(|read| read > 0) {
        assert!(began.elapsed() < PATIENCE);
    }
}

/// Asks until the log has it: files are looked at when somebody asks.
fn ask_until(place: &Place, word: &str, mut ask: impl FnMut()) {
    let began = Instant::now();
    while !place.server.log.lock().unwrap().contains(word) {
        assert!(began.elapsed() < PATIENCE, "no `{word}`");
        ask();
        sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_configuration_of_client_certificates_is_whole() {
    let desk = Desk::empty();
    let check = |http: &str, told: &[&str]| {
        desk.write("palisade.toml", format!("[http]\n{http}\n"));
        desk.run(&["config", "check", "palisade.toml"])
            .fails(3, told);
    };
    let clients = "[http.clients]\nauthorities = \"a.pem\"";
    check(clients, &["palisade.toml:3:15", "without encryption"]);
    check(
        &format!("certificate = \"c.pem\"\nkey = \"k.pem\"\nproxies = [\"10.0.0.5\"]\n{clients}"),
        &["palisade.toml:4:12", "behind a proxy"],
    );
    check(
        &format!("proxies = [\"10.0.0.5\"]\n{clients}"),
        &["palisade.toml:2:12", "behind a proxy"],
    );
    check(
        "[http.clients]\nrevoked = \"a.pem\"",
        &["palisade.toml:2:1", "authorities"],
    );
    check(
        &format!("{clients}\nrevoke = \"a.pem\""),
        &["palisade.toml:4:1", "revoke"],
    );
    // Files that say nothing stop the start.
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    desk.write("cert.pem", made.cert.pem());
    desk.write("key.pem", made.signing_key.serialize_pem());
    let serve = |http: &str, told: &[&str]| {
        desk.write("palisade.toml", format!("[http]\n{http}\n"));
        desk.run(&[
            "serve",
            "--config",
            "palisade.toml",
            "--http",
            "127.0.0.1:0",
        ])
        .fails(3, told);
    };
    serve(HTTP, &["clients.toml", "names in a client certificate"]);
    desk.write("clients.toml", CLAIMS.replace("\"uri\"", "\"sub\""));
    serve(
        HTTP,
        &["clients.toml: line 2", "a certificate claims `uri`"],
    );
    desk.write("clients.toml", CLAIMS);
    serve(HTTP, &["clients.pem", "[http.clients]"]);
    desk.write("clients.pem", made.signing_key.serialize_pem());
    serve(HTTP, &["clients.pem", "it holds no certificate"]);
    desk.write("clients.pem", made.cert.pem());
    let revoked = format!("{HTTP}revoked = \"revoked.pem\"");
    serve(&revoked, &["revoked.pem"]);
    desk.write("revoked.pem", made.cert.pem());
    serve(
        &revoked,
        &["revoked.pem", "it holds no list of revoked certificates"],
    );
}
