//! A difference as whoever looks may see it: its rows are queried like any rows, under the masks and filters of the session.
//!
//! What is told follows from these queries alone. The raw difference only says which keys to ask for: a row that the session cannot see
//! before or after is not shown, not counted, and its table is not named.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use serde::Serialize;

use crate::{
    answer::{
        Action, EmptyReason, Envelope, Marker, OutputColumn, Room, RowBound, ScanPlan, ScanSession,
        ScannedRows, Scanner, SeverityActions,
    },
    change::{Difference, GeneratedColumns, TableDifference, spell},
    firewall::{Decided, VisibleRelation},
    guard::{
        Backend,
        change::{
            rehearsal::{Lens, Looked},
            viewer::ViewerStanding,
        },
        decide,
        live::Live,
        ticket::Ticket,
    },
    limits::Limits,
    policy::obligation::RowFilter,
    rejection::Rejection,
    rewrite::{Effect, RewrittenStatement},
    session::Session,
    syntax::Wording,
    value::{Params, Value},
};

/// What a change does, as a session may see it.
#[derive(Debug)]
pub struct Preview {
    /// A row for each cell that is different: `table`, `key`, `change`, `column`, `before`, `after`. As many as the limits let through.
    pub rows: Envelope,
    /// How many rows these cells are of, and those of the cells that were left out.
    pub row_counts: RowCounts,
    /// Tables that are not shown row by row, where the session sees every row and column of them: the name, and how many rows are different.
    /// Where policy shows fewer rows than there are, the number is 0.
    pub counted: Vec<(String, u64)>,
    /// For how many milliseconds no other change could be written meanwhile. None where only changes of the same rows had to wait.
    pub lock_held_ms: Option<u64>,
    /// Columns of which other values may be written when the change is kept, `main.orders.created_at`: they are made anew each time. Of
    /// those that the session may see, and where rows may be hidden from it, of those in which a cell is shown.
    pub generated: Vec<String>,
}

/// Rows that are different, as far as policy shows them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RowCounts {
    /// That were not there before.
    pub inserted: u64,
    /// Of which a cell is another one.
    pub updated: u64,
    /// That are not there afterwards.
    pub deleted: u64,
}

impl RowCounts {
    fn add(&mut self, other: Self) {
        let Self {
            inserted,
            updated,
            deleted,
        } = other;
        self.inserted = self.inserted.saturating_add(inserted);
        self.updated = self.updated.saturating_add(updated);
        self.deleted = self.deleted.saturating_add(deleted);
    }
}

impl fmt::Display for RowCounts {
    /// `1 inserted, 2 updated, 0 deleted`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            inserted,
            updated,
            deleted,
        } = self;
        write!(
            f,
            "{inserted} inserted, {updated} updated, {deleted} deleted"
        )
    }
}

/// The lens of a session.
pub(in crate::guard) struct SessionLens {
    pub(in crate::guard) live: Arc<Live<dyn Backend>>,
    pub(in crate::guard) session: Session,
    pub(in crate::guard) limits: Limits,
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    looks: Vec<Look>,
    counted: Vec<(String, u64)>,
    /// Tables and columns of the cells that are shown.
    cells: BTreeSet<(String, String)>,
}

/// A query that shows rows of a table.
struct Look {
    table: String,
    /// How many of its columns, the first ones, are the key.
    keys: usize,
    key_columns: Vec<String>,
    statement: Arc<RewrittenStatement>,
}

/// How cells are searched for text that would instruct a model.
#[derive(Clone, Copy)]
pub(in crate::guard) struct Scanning {
    pub(in crate::guard) actions: SeverityActions,
    pub(in crate::guard) scanner: Scanner,
    pub(in crate::guard) marker: Marker,
    pub(in crate::guard) room: Option<Room>,
}

impl SessionLens {
    pub(in crate::guard) fn new(
        live: Arc<Live<dyn Backend>>,
        session: Session,
        limits: Limits,
    ) -> Self {
        Self {
            live,
            session,
            limits,
            found: Mutex::default(),
        }
    }

