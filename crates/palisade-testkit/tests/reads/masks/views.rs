//! What views compute of masked columns.

use palisade::{
    guard::{Backend, Guard},
    policy::PolicySources,
    session::{Principal, Session},
    value::Params,
};
use palisade_testkit::{
    fixture::policy_sources,
    servers::{MariaDbServer, MySqlServer, Server},
};
use serde_json::{Value, json};

use super::{firewall, guard_over};
use crate::database::{TestDatabase, TestFile};

const SCRIPT: &str = "
CREATE TABLE people (id int PRIMARY KEY, email text, town text);
INSERT INTO people VALUES (1, 'ann@mail.example', 'Rome'), (2, 'bob@mail.example', 'Oslo'), (3, NULL, 'Rome');
CREATE VIEW letters AS SELECT id, email, upper(email) AS loud, town FROM people;
CREATE VIEW again AS SELECT id, loud AS text FROM letters WHERE id < 9;
CREATE VIEW totals AS SELECT count(email) AS emails, count(DISTINCT email) AS kinds FROM people;
";

const KEPT: &str = "[[column]]\npattern = \"*.totals.kinds\"\ntags = [\"kept\"]\n";

/// Policies that mask what is tagged `pii`, and say `more`. What that may be of `kept` is the view's own tag.
fn sources(mask: &str, more: &str) -> PolicySources {
    let own = if more.contains("kept") { KEPT } else { "" };
    PolicySources {
        classification: Some(format!(
            "[[column]]\npattern = \"*.*.email\"\ntags = [\"pii\"]\n{own}"
        )),
        ..policy_sources(format!(
            "permit(principal, action, resource);
             @mask(\"{mask}\") forbid(principal, action == Action::\"read_plain\", resource) when {{ resource.tags.contains(\"pii\") }};
             {more}"
        ))
    }
}

fn load<B: Backend + Clone>(backend: &B, mask: &str, more: &str) -> Guard {
    let firewall = firewall(backend, sources(mask, more));
    guard_over(
        firewall.unwrap_or_else(|error| panic!("{error}")),
        backend.clone(),
    )
}

/// The cells of an answer by row, and whether each column is told as masked.
async fn ask(guard: &Guard, sql: &str) -> (Value, Vec<Value>) {
    let session = Session::new(Principal::new("Agent", "a"));
    let envelope = match guard
        .query(sql, &Params::None, &session)
        .await
        .into_result()
    {
        Ok(envelope) => envelope,
        Err(refusal) => panic!("{sql}: {}", refusal.rejection),
    };
    let answer = serde_json::to_value(&envelope).unwrap();
    let columns = answer["columns"].as_array().unwrap();
    let names: Vec<_> = columns
        .iter()
        .map(|column| column["name"].as_str().unwrap())
        .collect();
    let rows = answer["rows"].as_array().unwrap().iter();
    let rows = rows.map(|row| names.iter().map(|name| row[*name].clone()).collect());
    let masked = columns.iter().map(|column| column["masked"].clone());
    (Value::Array(rows.collect()), masked.collect())
}

async fn what_views_compute_is_masked_once<B: Backend + Clone>(backend: B, schema: &str) {
    // The mask of texts is none for a number, and the view's number loads all the same.
    let guard = load(&backend, "email", "");
    for (sql, rows) in [
        (
            "SELECT email, loud FROM letters WHERE id < 3 ORDER BY id",
            json!([
                ["***@mail.example", "***@MAIL.EXAMPLE"],
                ["***@mail.example", "***@MAIL.EXAMPLE"]
            ]),
        ),
        (
            "SELECT text FROM again WHERE id = 1",
            json!([["***@MAIL.EXAMPLE"]]),
        ),
        ("SELECT emails, kinds FROM totals", json!([[2, 1]])),
    ] {
        let (found, masked) = ask(&guard, sql).await;
        assert_eq!(found, rows, "{sql}");
        assert!(masked.iter().all(|masked| *masked == json!(true)), "{sql}");
    }
    // A hash in a view is the table's, so that both go together.
    let guard = load(&backend, "hash", "");
    let joined = "SELECT count(*) AS n FROM people AS p JOIN letters AS l ON l.email = p.email";
    assert_eq!(ask(&guard, joined).await.0, json!([[2]]));
    let (found, _) = ask(&guard, "SELECT emails, kinds FROM totals").await;
    assert_eq!(found, json!([[2, 2]]));

    // What somebody says of the view itself is done to it.
    let forbid = |mask: &str, what: &str| {
        format!(
            "@mask(\"{mask}\") forbid(principal, action == Action::\"read_plain\", resource{what};"
        )
    };
    let of_column = forbid(
        "fixed(x)",
        &format!(" == Column::\"{schema}.letters.email\")"),
    );
    let guard = load(&backend, "email", &of_column);
    let (found, _) = ask(&guard, "SELECT email, loud FROM letters WHERE id = 1").await;
    assert_eq!(found, json!([["x", "***@MAIL.EXAMPLE"]]));
    let of_view = forbid("fixed(x)", &format!(" in Table::\"{schema}.letters\")"));
    let guard = load(&backend, "email", &of_view);
    let all = "SELECT max(loud) AS loud, max(town) AS town FROM letters";
    let (found, _) = ask(&guard, all).await;
    assert_eq!(found, json!([["x", "x"]]));
    let of_tag = forbid("null", ") when { resource.tags.contains(\"kept\") }");
    let guard = load(&backend, "email", &of_tag);
    let (found, _) = ask(&guard, "SELECT emails, kinds FROM totals").await;
    assert_eq!(found, json!([[2, null]]));

    // A count of nothing would be 0; NULL says that it is not known.
    let guard = load(&backend, "null", "");
    let (found, _) = ask(&guard, "SELECT emails, kinds FROM totals").await;
    assert_eq!(found, json!([[null, null]]));
}

#[tokio::test]
async fn what_views_compute_is_masked_once_on_sqlite() {
    let file = TestFile::new(SCRIPT);
    what_views_compute_is_masked_once(file.reader(), "main").await;
}

#[tokio::test]
async fn what_views_compute_is_masked_once_on_postgres() {
    let database = TestDatabase::postgres("masked_views", SCRIPT);
    what_views_compute_is_masked_once(database.postgres_reader().await, "public").await;
}

async fn on_mysql(server: &'static Server) {
    let database = TestDatabase::on(server, "masked_views", SCRIPT);
    let backend = database.mysql_reader().await;
    what_views_compute_is_masked_once(backend, database.name()).await;
}

#[tokio::test]
async fn what_views_compute_is_masked_once_on_mariadb() {
    on_mysql(MariaDbServer::start_shared().unwrap()).await;
}

#[tokio::test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
async fn what_views_compute_is_masked_once_on_mysql_9() {
    on_mysql(MySqlServer::start_shared().unwrap()).await;
}
