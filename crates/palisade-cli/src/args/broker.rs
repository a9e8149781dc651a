//! The command line of the broker and what belongs to it.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::args::Format;

pub(crate) const LOAD_HELP: &str = "\
It asks on the terminal for the passwords of connections that are new, or whose
host, port, user or database changed, and tries each before it is stored.
Connections that name `password_env` or `password_file` are not asked for.

Examples:
  palisade load-connections --config palisade.toml
  palisade load-connections --config palisade.toml --store systemd-creds
  palisade load-connections --config palisade.toml --list
  palisade load-connections --config palisade.toml --rotate sales
  palisade load-connections --config palisade.toml --forget sales";

pub(crate) const BROKER_HELP: &str = "\
One process has the credentials, and decides; agents reach it by `palisade
relay`. `[broker]` of the configuration says who may connect.

Examples:
  palisade broker --config palisade.toml
  palisade broker --config palisade.toml status
  palisade broker --config palisade.toml end 0123456789abcdef
  palisade broker --config palisade.toml install-service --print";

pub(crate) const RELAY_HELP: &str = "\
An MCP client starts it in the place of `palisade serve`. Where the client's
sandbox forbids sockets, `palisade sandbox --hand-in` connects outside of it.

Examples:
  palisade relay --run broker/run --secret broker/secret
  palisade relay --parent 3 --secret \"$PALISADE_SECRET\"";

pub(crate) const SANDBOX_HELP: &str = "\
The command has no network and no home. It can connect to the broker, and can
read nothing else of it.

Examples:
  palisade sandbox --config palisade.toml --check
  palisade sandbox --config palisade.toml --print -- my-agent
  palisade sandbox --config palisade.toml --writable work -- my-agent
  palisade sandbox --config palisade.toml --landlock-only -- my-agent
  palisade sandbox --config palisade.toml --hand-in -- my-agent";

/// Where passwords are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreKind {
    /// Files that only their owner may read
    File,
    /// Credentials that systemd encrypts; as root
    SystemdCreds,
    /// The keyring of a desktop (secret service), or of macOS (keychain)
    #[value(alias = "keychain")]
    SecretService,
    /// Keys of the kernel, gone at reboot or after three days unused; every
    /// process of the user reads them
    Kernel,
}

/// `palisade load-connections`
#[derive(Debug, Args)]
pub(crate) struct LoadArguments {
    /// The configuration that the broker has
    #[arg(long, value_name = "FILE", default_value = "palisade.toml")]
    pub(crate) config: PathBuf,
    /// Where to keep them; if not given, in the keyring where there is one,
    /// else in files
    #[arg(long, value_enum)]
    pub(crate) store: Option<StoreKind>,
    /// The folder of systemd's encrypted credentials
    #[arg(long, value_name = "DIR", default_value = "/etc/credstore.encrypted")]
    pub(crate) credentials: PathBuf,
    /// List connections, and whether the password of each is stored
    #[arg(long, conflicts_with_all = ["forget", "rotate"])]
    pub(crate) list: bool,
    /// Remove the password of a connection
    #[arg(long, value_name = "NAME", conflicts_with = "rotate")]
    pub(crate) forget: Option<String>,
    /// Ask for the password of a connection though it is stored
    #[arg(long, value_name = "NAME")]
    pub(crate) rotate: Option<String>,
}

/// `palisade broker`
#[derive(Debug, Args)]
pub(crate) struct BrokerArguments {
    /// The configuration
    #[arg(long, value_name = "FILE", default_value = "palisade.toml")]
    pub(crate) config: PathBuf,
    /// What else to do than to serve.
    #[command(subcommand)]
    pub(crate) command: Option<BrokerCommand>,
}

/// What the operator does with a broker.
#[derive(Debug, Subcommand)]
pub(crate) enum BrokerCommand {
    /// Tell who is connected, and who was refused
    Status(StatusArguments),
    /// End a session, and its connection
    End(EndArguments),
    /// Write what starts the broker as a user of its own: a unit for systemd, or
    /// a property list for launchd on macOS
    InstallService(ServiceArguments),
}

/// `palisade broker status`
#[derive(Debug, Args)]
pub(crate) struct StatusArguments {
    /// How to print it
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
}

/// `palisade broker end`
#[derive(Debug, Args)]
pub(crate) struct EndArguments {
    /// The session, as `status` names it
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
}

/// `palisade broker install-service`
#[derive(Debug, Args)]
pub(crate) struct ServiceArguments {
    /// The user that it runs as
    #[arg(long, value_name = "NAME", default_value = "palisade")]
    pub(crate) user: String,
    /// The file to write, if not where the system looks for it
    #[arg(long, value_name = "FILE")]
    pub(crate) unit: Option<PathBuf>,
    /// Write for launchd, as on macOS
    #[arg(long)]
    pub(crate) launchd: bool,
    /// The folder of systemd's encrypted credentials
    #[arg(long, value_name = "DIR", default_value = "/etc/credstore.encrypted")]
    pub(crate) credentials: PathBuf,
    /// Print it, and write nothing
    #[arg(long)]
    pub(crate) print: bool,
}

/// `palisade relay`
#[derive(Debug, Args)]
pub(crate) struct RelayArguments {
    /// The folder of the broker's socket
    #[arg(long, value_name = "DIR", required_unless_present_any = ["fd", "parent"])]
    pub(crate) run: Option<PathBuf>,
    /// The folder of the secret that it brings
    #[arg(long, value_name = "DIR")]
    pub(crate) secret: PathBuf,
    /// The id of the user that the broker has to be; its own if not given
    #[arg(long, value_name = "UID")]
    pub(crate) broker_user: Option<u32>,
    /// Keep the session's secret in this file, for when the relay is started anew
    #[arg(long, value_name = "FILE")]
    pub(crate) resume: Option<PathBuf>,
    /// Use this descriptor, which is connected to the broker already
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(3..))]
    pub(crate) fd: Option<i32>,
    /// Take connections at this descriptor, from `palisade sandbox --hand-in`
    #[arg(long, value_name = "N", conflicts_with_all = ["fd", "run", "broker_user"],
        value_parser = clap::value_parser!(i32).range(3..))]
    pub(crate) parent: Option<i32>,
}

/// The same without what other commands have.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct RelayAlone {
    #[command(flatten)]
    arguments: RelayArguments,
}

impl RelayArguments {
    /// Those of a command line that is right, without the tree of all commands, which takes more memory than a relay does. None of
    /// another command; nor where something is to be said about it, which is for that tree.
    pub(crate) fn read_alone(mut words: impl Iterator<Item = OsString>) -> Option<Self> {
        words.next()?;
        let is_relay = words.next()? == "relay";
        let read = is_relay.then(|| RelayAlone::try_parse_from(words))?;
        read.ok().map(|RelayAlone { arguments }| arguments)
    }
}

/// `palisade sandbox`
#[derive(Debug, Args)]
pub(crate) struct SandboxArguments {
    /// The configuration that the broker has
    #[arg(long, value_name = "FILE", default_value = "palisade.toml")]
    pub(crate) config: PathBuf,
    /// The enrolment whose secret the command can read, instead of the usual one
    #[arg(long, value_name = "NAME")]
    pub(crate) enrolment: Option<String>,
    /// A folder that the command can read
    #[arg(long, value_name = "DIR")]
    pub(crate) readable: Vec<PathBuf>,
    /// A folder that the command can write to
    #[arg(long, value_name = "DIR")]
    pub(crate) writable: Vec<PathBuf>,
    /// Connect outside, and hand connections in at the descriptor 3
    #[arg(long, conflicts_with_all = ["landlock_only", "print", "check"])]
    pub(crate) hand_in: bool,
    /// Confine nothing: the command makes a sandbox or a container itself
    #[arg(long, requires = "hand_in", conflicts_with_all = ["readable", "writable"])]
    pub(crate) container: bool,
    /// Confine it by Landlock alone, where bubblewrap makes no sandbox
    #[arg(long, conflicts_with_all = ["print", "check"])]
    pub(crate) landlock_only: bool,
    /// Confine the command by Landlock, inside of bubblewrap
    #[arg(long, hide = true, conflicts_with_all = ["landlock_only", "print", "check", "enrolment", "hand_in"])]
    pub(crate) confine: bool,
    /// A folder of sockets, inside of bubblewrap
    #[arg(long = "socket", hide = true, requires = "confine", value_name = "DIR")]
    pub(crate) sockets: Vec<PathBuf>,
    /// Print the command, and run nothing
    #[arg(long)]
    pub(crate) print: bool,
    /// Tell whether this machine allows it
    #[arg(long, conflicts_with_all = ["print", "command"])]
    pub(crate) check: bool,
    /// The command
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "check")]
    pub(crate) command: Vec<OsString>,
}
