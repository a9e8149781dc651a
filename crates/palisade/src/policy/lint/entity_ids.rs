//! Entity literals in policies: Cedar's validator checks their types, not whether they exist. A
//! misspelt table in a forbid would silently forbid nothing.

use std::collections::{BTreeMap, HashSet};

use cedar_policy::{Entity, EntityUid, PrincipalConstraint};

use crate::catalog::{Catalog, RelationKind, SystemRelation, system_relations};
use crate::policy::{
    cedar::{
        entities::catalog_ids,
        schema::{ROW_NAMESPACE, TAGGED},
    },
    load::{
        classification::Tags,
        diagnostic::{PolicyProblem, Source, probably},
        source::Located,
        template::Templates,
    },
};

/// Checks the literals of every policy: those of catalog types must be in the catalog; those of the
/// operator's types ought to be among `known`, if the operator gave entities at all.
pub(in crate::policy) fn check(
    located: &[Located<'_>],
    catalog: &Catalog,
    (tags, templates): (&Tags, &Templates),
    known: Option<&HashSet<EntityUid>>,
    problems: &mut Vec<PolicyProblem>,
    warnings: &mut Vec<PolicyProblem>,
) {
    let ids = catalog_ids(catalog, tags, templates);
    for Located { policy, origin, .. } in located {
        let mut literals = policy.entity_literals();
        literals.sort_by_key(ToString::to_string);
        literals.dedup();
        for uid in literals {
            let kind = uid.type_name().to_string();
            let id = uid.id().unescaped();
            if kind == "Action" {
                continue;
            }
            if uid.type_name().namespace_components().next() == Some(ROW_NAMESPACE) {
                let problem = origin.at_entity(
                    &kind,
                    id,
                    format!("`{uid}` names a row, and rows have no ids"),
                );
                problems
                    .push(problem.with_help(Some("compare an attribute of `resource` instead")));
                continue;
            }
            match (ids.get(kind.as_str()), known) {
                (Some(ids), _) if !ids.contains(id) => {
                    let of = match kind.as_str() {
                        "Template" => "the templates",
                        TAGGED => "the tags that tables have",
                        _ => "the catalog",
                    };
                    let problem = origin.at_entity(&kind, id, format!("`{uid}` is not in {of}"));
                    // Those of the engine's own are in the catalog when a policy names them rightly.
                    let system: Vec<String> = match kind.as_str() {
                        "Table" => system_relations(catalog.dialect())
                            .map(SystemRelation::uid)
                            .collect(),
                        _ => Vec::new(),
                    };
                    if is_virtual(&kind, id, catalog) {
                        problems.push(problem.with_help(Some(OF_VIRTUAL)));
                        continue;
                    }
                    let candidates = || ids.iter().chain(&system).map(String::as_str);
                    let close = match_without_schema(id, candidates())
                        .or_else(|| probably(id, candidates()));
                    problems.push(problem.with_help(hint(&kind, close)));
                }
                (None, Some(known)) if !known.contains(&uid) => {
                    let same = known
                        .iter()
                        .filter(|other| other.type_name() == uid.type_name());
                    let close = probably(id, same.map(|other| other.id().unescaped()));
                    let problem =
                        origin.at_entity(&kind, id, format!("`{uid}` is not in the entities"));
                    warnings.push(problem.with_help(hint(&kind, close)));
                }
                (Some(_), _) | (None, Some(_) | None) => {}
            }
        }
    }
}

/// What is said where a policy names what no policy can permit.
pub(in crate::policy) const OF_VIRTUAL: &str = "it is of a virtual table or belongs to one, which no policy can permit; let agents read a table or view that holds the same";

/// Whether a policy names a virtual table, or a column of one.
fn is_virtual(kind: &str, id: &str, catalog: &Catalog) -> bool {
    let mut relations = catalog
        .relations()
        .iter()
        .filter(|relation| relation.kind == RelationKind::Virtual);
    match kind {
        "Table" => relations.any(|relation| relation.uid == id),
        "Column" => relations.any(|relation| {
            let column = id.strip_prefix(&relation.uid);
            column.is_some_and(|column| column.starts_with('.'))
        }),
        _ => false,
    }
}

/// Reports the first policy for those in a role, where no entities say who is in one: it would never apply.
pub(in crate::policy) fn roles(located: &[Located<'_>], problems: &mut Vec<PolicyProblem>) {
    for Located { policy, origin, .. } in located {
        let role = match policy.principal_constraint() {
            PrincipalConstraint::In(role) | PrincipalConstraint::IsIn(_, role) => role,
            PrincipalConstraint::Any | PrincipalConstraint::Is(_) | PrincipalConstraint::Eq(_) => {
                continue;
            }
        };
        let kind = role.type_name().to_string();
        let message = format!(
            "`{role}` has no members: there is no entities.json beside the policies that says who is in it"
        );
        let id = role.id().unescaped();
        let example = format!(
            "write entities.json: [{{\"uid\": {{\"type\": \"Agent\", \"id\": \"default\"}}, \"attrs\": {{}}, \
             \"parents\": [{{\"type\": \"{kind}\", \"id\": \"{id}\"}}]}}]"
        );
        problems.push(
            origin
                .at_entity(&kind, id, message)
                .with_help(Some(&example)),
        );
        return;
    }
}

/// Warns of each parent that is given to an entity and is none itself, unless a policy names it: whoever is in a misspelt
/// role is in none.
pub(in crate::policy) fn parents(
    source: &Source<'_>,
    given: &[Entity],
    located: &[Located<'_>],
    warnings: &mut Vec<PolicyProblem>,
) {
    let known: HashSet<EntityUid> = given.iter().map(Entity::uid).collect();
    let named: HashSet<EntityUid> = located
        .iter()
        .flat_map(|located| located.policy.entity_literals())
        .collect();
    let mut missing = BTreeMap::new();
    for entity in given {
        let (uid, _, parents) = entity.clone().into_inner();
        for parent in parents {
            if !known.contains(&parent) && !named.contains(&parent) {
                missing
                    .entry(parent.to_string())
                    .or_insert((parent, uid.clone()));
            }
        }
    }
    for (shown, (parent, child)) in missing {
        let id = parent.id().unescaped();
        let message = format!("`{shown}`, a parent of `{child}`, is not in the entities");
        let written = serde_json::to_string(id).unwrap_or_default();
        let problem = match source.text.find(&written) {
            Some(start) => source.at(start..start + written.len(), message),
            None => source.problem_of_file(message),
        };
        let same = known
            .iter()
            .filter(|other| other.type_name() == parent.type_name());
        let close = probably(id, same.map(|other| other.id().unescaped()));
        let help = hint(&parent.type_name().to_string(), close);
        warnings.push(problem.with_help(help));
    }
}

/// The one candidate that is `id` with its schema before it.
fn match_without_schema<'c>(
    id: &str,
    candidates: impl Iterator<Item = &'c str>,
) -> Option<&'c str> {
    let mut found = candidates.filter(|candidate| {
        let schema = candidate.strip_suffix(id).and_then(|s| s.strip_suffix('.'));
        schema.is_some_and(|schema| !schema.is_empty() && !schema.contains('.'))
    });
    found.next().filter(|_| found.next().is_none())
}

fn hint(kind: &str, close: Option<&str>) -> Option<String> {
    close.map(|close| format!("did you mean `{kind}::{close:?}`?"))
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
        catalog::{Catalog, RelationDef, RelationKind},
        dialect::Dialect,
        policy::{
            ColumnFlow, PolicySet, PolicySources,
            tests::fixture::{load, set, sources, table},
        },
    };

    #[test]
    fn literals_must_be_in_the_catalog() {
        for (scope, column, help) in [
            (
                "resource == Table::\"main.tikets\"",
                47,
                Some("did you mean `Table::\"main.tickets\"`?"),
            ),
            ("resource == Table::\"main.sqlite_schema\"", 47, None),
            (
                "resource in Schema::\"mian\"",
                47,
                Some("did you mean `Schema::\"main\"`?"),
            ),
            ("resource in Database::\"x\"", 47, None),
            (
                "resource == Table::\"tickets\"",
                47,
                Some("did you mean `Table::\"main.tickets\"`?"),
            ),
        ] {
            let text = format!(
                "\npermit(principal, action == Action::\"select\",\n                                  {scope});"
            );
            let errors = load(&sources(&text)).unwrap_err();
            let problem = &errors.problems()[0];
            assert!(
                problem.message.ends_with("is not in the catalog"),
                "{problem}"
            );
            assert_eq!(
                (problem.line, problem.column),
                (Some(3), Some(column)),
                "{problem}"
            );
            assert_eq!(problem.help.as_deref(), help);
        }
        for text in [
            "forbid(principal, action == Action::\"read_plain\", resource == Column::\"main.customers.emial\");",
            "permit(principal, action == Action::\"call\", resource == Function::\"lowr\");",
            "permit(principal, action == Action::\"select\", resource) when { resource == Table::\"main.nope\" };",
            "permit(principal, action == Action::\"see\", resource) when { resource == row::main::tickets::\"1\" };",
        ] {
            assert!(load(&sources(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn a_policy_that_names_a_virtual_table_is_told_why_it_cannot() {
        let search = RelationDef {
            kind: RelationKind::Virtual,
            ..table("tickets_fts", &["title"])
        };
        let catalog = Catalog::builder(Dialect::Sqlite)
            .relation(table("tickets_of", &["id", "title"]))
            .relation(search)
            .build();
        let catalog = Arc::new(catalog.unwrap());
        for literal in [
            "action == Action::\"select\", resource == Table::\"main.tickets_fts\"",
            "action == Action::\"read_plain\", resource == Column::\"main.tickets_fts.title\"",
        ] {
            let sources = PolicySources {
                classification: None,
                ..sources(&format!("permit(principal, {literal});"))
            };
            let errors = PolicySet::load(&sources, &catalog, &ColumnFlow::default()).unwrap_err();
            let [problem] = errors.problems() else {
                panic!("{errors}")
            };
            assert_eq!(
                problem.help.as_deref(),
                Some(super::OF_VIRTUAL),
                "{literal}"
            );
        }
    }

    #[test]
    fn a_misspelt_role_is_warned_of() {
        let set =
            set("forbid(principal in Role::\"analist\", action == Action::\"select\", resource);");
        let problem = &set.warnings()[0];
        assert_eq!(
            problem.help.as_deref(),
            Some("did you mean `Role::\"analyst\"`?")
        );
        assert_eq!((problem.line, problem.column), (Some(1), Some(21)));
    }

    #[test]
    fn parents_that_are_not_there_are_warned_of() {
        let mut sources = sources(
            "permit(principal in Role::\"named\", action == Action::\"select\", resource);",
        );
        sources.entities = Some(
            "[{\"uid\":{\"type\":\"Role\",\"id\":\"support\"},\"attrs\":{},\"parents\":[]},\n\
             {\"uid\":{\"type\":\"Agent\",\"id\":\"a\"},\"attrs\":{},\n\
             \"parents\":[{\"type\":\"Role\",\"id\":\"suport\"},{\"type\":\"Role\",\"id\":\"named\"}]}]"
                .to_owned(),
        );
        let set = load(&sources).unwrap();
        let told: Vec<_> = set
            .warnings()
            .iter()
            .filter(|warning| warning.file == "entities.json")
            .collect();
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(
            told[0].to_string(),
            "entities.json:3:32: `Role::\"suport\"`, a parent of `Agent::\"a\"`, is not in the entities\n  help: did you mean `Role::\"support\"`?"
        );
        let length = told[0].span.map(|span| span.length);
        assert_eq!(length, Some("\"suport\"".len()));
    }
}
