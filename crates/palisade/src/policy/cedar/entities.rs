//! Entities: those of the catalog and those of the operator, each decision with the few that it can reach.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use cedar_policy::{
    Entities, Entity, EntityId, EntityTypeName, EntityUid, PartialEntities, RestrictedExpression,
    Schema, ffi::DetailedError,
};
use serde_json::{Value, value::RawValue};

use crate::catalog::{
    Catalog, Relation, RelationId, RelationKind, SystemRelation, functions::FunctionDef,
    system_schemas,
};
use crate::policy::{
    cedar::{
        failure::Failure,
        schema,
        schema::{CATALOG_TYPES, PolicyAction, ROW_NAMESPACE},
    },
    load::{
        classification::Tags,
        diagnostic::{PolicyProblem, Source, probably},
        template::Templates,
    },
};
use crate::session::{AttributeValue, Identity};

/// The entities that policies can reach beside the resource that they are asked about.
///
/// A decision sees its principal, what that leads to, what conditions name, and its resource with what that is in. So it costs
/// the same in a catalog of ten thousand tables as in one of ten.
#[derive(Debug, Clone)]
pub(in crate::policy) struct Store {
    /// The operator's.
    pub(in crate::policy) operator: Arc<Entities>,
    nodes: Arc<HashMap<EntityUid, Node>>,
    /// Those that conditions name.
    named: Arc<BTreeSet<EntityUid>>,
}

/// An entity, and those that its attributes and parents name.
#[derive(Debug)]
struct Node {
    entity: Entity,
    leads_to: BTreeSet<EntityUid>,
}

impl Store {
    /// The store of the operator's entities `given`, where conditions name `named`.
    ///
    /// # Errors
    /// If one of `given` is there twice, or does not fit `schema`.
    pub(in crate::policy) fn new(
        catalog: &Catalog,
        (tags, templates): (&Tags, &Templates),
        given: Vec<Entity>,
        named: BTreeSet<EntityUid>,
        schema: &Schema,
    ) -> Result<Self, Box<DetailedError>> {
        let operator = Entities::from_entities(given.iter().cloned(), Some(schema))
            .map_err(|error| box_error(&error))?;
        let mut nodes = HashMap::new();
        let mut wanted: HashSet<EntityUid> = named.iter().cloned().collect();
        for entity in given {
            let leads_to = references(&entity)?;
            wanted.extend(leads_to.iter().cloned());
            nodes.insert(entity.uid(), Node { entity, leads_to });
        }
        for entity in reachable_entities(catalog, tags, templates, &wanted)? {
            let leads_to = references(&entity)?;
            nodes.insert(entity.uid(), Node { entity, leads_to });
        }
        Ok(Self {
            operator: Arc::new(operator),
            nodes: Arc::new(nodes),
            named: Arc::new(named),
        })
    }

    /// The entities of the catalog that conditions or attributes name, with what they are in.
    pub(in crate::policy) fn collect_catalog(&self) -> Vec<Entity> {
        let nodes = self.nodes.values().map(|node| &node.entity);
        let of_catalog = nodes.filter(|entity| {
            let kind = entity.uid().type_name().to_string();
            CATALOG_TYPES.contains(&kind.as_str())
        });
        of_catalog.cloned().collect()
    }

