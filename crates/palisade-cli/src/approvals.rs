//! `palisade approvals` and `palisade approve`: what waits for a person, and what the person says.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use palisade::{
    approval::BoundRequest,
    change::{ChangeEvent, ChangeRecord, ChangeState, ChangeStore},
    host::Host as _,
};
use palisade_host::Machine;
use palisade_scan::{quote_lines, spell_out};
use palisade_state::{ApprovalStore, ApproveError, OperatorKey, WaitingRequest};
use serde_json::json;

use crate::{
    args::{
        Format,
        approvals::{ApprovalsArguments, ApproveArguments, StateArguments},
    },
    config::{
        ConfigFile,
        approvals::{ApprovalSetup, STATE_FILE, STATE_LINE},
    },
    exit::{Exit, Failure},
    key_file,
    secret::Secret,
};

/// How often `--watch` looks.
const LOOK: Duration = Duration::from_millis(500);

impl StateArguments {
    /// The stores that are meant.
    fn stores(&self) -> Result<Vec<ApprovalStore>, Failure> {
        let (there, missing): (Vec<_>, Vec<_>) = self
            .setups()?
            .into_iter()
            // A file that is not named is made by the server, as its own user.
            .partition(|setup| setup.is_named() || setup.file().is_some_and(Path::exists));
        let mut stores = Vec::new();
        for setup in there {
            stores.extend(setup.open()?);
        }
        match (
            stores.is_empty(),
            missing.first().and_then(ApprovalSetup::file),
        ) {
            (false, _) => Ok(stores),
            (true, Some(path)) => Err(there_is_none(
                path,
                &format!(
                    "`palisade serve` with this configuration makes it when it starts; where it cannot write there, write {STATE_LINE}, with a folder that it can"
                ),
            )),
            (true, None) => Err(Failure::Usage(format!(
                "there is no state file\n  help: {STATE_LINE} of the configuration names one, for the server too; where the configuration names an audit log, it is beside that"
            ))),
        }
    }

    fn setups(&self) -> Result<Vec<ApprovalSetup>, Failure> {
        let (path, help) = match (&self.config, &self.state, &self.audit) {
            (Some(config), _, _) => return Ok(ConfigFile::read(config)?.approvals()),
            (None, Some(path), _) => (
                path.clone(),
                "name the file of `state` under `[approvals]`".to_owned(),
            ),
            (None, None, Some(log)) => (
                log.with_file_name(STATE_FILE),
                "`palisade serve` makes it beside its audit log when it starts".to_owned(),
            ),
            (None, None, None) => (
                PathBuf::from(STATE_FILE),
                format!(
                    "name what the server has: its configuration, `--config FILE`, or its audit log, `--audit FILE`; {STATE_LINE} names a state file"
                ),
            ),
        };
        match path.exists() {
            true => Ok(vec![ApprovalSetup::with_file(path)]),
            false => Err(there_is_none(&path, &help)),
        }
    }
}

fn there_is_none(path: &Path, help: &str) -> Failure {
    Failure::Usage(format!(
        "there is no state file `{}`\n  help: {help}",
        path.display()
    ))
}

