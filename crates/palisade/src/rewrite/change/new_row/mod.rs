//! What a row that a statement adds, or changes, will hold: looked at before anything runs.

pub(in crate::rewrite) mod column_storage;
pub(in crate::rewrite) mod converted;
pub(in crate::rewrite) mod defaults;
pub(in crate::rewrite) mod fold;
pub(in crate::rewrite) mod insert_ignore;
pub(in crate::rewrite) mod mysql_charset;
pub(in crate::rewrite) mod select_constants;
pub(in crate::rewrite) mod unknown_literals;
