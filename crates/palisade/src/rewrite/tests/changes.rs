//! What changes and plans become over the schemas of servers: what is looked for before them, and what is refused.

use crate::{
    catalog::test_ddl,
    dialect::Dialect,
    firewall::{Decision, Firewall},
    policy::{PolicyFile, PolicySources},
    rejection::Rejection,
    rewrite::RewrittenStatement,
    session::{Principal, Session},
    value::Params,
};

const SCHEMA: &str = "public";

/// What is decided of `sql` where everything is permitted but what `policies` forbid.
fn decide(
    dialect: Dialect,
    schema: &str,
    policies: &str,
    sql: &str,
) -> Result<RewrittenStatement, Rejection> {
    let catalog = match dialect {
        Dialect::Postgres => test_ddl::postgres(schema, "main").unwrap(),
        Dialect::Mysql => test_ddl::mysql(schema, SCHEMA).unwrap(),
        Dialect::Sqlite => panic!("no schema is read for SQLite here"),
    };
    let sources = PolicySources {
        policies: vec![PolicyFile {
            name: "p.cedar".to_owned(),
            text: format!("permit(principal, action, resource);\n{policies}"),
        }],
        ..PolicySources::default()
    };
    let builder = Firewall::builder(catalog, sources).allow_changes();
    let firewall = builder.build().unwrap_or_else(|error| panic!("{error}"));
    let session = Session::new(Principal::new("Agent", "a"));
    match firewall.check(sql, &Params::None, &session).unwrap() {
        Decision::Allow(statement) => Ok(*statement),
        Decision::Reject(why) => Err(why),
    }
}

/// A policy of what rows of `t` may be like for one action.
fn forbid(action: &str, condition: &str) -> String {
    format!(
        "forbid(principal, action == Action::\"{action}\", resource is row::{SCHEMA}::t) {condition};"
    )
}

#[test]
fn a_column_that_is_left_out_and_has_no_default_is_known_to_be_null() {
    let schema = "CREATE TABLE t (id integer PRIMARY KEY, note text, n integer);";
    let sql = "INSERT INTO t (id, n) VALUES (1, 1)";
    for (condition, admitted) in [
        ("when { resource has note }", true),
        ("unless { resource has note }", false),
    ] {
        for dialect in [Dialect::Postgres, Dialect::Mysql] {
            let decided = decide(dialect, schema, &forbid("add", condition), sql);
            assert_eq!(
                decided.is_ok(),
                admitted,
                "{dialect}: {condition}: {decided:?}"
            );
        }
    }
}

#[test]
fn rows_that_hang_on_a_deleted_row_are_looked_for_where_some_are_hidden() {
    let schema = "CREATE TABLE parents (id integer PRIMARY KEY, n integer);
        CREATE TABLE t (id integer PRIMARY KEY, up integer REFERENCES parents (id) ON DELETE CASCADE);";
    let sql = "DELETE FROM parents WHERE n = 1";
    let hides = forbid("see", "when { resource.id == 3 }");
    let found = decide(Dialect::Postgres, schema, &hides, sql).unwrap();
    let dependents = r#"FROM "public"."t" AS "reached_1""#;
    let [precheck] = found.prechecks() else {
        panic!("{:?}", found.prechecks());
    };
    assert!(precheck.sql.contains(dependents), "{}", precheck.sql);
    assert!(found.text().contains(dependents), "{}", found.text());
    let free = decide(Dialect::Postgres, schema, "", sql).unwrap();
    assert!(free.prechecks().is_empty());
}

#[test]
fn why_a_conflicting_row_cannot_be_looked_for_is_said_of_the_key() {
    let schema = "CREATE TABLE t (id int PRIMARY KEY, code int DEFAULT 7, name varchar(20),
        owner int, UNIQUE KEY by_code (code), KEY by_name (name));";
    let with_prefix = schema.replace("KEY by_name (name)", "UNIQUE KEY by_name (name(3))");
    let keeps = forbid(
        "change",
        "when { resource has owner && resource.owner == 1 }",
    );
    for (schema, columns, values, why) in [
        (
            schema,
            "id, owner",
            "1, 2",
            "give every column of its keys a value",
        ),
        (
            schema,
            "id, code, owner",
            "1, rand(), 2",
            "give `code` by a literal",
        ),
        (
            &with_prefix,
            "id, code, name",
            "1, 2, 'a'",
            "its unique key `by_name` is of expressions",
        ),
    ] {
        let sql = format!("REPLACE INTO t ({columns}) VALUES ({values})");
        let refused = decide(Dialect::Mysql, schema, &keeps, &sql).unwrap_err();
        assert!(refused.message().contains(why), "{sql}: {refused}");
    }
    let sql = "REPLACE INTO t (id, code) VALUES (1, 2)";
    let found = decide(Dialect::Mysql, schema, &keeps, sql).unwrap();
    assert_eq!(found.prechecks().len(), 2);
}

