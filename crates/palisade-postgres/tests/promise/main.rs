//! What a principal may not see does not show: two databases that differ only in that, behind the gate,
//! on a real server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod fence;
mod gate;

mod generated;
mod statements;
