//! What the official MCP conformance suite wants a server to have for it, beside the real server and behind the same door.
//!
//! ```sh
//! cargo run --package palisade-http --features conformance --example conformance -- DATABASE TOKENS
//! ```
//!
//! DATABASE is a file of SQLite. TOKENS is a file that `palisade token create` writes. Connections, credentials, limits and the protocol
//! are those of `palisade serve --http`; what the suite asks of its own is in `fixtures`. No program but this one has it: the feature
//! `conformance` is in no other.

#![expect(
    clippy::indexing_slicing,
    reason = "JSON gives null for a field that is not there"
)]

use std::{error::Error, path::PathBuf, sync::Arc};

use palisade::{
    audit::NoAudit,
    firewall::Firewall,
    guard::Guard,
    policy::{PolicyFile, PolicySources},
    session::Transport,
};
use palisade_host::Machine;
use palisade_http::{HttpOptions, TokenFile, principal_source, serve_beside};
use palisade_mcp::{PalisadeServer, ServeOptions};
use palisade_sqlite::SqliteBackend;
use tokio::net::TcpListener;

use crate::fixtures::Fixtures;

mod fixtures;
mod questions;
mod tasks;
mod tools;

const POLICIES: &str = "permit (principal, action, resource);";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let usage = "usage: conformance DATABASE TOKENS";
    let database = arguments.next().ok_or(usage)?;
    let tokens = arguments.next().ok_or(usage)?;
    let backend = SqliteBackend::open_file(database, "suite")?;
    let sources = PolicySources::from_cedar("suite.cedar", POLICIES);
    let firewall = Firewall::builder(backend.catalog().clone(), sources).build()?;
    let guard = Guard::new(
        Arc::new(firewall),
        backend,
        Arc::new(Machine::new()),
        Arc::new(NoAudit),
    );
    let serve_options = ServeOptions::new(principal_source(), "suite").over(Transport::Http);
    let server = PalisadeServer::new(Arc::new(guard), serve_options);
    let mut options = HttpOptions::new(TokenFile::new(tokens));
    options.requests_per_minute = 1_000_000;
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            eprintln!("serving MCP at http://{}/mcp", listener.local_addr()?);
            serve_beside(
                server,
                listener,
                options,
                std::future::pending(),
                Fixtures::new,
            )
            .await?;
            Ok(())
        })
}
