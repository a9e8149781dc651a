//! What policies ask of principals and resources by `has`. What cannot be there is absent to Cedar without a word: a misspelt
//! attribute would make a condition constant, so that a forbid forbids nothing.

use std::collections::{BTreeMap, BTreeSet};

use cedar_policy::{
    EntityTypeName, Policy, PrincipalConstraint, ResourceConstraint, Schema, SchemaFragment,
};
use serde_json::Value;

use crate::catalog::{Catalog, Column};
use crate::policy::{
    cedar::{
        attribute_type::{attribute_type, shows_presence},
        by_action::covers,
        entities::action_uid,
        named_relations::NamedRelations,
        schema,
        schema::PolicyAction,
        schema_fragment,
        seen_attribute::{find_seen_attribute, seen_attributes},
    },
    load::{
        diagnostic::{PolicyProblem, Source, probably},
        source::{Located, Origin},
        unseen_attribute,
    },
};

/// Reports every `has` that is never true, and every look at the value of a column that policies cannot compare. Gives
/// the ids of those policies: what Cedar would say of them is the same in other words.
pub(in crate::policy) fn check(
    located: &[Located<'_>],
    catalog: &Catalog,
    (schema, named): (&Schema, &NamedRelations<'_>),
    principals: &Source<'_>,
    problems: &mut Vec<PolicyProblem>,
) -> BTreeSet<String> {
    let types = Types {
        catalog,
        schema,
        named,
        declared: read_declarations(principals),
    };
    let mut out = BTreeSet::new();
    for located in located {
        let Located { policy, origin, .. } = located;
        let mut found = Vec::new();
        // One that cannot be written down is refused by Cedar's validation, which reads the same.
        if let Some(conditions) = located.conditions().and_then(Value::as_array) {
            types.policy(policy, conditions, origin, &mut found);
        }
        found.dedup();
        if !found.is_empty() {
            out.insert(policy.id().to_string());
        }
        problems.extend(found);
    }
    out
}

/// The entity types whose attributes are known.
struct Types<'a> {
    catalog: &'a Catalog,
    schema: &'a Schema,
    named: &'a NamedRelations<'a>,
    /// The attributes of the other types; a type whose attributes are declared in a way not read here is left out.
    declared: BTreeMap<String, Shape>,
}

/// The attributes of a record or an entity type, with those of the records among them.
#[derive(Default)]
struct Shape(BTreeMap<String, Option<Shape>>);

/// The types that the variables of a condition may be of, by the name of the variable.
#[derive(Clone, Default)]
struct Possible(BTreeMap<&'static str, BTreeSet<String>>);

impl Possible {
    fn types_of(&self, json: &Value) -> Option<(&'static str, &BTreeSet<String>)> {
        let name = json.get("Var")?.as_str()?;
        let (name, types) = self.0.get_key_value(name)?;
        Some((name, types))
    }

    fn retain(&mut self, json: &Value, keep: impl Fn(&str) -> bool) {
        let name = json.get("Var").and_then(Value::as_str);
        if let Some(types) = name.and_then(|name| self.0.get_mut(name)) {
            types.retain(|kind| keep(kind));
        }
    }
}

/// What a type has under a name.
enum Found<'a> {
    /// An attribute with a value, which may be any.
    Value,
    /// A column of which policies can only ask whether it is there.
    Presence(&'a Column),
    /// A column of which they cannot ask even that.
    Untyped(&'a Column),
    Nothing,
}

impl Types<'_> {
    fn policy(
        &self,
        policy: &Policy,
        conditions: &[Value],
        origin: &Origin<'_>,
        out: &mut Vec<PolicyProblem>,
    ) {
        if conditions.is_empty() {
            return;
        }
        let mut possible = self.scope(policy);
        for condition in conditions {
            let Some(body) = condition.get("body") else {
                continue;
            };
            self.walk(body, &possible, origin, out);
            if condition.get("kind").and_then(Value::as_str) == Some("when") {
                possible = self.narrow(body, possible);
            }
        }
    }

    /// The types that the policy's scope admits.
    fn scope(&self, policy: &Policy) -> Possible {
        let scope = policy.resource_constraint();
        let mut principals = BTreeSet::new();
        let mut resources = BTreeSet::new();
        for action in PolicyAction::ALL
            .iter()
            .filter(|action| covers(policy, **action))
        {
            // All actions are of the same principals.
            let (Ok(of_principals), Ok(uid)) =
                (action_uid(PolicyAction::Select), action_uid(*action))
            else {
                continue;
            };
            let of_action = self.schema.principals_for_action(&of_principals);
            principals.extend(of_action.into_iter().flatten().map(ToString::to_string));
            if action.is_of_rows() {
                let rows = self.named.with_rows_in_scope(&scope);
                resources.extend(rows.into_iter().map(schema::row_type));
            } else {
                let of_action = self.schema.resources_for_action(&uid);
                resources.extend(of_action.into_iter().flatten().map(ToString::to_string));
            }
        }
        let is = |kind: &EntityTypeName| {
            let kind = kind.to_string();
            move |known: &String| *known == kind
        };
        match policy.principal_constraint() {
            PrincipalConstraint::Any | PrincipalConstraint::In(_) => {}
            PrincipalConstraint::Eq(uid) => principals.retain(is(uid.type_name())),
            PrincipalConstraint::Is(kind) | PrincipalConstraint::IsIn(kind, _) => {
                principals.retain(is(&kind));
            }
        }
        let (kind, within) = match scope {
            ResourceConstraint::Any => (None, None),
            ResourceConstraint::Eq(uid) => (Some(uid.type_name().clone()), None),
            ResourceConstraint::In(uid) => (None, Some(uid)),
            ResourceConstraint::Is(kind) => (Some(kind), None),
            ResourceConstraint::IsIn(kind, uid) => (Some(kind), Some(uid)),
        };
        if let Some(kind) = kind {
            resources.retain(is(&kind));
        }
        if let Some(uid) = within {
            let (kind, id) = (uid.type_name().to_string(), uid.id().unescaped());
            resources.retain(|known| self.may_be_in(known, &kind, id));
        }
        Possible(BTreeMap::from([
            ("principal", principals),
            ("resource", resources),
        ]))
    }

    /// Whether an entity of the type `kind` may be in this one.
    fn may_be_in(&self, kind: &str, ancestor: &str, id: &str) -> bool {
        match (self.named.with_row_type(kind), ancestor) {
            (Some(relation), "Table") => relation.uid == id,
            (Some(relation), "Schema") => schema::schema_id(self.catalog, &relation.schema) == id,
            (Some(_) | None, _) => true,
        }
    }

    fn walk(
        &self,
        json: &Value,
        possible: &Possible,
        origin: &Origin<'_>,
        out: &mut Vec<PolicyProblem>,
    ) {
        let fields = match json {
            Value::Object(fields) => fields,
            Value::Array(items) => {
                for item in items {
                    self.walk(item, possible, origin, out);
                }
                return;
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return,
        };
        for (operator, operands) in fields {
            let operand = |name: &str| operands.get(name).unwrap_or(&Value::Null);
            match operator.as_str() {
                "&&" => {
                    self.walk(operand("left"), possible, origin, out);
                    let narrowed = self.narrow(operand("left"), possible.clone());
                    self.walk(operand("right"), &narrowed, origin, out);
                }
                "if-then-else" => {
                    self.walk(operand("if"), possible, origin, out);
                    let narrowed = self.narrow(operand("if"), possible.clone());
                    self.walk(operand("then"), &narrowed, origin, out);
                    self.walk(operand("else"), possible, origin, out);
                }
                "has" | "." => {
                    out.extend(self.check_access(operator, operands, possible, origin));
                    self.walk(operand("left"), possible, origin, out);
                }
                _ => self.walk(operands, possible, origin, out),
            }
        }
    }

    /// What may still be where `json` holds.
    fn narrow(&self, json: &Value, mut possible: Possible) -> Possible {
        let Some((operator, operands)) = json.as_object().and_then(|fields| fields.iter().next())
        else {
            return possible;
        };
        let operand = |name: &str| operands.get(name).unwrap_or(&Value::Null);
        let mut within = |left: &Value, right: &Value| {
            let mut uids = match right.get("Set").and_then(Value::as_array) {
                Some(members) => members.iter().map(entity).collect(),
                None => vec![entity(right)],
            };
            let all: Option<Vec<_>> = uids.drain(..).collect();
            if let Some(all) = all {
                let any = |kind: &str| all.iter().any(|(of, id)| self.may_be_in(kind, of, id));
                possible.retain(left, any);
            }
        };
        match operator.as_str() {
            "&&" => {
                let possible = self.narrow(operand("left"), possible);
                return self.narrow(operand("right"), possible);
            }
            "is" => {
                if let Some(ancestor) = operands.get("in") {
                    within(operand("left"), ancestor);
                }
                let wanted = operand("entity_type").as_str().unwrap_or_default();
                possible.retain(operand("left"), |kind| kind == wanted);
            }
            "in" => within(operand("left"), operand("right")),
            "==" => {
                if let Some((wanted, _)) = entity(operand("right")) {
                    possible.retain(operand("left"), |kind| kind == wanted);
                }
            }
            _ => {}
        }
        possible
    }

    /// What is wrong with `variable has name` or `variable.name`.
    fn check_access(
        &self,
        operator: &str,
        operands: &Value,
        possible: &Possible,
        origin: &Origin<'_>,
    ) -> Option<PolicyProblem> {
        let left = operands.get("left")?;
        let Some((variable, types)) = possible.types_of(left) else {
            return self.check_record_access(operator, operands, left, possible, origin);
        };
        // `has a.b` asks for the value of `a`.
        let (name, goes_on) = match operands.get("attr")? {
            Value::Array(path) => (path.first()?.as_str()?, path.len() > 1),
            attr => (attr.as_str()?, false),
        };
        let looks_at_value = operator == "." || goes_on;
        let mut is_there = false;
        for kind in types {
            match self.attribute(kind, name) {
                Found::Value => is_there = true,
                Found::Presence(column) if looks_at_value => {
                    let message = format!(
                        "`{}` is {}, which policies cannot compare",
                        column.uid,
                        describe_type(column)
                    );
                    let help = format!("they can ask whether it is NULL: `{variable} has {name}`");
                    return Some(origin.at_attribute(name, message).with_help(Some(help)));
                }
                Found::Presence(_) => is_there = true,
                Found::Untyped(column) => {
                    let message = format!(
                        "`{}` is {}, of which policies know nothing",
                        column.uid,
                        describe_type(column)
                    );
                    let help = "a condition on it can stand in a view, to which policies give access instead";
                    return Some(origin.at_attribute(name, message).with_help(Some(help)));
                }
                Found::Nothing => {}
            }
        }
        if is_there && goes_on {
            return self.check_record_access(operator, operands, left, possible, origin);
        }
        // Of a value that is not there Cedar's validation tells.
        if is_there || operator == "." || types.is_empty() {
            return None;
        }
        let names: BTreeSet<String> = types.iter().flat_map(|kind| self.names(kind)).collect();
        let help = self.explain_unseen(types, name);
        let help = help.or_else(|| match probably(name, names.iter().map(String::as_str)) {
            Some(name) => Some(format!("did you mean `{name}`?")),
            None if names.is_empty() || names.len() > NAMES => None,
            None => {
                let names: Vec<String> = names.into_iter().collect();
                Some(format!("there are `{}`", names.join("`, `")))
            }
        });
        let of = match types.iter().next() {
            Some(kind) if types.len() == 1 => format!("`{kind}` has no attribute `{name}`"),
            Some(_) | None => format!("no type that it may be of has an attribute `{name}`"),
        };
        let message = format!("`{variable} has {name}` is never true: {of}");
        Some(origin.at_attribute(name, message).with_help(help))
    }

    /// Why rows of these types have no attribute called `name`, where it is one of those that ask for a row that is seen.
    fn explain_unseen(&self, types: &BTreeSet<String>, name: &str) -> Option<String> {
        let mut relations = types
            .iter()
            .filter_map(|kind| self.named.with_row_type(kind));
        relations
            .find_map(|relation| unseen_attribute::explain_absence(self.catalog, relation, name))
    }

    /// What is wrong with `variable.record has name`, and with `variable has record.name`.
    fn check_record_access(
        &self,
        operator: &str,
        operands: &Value,
        left: &Value,
        possible: &Possible,
        origin: &Origin<'_>,
    ) -> Option<PolicyProblem> {
        if operator != "has" {
            return None;
        }
        let (variable, mut path) = attributes_of(left)?;
        let (variable, types) = possible.types_of(variable)?;
        match operands.get("attr")? {
            Value::Array(names) => {
                for name in names {
                    path.push(name.as_str()?);
                }
            }
            attr => path.push(attr.as_str()?),
        }
        let mut known: Vec<&Shape> = Vec::new();
        for kind in types {
            // A type of which this is not known may have anything.
            known.push(self.declared.get(kind)?);
        }
        for (at, name) in path.iter().enumerate() {
            let mut inner = Vec::new();
            for shape in &known {
                match shape.0.get(*name) {
                    None => {}
                    // No record, or one that is not read here.
                    Some(None) => return None,
                    Some(Some(shape)) => inner.push(shape),
                }
            }
            if !inner.is_empty() {
                known = inner;
                continue;
            }
            // What is asked of a variable itself is looked at there.
            let of = path.get(..at).filter(|of| !of.is_empty())?.join(".");
            let names: BTreeSet<&str> = known
                .iter()
                .flat_map(|shape| shape.0.keys().map(String::as_str))
                .collect();
            let help = probably(name, names).map(|name| format!("did you mean `{name}`?"));
            let message =
                format!("`{variable}.{of} has {name}` is never true: it has no attribute `{name}`");
            return Some(origin.at_attribute(name, message).with_help(help));
        }
        None
    }

    fn attribute(&self, kind: &str, name: &str) -> Found<'_> {
        let Some(relation) = self.named.with_row_type(kind) else {
            return match self.declared.get(kind) {
                Some(shape) if !shape.0.contains_key(name) => Found::Nothing,
                Some(_) | None => Found::Value,
            };
        };
        let column = relation
            .position(name)
            .and_then(|index| relation.column(index));
        let dialect = self.catalog.dialect();
        match column {
            None => match find_seen_attribute(self.catalog, relation, name) {
                Some(_) => Found::Value,
                None => Found::Nothing,
            },
            Some(column) if attribute_type(column, dialect).is_some() => Found::Value,
            Some(column) if shows_presence(column, dialect) => Found::Presence(column),
            Some(column) => Found::Untyped(column),
        }
    }

    fn names(&self, kind: &str) -> Vec<String> {
        match self.named.with_row_type(kind) {
            Some(relation) => {
                let dialect = self.catalog.dialect();
                let columns = relation.columns.iter();
                let shown = columns.filter(|column| shows_presence(column, dialect));
                let seen = seen_attributes(self.catalog, relation).into_iter();
                let seen = seen.map(|attribute| attribute.name);
                shown
                    .map(|column| column.key.to_string())
                    .chain(seen)
                    .collect()
            }
            None => {
                let shape = self.declared.get(kind);
                let names = shape.into_iter().flat_map(|shape| shape.0.keys());
                names.cloned().collect()
            }
        }
    }
}

/// How many names a hint lists.
const NAMES: usize = 12;

fn describe_type(column: &Column) -> String {
    if column.type_name.is_empty() {
        "of no declared type".to_owned()
    } else {
        format!("of the type `{}`", column.type_name)
    }
}

/// The type and id of an entity literal.
fn entity(json: &Value) -> Option<(&str, &str)> {
    let uid = json.get("Value")?.get("__entity")?;
    Some((uid.get("type")?.as_str()?, uid.get("id")?.as_str()?))
}

/// The variable at the root of `variable.name.name`, and the names.
fn attributes_of(json: &Value) -> Option<(&Value, Vec<&str>)> {
    let Some(access) = json.get(".") else {
        return Some((json, Vec::new()));
    };
    let (variable, mut path) = attributes_of(access.get("left")?)?;
    path.push(access.get("attr")?.as_str()?);
    Some((variable, path))
}

/// The types of principals that have an attribute called `name`, where `kind` has none.
pub(in crate::policy) fn find_declaring_types(
    principals: &Source<'_>,
    name: &str,
    kind: &str,
) -> Vec<String> {
    let is_fixed = |kind: &str| schema::CATALOG_TYPES.contains(&kind);
    if is_fixed(kind) {
        return Vec::new();
    }
    let declared = read_declarations(principals).into_iter();
    let having = declared.filter(|(other, Shape(attributes))| {
        other != kind && !is_fixed(other) && attributes.contains_key(name)
    });
    having.map(|(other, _)| other).collect()
}

/// The attributes of the principals' types and of the fixed ones.
fn read_declarations(principals: &Source<'_>) -> BTreeMap<String, Shape> {
    // It has been read before, as a part of the whole schema.
    let own = SchemaFragment::from_cedarschema_str(principals.text).ok();
    let own = own.map(|(fragment, _)| fragment);
    let mut out = BTreeMap::new();
    for fragment in own
        .into_iter()
        .chain(schema_fragment::fixed_types().cloned())
    {
        let json = fragment.to_json_value().unwrap_or_default();
        add_declarations(&json, &mut out);
    }
    out
}

/// The attributes of the types that one fragment of a schema declares.
fn add_declarations(json: &Value, out: &mut BTreeMap<String, Shape>) {
    for (namespace, declarations) in json.as_object().into_iter().flatten() {
        let types = declarations.get("entityTypes").and_then(Value::as_object);
        for (name, declaration) in types.into_iter().flatten() {
            let shape = match declaration.get("shape") {
                None => Shape::default(),
                Some(shape) => match record(shape, declarations, 0) {
                    Some(shape) => shape,
                    None => continue,
                },
            };
            let name = if namespace.is_empty() {
                name.clone()
            } else {
                format!("{namespace}::{name}")
            };
            out.insert(name, shape);
        }
    }
}

/// The attributes of a record type, which may have a name; nothing of what is no record, or not read here.
fn record(json: &Value, declarations: &Value, depth: u8) -> Option<Shape> {
    /// As deep as a name may stand for a name.
    const DEPTH: u8 = 16;
    let named = json.get("name").or_else(|| json.get("type"));
    let common = named.and_then(Value::as_str).and_then(|name| {
        declarations
            .get("commonTypes")
            .and_then(|types| types.get(name))
    });
    match common {
        Some(common) if depth < DEPTH => record(common, declarations, depth + 1),
        Some(_) => None,
        None => {
            let attributes = json.get("attributes")?.as_object()?;
            let attribute =
                |(name, json): (&String, &Value)| (name.clone(), record(json, declarations, depth));
            Some(Shape(attributes.iter().map(attribute).collect()))
        }
    }
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

    use std::sync::Arc;

    use crate::{
        catalog::{Catalog, TypeClass},
        dialect::Dialect,
        policy::{
            ColumnFlow, PolicyErrors, PolicySet,
            tests::fixture::{catalog, column, load, set, sources, table},
        },
    };

    const TICKETS: &str =
        "forbid(principal, action == Action::\"see\", resource is row::main::tickets)";

    #[test]
    fn what_cannot_be_there_does_not_load() {
        for (policy, message, help) in [
            (
                format!("{TICKETS}\nwhen {{ resource has regoin }};"),
                "`resource has regoin` is never true: `row::main::tickets` has no attribute `regoin`",
                Some("did you mean `region`?"),
            ),
            (
                format!("{TICKETS}\nunless {{ !(resource has titel) }};"),
                "`resource has titel` is never true: `row::main::tickets` has no attribute `titel`",
                Some("did you mean `title`?"),
            ),
            (
                format!("{TICKETS}\nunless {{ principal has tenat && resource.id == 1 }};"),
                "`principal has tenat` is never true: no type that it may be of has an attribute `tenat`",
                Some("did you mean `tenant`?"),
            ),
            (
                "forbid(principal is User, action == Action::\"see\", resource)\nwhen { principal has tenant };".to_owned(),
                "`principal has tenant` is never true: `User` has no attribute `tenant`",
                Some("there are `level`"),
            ),
            (
                "forbid(principal, action == Action::\"see\", resource in Table::\"main.customers\")\nwhen { resource has region };".to_owned(),
                "`resource has region` is never true: `row::main::customers` has no attribute `region`",
                None,
            ),
            (
                "forbid(principal, action == Action::\"see\", resource)\nwhen { resource is row::main::customers && resource has region };".to_owned(),
                "`resource has region` is never true: `row::main::customers` has no attribute `region`",
                None,
            ),
            (
                "forbid(principal, action == Action::\"see\", resource)\nwhen { resource in Table::\"main.customers\" && resource has region };".to_owned(),
                "`resource has region` is never true: `row::main::customers` has no attribute `region`",
                None,
            ),
            (
                "forbid(principal, action == Action::\"see\", resource)\nwhen { resource has deleted };".to_owned(),
                "`resource has deleted` is never true: no type that it may be of has an attribute `deleted`",
                None,
            ),
            (
                "forbid(principal, action in Action::\"read\", resource)\nwhen { resource has tag };".to_owned(),
                "`resource has tag` is never true: `Column` has no attribute `tag`",
                Some("did you mean `tags`?"),
            ),
        ] {
            let errors = load(&sources(&policy)).unwrap_err();
            assert_eq!(errors.problems().len(), 1, "{errors}");
            let problem = &errors.problems()[0];
            assert_eq!(problem.message, message);
            assert_eq!(problem.line, Some(2), "{problem}");
            if help.is_some() {
                assert_eq!(problem.help.as_deref(), help, "{problem}");
            }
        }
    }

    #[test]
    fn records_have_attributes_of_their_own() {
        let asking = |condition: &str| {
            let policy = format!(
                "forbid(principal is Agent, action == Action::\"see\", resource)\nwhen {{ {condition} }};"
            );
            let mut sources = sources_alone(&policy);
            sources.entities = None;
            sources.principals_schema = Some(
                "type Profile = { region?: String, manager?: { name?: String } }; \
                 entity Role; entity User; entity Agent { profile: Profile };"
                    .to_owned(),
            );
            PolicySet::load(&sources, &Arc::new(catalog()), &ColumnFlow::default()).map(drop)
        };
        for condition in [
            "principal.profile has region",
            "principal has profile.region",
            "principal.profile has manager.name",
            "principal.profile has manager && principal.profile.manager has name",
        ] {
            let loaded = asking(condition);
            assert!(loaded.is_ok(), "{condition}: {}", loaded.unwrap_err());
        }
        for (condition, message) in [
            (
                "principal.profile has regoin",
                "`principal.profile has regoin` is never true: it has no attribute `regoin`",
            ),
            (
                "principal has profile.regoin",
                "`principal.profile has regoin` is never true: it has no attribute `regoin`",
            ),
            (
                "principal.profile has manager.nam",
                "`principal.profile.manager has nam` is never true: it has no attribute `nam`",
            ),
            (
                "principal.profile has manager && principal.profile.manager has nam",
                "`principal.profile.manager has nam` is never true: it has no attribute `nam`",
            ),
        ] {
            let errors = asking(condition).unwrap_err();
            assert_eq!(errors.problems().len(), 1, "{condition}: {errors}");
            assert_eq!(errors.problems()[0].message, message);
            assert_eq!(errors.problems()[0].line, Some(2));
        }
    }

    #[test]
    fn what_some_type_has_may_be_asked_for() {
        for policy in [
            "forbid(principal, action == Action::\"see\", resource) when { resource has region };",
            "forbid(principal, action == Action::\"see\", resource) when { principal has tenant };",
            "forbid(principal, action == Action::\"see\", resource) unless { resource is row::main::customers || resource has region };",
            "forbid(principal, action in Action::\"read\", resource) unless { resource has tags };",
        ] {
            set(policy);
        }
    }

    fn over(dialect: Dialect, type_name: &str, condition: &str) -> Result<(), PolicyErrors> {
        let mut docs = table("docs", &["id"]);
        let mut at = column("at", TypeClass::from_name(dialect, type_name));
        at.type_name = type_name.to_owned();
        docs.columns.push(at);
        docs.schema = Catalog::builder(dialect)
            .build()
            .unwrap()
            .default_schema()
            .to_owned();
        let schema = docs.schema.clone();
        let catalog = Catalog::builder(dialect).relation(docs).build().unwrap();
        let policy = format!(
            "forbid(principal, action == Action::\"see\", resource is row::{schema}::docs)\nwhen {{ {condition} }};"
        );
        PolicySet::load(
            &sources_alone(&policy),
            &Arc::new(catalog),
            &ColumnFlow::default(),
        )
        .map(drop)
    }

    fn sources_alone(policy: &str) -> crate::policy::PolicySources {
        let mut sources = sources(policy);
        sources.classification = None;
        sources
    }

    #[test]
    fn values_of_every_type_may_be_asked_for() {
        for (dialect, type_name) in [
            (Dialect::Sqlite, "DATETIME"),
            (Dialect::Sqlite, "DECIMAL(10,2)"),
            (Dialect::Sqlite, ""),
            (Dialect::Postgres, "date"),
            (Dialect::Postgres, "timestamp without time zone"),
            (Dialect::Postgres, "jsonb"),
            (Dialect::Postgres, "numeric"),
            (Dialect::Postgres, "text[]"),
            (Dialect::Postgres, "bit(3)"),
            (Dialect::Mysql, "datetime(6)"),
            (Dialect::Mysql, "double"),
        ] {
            let has = over(dialect, type_name, "resource has at");
            assert!(has.is_ok(), "{type_name}: {}", has.unwrap_err());
            for condition in [
                "resource has at && resource.at == \"2026-01-01\"",
                "resource has at && resource.at == resource.at",
                "resource has at && resource.at has year",
                "resource has at.year",
            ] {
                let errors = over(dialect, type_name, condition).unwrap_err();
                assert_eq!(errors.problems().len(), 1, "{condition}: {errors}");
                let problem = &errors.problems()[0];
                assert!(
                    problem.message.contains("which policies cannot compare"),
                    "{problem}"
                );
                assert_eq!(problem.line, Some(2), "{problem}");
            }
        }
    }

    #[test]
    fn of_what_may_be_composite_nothing_is_asked() {
        for condition in ["!(resource has at)", "resource has at && resource.at == 1"] {
            let errors = over(Dialect::Postgres, "public.address", condition).unwrap_err();
            assert_eq!(
                errors.problems()[0].message,
                "`public.docs.at` is of the type `public.address`, of which policies know nothing"
            );
        }
    }
}
