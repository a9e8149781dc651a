//! The guard of a change: nothing of the statement's own fails on a row of the target that a filter hides, beside other tables
//! too, and what cannot fail still finds its rows by an index.

use palisade::{
    firewall::Decision,
    guard::Guard,
    policy::PolicySources,
    session::{Principal, Session},
    value::Params,
};
use palisade_testkit::{fixture::policy_sources, live::changing_gate};

use crate::database::{TestDatabase, TestFile};

/// Rows of tenant 2 are not seen; of the others, those with 9 in `done` stay as they are.
const POLICIES: &str = r#"
permit(principal, action, resource) unless { action == Action::"see" };
permit(principal, action == Action::"see", resource) unless { resource is row::SCHEMA::tasks };
permit(principal, action == Action::"see", resource is row::SCHEMA::tasks) when { SHOWN };
forbid(principal, action == Action::"change", resource is row::SCHEMA::tasks) when { resource.done == 9 };
"#;

const TABLES: &str = "
CREATE TABLE tasks (id integer PRIMARY KEY, tenant integer NOT NULL, secret integer, name varchar(40), n bigint, done integer NOT NULL);
CREATE INDEX tasks_name ON tasks (name);
CREATE INDEX tasks_n ON tasks (n);
CREATE INDEX tasks_secret ON tasks (secret);
CREATE TABLE people (id integer PRIMARY KEY, name varchar(40), x integer);
CREATE TABLE notes (id integer PRIMARY KEY, name varchar(40), x integer);
INSERT INTO people VALUES (1, '1', 1), (2, '2', 2), (3, '3', 3), (4, '4', 0), (7, '7', 0);
INSERT INTO notes VALUES (1, '1', 1), (2, '2', 2), (3, '3', 3);
";

const SEEN: &str = "INSERT INTO tasks VALUES (1, 1, 5, '1', 1, 0), (2, 1, 6, '2', 2, 0);";

/// Rows that only the filter hides, and on which nothing fails.
const HARMLESS: &str =
    "INSERT INTO tasks VALUES (3, 2, 17, '3', 3, 0), (4, 2, 18, '4', 4, 0), (5, 1, 19, '5', 5, 9);";

/// The same for what statements may see, and everything fails on the others.
const HARMFUL: &str = "INSERT INTO tasks VALUES (3, 2, 7, 'bad', 9223372036854775807, 0), \
    (4, 2, 8, 'bad', 9223372036854775807, 0), (5, 1, 19, '5', 5, 9);";

const CLEAR: &str = "DELETE FROM tasks;";

/// What SQLite and MariaDB could put into other conditions.
const EQUAL: &str = "resource.tenant == 1";

/// What PostgreSQL would rather try after a condition that costs less.
const COSTLY: &str = "resource.tenant == 1 || resource.tenant == 11 || resource.tenant == 12";

fn policies(schema: &str, shown: &str) -> PolicySources {
    policy_sources(POLICIES.replace("SHOWN", shown).replace("SCHEMA", schema))
}

/// A database in which a text runs by itself, and gives its rows as text.
trait Bare {
    fn bare(&self, sql: &str) -> Result<String, String>;
}

impl Bare for TestFile {
    fn bare(&self, sql: &str) -> Result<String, String> {
        let conn = self.open_bare();
        if !sql.starts_with("SELECT") && !sql.starts_with("EXPLAIN") {
            return conn
                .execute_batch(sql)
                .map(|()| String::new())
                .map_err(|error| error.to_string());
        }
        let mut statement = conn.prepare(sql).map_err(|error| error.to_string())?;
        let width = statement.column_count();
        let rows = statement
            .query_map([], |row| {
                (0..width)
                    .map(|index| row.get::<_, rusqlite::types::Value>(index))
                    .collect::<Result<Vec<_>, _>>()
            })
            .and_then(Iterator::collect::<Result<Vec<_>, _>>);
        rows.map(|rows| format!("{rows:?}"))
            .map_err(|error| error.to_string())
    }
}

