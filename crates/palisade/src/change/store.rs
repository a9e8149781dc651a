//! Where changes wait, as the gate needs it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    change::{
        chain::ChainedReceipt,
        lifecycle::{ChangeEvent, ChangeState},
        receipt::Receipt,
        written::ChangeWrite,
    },
    policy::ApprovalLevel,
};

/// What a change is. A store seals it; an approval is bound to all of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeBody {
    /// Of this form.
    pub version: u32,
    /// Who proposed it, `Agent::"support-bot"`.
    pub principal: String,
    /// How it came.
    pub transport: String,
    /// The verified identity of the client.
    pub client: Option<String>,
    /// The operator's name of the database.
    pub connection: Option<String>,
    /// What it runs, in this order and in one transaction. None where it undoes a change: what it runs then is made of the images of
    /// rows that the database has.
    pub statements: Vec<ChangeStatement>,
    /// The change that it undoes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensates: Option<String>,
    /// The table that it sets back to how it was. It has no statements either: they are made of what the table's history says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverts: Option<TableRevert>,
    /// Why, in the words of who proposed it.
    pub reason: Option<String>,
    /// The tables and views that its statements read or change, as the database calls them.
    pub tables: Vec<String>,
    /// What the engine may write when it runs its statements, foreign keys included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<ChangeWrite>,
    /// Whether it sets off triggers, whose writes are not known before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sets_off: bool,
    /// Of the policies, the principals' attributes and the catalog by which it was decided.
    pub policy_version: String,
    /// The strictest approval that is demanded of its statements.
    pub level: Option<String>,
    /// Ids of the demanding policies.
    pub policies: Vec<String>,
    /// The most rows that each statement may change.
    pub max_affected_rows: u64,
    /// What it did when it was validated.
    pub preview: Option<PreviewMark>,
    /// When it began to be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<ChangeBeginning>,
    /// What is left of it, once it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Receipt>,
}

impl ChangeBody {
    /// The approval that is demanded. What is not known is the strictest.
    #[must_use]
    pub fn approval_level(&self) -> Option<ApprovalLevel> {
        let level = self.level.as_deref()?;
        Some(ApprovalLevel::parse(level).unwrap_or(ApprovalLevel::Operator))
    }

    /// The id of its preview.
    #[must_use]
    pub fn preview_id(&self) -> Option<&str> {
        self.preview.as_ref().map(|preview| preview.id.as_str())
    }
}

/// A table that is set back to how it was at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableRevert {
    /// The table, as the database calls it.
    pub table: String,
    /// The [label](crate::past::Label) of the moment.
    pub label: String,
    /// The snapshot's name, if the moment has one.
    pub snapshot: Option<String>,
    /// When the label was taken, UTC.
    pub taken: String,
}

/// The beginning of an attempt to keep a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeBeginning {
    /// When, in milliseconds since 1970-01-01 UTC.
    pub at_ms: u64,
    /// Whether the database had a table of receipts: then what is not there was not kept.
    pub has_ledger: bool,
}

/// A statement of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeStatement {
    /// As it came.
    pub sql: String,
    /// Its parameters as JSON; empty where there are none.
    pub params: String,
}

/// What a validation found. It holds no value of a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreviewMark {
    /// Its id: another validation has another.
    pub id: String,
    /// A digest of the difference under the store's key.
    pub digest: String,
    /// Schema, table and column of values that are made anew each time, and do not bind.
    pub generated: Vec<(String, String, String)>,
    /// How many rows each statement changed.
    pub affected: Vec<u64>,
}

/// A change in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeRecord {
    /// Its id.
    pub id: String,
    /// Where it stands.
    pub state: ChangeState,
    /// When it was proposed, since 1970-01-01 UTC.
    pub created: Duration,
    /// When it expires.
    pub expires: Duration,
    /// What it is.
    pub body: ChangeBody,
    /// Who approved or rejected it, and how.
    pub decided_by: Option<String>,
}

/// A step of a change. It is taken in one transaction, or not at all.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// Of which change.
    pub id: &'a str,
    /// What happens.
    pub event: ChangeEvent,
    /// The preview that whoever takes the step has looked at. If the change has another by now, the step is not taken.
    pub preview: Option<&'a str>,
    /// What the change is from now on; as before where there is none.
    pub body: Option<&'a ChangeBody>,
    /// Who approves or rejects.
    pub by: Option<&'a str>,
    /// Since 1970-01-01 UTC.
    pub now: Duration,
}

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stepped {
    /// It was taken: the change as it is now.
    Taken(Box<ChangeRecord>),
    /// It cannot be taken from this state.
    WrongState(ChangeState),
    /// What was looked at is another preview than the change has.
    OtherPreview,
    /// There is no such change.
    Unknown,
}

/// Where changes wait.
pub trait ChangeStore: Send + Sync {
    /// A number that is another one once anything was written, by whoever.
    ///
    /// # Errors
    /// A text for the operator.
    fn read_version(&self) -> Result<u64, String>;

    /// Keeps a new change. None if as many of the principal's wait as may.
    ///
    /// # Errors
    /// A text for the operator.
    fn propose(&self, body: &ChangeBody, now: Duration) -> Result<Option<ChangeRecord>, String>;

    /// The change called `id`, as it stands at `now`.
    ///
    /// # Errors
    /// A text for the operator.
    fn find(&self, id: &str, now: Duration) -> Result<Option<ChangeRecord>, String>;

    /// All changes that are not forgotten, newest first.
    ///
    /// # Errors
    /// A text for the operator.
    fn list(&self, now: Duration) -> Result<Vec<ChangeRecord>, String>;

    /// Takes a step. Of several that take the same, one is first. With a change that is kept, the change that it
    /// [compensates](ChangeBody::compensates) takes its step as well. An approval that an operator must have signed and did not is none.
    ///
    /// # Errors
    /// A text for the operator. Nothing changed.
    fn step(&self, step: Step<'_>) -> Result<Stepped, String>;

    /// Notes, before a change is kept, by which marks the rows that it makes different are found again. They count once it is kept, with
    /// the receipt that is chained then.
    ///
    /// # Errors
    /// A text for the operator.
    fn hold_rows(&self, change: &str, marks: &[String]) -> Result<(), String>;

    /// All receipts of changes that were kept, newest first.
    ///
    /// # Errors
    /// A text for the operator; if one cannot be read.
    fn list_receipts(&self) -> Result<Vec<ChainedReceipt>, String>;

    /// The numbers of the receipts that are about the row with this mark.
    ///
    /// # Errors
    /// A text for the operator.
    fn trace_row(&self, mark: &str) -> Result<Vec<u64>, String>;

    /// The digest of `text` under the store's key, in hexadecimal digits. Without the key it tells nothing of the text.
    fn digest(&self, text: &str) -> String;

    /// An id that cannot be guessed.
    ///
    /// # Errors
    /// If the machine has no random bytes.
    fn new_id(&self) -> Result<String, String>;

    /// Why an operator cannot approve anything here, if so.
    fn lacks_operator(&self) -> Option<&'static str>;
}
