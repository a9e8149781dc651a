//! The command line of the policy workbench.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use palisade::{dialect::Dialect, session::Principal};
use palisade_corpus::Covered;

use crate::{
    args::{Format, PolicyArguments, PolicyFolderArguments, SecretArguments, dialect},
    principal_name,
};

pub(crate) const TEST_HELP: &str = "\
The folder's `tests` hold cases and matrices in `*.toml`, and tables in `*.sql`,
SQLite's if no `NAME.postgres.sql` or `NAME.mysql.sql` says otherwise. Nothing
but these files is needed, and no database is changed.

Examples (after `palisade demo`):
  palisade policy test demo-policies
  palisade policy test demo-policies --filter tickets --verbose
  palisade policy test demo-policies --format junit > junit.xml
  palisade policy test demo-policies --update
  palisade policy test demo-policies --coverage --fail-under policies=100
  palisade policy test demo-policies --mutate
  palisade policy test demo-policies --lint
  palisade policy test demo-policies --generate demo-generated

Exit code 1: a case does not hold. 2: a file of tests is wrong.";

/// `palisade policy test`
#[derive(Debug, Args)]
pub(crate) struct TestArguments {
    /// The policy folder
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Run only cases whose name contains this; `tests/FILE: NAME` is whole
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// How to print what is found
    #[arg(long, default_value = "text")]
    pub(crate) format: TestFormat,
    /// Print every case, and those that fail whole
    #[arg(long)]
    pub(crate) verbose: bool,
    /// Write what came out into the files of tests, and print what that changes
    #[arg(long, conflicts_with = "watch")]
    pub(crate) update: bool,
    /// With --update: print the changes, and write nothing
    #[arg(long, requires = "update")]
    pub(crate) dry_run: bool,
    /// Say which policies, tables, columns, principals and actions no case touches, and which
    /// conditions were never true or never false
    #[arg(long)]
    pub(crate) coverage: bool,
    /// With --coverage: of policies and conditions, measure those alone whose lines changed
    /// since this Git revision
    #[arg(long, value_name = "REF", requires = "coverage")]
    pub(crate) since: Option<String>,
    /// With --coverage: write an LCOV tracefile over the lines of the policies
    #[arg(long, value_name = "FILE", requires = "coverage")]
    pub(crate) lcov: Option<PathBuf>,
    /// With --coverage: write a page for a browser
    #[arg(long, value_name = "FILE", requires = "coverage")]
    pub(crate) html: Option<PathBuf>,
    /// Fail where less of a kind is tested, for example policies=100
    #[arg(long, value_name = "KIND=PERCENT", requires = "coverage", value_parser = least)]
    pub(crate) fail_under: Vec<(&'static str, usize)>,
    /// Change each policy in one place at a time, and show the changes that no case notices
    #[arg(long, conflicts_with = "update")]
    pub(crate) mutate: bool,
    /// Say which cases prove nothing, and which principals nothing else knows
    #[arg(long, conflicts_with = "update")]
    pub(crate) lint: bool,
    /// With --lint: what makes the command fail beside cases that do not hold
    #[arg(long, default_value = "error", requires = "lint")]
    pub(crate) fail_on: FailOn,
    /// Run again whenever a file of the folder changes
    #[arg(long)]
    pub(crate) watch: bool,
    /// Write the policies with generated tests into this new folder, and run them:
    /// rows that conditions take and leave, and a statement for each use of a column
    #[arg(
        long,
        value_name = "NEW",
        conflicts_with_all = ["update", "coverage", "mutate", "lint", "watch", "filter", "verbose"]
    )]
    pub(crate) generate: Option<PathBuf>,
    /// With --generate: the tables, a catalog in the tests of DIR
    #[arg(long, value_name = "NAME", requires = "generate")]
    pub(crate) catalog: Option<String>,
}

