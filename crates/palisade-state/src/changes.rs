//! Changes that are looked at before they are kept: one table of the store.

use std::time::Duration;

use palisade::{
    change::{
        ChainedReceipt, ChangeBody, ChangeEvent, ChangeRecord, ChangeState, ChangeStore, Step,
        Stepped, apply,
    },
    policy::ApprovalLevel,
};

use crate::{
    database::{DatabaseFault, StateRow, StateTransaction},
    operator_key::OperatorKey,
    receipts,
    seal::hex,
    store::{ApprovalStore, ApproveError, KEPT, MAX_WAITING, millis, new_id, time},
};

/// The table, which the second form of the store has.
pub(crate) const TABLE: &str = "
    CREATE TABLE changes (
        id TEXT PRIMARY KEY,
        principal TEXT NOT NULL,
        state TEXT NOT NULL,
        created_ms INTEGER NOT NULL,
        expires_ms INTEGER NOT NULL,
        sealed BLOB NOT NULL,
        decided_by TEXT,
        signature BLOB
    ) STRICT;
";

const COLUMNS: &str = "id, state, created_ms, expires_ms, sealed, decided_by, signature";

/// How long after its time a change that was kept can be undone.
const UNDOABLE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A row of the table.
struct Row {
    id: String,
    state: String,
    created_ms: i64,
    expires_ms: i64,
    sealed: Vec<u8>,
    decided_by: Option<String>,
    signature: Option<Vec<u8>>,
}

/// A row that opened under the seal.
struct Opened {
    record: ChangeRecord,
    /// Its body as it was sealed, which an operator signs.
    text: String,
    expires_ms: i64,
    signature: Option<Vec<u8>>,
}

fn read_row(row: &StateRow) -> Result<Row, DatabaseFault> {
    Ok(Row {
        id: row.text(0)?,
        state: row.text(1)?,
        created_ms: row.integer(2)?,
        expires_ms: row.integer(3)?,
        sealed: row.bytes(4)?,
        decided_by: row.find_text(5)?,
        signature: row.find_bytes(6)?,
    })
}

fn find_row(
    transaction: &mut StateTransaction<'_>,
    id: &str,
) -> Result<Option<Row>, DatabaseFault> {
    let query = format!("SELECT {COLUMNS} FROM changes WHERE id = ?1");
    let row = transaction.find(&query, &[id.into()])?;
    row.as_ref().map(read_row).transpose()
}

/// What an operator signs of a change.
fn signed_text(id: &str, expires_ms: i64, body: &str) -> String {
    format!("palisade change 1\n{id}\n{expires_ms}\n{body}")
}

impl ApprovalStore {
    /// A row as it stands at `now`; none if it was sealed under another secret, or changed.
    fn open_row(&self, row: Row, now: Duration) -> Option<Opened> {
        let body_text = self.keys.open(&row.id, &row.sealed)?;
        let body: ChangeBody = serde_json::from_str(&body_text).ok()?;
        let mut state = ChangeState::parse(&row.state)?;
        if row.expires_ms <= millis(now)
            && let Ok(expired) = apply(state, ChangeEvent::Expire)
        {
            state = expired;
        }
        Some(Opened {
            record: ChangeRecord {
                id: row.id,
                state,
                created: time(row.created_ms),
                expires: time(row.expires_ms),
                body,
                decided_by: row.decided_by,
            },
            text: body_text,
            expires_ms: row.expires_ms,
            signature: row.signature,
        })
    }

    /// Whether the approval of a change is one: somebody gave it, and an operator signed it where one is demanded.
    fn is_approved(&self, opened: &Opened) -> bool {
        match (
            opened.record.body.approval_level(),
            &self.options.operator_key,
        ) {
            (None, _) => false,
            (Some(ApprovalLevel::Required), _) => opened.record.decided_by.is_some(),
            (Some(ApprovalLevel::Operator), None) => false,
            (Some(ApprovalLevel::Operator), Some(key)) => {
                let signed = signed_text(&opened.record.id, opened.expires_ms, &opened.text);
                let signature = opened.signature.as_deref().unwrap_or_default();
                key.verifies(&signed, signature)
            }
        }
    }

