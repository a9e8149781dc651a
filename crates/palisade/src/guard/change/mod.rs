//! Changes in steps: proposed, validated, approved, committed. Each statement is decided, checked and run as `execute` does it.

mod compensation;
mod decision;
mod history_list;
mod ledger;
mod outside;
mod past_difference;
mod preview;
mod read_approval;
mod referring;
mod rehearsal;
mod revert;
mod undo_refusal;
mod verbs;
mod viewer;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::Serialize;

pub use history_list::{PastHistory, PastRows};
pub use ledger::{LedgerFault, ReceiptView, TracedRow};
pub use past_difference::{Moments, PastDifference};
pub use preview::{ChangedRows, Preview, RowCounts};
pub use rehearsal::{
    BeforeAndAfter, ChangeEnd, ChangeOrder, ChangeRun, Expectation, Lens, Purpose, Traces,
};

use decision::Decision;
use preview::{Scanning, SessionLens};
use read_approval::Rehearsable;
use undo_refusal::{hide_failure, hide_refusal};
use viewer::{Asking, ViewerStanding, list_touched, withhold_reason};

use crate::{
    answer::{AsOf, Marker, Room},
    approval::spell_params,
    audit::AuditRecord,
    change::{
        ChangeBody, ChangeEvent, ChangeRecord, ChangeState, ChangeStatement, ChangeStore,
        ChangeWrite, Difference, GeneratedColumns, Inverse, PreviewMark, Receipt, TableRevert,
        WrongState, apply, images_text, write_images,
    },
    code::Code,
    guard::{
        Backend, BackendError, BackendErrorKind, Cancel, Guard,
        backend_error::describe_failure,
        live::Live,
        question::Question,
        reading::{Given, Reading},
        record::Became,
        run::Run,
        ticket::Ticket,
    },
    limits::Limits,
    policy::ApprovalLevel,
    rejection::Rejection,
    rewrite::{Effect, RewrittenStatement},
    session::{Principal, Session, Transport},
    value::Params,
};

/// The most statements of one change.
pub const MAX_CHANGE_STATEMENTS: usize = 100;

/// Milliseconds that a change may take that is taken back.
const PREVIEW_MS: u64 = 5_000;

/// How a call about changes is answered.
#[derive(Debug, Clone, Copy)]
pub struct ChangeCall<'a> {
    /// Who asks.
    pub session: &'a Session,
    /// Limits that are lower than the firewall's own.
    pub limits: Option<&'a Limits>,
    /// How much of a preview a model is given.
    pub room: Option<Room>,
    /// Whether anybody waits for it.
    pub cancel: Option<&'a Cancel>,
}

impl<'a> ChangeCall<'a> {
    /// A call of `session`.
    #[must_use]
    pub fn new(session: &'a Session) -> Self {
        Self {
            session,
            limits: None,
            room: None,
            cancel: None,
        }
    }
}

/// A change that is to be proposed.
#[derive(Debug, Clone, Copy)]
pub struct ChangeProposal<'a> {
    /// What it runs, in this order.
    pub statements: &'a [(String, Params)],
    /// Why, in the words of who proposes it.
    pub reason: Option<&'a str>,
    /// The most rows that each statement may change; without it, the limits alone say.
    pub max_affected_rows: Option<u64>,
}

impl<'a> ChangeProposal<'a> {
    /// These statements, without a reason.
    #[must_use]
    pub fn new(statements: &'a [(String, Params)]) -> Self {
        Self {
            statements,
            reason: None,
            max_affected_rows: None,
        }
    }
}

/// A change, as whoever asks may know of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangeView {
    /// Its id.
    pub change: String,
    /// Where it stands.
    pub state: ChangeState,
    /// Who proposed it.
    pub proposed_by: String,
    /// Why, in the words of who proposed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What it runs. Empty where it undoes a change: what that takes may be more than who proposed it may see.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub statements: Vec<String>,
    /// The change that it undoes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compensates: Option<String>,
    /// The table that it sets back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reverts: Option<RevertView>,
    /// Whether one of them holds text that would instruct a model that looks at it. A reason that does is left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub instructs: bool,
    /// Whose approval it needs: `required` or `operator`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// Who is to approve it, and how, while it waits for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// Who approved or rejected it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// The id of what it does; an approval names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
    /// How many rows each statement changed when it was validated; of a change that undoes one, how many all did. For its proposer, and for
    /// whoever sees all rows of its tables, and all columns plain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affected_rows: Option<Vec<u64>>,
    /// Milliseconds since 1970-01-01 UTC.
    pub expires_ms: u64,
    /// What is left of it, once it was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Receipt>,
    /// The tools that make sense now.
    pub next_valid_actions: Vec<&'static str>,
}

