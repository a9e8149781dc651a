//! Policies that are learned from what was asked.

use std::fs;

use palisade_testkit::servers::{MariaDbServer, PostgresServer, Server};
use serde_json::json;

use crate::desk::{BOT, Desk};

/// The demonstration, asked statements that its log holds.
fn asked() -> Desk {
    let desk = Desk::new();
    for sql in [
        "SELECT name, national_id FROM customers WHERE name = 'Ada Brandt'",
        "SELECT name, national_id FROM customers WHERE name = 'Somebody Else'",
        "SELECT lower(subject) FROM tickets LIMIT 3",
        "SELECT name FROM staff",
        // Not learned from.
        "SELECT * FROM credentials",
        "SELECT body FROM tickets",
    ] {
        desk.run(&[
            "query",
            "sqlite:demo.db",
            sql,
            "--policies",
            "demo-policies",
            "--as",
            BOT,
            "--audit",
            "audit.jsonl",
        ]);
    }
    desk
}

#[test]
fn policies_are_learned_from_what_was_permitted() {
    let desk = asked();
    let learn = ["policy", "learn", "demo-policies", "--audit", "audit.jsonl"];
    let told = desk.run(&learn).expect_exit(1).out;
    for text in [
        "// main.customers, asked 2 times by Agent::\"support-bot\"",
        "@id(\"learned.support.main.customers.masked\")",
        // What capped the answers caps them again.
        "@max_rows(\"5\")",
        "// The rows of main.customers were filtered: keep the policies of `see` that did so.",
        "// Asked once each",
        "resource is row::main::staff",
        "Not learned from, it was refused: select * from credentials",
        // The demonstration's tickets hold instructions to a model.
        "Not learned from, it was asked only in sessions in which instructions to a model were found: select body from tickets",
    ] {
        assert!(told.contains(text), "{text}\n{told}");
    }
    for text in ["Ada", "Somebody", "credentials\"", "tickets.body"] {
        assert!(!told.contains(text), "{text}\n{told}");
    }
    // They load beside the policies that they say to keep, and the tests hold by them.
    desk.run(&[&learn[..], &["--write", "learned"]].concat())
        .expect_exit(1);
    for file in [
        "entities.json",
        "principals.cedarschema",
        "classification.toml",
    ] {
        fs::copy(
            desk.path(&format!("demo-policies/{file}")),
            desk.path(&format!("learned/{file}")),
        )
        .unwrap();
    }
    fs::copy(
        desk.path("demo-policies/tests/demo.sql"),
        desk.path("learned/tests/demo.sql"),
    )
    .unwrap();
    let keep = fs::read_dir(desk.path("demo-policies")).unwrap().flatten();
    let keep: String = keep
        .filter(|file| file.path().extension().is_some_and(|end| end == "cedar"))
        .map(|file| fs::read_to_string(file.path()).unwrap())
        .collect();
    let kept: String = keep
        .split_inclusive(";\n")
        .filter(|policy| policy.contains("\"see\"") || policy.contains("@mask"))
        .collect();
    desk.write("learned/kept.cedar", kept);
    let tested = desk.run(&["policy", "test", "learned", "--format", "json"]);
    let tested = tested.expect_exit(0).json();
    assert_eq!(
        (&tested["passed"], &tested["failed"]),
        (&json!(3), &json!(0)),
        "{tested}"
    );
    // What it was not asked is not there: less than it had.
    desk.write(
        "asked.jsonl",
        json!({"sql": "SELECT status FROM tickets", "as": BOT}).to_string(),
    );
    fs::create_dir_all(desk.path("before")).unwrap();
    let diff = [
        "policy",
        "diff",
        "demo-policies",
        "learned",
        "--statements",
        "asked.jsonl",
    ];
    let told = desk.run(&diff).expect_exit(0).out;
    assert!(told.contains("narrower:"), "{told}");
    desk.run(&[&learn[..], &["--write", "learned"]].concat())
        .fails(2, &["is there already"]);
}

