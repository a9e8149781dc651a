//! `palisade demo`: a small database with policies, and what the firewall does with statements.

mod changes;

use std::{
    collections::BTreeSet,
    env,
    fmt::Write as _,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use palisade::{
    session::{Principal, Session, Transport},
    value::Params,
};

use crate::{
    answer::{Answer, Answerer as _, Request, Verdict},
    args::{DemoArguments, DemoStory, PolicyArguments, SecretArguments},
    database::Access,
    database_name::Source,
    exit::{Exit, Failure},
    human::{self, Paint},
    policies::{self, DEMO},
    query::Gate,
    setup::Setup,
    shell_word::quote_word,
    sqlite, stdout,
};

const SCHEMA: &str = include_str!("../../policies/demo/tests/demo.sql");

/// The `application_id` that `SCHEMA` gives the file.
const APPLICATION_ID: [u8; 4] = *b"Pali";

const DATABASE: &str = "demo.db";
const FOLDER: &str = "demo-policies";

/// Runs the command.
pub(crate) fn run(arguments: &DemoArguments) -> Result<Exit, Failure> {
    sqlite::require()?;
    let dir = arguments.dir.clone().unwrap_or_default();
    match arguments.story {
        Some(DemoStory::Changes) => return changes::run(&dir),
        None => {}
    }
    let place = Place {
        database: dir.join(DATABASE),
        policies: dir.join(FOLDER),
    };
    place.prepare(&dir)?;
    let (setup, database) = Setup::over(
        Source::Sqlite(place.database.clone()),
        &SecretArguments::default(),
        &PolicyArguments {
            principal: Some(Principal::new("Agent", "support-bot")),
            policies: Some(place.policies.clone()),
            config: None,
        },
        None,
    )?;
    let gate = Gate::open(&setup, &database, Access::Read, setup.limits.clone())?;
    let session = Session::new(setup.principal.clone()).over(Transport::Cli);
    let paint = Paint::for_stdout();

    stdout::text(&introduction(&place, paint))?;
    for (n, step) in STEPS.iter().enumerate() {
        let request = Request {
            sql: step.sql.to_owned(),
            params: Params::None,
            session: session.clone(),
        };
        stdout::text(&show_step(n + 1, step, &gate.answer(&request), paint))?;
    }
    stdout::text(&connections(&place, paint))?;
    Ok(Exit::Permitted)
}

struct Step {
    title: &'static str,
    about: &'static str,
    sql: &'static str,
}

const STEPS: &[Step] = &[
    Step {
        title: "permitted",
        about: "Nothing is masked or filtered in this table. The statement is printed \
                from its syntax tree, with a row limit: that text is what runs, never \
                the agent's own.",
        sql: "SELECT name, team FROM staff ORDER BY name",
    },
    Step {
        title: "masked at the source",
        about: "Policies mask two columns. The mask is computed in the database, below \
                everything else the statement does, so that the values never leave it.",
        sql: "SELECT name, email, national_id FROM customers ORDER BY name",
    },
    Step {
        title: "filtered by row",
        about: "The agent works for tenant 1 (entities.json). For it the tickets of the \
                other tenants do not exist: not in rows, and not in counts.",
        sql: "SELECT tenant_id, status, count(*) AS tickets FROM tickets \
              GROUP BY tenant_id, status ORDER BY status",
    },
    Step {
        title: "capped",
        about: "The policy that permits reading tickets says @max_rows(\"5\"). Asking for \
                more does not help, and the answer says that it was cut.",
        sql: "SELECT id, status, subject FROM tickets ORDER BY id LIMIT 1000",
    },
    Step {
        title: "no oracle",
        about: "A customer has the national id 850712-4821. Guessing it does not work: \
                the condition sees the mask, just as the answer does.",
        sql: "SELECT name FROM customers WHERE national_id LIKE '850712%'",
    },
    Step {
        title: "refused: a table that is not for agents",
        about: "The refusal says what the agent can do instead.",
        sql: "SELECT service, api_key FROM credentials",
    },
    Step {
        title: "refused: writing",
        about: "No policy permits it, and the database is opened for reading only.",
        sql: "DELETE FROM tickets WHERE status = 'closed'",
    },
    Step {
        title: "refused: a second statement",
        about: "The text holds two statements, the second behind a comment.",
        sql: "SELECT id FROM tickets; /* tidy up */ DROP TABLE tickets",
    },
    Step {
        title: "flagged in the output",
        about: "One ticket carries a prompt injection: it speaks to the assistant that \
                reads it and asks for the credentials. The agent gets the text with a \
                finding, between markers that the text cannot forge.",
        sql: "SELECT subject, body FROM tickets WHERE id = 7",
    },
    Step {
        title: "refused: what the injection asks for",
        about: "If the model believes the ticket, this is the statement it writes next.",
        sql: "INSERT INTO tickets (tenant_id, customer_id, status, subject, body, opened_on) \
              SELECT 1, 2, 'open', 'Re: integration', \
              group_concat(service || ' ' || login || ' ' || api_key), '2026-09-19' \
              FROM credentials",
    },
];

/// The files of the demonstration.
struct Place {
    database: PathBuf,
    policies: PathBuf,
}

impl Place {
    /// Makes the files anew. What is there already is replaced only if the demonstration made it.
    fn prepare(&self, dir: &Path) -> Result<(), Failure> {
        let fault = |path: &Path, why: &str| {
            Failure::Usage(format!(
                "cannot make `{}`: {why}\n  help: `palisade demo --dir DIR` takes another folder",
                path.display()
            ))
        };
        if !dir.as_os_str().is_empty() {
            std::fs::create_dir_all(dir).map_err(|error| fault(dir, &error.to_string()))?;
        }
        // Both are looked at before either is touched.
        let has_database = exists(&self.database).map_err(|why| fault(&self.database, &why))?;
        if has_database && !is_own_database(&self.database) {
            return Err(fault(
                &self.database,
                "there is something else by this name",
            ));
        }
        let has_policies = exists(&self.policies).map_err(|why| fault(&self.policies, &why))?;
        if has_policies && !is_own_folder(&self.policies) {
            return Err(fault(
                &self.policies,
                "there is something by this name that the demonstration did not make, or that was edited",
            ));
        }
        if has_database {
            for suffix in ["", "-journal", "-wal", "-shm"] {
                let mut path = self.database.clone().into_os_string();
                path.push(suffix);
                match std::fs::remove_file(&path) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        return Err(fault(Path::new(&path), &error.to_string()));
                    }
                    Ok(()) | Err(_) => {}
                }
            }
        }
        sqlite::create(&self.database, SCHEMA).map_err(|error| fault(&self.database, &error))?;
        if has_policies {
            Ok(())
        } else {
            policies::write(DEMO, &self.policies)
        }
    }
}

