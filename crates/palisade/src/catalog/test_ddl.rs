//! Catalogs from the text of a schema, for the core's own tests.
//!
//! `palisade-ddl` was compiled against the core without its tests, so a snapshot carries its catalog over.

#![allow(clippy::unwrap_used, reason = "tests")]

use palisade_ddl::DdlError;

use crate::catalog::Catalog;

/// As `palisade_ddl::postgres`.
pub(crate) fn postgres(text: &str, database: &str) -> Result<Catalog, DdlError> {
    let catalog = palisade_ddl::postgres(text, database)?;
    Ok(Catalog::from_snapshot(&catalog.to_snapshot()).unwrap())
}

/// As `palisade_ddl::mysql`.
pub(crate) fn mysql(text: &str, database: &str) -> Result<Catalog, DdlError> {
    let catalog = palisade_ddl::mysql(text, database)?;
    Ok(Catalog::from_snapshot(&catalog.to_snapshot()).unwrap())
}
