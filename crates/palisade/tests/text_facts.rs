//! What is told of a statement's text: of the text that runs, and never of what it was asked as.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

use std::collections::BTreeMap;

use palisade::{
    catalog::Catalog,
    firewall::{Decision, Firewall},
    policy::PolicySources,
    rewrite::{
        ChangeKind::{self, Delete, Insert, Merge, Replace, Update},
        RewrittenStatement,
    },
    session::{Principal, Session},
    value::Params,
};

const SCHEMA: &str = "
CREATE TABLE leads (id int PRIMARY KEY, tenant int NOT NULL, note varchar(90), amount int);
CREATE TABLE teams (id int PRIMARY KEY, head int, name varchar(90));
CREATE VIEW heads AS SELECT t.head FROM teams AS t GROUP BY t.head HAVING COUNT(*) > 0;
";

const POLICIES: &str = r#"
permit(principal, action, resource);
permit(principal, action in [Action::"insert", Action::"update", Action::"delete", Action::"write", Action::"add", Action::"change"], resource);
forbid(principal, action == Action::"see", resource is row::shop::leads) unless { resource.tenant == 1 };
forbid(principal, action == Action::"change", resource is row::shop::leads) unless { resource.tenant == 1 };
"#;

const WRITING: &str = r#"
permit(principal, action, resource);
permit(principal, action in [Action::"insert", Action::"update", Action::"delete", Action::"write", Action::"add", Action::"change"], resource);
"#;

fn check(catalog: Catalog, policies: &str, sql: &str) -> RewrittenStatement {
    let sources = PolicySources::from_cedar("p.cedar", policies);
    let firewall = Firewall::builder(catalog, sources)
        .allow_changes()
        .build()
        .unwrap();
    let session = Session::new(Principal::new("Agent", "a"));
    match firewall.check(sql, &Params::None, &session).unwrap() {
        Decision::Allow(statement) => *statement,
        Decision::Reject(why) => panic!("{sql}: {why}"),
    }
}

fn mysql(sql: &str) -> RewrittenStatement {
    check(palisade_ddl::mysql(SCHEMA, "shop").unwrap(), POLICIES, sql)
}

#[test]
fn a_change_is_what_its_tree_says() {
    let plain = (false, false, false);
    let joined = (true, false, false);
    let ignoring = (false, true, false);
    let meeting = (false, false, true);
    for (sql, kind, table, (is_joined, ignores_errors, meets_rows)) in [
        ("INSERT INTO teams (id) VALUES (1)", Insert, "teams", plain),
        (
            "INSERT INTO teams (id, name) VALUES (1, 'INSERT IGNORE INTO x ON DUPLICATE KEY UPDATE y JOIN z')",
            Insert,
            "teams",
            plain,
        ),
        (
            "INSERT IGNORE INTO teams (id) VALUES (1)",
            Insert,
            "teams",
            ignoring,
        ),
        (
            "INSERT INTO teams (id) VALUES (1) ON DUPLICATE KEY UPDATE head = 2",
            Insert,
            "teams",
            meeting,
        ),
        (
            "INSERT IGNORE INTO teams (id) VALUES (1) ON DUPLICATE KEY UPDATE head = 2",
            Insert,
            "teams",
            (false, true, true),
        ),
        (
            "REPLACE INTO teams (id) VALUES (1)",
            Replace,
            "teams",
            meeting,
        ),
        (
            "INSERT INTO teams (id) SELECT a.id FROM teams AS a JOIN teams AS b ON a.id = b.head",
            Insert,
            "teams",
            plain,
        ),
        (
            "UPDATE teams SET name = ' JOIN , ' WHERE id = 1",
            Update,
            "teams",
            plain,
        ),
        (
            "UPDATE teams AS t SET t.head = 1 WHERE t.id = 2",
            Update,
            "teams",
            plain,
        ),
        (
            "UPDATE teams SET head = 1 WHERE id IN (SELECT a.id FROM leads a JOIN leads b ON a.id = b.id)",
            Update,
            "teams",
            plain,
        ),
        (
            "UPDATE leads AS l JOIN teams AS t ON t.head = l.id SET t.name = 'x'",
            Update,
            "teams",
            joined,
        ),
        (
            "UPDATE leads l, teams t SET l.note = 'x' WHERE t.head = l.id",
            Update,
            "leads",
            joined,
        ),
        (
            "WITH c AS (SELECT ' UPDATE shop.teams', ')' AS x) UPDATE leads SET note = 'y' WHERE id = 1",
            Update,
            "leads",
            plain,
        ),
        ("DELETE FROM leads WHERE id = 1", Delete, "leads", plain),
        (
            "DELETE l FROM leads AS l JOIN teams AS t ON t.head = l.id WHERE l.id = 1",
            Delete,
            "leads",
            joined,
        ),
        (
            "DELETE FROM t USING teams AS t JOIN leads AS l ON t.head = l.id WHERE t.id = 1",
            Delete,
            "teams",
            joined,
        ),
    ] {
        let catalog = palisade_ddl::mysql(SCHEMA, "shop").unwrap();
        let statement = mysql(sql);
        let [facts] = statement.change_facts() else {
            panic!("{sql}: {:?}", statement.change_facts());
        };
        let relation = catalog.relation(facts.relation).unwrap();
        assert_eq!((facts.kind, &*relation.name), (kind, table), "{sql}");
        assert_eq!(
            (facts.is_joined, facts.ignores_errors, facts.meets_rows),
            (is_joined, ignores_errors, meets_rows),
            "{sql}"
        );
    }
    assert_eq!(mysql("SELECT id FROM teams").change_facts(), []);
}

