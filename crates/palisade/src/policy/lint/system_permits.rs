//! Permits that seem to reach relations of the engine's own and reach none.

use cedar_policy::{Effect, ResourceConstraint};

use crate::catalog::{Catalog, system_schemas};
use crate::policy::{
    cedar::{by_action::covers, schema, schema::PolicyAction},
    load::{diagnostic::PolicyProblem, source::Located},
};

/// Warns of permits that seem to reach relations of the engine's own and reach none: by their schema, or not by `==`.
pub(in crate::policy) fn check(
    located: &[Located<'_>],
    catalog: &Catalog,
    warnings: &mut Vec<PolicyProblem>,
) {
    for Located { policy, origin, .. } in located {
        // One of calls, too, may mean functions.
        let reads = covers(policy, PolicyAction::Select) && !covers(policy, PolicyAction::Call);
        if policy.effect() != Effect::Permit || !reads {
            continue;
        }
        let (ResourceConstraint::In(inside) | ResourceConstraint::IsIn(_, inside)) =
            policy.resource_constraint()
        else {
            continue;
        };
        let id = inside.id().unescaped();
        let is_schema = |schema: &&str| schema::schema_id(catalog, schema) == id;
        let of_engine = match inside.type_name().to_string().as_str() {
            "Schema" => system_schemas(catalog.dialect()).iter().any(is_schema),
            "Table" => catalog
                .relations()
                .iter()
                .any(|relation| relation.system.is_some() && relation.uid == id),
            _ => false,
        };
        if of_engine {
            let message = format!("`resource in {inside}` permits no relation of the engine's own");
            let help = "each is permitted by itself: `resource == Table::\"…\"` in the scope";
            warnings.push(origin.problem(message).with_help(Some(help)));
        }
    }
}
