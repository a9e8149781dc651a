//! One statement on its way through the gate.

use std::{sync::Arc, time::Duration};

use crate::{
    answer::Room,
    approval::PendingApproval,
    audit::{ApprovalNote, CandidateNote},
    guard::{Backend, Cancel, GateStage, Report, StageTime, live::Live},
};

/// A statement that the database was given.
#[derive(Clone, Copy)]
pub(in crate::guard) struct Sent {
    /// Whether it may have changed anything by now.
    pub(in crate::guard) changes: bool,
    /// Whether its end counts among failures, unless it gave an answer.
    pub(in crate::guard) is_counted: bool,
}

/// One statement on its way.
pub(in crate::guard) struct Run {
    /// By what it is decided and where it runs.
    pub(in crate::guard) live: Arc<Live<dyn Backend>>,
    /// When it was asked for.
    pub(in crate::guard) start: Duration,
    /// Whether it may change anything.
    pub(in crate::guard) allows_changes: bool,
    /// Whether it is sent again if it runs out of time.
    pub(in crate::guard) is_trial: bool,
    /// How much of the answer a model is given.
    pub(in crate::guard) room: Option<Room>,
    /// Whether anybody waits for it.
    pub(in crate::guard) cancel: Cancel,
    /// Whether it is only decided about.
    pub(in crate::guard) is_dry: bool,
    /// What of it the database was given.
    pub(in crate::guard) sent: Option<Sent>,
    pub(in crate::guard) report: Report,
    pub(in crate::guard) relations: Vec<String>,
    pub(in crate::guard) obligations: Vec<String>,
    /// What is recorded of an approval.
    pub(in crate::guard) approval: Option<ApprovalNote>,
    /// The request that waits for a person.
    pub(in crate::guard) pending: Option<PendingApproval>,
    /// What the policies on trial would have made of it, where that is something else.
    pub(in crate::guard) candidate: Option<CandidateNote>,
}

impl Run {
    pub(in crate::guard) fn new(
        live: Arc<Live<dyn Backend>>,
        allows_changes: bool,
        start: Duration,
    ) -> Self {
        Self {
            live,
            start,
            allows_changes,
            is_trial: false,
            room: None,
            cancel: Cancel::default(),
            is_dry: false,
            sent: None,
            report: Report::default(),
            relations: Vec::new(),
            obligations: Vec::new(),
            approval: None,
            pending: None,
            candidate: None,
        }
    }

    /// Notes a stage from `began` to `ended`, by the host's clock.
    pub(in crate::guard) fn note_stage(
        &mut self,
        stage: GateStage,
        began: Duration,
        ended: Duration,
    ) {
        self.report.stages.push(StageTime {
            stage,
            start: began.saturating_sub(self.start),
            time: ended.saturating_sub(began),
        });
    }
}
