//! `palisade serve --http`: the same server for clients of other machines, who bring access tokens.

use std::{collections::BTreeSet, future::Future};

use palisade::session::Principal;
pub(crate) use palisade_http::principal_source;
use palisade_http::{Certificates, HttpOptions, TokenFile};
use palisade_mcp::PalisadeServer;
use tokio::net::TcpListener;

use crate::{config::ConfigFile, exit::Failure, http_config::HttpSetup};

/// Where it listens, and under what terms.
pub(crate) struct HttpDoor {
    address: String,
    options: HttpOptions,
}

impl HttpDoor {
    /// What the configuration says of the server at `address`.
    pub(crate) fn open(address: &str, config: &ConfigFile) -> Result<Self, Failure> {
        let HttpSetup {
            tokens,
            certificate,
            proxies,
            hosts,
            origins,
            requests_per_minute,
            connections,
        } = config.http().clone();
        let certificates = certificate
            .map(|(certificate, key)| Certificates::read(certificate, key))
            .transpose()
            .map_err(|error| {
                Failure::Configuration(format!(
                    "error: the certificate of `[http]` cannot be used: {error}"
                ))
            })?;
        let mut options = HttpOptions::new(TokenFile::new(tokens));
        options.certificates = certificates;
        options.proxies = proxies;
        options.hosts = hosts;
        options.origins = origins;
        if let Some(requests) = requests_per_minute.and_then(|n| u32::try_from(n).ok()) {
            options.requests_per_minute = requests;
        }
        if let Some(connections) = connections.and_then(|n| usize::try_from(n).ok()) {
            options.connections = connections;
        }
        Ok(Self {
            address: address.to_owned(),
            options,
        })
    }

    /// Who has a token.
    pub(crate) fn principals(&self) -> Result<BTreeSet<Principal>, Failure> {
        let entries = self.options.tokens.entries();
        let entries = entries.map_err(|error| Failure::Configuration(format!("error: {error}")))?;
        if entries.is_empty() {
            tracing::warn!(
                "there is no access token yet, so that every request is refused; make one by `palisade token create`"
            );
        }
        let principals = entries
            .iter()
            .map(|entry| Principal::parse(&entry.principal));
        Ok(principals.filter_map(Result::ok).collect())
    }

    /// Serves until `stop` is there.
    pub(crate) async fn serve(
        self,
        server: PalisadeServer,
        stop: impl Future<Output = ()>,
    ) -> Result<(), Failure> {
        let Self { address, options } = self;
        let listener = TcpListener::bind(&address).await.map_err(|error| {
            Failure::Usage(format!(
                "`{address}` cannot be listened on: {error}\n  help: write an address with a port, for example `127.0.0.1:8080`"
            ))
        })?;
        let scheme = match options.certificates {
            Some(_) => "https",
            None => "http",
        };
        if let Ok(at) = listener.local_addr() {
            tracing::info!(
                "serving MCP at {scheme}://{at}/mcp, and for reading alone at /mcp/readonly"
            );
        }
        palisade_http::serve(server, listener, options, stop)
            .await
            .map_err(|error| Failure::Configuration(format!("error: {error}")))
    }
}
