//! `palisade completions`: what a shell needs to complete commands, options and their values.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::{
    args::Arguments,
    exit::{Exit, Failure},
    stdout,
};

pub(crate) const COMPLETIONS_HELP: &str = "\
It prints a script of the shell, made of the same definitions as the help.

Examples:
  palisade completions bash > palisade.bash
  palisade completions zsh > _palisade
  palisade completions fish > palisade.fish
  palisade completions powershell > palisade.ps1
  palisade completions elvish > palisade.elv

Where the shell looks for them:
  bash        ~/.local/share/bash-completion/completions/palisade
  zsh         a file `_palisade` in a folder of $fpath
  fish        ~/.config/fish/completions/palisade.fish
  powershell  a line `. FOLDER\\palisade.ps1` in $PROFILE
  elvish      a line `eval (slurp < palisade.elv)` in rc.elv";

/// `palisade completions`
#[derive(Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// Prints the script.
pub(crate) fn run(arguments: &CompletionsArguments) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(
        arguments.shell,
        &mut Arguments::command(),
        "palisade",
        &mut script,
    );
    let script = String::from_utf8(script)
        .map_err(|error| Failure::Internal(format!("the script is no text: {error}")))?;
    stdout::text(&script)?;
    Ok(Exit::Permitted)
}
