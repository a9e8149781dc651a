//! Random changes, snapshots, differences, undoings and reverts beside a model that keeps every state of a table in memory. Some writers do
//! not go through the firewall, and one commits late.

use std::collections::BTreeMap;

use mysql_async::prelude::Queryable as _;
use palisade::{
    code::Code,
    dialect::Dialect,
    guard::{ChangeCall, ChangeProposal, Moments},
    past::HistoryOrder,
    rejection::Rejection,
    value::Params,
};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use serde_json::{Value, json};
use tokio::runtime::Builder;

use crate::{
    any_database::AnyDatabase,
    history::{Desk, Engine, boss},
};

const TABLE: &str =
    "CREATE TABLE stock (id integer NOT NULL PRIMARY KEY, kind varchar(9), amount integer);
INSERT INTO stock VALUES (1, 'pen', 10), (2, 'ink', 20), (3, NULL, 30), (500, 'end', 0);";

/// How long a sequence is.
const MOST_STEPS: usize = 24;

/// Where the keys begin of rows that a writer commits late. The row before them ends what others' statements look at, and lock.
const LATE: i64 = 1_000;

type Cells = (Option<String>, Option<i64>);
type State = BTreeMap<i64, Cells>;

#[derive(Debug, Clone)]
enum Write {
    Insert(i64, Option<u8>, Option<i64>),
    SetKind(i64, Option<u8>),
    SetAmount(i64, Option<i64>),
    Move(i64, i64),
    Delete(i64),
    Clear(i64),
}

#[derive(Debug, Clone)]
enum Step {
    /// Beside the firewall.
    Beside(Write),
    /// Proposed, validated and committed.
    Through(Write),
    Snapshot,
    AsOf(usize),
    Compare(usize, Option<usize>),
    Undo(usize),
    Revert(usize),
    /// A transaction that begins, and one step later or more commits.
    Late,
}

/// A change that was kept.
struct Kept {
    id: String,
    before: State,
    after: State,
    is_undone: bool,
}

/// A session of a writer beside the firewall.
enum Writer {
    Postgres(tokio_postgres::Client),
    Mariadb(mysql_async::Conn),
}

impl Writer {
    async fn run(&mut self, sql: &str) -> Result<(), String> {
        match self {
            Self::Postgres(client) => {
                let ran = client.batch_execute(sql).await;
                ran.map_err(|error| error.to_string())
            }
            Self::Mariadb(conn) => {
                for one in sql.split("; ") {
                    let ran = conn.query_drop(one).await;
                    ran.map_err(|error| error.to_string())?;
                }
                Ok(())
            }
        }
    }
}

struct Model {
    now: State,
    snapshots: Vec<State>,
    kept: Vec<Kept>,
    late: Option<(Writer, i64)>,
    next_late: i64,
}

fn kind(kind: Option<u8>) -> Option<String> {
    kind.map(|kind| format!("k{kind}"))
}

fn literal<T: ToString>(value: Option<T>, quote: &str) -> String {
    value.map_or("NULL".to_owned(), |value| {
        format!("{quote}{}{quote}", value.to_string())
    })
}

impl Write {
    fn sql(&self) -> String {
        match self {
            Self::Insert(id, k, amount) => format!(
                "INSERT INTO stock (id, kind, amount) VALUES ({id}, {}, {})",
                literal(kind(*k), "'"),
                literal(*amount, "")
            ),
            Self::SetKind(id, k) => {
                let kind = literal(kind(*k), "'");
                format!("UPDATE stock SET kind = {kind} WHERE id = {id}")
            }
            Self::SetAmount(below, amount) => {
                let amount = literal(*amount, "");
                format!("UPDATE stock SET amount = {amount} WHERE id < {below}")
            }
            Self::Move(from, to) => format!("UPDATE stock SET id = {to} WHERE id = {from}"),
            Self::Delete(id) => format!("DELETE FROM stock WHERE id = {id}"),
            Self::Clear(below) => format!("DELETE FROM stock WHERE id < {below}"),
        }
    }

    /// What it makes of a state; nothing where a key would be taken.
    fn apply(&self, state: &State) -> Option<State> {
        let mut next = state.clone();
        match self {
            Self::Insert(id, k, amount) => {
                if next.insert(*id, (kind(*k), *amount)).is_some() {
                    return None;
                }
            }
            Self::SetKind(id, k) => {
                if let Some(row) = next.get_mut(id) {
                    row.0 = kind(*k);
                }
            }
            Self::SetAmount(below, amount) => {
                for (_, row) in next.range_mut(..below) {
                    row.1 = *amount;
                }
            }
            Self::Move(from, to) => {
                if let Some(row) = next.remove(from)
                    && next.insert(*to, row).is_some()
                {
                    return None;
                }
            }
            Self::Delete(id) => drop(next.remove(id)),
            Self::Clear(below) => next.retain(|id, _| id >= below),
        }
        Some(next)
    }
}

