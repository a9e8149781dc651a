//! Values that are made of constants and parameters alone, by what gives the same each time: they are worked out before a
//! change as the change will.

use std::{collections::BTreeMap, ops::ControlFlow};

use sqlparser::ast::{
    BinaryOperator, CaseWhen, CastKind, Expr, Function, ObjectNamePart, Parens, Query, SetExpr,
    UnaryOperator, Values,
};

use crate::rewrite::{
    ast,
    change::{new_row::fold::Constant, precheck::resolution},
    output::parameters,
};
use crate::{
    catalog::{Catalog, Column, TypeClass, functions::Safety},
    dialect::Dialect,
    limits::Limits,
    policy::obligation::Literal,
    resolve::{Visible, is_default},
    syntax::{Role, TreeVisitor, key, read_plain_arguments, read_plain_call, role, visit_tree},
};

/// Whether a value is a literal or a parameter.
pub(in crate::rewrite) fn is_written(value: &Expr) -> bool {
    match value {
        Expr::Value(_) => true,
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => matches!(**expr, Expr::Value(_)),
        _ => false,
    }
}

/// Whether `value` is the same wherever and however often it is worked out. `uses` says how often each placeholder stands in
/// the whole statement.
pub(in crate::rewrite) fn is_settled(
    value: &Expr,
    uses: &BTreeMap<String, usize>,
    catalog: &Catalog,
    visible: &dyn Visible,
    limits: &Limits,
) -> bool {
    let dialect = catalog.dialect();
    if is_default(value) || visit_tree(value, &mut Determinism { dialect }).is_break() {
        return false;
    }
    // PostgreSQL gives a parameter the type of its first use, which may stand elsewhere.
    let is_alone = parameters::uses(value)
        .iter()
        .all(|(text, count)| uses.get(text) == Some(count));
    if dialect == Dialect::Postgres && !is_alone {
        return false;
    }
    let query = Box::new(ast::query(SetExpr::Values(Values {
        explicit_row: false,
        value_keyword: false,
        rows: vec![Parens::with_empty_span(vec![value.clone()])],
    })));
    let Ok(access) = resolution::resolve_reads(&query.to_string(), query, catalog, visible, limits)
    else {
        return false;
    };
    let is_pure = |uid: &str| {
        let known = catalog.function(uid);
        known.is_some_and(|def| {
            def.safety == Safety::Pure && (def.kinds.scalar || def.kinds.niladic)
        })
    };
    access.relations().next().is_none()
        && access.system_relations().next().is_none()
        && access.columns().next().is_none()
        && access.functions().all(is_pure)
}

/// Stops at what is no part of a value by itself.
struct Determinism {
    dialect: Dialect,
}

impl TreeVisitor for Determinism {
    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        ControlFlow::Break(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match role(expr) {
            // It goes up to where the value is compared with a column, which has one of its own.
            Role::Collation if self.dialect == Dialect::Sqlite => ControlFlow::Break(()),
            // What names columns or rows does not resolve without a table.
            Role::Collation
            | Role::Name(_)
            | Role::Path(_)
            | Role::WholeRow(_)
            | Role::Star
            | Role::Columns(_)
            | Role::Value(_)
            | Role::Access
            | Role::Call(_)
            | Role::Operator(_)
            | Role::Other => ControlFlow::Continue(()),
        }
    }
}

/// Whether SQLite certainly stores `value` in `column` as it is, as a number, a text or NULL.
/// `constant` is what a literal or parameter is stored as.
pub(in crate::rewrite) fn is_stored_unchanged(
    value: &Expr,
    column: &Column,
    constant: &impl Fn(&Expr) -> Option<Constant>,
) -> bool {
    if constant(value).is_some() {
        return true;
    }
    let is_unchanged = |value: &Expr| is_stored_unchanged(value, column, constant);
    match value {
        Expr::Nested(inner) => is_unchanged(inner),
        Expr::Cast {
            kind: CastKind::Cast,
            expr: _,
            data_type,
            format: None,
        } => {
            matches!(column.class, TypeClass::Integer | TypeClass::Text)
                && TypeClass::from_name(Dialect::Sqlite, &data_type.to_string()) == column.class
        }
        Expr::Case {
            case_token: _,
            end_token: _,
            operand: _,
            conditions,
            else_result,
        } => {
            let results = conditions.iter().map(
                |CaseWhen {
                     condition: _,
                     result,
                 }| result,
            );
            results.chain(else_result.as_deref()).all(is_unchanged)
        }
        Expr::BinaryOp {
            left: _,
            op: BinaryOperator::StringConcat,
            right: _,
        } => column.class == TypeClass::Text,
        Expr::BinaryOp {
            left: _,
            op: _,
            right: _,
        }
        | Expr::UnaryOp { op: _, expr: _ } => {
            column.class == TypeClass::Integer && fold_integer(value, constant).is_some()
        }
        Expr::Trim {
            trim_where: _,
            trim_what: _,
            expr: _,
            trim_characters: _,
        } => column.class == TypeClass::Text,
        Expr::Substring {
            expr,
            substring_from: _,
            substring_for: _,
            special: _,
            shorthand: _,
        } => column.class == TypeClass::Text && is_unchanged(expr),
        Expr::Function(function) => match call_parts(function) {
            Some((name, args)) => match (name.as_str(), column.class) {
                ("coalesce" | "ifnull", _) => args.into_iter().all(is_unchanged),
                (
                    "char" | "concat" | "concat_ws" | "format" | "hex" | "lower" | "ltrim"
                    | "printf" | "quote" | "rtrim" | "trim" | "typeof" | "upper",
                    TypeClass::Text,
                )
                | ("instr" | "length" | "octet_length" | "sign" | "unicode", TypeClass::Integer) => {
                    true
                }
                _ => false,
            },
            None => false,
        },
        _ => false,
    }
}

