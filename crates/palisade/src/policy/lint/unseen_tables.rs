//! Tables that can be selected and of which no row is seen: by no principal at all, or by one whom the permit names.
//!
//! Of one principal it is told only where no permit of `see` could show it a row in other circumstances: permits that look at
//! the principal's attributes or at the context show what these say.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use cedar_policy::{Effect, EntityUid, Policy, PrincipalConstraint};
use serde_json::Value;

use crate::catalog::Relation;
use crate::policy::{
    cedar::{
        entities::{resource, row_ancestors},
        request::Subject,
        row_verdict::Rows,
        schema,
        schema::PolicyAction,
    },
    lint::{list_names, memberless_roles::collect_asked, place, show_principal},
    load::{diagnostic::PolicyProblem, source::Origins},
    obligation::RowFilter,
    rule::Rule,
    set::Loaded,
};

const HELP: &str = "permit `Action::\"see\"` on its rows";

/// What to do about forbids that hide all rows.
const FORBIDDEN: &str = "say `unless` when rows are seen, or take the permit of `select` away";

/// Tables that can be selected, by who sees rows of them.
#[derive(Default)]
pub(in crate::policy) struct UnseenTables {
    by_relation: BTreeMap<String, Selectable>,
    /// By policy of `select`: whether it names principals.
    naming: HashMap<String, bool>,
    /// By policy of `see`: whether it looks at circumstances.
    looking: HashMap<String, bool>,
}

/// What is known of a table that can be selected.
struct Selectable {
    /// Whether anybody sees a row.
    seen: bool,
    /// Those that let it be selected first.
    policies: Vec<String>,
    /// Forbids that take all of its rows from somebody whom permits show some.
    forbids: BTreeSet<String>,
    /// By principal: whether it sees a row, or why it sees none is no mistake; and a policy that names it and lets it select.
    by_principal: BTreeMap<EntityUid, (bool, Option<String>)>,
}

impl UnseenTables {
    /// Notes a table that a principal may select by `policies`, and whether it sees a row of it.
    pub(in crate::policy) fn note(&mut self, relation: &Relation, policies: &[String], seen: bool) {
        let known = self.entry(relation, policies);
        known.seen |= seen;
    }

    /// Notes the forbids that hide all rows of a table which somebody may select, of whom `rows` are decided.
    pub(in crate::policy) fn note_forbids(&mut self, relation: &Relation, rows: &Rows) {
        let permits = rows.policies.difference(&rows.forbidding).next().is_some();
        if rows.unforbidden == RowFilter::Nothing
            && permits
            && let Some(known) = self.by_relation.get_mut(&relation.uid)
        {
            known.forbids.extend(rows.forbidding.iter().cloned());
        }
    }

    /// Notes whether `subject`, whom the entities name, sees a row.
    pub(in crate::policy) fn note_of_principal(
        &mut self,
        loaded: &Loaded,
        subject: &Subject,
        relation: &Relation,
        (policies, rows): (&[String], &Rows),
        seen: bool,
    ) {
        let known = self.entry(relation, policies);
        let of_principal = known.by_principal.get(&subject.uid);
        if of_principal.is_some_and(|(seen, _)| *seen) {
            return;
        }
        let naming = &mut self.naming;
        let mut names = |id: &&String| {
            let names = || names_principal(loaded, id);
            *naming.entry((*id).clone()).or_insert_with(names)
        };
        let named = policies.iter().find(|id| !seen && names(id)).cloned();
        let seen = seen || named.is_none() || self.may_be_meant(loaded, subject, relation, rows);
        let known = self.entry(relation, policies);
        known
            .by_principal
            .insert(subject.uid.clone(), (seen, named));
    }

    fn entry(&mut self, relation: &Relation, policies: &[String]) -> &mut Selectable {
        self.by_relation
            .entry(relation.uid.clone())
            .or_insert_with(|| Selectable {
                seen: false,
                policies: policies.to_vec(),
                forbids: BTreeSet::new(),
                by_principal: BTreeMap::new(),
            })
    }

