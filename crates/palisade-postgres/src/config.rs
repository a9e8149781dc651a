//! How to reach a database, and how much of it to use.

use std::{fmt, net::IpAddr, path::PathBuf, str::FromStr, time::Duration};

use palisade_pool::{
    CONNECT_TIMEOUT, CertificateFiles, ConfigError, PasswordSource, PoolSize, TARGET_OPTION,
    TARGETS, Wanted,
};
use percent_encoding::percent_decode_str;
use tokio_postgres::config::{Host, LoadBalanceHosts};

use crate::tls::{SslMode, Tls, TlsOptions};

/// How to reach a database, and how much of it to use.
#[derive(Clone)]
pub struct PostgresConfig {
    pub(crate) server: tokio_postgres::Config,
    pub(crate) tls: Tls,
    pub(crate) mode: SslMode,
    pub(crate) size: PoolSize,
    pub(crate) connect_timeout: Duration,
    pub(crate) accepts_superuser: bool,
    pub(crate) is_writable: bool,
    pub(crate) handed: Option<SettingName>,
    pub(crate) is_pooled: bool,
    /// What servers must be for sessions that read.
    pub(crate) wanted: Wanted,
    pub(crate) max_lag: Option<Duration>,
    pub(crate) passwords: Option<PasswordSource>,
}

/// The name of a setting that the server keeps for whoever invents it: words of small letters, digits and `_`, with a
/// dot between them, like `app.user`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingName(String);

impl SettingName {
    /// Reads one. `None` for what is no such name: those without a dot are the server's own.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let is_word = |word: &str| {
            let mut chars = word.chars();
            chars
                .next()
                .is_some_and(|c| c == '_' || c.is_ascii_lowercase())
                && chars.all(|c| c == '_' || c.is_ascii_lowercase() || c.is_ascii_digit())
        };
        let is_name = name.contains('.') && name.len() < 64 && name.split('.').all(is_word);
        is_name.then(|| Self(name.to_owned()))
    }

    /// As it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PostgresConfig {
    /// The database at `url`, `postgres://user:password@host:port/database?option=value`
    /// (<https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING-URIS>).
    ///
    /// TLS goes by the options `sslmode` ([`SslMode`]), `sslrootcert` (a file, or `system` for the
    /// authorities that the machine trusts, which are taken if none are named), `sslcert` and `sslkey`.
    /// `connect_timeout` and those of keep-alives have no effect; see
    /// [`connect_timeout`](Self::connect_timeout).
    ///
    /// Without `sslmode` the server's name is verified, except where the connection does not leave
    /// the machine: there it is plain. The modes `prefer` and `allow`, which give way, do not exist.
    ///
    /// Where the URL names several hosts, `a:5432,b:5432`, a session is with the first that can be reached and is what
    /// `target_session_attrs` says: `any`, `read-write`, `read-only`, `primary`, `standby` or `prefer-standby`. Changes and
    /// what belongs to them are done on the primary, whatever it says.
    ///
    /// # Errors
    /// If `url` is no such URL, has options that are not understood, or names files that cannot be read.
    pub fn from_url(url: &str) -> Result<Self, ConfigError> {
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(ConfigError::Url(
                "it does not begin with `postgres://`".to_owned(),
            ));
        }
        let (url, options, wanted) = take_own_options(url)?;
        let mut server = tokio_postgres::Config::from_str(&url)
            .map_err(|error| ConfigError::Url(crate::introspect::chain(&error)))?;
        let tls = options.complete(is_local(&server))?;
        server.ssl_mode(match tls.mode {
            SslMode::Disable => tokio_postgres::config::SslMode::Disable,
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => {
                tokio_postgres::config::SslMode::Require
            }
        });
        // What connections of our own making do not do must not be asked for in vain.
        if server.get_load_balance_hosts() != LoadBalanceHosts::Disable {
            return Err(ConfigError::option(
                "load_balance_hosts",
                "it is not supported",
            ));
        }
        if server.get_application_name().is_none() {
            server.application_name("palisade");
        }
        Ok(Self {
            server,
            mode: tls.mode,
            tls: tls.load()?,
            size: PoolSize::default(),
            connect_timeout: CONNECT_TIMEOUT,
            accepts_superuser: false,
            is_writable: false,
            handed: None,
            is_pooled: false,
            wanted,
            max_lag: None,
            passwords: None,
        })
    }

    /// Runs statements that change rows or the schema too, in transactions that read and write. What the account
    /// may change is the server's to say.
    #[must_use]
    pub fn writable(mut self) -> Self {
        self.is_writable = true;
        self
    }

    /// Tells the server for whom each statement is, `Type::"id"`, in the setting `name` of the statement's transaction,
    /// for row-level security of its own: `current_setting('app.user', true)`. Nothing of it outlives the transaction.
    #[must_use]
    pub fn hand_principal(mut self, name: SettingName) -> Self {
        self.handed = Some(name);
        self
    }

    /// For a pooler like PgBouncer in transaction mode, behind which each transaction may have another session of the
    /// server's: no connection is used twice, and what a statement leaves is taken back before its transaction ends.
    #[must_use]
    pub fn pooled_by_transaction(mut self) -> Self {
        self.is_pooled = true;
        self
    }

    /// At most this many connections (at least one), and this many statements that wait for one: the next
    /// is refused. 8 and 64 if not called. Where policy has rows looked for before a change, one more looks at the schema.
    #[must_use]
    pub fn connections(mut self, connections: usize, waiting: usize) -> Self {
        self.size = PoolSize {
            connections,
            waiting,
        };
        self
    }

    /// How long a connection may take to come about, logging in included. Five seconds if not called.
    #[must_use]
    pub fn connect_timeout(mut self, time: Duration) -> Self {
        self.connect_timeout = time;
        self
    }

    /// Reads from a standby only as long as its data are at most this old, and else from the next server. A standby whose
    /// primary writes nothing looks older than it is, unless the account may see the receiver (`pg_read_all_stats`).
    #[must_use]
    pub fn max_lag(mut self, lag: Duration) -> Self {
        self.max_lag = Some(lag);
        self
    }

    /// Whether sessions that read may be with another server than those that change.
    pub(crate) fn is_spread(&self) -> bool {
        let names_several = self
            .server
            .get_hosts()
            .len()
            .max(self.server.get_hostaddrs().len())
            > 1;
        names_several && self.wanted != Wanted::Primary
    }

    /// Starts even if the account is a superuser, whom hardly one of the server's own locks stops. Never in
    /// production.
    #[must_use]
    pub fn accept_superuser(mut self) -> Self {
        self.accepts_superuser = true;
        self
    }

    /// Logs in with this password, whatever the URL says.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.server.password(password);
        self
    }

    /// Asks `read` for the password before each session is made, so that a rotated one is taken up. Where it gives none, the password
    /// that was known stays. It runs on the thread that makes the session: it may read a small file, and nothing that takes long.
    #[must_use]
    pub fn password_from(
        mut self,
        read: impl Fn() -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.passwords = Some(PasswordSource::new(read));
        self
    }

    /// What must be true of connections.
    #[must_use]
    pub fn ssl_mode(&self) -> SslMode {
        self.mode
    }
}

