//! History on MySQL: what its labels, its triggers and its accounts have of their own.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mysql_async::prelude::Queryable as _;
use palisade::{
    code::Code,
    guard::{Backend as _, Request},
    past::{KeptLabel, LabelStore},
    value::Params,
};
use palisade_state::{ApprovalOptions, ApprovalStore};
use palisade_testkit::{fixture::policy_sources, live::changing_gate, servers::MySqlServer};

use crate::{
    database::TestDatabase,
    history::{Desk, Engine, POLICIES, boss},
    history_account::{AccountDesk, ENABLE, server_of, with_store},
};

async fn sum(desk: &Desk, as_of: Option<&str>) -> Result<String, Code> {
    let sql = "SELECT sum(total) AS n FROM orders";
    let rows = desk.ask(&boss(), sql, as_of).await?;
    Ok(rows[0]["n"].to_string().replace('"', ""))
}

fn label_of(desk: &Desk, name: &str) -> String {
    let (label, _) = desk.guard.find_label(name).unwrap();
    label.as_text().to_owned()
}

/// A change that commits after a moment is not in it, whatever number it has; nor is a statement of many rows that is on its way.
#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn what_commits_late_is_not_in_the_moment_on_mysql_9() {
    let desk = Desk::new(Engine::Mysql).await;
    let mut early = server_of(&desk).mysql_client().await;
    let mut late = server_of(&desk).mysql_client().await;
    let mut bulk = server_of(&desk).mysql_client().await;
    early.query_drop("BEGIN").await.unwrap();
    let sql = "UPDATE orders SET total = total + 100 WHERE id = 1";
    early.query_drop(sql).await.unwrap();
    late.query_drop("BEGIN").await.unwrap();
    let sql = "SAVEPOINT s; INSERT INTO orders VALUES (7, 3, 700); ROLLBACK TO s; INSERT INTO orders VALUES (8, 3, 800)";
    late.query_drop(sql).await.unwrap();
    bulk.query_drop("BEGIN").await.unwrap();
    let sql = "INSERT INTO orders WITH RECURSIVE c (n) AS (SELECT 1000 UNION ALL SELECT n + 1 FROM c WHERE n < 1999) SELECT n, 1, 1 FROM c";
    bulk.query_drop(sql).await.unwrap();
    // What comes after them is seen.
    desk.run("UPDATE orders SET total = 31 WHERE id = 3");
    desk.snapshot("none").await;
    let label = label_of(&desk, "none");
    assert!(label.len() < 120 && label.contains('-'), "{label}");
    early.query_drop("COMMIT").await.unwrap();
    desk.snapshot("early").await;
    bulk.query_drop("COMMIT").await.unwrap();
    late.query_drop("ROLLBACK").await.unwrap();
    desk.run("DELETE FROM orders WHERE id = 2");
    desk.snapshot("last").await;
    desk.run("UPDATE orders SET total = 0");
    for (as_of, expected) in [
        (Some("none"), "61"),
        (Some("early"), "161"),
        (Some("last"), "1141"),
        (None, "0"),
    ] {
        assert_eq!(sum(&desk, as_of).await.unwrap(), expected, "{as_of:?}");
    }
    // What was numbered before the moment and committed after it is a difference.
    let told = desk
        .list_differences(&boss(), "orders", "none", Some("early"))
        .await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("id=1 update total: "), "{told:?}");
}

