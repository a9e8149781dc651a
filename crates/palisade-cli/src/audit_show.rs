//! `palisade audit show`: a log for people, chosen by who, what and when.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use palisade::{host::Host as _, moment};
use palisade_host::{Machine, audit_log_of, list_audit_files};
use palisade_scan::spell_out;
use serde_json::Value;

use crate::{
    args::{
        Format,
        audit::{AuditShowArguments, Decision},
    },
    exit::{Exit, Failure},
};

/// How often `--follow` looks.
const LOOK: Duration = Duration::from_millis(200);

/// Runs the command.
pub(crate) fn run(arguments: &AuditShowArguments) -> Result<Exit, Failure> {
    let mut readers = Vec::new();
    let unread = |path: &Path, error: &io::Error| {
        Failure::Usage(format!(
            "cannot read the audit log `{}`: {error}\n  help: name the file of `--audit`, or of `[audit]` in the configuration",
            path.display()
        ))
    };
    for setup in arguments.logs.logs()? {
        let Some(path) = setup.file else { continue };
        let files = if path == audit_log_of(&path) {
            list_audit_files(&path).map_err(|error| unread(&path, &error))?
        } else {
            vec![path.clone()]
        };
        let (newest, older) = match files.split_last() {
            Some((newest, older)) if *newest == path => (newest.clone(), older.to_vec()),
            Some(_) | None => (path.clone(), files),
        };
        for file in older {
            let mut reader = Reader::open(&file).map_err(|error| unread(&file, &error))?;
            show_new(&mut reader, arguments)?;
        }
        let mut reader = Reader::open(&newest).map_err(|error| unread(&newest, &error))?;
        show_new(&mut reader, arguments)?;
        readers.push(reader);
    }
    if !arguments.follow {
        return Ok(Exit::Permitted);
    }
    loop {
        std::thread::sleep(LOOK);
        for reader in &mut readers {
            show_new(reader, arguments)?;
            // What was written before it was renamed has been read by now.
            if reader.is_renamed()
                && let Ok(next) = Reader::open(&reader.path)
            {
                show_new(reader, arguments)?;
                *reader = next;
            }
        }
    }
}

/// A file of a log, as far as it has been read.
struct Reader {
    path: PathBuf,
    file: BufReader<File>,
    /// A line whose end is not there yet.
    begun: Vec<u8>,
}

impl Reader {
    fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            file: BufReader::new(File::open(path)?),
            begun: Vec::new(),
        })
    }

    /// The next line that has its end.
    fn next(&mut self) -> io::Result<Option<String>> {
        self.file.read_until(b'\n', &mut self.begun)?;
        if self.begun.last() != Some(&b'\n') {
            return Ok(None);
        }
        let line = std::mem::take(&mut self.begun);
        Ok(Some(String::from_utf8_lossy(&line).trim_end().to_owned()))
    }

    #[cfg(unix)]
    fn is_renamed(&self) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let here = self.file.get_ref().metadata();
        let there = std::fs::metadata(&self.path);
        match (here, there) {
            (Ok(here), Ok(there)) => (here.dev(), here.ino()) != (there.dev(), there.ino()),
            (Ok(_) | Err(_), _) => false,
        }
    }

    #[cfg(not(unix))]
    fn is_renamed(&self) -> bool {
        false
    }
}

/// Shows the chosen of the lines that have not been read.
fn show_new(reader: &mut Reader, arguments: &AuditShowArguments) -> Result<(), Failure> {
    let now = Machine::new().unix_time();
    let mut out = io::stdout().lock();
    let path = reader.path.clone();
    let next = |reader: &mut Reader| {
        reader.next().map_err(|error| {
            Failure::Usage(format!(
                "cannot read the audit log `{}`: {error}",
                path.display()
            ))
        })
    };
    while let Some(line) = next(reader)? {
        let Ok(record) = serde_json::from_str::<Value>(&line) else {
            // It is what a choice does not leave out of what says nothing.
            let is_shown = is_chosen(&Value::Null, arguments, now);
            if is_shown && arguments.format == Format::Text && !line.is_empty() {
                writeln!(out, "  (a line that is no record)")
                    .map_err(|error| Failure::output(&error))?;
            }
            continue;
        };
        if !is_chosen(&record, arguments, now) {
            continue;
        }
        let text = match arguments.format {
            Format::Text => describe(&record),
            Format::Json => format!("{line}\n"),
        };
        out.write_all(text.as_bytes())
            .map_err(|error| Failure::output(&error))?;
    }
    out.flush().map_err(|error| Failure::output(&error))
}

