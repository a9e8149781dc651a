//! Access tokens of an authorization server: the server over HTTP is a resource server of OAuth 2.1.
//!
//! A token is a JWT (RFC 9068) that an issuer of the configuration signed for this server (RFC 8707). What it claims of its bearer
//! becomes a principal, roles and attributes by a [`ClaimMap`](crate::ClaimMap); a token that no line of it fits has no principal.
//!
//! | of a token | is asked |
//! |---|---|
//! | `alg` | that it is one of the issuer's, and fits the key; never `none`, never a shared secret |
//! | the signature | that a key of the issuer's made it |
//! | `iss` | that it is the issuer, to the letter |
//! | `aud` | that this server is among them, to the letter |
//! | `exp`, `nbf`, `iat` | that it has an end, that it is now between them; clocks may differ by [`LEEWAY`] |
//! | `scope`, `scp` | that it has every scope that the operator demands |

mod discovery;
mod jwt;
mod key_source;
mod keys;
mod metadata;

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use palisade::session::Principal;
use palisade_mcp::Asker;

pub use key_source::{Issuer, IssuerError};
pub use keys::Algorithm;
pub(crate) use metadata::{challenge_parameters, describe_resource, metadata_paths};

use crate::{
    claim_file::ClaimFile,
    oauth::{jwt::Jwt, key_source::KeySource},
};

/// By how much the clock of an issuer may differ from ours.
pub const LEEWAY: Duration = Duration::from_secs(60);

/// The longest token, in bytes.
const MAX_TOKEN: usize = 16 * 1024;

/// What an operator decides about tokens of authorization servers.
#[derive(Debug, Clone)]
pub struct OauthOptions {
    /// The address by which clients call `/mcp`, as `https://palisade.example.com/mcp`.
    pub resource: String,
    /// The audience that a token must name, where its issuer does not write `resource` there (RFC 8707).
    pub audience: Option<String>,
    /// The scopes that a token must have, and that clients are told to ask for.
    pub scopes: Vec<String>,
    /// Whose tokens count.
    pub issuers: Vec<Issuer>,
    /// Who asks, by what a token claims.
    pub claims: ClaimFile,
}

/// Why a token is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Denied {
    /// It is no good; a client may be told why.
    Invalid(&'static str),
    /// It lacks a scope.
    Scope,
    /// It is good, and no line of the map fits it.
    NoPrincipal,
    /// The keys of its issuer cannot be had.
    Unavailable,
}

/// Whose token it was.
#[derive(Debug, Clone)]
pub(crate) struct Bearer {
    pub(crate) asker: Asker,
    /// What requests are counted by: the issuer and its name of the bearer.
    pub(crate) account: String,
    /// When the token ends.
    pub(crate) until: SystemTime,
}

/// Verifies tokens.
#[derive(Debug)]
pub(crate) struct Verifier {
    options: OauthOptions,
    sources: Vec<Arc<KeySource>>,
}

impl Verifier {
    pub(crate) fn new(options: OauthOptions) -> Self {
        let sources = options.issuers.iter().cloned();
        let sources = sources.map(|issuer| Arc::new(KeySource::new(issuer)));
        Self {
            sources: sources.collect(),
            options,
        }
    }

    pub(crate) fn options(&self) -> &OauthOptions {
        &self.options
    }

    /// Whose `token` is, for a request to `resource`: what the operator calls the server, or its part where nothing is changed.
    ///
    /// # Errors
    /// If it is not to be let in.
    pub(crate) async fn verify(&self, token: &str, path: &str) -> Result<Bearer, Denied> {
        if token.len() > MAX_TOKEN {
            return Err(Denied::Invalid("the token is too long"));
        }
        let jwt = Jwt::read(token)?;
        let issuer = jwt.issuer();
        let source = self
            .sources
            .iter()
            .find(|source| source.issuer().name() == issuer)
            .ok_or(Denied::Invalid("its issuer is not one of this server's"))?;
        let algorithm = source
            .issuer()
            .find_algorithm(jwt.algorithm())
            .ok_or(Denied::Invalid("its algorithm is not permitted"))?;
        let claims = source.verify(jwt, algorithm).await?;
        let until = claims.check_times(now().ok_or(Denied::Unavailable)?)?;
        let audiences = self.audiences(path);
        if !audiences.iter().any(|audience| claims.is_for(audience)) {
            return Err(Denied::Invalid("it is for another server"));
        }
        if !(self.options.scopes.iter()).all(|scope| claims.has_scope(scope)) {
            return Err(Denied::Scope);
        }
        let subject = claims.subject().ok_or(Denied::Invalid("it has no `sub`"))?;
        let account = format!("{issuer} {subject}", issuer = source.issuer().name());
        let (principal, identity): (Principal, _) = self
            .options
            .claims
            .map()
            .identify(source.issuer().name(), claims.all())
            .ok_or(Denied::NoPrincipal)?;
        let asker = Asker::new(principal).with_identity(identity);
        let asker = match claims.client() {
            Some(client) => asker.with_client(client),
            None => asker,
        };
        Ok(Bearer {
            asker,
            account,
            until: UNIX_EPOCH + Duration::from_secs(until),
        })
    }

    /// The audiences that let a token in at `path`. One for reading alone lets in there alone.
    fn audiences(&self, path: &str) -> Vec<String> {
        let own = self
            .options
            .audience
            .as_ref()
            .unwrap_or(&self.options.resource);
        let own = own.clone();
        match path.ends_with(metadata::READ_ONLY_PART) {
            true => vec![format!("{own}{}", metadata::READ_ONLY_PART), own],
            false => vec![own],
        }
    }
}

/// Seconds since 1970-01-01 UTC; none by a clock that stands before that, by which no token would ever end.
fn now() -> Option<u64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Some(since.as_secs())
}