#[test]
fn policies_are_learned_from_statements_that_a_person_marked() {
    let desk = Desk::new();
    let line = json!({"sql": "UPDATE tickets SET status = 'open' WHERE id = 1", "as": BOT});
    desk.write("marked.jsonl", line.to_string());
    let run = [
        "policy",
        "learn",
        "demo-policies",
        "--statements",
        "marked.jsonl",
    ];
    let told = desk.run(&run).expect_exit(0).out;
    for text in [
        "Action::\"update\"",
        "Column::\"main.tickets.status\"",
        "Action::\"change\"",
        "Learned from 1 statements. What was not asked then is not seen.",
    ] {
        assert!(told.contains(text), "{text}\n{told}");
    }
    // Without an entity, the principal is granted for itself.
    desk.write(
        "marked.jsonl",
        line.to_string().replace("support-bot", "somebody"),
    );
    let told = desk.run(&run).out;
    assert!(told.contains("principal == Agent::\"somebody\""), "{told}");
}

#[test]
fn policies_that_decide_nothing_are_listed() {
    let desk = asked();
    let unused = [
        "policy",
        "learn",
        "demo-policies",
        "--audit",
        "audit.jsonl",
        "--unused",
        "90",
    ];
    let told = desk.run(&unused).expect_exit(0).out;
    let spelt = unused.map(|word| if word == "90" { "90d" } else { word });
    assert_eq!(desk.run(&spelt).expect_exit(0).out, told);
    assert!(told.contains(" support.status: never"), "{told}");
    assert!(!told.contains(" support.tables: "), "{told}");
    assert!(told.contains("It is shorter than 90 days"), "{told}");
    let json = desk.run(&[&unused[..], &["--format", "json"]].concat());
    let json = json.expect_exit(0).json();
    assert_eq!(json["covers_days"], false);
    assert!(json["unused"].as_array().unwrap().len() > 2, "{json}");
}

/// Nothing is proposed that shows more than what was seen.
#[test]
fn nothing_learned_is_wider_than_what_was_seen() {
    let desk = Desk::new();
    let record = |principal: &str, more: serde_json::Value| {
        let mut record = json!({"kind": "statement", "principal": format!("Agent::\"{principal}\""),
            "statement": "select name , phone from customers", "time_ms": 1, "decision": "allow",
            "findings": 0, "obligations": [], "policies": []});
        for (key, value) in more.as_object().unwrap() {
            record[key] = value.clone();
        }
        record.to_string()
    };
    let learn = |lines: &[String], exit| {
        desk.write("log.jsonl", lines.join("\n"));
        let run = ["policy", "learn", "demo-policies", "--audit", "log.jsonl"];
        desk.run(&run).expect_exit(exit).out
    };
    // Two of one role, for one of whom a column was masked.
    let plain = record("support-bot", json!({}));
    let masked = record(
        "globex-bot",
        json!({"obligations": ["mask main.customers.phone"]}),
    );
    let told = learn(&[plain.clone(), masked], 0);
    assert!(
        told.contains("[Column::\"main.customers.name\"].contains"),
        "{told}"
    );
    assert!(
        told.contains("[Column::\"main.customers.phone\"].contains"),
        "{told}"
    );
    assert!(!told.contains("\"main.customers.name\", Column"), "{told}");
    // Who saw no row is not given all.
    let none = record(
        "support-bot",
        json!({"obligations": ["no-rows main.customers"]}),
    );
    let told = learn(&[none], 0);
    assert!(!told.contains("resource is row::main::customers"), "{told}");
    // One answer without a cap: there is none that fits all.
    let capped = record("globex-bot", json!({"obligations": ["max-rows 3"]}));
    assert!(!learn(&[plain.clone(), capped.clone()], 0).contains("@max_rows"));
    assert!(learn(&[capped], 0).contains("@max_rows(\"3\")"));
    // What a person approved is no permit.
    let approved = record(
        "support-bot",
        json!({"approval": {"id": "x", "state": "used", "by": null}}),
    );
    let told = learn(&[approved], 1);
    assert!(told.contains("it ran by a person's approval"), "{told}");
    assert!(!told.contains("permit ("), "{told}");
}

