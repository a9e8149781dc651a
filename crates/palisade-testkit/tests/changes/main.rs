//! Statements that change data, on real databases: which rows change, which rows policy admits, and
//! what the answer tells.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

#[path = "../database/mod.rs"]
mod database;

mod any_database;
mod cascade;
mod cascade_count;
mod checks;
mod compensation;
mod concurrency;
mod constraint_names;
mod corpus_on_servers;
mod duplicate_key;
mod duplicate_users;
mod guarded_writes;
mod hidden_names;
mod hidden_rows;
mod history;
mod history_account;
mod history_following;
mod history_list;
mod history_mariadb;
mod history_mysql;
mod history_postgres;
mod history_sqlite;
mod insert_select;
mod inverse;
mod killed_process;
mod killed_server;
mod missing_grants;
mod new_rows;
mod on_conflict;
mod other_viewer;
mod past_model;
mod past_recorded;
mod reading_approval;
mod receipts;
mod revert;
mod shared_state;
mod sqlite;
mod steps;
mod unknown_outcome;
mod with_returning;