/// How the outcome of tests is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TestFormat {
    /// For people: what failed, and why.
    Text,
    /// One JSON object.
    Json,
    /// JUnit's XML.
    Junit,
    /// The Test Anything Protocol.
    Tap,
    /// Commands of a GitHub workflow, which annotates lines.
    Github,
    /// SARIF 2.1.0.
    Sarif,
}

pub(crate) const FMT_HELP: &str = "\
Comments and annotations stay. A file that does not parse stays as it is.

Examples (after `palisade demo`):
  palisade policy fmt demo-policies
  palisade policy fmt demo-policies --check

Exit code 1: with --check, a file would be formatted. 3: a file does not parse.";

/// `palisade policy fmt`
#[derive(Debug, Args)]
pub(crate) struct FmtArguments {
    /// The policy folder
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Print what would change, and write nothing
    #[arg(long)]
    pub(crate) check: bool,
    /// How to print it
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
}

pub(crate) const REPL_HELP: &str = "\
A statement ends with `;` at the end of a line, or with an empty line. `:help`
lists the commands. A database is only read; one in memory may be changed.

Examples (after `palisade demo`):
  echo 'SELECT email FROM customers;' | palisade policy repl sqlite:demo.db \\
    --policies demo-policies --as 'Agent::\"support-bot\"'
  palisade policy repl --init demo-policies/tests/demo.sql \\
    --policies demo-policies --as 'Agent::\"support-bot\"' \\
    'SELECT subject FROM tickets' < /dev/null

The exit code is 0, whatever is refused.";

/// `palisade policy repl`
#[derive(Debug, Args)]
#[command(
    override_usage = "palisade policy repl [OPTIONS] <DATABASE> [SQL]\n       \
                            palisade policy repl [OPTIONS] --init <FILE> [SQL]\n       \
                            palisade policy repl [OPTIONS] --catalog <SCHEMA> [SQL]"
)]
pub(crate) struct ReplArguments {
    /// The database, unless --init or --catalog is given, and a first statement
    #[arg(value_name = "DATABASE SQL", num_args = 0..=2)]
    pub(crate) words: Vec<String>,
    /// Ask a SQLite database in memory that the statements of this file fill
    #[arg(long, value_name = "FILE", conflicts_with = "catalog")]
    pub(crate) init: Option<PathBuf>,
    /// Decide over this schema and run nothing: a database, or a file of CREATE
    /// statements
    #[arg(long, value_name = "SCHEMA")]
    pub(crate) catalog: Option<String>,
    /// The SQL dialect, where the schema does not say it
    #[arg(long, value_parser = dialect, requires = "catalog")]
    pub(crate) dialect: Option<Dialect>,
    /// The parameters of statements, a JSON array or object
    #[arg(long, value_name = "JSON")]
    pub(crate) params: Option<String>,
    /// How to print answers
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) secret: SecretArguments,
    #[command(flatten)]
    pub(crate) policies: PolicyArguments,
}

pub(crate) const LOCK_HELP: &str = "\
The file says what every principal sees and may change, one line a cell, for
review. `palisade policy test` fails where it is not what the policies give.

Examples (after `palisade demo`):
  palisade policy lock demo-policies
  palisade policy lock demo-policies --update

Exit code 1: the file is not what the policies give, and was not written.";

/// `palisade policy lock`
#[derive(Debug, Args)]
pub(crate) struct LockArguments {
    /// The policy folder
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Write the file anew where it is another, after printing the difference
    #[arg(long)]
    pub(crate) update: bool,
    /// How to print it
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
}

pub(crate) const WHO_HELP: &str = "\
Examples (after `palisade demo`):
  palisade policy who customers.email --catalog sqlite:demo.db \\
    --policies demo-policies
  palisade policy who tickets --catalog sqlite:demo.db \\
    --policies demo-policies --format csv";

/// `palisade policy who`
#[derive(Debug, Args)]
pub(crate) struct WhoArguments {
    /// TABLE or TABLE.COLUMN, with the schema where several have such a table
    #[arg(value_name = "TABLE[.COLUMN]")]
    pub(crate) resource: String,
    #[command(flatten)]
    pub(crate) ground: GroundArguments,
}

