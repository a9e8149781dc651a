//! `palisade serve`: an MCP server over standard input and output. Standard output belongs to the
//! protocol; everything else goes to standard error.

use std::{io::IsTerminal as _, sync::Arc};

use palisade_mcp::{ServeOptions, serve_stdio};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    Layer as _, filter::Targets, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use crate::{
    args::ServeArguments,
    exit::{Exit, Failure},
    host,
    query::guard,
    setup::Setup,
    source::Source,
    watch,
};

/// Runs the command until the client goes away.
pub(crate) fn run(arguments: &ServeArguments) -> Result<Exit, Failure> {
    log();
    let (setup, database) = Setup::over(
        Source::argument(&arguments.source)?,
        &arguments.secret,
        &arguments.policies,
        arguments.audit.as_deref(),
    )?;
    let runtime = host::runtime()?;
    let guard = guard(&setup, &database, &runtime)?;
    if setup.is_starter {
        tracing::info!(
            "no policies are named; the built-in starter policies decide (`palisade policy print-starter`)"
        );
    }
    for warning in guard.firewall().policies().warnings() {
        tracing::warn!("{warning}");
    }
    let name = database.name();
    tracing::info!(principal = %setup.principal, database = name, "serving over standard input and output");
    let options = ServeOptions {
        principal: setup.principal,
        connection: name,
    };
    let guard = Arc::new(guard);
    let result = runtime.block_on(async {
        tokio::spawn(watch::policies(Arc::clone(&guard), setup.policies));
        tokio::spawn(watch::schema(Arc::clone(&guard)));
        serve_stdio(guard, options).await
    });
    // A statement that still runs has nobody to answer.
    runtime.shutdown_background();
    match result {
        Ok(()) => Ok(Exit::Permitted),
        Err(error) => Err(Failure::Internal(error.to_string())),
    }
}

/// Logs to standard error: our own steps and, of the protocol and of drivers, only what goes wrong; their finer
/// levels hold statements, answers, and what a database server has to say.
fn log() {
    let levels = Targets::new()
        .with_default(LevelFilter::WARN)
        .with_target("palisade", LevelFilter::INFO);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    // Fails only if there is one already, which then logs.
    let _ = tracing_subscriber::registry()
        .with(lines.with_filter(levels))
        .try_init();
}
