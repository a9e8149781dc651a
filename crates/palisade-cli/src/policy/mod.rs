//! `palisade policy`: work on policy folders.

mod access;
mod bundle;
pub(crate) mod check;
mod diff;
mod diff_rows;
pub(crate) mod fix;
mod fmt;
mod generate;
mod learn;
mod lock;
mod promote;
mod prove;
mod repl;
mod request;
pub(crate) mod test;

use std::{fmt::Write as _, path::Path};

use palisade::{catalog::Catalog, error::Error, policy::PolicySet};
use serde_json::json;

use crate::{
    args::{Format, PolicyArguments, PolicyCommand, PolicyFolderArguments, PolicySchemaArguments},
    database_name::CatalogSource,
    exit::{Exit, Failure},
    explain,
    policies::{self, STARTER},
    setup::Setup,
    starter_columns, stdout,
};

/// Runs the command.
pub(crate) fn run(command: &PolicyCommand) -> Result<Exit, Failure> {
    let text = match command {
        PolicyCommand::PrintStarter(arguments) => match &arguments.explain {
            Some(database) => starter_columns::explain(database, arguments)?,
            None => print_starter(arguments.dir.as_deref())?,
        },
        PolicyCommand::Check(arguments) => {
            let (setup, catalog) = setup(&arguments.folder)?;
            return check::run(arguments, &setup, catalog);
        }
        PolicyCommand::Schema(arguments) => schema(arguments)?,
        PolicyCommand::Explain(arguments) => return explain::run(arguments),
        PolicyCommand::Fmt(arguments) => return fmt::run(arguments),
        PolicyCommand::Repl(arguments) => return repl::run(arguments),
        PolicyCommand::Test(arguments) => return test::run(arguments),
        PolicyCommand::Diff(arguments) => return diff::run(arguments),
        PolicyCommand::Promote(arguments) => return promote::run(arguments),
        PolicyCommand::Prove(arguments) => return prove::run(arguments),
        PolicyCommand::Learn(arguments) => return learn::run(arguments),
        PolicyCommand::Request(arguments) => return request::run(arguments),
        PolicyCommand::Bundle(command) => return bundle::run(command),
        PolicyCommand::Lock(arguments) => return lock::run(arguments),
        PolicyCommand::Who(arguments) => access::who(arguments)?,
        PolicyCommand::What(arguments) => access::what(arguments)?,
    };
    stdout::text(&text)?;
    Ok(Exit::Permitted)
}

fn print_starter(dir: Option<&Path>) -> Result<String, Failure> {
    let mut out = String::new();
    match dir {
        Some(dir) => {
            policies::write(STARTER, dir)?;
            let _ = writeln!(
                out,
                "Wrote the starter policies to {0}. Edit them, then try\n  \
                 palisade policy check --catalog DATABASE --policies {0}\n\
                 where DATABASE is sqlite:FILE, postgres://USER@HOST/NAME or\n                 mysql://USER@HOST/NAME.",
                dir.display()
            );
        }
        None => {
            for (name, text) in STARTER.iter().filter(|(name, _)| !policies::is_test(name)) {
                let _ = writeln!(out, "==> {name} <==\n{text}");
            }
        }
    }
    Ok(out)
}

/// The operator's types and, after them, those of the catalog.
fn schema(arguments: &PolicySchemaArguments) -> Result<String, Failure> {
    let (setup, catalog) = setup(&arguments.folder)?;
    let sources = &setup.policies.sources;
    let catalog = sources
        .name_schemas(catalog)
        .map_err(|errors| setup.policies.failure(&Error::Policies(errors)))?;
    let principals = sources.principals_schema.as_deref().unwrap_or_default();
    let of_catalog = PolicySet::schema_text(&catalog);
    Ok(match arguments.format {
        Format::Text => format!(
            "// principals.cedarschema: yours to edit\n{}\n\n// from the catalog: changes with the database\n{of_catalog}",
            principals.trim_end()
        ),
        Format::Json => {
            let told = json!({"principals": principals, "catalog": of_catalog});
            format!("{told}\n")
        }
    })
}

fn setup(arguments: &PolicyFolderArguments) -> Result<(Setup, Catalog), Failure> {
    let policies = PolicyArguments {
        principal: None,
        policies: arguments.policies.clone(),
        config: arguments.config.clone(),
    };
    Setup::over_catalog(
        CatalogSource::argument(&arguments.catalog)?,
        arguments.dialect,
        &arguments.secret,
        &policies,
    )
}
