//! Non-interference: over two databases that differ only in what may not be seen, every statement has the same
//! answer and, where it changes rows, the same effect on what may be seen, and none on what may not.

use std::collections::{BTreeMap, BTreeSet};

use palisade::dialect::Dialect;
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::worlds::{
    bare::Bare,
    choices::Choices,
    grammar::{self, Statement},
    stand::{Engine, MariaDb, Policies, Postgres, Sqlite, Stand},
    tokens::{PREFIX, Renames, Spoken},
    world::{Actions, Level, Row, Table, World},
};

/// What came of the statements.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// How many were run.
    pub(crate) statements: usize,
    /// How many of those that read gave rows on both databases.
    pub(crate) read: usize,
    /// How many of those that change rows were run on both.
    pub(crate) changed: usize,
    /// How many of these changed a row.
    pub(crate) effective: usize,
    /// Refusals by code.
    pub(crate) refused: BTreeMap<String, usize>,
    /// Of each shape how many statements had it, and how many of these were run on both.
    pub(crate) shapes: BTreeMap<&'static str, (usize, usize)>,
    /// Of each shape, why the others were not.
    pub(crate) why: BTreeMap<&'static str, BTreeMap<String, usize>>,
}

/// What a statement did to a database.
pub(crate) struct Seen {
    /// The envelope or the refusal.
    pub(crate) answer: Value,
    /// What the tables hold afterwards, where the statement could have changed that.
    pub(crate) contents: Option<Vec<Vec<Row>>>,
}

/// Runs `statement` through the gate, looks at the database, and makes it what it was.
async fn run<D: Bare>(stand: &mut Stand<D>, world: &World, statement: &Statement) -> Seen {
    let answer = stand.answer(statement).await;
    let code = answer["code"].as_str().unwrap_or_default();
    // What was refused before it ran is not looked for.
    let could = code.is_empty() || code.starts_with("database.") || code.starts_with("limit.");
    let contents = if statement.target.is_some() && could {
        let contents = stand.contents(world).await;
        stand.bare.restore().await;
        Some(contents)
    } else {
        None
    };
    Seen { answer, contents }
}

/// What tells the databases apart after `statement`, or was changed and must not be.
pub(crate) fn difference(world: &World, statement: &Statement, seen: &[Seen; 2]) -> Option<String> {
    let [one, other] = seen;
    if one.answer["code"] == "internal" {
        return Some(one.answer.to_string());
    }
    // Where rows fail for different reasons, their order decides which is told.
    let failed = |seen: &Seen| {
        seen.answer["code"] == "database.rejected" || seen.answer["code"] == "database.constraint"
    };
    let same = if failed(one) && failed(other) {
        true
    } else if statement.loose {
        shape(&one.answer) == shape(&other.answer)
    } else {
        one.answer == other.answer
    };
    if !same {
        return Some(format!("answers:\n  {}\n  {}", one.answer, other.answer));
    }
    if let Some(why) = seen
        .iter()
        .find_map(|seen| find_excess(world, statement, seen))
    {
        return Some(why);
    }
    let (Some(one_after), Some(other_after)) = (&one.contents, &other.contents) else {
        return None;
    };
    for (database, after) in [one_after, other_after].into_iter().enumerate() {
        let refused = seen[database].answer["code"].is_string();
        if let Some(why) = unchanged(world, statement, database, after, refused) {
            return Some(why);
        }
    }
    for (index, table) in world.tables.iter().enumerate() {
        let (one, other) = (
            visible(world, table, 0, &one_after[index]),
            visible(world, table, 1, &other_after[index]),
        );
        if one != other {
            return Some(format!(
                "what may be seen of {} afterwards:\n  {one:?}\n  {other:?}",
                table.name
            ));
        }
    }
    None
}

/// Rows or values beyond the caps of policy.
fn find_excess(world: &World, statement: &Statement, seen: &Seen) -> Option<String> {
    // What a change gives back has no limit of its own, and a common table expression can have a table's name.
    if statement.target.is_some() || statement.sql.contains("WITH ") {
        return None;
    }
    let most = |caps: &mut dyn Iterator<Item = Option<u64>>| caps.flatten().max();
    // One more than the cap comes from the engine, to know of.
    let rows = most(&mut world.tables.iter().map(|table| table.cap))? + 1;
    let given = seen.answer["row_count"].as_u64()?;
    (statement.capped && given > rows).then(|| format!("{given} rows of at most {rows}"))
}

