//! A database of a server: what its URL says, the password it goes without, and the account that is let in.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use palisade::{catalog::Catalog, dialect::Dialect, guard::Backend};

use crate::{
    database::Access,
    exit::Failure,
    mysql,
    postgres::{self, SettingName},
    secret::{Password, Secret},
    setup_command::SetupCommand,
    weakness::{Excess, Weak},
};

/// Servers that are spoken with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    /// PostgreSQL.
    Postgres,
    /// MySQL and MariaDB.
    Mysql,
}

impl Engine {
    /// The dialect it speaks.
    pub(crate) fn dialect(self) -> Dialect {
        match self {
            Self::Postgres => Dialect::Postgres,
            Self::Mysql => Dialect::Mysql,
        }
    }
}

/// A database of a server, and as whom to log in.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    engine: Engine,
    /// Without a password.
    url: String,
    user: String,
    database: String,
    endpoints: Vec<String>,
    tls: Box<TlsFiles>,
    secret: Option<Secret>,
    /// A password that is tried before it is stored.
    typed: Option<Box<Password>>,
    acknowledged: Acknowledged,
    handed: Option<SettingName>,
    is_pooled: bool,
    max_lag: Option<Duration>,
    /// What prints an account for it; none where the URL alone says that.
    setup_command: Option<Box<SetupCommand>>,
}

/// What the reading of a URL gives.
pub(crate) struct Parts {
    /// The account.
    pub(crate) user: String,
    /// The database's name.
    pub(crate) database: String,
    /// Every place that the driver may try: `host:port`, or what a socket is called.
    pub(crate) endpoints: Vec<String>,
    /// Files that the URL names.
    pub(crate) tls: TlsFiles,
}

/// What the operator has said to know of the account.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    /// That it administers the server.
    pub(crate) superuser: bool,
    /// That it can do more than read.
    pub(crate) write: bool,
}

/// The files that a URL names for TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// Certificates, which are public.
    pub(crate) certificates: Vec<PathBuf>,
    /// The key of our own.
    pub(crate) keys: Vec<PathBuf>,
}

impl TlsFiles {
    /// Whether none is named.
    pub(crate) fn is_empty(&self) -> bool {
        self.certificates.is_empty() && self.keys.is_empty()
    }

    /// A path that means another file in another folder.
    pub(crate) fn relative(&self) -> Option<&Path> {
        self.certificates
            .iter()
            .chain(&self.keys)
            .map(PathBuf::as_path)
            .find(|path| !path.is_absolute() && *path != Path::new("system"))
    }
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
    pub(crate) fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            help: help.into(),
        }
    }

    /// A URL with a password in it.
    pub(crate) fn password() -> Self {
        Self::new(
            "the connection URL holds a password, which every process on this machine could read",
            "leave it out, change it, and name where it is: `--password-env NAME` or `--password-file FILE`; in the configuration `password_env` or `password_file`",
        )
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Usage(format!("{}\n  help: {}", problem.message, problem.help))
    }
}

/// What to do about a server that wants a password.
pub(crate) const NAME_THE_PASSWORD: &str =
    "name where the password is: `--password-env NAME` or `--password-file FILE`";

/// What to do about a server that does not answer.
pub(crate) const LOOK_WHETHER_IT_RUNS: &str = "look whether the server runs, and listens there";

impl Target {
    /// Reads a URL as the driver will. Files that it names are not opened yet.
    pub(crate) fn parse(
        engine: Engine,
        url: &str,
        secret: Option<Secret>,
    ) -> Result<Self, Problem> {
        let Parts {
            user,
            database,
            endpoints,
            tls,
        } = match engine {
            Engine::Postgres => postgres::parse(url)?,
            Engine::Mysql => mysql::parse(url)?,
        };
        Ok(Self {
            engine,
            url: url.to_owned(),
            user,
            database,
            endpoints,
            tls: Box::new(tls),
            secret,
            typed: None,
            acknowledged: Acknowledged::default(),
            handed: None,
            is_pooled: false,
            max_lag: None,
            setup_command: None,
        })
    }

    /// Takes its password from there.
    pub(crate) fn with_secret(self, secret: Secret) -> Self {
        Self {
            secret: Some(secret),
            ..self
        }
    }

    /// Logs in with a password that is stored nowhere yet.
    pub(crate) fn with_typed(self, password: Password) -> Self {
        Self {
            typed: Some(Box::new(password)),
            ..self
        }
    }

    /// Is told of with the command that prints an account for it.
    pub(crate) fn set_up_by(self, command: SetupCommand) -> Self {
        Self {
            setup_command: Some(Box::new(command)),
            ..self
        }
    }

    /// What prints an account for it, with no more than the policies need.
    pub(crate) fn setup_command(&self, access: Access) -> SetupCommand {
        let command = match &self.setup_command {
            Some(command) => SetupCommand::clone(command),
            None => SetupCommand::of_url(&self.url),
        };
        match access {
            Access::Read => command,
            Access::Write => command.writable(),
        }
    }

    /// Tells the server for whom each statement is.
    pub(crate) fn handing(self, handed: Option<SettingName>) -> Self {
        Self { handed, ..self }
    }

    /// Stands behind a pooler that gives each transaction a session, if `is_pooled`.
    pub(crate) fn pooled(self, is_pooled: bool) -> Self {
        Self { is_pooled, ..self }
    }

