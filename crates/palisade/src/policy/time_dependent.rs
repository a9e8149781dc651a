//! What depends on the time of a request: decided each time, and never remembered. Everything else of such a
//! session is what it is without a time.

use std::collections::{BTreeSet, HashMap};

use cedar_policy::{PartialEntityUid, PartialRequest, PolicyId};

use crate::catalog::Relation;
use crate::policy::{
    cedar::{
        by_action::Slices,
        context_use::{TIME, looks_at},
        entities::{action_uid, resource, without_columns},
        failure::Failure,
        request::Subject,
        schema,
        schema::PolicyAction,
        seen_attribute::collect_parents,
    },
    load::annotation::Annotations,
    set::Loaded,
};

/// The actions some of whose policies look at the time.
pub(in crate::policy) fn actions(policies: &Slices) -> BTreeSet<PolicyAction> {
    let mut known: HashMap<PolicyId, bool> = HashMap::new();
    let mut out = BTreeSet::new();
    for action in PolicyAction::ALL {
        let policies = policies.for_action(*action).into_iter();
        let mut policies = policies.flat_map(|policies| policies.policies());
        if policies.any(|policy| {
            let known = known.entry(policy.id().clone());
            *known.or_insert_with(|| looks_at(policy, TIME))
        }) {
            out.insert(*action);
        }
    }
    out
}

/// Whether what is decided about reading `relation` is the same at any time: by partial evaluation without a
/// context of the policies over it and its relatives.
pub(in crate::policy) fn is_timeless(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
) -> Result<bool, Failure> {
    // Those of tables are asked one by one below.
    let is_inside = |action: &PolicyAction| action.is_read() && !action.is_of_tables();
    if loaded.timed.iter().any(is_inside) {
        return Ok(false);
    }
    let above = loaded.inheritance.ancestors(&loaded.catalog, relation);
    let below = loaded.inheritance.descendants(&loaded.catalog, relation);
    let own = std::iter::once(relation).chain(above).chain(below);
    let own: Vec<&Relation> = own.collect();
    // Which of their rows are seen may follow from other tables.
    let parents = own.iter().flat_map(|table| {
        let parents = collect_parents(&loaded.catalog, table).into_iter();
        parents.flat_map(|parent| {
            let above = loaded.inheritance.ancestors(&loaded.catalog, parent);
            std::iter::once(parent).chain(above)
        })
    });
    let parents: Vec<&Relation> = parents.collect();
    for table in own.into_iter().chain(parents) {
        for action in [PolicyAction::Select, PolicyAction::Discover] {
            let asked = loaded.timed.contains(&action) && schema::has_entity(table);
            if asked && !is_decided(loaded, subject, action, table)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Whether the policies of `action` over a table come to a decision whatever the context, and to the same obligations.
fn is_decided(
    loaded: &Loaded,
    subject: &Subject,
    action: PolicyAction,
    table: &Relation,
) -> Result<bool, Failure> {
    let schema = &loaded.schemas.fixed;
    let resource = resource("Table", &table.uid)?;
    let entities = subject.entities_about(loaded, table)?;
    let policies = loaded.policies.about(action, &resource, &entities, true)?;
    let entities = without_columns(&entities, schema)?;
    let request = PartialRequest::new(
        PartialEntityUid::from_concrete(subject.uid.clone()),
        action_uid(action)?,
        PartialEntityUid::from_concrete(resource),
        None,
        schema,
    )
    .map_err(Failure::new)?;
    let response = policies
        .tpe(&request, &entities, schema)
        .map_err(Failure::new)?;
    // Where something permits it anyway, a permit still adds what it demands, and that it names one of the engine's own.
    let matters = |id: &PolicyId| {
        let id: &str = id.as_ref();
        let demands = loaded.annotations.get(id);
        table.system.is_some() || demands.is_some_and(Annotations::demands)
    };
    let mut open = response.residual_policies();
    let is_open = open.any(|residual| {
        let policy = policies.policy(residual.id());
        matters(residual.id()) && policy.is_none_or(|policy| looks_at(policy, TIME))
    });
    Ok(response.decision().is_some() && !is_open)
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        reason = "tests"
    )]

    use std::time::Duration;

    use crate::policy::tests::fixture::{READ_ALL, agent, relation_id, set};

    #[test]
    fn what_a_permit_demands_at_a_time_is_demanded_then() {
        let capped = "@max_rows(\"3\") permit(principal, action == Action::\"select\", resource == Table::\"main.tickets\")
             when { context has time && context.time < datetime(\"1970-01-02\") };";
        let set = set(&format!("{READ_ALL}{capped}"));
        for (seconds, table, cap, timed) in [
            (1, "tickets", Some(3), true),
            (100_000, "tickets", None, true),
            (1, "customers", None, false),
        ] {
            let view = set.session(&agent("bot").at(Duration::from_secs(seconds)));
            let decision = view.relation(relation_id(table)).unwrap();
            assert_eq!(decision.caps.rows, cap, "{seconds} {table}");
            assert_eq!(view.depends_on_time(), timed, "{seconds} {table}");
        }
    }

    #[test]
    fn a_permit_that_demands_nothing_adds_nothing_at_a_time() {
        let more =
            "permit(principal, action == Action::\"select\", resource == Table::\"main.tickets\")
             when { context has time && context.time < datetime(\"1970-01-02\") };";
        let set = set(&format!("{READ_ALL}{more}"));
        let view = set.session(&agent("bot").at(Duration::from_secs(1)));
        view.relation(relation_id("tickets")).unwrap();
        assert!(!view.depends_on_time());
    }
}
