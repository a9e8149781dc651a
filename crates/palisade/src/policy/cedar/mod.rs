//! Everything that touches Cedar's own interface.

pub(in crate::policy) mod attribute_names;
pub(in crate::policy) mod attribute_type;
pub(in crate::policy) mod by_action;
pub(in crate::policy) mod constant;
pub(in crate::policy) mod context_use;
pub(in crate::policy) mod entities;
pub(in crate::policy) mod failure;
pub(in crate::policy) mod mentioned_rows;
pub(in crate::policy) mod named_relations;
pub(in crate::policy) mod request;
pub(in crate::policy) mod residual;
pub(in crate::policy) mod row_verdict;
pub(in crate::policy) mod rows_json;
pub(in crate::policy) mod schema;
pub(in crate::policy) mod schema_fragment;
pub(in crate::policy) mod schemas;
pub(in crate::policy) mod seen_attribute;
