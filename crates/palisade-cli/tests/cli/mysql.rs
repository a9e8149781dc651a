//! Commands over real servers of MariaDB and MySQL.

use palisade_testkit::servers::{MariaDbServer, MySqlServer};
use serde_json::{Value, json};

use crate::{
    account,
    desk::{Answer, Desk},
    examples,
    serve::Client,
    shop::{BOT, Shop},
};

fn statements(shop: &Shop) {
    let answer = shop.json("query", "SELECT name, national_id, email FROM customers");
    assert_eq!(
        answer["rows"],
        json!([{"name": "Ada Brandt", "national_id": "****4821", "email": null}])
    );
    for (sql, code) in [
        ("SELECT api_key FROM credentials", "policy.forbidden"),
        ("SELECT * FROM mysql.user", "name.system-relation"),
        ("SELECT note FROM tickets", "name.unknown-column"),
        ("DELETE FROM tickets", "statement.not-allowed"),
        (
            "SELECT 1; DELETE FROM tickets",
            "syntax.multiple-statements",
        ),
        ("SELECT load_file('/etc/passwd')", "function.not-allowed"),
        ("SELECT /*!50000 1 */", "syntax.executable-comment"),
    ] {
        let answer = shop.json("query", sql);
        assert_eq!(answer["code"], code, "{sql}: {answer}");
    }
    assert_eq!(shop.ask("SELECT count(*) FROM tickets"), "3");
    // What the server itself says stays with the server.
    let answer = shop.json(
        "query",
        "SELECT (SELECT name FROM directory UNION SELECT 'x') AS a",
    );
    assert_eq!(answer["code"], "database.rejected", "{answer}");
    assert!(!answer.to_string().contains("Ada"), "{answer}");
    // What is computed has the type that the server says.
    let types = shop.types(
        "SELECT count(*) AS n, upper(name) AS u, 1.5 AS r, 1.5e0 AS f, CURRENT_DATE AS d, id FROM customers GROUP BY id, name",
    );
    let id = types.last().unwrap();
    assert!(id.starts_with("int"), "{id}");
    let computed = types.get(..5).unwrap();
    assert_eq!(computed, ["bigint", "varchar", "decimal", "double", "date"]);
    let sql = "SELECT subject FROM tickets WHERE id = ?";
    let answer = shop.answer_with("query", &["--params", "[2]"], sql);
    assert_eq!(
        answer.expect_exit(0).json()["rows"],
        json!([{"subject": "screen"}])
    );
    // Decisions need only the catalog, and of that any account's.
    for user in [shop.reader.as_str(), "root"] {
        let url = shop.url_as(user);
        for arguments in [
            &["check", "--catalog", &url][..],
            &["explain", "--catalog", &url],
        ] {
            let mut all = arguments.to_vec();
            all.extend(["--policies", "p", "--as", BOT, "--format", "json"]);
            all.push("SELECT national_id FROM customers");
            let answer = shop.desk.run(&all).expect_exit(0).json();
            assert_eq!(answer["decision"], "allow");
            assert!(answer["rewritten"].to_string().contains("tenant_id"));
        }
        let folder = ["--catalog", &url, "--policies", "p"];
        let told = shop
            .desk
            .run(&[&["policy", "schema"], &folder[..]].concat());
        assert!(
            told.expect_exit(0)
                .out
                .contains("entity customers in [Table, HasColumn, Tagged]"),
            "{url}"
        );
        let told = shop.desk.run(&[&["policy", "check"], &folder[..]].concat());
        assert!(told.expect_exit(0).out.contains("The policies load"));
    }
}

#[test]
fn a_statement_is_masked_filtered_and_refused() {
    statements(&Shop::mariadb("query"));
}

#[test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
fn a_statement_is_masked_filtered_and_refused_on_mysql_9() {
    statements(&Shop::mysql(MySqlServer::start_shared().unwrap(), "query"));
}

