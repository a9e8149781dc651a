//! What an operator decides about the door.

use std::{net::IpAddr, sync::Arc};

use crate::{certificates::Certificates, metrics::Metrics, oauth::OauthOptions, tokens::Tokens};

/// What an operator decides about a server over HTTP.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Who may ask, by which token.
    pub tokens: Tokens,
    /// Whose tokens count beside these: those of authorization servers.
    pub oauth: Option<OauthOptions>,
    /// The certificate, and whose client certificates count; without it, connections are not encrypted, which only the machine itself and `proxies` may use.
    pub certificates: Option<Certificates>,
    /// Addresses of proxies that encrypt: the only ones beside the machine itself that may connect in plain text.
    pub proxies: Vec<IpAddr>,
    /// The hosts by which clients call the server, as `NAME` or `NAME:PORT`, beside those of the machine itself.
    pub hosts: Vec<String>,
    /// The origins of browser pages that may ask, as `https://NAME:PORT`. Without one, no page may.
    pub origins: Vec<String>,
    /// Requests of one token in a minute; as many at once.
    pub requests_per_minute: u32,
    /// Connections at a time. One address has a quarter of them at most.
    pub connections: usize,
    /// Whether clients of revisions before 2026-07-28 begin sessions, in which the server can ask and tell them. A session lives in one
    /// server: behind a load balancer that does not send its requests to the same one, it cannot be.
    pub sessions: bool,
    /// Whether calls that take long go on as tasks, for clients that know them. A task lives in one server too.
    pub tasks: bool,
    /// What counts answers, connections and credentials, if anything does.
    pub metrics: Option<Arc<Metrics>>,
}

impl HttpOptions {
    /// 600 requests a minute, 1,000 connections, with sessions and tasks, on the machine itself alone.
    #[must_use]
    pub fn new(tokens: impl Into<Tokens>) -> Self {
        Self {
            tokens: tokens.into(),
            oauth: None,
            certificates: None,
            proxies: Vec::new(),
            hosts: Vec::new(),
            origins: Vec::new(),
            requests_per_minute: 600,
            connections: 1_000,
            sessions: true,
            tasks: true,
            metrics: None,
        }
    }

    /// The most connections of one address.
    pub(crate) fn connections_per_address(&self) -> usize {
        (self.connections / 4).max(1)
    }
}
