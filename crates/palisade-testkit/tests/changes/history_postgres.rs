//! History on PostgreSQL: what its triggers see of every way to write, what interrupts it, and what other triggers cannot tell.

use std::sync::Arc;

use palisade::{
    audit::AuditSink,
    change::ChangeStore,
    code::Code,
    guard::{ChangeCall, ChangeProposal, Guard},
    value::Params,
};
use palisade_state::{ApprovalOptions, ApprovalStore};
use palisade_testkit::{fixture::policy_sources, host::Ticking, live::recording_gate_on};
use serde_json::Value;

use crate::{
    database::TestDatabase,
    history::{Desk, Engine, POLICIES, Records, agent, boss},
    history_account::{ENABLE, server_of},
};

/// A desk with moments, each with what its tables had then.
struct Course {
    desk: Desk,
    tables: &'static [&'static str],
    seen: Vec<Vec<Value>>,
}

impl Course {
    /// A database in which `script` was run, and where these tables have a history. There is one moment.
    async fn begin(script: &str, tables: &'static [&'static str]) -> Self {
        let desk = Desk::without_history(Engine::Postgres).await;
        desk.run(script);
        desk.guard.refresh().await.unwrap();
        desk.order(tables, &ENABLE);
        desk.guard.refresh().await.unwrap();
        let mut course = Self {
            desk,
            tables,
            seen: Vec::new(),
        };
        course.note().await;
        course
    }

    /// The rows of all tables.
    async fn read(&self, as_of: Option<&str>) -> Vec<Value> {
        let mut all = Vec::new();
        for table in self.tables {
            let sql = format!("SELECT * FROM {table} ORDER BY 1, 2");
            let rows = self.desk.ask(&boss(), &sql, as_of).await;
            all.push(rows.map_err(|code| format!("{sql}: {code:?}")).unwrap());
        }
        all
    }

    /// A moment, which has what the tables have now.
    async fn note(&mut self) {
        let name = self.name(self.seen.len());
        self.desk.snapshot(&name).await;
        let now = self.read(None).await;
        assert_eq!(self.read(Some(&name)).await, now, "{name}");
        self.seen.push(now);
    }

    /// A moment after a script that changes something.
    async fn step(&mut self, script: &str) {
        self.desk.run(script);
        self.note().await;
        let latest = self.seen.len() - 1;
        assert_ne!(self.seen[latest], self.seen[latest - 1], "{script}");
    }

    /// Every moment has what it had.
    async fn check(&self) {
        for (number, rows) in self.seen.iter().enumerate() {
            let name = self.name(number);
            assert_eq!(self.read(Some(&name)).await, *rows, "{name}");
        }
    }

    #[expect(clippy::unused_self, reason = "the names are the course's")]
    fn name(&self, number: usize) -> String {
        format!("s{number}")
    }
}

/// Row triggers of the database's own that write other rows of the same table, or the same row again, while a statement runs.
const NESTED: &str = r#"
CREATE TABLE purses (id integer PRIMARY KEY, line integer, n integer);
CREATE TABLE shelves (id integer, line integer, n integer, PRIMARY KEY (line, id));
INSERT INTO purses SELECT g, 1, g FROM generate_series(1, 9) AS g;
INSERT INTO shelves SELECT g, 1, g FROM generate_series(1, 9) AS g;
CREATE FUNCTION pass_on() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF pg_trigger_depth() > 2 THEN
    NULL;
  ELSIF TG_OP = 'UPDATE' THEN
    EXECUTE format('UPDATE %I SET n = n + 1000 WHERE id = $1', TG_TABLE_NAME) USING NEW.id + 1;
  ELSIF TG_OP = 'INSERT' AND TG_WHEN = 'AFTER' THEN
    EXECUTE format('UPDATE %I SET id = id + 100 WHERE id = $1', TG_TABLE_NAME) USING NEW.id;
  ELSIF TG_OP = 'INSERT' THEN
    EXECUTE format('DELETE FROM %I WHERE id = $1', TG_TABLE_NAME) USING NEW.id;
  ELSIF TG_WHEN = 'AFTER' THEN
    OLD.n := -OLD.n;
    EXECUTE format('INSERT INTO %I SELECT ($1).*', TG_TABLE_NAME) USING OLD;
  ELSE
    EXECUTE format('DELETE FROM %I WHERE id = $1', TG_TABLE_NAME) USING OLD.id + 1;
  END IF;
  RETURN coalesce(NEW, OLD);
END $$;
CREATE TRIGGER "NAME" MOMENT INSERT OR DELETE OR UPDATE OF n ON purses FOR EACH ROW EXECUTE FUNCTION pass_on();
CREATE TRIGGER "NAME" MOMENT INSERT OR DELETE OR UPDATE OF n ON shelves FOR EACH ROW EXECUTE FUNCTION pass_on();
"#;

