//! Mutants that no case needs to notice, each with the reason.

use serde::Deserialize;
use toml::Spanned;

use crate::written::{Text, WrittenError};

/// A mutant that may survive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survivor {
    /// The id of the policy.
    pub policy: String,
    /// The change, as a report tells it.
    pub change: String,
    /// Why no case has to notice it.
    pub reason: String,
    /// File, line and column.
    pub place: String,
}

/// A survivor as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WrittenSurvivor {
    /// The id of the policy.
    policy: Spanned<String>,
    /// The change, as a report tells it.
    change: String,
    /// Why no case has to notice it.
    reason: String,
}

impl WrittenSurvivor {
    pub(crate) fn read(&self, text: &Text<'_>) -> Result<Survivor, WrittenError> {
        let place = text.place(Some(self.policy.span()));
        if self.reason.trim().is_empty() {
            return Err(WrittenError {
                place,
                case: None,
                message: "a survivor needs a reason, and this one is empty".to_owned(),
            });
        }
        Ok(Survivor {
            policy: self.policy.get_ref().clone(),
            change: self.change.clone(),
            reason: self.reason.clone(),
            place,
        })
    }
}