    /// What decisions about `principal` see whatever the resource. One whom the operator's entities do not hold exists there without
    /// attributes and parents. Where its type demands attributes it stays absent: reading one is then an evaluation error, which
    /// denies.
    ///
    /// Roles and attributes of `identity` are added to those of the operator's entities; an attribute of theirs stays.
    ///
    /// # Errors
    /// If `identity` does not fit the schema, or Cedar does not take them together, which would be a defect of ours.
    pub(in crate::policy) fn collect_around(
        &self,
        principal: &EntityUid,
        identity: &Identity,
        schema: &Schema,
    ) -> Result<Entities, Failure> {
        let mut reached = BTreeSet::new();
        let roles = identity.roles().iter();
        let roles: HashSet<EntityUid> = roles
            .map(|role| resource(role.kind(), role.id()))
            .collect::<Result<_, _>>()?;
        let mut pending: Vec<&EntityUid> =
            self.named.iter().chain([principal]).chain(&roles).collect();
        while let Some(uid) = pending.pop() {
            if let Some(node) = self.nodes.get(uid)
                && reached.insert(uid)
            {
                pending.extend(&node.leads_to);
            }
        }
        let nodes = reached.iter().filter_map(|uid| self.nodes.get(uid));
        let known = nodes.map(|node| node.entity.clone());
        if !identity.is_empty() {
            let own = self.identify(principal, identity, &roles)?;
            let others = known.filter(|entity| entity.uid() != *principal);
            return Entities::from_entities(others.chain([own]), Some(schema))
                .map_err(Failure::new);
        }
        let entities = Entities::from_entities(known, Some(schema)).map_err(Failure::new)?;
        if reached.contains(principal) {
            return Ok(entities);
        }
        let bare = Entity::new_no_attrs(principal.clone(), HashSet::new());
        let added = entities.clone().add_entities([bare], Some(schema));
        Ok(added.unwrap_or(entities))
    }

    /// The principal as the operator's entities have it, with what `identity` says too.
    fn identify(
        &self,
        principal: &EntityUid,
        identity: &Identity,
        roles: &HashSet<EntityUid>,
    ) -> Result<Entity, Failure> {
        let node = self.nodes.get(principal);
        let (_, mut attributes, mut parents) = match node {
            Some(node) => node.entity.clone().into_inner(),
            None => Entity::new_no_attrs(principal.clone(), HashSet::new()).into_inner(),
        };
        for (name, value) in identity.attributes() {
            let said = || express(value);
            attributes.entry(name.clone()).or_insert_with(said);
        }
        parents.extend(roles.iter().cloned());
        Entity::new(principal.clone(), attributes, parents).map_err(Failure::new)
    }
}

/// An attribute as Cedar has it.
fn express(value: &AttributeValue) -> RestrictedExpression {
    let text = |text: &String| RestrictedExpression::new_string(text.clone());
    match value {
        AttributeValue::Text(one) => text(one),
        AttributeValue::Number(number) => RestrictedExpression::new_long(*number),
        AttributeValue::Boolean(boolean) => RestrictedExpression::new_bool(*boolean),
        AttributeValue::Texts(texts) => RestrictedExpression::new_set(texts.iter().map(text)),
    }
}

/// Entities of `around` with `more`, those that are there already left as they are.
///
/// # Errors
/// If Cedar does not take them together, which would be a defect of ours.
pub(in crate::policy) fn add(
    around: &Entities,
    more: &[Entity],
    schema: &Schema,
) -> Result<Entities, Failure> {
    let new = more
        .iter()
        .filter(|entity| around.get(&entity.uid()).is_none())
        .cloned();
    around
        .clone()
        .add_entities(new, Some(schema))
        .map_err(Failure::new)
}

/// What row policies see, evaluated with the row unknown: no columns. A row policy that asks for columns' attributes has no SQL
/// form then.
///
/// # Errors
/// If Cedar does not take them, which would be a defect of ours.
pub(in crate::policy) fn without_columns(
    entities: &Entities,
    schema: &Schema,
) -> Result<PartialEntities, Failure> {
    let few = entities
        .iter()
        .filter(|entity| entity.uid().type_name().to_string() != "Column")
        .cloned();
    let few = Entities::from_entities(few, None).map_err(Failure::new)?;
    PartialEntities::from_concrete(few, schema).map_err(Failure::new)
}

/// The entities that attributes, tags and parents of an entity name.
fn references(entity: &Entity) -> Result<BTreeSet<EntityUid>, Box<DetailedError>> {
    let json = entity.to_json_value().map_err(|error| box_error(&error))?;
    let mut out = BTreeSet::new();
    collect_uids(&json, &mut out);
    Ok(out)
}

