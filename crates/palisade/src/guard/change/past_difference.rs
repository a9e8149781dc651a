//! What is different of a table between two moments, or since one.
//!
//! The database tells the keys of rows that were written in between. Their rows are queried as of both moments, like any rows: under the masks
//! and filters of whoever asks.

use std::sync::Arc;

use crate::{
    answer::{AsOf, Marker},
    catalog::Relation,
    change::{RowDifference, TableDifference},
    code::Code,
    firewall::VisibleRelation,
    guard::{
        Backend, Guard, Preview, Refusal,
        backend_error::describe_failure,
        change::{
            ChangeCall, Looked,
            preview::{Scanning, SessionLens},
        },
        internal,
        live::Live,
        ticket::Ticket,
    },
    past::Label,
    rejection::Rejection,
    rewrite::RewrittenStatement,
    session::Session,
    value::{KeptRows, Value},
};

/// Rows that may have been written in between, by whoever.
const MAX_KEYS: u32 = 10_000;

/// Rows that one query asks for.
const ROWS_AT_ONCE: u64 = 500;

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
    label: Option<Label>,
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
        let compared = self.compare_moments(table, moments, call).await;
        compared.map_err(|rejection| self.refusal(rejection))
    }

    async fn compare_moments(
        &self,
        table: &str,
        moments: Moments<'_>,
        call: ChangeCall<'_>,
    ) -> Result<PastDifference, Rejection> {
        let live = self.current.get();
        let firewall = &live.firewall;
        let session = self.now(firewall, call.session);
        let relations = firewall.relations(&session)?;
        let visible = find_table(table, &relations)?;
        let catalog = firewall.catalog();
        let relation = catalog
            .find(&visible.schema, &visible.name)
            .ok_or_else(|| internal("a table that is seen is not in the catalog"))?;
        if catalog.companion(relation).is_none() {
            return Err(Rejection::new(
                Code::HistoryNotKept,
                format!("no history of `{}` is kept", visible.name),
            ));
        }
        let first = self.ask_at(Some(moments.from), &session)?;
        let second = self.ask_at(moments.to, &session)?;
        let (Some(from), Some(since)) = (&first.told, &first.label) else {
            return Err(internal("the first moment is none"));
        };
        let between = (since, second.label.as_ref());
        let keys = live.backend.list_changed_keys(relation, between, MAX_KEYS);
        let keys = keys.await.map_err(|error| {
            Rejection::new(
                Code::DatabaseUnavailable,
                Code::DatabaseUnavailable.summary(),
            )
            .with_operator_detail(error.detail)
        })?;
        if keys.len() > usize::try_from(MAX_KEYS).unwrap_or(usize::MAX) {
            return Err(Rejection::new(
                Code::LimitAffectedRows,
                format!(
                    "more than {MAX_KEYS} rows were written in between; ask about a shorter time"
                ),
            ));
        }
        let limits = call.limits.unwrap_or(firewall.limits()).clone();
        let lens = |asked: &Asked| {
            SessionLens::new(Arc::clone(&live), asked.session.clone(), limits.clone())
        };
        let (before, after) = (lens(&first), lens(&second));
        let unreadable = || {
            Rejection::new(
                Code::PolicyNoPermit,
                format!(
                    "the rows of `{}` cannot be told from each other by what you see of them",
                    visible.name
                ),
            )
        };
        let at_once = usize::try_from(ROWS_AT_ONCE.min(limits.max_rows)).unwrap_or(1);
        let mut looked = Vec::new();
        for keys in keys.chunks(at_once.max(1)) {
            let rows = name_rows(relation, keys);
            let old = before.ask_for(&rows, &relations).ok_or_else(unreadable)?;
            let new = after.ask_for(&rows, &relations).ok_or_else(unreadable)?;
            looked.push(Looked {
                before: self.run_look(&live, &old, &first.session).await?,
                after: self.run_look(&live, &new, &second.session).await?,
            });
        }
        let scanning = Scanning {
            actions: self.on_finding,
            scanner: self.scanner,
            marker: Marker::from_bytes(self.host.random().map_err(|why| internal(&why))?),
            room: call.room,
        };
        Ok(PastDifference {
            from: from.clone(),
            to: second.told,
            preview: before.show(looked, scanning)?,
        })
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
                label: None,
                told: None,
            });
        };
        let (label, told) = self.look_up(moment)?;
        Ok(Asked {
            session: session.clone().as_of(label.clone()),
            label: Some(label),
            told: Some(told),
        })
    }
}

fn find_table<'r>(
    table: &str,
    relations: &'r [VisibleRelation],
) -> Result<&'r VisibleRelation, Rejection> {
    let named = |one: &&VisibleRelation| {
        one.readable && (one.name == table || format!("{}.{}", one.schema, one.name) == table)
    };
    let found: Vec<&VisibleRelation> = relations.iter().filter(named).collect();
    match found.as_slice() {
        [one] => Ok(one),
        [] => Err(Rejection::new(
            Code::NameUnknownRelation,
            format!("there is no table `{table}` that you may read"),
        )),
        [_, _, ..] => Err(Rejection::new(
            Code::NameUnknownRelation,
            format!("there are several tables `{table}`; write the schema too"),
        )),
    }
}

/// Rows of which nothing but the key is known.
fn name_rows(relation: &Relation, keys: &[Vec<Value>]) -> TableDifference {
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
