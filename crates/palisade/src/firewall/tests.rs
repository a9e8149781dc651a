#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use super::*;
use crate::{
    catalog::{ColumnDef, RelationDef, RelationKind, TypeClass},
    dialect::Dialect,
    policy::PolicyFile,
    session::Principal,
};

fn column(name: &str, type_name: &str, class: TypeClass) -> ColumnDef {
    ColumnDef {
        name: name.to_owned(),
        type_name: type_name.to_owned(),
        class,
        nullable: name != "id",
        collation: "BINARY".to_owned(),
        generated: None,
    }
}

fn relation(name: &str, columns: Vec<ColumnDef>, definition: Option<&str>) -> RelationDef {
    RelationDef {
        schema: "main".to_owned(),
        name: name.to_owned(),
        kind: if definition.is_some() {
            RelationKind::View
        } else {
            RelationKind::Table
        },
        strict: false,
        has_rowid: definition.is_none(),
        rowid_alias: columns
            .iter()
            .any(|c| c.name == "id")
            .then(|| "id".to_owned()),
        primary_key: vec!["id".to_owned()],
        foreign_keys: Vec::new(),
        definition: definition.map(str::to_owned),
        columns,
    }
}

fn firewall() -> Firewall {
    let id = || column("id", "INTEGER", TypeClass::Integer);
    let text = |name| column(name, "TEXT", TypeClass::Text);
    let int = |name| column(name, "INTEGER", TypeClass::Integer);
    let catalog = Catalog::builder(Dialect::Sqlite)
        .relation(relation(
            "users",
            vec![
                id(),
                text("name"),
                text("ssn"),
                text("password"),
                int("tenant_id"),
            ],
            None,
        ))
        .relation(relation(
            "Orders",
            vec![id(), int("user_id"), int("total")],
            None,
        ))
        .relation(relation("secrets", vec![id(), text("secret")], None))
        .relation(relation(
            "directory",
            vec![id(), text("n"), text("s")],
            Some("SELECT id, name AS n, ssn AS s FROM users"),
        ))
        .relation(relation(
            "leak",
            vec![text("secret")],
            Some("SELECT secret FROM secrets"),
        ))
        .build()
        .unwrap();
    let policies = r#"
permit(principal, action, resource) unless { resource is Table && resource == Table::"main.secrets" };
@mask("last(4)")
forbid(principal, action == Action::"read_plain", resource == Column::"main.users.ssn");
forbid(principal, action in Action::"read", resource == Column::"main.users.password");
@id("tenant")
forbid(principal, action == Action::"see", resource is row::main::users)
unless { resource has tenant_id && resource.tenant_id == 1 };
"#;
    let sources = PolicySources {
        policies: vec![PolicyFile {
            name: "p.cedar".to_owned(),
            text: policies.to_owned(),
        }],
        ..PolicySources::default()
    };
    match Firewall::builder(catalog, sources).build() {
        Ok(firewall) => firewall,
        Err(error) => panic!("{error}"),
    }
}

fn outcome(sql: &str) -> String {
    let session = Session::new(Principal::new("Agent", "a"));
    match firewall().check(sql, &Params::None, &session) {
        Ok(Decision::Allow(statement)) => statement.sql().to_owned(),
        Ok(Decision::Reject(why)) => format!("{why} [{}]", why.operator_detail().unwrap_or("")),
        Err(error) => format!("ERROR {error}"),
    }
}

#[test]
fn print_all() {
    for sql in [
        "SELECT 1",
        "SELECT count( * ), name nm FROM orders o, users u WHERE o.user_id = u.id",
        "SELECT * FROM users WHERE id = 3",
        "SELECT u.*, upper(ssn) FROM main.users AS u WHERE length(ssn) > 3",
        "SELECT password FROM users",
        "SELECT * FROM secrets",
        "SELECT * FROM directory",
        "SELECT * FROM leak",
        "WITH users AS (SELECT 1 AS ssn) SELECT ssn FROM users",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r",
        "SELECT \"JetBlue\", rowid FROM orders WHERE \"total\" > 3 LIMIT 5",
        "SELECT 1, - - 1 AS \"x\n 2, password FROM users --\" FROM orders",
        "SELECT o.total FROM orders o JOIN users u ON u.id = o.user_id GROUP BY o.total HAVING count(*) > 1 ORDER BY 1 LIMIT 10000",
        "VALUES (1, 2), (3, 4)",
        "SELECT * FROM orders NATURAL JOIN users",
        "SELECT sum(total) OVER (PARTITION BY user_id ORDER BY id) FROM orders",
        "SELECT x.value FROM orders, json_each('[1,2]') AS x",
        "SELECT 0x10, x'10', :a",
        "SELECT id FROM orders UNION SELECT ssn FROM users ORDER BY id",
        "SELECT (SELECT max(total) FROM orders WHERE user_id = users.id) FROM users",
        "SELECT total FROM orders WHERE user_id IN (SELECT id FROM users WHERE name LIKE 'a%')",
        "DELETE FROM users",
        "SELECT tikets FROM orders",
    ] {
        println!("{sql}\n   => {}\n", outcome(sql));
    }
}
