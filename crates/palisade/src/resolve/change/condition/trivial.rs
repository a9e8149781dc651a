//! Shapes of expressions in a condition.

use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Query, Select, SelectItem, SetExpr, UnaryOperator, Value,
};

/// What is left of a side without a constant that is added to it.
pub(super) fn essence(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::Nested(inner)
        | Expr::UnaryOp {
            op: UnaryOperator::Plus,
            expr: inner,
        } => Some(inner),
        Expr::BinaryOp { left, op, right } => match op {
            BinaryOperator::Plus | BinaryOperator::StringConcat if is_constant(left) => Some(right),
            BinaryOperator::Plus | BinaryOperator::Minus | BinaryOperator::StringConcat
                if is_constant(right) =>
            {
                Some(left)
            }
            BinaryOperator::Multiply | BinaryOperator::Divide if is_number(right, "1") => {
                Some(left)
            }
            BinaryOperator::Multiply if is_number(left, "1") => Some(right),
            _ => None,
        },
        _ => None,
    }
}

/// The parts that `op` puts together.
pub(super) fn collect<'e>(expr: &'e Expr, op: &BinaryOperator, out: &mut Vec<&'e Expr>) {
    match expr {
        Expr::Nested(inner) => collect(inner, op, out),
        Expr::BinaryOp {
            left,
            op: own,
            right,
        } if own == op => {
            collect(left, op, out);
            collect(right, op, out);
        }
        other => out.push(other),
    }
}

pub(super) fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => bare(inner),
        other => other,
    }
}

pub(super) fn is_null(expr: &Expr) -> bool {
    match bare(expr) {
        Expr::Value(value) => matches!(value.value, Value::Null),
        Expr::Cast {
            kind: _,
            expr,
            data_type: _,
            format: _,
        } => is_null(expr),
        _ => false,
    }
}

pub(super) fn is_constant(expr: &Expr) -> bool {
    match bare(expr) {
        Expr::Value(_) | Expr::TypedString(_) => true,
        Expr::UnaryOp { op: _, expr }
        | Expr::Cast {
            kind: _,
            expr,
            data_type: _,
            format: _,
        } => is_constant(expr),
        _ => false,
    }
}

pub(super) fn is_number(expr: &Expr, number: &str) -> bool {
    matches!(bare(expr), Expr::Value(value) if matches!(&value.value, Value::Number(text, _) if text == number))
}

pub(super) fn text(expr: &Expr) -> Option<&str> {
    match bare(expr) {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn is_only(text: &str, sign: char) -> bool {
    !text.is_empty() && text.chars().all(|c| c == sign)
}

pub(super) fn is_any_regex(text: &str) -> bool {
    let inner = text.strip_prefix('^').unwrap_or(text);
    let inner = inner.strip_suffix('$').unwrap_or(inner);
    inner == ".*" || (inner.is_empty() && text.len() < 2)
}

pub(super) fn matches_text(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::Match
            | BinaryOperator::Regexp
            | BinaryOperator::Glob
            | BinaryOperator::PGRegexMatch
            | BinaryOperator::PGRegexIMatch
            | BinaryOperator::PGRegexNotMatch
            | BinaryOperator::PGRegexNotIMatch
            | BinaryOperator::PGLikeMatch
            | BinaryOperator::PGILikeMatch
            | BinaryOperator::PGNotLikeMatch
            | BinaryOperator::PGNotILikeMatch
    )
}

/// Whether every text is like this.
pub(super) fn is_any_pattern(op: &BinaryOperator, pattern: &Expr) -> bool {
    let Some(text) = text(pattern) else {
        return false;
    };
    match op {
        BinaryOperator::Glob => is_only(text, '*'),
        BinaryOperator::PGLikeMatch
        | BinaryOperator::PGILikeMatch
        | BinaryOperator::PGNotLikeMatch
        | BinaryOperator::PGNotILikeMatch => is_only(text, '%'),
        BinaryOperator::Match
        | BinaryOperator::Regexp
        | BinaryOperator::PGRegexMatch
        | BinaryOperator::PGRegexIMatch
        | BinaryOperator::PGRegexNotMatch
        | BinaryOperator::PGRegexNotIMatch => is_any_regex(text),
        _ => false,
    }
}

/// The arguments of a plain call.
pub(super) fn arguments(function: &Function) -> Option<Vec<&Expr>> {
    let FunctionArguments::List(FunctionArgumentList {
        duplicate_treatment: _,
        args,
        clauses,
    }) = &function.args
    else {
        return None;
    };
    if !clauses.is_empty() || function.over.is_some() || function.filter.is_some() {
        return None;
    }
    args.iter()
        .map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
            _ => None,
        })
        .collect()
}

