//! What an account may do beyond reading, and what takes that away.
//!
//! The firewall decides by text; what it might overlook, privileges stop. An account that is allowed more
//! than reading is a lock left open, and this is the list of them.

use std::collections::BTreeSet;

use mysql_async::Conn;

use crate::{
    config::is_local,
    grants::{Account, Grant},
    history::{self, rights::GrantedOn},
    introspect::{IntrospectError, Product, product, query, text},
    settings::identifier,
};

/// The newest major versions that the tests have run against.
const NEWEST_MARIADB: u16 = 10;
const NEWEST_MYSQL: u16 = 9;

/// Something that should be otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weakness {
    /// What sort of thing.
    pub kind: WeaknessKind,
    /// What there is, for the operator: it names accounts, databases and relations.
    pub description: String,
    /// What mends it: SQL, or a line of configuration after `--`.
    pub remedy: String,
}

impl Weakness {
    /// Whether an account should not be used that has it, as `palisade serve` refuses it. Of the others, an operator is told.
    ///
    /// An account for changes (`is_writable`) may write; what else it may write to than policies permit is not looked at. No account may
    /// do everything.
    #[must_use]
    pub fn exceeds(&self, is_writable: bool) -> bool {
        match self.kind.excess() {
            Excess::Superuser => true,
            Excess::Write => !is_writable,
            Excess::Nothing => false,
        }
    }
}

/// What a weakness lets an account do beyond what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Excess {
    /// Everything: hardly any lock of the server's holds.
    Superuser,
    /// Write, or reach beyond its grants.
    Write,
    /// Nothing that the gate's own transactions do not take away.
    Nothing,
}

/// Sorts of weaknesses, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum WeaknessKind {
    /// The account administers the server or reaches its files: hardly any lock of the server's holds.
    Powerful,
    /// It has roles, which a session can put on.
    Role,
    /// It may read the server's own databases, passwords' digests among them.
    SystemTables,
    /// It may write to tables.
    CanWrite,
    /// It may create, change or drop objects, which other names can then mean, or lock tables.
    CanCreate,
    /// It may call every routine of a database, which run with the rights of their authors.
    CanExecute,
    /// It may hand on its privileges.
    CanGrant,
    /// It has a privilege that is not known here.
    Unknown,
    /// The connection is neither encrypted nor local.
    Plaintext,
    /// It may fill all of the server's connections.
    NoConnectionLimit,
    /// The server is newer than what was tested.
    UntestedVersion,
}

impl WeaknessKind {
    /// The word for it; stable. `palisade doctor --format json` has the same.
    #[must_use]
    pub fn slug(self) -> &'static str {
        match self {
            Self::Powerful => "superuser",
            Self::CanWrite => "can-write",
            Self::CanCreate => "can-create",
            Self::CanGrant => "can-grant",
            Self::Unknown => "unknown-privilege",
            Self::Role => "role",
            Self::SystemTables => "system-tables",
            Self::CanExecute => "can-execute",
            Self::Plaintext => "plaintext",
            Self::NoConnectionLimit => "no-connection-limit",
            Self::UntestedVersion => "untested-version",
        }
    }

    /// What it lets an account do beyond what it is for.
    #[must_use]
    pub fn excess(self) -> Excess {
        match self {
            Self::Powerful => Excess::Superuser,
            // Only those can create who were given it.
            Self::CanWrite | Self::CanCreate | Self::CanGrant | Self::Unknown => Excess::Write,
            // What active roles may do is found by itself; others are put on with a statement that is no query.
            Self::Role
            | Self::SystemTables
            | Self::CanExecute
            | Self::Plaintext
            | Self::NoConnectionLimit
            | Self::UntestedVersion => Excess::Nothing,
        }
    }
}