impl fmt::Debug for PostgresConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresConfig")
            .field("hosts", &self.server.get_hosts())
            .field("database", &self.server.get_dbname())
            .field("user", &self.server.get_user())
            .field("ssl_mode", &self.mode)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

/// The options of a URL that the driver does not know, or takes more lightly.
#[derive(Default)]
struct GivenTls {
    mode: Option<SslMode>,
    files: CertificateFiles,
}

/// `url` without the options that are ours to read, and these.
fn take_own_options(url: &str) -> Result<(String, GivenTls, Wanted), ConfigError> {
    let (mut given, mut wanted) = (GivenTls::default(), Wanted::Any);
    let Some((base, query)) = url.split_once('?') else {
        return Ok((url.to_owned(), given, wanted));
    };
    let mut rest = Vec::new();
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = percent_decode_str(value)
            .decode_utf8()
            .map_err(|_| ConfigError::Url("an option is not UTF-8".to_owned()))?;
        match percent_decode_str(name).decode_utf8_lossy().as_ref() {
            "sslmode" => {
                given.mode = Some(SslMode::from_name(&value).ok_or_else(|| {
                    ConfigError::option(
                        "sslmode",
                        "it must be `disable`, `require`, `verify-ca` or `verify-full`",
                    )
                })?);
            }
            "sslrootcert" => given.files.authorities = Some(PathBuf::from(value.as_ref())),
            "sslcert" => given.files.certificate = Some(PathBuf::from(value.as_ref())),
            "sslkey" => given.files.key = Some(PathBuf::from(value.as_ref())),
            TARGET_OPTION => {
                wanted = Wanted::from_name(&value)
                    .ok_or_else(|| ConfigError::option(TARGET_OPTION, TARGETS))?;
            }
            // The driver refuses what it does not know.
            _ => rest.push(pair),
        }
    }
    if rest.is_empty() {
        return Ok((base.to_owned(), given, wanted));
    }
    Ok((format!("{base}?{}", rest.join("&")), given, wanted))
}

