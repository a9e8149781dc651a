//! What changes for whom between two versions of a policy folder.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use palisade::{
    firewall::{AccessClass, Firewall},
    session::Principal,
};
use serde::Serialize;

use crate::{
    folder::PolicyTests,
    load::{Corpus, OWN_POLICIES},
    run::{Answer, RunError, Runner},
};

/// What is different, the wider first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PolicyDiff {
    /// Each difference.
    pub changes: Vec<PolicyChange>,
}

/// One difference for one principal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct PolicyChange {
    /// Which way it goes.
    pub direction: Direction,
    /// Who.
    pub principal: String,
    /// The table or column and the action, or the case.
    pub of: String,
    /// As it was.
    pub old: String,
    /// As it is.
    pub new: String,
}

/// Which way a difference goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// What was not there is.
    NewlyPermitted,
    /// A column is shown with less of a mask, or without.
    Plainer,
    /// More rows are there.
    MoreRows,
    /// It is otherwise, and may be more.
    Otherwise,
    /// Less is there.
    Narrower,
}

impl Direction {
    /// Whether more may be seen or changed.
    #[must_use]
    pub fn is_wider(self) -> bool {
        match self {
            Self::NewlyPermitted | Self::Plainer | Self::MoreRows | Self::Otherwise => true,
            Self::Narrower => false,
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NewlyPermitted => "newly permitted",
            Self::Plainer => "plainer",
            Self::MoreRows => "more rows",
            Self::Otherwise => "otherwise",
            Self::Narrower => "narrower",
        })
    }
}

/// The value of a cell that is not there.
pub(crate) const NEVER: &str = "never";

impl PolicyTests {
    /// What differs from the policies of `old`, over the tables and cases of this folder.
    ///
    /// # Errors
    /// If policies do not load, each over these tables.
    pub fn compare_with(&self, old: &PolicyTests) -> Result<PolicyDiff, RunError> {
        let new = self.corpus();
        let mut before = Corpus {
            catalogs: new.catalogs.clone(),
            policies: old.corpus().policies.clone(),
            techniques: BTreeMap::new(),
            survivors: Vec::new(),
            servers: BTreeMap::new(),
            default_policies: new.default_policies.clone(),
            cases: new.cases.clone(),
        };
        before.cases.retain(|case| case.skip.is_none());
        let mut changes = BTreeSet::new();
        let runners = [
            Runner::over_catalogs(&before, OWN_POLICIES)?,
            Runner::over_catalogs(new, OWN_POLICIES)?,
        ];
        for catalog in new.catalogs.keys() {
            let [old, new] = &runners;
            let old = old.firewall_over(catalog, OWN_POLICIES)?;
            let new = new.firewall_over(catalog, OWN_POLICIES)?;
            let mut principals = old.known_principals();
            principals.extend(new.known_principals());
            let principals: BTreeSet<Principal> = principals.into_iter().collect();
            for principal in &principals {
                let fault = |source| RunError::Policies {
                    policies: OWN_POLICIES.to_owned(),
                    catalog: catalog.clone(),
                    source,
                };
                let was = cells(&old, principal).map_err(fault)?;
                let is = cells(&new, principal).map_err(fault)?;
                changes.extend(compare_cells(&was, &is, principal));
            }
        }
        let [old, new] = [Runner::new(&before)?, Runner::new(new)?];
        for case in &before.cases {
            let decided = old.decide(case).ok().zip(new.decide(case).ok());
            changes.extend(decided.and_then(|(was, is)| {
                let (direction, told) = compare_answers(&was, &is)?;
                let [old, new] = told;
                Some(PolicyChange {
                    direction,
                    principal: case.principal.to_string(),
                    of: format!("case {}", case.name),
                    old,
                    new,
                })
            }));
        }
        Ok(PolicyDiff {
            changes: changes.into_iter().collect(),
        })
    }
}

