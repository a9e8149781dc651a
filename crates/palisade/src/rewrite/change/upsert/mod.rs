//! Rows that conflict with those that an INSERT adds.

pub(in crate::rewrite) mod duplicate_key;
pub(in crate::rewrite) mod excluded;
pub(in crate::rewrite) mod key_values;
pub(in crate::rewrite) mod on_conflict;
