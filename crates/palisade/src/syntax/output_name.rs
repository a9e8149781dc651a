//! Names that an engine gives to output columns which have none.
//!
//! PostgreSQL names a column after the outermost function, type or field of its expression
//! (`FigureColname` in `parse_target.c`); MySQL and SQLite after its text, which the outline keeps.
//! Only names are made here; nothing decides.

use std::sync::Arc;

use sqlparser::ast::{
    AccessExpr, DataType, Expr, FunctionArguments, ObjectName, Query, SelectItem, SetExpr,
    UnaryOperator, Value,
};

use crate::dialect::Dialect;
use crate::syntax::{dialect::is_hexadecimal, key};

/// How sure PostgreSQL is of a name: a cast's type gives way to a name below it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    None,
    Weak,
    Strong,
}

/// PostgreSQL's name for the column that `expr` makes.
pub(crate) fn postgres(expr: &Expr) -> String {
    match figure(expr) {
        (Strength::None, _) => "?column?".to_owned(),
        (Strength::Weak | Strength::Strong, name) => name,
    }
}

fn strong(name: impl Into<String>) -> (Strength, String) {
    (Strength::Strong, name.into())
}

fn none() -> (Strength, String) {
    (Strength::None, String::new())
}

fn last(name: &ObjectName) -> (Strength, String) {
    match name.0.last().and_then(|part| part.as_ident()) {
        Some(ident) => strong(key(ident, Dialect::Postgres)),
        None => none(),
    }
}

fn figure(expr: &Expr) -> (Strength, String) {
    match expr {
        Expr::Identifier(ident) => strong(key(ident, Dialect::Postgres)),
        Expr::CompoundIdentifier(parts) => match parts.last() {
            Some(ident) => strong(key(ident, Dialect::Postgres)),
            None => none(),
        },
        Expr::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                AccessExpr::Dot(field) => Some(figure(field)),
                AccessExpr::Subscript(_) => None,
            });
            field.unwrap_or_else(|| figure(root))
        }
        Expr::Nested(inner)
        | Expr::Collate {
            expr: inner,
            collation: _,
        } => figure(inner),
        Expr::Function(function) => match (&function.args, last(&function.name)) {
            (FunctionArguments::Subquery(_), _) => strong("array"),
            (_, named) => named,
        },
        Expr::Cast {
            kind: _,
            expr,
            data_type,
            format: _,
        } => match figure(expr) {
            (Strength::Strong, name) => strong(name),
            _ => (Strength::Weak, type_name(data_type)),
        },
        Expr::TypedString(typed) => (Strength::Weak, type_name(&typed.data_type)),
        Expr::Interval(_) => (Strength::Weak, "interval".to_owned()),
        Expr::Case {
            case_token: _,
            end_token: _,
            operand: _,
            conditions: _,
            else_result,
        } => match else_result.as_deref().map(figure) {
            Some((Strength::Strong, name)) => strong(name),
            _ => (Strength::Weak, "case".to_owned()),
        },
        Expr::Array(_) => strong("array"),
        Expr::Exists {
            subquery: _,
            negated: false,
        } => strong("exists"),
        Expr::Subquery(query) => first_column(query),
        Expr::Tuple(_) => strong("row"),
        Expr::Extract {
            field: _,
            syntax: _,
            expr: _,
        } => strong("extract"),
        Expr::Ceil { expr: _, field: _ } => strong("ceil"),
        Expr::Floor { expr: _, field: _ } => strong("floor"),
        Expr::Position { expr: _, r#in: _ } => strong("position"),
        Expr::Substring {
            expr: _,
            substring_from: _,
            substring_for: _,
            special: _,
            shorthand,
        } => strong(if *shorthand { "substr" } else { "substring" }),
        Expr::Trim {
            trim_where,
            trim_what: _,
            expr: _,
            trim_characters: _,
        } => strong(match trim_where {
            Some(sqlparser::ast::TrimWhereField::Leading) => "ltrim",
            Some(sqlparser::ast::TrimWhereField::Trailing) => "rtrim",
            Some(sqlparser::ast::TrimWhereField::Both) | None => "btrim",
        }),
        Expr::Overlay {
            expr: _,
            overlay_what: _,
            overlay_from: _,
            overlay_for: _,
        } => strong("overlay"),
        Expr::AtTimeZone {
            timestamp: _,
            time_zone: _,
        } => strong("timezone"),
        Expr::IsNormalized {
            expr: _,
            form: _,
            negated: false,
        } => strong("is_normalized"),
        Expr::BinaryOp {
            left: _,
            op: sqlparser::ast::BinaryOperator::Overlaps,
            right: _,
        } => strong("overlaps"),
        _ => none(),
    }
}

