//! Where the server over HTTP tells its figures: `[http.metrics]` of the configuration.

use std::net::{Ipv4Addr, SocketAddr};

use serde::Deserialize;
use toml::Spanned;

use crate::{config::Reader, exit::Failure};

/// `[http.metrics]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HttpMetrics {
    /// The address at which `/metrics` is read, in plain text and without a token. Without it, `"127.0.0.1:9464"`.
    address: Option<Spanned<String>>,
}

/// Where figures are told where nothing else is said.
const USUAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9464);

impl Reader<'_> {
    /// The address at which figures are told.
    pub(crate) fn metrics(&self, metrics: HttpMetrics) -> Result<SocketAddr, Failure> {
        let HttpMetrics { address } = metrics;
        let Some(address) = address else {
            return Ok(USUAL);
        };
        address.get_ref().parse().map_err(|_| {
            let message = format!("`{}` is no address with a port", address.get_ref());
            let help = "write an IP address and a port, for example `127.0.0.1:9464`";
            self.fault(&message, Some(address.span()), help)
        })
    }
}
