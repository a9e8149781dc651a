//! What a decision demands of the statement it permits. Combining obligations only tightens.

use std::{
    cmp::Ordering,
    collections::BTreeSet,
    hash::{Hash, Hasher},
    sync::Arc,
};

use crate::{
    code::Code,
    syntax::mask_expr::Formula,
    token::{Key, TokenKeys},
};

/// How a column's values are replaced at the source. Every mask is a total function: it cannot raise,
/// whatever the value. NULL stays NULL.
///
/// The order is total, from the least to the most strict; where several policies demand different
/// masks, the greatest is used, but for expressions: what one shows cannot be compared, so that with any other mask it
/// gives NULL. It goes by how much of a value one answer shows: a coarser date or
/// number, then some characters, then whether two values are equal, for everybody or for one session, then
/// whether there is one, then nothing. Of two that cannot be compared (the first and the last characters) the later one here wins.
///
/// The result is text, whatever the column's type, for `first`, `last`, `email`, `hash`, tokens and `fixed`:
/// on PostgreSQL a masked `varchar(n)`, `char(n)`, enum, uuid or json column becomes `text`. An expression gives what
/// it gives. The other masks keep the type, but for its length and precision.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mask {
    /// The point in time at the beginning of the part it is in; NULL outside the years 1 to 9999.
    Date(DatePart),
    /// The greatest multiple of the width, which is at least 2, that is not above the number; NULL where the type does not
    /// hold it.
    Bucket(u32),
    /// The first `n` characters and `n` stars; NULL where the value has fewer than `2n`. A larger
    /// `n` shows more, so it is less strict.
    First(std::cmp::Reverse<u16>),
    /// `n` stars and the last `n` characters; NULL where the value has fewer than `2n`.
    Last(std::cmp::Reverse<u16>),
    /// `***@` and the domain; NULL where the value has not exactly one `@`.
    Email,
    /// HMAC-SHA-256 of the value's text in UTF-8, 64 hexadecimal digits; the same for everybody.
    Hash(HashMask),
    /// No mask that a policy writes, but what `read_token` permits: a hash that is the session's own,
    /// and that the session may compare the column with.
    Token(TokenMask),
    /// The same text for every value.
    Fixed(String),
    /// The operator's expression over the value. NULL is a value to it.
    Expr(ExprMask),
    /// NULL for every value; of the column's type where the engine wants to know it.
    Null,
}

/// To what a point in time is cut; a longer part is stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DatePart {
    /// The hour.
    Hour,
    /// The day.
    Day,
    /// The month.
    Month,
    /// The year.
    Year,
}

impl DatePart {
    /// Every part.
    pub const ALL: [Self; 4] = [Self::Hour, Self::Day, Self::Month, Self::Year];

    /// The word in `@mask("date(…)")`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Month => "month",
            Self::Year => "year",
        }
    }
}

/// A keyed hash: `@mask("hash")`, the same for everybody who sees one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HashMask {
    /// Where equal values have equal hashes.
    pub domain: HashDomain,
    /// The key of the domain, once it is known for which column.
    pub(crate) key: Option<Key>,
}

/// An expression over the value that has a result for every value; `@mask("expr(…)")`. Two that differ in letters and
/// blanks alone are one.
#[derive(Debug, Clone)]
pub struct ExprMask {
    /// As it is printed.
    pub(crate) text: String,
    pub(crate) formula: Formula,
    /// Names of columns by which it calls the value, beside `value`; folded.
    pub(crate) names: BTreeSet<String>,
}

impl ExprMask {
    fn meaning(&self) -> (&Formula, &BTreeSet<String>) {
        (&self.formula, &self.names)
    }
}

impl PartialEq for ExprMask {
    fn eq(&self, other: &Self) -> bool {
        self.meaning() == other.meaning()
    }
}

impl Eq for ExprMask {}

impl PartialOrd for ExprMask {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ExprMask {
    fn cmp(&self, other: &Self) -> Ordering {
        self.meaning().cmp(&other.meaning())
    }
}

impl Hash for ExprMask {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.meaning().hash(state);
    }
}

/// A token: a keyed hash for one session, which comes back with a tag.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenMask {
    /// Where equal values have equal tokens.
    pub domain: HashDomain,
    /// The keys of the domain, once it is known for which session and column.
    pub(crate) keys: Option<Arc<TokenKeys>>,
}

/// Where equal values have equal hashes or tokens. The smaller domain is stricter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HashDomain {
    /// In every column whose mask, or whose `@domain`, names it.
    Named(String),
    /// In the column alone.
    Column,
}

impl Mask {
    /// The strictest of two; NULL of an expression and any other mask.
    #[must_use]
    pub fn strictest(self, other: Self) -> Self {
        match (&self, &other) {
            (Self::Expr(_), _) | (_, Self::Expr(_)) if self != other => Self::Null,
            (_, _) => self.max(other),
        }
    }

    /// Whether its values are computed with a key.
    pub(crate) fn is_keyed(&self) -> bool {
        match self {
            Self::Hash(_) | Self::Token(_) => true,
            Self::Date(_)
            | Self::Bucket(_)
            | Self::First(_)
            | Self::Last(_)
            | Self::Email
            | Self::Fixed(_)
            | Self::Expr(_)
            | Self::Null => false,
        }
    }

