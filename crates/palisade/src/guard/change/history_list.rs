//! What became of a table's rows, or of one row, from moment to moment.
//!
//! The database tells which transactions wrote them. Rows are then compared between the last moment before each and the first one after it,
//! as any two moments are: under the masks and filters of whoever asks.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    ChangeCall,
    ledger::read_key,
    past_difference::{name_rows, unreachable_history, unreadable},
    preview::{COLUMNS, Preview, SessionLens, Shown},
};
use crate::{
    answer::AsOf,
    catalog::Relation,
    code::Code,
    firewall::VisibleRelation,
    guard::{
        Backend, BackendError, BackendErrorKind, Cancel, Guard, Refusal,
        live::Live,
        past::require_answers,
        reading::{Given, Reading},
        run::Run,
    },
    limits::Limits,
    past::{KeptLabel, Label},
    rejection::Rejection,
    session::Session,
    value::Value,
};

/// The most writes that are looked for, hidden ones among them: transactions, or changes of rows where the engine numbers these.
const MAX_WRITES: u32 = 10_000;

/// The column that a list has in front of those of a difference.
const MOMENT: (&str, &str) = ("moment", "TEXT");

/// What stands for the moment of what is newer than all that are kept.
const NOW: &str = "now";

/// Rows, to ask for their history.
#[derive(Debug, Clone, Copy)]
pub struct PastRows<'a> {
    /// Their table, with or without the schema.
    pub table: &'a str,
    /// One of its rows, by the values of all columns of the primary key; all rows where there is none.
    pub key: Option<&'a BTreeMap<String, Value>>,
}

/// What became of rows.
#[derive(Debug)]
pub struct PastHistory {
    /// The moment at which the list begins; none where it goes back as far as the history does.
    pub from: Option<AsOf>,
    /// The cells that became different, newest first, each with the first moment at which it was so.
    pub preview: Preview,
}

impl Reading for PastHistory {
    fn as_given(&self) -> Given<'_> {
        Given::Rows(&self.preview.rows)
    }
}

/// Two moments that follow one another, between which rows were written.
struct Step {
    before: KeptLabel,
    /// None for now.
    after: Option<KeptLabel>,
}

impl Step {
    /// Whether what was written in it is not newer than a moment.
    fn is_before(&self, since: &KeptLabel) -> bool {
        let until = self.after.as_ref();
        until.is_some_and(|until| until.taken_ms <= since.taken_ms)
    }
}

/// What is asked for, and by whom.
struct Asked {
    live: Arc<Live<dyn Backend>>,
    relation: Relation,
    /// The key of the only row; all rows where there is none.
    row: Option<Vec<Vec<Value>>>,
    session: Session,
    limits: Limits,
}

impl Guard {
    /// What became of the rows of a table, or of one of them, newest first: since a moment, or as far back as history goes.
    ///
    /// It tells of the last ten thousand writes, by whoever, and of as many cells as rows may be given, within the time of one statement.
    /// Where there may be more, `from` is later than was asked.
    ///
    /// # Errors
    /// `history.*` where a moment cannot be asked about, `request.invalid` for a key that is not the table's.
    pub async fn list_history(
        &self,
        rows: PastRows<'_>,
        since: Option<&str>,
        call: ChangeCall<'_>,
    ) -> Result<PastHistory, Refusal> {
        let mut run = self.begin_reading();
        let listed = match self.admit_reading(call.session, &run) {
            Ok(()) => self.list_past(rows, since, call, &mut run).await,
            Err(rejection) => Err(rejection),
        };
        self.end_reading(("list_history", call.session), run, listed)
    }

