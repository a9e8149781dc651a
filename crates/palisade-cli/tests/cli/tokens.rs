//! The secret behind tokens: named in the configuration, granted there, and demanded where tokens are given.

use std::{fs, os::unix::fs::PermissionsExt as _};

use crate::desk::{Answer, Desk};

const TOKENS: &str = r#"permit (principal, action in [Action::"select", Action::"see", Action::"call"], resource);
permit (principal, action == Action::"read_plain", resource == Column::"main.customers.id");
permit (principal, action == Action::"read_token", resource == Column::"main.customers.email");
"#;

fn query(desk: &Desk, sql: &str) -> Answer {
    let config = ["query", "connection:desk", "--config", "palisade.toml"];
    desk.run(&[&config[..], &["--format", "json", sql]].concat())
}

#[test]
fn tokens_need_a_secret_that_is_granted() {
    let desk = Desk::new();
    desk.policy(TOKENS);
    let connection = "[connections.desk]\nurl = \"sqlite:demo.db\"\npolicies = \"p\"\n";
    desk.write("palisade.toml", connection);
    let sql = "SELECT email FROM customers WHERE id = 1";
    query(&desk, sql).fails(
        3,
        &[
            "p/base.cedar:3:1",
            "needs the operator's secret",
            "token_secret_env",
        ],
    );

    // So long that no span ends while this runs.
    let named = format!("token_secret_file = \"secret\"\ntoken_lifetime = \"365d\"\n{connection}");
    desk.write("palisade.toml", &named);
    query(&desk, sql).fails(3, &["is not granted", "under `[grants]` grants it"]);
    let granted = format!("{named}[grants]\nfiles = [\"secret\"]\n");
    desk.write("palisade.toml", &granted);
    desk.write("secret", "too short\n");
    fs::set_permissions(desk.path("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    query(&desk, sql).fails(3, &["at least 32 bytes"]);
    desk.write(
        "secret",
        "a secret that nobody can guess, of 32 bytes and more\n",
    );
    let answer = query(&desk, sql).expect_exit(0).json();
    let token = answer["rows"][0]["email"].as_str().unwrap().to_owned();
    assert!(token.starts_with("tok_"), "{answer}");
    assert_eq!(answer["columns"][0]["type"], "token", "{answer}");

    let found = query(
        &desk,
        &format!("SELECT id FROM customers WHERE email = '{token}'"),
    );
    assert_eq!(found.expect_exit(0).json()["rows"][0]["id"], 1);
    let refused = query(&desk, "SELECT id FROM customers WHERE email = 'x'");
    assert_eq!(refused.expect_exit(1).json()["code"], "token.foreign");
    // Spans of another length are others, and so are the tokens in them; that of a connection goes before.
    let shorter = granted.replace("policies = ", "token_lifetime = \"364d\"\npolicies = ");
    desk.write("palisade.toml", &shorter);
    let old = format!("SELECT id FROM customers WHERE email = '{token}'");
    assert_eq!(
        query(&desk, &old).expect_exit(1).json()["code"],
        "token.foreign"
    );
    // What is only decided about is decided as it would run.
    let words = [
        "check",
        "--catalog",
        "connection:desk",
        "--config",
        "palisade.toml",
    ];
    let check = |sql: &str| desk.run(&[&words[..], &["--format", "json", sql]].concat());
    let fresh = query(&desk, sql).expect_exit(0).json()["rows"][0]["email"].clone();
    let own = format!(
        "SELECT id FROM customers WHERE email = '{}'",
        fresh.as_str().unwrap()
    );
    check(&own).expect_exit(0);
    check(&old).expect_exit(1);
    for wrong in [
        "0m",
        "24",
        "1w",
        "-1h",
        "366d",
        "1.5h",
        "99999999999999999999d",
    ] {
        let wrong = granted.replace("365d", wrong);
        desk.write("palisade.toml", &wrong);
        query(&desk, sql).fails(
            3,
            &["palisade.toml:2:18", "is no lifetime of tokens", "\"24h\""],
        );
    }
    desk.write(
        "palisade.toml",
        format!("token_secret_env = \"S\"\n{granted}"),
    );
    query(&desk, sql).fails(3, &["the token secret is named twice"]);
}
