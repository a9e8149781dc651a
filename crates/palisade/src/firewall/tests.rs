#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod guessed_columns;

use super::*;
use crate::{
    catalog::{
        ColumnDef, DefaultValue, ForeignKey, ReferenceAction, RelationDef, RelationKind, TypeClass,
    },
    dialect::Dialect,
    policy::PolicyFile,
    session::Principal,
    value::Value,
};

fn column(name: &str, type_name: &str, class: TypeClass) -> ColumnDef {
    ColumnDef {
        name: name.to_owned(),
        type_name: type_name.to_owned(),
        class,
        nullable: name != "id",
        collation: "BINARY".to_owned(),
        generated: None,
        stored: false,
        filled: DefaultValue::Unknown,
    }
}

fn relation(name: &str, columns: Vec<ColumnDef>, definition: Option<&str>) -> RelationDef {
    RelationDef {
        schema: "main".to_owned(),
        name: name.to_owned(),
        kind: if name.ends_with("_now") {
            RelationKind::Materialized
        } else if definition.is_some() {
            RelationKind::View
        } else {
            RelationKind::Table
        },
        strict: false,
        has_rowid: definition.is_none(),
        rowid_alias: columns
            .iter()
            .any(|c| c.name == "id")
            .then(|| "id".to_owned()),
        unique_keys: None,
        primary_key: vec!["id".to_owned()],
        foreign_keys: Vec::new(),
        definition: definition.map(str::to_owned),
        parents: Vec::new(),
        triggers: Vec::new(),
        retimed: Vec::new(),
        columns,
    }
}

pub(super) fn firewall() -> Firewall {
    let id = || column("id", "INTEGER", TypeClass::Integer);
    let text = |name| column(name, "TEXT", TypeClass::Text);
    let int = |name| column(name, "INTEGER", TypeClass::Integer);
    let catalog = Catalog::builder(Dialect::Sqlite)
        .relation(relation(
            "users",
            vec![
                id(),
                text("name"),
                text("ssn"),
                text("password"),
                int("tenant_id"),
            ],
            None,
        ))
        .relation(relation(
            "Orders",
            vec![id(), int("user_id"), int("total")],
            None,
        ))
        .relation(relation("secrets", vec![id(), text("secret")], None))
        .relation(relation(
            "directory",
            vec![id(), text("n"), text("s")],
            Some("SELECT id, name AS n, ssn AS s FROM users"),
        ))
        .relation(relation(
            "directory_now",
            vec![id(), text("n"), text("s")],
            Some("SELECT id, name AS n, ssn AS s FROM users"),
        ))
        .relation(relation(
            "totals_now",
            vec![id(), int("total")],
            Some("SELECT id, total FROM Orders"),
        ))
        .relation(relation(
            "both",
            vec![id(), text("n"), int("total")],
            Some("SELECT d.id, d.n, t.total FROM directory_now d JOIN totals_now t ON t.id = d.id"),
        ))
        .relation(relation(
            "leak",
            vec![text("secret")],
            Some("SELECT secret FROM secrets"),
        ))
        .build()
        .unwrap();
    let policies = r#"
permit(principal, action, resource) unless { resource is Table && resource == Table::"main.secrets" };
@mask("last(4)")
forbid(principal, action == Action::"read_plain", resource == Column::"main.users.ssn");
forbid(principal, action in Action::"read", resource == Column::"main.users.password");
forbid(principal, action == Action::"read_plain", resource == Column::"main.totals_now.id")
when { principal == Agent::"masked" };
@id("tenant")
forbid(principal, action == Action::"see", resource is row::main::users)
unless { resource has tenant_id && resource.tenant_id == 1 };
"#;
    let sources = PolicySources::from_cedar("p.cedar", policies);
    match Firewall::builder(catalog, sources).allow_changes().build() {
        Ok(firewall) => firewall,
        Err(error) => panic!("{error}"),
    }
}

fn outcome(sql: &str) -> String {
    let session = Session::new(Principal::new("Agent", "a"));
    match firewall().check(sql, &Params::None, &session) {
        Ok(Decision::Allow(statement)) => statement.text().to_owned(),
        Ok(Decision::Reject(why)) => format!("{why} [{}]", why.operator_detail().unwrap_or("")),
        Err(error) => format!("ERROR {error}"),
    }
}

fn check(sql: &str, expected: &str) {
    assert_eq!(outcome(sql), expected, "{sql}");
}

/// How much is remembered is bounded in bytes.
#[test]
fn a_remembered_statement_counts_its_columns() {
    let session = Session::new(Principal::new("Agent", "a"));
    let bytes = |sql: &str| match firewall().check(sql, &Params::None, &session) {
        Ok(Decision::Allow(statement)) => statement.prepared().unwrap().bytes(),
        other => panic!("{other:?}"),
    };
    let one = bytes("SELECT total FROM orders");
    let two = bytes("SELECT total, total AS twice FROM orders");
    // Three strings: the name, the type and what it is from.
    assert!(two >= one + 3 * 48, "{one} {two}");
}

