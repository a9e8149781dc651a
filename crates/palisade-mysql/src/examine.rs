//! What an account may do beyond reading, and what takes that away.
//!
//! The firewall decides by text; what it might overlook, privileges stop. An account that is allowed more
//! than reading is a lock left open, and this is the list of them.

use std::collections::BTreeSet;

use mysql_async::Conn;

use crate::{
    account::current,
    config::is_local,
    introspect::{IntrospectError, Product, product, query, text},
    settings::{identifier, literal},
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

/// Sorts of weaknesses, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    let mut found: Vec<Weakness> = Vec::new();
    for grant in &grants {
        for privilege in &grant.privileges {
            let Some(kind) = kind(privilege, grant) else {
                continue;
            };
            let object = grant.object.clone().unwrap_or_default();
            if meant.contains(&(privilege.clone(), object)) {
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

/// The privileges beyond tables that the account holds, if any.
pub(crate) async fn powerful(conn: &mut Conn) -> Result<Option<String>, IntrospectError> {
    let account = Account::read(conn).await?;
    let held: Vec<&str> = account
        .grants
        .iter()
        .flat_map(|grant| grant.privileges.iter().map(move |p| (p, grant)))
        .filter(|(privilege, grant)| kind(privilege, grant) == Some(WeaknessKind::Powerful))
        .map(|(privilege, _)| privilege.as_str())
        .collect();
    Ok((!held.is_empty()).then(|| held.join(", ")))
}

/// One line of SHOW GRANTS.
#[derive(Debug, PartialEq, Eq)]
struct Grant {
    /// In capitals, without columns.
    privileges: Vec<String>,
    /// Whether one of them is of the whole object, and not of some columns.
    is_whole: bool,
    /// What they are on; nothing for a role.
    object: Option<String>,
    can_grant: bool,
    /// Whether an active role has it, or may have: servers mix what it gives with the account's own.
    by_role: bool,
}

/// An account and what it was granted.
pub(crate) struct Account {
    /// As the server spells it.
    name: String,
    grants: Vec<Grant>,
    /// Whether something is taken out of what is granted everywhere (MySQL's `partial_revokes`).
    has_revokes: bool,
}

impl Account {
    /// Reads that of the session.
    pub(crate) async fn read(conn: &mut Conn) -> Result<Self, IntrospectError> {
        let (name, host) = current(conn).await?;
        let name = format!("{}@{}", literal(&name), literal(&host));
        // Without a name, what active roles give is shown too.
        let own = lines(conn, format!("SHOW GRANTS FOR {name}")).await?;
        let all = lines(conn, "SHOW GRANTS".to_owned()).await?;
        let grants = all.iter().filter_map(|line| {
            let by_role = !own.contains(line);
            grant(line).map(|grant| Grant { by_role, ..grant })
        });
        Ok(Self {
            grants: grants.collect(),
            has_revokes: all.iter().any(|line| line.starts_with("REVOKE ")),
            name,
        })
    }

    /// Whether it certainly has `privilege` on a table: by a role or a pattern of names it may have it without.
    pub(crate) fn may(&self, schema: &str, table: &str, privilege: &str) -> bool {
        let held = |held: &String| held == privilege || held == "ALL PRIVILEGES";
        self.granted(schema, table)
            .any(|grant| grant.privileges.iter().any(held))
    }

    /// Whether the server certainly tells it of every column of a table: it does to whoever has any right on the table as a whole.
    pub(crate) fn sees_all_of(&self, schema: &str, table: &str) -> bool {
        self.granted(schema, table).any(|grant| grant.is_whole)
    }

    /// What is certainly granted on a table.
    fn granted(&self, schema: &str, table: &str) -> impl Iterator<Item = &Grant> {
        let database = identifier(schema);
        let escaped = database.replace('_', "\\_").replace('%', "\\%");
        let certain = [
            format!("{database}.*"),
            format!("{escaped}.*"),
            format!("{database}.{}", identifier(table)),
        ];
        self.grants.iter().filter(move |grant| {
            grant.object.as_deref().is_some_and(|object| {
                certain.iter().any(|name| name == object) || object == "*.*" && !self.has_revokes
            })
        })
    }
}

async fn lines(conn: &mut Conn, sql: String) -> Result<Vec<String>, IntrospectError> {
    let rows = query(conn, sql).await?;
    rows.iter().map(|row| text(row, 0)).collect()
}

/// Reads `GRANT privilege (columns), … ON object TO …` and `GRANT role, … TO …`.
fn grant(line: &str) -> Option<Grant> {
    // A partial revoke takes away; a default role is granted in a line of its own.
    let rest = line.strip_prefix("GRANT ")?;
    let words = outside(rest, &[" ON ", " TO "]);
    let (privileges, after, is_role) = match words {
        Some((at, " ON ")) => (rest.get(..at)?, rest.get(at + 4..)?, false),
        Some((at, _)) => (rest.get(..at)?, rest.get(at..)?, true),
        None => return None,
    };
    let object = match outside(after, &[" TO "]) {
        Some((at, _)) if !is_role => Some(after.get(..at)?.to_owned()),
        Some(_) | None => None,
    };
    let mut list = Vec::new();
    let mut is_whole = false;
    let mut left = privileges;
    while !left.is_empty() {
        let (one, more) = match outside(left, &[", "]) {
            Some((at, _)) => (left.get(..at)?, left.get(at + 2..)?),
            None => (left, ""),
        };
        let name = one.split(" (").next().unwrap_or(one).trim();
        let says_something = !["USAGE", "SHOW VIEW", "TRIGGER", "CREATE VIEW"].contains(&name);
        is_whole |= name == one.trim() && says_something;
        list.push(if is_role {
            name.to_owned()
        } else {
            name.to_ascii_uppercase()
        });
        left = more;
    }
    Some(Grant {
        privileges: list,
        is_whole,
        object,
        can_grant: after.ends_with("WITH GRANT OPTION"),
        by_role: false,
    })
}

/// Where the first of `words` stands outside of quotation marks and parentheses.
fn outside<'w>(text: &str, words: &[&'w str]) -> Option<(usize, &'w str)> {
    let (mut quote, mut depth) = (None, 0_u32);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '`' | '\'' | '"') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            (None, _) if depth == 0 => {
                let rest = text.get(at..)?;
                if let Some(word) = words.iter().find(|word| rest.starts_with(**word)) {
                    return Some((at, word));
                }
            }
            (None, _) => {}
        }
    }
    None
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
                remedy: format!("ALTER USER {account} WITH MAX_USER_CONNECTIONS 10;"),
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
    fn a_right_on_columns_is_none_on_the_whole() {
        for (line, expected) in [
            (
                "GRANT SELECT (`a`), INSERT (`b`, `c`) ON `d`.`t` TO `u`@`%`",
                false,
            ),
            ("GRANT SELECT (`a`), REFERENCES ON `d`.`t` TO `u`@`%`", true),
            ("GRANT USAGE ON *.* TO `u`@`%`", false),
            ("GRANT ALL PRIVILEGES ON `d`.* TO `u`@`%`", true),
        ] {
            assert_eq!(
                grant(line).map(|grant| grant.is_whole),
                Some(expected),
                "{line}"
            );
        }
    }

    #[test]
    fn grants_are_read() {
        let check = |line: &str, privileges: &[&str], object: Option<&str>, can_grant: bool| {
            let expected = Grant {
                privileges: privileges.iter().map(|p| (*p).to_owned()).collect(),
                object: object.map(str::to_owned),
                can_grant,
                by_role: false,
                is_whole: grant(line).is_some_and(|grant| grant.is_whole),
            };
            assert_eq!(grant(line), Some(expected), "{line}");
        };
        check(
            "GRANT SELECT, INSERT (`a`, `b, ON x`) ON `d`.`t` TO `u`@`%` WITH GRANT OPTION",
            &["SELECT", "INSERT"],
            Some("`d`.`t`"),
            true,
        );
        check(
            "GRANT USAGE ON *.* TO `u`@`%` IDENTIFIED BY PASSWORD '*A'",
            &["USAGE"],
            Some("*.*"),
            false,
        );
        check(
            "GRANT `r`@`%`,`s`@`%` TO `u`@`%`",
            &["`r`@`%`,`s`@`%`"],
            None,
            false,
        );
        check("GRANT `r` TO `u`@`%`", &["`r`"], None, false);
        assert_eq!(grant("SET DEFAULT ROLE `r` FOR `u`@`%`"), None);
    }
}
