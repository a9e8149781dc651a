//! The conditions of policies with the values that they had, for whoever asks why a policy applied.

use cedar_policy::{Entities, Expression, Policy, Request, eval_expression};
use serde::Serialize;
use serde_json::Value;

use crate::catalog::{ColumnId, RelationId};
use crate::policy::{
    cedar::{
        by_action::covers_any,
        entities::{action_uid, resource},
        failure::Failure,
        request::Subject,
        schema::PolicyAction,
    },
    review::{mutant::describe, what_if::each},
    set::Loaded,
};

/// A `when` or `unless` of a policy, and the values of its parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConditionValues {
    /// The policy's id.
    pub policy: String,
    /// The table or column that was asked about, as policies name it; none where the condition looks at neither.
    pub resource: Option<String>,
    /// `when { … }` or `unless { … }`, on one line.
    pub clause: String,
    /// Its parts between `&&` and `||`, and the attributes that these look at, each with its value.
    pub parts: Vec<ConditionPart>,
}

/// A part of a condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConditionPart {
    /// As the policy has it.
    pub text: String,
    /// Its value, as Cedar writes it; in words where there is none.
    pub value: String,
}

/// What a policy was asked about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AskedPolicy<'a> {
    pub(crate) policy: &'a str,
    pub(crate) relation: Option<RelationId>,
    pub(crate) column: Option<ColumnId>,
}

/// The conditions of each policy in `asked` with their values for `subject`; those that look at no resource once.
///
/// # Errors
/// If Cedar does not take what there is to look at, which would be a defect of ours.
pub(in crate::policy) fn find_values(
    loaded: &Loaded,
    subject: &Subject,
    asked: &[AskedPolicy<'_>],
) -> Result<Vec<ConditionValues>, Failure> {
    let mut out: Vec<ConditionValues> = Vec::new();
    for one in asked {
        let Some(policy) = each(&loaded.policies).find(|policy| {
            let id: &str = policy.id().as_ref();
            id == one.policy
        }) else {
            continue;
        };
        let Ok(json) = policy.to_json() else {
            continue;
        };
        let relation = one.relation.and_then(|id| loaded.catalog.relation(id));
        let column = one.column.and_then(|id| loaded.catalog.column(id));
        let about = match (relation, column) {
            (_, Some(column)) => Some(("Column", column.uid.as_str())),
            (Some(relation), None) => Some(("Table", relation.uid.as_str())),
            (None, None) => None,
        };
        let entities = match relation {
            Some(relation) => subject.entities_about(loaded, relation)?,
            None => subject.entities.clone(),
        };
        let (kind, id) = about.unwrap_or(("Table", ""));
        let world = World {
            request: Request::new(
                subject.uid.clone(),
                action_uid(PolicyAction::Select)?,
                resource(kind, id)?,
                subject.context.clone(),
                None,
            )
            .map_err(Failure::new)?,
            entities: &entities,
            of_rows: is_of_rows(policy),
            has_resource: about.is_some(),
        };
        for condition in json
            .get("conditions")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let Some(body) = condition.get("body") else {
                continue;
            };
            let kind = condition.get("kind").and_then(Value::as_str);
            let found = ConditionValues {
                policy: one.policy.to_owned(),
                resource: about
                    .filter(|_| mentions(body, "resource") && !world.of_rows)
                    .map(|(_, id)| id.to_owned()),
                clause: format!("{} {{ {} }}", kind.unwrap_or_default(), describe(body)),
                parts: world.values(body),
            };
            if !out.contains(&found) {
                out.push(found);
            }
        }
    }
    Ok(out)
}

/// Whether the policy speaks of rows, which are not there before the statement runs.
fn is_of_rows(policy: &Policy) -> bool {
    covers_any(policy, PolicyAction::is_of_rows)
}

/// What expressions are evaluated over.
struct World<'w> {
    request: Request,
    entities: &'w Entities,
    of_rows: bool,
    /// Whether the resource is a table or a column. Of a function, it is not kept which one was asked about.
    has_resource: bool,
}

impl World<'_> {
    /// The parts of `body`, and the attributes that they look at.
    fn values(&self, body: &Value) -> Vec<ConditionPart> {
        let mut leaves = Vec::new();
        collect_leaves(body, &mut leaves);
        let mut parts: Vec<ConditionPart> = Vec::new();
        let mut add = |expr: &Value| {
            // What looks at a resource that is not known has no value.
            if mentions(expr, "resource") && !self.has_resource && !self.of_rows {
                return;
            }
            let part = self.part(expr);
            if !parts.contains(&part) {
                parts.push(part);
            }
        };
        for leaf in leaves {
            add(leaf);
            let mut attributes = Vec::new();
            collect_attributes(leaf, &mut attributes);
            for attribute in attributes {
                // An attribute of a row is a column, of as many values as rows.
                if !(self.of_rows && mentions(attribute, "resource")) {
                    add(attribute);
                }
            }
        }
        parts
    }

    fn part(&self, expr: &Value) -> ConditionPart {
        let text = describe(expr);
        let value = if self.of_rows && mentions(expr, "resource") {
            "decided for each row".to_owned()
        } else {
            let value = text
                .parse::<Expression>()
                .map_err(|error| error.to_string())
                .and_then(|parsed| {
                    eval_expression(&self.request, self.entities, &parsed)
                        .map_err(|error| error.to_string())
                });
            match value {
                Ok(value) => value.to_string(),
                Err(why) => format!("none, {why}"),
            }
        };
        ConditionPart { text, value }
    }
}

