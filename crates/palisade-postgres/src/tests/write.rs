//! Statements that change rows or the schema, and plans: what is decided happens, and nothing else.

use std::time::Duration;

use palisade::{catalog::Change, guard::BackendErrorKind, value::Value};
use palisade_testkit::ask::{Ask as _, only_what_is_opened_for_writing_is_written as opened};

use super::{Kind, Query, Rows, Shop};
use crate::{PostgresBackend, PostgresConfig};

const LEDGER: &str = "
    CREATE TABLE app.p (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, k text UNIQUE NOT NULL, v int CHECK (v < 100), secret text,
        ok boolean, at timestamptz, pad char(4), j json, EXCLUDE (v WITH =));
    CREATE TABLE app.c (pk text REFERENCES app.p (k) ON DELETE CASCADE ON UPDATE CASCADE, late int REFERENCES app.p DEFERRABLE INITIALLY DEFERRED);
    CREATE TABLE app.log (what text);
    CREATE TABLE app.armed (a int);
    CREATE TABLE app.parts (a int) PARTITION BY LIST (a);
    CREATE TABLE app.parts_1 PARTITION OF app.parts FOR VALUES IN (1);
    CREATE TABLE app.ruled (a int);
    CREATE RULE noted AS ON INSERT TO app.ruled DO ALSO INSERT INTO app.log VALUES ('ruled');
    CREATE FUNCTION app.notes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO app.log VALUES ('armed'); RETURN NEW; END $$;
    CREATE TRIGGER t BEFORE INSERT ON app.armed FOR EACH ROW EXECUTE FUNCTION app.notes();
    CREATE VIEW app.few AS SELECT k, v FROM app.p WHERE v < 10 WITH CHECK OPTION;
    INSERT INTO app.p (k, v, secret, ok, pad, j) VALUES ('a', 1, 'x', true, 'ab', '{\"n\":null}'), ('b', 2, 'y', false, NULL, NULL);
    INSERT INTO app.c VALUES ('a'), ('b'); INSERT INTO app.parts VALUES (1);
";

type Write = (Change, &'static str, &'static str);

const V: Write = (Change::Update, "p", "v");
const P: Write = (Change::Insert, "p", "");

async fn ledger(label: &str) -> Shop {
    let mut shop = Shop::with(label, |config| config.writable()).await;
    let database = &shop.database;
    shop.ask(&format!(
        "{LEDGER} GRANT ALL ON ALL TABLES IN SCHEMA app TO agent_{database}; GRANT CREATE ON SCHEMA app TO agent_{database}"
    ));
    shop.backend = shop.backend.refresh().await.unwrap().unwrap();
    shop
}

fn change(shop: &Shop, sql: &str, writes: &[Write]) -> Query {
    let tables = [
        "p", "c", "log", "armed", "parts", "parts_1", "ruled", "few", "tree",
    ];
    let mut query = shop.query(sql);
    query.relations = writes
        .iter()
        .map(|(_, table, _)| format!("app.{table}"))
        .collect();
    query.relations.push("app.p".to_owned());
    query.reads = tables
        .iter()
        .flat_map(|table| {
            ["id", "k", "v", "a", "ok", "at", "pad", "j"]
                .map(|c| ((*table).to_owned(), c.to_owned()))
        })
        .collect();
    query.kind = Kind::Change {
        writes: writes
            .iter()
            .map(|(change, table, column)| (*change, (*table).to_owned(), (*column).to_owned()))
            .collect(),
        triggers: [].into(),
        max_affected: 10,
    };
    query
}

fn with_trigger(mut query: Query, name: &str) -> Query {
    if let Kind::Change { triggers, .. } = &mut query.kind {
        triggers.insert(name.to_owned());
    }
    query
}

async fn counts(query: &Query) -> u64 {
    let rows = query
        .run()
        .await
        .unwrap_or_else(|e| panic!("{}: {e}", query.sql));
    rows.affected.unwrap()
}

const ALL: &str = "SELECT string_agg(p::text, ';' ORDER BY id) FROM app.p; SELECT string_agg(c::text, ';') FROM app.c; TABLE app.log; \
    SELECT count(*) FROM app.armed; SELECT count(*) FROM app.parts; SELECT count(*) FROM app.ruled; SELECT count(*) FROM pg_class";