fn is_chosen(record: &Value, arguments: &AuditShowArguments, now: Duration) -> bool {
    let AuditShowArguments {
        logs: _,
        principal,
        session,
        table,
        decision,
        since,
        until,
        follow: _,
        format: _,
    } = arguments;
    let text = |key: &str| record.get(key).and_then(Value::as_str);
    let is = |wanted: &Option<String>, key: &str| match wanted {
        Some(wanted) => text(key) == Some(wanted),
        None => true,
    };
    let is_principal = match principal {
        Some(wanted) => text("principal").is_some_and(|uid| {
            uid == wanted
                || uid
                    .split_once("::\"")
                    .is_some_and(|(_, id)| id.strip_suffix('"') == Some(wanted))
        }),
        None => true,
    };
    let is_of_table = match table {
        Some(wanted) => texts(record, "relations").iter().any(|relation| {
            relation == wanted
                || relation
                    .strip_suffix(wanted.as_str())
                    .is_some_and(|schema| schema.ends_with('.'))
        }),
        None => true,
    };
    let is_decided = match decision {
        Some(Decision::Allow) => text("decision") == Some("allow"),
        Some(Decision::Reject) => text("decision") == Some("reject"),
        None => true,
    };
    let time = record
        .get("time_ms")
        .and_then(Value::as_u64)
        .unwrap_or_default();
    is_principal
        && is(session, "session")
        && is_of_table
        && is_decided
        && since.is_none_or(|since| time >= since.ms(now))
        && until.is_none_or(|until| time <= until.ms(now))
}

/// A paragraph: when, what and how it ended; who; the statement; by what it was decided. Agents wrote some of it: what hides
/// is spelled out.
fn describe(record: &Value) -> String {
    let text = |key: &str| {
        let text = record.get(key).and_then(Value::as_str);
        text.filter(|text| !text.is_empty()).map(safe)
    };
    let number = |key: &str| record.get(key).and_then(Value::as_u64);
    let time = number("time_ms").unwrap_or_default();
    let time = moment::print_utc(Duration::from_millis(time));
    let kind = text("kind").unwrap_or_default();
    let Some(principal) = text("principal") else {
        return format!("{time}  {}\n", describe_chain(record, &kind));
    };
    let mut what = vec![match kind.as_str() {
        "statement" => "statement".to_owned(),
        "call" | "approval" => kind.clone(),
        other => format!("({other})"),
    }];
    if let Some(tool) = text("tool") {
        what.push(tool);
    }
    if let Some(template) = text("template") {
        what.push(format!("template {template}"));
    }
    if let Some(connection) = text("connection") {
        what.push(format!("on {connection}"));
    }
    let mut end = vec![match text("code") {
        Some(code) => format!("refused, {code}"),
        None if record.get("dry_run") == Some(&Value::Bool(true)) => {
            "would be permitted".to_owned()
        }
        None if kind == "statement" => match (number("affected"), number("rows")) {
            (Some(affected), _) => format!("{affected} changed"),
            (None, rows) => {
                let more = record.get("truncated") == Some(&Value::Bool(true));
                format!(
                    "rows {}{}",
                    rows.unwrap_or_default(),
                    if more { " of more" } else { "" }
                )
            }
        },
        None => text("decision").unwrap_or_default(),
    }];
    if let Some(findings @ 1..) = number("findings") {
        end.push(format!("findings {findings}"));
    }
    let took = number("duration_us").unwrap_or_default();
    end.push(format!("{}.{} ms", took / 1000, took % 1000 / 100));
    let mut out = format!("{time}  {}: {}\n", what.join(" "), end.join(", "));
    let mut who = vec![principal];
    for (label, key) in [
        ("of a change proposed by", "proposed_by"),
        ("session", "session"),
        ("client", "client"),
        ("claims to be", "claimed_client"),
        ("says it is for", "claimed_purpose"),
        ("incident", "incident"),
    ] {
        if let Some(text) = text(key) {
            who.push(format!("{label} {text}"));
        }
    }
    out.push_str(&format!("  {}\n", who.join(", ")));
    if let Some(statement) = text("statement") {
        out.push_str(&format!("  | {statement}\n"));
    }
    if let Some(detail) = text("detail") {
        out.push_str(&format!("  detail {detail}\n"));
    }
    if let Some(approval) = record
        .get("approval")
        .filter(|approval| approval.is_object())
    {
        let part = |key: &str| approval.get(key).and_then(Value::as_str).map(safe);
        let by = part("by").map_or_else(String::new, |by| format!(" by {by}"));
        out.push_str(&format!(
            "  approval {} {}{by}\n",
            part("id").unwrap_or_default(),
            part("state").unwrap_or_default()
        ));
    }
    for (label, key) in [
        ("tables", "relations"),
        ("policies", "policies"),
        ("obliged to", "obligations"),
    ] {
        let all: Vec<String> = texts(record, key).iter().map(|text| safe(text)).collect();
        if !all.is_empty() {
            out.push_str(&format!("  {label} {}\n", all.join(", ")));
        }
    }
    out
}

/// What became of the log itself.
fn describe_chain(record: &Value, kind: &str) -> String {
    let number = |key: &str| record.get(key).and_then(Value::as_u64).unwrap_or_default();
    match kind {
        "begin" => "(a file of the log begins)".to_owned(),
        "torn" => format!(
            "(half a record of {} bytes was there, as a crash leaves it)",
            number("bytes")
        ),
        "removed" => format!(
            "({} old files were removed, up to record {})",
            number("files"),
            number("through")
        ),
        other => format!("({other})"),
    }
}

/// One line of a terminal, whatever the text is.
fn safe(text: &str) -> String {
    let line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    spell_out(&line).into_owned()
}

fn texts(record: &Value, key: &str) -> Vec<String> {
    let list = record.get(key).and_then(Value::as_array);
    let texts = list.into_iter().flatten().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}
