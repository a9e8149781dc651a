//! A PostgreSQL database: how its URL is read, its password added, its account let in.

use std::{
    net::{IpAddr, SocketAddr},
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use palisade::{catalog::Catalog, guard::Backend, ident};
use palisade_postgres::{
    ConnectError, Excess as AccountExcess, PostgresBackend, PostgresConfig, Weakness, examine,
};
use palisade_state::{ApprovalOptions, ApprovalStore, StateSecret};
use percent_encoding::percent_decode_str;
use tokio::time::timeout;
use tokio_postgres::{Client, config::Host};

use crate::{
    database::Access,
    exit::Failure,
    secret::Password,
    server_statements::{CountedStatement, CountedStatements},
    target::{LOOK_WHETHER_IT_RUNS, NAME_THE_PASSWORD, Parts, Problem, Target, TlsFiles},
    weakness::{Excess, Weak},
};

pub(crate) use crate::account::postgres::{look, own_role, sql};
pub(crate) use palisade_postgres::SettingName;

/// How long reading a catalog may take.
const CATALOG_TIME: Duration = Duration::from_secs(60);

/// What is everybody's in every new database, and no fault of the account's.
pub(crate) const TEMPORARY: &str = "temporary";

/// The port of a host that none is written for.
const PORT: u16 = 5432;

const FORM: &str = "write `postgres://USER@HOST:PORT/DATABASE`";

/// Reads a URL as the driver will.
pub(crate) fn parse(url: &str) -> Result<Parts, Problem> {
    let (plain, tls) = without_own_options(url);
    let server = tokio_postgres::Config::from_str(&plain).map_err(|error| {
        let why = std::error::Error::source(&error)
            .map_or_else(|| error.to_string(), ToString::to_string);
        Problem::new(
            format!("the connection URL cannot be read: {why}"),
            format!("{FORM}; what has a meaning in URLs is written as `%` and two digits"),
        )
    })?;
    if server.get_password().is_some() {
        return Err(Problem::password());
    }
    let Some(user) = server.get_user() else {
        return Err(Problem::new("the connection URL names no user", FORM));
    };
    let Some(database) = server.get_dbname() else {
        return Err(Problem::new("the connection URL names no database", FORM));
    };
    let endpoints = endpoints(&server)?;
    // With files, it is read when it is opened: whether they may be is not known here.
    if tls.is_empty()
        && let Err(error) = PostgresConfig::from_url(url)
    {
        return Err(Problem::new(error.to_string(), TLS_MODES));
    }
    Ok(Parts {
        user: user.to_owned(),
        database: database.to_owned(),
        endpoints,
        tls,
    })
}

/// A backend, if the account can do no more than is acknowledged.
pub(crate) async fn open(target: &Target, access: Access) -> Result<Arc<dyn Backend>, Failure> {
    let url = login(target)?;
    let client = open_connection(target, &url).await?;
    let fault = |error| unavailable(target, &ConnectError::Engine(error));
    let found = examine(&client).await.map_err(fault)?;
    let acts = client
        .query_typed("SELECT current_user = session_user", &[])
        .await
        .and_then(|rows| rows.first().map(|row| row.try_get(0)).transpose())
        .map_err(fault)?;
    drop(client);
    let found: Vec<Weak> = found.into_iter().map(Weak::from).collect();
    target.admit(&found, access)?;
    if acts != Some(true) {
        // What was looked at are the rights of the account, not of whom it stands for.
        return Err(Failure::Configuration(format!(
            "error: sessions of `{0}` act as another role\n  help: `ALTER ROLE {0} RESET role`, and no `role` among the `options` of the URL",
            target.user()
        )));
    }
    let mut config =
        PostgresConfig::from_url(&url).map_err(|error| unavailable(target, &error.into()))?;
    if target.acknowledged().superuser {
        config = config.accept_superuser();
    }
    if let Some(source) = target.password_source() {
        config = config.password_from(source);
    }
    if access == Access::Write {
        config = config.writable();
    }
    if target.is_pooled() {
        config = config.pooled_by_transaction();
    }
    if let Some(lag) = target.max_lag() {
        config = config.max_lag(lag);
    }
    if let Some(name) = target.handed() {
        config = config.hand_principal(name.clone());
    }
    let opened = PostgresBackend::connect(config)
        .await
        .map_err(|error| unavailable(target, &error))?;
    Ok(Arc::new(opened))
}

/// The store in the database of `target`. The account writes there, and no statement of anybody's is run.
pub(crate) fn open_state(
    target: &Target,
    secret: &StateSecret,
    options: ApprovalOptions,
) -> Result<ApprovalStore, Failure> {
    let config = PostgresConfig::from_url(&login(target)?)
        .map_err(|error| unavailable(target, &error.into()))?;
    ApprovalStore::open_postgres(config, secret, options).map_err(|error| {
        Failure::Usage(format!(
            "{error}\n  help: look whether the server runs, and whether `{}` may log in to `{}` and make the schema `palisade_state` there, or owns it",
            target.user(),
            target.database()
        ))
    })
}

/// What the database holds.
pub(crate) async fn catalog(target: &Target, client: &Client) -> Result<Catalog, Failure> {
    timeout(CATALOG_TIME, palisade_postgres::catalog(client))
        .await
        .map_err(|_| unavailable(target, &ConnectError::Late(CATALOG_TIME)))?
        .map_err(|error| unavailable(target, &error.into()))
}

/// What the database of `target` holds.
pub(crate) async fn read_catalog(target: &Target) -> Result<Catalog, Failure> {
    catalog(target, &client(target).await?).await
}

/// The statements that the server has counted by its extension `pg_stat_statements`.
pub(crate) async fn read_statements(target: &Target) -> Result<CountedStatements, Failure> {
    let client = client(target).await?;
    let fault = |error: tokio_postgres::Error| {
        let told = error
            .as_db_error()
            .map_or_else(|| error.to_string(), |told| told.message().to_owned());
        Failure::Unavailable(format!(
            "the server does not tell which statements it has counted: {told}\n  help: {COUNT_STATEMENTS}"
        ))
    };
    let sql = "SELECT /* palisade */ n.nspname::text FROM pg_catalog.pg_extension e \
               JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'pg_stat_statements'";
    let found = client.query_typed(sql, &[]).await.map_err(fault)?;
    let Some(row) = found.first() else {
        return Err(Failure::Usage(format!(
            "the database has no extension `pg_stat_statements`\n  help: {COUNT_STATEMENTS}"
        )));
    };
    let schema: String = row.try_get(0).map_err(fault)?;
    let of = |name: &str| ident::qualify([schema.as_str(), name]);
    let ms = "pg_catalog.extract('epoch', {}) OPERATOR(pg_catalog.*) 1000";
    let sql = format!(
        "SELECT /* palisade */ i.dealloc, ({})::pg_catalog.int8, ({})::pg_catalog.int8 FROM {} i",
        ms.replace("{}", "i.stats_reset"),
        ms.replace("{}", "pg_catalog.now()"),
        of("pg_stat_statements_info")
    );
    let rows = client.query_typed(&sql, &[]).await.map_err(fault)?;
    let row = rows
        .first()
        .ok_or_else(|| Failure::Internal("no row of statistics".to_owned()))?;
    let dropped: i64 = row.try_get(0).map_err(fault)?;
    let moment = |at| -> Result<Duration, tokio_postgres::Error> {
        let ms: i64 = row.try_get(at)?;
        Ok(Duration::from_millis(ms.unsigned_abs()))
    };
    let (first, last) = (moment(1).map_err(fault)?, moment(2).map_err(fault)?);
    let sql = format!(
        "SELECT /* palisade */ r.rolname::pg_catalog.text, s.query, s.calls FROM {} s \
         JOIN pg_catalog.pg_roles r ON r.oid = s.userid \
         JOIN pg_catalog.pg_database d ON d.oid = s.dbid \
         WHERE d.datname = pg_catalog.current_database() AND s.toplevel ORDER BY s.calls DESC, s.query",
        of("pg_stat_statements")
    );
    let mut counted = CountedStatements::default();
    let mut hidden = 0_i64;
    for row in client.query_typed(&sql, &[]).await.map_err(fault)? {
        let text: Option<String> = row.try_get(1).map_err(fault)?;
        let calls: i64 = row.try_get(2).map_err(fault)?;
        match text {
            // Our own, by which this was asked before.
            Some(text) if text.starts_with(OWN) => {}
            Some(text) if text != HIDDEN => counted.statements.push(CountedStatement {
                account: Some(row.try_get(0).map_err(fault)?),
                text,
                calls: calls.unsigned_abs(),
                first,
                last,
            }),
            Some(_) | None => hidden += calls,
        }
    }
    if hidden > 0 {
        counted.unseen.push(format!(
            "Of {hidden} calls of other accounts the text is hidden from `{}`: grant it `pg_read_all_stats`.",
            target.user()
        ));
    }
    if dropped > 0 {
        counted.unseen.push(format!(
            "{dropped} times the server forgot what was asked seldom: `pg_stat_statements.max` is too small."
        ));
    }
    Ok(counted)
}

/// How our own questions about statements begin: the server keeps comments.
const OWN: &str = "SELECT /* palisade */";

/// What `pg_stat_statements` tells in the place of a text that the account may not read.
const HIDDEN: &str = "<insufficient privilege>";

/// How a server comes to count statements.
const COUNT_STATEMENTS: &str = "write `shared_preload_libraries = 'pg_stat_statements'` into `postgresql.conf`, restart the server, and run \
     `CREATE EXTENSION pg_stat_statements` in the database";

/// A connection for what the operator asks about the database itself.
pub(crate) async fn client(target: &Target) -> Result<Client, Failure> {
    open_connection(target, &login(target)?).await
}

async fn open_connection(target: &Target, url: &str) -> Result<Client, Failure> {
    palisade_postgres::connect(url)
        .await
        .map_err(|error| unavailable(target, &error))
}

/// The URL with the password, for the driver only.
fn login(target: &Target) -> Result<String, Failure> {
    match target.password()? {
        None => Ok(target.url().to_owned()),
        Some(password) => with_password(target.url(), &password)
            .ok_or_else(|| Failure::Internal("the password cannot be added to the URL".to_owned())),
    }
}

fn unavailable(target: &Target, error: &ConnectError) -> Failure {
    let help = match error {
        ConnectError::Config(error) => {
            return Failure::Configuration(format!("error: {error}\n  help: {TLS_MODES}"));
        }
        ConnectError::Engine(error) => {
            Some(help(target, error).unwrap_or(LOOK_WHETHER_IT_RUNS.to_owned()))
        }
        ConnectError::Superuser(_) => Some(target.another_account()),
        ConnectError::Introspect(_) | ConnectError::Refused(_) => None,
        // A server that says nothing, or cannot be reached in whatever way.
        _ => Some(LOOK_WHETHER_IT_RUNS.to_owned()),
    };
    target.unavailable(error, help.as_deref())
}

/// What to do about an error of the driver's, by its SQLSTATE or by what it is about.
fn help(target: &Target, error: &tokio_postgres::Error) -> Option<String> {
    let Some(code) = error.code() else {
        let mut text = error.to_string();
        if let Some(source) = std::error::Error::source(error) {
            text.push_str(&format!(" {source}"));
        }
        let says = |word: &str| text.to_ascii_lowercase().contains(word);
        return if says("password") {
            Some(NAME_THE_PASSWORD.to_owned())
        } else if says("does not support tls") {
            Some(
                "turn `ssl` on in the server's configuration, or write `sslmode=disable` where the network \
                 itself is trusted"
                    .to_owned(),
            )
        } else if says("tls") || says("certificate") {
            Some(TLS_MODES.to_owned())
        } else {
            None
        };
    };
    match code.code() {
        "28P01" => Some(target.another_password()),
        "28000" => Some(format!(
            "the account could not log in: look whether the server has a role `{}`, and what its pg_hba.conf says of it",
            target.user()
        )),
        "3D000" => Some(format!(
            "there is no database `{}` there",
            target.database()
        )),
        _ => Some("the server's log says more".to_owned()),
    }
}

/// Where the driver may connect to, as `host:port`: hosts, and addresses given beside them.
fn endpoints(server: &tokio_postgres::Config) -> Result<Vec<String>, Problem> {
    let ports = server.get_ports();
    let port = |index: usize| match ports {
        [] => PORT,
        [only] => *only,
        several => several.get(index).copied().unwrap_or(PORT),
    };
    let mut found = Vec::new();
    for (index, host) in server.get_hosts().iter().enumerate() {
        let port = port(index);
        found.push(match host {
            Host::Tcp(name) => match name.parse::<IpAddr>() {
                Ok(address) => SocketAddr::new(address, port).to_string(),
                Err(_) => format!("{}:{port}", name.to_ascii_lowercase()),
            },
            #[cfg(unix)]
            Host::Unix(folder) => format!("{}:{port}", folder.display()),
        });
    }
    for (index, address) in server.get_hostaddrs().iter().enumerate() {
        found.push(SocketAddr::new(*address, port(index)).to_string());
    }
    if found.is_empty() {
        return Err(Problem::new("the connection URL names no host", FORM));
    }
    Ok(found)
}

/// What a URL can say of encryption.
const TLS_MODES: &str = "without `sslmode`, connections that leave this machine are encrypted and the server's name is \
     verified; `sslrootcert=FILE` names the authority, `sslcert` and `sslkey` our own certificate; weaker are \
     `sslmode=verify-ca`, `sslmode=require` and `sslmode=disable`";

/// `url` without what it says of TLS and of which server is wanted, which is not the driver's to read, and the files
/// named in that.
fn without_own_options(url: &str) -> (String, TlsFiles) {
    let mut files = TlsFiles::default();
    let Some((base, query)) = url.split_once('?') else {
        return (url.to_owned(), files);
    };
    let mut rest = Vec::new();
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        match decoded(name).as_str() {
            "sslmode" | "target_session_attrs" => {}
            "sslrootcert" | "sslcert" => files.certificates.push(decoded(value).into()),
            "sslkey" => files.keys.push(decoded(value).into()),
            _ => rest.push(pair),
        }
    }
    if rest.is_empty() {
        return (base.to_owned(), files);
    }
    (format!("{base}?{}", rest.join("&")), files)
}