/// A row that a statement changed may be another one by the end of it, whatever order the triggers have.
#[tokio::test]
async fn rows_that_triggers_write_again_are_read_as_they_were() {
    for (name, when) in [
        ("!early", "AFTER"),
        ("zzz_late", "AFTER"),
        ("!early", "BEFORE"),
        ("zzz_late", "BEFORE"),
    ] {
        let script = NESTED
            .replace("\"NAME\"", &format!("\"{name}\""))
            .replace("MOMENT", when);
        let mut course = Course::begin(&script, &["purses", "shelves"]).await;
        // A row that a trigger before the statement has changed cannot be changed by the statement too.
        let update = match when {
            "AFTER" => "UPDATE TABLE SET n = n + 1 WHERE id IN (1, 2, 3)",
            _ => "UPDATE TABLE SET n = n + 1 WHERE id IN (1, 4)",
        };
        for sql in [
            update,
            "DELETE FROM TABLE WHERE id = 5",
            "INSERT INTO TABLE VALUES (20, 1, 20), (21, 1, 21), (2, 2, 7)",
            "BEGIN; UPDATE TABLE SET n = n + 1 WHERE id = 3; SAVEPOINT s; DELETE FROM TABLE WHERE id = 8; ROLLBACK TO s; \
             UPDATE TABLE SET n = n + 1 WHERE id = 4; COMMIT",
        ] {
            for table in ["purses", "shelves"] {
                // The key of one column has no room for a second line.
                let sql = match table {
                    "purses" => sql.replace(", (2, 2, 7)", ""),
                    _ => sql.to_owned(),
                };
                course.step(&sql.replace("TABLE", table)).await;
            }
        }
        course.check().await;
    }
}

/// A statement trigger that changes all rows works after what set it off.
#[tokio::test]
async fn rows_that_statement_triggers_write_are_read_as_they_were() {
    let script = "
CREATE TABLE purses (id integer PRIMARY KEY, n integer);
INSERT INTO purses SELECT g, g FROM generate_series(1, 5) AS g;
CREATE FUNCTION level() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF pg_trigger_depth() < 2 THEN
    UPDATE purses SET n = n + 10;
    DELETE FROM purses WHERE id = 1;
    INSERT INTO purses VALUES (1, (SELECT sum(n) FROM purses));
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER \"!level\" AFTER INSERT OR UPDATE OR DELETE ON purses EXECUTE FUNCTION level();
CREATE TRIGGER zzz_level BEFORE INSERT ON purses EXECUTE FUNCTION level();
";
    let mut course = Course::begin(script, &["purses"]).await;
    for sql in [
        "UPDATE purses SET n = n * 2 WHERE id < 3",
        "DELETE FROM purses WHERE id = 3",
        "INSERT INTO purses VALUES (3, 3)",
        "UPDATE purses SET n = 0 WHERE false",
    ] {
        course.step(sql).await;
    }
    course.check().await;
}

/// Statements that insert some rows and change others.
#[tokio::test]
async fn upserts_and_merges_are_in_history() {
    let mut course = Course::begin("", &["customers", "pieces"]).await;
    for sql in [
        "INSERT INTO customers VALUES (1, 'b', 'Ann', 'x'), (9, 'a', 'Ida', 'y') ON CONFLICT (id) DO UPDATE SET name = excluded.name",
        "INSERT INTO customers VALUES (1, 'b', 'Eve', 'x'), (10, 'a', 'Gil', 'y') ON CONFLICT DO NOTHING",
        // The row that it meets has another key.
        "INSERT INTO customers VALUES (50, 'b', 'Bob', 'x') ON CONFLICT (name) DO UPDATE SET id = 51, ssn = excluded.ssn",
        "INSERT INTO pieces VALUES (1, 2, 'new'), (7, 7, 'n') ON CONFLICT (order_id, line) DO UPDATE SET what = excluded.what",
        "INSERT INTO pieces VALUES (1, 2, 'no'), (1, 1, 'pin') ON CONFLICT (order_id, line) DO UPDATE SET line = pieces.line + 20 \
         WHERE pieces.what = 'pen'",
        "MERGE INTO pieces AS p USING (VALUES (1, 2), (7, 7), (8, 8)) AS v (o, l) ON p.order_id = v.o AND p.line = v.l \
         WHEN MATCHED AND v.o = 7 THEN DELETE WHEN MATCHED THEN UPDATE SET what = 'merged' \
         WHEN NOT MATCHED THEN INSERT VALUES (v.o, v.l, 'new')",
        "WITH gone AS (DELETE FROM pieces RETURNING *) INSERT INTO pieces SELECT order_id, line + 100, what FROM gone",
    ] {
        course.step(sql).await;
    }
    course.check().await;
}