/// Whether one of the databases may fail on a row that the other never looks at. MariaDB plans joins for the number of
/// rows that there are, and nothing makes its plans equal.
pub(crate) fn may_differ_by_plan(world: &World, statement: &Statement, seen: &[Seen; 2]) -> bool {
    let failed = seen
        .iter()
        .filter(|seen| seen.answer["code"] == "database.rejected")
        .count();
    world.dialect == Dialect::Mysql
        && !world.crowded
        && failed == 1
        && statement.sql.contains(" JOIN ")
}

/// What a principal may see of a database's rows; of tokens, what they stand for in the second.
fn visible(
    world: &World,
    table: &Table,
    database: usize,
    rows: &[Row],
) -> Vec<Vec<Option<String>>> {
    let mut out: Vec<Vec<Option<String>>> = rows
        .iter()
        .filter(|row| table.shows(row))
        .map(|row| {
            table
                .columns
                .iter()
                .zip(row)
                .map(|(column, cell)| match column.level {
                    Level::Plain => Some(format!("{cell:?}")),
                    Level::Masked(mask) => mask.apply(cell),
                    Level::Token(domain) if database == 0 => {
                        Some(format!("{:?}", world.renamings[&domain].rename(cell)))
                    }
                    Level::Token(_) => Some(format!("{cell:?}")),
                    Level::Hidden => None,
                })
                .collect()
        })
        .collect();
    out.sort();
    out
}

/// What changed of a database that no statement may change: other tables, rows that may not be seen, anything
/// where the statement was refused.
fn unchanged(
    world: &World,
    statement: &Statement,
    database: usize,
    after: &[Vec<Row>],
    refused: bool,
) -> Option<String> {
    let reached = match statement.target {
        Some(target) if !refused => world.reached(target),
        _ => BTreeSet::new(),
    };
    for (index, table) in world.tables.iter().enumerate() {
        let mut before = world.rows[database][index].clone();
        before.sort();
        let after = &after[index];
        if !reached.contains(&index) {
            if before != *after {
                return Some(format!(
                    "{} changed:\n  {before:?}\n  {after:?}",
                    table.name
                ));
            }
            continue;
        }
        let unseen = |rows: &[Row]| -> Vec<Row> {
            rows.iter()
                .filter(|row| !table.shows(row))
                .cloned()
                .collect()
        };
        let (before, mut after) = (unseen(&before), unseen(after));
        for row in &before {
            let Some(at) = after.iter().position(|other| other == row) else {
                return Some(format!(
                    "a row of {} that may not be seen is gone: {row:?}",
                    table.name
                ));
            };
            after.remove(at);
        }
        // Where rows outside of the filter may not be added, none is.
        if table.actions != Actions::See && !after.is_empty() {
            return Some(format!(
                "rows of {} that may not be added: {after:?}",
                table.name
            ));
        }
    }
    None
}

fn shape(answer: &Value) -> Value {
    [
        "code",
        "message",
        "columns",
        "row_count",
        "truncated",
        "empty_reason",
    ]
    .iter()
    .map(|key| answer.get(*key).cloned().unwrap_or_default())
    .collect()
}

/// A failing statement with all that is needed to see it fail, its case as the corpus has it.
fn report(world: &World, spoken: &Spoken, why: &str, ran: &str) -> String {
    let quote = |text: &str| format!("'''\n{text}'''");
    format!(
        "{why}\n\nwhat runs: {ran}\n\ncatalog:\n{};\n\none database:\n{};\n\nthe other:\n{};\n\npolicies:\n{}\n\
         [[case]]\nname = \"interference\"\nwhy = \"Two databases that look the same are told apart.\"\nsql = {}\n{}",
        world.schema().join(";\n"),
        world.fill(0).join(";\n"),
        world.fill(1).join(";\n"),
        world.policies("main"),
        quote(&spoken.sql),
        spoken.written_params(),
    )
}

/// Two databases of one world.
pub(crate) async fn stands<E: Engine>(engine: &E, world: &World) -> [Stand<E::Bare>; 2] {
    [
        engine.stand(world, 0, Policies::World).await,
        engine.stand(world, 1, Policies::World).await,
    ]
}

/// Whether the statement orders a forged token among texts. A token that a statement writes into a plain column is a text
/// too. Their order depends on the hash, and each database has its own tokens.
pub(crate) fn orders_texts<D: Bare>(stand: &Stand<D>, statement: &Statement) -> bool {
    let orders = |sql: &str| {
        [">=", "<"]
            .iter()
            .any(|operator| sql.contains(&format!("{operator} '{PREFIX}")))
    };
    // Of what it takes for a token the gate takes off the tag.
    statement.forges()
        && stand
            .rewritten(statement)
            .is_ok_and(|rewritten| orders(palisade::danger::parts(&rewritten).sql))
}

