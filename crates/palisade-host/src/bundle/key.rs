//! Keys that sign bundles, and their public halves.

use std::{fmt, str::FromStr};

use crate::{
    audit::sha256_hex,
    signing_key::{SigningKey, VerifyingKey},
};

/// What stands before the key in its file.
const WORD: &str = "palisade-bundle-key-1:";

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
#[derive(Debug)]
pub struct BundleKey(SigningKey);

impl BundleKey {
    /// A new key.
    ///
    /// # Errors
    /// A text for the operator if the machine has no random bytes.
    pub fn generate() -> Result<Self, String> {
        SigningKey::generate(WORD).map(Self)
    }

    /// The text that a key's file holds.
    #[must_use]
    pub fn reveal(&self) -> &str {
        self.0.reveal()
    }

    /// The half that servers are configured with.
    #[must_use]
    pub fn public(&self) -> BundlePublicKey {
        BundlePublicKey(self.0.public())
    }

    pub(super) fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.0.sign(message)
    }
}

impl FromStr for BundleKey {
    type Err = BundleKeyError;

    fn from_str(text: &str) -> Result<Self, BundleKeyError> {
        let key = SigningKey::read(WORD, text);
        key.map(Self).ok_or(BundleKeyError::Private)
    }
}

/// The public half of a key that signs bundles, `ed25519:…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundlePublicKey(VerifyingKey);

impl BundlePublicKey {
    /// By which a signature says whose it is: the first digits of the key's SHA-256.
    #[must_use]
    pub fn id(&self) -> String {
        let mut id = sha256_hex(self.0.as_bytes());
        id.truncate(ID_DIGITS);
        id
    }

    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        self.0.verifies(message, signature)
    }
}

impl fmt::Display for BundlePublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for BundlePublicKey {
    type Err = BundleKeyError;

    fn from_str(text: &str) -> Result<Self, BundleKeyError> {
        let key = VerifyingKey::read(text);
        key.map(Self).ok_or(BundleKeyError::Public)
    }
}
