//! Commands over a real PostgreSQL server.

use palisade_testkit::servers::PostgresServer;
use serde_json::json;

use crate::{
    desk::{Answer, Desk},
    examples,
    serve::Client,
    shop::{BOT, Shop},
};

#[test]
fn a_statement_is_masked_filtered_and_refused() {
    let shop = Shop::new("query");
    let answer = shop.json("query", "SELECT name, national_id, email FROM customers");
    assert_eq!(
        answer["rows"],
        json!([{"name": "Ada Brandt", "national_id": "****4821", "email": null}])
    );
    for (sql, code) in [
        ("SELECT api_key FROM credentials", "policy.forbidden"),
        ("SELECT * FROM hr.salaries", "name.unknown-relation"),
        ("SELECT note FROM tickets", "name.unknown-column"),
        ("DELETE FROM tickets", "statement.not-allowed"),
        (
            "SELECT 1; DELETE FROM tickets",
            "syntax.multiple-statements",
        ),
        ("SELECT pg_read_file('/etc/passwd')", "function.not-allowed"),
    ] {
        let answer = shop.json("query", sql);
        assert_eq!(answer["code"], code, "{sql}: {answer}");
    }
    assert_eq!(shop.ask("SELECT count(*) FROM tickets"), "3");
    // What the server itself says of a value stays with the server.
    let answer = shop.json("query", "SELECT CAST(name AS int) FROM customers");
    assert_eq!(answer["code"], "database.rejected", "{answer}");
    assert!(!answer.to_string().contains("Ada"), "{answer}");
    // What is computed has the type that the server says, unless it is a type of the database's own.
    let types = shop.types(
        "SELECT count(*), upper(name), 1.5, 1.5::float8 AS f, ARRAY['a'] AS a, CURRENT_DATE AS d, now() AS t, true AS b, id FROM customers GROUP BY id, name",
    );
    let expected = [
        "bigint",
        "text",
        "numeric",
        "double precision",
        "text[]",
        "date",
        "timestamp with time zone",
        "boolean",
        "integer",
    ];
    assert_eq!(types, expected);
    // Parameters, as PostgreSQL spells them.
    let sql = "SELECT subject FROM tickets WHERE id = $1";
    let answer = shop.answer_with("query", &["--params", "[2]"], sql);
    assert_eq!(
        answer.expect_exit(0).json()["rows"],
        json!([{"subject": "screen"}])
    );
}

#[test]
fn a_socket_of_this_machine_is_a_host() {
    let shop = Shop::new("socket");
    let folder = shop.server.folder().display().to_string();
    let url = format!(
        "postgres://{}@{}:{}/{}",
        shop.reader,
        folder.replace('/', "%2F"),
        shop.server.port(),
        shop.database
    );
    let run = ["query", &url, "--format", "json", "SELECT 1 AS one"];
    assert_eq!(
        shop.desk.run(&run).expect_exit(0).json()["rows"],
        json!([{"one": 1}])
    );
    shop.desk.write(
        "c.toml",
        format!("[grants]\nhosts = [\"{folder}:{}\"]\n", shop.server.port()),
    );
    let mut granted = run.to_vec();
    granted.extend(["--config", "c.toml"]);
    shop.desk.run(&granted).expect_exit(0);
}

#[test]
fn decisions_need_only_the_catalog() {
    let shop = Shop::new("check");
    // A superuser starts nothing, but the catalog is the same to everybody.
    for user in [shop.reader.as_str(), "postgres"] {
        let url = shop.url_as(user);
        let answer = shop.desk.run(&[
            "check",
            "--catalog",
            &url,
            "--policies",
            "p",
            "--as",
            BOT,
            "--format",
            "json",
            "SELECT national_id FROM customers",
        ]);
        let answer = answer.expect_exit(0).json();
        assert_eq!(answer["decision"], "allow");
        assert!(answer["rows"].is_null());
    }
    let told = shop
        .answer("explain", "SELECT name FROM customers")
        .expect_exit(0);
    assert!(told.out.contains("tenant_id"), "{}", told.out);
    let url = shop.url();
    let told = shop
        .desk
        .run(&["policy", "check", "--catalog", &url, "--policies", "p"])
        .expect_exit(0);
    assert!(told.out.contains("over 5 tables"), "{}", told.out);
    let told = shop
        .desk
        .run(&["policy", "schema", "--catalog", &url, "--policies", "p"])
        .expect_exit(0);
    assert!(
        told.out
            .contains("entity customers in [Table, HasColumn, Tagged]"),
        "{}",
        told.out
    );
    shop.desk
        .run(&[
            "check",
            "--dialect",
            "sqlite",
            "--catalog",
            &url,
            "SELECT 1",
        ])
        .fails(2, &["speaks postgres, not sqlite", "--dialect"]);
    shop.desk.write("schema.sql", "CREATE TABLE a (x int);");
    shop.desk
        .run(&[
            "check",
            "--dialect",
            "postgres",
            "--catalog",
            "schema.sql",
            "--format",
            "json",
            "SELECT x::text FROM a",
        ])
        .expect_exit(0);
    shop.desk.write("schema.sql", "CREATE TABLE a (x int;");
    shop.desk
        .run(&[
            "check",
            "--dialect",
            "postgres",
            "--catalog",
            "schema.sql",
            "SELECT 1",
        ])
        .fails(2, &["schema.sql", "line 1", "pg_dump"]);
}

