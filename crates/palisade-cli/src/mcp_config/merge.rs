//! A client's configuration with one more server. Comments and everything else in it stay as they are.

use jsonc_parser::{
    ParseOptions,
    cst::{CstInputValue, CstRootNode},
};
use serde_json::Value;
use toml_edit::{DocumentMut, Item, Table};

use crate::mcp_config::clients::{Client, Server, Syntax};

/// `text`, the configuration of `client`, with `server` in it. An entry of its name is replaced, and no other.
pub(super) fn merge(client: Client, text: &str, server: &Server) -> Result<String, String> {
    match client.syntax() {
        Syntax::Json => merge_json(client, text, server),
        Syntax::Toml => merge_toml(client, text, server),
    }
}

fn merge_json(client: Client, text: &str, server: &Server) -> Result<String, String> {
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    let root = CstRootNode::parse(text, &ParseOptions::default())
        .map_err(|error| format!("it is not JSON: {error}"))?;
    let top = root
        .object_value()
        .ok_or_else(|| "it is not a JSON object".to_owned())?;
    let servers = top
        .object_value_or_create(client.key())
        .ok_or_else(|| format!("`{}` in it is not an object", client.key()))?;
    let entry = input_of(&client.entry(server));
    match servers.get(&server.name) {
        Some(there) => there.set_value(entry),
        None => {
            servers.append(&server.name, entry);
        }
    }
    let inputs = client.inputs(server);
    if !inputs.is_empty() {
        let asked = top
            .array_value_or_create("inputs")
            .ok_or_else(|| "`inputs` in it is not an array".to_owned())?;
        let known: Vec<_> = asked
            .elements()
            .iter()
            .filter_map(|input| input.to_serde_value())
            .collect();
        for input in inputs {
            if !known.iter().any(|other| other.get("id") == input.get("id")) {
                asked.append(input_of(&input));
            }
        }
    }
    Ok(root.to_string())
}

/// `value` as it is inserted.
fn input_of(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input_of).collect()),
        Value::Object(map) => CstInputValue::Object(
            map.iter()
                .map(|(key, value)| (key.clone(), input_of(value)))
                .collect(),
        ),
    }
}

fn merge_toml(client: Client, text: &str, server: &Server) -> Result<String, String> {
    let mut document: DocumentMut = text
        .parse()
        .map_err(|error| format!("it is not TOML: {error}"))?;
    let servers = document
        .entry(client.key())
        .or_insert_with(|| {
            let mut table = Table::new();
            table.set_implicit(true);
            Item::Table(table)
        })
        .as_table_mut()
        .ok_or_else(|| format!("`{}` in it is not a table", client.key()))?;
    let mut entry = Table::new();
    if let Value::Object(keys) = client.entry(server) {
        for (key, value) in keys {
            entry.insert(&key, item_of(&value));
        }
    }
    servers.insert(&server.name, Item::Table(entry));
    Ok(document.to_string())
}

/// A text, or a list of them, which is all that an entry has in TOML.
fn item_of(value: &Value) -> Item {
    match value {
        Value::Array(items) => {
            let texts = items.iter().filter_map(Value::as_str);
            toml_edit::value(texts.collect::<toml_edit::Array>())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            toml_edit::value(value.as_str().unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn server() -> Server {
        Server {
            name: "palisade".to_owned(),
            command: "/usr/bin/palisade".to_owned(),
            arguments: vec!["serve".to_owned(), "sqlite:/a b.db".to_owned()],
            secrets: vec!["SALES".to_owned()],
        }
    }

    #[test]
    fn what_stood_there_stays() {
        let text = "{\n  // mine\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\" }, // and this\n  },\n  \"theme\": \"dark\"\n}\n";
        let once = merge(Client::Cursor, text, &server()).unwrap();
        for kept in [
            "// mine",
            "\"other\": { \"command\": \"x\" }",
            "// and this",
            "\"theme\": \"dark\"",
        ] {
            assert!(once.contains(kept), "{kept}: {once}");
        }
        assert!(once.contains("\"SALES\": \"${env:SALES}\""), "{once}");
        // Once is enough.
        assert_eq!(merge(Client::Cursor, &once, &server()).unwrap(), once);
        let text = "# mine\nmodel = \"m\"\n\n[mcp_servers.other]\ncommand = \"x\" # this too\n";
        let once = merge(Client::Codex, text, &server()).unwrap();
        assert!(once.starts_with(text), "{once}");
        assert!(
            once.contains("[mcp_servers.palisade]\ncommand = \"/usr/bin/palisade\"\n"),
            "{once}"
        );
        assert!(once.contains("env_vars = [\"SALES\"]"), "{once}");
        assert_eq!(merge(Client::Codex, &once, &server()).unwrap(), once);
    }

    #[test]
    fn each_client_gets_its_own_form() {
        for client in Client::all() {
            let text = merge(*client, "", &server()).unwrap();
            assert_eq!(
                merge(*client, &text, &server()).unwrap(),
                text,
                "{client:?}"
            );
            let entry = match client.syntax() {
                Syntax::Toml => {
                    let value: toml::Table = text.parse().unwrap();
                    serde_json::to_value(value).unwrap()
                }
                Syntax::Json => serde_json::from_str(&text).unwrap(),
            };
            let entry = &entry[client.key()]["palisade"];
            assert_eq!(entry["command"], "/usr/bin/palisade", "{client:?}");
            assert_eq!(entry["args"][1], "sqlite:/a b.db", "{client:?}");
        }
        let text = merge(Client::Vscode, "", &server()).unwrap();
        assert!(
            text.contains("promptString") && text.contains("${input:SALES}"),
            "{text}"
        );
    }

    #[test]
    fn what_is_not_understood_is_not_written() {
        for (client, text) in [
            (Client::Cursor, "[]"),
            (Client::Cursor, "{\"mcpServers\": 3}"),
            (Client::Cursor, "{\"mcpServers\": {"),
            (Client::Vscode, "{\"inputs\": {}}"),
            (Client::Codex, "mcp_servers = 3"),
            (Client::Codex, "[mcp_servers"),
        ] {
            assert!(merge(client, text, &server()).is_err(), "{text}");
        }
    }
}
