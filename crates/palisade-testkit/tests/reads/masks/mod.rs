//! What each mask makes of each type, on real databases: `docs/reference/masks.md` is what comes out here.

mod aggregates;
mod collations;
mod edges;
mod totality;
mod views;

use std::{fmt::Write as _, path::Path, sync::Arc};

use palisade::{
    audit::NoAudit,
    error::Error,
    firewall::Firewall,
    guard::{Backend, Guard},
    policy::PolicySources,
    session::{Principal, Session},
    token::TokenSecret,
    value::Params,
};
use palisade_testkit::{
    fixture::policy_sources,
    host::Still,
    servers::{MariaDbServer, MySqlServer, Server},
};
use serde_json::Value;

use crate::database::{TestDatabase, TestFile};

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

fn firewall<B: Backend>(backend: &B, policies: PolicySources) -> Result<Firewall, Error> {
    Firewall::builder(backend.catalog().clone(), policies)
        .token_secret(TokenSecret::new("0".repeat(32)))
        .build()
}

fn guard_over<B: Backend>(firewall: Firewall, backend: B) -> Guard {
    Guard::new(
        Arc::new(firewall),
        backend,
        Arc::new(Still),
        Arc::new(NoAudit),
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
    policy_sources(text)
}

/// The masked values by column; none where the policies say that the type does not take the mask.
async fn masked<B: Backend + Clone>(
    backend: &B,
    mask: &str,
    schema: &str,
    types: &[Typed],
) -> Vec<Option<Value>> {
    let mut fitting: Vec<usize> = (0..types.len()).collect();
    let load = |columns: &[usize]| firewall(backend, policies(mask, schema, columns));
    if let Err(Error::Policies(errors)) = load(&fitting) {
        for problem in errors.problems() {
            let column = problem.message.split(".t.c").nth(1).unwrap();
            let digits: String = column.chars().take_while(char::is_ascii_digit).collect();
            fitting.retain(|n| *n != digits.parse::<usize>().unwrap());
        }
    }
    let guard = guard_over(load(&fitting).unwrap(), backend.clone());
    let columns: Vec<String> = (0..types.len()).map(|n| format!("c{n}")).collect();
    let sql = format!("SELECT {} FROM t ORDER BY id", columns.join(", "));
    let session = Session::new(Principal::new("Agent", "a"));
    let envelope = match guard
        .query(&sql, &Params::None, &session)
        .await
        .into_result()
    {
        Ok(envelope) => envelope,
        Err(refusal) => panic!(
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

#[tokio::test]
async fn masks_of_sqlite() {
    let file = TestFile::new(&script(SQLITE));
    let backend = file.reader();
    check(&section("SQLite", &backend, "main", SQLITE).await);
}

#[tokio::test]
async fn masks_of_postgres() {
    let script = format!(
        "CREATE TYPE mood AS ENUM ('sad', 'happy'); {}",
        script(POSTGRES)
    );
    let database = TestDatabase::postgres("masks", &script);
    let backend = database.postgres_reader().await;
    check(&section("PostgreSQL", &backend, "public", POSTGRES).await);
}

async fn on_mysql(server: &Server) {
    let database = TestDatabase::on(server, "masks", &script(MYSQL));
    let backend = database.mysql_reader().await;
    check(&section("MySQL and MariaDB", &backend, database.name(), MYSQL).await);
}

#[tokio::test]
async fn masks_of_mariadb() {
    on_mysql(MariaDbServer::start_shared().unwrap()).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn masks_of_mysql_9() {
    on_mysql(MySqlServer::start_shared().unwrap()).await;
}
