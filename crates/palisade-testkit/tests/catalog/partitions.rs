//! A session learns in which partition a row is stored only if it sees all partitions. Two databases have the same rows;
//! in one of them, a child table stores some.

use palisade::{
    guard::Guard,
    session::{Principal, Session},
    value::Params,
};
use palisade_testkit::{fixture::policy_sources, live::changing_gate};
use serde_json::{Value, json};

use crate::database::TestDatabase;

const ALONE: &str = "
CREATE TABLE parent (id int, note text);
INSERT INTO parent VALUES (1, 'a'), (2, 'b');
";

const WITH_CHILD: &str = "
CREATE TABLE parent (id int, note text);
CREATE TABLE canary () INHERITS (parent);
INSERT INTO parent VALUES (1, 'a');
INSERT INTO canary VALUES (2, 'b');
";

/// The table, and whatever may be done with it.
const PARENT: &str = r#"
permit(principal, action, resource);
forbid(principal, action in [Action::"select", Action::"discover"], resource is Table) unless { resource == Table::"public.parent" };
"#;

/// As a permit that names one table, so that nothing is forbidden of the other.
const PERMITTED: &str = r#"
permit(principal, action in [Action::"select", Action::"discover", Action::"update", Action::"delete", Action::"alter"], resource == Table::"public.parent");
permit(principal, action in [Action::"see", Action::"change", Action::"add"], resource);
permit(principal, action in [Action::"read", Action::"write"], resource is Column);
permit(principal, action == Action::"call", resource is Function) when { resource.safety == "pure" };
"#;

const MASKED: &str = r#"
@mask("fixed(-)")
forbid(principal, action == Action::"read_plain", resource == Column::"public.parent.note");
"#;

async fn gate(script: &str, policies: &str) -> Guard {
    let database = TestDatabase::postgres("children", script);
    let backend = database.postgres_backend().await;
    let policies = policy_sources(policies);
    changing_gate(backend, policies)
}

/// The rows, or the code of the refusal; nothing of either names the child.
async fn answer(gate: &Guard, sql: &str) -> Result<Value, String> {
    let session = Session::new(Principal::new("Agent", "a"));
    match gate
        .execute(sql, &Params::None, &session)
        .await
        .into_result()
    {
        Ok(envelope) => {
            let envelope = serde_json::to_value(&envelope).unwrap();
            assert!(
                !envelope.to_string().contains("canary"),
                "{sql}: {envelope}"
            );
            Ok(envelope.get("rows").unwrap().clone())
        }
        Err(refusal) => {
            let message = refusal.rejection.message();
            assert!(!message.contains("canary"), "{sql}: {message}");
            Err(refusal.rejection.code().slug().to_owned())
        }
    }
}

#[tokio::test]
async fn a_child_that_is_not_seen_is_not_told_of() {
    let masked = format!("{PERMITTED}{MASKED}");
    for policies in [PERMITTED, &masked] {
        let (alone, with_child) = (
            gate(ALONE, policies).await,
            gate(WITH_CHILD, policies).await,
        );
        for sql in [
            "SELECT id, note FROM ONLY parent ORDER BY id",
            "SELECT id FROM ONLY (public.parent) AS p ORDER BY id",
            "TABLE ONLY parent",
            "SELECT p.id, q.id AS other FROM parent p LEFT JOIN ONLY parent q ON q.id = p.id ORDER BY 1",
            "WITH o AS (SELECT id FROM ONLY parent) SELECT count(*) FROM o",
            "SELECT id, row_number() OVER (ORDER BY id) FROM ONLY parent",
        ] {
            let (alone, with_child) = (answer(&alone, sql).await, answer(&with_child, sql).await);
            assert!(alone.is_ok(), "{sql}: {alone:?}");
            assert_eq!(alone, with_child, "{sql}");
        }
        let rows = answer(&with_child, "SELECT id FROM ONLY parent ORDER BY id").await;
        assert_eq!(rows, Ok(json!([{"id": 1}, {"id": 2}])));
        for (sql, code) in [
            ("SELECT tableoid FROM parent", "name.unknown-column"),
            ("SELECT ctid FROM parent", "name.unknown-column"),
            (
                "SELECT 1 FROM parent p WHERE p.tableoid = 1",
                "name.unknown-column",
            ),
            ("EXPLAIN SELECT id FROM parent", "obligation.inapplicable"),
            (
                "UPDATE parent SET note = 'x' WHERE tableoid = 1",
                "name.unknown-column",
            ),
            (
                "DELETE FROM parent WHERE id = 9 RETURNING ctid",
                "name.unknown-column",
            ),
            (
                "ALTER TABLE parent ADD COLUMN more int",
                "obligation.inapplicable",
            ),
        ] {
            assert_eq!(
                answer(&with_child, sql).await,
                Err(code.to_owned()),
                "{sql}"
            );
        }
        if policies == PERMITTED {
            let sql = "UPDATE parent SET note = 'c' WHERE id = 2 RETURNING id, note";
            let changed = answer(&with_child, sql).await;
            assert_eq!(changed, Ok(json!([{"id": 2, "note": "c"}])));
        }
    }
}

#[tokio::test]
async fn a_child_that_is_seen_is_told_apart() {
    let gate = gate(
        &WITH_CHILD.replace("canary", "child"),
        "permit(principal, action, resource);",
    )
    .await;
    for (sql, rows) in [
        ("SELECT id FROM ONLY parent", json!([{"id": 1}])),
        (
            "SELECT id FROM parent WHERE tableoid <> 0 ORDER BY id",
            json!([{"id": 1}, {"id": 2}]),
        ),
    ] {
        assert_eq!(answer(&gate, sql).await, Ok(rows), "{sql}");
    }
    assert!(answer(&gate, "EXPLAIN SELECT id FROM parent").await.is_ok());
}

#[tokio::test]
async fn a_forbidden_child_makes_its_parent_unreadable() {
    let gate = gate(WITH_CHILD, PARENT).await;
    let refused = answer(&gate, "SELECT id FROM ONLY parent").await;
    assert!(refused.is_err(), "{refused:?}");
}
