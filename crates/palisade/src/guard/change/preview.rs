//! A difference as whoever looks may see it: its rows are queried like any rows, under the masks and filters of the session.
//!
//! What is told follows from these queries alone. The raw difference only says which keys to ask for: a row that the session cannot see
//! before or after is not shown, not counted, and its table is not named.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Serialize, Serializer};

use crate::{
    answer::{
        Action, EmptyReason, Envelope, Marker, OutputColumn, Room, RowBound, ScanPlan, ScanSession,
        ScannedRows, Scanner, SeverityActions,
    },
    catalog::Relation,
    change::{Difference, GeneratedColumns, TableDifference, spell},
    firewall::{Decided, VisibleRelation},
    guard::{
        Backend,
        change::{
            rehearsal::{BeforeAndAfter, Lens},
            viewer::{ToldGenerated, is_table},
        },
        live::Live,
        permit::decide,
        question::Question,
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
    /// Tables that are not shown row by row.
    pub counted: Vec<(String, ChangedRows)>,
    /// For how many milliseconds no other change could be written meanwhile. None where only changes of the same rows had to wait.
    pub lock_held_ms: Option<u64>,
    /// Columns of which other values may be written when the change is kept, `main.orders.created_at`: they are made anew each time. Of
    /// those that the session may see, and where rows may be hidden from it, of those in which a cell is shown.
    pub generated: Vec<String>,
}

/// What is told of a table that is not shown row by row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangedRows {
    /// How many rows are different: the session sees every row and column.
    Count(u64),
    /// More than a cap of policy lets an answer show.
    MoreThanPolicyShows,
    /// The session may read the table, and not the rows that its statements would change: it has no key that it sees in plain, or policy
    /// has such queries refused or approved first. It is told whether any is different or not.
    NotShown,
}

impl fmt::Display for ChangedRows {
    /// `2 rows`, `more than policy shows`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(rows) => write!(f, "{rows} rows"),
            Self::MoreThanPolicyShows => f.write_str("more than policy shows"),
            Self::NotShown => {
                f.write_str("not shown: policy keeps from you which of its rows are changed")
            }
        }
    }
}

impl Serialize for ChangedRows {
    /// A number, or text where there is none to tell.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Count(rows) => serializer.serialize_u64(*rows),
            Self::MoreThanPolicyShows | Self::NotShown => serializer.collect_str(self),
        }
    }
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

    fn total(self) -> u64 {
        let Self {
            inserted,
            updated,
            deleted,
        } = self;
        inserted.saturating_add(updated).saturating_add(deleted)
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
    counted: Vec<(String, ChangedRows)>,
    /// Why rows cannot be asked for that policy would show.
    fault: Option<Rejection>,
    /// Tables and columns of the cells that are shown.
    cells: BTreeSet<(String, String)>,
}

/// The rows of a table that one query asks for. What is told is of the rows of all queries, so that it does not follow from this number.
const ROWS_AT_ONCE: usize = 500;

/// Those of a key of several columns: each row has a condition of its own, and statements have few of them.
const LONG_KEYS_AT_ONCE: usize = 100;

/// The queries that show rows of a table.
struct Look {
    table: String,
    /// How many of its columns, the first ones, are the key.
    keys: usize,
    key_columns: Vec<String>,
    /// How the rows are scanned: as those of one query.
    plan: ScanPlan,
    /// The most rows that policy lets an answer have, where it says so.
    cap: Option<u64>,
    statements: Vec<Arc<RewrittenStatement>>,
    /// In how many parts their rows are given.
    parts: usize,
}

/// Why the rows of a table are not asked for.
enum NoLook {
    /// The table does not exist for the session.
    Unknown,
    /// Policy does not let its rows be told from each other, or not be read here.
    Withheld,
    /// Policy would, and it cannot be done.
    Fault(Rejection),
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

    /// Asks for these rows of a table, where the session may: the queries, whose rows are shown together.
    ///
    /// # Errors
    /// If policy would let them be asked for, and they cannot be.
    pub(in crate::guard) fn ask_for(
        &self,
        table: &TableDifference,
        relations: &[VisibleRelation],
    ) -> Result<Option<Vec<Arc<RewrittenStatement>>>, Rejection> {
        let look = match self.look(table, relations) {
            Ok(look) => Look { parts: 1, ..look },
            Err(NoLook::Unknown | NoLook::Withheld) => return Ok(None),
            Err(NoLook::Fault(rejection)) => return Err(rejection),
        };
        let statements = look.statements.clone();
        self.lock_found().looks.push(look);
        Ok(Some(statements))
    }

