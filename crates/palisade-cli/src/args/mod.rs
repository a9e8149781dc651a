//! The command line.

pub(crate) mod access_token;
pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod broker;
pub(crate) mod bundle;
pub(crate) mod config;
pub(crate) mod ledger;
pub(crate) mod lsp;
pub(crate) mod policy;
pub(crate) mod probe;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use palisade::{dialect::Dialect, session::Principal};

use crate::args::access_token::{TOKEN_HELP, TokenCommand};
use crate::args::approvals::{APPROVALS_HELP, APPROVE_HELP, ApprovalsArguments, ApproveArguments};
use crate::args::audit::{
    AUDIT_SHOW_HELP, AUDIT_VERIFY_HELP, AuditShowArguments, AuditVerifyArguments,
};
use crate::args::broker::{
    BROKER_HELP, BrokerArguments, LOAD_HELP, LoadArguments, RELAY_HELP, RelayArguments,
    SANDBOX_HELP, SandboxArguments,
};
use crate::args::bundle::{BUNDLE_HELP, BundleCommand};
use crate::args::config::ConfigCommand;
use crate::args::ledger::LedgerCommand;
use crate::args::lsp::{LSP_HELP, LspArguments};
use crate::args::policy::{
    DIFF_HELP, DiffArguments, FMT_HELP, FmtArguments, INIT_HELP, InitArguments, LEARN_HELP,
    LOCK_HELP, LearnArguments, LockArguments, POLICY_CHECK_HELP, PROMOTE_HELP, PROVE_HELP,
    PolicyCheckArguments, PromoteArguments, ProveArguments, REPL_HELP, REQUEST_HELP, ReplArguments,
    RequestArguments, TEST_HELP, TestArguments, WHAT_HELP, WHO_HELP, WhatArguments, WhoArguments,
};
use crate::args::probe::{PROBE_HELP, ProbeArguments};
use crate::changes::args::ChangesCommand;
use crate::completions::{COMPLETIONS_HELP, CompletionsArguments};
use crate::history::args::{HistoryCommand, SnapshotsCommand};
use crate::manual_pages::{MAN_HELP, ManArguments};
use crate::scan::{SCAN_HELP, ScanArguments};
use crate::{
    config::{Tools, audit::AuditArguments},
    mcp_config::Client,
    principal_name,
};

const EXIT_CODES: &str = "\
Exit codes: 0 permitted, 1 refused, 2 usage, 3 policies or configuration,
4 database unavailable, 5 internal.";