    /// The keys of a token.
    pub(crate) fn token(&self) -> Option<&Arc<TokenKeys>> {
        match self {
            Self::Token(token) => token.keys.as_ref(),
            Self::Date(_)
            | Self::Bucket(_)
            | Self::First(_)
            | Self::Last(_)
            | Self::Email
            | Self::Hash(_)
            | Self::Fixed(_)
            | Self::Expr(_)
            | Self::Null => None,
        }
    }
}

/// As it is written in `@mask("…")`.
impl std::fmt::Display for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Date(part) => write!(f, "date({})", part.name()),
            Self::Bucket(width) => write!(f, "bucket({width})"),
            Self::First(n) => write!(f, "first({})", n.0),
            Self::Last(n) => write!(f, "last({})", n.0),
            Self::Email => f.write_str("email"),
            Self::Hash(hash) => match &hash.domain {
                HashDomain::Named(domain) => write!(f, "hash({domain})"),
                HashDomain::Column => f.write_str("hash"),
            },
            Self::Token(token) => match &token.domain {
                HashDomain::Named(domain) => write!(f, "token({domain})"),
                HashDomain::Column => f.write_str("token"),
            },
            Self::Fixed(text) => write!(f, "fixed({text})"),
            Self::Expr(mask) => write!(f, "expr({})", mask.text),
            Self::Null => f.write_str("null"),
        }
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
    /// Whether rows of it are stored in partitions or children that the session does not see whole. Which rows those are,
    /// and that there is such a relation, only the relation itself would show: by system columns, ONLY and plans.
    pub keeps_apart: bool,
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
    /// The keys of the tokens that stand for the column at `index`, where tokens do.
    pub(crate) fn token(&self, index: u16) -> Option<&Arc<TokenKeys>> {
        match &self.columns.get(usize::from(index))?.level {
            ColumnLevel::Masked(mask) => mask.token(),
            ColumnLevel::Plain | ColumnLevel::Hidden => None,
        }
    }

    /// Whether the column at `index` is shown as it is.
    pub(crate) fn is_plain(&self, index: u16) -> bool {
        let column = self.columns.get(usize::from(index));
        column.is_some_and(|column| column.level == ColumnLevel::Plain)
    }

    /// Whether any column is given as tokens.
    pub(crate) fn gives_tokens(&self) -> bool {
        self.columns.iter().any(|column| match &column.level {
            ColumnLevel::Masked(mask) => mask.token().is_some(),
            ColumnLevel::Plain | ColumnLevel::Hidden => false,
        })
    }

    /// Whether the relation must be replaced by a derived table: something is masked, hidden or
    /// filtered, or where rows are stored is not shown.
    #[must_use]
    pub fn has_obligation(&self) -> bool {
        self.keeps_apart
            || self.rows != RowFilter::Everything
            || self.columns.iter().any(|c| c.level != ColumnLevel::Plain)
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use super::{DatePart, ExprMask, HashDomain, HashMask, Mask, TokenMask};
    use crate::{dialect::Dialect, syntax::mask_expr};

    fn hash(domain: HashDomain) -> Mask {
        Mask::Hash(HashMask { domain, key: None })
    }

    fn token(domain: HashDomain) -> Mask {
        Mask::Token(TokenMask { domain, keys: None })
    }

    fn expr(text: &str) -> Mask {
        let read = mask_expr::read(text, Dialect::Sqlite);
        let read = read.unwrap_or_else(|unread| panic!("{unread:?}"));
        Mask::Expr(ExprMask {
            text: read.text,
            formula: read.formula,
            names: read.names,
        })
    }

    /// Masks of every kind, from the least to the most strict.
    fn masks() -> Vec<Mask> {
        let mut masks: Vec<Mask> = DatePart::ALL.map(Mask::Date).to_vec();
        masks.extend([10, 1000].map(Mask::Bucket));
        masks.extend([4, 2].map(|n| Mask::First(Reverse(n))));
        masks.extend([4, 2].map(|n| Mask::Last(Reverse(n))));
        masks.extend([
            Mask::Email,
            hash(HashDomain::Named("people".to_owned())),
            hash(HashDomain::Column),
            token(HashDomain::Named("people".to_owned())),
            token(HashDomain::Column),
            Mask::Fixed("x".to_owned()),
            Mask::Null,
        ]);
        masks
    }

    #[test]
    fn masks_are_ordered_by_what_they_show() {
        assert!(masks().is_sorted_by(|left, right| left < right));
    }

    #[test]
    fn combining_masks_is_order_free_and_only_tightens() {
        let of = |a: &Mask, b: &Mask| a.clone().strictest(b.clone());
        let is_expr = |mask: &Mask| matches!(mask, Mask::Expr(_));
        let mut masks = masks();
        masks.extend([
            expr("lower(value)"),
            expr("LOWER( value )"),
            expr("upper(value)"),
        ]);
        assert_eq!(expr("lower(value)"), expr("LOWER( value )"));
        for a in &masks {
            assert_eq!(of(a, a), *a);
            for b in &masks {
                let both = of(a, b);
                assert_eq!(both, of(b, a));
                assert!(both >= *a && both >= *b);
                if a != b && (is_expr(a) || is_expr(b)) {
                    assert_eq!(both, Mask::Null);
                } else {
                    assert!(both == *a || both == *b);
                }
                for c in &masks {
                    assert_eq!(of(&of(a, b), c), of(a, &of(b, c)));
                }
            }
        }
    }
}
