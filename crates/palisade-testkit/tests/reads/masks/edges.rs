//! Masks at the ends of what a type holds.

use std::fmt::Write as _;

use palisade::{
    guard::Backend,
    session::{Principal, Session},
    value::Params,
};
use palisade_testkit::{
    fixture::policy_sources,
    servers::{MySqlServer, Server},
};

use super::{firewall, guard_over};
use crate::database::{TestDatabase, TestFile};

/// A type, a mask, and values with their masked form as JSON.
type Edges = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

/// One of them: a type, a mask, a value, and its masked form.
type Edge = (&'static str, &'static str, &'static str, &'static str);

const EDGES_SQLITE: &[Edges] = &[
    (
        "DATE",
        "date(year)",
        &[
            ("'9999-12-31'", "\"9999-01-01\""),
            ("'0001-01-01'", "\"0001-01-01\""),
        ],
    ),
    (
        "DATETIME",
        "date(hour)",
        &[("'9999-12-31 23:59:59.999'", "\"9999-12-31 23:00:00\"")],
    ),
    (
        "INTEGER",
        "bucket(1000)",
        &[
            ("-10", "-1000"),
            ("-1000", "-1000"),
            ("10", "0"),
            ("-9223372036854774808", "\"-9223372036854775000\""),
            ("-9223372036854775808", "null"),
        ],
    ),
    (
        "REAL",
        "bucket(1000)",
        &[
            ("-10.25", "-1000"),
            ("-0.25", "-1000"),
            ("-0.0", "0"),
            ("0.25", "0"),
        ],
    ),
    ("NUMERIC", "bucket(1000)", &[("-1000.25", "-2000")]),
];

const EDGES_POSTGRES: &[Edges] = &[
    ("date", "date(year)", &[("'9999-12-31'", "\"9999-01-01\"")]),
    ("date", "date(month)", &[("'9999-12-31'", "\"9999-12-01\"")]),
    (
        "date",
        "date(year)",
        &[
            ("'0001-01-01'", "\"0001-01-01\""),
            ("'10000-01-01'", "null"),
            ("'0001-12-31 BC'", "null"),
        ],
    ),
    (
        "timestamp",
        "date(hour)",
        &[("'9999-12-31 23:59:59.999999'", "\"9999-12-31 23:00:00\"")],
    ),
    ("timestamp", "date(year)", &[("'10000-01-01'", "null")]),
    (
        "timestamptz",
        "date(hour)",
        &[(
            "'9999-12-31 23:59:59.999999+00'",
            "\"9999-12-31 23:00:00+00\"",
        )],
    ),
    (
        "timestamptz",
        "date(year)",
        &[
            ("'0001-01-01 00:00:00+00'", "\"0001-01-01 00:00:00+00\""),
            ("'10000-01-01 00:00:00+00'", "null"),
        ],
    ),
    (
        "integer",
        "bucket(1000)",
        &[
            ("-10", "-1000"),
            ("-1000", "-1000"),
            ("-2147482648", "-2147483000"),
            ("-2147483648", "null"),
        ],
    ),
    (
        "integer",
        "bucket(3000000000)",
        &[("-2147483648", "-3000000000")],
    ),
    ("smallint", "bucket(1000)", &[("-32768", "-33000")]),
    ("narrow", "bucket(1000)", &[("-2147483648", "-2147484000")]),
    (
        "bigint",
        "bucket(1000)",
        &[("-9223372036854775808", "null")],
    ),
    (
        "numeric(10,2)",
        "bucket(1000)",
        &[
            ("-10.25", "\"-1000.00\""),
            ("-1000", "\"-1000.00\""),
            ("10.25", "\"0.00\""),
        ],
    ),
    (
        "numeric",
        "bucket(1000)",
        &[
            ("-9e131071 - 1", "null"),
            // How many places a value has is not shown.
            ("1105.5", "\"1000\""),
            ("1177.2500", "\"1000\""),
            ("-0.001", "\"-1000\""),
        ],
    ),
    (
        "double precision",
        "bucket(100)",
        &[
            ("-99", "-100.0"),
            ("-0.5", "-100.0"),
            ("'-0'", "0.0"),
            ("0.5", "0.0"),
            ("99.99999999999999", "0.0"),
        ],
    ),
    ("real", "bucket(10)", &[("1234567", "1234560.0")]),
];