/// Keys that change, in whatever order the rows of a statement do, and however often in a transaction.
#[tokio::test]
async fn rows_that_take_each_others_keys_are_read_as_they_were() {
    let script = "
CREATE TABLE seats (id integer PRIMARY KEY DEFERRABLE, who text);
CREATE TABLE places (shelf integer, line integer, who text, PRIMARY KEY (shelf, line) DEFERRABLE INITIALLY DEFERRED);
INSERT INTO seats VALUES (1, 'Ada'), (2, 'Bob'), (3, 'Cyd');
INSERT INTO places VALUES (1, 1, 'Ada'), (1, 2, 'Bob'), (1, 3, 'Cyd');
";
    let mut course = Course::begin(script, &["seats", "places", "customers"]).await;
    for sql in [
        "UPDATE seats SET id = 3 - id WHERE id < 3",
        "UPDATE seats SET id = id % 3 + 1",
        "UPDATE seats SET id = id + 1, who = who || '!'",
        // Two rows have one key for a while.
        "BEGIN; SET CONSTRAINTS ALL DEFERRED; UPDATE seats SET id = 3 WHERE id = 2; UPDATE seats SET who = who || '+' WHERE id = 3; \
         UPDATE seats SET id = 2 WHERE who LIKE 'B%'; DELETE FROM seats WHERE id = 4; COMMIT",
        "BEGIN; INSERT INTO places VALUES (1, 1, 'Dan'); UPDATE places SET line = 9 WHERE who = 'Ada'; COMMIT",
        "UPDATE places SET line = 3 - line WHERE line < 3",
        "BEGIN; DELETE FROM places WHERE who = 'Dan'; INSERT INTO places VALUES (1, 9, 'Eve'); SAVEPOINT s; \
         UPDATE places SET shelf = 2; ROLLBACK TO s; DELETE FROM places WHERE who = 'Ada'; COMMIT",
        "UPDATE customers SET id = id + 10 WHERE id = 2",
        "BEGIN; UPDATE customers SET id = 99 WHERE id = 12; UPDATE customers SET id = 2 WHERE id = 99; COMMIT",
        "BEGIN; DELETE FROM customers WHERE id = 2; INSERT INTO customers VALUES (2, 'c', 'Bob', 'z'); COMMIT",
    ] {
        course.step(sql).await;
    }
    course.check().await;
}

/// Rows that are copied in, and those of a copy that fails.
#[tokio::test]
async fn copied_rows_are_in_history() {
    let mut course = Course::begin("", &["customers", "pieces"]).await;
    for sql in [
        "COPY pieces FROM STDIN;\n5\t1\tcap\n5\t2\t\\N\n6\t1\tpin\n\\.\n",
        "BEGIN;\nCOPY customers FROM STDIN;\n7\ta\tGil\t\\N\n9\ta\tIda\t\\N\n\\.\nSAVEPOINT s;\nCOPY customers FROM STDIN;\n8\ta\tHal\t\\N\n\\.\n\
         ROLLBACK TO s;\nUPDATE customers SET tenant = 'c' WHERE id = 7;\nCOMMIT;\n",
    ] {
        course.step(sql).await;
    }
    let twice = "COPY pieces FROM STDIN;\n8\t1\tcap\n5\t1\tcap\n\\.\n";
    let refused = server_of(&course.desk).try_load(twice).unwrap_err();
    assert!(refused.to_string().contains("duplicate key"), "{refused}");
    course.note().await;
    assert_eq!(course.seen[2], course.seen[3]);
    course.check().await;
}

/// What foreign keys do to the rows that refer to others, in several steps.
#[tokio::test]
async fn what_foreign_keys_do_is_in_history() {
    let script = "
CREATE TABLE makers (id integer PRIMARY KEY, name text);
CREATE TABLE models (maker integer REFERENCES makers ON UPDATE CASCADE ON DELETE CASCADE, id integer, PRIMARY KEY (maker, id));
CREATE TABLE parts (id integer PRIMARY KEY, maker integer, model integer, note text DEFAULT 'none',
    FOREIGN KEY (maker, model) REFERENCES models ON UPDATE CASCADE ON DELETE SET NULL);
CREATE TABLE notes (id integer PRIMARY KEY, maker integer DEFAULT 3
    REFERENCES makers ON UPDATE SET DEFAULT ON DELETE SET DEFAULT DEFERRABLE INITIALLY DEFERRED);
INSERT INTO makers VALUES (1, 'a'), (2, 'b'), (3, 'c');
INSERT INTO models VALUES (1, 1), (1, 2), (2, 1), (3, 1);
INSERT INTO parts VALUES (1, 1, 1), (2, 1, 2), (3, 2, 1), (4, NULL, NULL);
INSERT INTO notes VALUES (1, 1), (2, 2), (3, 3);
";
    let tables = &["makers", "models", "parts", "notes", "customers", "orders"];
    let mut course = Course::begin(script, tables).await;
    for sql in [
        "UPDATE makers SET id = id + 10 WHERE id < 3",
        "DELETE FROM makers WHERE id = 11",
        "BEGIN; UPDATE models SET id = 5 WHERE maker = 12; DELETE FROM makers WHERE id = 12; COMMIT",
        "DELETE FROM customers WHERE id = 1",
        "BEGIN; DELETE FROM customers; SAVEPOINT s; INSERT INTO customers VALUES (3, 'a', 'Cyd', 'x'); INSERT INTO orders VALUES (3, 3, 1); \
         ROLLBACK TO s; INSERT INTO customers VALUES (3, 'a', 'Zoe', 'y'); COMMIT",
    ] {
        course.step(sql).await;
    }
    course.check().await;
}

