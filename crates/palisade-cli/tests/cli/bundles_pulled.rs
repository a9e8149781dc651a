//! Servers that pull bundles of policies: newer ones take effect, and nothing else does.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    thread::sleep,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    broker::{Broker, relay},
    bundle_depot::{Depot, Mood},
    bundles::{OPEN, make_key, pack},
    desk::Desk,
    http::{BOT, PATIENCE, Request, Server, exchange, make_token},
    serve::Client,
};

/// Where the depot has it.
const PATH: &str = "/shop.palisade";

/// Permits all but one table.
const CLOSED: &str = "@id(\"open\")\npermit (principal, action, resource);\n@id(\"closed\")\nforbid (principal, action, resource == Table::\"main.customers\");\n";

const SQL: &str = "SELECT count(*) FROM customers";

/// A configuration of bundles from `source`.
fn configure(desk: &Desk, source: &str, host: &str, keys: &[&str], more: &str) {
    let keys: Vec<_> = keys.iter().map(|key| format!("\"{key}\"")).collect();
    desk.write(
        "palisade.toml",
        format!(
            "audit = \"audit.jsonl\"\n[policies]\nbundle = \"{source}\"\nname = \"shop\"\npublic_keys = [{}]\nkeep = \"kept\"\n{more}\n[grants]\nhosts = [\"{host}\"]\n[http]\n[http.metrics]\naddress = \"127.0.0.1:0\"\n[connections.demo]\nurl = \"sqlite:demo.db\"\n",
            keys.join(", ")
        ),
    );
}

/// Waits until `is_so`.
fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        sleep(Duration::from_millis(30));
    }
}

#[test]
fn a_newer_bundle_takes_effect_and_stands_in_records() {
    let desk = Desk::new();
    let public = make_key(&desk, "a.key");
    let (depot, authority) = Depot::start_encrypted();
    desk.write("ca.pem", authority);
    depot.hold(PATH, pack(&desk, OPEN, 1, &["a.key"]));
    let source = format!("https://{}{PATH}", depot.host);
    configure(
        &desk,
        &source,
        &depot.host,
        &[&public],
        "every = \"1s\"\nauthorities = \"ca.pem\"",
    );
    let mut client = Client::new(&desk, &["connection:demo", "--config", "palisade.toml"]);
    assert_ne!(client.query(SQL)["isError"], true);
    depot.hold(PATH, pack(&desk, CLOSED, 2, &["a.key"]));
    let began = Instant::now();
    wait("the second bundle takes effect", || {
        client.query(SQL)["isError"] == true
    });
    assert!(
        began.elapsed() < Duration::from_secs(4),
        "{:?}",
        began.elapsed()
    );
    let records = desk.records("audit.jsonl");
    let of_record = |record: &Value| {
        let bundle = &record["policy_bundle"];
        let digest = bundle["digest"].as_str().unwrap();
        assert_eq!(
            (bundle["name"].as_str(), digest.len()),
            (Some("shop"), 64),
            "{record}"
        );
        bundle["serial"].as_u64().unwrap()
    };
    assert_eq!(of_record(&records[0]), 1);
    assert_eq!(of_record(records.last().unwrap()), 2);
    assert_eq!(records.last().unwrap()["decision"], "reject");
    // What did not change is not sent again.
    wait("a mark is asked for", || {
        let held = depot.lock_held();
        held.asked
            .last()
            .unwrap()
            .to_lowercase()
            .contains("if-none-match")
    });
    // It is kept, for its owner alone.
    let second = fs::read(desk.path("made.palisade")).unwrap();
    wait("it is kept", || {
        fs::read(desk.path("kept/shop.palisade")).unwrap() == second
    });
    let mode = |name: &str| fs::metadata(desk.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("kept"), mode("kept/shop.palisade")), (0o700, 0o600));
    let told = client.end();
    assert!(
        told.contains("policies pulled") && !told.contains("ERROR"),
        "{told}"
    );
    // The address is down, and the server starts by what it kept.
    drop(depot);
    configure(
        &desk,
        "https://127.0.0.1:1/shop.palisade",
        "127.0.0.1:1",
        &[&public],
        "",
    );
    let mut client = Client::new(&desk, &["connection:demo", "--config", "palisade.toml"]);
    assert_eq!(client.query(SQL)["isError"], true);
    let told = client.end();
    assert!(
        told.contains("the bundle that was kept decides, shop 2"),
        "{told}"
    );
    assert_eq!(of_record(desk.records("audit.jsonl").last().unwrap()), 2);
}

