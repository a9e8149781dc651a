//! PostgreSQL: a statement that is prepared, then read as text through a cursor.

use std::{future::poll_fn, pin::pin};

use futures_core::Stream as _;
use palisade_postgres::{PostgresBackend, PostgresConfig};
use palisade_testkit::servers::PostgresServer;
use tokio_postgres::{Client, SimpleQueryMessage, Statement, types::Type};

use crate::{
    Case, Driver, ROWS,
    filtered::{self, ORDERS, ROW, TABLES},
    json::Rows,
};

/// Rows of a batch, as many as the backend comes to ask for.
const BATCH: u32 = 5000;

pub(crate) async fn bench(cases: &[Case]) {
    let server = PostgresServer::start().unwrap();
    server
        .query(
            "postgres",
            &format!(
                "CREATE TABLE t AS SELECT i AS id, i::int8 * 1000 AS big, 'customer ' || i || ' of the north' AS name,
                    timestamp '2026-01-01' + i * interval '1 second' AS at, i / 7.0 AS ratio
                 FROM generate_series(1, {ROWS}) AS i; VACUUM ANALYZE t"
            ),
        )
        .unwrap();
    server
        .query(
            "postgres",
            &format!(
                "{TABLES}
                 INSERT INTO orders SELECT {} FROM generate_series(1, {ORDERS}) AS i;
                 INSERT INTO rates SELECT {} FROM generate_series(1, 100) AS i; ANALYZE orders; ANALYZE rates",
                ROW[0].replace("i * 7919", "i::int8 * 7919"),
                ROW[1]
            ),
        )
        .unwrap();
    let url = server.url("postgres");
    let config = PostgresConfig::from_url(&url).unwrap().accept_superuser();
    let backend = PostgresBackend::connect(config).await.unwrap();
    let mut driver = Bare(palisade_postgres::connect(&url).await.unwrap());
    let catalog = backend.catalog().clone();
    crate::bench(
        "postgres",
        cases,
        catalog.clone(),
        backend.clone(),
        &mut driver,
    )
    .await;
    filtered::bench(
        "postgres",
        "public",
        "1000 / r.k",
        catalog,
        backend,
        &mut driver,
    )
    .await;
}

struct Bare(Client);

impl Driver for Bare {
    async fn same_way(&mut self, sql: &str) -> Vec<u8> {
        let client = &self.0;
        client.batch_execute("BEGIN READ ONLY").await.unwrap();
        let statement = client.prepare(sql).await.unwrap();
        let declare = format!("DECLARE c NO SCROLL CURSOR FOR {sql}");
        client.execute_typed(&declare, &[]).await.unwrap();
        let mut rows = Printed::new(&statement);
        let fetch = format!("FETCH FORWARD {BATCH} FROM c");
        while rows.read(client, &fetch).await == BATCH {}
        client.batch_execute("ROLLBACK").await.unwrap();
        rows.json.finish()
    }

    async fn fastest(&mut self, sql: &str) -> Vec<u8> {
        let client = &self.0;
        let statement = client.prepare(sql).await.unwrap();
        let mut rows = Printed::new(&statement);
        rows.read(client, sql).await;
        rows.json.finish()
    }
}

/// Rows as the server prints them.
struct Printed {
    json: Rows,
    /// Whether a column's text is JSON as it stands.
    numbers: Vec<bool>,
}

impl Printed {
    fn new(statement: &Statement) -> Self {
        let is_number = |ty: &Type| matches!(*ty, Type::INT4 | Type::INT8);
        Self {
            json: Rows::with_names(statement.columns().iter().map(|column| column.name())),
            numbers: statement
                .columns()
                .iter()
                .map(|column| is_number(column.type_()))
                .collect(),
        }
    }

    /// Adds the rows of `sql`, and says how many there were.
    async fn read(&mut self, client: &Client, sql: &str) -> u32 {
        let mut stream = pin!(client.simple_query_raw(sql).await.unwrap());
        let mut rows = 0;
        while let Some(message) = poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
            let SimpleQueryMessage::Row(row) = message.unwrap() else {
                continue;
            };
            rows += 1;
            for (column, is_number) in self.numbers.iter().enumerate() {
                match row.get(column) {
                    None => self.json.null(),
                    Some(text) if *is_number => self.json.raw(text.as_bytes()),
                    Some(text) => self.json.text(text),
                }
            }
        }
        rows
    }
}
