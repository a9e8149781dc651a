//! The servers, and how each is started.

use std::{env, fs, path::Path};

use serde_json::{Value, json};

use crate::database::{Database, READER, ROWS};

/// A server of a database, and how it is asked.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) path: String,
    pub(crate) arguments: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) tool: &'static str,
    /// What the tool takes beside a statement that gives many rows.
    pub(crate) extra: Value,
}

/// Where the programs are, as `cargo xtask bench peers` tells it.
pub(crate) struct Programs {
    palisade: String,
    toolbox: String,
    node: String,
    dbhub: String,
}

impl Programs {
    pub(crate) fn from_environment() -> Self {
        let read = |name: &str| {
            env::var(name).unwrap_or_else(|_| panic!("no {name}: run `cargo xtask bench peers`"))
        };
        Self {
            palisade: read("BENCH_PALISADE"),
            toolbox: read("BENCH_TOOLBOX"),
            node: read("BENCH_NODE"),
            dbhub: read("BENCH_DBHUB"),
        }
    }

    /// Every server over `database`; `folder` holds their files.
    pub(crate) fn all(&self, database: &Database, folder: &Path) -> Vec<Program> {
        vec![
            self.palisade(database, folder),
            self.toolbox(database),
            self.dbhub(database),
        ]
    }

    fn palisade(&self, database: &Database, folder: &Path) -> Program {
        let (name, url, grants) = match database {
            Database::Sqlite { path } => ("sqlite", format!("sqlite:{path}"), String::new()),
            Database::Postgres { port, name } => (
                "postgres",
                format!("postgres://{READER}@127.0.0.1:{port}/{name}"),
                format!("[grants]\nhosts = [\"127.0.0.1:{port}\"]\n"),
            ),
        };
        // A thousand rows are more than an answer has by default.
        let config = format!(
            "[mcp]\nmax_answer_chars = 65536\nmax_answer_tokens = 32768\n{grants}[connections.bench]\nurl = \"{url}\"\n"
        );
        let path = folder.join(format!("{name}.toml"));
        fs::write(&path, config).unwrap();
        Program {
            name: "palisade",
            path: self.palisade.clone(),
            arguments: vec![
                "serve".to_owned(),
                "--config".to_owned(),
                path.to_str().unwrap().to_owned(),
            ],
            environment: Vec::new(),
            tool: "query",
            extra: json!({"limit": ROWS}),
        }
    }

    fn toolbox(&self, database: &Database) -> Program {
        let (prebuilt, environment) = match database {
            Database::Sqlite { path } => ("sqlite", vec![("SQLITE_DATABASE", path.clone())]),
            Database::Postgres { port, name } => (
                "postgres",
                vec![
                    ("POSTGRES_HOST", "127.0.0.1".to_owned()),
                    ("POSTGRES_PORT", port.to_string()),
                    ("POSTGRES_DATABASE", name.clone()),
                    ("POSTGRES_USER", READER.to_owned()),
                    ("POSTGRES_PASSWORD", "bench".to_owned()),
                ],
            ),
        };
        Program {
            name: "@toolbox-sdk/server",
            path: self.toolbox.clone(),
            arguments: ["--prebuilt", prebuilt, "--stdio", "--disable-version-check"]
                .map(str::to_owned)
                .to_vec(),
            environment: (environment.into_iter())
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            tool: "execute_sql",
            extra: json!({}),
        }
    }

    fn dbhub(&self, database: &Database) -> Program {
        let dsn = match database {
            Database::Sqlite { path } => format!("sqlite://{path}"),
            Database::Postgres { port, name } => {
                format!("postgres://{READER}:bench@127.0.0.1:{port}/{name}?sslmode=disable")
            }
        };
        Program {
            name: "@bytebase/dbhub",
            path: self.node.clone(),
            arguments: vec![
                self.dbhub.clone(),
                "--transport".to_owned(),
                "stdio".to_owned(),
                "--dsn".to_owned(),
                dsn,
            ],
            environment: Vec::new(),
            tool: "execute_sql",
            extra: json!({}),
        }
    }
}
