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
