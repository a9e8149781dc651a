//! What the examples share: a database of two tenants, policies over it, and a clock with randomness.

use std::{
    error::Error,
    io::Read as _,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use palisade::{
    audit::NoAudit,
    catalog::Catalog,
    firewall::Firewall,
    guard::Guard,
    host::Host,
    policy::{PolicyFile, PolicySources},
};
use palisade_sqlite::SqliteBackend;

/// Customers of two tenants.
pub const SCHEMA: &str = "
CREATE TABLE customers (id INTEGER PRIMARY KEY, tenant_id INTEGER NOT NULL, name TEXT NOT NULL, ssn TEXT NOT NULL);
INSERT INTO customers VALUES (1, 1, 'Ann', '900-12-3456'), (2, 1, 'Bob', '900-65-4321'), (3, 2, 'Eve', '900-99-9999');
";

/// Everybody reads the first tenant's rows, and of an `ssn` its last digits.
pub const POLICIES: &str = r#"
permit (principal, action, resource);
forbid (principal, action == Action::"see", resource is row::main::customers) unless { resource.tenant_id == 1 };
@mask("last(4)")
forbid (principal, action == Action::"read_plain", resource == Column::"main.customers.ssn");
"#;

/// A firewall of [`POLICIES`] over `catalog`.
///
/// # Errors
/// If the policies do not fit the catalog.
pub fn firewall(catalog: Catalog) -> Result<Firewall, Box<dyn Error>> {
    let sources = PolicySources {
        policies: vec![PolicyFile {
            name: "example.cedar".to_owned(),
            text: POLICIES.to_owned(),
        }],
        ..PolicySources::default()
    };
    Ok(Firewall::builder(catalog, sources).build()?)
}

/// A gate over a database in memory.
///
/// # Errors
/// As [`firewall`].
pub fn guard() -> Result<Guard<SqliteBackend>, Box<dyn Error>> {
    let backend = SqliteBackend::in_memory(SCHEMA, "main")?;
    let firewall = firewall(backend.catalog().clone())?;
    let host = Arc::new(System(Instant::now()));
    Ok(Guard::new(
        Arc::new(firewall),
        backend,
        host,
        Arc::new(NoAudit),
    ))
}

/// The machine's clock and randomness.
pub struct System(pub Instant);

impl Host for System {
    fn unix_time(&self) -> Duration {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }

    fn random(&self) -> Result<[u8; 16], String> {
        let mut bytes = [0; 16];
        std::fs::File::open("/dev/urandom")
            .and_then(|mut file| file.read_exact(&mut bytes))
            .map_err(|error| format!("/dev/urandom: {error}"))?;
        Ok(bytes)
    }
}
