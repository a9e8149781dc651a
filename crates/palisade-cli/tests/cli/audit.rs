//! The audit log as a chain: what `audit verify` finds, and what `audit show` shows.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    desk::{Answer, BOT, Desk},
    serve::Client,
};

const LOG: [&str; 4] = ["--audit", "audit.jsonl", "--audit-anchors", "anchors.jsonl"];
const VERIFY: [&str; 3] = ["audit", "verify", "audit.jsonl"];
const ANCHORED: [&str; 5] = [
    "audit",
    "verify",
    "audit.jsonl",
    "--anchors",
    "anchors.jsonl",
];
const POLICIES: [&str; 4] = ["--policies", "demo-policies", "--as", BOT];

/// Asks one statement after the other in one process.
fn ask(desk: &Desk, options: &[&str], statements: &[&str]) {
    let batch: String = (statements.iter())
        .map(|sql| format!("{}\n", json!({"sql": sql})))
        .collect();
    let arguments = [
        &["query", "sqlite:demo.db", "--batch", "-"][..],
        &POLICIES,
        options,
    ]
    .concat();
    let answer = desk.run_with(&arguments, batch.as_bytes());
    assert_eq!(answer.lines().len(), statements.len(), "{}", answer.err);
}

fn lines(desk: &Desk) -> Vec<String> {
    let text = fs::read_to_string(desk.path("audit.jsonl")).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Verifies, with this exit code; the output.
#[track_caller]
fn verify(desk: &Desk, arguments: &[&str], exit: i32) -> String {
    desk.run(arguments).expect_exit(exit).out
}

#[test]
fn what_is_done_to_a_log_is_found() {
    let desk = Desk::new();
    ask(
        &desk,
        &LOG,
        &[
            "SELECT 1",
            "SELECT 2",
            "DELETE FROM tickets",
            "SELECT 4",
            "SELECT 5",
        ],
    );
    let told = verify(&desk, &VERIFY, 0);
    assert!(told.contains("6 lines are as they were written"), "{told}");
    assert!(told.contains("without anchors"), "{told}");
    let told = verify(&desk, &ANCHORED, 0);
    assert!(told.contains("1 anchor names one of them"), "{told}");
    for file in ["audit.jsonl", "audit.jsonl.key", "anchors.jsonl"] {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(desk.path(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }

    let whole = lines(&desk);
    let edited = whole[3].replace("\"decision\":\"reject\"", "\"decision\":\"allow\"");
    assert_ne!(edited, whole[3]);
    let with = |change: &dyn Fn(&mut Vec<String>)| {
        let mut lines = whole.clone();
        change(&mut lines);
        lines
    };
    let forged = |lines: &mut Vec<String>| lines[3] = edited.clone();
    for (changed, told) in [
        (with(&forged), "audit.jsonl:4: record 4 was edited"),
        (
            with(&|lines| drop(lines.remove(2))),
            "audit.jsonl:3: record 3 before it is missing",
        ),
        (
            with(&|lines| drop(lines.drain(2..4))),
            "records 3 to 4 before it are missing",
        ),
        (
            with(&|lines| lines.swap(2, 3)),
            "record 3 stands behind record 4: repeated, or out of order",
        ),
        (
            with(&|lines| lines.insert(3, lines[2].clone())),
            "audit.jsonl:4: record 3 stands behind record 3",
        ),
        (
            with(&|lines| lines.insert(2, "{}".to_owned())),
            "audit.jsonl:3: it is no record of the chain",
        ),
        (
            with(&|lines| drop(lines.remove(0))),
            "audit.jsonl:1: it begins no chain",
        ),
    ] {
        desk.write("audit.jsonl", format!("{}\n", changed.join("\n")));
        let said = verify(&desk, &VERIFY, 1);
        assert!(said.contains(told), "{told}: {said}");
        let json = desk.run(&[&VERIFY[..], &["--format", "json"]].concat());
        assert_eq!(json.expect_exit(1).json()["whole"], false);
    }

    // Whoever cuts off the end leaves a chain that is sound. An anchor knows better.
    desk.write("audit.jsonl", format!("{}\n", whole[..4].join("\n")));
    verify(&desk, &VERIFY, 0);
    let told = verify(&desk, &ANCHORED, 1);
    assert!(
        told.contains("its end was cut off: it ends at record 4, and an anchor names record 6"),
        "{told}"
    );
    // What goes on from there is not what was there.
    ask(
        &desk,
        &["--audit", "audit.jsonl"],
        &["SELECT 1", "SELECT 2", "SELECT 3"],
    );
    verify(&desk, &VERIFY, 0);
    let told = verify(&desk, &ANCHORED, 1);
    assert!(
        told.contains("record 6 is not the one that an anchor names"),
        "{told}"
    );
    // Nor is a log that is begun anew, under the same key.
    fs::remove_file(desk.path("audit.jsonl")).unwrap();
    ask(&desk, &["--audit", "audit.jsonl"], &["SELECT 1"]);
    let told = verify(&desk, &ANCHORED, 1);
    assert!(told.contains("that an anchor names is not here"), "{told}");

    desk.write("audit.jsonl", format!("{}\n", whole.join("\n")));
    verify(&desk, &ANCHORED, 0);
    desk.write("other.key", "0".repeat(64));
    Command::new("chmod")
        .args(["600", "other.key"])
        .current_dir(desk.path(""))
        .status()
        .unwrap();
    let told = verify(&desk, &[&VERIFY[..], &["--key", "other.key"]].concat(), 1);
    assert!(told.contains("chained under another key"), "{told}");
    let with_other = [
        "query",
        "sqlite:demo.db",
        "--audit",
        "audit.jsonl",
        "--audit-key",
        "other.key",
        "SELECT 1",
    ];
    desk.run(&with_other)
        .fails(2, &["chained under another key"]);
    fs::remove_file(desk.path("audit.jsonl.key")).unwrap();
    desk.run(&[
        "query",
        "sqlite:demo.db",
        "--audit",
        "audit.jsonl",
        "SELECT 1",
    ])
    .fails(2, &["the key of the audit log `audit.jsonl` is not there"]);
    let one_file = [
        "query",
        "sqlite:demo.db",
        "--audit",
        "x.jsonl",
        "--audit-anchors",
        "x.jsonl",
    ];
    desk.run(&[&one_file[..], &["SELECT 1"]].concat())
        .fails(2, &["its anchors cannot stand in the same file"]);
    desk.run(&["audit", "verify", "nothing.jsonl"])
        .fails(2, &["there is no audit log `nothing.jsonl`"]);
    desk.write("plain.jsonl", "{\"kind\":\"statement\"}\n");
    desk.run(&[
        "query",
        "sqlite:demo.db",
        "--audit",
        "plain.jsonl",
        "--audit-key",
        "other.key",
        "SELECT 1",
    ])
    .fails(2, &["its lines are no chain of records; move it away"]);
}

#[test]
fn half_a_record_that_a_crash_left_is_told_as_that() {
    let desk = Desk::new();
    let log = ["--audit", "audit.jsonl"];
    ask(&desk, &log, &["SELECT 1", "SELECT 2"]);
    let whole = fs::read(desk.path("audit.jsonl")).unwrap();
    let first = whole.iter().position(|byte| *byte == b'\n').unwrap();
    for (left, records, is_torn) in [
        (whole.len() - 100, 2, true),
        // All but the end of its line: nothing is lost.
        (whole.len() - 1, 3, false),
        // Half of the line that begins the log.
        (first / 2, 1, true),
    ] {
        desk.write("audit.jsonl", &whole[..left]);
        ask(&desk, &log, &["SELECT 3"]);
        let told = verify(&desk, &VERIFY, 0);
        assert_eq!(
            told.contains("half a record that a crash left, of which the next one tells"),
            is_torn,
            "{left}: {told}"
        );
        let text =
            String::from_utf8_lossy(&fs::read(desk.path("audit.jsonl")).unwrap()).into_owned();
        assert_eq!(
            text.matches("\"principal\":\"").count(),
            records + usize::from(left == whole.len() - 100),
            "{text}"
        );
        // What is no crash is not told as one.
        desk.write(
            "audit.jsonl",
            text.replacen("\"time_ms\":1", "\"time_ms\":2", 1),
        );
        verify(&desk, &VERIFY, 1);
    }
    desk.write("audit.jsonl", &whole[..first / 2]);
    let told = verify(&desk, &VERIFY, 0);
    assert!(told.contains("audit.jsonl:1: half a record"), "{told}");
    // Before somebody writes again, it may be a line that is being written.
    desk.write("audit.jsonl", &whole[..whole.len() - 100]);
    let told = verify(&desk, &VERIFY, 0);
    assert!(told.contains("audit.jsonl:3: half a record"), "{told}");
}

/// Calls of tools through servers, one thread each.
fn serve_at_once(desk: &Desk, count: usize, options: &[&str], calls: usize) {
    std::thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| {
                let arguments = [&["sqlite:demo.db"][..], &POLICIES, options].concat();
                let mut client = Client::new(desk, &arguments);
                for _ in 0..calls {
                    client.call("list_schemas", &json!({}));
                }
                client.end();
            });
        }
    });
}