#[tokio::test]
async fn what_is_decided_happens_and_is_counted() {
    let shop = ledger("changes").await;
    let insert = change(
        &shop,
        "INSERT INTO app.p (k, v) VALUES ($1, $2), ('d', 4)",
        &[P],
    )
    .params([Value::text("c"), Value::Integer(3)]);
    assert_eq!(counts(&insert).await, 2);
    assert_eq!(
        counts(&change(
            &shop,
            "UPDATE app.p SET v = v + 10 WHERE k >= 'c'",
            &[V]
        ))
        .await,
        2
    );
    assert_eq!(
        counts(&change(
            &shop,
            "UPDATE app.p SET v = 1 WHERE k = 'zz'",
            &[V]
        ))
        .await,
        0
    );
    let upsert = "INSERT INTO app.p AS p (k, v) VALUES ($1, 50), ('e', 5) ON CONFLICT (k) DO UPDATE SET v = excluded.v + p.v \
                  RETURNING k AS \"Key\", v, v AS v";
    let rows = change(&shop, upsert, &[P, V])
        .params([Value::text("c")])
        .run()
        .await
        .unwrap();
    assert_eq!(
        (rows.affected, rows.names.join(" ")),
        (Some(2), "Key v v".to_owned())
    );
    assert_eq!(
        rows.rows[0],
        [Value::text("c"), Value::Integer(63), Value::Integer(63)]
    );
    // As a cursor prints them.
    let columns = "id, ok, at, pad, j, NULL::int4 AS n, 1.50::float8 AS f, ARRAY[true] AS l, '5'::\"char\" AS c";
    let of = |start: &str| format!("{start} {columns}");
    let update = change(
        &shop,
        &of("UPDATE app.p SET v = v, at = '2026-01-01' WHERE k IN ('a', 'b') RETURNING"),
        &[V, (Change::Update, "p", "at")],
    );
    let returned = update.run().await.unwrap();
    let mut select = shop.query(&format!(
        "{} FROM app.p WHERE k IN ('a', 'b')",
        of("SELECT")
    ));
    (select.relations, select.reads) = (update.relations.clone(), update.reads.clone());
    assert_eq!(returned.rows, select.run().await.unwrap().rows);
    assert_eq!(returned.rows.len(), 2);
    assert_eq!(
        counts(&change(
            &shop,
            "DELETE FROM app.p WHERE k = 'd'",
            &[(Change::Delete, "p", "")]
        ))
        .await,
        1
    );
    let merge = "MERGE INTO app.p USING (VALUES ('e', 7), ('f', 8)) n (k, v) ON p.k = n.k \
                 WHEN MATCHED THEN UPDATE SET v = n.v WHEN NOT MATCHED THEN INSERT (k, v) VALUES (n.k, n.v)";
    assert_eq!(counts(&change(&shop, merge, &[P, V])).await, 2);
    assert_eq!(
        counts(&change(
            &shop,
            "UPDATE app.parts SET a = 1",
            &[(Change::Update, "parts", "a")]
        ))
        .await,
        1
    );
    assert_eq!(
        shop.ask("SELECT string_agg(k || v, ' ' ORDER BY id) FROM app.p"),
        "a1 b2 c63 e7 f8"
    );
}

#[tokio::test]
async fn only_what_is_opened_for_writing_is_written() {
    let writer = ledger("opened").await;
    let url = writer
        .server
        .url_as(&format!("agent_{}", writer.database), &writer.database);
    let config = PostgresConfig::from_url(&url).unwrap();
    let reader = PostgresBackend::connect(config).await.unwrap();
    let statements = [
        "INSERT INTO app.log (what) VALUES ('x')",
        "CREATE TABLE app.made (a INTEGER)",
    ];
    let contents = || writer.ask(ALL);
    opened(&reader, &writer.backend, statements, contents).await;
}

#[tokio::test]
async fn foreign_keys_triggers_and_rules_do_what_they_do() {
    let shop = ledger("effects").await;
    let cascade = [(Change::Delete, "p", ""), (Change::Delete, "c", "")];
    assert_eq!(
        counts(&change(&shop, "DELETE FROM app.p WHERE k = 'b'", &cascade)).await,
        1
    );
    assert_eq!(shop.ask("SELECT count(*) FROM app.c"), "1");
    let armed = change(
        &shop,
        "INSERT INTO app.armed VALUES (1)",
        &[(Change::Insert, "armed", "")],
    );
    assert_eq!(counts(&with_trigger(armed, "notes")).await, 1);
    // A trigger's permit is for what it does, and for nothing else.
    let more = "WITH d AS (SELECT 1) INSERT INTO app.log SELECT 'x' FROM d";
    let more = change(&shop, more, &[(Change::Insert, "armed", "")]);
    let error = with_trigger(more, "notes").fails().await;
    assert_eq!(error.kind, BackendErrorKind::SecondLock);
    let ruled = change(
        &shop,
        "INSERT INTO app.ruled VALUES (1)",
        &[(Change::Insert, "ruled", "")],
    );
    assert_eq!(ruled.fails().await.kind, BackendErrorKind::SecondLock);
    assert_eq!(counts(&with_trigger(ruled, "noted")).await, 1);
    assert_eq!(
        shop.ask("SELECT string_agg(what, ' ') FROM app.log"),
        "armed ruled"
    );
}

