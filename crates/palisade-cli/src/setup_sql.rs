//! `palisade setup-sql`: the account that the policies in force need, as SQL.

use crate::{
    account,
    args::SetupSqlArguments,
    database::Database,
    exit::{Exit, Failure},
    host, output,
    setup::Setup,
    source::Source,
    target::Engine,
};

/// Runs the command.
pub(crate) fn run(arguments: &SetupSqlArguments) -> Result<Exit, Failure> {
    let (setup, database) = Setup::over(
        Source::argument(&arguments.source)?,
        &arguments.secret,
        &arguments.policies,
        None,
    )?;
    let target = match &database {
        Database::Server(target) => target,
        Database::Sqlite(_) | Database::Memory(_) => {
            return Err(Failure::Usage(
                "a SQLite file has no accounts: it is opened for reading only\n  help: give `postgres://USER@HOST/DATABASE` or `mysql://USER@HOST/DATABASE`"
                    .to_owned(),
            ));
        }
    };
    let (runtime, role) = (host::runtime()?, &arguments.role);
    let text = match target.engine() {
        Engine::Postgres => runtime.block_on(account::postgres::sql(&setup, target, role))?,
        Engine::Mysql => runtime.block_on(account::mysql::sql(&setup, target, role))?,
    };
    output::text(&text)?;
    Ok(Exit::Permitted)
}
