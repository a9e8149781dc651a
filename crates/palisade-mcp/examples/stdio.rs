//! An MCP server over standard input and output for one SQLite file: every table can be read, columns
//! called `password` do not exist, columns called `email` are masked.
//!
//! ```sh
//! cargo run --package palisade-mcp --example stdio -- FILE
//! ```

use std::{error::Error, sync::Arc};

use palisade::{
    audit::NoAudit, firewall::Firewall, guard::Guard, policy::PolicySources, session::Principal,
};
use palisade_host::Machine;
use palisade_mcp::{PalisadeServer, ServeOptions, serve_stdio};
use palisade_sqlite::SqliteBackend;

const POLICIES: &str = r#"
permit (principal, action, resource);
forbid (principal, action in Action::"read", resource) when { resource.tags.contains("secret") };
@mask("null")
forbid (principal, action == Action::"read_plain", resource) when { resource.tags.contains("personal") };
"#;

const CLASSIFICATION: &str = r#"
[[column]]
pattern = "*.*.*password*"
tags = ["secret"]

[[column]]
pattern = "*.*.*email*"
tags = ["personal"]
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args_os()
        .nth(1)
        .ok_or("usage: stdio FILE (a SQLite database)")?;
    let backend = SqliteBackend::open_file(file, "example")?;
    let sources = PolicySources {
        classification: Some(CLASSIFICATION.to_owned()),
        ..PolicySources::from_cedar("example.cedar", POLICIES)
    };
    let firewall = Firewall::builder(backend.catalog().clone(), sources).build()?;
    let guard = Guard::new(
        Arc::new(firewall),
        backend,
        Arc::new(Machine::new()),
        Arc::new(NoAudit),
    );
    let options = ServeOptions::new(Principal::new("Agent", "default"), "example");
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(serve_stdio(PalisadeServer::new(Arc::new(guard), options)))?;
    Ok(())
}
