//! Checks of a policy set as it is loaded.

pub(in crate::policy) mod aggregate_exceptions;
pub(in crate::policy) mod attributes;
pub(in crate::policy) mod beaten_permits;
pub(in crate::policy) mod closed_words;
pub(in crate::policy) mod compared_literals;
pub(in crate::policy) mod constraint_oracles;
pub(in crate::policy) mod contradictions;
pub(in crate::policy) mod entity_ids;
pub(in crate::policy) mod ignores;
pub(in crate::policy) mod memberless_roles;
pub(in crate::policy) mod missing_permits;
pub(in crate::policy) mod other_databases;
pub(in crate::policy) mod partitions;
pub(in crate::policy) mod probe;
pub(in crate::policy) mod row_literals;
pub(in crate::policy) mod statement_attributes;
pub(in crate::policy) mod system_permits;
pub(in crate::policy) mod trigger_permits;
pub(in crate::policy) mod undone_conditions;
pub(in crate::policy) mod view_changes;

use crate::policy::{load::diagnostic::PolicyProblem, rule::Rule};

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
    /// On some hundreds, those first that policies name. The warnings say where there are more.
    #[default]
    Sample,
    /// On all: `palisade policy check`. The time grows with relations times kinds of principals.
    EveryRelation,
}
