//! Servers on two machines over one store in a PostgreSQL database.

use palisade_testkit::servers::{PostgresServer, Server};
use serde_json::{Value, json};

use crate::{
    desk::Desk,
    http::{self, Request},
    serve::Client,
};

const POLICIES: &str = r#"
permit (principal, action in [Action::"select", Action::"see", Action::"read", Action::"write"], resource);
permit (principal, action in [Action::"change", Action::"add"], resource);
@id("with-approval") @approval("required")
permit (principal, action == Action::"update", resource);
"#;

const CONFIG: [&str; 2] = ["--config", "palisade.toml"];

const CLOSE: &str = "UPDATE notes SET text = 'done' WHERE id = 1";

/// A machine whose server asks the database `name`, and keeps its state where the lines say.
fn machine(server: &Server, name: &str, approvals: &str) -> Desk {
    let desk = Desk::empty();
    desk.policy(POLICIES);
    desk.write(
        "state.key",
        "a secret that is the same on each of the machines\n",
    );
    let key = desk.path("state.key");
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(key, private).unwrap();
    let url = server.url(name);
    desk.write(
        "palisade.toml",
        format!(
            "policies = \"p\"\naudit = \"audit.jsonl\"\n[grants]\nhosts = [\"127.0.0.1:{}\"]\nfiles = [\"state.key\"]\n\
             [approvals]\n{approvals}\n[connections.desk]\nurl = \"{url}\"\nwritable = true\nacknowledge_superuser = true\n",
            server.port()
        ),
    );
    desk
}

fn body(answer: &Value) -> &Value {
    &answer["structuredContent"]
}

#[test]
fn what_waits_at_one_machine_is_approved_and_run_at_another() {
    let server = PostgresServer::start_shared().unwrap();
    let name = server.fresh_database("fleet").unwrap();
    let script = "CREATE TABLE notes (id integer PRIMARY KEY, text text); INSERT INTO notes VALUES (1, 'open'), (2, 'open');";
    server.load(&name, script).unwrap().clean().unwrap();
    let state = server.url(&server.fresh_database("state").unwrap());
    let lines = format!("state = \"{state}\"\nsecret_file = \"state.key\"");
    let machines = [0, 1].map(|_| machine(server, &name, &lines));
    let [mut one, mut two] = [0, 1].map(|at: usize| Client::new(&machines[at], &CONFIG));
    let execute = json!({"sql": CLOSE, "format": "json"});
    let refused = one.call("execute", &execute);
    assert_eq!(body(&refused)["code"], "approval.required", "{refused}");
    // The same request is known at the other machine, and waits once.
    let again = two.call("execute", &execute);
    assert_eq!(body(&again)["message"], body(&refused)["message"]);
    let list = [&["approvals", "--format", "json"][..], &CONFIG].concat();
    let waiting = machines[1].run(&list).expect_exit(0).lines();
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    let id = waiting[0]["id"].as_str().unwrap();
    let approve = |id: &str| {
        let approve = [&["approve", id][..], &CONFIG].concat();
        machines[1].run(&approve).expect_exit(0);
    };
    approve(id);
    let ran = two.call("execute", &execute);
    assert_eq!(body(&ran)["affected_rows"], 1, "{ran}");
    let used = one.call("execute", &execute);
    assert_eq!(body(&used)["code"], "approval.required", "{used}");
    // A change: proposed at the one, validated at the other, approved outside, kept at the one.
    let sql = "UPDATE notes SET text = 'seen' WHERE id = 2";
    let proposed = one.call("propose_change", &json!({"statements": [{"sql": sql}]}));
    let id = body(&proposed)["change"].as_str().unwrap().to_owned();
    let change = json!({"change": id});
    let validated = two.call("validate_change", &json!({"change": id, "format": "json"}));
    assert_eq!(body(&validated)["state"], "validated", "{validated}");
    let pending = one.call("commit_change", &change);
    assert_eq!(body(&pending)["code"], "approval.required", "{pending}");
    approve(&id);
    let kept = one.call("commit_change", &change);
    assert_eq!(body(&kept)["state"], "committed", "{kept}");
    let listed = two.call("list_receipts", &json!({}));
    assert_eq!(body(&listed)["receipts"][0]["change"], id, "{listed}");
    let verify = [&["ledger", "verify", "connection:desk"][..], &CONFIG].concat();
    machines[1].run(&verify).expect_exit(0);
    let texts = server.query(&name, "SELECT string_agg(text, ',' ORDER BY id) FROM notes");
    assert_eq!(texts.unwrap(), "done,seen");
    // Nothing of it stands in files beside.
    assert!(!machines[0].path("palisade.state.db").exists());
}

