//! Records of what was asked and what became of it: fingerprints, names and counts, never literals,
//! parameters or cells.

use serde::{Serialize, Serializer};

use crate::{code::Code, policy::PolicyOrigin};

/// What a record is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordKind {
    /// A statement or a template.
    Statement,
    /// A call of a tool that runs none, or that was refused before there was one.
    Call,
    /// What a person said of a request that waits.
    Approval,
}

/// How an approval stands in a record: for the statement that needs it, or as a person's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalState {
    /// The statement waits for it.
    Pending,
    /// It let the statement run.
    Used,
    /// A person refused it, and the statement or the change with it.
    Rejected,
    /// A person gave it.
    Approved,
    /// The client did not give it, and the request goes on to wait.
    Declined,
}

/// What was decided of a statement or a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordedDecision {
    /// It was answered.
    Allow,
    /// It was refused.
    Reject,
}

/// What policies on trial would have made of a statement that was decided otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CandidateDecision {
    /// It would be refused.
    Reject,
    /// It would wait for an approval.
    Wait,
    /// It was refused, and would be allowed.
    Allow,
    /// Other masks, filters or caps would apply.
    Otherwise,
    /// The policies do not load over the database's schema.
    Unknown,
}

impl CandidateDecision {
    /// In a word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Reject => "reject",
            Self::Wait => "wait",
            Self::Allow => "allow",
            Self::Otherwise => "otherwise",
            Self::Unknown => "unknown",
        }
    }
}

impl Serialize for CandidateDecision {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// The approval that a statement waits for, or that let it run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ApprovalNote {
    /// The request's id.
    pub id: String,
    /// How it stands.
    pub state: ApprovalState,
    /// Who gave it, and how.
    pub by: Option<String>,
}

/// One statement or call, as the record keeps it. One JSON line each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditRecord {
    /// What it is of.
    pub kind: RecordKind,
    /// Milliseconds since 1970-01-01 UTC.
    pub time_ms: u64,
    /// Who asked, `Agent::"support-bot"`.
    pub principal: String,
    /// Who proposed the change that this principal looked at, and by whose policies its statement was decided. Left out where that is who
    /// asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposed_by: Option<String>,
    /// How it came.
    pub transport: &'static str,
    /// The verified identity of the client, where there is one.
    pub client: Option<String>,
    /// The name that the client gives itself: a claim that is not verified, and by which nothing was decided.
    pub claimed_client: Option<String>,
    /// What the client says that it asks for: a claim likewise.
    pub claimed_purpose: Option<String>,
    /// The id that a server gave to the client's session.
    pub session: Option<String>,
    /// The tool that was called.
    pub tool: Option<&'static str>,
    /// The W3C trace id that the client claims.
    pub trace: Option<String>,
    /// The template that was run.
    pub template: Option<String>,
    /// What the operator calls the database, where it has a name.
    pub connection: Option<String>,
    /// The statement's fingerprint.
    pub fingerprint: String,
    /// The statement without literals.
    pub statement: String,
    /// What was decided of it.
    pub decision: RecordedDecision,
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
    /// The signed bundle that these policies came in. Left out where they came in none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_bundle: Option<PolicyOrigin>,
    /// Digest of the texts of policies, classification and templates.
    pub policy_digest: String,
    /// Digest of the principals: their schema and entities.
    pub entities_digest: String,
    /// Digest of the catalog.
    pub catalog_digest: String,
    /// Ids of the determining policies.
    pub policies: Vec<String>,
    /// What they oblige to: `filter main.tickets`, `mask main.customers.email`, `max-rows 100`.
    pub obligations: Vec<String>,
    /// The approval that it waits for, or that let it run.
    pub approval: Option<ApprovalNote>,
    /// What the policies on trial would have made of it, where that is something else. Left out where it is not, and where
    /// none are on trial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate: Option<CandidateNote>,
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

/// What policies on trial would have made of a statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CandidateNote {
    /// What that is.
    pub decision: CandidateDecision,
    /// The code of the refusal.
    pub code: Option<Code>,
    /// Ids of those of them that determined it.
    pub policies: Vec<String>,
}

/// Where records go: one for each statement, handed over after it has run and before it is answered.
pub trait AuditSink: Send + Sync {
    /// Keeps `record`.
    ///
    /// # Errors
    /// A text for the operator. A statement that cannot be recorded is not answered.
    fn record(&self, record: &AuditRecord) -> Result<(), String>;

    /// Whether [`record`](Self::record) waits for nothing that can take long, such as a disk that has to confirm what was written.
    /// Then it may be called where others wait for the thread.
    fn records_at_once(&self) -> bool {
        false
    }
}

/// Keeps nothing: for tests and for embedders with records of their own.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoAudit;

impl AuditSink for NoAudit {
    fn record(&self, _: &AuditRecord) -> Result<(), String> {
        Ok(())
    }

    fn records_at_once(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ApprovalState, CandidateDecision, RecordedDecision};

    /// Records are read by other programs and by later versions of this one.
    #[test]
    fn words_on_the_disk_stay() {
        use CandidateDecision as Candidate;
        let approval = [
            ApprovalState::Pending,
            ApprovalState::Used,
            ApprovalState::Rejected,
            ApprovalState::Approved,
            ApprovalState::Declined,
        ];
        assert_eq!(
            json!(approval),
            json!(["pending", "used", "rejected", "approved", "declined"])
        );
        let decision = [RecordedDecision::Allow, RecordedDecision::Reject];
        assert_eq!(json!(decision), json!(["allow", "reject"]));
        let candidate = [
            Candidate::Reject,
            Candidate::Wait,
            Candidate::Allow,
            Candidate::Otherwise,
            Candidate::Unknown,
        ];
        assert_eq!(
            json!(candidate),
            json!(["reject", "wait", "allow", "otherwise", "unknown"])
        );
    }
}
