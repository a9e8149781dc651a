//! Whose tokens the server over HTTP takes beside its own: `[http.oauth]` of the configuration.

use std::{
    collections::BTreeMap,
    ops::Range,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use toml::Spanned;

use crate::{exit::Failure, serve_http};

/// `[http.oauth]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Oauth {
    /// The address by which clients call the server, for example `"https://palisade.example.com/mcp"`. Tokens must name it as their audience.
    pub(crate) resource: Spanned<String>,
    /// What tokens name as their audience instead, for example `"api://palisade"`.
    pub(crate) audience: Option<Spanned<String>>,
    /// The file that says who asks, by what a token claims. Without it, `claims.toml`.
    pub(crate) claims: Option<PathBuf>,
    /// Scopes that every token must have.
    #[serde(default)]
    pub(crate) scopes: Vec<Spanned<String>>,
    /// Authorization servers whose tokens count, each by a name for it.
    #[serde(default)]
    pub(crate) issuers: BTreeMap<String, OauthIssuer>,
}

/// `[http.oauth.issuers.NAME]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OauthIssuer {
    /// What it calls itself in its tokens (`iss`), for example `"https://login.example.com"`.
    pub(crate) issuer: Spanned<String>,
    /// The address of its keys. Without it, where its metadata say.
    pub(crate) keys: Option<Spanned<String>>,
    /// By what its tokens may be signed: RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, EdDSA. Without it, RS256 and ES256.
    #[serde(default)]
    pub(crate) algorithms: Vec<Spanned<String>>,
}

/// The file of claims, beside the configuration.
const CLAIMS: &str = "claims.toml";

/// The same, read; paths are from the folder of the configuration.
#[derive(Debug, Clone)]
pub(crate) struct OauthSetup {
    pub(crate) resource: String,
    pub(crate) audience: Option<String>,
    pub(crate) claims: PathBuf,
    pub(crate) scopes: Vec<String>,
    pub(crate) issuers: Vec<IssuerSetup>,
}

/// An authorization server.
#[derive(Debug, Clone)]
pub(crate) struct IssuerSetup {
    pub(crate) issuer: String,
    pub(crate) keys: Option<String>,
    pub(crate) algorithms: Vec<String>,
}

impl Oauth {
    /// Reads it. `fault` says what is wrong at a place, and what to do.
    pub(crate) fn read(
        self,
        folder: &Path,
        fault: impl Fn(&str, Option<Range<usize>>, &str) -> Failure,
    ) -> Result<OauthSetup, Failure> {
        let Self {
            resource,
            audience,
            claims,
            scopes,
            issuers,
        } = self;
        let is_address = ["https://", "http://"].iter().any(|scheme| {
            let rest = resource.get_ref().strip_prefix(scheme);
            rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(['?', '#', '@', '"', ' ']))
        });
        if !is_address || !resource.get_ref().ends_with("/mcp") {
            let message = format!("`{}` is no address of the server", resource.get_ref());
            let help = "write the address that clients are given, for example `https://palisade.example.com/mcp`";
            return Err(fault(&message, Some(resource.span()), help));
        }
        if let Some(empty) = audience
            .as_ref()
            .filter(|audience| audience.get_ref().is_empty())
        {
            let help = "write what the issuer's tokens have as `aud`, or leave the line out";
            return Err(fault("the audience is empty", Some(empty.span()), help));
        }
        for scope in &scopes {
            // RFC 6749, section 3.3.
            let is_scope = !scope.get_ref().is_empty()
                && scope
                    .get_ref()
                    .bytes()
                    .all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\');
            if !is_scope {
                let message = format!("`{}` is no scope", scope.get_ref());
                let help = "write a word without spaces, quotes and backslashes";
                return Err(fault(&message, Some(scope.span()), help));
            }
        }
        if issuers.is_empty() {
            let help = "name one: `[http.oauth.issuers.login]` with its `issuer`";
            let message = "no authorization server is named";
            return Err(fault(message, Some(resource.span()), help));
        }
        let mut read = Vec::new();
        for table in issuers.into_values() {
            let OauthIssuer {
                issuer,
                keys,
                algorithms,
            } = table;
            for algorithm in &algorithms {
                serve_http::check_algorithm(algorithm.get_ref()).map_err(|why| {
                    fault(
                        &why,
                        Some(algorithm.span()),
                        "name what the server signs its tokens by",
                    )
                })?;
            }
            for address in keys.iter().chain([&issuer]) {
                serve_http::check_issuer(address.get_ref()).map_err(|why| {
                    fault(
                        &why,
                        Some(address.span()),
                        "copy the address from the metadata of the server",
                    )
                })?;
            }
            let text = |text: Spanned<String>| text.into_inner();
            read.push(IssuerSetup {
                issuer: text(issuer),
                keys: keys.map(text),
                algorithms: algorithms.into_iter().map(text).collect(),
            });
        }
        Ok(OauthSetup {
            resource: resource.into_inner(),
            audience: audience.map(Spanned::into_inner),
            claims: folder.join(claims.unwrap_or_else(|| PathBuf::from(CLAIMS))),
            scopes: scopes.into_iter().map(Spanned::into_inner).collect(),
            issuers: read,
        })
    }
}
