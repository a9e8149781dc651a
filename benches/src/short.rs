//! Short statements of everyday, over three tables of a tenant's with two masks.

use palisade::{
    catalog::{
        Catalog, CatalogError, ColumnDef, DefaultValue, RelationDef, RelationKind, TypeClass,
    },
    dialect::Dialect,
    policy::{PolicyFile, PolicySources},
};

/// The statements: by key, by the whole, grouped, joined, and changes.
pub const STATEMENTS: [&str; 14] = [
    "SELECT name FROM products WHERE id = 5",
    "SELECT * FROM products",
    "SELECT count(*) FROM orders",
    "SELECT * FROM customers WHERE id = 5",
    "SELECT name, email FROM customers WHERE city = 'Bonn' ORDER BY name LIMIT 20",
    "SELECT c.name, o.total FROM customers c JOIN orders o ON o.customer_id = c.id WHERE o.status = 'open'",
    "SELECT c.city, count(*) AS n, sum(o.total) AS t FROM customers c JOIN orders o ON o.customer_id = c.id \
         GROUP BY c.city HAVING count(*) > 3 ORDER BY n DESC LIMIT 10",
    "SELECT id FROM customers WHERE id IN (SELECT customer_id FROM orders WHERE total > 50)",
    "INSERT INTO products (id, name, price) VALUES (1, 'x', 2.5)",
    "INSERT INTO orders (customer_id, tenant_id, total, status) VALUES (1, 7, 2.5, 'open')",
    "UPDATE products SET price = 3.5 WHERE id = 5",
    "UPDATE orders SET status = 'closed' WHERE id = 5",
    "UPDATE orders SET status = 'closed' WHERE lower(status) = 'open'",
    "DELETE FROM orders WHERE id = 5",
];

/// The catalog.
///
/// # Errors
/// If its names collide, which they do not.
pub fn catalog() -> Result<Catalog, CatalogError> {
    let table = |name: &str, columns: &[(&str, TypeClass, &str)]| {
        let columns = columns.iter().map(|(name, class, type_name)| ColumnDef {
            name: (*name).to_owned(),
            type_name: (*type_name).to_owned(),
            class: *class,
            nullable: *name != "id",
            collation: "BINARY".to_owned(),
            generated: None,
            stored: false,
            filled: DefaultValue::Unknown,
        });
        let mut table = RelationDef::new("main", name, RelationKind::Table, columns.collect());
        table.primary_key = vec!["id".to_owned()];
        table
    };
    let (integer, number, text) = (TypeClass::Integer, TypeClass::Number, TypeClass::Text);
    Catalog::builder(Dialect::Sqlite)
        .relation(table(
            "customers",
            &[
                ("id", integer, "INTEGER"),
                ("tenant_id", integer, "INTEGER"),
                ("name", text, "TEXT"),
                ("email", text, "TEXT"),
                ("ssn", text, "TEXT"),
                ("city", text, "TEXT"),
                ("active", integer, "INTEGER"),
            ],
        ))
        .relation(table(
            "orders",
            &[
                ("id", integer, "INTEGER"),
                ("customer_id", integer, "INTEGER"),
                ("tenant_id", integer, "INTEGER"),
                ("total", number, "REAL"),
                ("status", text, "TEXT"),
                ("placed_at", text, "TEXT"),
            ],
        ))
        .relation(table(
            "products",
            &[
                ("id", integer, "INTEGER"),
                ("name", text, "TEXT"),
                ("price", number, "REAL"),
            ],
        ))
        .build()
}

/// Everything of one tenant is shown and may be changed, but for two columns.
#[must_use]
pub fn policies() -> PolicySources {
    let text = r#"
permit(principal, action in [Action::"select", Action::"read", Action::"insert", Action::"update", Action::"delete", Action::"write", Action::"call"], resource);
permit(principal, action in [Action::"see", Action::"change", Action::"add"], resource is row::main::customers) when { resource has tenant_id && resource.tenant_id == 7 };
permit(principal, action in [Action::"see", Action::"change", Action::"add"], resource is row::main::orders) when { resource has tenant_id && resource.tenant_id == 7 };
permit(principal, action in [Action::"see", Action::"change", Action::"add"], resource is row::main::products);
@mask("last(4)") forbid(principal, action == Action::"read_plain", resource == Column::"main.customers.ssn");
@mask("email") forbid(principal, action == Action::"read_plain", resource == Column::"main.customers.email");
"#;
    PolicySources {
        policies: vec![PolicyFile {
            name: "short.cedar".to_owned(),
            text: text.to_owned(),
        }],
        ..PolicySources::default()
    }
}