/// Every entity that a policy's conditions or an entity names, as Cedar writes them down.
pub(in crate::policy) fn collect_uids(json: &Value, out: &mut BTreeSet<EntityUid>) {
    match json {
        Value::Object(fields) => {
            let text = |name: &str| fields.get(name).and_then(Value::as_str);
            if let (Some(kind), Some(id)) = (text("type"), text("id")) {
                out.extend(uid(kind, id));
            }
            fields.values().for_each(|field| collect_uids(field, out));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_uids(item, out)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The entity `kind::"id"`; `None` if `kind` is no type name.
pub(in crate::policy) fn uid(kind: &str, id: &str) -> Option<EntityUid> {
    let kind: EntityTypeName = kind.parse().ok()?;
    Some(EntityUid::from_type_name_and_id(kind, EntityId::new(id)))
}

/// The entity of `kind` called `id`.
pub(in crate::policy) fn resource(kind: &str, id: &str) -> Result<EntityUid, Failure> {
    uid(kind, id).ok_or_else(|| Failure::new(format!("`{kind}` is not a type name")))
}

/// `Action::"…"`.
pub(in crate::policy) fn action_uid(action: PolicyAction) -> Result<EntityUid, Failure> {
    uid("Action", action.name()).ok_or_else(|| Failure::new("no action type"))
}

/// The ids that entity literals of catalog types may have, by type.
pub(in crate::policy) fn catalog_ids(
    catalog: &Catalog,
    tags: &Tags,
    templates: &Templates,
) -> HashMap<&'static str, BTreeSet<String>> {
    let mut ids: HashMap<&'static str, BTreeSet<String>> = HashMap::new();
    ids.entry("Database")
        .or_default()
        .insert(catalog.database().to_owned());
    // Of these none may be there.
    for kind in [schema::HAS_COLUMN, schema::TAGGED] {
        ids.entry(kind).or_default();
    }
    let default = schema::schema_id(catalog, catalog.default_schema());
    let schemas = ids.entry("Schema").or_default();
    schemas.insert(default);
    schemas.extend(system_schema_ids(catalog));
    for relation in catalog
        .relations()
        .iter()
        .filter(|relation| schema::has_entity(relation))
    {
        ids.entry("Schema")
            .or_default()
            .insert(schema::schema_id(catalog, &relation.schema));
        ids.entry("Table").or_default().insert(relation.uid.clone());
        let columns = relation.columns.iter().map(|column| column.uid.clone());
        ids.entry("Column").or_default().extend(columns);
        let names = relation.columns.iter().map(|column| column.key.to_string());
        ids.entry(schema::HAS_COLUMN).or_default().extend(names);
        let tags = tags.of_relation(relation.id).map(str::to_owned);
        ids.entry(schema::TAGGED).or_default().extend(tags);
    }
    let functions = catalog.every_function().map(|def| def.uid.clone());
    ids.entry("Function").or_default().extend(functions);
    let templates = templates.names().map(str::to_owned);
    ids.entry("Template").or_default().extend(templates);
    ids
}

/// The entities of the catalog that are `wanted`, with what they are in.
///
/// # Errors
/// If Cedar takes one of them for malformed, which would be a defect of ours.
fn reachable_entities(
    catalog: &Catalog,
    tags: &Tags,
    templates: &Templates,
    wanted: &HashSet<EntityUid>,
) -> Result<Vec<Entity>, Box<DetailedError>> {
    let mut out: HashMap<EntityUid, Entity> = HashMap::new();
    let mut keep = |entities: Vec<Entity>| {
        out.extend(entities.into_iter().map(|entity| (entity.uid(), entity)));
    };
    let of_type = |kind: &str| wanted.iter().any(|uid| uid.type_name().to_string() == kind);
    if of_type("Template") {
        for name in templates.names() {
            keep(vec![entity(parse_uid("Template", name)?, [], None)?]);
        }
    }
    if of_type("Database") || of_type("Schema") {
        let mut schemas = BTreeSet::from([catalog.fold_relation(catalog.default_schema())]);
        schemas.extend(system_schema_ids(catalog));
        let relations = catalog.relations().iter();
        schemas.extend(relations.map(|relation| relation.schema_key.to_string()));
        schemas.extend(
            catalog
                .every_function()
                .filter_map(|def| def.schema.clone()),
        );
        for name in &schemas {
            keep(schema_entities(catalog, name)?);
        }
    }
    if !(of_type("Table") || of_type("Column")) {
        return Ok(out.into_values().collect());
    }
    for relation in catalog.relations() {
        let is_wanted = |kind: &str, id: &str| uid(kind, id).is_some_and(|u| wanted.contains(&u));
        let mut columns = relation.columns.iter();
        if is_wanted("Table", &relation.uid) || columns.any(|c| is_wanted("Column", &c.uid)) {
            keep(relation_entities(catalog, tags, relation)?);
        }
    }
    Ok(out.into_values().collect())
}

/// A schema and the database.
fn schema_entities(catalog: &Catalog, schema: &str) -> Result<Vec<Entity>, Box<DetailedError>> {
    let database = parse_uid("Database", catalog.database())?;
    let schema = parse_uid("Schema", &schema::schema_id(catalog, schema))?;
    Ok(vec![
        entity(schema, [], Some(database.clone()))?,
        entity(database, [], None)?,
    ])
}

/// Entities of relations that were asked for lately.
#[derive(Debug, Clone, Default)]
pub(in crate::policy) struct RelationEntities {
    known: Arc<Mutex<HashMap<RelationId, Arc<Vec<Entity>>>>>,
}

/// How many relations' entities are remembered; when more come, all are forgotten.
const RELATIONS: usize = 256;

impl RelationEntities {
    /// As [`relation_entities`].
    ///
    /// # Errors
    /// As there.
    pub(in crate::policy) fn find(
        &self,
        catalog: &Catalog,
        tags: &Tags,
        relation: &Relation,
    ) -> Result<Arc<Vec<Entity>>, Failure> {
        // A poisoned lock guards a map of finished values; the panic was elsewhere.
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entities) = known().get(&relation.id) {
            return Ok(Arc::clone(entities));
        }
        let entities = relation_entities(catalog, tags, relation)
            .map_err(|error| Failure::new(error.message))?;
        let entities = Arc::new(entities);
        let mut known = known();
        if known.len() >= RELATIONS {
            known.clear();
        }
        known.insert(relation.id, Arc::clone(&entities));
        Ok(entities)
    }
}

/// A relation, its columns, and what it is in; nothing where policies cannot name it.
///
/// # Errors
/// As [`Store::new`].
pub(in crate::policy) fn relation_entities(
    catalog: &Catalog,
    tags: &Tags,
    relation: &Relation,
) -> Result<Vec<Entity>, Box<DetailedError>> {
    let kind = match relation.kind {
        RelationKind::Table => "table",
        RelationKind::View => "view",
        RelationKind::Materialized => "materialized-view",
        RelationKind::System if relation.system.is_some() => SYSTEM,
        RelationKind::Virtual | RelationKind::System => return Ok(Vec::new()),
    };
    let mut out = schema_entities(catalog, &relation.schema)?;
    let schema = parse_uid("Schema", &schema::schema_id(catalog, &relation.schema))?;
    let table = parse_uid("Table", &relation.uid)?;
    let attributes = [
        ("tags", set(tags.of_relation(relation.id))),
        ("kind", RestrictedExpression::new_string(kind.to_owned())),
    ];
    out.push(entity(table.clone(), attributes, Some(schema))?);
    for (id, column) in relation.column_ids() {
        let attributes = [
            ("tags", set(tags.of_column(id))),
            ("nullable", RestrictedExpression::new_bool(column.nullable)),
        ];
        out.push(entity(
            parse_uid("Column", &column.uid)?,
            attributes,
            Some(table.clone()),
        )?);
    }
    Ok(out)
}

/// What the rows of `relation` are in, as (type, id).
pub(in crate::policy) fn row_ancestors(
    catalog: &Catalog,
    tags: &Tags,
    relation: &Relation,
) -> BTreeSet<(&'static str, String)> {
    let columns = relation.columns.iter();
    let mut out: BTreeSet<_> = columns
        .map(|column| (schema::HAS_COLUMN, column.key.to_string()))
        .collect();
    let tags = tags.of_relation(relation.id);
    out.extend(tags.map(|tag| (schema::TAGGED, tag.to_owned())));
    out.extend([
        ("Table", relation.uid.clone()),
        ("Schema", schema::schema_id(catalog, &relation.schema)),
        ("Database", catalog.database().to_owned()),
    ]);
    out
}

/// The schemas of the engine's own.
fn system_schema_ids(catalog: &Catalog) -> impl Iterator<Item = String> {
    let schemas = system_schemas(catalog.dialect()).iter();
    schemas.map(|schema| (*schema).to_owned())
}

/// What `kind` is of the engine's own relations.
const SYSTEM: &str = "system";

/// A relation of the engine's own that no policy names, one of its columns, and what they are in.
///
/// # Errors
/// As [`Store::new`].
pub(in crate::policy) fn system_entities(
    catalog: &Catalog,
    system: &SystemRelation,
    column: &str,
) -> Result<Vec<Entity>, Box<DetailedError>> {
    let tags = || ("tags", set(std::iter::empty()));
    let kind = RestrictedExpression::new_string(SYSTEM.to_owned());
    let nullable = RestrictedExpression::new_bool(true);
    let schema = parse_uid("Schema", &schema::schema_id(catalog, &system.schema))?;
    let table = parse_uid("Table", &system.uid())?;
    let mut out = schema_entities(catalog, &system.schema)?;
    out.push(entity(
        table.clone(),
        [tags(), ("kind", kind)],
        Some(schema),
    )?);
    out.push(entity(
        parse_uid("Column", column)?,
        [tags(), ("nullable", nullable)],
        Some(table),
    )?);
    Ok(out)
}

/// A function, and what it is in.
///
/// # Errors
/// As [`Store::new`].
pub(in crate::policy) fn function_entities(
    catalog: &Catalog,
    def: &FunctionDef,
) -> Result<Vec<Entity>, Box<DetailedError>> {
    let schema = def.schema.as_deref().unwrap_or(catalog.default_schema());
    let mut out = schema_entities(catalog, schema)?;
    let schema = parse_uid("Schema", &schema::schema_id(catalog, schema))?;
    let safety = RestrictedExpression::new_string(def.safety.name().to_owned());
    out.push(entity(
        parse_uid("Function", &def.uid)?,
        [("safety", safety)],
        Some(schema),
    )?);
    Ok(out)
}

/// A relation that is to be, in its schema.
///
/// # Errors
/// As [`Store::new`].
pub(in crate::policy) fn new_table_entities<'t>(
    catalog: &Catalog,
    schema: &str,
    (uid, view): (&str, bool),
    tags: impl Iterator<Item = &'t str>,
) -> Result<Vec<Entity>, Box<DetailedError>> {
    let kind = if view { "view" } else { "table" };
    let attributes = [
        ("tags", set(tags)),
        ("kind", RestrictedExpression::new_string(kind.to_owned())),
    ];
    let mut out = schema_entities(catalog, schema)?;
    let schema = parse_uid("Schema", &schema::schema_id(catalog, schema))?;
    out.push(entity(parse_uid("Table", uid)?, attributes, Some(schema))?);
    Ok(out)
}

