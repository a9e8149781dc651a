//! Which rows an upsert meets, by keys of tables of one's own: what is looked for before is what the engine finds.

use palisade::{
    guard::{Backend, Guard},
    session::{Principal, Session},
    value::Params,
};
use palisade_testkit::{fixture::policy_sources, live::changing_gate};

use crate::database::{TestDatabase, TestFile};

const REFUSED: Result<u64, &str> = Err("write.row-not-admitted");

/// Rows that are changed are of tenant 1 afterwards; those of tenant 9 are not seen.
const POLICIES: &str = r#"
permit(principal, action, resource);
forbid(principal, action == Action::"see", resource is row::SCHEMA::things) when { resource.tenant == 9 };
forbid(principal, action == Action::"add", resource is row::SCHEMA::things) unless { resource.tenant == 1 };
"#;

fn gate<B: Backend>(backend: B, schema: &str, policies: &str) -> Guard {
    let policies = policy_sources(policies.replace("SCHEMA", schema));
    changing_gate(backend, policies)
}

async fn on_sqlite(script: &str, policies: &str, sql: &str) -> Result<u64, &'static str> {
    let file = TestFile::new(script);
    let backend = file.backend();
    changed(&gate(backend, "main", policies), sql).await
}

async fn on_postgres(script: &str, policies: &str, sql: &str) -> Result<u64, &'static str> {
    let database = TestDatabase::postgres("upserts", script);
    let backend = database.postgres_backend().await;
    changed(&gate(backend, "public", policies), sql).await
}

/// How many rows are changed, or the code of the refusal.
async fn changed(gate: &Guard, sql: &str) -> Result<u64, &'static str> {
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

/// A computed key is compared as the column would hold it: a cast's own type is none of the column's.
#[tokio::test]
async fn on_sqlite_a_computed_key_is_what_the_column_makes_of_it() {
    let script = "
        CREATE TABLE things (k TEXT PRIMARY KEY, tenant INTEGER NOT NULL, name TEXT);
        INSERT INTO things VALUES ('Inf', 2, 'a'), ('07', 2, 'b'), ('8', 1, 'c'), ('10', 2, 'd');";
    for (keys, expected) in [
        ("(CAST('9e999' AS REAL), 1, 'x')", REFUSED),
        ("(CAST(7 AS INTEGER), 1, 'x')", Ok(1)),
        ("(7 + 1, 1, 'x')", Ok(1)),
        ("(7 + 1, 1, 'x'), (7 + 3, 1, 'y')", REFUSED),
        ("(x'3130' || '', 1, 'x')", REFUSED),
        ("(x'3130', 1, 'x')", Ok(1)),
    ] {
        let sql = format!(
            "INSERT INTO things (k, tenant, name) VALUES {keys} ON CONFLICT (k) DO UPDATE SET name = 'x'"
        );
        assert_eq!(on_sqlite(script, POLICIES, &sql).await, expected, "{sql}");
    }
}

