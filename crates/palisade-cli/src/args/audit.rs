//! The command line of audit logs.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use palisade::moment;
use palisade_host::audit_log_of;

use crate::{
    args::Format,
    config::{ConfigFile, audit::AuditSetup},
    exit::Failure,
};

pub(crate) const AUDIT_VERIFY_HELP: &str = "\
A log's older files, FILE.000001 and on, are read with it. It finds an edit, a
missing, repeated or misplaced record and, with anchors, an end that was cut
off. Exit code 1: it is not what was written.

Examples (of a log that `--audit audit.jsonl` wrote):
  palisade audit verify audit.jsonl
  palisade audit verify audit.jsonl --anchors anchors.jsonl
  palisade audit verify --config palisade.toml --format json";

pub(crate) const AUDIT_SHOW_HELP: &str = "\
Records are shown as they are there: `palisade audit verify` tells whether they
are what was written. Without the options that choose, all are shown.

Examples (of a log that `--audit audit.jsonl` wrote):
  palisade audit show audit.jsonl
  palisade audit show audit.jsonl --decision reject --since 24h
  palisade audit show audit.jsonl --table customers --format json
  palisade audit show --config palisade.toml --session 5f0c2a9be1d34c71";

/// Which logs are meant.
#[derive(Debug, Args)]
pub(crate) struct LogArguments {
    /// The logs, or older files of them
    #[arg(value_name = "FILE", required_unless_present = "config")]
    pub(crate) files: Vec<PathBuf>,
    /// The configuration, whose logs are meant if no file is given
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// `palisade audit verify`
#[derive(Debug, Args)]
pub(crate) struct AuditVerifyArguments {
    #[command(flatten)]
    pub(crate) logs: LogArguments,
    /// The key of the chain; FILE.key beside the log if not given
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// Anchors that were kept
    #[arg(long, value_name = "FILE")]
    pub(crate) anchors: Option<PathBuf>,
    /// How to print what is found
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
}

/// A decision, as records have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Decision {
    /// What was answered
    Allow,
    /// What was refused
    Reject,
}

/// `palisade audit show`
#[derive(Debug, Args)]
pub(crate) struct AuditShowArguments {
    #[command(flatten)]
    pub(crate) logs: LogArguments,
    /// Of this principal: `Agent::"support-bot"`, or its id alone
    #[arg(long, value_name = "PRINCIPAL")]
    pub(crate) principal: Option<String>,
    /// Of this session: what it did, in order
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// That read or changed this table, with its schema or without
    #[arg(long, value_name = "TABLE")]
    pub(crate) table: Option<String>,
    /// That were decided so
    #[arg(long, value_enum)]
    pub(crate) decision: Option<Decision>,
    /// From this time on: `2026-09-20T12:00:00Z`, or `30m`, `24h`, `7d` ago
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) since: Option<Time>,
    /// Up to this time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) until: Option<Time>,
    /// Go on, and show each new record as it comes
    #[arg(long)]
    pub(crate) follow: bool,
    /// How to show records
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
}

/// A point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Time {
    /// Since 1970.
    At(Duration),
    /// Before now.
    Ago(Duration),
}

impl Time {
    /// Milliseconds since 1970.
    pub(crate) fn ms(self, now: Duration) -> u64 {
        let time = match self {
            Self::At(time) => time,
            Self::Ago(before) => now.saturating_sub(before),
        };
        u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
    }
}

fn parse_time(text: &str) -> Result<Time, String> {
    if let Some(time) = moment::since_1970(text) {
        return Ok(Time::At(time));
    }
    let unit = |end: char| Some((text.strip_suffix(end)?.parse::<u32>().ok()?, end));
    let (number, seconds) = match unit('m').or_else(|| unit('h')).or_else(|| unit('d')) {
        Some((number, 'm')) => (number, 60),
        Some((number, 'h')) => (number, 60 * 60),
        Some((number, _)) => (number, 24 * 60 * 60),
        None => {
            return Err(
                "write `2026-09-20T12:00:00Z`, or how long ago: `30m`, `24h`, `7d`".to_owned(),
            );
        }
    };
    Ok(Time::Ago(Duration::from_secs(u64::from(number) * seconds)))
}

impl LogArguments {
    /// The logs that are meant, each once, with what the configuration says of them.
    pub(crate) fn logs(&self) -> Result<Vec<AuditSetup>, Failure> {
        let configured = match &self.config {
            Some(path) => ConfigFile::read(path)?.audits(),
            None => Vec::new(),
        };
        if self.files.is_empty() {
            return match configured.is_empty() {
                false => Ok(configured),
                true => Err(Failure::Usage(
                    "the configuration names no audit log\n  help: name the log's file".to_owned(),
                )),
            };
        }
        let mut logs: Vec<AuditSetup> = Vec::new();
        for file in &self.files {
            let log = audit_log_of(file);
            let known = configured
                .iter()
                .find(|setup| setup.file.as_ref() == Some(&log));
            logs.push(AuditSetup {
                file: Some(file.clone()),
                ..known.cloned().unwrap_or_default()
            });
        }
        Ok(logs)
    }
}
