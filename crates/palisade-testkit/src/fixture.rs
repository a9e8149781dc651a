//! A small firewall with every kind of obligation, for properties that need one.

use std::sync::{Arc, OnceLock};

use crate::host::Still;
use palisade::{
    audit::NoAudit,
    catalog::Catalog,
    firewall::{Decision, Firewall},
    guard::Guard,
    limits::Limits,
    policy::PolicySources,
    rewrite::RewrittenStatement,
    session::{Principal, Session},
    value::Params,
};
use palisade_sqlite::SqliteBackend;

/// Tables and views that the fixtures below decide over.
pub const SCHEMA: &str = "
CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, email TEXT, ssn TEXT, tenant_id INTEGER);
CREATE TABLE orders (id INTEGER PRIMARY KEY, user_id INTEGER, total INTEGER, note TEXT);
CREATE TABLE credentials (id INTEGER PRIMARY KEY, user_id INTEGER, secret TEXT);
CREATE TABLE \"odd name\" (\"a b\" TEXT, \"select\" INTEGER);
CREATE VIEW directory AS SELECT id, name AS n, ssn AS s FROM users;
";

/// Which policies a fixture decides by.
#[derive(Debug, Clone, Copy)]
pub enum Policies {
    /// Everything is permitted.
    Everything,
    /// A mask, a hidden column, a row filter and a forbidden table.
    Restricted,
}

impl Policies {
    fn text(self) -> &'static str {
        match self {
            Self::Everything => EVERYTHING,
            Self::Restricted => RESTRICTED,
        }
    }
}

const EVERYTHING: &str = "permit(principal, action, resource);";

const RESTRICTED: &str = r#"
permit(principal, action, resource)
unless { resource is Table && resource == Table::"main.credentials" };
@mask("last(4)")
forbid(principal, action == Action::"read_plain", resource == Column::"main.users.ssn");
forbid(principal, action in Action::"read", resource == Column::"main.users.email");
forbid(principal, action == Action::"see", resource is row::main::users)
unless { resource has tenant_id && resource.tenant_id == 1 };
"#;

/// A firewall that permits everything over [`SCHEMA`].
pub fn permissive() -> &'static Firewall {
    static FIREWALL: OnceLock<Firewall> = OnceLock::new();
    FIREWALL.get_or_init(|| firewall(Policies::Everything))
}

/// A firewall with a mask, a hidden column, a row filter and a forbidden table over [`SCHEMA`].
pub fn restricted_firewall() -> &'static Firewall {
    static FIREWALL: OnceLock<Firewall> = OnceLock::new();
    FIREWALL.get_or_init(|| firewall(Policies::Restricted))
}

/// A gate over a database in memory: [`SCHEMA`] and then `rows`.
///
/// # Panics
/// If the rows do not load.
#[must_use]
pub fn guard(policies: Policies, rows: &str) -> Guard {
    let limits = Limits {
        statement_timeout_ms: 2000,
        max_failures: u32::MAX,
        ..Limits::default()
    };
    guard_within(policies, rows, limits)
}

/// As [`guard`], with other limits.
///
/// # Panics
/// If the rows do not load.
#[must_use]
pub fn guard_within(policies: Policies, rows: &str, limits: Limits) -> Guard {
    let backend = match SqliteBackend::in_memory(&format!("{SCHEMA}{rows}"), "main") {
        Ok(backend) => backend,
        #[expect(clippy::panic, reason = "a broken fixture must stop the test")]
        Err(error) => panic!("the fixture is broken: {error}"),
    };
    let firewall = build(
        Firewall::builder(backend.catalog().clone(), sources(policies))
            .limits(limits)
            .build()
            .map_err(|error| error.to_string()),
    );
    Guard::new(
        Arc::new(firewall),
        backend,
        Arc::new(Still),
        Arc::new(NoAudit),
    )
}

/// `sql` as a firewall over `catalog` that permits everything, changes too, lets it through.
pub fn require_permitted(catalog: &Catalog, sql: &str) -> Arc<RewrittenStatement> {
    let firewall = build(
        Firewall::builder(catalog.clone(), sources(Policies::Everything))
            .allow_changes()
            .build()
            .map_err(|error| error.to_string()),
    );
    let session = Session::new(Principal::new("Agent", "a"));
    match firewall.check(sql, &Params::None, &session) {
        Ok(Decision::Allow(statement)) => Arc::from(statement),
        #[expect(clippy::panic, reason = "a broken fixture must stop the test")]
        other => panic!("the fixture is broken: {other:?}"),
    }
}

/// What an agent gets for `sql`: the envelope or the refusal, as JSON.
pub fn answer(guard: &Guard, sql: &str) -> serde_json::Value {
    let session = Session::new(Principal::new("Agent", "a"));
    let answered = pollster::block_on(guard.query(sql, &Params::None, &session));
    match answered.into_result() {
        Ok(envelope) => serde_json::to_value(&envelope).unwrap_or_default(),
        Err(refusal) => serde_json::to_value(refusal.rejection.for_agent()).unwrap_or_default(),
    }
}

fn sources(policies: Policies) -> PolicySources {
    policy_sources(policies.text())
}

/// Policies in one file.
#[must_use]
pub fn policy_sources(text: impl Into<String>) -> PolicySources {
    PolicySources::from_cedar("fixture.cedar", text)
}

fn firewall(policies: Policies) -> Firewall {
    build(
        palisade_sqlite::catalog_from_ddl(SCHEMA, "main")
            .map_err(|error| error.to_string())
            .and_then(|catalog| {
                Firewall::builder(catalog, sources(policies))
                    .build()
                    .map_err(|error| error.to_string())
            }),
    )
}

fn build(built: Result<Firewall, String>) -> Firewall {
    match built {
        Ok(firewall) => firewall,
        #[expect(clippy::panic, reason = "a broken fixture must stop the test")]
        Err(error) => panic!("the fixture is broken: {error}"),
    }
}
