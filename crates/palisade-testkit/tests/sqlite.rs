//! What SQLite alone does, through the gate on a database of its own: each statement gives what SQLite would give for the rows that
//! may be seen, and nothing else happens.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use palisade::{
    guard::Outcome,
    policy::{PolicyFile, PolicySources},
    session::{Principal, Session},
    value::Params,
};
use palisade_sqlite::{SqliteBackend, create_database};
use palisade_testkit::live::changing_gate;

/// The answer as JSON, or the code of the refusal; then the rows that `look` gives, if it is said.
struct Step<'s> {
    sql: &'s str,
    answer: &'s str,
    look: &'s str,
    then: &'s str,
}

/// Each step begins with the database that `script` makes.
async fn check(script: &str, policies: &str, steps: &[Step<'_>]) {
    let sources = PolicySources {
        policies: vec![PolicyFile {
            name: "own.cedar".to_owned(),
            text: policies.to_owned(),
        }],
        ..PolicySources::default()
    };
    let session = Session::new(Principal::new("Agent", "a"));
    let mut problems = Vec::new();
    for step in steps {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("own.db");
        create_database(&path, script).unwrap();
        let backend = SqliteBackend::open_file(&path, "main").unwrap().writable();
        let gate = changing_gate(backend, sources.clone());
        let told = match gate.execute(step.sql, &Params::None, &session).await {
            Outcome::Rows(rows) => {
                let answer = serde_json::to_value(&rows).unwrap();
                answer.get("rows").unwrap().to_string()
            }
            Outcome::Rejected(refusal) => {
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
            let conn = rusqlite::Connection::open(&path).unwrap();
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
            "name.unknown-column",
        ),
        step(
            "UPDATE t SET v = u.x FROM u WHERE t.id = u.id RETURNING x",
            "name.unknown-column",
        ),
        step(
            "UPDATE t AS a SET v = 1 WHERE a.id = 1 RETURNING a.v",
            "name.unknown-column",
        ),
    ];
    check(script, policies, &steps).await;
}
