//! An MCP server over standard input and output for one SQLite file: every table can be read, columns
//! called `password` do not exist, columns called `email` are masked.
//!
//! ```sh
//! cargo run --package palisade-mcp --example stdio -- FILE
//! ```

use std::{
    error::Error,
    io::Read as _,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use palisade::{
    audit::NoAudit,
    firewall::Firewall,
    guard::Guard,
    host::Host,
    policy::{PolicyFile, PolicySources},
    session::Principal,
};
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
        policies: vec![PolicyFile {
            name: "example.cedar".to_owned(),
            text: POLICIES.to_owned(),
        }],
        classification: Some(CLASSIFICATION.to_owned()),
        ..PolicySources::default()
    };
    let firewall = Firewall::builder(backend.catalog().clone(), sources).build()?;
    let host = SystemHost {
        start: Instant::now(),
    };
    let guard = Guard::new(
        Arc::new(firewall),
        backend,
        Arc::new(host),
        Arc::new(NoAudit),
    );
    let options = ServeOptions {
        transport: palisade::session::Transport::Stdio,
        principal: Principal::new("Agent", "default").into(),
        connection: "example".to_owned(),
        writable: false,
    };
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(serve_stdio(PalisadeServer::new(Arc::new(guard), options)))?;
    Ok(())
}

struct SystemHost {
    start: Instant,
}

impl Host for SystemHost {
    fn unix_time(&self) -> Duration {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    fn random(&self) -> Result<[u8; 16], String> {
        let mut bytes = [0; 16];
        std::fs::File::open("/dev/urandom")
            .and_then(|mut file| file.read_exact(&mut bytes))
            .map_err(|error| format!("/dev/urandom: {error}"))?;
        Ok(bytes)
    }
}
