//! From texts to a validated policy set: stage by stage, so that one mistake is reported once.

pub(in crate::policy) mod annotation;
pub(in crate::policy) mod classification;
pub(in crate::policy) mod diagnostic;
pub(in crate::policy) mod format;
pub(in crate::policy) mod missing_attribute;
pub(in crate::policy) mod named_resources;
mod report;
pub(in crate::policy) mod schema_names;
pub(in crate::policy) mod seen_chains;
pub(in crate::policy) mod source;
pub mod template;
mod texts;
pub(in crate::policy) mod unseen_attribute;
pub(in crate::policy) mod validation;
pub(in crate::policy) mod word;
pub(in crate::policy) mod written_help;

use std::{collections::BTreeSet, sync::Arc};

use cedar_policy::{Entity, EntityUid, ResourceConstraint};

use crate::policy::{
    cedar::{
        by_action::{Slices, covers_any},
        context_use::{HAS_WHERE, looks_at_estimates},
        entities,
        entities::{RelationEntities, Store},
        mentioned_rows::MentionedRows,
        named_relations::NamedRelations,
        schema::PolicyAction,
    },
    inheritance::Inheritance,
    lint::{
        Lint, aggregate_exceptions, attributes, ignores, ignores::Tried, other_databases,
        policies::WrittenPolicies, probe, statement_attributes, warn,
    },
    load::{
        classification::ColumnFlow,
        diagnostic::{PolicyErrors, PolicyProblem},
        report::LoadReport,
        source::{Located, Origins},
        texts::Texts,
        validation::Validation,
    },
    rule::Rule,
    set::Loaded,
    sources::PolicySources,
    time_dependent,
};
use crate::{catalog::Catalog, dialect::Dialect, digest::sha256_hex};

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
    let mut report = LoadReport::default();
    let texts = Texts::read(sources, catalog, flow, &mut report)?;
    let checks = Checks {
        catalog,
        named: NamedRelations::new(catalog),
        origins: collect_origins(&texts.located),
    };
    let given = read_entities(&texts, &mut report);
    checks.validate(&texts, &mut report);
    checks.check_written(&texts, &given, lint, &mut report);
    let checked = checks.prepare(&texts, given, &mut report)?;
    let warnings = std::mem::take(&mut report.warnings);
    let mut loaded = assemble((sources, flow), &checks, texts, checked);
    loaded.warnings = warnings;
    try_policies(&mut loaded, &checks.origins, lint, report)?;
    match lint {
        Lint::Sample => ignores::apply(sources, &mut loaded.warnings, Tried::Some),
        // The firewall as a whole has more to say.
        Lint::EveryRelation => {}
    }
    Ok(loaded)
}

/// Where the policies stand, by their ids.
fn collect_origins<'a>(located: &[Located<'a>]) -> Origins<'a> {
    located
        .iter()
        .map(|l| (l.policy.id().to_string(), l.origin.clone()))
        .collect()
}

/// The operator's entities.
fn read_entities(texts: &Texts<'_>, report: &mut LoadReport) -> Vec<Entity> {
    texts
        .entities
        .map(|source| {
            entities::operator_entities(&source, &texts.schemas.fixed, &mut report.problems)
        })
        .unwrap_or_default()
}

/// Checks of the texts, by what these speak of.
struct Checks<'a> {
    catalog: &'a Arc<Catalog>,
    named: NamedRelations<'a>,
    origins: Origins<'a>,
}

/// What checked texts are made into.
struct Checked {
    store: Store,
    policies: Slices,
    /// Ids of the policies that look at the statement.
    of_statements: BTreeSet<String>,
    /// Ids of those that look at what the database estimates.
    of_estimates: BTreeSet<String>,
}

