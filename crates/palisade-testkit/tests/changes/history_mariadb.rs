//! History on MariaDB: what its labels, its pruning and its accounts have of their own.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use mysql_async::prelude::Queryable as _;
use palisade::{
    code::Code,
    guard::{Backend as _, Request},
    past::{HistoryOrder, KeptLabel, LabelStore},
    value::Params,
};
use palisade_state::{ApprovalOptions, ApprovalStore};
use palisade_testkit::{fixture::policy_sources, live::changing_gate, servers::MariaDbServer};

use crate::{
    database::TestDatabase,
    history::{Desk, Engine, POLICIES, boss},
    history_account::{AccountDesk, ENABLE, server_of, with_store},
};

/// A transaction that commits after a moment is not in it, whatever id it has.
#[tokio::test]
async fn what_commits_late_is_not_in_the_moment() {
    let desk = Desk::new(Engine::Mariadb).await;
    let mut early = server_of(&desk).mysql_client().await;
    let mut late = server_of(&desk).mysql_client().await;
    early.query_drop("BEGIN").await.unwrap();
    let sql = "UPDATE orders SET total = total + 100 WHERE id = 1";
    early.query_drop(sql).await.unwrap();
    late.query_drop("BEGIN").await.unwrap();
    let sql = "INSERT INTO orders VALUES (8, 3, 800)";
    late.query_drop(sql).await.unwrap();
    let sums = async |as_of| {
        let sql = "SELECT sum(total) AS n FROM orders";
        let rows = desk.ask(&boss(), sql, as_of).await.unwrap();
        rows[0]["n"].to_string().replace('"', "")
    };
    desk.snapshot("none").await;
    early.query_drop("COMMIT").await.unwrap();
    desk.snapshot("early").await;
    late.query_drop("ROLLBACK").await.unwrap();
    desk.run("DELETE FROM orders WHERE id = 2");
    desk.snapshot("last").await;
    desk.run("UPDATE orders SET total = 0");
    for (as_of, sum) in [
        (Some("none"), "60"),
        (Some("early"), "160"),
        (Some("last"), "140"),
        (None, "0"),
    ] {
        assert_eq!(sums(as_of).await, sum, "{as_of:?}");
    }
}

/// Whatever writers do at a moment, of each of their transactions a moment has all or nothing, and it stays so.
#[tokio::test]
async fn moments_under_load_have_whole_transactions() {
    let desk = Desk::new(Engine::Mariadb).await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for number in 0..4_u32 {
        let mut conn = server_of(&desk).mysql_client().await;
        let stop = Arc::clone(&stop);
        writers.push(tokio::spawn(async move {
            let mut turn = number;
            while !stop.load(Ordering::Relaxed) {
                turn += 1;
                let (from, to) = (turn % 3 + 1, (turn / 3) % 3 + 1);
                let end = if turn % 5 == 0 { "ROLLBACK" } else { "COMMIT" };
                let aside = match turn % 2 {
                    0 => "SELECT 1".to_owned(),
                    _ => format!(
                        "SAVEPOINT s; UPDATE orders SET total = 9 WHERE id = {from}; ROLLBACK TO s; \
                         DELETE FROM pieces WHERE order_id = {turn}; INSERT INTO pieces VALUES ({turn}, 1, 'x') \
                         ON DUPLICATE KEY UPDATE what = 'y'"
                    ),
                };
                // Deadlocks take all back, and are as good as anything.
                let done = conn
                    .query_drop(format!(
                        "BEGIN; UPDATE orders SET total = total - 1 WHERE id = {from}; {aside}; SELECT SLEEP(0.002); \
                         UPDATE orders SET total = total + 1 WHERE id = {to}; {end}"
                    ))
                    .await;
                if done.is_err() {
                    let _ = conn.query_drop("ROLLBACK").await;
                }
            }
        }));
    }
    let mut seen = Vec::new();
    for number in 0..40 {
        let name = format!("m{number}");
        desk.snapshot(&name).await;
        seen.push((desk.contents(Some(&name)).await, name));
    }
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    let mut distinct = std::collections::BTreeSet::new();
    for (rows, name) in &seen {
        assert_eq!(desk.contents(Some(name)).await, *rows, "{name}");
        let sql = "SELECT sum(total) AS n, count(*) AS c FROM orders";
        let sum = desk.ask(&boss(), sql, Some(name)).await.unwrap();
        let sum = sum[0]["n"].to_string().replace('"', "");
        assert_eq!(sum, "60", "{name}: {rows:?}");
        distinct.insert(format!("{rows:?}"));
    }
    assert!(distinct.len() > 20, "{}", distinct.len());
}

