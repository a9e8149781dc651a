//! `palisade audit verify`: whether a log is what was written.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use palisade_host::{
    Anchor, AuditFault, AuditVerdict, audit_log_of, list_audit_files, verify_audit,
};
use serde_json::{Value, json};

use crate::{
    anchors_sent,
    args::{Format, audit::AuditVerifyArguments},
    config::audit::read_key,
    exit::{Exit, Failure},
    key_file,
    secret::Secret,
    stdout,
};

/// The files of a log, where its key is, and its anchors.
struct Log {
    files: Vec<PathBuf>,
    key: Secret,
    anchors: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(arguments: &AuditVerifyArguments) -> Result<Exit, Failure> {
    let mut exit = Exit::Permitted;
    let mut out = String::new();
    for (name, log) in logs(arguments)? {
        let anchors = log.anchors.as_deref().map(read_anchors).transpose()?;
        let (anchors, unread) = anchors.unzip();
        let key = read_key(&log.key)?;
        let verdict = verify_audit(&log.files, &key, anchors.as_deref()).map_err(|error| {
            Failure::Usage(format!(
                "cannot read the audit log `{}`: {error}",
                name.display()
            ))
        })?;
        if !verdict.faults.is_empty() {
            exit = Exit::Refused;
        }
        match arguments.format {
            Format::Text => {
                let unread = unread.unwrap_or_default();
                if unread > 0 {
                    out.push_str(&format!("note: {unread} lines of the anchors are none\n"));
                }
                if let Some(note) = anchors_sent::describe_failure(&log.files) {
                    out.push_str(&format!("note: {note}\n"));
                }
                out.push_str(&describe(&name, &verdict, anchors.is_some()));
            }
            Format::Json => {
                out.push_str(&to_json(&name, &log, &verdict, anchors.is_some()).to_string());
                out.push('\n');
            }
        }
    }
    stdout::text(&out)?;
    Ok(exit)
}

/// The logs by name. Files of one log are one, wherever they lie.
fn logs(arguments: &AuditVerifyArguments) -> Result<BTreeMap<PathBuf, Log>, Failure> {
    let mut logs: BTreeMap<PathBuf, Log> = BTreeMap::new();
    for setup in arguments.logs.logs()? {
        let Some(file) = setup.file else { continue };
        let name = audit_log_of(&file);
        // An older file that is named alone is meant alone; a log means its older files too.
        let files = if file == name {
            list_audit_files(&file).unwrap_or_default()
        } else {
            vec![file.clone()]
        };
        if files.is_empty() || !files.iter().all(|file| file.is_file()) {
            return Err(Failure::Usage(format!(
                "there is no audit log `{}`\n  help: name the file of `--audit`, or of `[audit]` in the configuration",
                file.display()
            )));
        }
        let place = PathBuf::from(name.file_name().unwrap_or_default());
        let key = match &arguments.key {
            Some(path) => Secret::File(path.clone()),
            None => setup
                .key
                .unwrap_or_else(|| Secret::File(key_file::name_key_file(&name))),
        };
        let anchors = arguments.anchors.clone().or(setup.anchors);
        let is_alone = arguments.logs.files.is_empty();
        let log = logs
            .entry(if is_alone { name } else { place })
            .or_insert_with(|| Log {
                files: Vec::new(),
                key: key.clone(),
                anchors,
            });
        // The key lies beside the newest file.
        if let (Secret::File(known), Secret::File(_)) = (&log.key, &key)
            && !known.exists()
        {
            log.key = key;
        }
        for file in files {
            if !log.files.contains(&file) {
                log.files.push(file);
            }
        }
    }
    if !arguments.logs.files.is_empty() {
        join_files(&mut logs, arguments.key.is_some());
    }
    Ok(logs)
}

/// Joins files that have no key of their own with the first log that has one: somebody else's tool renamed them. With a
/// key that is named for all, all are one log. Each file says of which chain it is.
fn join_files(logs: &mut BTreeMap<PathBuf, Log>, is_one_key: bool) {
    let has_key = |log: &Log| match &log.key {
        Secret::File(path) => path.exists(),
        Secret::Env(_) => true,
    };
    let first = logs.iter().find(|(_, log)| has_key(log));
    let Some(name) = first.map(|(name, _)| name.clone()) else {
        return;
    };
    let others: Vec<PathBuf> = (logs.iter())
        .filter(|(other, log)| **other != name && (is_one_key || !has_key(log)))
        .map(|(other, _)| other.clone())
        .collect();
    for other in others {
        if let (Some(other), Some(log)) = (logs.remove(&other), logs.get_mut(&name)) {
            log.files.extend(other.files);
        }
    }
}

/// The anchors of a file, and how many of its lines are none.
fn read_anchors(path: &Path) -> Result<(Vec<Anchor>, usize), Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::Usage(format!(
            "cannot read the anchors `{}`: {error}",
            path.display()
        ))
    })?;
    let mut unread = 0;
    let anchors = text
        .lines()
        .filter(|line| !line.is_empty())
        .filter_map(|line| {
            let anchor = line.parse().ok();
            unread += usize::from(anchor.is_none());
            anchor
        });
    let anchors = anchors.collect();
    Ok((anchors, unread))
}

fn describe(name: &Path, verdict: &AuditVerdict, is_anchored: bool) -> String {
    let mut text = String::new();
    for (kind, faults) in [("note", &verdict.notes), ("error", &verdict.faults)] {
        for AuditFault { file, line, what } in faults {
            let line = line.map_or_else(String::new, |line| format!(":{line}"));
            text.push_str(&format!("{kind}: {}{line}: {what}\n", file.display()));
        }
    }
    let shown = name.display();
    let records = match verdict.lines {
        1 => "1 line is as it was written".to_owned(),
        lines => format!("{lines} lines are as they were written"),
    };
    let anchors = match (verdict.anchors, is_anchored) {
        (_, false) => "without anchors, an end that was cut off goes unnoticed".to_owned(),
        (1, true) => "1 anchor names one of them".to_owned(),
        (anchors, true) => format!("{anchors} anchors name some of them"),
    };
    match verdict.faults.len() {
        0 => text.push_str(&format!("{shown}: {records}; {anchors}\n")),
        1 => text.push_str(&format!(
            "{shown}: it is not what was written: 1 fault; {records}\n"
        )),
        faults => text.push_str(&format!(
            "{shown}: it is not what was written: {faults} faults; {records}\n"
        )),
    }
    text
}

fn to_json(name: &Path, log: &Log, verdict: &AuditVerdict, is_anchored: bool) -> Value {
    let list = |faults: &[AuditFault]| -> Vec<Value> {
        (faults.iter())
            .map(|AuditFault { file, line, what }| {
                json!({"file": file.display().to_string(), "line": line, "what": what})
            })
            .collect()
    };
    let last = verdict.last.as_ref();
    json!({
        "log": name.display().to_string(),
        "files": log.files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>(),
        "whole": verdict.faults.is_empty(),
        "lines": verdict.lines,
        "last": last.map(|place| json!({"seq": place.seq, "mac": place.mac})),
        "chains": verdict.chains,
        "anchors": is_anchored.then_some(verdict.anchors),
        "anchor_command": anchors_sent::describe_failure(&log.files),
        "faults": list(&verdict.faults),
        "notes": list(&verdict.notes),
    })
}