/// Looks at the account that `conn` is logged in as, and at its connection. The worst comes first; an empty list
/// is what it should be.
///
/// # Errors
/// If the server does not answer, or not as its documentation says.
pub async fn examine(conn: &mut Conn) -> Result<Vec<Weakness>, IntrospectError> {
    examine_beside(conn, &BTreeSet::new()).await
}

/// As [`examine()`], but for privileges that the account is meant to have: each in capitals, on what it is `ON`.
///
/// # Errors
/// As [`examine()`].
pub async fn examine_beside(
    conn: &mut Conn,
    meant: &BTreeSet<(String, String)>,
) -> Result<Vec<Weakness>, IntrospectError> {
    let Account {
        name: account,
        grants,
        ..
    } = Account::read(conn).await?;
    let noting = list_noting(conn).await?;
    let mut found: Vec<Weakness> = Vec::new();
    for grant in &grants {
        for privilege in &grant.privileges {
            let Some(kind) = kind(privilege, grant) else {
                continue;
            };
            let object = grant.object.clone().unwrap_or_default();
            let right = (privilege.clone(), object);
            if meant.contains(&right) || noting.contains(&right) {
                continue;
            }
            let (on, from) = match &grant.object {
                Some(object) => (format!(" on {object}"), format!(" ON {object}")),
                None => (String::new(), String::new()),
            };
            let remedy = if grant.by_role {
                format!("-- REVOKE {privilege}{from} from the active role that gives it")
            } else {
                format!("REVOKE {privilege}{from} FROM {account};")
            };
            found.push(Weakness {
                kind,
                description: format!("{account} has {privilege}{on}"),
                remedy,
            });
        }
        if grant.can_grant {
            let on = grant.object.as_deref().unwrap_or("*.*");
            found.push(Weakness {
                kind: WeaknessKind::CanGrant,
                description: format!("{account} may grant what it has on {on}"),
                remedy: format!("REVOKE GRANT OPTION ON {on} FROM {account};"),
            });
        }
    }
    session(conn, &account, &mut found).await?;
    found.sort_by_key(|weakness| weakness.kind);
    Ok(found)
}

/// What an account needs to be told how far behind its server is ([`max_lag`](crate::MysqlConfig::max_lag)), by either product:
/// each on what it is `ON`, to go without notice with [`examine_beside`].
#[must_use]
pub fn lag_privileges() -> BTreeSet<(String, String)> {
    ["SLAVE MONITOR", "REPLICA MONITOR", "REPLICATION CLIENT"]
        .map(|privilege| (privilege.to_owned(), "*.*".to_owned()))
        .into()
}

/// The privileges beyond tables that the account holds, if any, but for those that it is `meant` to have.
pub(crate) async fn powerful(
    conn: &mut Conn,
    meant: &BTreeSet<(String, String)>,
) -> Result<Option<String>, IntrospectError> {
    let account = Account::read(conn).await?;
    let noting = list_noting(conn).await?;
    let is_meant = |privilege: &String, grant: &Grant| {
        let right = (privilege.clone(), grant.object.clone().unwrap_or_default());
        noting.contains(&right) || meant.contains(&right)
    };
    let held: Vec<&str> = account
        .grants
        .iter()
        .flat_map(|grant| grant.privileges.iter().map(move |p| (p, grant)))
        .filter(|(privilege, grant)| kind(privilege, grant) == Some(WeaknessKind::Powerful))
        .filter(|(privilege, grant)| !is_meant(privilege, grant))
        .map(|(privilege, _)| privilege.as_str())
        .collect();
    Ok((!held.is_empty()).then(|| held.join(", ")))
}

