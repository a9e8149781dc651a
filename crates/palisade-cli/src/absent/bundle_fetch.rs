//! Bundles of policies from other machines, where their client was not built in. Files are read without it.

use std::sync::Arc;

use crate::{
    bundle::Fetched,
    config::bundle::{BundleSetup, BundleSource},
    exit::Failure,
};

/// What would ask an address.
pub(super) struct Fetcher;

impl Fetcher {
    pub(super) fn new(setup: &Arc<BundleSetup>) -> Result<Self, Failure> {
        match &setup.source {
            BundleSource::File(_) => Ok(Self),
            BundleSource::Address(_) | BundleSource::Registry(_) => {
                Err(Failure::Configuration(
                    "error: this palisade was built without the client of bundles\n  help: build it with `--features bundles`, or pull the bundle by another program and name its file"
                        .to_owned(),
                ))
            }
        }
    }

    pub(super) fn check(&self) -> Result<(), Failure> {
        Ok(())
    }

    pub(super) fn fetch(&self, _: Option<&str>) -> Result<Fetched, String> {
        Err("this palisade was built without the client of bundles".to_owned())
    }
}