/// What a principal takes at one server is gone at the other within a second or two, also where the state is a form older.
#[test]
fn budgets_count_at_all_servers_together() {
    let server = PostgresServer::start_shared().unwrap();
    let name = server.fresh_database("fleet").unwrap();
    let kept = server.fresh_database("state").unwrap();
    let state = server.url(&kept);
    let budgets = "[budgets.minute]\nrows = 1000000\n[budgets.day]\nstatements = 4";
    let lines = format!("state = \"{state}\"\nsecret_file = \"state.key\"\n{budgets}");
    let machines = [0, 1].map(|_| machine(server, &name, &lines));
    machines[0]
        .run(&[&["approvals"][..], &CONFIG].concat())
        .expect_exit(0);
    let older = "DROP TABLE palisade_state.budgets, palisade_state.access_tokens; UPDATE palisade_state.form SET version = 4";
    server.query(&kept, older).unwrap();
    let [mut one, mut two] = [0, 1].map(|at: usize| Client::new(&machines[at], &CONFIG));
    let query = json!({"sql": "SELECT 1 AS one", "format": "json"});
    for _ in 0..3 {
        let answer = one.call("query", &query);
        assert_eq!(body(&answer)["row_count"], 1, "{answer}");
    }
    // That there are others is heard after the first statement.
    let answer = two.call("query", &query);
    assert_eq!(body(&answer)["row_count"], 1, "{answer}");
    let sum = "SELECT sum(day_statements) FROM palisade_state.budgets";
    let start = std::time::Instant::now();
    while server.query(&kept, sum).unwrap() != "4" {
        assert!(
            start.elapsed().as_secs() < 20,
            "{:?}",
            server.query(&kept, sum)
        );
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    // The one has told; it hears of the other when it is asked again, a second later at most.
    for client in [&mut two, &mut one] {
        let mut refused = client.call("query", &query);
        let asked = std::time::Instant::now();
        while body(&refused)["code"] != "limit.budget" {
            assert!(asked.elapsed().as_secs() < 10, "{refused}");
            std::thread::sleep(std::time::Duration::from_millis(300));
            refused = client.call("query", &query);
        }
        let message = body(&refused)["message"].as_str().unwrap();
        assert!(
            message.contains("4 statements a day is used up"),
            "{refused}"
        );
    }
    // Each was let through once or twice after that at most.
    let taken: u64 = server.query(&kept, sum).unwrap().parse().unwrap();
    assert!((4..=12).contains(&taken), "{taken}");
}

#[test]
fn a_database_of_state_is_granted_sealed_and_there() {
    let server = PostgresServer::start_shared().unwrap();
    let name = server.fresh_database("fleet").unwrap();
    let state = server.url(&server.fresh_database("state").unwrap());
    let other = state.replace("127.0.0.1", "127.0.0.2");
    for (lines, told) in [
        (
            format!("state = \"{state}\""),
            ["no secret is named", "openssl rand -hex 32"],
        ),
        (
            format!("state = \"{other}\"\nsecret_file = \"state.key\""),
            ["is not granted", "hosts = "],
        ),
        (
            "state = \"mysql://a@127.0.0.1:3306/s\"\nsecret_file = \"state.key\"".to_owned(),
            ["neither a file nor a PostgreSQL database", "postgres://"],
        ),
        (
            "state = \"a.db\"\nstate_password_file = \"state.key\"".to_owned(),
            ["a file has no password", "leave it out"],
        ),
        (
            format!(
                "state = \"{}\"\nsecret_file = \"state.key\"",
                state.replace('@', ":pw@")
            ),
            ["holds a password", "password"],
        ),
    ] {
        let desk = machine(server, &name, &lines);
        let refused = desk.run(&["config", "check", "palisade.toml"]);
        let all = format!("{}{}", refused.out, refused.err);
        assert_ne!(refused.exit, 0, "{lines}: {all}");
        assert!(told.iter().all(|told| all.contains(told)), "{lines}: {all}");
    }
    let nowhere = format!("127.0.0.1:{}", server.port());
    let lines = format!(
        "state = \"{}\"\nsecret_file = \"state.key\"",
        state.replace("/state", "/nosuch")
    );
    assert!(state.contains(&nowhere));
    let desk = machine(server, &name, &lines);
    let run = [&["changes", "list", "connection:desk"][..], &CONFIG].concat();
    desk.run(&run)
        .fails(2, &["cannot use the state's database", "palisade_state"]);
}

/// A token that is made at one machine lets in at all, and no longer once it is taken back at another, or the state is gone.
#[test]
fn access_tokens_count_at_all_servers() {
    let server = PostgresServer::start_shared().unwrap();
    let name = server.fresh_database("fleet").unwrap();
    let state = PostgresServer::start().unwrap();
    let lines = format!(
        "state = \"{}\"\nsecret_file = \"state.key\"\n[http]\nshare_tokens = true",
        state.url("postgres")
    );
    let machines = [0, 1].map(|_| machine(server, &name, &lines));
    for machine in &machines {
        let port = format!("hosts = [\"127.0.0.1:{}\"", server.port());
        let text = std::fs::read_to_string(machine.path("palisade.toml")).unwrap();
        let both = format!("{port}, \"127.0.0.1:{}\"", state.port());
        machine.write("palisade.toml", text.replace(&port, &both));
    }
    let token = |machine: &Desk, arguments: &[&str]| {
        let run = [&["token"][..], arguments, &CONFIG].concat();
        machine.run(&run).expect_exit(0)
    };
    let servers = [0, 1].map(|at: usize| http::Server::start(&machines[at]));
    let mut made = Vec::new();
    for kept in ["kept", "lost"] {
        let create = ["create", kept, "--as", "Agent::\"a\"", "--format", "json"];
        let told = token(&machines[0], &create).json();
        made.push(told["token"].as_str().unwrap().to_owned());
    }
    let create = ["token", "create", "kept", "--as", "Agent::\"b\""];
    let again = [&create[..], &CONFIG].concat();
    machines[1]
        .run(&again)
        .fails(2, &["there is a token `kept`"]);
    let query = Request::call("query", &json!({"sql": "SELECT 1 AS one"}));
    let becomes = |server: &http::Server, token: &str, status: u16| {
        let start = std::time::Instant::now();
        loop {
            let answer = server.send(&query.clone().bearer(token));
            if answer.status == status {
                return start.elapsed();
            }
            assert!(start.elapsed() < http::PATIENCE, "{answer:?}");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    };
    for server in &servers {
        for token in &made {
            becomes(server, token, 200);
        }
    }
    token(&machines[1], &["revoke", "lost"]);
    for server in &servers {
        let took = becomes(server, &made[1], 401);
        assert!(took.as_secs() < 5, "{took:?}");
        becomes(server, &made[0], 200);
    }
    let listed = token(&machines[0], &["list", "--format", "json"]).json();
    assert_eq!(listed["tokens"][0]["name"], "kept", "{listed}");
    assert_eq!(listed["tokens"].as_array().unwrap().len(), 1, "{listed}");
    assert!(!machines[0].path("access-tokens.json").exists());
    // Where it cannot be said whether a token was taken back, none lets in.
    drop(state);
    for server in &servers {
        becomes(server, &made[0], 503);
    }
}