    /// Whether there is a reason for `subject` to see no row that an author may have meant.
    fn may_be_meant(
        &mut self,
        loaded: &Loaded,
        subject: &Subject,
        relation: &Relation,
        rows: &Rows,
    ) -> bool {
        if rows.unforbidden == RowFilter::Nothing || !rows.untranslatable.is_empty() {
            return true;
        }
        // What cannot be found out is no reason to warn.
        let Ok(row_type) = schema::row_type(relation).parse() else {
            return true;
        };
        let ancestors = row_ancestors(&loaded.catalog, &loaded.tags, relation);
        let uids: Vec<EntityUid> = ancestors
            .iter()
            .filter_map(|(kind, id)| resource(kind, id).ok())
            .collect();
        let Ok(policies) = loaded
            .policies
            .about_rows(PolicyAction::See, &row_type, &uids)
        else {
            return true;
        };
        policies.policies().any(|policy| {
            policy.effect() == Effect::Permit
                && admits(policy, subject)
                && *self
                    .looking
                    .entry(policy.id().to_string())
                    .or_insert_with(|| {
                        let json = policy.to_json().ok();
                        json.is_none_or(|json| looks_at_circumstances(&json))
                    })
        })
    }

    /// The warnings, but those of tables that are `told` of already.
    pub(in crate::policy) fn report(
        self,
        told: &BTreeSet<String>,
        origins: &Origins<'_>,
        warnings: &mut Vec<PolicyProblem>,
    ) {
        let mut by_policy: BTreeMap<String, (EntityUid, Vec<String>)> = BTreeMap::new();
        for (relation, known) in self.by_relation {
            if !known.seen {
                if told.contains(&relation) {
                    continue;
                }
                let id = known.policies.first().map_or("", String::as_str);
                let message =
                    format!("`{relation}` can be selected, but no principal sees a row of it");
                let forbids: Vec<&String> = known.forbids.iter().collect();
                let help = match forbids.as_slice() {
                    [] => HELP.to_owned(),
                    [_] => format!(
                        "{} forbids all of its rows: {FORBIDDEN}",
                        list_names(&forbids)
                    ),
                    [_, _, ..] => format!(
                        "{} forbid all of its rows: {FORBIDDEN}",
                        list_names(&forbids)
                    ),
                };
                let warning = place(origins, id, message).with_help(Some(&help));
                warnings.push(warning.of_rule(Rule::NoRows));
                continue;
            }
            for (principal, (seen, policy)) in known.by_principal {
                if let (false, Some(policy)) = (seen, policy) {
                    let (of, relations) = by_policy
                        .entry(policy)
                        .or_insert_with(|| (principal.clone(), Vec::new()));
                    // Of several principals the first is told of.
                    if *of == principal {
                        relations.push(relation.clone());
                    }
                }
            }
        }
        for (id, (principal, relations)) in by_policy {
            let message = format!(
                "{} can be selected by {}, which sees no row of it: others see some",
                list_names(&relations),
                show_principal(&principal)
            );
            let help = "permit `Action::\"see\"` on its rows to whomever this policy lets select it, or let only those select it who see rows";
            let warning = place(origins, &id, message).with_help(Some(help));
            warnings.push(warning.of_rule(Rule::NoRows));
        }
    }
}

/// Whether the scope of `policy` admits the principal.
fn admits(policy: &Policy, subject: &Subject) -> bool {
    let uid = &subject.uid;
    let is_within = |role: &EntityUid| {
        role == uid
            || subject
                .entities
                .ancestors(uid)
                .into_iter()
                .flatten()
                .any(|above| above == role)
    };
    match policy.principal_constraint() {
        PrincipalConstraint::Any => true,
        PrincipalConstraint::Is(kind) => kind == *uid.type_name(),
        PrincipalConstraint::Eq(one) => one == *uid,
        PrincipalConstraint::In(role) => is_within(&role),
        PrincipalConstraint::IsIn(kind, role) => kind == *uid.type_name() && is_within(&role),
    }
}