/// A table that is set back, as whoever asks may know of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RevertView {
    /// The table.
    pub table: String,
    /// To how it was then.
    pub to: AsOf,
}

/// A change and what it does.
#[derive(Debug)]
pub struct PreviewedChange {
    /// The change.
    pub view: ChangeView,
    /// What it does, where it was run.
    pub preview: Option<Preview>,
    /// Whether that is what it did when it was validated. If not, it has to be validated again.
    pub is_as_validated: bool,
}

impl Reading for PreviewedChange {
    fn as_given(&self) -> Given<'_> {
        match &self.preview {
            Some(preview) => Given::Rows(&preview.rows),
            None => Given::Entries(1),
        }
    }
}

impl Reading for Vec<ChangeView> {
    fn as_given(&self) -> Given<'_> {
        Given::Entries(self.len())
    }
}

/// Who looks at a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Who proposed it.
    Proposer,
    /// Somebody who may approve.
    Approver,
}

/// What a difference has to be for a change to be kept.
struct CommitExpectation {
    store: Arc<dyn ChangeStore>,
    live: Arc<Live<dyn Backend>>,
    generated: GeneratedColumns,
    /// Digest of the difference that was looked at.
    digest: String,
    /// The change that it undoes.
    inverse: Option<Arc<Inverse>>,
    /// The change's id and the start of its receipt, where it is to be kept.
    begun_receipt: Option<(String, Receipt)>,
    /// The receipt as it was written.
    written_receipt: Mutex<Option<Receipt>>,
}

impl CommitExpectation {
    /// The receipt of what was kept.
    fn take_receipt(&self) -> Option<Receipt> {
        self.lock_receipt().take()
    }

    fn lock_receipt(&self) -> MutexGuard<'_, Option<Receipt>> {
        let receipt = self.written_receipt.lock();
        receipt.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Expectation for CommitExpectation {
    fn is_met(&self, difference: &Difference) -> bool {
        let catalog = self.live.firewall.catalog();
        let text = difference.binding_text(catalog, &self.generated);
        let is_inverse = |inverse: &Arc<Inverse>| {
            let others = inverse.find_other_rows(difference, catalog);
            others.is_empty()
        };
        self.store.digest(&text) == self.digest && self.inverse.as_ref().is_none_or(is_inverse)
    }

    fn leave(&self, run: &ChangeRun) -> Result<Option<Traces>, BackendError> {
        let Some((id, receipt)) = self.begun_receipt.as_ref() else {
            return Ok(None);
        };
        let unnoted = |why: String| {
            BackendError::new(
                BackendErrorKind::Unavailable,
                format!("a receipt cannot be noted: {why}"),
            )
        };
        let catalog = self.live.firewall.catalog();
        let rows = run.difference.row_texts(catalog);
        let marks: Vec<String> = rows.iter().map(|row| self.store.digest(row)).collect();
        self.store.hold_rows(id, &marks).map_err(unnoted)?;
        let images = write_images(&run.difference, catalog);
        let receipt = Receipt {
            keys: self.store.digest(&run.difference.key_text(catalog)),
            tables: run.difference.count_by_table(),
            images: self.store.digest(&images_text(&images)),
            ..receipt.clone()
        };
        let kept_ms = receipt.kept_ms;
        let text = serde_json::to_string(&receipt).map_err(|error| unnoted(error.to_string()))?;
        *self.lock_receipt() = Some(receipt);
        Ok(Some(Traces {
            change: id.clone(),
            receipt: text,
            kept_ms,
            images,
        }))
    }
}

impl Guard {
    /// Where changes wait. Without it, none is proposed.
    #[must_use]
    pub fn with_changes(self, changes: Arc<dyn ChangeStore>) -> Self {
        Self {
            changes: Some(changes),
            ..self
        }
    }

    /// Whether changes can be proposed here, and looked at before they are kept.
    #[must_use]
    pub fn keeps_changes(&self) -> bool {
        self.changes.is_some() && self.current.get().backend.previews_changes()
    }

