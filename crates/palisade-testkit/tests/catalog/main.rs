//! Catalogs: as text, read from the text of a schema, and beside what each server says of itself.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

#[path = "../database/mod.rs"]
mod database;

mod current_schema;
mod descriptions;
mod enum_labels;
mod mysql_ddl;
mod partitions;
mod snapshots;
mod system_relations;
