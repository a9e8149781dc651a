//! Two databases whose hidden rows hold other values, and as many of them: no statement of the family tells them apart.

use std::collections::BTreeMap;

use proptest::{prelude::*, strategy::ValueTree};

use super::{
    family::{self, Member},
    leads::{Secret, stand},
    reader::{Gate, unfenced},
};
use crate::worlds::{
    bare::Bare,
    choices::Choices,
    interference::{runner, runtime, setting},
    stand::{Engine, MariaDb, Postgres, Sqlite, Stand},
};

/// What came of the statements of each shape.
#[derive(Debug, Default)]
struct Tally {
    statements: usize,
    /// How many failed while they ran.
    failed: usize,
    /// Of each shape how many were run, of how many.
    shapes: BTreeMap<&'static str, (usize, usize)>,
    /// Refusals before anything ran.
    refused: BTreeMap<String, usize>,
}

/// As many statements of the family as `count` says.
fn members<E: Engine>(seed: u64, count: usize) -> Vec<Member> {
    let mut runner = runner(seed);
    let numbers = prop::collection::vec(any::<u16>(), 16);
    (0..count)
        .map(|_| {
            let numbers = numbers.new_tree(&mut runner).unwrap().current();
            family::member(E::DIALECT, &mut Choices::new(&numbers))
        })
        .collect()
}

/// Two databases that look the same.
async fn both<E: Engine>(engine: &E) -> [Stand<E::Bare>; 2] {
    [
        stand(engine, Secret::ONE).await,
        stand(engine, Secret::OTHER).await,
    ]
}

/// Through the gate both answer the same, statement by statement.
async fn hold<E: Engine>(engine: &E, seed: u64) {
    let count = usize::try_from(setting("PALISADE_STATEMENTS", 500)).unwrap();
    let [one, other] = both(engine).await;
    let gates = [Gate::new(&one), Gate::new(&other)];
    let mut tally = Tally::default();
    let mut leaks: Vec<String> = Vec::new();
    for member in members::<E>(seed, count) {
        let [one_told, other_told] = [
            gates[0].told(&member.sql).await,
            gates[1].told(&member.sql).await,
        ];
        let code = one_told["code"].as_str().unwrap_or_default();
        let failed = code.starts_with("database.");
        let ran = failed || one_told.get("rows").is_some();
        tally.statements += 1;
        tally.failed += usize::from(failed);
        for shape in &member.shapes {
            let (run, written) = tally.shapes.entry(*shape).or_default();
            *run += usize::from(ran);
            *written += 1;
        }
        if !ran {
            *tally.refused.entry(code.to_owned()).or_default() += 1;
        }
        if one_told != other_told {
            let told = [&one_told, &other_told].map(|told| match told["code"].as_str() {
                Some(code) => code.to_owned(),
                None => format!("{} rows", told["row_count"]),
            });
            leaks.push(format!(
                "{:?}\n  {}\n  {} / {}\n  {:?}",
                member.shapes,
                member.sql,
                told[0],
                told[1],
                one.text(&member.sql)
            ));
        }
    }
    println!("{:?}: {tally:#?}", E::DIALECT);
    for (shape, (run, written)) in &tally.shapes {
        assert!(
            *written < 8 || *run > 0,
            "{shape}: none of {written} is run"
        );
    }
    assert!(tally.failed * 20 > tally.statements, "{tally:?}");
    assert!(
        leaks.is_empty(),
        "{} of {count} leak:\n{}",
        leaks.len(),
        leaks.join("\n")
    );
}

/// Without what stands between planner and hidden rows, `least` of so many tell the databases apart.
async fn would_tell<E: Engine>(engine: &E, seed: u64, count: usize, least: usize) {
    let [mut one, mut other] = both(engine).await;
    let mut apart = Vec::new();
    for member in members::<E>(seed, count) {
        let Ok(texts) = texts(&one, &other, &member.sql) else {
            continue;
        };
        let answers = [
            fails(&mut one, &texts[0]).await,
            fails(&mut other, &texts[1]).await,
        ];
        if answers[0] != answers[1] {
            apart.push(member);
        }
    }
    let mut shapes: BTreeMap<&str, usize> = BTreeMap::new();
    for shape in apart.iter().flat_map(|member| &member.shapes) {
        *shapes.entry(*shape).or_default() += 1;
    }
    println!(
        "{:?}: {} of {count} tell: {shapes:?}",
        E::DIALECT,
        apart.len()
    );
    assert!(apart.len() >= least);
}

fn texts<D: Bare>(one: &Stand<D>, other: &Stand<D>, sql: &str) -> Result<[String; 2], String> {
    Ok([unfenced(&one.text(sql)?), unfenced(&other.text(sql)?)])
}

async fn fails<D: Bare>(stand: &mut Stand<D>, text: &str) -> bool {
    stand.bare.run(text).await.is_err()
}

#[test]
fn postgres_tells_no_twins_apart() {
    runtime().block_on(hold(&Postgres, 101));
}

#[test]
fn mariadb_tells_no_twins_apart() {
    runtime().block_on(hold(&MariaDb, 102));
}

#[test]
fn sqlite_tells_no_twins_apart() {
    runtime().block_on(hold(&Sqlite::new(), 103));
}

#[test]
fn unfenced_postgres_tells_twins_apart() {
    runtime().block_on(would_tell(&Postgres, 101, 300, 10));
}

#[test]
fn unfenced_mariadb_tells_twins_apart() {
    runtime().block_on(would_tell(&MariaDb, 102, 300, 10));
}

#[test]
fn unfenced_sqlite_tells_twins_apart() {
    runtime().block_on(would_tell(&Sqlite::new(), 103, 300, 3));
}
