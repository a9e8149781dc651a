//! The probe of a server over HTTP, where that was not built in.

use crate::{
    args::probe::ProbeArguments,
    exit::{Exit, Failure},
    serve_http::absent,
};

pub(crate) fn run(_: &ProbeArguments) -> Result<Exit, Failure> {
    Err(absent())
}