/// A column that is to be, in the table with the uid `table`.
///
/// # Errors
/// As [`Store::new`].
pub(in crate::policy) fn new_column_entity<'t>(
    (table, column): (&str, &str),
    tags: impl Iterator<Item = &'t str>,
    nullable: bool,
) -> Result<Entity, Box<DetailedError>> {
    let attributes = [
        ("tags", set(tags)),
        ("nullable", RestrictedExpression::new_bool(nullable)),
    ];
    let table = parse_uid("Table", table)?;
    entity(parse_uid("Column", column)?, attributes, Some(table))
}

/// The operator's entities, each checked against `schema`.
pub(in crate::policy) fn operator_entities(
    source: &Source<'_>,
    schema: &Schema,
    problems: &mut Vec<PolicyProblem>,
) -> Vec<Entity> {
    let raw: Vec<&RawValue> = match serde_json::from_str(source.text) {
        Ok(raw) => raw,
        Err(error) => {
            let at = offset(source.text, error.line(), error.column());
            problems.push(
                source
                    .at(at..at, format!("not a JSON list of entities: {error}"))
                    .with_help(Some("Cedar's format: `[{ \"uid\": { \"type\": …, \"id\": … }, \"attrs\": {}, \"parents\": [] }]`")),
            );
            return Vec::new();
        }
    };
    let mut out: Vec<Entity> = Vec::new();
    let mut seen = HashSet::new();
    let mut places = HashMap::new();
    for piece in raw {
        let range = range_of(source.text, piece.get());
        match operator_entity(piece.get(), schema) {
            Ok(entity) if !seen.insert(entity.uid()) => {
                problems
                    .push(source.at(range, format!("entity `{}` is given twice", entity.uid())));
            }
            Ok(entity) => {
                places.insert(entity.uid(), range);
                out.push(entity);
            }
            Err(refused) => {
                let at = refused.find.and_then(|text| {
                    let start = range.start + piece.get().find(&text)?;
                    Some(start..start + text.len())
                });
                problems.push(
                    source
                        .at(at.unwrap_or(range), refused.message)
                        .with_help(refused.help),
                );
            }
        }
    }
    // Cedar names any entity of a circle, another each time.
    while let Some(circle) = find_circle(&out) {
        let Some((first, range)) = circle
            .first()
            .and_then(|uid| Some((uid, places.get(uid)?.clone())))
        else {
            break;
        };
        let way: Vec<String> = (circle.iter().chain([first]))
            .map(|uid| format!("`{uid}`"))
            .collect();
        let help = format!("take one of these parents away: {}", way.join(" in "));
        problems.push(
            source
                .at(range, format!("`{first}` is in itself, by its parents"))
                .with_help(Some(help)),
        );
        out.retain(|entity| entity.uid() != *first);
    }
    out
}

