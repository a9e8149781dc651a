//! The key by which an operator signs approvals. The gate holds its public half alone, so that the agent's side cannot sign.

use std::{fmt, str::FromStr};

use palisade_host::{SigningKey, VerifyingKey};

/// What stands before the key in its file.
const WORD: &str = "palisade-operator-key-1:";

/// A text that is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OperatorKeyError {
    /// Of an operator.
    #[error("it is no operator's key; `palisade approvals --new-key FILE` makes one")]
    Private,
    /// The public half.
    #[error(
        "it is no public key; write it as `palisade approvals --new-key` prints it, `ed25519:…`"
    )]
    Public,
}

/// An operator's key, Ed25519.
#[derive(Debug)]
pub struct OperatorKey(SigningKey);

impl OperatorKey {
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

    /// The half that the gate's configuration holds.
    #[must_use]
    pub fn public(&self) -> OperatorPublicKey {
        OperatorPublicKey(self.0.public())
    }

    pub(crate) fn sign(&self, text: &str) -> Vec<u8> {
        self.0.sign(text.as_bytes())
    }
}

impl FromStr for OperatorKey {
    type Err = OperatorKeyError;

    fn from_str(text: &str) -> Result<Self, OperatorKeyError> {
        let key = SigningKey::read(WORD, text);
        key.map(Self).ok_or(OperatorKeyError::Private)
    }
}

/// The public half of an operator's key, `ed25519:…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorPublicKey(VerifyingKey);

impl OperatorPublicKey {
    pub(crate) fn verifies(&self, text: &str, signature: &[u8]) -> bool {
        self.0.verifies(text.as_bytes(), signature)
    }
}

impl fmt::Display for OperatorPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for OperatorPublicKey {
    type Err = OperatorKeyError;

    fn from_str(text: &str) -> Result<Self, OperatorKeyError> {
        let key = VerifyingKey::read(text);
        key.map(Self).ok_or(OperatorKeyError::Public)
    }
}
