//! The whole check beside a bare parse of the same text, on the corpus statements with most joins, and on short ones.
//!
//! Decisions are warm: the session has asked before. The last lines print the ratios.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a bench stops at the first surprise"
)]

use std::{hint::black_box, path::Path};

use criterion::{Criterion, Throughput};
use palisade::{
    firewall::{Decision, Firewall},
    session::{Principal, Session},
    value::Params,
};
use palisade_benches::{short, time::medians};
use palisade_corpus::{Corpus, Runner};
use sqlparser::{dialect::SQLiteDialect, parser::Parser};

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus");
    let corpus = Corpus::load(folder).unwrap_or_else(|error| panic!("{error}"));
    // A plan that is known costs nothing like a check; `decide` measures it.
    let runner = Runner::with_builder(&corpus, |builder| builder.cache_bytes(0))
        .unwrap_or_else(|error| panic!("{error}"));
    let cases: Vec<_> = corpus.cases.iter().filter(|case| case.bench).collect();
    assert!(
        !cases.is_empty(),
        "the corpus marks no statement for the bench"
    );

    let mut criterion = Criterion::default().configure_from_args();
    let mut ratios = Vec::new();
    for case in cases {
        let firewall = runner
            .firewall(case)
            .expect("a bench statement has a catalog");
        let session = case.session();
        assert!(
            matches!(
                firewall.check(&case.sql, &Params::None, &session),
                Ok(Decision::Allow(_))
            ),
            "{} is not permitted",
            case.id()
        );
        let mut group = criterion.benchmark_group(case.name.as_str());
        group.throughput(Throughput::Bytes(case.sql.len() as u64));
        group.bench_function("parse", |b| b.iter(|| parse(black_box(&case.sql))));
        group.bench_function("check", |b| {
            b.iter(|| check(firewall, black_box(&case.sql), &session));
        });
        group.finish();
        ratios.push((
            case.name.clone(),
            case.sql.len(),
            medians(
                20,
                [&mut || parse(&case.sql), &mut || {
                    check(firewall, &case.sql, &session);
                }],
            ),
        ));
    }
    criterion.final_summary();

    println!(
        "\n{:<44} {:>6} {:>9} {:>9} {:>6}",
        "statement", "bytes", "parse µs", "check µs", "ratio"
    );
    for (name, bytes, [parse, check]) in &ratios {
        println!(
            "{name:<44} {bytes:>6} {parse:>9.1} {check:>9.1} {:>6.2}",
            check / parse
        );
    }
    let worst = ratios
        .iter()
        .map(|(_, _, [parse, check])| check / parse)
        .fold(0.0, f64::max);
    println!("worst ratio {worst:.2}");
    short();
}

/// Statements so short that the fixed cost of a check shows: told, and in no worst ratio. Nothing of an earlier decision is used.
fn short() {
    let agent = Session::new(Principal::new("Agent", "a"));
    let catalog = short::catalog().unwrap_or_else(|error| panic!("{error}"));
    let builder = Firewall::builder(catalog, short::policies()).allow_changes();
    let firewall = builder.cache_bytes(0).build();
    let firewall = firewall.unwrap_or_else(|error| panic!("{error}"));
    println!(
        "\n{:>9} {:>9} {:>6}  short statement",
        "parse µs", "check µs", "ratio"
    );
    for sql in short::STATEMENTS {
        let decision = firewall.check(sql, &Params::None, &agent);
        assert!(
            matches!(decision, Ok(Decision::Allow(_))),
            "{sql} is not permitted"
        );
        let [parse, check] = medians(
            20,
            [&mut || parse(sql), &mut || check(&firewall, sql, &agent)],
        );
        println!("{parse:>9.1} {check:>9.1} {:>6.2}  {sql}", check / parse);
    }
}

fn parse(sql: &str) {
    black_box(Parser::parse_sql(&SQLiteDialect {}, sql).expect("the baseline parses"));
}

fn check(firewall: &Firewall, sql: &str, session: &Session) {
    let _ = black_box(
        firewall
            .check(sql, &Params::None, session)
            .expect("no fault"),
    );
}
