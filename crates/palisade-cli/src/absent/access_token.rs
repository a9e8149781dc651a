//! Access tokens, where the server over HTTP was not built in.

use crate::{
    args::access_token::TokenCommand,
    exit::{Exit, Failure},
    serve_http::absent,
};

pub(crate) fn run(_: &TokenCommand) -> Result<Exit, Failure> {
    Err(absent())
}