#[test]
fn every_change_is_told_on_every_engine() {
    let postgres = |sql: &str| {
        let schema = "CREATE TABLE t (id int PRIMARY KEY, a int); CREATE TABLE u (id int PRIMARY KEY, a int);";
        let catalog = palisade_ddl::postgres(schema, "shop").unwrap();
        check(catalog, WRITING, sql)
    };
    type Told = (ChangeKind, bool, bool);
    let cases: [(&str, &[Told]); 3] = [
        (
            "WITH d AS (DELETE FROM t WHERE id = 1 RETURNING id) \
             INSERT INTO u (id) SELECT id FROM d ON CONFLICT (id) DO UPDATE SET a = 1",
            &[(Delete, false, false), (Insert, false, true)],
        ),
        (
            "UPDATE t SET a = u.a FROM u WHERE u.id = t.id",
            &[(Update, true, false)],
        ),
        (
            "MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN DELETE",
            &[(Merge, true, false)],
        ),
    ];
    for (sql, expected) in cases {
        let statement = postgres(sql);
        let told: Vec<Told> = (statement.change_facts().iter())
            .map(|facts| (facts.kind, facts.is_joined, facts.meets_rows))
            .collect();
        assert_eq!(told, expected, "{sql}");
        // No backend of this engine asks for it.
        assert_eq!(statement.text_facts(), None);
    }
}