impl GivenTls {
    /// With what holds where nothing is said. `local` connections do not leave the machine.
    fn complete(self, local: bool) -> Result<TlsOptions, ConfigError> {
        let names_files = self.files.are_named();
        let mode = match self.mode {
            Some(mode) => mode,
            None if local && !names_files => SslMode::Disable,
            None => SslMode::VerifyFull,
        };
        if mode == SslMode::Disable && names_files {
            return Err(ConfigError::option(
                "sslmode",
                "certificates are named, and `disable` would not use them",
            ));
        }
        let identity = self
            .files
            .identity("sslcert", "`sslcert` and `sslkey` go together")?;
        Ok(TlsOptions {
            mode,
            root_cert: self.files.authorities(),
            identity,
        })
    }
}

/// Whether connections stay on this machine: sockets of the file system and loopback addresses. A name counts only if
/// it is `localhost`, which no resolver may send elsewhere (RFC 6761).
fn is_local(server: &tokio_postgres::Config) -> bool {
    let local = |host: &Host| match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    };
    server.get_hosts().iter().all(local) && server.get_hostaddrs().iter().all(IpAddr::is_loopback)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn what_is_not_said_is_safe() {
        for (url, mode) in [
            ("postgres://a@127.0.0.1/d", SslMode::Disable),
            ("postgres://a@localhost:5433/d", SslMode::Disable),
            ("postgres://a@[::1]/d", SslMode::Disable),
            ("postgres://a@%2Frun%2Fpostgresql/d", SslMode::Disable),
            ("postgres://a@db.example/d", SslMode::VerifyFull),
            ("postgres://a@10.0.0.1/d", SslMode::VerifyFull),
            ("postgres://a@localhost,db.example/d", SslMode::VerifyFull),
            (
                "postgres://a@localhost/d?hostaddr=10.0.0.1",
                SslMode::VerifyFull,
            ),
            (
                "postgres://a@127.0.0.1/d?sslmode=verify-full",
                SslMode::VerifyFull,
            ),
            (
                "postgres://a@db.example/d?sslmode=disable",
                SslMode::Disable,
            ),
            (
                "postgresql://a@db.example/d?sslmode=require&connect_timeout=3",
                SslMode::Require,
            ),
            (
                "postgres://a@db.example/d?sslrootcert=system",
                SslMode::VerifyFull,
            ),
        ] {
            let (rest, options, _) = take_own_options(url).unwrap();
            let server = tokio_postgres::Config::from_str(&rest).unwrap();
            assert_eq!(
                options.complete(is_local(&server)).unwrap().mode,
                mode,
                "{url}"
            );
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_without_the_password() {
        let missing = "cannot use `/no/such/file`";
        for (url, expected) in [
            ("host=db.example user=a", "does not begin with"),
            ("mysql://a@b/c", "does not begin with"),
            ("postgres://a:s3cret@b/c?sslmode=prefer", "`sslmode`"),
            ("postgres://a:s3cret@b/c?sslmode=allow", "`sslmode`"),
            ("postgres://a:s3cret@b/c?ssl%6Dode=prefer", "`sslmode`"),
            ("postgres://a:s3cret@b/c?sslmode=Require", "`sslmode`"),
            ("postgres://a:s3cret@b/c?sslmod=require", "sslmod"),
            ("postgres://a:s3cret@b/c?sslcrl=x", "sslcrl"),
            (
                "postgres://a:s3cret@b,d/c?target_session_attrs=master",
                "`prefer-standby`",
            ),
            ("postgres://a:s3cret@b/c?sslcert=x", "go together"),
            (
                "postgres://a:s3cret@b/c?sslmode=disable&sslrootcert=x",
                "would not use them",
            ),
            (
                "postgres://a:s3cret@b/c?sslrootcert=%2Fno%2Fsuch%2Ffile",
                missing,
            ),
            ("postgres://a:s3cret@b:port/c", "cannot be read"),
        ] {
            let error = PostgresConfig::from_url(url).unwrap_err().to_string();
            assert!(error.contains(expected), "{url}: {error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
        let config = PostgresConfig::from_url("postgres://a:s3cret@localhost/c").unwrap();
        assert!(!format!("{config:?}").contains("s3cret"));
    }
}
