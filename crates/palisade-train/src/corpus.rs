//! The texts: JSON lines in a folder outside of the project.

use std::{fs, path::Path};

use serde::Deserialize;

/// One text with its label.
#[derive(Debug, Deserialize)]
pub(crate) struct Row {
    pub(crate) text: String,
    /// `injection`, `benign` or `hard_benign`.
    pub(crate) label: String,
    pub(crate) kind: String,
    pub(crate) lang: String,
    source: Source,
    pub(crate) licence: String,
    /// `train`, or `check`: never learned from.
    #[serde(rename = "use")]
    pub(crate) purpose: String,
}

/// Where a text comes from.
#[derive(Debug, Deserialize)]
struct Source {
    repo: String,
}

/// What rows are told apart as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Group {
    /// Honest texts as databases hold them.
    Ordinary,
    /// Honest texts that tell a model, or a person, what to do.
    Prompt,
    /// Honest texts that quote or explain attacks.
    AboutAttacks,
    /// Honest texts that look like attacks: encoded, spam, tool results.
    HardBenign,
    Direct,
    Indirect,
    Obfuscated,
    OtherLanguage,
    Jailbreak,
    Subtle,
}

impl Group {
    /// What reports call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ordinary => "ordinary honest texts",
            Self::Prompt => "honest prompts and tasks",
            Self::AboutAttacks => "texts about attacks",
            Self::HardBenign => "honest texts that look like attacks",
            Self::Direct => "direct injections",
            Self::Indirect => "indirect injections",
            Self::Obfuscated => "obfuscated injections",
            Self::OtherLanguage => "injections in other languages",
            Self::Jailbreak => "jailbreaks",
            Self::Subtle => "subtle tool results",
        }
    }
}

/// Sources whose documents are about attacks on models.
const ABOUT_ATTACKS: [&str; 8] = [
    "nemo-guardrails",
    "prompt-engineering-guide",
    "deepteam",
    "llm-guard",
    "prompt-guard",
    "injection-scanner",
    "prompt-injection-detector",
    "promptwall",
];

impl Row {
    /// A text that is judged beside the corpus, and never learned from.
    pub(crate) fn judged_beside(text: String, label: &str, kind: String) -> Self {
        Self {
            text,
            label: label.to_owned(),
            kind,
            lang: "und".to_owned(),
            source: Source {
                repo: String::new(),
            },
            licence: String::new(),
            purpose: "beside".to_owned(),
        }
    }

    /// A sentence of our own. It is always learned from, and never judged.
    pub(crate) fn of_phrase(text: String, label: &str) -> Self {
        Self {
            source: Source {
                repo: crate::phrases::SOURCE.to_owned(),
            },
            purpose: "train".to_owned(),
            ..Self::judged_beside(text, label, "phrase".to_owned())
        }
    }

    /// Whether it is a sentence of our own.
    pub(crate) fn is_phrase(&self) -> bool {
        self.source.repo == crate::phrases::SOURCE
    }

    /// The texts of one source are judged by weights that were learned without it. Forks have the name of what they come from.
    pub(crate) fn source(&self) -> String {
        let name = self.source.repo.rsplit('/').next();
        name.unwrap_or_default().to_lowercase()
    }

    /// The repository that the text was found in.
    pub(crate) fn repository(&self) -> &str {
        &self.source.repo
    }

    /// What the row is told apart as, in reports and by what it counts.
    pub(crate) fn group(&self) -> Group {
        match (&*self.label, &*self.kind) {
            (_, "security_documentation") => Group::AboutAttacks,
            ("benign", _) if ABOUT_ATTACKS.contains(&&*self.source()) => Group::AboutAttacks,
            ("benign", "user_prompt" | "imperative_task_instructions") => Group::Prompt,
            ("benign", _) => Group::Ordinary,
            ("hard_benign", _) => Group::HardBenign,
            (_, "jailbreak") => Group::Jailbreak,
            (_, "indirect_subtle_tool_result") => Group::Subtle,
            (_, "obfuscated" | "adversarial_tokens") => Group::Obfuscated,
            _ if self.lang != "en" => Group::OtherLanguage,
            (_, kind) if kind.starts_with("indirect") => Group::Indirect,
            _ => Group::Direct,
        }
    }

    pub(crate) fn is_injection(&self) -> bool {
        self.label == "injection"
    }

    pub(crate) fn may_be_learned(&self) -> bool {
        self.purpose == "train"
    }
}

/// Every row of the folder.
///
/// # Errors
/// If a file cannot be read, or a line is no row.
pub(crate) fn read_rows(dir: &Path) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for name in ["injections.jsonl", "benign.jsonl"] {
        let path = dir.join(name);
        let text = fs::read_to_string(&path)
            .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        for (number, line) in text.lines().enumerate() {
            rows.push(serde_json::from_str(line).map_err(|error| {
                format!("{}:{}: not a row: {error}", path.display(), number + 1)
            })?);
        }
    }
    Ok(rows)
}
