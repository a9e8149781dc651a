//! Every type, both ways.

use palisade::{guard::BackendErrorKind as Kind, value::Value};
use palisade_testkit::{
    ask::Ask as _,
    servers::{MariaDbServer, MySqlServer, Server},
};

use super::Shop;

async fn types(shop: &Shop) {
    shop.ask(
        "SET sql_mode = ''; CREATE TABLE ty (ti tinyint, bu bigint unsigned, bi bigint, f float, d double, n decimal(65,30),
            b1 bit(1), b12 bit(12), da date, dt datetime(3), ts timestamp NULL, ti3 time(3), y year, c char(3), v varchar(20),
            e enum('x','y'), s set('p','q'), tx text, bin binary(3), vb varbinary(9), bl blob, j json, g point, bo boolean);
         INSERT INTO ty VALUES (-128, 18446744073709551615, -9223372036854775808, 1.1, 2.5e-300,
            12345678901234567890123456789012345.123456789012345678901234567890, b'1', b'100000000001', '0000-00-00',
            '2026-01-02 03:04:05.067', '2026-01-02 00:00:00', '-838:59:58.5', 2026, 'a', 'ä😀', 'y', 'p,q', 'text', 'ab', x'00ff', x'01',
            '{\"a\": 1.10}', POINT(1, 2), true);
         INSERT INTO ty () VALUES ()",
    );
    let reads: Vec<String> = shop
        .ask(&format!(
            "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = '{}' AND TABLE_NAME = 'ty' ORDER BY ORDINAL_POSITION",
            shop.database
        ))
        .lines()
        .map(str::to_owned)
        .collect();
    let backend = shop.backend.refresh().await.unwrap().unwrap();
    let query = super::Query {
        backend,
        reads: reads
            .iter()
            .map(|c| ("ty".to_owned(), c.to_owned()))
            .collect(),
        relations: vec![format!("{}.ty", shop.database)],
        ..shop.query("SELECT * FROM ty ORDER BY ti IS NULL")
    };
    let rows = query.run().await.unwrap();
    let t = Value::text;
    let point = Value::Blob(
        [
            &[0, 0, 0, 0, 1, 1, 0, 0, 0][..],
            &1_f64.to_le_bytes(),
            &2_f64.to_le_bytes(),
        ]
        .concat(),
    );
    let expected = [
        ("ti", Value::Integer(-128)),
        ("bu", t("18446744073709551615")),
        ("bi", Value::Integer(i64::MIN)),
        ("f", Value::Real(1.1)),
        ("d", Value::Real(2.5e-300)),
        (
            "n",
            t("12345678901234567890123456789012345.123456789012345678901234567890"),
        ),
        ("b1", Value::Integer(1)),
        ("b12", Value::Integer(2049)),
        ("da", t("0000-00-00")),
        ("dt", t("2026-01-02 03:04:05.067")),
        ("ts", t("2026-01-02 00:00:00")),
        ("ti3", t("-838:59:58.500")),
        ("y", Value::Integer(2026)),
        ("c", t("a")),
        ("v", t("ä😀")),
        ("e", t("y")),
        ("s", t("p,q")),
        ("tx", t("text")),
        ("bin", Value::Blob(b"ab\0".to_vec())),
        ("vb", Value::Blob(vec![0, 255])),
        ("bl", Value::Blob(vec![1])),
        ("j", t("{\"a\": 1.10}")),
        ("g", point),
        ("bo", Value::Integer(1)),
    ];
    for (index, (name, value)) in expected.iter().enumerate() {
        assert_eq!(rows.names[index], *name);
        // MySQL keeps JSON parsed and prints its numbers anew.
        let same = rows.rows[0][index] == *value
            || (*name == "j" && rows.rows[0][index] == t("{\"a\": 1.1}"));
        assert!(same, "{name}: {:?}", rows.rows[0][index]);
    }
    assert!(rows.rows[1].iter().all(|cell| *cell == Value::Null));
    // Expressions.
    for (sql, value) in [
        ("SELECT COUNT(*) AS n FROM users", Value::Integer(2)),
        ("SELECT SUM(id) AS n FROM users", t("3")),
        ("SELECT AVG(id) AS n FROM users", t("1.5000")),
        ("SELECT 1 = 1 AS n", Value::Integer(1)),
        (
            "SELECT CONCAT(id, name) AS n FROM users WHERE id = 1",
            t("1ann"),
        ),
        (
            "SELECT CAST('a' AS BINARY) AS n",
            Value::Blob(b"a".to_vec()),
        ),
        ("SELECT DATE '2026-01-02' AS n", t("2026-01-02")),
        (
            "SELECT TIMESTAMP '2026-01-02 03:04:05' AS n",
            t("2026-01-02 03:04:05"),
        ),
        ("SELECT DATE_FORMAT('2026-01-02', '%Y') AS n", t("2026")),
        ("SELECT NULL AS n", Value::Null),
    ] {
        assert_eq!(shop.query(sql).cell().await, value, "{sql}");
    }
}