#[test]
fn the_starter_policies_fit() {
    let shop = Shop::new("starter");
    shop.ask(
        "CREATE TABLE people (id int, name text, password_hash text, ssn text, date_of_birth date)",
    );
    shop.ask(&format!("GRANT SELECT ON people TO {}", shop.reader));
    shop.ask("INSERT INTO people VALUES (1, 'Ann', 'geheim', '900-12-3456', '1990-01-01')");
    let url = shop.url();
    let query = |policies: &[&str]| {
        let mut arguments = vec!["query", &url, "--format", "json", "SELECT * FROM people"];
        arguments.extend(policies);
        shop.desk.run(&arguments).expect_exit(0).json()["rows"].clone()
    };
    assert_eq!(
        query(&[]),
        json!([{"id": 1, "name": null, "ssn": "****3456", "date_of_birth": "1990-01-01"}])
    );
    let explain = ["policy", "print-starter", "--explain", &url];
    let told = shop.desk.run(&explain).expect_exit(0).out;
    for line in ["public.people", "hr.salaries"] {
        assert!(told.lines().any(|found| found == line), "{told}");
    }
    let born = told.lines().find(|line| line.contains("date_of_birth"));
    assert!(
        born.is_some_and(|line| line.contains("mask date(year)")),
        "{told}"
    );
    let wrote = shop
        .desk
        .run(&["policy", "print-starter", "--dir", "mine"])
        .expect_exit(0);
    assert!(wrote.out.contains("postgres://"), "{}", wrote.out);
    assert_eq!(query(&["--policies", "mine"]), query(&[]));
    shop.desk
        .run(&["policy", "check", "--catalog", &url, "--policies", "mine"])
        .expect_exit(0);
}

#[test]
fn an_account_that_can_write_does_not_start() {
    let shop = Shop::new("strong");
    let superuser = shop.url_as("postgres");
    shop.desk.run(&["query", &superuser, "SELECT 1"]).fails(
        3,
        &[
            "is a superuser",
            "palisade setup-sql",
            "acknowledge_superuser = true",
        ],
    );
    shop.ask(&format!("GRANT INSERT ON tickets TO {}", shop.reader));
    let url = shop.url();
    shop.desk.run(&["query", &url, "SELECT 1"]).fails(
        3,
        &[
            "may write to tickets",
            "palisade setup-sql",
            "acknowledge_write = true",
        ],
    );
    shop.desk
        .run(&["serve", &url])
        .fails(3, &["may write to tickets"]);
}

#[test]
fn urls_are_looked_at_before_anything_is_reached() {
    let desk = Desk::empty();
    let refused = |url: &str, told: &[&str]| {
        for arguments in [
            vec!["query", url, "SELECT 1"],
            vec!["serve", url],
            vec!["check", "--catalog", url, "SELECT 1"],
            vec!["policy", "check", "--catalog", url],
        ] {
            let answer = desk.run(&arguments);
            assert!(!answer.err.contains("geheim"), "{}", answer.err);
            answer.fails(2, told);
        }
        let answer = desk.run(&["explain", url, "SELECT 1"]);
        assert!(!answer.err.contains("geheim"), "{}", answer.err);
        answer.fails(2, told);
    };
    let password = &["holds a password", "--password-env", "--password-file"];
    refused("postgres://ann:geheim@127.0.0.1/sales", password);
    refused("postgres://ann@127.0.0.1/sales?password=geheim", password);
    refused("postgres://ann:@127.0.0.1/sales", password);
    refused(
        "postgress://ann:geheim@127.0.0.1/sales",
        &["does not name a database"],
    );
    refused("postgres://127.0.0.1/sales", &["names no user"]);
    refused("postgres://ann@127.0.0.1", &["names no database"]);
    refused("postgres://ann@/sales", &["names no host"]);
    refused("postgres://ann@127.0.0.1/sales?colour=red", &["colour"]);
    // There is no mode that gives way to plain text.
    for mode in ["prefer", "allow", "Require", ""] {
        let url = format!("postgres://ann@db.invalid/sales?sslmode={mode}");
        refused(&url, &["`sslmode`", "verify-full"]);
    }
    // That is said; it is only not there.
    desk.run(&[
        "query",
        "postgres://ann@db.invalid/sales?sslmode=disable",
        "SELECT 1",
    ])
    .fails(
        4,
        &["db.invalid:5432 as `ann`", "look whether the server runs"],
    );
    desk.run(&["query", "sqlite:a.db", "--password-env", "X", "SELECT 1"])
        .fails(2, &["leave it out"]);
}

