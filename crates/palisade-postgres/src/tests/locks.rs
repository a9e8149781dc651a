//! Writes and escapes against each lock.

use std::time::{Duration, Instant};

use palisade::{guard::BackendErrorKind as Kind, value::Value};
use palisade_testkit::{ask::Ask as _, rows::Rows};

use super::{ADVISORY_LOCKS, Shop};

/// Statements that are not queries, or that write. No lock needs the account's privileges for these.
const WRITES: &[&str] = &[
    // Several statements.
    "SELECT 1; DELETE FROM app.users",
    "SELECT 1; COMMIT",
    // Not queries: the cursor's lock.
    "DELETE FROM app.users",
    "DELETE FROM app.users RETURNING id",
    "INSERT INTO app.users VALUES (9)",
    "UPDATE app.users SET name = 'x'",
    "MERGE INTO app.users u USING (VALUES (1)) v(i) ON u.id = v.i WHEN MATCHED THEN DELETE",
    "TRUNCATE app.users",
    "CREATE TABLE app.t (a int)",
    "CREATE TEMP TABLE t (a int)",
    "CREATE TABLE t AS SELECT 1",
    "DROP TABLE app.users",
    "ALTER TABLE app.users ADD COLUMN x int",
    "GRANT ALL ON app.users TO PUBLIC",
    "COPY app.users TO STDOUT",
    "COPY app.users TO PROGRAM 'true'",
    "EXPLAIN SELECT 1",
    "EXPLAIN ANALYZE DELETE FROM app.users",
    "SHOW search_path",
    "SET ROLE postgres",
    "RESET ALL",
    "SET TRANSACTION READ WRITE",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT a",
    "CALL app.act()",
    "DO $$ BEGIN DELETE FROM app.users; END $$",
    "PREPARE p AS DELETE FROM app.users",
    "DECLARE other CURSOR FOR SELECT 1",
    "FETCH ALL FROM palisade_answer",
    "CLOSE ALL",
    "LOCK TABLE app.users",
    "VACUUM",
    "LISTEN x",
    "NOTIFY x",
    "DISCARD ALL",
    "REFRESH MATERIALIZED VIEW app.cached",
    // Queries that write.
    "SELECT id INTO app.copied FROM app.users",
    "WITH d AS (DELETE FROM app.users RETURNING id) SELECT id FROM d",
    "WITH d AS (INSERT INTO app.users VALUES (7) RETURNING id) SELECT id FROM d",
    "SELECT id FROM app.users FOR UPDATE",
    "SELECT id FROM app.users FOR SHARE",
    "SELECT app.writes()",
    "SELECT app.makes()",
    "SELECT nextval('app.seq')",
    "SELECT setval('app.seq', 5)",
    "SELECT set_config('transaction_read_only', 'off', true)",
];

#[tokio::test]
async fn writes_are_refused_whoever_asks() {
    let shop = Shop::new("writes").await;
    let superuser = shop.superuser().await;
    let before = shop.ask(
        "TABLE app.users; SELECT last_value, is_called FROM app.seq; SELECT count(*) FROM pg_class",
    );
    for sql in WRITES {
        for shop in [&shop, &superuser] {
            let error = shop.query(sql).fails().await;
            assert_eq!(error.kind, Kind::SecondLock, "{sql}: {error}");
        }
    }
    let after = shop.ask(
        "TABLE app.users; SELECT last_value, is_called FROM app.seq; SELECT count(*) FROM pg_class",
    );
    assert_eq!(after, before);
    // And a query goes through all of these locks.
    let rows = superuser
        .query("SELECT id, name AS n FROM app.users ORDER BY 1")
        .run()
        .await
        .unwrap();
    assert_eq!(rows.names, ["id", "n"]);
    assert_eq!(
        rows.rows,
        [
            [Value::Integer(1), Value::text("ann")],
            [Value::Integer(2), Value::text("bob")]
        ]
    );
}