/// Entities of which each is in the next, and the last in the first.
fn find_circle(entities: &[Entity]) -> Option<Vec<EntityUid>> {
    let parents: HashMap<EntityUid, BTreeSet<EntityUid>> = entities
        .iter()
        .map(|entity| {
            let (uid, _, parents) = entity.clone().into_inner();
            (uid, parents.into_iter().collect())
        })
        .collect();
    let mut left: BTreeSet<&EntityUid> = parents.keys().collect();
    let in_one_of = |uid: &EntityUid, left: &BTreeSet<&EntityUid>| {
        let parents = parents.get(uid);
        parents.is_some_and(|parents| parents.iter().any(|parent| left.contains(parent)))
    };
    // Whatever is in none of those that are left is in no circle.
    loop {
        let before = left.len();
        let fewer = left.iter().copied().filter(|uid| in_one_of(uid, &left));
        left = fewer.collect();
        if left.len() == before {
            break;
        }
    }
    let mut way: Vec<&EntityUid> = vec![left.first().copied()?];
    loop {
        let mut next = parents.get(*way.last()?)?.iter();
        let next = next.find(|parent| left.contains(parent))?;
        if let Some(at) = way.iter().position(|uid| *uid == next) {
            return Some(way.split_off(at).into_iter().cloned().collect());
        }
        way.push(next);
    }
}

