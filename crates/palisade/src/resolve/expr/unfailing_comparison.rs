//! Which comparisons have a result, whatever is stored.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Query, Value};

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
    limits::SQLITE_PATTERN_BYTES,
    syntax::each_expr,
};

impl<'a> Resolver<'a> {
    /// Whether a comparison of all sides has a result, whatever they are.
    pub(in crate::resolve) fn compares_safely(
        &self,
        sides: &[&Expr],
        scope: &Scope<'a, '_>,
    ) -> bool {
        let read: Vec<_> = sides
            .iter()
            .map(|side| self.read_side(side, scope))
            .collect();
        self.sides_compare(&read)
            || self.comparable(sides, scope)
            || self.rows_compare(sides, scope)
    }

    /// The same of a list, whose values PostgreSQL makes of one type.
    pub(in crate::resolve) fn is_listed_safely(
        &self,
        expr: &Expr,
        list: &[Expr],
        scope: &Scope<'a, '_>,
    ) -> bool {
        let sides: Vec<_> = std::iter::once(expr).chain(list).collect();
        let is_of_one_class = self.catalog.dialect() != Dialect::Postgres || {
            let all = sides.iter().fold(ClassSet::default(), |all, side| {
                all.union(self.known_operand(side, scope).classes())
            });
            !all.mixes_moments()
        };
        is_of_one_class && self.compares_safely(&sides, scope)
    }

