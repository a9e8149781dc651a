//! Asks an address for a bundle. An answer takes at most [`PATIENCE`] and so many bytes as a bundle can have. Redirects lead to hosts
//! that are granted, over the same scheme, and no credentials go with them.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use palisade_host::BUNDLE_LIMIT;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

use crate::{
    bundle::{Fetched, registry},
    config::{
        bundle::{BundleSetup, BundleSource},
        telemetry::find_host,
    },
    exit::Failure,
};

/// How long an answer may take from its first byte to its last.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long its first byte may take, and a connection before.
const FIRST: Duration = Duration::from_secs(5);

/// Redirects that are followed.
const REDIRECTS: usize = 3;

/// Bytes of a file of authorities.
const MAX_AUTHORITIES: u64 = 4 * 1024 * 1024;

/// Asks one source.
pub(super) struct Fetcher {
    agent: ureq::Agent,
    setup: Arc<BundleSetup>,
    /// What a registry gave last for what it asks of clients.
    pub(super) ticket: Mutex<Option<String>>,
}

/// What is asked for.
pub(super) struct Request<'a> {
    pub(super) url: &'a str,
    pub(super) accept: &'a str,
    pub(super) authorization: Option<String>,
    /// What is known already, by its mark.
    pub(super) known: Option<&'a str>,
    /// Bytes of the answer.
    pub(super) limit: u64,
}

/// What is answered.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
    pub(super) mark: Option<String>,
    /// How the server wants to know who asks.
    pub(super) challenge: Option<String>,
}

impl Fetcher {
    pub(super) fn new(setup: &Arc<BundleSetup>) -> Result<Self, Failure> {
        let roots = match &setup.authorities {
            None => RootCerts::WebPki,
            Some(path) => read_authorities(path).map_err(|why| {
                Failure::Configuration(format!(
                    "error: the authorities `{}` cannot be used: {why}\n  help: write certificates in PEM into it",
                    path.display()
                ))
            })?,
        };
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            // What the environment says decides nothing.
            .proxy(None)
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .timeout_resolve(Some(FIRST))
            .timeout_connect(Some(FIRST))
            .timeout_recv_response(Some(FIRST))
            .timeout_global(Some(PATIENCE))
            .max_idle_connections(0)
            .user_agent(concat!("palisade/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Self {
            agent: config.into(),
            setup: Arc::clone(setup),
            ticket: Mutex::default(),
        })
    }

    /// That its credentials can be read.
    pub(super) fn check(&self) -> Result<(), Failure> {
        match &self.setup.credentials {
            Some(secret) => secret.read().map(drop),
            None => Ok(()),
        }
    }

    /// What the source has, if it is not what it knows by `mark`.
    ///
    /// # Errors
    /// Why it has none, as a clause.
    pub(super) fn fetch(&self, mark: Option<&str>) -> Result<Fetched, String> {
        let url = match &self.setup.source {
            BundleSource::Address(url) => url,
            BundleSource::Registry(place) => return registry::fetch(self, place, mark),
            BundleSource::File(_) => return Err("it is a file".to_owned()),
        };
        let reply = self.get(Request {
            url,
            accept: "*/*",
            authorization: self.basic()?,
            known: mark,
            limit: u64::try_from(BUNDLE_LIMIT).unwrap_or(u64::MAX),
        })?;
        match (reply.status, mark) {
            (200, _) => Ok(Fetched::New {
                bytes: reply.body,
                mark: reply.mark,
            }),
            (304, Some(_)) => Ok(Fetched::Same),
            (status, _) => Err(format!("it answered {status}")),
        }
    }

    /// The operator's credentials, as a header has them.
    pub(super) fn basic(&self) -> Result<Option<String>, String> {
        let Some(secret) = &self.setup.credentials else {
            return Ok(None);
        };
        let text = secret.read().map_err(|failure| failure.to_string())?;
        let text = zeroize::Zeroizing::new(STANDARD.encode(text.reveal()));
        Ok(Some(format!("Basic {}", text.as_str())))
    }

