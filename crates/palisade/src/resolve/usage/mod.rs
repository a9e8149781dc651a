//! What policy learns of how a statement uses what it reads.

pub(in crate::resolve) mod join;
pub(in crate::resolve) mod statement;
