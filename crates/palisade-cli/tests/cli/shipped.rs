//! What the tests of the shipped policies leave out: nothing.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::desk::Desk;

/// A policy, its change, and why the change does nothing. `palisade policy test --mutate` counts such a mutant as none,
/// whatever the reason: here it needs one.
type Idle = (&'static str, &'static str, &'static str);

const IDLE_OF_STARTER: &[Idle] = &[
    (
        "starter.tables",
        "without the action `discover`",
        "who may select a table may know of it",
    ),
    (
        "starter.personal",
        "without `@mask`",
        "a column without a mask from any policy is NULL, which is this mask",
    ),
    (
        "starter.functions",
        "without `when { [\"pure\", \"volatile\", \"account\"].contains(resource.safety) }`",
        "other functions need a permit that names them",
    ),
];

const IDLE_OF_DEMO: &[Idle] = &[
    (
        "support.status.column",
        "for every principal",
        "a column is written by whom its table is permitted to, and only the role is",
    ),
    (
        "support.status.column",
        "for every action",
        "the other actions of a column read, and `support.columns` permits those",
    ),
    (
        "support.columns",
        "for every principal",
        "columns are read by whom their table is permitted to, and only the role is",
    ),
    (
        "support.functions",
        "without `when { [\"pure\", \"volatile\"].contains(resource.safety) }`",
        "other functions need a permit that names them",
    ),
    (
        "staff.rows",
        "for every action",
        "rows change where their table is permitted to, and this one is not",
    ),
    (
        "tenant.own",
        "for every action",
        "rows change where their table is permitted to, and this one is not",
    ),
    (
        "tenant.customers",
        "for every action",
        "rows change where their table is permitted to, and this one is not",
    ),
    (
        "tenant.tickets",
        "for every action",
        "it names all actions of rows",
    ),
    (
        "no.credentials",
        "without the action `insert`",
        "no policy permits it; the forbid stays for the day that one does",
    ),
    (
        "no.credentials",
        "without the action `update`",
        "no policy permits it; the forbid stays for the day that one does",
    ),
    (
        "no.credentials",
        "without the action `delete`",
        "no policy permits it; the forbid stays for the day that one does",
    ),
];

#[test]
fn tests_of_the_starter_policies_leave_nothing_out() {
    let desk = Desk::empty();
    desk.run(&["policy", "print-starter", "--dir", "starter"])
        .expect_exit(0);
    leaves_nothing_out(&desk, "starter", IDLE_OF_STARTER);
    let lint = ["policy", "test", "starter", "--lint", "--fail-on"];
    desk.run(&[&lint[..], &["warning"]].concat()).expect_exit(0);
}

#[test]
fn tests_of_the_demonstration_leave_nothing_out() {
    leaves_nothing_out(&Desk::new(), "demo-policies", IDLE_OF_DEMO);
}

/// Each kind is covered whole, and each mutant is noticed, or named here.
fn leaves_nothing_out(desk: &Desk, folder: &str, idle: &[Idle]) {
    let run = ["policy", "test", folder, "--coverage", "--mutate"];
    let told = desk.run(&[&run[..], &["--format", "json"]].concat());
    let told = told.expect_exit(0).json();
    let kinds = told["coverage"]["kinds"].as_array().unwrap();
    let kinds: BTreeMap<_, _> = (kinds.iter())
        .map(|kind| (kind["kind"].as_str().unwrap(), kind))
        .collect();
    let names = kinds.keys().copied().collect::<Vec<_>>();
    assert_eq!(
        names,
        [
            "actions",
            "clauses",
            "columns",
            "policies",
            "principals",
            "tables",
            "usages"
        ]
    );
    for (name, kind) in kinds {
        // Neither tells uses of columns apart.
        let is_there = kind["total"].as_u64().unwrap() > 0;
        assert_eq!(is_there, name != "usages", "{name}");
        assert_eq!(kind["untested"], serde_json::json!([]), "{name}");
    }
    assert_eq!(told["mutation"]["score"], 100);
    let mutants = told["mutation"]["mutants"].as_array().unwrap();
    let of_fate = |fate: &str| -> Vec<&Value> {
        let of_fate = mutants.iter().filter(|mutant| mutant["fate"] == fate);
        of_fate.collect()
    };
    assert!(of_fate("noticed").len() > 40, "{}", mutants.len());
    assert!(of_fate("survived").is_empty());
    let found: Vec<_> = (of_fate("equivalent").into_iter())
        .map(|mutant| {
            let text = |key: &str| mutant[key].as_str().unwrap();
            (text("policy"), text("change"))
        })
        .collect();
    let named: Vec<_> = (idle.iter())
        .map(|(policy, change, reason)| {
            assert!(!reason.is_empty(), "{policy}");
            (*policy, *change)
        })
        .collect();
    assert_eq!(found, named);
}