/// A SQL firewall for AI agents: decides what a statement may do, rewrites it
/// to show only what policy permits, runs it and scans what comes back.
#[derive(Debug, Parser)]
#[command(name = "palisade", version, max_term_width = 80, after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a small database with policies, and see what the firewall does
    #[command(
        after_help = "Examples:\n  palisade demo\n  palisade demo changes\n  palisade demo --dir try-it"
    )]
    Demo(DemoArguments),
    /// Run one statement, or a batch of them, through the firewall
    #[command(after_help = QUERY_HELP)]
    Query(QueryArguments),
    /// Run statements that may change what policy permits to change
    #[command(after_help = EXECUTE_HELP)]
    Execute(QueryArguments),
    /// Run a template of the policy folder
    #[command(after_help = RUN_HELP)]
    Run(RunArguments),
    /// List the tables that exist for a principal
    #[command(after_help = TABLES_HELP)]
    Tables(TablesArguments),
    /// Describe a table as a principal may know it
    #[command(after_help = DESCRIBE_HELP)]
    Describe(DescribeArguments),
    /// Decide about a statement without a database
    #[command(after_help = CHECK_HELP)]
    Check(CheckArguments),
    /// Decide about a statement, and tell what it touches and which policies decide
    #[command(after_help = EXPLAIN_HELP)]
    Explain(ExplainArguments),
    /// Search a text for what would instruct a model, without a database
    #[command(after_help = SCAN_HELP)]
    Scan(ScanArguments),
    /// Serve databases to an MCP client over standard input and output
    #[command(after_help = SERVE_HELP)]
    Serve(ServeArguments),
    /// Ask for the passwords of the broker's connections, and store them
    #[command(after_help = LOAD_HELP)]
    LoadConnections(LoadArguments),
    /// Serve databases at a private socket, for agents that must not have credentials
    #[command(after_help = BROKER_HELP)]
    Broker(BrokerArguments),
    /// Connect an MCP client's standard input and output to the broker
    #[command(after_help = RELAY_HELP)]
    Relay(RelayArguments),
    /// Run a command that can reach the broker, and neither network nor home
    #[command(after_help = SANDBOX_HELP)]
    Sandbox(SandboxArguments),
    /// Print what an MCP client has to be told to start `serve`, or write it into the client's file
    #[command(after_help = MCP_CONFIG_HELP)]
    McpConfig(McpConfigArguments),
    /// Check a configuration, or print the schema of configurations
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Propose changes, look at what they do row by row, approve, keep and undo them
    #[command(subcommand)]
    Changes(ChangesCommand),
    /// Show the receipts of changes, and tell whether they are what was written
    #[command(subcommand)]
    Ledger(LedgerCommand),
    /// Print the SQL that keeps every state of tables, so that they can be read as they were
    #[command(subcommand)]
    History(HistoryCommand),
    /// Give moments names, as of which tables can be read
    #[command(subcommand)]
    Snapshots(SnapshotsCommand),
    /// List the statements that wait for a person's approval
    #[command(after_help = APPROVALS_HELP)]
    Approvals(ApprovalsArguments),
    /// Approve one of them, or reject it
    #[command(after_help = APPROVE_HELP)]
    Approve(ApproveArguments),
    /// Make, list and revoke access tokens of the server over HTTP
    #[command(subcommand, after_help = TOKEN_HELP)]
    Token(TokenCommand),
    /// Read audit records, and tell whether they are what was written
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Look at what a database's account may do beyond reading, or at the way of clients to a server
    #[command(after_help = DOCTOR_HELP)]
    Doctor(DoctorArguments),
    /// Print the SQL that makes an account with no more than the policies need
    #[command(after_help = SETUP_SQL_HELP)]
    SetupSql(SetupSqlArguments),
    /// Make a working folder for the policies of a database
    #[command(after_help = INIT_HELP)]
    Init(InitArguments),
    /// Work on policy folders
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Serve an editor in which policies are written, by the language server protocol
    #[command(after_help = LSP_HELP)]
    Lsp(LspArguments),
    /// Ask a server over HTTP whether it is well, as container engines do
    #[command(after_help = PROBE_HELP)]
    Probe(ProbeArguments),
    /// Print what a shell needs to complete commands and options
    #[command(after_help = COMPLETIONS_HELP)]
    Completions(CompletionsArguments),
    /// Print the manual page of `palisade`, or write those of all commands
    #[command(after_help = MAN_HELP)]
    Man(ManArguments),
}

/// The commands of audit logs.
#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Tell whether a log is what was written
    #[command(after_help = AUDIT_VERIFY_HELP)]
    Verify(AuditVerifyArguments),
    /// Read a log, or replay what a session did
    #[command(after_help = AUDIT_SHOW_HELP)]
    Show(AuditShowArguments),
}

const QUERY_HELP: &str = "\
Examples (after `palisade demo`):
  palisade query sqlite:demo.db \"SELECT id, name FROM customers\"
  palisade query sqlite:demo.db --policies demo-policies \\
    --as 'Agent::\"support-bot\"' \"SELECT * FROM customers\"
  palisade query sqlite:demo.db --params '[1]' \\
    \"SELECT subject FROM tickets WHERE id = ?\"
  echo '{\"id\": 1, \"sql\": \"SELECT 1\"}' | palisade query sqlite:demo.db --batch -

Examples for PostgreSQL (`palisade setup-sql` prints the account):
  palisade query postgres://palisade_reader@localhost:5432/sales \\
    --password-env SALES_PASSWORD \"SELECT 1\"
  palisade query postgres://palisade_reader@localhost:5432/sales \\
    --password-file sales.password --params '[1]' 'SELECT $1::int'

