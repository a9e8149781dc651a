//! In the place of SQLite's databases where SQLite is not built in.

use std::{path::Path, sync::Arc};

use palisade::{catalog::Catalog, guard::Backend, rewrite::RewrittenStatement};
use serde_json::Value as Json;

use crate::case::Case;

/// There is none.
pub(crate) enum Database {}

impl Database {
    pub(crate) fn create(_: &Path, _: &str, _: &str) -> Result<Self, String> {
        Err("this build has no SQLite; it decides about catalogs of other dialects".to_owned())
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        match *self {}
    }

    pub(crate) fn backend(&self) -> Arc<dyn Backend> {
        match *self {}
    }

    pub(crate) fn copy(&self) -> Result<(Self, ()), String> {
        match *self {}
    }

    pub(crate) fn rows(&self, _: &str) -> Result<Vec<Vec<Json>>, String> {
        match *self {}
    }

    pub(crate) fn bare(&self, _: &Case, _: &RewrittenStatement) -> Result<Json, String> {
        match *self {}
    }
}