impl Bare for TestDatabase<'_> {
    fn bare(&self, sql: &str) -> Result<String, String> {
        self.try_query(sql).map_err(|error| error.to_string())
    }
}

/// What is told of a statement, and the rows that may be seen after it.
async fn told(gate: &Guard, database: &dyn Bare, sql: &str) -> String {
    let session = Session::new(Principal::new("Agent", "a"));
    let answer = match gate
        .execute(sql, &Params::None, &session)
        .await
        .into_result()
    {
        Ok(rows) => format!("{:?} rows", rows.affected_rows()),
        Err(refusal) => format!(
            "{} {:?}",
            refusal.rejection,
            refusal.rejection.operator_detail()
        ),
    };
    let seen = "SELECT id, secret, name, n, done FROM tasks WHERE tenant = 1 ORDER BY id";
    let hidden = "SELECT sum(done), count(*) FROM tasks WHERE tenant = 2";
    format!(
        "{answer}\n  {}\n  {}",
        database.bare(seen).unwrap(),
        database.bare(hidden).unwrap()
    )
}

/// For the number of rows of a statement that fails, whichever rows are hidden: what it computes in FROM is computed before rows
/// of the target are chosen.
const FAILS: u64 = u64::MAX;

/// Runs each statement over both kinds of rows: it changes as many as it says, and no hidden row tells.
async fn hold(gate: &Guard, database: &dyn Bare, statements: &[(u64, &str)]) {
    let mut problems = Vec::new();
    for (count, sql) in statements {
        let mut all = Vec::new();
        for rows in [HARMLESS, HARMFUL] {
            database.bare(&format!("{CLEAR}{SEEN}{rows}")).unwrap();
            all.push(told(gate, database, sql).await);
        }
        let expected = match *count {
            FAILS => "database.rejected".to_owned(),
            count => format!("Some({count}) rows\n"),
        };
        if all[0] != all[1] || !all[0].starts_with(&expected) {
            problems.push(format!(
                "{sql}\n {}\n {}\n{}",
                all[0],
                all[1],
                rewritten(gate, sql)
            ));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

fn rewritten(gate: &Guard, sql: &str) -> String {
    let session = Session::new(Principal::new("Agent", "a"));
    match gate.firewall().check(sql, &Params::None, &session) {
        Ok(Decision::Allow(statement)) => {
            let prechecks = palisade::danger::parts(&statement)
                .prechecks
                .iter()
                .map(|precheck| precheck.sql());
            let all: Vec<&str> = prechecks
                .chain([palisade::danger::parts(&statement).sql])
                .collect();
            all.join("\n")
        }
        Ok(Decision::Reject(why)) => why.to_string(),
        Err(error) => error.to_string(),
    }
}

/// That each fails on hidden rows where nothing keeps it from them, and it does not keep from them itself.
fn would_fail(database: &dyn Bare, statements: &[(u64, &str)]) {
    let mut problems = Vec::new();
    for (_, sql) in statements {
        database
            .bare(&format!("{CLEAR}{SEEN}{HARMFUL}"))
            .unwrap_or_else(|error| panic!("{error}"));
        if !sql.contains("tenant = 1") && database.bare(sql).is_ok() {
            problems.push(*sql);
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

const ON_SQLITE: &[(u64, &str)] = &[
    (
        2,
        "UPDATE tasks SET done = 1 FROM json_each(tasks.name) AS j WHERE tasks.id > 0",
    ),
    (2, "UPDATE tasks SET done = 1 WHERE json(name) > '0'"),
    (
        2,
        "UPDATE tasks SET done = 1 WHERE name > '' AND json(name) > '0'",
    ),
    (
        2,
        "UPDATE tasks SET done = 1 WHERE tenant > 0 AND name > '' AND json(name) > '0'",
    ),
    (2, "DELETE FROM tasks WHERE name > '' AND json(name) > '0'"),
    (
        2,
        "UPDATE tasks SET done = 1 FROM people AS p WHERE p.id = tasks.id AND json(tasks.name) > '0'",
    ),
    (
        2,
        "UPDATE tasks SET done = 1 FROM people AS p WHERE tasks.name > '' AND json(tasks.name) = p.name",
    ),
    (
        2,
        "UPDATE tasks SET done = 1 FROM people AS p LEFT JOIN notes AS m ON m.id = p.id \
         WHERE p.id = tasks.id AND tasks.name > '' AND json(tasks.name) = coalesce(m.name, '0')",
    ),
    (
        2,
        "UPDATE tasks SET done = 1 FROM people AS p \
         WHERE p.id = tasks.id AND EXISTS (SELECT 1 FROM notes AS m WHERE json(tasks.name) = m.name)",
    ),
    (
        2,
        "UPDATE tasks SET done = 1 FROM json_each(tasks.name) AS j WHERE j.value > 0 AND tasks.id > 0",
    ),
    (
        2,
        "UPDATE tasks SET name = json(tasks.name) FROM people AS p WHERE p.id = tasks.id",
    ),
    (
        2,
        "UPDATE tasks SET done = abs(p.x) FROM people AS p WHERE p.id = tasks.id AND json(tasks.name) IN (p.name) RETURNING json(tasks.name)",
    ),
];

#[tokio::test]
async fn on_sqlite_no_hidden_row_is_told_of() {
    let database = TestFile::new(TABLES);
    let backend = database.backend();
    let gate = changing_gate(backend, policies("main", EQUAL));
    would_fail(&database, ON_SQLITE);
    hold(&gate, &database, ON_SQLITE).await;
    // Nothing before the condition sees the target there.
    for sql in [
        "UPDATE tasks SET done = 1 FROM people AS p JOIN notes AS m ON m.id = tasks.id",
        "UPDATE tasks SET done = 1 FROM people AS p, json_each(tasks.name) AS j",
    ] {
        let why = database.bare(sql).unwrap_err();
        assert!(why.contains("no such column"), "{why}");
    }
}

const ON_POSTGRES: &[(u64, &str)] = &[
    (
        2,
        "UPDATE tasks SET done = 1 WHERE CAST(CAST(n AS integer) AS boolean)",
    ),
    (
        2,
        "UPDATE tasks SET done = 1 FROM people AS p WHERE p.id = tasks.id AND CAST(CAST(tasks.n AS integer) AS boolean)",
    ),
    (
        2,
        "UPDATE tasks SET done = 1 WHERE 1 / (n - 9223372036854775807) < 5",
    ),
    (
        2,
        "UPDATE tasks SET done = 1 WHERE name > '' AND CAST(name AS integer) > 0",
    ),
    (
        2,
        "DELETE FROM tasks WHERE tenant = 1 AND name > '' AND CAST(name AS integer) > 0",
    ),
    (
        2,
        "UPDATE tasks SET done = 1 FROM people AS p WHERE p.id = tasks.id AND CAST(tasks.name AS integer) > 0",
    ),
    (
        2,
        "UPDATE tasks SET done = 1 FROM people AS p WHERE CAST(tasks.name AS integer) = p.id",
    ),
    (
        2,
        "UPDATE tasks AS t SET done = 1 FROM people AS p LEFT JOIN notes AS m ON m.id = p.id \
         WHERE p.id = t.id AND t.name > '' AND CAST(t.name AS integer) = coalesce(m.id, 0)",
    ),
    (
        2,
        "DELETE FROM tasks AS t USING people AS p, LATERAL (SELECT p.id AS y) AS l \
         WHERE l.y = t.id AND EXISTS (SELECT 1 FROM notes AS m WHERE m.id = CAST(t.name AS integer))",
    ),
    (
        2,
        "UPDATE tasks SET done = CAST(tasks.name AS integer) FROM people AS p WHERE p.id = tasks.id AND tasks.n > 0",
    ),
    (
        2,
        "UPDATE tasks SET done = 1 FROM people AS p WHERE p.id = tasks.id RETURNING CAST(tasks.name AS integer)",
    ),
    (
        2,
        "WITH changed AS (UPDATE tasks SET done = 1 FROM people AS p WHERE CAST(tasks.name AS integer) = p.id RETURNING tasks.id) \
         SELECT count(*) AS c FROM changed",
    ),
];

/// What runs for a row of another table only where some row of the target goes with it.
const ON_POSTGRES_ELSEWHERE: &[(u64, &str)] = &[
    (
        0,
        "UPDATE tasks SET done = 1 FROM people AS p WHERE p.id = tasks.secret AND 1 / p.x + length(tasks.name) > 9",
    ),
    (
        FAILS,
        "UPDATE tasks SET done = 1 FROM people AS p, LATERAL (SELECT 1 / p.x AS y OFFSET 0) AS l \
         WHERE p.id = tasks.secret AND l.y > length(tasks.name)",
    ),
    (
        FAILS,
        "DELETE FROM tasks USING people AS p, LATERAL (SELECT 1 / p.x AS y OFFSET 0) AS l WHERE p.id = tasks.secret",
    ),
];

/// A row that is not seen is none that matches.
#[tokio::test]
async fn on_postgres_no_hidden_row_is_told_of() {
    let database = TestDatabase::postgres("guarded", TABLES);
    let backend = database.postgres_backend().await;
    let gate = changing_gate(backend, policies("public", COSTLY));
    would_fail(&database, ON_POSTGRES);
    hold(&gate, &database, ON_POSTGRES).await;
    would_fail(&database, ON_POSTGRES_ELSEWHERE);
    hold(&gate, &database, ON_POSTGRES_ELSEWHERE).await;
    // Nothing before the condition sees the target there.
    for sql in [
        "UPDATE tasks SET done = 1 FROM people AS p JOIN notes AS m ON m.id = tasks.id",
        "DELETE FROM tasks USING people AS p LEFT JOIN notes AS m ON m.id = tasks.id",
        "UPDATE tasks SET done = 1 FROM LATERAL (SELECT tasks.id AS y) AS l",
        "UPDATE tasks SET done = 1 FROM generate_series(1, tasks.id) AS s",
    ] {
        let why = database.bare(sql).unwrap_err();
        assert!(why.contains("invalid reference"), "{why}");
    }
}

const ON_MARIADB: &[(u64, &str)] = &[
    (
        2,
        "UPDATE tasks SET done = 1 WHERE n + 9223372036854775800 > 0",
    ),
    (
        2,
        "UPDATE tasks SET done = 1 WHERE n > 0 AND n + 9223372036854775800 > 0",
    ),
    (
        1,
        "UPDATE tasks SET done = 1 WHERE n > 0 AND n + 9223372036854775800 > 0 ORDER BY id LIMIT 1",
    ),
    (
        2,
        "DELETE FROM tasks WHERE tenant = 1 AND n > 0 AND n + 9223372036854775800 > 0",
    ),
    (
        2,
        "UPDATE tasks AS t JOIN people AS p ON p.id = t.id SET t.done = 1 WHERE t.n + 9223372036854775800 > 0",
    ),
    (
        2,
        "UPDATE tasks AS t JOIN people AS p ON t.n + 9223372036854775800 > p.x AND p.id = t.id SET t.done = 1",
    ),
    (
        2,
        "UPDATE people AS p JOIN tasks AS t ON t.n + 9223372036854775800 > p.x AND p.id = t.id SET t.done = 1",
    ),
    (
        2,
        "UPDATE tasks AS t LEFT JOIN people AS p ON t.n + 9223372036854775800 > p.x AND p.x > 99 \
         SET t.done = 1 WHERE p.id IS NULL AND t.id > 0",
    ),
    (
        2,
        "UPDATE people AS p LEFT JOIN tasks AS t ON t.n + 9223372036854775800 > p.x AND p.id = t.id \
         SET t.done = 1 WHERE p.id > 0 AND (t.id > 0 OR t.id IS NULL)",
    ),
    (
        2,
        "UPDATE tasks AS t JOIN (SELECT id, x + 0 AS y FROM people) AS p ON p.y = t.n SET t.done = 1 \
         WHERE t.n + 9223372036854775800 > 0",
    ),
    (
        2,
        "UPDATE tasks AS t JOIN (people AS p JOIN notes AS m ON m.id = p.id + 0) ON p.id = t.id SET t.done = 1 \
         WHERE t.n + 9223372036854775800 > 0",
    ),
    (
        2,
        "UPDATE tasks AS t JOIN JSON_TABLE('[1, 2, 3]', '$[*]' COLUMNS (y INT PATH '$')) AS j ON j.y = t.id SET t.done = 1 \
         WHERE t.n + 9223372036854775800 > j.y",
    ),
    (
        2,
        "DELETE t FROM tasks AS t JOIN people AS p ON p.id = t.id WHERE t.n + 9223372036854775800 > p.x",
    ),
    (
        2,
        "DELETE t FROM people AS p JOIN tasks AS t ON p.id = t.id AND t.n + 9223372036854775800 > p.x",
    ),
    (
        2,
        "DELETE t FROM tasks AS t, people AS p JOIN notes AS m ON m.id = p.id + 0 WHERE p.id = t.id AND t.n + 9223372036854775800 > p.x",
    ),
    (
        2,
        "UPDATE tasks AS t JOIN people AS p ON p.id = t.id SET t.done = t.n + 9223372036854775800 > 0",
    ),
];

/// What keeps from hidden rows by itself, with this engine's plans.
const ON_MARIADB_QUIET: &[(u64, &str)] = &[
    (
        2,
        "UPDATE people AS p RIGHT JOIN tasks AS t ON t.n + 9223372036854775800 > p.x AND p.id = t.id SET t.done = 1 WHERE t.id > 0",
    ),
    (
        2,
        "UPDATE tasks AS t JOIN people AS p ON p.id = t.tenant SET t.done = 1 \
         WHERE p.id = 1 AND t.n > 0 AND t.n + 9223372036854775800 > 0",
    ),
];

/// What runs for a row of another table only where some row of the target goes with it: a derived table is made when it is
/// first looked at.
const ON_MARIADB_ELSEWHERE: &[(u64, &str)] = &[
    (
        FAILS,
        "UPDATE tasks AS t JOIN (SELECT exp(1000) AS y FROM people LIMIT 1) AS d SET t.done = 1 \
         WHERE t.secret = 7 AND t.name = d.y",
    ),
    (
        FAILS,
        "UPDATE tasks AS t JOIN (SELECT exp(1000) AS y FROM people LIMIT 1) AS d ON t.name = d.y SET t.done = 1 WHERE t.secret = 7",
    ),
    (
        FAILS,
        "UPDATE people AS p JOIN tasks AS t ON t.secret = p.id JOIN (SELECT exp(1000) AS y FROM people LIMIT 1) AS d \
         ON t.name = d.y SET t.done = 1",
    ),
];

async fn on_mariadb() -> (Guard, TestDatabase<'static>) {
    let database = TestDatabase::mariadb("guarded", TABLES);
    let backend = database.mysql_backend().await;
    let gate = changing_gate(backend, policies(database.name(), EQUAL));
    (gate, database)
}

#[tokio::test]
async fn on_mariadb_no_hidden_row_is_told_of() {
    let (gate, database) = on_mariadb().await;
    for statements in [ON_MARIADB, ON_MARIADB_ELSEWHERE] {
        would_fail(&database, statements);
        hold(&gate, &database, statements).await;
    }
    hold(&gate, &database, ON_MARIADB_QUIET).await;
}

/// Rows enough that a planner would rather not look at all of them.
const MANY: &str = "
WITH RECURSIVE numbers (i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM numbers WHERE i < 900)
SELECT i, i % 2 + 1, i, CONCAT('n', i), i, 0 FROM numbers";

const BY_KEY: &str = "UPDATE tasks SET done = 1 WHERE id = 15 AND lower(name) = 'n15'";
const BY_PARAMETER: &str = "DELETE FROM tasks WHERE n IN (15, 16) AND NOT (secret < 3) AND (lower(name) = 'n15' OR tenant = 7)";

/// How the engine finds the rows of a change as it is rewritten.
fn plan(gate: &Guard, database: &dyn Bare, explain: &str, sql: &str) -> String {
    let text = rewritten(gate, sql);
    database
        .bare(&format!("{explain} {text}"))
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[tokio::test]
async fn on_sqlite_a_guard_keeps_the_index() {
    let database = TestFile::new(TABLES);
    let many = MANY.replace("CONCAT('n', i)", "'n' || i");
    database
        .bare(&format!("INSERT INTO tasks {many}; ANALYZE"))
        .unwrap();
    let backend = database.backend();
    let gate = changing_gate(backend, policies("main", EQUAL));
    for (sql, wanted) in [
        (BY_KEY, "tasks USING INTEGER PRIMARY KEY"),
        (BY_PARAMETER, "tasks USING INDEX tasks_n"),
        (
            "UPDATE tasks SET done = 1 FROM people AS p WHERE p.id = tasks.id AND lower(tasks.name) = p.name",
            "USING INTEGER PRIMARY KEY",
        ),
    ] {
        let plan = plan(&gate, &database, "EXPLAIN QUERY PLAN", sql);
        assert!(plan.contains(wanted), "{sql}: {plan}");
    }
}

#[tokio::test]
async fn on_postgres_a_guard_keeps_the_index() {
    let database = TestDatabase::postgres("indexed", TABLES);
    let backend = database.postgres_backend().await;
    let gate = changing_gate(backend, policies("public", COSTLY));
    let people = MANY.replace("i % 2 + 1, i, CONCAT('n', i), i, 0", "CONCAT('n', i), i");
    database
        .bare(&format!(
            "INSERT INTO tasks {MANY}; INSERT INTO people {people}; ANALYZE"
        ))
        .unwrap();
    for (sql, wanted) in [
        (BY_KEY, "Index Scan using tasks_pkey"),
        (BY_PARAMETER, "tasks_n"),
        (
            "UPDATE tasks SET done = 1 FROM people AS p WHERE p.id = tasks.n AND lower(tasks.name) = p.name",
            "Hash Join",
        ),
        (
            "UPDATE tasks SET done = 1 FROM (VALUES (15, 'n15'), (16, 'n16')) AS v (id, name) \
             WHERE v.id = tasks.id AND lower(tasks.name) = v.name",
            "Index Scan using tasks_pkey",
        ),
    ] {
        let plan = plan(&gate, &database, "EXPLAIN", sql);
        assert!(plan.contains(wanted), "{sql}: {plan}");
    }
}

#[tokio::test]
async fn on_mariadb_a_guard_keeps_the_index() {
    let (gate, database) = on_mariadb().await;
    database
        .bare(&format!("INSERT INTO tasks {MANY}; ANALYZE TABLE tasks"))
        .unwrap();
    for (sql, wanted) in [
        (BY_KEY, "PRIMARY"),
        (BY_PARAMETER, "tasks_n"),
        (
            "UPDATE people AS p JOIN tasks AS t ON t.n = p.id SET t.done = 1 WHERE lower(t.name) = p.name AND t.id > 0",
            "tasks_n",
        ),
    ] {
        let plan = plan(&gate, &database, "EXPLAIN", sql);
        // Beside those that it could use.
        let used = plan.lines().filter(|line| {
            let cells: Vec<&str> = line.split('\t').collect();
            cells.get(5).is_some_and(|key| *key == wanted)
        });
        let count = used.count();
        assert!(count > 0, "{sql}: {plan}");
    }
}
