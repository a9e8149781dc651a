//! A MySQL or MariaDB database: how its URL is read, its account let in.

use std::{collections::BTreeSet, path::Path, sync::Arc, time::Duration};

use palisade::{catalog::Catalog, guard::Backend};
use palisade_mysql::{
    ConfigError, Conn, ConnectError, Excess as AccountExcess, IntrospectError, MysqlBackend,
    MysqlConfig, Obstacle, Weakness, examine_beside,
};
use tokio::time::timeout;

use crate::{
    database::Access,
    exit::Failure,
    server_statements::{CountedStatement, CountedStatements},
    target::{LOOK_WHETHER_IT_RUNS, Parts, Problem, Target, TlsFiles},
    weakness::{Excess, Weak},
};

pub(crate) use crate::account::mysql::{look, own_role, sql};

/// How long reading a catalog may take.
const CATALOG_TIME: Duration = Duration::from_secs(60);

const FORM: &str = "write `mysql://USER@HOST:PORT/DATABASE`";

/// What a URL can say of encryption.
const TLS_MODES: &str = "without `ssl-mode`, connections that leave this machine are encrypted and the server's name is \
     verified; `ssl-ca=FILE` names the authority, `ssl-cert` and `ssl-key` our own certificate; weaker are \
     `ssl-mode=REQUIRED` and `ssl-mode=DISABLED`";

/// Reads a URL as the driver will.
pub(crate) fn parse(url: &str) -> Result<Parts, Problem> {
    let config = MysqlConfig::from_url(url).map_err(|error| {
        let help = match &error {
            ConfigError::Url(_) => {
                format!("{FORM}; what has a meaning in URLs is written as `%` and two digits")
            }
            _ => TLS_MODES.to_owned(),
        };
        Problem::new(error.to_string(), help)
    })?;
    if config.has_password() {
        return Err(Problem::password());
    }
    let Some(user) = config.user() else {
        return Err(Problem::new("the connection URL names no user", FORM));
    };
    Ok(Parts {
        user: user.to_owned(),
        database: config.database().to_owned(),
        endpoints: config.endpoints(),
        tls: TlsFiles {
            certificates: config.certificates().map(Path::to_owned).collect(),
            keys: config.key().map(Path::to_owned).into_iter().collect(),
        },
    })
}

/// A backend, if the account can do no more than is acknowledged.
pub(crate) async fn open(target: &Target, access: Access) -> Result<Arc<dyn Backend>, Failure> {
    let mut config = config(target)?;
    let mut conn = open_connection(target, &config).await?;
    let found = examine_beside(&mut conn, &lag_rights(target))
        .await
        .map_err(|error| unavailable(target, &error.into()))?;
    drop(conn);
    let found: Vec<Weak> = found.into_iter().map(Weak::from).collect();
    target.admit(&found, access)?;
    if target.acknowledged().superuser {
        config = config.accept_powerful();
    }
    if access == Access::Write {
        config = config.writable();
    }
    if let Some(lag) = target.max_lag() {
        config = config.max_lag(lag);
    }
    let opened = MysqlBackend::connect(config)
        .await
        .map_err(|error| unavailable(target, &error))?;
    Ok(Arc::new(opened))
}

/// Privileges by which the account of `target` is told how old the data of a standby are, where that matters.
pub(crate) fn lag_rights(target: &Target) -> BTreeSet<(String, String)> {
    match target.max_lag() {
        Some(_) => palisade_mysql::lag_privileges(),
        None => BTreeSet::new(),
    }
}

/// What the server holds, as far as the account sees it.
pub(crate) async fn catalog(target: &Target, conn: &mut Conn) -> Result<Catalog, Failure> {
    timeout(CATALOG_TIME, palisade_mysql::catalog(conn))
        .await
        .map_err(|_| unavailable(target, &ConnectError::Late(CATALOG_TIME)))?
        .map_err(|error| unavailable(target, &error.into()))
}

/// What the database of `target` holds.
pub(crate) async fn read_catalog(target: &Target) -> Result<Catalog, Failure> {
    catalog(target, &mut connection(target).await?).await
}

