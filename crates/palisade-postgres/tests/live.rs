//! A PostgreSQL database that changes while it is served.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

use std::sync::Arc;

use palisade::guard::Guard;
use palisade_postgres::{PostgresBackend, PostgresConfig};
use palisade_testkit::{
    live::{
        Ddl, SCRIPT, ddl_widens_nothing, follows_its_own_definitions, follows_the_policies,
        follows_the_schema, gate, still_gate,
    },
    servers::PostgresServer,
};

async fn database(label: &str) -> (Guard, Ddl) {
    let server = PostgresServer::start_shared().unwrap();
    let database = server.fresh_database(label).unwrap();
    let role = format!("reader_{database}");
    let rights = format!(
        "CREATE ROLE {role} LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role};
         ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO {role};"
    );
    let script = format!("{SCRIPT}{rights}");
    server.load(&database, &script).unwrap().clean().unwrap();
    let config = PostgresConfig::from_url(&server.url_as(&role, &database)).unwrap();
    let backend = PostgresBackend::connect(config).await.unwrap();
    let ddl: Ddl = Arc::new(move |sql| {
        server.query(&database, sql).unwrap();
    });
    (gate(backend, "public"), ddl)
}

#[tokio::test]
async fn postgres_follows_the_schema() {
    let (guard, ddl) = database("live_schema").await;
    follows_the_schema(&guard, &ddl).await;
}

#[tokio::test]
async fn postgres_follows_the_policies() {
    let (guard, ddl) = database("live_policies").await;
    follows_the_policies(&guard, "public", &ddl).await;
}

#[tokio::test]
async fn postgres_follows_its_own_definitions() {
    let server = PostgresServer::start_shared().unwrap();
    let database = server.fresh_database("live_own").unwrap();
    let role = format!("writer_{database}");
    let rights = format!(
        "CREATE ROLE {role} LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role};
         GRANT USAGE, CREATE ON SCHEMA public TO {role};"
    );
    let script = format!("{SCRIPT}{rights}");
    server.load(&database, &script).unwrap().clean().unwrap();
    let config = PostgresConfig::from_url(&server.url_as(&role, &database)).unwrap();
    let backend = PostgresBackend::connect(config.writable()).await.unwrap();
    follows_its_own_definitions(&still_gate(backend, "public")).await;
}

#[tokio::test]
async fn ddl_widens_nothing_on_postgres() {
    let (guard, ddl) = database("live_race").await;
    ddl_widens_nothing(&guard, &ddl, |query| {
        format!("CREATE OR REPLACE VIEW shown AS {query}")
    })
    .await;
}
