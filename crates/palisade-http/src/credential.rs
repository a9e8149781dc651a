//! The credential of a request: whose it is, and for how long.

use std::{sync::Arc, time::SystemTime};

use axum::{
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use palisade::session::Principal;
use palisade_mcp::Asker;

use crate::{
    clients::{self, Named, PeerCertificate},
    door::refuse,
    oauth::{Bearer, Denied, Verifier, challenge_parameters},
    token::Token,
    tokens::Tokens,
};

/// Why a credential did not let its bearer in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuthFailure {
    /// There is none, or there are two.
    Missing,
    /// It is no bearer token.
    Malformed,
    /// It is no token of this server's, or was revoked, or has ended.
    Unknown,
    /// It is no token of an authorization server that counts here.
    Invalid,
    /// It lacks a scope.
    Scope,
    /// No principal is known of it.
    NoPrincipal,
    /// It is a client certificate that is not taken.
    Certificate,
    /// A token and a certificate are not those of one principal.
    Conflict,
    /// Whose it is cannot be told now.
    Unavailable,
}

impl AuthFailure {
    /// All of them.
    pub(crate) const ALL: [Self; 9] = [
        Self::Missing,
        Self::Malformed,
        Self::Unknown,
        Self::Invalid,
        Self::Scope,
        Self::NoPrincipal,
        Self::Certificate,
        Self::Conflict,
        Self::Unavailable,
    ];

    /// In a word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Malformed => "malformed",
            Self::Unknown => "unknown",
            Self::Invalid => "invalid",
            Self::Scope => "scope",
            Self::NoPrincipal => "no_principal",
            Self::Certificate => "certificate",
            Self::Conflict => "conflict",
            Self::Unavailable => "unavailable",
        }
    }
}

/// Who was not let in: why, and the answer.
pub(crate) type Refused = (AuthFailure, Box<Response>);

/// For how long a credential lets somebody in.
#[derive(Clone)]
pub(crate) enum Term {
    /// As long as the token is known.
    Listed(Tokens, Token),
    /// Until then.
    Until(SystemTime),
    /// As long as the connection's certificate is good, and that principal's.
    Certified(Arc<PeerCertificate>, Principal),
    /// As long as both.
    Both(Box<[Self; 2]>),
}

impl Term {
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Listed(tokens, token) => !matches!(tokens.find(token), Ok(Some(_))),
            Self::Until(end) => SystemTime::now() >= *end,
            Self::Certified(certificate, principal) => {
                !certificate.is_good()
                    || match certificate.identify() {
                        Named::One(bearer) => bearer.principal != *principal,
                        Named::Nobody | Named::Several => true,
                    }
            }
            Self::Both(terms) => terms.iter().any(Self::is_over),
        }
    }

    /// Whether it was taken back for good. What ends by itself can be followed by another of the same: certificates and tokens of an
    /// authorization server are renewed.
    pub(crate) fn is_revoked(&self) -> bool {
        match self {
            Self::Listed(tokens, token) => matches!(tokens.find(token), Ok(None)),
            Self::Until(_) | Self::Certified(..) => false,
            Self::Both(terms) => terms.iter().any(Self::is_revoked),
        }
    }
}

/// Who was let in.
pub(crate) struct Admitted {
    pub(crate) asker: Asker,
    /// What requests are counted by.
    pub(crate) account: String,
    pub(crate) term: Term,
}

/// What credentials there are.
pub(crate) struct Credentials {
    pub(crate) tokens: Tokens,
    pub(crate) verifier: Option<Verifier>,
    /// Whether client certificates count too.
    pub(crate) has_clients: bool,
}

