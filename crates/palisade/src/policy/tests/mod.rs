//! What the room's tests share, and the row filters beside a model of them.

mod filter_model;
pub(in crate::policy) mod fixture;
mod questions;
