//! One policy folder for the same schema on SQLite, PostgreSQL and MariaDB.

use serde_json::json;

use crate::{
    desk::Desk,
    shop::{BOT, Shop, ask},
};

const SQLITE_SCHEMA: &str = "
    CREATE TABLE customers (id INTEGER PRIMARY KEY, tenant_id INTEGER NOT NULL, name TEXT NOT NULL, email TEXT, national_id TEXT);
    CREATE TABLE credentials (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers, api_key TEXT);
    CREATE TABLE tickets (id INTEGER PRIMARY KEY, tenant_id INTEGER NOT NULL, subject TEXT, note TEXT);
    CREATE VIEW directory AS SELECT id, name, email FROM customers;
    INSERT INTO customers VALUES (1, 1, 'Ada Brandt', 'ada@acme.example', '900-11-4821'),
                                 (2, 2, 'Elif Yilmaz', 'elif@globex.example', '900-22-7734');
    INSERT INTO tickets VALUES (1, 1, 'printer', 'n1'), (2, 1, 'screen', 'n2'), (3, 2, 'desk', 'n3');
";

#[test]
fn one_folder_serves_three_engines() {
    let (postgres, mariadb) = (Shop::new("folder"), Shop::mariadb("folder"));
    // The desk of PostgreSQL's shop has policies that call the schema `public`.
    let desk = &postgres.desk;
    let names = format!(
        "[sqlite]\nmain = \"public\"\n\n[mysql]\n{} = \"public\"\n",
        mariadb.database
    );
    desk.write("p/schemas.toml", &names);
    let file = desk.path("shop.db");
    rusqlite::Connection::open(&file)
        .unwrap()
        .execute_batch(SQLITE_SCHEMA)
        .unwrap();
    let lite = format!("sqlite:{}", file.display());
    let lock = |url: &str| {
        let run = ["policy", "what", BOT, "--catalog", url, "--policies", "p"];
        desk.run(&run).expect_exit(0).out
    };
    let locks: Vec<_> = [&lite, &postgres.url(), &mariadb.url()]
        .map(|url| {
            answers(desk, url);
            lock(url)
        })
        .into_iter()
        .collect();
    for told in &locks {
        assert!(told.contains("public.customers"), "{told}");
        assert!(!told.contains("main.customers"), "{told}");
    }
    // Without the file the same policies name tables that are not there.
    std::fs::remove_file(desk.path("p/schemas.toml")).unwrap();
    for url in [&lite, &mariadb.url()] {
        let told = desk.run(&["query", url, "--policies", "p", "--as", BOT, "SELECT 1"]);
        told.fails(3, &["is not in the catalog"]);
    }
}

fn answers(desk: &Desk, url: &str) {
    let ask = |command: &str, sql: &str| ask(desk, command, url, "p", sql);
    let answer = ask(
        "query",
        "SELECT name, national_id, email FROM customers ORDER BY id",
    );
    assert_eq!(
        answer["rows"],
        json!([{"name": "Ada Brandt", "national_id": "****4821", "email": null}]),
        "{url}"
    );
    let answer = ask("query", "SELECT count(*) AS n FROM tickets");
    assert_eq!(answer["rows"], json!([{"n": 2}]), "{url}");
    let answer = ask("query", "SELECT api_key FROM credentials");
    assert_eq!(answer["code"], "policy.forbidden", "{url}");
    let answer = ask("query", "SELECT note FROM tickets");
    assert_eq!(answer["code"], "name.unknown-column", "{url}");
}

#[test]
fn mistakes_in_names_of_schemas_point_at_their_line() {
    let desk = Desk::empty();
    desk.write("p/base.cedar", "permit (principal, action, resource);");
    let file = desk.path("shop.db");
    rusqlite::Connection::open(&file)
        .unwrap()
        .execute_batch(SQLITE_SCHEMA)
        .unwrap();
    let lite = format!("sqlite:{}", file.display());
    for (text, expected) in [
        ("[sqlite]\nmain = 1\n", "schemas.toml:2:8"),
        ("[oracle]\nmain = \"a\"\n", "schemas.toml:1:2"),
        ("[sqlite]\nmain = \"\"\n", "schemas.toml:2:8"),
        ("[postgres]\npublic = \"main\"\n", ""),
    ] {
        desk.write("p/schemas.toml", text);
        let told = desk.run(&["policy", "check", "--catalog", &lite, "--policies", "p"]);
        match expected {
            "" => drop(told.expect_exit(0)),
            expected => told.fails(3, &[expected]),
        }
    }
}
