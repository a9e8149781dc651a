//! What is told of tables: keys, indexes, masks and changes where they are seen whole; and the schema as statements.

use std::sync::Arc;

use palisade::{firewall::Firewall, guard::Guard, policy::PolicySources, session::Principal};
use palisade_mcp::{PalisadeServer, ServeOptions};
use palisade_sqlite::SqliteBackend;
use serde_json::{Value, json};

use crate::{Client, Records, TestHost};

const SCRIPT: &str = "
CREATE TABLE people (id INTEGER PRIMARY KEY, code TEXT NOT NULL UNIQUE, email TEXT UNIQUE, born TEXT, pay REAL, note TEXT DEFAULT 'x',
  UNIQUE (code, email));
CREATE INDEX people_born ON people (born, code);
CREATE INDEX people_pay ON people (pay);
CREATE TABLE visits (id INTEGER PRIMARY KEY, person INTEGER REFERENCES people (id), day TEXT, \"order\" INTEGER);
CREATE INDEX visits_day ON visits (day, person);
CREATE TABLE vault (id INTEGER PRIMARY KEY, secret_word TEXT);
CREATE TABLE filtered (id INTEGER PRIMARY KEY, owner TEXT);
CREATE VIEW recent AS SELECT day, person FROM visits WHERE day > '2020';
INSERT INTO visits (person, day) VALUES (NULL, 'a'), (NULL, 'b'), (NULL, 'c');
INSERT INTO filtered (owner) VALUES ('a'), ('b');
INSERT INTO vault VALUES (1, 'hush');
ANALYZE;
";

const POLICIES: &str = r#"
permit (principal, action in [Action::"select", Action::"discover", Action::"read", Action::"call"], resource)
unless { resource is Table && resource == Table::"main.vault" };
permit (principal, action == Action::"see", resource is row::main::visits);
permit (principal, action == Action::"see", resource is row::main::people);
permit (principal, action == Action::"see", resource is row::main::recent);
permit (principal, action == Action::"see", resource is row::main::filtered) when { resource has owner && resource.owner == "a" };
permit (principal, action in [Action::"insert", Action::"delete"], resource == Table::"main.visits");
permit (principal, action in [Action::"change", Action::"add"], resource is row::main::visits);
permit (principal, action == Action::"write", resource == Column::"main.visits.day");
@mask("email")
forbid (principal, action == Action::"read_plain", resource == Column::"main.people.email");
@aggregate_only("5")
forbid (principal, action == Action::"read_plain", resource == Column::"main.people.pay");
"#;

pub(crate) fn server(records: &Records, templates: Option<&str>) -> PalisadeServer {
    serving(SCRIPT, POLICIES, records, templates)
}

pub(crate) fn serving(
    script: &str,
    policies: &str,
    records: &Records,
    templates: Option<&str>,
) -> PalisadeServer {
    let backend = SqliteBackend::in_memory(script, "test").unwrap();
    let sources = PolicySources {
        templates: templates.map(str::to_owned),
        ..PolicySources::from_cedar("p.cedar", policies)
    };
    let firewall = Firewall::builder(backend.catalog().clone(), sources).allow_changes();
    let guard = Guard::new(
        Arc::new(firewall.build().unwrap()),
        backend,
        Arc::new(TestHost::default()),
        Arc::new(records.clone()),
    );
    let options = ServeOptions::new(Principal::new("Agent", "a"), "test").writable();
    PalisadeServer::new(Arc::new(guard), options)
}

#[tokio::test]
async fn keys_indexes_and_rows_are_told_where_they_are_seen_whole() {
    let mut client = Client::connect(server(&Records::default(), None));
    client.initialize().await;
    let people = client
        .call("describe_table", json!({"table": "people"}))
        .await["structuredContent"]
        .clone();
    // A key of a masked column would tell that its values differ, and an index what it is good for.
    assert_eq!(people["unique_keys"], json!([["code"]]));
    assert_eq!(people["indexes"], json!([["born", "code"]]));
    assert!(people.get("row_estimate").is_none(), "{people}");
    assert_eq!(people["columns"][2]["mask"], "email");
    assert_eq!(
        people["columns"][4]["mask"],
        "aggregate_only: COUNT, SUM and AVG over 5 values or more see it"
    );
    assert!(people.get("changes").is_none() && people["columns"][0].get("mask").is_none());
    assert!(people["engine"].as_str().unwrap().starts_with("SQLite 3."));
    let visits = client
        .call("describe_table", json!({"table": "visits"}))
        .await["structuredContent"]
        .clone();
    assert_eq!(visits["row_estimate"], 3);
    assert_eq!(visits["changes"], json!(["insert", "delete"]));
    assert_eq!(visits["assigned"], json!(["day"]));
    let filtered = client
        .call("describe_table", json!({"table": "filtered"}))
        .await["structuredContent"]
        .clone();
    assert!(filtered.get("row_estimate").is_none(), "{filtered}");
    client.stop().await;
}

#[tokio::test]
async fn the_schema_is_told_as_statements_of_what_is_visible() {
    let mut client = Client::connect(server(&Records::default(), None));
    client.initialize().await;
    let dump = client.call("schema_dump", json!({})).await["structuredContent"].clone();
    let statements = dump["statements"].as_array().unwrap();
    assert_eq!((statements.len(), &dump["table_count"]), (4, &json!(4)));
    let all = dump.to_string();
    for hidden in ["vault", "secret_word", "2020", "people_born"] {
        assert!(!all.contains(hidden), "{hidden}");
    }
    let people = statements
        .iter()
        .find(|text| text.as_str().unwrap().contains("main.people"));
    assert_eq!(
        people.unwrap().as_str().unwrap(),
        "CREATE TABLE main.people (\n  id INTEGER NOT NULL,\n  code TEXT NOT NULL,\n  email TEXT /* masked: email */,\n  born TEXT,\n  \
         pay REAL /* masked: aggregate_only: COUNT, SUM and AVG over 5 values or more see it */,\n  note TEXT DEFAULT 'x',\n  \
         PRIMARY KEY (id),\n  UNIQUE (code)\n);\nCREATE INDEX ON main.people (born, code);"
    );
    let visits = client
        .call("schema_dump", json!({"pattern": "visits"}))
        .await["structuredContent"]
        .clone();
    let visits = visits["statements"][0].as_str().unwrap();
    assert!(visits.contains("\"order\" INTEGER"), "{visits}");
    assert!(
        visits.contains("FOREIGN KEY (person) REFERENCES main.people (id)"),
        "{visits}"
    );
    let view = statements
        .iter()
        .find(|text| text.as_str().unwrap().contains("main.recent"));
    assert!(
        view.unwrap()
            .as_str()
            .unwrap()
            .starts_with("-- a view, without its query\n")
    );
    client.stop().await;
}

/// Neither a schema nor a single table outgrows an answer: each comes page by page, whole.
#[tokio::test]
async fn wide_tables_and_large_schemas_come_page_by_page() {
    let mut script = String::new();
    for n in 0..300 {
        script.push_str(&format!("CREATE TABLE part_{n:03} (id INTEGER PRIMARY KEY, amount_of_it REAL NOT NULL, a_longer_note TEXT);\n"));
    }
    let columns: Vec<String> = (0..1500)
        .map(|n| format!("column_of_the_wide_table_{n} TEXT"))
        .collect();
    script.push_str(&format!("CREATE TABLE wide ({});", columns.join(", ")));
    let server = serving(
        &script,
        "permit (principal, action, resource);",
        &Records::default(),
        None,
    );
    let mut client = Client::connect(server);
    client.initialize().await;
    for (tool, mut arguments, key, count) in [
        ("schema_dump", json!({}), "statements", 301),
        ("describe_table", json!({"table": "wide"}), "columns", 1500),
    ] {
        let (mut all, mut pages) = (Vec::<Value>::new(), 0);
        loop {
            let result = client.call(tool, arguments.clone()).await;
            let page = &result["structuredContent"];
            assert!(page.to_string().chars().count() <= 40_000, "{tool}");
            all.extend(page[key].as_array().unwrap().iter().cloned());
            pages += 1;
            assert_eq!(page["truncated"], page.get("next_cursor").is_some());
            match page.get("next_cursor") {
                Some(cursor) => arguments["cursor"] = cursor.clone(),
                None => break,
            }
        }
        assert_eq!(all.len(), count, "{tool}");
        assert!(pages > 1, "{tool}: {pages}");
    }
    let dump = client.call("schema_dump", json!({"pattern": "wide"})).await;
    assert_eq!(
        dump["structuredContent"]["statements"],
        json!(["-- main.wide: 1500 columns, described page by page by describe_table"])
    );
    // A cursor is of its table.
    let first = client
        .call("describe_table", json!({"table": "wide"}))
        .await;
    let cursor = &first["structuredContent"]["next_cursor"];
    let refusal = client
        .refused(
            "describe_table",
            json!({"table": "part_000", "cursor": cursor}),
        )
        .await;
    assert_eq!(refusal["code"], "request.invalid");
    client.stop().await;
}

/// A column of a table has its type in a view too, through views and under other names. A converted value has the type it is converted to.
/// Other computed values have one on SQLite where the expression has one whatever the rows hold.
#[tokio::test]
async fn columns_of_views_have_the_types_of_what_they_are() {
    let script = "CREATE TABLE t (id INTEGER PRIMARY KEY, word VARCHAR(20) NOT NULL, price NUMERIC(5,2));
        CREATE VIEW v (number, term, cost, share, twice) AS SELECT id, word, price, CAST(price AS REAL), price * 2 FROM t;
        CREATE VIEW w AS SELECT term AS again, share, (SELECT number) AS n FROM v WHERE cost > 0;
        INSERT INTO t VALUES (1, 'a', 2.5);";
    let policies = "permit (principal, action, resource);";
    let server = serving(script, policies, &Records::default(), None);
    let mut client = Client::connect(server);
    client.initialize().await;
    let types = |told: &Value| -> Vec<String> {
        let columns = told["columns"].as_array().unwrap().iter();
        columns
            .map(|column| format!("{} {}", column["name"], column["type"]).replace('"', ""))
            .collect()
    };
    let describe = |table: &str| json!({"table": table});
    let v = client.call("describe_table", describe("v")).await;
    assert_eq!(
        types(&v["structuredContent"]),
        [
            "number INTEGER",
            "term VARCHAR(20)",
            "cost NUMERIC(5,2)",
            "share REAL",
            "twice "
        ]
    );
    let w = client.call("describe_table", describe("w")).await;
    assert_eq!(
        types(&w["structuredContent"]),
        ["again VARCHAR(20)", "share REAL", "n INTEGER"]
    );
    let listed = client.call("list_views", json!({"detail": "full"})).await;
    let listed = &listed["structuredContent"]["tables"];
    assert_eq!(
        types(&listed[0]),
        types(&v["structuredContent"]),
        "{listed}"
    );
    let dump = client.call("schema_dump", json!({"pattern": "w"})).await;
    let dump = dump["structuredContent"]["statements"].to_string();
    assert!(dump.contains("again VARCHAR(20)"), "{dump}");
    let answer = client
        .call("query", json!({"sql": "SELECT cost, twice FROM v"}))
        .await;
    assert_eq!(
        types(&answer["structuredContent"]),
        ["cost NUMERIC(5,2)", "twice REAL"]
    );
    client.stop().await;
}

/// What is told of a computed column before there are values is what its values are.
#[tokio::test]
async fn computed_columns_of_views_have_the_types_of_their_values() {
    let script = "CREATE TABLE t (id INTEGER PRIMARY KEY, word TEXT, price NUMERIC(5,2));
        INSERT INTO t VALUES (1, 'a', 2.5), (2, 'b', 3);
        CREATE VIEW sums AS SELECT word, count(*) AS n, avg(price) AS mean, sum(id) AS total, max(word) AS last FROM t GROUP BY word;
        CREATE VIEW parts AS SELECT upper(word) AS up, word || '!' AS loud, length(word) AS long, id * 2 AS twice, id * 1.5 AS more,
            id > 1 AS late, CASE id WHEN 1 THEN 'one' ELSE word END AS said, coalesce(word, '-') AS filled, -id AS less FROM t;
        CREATE VIEW untold AS SELECT price * 2 AS cost, iif(id > 1, 'a', 1) AS mixed, coalesce(price, id) AS either, NULL AS nil,
            (SELECT word FROM t) AS one FROM t;
        CREATE VIEW behind AS SELECT word + 1 AS n FROM (SELECT 'x' AS word FROM t);";
    let policies = "permit (principal, action, resource);";
    let server = serving(script, policies, &Records::default(), None);
    let mut client = Client::connect(server);
    client.initialize().await;
    let types = |told: &Value| -> Vec<String> {
        let columns = told["columns"].as_array().unwrap().iter();
        columns
            .map(|column| format!("{} {}", column["name"], column["type"]).replace('"', ""))
            .collect()
    };
    for view in ["sums", "parts"] {
        let described = client.call("describe_table", json!({"table": view})).await;
        let sql = format!("SELECT * FROM {view}");
        let answer = client.call("query", json!({"sql": sql})).await;
        let described = types(&described["structuredContent"]);
        assert_eq!(described, types(&answer["structuredContent"]), "{view}");
        assert!(
            described.iter().all(|one| !one.ends_with(' ')),
            "{described:?}"
        );
    }
    for view in ["untold", "behind"] {
        let described = client.call("describe_table", json!({"table": view})).await;
        let described = types(&described["structuredContent"]);
        let untold = described.iter().filter(|one| !one.starts_with("one "));
        assert!(
            untold.clone().all(|one| one.ends_with(' ')),
            "{described:?}"
        );
    }
    client.stop().await;
}
