//! What is different of a table between two moments, or since one.
//!
//! The database tells the keys of rows that were written in between. Their rows are queried as of both moments, like any rows: under the masks
//! and filters of whoever asks.

use std::sync::Arc;

use crate::{
    answer::{AsOf, Marker, Room},
    catalog::{Catalog, Relation},
    change::{RowDifference, TableDifference},
    code::Code,
    firewall::VisibleRelation,
    guard::{
        Backend, BackendError, Guard, Preview, Refusal,
        backend_error::describe_failure,
        change::{
            BeforeAndAfter, ChangeCall,
            preview::{Scanning, SessionLens},
        },
        live::Live,
        past::require_answers,
        reading::{Given, Reading},
        run::Run,
        ticket::Ticket,
    },
    rejection::Rejection,
    rewrite::RewrittenStatement,
    session::Session,
    value::{KeptRows, Value},
};

/// Rows that may have been written in between, by whoever.
const MAX_KEYS: u32 = 10_000;

/// What is different of a table.
#[derive(Debug)]
pub struct PastDifference {
    /// Since when.
    pub from: AsOf,
    /// Until when; none for now.
    pub to: Option<AsOf>,
    /// The cells that are different.
    pub preview: Preview,
}

impl Reading for PastDifference {
    fn as_given(&self) -> Given<'_> {
        Given::Rows(&self.preview.rows)
    }
}

/// Between which moments a difference is asked for: names of snapshots, or times.
#[derive(Debug, Clone, Copy)]
pub struct Moments<'a> {
    /// The first.
    pub from: &'a str,
    /// The second; now where there is none.
    pub to: Option<&'a str>,
}

/// A moment, with the session in which it is asked about.
struct Asked {
    session: Session,
    told: Option<AsOf>,
}

impl Guard {
    /// What is different of `table`, with or without its schema, between two moments.
    ///
    /// # Errors
    /// `history.*` where a moment cannot be asked about, `limit.affected-rows` if more than a thousand rows were written in between.
    pub async fn compare_past(
        &self,
        table: &str,
        moments: Moments<'_>,
        call: ChangeCall<'_>,
    ) -> Result<PastDifference, Refusal> {
        let mut run = self.begin_reading();
        let compared = match self.admit_reading(call.session, &run) {
            Ok(()) => self.compare_moments(table, moments, call, &mut run).await,
            Err(rejection) => Err(rejection),
        };
        self.end_reading(("diff_table", call.session), run, compared)
    }

    async fn compare_moments(
        &self,
        table: &str,
        moments: Moments<'_>,
        call: ChangeCall<'_>,
        run: &mut Run,
    ) -> Result<PastDifference, Rejection> {
        let live = Arc::clone(&run.live);
        let firewall = &live.firewall;
        let session = self.now(firewall, call.session).into_owned();
        let relation = self.find_past_table(&live, table, &session)?;
        let first = self.ask_at(Some(moments.from), &session)?;
        let second = self.ask_at(moments.to, &session)?;
        let Some(from) = &first.told else {
            return Err(Rejection::internal("the first moment is none"));
        };
        let limits = call.limits.unwrap_or(firewall.limits()).clone();
        let before = SessionLens::new(Arc::clone(&live), first.session.clone(), limits.clone());
        let after = SessionLens::new(Arc::clone(&live), second.session.clone(), limits);
        let looked = self.look_twice(&relation, (&before, &after), run).await?;
        let scanning = self.scanning(call.room)?;
        Ok(PastDifference {
            from: from.clone(),
            to: second.told,
            preview: before.show(vec![looked], scanning)?,
        })
    }

    /// How the cells of an answer about the past are searched, in this room.
    ///
    /// # Errors
    /// `internal` where the host has no random bytes.
    pub(super) fn scanning(&self, room: Option<Room>) -> Result<Scanning, Rejection> {
        Ok(Scanning {
            actions: self.on_finding,
            scanner: self.scanner,
            marker: Marker::from_bytes(self.host.random().map_err(Rejection::internal)?),
            room,
        })
    }

    /// A table of which history is kept, by its name with or without its schema.
    ///
    /// # Errors
    /// `name.unknown-relation` where there is none that `session` may read, `history.not-kept`.
    pub(super) fn find_past_table(
        &self,
        live: &Live<dyn Backend>,
        table: &str,
        session: &Session,
    ) -> Result<Relation, Rejection> {
        let firewall = &live.firewall;
        let session = self.now(firewall, session);
        let relations = firewall.relations(&session)?;
        let catalog = firewall.catalog();
        let visible = find_table(table, &relations, catalog)?;
        let relation = catalog
            .find(&visible.schema, &visible.name)
            .ok_or_else(|| Rejection::internal("a table that is seen is not in the catalog"))?;
        match catalog.companion(relation) {
            Some(_) => {
                let view = firewall.policies().session(&session);
                // Before it is known whether any row was written: that would tell of what no one approved.
                match view.reading_waits(&*view.relation(relation.id)?) {
                    true => Err(refuse_unapproved(relation)),
                    false => Ok(relation.clone()),
                }
            }
            None => Err(Rejection::new(
                Code::HistoryNotKept,
                format!("no history of `{}` is kept", visible.name),
            )),
        }
    }