    /// Asks for these rows of a table, where the session may: the ticket.
    pub(in crate::guard) fn ask_for(
        &self,
        table: &TableDifference,
        relations: &[VisibleRelation],
    ) -> Option<Arc<RewrittenStatement>> {
        let look = self.look(table, relations)?;
        let statement = Arc::clone(&look.statement);
        self.lock_found().looks.push(look);
        Some(statement)
    }

    /// The query for the rows of `table`, where the session may make it.
    fn look(&self, table: &TableDifference, relations: &[VisibleRelation]) -> Option<Look> {
        let visible = relations
            .iter()
            .find(|one| one.schema == table.schema && one.name == table.table)?;
        let is_plain = |name: &String| {
            let mut columns = visible.columns.iter();
            columns.any(|column| column.name == *name && !column.masked)
        };
        if !visible.readable
            || visible.primary_key.is_empty()
            || !visible.primary_key.iter().all(is_plain)
        {
            return None;
        }
        let rest = |masked: bool| {
            let rest = visible
                .columns
                .iter()
                .filter(move |column| masked || !column.masked);
            rest.map(|column| column.name.as_str())
                .filter(|name| visible.primary_key.iter().all(|key| key != name))
                .collect::<Vec<_>>()
        };
        let params = self.keys(table, &visible.primary_key)?;
        // A policy may keep a masked column from the output altogether, by its usage.
        let statement = self
            .decide(visible, &rest(true), &params)
            .or_else(|| self.decide(visible, &rest(false), &params))?;
        Some(Look {
            table: format!("{}.{}", visible.schema, visible.name),
            keys: visible.primary_key.len(),
            key_columns: visible.primary_key.clone(),
            statement,
        })
    }

    /// The keys of the rows that are different, each column of each in order.
    fn keys(&self, table: &TableDifference, key: &[String]) -> Option<Vec<Vec<Value>>> {
        let catalog = self.live.firewall.catalog();
        let relation = catalog.find(&table.schema, &table.table)?;
        let at = |name: &String| relation.columns.iter().position(|c| *c.name == **name);
        let at: Vec<usize> = key.iter().map(at).collect::<Option<_>>()?;
        let mut keys: Vec<Vec<Value>> = Vec::new();
        let mut seen = BTreeSet::new();
        for cells in table.rows.iter().flat_map(|row| [&row.before, &row.after]) {
            let Some(cells) = cells else {
                continue;
            };
            let key: Vec<Value> = at
                .iter()
                .map(|at| cells.get(*at).cloned())
                .collect::<Option<_>>()?;
            let spelled: Vec<String> = key.iter().map(spell).collect();
            if seen.insert(spelled) {
                keys.push(key);
            }
        }
        Some(keys)
    }

    fn decide(
        &self,
        visible: &VisibleRelation,
        rest: &[&str],
        keys: &[Vec<Value>],
    ) -> Option<Arc<RewrittenStatement>> {
        let dialect = self.live.firewall.catalog().dialect();
        let name = |name: &str| dialect.identifier(name);
        let mut number = 0;
        let mut parameter = || {
            number += 1;
            dialect.placeholder(number)
        };
        let key: Vec<String> = visible.primary_key.iter().map(|key| name(key)).collect();
        let condition = match key.as_slice() {
            [only] => {
                let list: Vec<String> = keys.iter().map(|_| parameter()).collect();
                format!("{only} IN ({})", list.join(", "))
            }
            several => {
                let row = |_: &Vec<Value>| {
                    let parts = several.iter().map(|key| format!("{key} = {}", parameter()));
                    format!("({})", parts.collect::<Vec<_>>().join(" AND "))
                };
                keys.iter().map(row).collect::<Vec<_>>().join(" OR ")
            }
        };
        let columns = key
            .iter()
            .cloned()
            .chain(rest.iter().map(|rest| name(rest)));
        let sql = format!(
            "SELECT {} FROM {}.{} WHERE {condition}",
            columns.collect::<Vec<_>>().join(", "),
            name(&visible.schema),
            name(&visible.name)
        );
        let params = Params::Positional(keys.iter().flatten().cloned().collect());
        let wording = Wording::from(sql.as_str());
        match decide(&self.live, wording, &params, &self.session, &self.limits).ok()? {
            Decided::Allow(statement) if statement.effect() == Effect::Read => {
                Some(Arc::from(statement))
            }
            // What waits for a person is not shown meanwhile.
            Decided::Allow(_) | Decided::Pending(_, _) | Decided::Reject(_) => None,
        }
    }