    fn change_store(&self) -> Result<&Arc<dyn ChangeStore>, Rejection> {
        self.changes.as_ref().ok_or_else(|| {
            Rejection::new(Code::ChangeUnknown, "no changes are kept here; use execute")
        })
    }

    /// The change called `id`, if it exists for `session` here.
    fn find_change(&self, id: &str, session: &Session) -> Result<(ChangeRecord, Role), Rejection> {
        let store = self.change_store()?;
        let record = store.find(id, self.host.unix_time());
        let record = record.map_err(Rejection::internal)?;
        let known = record.and_then(|record| {
            let role = self.role(&record.body, session)?;
            Some((record, role))
        });
        known.ok_or_else(|| Rejection::from(Code::ChangeUnknown))
    }

    fn role(&self, body: &ChangeBody, session: &Session) -> Option<Role> {
        if body.connection.as_deref() != self.name.as_deref() {
            return None;
        }
        if body.principal == session.principal().to_string() {
            return Some(Role::Proposer);
        }
        self.may_approve(&body.tables, session)
            .then_some(Role::Approver)
    }

    /// Whether `session` may approve changes that read or write all of these tables.
    fn may_approve(&self, tables: &[String], session: &Session) -> bool {
        let firewall = self.firewall();
        let session = self.now(&firewall, session);
        let view = firewall.policies().session(&session);
        let may_approve = |name: &String| {
            let relation = firewall
                .catalog()
                .relations()
                .iter()
                .find(|one| one.database_name() == *name);
            relation.is_some_and(|relation| {
                let decided = view.decide_approval(relation.id);
                decided.is_ok_and(|(is_permitted, _)| is_permitted)
            })
        };
        !tables.is_empty() && tables.iter().all(may_approve)
    }

    /// Decides about the statements of a change as its proposer's, for whoever asks.
    async fn decide_change(
        &self,
        body: &ChangeBody,
        asking: Asking<'_>,
        limits: Option<&Limits>,
        is_dry: bool,
    ) -> Result<Vec<Decision>, Rejection> {
        let decided = self.decide_statements(body, asking, limits, is_dry).await;
        // Names that it has to do with may be hidden from others, whatever they see of its rows.
        decided.map_err(|rejection| match asking.is_own() {
            true => rejection,
            false => withhold_reason(rejection),
        })
    }

    async fn decide_statements(
        &self,
        body: &ChangeBody,
        asking: Asking<'_>,
        limits: Option<&Limits>,
        is_dry: bool,
    ) -> Result<Vec<Decision>, Rejection> {
        let statements = self.read_statements(body, asking.proposer()).await?;
        let mut decisions = Vec::with_capacity(statements.list.len());
        for (sql, params) in statements.list {
            let start = self.host.monotonic();
            // What was looked at and approved is kept, whatever is left. To undo a change is one thing to do.
            let is_first = statements.inverse.is_none() || decisions.is_empty();
            if let (true, true, Some(budgets)) = (is_dry, is_first, &self.budgets) {
                budgets.admit(asking.asker().principal(), start)?;
            }
            let mut run = Run::new(self.current.get(), true, start);
            run.is_dry = is_dry;
            let firewall = Arc::clone(&run.live.firewall);
            let limits = limits.unwrap_or(firewall.limits()).clone();
            let limits = Limits {
                max_affected_rows: limits.max_affected_rows.min(body.max_affected_rows),
                // A preview holds locks for nothing that stays.
                statement_timeout_ms: match is_dry {
                    true => limits.statement_timeout_ms.min(PREVIEW_MS),
                    false => limits.statement_timeout_ms,
                },
                ..limits
            };
            let session = self.now(&firewall, asking.proposer());
            let question = Question {
                wording: sql.as_str().into(),
                params: &params,
                session: &session,
                limits: &limits,
            };
            let permitted = self.permit(question, &mut run).await;
            let checked = permitted.and_then(|(statement, demand)| {
                require_write(&statement)?;
                outside::require_inside(&statement, firewall.catalog())?;
                Ok((statement, demand))
            });
            match checked {
                Ok((decided, demand)) => decisions.push(Decision {
                    run,
                    sql,
                    statement: Arc::from(decided),
                    demand,
                    inverse: statements.inverse.clone(),
                    undone: statements.undone.clone(),
                }),
                Err(rejection) => {
                    let refusal = self.refusal(rejection.clone());
                    self.note_statement(&sql, asking, &Became::Refused(&refusal), &run)?;
                    // Whoever sets back a table sees all of it.
                    return Err(match (&statements.inverse, &body.reverts) {
                        (Some(_), None) => hide_refusal(rejection),
                        (Some(_) | None, _) => rejection,
                    });
                }
            }
        }
        Ok(decisions)
    }

