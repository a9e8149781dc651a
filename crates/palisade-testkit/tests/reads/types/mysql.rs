//! MariaDB and MySQL: their common types, and what each has alone.

use std::{collections::BTreeSet, fmt::Write as _};

use palisade_mysql::{MysqlBackend, MysqlConfig};
use palisade_testkit::servers::{MariaDbServer, MySqlServer, Server};

use super::{Back, Type, gate, of, page, script, there_and_back};

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

/// Types that the server calls otherwise than they are declared.
const ALIASES: &[(&str, &str)] = &[("geomcollection", "geometrycollection")];

/// Every type that the server has. It keeps no list: each word that it knows is tried as one, keywords, data types of
/// plugins, functions (of which constructors of geometries are called as their types), and headings of its own help.
fn every_type(server: &Server) -> BTreeSet<String> {
    let database = server.fresh_database("every").unwrap();
    let mut words = "SELECT LOWER(WORD) FROM information_schema.KEYWORDS \
                     UNION SELECT LOWER(name) FROM mysql.help_topic \
                     UNION SELECT LOWER(PLUGIN_NAME) FROM information_schema.PLUGINS"
        .to_owned();
    if server.version().contains("MariaDB") {
        words.push_str(" UNION SELECT LOWER(FUNCTION) FROM information_schema.SQL_FUNCTIONS");
    }
    let words = server.query(&database, &words).unwrap();
    let is_word = |word: &&str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ' ';
        !word.is_empty() && word.chars().all(plain)
    };
    let mut tables = String::new();
    for (number, word) in words.lines().filter(is_word).enumerate() {
        for (form, given) in ["", "(2)", "('a')"].into_iter().enumerate() {
            let _ = writeln!(tables, "CREATE TABLE t{number}_{form} (c {word}{given});");
        }
    }
    // Most words are no types.
    let _ = server.load(&database, &tables).unwrap();
    let columns = format!(
        "SELECT DISTINCT LOWER(DATA_TYPE) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = '{database}'"
    );
    let found = server.query(&database, &columns).unwrap();
    let drop = format!("DROP DATABASE `{database}`");
    server.query(&database, &drop).unwrap();
    found.lines().map(str::to_owned).collect()
}

fn check_every_type(server: &Server, own: &[Type]) {
    let base = |ty: &Type| ty.name.split(['(', ' ']).next().unwrap().to_owned();
    let known: BTreeSet<String> = COMMON.iter().chain(own).map(base).collect();
    let listed = every_type(server);
    // What is there in any case has been found.
    for name in ["bigint", "enum", "varchar", "longtext", "point"] {
        assert!(listed.contains(name), "{name} is not in {listed:?}");
    }
    for name in &listed {
        let alias = ALIASES.iter().find(|(listed, _)| listed == name);
        let name = alias.map_or(name.as_str(), |(_, known)| known);
        assert!(known.contains(name), "{name}");
    }
}

async fn section(server: &Server, own: &[Type]) -> String {
    check_every_type(server, own);
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
