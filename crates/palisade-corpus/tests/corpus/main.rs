//! Every case, decided alone and run on SQLite; and what must hold of the corpus as a whole.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod replay;
mod transcript;

use std::{collections::BTreeSet, fs, path::PathBuf};

use palisade::{code::Code, dialect::Dialect};
use palisade_corpus::{Case, Corpus, Coverage, Difference, Runner, Suite, Verdict};

/// Cases whose expectation does not hold yet, each with the reason. A case that passes must leave the list.
const OPEN: &[(&str, &str)] = &[(
    "parenthesised-join-star",
    "the engine invents names for what such a join gives twice; refused by name",
)];

/// Codes that no case can raise, each with the reason.
const WITHOUT_CASE: &[(Code, &str)] = &[
    (
        Code::SyntaxNotStable,
        "a fault of the printer that is not known; those that are known are repaired",
    ),
    (
        Code::RequestInvalid,
        "raised by tools for their arguments, before there is a statement",
    ),
    (
        Code::ApprovalRejected,
        "a person's answer, which no decision has",
    ),
    (
        Code::TemplateUnknown,
        "raised for the name of a template, before there is a statement",
    ),
    (
        Code::HistoryNotKept,
        "needs a moment of a database; tested with the changes of every engine",
    ),
    (
        Code::HistoryUnknown,
        "needs a moment of a database; tested with the changes of every engine",
    ),
    (
        Code::HistoryForeign,
        "needs a moment of a database; tested with the changes of every engine",
    ),
    (
        Code::HistoryTooEarly,
        "needs a moment of a database; tested with the changes of every engine",
    ),
    (
        Code::LimitFailures,
        "needs many statements that fail; tested with the gate",
    ),
    (
        Code::LimitBudget,
        "needs several statements; tested with the gate and the server",
    ),
    (
        Code::LimitAffectedRows,
        "needs a database that is changed; tested with the backends",
    ),
    (
        Code::DatabaseConstraint,
        "needs a database that is changed; tested with the backends",
    ),
    (
        Code::DatabaseConflict,
        "needs two transactions at a time; tested with the backends",
    ),
    (
        Code::ChangeUnknownReceipt,
        "is of a receipt of a change; tested with the server",
    ),
    (
        Code::ChangeUnknown,
        "is of a step of a change; tested with the server",
    ),
    (
        Code::ChangeWrongState,
        "is of a step of a change; tested with the server",
    ),
    (
        Code::ChangeOwnApproval,
        "is of a step of a change; tested with the server",
    ),
    (
        Code::ChangeNotCompensable,
        "is of a change that is undone; tested on the engines",
    ),
    (
        Code::ChangeBusy,
        "needs another writer at the same time; tested on the engines",
    ),
    (
        Code::ChangeConflict,
        "needs data that change between two steps; tested with the server",
    ),
    (
        Code::ChangeNotPreviewable,
        "is of a step of a change; tested with the server",
    ),
    (
        Code::LimitBusy,
        "needs many statements at a time; tested with the server and the backends",
    ),
    (
        Code::LimitCancelled,
        "needs a caller that gives up; tested with the server",
    ),
    (
        Code::DatabaseNotGranted,
        "needs an account without a grant; tested with the backend",
    ),
    (
        Code::DatabaseUnavailable,
        "needs a database that goes away; tested with the backend",
    ),
    (
        Code::DatabaseOutcomeUnknown,
        "needs a server that is lost while it keeps a change; tested with the backends",
    ),
    (
        Code::DatabaseSchemaChanged,
        "needs a schema that changes between decision and execution; tested with each backend",
    ),
    (
        Code::Internal,
        "an invariant that does not hold; a case that raises it would be a bug",
    ),
];

/// Techniques of `corpus/techniques.toml` that no statement can try, each with the reason.
const WITHOUT_TECHNIQUE: &[(&str, &str)] = &[
    (
        "G23",
        "a second path to the database: there is none; tested where tools are",
    ),
    (
        "G24",
        "the dialect is the catalog's; the gate refuses a backend of another",
    ),
    ("G29", "configuration, which an agent does not reach"),
    (
        "M39",
        "the form of the protocol's answer; one envelope for both parts",
    ),
    ("M40", "audit records"),
];

