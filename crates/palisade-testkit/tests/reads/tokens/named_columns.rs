//! Tokens of columns that policies name: through views of any level, through casts, and among constants.

use palisade::{
    dialect::Dialect,
    firewall::Firewall,
    guard::{Backend, Guard},
    token::TokenSecret,
};
use palisade_testkit::fixture::policy_sources;
use serde_json::json;

use super::*;

use crate::database::{TestDatabase, TestFile};

const NAMED: &str = r#"
permit(principal, action in [Action::"select", Action::"discover", Action::"read", Action::"call", Action::"see"], resource);
forbid(principal, action == Action::"read_plain", resource == Column::"SCHEMA.people.email");
@domain("mail") permit(principal, action == Action::"read_token", resource == Column::"SCHEMA.people.email");
"#;

const VIEWS: &str = "
CREATE VIEW mails AS SELECT id, email FROM people;
CREATE VIEW letters AS SELECT id AS n, email AS address FROM mails WHERE id < 9;
CREATE VIEW several AS SELECT id, coalesce(email, 'none') AS email FROM mails;
";

/// A gate whose policies name columns of tables and say nothing of views.
fn named_gate<B: Backend>(backend: B, schema: &str) -> Guard {
    let sources = policy_sources(NAMED.replace("SCHEMA", schema));
    let firewall = Firewall::builder(backend.catalog().clone(), sources)
        .token_secret(TokenSecret::new(SECRET))
        .build()
        .unwrap_or_else(|error| panic!("{error}"));
    Guard::new(
        Arc::new(firewall),
        backend,
        Arc::new(Still),
        Arc::new(NoAudit),
    )
}