/// Eight writers beside a reader: what the reader's snapshot saw is what is read as of its moment, later on, for every one of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn moments_under_load_are_what_a_snapshot_saw_on_mysql_9() {
    let (desk, store) = with_store(Desk::new(Engine::Mysql).await).await;
    desk.snapshot("begin").await;
    let label = label_of(&desk, "begin");
    let (epoch, _) = label.split_once(':').unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for number in 0..8_u32 {
        let mut conn = server_of(&desk).mysql_client().await;
        let stop = Arc::clone(&stop);
        writers.push(tokio::spawn(async move {
            let (mut turn, mut failed) = (number, 0_u32);
            while !stop.load(Ordering::Relaxed) {
                turn += 1;
                let (from, to) = (turn % 3 + 1, (turn / 3) % 3 + 1);
                let end = if turn.is_multiple_of(5) { "ROLLBACK" } else { "COMMIT" };
                let pause = if turn.is_multiple_of(4) { "0.03" } else { "0.001" };
                let key = 100 * (number + 1) + turn % 7;
                let aside = match turn % 4 {
                    0 => format!("UPDATE pieces SET line = line + 1 WHERE order_id = {key}"),
                    1 => format!("DELETE FROM pieces WHERE order_id = {key}"),
                    _ => format!(
                        "SAVEPOINT s; INSERT INTO pieces VALUES ({key}, {turn}, 'gone'); ROLLBACK TO s; \
                         INSERT INTO pieces VALUES ({key}, 1, 'x') ON DUPLICATE KEY UPDATE what = concat('y', {turn}); \
                         REPLACE INTO pieces VALUES ({key}, 2, '{turn}')"
                    ),
                };
                // Deadlocks take all back, and are as good as anything.
                let done = conn
                    .query_drop(format!(
                        "BEGIN; {aside}; UPDATE orders SET total = total - 1 WHERE id = {from}; SELECT SLEEP({pause}); \
                         UPDATE orders SET total = total + 1 WHERE id = {to}; {end}"
                    ))
                    .await;
                if done.is_err() {
                    failed += 1;
                    let _ = conn.query_drop("ROLLBACK").await;
                }
            }
            (turn - number, failed)
        }));
    }
    let mut reader = server_of(&desk).mysql_client().await;
    let mut open = 0;
    let mut seen = Vec::new();
    for number in 0..300 {
        reader
            .query_drop("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
            .await
            .unwrap();
        let low: u64 = (reader.query_first("SELECT low FROM `palisade_history.seal`"))
            .await
            .unwrap()
            .unwrap();
        let sql = format!("SELECT n FROM `palisade_history.numbers` WHERE n >= {low}");
        let numbers: BTreeSet<u64> = reader.query(sql).await.unwrap().into_iter().collect();
        let mut contents: Vec<(i64, i64, String)> = reader
            .query("SELECT id, total, '' FROM orders ORDER BY id")
            .await
            .unwrap();
        let pieces: Vec<(i64, i64, String)> = reader
            .query("SELECT order_id, line, what FROM pieces ORDER BY order_id, line")
            .await
            .unwrap();
        contents.extend(pieces);
        reader.query_drop("COMMIT").await.unwrap();
        let next = numbers.last().map_or(low, |last| last + 1);
        let missing: Vec<String> = (low..next)
            .filter(|n| !numbers.contains(n))
            .map(|n| n.to_string())
            .collect();
        open += usize::from(!missing.is_empty());
        let kept = KeptLabel {
            name: Some(format!("m{number}")),
            label: format!("{epoch}:{next}:{}", missing.join(",")),
            taken_ms: 1,
            taken_by: None,
        };
        store.keep_label(server_of(&desk).name(), &kept).unwrap();
        // Those of the firewall's own are taken meanwhile, and what they do beside.
        if number % 10 == 0 {
            desk.snapshot(&format!("own{number}")).await;
            let total = sum(&desk, Some(&format!("own{number}"))).await.unwrap();
            assert_eq!(total, "60");
        }
        seen.push((kept.name.unwrap(), contents));
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    stop.store(true, Ordering::Relaxed);
    let mut turns = 0;
    for writer in writers {
        let (done, failed) = writer.await.unwrap();
        assert!(failed < done / 2, "{failed} of {done}");
        turns += done;
    }
    let mut distinct = BTreeSet::new();
    let mut wrong = 0;
    for (name, contents) in &seen {
        let mut found = Vec::new();
        for sql in [
            "SELECT id AS a, total AS b, '' AS c FROM orders ORDER BY id",
            "SELECT order_id AS a, line AS b, what AS c FROM pieces ORDER BY order_id, line",
        ] {
            let rows = desk.ask(&boss(), sql, Some(name)).await.unwrap();
            for row in rows.as_array().unwrap() {
                let text = row["c"].as_str().unwrap().to_owned();
                found.push((row["a"].as_i64().unwrap(), row["b"].as_i64().unwrap(), text));
            }
        }
        wrong += usize::from(found != *contents);
        distinct.insert(contents);
    }
    println!(
        "{wrong} wrong of {}, {} distinct, {open} with changes in flight, {turns} transactions",
        seen.len(),
        distinct.len()
    );
    assert_eq!(wrong, 0);
    assert!(
        distinct.len() > 100 && open > 100,
        "{} {open}",
        distinct.len()
    );
}

/// What was given out in vain is taken after a while; what is on its way for longer is not, and stays out of the moments before it ends.
#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn numbers_in_vain_are_taken_on_mysql_9() {
    let desk = Desk::new(Engine::Mysql).await;
    let database = server_of(&desk);
    let mut open = database.mysql_client().await;
    desk.run("BEGIN; UPDATE orders SET total = total + 1; ROLLBACK");
    open.query_drop("BEGIN; UPDATE orders SET total = 1000 WHERE id = 1")
        .await
        .unwrap();
    desk.run("UPDATE customers SET ssn = 'x' WHERE id = 1");
    desk.snapshot("first").await;
    let missing = |name: &str| {
        let label = label_of(&desk, name);
        label.rsplit_once(':').unwrap().1.to_owned()
    };
    let (first, last) = missing("first")
        .split_once('-')
        .map(|(first, last)| (first.to_owned(), last.to_owned()))
        .unwrap();
    assert_eq!(
        last.parse::<u64>().unwrap() - first.parse::<u64>().unwrap(),
        3
    );
    tokio::time::sleep(Duration::from_millis(10_500)).await;
    desk.snapshot("second").await;
    desk.snapshot("third").await;
    assert_eq!(missing("third"), last);
    open.query_drop("COMMIT").await.unwrap();
    desk.snapshot("fourth").await;
    assert_eq!(missing("fourth"), "");
    for (as_of, expected) in [
        ("first", "60"),
        ("second", "60"),
        ("third", "60"),
        ("fourth", "1050"),
    ] {
        assert_eq!(sum(&desk, Some(as_of)).await.unwrap(), expected, "{as_of}");
    }
    // What all have seen has no rows for ever.
    let rows = "INSERT INTO orders WITH RECURSIVE c (n) AS (SELECT 1001 UNION ALL SELECT n + 1 FROM c WHERE n < 2000) SELECT n, 1, 0 FROM c; \
                UPDATE orders SET total = 0 WHERE id > 1000";
    desk.run(rows);
    desk.snapshot("fifth").await;
    let count = database.query("SELECT count(*) FROM `palisade_history.numbers`");
    assert_eq!(count.trim(), "0");
    for (as_of, expected) in [("third", "60"), ("fourth", "1050"), ("fifth", "1050")] {
        assert_eq!(sum(&desk, Some(as_of)).await.unwrap(), expected, "{as_of}");
    }
}