/// The number that sums and products of whole numbers are, unless SQLite would go on with floating-point numbers.
fn fold_integer(value: &Expr, constant: &impl Fn(&Expr) -> Option<Constant>) -> Option<i64> {
    match value {
        Expr::Nested(inner)
        | Expr::UnaryOp {
            op: UnaryOperator::Plus,
            expr: inner,
        } => fold_integer(inner, constant),
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: inner,
        } => fold_integer(inner, constant)?.checked_neg(),
        Expr::BinaryOp { left, op, right } => {
            let (left, right) = (
                fold_integer(left, constant)?,
                fold_integer(right, constant)?,
            );
            match op {
                BinaryOperator::Plus => left.checked_add(right),
                BinaryOperator::Minus => left.checked_sub(right),
                BinaryOperator::Multiply => left.checked_mul(right),
                BinaryOperator::Divide => left.checked_div(right),
                BinaryOperator::Modulo => left.checked_rem(right),
                _ => None,
            }
        }
        other => match constant(other)? {
            Constant::Value(Literal::Integer(value)) => Some(value),
            Constant::Value(
                Literal::Boolean(_) | Literal::Decimal(_) | Literal::Datetime(_) | Literal::Text(_),
            )
            | Constant::Null => None,
        },
    }
}

/// The number that sums and products of whole numbers are, where MySQL computes it in whole numbers too.
pub(in crate::rewrite) fn fold_integer_product(
    value: &Expr,
    constant: &impl Fn(&Expr) -> Option<Constant>,
) -> Option<i64> {
    match value {
        Expr::Nested(inner) => fold_integer_product(inner, constant),
        Expr::BinaryOp { left, op, right } => {
            let (left, right) = (
                fold_integer_product(left, constant)?,
                fold_integer_product(right, constant)?,
            );
            match op {
                BinaryOperator::Plus => left.checked_add(right),
                BinaryOperator::Minus => left.checked_sub(right),
                BinaryOperator::Multiply => left.checked_mul(right),
                _ => None,
            }
        }
        other => match constant(other)? {
            Constant::Value(Literal::Integer(value)) => Some(value),
            Constant::Value(
                Literal::Boolean(_) | Literal::Decimal(_) | Literal::Datetime(_) | Literal::Text(_),
            )
            | Constant::Null => None,
        },
    }
}

/// The column, by its key, whose proposed value MySQL's `VALUES(column)` is.
pub(in crate::rewrite) fn values_column(value: &Expr) -> Option<String> {
    let Expr::Function(function) = value else {
        return None;
    };
    let (name, args) = call_parts(function)?;
    match (name.as_str(), args.as_slice()) {
        ("values", [Expr::Identifier(column)]) => Some(key(column, Dialect::Mysql).into_owned()),
        _ => None,
    }
}

/// Name and arguments of a plain call.
fn call_parts(function: &Function) -> Option<(String, Vec<&Expr>)> {
    let (name, args) = read_plain_call(function)?;
    let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else {
        return None;
    };
    let name = key(name, Dialect::Sqlite).into_owned();
    Some((name, read_plain_arguments(args)?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "tests")]

    use sqlparser::{
        dialect::{GenericDialect, MySqlDialect},
        parser::Parser,
    };

    use super::*;

    fn parse(text: &str) -> Expr {
        Parser::new(&GenericDialect {})
            .try_with_sql(text)
            .and_then(|mut parser| parser.parse_expr())
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn a_value_is_written_where_it_is_a_literal_or_a_parameter() {
        for (text, expected) in [
            ("1", true),
            ("'x'", true),
            ("NULL", true),
            ("?", true),
            ("-1", true),
            ("+1", false),
            ("-a", false),
            ("- -1", false),
            ("(1)", false),
            ("a", false),
            ("1 + 1", false),
        ] {
            assert_eq!(is_written(&parse(text)), expected, "{text}");
        }
    }

    #[test]
    fn a_proposed_value_is_named_by_its_column() {
        for (text, expected) in [
            ("VALUES(a)", Some("a")),
            ("values(`Name`)", Some("name")),
            ("VALUES(a, b)", None),
            ("VALUES(1)", None),
            ("lower(a)", None),
            ("a", None),
            ("1", None),
        ] {
            let parsed = Parser::new(&MySqlDialect {})
                .try_with_sql(text)
                .and_then(|mut parser| parser.parse_expr());
            let value = parsed.unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(values_column(&value).as_deref(), expected, "{text}");
        }
    }
}