/// Why an entity is refused, and which text of it to point at.
struct Refused {
    message: String,
    help: Option<String>,
    find: Option<String>,
}

fn operator_entity(text: &str, schema: &Schema) -> Result<Entity, Refused> {
    let cedar = |error: DetailedError| Refused {
        message: error.message,
        help: error.help,
        find: None,
    };
    let refused = |message: String| Refused {
        message,
        help: None,
        find: None,
    };
    let fields: HashMap<String, &RawValue> =
        serde_json::from_str(text).map_err(|error| refused(format!("not an entity: {error}")))?;
    if let Some(unknown) = fields
        .keys()
        .find(|field| !ENTITY_FIELDS.contains(&field.as_str()))
    {
        return Err(Refused {
            message: format!("an entity has no field `{unknown}`"),
            help: probably(unknown, ENTITY_FIELDS.iter().copied())
                .map(|field| format!("did you mean `{field}`?")),
            find: Some(format!("\"{unknown}\"")),
        });
    }
    if let Some(number) = numbers(text).find(|number| number.parse::<i64>().is_err()) {
        return Err(Refused {
            message: format!(
                "`{number}` is no whole number from -2^63 to 2^63 - 1, as numbers are here"
            ),
            help: Some("a number with a fraction is written `{ \"__extn\": { \"fn\": \"decimal\", \"arg\": \"…\" } }` and declared `decimal`, a longer one as a text".to_owned()),
            find: Some(number.to_owned()),
        });
    }
    let entity = Entity::from_json_str(text, Some(schema))
        .map_err(|error| cedar(DetailedError::from(&error)))?;
    let uid = entity.uid();
    let kind = uid.type_name();
    let from_catalog = CATALOG_TYPES.contains(&kind.to_string().as_str())
        || kind.namespace_components().next() == Some(ROW_NAMESPACE)
        || kind.basename() == "Action";
    if from_catalog {
        return Err(refused(format!(
            "entities of type `{kind}` come from the catalog and cannot be given here"
        )));
    }
    Ok(entity)
}

