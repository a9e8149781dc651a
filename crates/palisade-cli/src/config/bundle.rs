//! Where policies come from: `policies = "FOLDER"`, or `[policies]` for a signed bundle.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use palisade_host::{BundleName, BundlePublicKey};
use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, Visitor, value::MapAccessDeserializer},
};
use toml::Spanned;

use crate::{
    config::{Grants, Reader, telemetry::find_host, webhook::is_this_machine},
    exit::Failure,
    secret::Secret,
};

/// `[policies]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicyTable {
    /// The signed bundle: `"https://HOST/PATH"`, `"oci://REGISTRY/REPOSITORY:TAG"`, or a file. `[grants]` must name the host. Plain `http` is for
    /// this machine alone.
    bundle: Spanned<String>,
    /// What the bundle calls itself. A bundle of another name is refused.
    name: Spanned<String>,
    /// The public halves of the keys that may sign it, as `palisade policy bundle keygen` prints them. One signature is enough.
    public_keys: Vec<Spanned<String>>,
    /// How often `serve` and `broker` look for a newer one: `"1s"` to `"24h"`. Without it, `"30s"`.
    every: Option<Spanned<String>>,
    /// The folder in which the last good bundle is kept, for starts while the address is down, and so that no older one takes its place.
    keep: Spanned<PathBuf>,
    /// The serial number of an older bundle that may take the place of a newer one. Without it, none may.
    rollback_to: Option<Spanned<u64>>,
    /// The file of the authorities, in PEM, by which the address's certificate is checked. Without it, the public ones.
    authorities: Option<PathBuf>,
    /// The environment variable that holds `USER:PASSWORD` for the address. `[grants]` must name it.
    credentials_env: Option<Spanned<String>>,
    /// The file that holds it, instead of a variable. `[grants]` must name it.
    credentials_file: Option<Spanned<PathBuf>>,
}

/// `policies = "FOLDER"`, or `[policies]`.
pub(crate) enum PolicyPlace {
    Folder(PathBuf),
    Bundle(Box<PolicyTable>),
}

impl<'de> Deserialize<'de> for PolicyPlace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = PolicyPlace;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a folder, or the table `[policies]`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<PolicyPlace, E> {
                Ok(PolicyPlace::Folder(PathBuf::from(text)))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PolicyPlace, A::Error> {
                let table = PolicyTable::deserialize(MapAccessDeserializer::new(map))?;
                Ok(PolicyPlace::Bundle(Box::new(table)))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// How often a newer bundle is looked for where nothing says it.
const EVERY: Duration = Duration::from_secs(30);

/// The most keys that may sign a bundle.
const MAX_KEYS: usize = 16;

/// Where policies come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PolicySetup {
    /// A folder.
    Folder(PathBuf),
    /// A signed bundle.
    Bundle(Arc<BundleSetup>),
}

impl PolicySetup {
    /// The folder, if they come from one.
    pub(crate) fn folder(&self) -> Option<&Path> {
        match self {
            Self::Folder(folder) => Some(folder),
            Self::Bundle(_) => None,
        }
    }
}

/// What the operator decides about a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BundleSetup {
    pub(crate) source: BundleSource,
    pub(crate) name: BundleName,
    pub(crate) keys: Vec<BundlePublicKey>,
    pub(crate) every: Duration,
    /// The folder of what is kept.
    pub(crate) keep: PathBuf,
    pub(crate) rollback_to: Option<u64>,
    pub(crate) authorities: Option<PathBuf>,
    pub(crate) credentials: Option<Secret>,
    /// What may be asked: redirects to other hosts are not followed.
    pub(crate) hosts: Vec<String>,
}

/// Where a bundle is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BundleSource {
    File(PathBuf),
    /// An address over HTTP.
    Address(String),
    /// A registry of OCI artefacts.
    Registry(RegistryPlace),
}

