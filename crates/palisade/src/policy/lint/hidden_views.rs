//! Views that a forbid hides whole, since it asks of each row whether another is seen: rows of views cannot say.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use cedar_policy::PolicyId;
use serde_json::Value;

use crate::catalog::{Relation, RelationKind};
use crate::policy::{
    cedar::{
        row_verdict::Rows,
        schema::{PolicyAction, row_type},
        seen_attribute::{SUFFIX, find_seen_attribute},
    },
    lint::{list_names, place},
    load::{diagnostic::PolicyProblem, source::Origins},
    obligation::RowFilter,
    rule::Rule,
    set::Loaded,
};

/// Such views.
#[derive(Default)]
pub(in crate::policy) struct HiddenViews {
    /// By the forbid and the attribute that it asks for.
    found: BTreeMap<(String, String), Views>,
    /// By forbid, the attributes that it asks for.
    asked: HashMap<String, BTreeSet<String>>,
}

/// Views that one forbid hides.
#[derive(Default)]
struct Views {
    names: BTreeSet<String>,
    /// Types of rows of those whose tables are read with the permits of who asks.
    followed: BTreeSet<String>,
}

impl HiddenViews {
    /// Looks at `relation`, which somebody may select, and of which that principal sees `seen`.
    pub(in crate::policy) fn look(&mut self, loaded: &Loaded, relation: &Relation, seen: &Rows) {
        let is_followed = match relation.kind {
            RelationKind::View => true,
            RelationKind::Materialized => false,
            RelationKind::Table | RelationKind::Virtual | RelationKind::System => return,
        };
        if seen.unforbidden != RowFilter::Nothing {
            return;
        }
        for id in &seen.forbidding {
            let asked = self.asked.entry(id.clone());
            let asked = asked.or_insert_with(|| list_asked(loaded, id));
            let lacking = asked
                .iter()
                .filter(|name| find_seen_attribute(&loaded.catalog, relation, name).is_none());
            for attribute in lacking {
                let views = self.found.entry((id.clone(), attribute.clone()));
                let views = views.or_default();
                views.names.insert(relation.uid.clone());
                if is_followed {
                    views.followed.insert(row_type(relation));
                }
            }
        }
    }

    /// The views that a warning is about.
    pub(in crate::policy) fn names(&self) -> BTreeSet<String> {
        let all = self.found.values();
        all.flat_map(|views| views.names.iter().cloned()).collect()
    }

    /// The warnings: one for each policy and attribute.
    pub(in crate::policy) fn report(
        self,
        origins: &Origins<'_>,
        warnings: &mut Vec<PolicyProblem>,
    ) {
        for ((id, attribute), Views { names, followed }) in self.found {
            let names: Vec<String> = names.into_iter().collect();
            let (views, have) = match names.as_slice() {
                [_] => ("view", "has"),
                [] | [_, _, ..] => ("views", "have"),
            };
            let message = format!(
                "`{id}` hides all rows of the {views} {}, which {have} no `{attribute}`",
                list_names(&names)
            );
            let help = match followed.is_empty() {
                false => {
                    let exempt: Vec<String> = (followed.iter())
                        .map(|row_type| format!("resource is {row_type}"))
                        .collect();
                    format!(
                        "the tables below a view follow by themselves, so leave it out: `unless {{ {} || … }}`",
                        exempt.join(" || ")
                    )
                }
                true => "its rows were computed for everybody: filter them by a column that they have, and leave the view out of this"
                    .to_owned(),
            };
            let warning = place(origins, &id, message).with_help(Some(&help));
            warnings.push(warning.of_rule(Rule::NoRows));
        }
    }
}

/// The attributes of rows for which the conditions of a policy ask by `has`, of those that say whether another row is seen.
fn list_asked(loaded: &Loaded, id: &str) -> BTreeSet<String> {
    let policies = loaded.policies.for_action(PolicyAction::See);
    let policy = policies.and_then(|policies| policies.policy(&PolicyId::new(id)));
    let json = policy.and_then(|policy| policy.to_json().ok());
    let mut asked = BTreeSet::new();
    if let Some(conditions) = json.as_ref().and_then(|json| json.get("conditions")) {
        collect(conditions, &mut asked);
    }
    asked
}

fn collect(json: &Value, out: &mut BTreeSet<String>) {
    match json {
        Value::Object(fields) => {
            for (operator, operands) in fields {
                let of = operands.get("left").and_then(|left| left.get("Var"));
                let attribute = operands.get("attr").and_then(Value::as_str);
                if let (true, Some("resource"), Some(attribute)) =
                    (operator == "has", of.and_then(Value::as_str), attribute)
                    && attribute.ends_with(SUFFIX)
                {
                    out.insert(attribute.to_owned());
                }
                collect(operands, out);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, out)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::sync::Arc;

    use crate::{
        catalog::test_ddl,
        policy::{ColumnFlow, Lint, PolicyFile, PolicySet, PolicySources},
    };

    const SCHEMA: &str = "
        CREATE TABLE orders (id integer PRIMARY KEY, tenant integer NOT NULL);
        CREATE TABLE items (id integer PRIMARY KEY, order_id integer NOT NULL REFERENCES orders (id));
        CREATE VIEW overdue AS SELECT id, order_id FROM items;";

    fn told(condition: &str) -> Vec<String> {
        let policies = format!(
            "permit(principal, action, resource);
             @id(\"of-order\") forbid(principal, action == Action::\"see\", resource in HasColumn::\"order_id\") unless {{ {condition} }};
             forbid(principal, action == Action::\"see\", resource is row::public::orders) unless {{ resource.tenant == 1 }};"
        );
        let sources = PolicySources {
            policies: vec![PolicyFile {
                name: "base.cedar".to_owned(),
                text: policies,
            }],
            ..PolicySources::default()
        };
        let catalog = Arc::new(test_ddl::postgres(SCHEMA, "main").unwrap());
        let flow = ColumnFlow::default();
        let set = PolicySet::load_and_lint(&sources, &catalog, &flow, Lint::EveryRelation).unwrap();
        let told = set.warnings().iter().map(|warning| {
            let help = warning.help.clone().unwrap_or_default();
            format!("{}; {help}", warning.message)
        });
        told.filter(|told| told.contains("overdue")).collect()
    }

    #[test]
    fn views_that_a_forbid_of_children_hides_are_warned_of() {
        let recipe = "resource has order_id_is_seen && resource.order_id_is_seen";
        assert_eq!(
            told(recipe),
            [
                "`of-order` hides all rows of the view `public.overdue`, which has no `order_id_is_seen`; \
              the tables below a view follow by themselves, so leave it out: `unless { resource is row::public::overdue || … }`"
            ]
        );
        assert_eq!(
            told(&format!("resource is row::public::overdue || {recipe}")),
            [""; 0]
        );
        // What hides all of it otherwise is named where it is said that no row is seen.
        let found = told("principal == Agent::\"nobody\"");
        assert!(
            matches!(found.as_slice(), [one] if one.contains("no principal sees a row of it; `of-order` forbids all of its rows")),
            "{found:?}"
        );
    }
}
