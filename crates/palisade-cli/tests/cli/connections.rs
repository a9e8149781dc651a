//! Named connections of a configuration.

use palisade_testkit::servers::PgBouncer;
use serde_json::{Value, json};

use crate::{
    desk::Desk,
    serve::Client,
    shop::{BOT, Shop},
};

#[test]
fn connections_have_policies_and_limits_of_their_own() {
    let shop = Shop::new("named");
    shop.desk.run(&["demo"]).expect_exit(0);
    let host = format!("{}:{}", shop.server.host(), shop.server.port());
    shop.desk.write(
        "etc/palisade.toml",
        format!(
            r#"
principal = 'Agent::"default"'
[limits]
max_rows = 2
max_cell_bytes = 3

[grants]
hosts = ["{host}"]

[connections.sales]
url = "{url}"
policies = "../p"
principal = '{BOT}'
audit = "sales.jsonl"
[connections.sales.limits]
max_rows = 1

[connections.desk]
url = "sqlite:../demo.db"

[connections.admin]
url = "{admin}"
acknowledge_superuser = true
"#,
            url = shop.url(),
            admin = shop.url_as("postgres"),
        ),
    );
    let query = |connection: &str, sql: &str| {
        shop.desk.run(&[
            "query",
            connection,
            "--config",
            "etc/palisade.toml",
            "--format",
            "json",
            sql,
        ])
    };
    let answer = query(
        "connection:sales",
        "SELECT subject FROM tickets ORDER BY id",
    )
    .expect_exit(0)
    .json();
    // The limit on rows is the connection's, the one on cells everybody's.
    assert_eq!(answer["rows"], json!([{"subject": "pri"}]), "{answer}");
    assert_eq!(answer["truncation_reason"], "row_limit");
    let record = std::fs::read_to_string(shop.desk.path("etc/sales.jsonl")).unwrap();
    assert!(record.contains("\"connection\":\"sales\""), "{record}");
    let answer = query("connection:desk", "SELECT id FROM tickets")
        .expect_exit(0)
        .json();
    assert_eq!(answer["row_count"], 2, "{answer}");
    // A superuser starts where somebody has said to know it, and only there.
    let answer = query("connection:admin", "SELECT count(*) AS n FROM hr.salaries")
        .expect_exit(0)
        .json();
    assert_eq!(answer["rows"], json!([{"n": 1}]));
    query(&shop.url_as("postgres"), "SELECT 1").fails(3, &["is a superuser"]);
    // What the command line names must be granted as well.
    query(&shop.url(), "SELECT 1").expect_exit(0);
    query("postgres://ann@127.0.0.1:1/sales", "SELECT 1").fails(
        3,
        &[
            "`127.0.0.1:1` is not granted",
            "hosts = [\"127.0.0.1:1\"]",
            "palisade.toml",
        ],
    );
    query("connection:seles", "SELECT 1").fails(2, &["did you mean `connection:sales`?"]);
    shop.desk
        .run(&["query", "connection:sales", "SELECT 1"])
        .fails(2, &["--config palisade.toml"]);
    // Every command takes them.
    for arguments in [
        &["explain", "connection:sales", "SELECT 1"][..],
        &["check", "--catalog", "connection:sales", "SELECT 1"],
        &["policy", "check", "--catalog", "connection:sales"],
        &["policy", "schema", "--catalog", "connection:sales"],
        &["setup-sql", "connection:sales"],
        &["doctor", "connection:desk"],
        &["serve", "connection:sales"],
    ] {
        let mut all = arguments.to_vec();
        all.extend(["--config", "etc/palisade.toml"]);
        shop.desk.run(&all).expect_exit(0);
    }
}