/// What a read-only transaction lets through, even as a superuser: this is what privileges and the registry
/// of functions are for.
#[tokio::test]
async fn what_only_privileges_stop() {
    let shop = Shop::new("privileges").await;
    let superuser = shop.superuser().await;
    for sql in [
        "SELECT pg_read_file('postgresql.conf', 0, 10)",
        "SELECT count(*) FROM pg_ls_dir('.')",
        "SELECT count(*) FROM pg_authid",
        "SELECT count(*) FROM hr.users",
        "SELECT pg_switch_wal()::text",
        "SELECT set_config('role', 'postgres', true)",
        "SELECT set_config('session_authorization', 'postgres', true)",
    ] {
        let error = shop.query(sql).fails().await;
        assert_eq!(error.kind, Kind::SecondLock, "{sql}: {error}");
        // The comparison: were the account a superuser, nothing would.
        superuser.query(sql).run().await.unwrap();
    }
}

#[tokio::test]
async fn origins_that_were_not_decided_are_refused() {
    let shop = Shop::new("origins").await;
    // As the superuser, so that privileges play no part.
    let shop = shop.superuser().await;
    for sql in [
        "SELECT ssn FROM app.users",
        "SELECT ssn AS name FROM app.users",
        "SELECT * FROM app.users",
        "SELECT x FROM (SELECT ssn AS x FROM app.users) AS s",
        "WITH c AS MATERIALIZED (SELECT ssn AS name FROM app.users) SELECT name FROM c",
        "SELECT u FROM app.users AS u",
        "SELECT ssn FROM app.names",
        "SELECT ssn FROM app.cached",
        "SELECT (u).ssn FROM app.users AS u",
        "SELECT ssn::text FROM app.users",
        "SELECT id, max(ssn) OVER (), ssn FROM app.users GROUP BY id, ssn",
        // Another relation of the same name.
        "SELECT id FROM hr.users",
        // Relations that the catalog has not.
        "SELECT rolname FROM pg_authid",
        "SELECT table_name FROM information_schema.tables",
        "SELECT last_value FROM app.seq",
        // System columns.
        "SELECT ctid FROM app.users",
        "SELECT tableoid FROM app.users",
    ] {
        let error = shop.query(sql).fails().await;
        assert_eq!(error.kind, Kind::SecondLock, "{sql}: {error}");
        assert!(
            !error.detail.contains("1-1") && !error.detail.contains("9-9"),
            "{error}"
        );
    }
    for sql in [
        "SELECT name AS ssn FROM app.users",
        "SELECT n.name FROM app.names AS n JOIN app.cached AS c USING (id)",
        "SELECT x FROM (SELECT name AS x FROM app.users) AS s",
        "SELECT 1 AS ssn",
    ] {
        shop.query(sql).run().await.unwrap();
    }
    // One way only: what is computed has no origin. This lock is no proof.
    shop.query("SELECT lower(ssn) FROM app.users")
        .run()
        .await
        .unwrap();
}

