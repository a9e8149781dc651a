//! `[budgets]`: what a principal may take within a minute and a day.

use serde_json::{Value, json};

use crate::{desk::Desk, serve::Client};

/// A desk whose configuration has two connections to one database, and `budgets`.
fn desk(budgets: &str) -> Desk {
    let desk = Desk::new();
    let connection = "url = \"sqlite:demo.db\"\npolicies = \"demo-policies\"\nprincipal = 'Agent::\"support-bot\"'";
    desk.write(
        "palisade.toml",
        format!("{budgets}\n[connections.one]\n{connection}\n[connections.two]\n{connection}\n"),
    );
    desk
}

fn query(client: &mut Client, connection: &str, sql: &str) -> Value {
    let arguments = json!({"connection": connection, "sql": sql});
    client.call("query", &arguments)
}

#[test]
fn rows_are_counted_over_all_connections() {
    let desk = desk("[budgets.minute]\nrows = 5");
    let mut client = Client::new(&desk, &["--config", "palisade.toml"]);
    let sql = "SELECT id FROM customers";
    for connection in ["one", "two"] {
        let answer = query(&mut client, connection, sql);
        assert_eq!(answer["structuredContent"]["row_count"], 4, "{answer}");
    }
    for connection in ["one", "two"] {
        let answer = query(&mut client, connection, "SELECT 1");
        assert_eq!(answer["isError"], true, "{answer}");
        let error = &answer["structuredContent"];
        assert_eq!(error["code"], "limit.budget", "{answer}");
        assert_eq!(error["retryable"], true, "{answer}");
        let wait = error["retry_after_ms"].as_u64().unwrap();
        assert!((1..=60_000).contains(&wait), "{answer}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("5 rows a minute"), "{answer}");
    }
    // What asks no database has no budget.
    let tables = client.call("list_tables", &json!({"connection": "one"}));
    assert_ne!(tables["isError"], true, "{tables}");
}

#[test]
fn refused_statements_count_too() {
    let desk = desk("[budgets.day]\nstatements = 3");
    let mut client = Client::new(&desk, &["--config", "palisade.toml"]);
    for _ in 0..3 {
        let answer = query(&mut client, "one", "SELECT service FROM credentials");
        let code = &answer["structuredContent"]["code"];
        assert_eq!(code, "policy.forbidden", "{answer}");
    }
    let answer = query(&mut client, "two", "SELECT 1");
    let code = &answer["structuredContent"]["code"];
    assert_eq!(code, "limit.budget", "{answer}");
}

#[test]
fn mistakes_point_at_their_line() {
    for (budgets, told) in [
        ("[budgets.minute]\nrows = 0", ["palisade.toml:2:8", "rows"]),
        (
            "[budgets.minute]\nrow = 5",
            ["palisade.toml:2:1", "did you mean `rows`?"],
        ),
        (
            "[budgets.hour]\nrows = 5",
            ["palisade.toml:1:10", "unknown field `hour`"],
        ),
    ] {
        let desk = desk(budgets);
        let answer = desk.run(&["config", "check", "palisade.toml"]);
        answer.fails(3, &told);
    }
}