#[test]
fn a_key_that_is_given_with_a_collation_is_known_before_an_upsert() {
    let schema = "CREATE TABLE t (id integer PRIMARY KEY, k text NOT NULL UNIQUE, owner integer, n integer);";
    let owned = forbid(
        "add",
        "unless { resource has owner && resource.owner == 1 }",
    );
    for (key, is_known) in [
        ("'a'", true),
        ("'a' COLLATE \"C\"", true),
        ("clock_timestamp()::text", false),
    ] {
        let sql = format!(
            "INSERT INTO t (id, k, owner) VALUES (1, {key}, 1) ON CONFLICT (k) DO UPDATE SET n = 2"
        );
        let decided = decide(Dialect::Postgres, schema, &owned, &sql);
        let looked_for = decided.as_ref().map(|found| found.prechecks().len());
        assert_eq!(looked_for.ok(), is_known.then_some(1), "{key}: {decided:?}");
    }
}

#[test]
fn a_plan_has_the_columns_of_its_engine() {
    let schema = "CREATE TABLE t (id integer PRIMARY KEY);";
    for (dialect, expected) in [
        (Dialect::Postgres, "QUERY PLAN"),
        (Dialect::Mysql, "EXPLAIN"),
    ] {
        let plan = decide(dialect, schema, "", "EXPLAIN SELECT id FROM t").unwrap();
        let columns = plan.scan_plan().columns.iter();
        let names: Vec<&str> = columns.map(|column| &*column.name).collect();
        assert_eq!(names, [expected], "{dialect}");
    }
}

/// By a collation of the query's own, a text could pass for what policy admits.
#[test]
fn texts_of_a_query_are_compared_as_they_are_stored() {
    let schema = "CREATE TABLE t (id integer PRIMARY KEY, region text NOT NULL);
        CREATE TABLE own (code text PRIMARY KEY, tenant integer NOT NULL);
        CREATE TABLE c (id integer PRIMARY KEY, code text NOT NULL REFERENCES own (code));";
    let policies = forbid("add", "unless { resource.region == \"eu\" }")
        + &forbid("see", "unless { resource.tenant == 1 }").replace("::t)", "::own)")
        + &forbid("add", "unless { resource.code_is_seen }").replace("::t)", "::c)");
    for table in ["t", "c"] {
        let sql = format!("INSERT INTO {table} SELECT id, region FROM t");
        let decided = decide(Dialect::Postgres, schema, &policies, &sql).unwrap();
        let collated = decided.text().matches("COLLATE \"C\"").count();
        // As it is read, and where it is compared with a column of another collation.
        let expected = match table {
            "t" => 1,
            _ => 2,
        };
        assert_eq!(collated, expected, "{}", decided.text());
    }
}

/// MySQL does not let a statement read the table that it changes.
#[test]
fn a_row_to_which_others_refer_is_not_looked_up_as_it_goes() {
    let schema = "CREATE TABLE t (id integer PRIMARY KEY, tenant integer NOT NULL);
        CREATE TABLE c (id integer PRIMARY KEY, t_id integer NOT NULL, FOREIGN KEY (t_id) REFERENCES t (id) ON DELETE CASCADE);
        CREATE TABLE d (id integer PRIMARY KEY, c_id integer NOT NULL, FOREIGN KEY (c_id) REFERENCES c (id) ON DELETE CASCADE);";
    let follows = |table: &str, key: &str| {
        forbid("see", &format!("unless {{ resource.{key}_is_seen }}"))
            .replace("::t)", &format!("::{table})"))
    };
    let policies = forbid("see", "unless { resource.tenant == 1 }")
        + &follows("c", "t_id")
        + &follows("d", "c_id");
    let decided = |sql| decide(Dialect::Mysql, schema, &policies, sql).unwrap();
    let deleted = decided("DELETE FROM t WHERE id = 1");
    assert!(
        !deleted.text().contains("palisade_seen"),
        "{}",
        deleted.text()
    );
    assert_eq!(deleted.prechecks().len(), 1);
    // What is joined and follows the table is worked out before.
    let joined = decided("UPDATE t JOIN c ON c.t_id = t.id SET t.tenant = 1 WHERE c.id > 0");
    let sql = joined.text();
    assert!(
        sql.contains("palisade_seen") && sql.contains("LIMIT"),
        "{sql}"
    );
}
