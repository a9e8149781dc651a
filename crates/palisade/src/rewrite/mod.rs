//! Before the database: an authorized statement becomes a text that is safe to run exactly as printed.
//!
//! Obligations hold at the source. A source subquery replaces each reference to a relation that is masked, hidden in part or
//! filtered; everything above it computes on masked values. A write filter stands around each change. The text is printed, parsed and
//! resolved again: it must be the same tree, and touch nothing that was not permitted.

mod ast;
mod authorized;
mod change;
mod ddl;
mod draft;
mod explain;
mod limit;
mod output;
mod pipeline;
mod refusal;
mod relation_source;
mod statement;
#[cfg(test)]
mod tests;

pub use authorized::Authorized;
pub use change::precheck::cascade_count::CascadeCount;
pub use change::precheck::{Precheck, Violation};
pub use output::{expected_access::ANY_COLUMN, text_facts::TextFacts};
pub use statement::{ChangeFacts, ChangeKind, Effect, PastRead, Prepared, RewrittenStatement};

pub(crate) use authorized::{authorize, authorize_definition};
pub(crate) use change::precheck::foreign_keys::keys_read;
pub(crate) use ddl::rewrite_definition;
pub(crate) use draft::Context;
pub(crate) use output::columns::{ViewBelow, columns_below};
pub(crate) use pipeline::rewrite;
pub(crate) use relation_source::cache::SourceCache;
pub(crate) use relation_source::mask::type_name as type_of_mask;
pub(crate) use relation_source::row_filter::{
    columns as columns_of_condition, columns_referred_to,
};