/// Tables that are emptied at once, with those that refer to them, and what is written before and after in the same transaction.
#[tokio::test]
async fn tables_that_are_emptied_are_read_as_they_were() {
    let mut course = Course::begin("", &["customers", "orders", "pieces"]).await;
    for sql in [
        "TRUNCATE pieces",
        "BEGIN; INSERT INTO pieces VALUES (1, 1, 'gone'); TRUNCATE pieces; INSERT INTO pieces VALUES (1, 1, 'here'), (2, 2, 'here'); COMMIT",
        "BEGIN; UPDATE pieces SET what = 'new' WHERE line = 1; SAVEPOINT s; TRUNCATE pieces; ROLLBACK TO s; COMMIT",
        "TRUNCATE customers CASCADE",
        "INSERT INTO customers VALUES (1, 'a', 'Ada', 'x'); INSERT INTO orders VALUES (1, 1, 1)",
    ] {
        course.step(sql).await;
    }
    course
        .desk
        .run("BEGIN; TRUNCATE customers CASCADE; ROLLBACK");
    course.note().await;
    // A transaction that does not see all rows cannot end them all.
    let whole = "BEGIN ISOLATION LEVEL REPEATABLE READ; TRUNCATE orders; COMMIT";
    let refused = server_of(&course.desk).try_load(whole).unwrap_err();
    assert!(
        refused.to_string().contains("needs READ COMMITTED"),
        "{refused}"
    );
    course.note().await;
    course.check().await;
}

/// A table in parts, one of them in parts again, with keys of two columns and of one.
const PARTED: &str = "
CREATE TABLE days (day integer, id integer, n integer, PRIMARY KEY (day, id)) PARTITION BY RANGE (day);
CREATE TABLE days_1 PARTITION OF days FOR VALUES FROM (1) TO (10);
CREATE TABLE days_2 PARTITION OF days FOR VALUES FROM (10) TO (30) PARTITION BY RANGE (day);
CREATE TABLE days_2_a PARTITION OF days_2 FOR VALUES FROM (10) TO (20);
CREATE TABLE days_2_b PARTITION OF days_2 FOR VALUES FROM (20) TO (30);
CREATE TABLE days_rest PARTITION OF days DEFAULT;
CREATE TABLE kinds (id integer PRIMARY KEY, n integer) PARTITION BY LIST (id);
CREATE TABLE kinds_1 PARTITION OF kinds FOR VALUES IN (1, 2, 3);
CREATE TABLE kinds_2 PARTITION OF kinds DEFAULT;
INSERT INTO days VALUES (1, 1, 1), (2, 1, 2), (11, 1, 3), (22, 1, 4), (99, 1, 5);
INSERT INTO kinds VALUES (1, 1), (2, 2), (7, 7);
";

/// Rows that are written through the root and through each part, and those that move.
#[tokio::test]
async fn rows_of_partitions_are_read_as_they_were() {
    let mut course = Course::begin(PARTED, &["days", "kinds"]).await;
    for sql in [
        "INSERT INTO days VALUES (3, 1, 6), (12, 1, 7), (23, 1, 8), (98, 1, 9)",
        "UPDATE days SET n = n + 1",
        "UPDATE days SET day = day + 10, id = id + 5 WHERE day IN (3, 12, 23)",
        "UPDATE days SET day = 5 WHERE day = 99",
        "INSERT INTO days_1 VALUES (6, 1, 60)",
        "UPDATE days_2_b SET n = n + 100",
        "UPDATE days_2 SET day = day + 5 WHERE day < 20",
        "DELETE FROM days_rest",
        "COPY days_2_a FROM STDIN;\n10\t8\t8\n10\t9\t9\n\\.\n",
        "INSERT INTO days VALUES (10, 8, 80), (7, 7, 7) ON CONFLICT (day, id) DO UPDATE SET n = excluded.n",
        "BEGIN; UPDATE days SET day = 25 WHERE day = 1; UPDATE days_2_b SET day = 26 WHERE day = 25; SAVEPOINT s; \
         UPDATE days SET day = 1 WHERE day = 26; ROLLBACK TO s; UPDATE days SET n = -1 WHERE day = 26; COMMIT",
        "TRUNCATE days_1",
        "BEGIN; INSERT INTO days VALUES (10, 10, 10); TRUNCATE days_2_a; INSERT INTO days VALUES (10, 11, 11); COMMIT",
        "TRUNCATE days_2",
        "INSERT INTO days SELECT g, g, g FROM generate_series(1, 40) AS g",
        "TRUNCATE days",
        "INSERT INTO kinds VALUES (3, 3), (9, 9)",
        "UPDATE kinds SET id = id + 20 WHERE id < 3",
        "UPDATE kinds_2 SET n = 0 WHERE id = 9",
        "DELETE FROM kinds_1",
        "TRUNCATE kinds_2",
    ] {
        course.step(sql).await;
    }
    course.check().await;
}