impl Credentials {
    /// Who asks for `path` by these headers and the connection's certificate, or the answer for who is not let in.
    ///
    /// A certificate that is no good any more refuses the request, whatever comes with it. A certificate that names a principal takes away from
    /// a token: both must be of that principal.
    pub(crate) async fn authenticate(
        &self,
        headers: &HeaderMap,
        certificate: Option<&Arc<PeerCertificate>>,
        path: &str,
    ) -> Result<Admitted, Refused> {
        if certificate.is_some_and(|certificate| !certificate.is_good()) {
            return Err(refuse_certificate());
        }
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        match (values.next(), values.next(), certificate) {
            (None, None, Some(certificate)) => match certificate.identify() {
                Named::One(bearer) => Ok(admit_certified(certificate, *bearer)),
                Named::Nobody | Named::Several => Err(refuse_unnamed()),
            },
            (Some(value), None, None) => self.authenticate_bearer(value, path).await,
            (Some(value), None, Some(certificate)) => {
                let admitted = self.authenticate_bearer(value, path).await?;
                match certificate.identify() {
                    Named::Nobody => Ok(admitted),
                    Named::One(bearer) if bearer.principal == *admitted.asker.principal() => {
                        let certified = Term::Certified(Arc::clone(certificate), bearer.principal);
                        let term = Term::Both(Box::new([admitted.term, certified]));
                        Ok(Admitted { term, ..admitted })
                    }
                    Named::One(_) | Named::Several => Err(refuse_conflict()),
                }
            }
            (None, _, None) | (None, Some(_), Some(_)) | (Some(_), Some(_), _) => {
                Err((AuthFailure::Missing, self.challenge(path, None)))
            }
        }
    }

    /// Who asks by the value of `Authorization`.
    async fn authenticate_bearer(
        &self,
        value: &HeaderValue,
        path: &str,
    ) -> Result<Admitted, Refused> {
        let bearer = value.to_str().ok().and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        let Some(bearer) = bearer else {
            let answer = self.challenge(path, Some("write `Authorization: Bearer TOKEN`"));
            return Err((AuthFailure::Malformed, answer));
        };
        match (Token::read(bearer), &self.verifier) {
            (Some(token), _) => self.find(token, path),
            (None, Some(verifier)) => match verifier.verify(bearer, path).await {
                Ok(Bearer {
                    asker,
                    account,
                    until,
                }) => Ok(Admitted {
                    asker,
                    account,
                    term: Term::Until(until),
                }),
                Err(denied) => Err(self.deny(path, &denied)),
            },
            (None, None) => {
                let why = "the token is not one of this server's";
                Err((AuthFailure::Unknown, self.challenge(path, Some(why))))
            }
        }
    }

    /// Whose token of ours it is.
    fn find(&self, token: Token, path: &str) -> Result<Admitted, Refused> {
        match self.tokens.find(&token) {
            Ok(Some(entry)) => {
                let Ok(principal) = Principal::parse(&entry.principal) else {
                    let answer = refuse(StatusCode::INTERNAL_SERVER_ERROR, "internal");
                    return Err((AuthFailure::Unavailable, answer.into()));
                };
                Ok(Admitted {
                    asker: Asker::new(principal).with_client(entry.name.as_str()),
                    account: entry.name.as_str().to_owned(),
                    term: Term::Listed(self.tokens.clone(), token),
                })
            }
            Ok(None) => {
                let why = "the token is not known, or has ended";
                Err((AuthFailure::Unknown, self.challenge(path, Some(why))))
            }
            Err(error) => {
                tracing::error!("every request is refused: {error}");
                Err((AuthFailure::Unavailable, cannot_tell()))
            }
        }
    }

    /// The answer for a token of an authorization server that is refused.
    fn deny(&self, path: &str, denied: &Denied) -> Refused {
        match denied {
            Denied::Invalid(why) => (AuthFailure::Invalid, self.challenge(path, Some(why))),
            Denied::Unavailable => (AuthFailure::Unavailable, cannot_tell()),
            Denied::NoPrincipal => {
                let text =
                    "no principal is known for this token; its operator maps claims to principals";
                let answer = refuse(StatusCode::FORBIDDEN, text);
                (AuthFailure::NoPrincipal, answer.into())
            }
            Denied::Scope => {
                let text = "the token lacks a scope; ask for those of `WWW-Authenticate`";
                let value = format!("{REALM}, error=\"insufficient_scope\"{}", self.hints(path));
                let answer = with_challenge(refuse(StatusCode::FORBIDDEN, text), &value);
                (AuthFailure::Scope, answer)
            }
        }
    }

