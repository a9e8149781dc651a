//! Tables as they were, by the binary: on the command line, and over MCP.

use std::time::{Duration, Instant};

use palisade_testkit::servers::MySqlServer;
use serde_json::{Value, json};

use crate::{
    desk::Desk,
    serve::Client,
    shop::{BOT, Shop},
};

const CONFIG: [&str; 2] = ["--config", "palisade.toml"];

const CONFIGURATION: &str = "policies = \"p\"\naudit = \"audit.jsonl\"\n[approvals]\nstate = \"state.db\"\n[history]\nevery = \"1s\"\n\
    [connections.desk]\nurl = \"sqlite:demo.db\"\n";

/// A desk of whose tickets history is kept.
fn desk() -> Desk {
    let desk = Desk::new();
    desk.policy("permit (principal, action, resource);");
    desk.write("palisade.toml", CONFIGURATION);
    keep_history(&desk, &["history", "enable", "connection:desk", "tickets"]);
    desk
}

/// Runs what a command prints for the database's owner.
fn keep_history(desk: &Desk, command: &[&str]) {
    let script = desk.run(&[command, &CONFIG].concat()).expect_exit(0).out;
    change(desk, &script);
}

/// Changes the database beside the firewall.
fn change(desk: &Desk, sql: &str) {
    let database = rusqlite::Connection::open(desk.path("demo.db")).unwrap();
    database.execute_batch(sql).unwrap();
}

/// The subject of the first ticket, by a query with these arguments more.
fn subject(desk: &Desk, more: &[&str]) -> Value {
    let query = [
        "query",
        "connection:desk",
        "SELECT subject FROM tickets WHERE id = 1",
        "--format",
        "json",
    ];
    let told = desk.run(&[&query[..], &CONFIG, more].concat());
    let answer: Value = serde_json::from_str(&told.expect_exit(0).out).unwrap();
    answer["rows"][0]["subject"].clone()
}

#[test]
fn a_snapshot_is_read_and_forgotten() {
    let desk = desk();
    let of_history = |command: &[&str]| desk.run(&[command, &CONFIG].concat());
    let listed = of_history(&["history", "tables", "connection:desk"]).expect_exit(0);
    assert_eq!(listed.out, "main.tickets\n");
    let first = subject(&desk, &[]);
    let taken = of_history(&["snapshots", "create", "connection:desk", "first"]).expect_exit(0);
    assert!(taken.out.contains("  first\n"), "{}", taken.out);
    change(&desk, "UPDATE tickets SET subject = 'later' WHERE id = 1");
    assert_eq!(subject(&desk, &[]), "later");
    assert_eq!(subject(&desk, &["--as-of", "first"]), first);
    // An answer says as of what it is, and how far that is from what was asked for.
    let sql = "SELECT subject FROM tickets WHERE id = 1";
    let as_of = |moment: &str, form: &str| {
        let query = [
            "query",
            "connection:desk",
            sql,
            "--as-of",
            moment,
            "--format",
            form,
        ];
        of_history(&query).expect_exit(0).out
    };
    let told: Value = serde_json::from_str(&as_of("first", "json")).unwrap();
    assert_eq!(told["as_of"]["snapshot"], "first");
    assert_eq!(told["as_of"]["earlier_by_ms"], Value::Null);
    assert!(as_of("first", "text").contains(" (first)\n"));
    let late = "2999-01-01T00:00:00Z";
    let told: Value = serde_json::from_str(&as_of(late, "json")).unwrap();
    assert!(told["as_of"]["earlier_by_ms"].as_u64().unwrap() > 1_000_000_000);
    let told = as_of(late, "text");
    assert!(
        told.contains("as of 20") && told.contains(" days before the time that was asked for\n"),
        "{told}"
    );
    for (sql, moment, told) in [
        ("SELECT 1 FROM customers", "first", "history.not-kept"),
        ("SELECT 1", "nosuch", "palisade snapshots list"),
    ] {
        let query = ["query", "connection:desk", sql, "--as-of", moment];
        let refused = of_history(&query).expect_exit(1);
        assert!(refused.out.contains(told), "{}", refused.out);
    }
    let of_moment = [
        "history",
        "prune",
        "connection:desk",
        "tickets",
        "--before",
        "first",
    ];
    keep_history(&desk, &of_moment);
    assert_eq!(subject(&desk, &["--as-of", "first"]), first);
    of_history(&["snapshots", "delete", "connection:desk", "first"]).expect_exit(0);
    let listed = of_history(&["snapshots", "list", "connection:desk"]).expect_exit(0);
    assert_eq!(listed.out, "there are no snapshots\n");
    keep_history(&desk, &["history", "disable", "connection:desk", "tickets"]);
    let listed = of_history(&["history", "tables", "connection:desk"]).expect_exit(0);
    assert!(
        listed.out.starts_with("no table has a history"),
        "{}",
        listed.out
    );
}