pub(crate) const WHAT_HELP: &str = "\
Examples (after `palisade demo`):
  palisade policy what 'Agent::\"support-bot\"' --catalog sqlite:demo.db \\
    --policies demo-policies
  palisade policy what 'Agent::\"support-bot\"' --catalog sqlite:demo.db \\
    --policies demo-policies --format json
  palisade policy what 'Agent::\"support-bot\"' --catalog sqlite:demo.db \\
    --policies demo-policies --html access.html";

/// `palisade policy what`
#[derive(Debug, Args)]
pub(crate) struct WhatArguments {
    /// For example 'Agent::\"support-bot\"'
    #[arg(value_name = "PRINCIPAL", value_parser = principal_name::parse)]
    pub(crate) principal: Principal,
    /// Write a page for a browser into this file: every table and column, also those of which nothing is seen
    #[arg(long, value_name = "FILE", conflicts_with = "format")]
    pub(crate) html: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) ground: GroundArguments,
}

/// Policies, a schema, and how to print.
#[derive(Debug, Args)]
pub(crate) struct GroundArguments {
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
    /// How to print it
    #[arg(long, default_value = "text")]
    pub(crate) format: TableFormat,
}

/// How a table is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableFormat {
    /// For people.
    Text,
    /// Comma-separated values.
    Csv,
    /// One JSON object.
    Json,
}

pub(crate) const POLICY_CHECK_HELP: &str = "\
Examples (after `palisade demo`):
  palisade policy check --catalog sqlite:demo.db --policies demo-policies
  palisade policy check --catalog sqlite:demo.db --policies demo-policies \\
    --fail-on warning --format sarif
  palisade policy check --catalog sqlite:demo.db --policies demo-policies \\
    --fix --dry-run
  palisade policy check --catalog sqlite:demo.db --policies demo-policies --deep

Exit code 1: there are warnings, with `--fail-on warning`. 3: the policies do
not load.";

/// `palisade policy check`
#[derive(Debug, Args)]
pub(crate) struct PolicyCheckArguments {
    #[command(flatten)]
    pub(crate) folder: PolicyFolderArguments,
    /// How to print what is found
    #[arg(long, default_value = "text")]
    pub(crate) format: CheckFormat,
    /// What makes the command fail
    #[arg(long, default_value = "error")]
    pub(crate) fail_on: FailOn,
    /// Also take away each policy in turn, and warn where nothing changes for anybody
    /// who is known: vacuous, shadowed, overridden and redundant policies
    #[arg(long)]
    pub(crate) deep: bool,
    /// Mend the warnings that need no judgement, and print what that changes
    #[arg(long, conflicts_with_all = ["format", "fail_on"])]
    pub(crate) fix: bool,
    /// With --fix: print the changes, and write nothing
    #[arg(long, requires = "fix")]
    pub(crate) dry_run: bool,
}

/// How the problems of policies are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckFormat {
    /// For people: each with its line.
    Text,
    /// One JSON object.
    Json,
    /// Commands of a GitHub workflow, which annotates lines.
    Github,
    /// SARIF 2.1.0.
    Sarif,
    /// JUnit's XML.
    Junit,
}

/// What makes a check fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// A warning, or an error.
    Warning,
    /// An error: the policies do not load.
    Error,
}

/// `policies=100`
fn least(text: &str) -> Result<(&'static str, usize), String> {
    let (kind, percent) = text.split_once('=').unwrap_or((text, ""));
    let kinds = Covered::KINDS;
    let Some(kind) = kinds.iter().find(|known| **known == kind) else {
        return Err(format!("there are {}", kinds.join(", ")));
    };
    match percent.parse() {
        Ok(percent @ 0..=100) => Ok((kind, percent)),
        Ok(_) | Err(_) => Err(format!("`{percent}` is no percentage, which is 0 to 100")),
    }
}

