//! From texts to a validated policy set: stage by stage, so that one mistake is reported once.

pub(in crate::policy) mod annotation;
pub(in crate::policy) mod classification;
pub(in crate::policy) mod diagnostic;
pub(in crate::policy) mod format;
pub(in crate::policy) mod missing_attribute;
pub(in crate::policy) mod named_resources;
pub(in crate::policy) mod schema_names;
pub(in crate::policy) mod seen_chains;
pub(in crate::policy) mod source;
pub mod template;
pub(in crate::policy) mod unseen_attribute;
pub(in crate::policy) mod validation;
pub(in crate::policy) mod word;
pub(in crate::policy) mod written_help;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use cedar_policy::{
    Effect, EntityNamespace, EntityUid, ResourceConstraint, Schema, SchemaFragment,
    ffi::DetailedError,
};

use crate::policy::{
    cedar::{
        by_action::{Slices, covers, covers_any},
        context_use::{HAS_WHERE, looks_at_estimates},
        entities,
        entities::{RelationEntities, Store},
        mentioned_rows::MentionedRows,
        named_relations::NamedRelations,
        schema,
        schema::{DEFAULT_PRINCIPALS, PolicyAction, ROW_NAMESPACE},
        schemas::Schemas,
    },
    inheritance::Inheritance,
    lint::{
        Lint, aggregate_exceptions, attributes, ignores, ignores::Tried, other_databases,
        policies::WrittenPolicies, probe, statement_attributes, warn,
    },
    load::{
        annotation::Annotations,
        classification::ColumnFlow,
        diagnostic::{PolicyErrors, PolicyProblem, Source},
        source::{Located, Origins},
        template::Templates,
        validation::Validation,
    },
    obligation::Mask,
    rule::Rule,
    set::Loaded,
    sources::PolicySources,
    time_dependent,
};
use crate::{catalog::Catalog, dialect::Dialect, digest::sha256_hex, token::SECRET_BYTES};

pub(in crate::policy) const PRINCIPALS_FILE: &str = "principals.cedarschema";
pub(in crate::policy) const ENTITIES_FILE: &str = "entities.json";
const CLASSIFICATION_FILE: &str = "classification.toml";
const TEMPLATES_FILE: &str = "templates.toml";

