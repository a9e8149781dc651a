//! `palisade setup-sql`: the account that the policies in force need, as SQL.

use palisade::change::{IMAGES, LEDGER};

use crate::{
    account::Asked,
    args::SetupSqlArguments,
    database::{Access, Database},
    database_name::Source,
    exit::{Exit, Failure},
    host, mysql, postgres,
    setup::Setup,
    stdout,
    step_needs::{IMAGES_NOTE, StepNeeds},
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
    let access = setup.access(Access::asked(arguments.writable))?;
    if arguments.steps && access == Access::Read {
        return Err(Failure::Usage(
            "`--steps` is for an account that changes something\n  help: give `--writable` too, or `writable = true` at the connection"
                .to_owned(),
        ));
    }
    let target = match &database {
        Database::Server(target) => target,
        Database::Sqlite(_) | Database::Memory(_) => {
            stdout::text(&describe_file(arguments.steps))?;
            return Ok(Exit::Permitted);
        }
    };
    let runtime = host::runtime()?;
    // What is there to be granted more is who logs in, unless that is who grants it.
    let own = match (&arguments.role, arguments.update) {
        (Some(_), _) | (None, false) => None,
        (None, true) => match target.engine() {
            Engine::Postgres => runtime.block_on(postgres::own_role(target))?,
            Engine::Mysql => runtime.block_on(mysql::own_role(target))?,
        },
    };
    let role = arguments.role.as_deref().or(own.as_deref());
    let role = role.unwrap_or(match access {
        Access::Read => "palisade_reader",
        Access::Write => "palisade_writer",
    });
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
    stdout::text(&text)?;
    Ok(Exit::Permitted)
}

/// What is said of a file, which has no accounts: the tables that changes `in_steps` leave something in.
fn describe_file(in_steps: bool) -> String {
    let head = "-- A SQLite file has no accounts: nothing is granted. Whoever may read the file may read all of it, and whoever may write it may change all of it.\n";
    if !in_steps {
        return format!(
            "{head}-- There is nothing to run. With `--writable --steps` this prints the tables in which changes in steps leave receipts and images.\n"
        );
    }
    let table = |name: &str| format!("main.{name}");
    [
        head,
        "-- Run it in the file: `sqlite3 FILE < steps.sql`.\n",
        &StepNeeds::ledger_script(&table(LEDGER), ""),
        IMAGES_NOTE,
        &StepNeeds::images_script(&table(IMAGES), "text", ""),
    ]
    .concat()
}
