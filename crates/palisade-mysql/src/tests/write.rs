//! Statements that change rows or the schema, and plans: what is decided happens, and nothing else.

use std::time::Duration;

use palisade::{
    catalog::Change,
    guard::BackendErrorKind,
    rewrite::{ChangeFacts, ChangeKind},
    value::Value,
};
use palisade_testkit::{
    ask::{Ask as _, only_what_is_opened_for_writing_is_written as opened},
    rows::Rows,
    servers::{MariaDbServer, MySqlServer, Server},
};

use super::{Kind, Query, Shop};
use crate::{MysqlBackend, MysqlConfig};

const LEDGER: &str = "
    CREATE TABLE p (id int PRIMARY KEY AUTO_INCREMENT, k varchar(20) UNIQUE NOT NULL, v int CHECK (v < 100), secret varchar(20));
    CREATE TABLE c (pk varchar(20), FOREIGN KEY (pk) REFERENCES p (k) ON DELETE CASCADE ON UPDATE CASCADE);
    CREATE TABLE log (what varchar(20));
    CREATE TABLE armed (a int);
    CREATE TRIGGER notes BEFORE INSERT ON armed FOR EACH ROW INSERT INTO log VALUES ('armed');
    CREATE TRIGGER raises BEFORE DELETE ON armed FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'a secret';
    INSERT INTO p (k, v, secret) VALUES ('a', 1, 'x'), ('b', 2, 'y');
    INSERT INTO c VALUES ('a'), ('b');
";

type Write = (Change, &'static str, &'static str);

const V: Write = (Change::Update, "p", "v");
const P: Write = (Change::Insert, "p", "");

async fn ledger(server: &'static Server, label: &str) -> Shop {
    let mut shop = Shop::on(server, label, |config| config).await;
    let database = &shop.database;
    shop.ask(&format!(
        "{LEDGER} GRANT INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX, TRIGGER ON `{database}`.* TO agent_{database}@'127.0.0.1'"
    ));
    // Privileges on a database come into force with the next session.
    let url = server.url_as(&format!("agent_{database}"), database);
    let config = MysqlConfig::from_url(&url).unwrap().writable();
    shop.backend = MysqlBackend::connect(config).await.unwrap();
    shop
}

fn maria() -> &'static Server {
    MariaDbServer::start_shared().unwrap()
}

fn change(shop: &Shop, sql: &str, writes: &[Write]) -> Query {
    let database = &shop.database;
    let mut query = shop.query(&spell(sql, database));
    query.relations = writes
        .iter()
        .map(|(_, table, _)| format!("{database}.{table}"))
        .collect();
    query.relations.push(format!("{database}.p"));
    query.relations.sort();
    query.relations.dedup();
    query.reads = ["id", "k", "v"]
        .map(|column| ("p".to_owned(), column.to_owned()))
        .into();
    // What the text says as well.
    let (first, table, _) = writes[0];
    let kind = match first {
        Change::Insert if sql.starts_with("REPLACE ") => ChangeKind::Replace,
        Change::Insert => ChangeKind::Insert,
        Change::Update => ChangeKind::Update,
        Change::Delete | Change::Truncate => ChangeKind::Delete,
    };
    query.kind = Kind::Change {
        facts: ChangeFacts {
            meets_rows: kind == ChangeKind::Replace || sql.contains(" ON DUPLICATE KEY "),
            ..shop.facts(kind, table)
        },
        writes: writes
            .iter()
            .map(|(change, table, column)| (*change, (*table).to_owned(), (*column).to_owned()))
            .collect(),
        max_affected: 10,
    };
    query
}

/// `sql` as the firewall prints it: every table with its database, between quotes.
fn spell(sql: &str, database: &str) -> String {
    let mut parts = sql.split("app.");
    let mut spelt = parts.next().unwrap().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_alphanumeric());
        let (table, rest) = part.split_at(end.unwrap_or(part.len()));
        spelt += &format!("`{database}`.`{table}`{rest}");
    }
    spelt
}

async fn counts(query: &Query) -> u64 {
    let rows = query
        .run()
        .await
        .unwrap_or_else(|e| panic!("{}: {e}", query.sql));
    rows.affected.unwrap()
}