/// Loads `sources` over `catalog`.
///
/// # Errors
/// With every problem of the first stage that has any.
pub(in crate::policy) fn load(
    sources: &PolicySources,
    catalog: &Arc<Catalog>,
    flow: &ColumnFlow,
    lint: Lint,
) -> Result<Loaded, PolicyErrors> {
    let mut problems = Vec::new();
    let (located, annotations) = policies(sources, catalog.dialect(), &mut problems);
    require_secret(sources, &located, &annotations, &mut problems);
    schema_names::check(sources, catalog, &mut problems);
    let principals = Source {
        name: PRINCIPALS_FILE,
        text: sources
            .principals_schema
            .as_deref()
            .unwrap_or(DEFAULT_PRINCIPALS),
    };
    let schemas = cedar_schemas(&principals, &mut problems);
    let classification = sources.classification.as_deref();
    let classification = classification.map(|text| Source {
        name: CLASSIFICATION_FILE,
        text,
    });
    let mut unmatched = Vec::new();
    let tags =
        classification::classify(classification, catalog, flow, &mut problems, &mut unmatched);
    let templates = sources.templates.as_deref().map(|text| Source {
        name: TEMPLATES_FILE,
        text,
    });
    let templates = Templates::read(templates.as_ref(), catalog.dialect(), &mut problems);
    let schemas = require_no_problems(schemas, &mut problems)?;
    let schema = &schemas.fixed;

    let entities = sources.entities.as_deref().map(|text| Source {
        name: ENTITIES_FILE,
        text,
    });
    let given = entities
        .map(|source| entities::operator_entities(&source, schema, &mut problems))
        .unwrap_or_default();
    let mut warnings = Vec::new();
    let origins: Origins<'_> = located
        .iter()
        .map(|l| (l.policy.id().to_string(), l.origin.clone()))
        .collect();
    let named = NamedRelations::new(catalog);
    let types = (schema, &named);
    let refused = attributes::check(&located, catalog, types, &principals, &mut problems);
    seen_chains::check(&located, catalog, &named, &mut problems);
    let others: Vec<_> = located
        .iter()
        .filter(|l| !refused.contains(l.policy.id().as_ref() as &str))
        .cloned()
        .collect();
    let validation = Validation {
        catalog,
        named: &named,
        schemas: &schemas,
        principals: &principals,
        origins: &origins,
    };
    warn(Rule::CedarWarning, &mut warnings, |warnings| {
        validation.check(&others, &mut problems, warnings);
    });
    let written = WrittenPolicies {
        located: &located,
        catalog,
        named: &named,
        tags: &tags,
        templates: &templates,
        entities,
        given: &given,
    };
    written.check(&mut problems, &mut warnings);
    match lint {
        // What only misleads an author waits for the author.
        Lint::Sample => {}
        Lint::EveryRelation => {
            warn(Rule::PatternUnmatched, &mut warnings, |warnings| {
                warnings.append(&mut unmatched);
            });
            written.advise_author(schema, &mut warnings);
        }
    }
    aggregate_exceptions::check(&located, &mut problems);
    let of_statements = statement_attributes::check(&located, &mut problems);
    let of_estimates = find_estimates(&located, catalog.dialect(), &mut warnings);
    let in_conditions = named_in_conditions(&located);
    let source = entities.unwrap_or(Source {
        name: ENTITIES_FILE,
        text: "",
    });
    let store = Store::new(catalog, (&tags, &templates), given, in_conditions, schema)
        .map_err(|error| problems.extend(source.cedar_problems(*error, 0, None)))
        .ok();
    let policies = Slices::new(located.iter().map(|l| &l.policy))
        .map_err(|error| problems.push(principals.problem_of_file(error.to_string())))
        .ok();
    let (store, policies) = require_no_problems(store.zip(policies), &mut problems)?;

    let loaded = Loaded {
        catalog: Arc::clone(catalog),
        timed: time_dependent::actions(&policies),
        schemas: schemas.with_mentioned(find_mentioned_rows(&located, &named)),
        policies,
        demands_approval: annotations.values().any(|found| found.approval.is_some()),
        annotations,
        unconditional: find_condition_permits(&located),
        of_estimates,
        of_statements,
        named: named_resources::collect(&located),
        beyond: Vec::new(),
        tags: Arc::new(tags),
        templates,
        store,
        relation_entities: RelationEntities::default(),
        named_columns: named_ids(&located, "Column"),
        named_tables: named_ids(&located, "Table"),
        named_row_types: named_types(&located),
        tables_in_attributes: principals.text.contains("Table"),
        columns_in_attributes: principals.text.contains("Column"),
        inheritance: Arc::new(Inheritance::new(catalog)),
        secret: sources.secret.clone(),
        flow: Arc::new(flow.clone()),
        version: version(sources, catalog, flow),
        texts_digest: digest(&(
            &sources.policies,
            &sources.classification,
            &sources.templates,
        )),
        entities_digest: digest(&(&sources.principals_schema, &sources.entities)),
        warnings,
    };
    let mut warnings = Vec::new();
    probe::check(&loaded, &origins, lint, &mut problems, &mut warnings);
    let beyond: Vec<_> = other_databases::check(&loaded, &origins)
        .into_iter()
        .map(|problem| problem.of_rule(Rule::BeyondDatabase))
        .collect();
    require_no_problems(Some(()), &mut problems)?;
    let mut loaded = loaded;
    loaded.warnings.extend(warnings);
    loaded.warnings.extend(beyond.iter().cloned());
    loaded.beyond = beyond;
    match lint {
        Lint::Sample => ignores::apply(sources, &mut loaded.warnings, Tried::Some),
        // The firewall as a whole has more to say.
        Lint::EveryRelation => {}
    }
    Ok(loaded)
}

/// Ids of the policies that look at what a database estimates, with a warning where it estimates nothing.
fn find_estimates(
    located: &[Located<'_>],
    dialect: Dialect,
    warnings: &mut Vec<PolicyProblem>,
) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for located in located {
        if !located.conditions().is_some_and(looks_at_estimates) {
            continue;
        }
        found.insert(located.policy.id().to_string());
        if dialect == Dialect::Sqlite {
            let message =
                "SQLite estimates neither costs nor rows, so what this looks at is never there";
            let warning = located.origin.problem(message);
            warnings.push(warning.of_rule(Rule::SqliteEstimate));
        }
    }
    found
}