    /// Of tables that the statements of a change write, by the database's names, those whose rows the session may read and is not shown.
    /// It follows from policies alone, and from no row.
    pub(super) fn list_withheld(&self, written: &BTreeSet<&str>) -> Vec<(String, ChangedRows)> {
        let firewall = &self.live.firewall;
        let relations = firewall.relations(&self.session).unwrap_or_default();
        let catalog = firewall.catalog().relations().iter();
        // What is written through a view is shown as rows of its tables.
        let written =
            catalog.filter(|one| is_table(one) && written.contains(one.database_name().as_str()));
        let is_withheld = |relation: &&Relation| {
            let table = TableDifference {
                schema: relation.schema.clone(),
                table: relation.name.clone(),
                rows: Vec::new(),
            };
            matches!(self.look(&table, &relations), Err(NoLook::Withheld))
                && !self.sees_whole(&table, &relations)
        };
        let withheld = written.filter(is_withheld);
        withheld
            .map(|one| {
                (
                    format!("{}.{}", one.schema, one.name),
                    ChangedRows::NotShown,
                )
            })
            .collect()
    }

    /// The queries for the rows of `table`, where the session may make them.
    fn look(&self, table: &TableDifference, relations: &[VisibleRelation]) -> Result<Look, NoLook> {
        let mut all = relations.iter();
        let visible = all.find(|one| one.schema == table.schema && one.name == table.table);
        let visible = visible.filter(|one| one.readable).ok_or(NoLook::Unknown)?;
        let is_plain = |name: &String| {
            let mut columns = visible.columns.iter();
            columns.any(|column| column.name == *name && !column.masked)
        };
        if visible.primary_key.is_empty() || !visible.primary_key.iter().all(is_plain) {
            return Err(NoLook::Withheld);
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
        // Whether rows may be asked for is told by a query that names none of them.
        let nobody = [vec![Value::Null; visible.primary_key.len()]];
        // A policy may keep a masked column from the output altogether, by its usage.
        let mut columns = rest(true);
        let first = match self.decide(visible, &columns, &nobody)? {
            Some(first) => first,
            None => {
                columns = rest(false);
                let first = self.decide(visible, &columns, &nobody)?;
                first.ok_or(NoLook::Withheld)?
            }
        };
        let of_one = first.scan_plan();
        let cap = match of_one.row_bound {
            RowBound::Policy | RowBound::PolicyOrRefusal => Some(of_one.max_rows),
            RowBound::Limit => None,
        };
        let keys = self.keys(table, &visible.primary_key)?;
        let at_once = match visible.primary_key.as_slice() {
            [_] => ROWS_AT_ONCE,
            [] | [_, ..] => LONG_KEYS_AT_ONCE,
        };
        // No query is cut off.
        let at_once = usize::try_from(of_one.max_rows).map_or(at_once, |most| most.min(at_once));
        let mut statements = Vec::new();
        for keys in keys.chunks(at_once.max(1)) {
            self.decide_all(visible, &columns, keys, &mut statements)?;
        }
        let plan = ScanPlan {
            max_rows: u64::MAX,
            row_bound: RowBound::Limit,
            max_result_bytes: usize::MAX,
            ..of_one.clone()
        };
        Ok(Look {
            table: format!("{}.{}", visible.schema, visible.name),
            keys: visible.primary_key.len(),
            key_columns: visible.primary_key.clone(),
            plan,
            cap,
            parts: statements.len(),
            statements,
        })
    }

    /// The keys of the rows that are different, each column of each in order.
    fn keys(&self, table: &TableDifference, key: &[String]) -> Result<Vec<Vec<Value>>, NoLook> {
        let fault = || NoLook::Fault(Rejection::internal("a row that is changed has no key"));
        let catalog = self.live.firewall.catalog();
        let relation = catalog.find(&table.schema, &table.table);
        let relation = relation.ok_or_else(fault)?;
        let at = |name: &String| relation.columns.iter().position(|c| *c.name == **name);
        let at: Option<Vec<usize>> = key.iter().map(at).collect();
        let at = at.ok_or_else(fault)?;
        let mut keys: Vec<Vec<Value>> = Vec::new();
        let mut seen = BTreeSet::new();
        for cells in table.rows.iter().flat_map(|row| [&row.before, &row.after]) {
            let Some(cells) = cells else {
                continue;
            };
            let key = at.iter().map(|at| cells.get(*at).cloned());
            let key: Option<Vec<Value>> = key.collect();
            let key = key.ok_or_else(fault)?;
            let spelled: Vec<String> = key.iter().map(spell).collect();
            if seen.insert(spelled) {
                keys.push(key);
            }
        }
        Ok(keys)
    }

    /// Adds the queries for the rows with these keys: one, or more where it would exceed a limit of statements.
    fn decide_all(
        &self,
        visible: &VisibleRelation,
        rest: &[&str],
        keys: &[Vec<Value>],
        statements: &mut Vec<Arc<RewrittenStatement>>,
    ) -> Result<(), NoLook> {
        if let Some(statement) = self.decide(visible, rest, keys)? {
            statements.push(statement);
            return Ok(());
        }
        let (one, other) = keys.split_at(keys.len() / 2);
        if one.is_empty() {
            let why = Rejection::internal("a row that is changed cannot be asked for by its key");
            return Err(NoLook::Fault(why));
        }
        self.decide_all(visible, rest, one, statements)?;
        self.decide_all(visible, rest, other, statements)
    }

    /// The query for the rows with these keys; none where it is refused, or has to be approved first.
    fn decide(
        &self,
        visible: &VisibleRelation,
        rest: &[&str],
        keys: &[Vec<Value>],
    ) -> Result<Option<Arc<RewrittenStatement>>, NoLook> {
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
        // How many rows are shown is a limit of the answer, which is made of what all queries give.
        let limits = Limits {
            max_rows: self.live.firewall.limits().max_rows,
            ..self.limits.clone()
        };
        let question = Question {
            wording: Wording::from(sql.as_str()),
            params: &params,
            session: &self.session,
            limits: &limits,
        };
        let decided = decide(&self.live, question);
        Ok(match decided.map_err(NoLook::Fault)? {
            Decided::Allow(statement) if statement.effect() == Effect::Read => {
                Some(Arc::from(statement))
            }
            // What waits for a person is not shown meanwhile.
            Decided::Allow(_) | Decided::Pending(_, _) | Decided::Reject(_) => None,
        })
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
        view.relation(relation.id).is_ok_and(|decision| {
            decision.rows == RowFilter::Everything && !view.reading_waits(&decision)
        })
    }

    /// What the queries gave, as an answer.
    ///
    /// # Errors
    /// `output.blocked` if something in it reads as instructions, and such answers are blocked.
    pub(in crate::guard) fn show(
        &self,
        looked: Vec<BeforeAndAfter>,
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
        looked: Vec<BeforeAndAfter>,
        moment: Option<&str>,
        shown: &mut Shown,
    ) -> Result<(), Rejection> {
        let found = std::mem::take(&mut *self.lock_found());
        if let Some(fault) = found.fault {
            return Err(fault);
        }
        shown.counted.extend(found.counted);
        let mut cells = BTreeSet::new();
        let mut looked = looked.into_iter();
        for look in &found.looks {
            let of_table = &look.plan;
            let (mut before, mut after) = (Vec::new(), Vec::new());
            for part in looked.by_ref().take(look.parts) {
                before.extend(part.before);
                after.extend(part.after);
            }
            let before = take(of_table, before, shown.scanning)?;
            let after = take(of_table, after, shown.scanning)?;
            let names: Vec<&str> = of_table.columns.iter().map(|c| &*c.name).collect();
            let mut rows = Vec::new();
            let counts = compare(
                look,
                &names,
                (before.into_values(), after.into_values()),
                &mut rows,
            );
            // Rows in which nothing is seen to differ do not count: something hidden may.
            if look.cap.is_some_and(|cap| counts.total() > cap) {
                let told = (look.table.clone(), ChangedRows::MoreThanPolicyShows);
                shown.counted.push(told);
                continue;
            }
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

    /// The names of these columns, of those that the session may see.
    pub(super) fn name_generated(
        &self,
        generated: &GeneratedColumns,
        told: ToldGenerated,
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
        let is_told = |(schema, table, column): &&(String, String, String)| match told {
            ToldGenerated::All => true,
            ToldGenerated::ThoseShown => {
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
    counted: Vec<(String, ChangedRows)>,
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
                Ok(look) => found.looks.push(look),
                Err(NoLook::Fault(fault)) => found.fault = Some(fault),
                Err(NoLook::Unknown | NoLook::Withheld) if self.sees_whole(table, &relations) => {
                    let count = u64::try_from(table.rows.len()).unwrap_or(u64::MAX);
                    found.counted.push((
                        format!("{}.{}", table.schema, table.table),
                        ChangedRows::Count(count),
                    ));
                }
                // That it is different follows from rows. What the statements write is told whether it is or not.
                Err(NoLook::Unknown | NoLook::Withheld) => {}
            }
        }
        let tickets = found
            .looks
            .iter()
            .flat_map(|look| &look.statements)
            .map(Ticket::issue);
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