    /// Takes a step in a transaction that is under way.
    fn step_within(
        &self,
        transaction: &mut StateTransaction<'_>,
        step: Step<'_>,
        key: Option<&OperatorKey>,
    ) -> Result<Stepped, DatabaseFault> {
        let Step {
            id,
            event,
            preview,
            body,
            by,
            now,
        } = step;
        let Some(row) = find_row(transaction, id)? else {
            return Ok(Stepped::Unknown);
        };
        let Some(opened) = self.open_row(row, now) else {
            return Ok(Stepped::Unknown);
        };
        let record = &opened.record;
        if event == ChangeEvent::BeginApproved
            && record.state == ChangeState::Approved
            && !self.is_approved(&opened)
        {
            // Whoever wrote that approved nothing: the change waits as before.
            transaction.execute(
                "UPDATE changes SET state = 'validated', decided_by = NULL, signature = NULL WHERE id = ?1",
                &[id.into()],
            )?;
            return Ok(Stepped::WrongState(ChangeState::Validated));
        }
        if event == ChangeEvent::BeginUnapproved && record.body.approval_level().is_some() {
            return Ok(Stepped::WrongState(record.state));
        }
        // It goes back to where it began, and none is approved by that.
        let demands = record.body.approval_level().is_some();
        let is_misplaced = (event == ChangeEvent::PutBack && demands)
            || (event == ChangeEvent::PutBackApproved && !demands);
        if is_misplaced {
            return Ok(Stepped::WrongState(record.state));
        }
        let Ok(to) = apply(record.state, event) else {
            return Ok(Stepped::WrongState(record.state));
        };
        if preview.is_some() && preview != record.body.preview_id() {
            return Ok(Stepped::OtherPreview);
        }
        let sealed = match body {
            Some(body) => {
                let body = serde_json::to_string(body).map_err(|error| error.to_string())?;
                Some(self.keys.seal(id, &body)?)
            }
            None => None,
        };
        let expires = match event {
            ChangeEvent::Validate | ChangeEvent::Approve => {
                millis(now.saturating_add(self.options.expire_after))
            }
            ChangeEvent::Reject
            | ChangeEvent::BeginUnapproved
            | ChangeEvent::BeginApproved
            | ChangeEvent::Keep
            | ChangeEvent::Conflict
            | ChangeEvent::Release
            | ChangeEvent::PutBack
            | ChangeEvent::PutBackApproved
            | ChangeEvent::Fail
            | ChangeEvent::Expire
            | ChangeEvent::Compensate => opened.expires_ms,
        };
        // Who decided is told of what was approved, and of an approval that is over no more.
        let (decided_by, signature) = match event {
            ChangeEvent::Approve | ChangeEvent::Reject => {
                let signed = signed_text(id, expires, &opened.text);
                (by.map(str::to_owned), key.map(|key| key.sign(&signed)))
            }
            ChangeEvent::Validate | ChangeEvent::Conflict | ChangeEvent::Release => (None, None),
            ChangeEvent::BeginUnapproved
            | ChangeEvent::BeginApproved
            | ChangeEvent::Keep
            | ChangeEvent::PutBack
            | ChangeEvent::PutBackApproved
            | ChangeEvent::Fail
            | ChangeEvent::Expire
            | ChangeEvent::Compensate => (record.decided_by.clone(), opened.signature.clone()),
        };
        transaction.execute(
            "UPDATE changes SET state = ?2, expires_ms = ?3, decided_by = ?4, signature = ?5,
             sealed = coalesce(?6, sealed) WHERE id = ?1",
            &[
                id.into(),
                to.word().into(),
                expires.into(),
                decided_by.as_ref().into(),
                signature.into(),
                sealed.into(),
            ],
        )?;
        let row = find_row(transaction, id)?;
        let taken = row.and_then(|row| self.open_row(row, now));
        let unread = || DatabaseFault("a change that was written cannot be read".to_owned());
        let taken = taken.ok_or_else(unread)?;
        match event {
            ChangeEvent::Keep => {
                self.chain(transaction, &taken.record)?;
                self.note_undone(transaction, &taken.record, now)?;
            }
            ChangeEvent::Conflict
            | ChangeEvent::Release
            | ChangeEvent::PutBack
            | ChangeEvent::PutBackApproved
            | ChangeEvent::Fail => {
                receipts::release(transaction, id)?;
            }
            ChangeEvent::Validate
            | ChangeEvent::Approve
            | ChangeEvent::Reject
            | ChangeEvent::BeginUnapproved
            | ChangeEvent::BeginApproved
            | ChangeEvent::Expire
            | ChangeEvent::Compensate => {}
        }
        Ok(Stepped::Taken(Box::new(taken.record)))
    }

