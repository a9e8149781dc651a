//! `palisade doctor`: what a database's account may do beyond reading, and what mends it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use palisade::ident;
use palisade_postgres::{Weakness, WeaknessKind, examine};
use serde::Serialize;
use tokio_postgres::{
    Client,
    types::{ToSql, Type},
};

use crate::{
    args::{DoctorArguments, Format},
    database::Database,
    exit::{Exit, Failure},
    host,
    needs::{Needs, principals},
    output,
    postgres::PostgresTarget,
    setup::Setup,
    setup_sql::{grant, of_database},
    source::Source,
};

/// Runs the command. Something weak is exit code 1, as a refusal is.
pub(crate) fn run(arguments: &DoctorArguments) -> Result<Exit, Failure> {
    let source = Source::argument(&arguments.source)?;
    let (setup, database) = Setup::over(source, &arguments.secret, &arguments.policies, None)?;
    let found = match &database {
        Database::Postgres(target) => host::runtime()?.block_on(look(&setup, target))?,
        Database::Sqlite(_) => {
            // It opens, or this says why it does not.
            drop(database.open(&host::runtime()?)?);
            Finding {
                database: database.name(),
                dialect: database.dialect().name(),
                user: None,
                endpoints: &[],
                server_version: None,
                weaknesses: Vec::new(),
            }
        }
    };
    let text = match arguments.format {
        Format::Json => {
            serde_json::to_string(&found).map_err(|error| Failure::Internal(error.to_string()))?
                + "\n"
        }
        Format::Text => human(&found),
    };
    output::text(&text)?;
    Ok(if found.weaknesses.is_empty() {
        Exit::Permitted
    } else {
        Exit::Refused
    })
}

/// What was found.
#[derive(Serialize)]
struct Finding<'a> {
    database: String,
    dialect: &'static str,
    user: Option<&'a str>,
    endpoints: &'a [String],
    server_version: Option<String>,
    weaknesses: Vec<Weak>,
}

/// A [`Weakness`] as it is printed.
#[derive(Serialize)]
struct Weak {
    kind: &'static str,
    description: String,
    remedy: String,
}

impl From<Weakness> for Weak {
    fn from(weakness: Weakness) -> Self {
        Self {
            kind: name(weakness.kind),
            description: weakness.description,
            remedy: weakness.remedy,
        }
    }
}

async fn look<'a>(setup: &Setup, target: &'a PostgresTarget) -> Result<Finding<'a>, Failure> {
    let client = target.client().await?;
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
            missing(&client, target.user(), &needs)
                .await
                .map_err(fault)?,
        );
    }
    Ok(Finding {
        database: target.database().to_owned(),
        dialect: "postgres",
        user: Some(target.user()),
        endpoints: target.endpoints(),
        server_version: version,
        weaknesses,
    })
}

/// What the policies let somebody see and the account cannot read: statements about it fail.
async fn missing(
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
        .map(|((schema, name), columns)| Weak {
            kind: "missing-grant",
            description: format!(
                "{user} cannot read {} of {}, which the policies show to somebody",
                columns
                    .iter()
                    .map(String::as_str)
                    .collect::<Vec<_>>()
                    .join(", "),
                ident::qualified([schema.as_str(), name.as_str()])
            ),
            remedy: format!(
                "GRANT USAGE ON SCHEMA {} TO {role}; {}",
                ident::quoted(schema),
                grant(schema, name, columns, &role)
            ),
        })
        .collect())
}

fn human(found: &Finding<'_>) -> String {
    let mut out = match (found.user, &found.server_version) {
        (Some(user), version) => format!(
            "{} at {} as {user}: PostgreSQL {}\n",
            found.database,
            found.endpoints.join(", "),
            version.as_deref().unwrap_or("of an unknown version")
        ),
        (None, _) => format!(
            "{}: a file, opened for reading only; it has no accounts\n",
            found.database
        ),
    };
    if found.weaknesses.is_empty() {
        out.push_str("Nothing is weak.\n");
        return out;
    }
    let _ = writeln!(
        out,
        "Weak: {}, the worst first. Each with what mends it.",
        found.weaknesses.len()
    );
    for weak in &found.weaknesses {
        let _ = writeln!(
            out,
            "\n{}: {}\n  {}",
            weak.kind, weak.description, weak.remedy
        );
    }
    if found.user.is_some() {
        out.push_str(
            "\n`palisade setup-sql` prints an account that has no more than the policies need.\n",
        );
    }
    out
}

/// The word for a kind; stable.
fn name(kind: WeaknessKind) -> &'static str {
    match kind {
        WeaknessKind::Superuser => "superuser",
        WeaknessKind::RoleAttribute => "role-attribute",
        WeaknessKind::PredefinedRole => "predefined-role",
        WeaknessKind::ServerFunction => "server-function",
        WeaknessKind::Owner => "owner",
        WeaknessKind::CanWrite => "can-write",
        WeaknessKind::CanCreate => "can-create",
        WeaknessKind::SecurityDefiner => "security-definer",
        WeaknessKind::Plaintext => "plaintext",
        WeaknessKind::NotReadOnly => "not-read-only",
        WeaknessKind::NoTimeout => "no-timeout",
        WeaknessKind::NoConnectionLimit => "no-connection-limit",
        WeaknessKind::UntestedVersion => "untested-version",
    }
}
