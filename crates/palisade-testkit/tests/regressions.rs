//! Inputs that once broke a property, replayed, and the properties over every corpus statement.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use std::{fs, path::Path};

use palisade_testkit::properties;
use proptest::prelude::*;

fn replay(target: &str, property: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/regressions")
        .join(target);
    let mut count = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let data = fs::read(entry.unwrap().path()).unwrap();
        // As in a runtime's worker thread.
        std::thread::Builder::new()
            .stack_size(2 << 20)
            .spawn(move || property(&data))
            .unwrap()
            .join()
            .unwrap();
        count += 1;
    }
    assert!(count > 0, "no regressions in {}", folder.display());
}

#[test]
fn parse_total() {
    replay("parse_total", properties::parse_total);
}

#[test]
fn print_roundtrip() {
    replay("print_roundtrip", properties::print_roundtrip);
}

#[test]
fn check_total() {
    replay("check_total", properties::check_total);
}

/// Statements made of the words that matter, in any order.
fn words() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "SELECT",
        "FROM",
        "WHERE",
        "users",
        "orders",
        "directory",
        "credentials",
        "u",
        "o",
        "id",
        "ssn",
        "email",
        "secret",
        "total",
        "*",
        ",",
        "(",
        ")",
        ".",
        "=",
        "<",
        "||",
        "-",
        "- -",
        "NOT",
        "AND",
        "OR",
        "IN",
        "EXISTS",
        "JOIN",
        "LEFT JOIN",
        "NATURAL JOIN",
        "USING (id)",
        "ON",
        "AS",
        "WITH",
        "UNION",
        "UNION ALL",
        "EXCEPT",
        "VALUES",
        "GROUP BY",
        "HAVING",
        "ORDER BY",
        "LIMIT",
        "OFFSET",
        "1",
        "2",
        "'x'",
        "\"ssn\"",
        "'ssn'",
        "[ssn]",
        "`ssn`",
        "rowid",
        "count(",
        "max(",
        "lower(",
        "json_each(",
        "OVER (",
        "PARTITION BY",
        "CASE",
        "WHEN",
        "THEN",
        "END",
        "NULL",
        "IS",
        "LIKE",
        "GLOB",
        "CAST(",
        "TEXT)",
        "main",
        "?",
        ";",
        "--",
        "/*",
        "*/",
        "\n",
        "\u{200b}",
        "x'00'",
        "0x10",
    ];
    prop::collection::vec(prop::sample::select(WORDS), 1..24)
        .prop_map(|words| format!("SELECT {}", words.join(" ")))
}

/// Plausible statements, so that many pass.
fn statements() -> impl Strategy<Value = String> {
    let column = prop::sample::select(vec![
        "id",
        "ssn",
        "email",
        "name",
        "tenant_id",
        "total",
        "user_id",
        "n",
        "s",
        "rowid",
        "x.id",
        "y.ssn",
        "users.name",
        "\"ssn\"",
        "*",
        "count(*)",
        "upper(ssn)",
        "max(total)",
        "- - 1",
        "(SELECT max(ssn) FROM users)",
        "CASE WHEN ssn > '1' THEN 1 END",
        "ssn || name",
    ]);
    let source = prop::sample::select(vec![
        "users",
        "orders",
        "directory",
        "main.users",
        "users AS x",
        "credentials",
        "(SELECT * FROM users) AS y",
        "users x JOIN orders o ON o.user_id = x.id",
        "users NATURAL JOIN orders",
        "users JOIN directory USING (id)",
        "(SELECT ssn AS id FROM users UNION SELECT note FROM orders) AS y",
        "users x, users y",
    ]);
    let condition = prop::sample::select(vec![
        "",
        "WHERE id = 1",
        "WHERE ssn LIKE '9%'",
        "WHERE ssn IN (SELECT ssn FROM users)",
        "WHERE EXISTS (SELECT 1 FROM users u WHERE u.ssn = 'x')",
        "GROUP BY 1",
        "ORDER BY ssn",
        "WHERE json(ssn)",
        "LIMIT 3",
        "ORDER BY 1 LIMIT 2 OFFSET 1",
    ]);
    let head = prop::sample::select(vec![
        "",
        "WITH users AS (SELECT 1 AS id) ",
        "WITH x AS (SELECT * FROM users) ",
        "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 3) ",
    ]);
    (head, prop::collection::vec(column, 1..4), source, condition).prop_map(
        |(head, columns, source, condition)| {
            format!(
                "{head}SELECT {} FROM {source} {condition}",
                columns.join(", ")
            )
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn any_words_are_answered(sql in words()) {
        properties::parse_total(sql.as_bytes());
        properties::print_roundtrip(sql.as_bytes());
        properties::check_total(sql.as_bytes());
    }

    #[test]
    fn any_statement_is_answered(sql in statements()) {
        properties::parse_total(sql.as_bytes());
        properties::print_roundtrip(sql.as_bytes());
        properties::check_total(sql.as_bytes());
    }

    #[test]
    fn any_text_is_answered(sql in "\\PC{0,200}") {
        properties::parse_total(sql.as_bytes());
    }
}
