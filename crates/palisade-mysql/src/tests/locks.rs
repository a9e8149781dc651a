//! Writes and escapes against each lock.

use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable as _;
use palisade::{guard::BackendErrorKind as Kind, value::Value};
use palisade_testkit::{
    ask::Ask as _,
    rows::Rows,
    servers::{MySqlServer, Server},
};

use super::Shop;

/// Statements that write. Both products stop each of them in a read-only session, whoever asks.
const WRITES: &[&str] = &[
    "DELETE FROM users",
    "INSERT INTO users VALUES (9, '', '')",
    "REPLACE INTO users VALUES (9, '', '')",
    "UPDATE users SET name = 'x'",
    "TRUNCATE users",
    "CREATE TABLE made (a int)",
    "CREATE TABLE made AS SELECT 1 AS a",
    "DROP TABLE users",
    "DROP VIEW names",
    "ALTER TABLE users ADD COLUMN x int",
    "CREATE INDEX i ON users (name)",
    "RENAME TABLE users TO others",
    "INSERT INTO loose VALUES (1)",
    "GRANT ALL ON *.* TO PUBLIC",
    "CREATE FUNCTION g() RETURNS int DETERMINISTIC RETURN 1",
    "CALL act()",
    "SELECT writes()",
];

/// What has the form of no query, or of more than one: the protocol and the missing columns.
const NO_QUERIES: &[&str] = &[
    "SELECT 1; DELETE FROM users",
    "SELECT 1; COMMIT",
    "SET SESSION TRANSACTION READ WRITE",
    "SET @a = 1",
    "START TRANSACTION READ WRITE",
    "COMMIT",
    "LOCK TABLES users WRITE",
    "UNLOCK TABLES",
    "USE mysql",
    "PREPARE p FROM 'SELECT 1'",
    "HANDLER users OPEN",
    "FLUSH TABLES",
    "KILL 1",
    "DO SLEEP(0)",
    "LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE users",
    "SELECT 1 INTO @a",
    "SELECT id FROM users INTO OUTFILE '/tmp/palisade-test-out'",
    "SELECT id FROM users WHERE id = 1 INTO DUMPFILE '/tmp/palisade-test-out'",
];

