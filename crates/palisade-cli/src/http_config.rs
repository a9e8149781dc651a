//! What the operator decides about the server over HTTP: `[http]` of the configuration.

use std::{
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
    path::PathBuf,
};

use serde::Deserialize;
use toml::Spanned;

use crate::{
    clients_config::{ClientsSetup, HttpClients, Surroundings},
    config::Reader,
    exit::Failure,
    metrics_config::HttpMetrics,
    oauth_config::{Oauth, OauthSetup},
};

/// `[http]`
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Http {
    /// The file of access tokens, which `palisade token create` writes. Without it, `access-tokens.json`.
    pub(crate) tokens: Option<PathBuf>,
    /// The PEM file of the server's certificate, with those that lead to an authority. Without it, connections are not encrypted.
    pub(crate) certificate: Option<Spanned<PathBuf>>,
    /// The PEM file of its key, which only its owner may read.
    pub(crate) key: Option<Spanned<PathBuf>>,
    /// Addresses of proxies that encrypt: the only other machines that may connect in plain text.
    #[serde(default)]
    pub(crate) proxies: Vec<Spanned<String>>,
    /// The names by which clients call the server, as `NAME` or `NAME:PORT`, beside `localhost` and its addresses.
    #[serde(default)]
    pub(crate) hosts: Vec<String>,
    /// The origins of browser pages that may ask, as `https://NAME:PORT`. Without it, only pages of the server's own address.
    #[serde(default)]
    pub(crate) origins: Vec<String>,
    /// Whose tokens count beside these: those of authorization servers.
    pub(crate) oauth: Option<Oauth>,
    /// Whose client certificates let in. Without it, none are asked for.
    pub(crate) clients: Option<HttpClients>,
    /// Where figures for Prometheus are told. Without it, nowhere.
    pub(crate) metrics: Option<HttpMetrics>,
    /// Requests of one access token in a minute: 1 to 1000000. Without it, 600.
    pub(crate) requests_per_minute: Option<Spanned<u64>>,
    /// Connections at a time, of which one address has a quarter at most: 4 to 100000. Without it, 1000.
    pub(crate) connections: Option<Spanned<u64>>,
}

/// What `requests_per_minute` can be.
const REQUESTS: RangeInclusive<u64> = 1..=1_000_000;
/// What `connections` can be.
const CONNECTIONS: RangeInclusive<u64> = 4..=100_000;

/// The file of access tokens, beside the configuration.
const TOKENS: &str = "access-tokens.json";

/// The same, read; paths are from the folder of the configuration.
#[derive(Debug, Clone)]
pub(crate) struct HttpSetup {
    pub(crate) tokens: PathBuf,
    /// The certificate and its key.
    pub(crate) certificate: Option<(PathBuf, PathBuf)>,
    pub(crate) proxies: Vec<IpAddr>,
    pub(crate) hosts: Vec<String>,
    pub(crate) origins: Vec<String>,
    pub(crate) oauth: Option<OauthSetup>,
    pub(crate) clients: Option<ClientsSetup>,
    /// Where figures are told.
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) requests_per_minute: Option<u64>,
    pub(crate) connections: Option<u64>,
}

impl Reader<'_> {
    /// What the server over HTTP does.
    pub(crate) fn http(&self, http: Http) -> Result<HttpSetup, Failure> {
        let Http {
            tokens,
            certificate,
            key,
            proxies,
            hosts,
            origins,
            oauth,
            clients,
            metrics,
            requests_per_minute,
            connections,
        } = http;
        let around = Surroundings {
            is_encrypted: certificate.is_some(),
            proxy: proxies.first().map(Spanned::span),
            has_tokens: tokens.is_some() || oauth.is_some(),
        };
        let certificate = match (certificate, key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => {
                let path = |path: Spanned<PathBuf>| self.folder.join(path.into_inner());
                Some((path(certificate), path(key)))
            }
            (Some(alone), None) => {
                let help = "name the file of its `key` too";
                return Err(self.fault("the certificate has no key", Some(alone.span()), help));
            }
            (None, Some(alone)) => {
                let help = "name the file of its `certificate` too";
                return Err(self.fault("the key has no certificate", Some(alone.span()), help));
            }
        };
        let read_proxy = |proxy: Spanned<String>| {
            proxy.get_ref().parse().map_err(|_| {
                let message = format!("`{}` is no address", proxy.get_ref());
                let help = "write the proxy's IP address, for example `10.0.0.5`";
                self.fault(&message, Some(proxy.span()), help)
            })
        };
        Ok(HttpSetup {
            tokens: self
                .folder
                .join(tokens.unwrap_or_else(|| PathBuf::from(TOKENS))),
            certificate,
            proxies: proxies
                .into_iter()
                .map(read_proxy)
                .collect::<Result<_, _>>()?,
            hosts,
            origins,
            requests_per_minute: self
                .number(requests_per_minute, ("requests_per_minute", REQUESTS))?,
            connections: self.number(connections, ("connections", CONNECTIONS))?,
            metrics: metrics.map(|metrics| self.metrics(metrics)).transpose()?,
            clients: clients
                .map(|clients| {
                    clients.read(self.folder, around, |what, span, help| {
                        self.fault(what, span, help)
                    })
                })
                .transpose()?,
            oauth: oauth
                .map(|oauth| {
                    oauth.read(self.folder, |what, span, help| self.fault(what, span, help))
                })
                .transpose()?,
        })
    }
}