#[test]
fn a_table_is_compared_with_its_past_and_set_back() {
    let desk = desk();
    let run = |command: &[&str]| desk.run(&[command, &CONFIG].concat());
    let first = subject(&desk, &[]);
    run(&["snapshots", "create", "connection:desk", "before"]).expect_exit(0);
    change(&desk, "UPDATE tickets SET subject = 'later' WHERE id = 1");
    let diff = ["history", "diff", "connection:desk", "tickets", "--from"];
    let told = run(&[&diff[..], &["before"]].concat()).expect_exit(0);
    assert!(told.out.contains("(before) to now"), "{}", told.out);
    assert!(told.out.contains("later"), "{}", told.out);
    let json = ["before", "--to", "before", "--format", "json"];
    let told = run(&[&diff[..], &json].concat()).expect_exit(0).out;
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["difference"]["rows"], json!([]), "{told}");
    assert_eq!(told["to"]["snapshot"], "before");
    let refused = run(&[&diff[..], &["nosuch"]].concat()).expect_exit(1);
    assert!(
        refused.err.contains("palisade snapshots list"),
        "{}",
        refused.err
    );
    desk.write("palisade.toml", format!("{CONFIGURATION}writable = true\n"));
    let revert = ["changes", "revert", "connection:desk", "tickets", "--to"];
    let told = run(&[&revert[..], &["before", "--validate"]].concat()).expect_exit(0);
    for word in [
        "sets main.tickets back to how it was at 20",
        "(before)",
        "later",
    ] {
        assert!(told.out.contains(word), "{word}: {}", told.out);
    }
    let id = told.out.split_whitespace().next().unwrap();
    run(&["changes", "commit", "connection:desk", id]).expect_exit(0);
    assert_eq!(subject(&desk, &[]), first);
    let again = run(&[&revert[..], &["before"]].concat()).expect_exit(1);
    assert!(again.err.contains("as it was"), "{}", again.err);
}

/// Without a configuration there is no place for a snapshot; that a history is kept is another matter.
#[test]
fn a_snapshot_without_a_state_file_says_what_to_write() {
    let desk = desk();
    desk.run(&["snapshots", "create", "sqlite:demo.db", "first"])
        .fails(
            1,
            &[
                "history.not-kept",
                "`state` under `[approvals]`",
                "`--config`",
            ],
        );
}