Examples for MySQL and MariaDB:
  palisade query mysql://palisade_reader@localhost:3306/sales \\
    --password-env SALES_PASSWORD \"SELECT 1\"";

const EXECUTE_HELP: &str = "\
The database is opened for writing, each statement is one transaction, and what
would change more rows than the limit (`max_affected_rows`) changes nothing.
Policies permit changes by `insert`, `update`, `delete` on tables, `write` on
columns and `change` and `add` on rows; `query` refuses them whatever policies
say.

Examples (after `palisade demo`):
  palisade execute sqlite:demo.db --policies demo-policies \\
    --as 'Agent::\"support-bot\"' \\
    \"UPDATE tickets SET status = 'closed' WHERE id = 1\"

Example for PostgreSQL:
  palisade execute postgres://desk_writer@localhost:5432/sales \\
    --password-env SALES_PASSWORD --params '[1]' \\
    'UPDATE tickets SET status = $$closed$$ WHERE id = $1'";

const RUN_HELP: &str = "\
Templates stand in `templates.toml` of the policy folder: statements with names
and typed parameters. Policies permit `run` on them, and what their statements
touch like that of any other, for which they may look at `context.template`.

Example, of a template `tickets-of` with parameters `owner` and `after`:
  palisade run sqlite:demo.db tickets-of --policies my-policies \\
    --as 'Agent::\"support-bot\"' --param owner=ann --param after=3";

const TABLES_HELP: &str = "\
Example (after `palisade demo`):
  palisade tables sqlite:demo.db --policies demo-policies \\
    --as 'Agent::\"support-bot\"'";

const DESCRIBE_HELP: &str = "\
Example (after `palisade demo`):
  palisade describe sqlite:demo.db customers --policies demo-policies \\
    --as 'Agent::\"support-bot\"'";

const CHECK_HELP: &str = "\
Examples (after `palisade demo`):
  palisade check --catalog sqlite:demo.db \"SELECT * FROM customers\"
  palisade check --dialect sqlite --catalog sqlite:demo.db \\
    --policies demo-policies --as 'Agent::\"support-bot\"' \\
    --format json \"DELETE FROM tickets\"

`--catalog` also takes postgres://USER@HOST/DATABASE,
mysql://USER@HOST/DATABASE, and a file of CREATE statements, SQLite's if no
--dialect says otherwise.";

const EXPLAIN_HELP: &str = "\
Examples (after `palisade demo`):
  palisade explain sqlite:demo.db \"SELECT * FROM customers\"
  palisade explain --catalog sqlite:demo.db --policies demo-policies \\
    --as 'Agent::\"support-bot\"' \"SELECT count(*) FROM tickets\"
  palisade explain sqlite:demo.db --policies demo-policies \\
    --as 'Agent::\"support-bot\"' --html explained.html \\
    \"SELECT email FROM customers\"

`--catalog` also takes postgres://USER@HOST/DATABASE,
mysql://USER@HOST/DATABASE, and a file of CREATE statements, SQLite's if no
--dialect says otherwise.";

const SERVE_HELP: &str = "\
Examples (after `palisade demo`):
  palisade serve sqlite:demo.db < /dev/null
  palisade serve sqlite:demo.db --policies demo-policies \\
    --as 'Agent::\"support-bot\"' --audit audit.jsonl < /dev/null
  echo 'CREATE TABLE notes (body TEXT);' > schema.sql
  palisade serve --in-memory --init schema.sql < /dev/null
  PALISADE_DATABASE=sqlite:demo.db palisade serve < /dev/null
  palisade serve sqlite:demo.db --writable --policies demo-policies < /dev/null

Examples for PostgreSQL (`palisade setup-sql` prints the account):
  palisade serve postgres://palisade_reader@localhost:5432/sales \\
    --password-env SALES_PASSWORD < /dev/null

Examples for several connections (each call of a tool names one):
  palisade serve --config palisade.toml < /dev/null
  palisade serve connection:sales connection:hr --config palisade.toml