/// What a principal may do, by resource and action.
pub(crate) fn cells(
    firewall: &Firewall,
    principal: &Principal,
) -> Result<BTreeMap<(String, &'static str), String>, palisade::error::Error> {
    let classes = firewall.access_classes(std::slice::from_ref(principal))?;
    let cells = classes.into_iter().flat_map(|class| class.cells);
    Ok(cells
        .map(|cell| ((cell.resource(), cell.action), cell.value))
        .collect())
}

pub(crate) fn compare_cells(
    was: &BTreeMap<(String, &'static str), String>,
    is: &BTreeMap<(String, &'static str), String>,
    principal: &Principal,
) -> Vec<PolicyChange> {
    let places: BTreeSet<_> = was.keys().chain(is.keys()).collect();
    let mut changes = Vec::new();
    for place in places {
        let value = |cells: &BTreeMap<_, String>| {
            let value = cells.get(place);
            value.cloned().unwrap_or_else(|| NEVER.to_owned())
        };
        let (old, new) = (value(was), value(is));
        if old == new {
            continue;
        }
        let (resource, action) = place;
        changes.push(PolicyChange {
            direction: direction(&old, &new),
            principal: AccessClass::describe_member(principal),
            of: format!("{resource} {action}"),
            old,
            new,
        });
    }
    changes
}

/// Which way it goes from one value of a cell to another. What cannot be compared may be more.
pub(crate) fn direction(old: &str, new: &str) -> Direction {
    // Nothing is there.
    let rank = |value: &str| match value {
        NEVER | "hidden" | "no rows" => Some(0),
        "name only" => Some(1),
        "mask null" => Some(2),
        "plain" | "all rows" | "allow" => Some(9),
        _ => None,
    };
    match (rank(old), rank(new)) {
        (_, Some(0)) => Direction::Narrower,
        (Some(0), _) => Direction::NewlyPermitted,
        (_, Some(9)) if new == "all rows" => Direction::MoreRows,
        (_, Some(9)) => Direction::Plainer,
        (Some(9), _) => Direction::Narrower,
        (Some(before), Some(after)) if after < before => Direction::Narrower,
        (Some(2), None) => Direction::Plainer,
        (None, Some(2)) => Direction::Narrower,
        (_, _) => Direction::Otherwise,
    }
}

fn compare_answers(was: &Answer, is: &Answer) -> Option<(Direction, [String; 2])> {
    let told = |answer: &Answer| match answer.code {
        Some(code) => code.slug().to_owned(),
        None => "allow".to_owned(),
    };
    let direction = match (was.code, is.code) {
        (Some(_), None) => Direction::NewlyPermitted,
        (None, Some(_)) => Direction::Narrower,
        // What is shown otherwise is told of its columns and rows.
        (None, None) | (Some(_), Some(_)) => return None,
    };
    Some((direction, [told(was), told(is)]))
}

#[cfg(test)]
mod tests {
    use super::{Direction, direction};

    #[test]
    fn what_cannot_be_compared_may_be_more() {
        for (old, new, expected) in [
            ("never", "plain", Direction::NewlyPermitted),
            ("hidden", "mask null", Direction::NewlyPermitted),
            ("no rows", "tenant == 1", Direction::NewlyPermitted),
            ("mask last(4)", "plain", Direction::Plainer),
            ("mask null", "mask last(4)", Direction::Plainer),
            ("tenant == 1", "all rows", Direction::MoreRows),
            ("tenant == 1", "tenant == 2", Direction::Otherwise),
            ("mask last(4)", "mask first(4)", Direction::Otherwise),
            (
                "plain or hidden, by a",
                "mask null or hidden, by a",
                Direction::Otherwise,
            ),
            (
                "allow, at most 5 rows",
                "allow, at most 6 rows",
                Direction::Otherwise,
            ),
            ("plain", "mask last(4)", Direction::Narrower),
            ("mask last(4)", "mask null", Direction::Narrower),
            ("all rows", "tenant == 1", Direction::Narrower),
            ("plain", "hidden", Direction::Narrower),
            ("allow", "name only", Direction::Narrower),
            ("tenant == 1", "never", Direction::Narrower),
        ] {
            assert_eq!(direction(old, new), expected, "{old}, {new}");
        }
    }
}