#[tokio::test]
async fn every_type() {
    types(&Shop::new("types").await).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn every_type_of_mysql_9() {
    let server: &Server = MySqlServer::start_shared().unwrap();
    types(&Shop::on(server, "types", |config| config).await).await;
}

#[tokio::test]
async fn types_of_mariadb_alone() {
    let shop = Shop::new("maria").await;
    for (sql, value) in [
        (
            "SELECT CAST('123e4567-e89b-12d3-a456-426655440000' AS uuid) AS n",
            Value::text("123e4567-e89b-12d3-a456-426655440000"),
        ),
        ("SELECT CAST('::1' AS inet6) AS n", Value::text("::1")),
    ] {
        assert_eq!(shop.query(sql).cell().await, value, "{sql}");
    }
}

#[tokio::test]
async fn parameters() {
    let shop = Shop::new("params").await;
    let check = async |sql: &str, params: Vec<Value>, expected: Value| {
        assert_eq!(
            shop.query(sql).params(params).cell().await,
            expected,
            "{sql}"
        );
    };
    check(
        "SELECT name FROM users WHERE id = ? AND name <> ?",
        vec![Value::Integer(1), Value::text("x' OR '1'='1")],
        Value::text("ann"),
    )
    .await;
    check(
        "SELECT id FROM users ORDER BY id LIMIT ?",
        vec![Value::Integer(1)],
        Value::Integer(1),
    )
    .await;
    check(
        "SELECT ? IS NULL AS n",
        vec![Value::Null],
        Value::Integer(1),
    )
    .await;
    check(
        "SELECT ? + 1 AS n",
        vec![Value::Bool(true)],
        Value::Integer(2),
    )
    .await;
    check(
        "SELECT ? * 2 AS n",
        vec![Value::Real(0.25)],
        Value::Real(0.5),
    )
    .await;
    check(
        "SELECT HEX(?) AS n",
        vec![Value::Blob(vec![0x27, 0x5c])],
        Value::text("275C"),
    )
    .await;
    for (params, kind) in [
        (Vec::new(), Kind::SecondLock),
        (vec![Value::Null, Value::Null], Kind::SecondLock),
        (vec![Value::Real(f64::INFINITY)], Kind::Rejected),
    ] {
        let error = shop.query("SELECT ? AS n").params(params).fails().await;
        assert_eq!(error.kind, kind, "{error}");
    }
    // What the driver would take for a parameter of its own.
    let error = shop.query("SELECT CONCAT(-':a', 'b') AS n").fails().await;
    assert_eq!(error.kind, Kind::Rejected, "{error}");
    check("SELECT ':a ?' AS n", Vec::new(), Value::text(":a ?")).await;
}

/// Both servers send it, and the driver stops there.
async fn too_large(server: &'static Server) {
    let shop = Shop::on(server, "large", |config| config).await;
    let most: usize = shop
        .ask("SELECT @@max_allowed_packet")
        .trim()
        .parse()
        .unwrap();
    let half = most / 2 + 1000;
    let sql = format!("SELECT REPEAT('a', {half}) AS a, REPEAT('b', {half}) AS b");
    let error = shop.query(&sql).fails().await;
    assert_eq!(error.kind, Kind::Resource, "{error}");
    // The next one has a session of its own.
    let one = shop.query("SELECT 1 AS n").cell().await;
    assert_eq!(one, Value::Integer(1));
}

#[tokio::test]
async fn a_row_larger_than_a_packet_is_told_on_mariadb() {
    too_large(MariaDbServer::start_shared().unwrap()).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn a_row_larger_than_a_packet_is_told_on_mysql_9() {
    too_large(MySqlServer::start_shared().unwrap()).await;
}
