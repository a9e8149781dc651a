//! Tokens of columns through relays: they belong to a session of the broker.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::{Value, json};

use crate::{
    broker::{Broker, relay_command, status, wait_for},
    desk::Desk,
    serve::Client,
};

const POLICIES: &str = r#"permit (principal, action in [Action::"select", Action::"see", Action::"call"], resource);
permit (principal, action == Action::"read_plain", resource == Column::"main.customers.id");
permit (principal, action == Action::"read_plain", resource == Column::"main.tickets.id");
permit (principal, action == Action::"read_token", resource == Column::"main.customers.email");
permit (principal, action == Action::"read_token", resource == Column::"main.customers.name");
permit (principal, action == Action::"read_token", resource == Column::"main.tickets.subject");
"#;

const EMAIL: &str = "SELECT email FROM customers WHERE id = 1";

fn token(client: &mut Client, sql: &str, column: &str) -> String {
    let answer = client.query(sql);
    let value = &answer["structuredContent"]["rows"][0][column];
    let token = value.as_str().unwrap_or_else(|| panic!("{answer}"));
    assert!(token.starts_with("tok_"), "{answer}");
    token.to_owned()
}

/// Whether the customer is found by a token, as a literal and as a parameter alike; otherwise it is refused with its reason.
#[track_caller]
fn is_found(client: &mut Client, column: &str, token: &str) -> bool {
    let sql = format!("SELECT id FROM {column} = ");
    let literal = json!({"sql": format!("{sql}'{token}'")});
    let parameter = json!({"sql": format!("{sql}?"), "params": [token]});
    let found = [literal, parameter].map(|arguments| {
        let answer = client.call("query", &arguments);
        if answer["isError"] == false {
            assert_eq!(answer["structuredContent"]["rows"][0]["id"], 1, "{answer}");
            return true;
        }
        assert_eq!(
            answer["structuredContent"]["code"], "token.foreign",
            "{answer}"
        );
        assert!(answer.to_string().contains("in this session"), "{answer}");
        false
    });
    let [literal, parameter] = found;
    assert_eq!(literal, parameter);
    literal
}

#[test]
fn tokens_belong_to_a_session_of_the_broker() {
    let desk = Desk::new();
    desk.policy(POLICIES);
    desk.write(
        "secret",
        "a secret that nobody can guess, of 32 bytes and more\n",
    );
    fs::set_permissions(desk.path("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    desk.write(
        "palisade.toml",
        "policies = \"p\"\ntoken_secret_file = \"secret\"\ntoken_lifetime = \"365d\"\n\
         [grants]\nfiles = [\"secret\"]\n\
         [broker]\nprincipal = 'Agent::\"a\"'\n\
         [broker.enrolments.ci]\nprincipal = 'Agent::\"ci\"'\n\
         [connections.desk]\nurl = \"sqlite:demo.db\"\n",
    );
    let mut broker = Broker::start(&desk);
    let start = |arguments: &[&str]| Client::start(&mut relay_command(&desk, arguments));
    let own = ["--secret", "broker/secret", "--resume", "session"];
    let mut first = start(&own);
    let mut second = start(&["--secret", "broker/secret"]);
    let mut other = start(&["--secret", "broker/enrolments/ci"]);
    let email = "customers WHERE email";
    let mine = token(&mut first, EMAIL, "email");
    // The same value, in the same session and in others.
    assert_eq!(token(&mut first, EMAIL, "email"), mine);
    let theirs = token(&mut second, EMAIL, "email");
    let of_ci = token(&mut other, EMAIL, "email");
    assert!(mine != theirs && mine != of_ci && theirs != of_ci);
    assert!(is_found(&mut first, email, &mine));
    assert!(is_found(&mut second, email, &theirs));
    // Of another session, of another principal, and of another column and table.
    assert!(!is_found(&mut second, email, &mine));
    assert!(!is_found(&mut first, email, &theirs));
    assert!(!is_found(&mut other, email, &mine));
    assert!(!is_found(&mut first, email, &of_ci));
    let name = token(
        &mut first,
        "SELECT name FROM customers WHERE id = 1",
        "name",
    );
    assert!(is_found(&mut first, "customers WHERE name", &name));
    assert!(!is_found(&mut first, email, &name));
    assert!(!is_found(&mut first, "customers WHERE name", &mine));
    let subject = token(
        &mut first,
        "SELECT subject FROM tickets WHERE id = 1",
        "subject",
    );
    assert!(is_found(&mut first, "tickets WHERE subject", &subject));
    assert!(!is_found(&mut first, email, &subject));
    assert!(!is_found(&mut first, "tickets WHERE subject", &mine));

    // The old ones work after the relay was killed and started anew, and after the broker was.
    first.kill();
    let mut first = start(&own);
    assert!(is_found(&mut first, email, &mine));
    broker.kill();
    let _broker = Broker::start(&desk);
    let are_back = |told: &Value| told["connections"] == 3;
    wait_for(|| are_back(&status(&desk)));
    assert!(is_found(&mut first, email, &mine));
    assert!(is_found(&mut second, email, &theirs));
    assert!(!is_found(&mut second, email, &mine));
    assert_eq!(token(&mut first, EMAIL, "email"), mine);
    // A session that is not resumed is another.
    second.kill();
    let mut third = start(&["--secret", "broker/secret"]);
    assert!(!is_found(&mut third, email, &theirs));
}
