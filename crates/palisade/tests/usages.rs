//! How columns are used: what policies see of it, through views too, and what may not be done with some of them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use palisade::{
    error::Error,
    firewall::{Decision, Firewall},
    policy::{PolicyFile, PolicySources},
    session::{Principal, Session},
    token::TokenSecret,
    value::Params,
};

const SCHEMA: &str = "
CREATE TABLE people (id int PRIMARY KEY, name text, ssn text, salary int, boss int);
CREATE TABLE other (id int PRIMARY KEY, ssn text);
CREATE VIEW dir AS SELECT id, ssn, salary FROM people;
CREATE VIEW named AS SELECT id AS number, name, ssn AS code FROM dir JOIN people USING (id, ssn);
CREATE VIEW rich AS SELECT id, name FROM people WHERE salary > 100;
CREATE VIEW most AS SELECT max(salary) AS highest FROM people;
";

const OPEN: &str = "permit(principal, action, resource);\n";

fn sources(policies: &str) -> PolicySources {
    PolicySources {
        policies: vec![PolicyFile {
            name: "p.cedar".to_owned(),
            text: format!("{OPEN}{policies}"),
        }],
        ..PolicySources::default()
    }
}

fn firewall(policies: &str) -> Firewall {
    let catalog = palisade_ddl::postgres(SCHEMA, "shop").unwrap();
    Firewall::builder(catalog, sources(policies))
        .build()
        .unwrap_or_else(|error| panic!("{error}"))
}

fn decided(firewall: &Firewall, sql: &str) -> &'static str {
    let session = Session::new(Principal::new("Agent", "a"));
    match firewall.check(sql, &Params::None, &session).unwrap() {
        Decision::Allow(_) => "allow",
        Decision::Reject(why) => why.code().slug(),
    }
}

/// The ways in which the statement uses the column of `people`.
fn usages(sql: &str, column: &str) -> String {
    let firewall = firewall("");
    let session = Session::new(Principal::new("Agent", "a"));
    let (decision, trace) = firewall.explain(sql, &Params::None, &session).unwrap();
    assert!(
        matches!(decision, Decision::Allow(_)),
        "{sql}: {decision:?}"
    );
    let people = trace
        .relations
        .iter()
        .find(|r| r.relation.ends_with("people"));
    let mut columns = people.unwrap().columns.iter();
    let used = columns.find(|used| used.column == column);
    used.map_or_else(String::new, |used| used.usages.join(" "))
}

#[test]
fn a_view_is_used_as_its_columns_are() {
    for (sql, column, expected) in [
        ("SELECT ssn FROM dir", "ssn", "output view"),
        ("SELECT id FROM dir", "ssn", "view"),
        ("SELECT id FROM dir WHERE ssn = 'x'", "ssn", "filter view"),
        ("SELECT code FROM named", "ssn", "output join view"),
        (
            "SELECT number FROM named WHERE code = 'x'",
            "ssn",
            "filter join view",
        ),
        ("SELECT id FROM rich", "salary", "filter view"),
        (
            "SELECT highest FROM most",
            "salary",
            "output aggregate view",
        ),
        (
            "SELECT d.ssn FROM (SELECT * FROM dir) AS d",
            "ssn",
            "output view",
        ),
    ] {
        assert_eq!(usages(sql, column), expected, "{sql}");
    }
}

#[test]
fn what_is_ordered_within_a_group_is_aggregated() {
    for (sql, expected) in [
        (
            "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY salary) FROM people",
            "output order aggregate",
        ),
        (
            "SELECT rank(150) WITHIN GROUP (ORDER BY salary) FROM people",
            "output order aggregate",
        ),
        (
            "SELECT boss FROM people GROUP BY boss HAVING mode() WITHIN GROUP (ORDER BY salary) > 1",
            "filter order aggregate",
        ),
    ] {
        assert_eq!(usages(sql, "salary"), expected, "{sql}");
    }
}

#[test]
fn what_two_tables_are_compared_by_is_joined_by() {
    for (sql, column, expected) in [
        (
            "SELECT 1 FROM people p JOIN other o ON o.ssn = p.ssn",
            "ssn",
            "join",
        ),
        (
            "SELECT 1 FROM people p JOIN other o ON o.id = p.id AND p.ssn = 'x'",
            "ssn",
            "filter join",
        ),
        (
            "SELECT 1 FROM people p JOIN other o ON o.id = p.id AND p.ssn = 'x'",
            "id",
            "join",
        ),
        (
            "SELECT 1 FROM people p, other o WHERE o.ssn = p.ssn",
            "ssn",
            "filter join",
        ),
        (
            "SELECT 1 FROM people p, people q WHERE p.boss = q.id",
            "boss",
            "filter join",
        ),
        (
            "SELECT 1 FROM people WHERE ssn IN (SELECT ssn FROM other)",
            "ssn",
            "filter join",
        ),
        (
            "SELECT 1 FROM people p WHERE EXISTS (SELECT 1 FROM other o WHERE o.ssn = p.ssn)",
            "ssn",
            "filter join",
        ),
        (
            "SELECT 1 FROM people WHERE ssn = (SELECT max(ssn) FROM other)",
            "ssn",
            "filter join",
        ),
        (
            "SELECT 1 FROM people WHERE ssn = 'x' AND name = upper(name)",
            "ssn",
            "filter",
        ),
        ("SELECT 1 FROM people WHERE name = ssn", "ssn", "filter"),
        (
            "SELECT 1 FROM people WHERE ssn IN ('a', 'b')",
            "ssn",
            "filter",
        ),
    ] {
        assert_eq!(usages(sql, column), expected, "{sql}");
    }
}