/// The account can read a database beside the connection's own: policies that name none must say so.
#[test]
fn permits_of_other_databases_are_told_of() {
    let shop = Shop::mariadb("beyond");
    let (url, own) = (shop.url(), shop.database.as_str());
    let hr = shop.ask("SELECT table_schema FROM information_schema.tables WHERE table_name = 'salaries' AND table_schema LIKE 'hr%' LIMIT 1");
    assert!(hr.starts_with("hr"), "{hr}");
    // The starter policies permit this database alone.
    let check = |more: &[&str]| {
        let run = [&["policy", "check", "--catalog", &url], more].concat();
        shop.desk.run(&run).expect_exit(0).out
    };
    let told = check(&[]);
    assert!(told.contains("warnings: 0"), "{told}");
    let explain = [
        "policy",
        "print-starter",
        "--explain",
        &url,
        "--format",
        "json",
    ];
    let shown = shop.desk.run(&explain).expect_exit(0).json();
    let level = |table: String, column: &str| {
        let mut columns = shown["columns"].as_array().unwrap().iter();
        let found = columns.find(|found| found["table"] == table && found["column"] == column);
        found.unwrap_or_else(|| panic!("{table}.{column}: {shown}"))["level"].clone()
    };
    assert_eq!(level(format!("{own}.customers"), "email"), "mask email");
    assert_eq!(level(format!("{own}.customers"), "id"), "plain");
    let others: Vec<_> = shown["columns"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|found| {
            !found["table"]
                .as_str()
                .unwrap()
                .trim_matches('`')
                .starts_with(own)
        })
        .map(|found| (found["table"].clone(), found["level"].clone()))
        .collect();
    assert!(
        !others.is_empty() && others.iter().all(|(_, level)| level == "hidden"),
        "{others:?}"
    );
    // Policies that permit all tables reach the other database as well.
    shop.desk.write(
        "all/base.cedar",
        "permit (principal, action in [Action::\"select\", Action::\"see\"], resource);\npermit (principal, action in Action::\"read\", resource);\n\
         permit (principal, action == Action::\"call\", resource);\n",
    );
    let expected = "this permits tables of other databases, which the account can read: `hr";
    let told = check(&["--policies", "all"]);
    assert!(told.contains(expected), "{told}");
    assert!(told.contains("all/base.cedar:1:1"), "{told}");
    let doctor = shop
        .desk
        .run(&["doctor", &url, "--policies", "all", "--format", "json"]);
    let notes = doctor.json()["notes"].to_string();
    assert!(notes.contains(expected), "{notes}");
    let served = shop.desk.run(&["serve", &url, "--policies", "all"]);
    assert!(served.err.contains(expected), "{}", served.err);
    shop.desk.write(
        "own/base.cedar",
        format!("permit (principal, action, resource in Schema::\"{own}\");\npermit (principal, action == Action::\"see\", resource);\n\
                 permit (principal, action == Action::\"call\", resource);\n"),
    );
    let told = check(&["--policies", "own"]);
    assert!(!told.contains("other databases"), "{told}");
}

#[test]
fn what_mariadb_has_otherwise_is_no_fault() {
    let shop = Shop::mariadb("otherwise");
    for sql in [
        "VALUES (-1, 'a b', NULL), (2, 'b', 3)",
        "SELECT * FROM (VALUES (-1, 'a b', NULL), (2, 'b', 3)) AS d",
        "WITH d AS (VALUES (-1, 'a b', NULL), (2, 'b', 3)) SELECT * FROM d",
    ] {
        let answer = shop.json("query", sql);
        assert_eq!(
            answer["rows"],
            json!([{"-1": -1, "a b": "a b", "NULL": null}, {"-1": 2, "a b": "b", "NULL": 3}]),
            "{sql}: {answer}"
        );
    }
    let answer = shop.json(
        "query",
        "WITH d (n) AS (VALUES (1), (1 + 1)) SELECT n FROM d",
    );
    assert_eq!(answer["rows"], json!([{"n": 1}, {"n": 2}]), "{answer}");
    for (sql, code) in [
        ("VALUES (1 + 1)", "syntax.unsupported"),
        ("VALUES ('')", "syntax.unsupported"),
        ("SELECT any_value(1)", "database.rejected"),
        ("SELECT regexp_like('a', 'a')", "database.rejected"),
        ("SELECT uuid_to_bin('x')", "database.rejected"),
    ] {
        let answer = shop.json("query", sql);
        assert_eq!(answer["code"], code, "{sql}: {answer}");
    }
}

#[test]
fn a_schema_as_text_is_enough_to_decide() {
    let desk = Desk::empty();
    desk.write(
        "shop.sql",
        "CREATE TABLE t (a int, `b c` text) ENGINE=InnoDB;",
    );
    let check = |sql: &str| {
        let run = [
            "check",
            "--dialect",
            "mysql",
            "--catalog",
            "shop.sql",
            "--format",
            "json",
            sql,
        ];
        desk.run(&run).json()
    };
    assert_eq!(check("SELECT `b c` FROM shop.t")["decision"], "allow");
    assert_eq!(check("SELECT c FROM t")["code"], "name.unknown-column");
}