impl Checks<'_> {
    /// Whether the policies fit the types of what they speak of.
    fn validate(&self, texts: &Texts<'_>, report: &mut LoadReport) {
        let (catalog, named) = (self.catalog, &self.named);
        let types = (&texts.schemas.fixed, named);
        let LoadReport { problems, warnings } = report;
        let refused =
            attributes::check(&texts.located, catalog, types, &texts.principals, problems);
        seen_chains::check(&texts.located, catalog, named, problems);
        // One mistake is reported once.
        let others: Vec<_> = texts
            .located
            .iter()
            .filter(|l| !refused.contains(l.policy.id().as_ref() as &str))
            .cloned()
            .collect();
        let validation = Validation {
            catalog,
            named,
            schemas: &texts.schemas,
            principals: &texts.principals,
            origins: &self.origins,
        };
        warn(Rule::CedarWarning, warnings, |warnings| {
            validation.check(&others, problems, warnings);
        });
    }

    /// Whether the policies name what is there, and could mean what they say.
    fn check_written(
        &self,
        texts: &Texts<'_>,
        given: &[Entity],
        lint: Lint,
        report: &mut LoadReport,
    ) {
        let written = WrittenPolicies {
            located: &texts.located,
            catalog: self.catalog,
            named: &self.named,
            tags: &texts.tags,
            templates: &texts.templates,
            entities: texts.entities,
            given,
        };
        let LoadReport { problems, warnings } = report;
        written.check(problems, warnings);
        match lint {
            // What only misleads an author waits for the author.
            Lint::Sample => {}
            Lint::EveryRelation => {
                warn(Rule::PatternUnmatched, warnings, |warnings| {
                    warnings.extend(texts.unmatched.iter().cloned());
                });
                written.advise_author(&texts.schemas.fixed, warnings);
            }
        }
        aggregate_exceptions::check(&texts.located, problems);
    }

    /// Prepares entities and policies to be asked.
    ///
    /// # Errors
    /// With every problem of the checks, too.
    fn prepare(
        &self,
        texts: &Texts<'_>,
        given: Vec<Entity>,
        report: &mut LoadReport,
    ) -> Result<Checked, PolicyErrors> {
        let LoadReport { problems, warnings } = report;
        let located = &texts.located;
        let of_statements = statement_attributes::check(located, problems);
        let of_estimates = find_estimates(located, self.catalog.dialect(), warnings);
        let store = Store::new(
            self.catalog,
            (&texts.tags, &texts.templates),
            given,
            named_in_conditions(located),
            &texts.schemas.fixed,
        )
        .map_err(|error| problems.extend(texts.entities_source().cedar_problems(*error, 0, None)))
        .ok();
        let policies = Slices::new(located.iter().map(|l| &l.policy))
            .map_err(|error| problems.push(texts.principals.problem_of_file(error.to_string())))
            .ok();
        let (store, policies) = report.require(store.zip(policies))?;
        Ok(Checked {
            store,
            policies,
            of_statements,
            of_estimates,
        })
    }
}

/// Puts together what decisions are made from. What remains to be found out of it is empty.
fn assemble(
    (sources, flow): (&PolicySources, &ColumnFlow),
    checks: &Checks<'_>,
    texts: Texts<'_>,
    checked: Checked,
) -> Loaded {
    let Texts {
        located,
        annotations,
        principals,
        entities: _,
        schemas,
        tags,
        templates,
        unmatched: _,
    } = texts;
    let catalog = checks.catalog;
    Loaded {
        catalog: Arc::clone(catalog),
        timed: time_dependent::actions(&checked.policies),
        schemas: schemas.with_mentioned(find_mentioned_rows(&located, &checks.named)),
        policies: checked.policies,
        demands_approval: annotations.values().any(|found| found.approval.is_some()),
        annotations,
        unconditional: find_condition_permits(&located),
        of_estimates: checked.of_estimates,
        of_statements: checked.of_statements,
        named: named_resources::collect(&located),
        beyond: Vec::new(),
        tags: Arc::new(tags),
        templates,
        store: checked.store,
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
        warnings: Vec::new(),
    }
}

/// Asks the policies about relations as sessions would, and keeps what is odd about the answers.
///
/// # Errors
/// With every decision that fails.
fn try_policies(
    loaded: &mut Loaded,
    origins: &Origins<'_>,
    lint: Lint,
    mut report: LoadReport,
) -> Result<(), PolicyErrors> {
    let LoadReport { problems, warnings } = &mut report;
    probe::check(loaded, origins, lint, problems, warnings);
    let beyond: Vec<_> = other_databases::check(loaded, origins)
        .into_iter()
        .map(|problem| problem.of_rule(Rule::BeyondDatabase))
        .collect();
    report.require(Some(()))?;
    loaded.warnings.extend(report.warnings);
    loaded.warnings.extend(beyond.iter().cloned());
    loaded.beyond = beyond;
    Ok(())
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

    use super::{texts::PRINCIPALS_FILE, *};
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
