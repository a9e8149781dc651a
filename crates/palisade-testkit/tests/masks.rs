//! What each mask makes of each type, on real databases: `docs/reference/masks.md` is what comes out here.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use std::{fmt::Write as _, path::Path, sync::Arc, time::Duration};

use palisade::{
    audit::NoAudit,
    error::Error,
    firewall::Firewall,
    guard::{Backend, Guard, Outcome},
    host::Host,
    policy::{PolicyFile, PolicySources},
    session::{Principal, Session},
    token::TokenSecret,
    value::Params,
};
use palisade_mysql::{MysqlBackend, MysqlConfig};
use palisade_postgres::{PostgresBackend, PostgresConfig};
use palisade_sqlite::{SqliteBackend, create_database};
use palisade_testkit::servers::{MariaDbServer, MySqlServer, PostgresServer, Server};
use serde_json::Value;

/// The masks, and tokens.
const MASKS: &[&str] = &[
    "null",
    "fixed(***)",
    "first(2)",
    "last(2)",
    "email",
    "date(month)",
    "bucket(100)",
    "expr(upper(substr(value, 1, 3)))",
    "hash",
    "token",
];

/// A type as it is declared, and a value of it.
type Typed = (&'static str, &'static str);

const SQLITE: &[Typed] = &[
    ("INTEGER", "1234"),
    ("REAL", "1234.5"),
    ("NUMERIC", "1234.5"),
    ("TEXT", "'ann@mail.example'"),
    ("BLOB", "x'00ff10203040'"),
    ("BOOLEAN", "1"),
    ("DATE", "'2026-03-14'"),
    ("DATETIME", "'2026-03-14 15:09:26'"),
    ("JSON", "'{\"a\": 1}'"),
];

const POSTGRES: &[Typed] = &[
    ("integer", "1234"),
    ("numeric(10,2)", "1234.50"),
    ("double precision", "1234.5"),
    ("boolean", "true"),
    ("text", "'ann@mail.example'"),
    ("varchar(40)", "'ann@mail.example'"),
    ("char(20)", "'ann@mail.example'"),
    ("mood", "'happy'"),
    ("uuid", "'12345678-9abc-def0-1234-56789abcdef0'"),
    ("date", "'2026-03-14'"),
    ("timestamp", "'2026-03-14 15:09:26'"),
    ("timestamptz", "'2026-03-14 15:09:26+00'"),
    ("time", "'15:09:26'"),
    ("interval", "'3 days'"),
    ("json", "'{\"a\": 1}'"),
    ("jsonb", "'{\"a\": 1}'"),
    ("text[]", "'{ann,bob}'"),
    ("integer[]", "'{12,34}'"),
    ("bytea", "'\\x00ff1020'"),
    ("inet", "'10.1.2.3'"),
];

const MYSQL: &[Typed] = &[
    ("int", "1234"),
    ("decimal(10,2)", "1234.50"),
    ("double", "1234.5"),
    ("boolean", "true"),
    ("text", "'ann@mail.example'"),
    ("varchar(40)", "'ann@mail.example'"),
    ("char(20)", "'ann@mail.example'"),
    ("enum('sad','happy')", "'happy'"),
    ("date", "'2026-03-14'"),
    ("datetime", "'2026-03-14 15:09:26'"),
    ("timestamp", "'2026-03-14 15:09:26'"),
    ("time", "'15:09:26'"),
    ("json", "'{\"a\": 1}'"),
    ("varbinary(20)", "x'00ff1020'"),
];

struct StillHost;