/// Techniques that do not exist on some engines, or that one engine tries for all of them.
const NOT_ON: &[(&str, &[Dialect], &str)] = &[
    (
        "G6",
        &[Dialect::Mysql],
        "no change stands inside of a query",
    ),
    ("G7", &[Dialect::Mysql], "no MERGE"),
    ("G10", &[Dialect::Postgres], "SELECT INTO makes a table"),
    ("G13", &[Dialect::Postgres], "LOAD DATA is MySQL's"),
    ("G16", &[Dialect::Mysql], "COPY is PostgreSQL's"),
    (
        "G17",
        &[Dialect::Postgres],
        "comments that are executed are MySQL's",
    ),
    (
        "G18",
        &[Dialect::Postgres],
        "comments that are executed are MySQL's",
    ),
    ("G27", &[Dialect::Mysql], "no cursor outside of routines"),
    ("F3", &[Dialect::Mysql], "no large objects"),
    ("F20", &[Dialect::Mysql], "no attribute notation"),
    (
        "M34",
        &[Dialect::Postgres, Dialect::Mysql],
        "who asks is no matter of the engine's",
    ),
    (
        "M37",
        &[Dialect::Postgres, Dialect::Mysql],
        "the scan is no matter of the engine's",
    ),
    (
        "M38",
        &[Dialect::Postgres, Dialect::Mysql],
        "the scan is no matter of the engine's",
    ),
];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../corpus")
}

fn corpus() -> Corpus {
    Corpus::load(folder()).unwrap_or_else(|error| panic!("{error}"))
}

fn runner(corpus: &Corpus) -> Runner {
    Runner::new(corpus).unwrap_or_else(|error| panic!("{error}"))
}

fn is_open(case: &Case) -> bool {
    OPEN.iter().any(|(name, _)| *name == case.name)
}

fn runs(case: &Case) -> bool {
    case.dialect == Dialect::Sqlite
}

fn report(corpus: &Corpus, run: impl Fn(&Case) -> Vec<Difference>) {
    let mut failed = Vec::new();
    for case in corpus.cases.iter().filter(|case| !is_open(case)) {
        let differences = run(case);
        if !differences.is_empty() {
            let lines: Vec<_> = differences.iter().map(|d| format!("  {d}")).collect();
            failed.push(format!(
                "{}\n  {}\n  {}\n{}",
                case.id(),
                case.why,
                case.sql,
                lines.join("\n")
            ));
        }
    }
    assert!(
        failed.is_empty(),
        "{} of {} cases:\n\n{}",
        failed.len(),
        corpus.cases.len(),
        failed.join("\n\n")
    );
}

#[test]
fn every_case_is_decided_as_written() {
    let corpus = corpus();
    let runner = runner(&corpus);
    report(&corpus, |case| runner.run_pure(case));
}

#[test]
fn every_case_runs_as_written() {
    let corpus = corpus();
    let runner = runner(&corpus);
    report(&corpus, |case| {
        if runs(case) {
            runner.run_sqlite(case)
        } else {
            Vec::new()
        }
    });
}

#[test]
fn open_cases_are_still_open() {
    let corpus = corpus();
    let runner = runner(&corpus);
    let pass = |name: &str| {
        let case = corpus
            .cases
            .iter()
            .find(|case| case.name == name)
            .expect(name);
        runner.run_pure(case).is_empty() && (!runs(case) || runner.run_sqlite(case).is_empty())
    };
    let closed: Vec<_> = OPEN
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| pass(name))
        .collect();
    assert!(
        closed.is_empty(),
        "these pass, take them off the list: {closed:?}"
    );
}

