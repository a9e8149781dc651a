//! The type of what an expression of SQLite gives, as far as the expression alone tells.
//!
//! SQLite types values, not columns: a computed column of a view has no declared type. It is told to agents for orientation; nothing
//! is decided by it.

use sqlparser::ast::{
    BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    Query, SelectItem, SetExpr, TableFactor, UnaryOperator, Value,
};

/// A storage class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Integer,
    Real,
    Text,
    Blob,
    /// NULL alone, which goes with every other.
    Null,
}

/// The type of the column at `index` of `query`, where its expression has one type whatever the rows hold. `declared` gives the
/// declared type of a column by its name, where one column alone has that name.
pub(crate) fn value_type<'t>(
    query: &Query,
    index: usize,
    declared: &dyn Fn(&str) -> Option<&'t str>,
) -> Option<&'static str> {
    let SetExpr::Select(select) = &*query.body else {
        return None;
    };
    let expr = match select.projection.get(index)? {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, alias: _ } => expr,
        _ => return None,
    };
    // Behind anything but tables and views, a name can be that of something computed.
    let is_plain = |factor: &TableFactor| {
        let TableFactor::Table {
            name: _,
            alias: _,
            args: None,
            with_hints: _,
            version: _,
            with_ordinality: _,
            partitions: _,
            json_path: _,
            sample: _,
            index_hints: _,
        } = factor
        else {
            return false;
        };
        true
    };
    let are_plain = query.with.is_none()
        && select.from.iter().all(|table| {
            is_plain(&table.relation) && table.joins.iter().all(|join| is_plain(&join.relation))
        });
    let declared = |name: &str| declared(name).filter(|_| are_plain);
    match class_of(expr, &declared)? {
        Class::Integer => Some("INTEGER"),
        Class::Real => Some("REAL"),
        Class::Text => Some("TEXT"),
        Class::Blob => Some("BLOB"),
        Class::Null => None,
    }
}

fn class_of<'t>(expr: &Expr, declared: &dyn Fn(&str) -> Option<&'t str>) -> Option<Class> {
    let of = |expr: &Expr| class_of(expr, declared);
    match expr {
        Expr::Nested(inner)
        | Expr::Collate {
            expr: inner,
            collation: _,
        } => of(inner),
        Expr::Identifier(name) => declared(&name.value).and_then(class_of_declared),
        Expr::CompoundIdentifier(names) => {
            declared(&names.last()?.value).and_then(class_of_declared)
        }
        Expr::Value(value) => class_of_literal(&value.value),
        Expr::Cast {
            kind: _,
            expr: _,
            data_type,
            format: _,
        } => class_of_cast(data_type),
        Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsDistinctFrom(_, _)
        | Expr::IsNotDistinctFrom(_, _)
        | Expr::Between {
            expr: _,
            negated: _,
            low: _,
            high: _,
        }
        | Expr::InList {
            expr: _,
            list: _,
            negated: _,
        }
        | Expr::InSubquery {
            expr: _,
            subquery: _,
            negated: _,
        }
        | Expr::Exists {
            subquery: _,
            negated: _,
        }
        | Expr::Like {
            negated: _,
            any: _,
            expr: _,
            pattern: _,
            escape_char: _,
        } => Some(Class::Integer),
        Expr::UnaryOp { op, expr } => match op {
            UnaryOperator::Not => Some(Class::Integer),
            UnaryOperator::Minus | UnaryOperator::Plus => {
                of(expr).filter(|class| is_number(*class))
            }
            _ => None,
        },
        Expr::BinaryOp { left, op, right } => match op {
            BinaryOperator::StringConcat => Some(Class::Text),
            BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq
            | BinaryOperator::And
            | BinaryOperator::Or => Some(Class::Integer),
            BinaryOperator::Plus
            | BinaryOperator::Minus
            | BinaryOperator::Multiply
            | BinaryOperator::Divide => match (of(left)?, of(right)?) {
                (Class::Integer, Class::Integer) => Some(Class::Integer),
                (Class::Integer | Class::Real, Class::Integer | Class::Real) => Some(Class::Real),
                (_, _) => None,
            },
            _ => None,
        },
        Expr::Case {
            case_token: _,
            end_token: _,
            operand: _,
            conditions,
            else_result,
        } => {
            let results = conditions.iter().map(|when| &when.result);
            find_common_class(results.chain(else_result.as_deref()), declared)
        }
        Expr::Substring {
            expr,
            substring_from: _,
            substring_for: _,
            special: _,
            shorthand: _,
        } => of(expr).filter(|class| *class == Class::Text),
        Expr::Trim {
            trim_where: _,
            trim_what: _,
            expr: _,
            trim_characters: _,
        } => Some(Class::Text),
        Expr::Function(call) => class_of_call(call, declared),
        _ => None,
    }
}

