//! What history costs writers, and what the past costs readers: each beside the plain statement, in the same run.
//!
//! Arguments are the number of rows of history, ten versions of each row (100,000 if there is none), and names of engines (`sqlite`,
//! `postgres`, `mariadb`; all without one).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "a bench stops at the first surprise"
)]

mod world;

use std::{cell::Cell, sync::Arc};

use palisade::{
    dialect::Dialect,
    guard::{Backend, ChangeCall, ChangeProposal, Moments, Request},
    past::HistoryOrder,
    value::Params,
};
use palisade_benches::time::{medians, medians_of};
use tokio::runtime::{Builder, Runtime};

use world::World;

/// Versions of each row.
const VERSIONS: u32 = 10;

/// Rows that one statement writes.
const WRITTEN: u32 = 1_000;

/// Rounds of what takes long.
const ROUNDS: usize = 21;

const ENGINES: [&str; 3] = ["sqlite", "postgres", "mariadb"];

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let rows = arguments.iter().find_map(|argument| argument.parse().ok());
    let history: u32 = rows.unwrap_or(100_000);
    let named: Vec<&str> = (arguments.iter().map(String::as_str))
        .filter(|argument| ENGINES.contains(argument))
        .collect();
    println!(
        "microseconds, medians; {history} rows of history\n{:<9} {:<44} {:>10} {:>10} {:>7}",
        "engine", "what", "plain", "this", "times"
    );
    for engine in ENGINES {
        if named.is_empty() || named.contains(&engine) {
            measure(engine, history / VERSIONS);
        }
    }
}

fn print(engine: &str, what: &str, [plain, this]: [f64; 2]) {
    println!(
        "{engine:<9} {what:<44} {plain:>10.1} {this:>10.1} {:>7.2}",
        this / plain
    );
}

fn measure(engine: &'static str, rows: u32) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let mut world = runtime.block_on(World::new(engine, rows));
    let things = world.name("things");
    let order = HistoryOrder::Enable { account: None };
    let script = world.guard.write_history_script(&things, &order).unwrap();
    world.run(&script);
    runtime.block_on(world.reopen());
    runtime.block_on(world.snapshot("first"));
    for version in 1..VERSIONS {
        world.run("UPDATE things SET total = total + 1");
        if version == VERSIONS / 2 {
            runtime.block_on(world.snapshot("middle"));
        }
    }
    world.run(match world.dialect() {
        Dialect::Sqlite => "ANALYZE",
        Dialect::Postgres => "VACUUM ANALYZE",
        Dialect::Mysql => "ANALYZE TABLE things",
    });
    runtime.block_on(world.guard.refresh()).unwrap();
    reads(&runtime, &world, rows);
    writes(&world, rows);
    difference(&runtime, &world);
    preview(&runtime, &world);
}

/// The same statement, as of now and as of the middle of the history.
fn reads(runtime: &Runtime, world: &World, rows: u32) {
    let ask = |sql: &str, as_of: Option<&str>| {
        let request = Request::statement(sql, &Params::None, &world.session).as_of(as_of);
        let (outcome, report) = runtime.block_on(world.guard.answer(request));
        outcome
            .into_result()
            .unwrap_or_else(|why| panic!("{sql}: {why:?}"));
        report.rewritten.unwrap()
    };
    let (first, last) = (rows / 2, rows / 2 + WRITTEN - 1);
    for (what, sql, rounds) in [
        (
            "as of: by key",
            format!("SELECT id, name, total FROM things WHERE id = {first}"),
            101,
        ),
        (
            "as of: 1,000 keys",
            format!("SELECT count(*), sum(total) FROM things WHERE id >= {first} AND id <= {last}"),
            101,
        ),
        (
            "as of: all rows",
            "SELECT count(*), sum(total) FROM things".to_owned(),
            ROUNDS,
        ),
    ] {
        let texts = [ask(&sql, None), ask(&sql, Some("middle"))];
        let [now, past] = medians_of(
            rounds,
            1,
            [
                &mut || {
                    ask(&sql, None);
                },
                &mut || {
                    ask(&sql, Some("middle"));
                },
            ],
        );
        print(world.engine, what, [now, past]);
        let [now, past] = medians_of(
            rounds,
            1,
            [&mut || world.read(&texts[0]), &mut || world.read(&texts[1])],
        );
        print(
            world.engine,
            &format!("{what}, the driver alone"),
            [now, past],
        );
    }
}