#[test]
fn what_needs_nothing_stays_as_it_was() {
    check(
        "SELECT total FROM orders o WHERE o.user_id = 3",
        "SELECT total FROM \"main\".\"Orders\" o WHERE o.user_id = 3 LIMIT 1001",
    );
    check(
        "SELECT \"JetBlue\", rowid FROM orders WHERE \"total\" > 3 LIMIT 5",
        "SELECT 'JetBlue' AS \"\"\"JetBlue\"\"\", \"orders\".\"id\" FROM \"main\".\"Orders\" \
         WHERE \"total\" > 3 LIMIT 5",
    );
    check(
        "VALUES (1, 2), (3, 4)",
        "SELECT * FROM (VALUES (1, 2), (3, 4)) LIMIT 1001",
    );
}

#[test]
fn obligations_hold_at_the_source() {
    let source = "SELECT \"id\", \"name\", CASE WHEN length(CAST(\"ssn\" AS TEXT)) >= 8 \
                  THEN '****' || SUBSTR(CAST(\"ssn\" AS TEXT), (-4)) END AS \"ssn\", \"tenant_id\" \
                  FROM \"main\".\"users\" WHERE ((\"tenant_id\" IS NOT NULL) AND \
                  (\"tenant_id\" = 1)) AND (typeof(\"tenant_id\") IN ('integer', 'null'))";
    check(
        "SELECT * FROM users WHERE id = 3",
        &format!("SELECT * FROM ({source}) AS \"users\" WHERE id = 3 LIMIT 1001"),
    );
    // A predicate beyond the leak-proof list is fenced off.
    check(
        "SELECT u.* FROM main.users AS u WHERE json(ssn) > 3",
        &format!(
            "SELECT u.* FROM ({source} LIMIT -1 OFFSET 0) AS u WHERE json(ssn) > 3 LIMIT 1001"
        ),
    );
}

#[test]
fn a_cte_never_has_the_name_of_a_relation() {
    check(
        "WITH users AS (SELECT 1 AS ssn) SELECT ssn FROM users",
        "WITH \"users_cte1\" AS (SELECT 1 AS ssn) SELECT ssn FROM \"users_cte1\" AS \"users\" \
         LIMIT 1001",
    );
}

/// What is not understood is told apart by what is wrong with it.
#[test]
fn refusals_name_what_is_wrong() {
    for (sql, told) in [
        (
            "SELECT x.id FROM users u",
            "no table of the statement is called `x`",
        ),
        (
            "SELECT u.nothing FROM users u",
            "there is no column `u.nothing`",
        ),
        (
            "SELECT (SELECT y.id) FROM users u",
            "no table of the statement is called `y`",
        ),
        (
            "SELECT id FROM users WHERE",
            "found the end of the statement",
        ),
    ] {
        let refused = outcome(sql);
        assert!(refused.contains(told), "{sql}: {refused}");
    }
    assert!(outcome("SELECT (SELECT u.id) FROM users u").starts_with("SELECT"));
    for (uid, shown) in [
        ("pg_catalog.count", "count"),
        ("pg_catalog.ts_rewrite/2", "ts_rewrite"),
        ("coalesce", "coalesce"),
        ("public.price_of", "public.price_of"),
    ] {
        assert_eq!(crate::catalog::functions::shown_name(uid), shown);
    }
}

#[test]
fn what_is_hidden_does_not_exist() {
    for (sql, code) in [
        ("SELECT password FROM users", Code::NameUnknownColumn),
        ("SELECT * FROM secrets", Code::NameUnknownRelation),
        ("SELECT * FROM leak", Code::NameUnknownRelation),
        ("SELECT * FROM absent", Code::NameUnknownRelation),
        ("DELETE FROM users", Code::WriteUnconditional),
        (
            "DELETE FROM secrets WHERE id = 1",
            Code::NameUnknownRelation,
        ),
    ] {
        assert!(
            outcome(sql).starts_with(code.slug()),
            "{sql}: {}",
            outcome(sql)
        );
    }
}

#[test]
fn the_trace_is_of_the_decision() {
    let session = Session::new(Principal::new("Agent", "a"));
    let (decision, trace) = firewall()
        .explain(
            "SELECT ssn FROM users WHERE id = 1",
            &Params::None,
            &session,
        )
        .unwrap();
    let Decision::Allow(statement) = decision else {
        panic!("refused")
    };
    assert_eq!(trace.rewritten.as_deref(), Some(statement.text()));
    assert_eq!(trace.relations.len(), 1);
    assert_eq!(trace.relations[0].rows, "filtered");
    let levels: Vec<_> = trace.relations[0]
        .columns
        .iter()
        .map(|c| (c.column.as_str(), c.level.as_str()))
        .collect();
    assert_eq!(levels, [("id", "plain"), ("ssn", "mask last(4)")]);
    assert!(trace.policies.contains(&"tenant".to_owned()));
}