    /// Notes that the change which `kept` undoes is undone.
    fn note_undone(
        &self,
        transaction: &mut StateTransaction<'_>,
        kept: &ChangeRecord,
        now: Duration,
    ) -> Result<(), DatabaseFault> {
        let Some(undone) = &kept.body.compensates else {
            return Ok(());
        };
        let step = Step {
            id: undone,
            event: ChangeEvent::Compensate,
            preview: None,
            body: None,
            by: None,
            now,
        };
        match self.step_within(transaction, step, None)? {
            // What the rows are decides; a change that is forgotten has no state.
            Stepped::Taken(_)
            | Stepped::WrongState(_)
            | Stepped::OtherPreview
            | Stepped::Unknown => Ok(()),
        }
    }

    /// Approves or rejects the change called `id`, once; `by` says who. Where an operator's approval is demanded, `key` has to sign it.
    ///
    /// # Errors
    /// If it does not wait for that, or the key is missing or another.
    pub fn decide_change(
        &self,
        (id, event): (&str, ChangeEvent),
        now: Duration,
        by: &str,
        key: Option<&OperatorKey>,
    ) -> Result<ChangeRecord, ApproveError> {
        self.database
            .write(|transaction| self.decide_within(transaction, (id, event), (now, by), key))
    }

    fn decide_within(
        &self,
        transaction: &mut StateTransaction<'_>,
        (id, event): (&str, ChangeEvent),
        (now, by): (Duration, &str),
        key: Option<&OperatorKey>,
    ) -> Result<ChangeRecord, ApproveError> {
        let row = find_row(transaction, id)?;
        let row = row.ok_or_else(|| ApproveError::Unknown(id.to_owned()))?;
        let opened = self.open_row(row, now);
        let record = opened
            .ok_or_else(|| ApproveError::Sealed(id.to_owned()))?
            .record;
        if event == ChangeEvent::Approve {
            match (record.body.approval_level(), key) {
                (None, _) => return Err(ApproveError::NeedsNone(id.to_owned())),
                (Some(ApprovalLevel::Required), _) => {}
                (Some(ApprovalLevel::Operator), None) => {
                    return Err(ApproveError::NeedsKey(id.to_owned()));
                }
                (Some(ApprovalLevel::Operator), Some(key)) => {
                    let known = self.options.operator_key.as_ref();
                    if known.is_some_and(|known| *known != key.public()) {
                        return Err(ApproveError::OtherKey);
                    }
                }
            }
        }
        let step = Step {
            id,
            event,
            preview: record.body.preview_id(),
            body: None,
            by: Some(by),
            now,
        };
        let key = key.filter(|_| record.body.approval_level() == Some(ApprovalLevel::Operator));
        match self.step_within(transaction, step, key)? {
            Stepped::Taken(record) => Ok(*record),
            Stepped::WrongState(state) => Err(ApproveError::ChangeStands {
                id: id.to_owned(),
                state: state.word(),
            }),
            Stepped::OtherPreview | Stepped::Unknown => Err(ApproveError::Unknown(id.to_owned())),
        }
    }
}

