//! `palisade policy learn`: the least policies for what was asked, or what to take away.

use std::{fmt::Write as _, fs, path::Path, time::Duration};

use palisade::{
    moment,
    policy::{PolicyOutline, outline},
};
use palisade_corpus::{AskedStatement, LearnError, Learned, PolicyTests};
use serde_json::json;

use crate::{
    args::{Format, policy::LearnArguments},
    asked_statements::{self, AskedInLog, OtherVersions},
    exit::{Exit, Failure},
    human,
    policies::Policies,
    policy::{
        diff::choose_catalog,
        test::{not_loaded, not_run},
    },
    progress::ProgressLine,
    server_statements::{self, Whose},
    setup::Setup,
    stdout,
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Runs the command.
pub(crate) fn run(arguments: &LearnArguments) -> Result<Exit, Failure> {
    if let Some(days) = arguments.unused {
        let Some(path) = &arguments.audit else {
            return Err(Failure::Usage("name a log: `--audit FILE`".to_owned()));
        };
        return list_unused(arguments, &asked_statements::read_audit(path, None)?, days);
    }
    let mut unseen = Vec::new();
    let tests = PolicyTests::load(&arguments.dir).map_err(not_loaded)?;
    let catalog = choose_catalog(arguments.catalog.as_ref(), &arguments.dir, &tests)?;
    let log = match (&arguments.audit, &arguments.statements, &arguments.counted) {
        (Some(path), _, _) => {
            let at_hand = tests.versions(&catalog);
            let at_hand = at_hand.map_err(|error| not_run(&error, &arguments.dir))?;
            asked_statements::read_audit(path, Some((&at_hand, OtherVersions::Take)))?
        }
        (None, Some(path), _) => AskedInLog {
            statements: asked_statements::read_statements(path)?,
            ..AskedInLog::default()
        },
        (None, None, Some(database)) => {
            let (statements, sentences) = read_counted(database, arguments)?;
            unseen = sentences;
            AskedInLog {
                statements,
                ..AskedInLog::default()
            }
        }
        (None, None, None) => {
            return Err(Failure::Usage("name a log: `--audit FILE`".to_owned()));
        }
    };
    let others = log.count_other_versions();
    if let (records @ 1.., differing) = &others {
        unseen.push(format!(
            "{records} of {} records were decided by other versions than those of the folder ({}). They were learned from all the same.",
            log.records,
            differing.join(", ")
        ));
    }
    let line = ProgressLine::begin("learning");
    let learned = line
        .follow(tests)
        .learn(&catalog, &log.statements)
        .map_err(|error| match error {
            LearnError::Run(error) => not_run(&error, &arguments.dir),
            LearnError::Layout(error) => Failure::Internal(error.to_string()),
        })?;
    drop(line);
    match &arguments.write {
        Some(folder) => {
            write(folder, &learned)?;
            stdout::text(&format!(
                "{}`{}` and `{}` were written\n",
                summarize(&learned, &unseen),
                folder.join("learned.cedar").display(),
                folder.join("tests/learned.toml").display()
            ))?;
        }
        None => stdout::text(&match arguments.format {
            Format::Json => {
                let mut told = serde_json::to_value(&learned)
                    .map_err(|error| Failure::Internal(error.to_string()))?;
                if let serde_json::Value::Object(told) = &mut told {
                    told.insert("unseen".to_owned(), json!(unseen));
                    if arguments.audit.is_some() {
                        let (records, differing) = &others;
                        let others = json!({ "records": records, "differing": differing });
                        told.insert("other_versions".to_owned(), others);
                    }
                }
                format!("{told}\n")
            }
            Format::Text => format!(
                "{}\n{}",
                learned.policies,
                comment(&summarize(&learned, &unseen))
            ),
        })?,
    }
    Ok(match learned.left.is_empty() {
        true => Exit::Permitted,
        false => Exit::Refused,
    })
}

/// The statements that the server of `database` has counted, and what cannot be seen there.
fn read_counted(
    database: &str,
    arguments: &LearnArguments,
) -> Result<(Vec<AskedStatement>, Vec<String>), Failure> {
    let (_, database) = Setup::without_configuration(
        database,
        &arguments.secret,
        None,
        "palisade policy learn --counted postgres://reader@db.internal/shop",
    )?;
    let whose = Whose {
        accounts: &arguments.account,
        principal: arguments.principal.as_ref(),
    };
    server_statements::read(&database, whose)
}

/// What was learned from, and what was not.
fn summarize(learned: &Learned, unseen: &[String]) -> String {
    let window = match &learned.window {
        Some((first, last)) => format!(", asked from {first} to {last}"),
        None => String::new(),
    };
    let mut out = format!(
        "Learned from {} statements{window}. What was not asked then is not seen.\n",
        learned.permitted
    );
    for sentence in unseen {
        let _ = writeln!(out, "{sentence}");
    }
    for (sql, why) in &learned.left {
        let _ = writeln!(out, "Not learned from, {why}: {}", human::printable(sql));
    }
    out
}

/// As a comment of Cedar.
fn comment(text: &str) -> String {
    text.lines().map(|line| format!("// {line}\n")).collect()
}

/// Writes the folder, whole or not at all.
fn write(folder: &Path, learned: &Learned) -> Result<(), Failure> {
    if folder.exists() {
        return Err(Failure::Usage(format!(
            "`{}` is there already\n  help: name a new folder; what it holds is for you to merge",
            folder.display()
        )));
    }
    let fault = |error: std::io::Error| {
        Failure::Usage(format!("cannot write `{}`: {error}", folder.display()))
    };
    let mut beside = folder.as_os_str().to_owned();
    beside.push(".new");
    let beside = Path::new(&beside);
    fs::create_dir_all(beside.join("tests")).map_err(fault)?;
    fs::write(beside.join("learned.cedar"), &learned.policies).map_err(fault)?;
    fs::write(beside.join("tests/learned.toml"), &learned.tests).map_err(fault)?;
    fs::rename(beside, folder).map_err(fault)
}

/// Lists the policies that decided nothing in the last `days` of the log.
fn list_unused(arguments: &LearnArguments, log: &AskedInLog, days: u16) -> Result<Exit, Failure> {
    let policies = Policies::read(&arguments.dir)?;
    let Some((first, last)) = log.window else {
        return Err(Failure::Usage("the log holds no statement".to_owned()));
    };
    let since = last.saturating_sub(DAY * u32::from(days));
    let unused: Vec<PolicyOutline> = outline(&policies.sources)
        .into_iter()
        .filter(|policy| {
            log.policies
                .get(&policy.id)
                .is_none_or(|used| *used < since)
        })
        .collect();
    let is_short = first > since;
    let text = match arguments.format {
        Format::Json => {
            let unused: Vec<serde_json::Value> = unused
                .iter()
                .map(|policy| {
                    let used = log.policies.get(&policy.id);
                    json!({
                        "id": policy.id,
                        "file": policy.file,
                        "line": policy.first_line,
                        "last_used": used.map(|used| moment::print_utc(*used)),
                    })
                })
                .collect();
            let told = json!({
                "unused": unused,
                "from": moment::print_utc(first),
                "to": moment::print_utc(last),
                "covers_days": !is_short,
            });
            format!("{told}\n")
        }
        Format::Text => {
            let mut out = String::new();
            for policy in &unused {
                let used = match log.policies.get(&policy.id) {
                    Some(used) => format!("last on {}", moment::print_utc(*used)),
                    None => "never".to_owned(),
                };
                let _ = writeln!(
                    out,
                    "{}:{} {}: {used}",
                    policy.file, policy.first_line, policy.id
                );
            }
            let _ = writeln!(
                out,
                "{} policies decided nothing in {days} days; the log is from {} to {}.",
                unused.len(),
                moment::print_utc(first),
                moment::print_utc(last)
            );
            if is_short {
                let _ = writeln!(
                    out,
                    "It is shorter than {days} days, and says nothing of the time before."
                );
            }
            out.push_str("A forbid that decides nothing may still be why it is not asked for.\n");
            out
        }
    };
    stdout::text(&text)?;
    Ok(Exit::Permitted)
}
