//! Permits of rows that undo the condition of another: what one permit shows, no other permit hides.

use std::collections::{BTreeMap, HashMap};

use cedar_policy::{Effect, PrincipalConstraint, ResourceConstraint};
use serde_json::Value;

use crate::policy::{
    cedar::{
        by_action::covers,
        schema::{PolicyAction, ROW_NAMESPACE},
    },
    load::{diagnostic::PolicyProblem, source::Located},
};

/// What a permit is for: an action, a type of rows, and principals. Nothing stands for all.
type Scope = (PolicyAction, Option<String>, Option<String>);

/// Warns of each permit of rows without a condition on the row, where another permits some of the same rows to the same
/// principals by a condition.
pub(in crate::policy) fn check(located: &[Located<'_>], warnings: &mut Vec<PolicyProblem>) {
    let mut wide: HashMap<Scope, usize> = HashMap::new();
    for (index, located) in located.iter().enumerate() {
        let is_wide = !looks_at(located, "resource") && !looks_at(located, "principal");
        if let Some((rows, principals)) = scope(located).filter(|_| is_wide) {
            for action in of_rows(located) {
                wide.entry((action, rows.clone(), principals.clone()))
                    .or_insert(index);
            }
        }
    }
    // By the permit that undoes: the first of those whose condition it undoes, of what rows, and how many there are.
    let mut undone: BTreeMap<usize, (&Located<'_>, String, usize)> = BTreeMap::new();
    for narrow in located {
        let Some((Some(rows), principals)) = scope(narrow) else {
            continue;
        };
        if !looks_at(narrow, "resource") {
            continue;
        }
        for action in of_rows(narrow) {
            let scopes = [
                (action, Some(rows.clone()), principals.clone()),
                (action, Some(rows.clone()), None),
                (action, None, principals.clone()),
                (action, None, None),
            ];
            if let Some(index) = scopes.iter().find_map(|scope| wide.get(scope)) {
                let (_, _, count) = undone
                    .entry(*index)
                    .or_insert_with(|| (narrow, rows.clone(), 0));
                *count += 1;
                break;
            }
        }
    }
    for (index, (narrow, rows, count)) in undone {
        let Some(wide) = located.get(index) else {
            continue;
        };
        let others = match count {
            1 => String::new(),
            count => format!(", and those of {} others", count - 1),
        };
        let when = match wide.conditions().and_then(Value::as_array) {
            Some(conditions) if !conditions.is_empty() => "where this one's condition holds, ",
            Some(_) | None => "",
        };
        let message = format!(
            "{when}this permits every row of `{rows}`, so that the condition of `{}` has no effect{others}",
            narrow.policy.id()
        );
        let help = "narrow this permit's principal or resource, or write the condition as a forbid, which holds whatever is permitted";
        warnings.push(wide.origin.problem(message).with_help(Some(help)));
    }
}

/// The rows and the principals of a permit of rows, where those are all or are named by one type or entity.
fn scope(located: &Located<'_>) -> Option<(Option<String>, Option<String>)> {
    let policy = &located.policy;
    if policy.effect() != Effect::Permit || of_rows(located).next().is_none() {
        return None;
    }
    let rows = match policy.resource_constraint() {
        ResourceConstraint::Any => None,
        ResourceConstraint::Is(kind) => {
            let kind = kind.to_string();
            let rows = kind.strip_prefix(ROW_NAMESPACE)?.strip_prefix("::")?;
            Some(rows.replace("::", "."))
        }
        ResourceConstraint::Eq(_) | ResourceConstraint::In(_) | ResourceConstraint::IsIn(_, _) => {
            return None;
        }
    };
    let principals = match policy.principal_constraint() {
        PrincipalConstraint::Any => None,
        PrincipalConstraint::Is(kind) => Some(format!("is {kind}")),
        PrincipalConstraint::In(group) => Some(format!("in {group}")),
        PrincipalConstraint::Eq(one) => Some(format!("== {one}")),
        PrincipalConstraint::IsIn(kind, group) => Some(format!("is {kind} in {group}")),
    };
    Some((rows, principals))
}

/// The actions on rows that a policy is about.
fn of_rows<'l>(located: &'l Located<'_>) -> impl Iterator<Item = PolicyAction> + 'l {
    let actions = PolicyAction::filter(PolicyAction::is_of_rows);
    actions.filter(|action| covers(&located.policy, *action))
}

/// Whether a condition names this variable. What cannot be written down may name any.
fn looks_at(located: &Located<'_>, variable: &str) -> bool {
    located.policy.has_non_scope_constraint()
        && located
            .conditions()
            .is_none_or(|conditions| names_variable(conditions, variable))
}

fn names_variable(json: &Value, variable: &str) -> bool {
    match json {
        Value::Object(fields) => {
            fields.get("Var").and_then(Value::as_str) == Some(variable)
                || fields.values().any(|field| names_variable(field, variable))
        }
        Value::Array(items) => items.iter().any(|item| names_variable(item, variable)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::tests::fixture::set;

    const TENANT: &str = "@id(\"tenant\") permit(principal, action == Action::\"see\", resource is row::main::tickets)
        when { resource has tenant_id && resource.tenant_id == 1 };";

    fn warnings(policies: &str) -> Vec<String> {
        let told = set(policies);
        let told = told.warnings().iter().map(ToString::to_string);
        told.filter(|warning| warning.contains("has no effect"))
            .collect()
    }

    #[test]
    fn a_permit_that_undoes_a_condition_is_warned_of() {
        for (wide, warned) in [
            (
                "permit(principal, action == Action::\"see\", resource);",
                true,
            ),
            ("permit(principal, action, resource);", true),
            (
                "permit(principal, action in [Action::\"select\", Action::\"see\"], resource)
                 when { context has template && context.template == \"a\" };",
                true,
            ),
            (
                "permit(principal, action == Action::\"see\", resource is row::main::tickets);",
                true,
            ),
            (
                "permit(principal, action == Action::\"see\", resource is row::main::customers);",
                false,
            ),
            (
                "permit(principal is User, action == Action::\"see\", resource);",
                false,
            ),
            (
                "permit(principal, action == Action::\"see\", resource) when { principal == User::\"a\" };",
                false,
            ),
            (
                "permit(principal, action == Action::\"select\", resource);",
                false,
            ),
            (
                "forbid(principal, action == Action::\"see\", resource);",
                false,
            ),
        ] {
            let told = warnings(&format!("{TENANT}\n{wide}"));
            assert_eq!(told.len(), usize::from(warned), "{wide}: {told:?}");
            assert!(
                told.iter().all(|told| told.contains(
                    "every row of `main.tickets`, so that the condition of `tenant` has"
                )),
                "{told:?}"
            );
        }
    }
}