/// The rows that policies about rows mention.
fn find_mentioned_rows(located: &[Located<'_>], named: &NamedRelations<'_>) -> MentionedRows {
    let mut mentioned = MentionedRows::default();
    for located in located {
        if !covers_any(&located.policy, PolicyAction::is_of_rows) {
            continue;
        }
        let about = named.with_rows_in_scope(&located.policy.resource_constraint());
        let about = match about.as_slice() {
            [one] => Some(one.id),
            _ => None,
        };
        match &located.json {
            Some(json) => {
                let relations = named.mentioned_in(json).into_iter();
                mentioned.add(about, relations.map(|relation| relation.id));
            }
            // What cannot be written down may name any of them.
            None => mentioned.add(about, named.all.iter().map(|relation| relation.id)),
        }
    }
    mentioned
}

/// The value of a stage that found nothing wrong.
fn require_no_problems<T>(
    value: Option<T>,
    problems: &mut Vec<PolicyProblem>,
) -> Result<T, PolicyErrors> {
    match value {
        Some(value) if problems.is_empty() => Ok(value),
        Some(_) | None => Err(PolicyErrors::new(std::mem::take(problems))),
    }
}

fn policies<'a>(
    sources: &'a PolicySources,
    dialect: Dialect,
    problems: &mut Vec<PolicyProblem>,
) -> (Vec<Located<'a>>, HashMap<String, Annotations>) {
    let mut located: Vec<Located<'a>> = Vec::new();
    let mut annotations = HashMap::new();
    for file in &sources.policies {
        let source = Source {
            name: &file.name,
            text: &file.text,
        };
        for policy in source::parse(source, problems) {
            let read = annotation::read(&policy.policy, &policy.origin, dialect, problems);
            let id = policy.policy.id().to_string();
            if annotations.insert(id.clone(), read).is_some() {
                let first = located
                    .iter()
                    .find(|l| *l.policy.id() == *policy.policy.id());
                let help = first.map(|l| {
                    let first = l.origin.problem("");
                    format!(
                        "the first is in {}, line {}",
                        first.file,
                        first.line.unwrap_or(1)
                    )
                });
                let problem = policy
                    .origin
                    .at_annotation("id", format!("two policies have the id `{id}`"));
                problems.push(problem.with_help(help));
                continue;
            }
            located.push(policy);
        }
    }
    (located, annotations)
}

