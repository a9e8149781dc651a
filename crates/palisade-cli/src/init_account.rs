//! What `palisade init` says of an account that is too strong: the way to another.

use std::{fmt::Write as _, path::Path};

use crate::{
    account::Account,
    database::Access,
    human,
    setup::Setup,
    setup_command::SetupCommand,
    shell_word::quote_word,
    target::{Engine, Target},
};

/// What the account is called that `setup-sql` prints.
const ROLE: &str = "palisade_reader";

/// An account with which `palisade serve` does not start.
pub(crate) struct StrongAccount<'t> {
    target: &'t Target,
    /// Its rights beyond reading, the worst first.
    pub(crate) excess: Vec<String>,
}

impl<'t> StrongAccount<'t> {
    /// That of `target`; none where it is not too strong. What cannot be looked at here is looked at by each start.
    pub(crate) fn find(setup: &Setup, target: &'t Target) -> Option<Self> {
        let account = Account::look(setup, target, Access::Read).ok()?;
        let found = account.weaknesses.into_iter();
        let excess: Vec<String> = found
            .filter(|weak| weak.is_refused())
            .map(|weak| weak.description)
            .collect();
        (!excess.is_empty()).then_some(Self { target, excess })
    }

    /// The command that prints another, by the policies of a folder.
    pub(crate) fn command(&self, policies: &Path) -> SetupCommand {
        let policies = policies.display().to_string();
        let command = self.target.setup_command(Access::Read);
        command.with(&["--policies", &policies])
    }

    /// What is left to do, where `policies` are in force and `configuration` names this account for the connection `name`.
    pub(crate) fn describe(&self, policies: &Path, configuration: &Path, name: &str) -> String {
        let mut out =
            "\nThe account can do more than read, and `palisade serve` does not start with it:\n"
                .to_owned();
        for told in &self.excess {
            out.push_str(&human::wrap(&format!("- {}", human::printable(told)), 2, 4));
        }
        let url = quote_word(self.target.url());
        let _ = write!(
            out,
            "Make another (with `--writable --steps` for one that changes what policies permit):\n  {} > account.sql\n",
            self.command(policies)
        );
        match self.target.engine() {
            Engine::Postgres => {
                let _ = write!(
                    out,
                    "  psql {url} -f account.sql\n  psql {url} -c {}\n",
                    quote_word(&format!("\\password {ROLE}"))
                );
            }
            Engine::Mysql => {
                let _ = write!(
                    out,
                    "  mysql {}-u {} -p < account.sql\nThe last lines of `account.sql` say how it gets a password.\n",
                    self.options_of_mysql(),
                    quote_word(self.target.user())
                );
            }
        }
        let file = format!("{name}.password");
        let quoted = |text: &str| toml::Value::from(text).to_string();
        let _ = write!(
            out,
            "Put the password into a file that only you may read, and write into `{}`:\n  [grants]\n  files = [{2}]\n  [connections.{1}]\n  url = {3}\n  password_file = {2}\n",
            configuration.display(),
            name,
            quoted(&file),
            quoted(&self.url_of_another()),
        );
        out
    }

    /// The URL with the other account.
    fn url_of_another(&self) -> String {
        let url = self.target.url();
        let parts = url.split_once("://").and_then(|(scheme, rest)| {
            let (_, place) = rest.split_once('@')?;
            Some((scheme, place))
        });
        match parts {
            Some((scheme, place)) => format!("{scheme}://{ROLE}@{place}"),
            None => url.to_owned(),
        }
    }

    /// `-h HOST -P PORT `, where it is no socket.
    fn options_of_mysql(&self) -> String {
        let endpoint = self.target.endpoints().first();
        match endpoint.and_then(|endpoint| endpoint.rsplit_once(':')) {
            Some((host, port)) if port.chars().all(|c| c.is_ascii_digit()) => {
                format!("-h {} -P {port} ", quote_word(host))
            }
            Some(_) | None => String::new(),
        }
    }
}
