//! What the room's tests share, and the row filters beside a model of them.

mod clauses_and_digests;
mod filter_model;
pub(in crate::policy) mod fixture;
