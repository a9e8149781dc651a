//! What a session may create, alter and drop.

use cedar_policy::Context;

use crate::policy::{
    cedar::{
        entities,
        entities::resource,
        failure::Failure,
        request::{Subject, Verdict, decide_among},
        schema,
        schema::PolicyAction,
    },
    decide::writes::ActionDecision,
    obligation::Caps,
    set::Loaded,
};
use crate::{
    access::{DefinedObject, Definition, DefinitionAccess},
    catalog::Relation,
    ident,
};

pub(in crate::policy) fn action(definition: Definition) -> PolicyAction {
    match definition {
        Definition::Create => PolicyAction::Create,
        Definition::Alter => PolicyAction::Alter,
        Definition::Drop => PolicyAction::Drop,
    }
}

/// Whether `subject` may do what `access` says. A relation that is to be exists for policies as a table
/// without tags in its schema.
///
/// # Errors
/// If a policy that could matter fails to evaluate.
pub(in crate::policy) fn decision(
    loaded: &Loaded,
    subject: &Subject,
    access: &DefinitionAccess,
) -> Result<ActionDecision, Failure> {
    let verdict = verdict(loaded, subject, access, subject.context.clone())?;
    let annotations = |id: &String| loaded.annotations.get(id);
    Ok(ActionDecision {
        permitted: verdict.permitted,
        unconditional: verdict.permitted,
        unconditional_policies: Vec::new(),
        unconditional_caps: Caps::default(),
        caps: Caps::default(),
        message: verdict
            .policies
            .iter()
            .filter(|_| !verdict.permitted)
            .find_map(|id| annotations(id)?.message.clone()),
        policies: verdict.policies,
    })
}

/// What policies say of it where `context` holds.
///
/// # Errors
/// As [`decision`].
pub(in crate::policy) fn verdict(
    loaded: &Loaded,
    subject: &Subject,
    access: &DefinitionAccess,
    context: Context,
) -> Result<Verdict, Failure> {
    let action = action(access.definition);
    match &access.object {
        DefinedObject::Relation(id) => {
            let relation = loaded
                .catalog
                .relation(*id)
                .filter(|relation: &&Relation| schema::has_entity(relation));
            let Some(relation) = relation else {
                return Ok(Verdict::default());
            };
            let table = resource("Table", &relation.uid)?;
            let entities = subject.entities_about(loaded, relation)?;
            decide_among(loaded, subject, action, table, &entities, context)
        }
        DefinedObject::New { schema, name, view } => {
            let own = loaded.catalog.policy_schema(schema);
            let uid = ident::qualify([own.as_str(), name.as_str()]);
            let table = resource("Table", &uid)?;
            // One that is there, seen or not, is what policies say of it.
            if let Some(relation) = loaded.catalog.find(schema, name) {
                let entities = subject.entities_about(loaded, relation)?;
                decide_among(loaded, subject, action, table, &entities, context)
            } else {
                let own = entities::new_table_entities(&loaded.catalog, schema, &uid, *view)
                    .map_err(|error| Failure::new(error.message))?;
                let entities = entities::add(&subject.entities, &own, &loaded.schemas.fixed)?;
                decide_among(loaded, subject, action, table, &entities, context)
            }
        }
    }
}