/// The statements that the server has counted, of all accounts as one.
pub(crate) async fn read_statements(target: &Target) -> Result<CountedStatements, Failure> {
    let mut conn = connection(target).await?;
    let found = palisade_mysql::read_digests(&mut conn).await.map_err(|error| {
        Failure::Unavailable(format!(
            "the server does not tell which statements it has counted: {error}\n  help: let the account read them: `GRANT SELECT \
             ON performance_schema.* TO …`"
        ))
    })?;
    let Some(found) = found else {
        return Err(Failure::Usage(
            "the server counts no statements\n  help: write `performance_schema = ON` into its configuration, restart it, and let \
             it count for as long as its work repeats itself"
                .to_owned(),
        ));
    };
    let mut unseen = vec!["Statements of all accounts are counted as one.".to_owned()];
    if found.lost > 0 {
        unseen.push(format!(
            "Of {} calls the server kept no text: `performance_schema_digests_size` is too small for them.",
            found.lost
        ));
    }
    let statements = found.digests.into_iter().map(|digest| CountedStatement {
        account: None,
        text: digest.text,
        calls: digest.calls,
        first: digest.first,
        last: digest.last,
    });
    Ok(CountedStatements {
        statements: statements.collect(),
        unseen,
    })
}

/// A connection for what the operator asks about the database itself.
pub(crate) async fn connection(target: &Target) -> Result<Conn, Failure> {
    open_connection(target, &config(target)?).await
}

/// That the server did not tell what it was asked.
pub(crate) fn silent(target: &Target) -> impl Fn(IntrospectError) -> Failure {
    |error| unavailable(target, &error.into())
}

async fn open_connection(target: &Target, config: &MysqlConfig) -> Result<Conn, Failure> {
    palisade_mysql::connect(config)
        .await
        .map_err(|error| unavailable(target, &error))
}

/// With the password, for the driver only.
fn config(target: &Target) -> Result<MysqlConfig, Failure> {
    let config =
        MysqlConfig::from_url(target.url()).map_err(|error| unavailable(target, &error.into()))?;
    Ok(match target.password()? {
        None => config,
        Some(password) => {
            let config = config.password(password.reveal());
            match target.password_source() {
                Some(source) => config.password_from(source),
                None => config,
            }
        }
    })
}

fn unavailable(target: &Target, error: &ConnectError) -> Failure {
    if let ConnectError::Config(error) = error {
        return Failure::Configuration(format!("error: {error}\n  help: {TLS_MODES}"));
    }
    let help = match (error.obstacle(), error) {
        (Some(Obstacle::Login), _) => Some(format!(
            "{}, or it may not log in from here",
            target.another_password()
        )),
        (Some(Obstacle::Locked), _) => Some(format!(
            "the account is locked; `ALTER USER … IDENTIFIED BY '…' ACCOUNT UNLOCK` gives `{}` a password and \
             unlocks it",
            target.user()
        )),
        (Some(Obstacle::Database), _) => Some(format!(
            "there is no database `{}` there, or `{}` may use nothing in it",
            target.database(),
            target.user()
        )),
        (Some(Obstacle::NoTls), _) => Some(
            "give the server a certificate (`ssl_cert` and `ssl_key` in its configuration), or write \
             `ssl-mode=DISABLED` where the network itself is trusted"
                .to_owned(),
        ),
        (Some(Obstacle::Certificate), _) => Some(TLS_MODES.to_owned()),
        (Some(Obstacle::Server), _) => Some("the server's log says more".to_owned()),
        (Some(Obstacle::Silence), _) => Some(LOOK_WHETHER_IT_RUNS.to_owned()),
        (None, ConnectError::Powerful(_)) => Some(target.another_account()),
        (None, _) => None,
    };
    target.unavailable(error, help.as_deref())
}

impl From<Weakness> for Weak {
    fn from(weakness: Weakness) -> Self {
        Self {
            kind: weakness.kind.slug(),
            excess: match weakness.kind.excess() {
                AccountExcess::Superuser => Excess::Superuser,
                AccountExcess::Write => Excess::Write,
                AccountExcess::Nothing => Excess::Nothing,
            },
            description: weakness.description,
            remedy: weakness.remedy,
        }
    }
}
