//! Which expressions have a value for every row, as far as the plan of a statement goes.

use sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, ExtractSyntax, UnaryOperator, Value,
};

use crate::resolve::{
    Resolver,
    expr::constant_form::{is_field_of_days, is_literal, is_number},
    scope::Scope,
};
use crate::{
    catalog::{ClassSet, TypeClass},
    dialect::Dialect,
};

impl<'a> Resolver<'a> {
    /// Whether `expr` has a value wherever what it is made from has.
    pub(in crate::resolve) fn is_total(&self, expr: &Expr, scope: &Scope<'a, '_>) -> bool {
        let dialect = self.catalog.dialect();
        if self.never_fails(expr, scope) {
            return true;
        }
        let is_plain = dialect != Dialect::Postgres || is_of_one_text(expr);
        if !is_plain && !self.has_known_collation(expr, scope) {
            return false;
        }
        match expr {
            Expr::Identifier(_)
            | Expr::CompoundIdentifier(_)
            | Expr::Value(_)
            | Expr::Nested(_)
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsTrue(_)
            | Expr::IsNotTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsNotFalse(_)
            | Expr::Exists {
                subquery: _,
                negated: _,
            } => true,
            Expr::Case {
                case_token: _,
                end_token: _,
                operand,
                conditions,
                else_result,
            } => {
                let results = conditions.iter().map(|when| &when.result);
                let chooses = operand.as_deref().is_none_or(|operand| {
                    let whens = conditions.iter().map(|when| &when.condition);
                    let sides: Vec<_> = std::iter::once(operand).chain(whens).collect();
                    self.compares(&sides, scope)
                });
                chooses && self.become_one_type(results.chain(else_result.as_deref()), scope)
            }
            Expr::UnaryOp { op, expr: _ } => match op {
                UnaryOperator::Not | UnaryOperator::Plus => true,
                UnaryOperator::Minus => dialect == Dialect::Sqlite || is_number(expr),
                _ => false,
            },
            Expr::BinaryOp { left, op, right } => match op {
                BinaryOperator::And | BinaryOperator::Or | BinaryOperator::Xor => true,
                BinaryOperator::Eq
                | BinaryOperator::NotEq
                | BinaryOperator::Lt
                | BinaryOperator::LtEq
                | BinaryOperator::Gt
                | BinaryOperator::GtEq => self.compares(&[&**left, &**right], scope),
                // SQLite makes a number of anything, NULL of a division by zero, and floats of what is too large.
                BinaryOperator::Plus | BinaryOperator::Minus | BinaryOperator::Multiply => {
                    dialect == Dialect::Sqlite
                }
                // MySQL gives NULL for a division by zero where nothing is stored, and fails where a quotient is too large.
                BinaryOperator::Divide => dialect == Dialect::Sqlite,
                BinaryOperator::Modulo => dialect != Dialect::Postgres,
                BinaryOperator::StringConcat => {
                    dialect != Dialect::Postgres
                        || (self.is_text(left, scope) && self.is_text(right, scope))
                }
                _ => false,
            },
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
                self.compares(&[&**left, &**right], scope)
            }
            Expr::Between {
                expr,
                negated: _,
                low,
                high,
            } => self.compares(&[&**expr, &**low, &**high], scope),
            Expr::InList {
                expr,
                list,
                negated: _,
            } => {
                let sides: Vec<_> = std::iter::once(&**expr).chain(list).collect();
                self.compares(&sides, scope)
            }
            Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr: _,
                data_type,
                format: None,
            } => {
                let is_text = matches!(
                    data_type,
                    DataType::Text | DataType::Varchar(None) | DataType::Char(None)
                );
                is_text || dialect == Dialect::Sqlite
            }
            Expr::Extract {
                field,
                syntax: ExtractSyntax::From,
                expr: _,
            } => dialect == Dialect::Mysql && is_field_of_days(field),
            Expr::Substring {
                expr: _,
                substring_from: _,
                substring_for: _,
                special: _,
                shorthand: _,
            }
            | Expr::Trim {
                trim_where: _,
                trim_what: _,
                expr: _,
                trim_characters: _,
            } => dialect != Dialect::Postgres,
            Expr::Function(call) => self.is_total_call(call, scope),
            _ => false,
        }
    }

    /// Whether values become of one type, whatever they are: PostgreSQL casts them, and not every decimal is a floating-point number,
    /// nor every day a point in time.
    pub(in crate::resolve) fn become_one_type<'e>(
        &self,
        values: impl Iterator<Item = &'e Expr>,
        scope: &Scope<'a, '_>,
    ) -> bool {
        if self.catalog.dialect() != Dialect::Postgres {
            return true;
        }
        // A literal is cast when the plan is made.
        let classes: Vec<_> = values
            .filter(|value| !is_literal(value) && !is_number(value))
            .map(|value| self.classes_of(value, scope))
            .collect();
        let all = classes
            .iter()
            .fold(ClassSet::default(), |all, one| all.union(*one));
        classes.len() < 2 || !all.is_rounded_as_one()
    }

    /// Whether a comparison of all sides has a result, whatever they are. PostgreSQL finds only when it compares that the
    /// collations of two texts differ.
    fn compares(&self, sides: &[&Expr], scope: &Scope<'a, '_>) -> bool {
        let dialect = self.catalog.dialect();
        if dialect == Dialect::Sqlite {
            return true;
        }
        let texts = || {
            let computed = sides.iter().filter(|side| !is_literal(side)).count();
            (dialect == Dialect::Mysql || computed <= 1)
                && sides.iter().all(|side| self.is_text(side, scope))
        };
        texts() || self.comparable(sides, scope)
    }

    /// The class of the unmasked column that `expr` is.
    pub(in crate::resolve) fn plain_class(
        &self,
        expr: &Expr,
        scope: &Scope<'a, '_>,
    ) -> Option<TypeClass> {
        self.column_side(expr, scope).map(|column| column.class)
    }

    /// Whether `expr` is a column of days or of points in time.
    pub(in crate::resolve) fn is_of_days(&self, expr: &Expr, scope: &Scope<'a, '_>) -> bool {
        matches!(
            self.plain_class(expr, scope),
            Some(TypeClass::Date | TypeClass::Timestamp | TypeClass::TimestampTz)
        )
    }

    /// Whether `expr` is a column of text, or a string.
    fn is_text(&self, expr: &Expr, scope: &Scope<'a, '_>) -> bool {
        match expr {
            Expr::Nested(inner) => self.is_text(inner, scope),
            Expr::Value(value) => matches!(value.value, Value::SingleQuotedString(_)),
            Expr::BinaryOp {
                left,
                op: BinaryOperator::StringConcat,
                right,
            } => self.is_text(left, scope) && self.is_text(right, scope),
            Expr::Function(call) => {
                let name = call.name.0.last().and_then(|part| part.as_ident());
                name.is_some_and(|name| {
                    matches!(&*self.key(name), "lower" | "upper" | "btrim" | "concat")
                }) && self.is_total_call(call, scope)
            }
            other => self.plain_class(other, scope) == Some(TypeClass::Text),
        }
    }
}

/// Whether no two texts meet in `expr` itself. Where they do, PostgreSQL finds that their collations differ.
fn is_of_one_text(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::BinaryOp {
            left: _,
            op: BinaryOperator::And | BinaryOperator::Or,
            right: _,
        } | Expr::UnaryOp { op: _, expr: _ }
            | Expr::Identifier(_)
            | Expr::CompoundIdentifier(_)
            | Expr::Value(_)
            | Expr::Nested(_)
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
    )
}
