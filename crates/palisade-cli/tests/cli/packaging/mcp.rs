//! The bundle for desktop clients, and the entry of the registry of MCP servers.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{
    desk::Desk,
    packaging::{check_arguments, read_json, texts},
};

fn keys(value: &Value) -> Vec<&str> {
    let object = value.as_object().unwrap_or_else(|| panic!("{value}"));
    object.keys().map(String::as_str).collect()
}

/// Each key of `value` is one of these; of them, the first ones are there.
fn check_keys(value: &Value, required: &[&str], optional: &[&str]) {
    let found = keys(value);
    for key in required {
        assert!(found.contains(key), "`{key}` is missing: {value}");
    }
    for key in found {
        let is_known = required.contains(&key) || optional.contains(&key);
        assert!(is_known, "`{key}` is no key of the format: {value}");
    }
}

/// Names in `${…}` of a text.
fn variables(text: &str) -> BTreeSet<&str> {
    text.split("${")
        .skip(1)
        .filter_map(|rest| rest.split('}').next())
        .collect()
}

/// As `manifest_version` 0.3 has it.
#[test]
fn the_bundle_s_manifest_is_one() {
    let manifest = read_json("mcp/manifest.json");
    check_keys(
        &manifest,
        &[
            "manifest_version",
            "name",
            "version",
            "description",
            "author",
            "server",
        ],
        &[
            "display_name",
            "long_description",
            "license",
            "keywords",
            "tools_generated",
            "user_config",
            "compatibility",
        ],
    );
    assert_eq!(manifest["manifest_version"], "0.3");
    check_keys(&manifest["author"], &["name"], &["email", "url"]);
    let server = &manifest["server"];
    check_keys(server, &["type", "entry_point", "mcp_config"], &[]);
    assert_eq!(server["type"], "binary");
    let config = &server["mcp_config"];
    check_keys(config, &["command"], &["args", "env", "platform_overrides"]);
    let command = format!("${{__dirname}}/{}", server["entry_point"].as_str().unwrap());
    assert_eq!(config["command"], command);
    // Each value that is asked for is used, and no other.
    let text = config.to_string();
    let mut used = variables(&text);
    assert!(used.remove("__dirname"));
    let asked: BTreeSet<String> = keys(&manifest["user_config"])
        .into_iter()
        .map(|key| format!("user_config.{key}"))
        .collect();
    assert_eq!(used, asked.iter().map(String::as_str).collect());
    for option in manifest["user_config"].as_object().unwrap().values() {
        check_keys(
            option,
            &["type", "title", "description"],
            &["required", "default", "sensitive"],
        );
    }
    assert_eq!(manifest["user_config"]["password"]["sensitive"], true);
    check_arguments(&texts(&config["args"]));
}

/// A client starts the bundle's command with what it asked for.
#[test]
fn the_bundle_s_command_serves() {
    let manifest = read_json("mcp/manifest.json");
    let config = &manifest["server"]["mcp_config"];
    let desk = Desk::new();
    // A connection without a password takes none, though the variable is there and empty.
    desk.write(
        "palisade.toml",
        "[connections.desk]\nurl = \"sqlite:demo.db\"\n",
    );
    let file = desk.path("palisade.toml");
    let arguments: Vec<String> = texts(&config["args"])
        .into_iter()
        .map(|word| word.replace("${user_config.config}", file.to_str().unwrap()))
        .collect();
    let mut command = desk.command(env!("CARGO_BIN_EXE_palisade"));
    command.args(&arguments).env("PALISADE_PASSWORD", "");
    let discover = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}"#;
    let answer =
        crate::desk::Answer::from_command(&mut command, format!("{discover}\n").as_bytes());
    assert_eq!(answer.exit, 0, "{}", answer.err);
    assert!(answer.out.contains("\"serverInfo\""), "{}", answer.out);
}

/// As the schema of 2025-12-11 has it, with what the registry asks beyond it.
#[test]
fn the_registry_s_entry_is_one() {
    let entry = read_json("mcp/server.json");
    check_keys(
        &entry,
        &["$schema", "name", "description", "version"],
        &["title", "repository", "packages"],
    );
    let name = entry["name"].as_str().unwrap();
    let (space, server) = name.split_once('/').unwrap();
    let is_plain = |text: &str| {
        let mut bytes = text.bytes();
        bytes.all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte))
    };
    assert!(is_plain(space) && is_plain(server) && space.contains('.'));
    assert!(entry["description"].as_str().unwrap().chars().count() <= 100);
    check_keys(&entry["repository"], &["url", "source"], &["subfolder"]);
    let packages = entry["packages"].as_array().unwrap();
    let kinds: Vec<&str> = packages
        .iter()
        .map(|package| package["registryType"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["oci", "mcpb"]);
    for package in packages {
        check_keys(
            package,
            &["registryType", "identifier", "transport"],
            &[
                "fileSha256",
                "runtimeHint",
                "runtimeArguments",
                "packageArguments",
                "environmentVariables",
            ],
        );
        check_keys(&package["transport"], &["type"], &[]);
        // The image's version is in its name, and the bundle's in its address.
        assert!(package["version"].is_null());
    }
    assert!(packages[1]["fileSha256"].is_string());
    let address = packages[1]["identifier"].as_str().unwrap();
    assert!(address.starts_with("https://") && address.contains("mcp"));
    let mut line = Vec::new();
    for argument in packages[0]["packageArguments"].as_array().unwrap() {
        match argument["type"].as_str().unwrap() {
            "positional" => line.push(argument["value"].as_str().unwrap().to_owned()),
            "named" => line.push(format!(
                "{}={}",
                argument["name"].as_str().unwrap(),
                argument["value"].as_str().unwrap()
            )),
            other => panic!("{other}"),
        }
    }
    check_arguments(&line);
}