impl ChangeStore for ApprovalStore {
    fn read_version(&self) -> Result<u64, String> {
        Ok(self.database.read_writes()?)
    }

    fn propose(&self, body: &ChangeBody, now: Duration) -> Result<Option<ChangeRecord>, String> {
        let proposed = self.database.write(|transaction| {
            // What is being kept, or was when something fell, is for a person to look at. What was kept can be undone for longer.
            transaction.execute(
                "DELETE FROM changes WHERE expires_ms < ?1 AND state NOT IN ('committing', 'committed')
                 OR expires_ms < ?2 AND state = 'committed'",
                &[
                    millis(now).saturating_sub(millis(KEPT)).into(),
                    millis(now).saturating_sub(millis(UNDOABLE)).into(),
                ],
            )?;
            let waiting = transaction.count(
                "SELECT count(*) FROM changes WHERE principal = ?1 AND expires_ms > ?2
                 AND state IN ('proposed', 'validated', 'approved')",
                &[(&body.principal).into(), millis(now).into()],
            )?;
            if waiting >= MAX_WAITING.into() {
                return Ok(None);
            }
            let id = new_id()?;
            let spelled = serde_json::to_string(body).map_err(|error| error.to_string())?;
            let expires = now.saturating_add(self.options.expire_after);
            transaction.execute(
                "INSERT INTO changes (id, principal, state, created_ms, expires_ms, sealed)
                 VALUES (?1, ?2, 'proposed', ?3, ?4, ?5)",
                &[
                    (&id).into(),
                    (&body.principal).into(),
                    millis(now).into(),
                    millis(expires).into(),
                    self.keys.seal(&id, &spelled)?.into(),
                ],
            )?;
            Ok(Some(ChangeRecord {
                id,
                state: ChangeState::Proposed,
                created: now,
                expires,
                body: body.clone(),
                decided_by: None,
            }))
        });
        proposed.map_err(|fault: DatabaseFault| fault.0)
    }

    fn find(&self, id: &str, now: Duration) -> Result<Option<ChangeRecord>, String> {
        let row = self
            .database
            .read(|transaction| find_row(transaction, id))?;
        let opened = row.and_then(|row| self.open_row(row, now));
        Ok(opened.map(|opened| opened.record))
    }

    fn list(&self, now: Duration) -> Result<Vec<ChangeRecord>, String> {
        let query = format!(
            "SELECT {COLUMNS} FROM changes WHERE state <> 'committed' OR expires_ms >= ?1
             ORDER BY created_ms DESC, id"
        );
        let since = millis(now).saturating_sub(millis(KEPT));
        let rows = self.database.read(|transaction| {
            let rows = transaction.query(&query, &[since.into()])?;
            let rows = rows.iter().map(read_row);
            rows.collect::<Result<Vec<Row>, DatabaseFault>>()
        })?;
        let opened = rows.into_iter().filter_map(|row| self.open_row(row, now));
        Ok(opened.map(|opened| opened.record).collect())
    }

    fn step(&self, step: Step<'_>) -> Result<Stepped, String> {
        let stepped = self
            .database
            .write(|transaction| self.step_within(transaction, step, None))?;
        Ok(stepped)
    }

    fn hold_rows(&self, change: &str, marks: &[String]) -> Result<(), String> {
        self.hold(change, marks)
    }

    fn list_receipts(&self) -> Result<Vec<ChainedReceipt>, String> {
        self.read_receipts()
    }

    fn trace_row(&self, mark: &str) -> Result<Vec<u64>, String> {
        self.find_numbers(mark)
    }

    fn digest(&self, text: &str) -> String {
        hex(&self.keys.digest(text))
    }

    fn new_id(&self) -> Result<String, String> {
        new_id()
    }