/// What is given is compared by the column's collation, whatever its own.
#[tokio::test]
async fn on_postgres_a_value_has_the_collation_of_its_column() {
    let script = "
        CREATE TABLE things (k int PRIMARY KEY, tenant int NOT NULL, name text COLLATE \"und-x-icu\");
        CREATE TABLE names (name text COLLATE \"C\");
        INSERT INTO things VALUES (1, 1, 'B'), (2, 2, 'B');
        INSERT INTO names VALUES ('a');";
    for (rows, expected) in [
        ("VALUES (2, 1, 'a' COLLATE \"C\" || '')", REFUSED),
        ("VALUES (2, 1, CAST('a' AS name))", REFUSED),
        ("VALUES (1, 1, CAST('a' AS name))", Ok(1)),
        ("SELECT 2, 1, name FROM names WHERE name <> ''", REFUSED),
        ("SELECT 1, 1, name FROM names WHERE name <> ''", Ok(1)),
    ] {
        let sql = format!(
            "INSERT INTO things (k, tenant, name) {rows} \
             ON CONFLICT (k) DO UPDATE SET name = 'x' WHERE excluded.name < things.name"
        );
        assert_eq!(on_postgres(script, POLICIES, &sql).await, expected, "{sql}");
    }
}

/// A type of an extension may have a collation: what is computed for it is not looked for. That of the database's own has none.
#[tokio::test]
async fn on_postgres_a_type_that_is_not_known_is_given_plainly() {
    let script = "
        CREATE EXTENSION citext;
        CREATE TYPE mood AS ENUM ('sad', 'glad');
        CREATE TABLE things (k citext PRIMARY KEY, tenant int NOT NULL, name mood);
        INSERT INTO things VALUES ('a', 1, 'sad'), ('b', 2, 'sad');";
    for (row, condition, expected) in [
        ("lower('A'), 1, 'sad'", "true", REFUSED),
        ("'A', 1, 'sad'", "true", Ok(1)),
        ("'B', 1, 'sad'", "true", REFUSED),
        (
            "'b', 1, CASE WHEN 1 < 2 THEN CAST('glad' AS mood) END",
            "excluded.name > things.name",
            REFUSED,
        ),
        (
            "'b', 1, CASE WHEN 1 < 2 THEN CAST('sad' AS mood) END",
            "excluded.name > things.name",
            Ok(0),
        ),
    ] {
        let sql = format!(
            "INSERT INTO things (k, tenant, name) VALUES ({row}) \
             ON CONFLICT (k) DO UPDATE SET name = 'glad' WHERE {condition}"
        );
        assert_eq!(on_postgres(script, POLICIES, &sql).await, expected, "{sql}");
    }
}

/// Rows are added that are of tenant 1 or called x, so that what a row was added by may be taken from it.
const EITHER: &str = r#"
permit(principal, action, resource);
forbid(principal, action == Action::"add", resource is row::SCHEMA::things)
unless { resource.tenant == 1 || resource.name == "x" };
"#;

/// SQLite updates a row that the same statement has added: it is not left as it was added where policy would not admit it.
#[tokio::test]
async fn on_sqlite_a_key_that_is_given_twice_is_looked_for() {
    let numbers = "
        CREATE TABLE things (k INTEGER PRIMARY KEY, tenant INTEGER NOT NULL, name TEXT NOT NULL);
        CREATE TABLE keys (k);
        INSERT INTO keys VALUES (7), ('7'), (8);";
    let texts = "
        CREATE TABLE things (k TEXT COLLATE NOCASE PRIMARY KEY, tenant INTEGER NOT NULL, name TEXT NOT NULL);";
    let query = |condition| format!("SELECT k, 2, 'x' FROM keys WHERE {condition}");
    for (script, policies, rows, expected) in [
        (numbers, EITHER, "VALUES (7, 2, 'x'), (7, 2, 'x')", REFUSED),
        (
            numbers,
            EITHER,
            "VALUES (7, 2, 'x'), ('7', 2, 'x')",
            REFUSED,
        ),
        (
            numbers,
            EITHER,
            "VALUES (7, 2, 'x'), (6 + 1, 2, 'x')",
            REFUSED,
        ),
        (numbers, EITHER, "VALUES (7, 2, 'x'), (8, 2, 'x')", Ok(2)),
        (
            numbers,
            EITHER,
            "VALUES (NULL, 2, 'x'), (NULL, 2, 'x')",
            Ok(2),
        ),
        (numbers, EITHER, "VALUES (7, 2, 'x')", Ok(1)),
        (numbers, EITHER, &query("k <> 8"), REFUSED),
        (numbers, EITHER, &query("k <> '7'"), Ok(2)),
        (
            texts,
            EITHER,
            "VALUES ('a', 2, 'x'), ('A', 2, 'x')",
            REFUSED,
        ),
        (texts, EITHER, "VALUES ('a', 2, 'x'), ('b', 2, 'x')", Ok(2)),
        // What is admitted whatever its name is admitted with another.
        (numbers, POLICIES, "VALUES (7, 1, 'p'), (7, 1, 'q')", Ok(2)),
    ] {
        let sql = format!(
            "INSERT INTO things (k, tenant, name) {rows} ON CONFLICT (k) DO UPDATE SET name = 'y'"
        );
        assert_eq!(on_sqlite(script, policies, &sql).await, expected, "{sql}");
    }
}

/// PostgreSQL does not update a row twice.
#[tokio::test]
async fn on_postgres_a_key_that_is_given_twice_is_refused_by_the_server() {
    let script = "CREATE TABLE things (k int PRIMARY KEY, tenant int NOT NULL, name text NOT NULL)";
    for policies in [EITHER, POLICIES] {
        let sql = "INSERT INTO things (k, tenant, name) VALUES (7, 1, 'x'), (7, 1, 'x') \
                   ON CONFLICT (k) DO UPDATE SET name = 'y'";
        let refused = on_postgres(script, policies, sql).await;
        assert_eq!(refused, Err("database.rejected"));
    }
}

/// Rows of tenant 9 are not seen, which takes longer to find out than what a statement asks of them.
const SLOW: &str = r#"
permit(principal, action, resource);
forbid(principal, action == Action::"see", resource is row::SCHEMA::things)
unless {
    resource.tenant == 1 || resource.tenant == 2 || resource.tenant == 3 || resource.tenant == 4 ||
    resource.tenant == 5 || resource.tenant == 6 || resource.tenant == 7 || resource.tenant == 8
};
forbid(principal, action == Action::"add", resource is row::SCHEMA::things) unless { resource.tenant == 1 };
"#;

/// The statement's own condition is not tried on a row that is not seen, where it would fail and tell of the row: not even where
/// the engine tries first what costs it least.
#[tokio::test]
async fn on_postgres_a_condition_is_looked_at_behind_a_fence() {
    let script = "
        CREATE TABLE things (k int PRIMARY KEY, tenant int NOT NULL, name text NOT NULL);
        INSERT INTO things VALUES (1, 1, '5'), (2, 2, '0'), (3, 9, 'hidden');
        ANALYZE things;";
    for (rows, expected) in [
        ("(3, 1, 'x')", Ok(0)),
        ("(1, 1, 'x'), (3, 1, 'x')", Ok(1)),
        ("(1, 1, 'x'), (2, 1, 'x')", Ok(1)),
    ] {
        let sql = format!(
            "INSERT INTO things (k, tenant, name) VALUES {rows} \
             ON CONFLICT (k) DO UPDATE SET name = '7' WHERE CAST(things.name AS int) > 0"
        );
        assert_eq!(on_postgres(script, SLOW, &sql).await, expected, "{sql}");
    }
}

/// Nor where it tries first what an index answers.
#[tokio::test]
async fn on_sqlite_a_condition_is_looked_at_behind_a_fence() {
    let script = "
        CREATE TABLE things (k TEXT PRIMARY KEY, tenant INTEGER NOT NULL, name TEXT NOT NULL);
        INSERT INTO things VALUES ('1', 1, 'a'), ('{hidden', 9, 'b');";
    for (rows, expected) in [
        ("('{hidden', 1, 'x')", Ok(0)),
        ("('1', 1, 'x'), ('{hidden', 1, 'x')", Ok(1)),
    ] {
        let sql = format!(
            "INSERT INTO things (k, tenant, name) VALUES {rows} \
             ON CONFLICT (k) DO UPDATE SET name = 'y' WHERE json(things.k) > '0'"
        );
        assert_eq!(on_sqlite(script, SLOW, &sql).await, expected, "{sql}");
    }
}

/// Of the row that could not be inserted a value is the statement's own, and no masked one is read for it; unless a trigger may
/// have put another in its place.
#[tokio::test]
async fn what_a_statement_gives_is_its_own() {
    const MASKED: &str = r#"
permit(principal, action, resource);
@mask("null")
forbid(principal, action == Action::"read_plain", resource == Column::"SCHEMA.things.cost");
"#;
    let table = "
        CREATE TABLE things (k int PRIMARY KEY, cost int, name text);
        INSERT INTO things VALUES (1, 4711, 'a');";
    let trigger = "
        CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS
            $$BEGIN NEW.cost := (SELECT max(cost) FROM things); RETURN NEW; END$$;
        CREATE TRIGGER fill BEFORE INSERT ON things FOR EACH ROW EXECUTE FUNCTION fill();";
    let own = "INSERT INTO things (k, cost, name) VALUES (1, 5, 'x') \
               ON CONFLICT (k) DO UPDATE SET cost = excluded.cost, name = CAST(excluded.cost AS text) WHERE excluded.cost > 4";
    let changed = [
        on_sqlite(table, MASKED, own).await,
        on_postgres(table, MASKED, own).await,
        on_postgres(&format!("{table}{trigger}"), MASKED, own).await,
    ];
    assert_eq!(changed, [Ok(1), Ok(1), Err("write.masked-column")]);
}