    /// Whether the session sees every row of a table, and every column plain: how many rows are different would tell whether a hidden
    /// value is what the change writes.
    fn sees_whole(&self, table: &TableDifference, relations: &[VisibleRelation]) -> bool {
        let firewall = &self.live.firewall;
        let Some(relation) = firewall.catalog().find(&table.schema, &table.table) else {
            return false;
        };
        if !relations.iter().any(|one| one.is_plain(relation)) {
            return false;
        }
        let view = firewall.policies().session(&self.session);
        view.relation(relation.id)
            .is_ok_and(|decision| decision.rows == RowFilter::Everything)
    }

    /// What the queries gave, as an answer.
    ///
    /// # Errors
    /// `output.blocked` if something in it reads as instructions, and such answers are blocked.
    pub(in crate::guard) fn show(
        &self,
        looked: Vec<Looked>,
        scanning: Scanning,
    ) -> Result<Preview, Rejection> {
        let mut shown = Shown::new(&self.limits, &COLUMNS, scanning);
        self.add_rows(looked, None, &mut shown)?;
        shown.finish()
    }

    /// Adds what the queries gave to what is shown, behind the `moment` where there is a column for it.
    ///
    /// # Errors
    /// `output.blocked` if something in it reads as instructions, and such answers are blocked.
    pub(in crate::guard) fn add_rows(
        &self,
        looked: Vec<Looked>,
        moment: Option<&str>,
        shown: &mut Shown,
    ) -> Result<(), Rejection> {
        let found = std::mem::take(&mut *self.lock_found());
        shown.counted.extend(found.counted);
        let mut cells = BTreeSet::new();
        for (look, looked) in found.looks.iter().zip(looked) {
            let of_table = look.statement.scan_plan();
            let before = take(of_table, looked.before, shown.scanning)?;
            let after = take(of_table, looked.after, shown.scanning)?;
            let is_cut = before.truncation().is_some() || after.truncation().is_some();
            if is_cut {
                // Of a part it would not be known which rows are new. How many there are is more than policy shows.
                shown.counted.push((look.table.clone(), 0));
                continue;
            }
            let names: Vec<&str> = of_table.columns.iter().map(|c| &*c.name).collect();
            let mut rows = Vec::new();
            let counts = compare(
                look,
                &names,
                (before.into_values(), after.into_values()),
                &mut rows,
            );
            shown.row_counts.add(counts);
            // Of rows that are not seen, and of values that are not, nothing is said, as if they had not become others.
            if rows.is_empty() {
                continue;
            }
            let mut note = |column: &str| cells.insert((look.table.clone(), column.to_owned()));
            if counts.inserted > 0 {
                for key in &look.key_columns {
                    note(key);
                }
            }
            for row in &rows {
                if let Some(Value::Text(column)) = row.get(COLUMN) {
                    note(&String::from_utf8_lossy(column));
                }
            }
            let is_masked = of_table.columns.iter().any(|column| column.masked);
            for column in shown.plan.columns.iter_mut().rev().take(VALUES) {
                column.masked |= is_masked;
            }
            for used in &of_table.masked_uses {
                if !shown.plan.masked_uses.contains(used) {
                    shown.plan.masked_uses.push(used.clone());
                }
            }
            if let Some(moment) = moment {
                for row in &mut rows {
                    row.insert(0, Value::text(moment));
                }
            }
            shown.rows.extend(rows);
        }
        self.lock_found().cells = cells;
        Ok(())
    }

