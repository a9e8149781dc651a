//! Columns of relations.

use std::collections::{HashMap, HashSet};

use mysql_async::{Conn, Row};
use palisade::{
    catalog::{CatalogBuilder, ColumnDef, DefaultValue, TypeClass},
    dialect::Dialect,
};

use super::{
    IntrospectError, Product,
    read::{of_users, optional, query, text},
};

/// Schema and name of a relation.
pub(crate) type Name = (String, String);

/// What the server says of a column.
pub(crate) struct Described {
    pub(crate) column: ColumnDef,
    /// Whether it is given the time when its row is updated.
    pub(crate) is_retimed: bool,
}

/// All that is told of the columns of users' relations: rows of [`sql`], each with the column's comment behind.
///
/// The server opens every table for such a question, so there is one for all that want to know.
pub(super) async fn ask(conn: &mut Conn) -> Result<Vec<Row>, IntrospectError> {
    let condition = of_users("c.TABLE_SCHEMA");
    Ok(query(conn, select(", c.COLUMN_COMMENT", &condition)).await?)
}

/// Tells `builder` of the comments in the rows of [`ask`].
pub(super) fn describe(
    rows: &[Row],
    mut builder: CatalogBuilder,
) -> Result<CatalogBuilder, IntrospectError> {
    for row in rows {
        let comment = text(row, 9)?;
        if !comment.is_empty() {
            builder = builder.comment(text(row, 0)?, text(row, 1)?, Some(text(row, 2)?), &comment);
        }
    }
    Ok(builder)
}

/// The columns of every relation, in order, from the rows of [`ask`].
pub(super) async fn read(
    conn: &mut Conn,
    product: Product,
    rows: &[Row],
) -> Result<HashMap<Name, Vec<Described>>, IntrospectError> {
    let json = match product {
        Product::MariaDb => json(conn).await?,
        Product::MySql => HashSet::new(),
    };
    let mut columns: HashMap<Name, Vec<Described>> = HashMap::new();
    for row in rows {
        let (relation, column) = column(row, product)?;
        let own = columns.entry(relation.clone()).or_default();
        let Some(mut described) = column else {
            continue;
        };
        if json.contains(&(relation, described.column.name.clone())) {
            described.column.class = TypeClass::Json;
        }
        own.push(described);
    }
    Ok(columns)
}

/// The query for the columns of relations for which `condition` holds, `c` being a column.
pub(crate) fn sql(condition: &str) -> String {
    select("", condition)
}

fn select(more: &str, condition: &str) -> String {
    format!(
        "SELECT c.TABLE_SCHEMA, c.TABLE_NAME, c.COLUMN_NAME, c.COLUMN_TYPE, c.IS_NULLABLE, \
                c.COLLATION_NAME, c.EXTRA, c.GENERATION_EXPRESSION, c.COLUMN_DEFAULT{more} \
         FROM information_schema.COLUMNS c WHERE {condition} \
         ORDER BY c.TABLE_SCHEMA, c.TABLE_NAME, c.ORDINAL_POSITION"
    )
}

/// A row of that query: the relation and, unless it is invisible, the column.
pub(crate) fn column(
    row: &Row,
    product: Product,
) -> Result<(Name, Option<Described>), IntrospectError> {
    let relation = (text(row, 0)?, text(row, 1)?);
    let extra = text(row, 6)?;
    if is_invisible(&extra) {
        return Ok((relation, None));
    }
    let type_name = text(row, 3)?;
    let class = TypeClass::from_name(Dialect::Mysql, &type_name);
    let column = ColumnDef {
        name: text(row, 2)?,
        class,
        filled: read_default(
            optional(row, 8)?,
            &text(row, 6)?,
            class,
            &type_name,
            product,
        ),
        type_name,
        nullable: text(row, 4)? == "YES",
        collation: optional(row, 5)?.unwrap_or_default(),
        stored: extra.to_ascii_uppercase().contains("STORED GENERATED"),
        generated: optional(row, 7)?
            .filter(|text| !text.is_empty())
            .map(|text| match product {
                Product::MariaDb => text,
                Product::MySql => unescape(&text),
            }),
    };
    let described = Described {
        column,
        is_retimed: extra.to_ascii_lowercase().contains("on update "),
    };
    Ok((relation, Some(described)))
}