/// What undoing a change makes of `now`; nothing where a row is not as the change left it.
fn undo(before: &State, after: &State, now: &State) -> Option<State> {
    let mut next = now.clone();
    for id in before.keys().chain(after.keys()) {
        match (before.get(id), after.get(id)) {
            (was, left) if was == left => {}
            (None, Some(left)) => {
                if now.get(id) != Some(left) {
                    return None;
                }
                next.remove(id);
            }
            (Some(was), None) => {
                if now.contains_key(id) {
                    return None;
                }
                next.insert(*id, was.clone());
            }
            (Some(was), Some(left)) => {
                let found = now.get(id)?;
                let row = next.get_mut(id)?;
                if was.0 != left.0 {
                    if found.0 != left.0 {
                        return None;
                    }
                    row.0.clone_from(&was.0);
                }
                if was.1 != left.1 {
                    if found.1 != left.1 {
                        return None;
                    }
                    row.1 = was.1;
                }
            }
            (None, None) => {}
        }
    }
    Some(next)
}

/// The cells that are different, each as a preview shows it.
fn list_differences(from: &State, to: &State) -> Vec<String> {
    let mut all = Vec::new();
    let ids: std::collections::BTreeSet<&i64> = from.keys().chain(to.keys()).collect();
    for id in ids {
        let change = match (from.get(id), to.get(id)) {
            (Some(_), Some(_)) => "update",
            (Some(_), None) => "delete",
            (None, _) => "insert",
        };
        let cells = |state: &State| match state.get(id) {
            Some((kind, amount)) => (json!(kind), json!(amount)),
            None => (Value::Null, Value::Null),
        };
        let (old, new) = (cells(from), cells(to));
        let told = [("kind", old.0, new.0), ("amount", old.1, new.1)];
        for (column, old, new) in told {
            if old != new {
                all.push(format!(
                    "id={id} {change} {column}: {} -> {}",
                    bare(&old),
                    bare(&new)
                ));
            }
        }
    }
    all.sort();
    all
}

fn bare(value: &Value) -> String {
    value.to_string().trim_matches('"').to_owned()
}

impl Model {
    async fn take(&mut self, desk: &Desk, step: &Step) -> Result<(), String> {
        let mut ends = self.late.take();
        // MariaDB's previews wait for all writers of a table.
        let locks = matches!(step, Step::Through(_) | Step::Undo(_) | Step::Revert(_));
        if locks && desk.guard.firewall().catalog().dialect() == Dialect::Mysql {
            self.end_late(ends.take()).await?;
        }
        match step {
            Step::Beside(write) => {
                if let Some(next) = write.apply(&self.now) {
                    desk.run(&write.sql());
                    self.now = next;
                }
            }
            Step::Through(write) => {
                if let Some(next) = write.apply(&self.now) {
                    let statements = [(write.sql(), Params::None)];
                    let session = boss();
                    let call = ChangeCall::new(&session);
                    let proposed = desk
                        .guard
                        .propose_change(ChangeProposal::new(&statements), call);
                    let proposed = proposed.await.map_err(|refusal| told(&refusal.rejection))?;
                    keep(desk, &proposed.change)
                        .await
                        .map_err(|why| told(&why))?;
                    self.note(proposed.change, next);
                }
            }
            Step::Snapshot => {
                desk.snapshot(&format!("s{}", self.snapshots.len())).await;
                self.snapshots.push(self.now.clone());
            }
            Step::AsOf(at) => {
                if let Some(at) = pick(*at, self.snapshots.len()) {
                    let found = read(desk, Some(&format!("s{at}"))).await?;
                    same(&found, &self.snapshots[at], step)?;
                }
            }
            Step::Compare(from, to) => self.compare(desk, *from, *to).await?,
            Step::Undo(at) => self.undo(desk, *at).await?,
            Step::Revert(at) => self.revert(desk, *at).await?,
            Step::Late => self.begin_late(desk).await?,
        }
        self.end_late(ends).await?;
        same(&read(desk, None).await?, &self.now, step)
    }

    async fn end_late(&mut self, late: Option<(Writer, i64)>) -> Result<(), String> {
        if let Some((mut writer, id)) = late {
            writer.run("COMMIT").await?;
            self.now.insert(id, (Some("late".to_owned()), None));
        }
        Ok(())
    }