/// Sessions that replay the changes of another server set off no ordinary trigger, and history is kept of them all the same.
#[tokio::test]
async fn sessions_that_replay_are_in_history() {
    let script = format!(
        "{PARTED}
CREATE FUNCTION never() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'it is set off'; END $$;
CREATE TRIGGER never BEFORE INSERT OR UPDATE OR DELETE ON customers EXECUTE FUNCTION never();"
    );
    let mut course = Course::begin(&script, &["customers", "orders", "pieces", "days"]).await;
    for sql in [
        "INSERT INTO customers VALUES (5, 'a', 'Eve', 'x')",
        "UPDATE customers SET name = name || '!', id = id + 100 WHERE id < 3",
        // No foreign key acts.
        "DELETE FROM customers WHERE id = 3",
        "COPY pieces FROM STDIN;\n5\t1\tcap\n\\.\n",
        "UPDATE pieces SET line = line + 10",
        "UPDATE days SET day = day + 10, id = id + 5",
        "INSERT INTO days_1 VALUES (6, 1, 60)",
        "TRUNCATE days_2_b",
        "TRUNCATE orders",
    ] {
        course
            .step(&format!("SET session_replication_role = replica;\n{sql}"))
            .await;
    }
    let refused = server_of(&course.desk).try_load("DELETE FROM customers");
    assert!(refused.unwrap_err().to_string().contains("it is set off"));
    course.check().await;
}

/// Of transactions that wrote or began before a moment, the moments after their commits have what they did, and no other.
#[tokio::test]
async fn what_commits_late_is_not_in_the_moment_on_postgres() {
    for level in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        let mut course = Course::begin("", &["customers", "orders", "pieces"]).await;
        let begin = format!("BEGIN ISOLATION LEVEL {level}");
        let open = async |sql: &str| {
            let client = server_of(&course.desk).postgres_client().await;
            client
                .batch_execute(&format!("{begin}; {sql}"))
                .await
                .unwrap();
            client
        };
        let early = open(
            "UPDATE orders SET total = total + 100 WHERE id = 1; SAVEPOINT s; INSERT INTO orders VALUES (7, 3, 700); \
             ROLLBACK TO s; SAVEPOINT t; UPDATE pieces SET line = 5 WHERE line = 1; RELEASE t",
        )
        .await;
        let undone =
            open("INSERT INTO orders VALUES (8, 3, 800); INSERT INTO pieces VALUES (8, 8, 'gone')")
                .await;
        let begun = open("SELECT count(*) FROM loose").await;
        // What comes after them is seen.
        course
            .step("UPDATE orders SET total = 31 WHERE id = 3")
            .await;
        begun
            .batch_execute("INSERT INTO customers VALUES (6, 'a', 'Fay', 'x'); INSERT INTO orders VALUES (9, 6, 900)")
            .await
            .unwrap();
        course.note().await;
        assert_eq!(course.seen[1], course.seen[2]);
        early.batch_execute("COMMIT").await.unwrap();
        course.note().await;
        assert_ne!(course.seen[2], course.seen[3]);
        undone.batch_execute("ROLLBACK").await.unwrap();
        course.note().await;
        assert_eq!(course.seen[3], course.seen[4]);
        begun.batch_execute("COMMIT").await.unwrap();
        course.note().await;
        assert_ne!(course.seen[4], course.seen[5]);
        course.step("DELETE FROM orders").await;
        course.check().await;
        // Transactions were under way at the moment.
        let (label, _) = course.desk.guard.find_label("s1").unwrap();
        let (_, active) = label.as_text().rsplit_once(':').unwrap();
        assert!(active.split(',').count() >= 2, "{label:?}");
        let told = (course.desk)
            .list_differences(&boss(), "orders", "s2", Some("s4"))
            .await;
        assert_eq!(told, ["id=1 update total: 10 -> 110"], "{level}");
    }
}

/// A change of the history's own triggers.
fn remake(desk: &Desk, table: &str, name: &str) -> String {
    let sql = format!(
        "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = '{table}'::regclass AND tgname = '{name}'"
    );
    let made = server_of(desk).query(&sql);
    assert!(made.starts_with("CREATE TRIGGER"), "{made}");
    format!(
        "DROP TRIGGER {name} ON {table}; {made}; ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}"
    )
}

