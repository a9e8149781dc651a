//! MariaDB and MySQL: their common types, and what each has alone.

use palisade_mysql::{MysqlBackend, MysqlConfig};
use palisade_testkit::servers::{MariaDbServer, MySqlServer, Server};

use crate::{Back, Type, gate, of, page, script, there_and_back};

const fn bytes(name: &'static str, literal: &'static str) -> Type {
    of(name, literal).spelt("bytes")
}

/// A geometry, which an account gets as the server keeps it.
const fn shape(name: &'static str, literal: &'static str) -> Type {
    bytes(name, literal).note("as it is stored: four bytes of the reference system, then WKB")
}

const COMMON: &[Type] = &[
    of("tinyint", "-128"),
    of("tinyint unsigned", "255"),
    of("smallint", "-32768"),
    of("mediumint unsigned", "16777215"),
    of("int", "-2147483648"),
    of("int unsigned zerofill", "5").note("without the zeros of the text protocol"),
    of("bigint", "-9223372036854775808").beside("-9223372036854775807"),
    of("bigint unsigned", "18446744073709551615").beside("18446744073709551614"),
    of("boolean", "TRUE").note("a `tinyint`"),
    of("bit(1)", "b'1'"),
    of("bit(12)", "b'100000000001'").note("a number"),
    of(
        "bit(64)",
        "b'1111111111111111111111111111111111111111111111111111111111111111'",
    )
    .beside("18446744073709551614")
    .back(Back::Found("v = CAST(? AS DECIMAL(20))"))
    .stored_as("CAST(? AS DECIMAL(20))")
    .note("beyond 2^63 a `CAST` makes the string a number"),
    of(
        "decimal(65, 30)",
        "12345678901234567890123456789012345.123456789012345678901234567890",
    )
    .beside("12345678901234567890123456789012345.123456789012345678901234567891"),
    of("float", "1.1")
        .beside("1.1000001")
        .back(Back::Found("v = CAST(? AS FLOAT)"))
        .note("the engine compares a `float` with a parameter as doubles"),
    of("double", "0.30000000000000004").beside("0.3"),
    of("double", "2.5e-300"),
    of("date", "'2026-01-02'"),
    of("date", "'0000-00-00'"),
    of("date", "'2026-00-00'"),
    of("datetime", "'2026-01-02 03:04:05'"),
    of("datetime(6)", "'2026-01-02 03:04:05.600000'"),
    of("datetime", "'0000-00-00 00:00:00'"),
    of("timestamp(3) NULL", "'2026-01-02 03:04:05.678'").note("in UTC"),
    of("time", "'-838:59:59'"),
    of("time(6)", "'00:00:00.000001'"),
    of("year", "2026"),
    of("year", "0"),
    of("char(3)", "'a'"),
    of("varchar(9)", "'ü😀'"),
    of("varchar(9) CHARACTER SET latin1", "'ü'"),
    of("tinytext", "'it''s'"),
    of("text", "'a\\0b\\\\'"),
    of("mediumtext", "'x'"),
    of("longtext", "'x'"),
    bytes("binary(3)", "'ab'"),
    bytes("varbinary(9)", "x'00ff'"),
    bytes("tinyblob", "x'01'"),
    bytes("blob", "x''"),
    bytes("mediumblob", "x'01'"),
    bytes("longblob", "x'01'"),
    of("enum('x', 'y')", "'y'"),
    of("set('p', 'q')", "'p,q'"),
    shape("geometry", "POINT(1, 2)"),
    shape("point", "POINT(0.1, -2)"),
    shape("linestring", "ST_GeomFromText('LINESTRING(0 0, 1 1)')"),
    shape(
        "polygon",
        "ST_GeomFromText('POLYGON((0 0, 1 0, 1 1, 0 0))')",
    ),
    shape(
        "multipoint",
        "ST_GeomFromText('MULTIPOINT(0 0, 1 1)', 4326)",
    ),
    shape(
        "multilinestring",
        "ST_GeomFromText('MULTILINESTRING((0 0, 1 1))')",
    ),
    shape(
        "multipolygon",
        "ST_GeomFromText('MULTIPOLYGON(((0 0, 1 0, 1 1, 0 0)))')",
    ),
    shape(
        "geometrycollection",
        "ST_GeomFromText('GEOMETRYCOLLECTION(POINT(0 0))')",
    ),
];

const MARIADB: &[Type] = &[
    of("json", "'{\"a\": 1.10, \"a\": [null]}'").note("text, as it was stored"),
    of("uuid", "'00000000-0000-4000-8000-00000000000A'"),
    of("inet4", "'10.0.0.1'"),
    of("inet6", "'::ffff:10.0.0.1'"),
];

const MYSQL: &[Type] = &[
    of("json", "'{\"b\": 1.10, \"a\": [null], \"a\": 2}'")
        .back(Back::Found("v = CAST(? AS JSON)"))
        .note("as the server keeps it: sorted, numbers as doubles, the last of several keys"),
    bytes("vector(2)", "STRING_TO_VECTOR('[0.1, -2]')")
        .note("floats of four bytes, the lowest first"),
];

async fn section(server: &Server, own: &[Type]) -> String {
    let mut rows = String::new();
    for types in [COMMON, own] {
        let database = server.fresh_database("types").unwrap();
        // Zero dates are stored by sessions that are not strict about them.
        let script = format!("SET sql_mode = '', time_zone = '+00:00'; {}", script(types));
        server.load(&database, &script).unwrap().clean().unwrap();
        let config = MysqlConfig::from_url(&server.url(&database)).unwrap();
        let backend = MysqlBackend::connect(config.accept_powerful().writable())
            .await
            .unwrap();
        rows.push_str(&there_and_back(&gate(backend), types, "?").await);
    }
    rows
}

#[tokio::test]
async fn mariadb_sends_every_type_there_and_back() {
    page::check(
        "MariaDB",
        &section(MariaDbServer::shared().unwrap(), MARIADB).await,
    );
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn mysql_9_sends_every_type_there_and_back() {
    page::check(
        "MySQL",
        &section(MySqlServer::shared().unwrap(), MYSQL).await,
    );
}
