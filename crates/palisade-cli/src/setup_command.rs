//! The `palisade setup-sql` that prints an account for a database, as it has to be given.

use std::{fmt, path::Path};

use crate::{
    args::{PolicyArguments, SecretArguments},
    database_name::Source,
    shell_word::quote_word,
};

/// The command, by the policies that are in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SetupCommand {
    words: Vec<String>,
    /// Whether a configuration says what the account is for.
    is_connection: bool,
}

impl SetupCommand {
    /// Of a database by its URL, and the built-in policies.
    pub(crate) fn of_url(url: &str) -> Self {
        Self {
            words: vec![url.to_owned()],
            is_connection: false,
        }
    }

    /// Of the connection of a configuration.
    pub(crate) fn of_connection(name: &str) -> Self {
        Self {
            words: vec![format!("connection:{name}")],
            is_connection: true,
        }
    }

    /// Of a database as the command line names it; none of one without accounts.
    pub(crate) fn of_source(source: &Source) -> Option<Self> {
        match source {
            Source::Server(_, url) => Some(Self::of_url(url)),
            Source::Connection(name) => Some(Self::of_connection(name)),
            Source::Sqlite(_) => None,
        }
    }

    /// With the policies and the password that the command line names.
    pub(crate) fn with_arguments(
        self,
        secret: &SecretArguments,
        arguments: &PolicyArguments,
    ) -> Self {
        let PolicyArguments {
            principal,
            policies,
            config,
        } = arguments;
        let SecretArguments {
            password_env,
            password_file,
        } = secret;
        let path = |path: &Path| path.display().to_string();
        let named = [
            ("--password-env", password_env.clone()),
            ("--password-file", password_file.as_deref().map(path)),
            ("--policies", policies.as_deref().map(path)),
            ("--config", config.as_deref().map(path)),
            ("--as", principal.as_ref().map(ToString::to_string)),
        ];
        named
            .into_iter()
            .fold(self, |command, (option, value)| match value {
                Some(value) => command.with(&[option, &value]),
                None => command,
            })
    }

    /// With these words too.
    pub(crate) fn with(mut self, words: &[&str]) -> Self {
        self.words
            .extend(words.iter().map(|word| (*word).to_owned()));
        self
    }

    /// For an account that changes what policies permit; a configuration says that by itself.
    pub(crate) fn writable(self) -> Self {
        match self.is_connection {
            true => self,
            false => self.with(&["--writable"]),
        }
    }
}

impl fmt::Display for SetupCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("palisade setup-sql")?;
        for word in &self.words {
            write!(f, " {}", quote_word(word))?;
        }
        Ok(())
    }
}
