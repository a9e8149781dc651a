//! The account of a PostgreSQL server.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use palisade::{ident, limits::Limits, session::Principal};
use palisade_postgres::examine;
use tokio_postgres::{
    Client,
    types::{ToSql, Type},
};

use super::{Account, Plan, comment};
use crate::{
    database::Access,
    exit::Failure,
    needs::{Needs, needs, principals},
    postgres,
    setup::Setup,
    target::Target,
    weakness::{Weak, missing},
};

/// Milliseconds that a session of the account may work on one statement, if the limits do not ask for more.
/// Our own transactions set their own, shorter time.
const STATEMENT_TIMEOUT_MS: u64 = 10_000;

/// Milliseconds that a transaction of the account may wait for its client.
const IDLE_TIMEOUT_MS: u64 = 10_000;

/// Looks at the account that `target` logs in as.
pub(crate) async fn look(setup: &Setup, target: &Target) -> Result<Account, Failure> {
    let client = postgres::client(target).await?;
    let fault = |error: tokio_postgres::Error| {
        Failure::Unavailable(format!("cannot look at the account: {error}"))
    };
    let rows = client
        .query_typed("SELECT pg_catalog.current_setting('server_version')", &[])
        .await
        .map_err(fault)?;
    let version: Option<String> = rows
        .first()
        .map(|row| row.try_get(0))
        .transpose()
        .map_err(fault)?;
    let weaknesses = examine(&client).await.map_err(fault)?;
    let mut weaknesses: Vec<Weak> = weaknesses.into_iter().map(Weak::from).collect();
    // The built-in policies speak of every table; that an account reads fewer is no fault.
    if !setup.is_starter {
        let needs = of_database(setup, target, &client, &principals(setup)).await?;
        weaknesses.extend(
            lacking(&client, target.user(), &needs)
                .await
                .map_err(fault)?,
        );
    }
    Ok(Account {
        product: "PostgreSQL",
        version,
        weaknesses,
    })
}

/// SQL that makes an account with no more than the policies in force need.
pub(crate) async fn sql(setup: &Setup, target: &Target, role: &str) -> Result<String, Failure> {
    let client = postgres::client(target).await?;
    let principals = principals(setup);
    let needs = of_database(setup, target, &client, &principals).await?;
    drop(client);
    let plan = Plan::new(role, &principals, &needs);
    Ok(script(target.database(), &plan, &setup.limits))
}

/// What the policies let `principals` read of the database that `client` is connected to.
async fn of_database(
    setup: &Setup,
    target: &Target,
    client: &Client,
    principals: &BTreeSet<Principal>,
) -> Result<Needs, Failure> {
    let catalog = postgres::catalog(target, client).await?;
    let invoker = invoker_views(client)
        .await
        .map_err(|error| Failure::Unavailable(format!("cannot read the views: {error}")))?;
    let firewall = setup.firewall(catalog, Access::Read)?;
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

/// What the policies let somebody see and the account cannot read.
async fn lacking(
    client: &Client,
    user: &str,
    needs: &Needs,
) -> Result<Vec<Weak>, tokio_postgres::Error> {
    let (mut schemas, mut names, mut columns) = (Vec::new(), Vec::new(), Vec::new());
    for ((schema, name), wanted) in &needs.relations {
        for column in wanted {
            schemas.push(schema.as_str());
            names.push(name.as_str());
            columns.push(column.as_str());
        }
    }
    let sql = "SELECT w.s, w.n, w.c FROM ROWS FROM (pg_catalog.unnest($1), pg_catalog.unnest($2), pg_catalog.unnest($3)) AS w (s, n, c) \
               JOIN pg_catalog.pg_namespace n ON n.nspname = w.s \
               JOIN pg_catalog.pg_class r ON r.relnamespace = n.oid AND r.relname = w.n \
               JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attname = w.c \
               WHERE NOT (pg_catalog.has_schema_privilege(n.oid, 'USAGE') \
                          AND pg_catalog.has_column_privilege(r.oid, a.attnum, 'SELECT'))";
    let texts = Type::TEXT_ARRAY;
    let parameters: [(&(dyn ToSql + Sync), Type); 3] = [
        (&schemas, texts.clone()),
        (&names, texts.clone()),
        (&columns, texts),
    ];
    let mut lacking: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for row in client.query_typed(sql, &parameters).await? {
        let key = (row.try_get(0)?, row.try_get(1)?);
        lacking.entry(key).or_default().insert(row.try_get(2)?);
    }
    let role = ident::quoted(user);
    Ok(lacking
        .iter()
        .map(|((schema, name), columns)| {
            missing(
                user,
                &ident::qualified([schema.as_str(), name.as_str()]),
                columns.iter().map(String::as_str),
                format!(
                    "GRANT USAGE ON SCHEMA {} TO {role}; {}",
                    ident::quoted(schema),
                    grant(schema, name, columns, &role)
                ),
            )
        })
        .collect())
}

fn script(database: &str, plan: &Plan<'_>, limits: &Limits) -> String {
    let (role, database) = (ident::quoted(plan.role), ident::quoted(database));
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
        plan.who,
        comment(&database),
    );
    let schemas: BTreeSet<&String> = plan
        .needs
        .relations
        .keys()
        .map(|(schema, _)| schema)
        .collect();
    for schema in schemas {
        let _ = writeln!(
            out,
            "GRANT USAGE ON SCHEMA {} TO {role};",
            ident::quoted(schema)
        );
    }
    // By column: a grant on a table would hold for columns that are added later, too.
    for ((schema, name), columns) in &plan.needs.relations {
        let _ = writeln!(out, "{}", grant(schema, name, columns, &role));
    }
    out.push_str("COMMIT;\n");
    out.push_str(&plan.notes());
    let _ = write!(
        out,
        "-- Its password: `\\password {}` in psql asks for one, so that it stands in no file and no log.\n\
         -- Temporary tables are everybody's in a new database; to take that away from all accounts:\n\
         -- REVOKE TEMPORARY ON DATABASE {} FROM PUBLIC;\n",
        comment(plan.role),
        comment(&database)
    );
    out
}

/// Lets `role`, quoted, read these columns.
fn grant(schema: &str, name: &str, columns: &BTreeSet<String>, role: &str) -> String {
    let columns: Vec<String> = columns.iter().map(|column| ident::quoted(column)).collect();
    format!(
        "GRANT SELECT ({}) ON {}.{} TO {role};",
        columns.join(", "),
        ident::quoted(schema),
        ident::quoted(name)
    )
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
        let principals = BTreeSet::from([Principal::new("Agent", "x\n")]);
        let plan = Plan::new("r\" SUPERUSER", &principals, &needs);
        let text = script("d\nb", &plan, &Limits::default());
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
