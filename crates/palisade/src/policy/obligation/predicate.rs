//! Which rows: a condition over one row, compiled from Cedar.

use std::sync::Arc;

use crate::catalog::RelationId;

/// Which rows a principal sees of a relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowFilter {
    /// All.
    Everything,
    /// None: no policy permits any.
    Nothing,
    /// Those for which the predicate is true.
    Where(Predicate),
}

/// A condition over one row, compiled from Cedar. Its logic is SQL's: three-valued, so that NULL
/// neither admits a row by a permit nor keeps it past a forbid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Predicate {
    /// Always so, or never.
    Constant(bool),
    /// All of them.
    And(Vec<Predicate>),
    /// Any of them.
    Or(Vec<Predicate>),
    /// Not.
    Not(Box<Predicate>),
    /// `if … then … else …`.
    If(Box<Predicate>, Box<Predicate>, Box<Predicate>),
    /// A boolean column of the relation, by position.
    Column(u16),
    /// `resource has column`: it is not NULL.
    Has(u16),
    /// A comparison.
    Compare(Operand, Comparison, Operand),
    /// The operand is one of the literals; false for an empty list.
    In(Operand, Vec<Literal>),
    /// A bytewise pattern match of the text of a column: literal pieces with `*` between them.
    Like(u16, Vec<PatternPiece>),
    /// The operand refers to a row of another table, and that row is seen; false where there is no such row.
    RefersToSeen(Operand, Arc<ReferredRows>),
}

impl Predicate {
    /// Whether rows of another table decide it.
    #[must_use]
    pub fn looks_rows_up(&self) -> bool {
        match self {
            Self::And(all) | Self::Or(all) => all.iter().any(Self::looks_rows_up),
            Self::Not(inner) => inner.looks_rows_up(),
            Self::If(condition, one, other) => [condition, one, other]
                .into_iter()
                .any(|part| part.looks_rows_up()),
            Self::RefersToSeen(_, _) => true,
            Self::Constant(_)
            | Self::Column(_)
            | Self::Has(_)
            | Self::Compare(_, _, _)
            | Self::In(_, _)
            | Self::Like(_, _) => false,
        }
    }
}

/// The rows of a table to which others refer, and which of them are seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferredRows {
    /// The table.
    pub table: RelationId,
    /// The column of it that is referred to, by position.
    pub key: u16,
    /// Which of its rows are seen.
    pub rows: RowFilter,
}

/// A side of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operand {
    /// A column of the relation, by position.
    Column(u16),
    /// A constant.
    Literal(Literal),
}

/// A constant of a policy or of the principal's attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Literal {
    /// Cedar `Long`.
    Integer(i64),
    /// Cedar `Bool`.
    Boolean(bool),
    /// Cedar `String`.
    Text(String),
    /// Cedar `decimal`, in ten-thousandths.
    Decimal(i64),
    /// Cedar `datetime`, in milliseconds from 1970-01-01T00:00:00Z, within the years 1 to 9999.
    Datetime(i64),
}

/// How two operands are compared. Order comparisons exist for integers, decimals and points in time,
/// as in Cedar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// A piece of a `like` pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatternPiece {
    /// These characters.
    Text(String),
    /// Any characters.
    Any,
}