impl Host for StillHost {
    fn unix_time(&self) -> Duration {
        Duration::ZERO
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn random(&self) -> Result<[u8; 16], String> {
        Ok([3; 16])
    }
}

/// A table of these types with two rows: the values, and NULL in every column.
fn script(types: &[Typed]) -> String {
    let columns = |of: &dyn Fn(usize, &Typed) -> String| -> String {
        let all: Vec<_> = types
            .iter()
            .enumerate()
            .map(|(n, typed)| of(n, typed))
            .collect();
        all.join(", ")
    };
    format!(
        "CREATE TABLE t (id int PRIMARY KEY, {}); INSERT INTO t VALUES (1, {}); INSERT INTO t VALUES (2, {});",
        columns(&|n, (name, _)| format!("c{n} {name} NULL")),
        columns(&|_, (_, value)| (*value).to_owned()),
        columns(&|_, _| "NULL".to_owned()),
    )
}

/// The policies that put `mask` before these columns.
fn policies(mask: &str, schema: &str, columns: &[usize]) -> PolicySources {
    let mut text = "permit(principal, action, resource);\n".to_owned();
    for n in columns {
        let column = format!("resource == Column::\"{schema}.t.c{n}\"");
        let _ = if mask == "token" {
            writeln!(
                text,
                "@id(\"{n}\") permit(principal, action == Action::\"read_token\", {column});\n\
                 forbid(principal, action == Action::\"read_plain\", {column});"
            )
        } else {
            writeln!(
                text,
                "@id(\"{n}\") @mask(\"{mask}\") forbid(principal, action == Action::\"read_plain\", {column});"
            )
        };
    }
    PolicySources {
        policies: vec![PolicyFile {
            name: "masks.cedar".to_owned(),
            text,
        }],
        ..PolicySources::default()
    }
}

/// The masked values by column; none where the policies say that the type does not take the mask.
async fn masked<B: Backend + Clone>(
    backend: &B,
    mask: &str,
    schema: &str,
    types: &[Typed],
) -> Vec<Option<Value>> {
    let mut fitting: Vec<usize> = (0..types.len()).collect();
    let load = |columns: &[usize]| {
        Firewall::builder(backend.catalog().clone(), policies(mask, schema, columns))
            .token_secret(TokenSecret::new("0".repeat(32)))
            .build()
    };
    if let Err(Error::Policies(errors)) = load(&fitting) {
        for problem in errors.problems() {
            let column = problem.message.split(".t.c").nth(1).unwrap();
            let digits: String = column.chars().take_while(char::is_ascii_digit).collect();
            fitting.retain(|n| *n != digits.parse::<usize>().unwrap());
        }
    }
    let guard = Guard::new(
        Arc::new(load(&fitting).unwrap()),
        backend.clone(),
        Arc::new(StillHost),
        Arc::new(NoAudit),
    );
    let columns: Vec<String> = (0..types.len()).map(|n| format!("c{n}")).collect();
    let sql = format!("SELECT {} FROM t ORDER BY id", columns.join(", "));
    let session = Session::new(Principal::new("Agent", "a"));
    let envelope = match guard.query(&sql, &Params::None, &session).await {
        Outcome::Rows(envelope) => envelope,
        Outcome::Rejected(refusal) => panic!(
            "{mask}: {} {:?}",
            refusal.rejection,
            refusal.rejection.operator_detail()
        ),
    };
    let answer = serde_json::to_value(&envelope).unwrap();
    let rows = answer["rows"].as_array().unwrap();
    (0..types.len())
        .map(|n| {
            let name = format!("c{n}");
            // NULL stays NULL, whatever the mask.
            assert_eq!(rows[1][&name], Value::Null, "{mask} {:?}", types[n]);
            fitting.contains(&n).then(|| rows[0][&name].clone())
        })
        .collect()
}

/// The section of the manual's page.
async fn section<B: Backend + Clone>(
    heading: &str,
    backend: &B,
    schema: &str,
    types: &[Typed],
) -> String {
    let mut cells = Vec::new();
    for mask in MASKS {
        cells.push(masked(backend, mask, schema, types).await);
    }
    let mut out = format!("## {heading}\n\n| | `{}` |\n|", MASKS.join("` | `"));
    out += &"---|".repeat(MASKS.len() + 1);
    out.push('\n');
    for (n, (name, value)) in types.iter().enumerate() {
        let shown = value.replace('|', "\\|");
        let _ = write!(out, "| `{name}` {shown} |");
        for (mask, cells) in MASKS.iter().zip(&cells) {
            let text = match &cells[n] {
                None => "–".to_owned(),
                Some(Value::String(text)) if *mask == "hash" => {
                    assert!(text.len() == 64, "{name}: {text}");
                    "hash".to_owned()
                }
                Some(Value::String(text)) if text.starts_with("tok_") => "token".to_owned(),
                Some(Value::Null) => "NULL".to_owned(),
                Some(Value::String(text)) => format!("`{text}`"),
                Some(other) => other.to_string(),
            };
            let _ = write!(out, " {text} |");
        }
        out.push('\n');
    }
    out
}

/// That the manual's page has `section`.
fn check(section: &str) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/masks.md");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(
        page.contains(section),
        "docs/reference/masks.md is not what comes out:\n{section}"
    );
}