/// What no trigger sees, and what ends the triggers for a while, ends the history: it is refused, and never told in part.
#[tokio::test]
async fn what_interrupts_a_history_is_found_on_postgres() {
    let course = Course::begin(PARTED, &["orders", "days"]).await;
    let desk = &course.desk;
    let off = |table: &str, name: &str, write: &str| {
        format!(
            "ALTER TABLE {table} DISABLE TRIGGER {name}; {write}; ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}"
        )
    };
    let update = "UPDATE orders SET total = total + 1";
    for (number, (table, change)) in [
        ("orders", off("orders", "zz_palisade_history_update", update)),
        ("orders", format!("BEGIN; {}; COMMIT", off("orders", "zz_palisade_history_update", update))),
        ("orders", off("orders", "zz_palisade_history_truncate", "TRUNCATE orders; INSERT INTO orders VALUES (1, 1, 1)")),
        ("orders", remake(desk, "orders", "zz_palisade_history_insert")),
        ("orders", remake(desk, "orders", "zz_palisade_history_delete")),
        ("orders", format!("ALTER TABLE orders DISABLE TRIGGER USER; {update}; ALTER TABLE orders ENABLE TRIGGER USER")),
        ("orders", "ALTER TABLE orders ENABLE REPLICA TRIGGER zz_palisade_history_delete".to_owned()),
        ("orders", "DROP TRIGGER zz_palisade_history_row ON orders".to_owned()),
        ("days", off("days_2_a", "zz_palisade_history_delete", "DELETE FROM days_2_a")),
        ("days", remake(desk, "days_1", "zz_palisade_history_insert")),
        ("days", "ALTER TABLE days DETACH PARTITION days_1".to_owned()),
        ("days", "INSERT INTO days_1 VALUES (8, 8, 8); ALTER TABLE days ATTACH PARTITION days_1 FOR VALUES FROM (1) TO (10)".to_owned()),
        ("days", "INSERT INTO days VALUES (2, 2, 2); ALTER TABLE days DETACH PARTITION days_1; UPDATE days_1 SET n = 77; \
                  ALTER TABLE days ATTACH PARTITION days_1 FOR VALUES FROM (1) TO (10)".to_owned()),
        ("days", "DROP TABLE days_2_b".to_owned()),
        ("days", "CREATE TABLE days_3 PARTITION OF days FOR VALUES FROM (30) TO (40)".to_owned()),
        ("days", "DROP TABLE days_2".to_owned()),
        ("orders", "CREATE TABLE other (LIKE orders INCLUDING ALL); INSERT INTO other SELECT id, customer, 5 FROM orders; \
                    DROP TABLE orders; ALTER TABLE other RENAME TO orders".to_owned()),
        ("orders", "DROP FUNCTION palisade_history.\"public.orders\"() CASCADE".to_owned()),
    ]
    .into_iter()
    .enumerate()
    {
        is_interrupted_by(desk, number, table, &change).await;
    }
}

/// Values that statements of definition change without a trigger, though the columns look the same afterwards.
#[tokio::test]
async fn values_that_definitions_change_interrupt_a_history() {
    let parted = format!(
        "{PARTED} ALTER TABLE days ADD COLUMN twice integer GENERATED ALWAYS AS (id * 2) STORED;"
    );
    let course = Course::begin(&parted, &["orders", "days"]).await;
    for (number, (table, change)) in [
        ("orders", "ALTER TABLE orders DROP COLUMN total; ALTER TABLE orders ADD COLUMN total integer DEFAULT 7"),
        ("orders", "ALTER TABLE orders ALTER COLUMN total TYPE integer USING total + 1"),
        ("orders", "ALTER TABLE orders ALTER COLUMN total TYPE bigint USING total * 2; ALTER TABLE orders ALTER COLUMN total TYPE integer"),
        ("days", "ALTER TABLE days ALTER COLUMN n TYPE integer USING n + 1"),
        ("days", "ALTER TABLE days DROP COLUMN twice; ALTER TABLE days ADD COLUMN twice integer GENERATED ALWAYS AS (id * 3) STORED"),
    ]
    .into_iter()
    .enumerate()
    {
        is_interrupted_by(&course.desk, number, table, change).await;
    }
}

/// Rows that another table of the family has, or through which they are written, are not in the history. While there is one, it is refused.
#[tokio::test]
async fn a_table_of_a_family_has_no_history() {
    let mut course = Course::begin("", &["orders", "pieces"]).await;
    for (begin, end) in [
        (
            "CREATE TABLE heir (more integer) INHERITS (orders); INSERT INTO heir VALUES (70, 1, 1, 1)",
            "DROP TABLE heir",
        ),
        (
            "CREATE TABLE parent (id integer); ALTER TABLE orders INHERIT parent",
            "ALTER TABLE orders NO INHERIT parent",
        ),
        (
            "CREATE TABLE root (LIKE orders) PARTITION BY LIST (id); ALTER TABLE root ATTACH PARTITION orders DEFAULT",
            "ALTER TABLE root DETACH PARTITION orders",
        ),
    ] {
        course.desk.run(begin);
        course.desk.guard.refresh().await.unwrap();
        let sql = "SELECT count(*) AS n FROM orders";
        let asked = course.desk.ask(&boss(), sql, Some("s0")).await;
        assert_eq!(asked, Err(Code::HistoryTooEarly), "{begin}");
        course.desk.run(end);
        course.desk.guard.refresh().await.unwrap();
        course.step("UPDATE orders SET total = total + 1").await;
    }
    course.check().await;
}

async fn is_interrupted_by(desk: &Desk, number: usize, table: &str, change: &str) {
    let sql = format!("SELECT * FROM {table} ORDER BY 1, 2");
    let ask = async |moment: &str| desk.ask(&boss(), &sql, Some(moment)).await;
    let name = |what: &str| format!("{what}{number}");
    desk.snapshot(&name("before")).await;
    assert!(ask(&name("before")).await.is_ok(), "{change}");
    desk.run(change);
    let refused = Err(Code::HistoryTooEarly);
    let asked = ask(&name("before")).await;
    assert!(
        matches!(
            asked,
            Err(Code::HistoryTooEarly | Code::DatabaseSchemaChanged)
        ),
        "{change}: {asked:?}"
    );
    desk.guard.refresh().await.unwrap();
    assert_eq!(ask(&name("before")).await, refused, "{change}");
    desk.snapshot(&name("between")).await;
    assert_eq!(ask(&name("between")).await, refused, "{change}");
    desk.order(&[table], &ENABLE);
    desk.guard.refresh().await.unwrap();
    let now = desk.ask(&boss(), &sql, None).await.unwrap();
    desk.snapshot(&name("after")).await;
    desk.run(&format!("DELETE FROM {table}"));
    assert_eq!(ask(&name("after")).await.as_ref(), Ok(&now), "{change}");
    for moment in ["before", "between"] {
        assert_eq!(ask(&name(moment)).await, refused, "{change}");
    }
    let again = match table {
        "orders" => "INSERT INTO orders VALUES (1, 1, 10), (2, 1, 20), (3, 3, 30)",
        _ => "INSERT INTO days VALUES (98, 1, 1), (99, 1, 5)",
    };
    desk.run(again);
}