/// The account that the script makes needs no right to write what is not history's, and sees no past by itself.
#[tokio::test]
async fn an_account_with_rights_on_columns_reads_the_past() {
    let account = AccountDesk::create(Engine::Mariadb, &[]).await;
    account.reads_the_past().await;
    // It may write one number and nothing else, and cannot name where rows began.
    account.may_not(&[
        "UPDATE customers SET name = 'x'",
        "UPDATE `palisade_history.spans` SET mark = 'x'",
        "UPDATE `palisade_history.seal` SET id = 2",
        "DELETE FROM `palisade_history.seal`",
        "DELETE HISTORY FROM customers",
        "SELECT palisade_from FROM customers",
    ]);
    let rights = [
        ("PROCESS ON *.*", "PROCESS"),
        (
            "UPDATE (n) ON `palisade_history.seal`",
            "palisade_history.seal",
        ),
        (
            "SELECT ON `palisade_history.spans`",
            "palisade_history.spans",
        ),
    ];
    account
        .needs_rights(&rights, "UPDATE orders SET total = total + 1")
        .await;
}

/// Whatever spelling a statement has for the server's own past, it is refused; whatever it reads as it is now, it reads as before.
#[tokio::test]
async fn the_servers_own_past_cannot_be_asked_for() {
    let desk = Desk::new(Engine::Mariadb).await;
    desk.snapshot("first").await;
    desk.run("UPDATE customers SET ssn = 'SECRET-LATER', name = 'Adele' WHERE id = 1");
    for sql in [
        "SELECT name FROM customers FOR SYSTEM_TIME ALL",
        "SELECT name FROM customers for/**/system_time all c",
        "SELECT name FROM customers FOR SYSTEM_TIME AS OF TIMESTAMP '2020-01-01 00:00:00'",
        "SELECT name FROM customers FOR SYSTEM_TIME AS OF TRANSACTION 1",
        "SELECT name FROM customers FOR SYSTEM_TIME FROM '0000-00-00' TO '2100-01-01'",
        "SELECT name FROM customers FOR SYSTEM_TIME BETWEEN '0000-00-00' AND '2100-01-01'",
        "SELECT name FROM (SELECT * FROM customers FOR SYSTEM_TIME ALL) c",
        "SELECT name FROM customers /*!100300 FOR SYSTEM_TIME ALL */",
        "SELECT name FROM customers /*M!100300 FOR SYSTEM_TIME ALL */",
        "SET STATEMENT system_versioning_asof = '2020-01-01' FOR SELECT name FROM customers",
        "SET system_versioning_asof = '2020-01-01'",
        "SET system_versioning_insert_history = 1",
        "SET @@session.system_versioning_insert_history = ON",
        "SET STATEMENT system_versioning_insert_history = 1 FOR INSERT INTO pieces (order_id, line, what) VALUES (9, 9, 'x')",
        "SELECT palisade_to FROM customers",
        "SELECT `PALISADE_FROM` FROM customers",
        "SELECT c.palisade_to FROM customers c JOIN orders o ON o.customer = c.id",
        "SELECT id FROM customers ORDER BY palisade_from",
        "SELECT count(*) FROM customers WHERE palisade_to > 1",
        "SELECT o.id FROM customers c JOIN orders o USING (palisade_from)",
        "INSERT INTO pieces (order_id, line, what, palisade_to) VALUES (9, 9, 'x', 1)",
        "UPDATE pieces SET what = palisade_from WHERE line = 1",
        "DELETE HISTORY FROM customers",
        "ALTER TABLE customers DROP SYSTEM VERSIONING",
    ] {
        for as_of in [None, Some("first")] {
            let session = boss();
            let request = Request::statement(sql, &Params::None, &session).allow_changes();
            let (outcome, _) = desk.guard.answer(request.as_of(as_of)).await;
            let refusal = outcome.into_result().map(|_| sql).unwrap_err();
            assert_ne!(refusal.rejection.code(), Code::Internal, "{sql}");
        }
    }
    // Columns of history join nothing and are listed by nothing.
    for (sql, rows) in [
        ("SELECT * FROM customers NATURAL JOIN orders", 3),
        ("SELECT * FROM customers", 3),
        (
            "SELECT c.*, o.* FROM customers c JOIN orders o ON o.customer = c.id",
            3,
        ),
    ] {
        for as_of in [None, Some("first")] {
            let found = desk.ask(&boss(), sql, as_of).await.unwrap();
            let text = found.to_string();
            assert!(!text.contains("palisade"), "{text}");
            assert_eq!(found.as_array().unwrap().len(), rows, "{sql} {as_of:?}");
        }
    }
}

