//! The policies that statements are judged under.

use palisade::{
    catalog::Catalog, dialect::Dialect, firewall::Firewall, limits::Limits, policy::PolicySources,
};

use crate::fault::Fault;

/// Everything may be read; functions that reach beyond the data need a permit that names them, and
/// none does.
const READ_EVERYTHING: &str = r#"
permit(principal, action in [Action::"select", Action::"discover", Action::"see"], resource);
permit(principal, action in Action::"read", resource);
permit(principal, action == Action::"call", resource);
"#;

/// The tag of the numbers in `users`, wherever they flow.
const CLASSIFICATION: &str = r#"
[[column]]
pattern = "*.users.ssn"
tags = ["ssn"]
"#;

/// A firewall that lets everything be read.
///
/// # Errors
/// If the policies do not load over the catalog.
pub(crate) fn read_everything(
    schema: &str,
    catalog: Catalog,
    limits: Limits,
) -> Result<Firewall, Fault> {
    build(schema, catalog, READ_EVERYTHING.to_owned(), None, limits)
}

/// The policies that protect the data from the attacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protection {
    /// `users.ssn` is masked, `credentials` forbidden.
    Secrets,
    /// The same, and only the rows of tenant 1 are visible.
    Tenant,
}

/// A firewall over one of the attacked schemas.
///
/// # Errors
/// If the policies do not load over the catalog.
pub(crate) fn policies_under_attack(
    schema: &str,
    catalog: Catalog,
    protection: Protection,
    mask: &str,
    limits: Limits,
) -> Result<Firewall, Fault> {
    let within = ident(&catalog);
    let mut text = format!(
        r#"{READ_EVERYTHING}
@mask("{mask}")
forbid(principal, action == Action::"read_plain", resource)
when {{ resource.tags.contains("ssn") }};
forbid(principal, action == Action::"select", resource == Table::"{within}.credentials");
"#
    );
    match protection {
        Protection::Secrets => {}
        Protection::Tenant => {
            for relation in catalog.relations() {
                if relation.position("tenant_id").is_some() && relation.definition.is_none() {
                    text.push_str(&format!(
                        "forbid(principal, action == Action::\"see\", resource is row::{within}::{})\n\
                         unless {{ resource has tenant_id && resource.tenant_id == 1 }};\n",
                        relation.name
                    ));
                }
            }
        }
    }
    build(
        schema,
        catalog,
        text,
        Some(CLASSIFICATION.to_owned()),
        limits,
    )
}

/// The schema that the attacked tables are in, as policies name it.
fn ident(catalog: &Catalog) -> String {
    match catalog.dialect() {
        Dialect::Sqlite | Dialect::Postgres => catalog.dialect().default_schema().to_owned(),
        // A database of MySQL is its own schema.
        Dialect::Mysql => catalog.default_schema().to_owned(),
    }
}

fn build(
    schema: &str,
    catalog: Catalog,
    policies: String,
    classification: Option<String>,
    limits: Limits,
) -> Result<Firewall, Fault> {
    let sources = PolicySources {
        classification,
        ..PolicySources::from_cedar("eval.cedar", policies)
    };
    Firewall::builder(catalog, sources)
        .limits(limits)
        .build()
        .map_err(|source| Fault::Policies {
            schema: schema.to_owned(),
            source,
        })
}
