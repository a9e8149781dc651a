//! Sessions: clean, bounded, and back after a restart.

use std::time::{Duration, Instant};

use palisade::{guard::BackendErrorKind as Kind, value::Value};
use palisade_testkit::ask::{Ask as _, two_run_and_two_wait};

use palisade_pool::Connector as _;
use tokio::runtime::Handle;

use super::{ADVISORY_LOCKS, Shop};
use crate::{
    PostgresBackend, PostgresConfig,
    connect::{Cleaning, Connector},
};

impl Shop {
    /// Sessions of our backends.
    pub(super) fn sessions(&self) -> usize {
        self.ask(&format!(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND application_name = 'palisade'",
            self.database
        ))
        .parse()
        .unwrap()
    }
}

/// No answer waits for a cleaning. So what uses the session next looks whether it went well, and has it done again if not.
#[tokio::test]
async fn a_cleaning_that_failed_is_done_again_before_the_session_is_used() {
    let shop = Shop::new("again").await;
    let locks = || shop.ask(ADVISORY_LOCKS);
    let connector =
        Connector::new(&PostgresConfig::from_url(&shop.server.url(&shop.database)).unwrap());
    let mut session = connector.connect(&Handle::current()).await.unwrap();
    let lock = "SELECT pg_advisory_lock(7)";
    session.client.batch_execute(lock).await.unwrap();
    let failing = session.client.simple_query_raw("SELECT 1 / 0").await;
    session.cleaning = Cleaning::Sent(failing.unwrap());
    assert!(connector.is_cleaning(&session));
    assert_eq!(locks(), "1");
    assert!(connector.may_stay(&mut session).await);
    assert_eq!(locks(), "0");
    // One that went well is not.
    session.client.batch_execute(lock).await.unwrap();
    let done = session.client.simple_query_raw("SELECT 1").await;
    session.cleaning = Cleaning::Sent(done.unwrap());
    assert!(connector.may_stay(&mut session).await);
    assert_eq!(locks(), "1");
    // And a session that is gone is not used.
    let sent = session
        .client
        .simple_query_raw("SELECT pg_terminate_backend(pg_backend_pid())")
        .await;
    session.cleaning = Cleaning::Sent(sent.unwrap());
    assert!(!connector.may_stay(&mut session).await);
}

#[tokio::test]
async fn nothing_of_a_statement_is_left_to_the_next() {
    let shop = Shop::with("clean", |config| config.connections(1, 8)).await;
    let state = &format!("SELECT current_setting('search_path') || current_setting('work_mem') || current_setting('TimeZone')
         || current_user || session_user || coalesce(current_setting('my.var', true), '')
         || ({ADVISORY_LOCKS})
         || (SELECT count(*) FROM pg_listening_channels()) || (SELECT count(*) FROM pg_cursors) || pg_backend_pid()");
    let before = shop.query(state).cell().await;
    for sql in [
        "SELECT set_config('search_path', 'hr', false), set_config('work_mem', '1GB', false), set_config('my.var', 'left', false)",
        "SELECT set_config('TimeZone', 'Europe/Paris', false), set_config('role', 'none', false)",
        "SELECT pg_advisory_lock(7), pg_advisory_lock_shared(8)",
        // Set, and then an error.
        "SELECT set_config('work_mem', '1GB', false), pg_advisory_lock(9), 1 / 0",
    ] {
        let _ = shop.query(sql).run().await;
        assert_eq!(shop.query(state).cell().await, before, "{sql}");
    }
    let superuser = shop.superuser().await;
    superuser
        .query("SELECT set_config('session_authorization', 'pg_monitor', false)")
        .run()
        .await
        .unwrap();
    let who = superuser
        .query("SELECT session_user::text || current_user::text")
        .cell()
        .await;
    assert_eq!(who, Value::text("postgrespostgres"));
}

#[tokio::test]
async fn what_is_pinned_does_not_depend_on_the_roles_settings() {
    let shop = Shop::new("pinned").await;
    shop.ask(&format!(
        "ALTER ROLE agent_{0} SET TimeZone = 'Asia/Tokyo'; ALTER ROLE agent_{0} SET DateStyle = 'German, DMY';
         ALTER ROLE agent_{0} SET IntervalStyle = 'iso_8601'; ALTER ROLE agent_{0} SET bytea_output = 'escape';
         ALTER ROLE agent_{0} SET extra_float_digits = 0; ALTER ROLE agent_{0} SET standard_conforming_strings = off;
         ALTER ROLE agent_{0} SET search_path = hr; ALTER ROLE agent_{0} SET statement_timeout = 1;
         ALTER ROLE agent_{0} SET row_security = off; ALTER ROLE agent_{0} SET default_transaction_isolation = 'serializable'",
        shop.database
    ));
    let url = shop
        .server
        .url_as(&format!("agent_{}", shop.database), &shop.database);
    // The time-out of a millisecond would hold for reading the catalog.
    shop.ask(&format!(
        "ALTER ROLE agent_{0} RESET statement_timeout",
        shop.database
    ));
    let backend = PostgresBackend::connect(PostgresConfig::from_url(&url).unwrap())
        .await
        .unwrap();
    let shop = Shop { backend, ..shop };
    // The first statement of a session, and those that find what it keeps.
    for _ in 0..3 {
        let cell = shop
            .query(
                r"SELECT concat_ws(' ', timestamptz '2026-03-04 05:06:07+00', date '2026-03-04', interval '1 day 2 h', '\x00ff'::bytea,
                     0.1::float4 + 0.2::float8, 'a\b', current_setting('row_security'), current_setting('transaction_read_only'),
                     current_setting('search_path'), current_setting('statement_timeout'), current_setting('lock_timeout'))",
            )
            .within_ms(3000)
            .cell()
            .await;
        assert_eq!(
            cell,
            Value::text(
                r#"2026-03-04 05:06:07+00 2026-03-04 1 day 02:00:00 \x00ff 0.30000000149011613 a\b on on "public", pg_temp 3s 1s"#
            )
        );
    }
}