/// What leaves rows and triggers alone interrupts nothing, however much of it there is.
#[tokio::test]
async fn what_leaves_rows_alone_interrupts_no_history() {
    let common = [
        "ANALYZE orders; ANALYZE days",
        "VACUUM FREEZE orders",
        "CREATE INDEX more ON orders (total); CREATE INDEX more_days ON days (n)",
        "REINDEX TABLE orders; REINDEX TABLE days",
        "GRANT SELECT ON orders, days TO PUBLIC; REVOKE SELECT ON days FROM PUBLIC",
        "COMMENT ON COLUMN orders.total IS 'pence'; COMMENT ON TABLE days IS 'all'",
        "ALTER TABLE orders ADD CONSTRAINT enough CHECK (total > -99)",
        "ALTER TABLE orders SET (fillfactor = 70)",
        "ALTER TABLE orders ADD COLUMN short integer DEFAULT 1; ALTER TABLE orders DROP COLUMN short",
        "CREATE TRIGGER mine AFTER UPDATE ON orders EXECUTE FUNCTION suppress_redundant_updates_trigger(); DROP TRIGGER mine ON orders",
        "BEGIN; ALTER TABLE orders DISABLE TRIGGER USER; UPDATE orders SET total = 0; ROLLBACK",
        "BEGIN; ALTER TABLE days DETACH PARTITION days_1; DROP TABLE days_2; ROLLBACK",
        "BEGIN; ALTER TABLE orders ALTER COLUMN total TYPE integer USING 0; ROLLBACK",
        // The rows that say of which transaction a trigger is are written anew, and say the same.
        "VACUUM FULL pg_trigger; VACUUM FREEZE pg_trigger; VACUUM FULL pg_attribute; VACUUM FREEZE pg_attribute",
        "VACUUM FULL palisade_history.\"public.orders\"; REINDEX TABLE palisade_history.\"public.days\"",
    ];
    let files = [
        "VACUUM FULL orders; VACUUM FULL days",
        "CLUSTER orders USING orders_pkey",
        "TRUNCATE days_1",
    ];
    let columns = [
        "GRANT SELECT (total), UPDATE (total) ON orders TO PUBLIC",
        "ALTER TABLE orders ALTER COLUMN total SET DEFAULT 5",
        "ALTER TABLE orders ALTER COLUMN total SET NOT NULL; ALTER TABLE days ALTER COLUMN n SET STATISTICS 50",
    ];
    for own in [files, columns] {
        let mut course = Course::begin(PARTED, &["orders", "days"]).await;
        for change in common.iter().chain(&own) {
            course.desk.run(change);
            course.desk.guard.refresh().await.unwrap();
            course
                .step(
                    "UPDATE orders SET total = total + 1; UPDATE days SET n = n + 1, id = id + 1 WHERE n % 2 = 0; \
                     INSERT INTO days SELECT 4, coalesce(max(id), 0) + 1, 0 FROM days",
                )
                .await;
        }
        course.check().await;
    }
}

/// A trigger that tells all it can of the secrets of a table, as `DONE` says.
const TELLER: &str = "
CREATE TABLE armed (is_so boolean PRIMARY KEY);
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  secret text := (SELECT string_agg(concat(name, ssn), ', ') FROM customers WHERE name <> 'Eve' OR tenant = 'b');
BEGIN
  RAISE NOTICE 'betrayed: %', secret USING DETAIL = secret, HINT = secret;
  RAISE WARNING 'betrayed: %', secret;
  RAISE INFO 'betrayed: %', secret;
  IF EXISTS (SELECT FROM armed) THEN
    DONE
  END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER tell AFTER UPDATE ON customers DEFERRABLE INITIALLY KIND FOR EACH ROW EXECUTE FUNCTION tell();
";

