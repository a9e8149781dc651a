//! What the examples share: a database of two tenants, and policies over it.

use std::{error::Error, sync::Arc};

use palisade::{Firewall, Guard, PolicySources, Refusal, audit::NoAudit, catalog::Catalog};
use palisade_host::Machine;
use palisade_sqlite::SqliteBackend;

/// Customers of two tenants.
pub const SCHEMA: &str = "
CREATE TABLE customers (id INTEGER PRIMARY KEY, tenant_id INTEGER NOT NULL, name TEXT NOT NULL, ssn TEXT NOT NULL);
INSERT INTO customers VALUES (1, 1, 'Ann', '900-12-3456'), (2, 1, 'Bob', '900-65-4321'), (3, 2, 'Eve', '900-99-9999');
";

/// `support-bot` reads the first tenant's rows, `billing-bot` the second's; of an `ssn` both see the last digits.
pub const POLICIES: &str = r#"
permit (principal, action, resource);
forbid (principal, action == Action::"see", resource is row::main::customers)
unless {
    (principal == Agent::"support-bot" && resource.tenant_id == 1) ||
    (principal == Agent::"billing-bot" && resource.tenant_id == 2)
};
@mask("last(4)")
forbid (principal, action == Action::"read_plain", resource == Column::"main.customers.ssn");
"#;

/// A firewall of [`POLICIES`] over `catalog`.
///
/// # Errors
/// If the policies do not fit the catalog.
pub fn firewall(catalog: Catalog) -> Result<Firewall, Box<dyn Error>> {
    let sources = PolicySources::from_cedar("example.cedar", POLICIES);
    Ok(Firewall::builder(catalog, sources).build()?)
}

/// A gate over a database in memory.
///
/// # Errors
/// As [`firewall`].
pub fn guard() -> Result<Guard, Box<dyn Error>> {
    let backend = SqliteBackend::in_memory(SCHEMA, "main")?;
    let firewall = firewall(backend.catalog().clone())?;
    let host = Arc::new(Machine::new());
    let audit = Arc::new(NoAudit);
    Ok(Guard::new(Arc::new(firewall), backend, host, audit))
}

/// Writes what only the operator may read of a refusal to standard error. No agent gets it.
pub fn tell_operator(refusal: &Refusal) {
    let detail = refusal.rejection.operator_detail();
    eprintln!("{refusal}: {}", detail.unwrap_or("no detail"));
}
