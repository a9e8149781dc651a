//! The walk of a client over HTTP, where that was not built in.

use crate::{
    args::Format,
    exit::{Exit, Failure},
    serve_http::absent,
};

pub(crate) fn run(_: &str, _: Format) -> Result<Exit, Failure> {
    Err(absent())
}
