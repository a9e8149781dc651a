//! MariaDB: a statement that is prepared, its rows in the binary protocol.

use std::{future::poll_fn, pin::pin};

use futures_core::Stream as _;
use mysql_async::{
    Conn, QueryResult, Row, TxOpts, Value,
    prelude::{Protocol, Queryable as _},
};
use palisade_mysql::{MysqlBackend, MysqlConfig};
use palisade_testkit::servers::MariaDbServer;

use crate::{
    Case, Driver, ROWS,
    filtered::{self, ORDERS, ROW, TABLES},
    json::Rows,
};

pub(crate) async fn bench(cases: &[Case]) {
    let server = MariaDbServer::start().unwrap();
    server.create_database("bench").unwrap();
    server
        .query(
            "bench",
            &format!(
                "CREATE TABLE t (id int PRIMARY KEY, big bigint, name varchar(40), at datetime, ratio decimal(20, 6));
                 INSERT INTO t SELECT seq, seq * 1000, CONCAT('customer ', seq, ' of the north'), '2026-01-01' + INTERVAL seq SECOND, seq / 7 FROM seq_1_to_{ROWS};"
            ),
        )
        .unwrap();
    let [order, rate] = ROW.map(|row| {
        row.replace("i * ", "seq * ")
            .replace("i %", "seq %")
            .replace("i,", "seq,")
    });
    server
        .query(
            "bench",
            &format!(
                "{TABLES}
                 INSERT INTO orders SELECT {order} FROM seq_1_to_{ORDERS};
                 INSERT INTO rates SELECT {rate} FROM seq_1_to_100;
                 ANALYZE TABLE orders, rates PERSISTENT FOR ALL;"
            ),
        )
        .unwrap();
    let config = MysqlConfig::from_url(&server.url("bench"))
        .unwrap()
        .accept_powerful();
    let mut driver = Bare(palisade_mysql::connect(&config).await.unwrap());
    let backend = MysqlBackend::connect(config).await.unwrap();
    let catalog = backend.catalog().clone();
    crate::bench(
        "mariadb",
        cases,
        catalog.clone(),
        backend.clone(),
        &mut driver,
    )
    .await;
    filtered::bench(
        "mariadb",
        "bench",
        "1000 * r.k",
        catalog,
        backend,
        &mut driver,
    )
    .await;
}

struct Bare(Conn);

impl Driver for Bare {
    async fn same_way(&mut self, sql: &str) -> Vec<u8> {
        let mut options = TxOpts::new();
        options.with_readonly(true);
        let mut transaction = self.0.start_transaction(options).await.unwrap();
        let statement = transaction.prep(sql).await.unwrap();
        let json = read(transaction.exec_iter(&statement, ()).await.unwrap()).await;
        transaction.close(statement).await.unwrap();
        transaction.rollback().await.unwrap();
        json
    }

    async fn fastest(&mut self, sql: &str) -> Vec<u8> {
        let statement = self.0.prep(sql).await.unwrap();
        let json = read(self.0.exec_iter(&statement, ()).await.unwrap()).await;
        self.0.close(statement).await.unwrap();
        json
    }
}

async fn read<P: Protocol + Unpin>(mut result: QueryResult<'_, '_, P>) -> Vec<u8> {
    let mut json = Rows::with_names(
        result
            .columns_ref()
            .iter()
            .map(|column| column.name_str().into_owned())
            .collect::<Vec<_>>()
            .iter()
            .map(String::as_str),
    );
    let mut stream = pin!(result.stream::<Row>().await.unwrap().unwrap());
    while let Some(row) = poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
        for cell in row.unwrap().unwrap() {
            match cell {
                Value::NULL => json.null(),
                Value::Int(number) => json.integer(number),
                Value::UInt(number) => json.integer(i64::try_from(number).unwrap()),
                Value::Bytes(bytes) => json.text(std::str::from_utf8(&bytes).unwrap()),
                Value::Date(year, month, day, hour, minute, second, _) => json.text(&format!(
                    "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"
                )),
                Value::Float(_) | Value::Double(_) | Value::Time(..) => {
                    panic!("the table has no such cell")
                }
            }
        }
    }
    json.finish()
}
