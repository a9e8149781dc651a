#![doc = include_str!("../../../README.md")]

pub mod access;
pub mod answer;
pub mod audit;
pub mod catalog;
pub mod code;
pub mod dialect;
mod digest;
pub mod error;
pub mod firewall;
pub mod guard;
pub mod host;
pub mod ident;
pub mod limits;
mod lineage;
pub mod moment;
pub mod policy;
pub mod rejection;
mod resolve;
pub mod rewrite;
pub mod session;
mod syntax;
pub mod token;
pub mod value;
