//! `schemas.toml`: what policies call the schemas of a database, by engine, so that one folder serves several.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use crate::policy::{
    load::diagnostic::{PolicyErrors, PolicyProblem, Source},
    sources::PolicySources,
};
use crate::{catalog::Catalog, dialect::Dialect};

const SCHEMAS_FILE: &str = "schemas.toml";

/// By engine: what policies call a schema, by what the database calls it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    sqlite: Names,
    #[serde(default)]
    postgres: Names,
    #[serde(default)]
    mysql: Names,
}

type Names = BTreeMap<Spanned<String>, Spanned<String>>;

impl Document {
    fn of_dialect(self, dialect: Dialect) -> Names {
        match dialect {
            Dialect::Sqlite => self.sqlite,
            Dialect::Postgres => self.postgres,
            Dialect::Mysql => self.mysql,
        }
    }
}

impl PolicySources {
    /// `catalog`, its schemas called as `schemas.toml` says.
    ///
    /// # Errors
    /// If the file cannot be read, or policies could not tell two schemas apart.
    pub fn name_schemas(&self, catalog: Catalog) -> Result<Catalog, PolicyErrors> {
        let names = read(self, catalog.dialect()).map_err(PolicyErrors::one)?;
        catalog.with_policy_schemas(&names).map_err(|error| {
            let help = "give each schema a name of its own, and leave the engine's own alone";
            let problem = source(self).problem_of_file(error.to_string());
            PolicyErrors::one(problem.with_help(Some(help.to_owned())))
        })
    }
}

/// A problem where `catalog` calls its schemas otherwise than the sources' `schemas.toml`: policies would be about other tables.
pub(in crate::policy) fn check(
    sources: &PolicySources,
    catalog: &Catalog,
    problems: &mut Vec<PolicyProblem>,
) {
    match read(sources, catalog.dialect()) {
        Ok(names) => {
            let fold = |name: &String| catalog.fold_relation(name);
            let names: BTreeMap<_, _> = names.iter().map(|(a, b)| (fold(a), fold(b))).collect();
            if names != *catalog.policy_schemas() {
                let message = "the catalog does not call its schemas so";
                let help = "give it the names by `Catalog::with_policy_schemas`";
                let problem = source(sources).problem_of_file(message);
                problems.push(problem.with_help(Some(help.to_owned())));
            }
        }
        Err(problem) => problems.push(problem),
    }
}

fn source(sources: &PolicySources) -> Source<'_> {
    Source {
        name: SCHEMAS_FILE,
        text: sources.schemas.as_deref().unwrap_or_default(),
    }
}

fn read(
    sources: &PolicySources,
    dialect: Dialect,
) -> Result<BTreeMap<String, String>, PolicyProblem> {
    let source = source(sources);
    let names = source.toml::<Document>()?.of_dialect(dialect);
    let mut out = BTreeMap::new();
    for (schema, name) in names {
        for named in [&schema, &name] {
            if named.get_ref().is_empty() {
                return Err(source.at(named.span(), "a schema has no empty name"));
            }
        }
        out.insert(schema.into_inner(), name.into_inner());
    }
    Ok(out)
}
