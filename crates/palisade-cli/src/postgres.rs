//! A PostgreSQL database: what its URL may say, the password it goes without, and the account that is let in.

use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use palisade::catalog::Catalog;
use palisade_postgres::{
    ConnectError, PostgresBackend, PostgresConfig, Weakness, WeaknessKind, examine,
};
use percent_encoding::percent_decode_str;
use tokio::time::timeout;
use tokio_postgres::{Client, config::Host};

use crate::{
    exit::Failure,
    secret::{Password, Secret},
};

/// How long reading a catalog may take.
const CATALOG_TIME: Duration = Duration::from_secs(60);

/// The port of a host that none is written for.
const PORT: u16 = 5432;

/// A database of a server, and as whom to log in.
#[derive(Debug, Clone)]
pub(crate) struct PostgresTarget {
    /// Without a password.
    url: String,
    user: String,
    database: String,
    endpoints: Vec<String>,
    tls: TlsFiles,
    secret: Option<Secret>,
    acknowledged: Acknowledged,
}

/// What the operator has said to know of the account.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    /// That it is a superuser.
    pub(crate) superuser: bool,
    /// That it can do more than read.
    pub(crate) write: bool,
}

/// Why a URL cannot be used, and what to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// What is wrong; without the URL, which can hold a password.
    pub(crate) message: String,
    /// What to do.
    pub(crate) help: String,
}

impl Problem {
    fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            help: help.into(),
        }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Usage(format!("{}\n  help: {}", problem.message, problem.help))
    }
}

const FORM: &str = "write `postgres://USER@HOST:PORT/DATABASE`";