/// What no trigger sees, and what ends the triggers, ends the history: it is refused, and never told in part.
#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn what_interrupts_a_history_is_found_on_mysql_9() {
    let desk = Desk::new(Engine::Mysql).await;
    let sql = "SELECT count(*) AS n FROM orders";
    let made = server_of(&desk).query("SHOW CREATE TRIGGER palisade_history_orders_update");
    let made = made.split('\t').nth(2).unwrap().to_owned();
    let made = made.replace("DEFINER=`root`@`127.0.0.1`", "");
    for (number, change) in [
        "TRUNCATE orders".to_owned(),
        "ALTER TABLE orders ALTER COLUMN total SET DEFAULT 5, ALGORITHM = INSTANT".to_owned(),
        "ALTER TABLE orders ADD INDEX more (customer), ALGORITHM = INPLACE".to_owned(),
        "ALTER TABLE orders FORCE".to_owned(),
        "SET foreign_key_checks = 0; ALTER TABLE orders ADD CONSTRAINT k FOREIGN KEY (customer) REFERENCES customers (id) ON DELETE CASCADE; \
         ALTER TABLE orders DROP FOREIGN KEY k".to_owned(),
        "DROP TRIGGER palisade_history_orders_delete".to_owned(),
        format!("DROP TRIGGER palisade_history_orders_update;\nDELIMITER //\n{made}//\nDELIMITER ;\n"),
        "TRUNCATE palisade_history_orders".to_owned(),
        "RENAME TABLE orders TO away; CREATE TABLE orders LIKE away; INSERT INTO orders SELECT * FROM away; DROP TABLE away".to_owned(),
    ]
    .iter()
    .enumerate()
    {
        let name = format!("before{number}");
        desk.snapshot(&name).await;
        assert!(desk.ask(&boss(), sql, Some(&name)).await.is_ok(), "{change}");
        desk.run(change);
        let asked = desk.ask(&boss(), sql, Some(&name)).await;
        assert_eq!(asked, Err(Code::HistoryTooEarly), "{change}");
        desk.guard.refresh().await.unwrap();
        let asked = desk.ask(&boss(), sql, Some(&name)).await;
        assert_eq!(asked, Err(Code::HistoryTooEarly), "{change}");
        // Writers go on.
        desk.run("DELETE FROM orders; INSERT INTO orders VALUES (1, 1, 10), (2, 1, 20)");
        desk.order(&["orders"], &ENABLE);
        desk.guard.refresh().await.unwrap();
        let asked = desk.ask(&boss(), sql, Some(&name)).await;
        assert_eq!(asked, Err(Code::HistoryTooEarly), "{change}");
    }
    // A name that has none of it, and changes of the data alone.
    desk.snapshot("last").await;
    desk.run("RENAME TABLE orders TO away; RENAME TABLE away TO orders; ANALYZE TABLE orders; DELETE FROM orders WHERE id = 2");
    assert_eq!(sum(&desk, Some("last")).await.unwrap(), "30");
}

