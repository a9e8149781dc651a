//! Calls that give something and run no statement of the caller's: of the past, of changes and of receipts. They count for budgets and
//! are recorded as statements are.

use std::time::Duration;

use crate::{
    answer::Envelope,
    audit::{AuditRecord, RecordKind},
    guard::{Guard, Refusal, Spending, record::note_refusal, run::Run},
    rejection::Rejection,
    rewrite::RewrittenStatement,
    session::Session,
};

/// What a call gives, as far as it counts.
#[derive(Clone, Copy)]
pub(in crate::guard) enum Given<'a> {
    /// Scanned rows.
    Rows(&'a Envelope),
    /// So many entries of a list, none of which has cells of a table.
    Entries(usize),
}

impl Given<'_> {
    /// Rows, and cells of them. An entry is one of each.
    fn count(self) -> (u64, u64) {
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        match self {
            Self::Rows(envelope) => {
                let answer = envelope.answer();
                let rows = count(answer.row_count());
                (rows, rows.saturating_mul(count(answer.columns().len())))
            }
            Self::Entries(entries) => (count(entries), count(entries)),
        }
    }

    fn note(self, record: &mut AuditRecord) {
        let (rows, _) = self.count();
        record.rows = rows;
        if let Self::Rows(envelope) = self {
            let answer = envelope.answer();
            record.truncated = answer.truncation().is_some();
            record.findings = u64::try_from(answer.findings().len()).unwrap_or(u64::MAX);
        }
    }
}

/// What is given of a call's result.
pub(in crate::guard) trait Reading {
    /// It, as far as it counts.
    fn as_given(&self) -> Given<'_>;
}

impl Run {
    /// Notes a query by which a call reads rows: what it reads, and by which policies.
    pub(in crate::guard) fn note_look(&mut self, statement: &RewrittenStatement) {
        let lists = [
            (&mut self.relations, statement.relations()),
            (&mut self.report.policies, statement.policies()),
            (&mut self.obligations, statement.obligations()),
        ];
        for (known, new) in lists {
            for one in new {
                if !known.contains(one) {
                    known.push(one.clone());
                }
            }
        }
    }
}

impl Guard {
    /// Counts what a statement of `session` took, and gave by `envelope`.
    pub(in crate::guard) fn spend(
        &self,
        session: &Session,
        envelope: Option<&Envelope>,
        time: Duration,
    ) {
        self.spend_reading(session, envelope.map(Given::Rows), time);
    }

    /// A call that begins now.
    pub(in crate::guard) fn begin_reading(&self) -> Run {
        Run::new(self.current.get(), false, self.host.monotonic())
    }

    /// Counts a call of `session` as a statement.
    ///
    /// # Errors
    /// `limit.budget`.
    pub(in crate::guard) fn admit_reading(
        &self,
        session: &Session,
        run: &Run,
    ) -> Result<(), Rejection> {
        (self.budgets.as_ref()).map_or(Ok(()), |budgets| {
            budgets.admit(session.principal(), run.start)
        })
    }

    /// Counts what a call gave and took, and records it under the name of its tool, which other doors give no name. What is not recorded is
    /// not answered.
    pub(in crate::guard) fn end_reading<R: Reading>(
        &self,
        (tool, session): (&'static str, &Session),
        mut run: Run,
        result: Result<R, Rejection>,
    ) -> Result<R, Refusal> {
        run.report.duration = self.host.monotonic().saturating_sub(run.start);
        let took = run.report.duration;
        self.record_reading((tool, session), &run, took, result)
    }

    /// As [`end_reading`](Self::end_reading), of a call whose statements are counted and recorded by themselves: only what it gave counts.
    pub(in crate::guard) fn end_looking<R: Reading>(
        &self,
        (tool, session): (&'static str, &Session),
        mut run: Run,
        result: Result<R, Rejection>,
    ) -> Result<R, Refusal> {
        run.report.duration = self.host.monotonic().saturating_sub(run.start);
        self.record_reading((tool, session), &run, Duration::ZERO, result)
    }

    fn record_reading<R: Reading>(
        &self,
        (tool, session): (&'static str, &Session),
        run: &Run,
        time: Duration,
        result: Result<R, Rejection>,
    ) -> Result<R, Refusal> {
        self.spend_reading(session, result.as_ref().ok().map(R::as_given), time);
        let result = result.map_err(|rejection| {
            let policies = rejection.policies().to_vec();
            let pending = run.pending.clone().map(Box::new);
            let refusal = Refusal {
                pending,
                ..self.refusal(rejection)
            };
            (refusal, policies)
        });
        let begun = self.begin(
            RecordKind::Call,
            session,
            &run.live.firewall,
            run.report.duration,
        );
        let mut record = AuditRecord {
            policies: run.report.policies.clone(),
            obligations: run.obligations.clone(),
            relations: run.relations.clone(),
            approval: run.approval.clone(),
            tool: begun.tool.or(Some(tool)),
            ..begun
        };
        match &result {
            Ok(given) => given.as_given().note(&mut record),
            Err((refusal, policies)) => {
                if !policies.is_empty() {
                    record.policies.clone_from(policies);
                }
                note_refusal(&mut record, refusal);
            }
        }
        if let Err(why) = self.audit.record(&record) {
            return Err(self.refusal(Rejection::internal(why)));
        }
        result.map_err(|(refusal, _)| refusal)
    }

    /// Counts what `session` was given beside the answer of a statement, and how long that took.
    pub(in crate::guard) fn spend_reading(
        &self,
        session: &Session,
        given: Option<Given<'_>>,
        time: Duration,
    ) {
        let Some(budgets) = &self.budgets else { return };
        let (rows, cells) = given.map_or((0, 0), Given::count);
        let taken = Spending {
            statements: 0,
            rows,
            cells,
            time,
        };
        budgets.spend(session.principal(), taken, self.host.monotonic());
    }
}