/// The least: without any of the permits it is refused, and with them it is not.
#[test]
fn a_refusal_becomes_a_request_for_the_least_permits() {
    let desk = asked();
    let request =
        |more: &[&str]| desk.run(&[&["policy", "request", "demo-policies"], more].concat());
    let body = [
        "--as",
        "Agent::\"eve\"",
        "SELECT name FROM staff WHERE id = 1",
    ];
    let told = request(&body).expect_exit(0).out;
    for text in [
        "It is refused today: `name.unknown-relation`",
        "principal == Agent::\"eve\"",
        "Action::\"select\"",
        "[Column::\"main.staff.id\", Column::\"main.staff.name\"].contains",
        "newly permitted",
        "main.staff.name read",
    ] {
        assert!(told.contains(text), "{text}\n{told}");
    }
    // The rows of this table are permitted to all.
    for text in ["Action::\"see\"", "Action::\"call\""] {
        assert!(!told.contains(text), "{text}\n{told}");
    }
    let json = request(&[&body[..], &["--format", "json"]].concat());
    let json = json.expect_exit(0).json();
    let (policies, test) = (json["policies"].as_str(), json["test"].as_str());
    desk.write("demo-policies/requested.cedar", policies.unwrap());
    desk.write("demo-policies/tests/requested.toml", test.unwrap());
    let run = ["policy", "test", "demo-policies", "--filter", "requested"];
    let tested = desk.run(&run);
    assert!(tested.out.contains("1 passed"), "{}", tested.out);
    let permitted = request(&body).expect_exit(0).out;
    assert_eq!(permitted, "The policies permit it.\n");
    fs::remove_file(desk.path("demo-policies/requested.cedar")).unwrap();
    desk.run(&run).expect_exit(1);
    // What a forbid refuses, no permit gives.
    let told = request(&["--as", BOT, "SELECT * FROM credentials"])
        .expect_exit(1)
        .out;
    assert!(
        told.contains("Permits alone do not do") && told.contains("no.credentials"),
        "{told}"
    );
    // A refusal in the log, whose literals it does not hold.
    let log = fs::read_to_string(desk.path("audit.jsonl")).unwrap();
    let refused = log
        .lines()
        .find(|line| line.contains("credentials"))
        .unwrap();
    let seq = serde_json::from_str::<serde_json::Value>(refused).unwrap()["seq"].to_string();
    let told = request(&["--audit", "audit.jsonl", "--seq", &seq])
        .expect_exit(1)
        .out;
    assert!(told.contains("select * from credentials"), "{told}");
    request(&["--audit", "audit.jsonl", "--seq", "999"]).fails(2, &["has no record 999"]);
    request(&["--as", BOT]).fails(2, &["name a record"]);
    // Where rows are not permitted either, they are asked for.
    let told = request(&["--as", "Agent::\"eve\"", "SELECT count(*) FROM tickets"]);
    assert!(told.expect_exit(0).out.contains("Action::\"see\""));
}