/// `T` in a statement is the token of the first person, `U` that of the second.
async fn named_tokens_hold(guard: Guard) {
    let dialect = guard.firewall().catalog().dialect();
    let to = Asking { guard, dialect };
    let mails = to
        .ask("SELECT email FROM people WHERE id < 3 ORDER BY id", &[])
        .await;
    let (ann, bob) = (&mails[0][0], &mails[1][0]);
    let [t, u] = [ann, bob].map(|token| token.as_str().unwrap());
    assert!(t.starts_with("tok_"), "{t}");
    let foreign = json!("token.foreign");
    let check = async |sql: &str, expected: Value| {
        let sql = sql.replace("'T'", &format!("'{t}'"));
        to.check(&sql.replace("'U'", &format!("'{u}'")), &[], expected)
            .await;
    };

    // Through views, as from the table.
    for (name, id, mail) in [
        ("mails", "id", "email"),
        ("letters", "n", "address"),
        ("several", "id", "email"),
    ] {
        let of = |end: &str| format!("SELECT {id}, {mail} FROM {name} v WHERE {end}");
        check(&of(&format!("{id} = 1")), json!([[1, ann]])).await;
        check(&of(&format!("{mail} = 'U'")), json!([[2, bob]])).await;
        to.check(
            &of(&format!("{mail} IN (?)")),
            std::slice::from_ref(ann),
            json!([[1, ann]]),
        )
        .await;
        check(
            &format!("SELECT p.id, v.{mail} FROM {name} v JOIN people p ON p.email = v.{mail} WHERE p.email = 'T'"),
            json!([[1, ann]]),
        )
        .await;
        check(
            &format!("SELECT max(v.{mail}) AS m FROM {name} v WHERE v.{id} = 2"),
            json!([[bob]]),
        )
        .await;
        if name != "several" {
            check(&of(&format!("{mail} = 'guess'")), foreign.clone()).await;
            to.check(
                &of(&format!("{mail} = ?")),
                &[json!("guess")],
                foreign.clone(),
            )
            .await;
        }
    }
    check(
        "SELECT email FROM several WHERE email = 'none'",
        json!([["none"]]),
    )
    .await;

    // Casts that hold a token leave it one; others are not compared with any.
    let by = |condition: &str| format!("SELECT id FROM people WHERE {condition}");
    let (mut kept, mut cut) = (
        vec!["CAST(email AS char(60))", "(CAST(email AS char(52)))"],
        vec!["CAST(email AS char(0040))", "CAST(email AS char(20))"],
    );
    match dialect {
        Dialect::Sqlite => {
            kept.extend(["CAST(email AS varchar(200))", "CAST(email AS varchar(9))"]);
            kept.append(&mut cut);
            cut.extend(["CAST(email AS blob)", "CAST(CAST(email AS blob) AS text)"]);
        }
        Dialect::Postgres => {
            kept.extend(["CAST(email AS varchar(200))", "email::text::char(60)"]);
            cut.extend(["email::varchar(51)", "email::char", "email::bytea"]);
        }
        Dialect::Mysql => {
            kept.extend([
                "CAST(email AS CHAR)",
                "CONVERT(email USING utf8mb4)",
                "CONVERT(email, CHAR(100))",
                "BINARY email",
                "CAST(email AS BINARY)",
            ]);
            cut.extend(["CONVERT(email USING utf16)", "CAST(email AS BINARY(60))"]);
        }
    }
    for cast in kept {
        check(&by(&format!("{cast} = 'T'")), json!([[1]])).await;
        check(
            &by(&format!("{cast} IN ('T', 'U') AND id = 2")),
            json!([[2]]),
        )
        .await;
        to.check(
            &by(&format!("{cast} = ?")),
            std::slice::from_ref(bob),
            json!([[2]]),
        )
        .await;
        check(&by(&format!("{cast} = 'guess'")), foreign.clone()).await;
        check(
            &format!("SELECT {cast} AS e FROM people WHERE id = 1"),
            json!([[ann]]),
        )
        .await;
    }
    for cast in cut {
        check(&by(&format!("{cast} = 'T'")), foreign.clone()).await;
        check(&by(&format!("'T' IN ({cast})")), foreign.clone()).await;
        to.check(
            &by(&format!("{cast} <> ?")),
            std::slice::from_ref(bob),
            foreign.clone(),
        )
        .await;
    }
    let spelt: &[&str] = match dialect {
        Dialect::Sqlite => &["CAST('T' AS varchar(9))", "CAST('T' AS text)"],
        Dialect::Postgres => &["'T'::varchar", "'T'::char(60)", "CAST('T' AS varchar(60))"],
        Dialect::Mysql => &[
            "BINARY 'T'",
            "_utf8mb4'T'",
            "_latin1'T'",
            "CAST('T' AS CHAR(52))",
            "CONVERT('T' USING utf8mb4)",
        ],
    };
    for token in spelt {
        check(&by(&format!("email = {token}")), json!([[1]])).await;
        let other = token.replace("'T'", "'guess'");
        check(&by(&format!("email = {other}")), foreign.clone()).await;
    }

    // A token that is chosen among tokens is the same as the column's.
    for (sql, expected) in [
        (
            "SELECT DISTINCT CASE WHEN id = 1 THEN email ELSE 'T' END AS e FROM people",
            json!([[ann]]),
        ),
        (
            "SELECT count(DISTINCT coalesce(email, 'U')) AS n FROM people",
            json!([[2]]),
        ),
        (
            "SELECT count(*) AS n FROM (SELECT email AS e FROM people WHERE id = 1 UNION SELECT 'guess') AS d",
            json!([[2]]),
        ),
    ] {
        check(sql, expected).await;
    }
    // In an arm of its own it would keep its tag.
    for sql in [
        "SELECT email AS e FROM people WHERE id = 1 UNION SELECT 'T'",
        "SELECT 'T' AS e UNION SELECT email FROM people WHERE id = 1",
        "SELECT DISTINCT e FROM (SELECT email AS e FROM people WHERE id = 1 UNION ALL SELECT 'T') AS d",
        "SELECT id, coalesce(email, 'none') AS e FROM people UNION SELECT 1, 'T' ORDER BY 1",
    ] {
        check(sql, foreign.clone()).await;
    }
    to.check(
        "SELECT email AS e FROM people WHERE id = 1 UNION SELECT ?",
        std::slice::from_ref(ann),
        foreign.clone(),
    )
    .await;
}

#[tokio::test]
async fn named_tokens_hold_on_sqlite() {
    let file = TestFile::new(&format!("{SCRIPT}{VIEWS}"));
    let backend = file.reader();
    named_tokens_hold(named_gate(backend, "main")).await;
}

#[tokio::test]
async fn named_tokens_hold_on_postgres() {
    let database = TestDatabase::postgres("named_tokens", &format!("{SCRIPT}{VIEWS}"));
    let backend = database.postgres_reader().await;
    named_tokens_hold(named_gate(backend, "public")).await;
}

async fn named_tokens_hold_on(server: &'static Server) {
    let database = TestDatabase::on(server, "named_tokens", &format!("{SCRIPT}{VIEWS}"));
    let backend = database.mysql_reader().await;
    named_tokens_hold(named_gate(backend, database.name())).await;
}

#[tokio::test]
async fn named_tokens_hold_on_mariadb() {
    named_tokens_hold_on(MariaDbServer::start_shared().unwrap()).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn named_tokens_hold_on_mysql_9() {
    named_tokens_hold_on(MySqlServer::start_shared().unwrap()).await;
}
