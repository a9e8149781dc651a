//! What policies know of a request: its time, its client, the template it runs, the statement as a whole.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use std::{collections::BTreeMap, time::Duration};

use palisade::{
    answer::{Action, EmptyReason, Marker, ScanSession},
    error::Error,
    firewall::{Decision, Firewall},
    policy::PolicySources,
    session::{Claims, Principal, Session},
    value::{Params, Value},
};

const SCHEMA: &str = "
CREATE TABLE tickets (id INTEGER PRIMARY KEY, owner TEXT, subject TEXT, body TEXT);
CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, ssn TEXT);
CREATE VIEW open_tickets AS SELECT id, subject FROM tickets;
CREATE VIEW known_people AS SELECT id, name FROM people WHERE ssn > '0';
CREATE VIEW numbered_people AS SELECT id, ssn FROM people;
";

const READ: &str = "permit(principal, action in [Action::\"select\", Action::\"see\", Action::\"read\", Action::\"call\"], resource);\n";

fn load(policies: &str, templates: Option<&str>) -> Result<Firewall, Error> {
    let sources = PolicySources {
        templates: templates.map(str::to_owned),
        ..PolicySources::from_cedar("p.cedar", policies)
    };
    let catalog = palisade_sqlite::catalog_from_ddl(SCHEMA, "desk").unwrap();
    Firewall::builder(catalog, sources).build()
}

fn firewall(policies: &str) -> Firewall {
    load(policies, None).unwrap_or_else(|error| panic!("{error}"))
}

fn session() -> Session {
    Session::new(Principal::new("Agent", "a"))
}

fn code(decision: Result<Decision, Error>) -> &'static str {
    match decision.unwrap() {
        Decision::Allow(_) => "allow",
        Decision::Reject(why) => why.code().slug(),
    }
}

const SECONDS_OF_2026: u64 = 1_767_225_600;