#[test]
fn a_certificate_of_another_authority_is_not_trusted() {
    let desk = Desk::new();
    let public = make_key(&desk, "a.key");
    let (depot, _) = Depot::start_encrypted();
    depot.hold(PATH, pack(&desk, OPEN, 1, &["a.key"]));
    let source = format!("https://{}{PATH}", depot.host);
    configure(&desk, &source, &depot.host, &[&public], "");
    desk.run(&["serve", "--config", "palisade.toml"])
        .fails(3, &["there are no policies", "certificate"]);
    let (_, other) = Depot::start_encrypted();
    desk.write("ca.pem", other);
    configure(
        &desk,
        &source,
        &depot.host,
        &[&public],
        "authorities = \"ca.pem\"",
    );
    desk.run(&["serve", "--config", "palisade.toml"])
        .fails(3, &["there are no policies", "certificate"]);
}

/// What a server logged since a moment.
struct Lines<'a>(&'a Server, usize);

impl<'a> Lines<'a> {
    fn since_now(server: &'a Server) -> Self {
        Self(server, server.log.lock().unwrap().len())
    }

    fn expect(&self, text: &str) {
        let log = || self.0.log.lock().unwrap()[self.1..].to_owned();
        let began = Instant::now();
        while !log().contains(text) {
            assert!(began.elapsed() < PATIENCE, "{text}: {}", log());
            sleep(Duration::from_millis(20));
        }
    }
}

/// The envelope of a bundle, changed.
fn change(bundle: &[u8], change: impl Fn(&mut Value)) -> Vec<u8> {
    let mut envelope: Value = serde_json::from_slice(bundle).unwrap();
    change(&mut envelope);
    envelope.to_string().into_bytes()
}

