//! Tokens: what stands for a value that a session may compare and not read.
//!
//! The engine computes a keyed hash of the value at the source; what leaves the firewall is that hash
//! with a tag that only the firewall can make. A tag says that the token was given to this session for this
//! domain, so that what is not one is refused before anything runs.

use std::fmt;

use crate::digest::hmac_sha256_hex;

/// What stands in the place of the declared type of a column of tokens.
pub(crate) const TOKEN_TYPE: &str = "token";

/// The function of ours that computes [`keyed_hash`] on SQLite, which has none: whoever runs a
/// statement there adds it to the connection. It does not exist for statements of a principal.
pub const SQLITE_FUNCTION: &str = "palisade_keyed_hash";

/// HMAC-SHA-256 of `text` under `key`, 64 lower-case hexadecimal digits.
#[must_use]
pub fn keyed_hash(key: &[u8], text: &[u8]) -> String {
    hmac_sha256_hex(key, text)
}

/// Hexadecimal digits of a value's hash that the engine keeps: 128 bits.
pub(crate) const HASH_DIGITS: usize = 32;

/// Hexadecimal digits of a tag: 64 bits, which nobody can try out one statement at a time.
const TAG_DIGITS: usize = 16;

/// What tokens begin with on the way out.
const PREFIX: &str = "tok_";

/// The secret from which the keys of tokens and of hash masks are derived. It is not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenSecret(String);

/// What a secret must at least have, in bytes.
pub(crate) const SECRET_BYTES: usize = 32;

impl TokenSecret {
    /// A secret of at least 32 bytes that nobody can guess; policies that give tokens or hash masks do not
    /// load with a shorter one.
    #[must_use]
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    pub(crate) fn is_long_enough(&self) -> bool {
        self.0.len() >= SECRET_BYTES
    }

    /// A key of its own for whatever `parts` name.
    pub(crate) fn key(&self, parts: &[&str]) -> Key {
        // The lengths keep parts apart from each other.
        let named: String = parts
            .iter()
            .map(|part| format!("{}:{part}", part.len()))
            .collect();
        Key(hmac_sha256_hex(self.0.as_bytes(), named.as_bytes()))
    }

    /// Says which secret it is, without saying it.
    pub(crate) fn version(&self) -> Key {
        self.key(&["version"])
    }
}

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSecret(…)")
    }
}

/// A key derived from the secret: 64 hexadecimal digits, taken as they are, as many bytes as a block of
/// SHA-256 has. Of one key neither another nor the secret follows.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key(String);

impl Key {
    /// The digits.
    pub(crate) fn digits(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// The keys of one session's tokens in one domain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TokenKeys {
    /// With which the engine hashes values; a server may log it.
    pub(crate) source: Key,
    /// With which tags are made; it never leaves the firewall.
    tag: Key,
}

impl TokenKeys {
    /// The keys of `domain` for whoever `session` names.
    pub(crate) fn new(secret: &TokenSecret, session: &str, domain: &str) -> Self {
        Self {
            source: secret.key(&["token", session, domain]),
            tag: secret.key(&["tag", session, domain]),
        }
    }

    /// The token of a hash that the engine computed; none of what is no such hash.
    pub(crate) fn stamp(&self, hash: &[u8]) -> Option<String> {
        let hash = std::str::from_utf8(hash)
            .ok()
            .filter(|hash| is_hash(hash))?;
        Some(format!("{PREFIX}{hash}{}", self.tag_of(hash)))
    }

    /// The hash in a token of this session and domain; none of anything else.
    pub(crate) fn open<'t>(&self, token: &'t str) -> Option<&'t str> {
        let (hash, tag) = token.strip_prefix(PREFIX)?.split_at_checked(HASH_DIGITS)?;
        // Equal in any time it takes: whoever guesses learns nothing worth more than a refusal.
        (is_hash(hash) && tag == self.tag_of(hash)).then_some(hash)
    }

    fn tag_of(&self, hash: &str) -> String {
        let mut tag = hmac_sha256_hex(self.tag.0.as_bytes(), hash.as_bytes());
        tag.truncate(TAG_DIGITS);
        tag
    }
}

fn is_hash(text: &str) -> bool {
    text.len() == HASH_DIGITS
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;

    fn keys(session: &str, domain: &str) -> TokenKeys {
        TokenKeys::new(&TokenSecret::new("0".repeat(32)), session, domain)
    }

    #[test]
    fn only_the_own_tokens_of_a_domain_open() {
        let own = keys("a", "d");
        let hash = "0123456789abcdef0123456789abcdef";
        let token = own.stamp(hash.as_bytes()).unwrap();
        assert_eq!(token.len(), 4 + HASH_DIGITS + TAG_DIGITS);
        assert_eq!(own.open(&token), Some(hash));
        // Another's, of another domain, of another secret.
        assert_eq!(keys("b", "d").open(&token), None);
        assert_eq!(keys("a", "e").open(&token), None);
        let other = TokenKeys::new(&TokenSecret::new("1".repeat(32)), "a", "d");
        assert_eq!(other.open(&token), None);
        // Altered in any place.
        for at in 0..token.len() {
            let mut altered = token.clone().into_bytes();
            altered[at] = if altered[at] == b'0' { b'1' } else { b'0' };
            let altered = String::from_utf8(altered).unwrap();
            assert_eq!(own.open(&altered), None, "{altered}");
        }
        for text in ["", "tok_", hash, &token[4..], &token[..token.len() - 1]] {
            assert_eq!(own.open(text), None, "{text}");
        }
        assert_eq!(own.open(&format!("{token}0")), None);
        assert_eq!(own.open(&"ä".repeat(30)), None);
        for cell in ["", "ada@mail.example", &token] {
            assert_eq!(own.stamp(cell.as_bytes()), None, "{cell}");
        }
    }

    #[test]
    fn keys_do_not_run_into_each_other() {
        let secret = TokenSecret::new("0".repeat(32));
        assert_ne!(secret.key(&["ab", "c"]), secret.key(&["a", "bc"]));
        assert_ne!(keys("a", "d").source, keys("a", "d").tag);
        assert_eq!(keys("a", "d").source.digits().len(), 64);
        let shown = format!("{secret:?} {:?}", keys("a", "d"));
        assert!(!shown.contains("00") && !shown.contains(keys("a", "d").source.digits()));
    }
}