/// `url` with the password as an option, if the driver then reads the same server, account and database.
fn with_password(url: &str, password: &Password) -> Option<String> {
    let separator = match url.find('?') {
        None => "?",
        Some(at) if at + 1 == url.len() || url.ends_with('&') => "",
        Some(_) => "&",
    };
    let mut whole = format!("{url}{separator}password=");
    for byte in password.reveal().bytes() {
        if byte.is_ascii_alphanumeric() {
            whole.push(char::from(byte));
        } else {
            whole.push_str(&format!("%{byte:02X}"));
        }
    }
    let (before, after) = (
        tokio_postgres::Config::from_str(&without_own_options(url).0).ok()?,
        tokio_postgres::Config::from_str(&without_own_options(&whole).0).ok()?,
    );
    let same = before.get_hosts() == after.get_hosts()
        && before.get_hostaddrs() == after.get_hostaddrs()
        && before.get_ports() == after.get_ports()
        && before.get_user() == after.get_user()
        && before.get_dbname() == after.get_dbname()
        && after.get_password() == Some(password.reveal().as_bytes());
    same.then_some(whole)
}

impl From<Weakness> for Weak {
    fn from(weakness: Weakness) -> Self {
        Self {
            kind: weakness.kind.slug(),
            excess: match weakness.kind.excess() {
                AccountExcess::Superuser => Excess::Superuser,
                AccountExcess::Write => Excess::Write,
                AccountExcess::Create => Excess::Create,
                AccountExcess::Nothing => Excess::Nothing,
            },
            description: weakness.description,
            remedy: weakness.remedy,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use super::*;
    use crate::secret::Secret;

    fn endpoints(url: &str) -> Vec<String> {
        parse(url).unwrap().endpoints
    }

    #[test]
    fn every_place_the_driver_may_try_is_named() {
        for (url, expected) in [
            ("postgres://u@localhost/d", &["localhost:5432"][..]),
            ("postgres://u@LocalHost:1/d", &["localhost:1"]),
            ("postgres://u@[::1]:1/d", &["[::1]:1"]),
            ("postgres://u@%2Frun%2Fpg:1/d", &["/run/pg:1"]),
            (
                "postgres://u@localhost:1,127.0.0.1:2/d",
                &["localhost:1", "127.0.0.1:2"],
            ),
            (
                "postgres://u@localhost:1/d?hostaddr=127.0.0.9",
                &["localhost:1", "127.0.0.9:1"],
            ),
            (
                "postgres://u@localhost/d?host=127.0.0.1&port=2",
                &["localhost:5432", "127.0.0.1:2"],
            ),
            (
                "postgres://u@a.example:1/d?sslmode=verify-ca&sslkey=k",
                &["a.example:1"],
            ),
        ] {
            assert_eq!(endpoints(url), expected, "{url}");
        }
    }

    #[test]
    fn a_password_changes_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p");
        std::fs::write(&path, "a&user=root?@/:%=\u{e9}").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, mode).unwrap();
        let password = Secret::File(path).read().unwrap();
        for url in [
            "postgres://u@localhost/d",
            "postgres://u@localhost/d?",
            "postgres://u@localhost/d?connect_timeout=1",
            "postgres://u@localhost/d?connect_timeout=1&",
            "postgres://u@a.example/d?sslmode=verify-full&sslrootcert=system",
        ] {
            let whole = with_password(url, &password).unwrap();
            let read = tokio_postgres::Config::from_str(&without_own_options(&whole).0).unwrap();
            assert_eq!(
                read.get_password(),
                Some(password.reveal().as_bytes()),
                "{url}"
            );
            assert_eq!(read.get_user(), Some("u"), "{url}");
        }
        // A question mark where it is no separator: nothing is sent anywhere.
        assert_eq!(with_password("postgres://u?x@localhost/d", &password), None);
    }
}
