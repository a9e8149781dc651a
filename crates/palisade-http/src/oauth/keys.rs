//! Public keys of an issuer (RFC 7517), and what was signed by them (RFC 7518, RFC 8037). The cryptography is ring's.

use std::{fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;

/// By what a token may be signed. Secrets that both sides share are not among them, nor is `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names of RFC 7518 and RFC 8037")]
pub enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
        Self::Es256,
        Self::Es384,
        Self::EdDsa,
    ];

    /// The name in a token.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that names no algorithm by which a token may be signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is none of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384 and EdDSA")]
pub struct AlgorithmError(String);

impl FromStr for Algorithm {
    type Err = AlgorithmError;

    fn from_str(text: &str) -> Result<Self, AlgorithmError> {
        let mut all = Self::ALL.into_iter();
        all.find(|algorithm| algorithm.name() == text)
            .ok_or_else(|| AlgorithmError(text.to_owned()))
    }
}

/// The most keys of an issuer.
const MAX_KEYS: usize = 100;

/// A public key.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    name: Option<String>,
    /// The one algorithm that its issuer has it for.
    algorithm: Option<Algorithm>,
    material: Material,
}

#[derive(Debug, Clone)]
enum Material {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// A key as an issuer publishes it. Fields that do not decide are passed over, as RFC 7517 demands.
#[derive(Deserialize)]
struct Published {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<serde_json::Value>,
}

/// The keys of a document that can verify tokens. Others are passed over: an issuer may have keys of kinds that come later.
///
/// # Errors
/// If it is no set of keys.
pub(crate) fn read_keys(document: &[u8]) -> Result<Vec<Key>, String> {
    let set: KeySet = serde_json::from_slice(document)
        .map_err(|error| format!("it is no set of keys: {error}"))?;
    let keys = set.keys.into_iter().take(MAX_KEYS);
    Ok(keys.filter_map(read_key).collect())
}

fn read_key(value: serde_json::Value) -> Option<Key> {
    let published: Published = serde_json::from_value(value).ok()?;
    if published.usage.is_some_and(|usage| usage != "sig") {
        return None;
    }
    let decode = |text: &Option<String>| URL_SAFE_NO_PAD.decode(text.as_deref()?).ok();
    let point = |bytes: usize| {
        let (x, y) = (decode(&published.x)?, decode(&published.y)?);
        (x.len() == bytes && y.len() == bytes).then(|| [&[4_u8][..], &x, &y].concat())
    };
    let material = match (published.kty.as_str(), published.crv.as_deref()) {
        ("RSA", _) => Material::Rsa {
            modulus: decode(&published.n)?,
            exponent: decode(&published.e)?,
        },
        ("EC", Some("P-256")) => Material::P256(point(32)?),
        ("EC", Some("P-384")) => Material::P384(point(48)?),
        ("OKP", Some("Ed25519")) => Material::Ed25519(decode(&published.x)?),
        _ => return None,
    };
    let algorithm = match published.alg {
        None => None,
        // One that is not known is of no use here.
        Some(name) => Some(name.parse().ok()?),
    };
    Some(Key {
        name: published.kid,
        algorithm,
        material,
    })
}

impl Key {
    /// Whether a token that names its key so could be signed by this one. A token that names none could be by any.
    pub(crate) fn is_named(&self, name: Option<&str>) -> bool {
        name.is_none_or(|name| self.name.as_deref() == Some(name))
    }

    /// Whether `signature` is this key's of `message`, by `algorithm`, which has to be of the key's own kind.
    pub(crate) fn verify(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        if self.algorithm.is_some_and(|own| own != algorithm) {
            return false;
        }
        let rsa = |parameters| match &self.material {
            Material::Rsa { modulus, exponent } => RsaPublicKeyComponents {
                n: modulus,
                e: exponent,
            }
            .verify(parameters, message, signature)
            .is_ok(),
            Material::P256(_) | Material::P384(_) | Material::Ed25519(_) => false,
        };
        let plain = |parameters: &'static dyn signature::VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(parameters, key)
                .verify(message, signature)
                .is_ok()
        };
        match (algorithm, &self.material) {
            (Algorithm::Rs256, _) => rsa(&signature::RSA_PKCS1_2048_8192_SHA256),
            (Algorithm::Rs384, _) => rsa(&signature::RSA_PKCS1_2048_8192_SHA384),
            (Algorithm::Rs512, _) => rsa(&signature::RSA_PKCS1_2048_8192_SHA512),
            (Algorithm::Ps256, _) => rsa(&signature::RSA_PSS_2048_8192_SHA256),
            (Algorithm::Ps384, _) => rsa(&signature::RSA_PSS_2048_8192_SHA384),
            (Algorithm::Ps512, _) => rsa(&signature::RSA_PSS_2048_8192_SHA512),
            (Algorithm::Es256, Material::P256(key)) => {
                plain(&signature::ECDSA_P256_SHA256_FIXED, key)
            }
            (Algorithm::Es384, Material::P384(key)) => {
                plain(&signature::ECDSA_P384_SHA384_FIXED, key)
            }
            (Algorithm::EdDsa, Material::Ed25519(key)) => plain(&signature::ED25519, key),
            (Algorithm::Es256 | Algorithm::Es384 | Algorithm::EdDsa, _) => false,
        }
    }
}
