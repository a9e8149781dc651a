//! A small firewall with every kind of obligation, for properties that need one.

use std::sync::OnceLock;

use palisade::{
    firewall::Firewall,
    policy::{PolicyFile, PolicySources},
};

/// Tables and views that the fixtures below decide over.
pub const SCHEMA: &str = "
CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, email TEXT, ssn TEXT, tenant_id INTEGER);
CREATE TABLE orders (id INTEGER PRIMARY KEY, user_id INTEGER, total INTEGER, note TEXT);
CREATE TABLE credentials (id INTEGER PRIMARY KEY, user_id INTEGER, secret TEXT);
CREATE TABLE \"odd name\" (\"a b\" TEXT, \"select\" INTEGER);
CREATE VIEW directory AS SELECT id, name AS n, ssn AS s FROM users;
";

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
    FIREWALL.get_or_init(|| firewall(EVERYTHING))
}

/// A firewall with a mask, a hidden column, a row filter and a forbidden table over [`SCHEMA`].
pub fn restricted() -> &'static Firewall {
    static FIREWALL: OnceLock<Firewall> = OnceLock::new();
    FIREWALL.get_or_init(|| firewall(RESTRICTED))
}

fn firewall(policies: &str) -> Firewall {
    let sources = PolicySources {
        policies: vec![PolicyFile {
            name: "fixture.cedar".to_owned(),
            text: policies.to_owned(),
        }],
        ..PolicySources::default()
    };
    let built = palisade_sqlite::catalog_from_ddl(SCHEMA, "main")
        .map_err(|error| error.to_string())
        .and_then(|catalog| {
            Firewall::builder(catalog, sources)
                .build()
                .map_err(|error| error.to_string())
        });
    match built {
        Ok(firewall) => firewall,
        #[expect(clippy::panic, reason = "a broken fixture must stop the test")]
        Err(error) => panic!("the fixture is broken: {error}"),
    }
}