#[tokio::test]
async fn connections_and_those_who_wait_are_bounded() {
    let shop = Shop::with("bounded", |config| config.connections(2, 2)).await;
    let sleep = shop.query("SELECT pg_sleep(0.7)").within_ms(10_000);
    two_run_and_two_wait(&sleep, Duration::from_millis(700)).await;
    assert_eq!(shop.sessions(), 2);
    // Who waits too long gives up.
    let (long, short) = (
        sleep.clone().within_ms(20_000),
        shop.query("SELECT 1").within_ms(100),
    );
    let long = [long.clone(), long].map(|q| tokio::spawn(async move { q.run().await.map(|_| ()) }));
    tokio::time::sleep(Duration::from_millis(100)).await;
    let error = short.fails().await;
    assert_eq!(error.kind, Kind::Busy, "{error}");
    for task in long {
        task.await.unwrap().unwrap();
    }
    short.run().await.unwrap();
}

#[tokio::test]
async fn abandoned_statements_do_not_exhaust_the_pool() {
    let shop = Shop::with("abandoned", |config| config.connections(2, 2)).await;
    for _ in 0..5 {
        let query = shop.query("SELECT pg_sleep(30)").within_ms(60_000);
        let running = query.run();
        let _ = tokio::time::timeout(Duration::from_millis(50), running).await;
    }
    shop.query("SELECT 1").run().await.unwrap();
}

#[tokio::test]
async fn a_restarted_server_recovers() {
    // One of its own: a session that dies by a signal takes all others with it.
    let server = super::start();
    server.create_database("shop").unwrap();
    let config = PostgresConfig::from_url(&server.url("shop"))
        .unwrap()
        .accept_superuser();
    let backend = PostgresBackend::connect(config).await.unwrap();
    let shop = Shop::new("restart").await;
    let query = |sql: &str| super::Query {
        backend: backend.clone(),
        relations: Vec::new(),
        ..shop.query(sql)
    };
    let Value::Integer(pid) = query("SELECT pg_backend_pid()").cell().await else {
        panic!("no pid");
    };
    let sleeping = query("SELECT pg_sleep(30)").within_ms(60_000);
    let sleeping = tokio::spawn(async move { sleeping.run().await.map(|_| ()) });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let killed = std::process::Command::new("kill")
        .args(["-KILL", &pid.to_string()])
        .status()
        .unwrap();
    assert!(killed.success());
    let error = sleeping.await.unwrap().unwrap_err();
    assert_eq!(error.kind, Kind::Unavailable, "{error}");
    // The server starts itself anew; the backend needs no help for it.
    let start = Instant::now();
    loop {
        match query("SELECT 1").run().await {
            Ok(_) => break,
            Err(error) => assert_eq!(error.kind, Kind::Unavailable, "{error}"),
        }
        assert!(start.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn an_idle_session_that_the_server_closed_is_not_noticed() {
    let shop = Shop::with("closed", |config| config.connections(1, 1)).await;
    let pid = shop.query("SELECT pg_backend_pid()").cell().await;
    shop.ask(&format!(
        "SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity WHERE datname = '{}' AND application_name = 'palisade'",
        shop.database
    ));
    assert_ne!(shop.query("SELECT pg_backend_pid()").cell().await, pid);
}

#[tokio::test]
async fn nobody_there() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = PostgresConfig::from_url(&format!("postgres://a@127.0.0.1:{port}/b")).unwrap();
    // Somebody listens and says nothing.
    let start = Instant::now();
    let error =
        PostgresBackend::connect(config.clone().connect_timeout(Duration::from_millis(200))).await;
    assert!(error.is_err_and(|e| e.to_string().contains("cannot connect")));
    assert!(start.elapsed() < Duration::from_secs(2));
    drop(listener);
    let error = PostgresBackend::connect(config).await;
    assert!(error.is_err_and(|e| e.to_string().contains("cannot connect")));
}

#[tokio::test]
async fn sockets_of_the_file_system() {
    let shop = Shop::new("socket").await;
    let folder = shop.server.folder().display().to_string();
    let url = format!(
        "postgres://agent_{0}@{1}:{2}/{0}",
        shop.database,
        folder.replace('/', "%2F"),
        shop.server.port()
    );
    let backend = PostgresBackend::connect(PostgresConfig::from_url(&url).unwrap())
        .await
        .unwrap();
    let shop = Shop { backend, ..shop };
    let address = shop.query("SELECT inet_client_addr()").cell().await;
    assert_eq!(address, Value::Null);
    let sleeping = shop.query("SELECT pg_sleep(30)").within_ms(60_000);
    let _ = tokio::time::timeout(Duration::from_millis(200), sleeping.run()).await;
    let start = Instant::now();
    while !shop.busy().is_empty() {
        assert!(start.elapsed() < Duration::from_secs(5), "{}", shop.busy());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