/// What an account needs to note moments, where the connection's database keeps history: each in capitals, on what it is `ON`.
async fn list_noting(conn: &mut Conn) -> Result<BTreeSet<(String, String)>, IntrospectError> {
    let Some(database) = history::find_keeping(conn).await? else {
        return Ok(BTreeSet::new());
    };
    let keeping = history::rights::history_keeping(conn).await?;
    let named = |name: &str| format!("{}.{}", identifier(&database), identifier(name));
    let meant = keeping.grants.iter().flat_map(|grant| {
        let object = match grant.on {
            GrantedOn::Table(name) => named(name),
            GrantedOn::Function(name) => format!("FUNCTION {}", named(name)),
            GrantedOn::Server => "*.*".to_owned(),
        };
        let privileges = grant.privileges.split(", ");
        // Without their columns.
        let is_word = |word: &&str| word.bytes().all(|byte| byte.is_ascii_uppercase());
        let words = privileges
            .filter_map(|one| one.split(" (").next())
            .filter(is_word);
        words.map(move |word| (word.to_owned(), object.clone()))
    });
    Ok(meant.collect())
}

/// What a privilege is that reading does not need.
fn kind(privilege: &str, grant: &Grant) -> Option<WeaknessKind> {
    use WeaknessKind as Kind;
    let Some(object) = grant.object.as_deref() else {
        return Some(Kind::Role);
    };
    let everywhere = object == "*.*";
    match privilege {
        // `REFERENCES` alone lets an account see columns that it cannot read, and nothing else: what would refer
        // to them, it cannot create.
        "USAGE" | "SHOW VIEW" | "SHOW DATABASES" | "REFERENCES" => None,
        "SELECT" => {
            let object = object.replace('`', "").to_ascii_lowercase();
            let system = ["mysql.", "sys.", "performance_schema."];
            (everywhere || system.iter().any(|name| object.starts_with(name)))
                .then_some(Kind::SystemTables)
        }
        // Of a whole database this is all of the kinds below; the one that no policy ever needs says so.
        "ALL PRIVILEGES" if everywhere => Some(Kind::Powerful),
        "ALL PRIVILEGES" => Some(Kind::CanCreate),
        "INSERT" | "UPDATE" | "DELETE" | "DELETE HISTORY" => Some(Kind::CanWrite),
        "CREATE"
        | "ALTER"
        | "DROP"
        | "INDEX"
        | "CREATE VIEW"
        | "CREATE ROUTINE"
        | "ALTER ROUTINE"
        | "TRIGGER"
        | "EVENT"
        | "CREATE TEMPORARY TABLES"
        | "LOCK TABLES"
        | "CREATE TABLESPACE" => Some(Kind::CanCreate),
        "EXECUTE" => {
            // On one routine it is what an operator grants on purpose.
            let one = ["FUNCTION ", "PROCEDURE "];
            (!one.iter().any(|word| object.starts_with(word))).then_some(Kind::CanExecute)
        }
        "GRANT OPTION" | "PROXY" | "SET USER" | "SET_USER_ID" | "SET_ANY_DEFINER" => {
            Some(Kind::CanGrant)
        }
        "FILE" | "SUPER" | "SHUTDOWN" | "RELOAD" | "PROCESS" | "CREATE USER" | "CREATE ROLE"
        | "DROP ROLE" | "REPLICATION SLAVE" | "REPLICATION CLIENT" | "BINLOG MONITOR" => {
            Some(Kind::Powerful)
        }
        other if other.ends_with("ADMIN") || other.ends_with("MONITOR") => Some(Kind::Powerful),
        _ => Some(Kind::Unknown),
    }
}