/// An artefact of a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RegistryPlace {
    /// `https://REGISTRY`.
    pub(crate) base: String,
    pub(crate) repository: String,
    /// A tag, or `sha256:…`.
    pub(crate) reference: String,
    /// As it was written.
    pub(crate) shown: String,
}

impl fmt::Display for BundleSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Address(url) => f.write_str(url),
            Self::Registry(place) => f.write_str(&place.shown),
        }
    }
}

/// Of `oci://REGISTRY/REPOSITORY:TAG`, what follows the scheme.
fn read_registry(rest: &str) -> Option<RegistryPlace> {
    let (host, path) = rest.split_once('/')?;
    let (repository, reference) = match path.split_once('@') {
        Some((repository, digest)) => (repository, digest),
        None => path.rsplit_once(':')?,
    };
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_part =
        |part: &str| !part.is_empty() && !part.starts_with('.') && part.bytes().all(is_sign);
    let is_digest = reference
        .strip_prefix("sha256:")
        .is_some_and(|digits| digits.len() == 64 && digits.bytes().all(|d| d.is_ascii_hexdigit()));
    let is_reference = is_digest || (is_part(reference) && !path.contains('@'));
    let scheme = match is_this_machine(host) {
        true => "http",
        false => "https",
    };
    let base = format!("{scheme}://{host}");
    let is_whole = find_host(&base).is_some() && repository.split('/').all(is_part);
    (is_whole && is_reference).then(|| RegistryPlace {
        base,
        repository: repository.to_owned(),
        reference: reference.to_owned(),
        shown: format!("oci://{rest}"),
    })
}

