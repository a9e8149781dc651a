//! Palisade's MCP server over HTTP, for people who do not share a machine: tokens or client certificates say who asks, TLS hides what they ask.
//!
//! [`serve`] answers MCP at `/mcp` in both revisions. `/mcp/readonly` is the same where nothing may be changed. The headers `Palisade-Read-Only`, `Palisade-Databases` and
//! `Palisade-Tools` take away from what a request could have, and can add nothing. `/healthz` and `/readyz` need no token and tell
//! nothing else.
//!
//! A client of a revision before 2026-07-28 that begins with `initialize` is given a session, unless [`HttpOptions::sessions`] is off.
//! Each request of it brings its token all the same, and has to be of who began it.
//!
//! | a request | is answered |
//! |---|---|
//! | without a token, or with one that is not known, revoked or expired | 401, with `WWW-Authenticate` |
//! | from a page of a browser whose origin is not listed, or for a host that is not | 403 |
//! | with a query, with a header `Palisade-…` that is not known, or of which a name is not offered | 400 |
//! | of a session that is not there, or is somebody else's | 404 |
//! | of a session that was begun with other headers `Palisade-…` or at the other path | 400 |
//! | with a token that lacks a scope, or of whom no principal is known | 403 |
//! | whose client certificate is no good any more, names no principal, or is not of its token's principal | 403 |
//! | over the rate of its token, or one session more than a token has | 429, with `Retry-After` |
//! | whose body is too large, or takes too long to come | 413, 408 |
//!
//! Beside its own tokens the server takes client certificates, where [`ClientAuthorities`] say whose, and tokens of authorization servers, where [`OauthOptions`] name them. Metadata then say
//! where a client gets one, and need no token themselves.
//!
//! The server's [`PrincipalSource`](palisade_mcp::PrincipalSource) is [`principal_source`], which knows whose token a request brought.
//!
//! A [`TokenFile`] holds hashes of tokens, each with a name, a principal and an end. It is looked at again at each request, so
//! that what is revoked is not known any more at once. [`SharedTokens`] are in a store of several servers, and known for five seconds at most
//! where it does not answer. An answer that goes on for long ends with its token.
//!
//! # Files
//!
//! * `listen`: takes connections, and bounds them.
//! * `certificates`: the certificate that the server shows.
//! * `clients`: client certificates.
//! * `door`: asks each request for a credential, and looks whether it is one of MCP.
//! * `credential`: whose a credential is, and for how long.
//! * `asker`: the principal of a request, for the server behind.
//! * `token`: random texts that stand for a principal.
//! * `token_file`: the file of the server's own tokens.
//! * `tokens`: where tokens are: in the file, or in a store of several servers.
//! * `oauth`: access tokens of authorization servers.
//! * `claim_map`: which principal the claims of a token or a certificate name.
//! * `claim_file`: the file of that map, read again when it changes.
//! * `file_stamp`: whether a file has changed since it was read.
//! * `narrowing`: the headers by which a request asks for fewer databases or tools.
//! * `rates`: how often the bearer of a token may ask.
//! * `protocol`: answers a request alone or within a session.
//! * `sessions`: what is said to one client, bounded and bound to who began it.
//! * `revocation`: ends long answers with the token that asked for them.
//! * `metrics`: counts for Prometheus.
//! * `options`: what an operator decides.

#![deny(clippy::print_stdout, clippy::print_stderr)]

// What the suite's handler answers goes through no gate.
#[cfg(all(feature = "conformance", not(debug_assertions)))]
compile_error!("the feature `conformance` is for a test suite, and no release may have it");

mod asker;
mod certificates;
mod claim_file;
mod claim_map;
mod clients;
mod credential;
mod door;
mod file_stamp;
mod listen;
mod metrics;
mod narrowing;
mod oauth;
mod options;
mod protocol;
mod rates;
mod revocation;
mod sessions;
mod token;
mod token_file;
mod tokens;

pub use asker::principal_source;
pub use certificates::{CertificateError, Certificates};
pub use claim_file::{ClaimFile, ClaimFileError};
pub use claim_map::{ClaimMap, ClaimMapError};
pub use clients::{ClientAuthorities, ClientOptions};
#[cfg(feature = "conformance")]
#[doc(hidden)]
pub use listen::serve_beside;
pub use listen::{HttpError, serve};
pub use metrics::{MetricSource, Metrics, serve_metrics};
pub use oauth::{Algorithm, Issuer, IssuerError, LEEWAY, OauthOptions};
pub use options::HttpOptions;
pub use token::{Token, TokenName, TokenNameError};
pub use token_file::{TokenEntry, TokenFile, TokenFileError};
pub use tokens::{SharedTokens, TokenStore, Tokens};