#[test]
fn passwords_come_by_name_and_go_nowhere_else() {
    // A server of its own: who logs in how is the server's, not the database's.
    let server = PostgresServer::start().unwrap();
    server
        .query(
            "postgres",
            r#"CREATE TABLE t (a int); INSERT INTO t VALUES (7);
               CREATE ROLE ann LOGIN PASSWORD 'p@ss:w/rd?&%=# geheim'; GRANT SELECT ON t TO ann;
               COPY (SELECT 'host all postgres 127.0.0.1/32 trust' UNION ALL
                     SELECT 'host all all 127.0.0.1/32 scram-sha-256') TO PROGRAM 'cat > pg_hba.conf';
               SELECT pg_reload_conf();"#,
        )
        .unwrap();
    let url = server.url_as("ann", "postgres");
    let desk = Desk::empty();
    let query = |options: &[&str], variable: Option<&str>| {
        let mut command = desk.command(env!("CARGO_BIN_EXE_palisade"));
        command.env_remove("SALES");
        if let Some(text) = variable {
            command.env("SALES", text);
        }
        command.args(["query", &url, "--format", "json", "SELECT a FROM t"]);
        let answer = Answer::from_command(command.args(options), b"");
        let told = format!("{}{}", answer.out, answer.err);
        assert!(!told.contains("geheim") && !told.contains("%20"), "{told}");
        answer
    };
    // The new rules hold from some moment on.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while query(&[], None).exit == 0 {
        assert!(
            std::time::Instant::now() < deadline,
            "pg_hba.conf is not read"
        );
    }
    query(&[], None).fails(4, &["--password-env"]);
    let right = "p@ss:w/rd?&%=# geheim";
    let answer = query(&["--password-env", "SALES"], Some(right)).expect_exit(0);
    assert_eq!(answer.json()["rows"], json!([{"a": 7}]));
    query(&["--password-env", "SALES"], Some("wrong geheim"))
        .fails(4, &["what `SALES` holds is not the password of `ann`"]);
    query(&["--password-env", "SALES"], None).fails(3, &["no `SALES` in the environment"]);
    query(&["--password-env", "SALES"], Some("")).fails(3, &["is empty"]);
    desk.write("secret", format!("{right}\n"));
    query(&["--password-file", "secret"], None).fails(3, &["chmod 600 secret"]);
    std::process::Command::new("chmod")
        .arg("600")
        .arg(desk.path("secret"))
        .status()
        .unwrap();
    query(&["--password-file", "secret"], None).expect_exit(0);
    query(&["--password-file", "nowhere"], None).fails(3, &["nowhere"]);
    take_up_rotation(&server, &desk, &url);
}

/// A password that is rotated while a server runs is taken up from its file.
fn take_up_rotation(server: &PostgresServer, desk: &Desk, url: &str) {
    let mut client = Client::new(desk, &[url, "--password-file", "secret"]);
    let mut read = || client.query("SELECT a FROM t")["structuredContent"]["rows"].clone();
    assert_eq!(read(), json!([{"a": 7}]));
    let rotation = "ALTER ROLE ann PASSWORD 'another geheim';
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'ann'";
    server.query("postgres", rotation).unwrap();
    desk.write("secret", "another geheim\n");
    let begun = std::time::Instant::now();
    while read() != json!([{"a": 7}]) {
        assert!(
            begun.elapsed().as_secs() < 20,
            "the new password is not read"
        );
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    client.end();
}

#[test]
fn the_examples_of_the_help_run_on_a_server() {
    let shop = Shop::new("examples");
    shop.secret("sales.password", "x\n");
    for command in ["query", "serve", "doctor", "setup-sql"] {
        let help = shop.desk.run(&[command, "--help"]).expect_exit(0).out;
        let examples = examples(&help);
        let mut run = 0;
        for line in examples.iter().filter(|line| line.contains("postgres://")) {
            let mine = [
                ("palisade_reader", shop.url()),
                ("postgres", shop.url_as("postgres")),
            ];
            let (url, mine) = mine
                .map(|(user, url)| (format!("postgres://{user}@localhost:5432/sales"), url))
                .into_iter()
                .find(|(url, _)| line.contains(url))
                .unwrap();
            let script = format!("export SALES_PASSWORD=x; {}", line.replace(&url, &mine));
            // The doctor finds that this account is not that of `setup-sql`.
            let exit = i32::from(command == "doctor");
            shop.desk.shell(&script, 0, b"").expect_exit(exit);
            run += 1;
        }
        assert!(run > 0, "{help}");
    }
}