fn class_of_call<'t>(call: &Function, declared: &dyn Fn(&str) -> Option<&'t str>) -> Option<Class> {
    let [name] = call.name.0.as_slice() else {
        return None;
    };
    let name = name.as_ident()?.value.to_ascii_lowercase();
    let arguments: Vec<&Expr> = match &call.args {
        FunctionArguments::List(list) => (list.args.iter())
            .filter_map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
                _ => None,
            })
            .collect(),
        FunctionArguments::None | FunctionArguments::Subquery(_) => Vec::new(),
    };
    let first = || {
        let class = class_of(arguments.first()?, declared)?;
        (class != Class::Null).then_some(class)
    };
    match name.as_str() {
        "count" | "length" | "octet_length" | "instr" | "unicode" | "unixepoch" | "row_number"
        | "rank" | "dense_rank" | "ntile" => Some(Class::Integer),
        "avg" | "total" | "round" | "julianday" | "percent_rank" | "cume_dist" => Some(Class::Real),
        "upper" | "lower" | "trim" | "ltrim" | "rtrim" | "replace" | "hex" | "quote" | "printf"
        | "format" | "group_concat" | "string_agg" | "concat" | "concat_ws" | "date" | "time"
        | "datetime" | "strftime" | "typeof" | "char" => Some(Class::Text),
        "sum" | "abs" => first().filter(|class| is_number(*class)),
        "min" | "max" if arguments.len() == 1 => first(),
        "substr" | "substring" => first().filter(|class| *class == Class::Text),
        "coalesce" | "ifnull" | "min" | "max" => find_common_class(arguments.into_iter(), declared),
        "iif" | "if" => find_common_class(arguments.into_iter().skip(1), declared),
        "nullif" | "lag" | "lead" | "first_value" | "last_value" if arguments.len() <= 2 => first(),
        _ => None,
    }
}

/// The class that all of them have.
fn find_common_class<'e, 't>(
    mut all: impl Iterator<Item = &'e Expr>,
    declared: &dyn Fn(&str) -> Option<&'t str>,
) -> Option<Class> {
    all.try_fold(Class::Null, |class, expr| {
        match (class, class_of(expr, declared)?) {
            (class, Class::Null) => Some(class),
            (Class::Null, other) => Some(other),
            (class, other) => (class == other).then_some(class),
        }
    })
}

fn class_of_literal(value: &Value) -> Option<Class> {
    match value {
        Value::Number(text, _) if text.contains(['.', 'e', 'E']) => Some(Class::Real),
        Value::Number(text, _) => text.parse::<i64>().ok().map(|_| Class::Integer),
        Value::SingleQuotedString(_) => Some(Class::Text),
        Value::HexStringLiteral(_) => Some(Class::Blob),
        Value::Boolean(_) => Some(Class::Integer),
        Value::Null => Some(Class::Null),
        _ => None,
    }
}

fn class_of_cast(to: &DataType) -> Option<Class> {
    class_of_declared(&to.to_string())
}

/// By the engine's rules of affinity; NUMERIC is either kind of number.
fn class_of_declared(name: &str) -> Option<Class> {
    let name = name.to_ascii_uppercase();
    let has = |part: &str| name.contains(part);
    if has("INT") {
        Some(Class::Integer)
    } else if has("CHAR") || has("CLOB") || has("TEXT") {
        Some(Class::Text)
    } else if has("BLOB") {
        Some(Class::Blob)
    } else if has("REAL") || has("FLOA") || has("DOUB") {
        Some(Class::Real)
    } else {
        None
    }
}