#[test]
fn processes_that_write_one_log_write_one_chain_and_rotate_it() {
    let desk = Desk::new();
    serve_at_once(&desk, 3, &LOG, 30);
    let told = verify(&desk, &ANCHORED, 0);
    assert!(told.contains("91 lines are as they were written"), "{told}");
    assert!(told.contains("3 anchors"), "{told}");

    // The same while files are full all the time.
    desk.write(
        "palisade.toml",
        "[audit]\nfile = \"full.jsonl\"\nanchors = \"full-anchors.jsonl\"\nmax_file_kb = 10\nmax_files = 3\nsync = \"record\"\nanchor_records = 7\n",
    );
    serve_at_once(&desk, 3, &["--config", "palisade.toml"], 30);
    let verify_all = ["audit", "verify", "--config", "palisade.toml"];
    let told = verify(&desk, &verify_all, 0);
    assert!(
        told.contains("were in old files, which were removed"),
        "{told}"
    );
    let json = desk
        .run(&[&verify_all[..], &["--format", "json"]].concat())
        .expect_exit(0)
        .json();
    assert_eq!(json["files"].as_array().unwrap().len(), 4, "{json}");
    assert!(
        json["last"]["seq"].as_u64().unwrap() > 90 && json["anchors"].as_u64().unwrap() > 0,
        "{json}"
    );
    // An old file that was taken away is missed, whichever it is; one that lies elsewhere is not.
    let files: Vec<String> = (json["files"].as_array().unwrap().iter())
        .map(|file| file.as_str().unwrap().to_owned())
        .collect();
    fs::create_dir(desk.path("cold")).unwrap();
    for file in &files[..3] {
        let cold = format!("cold/{file}");
        fs::rename(desk.path(file), desk.path(&cold)).unwrap();
        let told = verify(&desk, &verify_all, 1);
        assert!(
            told.contains("not here") || told.contains("missing"),
            "{told}"
        );
        verify(
            &desk,
            &[
                "audit",
                "verify",
                &cold,
                "full.jsonl",
                "--config",
                "palisade.toml",
            ],
            0,
        );
        fs::rename(desk.path(&cold), desk.path(file)).unwrap();
    }
    verify(&desk, &verify_all, 0);
    desk.write("no.toml", "[audit]\nfile = \"x.jsonl\"\nmax_files = 3\n");
    desk.run(&["audit", "show", "--config", "no.toml"])
        .fails(3, &["no.toml:3", "name a file of `anchors`"]);
    desk.write("no.toml", "[audit]\nfile = \"x.jsonl\"\nanchor = \"y\"\n");
    desk.run(&["audit", "show", "--config", "no.toml"])
        .fails(3, &["no.toml:3", "did you mean `anchors`?"]);
}

