//! What changes for whom between two versions of a policy folder.

use std::{
    borrow::Cow,
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Write as _},
};

use palisade::{
    code::Code,
    firewall::{AccessClass, Firewall},
    policy::ApprovalLevel,
    session::Principal,
};
use serde::Serialize;

use crate::{
    case::Case,
    folder::PolicyTests,
    load::{Corpus, OWN_POLICIES},
    progress::Progress,
    run::{Answer, RunError, Runner},
    witness::{Differing, Holds, Pair, Witness, list_differing},
};

/// So many wider cells are shown by cases.
const MAX_WITNESSES: usize = 10;

/// What is different, the wider first.
#[derive(Debug, Clone, Default, Serialize)]
pub struct PolicyDiff {
    /// Each difference.
    pub changes: Vec<PolicyChange>,
    /// Cases that hold with the newer policies alone, up to ten: one for each cell that is wider and that a statement
    /// shows, whoever sees it.
    pub witnesses: Vec<Witness>,
    /// What the newer tests no longer have, or have otherwise; it was compared as the older ones have it.
    pub dropped: Vec<String>,
    /// Over how many tables policies were compared.
    pub compared: usize,
    /// Why policies could not be compared over other tables, one entry for each.
    pub undecided: Vec<String>,
}

impl PolicyDiff {
    /// Of the tables of both folders, how many in a hundred are undecided.
    #[must_use]
    pub fn undecided_percent(&self) -> f64 {
        share(self.undecided.len(), self.compared)
    }
}

/// How many in a hundred `undecided` are beside `decided`.
pub(crate) fn share(undecided: usize, decided: usize) -> f64 {
    // Counts are far below 2^52.
    #[expect(clippy::cast_precision_loss, reason = "a share for people")]
    let percent = 100.0 * undecided as f64 / (decided + undecided).max(1) as f64;
    percent
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
    /// It waits for a lower approval, or for none.
    LessApproval,
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
            Self::NewlyPermitted
            | Self::Plainer
            | Self::MoreRows
            | Self::LessApproval
            | Self::Otherwise => true,
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
            Self::LessApproval => "with less approval",
            Self::Otherwise => "otherwise",
            Self::Narrower => "narrower",
        })
    }
}

/// The value of a cell that is not there.
pub(crate) const NEVER: &str = "never";

impl PolicyTests {
    /// What differs from the policies of `old`, over the tables and cases of both folders: what the newer tests no longer
    /// have is compared too. Tables of one name that differ are compared as each folder has them.
    ///
    /// # Errors
    /// If policies do not load over the tables of their own folder, or neither of both over any.
    pub fn compare_with(&self, old: &PolicyTests) -> Result<PolicyDiff, RunError> {
        let mut changes = BTreeSet::new();
        let mut diff = PolicyDiff {
            dropped: list_dropped(old.corpus(), self.corpus()),
            ..PolicyDiff::default()
        };
        let mut first_fault = None;
        for ground in list_grounds(old.corpus(), self.corpus()) {
            let load = |tests: &PolicyTests| {
                let corpus = ground.with_policies(tests.corpus());
                Runner::over_folder(&corpus, OWN_POLICIES)
            };
            let (before, after) = match (load(old), load(self), ground.whose) {
                (Ok(before), Ok(after), _) => (before, after),
                (Err(fault), _, Whose::Old) | (_, Err(fault), Whose::New) => return Err(fault),
                (Err(fault @ RunError::Policies { .. }), _, Whose::New)
                | (_, Err(fault @ RunError::Policies { .. }), Whose::Old) => {
                    let text = fault.to_string();
                    let line = text.lines().next().unwrap_or_default();
                    diff.undecided.push(match ground.whose {
                        Whose::New => format!(
                            "the old policies do not load over the newer tables `{}`: {line}",
                            ground.catalog
                        ),
                        Whose::Old => format!(
                            "the new policies do not load over the older tables `{}`: {line}",
                            ground.catalog
                        ),
                    });
                    first_fault.get_or_insert(fault);
                    continue;
                }
                (Err(fault), _, Whose::New) | (_, Err(fault), Whose::Old) => return Err(fault),
            };
            diff.compared += 1;
            let pair = Pair {
                old: &before,
                new: &after,
                holds: Holds::WithNew,
                corpus: self.corpus(),
                catalog: ground.catalog,
                why: &|about| {
                    about.map_or_else(String::new, |one| {
                        let Differing { place, was, is, .. } = one;
                        format!(
                            "Of `{}`, {} was {was} and is {is}.",
                            place.resource(),
                            place.action
                        )
                    })
                },
                named: "wider".to_owned(),
            };
            for mut change in ground.compare(&pair, &mut diff.witnesses, self.progress())? {
                // What was found over the newer tables is found once.
                if ground.is_of_both_names && !changes.contains(&change) {
                    let _ = write!(change.of, ", over `{}` as it was", ground.catalog);
                }
                changes.insert(change);
            }
        }
        if let (0, Some(fault)) = (diff.compared, first_fault) {
            return Err(fault);
        }
        diff.changes = changes.into_iter().collect();
        Ok(diff)
    }
}