/// Whether tokens and hash masks can be made.
fn require_secret(
    sources: &PolicySources,
    located: &[Located<'_>],
    annotations: &HashMap<String, Annotations>,
    problems: &mut Vec<PolicyProblem>,
) {
    let (why, help) = match &sources.secret {
        None => (
            "needs the operator's secret, and none is configured".to_owned(),
            "name one with `token_secret_env` or `token_secret_file` in the configuration, or give it to the firewall's builder",
        ),
        Some(secret) if !secret.is_long_enough() => (
            format!("needs a secret of at least {SECRET_BYTES} bytes"),
            "make another, for example with `openssl rand -hex 32`",
        ),
        Some(_) => return,
    };
    for Located { policy, origin, .. } in located {
        let mask = annotations
            .get(policy.id().as_ref() as &str)
            .and_then(|annotations| annotations.mask.as_ref());
        let problem = if matches!(mask, Some(Mask::Hash(_))) {
            origin.at_annotation("mask", format!("a `hash` mask {why}"))
        } else if policy.effect() == Effect::Permit && covers(policy, PolicyAction::ReadToken) {
            origin.problem(format!("`read_token` {why}"))
        } else {
            continue;
        };
        problems.push(problem.with_help(Some(help)));
    }
}

/// The operator's types and the catalog's.
fn cedar_schemas(principals: &Source<'_>, problems: &mut Vec<PolicyProblem>) -> Option<Schemas> {
    let (declared, _) = SchemaFragment::from_cedarschema_str(principals.text)
        .map_err(|error| {
            problems.extend(principals.cedar_problems(DetailedError::from(&error), 0, None));
        })
        .ok()?;
    let of_rows =
        |name: &EntityNamespace| name.to_string().split("::").next() == Some(ROW_NAMESPACE);
    if declared.namespaces().flatten().any(|name| of_rows(&name)) {
        let message =
            format!("the namespace `{ROW_NAMESPACE}` holds the types of the catalog's rows");
        problems.push(
            principals
                .problem_of_file(message)
                .with_help(Some("give it another name")),
        );
        return None;
    }
    let missing = undeclared_principals(principals, &declared);
    if !missing.is_empty() {
        problems.extend(missing);
        return None;
    }
    let Some(schemas) = Schemas::new(declared) else {
        problems.extend(types_that_do_not_fit(principals));
        return None;
    };
    if !schemas.fixed.is_complete() {
        problems
            .push(principals.problem_of_file("every type must be declared here, none `external`"));
        return None;
    }
    Some(schemas)
}

/// Why Cedar does not take the operator's types beside the catalog's.
fn types_that_do_not_fit(principals: &Source<'_>) -> Vec<PolicyProblem> {
    // The operator's text comes first, so that positions in it are those of its file.
    let text = format!(
        "{}\n{}{}",
        principals.text,
        schema::fixed_text(),
        schema::NO_ROW_ACTIONS
    );
    let found = match Schema::from_cedarschema_str(&text) {
        Ok(_) => vec![principals.problem_of_file("its types do not fit the catalog's".to_owned())],
        Err(error) => principals.cedar_problems(DetailedError::from(&error), 0, None),
    };
    let help =
        "it must declare the entity types `Agent`, `User` and `Role`, and none of the catalog's";
    let problems = found.into_iter().map(|problem| match problem.help {
        Some(_) => problem,
        None => problem.with_help(Some(help)),
    });
    problems.collect()
}

/// A problem for each type of principals that every action is for, and that the operator's schema does not declare. It points
/// at the end of the text, where the declaration is to be added.
fn undeclared_principals(principals: &Source<'_>, declared: &SchemaFragment) -> Vec<PolicyProblem> {
    let json = declared.clone().to_json_value().unwrap_or_default();
    let types = json.get("").and_then(|own| own.get("entityTypes"));
    let is_declared = |name: &str| types.is_some_and(|types| types.get(name).is_some());
    let end = principals.text.trim_end().len();
    schema::PRINCIPAL_TYPES
        .iter()
        .filter(|name| !is_declared(name))
        .map(|name| {
            let roles = if is_declared("Role") {
                " in [Role]"
            } else {
                ""
            };
            principals
                .at(
                    end..end,
                    format!("the entity type `{name}` is not declared"),
                )
                .with_help(Some(format!("add `entity {name}{roles};`")))
        })
        .collect()
}

/// What conditions name, whatever they do with it. What a scope names is compared and no more.
fn named_in_conditions(located: &[Located<'_>]) -> BTreeSet<EntityUid> {
    let mut out = BTreeSet::new();
    for located in located {
        match located.conditions() {
            Some(conditions) => entities::collect_uids(conditions, &mut out),
            // One that cannot be written down may look at whatever it names.
            None => out.extend(located.policy.entity_literals()),
        }
    }
    out
}

/// The policies whose conditions look at `context.has_where`: in what they say, not in a comment.
fn find_condition_permits(located: &[Located<'_>]) -> BTreeSet<String> {
    let attribute = format!("\"attr\":\"{HAS_WHERE}\"");
    // One that cannot be written down has not spoken of it.
    let looks = |located: &Located<'_>| {
        let conditions = located.conditions();
        conditions.is_some_and(|conditions| conditions.to_string().contains(&attribute))
    };
    located
        .iter()
        .filter(|l| looks(l))
        .map(|l| l.policy.id().to_string())
        .collect()
}

/// The types that scopes name.
fn named_types(located: &[Located<'_>]) -> BTreeSet<String> {
    let kinds = located
        .iter()
        .filter_map(|l| match l.policy.resource_constraint() {
            ResourceConstraint::Is(kind) | ResourceConstraint::IsIn(kind, _) => {
                Some(kind.to_string())
            }
            ResourceConstraint::Any | ResourceConstraint::In(_) | ResourceConstraint::Eq(_) => None,
        });
    kinds.collect()
}

/// The ids of this type that policies name.
fn named_ids(located: &[Located<'_>], kind: &str) -> BTreeSet<String> {
    located
        .iter()
        .flat_map(|l| l.policy.entity_literals())
        .filter(|uid| uid.type_name().to_string() == kind)
        .map(|uid| uid.id().unescaped().to_owned())
        .collect()
}

/// Debug quotes strings, so that no two sources print alike.
fn digest(sources: &impl std::fmt::Debug) -> String {
    sha256_hex(format!("{sources:?}").as_bytes())
}

fn version(sources: &PolicySources, catalog: &Catalog, flow: &ColumnFlow) -> String {
    // Debug quotes strings, so that no two sources print alike.
    sha256_hex(
        format!(
            "{}\n{sources:?}\n{:?}\n{flow:?}\n{}",
            catalog.version(),
            sources
                .secret
                .as_ref()
                .map(|secret| secret.version().digits().to_owned()),
            env!("CARGO_PKG_VERSION")
        )
        .as_bytes(),
    )
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

    use std::collections::BTreeMap;

    use super::*;
    use crate::policy::{
        PolicyFile, PolicySet,
        tests::fixture::{self, load, set, sources},
    };

    const SELECT: &str = "permit(principal, action == Action::\"select\", resource);\n";

    fn one(policies: &str) -> PolicyProblem {
        let errors = load(&sources(policies)).unwrap_err();
        assert_eq!(errors.problems().len(), 1, "{errors}");
        errors.problems()[0].clone()
    }

    #[test]
    fn validation_errors_point_at_the_policy() {
        for (text, line, message) in [
            (
                "permit(principal, action == Action::\"selct\", resource);",
                2,
                "selct",
            ),
            (
                "\npermit(principal, action, resource is Tabel);",
                3,
                "Tabel",
            ),
            (
                "permit(principal, action == Action::\"see\", resource is row::main::tickets)\nwhen { resource.tenant_id == 1 };",
                3,
                "tenant_id",
            ),
            (
                "permit(principal, action == Action::\"see\", resource is row::main::tickets)\nwhen {\n resource.ttle == \"x\" };",
                4,
                "ttle",
            ),
            (
                "permit(principal, action == Action::\"see\", resource is row::main::tickets)\nwhen { resource.id == \"x\" };",
                3,
                "type",
            ),
        ] {
            let problem = one(&format!("{SELECT}{text}"));
            assert_eq!(problem.file, "base.cedar");
            assert_eq!(problem.line, Some(line), "{problem}");
            assert!(problem.message.contains(message), "{problem}");
        }
    }

    #[test]
    fn ids_must_be_unique() {
        let mut sources = sources("@id(\"a\")\npermit(principal, action, resource);");
        sources.policies.push(PolicyFile {
            name: "more.cedar".to_owned(),
            text: "\n@id(\"a\") forbid(principal, action, resource);".to_owned(),
        });
        let errors = load(&sources).unwrap_err();
        assert_eq!(
            errors.to_string(),
            "more.cedar:2:1: two policies have the id `a`\n  help: the first is in base.cedar, line 1"
        );
    }

    #[test]
    fn all_problems_of_a_stage_are_reported() {
        let mut sources = sources(
            "permit(principal, action, resorce);\n@maks(\"x\") permit(principal, action, resource);",
        );
        sources.classification = Some("colum = 1".to_owned());
        let errors = load(&sources).unwrap_err();
        assert_eq!(errors.problems().len(), 3, "{errors}");
    }

    #[test]
    fn the_principals_schema_is_checked() {
        let with = |schema: &str| {
            let mut sources = sources(SELECT);
            sources.entities = None;
            sources.principals_schema = Some(schema.to_owned());
            load(&sources)
        };
        let errors = with("entity Role;\nentity Agent in [Role];\n").unwrap_err();
        assert_eq!(
            errors.to_string(),
            "principals.cedarschema:2:24: the entity type `User` is not declared\n  help: add `entity User in [Role];`"
        );
        let errors = with("").unwrap_err();
        assert_eq!(errors.problems().len(), 2, "{errors}");
        let errors = with("entity Role;\nentity Agent in [Rol];\nentity User;").unwrap_err();
        assert_eq!(errors.problems()[0].line, Some(2), "{errors}");
        let errors = with("entity Role;\nentity Agent in [Role];").unwrap_err();
        assert!(errors.to_string().contains("User"), "{errors}");
        let errors = with("entity Role;\nentity Agent in [Role]\nentity User;").unwrap_err();
        assert_eq!(errors.problems()[0].line, Some(3), "{errors}");
        let errors = with("entity Role, Agent, User, Table;").unwrap_err();
        assert_eq!(errors.problems()[0].file, PRINCIPALS_FILE, "{errors}");
        assert!(with("entity Role, Agent, User;").is_ok());
    }

    #[test]
    fn defaults_are_enough_and_no_policies_deny() {
        let sources = PolicySources::default();
        let set = load(&sources).unwrap_or_else(|errors| panic!("{errors}"));
        let view = set.session(&fixture::agent("stranger"));
        assert!(view.discoverable().unwrap().is_empty());
    }

    #[test]
    fn versions_follow_every_source() {
        let base = sources(SELECT);
        let mut other = base.clone();
        other.classification = None;
        let version = |sources: &PolicySources| load(sources).unwrap().version().to_owned();
        assert_eq!(version(&base), version(&base.clone()));
        assert_ne!(version(&base), version(&other));
        let flow = ColumnFlow::from(BTreeMap::from([(
            tests::fixture::column_id(&fixture::catalog(), "main.contacts.address"),
            BTreeSet::new(),
        )]));
        let flowed = PolicySet::load(&base, &Arc::new(fixture::catalog()), &flow).unwrap();
        assert_ne!(version(&base), flowed.version());
    }

    #[test]
    fn a_forbid_that_can_never_apply_does_not_load() {
        let scope = "(principal, action == Action::\"see\", resource == Table::\"main.tickets\");";
        let problem = one(&format!("{SELECT}forbid{scope}"));
        assert_eq!(problem.line, Some(2), "{problem}");
        assert!(problem.message.contains("applicable action"), "{problem}");
        assert!(!set(&format!("{SELECT}permit{scope}")).warnings().is_empty());
    }

    #[test]
    fn impossible_policies_are_warned_of() {
        let set = set(&format!(
            "{SELECT}permit(principal, action == Action::\"see\", resource) when {{ false }};"
        ));
        assert_eq!(set.warnings()[0].line, Some(2), "{:?}", set.warnings());
    }

    #[test]
    fn a_group_asked_for_as_an_action_says_what_to_write() {
        let text = "permit(principal, action == Action::\"read\", resource);";
        let set = set(text);
        let told: Vec<_> = set
            .warnings()
            .iter()
            .filter_map(|w| w.help.as_deref())
            .collect();
        let help = "`read` is a group of actions: write `action in Action::\"read\"`";
        assert_eq!(told, [help], "{:?}", set.warnings());
        let problem = one(&text.replace("permit", "forbid"));
        assert_eq!(problem.help.as_deref(), Some(help), "{problem}");
    }

    #[test]
    fn an_attribute_of_another_type_says_of_which() {
        let mut sources = sources(
            "permit(principal, action == Action::\"select\", resource) when { principal.team == 1 };",
        );
        sources.entities = None;
        sources.principals_schema =
            Some("entity Role;\nentity Agent in [Role] = { team: Long };\nentity User = { name: String };".to_owned());
        let errors = load(&sources).unwrap_err();
        assert_eq!(
            errors.problems()[0].help.as_deref(),
            Some("`Agent` has it: ask `principal is Agent &&` before, or declare it of `User` too"),
            "{errors}"
        );
        // The types of the catalog are no principals.
        let of_resource = "permit(principal, action == Action::\"call\", resource) when { resource.tags.contains(\"x\") };";
        let problem = one(of_resource);
        let help = problem.help.unwrap_or_default();
        assert!(!help.contains("principal is"), "{help}");
    }

    #[test]
    fn truths_that_are_numbers_say_so() {
        let catalog = crate::catalog::test_ddl::mysql(
            "CREATE TABLE t (id int PRIMARY KEY, active BOOLEAN NOT NULL);",
            "main",
        );
        let catalog = Arc::new(catalog.unwrap());
        for (condition, told) in [
            ("resource.active == true", true),
            ("false == resource.active", true),
            ("resource.active == \"1\"", false),
        ] {
            let text = format!(
                "permit(principal, action == Action::\"see\", resource is row::main::t) when {{ {condition} }};"
            );
            let sources = PolicySources {
                policies: vec![PolicyFile {
                    name: "a.cedar".to_owned(),
                    text,
                }],
                ..PolicySources::default()
            };
            let errors = PolicySet::load(&sources, &catalog, &ColumnFlow::default()).unwrap_err();
            let problem = &errors.problems()[0];
            assert!(!problem.message.contains("__cedar"), "{problem}");
            let help = problem.help.as_deref().unwrap_or_default();
            assert_eq!(
                help.contains("BOOLEAN is a number there: compare with `1` or `0`"),
                told,
                "{problem}"
            );
        }
    }
}