#[test]
fn nothing_but_a_newer_bundle_of_a_trusted_key_is_used() {
    let desk = Desk::new();
    let public = make_key(&desk, "a.key");
    let other = make_key(&desk, "b.key");
    let depot = Depot::start();
    let in_force = pack(&desk, OPEN, 5, &["a.key"]);
    depot.hold(PATH, in_force.clone());
    let source = format!("http://{}{PATH}", depot.host);
    // Hangup signals ask at once; nothing else does here.
    configure(&desk, &source, &depot.host, &[&public], "every = \"1h\"");
    let token = make_token(&desk, "one", BOT, &[]);
    let server = Server::start(&desk);
    let is_open = || server.query(&token, SQL)["isError"] != true;
    assert!(is_open());
    let forged = pack(&desk, CLOSED, 9, &["b.key"]);
    let newer = pack(&desk, CLOSED, 6, &["a.key"]);
    let mut flipped = newer.clone();
    let place = flipped.len() / 2;
    flipped[place] ^= 1;
    let swapped = change(&newer, |envelope| {
        let payload = STANDARD
            .decode(envelope["payload"].as_str().unwrap())
            .unwrap();
        let payload = String::from_utf8(payload)
            .unwrap()
            .replace("closed", "opened");
        envelope["payload"] = json!(STANDARD.encode(payload));
    });
    let renamed = change(&forged, |envelope| {
        let own: Value = serde_json::from_slice(&in_force).unwrap();
        envelope["signatures"][0]["keyid"] = own["signatures"][0]["keyid"].clone();
    });
    let beside = change(&newer, |envelope| {
        envelope["files"] = json!([{"name": "x.cedar", "text": OPEN}])
    });
    let foreign = {
        desk.run(&[
            "policy",
            "bundle",
            "pack",
            "p",
            "--name",
            "staging",
            "--serial",
            "99",
            "--key",
            "a.key",
            "--out",
            "made.palisade",
        ])
        .expect_exit(0);
        fs::read(desk.path("made.palisade")).unwrap()
    };
    let unfit = pack(
        &desk,
        "forbid (principal, action, resource == Table::\"main.nowhere\");",
        8,
        &["a.key"],
    );
    // What goes wrong the same way twice is told once: in between, all is well.
    let recover = || {
        let lines = Lines::since_now(&server);
        depot.hold(PATH, in_force.clone());
        server.hang_up();
        lines.expect("pulled");
    };
    for (bytes, told) in [
        (forged, "no trusted key signed it"),
        (flipped, "those in force stay"),
        (swapped, "no trusted key signed it"),
        (renamed, "no trusted key signed it"),
        (beside, "unknown field `files`"),
        (foreign, "its name is `staging`"),
        (
            pack(&desk, CLOSED, 4, &["a.key"]),
            "serial number 4 is older than 5",
        ),
        (
            pack(&desk, CLOSED, 5, &["a.key"]),
            "another bundle has its serial number 5",
        ),
        (b"{}".to_vec(), "no bundle of policies"),
        (Vec::new(), "it answered 404"),
        (unfit, "main.nowhere"),
    ] {
        let lines = Lines::since_now(&server);
        depot.hold(PATH, bytes);
        server.hang_up();
        lines.expect(told);
        assert!(is_open(), "{told}");
        recover();
    }
    for (mood, told) in [
        (Mood::Truncated, "those in force stay"),
        (Mood::Endless, "longer than"),
        (Mood::Status(500), "it answered 500"),
        (
            Mood::Redirect("https://evil.example.org/x".to_owned()),
            "another scheme",
        ),
        (
            Mood::Redirect("http://127.0.0.1:1/x".to_owned()),
            "`127.0.0.1:1`, which is not granted",
        ),
        (
            Mood::Redirect("//evil.example.org/x".to_owned()),
            "another scheme",
        ),
        (
            Mood::Redirect("ftp://evil.example.org/x".to_owned()),
            "another scheme",
        ),
        (
            Mood::Redirect("file:///etc/passwd".to_owned()),
            "another scheme",
        ),
        (Mood::Redirect(PATH.to_owned()), "again and again"),
    ] {
        let lines = Lines::since_now(&server);
        depot.lock_held().mood = mood;
        server.hang_up();
        lines.expect(told);
        assert!(is_open(), "{told}");
        recover();
    }
    // While it says nothing, requests are answered as ever.
    let lines = Lines::since_now(&server);
    depot.lock_held().mood = Mood::Silent;
    let before = depot.lock_held().asked.len();
    server.hang_up();
    wait("it is asked", || depot.lock_held().asked.len() > before);
    let began = Instant::now();
    assert!(is_open());
    assert!(
        began.elapsed() < Duration::from_secs(3),
        "{:?}",
        began.elapsed()
    );
    lines.expect("did not answer in time");
    // The one that did not fit was never in force: a newer one than that before takes effect.
    depot.hold(PATH, newer);
    server.hang_up();
    wait("the newer one takes effect", || !is_open());
    // Figures tell how it went.
    let log = server.log.lock().unwrap().clone();
    let (_, rest) = log.split_once("Prometheus are at http://").unwrap();
    let address = rest.split_once("/metrics").unwrap().0;
    let page = exchange(
        std::net::TcpStream::connect(address).unwrap(),
        &Request::get("/metrics").write(address),
    );
    let figure = |name: &str| -> u64 {
        let line = page
            .body
            .lines()
            .find_map(|line| line.strip_prefix(&format!("palisade_{name} ")));
        line.unwrap_or_else(|| panic!("{name}: {}", page.body))
            .parse()
            .unwrap()
    };
    assert_eq!(figure("policy_bundle_serial"), 6);
    assert!(figure("policy_pull_failures_total") >= 15);
    assert!(figure("policy_bundle_age_seconds") < 20);
    assert!(!log.contains(&other[10..]), "no key is logged");
}

