//! What SQLite alone does, through the gate on a database of its own: each statement gives what SQLite would give for the rows that
//! may be seen, and nothing else happens.

use palisade::{
    session::{Principal, Session},
    value::Params,
};
use palisade_testkit::{fixture::policy_sources, live::changing_gate};

use crate::database::TestFile;

/// The answer as JSON, or the code of the refusal; then the rows that `look` gives, if it is said.
struct Step<'s> {
    sql: &'s str,
    answer: &'s str,
    look: &'s str,
    then: &'s str,
}

/// Each step begins with the database that `script` makes.
async fn check(script: &str, policies: &str, steps: &[Step<'_>]) {
    let sources = policy_sources(policies);
    let session = Session::new(Principal::new("Agent", "a"));
    let mut problems = Vec::new();
    for step in steps {
        let file = TestFile::new(script);
        let backend = file.backend();
        let gate = changing_gate(backend, sources.clone());
        let told = match gate
            .execute(step.sql, &Params::None, &session)
            .await
            .into_result()
        {
            Ok(rows) => {
                let answer = serde_json::to_value(&rows).unwrap();
                match answer.pointer("/notices/0/notice") {
                    Some(notice) => notice.to_string(),
                    None => answer.get("rows").unwrap().to_string(),
                }
            }
            Err(refusal) => {
                let detail = refusal.rejection.operator_detail().unwrap_or_default();
                format!(
                    "{} {} {detail}",
                    refusal.rejection.code(),
                    refusal.rejection
                )
            }
        };
        let code = told.split(' ').next().unwrap_or_default();
        if told != step.answer && code != step.answer {
            problems.push(format!("{}\n  {told}", step.sql));
        }
        if !step.look.is_empty() {
            let conn = file.open_bare();
            let then: String = conn.query_row(step.look, [], |row| row.get(0)).unwrap();
            if then != step.then {
                problems.push(format!("{}\n  {told}\n  left {then}", step.sql));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[tokio::test]
async fn returning_sees_the_changed_row_alone() {
    let script = "CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER, w INTEGER);
        INSERT INTO t VALUES (1, 2, 3), (2, 3, 4);
        CREATE TABLE u (id INTEGER PRIMARY KEY, v INTEGER, x INTEGER);
        INSERT INTO u VALUES (1, 5, 20), (2, 6, 30);";
    let policies = "permit(principal, action, resource);
        @mask(\"null\") forbid(principal, action == Action::\"read_plain\", resource == Column::\"main.u.v\");";
    let step = |sql, answer| Step {
        sql,
        answer,
        look: "",
        then: "",
    };
    let steps = [
        step(
            "UPDATE t SET v = u.x FROM u WHERE t.id = u.id RETURNING v, id",
            r#"[{"v":20,"id":1},{"v":30,"id":2}]"#,
        ),
        step(
            "UPDATE t SET v = u.x FROM u WHERE t.id = u.id RETURNING *",
            r#"[{"id":1,"v":20,"w":3},{"id":2,"v":30,"w":4}]"#,
        ),
        step(
            "UPDATE t AS a SET v = u.x FROM u WHERE a.id = u.id RETURNING t.v, t.id, (SELECT x FROM u WHERE u.id = t.id) AS x",
            r#"[{"v":20,"id":1,"x":20},{"v":30,"id":2,"x":30}]"#,
        ),
        step(
            "DELETE FROM t AS a WHERE a.id = 1 RETURNING t.w",
            r#"[{"w":3}]"#,
        ),
        step(
            "UPDATE t SET v = u.x FROM u WHERE t.id = u.id RETURNING u.x",
            "name.unknown-relation",
        ),
        step(
            "UPDATE t SET v = u.x FROM u WHERE t.id = u.id RETURNING x",
            "name.unknown-column",
        ),
        step(
            "UPDATE t AS a SET v = 1 WHERE a.id = 1 RETURNING a.v",
            "name.unknown-relation",
        ),
    ];
    check(script, policies, &steps).await;
}

#[tokio::test]
async fn a_row_id_is_a_condition() {
    let script = "CREATE TABLE t (v TEXT, w INTEGER); INSERT INTO t VALUES ('a', 1), ('b', 2), ('c', 3);
        CREATE TABLE held (v TEXT, w INTEGER); INSERT INTO held SELECT * FROM t;
        CREATE TABLE mine (v TEXT, tenant INTEGER NOT NULL) STRICT; INSERT INTO mine VALUES ('a', 1), ('b', 2);
        CREATE TABLE named (rowid TEXT, w INTEGER); INSERT INTO named VALUES ('x', 1), ('y', 2);
        CREATE TABLE keyed (id INTEGER PRIMARY KEY, w INTEGER); INSERT INTO keyed VALUES (7, 1), (8, 2);
        CREATE TABLE bare (k TEXT PRIMARY KEY, w INTEGER) WITHOUT ROWID; INSERT INTO bare VALUES ('x', 1);";
    // Every change needs a condition.
    let policies = "permit(principal, action, resource)
        unless { [Action::\"update\", Action::\"delete\"].contains(action) };
        permit(principal, action in [Action::\"update\", Action::\"delete\"], resource) when { true };
        forbid(principal, action == Action::\"see\", resource is row::main::mine) unless { resource.tenant == 1 };
        forbid(principal, action == Action::\"change\", resource is row::main::held) when { resource has w && resource.w == 3 };";
    let step = |sql, look, then| Step {
        sql,
        answer: "[]",
        look,
        then,
    };
    let t = "SELECT group_concat(v || w) FROM t";
    let held = "SELECT group_concat(v || w) FROM held";
    let refused = |sql, answer| Step {
        sql,
        answer,
        look: "",
        then: "",
    };
    let steps = [
        step("UPDATE t SET w = 9 WHERE rowid = 2", t, "a1,b9,c3"),
        step(
            "UPDATE t SET w = 9 WHERE t._rowid_ IN (1, 3)",
            t,
            "a9,b2,c9",
        ),
        step("DELETE FROM t AS x WHERE x.oid = 2", t, "a1,c3"),
        step(
            "DELETE FROM t WHERE EXISTS (SELECT 1 FROM keyed k WHERE k.w = t.rowid)",
            t,
            "c3",
        ),
        step("UPDATE held SET v = 'x' WHERE rowid > 1", held, "a1,x2,c3"),
        step(
            "UPDATE named SET w = 9 WHERE rowid = 'x'",
            "SELECT group_concat(rowid || w) FROM named",
            "x9,y2",
        ),
        step(
            "UPDATE named SET w = 9 WHERE _rowid_ = 2",
            "SELECT group_concat(rowid || w) FROM named",
            "x1,y9",
        ),
        step(
            "UPDATE keyed SET w = 9 WHERE rowid = 7",
            "SELECT group_concat(id || w) FROM keyed",
            "79,82",
        ),
        refused(
            "UPDATE bare SET w = 9 WHERE rowid = 1",
            "name.unknown-column",
        ),
        // What counts the rows of others is not there.
        refused(
            "UPDATE mine SET v = 'x' WHERE rowid = 1",
            "name.unknown-column",
        ),
        refused("UPDATE t SET w = rowid WHERE 1 = 1", "write.no-condition"),
        refused(
            "UPDATE t SET w = 9 WHERE EXISTS (SELECT 1 FROM t AS o WHERE o.rowid = 2)",
            "write.no-condition",
        ),
    ];
    check(script, policies, &steps).await;
}

/// What is dropped is looked for by foreign keys that refuse, and what is not there to be dropped leaves everything as it is.
#[tokio::test]
async fn what_is_dropped() {
    let script = "CREATE TABLE parent (id INTEGER PRIMARY KEY); INSERT INTO parent VALUES (1);
        CREATE TABLE child (id INTEGER PRIMARY KEY, p INTEGER REFERENCES parent (id)); INSERT INTO child VALUES (1, 1);
        CREATE TABLE free (id INTEGER PRIMARY KEY);
        CREATE TABLE unbound (id INTEGER PRIMARY KEY, p INTEGER REFERENCES free); INSERT INTO unbound VALUES (1, NULL);
        CREATE TABLE hidden (id INTEGER PRIMARY KEY); CREATE TABLE held (id INTEGER PRIMARY KEY);";
    let policies = "permit(principal, action, resource);
        forbid(principal, action, resource == Table::\"main.hidden\");
        forbid(principal, action == Action::\"drop\", resource == Table::\"main.held\");";
    let tables = "SELECT group_concat(name) FROM (SELECT name FROM sqlite_schema ORDER BY name)";
    let all = "child,free,held,hidden,parent,unbound";
    let step = |sql, answer, then| Step {
        sql,
        answer,
        look: tables,
        then,
    };
    let nothing = "\"nothing_done\"";
    let steps = [
        step("DROP TABLE parent", "database.constraint", all),
        step("DROP TABLE free", "[]", "child,held,hidden,parent,unbound"),
        step(
            "DROP TABLE IF EXISTS child",
            "[]",
            "free,held,hidden,parent,unbound",
        ),
        step("DROP TABLE IF EXISTS nothere", nothing, all),
        step("DROP TABLE IF EXISTS main.nothere", nothing, all),
        step("DROP TABLE IF EXISTS hidden", nothing, all),
        step("DROP VIEW IF EXISTS hidden", nothing, all),
        step("DROP TABLE hidden", "name.unknown-relation", all),
        step("DROP TABLE nothere", "name.unknown-relation", all),
        step("DROP TABLE IF EXISTS held", "policy.forbidden", all),
        step(
            "DROP TABLE IF EXISTS sqlite_schema",
            "name.system-relation",
            all,
        ),
    ];
    check(script, policies, &steps).await;
}

/// A trigger of `UPDATE OF` is asked for where one of its columns is assigned, and nowhere else.
#[tokio::test]
async fn triggers_of_some_columns() {
    let script = "CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER, w INTEGER, g INTEGER AS (w + 1), x INTEGER);
        INSERT INTO t (id, v, w) VALUES (1, 2, 3);
        CREATE TABLE log (n INTEGER);
        CREATE TRIGGER noted AFTER UPDATE OF v, \"G\" ON t BEGIN INSERT INTO log VALUES (new.v); END;
        CREATE TABLE free (id INTEGER PRIMARY KEY, v INTEGER, w INTEGER);
        INSERT INTO free VALUES (1, 2, 3);
        CREATE TRIGGER seen AFTER UPDATE OF v ON free BEGIN INSERT INTO log VALUES (new.v); END;
        CREATE TABLE child (id INTEGER PRIMARY KEY, p INTEGER REFERENCES t (x) ON UPDATE CASCADE, q INTEGER);
        CREATE UNIQUE INDEX t_x ON t (x);
        CREATE TRIGGER followed AFTER UPDATE OF p ON child BEGIN INSERT INTO log VALUES (9); END;";
    let policies = "permit(principal, action, resource) unless { action == Action::\"call\" };
        permit(principal, action == Action::\"call\", resource) unless { resource.safety == \"unknown\" };
        permit(principal, action == Action::\"call\", resource == Function::\"main.seen\");";
    let step = |sql, answer, then| Step {
        sql,
        answer,
        look: "SELECT coalesce(group_concat(n), '') FROM log",
        then,
    };
    let refused = "function.not-allowed";
    let steps = [
        step("UPDATE t SET v = 5 WHERE id = 1", refused, ""),
        step("UPDATE t SET id = 5, v = v WHERE id = 1", refused, ""),
        // What is computed of it counts, though SQLite leaves it out.
        step("UPDATE t SET w = 5 WHERE id = 1", refused, ""),
        step("UPDATE t SET id = 7 WHERE id = 1", "[]", ""),
        // A foreign key changes what is asked for.
        step("UPDATE t SET x = 7 WHERE id = 1", refused, ""),
        step("UPDATE child SET q = 7 WHERE id = 1", "[]", ""),
        step(
            "INSERT INTO t (id, v) VALUES (1, 5) ON CONFLICT (id) DO UPDATE SET v = excluded.v",
            refused,
            "",
        ),
        step(
            "INSERT INTO t (id, v) VALUES (1, 5) ON CONFLICT (id) DO UPDATE SET id = 9",
            "[]",
            "",
        ),
        step("INSERT INTO t (id, v) VALUES (2, 5)", "[]", ""),
        step("UPDATE free SET v = 8 WHERE id = 1", "[]", "8"),
        step("UPDATE free SET w = 8 WHERE id = 1", "[]", ""),
    ];
    check(script, policies, &steps).await;
}
