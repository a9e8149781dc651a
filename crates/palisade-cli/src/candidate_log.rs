//! The log's part of policies on trial: a line for each statement that they would treat otherwise.

use std::sync::Arc;

use palisade::audit::{AuditRecord, AuditSink};

/// Records, and tells the log of what a record says of policies on trial.
pub(crate) struct CandidateLog {
    sink: Arc<dyn AuditSink>,
}

impl CandidateLog {
    /// Over the sink that keeps the records.
    pub(crate) fn over(sink: Arc<dyn AuditSink>) -> Self {
        Self { sink }
    }
}

impl AuditSink for CandidateLog {
    fn record(&self, record: &AuditRecord) -> Result<(), String> {
        if let Some(note) = &record.candidate {
            tracing::warn!(
                principal = %record.principal,
                statement = %record.statement,
                decision = note.decision.word(),
                code = note.code.map(|code| code.slug()),
                policies = %note.policies.join(", "),
                "the policies on trial decide otherwise"
            );
        }
        self.sink.record(record)
    }

    fn records_at_once(&self) -> bool {
        self.sink.records_at_once()
    }
}