/// Whose tests tables are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Old,
    New,
}

/// Tables that two folders are compared over, with the cases about them.
struct Ground<'g> {
    catalog: &'g String,
    text: &'g String,
    whose: Whose,
    /// Whether the other folder has other tables of this name, which were compared before.
    is_of_both_names: bool,
    cases: Vec<Case>,
}

impl Ground<'_> {
    /// A folder of these tables and cases, by the policies of `corpus`.
    fn with_policies(&self, corpus: &Corpus) -> Corpus {
        Corpus {
            catalogs: BTreeMap::from([(self.catalog.clone(), self.text.clone())]),
            policies: corpus.policies.clone(),
            techniques: BTreeMap::new(),
            survivors: Vec::new(),
            servers: BTreeMap::new(),
            default_policies: corpus.default_policies.clone(),
            cases: self.cases.clone(),
        }
    }

    fn compare(
        &self,
        pair: &Pair<'_>,
        witnesses: &mut Vec<Witness>,
        progress: &Progress,
    ) -> Result<Vec<PolicyChange>, RunError> {
        let (before, after) = (pair.old, pair.new);
        let mut changes = Vec::new();
        // What several principals see is shown once.
        let mut told = BTreeSet::new();
        let old = before.firewall_over(self.catalog, OWN_POLICIES)?;
        let new = after.firewall_over(self.catalog, OWN_POLICIES)?;
        let mut principals = old.known_principals();
        principals.extend(new.known_principals());
        let principals: BTreeSet<Principal> = principals.into_iter().collect();
        let count = progress.count("principals", principals.len());
        for principal in &principals {
            count.add_one();
            let fault = |source| RunError::Policies {
                policies: OWN_POLICIES.to_owned(),
                catalog: self.catalog.clone(),
                source,
            };
            let was = cells(&old, principal).map_err(fault)?;
            let is = cells(&new, principal).map_err(fault)?;
            changes.extend(compare_cells(&was, &is, principal));
            // Only the newer policies' own tables have a place for a case.
            if self.whose == Whose::Old {
                continue;
            }
            for one in list_differing(principal, [&was, &is], &new) {
                let cell = (one.place.clone(), one.was.clone(), one.is.clone());
                if witnesses.len() < MAX_WITNESSES
                    && direction(&one.was, &one.is).is_wider()
                    && told.insert(cell)
                {
                    witnesses.extend(pair.find_permitted(&new, &one));
                }
            }
        }
        for case in &self.cases {
            let decided = before.decide(case).ok().zip(after.decide(case).ok());
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
        Ok(changes)
    }
}

/// The tables of both folders, those of `new` first, each with the cases of both about tables of the name.
fn list_grounds<'g>(old: &'g Corpus, new: &'g Corpus) -> Vec<Ground<'g>> {
    let cases = |catalog: &String| {
        let both = new.cases.iter().chain(&old.cases);
        let asked = both.filter(|case| case.skip.is_none() && case.catalog == *catalog);
        let mut known = BTreeSet::new();
        let once = asked.filter(|case| known.insert(question(case)));
        once.cloned().collect()
    };
    let ground = |(catalog, text): (&'g String, &'g String), whose, is_of_both_names| Ground {
        catalog,
        text,
        whose,
        is_of_both_names,
        cases: cases(catalog),
    };
    let newer = new.catalogs.iter();
    let newer = newer.map(|named| ground(named, Whose::New, false));
    let older = old.catalogs.iter();
    let older = older.filter_map(|named| match new.catalogs.get(named.0) {
        Some(same) if same == named.1 => None,
        other => Some(ground(named, Whose::Old, other.is_some())),
    });
    newer.chain(older).collect()
}

/// What a case asks; equal where two cases ask the same under one name.
fn question(case: &Case) -> String {
    format!(
        "{:?}",
        (
            &case.name,
            &case.principal,
            (&case.sql, &case.template),
            &case.params,
            case.at,
            case.transport,
            &case.limits,
            &case.token_lifetime,
            case.expect.shown.is_some(),
        )
    )
}

