//! The configuration file. It is read only if the command line names it.

use std::path::{Path, PathBuf};

use palisade::{ident, limits::Limits, scan::Action};
use serde::Deserialize;

use crate::{
    exit::Failure,
    snippet::{Note, render},
};

/// `palisade.toml`. Every key may be left out; one that is not here is an error.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The policy folder, from the folder of the configuration file.
    pub(crate) policies: Option<PathBuf>,
    /// Who asks, `Agent::"support-bot"`.
    pub(crate) principal: Option<String>,
    /// The audit log, from the folder of the configuration file.
    pub(crate) audit: Option<PathBuf>,
    /// What becomes of a cell in which a detector finds something.
    pub(crate) on_finding: Option<OnFinding>,
    /// Limits that differ from the defaults.
    #[serde(default)]
    pub(crate) limits: Limits,
}

/// [`Action`] as it is written.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnFinding {
    /// It stays, with a note.
    Flag,
    /// Its text is replaced.
    Redact,
    /// It becomes null.
    Withhold,
    /// The whole answer is refused.
    Block,
}

impl From<OnFinding> for Action {
    fn from(value: OnFinding) -> Self {
        match value {
            OnFinding::Flag => Self::Flag,
            OnFinding::Redact => Self::Redact,
            OnFinding::Withhold => Self::Withhold,
            OnFinding::Block => Self::Block,
        }
    }
}

/// Every key, for hints.
const KEYS: &[&str] = &[
    "policies",
    "principal",
    "audit",
    "on_finding",
    "limits",
    "max_query_bytes",
    "max_nesting",
    "max_chain",
    "max_relations",
    "max_rows",
    "max_result_bytes",
    "max_cell_bytes",
    "statement_timeout_ms",
];

impl Config {
    /// Reads a file; its paths are made relative to the folder it is in.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            Failure::Configuration(format!(
                "error: cannot read the configuration `{shown}`: {error}"
            ))
        })?;
        let mut config: Self = toml::from_str(&text).map_err(|error| {
            let message = error.message();
            let help = misspelt(message).map(|close| format!("did you mean `{close}`?"));
            Failure::Configuration(
                render(&Note {
                    kind: "error",
                    message: message.split(", expected").next().unwrap_or(message),
                    file: &shown,
                    text: Some(&text),
                    span: error.span().map(|span| (span.start, span.len())),
                    help: Some(help.as_deref().unwrap_or(
                        "the keys are `policies`, `principal`, `audit`, `on_finding` and the table `[limits]`",
                    )),
                })
                .trim_end()
                .to_owned(),
            )
        })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        for relative in [&mut config.policies, &mut config.audit]
            .into_iter()
            .flatten()
        {
            *relative = folder.join(&*relative);
        }
        Ok(config)
    }
}

/// The key that was probably meant, if the parser's message is about an unknown one.
fn misspelt(message: &str) -> Option<&'static str> {
    let word = message.strip_prefix("unknown field `")?.split('`').next()?;
    ident::closest(word, KEYS.iter().copied())
}