impl Reader<'_> {
    /// Where policies come from.
    pub(crate) fn policies(
        &self,
        place: Option<PolicyPlace>,
        grants: &Grants,
    ) -> Result<Option<PolicySetup>, Failure> {
        match place {
            None => Ok(None),
            Some(PolicyPlace::Folder(path)) => {
                Ok(Some(PolicySetup::Folder(self.folder.join(path))))
            }
            Some(PolicyPlace::Bundle(table)) => {
                let setup = self.bundle(*table, grants)?;
                Ok(Some(PolicySetup::Bundle(Arc::new(setup))))
            }
        }
    }

    fn bundle(&self, table: PolicyTable, grants: &Grants) -> Result<BundleSetup, Failure> {
        let PolicyTable {
            bundle,
            name,
            public_keys,
            every,
            keep,
            rollback_to,
            authorities,
            credentials_env,
            credentials_file,
        } = table;
        let wrong = |span: &std::ops::Range<usize>, message: &str, help: &str| {
            self.fault(message, Some(span.clone()), help)
        };
        let named = name.get_ref().parse::<BundleName>();
        let name = named.map_err(|error| {
            wrong(
                &name.span(),
                &format!("`name`: {error}"),
                "write the name that `palisade policy bundle pack --name` was given",
            )
        })?;
        if public_keys.is_empty() || public_keys.len() > MAX_KEYS {
            return Err(wrong(
                &bundle.span(),
                &format!("a bundle has one key or more that may sign it, up to {MAX_KEYS}"),
                "write `public_keys = [\"ed25519:…\"]`, as `palisade policy bundle keygen FILE` prints it",
            ));
        }
        let keys = public_keys.iter().map(|key| {
            let read = key.get_ref().parse::<BundlePublicKey>();
            read.map_err(|error| {
                wrong(
                    &key.span(),
                    &error.to_string(),
                    "`palisade policy bundle keygen FILE` makes a pair, and prints this half",
                )
            })
        });
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        let span = (credentials_env.as_ref().map(Spanned::span))
            .or(credentials_file.as_ref().map(Spanned::span));
        let both = (
            "the credentials of the bundle",
            "`credentials_env` and `credentials_file`",
        );
        let credentials = self.secret((credentials_env, credentials_file), both)?;
        if let Some((message, help)) = credentials
            .as_ref()
            .and_then(|secret| grants.refuse_unnamed(secret))
        {
            return Err(self.fault(&message, span, &help));
        }
        let source = self.bundle_source(&bundle, grants)?;
        if let (BundleSource::File(_), true) =
            (&source, credentials.is_some() || authorities.is_some())
        {
            return Err(wrong(
                &bundle.span(),
                "a file has no certificate, and needs no credentials",
                "leave `authorities` and `credentials_…` out",
            ));
        }
        let every = self.period(every, "every")?;
        Ok(BundleSetup {
            source,
            name,
            keys,
            every: every.unwrap_or(EVERY),
            keep: self.folder.join(keep.into_inner()),
            rollback_to: rollback_to.map(Spanned::into_inner),
            authorities: authorities.map(|path| self.folder.join(path)),
            credentials,
            hosts: grants.list_hosts(),
        })
    }

    fn bundle_source(
        &self,
        bundle: &Spanned<String>,
        grants: &Grants,
    ) -> Result<BundleSource, Failure> {
        // An address can hold a secret: it is not shown.
        let wrong =
            |message: &str, help: &str| self.error_without_source(message, bundle.span(), help);
        const EXAMPLES: &str = "write `\"https://HOST/PATH\"`, `\"oci://REGISTRY/REPOSITORY:TAG\"`, or the path of a file";
        let text = bundle.get_ref().as_str();
        let Some((scheme, rest)) = text.split_once("://") else {
            return Ok(BundleSource::File(self.folder.join(text)));
        };
        let (source, address) = match scheme {
            "https" | "http" => (BundleSource::Address(text.to_owned()), text.to_owned()),
            "oci" => {
                let place = read_registry(rest)
                    .ok_or_else(|| wrong("`bundle` names no artefact of a registry", EXAMPLES))?;
                let base = place.base.clone();
                (BundleSource::Registry(place), base)
            }
            _ => return Err(wrong("`bundle` is no address that is known", EXAMPLES)),
        };
        let Some(host) = find_host(&address) else {
            return Err(wrong(
                "`bundle` is no address without a query and a password",
                EXAMPLES,
            ));
        };
        if address.starts_with("http://") && !is_this_machine(&host) {
            return Err(wrong(
                "the bundle would come over the network in plain text, so that anybody could keep a newer one back",
                "write `https://`; `http://` is for `127.0.0.1`, `[::1]` and `localhost`",
            ));
        }
        if !grants.has_host(&host) {
            let help = format!("`hosts = [\"{host}\"]` under `[grants]` grants it");
            return Err(wrong(&format!("`{host}` is not granted"), &help));
        }
        Ok(source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn artefacts_have_a_registry_a_repository_and_a_tag() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        let by_digest = format!("ghcr.io/acme/shop@{digest}");
        for (text, expected) in [
            (
                "ghcr.io/acme/shop:prod",
                Some(("https://ghcr.io", "acme/shop", "prod")),
            ),
            (
                "localhost:5000/shop:1",
                Some(("http://localhost:5000", "shop", "1")),
            ),
            (
                "127.0.0.1:5000/a/b/c:v1.2",
                Some(("http://127.0.0.1:5000", "a/b/c", "v1.2")),
            ),
            (
                &by_digest,
                Some(("https://ghcr.io", "acme/shop", digest.as_str())),
            ),
            ("ghcr.io/acme/shop", None),
            ("ghcr.io/acme/../shop:prod", None),
            ("ghcr.io//shop:prod", None),
            ("ghcr.io/shop:a/b", None),
            ("ghcr.io/shop:a?b", None),
            ("ghcr.io/shop@prod", None),
            ("user:secret@ghcr.io/shop:prod", None),
            ("/shop:prod", None),
        ] {
            let read = read_registry(text);
            let read = read.as_ref().map(|place| {
                (
                    place.base.as_str(),
                    place.repository.as_str(),
                    place.reference.as_str(),
                )
            });
            assert_eq!(read, expected, "{text}");
        }
    }
}
