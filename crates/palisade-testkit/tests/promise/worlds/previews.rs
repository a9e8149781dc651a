//! Non-interference of changes in steps: over two databases that differ only in what may not be seen, the preview of a change shows the same.
//! So do the outcome of its commit, its receipt, and what is told of changed rows afterwards.

use std::collections::BTreeMap;

use palisade::{
    guard::{ChangeCall, ChangeProposal, TracedRow},
    rejection::Rejection,
    value::Value as Cell,
};
use proptest::strategy::{Strategy as _, ValueTree as _};
use serde_json::{Value, json};

use crate::worlds::{
    bare::Bare,
    grammar::Statement,
    interference::{
        Seen, Tally, difference, may_differ_by_plan, orders_texts, runner, runtime, setting,
        stands, statement_numbers, statement_of, world_numbers, world_of,
    },
    stand::{Engine, MariaDb, Postgres, Sqlite, Stand, session},
    tokens::Renames,
    world::{Row, World},
};

/// What a session is told of a change, from its proposal to the trace of the rows that it changed.
async fn tell_steps<D: Bare>(
    (stand, before): (&mut Stand<D>, &[Vec<Row>]),
    world: &World,
    statement: &Statement,
) -> Result<Value, Rejection> {
    let spoken = stand.spoken(statement);
    let statements = [(spoken.sql.clone(), spoken.params())];
    let session = session();
    let call = ChangeCall::new(&session);
    let proposed = stand
        .guard
        .propose_change(ChangeProposal::new(&statements), call)
        .await;
    let id = proposed.map_err(|refusal| refusal.rejection)?.change;
    let looked = stand.guard.validate_change(&id, call).await;
    let contents = stand.contents(world).await;
    assert_eq!(contents, before, "a preview changed rows: {}", spoken.sql);
    let looked = looked.map_err(|refusal| refusal.rejection)?;
    let kept = stand.guard.commit_change(&id, call).await;
    let kept = kept.map_err(|refusal| refusal.rejection)?;
    let receipt = kept.receipt.map(|receipt| json!(receipt.tables));
    let receipts = stand.guard.list_receipts(&session);
    let receipts = receipts.map_err(|refusal| refusal.rejection)?.len();
    let table = world.tables[statement.target.unwrap()].name;
    let table = &format!("{}.{table}", stand.schema());
    let mut traced = Vec::new();
    for id in 1..4 {
        let key = BTreeMap::from([("id".to_owned(), Cell::Integer(id))]);
        let row = TracedRow { table, key: &key };
        let found = stand.guard.trace_row(row, &session);
        traced.push(found.map_or_else(
            |refusal| stand.refused(&refusal.rejection),
            |found| json!(found.len()),
        ));
    }
    let mut told = stand.describe_preview(looked.preview.as_ref().unwrap());
    let more = json!({
        "affected_rows": looked.view.affected_rows, "state": kept.state,
        "receipt": receipt, "receipts": receipts, "traced": traced,
    });
    let more = stand.alike(&more);
    (told.as_object_mut().unwrap()).extend(more.as_object().unwrap().clone());
    Ok(told)
}

async fn run<D: Bare>(stand: &mut Stand<D>, world: &World, statement: &Statement) -> Seen {
    let before = stand.contents(world).await;
    let told = tell_steps((stand, &before), world, statement).await;
    let answer = told.unwrap_or_else(|rejection| stand.refused(&rejection));
    let contents = stand.contents(world).await;
    stand.bare.restore().await;
    Seen {
        answer,
        contents: Some(contents),
    }
}

/// Runs so many changes in steps over as many worlds.
async fn hold<E: Engine>(engine: &E, seed: u64, worlds: u64, statements: usize) {
    let mut runner = runner(seed);
    let mut tally = Tally::default();
    let mut cells = 0;
    for _ in 0..setting("PALISADE_WORLDS", worlds) {
        let numbers = world_numbers().new_tree(&mut runner).unwrap();
        let world = world_of(E::DIALECT, false, &numbers.current()).with_keys();
        let [one, other] = stands(engine, &world).await;
        let [mut one, mut other] = [one.in_steps(), other.in_steps()];
        let mut run_here = 0;
        while run_here < statements {
            let numbers = statement_numbers().new_tree(&mut runner).unwrap();
            let statement = statement_of(&world, &numbers.current());
            // Of which rows are changed where their order decides, the answer of `execute` has the shape alone.
            if statement.target.is_none() || statement.loose {
                continue;
            }
            run_here += 1;
            let renames = Renames::new(&one.tokens, &other.tokens).unwrap();
            let mut seen = [
                run(&mut one, &world, &statement).await,
                run(&mut other, &world, &statement).await,
            ];
            seen[1].answer = renames.answer(seen[1].answer.take());
            tally.note(&statement, &seen);
            let shown = seen[0].answer["rows"].as_array();
            cells += shown.map_or(0, Vec::len);
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
    println!("{cells} cells shown");
    assert!(cells > tally.statements, "{tally:?}");
    assert!(tally.changed * 4 > tally.statements, "{tally:?}");
}

#[test]
fn sqlite_previews_tell_nothing_of_what_is_hidden() {
    runtime().block_on(hold(&Sqlite::new(), 71, 8, 40));
}

#[test]
fn postgres_previews_tell_nothing_of_what_is_hidden() {
    runtime().block_on(hold(&Postgres, 72, 4, 40));
}

#[test]
fn mariadb_previews_tell_nothing_of_what_is_hidden() {
    runtime().block_on(hold(&MariaDb, 73, 3, 40));
}
