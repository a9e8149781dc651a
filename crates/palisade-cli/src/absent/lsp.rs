//! The language server, where it was not built in.

use crate::{
    args::lsp::LspArguments,
    exit::{Exit, Failure},
};

pub(crate) fn run(_: &LspArguments) -> Result<Exit, Failure> {
    Err(Failure::Usage(
        "this palisade was built without the language server\n  help: build it with `--features full`".to_owned(),
    ))
}