    async fn list_past(
        &self,
        rows: PastRows<'_>,
        since: Option<&str>,
        call: ChangeCall<'_>,
        run: &mut Run,
    ) -> Result<PastHistory, Rejection> {
        let live = Arc::clone(&run.live);
        let firewall = &live.firewall;
        let session = self.now(firewall, call.session).into_owned();
        let relation = self.find_past_table(&live, rows.table, &session)?;
        let relations = firewall.relations(&session)?;
        let visible = find_visible(&relation, &relations)?;
        let key = match rows.key {
            Some(key) => Some(read_key(&visible.primary_key, key)?),
            None => None,
        };
        let since = match since {
            Some(moment) => Some(self.find_kept(moment)?),
            None => None,
        };
        if let Some(since) = &since {
            let (label, _) = self.read_kept(since.clone())?;
            require_reach(&live, &relation, &label).await?;
        }
        let newest = self.find_newest()?;
        let limits = call.limits.unwrap_or(firewall.limits()).clone();
        let lens = |session: Session| SessionLens::new(Arc::clone(&live), session, limits.clone());
        // Whether they may be asked for is told before it is known whether there is anything.
        let (label, _) = self.read_kept(newest.clone())?;
        let keys = vec![
            key.clone()
                .unwrap_or_else(|| vec![Value::Null; visible.primary_key.len()]),
        ];
        let first = lens(session.clone().as_of(label))
            .ask_for(&name_rows(&relation, &keys), &relations)?
            .ok_or_else(|| unreadable(&relation))?;
        for statement in &first {
            run.note_look(statement);
        }
        let asked = Asked {
            live: Arc::clone(&live),
            relation,
            row: key.map(|key| vec![key]),
            session,
            limits,
        };
        let key = asked.row.as_ref().and_then(|row| row.first());
        let key = key.map(Vec::as_slice);
        let writes = live
            .backend
            .list_writes(&asked.relation, key, MAX_WRITES + 1);
        let mut writes = writes.await.map_err(|error| explain(&error, key))?;
        let is_cut = u32::try_from(writes.len()).is_ok_and(|count| count > MAX_WRITES);
        if is_cut {
            writes.pop();
        }
        let columns: Vec<_> = std::iter::once(MOMENT).chain(COLUMNS).collect();
        let mut shown = Shown::new(&asked.limits, &columns, self.scanning(call.room)?);
        let began = self.host.monotonic();
        let (mut reached, mut is_part, mut is_seen) = (None, is_cut, asked.row.is_none());
        for step in self.list_steps(newest, &writes)? {
            if since.as_ref().is_some_and(|since| step.is_before(since)) {
                // All that is cut is older still.
                is_part = false;
                break;
            }
            if call.cancel.is_some_and(Cancel::is_set) {
                let code = Code::LimitCancelled;
                return Err(Rejection::from(code));
            }
            let took = self.host.monotonic().saturating_sub(began);
            if took > asked.limits.statement_timeout() {
                if reached.is_none() {
                    return Err(Rejection::from(Code::LimitTime));
                }
                is_part = true;
                break;
            }
            match self.look_at_step(&asked, step, &mut shown, run).await {
                Ok((told, has_rows)) => {
                    reached = Some(told);
                    is_seen |= has_rows;
                    // Whether there are older steps is not told: nothing of them may be seen.
                    if shown.is_full() {
                        is_part = true;
                        break;
                    }
                }
                Err(rejection) if since.is_none() && begins_later(&rejection) => {
                    is_part = false;
                    break;
                }
                Err(rejection) => return Err(rejection),
            }
        }
        let from = match since {
            // Of a row that is never seen, it is not told that it was written.
            Some(_) | None if is_part && is_seen => reached,
            Some(since) => Some(self.read_kept(since)?.1),
            None => None,
        };
        let preview = shown.finish()?;
        Ok(PastHistory { from, preview })
    }

    /// Adds to `shown` what became different in a step: the moment before it, and whether any row was seen.
    async fn look_at_step(
        &self,
        asked: &Asked,
        step: Step,
        shown: &mut Shown,
        run: &mut Run,
    ) -> Result<(AsOf, bool), Rejection> {
        let lens = |session: Session| {
            SessionLens::new(Arc::clone(&asked.live), session, asked.limits.clone())
        };
        let (label, told) = self.read_kept(step.before)?;
        let before = lens(asked.session.clone().as_of(label));
        let (after, moment) = match step.after {
            Some(after) => {
                let (label, told) = self.read_kept(after)?;
                (lens(asked.session.clone().as_of(label)), told.taken)
            }
            None => (lens(asked.session.clone()), NOW.to_owned()),
        };
        let lenses = (&before, &after);
        let looked = match &asked.row {
            Some(row) => self.look_at_rows(&asked.relation, row, lenses, run).await?,
            None => self.look_twice(&asked.relation, lenses, run).await?,
        };
        let has_rows = !looked.before.is_empty() || !looked.after.is_empty();
        before.add_rows(vec![looked], Some(&moment), shown)?;
        Ok((told, has_rows))
    }

    /// The last moment that is kept.
    ///
    /// # Errors
    /// `history.unknown-snapshot` where there is none.
    fn find_newest(&self) -> Result<KeptLabel, Rejection> {
        self.find_kept_at(u64::MAX)?.ok_or_else(|| {
            Rejection::new(
                Code::HistoryUnknown,
                "no moment of this database is kept yet; take a snapshot, and what is written from then on is known",
            )
        })
    }

