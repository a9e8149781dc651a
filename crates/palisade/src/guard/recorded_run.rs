//! A run that is recorded however it ends.

use crate::{
    code::Code,
    guard::{Guard, Outcome, Refusal, Report, question::Question, record::Became, run::Run},
    rejection::Rejection,
};

/// A run of the gate until it is recorded. A caller may drop the future of its request instead of waiting: then this records that,
/// spends what the run took, and counts it among failures where it may tell of hidden rows.
pub(in crate::guard) struct RecordedRun<'a> {
    guard: &'a Guard,
    question: Question<'a>,
    pub(in crate::guard) run: Run,
    is_recorded: bool,
}

impl<'a> RecordedRun<'a> {
    pub(in crate::guard) fn new(guard: &'a Guard, question: Question<'a>, run: Run) -> Self {
        Self {
            guard,
            question,
            run,
            is_recorded: false,
        }
    }

    /// Records what became of it.
    pub(in crate::guard) fn finish(mut self, outcome: &Outcome) -> (Result<(), String>, Report) {
        self.is_recorded = true;
        let recorded = self
            .guard
            .record_outcome(self.question, outcome, &mut self.run);
        (recorded, std::mem::take(&mut self.run.report))
    }
}

impl Drop for RecordedRun<'_> {
    fn drop(&mut self) {
        if self.is_recorded {
            return;
        }
        let (guard, session) = (self.guard, self.question.session);
        let now = guard.host.monotonic();
        self.run.report.duration = now.saturating_sub(self.run.start);
        guard.spend(session, None, self.run.report.duration);
        let code = match self.run.sent.is_some_and(|sent| sent.changes) {
            // It may have been kept, and its answer is lost.
            true => Code::DatabaseOutcomeUnknown,
            false => Code::LimitCancelled,
        };
        if self.run.sent.is_some_and(|sent| sent.is_counted) {
            guard.failures.count(session.principal(), now);
        }
        let why = "the caller dropped the request before its end";
        let refusal = Refusal::new(Rejection::from(code).with_operator_detail(why));
        let became = Became::Refused(&refusal);
        let text = self.question.wording.full_text();
        let record = guard.record(text, session, &became, &self.run);
        // There is no answer left to refuse. What records cannot be kept for is refused from here on.
        let _ = guard.audit.record(&record);
    }
}
