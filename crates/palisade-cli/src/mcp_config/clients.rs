//! The MCP clients that are known: where each keeps its servers, and how it writes one.

use std::{
    env,
    path::{Path, PathBuf},
};

use clap::ValueEnum;
use serde_json::{Map, Value, json};

/// A client that starts servers over standard input and output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Client {
    /// Claude Desktop
    ClaudeDesktop,
    /// Claude Code
    ClaudeCode,
    /// Cursor
    Cursor,
    /// Visual Studio Code
    Vscode,
    /// Codex
    Codex,
    /// Windsurf
    Windsurf,
    /// Zed
    Zed,
    /// Gemini CLI
    GeminiCli,
}

/// How a client writes its configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    /// JSON, in which there may be comments.
    Json,
    Toml,
}

/// A server as a client starts it.
pub(super) struct Server {
    /// What the client calls it.
    pub(super) name: String,
    /// The binary.
    pub(super) command: String,
    /// What the binary is given.
    pub(super) arguments: Vec<String>,
    /// Variables of the environment that it reads secrets from.
    pub(super) secrets: Vec<String>,
}

impl Client {
    /// Every client, in the order they are listed.
    pub(super) fn all() -> &'static [Self] {
        Self::value_variants()
    }

    /// What the command line calls it.
    pub(super) fn slug(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "claude-desktop",
            Self::ClaudeCode => "claude-code",
            Self::Cursor => "cursor",
            Self::Vscode => "vscode",
            Self::Codex => "codex",
            Self::Windsurf => "windsurf",
            Self::Zed => "zed",
            Self::GeminiCli => "gemini-cli",
        }
    }

    /// The file in which it looks for servers. Those without a folder are of the project one works in.
    pub(super) fn file(self) -> Option<PathBuf> {
        let home = || env::home_dir();
        Some(match self {
            Self::ClaudeDesktop => settings()?.join("Claude/claude_desktop_config.json"),
            Self::ClaudeCode => PathBuf::from(".mcp.json"),
            Self::Cursor => home()?.join(".cursor/mcp.json"),
            Self::Vscode => PathBuf::from(".vscode/mcp.json"),
            Self::Codex => match env::var_os("CODEX_HOME") {
                Some(folder) => Path::new(&folder).join("config.toml"),
                None => home()?.join(".codex/config.toml"),
            },
            Self::Windsurf => home()?.join(".codeium/windsurf/mcp_config.json"),
            Self::Zed if cfg!(windows) => settings()?.join("Zed/settings.json"),
            Self::Zed => home()?.join(".config/zed/settings.json"),
            Self::GeminiCli => home()?.join(".gemini/settings.json"),
        })
    }

    pub(super) fn syntax(self) -> Syntax {
        match self {
            Self::Codex => Syntax::Toml,
            Self::ClaudeDesktop
            | Self::ClaudeCode
            | Self::Cursor
            | Self::Vscode
            | Self::Windsurf
            | Self::Zed
            | Self::GeminiCli => Syntax::Json,
        }
    }

    /// The key under which it keeps servers by name.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::ClaudeDesktop
            | Self::ClaudeCode
            | Self::Cursor
            | Self::Windsurf
            | Self::GeminiCli => "mcpServers",
            Self::Vscode => "servers",
            Self::Codex => "mcp_servers",
            Self::Zed => "context_servers",
        }
    }

    /// Whether it hands a server variables of its own environment that the entry names. Others have to be started where they are set.
    pub(super) fn hands_variables(self) -> bool {
        match self {
            Self::ClaudeCode
            | Self::Cursor
            | Self::Vscode
            | Self::Codex
            | Self::Windsurf
            | Self::GeminiCli => true,
            Self::ClaudeDesktop | Self::Zed => false,
        }
    }

    /// How it writes the value of a variable of its own environment, or a question to the person.
    fn reference(self, name: &str) -> Option<String> {
        match self {
            Self::ClaudeCode => Some(format!("${{{name}}}")),
            Self::Cursor | Self::Windsurf => Some(format!("${{env:{name}}}")),
            Self::Vscode => Some(format!("${{input:{name}}}")),
            Self::GeminiCli => Some(format!("${name}")),
            Self::ClaudeDesktop | Self::Codex | Self::Zed => None,
        }
    }

    /// The entry for `server`. No secret stands in it.
    pub(super) fn entry(self, server: &Server) -> Value {
        let mut entry = Map::new();
        if let Self::ClaudeCode | Self::Vscode = self {
            entry.insert("type".to_owned(), json!("stdio"));
        }
        entry.insert("command".to_owned(), json!(server.command));
        entry.insert("args".to_owned(), json!(server.arguments));
        let variables: Map<String, Value> = server
            .secrets
            .iter()
            .filter_map(|name| Some((name.clone(), json!(self.reference(name)?))))
            .collect();
        if !variables.is_empty() {
            entry.insert("env".to_owned(), Value::Object(variables));
        }
        if self == Self::Codex && !server.secrets.is_empty() {
            entry.insert("env_vars".to_owned(), json!(server.secrets));
        }
        if self == Self::ClaudeCode {
            // Tools that are looked for first are often not found.
            entry.insert("alwaysLoad".to_owned(), json!(true));
        }
        Value::Object(entry)
    }

    /// What else it needs beside the entry: questions for secrets, under the key `inputs`.
    pub(super) fn inputs(self, server: &Server) -> Vec<Value> {
        let names = match self {
            Self::Vscode => server.secrets.as_slice(),
            Self::ClaudeDesktop
            | Self::ClaudeCode
            | Self::Cursor
            | Self::Codex
            | Self::Windsurf
            | Self::Zed
            | Self::GeminiCli => &[],
        };
        let ask = |name: &String| json!({"id": name, "type": "promptString", "description": format!("{name} of Palisade"), "password": true});
        names.iter().map(ask).collect()
    }
}

/// The folder in which programs keep their settings.
fn settings() -> Option<PathBuf> {
    if cfg!(windows) {
        env::var_os("APPDATA").map(PathBuf::from)
    } else if cfg!(target_os = "macos") {
        env::home_dir().map(|home| home.join("Library/Application Support"))
    } else {
        env::home_dir().map(|home| home.join(".config"))
    }
}