Examples for MySQL and MariaDB:
  palisade serve mysql://palisade_reader@localhost:3306/sales \\
    --password-env SALES_PASSWORD < /dev/null";

const MCP_CONFIG_HELP: &str = "\
Examples (after `palisade demo`):
  palisade mcp-config --list
  palisade mcp-config claude-desktop sqlite:demo.db --policies demo-policies \\
    --as 'Agent::\"support-bot\"'
  palisade mcp-config cursor sqlite:demo.db --file cursor.json --write";

const DOCTOR_HELP: &str = "\
Examples for PostgreSQL:
  palisade doctor postgres://palisade_reader@localhost:5432/sales \\
    --password-env SALES_PASSWORD
  palisade doctor postgres://palisade_reader@localhost:5432/sales --format json

Examples for MySQL and MariaDB:
  palisade doctor mysql://palisade_reader@localhost:3306/sales \\
    --password-env SALES_PASSWORD

Example for a server over HTTP: what a client does before it has a token, and
which clients can do it. Nothing is registered, and no token is sent.
  palisade doctor --mcp https://palisade.example.com/mcp

With --policies it also says what they let somebody see that the account cannot
read. Exit code 1: something is weak. 4: the database or server is not reached.";

const SETUP_SQL_HELP: &str = "\
Examples for PostgreSQL (nothing is changed; the account that looks may be any):
  palisade setup-sql postgres://postgres@localhost:5432/sales
  palisade setup-sql postgres://postgres@localhost:5432/sales \\
    --role sales_reader > account.sql
  palisade setup-sql postgres://postgres@localhost:5432/sales \\
    --writable --steps > writer.sql

Then, as a superuser: psql -d sales -f account.sql

Examples for MySQL and MariaDB:
  palisade setup-sql mysql://root@localhost:3306/sales > account.sql

Then, as one who may create accounts: mysql < account.sql";

/// `palisade demo`
#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    /// Another story than that of queries
    #[arg(value_name = "STORY")]
    pub(crate) story: Option<DemoStory>,
    /// The folder for demo.db and demo-policies, or demo-changes; the current one
    /// if not given
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// What `palisade demo` tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DemoStory {
    /// An agent's change is looked at, rejected, approved, kept and undone
    Changes,
}

/// `palisade query`
#[derive(Debug, Args)]
pub(crate) struct QueryArguments {
    /// sqlite:FILE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, or
    /// connection:NAME of the configuration
    #[arg(value_name = "DATABASE")]
    pub(crate) source: String,
    #[command(flatten)]
    pub(crate) secret: SecretArguments,
    #[command(flatten)]
    pub(crate) statement: StatementArguments,
    #[command(flatten)]
    pub(crate) policies: PolicyArguments,
    /// Return at most this many rows; it can only lower the limit
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_rows: Option<u64>,
    /// Read tables as they were: at a snapshot, by its name, or at a time as
    /// 2026-01-01T00:00:00Z
    #[arg(long, value_name = "MOMENT")]
    pub(crate) as_of: Option<String>,
    #[command(flatten)]
    pub(crate) audit: AuditArguments,
}

/// `palisade run`
#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// sqlite:FILE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, or
    /// connection:NAME of the configuration
    #[arg(value_name = "DATABASE")]
    pub(crate) source: String,
    /// The template's name
    #[arg(value_name = "TEMPLATE")]
    pub(crate) template: String,
    /// A parameter; without `=VALUE` it is NULL. Each must be given
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) param: Vec<String>,
    /// Open the database for writing, for a template that changes data
    #[arg(long)]
    pub(crate) write: bool,
    #[command(flatten)]
    pub(crate) secret: SecretArguments,
    #[command(flatten)]
    pub(crate) policies: PolicyArguments,
    /// Return at most this many rows; it can only lower the limit
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_rows: Option<u64>,
    #[command(flatten)]
    pub(crate) audit: AuditArguments,
    /// How to print the answer
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
}