/// A primary key and unique keys are on a table with history what they were before.
#[tokio::test]
async fn keys_are_as_before() {
    let desk = Desk::without_history(Engine::Mariadb).await;
    let keys = |desk: &Desk| {
        let firewall = desk.guard.firewall();
        let catalog = firewall.catalog();
        let schema = server_of(desk).name();
        ["customers", "orders", "pieces"].map(|table| {
            let table = catalog.find(schema, table).unwrap();
            let columns: Vec<String> = table.columns.iter().map(|c| c.name.to_string()).collect();
            (
                table.primary_key.clone(),
                table.unique_keys.clone(),
                table.foreign_keys.clone(),
                columns,
            )
        })
    };
    let before = keys(&desk);
    desk.order(&["customers", "orders", "pieces"], &ENABLE);
    assert!(desk.guard.refresh().await.unwrap());
    assert_eq!(keys(&desk), before);
    desk.snapshot("first").await;
    let session = boss();
    for (sql, count) in [
        (
            "INSERT INTO customers VALUES (1, 'a', 'Ada', 'n') ON DUPLICATE KEY UPDATE ssn = VALUES(ssn)",
            1,
        ),
        (
            "INSERT INTO pieces VALUES (1, 1, 'pin'), (5, 5, 'cap') ON DUPLICATE KEY UPDATE what = 'x'",
            2,
        ),
        ("REPLACE INTO pieces VALUES (1, 2, 'dip')", 1),
        ("UPDATE pieces SET line = line + 1 WHERE order_id = 5", 1),
        ("DELETE FROM pieces WHERE order_id = 1", 2),
    ] {
        let request = Request::statement(sql, &Params::None, &session).allow_changes();
        let (outcome, _) = desk.guard.answer(request).await;
        let answered = outcome
            .into_result()
            .map_err(|refusal| format!("{sql}: {:?}", refusal.rejection));
        assert_eq!(answered.unwrap().affected_rows(), Some(count), "{sql}");
    }
    let sql = "SELECT what FROM pieces ORDER BY order_id, line";
    let then = desk.ask(&boss(), sql, Some("first")).await.unwrap();
    assert_eq!(then.to_string(), r#"[{"what":"pen"},{"what":"ink"}]"#);
    let now = desk.ask(&boss(), sql, None).await.unwrap();
    assert_eq!(now.to_string(), r#"[{"what":"cap"}]"#);
}

/// Past rows are deleted if all had ended by the moment, and otherwise stay.
#[tokio::test]
async fn pruning_is_of_all_or_nothing() {
    let desk = Desk::new(Engine::Mariadb).await;
    desk.snapshot("first").await;
    desk.run("UPDATE orders SET total = 1 WHERE id = 1");
    desk.snapshot("second").await;
    desk.run("UPDATE orders SET total = 2 WHERE id = 1");
    let prune = |name: &str| {
        let (label, _) = desk.guard.find_label(name).unwrap();
        let script = desk.write_script("orders", &HistoryOrder::Prune(label));
        server_of(&desk).try_load(&script.unwrap())
    };
    let refused = prune("second").unwrap_err().to_string();
    assert!(
        refused.contains("deletes all past rows or none"),
        "{refused}"
    );
    let sql = "SELECT total FROM orders WHERE id = 1";
    let total = async |as_of| {
        let rows = desk.ask(&boss(), sql, Some(as_of)).await;
        rows.map(|rows| rows[0]["total"].as_i64().unwrap())
    };
    assert_eq!(total("first").await, Ok(10));
    desk.snapshot("third").await;
    prune("third").unwrap();
    assert_eq!(total("first").await, Err(Code::HistoryTooEarly));
    desk.snapshot("fourth").await;
    assert_eq!(total("fourth").await, Ok(2));
    let count = "SELECT count(*) FROM orders FOR SYSTEM_TIME ALL WHERE id = 1";
    assert_eq!(server_of(&desk).query(count).trim(), "1");
}

/// A table that was rebuilt has no past until its owner says that it has.
#[tokio::test]
async fn history_of_a_table_that_was_altered_begins_anew() {
    let desk = Desk::new(Engine::Mariadb).await;
    desk.snapshot("first").await;
    let sql = "SELECT count(*) AS n FROM orders";
    assert!(desk.ask(&boss(), sql, Some("first")).await.is_ok());
    desk.run("SET STATEMENT system_versioning_alter_history = KEEP FOR ALTER TABLE orders FORCE");
    let asked = desk.ask(&boss(), sql, Some("first")).await;
    assert_eq!(asked, Err(Code::HistoryTooEarly));
    desk.run("SET STATEMENT system_versioning_alter_history = KEEP FOR ALTER TABLE orders ADD COLUMN note varchar(9)");
    desk.guard.refresh().await.unwrap();
    let asked = desk.ask(&boss(), sql, Some("first")).await;
    assert_eq!(asked, Err(Code::HistoryNotKept));
    desk.order(&["orders"], &ENABLE);
    desk.guard.refresh().await.unwrap();
    let asked = desk.ask(&boss(), sql, Some("first")).await;
    assert_eq!(asked, Err(Code::HistoryTooEarly));
    desk.snapshot("second").await;
    desk.run("DELETE FROM orders");
    let asked = desk.ask(&boss(), sql, Some("second")).await;
    assert_eq!(asked.unwrap()[0]["n"], 3);
    // Without history, nothing of it is left in the table.
    desk.order(&["customers", "orders", "pieces"], &HistoryOrder::Disable);
    let left = "SELECT count(*) FROM information_schema.STATISTICS WHERE COLUMN_NAME LIKE 'palisade%' \
                AND TABLE_SCHEMA = DATABASE() AND TABLE_NAME NOT LIKE 'palisade%'";
    assert_eq!(server_of(&desk).query(left).trim(), "0");
}

/// The server reads the rows that differ since a moment by an index, which histories of before get with the script.
#[tokio::test]
async fn what_differs_is_found_by_index() {
    let desk = Desk::new(Engine::Mariadb).await;
    let server = server_of(&desk);
    let has_index = "SELECT count(DISTINCT INDEX_NAME) FROM information_schema.STATISTICS \
                     WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'orders' AND INDEX_NAME = 'palisade_history_ends'";
    assert_eq!(server.query(has_index).trim(), "1");
    desk.run("ALTER TABLE orders DROP INDEX palisade_history_ends");
    desk.order(&["orders"], &ENABLE);
    assert_eq!(server.query(has_index).trim(), "1");
    desk.run("INSERT INTO orders SELECT seq, 3, seq FROM seq_101_to_3100");
    desk.run("UPDATE orders SET total = total + 1");
    desk.snapshot("then").await;
    desk.run("UPDATE orders SET total = 0 WHERE id IN (101, 3000); DELETE FROM orders WHERE id = 200; INSERT INTO orders VALUES (9, 3, 1)");
    desk.snapshot("later").await;
    desk.run("UPDATE orders SET total = 5 WHERE id = 300; DELETE FROM orders WHERE id = 9");
    desk.run("SET GLOBAL userstat = 1");
    let read = "SELECT coalesce(sum(ROWS_READ), 0) FROM information_schema.TABLE_STATISTICS \
                WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'orders'";
    for (to, ids) in [
        (None, vec!["101", "200", "300", "3000"]),
        (Some("later"), vec!["9", "101", "200", "3000"]),
    ] {
        let before: u64 = server.query(read).trim().parse().unwrap();
        let lines = desk.list_differences(&boss(), "orders", "then", to).await;
        for id in &ids {
            assert!(
                lines.iter().any(|line| line.contains(id)),
                "{id}: {lines:?}"
            );
        }
        let after: u64 = server.query(read).trim().parse().unwrap();
        let read = after - before;
        assert!((1..200).contains(&read), "{to:?}: {read} rows were read");
    }
}

/// What is known of a table refuses the script, and what only the server knows stops it as it runs.
#[tokio::test]
async fn tables_that_can_have_no_history_are_refused() {
    let desk = Desk::without_history(Engine::Mariadb).await;
    let long = "x".repeat(48);
    desk.run(&format!(
        "CREATE TABLE aria (id int PRIMARY KEY) ENGINE=Aria; \
         CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 2; \
         CREATE TABLE timed (id int PRIMARY KEY) WITH SYSTEM VERSIONING; \
         CREATE TABLE taken (id int PRIMARY KEY, Palisade_To int); \
         CREATE TABLE {long} (id int PRIMARY KEY); CREATE TABLE `ö` (id int PRIMARY KEY);"
    ));
    desk.guard.refresh().await.unwrap();
    for (table, why) in [
        ("loose", "no primary key"),
        ("taken", "rename that first"),
        (long.as_str(), "64 characters"),
    ] {
        let refused = desk.write_script(table, &ENABLE).unwrap_err();
        assert!(refused.contains(why), "{table}: {refused}");
    }
    let refused = desk.guard.write_history_script("ö", &ENABLE).unwrap_err();
    assert!(refused.contains("beyond ASCII"), "{refused}");
    for (table, why) in [
        ("aria", "ENGINE=InnoDB"),
        ("parts", "REMOVE PARTITIONING"),
        ("timed", "DROP SYSTEM VERSIONING"),
    ] {
        let script = desk.write_script(table, &ENABLE).unwrap();
        let refused = server_of(&desk).try_load(&script).unwrap_err().to_string();
        assert!(refused.contains(why), "{table}: {refused}");
    }
}

/// A moment that this server has not reached, or of another registry, is foreign.
#[tokio::test]
async fn moments_of_other_servers_are_foreign() {
    let desk = Desk::without_history(Engine::Mariadb).await;
    desk.order(&["orders"], &ENABLE);
    let (desk, store) = with_store(desk).await;
    desk.snapshot("first").await;
    let (label, _) = desk.guard.find_label("first").unwrap();
    let (epoch, _) = label.as_text().split_once(':').unwrap();
    let kept = KeptLabel {
        name: Some("future".to_owned()),
        label: format!("{epoch}:99999999999:"),
        taken_ms: 1,
        taken_by: None,
    };
    store.keep_label(server_of(&desk).name(), &kept).unwrap();
    let sql = "SELECT count(*) AS n FROM orders";
    assert!(desk.ask(&boss(), sql, Some("first")).await.is_ok());
    let asked = desk.ask(&boss(), sql, Some("future")).await;
    assert_eq!(asked, Err(Code::HistoryForeign));
    // As after a dump was restored: the same value, by another transaction.
    desk.run("UPDATE `palisade_history.spans` SET table_id = 1 WHERE table_name = ''");
    let asked = desk.ask(&boss(), sql, Some("first")).await;
    assert_eq!(asked, Err(Code::HistoryForeign));
}

/// Where a crash could lose what was committed, no moment is noted; and none twice where nothing was written.
#[tokio::test]
async fn a_server_that_may_lose_transactions_has_no_moments() {
    let server = MariaDbServer::start().unwrap();
    let database = TestDatabase::on(&server, "durable", "CREATE TABLE t (id int PRIMARY KEY);");
    let backend = database.mysql_backend().await;
    let table = backend.catalog().find(database.name(), "t").unwrap();
    database.load(&backend.write_history_script(table, &ENABLE).unwrap());
    let backend = backend.refresh().await.unwrap().unwrap();
    let refused = backend.take_label().await.unwrap_err();
    assert!(
        refused.detail.contains("innodb_flush_log_at_trx_commit"),
        "{refused:?}"
    );
    database.load("SET GLOBAL innodb_flush_log_at_trx_commit = 1");
    let mut labels = Vec::new();
    for _ in 0..20 {
        labels.push(backend.take_label().await.unwrap().unwrap());
    }
    // The server itself writes now and then.
    let distinct: std::collections::BTreeSet<_> = labels.iter().collect();
    assert!(distinct.len() < 5, "{labels:?}");
    database.load("INSERT INTO t VALUES (1)");
    let next = backend.take_label().await.unwrap().unwrap();
    assert!(!labels.contains(&next), "{labels:?}");
}

/// The registry of the server loses transactions, and whoever asks it for a moment gets an error. Moments that are
/// noted here need no registry.
#[tokio::test]
async fn the_registry_of_the_server_loses_transactions() {
    let desk = Desk::new(Engine::Mariadb).await;
    let database = server_of(&desk);
    let states = async |as_of| {
        let sql = "SELECT id, total FROM orders ORDER BY id";
        desk.ask(&boss(), sql, as_of).await.unwrap().to_string()
    };
    let mut seen = Vec::new();
    let lost = [
        "BEGIN; UPDATE orders SET total = 11 WHERE id = 1; SAVEPOINT s; UPDATE orders SET total = 12 WHERE id = 2; ROLLBACK TO s; COMMIT",
        "BEGIN; DELETE FROM orders WHERE id = 2; INSERT IGNORE INTO pieces VALUES (1, 1, 'twice'); COMMIT",
        "BEGIN; UPDATE orders SET total = 13 WHERE id = 1; SAVEPOINT s; DELETE FROM orders WHERE id = 3; ROLLBACK TO s; COMMIT",
    ];
    for (number, sql) in lost.iter().enumerate() {
        let name = format!("m{number}");
        desk.snapshot(&name).await;
        seen.push((name, states(None).await));
        desk.run(sql);
    }
    desk.snapshot("last").await;
    seen.push(("last".to_owned(), states(None).await));
    let id = database.query("SELECT palisade_from FROM orders WHERE id = 1");
    let id = id.trim();
    let registered =
        format!("SELECT count(*) FROM mysql.transaction_registry WHERE transaction_id = {id}");
    assert_eq!(database.query(&registered).trim(), "0");
    for moment in [format!("TRANSACTION {id}"), "TIMESTAMP now(6)".to_owned()] {
        let sql = format!("SELECT id, total FROM orders FOR SYSTEM_TIME AS OF {moment}");
        let refused = database.try_query(&sql).unwrap_err().to_string();
        assert!(refused.contains("ERROR 4129"), "{refused}");
    }
    desk.run("DELETE FROM orders");
    for (name, rows) in &seen {
        assert_eq!(states(Some(name)).await, *rows, "{name}");
    }
    assert_eq!(seen[3].1, r#"[{"id":1,"total":13},{"id":3,"total":30}]"#);
}

/// Waits until a server says this of itself.
fn wait_for(database: (&MariaDbServer, &str), sql: &str, expected: &str) {
    let (server, name) = database;
    let begun = Instant::now();
    loop {
        let found = server.query(name, sql);
        if found.as_deref().ok() == Some(expected) {
            return;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{sql}: {found:?}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A replica has no moments while it follows: it says so to its operator by name, and to an agent in no detail.
#[tokio::test]
async fn a_replica_has_no_moments() {
    let primary = MariaDbServer::start_with(&["--log-bin=bin", "--server-id=1"]).unwrap();
    let database = TestDatabase::on(&primary, "place", "CREATE TABLE t (id int PRIMARY KEY);");
    let backend = database.mysql_backend().await;
    let table = backend.catalog().find(database.name(), "t").unwrap();
    database.load(&backend.write_history_script(table, &ENABLE).unwrap());
    let durable = "SET GLOBAL innodb_flush_log_at_trx_commit = 1";
    database.load(durable);
    let replica = MariaDbServer::start_with(&["--server-id=2", "--read-only=1"]).unwrap();
    let follow = format!(
        "{durable}; CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {}, MASTER_USER = 'root', MASTER_CONNECT_RETRY = 1; \
         START SLAVE",
        primary.port()
    );
    replica.query("mysql", &follow).unwrap();
    let name = database.name();
    let spans = "SELECT count(*) FROM `palisade_history.spans` WHERE table_name = 't'";
    wait_for((&replica, name), spans, "1");
    // The primary has moments all the while.
    let backend = backend.refresh().await.unwrap().unwrap();
    assert!(backend.take_label().await.unwrap().is_some());
    let there = replica.url(name);
    let there = || TestDatabase::connect_mysql(&there);
    let refused = there().await.take_label().await.unwrap_err();
    assert!(refused.detail.contains("it is a replica"), "{refused:?}");
    let labels = ApprovalStore::in_memory(ApprovalOptions::default()).unwrap();
    let policies = policy_sources("permit (principal, action, resource);");
    let guard = changing_gate(there().await, policies);
    let guard = guard.with_labels(Arc::new(labels) as Arc<dyn LabelStore>);
    let refused = guard.create_snapshot("late", &boss()).await.unwrap_err();
    let rejection = refused.rejection;
    assert_eq!(rejection.code(), Code::HistoryNotKept);
    assert!(!rejection.message().contains("replica"), "{rejection}");
    let detail = rejection.operator_detail().unwrap();
    assert!(detail.contains("it is a replica"), "{detail}");
    // One that follows no server any more is a server like others.
    replica
        .query("mysql", "STOP SLAVE; RESET SLAVE ALL")
        .unwrap();
    assert!(there().await.take_label().await.unwrap().is_some());
}

/// The statements that make the tables, the rows and the views of a database again, as a dump has them.
fn dump(database: &TestDatabase<'_>) -> String {
    let mut script = "SET foreign_key_checks = 0;\n".to_owned();
    let list = "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY table_type, table_name";
    for table in database.query(list).lines() {
        let made = database.query(&format!("SHOW CREATE TABLE `{table}`"));
        let made = made.split('\t').nth(1).unwrap().replace("\\n", "\n");
        script += &format!("{made};\n");
        let columns = format!(
            "SELECT group_concat('`', column_name, '`' ORDER BY ordinal_position) FROM information_schema.columns \
             WHERE table_schema = DATABASE() AND table_name = '{table}' AND column_name NOT LIKE 'palisade%'"
        );
        if made.starts_with("CREATE TABLE") {
            let columns = database.query(&columns);
            let quoted = columns.trim().replace(',', "), ', ', quote(");
            let rows = format!("SELECT concat('(', quote({quoted}), ')') FROM `{table}`");
            for row in database.query(&rows).lines() {
                script += &format!("INSERT INTO `{table}` ({}) VALUES {row};\n", columns.trim());
            }
        }
    }
    script
}

/// A dump that is restored on another server has no moment of the first one, and none of its own until history begins anew.
#[tokio::test]
async fn a_restored_dump_has_a_history_of_its_own_on_mariadb() {
    let desk = Desk::new(Engine::Mariadb).await;
    desk.snapshot("first").await;
    desk.run("DELETE FROM customers WHERE id = 3");
    let original = server_of(&desk);
    let name = original.name();
    let second = MariaDbServer::start().unwrap();
    second.create_database(name).unwrap();
    second
        .query(name, "SET GLOBAL innodb_flush_log_at_trx_commit = 1")
        .unwrap();
    second
        .load(name, dump(original).as_str())
        .unwrap()
        .clean()
        .unwrap();
    assert_eq!(
        second
            .query(name, "SELECT count(*) FROM customers")
            .unwrap(),
        "2"
    );
    let marks =
        "SELECT group_concat(table_name, mark ORDER BY table_name) FROM `palisade_history.spans`";
    assert_eq!(
        second.query(name, marks).unwrap(),
        original.query(marks).trim()
    );
    // Its numbers are beyond those of the first one's moment.
    for _ in 0..200 {
        second
            .query(name, "INSERT INTO loose VALUES ('x')")
            .unwrap();
    }
    let store = Arc::new(ApprovalStore::in_memory(ApprovalOptions::default()).unwrap());
    let (label, _) = desk.guard.find_label("first").unwrap();
    let first = KeptLabel {
        name: Some("first".to_owned()),
        label: label.as_text().to_owned(),
        taken_ms: 1,
        taken_by: None,
    };
    store.keep_label(name, &first).unwrap();
    let backend = TestDatabase::connect_mysql(&second.url(name)).await;
    let restored = changing_gate(backend, policy_sources(POLICIES.replace("SCHEMA", name)));
    let restored = restored.with_labels(store as Arc<dyn LabelStore>);
    let count = async |as_of: &str| {
        let sql = format!("SELECT count(*) AS n FROM {name}.customers");
        let session = boss();
        let request = Request::statement(&sql, &Params::None, &session).as_of(Some(as_of));
        let (outcome, _) = restored.answer(request).await;
        match outcome.into_result() {
            Ok(envelope) => Ok(serde_json::to_value(&envelope).unwrap()["rows"][0]["n"].take()),
            Err(refusal) => Err(refusal.rejection.code()),
        }
    };
    assert_eq!(count("first").await, Err(Code::HistoryForeign));
    restored.create_snapshot("second", &boss()).await.unwrap();
    assert_eq!(count("second").await, Err(Code::HistoryTooEarly));
    let table = format!("{name}.customers");
    let script = restored.write_history_script(&table, &ENABLE).unwrap();
    second.load(name, script.as_str()).unwrap().clean().unwrap();
    restored.refresh().await.unwrap();
    restored.create_snapshot("third", &boss()).await.unwrap();
    second.query(name, "DELETE FROM customers").unwrap();
    assert_eq!(count("first").await, Err(Code::HistoryForeign));
    assert_eq!(count("second").await, Err(Code::HistoryTooEarly));
    assert_eq!(count("third").await, Ok(serde_json::json!(2)));
    // The first server is as before.
    let sql = "SELECT count(*) AS n FROM customers";
    let rows = desk.ask(&boss(), sql, Some("first")).await.unwrap();
    assert_eq!(rows[0]["n"], 3);
}

/// A trigger that the server has read writes a table as before, once that has a history, and once it has none.
#[tokio::test]
async fn triggers_go_on_writing_a_table() {
    let desk = Desk::without_history(Engine::Mariadb).await;
    desk.run(
        "CREATE TRIGGER counts AFTER UPDATE ON loose FOR EACH ROW UPDATE orders SET total = total + 1 WHERE id = 1; \
         INSERT INTO loose VALUES ('x'); UPDATE loose SET word = 'a'",
    );
    for (order, word) in [(ENABLE, "b"), (HistoryOrder::Disable, "c")] {
        desk.order(&["orders"], &order);
        desk.run(&format!("UPDATE loose SET word = '{word}'"));
        desk.run(&format!("UPDATE loose SET word = '{word}{word}'"));
    }
    let sum = desk.database.value("SELECT total FROM orders WHERE id = 1");
    assert_eq!(sum, "15");
}
