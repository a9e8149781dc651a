//! Queries on real databases: masks, tokens, types, literals, the fence around row filters, and
//! caps on estimates.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

#[path = "../database/mod.rs"]
mod database;

mod cost_estimates;
mod fence;
mod infallible_conditions;
mod literals;
mod masks;
mod mistakes;
mod tokens;
mod types;