/// `palisade tables`
#[derive(Debug, Args)]
pub(crate) struct TablesArguments {
    /// sqlite:FILE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, or
    /// connection:NAME of the configuration
    #[arg(value_name = "DATABASE")]
    pub(crate) source: String,
    #[command(flatten)]
    pub(crate) secret: SecretArguments,
    #[command(flatten)]
    pub(crate) policies: PolicyArguments,
    /// How to print the answer
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
}

/// `palisade describe`
#[derive(Debug, Args)]
pub(crate) struct DescribeArguments {
    /// sqlite:FILE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, or
    /// connection:NAME of the configuration
    #[arg(value_name = "DATABASE")]
    pub(crate) source: String,
    /// The table or view, with its schema where several have one of that name
    #[arg(value_name = "TABLE")]
    pub(crate) table: String,
    #[command(flatten)]
    pub(crate) secret: SecretArguments,
    #[command(flatten)]
    pub(crate) policies: PolicyArguments,
    /// How to print the answer
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
}

/// `palisade check`
#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    /// The SQL dialect, where the schema does not say it
    #[arg(long, value_parser = dialect)]
    pub(crate) dialect: Option<Dialect>,
    /// The schema: a database, or a file of CREATE statements
    #[arg(long, value_name = "SCHEMA")]
    pub(crate) catalog: String,
    #[command(flatten)]
    pub(crate) secret: SecretArguments,
    #[command(flatten)]
    pub(crate) statement: StatementArguments,
    #[command(flatten)]
    pub(crate) policies: PolicyArguments,
}

/// `palisade explain`
#[derive(Debug, Args)]
#[command(
    override_usage = "palisade explain [OPTIONS] <DATABASE> <SQL>\n       \
                            palisade explain [OPTIONS] --catalog <SCHEMA> <SQL>"
)]
pub(crate) struct ExplainArguments {
    /// The database, unless --catalog is given, and the statement (`-`: read
    /// it from standard input)
    #[arg(value_name = "DATABASE SQL", num_args = 0..=2)]
    pub(crate) words: Vec<String>,
    /// The SQL dialect, where the schema does not say it
    #[arg(long, value_parser = dialect)]
    pub(crate) dialect: Option<Dialect>,
    /// The schema: a database, or a file of CREATE statements
    #[arg(long, value_name = "SCHEMA")]
    pub(crate) catalog: Option<String>,
    /// Write the explanation into this file, as a page for a browser
    #[arg(long, value_name = "FILE", conflicts_with_all = ["batch", "format"])]
    pub(crate) html: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) secret: SecretArguments,
    #[command(flatten)]
    pub(crate) form: FormArguments,
    #[command(flatten)]
    pub(crate) policies: PolicyArguments,
}

/// `palisade serve`
#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// sqlite:FILE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, or
    /// one or more connection:NAME of the configuration. If none is named: all
    /// connections of --config, or else what PALISADE_DATABASE holds
    #[arg(value_name = "DATABASE")]
    pub(crate) sources: Vec<String>,
    /// Serve a SQLite database in memory, which is gone with the server
    #[arg(long, conflicts_with = "sources")]
    pub(crate) in_memory: bool,
    /// The statements that fill it; empty if not given
    #[arg(
        long,
        visible_alias = "init",
        value_name = "FILE",
        requires = "in_memory",
        // A requirement that conflicts with what is there is not asked for.
        conflicts_with = "sources"
    )]
    pub(crate) schema: Option<PathBuf>,
    /// Change nothing, whatever the configuration says of its connections
    #[arg(long, conflicts_with = "writable")]
    pub(crate) read_only: bool,
    /// Offer the tool `execute`, which changes what policies permit; of connections
    /// of the configuration `writable = true` there says so
    #[arg(long)]
    pub(crate) writable: bool,
    /// Serve over HTTP at this address, for example 127.0.0.1:8080, clients who bring
    /// access tokens; `[http]` of --config says more
    #[arg(long, value_name = "ADDRESS", requires = "config")]
    pub(crate) http: Option<String>,
    /// The tools to offer; of the configuration `tools` says so
    #[arg(long, value_enum)]
    pub(crate) tools: Option<Tools>,
    #[command(flatten)]
    pub(crate) secret: SecretArguments,
    #[command(flatten)]
    pub(crate) policies: PolicyArguments,
    #[command(flatten)]
    pub(crate) audit: AuditArguments,
}

