//! Rows that RETURNING gives back are ones that may be seen as they are then.

use palisade::guard::Guard;
use palisade_testkit::{fixture::policy_sources, live::changing_gate};
use serde_json::{Value, json};

use super::{Changed, REFUSED, run};

use crate::database::{TestDatabase, TestFile};

const SCRIPT: &str = "
    CREATE TABLE items (id int PRIMARY KEY, gone varchar(9), level int NOT NULL, label varchar(9));
    INSERT INTO items VALUES (1, NULL, 1, 'a'), (2, NULL, 1, 'b'), (3, 'x', 1, 'hidden'), (4, NULL, 9, 'hidden'), (5, NULL, 2, 'c');";

/// What is gone or too high is not seen; whoever may change a row may do so until then, too.
fn gate<B: palisade::guard::Backend>(backend: B, schema: &str) -> Guard {
    let text = format!(
        "permit(principal, action, resource);\n\
         forbid(principal, action == Action::\"see\", resource is row::{schema}::items) when {{ resource has gone || resource.level > 5 }};"
    );
    let policies = policy_sources(text);
    changing_gate(backend, policies)
}

type Case = (&'static str, Value, Changed);

/// What PostgreSQL and SQLite have alike.
fn standard() -> Vec<Case> {
    let none = || json!(null);
    vec![
        (
            "UPDATE items SET gone = 'x' WHERE id = 1 RETURNING id, label",
            none(),
            REFUSED,
        ),
        (
            "UPDATE items SET gone = label WHERE id = 1 RETURNING id",
            none(),
            REFUSED,
        ),
        (
            "UPDATE items SET level = level + 1 WHERE id = 1 RETURNING id",
            none(),
            REFUSED,
        ),
        (
            "UPDATE items SET level = 9 WHERE id > 0 RETURNING id",
            none(),
            REFUSED,
        ),
        (
            "UPDATE items SET level = 5, gone = NULL WHERE id < 3 RETURNING id, level",
            none(),
            Ok(2),
        ),
        (
            "UPDATE items SET label = 'z' WHERE id > 0 RETURNING id",
            none(),
            Ok(3),
        ),
        (
            "INSERT INTO items VALUES (1, NULL, 1, 'x') ON CONFLICT (id) DO UPDATE SET gone = 'x' RETURNING id",
            none(),
            REFUSED,
        ),
        (
            "INSERT INTO items VALUES (1, NULL, 1, 'x') ON CONFLICT (id) DO UPDATE SET level = 7 RETURNING id",
            none(),
            REFUSED,
        ),
        (
            "INSERT INTO items VALUES (1, NULL, 1, 'x') ON CONFLICT (id) DO UPDATE SET level = 3 RETURNING id",
            none(),
            Ok(1),
        ),
        (
            "INSERT INTO items VALUES (6, NULL, 7, 'x') RETURNING id",
            none(),
            REFUSED,
        ),
        (
            "INSERT INTO items (id, level) VALUES (6, 1) RETURNING id",
            none(),
            Ok(1),
        ),
        // Nothing is given back.
        (
            "INSERT INTO items VALUES (2, NULL, 1, 'x') ON CONFLICT (id) DO UPDATE SET gone = 'x'",
            none(),
            Ok(1),
        ),
        ("UPDATE items SET gone = 'x' WHERE id = 1", none(), Ok(1)),
        ("DELETE FROM items WHERE id > 0 RETURNING id", none(), Ok(2)),
    ]
}

#[tokio::test]
async fn on_sqlite_what_is_given_back_may_be_seen() {
    let file = TestFile::new(SCRIPT);
    let backend = file.backend();
    run(&gate(backend, "main"), &standard()).await;
}

#[tokio::test]
async fn on_postgres_what_is_given_back_may_be_seen() {
    let database = TestDatabase::postgres("returned", SCRIPT);
    let backend = database.postgres_backend().await;
    let none = || json!(null);
    let mut cases = vec![
        (
            "WITH w AS (UPDATE items SET gone = 'x' WHERE id = 1 RETURNING label) SELECT label FROM w",
            none(),
            REFUSED,
        ),
        (
            "UPDATE items SET gone = 'x' FROM items AS o WHERE items.id = 1 AND o.id = 2 RETURNING items.id",
            none(),
            REFUSED,
        ),
        (
            "UPDATE items SET gone = DEFAULT WHERE id = 1 RETURNING id",
            none(),
            Ok(1),
        ),
    ];
    cases.extend(standard());
    run(&gate(backend, "public"), &cases).await;
}

#[tokio::test]
async fn on_mariadb_what_is_given_back_may_be_seen() {
    let database = TestDatabase::mariadb("returned", SCRIPT);
    let backend = database.mysql_backend().await;
    let none = || json!(null);
    let cases = [
        (
            "INSERT INTO items VALUES (1, NULL, 1, 'x') ON DUPLICATE KEY UPDATE gone = 'x' RETURNING id",
            none(),
            REFUSED,
        ),
        (
            "INSERT INTO items VALUES (1, NULL, 1, 'x') ON DUPLICATE KEY UPDATE level = 3 RETURNING id",
            none(),
            Ok(1),
        ),
        (
            "REPLACE INTO items VALUES (1, 'x', 1, 'x') RETURNING id",
            none(),
            REFUSED,
        ),
        (
            "INSERT INTO items (id, level) VALUES (6, 1) RETURNING id",
            none(),
            Ok(1),
        ),
        (
            "INSERT INTO items VALUES (1, NULL, 1, 'x') ON DUPLICATE KEY UPDATE gone = 'x'",
            none(),
            Ok(1),
        ),
        ("DELETE FROM items WHERE id > 0 RETURNING id", none(), Ok(3)),
    ];
    run(&gate(backend, database.name()), &cases).await;
}