/// The default value of a column, from what the server says of it.
fn read_default(
    default: Option<String>,
    extra: &str,
    class: TypeClass,
    type_name: &str,
    product: Product,
) -> DefaultValue {
    let extra = extra.to_ascii_lowercase();
    let is_computed = extra
        .split([' ', ','])
        .any(|word| matches!(word, "auto_increment" | "generated"));
    match (default, product) {
        _ if is_computed => DefaultValue::Unknown,
        (None, _) => DefaultValue::Null,
        (Some(text), Product::MariaDb) => DefaultValue::by(&text, class, type_name, Dialect::Mysql),
        (Some(text), Product::MySql) if extra.contains("default_generated") => {
            DefaultValue::by(&unescape(&text), class, type_name, Dialect::Mysql)
        }
        (Some(text), Product::MySql) => DefaultValue::told(&text, class),
    }
}

/// Whether `*` leaves out a column about which `EXTRA` says this.
fn is_invisible(extra: &str) -> bool {
    extra
        .split([' ', ','])
        .any(|word| word.eq_ignore_ascii_case("INVISIBLE"))
}

/// The columns that were declared `JSON` on MariaDB: it makes them `longtext` with this condition
/// (<https://mariadb.com/kb/en/json-data-type/>).
async fn json(conn: &mut Conn) -> Result<HashSet<(Name, String)>, IntrospectError> {
    let sql = format!(
        "SELECT k.CONSTRAINT_SCHEMA, k.TABLE_NAME, k.CONSTRAINT_NAME, k.CHECK_CLAUSE \
         FROM information_schema.CHECK_CONSTRAINTS k WHERE k.LEVEL = 'Column' AND {}",
        of_users("k.CONSTRAINT_SCHEMA")
    );
    let mut found = HashSet::new();
    for row in query(conn, sql).await? {
        // A column's own condition is called like the column.
        let column = text(&row, 2)?;
        let clause = format!("json_valid(`{}`)", column.replace('`', "``"));
        if text(&row, 3)? == clause {
            found.insert(((text(&row, 0)?, text(&row, 1)?), column));
        }
    }
    Ok(found)
}

/// The text that MySQL prints with a backslash before each quotation mark and backslash.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(chars.next()),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_is_a_word() {
        for (extra, invisible) in [
            ("INVISIBLE", true),
            ("STORED GENERATED, INVISIBLE", true),
            ("VIRTUAL GENERATED INVISIBLE", true),
            ("auto_increment", false),
            ("", false),
        ] {
            assert_eq!(is_invisible(extra), invisible, "{extra}");
        }
    }

    #[test]
    fn defaults_are_read_as_each_server_tells_them() {
        use Product::{MariaDb, MySql};
        let text = |text: &str| DefaultValue::Text(text.to_owned());
        for (product, default, extra, expected) in [
            (MySql, None, "", DefaultValue::Null),
            (MySql, Some("NULL"), "", text("NULL")),
            (MySql, Some("open"), "", text("open")),
            (
                MySql,
                Some("uuid()"),
                "DEFAULT_GENERATED",
                DefaultValue::Unknown,
            ),
            (
                MySql,
                Some(r"_utf8mb4\'open\'"),
                "DEFAULT_GENERATED",
                DefaultValue::Unknown,
            ),
            (MySql, None, "STORED GENERATED", DefaultValue::Unknown),
            (MySql, None, "auto_increment", DefaultValue::Unknown),
            (MariaDb, None, "", DefaultValue::Null),
            (MariaDb, Some("NULL"), "", DefaultValue::Null),
            (MariaDb, Some("'NULL'"), "", text("NULL")),
            (MariaDb, Some("'open'"), "", text("open")),
            (MariaDb, Some("uuid()"), "", DefaultValue::Unknown),
            (MariaDb, None, "VIRTUAL GENERATED", DefaultValue::Unknown),
        ] {
            let default_text = default.map(str::to_owned);
            assert_eq!(
                read_default(default_text, extra, TypeClass::Text, "varchar(9)", product),
                expected,
                "{product:?} {default:?} {extra}"
            );
        }
    }

    #[test]
    fn escapes_are_undone() {
        assert_eq!(
            unescape(r"concat(_utf8mb4\'x\\\'y\',`a`)"),
            r"concat(_utf8mb4'x\'y',`a`)"
        );
    }
}
