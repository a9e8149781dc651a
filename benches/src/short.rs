//! Short statements of everyday, over three tables of a tenant's with two masks.

use palisade::{
    catalog::{
        Catalog, CatalogError, ColumnDef, DefaultValue, RelationDef, RelationKind, TypeClass,
    },
    dialect::Dialect,
    policy::{PolicyFile, PolicySources},
};

/// A statement, with the one literal of it that others of its shape may have another of.
#[derive(Debug, Clone, Copy)]
pub struct Statement {
    /// The text.
    pub sql: &'static str,
    /// The literal, without quotation marks; empty where there is none.
    pub literal: &'static str,
}

impl Statement {
    /// The same with another literal, a different one for each `number`; none where there is none.
    #[must_use]
    pub fn other(&self, number: usize) -> Option<String> {
        let number = number.to_string();
        let literal = match self.literal.bytes().all(|byte| byte.is_ascii_digit()) {
            true => number,
            false => format!("{}{number}", self.literal),
        };
        let (before, after) = self.sql.rsplit_once(self.literal)?;
        (!self.literal.is_empty()).then(|| format!("{before}{literal}{after}"))
    }
}

const fn statement(sql: &'static str, literal: &'static str) -> Statement {
    Statement { sql, literal }
}

/// The statements: by key, by the whole, grouped, joined, and changes.
pub const STATEMENTS: [Statement; 14] = [
    statement("SELECT name FROM products WHERE id = 5", "5"),
    statement("SELECT * FROM products", ""),
    statement("SELECT count(*) FROM orders", ""),
    statement("SELECT * FROM customers WHERE id = 5", "5"),
    statement(
        "SELECT name, email FROM customers WHERE city = 'Bonn' ORDER BY name LIMIT 20",
        "Bonn",
    ),
    statement(
        "SELECT c.name, o.total FROM customers c JOIN orders o ON o.customer_id = c.id WHERE o.status = 'open'",
        "open",
    ),
    statement(
        "SELECT c.city, count(*) AS n, sum(o.total) AS t FROM customers c JOIN orders o ON o.customer_id = c.id \
         GROUP BY c.city HAVING count(*) > 3 ORDER BY n DESC LIMIT 10",
        "3",
    ),
    statement(
        "SELECT id FROM customers WHERE id IN (SELECT customer_id FROM orders WHERE total > 50)",
        "",
    ),
    statement(
        "INSERT INTO products (id, name, price) VALUES (1, 'x', 2.5)",
        "x",
    ),
    statement(
        "INSERT INTO orders (customer_id, tenant_id, total, status) VALUES (1, 7, 2.5, 'open')",
        "open",
    ),
    statement("UPDATE products SET price = 3.5 WHERE id = 5", "5"),
    statement("UPDATE orders SET status = 'closed' WHERE id = 5", "5"),
    statement(
        "UPDATE orders SET status = 'closed' WHERE lower(status) = 'open'",
        "open",
    ),
    statement("DELETE FROM orders WHERE id = 5", "5"),
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
