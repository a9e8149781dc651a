//! Whether relations of the engine's own may be read: their rows tell of what filters and masks do not reach, so that a
//! permit of everything does not reach them.
//!
//! One is read by a permit of `select` whose scope names it, and what holds of columns and rows then is as for tables, but that
//! nothing is masked in it: what is not shown as it is, is not there. What tells of names alone may also be read by whoever sees
//! everything of the catalog, unless a forbid says otherwise.

use cedar_policy::{Context, Effect, Entities, EntityUid};

use super::{
    PolicySources,
    columns::forbids,
    decide::{Failure, Subject, Verdict, decide, decide_among, resource},
    load::Loaded,
    obligation::{ColumnDecision, ColumnLevel, RelationDecision, RowFilter, Visibility},
    rows::rows,
    schema::{self, Action},
    store,
};
use crate::{
    catalog::{Relation, SystemRelation, system_relations, system_schemas},
    dialect::Dialect,
    ident,
};

/// The relations of the engine's own that the texts may name: all whose names stand in one of them.
pub(crate) fn named_in(
    sources: &PolicySources,
    dialect: Dialect,
) -> impl Iterator<Item = &'static SystemRelation> {
    let begins = |text: &&str| {
        let mut schemas = system_schemas(dialect).iter();
        schemas.any(|schema| text.contains(&format!("{schema}.")))
    };
    let texts: Vec<&str> = sources
        .policies
        .iter()
        .map(|file| file.text.as_str())
        .chain(sources.entities.as_deref())
        .chain(sources.classification.as_deref())
        .filter(begins)
        .collect();
    let is_named = |known: &&SystemRelation| {
        let uid = known.uid();
        texts.iter().any(|text| text.contains(&uid))
    };
    let mut named: Vec<_> = match texts.is_empty() {
        true => Vec::new(),
        false => system_relations(dialect).filter(is_named).collect(),
    };
    // The order of their ids.
    named.sort_by_key(|known| (&known.schema, &known.name));
    named.into_iter()
}

/// Whether one of `policies` names `resource` in its scope.
pub(super) fn is_named(loaded: &Loaded, policies: &[String], resource: &EntityUid) -> bool {
    let mut named = policies.iter().filter_map(|id| loaded.named.get(id));
    named.any(|named| named == resource)
}

/// Hides what of a relation of the engine's own is not shown as it is: what would be masked, what nobody has reviewed, and secrets
/// in a relation that holds others things, unless a permit names the column.
pub(super) fn settle(
    loaded: &Loaded,
    relation: &Relation,
    known: &SystemRelation,
    columns: &mut [ColumnDecision],
) -> Result<(), Failure> {
    for (column, decided) in relation.columns.iter().zip(columns) {
        let is_secret = known.secrets.iter().any(|secret| *secret == *column.key);
        let uid = resource("Column", &column.uid)?;
        let is_shown = match &decided.level {
            ColumnLevel::Plain => {
                relation.is_reviewed(&column.key)
                    && (!is_secret || is_named(loaded, &decided.policies, &uid))
            }
            ColumnLevel::Masked(_) | ColumnLevel::Hidden => false,
        };
        if !is_shown {
            decided.level = ColumnLevel::Hidden;
        }
    }
    Ok(())
}

/// What forbids leave of a relation that tells of names alone, to a session from which the catalog keeps nothing. None if one is
/// of the relation.
pub(super) fn of_names(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
) -> Result<Option<RelationDecision>, Failure> {
    let table = resource("Table", &relation.uid)?;
    if is_forbidden(&decide(loaded, subject, Action::Select, table)?) {
        return Ok(None);
    }
    let mut columns = Vec::with_capacity(relation.columns.len());
    for column in &relation.columns {
        let mut decided = if loaded.policies.forbids(Action::ReadPlain) {
            forbids(loaded, subject, &column.uid)?
        } else {
            ColumnDecision {
                level: ColumnLevel::Plain,
                policies: Vec::new(),
            }
        };
        if decided.level != ColumnLevel::Plain || !relation.is_reviewed(&column.key) {
            decided.level = ColumnLevel::Hidden;
        }
        columns.push(decided);
    }
    let rows = if loaded.policies.forbids(Action::See) {
        rows(loaded, subject, relation, Action::See)?.unforbidden
    } else {
        RowFilter::Everything
    };
    Ok(Some(RelationDecision {
        visibility: Visibility::Selectable,
        columns,
        rows,
        max_rows: None,
        policies: Vec::new(),
        message: None,
    }))
}

/// Whether no forbid reaches a relation that tells of names alone and that no policy names.
pub(super) fn is_unforbidden(
    loaded: &Loaded,
    subject: &Subject,
    known: &SystemRelation,
) -> Result<bool, Failure> {
    for action in [Action::Select, Action::ReadPlain] {
        if loaded.policies.forbids(action)
            && is_forbidden(&verdict(loaded, subject, known, action, subject.context.clone())?)
        {
            return Ok(false);
        }
    }
    // Its rows have no type, so nobody can be asked about them.
    let schema = resource("Schema", &schema::schema_id(&loaded.catalog, &known.schema))?;
    let reaches = |literals: Vec<EntityUid>| literals.contains(&schema);
    Ok(loaded.policies.of(Action::See).is_some_and(|policies| {
        let mut forbids = policies.policies().filter(|p| p.effect() == Effect::Forbid);
        !forbids.any(|forbid| reaches(forbid.entity_literals()))
    }))
}

fn is_forbidden(verdict: &Verdict) -> bool {
    // Cedar names policies in a denial only if they forbid.
    !verdict.permitted && !verdict.policies.is_empty()
}

/// What policies say of selecting from, or of the columns of, a relation that none of them names.
pub(super) fn verdict(
    loaded: &Loaded,
    subject: &Subject,
    known: &SystemRelation,
    action: Action,
    context: Context,
) -> Result<Verdict, Failure> {
    // What no policy names is told apart by nothing.
    let name = known.columns.first().map_or("", String::as_str);
    let column = ident::qualified([known.schema.as_str(), known.name.as_str(), name]);
    let added = store::system_entities(&loaded.catalog, known, &column)
        .map_err(|error| Failure::new(error.message))?;
    let entities = Entities::clone(&subject.store.entities)
        .add_entities(added, Some(&loaded.schema))
        .map_err(Failure::new)?;
    let asked = match action {
        Action::ReadPlain => resource("Column", &column)?,
        _ => resource("Table", &known.uid())?,
    };
    decide_among(loaded, subject, action, asked, &entities, context)
}