#[tokio::test]
async fn nothing_else_happens() {
    let shop = ledger("others").await;
    let superuser = shop.superuser().await;
    let before = shop.ask(ALL);
    for sql in [
        "UPDATE app.c SET late = NULL",
        "DELETE FROM app.p",
        "DELETE FROM app.parts_1",
        "INSERT INTO app.p (k) VALUES ('a') ON CONFLICT (k) DO UPDATE SET v = 5",
        "WITH d AS (DELETE FROM app.c RETURNING pk) INSERT INTO app.p (k) SELECT pk FROM d",
        "WITH d AS (DELETE FROM app.log) SELECT 1",
        "MERGE INTO app.c USING (VALUES (1)) n (k) ON true WHEN MATCHED THEN DELETE",
        "INSERT INTO app.p (k) VALUES ('z') RETURNING secret",
        "SELECT id FROM app.p",
        "SELECT id FROM app.p FOR UPDATE",
        "INSERT INTO app.p (k) VALUES ('z'); DELETE FROM app.p",
        "INSERT INTO app.p (k) VALUES ('z'); COMMIT",
        "TRUNCATE app.p",
        "CREATE TABLE app.t (a int)",
        "CREATE TABLE app.t AS SELECT 1",
        "SELECT 1 INTO app.t",
        "DROP TABLE app.log",
        "EXPLAIN ANALYZE DELETE FROM app.p",
        "COPY app.p FROM PROGRAM 'true'",
        "COPY app.p TO STDOUT",
        "SET ROLE postgres",
        "RESET ALL",
        "COMMIT",
        "ROLLBACK",
        "SAVEPOINT a",
        "CALL app.act()",
        "DO $$ BEGIN DELETE FROM app.p; END $$",
        "PREPARE p AS DELETE FROM app.p",
        "DECLARE c CURSOR FOR SELECT 1",
        "LOCK TABLE app.p",
        "REFRESH MATERIALIZED VIEW app.cached",
        "VACUUM",
        "NOTIFY x",
    ] {
        for shop in [&shop, &superuser] {
            let error = change(shop, sql, &[P]).fails().await;
            assert_eq!(error.kind, BackendErrorKind::SecondLock, "{sql}: {error}");
        }
    }
    // One that came to be after the decision.
    let update = change(&shop, "UPDATE app.p SET v = v", &[V]);
    shop.ask("CREATE TRIGGER late AFTER UPDATE ON app.p EXECUTE FUNCTION app.notes()");
    assert_eq!(update.fails().await.kind, BackendErrorKind::SchemaChanged);
    assert_eq!(shop.ask(ALL), before);
    assert_eq!(
        shop.ask("SELECT count(*) FROM pg_locks WHERE relation = 'app.p'::regclass"),
        "0"
    );
}

#[tokio::test]
async fn what_the_account_may_not_it_does_not() {
    let shop = ledger("account").await;
    shop.ask(&format!(
        "REVOKE ALL ON app.log FROM agent_{}",
        shop.database
    ));
    let insert = change(
        &shop,
        "INSERT INTO app.log VALUES ('x')",
        &[(Change::Insert, "log", "")],
    );
    assert_eq!(insert.fails().await.kind, BackendErrorKind::NotGranted);
    // A trigger writes it with the rights of the account.
    let armed = change(
        &shop,
        "INSERT INTO app.armed VALUES (1)",
        &[(Change::Insert, "armed", "")],
    );
    let error = with_trigger(armed, "notes").fails().await;
    assert_eq!(error.kind, BackendErrorKind::NotGranted, "{error}");
    assert!(error.detail.contains("GRANT INSERT ON \"log\""), "{error}");
}

#[tokio::test]
async fn too_many_rows_and_rows_not_taken_change_nothing() {
    let shop = ledger("bounds").await;
    let before = shop.ask(ALL);
    let mut update = change(&shop, "UPDATE app.p SET v = v + 50 RETURNING id", &[V]);
    for stop_after in [0, 1, 2] {
        let mut rows = Rows::until(stop_after);
        let error = update.run_into(&mut rows).await.unwrap_err();
        assert_eq!(error.kind, BackendErrorKind::NotTaken);
    }
    for most in [0, 1] {
        if let Kind::Change { max_affected, .. } = &mut update.kind {
            *max_affected = most;
        }
        assert_eq!(update.fails().await.kind, BackendErrorKind::AffectedRows);
    }
    assert_eq!(shop.ask(ALL), before);
    if let Kind::Change { max_affected, .. } = &mut update.kind {
        *max_affected = 2;
    }
    assert_eq!(counts(&update).await, 2);
}