impl PostgresTarget {
    /// Reads a URL as the driver will. Files that it names are not opened yet.
    pub(crate) fn parse(url: &str, secret: Option<Secret>) -> Result<Self, Problem> {
        let (plain, tls) = without_tls(url);
        let server = tokio_postgres::Config::from_str(&plain).map_err(|error| {
            let why = std::error::Error::source(&error)
                .map_or_else(|| error.to_string(), ToString::to_string);
            Problem::new(
                format!("the connection URL cannot be read: {why}"),
                format!("{FORM}; what has a meaning in URLs is written as `%` and two digits"),
            )
        })?;
        if server.get_password().is_some() {
            return Err(Problem::new(
                "the connection URL holds a password, which every process on this machine could read",
                "leave it out, change it, and name where it is: `--password-env NAME` or `--password-file FILE`; in the configuration `password_env` or `password_file`",
            ));
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
        Ok(Self {
            url: url.to_owned(),
            user: user.to_owned(),
            database: database.to_owned(),
            endpoints,
            tls,
            secret,
            acknowledged: Acknowledged::default(),
        })
    }

    /// Starts on an account that can do what is `acknowledged`.
    pub(crate) fn acknowledging(self, acknowledged: Acknowledged) -> Self {
        Self {
            acknowledged,
            ..self
        }
    }

    /// The account.
    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    /// The database's name.
    pub(crate) fn database(&self) -> &str {
        &self.database
    }

    /// Every `host:port` that the driver may try.
    pub(crate) fn endpoints(&self) -> &[String] {
        &self.endpoints
    }

    /// Files that the URL names.
    pub(crate) fn tls(&self) -> &TlsFiles {
        &self.tls
    }

    /// Where the password is.
    pub(crate) fn secret(&self) -> Option<&Secret> {
        self.secret.as_ref()
    }

    /// A backend, if the account can do no more than is acknowledged.
    pub(crate) async fn open(&self) -> Result<PostgresBackend, Failure> {
        let url = self.login()?;
        let client = self.connected(&url).await?;
        let found = examine(&client)
            .await
            .map_err(|error| self.unavailable(&ConnectError::Engine(error)))?;
        let acts = client
            .query_typed("SELECT current_user = session_user", &[])
            .await
            .and_then(|rows| rows.first().map(|row| row.try_get(0)).transpose())
            .map_err(|error| self.unavailable(&ConnectError::Engine(error)))?;
        drop(client);
        self.admit(&found)?;
        if acts != Some(true) {
            // What was looked at are the rights of the account, not of whom it stands for.
            return Err(Failure::Configuration(format!(
                "error: sessions of `{0}` act as another role\n  help: `ALTER ROLE {0} RESET role`, and no `role` among the `options` of the URL",
                self.user
            )));
        }
        let mut config =
            PostgresConfig::from_url(&url).map_err(|error| self.unavailable(&error.into()))?;
        if self.acknowledged.superuser {
            config = config.accept_superuser();
        }
        PostgresBackend::connect(config)
            .await
            .map_err(|error| self.unavailable(&error))
    }

    /// What the database holds, whoever the account is: no statement of anybody's is run.
    pub(crate) async fn catalog(&self) -> Result<Catalog, Failure> {
        self.catalog_by(&self.client().await?).await
    }

    /// As [`catalog`](Self::catalog), over a connection that is there.
    pub(crate) async fn catalog_by(&self, client: &Client) -> Result<Catalog, Failure> {
        timeout(CATALOG_TIME, palisade_postgres::catalog(client))
            .await
            .map_err(|_| self.unavailable(&ConnectError::Late(CATALOG_TIME)))?
            .map_err(|error| self.unavailable(&error.into()))
    }

    /// A connection for what the operator asks about the database itself.
    pub(crate) async fn client(&self) -> Result<Client, Failure> {
        self.connected(&self.login()?).await
    }

    async fn connected(&self, url: &str) -> Result<Client, Failure> {
        palisade_postgres::connect(url)
            .await
            .map_err(|error| self.unavailable(&error))
    }

    /// The URL with the password, for the driver only.
    fn login(&self) -> Result<String, Failure> {
        match &self.secret {
            None => Ok(self.url.clone()),
            Some(secret) => with_password(&self.url, &secret.read()?).ok_or_else(|| {
                Failure::Internal("the password cannot be added to the URL".to_owned())
            }),
        }
    }

    /// Refuses an account that can do more than the operator has said to know.
    fn admit(&self, found: &[Weakness]) -> Result<(), Failure> {
        let of = |wanted: Excess| {
            found
                .iter()
                .filter(move |weakness| excess(weakness.kind) == wanted)
                .map(|weakness| weakness.description.as_str())
                .collect::<Vec<_>>()
        };
        let superuser = of(Excess::Superuser);
        let write = of(Excess::Write);
        let (told, key) = if !superuser.is_empty() && !self.acknowledged.superuser {
            (superuser, "acknowledge_superuser")
        } else if !write.is_empty() && !self.acknowledged.write {
            (write, "acknowledge_write")
        } else {
            return Ok(());
        };
        Err(Failure::Configuration(format!(
            "error: the account can do more than read, which its privileges should rule out:\n  - {}\n  \
             help: `palisade setup-sql {}` prints an account that can only read;\n        \
             `{key} = true` at the connection in the configuration starts with this one",
            told.join("\n  - "),
            self.url
        )))
    }

    fn unavailable(&self, error: &ConnectError) -> Failure {
        const RUNS: &str = "look whether the server runs, and listens there";
        let help = match error {
            ConnectError::Config(error) => {
                return Failure::Configuration(format!("error: {error}\n  help: {TLS_MODES}"));
            }
            ConnectError::Engine(error) => Some(self.help(error).unwrap_or(RUNS.to_owned())),
            ConnectError::Superuser(_) => Some(format!(
                "`palisade setup-sql {}` prints an account that can only read",
                self.url
            )),
            ConnectError::Introspect(_) | ConnectError::Refused(_) => None,
            // A server that says nothing, or cannot be reached in whatever way.
            _ => Some(RUNS.to_owned()),
        };
        let help = help.map_or_else(String::new, |help| format!("\n  help: {help}"));
        Failure::Unavailable(format!(
            "{} as `{}`: {error}{help}",
            self.endpoints.join(", "),
            self.user
        ))
    }

    /// What to do about an error of the driver's, by its SQLSTATE or by what it is about.
    fn help(&self, error: &tokio_postgres::Error) -> Option<String> {
        const NAME_IT: &str =
            "name where the password is: `--password-env NAME` or `--password-file FILE`";
        let Some(code) = error.code() else {
            let mut text = error.to_string();
            if let Some(source) = std::error::Error::source(error) {
                text.push_str(&format!(" {source}"));
            }
            let says = |word: &str| text.to_ascii_lowercase().contains(word);
            return if says("password") {
                Some(NAME_IT.to_owned())
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
        match (code.code(), &self.secret) {
            ("28P01" | "28000", None) => Some(NAME_IT.to_owned()),
            ("28P01", Some(secret)) => Some(format!(
                "what {secret} holds is not the password of `{}`",
                self.user
            )),
            ("28000", Some(_)) => {
                Some("the server's pg_hba.conf says who may log in from where".to_owned())
            }
            ("3D000", _) => Some(format!("there is no database `{}` there", self.database)),
            (_, _) => Some("the server's log says more".to_owned()),
        }
    }
}

/// What an account can do beyond reading, as far as a start is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Excess {
    /// Everything.
    Superuser,
    /// Write, or reach beyond its grants.
    Write,
    /// Nothing that the gate's own transactions do not take away.
    Nothing,
}

fn excess(kind: WeaknessKind) -> Excess {
    match kind {
        WeaknessKind::Superuser => Excess::Superuser,
        WeaknessKind::RoleAttribute
        | WeaknessKind::PredefinedRole
        | WeaknessKind::ServerFunction
        | WeaknessKind::Owner
        | WeaknessKind::CanWrite => Excess::Write,
        // `TEMPORARY` is everybody's in every new database, and a read-only transaction makes nothing.
        WeaknessKind::CanCreate
        | WeaknessKind::SecurityDefiner
        | WeaknessKind::Plaintext
        | WeaknessKind::NotReadOnly
        | WeaknessKind::NoTimeout
        | WeaknessKind::NoConnectionLimit
        | WeaknessKind::UntestedVersion => Excess::Nothing,
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

/// The files that a URL names for TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// Certificates, which are nobody's secret.
    certificates: Vec<PathBuf>,
    /// The key of our own.
    pub(crate) keys: Vec<PathBuf>,
}

impl TlsFiles {
    fn is_empty(&self) -> bool {
        self.certificates.is_empty() && self.keys.is_empty()
    }

    /// One that means another file in another folder.
    pub(crate) fn relative(&self) -> Option<&Path> {
        self.certificates
            .iter()
            .chain(&self.keys)
            .map(PathBuf::as_path)
            .find(|path| !path.is_absolute() && *path != Path::new("system"))
    }
}

/// `url` without what it says of TLS, which the driver alone does not know, and the files named in that.
fn without_tls(url: &str) -> (String, TlsFiles) {
    let mut files = TlsFiles::default();
    let Some((base, query)) = url.split_once('?') else {
        return (url.to_owned(), files);
    };
    let mut rest = Vec::new();
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        match decoded(name).as_str() {
            "sslmode" => {}
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
        tokio_postgres::Config::from_str(&without_tls(url).0).ok()?,
        tokio_postgres::Config::from_str(&without_tls(&whole).0).ok()?,
    );
    let same = before.get_hosts() == after.get_hosts()
        && before.get_hostaddrs() == after.get_hostaddrs()
        && before.get_ports() == after.get_ports()
        && before.get_user() == after.get_user()
        && before.get_dbname() == after.get_dbname()
        && after.get_password() == Some(password.reveal().as_bytes());
    same.then_some(whole)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use super::*;

    fn endpoints(url: &str) -> Vec<String> {
        PostgresTarget::parse(url, None).unwrap().endpoints
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
            let read = tokio_postgres::Config::from_str(&without_tls(&whole).0).unwrap();
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
