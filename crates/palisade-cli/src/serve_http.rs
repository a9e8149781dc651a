//! `palisade serve --http`: the same server for clients of other machines, who bring access tokens.

use std::{collections::BTreeSet, fs, future::Future};

use palisade::session::Principal;
pub(crate) use palisade_http::principal_source;
use palisade_http::{
    Algorithm, Certificates, ClaimMap, HttpOptions, Issuer, OauthOptions, TokenFile,
};
use palisade_mcp::PalisadeServer;
use tokio::net::TcpListener;

use crate::{
    config::ConfigFile,
    exit::Failure,
    http_config::HttpSetup,
    oauth_config::{IssuerSetup, OauthSetup},
};

/// Whether tokens may be signed by the algorithm of this name.
pub(crate) fn check_algorithm(name: &str) -> Result<(), String> {
    let known = name.parse::<Algorithm>();
    known.map(drop).map_err(|error| error.to_string())
}

/// Whether an address can be one of an issuer's.
pub(crate) fn check_issuer(address: &str) -> Result<(), String> {
    let issuer = Issuer::new(address.to_owned(), None, Vec::new());
    issuer.map(drop).map_err(|error| error.to_string())
}

/// Whose tokens count beside the server's own.
fn open_oauth(setup: OauthSetup) -> Result<OauthOptions, Failure> {
    let OauthSetup {
        resource,
        audience,
        claims,
        scopes,
        issuers,
    } = setup;
    let wrong = |why: String| Failure::Configuration(format!("error: {why}"));
    let text = fs::read_to_string(&claims).map_err(|error| {
        wrong(format!(
            "{}: {error}\n  help: this file says who asks, by what a token claims; the manual's page on the network shows one",
            claims.display()
        ))
    })?;
    let read = |setup: IssuerSetup| {
        let algorithms = setup
            .algorithms
            .iter()
            .map(|name| name.parse::<Algorithm>());
        let algorithms = algorithms
            .collect::<Result<_, _>>()
            .map_err(|error| wrong(error.to_string()))?;
        Issuer::new(setup.issuer, setup.keys, algorithms).map_err(|error| wrong(error.to_string()))
    };
    Ok(OauthOptions {
        resource,
        audience,
        scopes,
        issuers: issuers
            .into_iter()
            .map(read)
            .collect::<Result<_, Failure>>()?,
        claims: text
            .parse::<ClaimMap>()
            .map_err(|error| wrong(format!("{}: {error}", claims.display())))?,
    })
}

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
            oauth,
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
        options.oauth = oauth.map(open_oauth).transpose()?;
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
        if entries.is_empty() && self.options.oauth.is_none() {
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
