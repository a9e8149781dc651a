//! Whether the command that takes anchors away did so.

use std::{path::PathBuf, time::Duration};

use palisade::moment;
use palisade_host::{AnchorsSent, audit_log_of};

/// That the last anchor of the log with these files was not taken away, and why; nothing where it was, or there is no command.
pub(crate) fn describe_failure(files: &[PathBuf]) -> Option<String> {
    let mut logs: Vec<PathBuf> = files.iter().map(|file| audit_log_of(file)).collect();
    logs.sort();
    logs.dedup();
    let sent = logs.iter().find_map(|log| AnchorsSent::read(log))?;
    let why = sent.failure?;
    let at = moment::print_utc(Duration::from_millis(sent.time_ms));
    let kept = match sent.seq {
        Some(seq) => format!("the last one that it took names record {seq}"),
        None => "it has taken none".to_owned(),
    };
    Some(format!(
        "`anchor_command` did not take the last anchor, at {at}: {why}; {kept}"
    ))
}
