//! What an account may do beyond reading, and what takes that away.
//!
//! The firewall decides by text; what it might overlook, privileges stop. An account that is allowed more
//! than reading is a lock left open, and this is the list of them.

use tokio_postgres::{Client, Error};

/// The newest major version that the tests have run against.
const NEWEST_TESTED: i32 = 18;

/// Names in one list of a description; the rest is counted.
const MAX_NAMES: usize = 5;

/// Something that should be otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weakness {
    /// What sort of thing.
    pub kind: WeaknessKind,
    /// What there is, for the operator: it names roles, schemas and relations.
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
            Excess::Create | Excess::Nothing => false,
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
    /// Create objects, which the gate's own transactions do not let it do while they only read.
    Create,
    /// Nothing that the gate's own transactions do not take away.
    Nothing,
}

/// Sorts of weaknesses, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum WeaknessKind {
    /// The account is a superuser, or may become one: hardly any lock of the server's holds.
    Superuser,
    /// It has an attribute that lets it go beyond its grants.
    RoleAttribute,
    /// It is a member of a role of the system's, which reads more than tables, or writes.
    PredefinedRole,
    /// It may call functions that reach files, other sessions or the server itself.
    ServerFunction,
    /// It owns relations, whose owner no grant restrains.
    Owner,
    /// It may write to tables.
    CanWrite,
    /// It may create objects, which other names can then mean.
    CanCreate,
    /// It may create temporary tables because everybody may, as in every new database. In a transaction that only reads, it
    /// cannot.
    Temporary,
    /// It may call functions that run with a superuser's rights.
    SecurityDefiner,
    /// The connection is neither encrypted nor local.
    Plaintext,
    /// Its own sessions, beside ours, are not read-only.
    NotReadOnly,
    /// Its own sessions, beside ours, may work and wait as long as they like.
    NoTimeout,
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
            Self::Superuser => "superuser",
            Self::RoleAttribute => "role-attribute",
            Self::PredefinedRole => "predefined-role",
            Self::ServerFunction => "server-function",
            Self::Owner => "owner",
            Self::CanWrite => "can-write",
            Self::CanCreate => "can-create",
            Self::Temporary => "temporary",
            Self::SecurityDefiner => "security-definer",
            Self::Plaintext => "plaintext",
            Self::NotReadOnly => "not-read-only",
            Self::NoTimeout => "no-timeout",
            Self::NoConnectionLimit => "no-connection-limit",
            Self::UntestedVersion => "untested-version",
        }
    }

    /// What it lets an account do beyond what it is for.
    #[must_use]
    pub fn excess(self) -> Excess {
        match self {
            Self::Superuser => Excess::Superuser,
            Self::RoleAttribute
            | Self::PredefinedRole
            | Self::ServerFunction
            | Self::Owner
            | Self::CanWrite => Excess::Write,
            // A transaction that only reads makes nothing.
            Self::CanCreate => Excess::Create,
            Self::Temporary
            | Self::SecurityDefiner
            | Self::Plaintext
            | Self::NotReadOnly
            | Self::NoTimeout
            | Self::NoConnectionLimit
            | Self::UntestedVersion => Excess::Nothing,
        }
    }
}

/// Looks at the account that `client` is logged in as, and at its connection. The worst comes first; an
/// empty list is what it should be.
///
/// # Errors
/// If the server does not answer.
pub async fn examine(client: &Client) -> Result<Vec<Weakness>, Error> {
    let account = Account::read(client).await?;
    let mut found = Vec::new();
    roles(client, &account, &mut found).await?;
    // A superuser may do everything; lists of it would hide that.
    if !account.superuser {
        functions(client, &account, &mut found).await?;
        relations(client, &account, &mut found).await?;
        creation(client, &account, &mut found).await?;
    }
    session(client, &account, &mut found).await?;
    found.sort_by_key(|weakness| weakness.kind);
    Ok(found)
}

/// The role by which the account is a superuser: itself, or a role that it is a member of.
pub(crate) async fn superuser(client: &Client) -> Result<Option<String>, Error> {
    let sql = "SELECT r.rolname::text FROM pg_catalog.pg_roles r \
               WHERE r.rolsuper AND pg_catalog.pg_has_role(session_user, r.oid, 'MEMBER') \
               ORDER BY r.rolname <> session_user, r.rolname LIMIT 1";
    let rows = client.query_typed(sql, &[]).await?;
    rows.first().map(|row| row.try_get(0)).transpose()
}