/// One server over a database of each engine, each with policies of its own.
#[test]
fn one_server_serves_several_and_no_way_leads_from_one_to_another() {
    let (shop, other) = (Shop::new("several"), Shop::mariadb("several"));
    let desk = &shop.desk;
    desk.run(&["demo"]).expect_exit(0);
    desk.write(
        "palisade.toml",
        format!(
            r#"
audit = "audit.jsonl"
[grants]
hosts = ["127.0.0.1:{}", "127.0.0.1:{}"]
[connections.sales]
url = "{}"
policies = "p"
principal = '{BOT}'
[connections.support]
url = "{}"
policies = "{}"
principal = '{BOT}'
[connections.support.limits]
max_rows = 1
[connections.desk]
url = "sqlite:demo.db"
"#,
            shop.server.port(),
            other.server.port(),
            shop.url(),
            other.url(),
            other.desk.path("p").display(),
        ),
    );
    let mut client = Client::new(desk, &["--config", "palisade.toml"]);
    let tools = client.ask("tools/list", &json!({}));
    for tool in tools["tools"].as_array().unwrap() {
        // It is what names them.
        if tool["name"] == "list_databases" {
            continue;
        }
        let connection = &tool["inputSchema"]["properties"]["connection"];
        assert_eq!(connection["enum"], json!(["desk", "sales", "support"]));
        assert!(
            connection["description"]
                .as_str()
                .unwrap()
                .contains("support (mysql)")
        );
    }
    let mut query = |connection: &str, sql: &str| -> Value {
        let arguments = json!({"connection": connection, "sql": sql});
        client.call("query", &arguments)["structuredContent"].clone()
    };
    // The same statement under three policies, two of them with one row's limit.
    let sql = "SELECT subject FROM tickets ORDER BY id";
    assert_eq!(query("sales", sql)["row_count"], 2);
    assert_eq!(query("support", sql)["row_count"], 1);
    assert_eq!(query("desk", sql)["row_count"], 11);
    // What one knows, the others do not.
    for (connection, sql) in [
        ("support", "SELECT amount FROM hr.salaries".to_owned()),
        ("desk", format!("SELECT * FROM {}.tickets", other.database)),
        ("sales", format!("SELECT * FROM {}.tickets", other.database)),
        ("sales", "SELECT * FROM staff".to_owned()),
    ] {
        let answer = query(connection, &sql);
        assert_eq!(answer["code"], "name.unknown-relation", "{sql}: {answer}");
        assert_eq!(answer["context"]["connection"], connection);
    }
    assert_eq!(query("sale", "SELECT 1")["code"], "request.invalid");
    let told = client.end();
    assert_eq!(told.matches("serving").count(), 3, "{told}");
    let connections: Vec<Value> = (desk.records("audit.jsonl").iter())
        .map(|record| record["connection"].clone())
        .collect();
    // The last call named none that there is.
    assert_eq!(
        json!(connections),
        json!([
            "sales", "support", "desk", "support", "desk", "sales", "sales", null
        ])
    );

    // Some of them, or one: then no question is asked.
    let serve = |arguments: &[&str]| {
        let mut client = Client::new(desk, &[arguments, &["--config", "palisade.toml"]].concat());
        let tools = client.ask("tools/list", &json!({}));
        client.end();
        tools["tools"][0]["inputSchema"]["properties"]["connection"]["enum"].clone()
    };
    assert_eq!(
        serve(&["connection:sales", "connection:desk"]),
        json!(["desk", "sales"])
    );
    assert_eq!(serve(&["connection:support"]), Value::Null);
    let fails = |arguments: &[&str], exit, told: &[&str]| {
        let mut all = vec!["serve"];
        all.extend(arguments);
        desk.run(&all).fails(exit, told);
    };
    let config = ["--config", "palisade.toml"];
    for option in [["--policies", "p"], ["--as", BOT], ["--audit", "a.jsonl"]] {
        fails(
            &[config, option].concat(),
            2,
            &[option[0], "for one database"],
        );
    }
    fails(
        &["connection:sales", "connection:sales", config[0], config[1]],
        3,
        &["two connections are called `sales`"],
    );
    fails(
        &["sqlite:demo.db", "connection:sales", config[0], config[1]],
        2,
        &["connections of a configuration"],
    );
    fails(
        &["connection:sales", "connection:hr", config[0], config[1]],
        2,
        &["no connection `hr`"],
    );
    fails(&["connection:sales", "connection:desk"], 2, &["--config"]);
    fails(&[], 2, &["no database to serve"]);
    desk.write("empty.toml", "");
    fails(&["--config", "empty.toml"], 3, &["no connection to serve"]);
}

