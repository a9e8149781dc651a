//! Queries over tables as they were.

use std::{borrow::Cow, sync::Arc, time::Duration};

use serde::Serialize;

use crate::{
    answer::AsOf,
    catalog::{Relation, RelationKind},
    code::Code,
    guard::{
        Guard, Refusal,
        backend::Backend,
        backend_error::{BackendError, describe_failure, describe_kind},
        reading::{Given, Reading},
    },
    moment::{print_utc, read_moment},
    past::{
        HistoryOrder, KeptLabel, Label, LabelKeeping, LabelStanding, LabelStore, is_snapshot_name,
    },
    rejection::Rejection,
    rewrite::RewrittenStatement,
    session::Session,
};

/// The most snapshots that one answer lists.
const MAX_LISTED: usize = 200;

/// A snapshot as principals know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SnapshotView {
    /// Its name.
    pub snapshot: String,
    /// When it was taken, UTC.
    pub taken: String,
    /// Whether whoever asks took it, and so may delete it.
    pub own: bool,
}

impl Reading for SnapshotView {
    fn as_given(&self) -> Given<'_> {
        Given::Entries(1)
    }
}

impl Reading for Vec<SnapshotView> {
    fn as_given(&self) -> Given<'_> {
        Given::Entries(self.len())
    }
}

impl Guard {
    /// Where labels are kept. Without it, nothing is read as it was.
    #[must_use]
    pub fn with_labels(self, labels: Arc<dyn LabelStore>) -> Self {
        Self {
            labels: Some(labels),
            ..self
        }
    }

    /// Takes a snapshot by this name: from now on, tables that have a history can be read as they are at this moment.
    ///
    /// # Errors
    /// `request.invalid` for a name that is none or is taken, `history.not-kept` where the database keeps no history.
    pub async fn create_snapshot(
        &self,
        name: &str,
        session: &Session,
    ) -> Result<SnapshotView, Refusal> {
        let run = self.begin_reading();
        let taken = match self.admit_reading(session, &run) {
            Ok(()) => self.take_snapshot(name, session).await,
            Err(rejection) => Err(rejection),
        };
        self.end_reading(("create_snapshot", session), run, taken)
    }

    async fn take_snapshot(
        &self,
        name: &str,
        session: &Session,
    ) -> Result<SnapshotView, Rejection> {
        if !is_snapshot_name(name) {
            return Err(Rejection::new(
                Code::RequestInvalid,
                "a snapshot's name has 1 to 64 letters, digits, `_`, `-` and `.`",
            ));
        }
        let labels = self.require_labels()?;
        let label = self.take_label().await;
        let label = label.map_err(|error| describe_kind(&error))?;
        let label = label.ok_or_else(keeps_none)?;
        let kept = KeptLabel {
            name: Some(name.to_owned()),
            label: label.as_text().to_owned(),
            taken_ms: milliseconds(self.host.unix_time()),
            taken_by: Some(session.principal().to_string()),
        };
        let keeping = labels.keep_label(&self.database_name(), &kept);
        let told = match keeping.map_err(Rejection::internal)? {
            LabelKeeping::Kept => return Ok(view(&kept, session)),
            LabelKeeping::NameTaken => {
                format!("there is a snapshot `{name}`; choose another name")
            }
            LabelKeeping::TooMany => {
                "there are as many snapshots of yours as may be; delete one".to_owned()
            }
        };
        Err(Rejection::new(Code::RequestInvalid, told))
    }

    /// The snapshots of the database, newest first.
    ///
    /// # Errors
    /// `internal` if they cannot be read or recorded, `limit.budget`.
    pub fn list_snapshots(&self, session: &Session) -> Result<Vec<SnapshotView>, Refusal> {
        let run = self.begin_reading();
        let listed = self.admit_reading(session, &run).and_then(|()| {
            let Some(labels) = &self.labels else {
                return Ok(Vec::new());
            };
            let listed = labels.list_snapshots(&self.database_name());
            let listed = listed.map_err(Rejection::internal)?;
            let listed = listed.iter().take(MAX_LISTED);
            Ok(listed.map(|kept| view(kept, session)).collect())
        });
        self.end_reading(("list_snapshots", session), run, listed)
    }