/// Of what cannot have a history it is told why.
#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn what_can_have_no_history_is_told_on_mysql_9() {
    let desk = Desk::without_history(Engine::Mysql).await;
    let long = "t".repeat(41);
    desk.run(&format!(
        "CREATE TABLE slow (id int PRIMARY KEY) ENGINE=MyISAM; \
         CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 2; \
         CREATE TABLE child (id int PRIMARY KEY, customer int, FOREIGN KEY (customer) REFERENCES customers (id) ON DELETE SET NULL); \
         CREATE TABLE moved (id int PRIMARY KEY, customer int, FOREIGN KEY (customer) REFERENCES customers (id) ON UPDATE CASCADE); \
         CREATE TABLE kept (id int PRIMARY KEY, customer int, FOREIGN KEY (customer) REFERENCES customers (id)); \
         CREATE TABLE keyless (id int); CREATE TABLE taken (id int PRIMARY KEY, Palisade_To int); \
         CREATE TABLE {long} (id int PRIMARY KEY);"
    ));
    desk.guard.refresh().await.unwrap();
    for (table, why) in [
        ("child", "ON DELETE"),
        ("moved", "ON DELETE"),
        ("keyless", "no primary key"),
        ("taken", "rename that first"),
        (&long, "64 characters"),
    ] {
        let refused = desk.write_script(table, &ENABLE).unwrap_err();
        assert!(refused.contains(why), "{table}: {refused}");
    }
    for (table, why) in [("slow", "ENGINE=InnoDB"), ("parts", "REMOVE PARTITIONING")] {
        let script = desk.write_script(table, &ENABLE).unwrap();
        let refused = server_of(&desk).try_load(&script).unwrap_err().to_string();
        assert!(refused.contains(why), "{table}: {refused}");
    }
    // A key that came between the script and its run.
    let script = desk.write_script("kept", &ENABLE).unwrap();
    desk.run(
        "ALTER TABLE kept ADD FOREIGN KEY (customer) REFERENCES customers (id) ON DELETE CASCADE",
    );
    let refused = server_of(&desk).try_load(&script).unwrap_err().to_string();
    assert!(refused.contains("acts on its rows"), "{refused}");
    desk.guard.refresh().await.unwrap();
    desk.order(&["orders"], &ENABLE);
    desk.guard.refresh().await.unwrap();
    desk.snapshot("last").await;
    for table in ["kept", "slow", "parts"] {
        let sql = format!("SELECT count(*) AS n FROM {table}");
        let asked = desk.ask(&boss(), &sql, Some("last")).await;
        assert!(
            matches!(asked, Err(Code::HistoryTooEarly | Code::HistoryNotKept)),
            "{table}: {asked:?}"
        );
    }
}

