//! Non-interference of the past: two databases that looked the same at a moment answer the same as of it, whatever was hidden in them then
//! and what became of that since.

use std::collections::BTreeMap;

use palisade::{
    guard::{ChangeCall, Moments, PastRows},
    past::{HistoryOrder, Label},
    session::Session,
    value::Value as Cell,
};
use palisade_testkit::servers::MariaDbServer;
use proptest::strategy::{Strategy as _, ValueTree as _};
use serde_json::Value;

use crate::worlds::{
    bare::Bare,
    interference::{
        Seen, Tally, difference, may_differ_by_plan, orders_texts, runner, runtime, setting,
        stands, statement_numbers, statement_of, world_numbers, world_of,
    },
    stand::{Engine, MariaDb, Postgres, Sqlite, Stand, session},
    tokens::{PREFIX, Renames},
    world::World,
};

/// Keeps the history of all tables of which it can be kept, and has each database hold then what the other held at first. The moment
/// between; none where no history can be kept.
async fn turn<D: Bare>(world: &World, database: usize, stand: &mut Stand<D>) -> Option<Label> {
    let enable = HistoryOrder::Enable { account: None };
    for table in &world.tables {
        let name = format!("{}.{}", stand.schema(), table.name);
        // Of some, as of what has no key, none can be kept.
        if let Ok(script) = stand.guard.write_history_script(&name, &enable) {
            stand.bare.load(&script).await;
        }
    }
    stand.guard.refresh().await.unwrap();
    let label = stand.guard.take_label().await.unwrap();
    if label.is_some() {
        let taken = stand.guard.create_snapshot(THEN, &session()).await;
        assert!(taken.is_ok(), "{:?}", taken.err());
    }
    for statement in world.fill(1 - database) {
        stand.bare.run(&statement).await.unwrap();
    }
    label
}

/// The name of the moment between.
const THEN: &str = "then";

/// What a session is told of each table: what is different since the moment between, and what became of its rows.
async fn tell_lists<D: Bare>(stand: &Stand<D>, world: &World) -> Vec<Value> {
    let session = session();
    let call = ChangeCall::new(&session);
    let moments = Moments {
        from: THEN,
        to: None,
    };
    let mut told = Vec::new();
    for table in &world.tables {
        // A server has databases of other tests, with tables of the same names.
        let table = &format!("{}.{}", stand.schema(), table.name);
        let compared = stand.guard.compare_past(table, moments, call).await;
        told.push(match compared {
            Ok(compared) => stand.describe_preview(&compared.preview),
            Err(refusal) => stand.refused(&refusal.rejection),
        });
        for key in [
            None,
            Some(BTreeMap::from([("id".to_owned(), Cell::Integer(1))])),
        ] {
            let rows = PastRows {
                table,
                key: key.as_ref(),
            };
            let listed = stand.guard.list_history(rows, Some(THEN), call).await;
            told.push(match listed {
                Ok(listed) => stand.describe_preview(&listed.preview),
                Err(refusal) => stand.refused(&refusal.rejection),
            });
        }
    }
    told
}

/// The same without its tokens: the databases change places, so that one has before what the other has after.
fn blank_tokens(told: &Value) -> Value {
    let told = told.to_string();
    let mut parts = told.split(PREFIX);
    let first = parts.next().unwrap_or_default().to_owned();
    let blank = parts.fold(first, |text, part| {
        text + "token" + part.trim_start_matches(|c: char| c.is_ascii_hexdigit())
    });
    serde_json::from_str(&blank).unwrap()
}

/// Runs so many statements that read, as of a moment, over as many worlds.
async fn hold<E: Engine>(engine: &E, seed: u64, worlds: u64, statements: usize) {
    let mut runner = runner(seed);
    let mut tally = Tally::default();
    let mut listed = 0;
    for _ in 0..setting("PALISADE_WORLDS", worlds) {
        let numbers = world_numbers().new_tree(&mut runner).unwrap();
        let world = world_of(E::DIALECT, false, &numbers.current()).with_keys();
        let [one, other] = stands(engine, &world).await;
        let [mut one, mut other] = [one.in_steps(), other.in_steps()];
        let then = (
            turn(&world, 0, &mut one).await,
            turn(&world, 1, &mut other).await,
        );
        let (Some(first), Some(second)) = then else {
            continue;
        };
        let then = [first, second].map(|label| session().as_of(label));
        let lists = tell_lists(&one, &world).await;
        let others = tell_lists(&other, &world).await;
        for (one, other) in lists.iter().zip(&others) {
            let [one, other] = [one, other].map(blank_tokens);
            assert_eq!(one, other, "{}", world.policies("main"));
            listed += usize::from(one.get("rows").is_some());
        }
        for _ in 0..statements {
            let numbers = statement_numbers().new_tree(&mut runner).unwrap();
            let statement = statement_of(&world, &numbers.current());
            // The past is read only.
            if statement.target.is_some() {
                continue;
            }
            let renames = Renames::new(&one.tokens, &other.tokens).unwrap();
            let ask = async |stand: &Stand<E::Bare>, session: &Session| {
                let spoken = stand.spoken(&statement);
                let answer = stand.told(&spoken.sql, &spoken.params(), session).await;
                Seen {
                    answer,
                    contents: None,
                }
            };
            let mut seen = [ask(&one, &then[0]).await, ask(&other, &then[1]).await];
            seen[1].answer = renames.answer(seen[1].answer.take());
            tally.note(&statement, &seen);
            if may_differ_by_plan(&world, &statement, &seen) || orders_texts(&one, &statement) {
                continue;
            }
            if let Some(why) = difference(&world, &statement, &seen) {
                panic!(
                    "{}\n{why}\n{}",
                    one.spoken(&statement).sql,
                    world.policies(one.schema())
                );
            }
        }
        for stand in [&mut one, &mut other] {
            stand.bare.leave().await;
        }
    }
    tally.print();
    assert!(tally.read * 5 > tally.statements, "{tally:?}");
    assert!(listed > 0, "no table has a list");
}

#[test]
fn sqlite_tells_nothing_of_what_was_hidden() {
    runtime().block_on(hold(&Sqlite::new(), 61, 10, 120));
}

#[test]
fn postgres_tells_nothing_of_what_was_hidden() {
    runtime().block_on(hold(&Postgres, 62, 5, 120));
}

#[test]
fn mariadb_tells_nothing_of_what_was_hidden() {
    let server = MariaDbServer::start_shared().unwrap();
    // As servers have it, and those of tests have not.
    let durable = "SET GLOBAL innodb_flush_log_at_trx_commit = 1";
    server.query("mysql", durable).unwrap();
    runtime().block_on(hold(&MariaDb, 63, 4, 120));
}