/// Where a forbid withholds plain values, masked ones are asked for, else tokens: and of no other column.
#[test]
fn a_request_asks_for_masked_values_where_plain_ones_are_withheld() {
    let desk = Desk::empty();
    let forbid = |action: &str, mask: &str| {
        format!(
            "@id(\"no.{action}\") {mask} forbid (principal, action == Action::\"{action}\", resource == Column::\"main.people.email\");\n"
        )
    };
    desk.write(
        "p/tests/people.sql",
        "CREATE TABLE people (id INTEGER PRIMARY KEY, email TEXT);",
    );
    desk.policy(&forbid("read_plain", "@mask(\"email\")"));
    let ask = |more: &[&str]| {
        let request = [
            "policy",
            "request",
            "p",
            "--as",
            "Agent::\"eve\"",
            "SELECT id, email FROM people",
        ];
        desk.run(&[&request[..], more].concat())
    };
    let told = ask(&[]).expect_exit(0).out;
    for text in [
        "action == Action::\"read_plain\",\n  resource\n)\nwhen { [Column::\"main.people.id\"].contains(resource) };",
        "action == Action::\"read_masked\",\n  resource\n)\nwhen { [Column::\"main.people.email\"].contains(resource) };",
        "```diff\n+class Agent::\"eve\": Agent::\"eve\"\n",
        "+Agent::\"eve\": main.people.email read: mask email\n+Agent::\"eve\": main.people.id read: plain\n",
    ] {
        assert!(told.contains(text), "{text}\n{told}");
    }
    let json = ask(&["--format", "json"]).expect_exit(0).json();
    let lock = json["lock"].as_array().unwrap();
    assert!(
        lock.contains(&json!(
            "+Agent::\"eve\": main.people.email read: mask email"
        )),
        "{json}"
    );
    // They do, as the case of the request says.
    desk.write("p/requested.cedar", json["policies"].as_str().unwrap());
    desk.write("p/tests/requested.toml", json["test"].as_str().unwrap());
    desk.run(&["policy", "test", "p"]).expect_exit(0);
    std::fs::remove_file(desk.path("p/requested.cedar")).unwrap();
    std::fs::remove_file(desk.path("p/tests/requested.toml")).unwrap();
    desk.policy(&(forbid("read_plain", "") + &forbid("read_masked", "")));
    let told = ask(&[]).expect_exit(0).out;
    assert!(
        told.contains("action == Action::\"read_token\"") && !told.contains("read_masked\","),
        "{told}"
    );
    let all = forbid("read_plain", "") + &forbid("read_masked", "") + &forbid("read_token", "");
    desk.policy(&all);
    let told = ask(&[]).expect_exit(1).out;
    assert!(told.contains("Permits alone do not do"), "{told}");
}

/// A folder without policies over the tables of a shop on a server.
fn shop(dialect: &str) -> Desk {
    let desk = Desk::empty();
    desk.policy("");
    desk.write(&format!("p/tests/shop.{dialect}.sql"), TABLES);
    desk
}

const TABLES: &str = "CREATE TABLE customers (id integer PRIMARY KEY, name varchar(40), city varchar(40), salary integer);\n\
                      CREATE TABLE orders (id integer PRIMARY KEY, customer integer, total integer);\n";

const ASKED: [&str; 6] = [
    "SELECT name FROM customers WHERE id = 1",
    "SELECT name FROM customers WHERE id = 2",
    "SELECT city, count(*) FROM customers WHERE name IN ('a', 'b') GROUP BY city",
    "UPDATE orders SET total = 5 WHERE id = 7",
    "INSERT INTO orders (id, customer, total) VALUES (1, 2, 3), (2, 2, 4)",
    "START TRANSACTION",
];

fn learned_from(told: &str, schema: &str) {
    for text in [
        "Column::\"DB.customers.name\"",
        "Column::\"DB.customers.city\"",
        "Action::\"select\"",
        "Action::\"update\"",
        "Action::\"insert\"",
        "Column::\"DB.orders.total\"",
        " calls were neither queries nor changes of rows",
        "A server does not know in which sessions an agent read instructions to it",
    ] {
        let text = text.replace("DB", schema);
        assert!(told.contains(&text), "{text}\n{told}");
    }
    assert!(
        !told.contains("salary") && !told.contains("Not learned from"),
        "{told}"
    );
}