/// Equal cases give equal answers, whoever asked before: decisions that are remembered do not differ.
#[test]
fn answers_repeat() {
    let corpus = corpus();
    let runner = runner(&corpus);
    for case in &corpus.cases {
        if !runs(case) {
            assert_eq!(runner.decide(case), runner.decide(case), "{}", case.id());
        } else if !case.sql.contains("random") {
            assert_eq!(runner.answer(case), runner.answer(case), "{}", case.id());
        }
    }
}

/// Two databases that look the same to the agent give the same answers, errors included.
#[test]
fn what_is_hidden_does_not_show() {
    let corpus = corpus();
    let script = fs::read_to_string(folder().join("variants/desk.sql")).unwrap();
    let other = runner(&corpus.clone().with_rows("desk", &script));
    let runner = runner(&corpus);
    let mut told = Vec::new();
    let mut compared = 0;
    for case in &corpus.cases {
        let agents = case.catalog == "desk" && case.principal.id() == "support-bot";
        if !agents || is_open(case) {
            continue;
        }
        compared += 1;
        let seen = |runner: &Runner| {
            let answer = runner.answer(case).unwrap();
            (answer.code, answer.json, answer.text)
        };
        let (one, two) = (seen(&runner), seen(&other));
        if one != two {
            told.push(format!(
                "{}\n  {}\n  {:?}\n  {:?}",
                case.id(),
                case.sql,
                one,
                two
            ));
        }
    }
    assert!(compared > 100, "{compared}");
    assert!(told.is_empty(), "{}", told.join("\n\n"));
}

/// The other database does differ: who may see everything is answered differently.
#[test]
fn what_is_hidden_is_there() {
    let corpus = corpus();
    let script = fs::read_to_string(folder().join("variants/desk.sql")).unwrap();
    let other = runner(&corpus.clone().with_rows("desk", &script));
    let runner = runner(&corpus);
    let case = corpus
        .cases
        .iter()
        .find(|case| case.name == "officer-sees-all")
        .unwrap();
    let mut differs = 0;
    for table in [
        "customers",
        "tickets",
        "audit_events",
        "calls",
        "teams",
        "readings",
        "risk_view",
    ] {
        let case = Case {
            sql: format!("SELECT * FROM {table}"),
            ..case.clone()
        };
        let (one, two) = (runner.answer(&case).unwrap(), other.answer(&case).unwrap());
        assert_eq!((one.code, two.code), (None, None), "{table}");
        differs += usize::from(one.json != two.json);
    }
    assert_eq!(differs, 7);
}

/// The manual says what the firewall decides.
#[test]
fn the_page_of_what_is_read_is_current() {
    let text = fs::read_to_string(folder().join("coverage.toml")).unwrap();
    let page = Coverage::parse(&text)
        .unwrap()
        .page(&runner(&corpus()))
        .unwrap();
    let written = fs::read_to_string(folder().join("../docs/reference/coverage.md")).unwrap();
    assert!(
        page == written,
        "docs/reference/coverage.md is not what is decided; its head says how to write it anew:\n{page}"
    );
}

#[test]
fn the_corpus_is_large_and_its_names_are_unique() {
    let corpus = corpus();
    let names: BTreeSet<_> = corpus.cases.iter().map(|case| &case.name).collect();
    assert_eq!(names.len(), corpus.cases.len());
    assert!(corpus.cases.len() >= 150, "{}", corpus.cases.len());
    let without_reason = corpus.cases.iter().find(|case| case.why.trim().is_empty());
    assert_eq!(without_reason.map(Case::id), None);
    for suite in Suite::ALL {
        assert!(
            corpus.cases.iter().any(|case| case.suite == *suite),
            "{suite:?}"
        );
    }
    let bench = corpus.cases.iter().filter(|case| case.bench).count();
    assert!(bench >= 10, "{bench}");
}

#[test]
fn every_code_has_a_case() {
    let corpus = corpus();
    let raised: BTreeSet<Code> = corpus
        .cases
        .iter()
        .filter(|case| !is_open(case))
        .filter_map(|case| match case.expect.verdict {
            Verdict::Reject(code) => Some(code),
            Verdict::Allow | Verdict::Deny => None,
        })
        .collect();
    for code in Code::ALL {
        let excused = WITHOUT_CASE.iter().any(|(without, _)| without == code);
        assert_ne!(raised.contains(code), excused, "{code}");
    }
}