pub(crate) const INIT_HELP: &str = "\
The folder gets a configuration, the starter policies, the database's catalog,
first tests and an `access.lock`. What is there stays as it is. Nothing of the
database but its catalog is read, without `--sample`.

Examples (after `palisade demo`):
  palisade init sqlite:demo.db desk
  palisade init sqlite:demo.db sampled --sample
  palisade init sqlite:demo.db

Example for PostgreSQL:
  palisade init postgres://palisade_reader@localhost:5432/sales sales \\
    --password-env SALES_PASSWORD

Example without a database, of what `pg_dump --schema-only` prints:
  palisade init sales.sql sales --dialect postgres

When tables have changed, for the tests of the folder:
  palisade init sqlite:demo.db desk --refresh

Exit code 1: the folder is written, and tests in it do not hold.";

/// `palisade init`
#[derive(Debug, Args)]
pub(crate) struct InitArguments {
    /// sqlite:FILE, postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, or
    /// a file of CREATE statements; with --refresh connection:NAME too
    #[arg(value_name = "DATABASE")]
    pub(crate) source: String,
    /// The folder
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
    /// The SQL dialect of a file of CREATE statements; sqlite if not given
    #[arg(long, value_parser = dialect)]
    pub(crate) dialect: Option<Dialect>,
    /// Read up to 1000 rows of each table, and propose by what values look like too
    #[arg(long)]
    pub(crate) sample: bool,
    /// Of a folder that is there, take the tables of its tests from the database
    /// anew, and leave everything else as it is
    #[arg(long, conflicts_with = "sample")]
    pub(crate) refresh: bool,
    /// A configuration file, for `connection:NAME` and its policy folder
    #[arg(long, value_name = "FILE", requires = "refresh")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) secret: SecretArguments,
    /// How to print it
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
}

pub(crate) const LEARN_HELP: &str = "\
Learned from are statements that were permitted, in sessions without findings.
A review is needed: what an agent asked is not yet what it should.

Examples (after `palisade demo`):
  palisade query sqlite:demo.db 'SELECT name FROM staff' \\
    --policies demo-policies --as 'Agent::\"support-bot\"' --audit audit.jsonl
  palisade policy learn demo-policies --audit audit.jsonl
  palisade policy learn demo-policies --audit audit.jsonl --unused 90

With a server that counts statements:
  palisade policy learn policies --counted postgres://reader@db.internal/shop \\
    --account support_app --as 'Agent::\"support-bot\"'

Exit code 1: nothing was learned from some of the statements.";

/// `palisade policy learn`
#[derive(Debug, Args)]
pub(crate) struct LearnArguments {
    /// The policy folder, with the tables in its tests and its entities.json
    #[arg(value_name = "DIR", default_value = "policies")]
    pub(crate) dir: PathBuf,
    /// Learn from an audit log
    #[arg(long, value_name = "FILE", required_unless_present_any = ["statements", "counted"])]
    pub(crate) audit: Option<PathBuf>,
    /// Learn from statements that a person marked: JSON lines
    /// {"sql", "params"?, "as"}
    #[arg(long, value_name = "FILE", conflicts_with = "audit")]
    pub(crate) statements: Option<PathBuf>,
    /// Learn from what this server has counted: `pg_stat_statements` of
    /// PostgreSQL, `performance_schema` of MySQL and MariaDB
    #[arg(long, value_name = "DATABASE", conflicts_with_all = ["audit", "statements", "unused"])]
    pub(crate) counted: Option<String>,
    /// Of that, the statements of this account alone (PostgreSQL); can be
    /// repeated
    #[arg(long, value_name = "NAME", requires = "counted")]
    pub(crate) account: Vec<String>,
    /// For whom policies are learned from it, in place of each account's own
    /// 'Agent::"ACCOUNT"'
    #[arg(long = "as", value_name = "PRINCIPAL", value_parser = principal_name::parse_as, requires = "counted")]
    pub(crate) principal: Option<Principal>,
    #[command(flatten)]
    pub(crate) secret: SecretArguments,
    /// The tables of the statements, a catalog in the tests of DIR
    #[arg(long, value_name = "NAME")]
    pub(crate) catalog: Option<String>,
    /// List the policies that decided nothing in the last so many days of the
    /// log instead
    #[arg(long, value_name = "DAYS", value_parser = days, conflicts_with_all = ["statements", "catalog"])]
    pub(crate) unused: Option<u16>,
    /// Write `learned.cedar` and `tests/learned.toml` into this new folder
    #[arg(long, value_name = "NEW", conflicts_with = "unused")]
    pub(crate) write: Option<PathBuf>,
    /// How to print it
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
}