/// Runs `palisade approvals`.
pub(crate) fn list(arguments: &ApprovalsArguments) -> Result<Exit, Failure> {
    let mut out = io::stdout().lock();
    if let Some(path) = &arguments.new_key {
        let key = OperatorKey::generate().map_err(Failure::Internal)?;
        key_file::write(path, key.reveal()).map_err(|error| {
            Failure::Usage(format!("cannot write `{}`: {error}", path.display()))
        })?;
        return writeln!(out, "operator_key = \"{}\"", key.public())
            .map(|()| Exit::Permitted)
            .map_err(|error| Failure::output(&error));
    }
    let stores = arguments.state.stores()?;
    let machine = Machine::new();
    let mut seen = Vec::new();
    loop {
        let now = machine.unix_time();
        for store in &stores {
            for record in ChangeStore::list(store, now).map_err(Failure::Internal)? {
                let waits = record.state == ChangeState::Validated
                    && record.body.approval_level().is_some();
                // What is validated anew is told anew.
                let key = format!("{} {:?}", record.id, record.body.preview_id());
                if !waits || seen.contains(&key) {
                    continue;
                }
                seen.push(key);
                let text = match arguments.format {
                    Format::Text => show_change(&record, Some(now)),
                    Format::Json => format!("{}\n", change_to_json(&record)),
                };
                out.write_all(text.as_bytes())
                    .and_then(|()| out.flush())
                    .map_err(|error| Failure::output(&error))?;
            }
            for waiting in store.list(now).map_err(Failure::Internal)? {
                if seen.contains(&waiting.id) {
                    continue;
                }
                seen.push(waiting.id.clone());
                let text = match arguments.format {
                    Format::Text => show(&waiting, now),
                    Format::Json => format!("{}\n", to_json(&waiting)),
                };
                out.write_all(text.as_bytes())
                    .and_then(|()| out.flush())
                    .map_err(|error| Failure::output(&error))?;
            }
        }
        if !arguments.watch {
            break;
        }
        std::thread::sleep(LOOK);
    }
    if seen.is_empty() && arguments.format == Format::Text {
        writeln!(out, "nothing waits").map_err(|error| Failure::output(&error))?;
    }
    Ok(Exit::Permitted)
}

/// Runs `palisade approve`.
pub(crate) fn approve(arguments: &ApproveArguments) -> Result<Exit, Failure> {
    let key = match &arguments.key_file {
        None => None,
        Some(path) => {
            let text = Secret::File(path.clone()).read()?;
            let key: OperatorKey = text
                .reveal()
                .parse()
                .map_err(|error| Failure::Usage(format!("`{}`: {error}", path.display())))?;
            Some(key)
        }
    };
    let now = Machine::new().unix_time();
    let by = name_approver(key.as_ref());
    let mut told = Err(ApproveError::Unknown(arguments.id.clone()));
    for store in arguments.state.stores()? {
        let event = match arguments.reject {
            true => ChangeEvent::Reject,
            false => ChangeEvent::Approve,
        };
        match store.decide_change((&arguments.id, event), now, &by, key.as_ref()) {
            Ok(record) => return tell_change(&record, arguments.format),
            Err(ApproveError::Unknown(_)) => {}
            Err(error) => {
                told = Err(error);
                break;
            }
        }
        told = match arguments.reject {
            true => store.reject(&arguments.id, now, &by),
            false => store.approve(&arguments.id, now, &by, key.as_ref()),
        };
        if !matches!(told, Err(ApproveError::Unknown(_))) {
            break;
        }
    }
    let request = match told {
        Ok(request) => request,
        Err(error @ ApproveError::Store(_)) => return Err(Failure::Internal(error.to_string())),
        Err(error) => {
            // There is no reader if this fails.
            let _ = writeln!(io::stderr(), "error: {error}");
            return Ok(Exit::Refused);
        }
    };
    let mut out = io::stdout().lock();
    let id = &arguments.id;
    let text = match (arguments.format, arguments.reject) {
        (Format::Json, is_rejected) => format!(
            "{}\n",
            json!({"id": id, "state": if is_rejected { "rejected" } else { "approved" }, "request": request})
        ),
        (Format::Text, true) => format!("rejected {id}\n{}", show_request(&request)),
        (Format::Text, false) => format!("approved {id}, for one run\n{}", show_request(&request)),
    };
    out.write_all(text.as_bytes())
        .map_err(|error| Failure::output(&error))?;
    Ok(Exit::Permitted)
}

/// Says what a change became.
fn tell_change(record: &ChangeRecord, format: Format) -> Result<Exit, Failure> {
    let text = match format {
        Format::Json => format!("{}\n", change_to_json(record)),
        Format::Text => format!(
            "{} {}\n{}",
            record.state.word(),
            record.id,
            show_change(record, None)
        ),
    };
    io::stdout()
        .lock()
        .write_all(text.as_bytes())
        .map_err(|error| Failure::output(&error))?;
    Ok(Exit::Permitted)
}

