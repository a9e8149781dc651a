//! `palisade setup-sql`: the account that the policies in force need, as SQL.

use std::{collections::BTreeSet, fmt::Write as _};

use palisade::{ident, limits::Limits, session::Principal};
use tokio_postgres::Client;

use crate::{
    args::SetupSqlArguments,
    database::Database,
    exit::{Exit, Failure},
    host,
    needs::{Needs, needs, principals},
    output,
    postgres::PostgresTarget,
    setup::Setup,
    source::Source,
};

/// Milliseconds that a session of the account may work on one statement, if the limits do not ask for more.
/// Our own transactions set their own, shorter time.
const STATEMENT_TIMEOUT_MS: u64 = 10_000;

/// Milliseconds that a transaction of the account may wait for its client.
const IDLE_TIMEOUT_MS: u64 = 10_000;

/// Runs the command.
pub(crate) fn run(arguments: &SetupSqlArguments) -> Result<Exit, Failure> {
    let (setup, database) = Setup::over(
        Source::argument(&arguments.source)?,
        &arguments.secret,
        &arguments.policies,
        None,
    )?;
    let target = match &database {
        Database::Postgres(target) => target,
        Database::Sqlite(_) => {
            return Err(Failure::Usage(
                "a SQLite file has no accounts: it is opened for reading only\n  help: give `postgres://USER@HOST/DATABASE`"
                    .to_owned(),
            ));
        }
    };
    let text = host::runtime()?.block_on(sql(&setup, target, &arguments.role))?;
    output::text(&text)?;
    Ok(Exit::Permitted)
}

async fn sql(setup: &Setup, target: &PostgresTarget, role: &str) -> Result<String, Failure> {
    let client = target.client().await?;
    let principals = principals(setup);
    let needs = of_database(setup, target, &client, &principals).await?;
    drop(client);
    let who: Vec<String> = principals.iter().map(ToString::to_string).collect();
    Ok(script(target.database(), role, &who, &needs, &setup.limits))
}

/// What the policies let `principals` read of the database that `client` is connected to.
pub(crate) async fn of_database(
    setup: &Setup,
    target: &PostgresTarget,
    client: &Client,
    principals: &BTreeSet<Principal>,
) -> Result<Needs, Failure> {
    let catalog = target.catalog_by(client).await?;
    let invoker = invoker_views(client)
        .await
        .map_err(|error| Failure::Unavailable(format!("cannot read the views: {error}")))?;
    let firewall = setup.firewall(catalog)?;
    needs(&firewall, principals, &invoker)
}

/// Views that read with the rights of whoever asks.
async fn invoker_views(client: &Client) -> Result<BTreeSet<String>, tokio_postgres::Error> {
    let sql = "SELECT n.nspname::text, c.relname::text FROM pg_catalog.pg_class c \
               JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
               WHERE c.relkind = 'v' AND EXISTS (SELECT FROM pg_catalog.pg_options_to_table(c.reloptions) o \
                 WHERE o.option_name = 'security_invoker' AND o.option_value::bool)";
    let mut uids = BTreeSet::new();
    for row in client.query_typed(sql, &[]).await? {
        let (schema, name): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        uids.insert(ident::qualified([schema.as_str(), name.as_str()]));
    }
    Ok(uids)
}

fn script(database: &str, role: &str, who: &[String], needs: &Needs, limits: &Limits) -> String {
    let (shown, role, database) = (role, ident::quoted(role), ident::quoted(database));
    let statement = STATEMENT_TIMEOUT_MS.max(limits.statement_timeout_ms);
    let mut out = String::new();
    let _ = write!(
        out,
        "-- The account that palisade logs in as, with no more than the policies need.\n\
         -- For {}.\n\
         -- Run it in database {} as a superuser, and again after `DROP OWNED BY {role}; DROP ROLE {role};`\n\
         -- when policies or tables have changed.\n\
         BEGIN;\n\
         CREATE ROLE {role} LOGIN NOINHERIT NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS CONNECTION LIMIT 10;\n\
         ALTER ROLE {role} SET default_transaction_read_only = on;\n\
         ALTER ROLE {role} SET statement_timeout = '{statement}ms';\n\
         ALTER ROLE {role} SET idle_in_transaction_session_timeout = '{IDLE_TIMEOUT_MS}ms';\n\
         GRANT CONNECT ON DATABASE {database} TO {role};\n",
        comment(&who.join(", ")),
        comment(&database),
    );
    let schemas: BTreeSet<&String> = needs.relations.keys().map(|(schema, _)| schema).collect();
    for schema in schemas {
        let _ = writeln!(
            out,
            "GRANT USAGE ON SCHEMA {} TO {role};",
            ident::quoted(schema)
        );
    }
    // By column: a grant on a table would hold for columns that are added later, too.
    for ((schema, name), columns) in &needs.relations {
        let _ = writeln!(out, "{}", grant(schema, name, columns, &role));
    }
    out.push_str("COMMIT;\n");
    for note in &needs.notes {
        let _ = writeln!(out, "-- {}", comment(note));
    }
    let _ = write!(
        out,
        "-- Its password: `\\password {}` in psql asks for one, so that it stands in no file and no log.\n\
         -- Temporary tables are everybody's in a new database; to take that away from all accounts:\n\
         -- REVOKE TEMPORARY ON DATABASE {} FROM PUBLIC;\n",
        comment(shown),
        comment(&database)
    );
    out
}

/// Lets `role`, quoted, read these columns.
pub(crate) fn grant(schema: &str, name: &str, columns: &BTreeSet<String>, role: &str) -> String {
    let columns: Vec<String> = columns.iter().map(|column| ident::quoted(column)).collect();
    format!(
        "GRANT SELECT ({}) ON {}.{} TO {role};",
        columns.join(", "),
        ident::quoted(schema),
        ident::quoted(name)
    )
}

/// Text that stays within its comment.
fn comment(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_names() {
        let mut needs = Needs::default();
        needs.relations.insert(
            ("a\"b".to_owned(), "t; DROP".to_owned()),
            BTreeSet::from(["x)".to_owned()]),
        );
        let text = script(
            "d\nb",
            "r\" SUPERUSER",
            &["Agent::\"x\n\"".to_owned()],
            &needs,
            &Limits::default(),
        );
        assert!(
            text.contains("CREATE ROLE \"r\"\" SUPERUSER\" LOGIN"),
            "{text}"
        );
        assert!(
            text.contains(
                "GRANT SELECT (\"x)\") ON \"a\"\"b\".\"t; DROP\" TO \"r\"\" SUPERUSER\";"
            ),
            "{text}"
        );
        assert!(text.contains("-- For Agent::\"x \"."), "{text}");
    }
}
