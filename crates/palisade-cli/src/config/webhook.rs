//! `[approvals.webhook]`: who outside is told of requests that wait.

use std::{net::IpAddr, ops::RangeInclusive, path::PathBuf, time::Duration};

use serde::Deserialize;
use toml::Spanned;

use crate::{
    config::{Grants, Reader, telemetry::find_host},
    exit::Failure,
    secret::Secret,
};

/// `[approvals.webhook]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Webhook {
    /// The address to which each request that begins to wait is posted, for example `"https://hooks.example.org/palisade"`. Plain `http` is
    /// for this machine alone. `[grants]` must name its host.
    url: Spanned<String>,
    /// The environment variable that holds the secret of signatures, at least 32 bytes. `[grants]` must name it.
    secret_env: Option<Spanned<String>>,
    /// The file that holds this secret, instead of a variable. `[grants]` must name it.
    secret_file: Option<Spanned<PathBuf>>,
    /// Seconds that the receiver may take to answer: 1 to 60. Without it, 5.
    timeout_seconds: Option<Spanned<u64>>,
}

/// What `timeout_seconds` can be.
const SECONDS: RangeInclusive<u64> = 1..=60;

/// How long a receiver may take where nothing says it.
const PATIENCE: Duration = Duration::from_secs(5);

/// The same, read.
#[derive(Debug, Clone)]
pub(crate) struct WebhookSetup {
    pub(crate) url: String,
    /// Its host and port, for messages: the rest can be a secret.
    pub(crate) host: String,
    pub(crate) secret: Secret,
    pub(crate) timeout: Duration,
}

impl Reader<'_> {
    /// Who outside is told.
    pub(crate) fn webhook(&self, table: Webhook, grants: &Grants) -> Result<WebhookSetup, Failure> {
        let Webhook {
            url,
            secret_env,
            secret_file,
            timeout_seconds,
        } = table;
        // The address can hold a secret: it is not shown.
        let wrong =
            |message: &str, help: &str| self.error_without_source(message, url.span(), help);
        let plain = url.get_ref().split('?').next().unwrap_or_default();
        let Some(host) = find_host(plain) else {
            return Err(wrong(
                "`url` is no address of a receiver",
                "write for example `\"https://hooks.example.org/palisade\"`",
            ));
        };
        if plain.starts_with("http://") && !is_this_machine(&host) {
            return Err(wrong(
                "what a webhook tells would go over the network in plain text",
                "write `https://`; `http://` is for `127.0.0.1`, `[::1]` and `localhost`",
            ));
        }
        if !grants.has_host(&host) {
            let help = format!("`hosts = [\"{host}\"]` under `[grants]` grants it");
            return Err(wrong(&format!("`{host}` is not granted"), &help));
        }
        let span =
            (secret_env.as_ref().map(Spanned::span)).or(secret_file.as_ref().map(Spanned::span));
        let keys = (
            "the secret of the webhook",
            "`secret_env` and `secret_file`",
        );
        let Some(secret) = self.secret((secret_env, secret_file), keys)? else {
            return Err(wrong(
                "the webhook has no secret, by which a receiver knows who sent what",
                "name one, `secret_file = \"webhook.secret\"`; `openssl rand -hex 32` makes one",
            ));
        };
        if let Some((message, help)) = grants.refuse_unnamed(&secret) {
            return Err(self.fault(&message, span, &help));
        }
        let timeout = self.number(timeout_seconds, ("timeout_seconds", SECONDS))?;
        Ok(WebhookSetup {
            host,
            secret,
            timeout: timeout.map_or(PATIENCE, Duration::from_secs),
            url: url.into_inner(),
        })
    }
}

/// Whether `HOST:PORT` is of this machine.
pub(crate) fn is_this_machine(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || address.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_stays_on_this_machine() {
        for (host, is_here) in [
            ("127.0.0.1:80", true),
            ("127.9.9.9:1", true),
            ("[::1]:80", true),
            ("localhost:8080", true),
            ("localhost.example.org:80", false),
            ("127.0.0.1.example.org:80", false),
            ("10.0.0.1:80", false),
            ("[::2]:80", false),
        ] {
            assert_eq!(is_this_machine(host), is_here, "{host}");
        }
    }
}
