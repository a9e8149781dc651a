//! Changes that undo others: what they run is made of the images of rows that the database keeps, and what they do has to be the inverse.
//!
//! They are decided as the statements of whoever proposes them. Those name columns and hold values that this principal may not see, so
//! that no refusal of one tells more than that the change cannot be undone.

use std::{collections::BTreeSet, fmt::Write as _, sync::Arc};

use super::{
    ChangeCall, ChangeRun, ChangeView, Decision, read_params, require_step,
    viewer::came_by_the_same_door,
};
use crate::{
    catalog::{Change, Relation, RelationKind},
    change::{
        ChangeBody, ChangeEvent, ChangeRecord, ChangeWrite, Inverse, InverseFault, images_text,
        read_images,
    },
    code::Code,
    firewall::VisibleRelation,
    guard::{BackendErrorKind, Guard, Refusal},
    policy::obligation::RowFilter,
    rejection::Rejection,
    session::Session,
    value::Params,
};

/// The most rows that a conflict names, and the most bytes of the name of one.
pub(super) const MAX_NAMED: usize = 20;
pub(super) const MAX_NAME: usize = 200;

/// What a change runs.
pub(super) struct Statements {
    pub(super) list: Vec<(String, Params)>,
    /// What undoes another change does this.
    pub(super) inverse: Option<Arc<Inverse>>,
    /// The change that they undo.
    pub(super) undone: Option<Arc<ChangeBody>>,
}

impl Guard {
    /// Keeps a change that undoes the change called `id`, which was kept. From here on it is a change as any other: validated, approved
    /// and committed under the policies of whoever proposes it, which its proposer and whoever may approve it can do.
    ///
    /// # Errors
    /// `change.unknown`; `change.wrong-state` if it was not kept, or is undone already; `change.not-compensable`.
    pub async fn compensate_change(
        &self,
        id: &str,
        reason: Option<&str>,
        call: ChangeCall<'_>,
    ) -> Result<ChangeView, Refusal> {
        let proposed = self.compensate(id, reason, call).await;
        proposed.map_err(|rejection| self.refusal(rejection))
    }

    async fn compensate(
        &self,
        id: &str,
        reason: Option<&str>,
        call: ChangeCall<'_>,
    ) -> Result<ChangeView, Rejection> {
        let (record, _) = self.find_change(id, call.session)?;
        let record = self.settle(record).await?;
        require_step(record.state, ChangeEvent::Compensate)?;
        let body = ChangeBody {
            compensates: Some(record.id),
            ..self.body(call.session, reason)
        };
        self.keep_proposal(body, call).await
    }

    /// Whether `session` sees every row that an inverse could be about, and in plain every cell by which it could differ. If not, that it is
    /// short, that there is none, or that it conflicts would tell of hidden rows, and whether a hidden value is what the change wrote. It
    /// depends on policies alone, and on no row.
    fn sees_all_that_was_written(&self, body: &ChangeBody, session: &Session) -> bool {
        let firewall = self.firewall();
        let session = self.now(&firewall, session);
        let relations = firewall.relations(&session).unwrap_or_default();
        let catalog = firewall.catalog();
        let is_plain = |relation: &Relation| relations.iter().any(|one| one.is_plain(relation));
        let view = firewall.policies().session(&session);
        let sees_every_row = |relation: &Relation| {
            let decision = view.relation(relation.id);
            decision.is_ok_and(|one| one.rows == RowFilter::Everything)
        };
        let is_proposer = came_by_the_same_door(body, &session);
        let sees = |write: &ChangeWrite| {
            let mut all = catalog.relations().iter();
            let Some(relation) = all.find(|one| one.database_name() == write.table) else {
                return false;
            };
            let sees_cells = match write.change {
                // What stands in new rows was given with them, and others may have written into hidden columns since.
                Change::Insert | Change::Delete | Change::Truncate => is_plain(relation),
                Change::Update => {
                    let is_it = |one: &&VisibleRelation| {
                        one.schema == relation.schema && one.name == relation.name
                    };
                    let mut seen = relations.iter().filter(is_it).flat_map(|one| &one.columns);
                    seen.any(|seen| seen.name == write.column && !seen.masked)
                }
            };
            // Whoever proposed it saw the rows that its statements changed.
            let saw_rows = is_proposer && body.tables.contains(&write.table);
            sees_cells && (saw_rows || sees_every_row(relation))
        };
        let sees_everything = || {
            let mut tables = catalog.relations().iter();
            tables.all(|relation| match relation.kind {
                RelationKind::Table => is_plain(relation) && sees_every_row(relation),
                RelationKind::View
                | RelationKind::Materialized
                | RelationKind::Virtual
                | RelationKind::System => true,
            })
        };
        !body.writes.is_empty()
            && body.writes.iter().all(sees)
            && (!body.sets_off || sees_everything())
    }

    /// Deletes the images of rows of changes that were kept before `kept_ms`, in milliseconds since 1970-01-01 UTC. These changes cannot
    /// be undone any more. How many parts there were; none if the database has no table of them.
    ///
    /// # Errors
    /// A text for the operator, if the database refuses it.
    pub async fn prune_images(&self, kept_ms: u64) -> Result<Option<u64>, String> {
        let live = self.current.get();
        if !live.backend.previews_changes() {
            return Err("this connection only reads".to_owned());
        }
        let pruned = live.backend.prune_images(kept_ms).await;
        pruned.map_err(|error| error.to_string())
    }