#[test]
fn every_technique_has_a_case() {
    let corpus = corpus();
    let known = &corpus.techniques;
    assert!(known.len() > 90, "{}", known.len());
    let mut tried: BTreeSet<(&str, &str)> = BTreeSet::new();
    for case in &corpus.cases {
        for id in &case.ids {
            assert!(
                known.contains_key(id),
                "{}: there is no technique `{id}`",
                case.id()
            );
            tried.insert((id, case.dialect.name()));
        }
    }
    for id in known.keys() {
        for dialect in [Dialect::Sqlite, Dialect::Postgres, Dialect::Mysql] {
            let nowhere = WITHOUT_TECHNIQUE.iter().any(|(without, _)| without == id);
            let not_here = NOT_ON
                .iter()
                .any(|(without, on, _)| without == id && on.contains(&dialect));
            assert_ne!(
                tried.contains(&(id.as_str(), dialect.name())),
                nowhere || not_here,
                "{id} on {}",
                dialect.name()
            );
        }
    }
}

/// Texts that differ from `sql` in plain literals: the same, then with other values in turn.
fn variants(sql: &str) -> Vec<String> {
    let word =
        |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '$' | '?' | ':' | '@' | '"' | '`');
    let mut pieces = vec![String::new()];
    let mut literals = Vec::new();
    let mut rest = sql;
    let mut before = ' ';
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '0'..='9' if !word(before) => {
                let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
                Some(end.unwrap_or(rest.len()))
            }
            '\'' if !word(before) => rest[1..].find('\'').map(|end| end + 2),
            _ => None,
        };
        let (taken, after) = rest.split_at(length.unwrap_or(c.len_utf8()));
        match length {
            Some(_) => {
                literals.push(taken);
                pieces.push(String::new());
            }
            None => pieces.last_mut().unwrap().push_str(taken),
        }
        before = taken.chars().next_back().unwrap();
        rest = after;
    }
    let other = |literal: &str, turn: usize| match literal.starts_with('\'') {
        true => [literal, "'x'", "'open'", "'2024-01-01'", "'7'", "'Bonn'"][turn % 6].to_owned(),
        false => [literal, "2", "7", "1", "0", "100000"][turn % 6].to_owned(),
    };
    (0..if literals.is_empty() { 0 } else { 9 })
        .map(|turn| {
            let others = literals.iter().enumerate();
            // One after the other, then all of them.
            let others = others.map(|(at, literal)| match turn < 6 {
                true => other(literal, if at % 2 == turn % 2 { turn } else { 0 }),
                false => other(literal, turn + at),
            });
            let mut others = others.collect::<Vec<_>>().into_iter();
            let mut text = String::new();
            for piece in &pieces {
                text.push_str(piece);
                text.push_str(&others.next().unwrap_or_default());
            }
            text
        })
        .collect()
}

/// A decision is the same whether statements that differ from it in literals were decided before or not.
#[test]
fn decisions_do_not_depend_on_earlier_ones() {
    let corpus = corpus();
    let forgetful = Runner::with_builder(&corpus, |builder| builder.cache_bytes(0));
    let forgetful = forgetful.unwrap_or_else(|error| panic!("{error}"));
    let runner = runner(&corpus);
    let mut failed = Vec::new();
    for case in &corpus.cases {
        for sql in variants(&case.sql) {
            let case = Case {
                sql,
                ..case.clone()
            };
            let told = |runner: &Runner| {
                let answer = runner.decide(&case).unwrap();
                (
                    answer.code,
                    answer.rewritten,
                    answer.policies,
                    answer.detail,
                )
            };
            let (known, alone) = (told(&runner), told(&forgetful));
            if known != alone {
                failed.push(format!(
                    "{}: {}\n  {known:?}\n  {alone:?}",
                    case.id(),
                    case.sql
                ));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
