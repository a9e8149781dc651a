//! Keys that sign bundles, and their public halves.

use std::{fmt, str::FromStr};

use ring::{
    rand::SystemRandom,
    signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey},
};

use crate::audit::{hex, sha256_hex};

/// What stands before the key in its file.
const PRIVATE: &str = "palisade-bundle-key-1:";

/// What stands before a public key.
const PUBLIC: &str = "ed25519:";

/// Bytes of a public key.
const PUBLIC_BYTES: usize = 32;

/// Hexadecimal digits of an id.
const ID_DIGITS: usize = 16;

/// A text that is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BundleKeyError {
    /// That signs.
    #[error("it is no key that signs bundles; `palisade policy bundle keygen FILE` makes one")]
    Private,
    /// The public half.
    #[error(
        "it is no public key; write it as `palisade policy bundle keygen` prints it, `ed25519:…`"
    )]
    Public,
}

/// A key that signs bundles, Ed25519.
pub struct BundleKey {
    pair: Ed25519KeyPair,
    text: String,
}

impl fmt::Debug for BundleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BundleKey").field(&self.public()).finish()
    }
}

impl BundleKey {
    /// A new key.
    ///
    /// # Errors
    /// A text for the operator if the machine has no random bytes.
    pub fn generate() -> Result<Self, String> {
        let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        let made = made.map_err(|_| "no random bytes".to_owned())?;
        let text = format!("{PRIVATE}{}", hex(made.as_ref()));
        text.parse()
            .map_err(|error: BundleKeyError| error.to_string())
    }

    /// The text that a key's file holds.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// The half that servers are configured with.
    #[must_use]
    pub fn public(&self) -> BundlePublicKey {
        BundlePublicKey(self.pair.public_key().as_ref().to_vec())
    }

    pub(super) fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.pair.sign(message).as_ref().to_vec()
    }
}

impl FromStr for BundleKey {
    type Err = BundleKeyError;

    fn from_str(text: &str) -> Result<Self, BundleKeyError> {
        let text = text.trim();
        let bytes = text.strip_prefix(PRIVATE).and_then(unhex);
        let bytes = bytes.ok_or(BundleKeyError::Private)?;
        let pair = Ed25519KeyPair::from_pkcs8(&bytes).map_err(|_| BundleKeyError::Private)?;
        Ok(Self {
            pair,
            text: text.to_owned(),
        })
    }
}

/// The public half of a key that signs bundles, `ed25519:…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundlePublicKey(Vec<u8>);

impl BundlePublicKey {
    /// By which a signature says whose it is: the first digits of the key's SHA-256.
    #[must_use]
    pub fn id(&self) -> String {
        let mut id = sha256_hex(&self.0);
        id.truncate(ID_DIGITS);
        id
    }

    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0)
            .verify(message, signature)
            .is_ok()
    }
}

impl fmt::Display for BundlePublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PUBLIC}{}", hex(&self.0))
    }
}

impl FromStr for BundlePublicKey {
    type Err = BundleKeyError;

    fn from_str(text: &str) -> Result<Self, BundleKeyError> {
        let bytes = text.trim().strip_prefix(PUBLIC).and_then(unhex);
        match bytes {
            Some(bytes) if bytes.len() == PUBLIC_BYTES => Ok(Self(bytes)),
            Some(_) | None => Err(BundleKeyError::Public),
        }
    }
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    (digits.as_bytes().chunks(2))
        .map(|pair| match pair {
            [high, low] => u8::try_from(digit(high)? << 4 | digit(low)?).ok(),
            _ => None,
        })
        .collect()
}