/// The numbers in a JSON text.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    let mut within = false;
    let outside = move |c: char| {
        let ends = c == '"' && !escaped;
        escaped = within && c == '\\' && !escaped;
        within ^= ends;
        within || !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    };
    text.split(outside)
        .filter(|word| word.starts_with(|c: char| c == '-' || c.is_ascii_digit()))
}

const ENTITY_FIELDS: &[&str] = &["uid", "attrs", "parents", "tags"];

fn parse_uid(kind: &str, id: &str) -> Result<EntityUid, Box<DetailedError>> {
    uid(kind, id).ok_or_else(|| plain_error(format!("`{kind}` is not a type name")))
}

fn entity<'a>(
    uid: EntityUid,
    attributes: impl IntoIterator<Item = (&'a str, RestrictedExpression)>,
    parent: Option<EntityUid>,
) -> Result<Entity, Box<DetailedError>> {
    let attributes = attributes
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    Entity::new(uid, attributes, parent.into_iter().collect()).map_err(|error| box_error(&error))
}

fn set<'a>(tags: impl Iterator<Item = &'a str>) -> RestrictedExpression {
    RestrictedExpression::new_set(tags.map(|tag| RestrictedExpression::new_string(tag.to_owned())))
}

/// What Cedar reported, in a box because it is large.
pub(in crate::policy) fn box_error<'a, E>(error: &'a E) -> Box<DetailedError>
where
    DetailedError: From<&'a E>,
{
    Box::new(DetailedError::from(error))
}

fn plain_error(message: String) -> Box<DetailedError> {
    Box::new(DetailedError {
        message,
        help: None,
        code: None,
        url: None,
        severity: None,
        source_locations: Vec::new(),
        related: Vec::new(),
    })
}

/// The offset of a line and column as serde_json counts them, both from 1, columns in bytes.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text
        .split_inclusive('\n')
        .take(line.saturating_sub(1))
        .map(str::len)
        .sum();
    before + column.saturating_sub(1)
}