#[tokio::test]
async fn time_is_up_on_the_server() {
    let shop = Shop::new("timeout").await;
    let start = Instant::now();
    let error = shop
        .query("SELECT pg_sleep(20)")
        .within_ms(300)
        .fails()
        .await;
    assert_eq!(error.kind, Kind::Timeout, "{error}");
    assert!(error.detail.starts_with("57014"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(3));
    assert_eq!(shop.busy(), "");
    // Rows that come slowly: each FETCH has its own time, so that only our clock sees it.
    let start = Instant::now();
    let slow = "SELECT pg_sleep(0.004)::text FROM generate_series(1, 5000)";
    let error = shop.query(slow).within_ms(900).fails().await;
    assert_eq!(error.kind, Kind::Timeout, "{error}");
    assert!(
        start.elapsed() < Duration::from_secs(4),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(shop.busy(), "");
    shop.query("SELECT 1").run().await.unwrap();
}

#[tokio::test]
async fn a_statement_that_lifts_the_time_out_is_cancelled() {
    let shop = Shop::new("lifted").await;
    let lifting = "SELECT set_config('statement_timeout', '0', true), set_config('idle_in_transaction_session_timeout', '0', true), pg_sleep(0)
         FROM generate_series(1, 1000) UNION ALL SELECT '', '', pg_sleep(20)";
    let start = Instant::now();
    let error = shop.query(lifting).within_ms(500).fails().await;
    assert_eq!(error.kind, Kind::Timeout, "{error}");
    assert!(error.detail.contains("our clock"), "{error}");
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(shop.busy(), "");
}

#[tokio::test]
async fn a_caller_who_goes_away_cancels() {
    let shop = Shop::new("dropped").await;
    let query = shop.query("SELECT pg_sleep(30)").within_ms(60_000);
    let running = tokio::spawn(async move { query.run().await.map(|_| ()) });
    let wait = |what: bool| {
        let shop = &shop;
        async move {
            let start = Instant::now();
            while shop.busy().contains("FETCH") != what {
                assert!(start.elapsed() < Duration::from_secs(10), "{}", shop.busy());
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    };
    wait(true).await;
    running.abort();
    assert!(running.await.is_err_and(|e| e.is_cancelled()));
    wait(false).await;
    shop.query("SELECT 1").run().await.unwrap();
}

#[tokio::test]
async fn a_locked_table_is_waited_for_a_second() {
    let shop = Shop::new("locked").await;
    let locker = crate::connect(&shop.server.url(&shop.database))
        .await
        .unwrap();
    locker
        .batch_execute("BEGIN; LOCK TABLE app.users IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();
    let start = Instant::now();
    let error = shop.query("SELECT id FROM app.users").fails().await;
    assert_eq!(error.kind, Kind::Locked, "{error}");
    assert!(start.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn errors_have_kinds() {
    let shop = Shop::new("errors").await;
    for (sql, kind) in [
        ("SELECT 1 / 0", Kind::Rejected),
        ("SELECT 'x'::int", Kind::Rejected),
        ("SELECT nosuch FROM app.users", Kind::NameNotFound),
        ("SELEC 1", Kind::Rejected),
        // What the planner cannot do is no incident.
        (
            "SELECT 1 FROM app.users a FULL JOIN app.users b ON a.id < b.id",
            Kind::Rejected,
        ),
        ("SELECT array_fill(1, ARRAY[1000000000])", Kind::Resource),
        (
            "SELECT id FROM app.users, pg_terminate_backend(pg_backend_pid())",
            Kind::Unavailable,
        ),
    ] {
        let error = shop.query(sql).fails().await;
        assert_eq!(error.kind, kind, "{sql}: {error}");
    }
    shop.query("SELECT 1").run().await.unwrap();
}

#[tokio::test]
async fn a_sink_that_has_enough_stops_the_statement() {
    let shop = Shop::new("enough").await;
    // No test sees the end of it: if it ran on, its time would be up.
    let query = shop
        .query("SELECT generate_series(1, 1000000000000), repeat('x', 1000)")
        .up_to(10_000)
        .within_ms(60_000);
    for stop_after in [0, 1, 3000] {
        let mut rows = Rows::until(stop_after);
        query.run_into(&mut rows).await.unwrap();
        assert_eq!(rows.rows.len(), stop_after);
        assert_eq!(shop.busy(), "");
    }
    // Among the last rows, behind which the cleaning is sent: the server has others to send before that.
    let mut rows = Rows::until(1);
    let large = shop.query("SELECT repeat('x', 1000000) FROM generate_series(1, 100)");
    large.up_to(100).run_into(&mut rows).await.unwrap();
    assert_eq!(shop.busy(), "");
    // One session did it all: none had to be thrown away.
    assert_eq!(shop.sessions(), 1);
}

/// Among the last rows, which come with the cleaning.
#[tokio::test]
async fn a_statement_that_fails_in_the_middle_leaves_a_session() {
    let shop = Shop::with("middle", |config| config.connections(1, 1)).await;
    let pid = shop.query("SELECT pg_backend_pid()").cell().await;
    let sql = "SELECT 1 / (n - 700), pg_advisory_lock(n) FROM generate_series(1, 5000) AS n";
    let mut rows = Rows::all();
    let query = shop.query(sql);
    let error = query.run_into(&mut rows).await.unwrap_err();
    assert!(error.detail.starts_with("22012"), "{error}");
    assert_eq!(rows.rows.len(), 128);
    let left = format!("SELECT ({ADVISORY_LOCKS}), pg_backend_pid()");
    let found = shop.query(&left).run().await.unwrap();
    assert_eq!(found.rows, [[Value::Integer(0), pid]]);
}

#[tokio::test]
async fn a_row_that_is_too_large_is_not_read() {
    let shop = Shop::new("large").await;
    let large = |bytes: usize| {
        shop.query(&format!("SELECT repeat('x', {bytes})"))
            .within_ms(20_000)
    };
    let Value::Text(text) = large(60_000_000).cell().await else {
        panic!("no text");
    };
    assert_eq!(text.len(), 60_000_000);
    let error = large(70_000_000).fails().await;
    assert_eq!(error.kind, Kind::Resource, "{error}");
    // The server had more to send; it finds that no client reads it.
    let start = Instant::now();
    while !shop.busy().is_empty() {
        assert!(start.elapsed() < Duration::from_secs(5), "{}", shop.busy());
    }
    shop.query("SELECT 1").run().await.unwrap();
}

/// Each layer of a reading statement alone, on a bare connection of the superuser, in a transaction that can write.
#[tokio::test]
async fn each_layer_alone() {
    let shop = Shop::new("alone").await;
    let client = crate::connect(&shop.server.url(&shop.database))
        .await
        .unwrap();
    let state =
        "TABLE app.users; SELECT last_value, is_called FROM app.seq; SELECT count(*) FROM pg_class";
    let before = shop.ask(state);
    let code = |error: tokio_postgres::Error| error.code().unwrap().code().to_owned();
    // The extended protocol takes one statement.
    for sql in ["SELECT 1; DELETE FROM app.users", "SELECT 1; COMMIT"] {
        let error = client.prepare(sql).await.map(drop).unwrap_err();
        assert_eq!(code(error), "42601", "{sql}");
    }
    // A cursor takes a query, which changes nothing by itself.
    for sql in WRITES {
        if QUERIES_THAT_WRITE.iter().any(|word| sql.contains(word)) {
            continue;
        }
        client.batch_execute("BEGIN READ WRITE").await.unwrap();
        let declare = format!("DECLARE c NO SCROLL CURSOR FOR {sql}");
        let declared = client.execute_typed(&declare, &[]).await;
        let code = declared.map(drop).map_err(code).expect_err(sql);
        assert!(
            ["42601", "0A000", "42P11"].contains(&code.as_str()),
            "{sql}: {code}"
        );
        client.batch_execute("ROLLBACK").await.unwrap();
    }
    // A transaction that only reads, over the protocol that takes anything.
    for sql in WRITES {
        if READ_ONLY_LETS_THROUGH.iter().any(|word| sql.contains(word)) {
            continue;
        }
        client.batch_execute("BEGIN READ ONLY").await.unwrap();
        let code = client
            .batch_execute(sql)
            .await
            .map_err(code)
            .expect_err(sql);
        assert_eq!(code, "25006", "{sql}");
        client.batch_execute("ROLLBACK").await.unwrap();
    }
    assert_eq!(shop.ask(state), before);
    // What is rolled back is undone, whatever the other layers let through.
    client
        .batch_execute("BEGIN; DELETE FROM app.users; SELECT app.writes(); ROLLBACK")
        .await
        .unwrap();
    assert_eq!(
        shop.ask("TABLE app.users"),
        before.lines().take(2).collect::<Vec<_>>().join("\n")
    );
}

/// In [`WRITES`], what is a query by its grammar; the other layers are for these.
const QUERIES_THAT_WRITE: &[&str] = &[
    "FOR UPDATE",
    "FOR SHARE",
    "app.writes()",
    "app.makes()",
    "nextval",
    "setval",
    "set_config",
];

/// In [`WRITES`], what changes no data, or only that of a session.
const READ_ONLY_LETS_THROUGH: &[&str] = &[
    ";",
    "COPY",
    "EXPLAIN SELECT",
    "SHOW",
    "SET ROLE",
    "RESET",
    "SET TRANSACTION",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT",
    "PREPARE",
    "DECLARE",
    "FETCH",
    "CLOSE",
    "LOCK",
    "VACUUM",
    "LISTEN",
    "NOTIFY",
    "DISCARD",
    "set_config",
];