/// Values that make functions and operators raise where anything does, by type.
type Hostile = (&'static str, &'static [&'static str]);

/// Invalid UTF-8, bytes with zeros, numbers in columns of text and text in columns of numbers, and what is nearly as long
/// as the backend lets a value be.
const HOSTILE_SQLITE: &[Hostile] = &[
    (
        "TEXT",
        &[
            "''",
            "'%_\\'",
            "x'ff00fe80'",
            "CAST(x'f09f98' AS TEXT)",
            "x''",
            "9e999",
            "-9223372036854775808",
            "replace(hex(zeroblob(12000)), '0', 'é')",
        ],
    ),
    (
        "NUMERIC",
        &[
            "9e999",
            "-9e999",
            "9223372036854775807",
            "'abc'",
            "x'ff'",
            "''",
            "1e-320",
        ],
    ),
    ("BOOLEAN", &["0", "2", "'yes'", "x''"]),
    ("DATE", &["'0000-00-00'", "''", "99999999", "x'ff'"]),
];

const HOSTILE_POSTGRES: &[Hostile] = &[
    (
        "text",
        &[
            "''",
            "E'%_\\\\'",
            "E'a\\nb'",
            "U&'\\0130\\00df\\0301'",
            "repeat('é', 1000000)",
        ],
    ),
    ("text COLLATE nobody", &["''", "'abc'", "'ÄÖ'"]),
    ("char(20)", &["''", "'a'"]),
    ("mood", &["'happy'"]),
    ("json", &["'{\"a\": [1, null]}'"]),
    (
        "numeric",
        &[
            "'NaN'",
            "'Infinity'",
            "'-Infinity'",
            "1e300",
            "-1e-300",
            "-9e1000",
        ],
    ),
    (
        "double precision",
        &["'NaN'", "'Infinity'", "'-Infinity'", "1e308", "5e-324"],
    ),
    (
        "bigint",
        &[
            "-9223372036854775808",
            "9223372036854775807",
            "-9223372036854775708",
        ],
    ),
    ("integer", &["-2147483648", "2147483647", "-2147483548"]),
    ("smallint", &["-32768", "32767"]),
    ("real", &["'-Infinity'", "3.4e38", "-1e-45", "'-0'"]),
    ("boolean", &["true", "false"]),
    (
        "date",
        &[
            "'infinity'",
            "'-infinity'",
            "'4713-01-01 BC'",
            "'5874897-12-31'",
        ],
    ),
    (
        "timestamp",
        &[
            "'infinity'",
            "'-infinity'",
            "'4713-01-01 BC'",
            "'294276-12-31'",
        ],
    ),
    (
        "timestamptz",
        &[
            "'infinity'",
            "'-infinity'",
            "'4713-01-02 BC'",
            "'294276-12-30'",
        ],
    ),
    ("uuid", &["'00000000-0000-0000-0000-000000000000'"]),
];

const HOSTILE_MYSQL: &[Hostile] = &[
    (
        "longtext CHARACTER SET utf8mb4",
        &[
            "''",
            "'%_\\\\'",
            "'a\\nb'",
            "'İß\u{301}😀'",
            "repeat('é', 1000000)",
        ],
    ),
    ("varchar(9) CHARACTER SET latin1", &["''", "'é'"]),
    (
        "decimal(65,30)",
        &[
            "-99999999999999999999999999999999999.999999999999999999999999999999",
            "-0.000000000000000000000000000001",
        ],
    ),
    (
        "decimal(65,0)",
        &[
            "-99999999999999999999999999999999999999999999999999999999999999999",
            "99999999999999999999999999999999999999999999999999999999999999999",
        ],
    ),
    ("bigint", &["-9223372036854775808", "9223372036854775807"]),
    ("float", &["-3e38", "-1e-40"]),
    (
        "double",
        &[
            "1.7976931348623157e308",
            "-1.7976931348623157e308",
            "5e-324",
        ],
    ),
    ("bigint unsigned", &["0", "18446744073709551615"]),
    ("date", &["'0000-00-00'", "'9999-12-31'", "'2020-00-00'"]),
    (
        "datetime",
        &["'0000-00-00 00:00:00'", "'9999-12-31 23:59:59'"],
    ),
    (
        "datetime(6)",
        &["'0001-01-01 00:00:00'", "'9999-12-31 23:59:59.999999'"],
    ),
    ("time", &["'-838:59:59'", "'838:59:59'"]),
    ("json", &["'{\"a\": [1, null]}'"]),
];

/// Expressions with every function and every construct that a mask may have, somewhere. What a type does not take
/// does not load, and is not asked.
const EXPRESSIONS: &[&str] = &[
    "lower(value)",
    "upper(value)",
    "length(value)",
    "char_length(value)",
    "reverse(value)",
    "substr(value, 1)",
    "substr(value, 3, 0)",
    "substr(value, 10000, 10000)",
    "substr(value, -10000, 10000)",
    "left(value, 0)",
    "left(value, 10000)",
    "right(value, 10000)",
    "replace(value, 'e', '')",
    "replace(left(value, 20), 'a', 'aaaa')",
    "ltrim(value)",
    "rtrim(value)",
    "ltrim(value, 'ab%')",
    "rtrim(value, 'ab%')",
    "trim(value)",
    "trim(value, '')",
    "TRIM(BOTH 'é' FROM value)",
    "TRIM(LEADING '0' FROM value)",
    "TRIM(TRAILING 'x' FROM value)",
    "lpad(value, 10000, '*')",
    "rpad(value, 0, '*')",
    "instr(value, '')",
    "instr(value, 'a')",
    "strpos(value, '')",
    "strpos(value, 'a')",
    "split_part(value, 'a', 10000)",
    "substring_index(value, 'a', -10000)",
    "substring_index(value, 'é', 0)",
    "concat(value, 'x')",
    "concat('x', left(value, 1), right(value, 1))",
    "value || 'x'",
    "coalesce(value, NULL)",
    "coalesce(nullif(upper(value), ''), 'none')",
    "nullif(value, NULL)",
    "CAST(value AS text)",
    "CAST(value AS char)",
    "CASE WHEN value = 'a' OR value > 'b' AND NOT value <= 'c' THEN lower(value) ELSE 'x' END",
    "CASE lower(value) WHEN 'a' THEN 1 WHEN NULL THEN 2 ELSE -2147483647 END",
    "value IN ('a', 'b', NULL)",
    "value NOT BETWEEN 'a' AND NULL",
    "value LIKE '%a%_%e'",
    "value NOT LIKE ''",
    "value IS NOT NULL",
    "2 * length(value) - 1",
    "length(value) + length(upper(value)) - 1000000000",
    "value > 1000",
    "value IN (1, -999999999999999.999999)",
    "CASE WHEN value BETWEEN -1 AND 1.5 THEN value ELSE 1 END",
    "nullif(value, 0)",
    "CASE WHEN value THEN 'yes' WHEN NOT value THEN 'no' END",
    "value = TRUE",
    "value >= '2000-01-01'",
    "value <> '9999-12-31 23:59:59'",
    "CASE WHEN value BETWEEN '0001-01-01' AND '2000-01-01 00:00:00' THEN value END",
];

/// Asks for every mask and every expression over every hostile value, and for NULL: all of them have a result.
async fn total<B: Backend + Clone>(backend: &B, schema: &str, hostile: &[Hostile]) {
    let load = |column: usize, mask: &str| {
        Firewall::builder(backend.catalog().clone(), policies(mask, schema, &[column]))
            .token_secret(TokenSecret::new("0".repeat(32)))
            .build()
    };
    let expressions = EXPRESSIONS.iter().map(|text| format!("expr({text})"));
    let masks: Vec<String> = expressions
        .chain(MASKS.iter().map(|mask| (*mask).to_owned()))
        .collect();
    // The functions that the policies know are all tried.
    let Err(Error::Policies(errors)) = load(0, "expr(nonsense(value))") else {
        panic!("a function that is none")
    };
    let known = errors.problems()[0].help.clone().unwrap();
    let names = known.split('`').skip(1).step_by(2);
    let session = Session::new(Principal::new("Agent", "a"));
    let mut asked = String::new();
    for (column, (type_name, values)) in hostile.iter().enumerate() {
        for expression in &masks {
            let Ok(firewall) = load(column, expression) else {
                continue;
            };
            let guard = Guard::new(
                Arc::new(firewall),
                backend.clone(),
                Arc::new(StillHost),
                Arc::new(NoAudit),
            );
            let sql = format!("SELECT id, c{column} FROM t ORDER BY id");
            match guard.query(&sql, &Params::None, &session).await {
                Outcome::Rows(envelope) => {
                    let answer = serde_json::to_value(&envelope).unwrap();
                    let rows = answer["rows"].as_array().unwrap();
                    assert!(rows.len() > values.len(), "{type_name}: {expression}");
                }
                Outcome::Rejected(refusal) => panic!(
                    "{type_name}: {expression}: {} {:?}",
                    refusal.rejection,
                    refusal.rejection.operator_detail()
                ),
            }
            asked += expression;
            asked.push('\n');
        }
    }
    for name in names {
        assert!(asked.contains(&format!("{name}(")), "`{name}` is not tried");
    }
}

/// A table with a column of each type, and a row for each of the values, which has NULL beside it.
fn hostile_script(hostile: &[Hostile]) -> String {
    let columns: Vec<_> = hostile
        .iter()
        .enumerate()
        .map(|(n, (name, _))| format!("c{n} {name} NULL"))
        .collect();
    let mut out = format!(
        "CREATE TABLE t (id int PRIMARY KEY, {});\n",
        columns.join(", ")
    );
    let most = hostile
        .iter()
        .map(|(_, values)| values.len())
        .max()
        .unwrap();
    for row in 0..=most {
        let values: Vec<_> = hostile
            .iter()
            .map(|(_, values)| values.get(row).copied().unwrap_or("NULL"))
            .collect();
        let _ = writeln!(out, "INSERT INTO t VALUES ({row}, {});", values.join(", "));
    }
    out
}

#[tokio::test]
async fn masks_are_total_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hostile.db");
    create_database(&path, &hostile_script(HOSTILE_SQLITE)).unwrap();
    let backend = SqliteBackend::open_file(&path, "hostile").unwrap();
    total(&backend, "main", HOSTILE_SQLITE).await;
}

#[tokio::test]
async fn masks_are_total_on_postgres() {
    let server: &Server = PostgresServer::shared().unwrap();
    let database = server.fresh_database("hostile").unwrap();
    // Searching in text of such a collation raises, but not for the empty text.
    let script = format!(
        "CREATE TYPE mood AS ENUM ('sad', 'happy');
         CREATE COLLATION nobody (provider = icu, locale = 'und-u-ks-level1', deterministic = false);
         {}",
        hostile_script(HOSTILE_POSTGRES)
    );
    server.load(&database, &script).unwrap().clean().unwrap();
    let config = PostgresConfig::from_url(&server.url(&database)).unwrap();
    let backend = PostgresBackend::connect(config.accept_superuser())
        .await
        .unwrap();
    total(&backend, "public", HOSTILE_POSTGRES).await;
}

/// A database that `script` fills, and a backend over it.
async fn filled(server: &Server, label: &str, script: &str) -> (String, MysqlBackend) {
    let database = server.fresh_database(label).unwrap();
    server.load(&database, script).unwrap().clean().unwrap();
    let config = MysqlConfig::from_url(&server.url(&database)).unwrap();
    let backend = MysqlBackend::connect(config.accept_powerful())
        .await
        .unwrap();
    (database, backend)
}

async fn all_are_total_on_mysql(server: &Server) {
    let script = format!("SET sql_mode = '';\n{}", hostile_script(HOSTILE_MYSQL));
    let (database, backend) = filled(server, "hostile", &script).await;
    total(&backend, &database, HOSTILE_MYSQL).await;
}

#[tokio::test]
async fn masks_are_total_on_mariadb() {
    all_are_total_on_mysql(MariaDbServer::shared().unwrap()).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn masks_are_total_on_mysql_9() {
    all_are_total_on_mysql(MySqlServer::shared().unwrap()).await;
}

#[tokio::test]
async fn masks_of_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("masks.db");
    create_database(&path, &script(SQLITE)).unwrap();
    let backend = SqliteBackend::open_file(&path, "masks").unwrap();
    check(&section("SQLite", &backend, "main", SQLITE).await);
}

#[tokio::test]
async fn masks_of_postgres() {
    let server: &Server = PostgresServer::shared().unwrap();
    let database = server.fresh_database("masks").unwrap();
    let script = format!(
        "CREATE TYPE mood AS ENUM ('sad', 'happy'); {}",
        script(POSTGRES)
    );
    server.load(&database, &script).unwrap().clean().unwrap();
    let config = PostgresConfig::from_url(&server.url(&database)).unwrap();
    let backend = PostgresBackend::connect(config.accept_superuser())
        .await
        .unwrap();
    check(&section("PostgreSQL", &backend, "public", POSTGRES).await);
}

async fn on_mysql(server: &Server) {
    let (database, backend) = filled(server, "masks", &script(MYSQL)).await;
    check(&section("MySQL and MariaDB", &backend, &database, MYSQL).await);
}

#[tokio::test]
async fn masks_of_mariadb() {
    on_mysql(MariaDbServer::shared().unwrap()).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn masks_of_mysql_9() {
    on_mysql(MySqlServer::shared().unwrap()).await;
}

/// A type, a mask, a value, and what comes out as JSON.
type Edge = (&'static str, &'static str, &'static str, &'static str);

const EDGES_SQLITE: &[Edge] = &[
    ("DATE", "date(year)", "'9999-12-31'", "\"9999-01-01\""),
    ("DATE", "date(year)", "'0001-01-01'", "\"0001-01-01\""),
    (
        "DATETIME",
        "date(hour)",
        "'9999-12-31 23:59:59.999'",
        "\"9999-12-31 23:00:00\"",
    ),
    ("INTEGER", "bucket(1000)", "-10", "-1000"),
    ("INTEGER", "bucket(1000)", "-1000", "-1000"),
    ("INTEGER", "bucket(1000)", "10", "0"),
    (
        "INTEGER",
        "bucket(1000)",
        "-9223372036854774808",
        "\"-9223372036854775000\"",
    ),
    ("INTEGER", "bucket(1000)", "-9223372036854775808", "null"),
    ("REAL", "bucket(1000)", "-10.25", "-1000"),
    ("REAL", "bucket(1000)", "-0.25", "-1000"),
    ("REAL", "bucket(1000)", "-0.0", "0"),
    ("REAL", "bucket(1000)", "0.25", "0"),
    ("NUMERIC", "bucket(1000)", "-1000.25", "-2000"),
];

const EDGES_POSTGRES: &[Edge] = &[
    ("date", "date(year)", "'9999-12-31'", "\"9999-01-01\""),
    ("date", "date(month)", "'9999-12-31'", "\"9999-12-01\""),
    ("date", "date(year)", "'0001-01-01'", "\"0001-01-01\""),
    ("date", "date(year)", "'10000-01-01'", "null"),
    ("date", "date(year)", "'0001-12-31 BC'", "null"),
    (
        "timestamp",
        "date(hour)",
        "'9999-12-31 23:59:59.999999'",
        "\"9999-12-31 23:00:00\"",
    ),
    ("timestamp", "date(year)", "'10000-01-01'", "null"),
    (
        "timestamptz",
        "date(hour)",
        "'9999-12-31 23:59:59.999999+00'",
        "\"9999-12-31 23:00:00+00\"",
    ),
    (
        "timestamptz",
        "date(year)",
        "'0001-01-01 00:00:00+00'",
        "\"0001-01-01 00:00:00+00\"",
    ),
    (
        "timestamptz",
        "date(year)",
        "'10000-01-01 00:00:00+00'",
        "null",
    ),
    ("integer", "bucket(1000)", "-10", "-1000"),
    ("integer", "bucket(1000)", "-1000", "-1000"),
    ("integer", "bucket(1000)", "-2147482648", "-2147483000"),
    ("integer", "bucket(1000)", "-2147483648", "null"),
    (
        "integer",
        "bucket(3000000000)",
        "-2147483648",
        "-3000000000",
    ),
    ("smallint", "bucket(1000)", "-32768", "-33000"),
    ("narrow", "bucket(1000)", "-2147483648", "-2147484000"),
    ("bigint", "bucket(1000)", "-9223372036854775808", "null"),
    ("numeric(10,2)", "bucket(1000)", "-10.25", "\"-1000.00\""),
    ("numeric(10,2)", "bucket(1000)", "-1000", "\"-1000.00\""),
    ("numeric(10,2)", "bucket(1000)", "10.25", "\"0.00\""),
    ("numeric", "bucket(1000)", "-9e131071 - 1", "null"),
    ("double precision", "bucket(100)", "-99", "-100.0"),
    ("double precision", "bucket(100)", "-0.5", "-100.0"),
    ("double precision", "bucket(100)", "'-0'", "0.0"),
    ("double precision", "bucket(100)", "0.5", "0.0"),
    (
        "double precision",
        "bucket(100)",
        "99.99999999999999",
        "0.0",
    ),
    ("real", "bucket(10)", "1234567", "1234560.0"),
];

const EDGES_MYSQL: &[Edge] = &[
    ("date", "date(year)", "'9999-12-31'", "\"9999-01-01\""),
    ("date", "date(month)", "'9999-12-31'", "\"9999-12-01\""),
    ("date", "date(year)", "'0001-01-01'", "\"0001-01-01\""),
    (
        "datetime(6)",
        "date(hour)",
        "'9999-12-31 23:59:59.999999'",
        "\"9999-12-31 23:00:00\"",
    ),
    (
        "datetime",
        "date(year)",
        "'0001-01-01 00:00:00'",
        "\"0001-01-01 00:00:00\"",
    ),
    ("int", "bucket(1000)", "-10", "-1000"),
    ("int", "bucket(1000)", "-1000", "-1000"),
    ("int", "bucket(1000)", "-2147483648", "-2147484000"),
    ("int unsigned", "bucket(1000)", "4294967295", "4294967000"),
    ("bigint", "bucket(1000)", "-9223372036854775808", "null"),
    ("decimal(10,2)", "bucket(1000)", "-10.25", "\"-1000.00\""),
    ("decimal(10,2)", "bucket(1000)", "-1000", "\"-1000.00\""),
    ("decimal(10,2)", "bucket(1000)", "10.25", "\"0.00\""),
    ("double", "bucket(100)", "-99", "-100.0"),
    ("double", "bucket(100)", "-0.5", "-100.0"),
    ("double", "bucket(100)", "-0e0", "0.0"),
    ("double", "bucket(100)", "0.5", "0.0"),
    ("float", "bucket(100)", "-0.5", "-100.0"),
];

/// Types that MySQL has not.
const EDGES_MARIADB: &[Edge] = &[
    ("uuid", "fixed(***)", UUID, "\"***\""),
    ("uuid", "first(2)", UUID, "\"55**\""),
    ("uuid", "last(2)", UUID, "\"**00\""),
    ("uuid", "expr(upper(substr(value, 1, 3)))", UUID, "\"550\""),
    ("inet6", "fixed(***)", "'2001:db8::1'", "\"***\""),
    ("inet6", "first(2)", "'2001:db8::1'", "\"20**\""),
];

const UUID: &str = "'550e8400-e29b-41d4-a716-446655440000'";

/// A table with a column for each edge, and a row of their values.
fn edge_script(edges: &[Edge]) -> String {
    let columns = edges.iter().enumerate();
    let columns: Vec<_> = columns
        .map(|(n, (name, _, _, _))| format!("c{n} {name} NULL"))
        .collect();
    let values: Vec<_> = edges.iter().map(|(_, _, value, _)| *value).collect();
    format!(
        "CREATE TABLE t (id int PRIMARY KEY, {}); INSERT INTO t VALUES (1, {});",
        columns.join(", "),
        values.join(", ")
    )
}

/// That each value comes out of its mask as it should.
async fn come_out<B: Backend + Clone>(backend: &B, schema: &str, edges: &[Edge]) {
    let mut text = "permit(principal, action, resource);\n".to_owned();
    for (n, (_, mask, _, _)) in edges.iter().enumerate() {
        let _ = writeln!(
            text,
            "@mask(\"{mask}\") forbid(principal, action == Action::\"read_plain\", \
             resource == Column::\"{schema}.t.c{n}\");"
        );
    }
    let sources = PolicySources {
        policies: vec![PolicyFile {
            name: "edges.cedar".to_owned(),
            text,
        }],
        ..PolicySources::default()
    };
    let guard = Guard::new(
        Arc::new(
            Firewall::builder(backend.catalog().clone(), sources)
                .build()
                .unwrap(),
        ),
        backend.clone(),
        Arc::new(StillHost),
        Arc::new(NoAudit),
    );
    let session = Session::new(Principal::new("Agent", "a"));
    let envelope = match guard
        .query("SELECT * FROM t", &Params::None, &session)
        .await
    {
        Outcome::Rows(envelope) => envelope,
        Outcome::Rejected(refusal) => panic!(
            "{} {:?}",
            refusal.rejection,
            refusal.rejection.operator_detail()
        ),
    };
    let answer = serde_json::to_value(&envelope).unwrap();
    let wrong: Vec<_> = edges
        .iter()
        .enumerate()
        .map(|(n, edge)| (edge, answer["rows"][0][format!("c{n}")].to_string()))
        .filter(|((_, _, _, expected), came)| came != expected)
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn edges_of_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("edges.db");
    create_database(&path, &edge_script(EDGES_SQLITE)).unwrap();
    let backend = SqliteBackend::open_file(&path, "edges").unwrap();
    come_out(&backend, "main", EDGES_SQLITE).await;
}

#[tokio::test]
async fn edges_of_postgres() {
    let server: &Server = PostgresServer::shared().unwrap();
    let database = server.fresh_database("edges").unwrap();
    let script = format!(
        "CREATE DOMAIN narrow AS integer; {}",
        edge_script(EDGES_POSTGRES)
    );
    server.load(&database, &script).unwrap().clean().unwrap();
    let config = PostgresConfig::from_url(&server.url(&database)).unwrap();
    let backend = PostgresBackend::connect(config.accept_superuser())
        .await
        .unwrap();
    come_out(&backend, "public", EDGES_POSTGRES).await;
}

#[tokio::test]
async fn edges_of_mariadb() {
    let edges = [EDGES_MYSQL, EDGES_MARIADB].concat();
    let server: &Server = MariaDbServer::shared().unwrap();
    let (database, backend) = filled(server, "edges", &edge_script(&edges)).await;
    come_out(&backend, &database, &edges).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn edges_of_mysql_9() {
    let server: &Server = MySqlServer::shared().unwrap();
    let (database, backend) = filled(server, "edges", &edge_script(EDGES_MYSQL)).await;
    come_out(&backend, &database, EDGES_MYSQL).await;
}

/// Text of every kind that a query can combine with what a mask made.
const TEXTS: &[Typed] = &[
    ("int", "12345"),
    ("varchar(20) CHARACTER SET latin1", "'\u{e9}t\u{e9}s'"),
    (
        "varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci",
        "'\u{1f600}ann@mail.example'",
    ),
    ("varchar(20) CHARACTER SET latin2", "'\u{10d}'"),
    ("varchar(20) CHARACTER SET utf8mb3", "'\u{20ac}'"),
    (
        "varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
        "'\u{1f600}'",
    ),
    (
        "varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        "'\u{1f600}'",
    ),
    ("varbinary(20)", "'b'"),
];

/// What masks make goes with text of every character set and collation, to either side of it: that the server raises
/// where it is combined with another column would be the mask's doing.
async fn go_with_other_text(server: &Server) {
    let (database, backend) = filled(server, "texts", &script(TEXTS)).await;
    let mut combined = 0;
    for mask in [
        "fixed(***)",
        "fixed(\u{e9}\u{20ac})",
        "first(2)",
        "last(2)",
        "email",
        "expr(lower(value))",
        "hash",
        "token",
    ] {
        for (hidden, (hidden_type, _)) in TEXTS.iter().enumerate().take(3) {
            let policies = policies(mask, &database, &[hidden]);
            let firewall = Firewall::builder(backend.catalog().clone(), policies)
                .token_secret(TokenSecret::new("0".repeat(32)))
                .build();
            // An e-mail address is no number.
            let Ok(firewall) = firewall else { continue };
            let guard = Guard::new(
                Arc::new(firewall),
                backend.clone(),
                Arc::new(StillHost),
                Arc::new(NoAudit),
            );
            for plain in (0..TEXTS.len()).filter(|plain| *plain != hidden) {
                let columns = format!("c{hidden} AS hidden, c{plain} AS plain");
                // Both as what the server may take apart, and as what it keeps in a table of its own.
                for limit in ["", " LIMIT 9"] {
                    let from = format!("FROM (SELECT {columns} FROM t{limit}) AS x");
                    for sql in [
                        format!("SELECT hidden {from} UNION ALL SELECT plain {from}"),
                        format!("SELECT plain {from} UNION ALL SELECT hidden {from}"),
                        format!(
                            "SELECT CASE WHEN plain IS NULL THEN hidden ELSE plain END AS c {from}"
                        ),
                        format!("SELECT coalesce(plain, hidden) AS c {from}"),
                        format!("SELECT concat(plain, hidden) AS c {from}"),
                    ] {
                        let session = Session::new(Principal::new("Agent", "a"));
                        match guard.query(&sql, &Params::None, &session).await {
                            Outcome::Rows(_) => combined += 1,
                            Outcome::Rejected(refusal) => panic!(
                                "{mask} of {hidden_type}: {sql}: {} {:?}",
                                refusal.rejection,
                                refusal.rejection.operator_detail()
                            ),
                        }
                    }
                }
            }
        }
    }
    assert!(combined > 1000, "{combined}");
}

#[tokio::test]
async fn masks_go_with_other_text_on_mariadb() {
    go_with_other_text(MariaDbServer::shared().unwrap()).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn masks_go_with_other_text_on_mysql_9() {
    go_with_other_text(MySqlServer::shared().unwrap()).await;
}
