//! What runs: its parameters, what a backend may see of it, and the plan that holds for other values.

pub(in crate::rewrite) mod bound;
pub(in crate::rewrite) mod columns;
pub(in crate::rewrite) mod expected_access;
pub(in crate::rewrite) mod masked_uses;
pub(in crate::rewrite) mod parameter_values;
pub(in crate::rewrite) mod parameters;
pub(in crate::rewrite) mod text_facts;
mod value_type;
