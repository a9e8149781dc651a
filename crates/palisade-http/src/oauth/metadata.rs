//! What a client without a token is told: where to get one (RFC 9728).

use serde_json::{Value, json};

use crate::oauth::OauthOptions;

/// Where the metadata of a protected resource are, before its path (RFC 9728, section 3.1).
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The end of the address where nothing is changed.
pub(crate) const READ_ONLY_PART: &str = "/readonly";

/// The paths at which the metadata are found, each with the end of the resource that they are of.
pub(crate) fn metadata_paths(options: &OauthOptions) -> Vec<(String, &'static str)> {
    let (_, path) = split(&options.resource);
    let mut paths = vec![
        (WELL_KNOWN.to_owned(), ""),
        (
            format!("{WELL_KNOWN}{path}{READ_ONLY_PART}"),
            READ_ONLY_PART,
        ),
    ];
    if !path.is_empty() {
        paths.push((format!("{WELL_KNOWN}{path}"), ""));
    }
    paths
}

/// The metadata of the resource, or of its part that ends so.
pub(crate) fn describe_resource(options: &OauthOptions, end: &str) -> Value {
    let issuers: Vec<&str> = options.issuers.iter().map(|issuer| issuer.name()).collect();
    json!({
        "resource": format!("{}{end}", options.resource),
        "authorization_servers": issuers,
        "scopes_supported": options.scopes,
        "bearer_methods_supported": ["header"],
        "resource_name": "Palisade",
    })
}

/// Parameters of `WWW-Authenticate`: where the metadata of what was asked for at `path` are, and the scopes to ask for.
pub(crate) fn challenge_parameters(options: &OauthOptions, path: &str) -> String {
    let (origin, own) = split(&options.resource);
    let end = match path.ends_with(READ_ONLY_PART) {
        true => READ_ONLY_PART,
        false => "",
    };
    let mut text = format!(", resource_metadata=\"{origin}{WELL_KNOWN}{own}{end}\"");
    if !options.scopes.is_empty() {
        text += &format!(", scope=\"{}\"", options.scopes.join(" "));
    }
    text
}

/// An address before its path, and the path.
fn split(url: &str) -> (&str, &str) {
    let start = url.find("://").map_or(0, |at| at + 3);
    let host = url.get(start..).unwrap_or_default();
    match host.find('/') {
        Some(at) => url.split_at(start + at),
        None => (url, ""),
    }
}
