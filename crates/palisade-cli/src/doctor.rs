//! `palisade doctor`: what a database's account may do beyond reading, and what mends it.

use std::fmt::Write as _;

use palisade_postgres::{Weakness, WeaknessKind, examine};
use serde::Serialize;

use crate::{
    args::{DoctorArguments, Format, PolicyArguments},
    database::Database,
    exit::{Exit, Failure},
    host, output,
    postgres::PostgresTarget,
    setup::Setup,
    source::Source,
};

/// Runs the command. Something weak is exit code 1, as a refusal is.
pub(crate) fn run(arguments: &DoctorArguments) -> Result<Exit, Failure> {
    let policies = PolicyArguments {
        principal: None,
        policies: None,
        config: arguments.config.clone(),
    };
    let source = Source::argument(&arguments.source)?;
    let (_, database) = Setup::over(source, &arguments.secret, &policies, None)?;
    let found = match &database {
        Database::Postgres(target) => host::runtime()?.block_on(look(target))?,
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

async fn look(target: &PostgresTarget) -> Result<Finding<'_>, Failure> {
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
    Ok(Finding {
        database: target.database().to_owned(),
        dialect: "postgres",
        user: Some(target.user()),
        endpoints: target.endpoints(),
        server_version: version,
        weaknesses: weaknesses.into_iter().map(Weak::from).collect(),
    })
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
