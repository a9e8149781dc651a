//! How much of a table or column is there for a principal, so that two amounts can be compared: for whoever proves that one is
//! no more than another.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use crate::firewall::{
    Firewall,
    access_table::{Cells, Place},
};
use crate::{
    dialect::Dialect,
    error::Error,
    policy::{
        PolicySet,
        obligation::{ColumnLevel, Mask},
    },
    session::{Principal, Session},
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
                // Aggregates see the values.
                | Mask::AggregateOnly(_) => Self::Masked(mask.to_string()),
            },
        }
    }

    /// Whether it shows or permits nothing.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        matches!(self, Self::Never | Self::NoRows)
    }

    /// Whether nothing more is there than by `other`. None where the two cannot be compared: two masks, or two conditions.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> Option<bool> {
        use AccessLevel::{
            AllRows, Allowed, Masked, NameOnly, Never, NoRows, Nulls, Plain, SomeRows, Token,
        };
        if self == other || self.is_nothing() {
            return Some(true);
        }
        match (self, other) {
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
        }
    }
}

/// All that may be there at one place for a principal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessPlace {
    /// The table or view, as policies name it, or `template NAME`.
    pub table: String,
    /// The column; none where the action is on the table.
    pub column: Option<String>,
    /// As an [`AccessCell`](super::AccessCell) has it.
    pub action: &'static str,
    /// What is there outside of templates: once, or where policies look at circumstances at each of their corners.
    pub levels: Vec<AccessLevel>,
    /// What is there within templates that the principal may run.
    pub in_templates: Vec<AccessLevel>,
    /// Ids of the determining policies.
    pub by: BTreeSet<String>,
}

/// A column, and what of it proofs are about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownColumn {
    /// The table or view, as policies name it.
    pub table: String,
    /// Its name.
    pub column: String,
    /// Its tags, those of what it is computed from included.
    pub tags: Vec<String>,
    /// Whether [`Firewall::access_places`] tells of its table. Virtual tables are left out there.
    pub is_enumerated: bool,
}

impl Firewall {
    /// All that may be there for `principal` at each place, in any circumstances and within each template that it may run.
    /// What no place names is never permitted.
    ///
    /// # Errors
    /// A policy that cannot be evaluated or written down.
    pub fn access_places(&self, principal: &Principal) -> Result<Vec<AccessPlace>, Error> {
        let corners = self.policies.corners().map_err(Error::Internal)?;
        let all: Vec<&PolicySet> = match corners.as_slice() {
            [] => vec![&self.policies],
            [_, ..] => corners.iter().collect(),
        };
        // Some time and some client; which they are is supposed already.
        let session = match corners.as_slice() {
            [] => Session::new(principal.clone()),
            [_, ..] => Session::new(principal.clone())
                .at(Duration::ZERO)
                .of_client("client"),
        };
        let fault = |rejection: crate::rejection::Rejection| Error::Internal(rejection.to_string());
        let (mut outside, mut inside) = (Vec::new(), Vec::new());
        for policies in all {
            let view = policies.session(&session);
            outside.push(self.cells_of_view(&view).map_err(fault)?);
            for template in view.templates().map_err(fault)? {
                let session = session.clone().running(&template.name, Vec::new());
                let view = policies.session(&session);
                inside.push(self.cells_of_view(&view).map_err(fault)?);
            }
        }
        let both = outside.iter().chain(&inside);
        let places: BTreeSet<&Place> = both.flat_map(BTreeMap::keys).collect();
        let levels = |found: &[Cells], place: &Place| -> Vec<AccessLevel> {
            let level = |cells: &Cells| match cells.get(place) {
                Some(decided) => decided.level.clone(),
                None => AccessLevel::Never,
            };
            found.iter().map(level).collect()
        };
        let all = places.into_iter().map(|place| {
            let decided = outside.iter().chain(&inside);
            let decided = decided.filter_map(|cells| cells.get(place));
            let (table, column, action) = place.clone();
            AccessPlace {
                levels: levels(&outside, place),
                in_templates: levels(&inside, place),
                by: decided.flat_map(|one| one.by.iter().cloned()).collect(),
                table,
                column,
                action,
            }
        });
        Ok(all.collect())
    }

    /// Whether `principal` is `group`, or in it by the operator's entities.
    #[must_use]
    pub fn is_in(&self, principal: &Principal, group: &Principal) -> bool {
        self.policies.is_in(principal, group)
    }

    /// Every column of the catalog with its tags, in the catalog's order. Relations of the engine's own are left out.
    #[must_use]
    pub fn known_columns(&self) -> Vec<KnownColumn> {
        let mut out = Vec::new();
        for relation in self.catalog.relations() {
            // SQLite keeps these names for tables of its own.
            let is_of_sqlite =
                self.catalog.dialect() == Dialect::Sqlite && relation.name.starts_with("sqlite_");
            if relation.system.is_some() || is_of_sqlite {
                continue;
            }
            for (id, column) in relation.column_ids() {
                out.push(KnownColumn {
                    table: relation.uid.clone(),
                    column: column.name.to_string(),
                    tags: self.policies.tags(id),
                    is_enumerated: super::access_table::is_enumerated(relation),
                });
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::AccessLevel::{
        AllRows, Allowed, Masked, NameOnly, Never, NoRows, Nulls, Plain, SomeRows, Token,
    };

    #[test]
    fn what_cannot_be_compared_is_never_within() {
        let last = || Masked("last(4)".to_owned());
        let tenant = || SomeRows("tenant == 1".to_owned());
        let five = || Allowed(", at most 5 rows".to_owned());
        let free = || Allowed(String::new());
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
        ] {
            assert_eq!(new.is_within(&old), expected, "{new:?}, {old:?}");
        }
    }
}