/// What the application asks of its own statements is as before, and what would take a number's place is refused.
#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn writers_notice_nothing_on_mysql_9() {
    let desk = Desk::without_history(Engine::Mysql).await;
    desk.run("CREATE TABLE counted (id int AUTO_INCREMENT PRIMARY KEY, palisade_number int, made timestamp DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP)");
    desk.guard.refresh().await.unwrap();
    desk.order(&["counted", "orders"], &ENABLE);
    desk.guard.refresh().await.unwrap();
    let mut conn = server_of(&desk).mysql_client().await;
    // All of it in one second, however slow the machine is.
    conn.query_drop("SET timestamp = 1700000000").await.unwrap();
    let mut told = Vec::new();
    for sql in [
        "INSERT INTO counted (palisade_number) VALUES (1), (2), (3)",
        "UPDATE counted SET palisade_number = 5 WHERE id < 3",
        "INSERT INTO counted (palisade_number) VALUES (9)",
        "DELETE FROM counted WHERE id = 1",
        "UPDATE orders SET total = 1 WHERE id = 1",
    ] {
        conn.query_drop(sql).await.unwrap();
        let (rows, id) = (conn.affected_rows(), conn.last_insert_id());
        let asked: (u64, i64) = conn
            .query_first("SELECT LAST_INSERT_ID(), ROW_COUNT()")
            .await
            .unwrap()
            .unwrap();
        told.push((rows, id, asked.0, asked.1));
    }
    assert_eq!(
        told,
        [
            (3, Some(1), 1, 3),
            (2, None, 1, 2),
            (1, Some(4), 4, 1),
            (1, None, 4, 1),
            (1, None, 4, 1),
        ]
    );
    // States of a row keep what they had, whatever the table does by itself.
    desk.snapshot("first").await;
    desk.run("UPDATE counted SET made = '2020-01-01', palisade_number = NULL");
    desk.run("UPDATE counted SET palisade_number = 8");
    let sql = "SELECT palisade_number AS n FROM counted ORDER BY id";
    let rows = desk.ask(&boss(), sql, Some("first")).await.unwrap();
    assert_eq!(rows.to_string(), r#"[{"n":5},{"n":3},{"n":9}]"#);
    let count = "SELECT count(DISTINCT made) FROM palisade_history_counted WHERE palisade_to < 18446744073709551615 AND made > '2021-01-01'";
    assert_eq!(server_of(&desk).query(count).trim(), "1");
    // A number that is said beforehand is used by nothing.
    conn.query_drop("SET insert_id = 1").await.unwrap();
    let refused = conn
        .query_drop("INSERT IGNORE INTO orders VALUES (70, 1, 1)")
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("insert_id"), "{refused}");
    conn.query_drop("SET insert_id = 77").await.unwrap();
    let refused = conn
        .query_drop("INSERT INTO counted (palisade_number) VALUES (1)")
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("insert_id"), "{refused}");
}

/// The account that the script makes needs no right to write what is not history's.
#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn an_account_with_rights_on_columns_reads_the_past_on_mysql_9() {
    let account = AccountDesk::create(Engine::Mysql, &["orders"]).await;
    account.reads_the_past().await;
    account.may_not(&[
        "UPDATE customers SET name = 'x'",
        "UPDATE palisade_history_customers SET name = 'x'",
        "DELETE FROM palisade_history_customers",
        "UPDATE `palisade_history.spans` SET mark = 'x'",
        "UPDATE `palisade_history.seal` SET id = 2",
        "UPDATE `palisade_history.numbers` SET n = 2",
        "TRUNCATE `palisade_history.numbers`",
        "SELECT * FROM palisade_history_orders",
    ]);
    let rights = [
        (
            "SELECT ON `palisade_history.numbers`",
            "palisade_history.numbers",
        ),
        (
            "UPDATE (low) ON `palisade_history.seal`",
            "palisade_history.seal",
        ),
        (
            "EXECUTE ON FUNCTION `palisade_history.place`",
            "palisade_history.place",
        ),
    ];
    account
        .needs_rights(&rights, "UPDATE orders SET total = total + 1")
        .await;
}

