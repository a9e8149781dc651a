//! `palisade probe`: whether a server over HTTP is well, for container engines.

use std::{io::Write as _, time::Duration};

use ureq::tls::TlsConfig;

use crate::{
    args::probe::ProbeArguments,
    exit::{Exit, Failure},
};

/// Asks once. A server that is not well is exit code 1.
pub(crate) fn run(arguments: &ProbeArguments) -> Result<Exit, Failure> {
    let ProbeArguments { url, seconds } = arguments;
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let host = rest.split('/').next().unwrap_or_default();
    if !["http", "https"].contains(&scheme) || host.is_empty() || host.contains('@') {
        return Err(Failure::Usage(format!(
            "`{url}` is no address of a server\n  help: write one as `http://127.0.0.1:8080/healthz`"
        )));
    }
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        // What the environment says decides nothing.
        .proxy(None)
        // The certificate names the server as others call it. Nothing secret is sent, and only a status is read.
        .tls_config(
            TlsConfig::builder()
                .disable_verification(is_of_this_machine(host))
                .build(),
        )
        .timeout_global(Some(Duration::from_secs(*seconds)))
        .build();
    let agent = ureq::Agent::from(config);
    let why = match agent.get(url).call() {
        Ok(answer) if answer.status().as_u16() == 200 => return Ok(Exit::Permitted),
        Ok(answer) => format!("it answered {}", answer.status().as_u16()),
        Err(error) => error.to_string(),
    };
    // If standard error is closed, the exit code has to do.
    let _ = writeln!(std::io::stderr(), "not well: {url}: {why}");
    Ok(Exit::Refused)
}

/// Whether `host`, with or without a port, is this machine.
fn is_of_this_machine(host: &str) -> bool {
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|own| {
        host.strip_prefix(own)
            .is_some_and(|port| port.is_empty() || port.starts_with(':'))
    })
}
