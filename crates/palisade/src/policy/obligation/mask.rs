//! How values are replaced, from the least strict mask to the most.

use std::{
    cmp::Ordering,
    collections::BTreeSet,
    hash::{Hash, Hasher},
    sync::Arc,
};

use crate::{
    policy::obligation::JsonPaths,
    syntax::mask_expr::Formula,
    token::{Key, TokenKeys},
};

/// How a column's values are replaced at the source. Every mask is a total function: it cannot raise,
/// whatever the value. NULL stays NULL.
///
/// The order is total, from the least to the most strict. It goes by how much of a value one answer shows: a coarser
/// date or number, then some characters, then whether two values are equal, for everybody or for one session, then
/// whether there is one, then nothing. Of two that cannot be compared (the first and the last characters) the later one
/// here wins.
///
/// Where several policies demand different masks, [`strictest`](Self::strictest) says which one is used. What expressions
/// and paths show cannot be compared with what other masks show: together they give NULL. Of several masks of paths,
/// what each of them shows is shown.
///
/// The result is text, whatever the column's type, for `first`, `last`, `email`, `hash`, tokens and `fixed`:
/// on PostgreSQL a masked `varchar(n)`, `char(n)`, enum, uuid or json column becomes `text`. An expression gives what
/// it gives. The other masks keep the type, but for its length and precision.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
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
    /// Of a JSON document, the keys that paths lead to; NULL where it is no object.
    Paths(JsonPaths),
    /// `@aggregate_only("5")`: NULL for every value, but that COUNT, SUM and AVG see the values where at least so many are put
    /// together.
    AggregateOnly(u32),
    /// No mask that a policy writes, but that of a view's column whose base columns the same policies mask: what the view
    /// computes of the masked values stays as it is. Told is the mask that they demand.
    Inherited(Box<Self>),
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
    /// The strictest of two; NULL of an expression, of paths, of what only aggregates see or of what a view computes, and any
    /// other mask.
    #[must_use]
    pub fn strictest(self, other: Self) -> Self {
        match (&self, &other) {
            (Self::AggregateOnly(one), Self::AggregateOnly(another)) => {
                Self::AggregateOnly(*one.max(another))
            }
            (Self::Paths(one), Self::Paths(another)) => {
                one.intersection(another).map_or(Self::Null, Self::Paths)
            }
            (Self::Expr(_) | Self::Paths(_) | Self::AggregateOnly(_) | Self::Inherited(_), _)
            | (_, Self::Expr(_) | Self::Paths(_) | Self::AggregateOnly(_) | Self::Inherited(_))
                if self != other =>
            {
                Self::Null
            }
            (_, _) => self.max(other),
        }
    }

    /// The word of its kind, without what it is made with.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Date(_) => "date",
            Self::Bucket(_) => "bucket",
            Self::First(_) => "first",
            Self::Last(_) => "last",
            Self::Email => "email",
            Self::Hash(_) => "hash",
            Self::Token(_) => "token",
            Self::Fixed(_) => "fixed",
            Self::Expr(_) => "expr",
            Self::Paths(_) => "paths",
            Self::AggregateOnly(_) => "aggregate_only",
            Self::Inherited(mask) => match mask.kind() {
                // Its type takes no such mask, and it is computed all the same.
                "null" => "inherited",
                kind => kind,
            },
            Self::Null => "null",
        }
    }

    /// The fewest values that an aggregate must put together, where only aggregates see them.
    pub(crate) fn smallest_group(&self) -> Option<u32> {
        match self {
            Self::AggregateOnly(smallest) => Some(*smallest),
            Self::Date(_)
            | Self::Bucket(_)
            | Self::First(_)
            | Self::Last(_)
            | Self::Email
            | Self::Hash(_)
            | Self::Token(_)
            | Self::Fixed(_)
            | Self::Expr(_)
            | Self::Paths(_)
            | Self::Inherited(_)
            | Self::Null => None,
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
            | Self::Paths(_)
            | Self::AggregateOnly(_)
            | Self::Inherited(_)
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
            | Self::Paths(_)
            | Self::AggregateOnly(_)
            | Self::Inherited(_)
            | Self::Null => None,
        }
    }
}

/// As it is written in `@mask("…")`, or as the annotation of its own.
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
            Self::Paths(paths) => write!(f, "paths({paths})"),
            Self::AggregateOnly(smallest) => write!(f, "aggregate_only({smallest})"),
            Self::Inherited(mask) => match &**mask {
                Self::Null => f.write_str("inherited"),
                mask => mask.fmt(f),
            },
            Self::Null => f.write_str("null"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use super::{DatePart, ExprMask, HashDomain, HashMask, Mask, TokenMask};
    use crate::{dialect::Dialect, policy::obligation::JsonPaths, syntax::mask_expr};

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
        let is_alone = |mask: &Mask| {
            matches!(
                mask,
                Mask::Expr(_) | Mask::Paths(_) | Mask::AggregateOnly(_)
            )
        };
        let are_groups = |one: &Mask, other: &Mask| {
            one.smallest_group().is_some() && other.smallest_group().is_some()
        };
        let are_paths =
            |one: &Mask, other: &Mask| matches!((one, other), (Mask::Paths(_), Mask::Paths(_)));
        let paths = |text: &str| Mask::Paths(JsonPaths::parse(text).unwrap());
        let mut masks = masks();
        masks.extend([
            expr("lower(value)"),
            expr("LOWER( value )"),
            expr("upper(value)"),
            Mask::AggregateOnly(5),
            Mask::AggregateOnly(20),
            paths("a, b"),
            paths("b.c, d"),
            paths("d"),
        ]);
        assert_eq!(expr("lower(value)"), expr("LOWER( value )"));
        for a in &masks {
            assert_eq!(of(a, a), *a);
            for b in &masks {
                let both = of(a, b);
                assert_eq!(both, of(b, a));
                if are_paths(a, b) {
                    assert!(matches!(both, Mask::Paths(_) | Mask::Null));
                } else if a != b && (is_alone(a) || is_alone(b)) && !are_groups(a, b) {
                    assert_eq!(both, Mask::Null);
                } else {
                    assert!(both >= *a && both >= *b);
                    assert!(both == *a || both == *b);
                }
                for c in &masks {
                    assert_eq!(of(&of(a, b), c), of(a, &of(b, c)));
                }
            }
        }
    }
}