/// The parts between `&&`, `||` and `!`.
fn collect_leaves<'v>(expr: &'v Value, out: &mut Vec<&'v Value>) {
    for operator in ["&&", "||"] {
        if let Some(sides) = expr.get(operator) {
            for side in ["left", "right"] {
                sides
                    .get(side)
                    .into_iter()
                    .for_each(|side| collect_leaves(side, out));
            }
            return;
        }
    }
    match expr.pointer("/!/arg") {
        Some(inner) => collect_leaves(inner, out),
        None => out.push(expr),
    }
}

/// `principal.a.b`, `context.c` and `resource.d` within `expr`, the longest of each.
fn collect_attributes<'v>(expr: &'v Value, out: &mut Vec<&'v Value>) {
    if let Some(access) = expr.get(".") {
        let mut root = access.get("left");
        while let Some(inner) = root.and_then(|root| root.pointer("/./left")) {
            root = Some(inner);
        }
        if root.is_some_and(|root| root.get("Var").is_some()) {
            out.push(expr);
            return;
        }
    }
    match expr {
        Value::Object(fields) => fields
            .values()
            .for_each(|field| collect_attributes(field, out)),
        Value::Array(items) => items.iter().for_each(|item| collect_attributes(item, out)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether an expression looks at this variable.
fn mentions(json: &Value, variable: &str) -> bool {
    match json {
        Value::Object(fields) => {
            fields.get("Var").and_then(Value::as_str) == Some(variable)
                || fields.values().any(|field| mentions(field, variable))
        }
        Value::Array(items) => items.iter().any(|item| mentions(item, variable)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::AskedPolicy;
    use crate::policy::tests::fixture::{agent, relation_id, set};

    /// The table that is named, and each part with its value.
    fn look(policy: &str) -> (Option<String>, Vec<String>) {
        let set = set(&format!("@id(\"p\") {policy}"));
        let asked = AskedPolicy {
            policy: "p",
            relation: Some(relation_id("tickets")),
            column: None,
        };
        let found = set.condition_values(&agent("bot"), &[asked]);
        let resource = found.first().and_then(|one| one.resource.clone());
        let parts = found.iter().flat_map(|one| &one.parts);
        let parts = parts.map(|part| format!("{} = {}", part.text, part.value));
        (resource, parts.collect())
    }

    #[test]
    fn a_permit_of_functions_tells_of_its_resource_by_its_text_alone() {
        let set = set(
            "@id(\"p\") permit(principal is Agent, action == Action::\"call\", resource) when { resource.safety == \"pure\" && principal has tenant };",
        );
        let asked = AskedPolicy {
            policy: "p",
            relation: None,
            column: None,
        };
        let found = set.condition_values(&agent("bot"), &[asked]);
        let parts = found.iter().flat_map(|one| &one.parts);
        let parts: Vec<String> = parts
            .map(|part| format!("{} = {}", part.text, part.value))
            .collect();
        assert_eq!(parts, ["principal has tenant = true"]);
        assert!(
            found
                .iter()
                .all(|one| one.clause.contains("resource.safety"))
        );
    }

    #[test]
    fn conditions_have_the_values_that_decided() {
        let select = "permit(principal, action == Action::\"select\", resource)";
        let see = "permit(principal, action == Action::\"see\", resource is row::main::tickets)";
        for (policy, resource, parts) in [
            (
                format!(
                    "{select} when {{ principal is Agent && principal has tenant && principal.tenant == 42 }};"
                ),
                None,
                &["principal.tenant == 42 = true", "principal.tenant = 42"][..],
            ),
            (
                format!("{select} when {{ !(resource == Table::\"main.customers\") }};"),
                Some("main.tickets"),
                &["resource == Table::\"main.customers\" = false"],
            ),
            // Rows are not there before the statement runs.
            (
                format!(
                    "{see} when {{ principal is Agent && principal has tenant && resource has tenant_id && resource.tenant_id == principal.tenant }};"
                ),
                None,
                &[
                    "resource.tenant_id == principal.tenant = decided for each row",
                    "principal.tenant = 42",
                ],
            ),
        ] {
            let (named, told) = look(&policy);
            assert_eq!(named.as_deref(), resource, "{policy}");
            for part in parts {
                assert!(told.iter().any(|one| one == part), "{policy}: {told:?}");
            }
        }
    }
}