/// The account as the server knows it.
struct Account {
    /// As an identifier in SQL.
    role: String,
    superuser: bool,
}

impl Account {
    async fn read(client: &Client) -> Result<Self, Error> {
        let sql = "SELECT pg_catalog.quote_ident(r.rolname::text), r.rolsuper \
                   FROM pg_catalog.pg_roles r WHERE r.rolname = session_user";
        let row = client.query_typed(sql, &[]).await?;
        match row.first() {
            Some(row) => Ok(Self {
                role: row.try_get(0)?,
                superuser: row.try_get(1)?,
            }),
            // Every session has a user; one that is not there can do nothing by name.
            None => Ok(Self {
                role: "CURRENT_USER".to_owned(),
                superuser: false,
            }),
        }
    }
}

async fn roles(client: &Client, account: &Account, found: &mut Vec<Weakness>) -> Result<(), Error> {
    let role = &account.role;
    if account.superuser {
        found.push(Weakness {
            kind: WeaknessKind::Superuser,
            description: format!("{role} is a superuser"),
            remedy: format!(
                "CREATE ROLE palisade_reader LOGIN NOINHERIT CONNECTION LIMIT 40; -- and log in as it, or: ALTER ROLE {role} NOSUPERUSER;"
            ),
        });
    }
    let sql = "SELECT rolcreaterole, rolcreatedb, rolreplication, rolbypassrls, rolconnlimit \
               FROM pg_catalog.pg_roles WHERE rolname = session_user";
    for row in client.query_typed(sql, &[]).await? {
        for (index, attribute) in ["CREATEROLE", "CREATEDB", "REPLICATION", "BYPASSRLS"]
            .into_iter()
            .enumerate()
        {
            if row.try_get::<_, bool>(index)? && !account.superuser {
                found.push(Weakness {
                    kind: WeaknessKind::RoleAttribute,
                    description: format!("{role} has the attribute {attribute}"),
                    remedy: format!("ALTER ROLE {role} NO{attribute};"),
                });
            }
        }
        if row.try_get::<_, i32>(4)? < 0 {
            found.push(Weakness {
                kind: WeaknessKind::NoConnectionLimit,
                description: format!("{role} may open any number of connections"),
                remedy: format!("ALTER ROLE {role} CONNECTION LIMIT 40;"),
            });
        }
    }
    if account.superuser {
        return Ok(());
    }
    let sql = "SELECT pg_catalog.quote_ident(r.rolname::text), r.rolsuper FROM pg_catalog.pg_roles r \
               WHERE pg_catalog.pg_has_role(session_user, r.oid, 'MEMBER') AND r.rolname <> session_user \
                 AND (r.rolsuper OR pg_catalog.starts_with(r.rolname::text, 'pg_')) \
               ORDER BY r.rolname";
    for row in client.query_typed(sql, &[]).await? {
        let (other, superuser): (String, bool) = (row.try_get(0)?, row.try_get(1)?);
        let (kind, what) = if superuser {
            (WeaknessKind::Superuser, "a superuser")
        } else {
            (WeaknessKind::PredefinedRole, "a role of the system's")
        };
        let remedy = match other.as_str() {
            // Who is a member is not granted: it is the owner of the database.
            "pg_database_owner" => "ALTER DATABASE … OWNER TO …; -- somebody else".to_owned(),
            _ => format!("REVOKE {other} FROM {role}; -- or from the role that has it in turn"),
        };
        found.push(Weakness {
            kind,
            description: format!("{role} is a member of {other}, {what}"),
            remedy,
        });
    }
    Ok(())
}

/// Functions that reach beyond the database. Only superusers may call them, unless the right was granted.
const SERVER_FUNCTIONS: &str = "'pg_read_file', 'pg_read_binary_file', 'pg_ls_dir', 'pg_stat_file', \
     'lo_import', 'lo_export', 'pg_file_write', 'pg_file_rename', 'pg_file_unlink', 'pg_reload_conf', \
     'pg_rotate_logfile', 'pg_switch_wal', 'pg_create_restore_point', 'pg_promote', 'pg_wal_replay_pause', \
     'pg_stat_reset', 'pg_stat_reset_shared', 'pg_replication_origin_create', 'dblink_connect_u'";

