//! Databases of several servers: which is read, which is changed, and what happens when one of them ends.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use palisade::{
    change::{ChangeState, ChangeStore},
    code::Code,
    guard::{ChangeCall, ChangeProposal, Guard, Outcome, Request},
    limits::Limits,
    past::{HistoryOrder, LabelStore},
    policy::PolicySources,
    session::{Principal, Session},
    value::Params,
};
use palisade_mysql::{MysqlBackend, MysqlConfig};
use palisade_postgres::{PostgresBackend, PostgresConfig};
use palisade_state::{ApprovalOptions, ApprovalStore};
use palisade_testkit::{
    fixture::policy_sources,
    live::changing_gate,
    servers::{GaleraCluster, MariaDbServer, PostgresServer, Server},
};
use serde_json::{Value, json};

const SHOP: &str = "
CREATE TABLE items (id integer PRIMARY KEY, tenant integer NOT NULL, name varchar(20), price integer);
INSERT INTO items VALUES (1, 1, 'ink', 5), (2, 1, 'pen', 7), (3, 2, 'canary', 9);
";

/// Rows of tenant 1 are seen and changed.
const POLICIES: &str = r#"
permit(principal, action, resource);
forbid(principal, action, resource is row::SCHEMA::items) unless { resource.tenant == 1 };
"#;

/// The functions that tell where a statement runs, and that take long.
const CALLS: &str = r#"
permit(principal, action == Action::"call", resource == Function::"NAME");
"#;

/// The policies for tables in `schema`, with these functions.
fn policies(schema: &str, functions: &[&str]) -> PolicySources {
    let calls = functions.iter().map(|name| CALLS.replace("NAME", name));
    policy_sources(POLICIES.replace("SCHEMA", schema) + &calls.collect::<String>())
}

/// What is asked of the rows.
const ROWS: &str = "SELECT id, name FROM items ORDER BY id";

fn session() -> Session {
    Session::new(Principal::new("Agent", "a"))
}

/// The rows of an answer, or the code of the refusal.
fn rows(outcome: Outcome) -> Result<Value, Code> {
    match outcome.into_result() {
        Ok(envelope) => {
            let answer = serde_json::to_value(&envelope).unwrap();
            assert!(!answer.to_string().contains("canary"), "{answer}");
            let rows = answer["rows"].as_array().unwrap().iter();
            let cells = |row: &Value| row.as_object().unwrap().values().cloned().collect();
            Ok(rows.map(|row| Value::Array(cells(row))).collect())
        }
        Err(refusal) => {
            println!("{}", refusal.rejection);
            println!("  {:?}", refusal.rejection.operator_detail());
            Err(refusal.rejection.code())
        }
    }
}

async fn ask(guard: &Guard, sql: &str) -> Result<Value, Code> {
    rows(guard.query(sql, &Params::None, &session()).await)
}

/// How many rows a change changes.
async fn change(guard: &Guard, sql: &str) -> Result<u64, Code> {
    let outcome = guard.execute(sql, &Params::None, &session()).await;
    match outcome.into_result() {
        Ok(envelope) => Ok(envelope.affected_rows().unwrap()),
        Err(refusal) => {
            println!("{}", refusal.rejection);
            println!("  {:?}", refusal.rejection.operator_detail());
            Err(refusal.rejection.code())
        }
    }
}

