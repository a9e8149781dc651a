//! The resources that permits name. What reaches beyond the data needs a permit that names it, so that none is reached by
//! chance. An account does not see every function, and a permit of an unseen function gives nothing.

use std::collections::{BTreeSet, HashMap};

use cedar_policy::{Effect, EntityUid, ResourceConstraint};
use serde_json::Value;

use crate::policy::{
    cedar::entities,
    load::{diagnostic::PolicyProblem, source::Located},
};
use crate::{catalog::Catalog, dialect::Dialect};

/// What a server's triggers are called together that it does not tell of, as `palisade-mysql` has it.
const UNSEEN: &str = "unseen_triggers";

/// By policy id, what each names: by `resource == …` in its scope, and of functions also by a condition that admits no other.
pub(in crate::policy) fn collect(located: &[Located<'_>]) -> HashMap<String, BTreeSet<EntityUid>> {
    let mut out: HashMap<String, BTreeSet<EntityUid>> = HashMap::new();
    for located in located {
        let mut named = BTreeSet::new();
        match located.policy.resource_constraint() {
            ResourceConstraint::Eq(uid) => {
                named.insert(uid);
            }
            ResourceConstraint::In(uid) | ResourceConstraint::IsIn(_, uid) => {
                named.extend(Some(uid).filter(is_function));
            }
            ResourceConstraint::Any | ResourceConstraint::Is(_) => {}
        }
        let conditions = located.conditions().and_then(Value::as_array);
        for condition in conditions.into_iter().flatten() {
            let is_wanted = condition.get("kind").and_then(Value::as_str) == Some("when");
            let body = condition.get("body").filter(|_| is_wanted);
            let functions = body.and_then(list_admitted).unwrap_or_default();
            named.extend(functions.into_iter().filter(is_function));
        }
        if !named.is_empty() {
            out.insert(located.policy.id().to_string(), named);
        }
    }
    out
}

/// Says more of each problem that a policy names a function which the catalog lacks. It becomes a warning where the account does not see
/// all of the function's schema, and its absence makes the policy permit less, never more. So one folder serves the account
/// that reads and the account that writes.
pub(in crate::policy) fn settle_absent(
    located: &[Located<'_>],
    catalog: &Catalog,
    problems: &mut Vec<PolicyProblem>,
    warnings: &mut Vec<PolicyProblem>,
) {
    for one in located {
        let mut literals = one.policy.entity_literals();
        literals.retain(|uid| is_function(uid) && catalog.function(uid.id().unescaped()).is_none());
        literals.sort_by_key(ToString::to_string);
        literals.dedup();
        for uid in literals {
            let id = uid.id().unescaped();
            let told = (one.origin).at_entity("Function", id, describe_absent(&uid));
            let is_told = |problem: &PolicyProblem| {
                (&problem.file, problem.span, &problem.message)
                    == (&told.file, told.span, &told.message)
            };
            let Some(at) = problems.iter().position(is_told) else {
                continue;
            };
            let help = match name_in_database(catalog, id) {
                Some(name) => Some(format!("did you mean `Function::{name:?}`?")),
                None => problems.get(at).and_then(|problem| problem.help.clone()),
            };
            let is_warning = is_in_unseen_schema(catalog, id)
                && one.policy.effect() == Effect::Permit
                && permits_less_without(one, &uid);
            if is_warning {
                problems.remove(at);
                let message = format!(
                    "{}: this account does not see all of its schema, and nothing permits a call of it here",
                    describe_absent(&uid)
                );
                let warning = one.origin.at_entity("Function", id, message);
                warnings.push(warning.with_help(help.or_else(|| advise_grant(catalog, id))));
            } else if let Some(problem) = problems.get_mut(at) {
                problem.help = help.or_else(|| advise_grant(catalog, id));
            }
        }
    }
}

/// What is said of a function that is not there, word for word as of everything else.
fn describe_absent(uid: &EntityUid) -> String {
    format!("`{uid}` is not in the catalog")
}

/// The function as the database has it, where `id` has the name that policies have for its schema: functions keep theirs.
fn name_in_database(catalog: &Catalog, id: &str) -> Option<String> {
    let mut schemas = catalog.policy_schemas().iter();
    schemas.find_map(|(schema, name)| {
        let function = id.strip_prefix(name.as_str())?.strip_prefix('.')?;
        let own = format!("{schema}.{function}");
        catalog.function(&own).is_some().then_some(own)
    })
}

/// Whether the server does not tell this account of everything in the schema that `id` names.
fn is_in_unseen_schema(catalog: &Catalog, id: &str) -> bool {
    let triggers = (catalog.relations().iter()).flat_map(|relation| &relation.triggers);
    let mut unseen = triggers.filter(|trigger| trigger.function == UNSEEN);
    unseen.any(|trigger| {
        let uid = trigger.uid(catalog.dialect());
        let schema = uid.strip_suffix(UNSEEN);
        schema.is_some_and(|schema| schema.len() > 1 && id.starts_with(schema))
    })
}

/// What lets an account see a function, on servers that tell of one only to who may call it.
fn advise_grant(catalog: &Catalog, id: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let shown = match id.chars().all(is_plain) {
        true => id,
        false => "…",
    };
    match catalog.dialect() {
        Dialect::Mysql if catalog.engine().is_some() => Some(format!(
            "the account may not see it: `GRANT EXECUTE ON FUNCTION {shown} TO …` shows it a function; a trigger matters to accounts that change rows alone"
        )),
        Dialect::Mysql | Dialect::Postgres | Dialect::Sqlite => None,
    }
}

/// Whether a permit holds for no more where `uid` is not there: each mention of it is a choice of the resource, under no negation.
fn permits_less_without(located: &Located<'_>, uid: &EntityUid) -> bool {
    let Some(json) = &located.json else {
        return false;
    };
    let conditions = json.get("conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    conditions.all(|condition| {
        let body = condition.get("body").unwrap_or(&Value::Null);
        match condition.get("kind").and_then(Value::as_str) {
            Some("when") => chooses_alone(body, uid),
            Some(_) | None => !mentions(body, uid),
        }
    })
}

fn mentions(json: &Value, uid: &EntityUid) -> bool {
    let mut found = BTreeSet::new();
    entities::collect_uids(json, &mut found);
    found.contains(uid)
}

/// Whether `condition` names `uid` only to say which the resource is, so that it holds for no more without it.
fn chooses_alone(condition: &Value, uid: &EntityUid) -> bool {
    if !mentions(condition, uid) {
        return true;
    }
    let Some((operator, operands)) = condition.as_object().and_then(|all| all.iter().next()) else {
        return false;
    };
    let (Some(left), Some(right)) = (operands.get("left"), operands.get("right")) else {
        return false;
    };
    let chooses = |choice: &Value, of: &Value| is_resource(choice) && list_literals(of).is_some();
    match operator.as_str() {
        "&&" | "||" => chooses_alone(left, uid) && chooses_alone(right, uid),
        "==" => chooses(left, right) || chooses(right, left),
        "in" => chooses(left, right),
        "contains" => chooses(right, left),
        _ => false,
    }
}

fn is_function(uid: &EntityUid) -> bool {
    uid.type_name().to_string() == "Function"
}

/// The resources among which the resource is wherever the condition holds; none if it may be any.
fn list_admitted(condition: &Value) -> Option<BTreeSet<EntityUid>> {
    let (operator, operands) = condition.as_object()?.iter().next()?;
    let (left, right) = (operands.get("left")?, operands.get("right")?);
    match operator.as_str() {
        // Both hold, so that either says enough.
        "&&" => list_admitted(left).or_else(|| list_admitted(right)),
        "||" => {
            let (mut one, other) = (list_admitted(left)?, list_admitted(right)?);
            one.extend(other);
            Some(one)
        }
        "==" if is_resource(left) => list_literals(right),
        "==" if is_resource(right) => list_literals(left),
        "in" if is_resource(left) => list_literals(right),
        "contains" if is_resource(right) => list_literals(left),
        _ => None,
    }
}

fn is_resource(json: &Value) -> bool {
    json.get("Var").and_then(Value::as_str) == Some("resource")
}

/// The entities that are written there, alone or as a set, if nothing else is.
fn list_literals(json: &Value) -> Option<BTreeSet<EntityUid>> {
    let members = json.get("Set").and_then(Value::as_array);
    let members = members.map_or(std::slice::from_ref(json), Vec::as_slice);
    let mut out = BTreeSet::new();
    for member in members {
        let before = out.len();
        if !matches!(member.get("Value"), Some(Value::Object(_))) {
            return None;
        }
        entities::collect_uids(member, &mut out);
        if out.len() == before && members.len() == 1 {
            return None;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::sync::Arc;

    use crate::{
        catalog::{Catalog, Change, RelationDef, RoutineDef, Trigger, functions::Kinds},
        dialect::Dialect,
        policy::{ColumnFlow, PolicySet, PolicySources, tests::fixture::table},
    };

    /// The database `d`, of which an account sees all or does not.
    fn catalog(sees_all: bool) -> Catalog {
        let unseen = Trigger {
            schema: "d".to_owned(),
            function: super::UNSEEN.to_owned(),
            on: [Change::Insert].into(),
            columns: Default::default(),
        };
        let orders = RelationDef {
            schema: "d".to_owned(),
            triggers: match sees_all {
                true => Vec::new(),
                false => vec![unseen],
            },
            ..table("orders", &["id"])
        };
        let net = RoutineDef {
            schema: "d".to_owned(),
            name: "net".to_owned(),
            kinds: Kinds::SCALAR,
            extensions: Vec::new(),
            min_args: 1,
            max_args: Some(1),
            columns: Vec::new(),
            parameters: Vec::new(),
        };
        let builder = Catalog::builder(Dialect::Mysql)
            .search_path(["d".to_owned()])
            .database("d".to_owned())
            .engine("MariaDB 10.11.14")
            .relation(orders)
            .routine(net);
        builder.build().unwrap()
    }

    /// What is said where one policy stands alone: an error, or warnings of what the catalog lacks.
    fn told(catalog: Catalog, policy: &str, schemas: Option<&str>) -> Result<Vec<String>, String> {
        let sources = PolicySources {
            schemas: schemas.map(str::to_owned),
            ..PolicySources::from_cedar("p.cedar", policy)
        };
        let catalog = Arc::new(sources.name_schemas(catalog).unwrap());
        let set = PolicySet::load(&sources, &catalog, &ColumnFlow::default());
        let set = set.map_err(|errors| errors.to_string())?;
        let warnings = set.warnings().iter().map(ToString::to_string);
        Ok(warnings
            .filter(|told| told.contains("is not in the catalog"))
            .collect())
    }

    #[test]
    fn a_permit_may_name_what_only_another_account_sees() {
        let log = "Function::\"d.orders_log\"";
        for (scope, rest) in [
            (format!("resource == {log}"), String::new()),
            (
                "resource".to_owned(),
                format!("when {{ resource == {log} }}"),
            ),
            (
                "resource".to_owned(),
                format!(
                    "when {{ resource in [{log}, Function::\"d.net\"] && principal is Agent }}"
                ),
            ),
        ] {
            let policy = format!("permit (principal, action == Action::\"call\", {scope}) {rest};");
            let warnings = told(catalog(false), &policy, None).unwrap();
            let [warning] = warnings.as_slice() else {
                assert_eq!(warnings, [""; 1], "{policy}");
                return;
            };
            assert!(
                warning.contains("does not see all of its schema"),
                "{warning}"
            );
            assert!(
                warning.contains("GRANT EXECUTE ON FUNCTION d.orders_log"),
                "{warning}"
            );
            // Of a schema that is seen whole the name is wrong.
            let error = told(catalog(true), &policy, None).unwrap_err();
            assert!(
                error.contains("GRANT EXECUTE ON FUNCTION d.orders_log"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_name_that_holds_something_back_has_to_be_there() {
        let log = "Function::\"d.orders_log\"";
        for policy in [
            format!("forbid (principal, action == Action::\"call\", resource == {log});"),
            format!("permit (principal, action == Action::\"call\", resource) unless {{ resource == {log} }};"),
            format!("permit (principal, action == Action::\"call\", resource) when {{ resource != {log} }};"),
            format!("permit (principal, action == Action::\"call\", resource) when {{ !(resource == {log}) }};"),
            format!("permit (principal, action == Action::\"call\", resource) when {{ (resource == {log}) == false }};"),
            format!(
                "permit (principal, action == Action::\"call\", resource) when {{ if resource == {log} then false else true }};"
            ),
            format!("permit (principal, action == Action::\"call\", resource == {log}) unless {{ resource in {log} }};"),
            "permit (principal, action == Action::\"call\", resource == Function::\"other.orders_log\");".to_owned(),
        ] {
            let error = told(catalog(false), &policy, None).unwrap_err();
            assert!(error.contains("is not in the catalog"), "{policy}: {error}");
        }
    }

    #[test]
    fn a_function_by_the_policies_name_of_its_schema_is_told_by_its_own() {
        let policy =
            "permit (principal, action == Action::\"call\", resource == Function::\"shop.net\");";
        let error = told(catalog(true), policy, Some("[mysql]\nd = \"shop\"\n")).unwrap_err();
        assert!(
            error.contains("did you mean `Function::\"d.net\"`?"),
            "{error}"
        );
    }
}
