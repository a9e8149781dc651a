//! The probe of a server over HTTP, where that was not built in.

use crate::{
    exit::{Exit, Failure},
    probe_args::ProbeArguments,
    serve_http::absent,
};

pub(crate) fn run(_: &ProbeArguments) -> Result<Exit, Failure> {
    Err(absent())
}
