//! Whose client certificates the server over HTTP takes: `[http.clients]` of the configuration.

use std::{
    ops::Range,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use toml::Spanned;

use crate::exit::Failure;

/// `[http.clients]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HttpClients {
    /// The PEM file of authorities whose client certificates let in.
    pub(crate) authorities: Spanned<PathBuf>,
    /// The PEM file of their lists of revoked certificates (CRL). With it, every authority needs a list that has not ended.
    pub(crate) revoked: Option<PathBuf>,
    /// The file that says who asks, by the names in a certificate. Without it, `clients.toml`.
    pub(crate) claims: Option<PathBuf>,
    /// Whether every connection must bring a certificate. Without it, that is so unless `tokens` or `[http.oauth]` is written.
    pub(crate) required: Option<bool>,
}

/// The file of claims, beside the configuration.
const CLAIMS: &str = "clients.toml";

/// The same, read; paths are from the folder of the configuration.
#[derive(Debug, Clone)]
pub(crate) struct ClientsSetup {
    pub(crate) authorities: PathBuf,
    pub(crate) revoked: Option<PathBuf>,
    pub(crate) claims: PathBuf,
    pub(crate) is_required: bool,
}

/// How the server is reached, and by what else it lets in.
pub(crate) struct Surroundings {
    /// Whether connections are encrypted by the server itself.
    pub(crate) is_encrypted: bool,
    /// Where the first proxy is named.
    pub(crate) proxy: Option<Range<usize>>,
    /// Whether tokens are written of.
    pub(crate) has_tokens: bool,
}

impl HttpClients {
    /// Reads it. `fault` says what is wrong at a place, and what to do.
    pub(crate) fn read(
        self,
        folder: &Path,
        around: Surroundings,
        fault: impl Fn(&str, Option<Range<usize>>, &str) -> Failure,
    ) -> Result<ClientsSetup, Failure> {
        let Self {
            authorities,
            revoked,
            claims,
            required,
        } = self;
        let Surroundings {
            is_encrypted,
            proxy,
            has_tokens,
        } = around;
        if proxy.is_some() {
            let message = "behind a proxy that encrypts, no client certificate is seen";
            let help = "leave out `proxies`, and encrypt by a `certificate` and `key`; or leave out `[http.clients]`";
            return Err(fault(message, proxy, help));
        }
        if !is_encrypted {
            let message = "without encryption, no client certificate is seen";
            let help = "name a `certificate` and its `key` under `[http]`";
            return Err(fault(message, Some(authorities.span()), help));
        }
        Ok(ClientsSetup {
            authorities: folder.join(authorities.into_inner()),
            revoked: revoked.map(|revoked| folder.join(revoked)),
            claims: folder.join(claims.unwrap_or_else(|| PathBuf::from(CLAIMS))),
            is_required: required.unwrap_or(!has_tokens),
        })
    }
}
