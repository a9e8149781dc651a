//! The second step: what the server says of itself (RFC 9728), at each place where clients look.

use serde_json::{Map, Value};

use crate::connector::{
    Checks,
    address::Address,
    fetch::{Fetcher, text, texts},
};

/// Where the metadata of a protected resource are, before its path (RFC 9728, section 3.1).
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

const OWN_TOKENS: &str = "clients send an access token that `palisade token create` makes; for tokens of an issuer configure `[http.oauth]`";

const CONFIGURE: &str =
    "configure `[http.oauth]`, and let a proxy pass `/.well-known/…` on to the server";

/// What goes on from here.
pub(super) struct Resource {
    /// Where tokens are given.
    pub(super) issuers: Vec<String>,
    /// What a client asks for.
    pub(super) scopes: Vec<String>,
}

/// Reads the metadata at both well-known places, and at that which the server `named`.
pub(super) fn find(
    fetcher: &Fetcher,
    address: &Address,
    named: Option<&str>,
    checks: &mut Checks,
) -> Option<Resource> {
    let (origin, path) = (address.origin(), address.path());
    let own_place = format!("{origin}{WELL_KNOWN}{path}");
    let own = fetcher.read_object(&own_place);
    // A server that asks for tokens, and names no place to get one, takes its own.
    if named.is_none()
        && !checks.has_fault()
        && let Err(why) = &own
    {
        let finding = format!("the server takes access tokens of its own alone: {why}");
        checks.note("metadata", finding, OWN_TOKENS);
        return None;
    }
    match &own {
        Ok(_) => checks.pass("metadata", own_place.clone()),
        Err(why) => checks.fault("metadata", why.clone(), CONFIGURE),
    }
    if !path.is_empty() {
        look_at_root(fetcher, address, checks);
    }
    let told = match named {
        Some(place) if place != own_place => match fetcher.read_object(place) {
            Ok(object) => Some(object),
            Err(why) => {
                checks.fault(
                    "challenge",
                    format!("what `WWW-Authenticate` names is not there: {why}"),
                    "write the address by which clients call the server as `resource` of `[http.oauth]`",
                );
                None
            }
        },
        Some(_) | None => None,
    };
    // Clients go by what the answer named.
    let object = told.or_else(|| own.ok())?;
    check_resource(&object, address, checks);
    read(&object, checks)
}

/// Older clients look at the top alone.
fn look_at_root(fetcher: &Fetcher, address: &Address, checks: &mut Checks) {
    let place = format!("{}{WELL_KNOWN}", address.origin());
    let remedy =
        "let a proxy pass it on to the server; clients that know no other place do not find theirs";
    match fetcher.read_object(&place) {
        Ok(object) if text(&object, "resource") == Some(address.text()) => {
            checks.pass("metadata at the top", place);
        }
        Ok(_) => checks.note(
            "metadata at the top",
            format!("{place} is of another resource"),
            remedy,
        ),
        Err(why) => checks.note("metadata at the top", why, remedy),
    }
}

/// What a token is for has to be what a client calls, to the letter (RFC 9728, section 3.3).
fn check_resource(object: &Map<String, Value>, address: &Address, checks: &mut Checks) {
    match text(object, "resource") {
        Some(resource) if resource == address.text() => {
            checks.pass("resource", "it is the address, with its path");
        }
        Some(other) => checks.fault(
            "resource",
            format!("it is `{other}`, and clients call `{}`", address.text()),
            "write `resource` of `[http.oauth]` as clients call the server, with its path and no `/` at its end",
        ),
        None => checks.fault(
            "resource",
            "the metadata do not name it",
            "write `resource` of `[http.oauth]` as clients call the server",
        ),
    }
}

fn read(object: &Map<String, Value>, checks: &mut Checks) -> Option<Resource> {
    if let Some(methods) = texts(object, "bearer_methods_supported")
        && !methods.iter().any(|method| method == "header")
    {
        checks.fault(
            "metadata",
            "`bearer_methods_supported` is without `header`, which is where clients send tokens",
            "let the metadata say `\"bearer_methods_supported\": [\"header\"]`",
        );
    }
    let issuers = texts(object, "authorization_servers").unwrap_or_default();
    if issuers.is_empty() {
        checks.fault(
            "issuer",
            "the metadata name no authorization server",
            "name one under `[http.oauth.issuers]`",
        );
        return None;
    }
    Some(Resource {
        issuers,
        scopes: texts(object, "scopes_supported").unwrap_or_default(),
    })
}
