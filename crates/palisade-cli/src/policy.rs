//! `palisade policy`: work on policy folders.

use std::{fmt::Write as _, path::Path};

use palisade::{catalog::Catalog, error::Error, policy::PolicySet};
use serde_json::json;

use crate::{
    args::{Format, PolicyArguments, PolicyCommand, PolicyFolderArguments, PolicySchemaArguments},
    database_name::CatalogSource,
    exit::{Exit, Failure},
    explain, output,
    policies::{self, STARTER},
    policy_access, policy_bundle, policy_check, policy_diff, policy_fmt, policy_learn, policy_lock,
    policy_promote, policy_prove, policy_repl, policy_request, policy_test,
    setup::Setup,
    starter_columns,
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
            return policy_check::run(arguments, &setup, catalog);
        }
        PolicyCommand::Schema(arguments) => schema(arguments)?,
        PolicyCommand::Explain(arguments) => return explain::run(arguments),
        PolicyCommand::Fmt(arguments) => return policy_fmt::run(arguments),
        PolicyCommand::Repl(arguments) => return policy_repl::run(arguments),
        PolicyCommand::Test(arguments) => return policy_test::run(arguments),
        PolicyCommand::Diff(arguments) => return policy_diff::run(arguments),
        PolicyCommand::Promote(arguments) => return policy_promote::run(arguments),
        PolicyCommand::Prove(arguments) => return policy_prove::run(arguments),
        PolicyCommand::Learn(arguments) => return policy_learn::run(arguments),
        PolicyCommand::Request(arguments) => return policy_request::run(arguments),
        PolicyCommand::Bundle(command) => return policy_bundle::run(command),
        PolicyCommand::Lock(arguments) => return policy_lock::run(arguments),
        PolicyCommand::Who(arguments) => policy_access::who(arguments)?,
        PolicyCommand::What(arguments) => policy_access::what(arguments)?,
    };
    output::text(&text)?;
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
