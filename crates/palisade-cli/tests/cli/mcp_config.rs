//! `palisade mcp-config`: what it prints starts a server, and what it writes keeps the rest.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};

use crate::desk::{Answer, BOT, Desk};

const CLIENTS: [&str; 8] = [
    "claude-desktop",
    "claude-code",
    "cursor",
    "vscode",
    "codex",
    "windsurf",
    "zed",
    "gemini-cli",
];

/// Where the entry of each client is.
fn entry(client: &str, text: &str) -> Value {
    let key = match client {
        "vscode" => "servers",
        "codex" => "mcp_servers",
        "zed" => "context_servers",
        _ => "mcpServers",
    };
    let all: Value = match client {
        "codex" => {
            let table: toml::Table = text.parse().unwrap();
            serde_json::to_value(table).unwrap()
        }
        _ => serde_json::from_str(text).unwrap(),
    };
    all[key]["palisade"].clone()
}

#[test]
fn what_is_printed_starts_a_server_from_any_folder() {
    let desk = Desk::new();
    let listed = desk.run(&["mcp-config", "--list"]).expect_exit(0).out;
    for client in CLIENTS {
        assert!(listed.contains(client), "{listed}");
        let arguments = ["sqlite:demo.db", "--policies", "demo-policies", "--as", BOT];
        let printed = desk.run(&[&["mcp-config", client][..], &arguments].concat());
        let printed = printed.expect_exit(0).out;
        let entry = entry(client, &printed);
        let words: Vec<&str> = entry["args"]
            .as_array()
            .unwrap()
            .iter()
            .map(|word| word.as_str().unwrap())
            .collect();
        // A model that has other servers too reads the fewer tools.
        assert!(
            words.windows(2).any(|pair| pair == ["--tools", "core"]),
            "{words:?}"
        );
        let mut command = Command::new(entry["command"].as_str().unwrap());
        command.args(&words).current_dir("/");
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "query", "arguments": {"sql": "SELECT count(*) AS n FROM customers"}, "_meta": meta,
        }});
        let answer = Answer::from_command(&mut command, format!("{call}\n").as_bytes());
        assert!(
            answer.expect_exit(0).out.contains("\\nn\\n4\\n"),
            "{client}"
        );
    }
}

#[test]
fn what_is_written_keeps_the_rest_and_a_copy() {
    let desk = Desk::new();
    let before = "{\n  // mine\n  \"mcpServers\": { \"other\": { \"command\": \"x\" } }\n}\n";
    desk.write("cursor.json", before);
    let write = |more: &[&str]| {
        let arguments = [
            "mcp-config",
            "cursor",
            "sqlite:demo.db",
            "--file",
            "cursor.json",
            "--write",
        ];
        desk.run(&[&arguments[..], more].concat())
    };
    assert!(write(&[]).expect_exit(0).out.contains("wrote cursor.json"));
    let read = |name: &str| fs::read_to_string(desk.path(name)).unwrap();
    assert_eq!(read("cursor.json.before-palisade-1"), before);
    let after = read("cursor.json");
    assert!(
        after.contains("// mine") && after.contains("\"other\""),
        "{after}"
    );
    // The same again changes nothing, another replaces its own entry alone.
    assert!(write(&[]).expect_exit(0).out.contains("has it already"));
    assert_eq!(read("cursor.json"), after);
    write(&["--writable"]).expect_exit(0);
    assert_eq!(read("cursor.json.before-palisade-2"), after);
    assert!(read("cursor.json").contains("--writable"));
    assert!(!Path::new(&desk.path("cursor.json.before-palisade-3")).exists());
    // What is not understood stays as it is.
    desk.write("cursor.json", "{\"mcpServers\": [");
    write(&[]).fails(2, &["is left as it is", "not JSON"]);
    assert_eq!(read("cursor.json"), "{\"mcpServers\": [");
}

/// The entry is what it is of a file that is there.
#[test]
fn a_file_that_is_missing_is_noted() {
    let desk = Desk::new();
    let print = |database: &str| desk.run(&["mcp-config", "cursor", database]).expect_exit(0);
    let (there, missing) = (print("sqlite:demo.db"), print("sqlite:no-such.db"));
    assert_eq!(there.out.replace("demo.db", "no-such.db"), missing.out);
    let note = "note: there is no file `no-such.db` yet";
    assert!(missing.err.contains(note), "{}", missing.err);
    assert!(
        !there.err.contains("note: there is no file"),
        "{}",
        there.err
    );
}

#[test]
fn no_secret_is_written_down() {
    let desk = Desk::empty();
    let run = |words: &[&str]| desk.run(&[&["mcp-config"][..], words].concat());
    run(&["cursor", "postgres://u:hunter2@h/d"]).fails(2, &["holds a password"]);
    run(&["cursor"]).fails(2, &["there is no database to serve"]);
    run(&["emacs", "sqlite:a.db"]).fails(2, &["claude-desktop", "gemini-cli"]);
    let url = "postgres://u@h/d";
    for (client, shown) in [
        ("claude-code", "\"SALES\": \"${SALES}\""),
        ("cursor", "\"SALES\": \"${env:SALES}\""),
        ("vscode", "\"SALES\": \"${input:SALES}\""),
        ("gemini-cli", "\"SALES\": \"$SALES\""),
        ("codex", "env_vars = [\"SALES\"]"),
    ] {
        let printed = run(&[client, url, "--password-env", "SALES"]).expect_exit(0);
        assert!(printed.out.contains(shown), "{}", printed.out);
    }
    let printed = run(&["zed", url, "--password-env", "SALES"]).expect_exit(0);
    assert!(
        printed.err.contains("hands a server no variables"),
        "{}",
        printed.err
    );
    // Those of a configuration are named too.
    desk.write(
        "c.toml",
        "[grants]\nenv = [\"HR\"]\n[connections.a]\nurl = \"sqlite:a.db\"\n",
    );
    let printed = run(&["codex", "--config", "c.toml"]).expect_exit(0);
    let of_one = ["cursor", "--config", "c.toml", "--as", BOT];
    run(&of_one).expect_exit(0);
    // Over several a server would not start with it.
    desk.write(
        "d.toml",
        "[connections.a]\nurl = \"sqlite:a.db\"\n[connections.b]\nurl = \"sqlite:b.db\"\n",
    );
    for option in ["--as", "--policies"] {
        let refused = run(&["cursor", "--config", "d.toml", option, BOT]);
        let told = format!("`{option}` is for one database, and several are served");
        refused.fails(2, &[&told]);
    }
    run(&["cursor", "connection:a", "--config", "d.toml", "--as", BOT]).expect_exit(0);
    assert!(
        printed.out.contains("env_vars = [\"HR\"]"),
        "{}",
        printed.out
    );
}
