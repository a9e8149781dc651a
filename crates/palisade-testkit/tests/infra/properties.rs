//! Inputs that once broke a property, replayed, and the properties over every corpus statement.

use std::{fs, path::Path};

use palisade_testkit::{
    fixture::{self, Policies},
    properties,
};
use proptest::{
    prelude::*,
    test_runner::{FileFailurePersistence, TestRunner},
};

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

#[test]
fn scan_total() {
    replay("scan_total", properties::scan_total);
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
        "json(name)",
        "abs(-9223372036854775807 - (tenant_id = 2))",
        "count(*) FILTER (WHERE ssn > '9')",
        "group_concat(ssn)",
        "row_number() OVER (ORDER BY ssn, id)",
        "typeof(ssn)",
        "users.rowid",
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

/// Two databases that differ only in what `Agent::"a"` may not see: hidden columns, plaintexts whose
/// masks are equal, rows of another tenant, a forbidden table.
const SEEN: [&str; 2] = [
    "
INSERT INTO users VALUES (1, '1', 'a@x', '900-12-3456', 1), (2, '[2]', 'b@x', '901-23-6789', 1),
    (3, 'three', 'c@x', '902-34-5678', 2), (5, '5', 'e@x', NULL, 1);
INSERT INTO orders VALUES (1, 1, 10, 'n'), (2, 2, 47, NULL), (3, 3, 84, 'x'), (4, 1, 10, 'n');
INSERT INTO credentials VALUES (1, 1, 'alpha');
CREATE INDEX by_ssn ON users (tenant_id, ssn, name);
",
    "
INSERT INTO users VALUES (1, '1', 'z@y', '100-99-3456', 1), (2, '[2]', NULL, '999-99-6789', 1),
    (4, '{broken', 'q@y', '111-11-1111', 2), (5, '5', 'w@y', NULL, 1), (7, '7', 'r@y', '1', NULL),
    (8, '8', 's@y', '222-22-2222', 'one');
INSERT INTO orders VALUES (1, 1, 10, 'n'), (2, 2, 47, NULL), (3, 3, 84, 'x'), (4, 1, 10, 'n');
INSERT INTO credentials VALUES (1, 2, 'omega'), (2, 2, 'psi');
CREATE INDEX by_ssn ON users (tenant_id, ssn, name);
",
];

/// An answer without what the promise leaves out: the order of rows.
fn as_bag(mut answer: serde_json::Value) -> serde_json::Value {
    if let Some(rows) = answer.get_mut("rows").and_then(|rows| rows.as_array_mut()) {
        rows.sort_by_key(ToString::to_string);
    }
    answer
}

/// Whether an answer may depend on the order of rows: a LIMIT without a total order, an aggregate or
/// window that looks at it, a bare column beside an aggregate.
fn depends_on_order(sql: &str) -> bool {
    [
        "LIMIT",
        "group_concat",
        "count(",
        "max(",
        "GROUP BY",
        "OVER",
    ]
    .iter()
    .any(|w| sql.contains(w))
        && (sql.contains("LIMIT")
            || sql.contains("group_concat")
            || sql.contains("GROUP BY 1")
            || sql.contains("OVER")
            || sql.matches(',').count() > 0)
}

/// Runs generated statements on both databases: how many were permitted on both, and the first whose
/// answers differ.
fn compare(policies: Policies, cases: u32) -> (u32, Option<String>) {
    let guards = SEEN.map(|rows| fixture::guard(policies, rows));
    let mut runner = TestRunner::new(ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let permitted = std::cell::Cell::new(0u32);
    let result = runner.run(&statements(), |sql| {
        let [one, other] = guards
            .each_ref()
            .map(|guard| as_bag(fixture::answer(guard, &sql)));
        if one.get("rows").is_some() && other.get("rows").is_some() {
            permitted.set(permitted.get() + 1);
        }
        if depends_on_order(&sql) {
            // Then the code and the shape must still be equal.
            prop_assert_eq!(shape(&one), shape(&other), "{}", sql);
        } else {
            prop_assert_eq!(one, other, "{}", sql);
        }
        Ok(())
    });
    (permitted.get(), result.err().map(|error| error.to_string()))
}

#[test]
fn what_is_hidden_does_not_show() {
    let (permitted, difference) = compare(Policies::Restricted, 10_000);
    assert_eq!(difference, None);
    assert!(
        permitted > 1500,
        "only {permitted} of the statements were permitted"
    );
}

/// Without the masks and filters the same statements tell the databases apart.
#[test]
fn what_is_not_hidden_shows() {
    let (_, difference) = compare(Policies::Everything, 1000);
    assert!(difference.is_some());
}

fn shape(answer: &serde_json::Value) -> serde_json::Value {
    [
        "code",
        "message",
        "columns",
        "row_count",
        "truncated",
        "total_seen",
        "empty_reason",
    ]
    .iter()
    .map(|key| answer.get(*key).cloned().unwrap_or_default())
    .collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1500,
        // `properties.proptest-regressions`, beside this file.
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("proptest-regressions"))),
        ..ProptestConfig::default()
    })]

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
