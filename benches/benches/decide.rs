//! What decisions cost under many policies: the authorisation stage, the first decision of a session, a
//! plan that is known; each beside its goal.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a bench stops at the first surprise"
)]

use std::hint::black_box;

use palisade::{
    access::AccessSet,
    firewall::{Decision, Firewall},
    session::Session,
    value::Params,
};
use palisade_benches::{
    desk::{self, AGENTS, STATEMENT, catalog, session},
    time::medians,
};
use sqlparser::{dialect::PostgreSqlDialect, parser::Parser};

fn main() {
    let [hundred, thousand] = [100, 1000].map(|count| firewall(count, 0));
    let planning = firewall(100, 16 << 20);
    let one = session(0);
    let access = hundred
        .resolve_access(STATEMENT, &one)
        .expect("the statement resolves");
    assert_eq!(
        access.columns().count(),
        40,
        "the statement reads every column"
    );

    // Each round has a session of its own.
    let [mut newcomers, mut others] = [0, 0].map(|_| (1..AGENTS).map(session));
    let [cold_100, cold_1000] = medians(
        1,
        [
            &mut || check(&hundred, &newcomers.next().expect("agents enough")),
            &mut || check(&thousand, &others.next().expect("agents enough")),
        ],
    );
    check(&planning, &one);
    let [bare, stage_100, stage_1000, warm_100, warm_1000, hit] = medians(
        20,
        [
            &mut || parse(black_box(STATEMENT)),
            &mut || authorize(&hundred, &access, &one),
            &mut || authorize(&thousand, &access, &one),
            &mut || check(&hundred, &one),
            &mut || check(&thousand, &one),
            &mut || check(&planning, &one),
        ],
    );

    println!(
        "\nforty columns of five tables, {} bytes of SQL",
        STATEMENT.len()
    );
    println!("{:<60} {:>10} {:>10}", "what", "measured", "goal");
    let line = |what: &str, measured: f64, unit: &str, goal: Option<f64>| {
        let goal = goal.map_or_else(String::new, |goal| format!("≤ {goal} {unit}"));
        println!("{what:<60} {measured:>7.2} {unit:<2} {goal:>10}");
    };
    line("bare parse of the same text", bare, "µs", None);
    line(
        "authorisation, warm, 100 policies",
        stage_100,
        "µs",
        Some(20.0),
    );
    line(
        "authorisation, warm, 1000 policies, beside 100",
        stage_1000 / stage_100,
        "×",
        Some(1.0),
    );
    line(
        "whole check, warm, beside the bare parse",
        warm_100 / bare,
        "×",
        Some(3.0),
    );
    line(
        "whole check, warm, 1000 policies, beside 100",
        warm_1000 / warm_100,
        "×",
        Some(1.0),
    );
    line(
        "first decision of a session, 100 policies",
        cold_100 / 1000.0,
        "ms",
        Some(5.0),
    );
    line(
        "first decision of a session, 1000 policies, beside 100",
        cold_1000 / cold_100,
        "×",
        Some(13.0),
    );
    line("check whose plan is known", hit, "µs", Some(1.0));
    line("check without plans beside that", warm_100 / hit, "×", None);
}

fn firewall(policies: usize, cache_bytes: u64) -> Firewall {
    let catalog = catalog().unwrap_or_else(|error| panic!("{error}"));
    Firewall::builder(catalog, desk::policies(policies))
        .cache_bytes(cache_bytes)
        .build()
        .unwrap_or_else(|error| panic!("{error}"))
}

fn parse(sql: &str) {
    black_box(Parser::parse_sql(&PostgreSqlDialect {}, sql).expect("the baseline parses"));
}

fn authorize(firewall: &Firewall, access: &AccessSet, session: &Session) {
    firewall
        .authorize(black_box(access), session)
        .expect("everything is permitted");
}

fn check(firewall: &Firewall, session: &Session) {
    match firewall.check(black_box(STATEMENT), &Params::None, session) {
        Ok(Decision::Allow(statement)) => {
            black_box(statement);
        }
        other => panic!("not permitted: {other:?}"),
    }
}
