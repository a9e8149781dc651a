//! Lineage: which base columns reach a value, and whether unchanged.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::{
    catalog::{ClassSet, ColumnId},
    token::TokenKeys,
};

/// The columns that a value is made from: most are one, for which nothing is allocated.
pub(crate) type ColumnList = SmallVec<[ColumnId; 2]>;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Lineage {
    /// The column it is, unchanged, if it is one.
    pub(crate) identity: Option<ColumnId>,
    /// Every column it is made from, the identity included; may repeat.
    pub(crate) columns: ColumnList,
    /// Which tokens it is; none of anything else.
    pub(crate) tokens: Option<TokenLineage>,
    /// Whether it is a whole number that the statement itself gives, and of such a type.
    pub(crate) is_whole: bool,
    /// The classes of types of which it is, where it is computed inside of a statement and they are known (PostgreSQL).
    pub(crate) classes: ClassSet,
    /// Whether one row of its table may stand in several of the rows that give it.
    pub(crate) repeats: bool,
    /// Steps that the expression has which an engine may put in its place; of a column none.
    pub(crate) size: u64,
}

/// Values that go with the tokens of one domain: what is put together of them is still told apart from everything
/// else by its tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenLineage {
    /// NULL alone.
    Nothing,
    /// Constants that cannot be taken for the hash of a token, and NULL.
    Constants,
    /// Constants that may be tokens with their tags on, such constants, and NULL.
    Unopened,
    /// TokenLineage, and NULL.
    Of(Arc<TokenKeys>),
    /// TokenLineage, and such constants.
    Among(Arc<TokenKeys>),
}

impl TokenLineage {
    /// Those of a value that is one or the other.
    pub(crate) fn either(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one?, other?) {
            (Self::Nothing, tokens) | (tokens, Self::Nothing) => Some(tokens),
            (Self::Constants, Self::Constants) => Some(Self::Constants),
            (Self::Unopened, Self::Unopened | Self::Constants)
            | (Self::Constants, Self::Unopened) => Some(Self::Unopened),
            // TokenLineage without tags stand beside tokens with tags: equal ones would be different texts.
            (Self::Unopened, Self::Of(_) | Self::Among(_))
            | (Self::Of(_) | Self::Among(_), Self::Unopened) => None,
            (Self::Constants, Self::Of(keys) | Self::Among(keys))
            | (Self::Of(keys) | Self::Among(keys), Self::Constants) => Some(Self::Among(keys)),
            (Self::Of(keys), Self::Of(others)) => (keys == others).then_some(Self::Of(keys)),
            (Self::Of(keys) | Self::Among(keys), Self::Of(others) | Self::Among(others)) => {
                (keys == others).then_some(Self::Among(keys))
            }
        }
    }

    /// The keys of the tokens that are in it.
    pub(crate) fn keys(&self) -> Option<&Arc<TokenKeys>> {
        match self {
            Self::Of(keys) | Self::Among(keys) => Some(keys),
            Self::Nothing | Self::Constants | Self::Unopened => None,
        }
    }
}

impl Lineage {
    /// The lineage of a reference to `column`.
    #[must_use]
    pub(crate) fn from_column(column: ColumnId) -> Self {
        Self {
            identity: Some(column),
            columns: ColumnList::from_buf_and_len([column; 2], 1),
            tokens: None,
            is_whole: false,
            classes: ClassSet::default(),
            repeats: false,
            size: 0,
        }
    }

    /// The lineage of a value computed from `columns`.
    #[must_use]
    pub(crate) fn from_columns(columns: impl Into<ColumnList>) -> Self {
        let mut columns = columns.into();
        columns.sort_unstable();
        columns.dedup();
        Self {
            identity: None,
            columns,
            tokens: None,
            is_whole: false,
            classes: ClassSet::default(),
            repeats: false,
            size: 0,
        }
    }

    /// The same of a value that is these tokens.
    pub(crate) fn with_tokens(self, tokens: Option<TokenLineage>) -> Self {
        Self { tokens, ..self }
    }

    /// The same of a value that is a whole number of the statement's own.
    pub(crate) fn with_whole(self, is_whole: bool) -> Self {
        Self { is_whole, ..self }
    }

    /// The same of a value of these classes.
    pub(crate) fn with_classes(self, classes: ClassSet) -> Self {
        Self { classes, ..self }
    }

    /// The same of a value whose expression has so many steps.
    pub(crate) fn with_size(self, size: u64) -> Self {
        Self { size, ..self }
    }

    /// The lineage of a column of a set operation, from its arms.
    #[must_use]
    pub(crate) fn either(self, other: &Self) -> Self {
        let identity = if self.identity == other.identity {
            self.identity
        } else {
            None
        };
        let mut columns = self.columns;
        columns.extend_from_slice(&other.columns);
        columns.sort_unstable();
        columns.dedup();
        Self {
            identity,
            columns,
            tokens: TokenLineage::either(self.tokens, other.tokens.clone()),
            is_whole: self.is_whole && other.is_whole,
            classes: match self.classes.is_empty() || other.classes.is_empty() {
                true => ClassSet::default(),
                false => self.classes.union(other.classes),
            },
            repeats: true,
            size: self.size.saturating_add(other.size),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;
    use crate::token::TokenSecret;

    #[test]
    fn tokens_of_one_domain_stay_tokens() {
        let secret = TokenSecret::new("0".repeat(32));
        let keys = |domain| Arc::new(secret.tokens("a", None, domain).unwrap());
        let own = TokenLineage::Of(keys("d"));
        let all = [
            None,
            Some(TokenLineage::Nothing),
            Some(TokenLineage::Constants),
            Some(TokenLineage::Unopened),
            Some(own.clone()),
            Some(TokenLineage::Among(keys("d"))),
            Some(TokenLineage::Of(keys("e"))),
        ];
        let of = |one: &Option<TokenLineage>, other: &Option<TokenLineage>| {
            TokenLineage::either(one.clone(), other.clone())
        };
        for a in &all {
            assert_eq!(of(a, a), *a);
            assert_eq!(of(a, &None), None);
            assert_eq!(of(a, &Some(TokenLineage::Nothing)), *a);
            for b in &all {
                assert_eq!(of(a, b), of(b, a));
                for c in &all {
                    assert_eq!(of(&of(a, b), c), of(a, &of(b, c)));
                }
            }
        }
        let [constants, unopened, own, among, other] = [2, 3, 4, 5, 6].map(|at| &all[at]);
        assert_eq!(of(own, other), None);
        assert_eq!(of(own, constants), *among);
        assert_eq!(of(unopened, constants), *unopened);
        assert_eq!(of(unopened, own), None);
    }
}
