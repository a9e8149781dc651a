//! What foreign keys change counts against the cap of a change on MySQL and MariaDB, whose servers do not count it: no fewer rows
//! than are changed, and no more where that would refuse what is within the cap.

use std::{sync::Arc, time::Duration};

use palisade::{
    audit::NoAudit,
    code::Code,
    firewall::Firewall,
    guard::{Guard, Outcome, Request},
    limits::Limits,
    session::{Principal, Session},
    value::Params,
};
use palisade_testkit::{
    fixture::policy_sources,
    host::Still,
    servers::{MariaDbServer, MySqlServer, Server},
};

use crate::database::TestDatabase;

/// Tables with keys of every action:
///
/// * `word`: keys refer to it by the numbers of its values, which have other names there. `tie` has two such keys.
/// * `par`: row 1 has three rows of `kid`, two of which have two rows of `toy` each. A `note` refers to a `par` and a `kid`.
/// * `tree`: a chain of five rows, each the parent of the next one, with a `leaf` that loses its parent.
const SCHEMA: &str = "
    CREATE TABLE par (id int PRIMARY KEY, k varchar(10) NOT NULL UNIQUE, made timestamp NOT NULL DEFAULT '2020-01-01 00:00:00');
    CREATE TABLE kid (id int PRIMARY KEY, par_id int, FOREIGN KEY (par_id) REFERENCES par (id) ON DELETE CASCADE ON UPDATE CASCADE);
    CREATE TABLE toy (id int PRIMARY KEY, kid_id int, FOREIGN KEY (kid_id) REFERENCES kid (id) ON DELETE SET NULL);
    CREATE TABLE note (id int PRIMARY KEY, k varchar(10), kid_id int,
        FOREIGN KEY (k) REFERENCES par (k) ON DELETE CASCADE ON UPDATE CASCADE, FOREIGN KEY (kid_id) REFERENCES kid (id) ON DELETE CASCADE);
    CREATE TABLE tree (id int PRIMARY KEY, up int, FOREIGN KEY (up) REFERENCES tree (id) ON DELETE CASCADE);
    CREATE TABLE leaf (id int PRIMARY KEY, tree_id int, FOREIGN KEY (tree_id) REFERENCES tree (id) ON DELETE SET NULL);
    CREATE TABLE word (id int PRIMARY KEY, k enum('a','b','c') NOT NULL UNIQUE);
    CREATE TABLE said (id int PRIMARY KEY, k enum('x','y','z'), FOREIGN KEY (k) REFERENCES word (k) ON DELETE CASCADE);
    CREATE TABLE tie (id int PRIMARY KEY, a int, b int, FOREIGN KEY (a) REFERENCES word (id) ON DELETE CASCADE, FOREIGN KEY (b) REFERENCES word (id) ON DELETE SET NULL);
    INSERT INTO word VALUES (1, 'a'), (2, 'b'), (3, 'c');
    INSERT INTO said VALUES (1, 'x'), (2, 'x'), (3, 'x'), (4, 'y'), (5, NULL);
    INSERT INTO tie VALUES (1, 1, 2), (2, 2, 1);
    INSERT INTO par (id, k) VALUES (1, 'a'), (2, 'b'), (3, 'c');
    INSERT INTO kid VALUES (1, 1), (2, 1), (3, 1), (4, 2);
    INSERT INTO toy VALUES (1, 1), (2, 1), (3, 2), (4, 2), (5, 4);
    INSERT INTO note VALUES (1, 'a', 1), (2, NULL, 1), (3, 'a', NULL), (4, 'b', NULL);
    INSERT INTO tree VALUES (1, NULL), (2, 1), (3, 2), (4, 3), (5, 4);
    INSERT INTO leaf VALUES (1, 5), (2, 5), (3, 1), (4, NULL)";

