//! `palisade`: a SQL firewall for AI agents, on the command line. Exit codes: [`exit::Exit`].
//!
//! # Files
//!
//! Commands:
//!
//! * `args`: the arguments of each; `completions` and `manual_pages` are made of them.
//! * `demo`: `palisade demo`.
//! * `query`: `palisade query` and `execute`; `run` is `palisade run` of a template.
//! * `tables`: `palisade tables` and `describe`.
//! * `check`: `palisade check`.
//! * `explain`: `palisade explain`: a trace as a tree and as a page.
//! * `statements`: what those about statements share; `batch`, `answer`, `asked_statements` and `server_statements` beside it.
//! * `scan`: `palisade scan`.
//! * `serve`: `palisade serve`; `serve_http` over HTTP, `start` what its start finds, `watch` edits while it runs.
//! * `broker`: `palisade broker`, `relay`, `sandbox` and `load-connections`.
//! * `mcp_config`: `palisade mcp-config`: entries for MCP clients.
//! * `changes`: `palisade changes`.
//! * `ledger`: `palisade ledger`.
//! * `history`: `palisade history` and `snapshots`.
//! * `approvals`: `palisade approvals` and `approve`.
//! * `access_token`: `palisade token`.
//! * `audit_verify`: `palisade audit verify`; `audit_show` is `palisade audit show`.
//! * `doctor`: `palisade doctor`; `connector` with `--mcp`, `weakness` what an account may do beyond its use.
//! * `setup_sql`: `palisade setup-sql`; `account`, `needs` and `step_needs` say what an account needs.
//! * `init`: `palisade init`; `init_proposals` what it proposes.
//! * `policy`: `palisade policy`, one file a command.
//! * `lsp`: `palisade lsp`: it calls what the commands of `policy` call, and has no checks of its own.
//! * `probe`: `palisade probe`.
//! * `commands`: the commands that hints name in the place of tools.
//!
//! What they work with:
//!
//! * `config`: the configuration, one file a section; `config/command` is `palisade config`.
//! * `file_schemas`: JSON schemas of the files that people write.
//! * `setup`: from arguments and configuration to a firewall over a database.
//! * `database`: a database that can be reached; `database_name` how it is written, `target` one of a server.
//! * `sqlite`: SQLite; `postgres` and `mysql` the other engines.
//! * `absent`: what stands in the place of engines and features that are not built in.
//! * `policies`: policy folders, read from disk or compiled in.
//! * `bundle`: signed bundles of policies: pulled, judged, and the last good ones kept.
//! * `solver`: properties of policies over any entities.
//! * `principal_name`: a principal as an operator writes it; `standing` how it stands before the policies.
//! * `secret`: passwords and other secrets; `key_file` files of keys.
//! * `changed_lines`: the lines of a policy folder that changed.
//! * `candidate_log`: the log's part of policies on trial.
//! * `unreadable`: tables that no policy can permit; `untold_views` views that a server does not tell, `withheld_columns` columns that the account may not read.
//! * `starter_columns`: what the starter policies make of a database.
//!
//! What they print and send:
//!
//! * `output`: standard output; `exit` the exit codes.
//! * `human`: answers for people; `grid` tables, `snippet` places in files, `progress` long work.
//! * `json`: an answer as JSON.
//! * `page`: what pages for a browser share; `what_page` and `coverage_page` are two of them.
//! * `notice`: what people outside are told of what waits; `webhook` sends it.
//! * `otlp`: traces and metrics; `counts` what is counted.
//! * `anchors_sent`: whether the audit log's anchors were taken away.
//! * `host`: the runtime and the time of this machine.

#![cfg_attr(
    not(all(
        feature = "broker",
        feature = "bundles",
        feature = "http",
        feature = "lsp",
        feature = "postgres",
        feature = "webhook",
        unix
    )),
    expect(
        dead_code,
        reason = "PostgreSQL needs all that servers do, and HTTP, the broker and the webhook what is configured of them"
    )
)]

