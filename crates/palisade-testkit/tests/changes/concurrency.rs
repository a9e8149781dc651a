//! Another transaction between the look for what a change must not leave and the change: the change sees the rows that
//! were looked at, or fails and may be sent again.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use mysql_async::prelude::Queryable as _;
use palisade::{
    code::Code,
    firewall::Decision,
    guard::{Backend, Guard, Outcome},
    limits::Limits,
    rejection::Rejection,
    rewrite::RewrittenStatement,
    session::{Principal, Session},
    value::Params,
};
use palisade_postgres::{PostgresBackend, PostgresConfig};
use palisade_testkit::{
    fixture::policy_sources,
    live::changing_gate,
    servers::{MariaDbServer, MySqlServer, PgBouncer, Server},
};
use tokio::task::JoinHandle;

use crate::database::{TestDatabase, TestFile};

const ROWS: &str = "
CREATE TABLE accounts (id int PRIMARY KEY, tenant int NOT NULL, name varchar(20));
INSERT INTO accounts VALUES (1, 1, 'ann'), (2, 1, 'bob');
";

/// What is asked for: rows of one's own tenant, as both are.
const CHANGE: &str = "UPDATE accounts SET name = 'x' WHERE id < 9";

/// What another transaction does meanwhile.
const MEANWHILE: &str = "UPDATE accounts SET tenant = 2 WHERE id = 2";

/// How long another transaction of SQLite takes: the change could look in that time, if it did.
const WHILE: Duration = Duration::from_millis(300);

const CONTENTS: &str = "SELECT id, tenant, name FROM accounts ORDER BY id";

fn session() -> Session {
    Session::new(Principal::new("Agent", "a"))
}

/// A gate over `backend`, by which rows are changed that are of tenant 1 afterwards.
fn gate<B: Backend>(backend: B, schema: &str) -> Arc<Guard> {
    let text = format!(
        "permit(principal, action, resource);
         forbid(principal, action == Action::\"add\", resource is row::{schema}::accounts)
         unless {{ resource.tenant == 1 }};"
    );
    let policies = policy_sources(text);
    Arc::new(changing_gate(backend, policies))
}

/// What would be run, and before it.
fn rewritten(gate: &Guard) -> RewrittenStatement {
    let limits = Limits::default();
    let firewall = gate.firewall();
    match firewall.check_within(CHANGE, &Params::None, &session(), &limits) {
        Ok(Decision::Allow(statement)) => {
            assert_eq!(palisade::danger::parts(&statement).prechecks.len(), 1);
            *statement
        }
        other => panic!("{other:?}"),
    }
}

/// The change on its way through the gate.
fn begun(gate: &Arc<Guard>) -> JoinHandle<Outcome> {
    let gate = Arc::clone(gate);
    tokio::spawn(async move { gate.execute(CHANGE, &Params::None, &session()).await })
}

async fn refusal(running: JoinHandle<Outcome>) -> Rejection {
    match running.await.unwrap().into_result() {
        Err(refusal) => refusal.rejection,
        Ok(rows) => panic!("{:?} rows were changed", rows.affected_rows()),
    }
}

/// The refusal says to try again, and nothing of what is there.
fn is_retried(why: &Rejection, code: Code) {
    let told = why.for_agent();
    assert_eq!(why.code(), code, "{:?}", why.operator_detail());
    assert!(told.retryable, "{told:?}");
    assert_eq!(why.message(), code.summary());
}

/// Until the server says that a session waits.
async fn wait(database: &TestDatabase<'_>, waiting: &str) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        // InnoDB tells what it told before, to whoever asks again within a tenth of a second.
        tokio::time::sleep(Duration::from_millis(150)).await;
        if database.query(waiting) != "0" {
            return;
        }
        assert!(Instant::now() < deadline, "no session waits");
    }
}

async fn on_postgres(label: &str) -> (TestDatabase<'static>, Arc<Guard>) {
    let database = TestDatabase::postgres(label, ROWS);
    let gate = gate(database.postgres_backend().await, "public");
    (database, gate)
}

async fn waits_on_postgres(database: &TestDatabase<'_>) {
    let waiting = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}' AND wait_event_type = 'Lock'"
    );
    wait(database, &waiting).await;
}

