//! Constructs that the parser lacks, spelt as it knows them: edits of tokens before the parse.

pub(in crate::syntax) mod comma_join;
pub(in crate::syntax) mod in_table;
pub(in crate::syntax) mod postgres_from;
pub(in crate::syntax) mod table_query;
pub(in crate::syntax) mod window_exclude;