#[cfg(not(all(feature = "mysql", feature = "postgres", feature = "sqlite")))]
mod absent;
#[cfg_attr(not(feature = "http"), path = "absent/access_token.rs")]
mod access_token;
mod account;
mod anchors_sent;
mod answer;
mod approvals;
mod args;
mod asked_statements;
mod audit_show;
mod audit_verify;
mod batch;
#[cfg_attr(not(all(feature = "broker", unix)), path = "absent/broker.rs")]
mod broker;
mod bundle;
mod candidate_log;
mod changed_lines;
mod changes;
mod check;
mod commands;
mod completions;
mod config;
#[cfg_attr(not(feature = "http"), path = "absent/connector.rs")]
mod connector;
mod counts;
mod coverage_page;
mod database;
mod database_name;
mod demo;
mod doctor;
mod exit;
mod explain;
mod file_schemas;
mod grid;
mod history;
mod host;
mod human;
mod init;
mod init_account;
mod init_proposals;
mod init_refresh;
mod json;
mod key_file;
mod ledger;
#[cfg_attr(not(feature = "lsp"), path = "absent/lsp.rs")]
mod lsp;
mod manual_pages;
mod mcp_config;
#[cfg_attr(not(feature = "mysql"), path = "absent/mysql.rs")]
mod mysql;
mod needs;
mod notice;
#[cfg_attr(not(feature = "otlp"), path = "absent/otlp.rs")]
mod otlp;
mod page;
mod policies;
mod policy;
#[cfg_attr(not(feature = "postgres"), path = "absent/postgres.rs")]
mod postgres;
mod principal_name;
#[cfg_attr(not(feature = "http"), path = "absent/probe.rs")]
mod probe;
mod progress;
mod query;
mod run;
mod scan;
mod secret;
mod serve;
#[cfg_attr(not(feature = "http"), path = "absent/serve_http.rs")]
mod serve_http;
mod server_statements;
mod setup;
mod setup_command;
mod setup_sql;
mod shell_word;
mod snippet;
#[cfg_attr(not(feature = "prove"), path = "absent/solver.rs")]
mod solver;
#[cfg_attr(not(feature = "sqlite"), path = "absent/sqlite.rs")]
mod sqlite;
mod standing;
mod start;
mod starter_columns;
mod statements;
mod stdout;
mod step_needs;
mod tables;
mod target;
mod unreadable;
mod untold_views;
mod watch;
mod weakness;
#[cfg_attr(not(feature = "webhook"), path = "absent/webhook.rs")]
mod webhook;
mod what_page;
mod withheld_columns;

use std::{io::Write as _, process::ExitCode};

use clap::Parser as _;

use crate::{
    args::{Arguments, AuditCommand, Command, broker::RelayArguments},
    database::Access,
    exit::{Exit, Failure},
};

/// Bytes of stack. What the main thread has is up to the system; this is enough for clap and Cedar
/// whatever that is.
pub(crate) const STACK: usize = 16 * 1024 * 1024;

fn main() -> ExitCode {
    let worker = std::thread::Builder::new().stack_size(STACK).spawn(run);
    let result = match worker.map(std::thread::JoinHandle::join) {
        Ok(Ok(result)) => result,
        // The panic has been reported by its hook.
        Ok(Err(_)) => return Exit::Internal.into(),
        Err(error) => Err(Failure::Internal(format!("cannot start: {error}"))),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(failure) => {
            if !matches!(failure, Failure::OutputClosed) {
                // If standard error is closed too, the exit code has to do.
                let _ = writeln!(std::io::stderr(), "{failure}");
            }
            failure.exit().into()
        }
    }
}

fn run() -> Result<Exit, Failure> {
    if let Some(relay) = RelayArguments::read_alone(std::env::args_os()) {
        return broker::relay(&relay);
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let exit = if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Permitted
            };
            error.print().map_err(|error| Failure::output(&error))?;
            return Ok(exit);
        }
    };
    match &arguments.command {
        Command::Demo(arguments) => demo::run(arguments),
        Command::Query(arguments) => query::run(arguments, Access::Read),
        Command::Execute(arguments) => query::run(arguments, Access::Write),
        Command::Run(arguments) => run::run(arguments),
        Command::Tables(arguments) => tables::list(arguments),
        Command::Describe(arguments) => tables::describe(arguments),
        Command::Check(arguments) => check::run(arguments),
        Command::Explain(arguments) => explain::run(arguments),
        Command::Scan(arguments) => scan::run(arguments),
        Command::Serve(arguments) => serve::run(arguments),
        Command::LoadConnections(arguments) => broker::load(arguments),
        Command::Broker(arguments) => broker::run(arguments),
        Command::Relay(arguments) => broker::relay(arguments),
        Command::Sandbox(arguments) => broker::sandbox(arguments),
        Command::McpConfig(arguments) => mcp_config::run(arguments),
        Command::Config(command) => config::command::run(command),
        Command::Changes(command) => changes::run(command),
        Command::Ledger(command) => ledger::run(command),
        Command::History(command) => history::run(command),
        Command::Snapshots(command) => history::run_snapshots(command),
        Command::Approvals(arguments) => approvals::list(arguments),
        Command::Approve(arguments) => approvals::approve(arguments),
        Command::Token(command) => access_token::run(command),
        Command::Audit(AuditCommand::Verify(arguments)) => audit_verify::run(arguments),
        Command::Audit(AuditCommand::Show(arguments)) => audit_show::run(arguments),
        Command::Doctor(arguments) => doctor::run(arguments),
        Command::SetupSql(arguments) => setup_sql::run(arguments),
        Command::Init(arguments) => init::run(arguments),
        Command::Policy(command) => policy::run(command),
        Command::Lsp(arguments) => lsp::run(arguments),
        Command::Probe(arguments) => probe::run(arguments),
        Command::Completions(arguments) => completions::run(arguments),
        Command::Man(arguments) => manual_pages::run(arguments),
    }
}
