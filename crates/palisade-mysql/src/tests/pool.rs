//! Sessions: clean, bounded, and back after the server closed them.

use std::time::{Duration, Instant};

use palisade::{guard::BackendErrorKind as Kind, value::Value};
use palisade_testkit::{
    ask::{Ask as _, two_run_and_two_wait},
    servers::{MariaDbServer, MySqlServer, Server},
};

use super::{Query, Shop};
use crate::{MysqlBackend, MysqlConfig};

const STATE: &str = "SELECT CONCAT_WS(' ', COALESCE(CAST(@a AS CHAR), 'none'), COALESCE(CAST(IS_USED_LOCK('l') AS CHAR), 'free'), @@session.sql_mode,
    @@session.time_zone, IF(@@session.autocommit, 1, 0), @@session.group_concat_max_len, DATABASE(), @@character_set_client,
    @@session.lock_wait_timeout, CONNECTION_ID()) AS s";

async fn clean(shop: &Shop) {
    let before = shop.query(STATE).cell().await;
    for sql in [
        "SELECT @a := 5 AS a, GET_LOCK('l', 0) AS l",
        // Set, and then an error.
        "SELECT @a := 6 AS a, GET_LOCK('l', 0) AS l, (SELECT 1 UNION SELECT 2) AS two",
    ] {
        let _ = shop.query(sql).run().await;
        assert_eq!(shop.query(STATE).cell().await, before, "{sql}");
    }
    let Value::Text(state) = before else {
        panic!("no text");
    };
    let state = String::from_utf8(state).unwrap();
    assert!(state.starts_with("none free "), "{state}");
    assert!(state.contains("STRICT_TRANS_TABLES"), "{state}");
    assert!(state.contains(" +00:00 1 "), "{state}");
}

#[tokio::test]
async fn nothing_of_a_statement_is_left_to_the_next() {
    clean(&Shop::with("clean", |config| config.connections(1, 8)).await).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn nothing_of_a_statement_is_left_to_the_next_on_mysql_9() {
    let server: &Server = MySqlServer::start_shared().unwrap();
    clean(&Shop::on(server, "clean", |config| config.connections(1, 8)).await).await;
}

#[tokio::test]
async fn what_is_pinned_does_not_depend_on_the_servers_settings() {
    let server = Box::leak(Box::new(MariaDbServer::start().unwrap()));
    server
        .query(
            "mysql",
            "SET GLOBAL sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES', GLOBAL time_zone = '+09:00', GLOBAL lc_time_names = 'de_DE',
                GLOBAL div_precision_increment = 9, GLOBAL autocommit = 0",
        )
        .unwrap();
    let shop = Shop::on(server, "pinned", |config| config).await;
    let cell = shop
        .query(
            r#"SELECT CONCAT_WS(' ', "a", 'it\'s', 1 / 3, MONTHNAME('2026-03-04'), FROM_UNIXTIME(0), 0 || 1) AS s"#,
        )
        .cell()
        .await;
    assert_eq!(
        cell,
        Value::text("a it's 0.3333 March 1970-01-01 00:00:00 1")
    );
    let view = shop
        .backend
        .catalog()
        .find(&shop.database, "names")
        .unwrap();
    assert!(view.definition.as_deref().unwrap().contains('`'));
}

#[tokio::test]
async fn connections_and_those_who_wait_are_bounded() {
    let shop = Shop::with("bounded", |config| config.connections(2, 2)).await;
    let sleep = shop.query("SELECT SLEEP(0.7)").within_ms(20_000);
    two_run_and_two_wait(&sleep, Duration::from_millis(700)).await;
    assert_eq!(shop.sessions(), 2);
}

#[tokio::test]
async fn sessions_that_the_server_closed_are_not_noticed() {
    let shop = Shop::with("closed", |config| config.connections(1, 1)).await;
    let Value::Integer(id) = shop.query("SELECT CONNECTION_ID()").cell().await else {
        panic!("no id");
    };
    shop.ask(&format!("KILL {id}"));
    assert_ne!(
        shop.query("SELECT CONNECTION_ID()").cell().await,
        Value::Integer(id)
    );
    // In the middle of a statement it is.
    let query = shop.query("SELECT SLEEP(30)").within_ms(20_000);
    let running = tokio::spawn(async move { query.run().await.map(|_| ()) });
    let start = Instant::now();
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let id = shop.ask(&format!(
            "SELECT id FROM information_schema.PROCESSLIST WHERE user = 'agent_{}' AND info LIKE 'SELECT SLEEP%'",
            shop.database
        ));
        if !id.is_empty() {
            shop.ask(&format!("KILL {id}"));
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(10));
    }
    let error = running.await.unwrap().unwrap_err();
    assert_eq!(error.kind, Kind::Unavailable, "{error}");
    shop.query("SELECT 1").run().await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_gone() {
    let server = MariaDbServer::start().unwrap();
    server.create_database("shop").unwrap();
    let config = MysqlConfig::from_url(&server.url("shop"))
        .unwrap()
        .accept_powerful();
    let backend = MysqlBackend::connect(config.clone()).await.unwrap();
    let shop = Shop::new("gone2").await;
    let query = Query {
        backend,
        relations: Vec::new(),
        ..shop.query("SELECT 1")
    };
    query.run().await.unwrap();
    drop(server);
    let error = query.fails().await;
    assert_eq!(error.kind, Kind::Unavailable, "{error}");
    let error = MysqlBackend::connect(config).await.unwrap_err();
    assert!(error.to_string().contains("cannot connect"), "{error}");
}
