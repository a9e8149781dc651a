//! How to reach a server, and how much of it to use.

use std::{
    collections::BTreeSet,
    fmt,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use mysql_async::{Opts, OptsBuilder};
use palisade_pool::{
    CONNECT_TIMEOUT, CertificateFiles, ConfigError, PasswordSource, PoolSize, TARGET_OPTION,
    TARGETS, Wanted,
};
use percent_encoding::percent_decode_str;

use crate::{
    settings,
    tls::{SslMode, TlsOptions},
    weaknesses::lag_privileges,
};

/// How to reach a server, and how much of it to use.
#[derive(Clone)]
pub struct MysqlConfig {
    /// At least one; they differ in host and port.
    servers: Vec<Opts>,
    tls: TlsOptions,
    pub(crate) size: PoolSize,
    pub(crate) connect_timeout: Duration,
    pub(crate) accepts_powerful: bool,
    pub(crate) is_writable: bool,
    /// What servers must be for sessions that read.
    pub(crate) wanted: Wanted,
    pub(crate) max_lag: Option<Duration>,
    pub(crate) passwords: Option<PasswordSource>,
}

impl MysqlConfig {
    /// The database at `url`, `mysql://user:password@host:port/database?option=value` or `mariadb://…`. It must
    /// name a database. `LOAD DATA LOCAL` has no handler, so the server gets no file of ours.
    ///
    /// The options are `socket`, the file to connect to in place of the host, and for TLS `ssl-mode` ([`SslMode`]),
    /// `ssl-ca`, `ssl-cert` and `ssl-key`. `ssl-ca` is a file, or `system` for the authorities that the machine
    /// trusts, which are the default. Files are read when a connection is made.
    ///
    /// Without `ssl-mode` the server's name is verified, except where the connection does not leave the
    /// machine: there it is plain. The mode `PREFERRED`, which gives way, does not exist.
    ///
    /// Where the URL names several hosts, `a:3306,b:3306`, a session is with the first that can be reached and is what
    /// `target_session_attrs` says: `any`, `read-write`, `read-only`, `primary`, `standby` or `prefer-standby`. A server
    /// is a standby if its `read_only` is on. A node of a cluster that is not ready is passed over. Changes and what belongs
    /// to them are done on the primary, whatever it says.
    ///
    /// # Errors
    /// If `url` is no such URL, or has options that are not understood.
    pub fn from_url(url: &str) -> Result<Self, ConfigError> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let given = Given::read(query)?;
        let base = match base.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("mariadb") => {
                format!("mysql://{rest}")
            }
            Some(_) | None => base.to_owned(),
        };
        let mut servers = Vec::new();
        for url in split_hosts(&base) {
            let server =
                Opts::from_url(&url).map_err(|error| ConfigError::Url(error.to_string()))?;
            if server.db_name().is_none_or(str::is_empty) {
                return Err(ConfigError::Url("it names no database".to_owned()));
            }
            servers.push(server);
        }
        if servers.len() > 1 && given.socket.is_some() {
            let reason = "the URL names several hosts";
            return Err(ConfigError::option("socket", reason));
        }
        let tls = given.tls(servers.iter().all(is_local), given.socket.is_some())?;
        let with_ours = |server| -> Opts {
            OptsBuilder::from_opts(server)
                .socket(given.socket.clone())
                // Otherwise the driver leaves the address it was given where the server has a socket.
                .prefer_socket(false)
                .init(Vec::<String>::new())
                .setup(vec![settings::SETUP])
                .stmt_cache_size(0)
                .into()
        };
        Ok(Self {
            servers: servers.into_iter().map(with_ours).collect(),
            tls,
            size: PoolSize::default(),
            connect_timeout: CONNECT_TIMEOUT,
            accepts_powerful: false,
            is_writable: false,
            wanted: given.wanted,
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

    /// At most this many connections (at least one), and this many statements that wait for one: the next
    /// is refused. 8 and 64 if not called.
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

    /// Starts even if the account may read and write the server's files (`FILE`) or administer the server
    /// (`SUPER` and its like), whom hardly one of the server's own locks stops. Never in production.
    ///
    /// `PROCESS` of an account that may read a [history](palisade::past) is accepted without it: moments are noted by it.
    #[must_use]
    pub fn accept_powerful(mut self) -> Self {
        self.accepts_powerful = true;
        self
    }

    /// Logs in with this password, whatever the URL says.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        for server in &mut self.servers {
            *server = OptsBuilder::from_opts(server.clone())
                .pass(Some(password))
                .into();
        }
        self
    }

    /// Reads from a standby only as long as it is at most this far behind, and else from the next server. The server's own
    /// word counts (`Seconds_Behind_Master`), in whole seconds. The account needs `SLAVE MONITOR` on MariaDB and
    /// `REPLICATION CLIENT` on MySQL to be told.
    #[must_use]
    pub fn max_lag(mut self, lag: Duration) -> Self {
        self.max_lag = Some(lag);
        self
    }

    /// Whether sessions that read may be with another server than those that change.
    pub(crate) fn is_spread(&self) -> bool {
        self.servers.len() > 1 && self.wanted != Wanted::Primary
    }

    /// Privileges that no table has and that it is for the account to have.
    pub(crate) fn meant(&self) -> BTreeSet<(String, String)> {
        match self.max_lag {
            Some(_) => lag_privileges(),
            None => BTreeSet::new(),
        }
    }

    /// What holds for all servers.
    fn first(&self) -> Option<&Opts> {
        self.servers.first()
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

    /// Whether there is a password.
    #[must_use]
    pub fn has_password(&self) -> bool {
        self.first().is_some_and(|server| server.pass().is_some())
    }

    /// The account's name, if the URL says one.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.first().and_then(Opts::user)
    }

    /// The database's name.
    #[must_use]
    pub fn database(&self) -> &str {
        self.first().and_then(Opts::db_name).unwrap_or_default()
    }

    /// Where connections go, in the order of the URL: `host:port`, or the path of a socket.
    #[must_use]
    pub fn endpoints(&self) -> Vec<String> {
        self.servers.iter().map(endpoint).collect()
    }

    /// What must be true of connections.
    #[must_use]
    pub fn ssl_mode(&self) -> SslMode {
        self.tls.mode
    }

    /// The files of certificates, of authorities and our own, that connections read.
    pub fn certificates(&self) -> impl Iterator<Item = &Path> {
        let own = self.tls.identity.iter().map(|(certificate, _)| certificate);
        self.tls.ca.iter().chain(own).map(PathBuf::as_path)
    }

    /// The file of our own certificate's key.
    #[must_use]
    pub fn key(&self) -> Option<&Path> {
        self.tls.identity.as_ref().map(|(_, key)| key.as_path())
    }

    /// What the driver is told of each server, with the contents of files.
    pub(crate) fn opts(&self) -> Result<Vec<Opts>, ConfigError> {
        let tls = self.tls.load()?;
        let with_tls = |server: &Opts| {
            OptsBuilder::from_opts(server.clone())
                .ssl_opts(tls.clone())
                .into()
        };
        Ok(self.servers.iter().map(with_tls).collect())
    }
}

