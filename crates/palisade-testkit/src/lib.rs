//! What tests, fuzz targets and benches share. Never published.

pub mod ask;
pub mod desktop;
pub mod fixture;
pub mod host;
pub mod live;
pub mod properties;
pub mod rows;
pub mod servers;

/// The example of README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;

/// Those of the manual's page for embedders as well.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
pub struct Embedding;
