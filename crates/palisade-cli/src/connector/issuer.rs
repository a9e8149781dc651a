//! The third step: what the authorization server says of itself (RFC 8414, OpenID Connect Discovery 1.0), and how a client becomes
//! known to it.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::connector::{
    Checks,
    address::Address,
    fetch::{Fetcher, text, texts},
};

/// How clients become known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Registration {
    /// By a document at an address of their own, which is their name.
    pub(super) metadata_document: bool,
    /// By a request of their own (RFC 7591).
    pub(super) dynamic: bool,
    /// Without a secret, as programs on people's machines have to.
    pub(super) without_secret: bool,
}

/// Looks at the authorization server called `issuer`, of which tokens with `scopes` are asked.
pub(super) fn check(
    fetcher: &Fetcher,
    issuer: &str,
    scopes: &[String],
    checks: &mut Checks,
) -> Registration {
    let Some(object) = find(fetcher, issuer, checks) else {
        return Registration::default();
    };
    check_endpoints(&object, issuer, checks);
    check_code(&object, checks);
    if let Some(known) = texts(&object, "scopes_supported")
        && let Some(unknown) = scopes.iter().find(|scope| !known.contains(scope))
    {
        checks.fault(
            "scopes",
            format!("`{issuer}` does not know the scope `{unknown}`"),
            "make the scope there, or leave it out of `scopes` of `[http.oauth]`",
        );
    }
    check_registration(&object, issuer, checks)
}

/// The metadata, from the first place where they are.
fn find(fetcher: &Fetcher, issuer: &str, checks: &mut Checks) -> Option<Map<String, Value>> {
    const REMEDY: &str =
        "write the issuer under `[http.oauth.issuers]` to the letter as its own metadata have it";
    let address = match Address::read(issuer) {
        Ok(address) => address,
        Err(why) => {
            checks.fault("issuer", format!("`{issuer}` {why}"), REMEDY);
            return None;
        }
    };
    let mut missing = Vec::new();
    for place in places(&address) {
        match fetcher.read_object(&place) {
            Ok(object) if text(&object, "issuer") == Some(issuer) => {
                checks.pass("issuer", place);
                return Some(object);
            }
            Ok(object) => {
                let other = text(&object, "issuer").unwrap_or_default();
                let finding = format!("{place} is of `{other}`, and not of `{issuer}`");
                checks.fault("issuer", finding, REMEDY);
                return None;
            }
            Err(why) => missing.push(why),
        }
    }
    checks.fault("issuer", missing.join("; "), REMEDY);
    None
}

/// Where metadata are, in the order in which clients look: RFC 8414 has the well-known part before the path, OpenID Connect behind
/// it.
fn places(issuer: &Address) -> Vec<String> {
    let (origin, path) = (issuer.origin(), issuer.path().trim_end_matches('/'));
    let mut places = vec![
        format!("{origin}/.well-known/oauth-authorization-server{path}"),
        format!("{origin}/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        places.push(format!("{origin}{path}/.well-known/openid-configuration"));
    }
    places
}

/// People log in at one address, and tokens are given at the other.
fn check_endpoints(object: &Map<String, Value>, issuer: &str, checks: &mut Checks) {
    let may_be_plain = Address::read(issuer).is_ok_and(|issuer| issuer.is_own());
    for key in ["authorization_endpoint", "token_endpoint"] {
        let remedy = "let the authorization server offer the authorization code flow, over `https`";
        let Some(place) = text(object, key) else {
            checks.fault("endpoints", format!("the issuer names no `{key}`"), remedy);
            continue;
        };
        match Address::read(place.split('?').next().unwrap_or_default()) {
            Ok(address) if address.is_encrypted() || (may_be_plain && address.is_own()) => {
                checks.pass("endpoints", format!("{key} {place}"));
            }
            Ok(_) => {
                let finding = format!("`{key}` is not encrypted: {place}");
                checks.fault("endpoints", finding, remedy);
            }
            Err(why) => {
                let finding = format!("`{key}`, `{place}`, {why}");
                checks.fault("endpoints", finding, remedy);
            }
        }
    }
}

/// The authorization code flow with PKCE, without which clients must not go on.
fn check_code(object: &Map<String, Value>, checks: &mut Checks) {
    if let Some(types) = texts(object, "response_types_supported")
        && !types.iter().any(|kind| kind == "code")
    {
        checks.fault(
            "code flow",
            "`response_types_supported` is without `code`",
            "let the authorization server offer the authorization code flow",
        );
    }
    if let Some(grants) = texts(object, "grant_types_supported")
        && !grants.iter().any(|grant| grant == "authorization_code")
    {
        checks.fault(
            "code flow",
            "`grant_types_supported` is without `authorization_code`",
            "let the authorization server offer the authorization code flow",
        );
    }
    let methods = texts(object, "code_challenge_methods_supported").unwrap_or_default();
    match methods.iter().any(|method| method == "S256") {
        true => checks.pass("PKCE", "S256"),
        false => checks.fault(
            "PKCE",
            "`code_challenge_methods_supported` is without `S256`, and clients must stop there",
            "turn PKCE with S256 on at the authorization server, and have its metadata say so",
        ),
    }
}

fn check_registration(
    object: &Map<String, Value>,
    issuer: &str,
    checks: &mut Checks,
) -> Registration {
    let methods = texts(object, "token_endpoint_auth_methods_supported");
    let registration = Registration {
        metadata_document: object
            .get("client_id_metadata_document_supported")
            .and_then(Value::as_bool)
            == Some(true),
        dynamic: text(object, "registration_endpoint").is_some(),
        without_secret: methods
            .is_some_and(|methods| methods.iter().any(|method| method == "none")),
    };
    let mut ways = Vec::new();
    if registration.metadata_document {
        ways.push("by a metadata document of theirs");
    }
    if registration.dynamic {
        ways.push("dynamically");
    }
    match ways.is_empty() {
        false => checks.pass(
            "registration",
            format!("clients become known {}", ways.join(", or ")),
        ),
        true => checks.note(
            "registration",
            format!("clients become known to `{issuer}` by hand alone"),
            "turn client id metadata documents on there, or register each client as the table says",
        ),
    }
    if !registration.without_secret {
        checks.note(
            "registration",
            "`token_endpoint_auth_methods_supported` is without `none`: each client needs a secret",
            "permit public clients there, which prove themselves by PKCE",
        );
    }
    registration
}