fn first_column(query: &Query) -> (Strength, String) {
    match &*query.body {
        SetExpr::Select(select) => match select.projection.first() {
            Some(SelectItem::UnnamedExpr(expr)) => figure(expr),
            Some(SelectItem::ExprWithAlias { expr: _, alias }) => {
                strong(key(alias, Dialect::Postgres))
            }
            _ => none(),
        },
        SetExpr::Query(inner) => first_column(inner),
        _ => none(),
    }
}

/// The name of a type as `pg_type` has it.
fn type_name(data_type: &DataType) -> String {
    let text = data_type.to_string().to_ascii_lowercase();
    let bare = text.split(['(', '[']).next().unwrap_or_default().trim();
    let zone = text.contains("with time zone");
    match bare {
        "int" | "integer" => "int4",
        "smallint" => "int2",
        "bigint" => "int8",
        "real" => "float4",
        "double precision" | "float" => "float8",
        "decimal" | "dec" => "numeric",
        "boolean" => "bool",
        "character varying" | "char varying" => "varchar",
        "character" | "char" => "bpchar",
        "bit varying" => "varbit",
        name if name.starts_with("timestamp") && (zone || name == "timestamptz") => "timestamptz",
        name if name.starts_with("timestamp") => "timestamp",
        name if name.starts_with("time") && (zone || name == "timetz") => "timetz",
        name if name.starts_with("time") => "time",
        name if name.starts_with("interval") => "interval",
        name => name.rsplit('.').next().unwrap_or(name).trim_matches('"'),
    }
    .to_owned()
}

/// MySQL's name for a column that is a literal: a string's content, and without the parentheses around it. Other
/// expressions are named after their text.
pub(crate) fn mysql_literal(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Nested(inner) => match &**inner {
            inner if is_number(inner) => Some(inner.to_string()),
            _ => mysql_literal(inner),
        },
        Expr::Value(value) => match &value.value {
            // What a backslash means depends on the server's mode. Of doubled quotes, one is meant.
            Value::SingleQuotedString(text) | Value::NationalStringLiteral(text)
                if !text.contains('\\') =>
            {
                Some(cut_name(&text.replace("''", "'")))
            }
            Value::DoubleQuotedString(text) if !text.contains('\\') => {
                Some(cut_name(&text.replace("\"\"", "\"")))
            }
            Value::Null => Some("NULL".to_owned()),
            _ => None,
        },
        // `_utf8mb4'x'`: a character set stands before the literal.
        Expr::Prefixed { prefix: _, value } if is_string(value) => mysql_literal(value),
        _ => None,
    }
}

fn is_string(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => matches!(
            &value.value,
            Value::SingleQuotedString(_) | Value::DoubleQuotedString(_)
        ),
        _ => false,
    }
}

/// Leading blanks are cut, and so is what is longer than a name.
fn cut_name(text: &str) -> String {
    text.trim_start().chars().take(64).collect()
}

fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => {
            matches!(&value.value, Value::Number(digits, _) if !is_hexadecimal(digits))
        }
        _ => false,
    }
}

/// Whether a column of a subquery called so has another name in SQLite, which calls it after its place, since TRUE and FALSE were
/// names before they were words (`sqlite3ColumnsFromExprList`).
pub(crate) fn is_truth(name: &str) -> bool {
    name.eq_ignore_ascii_case("true") || name.eq_ignore_ascii_case("false")
}

/// MariaDB's name for a column of VALUES that has this literal in its first row; none of what is no plain one, or has no
/// text.
pub(crate) fn mariadb_value(expr: &Expr) -> Option<String> {
    match expr {
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: inner,
        } if is_number(inner) => Some(expr.to_string()),
        Expr::Value(_) if is_number(expr) => Some(expr.to_string()),
        Expr::Value(_) => mysql_literal(expr).filter(|name| !name.is_empty()),
        _ => None,
    }
}