const ALL: &str = "SELECT GROUP_CONCAT(id, k, v, secret ORDER BY id) FROM p; SELECT GROUP_CONCAT(pk ORDER BY pk) FROM c; \
    SELECT COUNT(*) FROM log; SELECT COUNT(*) FROM armed; SELECT COUNT(*) FROM loose; SHOW TABLES";

async fn happens(server: &'static Server, is_maria: bool) {
    let shop = ledger(server, "changes").await;
    let insert = change(
        &shop,
        "INSERT INTO app.p (k, v) VALUES (?, ?), ('d', 4)",
        &[P],
    )
    .params([Value::text("c"), Value::Integer(3)]);
    assert_eq!(counts(&insert).await, 2);
    let update = "UPDATE app.p SET v = v + 10 WHERE k >= 'c'";
    assert_eq!(counts(&change(&shop, update, &[V])).await, 2);
    // Whether a row had the value before does not show.
    for _ in 0..2 {
        let same = change(&shop, "UPDATE app.p SET v = 14 WHERE k = 'd'", &[V]);
        assert_eq!(counts(&same).await, 1);
    }
    let none = change(&shop, "UPDATE app.p SET v = 1 WHERE k = 'zz'", &[V]);
    assert_eq!(counts(&none).await, 0);
    let upsert =
        "INSERT INTO app.p (k, v) VALUES (?, 50) ON DUPLICATE KEY UPDATE v = VALUES(v) + 1";
    for key in ["c", "c", "e"] {
        let upsert = change(&shop, upsert, &[P, V]).params([Value::text(key)]);
        assert_eq!(counts(&upsert).await, 1);
    }
    let several = "INSERT INTO app.p (k, v) SELECT k, v FROM app.p AS q ON DUPLICATE KEY UPDATE v = VALUES(v)";
    assert_eq!(counts(&change(&shop, several, &[P, V])).await, 5);
    let cascade = [(Change::Delete, "p", ""), (Change::Delete, "c", "")];
    let text =
        "WITH few AS (SELECT 'b UPDATE x' AS k) DELETE FROM app.p WHERE k IN (SELECT k FROM few)";
    let with = change(&shop, text, &cascade);
    // MariaDB has no WITH there, which is no contradiction.
    match with.run().await {
        Ok(done) => assert_eq!((done.affected, is_maria), (Some(0), false)),
        Err(error) => assert_eq!((error.kind, is_maria), (BackendErrorKind::Rejected, true)),
    }
    let other = text.replace("app.p W", "app.c W").replace("k IN", "pk IN");
    let mut undecided = change(&shop, &other, &cascade[..1]);
    if let Kind::Change { facts, .. } = &mut undecided.kind {
        *facts = shop.facts(ChangeKind::Delete, "c");
    }
    let error = undecided.run().await.unwrap_err();
    assert_eq!(error.kind, BackendErrorKind::SecondLock, "{error}");
    let delete = change(&shop, "DELETE FROM app.p WHERE k IN ('b', 'd')", &cascade);
    assert_eq!(counts(&delete).await, 2);
    let armed = [(Change::Insert, "armed", "")];
    let armed = change(&shop, "INSERT INTO app.armed VALUES (1)", &armed);
    assert_eq!(counts(&armed).await, 1);
    assert_eq!(
        shop.ask(
            "SELECT GROUP_CONCAT(k, v ORDER BY id) FROM p; SELECT GROUP_CONCAT(pk) FROM c; SELECT COUNT(*) FROM log"
        )
        .lines()
        .collect::<Vec<_>>(),
        ["a1,c51,e50", "a", "1"]
    );
}

#[tokio::test]
async fn only_what_is_opened_for_writing_is_written() {
    let writer = ledger(maria(), "opened").await;
    let url = writer
        .server
        .url_as(&format!("agent_{}", writer.database), &writer.database);
    let config = MysqlConfig::from_url(&url).unwrap();
    let reader = MysqlBackend::connect(config).await.unwrap();
    let statements = [
        "INSERT INTO log (what) VALUES ('x')",
        "CREATE TABLE made (a INTEGER)",
    ];
    let contents = || writer.ask(ALL);
    opened(&reader, &writer.backend, statements, contents).await;
}