/// The tables and cases that `new` lacks, for people.
fn list_dropped(old: &Corpus, new: &Corpus) -> Vec<String> {
    let kept: BTreeSet<&str> = (new.cases.iter())
        .filter(|case| case.skip.is_none())
        .map(|case| case.name.as_str())
        .collect();
    let catalogs = (old.catalogs.keys()).filter(|name| !new.catalogs.contains_key(*name));
    let changed = (old.catalogs.iter())
        .filter(|(name, text)| new.catalogs.get(*name).is_some_and(|new| new != *text));
    let cases =
        (old.cases.iter()).filter(|case| case.skip.is_none() && !kept.contains(case.name.as_str()));
    catalogs
        .map(|name| format!("the tables `{name}` are gone"))
        .chain(changed.map(|(name, _)| format!("the tables `{name}` are others")))
        .chain(cases.map(|case| format!("the case `{}` is gone", case.name)))
        .collect()
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
    let ((old, old_approval), (new, new_approval)) = (split_approval(old), split_approval(new));
    let less_approval = new_approval < old_approval;
    if old == new {
        return match (less_approval, new_approval > old_approval) {
            (true, _) => Direction::LessApproval,
            (false, true) => Direction::Narrower,
            (false, false) => Direction::Otherwise,
        };
    }
    match direction_of_amounts(&old, &new) {
        // Less is there, and it comes more easily.
        Direction::Narrower if less_approval && !is_nothing(&new) => Direction::Otherwise,
        direction @ (Direction::NewlyPermitted
        | Direction::Plainer
        | Direction::MoreRows
        | Direction::LessApproval
        | Direction::Otherwise
        | Direction::Narrower) => direction,
    }
}

/// A value without what it says of an approval, and the approval. A value that circumstances decide is left as it is.
fn split_approval(value: &str) -> (Cow<'_, str>, Option<ApprovalLevel>) {
    let whole = (Cow::Borrowed(value), None);
    let Some((amount, rest)) = value.split_once(", after approval (") else {
        return whole;
    };
    let Some((word, caps)) = rest.split_once(')') else {
        return whole;
    };
    // `at most 5 rows or refused` is a cap.
    let decides = amount.contains(" or ") || caps.replace(" or refused", "").contains(" or ");
    match (ApprovalLevel::parse(word), decides) {
        (Some(level), false) => (Cow::Owned(format!("{amount}{caps}")), Some(level)),
        (Some(_), true) | (None, _) => whole,
    }
}

/// Whether nothing is there by a value.
fn is_nothing(value: &str) -> bool {
    matches!(value, NEVER | "hidden" | "no rows") || value.starts_with("never: ")
}

fn direction_of_amounts(old: &str, new: &str) -> Direction {
    let rank = |value: &str| match value {
        // Or a policy fails to evaluate.
        value if is_nothing(value) => Some(0),
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
        Some(code) => match answer.approval {
            Some(approval) => format!("{code} ({})", approval.word()),
            None => code.slug().to_owned(),
        },
        None => "allow".to_owned(),
    };
    let direction = match (was.code, is.code) {
        (Some(Code::ApprovalRequired), None) => Direction::LessApproval,
        (Some(Code::ApprovalRequired), Some(Code::ApprovalRequired)) => {
            match is.approval.cmp(&was.approval) {
                Ordering::Less => Direction::LessApproval,
                Ordering::Greater => Direction::Narrower,
                Ordering::Equal => return None,
            }
        }
        (Some(_), None | Some(Code::ApprovalRequired)) => Direction::NewlyPermitted,
        (Some(Code::ApprovalRequired), Some(_)) => Direction::Narrower,
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
            (
                "allow",
                "never: quota fails to evaluate",
                Direction::Narrower,
            ),
            (
                "never: quota fails to evaluate",
                "allow",
                Direction::NewlyPermitted,
            ),
            ("allow", "never or allow, by a", Direction::Narrower),
            (
                "allow, after approval (operator), at most 1 rows",
                "allow, after approval (required), at most 1 rows",
                Direction::LessApproval,
            ),
            (
                "allow, after approval (required), at most 5 rows or refused",
                "allow, at most 5 rows or refused",
                Direction::LessApproval,
            ),
            (
                "plain",
                "plain, after approval (required)",
                Direction::Narrower,
            ),
            (
                "plain, after approval (required)",
                "mask null",
                Direction::Otherwise,
            ),
            (
                "plain, after approval (required)",
                "hidden",
                Direction::Narrower,
            ),
            (
                "mask null",
                "plain, after approval (operator)",
                Direction::Plainer,
            ),
            (
                "never",
                "plain, after approval (operator)",
                Direction::NewlyPermitted,
            ),
            (
                "allow, after approval (required) or never, by a",
                "allow or never, after approval (required), by a",
                Direction::Otherwise,
            ),
            ("never", "never or allow, by a", Direction::NewlyPermitted),
        ] {
            assert_eq!(direction(old, new), expected, "{old}, {new}");
        }
    }
}
