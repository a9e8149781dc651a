//! `palisade tables` and `palisade describe`: what the tools of the server tell, at the command line.

use serde_json::{Value, json};

use crate::{
    desk::{Answer, BOT, Desk},
    serve::Client,
    shop::Shop,
};

const POLICIES: [&str; 4] = ["--policies", "demo-policies", "--as", BOT];

fn run(desk: &Desk, command: &[&str], format: &str) -> Answer {
    desk.run(&[command, &POLICIES, &["--format", format]].concat())
}

/// What a tool tells, without the marks for a model.
fn told(client: &mut Client, tool: &str, arguments: &Value) -> Value {
    let mut answer = client.call(tool, arguments)["structuredContent"].clone();
    answer.as_object_mut().unwrap().remove("content_policy");
    // Who asks at a command line knows what database it is.
    assert!(answer.as_object_mut().unwrap().remove("engine").is_some());
    answer
}

#[test]
fn the_command_line_tells_of_tables_what_the_server_tells() {
    let desk = Desk::new();
    let mut client = Client::new(&desk, &[&["sqlite:demo.db"][..], &POLICIES].concat());
    let listed = run(&desk, &["tables", "sqlite:demo.db"], "json").expect_exit(0);
    assert_eq!(
        listed.json(),
        told(&mut client, "list_tables", &json!({})),
        "{}",
        listed.out
    );
    assert!(listed.out.contains("\"readable\":false"), "{}", listed.out);
    for table in ["customers", "main.TICKETS"] {
        let command = ["describe", "sqlite:demo.db", table];
        assert_eq!(
            run(&desk, &command, "json").expect_exit(0).json(),
            told(&mut client, "describe_table", &json!({"table": table}))
        );
    }
}

#[test]
fn tables_are_told_of_for_people() {
    let desk = Desk::new();
    let listed = run(&desk, &["tables", "sqlite:demo.db"], "text").expect_exit(0);
    assert!(
        listed
            .out
            .contains("│ main   │ customers   │ table │ yes      │\n"),
        "{}",
        listed.out
    );
    let command = ["describe", "sqlite:demo.db", "tickets"];
    let described = run(&desk, &command, "text").expect_exit(0).out;
    for line in [
        "main.tickets (table)\n",
        "│ id          │ INTEGER │ no   │ no     │\n",
        "primary key: id\n",
        "foreign key: customer_id → main.customers (id)\n",
    ] {
        assert!(described.contains(line), "{line}{described}");
    }
    let described = run(&desk, &["describe", "sqlite:demo.db", "customers"], "text");
    let described = described.expect_exit(0).out;
    assert!(
        described.contains("│ email          │ TEXT    │ yes  │ yes    │"),
        "{described}"
    );
}

/// What `command` shows in a terminal of 200 columns, which sends nothing but an end.
#[cfg(target_os = "linux")]
fn in_terminal(desk: &Desk, command: &str) -> String {
    let script = format!("script -qec 'stty rows 50 cols 200; {command}' /dev/null");
    desk.shell(&script, 0, b"\x04").expect_exit(0).out
}

#[test]
#[cfg(target_os = "linux")]
fn tables_are_as_wide_as_the_terminal() {
    let desk = Desk::new();
    let long = "twelve words of text ".repeat(7);
    let command =
        format!("palisade query sqlite:demo.db \"SELECT \\\"{long}\\\" AS text, 1 AS n\"");
    let shown = in_terminal(&desk, &command);
    assert!(shown.contains(&format!("│ {}", long.trim_end())), "{shown}");
    assert!(shown.contains(&"─".repeat(140)), "{shown}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_server_in_a_terminal_says_what_it_waits_for() {
    let desk = Desk::new();
    let shown = in_terminal(&desk, "palisade serve sqlite:demo.db");
    for text in [
        "Waiting for an MCP client on standard input.",
        r#"{"mcpServers":{"palisade":{"command":"palisade","args":["serve","sqlite:demo.db"]}}}"#,
        "Ctrl-D ends the server.",
    ] {
        assert!(shown.contains(text), "`{text}` is not in\n{shown}");
    }
    let piped = desk.run(&["serve", "sqlite:demo.db"]).expect_exit(0).err;
    assert!(!piped.contains("Waiting"), "{piped}");
}

/// Hints name the command to a person, and the tool to an agent.
#[test]
fn hints_name_what_there_is_to_use() {
    let desk = Desk::new();
    let absent = ["describe", "sqlite:demo.db", "vault"];
    let refused = run(&desk, &absent, "text").expect_exit(1).out;
    assert!(
        refused.contains("what to do: List the tables you can use with `palisade tables`.\n"),
        "{refused}"
    );
    let answer = desk.query("SELECT nme FROM customers");
    assert_eq!(
        (&answer["remediation_hint"], &answer["next_valid_actions"]),
        (
            &json!("List the columns of a table with `palisade describe`."),
            &json!(["palisade describe", "palisade query"])
        )
    );
    let mut client = Client::new(&desk, &[&["sqlite:demo.db"][..], &POLICIES].concat());
    let answer = client.query("SELECT nme FROM customers")["structuredContent"].clone();
    assert_eq!(
        (&answer["remediation_hint"], &answer["next_valid_actions"]),
        (
            &json!("List the columns of a table with describe_table."),
            &json!(["describe_table", "query"])
        )
    );
}

/// No policy would permit it, so that none is asked for.
#[test]
fn the_operator_is_told_of_virtual_tables() {
    let desk = Desk::new();
    let file = desk.path("demo.db");
    let docs = "CREATE VIRTUAL TABLE docs USING fts5(body); INSERT INTO docs VALUES ('printer');";
    let connection = rusqlite::Connection::open(&file).unwrap();
    connection.execute_batch(docs).unwrap();
    for table in ["docs", "docs_content"] {
        let sql = format!("SELECT * FROM {table}");
        let command = ["query", "sqlite:demo.db", &sql];
        let refused = desk.run(&[&command[..], &POLICIES].concat()).out;
        assert!(refused.contains("name.unknown-relation"), "{refused}");
        assert!(refused.contains("is a virtual table"), "{refused}");
        assert!(!refused.contains("no policy permits `select`"), "{refused}");
    }
}

/// The operator is told which views hold rows of their own; to a client each is a view.
#[test]
fn a_materialised_view_is_called_one() {
    let shop = Shop::new("stored");
    shop.ask("CREATE MATERIALIZED VIEW stored AS SELECT id FROM tickets");
    let url = shop.url();
    let listed = shop.desk.run(&["tables", &url]).expect_exit(0).out;
    let stored = listed.lines().find(|line| line.contains("stored"));
    assert!(
        stored.is_some_and(|line| line.contains("materialised view")),
        "{listed}"
    );
    let described = shop
        .desk
        .run(&["describe", &url, "stored"])
        .expect_exit(0)
        .out;
    assert!(
        described.contains("stored (materialised view)"),
        "{described}"
    );
}