async fn functions(
    client: &Client,
    account: &Account,
    found: &mut Vec<Weakness>,
) -> Result<(), Error> {
    let role = &account.role;
    let sql = format!(
        "SELECT p.oid::pg_catalog.regprocedure::text FROM pg_catalog.pg_proc p \
         WHERE p.proname IN ({SERVER_FUNCTIONS}) \
           AND pg_catalog.has_function_privilege(session_user, p.oid, 'EXECUTE') ORDER BY 1"
    );
    let names = names(client, &sql).await?;
    if let Some(first) = names.first() {
        found.push(Weakness {
            kind: WeaknessKind::ServerFunction,
            description: format!("{role} may call {}", list(&names)),
            remedy: format!("REVOKE EXECUTE ON FUNCTION {first} FROM PUBLIC, {role};"),
        });
    }
    let sql = "SELECT p.oid::pg_catalog.regprocedure::text FROM pg_catalog.pg_proc p \
               JOIN pg_catalog.pg_roles o ON o.oid = p.proowner \
               WHERE p.prosecdef AND o.rolsuper \
                 AND pg_catalog.has_function_privilege(session_user, p.oid, 'EXECUTE') ORDER BY 1";
    let names = self::names(client, sql).await?;
    if let Some(first) = names.first() {
        found.push(Weakness {
            kind: WeaknessKind::SecurityDefiner,
            description: format!(
                "{role} may call {}, which run with a superuser's rights",
                list(&names)
            ),
            remedy: format!("REVOKE EXECUTE ON ROUTINE {first} FROM PUBLIC, {role};"),
        });
    }
    Ok(())
}