#[test]
fn materialised_views_stay_or_are_refused() {
    check(
        "SELECT total FROM totals_now",
        "SELECT total FROM \"main\".\"totals_now\" LIMIT 1001",
    );
    assert_eq!(
        outcome("SELECT n FROM directory_now"),
        "obligation.inapplicable: the materialised view `directory_now` holds rows from before the \
         masks and filters that policy demands [materialised view `main.directory_now`]"
    );
    assert_eq!(
        outcome("SELECT n FROM both"),
        "obligation.inapplicable: a materialised view below a view holds rows from before the masks \
         and filters that policy demands [materialised view `main.directory_now`]"
    );
    // The listing says what is so.
    let session = Session::new(Principal::new("Agent", "a"));
    let listed = firewall().relations(&session).unwrap();
    let readable = |name: &str| {
        let relation = listed.iter().find(|r| r.name == name).unwrap();
        assert!(relation.readable || relation.columns.is_empty(), "{name}");
        relation.readable
    };
    assert!(readable("totals_now") && readable("users"));
    assert!(!readable("directory_now") && !readable("both"));
    // Its own obligations stand around it, not around its definition.
    let session = Session::new(Principal::new("Agent", "masked"));
    let Ok(Decision::Allow(statement)) =
        firewall().check("SELECT id, total FROM totals_now", &Params::None, &session)
    else {
        panic!("refused")
    };
    assert_eq!(
        statement.text(),
        "SELECT id, total FROM (SELECT NULL AS \"id\", \"total\" FROM \"main\".\"totals_now\") AS \"totals_now\" LIMIT 1001"
    );
}

/// A blanket permit of every action is one of reading where changes are not asked for.
#[test]
fn nothing_is_changed_unless_it_is_asked_for() {
    let permit = PolicySources::from_cedar("p.cedar", "permit(principal, action, resource);");
    let catalog = || {
        Catalog::builder(Dialect::Sqlite)
            .relation(relation(
                "users",
                vec![column("id", "INTEGER", TypeClass::Integer)],
                None,
            ))
            .build()
            .unwrap()
    };
    let reads = Firewall::builder(catalog(), permit.clone())
        .build()
        .unwrap();
    let changes = Firewall::builder(catalog(), permit).allow_changes();
    let changes = changes.build().unwrap();
    let session = Session::new(Principal::new("Agent", "a"));
    for sql in [
        "INSERT INTO users (id) VALUES (1)",
        "UPDATE users SET id = 2 WHERE id = 1",
        "DELETE FROM users WHERE id = 1",
        "CREATE TABLE t (a int)",
        "DROP TABLE users",
    ] {
        match reads.check(sql, &Params::None, &session) {
            Ok(Decision::Reject(why)) => assert_eq!(why.code(), Code::StatementNotAllowed),
            other => panic!("{sql}: {other:?}"),
        }
        assert!(matches!(
            changes.check(sql, &Params::None, &session),
            Ok(Decision::Allow(_))
        ));
    }
}

#[test]
fn changes_stay_within_the_rows_and_columns_of_the_session() {
    let filter = "((((\"tenant_id\" IS NOT NULL) AND (\"tenant_id\" = 1)) AND (typeof(\"tenant_id\") IN ('integer', 'null'))))";
    check(
        "DELETE FROM users WHERE id = 3",
        &format!("DELETE FROM \"main\".\"users\" WHERE {filter} AND (id = 3)"),
    );
    check(
        "UPDATE users SET name = 'x' WHERE json(name) > 3",
        &format!(
            "UPDATE \"main\".\"users\" SET name = 'x' WHERE CASE WHEN {filter} THEN (json(name) > 3) ELSE false END"
        ),
    );
    check(
        "INSERT INTO orders VALUES (1, 2, 3), (4, 5, DEFAULT)",
        "INSERT INTO \"main\".\"Orders\" (\"id\", \"user_id\", \"total\") VALUES (1, 2, 3), (4, 5, DEFAULT)",
    );
}

#[test]
fn a_trace_says_how_each_column_is_used() {
    let session = Session::new(Principal::new("Agent", "a"));
    let sql = "SELECT user_id, sum(total) FROM orders WHERE id > 1 GROUP BY user_id ORDER BY 1";
    let (_, trace) = firewall().explain(sql, &Params::None, &session).unwrap();
    let used: Vec<String> = trace.relations[0]
        .columns
        .iter()
        .map(|column| format!("{}: {}", column.column, column.usages.join(" ")))
        .collect();
    assert_eq!(
        used,
        [
            "id: filter",
            "user_id: output group order",
            "total: output aggregate"
        ]
    );
}

pub(super) fn ledger(policies: &str) -> Firewall {
    let columns = vec![
        column("id", "INTEGER", TypeClass::Integer),
        column("tenant_id", "INTEGER", TypeClass::Integer),
    ];
    let catalog = Catalog::builder(Dialect::Sqlite).relation(relation("notes", columns, None));
    let sources = PolicySources::from_cedar("p.cedar", policies);
    let builder = Firewall::builder(catalog.build().unwrap(), sources).allow_changes();
    builder.build().unwrap_or_else(|error| panic!("{error}"))
}

