//! The promise: nothing that policy hides shows, whatever the statement, and whoever may see
//! everything gets the engine's own answer.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::format_push_string,
    clippy::print_stdout,
    reason = "tests"
)]

#[path = "../database/mod.rs"]
mod database;

mod conditions;
mod constraint_oracles;
mod growth;
mod worlds;