    /// Between which moments these transactions committed, which are told newest first; each two moments once.
    fn list_steps(&self, newest: KeptLabel, writes: &[u64]) -> Result<Vec<Step>, Rejection> {
        let (label, _) = self.read_kept(newest.clone())?;
        let epoch = label.state().epoch().to_owned();
        let sees = |kept: &KeptLabel, transaction: u64| -> Result<bool, Rejection> {
            let (label, _) = self.read_kept(kept.clone())?;
            let state = label.state();
            Ok(state.epoch() == epoch && state.has_seen(transaction))
        };
        let mut steps: Vec<Step> = Vec::new();
        for transaction in writes {
            if let Some(Step {
                before,
                after: Some(after),
            }) = steps.last()
                && sees(after, *transaction)?
                && !sees(before, *transaction)?
            {
                continue;
            }
            if !sees(&newest, *transaction)? {
                if steps.is_empty() {
                    steps.push(Step {
                        before: newest.clone(),
                        after: None,
                    });
                }
                continue;
            }
            // The first moment that sees it: those before it do not, those after it do.
            let (mut first, mut low) = (newest.clone(), 0);
            while low < first.taken_ms {
                let middle = low + (first.taken_ms - low) / 2;
                match self.find_kept_at(middle)? {
                    Some(kept) if sees(&kept, *transaction)? => first = kept,
                    Some(_) | None => low = middle + 1,
                }
            }
            let is_known = |step: &Step| {
                let after = step.after.as_ref();
                after.is_some_and(|after| after.taken_ms == first.taken_ms)
            };
            if steps.iter().any(is_known) {
                continue;
            }
            let before = match first.taken_ms.checked_sub(1) {
                Some(earlier) => self.find_kept_at(earlier)?,
                None => None,
            };
            if let Some(before) = before {
                steps.push(Step {
                    before,
                    after: Some(first),
                });
            }
        }
        Ok(steps)
    }
}

/// Requires that a table's history answers for a moment.
async fn require_reach(
    live: &Live<dyn Backend>,
    relation: &Relation,
    label: &Label,
) -> Result<(), Rejection> {
    let companion = live.firewall.catalog().companion(relation);
    let companion =
        std::slice::from_ref(companion.ok_or_else(|| Rejection::internal("no history"))?);
    let standing = live.backend.check_label(label, companion).await;
    require_answers(standing.map_err(|error| unreachable_history(&error))?)
}

/// What whoever asks sees of a table, if its rows can be told from each other by that.
fn find_visible<'r>(
    relation: &Relation,
    relations: &'r [VisibleRelation],
) -> Result<&'r VisibleRelation, Rejection> {
    let mut all = relations.iter();
    let visible = all.find(|one| one.schema == relation.schema && one.name == relation.name);
    let has_key = |one: &&VisibleRelation| {
        let is_plain = |name: &String| {
            let mut columns = one.columns.iter();
            columns.any(|column| column.name == *name && !column.masked)
        };
        !one.primary_key.is_empty() && one.primary_key.iter().all(is_plain)
    };
    visible.filter(has_key).ok_or_else(|| unreadable(relation))
}

/// Whether a moment is before all that history knows.
fn begins_later(rejection: &Rejection) -> bool {
    matches!(
        rejection.code(),
        Code::HistoryTooEarly | Code::HistoryForeign
    )
}

/// Why the transactions that wrote rows are not known.
fn explain(error: &BackendError, key: Option<&[Value]>) -> Rejection {
    if error.kind == BackendErrorKind::Rejected && key.is_some() {
        return Rejection::new(
            Code::RequestInvalid,
            "`key` has a value that is not of its column's type",
        );
    }
    unreachable_history(error)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::{
        catalog::test_ddl,
        firewall::Firewall,
        policy::{PolicyFile, PolicySources},
        session::Principal,
    };

    /// Rows whose keys are masked cannot be told from each other.
    #[test]
    fn history_is_told_of_rows_whose_whole_key_is_seen() {
        let schema = "CREATE TABLE t (a integer, b integer, n integer, PRIMARY KEY (a, b));";
        let catalog = test_ddl::postgres(schema, "d").unwrap();
        let relation = catalog.find("public", "t").unwrap().clone();
        for (column, is_told) in [("a", false), ("b", false), ("n", true)] {
            for effect in [
                "@mask(\"null\") forbid(principal, action == Action::\"read_plain\",",
                "forbid(principal, action in Action::\"read\",",
            ] {
                let sources = PolicySources {
                    policies: vec![PolicyFile {
                        name: "p.cedar".to_owned(),
                        text: format!(
                            "permit(principal, action, resource);\n{effect} resource == Column::\"public.t.{column}\");"
                        ),
                    }],
                    ..PolicySources::default()
                };
                let firewall = Firewall::builder(catalog.clone(), sources).build().unwrap();
                let session = Session::new(Principal::new("Agent", "a"));
                let relations = firewall.relations(&session).unwrap();
                let found = find_visible(&relation, &relations);
                assert_eq!(found.is_ok(), is_told, "{column} {effect}");
            }
        }
    }
}
