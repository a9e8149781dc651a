//! What a session may create, alter and drop.

use std::sync::Arc;

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
    decide::{columns, writes::ActionDecision},
    obligation::{Caps, ColumnDecision},
    set::Loaded,
};
use crate::{
    access::{DefinedObject, Definition, DefinitionAccess, GivenColumn},
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
pub(in crate::policy) fn decide_definition(
    loaded: &Loaded,
    subject: &Subject,
    access: &DefinitionAccess,
) -> Result<ActionDecision, Failure> {
    let verdict = ask_definition(loaded, subject, access, subject.context.clone())?;
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
/// As [`decide_definition`].
pub(in crate::policy) fn ask_definition(
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
                let untagged = std::iter::empty();
                let own = (uid.as_str(), *view);
                let own = entities::new_table_entities(&loaded.catalog, schema, own, untagged)
                    .map_err(|error| Failure::new(error.message))?;
                let entities = entities::add(&subject.entities, &own, &loaded.schemas.fixed)?;
                decide_among(loaded, subject, action, table, &entities, context)
            }
        }
    }
}

/// What `subject` would read of a column that is to be, where that is tokens or hashes. Whether it will be a key or NULL is not known
/// yet: each is tried.
///
/// # Errors
/// As [`decide_definition`].
pub(in crate::policy) fn decide_given_column(
    loaded: &Loaded,
    subject: &Subject,
    column: &GivenColumn,
) -> Result<Option<ColumnDecision>, Failure> {
    let catalog = &loaded.catalog;
    let found = match &column.object {
        DefinedObject::Relation(id) => catalog.relation(*id),
        DefinedObject::New {
            schema,
            name,
            view: _,
        } => catalog.find(schema, name),
    };
    let failure = |error: Box<cedar_policy::ffi::DetailedError>| Failure::new(error.message);
    let (schema, table, uid, around) = match (found, &column.object) {
        (Some(relation), _) => {
            let entities = subject.entities_about(loaded, relation)?;
            let schema = relation.policy_schema.to_string();
            let table = relation.key.to_string();
            (schema, table, relation.uid.clone(), entities)
        }
        (None, DefinedObject::Relation(_)) => return Ok(None),
        (None, DefinedObject::New { schema, name, view }) => {
            let own = catalog.policy_schema(schema);
            let uid = ident::qualify([own.as_str(), name.as_str()]);
            let tags = loaded
                .tags
                .of_new_relation(catalog, (own.as_str(), name.as_str()));
            let new = (uid.as_str(), *view);
            let new = entities::new_table_entities(catalog, schema, new, tags.into_iter());
            let new = new.map_err(failure)?;
            let entities = entities::add(&subject.entities, &new, &loaded.schemas.fixed)?;
            (own, name.clone(), uid, Arc::new(entities))
        }
    };
    let name = [schema.as_str(), table.as_str(), column.name.as_str()];
    let column_uid = ident::qualify(name);
    for tags in loaded.tags.of_new_column(name, &column.from) {
        for nullable in [true, false] {
            let names = (uid.as_str(), column_uid.as_str());
            let tags = tags.iter().copied();
            let new = entities::new_column_entity(names, tags, nullable).map_err(failure)?;
            let entities = entities::add(&around, &[new], &loaded.schemas.fixed)?;
            let resource = resource("Column", &column_uid)?;
            let ask = |action| {
                let context = subject.context.clone();
                decide_among(
                    loaded,
                    subject,
                    action,
                    resource.clone(),
                    &entities,
                    context,
                )
            };
            let decided = columns::decide_column_by(loaded, &ask)?;
            if decided.level.read_as().is_some() {
                return Ok(Some(decided));
            }
        }
    }
    Ok(None)
}