/// A change that waits. Its difference is not in the state file: `palisade changes show` shows it.
fn show_change(record: &ChangeRecord, now: Option<Duration>) -> String {
    let mut text = String::new();
    if let Some(now) = now {
        let left = record.expires.saturating_sub(now).as_secs().div_ceil(60);
        text.push_str(&format!("{}  a change, expires in {left} min\n", record.id));
    }
    let body = &record.body;
    let connection = match &body.connection {
        Some(connection) => format!(" on {connection}"),
        None => String::new(),
    };
    let level = body.level.as_deref().unwrap_or("none");
    text.push_str(&format!(
        "  {}{connection}, approval: {level}\n",
        body.principal
    ));
    for line in body.reason.as_deref().unwrap_or_default().lines() {
        text.push_str(&format!("  # {}\n", spell_out(line)));
    }
    for statement in &body.statements {
        for line in quote_lines(&statement.sql).lines() {
            text.push_str(&format!("  {line}\n"));
        }
        if !statement.params.is_empty() {
            text.push_str(&format!("  params {}\n", spell_out(&statement.params)));
        }
    }
    if let Some(preview) = &body.preview {
        let rows: u64 = preview.affected.iter().sum();
        let ending = if rows == 1 { "" } else { "s" };
        text.push_str(&format!("  {rows} row{ending} by its own statements\n"));
    }
    text
}

fn change_to_json(record: &ChangeRecord) -> serde_json::Value {
    json!({
        "id": record.id,
        "state": record.state,
        "created_ms": millis(record.created),
        "expires_ms": millis(record.expires),
        "change": {
            "principal": record.body.principal,
            "connection": record.body.connection,
            "statements": record.body.statements,
            "reason": record.body.reason,
            "level": record.body.level,
            "preview": record.body.preview_id(),
            "affected_rows": record.body.preview.as_ref().map(|preview| &preview.affected),
        },
        "decided_by": record.decided_by,
    })
}

/// Who approves, for records.
fn name_approver(key: Option<&OperatorKey>) -> String {
    #[cfg(unix)]
    let who = format!("uid {}", rustix::process::getuid().as_raw());
    #[cfg(not(unix))]
    let who = "the command line".to_owned();
    match key {
        Some(key) => format!("{who}, operator {}", key.public()),
        None => who,
    }
}

fn show(waiting: &WaitingRequest, now: Duration) -> String {
    let left = waiting.expires.saturating_sub(now).as_secs().div_ceil(60);
    let what = match &waiting.request {
        Some(request) => show_request(request),
        None => "  (sealed under another secret)\n".to_owned(),
    };
    format!("{}  expires in {left} min\n{what}", waiting.id)
}

/// What would run. The agent wrote it: what hides is spelled out, and each line is set in.
fn show_request(request: &BoundRequest) -> String {
    let connection = match &request.connection {
        Some(connection) => format!(" on {connection}"),
        None => String::new(),
    };
    let mut text = format!(
        "  {}{connection}, approval: {}\n",
        request.principal, request.level
    );
    if let Some(template) = &request.template {
        text.push_str(&format!("  template {template}\n"));
    }
    if let Some(change) = &request.validates {
        text.push_str(&format!(
            "  to validate the change {}: it is run and taken back, and the agent is shown what it does\n",
            spell_out(change)
        ));
    }
    for line in quote_lines(&request.sql).lines() {
        text.push_str(&format!("  {line}\n"));
    }
    if !request.params.is_empty() {
        text.push_str(&format!("  params {}\n", spell_out(&request.params)));
    }
    text
}

fn to_json(waiting: &WaitingRequest) -> serde_json::Value {
    json!({
        "id": waiting.id,
        "created_ms": millis(waiting.created),
        "expires_ms": millis(waiting.expires),
        "request": waiting.request,
    })
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