pub(crate) const REQUEST_HELP: &str = "\
The output is Markdown: the least permits beside today's policies, what else
they let be seen and done, and a test.

Examples (after `palisade demo`):
  palisade policy request demo-policies --as 'Agent::\"support-bot\"' \\
    'SELECT phone FROM customers'
  palisade policy request demo-policies --as 'Agent::\"eve\"' \\
    'SELECT name FROM staff' --format json

Exit code 1: permits alone do not do.";

/// `palisade policy request`
#[derive(Debug, Args)]
pub(crate) struct RequestArguments {
    /// The policy folder, with the tables in its tests
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The statement
    #[arg(value_name = "SQL", requires = "principal")]
    pub(crate) sql: Option<String>,
    /// Who asks, for example 'Agent::"support-bot"'
    #[arg(long = "as", value_name = "PRINCIPAL", value_parser = principal_name::parse_as)]
    pub(crate) principal: Option<Principal>,
    /// The audit log that holds the refusal
    #[arg(long, value_name = "FILE", requires = "seq", conflicts_with = "sql")]
    pub(crate) audit: Option<PathBuf>,
    /// The record's `seq`
    #[arg(long, value_name = "NUMBER", requires = "audit")]
    pub(crate) seq: Option<u64>,
    /// The tables of the statement, a catalog in the tests of DIR
    #[arg(long, value_name = "NAME")]
    pub(crate) catalog: Option<String>,
    /// How to print it
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
}

pub(crate) const PROMOTE_HELP: &str = "\
The tests of CANDIDATE must hold. What it changes for whom is printed, the wider
first. With --yes a copy of it takes the place of ENFORCED in one step, and what
was there stays beside it as `ENFORCED.before`.

Examples (after `palisade demo`):
  cp -r demo-policies demo-candidate
  palisade policy promote demo-candidate demo-policies
  palisade policy promote demo-candidate demo-policies --yes

Exit code 1: a test of CANDIDATE does not hold, and nothing was changed.";

/// `palisade policy promote`
#[derive(Debug, Args)]
pub(crate) struct PromoteArguments {
    /// The policy folder on trial, with tests
    #[arg(value_name = "CANDIDATE")]
    pub(crate) candidate: PathBuf,
    /// The policy folder that decides
    #[arg(value_name = "ENFORCED")]
    pub(crate) enforced: PathBuf,
    /// Put it in the place of ENFORCED
    #[arg(long)]
    pub(crate) yes: bool,
    /// How to print it
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
}

pub(crate) const PROVE_HELP: &str = "\
FILE holds properties, such as: no principal outside of a role sees columns with
a tag in plain. They are decided for every principal, table and column that is
known, by the firewall's own decisions. Each answer names this world.

With `--any-entities` they are decided for any principal whatever, with any
attributes and roles: by Cedar's symbolic compiler and the solver cvc5, 1.0.3 or
newer, which is installed beside. The catalog stays what it is.

Examples (after `palisade demo`):
  palisade policy prove demo-policies
  palisade policy prove demo-policies/properties.toml --format json
  palisade policy prove demo-policies --any-entities