/// One database that cannot be reached keeps no other from being served, and is served as soon as it can be.
#[test]
fn a_database_that_is_not_there_yet_is_served_later() {
    let desk = Desk::new();
    desk.write(
        "c.toml",
        "[connections.demo]\nurl = \"sqlite:demo.db\"\n[connections.later]\nurl = \"sqlite:later.db\"\n",
    );
    let mut client = Client::new(&desk, &["--config", "c.toml"]);
    let query = |client: &mut Client, connection: &str| {
        let arguments = json!({"sql": "SELECT 1 AS n", "connection": connection});
        client.call("query", &arguments)["structuredContent"].clone()
    };
    let one = json!([{"n": 1}]);
    assert_eq!(query(&mut client, "demo")["rows"], one);
    for _ in 0..2 {
        let refused = query(&mut client, "later");
        assert_eq!(
            (&refused["code"], &refused["retryable"]),
            (&json!("database.unavailable"), &json!(true)),
            "{refused}"
        );
    }
    palisade_sqlite::create_database(desk.path("later.db"), "CREATE TABLE t (a);").unwrap();
    let begun = std::time::Instant::now();
    while query(&mut client, "later")["rows"] != one {
        assert!(begun.elapsed().as_secs() < 20, "it is not served");
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    assert_eq!(query(&mut client, "demo")["rows"], one);
    client.end();
    // Where none can be reached, there is nothing to serve.
    desk.write(
        "none.toml",
        "[connections.a]\nurl = \"sqlite:nope.db\"\n[connections.b]\nurl = \"sqlite:nope.db\"\n",
    );
    desk.run(&["serve", "--config", "none.toml"])
        .fails(4, &["nope.db"]);
}

/// The same of a server's, whose connections live on the runtime that serves.
#[test]
fn a_database_of_a_server_is_served_later() {
    let shop = Shop::new("late");
    shop.desk.run(&["demo"]).expect_exit(0);
    let database = format!("later_{}", shop.database);
    shop.desk.write(
        "c.toml",
        format!(
            "[grants]\nhosts = [\"{}:{}\"]\n[connections.demo]\nurl = \"sqlite:demo.db\"\n[connections.later]\nurl = \"{}\"\n",
            shop.server.host(),
            shop.server.port(),
            shop.url().replace(&format!("/{}", shop.database), &format!("/{database}"))
        ),
    );
    let mut client = Client::new(&shop.desk, &["--config", "c.toml"]);
    let mut query = || {
        let arguments = json!({"sql": "SELECT 1 AS n", "connection": "later"});
        client.call("query", &arguments)["structuredContent"].clone()
    };
    assert_eq!(query()["code"], "database.unavailable");
    shop.ask(&format!("CREATE DATABASE {database}"));
    let begun = std::time::Instant::now();
    while query()["rows"] != json!([{"n": 1}]) {
        assert!(begun.elapsed().as_secs() < 20, "it is not served");
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    client.end();
    shop.ask(&format!("DROP DATABASE {database} WITH (FORCE)"));
}

#[test]
fn a_database_in_memory_is_served() {
    let desk = Desk::empty();
    let mut client = Client::new(&desk, &["--in-memory"]);
    let listed = client.call("list_tables", &json!({}));
    assert_eq!(listed["structuredContent"]["table_count"], 0);
    let answer = client.query("SELECT 1 + 1 AS two");
    assert_eq!(answer["structuredContent"]["rows"], json!([{"two": 2}]));
    let answer = client.query("CREATE TABLE t (a)");
    assert_eq!(answer["structuredContent"]["code"], "statement.not-allowed");
    client.end();
    desk.write(
        "shop.sql",
        "CREATE TABLE t (a, password); INSERT INTO t VALUES (7, 'geheim');",
    );
    let mut client = Client::new(&desk, &["--in-memory", "--schema", "shop.sql"]);
    let answer = client.query("SELECT * FROM t");
    assert_eq!(answer["structuredContent"]["rows"], json!([{"a": 7}]));
    let answer = client.query("SELECT b FROM t");
    assert_eq!(answer["structuredContent"]["context"]["connection"], "shop");
    client.end();
    let fails = |arguments: &[&str], told: &[&str]| {
        let mut all = vec!["serve"];
        all.extend(arguments);
        desk.run(&all).fails(2, told);
    };
    fails(&["--in-memory", "sqlite:a.db"], &["--in-memory"]);
    fails(&["--schema", "shop.sql"], &["--in-memory"]);
    fails(&["--in-memory", "--schema", "nope.sql"], &["nope.sql"]);
    desk.write("evil.sql", "ATTACH 'x.db' AS x;");
    fails(&["--in-memory", "--schema", "evil.sql"], &["ATTACH"]);
    assert!(!desk.path("x.db").exists());
}

#[test]
fn an_account_that_can_write_starts_when_that_is_acknowledged() {
    let shop = Shop::new("writer");
    shop.ask(&format!("GRANT INSERT ON tickets TO {}", shop.reader));
    let config = |line: &str| {
        let text = format!(
            "[grants]\nhosts = [\"{}:{}\"]\n[connections.a]\nurl = \"{}\"\n{line}\n",
            shop.server.host(),
            shop.server.port(),
            shop.url()
        );
        shop.desk.write("c.toml", text);
        shop.desk
            .run(&["query", "connection:a", "--config", "c.toml", "SELECT 1"])
    };
    config("").fails(3, &["may write to tickets", "acknowledge_write = true"]);
    config("acknowledge_superuser = true").fails(3, &["may write to tickets"]);
    config("acknowledge_write = true").expect_exit(0);
    // It still only reads.
    let sql = "INSERT INTO tickets VALUES (9, 1)";
    let run = [
        "query",
        "connection:a",
        "--config",
        "c.toml",
        "--format",
        "json",
        sql,
    ];
    assert_eq!(
        shop.desk.run(&run).expect_exit(1).json()["code"],
        "statement.not-allowed"
    );
}

/// A server's own row-level security goes by who asks.
#[test]
fn the_principal_is_handed_to_the_server() {
    let shop = Shop::new("handed");
    shop.ask(
        "ALTER TABLE tickets ENABLE ROW LEVEL SECURITY;
         CREATE POLICY own ON tickets USING (id = 2 AND current_setting('app.user', true) = 'Agent::\"bot\"')",
    );
    let query = |line: &str| {
        let text = format!(
            "[grants]\nhosts = [\"{}:{}\"]\n[connections.a]\nurl = \"{}\"\npolicies = \"p\"\nprincipal = '{BOT}'\n{line}\n",
            shop.server.host(),
            shop.server.port(),
            shop.url()
        );
        shop.desk.write("c.toml", text);
        let sql = "SELECT id FROM tickets";
        let run = [
            "query",
            "connection:a",
            "--config",
            "c.toml",
            "--format",
            "json",
            sql,
        ];
        shop.desk.run(&run).expect_exit(0).json()["rows"].clone()
    };
    assert_eq!(query("hand_principal = \"app.user\""), json!([{"id": 2}]));
    assert_eq!(query(""), json!([]));
}

#[test]
#[ignore = "needs PgBouncer: cargo xtask test runs it"]
fn a_connection_goes_through_pgbouncer() {
    let shop = Shop::new("pooled");
    shop.ask(&format!("GRANT DELETE ON tickets TO {}", shop.reader));
    shop.desk.write(
        "p/changes.cedar",
        "permit (principal, action in [Action::\"delete\", Action::\"change\"], resource);",
    );
    let lines = ["max_prepared_statements = 0"];
    let pooler = PgBouncer::start_before(shop.server, &[&shop.reader], &lines).unwrap();
    let text = format!(
        "[grants]\nhosts = [\"{}:{}\"]\n[connections.a]\nurl = \"{}\"\npooled = \"transaction\"\nwritable = true\n\
         policies = \"p\"\nprincipal = '{BOT}'\n",
        pooler.host(),
        pooler.port(),
        pooler.url_as(&shop.reader, &shop.database)
    );
    shop.desk.write("c.toml", text);
    let mut client = Client::new(&shop.desk, &["connection:a", "--config", "c.toml"]);
    for id in [1, 2] {
        let delete = json!({"sql": "DELETE FROM tickets WHERE id = $1", "params": [id]});
        let answer = client.call("execute", &delete);
        assert_eq!(answer["structuredContent"]["affected_rows"], 1, "{answer}");
        let answer = client.query("SELECT count(*) AS n FROM tickets");
        assert_eq!(
            answer["structuredContent"]["rows"],
            json!([{"n": 2 - id}]),
            "{answer}"
        );
    }
    client.end();
}

/// A cap that an engine gives no estimate for is no cap: it does not start.
#[test]
fn caps_on_estimates_are_for_databases_that_estimate() {
    let shop = Shop::mariadb("estimates");
    shop.desk.run(&["demo"]).expect_exit(0);
    let query = |source: &str, limit: &str, sql: &str| {
        let text = format!(
            "[grants]\nhosts = [\"{}:{}\"]\n[limits]\n{limit}\n",
            shop.server.host(),
            shop.server.port()
        );
        shop.desk.write("c.toml", text);
        let run = [
            "query", source, "--config", "c.toml", "--format", "json", sql,
        ];
        shop.desk.run(&run)
    };
    for limit in ["max_cost = 1000", "max_estimated_rows = 1000"] {
        query("sqlite:demo.db", limit, "SELECT 1")
            .fails(3, &[limit.split(' ').next().unwrap(), "no estimate"]);
    }
    let url = shop.url();
    query(&url, "max_cost = 1000", "SELECT 1").fails(3, &["`max_cost`", "no estimate"]);
    query(
        &url,
        "max_estimated_rows = 2",
        "SELECT id FROM tickets WHERE id = 1",
    )
    .expect_exit(0);
    let sql = "SELECT count(*) AS n FROM tickets AS a, tickets AS b";
    let answer = query(&url, "max_estimated_rows = 2", sql)
        .expect_exit(1)
        .json();
    assert_eq!(answer["code"], "limit.cost", "{answer}");
    query(&url, "max_costs = 1", "SELECT 1").fails(3, &["did you mean `max_cost`?"]);
}

#[test]
fn mistakes_in_connections_point_at_their_line() {
    let desk = Desk::new();
    let check = |text: &str, told: &[&str]| {
        desk.write("c.toml", text);
        // Whichever database is asked for: the whole file must hold.
        let answer = desk.run(&["query", "sqlite:demo.db", "--config", "c.toml", "SELECT 1"]);
        assert!(!answer.err.contains("geheim"), "{}", answer.err);
        answer.fails(3, told);
    };
    let granted =
        "[grants]\nhosts = [\"db.invalid:5432\", \"127.0.0.1:5432\"]\nenv = [\"SALES\"]\n";
    check(
        "[connections.a]\nurl = \"sqlite:demo.db\"\nuser = \"x\"\n",
        &["c.toml:3:1", "unknown field `user`"],
    );
    check(
        "[connections.a]\nurll = \"sqlite:demo.db\"\n",
        &["c.toml:2:1", "did you mean `url`?"],
    );
    check(
        "[connections.a]\npolicies = \"p\"\n",
        &["c.toml:1:1", "missing field `url`"],
    );
    check(
        "[connection.a]\nurl = \"sqlite:demo.db\"\n",
        &["c.toml:1:2", "did you mean `connections`?"],
    );
    check(
        "[connections.a]\nurl = \"demo.db\"\n",
        &["c.toml:2:7", "does not name a database"],
    );
    check("[connections.a]\nurl = \"connection:b\"\n", &["c.toml:2:7"]);
    check(
        "[connections.a]\nurl = \"mysql://u@h/d\"\n",
        &["c.toml:2:7", "`h:3306` is not granted"],
    );
    check(
        "[connections.a]\nurl = \"sqlite:demo.db\"\n[connections.a.limits]\nmax_row = 3\n",
        &["c.toml:4:1", "did you mean `max_rows`?"],
    );
    check(
        "[connections.a]\nurl = \"sqlite:demo.db\"\nprincipal = \"root\"\n",
        &["c.toml:3:13", "is not a principal"],
    );
    check(
        "[connections.a]\nurl = \"postgres://u:geheim@127.0.0.1/d\"\n",
        &["c.toml:2:7", "holds a password", "password_env"],
    );
    check(
        "[connections.a]\nurl = \"postgres://u@127.0.0.1/d\"\n",
        &[
            "c.toml:2:7",
            "`127.0.0.1:5432` is not granted",
            "hosts = [\"127.0.0.1:5432\"]",
        ],
    );
    check(
        &format!("{granted}[connections.a]\nurl = \"postgres://u@127.0.0.1:5433/d\"\n"),
        &["c.toml:5:7", "`127.0.0.1:5433` is not granted"],
    );
    check(
        &format!(
            "{granted}[connections.a]\nurl = \"postgres://u@127.0.0.1/d?hostaddr=127.0.0.2\"\n"
        ),
        &["c.toml:5:7", "`127.0.0.2:5432` is not granted"],
    );
    for (url, told) in [
        ("postgres://u@db.invalid/d?sslmode=prefer", "`sslmode`"),
        (
            "postgres://u@db.invalid/d?sslrootcert=ca.crt",
            "in another folder",
        ),
        (
            "postgres://u@db.invalid/d?sslkey=%2Fk%2Fey",
            "the secret `/k/ey` is not granted",
        ),
    ] {
        let text = format!("{granted}[connections.a]\nurl = \"{url}\"\n");
        check(&text, &["c.toml:5:7", told]);
    }
    check(
        &format!(
            "{granted}[connections.a]\nurl = \"postgres://u@127.0.0.1/d\"\npassword_env = \"OTHER\"\n"
        ),
        &["the secret `OTHER` is not granted", "env = [\"OTHER\"]"],
    );
    check(
        &format!(
            "{granted}[connections.a]\nurl = \"postgres://u@127.0.0.1/d\"\npassword_file = \"s\"\n"
        ),
        &["the secret `s` is not granted", "files = [\"s\"]"],
    );
    check(
        &format!(
            "{granted}[connections.a]\nurl = \"postgres://u@127.0.0.1/d\"\npassword_file = \"s\"\npassword_env = \"SALES\"\n"
        ),
        &["c.toml:6:17", "named twice"],
    );
    check(
        "[connections.a]\nurl = \"sqlite:demo.db\"\npassword_env = \"SALES\"\n",
        &["c.toml:3:16", "a file has no password"],
    );
    check(
        "[connections.a]\nurl = \"sqlite:demo.db\"\nacknowledge_write = true\n",
        &["c.toml:2:7", "a file has no account"],
    );
    check(
        "[connections.a]\nurl = \"sqlite:demo.db\"\nhand_principal = \"app.user\"\n",
        &["c.toml:3:18", "`hand_principal` is for PostgreSQL"],
    );
    check(
        "[connections.a]\nurl = \"sqlite:demo.db\"\npooled = \"transaction\"\n",
        &["c.toml:3:10", "`pooled` is for PostgreSQL"],
    );
    check(
        &format!(
            "{granted}[connections.a]\nurl = \"postgres://u@127.0.0.1/d\"\npooled = \"session\"\n"
        ),
        &["c.toml:6:10", "unknown variant `session`"],
    );
    check(
        &format!(
            "{granted}[connections.a]\nurl = \"postgres://u@127.0.0.1/d\"\nhand_principal = \"role\"\n"
        ),
        &["c.toml:6:18", "`role` is no name for a setting", "app.user"],
    );
    check(
        "[grants]\nhosts = [\"localhost\"]\n",
        &["c.toml:2:10", "no host with its port"],
    );
    check(
        "[grants]\nhost = [\"a:1\"]\n",
        &["c.toml:2:1", "did you mean `hosts`?"],
    );
    // What a place takes is told of that place, not of another.
    for (text, told) in [
        (
            "[grants]\nsecrets = []\n",
            "write one of these here: `hosts`, `env`, `files`\n",
        ),
        (
            "[grants]\nurl = \"sqlite:demo.db\"\n",
            "write one of these here: `hosts`, `env`, `files`\n",
        ),
        (
            "hosts = []\n",
            "`limits`, `grants`, `mcp`, `approvals`, `http`, `broker`, `telemetry`, `scan`, `budgets`, `history`, `connections`\n",
        ),
        ("[mcp]\ntools = \"most\"\n", "`core`, `full`\n"),
        (
            "[mcp]\nexclude = [\"list_table\"]\n",
            "did you mean `list_tables`?",
        ),
        (
            "[mcp]\nmax_answer_chars = 100000\n",
            "write a number from 8000 to 65536\n",
        ),
        (
            "[limits]\nrows = 3\n",
            "write one of these here: `max_query_bytes`,",
        ),
        (
            "[connections.a]\nurl = \"sqlite:demo.db\"\n[connections.a.limits]\nhosts = 3\n",
            "write one of these here: `max_query_bytes`,",
        ),
        (
            "[connections.a]\nurl = \"sqlite:demo.db\"\ngrants = []\n",
            "write one of these here: `url`,",
        ),
        (
            "[connections.a]\npolicies = \"p\"\n",
            "help: write `url = …`\n",
        ),
        (
            "on_finding = \"x\"\n",
            "`flag`, `redact`, `withhold`, `block`\n",
        ),
        (
            "policies = 3\n",
            "expected a folder, or the table `[policies]`\n",
        ),
        ("policies = 3\n", "a value of the kind that is expected"),
        ("policies\n", "the file is TOML"),
    ] {
        check(text, &["c.toml:", told]);
    }
}