#[tokio::test]
async fn on_postgres_a_row_that_changed_meanwhile_refuses_the_change() {
    let (database, gate) = on_postgres("races").await;
    let (one, other) = (
        database.postgres_client().await,
        database.postgres_client().await,
    );
    // Where each statement sees what was committed before it, the row is left out.
    let statement = rewritten(&gate);
    one.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED")
        .await
        .unwrap();
    let found = one
        .query(palisade::danger::parts(&statement).prechecks[0].sql(), &[])
        .await
        .unwrap();
    assert!(found.is_empty());
    other.batch_execute(MEANWHILE).await.unwrap();
    assert_eq!(
        one.execute(palisade::danger::parts(&statement).sql, &[])
            .await
            .unwrap(),
        1
    );
    one.batch_execute("ROLLBACK").await.unwrap();
    other
        .batch_execute("UPDATE accounts SET tenant = 1")
        .await
        .unwrap();

    other
        .batch_execute(&format!("BEGIN; {MEANWHILE}"))
        .await
        .unwrap();
    let running = begun(&gate);
    waits_on_postgres(&database).await;
    other.batch_execute("COMMIT").await.unwrap();
    is_retried(&refusal(running).await, Code::DatabaseConflict);
    assert_eq!(database.query(CONTENTS), "1\t1\tann\n2\t2\tbob");
    // Sent again, it is decided over what is there.
    let again = refusal(begun(&gate)).await;
    assert_eq!(again.code(), Code::WriteRowNotAdmitted);
}

/// The transaction sees the state that was when it began, and definitions as they are under its locks.
#[tokio::test]
async fn on_postgres_a_definition_that_changed_meanwhile_refuses_the_change() {
    for definition in [
        "ALTER TABLE accounts ADD COLUMN more int",
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; \
         CREATE TRIGGER t BEFORE UPDATE ON accounts FOR EACH ROW EXECUTE FUNCTION f()",
    ] {
        let (database, gate) = on_postgres("defined").await;
        let other = database.postgres_client().await;
        other
            .batch_execute(&format!("BEGIN; {definition}"))
            .await
            .unwrap();
        let running = begun(&gate);
        waits_on_postgres(&database).await;
        other.batch_execute("COMMIT").await.unwrap();
        is_retried(&refusal(running).await, Code::DatabaseSchemaChanged);
        let changed = "SELECT count(*) FROM accounts WHERE name = 'x'";
        assert_eq!(database.query(changed), "0");
    }
}

/// An account that may do what is asked for, and nothing else.
fn writer(database: &TestDatabase<'_>) -> String {
    let role = format!("writer_{database}");
    let script = format!(
        "CREATE ROLE {role} LOGIN; GRANT SELECT (id, tenant), UPDATE (name) ON accounts TO {role}"
    );
    database.query(&script);
    role
}

async fn changes_both(config: PostgresConfig) {
    let backend = PostgresBackend::connect(config.writable()).await.unwrap();
    let gate = gate(backend, "public");
    // What looks at the schema is used again.
    for _ in 0..2 {
        let outcome = gate.execute(CHANGE, &Params::None, &session()).await;
        match outcome.into_result() {
            Ok(rows) => assert_eq!(rows.affected_rows(), Some(2)),
            Err(refusal) => panic!("{:?}", refusal.rejection),
        }
    }
}

#[tokio::test]
async fn on_postgres_a_look_takes_no_more_rights_than_the_change() {
    let database = TestDatabase::postgres("rights", ROWS);
    let url = database.url_as(&writer(&database));
    changes_both(PostgresConfig::from_url(&url).unwrap()).await;
}

#[tokio::test]
#[ignore = "needs PgBouncer: cargo xtask test runs it"]
async fn on_postgres_a_look_goes_through_a_pooler() {
    let database = TestDatabase::postgres("pooled", ROWS);
    let role = writer(&database);
    let settings = ["default_pool_size = 2"];
    let pooler = PgBouncer::start_before(database.server(), &[&role], &settings).unwrap();
    let config = PostgresConfig::from_url(&pooler.url_as(&role, database.name())).unwrap();
    changes_both(config.pooled_by_transaction()).await;
}

async fn on_mysql(server: &'static Server, label: &str) -> (TestDatabase<'static>, Arc<Guard>) {
    let database = TestDatabase::on(server, label, ROWS);
    let gate = gate(database.mysql_backend().await, database.name());
    (database, gate)
}

async fn waits_on_mysql(database: &TestDatabase<'_>) {
    let waiting = format!(
        "SELECT COUNT(*) FROM information_schema.INNODB_TRX t
         JOIN information_schema.PROCESSLIST p ON p.ID = t.trx_mysql_thread_id
         WHERE p.DB = '{database}' AND t.trx_state = 'LOCK WAIT'"
    );
    wait(database, &waiting).await;
}