/// `palisade mcp-config`
#[derive(Debug, Args)]
pub(crate) struct McpConfigArguments {
    /// The client
    #[arg(value_enum, required_unless_present = "list")]
    pub(crate) client: Option<Client>,
    /// Name the clients, and the file of each
    #[arg(long, conflicts_with_all = ["write", "file"])]
    pub(crate) list: bool,
    /// Add the server to the client's file, and keep a copy of what stood there
    #[arg(long)]
    pub(crate) write: bool,
    /// Another file than the client's usual one
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// What the client calls the server
    #[arg(long, value_name = "NAME", default_value = "palisade")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) serve: ServeArguments,
}

/// `palisade doctor`
#[derive(Debug, Args)]
#[command(override_usage = "palisade doctor [OPTIONS] <DATABASE>\n       \
                            palisade doctor --mcp <URL> [--format <FORMAT>]")]
pub(crate) struct DoctorArguments {
    /// postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, or
    /// connection:NAME of the configuration
    #[arg(value_name = "DATABASE", required_unless_present = "mcp")]
    pub(crate) source: Option<String>,
    /// Go the way of a client to the server over HTTP at this address instead
    #[arg(
        long,
        value_name = "URL",
        conflicts_with_all = ["source", "writable", "password_env", "password_file", "principal", "policies", "config"]
    )]
    pub(crate) mcp: Option<String>,
    /// The account is to change what policies permit
    #[arg(long)]
    pub(crate) writable: bool,
    #[command(flatten)]
    pub(crate) secret: SecretArguments,
    #[command(flatten)]
    pub(crate) policies: PolicyArguments,
    /// How to print what is found
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
}

/// `palisade setup-sql`
#[derive(Debug, Args)]
pub(crate) struct SetupSqlArguments {
    /// postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, or
    /// connection:NAME of the configuration; of sqlite:FILE, which has no
    /// accounts, it prints the tables of `--writable --steps` alone
    #[arg(value_name = "DATABASE")]
    pub(crate) source: String,
    #[command(flatten)]
    pub(crate) secret: SecretArguments,
    /// The account is to change what policies permit
    #[arg(long)]
    pub(crate) writable: bool,
    /// The account is to change it in steps: a table of receipts, and whole rows
    /// of what it changes
    #[arg(long)]
    pub(crate) steps: bool,
    /// What the account is called; of MySQL NAME@HOST, from which it may log in,
    /// or from where this command does  [default: palisade_reader, with --writable
    /// palisade_writer, with --update the account of the URL]
    #[arg(long, value_name = "NAME")]
    pub(crate) role: Option<String>,
    /// Print all grants for an account that exists, not how to make one: what it
    /// holds already is granted again, which changes nothing
    #[arg(long)]
    pub(crate) update: bool,
    #[command(flatten)]
    pub(crate) policies: PolicyArguments,
}

/// The statement and how to answer.
#[derive(Debug, Args)]
pub(crate) struct StatementArguments {
    /// The statement; `-` reads it from standard input
    #[arg(
        value_name = "SQL",
        required_unless_present = "batch",
        conflicts_with = "batch",
        allow_hyphen_values = true
    )]
    pub(crate) sql: Option<String>,
    #[command(flatten)]
    pub(crate) form: FormArguments,
}

/// Everything about the statement but its text.
#[derive(Debug, Args)]
pub(crate) struct FormArguments {
    /// The statement's parameters, a JSON array or object; docs/reference/types.md says how
    /// values of each type are given
    #[arg(long, value_name = "JSON", conflicts_with = "batch")]
    pub(crate) params: Option<String>,
    /// Answer JSON lines {"id", "sql", "params"?, "as"?} from a file, or from
    /// standard input (`-`), in order, with one JSON line each
    #[arg(long, value_name = "FILE")]
    pub(crate) batch: Option<PathBuf>,
    /// How to print the answer; those of a batch are JSON lines
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
}

