//! The promise, over generated schemas, data, policies and statements, on every engine: what a principal may not
//! see does not show, and who may see everything sees what the engine gives.
//!
//! `PALISADE_SEED` gives other statements, `PALISADE_WORLDS` more of them, and `PALISADE_STATEMENTS` more of those that read hidden
//! values out.

mod bare;
mod cells;
mod choices;
mod extraction;
mod faults;
mod grammar;
mod interference;
mod mutants;
mod past;
mod preservation;
mod previews;
mod stand;
mod tokens;
mod world;
