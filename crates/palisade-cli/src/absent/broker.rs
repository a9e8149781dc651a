//! The broker, where it was not built in.

use std::{collections::BTreeSet, future::Future};

use palisade::session::Principal;
use palisade_mcp::{PalisadeServer, PrincipalSource};

use crate::{
    args::broker::{BrokerArguments, LoadArguments, RelayArguments, SandboxArguments},
    database::Database,
    exit::{Exit, Failure},
    setup::Setup,
};

/// What would listen.
pub(crate) enum BrokerDoor {}

fn absent() -> Failure {
    Failure::Usage(
        "this palisade was built without the broker\n  help: build it with `--features full`, on Unix"
            .to_owned(),
    )
}

pub(crate) fn principal_source(_: Principal) -> PrincipalSource {
    PrincipalSource::by_request(|_| None::<Principal>)
}

pub(crate) fn run(_: &BrokerArguments) -> Result<Exit, Failure> {
    Err(absent())
}

pub(crate) fn load(_: &LoadArguments) -> Result<Exit, Failure> {
    Err(absent())
}

pub(crate) fn relay(_: &RelayArguments) -> Result<Exit, Failure> {
    Err(absent())
}

pub(crate) fn sandbox(_: &SandboxArguments) -> Result<Exit, Failure> {
    Err(absent())
}

impl BrokerDoor {
    pub(crate) fn principals(&self) -> BTreeSet<Principal> {
        match *self {}
    }

    pub(crate) fn equip(
        &self,
        _: Vec<(Setup, Database)>,
    ) -> Result<Vec<(Setup, Database)>, Failure> {
        match *self {}
    }

    pub(crate) async fn serve(
        self,
        _: PalisadeServer,
        _: impl Future<Output = ()>,
    ) -> Result<(), Failure> {
        match self {}
    }
}
