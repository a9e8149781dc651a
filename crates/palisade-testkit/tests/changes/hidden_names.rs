//! Names of a statement's own that columns of its target have, which the principal does not see: the target stands in the text
//! with all of its columns, and a name is the statement's all the same.

use palisade::{
    guard::{Backend, Guard},
    session::{Principal, Session},
    value::Params,
};
use palisade_testkit::{fixture::policy_sources, live::changing_gate, servers::MariaDbServer};
use serde_json::Value;

use crate::database::{TestDatabase, TestFile};

const POLICIES: &str = r#"
permit(principal, action, resource);
forbid(principal, action in Action::"read", resource == Column::"SCHEMA.people.secret");
"#;

const TABLES: &str =
    "CREATE TABLE people (id int PRIMARY KEY, label varchar(20), secret varchar(20));";

/// Rows with two secrets each, of which nothing may be told.
const SECRETS: [&str; 2] = [
    "INSERT INTO people VALUES (1, 'one', 'S3CR3T-1'), (2, 'two', 'S3CR3T-2');",
    "INSERT INTO people VALUES (1, 'one', 'x'), (2, 'two', NULL);",
];

/// A change, and the labels that are there then.
type Case = (&'static str, &'static str);

/// A whole row to PostgreSQL, whatever it is called.
const ROWS: &[Case] = &[
    (
        "UPDATE people SET label = label WHERE id = 1 RETURNING (SELECT secret::text FROM (VALUES (1)) AS secret) AS s",
        "one two",
    ),
    (
        "UPDATE people AS p SET label = secret::text FROM (VALUES (1)) AS secret WHERE p.id = 2 RETURNING p.id, label",
        "one (1)",
    ),
    (
        "UPDATE people SET label = 'x' WHERE id = 1 AND EXISTS (SELECT 1 FROM (VALUES (1)) AS secret WHERE secret::text = 'S3CR3T-1')",
        "one two",
    ),
    (
        "WITH d AS (UPDATE people SET label = label WHERE id = 1 RETURNING (SELECT secret::text FROM (VALUES (1)) AS secret) AS s) SELECT s FROM d",
        "one two",
    ),
    (
        "MERGE INTO people p USING (VALUES (1)) AS secret(id) ON p.id = secret.id WHEN MATCHED THEN UPDATE SET label = secret::text",
        "(1) two",
    ),
    (
        "DELETE FROM people USING (VALUES (1)) AS secret WHERE people.id = 2 AND secret::text LIKE 'S3C%'",
        "one two",
    ),
    (
        "UPDATE people AS p SET label = (to_jsonb(secret) ->> 'n') FROM (VALUES (1)) AS secret (n) WHERE p.id = 1",
        "1 two",
    ),
    (
        "UPDATE people AS p SET label = ctid::text FROM (VALUES (1)) AS ctid WHERE p.id = 1",
        "(1) two",
    ),
    (
        "UPDATE people SET label = 'x' WHERE id = 1 RETURNING to_jsonb(people) IS NULL AS gone",
        "one two",
    ),
];

/// A column of another source.
const COLUMNS: &[Case] = &[
    (
        "UPDATE people SET label = secret FROM (SELECT 'x' AS secret) AS v WHERE id = 1",
        "x two",
    ),
    (
        "UPDATE people SET label = (SELECT max(v.t) FROM (SELECT 'y' AS t) AS v WHERE w.secret = 'x') FROM (SELECT 'x' AS secret) AS w WHERE id = 1",
        "y two",
    ),
];

const DELETED: &[Case] = &[(
    "DELETE FROM people USING (SELECT 'x' AS secret) AS v WHERE id = 1 AND secret = 'x'",
    "two",
)];

const JOINED: &[Case] = &[
    (
        "UPDATE people JOIN (SELECT 1 AS n, 'x' AS secret) AS v ON n = id SET label = secret",
        "x two",
    ),
    (
        "DELETE people FROM people JOIN (SELECT 1 AS n, 'x' AS secret) AS v ON n = id WHERE secret = 'x'",
        "two",
    ),
];

fn gate<B: Backend>(backend: B, schema: &str) -> Guard {
    changing_gate(backend, policy_sources(POLICIES.replace("SCHEMA", schema)))
}

/// The whole of what is answered, but for what differs with each run.
async fn answer(gate: &Guard, sql: &str) -> Value {
    let session = Session::new(Principal::new("Agent", "a"));
    let answer = gate.execute(sql, &Params::None, &session).await;
    match answer.into_result() {
        Ok(rows) => {
            let mut told = serde_json::to_value(&rows).unwrap();
            told["elapsed_ms"] = Value::Null;
            told
        }
        Err(refusal) => {
            println!("{sql}: {}", refusal.rejection);
            refusal.rejection.code().slug().into()
        }
    }
}

/// Two databases that differ by the secrets alone answer alike.
fn compare(sql: &str, expected: &str, found: &[(Value, String)]) {
    let [one, other] = found else {
        panic!("{found:?}")
    };
    assert_eq!(one, other, "{sql}");
    assert_eq!(one.1, expected, "{sql}: {}", one.0);
    assert!(!one.0.to_string().contains("S3CR3T"), "{sql}: {}", one.0);
}

#[tokio::test]
async fn a_name_is_the_statements_own_on_postgres() {
    for (sql, expected) in ROWS.iter().chain(COLUMNS).chain(DELETED) {
        let mut found = Vec::new();
        for secrets in SECRETS {
            let database = TestDatabase::postgres("named", &format!("{TABLES}{secrets}"));
            let gate = gate(database.postgres_backend().await, "public");
            let told = answer(&gate, sql).await;
            let labels = "SELECT string_agg(label, ' ' ORDER BY id) FROM people";
            found.push((told, database.query(labels)));
        }
        compare(sql, expected, &found);
    }
}

#[tokio::test]
async fn a_name_is_the_statements_own_on_sqlite() {
    for (sql, expected) in COLUMNS {
        let mut found = Vec::new();
        for secrets in SECRETS {
            let file = TestFile::new(&format!("{TABLES}{secrets}"));
            let told = answer(&gate(file.backend(), "main"), sql).await;
            let labels =
                "SELECT group_concat(label, ' ') FROM (SELECT label FROM people ORDER BY id)";
            let labels = file.open_bare().query_row(labels, [], |row| row.get(0));
            found.push((told, labels.unwrap()));
        }
        compare(sql, expected, &found);
    }
}

#[tokio::test]
async fn a_name_is_the_statements_own_on_mariadb() {
    for (sql, expected) in JOINED {
        let mut found = Vec::new();
        for secrets in SECRETS {
            let server = MariaDbServer::start_shared().unwrap();
            let database = TestDatabase::on(server, "named", &format!("{TABLES}{secrets}"));
            let gate = gate(database.mysql_backend().await, database.name());
            let told = answer(&gate, sql).await;
            let labels = "SELECT group_concat(label ORDER BY id SEPARATOR ' ') FROM people";
            found.push((told, database.query(labels)));
        }
        compare(sql, expected, &found);
    }
}
