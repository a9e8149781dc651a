//! A MariaDB or MySQL database that changes while it is served.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

use std::sync::Arc;

use palisade::guard::Guard;
use palisade_mysql::{MysqlBackend, MysqlConfig};
use palisade_testkit::{
    live::{
        Ddl, SCRIPT, ddl_widens_nothing, follows_its_own_definitions, follows_the_policies,
        follows_the_schema, gate, still_gate,
    },
    servers::{MariaDbServer, MySqlServer, Server},
};

async fn database(server: &'static Server, label: &str) -> (Guard, Ddl, String) {
    let database = server.fresh_database(label).unwrap();
    let agent = format!("agent_{database}@'127.0.0.1'");
    let rights =
        format!("CREATE USER {agent}; GRANT SELECT, SHOW VIEW ON `{database}`.* TO {agent};");
    let script = format!("{SCRIPT}{rights}");
    server.load(&database, &script).unwrap().clean().unwrap();
    let url = server.url_as(&format!("agent_{database}"), &database);
    let backend = MysqlBackend::connect(MysqlConfig::from_url(&url).unwrap())
        .await
        .unwrap();
    let guard = gate(backend, &database);
    let schema = database.clone();
    let ddl: Ddl = Arc::new(move |sql| {
        server.query(&database, sql).unwrap();
    });
    (guard, ddl, schema)
}

async fn own_definitions(server: &'static Server) {
    let database = server.fresh_database("live_own").unwrap();
    let agent = format!("agent_{database}@'127.0.0.1'");
    let rights = format!(
        "CREATE USER {agent};
         GRANT SELECT, SHOW VIEW, INSERT, CREATE, ALTER, DROP, TRIGGER ON `{database}`.* TO {agent};"
    );
    let script = format!("{SCRIPT}{rights}");
    server.load(&database, &script).unwrap().clean().unwrap();
    let url = server.url_as(&format!("agent_{database}"), &database);
    let config = MysqlConfig::from_url(&url).unwrap().writable();
    let backend = MysqlBackend::connect(config).await.unwrap();
    follows_its_own_definitions(&still_gate(backend, &database)).await;
}

async fn everything(server: &'static Server) {
    let (guard, ddl, _) = database(server, "live_schema").await;
    follows_the_schema(&guard, &ddl).await;
    let (guard, ddl, schema) = database(server, "live_policies").await;
    follows_the_policies(&guard, &schema, &ddl).await;
    let (guard, ddl, _) = database(server, "live_race").await;
    ddl_widens_nothing(&guard, &ddl, |query| {
        format!("CREATE OR REPLACE VIEW shown AS {query}")
    })
    .await;
    own_definitions(server).await;
}

#[tokio::test]
async fn mariadb_is_followed() {
    everything(MariaDbServer::start_shared().unwrap()).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn mysql_9_is_followed() {
    everything(MySqlServer::start_shared().unwrap()).await;
}
