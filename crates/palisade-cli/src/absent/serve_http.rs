//! The server over HTTP, where it was not built in.

use std::{collections::BTreeSet, future::Future, sync::Arc};

use palisade::session::Principal;
use palisade_mcp::{CallObserver, PalisadeServer, PrincipalSource};

use crate::{config::ConfigFile, counts::Counts, exit::Failure};

/// What would listen.
pub(crate) enum HttpDoor {}

pub(crate) fn absent() -> Failure {
    Failure::Usage(
        "this palisade was built without the server over HTTP\n  help: build it with `--features full`"
            .to_owned(),
    )
}

pub(crate) fn principal_source() -> PrincipalSource {
    PrincipalSource::by_request(|_| None::<Principal>)
}

/// Whether an algorithm of tokens is known, where the server is built in.
#[expect(clippy::unnecessary_wraps, reason = "with the server it can fail")]
pub(crate) fn check_algorithm(_: &str) -> Result<(), String> {
    Ok(())
}

/// Whether an address can be one of an issuer's, where the server is built in.
#[expect(clippy::unnecessary_wraps, reason = "with the server it can fail")]
pub(crate) fn check_issuer(_: &str) -> Result<(), String> {
    Ok(())
}

impl HttpDoor {
    pub(crate) fn open(_: &str, _: &ConfigFile) -> Result<Self, Failure> {
        Err(absent())
    }

    pub(crate) fn tell_counts(&mut self, _: &Counts) {
        match *self {}
    }

    pub(crate) fn observer(&self) -> Option<Arc<dyn CallObserver>> {
        match *self {}
    }

    pub(crate) fn principals(&self) -> Result<BTreeSet<Principal>, Failure> {
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
