//! What is recorded of statements, of other calls, and of what persons say.

use std::time::Duration;

use crate::{
    answer::Envelope,
    audit::{ApprovalNote, AuditRecord, AuditSink, RecordKind, RecordedDecision},
    code::Code,
    firewall::Firewall,
    guard::{Guard, Refusal, run::Run},
    rejection::Rejection,
    session::Session,
};

/// What a record tells of.
pub(in crate::guard) enum Became<'a> {
    /// Its answer leaves.
    Answered(&'a Envelope),
    /// It changed so many rows, as a part of a change.
    Kept(u64),
    /// It would have run.
    Untried,
    /// It was refused.
    Refused(&'a Refusal),
}

impl Guard {
    /// Records a call that ran no statement: about names, or refused before there was a statement.
    ///
    /// # Errors
    /// `internal` if it cannot be recorded. Then it is not answered.
    pub fn record_call(
        &self,
        session: &Session,
        result: Result<(), &Refusal>,
        duration: Duration,
    ) -> Result<(), Refusal> {
        self.record_call_of(self.name.as_deref(), session, result, duration)
    }

    /// Records a call that reached no database: it is of none, or was refused before one was chosen, or could not reach
    /// `connection`. The gate lends its records alone.
    ///
    /// # Errors
    /// `internal` if it cannot be recorded. Then it is not answered.
    pub fn record_call_of(
        &self,
        connection: Option<&str>,
        session: &Session,
        result: Result<(), &Refusal>,
        duration: Duration,
    ) -> Result<(), Refusal> {
        let firewall = self.firewall();
        let mut record = self.begin(RecordKind::Call, session, &firewall, duration);
        record.connection = connection.map(str::to_owned);
        if let Err(refusal) = result {
            note_refusal(&mut record, refusal);
        }
        self.keep(&record)
    }

    /// Records what a person said of a request that waits.
    pub(in crate::guard) fn record_approval(
        &self,
        session: &Session,
        note: ApprovalNote,
    ) -> Result<(), Refusal> {
        let firewall = self.firewall();
        let begun = self.begin(RecordKind::Approval, session, &firewall, Duration::ZERO);
        self.keep(&AuditRecord {
            approval: Some(note),
            ..begun
        })
    }

    fn keep(&self, record: &AuditRecord) -> Result<(), Refusal> {
        self.audit.record(record).map_err(|why| {
            let code = Code::Internal;
            self.refusal(Rejection::from(code).with_operator_detail(why))
        })
    }

    /// A record without what became of it.
    pub(in crate::guard) fn begin(
        &self,
        kind: RecordKind,
        session: &Session,
        firewall: &Firewall,
        duration: Duration,
    ) -> AuditRecord {
        let policies = firewall.policies();
        AuditRecord {
            policy_version: policies.version().to_owned(),
            policy_bundle: firewall.sources().origin.clone(),
            policy_digest: policies.texts_digest().to_owned(),
            entities_digest: policies.entities_digest().to_owned(),
            catalog_digest: firewall.catalog().version().to_owned(),
            ..blank(
                kind,
                self.host.unix_time(),
                (self.name.as_deref(), session),
                duration,
            )
        }
    }

    /// Whether records are kept at once, so that statements may be asked about where others wait for the thread.
    #[must_use]
    pub fn records_at_once(&self) -> bool {
        self.audit.records_at_once()
    }

    /// The record of a statement.
    pub(in crate::guard) fn record(
        &self,
        sql: &str,
        session: &Session,
        became: &Became<'_>,
        run: &Run,
    ) -> AuditRecord {
        let firewall = &run.live.firewall;
        let fingerprint = firewall.fingerprint(sql);
        let mut record = AuditRecord {
            fingerprint: fingerprint.id,
            statement: fingerprint.normalized,
            policies: run.report.policies.clone(),
            obligations: run.obligations.clone(),
            approval: run.approval.clone(),
            candidate: run.candidate.clone(),
            relations: run.relations.clone(),
            ..self.begin(
                RecordKind::Statement,
                session,
                firewall,
                run.report.duration,
            )
        };
        match became {
            Became::Answered(envelope) => {
                let answer = envelope.answer();
                record.rows = u64::try_from(answer.row_count()).unwrap_or(u64::MAX);
                record.affected = envelope.affected_rows();
                record.truncated = answer.truncation().is_some();
                record.findings = u64::try_from(answer.findings().len()).unwrap_or(u64::MAX);
            }
            Became::Kept(affected) => record.affected = Some(*affected),
            Became::Untried => record.dry_run = true,
            Became::Refused(refusal) => {
                record.dry_run = run.is_dry;
                note_refusal(&mut record, refusal);
            }
        }
        record
    }
}

/// A call that came before any gate was open.
#[derive(Debug, Clone, Copy)]
pub struct UnreachedCall<'a> {
    /// When it came, since 1970-01-01 UTC.
    pub at: Duration,
    /// What the operator calls the database that was meant.
    pub connection: Option<&'a str>,
    /// Whose it is.
    pub session: &'a Session,
    /// What became of it.
    pub result: Result<(), &'a Refusal>,
    /// How long it took.
    pub took: Duration,
}

/// Records a call before any gate is open: it ran no statement, and no policies decided.
///
/// # Errors
/// `internal` if it cannot be recorded. Then it is not answered.
pub fn record_unreached(audit: &dyn AuditSink, call: UnreachedCall<'_>) -> Result<(), Refusal> {
    let UnreachedCall {
        at,
        connection,
        session,
        result,
        took,
    } = call;
    let mut record = blank(RecordKind::Call, at, (connection, session), took);
    if let Err(refusal) = result {
        note_refusal(&mut record, refusal);
    }
    audit.record(&record).map_err(|why| {
        let code = Code::Internal;
        Refusal::new(Rejection::from(code).with_operator_detail(why))
    })
}

/// A record of a call that nothing decided, and of which nothing became.
fn blank(
    kind: RecordKind,
    at: Duration,
    (connection, session): (Option<&str>, &Session),
    took: Duration,
) -> AuditRecord {
    AuditRecord {
        kind,
        time_ms: u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
        principal: session.principal().to_string(),
        proposed_by: None,
        transport: session.transport().name(),
        client: session.client().map(str::to_owned),
        claimed_client: session.claims().client().map(str::to_owned),
        claimed_purpose: session.claims().purpose().map(str::to_owned),
        session: session.origin().session.clone(),
        tool: session.origin().tool,
        trace: session.origin().trace().map(str::to_owned),
        template: session.template().map(str::to_owned),
        connection: connection.map(str::to_owned),
        fingerprint: String::new(),
        statement: String::new(),
        decision: RecordedDecision::Allow,
        dry_run: false,
        code: None,
        detail: None,
        incident: None,
        policy_version: String::new(),
        policy_bundle: None,
        policy_digest: String::new(),
        entities_digest: String::new(),
        catalog_digest: String::new(),
        policies: Vec::new(),
        obligations: Vec::new(),
        approval: None,
        candidate: None,
        relations: Vec::new(),
        rows: 0,
        affected: None,
        truncated: false,
        findings: 0,
        duration_us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
    }
}

pub(in crate::guard) fn note_refusal(record: &mut AuditRecord, refusal: &Refusal) {
    let rejection = &refusal.rejection;
    record.decision = RecordedDecision::Reject;
    record.code = Some(rejection.code());
    record.incident = refusal.incident.clone();
    record.detail = rejection.recorded_detail().map(str::to_owned);
}
