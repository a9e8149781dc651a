//! What a decision demands of the statement it permits. Combining obligations only tightens.

mod caps;
mod json_paths;
mod mask;
mod predicate;

use std::sync::Arc;

pub use caps::Caps;
pub use json_paths::{JsonPaths, ShownValue};
pub use mask::{DatePart, ExprMask, HashDomain, HashMask, Mask, TokenMask};
pub use predicate::{
    Comparison, Literal, Operand, PatternPiece, Predicate, ReferredRows, RowFilter,
};

use crate::{code::Code, past::Label, token::TokenKeys};

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

impl ColumnLevel {
    /// Whether the stored value is read for it. A mask that gives the same for every value reads none, unless it may be NULL: a text
    /// stands for the other values alone.
    pub(in crate::policy) fn reads_stored(&self, nullable: bool) -> bool {
        match self {
            Self::Plain => true,
            Self::Masked(mask) => match mask {
                Mask::Fixed(_) => nullable,
                Mask::Null => false,
                Mask::Date(_)
                | Mask::Bucket(_)
                | Mask::First(_)
                | Mask::Last(_)
                | Mask::Email
                | Mask::Hash(_)
                | Mask::Token(_)
                | Mask::Expr(_)
                | Mask::Paths(_)
                | Mask::AggregateOnly(_)
                | Mask::Inherited(_) => true,
            },
            Self::Hidden => false,
        }
    }

    /// What is read in the place of values, in a word, where equal values are read as equal: then whoever writes a guess knows whether it
    /// is right.
    pub(in crate::policy) fn read_as(&self) -> Option<&'static str> {
        match self {
            Self::Masked(Mask::Token(_)) => Some("tokens"),
            // What a view computes may be hashes.
            Self::Masked(Mask::Hash(_) | Mask::Inherited(_)) => Some("hashes"),
            Self::Masked(
                Mask::Null
                | Mask::Fixed(_)
                | Mask::First(_)
                | Mask::Last(_)
                | Mask::Email
                | Mask::Date(_)
                | Mask::Bucket(_)
                | Mask::Expr(_)
                | Mask::Paths(_)
                | Mask::AggregateOnly(_),
            )
            | Self::Plain
            | Self::Hidden => None,
        }
    }
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
    /// The tightest caps of the determining policies.
    pub caps: Caps,
    /// Ids of the policies that determined `select` and `see`, sorted.
    pub policies: Vec<String>,
    /// `@message` of the forbid that made it unreadable.
    pub message: Option<String>,
    /// Whether rows of it are stored in partitions or children that the session does not see whole. Which rows those are,
    /// and that there is such a relation, only the relation itself would show: by system columns, ONLY and plans.
    pub has_hidden_children: bool,
    /// As of what it is read; as it is by now where there is none.
    pub past: Option<Arc<Label>>,
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

    /// Whether aggregates alone may see any column.
    pub(crate) fn has_aggregate_only(&self) -> bool {
        self.columns.iter().any(|column| match &column.level {
            ColumnLevel::Masked(mask) => mask.smallest_group().is_some(),
            ColumnLevel::Plain | ColumnLevel::Hidden => false,
        })
    }

    /// Whether any column is given as tokens.
    pub(crate) fn gives_tokens(&self) -> bool {
        self.columns.iter().any(|column| match &column.level {
            ColumnLevel::Masked(mask) => mask.token().is_some(),
            ColumnLevel::Plain | ColumnLevel::Hidden => false,
        })
    }

    /// Whether the relation must be replaced by a derived table: something is masked, hidden or
    /// filtered, it is read as it was, or where rows are stored is not shown.
    #[must_use]
    pub fn has_obligation(&self) -> bool {
        self.has_hidden_children
            || self.past.is_some()
            || self.rows != RowFilter::Everything
            || self.columns.iter().any(|c| c.level != ColumnLevel::Plain)
    }
}