    /// The rows of a table that were written between the moments of two lenses, as each of them sees them. `run` notes what is asked for.
    ///
    /// # Errors
    /// `history.*` where a moment cannot be asked about, `limit.affected-rows` for too many rows.
    pub(super) async fn look_twice(
        &self,
        relation: &Relation,
        (before, after): (&SessionLens, &SessionLens),
        run: &mut Run,
    ) -> Result<BeforeAndAfter, Rejection> {
        let since = before
            .session
            .past()
            .map(Arc::as_ref)
            .ok_or_else(|| Rejection::internal("the first moment is none"))?;
        let until = after.session.past().map(Arc::as_ref);
        // A difference may be asked for backwards. What was written in between is the same.
        let between = match until {
            Some(until) if since.state().is_after(until.state()) => (until, Some(since)),
            Some(_) | None => (since, until),
        };
        let keys = before
            .live
            .backend
            .list_changed_keys(relation, between, MAX_KEYS);
        let keys = keys.await.map_err(|error| unreachable_history(&error))?;
        if keys.len() > usize::try_from(MAX_KEYS).unwrap_or(usize::MAX) {
            return Err(Rejection::new(
                Code::LimitAffectedRows,
                format!(
                    "more than {MAX_KEYS} rows were written in between; ask about a shorter time"
                ),
            ));
        }
        self.look_at_rows(relation, &keys, (before, after), run)
            .await
    }

    /// The rows of a table with these keys, as each of two lenses sees them. `run` notes what is asked for.
    ///
    /// # Errors
    /// `history.*` where a moment cannot be asked about.
    pub(super) async fn look_at_rows(
        &self,
        relation: &Relation,
        keys: &[Vec<Value>],
        (before, after): (&SessionLens, &SessionLens),
        run: &mut Run,
    ) -> Result<BeforeAndAfter, Rejection> {
        let live = &before.live;
        let relations = live.firewall.relations(&before.session)?;
        // Keys that were pruned before they were listed are missing, so this is asked afterwards, and where there are none too.
        let companion = live.firewall.catalog().companion(relation);
        let companion =
            std::slice::from_ref(companion.ok_or_else(|| Rejection::internal("no history"))?);
        for label in [before, after]
            .into_iter()
            .filter_map(|lens| lens.session.past())
        {
            let standing = live.backend.check_label(label, companion).await;
            require_answers(standing.map_err(|error| unreachable_history(&error))?)?;
        }
        let rows = name_rows(relation, keys);
        let mut looked = BeforeAndAfter::default();
        for (lens, seen) in [(before, &mut looked.before), (after, &mut looked.after)] {
            let asked = lens.ask_for(&rows, &relations)?;
            for statement in asked.ok_or_else(|| unreadable(relation))? {
                run.note_look(&statement);
                seen.extend(self.run_look(live, &statement, &lens.session).await?);
            }
        }
        Ok(looked)
    }

    /// The rows of a decided query. Those of the past count once its label was asked about.
    async fn run_look(
        &self,
        live: &Live<dyn Backend>,
        statement: &Arc<RewrittenStatement>,
        session: &Session,
    ) -> Result<Vec<Vec<Value>>, Rejection> {
        let mut rows = KeptRows::default();
        let executed = live.backend.execute(Ticket::issue(statement), &mut rows);
        executed
            .await
            .map_err(|error| describe_failure(&error, statement, session))?;
        self.require_label(&*live.backend, statement, session)
            .await?;
        Ok(rows.0)
    }

    /// What is asked at a moment, or by now.
    fn ask_at(&self, moment: Option<&str>, session: &Session) -> Result<Asked, Rejection> {
        let Some(moment) = moment else {
            return Ok(Asked {
                session: session.clone(),
                told: None,
            });
        };
        let (label, told) = self.look_up(moment)?;
        Ok(Asked {
            session: session.clone().as_of(label.clone()),
            told: Some(told),
        })
    }
}

/// Why the past of a table is not read that may be read once a person has approved.
fn refuse_unapproved(relation: &Relation) -> Rejection {
    Rejection::new(
        Code::HistoryNotKept,
        format!(
            "a person has to approve what is read of `{}`, and what a person has to approve is read as it is now alone; use query, \
             which asks for the approval",
            relation.name
        ),
    )
}

/// Why no rows of a table are compared.
pub(super) fn unreadable(relation: &Relation) -> Rejection {
    Rejection::new(
        Code::PolicyNoPermit,
        format!(
            "the rows of `{}` cannot be told from each other by what you see of them",
            relation.name
        ),
    )
}

pub(super) fn unreachable_history(error: &BackendError) -> Rejection {
    Rejection::from(Code::DatabaseUnavailable).with_operator_detail(error.detail.clone())
}

fn find_table<'r>(
    table: &str,
    relations: &'r [VisibleRelation],
    catalog: &Catalog,
) -> Result<&'r VisibleRelation, Rejection> {
    let (dialect, path) = (catalog.dialect(), catalog.search_path());
    let named = VisibleRelation::find_named(relations, table, dialect, path);
    let found: Vec<&VisibleRelation> = named.into_iter().filter(|one| one.readable).collect();
    match found.as_slice() {
        [one] => Ok(one),
        [] => Err(Rejection::new(
            Code::NameUnknownRelation,
            format!("there is no table `{table}` that you may read"),
        )),
        [_, _, ..] => Err(Rejection::new(
            Code::NameAmbiguous,
            format!("`{table}` is in more than one schema; give the schema too"),
        )),
    }
}

/// Rows of which nothing but the key is known.
pub(super) fn name_rows(relation: &Relation, keys: &[Vec<Value>]) -> TableDifference {
    let row = |key: &Vec<Value>| {
        let mut cells = vec![Value::Null; relation.columns.len()];
        for (index, value) in relation.primary_key.iter().zip(key) {
            if let Some(cell) = cells.get_mut(usize::from(*index)) {
                cell.clone_from(value);
            }
        }
        RowDifference {
            before: Some(cells),
            after: None,
        }
    };
    TableDifference {
        schema: relation.schema.clone(),
        table: relation.name.clone(),
        rows: keys.iter().map(row).collect(),
    }
}