async fn session(
    conn: &mut Conn,
    account: &str,
    found: &mut Vec<Weakness>,
) -> Result<(), IntrospectError> {
    let sql = "SELECT VERSION(), @@session.max_user_connections";
    for row in query(conn, sql.to_owned()).await? {
        let version = text(&row, 0)?;
        let newest = match product(&version) {
            Product::MariaDb => NEWEST_MARIADB,
            Product::MySql => NEWEST_MYSQL,
        };
        let major = version.split('.').next().and_then(|n| n.parse().ok());
        if major.is_none_or(|major: u16| major > newest) {
            found.push(Weakness {
                kind: WeaknessKind::UntestedVersion,
                description: format!("the server is of version {version}, newer than {newest}"),
                remedy: "-- read what changed in that version's dialect".to_owned(),
            });
        }
        if text(&row, 1)? == "0" {
            found.push(Weakness {
                kind: WeaknessKind::NoConnectionLimit,
                description: format!("{account} may open as many connections as it likes"),
                remedy: format!("ALTER USER {account} WITH MAX_USER_CONNECTIONS 40;"),
            });
        }
    }
    let local = is_local(conn.opts());
    let rows = query(conn, "SHOW SESSION STATUS LIKE 'Ssl_cipher'".to_owned()).await?;
    let cipher = rows.first().map(|row| text(row, 1)).transpose()?;
    if !local && cipher.is_none_or(|cipher| cipher.is_empty()) {
        found.push(Weakness {
            kind: WeaknessKind::Plaintext,
            description: "what is asked and answered goes over the network as it is".to_owned(),
            remedy: format!(
                "ALTER USER {account} REQUIRE SSL; -- and `ssl-mode=VERIFY_IDENTITY` in the connection URL"
            ),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn privileges_are_weak_by_what_they_are_on() {
        use WeaknessKind as Kind;
        for (privilege, object, expected) in [
            ("`r`", None, Some(Kind::Role)),
            ("USAGE", Some("*.*"), None),
            ("SHOW VIEW", Some("`d`.*"), None),
            ("SHOW DATABASES", Some("*.*"), None),
            ("REFERENCES", Some("`d`.*"), None),
            ("SELECT", Some("`d`.*"), None),
            ("SELECT", Some("*.*"), Some(Kind::SystemTables)),
            ("SELECT", Some("`MySQL`.`user`"), Some(Kind::SystemTables)),
            ("SELECT", Some("`sys`.*"), Some(Kind::SystemTables)),
            ("SELECT", Some("`system`.*"), None),
            ("ALL PRIVILEGES", Some("*.*"), Some(Kind::Powerful)),
            ("ALL PRIVILEGES", Some("`d`.*"), Some(Kind::CanCreate)),
            ("INSERT", Some("`d`.`t`"), Some(Kind::CanWrite)),
            ("DELETE HISTORY", Some("`d`.*"), Some(Kind::CanWrite)),
            ("LOCK TABLES", Some("`d`.*"), Some(Kind::CanCreate)),
            ("TRIGGER", Some("`d`.*"), Some(Kind::CanCreate)),
            ("EXECUTE", Some("`d`.*"), Some(Kind::CanExecute)),
            ("EXECUTE", Some("FUNCTION `d`.`f`"), None),
            ("EXECUTE", Some("PROCEDURE `d`.`p`"), None),
            ("GRANT OPTION", Some("`d`.*"), Some(Kind::CanGrant)),
            ("PROXY", Some("``@``"), Some(Kind::CanGrant)),
            ("FILE", Some("*.*"), Some(Kind::Powerful)),
            ("BACKUP_ADMIN", Some("*.*"), Some(Kind::Powerful)),
            ("SLAVE MONITOR", Some("*.*"), Some(Kind::Powerful)),
            ("SOMETHING", Some("*.*"), Some(Kind::Unknown)),
        ] {
            let grant = Grant::list_privileges(&[privilege], object);
            assert_eq!(kind(privilege, &grant), expected, "{privilege} {object:?}");
        }
    }

    fn exceeds(kind: WeaknessKind, is_writable: bool) -> bool {
        let weakness = Weakness {
            kind,
            description: String::new(),
            remedy: String::new(),
        };
        weakness.exceeds(is_writable)
    }

    #[test]
    fn what_the_gate_takes_away_is_no_excess() {
        assert!(!exceeds(WeaknessKind::CanExecute, false));
        assert!(exceeds(WeaknessKind::CanCreate, false));
        assert!(!exceeds(WeaknessKind::CanWrite, true));
        assert!(exceeds(WeaknessKind::Powerful, true));
    }
}