/// A prepared statement that is remembered was made for values that were looked at.
#[test]
fn values_that_are_written_are_looked_at_each_time() {
    let firewall = ledger(
        "permit(principal, action, resource);
         forbid(principal, action == Action::\"add\", resource is row::main::notes)
         unless { resource has tenant_id && resource.tenant_id == 1 };",
    );
    let session = Session::new(Principal::new("Agent", "a"));
    let insert = "INSERT INTO notes (id, tenant_id) VALUES (?, ?)";
    let update = "UPDATE notes SET tenant_id = ?2 WHERE id = ?1";
    for sql in [insert, update] {
        for (tenant, admitted) in [(1, true), (2, false), (1, true), (3, false)] {
            let params = Params::Positional(vec![Value::Integer(7), Value::Integer(tenant)]);
            let decision = firewall.check(sql, &params, &session).unwrap();
            assert_eq!(
                matches!(decision, Decision::Allow(_)),
                admitted,
                "{sql} {tenant}: {decision:?}"
            );
        }
    }
}

/// The condition of an upsert may fail. It is tried on conflicting rows that the session sees, whatever the engine tries
/// first.
#[test]
fn what_an_upsert_meets_is_looked_for_behind_a_fence() {
    let firewall = ledger(
        "permit(principal, action, resource);
         forbid(principal, action == Action::\"see\", resource is row::main::notes) when { resource.id == 3 };
         forbid(principal, action == Action::\"add\", resource is row::main::notes)
         unless { resource has tenant_id && resource.tenant_id == 1 };",
    );
    let session = Session::new(Principal::new("Agent", "a"));
    let sql = "INSERT INTO notes (id, tenant_id) VALUES (1, 1), (3, 1) \
               ON CONFLICT (id) DO UPDATE SET id = notes.id WHERE 1 / (id - 3) < excluded.tenant_id";
    let (_, trace) = firewall.explain(sql, &Params::None, &session).unwrap();
    let seen = r#"((((NOT ("notes"."id" = 3)))) AND (("notes".id = excluded.id)))"#;
    let admitted = r#"((("notes"."tenant_id" IS NOT NULL) AND ("notes"."tenant_id" = 1)) AND (typeof("notes"."tenant_id") IN ('integer', 'null')))"#;
    assert_eq!(
        trace.prechecks,
        [format!(
            r#"SELECT 1 AS "refused" FROM "main"."notes" AS "notes", (WITH "admitted_rows" (id, tenant_id) AS (VALUES ((1), CAST((1) AS INTEGER)), ((3), CAST((1) AS INTEGER))) SELECT id, tenant_id FROM "admitted_rows") AS excluded WHERE {seen} AND (CASE WHEN {admitted} THEN false ELSE true END) AND (CASE WHEN {seen} THEN (1 / ("notes".id - 3) < excluded.tenant_id) ELSE false END) LIMIT 1"#
        )]
    );
}

/// Speaking of statements without a condition is a policy's, not a comment's.
#[test]
fn a_comment_permits_nothing() {
    let session = Session::new(Principal::new("Agent", "a"));
    for (policies, code) in [
        (
            "permit(principal, action, resource) // has_where is not looked at, \"attr\":\"has_where\"\n;",
            Some(Code::WriteUnconditional),
        ),
        (
            "permit(principal, action, resource);
             permit(principal, action == Action::\"delete\", resource) when { context.has_where };",
            Some(Code::WriteUnconditional),
        ),
        (
            "permit(principal, action, resource);
             permit(principal, action == Action::\"delete\", resource) when { !context.has_where };",
            None,
        ),
    ] {
        let decision = ledger(policies).check("DELETE FROM notes", &Params::None, &session);
        let refused = match decision.unwrap() {
            Decision::Allow(_) => None,
            Decision::Reject(why) => Some(why.code()),
        };
        assert_eq!(refused, code, "{policies}");
    }
}

/// What permits a change without a condition is named where there is none, and bounds it then.
#[test]
fn permits_without_a_condition_determine_changes_without_one() {
    let session = Session::new(Principal::new("Agent", "a"));
    let policies = "@id(\"all\") permit(principal, action, resource);
         @id(\"whole\") @max_rows(\"2\")
         permit(principal, action == Action::\"delete\", resource) when { !context.has_where };";
    for (sql, determining, is_bounded) in [
        ("DELETE FROM notes", &["all", "whole"][..], true),
        ("DELETE FROM notes WHERE id = 1", &["all"][..], false),
    ] {
        let decision = ledger(policies).check(sql, &Params::None, &session);
        let Decision::Allow(statement) = decision.unwrap() else {
            panic!("{sql}");
        };
        let named: Vec<&str> = statement.policies().iter().map(String::as_str).collect();
        assert_eq!(named, determining, "{sql}");
        let bound = crate::danger::parts(&statement).max_affected;
        assert_eq!(bound == 2, is_bounded, "{sql}: {bound}");
    }
}

/// A table that is hidden is no end of a key, though another of its name is visible.
#[test]
fn foreign_keys_show_what_they_reference_by_schema_too() {
    let id = || column("id", "integer", TypeClass::Integer);
    let of = |schema: &str, name: &str, columns| RelationDef {
        schema: schema.to_owned(),
        ..relation(name, columns, None)
    };
    let key = |column: &str, schema: &str| ForeignKey {
        columns: vec![column.to_owned()],
        schema: schema.to_owned(),
        table: "users".to_owned(),
        references: vec!["id".to_owned()],
        on_delete: ReferenceAction::Refuse,
        on_update: ReferenceAction::Refuse,
    };
    let number = |name| column(name, "integer", TypeClass::Integer);
    let mut orders = of("app", "orders", vec![id(), number("a"), number("b")]);
    orders.foreign_keys = vec![key("a", "app"), key("b", "hr")];
    let catalog = Catalog::builder(Dialect::Postgres)
        .search_path(["app".to_owned()])
        .relation(of("app", "users", vec![id()]))
        .relation(of("hr", "users", vec![id()]))
        .relation(orders)
        .build()
        .unwrap();
    let policies = r#"permit(principal, action, resource)
        unless { resource is Table && resource == Table::"hr.users" };"#;
    let sources = PolicySources::from_cedar("p.cedar", policies);
    let firewall = Firewall::builder(catalog, sources).build().unwrap();
    let session = Session::new(Principal::new("Agent", "a"));
    let shown = firewall.relations(&session).unwrap();
    let orders = shown.iter().find(|r| r.name == "orders").unwrap();
    let keys: Vec<_> = orders
        .foreign_keys
        .iter()
        .map(|key| (key.columns[0].as_str(), key.schema.as_str()))
        .collect();
    assert_eq!(keys, [("a", "app")]);
}

/// PostgreSQL runs a trigger of `UPDATE OF` where its column is assigned, whatever it is assigned; a foreign key does nothing of
/// itself where its column stays as it is.
#[test]
fn a_column_that_is_assigned_to_itself_sets_off_its_triggers() {
    let schema = "CREATE TABLE t (id integer PRIMARY KEY, v integer UNIQUE, w integer);
        CREATE TABLE c (v integer REFERENCES t (v) ON UPDATE CASCADE);
        CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
        CREATE TRIGGER x BEFORE UPDATE OF v ON t FOR EACH ROW EXECUTE FUNCTION f();";
    let policies = r#"permit(principal, action, resource)
        unless { action == Action::"write" && resource == Column::"public.c.v" };"#;
    for (sql, with, without) in [
        ("UPDATE t SET w = 1 WHERE id = 1", true, true),
        ("UPDATE t SET v = v, w = 1 WHERE id = 1", true, false),
        ("UPDATE t SET v = 2 WHERE id = 1", false, false),
    ] {
        for (call, allowed) in [
            (
                r#"permit(principal, action == Action::"call", resource == Function::"public.f");"#,
                with,
            ),
            ("", without),
        ] {
            let sources = PolicySources {
                policies: vec![PolicyFile {
                    name: "p.cedar".to_owned(),
                    text: format!("{policies}\n{call}"),
                }],
                ..PolicySources::default()
            };
            let catalog = crate::catalog::test_ddl::postgres(schema, "main").unwrap();
            let builder = Firewall::builder(catalog, sources).allow_changes();
            let firewall = builder.build().unwrap();
            let session = Session::new(Principal::new("Agent", "a"));
            let decision = firewall.check(sql, &Params::None, &session).unwrap();
            let is_allowed = matches!(decision, Decision::Allow(_));
            assert_eq!(is_allowed, allowed, "{sql} {call}: {decision:?}");
        }
    }
}

/// Which rows a foreign key's action leaves tells what it refers to.
#[test]
fn what_a_foreign_key_s_action_compares_is_read() {
    let schema = "CREATE TABLE parents (id integer PRIMARY KEY, k text NOT NULL UNIQUE, n integer);
        CREATE TABLE gone (id integer PRIMARY KEY, k text REFERENCES parents (k) ON DELETE CASCADE ON UPDATE SET NULL);
        CREATE TABLE kept (id integer PRIMARY KEY, n integer REFERENCES parents (id));";
    let statements = [
        ("DELETE FROM parents WHERE id = 1", true),
        ("UPDATE parents SET k = 'x' WHERE id = 1", true),
        ("UPDATE parents SET n = 1 WHERE id = 1", false),
        ("DELETE FROM gone WHERE id = 1", false),
    ];
    for (policies, hides) in [
        ("", false),
        (
            r#"@mask("hash") forbid(principal, action == Action::"read_plain", resource == Column::"public.parents.k");"#,
            true,
        ),
        (
            r#"forbid(principal, action in Action::"read", resource == Column::"public.parents.k");"#,
            true,
        ),
        (
            r#"forbid(principal, action in Action::"read", resource == Column::"public.parents.n");"#,
            false,
        ),
    ] {
        let text = format!("permit(principal, action, resource);\n{policies}");
        let sources = PolicySources {
            policies: vec![PolicyFile {
                name: "p.cedar".to_owned(),
                text,
            }],
            ..PolicySources::default()
        };
        let catalog = crate::catalog::test_ddl::postgres(schema, "main").unwrap();
        let builder = Firewall::builder(catalog, sources).allow_changes();
        let secret = crate::token::TokenSecret::new("a secret that is long enough for a test");
        let firewall = builder.token_secret(secret).build().unwrap();
        let session = Session::new(Principal::new("Agent", "a"));
        for (sql, compares) in statements {
            let decision = firewall.check(sql, &Params::None, &session).unwrap();
            let refused = match &decision {
                Decision::Allow(_) => None,
                Decision::Reject(why) => Some(why.code()),
            };
            let code = match policies.starts_with("@mask") {
                true => Code::WriteMaskedRead,
                false => Code::NameUnknownColumn,
            };
            let expected = (hides && compares).then_some(code);
            assert_eq!(refused, expected, "{policies} {sql}: {decision:?}");
        }
    }
}

/// A default is told where the values of its column are.
#[test]
fn defaults_are_told_of_plain_columns() {
    let schema = "CREATE TABLE t (id integer PRIMARY KEY, status text DEFAULT 'it''s', n integer DEFAULT -3, on_ boolean DEFAULT true,
            at timestamp DEFAULT now(), nil text DEFAULT NULL, secret text DEFAULT 'canary-1', gone text DEFAULT 'canary-2');
        CREATE VIEW v AS SELECT status, secret FROM t;";
    let catalog = crate::catalog::test_ddl::postgres(schema, "main").unwrap();
    let text = "permit(principal, action, resource);\n\
        @mask(\"fixed(-)\") forbid(principal, action == Action::\"read_plain\", resource == Column::\"public.t.secret\");\n\
        forbid(principal, action in Action::\"read\", resource == Column::\"public.t.gone\");";
    let sources = PolicySources::from_cedar("p.cedar", text);
    let firewall = Firewall::builder(catalog, sources).build().unwrap();
    let session = Session::new(Principal::new("Agent", "a"));
    let shown = firewall.relations(&session).unwrap();
    let json = serde_json::to_string(&shown).unwrap();
    assert!(!json.contains("canary"), "{json}");
    let told: Vec<_> = shown[0]
        .columns
        .iter()
        .map(|c| (c.name.as_str(), c.default.as_deref()))
        .collect();
    assert_eq!(
        told,
        [
            ("id", None),
            ("status", Some("'it''s'")),
            ("n", Some("-3")),
            ("on_", Some("true")),
            ("at", None),
            ("nil", None),
            ("secret", None),
        ]
    );
    assert!(shown[1].columns.iter().all(|c| c.default.is_none()));
}

/// What `describe_table` says of a column is what an answer says of it, through views too.
#[test]
fn columns_are_shown_as_they_come() {
    let schema = "CREATE TABLE c (id integer PRIMARY KEY, ssn varchar(20), n integer NOT NULL, s smallint, r real, e integer);
        CREATE VIEW v AS SELECT id, ssn AS social, n, s, r, e, upper(ssn) AS loud FROM c;
        CREATE VIEW w AS SELECT id, social, n, s, r, e, loud FROM v;";
    let catalog = crate::catalog::test_ddl::postgres(schema, "main").unwrap();
    let mut text = "permit(principal, action, resource);\n".to_owned();
    for (column, mask) in [
        ("ssn", "last(4)"),
        ("n", "fixed(***)"),
        ("s", "bucket(10)"),
        ("r", "bucket(10)"),
        ("e", "expr(length(value))"),
    ] {
        text += &format!(
            "@mask(\"{mask}\") forbid(principal, action == Action::\"read_plain\", resource == Column::\"public.c.{column}\");\n"
        );
    }
    let sources = PolicySources {
        policies: vec![PolicyFile {
            name: "p.cedar".to_owned(),
            text,
        }],
        ..PolicySources::default()
    };
    let firewall = Firewall::builder(catalog, sources).build().unwrap();
    let session = Session::new(Principal::new("Agent", "a"));
    let shown = firewall.relations(&session).unwrap();
    for (name, social) in [("c", "ssn"), ("v", "social"), ("w", "social")] {
        let described = &shown.iter().find(|r| r.name == name).unwrap().columns;
        let described: Vec<_> = described
            .iter()
            .map(|c| (c.name.as_str(), c.type_name.as_str(), c.masked))
            .collect();
        let mut expected = vec![
            ("id", "integer", false),
            (social, "text", true),
            ("n", "text", true),
            ("s", "integer", true),
            ("r", "double precision", true),
            ("e", "integer", true),
        ];
        if name != "c" {
            // Of what is computed the declared type is all that is known.
            expected.push(("loud", described[6].1, true));
        }
        assert_eq!(described, expected, "{name}");
        let sql = format!("SELECT * FROM {name}");
        let decision = firewall.check(&sql, &Params::None, &session).unwrap();
        let Decision::Allow(statement) = decision else {
            panic!("refused")
        };
        let columns = statement.scan_plan().columns.iter();
        let answer: Vec<_> = columns
            .map(|c| (&*c.name, &*c.type_name, c.masked))
            .collect();
        assert_eq!(answer[..6], expected[..6], "{name}");
        assert!(answer.iter().skip(6).all(|(_, _, masked)| *masked));
    }
}

/// What a policy decides alone is counted over all principals; what another decides alike is not.
#[test]
fn cells_that_a_policy_decides_alone_are_counted() {
    let text = "@id(\"read\") permit(principal, action in [Action::\"select\", Action::\"see\", Action::\"read\"], resource);\n\
        @id(\"again\") permit(principal == Agent::\"a\", action == Action::\"select\", resource == Table::\"public.t\");\n\
        @id(\"hides\") forbid(principal, action in Action::\"read\", resource == Column::\"public.t.b\");";
    let entities = r#"[{"uid": {"type": "Agent", "id": "a"}, "attrs": {}, "parents": []},
        {"uid": {"type": "Agent", "id": "b"}, "attrs": {}, "parents": []}]"#;
    let sources = PolicySources {
        entities: Some(entities.to_owned()),
        ..PolicySources::from_cedar("p.cedar", text)
    };
    let schema = "CREATE TABLE t (a integer PRIMARY KEY, b integer);";
    let catalog = crate::catalog::test_ddl::postgres(schema, "main").unwrap();
    let firewall = Firewall::builder(catalog, sources).build().unwrap();
    let cells = firewall.count_sole_cells(|| true).unwrap().unwrap();
    let count = |policy: &str| match cells.get(policy) {
        Some(SoleCells::Count(count)) => *count,
        other => panic!("{policy}: {other:?}"),
    };
    assert_eq!(count("again"), 0);
    // Of each principal one column, in each of its uses.
    let hidden = count("hides");
    assert!(hidden >= 2 && hidden % 2 == 0, "{hidden}");
    assert!(count("read") > hidden);
    assert_eq!(firewall.count_sole_cells(|| false).unwrap(), None);
}

/// A key is counted up, or a trigger's: its default is not taken for what a new row holds. Another column's is.
#[test]
fn the_default_of_a_key_is_not_what_a_new_row_holds() {
    for (column, permitted) in [("id", false), ("kind", true)] {
        let schema = "CREATE TABLE t (id integer DEFAULT 5 PRIMARY KEY, kind integer NOT NULL DEFAULT 5, n integer);";
        let text = format!(
            "permit(principal, action, resource);\n\
             forbid(principal, action == Action::\"add\", resource is row::public::t) unless {{ resource.{column} == 5 }};"
        );
        let sources = PolicySources {
            policies: vec![PolicyFile {
                name: "p.cedar".to_owned(),
                text,
            }],
            ..PolicySources::default()
        };
        let catalog = crate::catalog::test_ddl::postgres(schema, "main").unwrap();
        let builder = Firewall::builder(catalog, sources).allow_changes();
        let firewall = builder.build().unwrap();
        let session = Session::new(Principal::new("Agent", "a"));
        let sql = "INSERT INTO t (n) VALUES (1)";
        let decision = firewall.check(sql, &Params::None, &session).unwrap();
        let is_permitted = matches!(decision, Decision::Allow(_));
        assert_eq!(is_permitted, permitted, "{column}: {decision:?}");
    }
}

/// What a mask makes of a column is said of that column, whatever stands beside it, and what it compares is of the column's type.
#[test]
fn a_masked_column_is_typed_as_its_own_mask_says() {
    let schema = "CREATE TABLE notes (id integer PRIMARY KEY, note varchar(9));
        CREATE TABLE people (id integer PRIMARY KEY, born date, died date);";
    let text = "permit(principal, action, resource);\n\
        @mask(\"expr(CASE WHEN value IN ('2026-01-31', '2026-02-28') THEN 'end' ELSE 'other' END)\") \
        forbid(principal, action == Action::\"read_plain\", resource == Column::\"public.people.born\");\n\
        @mask(\"expr(CASE value WHEN '2026-01-31' THEN 'end' ELSE 'other' END)\") \
        forbid(principal, action == Action::\"read_plain\", resource == Column::\"public.people.died\");";
    let sources = PolicySources::from_cedar("p.cedar", text);
    let catalog = crate::catalog::test_ddl::postgres(schema, "main").unwrap();
    let firewall = Firewall::builder(catalog, sources).build().unwrap();
    let session = Session::new(Principal::new("Agent", "a"));
    let sql = "SELECT n.note, p.born, p.died FROM notes n JOIN people p ON p.id = n.id";
    let decision = firewall.check(sql, &Params::None, &session).unwrap();
    let Decision::Allow(statement) = decision else {
        panic!("refused")
    };
    let columns = statement.scan_plan().columns.iter();
    let types: Vec<&str> = columns.map(|column| &*column.type_name).collect();
    assert_eq!(types, ["character varying(9)", "text", "text"]);
    let printed = crate::danger::parts(&statement).sql;
    assert!(
        printed.contains("WHEN CAST('2026-01-31' AS DATE) THEN"),
        "{printed}"
    );
    assert!(
        printed.contains("IN (CAST('2026-01-31' AS DATE), "),
        "{printed}"
    );
}

/// The keys that are read to find dependent rows are those of relations whose dependents a policy filters.
#[test]
fn keys_are_looked_at_where_dependent_rows_are_filtered() {
    let schema = "CREATE TABLE parents (id integer PRIMARY KEY, k text NOT NULL UNIQUE, n integer);
        CREATE TABLE filtered (id integer PRIMARY KEY, k text REFERENCES parents (k) ON DELETE CASCADE);
        CREATE TABLE others (id integer PRIMARY KEY, up integer REFERENCES parents (id) ON DELETE CASCADE);";
    let looked_at = |policies: &str| {
        let sources = PolicySources {
            policies: vec![PolicyFile {
                name: "p.cedar".to_owned(),
                text: format!("permit(principal, action, resource);\n{policies}"),
            }],
            ..PolicySources::default()
        };
        let catalog = crate::catalog::test_ddl::postgres(schema, "main").unwrap();
        let firewall = Firewall::builder(catalog, sources)
            .allow_changes()
            .build()
            .unwrap();
        let changes = firewall
            .changes(&Session::new(Principal::new("Agent", "a")))
            .unwrap();
        let parents = changes.iter().find(|change| change.name == "parents");
        parents.unwrap().looked_at.clone()
    };
    assert_eq!(looked_at(""), Vec::<String>::new());
    let hides = r#"forbid(principal, action == Action::"see", resource is row::public::filtered) when { resource.id > 3 };"#;
    assert_eq!(looked_at(hides), ["k"]);
    let hides = r#"forbid(principal, action == Action::"see", resource is row::public::others) when { resource.id > 3 };"#;
    assert_eq!(looked_at(hides), ["id"]);
}

/// What the operator is told of a refused change is, step by step, what permits it.
#[test]
fn an_operator_is_told_what_a_change_lacks() {
    let schema = "CREATE TABLE orders (id integer PRIMARY KEY, state text);";
    let told = |policies: &str, sql: &str| {
        let sources = PolicySources {
            policies: vec![PolicyFile {
                name: "p.cedar".to_owned(),
                text: policies.to_owned(),
            }],
            entities: Some(
                r#"[{"uid": {"type": "Agent", "id": "a"}, "attrs": {}, "parents": [{"type": "Role", "id": "clerk"}]}]"#
                    .to_owned(),
            ),
            ..PolicySources::default()
        };
        let catalog = crate::catalog::test_ddl::postgres(schema, "main").unwrap();
        let firewall = Firewall::builder(catalog, sources)
            .allow_changes()
            .build()
            .unwrap_or_else(|error| panic!("{error}"));
        let session = Session::new(Principal::new("Agent", "a"));
        match firewall.check(sql, &Params::None, &session).unwrap() {
            Decision::Allow(_) => None,
            Decision::Reject(why) => {
                assert!(!why.message().contains("clerk"), "{why}");
                Some(why.operator_detail().unwrap().to_owned())
            }
        }
    };
    let reads = r#"permit(principal, action in [Action::"select", Action::"read", Action::"see", Action::"write"], resource);"#;
    for (sql, lacks) in [
        (
            "UPDATE orders SET state = 'x' WHERE id = 1",
            ["update", "change", "add"].as_slice(),
        ),
        ("INSERT INTO orders (id) VALUES (1)", &["insert", "add"]),
        ("DELETE FROM orders WHERE id = 1", &["delete", "change"]),
    ] {
        // Some other policy lets changes be looked at.
        let mut policies = format!(
            "{reads}\npermit(principal == Agent::\"other\", action in [Action::\"insert\", Action::\"update\", Action::\"delete\"], resource);"
        );
        for action in lacks {
            let detail = told(&policies, sql).unwrap();
            assert!(
                detail.contains(&format!("`{action}`"))
                    && detail.contains("public.orders")
                    && detail.contains("Agent::\"a\" (in Role::\"clerk\")"),
                "{sql}: {detail}"
            );
            policies += detail.rsplit('`').nth(1).unwrap();
        }
        assert_eq!(told(&policies, sql), None, "{sql} {policies}");
    }
    let detail = told(
        "permit(principal == Agent::\"other\", action, resource);",
        "SELECT id FROM orders",
    )
    .unwrap();
    assert_eq!(
        detail,
        "`public.orders` exists; no policy permits `select` or `discover` of it to Agent::\"a\" (in Role::\"clerk\")"
    );
}