impl fmt::Debug for MysqlConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MysqlConfig")
            .field("endpoints", &self.endpoints())
            .field("database", &self.database())
            .field("user", &self.user())
            .field("ssl_mode", &self.tls.mode)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

/// A URL for each host of `url`, which may name several between commas.
fn split_hosts(url: &str) -> Vec<String> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return vec![url.to_owned()];
    };
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let (account, hosts) = match authority.rfind('@') {
        Some(at) => authority.split_at(at + 1),
        None => ("", authority),
    };
    let whole = |host| format!("{scheme}://{account}{host}{path}");
    hosts.split(',').map(whole).collect()
}

/// Where the connections of one server go.
fn endpoint(server: &Opts) -> String {
    if let Some(socket) = server.socket() {
        return socket.to_owned();
    }
    let (host, port) = (host(server), server.tcp_port());
    match host.parse::<IpAddr>() {
        Ok(address) => SocketAddr::new(address, port).to_string(),
        Err(_) => format!("{}:{port}", host.to_ascii_lowercase()),
    }
}

/// The host of a URL, an address of IPv6 without its brackets.
fn host(server: &Opts) -> &str {
    let host = server.ip_or_hostname();
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    bare.unwrap_or(host)
}

/// Whether connections stay on this machine: loopback addresses, and `localhost`, which no resolver may send
/// elsewhere (RFC 6761), or a socket of the file system.
pub(crate) fn is_local(server: &Opts) -> bool {
    let host = host(server);
    server.socket().is_some()
        || host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// The options of a URL. The driver's own are none of ours: some of them weaken what holds by default.
#[derive(Default)]
struct Given {
    socket: Option<String>,
    mode: Option<SslMode>,
    files: CertificateFiles,
    wanted: Wanted,
}

impl Given {
    fn read(query: &str) -> Result<Self, ConfigError> {
        let mut given = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decoded = |text| {
                percent_decode_str(text)
                    .decode_utf8()
                    .map(std::borrow::Cow::into_owned)
                    .map_err(|_| ConfigError::Url("an option is not UTF-8".to_owned()))
            };
            let (name, value) = (decoded(name)?, decoded(value)?);
            match name.as_str() {
                "socket" if Path::new(&value).is_absolute() => given.socket = Some(value),
                "socket" => {
                    return Err(ConfigError::option(
                        "socket",
                        "it must be a path from the root",
                    ));
                }
                "ssl-mode" => given.mode = Some(SslMode::from_name(&value)?),
                "ssl-ca" => given.files.authorities = Some(value.into()),
                "ssl-cert" => given.files.certificate = Some(value.into()),
                "ssl-key" => given.files.key = Some(value.into()),
                TARGET_OPTION => {
                    given.wanted = Wanted::from_name(&value)
                        .ok_or_else(|| ConfigError::option(TARGET_OPTION, TARGETS))?;
                }
                _ => {
                    return Err(ConfigError::option(
                        &name,
                        "there are `ssl-mode`, `ssl-ca`, `ssl-cert`, `ssl-key`, `socket` and `target_session_attrs`",
                    ));
                }
            }
        }
        Ok(given)
    }

    /// With what holds where nothing is said. `local` connections do not leave the machine; over a socket there
    /// is no TLS.
    fn tls(&self, local: bool, socket: bool) -> Result<TlsOptions, ConfigError> {
        let names_files = self.files.are_named();
        let mode = match self.mode {
            Some(mode) => mode,
            None if (local || socket) && !names_files => SslMode::Disabled,
            None => SslMode::VerifyIdentity,
        };
        if mode == SslMode::Disabled && names_files {
            return Err(ConfigError::option(
                "ssl-mode",
                "certificates are named, and `DISABLED` would not use them",
            ));
        }
        if mode != SslMode::Disabled && socket {
            return Err(ConfigError::option(
                "ssl-mode",
                "a socket does not leave the machine and has no TLS",
            ));
        }
        if mode == SslMode::Required && self.files.authorities.is_some() {
            return Err(ConfigError::option(
                "ssl-ca",
                "`REQUIRED` checks no signature; write `VERIFY_IDENTITY`",
            ));
        }
        let identity = self
            .files
            .identity("ssl-cert", "`ssl-cert` and `ssl-key` go together")?;
        Ok(TlsOptions {
            mode,
            ca: self.files.authorities(),
            identity,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_is_safe() {
        for (url, mode, endpoint) in [
            ("mysql://u@127.0.0.1/d", SslMode::Disabled, "127.0.0.1:3306"),
            (
                "mariadb://u@LocalHost:1/d",
                SslMode::Disabled,
                "localhost:1",
            ),
            ("mysql://u@[::1]:1/d", SslMode::Disabled, "[::1]:1"),
            (
                "mysql://u@db.example/d?socket=%2Frun%2Fs",
                SslMode::Disabled,
                "/run/s",
            ),
            (
                "mysql://u@db.example/d",
                SslMode::VerifyIdentity,
                "db.example:3306",
            ),
            (
                "mysql://u@10.0.0.1/d",
                SslMode::VerifyIdentity,
                "10.0.0.1:3306",
            ),
            (
                "mysql://u:a%2Cb@[::1],LOCALHOST:2,127.0.0.1/d?target_session_attrs=prefer-standby",
                SslMode::Disabled,
                "[::1]:3306,localhost:2,127.0.0.1:3306",
            ),
            (
                "mariadb://u@localhost,db.example:1/d",
                SslMode::VerifyIdentity,
                "localhost:3306,db.example:1",
            ),
            (
                "mysql://u@127.0.0.1/d?ssl-mode=verify_identity",
                SslMode::VerifyIdentity,
                "127.0.0.1:3306",
            ),
            (
                "mysql://u@localhost/d?ssl-ca=ca.pem",
                SslMode::VerifyIdentity,
                "localhost:3306",
            ),
            (
                "mysql://u@db.example/d?ssl-mode=DISABLED",
                SslMode::Disabled,
                "db.example:3306",
            ),
            (
                "mysql://u@db.example/d?ssl-mode=REQUIRED",
                SslMode::Required,
                "db.example:3306",
            ),
        ] {
            let config = MysqlConfig::from_url(url).unwrap();
            assert_eq!(
                (config.ssl_mode(), config.endpoints().join(",").as_str()),
                (mode, endpoint),
                "{url}"
            );
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_without_the_password() {
        for (url, expected) in [
            ("mysql://u:geheim@127.0.0.1:1", "names no database"),
            ("postgres://u:geheim@h/d", "cannot be read"),
            ("x", "cannot be read"),
            ("mysql://u:geheim@h/d?require_ssl=false", "`require_ssl`"),
            (
                "mysql://u:geheim@h/d?enable_cleartext_plugin=true",
                "`ssl-mode`",
            ),
            ("mysql://u:geheim@h/d?ssl-mode=PREFERRED", "gives way"),
            ("mysql://u:geheim@h/d?ssl%2Dmode=preferred", "gives way"),
            ("mysql://u:geheim@h/d?ssl-mode=", "`ssl-mode`"),
            ("mysql://u:geheim@h/d?ssl-mode=VERIFY_CA", "VERIFY_IDENTITY"),
            (
                "mysql://u:geheim@h/d?ssl-mode=REQUIRED&ssl-ca=x",
                "`ssl-ca`",
            ),
            ("mysql://u:geheim@h/d?ssl-cert=x", "go together"),
            (
                "mysql://u:geheim@h/d?ssl-mode=DISABLED&ssl-ca=x",
                "would not use them",
            ),
            (
                "mysql://u:geheim@h/d?socket=/s&ssl-mode=REQUIRED",
                "has no TLS",
            ),
            ("mysql://u:geheim@h/d?socket=s", "from the root"),
            ("mysql://u:geheim@h,i/d?socket=/s", "several hosts"),
            ("mysql://u:geheim@h,/d", "cannot be read"),
            (
                "mysql://u:geheim@h,i/d?target_session_attrs=master",
                "`prefer-standby`",
            ),
        ] {
            let error = MysqlConfig::from_url(url).unwrap_err().to_string();
            assert!(error.contains(expected), "{url}: {error}");
            assert!(!error.contains("geheim"), "{error}");
        }
        let config = MysqlConfig::from_url("mysql://u:geheim@127.0.0.1:1/d").unwrap();
        assert!(config.has_password());
        assert!(!format!("{config:?}").contains("geheim"));
    }

    #[test]
    fn files_are_read_when_a_connection_is_made() {
        let config = MysqlConfig::from_url("mysql://u@h/d?ssl-ca=/no/such/file").unwrap();
        let error = config.opts().unwrap_err().to_string();
        assert!(error.contains("cannot use `/no/such/file`"), "{error}");
    }
}
