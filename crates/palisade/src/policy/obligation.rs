//! What a decision demands of the statement it permits. Combining obligations only tightens.

use crate::code::Code;

/// How a column's values are replaced at the source. Ordered from the least to the most strict;
/// where several policies demand different masks, the greatest is used.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mask {
    /// `n` stars and the last `n` characters; NULL where the value has fewer than `2n`. A larger
    /// `n` shows more, so it is less strict.
    Last(std::cmp::Reverse<u16>),
    /// The same text for every value; NULL stays NULL.
    Fixed(String),
    /// NULL for every value.
    Null,
}

impl Mask {
    /// The strictest of two.
    #[must_use]
    pub fn strictest(self, other: Self) -> Self {
        self.max(other)
    }
}

/// What a principal sees of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnLevel {
    /// Its values.
    Plain,
    /// Its values through a mask.
    Masked(Mask),
    /// Nothing: for the principal there is no such column.
    Hidden,
}

/// Which rows a principal sees of a relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowFilter {
    /// All.
    Everything,
    /// None: nobody permits any.
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

/// What exists of a relation for a principal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    /// It does not exist.
    Absent,
    /// It may be known of, not read; why not.
    Discoverable(Code),
    /// It may be read.
    Selectable,
}

/// Everything decided about one relation for one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelationDecision {
    /// Whether it exists.
    pub visibility: Visibility,
    /// For each column of the catalog's relation, in its order.
    pub columns: Vec<ColumnDecision>,
    /// Which rows.
    pub rows: RowFilter,
    /// The smallest `@max_rows` of the determining policies.
    pub max_rows: Option<u64>,
    /// Ids of the policies that determined `select` and `see`, sorted.
    pub policies: Vec<String>,
    /// `@message` of the forbid that made it unreadable.
    pub message: Option<String>,
}

/// What was decided about one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDecision {
    /// What the principal sees.
    pub level: ColumnLevel,
    /// Ids of the policies that determined it, sorted.
    pub policies: Vec<String>,
}

impl RelationDecision {
    /// Whether the relation must be replaced by a derived table: something is masked, hidden or
    /// filtered.
    #[must_use]
    pub fn has_obligation(&self) -> bool {
        self.rows != RowFilter::Everything
            || self.columns.iter().any(|c| c.level != ColumnLevel::Plain)
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use super::Mask;

    #[test]
    fn masks_are_ordered_by_what_they_show() {
        let order = [
            Mask::Last(Reverse(4)),
            Mask::Last(Reverse(2)),
            Mask::Fixed("x".to_owned()),
            Mask::Null,
        ];
        assert!(order.is_sorted());
    }
}