#[test]
fn a_condition_that_always_holds_is_none() {
    let firewall = firewall(
        "forbid(principal, action == Action::\"select\", resource == Table::\"public.people\")
         unless { context has statement && context.statement.has_where };",
    );
    for (sql, expected) in [
        ("SELECT id FROM people", "policy.forbidden"),
        ("SELECT id FROM people WHERE 1 = 1", "policy.forbidden"),
        ("SELECT id FROM people WHERE id = 1", "allow"),
    ] {
        assert_eq!(decided(&firewall, sql), expected, "{sql}");
    }
}

#[test]
fn no_view_gives_what_may_not_be_output() {
    let firewall = firewall(
        "forbid(principal, action == Action::\"read_plain\", resource == Column::\"public.people.ssn\")
         when { context has usage && context.usage.contains(\"output\") };",
    );
    for (sql, expected) in [
        ("SELECT ssn FROM people", "policy.forbidden"),
        ("SELECT ssn FROM dir", "policy.forbidden"),
        ("SELECT upper(code) FROM named", "policy.forbidden"),
        ("SELECT id FROM dir WHERE ssn = 'x'", "allow"),
        ("SELECT id, salary FROM dir", "allow"),
    ] {
        assert_eq!(decided(&firewall, sql), expected, "{sql}");
    }
}

#[test]
fn what_is_read_as_hashes_is_not_written() {
    let catalog = palisade_ddl::postgres(SCHEMA, "shop").unwrap();
    let sources = sources(
        "@mask(\"hash\") forbid(principal, action == Action::\"read_plain\", resource == Column::\"public.people.ssn\");",
    );
    let firewall = Firewall::builder(catalog, sources)
        .token_secret(TokenSecret::new("0".repeat(32)))
        .allow_changes()
        .build()
        .unwrap_or_else(|error| panic!("{error}"));
    for (sql, expected) in [
        (
            "INSERT INTO people (id, ssn) VALUES (7, 'guess')",
            "write.masked-column",
        ),
        (
            "UPDATE people SET ssn = 'guess' WHERE id = 7",
            "write.masked-column",
        ),
        ("UPDATE people SET name = 'x' WHERE id = 7", "allow"),
        ("INSERT INTO people (id, name) VALUES (7, 'x')", "allow"),
    ] {
        assert_eq!(decided(&firewall, sql), expected, "{sql}");
    }
}

fn events(kind: &str, expression: &str, policies: &str) -> Result<Firewall, Error> {
    let schema = format!(
        "CREATE TABLE events (id INTEGER PRIMARY KEY, tenant INTEGER, p TEXT, t INTEGER GENERATED ALWAYS AS ({expression}) {kind});"
    );
    let catalog = palisade_sqlite::catalog_from_ddl(&schema, "desk").unwrap();
    Firewall::builder(catalog, sources(policies)).build()
}

#[test]
fn what_is_computed_where_it_is_read_is_computed_of_what_is_shown() {
    let by = |column: &str| {
        format!(
            "forbid(principal, action == Action::\"see\", resource is row::main::events) unless {{ resource has {column} && resource.{column} == 1 }};"
        )
    };
    let json = "json_extract(p, '$.t')";
    let error = events("VIRTUAL", json, &by("t")).err().unwrap().to_string();
    assert!(error.contains("p.cedar:2"), "{error}");
    for (kind, expression) in [("STORED", json), ("VIRTUAL", "length(p)")] {
        events(kind, expression, &by("t")).unwrap_or_else(|error| panic!("{error}"));
    }
    // The agent's own condition would be tried on rows that are not shown.
    let text = |kind, expression, sql| {
        let firewall = events(kind, expression, &by("tenant")).unwrap();
        let session = Session::new(Principal::new("Agent", "a"));
        match firewall.check(sql, &Params::None, &session).unwrap() {
            Decision::Allow(statement) => palisade::danger::parts(&statement).sql.to_owned(),
            Decision::Reject(why) => panic!("{why}"),
        }
    };
    for (kind, expression, sql, fenced) in [
        ("VIRTUAL", json, "SELECT id FROM events WHERE t = 1", true),
        ("VIRTUAL", json, "SELECT id FROM events WHERE id = 1", false),
        ("STORED", json, "SELECT id FROM events WHERE t = 1", false),
        (
            "VIRTUAL",
            "length(p)",
            "SELECT id FROM events WHERE t = 1",
            false,
        ),
    ] {
        let text = text(kind, expression, sql);
        assert_eq!(text.contains("OFFSET 0"), fenced, "{text}");
    }
}