#[test]
fn a_call_that_cannot_be_recorded_is_not_answered() {
    let desk = Desk::new();
    desk.run(&[
        "query",
        "sqlite:demo.db",
        "--audit",
        "/dev/full",
        "SELECT 1",
    ])
    .expect_exit(5);
    // A disk that is full after some records.
    let serve = format!(
        "trap '' XFSZ; ulimit -f 12; exec palisade serve sqlite:demo.db {} --audit audit.jsonl",
        POLICIES.map(|word| format!("'{word}'")).join(" ")
    );
    let call = |id: u32| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "list_databases", "arguments": {}}});
    let begin = [
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    ];
    let input: String = (begin.into_iter().chain((1..=20).map(call)))
        .map(|message| format!("{message}\n"))
        .collect();
    let answer = desk.shell(&serve, 0, input.as_bytes());
    let (mut answered, mut refused) = (0, 0);
    for line in answer.lines().iter().skip(1) {
        match line["result"]["isError"].as_bool() {
            Some(true) => {
                assert!(line.to_string().contains("internal"), "{line}");
                refused += 1;
            }
            Some(false) | None => answered += 1,
        }
    }
    assert!(
        answered > 2 && refused > 2,
        "{answered} {refused}\n{}",
        answer.out
    );
    assert_eq!(
        desk.records("audit.jsonl").len(),
        answered,
        "what was answered was recorded"
    );
    verify(&desk, &VERIFY, 0);
    // Once there is room, the chain goes on.
    ask(&desk, &["--audit", "audit.jsonl"], &["SELECT 1"]);
    verify(&desk, &VERIFY, 0);
    // What is no file has no chain.
    let piped = desk.shell(
        "palisade query sqlite:demo.db --audit /dev/stderr 'SELECT 1' 2>&1 >/dev/null | cat",
        0,
        b"",
    );
    assert!(
        piped.out.contains("{\"kind\":\"statement\""),
        "{}",
        piped.out
    );
}

