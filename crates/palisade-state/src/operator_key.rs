//! The key by which an operator signs approvals. The gate holds its public half alone, so that the agent's side cannot sign.

use std::{fmt, str::FromStr};

use ring::{
    rand::SystemRandom,
    signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey},
};

use crate::seal::hex;

/// What stands before the key in its file.
const PRIVATE: &str = "palisade-operator-key-1:";

/// What stands before a public key.
const PUBLIC: &str = "ed25519:";

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
pub struct OperatorKey {
    pair: Ed25519KeyPair,
    text: String,
}

impl fmt::Debug for OperatorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OperatorKey").field(&self.public()).finish()
    }
}

impl OperatorKey {
    /// A new key.
    ///
    /// # Errors
    /// A text for the operator if the machine has no random bytes.
    pub fn generate() -> Result<Self, String> {
        let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        let made = made.map_err(|_| "no random bytes".to_owned())?;
        let text = format!("{PRIVATE}{}", hex(made.as_ref()));
        text.parse()
            .map_err(|error: OperatorKeyError| error.to_string())
    }

    /// The text that a key's file holds.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// The half that the gate's configuration holds.
    #[must_use]
    pub fn public(&self) -> OperatorPublicKey {
        OperatorPublicKey(self.pair.public_key().as_ref().to_vec())
    }

    pub(crate) fn sign(&self, text: &str) -> Vec<u8> {
        self.pair.sign(text.as_bytes()).as_ref().to_vec()
    }
}

impl FromStr for OperatorKey {
    type Err = OperatorKeyError;

    fn from_str(text: &str) -> Result<Self, OperatorKeyError> {
        let text = text.trim();
        let bytes = text.strip_prefix(PRIVATE).and_then(unhex);
        let bytes = bytes.ok_or(OperatorKeyError::Private)?;
        let pair = Ed25519KeyPair::from_pkcs8(&bytes).map_err(|_| OperatorKeyError::Private)?;
        Ok(Self {
            pair,
            text: text.to_owned(),
        })
    }
}

/// The public half of an operator's key, `ed25519:…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorPublicKey(Vec<u8>);

impl OperatorPublicKey {
    pub(crate) fn verifies(&self, text: &str, signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0)
            .verify(text.as_bytes(), signature)
            .is_ok()
    }
}

impl fmt::Display for OperatorPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PUBLIC}{}", hex(&self.0))
    }
}

impl FromStr for OperatorPublicKey {
    type Err = OperatorKeyError;

    fn from_str(text: &str) -> Result<Self, OperatorKeyError> {
        let bytes = text.trim().strip_prefix(PUBLIC).and_then(unhex);
        match bytes {
            Some(bytes) if bytes.len() == 32 => Ok(Self(bytes)),
            Some(_) | None => Err(OperatorKeyError::Public),
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn digits_are_read_by_pairs() {
        for (digits, bytes) in [
            ("", Some(vec![])),
            ("00ff", Some(vec![0, 255])),
            ("1aA1", Some(vec![26, 161])),
            ("0", None),
            ("000", None),
            ("0g", None),
            ("g0", None),
        ] {
            assert_eq!(unhex(digits), bytes, "{digits}");
        }
    }

    #[test]
    fn a_public_key_has_its_word_and_its_length() {
        let key = |word: &str, bytes: usize| format!(" {word}{}\n", "0a".repeat(bytes));
        for (text, is_key) in [
            (key(PUBLIC, 32), true),
            (key(PUBLIC, 31), false),
            (key(PUBLIC, 33), false),
            (key("", 32), false),
            (key(PRIVATE, 32), false),
        ] {
            let found: Result<OperatorPublicKey, _> = text.parse();
            assert_eq!(found.is_ok(), is_key, "{text}");
        }
        let text = key(PUBLIC, 32);
        let read: OperatorPublicKey = text.parse().unwrap();
        assert_eq!(read.to_string(), text.trim());
    }

    #[test]
    fn a_key_signs_what_its_public_half_verifies() {
        let key = OperatorKey::generate().unwrap();
        let again: OperatorKey = key.reveal().parse().unwrap();
        assert_eq!(again.public(), key.public());
        let signature = key.sign("yes");
        let other = OperatorKey::generate().unwrap();
        for (public, text, is_signed) in [
            (key.public(), "yes", true),
            (key.public(), "no", false),
            (other.public(), "yes", false),
        ] {
            assert_eq!(public.verifies(text, &signature), is_signed, "{text}");
        }
        let without_word = key.reveal().replace(PRIVATE, "");
        assert!(without_word.parse::<OperatorKey>().is_err());
    }
}