/// Gives all that an agent is given of a change that it proposes, validates and commits, with the code of the refusal if there is one.
/// `between` runs before the commit.
async fn change_as_agent(
    guard: &Guard,
    sql: &str,
    between: impl FnOnce(),
) -> (String, Option<Code>) {
    let session = agent();
    let call = ChangeCall::new(&session);
    let statements = [(sql.to_owned(), Params::None)];
    let proposed = guard
        .propose_change(ChangeProposal::new(&statements), call)
        .await;
    let proposed = proposed.unwrap_or_else(|why| panic!("{why:?}"));
    let mut told = format!("{proposed:?}");
    let id = proposed.change;
    let looked = guard.validate_change(&id, call).await;
    let refusal = match looked {
        Err(refusal) => Some(refusal),
        Ok(looked) => {
            let rows = serde_json::to_string(&looked.preview.unwrap().rows).unwrap();
            told += &format!("{rows} {:?}", looked.view);
            between();
            match guard.commit_change(&id, call).await {
                Ok(view) => {
                    told += &format!("{view:?}");
                    None
                }
                Err(refusal) => Some(refusal),
            }
        }
    };
    if let Some(refusal) = &refusal {
        let rejection = &refusal.rejection;
        let given = serde_json::to_string(&rejection.for_agent()).unwrap();
        told += &format!(
            "{rejection} {given} {:?} {:?}",
            refusal.incident, refusal.fresh
        );
    }
    let listed = guard
        .list_changes(&session)
        .map(|views| format!("{views:?}"));
    told += &listed.unwrap_or_else(|why| panic!("{why:?}"));
    (told, refusal.map(|refusal| refusal.rejection.code()))
}

/// What a trigger of the database says of columns and rows that an agent may not see, it says to no agent.
#[tokio::test]
async fn what_a_trigger_says_is_not_passed_on() {
    let sql = "UPDATE customers SET name = 'Eve' WHERE id = 1";
    for (kind, done, code) in [
        ("IMMEDIATE", "NULL;", None),
        (
            "IMMEDIATE",
            "RAISE EXCEPTION 'betrayed: %', secret USING DETAIL = secret, HINT = secret;",
            Some(Code::DatabaseRejected),
        ),
        (
            "IMMEDIATE",
            "RAISE unique_violation USING MESSAGE = secret, CONSTRAINT = secret, COLUMN = secret, TABLE = secret, SCHEMA = secret;",
            Some(Code::DatabaseConstraint),
        ),
        (
            "IMMEDIATE",
            "RAISE query_canceled USING MESSAGE = secret;",
            Some(Code::LimitTime),
        ),
        (
            "IMMEDIATE",
            "RAISE insufficient_privilege USING MESSAGE = 'permission denied for table ' || secret;",
            Some(Code::Internal),
        ),
        (
            "IMMEDIATE",
            "PERFORM secret::integer;",
            Some(Code::DatabaseRejected),
        ),
        (
            "IMMEDIATE",
            "PERFORM (xpath(secret, '<a/>'))[1];",
            Some(Code::DatabaseRejected),
        ),
        (
            "DEFERRED",
            "RAISE EXCEPTION 'betrayed: %', secret USING DETAIL = secret, HINT = secret;",
            Some(Code::DatabaseRejected),
        ),
    ] {
        let script = TELLER.replace("DONE", done).replace("KIND", kind);
        let desk = Desk::without_history(Engine::Postgres).await;
        desk.run(&script);
        let database: &TestDatabase<'_> = server_of(&desk);
        let records = Arc::<Records>::default();
        let policies = format!(
            "{}permit (principal, action == Action::\"call\", resource == Function::\"public.tell\");",
            POLICIES.replace("SCHEMA", "public")
        );
        let guard = recording_gate_on(
            database.postgres_backend().await,
            policy_sources(policies),
            Ticking::default(),
            Arc::clone(&records) as Arc<dyn AuditSink>,
        );
        let store = Arc::new(ApprovalStore::in_memory(ApprovalOptions::default()).unwrap());
        let guard = guard.with_changes(store as Arc<dyn ChangeStore>);
        let mut all = String::new();
        // As the change is looked at, as it is committed, and by one statement.
        let arm = || desk.run("INSERT INTO armed VALUES (true)");
        let (told, refused) = change_as_agent(&guard, sql, arm).await;
        all += &told;
        assert_eq!(refused, code, "{done}");
        let (told, refused) = change_as_agent(&guard, sql, || ()).await;
        all += &told;
        assert_eq!(refused, code, "{done}");
        let outcome = guard.execute(sql, &Params::None, &agent()).await;
        match outcome.into_result() {
            Ok(envelope) => all += &serde_json::to_string(&envelope).unwrap(),
            Err(refusal) => {
                let rejection = refusal.rejection;
                assert_eq!(Some(rejection.code()), code, "{done}");
                all += &format!(
                    "{rejection} {}",
                    serde_json::to_string(&rejection.for_agent()).unwrap()
                );
            }
        }
        for secret in ["SECRET", "Cyd", "betrayed"] {
            assert!(!all.contains(secret), "{done}: {all}");
        }
        let records: Vec<String> = (records.take().iter())
            .map(|record| serde_json::to_string(record).unwrap())
            .collect();
        let is_told = |record: &&String| record.contains("update customers");
        assert!(records.iter().filter(is_told).count() > 2, "{records:?}");
        // Of other kinds of errors the operator's record has the server's words.
        if matches!(
            code,
            None | Some(Code::DatabaseRejected | Code::DatabaseConstraint)
        ) {
            for secret in ["SECRET", "Cyd"] {
                assert!(!records.concat().contains(secret), "{done}: {records:?}");
            }
        }
    }
}
