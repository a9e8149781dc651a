//! MySQL and MariaDB, where they were not built in.

use std::sync::Arc;

use palisade::{catalog::Catalog, guard::Backend};

use crate::{
    absent::absent,
    account::{Account, Asked},
    database::Access,
    exit::Failure,
    server_statements::CountedStatements,
    setup::Setup,
    target::{Parts, Problem, Target},
};

const NAME: &str = "MySQL and MariaDB";

pub(crate) fn parse(_: &str) -> Result<Parts, Problem> {
    Err(absent(NAME))
}

pub(crate) async fn open(_: &Target, _: Access) -> Result<Arc<dyn Backend>, Failure> {
    Err(absent(NAME).into())
}

pub(crate) async fn read_catalog(_: &Target) -> Result<Catalog, Failure> {
    Err(absent(NAME).into())
}

pub(crate) async fn read_statements(_: &Target) -> Result<CountedStatements, Failure> {
    Err(absent(NAME).into())
}

pub(crate) async fn look(_: &Setup, _: &Target, _: Access) -> Result<Account, Failure> {
    Err(absent(NAME).into())
}

pub(crate) async fn own_role(_: &Target) -> Result<Option<String>, Failure> {
    Err(absent(NAME).into())
}

pub(crate) async fn sql(_: &Setup, _: &Target, _: Asked<'_>) -> Result<String, Failure> {
    Err(absent(NAME).into())
}
