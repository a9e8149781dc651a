//! Connections to a server with certificates.

use std::path::{Path, PathBuf};

use palisade::value::Value;
use palisade_testkit::{
    ask::Ask as _,
    servers::{PgBouncer, PostgresServer},
};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};

use super::Shop;
use crate::{PostgresBackend, PostgresConfig};

/// An authority, its certificate in a file.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    file: PathBuf,
}

impl Authority {
    fn new(folder: &Path, name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let file = folder.join(format!("{name}.crt"));
        std::fs::write(&file, issuer.pem()).unwrap();
        Self { issuer, file }
    }

    /// A certificate and its key, as PEM.
    fn certify(
        &self,
        names: &[&str],
        common_name: &str,
        usage: ExtendedKeyUsagePurpose,
    ) -> (String, String) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params
            .distinguished_name
            .push(DnType::CommonName, common_name);
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

/// Has the server write a file of its own that no other account can read.
fn write(server: &PostgresServer, path: &str, text: &str) {
    let lines: Vec<String> = text.lines().map(|line| format!("('{line}')")).collect();
    server
        .query(
            "postgres",
            &format!(
                "COPY (SELECT * FROM (VALUES {}) AS v) TO PROGRAM 'umask 077; cat > {path}'",
                lines.join(", ")
            ),
        )
        .unwrap();
}

#[tokio::test]
async fn connections_are_what_the_url_says_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let ours = Authority::new(folder.path(), "ours");
    let theirs = Authority::new(folder.path(), "theirs");
    let server = super::start();
    let data = server.query("postgres", "SHOW data_directory").unwrap();
    let serve = |names: &[&str]| {
        let (certificate, key) = ours.certify(names, "server", ExtendedKeyUsagePurpose::ServerAuth);
        write(&server, &format!("{data}/server.crt"), &certificate);
        write(&server, &format!("{data}/server.key"), &key);
    };
    let url = |user: &str, options: &str| format!("{}?{options}", server.url_as(user, "postgres"));
    let try_url = async |url: String| {
        let config = PostgresConfig::from_url(&url).unwrap().accept_superuser();
        PostgresBackend::connect(config)
            .await
            .map_err(|error| error.to_string())
    };
    let root = |authority: &Authority| format!("sslrootcert={}", authority.file.display());

    // A server without TLS: what must be encrypted is refused, not sent in the clear.
    for options in ["sslmode=require", "sslmode=verify-full"] {
        let error = try_url(url("postgres", options)).await.unwrap_err();
        assert!(error.contains("does not support TLS"), "{options}: {error}");
    }

    serve(&["127.0.0.1"]);
    write(
        &server,
        &format!("{data}/root.crt"),
        &std::fs::read_to_string(&ours.file).unwrap(),
    );
    let rules = "hostssl all certified 127.0.0.1/32 cert\nhostnossl all encrypted 127.0.0.1/32 reject\nhost all all 127.0.0.1/32 trust\n";
    write(&server, &format!("{data}/pg_hba.conf"), rules);
    server
        .query(
            "postgres",
            "CREATE ROLE certified LOGIN; CREATE ROLE encrypted LOGIN;
             ALTER SYSTEM SET ssl = on;",
        )
        .unwrap();
    server
        .query("postgres", "ALTER SYSTEM SET ssl_ca_file = 'root.crt'")
        .unwrap();
    let reload = async || {
        server.query("postgres", "SELECT pg_reload_conf()").unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    };
    reload().await;

    let encrypted =
        "SELECT ssl::text || coalesce(version, '') FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    let shop = Shop::new("tls").await;
    let check = async |options: String, expected: &str| {
        let backend = try_url(url("postgres", &options))
            .await
            .unwrap_or_else(|e| panic!("{options}: {e}"));
        let query = super::Query {
            relations: Vec::new(),
            backend,
            ..shop.query(encrypted)
        };
        // The column is a view's of the system.
        let sql = query.sql.replace("SELECT ", "SELECT '' || ");
        assert_eq!(
            super::Query {
                sql,
                ..query.clone()
            }
            .cell()
            .await,
            Value::text(expected),
            "{options}"
        );
        let slow = super::Query {
            sql: "SELECT set_config('statement_timeout', '0', true), pg_sleep(0) FROM generate_series(1, 1000) UNION ALL SELECT '', pg_sleep(20)"
                .to_owned(),
            ..query
        };
        // Cancelling goes over a connection of its own, of the same kind.
        let error = slow.within_ms(300).fails().await;
        assert!(error.detail.contains("our clock"), "{error}");
        let left = server.query("postgres", "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%FETCH%' AND state = 'active' AND pid <> pg_backend_pid()");
        assert_eq!(left.unwrap(), "0", "{options}");
    };
    let refuse = async |user: &str, options: String, expected: &str| {
        let error = try_url(url(user, &options)).await.unwrap_err();
        assert!(error.contains(expected), "{user} {options}: {error}");
    };
    check("sslmode=disable".to_owned(), "false").await;
    check("sslmode=require".to_owned(), "trueTLSv1.3").await;
    check(format!("sslmode=require&{}", root(&ours)), "trueTLSv1.3").await;
    check(format!("sslmode=verify-ca&{}", root(&ours)), "trueTLSv1.3").await;
    check(
        format!("sslmode=verify-full&{}", root(&ours)),
        "trueTLSv1.3",
    )
    .await;
    check(root(&ours), "trueTLSv1.3").await;
    // Another authority, or the machine's.
    for mode in ["require", "verify-ca", "verify-full"] {
        refuse(
            "postgres",
            format!("sslmode={mode}&{}", root(&theirs)),
            "UnknownIssuer",
        )
        .await;
    }
    refuse(
        "postgres",
        "sslmode=verify-full&sslrootcert=system".to_owned(),
        "UnknownIssuer",
    )
    .await;
    refuse("encrypted", "sslmode=disable".to_owned(), "pg_hba.conf").await;