Exit code 1: a property is refuted. 6: one is undecided, and none refuted.";

/// `palisade policy prove`
#[derive(Debug, Args)]
pub(crate) struct ProveArguments {
    /// The properties, or a policy folder with them in `properties.toml`
    #[arg(value_name = "FILE", default_value = "properties.toml")]
    pub(crate) file: PathBuf,
    /// Over any principals, not those that are known alone: by a solver
    #[arg(long)]
    pub(crate) any_entities: bool,
    /// The solver: cvc5 [default: what CVC5 names, or `cvc5` on the PATH]
    #[arg(long, value_name = "PATH", requires = "any_entities")]
    pub(crate) solver: Option<PathBuf>,
    /// How long the solver may take for one question
    #[arg(long, value_name = "SECONDS", default_value = "10", requires = "any_entities",
        value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) solver_time: u64,
    /// How to print the results
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
}

pub(crate) const DIFF_HELP: &str = "\
Both are compared over the tables and cases in the tests of both: what NEW no
longer tests is compared too. What cannot be compared counts as wider: another
condition of rows, another mask.

Examples (after `palisade demo`):
  palisade policy diff demo-policies demo-policies
  palisade policy diff demo-policies demo-policies --format markdown

With statements that are asked, and a replica:
  palisade policy diff old new --statements asked.jsonl \\
    --rows postgres://reader@replica.internal/shop

Exit code 1: something is wider, or as `--fail-on` says. 6: nothing is, and more
than `--max-undecided` is undecided, or no record of the log could be replayed.";

/// `palisade policy diff`
#[derive(Debug, Args)]
pub(crate) struct DiffArguments {
    /// The policy folder as it was
    #[arg(value_name = "OLD")]
    pub(crate) old: PathBuf,
    /// The policy folder as it is
    #[arg(value_name = "NEW")]
    pub(crate) new: PathBuf,
    /// Compare the statements of an audit log instead of tables and cases
    #[arg(long, value_name = "FILE", conflicts_with = "statements")]
    pub(crate) audit: Option<PathBuf>,
    /// Compare statements instead: JSON lines {"sql", "params"?, "as"}
    #[arg(long, value_name = "FILE")]
    pub(crate) statements: Option<PathBuf>,
    /// Decide records of other versions of policies, principals or tables than
    /// OLD's too
    #[arg(long, requires = "audit")]
    pub(crate) any_version: bool,
    /// The tables of the statements, a catalog in the tests of NEW or of OLD
    #[arg(long, value_name = "NAME")]
    pub(crate) catalog: Option<String>,
    /// Run the statements on this database too, a replica: how many rows come
    /// and go, never a value
    #[arg(long, value_name = "DATABASE", requires = "statements")]
    pub(crate) rows: Option<String>,
    #[command(flatten)]
    pub(crate) secret: SecretArguments,
    /// How many statements, or tables, in a hundred may stay undecided
    /// [default: 100 of statements, 0 of tables]
    #[arg(long, value_name = "PERCENT")]
    pub(crate) max_undecided: Option<u8>,
    /// How to print the differences
    #[arg(long, default_value = "text")]
    pub(crate) format: DiffFormat,
    /// What makes the command fail
    #[arg(long, default_value = "wider")]
    pub(crate) fail_on: FailOnDiff,
}

/// How differences are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiffFormat {
    /// For people: the wider first.
    Text,
    /// One JSON object.
    Json,
    /// A table for a comment on a change request.
    Markdown,
}

/// Which differences make the command fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOnDiff {
    /// Something may be seen or changed that was not.
    Wider,
    /// Any.
    Any,
    /// None.
    Nothing,
}

/// A number of days, `90` or `90d`.
fn days(text: &str) -> Result<u16, String> {
    let number = text.strip_suffix('d').unwrap_or(text);
    let read = number.parse();
    read.map_err(|_| format!("`{text}` is no number of days; write `90` or `90d`"))
}