/// Runs one statement on both, and says what tells them apart.
async fn check<D: Bare>(
    world: &World,
    stands: &mut [Stand<D>; 2],
    statement: &Statement,
    tally: &mut Tally,
) -> Option<String> {
    let [one, other] = stands;
    let renames = match Renames::new(&one.tokens, &other.tokens) {
        Ok(renames) => renames,
        Err(why) => return Some(why),
    };
    let mut seen = [
        run(one, world, statement).await,
        run(other, world, statement).await,
    ];
    seen[1].answer = renames.answer(seen[1].answer.take());
    tally.note(statement, &seen);
    if may_differ_by_plan(world, statement, &seen) || orders_texts(one, statement) {
        return None;
    }
    difference(world, statement, &seen)
}

/// What fails, made as simple as it gets: first the statement over the same databases, then the world.
async fn simplest<E: Engine>(
    engine: &E,
    crowded: bool,
    world_numbers: &mut impl ValueTree<Value = Vec<u16>>,
    statement_numbers: &mut impl ValueTree<Value = Vec<u16>>,
) -> String {
    let mut found = None;
    let made = |numbers: &[u16]| world_of(E::DIALECT, crowded, numbers);
    let world = made(&world_numbers.current());
    let mut both = stands(engine, &world).await;
    let mut fails = true;
    for _ in 0..SHRINKS {
        let moved = if fails {
            statement_numbers.simplify()
        } else {
            statement_numbers.complicate()
        };
        if !moved {
            break;
        }
        let statement = statement_of(&world, &statement_numbers.current());
        let why = check(&world, &mut both, &statement, &mut Tally::default()).await;
        fails = why.is_some();
        if let Some(why) = why {
            found = Some((world.clone(), statement, why));
        }
    }
    let Some((_, statement, _)) = &found else {
        return "it does not fail again".to_owned();
    };
    let statement = statement.clone();
    let mut fails = true;
    for _ in 0..SHRINKS / 8 {
        let moved = if fails {
            world_numbers.simplify()
        } else {
            world_numbers.complicate()
        };
        if !moved {
            break;
        }
        let world = made(&world_numbers.current());
        let mut both = stands(engine, &world).await;
        let why = check(&world, &mut both, &statement, &mut Tally::default()).await;
        fails = why.is_some();
        if let Some(why) = why {
            found = Some((world, statement.clone(), why));
        }
    }
    let (world, statement, why) = found.unwrap();
    let stand = engine.stand(&world, 0, Policies::World).await;
    let ran = match stand.rewritten(&statement) {
        Ok(rewritten) => palisade::danger::parts(&rewritten).sql.to_owned(),
        Err(why) => why,
    };
    report(&world, &stand.spoken(&statement), &why, &ran)
}

/// How often a failing statement is made simpler.
const SHRINKS: usize = 400;

impl Tally {
    /// What came of each shape of statements.
    pub(crate) fn print(&self) {
        println!(
            "{} statements, {} read, {} changes run, {} effective; refused: {:?}",
            self.statements, self.read, self.changed, self.effective, self.refused
        );
        for (shape, (written, permitted)) in &self.shapes {
            let share = 100 * permitted / written;
            println!("{share:>4} % of {written:>5} run: {shape}");
        }
    }

    pub(crate) fn note(&mut self, statement: &Statement, seen: &[Seen; 2]) {
        self.statements += 1;
        let ran = seen.iter().all(|seen| seen.answer.get("rows").is_some());
        for shape in &statement.shapes {
            let (written, permitted) = self.shapes.entry(*shape).or_default();
            *written += 1;
            *permitted += usize::from(ran);
            if let Some(code) = seen[0].answer["code"].as_str() {
                let why = self.why.entry(*shape).or_default();
                *why.entry(code.to_owned()).or_default() += 1;
            }
        }
        if ran && statement.target.is_some() {
            self.changed += 1;
            self.effective += usize::from(seen[0].answer["affected_rows"] != 0);
        } else if ran {
            self.read += 1;
        }
        if let Some(code) = seen[0].answer["code"].as_str() {
            *self.refused.entry(code.to_owned()).or_default() += 1;
        }
    }
}

/// A source of the same numbers for the same seed.
pub(crate) fn runner(seed: u64) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&(setting("PALISADE_SEED", 0) + seed).to_le_bytes());
    TestRunner::new_with_rng(
        Config::default(),
        TestRng::from_seed(RngAlgorithm::ChaCha, &bytes),
    )
}

