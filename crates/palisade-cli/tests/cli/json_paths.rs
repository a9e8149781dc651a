//! What a mask of paths leaves of JSON documents, on every engine.

use palisade_testkit::servers::MySqlServer;
use serde_json::{Value, json};

use crate::{
    desk::Desk,
    shop::{self, BOT, Shop},
};

/// Documents, each with what is shown of it. Whatever is not shown holds `SECRET`.
fn documents() -> Vec<(&'static str, Value)> {
    vec![
        (
            r#"{"address": {"city": "Ulm", "street": "SECRET"}, "ssn": "SECRET", "tags": ["a", "b"],
                "preferences": {"color": "red", "ok": true, "none": null, "size": 2.5}}"#,
            json!({"address": {"city": "Ulm"}, "tags": ["a", "b"],
                   "preferences": {"color": "red", "ok": true, "none": null, "size": 2.5}}),
        ),
        // What is no object on the way to a key is left out, and a whole value is shown whatever it is.
        (
            r#"{"address": "SECRET", "preferences": "SECRET", "tags": null}"#,
            json!({"tags": null}),
        ),
        (
            r#"{"address": [{"city": "SECRET"}], "tags": {"x": "a"}}"#,
            json!({"tags": {"x": "a"}}),
        ),
        (
            r#"{"address": {"City": "SECRET", "city": {"zip": 5}}, "Tags": "SECRET"}"#,
            json!({"address": {"city": {"zip": 5}}}),
        ),
        (r#"{"SECRET": 1}"#, json!({})),
        (r#"[{"tags": "SECRET"}]"#, Value::Null),
        (r#""SECRET""#, Value::Null),
        ("5", Value::Null),
        ("null", Value::Null),
        (
            r#"{"tags": "\u00fc \"quoted\""}"#,
            json!({"tags": "ü \"quoted\""}),
        ),
    ]
}

/// What only a text column holds.
const NO_JSON: &str = "{\"tags\": SECRET}";

const POLICIES: &str = r#"
permit (principal, action in [Action::"select", Action::"see"], resource);
permit (principal, action in Action::"read", resource);
permit (principal, action == Action::"call", resource) when { resource.safety == "pure" };
@mask("paths(address.city, preferences.*, tags)")
forbid (principal, action == Action::"read_plain", resource)
when { [Column::"{schema}.people.profile", Column::"{schema}.people.notes"].contains(resource) };
"#;

fn inserts(texts: bool) -> String {
    let mut script = String::new();
    for (index, (document, _)) in documents().iter().enumerate() {
        let document = document.replace('\'', "''");
        script.push_str(&format!(
            "INSERT INTO people VALUES ({index}, '{document}', '{document}');\n"
        ));
    }
    if texts {
        script.push_str(&format!(
            "INSERT INTO people VALUES (50, NULL, '{NO_JSON}');\n"
        ));
    }
    script
}

/// An engine's database, and how it writes what is asked of it.
struct Engine {
    url: String,
    city: &'static str,
    keys: &'static str,
    holds: &'static str,
}

/// The answer, which holds nothing that is hidden.
fn ask(desk: &Desk, url: &str, sql: &str) -> Value {
    let answer = shop::ask(desk, "query", url, "paths", sql);
    let rows = answer["rows"].to_string();
    assert!(answer["rows"].is_array(), "{url} {sql} {answer}");
    assert!(!rows.contains("SECRET"), "{url} {sql} {answer}");
    answer
}

fn parsed(cell: &Value) -> Value {
    match cell {
        Value::String(text) => serde_json::from_str(text).unwrap(),
        other => other.clone(),
    }
}

fn try_engine(desk: &Desk, engine: &Engine) {
    let Engine {
        url,
        city,
        keys,
        holds,
    } = engine;
    for column in ["profile", "notes"] {
        let sql = format!("SELECT id, {column} AS shown FROM people WHERE id < 50 ORDER BY id");
        let answer = ask(desk, url, &sql);
        let rows = answer["rows"].as_array().unwrap();
        assert_eq!(rows.len(), documents().len(), "{url}");
        for (row, (document, shown)) in rows.iter().zip(documents()) {
            assert_eq!(parsed(&row["shown"]), shown, "{url} {column} {document}");
        }
    }
    let answer = ask(
        desk,
        url,
        &format!("SELECT id FROM people WHERE {city} = 'Ulm'"),
    );
    assert_eq!(answer["rows"], json!([{"id": 0}]), "{url}");
    let answer = ask(desk, url, keys);
    assert_eq!(
        answer["rows"].as_array().unwrap().len(),
        3,
        "{url} {answer}"
    );
    // Containment finds what is shown, and nothing of what is not.
    let found = |document: &str| {
        let sql = holds.replace("{}", document);
        ask(desk, url, &sql)["rows"][0]["n"].clone()
    };
    if !holds.is_empty() {
        assert_eq!(found(r#"{"address": {"city": "Ulm"}}"#), json!(1), "{url}");
        assert_eq!(found(r#"{"ssn": "SECRET"}"#), json!(0), "{url}");
    }
}

fn desk_with_policies<'s>(shop: &'s Shop, schema: &str) -> &'s Desk {
    shop.write_policies("paths", &POLICIES.replace("{schema}", schema));
    &shop.desk
}

fn mysql(shop: &Shop) {
    shop.load(&format!(
        "CREATE TABLE people (id int PRIMARY KEY, profile json, notes longtext);\n{}",
        inserts(true).replace('\\', "\\\\")
    ));
    let engine = Engine {
        url: shop.url(),
        city: "json_unquote(json_extract(profile, '$.address.city'))",
        keys: "SELECT k.k FROM people p, json_table(json_keys(p.profile), '$[*]' columns (k varchar(20) path '$')) k WHERE p.id = 0",
        holds: "SELECT count(*) AS n FROM people WHERE json_contains(profile, '{}')",
    };
    let desk = desk_with_policies(shop, &shop.database);
    try_engine(desk, &engine);
    let sql = "SELECT notes FROM people WHERE id = 50";
    assert_eq!(
        ask(desk, &engine.url, sql)["rows"],
        json!([{"notes": null}])
    );
}

#[test]
fn documents_show_permitted_paths_on_postgres() {
    let shop = Shop::new("paths");
    shop.load(&format!(
        "CREATE TABLE people (id int PRIMARY KEY, profile jsonb, notes json); GRANT SELECT ON people TO {};\n{}",
        shop.reader,
        inserts(false)
    ));
    let desk = desk_with_policies(&shop, "public");
    let engine = Engine {
        url: shop.url(),
        city: "profile #>> '{address,city}'",
        keys: "SELECT k FROM people p, jsonb_object_keys(p.profile) AS k WHERE p.id = 0",
        holds: "SELECT count(*) AS n FROM people WHERE profile @> '{}'",
    };
    try_engine(desk, &engine);
    // PostgreSQL reads a `json` anew, and cannot read each: those are NULL, never an error.
    for (id, escape) in [(60, r"\u0000"), (61, r"\ud800"), (62, r"\uDC00")] {
        shop.load(&format!(
            r#"INSERT INTO people VALUES ({id}, NULL, '{{"tags": 1, "ssn": "SECRET {escape}"}}');"#
        ));
        let sql = format!("SELECT notes FROM people WHERE id = {id}");
        assert_eq!(
            ask(desk, &engine.url, &sql)["rows"],
            json!([{"notes": null}])
        );
    }
}

#[test]
fn documents_show_permitted_paths_on_mariadb() {
    mysql(&Shop::mariadb("paths"));
}

#[test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
fn documents_show_permitted_paths_on_mysql_9() {
    mysql(&Shop::mysql(MySqlServer::start_shared().unwrap(), "paths"));
}

#[test]
fn documents_show_permitted_paths_on_sqlite() {
    let desk = Desk::empty();
    desk.write("paths/base.cedar", POLICIES.replace("{schema}", "main"));
    desk.write(
        "paths/principals.cedarschema",
        "entity Agent { tenant?: Long };\nentity User;\n",
    );
    let file = desk.path("people.db");
    let script = format!(
        "CREATE TABLE people (id INTEGER PRIMARY KEY, profile JSON, notes TEXT);\n{}
         INSERT INTO people VALUES (51, NULL, jsonb('{{\"tags\": \"SECRET\"}}'));
         INSERT INTO people VALUES (52, NULL, CAST('{{\"tags\": \"SECRET\"}}' AS BLOB));",
        inserts(true)
    );
    rusqlite::Connection::open(&file)
        .unwrap()
        .execute_batch(&script)
        .unwrap();
    let url = format!("sqlite:{}", file.display());
    let engine = Engine {
        url: url.clone(),
        city: "profile ->> '$.address.city'",
        keys: "SELECT k.key FROM people p, json_each(p.profile) k WHERE p.id = 0",
        holds: "",
    };
    try_engine(&desk, &engine);
    let answer = ask(&desk, &url, "SELECT notes FROM people WHERE id >= 50");
    let null = json!({"notes": null});
    assert_eq!(answer["rows"], Value::Array(vec![null; 3]));
    let told = desk
        .run(&[
            "query",
            &url,
            "--policies",
            "paths",
            "--as",
            BOT,
            "SELECT profile FROM people WHERE id = 0",
        ])
        .expect_exit(0)
        .out;
    assert!(told.contains("masked: profile"), "{told}");
}
