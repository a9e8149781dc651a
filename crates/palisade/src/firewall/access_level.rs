//! How much of a table or column is there for a principal, so that two amounts can be compared: for whoever proves that one is
//! no more than another.

use std::fmt;

use crate::policy::{
    ApprovalLevel,
    obligation::{ColumnLevel, Mask},
};

/// How much of a place is there for a principal, in one set of circumstances.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessLevel {
    /// Nothing: the action is not permitted, or there is no such column.
    Never,
    /// No row.
    NoRows,
    /// The name of a table that is not read.
    NameOnly,
    /// A column that is NULL for every row.
    Nulls,
    /// Tokens in the place of values.
    Token,
    /// A part or an image of each value, by this mask.
    Masked(String),
    /// The values.
    Plain,
    /// The rows for which this condition holds.
    SomeRows(String),
    /// Every row.
    AllRows,
    /// The action, within these caps; empty where there is none.
    Allowed(String),
    /// As much, once somebody has approved the statement.
    AfterApproval(ApprovalLevel, Box<AccessLevel>),
}

impl AccessLevel {
    pub(super) fn of_column(level: &ColumnLevel) -> Self {
        match level {
            ColumnLevel::Plain => Self::Plain,
            ColumnLevel::Hidden => Self::Never,
            ColumnLevel::Masked(mask) => match mask {
                Mask::Token(_) => Self::Token,
                Mask::Null => Self::Nulls,
                Mask::Date(_)
                | Mask::Bucket(_)
                | Mask::First(_)
                | Mask::Last(_)
                | Mask::Email
                | Mask::Hash(_)
                | Mask::Fixed(_)
                | Mask::Expr(_)
                | Mask::Paths(_)
                | Mask::Inherited(_)
                // Aggregates see the values.
                | Mask::AggregateOnly(_) => Self::Masked(mask.to_string()),
            },
        }
    }

    /// Whether it shows or permits nothing.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        match self {
            Self::Never | Self::NoRows => true,
            Self::NameOnly
            | Self::Nulls
            | Self::Token
            | Self::Masked(_)
            | Self::Plain
            | Self::SomeRows(_)
            | Self::AllRows
            | Self::Allowed(_) => false,
            Self::AfterApproval(_, level) => level.is_nothing(),
        }
    }

    /// Whether nothing more is there than by `other`. None where the two cannot be compared: two masks, or two conditions.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> Option<bool> {
        use AccessLevel::{
            AfterApproval, AllRows, Allowed, Masked, NameOnly, Never, NoRows, Nulls, Plain,
            SomeRows, Token,
        };
        if self == other || self.is_nothing() {
            return Some(true);
        }
        match (self, other) {
            (AfterApproval(approval, level), AfterApproval(others, other)) => {
                match level.is_within(other) {
                    Some(true) => Some(approval >= others),
                    more @ (Some(false) | None) => more,
                }
            }
            // An approval that is not demanded is never more.
            (AfterApproval(_, level), _) => level.is_within(other),
            (_, AfterApproval(_, _)) => Some(false),
            (_, Never | NoRows) => Some(false),
            (_, Plain | AllRows) => Some(true),
            (NameOnly, NameOnly | Nulls | Token | Masked(_) | SomeRows(_) | Allowed(_))
            | (Nulls, Nulls | Token | Masked(_) | Allowed(_) | SomeRows(_)) => Some(true),
            (Plain | AllRows, _) | (_, NameOnly | Nulls) => Some(false),
            // No cap at all is the widest.
            (Allowed(_), Allowed(caps)) if caps.is_empty() => Some(true),
            (Allowed(caps), Allowed(_)) if caps.is_empty() => Some(false),
            (Never | NoRows | Token | Masked(_) | SomeRows(_) | Allowed(_), _) => None,
        }
    }
}

impl fmt::Display for AccessLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("never"),
            Self::NoRows => f.write_str("no rows"),
            Self::NameOnly => f.write_str("name only"),
            Self::Nulls => f.write_str("mask null"),
            Self::Token => f.write_str("token"),
            Self::Masked(mask) => write!(f, "mask {mask}"),
            Self::Plain => f.write_str("plain"),
            Self::SomeRows(condition) => f.write_str(condition),
            Self::AllRows => f.write_str("all rows"),
            Self::Allowed(caps) => write!(f, "allow{caps}"),
            Self::AfterApproval(approval, level) => {
                let approval = after_approval(*approval);
                match &**level {
                    Self::Allowed(caps) => write!(f, "allow{approval}{caps}"),
                    level @ (Self::Never
                    | Self::NoRows
                    | Self::NameOnly
                    | Self::Nulls
                    | Self::Token
                    | Self::Masked(_)
                    | Self::Plain
                    | Self::SomeRows(_)
                    | Self::AllRows
                    | Self::AfterApproval(_, _)) => write!(f, "{level}{approval}"),
                }
            }
        }
    }
}

/// What a value says of an approval: `, after approval (operator)`.
pub(super) fn after_approval(approval: ApprovalLevel) -> String {
    format!(", after approval ({})", approval.word())
}

#[cfg(test)]
mod tests {
    use super::AccessLevel::{
        AfterApproval, AllRows, Allowed, Masked, NameOnly, Never, NoRows, Nulls, Plain, SomeRows,
        Token,
    };
    use crate::policy::ApprovalLevel::{Operator, Required};

    #[test]
    fn what_cannot_be_compared_is_never_within() {
        let last = || Masked("last(4)".to_owned());
        let tenant = || SomeRows("tenant == 1".to_owned());
        let five = || Allowed(", at most 5 rows".to_owned());
        let free = || Allowed(String::new());
        let after = |approval, level| AfterApproval(approval, Box::new(level));
        for (new, old, expected) in [
            (Never, Never, Some(true)),
            (Never, Plain, Some(true)),
            (Plain, Never, Some(false)),
            (Plain, Plain, Some(true)),
            (Plain, last(), Some(false)),
            (last(), Plain, Some(true)),
            (last(), last(), Some(true)),
            (last(), Masked("first(4)".to_owned()), None),
            (last(), Token, None),
            (Token, last(), None),
            (Token, Nulls, Some(false)),
            (Nulls, Token, Some(true)),
            (Nulls, last(), Some(true)),
            (NoRows, tenant(), Some(true)),
            (tenant(), NoRows, Some(false)),
            (tenant(), AllRows, Some(true)),
            (AllRows, tenant(), Some(false)),
            (tenant(), SomeRows("tenant == 2".to_owned()), None),
            (five(), free(), Some(true)),
            (free(), five(), Some(false)),
            (five(), Allowed(", at most 6 rows".to_owned()), None),
            (NameOnly, free(), Some(true)),
            (free(), NameOnly, Some(false)),
            (free(), Never, Some(false)),
            (after(Required, free()), free(), Some(true)),
            (free(), after(Required, free()), Some(false)),
            (
                after(Required, free()),
                after(Operator, free()),
                Some(false),
            ),
            (after(Operator, free()), after(Required, free()), Some(true)),
            (after(Operator, Plain), after(Required, last()), Some(false)),
            (after(Operator, Plain), last(), Some(false)),
            (NoRows, after(Operator, Plain), Some(true)),
            (after(Operator, Plain), Never, Some(false)),
        ] {
            assert_eq!(new.is_within(&old), expected, "{new:?}, {old:?}");
        }
    }
}
