//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use palisade::dialect::Dialect;
use palisade_scan::Sensitivity;

/// Measures the firewall on a folder of statements, attacks and texts.
///
/// Prints what share of the honest queries is permitted with equal rows, of the attacks is caught, of
/// other tools' own cases is agreed with, and of the texts is told apart; then every disagreement.
/// Disagreements are what is measured: they do not fail the run.
#[derive(Debug, Parser)]
#[command(name = "eval")]
pub(crate) struct Arguments {
    /// The folder: `benign_queries.jsonl` and its siblings, `canaries.json`, `schemas/`.
    pub(crate) dir: PathBuf,
    /// Only rows of this engine: sqlite, postgres or mysql.
    #[arg(long, value_parser = engine)]
    pub(crate) engine: Option<Dialect>,
    /// Only rows of this family (of attacks: category; of texts: tier or kind).
    #[arg(long)]
    pub(crate) family: Option<String>,
    /// Only rows whose id starts so.
    #[arg(long)]
    pub(crate) id: Option<String>,
    /// Only this part.
    #[arg(long)]
    pub(crate) only: Option<Part>,
    /// Only the first N rows of each part.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// Decide without running what was permitted.
    #[arg(long)]
    pub(crate) decisions_only: bool,
    /// Run refused queries too, on the bare engine alone: those that fail there say nothing of the firewall.
    #[arg(long)]
    pub(crate) originals: bool,
    /// Print disagreements alone.
    #[arg(long)]
    pub(crate) failures_only: bool,
    /// How to print.
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
    /// How attacks find `users.ssn` masked: `null` or `fixed(…)`.
    #[arg(long, default_value = "null", value_parser = mask)]
    pub(crate) mask: String,
    /// Attack without masks, forbids and filters: what is caught then, the policies do not catch. A check of
    /// the measure, not of the firewall.
    #[arg(long)]
    pub(crate) unprotected: bool,
    /// Milliseconds an attack may run before the limit counts as having caught it.
    #[arg(long, default_value_t = 2000, value_name = "MS")]
    pub(crate) attack_timeout: u64,
    /// Milliseconds an honest query may run, with the firewall and without.
    #[arg(long, default_value_t = 60_000, value_name = "MS")]
    pub(crate) timeout: u64,
    /// How sensitive the scan of texts is: one of strict, balanced, quiet. All three are the curve.
    #[arg(long, default_value = "balanced", value_parser = sensitivity)]
    pub(crate) sensitivity: Sensitivity,
    /// Databases worked on at a time.
    #[arg(long, default_value_t = 2, value_name = "N")]
    pub(crate) jobs: usize,
}

impl Arguments {
    /// The rows of a part that were asked for, in order.
    pub(crate) fn select_rows<T>(
        &self,
        rows: Vec<T>,
        key: impl Fn(&T) -> (Option<Dialect>, &str, &str),
    ) -> Vec<T> {
        let wanted = |row: &T| {
            let (engine, family, id) = key(row);
            self.engine
                .is_none_or(|only| engine.is_none_or(|e| e == only))
                && self.family.as_deref().is_none_or(|only| family == only)
                && self.id.as_deref().is_none_or(|only| id.starts_with(only))
        };
        rows.into_iter()
            .filter(wanted)
            .take(self.limit.unwrap_or(usize::MAX))
            .collect()
    }
}

/// The parts of an evaluation, a file each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Part {
    /// `benign_queries.jsonl`: permitted, and the rows the same.
    #[value(alias = "benign_queries.jsonl")]
    Benign,
    /// `bypass_cases.jsonl`: refused, or run without effect on what is protected.
    #[value(alias = "bypass_cases.jsonl")]
    Bypass,
    /// `peer_guard_cases.jsonl`: the verdict that another tool's own test expects.
    #[value(alias = "peer_guard_cases.jsonl")]
    Peer,
    /// `injection_texts.jsonl`: flagged.
    #[value(alias = "injection_texts.jsonl")]
    Injection,
    /// `benign_texts.jsonl`: not flagged.
    #[value(alias = "benign_texts.jsonl")]
    Texts,
}

impl Part {
    /// Every part in the order of the table.
    pub(crate) const ALL: [Self; 5] = [
        Self::Benign,
        Self::Bypass,
        Self::Peer,
        Self::Injection,
        Self::Texts,
    ];

    /// The file its rows are in.
    pub(crate) fn file(self) -> &'static str {
        match self {
            Self::Benign => "benign_queries.jsonl",
            Self::Bypass => "bypass_cases.jsonl",
            Self::Peer => "peer_guard_cases.jsonl",
            Self::Injection => "injection_texts.jsonl",
            Self::Texts => "benign_texts.jsonl",
        }
    }

    /// What a row that is judged right was, as a column's head.
    pub(crate) fn right(self) -> &'static str {
        match self {
            Self::Benign => "permitted",
            Self::Bypass => "caught",
            Self::Peer => "agreed",
            Self::Injection => "flagged",
            Self::Texts => "passed",
        }
    }
}

/// How the results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables and a list, for people.
    Text,
    /// One object, for programs.
    Json,
}

fn sensitivity(name: &str) -> Result<Sensitivity, String> {
    match name {
        "strict" => Ok(Sensitivity::Strict),
        "balanced" => Ok(Sensitivity::Balanced),
        "quiet" => Ok(Sensitivity::Quiet),
        _ => Err(format!(
            "there is no sensitivity `{name}`; there are strict, balanced and quiet"
        )),
    }
}

fn engine(name: &str) -> Result<Dialect, String> {
    Dialect::from_name(name).ok_or_else(|| format!("there is no engine `{name}`"))
}

/// A mask that shows nothing of the value; `last(4)` would show a part of a canary.
fn mask(text: &str) -> Result<String, String> {
    let fixed = text
        .strip_prefix("fixed(")
        .and_then(|rest| rest.strip_suffix(')'));
    if text == "null" || fixed.is_some_and(|f| !f.contains(['"', '\\', '\n'])) {
        Ok(text.to_owned())
    } else {
        Err("write `null` or `fixed(…)`".to_owned())
    }
}
