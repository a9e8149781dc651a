//! MariaDB and MySQL: their common types, and what each has alone.

use std::{collections::BTreeSet, fmt::Write as _};

use palisade_testkit::servers::{MariaDbServer, MySqlServer, Server};

use super::{Back, Type, gate, page, roundtrip, script, there_and_back};

use crate::database::TestDatabase;

const fn bytes(name: &'static str, literal: &'static str) -> Type {
    roundtrip(name, literal).spelt("bytes")
}

/// A geometry, which an account gets as the server keeps it.
const fn shape(name: &'static str, literal: &'static str) -> Type {
    bytes(name, literal).note("as it is stored: four bytes of the reference system, then WKB")
}

const COMMON: &[Type] = &[
    roundtrip("tinyint", "-128"),
    roundtrip("tinyint unsigned", "255"),
    roundtrip("smallint", "-32768"),
    roundtrip("mediumint unsigned", "16777215"),
    roundtrip("int", "-2147483648"),
    roundtrip("int unsigned zerofill", "5").note("without the zeros of the text protocol"),
    roundtrip("bigint", "-9223372036854775808").neighbour("-9223372036854775807"),
    roundtrip("bigint unsigned", "18446744073709551615").neighbour("18446744073709551614"),
    roundtrip("boolean", "TRUE").note("a `tinyint`"),
    roundtrip("bit(1)", "b'1'"),
    roundtrip("bit(12)", "b'100000000001'").note("a number"),
    roundtrip(
        "bit(64)",
        "b'1111111111111111111111111111111111111111111111111111111111111111'",
    )
    .neighbour("18446744073709551614")
    .back(Back::Found("v = CAST(? AS DECIMAL(20))"))
    .stored_as("CAST(? AS DECIMAL(20))")
    .note("beyond 2^63 a `CAST` makes the string a number"),
    roundtrip(
        "decimal(65, 30)",
        "12345678901234567890123456789012345.123456789012345678901234567890",
    )
    .neighbour("12345678901234567890123456789012345.123456789012345678901234567891"),
    roundtrip("float", "1.1")
        .neighbour("1.1000001")
        .back(Back::Found("v = CAST(? AS FLOAT)"))
        .note("the engine compares a `float` with a parameter as doubles"),
    roundtrip("double", "0.30000000000000004").neighbour("0.3"),
    roundtrip("double", "2.5e-300"),
    roundtrip("date", "'2026-01-02'"),
    roundtrip("date", "'0000-00-00'"),
    roundtrip("date", "'2026-00-00'"),
    roundtrip("datetime", "'2026-01-02 03:04:05'"),
    roundtrip("datetime(6)", "'2026-01-02 03:04:05.600000'"),
    roundtrip("datetime", "'0000-00-00 00:00:00'"),
    roundtrip("timestamp(3) NULL", "'2026-01-02 03:04:05.678'").note("in UTC"),
    roundtrip("time", "'-838:59:59'"),
    roundtrip("time(6)", "'00:00:00.000001'"),
    roundtrip("year", "2026"),
    roundtrip("year", "0"),
    roundtrip("char(3)", "'a'"),
    roundtrip("varchar(9)", "'ü😀'"),
    roundtrip("varchar(9) CHARACTER SET latin1", "'ü'"),
    roundtrip("tinytext", "'it''s'"),
    roundtrip("text", "'a\\0b\\\\'"),
    roundtrip("mediumtext", "'x'"),
    roundtrip("longtext", "'x'"),
    bytes("binary(3)", "'ab'"),
    bytes("varbinary(9)", "x'00ff'"),
    bytes("tinyblob", "x'01'"),
    bytes("blob", "x''"),
    bytes("mediumblob", "x'01'"),
    bytes("longblob", "x'01'"),
    roundtrip("enum('x', 'y')", "'y'"),
    roundtrip("set('p', 'q')", "'p,q'"),
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
    roundtrip("json", "'{\"a\": 1.10, \"a\": [null]}'").note("text, as it was stored"),
    roundtrip("uuid", "'00000000-0000-4000-8000-00000000000A'"),
    roundtrip("inet4", "'10.0.0.1'"),
    roundtrip("inet6", "'::ffff:10.0.0.1'"),
];

const MYSQL: &[Type] = &[
    roundtrip("json", "'{\"b\": 1.10, \"a\": [null], \"a\": 2}'")
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
        // Zero dates are stored by sessions that are not strict about them.
        let script = format!("SET sql_mode = '', time_zone = '+00:00'; {}", script(types));
        let database = TestDatabase::on(server, "types", &script);
        let backend = database.mysql_backend().await;
        rows.push_str(&there_and_back(&gate(backend), types, "?").await);
    }
    rows
}

#[tokio::test]
async fn mariadb_sends_every_type_there_and_back() {
    page::check(
        "MariaDB",
        &section(MariaDbServer::start_shared().unwrap(), MARIADB).await,
    );
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn mysql_9_sends_every_type_there_and_back() {
    page::check(
        "MySQL",
        &section(MySqlServer::start_shared().unwrap(), MYSQL).await,
    );
}
