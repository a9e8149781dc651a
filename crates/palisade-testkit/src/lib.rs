//! What tests, fuzz targets and benches share. Never published.

pub mod ask;
pub mod fixture;
pub mod host;
pub mod live;
pub mod properties;
pub mod rows;
pub mod servers;
