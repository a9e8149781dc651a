//! Palisade: a SQL firewall for AI agents.

pub mod access;
pub mod catalog;
pub mod code;
pub mod dialect;
mod digest;
pub mod guard;
pub mod ident;
pub mod limits;
pub mod policy;
pub mod rejection;
pub mod rewrite;
pub mod scan;
pub mod session;
pub mod value;
