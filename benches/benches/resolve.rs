//! Reading a statement up to what it touches, beside a bare parse of the same text: questions of the shapes of TPC-H's, and
//! the corpus's ten longest. What reading costs beyond the parse is the resolution, the checks on tokens included.
//!
//! Decisions are warm: the session has asked before. The last lines print the ratios.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a bench stops at the first surprise"
)]

use std::{hint::black_box, path::Path, sync::Arc, time::Instant};

use palisade::{
    dialect::Dialect,
    firewall::Firewall,
    policy::{PolicyFile, PolicySources},
    session::{Principal, Session},
};
use palisade_corpus::{Corpus, Runner, Verdict};
use sqlparser::{
    dialect::{Dialect as ParserDialect, MySqlDialect, PostgreSqlDialect, SQLiteDialect},
    parser::Parser,
};

/// A statement, and who asks what.
struct Question {
    name: String,
    sql: String,
    firewall: Arc<Firewall>,
    session: Session,
}

fn main() {
    // `cargo test --benches` runs it too: once is enough to see that it works.
    let rounds = if std::env::args().any(|arg| arg == "--bench") {
        101
    } else {
        1
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus");
    let corpus = Corpus::load(folder).unwrap_or_else(|error| panic!("{error}"));
    let runner = Runner::new(&corpus).unwrap_or_else(|error| panic!("{error}"));
    report("shapes of TPC-H", &tpch(), rounds);
    report("the corpus's longest", &longest(&corpus, &runner), rounds);
}

fn tpch() -> Vec<Question> {
    let catalog = palisade_ddl::postgres(include_str!("../tpch/schema.sql"), "tpch");
    let policies = PolicySources {
        policies: vec![PolicyFile {
            name: "open.cedar".to_owned(),
            text: "permit(principal, action, resource);".to_owned(),
        }],
        ..PolicySources::default()
    };
    let firewall = Firewall::builder(catalog.expect("the tables are read"), policies)
        .build()
        .expect("the policies load");
    let firewall = Arc::new(firewall);
    let text = include_str!("../tpch/queries.sql");
    let questions: Vec<_> = text.split("\n\n").skip(1).collect();
    assert_eq!(questions.len(), 22);
    questions
        .into_iter()
        .zip(1..)
        .map(|(sql, number)| Question {
            name: format!("tpch-{number}"),
            sql: sql.to_owned(),
            firewall: firewall.clone(),
            session: Session::new(Principal::new("Agent", "bench")),
        })
        .collect()
}

fn longest(corpus: &Corpus, runner: &Runner) -> Vec<Question> {
    let mut cases: Vec<_> = corpus
        .cases
        .iter()
        .filter(|case| case.expect.verdict == Verdict::Allow && case.ids.is_empty())
        .filter(|case| Parser::parse_sql(bare(case.dialect), &case.sql).is_ok())
        .collect();
    cases.sort_by_key(|case| std::cmp::Reverse(case.sql.len()));
    cases.truncate(10);
    cases
        .into_iter()
        .map(|case| Question {
            name: case.name.clone(),
            sql: case.sql.clone(),
            firewall: runner.firewall(case).expect("a catalog").clone(),
            session: case.session(),
        })
        .collect()
}

fn report(title: &str, questions: &[Question], rounds: usize) {
    println!(
        "\n{title:<36} {:>6} {:>9} {:>9} {:>11}",
        "bytes", "parse µs", "read µs", "resolution"
    );
    let (mut parses, mut reads, mut worst) = (0.0, 0.0, 0.0_f64);
    for question in questions {
        let (parse, read) = measure_pair(question, rounds);
        println!(
            "{:<36} {:>6} {parse:>9.1} {read:>9.1} {:>11.2}",
            question.name,
            question.sql.len(),
            read / parse - 1.0
        );
        parses += parse;
        reads += read;
        worst = worst.max(read / parse - 1.0);
    }
    println!(
        "{title}: resolution is {:.2} of the parse, {worst:.2} at worst",
        reads / parses - 1.0
    );
}

/// Microseconds of a bare parse, and of the parse with the resolution, taken in turn: the least of many, since what
/// else the machine does only adds.
fn measure_pair(question: &Question, rounds: usize) -> (f64, f64) {
    let Question {
        name,
        sql,
        firewall,
        session,
    } = question;
    let dialect = bare(firewall.catalog().dialect());
    let parse = || {
        drop(black_box(
            Parser::parse_sql(dialect, black_box(sql)).expect("it parses"),
        ))
    };
    let read = || {
        let read = firewall.resolve_access(black_box(sql), session);
        assert!(read.is_ok(), "{name}: {read:?}");
        drop(black_box(read));
    };
    let time = |work: &dyn Fn()| {
        let start = Instant::now();
        for _ in 0..20 {
            work();
        }
        start.elapsed().as_secs_f64() * 1e6 / 20.0
    };
    read();
    let (mut parses, mut reads) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        parses.push(time(&parse));
        reads.push(time(&read));
    }
    let least = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
    (least(&parses), least(&reads))
}

/// The parser's own rules for `dialect`, without what our dialects add.
fn bare(dialect: Dialect) -> &'static dyn ParserDialect {
    match dialect {
        Dialect::Sqlite => &SQLiteDialect {},
        Dialect::Postgres => &PostgreSqlDialect {},
        Dialect::Mysql => &MySqlDialect {},
    }
}