    /// Whether all sides are rows of so many values, which compare one by one.
    fn rows_compare(&self, sides: &[&Expr], scope: &Scope<'a, '_>) -> bool {
        let rows: Option<Vec<&[Expr]>> = sides
            .iter()
            .map(|side| match side {
                Expr::Tuple(values) => Some(values.as_slice()),
                _ => None,
            })
            .collect();
        let Some(rows) = rows else {
            return false;
        };
        let width = rows.first().map_or(0, |row| row.len());
        rows.iter().all(|row| row.len() == width)
            && (0..width).all(|at| {
                let values: Vec<&Expr> = rows.iter().filter_map(|row| row.get(at)).collect();
                self.compares_safely(&values, scope)
            })
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
            return Side::Unknown;
        }
        if self.catalog.dialect() != Dialect::Postgres {
            return Side::Computed(expr, self.plain_class(expr, scope));
        }
        if let Expr::Subquery(query) = expr {
            return self.subquery_side(query);
        }
        let operand = self.known_operand(expr, scope);
        if is_literal(expr) || is_number(expr) {
            Side::Constant(operand)
        } else if operand.may_be_text() && !self.has_known_collation(expr, scope) {
            Side::Unknown
        } else {
            Side::Given(operand)
        }
    }

    /// What a query gives.
    pub(in crate::resolve) fn subquery_side(&self, query: &Query) -> Side<'static> {
        let operand = self.subquery_operand(query);
        match operand.may_be_text() && !self.has_one_collation() {
            true => Side::Unknown,
            false => Side::Given(operand),
        }
    }

    pub(in crate::resolve) fn sides_compare(&self, sides: &[Side<'_>]) -> bool {
        match self.catalog.dialect() {
            Dialect::Sqlite => true,
            Dialect::Mysql => {
                // It takes what a query gives for a constant, and fails where that is no point in time.
                let is_queried = sides.iter().any(Side::is_query);
                sides.iter().all(Side::is_one)
                    && (!is_queried || sides.iter().all(|side| side.is_timeless()))
            }
            Dialect::Postgres => {
                // Kinds are few however many sides there are; two of one kind compare as any others of it do.
                let mut kinds: Vec<&Side<'_>> = Vec::new();
                sides.iter().all(|side| {
                    let alike = kinds.iter().filter(|kind| side.is_of_kind(kind)).count();
                    let compares = alike > 1
                        || kinds.iter().all(|kind| {
                            self.pair_compares(kind, side)
                                && self.compares_by_engines_own(kind, side)
                        });
                    if alike < 2 {
                        kinds.push(side);
                    }
                    compares
                })
            }
        }
    }

    /// Whether PostgreSQL compares two values by its own operators.
    fn compares_by_engines_own(&self, one: &Side<'_>, other: &Side<'_>) -> bool {
        let mut symbols = ["=", "<>", "<", "<=", ">", ">="].into_iter();
        symbols.all(|symbol| self.chooses_engines_own(symbol, one.operand(), other.operand()))
    }

    /// Whether PostgreSQL compares two values, whatever they are. A decimal may not fit a floating-point number, and two texts may
    /// have collations that do not go together, which it finds only when it compares.
    fn pair_compares(&self, one: &Side<'_>, other: &Side<'_>) -> bool {
        // A literal is read as what it is compared with.
        if one.is_untyped() || other.is_untyped() {
            return one.is_known() && other.is_known();
        }
        let (Some((left, left_constant)), Some((right, right_constant))) =
            (one.classes(), other.classes())
        else {
            return false;
        };
        let both = left.union(right);
        let numbers =
            ClassSet::from_list(&[TypeClass::Integer, TypeClass::Decimal, TypeClass::Number]);
        let texts = ClassSet::from_list(&[TypeClass::Text, TypeClass::Padded]);
        let is_constant = left_constant || right_constant;
        if both.is_within(numbers) {
            let mixes = |one: ClassSet, other: ClassSet| {
                one.contains(TypeClass::Decimal) && other.contains(TypeClass::Number)
            };
            is_constant || !(mixes(left, right) || mixes(right, left))
        } else if both.is_within(texts) {
            is_constant || self.has_one_collation()
        } else {
            let is_own = !both.contains(TypeClass::Other) && !both.contains(TypeClass::Json);
            both.is_of_moments() || (both.is_single() && is_own)
        }
    }

    /// Whether all texts of the statement go together.
    pub(in crate::resolve) fn has_one_collation(&self) -> bool {
        self.catalog.has_plain_collations() && !self.failures.names_collation
    }

    /// Whether an expression has one collation, which is known: that of one column, or any where all are the same.
    pub(in crate::resolve) fn has_known_collation(
        &self,
        expr: &Expr,
        scope: &Scope<'a, '_>,
    ) -> bool {
        if self.has_one_collation() {
            return true;
        }
        let (mut columns, mut others) = (0usize, 0usize);
        let _ = each_expr(expr, &mut |part| {
            if let Expr::Identifier(_) | Expr::CompoundIdentifier(_) = part {
                match self.plain_column(part, scope) {
                    // What else a text meets is cast, and has no collation of its own.
                    Some(column) => {
                        let is_text = matches!(
                            column.class,
                            TypeClass::Text | TypeClass::Padded | TypeClass::Other
                        );
                        columns += usize::from(is_text);
                    }
                    None => others += 1,
                }
            }
            ControlFlow::Continue(())
        });
        columns <= 1 && others == 0
    }

    /// Whether LIKE looks at any value of `expr`. Under a collation by which different bytes can be equal, PostgreSQL fails.
    pub(in crate::resolve) fn is_matched(&self, expr: &Expr, scope: &Scope<'a, '_>) -> bool {
        match self.catalog.dialect() {
            Dialect::Sqlite => true,
            Dialect::Mysql => true,
            Dialect::Postgres => {
                let text = self.known_operand(expr, scope);
                let mut symbols = ["~~", "!~~", "~~*", "!~~*", "~", "!~", "~*", "!~*"].into_iter();
                let is_own = symbols
                    .all(|symbol| self.chooses_engines_own(symbol, text, OperandClass::Untyped));
                let is_plain = || match self.column_side(expr, scope) {
                    Some(column) => column.collation.is_empty(),
                    None => self.has_one_collation(),
                };
                is_own && is_plain() && text.is_text()
            }
        }
    }

    /// Whether an engine takes the pattern of a LIKE, whatever it is compared with. An escape character at its end fails, and so does a
    /// long one on SQLite. PostgreSQL and MySQL go one call deeper for each `%`, until there is no room.
    pub(in crate::resolve) fn is_plain_pattern(&self, pattern: &Expr) -> bool {
        let Expr::Value(value) = pattern else {
            return false;
        };
        match &value.value {
            Value::SingleQuotedString(text) => {
                let is_short = self.catalog.dialect() != Dialect::Sqlite
                    || text.len() <= usize::from(SQLITE_PATTERN_BYTES);
                is_short && !text.contains('\\') && text.matches('%').count() <= MAX_WILDCARDS
            }
            _ => false,
        }
    }
}