/// The numbers that a world is made of.
pub(crate) fn world_numbers() -> impl Strategy<Value = Vec<u16>> {
    prop::collection::vec(any::<u16>(), 700..1300)
}

/// The numbers that a statement is made of.
pub(crate) fn statement_numbers() -> impl Strategy<Value = Vec<u16>> {
    prop::collection::vec(any::<u16>(), 0..140)
}

pub(crate) fn statement_of(world: &World, numbers: &[u16]) -> Statement {
    grammar::statement(world, &mut Choices::new(numbers))
}

/// A setting of the environment, for longer runs and other statements.
pub(crate) fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap(),
        Err(_) => default,
    }
}

/// Runs as many worlds with as many statements each, and holds the tally to what it should be.
async fn hold<E: Engine>(engine: &E, seed: u64, worlds: u64, statements: usize) {
    let tally = run_worlds(engine, false, seed, worlds, statements).await;
    assert!(tally.read * 5 > tally.statements, "{tally:?}");
    assert!(tally.changed * 20 > tally.statements, "{tally:?}");
    assert!(tally.effective * 40 > tally.statements, "{tally:?}");
}

/// The same over databases that differ in the values of many rows, about which planners know; half of what runs may fail.
async fn hold_crowded<E: Engine>(engine: &E, seed: u64, worlds: u64, statements: usize) {
    let tally = run_worlds(engine, true, seed, worlds, statements).await;
    let failed = tally.refused.get("database.rejected").copied();
    assert!(
        failed.unwrap_or_default() * 20 > tally.statements,
        "{tally:?}"
    );
    assert!(tally.read * 8 > tally.statements, "{tally:?}");
    assert!(tally.changed * 40 > tally.statements, "{tally:?}");
}

async fn run_worlds<E: Engine>(
    engine: &E,
    crowded: bool,
    seed: u64,
    worlds: u64,
    statements: usize,
) -> Tally {
    let mut runner = runner(seed);
    let mut tally = Tally::default();
    for _ in 0..setting("PALISADE_WORLDS", worlds) {
        let mut numbers = world_numbers().new_tree(&mut runner).unwrap();
        let world = world_of(E::DIALECT, crowded, &numbers.current());
        let mut both = stands(engine, &world).await;
        for _ in 0..statements {
            let mut tree = statement_numbers().new_tree(&mut runner).unwrap();
            let statement = statement_of(&world, &tree.current());
            if let Some(why) = check(&world, &mut both, &statement, &mut tally).await {
                println!("{}\n{why}", statement.sql);
                let simple = simplest(engine, crowded, &mut numbers, &mut tree).await;
                panic!("made simple:\n{simple}");
            }
        }
        for stand in &mut both {
            stand.bare.leave().await;
        }
    }
    tally.print();
    for (shape, (written, permitted)) in &tally.shapes {
        // What is always refused tests nothing.
        assert!(
            written < &40 || permitted * 12 > *written,
            "{shape}: {permitted} of {written}, {:?}",
            tally.why[shape]
        );
    }
    tally
}

pub(crate) fn world_of(dialect: Dialect, crowded: bool, numbers: &[u16]) -> World {
    let mut choices = Choices::new(numbers);
    match crowded {
        false => World::new(dialect, &mut choices),
        true => World::crowded(dialect, &mut choices),
    }
}

fn sqlite(seed: u64) {
    let engine = Sqlite::new();
    runtime().block_on(hold(&engine, seed, 25, 150));
}

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

// Two, so that two processors share them.
#[test]
fn sqlite_tells_nothing_of_what_is_hidden() {
    sqlite(1);
}

#[test]
fn sqlite_tells_nothing_of_what_is_hidden_elsewhere() {
    sqlite(2);
}

#[test]
fn postgres_tells_nothing_of_what_is_hidden() {
    runtime().block_on(hold(&Postgres, 21, 12, 150));
}

#[test]
fn mariadb_tells_nothing_of_what_is_hidden() {
    runtime().block_on(hold(&MariaDb, 31, 12, 150));
}

#[test]
fn sqlite_tells_nothing_of_values_that_its_planner_knows() {
    runtime().block_on(hold_crowded(&Sqlite::new(), 41, 5, 100));
}

#[test]
fn postgres_tells_nothing_of_values_that_its_planner_knows() {
    runtime().block_on(hold_crowded(&Postgres, 46, 4, 80));
}

#[test]
fn mariadb_tells_nothing_of_values_that_its_planner_knows() {
    runtime().block_on(hold_crowded(&MariaDb, 43, 2, 50));
}
