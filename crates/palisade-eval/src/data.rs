//! The rows of the folder, as far as the evaluation uses them. Its README says what they mean.

use std::{collections::BTreeMap, fs, path::Path};

use palisade::dialect::Dialect;
use serde::{Deserialize, de::DeserializeOwned};

use crate::{args::Part, fault::Fault};

/// A real query and the schema it ran on.
#[derive(Debug, Deserialize)]
pub(crate) struct BenignQuery {
    pub(crate) id: String,
    pub(crate) engine: Dialect,
    pub(crate) schema_id: String,
    pub(crate) sql: String,
    pub(crate) family: String,
    pub(crate) realistic: bool,
    /// Whether it reads neither the engine's catalog nor through functions of the database, which a permit
    /// would have to name.
    #[serde(default = "yes")]
    pub(crate) strict_benign: bool,
    /// Whether two runs may differ.
    #[serde(default)]
    pub(crate) volatile: bool,
    /// Whether the order of the rows is part of the answer; not known of every query.
    #[serde(default)]
    pub(crate) has_order_by: Option<bool>,
}

fn yes() -> bool {
    true
}

/// An attack.
#[derive(Debug, Deserialize)]
pub(crate) struct BypassCase {
    pub(crate) id: String,
    pub(crate) engine: Dialect,
    pub(crate) category: String,
    pub(crate) sql: String,
    pub(crate) must: Must,
    pub(crate) oracle: Oracle,
}

/// What must become of an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Must {
    /// Refused.
    Deny,
    /// Refused, or run without showing what is protected.
    Neutralise,
}

impl Must {
    /// The word in the data.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Neutralise => "neutralise",
        }
    }
}

/// How success of an attack shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Oracle {
    /// A form of a secret in a cell or an error.
    Canary,
    /// Output that differs with the secret.
    Differential,
    /// That it runs at all.
    DenyOnly,
    /// That it changes something.
    NoSideEffect,
    /// Time, memory or rows beyond the limits.
    Resource,
    /// Rows of another tenant.
    Tenant,
    /// A person has to judge.
    Review,
}

/// A case of another tool's own tests.
#[derive(Debug, Deserialize)]
pub(crate) struct PeerCase {
    pub(crate) id: String,
    pub(crate) engine: Dialect,
    pub(crate) sql: String,
    pub(crate) expect: Expect,
    #[serde(default)]
    pub(crate) heuristic_only: bool,
    #[serde(default)]
    pub(crate) config_dependent: bool,
    #[serde(default)]
    pub(crate) needs_policy: bool,
}

/// The verdict a test expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Expect {
    /// Permitted.
    Allow,
    /// Refused.
    Deny,
}

/// A text that would instruct a model.
#[derive(Debug, Deserialize)]
pub(crate) struct InjectionText {
    pub(crate) id: String,
    pub(crate) text: String,
    pub(crate) tier: String,
    /// Whether its label is doubtful.
    pub(crate) label_noise: bool,
}

/// An ordinary text.
#[derive(Debug, Deserialize)]
pub(crate) struct BenignText {
    pub(crate) id: String,
    pub(crate) text: String,
    pub(crate) kind: String,
    /// Whether its label is doubtful.
    pub(crate) label_noise: bool,
}

/// The secrets of the attacked schemas.
#[derive(Debug, Deserialize)]
pub(crate) struct Canaries {
    /// Each secret with the forms that must not appear.
    pub(crate) canaries: BTreeMap<String, Vec<String>>,
    /// What stands for the numbers of `users`, in order, in the second data set.
    pub(crate) variant_b_ssn: Vec<String>,
}

/// The rows of `part`.
///
/// # Errors
/// If the file cannot be read or a line is not of its form.
pub(crate) fn rows<T: DeserializeOwned>(dir: &Path, part: Part) -> Result<Vec<T>, Fault> {
    let path = dir.join(part.file());
    let text = text(&path)?;
    text.lines()
        .zip(1..)
        .filter(|(line, _)| !line.trim().is_empty())
        .map(|(line, number)| {
            serde_json::from_str(line).map_err(|source| Fault::Form {
                path: path.clone(),
                line: number,
                source,
            })
        })
        .collect()
}

/// `canaries.json`.
///
/// # Errors
/// If it cannot be read or is not of its form.
pub(crate) fn canaries(dir: &Path) -> Result<Canaries, Fault> {
    let path = dir.join("canaries.json");
    serde_json::from_str(&text(&path)?).map_err(|source| Fault::Form {
        line: source.line(),
        path,
        source,
    })
}

/// The script that makes the database `schema`: DDL and data.
///
/// # Errors
/// If there is none.
pub(crate) fn script(dir: &Path, schema: &str) -> Result<String, Fault> {
    text(&dir.join("schemas").join(format!("{schema}.sql")))
}

fn text(path: &Path) -> Result<String, Fault> {
    fs::read_to_string(path).map_err(|source| Fault::Read {
        path: path.to_owned(),
        source,
    })
}
