//! Text to exactly one statement, and back: checks before parsing, the parse, canonical printing and
//! the gate that compares what was printed with what was meant, and fingerprints.

mod advice;
mod dialect;
mod explain;
mod fingerprint;
mod identifier;
mod letter_case;
mod lexer;
mod mariadb_lack;
pub(crate) mod mask_expr;
pub(crate) mod output_name;
mod parse;
mod parser_drift;
mod placeholders;
mod plain_call;
mod prescan;
mod print;
mod reparse_cache;
mod role;
mod row_changes;
mod stack;
mod statement_kind;
mod subscript;
mod unsupported;
mod visit;
mod wording;

pub(crate) use advice::advise_on_parameter;
pub(crate) use dialect::{ROWS_FROM, is_exclusion, is_hexadecimal};
pub(crate) use explain::Explain;
pub use fingerprint::Fingerprint;
pub(crate) use fingerprint::fingerprint;
pub(crate) use fingerprint::words;
pub(crate) use identifier::{decode, encode, is_typographic_quote, key};
pub(crate) use letter_case::check_alias;
pub(crate) use mariadb_lack::mariadb_lack;
pub(crate) use parse::{Lexed, Parsed, ParsedDefinition, ParsedQuery, data_type, parse, parse_any};
pub(crate) use placeholders::placeholders;
pub(crate) use plain_call::{read_plain_arguments, read_plain_call};
pub(crate) use prescan::{Cursor, Outline, placeholder_name};
pub(crate) use print::{print_definition, print_stable, read_query};
pub(crate) use reparse_cache::Readings;
pub(crate) use role::{Role, TableRole, name_parts, role, table_role};
pub(crate) use row_changes::{contains_change, is_change, is_change_within};
pub(crate) use stack::with_stack;
pub(crate) use visit::{
    TreeVisitor, TreeVisitorMut, each_expr, each_expr_mut, each_relation, visit_tree,
    visit_tree_mut,
};
pub(crate) use wording::Wording;