    /// 401, as RFC 6750 has it, with where to get a token (RFC 9728).
    fn challenge(&self, path: &str, invalid: Option<&str>) -> Box<Response> {
        let hints = self.hints(path);
        let (value, text) = match (invalid, &self.verifier) {
            (None, Some(_)) if self.has_clients => (
                format!("{REALM}{hints}"),
                "a token or a client certificate is needed: an authorization server gives tokens; `WWW-Authenticate` says where its address is",
            ),
            (None, None) if self.has_clients => (
                REALM.to_owned(),
                "a token or a client certificate is needed: `Authorization: Bearer palisade_…`, or a certificate of an authority that the operator named",
            ),
            (None, Some(_)) => (
                format!("{REALM}{hints}"),
                "a token is needed: an authorization server gives it; `WWW-Authenticate` says where its address is",
            ),
            (None, None) => (
                REALM.to_owned(),
                "a token is needed: `Authorization: Bearer palisade_…`; the operator makes one with `palisade token create`",
            ),
            (Some(why), _) => {
                let quoted = why.replace(['"', '`'], "'");
                let value = format!(
                    "{REALM}, error=\"invalid_token\", error_description=\"{quoted}\"{hints}"
                );
                (value, why)
            }
        };
        with_challenge(refuse(StatusCode::UNAUTHORIZED, text), &value)
    }

    fn hints(&self, path: &str) -> String {
        let verifier = self.verifier.as_ref();
        let hints = verifier.map(|verifier| challenge_parameters(verifier.options(), path));
        hints.unwrap_or_default()
    }
}

/// Whoever a certificate means.
fn admit_certified(certificate: &Arc<PeerCertificate>, bearer: clients::Bearer) -> Admitted {
    let clients::Bearer {
        principal,
        identity,
        name,
    } = bearer;
    Admitted {
        // No token's name has a blank, and no issuer's begins so.
        account: format!("certificate {} {}", name.kind().claim(), name.text()),
        term: Term::Certified(Arc::clone(certificate), principal.clone()),
        asker: Asker::new(principal)
            .with_identity(identity)
            .with_client(name.text()),
    }
}

/// The answer on a connection whose certificate has ended or was revoked since; the connection ends with it.
fn refuse_certificate() -> Refused {
    let text = "the client certificate of this connection is not taken any more; connect anew with one that is good";
    let mut answer = refuse(StatusCode::FORBIDDEN, text);
    let close = HeaderValue::from_static("close");
    answer.headers_mut().insert(header::CONNECTION, close);
    (AuthFailure::Certificate, answer.into())
}

fn refuse_unnamed() -> Refused {
    let text =
        "no principal is known for this client certificate; its operator maps names to principals";
    let answer = refuse(StatusCode::FORBIDDEN, text);
    (AuthFailure::NoPrincipal, answer.into())
}

fn refuse_conflict() -> Refused {
    let text = "the token and the client certificate are of two principals; send one of them, or both of the same";
    let answer = refuse(StatusCode::FORBIDDEN, text);
    (AuthFailure::Conflict, answer.into())
}

const REALM: &str = "Bearer realm=\"palisade\"";

fn with_challenge(mut response: Response, value: &str) -> Box<Response> {
    if let Ok(value) = HeaderValue::from_str(value) {
        let headers = response.headers_mut();
        headers.insert(header::WWW_AUTHENTICATE, value);
    }
    response.into()
}

fn cannot_tell() -> Box<Response> {
    let text = "the server cannot tell who asks; its operator's log says why";
    refuse(StatusCode::SERVICE_UNAVAILABLE, text).into()
}