    /// Deletes a snapshot that `session` took. Its moment stays one, by its time.
    ///
    /// # Errors
    /// `history.unknown-snapshot` where there is none of this principal's by that name.
    pub fn delete_snapshot(&self, name: &str, session: &Session) -> Result<SnapshotView, Refusal> {
        let delete = || {
            let labels = self.require_labels()?;
            let database = self.database_name();
            let found = labels.find_snapshot(&database, name);
            let found = found.map_err(Rejection::internal)?;
            let found = found.map(|kept| view(&kept, session));
            let own = found.filter(|view| view.own).ok_or_else(|| {
                Rejection::new(
                    Code::HistoryUnknown,
                    format!("there is no snapshot `{name}` of yours"),
                )
            })?;
            labels
                .delete_snapshot(&database, name)
                .map_err(Rejection::internal)?;
            Ok(own)
        };
        let run = self.begin_reading();
        let deleted = self.admit_reading(session, &run).and_then(|()| delete());
        self.end_reading(("delete_snapshot", session), run, deleted)
    }

    /// Keeps a label without a name, by whose time tables can be read as they are at this moment. Whether there was something to keep:
    /// there is nothing where the database keeps no history, and nothing new since the last label.
    ///
    /// # Errors
    /// A text for the operator.
    pub async fn keep_label(&self) -> Result<bool, String> {
        let Some(labels) = &self.labels else {
            return Ok(false);
        };
        if !self.firewall().catalog().has_history() {
            return Ok(false);
        }
        let label = self.take_label().await.map_err(|error| error.detail)?;
        let Some(label) = label else {
            return Ok(false);
        };
        let (database, taken_ms) = (self.database_name(), milliseconds(self.host.unix_time()));
        let last = labels.find_label_at(&database, taken_ms)?;
        if last.is_some_and(|last| last.label == label.as_text()) {
            return Ok(false);
        }
        let kept = KeptLabel {
            name: None,
            label: label.as_text().to_owned(),
            taken_ms,
            taken_by: None,
        };
        labels.keep_label(&database, &kept).map(|_| true)
    }

    /// The statements by which the database's owner does to the history of `table`, with or without its schema, what is ordered; for the
    /// operator.
    ///
    /// # Errors
    /// Why there are none, with what would have to be otherwise.
    pub fn write_history_script(
        &self,
        table: &str,
        order: &HistoryOrder,
    ) -> Result<String, String> {
        let live = self.current.get();
        let catalog = live.backend.catalog();
        let named = |relation: &&Relation| {
            relation.kind == RelationKind::Table
                && (relation.name == table || relation.database_name() == table)
        };
        let mut found: Vec<&Relation> = catalog.relations().iter().filter(named).collect();
        let on_path = catalog.search_path().iter().find(|schema| {
            let mut schemas = found.iter().map(|relation| &relation.schema);
            schemas.any(|one| one == *schema)
        });
        if let Some(schema) = on_path {
            found.retain(|relation| relation.schema == *schema);
        }
        match found.as_slice() {
            [] => Err(format!("there is no table `{table}`")),
            [relation] => live.backend.write_history_script(relation, order),
            [first, ..] => Err(format!(
                "there are several tables `{table}`; write the schema too, as `{}`",
                first.database_name()
            )),
        }
    }

    /// The label of a snapshot, by its name, or of the last one at a time or before; for the operator.
    ///
    /// # Errors
    /// `history.unknown-snapshot`.
    pub fn find_label(&self, as_of: &str) -> Result<(Label, AsOf), Refusal> {
        self.look_up(as_of)
            .map_err(|rejection| self.refusal(rejection))
    }

    /// The label of a moment, and what is told of it.
    pub(in crate::guard) fn look_up(&self, as_of: &str) -> Result<(Label, AsOf), Rejection> {
        let kept = self.find_kept(as_of)?;
        let taken_ms = kept.taken_ms;
        let time = read_moment(as_of).filter(|_| kept.name.as_deref() != Some(as_of));
        let (label, mut told) = self.read_kept(kept)?;
        told.earlier_by_ms = time.map(|time| milliseconds(time).saturating_sub(taken_ms));
        Ok((label, told))
    }

    /// The label of a moment, as it is kept.
    pub(in crate::guard) fn find_kept(&self, as_of: &str) -> Result<KeptLabel, Rejection> {
        let labels = self.require_labels()?;
        let database = self.database_name();
        let time = read_moment(as_of);
        let is_name = is_snapshot_name(as_of);
        if !is_name && time.is_none() {
            return Err(Rejection::new(
                Code::RequestInvalid,
                "`as_of` must be the name of a snapshot, or a time as `2026-03-01T12:00:00Z`",
            ));
        }
        // A name may look like a day.
        let named = match is_name {
            true => labels.find_snapshot(&database, as_of),
            false => Ok(None),
        };
        let found = match (named.map_err(Rejection::internal)?, time) {
            (None, Some(time)) => labels
                .find_label_at(&database, milliseconds(time))
                .map_err(Rejection::internal)?,
            (named, _) => named,
        };
        found.ok_or_else(|| {
            let told = match time {
                Some(_) => format!("no moment at or before {as_of} is kept"),
                None => format!("there is no snapshot `{as_of}`"),
            };
            Rejection::new(Code::HistoryUnknown, told)
        })
    }