    fn lacks_operator(&self) -> Option<&'static str> {
        match (&self.options.operator_key, self.is_shared) {
            (Some(_), true) => None,
            (None, _) => Some("the configuration names no `operator_key`"),
            (Some(_), false) => Some("requests are kept in memory, where no operator reaches them"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use rusqlite::Connection;

    use super::*;
    use crate::{
        ApprovalOptions, StateSecret,
        receipts::tests::receipt,
        store::{APPLICATION, TABLES},
    };

    const NOW: Duration = Duration::from_secs(1_800_000_000);

    fn body(principal: &str) -> ChangeBody {
        ChangeBody {
            version: 1,
            principal: principal.to_owned(),
            transport: "stdio".to_owned(),
            client: None,
            connection: None,
            statements: Vec::new(),
            compensates: None,
            reverts: None,
            reason: None,
            tables: Vec::new(),
            writes: Vec::new(),
            sets_off: false,
            policy_version: "v".to_owned(),
            level: Some("required".to_owned()),
            policies: Vec::new(),
            max_affected_rows: 1,
            preview: None,
            began: None,
            receipt: None,
        }
    }

    fn step(id: &str, event: ChangeEvent, now: Duration) -> Step<'_> {
        Step {
            id,
            event,
            preview: None,
            body: None,
            by: Some("ann"),
            now,
        }
    }

    /// A file of the first form gets the table of changes, and loses nothing.
    #[test]
    fn a_file_of_the_first_form_is_taken_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.db");
        let first = Connection::open(&path).unwrap();
        first.execute_batch(TABLES).unwrap();
        first
            .pragma_update(None, "application_id", APPLICATION)
            .unwrap();
        first.pragma_update(None, "user_version", 1).unwrap();
        let insert = "INSERT INTO approvals VALUES ('a', x'00', 'p', 'required', 'rejected', 0, 9, x'00', NULL, NULL)";
        first.execute(insert, []).unwrap();
        for _ in 0..2 {
            let secret = StateSecret::new(*b"secret");
            let store = ApprovalStore::open(&path, &secret, ApprovalOptions::default()).unwrap();
            assert!(
                ChangeStore::propose(&store, &body("p"), NOW)
                    .unwrap()
                    .is_some()
            );
        }
        let kept: i64 = first
            .query_row("SELECT count(*) FROM approvals", [], |row| row.get(0))
            .unwrap();
        let version: i64 = first
            .query_row("PRAGMA user_version", [], |row| row.get(0))
            .unwrap();
        assert_eq!((kept, version), (1, 6));
    }

    #[test]
    fn a_change_expires_and_its_place_is_free_again() {
        let store = ApprovalStore::in_memory(ApprovalOptions::default()).unwrap();
        let mut ids = Vec::new();
        for _ in 0..MAX_WAITING {
            ids.push(store.propose(&body("p"), NOW).unwrap().unwrap().id);
        }
        assert!(store.propose(&body("p"), NOW).unwrap().is_none());
        assert!(store.propose(&body("q"), NOW).unwrap().is_some());
        let id = ids.first().unwrap();
        let later = NOW + Duration::from_secs(15 * 60);
        let found = ChangeStore::find(&store, id, later).unwrap().unwrap();
        assert_eq!(found.state, ChangeState::Expired);
        for event in ChangeEvent::ALL {
            assert_eq!(
                store.step(step(id, event, later)).unwrap(),
                Stepped::WrongState(ChangeState::Expired),
                "{event:?}"
            );
        }
        assert!(store.propose(&body("p"), later).unwrap().is_some());
    }