    fn note(&mut self, id: String, next: State) {
        let before = std::mem::replace(&mut self.now, next);
        self.kept.push(Kept {
            id,
            before,
            after: self.now.clone(),
            is_undone: false,
        });
    }

    async fn compare(&self, desk: &Desk, from: usize, to: Option<usize>) -> Result<(), String> {
        let count = self.snapshots.len();
        let Some(from) = pick(from, count) else {
            return Ok(());
        };
        let to = to.and_then(|to| pick(to, count)).filter(|to| *to >= from);
        let names = (format!("s{from}"), to.map(|to| format!("s{to}")));
        let session = boss();
        let moments = Moments {
            from: &names.0,
            to: names.1.as_deref(),
        };
        let call = ChangeCall::new(&session);
        let compared = desk
            .guard
            .compare_past(&desk.name_table("stock"), moments, call)
            .await;
        let compared = compared.map_err(|refusal| told(&refusal.rejection))?;
        let rows = serde_json::to_value(&compared.preview.rows).unwrap()["rows"].take();
        let rows = rows.as_array().unwrap().iter();
        let mut found: Vec<String> = rows
            .filter(|row| row["before"] != row["after"])
            .map(|row| {
                let [key, change, column, before, after] =
                    ["key", "change", "column", "before", "after"].map(|name| bare(&row[name]));
                format!("{key} {change} {column}: {before} -> {after}")
            })
            .filter(|line| !line.contains(" id: "))
            .collect();
        found.sort();
        let end = to.map_or(&self.now, |to| &self.snapshots[to]);
        let expected = list_differences(&self.snapshots[from], end);
        (found == expected)
            .then_some(())
            .ok_or_else(|| format!("different since s{from}: {found:?}, expected {expected:?}"))
    }

    async fn undo(&mut self, desk: &Desk, at: usize) -> Result<(), String> {
        let Some(at) = pick(at, self.kept.len()) else {
            return Ok(());
        };
        let Kept {
            id,
            before,
            after,
            is_undone,
        } = &self.kept[at];
        let expected = match (is_undone, before == after) {
            (true, _) => Err(Code::ChangeWrongState),
            (false, true) => Err(Code::ChangeNotCompensable),
            (false, false) => undo(before, after, &self.now).ok_or(Code::ChangeConflict),
        };
        let session = boss();
        let undone = desk
            .guard
            .compensate_change(id, None, ChangeCall::new(&session))
            .await;
        let undone = match undone.map_err(|refusal| refusal.rejection) {
            Ok(view) => keep(desk, &view.change).await.map(|()| view.change),
            Err(rejection) => Err(rejection),
        };
        match (undone, expected) {
            (Ok(change), Ok(next)) => {
                self.kept[at].is_undone = true;
                self.note(change, next);
                Ok(())
            }
            (Err(found), Err(code)) if found.code() == code => Ok(()),
            (found, expected) => Err(format!("undoing {id}: {found:?}, expected {expected:?}")),
        }
    }

    async fn revert(&mut self, desk: &Desk, at: usize) -> Result<(), String> {
        let Some(at) = pick(at, self.snapshots.len()) else {
            return Ok(());
        };
        let session = boss();
        let beside = (format!("s{at}"), None);
        let (call, table) = (ChangeCall::new(&session), desk.name_table("stock"));
        let reverted = desk
            .guard
            .revert_table(&table, (&beside.0, beside.1), call)
            .await;
        let reverted = match reverted.map_err(|refusal| refusal.rejection) {
            Ok(view) => keep(desk, &view.change).await.map(|()| view.change),
            Err(rejection) => Err(rejection),
        };
        let wanted = self.snapshots[at].clone();
        match reverted {
            Ok(change) if wanted != self.now => {
                self.note(change, wanted);
                Ok(())
            }
            Err(why) if wanted == self.now && why.code() == Code::ChangeNotCompensable => Ok(()),
            found => Err(format!("back to s{at}: {found:?}")),
        }
    }

    async fn begin_late(&mut self, desk: &Desk) -> Result<(), String> {
        // SQLite has one writer at a time.
        let AnyDatabase::Server(database) = &desk.database else {
            return Ok(());
        };
        let mut writer = match desk.guard.firewall().catalog().dialect() {
            Dialect::Postgres => Writer::Postgres(database.postgres_client().await),
            Dialect::Mysql | Dialect::Sqlite => Writer::Mariadb(database.mysql_client().await),
        };
        let id = self.next_late;
        self.next_late += 1;
        writer
            .run(&format!(
                "BEGIN; INSERT INTO stock VALUES ({id}, 'late', NULL)"
            ))
            .await?;
        self.late = Some((writer, id));
        Ok(())
    }
}