async fn refuses_on_mysql(server: &'static Server) {
    let (database, gate) = on_mysql(server, "races").await;
    let (mut one, mut other) = (database.mysql_client().await, database.mysql_client().await);
    // Where each statement sees what was committed before it, the row is left out.
    let statement = rewritten(&gate);
    for sql in [
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "START TRANSACTION",
    ] {
        one.query_drop(sql).await.unwrap();
    }
    let found: Option<i64> = one
        .query_first(palisade::danger::parts(&statement).prechecks[0].sql())
        .await
        .unwrap();
    assert_eq!(found, None);
    other.query_drop(MEANWHILE).await.unwrap();
    one.query_drop(palisade::danger::parts(&statement).sql)
        .await
        .unwrap();
    assert_eq!(one.affected_rows(), 1);
    one.query_drop("ROLLBACK").await.unwrap();

    let hold = async |other: &mut mysql_async::Conn| {
        let anew = "UPDATE accounts SET tenant = 1";
        for sql in [anew, "START TRANSACTION", MEANWHILE] {
            other.query_drop(sql).await.unwrap();
        }
    };
    // Whoever looks waits for the other, and finds what it left.
    hold(&mut other).await;
    let running = begun(&gate);
    waits_on_mysql(&database).await;
    other.query_drop("COMMIT").await.unwrap();
    assert_eq!(refusal(running).await.code(), Code::WriteRowNotAdmitted);
    // Each waits for the other: what has changed nothing yet is taken back.
    hold(&mut other).await;
    let running = begun(&gate);
    waits_on_mysql(&database).await;
    other
        .query_drop("UPDATE accounts SET tenant = 2 WHERE id = 1")
        .await
        .unwrap();
    is_retried(&refusal(running).await, Code::DatabaseConflict);
    // And whoever does not end is waited for a second.
    is_retried(&refusal(begun(&gate)).await, Code::ChangeBusy);
    other.query_drop("ROLLBACK").await.unwrap();
    assert_eq!(database.query(CONTENTS), "1\t1\tann\n2\t1\tbob");
    match gate
        .execute(CHANGE, &Params::None, &session())
        .await
        .into_result()
    {
        Ok(rows) => assert_eq!(rows.affected_rows(), Some(2)),
        Err(refusal) => panic!("{}", refusal.rejection),
    }
}

/// Another transaction adds a conflicting row meanwhile: the precheck of a replacing statement waits for it.
async fn conflicts_on_mysql(server: &'static Server) {
    let database = TestDatabase::on(server, "conflicts", ROWS);
    let text = format!(
        "permit(principal, action, resource);
         forbid(principal, action in [Action::\"see\", Action::\"add\"], resource is row::{database}::accounts)
         unless {{ resource.tenant == 1 }};"
    );
    let policies = policy_sources(text);
    let gate = Arc::new(changing_gate(database.mysql_backend().await, policies));
    let mut other = database.mysql_client().await;
    for (id, sql) in [
        (
            7,
            "REPLACE INTO accounts (id, tenant, name) VALUES (7, 1, 'x')",
        ),
        (
            8,
            "INSERT INTO accounts (id, tenant, name) VALUES (8, 1, 'x') ON DUPLICATE KEY UPDATE name = 'x'",
        ),
    ] {
        other.query_drop("START TRANSACTION").await.unwrap();
        let add = format!("INSERT INTO accounts VALUES ({id}, 2, 'eve')");
        other.query_drop(add).await.unwrap();
        let own = Arc::clone(&gate);
        let running =
            tokio::spawn(async move { own.execute(sql, &Params::None, &session()).await });
        waits_on_mysql(&database).await;
        other.query_drop("COMMIT").await.unwrap();
        assert_eq!(refusal(running).await.code(), Code::DatabaseConstraint);
        let kept = format!("SELECT tenant, name FROM accounts WHERE id = {id}");
        assert_eq!(database.query(&kept), "2\teve");
    }
}

#[tokio::test]
async fn on_mariadb_a_row_that_came_meanwhile_conflicts() {
    conflicts_on_mysql(MariaDbServer::start_shared().unwrap()).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn on_mysql_9_a_row_that_came_meanwhile_conflicts() {
    conflicts_on_mysql(MySqlServer::start_shared().unwrap()).await;
}

#[tokio::test]
async fn on_mariadb_a_row_that_changed_meanwhile_refuses_the_change() {
    refuses_on_mysql(MariaDbServer::start_shared().unwrap()).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn on_mysql_9_a_row_that_changed_meanwhile_refuses_the_change() {
    refuses_on_mysql(MySqlServer::start_shared().unwrap()).await;
}

/// SQLite has one writer at a time, and a change is one from its beginning: what another has begun is waited for, and
/// looked at as it left it.
#[tokio::test]
async fn on_sqlite_no_other_session_writes_between_the_look_and_the_change() {
    for mode in ["delete", "wal"] {
        let file = TestFile::new(ROWS);
        let other = file.open_bare();
        other
            .pragma_update_and_check(None, "journal_mode", mode, |_| Ok(()))
            .unwrap();
        let backend = file.backend();
        let gate = gate(backend, "main");
        rewritten(&gate);
        other
            .execute_batch(&format!("BEGIN IMMEDIATE; {MEANWHILE}"))
            .unwrap();
        let ending = thread::spawn(move || {
            thread::sleep(WHILE);
            other.execute_batch("COMMIT").unwrap();
        });
        let start = Instant::now();
        let why = refusal(begun(&gate)).await;
        assert!(start.elapsed() >= WHILE, "{mode}");
        ending.join().unwrap();
        assert_eq!(
            why.code(),
            Code::WriteRowNotAdmitted,
            "{mode} {:?}",
            why.operator_detail()
        );
    }
}