const EDGES_MYSQL: &[Edges] = &[
    ("date", "date(year)", &[("'9999-12-31'", "\"9999-01-01\"")]),
    ("date", "date(month)", &[("'9999-12-31'", "\"9999-12-01\"")]),
    ("date", "date(year)", &[("'0001-01-01'", "\"0001-01-01\"")]),
    (
        "datetime(6)",
        "date(hour)",
        &[("'9999-12-31 23:59:59.999999'", "\"9999-12-31 23:00:00\"")],
    ),
    (
        "datetime",
        "date(year)",
        &[("'0001-01-01 00:00:00'", "\"0001-01-01 00:00:00\"")],
    ),
    (
        "int",
        "bucket(1000)",
        &[
            ("-10", "-1000"),
            ("-1000", "-1000"),
            ("-2147483648", "-2147484000"),
        ],
    ),
    (
        "int unsigned",
        "bucket(1000)",
        &[("4294967295", "4294967000")],
    ),
    (
        "bigint",
        "bucket(1000)",
        &[("-9223372036854775808", "null")],
    ),
    (
        "decimal(10,2)",
        "bucket(1000)",
        &[
            ("-10.25", "\"-1000.00\""),
            ("-1000", "\"-1000.00\""),
            ("10.25", "\"0.00\""),
        ],
    ),
    (
        "double",
        "bucket(100)",
        &[
            ("-99", "-100.0"),
            ("-0.5", "-100.0"),
            ("-0e0", "0.0"),
            ("0.5", "0.0"),
        ],
    ),
    ("float", "bucket(100)", &[("-0.5", "-100.0")]),
];

/// Types that MySQL has not.
const EDGES_MARIADB: &[Edges] = &[
    ("uuid", "fixed(***)", &[(UUID, "\"***\"")]),
    ("uuid", "first(2)", &[(UUID, "\"55**\"")]),
    ("uuid", "last(2)", &[(UUID, "\"**00\"")]),
    (
        "uuid",
        "expr(upper(substr(value, 1, 3)))",
        &[(UUID, "\"550\"")],
    ),
    ("inet6", "fixed(***)", &[("'2001:db8::1'", "\"***\"")]),
    ("inet6", "first(2)", &[("'2001:db8::1'", "\"20**\"")]),
];

const UUID: &str = "'550e8400-e29b-41d4-a716-446655440000'";

/// Every value of `tables` beside its type and mask.
fn flatten(tables: &[&[Edges]]) -> Vec<Edge> {
    let all = tables.iter().copied().flatten();
    all.flat_map(|&(name, mask, values)| {
        let values = values.iter();
        values.map(move |&(value, expected)| (name, mask, value, expected))
    })
    .collect()
}

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
    let guard = guard_over(
        firewall(backend, policy_sources(text)).unwrap(),
        backend.clone(),
    );
    let session = Session::new(Principal::new("Agent", "a"));
    let envelope = match guard
        .query("SELECT * FROM t", &Params::None, &session)
        .await
        .into_result()
    {
        Ok(envelope) => envelope,
        Err(refusal) => panic!(
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
    let edges = flatten(&[EDGES_SQLITE]);
    let file = TestFile::new(&edge_script(&edges));
    come_out(&file.reader(), "main", &edges).await;
}

#[tokio::test]
async fn edges_of_postgres() {
    let edges = flatten(&[EDGES_POSTGRES]);
    let script = format!("CREATE DOMAIN narrow AS integer; {}", edge_script(&edges));
    let database = TestDatabase::postgres("edges", &script);
    let backend = database.postgres_reader().await;
    come_out(&backend, "public", &edges).await;
}

#[tokio::test]
async fn edges_of_mariadb() {
    let edges = flatten(&[EDGES_MYSQL, EDGES_MARIADB]);
    let database = TestDatabase::mariadb("edges", &edge_script(&edges));
    let backend = database.mysql_reader().await;
    come_out(&backend, database.name(), &edges).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn edges_of_mysql_9() {
    let edges = flatten(&[EDGES_MYSQL]);
    let server: &Server = MySqlServer::start_shared().unwrap();
    let database = TestDatabase::on(server, "edges", &edge_script(&edges));
    let backend = database.mysql_reader().await;
    come_out(&backend, database.name(), &edges).await;
}
