//! Access tokens, where the server over HTTP was not built in.

use crate::{
    access_token_args::TokenCommand,
    exit::{Exit, Failure},
    serve_http::absent,
};

pub(crate) fn run(_: &TokenCommand) -> Result<Exit, Failure> {
    Err(absent())
}
