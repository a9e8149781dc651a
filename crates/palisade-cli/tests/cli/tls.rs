//! Encrypted connections: what the URL says, and nothing weaker.

use std::fs;

use palisade_testkit::servers::PostgresServer;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::json;

use crate::desk::Desk;

pub(crate) type Authority = CertifiedIssuer<'static, KeyPair>;

pub(crate) fn authority() -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate for `name` and its key.
pub(crate) fn signed(authority: &Authority, name: &str) -> (String, String) {
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    (certificate.pem(), key.serialize_pem())
}

/// Has the server write a file into its data folder that no other account can read.
fn write(server: &PostgresServer, name: &str, text: &str) {
    let lines: Vec<String> = text.lines().map(|line| format!("('{line}')")).collect();
    let sql = format!(
        "COPY (SELECT * FROM (VALUES {}) AS v) TO PROGRAM 'umask 077; cat > {name}'",
        lines.join(", ")
    );
    server.query("postgres", &sql).unwrap();
}

#[test]
fn connections_are_encrypted_as_the_url_says() {
    let server = PostgresServer::start().unwrap();
    let desk = Desk::empty();
    let (ours, theirs) = (authority(), authority());
    desk.write("ours.crt", ours.pem());
    desk.write("theirs.crt", theirs.pem());
    let ask = |options: &str| {
        let url = format!("{}?{options}", server.url_as("ann", "postgres"));
        desk.run(&["query", &url, "--format", "json", "SELECT 1 AS one"])
    };
    server.query("postgres", "CREATE ROLE ann LOGIN").unwrap();
    // A server that cannot encrypt is not talked to in the clear.
    for options in [
        "sslmode=require",
        "sslmode=verify-full&sslrootcert=ours.crt",
    ] {
        ask(options).fails(4, &["TLS", "sslmode=disable"]);
    }
    let (certificate, key) = signed(&ours, "127.0.0.1");
    write(&server, "server.crt", &certificate);
    write(&server, "server.key", &key);
    write(
        &server,
        "pg_hba.conf",
        "hostnossl all ann 127.0.0.1/32 reject\nhost all all 127.0.0.1/32 trust",
    );
    server
        .query("postgres", "ALTER SYSTEM SET ssl = on")
        .unwrap();
    server.query("postgres", "SELECT pg_reload_conf()").unwrap();
    // The new rules hold from some moment on.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while ask("sslmode=require").exit != 0 {
        assert!(std::time::Instant::now() < deadline, "{}", server.log());
    }
    for options in [
        "sslmode=verify-full&sslrootcert=ours.crt",
        "sslrootcert=ours.crt",
        "sslmode=verify-ca&sslrootcert=ours.crt",
    ] {
        let answer = ask(options).expect_exit(0);
        assert_eq!(answer.json()["rows"], json!([{"one": 1}]), "{options}");
    }
    ask("sslrootcert=theirs.crt").fails(4, &["certificate", "sslrootcert=FILE"]);
    ask("sslmode=disable").fails(4, &["no encryption"]);
    ask("sslrootcert=nowhere.crt").fails(3, &["nowhere.crt"]);
    // The doctor talks as everybody does, and in a configuration files are written from the root.
    let root = desk.path("ours.crt");
    let config = format!(
        "[grants]\nhosts = [\"127.0.0.1:{}\"]\n[connections.a]\nurl = \"{}?sslrootcert={}\"\n",
        server.port(),
        server.url_as("ann", "postgres"),
        root.display()
    );
    fs::write(desk.path("c.toml"), config).unwrap();
    let run = [
        "doctor",
        "connection:a",
        "--config",
        "c.toml",
        "--format",
        "json",
    ];
    let found = desk.run(&run).expect_exit(1).json();
    assert!(
        !found["weaknesses"].to_string().contains("plaintext"),
        "{found}"
    );
}
