//! A change in WITH that gives rows to another change, on PostgreSQL: refused where policy looks at a column that it gives back.

use palisade::{
    guard::Guard,
    session::{Principal, Session},
    value::Params,
};
use palisade_testkit::{fixture::policy_sources, live::changing_gate};

use crate::database::TestDatabase;

type Done = Result<u64, &'static str>;

const REFUSED: Done = Err("write.row-not-admitted");

/// Rows of tenant 1 are seen, and those that are added or changed are of it afterwards.
const TENANT: &str = r#"
permit(principal, action, resource);
forbid(principal, action in [Action::"see", Action::"add"], resource is row::public::things) unless { resource.tenant == 1 };
forbid(principal, action == Action::"add", resource is row::public::logs) unless { resource.tenant == 1 };
"#;

const SCRIPT: &str = "
    CREATE TABLE things (id int PRIMARY KEY, tenant int NOT NULL, name varchar(4), n int, twice int GENERATED ALWAYS AS (n * 2) STORED);
    CREATE TABLE people (id int PRIMARY KEY, n int);
    CREATE TABLE logs (id int, tenant int NOT NULL, name text);
    INSERT INTO things (id, tenant, name, n) VALUES (1, 1, 'a', 1), (2, 1, 'b', 2), HIDDEN;
    INSERT INTO people VALUES (1, 1), (2, 2), (3, 1), (4, 2);";

const HIDDEN: [&str; 2] = [
    "(3, 2, 'c', 1), (4, 2, 'd', 2)",
    "(3, 7, 'zero', 0), (4, 8, NULL, NULL)",
];

const STATEMENTS: &[(&str, Done)] = &[
    (
        "WITH w AS (UPDATE things SET name = 'x' WHERE id > 0 RETURNING id, tenant) INSERT INTO logs SELECT id, tenant, 'y' FROM w",
        REFUSED,
    ),
    (
        "WITH w AS (UPDATE things SET name = 'x' WHERE id > 0 RETURNING *) INSERT INTO logs SELECT id, tenant, name FROM w",
        REFUSED,
    ),
    (
        "WITH w AS (UPDATE things SET n = n + 1 WHERE id > 0 RETURNING id, n) INSERT INTO logs SELECT id, n, 'y' FROM w WHERE n < 3",
        REFUSED,
    ),
    (
        "WITH w AS (UPDATE things SET n = n - 1 WHERE id > 0 RETURNING id, n) INSERT INTO logs SELECT id, n, 'y' FROM w WHERE n > 0",
        REFUSED,
    ),
    (
        "WITH w AS (UPDATE things SET n = 2.6 WHERE id = 1 RETURNING n - 2 AS t) INSERT INTO logs SELECT 9, t, 'y' FROM w",
        REFUSED,
    ),
    (
        "WITH w AS (UPDATE things SET n = 1 WHERE id = 1 RETURNING twice) INSERT INTO logs SELECT 9, twice, 'y' FROM w",
        REFUSED,
    ),
    (
        "WITH w AS (UPDATE things SET n = 1 / n WHERE id > 0 RETURNING id) INSERT INTO logs SELECT id, 1, 'y' FROM w",
        Ok(4),
    ),
    (
        "WITH w AS (UPDATE things AS t SET n = p.n FROM people AS p WHERE p.id = t.id RETURNING t.tenant) INSERT INTO logs SELECT 9, tenant, 'y' FROM w",
        REFUSED,
    ),
    (
        "WITH w AS (UPDATE things AS t SET n = p.n FROM people AS p WHERE p.id = t.id RETURNING t.n) INSERT INTO logs SELECT 9, n, 'y' FROM w",
        REFUSED,
    ),
    (
        "WITH w AS (DELETE FROM things AS t USING people AS p WHERE p.n = t.n RETURNING t.id, t.tenant) INSERT INTO logs SELECT id, tenant, 'y' FROM w",
        REFUSED,
    ),
    (
        "WITH w AS (DELETE FROM things AS t USING people AS p WHERE p.n = t.n RETURNING t.n) INSERT INTO logs SELECT 9, n, 'y' FROM w",
        REFUSED,
    ),
    (
        "WITH w AS (DELETE FROM things AS t USING people AS p WHERE p.n = t.n AND 1 / t.n > 0 RETURNING t.n) INSERT INTO logs SELECT 9, n, 'y' FROM w",
        REFUSED,
    ),
    (
        "WITH w AS (DELETE FROM things AS t USING people AS p WHERE p.n = t.n RETURNING p.n) INSERT INTO logs SELECT 9, n, 'y' FROM w",
        REFUSED,
    ),
    (
        "WITH w AS (UPDATE things SET tenant = 1 WHERE id > 0 RETURNING tenant) INSERT INTO logs SELECT 9, tenant, 'y' FROM w",
        REFUSED,
    ),
    (
        "WITH w AS (INSERT INTO things (id, tenant) VALUES (9, 1) RETURNING tenant) INSERT INTO logs SELECT 9, tenant, 'y' FROM w",
        REFUSED,
    ),
];

async fn changed(gate: &Guard, sql: &str) -> Done {
    let session = Session::new(Principal::new("Agent", "a"));
    match gate
        .execute(sql, &Params::None, &session)
        .await
        .into_result()
    {
        Ok(rows) => Ok(rows.affected_rows().unwrap()),
        Err(refusal) => {
            println!("{sql}\n  {}", refusal.rejection);
            println!("  {:?}", refusal.rejection.operator_detail());
            Err(refusal.rejection.code().slug())
        }
    }
}

#[tokio::test]
async fn what_a_change_gives_back_is_of_what_is_seen() {
    for (sql, expected) in STATEMENTS {
        let mut left = Vec::new();
        for hidden in HIDDEN {
            let script = SCRIPT.replace("HIDDEN", hidden);
            let database = TestDatabase::postgres("returned", &script);
            let unseen = || database.query("SELECT * FROM things WHERE tenant <> 1 ORDER BY id");
            let before = unseen();
            let backend = database.postgres_backend().await;
            let policies = policy_sources(TENANT);
            let gate = changing_gate(backend, policies);
            let found = changed(&gate, sql).await;
            assert_eq!(found, *expected, "{sql}");
            assert_eq!(unseen(), before, "{sql}");
            let seen = "SELECT * FROM things WHERE tenant = 1 ORDER BY id";
            let logs = "SELECT * FROM logs ORDER BY 1, 2, 3";
            left.push([seen, logs].map(|sql| database.query(sql)));
        }
        assert_eq!(left.first(), left.last(), "{sql}");
    }
}
