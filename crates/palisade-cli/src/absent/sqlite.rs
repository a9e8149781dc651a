//! SQLite, where it was not built in.

use std::{path::Path, sync::Arc};

use palisade::{catalog::Catalog, guard::Backend};

use crate::{absent::absent, database::Access, exit::Failure};

const NAME: &str = "SQLite";

pub(crate) fn require() -> Result<(), Failure> {
    Err(absent(NAME).into())
}

pub(crate) fn engine() -> String {
    NAME.to_owned()
}

pub(crate) fn open(_: &Path, _: Access) -> Result<Arc<dyn Backend>, Failure> {
    Err(absent(NAME).into())
}

pub(crate) fn memory(_: Option<&Path>, _: &str, _: Access) -> Result<Arc<dyn Backend>, Failure> {
    Err(absent(NAME).into())
}

pub(crate) fn catalog_of_schema(_: &Path, _: &str, _: &str) -> Result<Catalog, Failure> {
    Err(absent(NAME).into())
}

pub(crate) fn create(_: &Path, _: &str) -> Result<(), String> {
    Err(absent(NAME).message)
}
