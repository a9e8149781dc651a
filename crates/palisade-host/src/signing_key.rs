//! Keys that sign, Ed25519, and the texts that hold them.

use std::fmt;

use ring::{
    rand::SystemRandom,
    signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey},
};

use crate::audit::hex;

/// What stands before a public key.
const PUBLIC: &str = "ed25519:";

/// Bytes of a public key.
const PUBLIC_BYTES: usize = 32;

/// A key that signs, Ed25519. The word before it in its file says what it is for, so that one for something else is refused.
pub struct SigningKey {
    pair: Ed25519KeyPair,
    text: String,
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SigningKey").field(&self.public()).finish()
    }
}

impl SigningKey {
    /// A new key, in whose file `word` stands before it.
    ///
    /// # Errors
    /// A text for the operator if the machine has no random bytes.
    pub fn generate(word: &str) -> Result<Self, String> {
        let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        let made = made.map_err(|_| "no random bytes".to_owned())?;
        let text = format!("{word}{}", hex(made.as_ref()));
        Self::read(word, &text).ok_or_else(|| "a new key cannot be read".to_owned())
    }

    /// The key that a file's text holds, with `word` before it. None if it is none.
    #[must_use]
    pub fn read(word: &str, text: &str) -> Option<Self> {
        let text = text.trim();
        let bytes = unhex(text.strip_prefix(word)?)?;
        Some(Self {
            pair: Ed25519KeyPair::from_pkcs8(&bytes).ok()?,
            text: text.to_owned(),
        })
    }

    /// The text that a key's file holds.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// The half that configurations hold.
    #[must_use]
    pub fn public(&self) -> VerifyingKey {
        VerifyingKey(self.pair.public_key().as_ref().to_vec())
    }

    /// The signature of `message`, 64 bytes.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.pair.sign(message).as_ref().to_vec()
    }
}

/// The public half of a [`SigningKey`], written as `ed25519:` and 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyingKey(Vec<u8>);

impl VerifyingKey {
    /// The key that `text` is. None if it is none.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let bytes = unhex(text.trim().strip_prefix(PUBLIC)?)?;
        (bytes.len() == PUBLIC_BYTES).then_some(Self(bytes))
    }

    /// Its 32 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether `signature` is its own of `message`.
    #[must_use]
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0)
            .verify(message, signature)
            .is_ok()
    }
}

impl fmt::Display for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PUBLIC}{}", hex(&self.0))
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

    const WORD: &str = "palisade-test-key-1:";

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
            (key(WORD, 32), false),
        ] {
            assert_eq!(VerifyingKey::read(&text).is_some(), is_key, "{text}");
        }
        let text = key(PUBLIC, 32);
        assert_eq!(VerifyingKey::read(&text).unwrap().to_string(), text.trim());
    }

    #[test]
    fn a_key_signs_what_its_public_half_verifies() {
        let key = SigningKey::generate(WORD).unwrap();
        let again = SigningKey::read(WORD, key.reveal()).unwrap();
        assert_eq!(again.public(), key.public());
        let signature = key.sign(b"yes");
        let other = SigningKey::generate(WORD).unwrap();
        for (public, text, is_signed) in [
            (key.public(), "yes", true),
            (key.public(), "no", false),
            (other.public(), "yes", false),
        ] {
            let verifies = public.verifies(text.as_bytes(), &signature);
            assert_eq!(verifies, is_signed, "{text}");
        }
        let without_word = key.reveal().replace(WORD, "");
        for (word, text) in [(WORD, without_word.as_str()), ("other:", key.reveal())] {
            assert!(SigningKey::read(word, text).is_none(), "{word}");
        }
    }
}
