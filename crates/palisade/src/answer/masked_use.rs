//! Masks that a statement worked with. A reader takes an average of masks for one of values unless it is told.

use std::borrow::Cow;

use crate::{
    access::{Usage, Usages},
    answer::{
        Sensitivity, detect,
        scan_session::{NO_ROWS, Notice},
    },
};

/// What stands in the place of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Replacement {
    /// Its values, in aggregates over so many of them or more, and nowhere else.
    Groups(u32),
    /// NULL, where aggregates over so many values or more would see them.
    NullBesideGroups(u32),
    /// NULL through a view, where aggregates would see the values of the table below.
    NullThroughView,
    /// Tokens: equal ones stand for equal values.
    Tokens,
    /// A mask, of which equal ones may stand for different values, or nothing at all.
    Mask,
}

impl Replacement {
    /// Whether a comparison with it says nothing of the values.
    pub(crate) fn hides_values(self) -> bool {
        match self {
            Self::Groups(_) | Self::NullBesideGroups(_) | Self::NullThroughView | Self::Mask => {
                true
            }
            Self::Tokens => false,
        }
    }
}

/// What masks or tokens were used for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MaskedUse {
    /// A column of a relation that the statement names.
    Column {
        /// `customers.email`.
        name: String,
        replacement: Replacement,
        usages: Usages,
    },
    /// Conditions, groups or joins of a view that the statement names.
    View { name: String },
    /// A table whose rows policy hides, all of them: a count is 0, and nothing else says why.
    NoRows,
}

/// The slug of notices of masked columns.
const SLUG: &str = "masked_column";

impl MaskedUse {
    /// Whether it may be why no row came back: a condition that would hold for values does not hold for masks.
    pub(crate) fn may_empty(&self) -> bool {
        match self {
            Self::Column {
                name: _,
                replacement:
                    Replacement::Mask
                    | Replacement::Groups(_)
                    | Replacement::NullBesideGroups(_)
                    | Replacement::NullThroughView,
                usages,
            } => usages.contains(Usage::Filter) || usages.contains(Usage::Join),
            // Tokens are compared as the values for which they stand.
            Self::Column {
                name: _,
                replacement: Replacement::Tokens,
                usages: _,
            } => false,
            Self::View { name: _ } => true,
            // The filters tell of it themselves.
            Self::NoRows => false,
        }
    }

    /// How many bytes its text takes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Column {
                name,
                replacement: _,
                usages: _,
            }
            | Self::View { name } => name.len(),
            Self::NoRows => 0,
        }
    }

    /// The notice of it. A name in which a detector finds something is left out.
    pub(crate) fn notice(&self) -> Notice {
        let shown = |name: &str| {
            let is_harmless = detect(name.as_bytes(), Sensitivity::default()).is_empty();
            is_harmless.then(|| name.to_owned())
        };
        let quoted = |name: &Option<String>, other: &str| {
            name.as_ref()
                .map_or_else(|| other.to_owned(), |name| format!("`{name}`"))
        };
        match self {
            Self::Column {
                name,
                replacement,
                usages,
            } => {
                let name = shown(name);
                let usages: Vec<Usage> = usages
                    .iter()
                    .filter(|usage| phrase(*usage).is_some())
                    .collect();
                let (state, them) = match replacement {
                    Replacement::Mask => ("masked", "the mask"),
                    Replacement::Tokens => ("tokenised", "a token"),
                    Replacement::Groups(smallest) => {
                        let told = format!(
                            "is shown in aggregates alone: those over fewer than {smallest} values are NULL"
                        );
                        return groups_notice(name, &usages, &told);
                    }
                    Replacement::NullBesideGroups(smallest) => {
                        let told = format!(
                            "is NULL here: COUNT, SUM and AVG alone see it, over {smallest} values or more"
                        );
                        return groups_notice(name, &usages, &told);
                    }
                    Replacement::NullThroughView => {
                        let told = "is NULL through this view: COUNT, SUM and AVG alone see it, over the table below the view";
                        return groups_notice(name, &usages, told);
                    }
                };
                let phrases: Vec<String> = usages
                    .iter()
                    // What an aggregate gives is in the answer.
                    .filter(|usage| **usage != Usage::Output || !usages.contains(&Usage::Aggregate))
                    .filter_map(|usage| Some(phrase(*usage)?.replace('*', them)))
                    .collect();
                let column = quoted(&name, "a column");
                Notice {
                    notice: SLUG,
                    column: name,
                    usage: usages.into_iter().map(Usage::name).collect(),
                    count: 1,
                    message: Cow::Owned(format!("{column} is {state}: {}.", phrases.join("; "))),
                }
            }
            Self::View { name } => {
                let name = shown(name);
                let view = quoted(&name, "a view");
                Notice {
                    notice: SLUG,
                    column: None,
                    usage: vec![Usage::View.name()],
                    count: 1,
                    message: Cow::Owned(format!(
                        "Below {view}, values are masked: its own conditions, joins or groups used the masks."
                    )),
                }
            }
            Self::NoRows => Notice {
                notice: NO_ROWS,
                column: None,
                usage: Vec::new(),
                count: 1,
                message: Cow::Borrowed(
                    "Policy shows you no row of a table that the statement reads: a count of them is 0, whatever there is.",
                ),
            },
        }
    }
}

/// What is told of the column `name`, which aggregates alone see.
fn groups_notice(name: Option<String>, usages: &[Usage], told: &str) -> Notice {
    let column = name
        .as_ref()
        .map_or_else(|| "a column".to_owned(), |name| format!("`{name}`"));
    Notice {
        notice: SLUG,
        column: name,
        usage: usages.iter().copied().map(Usage::name).collect(),
        count: 1,
        message: Cow::Owned(format!("{column} {told}.")),
    }
}

/// Whether a reader is told of any of these usages: nothing is said of what a view alone reads.
pub(crate) fn is_told(usages: Usages) -> bool {
    usages.iter().any(|usage| phrase(usage).is_some())
}

/// What was done, with `*` for the word for the masks; none of what a reader need not know.
fn phrase(usage: Usage) -> Option<&'static str> {
    match usage {
        // Of a derived table as well, whose columns may not be in the answer.
        Usage::Output => Some("* stands for its values"),
        Usage::Filter => Some("the condition compared *"),
        Usage::Join => Some("the join compared *"),
        Usage::Group => Some("the groups were made by *"),
        Usage::Order => Some("the order is that of *"),
        Usage::Aggregate => Some("the aggregate was computed from *"),
        Usage::View | Usage::Write => None,
    }
}
