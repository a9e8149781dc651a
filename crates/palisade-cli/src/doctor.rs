//! `palisade doctor`: what a database's account may do beyond what it is for, and what mends it; with `--mcp` see [`connector`].

use std::fmt::Write as _;

use serde::Serialize;

use crate::{
    account::Account,
    anchors_sent,
    args::{DoctorArguments, Format},
    config::ConfigFile,
    connector,
    database::{Access, Database},
    database_name::Source,
    exit::{Exit, Failure},
    host::{self, Driver},
    human,
    setup::Setup,
    setup_command::SetupCommand,
    standing, stdout,
    target::Target,
    unreadable,
    weakness::Weak,
};

/// Runs the command. Something weak is exit code 1, as a refusal is.
pub(crate) fn run(arguments: &DoctorArguments) -> Result<Exit, Failure> {
    if let Some(url) = &arguments.mcp {
        return connector::run(url, arguments.format);
    }
    let source = arguments.source.as_deref().unwrap_or_default();
    let source = Source::argument(source)?;
    let (setup, database) = Setup::over(source, &arguments.secret, &arguments.policies, None)?;
    let access = setup.access(Access::asked(arguments.writable))?;
    let mut found = match &database {
        Database::Server(target) => look(&setup, target, access)?,
        Database::Sqlite(_) | Database::Memory(_) => {
            // It opens, or this says why it does not.
            let _opened = database.open(Access::Read, Driver::Own(&host::runtime()?))?;
            Finding {
                database: database.name(),
                dialect: database.dialect().name(),
                user: None,
                endpoints: &[],
                product: None,
                server_version: None,
                setup_sql: None,
                weaknesses: Vec::new(),
                notes: Vec::new(),
            }
        }
    };
    let firewall = setup.firewall(database.catalog()?, access)?;
    found
        .notes
        .extend(standing::describe(&firewall, &setup.principal)?);
    let beyond = firewall.policies().permits_beyond_the_database();
    found.notes.extend(beyond.iter().map(ToString::to_string));
    found.notes.extend(unreadable::describe(firewall.catalog()));
    let expected = setup.describe_expected_without_column(firewall.catalog());
    found.notes.extend(expected);
    found
        .notes
        .extend(setup.feed.as_ref().map(|feed| feed.describe()));
    found.notes.extend(note_anchors(arguments)?);
    let text = match arguments.format {
        Format::Json => {
            serde_json::to_string(&found).map_err(|error| Failure::Internal(error.to_string()))?
                + "\n"
        }
        Format::Text => describe(&found),
    };
    stdout::text(&text)?;
    Ok(if found.weaknesses.is_empty() {
        Exit::Permitted
    } else {
        Exit::Refused
    })
}

/// Logs of the configuration whose anchors do not leave the machine.
fn note_anchors(arguments: &DoctorArguments) -> Result<Vec<String>, Failure> {
    let Some(path) = &arguments.policies.config else {
        return Ok(Vec::new());
    };
    let audits = ConfigFile::read(path)?.audits();
    let logs = (audits.into_iter()).filter(|audit| audit.anchor_command.is_some());
    let notes = logs.filter_map(|audit| {
        let file = audit.file?;
        let failure = anchors_sent::describe_failure(std::slice::from_ref(&file))?;
        Some(format!("the audit log `{}`: {failure}", file.display()))
    });
    Ok(notes.collect())
}

/// What was found.
#[derive(Serialize)]
struct Finding<'a> {
    database: String,
    dialect: &'static str,
    user: Option<&'a str>,
    endpoints: &'a [String],
    #[serde(skip)]
    product: Option<&'static str>,
    server_version: Option<String>,
    /// What prints the grants that are missing, or another account.
    #[serde(skip)]
    setup_sql: Option<String>,
    weaknesses: Vec<Weak>,
    /// What there is to know of the account, the principal and the policies.
    notes: Vec<String>,
}

fn look<'a>(setup: &Setup, target: &'a Target, access: Access) -> Result<Finding<'a>, Failure> {
    let Account {
        product,
        version,
        role,
        weaknesses,
        notes,
    } = Account::look(setup, target, access)?;
    Ok(Finding {
        database: target.database().to_owned(),
        dialect: target.engine().dialect().name(),
        user: Some(target.user()),
        endpoints: target.endpoints(),
        product: Some(product),
        server_version: version,
        setup_sql: advise(&target.setup_command(access), &role, &weaknesses),
        weaknesses,
        notes,
    })
}

/// Sorts of weaknesses that an account of `palisade setup-sql` has not.
const OF_OTHER_ACCOUNTS: [&str; 10] = [
    "superuser",
    "role-attribute",
    "predefined-role",
    "owner",
    "not-read-only",
    "no-timeout",
    "no-connection-limit",
    "can-grant",
    "role",
    "unknown-privilege",
];

/// What prints the grants that the account `role` lacks, or another account; `command` has the database and the policies.
fn advise(command: &SetupCommand, role: &str, weaknesses: &[Weak]) -> Option<String> {
    let has = |kinds: &[&str]| weaknesses.iter().any(|weak| kinds.contains(&weak.kind));
    let command = command.clone();
    if has(&OF_OTHER_ACCOUNTS) {
        Some(format!(
            "`{command}` prints an account that has no more than the policies need."
        ))
    } else if has(&["missing-step-grant"]) {
        let command = command.with(&["--role", role, "--update", "--steps"]);
        Some(format!(
            "`{command}` prints all that changes in steps take."
        ))
    } else if has(&["missing-grant"]) {
        let command = command.with(&["--role", role, "--update"]);
        Some(format!("`{command}` prints all that the policies need."))
    } else {
        None
    }
}

fn describe(found: &Finding<'_>) -> String {
    let mut out = match (found.user, &found.server_version) {
        (Some(user), version) => format!(
            "{} at {} as {user}: {} {}\n",
            found.database,
            found.endpoints.join(", "),
            found.product.unwrap_or("a server"),
            version.as_deref().unwrap_or("of an unknown version")
        ),
        (None, _) => format!("{}: a file; it has no accounts\n", found.database),
    };
    for note in &found.notes {
        out.push_str(&human::wrap(&format!("note: {note}"), 0, 6));
    }
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
    if let Some(advice) = &found.setup_sql {
        let _ = writeln!(out, "\n{advice}");
    }
    out
}
