//! A catalog of five tables with forty columns, and any number of policies over it.

use palisade::{
    catalog::{
        Catalog, CatalogError, ColumnDef, DefaultValue, RelationDef, RelationKind, TypeClass,
    },
    dialect::Dialect,
    policy::{PolicyFile, PolicySources},
    session::{Principal, Session},
};

const TABLES: [&str; 5] = ["customers", "orders", "items", "products", "staff"];

/// Columns of each table beside `id` and `tenant_id`.
const COLUMNS: usize = 6;

/// Policies of each shape that agents are under; those beyond are about other roles, as most of a large
/// set are about others than the one who asks.
const ROLES: usize = 10;

/// Agents in `entities.json`.
pub const AGENTS: usize = 400;

/// A statement that reads all forty columns and calls two functions.
pub const STATEMENT: &str = "SELECT c.*, o.*, i.*, p.*, s.*, lower(c.c0), count(*) OVER () \
     FROM customers c JOIN orders o ON o.id = c.id JOIN items i ON i.id = o.id \
     JOIN products p ON p.id = i.id JOIN staff s ON s.id = c.id WHERE o.c1 = 'open' ORDER BY c.id";

/// The catalog.
///
/// # Errors
/// If its names collide, which they do not.
pub fn catalog() -> Result<Catalog, CatalogError> {
    let column = |name: String, class: TypeClass, type_name: &str| ColumnDef {
        nullable: name != "id",
        name,
        type_name: type_name.to_owned(),
        class,
        collation: String::new(),
        generated: None,
        stored: false,
        filled: DefaultValue::Unknown,
    };
    TABLES
        .iter()
        .fold(Catalog::builder(Dialect::Postgres), |catalog, table| {
            let keys = ["id", "tenant_id"]
                .map(|name| column(name.to_owned(), TypeClass::Integer, "bigint"));
            let texts = (0..COLUMNS).map(|n| column(format!("c{n}"), TypeClass::Text, "text"));
            let columns = keys.into_iter().chain(texts).collect();
            catalog.relation(RelationDef::new(
                "public",
                *table,
                RelationKind::Table,
                columns,
            ))
        })
        .search_path(vec!["public".to_owned()])
        .build()
}

/// `count` policies of ten shapes: permits of tables and columns by role, masks by tag, one column named,
/// rows by tenant, functions by class. An agent is in one to three roles of the first hundred policies.
#[must_use]
pub fn policies(count: usize) -> PolicySources {
    let text = (0..count).map(policy).collect::<Vec<_>>().join("\n");
    let classification = TABLES.map(|table| {
        format!(
            "[[column]]\nname = \"public.{table}.c2\"\ntags = [\"personal\"]\n\
             [[column]]\nname = \"public.{table}.c3\"\ntags = [\"contact\", \"personal\"]\n"
        )
    });
    let roles = (0..count.div_ceil(10)).map(|n| {
        format!(r#"{{"uid": {{"type": "Role", "id": "r{n}"}}, "attrs": {{}}, "parents": []}}"#)
    });
    let agents = (0..AGENTS).map(|n| {
        let parents = [0, n % ROLES, (n + 3) % ROLES]
            .map(|role| format!(r#"{{"type": "Role", "id": "r{role}"}}"#))
            .join(", ");
        format!(
            r#"{{"uid": {{"type": "Agent", "id": "a{n}"}}, "attrs": {{"tenant": {n}}}, "parents": [{parents}]}}"#
        )
    });
    PolicySources {
        policies: vec![PolicyFile {
            name: "desk.cedar".to_owned(),
            text,
        }],
        principals_schema: Some(
            "entity Role in [Role]; entity Agent in [Role] { tenant?: Long }; entity User in [Role];"
                .to_owned(),
        ),
        entities: Some(format!(
            "[{}]",
            roles.chain(agents).collect::<Vec<_>>().join(",\n")
        )),
        classification: Some(classification.concat()),
        ..PolicySources::default()
    }
}

fn policy(n: usize) -> String {
    let role = n / 10;
    let table = TABLES
        .get((n / 10) % TABLES.len())
        .copied()
        .unwrap_or_default();
    let of = format!(r#"principal in Role::"r{role}""#);
    match n % 10 {
        0 => format!(r#"permit ({of}, action == Action::"select", resource in Schema::"public");"#),
        1 => format!(r#"permit ({of}, action in Action::"read", resource in Schema::"public");"#),
        2 => format!(
            r#"permit ({of}, action == Action::"see", resource is row::public::{table}) when {{ principal has tenant && resource has tenant_id && resource.tenant_id == principal.tenant }};"#
        ),
        3 => format!(
            r#"@mask("last(4)") forbid ({of}, action == Action::"read_plain", resource) when {{ resource.tags.contains("personal") }};"#
        ),
        4 => format!(
            r#"permit ({of}, action == Action::"call", resource) when {{ ["pure", "volatile"].contains(resource.safety) }};"#
        ),
        5 => format!(
            r#"@mask("email") forbid ({of}, action == Action::"read_plain", resource == Column::"public.{table}.c4") unless {{ principal has tenant && principal.tenant == 7 }};"#
        ),
        6 => format!(
            r#"forbid ({of}, action == Action::"select", resource) when {{ resource.tags.contains("secret") }};"#
        ),
        7 => format!(
            r#"forbid ({of}, action == Action::"see", resource is row::public::{table}) when {{ resource has c5 && resource.c5 == "closed-{n}" }};"#
        ),
        8 => format!(
            r#"@mask("first(2)") forbid ({of}, action == Action::"read_plain", resource) when {{ resource.tags.contains("contact") && context.transport == "stdio" }};"#
        ),
        _ => format!(
            r#"permit ({of}, action == Action::"discover", resource == Table::"public.{table}");"#
        ),
    }
}

/// The session of the `n`-th agent.
#[must_use]
pub fn session(n: usize) -> Session {
    Session::new(Principal::new("Agent", format!("a{}", n % AGENTS)))
}