/// The same UPDATE of 1,000 rows, of a table with history and of one without.
fn writes(world: &World, rows: u32) {
    let next = Cell::new(0);
    let update = |table: &str| {
        let first = next.get() % (rows - WRITTEN) + 1;
        next.set(next.get() + WRITTEN / 2);
        world.write(&format!(
            "UPDATE {table} SET total = total + 1 WHERE id >= {first} AND id < {}",
            first + WRITTEN
        ));
    };
    let times = medians(1, [&mut || update("plain"), &mut || update("things")]);
    print(world.engine, "UPDATE of 1,000 rows with history", times);
    let update = |table: &str| {
        let id = next.get() % rows + 1;
        next.set(next.get() + 1);
        world.write(&format!(
            "UPDATE {table} SET total = total + 1 WHERE id = {id}"
        ));
    };
    let times = medians(5, [&mut || update("plain"), &mut || update("things")]);
    print(world.engine, "UPDATE of one row with history", times);
}

/// What 1,000 rows became since a snapshot, beside the same rows of now.
fn difference(runtime: &Runtime, world: &World) {
    runtime.block_on(world.snapshot("last"));
    world.write(&format!(
        "UPDATE things SET total = total + 1 WHERE id <= {WRITTEN}"
    ));
    let things = world.name("things");
    let (label, _) = world.guard.find_label("last").unwrap();
    let firewall = world.guard.firewall();
    let catalog = firewall.catalog();
    let relation = (catalog.relations().iter())
        .find(|one| one.name == "things" && world.is_own(&one.schema))
        .unwrap();
    let backend: &Arc<dyn Backend> = &world.backend;
    let call = ChangeCall::new(&world.session);
    let moments = Moments {
        from: "last",
        to: None,
    };
    let sql = format!("SELECT id FROM things WHERE id <= {WRITTEN}");
    let [now, keys, whole] = medians_of(
        ROUNDS,
        1,
        [
            &mut || world.read(&sql),
            &mut || {
                let keys = backend.list_changed_keys(relation, (&label, None), 10 * WRITTEN);
                let keys = runtime.block_on(keys).unwrap();
                assert_eq!(keys.len(), usize::try_from(WRITTEN).unwrap());
            },
            &mut || {
                let compared = world.guard.compare_past(&things, moments, call);
                let compared = runtime.block_on(compared);
                compared.unwrap_or_else(|why| panic!("{why:?}"));
            },
        ],
    );
    print(
        world.engine,
        "difference of 1,000 rows: their keys",
        [now, keys],
    );
    print(world.engine, "difference of 1,000 rows: told", [now, whole]);
}

/// What an UPDATE of 1,000 rows would do, beside the same UPDATE, by the driver and by the firewall.
fn preview(runtime: &Runtime, world: &World) {
    let sql = format!("UPDATE small SET total = total + 1 WHERE id <= {WRITTEN}");
    let call = ChangeCall::new(&world.session);
    let statements = [(sql.clone(), Params::None)];
    let proposed = world
        .guard
        .propose_change(ChangeProposal::new(&statements), call);
    let id = runtime.block_on(proposed).unwrap().change;
    let [bare, gate, preview] = medians_of(
        ROUNDS,
        1,
        [
            &mut || world.write(&sql),
            &mut || {
                let executed = world.guard.execute(&sql, &Params::None, &world.session);
                let executed = runtime.block_on(executed).into_result();
                executed.unwrap_or_else(|why| panic!("{why:?}"));
            },
            &mut || {
                let looked = runtime.block_on(world.guard.validate_change(&id, call));
                looked.unwrap_or_else(|why| panic!("{why:?}"));
            },
        ],
    );
    print(
        world.engine,
        "UPDATE of 1,000 rows through the firewall",
        [bare, gate],
    );
    print(
        world.engine,
        "preview of that UPDATE, beside the driver",
        [bare, preview],
    );
    print(
        world.engine,
        "preview of that UPDATE, beside execute",
        [gate, preview],
    );
}