/// A moment that this server has not reached is foreign, and so are all from before its tables were restored, until history begins anew.
#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn moments_of_other_servers_are_foreign_on_mysql_9() {
    let desk = Desk::without_history(Engine::Mysql).await;
    desk.order(&["orders"], &ENABLE);
    let (desk, store) = with_store(desk).await;
    desk.snapshot("first").await;
    let label = label_of(&desk, "first");
    let (epoch, _) = label.split_once(':').unwrap();
    let kept = KeptLabel {
        name: Some("future".to_owned()),
        label: format!("{epoch}:99999999999:"),
        taken_ms: 1,
        taken_by: None,
    };
    store.keep_label(server_of(&desk).name(), &kept).unwrap();
    let asked = async |as_of| sum(&desk, Some(as_of)).await;
    assert_eq!(asked("first").await.unwrap(), "60");
    assert_eq!(asked("future").await, Err(Code::HistoryForeign));
    // As a dump has it, which makes all tables anew.
    desk.run(
        "CREATE TABLE dumped LIKE `palisade_history.numbers`; INSERT INTO dumped SELECT * FROM `palisade_history.numbers`; \
         DROP TABLE `palisade_history.numbers`; RENAME TABLE dumped TO `palisade_history.numbers`; \
         CREATE TABLE again LIKE orders; INSERT INTO again SELECT * FROM orders; DROP TABLE orders; RENAME TABLE again TO orders",
    );
    assert_eq!(asked("first").await, Err(Code::HistoryForeign));
    desk.snapshot("second").await;
    assert_eq!(asked("second").await, Err(Code::HistoryTooEarly));
    desk.order(&["orders"], &ENABLE);
    desk.guard.refresh().await.unwrap();
    desk.snapshot("third").await;
    desk.run("DELETE FROM orders");
    assert_eq!(asked("first").await, Err(Code::HistoryForeign));
    assert_eq!(asked("second").await, Err(Code::HistoryTooEarly));
    assert_eq!(asked("third").await.unwrap(), "60");
    // What keeps it is gone with a dump that leaves out functions.
    desk.run("DROP FUNCTION `palisade_history.place`");
    let why = desk.guard.create_snapshot("fourth", &boss()).await;
    assert!(why.is_err());
}

/// What the server's own program writes of a database, triggers and functions among it.
fn dump(database: &TestDatabase<'_>) -> String {
    let client = database.server().client("root", database.name());
    let folder = Path::new(client.get_program()).parent().unwrap().to_owned();
    let libraries = folder.join(format!("../lib/{}-linux-gnu", std::env::consts::ARCH));
    let files = std::fs::read_dir(&libraries).unwrap();
    let mut files = files.map(|file| file.unwrap().path());
    let is_loader = |file: &PathBuf| {
        file.file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with("ld-linux")
    };
    // It was built for the C library that was fetched with it.
    let dumped = Command::new(files.find(is_loader).unwrap())
        .arg("--library-path")
        .arg(&libraries)
        .arg(folder.join("mysqldump"))
        .args([
            "--no-defaults",
            "--protocol=tcp",
            "--host=127.0.0.1",
            "--user=root",
            "--routines",
            "--no-tablespaces",
        ])
        .arg(format!("--port={}", database.server().port()))
        .arg(database.name())
        .output()
        .unwrap();
    assert!(dumped.status.success(), "{dumped:?}");
    String::from_utf8(dumped.stdout).unwrap()
}