    /// Records a statement as that of whoever asks. What is not recorded is not answered.
    fn note_statement(
        &self,
        sql: &str,
        asking: Asking<'_>,
        became: &Became<'_>,
        run: &Run,
    ) -> Result<(), Rejection> {
        let record = AuditRecord {
            proposed_by: asking.name_proposer(),
            ..self.record(sql, asking.asker(), became, run)
        };
        self.audit.record(&record).map_err(Rejection::internal)
    }

    /// Runs the statements of a change, and records what became of each. Whoever asks spends the time, and the failure.
    async fn run_change(
        &self,
        decisions: &mut [Decision],
        (asking, standing): (Asking<'_>, ViewerStanding),
        purpose: Purpose,
        cancel: Option<&Cancel>,
    ) -> Result<ChangeRun, (Rejection, BackendErrorKind)> {
        let failed = |rejection| (rejection, BackendErrorKind::Rejected);
        let Some(live) = decisions.first().map(|first| Arc::clone(&first.run.live)) else {
            return Err(failed(Rejection::internal("a change without statements")));
        };
        // A statement without a filter of its proposer's can fail on what is hidden from whoever asks.
        let counted = match standing {
            ViewerStanding::SeesPart => true,
            ViewerStanding::Proposer | ViewerStanding::SeesAll => {
                decisions.iter().any(|one| one.statement.counts_failures())
            }
        };
        let asker = asking.asker();
        if let (true, Some(first)) = (counted, decisions.first()) {
            let most = first.statement.limits().max_failures;
            self.failures
                .admit(asker.principal(), most, self.host.monotonic())
                .map_err(failed)?;
        }
        let cancel = cancel.cloned().unwrap_or_default();
        let tickets = decisions
            .iter()
            .map(|one| Ticket::issue(&one.statement).cancelled_by(&cancel))
            .collect();
        let is_preview = matches!(purpose, Purpose::Preview(_));
        let began = self.host.monotonic();
        let is_inverse = decisions.first().is_some_and(|one| one.inverse.is_some());
        let order = ChangeOrder {
            tickets,
            purpose,
            is_inverse,
        };
        let end = live.backend.change(order).await;
        let took = self.host.monotonic().saturating_sub(began);
        self.spend(asker, None, took);
        let (at, error) = match end {
            Ok(ChangeEnd::Ran(run)) => {
                for (at, decision) in decisions.iter_mut().enumerate() {
                    decision.run.report.duration = took;
                    let affected = run.affected.get(at).copied().unwrap_or_default();
                    let became = match (is_preview, run.is_kept) {
                        (true, _) => Became::Untried,
                        (false, true) => Became::Kept(affected),
                        (false, false) => continue,
                    };
                    self.note_statement(&decision.sql, asking, &became, &decision.run)
                        .map_err(|why| (why, BackendErrorKind::OutcomeUnknown))?;
                }
                return Ok(run);
            }
            Ok(ChangeEnd::Failed { statement, error }) => (statement, error),
            Err(error) => (0, error),
        };
        let error = self.confirm_missing_name(error, &live).await;
        self.note_failure(&error, counted, asker).await;
        let Some(decision) = decisions.get(at).or(decisions.first()) else {
            return Err(failed(Rejection::internal("a change without statements")));
        };
        let rejection = describe_failure(&error, &decision.statement, asking.proposer());
        let rejection = match error.kind == BackendErrorKind::SchemaChanged {
            true => self.wait_for_look(rejection, &live),
            false => rejection,
        };
        let told = [asking.proposer(), asking.asker()];
        let rejection = self.name_constraint(rejection, &error, &decision.statement, &told);
        let refusal = self.refusal(rejection.clone());
        self.note_statement(
            &decision.sql,
            asking,
            &Became::Refused(&refusal),
            &decision.run,
        )
        .map_err(|why| (why, error.kind))?;
        let rejection = match is_inverse {
            true => hide_failure(rejection, error.kind),
            false => rejection,
        };
        let rejection = match standing {
            ViewerStanding::Proposer | ViewerStanding::SeesAll => rejection,
            ViewerStanding::SeesPart => withhold_reason(rejection),
        };
        Err((rejection, error.kind))
    }

    /// Runs a change and takes it back; what it does, for whoever asks.
    async fn rehearse(
        &self,
        (rehearsable, body): (Rehearsable<'_>, &ChangeBody),
        asking: Asking<'_>,
        call: ChangeCall<'_>,
    ) -> Result<(ChangeRun, Preview), Rejection> {
        let decisions = rehearsable.spent();
        let Some(live) = decisions.first().map(|first| Arc::clone(&first.run.live)) else {
            return Err(Rejection::internal("a change without statements"));
        };
        // By now it may touch other tables than when it was proposed.
        let body = decided_body(body.clone(), decisions);
        let standing = self.find_standing(&body, asking.asker());
        let viewer = self.now(&live.firewall, asking.asker()).into_owned();
        let limits = call.limits.unwrap_or(live.firewall.limits()).clone();
        let lens = Arc::new(SessionLens::new(live, viewer, limits));
        let purpose = Purpose::Preview(Arc::clone(&lens) as Arc<dyn Lens>);
        let ran = self
            .run_change(decisions, (asking, standing), purpose, call.cancel)
            .await;
        let mut run = match ran {
            Ok(run) => run,
            Err((rejection, _)) => {
                let viewer = (&lens.session, &lens.limits);
                return Err(match standing {
                    ViewerStanding::Proposer | ViewerStanding::SeesAll => {
                        self.name_referring(rejection, decisions, viewer).await
                    }
                    // What rows refer to may be hidden, though the rows are not.
                    ViewerStanding::SeesPart => rejection,
                });
            }
        };
        let marker = Marker::from_bytes(self.host.random().map_err(Rejection::internal)?);
        let scanning = Scanning {
            actions: self.on_finding,
            scanner: self.scanner,
            marker,
            room: call.room,
        };
        let preview = lens.show(std::mem::take(&mut run.looked), scanning)?;
        // Which tables are named by what undoes a change, or sets a table back, follows from rows.
        let undone = decisions.first().and_then(|first| first.undone.as_deref());
        let written = match (undone, &body.reverts) {
            (None, Some(revert)) => BTreeSet::from([revert.table.as_str()]),
            (Some(_), _) | (None, None) => {
                let writes = undone.unwrap_or(&body).writes.iter();
                writes.map(|write| write.table.as_str()).collect()
            }
        };
        let mut counted = preview.counted;
        counted.extend(lens.list_withheld(&written));
        let told = self.find_told_generated(&body, standing, asking.asker());
        let affected = self.show_affected(&body, &run.affected, asking.asker());
        let affected = affected.map(|affected| affected.iter().sum());
        let lock_held_ms = run.lock_held.map(millis);
        // What did not bind when it was validated does not bind when it is kept, whatever this run shows.
        let known = body.preview.iter().flat_map(|preview| &preview.generated);
        let generated = run.generated.iter().chain(known).cloned().collect();
        Ok((
            run,
            Preview {
                rows: preview.rows.with_foreseen_rows(affected),
                row_counts: preview.row_counts,
                counted,
                lock_held_ms,
                generated: lens.name_generated(&generated, told),
            },
        ))
    }

    /// What is told of a change.
    fn view(&self, record: ChangeRecord, role: Role, session: &Session) -> ChangeView {
        let next_valid_actions = next_actions(&record, role);
        let waits = record.state == ChangeState::Validated;
        let level = record.body.approval_level().filter(|_| waits);
        let waits_for = level.map(|level| {
            let told = self.wait_for_approval(&record.id, level);
            told.message().to_owned()
        });
        let affected_rows = (record.body.preview.as_ref())
            .and_then(|preview| self.show_affected(&record.body, &preview.affected, session));
        let ChangeRecord {
            id,
            state,
            created: _,
            expires,
            body,
            decided_by,
        } = record;
        let spelled = |one: ChangeStatement| match one.params.as_str() {
            "" => one.sql,
            params => format!("{} -- {params}", one.sql),
        };
        let statements: Vec<String> = body.statements.into_iter().map(spelled).collect();
        let reads_as_instruction = |text: &String| !self.scanner.detect(text.as_bytes()).is_empty();
        ChangeView {
            change: id,
            state,
            proposed_by: body.principal,
            reason: body.reason.filter(|reason| !reads_as_instruction(reason)),
            instructs: statements.iter().any(reads_as_instruction),
            statements,
            compensates: body.compensates,
            reverts: body.reverts.map(|revert| RevertView {
                table: revert.table,
                to: AsOf {
                    snapshot: revert.snapshot,
                    taken: revert.taken,
                    earlier_by_ms: None,
                },
            }),
            approval: body.level,
            waits_for,
            decided_by,
            affected_rows,
            preview: body.preview.map(|preview| preview.id),
            expires_ms: millis(expires),
            receipt: body
                .receipt
                .map(|receipt| self.show_receipt(receipt, session)),
            next_valid_actions,
        }
    }

    /// What is left of a change that is about to be kept, as far as it is known before.
    fn receipt(
        &self,
        record: &ChangeRecord,
        decisions: &[Decision],
        live: &Live<dyn Backend>,
    ) -> Result<Receipt, Rejection> {
        let store = self.change_store()?;
        let catalog = live.firewall.catalog();
        let undone = match (&record.body.compensates, &record.body.reverts) {
            (Some(id), _) => Some(format!("compensates {id}\n")),
            (
                None,
                Some(TableRevert {
                    table,
                    label,
                    snapshot: _,
                    taken: _,
                }),
            ) => Some(format!("reverts {} {table} {label}\n", table.len())),
            (None, None) => None,
        };
        let is_undoing = undone.is_some();
        let statements = record.body.statements.iter().fold(
            format!("palisade statements 1\n{}", undone.unwrap_or_default()),
            |text, ChangeStatement { sql, params }| {
                format!("{text}{} {sql}{} {params}", sql.len(), params.len())
            },
        );
        let preview = record.body.preview.as_ref();
        // Of what undoes a change they would tell how many rows there were, and which old values are equal.
        let fingerprints = match is_undoing {
            true => Vec::new(),
            false => decisions
                .iter()
                .map(|one| live.firewall.fingerprint(&one.sql).id)
                .collect(),
        };
        let permitted_by: BTreeSet<String> = decisions
            .iter()
            .flat_map(|one| one.statement.policies().iter().cloned())
            .collect();
        Ok(Receipt {
            id: store.new_id().map_err(Rejection::internal)?,
            kept_ms: millis(self.host.unix_time()),
            proposed_by: record.body.principal.clone(),
            approved_by: record.decided_by.clone(),
            fingerprints,
            policies: record.body.policies.clone(),
            permitted_by: permitted_by.into_iter().collect(),
            writes: record.body.writes.clone(),
            statements: store.digest(&statements),
            policy_version: record.body.policy_version.clone(),
            catalog_version: catalog.version().to_owned(),
            difference: preview
                .map(|preview| preview.digest.clone())
                .unwrap_or_default(),
            keys: String::new(),
            images: String::new(),
            tables: Vec::new(),
        })
    }

    /// The mark of what a change did.
    fn mark(&self, run: &ChangeRun, live: &Live<dyn Backend>) -> Result<PreviewMark, Rejection> {
        let store = self.change_store()?;
        let text = (run.difference).binding_text(live.firewall.catalog(), &run.generated);
        Ok(PreviewMark {
            id: store.new_id().map_err(Rejection::internal)?,
            digest: store.digest(&text),
            generated: run.generated.iter().cloned().collect(),
            affected: run.affected.clone(),
        })
    }
}

/// The tools that make sense for a change.
fn next_actions(record: &ChangeRecord, role: Role) -> Vec<&'static str> {
    let can = |event| apply(record.state, event).is_ok();
    let level = record.body.approval_level();
    let is_approvable = match level {
        Some(ApprovalLevel::Required) => true,
        Some(ApprovalLevel::Operator) | None => false,
    };
    let mut next = Vec::new();
    match role {
        Role::Proposer => {
            let begin = match level {
                Some(_) => ChangeEvent::BeginApproved,
                None => ChangeEvent::BeginUnapproved,
            };
            if can(begin) {
                next.push("commit_change");
            }
            if can(ChangeEvent::Validate) {
                next.push("validate_change");
            }
        }
        Role::Approver => {
            if is_approvable && can(ChangeEvent::Approve) {
                next.push("approve_change");
            }
        }
    }
    if can(ChangeEvent::Reject) {
        next.push("reject_change");
    }
    if can(ChangeEvent::Compensate) {
        next.push("compensate_change");
    }
    next.push("inspect_change");
    next
}

/// Refuses what cannot be taken back to be looked at.
fn require_write(statement: &RewrittenStatement) -> Result<(), Rejection> {
    match statement.effect() {
        Effect::Write => Ok(()),
        Effect::Read | Effect::Explain | Effect::Nothing => Err(Rejection::new(
            Code::ChangeNotPreviewable,
            "a change consists of statements that change rows; this one changes none",
        )),
        Effect::Define => Err(Rejection::new(
            Code::ChangeNotPreviewable,
            "a change of the schema cannot be looked at before it is kept",
        )),
    }
}

/// Refuses what the table of steps does not have.
fn require_step(state: ChangeState, event: ChangeEvent) -> Result<(), Rejection> {
    apply(state, event)
        .map(drop)
        .map_err(|wrong| wrong_state(&wrong))
}

fn wrong_state(wrong: &WrongState) -> Rejection {
    Rejection::new(Code::ChangeWrongState, wrong.to_string())
}

/// The session by which a change is decided: its proposer's.
fn proposer(body: &ChangeBody) -> Result<Session, Rejection> {
    let principal = Principal::parse(&body.principal)
        .map_err(|error| Rejection::internal(error.to_string()))?;
    let transport = Transport::ALL
        .into_iter()
        .find(|transport| transport.name() == body.transport)
        .ok_or_else(|| Rejection::internal("a change came by no transport that is known"))?;
    let session = Session::new(principal).over(transport);
    Ok(match &body.client {
        Some(client) => session.of_client(client.clone()),
        None => session,
    })
}

fn read_params(json: &str) -> Result<Params, Rejection> {
    if json.is_empty() {
        return Ok(Params::None);
    }
    let json =
        serde_json::from_str(json).map_err(|error| Rejection::internal(error.to_string()))?;
    Params::from_json(&json).map_err(|why| {
        Rejection::new(
            Code::ParameterMismatch,
            format!("the parameters do not fit: {why}"),
        )
    })
}

/// A statement with its parameters, as a store keeps it.
fn keep_statement((sql, params): &(String, Params)) -> ChangeStatement {
    ChangeStatement {
        sql: sql.clone(),
        params: spell_params(params),
    }
}

/// The same with what was decided of its statements.
fn decided_body(body: ChangeBody, decisions: &[Decision]) -> ChangeBody {
    // Which tables an inverse names follows from rows. So it is about all that the change could touch.
    let undone = decisions.first().and_then(|first| first.undone.as_deref());
    let of_undone = undone.into_iter().flat_map(list_touched);
    let tables: BTreeSet<String> = decisions
        .iter()
        .flat_map(|one| one.run.relations.iter().cloned())
        .chain(of_undone.map(str::to_owned))
        .collect();
    let (level, policies) = strictest(decisions);
    let writes: BTreeSet<ChangeWrite> = decisions
        .iter()
        .flat_map(|one| one.statement.named_writes())
        .map(|(change, table, column)| ChangeWrite {
            change: *change,
            table: table.clone(),
            column: column.clone(),
        })
        .collect();
    let version = decisions
        .first()
        .map(|first| first.run.live.firewall.policies().version());
    ChangeBody {
        tables: tables.into_iter().collect(),
        writes: writes.into_iter().collect(),
        sets_off: undone.is_some_and(|undone| undone.sets_off)
            || decisions
                .iter()
                .any(|one| !one.statement.engine_triggers().is_empty()),
        level,
        policies,
        policy_version: version.unwrap_or_default().to_owned(),
        ..body
    }
}

/// The strictest demand of all statements, and by which policies.
fn strictest(decisions: &[Decision]) -> (Option<String>, Vec<String>) {
    let demands = || decisions.iter().filter_map(|one| one.demand.as_ref());
    let level = demands().map(|demand| demand.level).max();
    let mut policies: Vec<String> = demands().flat_map(|one| one.policies.clone()).collect();
    policies.sort();
    policies.dedup();
    (level.map(|level| level.word().to_owned()), policies)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn record(state: ChangeState, level: Option<&str>) -> ChangeRecord {
        ChangeRecord {
            id: "c".to_owned(),
            state,
            created: Duration::ZERO,
            expires: Duration::ZERO,
            body: ChangeBody {
                version: 1,
                principal: "Agent::\"a\"".to_owned(),
                transport: "stdio".to_owned(),
                client: Some("editor".to_owned()),
                connection: None,
                statements: Vec::new(),
                compensates: None,
                reverts: None,
                reason: None,
                tables: Vec::new(),
                writes: Vec::new(),
                sets_off: false,
                policy_version: String::new(),
                level: level.map(str::to_owned),
                policies: Vec::new(),
                max_affected_rows: 1,
                preview: None,
                began: None,
                receipt: None,
            },
            decided_by: None,
        }
    }

    #[test]
    fn what_makes_sense_next_goes_by_state_level_and_role() {
        use ChangeState::{Approved, Committed, Proposed, Rejected, Validated};
        use Role::{Approver, Proposer};
        const ASKED: Option<&str> = Some("required");
        const OPERATOR: Option<&str> = Some("operator");
        for (state, level, role, expected) in [
            (Proposed, None, Proposer, "validate reject inspect"),
            (Validated, None, Proposer, "commit validate reject inspect"),
            (Validated, ASKED, Proposer, "validate reject inspect"),
            (Approved, ASKED, Proposer, "commit validate reject inspect"),
            (Approved, None, Proposer, "validate reject inspect"),
            (Proposed, ASKED, Approver, "reject inspect"),
            (Validated, ASKED, Approver, "approve reject inspect"),
            (Validated, OPERATOR, Approver, "reject inspect"),
            (Validated, None, Approver, "reject inspect"),
            (Rejected, None, Proposer, "inspect"),
            (Committed, None, Proposer, "compensate inspect"),
            (Committed, None, Approver, "compensate inspect"),
        ] {
            let next = next_actions(&record(state, level), role);
            let next: Vec<&str> = next
                .iter()
                .map(|action| action.trim_end_matches("_change"))
                .collect();
            assert_eq!(next.join(" "), expected, "{state:?} {level:?} {role:?}");
        }
    }

    #[test]
    fn a_change_is_decided_as_its_proposers() {
        let session = proposer(&record(ChangeState::Proposed, None).body).unwrap();
        assert_eq!(session.principal().to_string(), "Agent::\"a\"");
        assert_eq!(session.transport(), Transport::Stdio);
        for (principal, transport) in [("nobody", "stdio"), ("Agent::\"a\"", "pigeon")] {
            let mut record = record(ChangeState::Proposed, None);
            record.body.principal = principal.to_owned();
            record.body.transport = transport.to_owned();
            assert!(proposer(&record.body).is_err(), "{principal} {transport}");
        }
    }

    #[test]
    fn parameters_are_kept_as_they_are_read() {
        for (json, is_read) in [
            ("", true),
            (r#"[1,"a",null]"#, true),
            (r#"{"a":1}"#, true),
            ("[[1]]", false),
            ("[", false),
        ] {
            let read = read_params(json);
            assert_eq!(read.is_ok(), is_read, "{json}");
            if let Ok(params) = read {
                let kept = keep_statement(&("SELECT 1".to_owned(), params));
                assert_eq!(
                    (kept.sql.as_str(), kept.params.as_str()),
                    ("SELECT 1", json)
                );
            }
        }
    }

    #[test]
    fn steps_are_those_of_the_table() {
        require_step(ChangeState::Proposed, ChangeEvent::Validate).unwrap();
        let refused = require_step(ChangeState::Rejected, ChangeEvent::Validate).unwrap_err();
        assert_eq!(refused.code(), Code::ChangeWrongState);
    }

    #[test]
    fn times_are_whole_milliseconds() {
        for (time, expected) in [
            (Duration::ZERO, 0),
            (Duration::from_micros(1_999), 1),
            (Duration::from_millis(1_700_000_000_123), 1_700_000_000_123),
            (Duration::MAX, u64::MAX),
        ] {
            assert_eq!(millis(time), expected, "{time:?}");
        }
    }
}
