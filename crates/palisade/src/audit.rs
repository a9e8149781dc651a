//! Records of what was asked and what became of it: fingerprints, names and counts, never literals,
//! parameters or cells.

use serde::Serialize;

use crate::code::Code;

/// One statement, as the record keeps it. One JSON line each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditRecord {
    /// Milliseconds since 1970-01-01 UTC.
    pub time_ms: u64,
    /// Who asked, `Agent::"support-bot"`.
    pub principal: String,
    /// How it came.
    pub transport: &'static str,
    /// The verified identity of the client, where there is one.
    pub client: Option<String>,
    /// The name that the client gives itself: a claim that is not verified, and by which nothing was decided.
    pub claimed_client: Option<String>,
    /// What the client says that it asks for: a claim likewise.
    pub claimed_purpose: Option<String>,
    /// The template that was run.
    pub template: Option<String>,
    /// What the operator calls the database, where it has a name.
    pub connection: Option<String>,
    /// The statement's fingerprint.
    pub fingerprint: String,
    /// The statement without literals.
    pub statement: String,
    /// `allow` or `reject`.
    pub decision: &'static str,
    /// Whether it was only decided about, and would not have run. Left out where it is not so.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// The refusal's code.
    pub code: Option<Code>,
    /// What only the operator may read of a refusal.
    pub detail: Option<String>,
    /// Incident id given to the agent, where the fault was ours.
    pub incident: Option<String>,
    /// Digest of the policies, the principals and the catalog by which it was decided.
    pub policy_version: String,
    /// Ids of the determining policies.
    pub policies: Vec<String>,
    /// Uids of the relations read or changed.
    pub relations: Vec<String>,
    /// Rows that left.
    pub rows: u64,
    /// Rows that were changed; none for a statement that reads.
    pub affected: Option<u64>,
    /// Whether there were more.
    pub truncated: bool,
    /// Findings of the scan.
    pub findings: u64,
    /// Microseconds from the text to the answer.
    pub duration_us: u64,
}

/// Where records go: one for each statement, handed over after it has run and before it is answered.
pub trait AuditSink: Send + Sync {
    /// Keeps `record`.
    ///
    /// # Errors
    /// A text for the operator. A statement that cannot be recorded is not answered.
    fn record(&self, record: &AuditRecord) -> Result<(), String>;
}

/// Keeps nothing: for tests and for embedders with records of their own.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoAudit;

impl AuditSink for NoAudit {
    fn record(&self, _: &AuditRecord) -> Result<(), String> {
        Ok(())
    }
}