#[test]
fn what_depends_on_the_time_is_decided_each_time() {
    let firewall = firewall(&format!(
        "{READ}
         forbid(principal, action == Action::\"select\", resource == Table::\"main.tickets\")
         unless {{ context has time && context.time < datetime(\"2026-01-01\") }};"
    ));
    let before = session().at(Duration::from_secs(SECONDS_OF_2026 - 1));
    let after = session().at(Duration::from_secs(SECONDS_OF_2026));
    for _ in 0..2 {
        for (session, tickets) in [
            (&before, "allow"),
            (&after, "name.unknown-relation"),
            (&session(), "name.unknown-relation"),
        ] {
            // Through a view as well, whose query may not be remembered either.
            for (sql, expected) in [
                ("SELECT subject FROM tickets", tickets),
                ("SELECT subject FROM open_tickets", tickets),
                ("SELECT name FROM people", "allow"),
            ] {
                let decision = firewall.check(sql, &Params::None, session);
                assert_eq!(code(decision), expected, "{sql} {session:?}");
            }
        }
    }
}

/// Rows, columns and functions are decided by the time like tables.
#[test]
fn the_time_reaches_rows_columns_and_functions() {
    let until = |action: &str, resource: &str| {
        format!(
            "forbid(principal, action == Action::\"{action}\", {resource}) unless {{ context has time && context.time < datetime(\"2026-01-01\") }};\n"
        )
    };
    let firewall = firewall(&format!(
        "{READ}{}{}{}",
        until("see", "resource is row::main::tickets"),
        until("read_plain", "resource == Column::\"main.people.ssn\""),
        until("call", "resource == Function::\"lower\""),
    ));
    let text = |sql: &str, seconds: u64| {
        let session = session().at(Duration::from_secs(seconds));
        match firewall.check(sql, &Params::None, &session).unwrap() {
            Decision::Allow(statement) => palisade::danger::parts(&statement).sql.to_owned(),
            Decision::Reject(why) => why.code().slug().to_owned(),
        }
    };
    for _ in 0..2 {
        for (sql, before, after) in [
            (
                "SELECT id FROM tickets",
                "\"main\".\"tickets\" LIMIT",
                "WHERE false",
            ),
            (
                "SELECT ssn FROM people",
                "\"main\".\"people\" LIMIT",
                "NULL AS \"ssn\"",
            ),
            (
                "SELECT lower(name) AS n FROM people",
                "lower(name)",
                "function.not-allowed",
            ),
        ] {
            let told = text(sql, SECONDS_OF_2026 - 1);
            assert!(told.contains(before), "{sql}: {told}");
            let told = text(sql, SECONDS_OF_2026);
            assert!(
                told.to_lowercase().contains(&after.to_lowercase()),
                "{sql}: {told}"
            );
        }
    }
}

#[test]
fn a_client_that_is_verified_is_known_to_policies() {
    let firewall = firewall(
        "permit(principal, action in [Action::\"select\", Action::\"see\", Action::\"read\"], resource)
         when { context has client && context.client == \"desk-app\" };",
    );
    let sql = "SELECT subject FROM tickets";
    for (session, expected) in [
        (session().of_client("desk-app"), "allow"),
        (session().of_client("other"), "name.unknown-relation"),
        (session(), "name.unknown-relation"),
    ] {
        assert_eq!(code(firewall.check(sql, &Params::None, &session)), expected);
    }
}

/// What it says of itself is no client that is verified, and there is no other way to look at it.
#[test]
fn what_a_client_says_of_itself_decides_nothing() {
    let firewall = firewall(
        "permit(principal, action in [Action::\"select\", Action::\"see\", Action::\"read\"], resource)
         when { context has client && context.client == \"desk-app\" };",
    );
    let claims = Claims::new(Some("desk-app"), Some("desk-app"));
    for (session, expected) in [
        (session(), "name.unknown-relation"),
        (session().of_client("desk-app"), "allow"),
    ] {
        for session in [session.clone(), session.claiming(claims.clone())] {
            let decision = firewall.check("SELECT id FROM people", &Params::None, &session);
            assert_eq!(code(decision), expected);
        }
    }
    let schema = palisade::policy::PolicySet::schema_text(firewall.catalog());
    for word in ["claim", "purpose"] {
        assert!(!schema.contains(word), "{schema}");
        let policy = format!(
            "{READ}forbid(principal, action == Action::\"select\", resource) when {{ context has {word} }};"
        );
        let errors = load(&policy, None).unwrap_err().to_string();
        assert!(
            errors.contains(&format!("there is no `context.{word}`")),
            "{errors}"
        );
    }
}

#[test]
fn forbids_look_at_the_statement() {
    let firewall = firewall(&format!(
        "{READ}
         @message(\"people are joined with nothing\")
         forbid(principal, action == Action::\"select\", resource == Table::\"main.people\")
         when {{ context has statement && context.statement.joins > 0 }};
         forbid(principal, action == Action::\"select\", resource == Table::\"main.tickets\")
         when {{ context has statement && context.statement.kind == \"select\" && !context.statement.has_where }};
         forbid(principal, action == Action::\"read_plain\", resource == Column::\"main.people.ssn\")
         when {{ context has usage && context.usage.contains(\"output\") }};"
    ));
    for (sql, expected) in [
        ("SELECT name FROM people", "allow"),
        (
            "SELECT p.name FROM people p JOIN tickets t ON t.id = p.id WHERE t.id = 1",
            "policy.forbidden",
        ),
        ("SELECT subject FROM tickets", "policy.forbidden"),
        ("SELECT subject FROM tickets WHERE id = 1", "allow"),
        ("SELECT name FROM people WHERE ssn = '1'", "allow"),
        ("SELECT ssn FROM people", "policy.forbidden"),
        ("SELECT * FROM people", "policy.forbidden"),
        (
            "SELECT upper(s) AS u FROM (SELECT ssn AS s FROM people) AS t",
            "policy.forbidden",
        ),
    ] {
        for _ in 0..2 {
            let decision = firewall.check(sql, &Params::None, &session());
            assert_eq!(code(decision), expected, "{sql}");
        }
    }
    let decision = firewall.check(
        "SELECT p.name FROM people p, people q WHERE p.id = q.id",
        &Params::None,
        &session(),
    );
    let Ok(Decision::Reject(why)) = decision else {
        panic!("{decision:?}")
    };
    assert_eq!(why.message(), "people are joined with nothing");
}

#[test]
fn permits_do_not_look_at_the_statement() {
    let errors = load(
        "permit(principal, action == Action::\"select\", resource)\nwhen { context has statement && context.statement.joins < 2 };",
        None,
    )
    .unwrap_err()
    .to_string();
    assert!(
        errors.contains("a permit cannot look at `context.statement`"),
        "{errors}"
    );
    // Where a statement is not looked at, policies that would do so do not load.
    let errors = load(
        &format!(
            "{READ}forbid(principal, action == Action::\"see\", resource) when {{ context has statement && context.statement.joins > 2 }};"
        ),
        None,
    );
    let errors = errors.err().unwrap().to_string();
    assert!(errors.contains("is not known for `see`"), "{errors}");
}

/// Changes, definitions, calls and assignments are asked about again like reading is.
#[test]
fn forbids_look_at_statements_that_change() {
    let when = |action: &str, resource: &str, condition: &str| {
        format!(
            "forbid(principal, action == Action::\"{action}\", resource == {resource}) when {{ context has statement && {condition} }};\n"
        )
    };
    let tickets = "Table::\"main.tickets\"";
    let people = "Table::\"main.people\"";
    let policies = [
        "permit(principal, action, resource);\n".to_owned(),
        "permit(principal, action in [Action::\"update\", Action::\"delete\"], resource) when { !context.has_where };\n".to_owned(),
        when("insert", tickets, "context.statement.tables.contains(\"main.people\")"),
        when("update", tickets, "context.statement.joins > 0"),
        when("delete", tickets, "!context.statement.has_where"),
        when("drop", tickets, "context.statement.kind == \"drop\""),
        "forbid(principal, action == Action::\"create\", resource in Schema::\"main\") when { context has statement && context.statement.tables.contains(\"main.fresh\") };\n".to_owned(),
        when("alter", people, "context.statement.kind == \"alter\""),
        when("write", "Column::\"main.people.ssn\"", "context.statement.kind == \"update\""),
        when("call", "Function::\"upper\"", "context.statement.kind == \"select\""),
    ]
    .concat();
    let sources = PolicySources::from_cedar("p.cedar", policies);
    let catalog = palisade_sqlite::catalog_from_ddl(SCHEMA, "desk").unwrap();
    let firewall = Firewall::builder(catalog, sources)
        .allow_changes()
        .build()
        .unwrap_or_else(|error| panic!("{error}"));
    for (sql, expected) in [
        (
            "INSERT INTO tickets (id) SELECT id FROM people",
            "policy.forbidden",
        ),
        ("INSERT INTO tickets (id) VALUES (1)", "allow"),
        (
            "UPDATE tickets SET owner = 'x' FROM people p WHERE p.id = tickets.id",
            "policy.forbidden",
        ),
        ("UPDATE tickets SET owner = 'x' WHERE id = 1", "allow"),
        ("DELETE FROM tickets", "policy.forbidden"),
        ("DELETE FROM tickets WHERE id = 1", "allow"),
        ("DELETE FROM people", "allow"),
        ("DROP TABLE tickets", "policy.forbidden"),
        ("DROP TABLE people", "allow"),
        ("CREATE TABLE fresh (id INTEGER)", "policy.forbidden"),
        ("CREATE TABLE stale (id INTEGER)", "allow"),
        (
            "ALTER TABLE people ADD COLUMN age INTEGER",
            "policy.forbidden",
        ),
        ("ALTER TABLE tickets ADD COLUMN age INTEGER", "allow"),
        (
            "UPDATE people SET ssn = 'x' WHERE id = 1",
            "policy.forbidden",
        ),
        ("INSERT INTO people (id, ssn) VALUES (1, 'x')", "allow"),
        ("SELECT upper(name) AS n FROM people", "policy.forbidden"),
        ("UPDATE people SET name = upper(name) WHERE id = 1", "allow"),
    ] {
        for _ in 0..2 {
            let decision = firewall.check(sql, &Params::None, &session());
            assert_eq!(code(decision), expected, "{sql}");
        }
    }
}

/// A policy that looks at what its actions never know would do nothing there, so it does not load.
#[test]
fn what_is_never_known_is_not_looked_at() {
    for (policy, line, message, help) in [
        (
            "forbid(principal, action == Action::\"select\", resource)\nwhen { context has has_where && !context.has_where };",
            3,
            "`context.has_where` is not known for `select`, so this would forbid nothing there",
            "it is known for `update`, `delete`",
        ),
        (
            "permit(principal, action in [Action::\"delete\", Action::\"insert\"], resource)\nwhen { context has has_where && context.has_where };",
            3,
            "`context.has_where` is not known for `insert`, so this would permit nothing there",
            "name those in the policy's scope",
        ),
        (
            "forbid(principal, action == Action::\"update\", resource)\nunless { context has\npurpose };",
            4,
            "there is no `context.purpose`",
            "there are `client`",
        ),
        (
            "forbid(principal, action == Action::\"update\", resource) when { context has clent };",
            2,
            "there is no `context.clent`",
            "did you mean `client`?",
        ),
        (
            "forbid(principal, action == Action::\"select\", resource)\nwhen { context has statement &&\ncontext.statement has join };",
            4,
            "there is no `context.statement.join`",
            "did you mean `joins`?",
        ),
        (
            "forbid(principal, action == Action::\"write\", resource) when { context has usage && context.usage.contains(\"output\") };",
            2,
            "`context.usage` is not known for `write`",
            "`read_plain`, `read_masked`, `read_token`",
        ),
    ] {
        let errors = load(&format!("{READ}{policy}"), None)
            .unwrap_err()
            .to_string();
        assert!(errors.contains(message), "{errors}");
        assert!(errors.contains(help), "{errors}");
        assert!(errors.contains(&format!("p.cedar:{line}:")), "{errors}");
    }
}

/// What nothing can be seen of says so, and nothing about what is there.
#[test]
fn an_empty_answer_names_its_reason() {
    let firewall = firewall(&format!(
        "{READ}
         forbid(principal, action == Action::\"see\", resource is row::main::people);
         forbid(principal, action == Action::\"see\", resource is row::main::tickets) when {{ resource has owner && resource.owner == \"x\" }};"
    ));
    let reason = |sql: &str| {
        let decision = firewall.check(sql, &Params::None, &session()).unwrap();
        let Decision::Allow(statement) = decision else {
            panic!("{sql}")
        };
        let marker = Marker::from_bytes([0; 16]);
        let answer = ScanSession::new(statement.scan_plan(), Action::Flag, marker).finish();
        answer.unwrap().empty_reason()
    };
    assert_eq!(reason("SELECT 1 AS n LIMIT 0"), Some(EmptyReason::NoMatch));
    for sql in ["SELECT id FROM tickets", "SELECT id FROM open_tickets"] {
        assert_eq!(reason(sql), Some(EmptyReason::NoMatchOrFiltered), "{sql}");
    }
    for sql in [
        "SELECT id FROM people",
        "SELECT t.id FROM tickets t JOIN people p ON p.id = t.id",
    ] {
        assert_eq!(reason(sql), Some(EmptyReason::NoRowsPermitted), "{sql}");
    }
    // An answer with a row has no such reason, and its zeros look like those of an empty table.
    let notices = |sql: &str| {
        let decision = firewall.check(sql, &Params::None, &session()).unwrap();
        let Decision::Allow(statement) = decision else {
            panic!("{sql}")
        };
        let notices = statement.scan_plan().statement_notices();
        notices.iter().map(|told| told.notice).collect::<Vec<_>>()
    };
    for sql in [
        "SELECT count(*) FROM people",
        "SELECT count(p.id) FROM tickets t LEFT JOIN people p ON p.id = t.id",
    ] {
        assert_eq!(notices(sql), ["no_rows_permitted"], "{sql}");
    }
    assert_eq!(notices("SELECT count(*) FROM tickets"), [""; 0]);
}

/// A permit that demands an approval, of a template as of anything else, permits nothing by itself.
#[test]
fn approvals_cannot_be_given_here() {
    let policies = format!(
        "{READ}
         @approval(\"required\") permit(principal, action == Action::\"run\", resource == Template::\"secret\");"
    );
    let firewall = load(&policies, Some(TEMPLATES)).unwrap_or_else(|error| panic!("{error}"));
    let refused = run(&firewall, "secret", &[]).unwrap_err();
    assert!(refused.starts_with("approval.required"), "{refused}");
    let refused = run(&firewall, "person", &[]).unwrap_err();
    assert!(refused.starts_with("template.unknown"), "{refused}");
}

const TEMPLATES: &str = r#"
[[template]]
name = "tickets-of"
description = "The tickets of one owner."
sql = "SELECT id, subject, body FROM tickets WHERE owner = :owner AND id > :after"
[[template.parameters]]
name = "owner"
type = "text"
description = "Who owns them."
[[template.parameters]]
name = "after"
type = "integer"
nullable = true

[[template]]
name = "person"
description = "One person."
sql = "SELECT name, ssn FROM people WHERE id = ?"
parameters = [{ name = "id", type = "integer" }]

[[template]]
name = "secret"
description = "Nobody may run it."
sql = "SELECT 1 AS n"
"#;

const OF_TEMPLATES: &str = r#"
permit(principal, action == Action::"run", resource == Template::"tickets-of");
permit(principal, action == Action::"run", resource == Template::"person");
permit(principal, action in [Action::"select", Action::"see", Action::"read"], resource)
when { context has template };
@mask("last(4)")
forbid(principal, action == Action::"read_plain", resource == Column::"main.people.ssn");
forbid(principal, action in Action::"read", resource == Column::"main.tickets.body")
unless { context.template == "tickets-of" };
"#;

fn run(firewall: &Firewall, name: &str, arguments: &[(&str, Value)]) -> Result<String, String> {
    let arguments: BTreeMap<String, Value> = arguments
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect();
    match firewall
        .check_template(name, &arguments, &session())
        .unwrap()
    {
        Decision::Allow(statement) => Ok(format!(
            "{} {:?}",
            palisade::danger::parts(&statement).sql,
            statement.params()
        )),
        Decision::Reject(why) => Err(why.to_string()),
    }
}

#[test]
fn templates_are_run_where_statements_are_not() {
    let firewall = load(
        &OF_TEMPLATES.replace(
            "unless { context.template",
            "unless { context has template && context.template",
        ),
        Some(TEMPLATES),
    )
    .unwrap_or_else(|error| panic!("{error}"));
    let names: Vec<String> = firewall
        .templates(&session())
        .unwrap()
        .into_iter()
        .map(|template| template.name)
        .collect();
    assert_eq!(names, ["person", "tickets-of"]);
    let text = Value::text;
    for after in [Value::Integer(3), Value::Null] {
        let arguments = [("owner", text("ann")), ("after", after)];
        let ran = run(&firewall, "tickets-of", &arguments).unwrap();
        assert!(ran.contains("\"main\".\"tickets\""), "{ran}");
    }
    // Columns inside stay under the same policies.
    let ran = run(&firewall, "person", &[("id", Value::Integer(1))]).unwrap();
    assert!(ran.contains("****"), "{ran}");
    // The same text by itself may not be asked.
    for sql in [
        "SELECT name FROM people WHERE id = 1",
        "SELECT 1 AS n FROM tickets",
    ] {
        let decision = firewall.check(sql, &Params::None, &session());
        assert_eq!(code(decision), "name.unknown-relation", "{sql}");
    }
    for (name, arguments, told) in [
        (
            "secret",
            vec![],
            "template.unknown: there is no template `secret`",
        ),
        (
            "nothing",
            vec![],
            "template.unknown: there is no template `nothing`",
        ),
        (
            "persom",
            vec![],
            "template.unknown: there is no template `persom`; did you mean `person`?",
        ),
        (
            "person",
            vec![],
            "parameter.mismatch: the parameter `id` is missing",
        ),
        (
            "person",
            vec![("id", text("1"))],
            "parameter.mismatch: the parameter `id` is integer",
        ),
        (
            "person",
            vec![("id", Value::Real(1.0))],
            "parameter.mismatch: the parameter `id` is integer",
        ),
        (
            "person",
            vec![("id", Value::Null)],
            "parameter.mismatch: the parameter `id` is integer",
        ),
        (
            "person",
            vec![("id", Value::Integer(1)), ("idd", Value::Null)],
            "parameter.mismatch: there is no parameter `idd`; did you mean `id`?",
        ),
        (
            "tickets-of",
            vec![("owner", Value::Null), ("after", Value::Null)],
            "parameter.mismatch: the parameter `owner` is text",
        ),
    ] {
        assert_eq!(
            run(&firewall, name, &arguments).unwrap_err(),
            told,
            "{name}"
        );
    }
}

#[test]
fn mistakes_in_templates_point_at_their_line() {
    for (templates, line, told) in [
        (
            "[[template]]\nname = \"a\"\ndescription = \"\"\nsql = \"SELECT :x AS x\"",
            4,
            "are not its 0 parameters",
        ),
        (
            "[[template]]\nname = \"a\"\ndescription = \"\"\nsql = \"SELECT 1; SELECT 2\"",
            4,
            "is not read",
        ),
        (
            "[[template]]\nname = \"a\"\ndescription = \"\"\nsql = \"DROP TABLE people\"",
            4,
            "is not read",
        ),
        (
            "[[template]]\nname = \"a b\"\ndescription = \"\"\nsql = \"SELECT 1\"",
            2,
            "no name for a template",
        ),
        (
            "[[template]]\nname = \"a\"\ndescription = \"\"\nsql = \"SELECT ?\"\nparameters = [{ name = \"x\", type = \"date\" }]",
            5,
            "unknown variant",
        ),
        (
            "[[template]]\nname = \"a\"\ndescription = \"\"\nsql = \"SELECT 1\"\n[[template]]\nname = \"a\"\ndescription = \"\"\nsql = \"SELECT 1\"",
            6,
            "two templates",
        ),
        (
            "[[template]]\nname = \"a\"\nsql = \"SELECT 1\"",
            1,
            "missing field `description`",
        ),
    ] {
        let error = load(READ, Some(templates)).expect_err(told);
        let Error::Policies(errors) = &error else {
            panic!("{error}")
        };
        let problem = &errors.problems()[0];
        assert_eq!(
            (problem.file.as_str(), problem.line),
            ("templates.toml", Some(line)),
            "{error}"
        );
        assert!(problem.message.contains(told), "{error}");
    }
    let error = load(
        "permit(principal, action == Action::\"run\", resource == Template::\"persom\");",
        Some(TEMPLATES),
    );
    let told = error.err().unwrap().to_string();
    assert!(
        told.contains("is not in the templates") && told.contains("Template::\\\"person\\\"")
            || told.contains("Template::\"person\""),
        "{told}"
    );
}

/// A view whose own condition compares masks gives no rows, and the answer says so.
#[test]
fn a_view_over_masks_says_that_it_is_one() {
    let firewall = firewall(&format!(
        "{READ}
         forbid(principal, action == Action::\"read_plain\", resource == Column::\"main.people.ssn\");"
    ));
    let answer = |sql: &str| {
        let decision = firewall.check(sql, &Params::None, &session()).unwrap();
        let Decision::Allow(statement) = decision else {
            panic!("{sql}")
        };
        let marker = Marker::from_bytes([0; 16]);
        let answer = ScanSession::new(statement.scan_plan(), Action::Flag, marker).finish();
        answer.unwrap()
    };
    let of_a_view = answer("SELECT name FROM known_people");
    assert_eq!(of_a_view.empty_reason(), Some(EmptyReason::MaskedCondition));
    let messages: Vec<_> = of_a_view.notices().iter().map(|n| &*n.message).collect();
    assert_eq!(
        messages,
        [
            "Below `known_people`, values are masked: its own conditions, joins or groups used the masks."
        ]
    );
    let of_a_table = answer("SELECT id FROM people WHERE ssn = '1' AND name LIKE '%a'");
    let messages: Vec<_> = of_a_table.notices().iter().map(|n| &*n.message).collect();
    assert_eq!(
        messages,
        ["`people.ssn` is masked: the condition compared the mask."]
    );
    assert!(answer("SELECT name FROM people").notices().is_empty());
    // What a view alone reads is no use of the table beside it.
    let of_both = answer("SELECT p.id FROM people p JOIN numbered_people n ON n.id = p.id");
    assert_eq!(of_both.notices(), []);
}

/// What looks at an estimate is decided at once where there will be none.
#[test]
fn policies_that_look_at_estimates_decide_where_there_is_none() {
    let firewall = firewall(&format!(
        "{READ}
         forbid(principal, action == Action::\"select\", resource == Table::\"main.tickets\")
         unless {{ context has statement && context.statement has estimated_rows && context.statement.estimated_rows <= 10 }};"
    ));
    for (sql, expected) in [
        ("SELECT subject FROM tickets", "allow"),
        (
            "EXPLAIN QUERY PLAN SELECT subject FROM tickets",
            "policy.forbidden",
        ),
        ("EXPLAIN QUERY PLAN SELECT name FROM people", "allow"),
    ] {
        let decision = firewall.check(sql, &Params::None, &session());
        assert_eq!(code(decision), expected, "{sql}");
    }
}
