//! `palisade`: a SQL firewall for AI agents, on the command line. Exit codes: [`exit::Exit`].

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
mod init_proposals;
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
mod output;
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
mod setup_sql;
mod snippet;
#[cfg_attr(not(feature = "prove"), path = "absent/solver.rs")]
mod solver;
#[cfg_attr(not(feature = "sqlite"), path = "absent/sqlite.rs")]
mod sqlite;
mod standing;
mod start;
mod starter_columns;
mod statements;
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