#[test]
fn starts_keep_to_what_was_in_force() {
    let desk = Desk::new();
    let (old, new) = (make_key(&desk, "a.key"), make_key(&desk, "b.key"));
    let depot = Depot::start();
    let source = format!("http://{}{PATH}", depot.host);
    let start = |keys: &[&str], more: &str| {
        configure(&desk, &source, &depot.host, keys, more);
        Client::new(&desk, &["connection:demo", "--config", "palisade.toml"])
    };
    // Nothing to begin with.
    configure(&desk, &source, &depot.host, &[&old], "");
    desk.run(&["serve", "--config", "palisade.toml"]).fails(
        3,
        &[
            "there are no policies",
            "it answered 404",
            "kept/shop.palisade",
            "help:",
        ],
    );
    desk.run(&["query", "connection:demo", "--config", "palisade.toml", SQL])
        .fails(3, &["there are no policies"]);
    depot.hold(PATH, pack(&desk, CLOSED, 5, &["a.key"]));
    let mut client = start(&[&old], "");
    assert_eq!(client.query(SQL)["isError"], true);
    client.end();
    // An older one is not taken after a start either.
    let older = pack(&desk, OPEN, 4, &["a.key"]);
    depot.hold(PATH, older);
    let mut client = start(&[&old], "");
    assert_eq!(client.query(SQL)["isError"], true);
    let told = client.end();
    assert!(
        told.contains("serial number 4 is older than 5") && told.contains("rollback_to = 4"),
        "{told}"
    );
    // The operator says so.
    let mut client = start(&[&old], "rollback_to = 4");
    assert_ne!(client.query(SQL)["isError"], true);
    let told = client.end();
    assert!(told.contains("take it out"), "{told}");
    // A newer one that does not fit the database: what was in force decides.
    let unfit = "forbid (principal, action, resource == Table::\"main.nowhere\");";
    depot.hold(PATH, pack(&desk, unfit, 6, &["a.key"]));
    let mut client = start(&[&old], "");
    assert_ne!(client.query(SQL)["isError"], true);
    let told = client.end();
    assert!(
        told.contains("one that was in force before decides") && told.contains("main.nowhere"),
        "{told}"
    );
    // Keys change: one that both signed, then the new one alone.
    depot.hold(PATH, pack(&desk, OPEN, 7, &["a.key", "b.key"]));
    start(&[&old], "").end();
    start(&[&new], "").end();
    depot.hold(PATH, pack(&desk, CLOSED, 8, &["b.key"]));
    let told = start(&[&old], "").end();
    assert!(told.contains("no trusted key signed it"), "{told}");
    let mut client = start(&[&old, &new], "");
    assert_eq!(client.query(SQL)["isError"], true);
    client.end();
    // What is kept is verified again.
    let kept = fs::read(desk.path("kept/shop.palisade")).unwrap();
    let mut other = kept.clone();
    let place = other.len() / 2;
    other[place] ^= 1;
    desk.write("kept/shop.palisade", other);
    fs::remove_file(desk.path("kept/shop.previous.palisade")).unwrap();
    depot.lock_held().files.clear();
    configure(&desk, &source, &depot.host, &[&new], "");
    desk.run(&["serve", "--config", "palisade.toml"])
        .fails(3, &["that was kept at", "there are no policies"]);
    // Others can use the folder.
    desk.write("kept/shop.palisade", kept);
    fs::set_permissions(desk.path("kept"), fs::Permissions::from_mode(0o755)).unwrap();
    desk.run(&["serve", "--config", "palisade.toml"])
        .fails(3, &["chmod 700"]);
}

#[test]
fn a_file_is_a_source_too() {
    let desk = Desk::new();
    let public = make_key(&desk, "a.key");
    let first = pack(&desk, OPEN, 1, &["a.key"]);
    desk.write("shop.palisade", &first);
    configure(
        &desk,
        "shop.palisade",
        "127.0.0.1:1",
        &[&public],
        "every = \"1h\"",
    );
    let mut client = Client::new(&desk, &["connection:demo", "--config", "palisade.toml"]);
    assert_ne!(client.query(SQL)["isError"], true);
    let second = pack(&desk, CLOSED, 2, &["a.key"]);
    desk.write("shop.palisade", second);
    client.hang_up();
    wait("the file is read again", || {
        client.query(SQL)["isError"] == true
    });
    desk.write("shop.palisade", first);
    client.hang_up();
    sleep(Duration::from_millis(300));
    assert_eq!(client.query(SQL)["isError"], true);
    let told = client.end();
    assert!(told.contains("serial number 1 is older than 2"), "{told}");
}

#[test]
fn the_broker_takes_up_bundles_too() {
    let desk = Desk::new();
    let public = make_key(&desk, "a.key");
    desk.write("shop.palisade", pack(&desk, OPEN, 1, &["a.key"]));
    desk.write(
        "palisade.toml",
        format!(
            "[policies]\nbundle = \"shop.palisade\"\nname = \"shop\"\npublic_keys = [\"{public}\"]\nkeep = \"kept\"\nevery = \"1h\"\n[broker]\n[connections.demo]\nurl = \"sqlite:demo.db\"\n"
        ),
    );
    let broker = Broker::start(&desk);
    let mut client = relay(&desk);
    assert_ne!(client.query(SQL)["isError"], true);
    desk.write("shop.palisade", pack(&desk, CLOSED, 2, &["a.key"]));
    let id = broker.id().to_string();
    let asked = std::process::Command::new("kill")
        .args(["-HUP", &id])
        .status();
    assert!(asked.unwrap().success());
    wait("the second bundle takes effect", || {
        client.query(SQL)["isError"] == true
    });
    assert!(broker.log().contains("policies pulled"), "{}", broker.log());
}
