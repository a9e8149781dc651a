//! Permits of changes that a trigger makes useless: a change that sets off a trigger needs a permit of calling it, by name.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalog::{Change, Relation, Trigger};
use crate::policy::{
    cedar::request::Subject,
    decide::{functions, writes::WriteDecision},
    load::{
        diagnostic::{PolicyProblem, Source},
        source::Origins,
    },
    set::Loaded,
};

/// Triggers that changes set off, by who may make these changes.
#[derive(Default)]
pub(in crate::policy) struct TriggerPermits {
    /// By table and function.
    found: BTreeMap<(String, String), SetOff>,
}

/// What is known of one trigger.
#[derive(Default)]
struct SetOff {
    /// Whether somebody who may make such a change may call it.
    is_callable: bool,
    /// The changes that are permitted and set it off.
    changes: BTreeSet<Change>,
    /// The columns of which an update has to assign one; none where any does.
    columns: Option<BTreeSet<String>>,
    /// The first policy that permits one of the changes.
    policy: Option<String>,
}

impl TriggerPermits {
    /// Looks at the triggers of `relation` for `subject`. Where a policy fails, the call is refused alike.
    pub(in crate::policy) fn look(
        &mut self,
        loaded: &Loaded,
        subject: &Subject,
        relation: &Relation,
        write: &WriteDecision,
    ) {
        for trigger in &relation.triggers {
            for change in &trigger.on {
                let action = write.action(*change);
                if !action.permitted || !sets_off(trigger, *change, relation, write, loaded) {
                    continue;
                }
                let uid = trigger.uid(loaded.catalog.dialect());
                let may_call = loaded.catalog.function(&uid).is_some_and(|def| {
                    functions::decide_call(loaded, subject, def).is_ok_and(|one| one.permitted)
                });
                let found = self.found.entry((relation.uid.clone(), uid)).or_default();
                found.is_callable |= may_call;
                found.changes.insert(*change);
                found.columns = match change {
                    Change::Update if found.changes.len() == 1 && !trigger.columns.is_empty() => {
                        Some(trigger.columns.clone())
                    }
                    Change::Insert | Change::Update | Change::Delete | Change::Truncate => None,
                };
                if found.policy.is_none() {
                    found.policy = action.policies.first().cloned();
                }
            }
        }
    }

    /// The warnings.
    pub(in crate::policy) fn report(
        self,
        origins: &Origins<'_>,
        warnings: &mut Vec<PolicyProblem>,
    ) {
        for ((table, trigger), found) in self.found {
            if found.is_callable {
                continue;
            }
            let changes: Vec<&str> = found.changes.iter().map(|change| change.name()).collect();
            let of = match &found.columns {
                Some(columns) => {
                    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
                    format!(" of {}", columns.join(", "))
                }
                None => String::new(),
            };
            let message = format!(
                "each {}{of} of `{table}` is refused: it sets off `{trigger}`, and no policy permits calling that to whoever may make the change",
                changes.join(" and ")
            );
            let help = format!(
                "write `permit (principal, action == Action::\"call\", resource == Function::\"{}\");`, once you have read what it does",
                trigger.replace('\\', "\\\\").replace('"', "\\\"")
            );
            let id = found.policy.unwrap_or_default();
            let problem = match origins.get(&id) {
                Some(origin) => origin.problem(message),
                None => Source {
                    name: &id,
                    text: "",
                }
                .problem_of_file(message),
            };
            warnings.push(problem.with_help(Some(help)));
        }
    }
}

/// Whether `change` sets off `trigger`, of an update in some of the columns that may be assigned.
fn sets_off(
    trigger: &Trigger,
    change: Change,
    relation: &Relation,
    write: &WriteDecision,
    loaded: &Loaded,
) -> bool {
    let is_assigned = |column: &String| {
        let index = relation.position(&loaded.catalog.dialect().fold(column));
        // What is not known counts.
        index.is_none_or(|index| write.assigns(index))
    };
    match change {
        Change::Update => trigger.columns.is_empty() || trigger.columns.iter().any(is_assigned),
        Change::Insert | Change::Delete | Change::Truncate => true,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::{collections::BTreeSet, sync::Arc};

    use crate::{
        catalog::{Catalog, Change, Trigger},
        dialect::Dialect,
        policy::{ColumnFlow, Lint, PolicySet, PolicySources, tests::fixture::table},
    };

    /// What is said of triggers, where `policies` stand in lines behind a permit of reading.
    fn told(policies: &str) -> Vec<String> {
        let trigger = |name: &str, on: &[Change], columns: &[&str]| Trigger {
            schema: "main".to_owned(),
            function: name.to_owned(),
            on: on.iter().copied().collect(),
            columns: columns
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<BTreeSet<_>>(),
        };
        let mut orders = table("orders", &["id", "title", "price"]);
        orders.triggers = vec![
            trigger("log_orders", &[Change::Insert, Change::Delete], &[]),
            trigger("log_price", &[Change::Update], &["price"]),
        ];
        let catalog = Catalog::builder(Dialect::Sqlite)
            .relation(orders)
            .build()
            .unwrap();
        let sources = PolicySources::from_cedar("base.cedar", policies);
        let flow = ColumnFlow::default();
        let set =
            PolicySet::load_and_lint(&sources, &Arc::new(catalog), &flow, Lint::EveryRelation);
        let set = set.unwrap();
        let warnings = set.warnings().iter().map(ToString::to_string);
        warnings.filter(|told| told.contains("sets off")).collect()
    }

    const ALL: &str = "permit(principal, action in [Action::\"select\", Action::\"see\", Action::\"read\", Action::\"write\", Action::\"change\", Action::\"add\"], resource);\n";

    #[test]
    fn changes_that_a_trigger_refuses_are_warned_of() {
        let insert = format!("{ALL}permit(principal, action == Action::\"insert\", resource);\n");
        assert_eq!(
            told(&insert),
            [
                "base.cedar:2:1: each insert of `main.orders` is refused: it sets off `main.log_orders`, and no policy permits calling that to whoever may make the change\n  help: write `permit (principal, action == Action::\"call\", resource == Function::\"main.log_orders\");`, once you have read what it does"
            ]
        );
        // A permit of all functions names no trigger.
        let broad = "permit(principal, action == Action::\"call\", resource);";
        assert_eq!(told(&format!("{insert}{broad}")).len(), 1);
        let named = "permit(principal, action == Action::\"call\", resource == Function::\"main.log_orders\");";
        assert_eq!(told(&format!("{insert}{named}")), [""; 0]);
        assert_eq!(told(ALL), [""; 0]);
    }

    #[test]
    fn a_trigger_of_columns_is_told_of_where_they_may_be_assigned() {
        let update = "permit(principal, action in [Action::\"select\", Action::\"see\", Action::\"read\", Action::\"update\", Action::\"change\", Action::\"add\"], resource);\n";
        let write = |column: &str| {
            format!(
                "{update}permit(principal, action == Action::\"write\", resource == Column::\"main.orders.{column}\");"
            )
        };
        assert_eq!(told(&write("title")), [""; 0]);
        let found = told(&write("price"));
        assert!(
            matches!(found.as_slice(), [one] if one.contains("each update of price of `main.orders` is refused: it sets off `main.log_price`")),
            "{found:?}"
        );
    }
}
