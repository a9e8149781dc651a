//! `palisade setup-sql`: the account that the policies in force need, as SQL.

use crate::{
    account::Asked,
    args::SetupSqlArguments,
    database::{Access, Database},
    database_name::Source,
    exit::{Exit, Failure},
    host, mysql, output, postgres,
    setup::Setup,
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
                "a SQLite file has no accounts\n  help: give `postgres://USER@HOST/DATABASE` or `mysql://USER@HOST/DATABASE`"
                    .to_owned(),
            ));
        }
    };
    let access = setup.access(Access::asked(arguments.writable))?;
    if arguments.steps && access == Access::Read {
        return Err(Failure::Usage(
            "`--steps` is for an account that changes something\n  help: give `--writable` too, or `writable = true` at the connection"
                .to_owned(),
        ));
    }
    let role = arguments.role.as_deref().unwrap_or(match access {
        Access::Read => "palisade_reader",
        Access::Write => "palisade_writer",
    });
    let runtime = host::runtime()?;
    let asked = Asked {
        role,
        access,
        is_there: arguments.update,
        in_steps: arguments.steps,
    };
    let text = match target.engine() {
        Engine::Postgres => runtime.block_on(postgres::sql(&setup, target, asked))?,
        Engine::Mysql => runtime.block_on(mysql::sql(&setup, target, asked))?,
    };
    output::text(&text)?;
    Ok(Exit::Permitted)
}