/// Who asks, and by what it is decided.
#[derive(Debug, Args)]
pub(crate) struct PolicyArguments {
    /// Who asks, for example 'Agent::"support-bot"'  [default: Agent::"default"]
    #[arg(long = "as", value_name = "PRINCIPAL", value_parser = principal_name::parse_as)]
    pub(crate) principal: Option<Principal>,
    /// The policy folder; the built-in starter policies if not given
    #[arg(long, value_name = "DIR")]
    pub(crate) policies: Option<PathBuf>,
    /// A configuration file; what the command line says goes before it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// Where the password of a database's account is. Never the password itself: every process on the machine
/// can read a command line.
#[derive(Debug, Default, Args)]
pub(crate) struct SecretArguments {
    /// The database's password is in this variable of the environment
    #[arg(long, value_name = "NAME", conflicts_with = "password_file")]
    pub(crate) password_env: Option<String>,
    /// The database's password is in this file, which only its owner may read
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
}

/// `palisade policy`
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Print the starter policies, or write them to a folder to edit
    #[command(
        after_help = "Examples (the last after `palisade demo`):\n  palisade policy print-starter\n  palisade policy print-starter --dir my-policies\n  palisade policy print-starter --explain sqlite:demo.db"
    )]
    PrintStarter(StarterArguments),
    /// Load a policy folder against a schema and report what is wrong or odd
    #[command(after_help = POLICY_CHECK_HELP)]
    Check(PolicyCheckArguments),
    /// Print the Cedar schema that policies are checked against
    #[command(
        after_help = "Examples (after `palisade demo`):\n  palisade policy schema --catalog sqlite:demo.db"
    )]
    Schema(PolicySchemaArguments),
    /// Decide about a statement, as `palisade explain` does
    #[command(hide = true)]
    Explain(ExplainArguments),
    /// Lay out the policies of a folder as Cedar's formatter does
    #[command(after_help = FMT_HELP)]
    Fmt(FmtArguments),
    /// Run the tests of a policy folder
    #[command(after_help = TEST_HELP)]
    Test(TestArguments),
    /// Ask statements one after another as a principal
    #[command(after_help = REPL_HELP)]
    Repl(ReplArguments),
    /// Pack, sign and verify policies for servers that pull them
    #[command(subcommand, after_help = BUNDLE_HELP)]
    Bundle(BundleCommand),
    /// Write down what every principal may do, for review
    #[command(after_help = LOCK_HELP)]
    Lock(LockArguments),
    /// Say what changes for whom between two policy folders
    #[command(after_help = DIFF_HELP)]
    Diff(DiffArguments),
    /// Let a policy folder on trial decide from now on
    #[command(after_help = PROMOTE_HELP)]
    Promote(PromoteArguments),
    /// Prove or refute properties of policies, over these entities and tables
    #[command(after_help = PROVE_HELP)]
    Prove(ProveArguments),
    /// Propose the least policies for what was asked, or what to take away
    #[command(after_help = LEARN_HELP)]
    Learn(LearnArguments),
    /// Write down what a refusal would take to be none, for a person to review
    #[command(after_help = REQUEST_HELP)]
    Request(RequestArguments),
    /// List what every principal sees of a table or a column
    #[command(after_help = WHO_HELP)]
    Who(WhoArguments),
    /// List what a principal may do
    #[command(after_help = WHAT_HELP)]
    What(WhatArguments),
}

/// `palisade policy print-starter`
#[derive(Debug, Args)]
pub(crate) struct StarterArguments {
    /// Write the files into this folder, which must be new or empty
    #[arg(long, value_name = "DIR", conflicts_with = "explain")]
    pub(crate) dir: Option<PathBuf>,
    /// Show what the policies make of each column of this database, or of a file of CREATE statements
    #[arg(long, value_name = "DATABASE")]
    pub(crate) explain: Option<String>,
    /// How that is shown
    #[arg(long, value_enum, default_value = "text", requires = "explain")]
    pub(crate) format: Format,
    /// The SQL dialect, where the schema does not say it
    #[arg(long, value_parser = dialect, requires = "explain")]
    pub(crate) dialect: Option<Dialect>,
    #[command(flatten)]
    pub(crate) secret: SecretArguments,
    /// A configuration file that names the connection
    #[arg(long, value_name = "FILE", requires = "explain")]
    pub(crate) config: Option<PathBuf>,
}

