//! What stands around decisions: test servers, databases that change while they are served, memory,
//! caches, properties.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

#[path = "../database/mod.rs"]
mod database;

mod live;
mod memory;
mod printed_statements;
mod properties;
mod servers;
mod several_servers;
mod statement_cache;
