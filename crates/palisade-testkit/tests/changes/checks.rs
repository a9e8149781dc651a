//! The way to the text of a change: all of its checks, each with the answers that end it.

use std::sync::Arc;

use palisade::{
    danger,
    firewall::{Decision, Firewall},
    guard::{BackendErrorKind, Check, Estimate},
    limits::Limits,
    rewrite::RewrittenStatement,
    session::{Principal, Session},
    value::Params,
};
use palisade_testkit::fixture::policy_sources;

const SCHEMA: &str = "CREATE TABLE par (id int PRIMARY KEY);
    CREATE TABLE kid (id int PRIMARY KEY, tenant int, par_id int, FOREIGN KEY (par_id) REFERENCES par (id) ON DELETE CASCADE);";

/// Children of other tenants are hidden, and may not be reached.
const POLICIES: &str = "permit(principal, action, resource);
    @id(\"tenant\") forbid(principal, action == Action::\"see\", resource is row::shop::kid) unless { resource has tenant && resource.tenant == 1 };";

fn decide(policies: &str, limits: Limits, sql: &str) -> Arc<RewrittenStatement> {
    let catalog = palisade_ddl::mysql(SCHEMA, "shop").unwrap();
    let firewall = Firewall::builder(catalog, policy_sources(policies))
        .limits(limits)
        .allow_changes()
        .build()
        .unwrap();
    let session = Session::new(Principal::new("Agent", "a"));
    match firewall.check(sql, &Params::None, &session).unwrap() {
        Decision::Allow(statement) => Arc::from(statement),
        Decision::Reject(why) => panic!("{why}"),
    }
}

#[test]
fn rows_that_are_found_and_rows_that_are_too_many_end_it() {
    let limits = Limits {
        max_affected_rows: 10,
        ..Limits::default()
    };
    let statement = decide(POLICIES, limits, "DELETE FROM par WHERE id = 1");
    let parts = danger::parts(&statement);
    let checks = danger::checks(&parts);
    assert!(checks.have_prechecks() && checks.have_cascade_counts());
    let (mut rows, mut counts) = (0, 0);
    let mut check = checks.first_check();
    let text = loop {
        check = match check {
            Check::Estimate(_) => panic!("no estimate is wanted"),
            Check::Precheck(precheck) => {
                rows += 1;
                precheck.answer(false).unwrap()
            }
            Check::CascadeCount(count) => {
                counts += 1;
                count.answer(10).unwrap()
            }
            Check::Ready(text) => break text,
        };
    };
    assert_eq!((rows, counts), (parts.prechecks.len(), 1));
    assert_eq!(text.sql(), parts.sql);
    // What is left out leaves without the text.
    let error = checks.first_check().ready().unwrap_err();
    assert_eq!(error.kind, BackendErrorKind::SecondLock);
    let mut check = checks.first_check();
    loop {
        check = match check {
            Check::Precheck(precheck) if rows > 0 => {
                rows -= 1;
                let found = danger::checks(&parts).first_check();
                let Check::Precheck(found) = found else {
                    panic!("{found:?}");
                };
                let error = found.answer(true).unwrap_err();
                // As a foreign key that the engine itself would not let go.
                assert_eq!(error.kind, BackendErrorKind::Constraint);
                precheck.answer(false).unwrap()
            }
            Check::CascadeCount(count) => {
                let error = count.answer(11).unwrap_err();
                assert_eq!(error.kind, BackendErrorKind::AffectedRows);
                break;
            }
            other => panic!("{other:?}"),
        };
    }
}

#[test]
fn an_estimate_above_a_cap_ends_it() {
    let limits = Limits {
        max_cost: Some(5),
        ..Limits::default()
    };
    let sql = "SELECT id FROM par";
    let statement = decide("permit(principal, action, resource);", limits, sql);
    let parts = danger::parts(&statement);
    let estimate = |cost| Estimate {
        cost,
        ..Estimate::default()
    };
    for (plans, ends) in [
        (vec![estimate(Some(4.0))], false),
        (vec![estimate(Some(4.0)), estimate(Some(6.0))], true),
        // What is not known is above.
        (vec![estimate(None)], true),
        (vec![], true),
    ] {
        let Check::Estimate(check) = danger::checks(&parts).first_check() else {
            panic!("an estimate is wanted");
        };
        let answer = check.answer(&plans);
        assert_eq!(
            answer.is_err_and(|e| e.kind == BackendErrorKind::Cost),
            ends
        );
    }
}