    /// Whether each transaction has a session of its own.
    pub(crate) fn is_pooled(&self) -> bool {
        self.is_pooled
    }

    /// Reads from a standby only as long as its data are at most that old.
    pub(crate) fn lagging(self, max_lag: Option<Duration>) -> Self {
        Self { max_lag, ..self }
    }

    /// How old the data of a standby may be.
    pub(crate) fn max_lag(&self) -> Option<Duration> {
        self.max_lag
    }

    /// The setting in which the server is told for whom a statement is.
    pub(crate) fn handed(&self) -> Option<&SettingName> {
        self.handed.as_ref()
    }

    /// Starts on an account that can do what is `acknowledged`.
    pub(crate) fn acknowledging(self, acknowledged: Acknowledged) -> Self {
        Self {
            acknowledged,
            ..self
        }
    }

    /// What it is a database of.
    pub(crate) fn engine(&self) -> Engine {
        self.engine
    }

    /// The URL, which holds no password.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The account.
    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    /// The database's name.
    pub(crate) fn database(&self) -> &str {
        &self.database
    }

    /// Every place that the driver may try.
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

    /// What the operator has said to know of the account.
    pub(crate) fn acknowledged(&self) -> Acknowledged {
        self.acknowledged
    }

    /// The password, if one is named.
    pub(crate) fn password(&self) -> Result<Option<Password>, Failure> {
        match &self.typed {
            Some(password) => Ok(Some(Password::clone(password))),
            None => self.secret.as_ref().map(Secret::read).transpose(),
        }
    }

    /// Where the password is read anew for each session: a file, which a rotation writes.
    pub(crate) fn password_source(
        &self,
    ) -> Option<impl Fn() -> Option<String> + Send + Sync + 'static> {
        match (&self.typed, &self.secret) {
            (None, Some(secret @ Secret::File(_))) => {
                let secret = secret.clone();
                Some(move || {
                    let password = secret.read().ok()?;
                    Some(password.reveal().to_owned())
                })
            }
            (Some(_), _) | (None, Some(Secret::Env(_)) | None) => None,
        }
    }

    /// A backend, if the account can do no more than is acknowledged.
    pub(crate) async fn open(&self, access: Access) -> Result<Arc<dyn Backend>, Failure> {
        match self.engine {
            Engine::Postgres => postgres::open(self, access).await,
            Engine::Mysql => mysql::open(self, access).await,
        }
    }

    /// What the database holds, whoever the account is: no statement of anybody's is run.
    pub(crate) async fn catalog(&self) -> Result<Catalog, Failure> {
        match self.engine {
            Engine::Postgres => postgres::read_catalog(self).await,
            Engine::Mysql => mysql::read_catalog(self).await,
        }
    }

    /// Refuses an account that can do more than the operator has accepted. Writing is accepted of a connection that
    /// writes.
    pub(crate) fn admit(&self, found: &[Weak], access: Access) -> Result<(), Failure> {
        let of = |wanted: Excess| {
            found
                .iter()
                .filter(move |weak| weak.excess == wanted)
                .map(|weak| weak.description.as_str())
                .collect::<Vec<_>>()
        };
        if access == Access::Read {
            for told in of(Excess::Create) {
                tracing::warn!(
                    "{told}; `palisade doctor {}` says what takes that away",
                    self.url
                );
            }
        }
        let superuser = of(Excess::Superuser);
        let write = of(Excess::Write);
        let (told, key) = match (superuser.is_empty(), write.is_empty()) {
            (false, _) if !self.acknowledged.superuser => (superuser, "acknowledge_superuser"),
            // Who knows that it administers the server knows that it can write.
            (true, false) if access == Access::Read && !self.acknowledged.write => {
                (write, "acknowledge_write")
            }
            (false | true, _) => return Ok(()),
        };
        let (may, can) = match access {
            Access::Read => ("read", "can only read"),
            Access::Write => (
                "what policies permit",
                "can change what policies permit, and no more",
            ),
        };
        Err(Failure::Configuration(format!(
            "error: the account can do more than {may}, which its privileges should rule out:\n  - {}\n  \
             help: `{}` prints an account that {can};\n        \
             `{key} = true` at the connection in the configuration starts with this one",
            told.join("\n  - "),
            self.setup_command(access)
        )))
    }

    /// What can be done about an account that administers the server.
    pub(crate) fn another_account(&self) -> String {
        format!(
            "`{}` prints an account that can only read",
            self.setup_command(Access::Read)
        )
    }

    /// What can be done about a password that is not taken.
    pub(crate) fn another_password(&self) -> String {
        match &self.secret {
            None => format!(
                "the account could not log in: look whether there is an account `{}`; if it has a password, {NAME_THE_PASSWORD}",
                self.user
            ),
            Some(secret) => format!(
                "the account could not log in: what {secret} holds is not the password of `{0}`, or there is no account `{0}`",
                self.user
            ),
        }
    }

    /// That the database does not answer, and what to do.
    pub(crate) fn unavailable(&self, error: &dyn fmt::Display, help: Option<&str>) -> Failure {
        let help = help.map_or_else(String::new, |help| format!("\n  help: {help}"));
        Failure::Unavailable(format!(
            "{} as `{}`: {error}{help}",
            self.endpoints.join(", "),
            self.user
        ))
    }
}
