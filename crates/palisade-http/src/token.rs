//! Tokens: random texts that stand for a principal.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// What every token begins with, so that scanners of secrets recognise it.
const PREFIX: &str = "palisade_";

/// Random bytes of a token. So many cannot be guessed, and a plain hash is enough.
const BYTES: usize = 32;

/// A token, as its bearer has it. It is shown once: what is kept is its hash.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A new one.
    ///
    /// # Errors
    /// If the machine has no random bytes.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(Self(format!("{PREFIX}{}", to_hex(&bytes))))
    }

    /// The token that a client brings; `None` where the text has not the form of one.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(PREFIX)?;
        let is_one = digits.len() == 2 * BYTES
            && digits
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_one.then(|| Self(text.to_owned()))
    }

    /// The text, for its bearer alone.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// SHA-256 of the text, in hexadecimal.
    #[must_use]
    pub fn hash(&self) -> String {
        to_hex(&Sha256::digest(self.0.as_bytes()))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The name of a token: what lists, records and logs call it.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct TokenName(String);

/// A text that names no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no name of a token; use letters, digits, `-`, `_` and `.`, at most 64, for example `support-laptop`"
)]
pub struct TokenNameError(String);

/// The longest name of a token, in characters.
const MAX_NAME: usize = 64;

impl TokenName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for TokenName {
    type Error = TokenNameError;

    fn try_from(text: String) -> Result<Self, TokenNameError> {
        let is_one = (1..=MAX_NAME).contains(&text.len())
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
        match is_one {
            true => Ok(Self(text)),
            false => Err(TokenNameError(text)),
        }
    }
}

impl std::str::FromStr for TokenName {
    type Err = TokenNameError;

    fn from_str(text: &str) -> Result<Self, TokenNameError> {
        Self::try_from(text.to_owned())
    }
}

impl From<TokenName> for String {
    fn from(name: TokenName) -> Self {
        name.0
    }
}

impl fmt::Display for TokenName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_back_and_does_not_show() {
        let token = Token::generate().unwrap();
        let again = Token::read(token.reveal()).unwrap();
        assert_eq!((&token, token.hash()), (&again, again.hash()));
        assert_eq!(format!("{token:?}"), "Token(…)");
        assert_ne!(token, Token::generate().unwrap());
        for bad in [
            "",
            "palisade_",
            "palisade_ab",
            &token.reveal().to_uppercase(),
            &format!("{}0", token.reveal()),
        ] {
            assert_eq!(Token::read(bad), None, "{bad}");
        }
    }

    #[test]
    fn names_are_words() {
        for (text, is_name) in [
            ("support-laptop", true),
            ("a.b_C-1", true),
            ("", false),
            ("two words", false),
            ("é", false),
        ] {
            assert_eq!(text.parse::<TokenName>().is_ok(), is_name, "{text}");
        }
    }
}