/// Whether the scope or a condition of the policy asks who the principal is, or in which role.
fn names_principal(loaded: &Loaded, id: &str) -> bool {
    let policies = loaded.policies.for_action(PolicyAction::Select);
    let id = cedar_policy::PolicyId::new(id);
    let Some(policy) = policies.and_then(|policies| policies.policy(&id)) else {
        return false;
    };
    match policy.principal_constraint() {
        PrincipalConstraint::Eq(_)
        | PrincipalConstraint::In(_)
        | PrincipalConstraint::IsIn(_, _) => true,
        PrincipalConstraint::Any | PrincipalConstraint::Is(_) => {
            let mut asked = BTreeSet::new();
            if let Some(conditions) = policy
                .to_json()
                .ok()
                .as_ref()
                .and_then(|j| j.get("conditions"))
            {
                collect_asked(conditions, &mut asked);
            }
            !asked.is_empty()
        }
    }
}

/// Whether a condition looks at an attribute of the principal, or at the context.
fn looks_at_circumstances(json: &Value) -> bool {
    match json {
        Value::Object(fields) => fields.iter().any(|(operator, operands)| {
            let variable = |name: &str| {
                let left = operands.get("left").and_then(|left| left.get("Var"));
                left.and_then(Value::as_str) == Some(name)
            };
            let is_access = matches!(operator.as_str(), "." | "has" | "hasTag" | "getTag");
            (is_access && (variable("principal") || variable("context")))
                || looks_at_circumstances(operands)
        }),
        Value::Array(items) => items.iter().any(looks_at_circumstances),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::tests::fixture::lint;

    const ENTITIES: &str = r#"[
      {"uid": {"type": "Role", "id": "analyst"}, "attrs": {}, "parents": []},
      {"uid": {"type": "Role", "id": "support"}, "attrs": {}, "parents": []},
      {"uid": {"type": "Agent", "id": "ann"}, "attrs": {}, "parents": [{"type": "Role", "id": "analyst"}]},
      {"uid": {"type": "Agent", "id": "sue"}, "attrs": {}, "parents": [{"type": "Role", "id": "support"}]}
    ]"#;

    #[test]
    fn tables_without_rows_for_one_of_several_are_warned_of() {
        let permit = |role: &str, actions: &str, rest: &str| {
            let actions: Vec<String> = actions
                .split(' ')
                .map(|action| format!("Action::\"{action}\""))
                .collect();
            format!(
                "permit(principal{role}, action in [{}], resource{rest};\n",
                actions.join(", ")
            )
        };
        let analyst = permit(
            " in Role::\"analyst\"",
            "select see read_plain",
            " in Schema::\"main\")",
        );
        let support = " in Role::\"support\"";
        let both = ") when { resource in [Table::\"main.tickets\", Table::\"main.customers\"] }";
        let tickets = " in Table::\"main.tickets\")";
        let told = |policies: &str| -> Vec<String> {
            let told = lint(&format!("{analyst}{policies}"), Some(ENTITIES)).into_iter();
            told.filter(|told| told.contains("sees no row")).collect()
        };
        let found = told(&format!(
            "{}{}",
            permit(support, "select read_plain", both),
            permit(support, "see", tickets)
        ));
        assert!(
            matches!(found.as_slice(), [one] if one.starts_with("base.cedar:2:1: `main.customers` can be selected by `Agent::\"sue\"`, which sees no row of it")),
            "{found:?}"
        );
        for silent in [
            // It sees them by this or another policy.
            permit(support, "select see read_plain", both),
            format!(
                "{}{}",
                permit(support, "select read_plain", both),
                permit("", "see", ")")
            ),
            // What it sees depends on what it has, or on how it asks.
            format!(
                "{}{}",
                permit(support, "select read_plain", tickets),
                permit(
                    "",
                    "see",
                    " is row::main::tickets) when { principal is Agent && principal has tenant && resource has tenant_id && resource.tenant_id == principal.tenant }"
                )
            ),
            format!(
                "{}{}",
                permit(support, "select read_plain", tickets),
                permit("", "see", ") when { context has template }")
            ),
            // All rows are forbidden on purpose.
            format!(
                "{}forbid(principal in Role::\"support\", action == Action::\"see\", resource);",
                permit(support, "select see read_plain", both)
            ),
            // All may select, and some see.
            permit("", "select read_plain", ")"),
        ] {
            assert_eq!(told(&silent), [""; 0], "{silent}");
        }
    }
}