#[tokio::test]
async fn what_a_change_sets_off_counts_against_its_cap() {
    let shop = ledger("effects").await;
    shop.ask(
        "INSERT INTO app.c SELECT 'b' FROM generate_series(1, 3); \
         CREATE TABLE app.tree (id int PRIMARY KEY, up int REFERENCES app.tree ON DELETE CASCADE); \
         INSERT INTO app.tree SELECT n, nullif(n - 1, 0) FROM generate_series(1, 4) AS n; \
         CREATE TABLE app.deferred (a int); \
         CREATE CONSTRAINT TRIGGER t AFTER INSERT ON app.deferred DEFERRABLE INITIALLY DEFERRED \
             FOR EACH ROW EXECUTE FUNCTION app.notes()",
    );
    shop.ask(&format!(
        "GRANT ALL ON app.tree, app.deferred TO agent_{}",
        shop.database
    ));
    let mut shop = shop;
    shop.backend = shop.backend.refresh().await.unwrap().unwrap();
    let all = format!("{ALL}; SELECT count(*) FROM app.tree; SELECT count(*) FROM app.deferred");
    let before = shop.ask(&all);
    let mut delete = change(
        &shop,
        "DELETE FROM app.p WHERE k = 'b'",
        &[(Change::Delete, "p", ""), (Change::Delete, "c", "")],
    );
    let mut rename = change(
        &shop,
        "UPDATE app.p SET k = 'z' WHERE k = 'b'",
        &[(Change::Update, "p", "k"), (Change::Update, "c", "pk")],
    );
    let mut tree = change(
        &shop,
        "DELETE FROM app.tree WHERE id = 2",
        &[(Change::Delete, "tree", "")],
    );
    let inserted = |table| [(Change::Insert, table, ""), (Change::Insert, "log", "")];
    let mut armed = change(
        &shop,
        "INSERT INTO app.armed VALUES (1)",
        &inserted("armed"),
    );
    let mut deferred = change(
        &shop,
        "INSERT INTO app.deferred VALUES (1)",
        &inserted("deferred"),
    );
    for query in [&mut armed, &mut deferred] {
        *query = with_trigger(query.clone(), "notes");
    }
    let cap = |query: &mut Query, most| {
        if let Kind::Change { max_affected, .. } = &mut query.kind {
            *max_affected = most;
        }
    };
    let all_of_them = [
        (&mut rename, 5),
        (&mut delete, 5),
        (&mut tree, 3),
        (&mut armed, 2),
        (&mut deferred, 2),
    ];
    for (query, rows) in all_of_them {
        cap(query, rows - 1);
        let error = query.fails().await;
        assert_eq!(error.kind, BackendErrorKind::AffectedRows, "{}", query.sql);
        cap(query, rows);
    }
    assert_eq!(shop.ask(&all), before);
    for query in [&delete, &tree, &armed, &deferred] {
        assert_eq!(counts(query).await, 1, "{}", query.sql);
    }
    let kept =
        "SELECT count(*) FROM app.c; SELECT count(*) FROM app.tree; SELECT count(*) FROM app.log";
    assert_eq!(shop.ask(kept), "1\n1\n2");
}

#[tokio::test]
async fn constraints_refuse() {
    let shop = ledger("constraints").await;
    let before = shop.ask(ALL);
    let c = (Change::Insert, "c", "");
    for (sql, write) in [
        ("INSERT INTO app.p (k) VALUES ('z'), ('a')", P),
        ("INSERT INTO app.p (v) VALUES (50)", P),
        ("INSERT INTO app.p (k, v) VALUES ('z', 1)", P),
        ("UPDATE app.p SET v = v + 99", V),
        ("INSERT INTO app.c VALUES ('nosuch')", c),
        // Deferred until the end.
        ("INSERT INTO app.c VALUES ('a', 99)", c),
        (
            "INSERT INTO app.few VALUES ('z', 50)",
            (Change::Insert, "few", ""),
        ),
    ] {
        let mut query = change(&shop, sql, &[write, P]);
        query.relations.push("app.few".to_owned());
        let error = query.fails().await;
        assert_eq!(error.kind, BackendErrorKind::Constraint, "{sql}: {error}");
    }
    assert_eq!(shop.ask(ALL), before);
}