async fn writes(shop: &Shop) {
    let superuser = shop.superuser().await;
    let state = "SELECT * FROM users; SHOW TABLES; SELECT COUNT(*) FROM loose;
                 SELECT COUNT(*) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = DATABASE()";
    let before = shop.ask(state);
    for sql in WRITES.iter().chain(NO_QUERIES) {
        for shop in [shop, &superuser] {
            let error = shop.query(sql).fails().await;
            // Two statements in one text are an error of grammar.
            let kinds = if sql.contains(';') {
                [Kind::Rejected, Kind::Rejected]
            } else {
                [Kind::SecondLock, Kind::SecondLock]
            };
            assert!(kinds.contains(&error.kind), "{sql}: {error}");
        }
    }
    assert_eq!(shop.ask(state), before);
    assert!(!std::path::Path::new("/tmp/palisade-test-out").exists());
    // The session's access mode alone, on the text protocol and with all privileges.
    let url = shop.server.url(&shop.database);
    for sql in WRITES {
        let mut conn = crate::connect(&crate::MysqlConfig::from_url(&url).unwrap())
            .await
            .unwrap();
        match conn.query_drop(*sql).await {
            Err(mysql_async::Error::Server(error)) if error.code == 1792 => {}
            // MariaDB knows the role, MySQL an account of that name.
            Err(mysql_async::Error::Server(error)) if sql.starts_with("GRANT") => {
                assert!([1792, 1064, 1410, 1133].contains(&error.code), "{error}");
            }
            other => panic!("{sql}: {other:?}"),
        }
    }
    // The protocol alone, in a session that may write.
    let mut conn = crate::connect(&crate::MysqlConfig::from_url(&url).unwrap())
        .await
        .unwrap();
    conn.query_drop("SET SESSION TRANSACTION READ WRITE")
        .await
        .unwrap();
    for sql in NO_QUERIES.iter().filter(|sql| sql.contains(';')) {
        match conn.prep(*sql).await.map(drop) {
            Err(mysql_async::Error::Server(error)) => assert_eq!(error.code, 1064, "{sql}"),
            other => panic!("{sql}: {other:?}"),
        }
    }
    // The driver sends no file of ours, whatever the server asks for.
    let load = "LOAD DATA LOCAL INFILE '/etc/hostname' INTO TABLE secrets";
    assert!(conn.query_drop(load).await.is_err());
    assert_eq!(shop.ask(state), before);
    // And a query goes through all of these locks.
    let rows = superuser
        .query("SELECT id, name AS n FROM users ORDER BY 1")
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

#[tokio::test]
async fn writes_are_refused_whoever_asks() {
    writes(&Shop::new("writes").await).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn writes_are_refused_by_mysql_9() {
    let server: &Server = MySqlServer::start_shared().unwrap();
    writes(&Shop::on(server, "writes", |config| config).await).await;
}

/// What gives columns and writes or locks is stopped by the access mode.
#[tokio::test]
async fn writes_that_return_rows() {
    let shop = Shop::new("returning").await;
    let superuser = shop.superuser().await;
    for sql in [
        "INSERT INTO users VALUES (9, '', '') RETURNING id",
        "DELETE FROM users RETURNING id",
        "SELECT writes() AS w",
    ] {
        let error = superuser.query(sql).fails().await;
        assert_eq!(error.kind, Kind::SecondLock, "{sql}: {error}");
    }
    assert_eq!(shop.ask("SELECT COUNT(*) FROM users"), "2");
}

/// What a read-only session lets through: this is what privileges are for.
#[tokio::test]
async fn what_only_privileges_stop() {
    let shop = Shop::new("privileges").await;
    let superuser = shop.superuser().await;
    let file = shop.server.folder().join("log");
    let file = file.display();
    for sql in [
        format!("SELECT COUNT(ssn) + 0 AS n FROM `{}`.users", shop.other),
        "SELECT COUNT(*) AS n FROM mysql.global_priv".to_owned(),
    ] {
        superuser.query(&sql).run().await.unwrap();
        let error = shop.query(&sql).fails().await;
        assert_eq!(error.kind, Kind::SecondLock, "{sql}: {error}");
    }
    let sql = format!("SELECT LOAD_FILE('{file}') IS NULL AS gone");
    assert_eq!(shop.query(&sql).cell().await, Value::Integer(1));
}

async fn origins(shop: &Shop, looks_through: bool) {
    // What the facts of the text do not name is told by no name of its own.
    if !looks_through {
        let error = shop.query("SELECT n.id FROM names AS n").fails().await;
        assert_eq!(error.kind, Kind::SecondLock, "{error}");
    }
    for sql in [
        "SELECT ssn FROM users".to_owned(),
        "SELECT u.ssn AS name FROM users AS u".to_owned(),
        "SELECT ssn FROM names".to_owned(),
        "SELECT ssn FROM secrets".to_owned(),
        "SELECT TABLE_NAME FROM information_schema.TABLES".to_owned(),
    ] {
        let error = shop.query(&sql).calls(&["u"]).fails().await;
        assert_eq!(error.kind, Kind::SecondLock, "{sql}: {error}");
        assert!(error.detail.contains("was not decided"), "{sql}: {error}");
    }
    // A relation that was decided, and a derived table that is called like it.
    shop.query("SELECT users.ssn FROM (SELECT id, NULL AS ssn FROM users) AS users")
        .derives("users")
        .run()
        .await
        .unwrap();
    for (sql, aliases) in [
        (
            "SELECT n.id, n.name, u.id FROM names AS n JOIN users AS u ON u.id = n.id",
            &["n", "u"][..],
        ),
        ("SELECT secrets.id FROM names AS secrets", &["secrets"]),
    ] {
        let rows = shop.query(sql).calls(aliases).run().await;
        assert!(rows.is_ok(), "{sql}: {rows:?}");
    }
    // What is called otherwise in the text is no relation that was not decided; a relation is, by whatever it is read.
    for (sql, name) in [
        (
            "WITH c (x) AS (SELECT DISTINCT id FROM users) SELECT x FROM c",
            "c",
        ),
        ("SELECT d.id FROM (SELECT DISTINCT id FROM users) AS d", "d"),
        ("SELECT d.x FROM (SELECT id AS x FROM users) AS d", "d"),
    ] {
        let rows = shop.query(sql).derives(name).run().await;
        assert!(rows.is_ok(), "{sql}: {rows:?}");
    }
    // By the name of a column of that relation that was not, and of one of another type or of the same; what is called as
    // one that was decided, and is not, is none of these.
    for (sql, is_answered) in [
        (
            "WITH c (ssn) AS (SELECT id FROM users) SELECT ssn FROM c",
            true,
        ),
        (
            "WITH c (ssn) AS (SELECT id FROM users) SELECT ssn AS x FROM c WHERE ssn = 1",
            true,
        ),
        (
            "WITH c (ssn) AS (SELECT name FROM users) SELECT ssn AS x FROM c",
            true,
        ),
        (
            "SELECT d.ssn FROM (SELECT name AS ssn FROM users) AS d",
            true,
        ),
        (
            "SELECT ssn, n FROM (SELECT ssn, name AS n FROM users) AS d",
            !looks_through,
        ),
        (
            "SELECT ssn FROM (SELECT ssn FROM users WHERE id = 1) AS d",
            !looks_through,
        ),
        (
            "SELECT ssn, id AS ssn FROM (SELECT ssn, id FROM users) AS d",
            !looks_through,
        ),
    ] {
        let name = if sql.starts_with("WITH ") { "c" } else { "d" };
        let rows = shop.query(sql).derives(name).run().await;
        assert_eq!(rows.is_ok(), is_answered, "{sql}: {rows:?}");
    }
    // As far as the name stays the same.
    let through = shop
        .query("SELECT d.ssn AS x FROM (SELECT ssn FROM users) AS d")
        .derives("d")
        .run()
        .await;
    assert_eq!(through.is_err(), looks_through, "{through:?}");
}

#[tokio::test]
async fn columns_that_were_not_decided() {
    origins(&Shop::new("origins").await, false).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn columns_that_were_not_decided_on_mysql_9() {
    let server: &Server = MySqlServer::start_shared().unwrap();
    origins(&Shop::on(server, "origins", |config| config).await, true).await;
}

#[tokio::test]
async fn the_servers_clock_ends_a_statement() {
    let shop = Shop::with("clock", |config| config.connections(1, 1)).await;
    let id = shop.query("SELECT CONNECTION_ID()").cell().await;
    let start = Instant::now();
    let error = shop.query("SELECT SLEEP(30)").within_ms(300).fails().await;
    assert_eq!(error.kind, Kind::Timeout, "{error}");
    assert!(error.detail.contains("1969"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(shop.busy(), "");
    // The session is as good as before.
    assert_eq!(shop.query("SELECT CONNECTION_ID()").cell().await, id);
}

#[tokio::test]
async fn our_own_clock_ends_a_session() {
    let shop = Shop::with("own", |config| config.connections(1, 1)).await;
    let id = shop.query("SELECT CONNECTION_ID()").cell().await;
    // The statement lifts the server's time-out.
    let sql = "SET STATEMENT max_statement_time = 100 FOR SELECT SLEEP(30) AS s";
    let query = shop.query(sql).within_ms(700);
    let running = tokio::spawn(async move { query.run().await.map(|_| ()) });
    tokio::time::sleep(Duration::from_millis(450)).await;
    assert!(shop.busy().contains("SLEEP(30)"), "{}", shop.busy());
    let error = running.await.unwrap().unwrap_err();
    assert_eq!(error.kind, Kind::Timeout, "{error}");
    assert!(error.detail.contains("our clock"), "{error}");
    assert_eq!(shop.busy(), "");
    assert_ne!(shop.query("SELECT CONNECTION_ID()").cell().await, id);
}

#[tokio::test]
async fn a_caller_who_goes_away_ends_the_statement() {
    let shop = Shop::with("gone", |config| config.connections(1, 1)).await;
    let query = shop.query("SELECT SLEEP(30)").within_ms(60_000);
    let running = query.run();
    assert!(
        tokio::time::timeout(Duration::from_millis(400), running)
            .await
            .is_err()
    );
    let start = Instant::now();
    while shop.busy().contains("SLEEP") {
        assert!(start.elapsed() < Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    shop.query("SELECT 1").run().await.unwrap();
}

#[tokio::test]
async fn rows_that_nobody_wants_are_not_sent() {
    let shop = Shop::with("overrun", |config| config.connections(1, 1)).await;
    // No test sees the end of it: if it ran on, its time would be up.
    let sql = "SELECT seq + 0 AS n, REPEAT('x', 1000) AS x FROM seq_1_to_1000000000000";
    for _ in 0..3 {
        let mut rows = Rows::until(10);
        shop.query(sql)
            .within_ms(60_000)
            .run_into(&mut rows)
            .await
            .unwrap();
        assert_eq!(rows.rows.len(), 10);
    }
    shop.query("SELECT 1").run().await.unwrap();
    assert_eq!(shop.busy(), "");
    // Whoever has enough with the last row keeps the session.
    let id = shop.query("SELECT CONNECTION_ID()").cell().await;
    let mut rows = Rows::until(2);
    shop.query("SELECT id FROM users")
        .run_into(&mut rows)
        .await
        .unwrap();
    assert_eq!(shop.query("SELECT CONNECTION_ID()").cell().await, id);
}
