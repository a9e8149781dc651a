//! Batches, bad input, hostile sizes.

use std::{fs, io::Write as _, process::Stdio, time::Instant};

use serde_json::{Value, json};

use crate::desk::{BOT, Desk};

#[test]
fn batches_are_answered_line_by_line() {
    let desk = Desk::new();
    let mut input = Vec::new();
    for line in [
        r#"{"id": 1, "sql": "SELECT name FROM staff WHERE id = ?", "params": [3]}"#,
        "",
        r#"{"id": "two", "sql": "SELECT count(*) AS n FROM tickets", "as": "Agent::\"globex-bot\""}"#,
        "not json",
        r#"{"id": 3}"#,
        r#"{"id": 4, "sql": 5}"#,
        r#"{"id": 5, "sql": "SELECT 1", "as": "nobody"}"#,
        r#"{"id": 6, "sql": "SELECT 1", "dry_run": true}"#,
        r#"{"id": 7, "sql": "SELECT \u0000"}"#,
    ] {
        input.extend(line.as_bytes());
        input.push(b'\n');
    }
    input.extend(b"{\"id\": 8, \"sql\": \"\xFF\"}\n");
    input.extend(
        format!(
            "{{\"id\": 9, \"sql\": \"SELECT '{}'\"}}\n",
            "x".repeat(3_000_000)
        )
        .as_bytes(),
    );
    input.extend(
        format!(
            "{{\"id\": 10, \"sql\": \"SELECT '{}'\"}}\n",
            "x".repeat(300_000)
        )
        .as_bytes(),
    );
    input.extend(br#"{"id": 11, "sql": "SELECT 11 AS x"}"#);
    let arguments = [
        "query",
        "sqlite:demo.db",
        "--policies",
        "demo-policies",
        "--as",
        BOT,
        "--batch",
        "-",
    ];
    let answers = desk.run_with(&arguments, &input).expect_exit(2).lines();
    let told: Vec<_> = answers
        .iter()
        .map(|a| format!("{} {}", a["id"], a["code"].as_str().unwrap_or("-")))
        .collect();
    assert_eq!(
        told,
        [
            "1 -",
            "\"two\" -",
            "null request.invalid",
            "3 request.invalid",
            "4 request.invalid",
            "5 request.invalid",
            "6 request.invalid",
            "7 syntax.character",
            "null request.invalid",
            "null limit.query-size",
            "10 limit.query-size",
            "11 -",
        ]
    );
    assert_eq!(answers[0]["rows"], json!([{"name": "Amara Nwosu"}]));
    assert_eq!(answers[1]["rows"], json!([{"n": 2}]));
    desk.write("batch.jsonl", "{\"sql\":\"SELECT 1 AS one\"}\n");
    for command in [
        &[
            "check",
            "--catalog",
            "sqlite:demo.db",
            "--batch",
            "batch.jsonl",
        ][..],
        &["explain", "sqlite:demo.db", "--batch", "batch.jsonl"],
    ] {
        assert_eq!(desk.run(command).expect_exit(0).json()["decision"], "allow");
    }
}

#[test]
fn a_batch_is_answered_while_it_comes() {
    use std::io::{BufRead as _, BufReader};
    let desk = Desk::new();
    let mut child = desk
        .command(env!("CARGO_BIN_EXE_palisade"))
        .args(["query", "sqlite:demo.db", "--batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    for n in 1..=3 {
        writeln!(input, "{{\"id\":{n},\"sql\":\"SELECT {n}\"}}").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["id"], n);
    }
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn databases_that_are_not_there_or_broken_are_told_apart() {
    let desk = Desk::new();
    let check = |source: &str, told: &str| {
        desk.run(&["query", source, "SELECT 1"]).fails(4, &[told]);
        desk.run(&["policy", "check", "--catalog", source])
            .fails(4, &[told]);
    };
    check("sqlite:nope.db", "`palisade demo`");
    check("sqlite:demo-policies", "not a regular file");
    desk.write(
        "text.db",
        "this is not a database, and longer than a header would be",
    );
    check("sqlite:text.db", "is not a SQLite database");
    let mut bytes = fs::read(desk.path("demo.db")).unwrap();
    bytes[100..600].fill(0xAA);
    desk.write("corrupt.db", bytes);
    check("sqlite:corrupt.db", "corrupt.db` is damaged");
    assert!(!desk.path("nope.db").exists());
}

#[test]
fn the_configuration_is_strict() {
    let desk = Desk::new();
    let query = |sql: &str| {
        desk.run(&[
            "query",
            "sqlite:demo.db",
            "--config",
            "etc/c.toml",
            "--format",
            "json",
            sql,
        ])
    };
    desk.write(
        "etc/c.toml",
        "policies = \"../demo-policies\"\nprincipal = 'Agent::\"globex-bot\"'\naudit = \"audit.jsonl\"\non_finding = \"redact\"\n[limits]\nmax_rows = 1\n",
    );
    let answer = query("SELECT name FROM customers ORDER BY id")
        .expect_exit(0)
        .json();
    assert_eq!(
        (&answer["rows"], &answer["truncated"]),
        (&json!([{"name": "Elif Yilmaz"}]), &json!(true))
    );
    let record = &desk.records("etc/audit.jsonl")[0];
    assert_eq!(
        (&record["principal"], &record["rows"]),
        (&json!("Agent::\"globex-bot\""), &json!(1))
    );
    for (text, told) in [
        (
            "polices = \"p\"\n",
            &[
                "c.toml:1:1",
                "unknown field `polices`",
                "did you mean `policies`?",
            ][..],
        ),
        (
            "\n[limits]\nmax_row = 3\n",
            &["c.toml:3:1", "did you mean `max_rows`?"],
        ),
        ("on_finding = \"ignore\"\n", &["c.toml:1:14", "ignore"]),
        (
            "principal = \"root\"\n",
            &["`principal`", "is not a principal"],
        ),
        (
            "principal = \"Agent::'bot'\"\n",
            &["c.toml:1:13", "an id stands in double quotes"],
        ),
        ("policies = \"nowhere\"\n", &["etc/nowhere"]),
        ("policies = 3\n", &["c.toml:1:12"]),
        ("= 3\n", &["c.toml:1:1"]),
    ] {
        desk.write("etc/c.toml", text);
        query("SELECT 1").fails(3, told);
    }
    // The command line reads principals in the same way.
    let quoted = ["--as", "Agent::'support-bot'", "SELECT 1"];
    desk.run(&[&["query", "sqlite:demo.db"][..], &quoted].concat())
        .fails(2, &["write `--as 'Agent::\"support-bot\"'`"]);
    // It is never found by itself.
    desk.write("palisade.toml", "polices = 1\n");
    desk.run(&["query", "sqlite:demo.db", "SELECT 1"])
        .expect_exit(0);
}

#[test]
fn statements_come_from_standard_input_too() {
    let desk = Desk::new();
    let arguments = ["query", "sqlite:demo.db", "--format", "json", "-"];
    assert_eq!(
        desk.run_with(&arguments, b"SELECT 2 AS x\n")
            .expect_exit(0)
            .json()["rows"],
        json!([{"x": 2}])
    );
    assert_eq!(
        desk.run_with(&arguments, b"SELECT '\xFF'")
            .expect_exit(1)
            .json()["code"],
        "request.invalid"
    );
    assert_eq!(
        desk.run_with(&arguments, b"").expect_exit(1).json()["code"],
        "syntax.empty"
    );
    assert_eq!(
        desk.run_with(&arguments, b"SELECT \0")
            .expect_exit(1)
            .json()["code"],
        "syntax.character"
    );
}

#[test]
fn hostile_sizes_are_refused_on_small_stacks() {
    let desk = Desk::new();
    let parentheses = format!("SELECT {}1{}", "(".repeat(100_000), ")".repeat(100_000));
    let union = vec!["SELECT 1"; 600].join(" UNION ALL ");
    let long = format!("SELECT {}1", "1 + ".repeat(2_500_000));
    let minus = format!("SELECT {}1", "- ".repeat(100_000));
    let ors = format!("SELECT 1 WHERE {}1", "1 OR ".repeat(40_000));
    for (sql, code) in [
        (&parentheses, "limit.depth"),
        (&union, "limit.depth"),
        (&long, "limit.query-size"),
        (&minus, "limit.depth"),
        (&ors, "limit.depth"),
    ] {
        for stack in [256, 1024] {
            for command in [
                "exec palisade query sqlite:demo.db --format json -",
                "exec palisade check --catalog sqlite:demo.db --format json -",
                "exec palisade explain sqlite:demo.db --format json -",
            ] {
                let start = Instant::now();
                let answer = desk.shell(command, stack, sql.as_bytes()).expect_exit(1);
                assert_eq!(answer.json()["code"], code, "{command}");
                assert!(start.elapsed().as_secs() < 20, "{command}");
            }
            let line = format!("{}\n", json!({"id": 1, "sql": sql}));
            let answer = desk
                .shell(
                    "exec palisade query sqlite:demo.db --batch -",
                    stack,
                    line.as_bytes(),
                )
                // A line that is not kept whole is not understood.
                .expect_exit(if sql.len() > 5_000_000 { 2 } else { 0 });
            assert_eq!(answer.json()["code"], code);
        }
    }
}

#[test]
fn what_the_limits_admit_runs_on_a_small_stack() {
    let desk = Desk::new();
    let nested = format!("SELECT {}1{} AS x", "(".repeat(60), ")".repeat(60));
    let chain = format!("SELECT {}1 AS x", "1 + ".repeat(490));
    let union = vec!["SELECT 1 AS x"; 400].join(" UNION ALL ");
    for sql in [nested, chain, union] {
        let answer = desk
            .shell(
                "exec palisade query sqlite:demo.db --format json -",
                256,
                sql.as_bytes(),
            )
            .expect_exit(0);
        assert_eq!(answer.json()["decision"], "allow");
    }
}

#[test]
fn a_reader_that_stops_is_no_crash() {
    let desk = Desk::new();
    let answer = desk
        .shell("palisade demo | head -n 1", 0, b"")
        .expect_exit(0);
    assert!(!answer.err.contains("panicked"), "{}", answer.err);
}

#[test]
fn deep_json_is_no_crash() {
    let desk = Desk::new();
    let deep = format!("{}{}", "[".repeat(400_000), "]".repeat(400_000));
    for (line, id) in [
        (
            format!("{{\"id\":1,\"sql\":\"SELECT 1\",\"params\":{deep}}}\n"),
            json!(1),
        ),
        (
            format!("{{\"id\":{deep},\"sql\":\"SELECT 1\"}}\n"),
            Value::Null,
        ),
        (format!("{{\"id\":2,\"sql\":{deep}}}\n"), json!(2)),
        (format!("{deep}\n"), Value::Null),
    ] {
        let answer = desk
            .shell(
                "exec palisade query sqlite:demo.db --batch -",
                256,
                line.as_bytes(),
            )
            .expect_exit(2)
            .json();
        assert_eq!(
            (&answer["id"], &answer["code"]),
            (&id, &json!("request.invalid"))
        );
    }
}

/// SQLite gives columns of a subquery that are called TRUE or FALSE another name.
#[test]
fn columns_that_are_called_as_truth_values_are_no_fault() {
    let desk = Desk::empty();
    let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY, \"true\" TEXT); INSERT INTO t VALUES (1, 'a'), (2, 'b');";
    palisade_sqlite::create_database(desk.path("odd.db"), schema).unwrap();
    let open = "permit (principal, action in [Action::\"select\", Action::\"see\", Action::\"read\"], resource);\n";
    let code = |sql: &str| {
        let run = [
            "query",
            "sqlite:odd.db",
            "--policies",
            "p",
            "--format",
            "json",
        ];
        let answer = desk.run(&[&run[..], &[sql]].concat()).json();
        match answer["code"].as_str() {
            Some(code) => code.to_owned(),
            None => answer["rows"].to_string(),
        }
    };
    desk.policy(open);
    assert_eq!(
        code("SELECT * FROM t WHERE id = 2"),
        r#"[{"id":2,"true":"b"}]"#
    );
    for sql in [
        "SELECT * FROM (SELECT * FROM t) AS d",
        "WITH d AS (SELECT id, \"TRUE\" FROM t) SELECT * FROM d",
        "WITH d (\"false\") AS (SELECT id FROM t) SELECT * FROM d",
    ] {
        assert_eq!(code(sql), "syntax.unsupported", "{sql}");
    }
    let filter = "forbid (principal, action == Action::\"see\", resource is row::main::t) when { resource.id == 2 };\n";
    desk.policy(&format!("{open}{filter}"));
    for sql in ["SELECT * FROM t", "SELECT \"true\" FROM t"] {
        assert_eq!(code(sql), "obligation.inapplicable", "{sql}");
    }
    // What is hidden has no name to lose.
    let hide =
        "forbid (principal, action in Action::\"read\", resource == Column::\"main.t.true\");";
    desk.policy(&format!("{open}{filter}{hide}"));
    assert_eq!(code("SELECT * FROM t"), r#"[{"id":1}]"#);
}

#[test]
fn an_empty_database_is_no_fault() {
    let desk = Desk::empty();
    desk.write("empty.sql", "");
    desk.write("empty.db", "");
    for source in ["empty.sql", "sqlite:empty.db"] {
        desk.run(&["check", "--catalog", source, "SELECT 1"])
            .expect_exit(0);
        desk.run(&["policy", "check", "--catalog", source])
            .expect_exit(0);
    }
    desk.run(&["query", "sqlite:empty.db", "SELECT 1"])
        .expect_exit(0);
}

/// Lines with principals of their own are told of like `--as`, once each, and JSON may be asked for by name.
#[test]
fn principals_of_lines_are_told_of() {
    let desk = Desk::new();
    let line = |who: &str| format!("{{\"sql\":\"SELECT 1 AS one\",\"as\":\"{who}::\\\"x\\\"\"}}\n");
    let run = |input: &str| {
        let arguments = [
            "query",
            "sqlite:demo.db",
            "--policies",
            "demo-policies",
            "--as",
            BOT,
            "--format",
            "json",
            "--batch",
            "-",
        ];
        desk.run_with(&arguments, input.as_bytes()).expect_exit(0)
    };
    let quiet = run("{\"sql\":\"SELECT 1 AS one\"}\n");
    assert_eq!(quiet.err, "");
    let told = run(&[line("Agent"), line("Agent"), line("Robot")].concat());
    assert_eq!(told.lines().len(), 3);
    for text in [
        "note: Agent::\"x\" is not in entities.json",
        "note: the policies' schema has no principals of the type `Robot`",
    ] {
        let times = told.err.matches(text).count();
        assert_eq!(times, 1, "{text}: {}", told.err);
    }
}