#[tokio::test]
async fn what_is_decided_happens_and_is_counted() {
    happens(maria(), true).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn what_is_decided_happens_on_mysql_9() {
    happens(MySqlServer::start_shared().unwrap(), false).await;
}

#[tokio::test]
async fn rows_that_a_change_gives() {
    let shop = ledger(maria(), "returning").await;
    let before = shop.ask(ALL);
    let mut insert = change(
        &shop,
        "INSERT INTO app.p (k, v) VALUES (?, 3), ('d', 4) RETURNING id, k AS name, v + 1 AS more",
        &[P],
    )
    .params([Value::text("c")]);
    for stop_after in [0, 1, 2] {
        let mut rows = Rows::until(stop_after);
        let error = insert.run_into(&mut rows).await.unwrap_err();
        assert_eq!(error.kind, BackendErrorKind::NotTaken);
    }
    if let Kind::Change { max_affected, .. } = &mut insert.kind {
        *max_affected = 1;
    }
    assert_eq!(insert.fails().await.kind, BackendErrorKind::AffectedRows);
    assert_eq!(shop.ask(ALL), before);
    if let Kind::Change { max_affected, .. } = &mut insert.kind {
        *max_affected = 2;
    }
    let rows = insert.run().await.unwrap();
    assert_eq!(
        (rows.affected, rows.names.join(" ")),
        (Some(2), "id name more".to_owned())
    );
    assert_eq!(rows.rows[1][1..], [Value::text("d"), Value::Integer(5)]);
    let hidden = change(
        &shop,
        "DELETE FROM app.p WHERE k = 'd' RETURNING secret",
        &[(Change::Delete, "p", "")],
    );
    assert_eq!(hidden.fails().await.kind, BackendErrorKind::SecondLock);
}

async fn nothing_else(server: &'static Server, is_maria: bool) {
    let shop = ledger(server, "others").await;
    let superuser = shop.superuser().await;
    let before = shop.ask(ALL);
    for sql in [
        "UPDATE app.c SET pk = 'a'",
        "DELETE FROM app.p",
        "DELETE FROM app.c USING app.c JOIN app.p",
        "UPDATE (SELECT 1) x SET v = 1",
        "INSERT INTO app.log VALUES ('x')",
        "SELECT id FROM app.p",
        "SELECT id FROM app.p FOR UPDATE",
        "SELECT 1 INTO OUTFILE '/tmp/palisade-never'",
        "TRUNCATE app.p",
        "CREATE TABLE app.t (a int)",
        "CREATE TABLE app.t SELECT 1",
        "DROP TABLE app.log",
        "EXPLAIN DELETE FROM app.p",
        "SET SESSION TRANSACTION READ WRITE",
        "SET GLOBAL max_connections = 5",
        "SET @a = 1",
        "COMMIT",
        "ROLLBACK",
        "START TRANSACTION",
        "CALL app.act()",
        "DO sleep(1)",
        "LOCK TABLES app.p WRITE",
        "LOAD DATA INFILE '/etc/passwd' INTO TABLE app.log",
        "FLUSH TABLES",
        "GRANT ALL ON app.p TO x",
    ] {
        for shop in [&shop, &superuser] {
            let error = change(shop, sql, &[P]).fails().await;
            assert_eq!(error.kind, BackendErrorKind::SecondLock, "{sql}: {error}");
        }
    }
    for sql in [
        "INSERT INTO app.p (k) VALUES ('z'); DELETE FROM app.p",
        "INSERT INTO app.p (k) VALUES ('z'); COMMIT",
    ] {
        let error = change(&shop, sql, &[P]).fails().await;
        assert_eq!(error.kind, BackendErrorKind::Rejected, "{sql}: {error}");
    }
    // An engine that cannot take anything back.
    let loose = change(
        &shop,
        "INSERT INTO app.loose VALUES (1)",
        &[(Change::Insert, "loose", "")],
    );
    assert_eq!(loose.fails().await.kind, BackendErrorKind::Rejected);
    assert_eq!(shop.ask(ALL), before);
    // What came to be after the decision.
    let update = change(&shop, "UPDATE app.p SET v = v", &[V]);
    for (ddl, back) in [
        (
            "CREATE TRIGGER late AFTER UPDATE ON p FOR EACH ROW INSERT INTO log VALUES ('late')",
            "DROP TRIGGER late",
        ),
        (
            "CREATE TABLE more (pk varchar(20), FOREIGN KEY (pk) REFERENCES p (k) ON UPDATE CASCADE)",
            "DROP TABLE more",
        ),
    ] {
        assert_eq!(counts(&update).await, 2);
        shop.ask(&format!("SET lock_wait_timeout = 5; {ddl}"));
        let error = update.fails().await;
        assert_eq!(error.kind, BackendErrorKind::SchemaChanged, "{ddl}");
        shop.ask(&format!("SET lock_wait_timeout = 5; {back}"));
    }
    assert_eq!(counts(&update).await, 2);
    // A foreign key that came to be is a matter of what it could refer to.
    shop.ask("CREATE TABLE more (pk varchar(20), FOREIGN KEY (pk) REFERENCES p (k) ON UPDATE CASCADE ON DELETE CASCADE)");
    let insert = change(&shop, "INSERT INTO app.p (k) VALUES ('q')", &[P]);
    let told = change(
        &shop,
        "UPDATE app.p SET secret = 'z'",
        &[(Change::Update, "p", "secret")],
    );
    assert_eq!(counts(&insert).await, 1);
    match told.run().await {
        Ok(rows) => assert!(is_maria && rows.affected == Some(3), "{rows:?}"),
        // This server tells of foreign keys for little.
        Err(error) => assert!(!is_maria && error.kind == BackendErrorKind::SchemaChanged),
    }
    for (sql, write) in [
        (
            "UPDATE app.p SET k = 'r' WHERE k = 'q'",
            (Change::Update, "p", "k"),
        ),
        ("DELETE FROM app.p WHERE k = 'q'", (Change::Delete, "p", "")),
        ("REPLACE INTO app.p (k) VALUES ('q')", P),
    ] {
        let writes = [write, (Change::Delete, "p", "")];
        let writes = if sql.starts_with("REPLACE") {
            &writes[..]
        } else {
            &writes[..1]
        };
        let error = change(&shop, sql, writes).fails().await;
        assert_eq!(
            error.kind,
            BackendErrorKind::SchemaChanged,
            "{sql}: {error}"
        );
    }
}

#[tokio::test]
async fn nothing_else_happens() {
    nothing_else(maria(), true).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn nothing_else_happens_on_mysql_9() {
    nothing_else(MySqlServer::start_shared().unwrap(), false).await;
}

async fn refused_ones(server: &'static Server) {
    let shop = ledger(server, "constraints").await;
    let before = shop.ask(ALL);
    let c = (Change::Insert, "c", "");
    for (sql, write) in [
        ("INSERT INTO app.p (k) VALUES ('z'), ('a')", P),
        ("INSERT INTO app.p (v) VALUES (50)", P),
        ("INSERT INTO app.p (k) VALUES (NULL)", P),
        ("UPDATE app.p SET v = v + 99", V),
        ("INSERT INTO app.c VALUES ('nosuch')", c),
    ] {
        let error = change(&shop, sql, &[write]).fails().await;
        assert_eq!(error.kind, BackendErrorKind::Constraint, "{sql}: {error}");
    }
    let mut update = change(&shop, "UPDATE app.p SET v = 50", &[V]);
    if let Kind::Change { max_affected, .. } = &mut update.kind {
        *max_affected = 1;
    }
    assert_eq!(update.fails().await.kind, BackendErrorKind::AffectedRows);
    assert_eq!(shop.ask(ALL), before);
}

#[tokio::test]
async fn constraints_and_too_many_rows_change_nothing() {
    refused_ones(maria()).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn constraints_change_nothing_on_mysql_9() {
    refused_ones(MySqlServer::start_shared().unwrap()).await;
}

async fn time(server: &'static Server) {
    let shop = ledger(server, "time").await;
    let before = shop.ask(ALL);
    let slow = "UPDATE app.p SET v = 50 + sleep(3) WHERE k = 'a'";
    let error = change(&shop, slow, &[V]).within_ms(300).fails().await;
    assert_eq!(error.kind, BackendErrorKind::Timeout);
    // Whoever asked goes away.
    let query = change(&shop, slow, &[V]);
    let dropped = tokio::time::timeout(Duration::from_millis(500), query.run()).await;
    assert!(dropped.is_err());
    for _ in 0..50 {
        if shop.busy().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(shop.busy(), "");
    assert_eq!(shop.ask(ALL), before);
    let again = change(&shop, "UPDATE app.p SET v = 5 WHERE k = 'a'", &[V]);
    assert_eq!(counts(&again).await, 1);
}

#[tokio::test]
async fn time_and_cancellation_leave_nothing() {
    time(maria()).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn time_leaves_nothing_on_mysql_9() {
    time(MySqlServer::start_shared().unwrap()).await;
}

/// The server keeps a definition as it runs it: whoever stops waiting does not know.
#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn a_definition_that_nobody_waited_for_may_be_there_on_mysql_9() {
    let shop = ledger(MySqlServer::start_shared().unwrap(), "unknown").await;
    let (server, database) = (shop.server, shop.database.clone());
    let held =
        std::thread::spawn(move || server.query(&database, "LOCK TABLES log READ; DO sleep(2)"));
    while !shop
        .ask("SELECT info FROM information_schema.processlist")
        .contains("DO sleep")
    {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut drop = change(&shop, "DROP TABLE app.log", &[P]).within_ms(300);
    drop.kind = Kind::Define;
    drop.relations.clear();
    assert_eq!(drop.fails().await.kind, BackendErrorKind::OutcomeUnknown);
    held.join().unwrap().unwrap();
}

async fn plans_and_definitions(server: &'static Server) {
    let shop = ledger(server, "define").await;
    let as_kind = |sql: &str, kind: Kind| {
        let mut query = change(&shop, sql, &[P]);
        query.kind = kind;
        query
    };
    let plan = as_kind(
        "EXPLAIN FORMAT=JSON SELECT k FROM app.p WHERE v = ?",
        Kind::Explain,
    );
    let rows = plan.params([Value::Integer(1)]).run().await.unwrap();
    assert_eq!(
        (rows.names.join(" "), rows.rows.len()),
        ("EXPLAIN".to_owned(), 1)
    );
    for sql in [
        "SELECT id FROM app.p",
        "EXPLAIN SELECT id FROM app.p",
        "DELETE FROM app.p",
    ] {
        let error = as_kind(sql, Kind::Explain).fails().await;
        assert_eq!(error.kind, BackendErrorKind::SecondLock, "{sql}");
    }
    for sql in [
        "CREATE TABLE app.made (a int PRIMARY KEY)",
        "CREATE INDEX made_a ON app.made (a)",
        "ALTER TABLE app.made ADD COLUMN b int",
        "TRUNCATE TABLE app.made",
        "DROP TABLE app.made",
    ] {
        let mut define = as_kind(sql, Kind::Define);
        define.relations.clear();
        define.run().await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
    for sql in [
        "DELETE FROM app.p",
        "SET SESSION TRANSACTION READ WRITE",
        "CREATE USER x",
        "COMMIT",
    ] {
        let error = as_kind(sql, Kind::Define).fails().await;
        assert_eq!(error.kind, BackendErrorKind::SecondLock, "{sql}");
    }
    // The sessions are as read-only as before.
    let error = as_kind("INSERT INTO app.log VALUES ('x')", Kind::Read)
        .fails()
        .await;
    assert_eq!(error.kind, BackendErrorKind::SecondLock);
    let read_only = as_kind(
        "SELECT v FROM (SELECT 1 AS v) AS d WHERE (SELECT @@session.transaction_read_only) = 1",
        Kind::Read,
    );
    if server.url("").starts_with("mysql") && shop.ask("SELECT VERSION()").starts_with('9') {
        assert_eq!(read_only.run().await.unwrap().rows.len(), 1);
    }
}

#[tokio::test]
async fn plans_are_shown_and_definitions_run() {
    plans_and_definitions(maria()).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn plans_and_definitions_on_mysql_9() {
    plans_and_definitions(MySqlServer::start_shared().unwrap()).await;
}
