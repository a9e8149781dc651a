//! Remembered statements change no decision: the corpus, decided with and without them, in any order of
//! sessions, policies and parameters.

use std::{collections::BTreeSet, path::Path, sync::OnceLock};

use palisade::{
    error::Error,
    firewall::{Decision, Firewall},
    limits::Limits,
    session::{Principal, Session, Transport},
    value::{Params, Value},
};
use palisade_corpus::{Case, Corpus, Runner};
use proptest::{
    prelude::*,
    sample::Index,
    test_runner::{Config, TestRunner},
};

/// The corpus and its firewalls: without a cache, with room for few, with room for all.
struct Stage {
    corpus: Corpus,
    principals: Vec<Principal>,
    without: Runner,
    few: Runner,
    all: Runner,
}

fn stage() -> &'static Stage {
    static STAGE: OnceLock<Stage> = OnceLock::new();
    STAGE.get_or_init(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
        let corpus = Corpus::load(folder).unwrap();
        let runner =
            |bytes| Runner::with_builder(&corpus, |builder| builder.cache_bytes(bytes)).unwrap();
        let principals: BTreeSet<_> = corpus.cases.iter().map(|c| c.principal.clone()).collect();
        Stage {
            principals: principals.into_iter().collect(),
            without: runner(0),
            few: runner(32 * 1024),
            all: runner(64 << 20),
            corpus,
        }
    })
}

/// One request of a sequence.
#[derive(Debug, Clone)]
struct Request {
    case: Index,
    /// None: the case's own.
    principal: Option<Index>,
    transport: Transport,
    /// None: the case's own.
    params: Option<Params>,
    max_rows: Option<u64>,
}

fn request() -> impl Strategy<Value = Request> {
    let integers = prop::collection::vec(-1_i64..2000, 0..4)
        .prop_map(|values| Params::Positional(values.into_iter().map(Value::Integer).collect()));
    let params = prop_oneof![
        4 => Just(None),
        1 => Just(Some(Params::None)),
        4 => integers.prop_map(Some),
    ];
    let transport = prop_oneof![Just(Transport::Library), Just(Transport::Stdio)];
    let principal = prop::option::weighted(0.5, any::<Index>());
    let max_rows = prop::option::weighted(0.3, 1_u64..50);
    (any::<Index>(), principal, transport, params, max_rows).prop_map(
        |(case, principal, transport, params, max_rows)| Request {
            case,
            principal,
            transport,
            params,
            max_rows,
        },
    )
}

/// Everything that a decision says. How a statement came about may differ, what runs may not.
fn told(decided: Result<Decision, Error>) -> String {
    let statement = match decided {
        Ok(Decision::Allow(statement)) => statement,
        other => return format!("{other:?}"),
    };
    let runs = (
        palisade::danger::parts(&statement).sql,
        statement.params(),
        palisade::danger::parts(&statement).prechecks,
        palisade::danger::parts(&statement).cascade_counts,
        statement.effect(),
        statement.max_affected(),
        statement.body_after_changes(),
    );
    let engine = (
        statement.engine_reads(),
        statement.engine_functions(),
        statement.engine_writes(),
        statement.engine_triggers(),
        statement.estimate_caps(),
        statement.awaits_estimate(),
        statement.gathers(),
        statement.change_facts(),
        statement.text_facts(),
    );
    let rest = (
        statement.principal(),
        statement.scan_plan(),
        statement.limits(),
        statement.policies(),
        statement.relations(),
        statement.sources(),
    );
    format!("{runs:?} {engine:?} {rest:?}")
}

fn decision(firewall: &Firewall, case: &Case, request: &Request, stage: &Stage) -> String {
    let principal = match &request.principal {
        Some(index) => index.get(&stage.principals).clone(),
        None => case.principal.clone(),
    };
    let session = Session::new(principal).over(request.transport).at(case.at);
    let params = request.params.as_ref().unwrap_or(&case.params);
    let limits = Limits {
        max_rows: request.max_rows.unwrap_or(case.limits.max_rows),
        ..case.limits.clone()
    };
    told(firewall.check_within(&case.sql, params, &session, &limits))
}

#[test]
fn remembered_statements_change_no_decision() {
    let stage = stage();
    let config = Config {
        cases: 12,
        failure_persistence: None,
        ..Config::default()
    };
    let sequences = prop::collection::vec(request(), 250);
    TestRunner::new(config)
        .run(&sequences, |requests| {
            // The statements of a few cases come again and again.
            for request in requests.iter().chain(&requests) {
                let case = request.case.get(&stage.corpus.cases);
                let of = |runner: &Runner| {
                    decision(runner.firewall(case).unwrap(), case, request, stage)
                };
                let expected = of(&stage.without);
                for (name, runner) in [("few", &stage.few), ("all", &stage.all)] {
                    prop_assert_eq!(&of(runner), &expected, "room for {}: {}", name, case.sql);
                }
            }
            Ok(())
        })
        .unwrap();
}

/// What was permitted to one is not permitted to another by the memory of it.
#[test]
fn a_remembered_statement_is_one_session_s_alone() {
    let stage = stage();
    let mut told_apart = 0;
    for case in &stage.corpus.cases {
        let firewall = stage.all.firewall(case).unwrap();
        for principal in &stage.principals {
            let session = Session::new(principal.clone()).at(case.at);
            let ask = |firewall: &Firewall| told(firewall.check(&case.sql, &case.params, &session));
            // Asked by its own principal before and in between.
            let own = case.session();
            let _ = firewall.check(&case.sql, &case.params, &own).unwrap();
            let expected = ask(stage.without.firewall(case).unwrap());
            assert_eq!(ask(firewall), expected, "{principal}: {}", case.sql);
            let theirs = told(firewall.check(&case.sql, &case.params, &own));
            told_apart += usize::from(theirs != expected);
        }
    }
    assert!(
        told_apart > 100,
        "principals differ in {told_apart} answers"
    );
}