fn pick(at: usize, count: usize) -> Option<usize> {
    (count > 0).then(|| at % count)
}

fn told(rejection: &Rejection) -> String {
    format!("{rejection:?}")
}

fn same(found: &State, expected: &State, step: &Step) -> Result<(), String> {
    match found == expected {
        true => Ok(()),
        false => Err(format!("after {step:?}: {found:?}, expected {expected:?}")),
    }
}

async fn keep(desk: &Desk, id: &str) -> Result<(), Rejection> {
    let session = boss();
    let call = || ChangeCall::new(&session);
    let looked = desk.guard.validate_change(id, call()).await;
    looked.map_err(|refusal| refusal.rejection)?;
    let kept = desk.guard.commit_change(id, call()).await;
    kept.map(drop).map_err(|refusal| refusal.rejection)
}

async fn read(desk: &Desk, as_of: Option<&str>) -> Result<State, String> {
    let sql = "SELECT id, kind, amount FROM stock ORDER BY id";
    let rows = desk.ask(&boss(), sql, as_of).await;
    let rows = rows.map_err(|code| format!("{as_of:?}: {code:?}"))?;
    let rows = rows.as_array().unwrap().iter();
    Ok(rows
        .map(|row| {
            let kind = row["kind"].as_str().map(str::to_owned);
            (row["id"].as_i64().unwrap(), (kind, row["amount"].as_i64()))
        })
        .collect())
}

fn write() -> impl Strategy<Value = Write> {
    let kind = || proptest::option::of(0_u8..3);
    let amount = || proptest::option::of(0_i64..4);
    let id = || 1_i64..7;
    prop_oneof![
        3 => (id(), kind(), amount()).prop_map(|(id, kind, amount)| Write::Insert(id, kind, amount)),
        3 => (id(), kind()).prop_map(|(id, kind)| Write::SetKind(id, kind)),
        2 => (id(), amount()).prop_map(|(below, amount)| Write::SetAmount(below, amount)),
        2 => id().prop_map(Write::Delete),
        1 => id().prop_map(Write::Clear),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let at = || 0_usize..8;
    let moved = (1_i64..7, 1_i64..7).prop_map(|(from, to)| Write::Move(from, to));
    prop_oneof![
        3 => prop_oneof![4 => write(), 1 => moved].prop_map(Step::Beside),
        3 => write().prop_map(Step::Through),
        2 => Just(Step::Snapshot),
        2 => at().prop_map(Step::AsOf),
        2 => (at(), proptest::option::of(at())).prop_map(|(from, to)| Step::Compare(from, to)),
        2 => at().prop_map(Step::Undo),
        1 => at().prop_map(Step::Revert),
        1 => Just(Step::Late),
    ]
}

/// Tries `cases` sequences.
fn check(engine: Engine, cases: u32) {
    let config = Config {
        cases,
        max_shrink_iters: 0,
        failure_persistence: None,
        ..Config::default()
    };
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let steps = proptest::collection::vec(step(), 8..MOST_STEPS);
    let run = |steps: Vec<Step>| runtime.block_on(run_steps(engine, &steps));
    let mut runner = TestRunner::new(config);
    let checked = runner.run(&steps, |steps| run(steps).map_err(TestCaseError::fail));
    checked.unwrap();
}

async fn run_steps(engine: Engine, steps: &[Step]) -> Result<(), String> {
    let desk = Desk::new(engine).await;
    desk.run(TABLE);
    assert!(desk.guard.refresh().await.unwrap());
    desk.order(&["stock"], &HistoryOrder::Enable { account: None });
    desk.guard.refresh().await.unwrap();
    let mut model = Model {
        now: read(&desk, None).await?,
        snapshots: Vec::new(),
        kept: Vec::new(),
        late: None,
        next_late: LATE,
    };
    for step in steps {
        model.take(&desk, step).await?;
    }
    // Every snapshot is what it was, to the end.
    for (at, expected) in model.snapshots.iter().enumerate() {
        let found = read(&desk, Some(&format!("s{at}"))).await?;
        same(&found, expected, &Step::AsOf(at))?;
    }
    Ok(())
}

#[test]
fn sqlite_is_as_the_model() {
    check(Engine::Sqlite, 24);
}

#[test]
fn postgres_is_as_the_model() {
    check(Engine::Postgres, 8);
}

#[test]
fn mariadb_is_as_the_model() {
    check(Engine::Mariadb, 6);
}

#[test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
fn mysql_9_is_as_the_model() {
    check(Engine::Mysql, 6);
}
