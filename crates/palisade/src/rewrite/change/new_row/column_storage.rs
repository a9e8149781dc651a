//! What a column keeps of what it is given: the type behind a domain, and texts that are cut off as they are stored.

use std::{borrow::Cow, collections::BTreeSet};

use sqlparser::ast::{BinaryOperator, Expr};

use crate::rewrite::ast;
use crate::{
    catalog::{Catalog, Column, Relation, TypeClass},
    dialect::Dialect,
};

/// Bytes from which on PostgreSQL cuts off what is stored as a `name`.
const NAME: usize = 64;

/// `column` with the type that it stores, which is what a domain narrows. Its class is `Other` where the type
/// behind a domain is not known.
pub(in crate::rewrite) fn storage_column<'c>(
    column: &'c Column,
    catalog: &Catalog,
) -> Cow<'c, Column> {
    match catalog.dialect() {
        Dialect::Sqlite | Dialect::Mysql => return Cow::Borrowed(column),
        Dialect::Postgres => {}
    }
    let base = catalog.behind_domains(&column.type_name);
    let is_known = |name: &str| {
        column.class == TypeClass::Enum
            || TypeClass::from_name(Dialect::Postgres, name) == column.class
    };
    match base {
        Some(base) if *base == *column.type_name && is_known(base) => Cow::Borrowed(column),
        Some(base) if is_known(base) => Cow::Owned(Column {
            type_name: base.into(),
            ..column.clone()
        }),
        Some(_) | None => Cow::Owned(Column {
            class: TypeClass::Other,
            ..column.clone()
        }),
    }
}

/// `value` as it compares once `column` holds it: a query may give a text another collation, by which a filter would take it for a
/// different one.
pub(in crate::rewrite) fn with_collation(value: Expr, column: &Column, dialect: Dialect) -> Expr {
    if column.class != TypeClass::Text {
        return value;
    }
    let collation = match dialect {
        Dialect::Sqlite if column.collation.is_empty() => "BINARY",
        Dialect::Sqlite => column.collation.as_str(),
        Dialect::Postgres => BYTEWISE,
        // It is converted to the column's own.
        Dialect::Mysql => return value,
    };
    ast::collate(ast::parens(value), collation, dialect)
}

/// The collation of PostgreSQL in which texts are equal where their bytes are.
const BYTEWISE: &str = "C";

/// The columns of `relation` as their values compare that have [a collation](with_collation).
pub(in crate::rewrite) fn compared_columns(relation: &Relation, dialect: Dialect) -> Vec<Column> {
    let mut columns = relation.columns.clone();
    if dialect == Dialect::Postgres {
        let texts = columns
            .iter_mut()
            .filter(|column| column.class == TypeClass::Text);
        texts.for_each(|column| column.collation = BYTEWISE.to_owned());
    }
    columns
}

/// Whether `column` keeps the whole of `text`. Engines refuse a longer text, or cut off its trailing blanks.
pub(in crate::rewrite) fn stores_whole_text(text: &str, column: &Column, dialect: Dialect) -> bool {
    let fits =
        || declared_length(&column.type_name).is_none_or(|most| text.chars().count() <= most);
    match dialect {
        // Lengths are not looked at.
        Dialect::Sqlite => true,
        Dialect::Postgres => fits() && (!has_type(column, "name") || text.len() < NAME),
        Dialect::Mysql => fits() && (!has_type(column, "char") || !text.ends_with(' ')),
    }
}

/// The conditions under which `column` keeps the whole of `value`, a text.
pub(in crate::rewrite) fn whole_text_conditions(
    value: &Expr,
    column: &Column,
    dialect: Dialect,
    functions: &mut BTreeSet<String>,
) -> Vec<Expr> {
    let mut call = |name: &str, value: Expr| {
        functions.insert(match dialect {
            Dialect::Postgres => format!("pg_catalog.{name}"),
            Dialect::Sqlite | Dialect::Mysql => name.to_owned(),
        });
        ast::call(dialect, name, vec![value])
    };
    let at_most = |length, most: usize| {
        ast::binary(
            length,
            BinaryOperator::LtEq,
            ast::integer(i64::try_from(most).unwrap_or(0)),
        )
    };
    let mut conditions = Vec::new();
    match (column.class == TypeClass::Text, dialect) {
        (false, _) | (true, Dialect::Sqlite) => return conditions,
        (true, Dialect::Postgres | Dialect::Mysql) => {}
    }
    if let Some(most) = declared_length(&column.type_name) {
        conditions.push(at_most(call("char_length", value.clone()), most));
    }
    if dialect == Dialect::Postgres && has_type(column, "name") {
        conditions.push(at_most(call("octet_length", value.clone()), NAME - 1));
    }
    if dialect == Dialect::Mysql && has_type(column, "char") {
        let trimmed = call("rtrim", value.clone());
        let lengths = [value.clone(), trimmed].map(|text| call("char_length", text));
        let [whole, trimmed] = lengths;
        conditions.push(ast::binary(whole, BinaryOperator::Eq, trimmed));
    }
    if conditions.is_empty() || !column.nullable {
        return conditions;
    }
    // Of NULL nothing is cut off.
    let whole = ast::join_by(conditions, &BinaryOperator::And, true);
    let absent = Expr::IsNull(Box::new(value.clone()));
    vec![ast::parens(ast::binary(
        absent,
        BinaryOperator::Or,
        ast::parens(whole),
    ))]
}