#[test]
fn a_log_is_read_by_people() {
    let desk = Desk::new();
    let mut client = Client::new(
        &desk,
        &[&["sqlite:demo.db"][..], &POLICIES, &LOG[..2]].concat(),
    );
    client.call("list_databases", &json!({}));
    client.query("SELECT name FROM customers");
    client.query("DELETE FROM tickets WHERE id = 4711");
    client.call("no_such_tool", &json!({}));
    client.end();
    ask(&desk, &LOG[..2], &["SELECT id FROM tickets"]);
    let records = desk.records("audit.jsonl");
    let tools: Vec<&Value> = records.iter().map(|record| &record["tool"]).collect();
    assert_eq!(
        tools,
        [
            &json!("list_databases"),
            &json!("query"),
            &json!("query"),
            // What a client calls a tool that is not there stays out of the record.
            &Value::Null,
            &Value::Null
        ]
    );
    assert_eq!(
        (&records[0]["kind"], &records[0]["connection"]),
        (&json!("call"), &Value::Null)
    );

    let show = |options: &[&str]| {
        desk.run(&[&["audit", "show", "audit.jsonl"], options].concat())
            .expect_exit(0)
            .out
    };
    let all = show(&[]);
    for text in [
        "call list_databases: allow",
        "statement query on demo: rows ",
        "refused, statement.not-allowed",
        "| select name from customers",
        "tables main.customers",
        "obliged to filter main.customers",
        "a file of the log begins",
    ] {
        assert!(all.contains(text), "{text}: {all}");
    }
    assert!(!all.contains("4711"), "{all}");
    let session = records[0]["session"].as_str().unwrap();
    for (options, count) in [
        (&["--session", session][..], 4),
        (&["--session", "no"], 0),
        (&["--table", "customers"], 1),
        (&["--table", "main.tickets"], 1),
        (&["--table", "ickets"], 0),
        (&["--decision", "reject"], 2),
        (&["--decision", "allow", "--principal", "support-bot"], 3),
        (&["--principal", BOT], 5),
        (&["--principal", "bot"], 0),
        (&["--since", "1h"], 5),
        (&["--until", "1h"], 0),
        (&["--since", "2026-01-01T00:00:00Z"], 5),
    ] {
        let json = show(&[options, &["--format", "json"]].concat());
        let principals = json.matches("\"principal\":").count();
        assert_eq!(principals, count, "{options:?}: {json}");
        assert_eq!(
            show(options).matches("  Agent::\"support-bot\"").count(),
            count,
            "{options:?}"
        );
    }
    desk.run(&["audit", "show", "audit.jsonl", "--since", "yesterday"])
        .fails(2, &["30m"]);

    // Over what another process writes meanwhile, and over a file that is renamed.
    let mut follow = desk
        .command(env!("CARGO_BIN_EXE_palisade"))
        .args([
            "audit",
            "show",
            "audit.jsonl",
            "--follow",
            "--format",
            "json",
            "--decision",
            "reject",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut shown = BufReader::new(follow.stdout.take().unwrap());
    let mut next = || {
        let mut line = String::new();
        shown.read_line(&mut line).unwrap();
        serde_json::from_str::<Value>(&line).unwrap()
    };
    assert_eq!(next()["tool"], "query");
    assert_eq!(next()["code"], "request.invalid");
    fs::rename(desk.path("audit.jsonl"), desk.path("audit.jsonl.000001")).unwrap();
    ask(&desk, &LOG[..2], &["DELETE FROM customers"]);
    assert_eq!(next()["statement"], "delete from customers");
    follow.kill().unwrap();
    follow.wait().unwrap();
    verify(&desk, &VERIFY, 0);
}

#[test]
fn a_client_starts_the_server_with_its_log() {
    let desk = Desk::new();
    let log = [
        "--audit",
        "audit.jsonl",
        "--audit-key",
        "k",
        "--audit-anchors",
        "anchors.jsonl",
    ];
    let Answer { out, .. } = desk
        .run(&[&["mcp-config", "cursor", "sqlite:demo.db"][..], &log].concat())
        .expect_exit(0);
    let entry: Value = serde_json::from_str(&out).unwrap();
    let words: Vec<&str> = (entry["mcpServers"]["palisade"]["args"]
        .as_array()
        .unwrap()
        .iter())
    .map(|word| word.as_str().unwrap())
    .collect();
    for pair in log.chunks(2) {
        let at = words.iter().position(|word| *word == pair[0]).unwrap();
        assert!(
            Path::new(words[at + 1]).is_absolute() && words[at + 1].ends_with(pair[1]),
            "{words:?}"
        );
    }
}

#[test]
fn the_configuration_says_where_the_key_is() {
    let desk = Desk::new();
    let config = |key: &str| {
        desk.write(
            "palisade.toml",
            format!("[audit]\nfile = \"audit.jsonl\"\nanchors = \"anchors.jsonl\"\n{key}\n"),
        );
    };
    let run = |words: &[&str], key: &str| {
        let mut command = desk.command(env!("CARGO_BIN_EXE_palisade"));
        command
            .args(words)
            .args(["--config", "palisade.toml"])
            .env("AUDIT_KEY", key);
        Answer::from_command(&mut command, b"")
    };
    let query = ["query", "sqlite:demo.db", "SELECT 1"];
    let key = "k".repeat(32);
    config("key_env = \"AUDIT_KEY\"");
    run(&query, &key).fails(
        3,
        &[
            "palisade.toml:4",
            "`env = [\"AUDIT_KEY\"]` under `[grants]`",
        ],
    );
    config("key_env = \"AUDIT_KEY\"\n[grants]\nenv = [\"AUDIT_KEY\"]");
    run(&query, "short").fails(3, &["is shorter than 32 bytes"]);
    run(&query, &key).expect_exit(0);
    run(&["audit", "verify"], &key).expect_exit(0);
    run(&["audit", "verify"], &"l".repeat(32)).expect_exit(1);
    assert!(!desk.path("audit.jsonl.key").exists());
    // What decides without recording makes no files.
    config("key_file = \"keys/audit\"\nmax_file_hours = 0\n[grants]\nfiles = [\"keys/audit\"]");
    run(&query, &key).fails(3, &["palisade.toml:5", "write a number from 1 to 8784"]);
    fs::remove_file(desk.path("audit.jsonl")).unwrap();
    fs::create_dir(desk.path("keys")).unwrap();
    config("key_file = \"keys/audit\"\n[grants]\nfiles = [\"keys/audit\"]");
    run(&["check", "--catalog", "sqlite:demo.db", "SELECT 1"], &key).expect_exit(0);
    assert!(!desk.path("audit.jsonl").exists() && !desk.path("keys/audit").exists());
    run(&query, &key).expect_exit(0);
    assert!(desk.path("keys/audit").exists());
}

#[test]
fn an_anchor_names_the_end_of_a_server_that_is_asked_to_end() {
    let desk = Desk::new();
    let mut client = Client::new(&desk, &[&["sqlite:demo.db"][..], &LOG].concat());
    client.call("list_databases", &json!({}));
    client.call("list_databases", &json!({}));
    assert_eq!(client.terminate(), Some(0));
    let anchor = fs::read_to_string(desk.path("anchors.jsonl")).unwrap();
    let anchor: Value = serde_json::from_str(&anchor).unwrap();
    assert_eq!(anchor["seq"], 3);
    verify(&desk, &ANCHORED, 0);
}

/// The server knows where its chain was.
#[test]
fn what_is_cut_off_while_a_server_runs_is_missed_without_anchors() {
    let desk = Desk::new();
    let mut client = Client::new(&desk, &[&["sqlite:demo.db"][..], &LOG[..2]].concat());
    let mut call = |times: u32| {
        for _ in 0..times {
            client.call("list_databases", &json!({}));
        }
    };
    call(4);
    let whole = lines(&desk);
    desk.write("audit.jsonl", format!("{}\n", whole[..3].join("\n")));
    call(1);
    let told = verify(&desk, &VERIFY, 1);
    assert!(
        told.contains("audit.jsonl:4: records 4 to 5 before it are missing"),
        "{told}"
    );
    desk.write("audit.jsonl", "");
    call(1);
    let told = verify(&desk, &VERIFY, 1);
    assert!(told.contains("records 1 to 6 are not here"), "{told}");
    client.end();
}

/// As logrotate does.
#[test]
fn a_file_that_somebody_else_renames_is_gone_on_with() {
    let desk = Desk::new();
    let mut client = Client::new(&desk, &[&["sqlite:demo.db"][..], &LOG[..2]].concat());
    for name in ["audit.jsonl.2", "audit.jsonl.1"] {
        client.call("list_databases", &json!({}));
        fs::rename(desk.path("audit.jsonl"), desk.path(name)).unwrap();
    }
    client.call("list_databases", &json!({}));
    client.end();
    let all = [
        "audit",
        "verify",
        "audit.jsonl",
        "audit.jsonl.1",
        "audit.jsonl.2",
    ];
    let told = verify(&desk, &all, 0);
    assert!(told.contains("6 lines are as they were written"), "{told}");
    verify(
        &desk,
        &[&all[..], &["--key", "audit.jsonl.key"]].concat(),
        0,
    );
    let told = verify(&desk, &[&all[..3], &["audit.jsonl.2"]].concat(), 1);
    assert!(
        told.contains("records 3 to 4 before it are missing"),
        "{told}"
    );
}