#[tokio::test]
async fn time_and_cancellation_leave_nothing() {
    let shop = ledger("time").await;
    let before = shop.ask(ALL);
    let slow = "UPDATE app.p SET v = 50 + length(pg_sleep(5)::text) WHERE k = 'a'";
    let error = change(&shop, slow, &[V]).within_ms(100).fails().await;
    assert_eq!(error.kind, BackendErrorKind::Timeout);
    // Whoever asked goes away.
    let query = change(&shop, slow, &[V]);
    let dropped = tokio::time::timeout(Duration::from_millis(300), query.run()).await;
    assert!(dropped.is_err());
    for _ in 0..50 {
        if shop.busy().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(shop.busy(), "");
    assert_eq!(shop.ask(ALL), before);
    // Another holds the row.
    let holder = palisade_lock(&shop).await;
    let waits = change(&shop, "UPDATE app.p SET v = 5 WHERE k = 'a'", &[V]);
    assert_eq!(waits.fails().await.kind, BackendErrorKind::Locked);
    drop(holder);
}

/// A session that holds a lock on a row.
async fn palisade_lock(shop: &Shop) -> tokio_postgres::Client {
    let client = crate::connect(&shop.server.url(&shop.database))
        .await
        .unwrap();
    client
        .batch_execute("BEGIN; UPDATE app.p SET v = v WHERE k = 'a'")
        .await
        .unwrap();
    client
}

#[tokio::test]
async fn plans_are_shown_and_nothing_runs() {
    let shop = ledger("plans").await;
    let before = shop.ask(ALL);
    let explain = |sql: &str| {
        let mut query = change(&shop, sql, &[]);
        query.kind = Kind::Explain;
        query
    };
    for format in ["TEXT", "JSON"] {
        let sql = format!(
            "EXPLAIN (FORMAT {format}, COSTS FALSE, VERBOSE FALSE) SELECT k FROM app.p WHERE v = $1"
        );
        let rows = explain(&sql)
            .params([Value::Integer(1)])
            .run()
            .await
            .unwrap();
        assert_eq!(rows.names, ["QUERY PLAN"]);
        let shown: Vec<u8> = (rows.rows.iter().flatten())
            .flat_map(|cell| match cell {
                Value::Text(text) => text.clone(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(String::from_utf8(shown).unwrap().contains("Scan"));
        assert_eq!(rows.affected, None);
    }
    for sql in [
        "EXPLAIN ANALYZE DELETE FROM app.p",
        "EXPLAIN (ANALYZE) INSERT INTO app.p (k) VALUES ('z')",
        "SELECT 1 AS q",
        "DELETE FROM app.p",
        "EXPLAIN SELECT 1; DELETE FROM app.p",
    ] {
        let error = explain(sql).fails().await;
        assert_eq!(error.kind, BackendErrorKind::SecondLock, "{sql}: {error}");
    }
    let late = explain("EXPLAIN SELECT k FROM app.p");
    shop.ask("ALTER TABLE app.p ADD COLUMN more int");
    assert_eq!(late.fails().await.kind, BackendErrorKind::SchemaChanged);
    shop.ask("ALTER TABLE app.p DROP COLUMN more");
    assert_eq!(shop.ask(ALL), before);
}

#[tokio::test]
async fn definitions_are_kept_whole_or_not_at_all() {
    let shop = ledger("define").await;
    let define = |sql: &str| {
        let mut query = change(&shop, sql, &[]);
        query.kind = Kind::Define;
        query.relations.clear();
        query
    };
    define("CREATE TABLE app.made (a int PRIMARY KEY)")
        .run()
        .await
        .unwrap();
    define("CREATE INDEX made_a ON app.made (a)")
        .run()
        .await
        .unwrap();
    assert_eq!(
        shop.ask("SELECT count(*) FROM pg_class WHERE relname LIKE 'made%'"),
        "3"
    );
    for sql in [
        "DROP TABLE app.p",
        "COMMIT",
        "CREATE FUNCTION app.x() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE TABLE app.x (a int); DROP TABLE app.made",
        "SET ROLE postgres",
        "DO $$ BEGIN END $$",
    ] {
        let kind = define(sql).fails().await.kind;
        // What others depend on, and what is not the account's.
        assert_eq!(kind, BackendErrorKind::SecondLock, "{sql}");
    }
    assert_eq!(
        define("CREATE TABLE app.made (a int)").fails().await.kind,
        BackendErrorKind::Rejected
    );
    define("DROP TABLE app.made").run().await.unwrap();
    assert_eq!(
        shop.ask("SELECT count(*) FROM pg_class WHERE relname LIKE 'made%'"),
        "0"
    );
}
