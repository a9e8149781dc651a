//! Pipelines that the manual shows, and what they rely on: forms for programs, and runs that begin anew.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::Stdio,
    sync::mpsc,
    thread,
    time::Duration,
};

use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::{
    desk::Desk,
    workbench::{READ, case, folder},
};

/// The texts of `run` and `entry` within a document.
fn list_commands(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                match (key.as_str(), inner) {
                    ("run" | "entry", Value::String(text)) => found.push(text.clone()),
                    (_, inner) => list_commands(inner, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|inner| list_commands(inner, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Each `palisade` line of the blocks names commands, options and values that there are.
#[test]
fn the_pipelines_of_the_manual_are_of_this_binary() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/policies/testing.md");
    let page = fs::read_to_string(page).unwrap();
    let desk = Desk::empty();
    let blocks: Vec<&str> = page.split("```yaml\n").skip(1).collect();
    assert_eq!(blocks.len(), 2);
    let mut lines = Vec::new();
    for block in blocks {
        let (text, _) = block.split_once("\n```").unwrap();
        let document = serde_norway::Deserializer::from_str(text).next().unwrap();
        let document = Value::deserialize(document).unwrap();
        let mut commands = Vec::new();
        list_commands(&document, &mut commands);
        let commands = commands.join("\n").replace("\\\n", " ");
        lines.extend(commands.lines().map(str::trim).map(str::to_owned));
    }
    lines.retain(|line| line.starts_with("palisade "));
    assert!(lines.len() >= 5, "{lines:?}");
    for line in lines {
        let line = line.split(['>', '|', ';']).next().unwrap();
        let line = line.split(" 2").next().unwrap();
        let mut words: Vec<&str> = line.split_whitespace().skip(1).collect();
        words.push("--help");
        // What it does not know stands before `--help`, and is refused.
        let answer = desk.run(&words);
        assert_eq!(answer.exit, 0, "{line}: {}", answer.err);
        let usage = format!("Usage: palisade {}", words[..2].join(" "));
        assert!(answer.out.contains(&usage), "{line}: {}", answer.out);
    }
    for part in ["policy test", "policy check", "policy diff"] {
        assert!(page.contains(&format!("palisade {part}")), "{part}");
    }
}

/// What becomes of locks and promotions is told to programs.
#[test]
fn locks_and_promotions_are_told_to_programs() {
    let desk = folder(&case("names", READ));
    let lock =
        |more: &[&str]| desk.run(&[&["policy", "lock", "p", "--format", "json"], more].concat());
    assert_eq!(lock(&[]).expect_exit(0).json()["state"], "written");
    let current = lock(&[]).expect_exit(0).json();
    assert_eq!(
        (&current["state"], &current["changed"]),
        (&json!("current"), &json!([]))
    );
    desk.policy("@id(\"all\") permit (principal == Agent::\"ann\", action, resource);");
    let stale = lock(&[]).expect_exit(1).json();
    assert_eq!(stale["state"], "stale");
    let changed = stale["changed"].to_string();
    assert!(
        changed.contains("+Agent::\\\"ann\\\": main.tea.price read: plain"),
        "{changed}"
    );
    assert_eq!(
        lock(&["--update"]).expect_exit(0).json()["state"],
        "written"
    );
    desk.shell("cp -r p candidate", 0, b"");
    let promote = ["policy", "promote", "candidate", "p", "--format", "json"];
    let told = desk.run(&promote).expect_exit(0).json();
    assert_eq!(
        (&told["promoted"], &told["diff"]["changes"]),
        (&json!(false), &json!([]))
    );
    let told = desk
        .run(&[&promote[..], &["--yes"]].concat())
        .expect_exit(0)
        .json();
    assert_eq!(told["promoted"], true);
    assert!(
        told["kept"].as_str().unwrap().ends_with("p.before"),
        "{told}"
    );
    desk.shell("cp -r p candidate2", 0, b"");
    desk.write(
        "candidate2/base.cedar",
        "forbid (principal, action, resource);",
    );
    let told = desk.run(&["policy", "promote", "candidate2", "p", "--format", "json"]);
    let told = told.expect_exit(1).json();
    assert_eq!(
        (&told["promoted"], &told["tests"]["failed"]),
        (&json!(false), &json!(1))
    );
}

/// `--watch` runs again once a file of the folder changes, and outlives files that are half-written.
#[test]
fn a_watched_folder_is_tested_again_after_a_change() {
    let desk = folder(&case("names", READ));
    let mut child = desk
        .command(env!("CARGO_BIN_EXE_palisade"))
        .args(["policy", "test", "p", "--watch"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let (send, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    let wait_for = |text: &str| {
        let mut seen = Vec::new();
        while !seen.iter().any(|line: &String| line.contains(text)) {
            match lines.recv_timeout(Duration::from_secs(60)) {
                Ok(line) => seen.push(line),
                Err(_) => return Err(format!("no `{text}` in {seen:?}")),
            }
        }
        Ok(())
    };
    let watched = wait_for("1 passed, 0 failed")
        .and_then(|()| wait_for("waiting for a change"))
        .and_then(|()| {
            desk.write(
                "p/tests/tea.toml",
                case("names", READ) + &case("more", READ),
            );
            wait_for("2 passed, 0 failed")
        })
        .and_then(|()| wait_for("waiting for a change"))
        .and_then(|()| {
            desk.write("p/tests/tea.toml", "[[case");
            wait_for("p/tests/tea.toml:1")
        })
        .and_then(|()| wait_for("waiting for a change"))
        .and_then(|()| {
            desk.policy("forbid (principal, action, resource);");
            desk.write("p/tests/tea.toml", case("names", READ));
            wait_for("0 passed, 1 failed")
        });
    child.kill().unwrap();
    child.wait().unwrap();
    watched.unwrap();
}
