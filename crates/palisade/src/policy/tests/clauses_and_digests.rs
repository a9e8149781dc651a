//! What is asked of a policy set besides decisions: its clauses, its conditions, its digests.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use crate::policy::{
    ClauseAbout, PolicySet, outline,
    review::what_if,
    tests::fixture::{self, READ_ALL, agent, column_id, relation_id, set, sources},
};

#[test]
fn the_id_that_was_probably_meant_is_found() {
    let ids = ["analyst", "officer"].map(str::to_owned);
    for (id, meant) in [
        ("analist", Some("analyst")),
        ("fofficer", Some("officer")),
        ("xyzzy", None),
    ] {
        assert_eq!(PolicySet::closest(id, &ids).as_deref(), meant, "{id}");
    }
}

#[test]
fn digests_are_those_of_the_texts_they_are_of() {
    let base = sources(READ_ALL);
    let other_texts = sources("permit(principal, action, resource);");
    let mut other_principals = base.clone();
    other_principals.entities = None;
    let digests = |sources| {
        let set = fixture::load(sources).unwrap_or_else(|errors| panic!("{errors}"));
        (
            set.texts_digest().to_owned(),
            set.entities_digest().to_owned(),
        )
    };
    let (texts, entities) = digests(&base);
    assert_eq!((texts.len(), entities.len()), (64, 64));
    assert_eq!(digests(&base), (texts.clone(), entities.clone()));
    let (changed, same) = digests(&other_texts);
    assert!(changed != texts && same == entities);
    let (same, changed) = digests(&other_principals);
    assert!(same == texts && changed != entities);
}

/// The value of the only clause of a policy for an agent, about a table and about one of its columns.
fn values(policy: &str, who: &str) -> (Option<bool>, Option<bool>) {
    let sources = sources(policy);
    let set = set(policy);
    let clause = &outline(&sources)[0].clauses[0];
    let session = agent(who);
    let relation = relation_id("customers");
    let column = column_id(&fixture::catalog(), "main.customers.ssn");
    (
        set.clause_value(clause, &session, relation, None),
        set.clause_value(clause, &session, relation, Some(column)),
    )
}