#[test]
fn a_client_sees_what_policy_shows() {
    let shop = Shop::mariadb("serve");
    let url = shop.url();
    let mut client = Client::new(
        &shop.desk,
        &[&url, "--policies", "p", "--as", BOT, "--audit", "log.jsonl"],
    );
    let listed = client.call("list_tables", &json!({}));
    let tables: Vec<_> = listed["structuredContent"]["tables"]
        .as_array()
        .unwrap()
        .iter()
        .map(|table| format!("{} {}", table["name"].as_str().unwrap(), table["readable"]))
        .collect();
    assert_eq!(
        tables,
        [
            "credentials false",
            "customers true",
            "directory true",
            "tickets true"
        ]
    );
    let described = client.call("describe_table", &json!({"table": "tickets"}));
    assert!(!described.to_string().contains("note"), "{described}");
    let answer = client.call(
        "query",
        &json!({"sql": "SELECT subject FROM tickets WHERE id > ? ORDER BY id", "params": [1]}),
    );
    assert_eq!(
        answer["structuredContent"]["rows"],
        json!([{"subject": "screen"}])
    );
    let answer = client.query("SELECT SLEEP(1)");
    assert_eq!(
        answer["structuredContent"]["code"], "function.not-allowed",
        "{answer}"
    );
    // The server closed our sessions; the next statement gets a new one.
    shop.ask(&format!(
        "SELECT CONCAT('KILL ', id, ';') FROM information_schema.PROCESSLIST WHERE user = '{}'",
        shop.reader
    ))
    .lines()
    .for_each(|kill| drop(shop.ask(kill)));
    let answer = client.query("SELECT count(*) AS n FROM tickets");
    assert_eq!(
        answer["structuredContent"]["rows"],
        json!([{"n": 2}]),
        "{answer}"
    );
    let told = client.end();
    assert!(
        told.contains("serving") && !told.contains("printer"),
        "{told}"
    );
    let log = std::fs::read_to_string(shop.desk.path("log.jsonl")).unwrap();
    let statements = log
        .lines()
        .filter(|line| line.contains(r#""kind":"statement""#));
    assert_eq!(statements.count(), 3, "{log}");
}

/// Makes the account that the policies need, gives it a password, and says what it is called.
fn make_account(shop: &Shop) -> String {
    let role = format!("least_{}", shop.database);
    let url = shop.url_as("root");
    let run = ["setup-sql", &url, "--role", &role, "--policies", "p"];
    let script = shop.desk.run(&run).expect_exit(0).out;
    shop.load(&script);
    role
}

/// What policies name of the server's own relations is granted, and no fault of the account.
#[test]
fn relations_of_the_servers_own_that_policies_name_are_read() {
    let shop = Shop::mariadb("own");
    let names = [
        "information_schema::processlist",
        "performance_schema::setup_consumers",
    ];
    let text: String = names
        .map(|name| {
            let table = name.replace("::", ".");
            format!(
                "permit (principal, action == Action::\"select\", resource == Table::\"{table}\");
                 permit (principal, action == Action::\"see\", resource is row::{name});
                 permit (principal, action == Action::\"read_plain\", resource in Table::\"{table}\");"
            )
        })
        .concat();
    let keep = "forbid (principal, action in Action::\"read\", resource == Column::\"performance_schema.setup_consumers.enabled\");";
    shop.desk.write("p/own.cedar", format!("{text}{keep}"));
    let role = make_account(&shop);
    shop.ask(&format!("ALTER USER {role}@'127.0.0.1' ACCOUNT UNLOCK"));
    let url = shop.url_as(&role);
    let run = |command: &str, more: &[&str]| {
        let mut run = vec![command, &url, "--policies", "p", "--format", "json"];
        run.extend(more);
        shop.desk.run(&run)
    };
    let own = "SELECT user FROM information_schema.processlist GROUP BY user";
    let rows = run("query", &["--as", BOT, own]).expect_exit(0).json()["rows"].clone();
    assert_eq!(rows, json!([{"user": role}]));
    let consumers = "SELECT * FROM performance_schema.setup_consumers";
    let columns = run("query", &["--as", BOT, consumers])
        .expect_exit(0)
        .json()["columns"]
        .clone();
    assert_eq!(columns.as_array().unwrap().len(), 1, "{columns}");
    let refused = shop.server.query_as(&role, &shop.database, consumers);
    assert!(refused.unwrap_err().to_string().contains("denied"));
    let found = run("doctor", &[]).expect_exit(0).json();
    assert_eq!(found["weaknesses"], json!([]), "{found}");
    shop.ask(&format!(
        "REVOKE SELECT (NAME) ON performance_schema.setup_consumers FROM {role}@'127.0.0.1'"
    ));
    let found = run("doctor", &[]).expect_exit(1).out;
    assert!(
        found.contains("lacks SELECT on performance_schema.setup_consumers"),
        "{found}"
    );
}

/// The account that is printed calls what policies permit by name. What it does not see, a permit may name, and a forbid may not.
#[test]
fn functions_that_policies_name_are_called_by_the_account() {
    let shop = Shop::mariadb("named");
    shop.ask("CREATE FUNCTION net(a int) RETURNS int DETERMINISTIC RETURN a - 1");
    let permit = |function: &str| {
        format!(
            "permit (principal, action == Action::\"call\", resource == Function::\"{}.{function}\");\n",
            shop.database
        )
    };
    shop.desk.write("p/own.cedar", permit("net"));
    let role = make_account(&shop);
    shop.ask(&format!("ALTER USER {role}@'127.0.0.1' ACCOUNT UNLOCK"));
    let url = shop.url_as(&role);
    let run = |command: &str, more: &[&str]| {
        let mut run = vec![command, &url, "--policies", "p"];
        run.extend(more);
        shop.desk.run(&run)
    };
    let call = ["--as", BOT, "--format", "json", "SELECT net(3) AS n"];
    let rows = run("query", &call).expect_exit(0).json()["rows"].clone();
    assert_eq!(rows, json!([{"n": 2}]));
    shop.desk
        .write("p/own.cedar", permit("net") + &permit("orders_log"));
    run("query", &call).expect_exit(0);
    let forbid = permit("orders_log").replace("permit", "forbid");
    shop.desk.write("p/own.cedar", forbid);
    run("query", &call).fails(3, &["is not in the catalog", "GRANT EXECUTE ON FUNCTION"]);
}

fn least(shop: &Shop) {
    shop.ask(
        "CREATE TABLE kinds (id int, label varchar(10)); INSERT INTO kinds VALUES (1, 'odd');
         CREATE VIEW labels AS SELECT label FROM kinds;
         CREATE SQL SECURITY INVOKER VIEW mine AS SELECT id FROM kinds",
    );
    let see = |name: &str| {
        format!(
            "permit (principal, action == Action::\"see\", resource is row::{}::{name});\n",
            shop.database
        )
    };
    let text: String = ["kinds", "labels", "mine"].map(see).concat();
    shop.desk.write("p/kinds.cedar", text);
    let role = make_account(shop);
    let url = shop.url_as(&role);
    let run = |sql: &str| {
        let run = [
            "query",
            &url,
            "--policies",
            "p",
            "--as",
            BOT,
            "--format",
            "json",
            "--password-env",
            "SALES",
            sql,
        ];
        let mut command = shop.desk.command(env!("CARGO_BIN_EXE_palisade"));
        Answer::from_command(command.env("SALES", "geheim").args(run), b"")
    };
    // Without a password there is no login as it.
    shop.desk
        .run(&["query", &url, "SELECT 1"])
        .fails(4, &["ACCOUNT UNLOCK"]);
    shop.ask(&format!(
        "ALTER USER {role}@'127.0.0.1' IDENTIFIED BY 'geheim' ACCOUNT UNLOCK"
    ));
    let query = |sql: &str| run(sql).expect_exit(0).json()["rows"].clone();
    // The e-mail address, whose mask is a constant, it cannot read and need not.
    assert_eq!(
        query("SELECT * FROM customers WHERE email IS NULL"),
        json!([{"id": 1, "tenant_id": 1, "name": "Ada Brandt", "email": null, "national_id": "****4821"}])
    );
    assert_eq!(
        query("SELECT count(*) AS n FROM tickets"),
        json!([{"n": 2}])
    );
    assert_eq!(
        query("SELECT name, email FROM directory"),
        json!([{"name": "Ada Brandt", "email": null}])
    );
    assert_eq!(
        query("SELECT label, id FROM labels, mine"),
        json!([{"label": "odd", "id": 1}])
    );
    // What has no masks and filters is read as it is.
    assert_eq!(
        query("SELECT * FROM kinds"),
        json!([{"id": 1, "label": "odd"}])
    );
    // The server holds to it, too.
    shop.ask(&format!("ALTER USER {role}@'127.0.0.1' IDENTIFIED BY ''"));
    for sql in [
        "SELECT email FROM customers",
        "SELECT * FROM credentials",
        "SELECT note FROM tickets",
        "INSERT INTO tickets VALUES (9, 9, '', '')",
        "CREATE TABLE made (a int)",
        "SELECT 1 FROM mysql.user",
    ] {
        let refused = shop.server.query_as(&role, &shop.database, sql);
        let told = refused.unwrap_err().to_string();
        assert!(told.contains("denied"), "{told}");
    }
    // And the doctor finds nothing to mend.
    let doctor = |exit| {
        let run = ["doctor", &url, "--policies", "p", "--format", "json"];
        let found = shop.desk.run(&run).expect_exit(exit).json();
        assert_eq!(found["dialect"], "mysql");
        found["weaknesses"].as_array().unwrap().clone()
    };
    assert_eq!(doctor(0), [] as [Value; 0]);
    let told = shop.desk.run(&["doctor", &url]).expect_exit(0).out;
    assert!(told.contains("Nothing is weak."), "{told}");
    assert!(
        told.contains(": MariaDB 1") || told.contains(": MySQL 9"),
        "{told}"
    );
    // What policies show and the account cannot read.
    shop.ask(&format!(
        "REVOKE SELECT (subject) ON `{}`.tickets FROM {role}@'127.0.0.1'",
        shop.database
    ));
    let weak = doctor(1).pop().unwrap();
    assert_eq!(weak["kind"], "missing-grant");
    assert!(
        weak["description"].as_str().unwrap().contains("subject of"),
        "{weak}"
    );
    shop.ask(weak["remedy"].as_str().unwrap());
    assert_eq!(doctor(0), [] as [Value; 0]);
}

#[test]
fn the_account_may_read_what_is_permitted_in_any_circumstances() {
    let shop = Shop::mariadb("circumstances");
    account::circumstances(&shop, &shop.database);
    let role = format!("least_{}", shop.database);
    let password = "password_env = \"SALES\"\n";
    account::configuration(&shop, "root", &role, password);
    let run = |arguments: &[&str]| {
        let mut command = shop.desk.command(env!("CARGO_BIN_EXE_palisade"));
        let run = [arguments, &["--config", "palisade.toml"]].concat();
        Answer::from_command(command.env("SALES", "geheim").args(run), b"").expect_exit(0)
    };
    let script = run(&["setup-sql", "connection:power", "--role", &role]).out;
    let unlock = format!("ALTER USER {role}@'127.0.0.1' IDENTIFIED BY 'geheim' ACCOUNT UNLOCK");
    for script in [script, unlock] {
        shop.load(&script);
    }
    account::asked_in_circumstances(|arguments| {
        run(&[arguments, &["--format", "json"]].concat()).json()
    });
}

#[test]
fn the_account_may_read_what_principals_may_see_and_no_more() {
    least(&Shop::mariadb("least"));
}

#[test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
fn the_account_may_read_what_principals_may_see_and_no_more_on_mysql_9() {
    least(&Shop::mysql(MySqlServer::start_shared().unwrap(), "least"));
}

/// Without SHOW VIEW a view is no agent's, and the operator is told what grants it.
fn untold_views(shop: &Shop) {
    let (name, own) = (format!("plain_{}", shop.database), shop.database.as_str());
    let account = format!("{name}@'127.0.0.1'");
    shop.ask(&format!(
        "CREATE USER {account} WITH MAX_USER_CONNECTIONS 20; GRANT SELECT ON `{own}`.* TO {account}"
    ));
    let url = shop.url_as(&name);
    let listed = |policies: &[&str]| {
        let doctor = [&["doctor", &url, "--format", "json"][..], policies].concat();
        let found = shop.desk.run(&doctor).json();
        found["weaknesses"].as_array().unwrap().clone()
    };
    let serve = |policies: &[&str]| {
        let serve = [&["serve", &url][..], policies].concat();
        shop.desk.run(&serve).expect_exit(0).err
    };
    let (starter, named) = (&[][..], &["--policies", "p"][..]);
    let query = "SELECT name FROM directory";
    shop.query_as(&name, query).expect_exit(1);
    for policies in [starter, named] {
        let weak = listed(policies);
        assert_eq!(weak.len(), 1, "{weak:?}");
        assert_eq!(weak[0]["kind"], "missing-grant");
        let description = weak[0]["description"].as_str().unwrap();
        assert!(
            description.contains("lacks SHOW VIEW on") && description.contains("directory"),
            "{description}"
        );
        let remedy = weak[0]["remedy"].as_str().unwrap();
        let grant = format!("GRANT SELECT, SHOW VIEW ON `{own}`.`directory` TO ");
        assert!(remedy.starts_with(&grant), "{remedy}");
        let log = serve(policies);
        assert_eq!(log.matches("that no agent can use it").count(), 1, "{log}");
    }
    shop.ask(listed(named)[0]["remedy"].as_str().unwrap());
    for policies in [starter, named] {
        assert_eq!(listed(policies), [] as [Value; 0]);
        let log = serve(policies);
        assert!(!log.contains("SHOW VIEW"), "{log}");
    }
    shop.query_as(&name, query).expect_exit(0);
}

#[test]
fn views_that_the_account_is_not_told_of_are_named() {
    untold_views(&Shop::mariadb("untold"));
}

#[test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
fn views_that_the_account_is_not_told_of_are_named_on_mysql_9() {
    untold_views(&Shop::mysql(MySqlServer::start_shared().unwrap(), "untold"));
}

fn powers(shop: &Shop) {
    let account = |name: &str, grants: &str| {
        let name = format!("{name}_{}", shop.database);
        let account = format!("{name}@'127.0.0.1'");
        shop.ask(&format!(
            "CREATE USER {account} WITH MAX_USER_CONNECTIONS 20; GRANT SELECT ON `{}`.* TO {account}; {}",
            shop.database,
            grants.replace('@', &account)
        ));
        shop.url_as(&name)
    };
    let file = account("f", "GRANT FILE ON *.* TO @");
    let writer = account(
        "w",
        &format!("GRANT INSERT ON `{}`.tickets TO @", shop.database),
    );
    let role = format!("writers_{}", shop.database);
    let through_role = account(
        "r",
        &format!(
            "CREATE ROLE {role}; GRANT DELETE ON `{}`.tickets TO {role}; GRANT {role} TO @; SET DEFAULT ROLE {role} {} @",
            shop.database,
            if shop.server.version().contains("MariaDB") {
                "FOR"
            } else {
                "TO"
            },
        ),
    );
    for (url, told, key) in [
        (shop.url_as("root"), "", "acknowledge_superuser"),
        (file, "FILE", "acknowledge_superuser"),
        (writer, "INSERT", "acknowledge_write"),
        (through_role, "DELETE", "acknowledge_write"),
    ] {
        let query = ["query", &url, "SELECT 1"];
        shop.desk.run(&query).fails(
            3,
            &[
                told,
                "palisade setup-sql mysql://",
                &format!("{key} = true"),
            ],
        );
        shop.desk.run(&["serve", &url]).fails(3, &[told]);
        let found = shop
            .desk
            .run(&["doctor", &url, "--format", "json"])
            .expect_exit(1)
            .json();
        let kind = if key == "acknowledge_write" {
            "can-write"
        } else {
            "superuser"
        };
        let found = found["weaknesses"].to_string();
        assert!(found.contains(kind), "{found}");
        assert_eq!(
            found.contains("the active role that gives it"),
            told == "DELETE",
            "{found}"
        );
        let config = |line: &str| {
            let text = format!(
                "[grants]\nhosts = [\"127.0.0.1:{}\"]\n[connections.a]\nurl = \"{url}\"\n{line}\n",
                shop.server.port(),
            );
            shop.desk.write("c.toml", text);
            let sql = "SELECT count(*) AS n FROM tickets";
            let run = ["query", "connection:a", "--config", "c.toml", sql];
            shop.desk.run(&run)
        };
        config("").fails(3, &[key]);
        config(&format!("{key} = true")).expect_exit(0);
    }
}

#[test]
fn an_account_that_can_do_more_than_read_does_not_start() {
    powers(&Shop::mariadb("powers"));
}

#[test]
#[ignore = "needs MySQL 9: cargo xtask test runs it"]
fn an_account_that_can_do_more_than_read_does_not_start_on_mysql_9() {
    powers(&Shop::mysql(MySqlServer::start_shared().unwrap(), "powers"));
}

#[test]
fn urls_are_looked_at_before_anything_is_reached() {
    let desk = Desk::empty();
    let refused = |url: &str, told: &[&str]| {
        for arguments in [
            vec!["query", url, "SELECT 1"],
            vec!["serve", url],
            vec!["check", "--catalog", url, "SELECT 1"],
            vec!["explain", url, "SELECT 1"],
            vec!["doctor", url],
            vec!["setup-sql", url],
        ] {
            let answer = desk.run(&arguments);
            assert!(!answer.err.contains("geheim"), "{}", answer.err);
            answer.fails(2, told);
        }
    };
    let password = &["holds a password", "--password-env", "--password-file"];
    refused("mysql://ann:geheim@127.0.0.1/sales", password);
    refused("mariadb://ann:geheim@127.0.0.1/sales", password);
    refused("mysql://127.0.0.1/sales", &["names no user"]);
    refused("mysql://ann@127.0.0.1", &["names no database"]);
    refused("mysql://ann@127.0.0.1/sales?colour=red", &["`colour`"]);
    refused(
        "mysql://ann@127.0.0.1/sales?password=geheim",
        &["`password`"],
    );
    // There is no mode that gives way to plain text.
    refused(
        "mysql://ann@db.invalid/sales?ssl-mode=PREFERRED",
        &["gives way", "`ssl-mode=REQUIRED`"],
    );
    desk.run(&[
        "query",
        "mysql://ann@db.invalid/sales?ssl-mode=DISABLED",
        "SELECT 1",
    ])
    .fails(
        4,
        &["db.invalid:3306 as `ann`", "look whether the server runs"],
    );
}

#[test]
fn a_socket_of_this_machine_is_a_host() {
    let shop = Shop::mariadb("socket");
    let socket = shop.server.folder().join("s").display().to_string();
    shop.ask(&format!(
        "CREATE USER {0}@localhost; GRANT SELECT ON `{1}`.* TO {0}@localhost",
        shop.reader, shop.database
    ));
    let url = format!(
        "mysql://{}@localhost/{}?socket={socket}",
        shop.reader, shop.database
    );
    let query = |config: &str| {
        shop.desk.write("c.toml", config);
        shop.desk.run(&[
            "query",
            &url,
            "--config",
            "c.toml",
            "--format",
            "json",
            "SELECT 1 AS here",
        ])
    };
    query("").fails(3, &[&format!("`{socket}` is not granted")]);
    let granted = query(&format!("[grants]\nhosts = [\"{socket}\"]\n"));
    assert_eq!(granted.expect_exit(0).json()["rows"], json!([{"here": 1}]));
}

#[test]
fn passwords_come_by_name_and_go_nowhere_else() {
    let shop = Shop::mariadb("passwords");
    let right = "p@ss:w/rd?&%=# geheim";
    shop.ask(&format!(
        "ALTER USER {}@'127.0.0.1' IDENTIFIED BY '{right}'",
        shop.reader
    ));
    let url = shop.url();
    let query = |options: &[&str], variable: Option<&str>| {
        let mut command = shop.desk.command(env!("CARGO_BIN_EXE_palisade"));
        command.env_remove("SALES");
        if let Some(text) = variable {
            command.env("SALES", text);
        }
        let sql = "SELECT count(*) AS n FROM tickets";
        command.args(["query", &url, "--format", "json", sql]);
        let answer = Answer::from_command(command.args(options), b"");
        let told = format!("{}{}", answer.out, answer.err);
        assert!(!told.contains("geheim"), "{told}");
        answer
    };
    query(&[], None).fails(4, &["--password-env"]);
    let answer = query(&["--password-env", "SALES"], Some(right)).expect_exit(0);
    assert_eq!(answer.json()["rows"], json!([{"n": 3}]));
    query(&["--password-env", "SALES"], Some("wrong geheim"))
        .fails(4, &["what `SALES` holds is not the password"]);
    shop.secret("secret", &format!("{right}\n"));
    query(&["--password-file", "secret"], None).expect_exit(0);
    // A server that is asked for long shows it neither to `ps` nor in its log.
    let mut client = Client::new(&shop.desk, &[&url, "--password-file", "secret"]);
    let shown = client.command_line();
    assert!(
        shown.contains("secret") && !shown.contains("geheim"),
        "{shown}"
    );
    assert_eq!(client.query("SELECT 1 AS a")["isError"], false);
    let told = client.end();
    assert!(!told.contains("geheim"), "{told}");
}

#[test]
fn connections_are_encrypted_as_the_url_says() {
    let desk = Desk::empty();
    let (ours, theirs) = (crate::tls::authority(), crate::tls::authority());
    let (certificate, key) = crate::tls::signed(&ours, "127.0.0.1");
    desk.write("ours.crt", ours.pem());
    desk.write("theirs.crt", theirs.pem());
    // The server is another account, and temporary folders are their owner's.
    let folder = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .tempdir()
        .unwrap();
    let path = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let server = MariaDbServer::start_with(&[
        &format!("--ssl-cert={}", path("server.crt", &certificate)),
        &format!("--ssl-key={}", path("server.key", &key)),
    ])
    .unwrap();
    let bare = MariaDbServer::start_shared().unwrap();
    let accounts =
        "CREATE USER tls_ann@'127.0.0.1'; GRANT SELECT ON mysql.db TO tls_ann@'127.0.0.1'";
    server.query("mysql", accounts).unwrap();
    server
        .query("mysql", "ALTER USER tls_ann@'127.0.0.1' REQUIRE SSL")
        .unwrap();
    bare.query("mysql", accounts).unwrap();
    let ask_at = |url: &str, options: &str| {
        let url = format!("{url}?{options}");
        desk.run(&["query", &url, "--format", "json", "SELECT 1 AS one"])
    };
    // A server that cannot encrypt is not talked to in the clear.
    for options in ["ssl-mode=REQUIRED", "ssl-ca=ours.crt"] {
        ask_at(&bare.url_as("tls_ann", "mysql"), options).fails(4, &["ssl-mode=DISABLED"]);
    }
    let ask = |options: &str| ask_at(&server.url_as("tls_ann", "mysql"), options);
    for options in [
        "ssl-mode=REQUIRED",
        "ssl-ca=ours.crt",
        "ssl-mode=verify_identity&ssl-ca=ours.crt",
    ] {
        let answer = ask(options).expect_exit(0);
        assert_eq!(answer.json()["rows"], json!([{"one": 1}]), "{options}");
    }
    ask("ssl-ca=theirs.crt").fails(4, &["certificate", "`ssl-ca=FILE`"]);
    ask("ssl-mode=DISABLED").fails(4, &["tls_ann"]);
    ask("ssl-ca=nowhere.crt").fails(3, &["nowhere.crt"]);
}

#[test]
fn the_examples_of_the_help_run_on_a_server() {
    let shop = Shop::mariadb("examples");
    shop.secret("sales.password", "x\n");
    shop.ask(&format!(
        "ALTER USER {}@'127.0.0.1' IDENTIFIED BY 'x'",
        shop.reader
    ));
    for command in ["query", "serve", "doctor", "setup-sql"] {
        let help = shop.desk.run(&[command, "--help"]).expect_exit(0).out;
        let examples = examples(&help);
        let mut run = 0;
        for line in examples.iter().filter(|line| line.contains("mysql://")) {
            let line = line
                .replace("mysql://palisade_reader@localhost:3306/sales", &shop.url())
                .replace("mysql://root@localhost:3306/sales", &shop.url_as("root"));
            let script = format!("export SALES_PASSWORD=x; {line}");
            shop.desk.shell(&script, 0, b"").expect_exit(0);
            run += 1;
        }
        assert!(run > 0, "{help}");
    }
}

/// A table that came later is granted by `--update`.
#[test]
fn an_account_is_granted_what_came_later() {
    let shop = Shop::mariadb("later");
    let role = make_account(&shop);
    shop.ask(&format!("ALTER USER {role}@'127.0.0.1' ACCOUNT UNLOCK"));
    shop.ask("CREATE TABLE late (id int, label varchar(9))");
    shop.ask("INSERT INTO late VALUES (1, 'new')");
    let database = shop.database.clone();
    shop.desk.write(
        "p/late.cedar",
        format!(
            "permit (principal, action in [Action::\"select\", Action::\"read\"], resource)
             when {{ resource == Table::\"{database}.late\" || resource in Table::\"{database}.late\" }};
             permit (principal, action == Action::\"see\", resource is row::{database}::late);"
        ),
    );
    let script = shop.grants("root", &role);
    assert!(!script.contains("CREATE USER"), "{script}");
    shop.load(&script);
    let answer = shop.query_as(&role, "SELECT label FROM late");
    let answer = answer.expect_exit(0).json();
    assert_eq!(answer["rows"], json!([{"label": "new"}]));
}
