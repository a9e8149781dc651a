//! Answers questions about any principal whatever: Cedar's symbolic compiler writes them for the solver cvc5, which runs as a
//! process of its own.
//!
//! [`Solver`] answers a [`SymbolicQuestion`](palisade::policy::SymbolicQuestion), which the firewall's own policies are evaluated
//! into. Whatever goes wrong is an answer too, and proves nothing.

mod compile;
mod solver;

pub use solver::{OLDEST, Solver};