/// Everything that there is, to see whether a refused change left it.
const ALL: &str = "SELECT COUNT(*) FROM said; SELECT COUNT(*), COUNT(b) FROM tie; \
    SELECT GROUP_CONCAT(id, k ORDER BY id) FROM par; SELECT GROUP_CONCAT(id, '-', COALESCE(par_id, 0) ORDER BY id) FROM kid; \
    SELECT GROUP_CONCAT(id, '-', COALESCE(kid_id, 0) ORDER BY id) FROM toy; SELECT GROUP_CONCAT(id, COALESCE(k, 0) ORDER BY id) FROM note; \
    SELECT GROUP_CONCAT(id ORDER BY id) FROM tree; SELECT GROUP_CONCAT(id, '-', COALESCE(tree_id, 0) ORDER BY id) FROM leaf";

/// Statements with how many rows they change: the fewest that a cap must have room for.
const STATEMENTS: &[(&str, u64)] = &[
    // Three kids, four toys that lose theirs, and three notes, one of which two keys reach.
    ("DELETE FROM par WHERE id = 1", 11),
    ("DELETE FROM par WHERE k = 'a' AND now() > made", 11),
    ("DELETE FROM par WHERE id = 3", 1),
    ("DELETE FROM par WHERE id IN (1, 2)", 15),
    ("DELETE FROM par WHERE id > 0 ORDER BY id LIMIT 1", 11),
    ("DELETE FROM par WHERE id > 0 ORDER BY id DESC LIMIT 1", 1),
    (
        "DELETE p FROM par p JOIN kid c ON c.par_id = p.id WHERE c.id < 4",
        11,
    ),
    (
        "DELETE c FROM kid c JOIN par p ON c.par_id = p.id WHERE p.k = 'b'",
        2,
    ),
    // The chain and what hangs on it.
    ("DELETE FROM tree WHERE id = 1", 8),
    ("DELETE FROM tree WHERE id = 4", 4),
    ("DELETE FROM tree WHERE id > 0", 8),
    ("UPDATE par SET id = id + 10 WHERE id = 1", 4),
    ("UPDATE par SET id = 11, k = 'z' WHERE id = 1", 6),
    // A key that stays is followed by nothing, and what is no key has no followers.
    (
        "UPDATE par SET id = 1, k = 'a', made = now() WHERE id = 1",
        1,
    ),
    ("UPDATE par SET k = 'A' WHERE id = 1", 3),
    ("UPDATE par SET made = now() WHERE id > 0", 3),
    ("UPDATE kid SET par_id = 3 WHERE id > 0", 4),
    // What stays as it is has no followers.
    (
        "UPDATE par SET id = id, k = par.k, made = now() WHERE id > 0",
        3,
    ),
    // Any row of `said` that has a value could be one that goes, but no more.
    ("DELETE FROM word WHERE id = 3", 5),
    ("DELETE FROM word WHERE id IN (1, 2)", 10),
    ("REPLACE INTO par (id, k) VALUES (1, 'q')", 11),
    ("REPLACE INTO par (id, k) VALUES (9, 'b'), (3, 'c')", 5),
    ("REPLACE INTO par (id, k) VALUES (9, 'q')", 1),
    (
        "INSERT INTO par (id, k) VALUES (1, 'q') ON DUPLICATE KEY UPDATE k = 'r'",
        3,
    ),
    (
        "INSERT INTO par (id, k) VALUES (1, 'q') ON DUPLICATE KEY UPDATE made = now()",
        1,
    ),
];

async fn gate<'s>(
    server: &'s Server,
    label: &str,
    trigger: Option<&str>,
    max_rows: u64,
) -> (TestDatabase<'s>, Guard) {
    let trigger_too = trigger.map(|trigger| format!("{SCHEMA}; {trigger}"));
    let database = TestDatabase::on(server, label, trigger_too.as_deref().unwrap_or(SCHEMA));
    let backend = database.mysql_backend().await;
    let mut text = "permit(principal, action, resource);".to_owned();
    if trigger.is_some() {
        text += &format!("permit(principal, action, resource == Function::\"{database}.slow\");");
    }
    let sources = policy_sources(text);
    let firewall = Firewall::builder(backend.catalog().clone(), sources)
        .limits(Limits {
            max_affected_rows: max_rows,
            ..Limits::default()
        })
        .allow_changes()
        .build()
        .unwrap_or_else(|error| panic!("{error}"));
    let guard = Guard::new(
        Arc::new(firewall),
        backend,
        Arc::new(Still),
        Arc::new(NoAudit),
    );
    (database, guard)
}