#[test]
fn a_clause_has_a_value_where_its_scope_takes_who_asks_and_what() {
    const HAS_TENANT: &str = r#"when { principal is Agent && principal has tenant };"#;
    let table = r#"action == Action::"select""#;
    let column = r#"action == Action::"read_plain""#;
    let permit = |who: &str, action: &str, what: &str| {
        format!("permit(principal{who}, {action}, resource{what}) {HAS_TENANT}")
    };
    for (policy, who, expected) in [
        (permit("", table, ""), "bot", (Some(true), None)),
        (permit("", table, ""), "officer", (Some(false), None)),
        (permit("", column, ""), "bot", (None, Some(true))),
        (permit("", column, ""), "officer", (None, Some(false))),
        (permit("", "action", ""), "bot", (Some(true), Some(true))),
        (
            permit(r#" == Agent::"officer""#, table, ""),
            "bot",
            (None, None),
        ),
        (
            permit(r#" == Agent::"bot""#, table, ""),
            "bot",
            (Some(true), None),
        ),
        (permit(r#" in Role::"dpo""#, table, ""), "bot", (None, None)),
        (
            permit(r#" in Role::"dpo""#, table, ""),
            "officer",
            (Some(false), None),
        ),
        (permit(" is User", table, ""), "bot", (None, None)),
        (permit(" is Agent", table, ""), "bot", (Some(true), None)),
        (
            permit(r#" is Agent in Role::"dpo""#, table, ""),
            "bot",
            (None, None),
        ),
        (
            permit("", table, r#" == Table::"main.customers""#),
            "bot",
            (Some(true), None),
        ),
        (
            permit("", table, r#" == Table::"main.tickets""#),
            "bot",
            (None, None),
        ),
        (
            permit("", column, r#" == Column::"main.customers.ssn""#),
            "bot",
            (None, Some(true)),
        ),
        (
            permit("", column, r#" == Column::"main.customers.email""#),
            "bot",
            (None, None),
        ),
        (
            permit("", column, r#" in Table::"main.customers""#),
            "bot",
            (None, Some(true)),
        ),
        (
            permit("", "action", " is Column"),
            "bot",
            (None, Some(true)),
        ),
        (permit("", "action", " is Table"), "bot", (Some(true), None)),
    ] {
        assert_eq!(values(&policy, who), expected, "{policy} {who}");
    }
}

#[test]
fn a_clause_is_about_what_its_policy_is_of() {
    let of = |policy: &str| outline(&sources(policy))[0].clauses[0].about.clone();
    let rows = of(
        r#"permit(principal, action == Action::"see", resource is row::main::customers) when { resource.id == 1 };"#,
    );
    let ClauseAbout::Rows { holding, all } = rows else {
        panic!("{rows:?}")
    };
    assert!(holding.contains("resource.id == 1") && holding.starts_with("permit"));
    assert!(all.contains("true") && !all.contains("resource.id"));
    for (policy, about) in [
        (
            r#"permit(principal, action == Action::"select", resource) when { context has time };"#,
            ClauseAbout::Resources,
        ),
        (
            r#"permit(principal, action == Action::"select", resource) when { context has statement && context.statement.rows < 5 };"#,
            ClauseAbout::Others,
        ),
        (
            r#"permit(principal, action == Action::"call", resource) when { principal is Agent };"#,
            ClauseAbout::Others,
        ),
        (
            r#"permit(principal, action == Action::"run", resource) when { principal is Agent };"#,
            ClauseAbout::Others,
        ),
    ] {
        assert_eq!(of(policy), about, "{policy}");
    }
}

#[test]
fn places_of_policies_and_clauses_are_their_lines() {
    let text = "\npermit(principal, action, resource)\nwhen { true }\nunless\n{ false };\n\nforbid(principal, action, resource)\nwhen { false };\n";
    let found: Vec<_> = outline(&sources(text))
        .into_iter()
        .map(|one| {
            let clauses: Vec<_> = one
                .clauses
                .iter()
                .map(|c| (c.line, c.text.clone()))
                .collect();
            (one.first_line, one.last_line, clauses)
        })
        .collect();
    let clause = |line, text: &str| (line, text.to_owned());
    assert_eq!(
        found,
        [
            (
                2,
                5,
                vec![clause(3, "when { true }"), clause(4, "unless { false }")]
            ),
            (7, 8, vec![clause(8, "when { false }")])
        ]
    );
}

const BY_TIME: &str = r#"
@id("plain")
permit(principal, action == Action::"select", resource) when { principal is Agent };
@id("late")
permit(principal, action == Action::"read_plain", resource)
when { context has time && context.time >= datetime("2026-01-02") };
@id("never")
forbid(principal, action == Action::"read_masked", resource)
unless { context has time };
"#;

#[test]
fn conditions_on_circumstances_are_told_of_policies_that_have_some() {
    let set = set(BY_TIME);
    let told = |id| what_if::describe_circumstances(&set.loaded.policies, id);
    assert_eq!(told("plain"), None);
    assert_eq!(told("missing"), None);
    let late = told("late").unwrap();
    assert!(late.starts_with("when {") && late.ends_with('}'), "{late}");
    assert!(late.contains("context.time >= datetime"), "{late}");
    assert!(told("never").unwrap().starts_with("unless {"));
    let looking: Vec<String> = what_if::each(&set.loaded.policies)
        .filter(|policy| what_if::looks_at_circumstances(policy))
        .map(|policy| policy.id().to_string())
        .collect();
    assert_eq!(looking, ["late", "never"]);
    let ids: Vec<String> = set.ids().into_iter().collect();
    assert_eq!(ids, ["late", "never", "plain"]);
}

#[test]
fn circumstances_hold_or_not_in_each_of_four_corners() {
    let text = |id: &str, slices: &_| {
        let policy = what_if::each(slices).find(|policy| policy.id().to_string() == id);
        policy.unwrap().to_cedar().unwrap()
    };
    let set = set(BY_TIME);
    let corners = what_if::suppose_corners(&set.loaded.policies).unwrap();
    let holds: Vec<(bool, bool)> = corners
        .iter()
        .map(|slices| {
            let (late, never) = (text("late", slices), text("never", slices));
            assert!(!late.contains("context") && !never.contains("context"));
            // The forbid stands behind `unless`.
            (late.contains("true"), never.contains("false"))
        })
        .collect();
    for corner in [(true, false), (true, true), (false, false), (false, true)] {
        assert!(holds.contains(&corner), "{corner:?} {holds:?}");
    }
    assert_eq!(holds.len(), 4);
    let without = fixture::set(READ_ALL);
    let corners = what_if::suppose_corners(&without.loaded.policies).unwrap();
    assert!(corners.is_empty());
}

#[test]
fn actions_are_permitted_where_some_policy_permits_them() {
    for (policy, expected) in [
        (
            r#"permit(principal, action == Action::"select", resource);"#,
            &["select"][..],
        ),
        (
            r#"permit(principal, action in [Action::"update", Action::"delete"], resource);"#,
            &["update", "delete"],
        ),
        (
            r#"forbid(principal, action == Action::"insert", resource);"#,
            &[],
        ),
    ] {
        assert_eq!(set(policy).permitted_actions(), expected, "{policy}");
    }
}

#[test]
fn principals_are_those_that_are_listed_or_named_and_others() {
    let set = set(r#"permit(principal == Agent::"named", action == Action::"select", resource);"#);
    let agents: Vec<String> = set
        .known_principals()
        .into_iter()
        .filter(|one| one.kind() == "Agent")
        .map(|one| one.id().to_owned())
        .collect();
    assert_eq!(agents, [PolicySet::OTHERS, "bot", "named", "officer"]);
}

#[test]
fn circumstances_are_supposed_each_way_of_policies_that_read() {
    let count = |policies: &str| set(policies).suppositions().unwrap().len();
    let by_time = |count: usize| {
        let conditions = (1..=count).map(|day| {
            format!("when {{ context has time && context.time >= datetime(\"2026-01-{day:02}\") }}")
        });
        conditions.collect::<Vec<_>>().join("\n")
    };
    let see = |effect: &str, conditions: &str| {
        format!(
            "{READ_ALL}@id(\"p\") {effect}(principal, action == Action::\"see\", resource is row::main::customers) {conditions};"
        )
    };
    // Each condition holds or not; `has` is another than the comparison.
    for (policies, expected) in [
        (READ_ALL.to_owned(), 1),
        (see("forbid", &by_time(1)), 1 + 4),
        (see("permit", &by_time(1)), 1 + 4 + 1),
        (see("forbid", &by_time(2)), 1 + 8),
        (see("forbid", &by_time(9)), 1 + 32),
        (
            format!(
                "{READ_ALL}permit(principal, action == Action::\"read_plain\", resource) {};",
                by_time(1)
            ),
            1,
        ),
        (
            format!(
                "{READ_ALL}@mask(\"null\") forbid(principal, action == Action::\"read_plain\", resource) {};",
                by_time(1)
            ),
            1 + 4,
        ),
        (
            format!(
                "{READ_ALL}forbid(principal, action == Action::\"select\", resource) {};",
                by_time(1)
            ),
            1,
        ),
    ] {
        assert_eq!(count(&policies), expected, "{policies}");
    }
}