fn is_number(class: Class) -> bool {
    match class {
        Class::Integer | Class::Real => true,
        Class::Text | Class::Blob | Class::Null => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use sqlparser::{ast::Statement, dialect::SQLiteDialect, parser::Parser};

    use super::*;

    fn read(sql: &str) -> Option<&'static str> {
        let mut statements = Parser::parse_sql(&SQLiteDialect {}, sql).unwrap();
        let Some(Statement::Query(query)) = statements.pop() else {
            panic!("{sql}");
        };
        let declared = |name: &str| match name {
            "n" => Some("BIGINT"),
            "r" => Some("DOUBLE PRECISION"),
            "s" => Some("VARCHAR(20)"),
            "b" => Some("BLOB"),
            "d" => Some("DECIMAL(10, 2)"),
            _ => None,
        };
        value_type(&query, 0, &declared)
    }

    /// What `typeof` says of each on the engine, where it says the same for all rows.
    #[test]
    fn types_are_those_of_the_values() {
        for (type_name, expressions) in [
            (
                "INTEGER",
                &[
                    "1",
                    "TRUE",
                    "-n",
                    "+1",
                    "n + 1",
                    "n * n",
                    "n / 2",
                    "n - 1",
                    "n = 1",
                    "n <> 1",
                    "n < 1",
                    "n <= 1",
                    "n > 1",
                    "n >= 1",
                    "n AND 1",
                    "n OR 1",
                    "NOT n",
                    "n IS NULL",
                    "n IS NOT NULL",
                    "n IS TRUE",
                    "n IS NOT TRUE",
                    "n IS FALSE",
                    "n IS NOT FALSE",
                    "n IS DISTINCT FROM 1",
                    "n IS NOT DISTINCT FROM 1",
                    "n BETWEEN 1 AND 2",
                    "n IN (1)",
                    "n IN (SELECT 1)",
                    "EXISTS (SELECT 1)",
                    "s LIKE 'x'",
                    "(n)",
                    "t.n",
                    "n COLLATE NOCASE",
                    "CAST(s AS INTEGER)",
                    "count(*)",
                    "COUNT(n)",
                    "length(s)",
                    "sum(n)",
                    "abs(n)",
                    "min(n)",
                    "max(n)",
                    "coalesce(n, 1)",
                    "coalesce(NULL, n)",
                    "ifnull(n, NULL)",
                    "iif(s, n, 1)",
                    "nullif(n, 1)",
                    "min(n, 1)",
                    "CASE WHEN n THEN 1 ELSE n END",
                    "CASE n WHEN 1 THEN 2 END",
                    "row_number() OVER (ORDER BY n)",
                    "lag(n) OVER (ORDER BY n)",
                    "lag(n, 1) OVER (ORDER BY n)",
                ][..],
            ),
            (
                "REAL",
                &[
                    "1.5",
                    "1e3",
                    "1E3",
                    "r",
                    "-r",
                    "n + r",
                    "r * n",
                    "avg(n)",
                    "total(n)",
                    "round(r, 1)",
                    "sum(r)",
                    "abs(r)",
                    "CAST(n AS REAL)",
                    "CAST(n AS FLOAT)",
                    "julianday('now')",
                ][..],
            ),
            (
                "TEXT",
                &[
                    "'x'",
                    "s",
                    "s || n",
                    "upper(s)",
                    "trim(s)",
                    "TRIM(s)",
                    "trim(n)",
                    "TRIM(BOTH 'x' FROM s)",
                    "substr(s, 1)",
                    "SUBSTRING(s, 1)",
                    "substring(s FROM 1)",
                    "min(s)",
                    "group_concat(s)",
                    "typeof(n)",
                    "CAST(n AS TEXT)",
                    "CAST(n AS CLOB)",
                    "CAST(n AS VARCHAR)",
                    "coalesce(s, 'x')",
                    "CASE WHEN n THEN 'a' ELSE s END",
                ][..],
            ),
            (
                "BLOB",
                &[
                    "b",
                    "x'00'",
                    "CAST(s AS BLOB)",
                    "coalesce(b, x'00')",
                    "max(b)",
                ][..],
            ),
        ] {
            for expression in expressions {
                let told = read(&format!("SELECT {expression} FROM t"));
                assert_eq!(told, Some(type_name), "{expression}");
            }
        }
    }

    #[test]
    fn what_differs_by_row_has_no_type() {
        for expression in [
            "d",
            "-s",
            "-d",
            "NULL",
            "n + s",
            "n + NULL",
            "s + s",
            "n % 2",
            "coalesce(n, s)",
            "coalesce(n, d)",
            "iif(1, n, s)",
            "CASE WHEN n THEN 1 ELSE 's' END",
            "CASE WHEN n THEN s END + 1",
            "sum(s)",
            "abs(s)",
            "abs(d)",
            "min(n, s)",
            "max(d)",
            "nullif(d, 1)",
            "lag(n, 1, 's') OVER (ORDER BY n)",
            "substr(b, 1)",
            "substring(b FROM 1)",
            "unknown(n)",
            "main.count(n)",
            "nothing",
            "(SELECT 1)",
            "99999999999999999999",
            "CAST(n AS NUMERIC)",
            "coalesce(NULL, NULL)",
            "min(NULL)",
        ] {
            assert_eq!(
                read(&format!("SELECT {expression} FROM t")),
                None,
                "{expression}"
            );
        }
        for sql in [
            "SELECT n FROM (SELECT 's' AS n)",
            "WITH t AS (SELECT 's' AS n) SELECT n FROM t",
            "SELECT n FROM t JOIN (SELECT 's' AS n)",
            "SELECT n FROM json_each('[]')",
            "SELECT n FROM t UNION SELECT n FROM t",
            "SELECT * FROM t",
        ] {
            assert_eq!(read(sql), None, "{sql}");
        }
        assert_eq!(read("SELECT n AS other FROM t JOIN u"), Some("INTEGER"));
    }
}