#[test]
fn policies_are_learned_from_what_postgresql_has_counted() {
    let preload = ["shared_preload_libraries=pg_stat_statements"];
    let server = PostgresServer::start_with(&preload).unwrap();
    let load = |name: &str, script: &str| server.load(name, script).unwrap().clean().unwrap();
    load(
        "postgres",
        "CREATE ROLE app LOGIN; CREATE ROLE other LOGIN; CREATE DATABASE shop; CREATE DATABASE bare;",
    );
    load("shop", TABLES);
    load(
        "shop",
        "CREATE SCHEMA extensions; CREATE EXTENSION pg_stat_statements SCHEMA extensions; \
         GRANT USAGE ON SCHEMA extensions TO PUBLIC; \
         GRANT SELECT, UPDATE, INSERT ON customers, orders TO app, other;",
    );
    for sql in ASKED {
        server.query_as("app", "shop", sql).unwrap();
    }
    server
        .query_as("other", "shop", "SELECT salary FROM customers")
        .unwrap();
    let desk = shop("postgres");
    let url = server.url("shop");
    let learn = ["policy", "learn", "p", "--counted", &url];
    let told = desk
        .run(&[&learn[..], &["--account", "app"]].concat())
        .expect_exit(0)
        .out;
    learned_from(&told, "public");
    assert!(told.contains("asked 2 times by Agent::\"app\""), "{told}");
    // For whom they are learned is the operator's to say; others' statements are learned from unless they are left out.
    let told = desk.run(&[&learn[..], &["--as", BOT]].concat()).out;
    assert!(
        told.contains(BOT) && told.contains("salary") && !told.contains("Agent::\"app\""),
        "{told}"
    );
    // Texts of other accounts are not everybody's.
    let theirs = server.url_as("other", "shop");
    let json = desk.run(&[
        "policy",
        "learn",
        "p",
        "--counted",
        &theirs,
        "--format",
        "json",
    ]);
    let unseen = json.expect_exit(0).json()["unseen"].to_string();
    assert!(
        unseen.contains("is hidden from `other`: grant it `pg_read_all_stats`"),
        "{unseen}"
    );
    // The name of an account is no place for a policy.
    let odd = "a\"\npermit (principal, action, resource); //";
    let role = format!("CREATE ROLE \"{}\" LOGIN", odd.replace('"', "\"\""));
    server.query("shop", &role).unwrap();
    server
        .query("shop", "GRANT SELECT ON customers TO PUBLIC")
        .unwrap();
    server
        .query_as(odd, "shop", "SELECT name FROM customers WHERE id = 3")
        .unwrap();
    desk.run(&learn)
        .fails(2, &["cannot be the name of a principal", "--account"]);
    let bare = server.url("bare");
    desk.run(&["policy", "learn", "p", "--counted", &bare])
        .fails(
            2,
            &["has no extension `pg_stat_statements`", "CREATE EXTENSION"],
        );
    desk.run(&["policy", "learn", "p", "--counted", "sqlite:demo.db"])
        .fails(2, &["SQLite counts no statements", "--audit FILE"]);
}

#[test]
fn policies_are_learned_from_what_mariadb_has_counted() {
    let server = MariaDbServer::start_with(&["--performance-schema=ON"]).unwrap();
    ask_mariadb(&server);
    let desk = shop("mysql");
    let url = server.url("shop");
    let learn = ["policy", "learn", "p", "--counted", &url];
    desk.run(&learn)
        .fails(2, &["the statements of all accounts as one", "--as"]);
    let told = desk
        .run(&[&learn[..], &["--as", BOT]].concat())
        .expect_exit(0)
        .out;
    learned_from(&told, "main");
    assert!(
        told.contains("Statements of all accounts are counted as one."),
        "{told}"
    );
    let silent = MariaDbServer::start_shared().unwrap();
    let name = silent.fresh_database("uncounted").unwrap();
    desk.run(&[
        "policy",
        "learn",
        "p",
        "--counted",
        &silent.url(&name),
        "--as",
        BOT,
    ])
    .fails(
        2,
        &["the server counts no statements", "performance_schema = ON"],
    );
}

/// Has a server count the statements, and no others of its database.
fn ask_mariadb(server: &Server) {
    server.create_database("shop").unwrap();
    server.load("shop", TABLES).unwrap().clean().unwrap();
    let empty = "TRUNCATE performance_schema.events_statements_summary_by_digest";
    server.query("mysql", empty).unwrap();
    for sql in ASKED {
        server.query("shop", sql).unwrap();
    }
}