#[test]
fn what_became_of_a_row_is_listed() {
    let desk = desk();
    let run = |command: &[&str]| desk.run(&[command, &CONFIG].concat());
    run(&["snapshots", "create", "connection:desk", "first"]).expect_exit(0);
    let old = subject(&desk, &[]);
    change(&desk, "UPDATE tickets SET subject = 'second' WHERE id = 1");
    run(&["snapshots", "create", "connection:desk", "then"]).expect_exit(0);
    change(&desk, "UPDATE tickets SET subject = 'third' WHERE id = 1");
    let list = ["history", "list", "connection:desk", "tickets"];
    let of_row = [&list[..], &["--key", r#"{"id": 1}"#]].concat();
    let told = run(&of_row).expect_exit(0).out;
    let place = |word: &str| told.find(word).unwrap_or_else(|| panic!("{word}: {told}"));
    assert!(place("now") < place("third") && place("third") < place(old.as_str().unwrap()));
    let json = [&of_row[..], &["--from", "then", "--format", "json"]].concat();
    let told: Value = serde_json::from_str(&run(&json).expect_exit(0).out).unwrap();
    assert_eq!(told["from"]["snapshot"], "then");
    let rows = &told["history"]["rows"];
    assert_eq!(rows.as_array().unwrap().len(), 1, "{told}");
    assert_eq!(
        (&rows[0]["before"], &rows[0]["after"]),
        (&json!("second"), &json!("third"))
    );
    let other = [&list[..], &["--key", r#"{"id": 77}"#]].concat();
    run(&other).expect_exit(0);
    let no_key = [&list[..], &["--key", "7"]].concat();
    run(&no_key).fails(2, &["the key is no JSON object"]);
    let wrong = [&list[..], &["--key", r#"{"subject": "third"}"#]].concat();
    let refused = run(&wrong).expect_exit(1);
    assert!(refused.err.contains("primary key"), "{}", refused.err);
}

/// The audit log's records since so many, each as its tool, its decision and its rows.
fn records(desk: &Desk, since: usize) -> Vec<(String, String, u64)> {
    let log = std::fs::read_to_string(desk.path("audit.jsonl")).unwrap();
    assert!(!log.contains("second"), "a value stands in {log}");
    let records = log.lines().map(|line| serde_json::from_str(line).unwrap());
    let records = records.filter(|record: &Value| record["kind"] != "begin");
    let told = records.skip(since).map(|record: Value| {
        let text = |key: &str| record[key].as_str().unwrap_or_default().to_owned();
        (
            text("tool"),
            text("decision"),
            record["rows"].as_u64().unwrap(),
        )
    });
    told.collect()
}

/// A read of the past is one record, by whichever door it came.
#[test]
fn each_read_of_the_past_is_recorded_once() {
    let desk = desk();
    let run = |command: &[&str]| desk.run(&[command, &CONFIG].concat());
    run(&["snapshots", "create", "connection:desk", "first"]).expect_exit(0);
    change(&desk, "UPDATE tickets SET subject = 'second' WHERE id = 1");
    let recorded = |tool: &str, decision: &str, rows| (tool.to_owned(), decision.to_owned(), rows);
    let mut expected = vec![recorded("create_snapshot", "allow", 1)];
    assert_eq!(records(&desk, 0), expected);
    let of = |command: &[&'static str]| {
        let (verbs, rest) = command.split_at(2);
        run(&[verbs, &["connection:desk"], rest].concat())
    };
    of(&["snapshots", "list"]).expect_exit(0);
    expected.push(recorded("list_snapshots", "allow", 1));
    of(&["history", "diff", "tickets", "--from", "first"]).expect_exit(0);
    expected.push(recorded("diff_table", "allow", 1));
    of(&["history", "list", "tickets"]).expect_exit(0);
    expected.push(recorded("list_history", "allow", 1));
    of(&["history", "diff", "customers", "--from", "first"]).expect_exit(1);
    expected.push(recorded("diff_table", "reject", 0));
    of(&["snapshots", "delete", "first"]).expect_exit(0);
    expected.push(recorded("delete_snapshot", "allow", 1));
    assert_eq!(records(&desk, 0), expected);
    run(&["snapshots", "create", "connection:desk", "again"]).expect_exit(0);
    change(
        &desk,
        "UPDATE tickets SET subject = 'second, again' WHERE id = 1",
    );
    let since = expected.len() + 1;
    desk.write("palisade.toml", format!("{CONFIGURATION}writable = true\n"));
    let mut client = Client::new(&desk, &CONFIG);
    let mut expected = Vec::new();
    for (tool, arguments, decision, rows) in [
        ("list_snapshots", json!({}), "allow", 1),
        (
            "diff_table",
            json!({"table": "tickets", "from": "again"}),
            "allow",
            1,
        ),
        (
            "diff_table",
            json!({"table": "tickets", "from": "nosuch"}),
            "reject",
            0,
        ),
        ("list_history", json!({"table": "tickets"}), "allow", 2),
        ("list_history", json!({"table": 7}), "reject", 0),
        ("list_changes", json!({}), "allow", 0),
        ("list_receipts", json!({}), "allow", 0),
        (
            "trace",
            json!({"table": "tickets", "key": {"id": 1}}),
            "allow",
            0,
        ),
        ("inspect_change", json!({"change": "nosuch"}), "reject", 0),
        ("validate_change", json!({"change": "nosuch"}), "reject", 0),
    ] {
        client.call(tool, &arguments);
        expected.push(recorded(tool, decision, rows));
    }
    assert_eq!(records(&desk, since), expected);
    // What a change that sets the table back would do is shown by one record, beside that of the statement that was tried.
    let proposed = client.call("revert_table", &json!({"table": "tickets", "to": "again"}));
    let id = &proposed["structuredContent"]["change"];
    client.call("validate_change", &json!({"change": id}));
    let told = records(&desk, since + expected.len());
    let shown = told.iter().filter(|(_, _, rows)| *rows > 0);
    let shown: Vec<_> = shown.collect();
    assert_eq!(
        shown,
        [&recorded("validate_change", "allow", 1)],
        "{told:?}"
    );
}

/// The account that `setup-sql` prints reads the past of what it reads, and no more; of another, `doctor` says what it lacks.
fn an_account_of_its_own_reads_the_past(shop: &Shop, superuser: &str) {
    let url = shop.url();
    let enable = ["history", "enable", &url, "tickets", "--policies", "p"];
    let script = shop.desk.run(&enable).expect_exit(0).out;
    shop.load(&script);
    let role = format!("keeper_{}", shop.database);
    let owner = shop.url_as(superuser);
    let setup = ["setup-sql", &owner, "--role", &role, "--policies", "p"];
    let script = shop.desk.run(&setup).expect_exit(0).out;
    shop.load(&script);
    if superuser == "root" {
        shop.ask(&format!("ALTER USER {role}@'127.0.0.1' ACCOUNT UNLOCK"));
    }
    let port = shop.server.port();
    shop.desk.write(
        "palisade.toml",
        format!(
            "policies = \"p\"\nprincipal = '{BOT}'\naudit = \"audit.jsonl\"\n[grants]\nhosts = [\"127.0.0.1:{port}\"]\n\
             [connections.desk]\nurl = \"{}\"\n",
            shop.url_as(&role)
        ),
    );
    let run = |command: &[&str]| shop.desk.run(&[command, &CONFIG].concat());
    run(&["snapshots", "create", "connection:desk", "then"]).expect_exit(0);
    shop.ask("UPDATE tickets SET subject = 'later', note = 'n9' WHERE id = 1");
    let sql = "SELECT subject FROM tickets ORDER BY id";
    let of = ["query", "connection:desk", sql, "--format", "json"];
    let then = run(&[&of[..], &["--as-of", "then"]].concat())
        .expect_exit(0)
        .json();
    assert_eq!(
        then["rows"],
        json!([{"subject": "printer"}, {"subject": "screen"}])
    );
    let now = run(&of).expect_exit(0).json();
    assert_eq!(
        now["rows"],
        json!([{"subject": "later"}, {"subject": "screen"}])
    );
    // The note is read by no principal, and not by the account.
    let list = ["history", "list", "connection:desk", "tickets"];
    let told = run(&[&list[..], &["--format", "json"]].concat())
        .expect_exit(0)
        .json();
    let rows = told["history"]["rows"].as_array().unwrap();
    assert_eq!(
        (rows.len(), &rows[0]["column"]),
        (1, &json!("subject")),
        "{told}"
    );
    let examined = run(&["doctor", "connection:desk"]);
    assert!(
        !examined.out.contains("palisade_history"),
        "{}",
        examined.out
    );
}

#[test]
fn an_account_of_postgres_reads_the_past() {
    let shop = Shop::new("past");
    an_account_of_its_own_reads_the_past(&shop, "postgres");
    let lacking = shop.url();
    let told = shop.desk.run(&["doctor", &lacking, "--policies", "p"]).out;
    assert!(
        told.contains("GRANT USAGE ON SCHEMA \"palisade_history\""),
        "{told}"
    );
    let hidden = format!(
        "SELECT has_column_privilege('keeper_{}', 'palisade_history.\"public.tickets\"', 'note', 'SELECT')",
        shop.database
    );
    assert_eq!(shop.ask(&hidden), "f");
}

#[test]
fn an_account_of_mariadb_reads_the_past() {
    let shop = Shop::mariadb("past");
    // As servers have it, and those of tests have not.
    shop.ask("SET GLOBAL innodb_flush_log_at_trx_commit = 1");
    an_account_of_its_own_reads_the_past(&shop, "root");
    let revoked = [
        ("SELECT (palisade_to) ON tickets", "error 1143"),
        (
            "UPDATE (n) ON `palisade_history.seal`",
            "no moment is noted",
        ),
        ("PROCESS ON *.*", "PROCESS on *.*"),
    ];
    each_grant_that_is_missing_is_told(&shop, &revoked);
}

#[test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
fn an_account_of_mysql_9_reads_the_past() {
    let shop = Shop::mysql(MySqlServer::start_shared().unwrap(), "past");
    shop.ask("SET GLOBAL innodb_flush_log_at_trx_commit = 1");
    an_account_of_its_own_reads_the_past(&shop, "root");
    let revoked = [
        (
            "UPDATE (low) ON `palisade_history.seal`",
            "no moment is noted",
        ),
        ("SELECT ON `palisade_history.numbers`", "no moment is noted"),
        ("INSERT ON `palisade_history.numbers`", "no moment is noted"),
        ("DELETE ON `palisade_history.numbers`", "no moment is noted"),
        (
            "EXECUTE ON FUNCTION `palisade_history.state`",
            "whether histories are whole",
        ),
        (
            "EXECUTE ON FUNCTION `palisade_history.place`",
            "no moment is noted",
        ),
    ];
    each_grant_that_is_missing_is_told(&shop, &revoked);
}

/// Without one of the grants that `setup-sql` prints for histories, `doctor` says which, and what it says mends it.
fn each_grant_that_is_missing_is_told(shop: &Shop, more: &[(&str, &str)]) {
    let role = format!("keeper_{}@'127.0.0.1'", shop.database);
    let list_missing = || {
        let doctor = ["doctor", "connection:desk", "--format", "json"];
        let found = shop.desk.run(&[&doctor[..], &CONFIG].concat()).json();
        let weaknesses = found["weaknesses"].as_array().unwrap().clone();
        let missing = weaknesses
            .into_iter()
            .filter(|weak| weak["kind"] == "missing-grant");
        missing.collect::<Vec<Value>>()
    };
    assert_eq!(list_missing(), [] as [Value; 0]);
    for (revoked, told) in [
        (
            "SELECT (subject) ON palisade_history_tickets",
            "SELECT (`subject`)",
        ),
        (
            "REFERENCES ON palisade_history_tickets",
            "not all columns of the past",
        ),
        (
            "ALL PRIVILEGES ON palisade_history_tickets",
            "the past of the table is not read",
        ),
        (
            "ALL PRIVILEGES ON `palisade_history.spans`",
            "since when histories are whole",
        ),
        (
            "ALL PRIVILEGES ON `palisade_history.seal`",
            "no moment is noted",
        ),
    ]
    .iter()
    .chain(more)
    {
        shop.ask(&format!("REVOKE {revoked} FROM {role}"));
        let missing = list_missing();
        let [one] = missing.as_slice() else {
            panic!("{revoked}: {missing:#?}");
        };
        let description = one["description"].as_str().unwrap();
        assert!(description.contains(told), "{revoked}: {description}");
        shop.ask(one["remedy"].as_str().unwrap());
        assert_eq!(list_missing(), [] as [Value; 0], "{revoked}");
    }
}

/// A backup that was put back and written on is another database, until its histories begin anew.
#[test]
fn a_backup_that_was_put_back_has_a_history_of_its_own() {
    let desk = desk();
    let run = |command: &[&str]| desk.run(&[command, &CONFIG].concat());
    let backup = desk.path("backup.db");
    std::fs::copy(desk.path("demo.db"), &backup).unwrap();
    change(&desk, "UPDATE tickets SET subject = 'later' WHERE id = 1");
    run(&["snapshots", "create", "connection:desk", "later"]).expect_exit(0);
    std::fs::copy(&backup, desk.path("demo.db")).unwrap();
    change(&desk, "UPDATE tickets SET subject = 'other' WHERE id = 1");
    let sql = "SELECT subject FROM tickets WHERE id = 1";
    let as_of = |moment: &str| {
        let query = ["query", "connection:desk", sql, "--as-of", moment];
        run(&query).out
    };
    assert!(
        as_of("later").contains("history.foreign"),
        "{}",
        as_of("later")
    );
    keep_history(&desk, &["history", "rebase", "connection:desk"]);
    run(&["snapshots", "create", "connection:desk", "again"]).expect_exit(0);
    change(&desk, "UPDATE tickets SET subject = 'last' WHERE id = 1");
    assert!(as_of("again").contains("other"), "{}", as_of("again"));
    assert!(
        as_of("later").contains("history.foreign"),
        "{}",
        as_of("later")
    );
    keep_history(&desk, &["history", "disable", "connection:desk", "tickets"]);
    let rebase = ["history", "rebase", "connection:desk"];
    run(&rebase).fails(2, &["no table has a history", "palisade history enable"]);
}

#[test]
fn what_cannot_have_a_history_is_told_why() {
    let desk = desk();
    change(
        &desk,
        "CREATE TABLE loose (word text); CREATE TABLE odd (id integer PRIMARY KEY, palisade_to integer)",
    );
    for (table, why) in [
        ("loose", "no primary key"),
        ("odd", "`palisade_to`"),
        ("nosuch", "there is no table `nosuch`"),
    ] {
        let enable = ["history", "enable", "connection:desk", table];
        desk.run(&[&enable[..], &CONFIG].concat()).fails(2, &[why]);
    }
}

#[test]
fn a_server_notes_moments_by_itself() {
    let desk = desk();
    let mut client = Client::new(&desk, &CONFIG);
    let tools = client.ask("tools/list", &json!({})).to_string();
    for tool in [
        "create_snapshot",
        "delete_snapshot",
        "diff_table",
        "list_history",
        "list_snapshots",
        "as_of",
    ] {
        assert!(tools.contains(tool), "{tool}");
    }
    // Nothing may be changed here.
    assert!(!tools.contains("revert_table"));
    let question = json!({"name": "time_travel", "arguments": {"question": "Since when?", "table": "tickets"}});
    let prompt = client.ask("prompts/get", &question).to_string();
    for word in [
        "Since when?",
        "`list_snapshots`",
        "`diff_table`",
        "`list_history`",
        "as_of",
    ] {
        assert!(prompt.contains(word), "{word}: {prompt}");
    }
    assert!(!prompt.contains("revert_table"), "{prompt}");
    let sql = "SELECT subject FROM tickets WHERE id = 1";
    let mut ask = |as_of: Option<&str>| {
        let arguments = json!({"sql": sql, "format": "json", "as_of": as_of});
        client.call("query", &arguments)["structuredContent"].clone()
    };
    let first = ask(None)["rows"][0]["subject"].clone();
    // The moment of the start is noted, and with it the state before the change.
    let began = Instant::now();
    let then = loop {
        let now = ask(Some("2999-01-01T00:00:00Z"));
        if now["code"] != "history.unknown-snapshot" {
            break now;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{now}");
    };
    let moment = then["as_of"]["taken"].as_str().unwrap().to_owned();
    assert_eq!(then["as_of"]["snapshot"], Value::Null);
    change(&desk, "UPDATE tickets SET subject = 'later' WHERE id = 1");
    let began = Instant::now();
    while ask(Some("2999-01-01T00:00:00Z"))["rows"][0]["subject"] != "later" {
        assert!(began.elapsed() < Duration::from_secs(30));
    }
    assert_eq!(ask(Some(&moment))["rows"][0]["subject"], first);
    assert_eq!(ask(None)["rows"][0]["subject"], "later");
}