#[test]
fn names_are_those_of_the_text_that_runs() {
    for (sql, aliases, expressions, has_derived_tables, has_group_conditions) in [
        ("SELECT id FROM teams", "", "", false, false),
        (
            "SELECT ' AS x, WITH HAVING (SELECT' AS y FROM teams",
            "",
            "",
            false,
            false,
        ),
        ("SELECT t.id FROM teams t", "t", "", false, false),
        (
            "SELECT t.id FROM teams AS t WHERE t.head IN (SELECT x.id FROM teams AS x)",
            "t x",
            "",
            false,
            false,
        ),
        (
            "SELECT id FROM teams UNION SELECT head FROM teams",
            "",
            "",
            false,
            false,
        ),
        (
            "SELECT d.id FROM (SELECT id FROM teams) AS d",
            "d",
            "",
            true,
            false,
        ),
        (
            "WITH c AS (SELECT id FROM teams) SELECT id FROM c",
            "",
            "c",
            true,
            false,
        ),
        (
            "WITH c AS (SELECT id FROM teams) SELECT d.id FROM c AS d",
            "d",
            "c",
            true,
            false,
        ),
        (
            "SELECT j.a FROM JSON_TABLE('[1]', '$[*]' COLUMNS (a INT PATH '$')) AS j",
            "j",
            "",
            true,
            false,
        ),
        (
            "SELECT head FROM teams GROUP BY head HAVING COUNT(*) > 1",
            "",
            "",
            false,
            true,
        ),
        (
            "SELECT 1 UNION (SELECT head FROM teams GROUP BY head HAVING COUNT(*) > 1)",
            "",
            "",
            false,
            true,
        ),
        // What stands in the place of a relation is part of the text.
        ("SELECT note FROM leads", "leads", "", true, false),
        ("SELECT l.note FROM leads AS l", "l", "", true, false),
        (
            "SELECT id FROM teams WHERE head IN (SELECT id FROM leads)",
            "leads",
            "",
            true,
            false,
        ),
        // A view's own query is none of it.
        ("SELECT h.head FROM heads AS h", "h", "", false, false),
        (
            "(SELECT id FROM teams ORDER BY id) LIMIT 3",
            "",
            "",
            false,
            false,
        ),
        (
            "(SELECT id FROM teams ORDER BY id) ORDER BY id",
            "",
            "",
            true,
            false,
        ),
        (
            "UPDATE teams AS t SET t.head = 1 WHERE t.id = 1",
            "t",
            "",
            false,
            false,
        ),
    ] {
        let statement = mysql(sql);
        let facts = statement.text_facts().unwrap();
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        assert_eq!(facts.aliases, words(aliases), "{sql}");
        assert_eq!(facts.expressions, words(expressions), "{sql}");
        assert_eq!(
            (facts.has_derived_tables, facts.has_group_conditions),
            (has_derived_tables, has_group_conditions),
            "{sql}"
        );
    }
}

/// Of a text that policy looks at, the column's character set must have all letters; of others nothing is looked at.
#[test]
fn texts_that_policy_looks_at_are_whole_on_mysql() {
    let by_note = WRITING.to_owned()
        + r#"forbid(principal, action == Action::"add", resource is row::shop::leads) unless { resource has note && resource.note == "x" };"#;
    let by_tenant = WRITING.to_owned()
        + r#"forbid(principal, action == Action::"add", resource is row::shop::leads) unless { resource.tenant == 1 };"#;
    for (policies, is_converted) in [(by_note, true), (by_tenant, false)] {
        let catalog = palisade_ddl::mysql(SCHEMA, "shop").unwrap();
        let sql =
            "INSERT INTO leads (id, tenant, note) SELECT id, head, name FROM teams WHERE id = 1";
        let statement = check(catalog, &policies, sql);
        let text = palisade::danger::parts(&statement).sql;
        assert_eq!(text.contains("CONVERT("), is_converted, "{text}");
    }
}

/// What the engine may be seen to do: columns by table, then calls, then changes. A table without a column is `_`, and what every
/// table of PostgreSQL has `system`.
fn describe_expected(statement: &RewrittenStatement) -> String {
    const SYSTEM: [&str; 6] = ["cmax", "cmin", "ctid", "tableoid", "xmax", "xmin"];
    let mut tables: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (table, column) in statement.engine_reads() {
        let column = if column.is_empty() { "_" } else { column };
        tables.entry(table).or_default().push(column);
    }
    let reads = tables.into_iter().map(|(table, mut columns)| {
        if SYSTEM.iter().all(|column| columns.contains(column)) {
            columns.retain(|column| !SYSTEM.contains(column));
            columns.push("system");
        }
        format!("{table}({})", columns.join(" "))
    });
    let reads: Vec<String> = reads.collect();
    let calls: Vec<&str> = statement
        .engine_functions()
        .iter()
        .map(String::as_str)
        .collect();
    let writes = statement.engine_writes().iter();
    let writes: Vec<String> = writes
        .map(|(change, table, column)| format!("{} {table}.{column}", change.name()))
        .collect();
    let parts = [reads.join(" "), calls.join(" "), writes.join(" ")];
    parts.join(" | ").trim_end().to_owned()
}