    /// What a change runs.
    ///
    /// # Errors
    /// `change.not-compensable` where `session`, which proposed it, may not undo what it undoes, or that is not known any more.
    pub(super) async fn read_statements(
        &self,
        body: &ChangeBody,
        session: &Session,
    ) -> Result<Statements, Rejection> {
        if let Some(revert) = &body.reverts {
            return self.read_revert(revert, session).await;
        }
        let Some(undone) = &body.compensates else {
            let statements = body.statements.iter();
            let list = statements.map(|one| Ok((one.sql.clone(), read_params(&one.params)?)));
            return Ok(Statements {
                list: list.collect::<Result<_, Rejection>>()?,
                inverse: None,
                undone: None,
            });
        };
        if !body.statements.is_empty() {
            return Err(Rejection::internal(
                "a change that undoes another one has statements",
            ));
        }
        let found = self.change_store()?.find(undone, self.host.unix_time());
        let record = found.map_err(Rejection::internal)?;
        let record = record.ok_or_else(|| {
            let what = "the change that it undoes is forgotten";
            Rejection::new(Code::ChangeNotCompensable, what)
        })?;
        if !self.sees_all_that_was_written(&record.body, session) {
            return Err(Rejection::new(
                Code::ChangeNotCompensable,
                "it may have written what policy does not show you in plain, or rows that it hides from you; whoever sees all of that can undo it",
            ));
        }
        let inverse = self.find_inverse(&record).await?;
        let live = self.current.get();
        let statements = inverse.statements(live.firewall.catalog());
        let list = statements.map_err(|fault| match fault {
            // The name of the table is for the operator.
            InverseFault::OtherTable(_) => Rejection::new(
                Code::ChangeNotCompensable,
                "a table of it has other columns than when it was kept",
            ),
            InverseFault::TooMany => Rejection::new(
                Code::ChangeNotCompensable,
                "its rows are too many to be set back one by one",
            ),
        })?;
        if list.is_empty() {
            // Whoever gets here sees all that it could have written.
            let what = "it made no row different";
            return Err(Rejection::new(Code::ChangeNotCompensable, what));
        }
        Ok(Statements {
            list,
            inverse: Some(Arc::new(inverse)),
            undone: Some(Arc::new(record.body)),
        })
    }

    /// What undoes `record`, by the images that it left.
    async fn find_inverse(&self, record: &ChangeRecord) -> Result<Inverse, Rejection> {
        let cannot = |why: &str| Rejection::new(Code::ChangeNotCompensable, why);
        let digest = record.body.receipt.as_ref().map(|receipt| &receipt.images);
        let Some(digest) = digest.filter(|digest| !digest.is_empty()) else {
            return Err(cannot("it was kept without images of its rows"));
        };
        let parts = self.current.get().backend.read_images(&record.id).await;
        let parts = parts.map_err(|error| {
            let is_busy = error.kind == BackendErrorKind::Busy;
            let code = match is_busy {
                true => Code::LimitBusy,
                false => Code::DatabaseUnavailable,
            };
            Rejection::new(code, "the images of its rows cannot be read now")
        })?;
        let Some(parts) = parts else {
            return Err(cannot(
                "the database keeps no images of rows: its operator makes the table palisade_images, as `palisade setup-sql --writable --steps` prints it, and changes that are kept from then on can be undone",
            ));
        };
        if parts.is_empty() {
            return Err(cannot(
                "the database has no images of its rows: they were pruned, or there was no table of them when it was kept",
            ));
        }
        if self.change_store()?.digest(&images_text(&parts)) != *digest {
            return Err(cannot("the images of its rows were edited in the database"));
        }
        // A table without a key may be one that the principal does not see.
        let images = read_images(&parts);
        let images =
            images.map_err(|_| cannot("its rows cannot be found again, or are too large"))?;
        Ok(Inverse::new(images))
    }

    /// Refuses to keep what undoes a change that is undone already.
    pub(super) fn require_undoable(&self, body: &ChangeBody) -> Result<(), Rejection> {
        let Some(undone) = &body.compensates else {
            return Ok(());
        };
        let found = self.change_store()?.find(undone, self.host.unix_time());
        match found.map_err(Rejection::internal)? {
            Some(record) => require_step(record.state, ChangeEvent::Compensate),
            None => Err(Rejection::new(
                Code::ChangeNotCompensable,
                "the change that it undoes is forgotten",
            )),
        }
    }

    /// Refuses what is not the inverse of the change that `decisions` undo, and names the rows, of those that `session` may know of.
    pub(super) fn require_inverse(
        &self,
        decisions: &[Decision],
        run: &ChangeRun,
        session: &Session,
    ) -> Result<(), Rejection> {
        let Some((inverse, first)) = decisions
            .first()
            .and_then(|first| Some((first.inverse.as_ref()?, first)))
        else {
            return Ok(());
        };
        let catalog = first.run.live.firewall.catalog();
        let others = inverse.find_other_rows(&run.difference, catalog);
        if others.is_empty() {
            return Ok(());
        }
        let mut message = "the change cannot be undone as things are now: rows are not as it left them, or others would be changed too".to_owned();
        let tables: BTreeSet<(&str, &str)> = others
            .iter()
            .map(|row| (&*row.schema, &*row.table))
            .collect();
        let whole = self.find_whole_tables(tables.into_iter(), session);
        let named: Vec<String> = others
            .iter()
            .filter(|row| !row.key.is_empty() && whole.contains(&(&*row.schema, &*row.table)))
            .map(|row| format!("{}.{} {}", row.schema, row.table, row.key))
            .filter(|text| text.len() <= MAX_NAME)
            .filter(|text| self.scanner.detect(text.as_bytes()).is_empty())
            .take(MAX_NAMED)
            .collect();
        if !named.is_empty() {
            // Writing to a String cannot fail.
            let _ = write!(message, "; of these: {}", named.join("; "));
        }
        Err(Rejection::new(Code::ChangeConflict, message))
    }
}
