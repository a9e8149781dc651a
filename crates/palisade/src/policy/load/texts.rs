//! The operator's texts, each read by itself.

use std::collections::HashMap;

use cedar_policy::{Effect, EntityNamespace, Schema, SchemaFragment, ffi::DetailedError};

use crate::policy::{
    cedar::{
        by_action::covers,
        schema,
        schema::{DEFAULT_PRINCIPALS, PolicyAction, ROW_NAMESPACE},
        schemas::Schemas,
    },
    load::{
        annotation,
        annotation::Annotations,
        classification,
        classification::{ColumnFlow, Tags},
        diagnostic::{PolicyErrors, PolicyProblem, Source},
        report::LoadReport,
        schema_names, source,
        source::Located,
        template::Templates,
    },
    obligation::Mask,
    sources::PolicySources,
};
use crate::{catalog::Catalog, dialect::Dialect, token::SECRET_BYTES};

pub(super) const PRINCIPALS_FILE: &str = "principals.cedarschema";
const ENTITIES_FILE: &str = "entities.json";
const CLASSIFICATION_FILE: &str = "classification.toml";
const TEMPLATES_FILE: &str = "templates.toml";

/// What the texts say.
pub(super) struct Texts<'a> {
    pub(super) located: Vec<Located<'a>>,
    pub(super) annotations: HashMap<String, Annotations>,
    /// The types of principals.
    pub(super) principals: Source<'a>,
    /// The file of the operator's entities, where there is one. They are read by the types.
    pub(super) entities: Option<Source<'a>>,
    pub(super) schemas: Schemas,
    pub(super) tags: Tags,
    pub(super) templates: Templates,
    /// A warning for each pattern of the classification that nothing matches.
    pub(super) unmatched: Vec<PolicyProblem>,
}

impl<'a> Texts<'a> {
    /// Reads `sources`, which speak of `catalog`.
    ///
    /// # Errors
    /// With every problem of any text.
    pub(super) fn read(
        sources: &'a PolicySources,
        catalog: &Catalog,
        flow: &ColumnFlow,
        report: &mut LoadReport,
    ) -> Result<Self, PolicyErrors> {
        let problems = &mut report.problems;
        let (located, annotations) = read_policies(sources, catalog.dialect(), problems);
        require_secret(sources, &located, &annotations, problems);
        schema_names::check(sources, catalog, problems);
        let declared = sources.principals_schema.as_deref();
        let principals = Source {
            name: PRINCIPALS_FILE,
            text: declared.unwrap_or(DEFAULT_PRINCIPALS),
        };
        let schemas = read_schemas(&principals, problems);
        let classification = find_file(CLASSIFICATION_FILE, sources.classification.as_deref());
        let mut unmatched = Vec::new();
        let tags =
            classification::classify(classification, catalog, flow, problems, &mut unmatched);
        let templates = find_file(TEMPLATES_FILE, sources.templates.as_deref());
        let templates = Templates::read(templates.as_ref(), catalog.dialect(), problems);
        let schemas = report.require(schemas)?;
        Ok(Self {
            located,
            annotations,
            principals,
            entities: find_file(ENTITIES_FILE, sources.entities.as_deref()),
            schemas,
            tags,
            templates,
            unmatched,
        })
    }

    /// The file of the operator's entities, empty where there is none.
    pub(super) fn entities_source(&self) -> Source<'a> {
        self.entities.unwrap_or(Source {
            name: ENTITIES_FILE,
            text: "",
        })
    }
}

/// The file called `name`, where the operator has one.
fn find_file<'a>(name: &'a str, text: Option<&'a str>) -> Option<Source<'a>> {
    text.map(|text| Source { name, text })
}

/// The policies of all files, with their annotations by id.
fn read_policies<'a>(
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
fn read_schemas(principals: &Source<'_>, problems: &mut Vec<PolicyProblem>) -> Option<Schemas> {
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