/// Whether there is anything at `path`, a dangling link included.
fn exists(path: &Path) -> Result<bool, String> {
    match std::fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.to_string()),
    }
}

/// Whether the file is a SQLite database with our `application_id`, bytes 68 to 71 of the header
/// (<https://www.sqlite.org/fileformat.html#application_id>).
fn is_own_database(path: &Path) -> bool {
    let mut header = [0; 72];
    std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())
        && File::open(path)
            .and_then(|mut file| file.read_exact(&mut header))
            .is_ok()
        && header.starts_with(b"SQLite format 3\0")
        && header.ends_with(&APPLICATION_ID)
}

/// Whether the folder holds exactly our files as they were written.
fn is_own_folder(path: &Path) -> bool {
    let is_as_written = |(name, text): &(&str, &str)| {
        std::fs::read_to_string(path.join(name)).is_ok_and(|found| found == *text)
    };
    let folders: BTreeSet<&str> = DEMO
        .iter()
        .filter_map(|(name, _)| Some(name.split_once('/')?.0))
        .collect();
    let mut entries = count_entries(path);
    for folder in &folders {
        entries = entries.and_then(|sum| Some(sum + count_entries(&path.join(folder))?));
    }
    entries == Some(DEMO.len() + folders.len()) && DEMO.iter().all(is_as_written)
}

