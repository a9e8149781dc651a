//! Lineage: which base columns reach a value, and whether unchanged.

use std::{collections::BTreeSet, sync::Arc};

use smallvec::SmallVec;

use crate::{catalog::ColumnId, token::TokenKeys};

/// The columns that a value is made from: most are one, for which nothing is allocated.
pub(crate) type Columns = SmallVec<[ColumnId; 2]>;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Lineage {
    /// The column it is, unchanged, if it is one.
    pub(crate) identity: Option<ColumnId>,
    /// Every column it is made from, the identity included; may repeat.
    pub(crate) columns: Columns,
    /// Which tokens it is; none of anything else.
    pub(crate) tokens: Option<Tokens>,
    /// Of which constants it is one, in a reading that asks for them; none of anything else.
    pub(crate) given: Option<Arc<Given>>,
    /// Whether it is a whole number that the statement itself gives, and of such a type.
    pub(crate) is_whole: bool,
    /// Steps that the expression has which an engine may put in its place; of a column none.
    pub(crate) size: u64,
}

/// Constants that a value is one of, beside NULL.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Given {
    /// Where each stands.
    pub(crate) places: BTreeSet<Place>,
    /// Whether it may also be something else that constants were made into.
    pub(crate) is_computed: bool,
}

/// Where a literal or a placeholder stands in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) line: u64,
    pub(crate) column: u64,
    /// Whether each of its elements is meant, and not it itself.
    pub(crate) is_array: bool,
}

impl Given {
    /// Those of a value that is one or the other.
    pub(crate) fn either(one: Option<Arc<Self>>, other: Option<&Arc<Self>>) -> Option<Arc<Self>> {
        let (mut one, other) = (one?, other?);
        let all = Arc::make_mut(&mut one);
        all.places.extend(&other.places);
        all.is_computed |= other.is_computed;
        Some(one)
    }
}

/// Values that go with the tokens of one domain: what is put together of them is still told apart from everything
/// else by its tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tokens {
    /// NULL alone.
    Nothing,
    /// Constants that nobody takes for a token's hash, and NULL.
    Constants,
    /// Tokens, and NULL.
    Of(Arc<TokenKeys>),
    /// Tokens, and such constants.
    Among(Arc<TokenKeys>),
}

impl Tokens {
    /// Those of a value that is one or the other.
    pub(crate) fn either(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one?, other?) {
            (Self::Nothing, tokens) | (tokens, Self::Nothing) => Some(tokens),
            (Self::Constants, Self::Constants) => Some(Self::Constants),
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
            Self::Nothing | Self::Constants => None,
        }
    }
}

impl Lineage {
    /// The lineage of a reference to `column`.
    #[must_use]
    pub(crate) fn of(column: ColumnId) -> Self {
        Self {
            identity: Some(column),
            columns: Columns::from_buf_and_len([column; 2], 1),
            tokens: None,
            given: None,
            is_whole: false,
            size: 0,
        }
    }

    /// The lineage of a value computed from `columns`.
    #[must_use]
    pub(crate) fn computed(columns: impl Into<Columns>) -> Self {
        let mut columns = columns.into();
        columns.sort_unstable();
        columns.dedup();
        Self {
            identity: None,
            columns,
            tokens: None,
            given: None,
            is_whole: false,
            size: 0,
        }
    }

    /// The same of a value that is these tokens.
    pub(crate) fn with_tokens(self, tokens: Option<Tokens>) -> Self {
        Self { tokens, ..self }
    }

    /// The same of a value that is one of these constants.
    pub(crate) fn with_given(self, given: Option<Arc<Given>>) -> Self {
        Self { given, ..self }
    }

    /// The same of a value that is a whole number of the statement's own.
    pub(crate) fn whole(self, is_whole: bool) -> Self {
        Self { is_whole, ..self }
    }

    /// The same of a value whose expression has so many steps.
    pub(crate) fn sized(self, size: u64) -> Self {
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
            tokens: Tokens::either(self.tokens, other.tokens.clone()),
            given: Given::either(self.given, other.given.as_ref()),
            is_whole: self.is_whole && other.is_whole,
            size: self.size.saturating_add(other.size),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::token::TokenSecret;

    #[test]
    fn tokens_of_one_domain_stay_tokens() {
        let secret = TokenSecret::new("0".repeat(32));
        let keys = |domain| Arc::new(secret.tokens("a", None, domain).unwrap());
        let own = Tokens::Of(keys("d"));
        let all = [
            None,
            Some(Tokens::Nothing),
            Some(Tokens::Constants),
            Some(own.clone()),
            Some(Tokens::Among(keys("d"))),
            Some(Tokens::Of(keys("e"))),
        ];
        let of = |one: &Option<Tokens>, other: &Option<Tokens>| {
            Tokens::either(one.clone(), other.clone())
        };
        for a in &all {
            assert_eq!(of(a, a), *a);
            assert_eq!(of(a, &None), None);
            assert_eq!(of(a, &Some(Tokens::Nothing)), *a);
            for b in &all {
                assert_eq!(of(a, b), of(b, a));
                for c in &all {
                    assert_eq!(of(&of(a, b), c), of(a, &of(b, c)));
                }
            }
        }
        assert_eq!(of(&all[3], &all[5]), None);
        assert_eq!(of(&all[3], &all[2]), all[4]);
    }

    #[test]
    fn constants_stay_constants_beside_constants() {
        let at = |column, is_computed| {
            let place = Place {
                line: 1,
                column,
                is_array: false,
            };
            Some(Arc::new(Given {
                places: [place].into(),
                is_computed,
            }))
        };
        let both = Given::either(at(1, false), at(2, true).as_ref()).unwrap();
        assert_eq!(both.places.len(), 2);
        assert!(both.is_computed);
        assert_eq!(Given::either(at(1, false), None), None);
        assert_eq!(Given::either(None, at(1, false).as_ref()), None);
    }
}
