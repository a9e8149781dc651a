//! Caps of policies on rows and time, on SQLite, PostgreSQL and MariaDB.

use serde_json::json;

use crate::shop::{BOT, Shop, ask};

const SQLITE_SCHEMA: &str = "
    CREATE TABLE tickets (id INTEGER PRIMARY KEY, tenant_id INTEGER NOT NULL, subject TEXT, note TEXT);
    INSERT INTO tickets VALUES (1, 1, 'printer', 'n1'), (2, 1, 'screen', 'n2'), (3, 2, 'desk', 'n3');
";

const READ: &str = "permit (principal, action in Action::\"read\", resource);
permit (principal, action == Action::\"see\", resource);
permit (principal, action == Action::\"call\", resource) when { resource.safety == \"pure\" };
";

/// Joins whose conditions hold for every pair: 3^15 rows to count.
fn long_statement() -> String {
    let joins: Vec<String> = (1..15)
        .map(|n| format!("JOIN tickets t{n} ON t{n}.id <> t{}.id + 100", n - 1))
        .collect();
    format!("SELECT count(*) AS n FROM tickets t0 {}", joins.join(" "))
}

#[test]
fn policies_cap_rows_and_time_on_three_engines() {
    let (postgres, mariadb) = (Shop::new("caps"), Shop::mariadb("caps"));
    let desk = &postgres.desk;
    let file = desk.path("shop.db");
    rusqlite::Connection::open(&file)
        .unwrap()
        .execute_batch(SQLITE_SCHEMA)
        .unwrap();
    for (folder, select) in [
        ("refuse", "@max_rows(\"2 else refuse\")"),
        ("cut", "@max_rows(\"2\")"),
        ("soon", "@max_time(\"300ms\")"),
    ] {
        let select =
            format!("{select} permit (principal, action == Action::\"select\", resource);");
        postgres.write_policies(folder, &format!("{READ}{select}"));
    }
    let lite = format!("sqlite:{}", file.display());
    for url in [lite, postgres.url(), mariadb.url()] {
        let ask = |command: &str, folder: &str, sql: &str| ask(desk, command, &url, folder, sql);
        // A third row makes it an answer of more than two.
        let sql = "SELECT id FROM tickets ORDER BY id";
        let refused = ask("query", "refuse", sql);
        assert_eq!(refused["code"], "limit.rows", "{url} {refused}");
        let text = refused.to_string();
        assert!(text.contains("more than 2 rows"), "{text}");
        let two = json!([{"id": 1}, {"id": 2}]);
        for sql in [
            "SELECT id FROM tickets ORDER BY id LIMIT 2",
            "SELECT id FROM tickets WHERE tenant_id = 1 ORDER BY id",
        ] {
            let answer = ask("query", "refuse", sql);
            assert_eq!(answer["rows"], two, "{url} {answer}");
            assert_eq!(answer["truncated"], false, "{url} {answer}");
        }
        let answer = ask("query", "cut", sql);
        assert_eq!(answer["rows"], two, "{url} {answer}");
        assert_eq!(answer["truncated"], true, "{url} {answer}");

        let began = std::time::Instant::now();
        let answer = ask("query", "soon", &long_statement());
        assert_eq!(answer["code"], "limit.time", "{url} {answer}");
        // Far below the thirty seconds of the configuration, however slow the machine.
        assert!(began.elapsed().as_secs() < 20, "{url}");
        let told = ask("explain", "soon", sql);
        assert_eq!(told["trace"]["max_time_ms"], 300, "{url} {told}");
        let lock = [
            "policy",
            "what",
            BOT,
            "--catalog",
            &url,
            "--policies",
            "soon",
        ];
        let lock = desk.run(&lock).expect_exit(0).out;
        assert!(lock.contains("in 300ms"), "{lock}");
    }
}
