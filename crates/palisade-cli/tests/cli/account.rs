//! `palisade setup-sql` and `palisade doctor`: the account behind the gate.

use serde_json::{Value, json};

use crate::{
    serve::Client,
    shop::{BOT, Shop},
};

/// Makes the account that the policies need, and says what it is called.
fn make_account(shop: &Shop, policies: &[&str]) -> String {
    let role = format!("least_{}", shop.database);
    // By the superuser, who starts nothing, but may look.
    let url = shop.url_as("postgres");
    let mut arguments = vec!["setup-sql", &url, "--role", &role];
    arguments.extend(policies);
    let script = shop.desk.run(&arguments).expect_exit(0).out;
    shop.load(&script);
    role
}

/// Tables and columns of ours that a role may read.
fn readable(shop: &Shop, role: &str) -> String {
    shop.ask(&format!(
        "SELECT string_agg(a.attrelid::regclass || '.' || a.attname, ' ' ORDER BY a.attrelid::regclass::text, a.attname)
         FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE a.attnum > 0 AND c.relkind IN ('r', 'v') AND n.nspname IN ('public', 'hr')
           AND has_column_privilege('{role}', c.oid, a.attnum, 'SELECT')"
    ))
}

#[test]
fn the_account_may_read_what_principals_may_see_and_no_more() {
    let shop = Shop::new("least");
    shop.ask(
        "CREATE TABLE kinds (id int, label text); INSERT INTO kinds VALUES (1, 'odd');
         CREATE VIEW labels AS SELECT label FROM kinds;
         CREATE VIEW mine WITH (security_invoker = on) AS SELECT id FROM kinds",
    );
    shop.desk.write(
        "p/kinds.cedar",
        "permit (principal, action == Action::\"see\", resource is row::public::kinds);
         permit (principal, action == Action::\"see\", resource is row::public::labels);
         permit (principal, action == Action::\"see\", resource is row::public::mine);",
    );
    let role = make_account(&shop, &["--policies", "p"]);
    // Without the e-mail address, whose mask is a constant; and without the view `directory`, in whose place
    // its query runs, masked and filtered.
    assert_eq!(
        readable(&shop, &role),
        "customers.id customers.name customers.national_id customers.tenant_id \
         kinds.id kinds.label labels.label mine.id tickets.id tickets.subject tickets.tenant_id"
    );
    let url = shop.url_as(&role);
    let query = |sql: &str| {
        let run = [
            "query",
            &url,
            "--policies",
            "p",
            "--as",
            BOT,
            "--format",
            "json",
            sql,
        ];
        shop.desk.run(&run).expect_exit(0).json()["rows"].clone()
    };
    assert_eq!(
        query("SELECT * FROM customers WHERE email IS NULL"),
        json!([{"id": 1, "tenant_id": 1, "name": "Ada Brandt", "email": null, "national_id": "****4821"}])
    );
    assert_eq!(
        query("SELECT count(*) AS n FROM tickets"),
        json!([{"n": 2}])
    );
    assert_eq!(query("SELECT t FROM tickets AS t WHERE false"), json!([]));
    assert_eq!(
        query("SELECT name, email FROM directory"),
        json!([{"name": "Ada Brandt", "email": null}])
    );
    assert_eq!(
        query("SELECT label, id FROM labels, mine"),
        json!([{"label": "odd", "id": 1}])
    );
    // The server holds to it, too.
    for sql in [
        "SELECT email FROM customers",
        "SELECT * FROM credentials",
        "SELECT * FROM hr.salaries",
        "INSERT INTO tickets VALUES (9)",
    ] {
        let refused = shop.server.query_as(&role, &shop.database, sql);
        let told = refused.unwrap_err().to_string();
        assert!(
            told.contains("permission denied") || told.contains("read-only"),
            "{told}"
        );
    }
    let settings = "SELECT current_setting('default_transaction_read_only') || current_setting('statement_timeout')
                    || current_setting('idle_in_transaction_session_timeout')";
    assert_eq!(
        shop.server
            .query_as(&role, &shop.database, settings)
            .unwrap(),
        "on30s10s"
    );
    assert_eq!(
        shop.ask(&format!(
            "SELECT rolinherit, rolsuper, rolcreatedb, rolcreaterole, rolreplication, rolbypassrls, rolconnlimit
             FROM pg_roles WHERE rolname = '{role}'"
        )),
        "f\tf\tf\tf\tf\tf\t40"
    );
}

/// Policies that permit something only by a template, by a transport, or at a time, and tokens that last a day; of `schema`.
pub(crate) fn circumstances(shop: &Shop, schema: &str) {
    let text = r#"permit (principal, action in [Action::"run", Action::"see"], resource);
permit (principal, action in [Action::"select", Action::"read"], resource)
when { context has template && context.template == "subjects" };
permit (principal, action in [Action::"select", Action::"read"], resource in Table::"public.customers")
when { context has time && context.time < datetime("2999-01-01") };
permit (principal, action in [Action::"select", Action::"read"], resource in Table::"public.credentials")
when { context.transport == "cli" };
forbid (principal, action in Action::"read", resource == Column::"public.customers.tenant_id");
forbid (principal, action == Action::"see", resource is row::public::customers)
when { if context has time && context.time < datetime("2001-01-01") then false else resource.tenant_id == 2 };
forbid (principal, action == Action::"read_plain", resource == Column::"public.customers.national_id");
@mask("last(4)")
forbid (principal, action == Action::"read_plain", resource == Column::"public.customers.national_id")
unless { context has time && context.time < datetime("2001-01-01") };
forbid (principal, action == Action::"read_plain", resource == Column::"public.customers.email");
permit (principal, action == Action::"read_token", resource == Column::"public.customers.email");
"#;
    shop.desk.policy(
        &text
            .replace("\"public.", &format!("\"{schema}."))
            .replace("::public::", &format!("::{schema}::")),
    );
    shop.desk.write(
        "p/templates.toml",
        "[[template]]\nname = \"subjects\"\ndescription = \"Subjects.\"\nsql = \"SELECT subject FROM tickets WHERE id < 3\"\n",
    );
    shop.secret(
        "secret",
        "a secret that nobody can guess, of 32 bytes and more\n",
    );
}

/// A configuration with the connection `least`, of tokens that expire, and `power`, of who may look at everything.
pub(crate) fn configuration(shop: &Shop, power: &str, least: &str, more: &str) {
    let host = shop.server.url_as(power, &shop.database);
    let (_, host) = host.split_once('@').unwrap();
    let (host, _) = host.split_once('/').unwrap();
    shop.desk.write(
        "palisade.toml",
        format!(
            "token_secret_file = \"secret\"\ntoken_lifetime = \"1d\"\n\
             [grants]\nfiles = [\"secret\"]\nhosts = [\"{host}\"]\nenv = [\"SALES\"]\n\
             [connections.power]\nurl = \"{}\"\npolicies = \"p\"\n\
             [connections.least]\nurl = \"{}\"\npolicies = \"p\"\n{more}",
            shop.url_as(power),
            shop.url_as(least)
        ),
    );
}

/// What an account made for [`circumstances`] is asked, each of which needs a grant of its own.
pub(crate) fn asked_in_circumstances(run: impl Fn(&[&str]) -> Value) {
    assert_eq!(
        run(&["run", "connection:least", "subjects"])["rows"],
        json!([{"subject": "printer"}, {"subject": "screen"}])
    );
    let answer = run(&["query", "connection:least", "SELECT * FROM customers"]);
    let row = &answer["rows"][0];
    assert!(
        row["email"]
            .as_str()
            .is_some_and(|token| token.starts_with("tok_")),
        "{answer}"
    );
    assert_eq!(row["national_id"], "****4821", "{answer}");
    assert_eq!(row["name"], "Ada Brandt", "{answer}");
    assert_eq!(answer["rows"].as_array().map(Vec::len), Some(1), "{answer}");
    assert_eq!(
        run(&[
            "query",
            "connection:least",
            "SELECT api_key FROM credentials"
        ])["rows"],
        json!([{"api_key": "key-geheim"}])
    );
}

#[test]
fn the_account_may_read_what_is_permitted_in_any_circumstances() {
    let shop = Shop::new("circumstances");
    circumstances(&shop, "public");
    let role = format!("least_{}", shop.database);
    configuration(&shop, "postgres", &role, "");
    let config = ["--config", "palisade.toml"];
    let setup = ["setup-sql", "connection:power", "--role", &role];
    let script = shop.desk.run(&[&setup[..], &config].concat());
    let script = script.expect_exit(0).out;
    shop.load(&script);
    assert_eq!(
        readable(&shop, &role),
        "credentials.api_key credentials.customer_id credentials.id \
         customers.email customers.id customers.name customers.national_id customers.tenant_id \
         tickets.id tickets.note tickets.subject tickets.tenant_id"
    );
    asked_in_circumstances(|arguments| {
        let (command, rest) = arguments.split_at(1);
        let run = [command, &config, &["--format", "json"], rest].concat();
        shop.desk.run(&run).expect_exit(0).json()
    });
    // What is missing of it is seen.
    let missing = || {
        let run = ["doctor", "connection:least", "--format", "json"];
        let told = shop.desk.run(&[&run[..], &config].concat());
        let weak = told.json()["weaknesses"].clone();
        let weak = weak.as_array().unwrap().iter();
        weak.filter(|weak| weak["kind"] == "missing-grant")
            .map(|weak| weak["description"].to_string())
            .collect::<String>()
    };
    assert_eq!(missing(), "");
    shop.ask(&format!(
        "REVOKE SELECT (tenant_id) ON customers FROM {role}"
    ));
    assert!(missing().contains("tenant_id"), "{}", missing());
}

/// A migration has added a column, and its grant is missing: the rest of the table is served, and the log has the way out.
#[test]
fn a_column_that_is_not_granted_yet_is_not_there_yet() {
    let shop = Shop::new("migrated");
    let role = make_account(&shop, &["--policies", "p"]);
    let url = shop.url_as(&role);
    let serve = [&url, "--policies", "p", "--as", BOT];
    let mut client = Client::new(&shop.desk, &serve);
    let mut rows = |sql: &str| client.query(sql)["structuredContent"]["rows"].clone();
    let one = "SELECT subject FROM tickets ORDER BY subject";
    let before = rows(one);
    assert!(
        before.as_array().is_some_and(|rows| rows.len() == 2),
        "{before}"
    );
    shop.ask("ALTER TABLE tickets ADD COLUMN severity int DEFAULT 3");
    // The first statement over a table that has changed may have to be sent again.
    let begun = std::time::Instant::now();
    while rows(one) != before {
        assert!(begun.elapsed().as_secs() < 20, "the table is not served");
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    let all = rows("SELECT * FROM tickets");
    assert!(
        all[0].get("subject").is_some() && all[0].get("severity").is_none(),
        "{all}"
    );
    let grant = shop.desk.run(&[
        "setup-sql",
        &shop.url_as("postgres"),
        "--role",
        &role,
        "--policies",
        "p",
        "--update",
    ]);
    shop.load(&grant.expect_exit(0).out);
    let begun = std::time::Instant::now();
    while rows("SELECT max(severity) AS most FROM tickets") != json!([{"most": 3}]) {
        assert!(begun.elapsed().as_secs() < 30, "the column is not served");
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    client.end();
    // Whoever starts before the grant is told.
    shop.ask("ALTER TABLE tickets ADD COLUMN origin text");
    let log = Client::new(&shop.desk, &serve).end();
    assert!(
        log.contains("policies show `public.tickets.origin`, which the account may not read"),
        "{log}"
    );
}

#[test]
fn an_account_that_acts_as_another_does_not_start() {
    let shop = Shop::new("acting");
    let (role, other) = (&shop.reader, format!("other_{}", shop.database));
    shop.ask(&format!(
        "CREATE ROLE {other}; GRANT {other} TO {role}; ALTER ROLE {role} SET role = {other}"
    ));
    let url = shop.url();
    shop.desk
        .run(&["query", &url, "SELECT 1"])
        .fails(3, &["act as another role", "RESET role"]);
}

#[test]
fn a_table_without_a_visible_column_can_be_counted() {
    let shop = Shop::new("counted");
    shop.desk.policy(
        "permit (principal, action, resource);\n\
         @mask(\"null\") forbid (principal, action == Action::\"read_plain\", resource in Table::\"public.tickets\");",
    );
    let role = make_account(&shop, &["--policies", "p"]);
    let readable = readable(&shop, &role);
    assert!(
        readable.contains("tickets.id") && !readable.contains("tickets.subject"),
        "{readable}"
    );
    let url = shop.url_as(&role);
    let run = [
        "query",
        &url,
        "--policies",
        "p",
        "--format",
        "json",
        "SELECT count(*) AS n FROM tickets",
    ];
    assert_eq!(
        shop.desk.run(&run).expect_exit(0).json()["rows"],
        json!([{"n": 3}])
    );
}

/// What of the server's own relations every account may read is granted to none, and what else policies name is.
#[test]
fn relations_of_the_servers_own_that_policies_name_are_read() {
    let shop = Shop::new("own");
    let names = ["pg_stat_activity", "pg_authid"];
    let text: String = names
        .map(|name| {
            format!(
                "permit (principal, action == Action::\"select\", resource == Table::\"pg_catalog.{name}\");
                 permit (principal, action == Action::\"see\", resource is row::pg_catalog::{name});
                 permit (principal, action == Action::\"read_plain\", resource in Table::\"pg_catalog.{name}\");"
            )
        })
        .concat();
    let keep = "forbid (principal, action in Action::\"read\", resource == Column::\"pg_catalog.pg_authid.rolpassword\");";
    shop.desk.write("p/own.cedar", format!("{text}{keep}"));
    let role = make_account(&shop, &["--policies", "p"]);
    let url = shop.url_as(&role);
    let run = |command: &str, more: &[&str]| {
        let mut run = vec![command, &url, "--policies", "p", "--format", "json"];
        run.extend(more);
        shop.desk.run(&run)
    };
    let own = "SELECT usename FROM pg_stat_activity WHERE usename IS NOT NULL GROUP BY usename";
    let rows = run("query", &["--as", BOT, own]).expect_exit(0).json()["rows"].clone();
    assert!(rows.to_string().contains(&role), "{rows}");
    let roles = "SELECT count(*) AS n FROM pg_authid WHERE rolname = 'postgres'";
    let rows = run("query", &["--as", BOT, roles]).expect_exit(0).json()["rows"].clone();
    assert_eq!(rows, json!([{"n": 1}]));
    let password = "SELECT rolpassword FROM pg_authid";
    run("query", &["--as", BOT, password]).expect_exit(1);
    let refused = shop.server.query_as(&role, &shop.database, password);
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("permission denied")
    );
    // And the doctor wants no more than that.
    let found = run("doctor", &[]).expect_exit(0).json();
    assert_eq!(found["weaknesses"], json!([]));
    shop.ask(&format!("REVOKE SELECT (rolname) ON pg_authid FROM {role}"));
    let found = run("doctor", &[]).expect_exit(1).out;
    assert!(
        found.contains("cannot read rolname of pg_catalog.pg_authid"),
        "{found}"
    );
}

#[test]
fn the_doctor_finds_what_is_weak_and_says_what_mends_it() {
    let shop = Shop::new("doctor");
    let role = make_account(&shop, &["--policies", "p"]);
    let look = |user: &str, format: &str| {
        let url = shop.url_as(user);
        shop.desk.run(&["doctor", &url, "--format", format])
    };
    let kinds = |user: &str| -> Vec<String> {
        let found: Value = look(user, "json").expect_exit(1).json();
        assert_eq!(found["user"], user);
        assert_eq!(found["database"], shop.database);
        assert!(
            found["server_version"]
                .as_str()
                .unwrap()
                .starts_with(char::is_numeric)
        );
        found["weaknesses"]
            .as_array()
            .unwrap()
            .iter()
            .map(|weak| weak["kind"].as_str().unwrap().to_owned())
            .collect()
    };
    // What a new database grants to everybody is no fault of the account's.
    let told = look(&role, "text").expect_exit(0).out;
    for text in [
        "note: ",
        "as everybody may,",
        "REVOKE TEMPORARY ON",
        "Nothing is weak.",
    ] {
        assert!(told.contains(text), "`{text}` is not in\n{told}");
    }
    // What is its own is one, and no other account mends it.
    shop.ask(&format!("GRANT CREATE ON SCHEMA public TO {role}"));
    assert_eq!(kinds(&role), ["can-create"]);
    let told = look(&role, "text").expect_exit(1).out;
    assert!(!told.contains("setup-sql"), "{told}");
    let url = shop.url_as(&role);
    let served = shop.desk.run(&["serve", &url, "--policies", "p"]);
    let served = served.expect_exit(0).err;
    let warning = "may create objects in schema public";
    assert!(
        served.contains("WARN") && served.contains(warning),
        "{served}"
    );
    shop.ask(&format!("REVOKE CREATE ON SCHEMA public FROM {role}"));
    assert_eq!(
        kinds(&shop.reader),
        [
            "not-read-only",
            "no-timeout",
            "no-timeout",
            "no-connection-limit"
        ]
    );
    assert_eq!(kinds("postgres")[0], "superuser");
    shop.ask(&format!("GRANT DELETE ON tickets TO {}", shop.reader));
    assert_eq!(kinds(&shop.reader)[0], "can-write");
    let told = look(&shop.reader, "text").expect_exit(1).out;
    for text in [
        "as reader_",
        "PostgreSQL 1",
        "can-write: ",
        "may write to tickets",
        "REVOKE INSERT, UPDATE, DELETE, TRUNCATE ON tickets FROM PUBLIC,",
        "palisade setup-sql",
    ] {
        assert!(told.contains(text), "`{text}` is not in\n{told}");
    }
    // What policies show and the account cannot read.
    shop.ask(&format!("REVOKE SELECT (subject) ON tickets FROM {role}"));
    let url = shop.url_as(&role);
    let look_with = |exit| {
        let run = ["doctor", &url, "--policies", "p", "--format", "json"];
        let found = shop.desk.run(&run).expect_exit(exit).json();
        found["weaknesses"].as_array().unwrap().clone()
    };
    let run = ["doctor", &url, "--policies", "p"];
    let told = shop.desk.run(&run).expect_exit(1).out;
    let advice = format!("--policies p --role {role} --update` prints all that the policies need.");
    assert!(told.contains(&advice), "{told}");
    let weak = look_with(1).pop().unwrap();
    assert_eq!(weak["kind"], "missing-grant");
    assert!(
        weak["description"]
            .as_str()
            .unwrap()
            .contains("subject of public.tickets"),
        "{weak}"
    );
    shop.ask(weak["remedy"].as_str().unwrap());
    assert_eq!(look_with(0), [] as [Value; 0]);
    // Where no other account may, there is nothing to note.
    shop.ask(&format!(
        "REVOKE TEMPORARY ON DATABASE {} FROM PUBLIC",
        shop.database
    ));
    let told = look(&role, "text").expect_exit(0).out;
    assert!(
        told.ends_with("Nothing is weak.\n") && !told.contains("TEMPORARY"),
        "{told}"
    );
    let found = look(&role, "json").expect_exit(0).json();
    assert_eq!(found["weaknesses"], json!([]));
    let url = shop.url_as("nobody_there");
    shop.desk.run(&["doctor", &url]).fails(
        4,
        &[
            "as `nobody_there`",
            "the account could not log in",
            "a role `nobody_there`",
        ],
    );
}

/// A table that came later, and that policies permit, is granted by `--update`, and nothing that the account has is lost.
#[test]
fn an_account_is_granted_what_came_later() {
    let shop = Shop::new("later");
    let role = make_account(&shop, &["--policies", "p"]);
    let before = readable(&shop, &role);
    shop.ask("CREATE TABLE aaa_late (id int, label text); INSERT INTO aaa_late VALUES (1, 'new')");
    shop.desk.write(
        "p/late.cedar",
        "permit (principal, action in [Action::\"select\", Action::\"see\", Action::\"read\"], resource)
         when { resource == Table::\"public.aaa_late\" || resource in Table::\"public.aaa_late\" };
         permit (principal, action == Action::\"see\", resource is row::public::aaa_late);",
    );
    let sql = "SELECT label FROM aaa_late";
    let refused = shop.query_as(&role, sql).json();
    assert_eq!(refused["code"], "database.not-granted", "{refused}");
    let script = shop.grants("postgres", &role);
    assert!(!script.contains("CREATE ROLE"), "{script}");
    // Whoever logs in is meant, unless that is an administrator, or another is named.
    let update = |user: &str, more: &[&str]| {
        let url = shop.url_as(user);
        let run = ["setup-sql", &url, "--policies", "p", "--update"];
        shop.desk.run(&[&run[..], more].concat()).expect_exit(0).out
    };
    assert_eq!(update(&role, &[]), script);
    for (user, more, granted) in [
        ("postgres", &[][..], "palisade_reader"),
        (&role, &["--role", "other"], "other"),
    ] {
        let told = update(user, more);
        assert!(
            told.starts_with(&format!("-- What the account \"{granted}\" is granted")),
            "{told}"
        );
    }
    shop.load(&script);
    let answer = shop.query_as(&role, sql).expect_exit(0).json();
    assert_eq!(answer["rows"], json!([{"label": "new"}]));
    assert_eq!(
        readable(&shop, &role),
        format!("aaa_late.id aaa_late.label {before}")
    );
}

/// Who begins with an administrator's account is told how to come to one with which the server starts.
#[test]
fn the_first_folder_says_how_to_come_to_another_account() {
    let shop = Shop::new("begun");
    let url = shop.url_as("postgres");
    let told = shop.desk.run(&["init", &url, "begun"]).expect_exit(0).out;
    for text in [
        "`palisade serve` does not start with it:\n  - ",
        "is a superuser",
        "--policies begun/policies > account.sql\n  psql ",
        "\\password palisade_reader",
        "password_file = ",
        "//palisade_reader@",
        "Then give the database to a client",
    ] {
        assert!(told.contains(text), "`{text}` is not in\n{told}");
    }
    let json = ["init", &url, "begun", "--format", "json"];
    let json = shop.desk.run(&json).expect_exit(0).json();
    let command = json["strong_account"]["setup_sql"].as_str().unwrap();
    assert!(command.ends_with("--policies begun/policies"), "{command}");
    let text = std::fs::read_to_string(shop.desk.path("begun/palisade.toml")).unwrap();
    let (_, name) = text.split_once("[connections.").unwrap();
    let (name, _) = name.split_once(']').unwrap();
    let serve = ["serve", "--config", "begun/palisade.toml"];
    let command =
        format!("`palisade setup-sql connection:{name} --config begun/palisade.toml` prints");
    shop.desk.run(&serve).fails(3, &[&command]);
    let setup = format!("connection:{name}");
    let setup = ["setup-sql", &setup, "--config", "begun/palisade.toml"];
    let script = shop.desk.run(&setup).expect_exit(0).out;
    assert!(
        script.contains("CREATE ROLE \"palisade_reader\""),
        "{script}"
    );
    // Of another account there is nothing to say.
    let role = make_account(&shop, &["--policies", "begun/policies"]);
    let told = shop.desk.run(&["init", &shop.url_as(&role), "weak"]);
    let told = told.expect_exit(0).out;
    assert!(!told.contains("setup-sql"), "{told}");
}