/// The most `%` of a pattern: MariaDB has room for more than a thousand.
const MAX_WILDCARDS: usize = 20;

/// A side of a comparison.
#[derive(Debug, Clone, Copy)]
pub(in crate::resolve) enum Side<'e> {
    /// A constant of the statement.
    Constant(OperandClass),
    /// A value that rows give, of a class.
    Given(OperandClass),
    /// An expression, and the class of the column that it is.
    Computed(&'e Expr, Option<TypeClass>),
    /// A row of several values, or a text whose collation is not known.
    Unknown,
}

impl Side<'_> {
    /// Its classes, where they are known, and whether it is a constant.
    fn classes(&self) -> Option<(ClassSet, bool)> {
        let (operand, is_constant) = match self {
            Self::Constant(operand) => (operand, true),
            Self::Given(operand) => (operand, false),
            Self::Computed(_, _) | Self::Unknown => return None,
        };
        match operand {
            OperandClass::Known(classes) => Some((*classes, is_constant)),
            OperandClass::Unknown | OperandClass::Untyped => None,
        }
    }

    /// Whether PostgreSQL compares both alike with any other.
    fn is_of_kind(&self, other: &Side<'_>) -> bool {
        match (self, other) {
            (Self::Constant(one), Side::Constant(other))
            | (Self::Given(one), Side::Given(other)) => one == other,
            (Self::Unknown, Side::Unknown) => true,
            (
                Self::Constant(_) | Self::Given(_) | Self::Computed(_, _) | Self::Unknown,
                Side::Constant(_) | Side::Given(_) | Side::Computed(_, _) | Side::Unknown,
            ) => false,
        }
    }

    /// Whether it is known which type it has, or gets.
    fn is_known(&self) -> bool {
        match self {
            Self::Constant(operand) | Self::Given(operand) => *operand != OperandClass::Unknown,
            Self::Computed(_, _) | Self::Unknown => false,
        }
    }

    /// What is known of it.
    fn operand(&self) -> OperandClass {
        match self {
            Self::Constant(operand) | Self::Given(operand) => *operand,
            Self::Computed(_, _) | Self::Unknown => OperandClass::Unknown,
        }
    }

    /// Whether it is a literal that gets the type of what it is compared with.
    fn is_untyped(&self) -> bool {
        match self {
            Self::Constant(operand) => *operand == OperandClass::Untyped,
            Self::Given(_) | Self::Computed(_, _) | Self::Unknown => false,
        }
    }

    /// Whether it is what a query gives.
    fn is_query(&self) -> bool {
        match self {
            Self::Computed(expr, _) => matches!(expr, Expr::Subquery(_)),
            Self::Given(_) | Self::Constant(_) | Self::Unknown => false,
        }
    }

    /// Whether it is one value, and no row of several.
    pub(in crate::resolve) fn is_one(&self) -> bool {
        match self {
            Self::Computed(_, _) | Self::Constant(_) => true,
            Self::Given(_) | Self::Unknown => false,
        }
    }

    /// Whether it is what a query gives, or a column of no point in time.
    fn is_timeless(&self) -> bool {
        let class = match self {
            Self::Computed(Expr::Subquery(_), _) => return true,
            Self::Computed(_, class) => *class,
            Self::Given(_) | Self::Constant(_) | Self::Unknown => None,
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
