//! Where an issuer has its keys, by its own metadata (RFC 8414, and OpenID Connect Discovery 1.0).

use serde::Deserialize;

use crate::oauth::key_source::check_address;

/// The metadata, as far as they are needed.
#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    jwks_uri: String,
}

/// The address of the keys of `issuer`, whose metadata `read` fetches. They have to be of this issuer, to the letter.
///
/// # Errors
/// If no metadata are found that say it.
pub(crate) fn find_keys_address(
    issuer: &str,
    read: impl Fn(&str) -> Result<Vec<u8>, String>,
) -> Result<String, String> {
    let mut why = Vec::new();
    for address in metadata_addresses(issuer) {
        match read(&address).and_then(|document| read_metadata(issuer, &document)) {
            Ok(keys) => return Ok(keys),
            Err(error) => why.push(error),
        }
    }
    Err(why.join("; "))
}

/// Where metadata are: RFC 8414 has the well-known part before the path, OpenID Connect behind it.
fn metadata_addresses(issuer: &str) -> Vec<String> {
    let issuer = issuer.trim_end_matches('/');
    let start = issuer.find("://").map_or(0, |at| at + 3);
    let path = issuer.get(start..).and_then(|rest| rest.find('/'));
    let (origin, path) = issuer.split_at(path.map_or(issuer.len(), |at| start + at));
    vec![
        format!("{origin}/.well-known/oauth-authorization-server{path}"),
        format!("{issuer}/.well-known/openid-configuration"),
    ]
}

fn read_metadata(issuer: &str, document: &[u8]) -> Result<String, String> {
    let metadata: Metadata = serde_json::from_slice(document)
        .map_err(|error| format!("the metadata of `{issuer}` cannot be read: {error}"))?;
    if metadata.issuer != issuer {
        let other = metadata.issuer;
        return Err(format!(
            "the metadata are of the issuer `{other}`, not of `{issuer}`"
        ));
    }
    check_address(&metadata.jwks_uri).map_err(|error| error.to_string())?;
    Ok(metadata.jwks_uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_are_looked_for_in_both_places() {
        assert_eq!(
            metadata_addresses("https://login.example.com/realms/main"),
            [
                "https://login.example.com/.well-known/oauth-authorization-server/realms/main",
                "https://login.example.com/realms/main/.well-known/openid-configuration",
            ]
        );
    }

    #[test]
    fn metadata_of_another_issuer_do_not_count() {
        let document = |issuer: &str, keys: &str| {
            format!(r#"{{"issuer":"{issuer}","jwks_uri":"{keys}","more":1}}"#).into_bytes()
        };
        let own = "https://a.example.com";
        let read = |issuer: &str, keys: &str| read_metadata(own, &document(issuer, keys));
        assert_eq!(
            read(own, "https://a.example.com/k").unwrap(),
            "https://a.example.com/k"
        );
        read("https://b.example.com", "https://a.example.com/k").unwrap_err();
        read(own, "http://a.example.com/k").unwrap_err();
    }
}