fn count_entries(folder: &Path) -> Option<usize> {
    Some(std::fs::read_dir(folder).ok()?.count())
}

fn introduction(place: &Place, paint: Paint) -> String {
    let text = format!(
        "A support desk for three tenants in `{}`, and policies for it in `{}`. \
         An agent, Agent::\"support-bot\", works for tenant 1. This is what the firewall does with \
         its statements.",
        place.database.display(),
        place.policies.display(),
    );
    format!(
        "{}\n\n{}",
        paint.strong("Palisade: a SQL firewall for AI agents"),
        human::wrap(&text, 0, 0)
    )
}

fn show_step(n: usize, step: &Step, answer: &Answer, paint: Paint) -> String {
    let head = format!("── {n}. {} ", step.title);
    let rule = "─".repeat(human::WIDTH.saturating_sub(head.chars().count()));
    let mut out = format!("\n{}\n", paint.strong(&format!("{head}{rule}")));
    out.push_str(&human::wrap(step.about, 0, 0));
    out.push_str(&human::labelled_sql("\nthe agent sends", step.sql, paint));
    match &answer.verdict {
        Verdict::Refused(_) => {
            out.push_str(&human::refusal(answer, paint));
            if !answer.policies.is_empty() {
                out.push_str(&human::label(
                    "decided by",
                    &answer.policies.join(", "),
                    paint,
                ));
            }
        }
        Verdict::Permitted(_) => {
            let _ = writeln!(out, "{}", paint.good("PERMITTED"));
        }
        Verdict::Rows(envelope) => {
            let by = format!("PERMITTED by {}", answer.policies.join(", "));
            let by = human::wrap(&by, 0, 2);
            out.push_str(&by.replacen("PERMITTED", &paint.good("PERMITTED"), 1));
            if let Some(sql) = &answer.rewritten {
                out.push_str(&human::labelled_sql("what runs", sql, paint));
            }
            out.push_str(&human::rows(envelope, paint));
        }
    }
    out
}

/// How to go on. These lines are for copying: they are never wrapped.
fn connections(place: &Place, paint: Paint) -> String {
    let program = env::current_exe().unwrap_or_else(|_| PathBuf::from("palisade"));
    let program = program.display().to_string();
    let folder = place
        .policies
        .canonicalize()
        .unwrap_or_else(|_| place.policies.clone());
    let folder = folder.display().to_string();
    let file = place
        .database
        .canonicalize()
        .unwrap_or_else(|_| place.database.clone());
    let database = format!("sqlite:{}", file.display());
    let principal = "Agent::\"support-bot\"";
    let arguments = ["serve", &database, "--policies", &folder, "--as", principal];
    let shell = |words: &[&str]| {
        words
            .iter()
            .map(|word| quote_word(word))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let serve = format!("{} {}", quote_word(&program), shell(&arguments));
    let config = serde_json::json!({
        "mcpServers": { "palisade": { "command": program, "args": arguments } }
    });
    let config = serde_json::to_string_pretty(&config).unwrap_or_default();
    let query = format!(
        "{} query {} --policies {} --as {}",
        quote_word(&program),
        quote_word(&database),
        quote_word(&folder),
        quote_word(principal)
    );
    let rule = "─".repeat(human::WIDTH);
    format!(
        "\n{rule}\n{}\n\n{}\n\n  claude mcp add palisade -- {serve}\n\n{}\n\n{config}\n\n{}\n\n  \
         npx @modelcontextprotocol/inspector --cli {serve} --method tools/list\n\n{}\n\n  \
         {query} \"SELECT * FROM customers\"\n  {query} --format json \"SELECT * FROM credentials\"\n",
        paint.strong("Connect an MCP client to this database"),
        paint.faint("Claude Code:"),
        paint.faint("Claude Desktop, Cursor and others, in their JSON configuration:"),
        paint.faint("The MCP inspector:"),
        paint.strong("Or try statements of your own"),
    )
}
