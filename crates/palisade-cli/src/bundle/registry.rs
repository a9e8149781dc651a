//! Bundles in registries, by the distribution API of OCI: a manifest by its tag, and its one layer by digest.

use std::sync::PoisonError;

use palisade_host::BUNDLE_LIMIT;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::{
    bundle::{
        Fetched,
        fetch::{Fetcher, Reply, Request},
    },
    config::bundle::RegistryPlace,
};

/// The kind of manifest that is read.
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Bytes of a manifest, and of what gives tickets.
const MAX_DOCUMENT: u64 = 256 * 1024;

/// A manifest. Fields that do not decide are passed over.
#[derive(Deserialize)]
struct Manifest {
    layers: Vec<Layer>,
}

#[derive(Deserialize)]
struct Layer {
    digest: String,
    size: u64,
}

/// What a registry's own server of tickets answers.
#[derive(Deserialize)]
struct Ticket {
    token: Option<String>,
    access_token: Option<String>,
}

/// The bundle at `place`, if its manifest is another than `mark` says.
pub(super) fn fetch(
    fetcher: &Fetcher,
    place: &RegistryPlace,
    mark: Option<&str>,
) -> Result<Fetched, String> {
    let RegistryPlace {
        base,
        repository,
        reference,
        shown: _,
    } = place;
    let asking = Asking {
        fetcher,
        base,
        repository,
    };
    let manifest = asking.get(&format!("manifests/{reference}"), MANIFEST, MAX_DOCUMENT)?;
    let digest = digest_of(&manifest);
    if reference.starts_with("sha256:") && *reference != digest {
        return Err("its manifest has another digest than was asked for".to_owned());
    }
    if mark == Some(digest.as_str()) {
        return Ok(Fetched::Same);
    }
    // What is wrong with it would tell what a stranger wrote.
    let read: Manifest = serde_json::from_slice(&manifest)
        .map_err(|_| "its manifest is no OCI image manifest".to_owned())?;
    let [Layer { digest: of, size }] = read.layers.as_slice() else {
        return Err(format!(
            "its manifest has {} layers, and a bundle is one",
            read.layers.len()
        ));
    };
    let limit = u64::try_from(BUNDLE_LIMIT).unwrap_or(u64::MAX);
    let digits = of.strip_prefix("sha256:").unwrap_or_default();
    let is_digest = digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if !is_digest || *size > limit {
        return Err("its layer has no SHA-256, or is longer than a bundle can be".to_owned());
    }
    let bytes = asking.get(&format!("blobs/{of}"), "*/*", limit)?;
    match digest_of(&bytes) == *of {
        true => Ok(Fetched::New {
            bytes,
            mark: Some(digest),
        }),
        false => Err("its layer has another digest than its manifest says".to_owned()),
    }
}

struct Asking<'a> {
    fetcher: &'a Fetcher,
    base: &'a str,
    repository: &'a str,
}

impl Asking<'_> {
    /// What stands at `path` of the repository. Where the registry asks who asks, it is asked again with a ticket.
    fn get(&self, path: &str, accept: &str, limit: u64) -> Result<Vec<u8>, String> {
        let Self {
            fetcher,
            base,
            repository,
        } = self;
        let url = format!("{base}/v2/{repository}/{path}");
        let ask = |authorization: Option<String>| {
            fetcher.get(Request {
                url: &url,
                accept,
                authorization,
                known: None,
                limit,
            })
        };
        let ticket = || {
            fetcher
                .ticket
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        let known = ticket().clone();
        let mut reply = ask(known)?;
        if let Reply {
            status: 401,
            challenge: Some(challenge),
            ..
        } = &reply
        {
            let given = self.find_ticket(challenge)?;
            *ticket() = Some(given.clone());
            reply = ask(Some(given))?;
        }
        match reply.status {
            200 => Ok(reply.body),
            status @ (401 | 403) => Err(format!(
                "the registry answered {status}; write `credentials_file` with `USER:PASSWORD` of an account that may pull"
            )),
            status => Err(format!("the registry answered {status}")),
        }
    }

    /// What lets this client pull, as a header has it.
    fn find_ticket(&self, challenge: &str) -> Result<String, String> {
        let Self {
            fetcher,
            base,
            repository,
        } = self;
        let basic = fetcher.basic()?;
        let (scheme, rest) = challenge.split_once(' ').unwrap_or((challenge, ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return basic.ok_or_else(|| {
                "the registry wants a password; write `credentials_file` with `USER:PASSWORD`"
                    .to_owned()
            });
        }
        let realm = find_parameter(rest, "realm").filter(|_| scheme.eq_ignore_ascii_case("bearer"));
        let realm = realm.ok_or("the registry asks in a way that is not known who asks")?;
        fetcher.admit(&realm, base)?;
        // What the challenge says of the scope is the registry's own; no more than this is asked for.
        let mut url = format!("{realm}{}", if realm.contains('?') { '&' } else { '?' });
        if let Some(service) = find_parameter(rest, "service") {
            url.push_str(&format!("service={}&", encode(&service)));
        }
        let scope = format!("repository:{repository}:pull");
        url.push_str(&format!("scope={}", encode(&scope)));
        let reply = fetcher.get(Request {
            url: &url,
            accept: "application/json",
            authorization: basic,
            known: None,
            limit: MAX_DOCUMENT,
        })?;
        if reply.status != 200 {
            return Err(format!(
                "what gives tickets for the registry answered {}",
                reply.status
            ));
        }
        let given = serde_json::from_slice::<Ticket>(&reply.body).ok();
        let given = given.and_then(|ticket| ticket.token.or(ticket.access_token));
        let given = given
            .filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()));
        let given = given.ok_or("what gives tickets for the registry gave none")?;
        Ok(format!("Bearer {given}"))
    }
}

/// The parameter of this name in a challenge: `name="value"`, with commas between.
fn find_parameter(text: &str, name: &str) -> Option<String> {
    let mut rest = text;
    loop {
        let (key, behind) = rest.split_once("=\"")?;
        let (value, behind) = behind.split_once('"')?;
        if key.trim_matches([' ', ',']).eq_ignore_ascii_case(name) {
            return Some(value.to_owned());
        }
        rest = behind;
    }
}

/// `text` as a value of a query.
fn encode(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn digest_of(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_have_parameters() {
        let text =
            r#"realm="https://a.example/token",service="a.example",scope="repository:x:pull,push""#;
        for (name, value) in [
            ("realm", Some("https://a.example/token")),
            ("Service", Some("a.example")),
            ("scope", Some("repository:x:pull,push")),
            ("error", None),
        ] {
            assert_eq!(find_parameter(text, name).as_deref(), value, "{name}");
        }
        assert_eq!(find_parameter("realm=\"open", "realm"), None);
        assert_eq!(encode("repository:a/b:pull"), "repository%3Aa%2Fb%3Apull");
    }
}