    /// Whether `url` may be asked, for something of the source at `base`: by the scheme of the source, at a host that is granted.
    ///
    /// # Errors
    /// Why not, as a clause.
    pub(super) fn admit(&self, url: &str, base: &str) -> Result<(), String> {
        let scheme = |url: &str| url.split_once("://").map(|(scheme, _)| scheme.to_owned());
        if scheme(url) != scheme(base) {
            return Err("it sends elsewhere by another scheme, which is not followed".to_owned());
        }
        let plain = url.split(['?', '#']).next().unwrap_or_default();
        let host = find_host(plain).ok_or("it sends to no address")?;
        let mut hosts = self.setup.hosts.iter();
        match hosts.any(|granted| granted.eq_ignore_ascii_case(&host)) {
            true => Ok(()),
            false => Err(format!(
                "it sends to `{host}`, which is not granted; `hosts = [\"{host}\"]` under `[grants]` grants it"
            )),
        }
    }

    /// Asks, and follows redirects.
    pub(super) fn get(&self, request: Request<'_>) -> Result<Reply, String> {
        let Request {
            url,
            accept,
            mut authorization,
            known,
            limit,
        } = request;
        let mut at = url.to_owned();
        for _ in 0..=REDIRECTS {
            let mut asked = self.agent.get(&at).header("accept", accept);
            if let Some(authorization) = &authorization {
                asked = asked.header("authorization", authorization);
            }
            if let Some(known) = known {
                asked = asked.header("if-none-match", known);
            }
            let mut answer = asked.call().map_err(|error| describe(&error))?;
            let header = |name: &str| {
                let value = answer.headers().get(name)?.to_str().ok()?;
                Some(value.to_owned())
            };
            let status = answer.status().as_u16();
            if [301, 302, 303, 307, 308].contains(&status) {
                let Some(place) = header("location") else {
                    return Err(format!("it answered {status}, and says not where"));
                };
                let next = match place.starts_with('/') && !place.starts_with("//") {
                    true => format!("{}{place}", find_base(&at)),
                    false => place,
                };
                self.admit(&next, url)?;
                if find_base(&next) != find_base(&at) {
                    authorization = None;
                }
                at = next;
                continue;
            }
            let (mark, challenge) = (header("etag"), header("www-authenticate"));
            let body = answer.body_mut().with_config().limit(limit);
            let body = match status {
                200 => body.read_to_vec().map_err(|error| describe(&error))?,
                _ => Vec::new(),
            };
            return Ok(Reply {
                status,
                body,
                mark,
                challenge,
            });
        }
        Err("it sends elsewhere again and again".to_owned())
    }
}

/// The scheme and the host of an address.
fn find_base(url: &str) -> &str {
    let behind = url.find("://").map_or(0, |at| at.saturating_add(3));
    let rest = url.get(behind..).unwrap_or_default();
    let length = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    url.get(..behind.saturating_add(length)).unwrap_or(url)
}

/// An error without the address, which can hold a secret where a server sends elsewhere.
fn describe(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Timeout(_) => "it did not answer in time".to_owned(),
        ureq::Error::BodyExceedsLimit(limit) => {
            format!("its answer is longer than {limit} bytes")
        }
        ureq::Error::Io(error) => error.to_string(),
        ureq::Error::HostNotFound => "its host is not known".to_owned(),
        ureq::Error::Tls(why) => format!("TLS: {why}"),
        ureq::Error::Rustls(error) => format!("TLS: {error}"),
        // Foreign and open-ended: whatever else there may be can hold the address.
        _ => "it did not answer as HTTP servers do".to_owned(),
    }
}

fn read_authorities(path: &std::path::Path) -> Result<RootCerts, String> {
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() || metadata.len() > MAX_AUTHORITIES {
        return Err(format!("it is no file of up to {MAX_AUTHORITIES} bytes"));
    }
    let text = std::fs::read(path).map_err(|error| error.to_string())?;
    let items = parse_pem(&text).collect::<Result<Vec<_>, _>>();
    let items = items.map_err(|_| "it is not PEM".to_owned())?;
    let certificates: Vec<_> = items
        .into_iter()
        .filter_map(|item| match item {
            PemItem::Certificate(certificate) => Some(certificate),
            _ => None,
        })
        .collect();
    match certificates.is_empty() {
        true => Err("there is no certificate in it".to_owned()),
        false => Ok(RootCerts::new_with_certs(&certificates)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_base() {
        for (url, base) in [
            ("https://a/b", "https://a"),
            ("https://a:1?x", "https://a:1"),
            ("https://a", "https://a"),
            ("a/b", "a"),
        ] {
            assert_eq!(find_base(url), base);
        }
    }
}
