//! The files under `packaging/`, held to the binary: every command line is one of its own, every configuration loads, and what they
//! say of ports, paths, variables and versions agrees.

mod containers;
mod mcp;
mod systemd;

use std::{fs, path::PathBuf};

use serde_json::Value;

use crate::desk::Desk;

/// The version of the workspace.
const VERSION: &str = env!("CARGO_PKG_VERSION");

fn path(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging")).join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|why| panic!("{name}: {why}"))
}

fn read_json(name: &str) -> Value {
    serde_json::from_str(&read(name)).unwrap_or_else(|why| panic!("{name}: {why}"))
}

/// The documents of a YAML file.
fn read_yaml(name: &str) -> Vec<Value> {
    use serde::Deserialize as _;
    let text = read(name);
    serde_norway::Deserializer::from_str(&text)
        .map(|document| Value::deserialize(document).unwrap_or_else(|why| panic!("{name}: {why}")))
        .collect()
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().unwrap_or_else(|| panic!("{list}"));
    list.iter()
        .map(|text| text.as_str().unwrap().to_owned())
        .collect()
}

/// Has the binary read `arguments`, and do nothing: what it does not know stands before `--help`, and is refused.
fn check_arguments(arguments: &[String]) {
    let desk = Desk::empty();
    let mut all: Vec<&str> = arguments.iter().map(String::as_str).collect();
    all.push("--help");
    let answer = desk.run(&all);
    assert_eq!(answer.exit, 0, "{arguments:?}: {}", answer.err);
    assert!(answer.out.contains("Usage: palisade "), "{arguments:?}");
}

/// What a line of a shell gives `palisade`; quotes are those of the examples here.
fn split_words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (at, part) in line.split('\'').enumerate() {
        match at % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

/// Command lines of `palisade` that stand in comments, which go on over `\` at an end.
fn commands_of_comments(text: &str) -> Vec<Vec<String>> {
    let text = text.replace("\\\n#", " ");
    let lines = text.lines().filter(|line| line.starts_with('#'));
    let calls = lines.filter_map(|line| {
        let at = line.find("palisade token ")?;
        line.get(at..)
    });
    calls.map(|call| split_words(call).split_off(1)).collect()
}

/// The configuration of a folder of `packaging/`, beside whose folders `places` stand in for those of the image; what is checked
/// without opening anything.
fn check_configuration(name: &str, places: &[(&str, &str)]) -> Desk {
    let desk = Desk::empty();
    let mut text = read(name);
    for (there, here) in places {
        assert!(text.contains(there), "{name} has no `{there}`");
        text = text.replace(there, here);
    }
    desk.write("palisade.toml", text);
    desk
}

#[test]
fn every_version_is_that_of_the_workspace() {
    for (name, forms) in [
        ("Dockerfile", &["palisade:{} .", "image.version=\"{}\""][..]),
        ("compose.yaml", &["image: palisade:{}\n"]),
        ("kubernetes/kustomization.yaml", &["newTag: {}\n"]),
        ("mcp/manifest.json", &["\"version\": \"{}\""]),
        (
            "mcp/server.json",
            &[
                "\"version\": \"{}\"",
                "palisade:{}\"",
                "/v{}/palisade-mcp-{}-",
            ],
        ),
    ] {
        let text = read(name);
        for form in forms {
            let should = form.replace("{}", VERSION);
            assert!(text.contains(&should), "{name} has no `{should}`");
        }
    }
}

#[test]
fn the_commands_of_comments_are_ours() {
    let mut seen = 0;
    for name in [
        "compose.yaml",
        "kubernetes/kustomization.yaml",
        "systemd/palisade.service",
    ] {
        let commands = commands_of_comments(&read(name));
        assert!(!commands.is_empty(), "{name}");
        for command in commands {
            check_arguments(&command);
            seen += 1;
        }
    }
    assert!(seen >= 3, "{seen}");
}