/// The second lock would let through a column more.
#[test]
fn the_engine_may_do_what_was_decided_and_no_more() {
    let sqlite = || palisade_sqlite::catalog_from_ddl(SCHEMA, "shop").unwrap();
    let postgres = || palisade_ddl::postgres(SCHEMA, "shop").unwrap();
    let mysql = || palisade_ddl::mysql(SCHEMA, "shop").unwrap();
    let mut wrong = Vec::new();
    for (sql, expected) in [
        (
            "SELECT name FROM teams WHERE head = 1",
            [
                "teams(_ head name rowid) | coalesce |",
                "teams(_ head name system) |  |",
                "teams(_ head name) |  |",
            ],
        ),
        (
            "SELECT * FROM teams",
            [
                "teams(_ head id name rowid) | coalesce |",
                "teams(_ head id name system) |  |",
                "teams(_ head id name) |  |",
            ],
        ),
        (
            "SELECT count(*) FROM teams",
            [
                "teams(_ rowid) | coalesce count |",
                "teams(_ system) | pg_catalog.count |",
                "teams(_) | count |",
            ],
        ),
        (
            "SELECT note FROM leads",
            [
                "leads(_ amount id note tenant) | coalesce typeof |",
                "leads(_ amount id note tenant) |  |",
                "leads(_ amount id note tenant) | convert |",
            ],
        ),
        (
            "SELECT head FROM heads",
            [
                "heads(_ head) t(*) teams(_ head rowid) | coalesce count |",
                "heads(_ head) teams(_ head system) | pg_catalog.count |",
                "heads(_ head) teams(_ head) | count |",
            ],
        ),
        (
            "WITH c AS (SELECT 1 AS x) SELECT x FROM c",
            ["c(_ *) | coalesce |", "c(_) |  |", "c(_) |  |"],
        ),
        (
            "SELECT d.x FROM (SELECT lower(name) AS x FROM teams) AS d",
            [
                "d(*) teams(_ name rowid) | coalesce lower |",
                "teams(_ name system) | pg_catalog.lower |",
                "teams(_ name) | lower |",
            ],
        ),
        (
            "SELECT a.name FROM teams a JOIN leads b ON a.head = b.id",
            [
                "a(*) b(*) leads(_ amount id note tenant) teams(_ head name rowid) | coalesce typeof |",
                "leads(_ amount id note tenant) teams(_ head name system) |  |",
                "leads(_ amount id note tenant) teams(_ head name) | convert |",
            ],
        ),
        (
            "UPDATE teams SET name = 'x' WHERE id = 1",
            [
                "admitted_rows(_) teams(_ id name rowid) | coalesce | update teams.name",
                "admitted_rows(_) teams(_ id name system) |  | update teams.name",
                "admitted_rows(_) teams(_ id name) |  | update teams.name",
            ],
        ),
        (
            "UPDATE leads SET note = 'x' WHERE id = 1",
            [
                "admitted_rows(_) leads(_ id note tenant) | coalesce typeof | update leads.note",
                "admitted_rows(_) leads(_ id note tenant) |  | update leads.note",
                "admitted_rows(_) leads(_ id note tenant) | convert | update leads.note",
            ],
        ),
        (
            "DELETE FROM teams WHERE head = 1",
            [
                "admitted_rows(_) teams(_ head rowid) | coalesce | delete teams.",
                "admitted_rows(_) teams(_ head system) |  | delete teams.",
                "admitted_rows(_) teams(_ head) |  | delete teams.",
            ],
        ),
        (
            "INSERT INTO teams (id, name) VALUES (1, 'x')",
            [
                "admitted_rows(_) | coalesce | insert teams.",
                "admitted_rows(_) |  | insert teams.",
                "admitted_rows(_) |  | insert teams.",
            ],
        ),
    ] {
        let engines = [
            (sqlite(), "main"),
            (postgres(), "public"),
            (mysql(), "shop"),
        ];
        for ((catalog, schema), expected) in engines.into_iter().zip(expected) {
            let dialect = catalog.dialect();
            let policies = POLICIES.replace("shop", schema);
            let found = describe_expected(&check(catalog, &policies, sql));
            if found != expected {
                wrong.push(format!("{sql} {dialect:?}: {found}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