    /// Validated again, a change has lost its approval; and what demands one does not begin without.
    #[test]
    fn a_change_that_is_undone_says_so_and_can_be_for_a_month() {
        let store = ApprovalStore::in_memory(ApprovalOptions::default()).unwrap();
        let keep = |compensates: Option<String>, now: Duration| {
            let body = ChangeBody {
                level: None,
                compensates,
                reverts: None,
                ..body("p")
            };
            let id = store.propose(&body, now).unwrap().unwrap().id;
            for event in [ChangeEvent::Validate, ChangeEvent::BeginUnapproved] {
                store.step(step(&id, event, now)).unwrap();
            }
            let kept = ChangeBody {
                receipt: Some(receipt()),
                ..body
            };
            let keep = Step {
                body: Some(&kept),
                ..step(&id, ChangeEvent::Keep, now)
            };
            assert!(matches!(store.step(keep).unwrap(), Stepped::Taken(_)));
            id
        };
        let state = |id: &str, now| store.find(id, now).unwrap().map(|record| record.state);
        let first = keep(None, NOW);
        let other = keep(None, NOW);
        let undo = keep(Some(first.clone()), NOW);
        assert_eq!(state(&first, NOW), Some(ChangeState::Compensated));
        assert_eq!(state(&other, NOW), Some(ChangeState::Committed));
        assert_eq!(state(&undo, NOW), Some(ChangeState::Committed));
        // Of one that is forgotten, nothing is said.
        keep(Some("forgotten".to_owned()), NOW);
        let day = Duration::from_secs(24 * 60 * 60);
        let later = NOW + day * 20;
        keep(None, later);
        assert_eq!(state(&first, later), None);
        assert_eq!(state(&other, later), Some(ChangeState::Committed));
        let listed = store.list(later).unwrap();
        assert!(listed.iter().all(|record| record.id != other));
        let later = NOW + day * 40;
        keep(None, later);
        assert_eq!(state(&other, later), None);
    }

    #[test]
    fn an_approval_is_lost_where_something_follows_it() {
        let store = ApprovalStore::in_memory(ApprovalOptions::default()).unwrap();
        let id = store.propose(&body("p"), NOW).unwrap().unwrap().id;
        let take = |event| store.step(step(&id, event, NOW)).unwrap();
        let taken = |event| match take(event) {
            Stepped::Taken(record) => record,
            other => panic!("{event:?}: {other:?}"),
        };
        taken(ChangeEvent::Validate);
        assert_eq!(
            take(ChangeEvent::BeginUnapproved),
            Stepped::WrongState(ChangeState::Validated)
        );
        assert_eq!(
            taken(ChangeEvent::Approve).decided_by.as_deref(),
            Some("ann")
        );
        assert_eq!(taken(ChangeEvent::Validate).decided_by, None);
        assert_eq!(
            take(ChangeEvent::BeginApproved),
            Stepped::WrongState(ChangeState::Validated)
        );
        taken(ChangeEvent::Approve);
        assert_eq!(
            taken(ChangeEvent::BeginApproved).state,
            ChangeState::Committing
        );
        assert_eq!(
            take(ChangeEvent::PutBack),
            Stepped::WrongState(ChangeState::Committing)
        );
        // It could not be tried: the commit may be tried again.
        let back = taken(ChangeEvent::PutBackApproved);
        let found = (back.state, back.decided_by.as_deref());
        assert_eq!(found, (ChangeState::Approved, Some("ann")));
        taken(ChangeEvent::BeginApproved);
        assert_eq!(taken(ChangeEvent::Conflict).decided_by, None);
    }

    /// What demands no approval is not approved by an attempt that failed.
    #[test]
    fn an_attempt_that_failed_approves_nothing() {
        let store = ApprovalStore::in_memory(ApprovalOptions::default()).unwrap();
        let free = ChangeBody {
            level: None,
            ..body("p")
        };
        let id = store.propose(&free, NOW).unwrap().unwrap().id;
        let take = |event| store.step(step(&id, event, NOW)).unwrap();
        for event in [ChangeEvent::Validate, ChangeEvent::BeginUnapproved] {
            assert!(matches!(take(event), Stepped::Taken(_)), "{event:?}");
        }
        assert_eq!(
            take(ChangeEvent::PutBackApproved),
            Stepped::WrongState(ChangeState::Committing)
        );
        match take(ChangeEvent::PutBack) {
            Stepped::Taken(record) => assert_eq!(record.state, ChangeState::Validated),
            other => panic!("{other:?}"),
        }
    }
}