    // A certificate of our own.
    let files = |authority: &Authority, name: &str| {
        let (certificate, key) = authority.certify(&[], name, ExtendedKeyUsagePurpose::ClientAuth);
        let (cert_file, key_file) = (
            folder.path().join("client.crt"),
            folder.path().join("client.key"),
        );
        std::fs::write(&cert_file, certificate).unwrap();
        std::fs::write(&key_file, key).unwrap();
        format!(
            "sslcert={}&sslkey={}&sslmode=verify-full&{}",
            cert_file.display(),
            key_file.display(),
            root(&ours)
        )
    };
    refuse(
        "certified",
        format!("sslmode=verify-full&{}", root(&ours)),
        "certificate",
    )
    .await;
    try_url(url("certified", &files(&ours, "certified")))
        .await
        .unwrap();
    refuse(
        "certified",
        files(&ours, "somebody"),
        "certificate authentication failed",
    )
    .await;
    refuse("certified", files(&theirs, "certified"), "UnknownCA").await;

    // A server that the authority knows by another name.
    serve(&["db.example"]);
    reload().await;
    check(format!("sslmode=verify-ca&{}", root(&ours)), "trueTLSv1.3").await;
    refuse(
        "postgres",
        format!("sslmode=verify-full&{}", root(&ours)),
        "not valid for name",
    )
    .await;
}

/// A proxy that ends TLS is who is verified; what is behind it, it vouches for.
#[tokio::test]
#[ignore = "needs PgBouncer: cargo xtask test runs it"]
async fn pgbouncer_that_ends_tls_is_verified_by_its_name() {
    // The proxy may run as another account.
    let folder = tempfile::tempdir().unwrap();
    let set = |path: &Path, mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(path, mode).unwrap();
    };
    set(folder.path(), 0o755);
    let (ours, theirs) = (
        Authority::new(folder.path(), "ours"),
        Authority::new(folder.path(), "theirs"),
    );
    let (certificate, key) =
        ours.certify(&["127.0.0.1"], "proxy", ExtendedKeyUsagePurpose::ServerAuth);
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        set(&path, 0o644);
        path.display().to_string()
    };
    let shop = Shop::new("ended").await;
    let agent = format!("agent_{}", shop.database);
    let lines = [
        "client_tls_sslmode = require".to_owned(),
        format!("client_tls_cert_file = {}", file("proxy.crt", &certificate)),
        format!("client_tls_key_file = {}", file("proxy.key", &key)),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let pooler = PgBouncer::start_before(shop.server, &[&agent], &lines).unwrap();
    let open = async |options: String| {
        let url = format!("{}?{options}", pooler.url_as(&agent, &shop.database));
        let config = PostgresConfig::from_url(&url).unwrap();
        let backend = PostgresBackend::connect(config.pooled_by_transaction()).await;
        backend.map_err(|error| error.to_string())
    };
    let root = |authority: &Authority| format!("sslrootcert={}", authority.file.display());
    let query = super::Query {
        backend: open(format!("sslmode=verify-full&{}", root(&ours)))
            .await
            .unwrap(),
        ..shop.query("SELECT name FROM app.users WHERE id = 1")
    };
    assert_eq!(query.cell().await, Value::text("ann"));
    // Behind it nothing is encrypted, which is the proxy's to answer for.
    let plain = super::Query {
        sql: "SELECT '' || ssl::text FROM pg_stat_ssl WHERE pid = pg_backend_pid()".to_owned(),
        relations: Vec::new(),
        ..query.clone()
    };
    assert_eq!(plain.cell().await, Value::text("false"));
    // Cancelling goes the same way.
    let slow = super::Query {
        sql: "SELECT set_config('statement_timeout', '0', true), pg_sleep(60)".to_owned(),
        ..plain
    };
    slow.within_ms(300).fails().await;
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while shop.busy().contains("pg_sleep") {
        assert!(std::time::Instant::now() < deadline, "{}", shop.busy());
    }
    let refused = open(root(&theirs)).await.unwrap_err();
    assert!(refused.contains("UnknownIssuer"), "{refused}");
    let refused = open("sslmode=disable".to_owned()).await.unwrap_err();
    assert!(refused.contains("SSL"), "{refused}");
}