/// The one value that a plain SELECT gives.
pub(super) fn only_item(query: &Query) -> Option<(&Select, &Expr)> {
    match &*query.body {
        SetExpr::Query(query) => only_item(query),
        SetExpr::Select(select) => match select.projection.as_slice() {
            [
                SelectItem::UnnamedExpr(item)
                | SelectItem::ExprWithAlias {
                    expr: item,
                    alias: _,
                },
            ] => Some((select, item)),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "tests")]

    use sqlparser::{dialect::GenericDialect, parser::Parser};

    use super::*;

    fn parse(text: &str) -> Expr {
        Parser::new(&GenericDialect {})
            .try_with_sql(text)
            .and_then(|mut parser| parser.parse_expr())
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn check(is: fn(&Expr) -> bool, cases: &[(&str, bool)]) {
        for (text, expected) in cases {
            assert_eq!(is(&parse(text)), *expected, "{text}");
        }
    }

    #[test]
    fn what_is_left_of_a_side_is_without_what_changes_no_order() {
        for (text, expected) in [
            ("(a)", Some("a")),
            ("+a", Some("a")),
            ("-a", None),
            ("a + 1", Some("a")),
            ("1 + a", Some("a")),
            ("a + b", None),
            ("a - 1", Some("a")),
            ("1 - a", None),
            ("a || 'x'", Some("a")),
            ("'x' || a", Some("a")),
            ("a * 1", Some("a")),
            ("1 * a", Some("a")),
            ("a * 2", None),
            ("2 * a", None),
            ("a / 1", Some("a")),
            ("1 / a", None),
            ("a % 1", None),
            ("a", None),
        ] {
            let expr = parse(text);
            let found = essence(&expr).map(ToString::to_string);
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn parts_are_collected_through_parentheses_of_one_operator() {
        for (text, op, expected) in [
            ("a AND (b AND c)", BinaryOperator::And, "a, b, c"),
            ("a AND (b OR c)", BinaryOperator::And, "a, b OR c"),
            ("a OR b AND c", BinaryOperator::Or, "a, b AND c"),
            ("a OR b", BinaryOperator::And, "a OR b"),
        ] {
            let (expr, mut parts) = (parse(text), Vec::new());
            collect(&expr, &op, &mut parts);
            let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
            assert_eq!(parts.join(", "), expected, "{text}");
        }
    }

    #[test]
    fn constants_and_nulls_are_told_apart_from_columns() {
        check(
            is_null,
            &[
                ("NULL", true),
                ("(NULL)", true),
                ("CAST(NULL AS int)", true),
                ("CAST(a AS int)", false),
                ("0", false),
                ("a", false),
            ],
        );
        check(
            is_constant,
            &[
                ("1", true),
                ("('x')", true),
                ("-1", true),
                ("date '2000-01-01'", true),
                ("CAST(1 AS text)", true),
                ("CAST(a AS text)", false),
                ("-a", false),
                ("a", false),
                ("1 + 1", false),
            ],
        );
        for (text, expected) in [("1", true), ("(1)", true), ("2", false), ("'1'", false)] {
            assert_eq!(is_number(&parse(text), "1"), expected, "{text}");
        }
        for (expr, expected) in [
            ("'x'", Some("x")),
            ("('x')", Some("x")),
            ("1", None),
            ("x", None),
        ] {
            assert_eq!(text(&parse(expr)), expected, "{expr}");
        }
    }

    #[test]
    fn patterns_that_every_text_is_like_are_known() {
        use BinaryOperator as Op;
        for (op, pattern, expected) in [
            (Op::Glob, "'*'", true),
            (Op::Glob, "'**'", true),
            (Op::Glob, "'%'", false),
            (Op::Glob, "''", false),
            (Op::Glob, "'*a'", false),
            (Op::PGLikeMatch, "'%'", true),
            (Op::PGILikeMatch, "'%%'", true),
            (Op::PGNotLikeMatch, "'%'", true),
            (Op::PGNotILikeMatch, "'%'", true),
            (Op::PGLikeMatch, "'*'", false),
            (Op::Regexp, "'.*'", true),
            (Op::Match, "'^.*$'", true),
            (Op::PGRegexMatch, "'^'", true),
            (Op::PGRegexIMatch, "'$'", true),
            (Op::PGRegexNotMatch, "''", true),
            (Op::PGRegexNotIMatch, "'^.*'", true),
            (Op::Regexp, "'^$'", false),
            (Op::Regexp, "'.'", false),
            (Op::Regexp, "'a.*'", false),
            (Op::Eq, "'%'", false),
            (Op::Glob, "a", false),
        ] {
            assert_eq!(
                is_any_pattern(&op, &parse(pattern)),
                expected,
                "{op} {pattern}"
            );
            assert_eq!(matches_text(&op), op != Op::Eq, "{op}");
        }
    }

    #[test]
    fn arguments_are_those_of_a_plain_call() {
        for (text, expected) in [
            ("f(a, 1)", Some(2)),
            ("f()", Some(0)),
            ("f(*)", None),
            ("f(a) OVER ()", None),
            ("f(a) FILTER (WHERE b)", None),
            ("ARRAY(SELECT 1)", None),
            ("f(a ORDER BY b)", None),
        ] {
            let Expr::Function(call) = parse(text) else {
                panic!("{text}")
            };
            assert_eq!(arguments(&call).map(|args| args.len()), expected, "{text}");
        }
    }

    #[test]
    fn a_query_has_one_item_or_none_that_is_known() {
        for (text, expected) in [
            ("SELECT a", Some("a")),
            ("SELECT a AS b", Some("a")),
            ("(SELECT a)", Some("a")),
            ("SELECT a, b", None),
            ("SELECT *", None),
            ("SELECT a UNION SELECT b", None),
            ("VALUES (1)", None),
        ] {
            let query = Parser::new(&GenericDialect {})
                .try_with_sql(text)
                .and_then(|mut parser| parser.parse_query())
                .unwrap_or_else(|error| panic!("{text}: {error}"));
            let found = only_item(&query).map(|(_, item)| item.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }
}
