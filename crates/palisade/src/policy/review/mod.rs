//! What tells of policies, and decides nothing: for tools, hints and reviews.
//!
//! Tools read policies in pieces: [`clause`] finds their places and conditions, and [`condition_values`] what values these had.
//! [`mutant`] changes them in one place at a time. Hints come before there is a statement: [`possible_permits`] says what could be
//! permitted, and a session's view remembers it. Reviews of a whole set suppose circumstances with [`what_if`], and ask
//! [`enumeration`] what lists of tables leave out. [`action_note`] and [`rule_example`] are texts of the manual.

pub(in crate::policy) mod action_note;
pub(in crate::policy) mod clause;
pub(in crate::policy) mod condition_values;
mod enumeration;
pub(in crate::policy) mod mutant;
pub(in crate::policy) mod possible_permits;
pub(in crate::policy) mod rule_example;
pub(in crate::policy) mod what_if;
