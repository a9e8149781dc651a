//! Checks of a policy set as it is loaded.

pub(in crate::policy) mod absent_views;
pub(in crate::policy) mod aggregate_exceptions;
pub(in crate::policy) mod attributes;
pub(in crate::policy) mod beaten_permits;
pub(in crate::policy) mod closed_words;
pub(in crate::policy) mod compared_literals;
pub(in crate::policy) mod constraint_oracles;
pub(in crate::policy) mod contradictions;
pub(in crate::policy) mod entity_ids;
pub(in crate::policy) mod hidden_views;
pub(in crate::policy) mod ignores;
pub(in crate::policy) mod masked_away;
pub(in crate::policy) mod memberless_roles;
pub(in crate::policy) mod missing_permits;
pub(in crate::policy) mod other_databases;
pub(in crate::policy) mod partitions;
pub(in crate::policy) mod plain_to_others;
pub(in crate::policy) mod policies;
pub(in crate::policy) mod probe;
pub(in crate::policy) mod row_literals;
pub(in crate::policy) mod sample;
pub(in crate::policy) mod statement_attributes;
pub(in crate::policy) mod system_permits;
pub(in crate::policy) mod trigger_permits;
pub(in crate::policy) mod undone_conditions;
pub(in crate::policy) mod unfiltered_children;
pub(in crate::policy) mod unread_views;
pub(in crate::policy) mod unseen_tables;
pub(in crate::policy) mod view_calls;
pub(in crate::policy) mod view_changes;

use cedar_policy::EntityUid;

use crate::policy::{
    load::{
        diagnostic::{PolicyProblem, Source},
        source::Origins,
    },
    rule::Rule,
};

/// The id of the principal of each type whom no entity names.
const UNKNOWN: &str = "(of whom nothing is known)";

/// How many names a message lists; it counts the others.
const LISTED: usize = 3;

/// A principal as a message calls it.
fn show_principal(uid: &EntityUid) -> String {
    match uid.id().unescaped() {
        UNKNOWN => format!("any `{}` that no entity names", uid.type_name()),
        _ => format!("`{uid}`"),
    }
}

/// Some names as a message lists them: `a`, `b` and 3 more.
pub(in crate::policy) fn list_names<N: AsRef<str>>(names: &[N]) -> String {
    let mut shown: Vec<String> = names
        .iter()
        .take(LISTED)
        .map(|name| format!("`{}`", name.as_ref()))
        .collect();
    match names.len().saturating_sub(LISTED) {
        0 => {}
        more => shown.push(format!("{more} more")),
    }
    match shown.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, before)) => format!("{} and {last}", before.join(", ")),
    }
}

/// A problem with the policy of this id.
fn place(origins: &Origins<'_>, id: &str, message: String) -> PolicyProblem {
    match origins.get(id) {
        Some(origin) => origin.problem(message),
        None => Source { name: id, text: "" }.problem_of_file(message),
    }
}

/// Adds the warnings of `check`, which are of `rule` where they do not say otherwise.
pub(in crate::policy) fn warn(
    rule: Rule,
    warnings: &mut Vec<PolicyProblem>,
    check: impl FnOnce(&mut Vec<PolicyProblem>),
) {
    let mut found = Vec::new();
    check(&mut found);
    warnings.extend(found.into_iter().map(|warning| warning.of_rule(rule)));
}

/// On how many relations policies are tried as they are loaded, beside what each says by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Lint {
    /// On as many as make 400 pairs with the kinds of principals, those first that policies name. The warnings say where there are more.
    #[default]
    Sample,
    /// On all: `palisade policy check`. The time grows with relations times kinds of principals.
    EveryRelation,
}
