//! Which comparisons have a result, whatever is compared.

use std::ops::ControlFlow;

use sqlparser::ast::{BinaryOperator, Expr, Value};

use crate::resolve::{
    Resolver,
    expr::{
        constant_form::{is_literal, is_number},
        operand_class::OperandClass,
    },
    scope::Scope,
};
use crate::{
    catalog::{ClassSet, TypeClass},
    dialect::Dialect,
    syntax::each_expr,
};

impl<'a> Resolver<'a> {
    /// Whether a comparison of all sides has a result, whatever they are.
    pub(in crate::resolve) fn compares(&self, sides: &[&Expr], scope: &Scope<'a, '_>) -> bool {
        let read: Vec<_> = sides
            .iter()
            .map(|side| self.read_side(side, scope))
            .collect();
        self.sides_compare(&read) || self.comparable(sides, scope)
    }

    /// What is compared.
    pub(in crate::resolve) fn read_side<'e>(
        &self,
        expr: &'e Expr,
        scope: &Scope<'a, '_>,
    ) -> Side<'e> {
        if let Expr::Nested(inner) = expr {
            return self.read_side(inner, scope);
        }
        if let Expr::Tuple(_) = expr {
            return Side::Given(OperandClass::Unknown);
        }
        if self.catalog.dialect() != Dialect::Postgres {
            return Side::Computed(expr, self.plain_class(expr, scope));
        }
        let operand = self.known_operand(expr, scope);
        if is_literal(expr) || is_number(expr) {
            Side::Constant(operand)
        } else if self.may_conflict(expr) {
            Side::Given(OperandClass::Unknown)
        } else {
            Side::Given(operand)
        }
    }

    pub(in crate::resolve) fn sides_compare(&self, sides: &[Side<'_>]) -> bool {
        match self.catalog.dialect() {
            Dialect::Sqlite => true,
            Dialect::Mysql => {
                self.only_warns() && {
                    // It takes what a query gives for a constant, and fails where that is no point in time.
                    let is_queried = sides.iter().any(Side::is_query);
                    sides.iter().all(Side::is_one)
                        && (!is_queried || sides.iter().all(|side| side.is_timeless()))
                }
            }
            Dialect::Postgres => {
                let symbols = ["=", "<>", "<", "<=", ">", ">="];
                let is_own = symbols.iter().all(|symbol| self.is_engines_own(symbol));
                is_own
                    && sides.iter().enumerate().all(|(at, one)| {
                        let others = sides.iter().skip(at + 1);
                        let mut others = others;
                        others.all(|other| self.pair_compares(one, other))
                    })
            }
        }
    }

    /// Whether PostgreSQL compares two values, whatever they are. A decimal may not fit a floating-point number, and two texts may
    /// have collations that do not go together, which it finds only when it compares.
    fn pair_compares(&self, one: &Side<'_>, other: &Side<'_>) -> bool {
        let (Some((left, left_constant)), Some((right, right_constant))) =
            (one.classes(), other.classes())
        else {
            return one.is_untyped() || other.is_untyped();
        };
        let both = left.union(right);
        let numbers =
            ClassSet::from_list(&[TypeClass::Integer, TypeClass::Decimal, TypeClass::Number]);
        let texts = ClassSet::from_list(&[TypeClass::Text, TypeClass::Padded]);
        let moments = ClassSet::from_list(&[
            TypeClass::Date,
            TypeClass::Timestamp,
            TypeClass::TimestampTz,
        ]);
        let is_constant = left_constant || right_constant;
        if both.is_within(numbers) {
            let mixes = |one: ClassSet, other: ClassSet| {
                one.contains(TypeClass::Decimal) && other.contains(TypeClass::Number)
            };
            is_constant || !(mixes(left, right) || mixes(right, left))
        } else if both.is_within(texts) {
            is_constant || self.has_one_collation()
        } else {
            let is_known = !both.contains(TypeClass::Other) && !both.contains(TypeClass::Json);
            both.is_within(moments) || (both.is_single() && is_known)
        }
    }

    /// Whether all texts of the statement go together.
    pub(in crate::resolve) fn has_one_collation(&self) -> bool {
        self.catalog.has_plain_collations() && !self.failures.names_collation
    }

    /// Whether an expression may put texts together whose collations do not go together: PostgreSQL finds when it compares.
    pub(in crate::resolve) fn may_conflict(&self, expr: &Expr) -> bool {
        self.catalog.dialect() == Dialect::Postgres
            && !self.has_one_collation()
            && count_names(expr) > 1
    }

    /// Whether values that stand for each other are of types that go together: PostgreSQL makes floating-point numbers of decimals
    /// where it must, and one may not fit.
    pub(in crate::resolve) fn unifies(&self, values: &[&Expr], scope: &Scope<'a, '_>) -> bool {
        if self.catalog.dialect() != Dialect::Postgres {
            return true;
        }
        let values = values.iter().filter(|value| !is_literal(value));
        let all = values.fold(ClassSet::default(), |all, value| {
            all.union(self.known_operand(value, scope).classes())
        });
        !(all.contains(TypeClass::Decimal) && all.contains(TypeClass::Number))
    }

    /// Whether LIKE looks at any value of `expr`. Under a collation by which different bytes can be equal, PostgreSQL fails.
    pub(in crate::resolve) fn is_matched(&self, expr: &Expr, scope: &Scope<'a, '_>) -> bool {
        match self.catalog.dialect() {
            Dialect::Sqlite => true,
            Dialect::Mysql => self.only_warns() || self.is_text(expr, scope),
            Dialect::Postgres => {
                let is_own = ["~~", "!~~", "~~*", "!~~*"]
                    .iter()
                    .all(|symbol| self.is_engines_own(symbol));
                let is_plain = || match self.column_side(expr, scope) {
                    Some(column) => column.collation.is_empty(),
                    None => self.has_one_collation(),
                };
                is_own && is_plain() && self.known_operand(expr, scope).is_text()
            }
        }
    }

    /// Whether every engine takes the pattern of a LIKE. An escape character at its end fails, and so does a long one on SQLite.
    pub(in crate::resolve) fn is_plain_pattern(&self, pattern: &Expr) -> bool {
        let Expr::Value(value) = pattern else {
            return false;
        };
        match &value.value {
            Value::SingleQuotedString(text) => {
                let is_short =
                    self.catalog.dialect() != Dialect::Sqlite || text.len() <= SQLITE_PATTERN_BYTES;
                is_short && !text.contains('\\')
            }
            _ => false,
        }
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

    /// Whether `expr` is a column of points in time.
    pub(in crate::resolve) fn is_of_moments(&self, expr: &Expr, scope: &Scope<'a, '_>) -> bool {
        matches!(
            self.plain_class(expr, scope),
            Some(TypeClass::Timestamp | TypeClass::TimestampTz)
        )
    }

    /// Whether `expr` is a column of text, or a string.
    pub(in crate::resolve) fn is_text(&self, expr: &Expr, scope: &Scope<'a, '_>) -> bool {
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

/// A side of a comparison.
#[derive(Debug, Clone, Copy)]
pub(in crate::resolve) enum Side<'e> {
    /// A constant of the statement.
    Constant(OperandClass),
    /// A value that rows give, of a class.
    Given(OperandClass),
    /// An expression, and the class of the column that it is.
    Computed(&'e Expr, Option<TypeClass>),
}

impl Side<'_> {
    /// Its classes, where they are known, and whether it is a constant.
    fn classes(&self) -> Option<(ClassSet, bool)> {
        let (operand, is_constant) = match self {
            Self::Constant(operand) => (operand, true),
            Self::Given(operand) => (operand, false),
            Self::Computed(_, _) => return None,
        };
        match operand {
            OperandClass::Known(classes) => Some((*classes, is_constant)),
            OperandClass::Unknown | OperandClass::Untyped => None,
        }
    }

    /// Whether it is a literal that gets the type of what it is compared with.
    fn is_untyped(&self) -> bool {
        match self {
            Self::Constant(operand) => *operand == OperandClass::Untyped,
            Self::Given(_) | Self::Computed(_, _) => false,
        }
    }

    /// Whether it is what a query gives.
    fn is_query(&self) -> bool {
        match self {
            Self::Computed(expr, _) => matches!(expr, Expr::Subquery(_)),
            Self::Given(_) | Self::Constant(_) => false,
        }
    }

    /// Whether it is one value, and no row of several.
    pub(in crate::resolve) fn is_one(&self) -> bool {
        match self {
            Self::Computed(_, _) | Self::Constant(_) => true,
            Self::Given(_) => false,
        }
    }

    /// Whether it is what a query gives, or a column of no point in time.
    fn is_timeless(&self) -> bool {
        let class = match self {
            Self::Computed(Expr::Subquery(_), _) => return true,
            Self::Computed(_, class) => *class,
            Self::Given(_) | Self::Constant(_) => None,
        };
        match class {
            Some(
                TypeClass::Integer
                | TypeClass::Number
                | TypeClass::Decimal
                | TypeClass::Boolean
                | TypeClass::Text
                | TypeClass::Padded
                | TypeClass::Enum
                | TypeClass::Uuid,
            ) => true,
            Some(
                TypeClass::Blob
                | TypeClass::Date
                | TypeClass::Time
                | TypeClass::Timestamp
                | TypeClass::TimestampTz
                | TypeClass::Interval
                | TypeClass::Json
                | TypeClass::Network
                | TypeClass::Other,
            )
            | None => false,
        }
    }
}

/// The longest pattern of a LIKE that SQLite takes, in bytes: what the adapter sets it to.
const SQLITE_PATTERN_BYTES: usize = 100;

/// How often columns are named in `expr`, and whatever a query in it names.
fn count_names(expr: &Expr) -> usize {
    let mut names = 0usize;
    let _ = each_expr(expr, &mut |expr| {
        if let Expr::Identifier(_) | Expr::CompoundIdentifier(_) = expr {
            names += 1;
        }
        ControlFlow::Continue(())
    });
    names
}