/// Asks until the answer is what is expected.
async fn wait_for(guard: &Guard, sql: &str, expected: &Value) {
    let begun = Instant::now();
    loop {
        let found = ask(guard, sql).await;
        if found.as_ref() == Ok(expected) {
            return;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{sql}: {found:?}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits for what a server says of itself.
fn wait_until(server: &Server, database: &str, sql: &str, expected: &str) {
    let begun = Instant::now();
    loop {
        let found = server.query(database, sql);
        if found.as_deref().ok() == Some(expected) {
            return;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{sql}: {found:?}"
        );
        thread::sleep(Duration::from_millis(20));
    }
}

/// A primary and its standby, with the shop in the database `postgres`.
fn postgres_pair() -> (PostgresServer, PostgresServer) {
    let primary = PostgresServer::start().unwrap();
    primary.load("postgres", SHOP).unwrap().clean().unwrap();
    let standby = PostgresServer::start_standby(&primary).unwrap();
    (primary, standby)
}

fn postgres_config(servers: &[&Server], target: &str) -> PostgresConfig {
    let hosts: Vec<String> = servers
        .iter()
        .map(|server| format!("127.0.0.1:{}", server.port()))
        .collect();
    let url = format!(
        "postgres://postgres@{}/postgres?target_session_attrs={target}",
        hosts.join(",")
    );
    PostgresConfig::from_url(&url).unwrap().accept_superuser()
}

async fn postgres_guard(config: PostgresConfig) -> Guard {
    let backend = PostgresBackend::connect(config).await.unwrap();
    let functions = ["pg_catalog.pg_is_in_recovery", "pg_catalog.pg_sleep"];
    with_store(changing_gate(backend, policies("public", &functions)))
}

/// The same with a place for changes and moments.
fn with_store(guard: Guard) -> Guard {
    let store = Arc::new(ApprovalStore::in_memory(ApprovalOptions::default()).unwrap());
    guard
        .with_labels(Arc::clone(&store) as Arc<dyn LabelStore>)
        .with_changes(store as Arc<dyn ChangeStore>)
}

/// Proposes a change, looks at it and keeps it; how many cells of rows that are there it changes.
async fn change_in_steps(guard: &Guard, sql: &str) -> usize {
    let session = session();
    let call = ChangeCall::new(&session);
    let statements = [(sql.to_owned(), Params::None)];
    let proposed = guard
        .propose_change(ChangeProposal::new(&statements), call)
        .await;
    let id = proposed.unwrap_or_else(|why| panic!("{why:?}")).change;
    let looked = guard.validate_change(&id, call).await;
    let looked = looked.unwrap_or_else(|why| panic!("{why:?}"));
    let kept = guard.commit_change(&id, call).await;
    let kept = kept.unwrap_or_else(|why| panic!("{why:?}"));
    assert_eq!(kept.state, ChangeState::Committed);
    let shown = serde_json::to_value(&looked.preview.unwrap().rows).unwrap();
    shown["rows"].as_array().unwrap().len()
}

/// A server ends while it answers; the statement says so before its time is up.
async fn is_told(guard: &Guard, slow: &str, end: impl FnOnce()) {
    let asked = async {
        let begun = Instant::now();
        (ask(guard, slow).await, begun.elapsed())
    };
    let ended = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        end();
    };
    let ((found, took), ()) = tokio::join!(asked, ended);
    assert_eq!(found, Err(Code::DatabaseUnavailable));
    assert!(took < Duration::from_secs(5), "{took:?}");
}

const IS_STANDBY: &str = "SELECT pg_is_in_recovery() AS s";

#[tokio::test]
async fn postgres_reads_the_standby_and_changes_the_primary() {
    let (primary, standby) = postgres_pair();
    let both = [&*primary, &*standby];
    let config = postgres_config(&both, "prefer-standby").writable();
    let guard = postgres_guard(config).await;
    assert_eq!(ask(&guard, IS_STANDBY).await.unwrap(), json!([[true]]));
    assert_eq!(
        ask(&guard, ROWS).await.unwrap(),
        json!([[1, "ink"], [2, "pen"]])
    );
    // No other tenant's row, on either.
    let sql = "UPDATE items SET name = 'nib', price = price + 1 WHERE id >= 2";
    assert_eq!(change(&guard, sql).await, Ok(1));
    wait_for(&guard, ROWS, &json!([[1, "ink"], [2, "nib"]])).await;
    let found = standby.query("postgres", "SELECT name FROM items WHERE id = 3");
    assert_eq!(found.unwrap(), "canary");

    // What changes there is seen here, under the catalog of the standby.
    let added = "ALTER TABLE items ADD COLUMN note text DEFAULT 'new'";
    primary.query("postgres", added).unwrap();
    wait_until(&standby, "postgres", "SELECT count(note) FROM items", "3");
    let note = "SELECT note FROM items WHERE id = 1";
    wait_for(&guard, note, &json!([["new"]])).await;
}

/// The standby stands still: what only the primary can tell is not asked of it.
#[tokio::test]
async fn postgres_asks_the_primary_of_changes_and_of_the_past() {
    let primary = PostgresServer::start().unwrap();
    primary.load("postgres", SHOP).unwrap().clean().unwrap();
    let alone = postgres_guard(postgres_config(&[&primary], "any").writable()).await;
    let script = alone.write_history_script("items", &HistoryOrder::Enable { account: None });
    primary.query("postgres", &script.unwrap()).unwrap();
    let standby = PostgresServer::start_standby(&primary).unwrap();
    let both = [&*primary, &*standby];
    let guard = postgres_guard(postgres_config(&both, "prefer-standby").writable()).await;
    standby
        .query("postgres", "SELECT pg_wal_replay_pause()")
        .unwrap();
    // Rows are looked for before it, and the schema from another session.
    let sql = "INSERT INTO items (id, tenant, name, price) SELECT id + 10, tenant, name, price FROM items WHERE id = 1";
    assert_eq!(change(&guard, sql).await, Ok(1));
    let update = "UPDATE items SET price = 6 WHERE id = 11";
    assert_eq!(change_in_steps(&guard, update).await, 1);
    let prices = "SELECT id, price FROM items WHERE id IN (1, 11) ORDER BY id";
    guard.create_snapshot("then", &session()).await.unwrap();
    let update = "UPDATE items SET price = 8 WHERE id = 11";
    assert_eq!(change(&guard, update).await, Ok(1));
    let session = session();
    let request = Request::statement(prices, &Params::None, &session).as_of(Some("then"));
    let (outcome, _) = guard.answer(request).await;
    assert_eq!(rows(outcome).unwrap(), json!([[1, 5], [11, 6]]));
    // The standby knows of none of it.
    assert_eq!(ask(&guard, prices).await.unwrap(), json!([[1, 5]]));
}

#[tokio::test]
async fn postgres_goes_on_with_the_next_server() {
    let (primary, standby) = postgres_pair();
    let both = [&*primary, &*standby];
    let guard = postgres_guard(postgres_config(&both, "standby")).await;
    let other = postgres_guard(postgres_config(&both, "any")).await;
    let spread = postgres_guard(postgres_config(&both, "prefer-standby").writable()).await;
    assert_eq!(ask(&other, IS_STANDBY).await.unwrap(), json!([[false]]));
    assert_eq!(
        change(&spread, "UPDATE items SET price = 1 WHERE id = 1").await,
        Ok(1)
    );

    // The first server ends while it answers.
    is_told(
        &other,
        "SELECT pg_sleep(15) FROM items WHERE id = 1",
        || drop(primary),
    )
    .await;
    assert_eq!(ask(&other, IS_STANDBY).await.unwrap(), json!([[true]]));
    assert_eq!(
        ask(&guard, ROWS).await.unwrap(),
        json!([[1, "ink"], [2, "pen"]])
    );

    // Neither can be changed now, and then the standby can.
    let sql = "UPDATE items SET name = 'nib' WHERE id = 2";
    assert_eq!(change(&spread, sql).await, Err(Code::DatabaseUnavailable));
    standby.query("postgres", "SELECT pg_promote()").unwrap();
    assert_eq!(change(&spread, sql).await, Ok(1));
    wait_for(&spread, ROWS, &json!([[1, "ink"], [2, "nib"]])).await;
}

#[tokio::test]
async fn postgres_reads_nothing_that_is_too_old() {
    const LAG: Duration = Duration::from_secs(3);
    let (primary, standby) = postgres_pair();
    let both = [&*primary, &*standby];
    let config = postgres_config(&both, "prefer-standby");
    let write = |name: &str| {
        let sql = format!("UPDATE items SET name = '{name}' WHERE id = 2");
        primary.query("postgres", &sql).unwrap();
    };
    let name = "SELECT name FROM items WHERE id = 2";
    // A machine with much to do may take longer than that between two steps.
    let mut tries = 0;
    let guard = loop {
        write("nib");
        wait_until(&standby, "postgres", name, "nib");
        let guard = postgres_guard(config.clone().max_lag(LAG)).await;
        if ask(&guard, IS_STANDBY).await == Ok(json!([[true]])) {
            break guard;
        }
        tries += 1;
        assert!(tries < 10, "the standby is never read");
    };
    // It stands still, and the primary does not.
    standby
        .query("postgres", "SELECT pg_wal_replay_pause()")
        .unwrap();
    write("cap");
    tokio::time::sleep(LAG + Duration::from_millis(500)).await;
    assert_eq!(
        ask(&guard, ROWS).await.unwrap(),
        json!([[1, "ink"], [2, "cap"]])
    );
    assert_eq!(ask(&guard, IS_STANDBY).await.unwrap(), json!([[false]]));
    // Where there is only the standby, nothing is read.
    let config = postgres_config(&both[1..], "any").max_lag(LAG);
    let error = PostgresBackend::connect(config).await.unwrap_err();
    assert!(error.to_string().contains("recent enough"), "{error}");
}

/// A primary and its replica, with the shop in the database `main`.
fn mariadb_pair() -> (MariaDbServer, MariaDbServer) {
    let primary = MariaDbServer::start_with(&["--log-bin=bin", "--server-id=1"]).unwrap();
    primary.create_database("main").unwrap();
    primary.load("main", SHOP).unwrap().clean().unwrap();
    let accounts = "CREATE USER reader@'127.0.0.1'; GRANT SELECT, UPDATE, TRIGGER ON main.* TO reader@'127.0.0.1'; \
         CREATE USER watcher@'127.0.0.1'; GRANT SELECT ON main.* TO watcher@'127.0.0.1'; \
         GRANT SLAVE MONITOR ON *.* TO watcher@'127.0.0.1'";
    primary.query("mysql", accounts).unwrap();
    let replica = MariaDbServer::start_with(&["--server-id=2", "--read-only=1"]).unwrap();
    let follow = format!(
        "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {}, MASTER_USER = 'root', MASTER_CONNECT_RETRY = 1; \
         START SLAVE",
        primary.port()
    );
    replica.query("mysql", &follow).unwrap();
    let granted = "SELECT count(*) FROM mysql.global_priv WHERE user = 'watcher' AND priv LIKE '%\"access\":%' \
         AND JSON_VALUE(priv, '$.access') > 0";
    wait_until(&replica, "mysql", granted, "1");
    (primary, replica)
}

fn mysql_config(account: &str, servers: &[&Server], target: &str) -> MysqlConfig {
    let hosts: Vec<String> = servers
        .iter()
        .map(|server| format!("127.0.0.1:{}", server.port()))
        .collect();
    let url = format!(
        "mariadb://{account}@{}/main?target_session_attrs={target}",
        hosts.join(",")
    );
    MysqlConfig::from_url(&url).unwrap()
}

async fn mysql_guard(config: MysqlConfig) -> Guard {
    let backend = MysqlBackend::connect(config).await.unwrap();
    with_store(changing_gate(backend, policies("main", &["sleep"])))
}

/// Gives the row 2 this name behind the back of whatever the server follows, to tell the servers apart.
fn mark(server: &Server, name: &str) {
    let sql = format!("SET sql_log_bin = 0; UPDATE items SET name = '{name}' WHERE id = 2");
    server.query("main", &sql).unwrap();
}

#[tokio::test]
async fn mariadb_reads_the_replica_and_changes_the_primary() {
    let (primary, replica) = mariadb_pair();
    mark(&replica, "there");
    let both = [&*primary, &*replica];
    let guard = mysql_guard(mysql_config("reader", &both, "prefer-standby").writable()).await;
    assert_eq!(
        ask(&guard, ROWS).await.unwrap(),
        json!([[1, "ink"], [2, "there"]])
    );
    let sql = "UPDATE items SET name = 'nib' WHERE id <> 2";
    assert_eq!(change(&guard, sql).await, Ok(1));
    let here = "SELECT group_concat(name ORDER BY id) FROM items";
    assert_eq!(primary.query("main", here).unwrap(), "nib,pen,canary");
    wait_for(&guard, ROWS, &json!([[1, "nib"], [2, "there"]])).await;

    // A preview of a row that only the primary has.
    let added = "SET sql_log_bin = 0; INSERT INTO items VALUES (9, 1, 'lamp', 30)";
    primary.query("main", added).unwrap();
    let update = "UPDATE items SET price = 31 WHERE id = 9";
    assert_eq!(change_in_steps(&guard, update).await, 1);
    primary
        .query(
            "main",
            "SET sql_log_bin = 0; DELETE FROM items WHERE id = 9",
        )
        .unwrap();

    // The two change places under open sessions.
    replica
        .query("main", "STOP SLAVE; SET GLOBAL read_only = 0")
        .unwrap();
    primary.query("main", "SET GLOBAL read_only = 1").unwrap();
    let sql = "UPDATE items SET name = 'cap' WHERE id = 2";
    assert_eq!(change(&guard, sql).await, Ok(1));
    assert_eq!(primary.query("main", here).unwrap(), "nib,pen,canary");
    assert_eq!(replica.query("main", here).unwrap(), "nib,cap,canary");
}

#[tokio::test]
async fn mariadb_goes_on_with_the_next_server() {
    let (primary, replica) = mariadb_pair();
    let both = [&*primary, &*replica];
    let guard = mysql_guard(mysql_config("reader", &both, "any")).await;
    mark(&primary, "here");
    assert_eq!(
        ask(&guard, ROWS).await.unwrap(),
        json!([[1, "ink"], [2, "here"]])
    );
    is_told(&guard, "SELECT sleep(15) FROM items WHERE id = 1", || {
        drop(primary)
    })
    .await;
    assert_eq!(
        ask(&guard, ROWS).await.unwrap(),
        json!([[1, "ink"], [2, "pen"]])
    );
}

/// Waits until each thread of this process has been stopped: the signal is answered by one after the other, and
/// what still runs on another core can answer a query meanwhile (proc_pid_stat(5): the state `T`).
async fn wait_until_it_stands_still(process: u32) {
    let stands_still = || {
        let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
        threads.flatten().all(|thread| {
            // A thread that has ended meanwhile answers nothing either.
            let Ok(stat) = std::fs::read_to_string(thread.path().join("stat")) else {
                return true;
            };
            stat.rsplit(')').next().unwrap().starts_with(" T")
        })
    };
    let begun = Instant::now();
    while !stands_still() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it still runs");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// One whose machine stands still keeps its connections open, and answers nothing.
#[tokio::test]
async fn a_server_that_says_nothing_is_left() {
    let (primary, replica) = mariadb_pair();
    mark(&primary, "here");
    let both = [&*primary, &*replica];
    let guard = mysql_guard(mysql_config("reader", &both, "any")).await;
    // Several sessions are kept with it.
    let slow = || ask(&guard, "SELECT sleep(0.2) AS s FROM items WHERE id = 1");
    let (one, two, three) = tokio::join!(slow(), slow(), slow());
    assert!(one.is_ok() && two.is_ok() && three.is_ok());
    let signal = |name: &str| {
        let id = primary.process_id().to_string();
        let sent = std::process::Command::new("kill")
            .args([name, &id])
            .status();
        assert!(sent.unwrap().success());
    };
    signal("-STOP");
    wait_until_it_stands_still(primary.process_id()).await;
    let limits = Limits {
        statement_timeout_ms: 2000,
        ..Limits::default()
    };
    let session = session();
    let request = Request::statement(ROWS, &Params::None, &session).with_limits(&limits);
    let (outcome, _) = guard.answer(request).await;
    assert_eq!(rows(outcome), Err(Code::LimitTime));
    let begun = Instant::now();
    assert_eq!(
        ask(&guard, ROWS).await.unwrap(),
        json!([[1, "ink"], [2, "pen"]])
    );
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
    signal("-CONT");
}

#[tokio::test]
async fn mariadb_reads_nothing_that_is_too_old() {
    let (primary, replica) = mariadb_pair();
    mark(&replica, "there");
    let both = [&*primary, &*replica];
    let config = mysql_config("watcher", &both, "prefer-standby");
    let guard = mysql_guard(config.max_lag(Duration::from_secs(2))).await;
    assert_eq!(
        ask(&guard, ROWS).await.unwrap(),
        json!([[1, "ink"], [2, "there"]])
    );
    // It does not know how far behind it is.
    replica.query("main", "STOP SLAVE").unwrap();
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(
        ask(&guard, ROWS).await.unwrap(),
        json!([[1, "ink"], [2, "pen"]])
    );
    let config = mysql_config("watcher", &both[1..], "any").max_lag(Duration::from_secs(2));
    let error = MysqlBackend::connect(config).await.unwrap_err().to_string();
    assert!(error.contains("recent enough"), "{error}");
    // A primary that becomes a standby under its sessions is asked too.
    let config = mysql_config("watcher", &both[..1], "any").max_lag(Duration::from_secs(1));
    let guard = mysql_guard(config).await;
    ask(&guard, ROWS).await.unwrap();
    primary.query("main", "SET GLOBAL read_only = 1").unwrap();
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert_eq!(ask(&guard, ROWS).await, Err(Code::DatabaseUnavailable));
}

#[tokio::test]
#[ignore = "needs Galera: cargo xtask test runs it"]
async fn galera_goes_on_with_the_nodes_that_are_left() {
    let mut cluster = GaleraCluster::start(3).unwrap();
    cluster.node(0).create_database("main").unwrap();
    let loaded = cluster.node(0).load("main", SHOP).unwrap();
    loaded.clean().unwrap();
    let account = "CREATE USER reader@'127.0.0.1'; GRANT SELECT, UPDATE, TRIGGER ON main.* TO reader@'127.0.0.1'";
    cluster.node(0).query("mysql", account).unwrap();
    let names = "SELECT group_concat(name ORDER BY id) FROM items";
    wait_until(cluster.node(2), "main", names, "ink,pen,canary");
    let granted = "SELECT count(*) FROM mysql.db WHERE user = 'reader'";
    wait_until(cluster.node(1), "mysql", granted, "1");
    let servers = [cluster.node(0), cluster.node(1), cluster.node(2)];
    let guard = mysql_guard(mysql_config("reader", &servers, "any").writable()).await;
    let update = "UPDATE items SET name = 'nib' WHERE id > 1";
    assert_eq!(change(&guard, update).await, Ok(1));
    wait_until(cluster.node(2), "main", names, "ink,nib,canary");

    // The first node is killed while it answers. Those that are left agree on it, and go on.
    is_told(&guard, "SELECT sleep(15) FROM items WHERE id = 1", || {
        cluster.kill(0)
    })
    .await;
    wait_for(&guard, ROWS, &json!([[1, "ink"], [2, "nib"]])).await;
    let update = "UPDATE items SET name = 'cap' WHERE id > 1";
    let begun = Instant::now();
    while change(&guard, update).await != Ok(1) {
        assert!(begun.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    wait_until(cluster.node(2), "main", names, "ink,cap,canary");

    // A node that is alone does not know what the others do, and is not read.
    cluster.kill(1);
    let ready = "SHOW STATUS LIKE 'wsrep_ready'";
    wait_until(cluster.node(2), "mysql", ready, "wsrep_ready\tOFF");
    assert_eq!(ask(&guard, ROWS).await, Err(Code::DatabaseUnavailable));
    assert_eq!(change(&guard, update).await, Err(Code::DatabaseUnavailable));
}