    /// The last label that was kept at a time or before, in milliseconds since 1970.
    pub(in crate::guard) fn find_kept_at(
        &self,
        at_ms: u64,
    ) -> Result<Option<KeptLabel>, Rejection> {
        let found = self
            .require_labels()?
            .find_label_at(&self.database_name(), at_ms);
        found.map_err(Rejection::internal)
    }

    /// A label that is kept, and what is told of it.
    pub(in crate::guard) fn read_kept(&self, kept: KeptLabel) -> Result<(Label, AsOf), Rejection> {
        let dialect = self.firewall().catalog().dialect();
        let label = Label::parse(dialect, &kept.label)
            .ok_or_else(|| Rejection::internal("a label that is kept cannot be read"))?;
        let told = AsOf {
            taken: print_utc(Duration::from_millis(kept.taken_ms)),
            snapshot: kept.name,
            earlier_by_ms: None,
        };
        Ok((label, told))
    }

    /// Requires that the label as of which a statement reads answers for what it reads.
    ///
    /// # Errors
    /// `history.foreign`, `history.too-early`, or what came of the question.
    pub(in crate::guard) async fn require_label(
        &self,
        backend: &dyn Backend,
        statement: &RewrittenStatement,
        session: &Session,
    ) -> Result<(), Rejection> {
        let Some(past) = statement.past() else {
            return Ok(());
        };
        let asked = backend.check_label(&past.label, &past.companions).await;
        require_answers(asked.map_err(|error| describe_failure(&error, statement, session))?)
    }

    /// A number that is another one once a change, a receipt or a label was written, by this process or another. None where none are kept,
    /// or where it cannot be told.
    #[must_use]
    pub fn read_state_version(&self) -> Option<u64> {
        let labels = self.labels.as_ref().map(|store| store.read_version());
        let changes = self.changes.as_ref().map(|store| store.read_version());
        let versions = [labels, changes].into_iter().flatten();
        let versions: Vec<u64> = versions.collect::<Result<_, _>>().ok()?;
        // Both only grow, or are of one store.
        let mut versions = versions.into_iter();
        let first = versions.next()?;
        Some(versions.fold(first, u64::wrapping_add))
    }

    fn require_labels(&self) -> Result<&Arc<dyn LabelStore>, Rejection> {
        self.labels.as_ref().ok_or_else(keeps_no_moments)
    }

    fn database_name(&self) -> String {
        match &self.name {
            Some(name) => name.clone(),
            None => self.firewall().catalog().database().to_owned(),
        }
    }

    /// The state of committed transactions by now, as of which tables can be read later. None where the database keeps no history.
    ///
    /// # Errors
    /// If the database cannot be reached, or tells no such state.
    pub async fn take_label(&self) -> Result<Option<Label>, BackendError> {
        self.current.get().backend.take_label().await
    }
}

/// Requires that a label answers.
///
/// # Errors
/// `history.foreign`, `history.too-early`.
pub(in crate::guard) fn require_answers(standing: LabelStanding) -> Result<(), Rejection> {
    let code = match standing {
        LabelStanding::Answers => return Ok(()),
        LabelStanding::Foreign => Code::HistoryForeign,
        LabelStanding::BeforeHistory => Code::HistoryTooEarly,
    };
    Err(Rejection::from(code))
}

/// `session` as of a moment, where one was asked for and found.
pub(in crate::guard) fn read_as_of<'s>(
    session: Cow<'s, Session>,
    past: Option<&Option<(Label, AsOf)>>,
) -> Cow<'s, Session> {
    match past.and_then(Option::as_ref) {
        Some((label, _)) => Cow::Owned(session.into_owned().as_of(label.clone())),
        None => session,
    }
}

fn keeps_no_moments() -> Rejection {
    Rejection::new(
        Code::HistoryNotKept,
        "moments are kept in a state file, and there is none: its operator writes `state` under `[approvals]` in a configuration, and names that by `--config`",
    )
}

fn keeps_none() -> Rejection {
    Rejection::new(
        Code::HistoryNotKept,
        "no history of this database is kept; its operator turns it on with `palisade history enable`",
    )
}

fn view(kept: &KeptLabel, session: &Session) -> SnapshotView {
    let taken_by = kept.taken_by.as_deref();
    SnapshotView {
        snapshot: kept.name.clone().unwrap_or_default(),
        taken: print_utc(Duration::from_millis(kept.taken_ms)),
        own: taken_by == Some(session.principal().to_string().as_str()),
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
