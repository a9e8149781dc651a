//! Benches live in `benches/benches`; here is what they share.

pub mod desk;
pub mod time;