/// `palisade policy schema`
#[derive(Debug, Args)]
pub(crate) struct PolicySchemaArguments {
    #[command(flatten)]
    pub(crate) folder: PolicyFolderArguments,
    /// How to print it; as JSON `principals` and `catalog` are texts in Cedar's syntax
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
}

/// A policy folder and a schema.
#[derive(Debug, Args)]
pub(crate) struct PolicyFolderArguments {
    /// The SQL dialect, where the schema does not say it
    #[arg(long, value_parser = dialect)]
    pub(crate) dialect: Option<Dialect>,
    /// The schema: a database, or a file of CREATE statements
    #[arg(long, value_name = "SCHEMA")]
    pub(crate) catalog: String,
    #[command(flatten)]
    pub(crate) secret: SecretArguments,
    /// The policy folder; the built-in starter policies if not given
    #[arg(long, value_name = "DIR")]
    pub(crate) policies: Option<PathBuf>,
    /// A configuration file; what the command line says goes before it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// How an answer is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people: a table, as wide as the terminal.
    Text,
    /// One JSON object.
    Json,
}

pub(crate) fn dialect(name: &str) -> Result<Dialect, String> {
    Dialect::from_name(name).ok_or_else(|| {
        format!("`{name}` is not a dialect; there are `sqlite`, `postgres` and `mysql`")
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Arguments;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    /// Commands that print nothing a program would read as JSON, with the reason.
    const WITHOUT_FORMAT: &[(&str, &str)] = &[
        ("demo", "it writes files, and tells a person what to try"),
        (
            "serve",
            "its output is the protocol, and its log has a form of its own",
        ),
        (
            "load-connections",
            "the service manager starts it, and reads a configuration",
        ),
        ("broker end", "it says nothing but whether it was done"),
        (
            "broker install-service",
            "it prints the unit of another program",
        ),
        ("relay", "its output is the protocol"),
        ("sandbox", "it becomes the command that it is given"),
        ("mcp-config", "its output is JSON"),
        ("config schema", "its output is JSON"),
        ("token revoke", "it says nothing but whether it was done"),
        ("setup-sql", "its output is SQL"),
        ("lsp", "its output is the protocol"),
        ("probe", "its answer is the exit code"),
        ("completions", "its output is a script of a shell"),
        ("man", "its output is pages for `man`"),
    ];

    fn list_without_format(command: &clap::Command, path: &str, found: &mut Vec<String>) {
        for inner in command.get_subcommands() {
            let path = format!("{path} {}", inner.get_name());
            let path = path.trim_start();
            if inner.has_subcommands() {
                list_without_format(inner, path, found);
            } else if inner
                .get_arguments()
                .all(|argument| argument.get_id() != "format")
            {
                found.push(path.to_owned());
            }
        }
    }

    /// Programs read what commands print, so that each has `--format json` or a reason why not.
    #[test]
    fn every_command_prints_json_or_says_why_not() {
        let mut found = Vec::new();
        list_without_format(&Arguments::command(), "", &mut found);
        let listed: Vec<&str> = WITHOUT_FORMAT.iter().map(|(name, _)| *name).collect();
        assert_eq!(found, listed);
    }

    /// What is wider is broken where it happens to be.
    #[test]
    fn what_follows_the_options_is_no_wider_than_it_is_shown() {
        for command in Arguments::command().get_subcommands() {
            let text = command.get_after_help().map(ToString::to_string);
            for line in text.unwrap_or_default().lines() {
                assert!(line.chars().count() <= 80, "{}: {line}", command.get_name());
            }
        }
    }
}