    /// The names of these columns, of those that the session may see. That a value is made anew tells that there is a row which the change
    /// reaches. So who sees a part of the rows is told of columns in which a cell is shown.
    pub(super) fn name_generated(
        &self,
        generated: &GeneratedColumns,
        standing: ViewerStanding,
    ) -> Vec<String> {
        let relations = self.live.firewall.relations(&self.session);
        let relations = relations.unwrap_or_default();
        let is_seen = |(schema, table, column): &&(String, String, String)| {
            let mut seen = relations
                .iter()
                .filter(|one| one.schema == *schema && one.name == *table && one.readable);
            seen.any(|one| one.columns.iter().any(|seen| seen.name == *column))
        };
        let found = self.lock_found();
        let is_told = |(schema, table, column): &&(String, String, String)| match standing {
            ViewerStanding::Proposer | ViewerStanding::SeesAll => true,
            ViewerStanding::SeesPart => {
                let cell = (format!("{schema}.{table}"), column.clone());
                found.cells.contains(&cell)
            }
        };
        let seen = generated.iter().filter(is_seen).filter(is_told);
        seen.map(|(schema, table, column)| format!("{schema}.{table}.{column}"))
            .collect()
    }

    fn lock_found(&self) -> std::sync::MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Differences that are collected to be shown.
pub(in crate::guard) struct Shown {
    plan: ScanPlan,
    rows: Vec<Vec<Value>>,
    row_counts: RowCounts,
    counted: Vec<(String, u64)>,
    scanning: Scanning,
}

impl Shown {
    /// Nothing yet, under `columns`, each with its type. The last two are a value before and after.
    pub(in crate::guard) fn new(
        limits: &Limits,
        columns: &[(&str, &str)],
        scanning: Scanning,
    ) -> Self {
        let columns = columns.iter().map(|(name, type_name)| OutputColumn {
            name: (*name).into(),
            type_name: (*type_name).into(),
            masked: false,
        });
        Self {
            plan: ScanPlan {
                columns: columns.collect(),
                max_rows: limits.max_rows,
                row_bound: RowBound::Limit,
                max_result_bytes: limits.max_result_bytes,
                max_cell_bytes: limits.max_cell_bytes,
                if_empty: EmptyReason::NoMatchOrFiltered,
                masked_uses: Vec::new(),
                quoted_texts: Vec::new(),
                identities: Vec::new(),
                tokens: Vec::new(),
            },
            rows: Vec::new(),
            row_counts: RowCounts::default(),
            counted: Vec::new(),
            scanning,
        }
    }

    /// Whether no more rows would be shown.
    pub(in crate::guard) fn is_full(&self) -> bool {
        u64::try_from(self.rows.len()).is_ok_and(|count| count > self.plan.max_rows)
    }