/// Where `piece`, borrowed from `text`, stands in it.
fn range_of(text: &str, piece: &str) -> Range<usize> {
    let start = piece.as_ptr().addr().saturating_sub(text.as_ptr().addr());
    start..start + piece.len()
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

    use super::*;
    use crate::{
        catalog::{RoutineDef, functions::Kinds},
        dialect::Dialect,
        policy::{
            ColumnFlow, PolicySet,
            tests::fixture::{self, load, sources},
        },
    };

    fn problem(entities: &str) -> PolicyProblem {
        let mut sources = sources("permit(principal, action, resource);");
        sources.entities = Some(entities.to_owned());
        let errors = load(&sources).unwrap_err();
        assert_eq!(errors.problems().len(), 1, "{errors}");
        errors.problems()[0].clone()
    }

    #[test]
    fn mistakes_in_entities_point_at_their_line() {
        for (text, line, message) in [
            ("[\n{ \"uid\": 1, }]", 2, "not a JSON list"),
            (
                "[\n\n{\"uid\":{\"type\":\"Agent\",\"id\":\"a\"},\"attrs\":{\"tenant\":\"x\"},\"parents\":[]}]",
                3,
                "tenant",
            ),
            (
                "[\n{\"uid\":{\"type\":\"Agent\",\"id\":\"a, 1.5\"},\n\"attrs\":{\"tenant\":-1.50},\"parents\":[]}]",
                3,
                "`-1.50` is no whole number",
            ),
            (
                "[\n{\"uid\":{\"type\":\"Agent\",\"id\":\"a\"},\n\"attrs\":{\"tenant\":9223372036854775808},\"parents\":[]}]",
                3,
                "`9223372036854775808` is no whole number",
            ),
            (
                "[\n{\"uid\":{\"type\":\"Agent\",\"id\":\"a\"},\"attrs\":{},\n\"parent\":[]}]",
                3,
                "no field `parent`",
            ),
            (
                "[{\"uid\":{\"type\":\"Robot\",\"id\":\"a\"},\"attrs\":{},\"parents\":[]}]",
                1,
                "Robot",
            ),
            (
                "[\n{\"uid\":{\"type\":\"Table\",\"id\":\"main.users\"},\"attrs\":{\"tags\":[],\"kind\":\"x\"},\"parents\":[]}]",
                2,
                "come from the catalog",
            ),
            (
                "[{\"uid\":{\"type\":\"Agent\",\"id\":\"a\"},\"attrs\":{},\"parents\":[]},\n{\"uid\":{\"type\":\"Agent\",\"id\":\"a\"},\"attrs\":{},\"parents\":[]}]",
                2,
                "given twice",
            ),
            (
                "[{\"uid\":{\"type\":\"User\",\"id\":\"a\"},\"attrs\":{},\"parents\":[]}]",
                1,
                "level",
            ),
        ] {
            let problem = problem(text);
            assert_eq!(problem.file, "entities.json");
            assert_eq!(problem.line, Some(line), "{problem}");
            assert!(problem.message.contains(message), "{problem}");
        }
    }

    #[test]
    fn unreadable_relations_have_no_entity() {
        let ids = catalog_ids(&fixture::catalog(), &Tags::default(), &Templates::default());
        assert!(ids["Table"].contains("main.contacts"));
        assert!(!ids["Table"].contains("main.sqlite_schema"));
    }

    #[test]
    fn functions_cost_a_session_nothing() {
        let routine = |n: u32| RoutineDef {
            schema: "public".to_owned(),
            name: format!("f{n}"),
            kinds: Kinds::SCALAR,
            extensions: Vec::new(),
            min_args: 0,
            max_args: None,
            columns: Vec::new(),
            parameters: Vec::new(),
        };
        let catalog = (0..3500).fold(Catalog::builder(Dialect::Postgres), |catalog, n| {
            catalog.routine(routine(n))
        });
        let catalog = Arc::new(catalog.build().unwrap());
        let permit =
            "permit(principal, action == Action::\"call\", resource == Function::\"public.f77\")
            when { resource in Schema::\"public\" && resource.safety == \"unknown\" };";
        let mut sources = sources(permit);
        sources.classification = None;
        let set = PolicySet::load(&sources, &catalog, &ColumnFlow::default()).unwrap();
        for who in ["bot", "unknown"] {
            let view = set.session(&fixture::agent(who));
            for (name, permitted) in [("public.f77", true), ("public.f78", false)] {
                let decision = view.function(catalog.function(name).unwrap()).unwrap();
                assert_eq!(decision.permitted, permitted, "{who} {name}");
            }
        }
    }
}
