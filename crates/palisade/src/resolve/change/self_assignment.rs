//! Columns that are assigned to themselves: they stay as they are, so that nothing is set off by it.

use sqlparser::ast::{Expr, Ident};

use crate::{
    catalog::{Catalog, Column},
    dialect::Dialect,
    syntax::{decode, key},
};

/// Whether `column` of the target that is called `own` keeps its value where it is assigned `value`, so that no foreign key does
/// anything.
pub(crate) fn stays(value: &Expr, column: &Column, own: &Ident, catalog: &Catalog) -> bool {
    match catalog.dialect() {
        // Its authorizer is told of what the key would do, before the value is looked at.
        Dialect::Sqlite => false,
        Dialect::Postgres | Dialect::Mysql => is_itself(value, column, own, catalog),
    }
}

/// Whether `value`, which is assigned, is `column` of the target that is called `own`, as it was.
pub(crate) fn is_itself(value: &Expr, column: &Column, own: &Ident, catalog: &Catalog) -> bool {
    match value {
        Expr::Nested(inner) => is_itself(inner, column, own, catalog),
        // What is assigned is the target's, so that no other table has it without a name.
        Expr::Identifier(name) => *key(name, catalog.dialect()) == *column.key,
        Expr::CompoundIdentifier(_) => is_named(value, &table_key(own, catalog), column, catalog),
        _ => false,
    }
}

/// As names of tables are compared.
fn table_key(name: &Ident, catalog: &Catalog) -> String {
    let quoted = name.quote_style.is_some();
    catalog
        .fold_relation_written(&decode(name), quoted)
        .into_owned()
}

/// Whether `value` is `column` of what is called `table`.
pub(crate) fn is_named(value: &Expr, table: &str, column: &Column, catalog: &Catalog) -> bool {
    match value {
        Expr::Nested(inner) => is_named(inner, table, column, catalog),
        Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [qualifier, name] => {
                table_key(qualifier, catalog) == table
                    && *key(name, catalog.dialect()) == *column.key
            }
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::panic,
        clippy::indexing_slicing,
        reason = "tests"
    )]

    use sqlparser::{dialect::GenericDialect, parser::Parser};

    use super::*;
    use crate::catalog::{ColumnDef, DefaultValue, RelationDef, RelationKind, TypeClass};

    fn catalog(dialect: Dialect) -> Catalog {
        let column = ColumnDef {
            name: "a".to_owned(),
            type_name: "int".to_owned(),
            class: TypeClass::Integer,
            nullable: true,
            collation: String::new(),
            generated: None,
            stored: false,
            filled: DefaultValue::Unknown,
        };
        let def = RelationDef::new("s", "t", RelationKind::Table, vec![column]);
        Catalog::builder(dialect).relation(def).build().unwrap()
    }

    #[test]
    fn a_column_stays_where_it_is_assigned_itself() {
        for (text, expected) in [
            ("a", true),
            ("A", true),
            ("(t.a)", true),
            ("b", false),
            ("u.a", false),
            ("t.b", false),
            ("s.t.a", false),
            ("a + 0", false),
            ("1", false),
        ] {
            let expr = Parser::new(&GenericDialect {})
                .try_with_sql(text)
                .and_then(|mut parser| parser.parse_expr())
                .unwrap_or_else(|error| panic!("{text}: {error}"));
            for (dialect, counts) in [
                (Dialect::Postgres, true),
                (Dialect::Mysql, true),
                (Dialect::Sqlite, false),
            ] {
                let catalog = catalog(dialect);
                let column = &catalog.relations()[0].columns[0];
                let own = Ident::new("t");
                let found = is_itself(&expr, column, &own, &catalog);
                assert_eq!(found, expected, "{text} {dialect:?}");
                let found = stays(&expr, column, &own, &catalog);
                assert_eq!(found, expected && counts, "{text} {dialect:?}");
            }
        }
    }
}
