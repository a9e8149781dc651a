//! Benches live in `benches/benches`; here is what they share.

pub mod desk;
pub mod process;
pub mod short;
pub mod time;