    /// The answer.
    ///
    /// # Errors
    /// `output.blocked`.
    pub(in crate::guard) fn finish(self) -> Result<Preview, Rejection> {
        let Self {
            plan,
            rows,
            row_counts,
            counted,
            scanning,
        } = self;
        let mut scan =
            ScanSession::with_scanner(&plan, scanning.actions, scanning.scanner, scanning.marker);
        if let Some(room) = scanning.room {
            scan = scan.keep_within(room);
        }
        for row in rows {
            if scan.push(row).is_break() {
                break;
            }
        }
        Ok(Preview {
            rows: Envelope::new(scan.finish()?),
            row_counts,
            counted,
            lock_held_ms: None,
            generated: Vec::new(),
        })
    }
}

/// How many of the columns of what is shown, the last ones, are values.
const VALUES: usize = 2;

/// Which of them is the column's name.
const COLUMN: usize = 3;

/// The columns of what is shown.
pub(super) const COLUMNS: [(&str, &str); 6] = [
    ("table", "TEXT"),
    ("key", "TEXT"),
    ("change", "TEXT"),
    ("column", "TEXT"),
    ("before", ""),
    ("after", ""),
];

impl Lens for SessionLens {
    fn looks(&self, difference: &Difference) -> Vec<Ticket> {
        let relations = self.live.firewall.relations(&self.session);
        let relations = relations.unwrap_or_default();
        let mut found = Found::default();
        for table in &difference.tables {
            match self.look(table, &relations) {
                Some(look) => found.looks.push(look),
                None if self.sees_whole(table, &relations) => {
                    let count = u64::try_from(table.rows.len()).unwrap_or(u64::MAX);
                    found
                        .counted
                        .push((format!("{}.{}", table.schema, table.table), count));
                }
                None => {}
            }
        }
        let tickets = found
            .looks
            .iter()
            .map(|look| Ticket::issue(&look.statement));
        let tickets = tickets.collect();
        *self.lock_found() = found;
        tickets
    }
}

/// Rows of one table as they may leave: with tokens in the place of what tokens stand for.
fn take(
    plan: &ScanPlan,
    rows: Vec<Vec<Value>>,
    scanning: Scanning,
) -> Result<ScannedRows, Rejection> {
    let mut scan = ScanSession::with_scanner(
        plan,
        // The rows that are made of these are searched again.
        Action::Flag,
        scanning.scanner,
        scanning.marker,
    );
    for row in rows {
        if scan.push(row).is_break() {
            break;
        }
    }
    scan.finish()
}

/// The cells that are different, and of how many rows they are.
fn compare(
    look: &Look,
    names: &[&str],
    (before, after): (Vec<Vec<Value>>, Vec<Vec<Value>>),
    out: &mut Vec<Vec<Value>>,
) -> RowCounts {
    let by_key = |rows: Vec<Vec<Value>>| -> BTreeMap<String, Vec<Value>> {
        let named = rows.into_iter().map(|row| {
            let key = look.key_columns.iter().zip(&row).take(look.keys);
            let key = key.map(|(name, value)| format!("{name}={}", write(value)));
            (key.collect::<Vec<_>>().join(", "), row)
        });
        named.collect()
    };
    let (before, mut after) = (by_key(before), by_key(after));
    let cells = |row: &[Value]| row.iter().skip(look.keys).cloned().collect::<Vec<_>>();
    let mut push = |key: &str, change: &str, column: &str, (old, new): (Value, Value)| {
        let text = |text: &str| Value::text(text);
        out.push(vec![
            text(&look.table),
            text(key),
            text(change),
            text(column),
            old,
            new,
        ]);
    };
    let names: Vec<&str> = names.iter().skip(look.keys).copied().collect();
    let mut counts = RowCounts::default();
    for (key, old) in &before {
        match after.remove(key) {
            Some(new) => {
                counts.updated += u64::from(cells(old) != cells(&new));
                for (name, (old, new)) in names.iter().zip(cells(old).into_iter().zip(cells(&new)))
                {
                    if old != new {
                        push(key, "update", name, (old, new));
                    }
                }
            }
            None => {
                counts.deleted += 1;
                for (name, old) in names.iter().zip(cells(old)) {
                    push(key, "delete", name, (old, Value::Null));
                }
                if names.is_empty() {
                    push(key, "delete", "", (Value::Null, Value::Null));
                }
            }
        }
    }
    for (key, new) in after {
        counts.inserted += 1;
        for (name, new) in names.iter().zip(cells(&new)) {
            push(&key, "insert", name, (Value::Null, new));
        }
        if names.is_empty() {
            push(&key, "insert", "", (Value::Null, Value::Null));
        }
    }
    counts
}

/// A value of a key, for a person.
fn write(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Bool(bool) => bool.to_string(),
        Value::Integer(integer) => integer.to_string(),
        Value::Real(real) => real.to_string(),
        Value::Text(text) | Value::Blob(text) => String::from_utf8_lossy(text).into_owned(),
    }
}