/// Whether the column is declared with this type.
pub(in crate::rewrite) fn has_type(column: &Column, type_name: &str) -> bool {
    let name = column.type_name.split('(').next().unwrap_or_default();
    let name = name.split(' ').next().unwrap_or_default();
    name.eq_ignore_ascii_case(type_name)
}

/// The `n` of `varchar(n)`.
pub(in crate::rewrite) fn declared_length(type_name: &str) -> Option<usize> {
    let (_, rest) = type_name.split_once('(')?;
    let (digits, _) = rest.split_once(')')?;
    // A declaration that is not understood admits nothing longer than nothing.
    Some(digits.trim().parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::DefaultValue;

    fn column(type_name: &str, dialect: Dialect) -> Column {
        Column {
            name: "c".into(),
            key: "c".into(),
            uid: "t.c".to_owned(),
            type_name: type_name.into(),
            class: TypeClass::from_name(dialect, type_name),
            nullable: false,
            collation: String::new(),
            generated: None,
            stored: false,
            filled: DefaultValue::Unknown,
            withheld: false,
        }
    }

    #[test]
    fn lengths_are_those_that_are_declared() {
        for (type_name, expected) in [
            ("varchar(9)", Some(9)),
            ("varchar( 9 ) unsigned", Some(9)),
            ("decimal(5,2)", Some(0)),
            ("varchar(", None),
            ("text", None),
        ] {
            assert_eq!(declared_length(type_name), expected, "{type_name}");
        }
    }

    #[test]
    fn a_type_is_the_first_word_of_its_declaration() {
        for (type_name, wanted, expected) in [
            ("CHAR(3)", "char", true),
            ("int unsigned", "int", true),
            ("character varying", "character", true),
            ("varchar(3)", "char", false),
            ("", "char", false),
        ] {
            let column = column(type_name, Dialect::Mysql);
            assert_eq!(has_type(&column, wanted), expected, "{type_name}");
        }
    }

    #[test]
    fn texts_are_stored_whole_where_they_fit() {
        let long = "a".repeat(64);
        let short = "a".repeat(63);
        for (type_name, dialect, text, expected) in [
            ("varchar(3)", Dialect::Postgres, "abc", true),
            ("varchar(3)", Dialect::Postgres, "abcd", false),
            ("varchar(3)", Dialect::Postgres, "ééé", true),
            ("name", Dialect::Postgres, short.as_str(), true),
            ("name", Dialect::Postgres, long.as_str(), false),
            ("text", Dialect::Postgres, long.as_str(), true),
            ("varchar(3)", Dialect::Sqlite, "abcd", true),
            ("varchar(3)", Dialect::Mysql, "abcd", false),
            ("varchar(3)", Dialect::Mysql, "ab ", true),
            ("char(3)", Dialect::Mysql, "ab ", false),
            ("char(3)", Dialect::Mysql, "ab", true),
        ] {
            let column = column(type_name, dialect);
            let found = stores_whole_text(text, &column, dialect);
            assert_eq!(found, expected, "{type_name} {text}");
        }
    }

    #[test]
    fn conditions_of_whole_texts_are_those_of_the_type() {
        for (type_name, nullable, dialect, expected) in [
            ("text", false, Dialect::Postgres, ""),
            ("integer", false, Dialect::Postgres, ""),
            ("varchar(3)", false, Dialect::Sqlite, ""),
            (
                "character varying(3)",
                false,
                Dialect::Postgres,
                "char_length",
            ),
            ("name", false, Dialect::Postgres, "octet_length"),
            ("varchar(3)", false, Dialect::Mysql, "char_length"),
            (
                "char(3)",
                false,
                Dialect::Mysql,
                "char_length rtrim char_length",
            ),
            ("varchar(3)", true, Dialect::Mysql, "IS NULL char_length"),
            ("text", true, Dialect::Mysql, ""),
        ] {
            let column = Column {
                nullable,
                ..column(type_name, dialect)
            };
            let value = ast::column(dialect, "c");
            let mut functions = BTreeSet::new();
            let found = whole_text_conditions(&value, &column, dialect, &mut functions);
            let text: Vec<String> = found.iter().map(ToString::to_string).collect();
            let text = text.join(" ").to_lowercase();
            for word in expected.split_whitespace() {
                assert!(text.contains(&word.to_lowercase()), "{type_name}: {text}");
            }
            assert_eq!(found.is_empty(), expected.is_empty(), "{type_name}: {text}");
            assert_eq!(functions.is_empty(), expected.is_empty(), "{type_name}");
            assert_eq!(text.contains("is null"), nullable && !expected.is_empty());
        }
    }
}