async fn relations(
    client: &Client,
    account: &Account,
    found: &mut Vec<Weakness>,
) -> Result<(), Error> {
    let role = &account.role;
    let sql = "SELECT c.oid::pg_catalog.regclass::text FROM pg_catalog.pg_class c \
               WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') \
                 AND pg_catalog.pg_has_role(session_user, c.relowner, 'MEMBER') ORDER BY 1";
    let names = names(client, sql).await?;
    if !names.is_empty() {
        found.push(Weakness {
            kind: WeaknessKind::Owner,
            description: format!("{role} owns {}", list(&names)),
            remedy: format!("REASSIGN OWNED BY {role} TO …; -- an owner who does not log in here"),
        });
    }
    let sql = "SELECT c.oid::pg_catalog.regclass::text, n.nspname::text FROM pg_catalog.pg_class c \
               JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
               WHERE c.relkind IN ('r', 'p', 'v', 'f') \
                 AND n.nspname <> 'information_schema' AND NOT pg_catalog.starts_with(n.nspname::text, 'pg_') \
                 AND NOT pg_catalog.pg_has_role(session_user, c.relowner, 'MEMBER') \
                 AND (pg_catalog.has_table_privilege(session_user, c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE') \
                      OR pg_catalog.has_any_column_privilege(session_user, c.oid, 'INSERT, UPDATE')) \
               ORDER BY 1";
    let names = self::names(client, sql).await?;
    if let Some(first) = names.first() {
        found.push(Weakness {
            kind: WeaknessKind::CanWrite,
            description: format!("{role} may write to {}", list(&names)),
            remedy: format!(
                "REVOKE INSERT, UPDATE, DELETE, TRUNCATE ON {first} FROM PUBLIC, {role};"
            ),
        });
    }
    Ok(())
}

async fn creation(
    client: &Client,
    account: &Account,
    found: &mut Vec<Weakness>,
) -> Result<(), Error> {
    let role = &account.role;
    let sql = "SELECT pg_catalog.quote_ident(n.nspname::text) FROM pg_catalog.pg_namespace n \
               WHERE NOT pg_catalog.starts_with(n.nspname::text, 'pg_') \
                 AND pg_catalog.has_schema_privilege(session_user, n.oid, 'CREATE') ORDER BY 1";
    let names = names(client, sql).await?;
    if !names.is_empty() {
        found.push(Weakness {
            kind: WeaknessKind::CanCreate,
            description: format!("{role} may create objects in schema {}", list(&names)),
            remedy: format!(
                "REVOKE CREATE ON SCHEMA {} FROM PUBLIC, {role};",
                names.join(", ")
            ),
        });
    }
    let public = "EXISTS (SELECT FROM pg_catalog.aclexplode(COALESCE(d.datacl, pg_catalog.acldefault('d', d.datdba))) a \
                   WHERE a.grantee = 0 AND a.privilege_type = 'TEMPORARY')";
    for (kind, privilege, by_whom, words) in [
        (
            WeaknessKind::CanCreate,
            "CREATE",
            "true".to_owned(),
            "create schemas",
        ),
        (
            WeaknessKind::CanCreate,
            "TEMPORARY",
            format!("NOT {public}"),
            "create temporary tables",
        ),
        (
            WeaknessKind::Temporary,
            "TEMPORARY",
            public.to_owned(),
            "create temporary tables, as everybody may,",
        ),
    ] {
        let sql = format!(
            "SELECT pg_catalog.quote_ident(d.datname::text) FROM pg_catalog.pg_database d \
             WHERE d.datname = pg_catalog.current_database() \
               AND pg_catalog.has_database_privilege(session_user, d.oid, '{privilege}') AND {by_whom}"
        );
        for database in self::names(client, &sql).await? {
            found.push(Weakness {
                kind,
                description: format!("{role} may {words} in database {database}"),
                remedy: format!("REVOKE {privilege} ON DATABASE {database} FROM PUBLIC, {role};"),
            });
        }
    }
    Ok(())
}

async fn session(
    client: &Client,
    account: &Account,
    found: &mut Vec<Weakness>,
) -> Result<(), Error> {
    let role = &account.role;
    let sql = "SELECT s.ssl, \
                 pg_catalog.inet_client_addr() IS NULL \
                   OR pg_catalog.inet_client_addr() <<= '127.0.0.0/8'::pg_catalog.inet \
                   OR pg_catalog.inet_client_addr() = '::1'::pg_catalog.inet, \
                 pg_catalog.current_setting('default_transaction_read_only') = 'on', \
                 pg_catalog.current_setting('statement_timeout') <> '0', \
                 pg_catalog.current_setting('idle_in_transaction_session_timeout') <> '0', \
                 pg_catalog.current_setting('server_version_num')::int4 / 10000 \
               FROM pg_catalog.pg_stat_ssl s WHERE s.pid = pg_catalog.pg_backend_pid()";
    for row in client.query_typed(sql, &[]).await? {
        let [encrypted, local, read_only, ends, idles] = [
            row.try_get::<_, bool>(0)?,
            row.try_get(1)?,
            row.try_get(2)?,
            row.try_get(3)?,
            row.try_get(4)?,
        ];
        if !encrypted && !local {
            found.push(Weakness {
                kind: WeaknessKind::Plaintext,
                description: "the connection is neither encrypted nor local".to_owned(),
                remedy: "-- sslmode=verify-full in the URL, and in pg_hba.conf `hostssl` instead of `host`"
                    .to_owned(),
            });
        }
        if !read_only {
            found.push(Weakness {
                kind: WeaknessKind::NotReadOnly,
                description: format!("sessions of {role} can write unless they say otherwise"),
                remedy: format!("ALTER ROLE {role} SET default_transaction_read_only = on;"),
            });
        }
        for (set, name) in [
            (ends, "statement_timeout"),
            (idles, "idle_in_transaction_session_timeout"),
        ] {
            if !set {
                found.push(Weakness {
                    kind: WeaknessKind::NoTimeout,
                    description: format!("sessions of {role} have no {name} by themselves"),
                    remedy: format!("ALTER ROLE {role} SET {name} = '10s';"),
                });
            }
        }
        let version: i32 = row.try_get(5)?;
        if version > NEWEST_TESTED {
            found.push(Weakness {
                kind: WeaknessKind::UntestedVersion,
                description: format!(
                    "the server is PostgreSQL {version}; the newest tested is {NEWEST_TESTED}"
                ),
                remedy: "-- functions that are new in it do not exist for agents; look for a newer release"
                    .to_owned(),
            });
        }
    }
    Ok(())
}

/// The first column of what `sql` gives.
async fn names(client: &Client, sql: &str) -> Result<Vec<String>, Error> {
    let rows = client.query_typed(sql, &[]).await?;
    rows.iter().map(|row| row.try_get(0)).collect()
}

/// Some names, and how many more there are.
fn list(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(MAX_NAMES).map(String::as_str).collect();
    match names.len().saturating_sub(MAX_NAMES) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(!exceeds(WeaknessKind::Temporary, false));
        assert!(!exceeds(WeaknessKind::CanCreate, false));
        assert!(exceeds(WeaknessKind::CanWrite, false));
        assert!(!exceeds(WeaknessKind::CanWrite, true));
        assert!(exceeds(WeaknessKind::Superuser, true));
    }
}
