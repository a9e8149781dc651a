//! No fault of the firewall's own: whatever a statement is put into, or loses a word of, the answer is never `internal`.

use std::collections::BTreeMap;

use proptest::strategy::{Strategy as _, ValueTree as _};

use palisade::value::Params;

use crate::worlds::{
    bare::Bare as _,
    choices::Choices,
    interference::{runner, runtime, setting, statement_numbers, statement_of, world_numbers},
    stand::{Engine, MariaDb, Policies, Postgres, Sqlite, session},
    world::World,
};

/// What agents put queries into.
const FRAMES: &[&str] = &[
    "SELECT * FROM ({a}) AS x",
    "SELECT x.*, y.* FROM ({a}) AS x CROSS JOIN ({b}) AS y",
    "SELECT * FROM (SELECT x.*, y.* FROM ({a}) AS x, ({b}) AS y) AS z",
    "WITH x AS ({a}) SELECT * FROM x",
    "WITH x AS ({a}), y AS ({b}) SELECT x.*, y.* FROM x JOIN y ON 1 = 1",
    "WITH x AS ({a}) SELECT * FROM (SELECT l.*, r.* FROM x AS l, x AS r) AS z",
    "({a}) LIMIT 1",
    "(({a}))",
    "({a}) UNION ALL ({b})",
    "({a}) UNION ({b}) ORDER BY 1",
    "SELECT count(*) FROM ({a}) AS x",
    "SELECT DISTINCT x.* FROM ({a}) AS x ORDER BY 1 LIMIT 2",
    "SELECT (SELECT count(*) FROM ({a}) AS x) AS n, EXISTS ({b}) AS e",
    "SELECT x.*, row_number() OVER (ORDER BY 1) AS n FROM ({a}) AS x",
    "SELECT * FROM t0 AS x WHERE EXISTS ({a}) AND x.id IN (SELECT 1)",
    "EXPLAIN {a}",
    "VALUES ((SELECT count(*) FROM ({a}) AS x))",
];

/// `a` and `b` in a frame, and then perhaps with a word that is missing, doubled, or another's.
fn written(a: &str, b: &str, choices: &mut Choices<'_>) -> String {
    let mut text = match choices.chance(70) {
        true => choices.pick(FRAMES).replace("{a}", a).replace("{b}", b),
        false => a.to_owned(),
    };
    while choices.chance(12) {
        let words: Vec<&str> = text.split(' ').collect();
        let (at, from) = (choices.below(words.len()), choices.below(words.len()));
        let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        match choices.below(3) {
            0 => {
                words.remove(at);
            }
            1 => {
                let word = words[from].clone();
                words.insert(at, word);
            }
            _ => words.swap(at, from),
        }
        text = words.join(" ");
    }
    text
}

async fn count<E: Engine>(engine: &E, seed: u64, worlds: u64, statements: usize) {
    let mut runner = runner(seed);
    let mut codes: BTreeMap<String, usize> = BTreeMap::new();
    let mut faults = Vec::new();
    for number in 0..setting("PALISADE_WORLDS", worlds) {
        let numbers = world_numbers().new_tree(&mut runner).unwrap().current();
        let world = World::new(E::DIALECT, &mut Choices::new(&numbers));
        let policies = match number % 2 {
            0 => Policies::World,
            _ => Policies::Everything,
        };
        let mut stand = engine.stand(&world, 0, policies).await;
        for _ in 0..statements {
            let mut next = || statement_numbers().new_tree(&mut runner).unwrap().current();
            let mut query = || loop {
                let statement = statement_of(&world, &next());
                // A change stands in no query, and neither does an EXPLAIN.
                if statement.target.is_none() && !statement.shapes.contains("EXPLAIN") {
                    return stand.spoken(&statement).whole;
                }
            };
            let (a, b) = (query(), query());
            let sql = written(&a, &b, &mut Choices::new(&next()));
            let answer = stand.told(&sql, &Params::None, &session()).await;
            let code = answer["code"].as_str().unwrap_or("allowed").to_owned();
            if code == "internal" {
                faults.push(format!("{sql}\n  {answer}"));
            }
            *codes.entry(code).or_default() += 1;
        }
        stand.bare.restore().await;
        stand.bare.leave().await;
    }
    println!("{:?}: {codes:?}", E::DIALECT);
    assert!(
        faults.is_empty(),
        "{} faults on {:?}:\n{}",
        faults.len(),
        E::DIALECT,
        faults[..faults.len().min(8)].join("\n")
    );
    // What never runs meets few faults.
    let allowed = codes.get("allowed").copied().unwrap_or_default();
    assert!(allowed * 8 > codes.values().sum(), "{codes:?}");
}

#[test]
fn sqlite_has_no_fault() {
    runtime().block_on(count(&Sqlite::new(), 61, 6, 200));
}

#[test]
fn postgres_has_no_fault() {
    runtime().block_on(count(&Postgres, 62, 4, 200));
}

#[test]
fn mariadb_has_no_fault() {
    runtime().block_on(count(&MariaDb, 63, 4, 200));
}