/// What MySQL leaves of a name that is made of a text: as many bytes as a name of a column in an answer has. Names hold no character
/// beyond the first 65536 (<https://dev.mysql.com/doc/refman/8.4/en/identifiers.html>).
pub(crate) fn mysql_shortened(name: Arc<str>) -> Arc<str> {
    let is_beyond = |c: char| c > '\u{ffff}';
    if name.contains(is_beyond) {
        return mysql_shortened(name.replace(is_beyond, "?").into());
    }
    match name.get(..name.floor_char_boundary(255)) {
        Some(start) if start.len() < name.len() => start.into(),
        Some(_) | None => name,
    }
}

/// Takes the signs `+` off a column or literal: MySQL reads them as nothing, and names the item after what is
/// left. Whether there were any.
pub(crate) fn without_plus(expr: &mut Expr) -> bool {
    let mut bare = &*expr;
    let mut signs = 0;
    loop {
        match bare {
            Expr::UnaryOp {
                op: UnaryOperator::Plus,
                expr: inner,
            } => {
                signs += 1;
                bare = inner;
            }
            Expr::Nested(inner) => bare = inner,
            _ => break,
        }
    }
    let named = matches!(
        bare,
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_)
    );
    let signed = named && signs > 0;
    if signed {
        *expr = bare.clone();
    }
    signed
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "tests")]
    use sqlparser::{
        dialect::{MySqlDialect, PostgreSqlDialect},
        parser::Parser,
    };

    use super::*;

    fn parse(text: &str, dialect: &dyn sqlparser::dialect::Dialect) -> Expr {
        Parser::new(dialect)
            .try_with_sql(text)
            .and_then(|mut parser| parser.parse_expr())
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn postgresql_names_columns_after_their_expressions() {
        for (text, name) in [
            ("lower(a)", "lower"),
            ("pg_catalog.lower(a)", "lower"),
            ("a + 1", "?column?"),
            ("a::int", "a"),
            ("'1'::integer", "int4"),
            ("(1 + 1)::pg_catalog.int2", "int2"),
            ("date '2000-01-01'", "date"),
            ("interval '1 day'", "interval"),
            ("CASE WHEN a THEN 1 END", "case"),
            ("CASE WHEN a THEN 1 ELSE b END", "b"),
            ("CASE WHEN a THEN b ELSE 1::int END", "case"),
            ("count(*)", "count"),
            ("(SELECT max(x) FROM t)", "max"),
            ("(SELECT x + 1 AS y FROM t)", "y"),
            ("((SELECT x FROM t))", "x"),
            ("(SELECT * FROM t)", "?column?"),
            ("EXISTS (SELECT 1)", "exists"),
            ("ARRAY[1,2]", "array"),
            ("ARRAY(SELECT 1)", "array"),
            ("T.Name", "name"),
            (r#"t."Name""#, "Name"),
            ("a[1]", "a"),
            ("(t).b", "b"),
            (r#"a COLLATE "C""#, "a"),
            ("coalesce(a, b)", "coalesce"),
            ("trim(a)", "btrim"),
            ("trim(both 'x' from a)", "btrim"),
            ("trim(leading 'x' from a)", "ltrim"),
            ("trim(trailing 'x' from a)", "rtrim"),
            ("floor(a)", "floor"),
            ("ceil(a)", "ceil"),
            ("position('x' in a)", "position"),
            ("extract(year from a)", "extract"),
            ("substring(a from 1)", "substring"),
            ("substr(a, 1)", "substr"),
            ("overlay(a placing 'x' from 1)", "overlay"),
            ("a AT TIME ZONE 'utc'", "timezone"),
            ("a IS NORMALIZED", "is_normalized"),
            ("a IS NOT NORMALIZED", "?column?"),
            ("(a, b)", "row"),
            ("(a, b) OVERLAPS (c, d)", "overlaps"),
            ("-a", "?column?"),
        ] {
            assert_eq!(
                postgres(&parse(text, &PostgreSqlDialect {})),
                name,
                "{text}"
            );
        }
    }

    #[test]
    fn postgresql_names_literals_after_their_types() {
        for (type_name, name) in [
            ("int", "int4"),
            ("integer", "int4"),
            ("smallint", "int2"),
            ("bigint", "int8"),
            ("real", "float4"),
            ("double precision", "float8"),
            ("float", "float8"),
            ("decimal(5, 2)", "numeric"),
            ("numeric", "numeric"),
            ("boolean", "bool"),
            ("character varying(3)", "varchar"),
            ("varchar", "varchar"),
            ("character(3)", "bpchar"),
            ("char", "bpchar"),
            ("bit varying(3)", "varbit"),
            ("text", "text"),
            ("text[]", "text"),
            ("timestamp", "timestamp"),
            ("timestamp(3)", "timestamp"),
            ("timestamp without time zone", "timestamp"),
            ("timestamp with time zone", "timestamptz"),
            ("timestamptz", "timestamptz"),
            ("time", "time"),
            ("time without time zone", "time"),
            ("time with time zone", "timetz"),
            ("timetz", "timetz"),
            ("pg_catalog.inet", "inet"),
        ] {
            let expr = parse(&format!("CAST('x' AS {type_name})"), &PostgreSqlDialect {});
            assert_eq!(postgres(&expr), name, "{type_name}");
        }
    }

    #[test]
    fn mysql_names_literals_after_what_they_hold() {
        let long = "é".repeat(65);
        for (text, mysql, mariadb) in [
            ("1", None, Some("1")),
            ("(1)", Some("1"), None),
            ("((1.50))", Some("1.50"), None),
            ("(0x1F)", None, None),
            ("-1", None, Some("-1")),
            ("-a", None, None),
            ("'a b'", Some("a b"), Some("a b")),
            ("('a')", Some("a"), None),
            ("'  a'", Some("a"), Some("a")),
            ("''", Some(""), None),
            (r"'a\\b'", None, None),
            ("'it''s'", Some("it's"), Some("it's")),
            ("N'it''s'", Some("it's"), Some("it's")),
            ("_utf8mb4'x'", Some("x"), None),
            (r#""a""#, Some("a"), Some("a")),
            (r#""a""b""#, Some("a\"b"), Some("a\"b")),
            (r#""a'b""#, Some("a'b"), Some("a'b")),
            (r#"'a"b'"#, Some("a\"b"), Some("a\"b")),
            ("NULL", Some("NULL"), Some("NULL")),
            ("true", None, None),
            ("a", None, None),
            (&format!("'{long}'"), long.get(..128), long.get(..128)),
        ] {
            let dialect = MySqlDialect {};
            let mut tokens = sqlparser::tokenizer::Tokenizer::new(&dialect, text);
            tokens = tokens.with_unescape(false);
            let tokens = tokens
                .tokenize()
                .unwrap_or_else(|error| panic!("{text}: {error}"));
            let expr = Parser::new(&dialect).with_tokens(tokens).parse_expr();
            let expr = expr.unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(mysql_literal(&expr).as_deref(), mysql, "{text}");
            assert_eq!(mariadb_value(&expr).as_deref(), mariadb, "{text}");
        }
    }

    #[test]
    fn names_of_answers_are_as_long_as_mysql_has_them() {
        for (name, length) in [
            ("a".repeat(255), 255),
            ("a".repeat(256), 255),
            ("é".repeat(128), 254),
        ] {
            assert_eq!(mysql_shortened(name.as_str().into()).len(), length);
        }
        assert_eq!(&*mysql_shortened("LIKE '%😀%'".into()), "LIKE '%?%'");
    }

    #[test]
    fn signs_are_taken_off_columns_and_literals() {
        for (text, expected) in [
            ("+a", Some("a")),
            ("+(+t.a)", Some("t.a")),
            ("+1", Some("1")),
            ("a", None),
            ("(a)", None),
            ("+(a + 1)", None),
            ("-a", None),
        ] {
            let mut expr = parse(text, &MySqlDialect {});
            let before = expr.clone();
            assert_eq!(without_plus(&mut expr), expected.is_some(), "{text}");
            let after = expected.map_or(before.to_string(), str::to_owned);
            assert_eq!(expr.to_string(), after, "{text}");
        }
    }

    #[test]
    fn words_for_truth_are_no_names_in_sqlite() {
        for (name, expected) in [
            ("true", true),
            ("False", true),
            ("truth", false),
            ("tru", false),
        ] {
            assert_eq!(is_truth(name), expected, "{name}");
        }
    }
}
