//! Where an engine was not built in, its databases are refused by name. Others are looked for.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

/// Whether each engine is built in, its name, and a database of it that is not there.
const ENGINES: [(bool, &str, &str); 5] = [
    (cfg!(feature = "sqlite"), "SQLite", "sqlite:none.db"),
    (
        cfg!(feature = "postgres"),
        "PostgreSQL",
        "postgres://u@127.0.0.1:1/d",
    ),
    (
        cfg!(feature = "postgres"),
        "PostgreSQL",
        "postgresql://u@127.0.0.1:1/d",
    ),
    (
        cfg!(feature = "mysql"),
        "MySQL and MariaDB",
        "mysql://u@127.0.0.1:1/d",
    ),
    (
        cfg!(feature = "mysql"),
        "MySQL and MariaDB",
        "mariadb://u@127.0.0.1:1/d",
    ),
];

fn palisade(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_palisade"))
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn check(folder: &Path, args: &[&str], is_built_in: bool, name: &str) {
    let output = palisade(folder, args);
    let told = String::from_utf8(output.stderr).unwrap();
    let shown = format!("{args:?}: {told}");
    assert!(!output.status.success(), "{shown}");
    let refusal = format!("this palisade was built without {name}");
    assert_eq!(told.contains(&refusal), !is_built_in, "{shown}");
    assert_eq!(told.contains("--features full"), !is_built_in, "{shown}");
}

#[test]
fn an_engine_that_was_not_built_in_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    for (is_built_in, name, url) in ENGINES {
        for args in [
            &["query", url, "SELECT 1", "--as", r#"Agent::"a""#][..],
            &["execute", url, "SELECT 1", "--as", r#"Agent::"a""#],
            &[
                "check",
                "--catalog",
                url,
                "SELECT 1",
                "--as",
                r#"Agent::"a""#,
            ],
            &["serve", url, "--as", r#"Agent::"a""#],
            &["doctor", url, "--as", r#"Agent::"a""#],
        ] {
            check(folder.path(), args, is_built_in, name);
        }
    }
}

#[test]
fn a_configuration_is_refused_with_the_place() {
    let folder = tempfile::tempdir().unwrap();
    for (is_built_in, name, url) in ENGINES {
        if url.starts_with("sqlite:") {
            continue;
        }
        let text = format!(
            "principal = 'Agent::\"a\"'\n[grants]\nhosts = [\"127.0.0.1:1\"]\n[connections.one]\nurl = \"{url}\"\n"
        );
        fs::write(folder.path().join("palisade.toml"), text).unwrap();
        let args = [
            "query",
            "connection:one",
            "SELECT 1",
            "--config",
            "palisade.toml",
        ];
        check(folder.path(), &args, is_built_in, name);
    }
}

#[test]
fn the_demonstration_needs_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let output = palisade(folder.path(), &["demo"]);
    let is_built_in = cfg!(feature = "sqlite");
    assert_eq!(output.status.success(), is_built_in);
    assert_eq!(folder.path().join("demo.db").exists(), is_built_in);
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        told.contains("this palisade was built without SQLite"),
        !is_built_in,
        "{told}"
    );
}

#[test]
fn the_server_over_http_is_refused_where_it_was_not_built_in() {
    let folder = tempfile::tempdir().unwrap();
    let output = palisade(folder.path(), &["token", "list", "--tokens", "none.json"]);
    let told = String::from_utf8(output.stderr).unwrap();
    let refusal = "this palisade was built without the server over HTTP";
    assert_eq!(output.status.success(), cfg!(feature = "http"), "{told}");
    assert_eq!(told.contains(refusal), !cfg!(feature = "http"), "{told}");
}
