//! Traces and metrics, where they were not built in.

use palisade_mcp::{CallObserver, ObservedCall};

use crate::exit::Failure;

/// What would send them.
#[derive(Debug)]
pub(crate) enum Exporter {}

impl Exporter {
    pub(crate) fn new(_: &str) -> Result<Self, Failure> {
        Err(Failure::Configuration(
            "error: this palisade was built without traces and metrics\n  help: build it with `--features otlp`, or leave `otlp` under `[telemetry]` out"
                .to_owned(),
        ))
    }

    pub(crate) fn finish(&self) {
        match *self {}
    }
}

impl CallObserver for Exporter {
    fn observe(&self, _: &ObservedCall) {
        match *self {}
    }
}
