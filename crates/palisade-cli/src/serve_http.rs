//! `palisade serve --http`: the same server for clients of other machines, who bring access tokens.

use std::{collections::BTreeSet, future::Future, net::SocketAddr, sync::Arc};

use palisade::session::Principal;
pub(crate) use palisade_http::principal_source;
use palisade_http::{
    Algorithm, Certificates, ClaimFile, ClaimFileError, ClientAuthorities, ClientOptions,
    HttpOptions, Issuer, MetricSource, Metrics, OauthOptions,
};
use palisade_mcp::{CallObserver, PalisadeServer};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::{
    access_token::open_tokens,
    bundle,
    config::{
        ConfigFile,
        clients::ClientsSetup,
        http::HttpSetup,
        oauth::{IssuerSetup, OauthSetup},
    },
    counts::Counts,
    exit::Failure,
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

fn wrong(why: String) -> Failure {
    Failure::Configuration(format!("error: {why}"))
}

/// Why a file of claims cannot be used, and what it is for where it is missing.
fn explain_claims(error: &ClaimFileError, by: &str) -> Failure {
    match error {
        ClaimFileError::Io { .. } => wrong(format!(
            "{error}\n  help: this file says who asks, {by}; the manual's page on the network shows one"
        )),
        error => wrong(error.to_string()),
    }
}

/// Whose client certificates count.
fn open_clients(setup: ClientsSetup) -> Result<ClientAuthorities, Failure> {
    let ClientsSetup {
        authorities,
        revoked,
        claims,
        is_required,
    } = setup;
    let claims = ClaimFile::read_for_certificates(claims)
        .map_err(|error| explain_claims(&error, "by the names in a client certificate"))?;
    let options = ClientOptions {
        authorities,
        revoked,
        claims,
        is_required,
    };
    ClientAuthorities::read(options)
        .map_err(|error| wrong(format!("`[http.clients]` cannot be used: {error}")))
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
    let claims = ClaimFile::read(claims)
        .map_err(|error| explain_claims(&error, "by what a token claims"))?;
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
        claims,
    })
}

/// Where it listens, and under what terms.
pub(crate) struct HttpDoor {
    address: String,
    /// Where figures are told.
    metrics: Option<SocketAddr>,
    /// Which certificates connections bring, if any are asked for.
    clients: Option<Clients>,
    options: HttpOptions,
}

/// Whether connections must bring a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clients {
    Required,
    Optional,
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
            sessions,
            tasks,
            oauth,
            clients,
            metrics,
            requests_per_minute,
            connections,
        } = config.http().clone();
        let asked = clients.as_ref().map(|clients| match clients.is_required {
            true => Clients::Required,
            false => Clients::Optional,
        });
        let clients = clients.map(open_clients).transpose()?;
        let certificates = certificate
            .map(|(certificate, key)| match clients {
                None => Certificates::read(certificate, key),
                Some(clients) => Certificates::read_with_clients(certificate, key, clients),
            })
            .transpose()
            .map_err(|error| {
                Failure::Configuration(format!(
                    "error: the certificate of `[http]` cannot be used: {error}"
                ))
            })?;
        let mut options = HttpOptions::new(open_tokens(&tokens, config)?);
        options.certificates = certificates;
        options.proxies = proxies;
        options.hosts = hosts;
        options.origins = origins;
        options.sessions = sessions;
        options.tasks = tasks;
        options.oauth = oauth.map(open_oauth).transpose()?;
        if let Some(requests) = requests_per_minute.and_then(|n| u32::try_from(n).ok()) {
            options.requests_per_minute = requests;
        }
        if let Some(connections) = connections.and_then(|n| usize::try_from(n).ok()) {
            options.connections = connections;
        }
        Ok(Self {
            address: address.to_owned(),
            metrics,
            clients: asked,
            options,
        })
    }

    /// Has figures tell of `counts` too, if they are told.
    pub(crate) fn tell_counts(&mut self, counts: &Counts) {
        if self.metrics.is_some() {
            self.options.metrics = Some(Arc::new(Metrics::new(sources(counts))));
        }
    }

    /// What wants to be told of calls.
    pub(crate) fn observer(&self) -> Option<Arc<dyn CallObserver>> {
        let metrics = self.options.metrics.as_ref();
        metrics.map(|metrics| Arc::clone(metrics) as Arc<dyn CallObserver>)
    }

    /// Who has a token.
    pub(crate) fn principals(&self) -> Result<BTreeSet<Principal>, Failure> {
        let entries = self.options.tokens.entries();
        let entries = entries.map_err(|error| Failure::Configuration(format!("error: {error}")))?;
        let is_only_way = self.options.oauth.is_none() && self.clients.is_none();
        if entries.is_empty() && is_only_way {
            tracing::warn!(
                "there is no access token yet, so that every request is refused; make one by `palisade token create`"
            );
        }
        if !entries.is_empty() && self.clients == Some(Clients::Required) {
            tracing::warn!(
                "access tokens let in only over a connection with a client certificate; write `required = false` under `[http.clients]` to take them alone"
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
        let Self {
            address,
            metrics,
            clients: _,
            options,
        } = self;
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
        // It goes on until the last request has ended.
        let figures = match (metrics, options.metrics.clone()) {
            (Some(address), Some(metrics)) => {
                Some(tell_figures(address, metrics, server.clone()).await?)
            }
            (_, _) => None,
        };
        let served = palisade_http::serve(server, listener, options, stop).await;
        if let Some(figures) = figures {
            figures.abort();
        }
        served.map_err(|error| Failure::Configuration(format!("error: {error}")))
    }
}

/// Begins to tell figures at `address`.
async fn tell_figures(
    address: SocketAddr,
    metrics: Arc<Metrics>,
    server: PalisadeServer,
) -> Result<JoinHandle<()>, Failure> {
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Failure::Configuration(format!(
            "error: `{address}` of `[http.metrics]` cannot be listened on: {error}\n  help: write an address of this machine and a port that is free"
        ))
    })?;
    if let Ok(at) = listener.local_addr() {
        tracing::info!("figures for Prometheus are at http://{at}/metrics");
        if !at.ip().is_loopback() {
            tracing::warn!("whoever reaches {at} can read the figures: they need no token");
        }
    }
    let told = palisade_http::serve_metrics(metrics, server, listener, std::future::pending());
    Ok(tokio::spawn(told))
}

/// The figures that are asked for when somebody reads them.
fn sources(counts: &Counts) -> Vec<MetricSource> {
    let source = |name, help, read: fn(&Counts) -> Option<u64>| {
        let counts = counts.clone();
        MetricSource {
            name,
            help,
            read: Box::new(move || read(&counts)),
        }
    };
    vec![
        source(
            "audit_records_total",
            "Audit records that were written.",
            |counts| Some(counts.written()),
        ),
        source(
            "audit_failures_total",
            "Audit records that could not be written.",
            |counts| Some(counts.failed()),
        ),
        source(
            "policy_bundle_age_seconds",
            "Seconds since a source of policies had a sound bundle, of the one for which it is longest ago.",
            |_| bundle::find_age(),
        ),
        source(
            "policy_bundle_serial",
            "The serial number of the newest bundle, where there is one source.",
            |_| bundle::find_serial(),
        ),
        source(
            "policy_pull_failures_total",
            "How often a source of policies had no sound bundle.",
            |_| bundle::count_failures(),
        ),
        source(
            "approvals_waiting",
            "Requests that wait for a person's approval.",
            Counts::waiting,
        ),
    ]
}