/// A dump that is restored under another name keeps to itself, and no moment counts there until history begins anew.
#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn a_restored_dump_has_a_history_of_its_own_on_mysql_9() {
    let desk = Desk::new(Engine::Mysql).await;
    desk.snapshot("first").await;
    desk.run("DELETE FROM customers WHERE id = 3");
    let original = server_of(&desk);
    let database = TestDatabase::mysql("restored", &dump(original));
    let kept = |database: &TestDatabase<'_>| {
        database.query(
            "SELECT (SELECT count(*) FROM palisade_history_customers), (SELECT max(n) FROM `palisade_history.numbers`)",
        )
    };
    let before = kept(original);
    database.load("UPDATE customers SET ssn = 'y'");
    assert_eq!(kept(original), before);
    assert_ne!(kept(&database), before);
    let store = Arc::new(ApprovalStore::in_memory(ApprovalOptions::default()).unwrap());
    let first = KeptLabel {
        name: Some("first".to_owned()),
        label: label_of(&desk, "first"),
        taken_ms: 1,
        taken_by: None,
    };
    store.keep_label(database.name(), &first).unwrap();
    let policies = policy_sources(POLICIES.replace("SCHEMA", database.name()));
    let restored = changing_gate(database.mysql_backend().await, policies);
    let restored = restored.with_labels(store as Arc<dyn LabelStore>);
    let count = async |as_of: &str| {
        let sql = format!("SELECT count(*) AS n FROM {database}.customers");
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
    let table = format!("{database}.customers");
    database.load(&restored.write_history_script(&table, &ENABLE).unwrap());
    restored.refresh().await.unwrap();
    restored.create_snapshot("third", &boss()).await.unwrap();
    database.load("DELETE FROM customers");
    assert_eq!(count("first").await, Err(Code::HistoryForeign));
    assert_eq!(count("second").await, Err(Code::HistoryTooEarly));
    assert_eq!(count("third").await, Ok(serde_json::json!(2)));
    let sql = "SELECT count(*) AS n FROM customers";
    let rows = desk.ask(&boss(), sql, Some("first")).await.unwrap();
    assert_eq!(rows[0]["n"], 3);
}

/// Upserts and replacements change what they changed before.
#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn keys_are_as_before_on_mysql_9() {
    let desk = Desk::new(Engine::Mysql).await;
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

/// Where a crash could lose what was committed, and on replicas, no moment is noted; and none twice where nothing was written.
#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn a_server_that_may_lose_changes_has_no_moments_on_mysql_9() {
    let server = MySqlServer::start().unwrap();
    let database = TestDatabase::on(&server, "durable", "CREATE TABLE t (id int PRIMARY KEY);");
    let backend = database.mysql_backend().await;
    let table = backend.catalog().find(database.name(), "t").unwrap();
    // Whatever the character set of the client is.
    let script = backend.write_history_script(table, &ENABLE).unwrap();
    database.load(&format!("SET NAMES utf8mb3;\n{script}"));
    let backend = backend.refresh().await.unwrap().unwrap();
    let refuses = async |why: &str| {
        let refused = backend.take_label().await.unwrap_err();
        assert!(refused.detail.contains(why), "{refused:?}");
    };
    refuses("innodb_flush_log_at_trx_commit").await;
    database.load("SET GLOBAL innodb_flush_log_at_trx_commit = 1");
    let mut labels = BTreeSet::new();
    for _ in 0..20 {
        labels.insert(backend.take_label().await.unwrap().unwrap());
    }
    assert_eq!(labels.len(), 1);
    database.load("INSERT INTO t VALUES (1)");
    assert!(!labels.contains(&backend.take_label().await.unwrap().unwrap()));
    database.load("CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = 1, SOURCE_USER = 'x'");
    refuses("it is a replica").await;
    database.load("RESET REPLICA ALL");
    assert!(backend.take_label().await.is_ok());
    database.load("ALTER INSTANCE DISABLE INNODB REDO_LOG");
    refuses("the redo log of InnoDB is off").await;
    // The server is there: an agent is not told otherwise, and the operator is told why.
    let labels = ApprovalStore::in_memory(ApprovalOptions::default()).unwrap();
    let guard = changing_gate(
        backend,
        policy_sources("permit (principal, action, resource);"),
    )
    .with_labels(Arc::new(labels) as Arc<dyn LabelStore>);
    let refused = guard.create_snapshot("late", &boss()).await.unwrap_err();
    let rejection = refused.rejection;
    assert_eq!(rejection.code(), Code::HistoryNotKept);
    assert!(!rejection.message().contains("redo log"));
    let detail = rejection.operator_detail().unwrap();
    assert!(detail.contains("the redo log of InnoDB is off"), "{detail}");
}
