//! Policies without which every principal sees and may do the same: each is taken away in turn, and what is left is compared.

use std::collections::{BTreeMap, BTreeSet};

use crate::firewall::{AccessLevel, AccessPlace, Firewall};
use crate::{
    error::Error,
    policy::{
        Mutant, Mutation, PolicyEffect, PolicyProblem, PolicySources, Rule, mutate, silence_deep,
    },
};

/// What a deep check finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeepCheck {
    /// Each policy that changes nothing, and why.
    pub warnings: Vec<PolicyProblem>,
    /// The policies that were not checked, by id, and why not.
    pub unchecked: BTreeMap<String, String>,
}

/// Other policies that a warning names.
const NAMED: usize = 3;

/// What every principal may do, by who it is.
type Table = Vec<Vec<AccessPlace>>;

impl Firewall {
    /// Finds policies without which each principal that is known sees and may do the same, over this catalog and these entities.
    /// The time grows with policies times principals times tables.
    ///
    /// Where a policy cannot be evaluated for somebody, which [the other warnings](crate::policy::Rule::EvaluationFails) tell of, nothing
    /// can be compared: no policy is checked then.
    #[must_use]
    pub fn check_deeply(&self) -> DeepCheck {
        let mutants = mutate(&self.sources);
        let removals: Vec<&Mutant> = mutants
            .iter()
            .filter(|mutant| mutant.mutation == Mutation::Removed)
            .collect();
        let mut found = DeepCheck {
            warnings: Vec::new(),
            unchecked: BTreeMap::new(),
        };
        let Ok(before) = self.list_access() else {
            let why = "a policy fails to evaluate, so that nothing can be compared";
            let all = removals.iter();
            found.unchecked = all
                .map(|removal| (removal.policy.clone(), why.to_owned()))
                .collect();
            return found;
        };
        let without_forbids = self.without_forbids(&removals);
        for removal in &removals {
            let id = &removal.policy;
            let why = self.why_not_enumerated(id);
            if !why.is_empty() {
                found.unchecked.insert(id.clone(), why.join("; "));
                continue;
            }
            let less = self.renewed(self.catalog.as_ref().clone(), removal.apply(&self.sources));
            let Ok(less) = less else {
                let why = "without it the policies do not load".to_owned();
                found.unchecked.insert(id.clone(), why);
                continue;
            };
            match self.is_alike(&before, &less) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(_) => {
                    let why = "without it a policy fails to evaluate".to_owned();
                    found.unchecked.insert(id.clone(), why);
                    continue;
                }
            }
            let applies = |table: &Table| {
                let mut places = table.iter().flatten();
                places.any(|place| place.by.contains(id))
            };
            let (rule, message) = match (self.policies.effect(id), applies(&before)) {
                (Some(PolicyEffect::Forbid), true) => (
                    Rule::Redundant,
                    match self.name_others(id, &before) {
                        None => "without this forbid the same is not permitted".to_owned(),
                        Some(others) => {
                            format!(
                                "without this forbid the same is forbidden by {others}, or not permitted"
                            )
                        }
                    },
                ),
                (_, true) => (
                    Rule::Shadowed,
                    match self.name_others(id, &before) {
                        None => "other permits give all that this one does".to_owned(),
                        Some(others) => format!("all that this permits is permitted by {others}"),
                    },
                ),
                (Some(PolicyEffect::Permit), false)
                    if without_forbids.as_ref().is_some_and(applies) =>
                {
                    (
                        Rule::Overridden,
                        "forbids take away all that this permits".to_owned(),
                    )
                }
                (_, false) => (
                    Rule::Vacuous,
                    "this applies to no principal and table that there is".to_owned(),
                ),
            };
            let help = "take it away, or correct whom or what it is about";
            let problem = removal.problem(&self.sources, &message);
            found
                .warnings
                .push(problem.with_help(Some(help)).of_rule(rule));
        }
        silence_deep(&self.sources, &mut found.warnings);
        found
    }

    /// What an enumeration of principals, tables and columns does not tell of the policy called `id`; empty if it tells all.
    #[must_use]
    pub fn why_not_enumerated(&self, id: &str) -> Vec<String> {
        let policies = &self.policies;
        let mut why = Vec::new();
        if policies.looks_at_circumstances(id) {
            why.push(
                "it looks at circumstances, and which of them come together is not enumerated"
                    .to_owned(),
            );
        } else if policies.demands_vary() {
            why.push("circumstances decide about masks, tokens, caps or approvals of other policies, and which of them come together is not enumerated".to_owned());
        }
        if policies.asks_for_approval(id) {
            why.push("it demands an approval, which is not enumerated".to_owned());
        }
        let beyond = policies.actions_beyond_tables(id);
        if !beyond.is_empty() {
            let beyond = beyond.join(", ");
            why.push(format!("its actions {beyond} are not enumerated"));
        }
        let tables: BTreeSet<String> = (self.known_columns().into_iter())
            .filter(|column| column.is_enumerated)
            .map(|column| column.table)
            .collect();
        for table in policies.tables_named_by(id) {
            let is_known = tables.iter().any(|known| {
                let rest = table.strip_prefix(known.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            });
            if !is_known {
                why.push(format!("it names `{table}`, which is not enumerated"));
            }
        }
        why
    }

    pub(super) fn list_access(&self) -> Result<Table, Error> {
        let principals = self.known_principals();
        let each = principals.iter();
        each.map(|principal| self.access_places(principal))
            .collect()
    }

    /// The policies of the same effect and about the same that decide where the policy called `id` does; none if there are none.
    fn name_others(&self, id: &str, places: &Table) -> Option<String> {
        let effect = self.policies.effect(id);
        let decided = places.iter().flatten();
        let decided = decided.filter(|place| place.by.contains(id));
        let others: BTreeSet<&str> = decided
            .flat_map(|place| &place.by)
            .filter(|other| *other != id && self.policies.effect(other) == effect)
            .filter(|other| self.policies.share_action(id, other))
            .map(String::as_str)
            .collect();
        let shown: Vec<String> = others
            .iter()
            .take(NAMED)
            .map(|other| format!("`{other}`"))
            .collect();
        let more = others.len().saturating_sub(NAMED);
        match (shown.as_slice(), more) {
            ([], _) => None,
            (shown, 0) => Some(shown.join(", ")),
            (shown, more) => Some(format!("{} and {more} more", shown.join(", "))),
        }
    }

    /// Whether each principal may do the same by `other`.
    fn is_alike(&self, before: &Table, other: &Self) -> Result<bool, Error> {
        for (principal, was) in self.known_principals().iter().zip(before) {
            let is = other.access_places(principal)?;
            if visible(was) != visible(&is) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What every principal may do without any forbid; none if the policies do not load so.
    fn without_forbids(&self, removals: &[&Mutant]) -> Option<Table> {
        let mut sources: PolicySources = self.sources.clone();
        // From the end, so that the places of earlier ones stay.
        for removal in removals.iter().rev() {
            if self.policies.effect(&removal.policy) == Some(PolicyEffect::Forbid) {
                sources = removal.apply(&sources);
            }
        }
        let open = self.renewed(self.catalog.as_ref().clone(), sources).ok()?;
        open.list_access().ok()
    }
}

/// A place, and what is there outside of templates and within.
type Visible<'p> = BTreeMap<(&'p str, Option<&'p str>, &'p str), [&'p [AccessLevel]; 2]>;

/// What is there, without places where nothing is.
pub(super) fn visible(places: &[AccessPlace]) -> Visible<'_> {
    let is_there = |place: &&AccessPlace| {
        let mut levels = place.levels.iter().chain(&place.in_templates);
        levels.any(|level| *level != AccessLevel::Never)
    };
    let seen = places.iter().filter(is_there);
    seen.map(|place| {
        let key = (place.table.as_str(), place.column.as_deref(), place.action);
        let levels = [place.levels.as_slice(), place.in_templates.as_slice()];
        (key, levels)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use crate::{firewall::tests::ledger, policy::Rule};

    fn told(policies: &str) -> Vec<String> {
        let found = ledger(policies).check_deeply();
        let told = found.warnings.iter();
        told.map(|problem| {
            let rule = problem.rule.map_or("", Rule::slug);
            format!("{} {rule}: {}", problem.line.unwrap_or(0), problem.message)
        })
        .collect()
    }

    const READ: &str = r#"@id("read") permit(principal, action in [Action::"select", Action::"see", Action::"read"], resource);"#;

    #[test]
    fn a_policy_that_changes_nothing_is_told_with_those_that_decide_as_it_does() {
        for (policies, expected) in [
            ("", &[][..]),
            (
                r#"@id("again") permit(principal, action == Action::"select", resource == Table::"main.notes");"#,
                &["2 shadowed: all that this permits is permitted by `read`"],
            ),
            (
                r#"@id("other") permit(principal, action == Action::"delete", resource == Table::"main.notes");
@id("again") permit(principal, action == Action::"select", resource == Table::"main.notes");"#,
                &["3 shadowed: all that this permits is permitted by `read`"],
            ),
            (
                r#"@id("one") forbid(principal, action in Action::"read", resource == Column::"main.notes.tenant_id");
@id("two") forbid(principal, action == Action::"read_plain", resource == Column::"main.notes.tenant_id");
@id("three") forbid(principal, action == Action::"read_masked", resource == Column::"main.notes.tenant_id");"#,
                &[
                    "2 redundant: without this forbid the same is forbidden by `three`, `two`, or not permitted",
                    "3 redundant: without this forbid the same is forbidden by `one`, or not permitted",
                    "4 redundant: without this forbid the same is forbidden by `one`, or not permitted",
                ],
            ),
        ] {
            assert_eq!(told(&format!("{READ}\n{policies}")), expected, "{policies}");
        }
    }

    #[test]
    fn a_comment_silences_what_a_deep_check_finds() {
        let again =
            r#"permit(principal, action == Action::"select", resource == Table::"main.notes");"#;
        let ignore = "// palisade:ignore shadowed It stays when the other goes.";
        assert!(told(&format!("{READ}\n{ignore}\n{again}")).is_empty());
        assert_eq!(
            told(&format!("{ignore}\n{READ}")),
            ["1 ignore-unused: this ignores no warning of `shadowed`"]
        );
    }
}
