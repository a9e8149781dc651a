//! What the operator decides about the server over HTTP: `[http]` of the configuration.

use std::{
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
    path::PathBuf,
};

use serde::Deserialize;
use toml::Spanned;

use crate::{
    config::{
        Reader,
        approvals::{ApprovalSetup, STATE_LINE},
        clients::{ClientsSetup, HttpClients, Surroundings},
        metrics::HttpMetrics,
        oauth::{Oauth, OauthSetup},
    },
    exit::Failure,
};

/// `[http]`
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Http {
    /// The file of access tokens, which `palisade token create` writes. Without it, `access-tokens.json`.
    pub(crate) tokens: Option<Spanned<PathBuf>>,
    /// Keeps access tokens in the `state` of `[approvals]` and not in a file, so that all servers with it know the same. Without it, `false`.
    pub(crate) share_tokens: Option<Spanned<bool>>,
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
    /// Whether clients of revisions before 2026-07-28 begin sessions, which live in one server. Without it, `true`.
    pub(crate) sessions: Option<bool>,
    /// Whether calls that take long go on as tasks for clients that know them; tasks live in one server. Without it, as `sessions`.
    pub(crate) tasks: Option<bool>,
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

/// Where access tokens are.
#[derive(Debug, Clone)]
pub(crate) enum TokenPlace {
    /// In this file.
    File(PathBuf),
    /// In the state of approvals.
    State,
}

/// The same, read; paths are from the folder of the configuration.
#[derive(Debug, Clone)]
pub(crate) struct HttpSetup {
    pub(crate) tokens: TokenPlace,
    /// The certificate and its key.
    pub(crate) certificate: Option<(PathBuf, PathBuf)>,
    pub(crate) proxies: Vec<IpAddr>,
    pub(crate) hosts: Vec<String>,
    pub(crate) origins: Vec<String>,
    pub(crate) sessions: bool,
    pub(crate) tasks: bool,
    pub(crate) oauth: Option<OauthSetup>,
    pub(crate) clients: Option<ClientsSetup>,
    /// Where figures are told.
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) requests_per_minute: Option<u64>,
    pub(crate) connections: Option<u64>,
}

impl Reader<'_> {
    /// Where access tokens are; in the state only where the operator says where that is.
    fn token_place(
        &self,
        file: Option<Spanned<PathBuf>>,
        share: Option<Spanned<bool>>,
        approvals: &ApprovalSetup,
    ) -> Result<TokenPlace, Failure> {
        match (file, share.filter(|share| *share.get_ref())) {
            (None, None) => Ok(TokenPlace::File(self.folder.join(TOKENS))),
            (Some(file), None) => Ok(TokenPlace::File(self.folder.join(file.into_inner()))),
            (Some(_), Some(share)) => {
                let message = "access tokens are either in a file or in the state";
                let help = "leave `tokens` out, or `share_tokens`";
                Err(self.fault(message, Some(share.span()), help))
            }
            (None, Some(share)) if !approvals.is_named() => {
                let message = "it is not said where the state is that access tokens are shared in";
                let help = format!("name it: {STATE_LINE}, or a PostgreSQL database there");
                Err(self.fault(message, Some(share.span()), &help))
            }
            (None, Some(_)) => Ok(TokenPlace::State),
        }
    }

    /// What the server over HTTP does.
    pub(crate) fn http(&self, http: Http, approvals: &ApprovalSetup) -> Result<HttpSetup, Failure> {
        let Http {
            tokens,
            share_tokens,
            certificate,
            key,
            proxies,
            hosts,
            origins,
            sessions,
            tasks,
            oauth,
            clients,
            metrics,
            requests_per_minute,
            connections,
        } = http;
        let around = Surroundings {
            is_encrypted: certificate.is_some(),
            proxy: proxies.first().map(Spanned::span),
            has_tokens: tokens.is_some() || share_tokens.is_some() || oauth.is_some(),
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
            tokens: self.token_place(tokens, share_tokens, approvals)?,
            certificate,
            proxies: proxies
                .into_iter()
                .map(read_proxy)
                .collect::<Result<_, _>>()?,
            hosts,
            origins,
            sessions: sessions.unwrap_or(true),
            // Whoever says that requests go to any server says so of both.
            tasks: tasks.or(sessions).unwrap_or(true),
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