async fn counts(server: &Server) {
    let session = Session::new(Principal::new("Agent", "a"));
    for (sql, rows) in STATEMENTS {
        let (database, guard) = gate(server, "reached", None, u64::MAX).await;
        let most = |rows| Limits {
            max_affected_rows: rows,
            ..Limits::default()
        };
        let before = database.query(ALL);
        let few = guard
            .answer(
                Request::statement(sql, &Params::None, &session)
                    .with_limits(&most(rows - 1))
                    .allow_changes(),
            )
            .await;
        match few.0.into_result() {
            Err(refusal) if refusal.rejection.code() == Code::LimitAffectedRows => {}
            Err(refusal) => {
                panic!("{sql}: {:?}", refusal.rejection.operator_detail())
            }
            Ok(_) => panic!("{sql}: it ran"),
        }
        assert_eq!(database.query(ALL), before, "{sql}");
        let enough = guard
            .answer(
                Request::statement(sql, &Params::None, &session)
                    .with_limits(&most(*rows))
                    .allow_changes(),
            )
            .await;
        if let Outcome::Rejected(refusal) = enough.0 {
            panic!(
                "{sql}: {} {:?}",
                refusal.rejection,
                refusal.rejection.operator_detail()
            );
        }
    }
}

#[tokio::test]
async fn what_foreign_keys_change_counts_on_mariadb() {
    counts(MariaDbServer::start_shared().unwrap()).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn what_foreign_keys_change_counts_on_mysql_9() {
    counts(MySqlServer::start_shared().unwrap()).await;
}

/// A condition with a random function could find every row, so every row counts.
#[tokio::test]
async fn what_is_found_by_chance_counts_as_everything() {
    let server: &Server = MariaDbServer::start_shared().unwrap();
    let session = Session::new(Principal::new("Agent", "a"));
    for chance in [
        "id > 0 AND rand() > 2",
        "id = CASE WHEN sysdate() > now() THEN 2 ELSE 3 END",
    ] {
        let (_, guard) = gate(server, "chance", None, 5).await;
        let sql = format!("DELETE FROM par WHERE {chance}");
        let outcome = guard.execute(&sql, &Params::None, &session).await;
        match outcome {
            Outcome::Rejected(refusal) if refusal.rejection.code() == Code::LimitAffectedRows => {}
            other => panic!("{sql}: {other:?}"),
        }
    }
}

/// No row comes, from the look to the change, that the condition would find.
async fn no_row_comes_meanwhile(server: &'static Server) {
    let slow = "CREATE TRIGGER slow BEFORE DELETE ON par FOR EACH ROW DO SLEEP(3)";
    let (database, guard) = gate(server, "meanwhile", Some(slow), 20).await;
    let session = Session::new(Principal::new("Agent", "a"));
    let other = std::thread::spawn(move || {
        // While a trigger runs, servers show its statement or the one that set it off.
        let running = format!(
            "SELECT COUNT(*) FROM information_schema.processlist
             WHERE db = '{database}' AND (info LIKE 'DELETE%' OR info LIKE 'DO SLEEP%')"
        );
        let is_running = || database.query(&running).trim() != "0";
        let seen = (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            is_running()
        });
        assert!(seen, "the DELETE was never seen");
        let insert = "SET innodb_lock_wait_timeout = 1; INSERT INTO par (id, k) VALUES (50, 'aa')";
        database
            .try_query(insert)
            .map_err(|error| error.to_string())
    });
    let sql = "DELETE FROM par WHERE k >= 'a' AND k < 'b'";
    let outcome = guard.execute(sql, &Params::None, &session).await;
    assert!(matches!(outcome, Outcome::Rows(_)), "{outcome:?}");
    let why = other.join().unwrap().unwrap_err();
    assert!(why.contains("Lock wait timeout"), "{why}");
}

#[tokio::test]
async fn no_row_comes_meanwhile_on_mariadb() {
    no_row_comes_meanwhile(MariaDbServer::start_shared().unwrap()).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn no_row_comes_meanwhile_on_mysql_9() {
    no_row_comes_meanwhile(MySqlServer::start_shared().unwrap()).await;
}
