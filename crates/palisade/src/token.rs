//! Tokens: what stands for a value that a session may compare and not read.
//!
//! The engine computes a keyed hash of the value at the source; what leaves the firewall is that hash
//! with a tag that only the firewall can make. A tag says that the token was given to this session for this
//! domain, so that what is not one is refused before anything runs.

use std::{fmt, str::FromStr, time::Duration};

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

/// Hexadecimal digits of a tag: 64 bits, too many to try out one statement at a time.
const TAG_DIGITS: usize = 16;

/// Characters of a token.
pub(crate) const TOKEN_LENGTH: usize = PREFIX.len() + HASH_DIGITS + TAG_DIGITS;

/// What tokens begin with on the way out.
const PREFIX: &str = "tok_";

/// The secret from which the keys of tokens and of hash masks are derived, and how long tokens last. It is not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenSecret {
    text: String,
    /// In milliseconds, of one at least; none where tokens last as long as the secret.
    lifetime: Option<i64>,
}

/// What a secret must at least have, in bytes.
pub(crate) const SECRET_BYTES: usize = 32;

impl TokenSecret {
    /// A secret of at least 32 bytes that cannot be guessed; policies that give tokens or hash masks do not
    /// load with a shorter one.
    #[must_use]
    pub fn new(secret: impl Into<String>) -> Self {
        Self {
            text: secret.into(),
            lifetime: None,
        }
    }

    /// The same secret behind tokens that expire. Time is cut into spans of `lifetime`, counted from 1970, to the millisecond.
    /// A token is valid until its span ends, however late in the span it was given. Then it is refused like a foreign token:
    /// the engine compares it with values computed under other keys. A session needs a time then
    /// ([`Session::at`](crate::session::Session::at)), which a gate sees to; without one it gets NULL in place of tokens. Hash
    /// masks last as long as the secret.
    #[must_use]
    pub fn lasting(self, lifetime: impl Into<Lifetime>) -> Self {
        let milliseconds = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        let lifetime = match lifetime.into() {
            Lifetime::Unending => None,
            Lifetime::Span(span) => Some(milliseconds(span).max(1)),
        };
        Self { lifetime, ..self }
    }

    /// Whether tokens expire.
    pub(crate) fn expires(&self) -> bool {
        self.lifetime.is_some()
    }

    /// In which span of the tokens' lifetime `time` is, in milliseconds since 1970.
    pub(crate) fn epoch(&self, time: Option<i64>) -> Option<Epoch> {
        match (self.lifetime, time) {
            (Some(lifetime), Some(time)) => Some(Epoch(time.div_euclid(lifetime))),
            (Some(_) | None, _) => None,
        }
    }

    pub(crate) fn is_long_enough(&self) -> bool {
        self.text.len() >= SECRET_BYTES
    }

    /// A key of its own for whatever `parts` name.
    pub(crate) fn key(&self, parts: &[&str]) -> Key {
        // The lengths keep parts apart from each other.
        let named: String = parts
            .iter()
            .map(|part| format!("{}:{part}", part.len()))
            .collect();
        Key(hmac_sha256_hex(self.text.as_bytes(), named.as_bytes()))
    }

    /// Says which secret it is and how long tokens last, without saying the secret.
    pub(crate) fn version(&self) -> Key {
        match self.lifetime {
            None => self.key(&["version"]),
            Some(lifetime) => self.key(&["version", &lifetime.to_string()]),
        }
    }

    /// The keys of the tokens of `domain` for whoever `session` names, while `epoch` lasts. None where tokens expire and
    /// the session has no time.
    pub(crate) fn tokens(
        &self,
        session: &str,
        epoch: Option<Epoch>,
        domain: &str,
    ) -> Option<TokenKeys> {
        let span = match (self.lifetime, epoch) {
            (None, _) => None,
            (Some(lifetime), Some(Epoch(number))) => Some(format!("{lifetime} {number}")),
            (Some(_), None) => return None,
        };
        let key = |kind| {
            let named = [kind, session, domain].into_iter();
            let parts: Vec<&str> = named.chain(span.as_deref()).collect();
            self.key(&parts)
        };
        Some(TokenKeys {
            source: key("token"),
            tag: key("tag"),
        })
    }
}

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSecret(…)")
    }
}

/// How long tokens last. Configurations write it as `24h`, or `never` for tokens that do not expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Lifetime {
    /// As long as the secret.
    #[default]
    Unending,
    /// Until a span of this length ends.
    Span(Duration),
}

/// A text that is no [`Lifetime`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no lifetime of tokens")]
pub struct LifetimeSyntaxError(String);

impl LifetimeSyntaxError {
    /// What to write instead.
    #[must_use]
    pub fn help(&self) -> &'static str {
        "write minutes, hours or days, from \"1m\" to \"365d\", for example `token_lifetime = \"24h\"`, or \"never\" for tokens that do not expire"
    }
}

impl From<Duration> for Lifetime {
    fn from(span: Duration) -> Self {
        Self::Span(span)
    }
}

impl FromStr for Lifetime {
    type Err = LifetimeSyntaxError;

    /// Reads whole minutes, hours or days, or `never`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "never" {
            return Ok(Self::Unending);
        }
        let minutes =
            [('m', 1), ('h', 60), ('d', 24 * 60)]
                .into_iter()
                .find_map(|(unit, minutes)| {
                    let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
                    number.checked_mul(minutes)
                });
        match minutes.filter(|minutes| (1..=365 * 24 * 60).contains(minutes)) {
            Some(minutes) => Ok(Self::Span(Duration::from_secs(minutes * 60))),
            None => Err(LifetimeSyntaxError(text.to_owned())),
        }
    }
}

/// A span of the tokens' lifetime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Epoch(i64);

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

    /// The array of the hashes in an array of tokens of this session and domain, as PostgreSQL spells arrays. None of what
    /// is spelt in ways that none of tokens needs.
    pub(crate) fn open_array(&self, array: &str) -> Option<OpenedArray> {
        let mut opened = OpenedArray {
            text: "{".to_owned(),
            has_other: false,
            has_hash: false,
        };
        let elements = array.trim().strip_prefix('{')?.strip_suffix('}')?;
        let elements: Vec<&str> = match elements.trim() {
            "" => Vec::new(),
            some => some.split(',').collect(),
        };
        for (number, element) in elements.into_iter().enumerate() {
            let element = element.trim();
            let quoted = element
                .strip_prefix('"')
                .and_then(|rest| rest.strip_suffix('"'));
            let text = quoted.unwrap_or(element);
            if text.contains(['"', '\\', '{', '}']) || (text.is_empty() && quoted.is_none()) {
                return None;
            }
            if number > 0 {
                opened.text.push(',');
            }
            match self.open(text) {
                Some(hash) => opened.text.push_str(hash),
                None => {
                    let is_null = quoted.is_none() && text.eq_ignore_ascii_case("null");
                    opened.has_other |= !is_null;
                    opened.has_hash |= is_hash(text);
                    opened.text.push_str(element);
                }
            }
        }
        opened.text.push('}');
        Some(opened)
    }

    fn tag_of(&self, hash: &str) -> String {
        let mut tag = hmac_sha256_hex(self.tag.0.as_bytes(), hash.as_bytes());
        tag.truncate(TAG_DIGITS);
        tag
    }
}

/// An array in which each token stands without its tag.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OpenedArray {
    pub(crate) text: String,
    /// Whether anything but tokens and NULL is in it.
    pub(crate) has_other: bool,
    /// Whether anything in it could be taken for a token without its tag, and was none.
    pub(crate) has_hash: bool,
}

/// Whether a text has the form of a token, of whichever session and domain.
pub(crate) fn has_token_form(text: &str) -> bool {
    text.len() == TOKEN_LENGTH && text.starts_with(PREFIX)
}

/// Whether a text is what the engine computes for a token.
pub(crate) fn is_hash(text: &str) -> bool {
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
        let secret = TokenSecret::new("0".repeat(32));
        secret.tokens(session, None, domain).unwrap()
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
        let other = TokenSecret::new("1".repeat(32));
        let other = other.tokens("a", None, "d").unwrap();
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
    fn tokens_end_with_their_epoch() {
        let secret = TokenSecret::new("0".repeat(32)).lasting(Duration::from_secs(60));
        let at = |time: i64| secret.tokens("a", secret.epoch(Some(time)), "d").unwrap();
        let hash = b"0123456789abcdef0123456789abcdef";
        let token = at(60_000).stamp(hash).unwrap();
        for (time, opens) in [
            (59_999, false),
            (60_000, true),
            (119_999, true),
            (120_000, false),
        ] {
            assert_eq!(at(time).open(&token).is_some(), opens, "{time}");
            // What the engine computes is another hash as well.
            assert_eq!(at(time).source == at(60_000).source, opens, "{time}");
        }
        assert_ne!(at(-1), at(0));
        // Of other spans, and of none.
        let longer = TokenSecret::new("0".repeat(32)).lasting(Duration::from_secs(61));
        assert_ne!(
            longer.tokens("a", longer.epoch(Some(61_000)), "d"),
            Some(at(61_000))
        );
        assert_ne!(keys("a", "d"), at(0));
        assert_eq!(secret.tokens("a", secret.epoch(None), "d"), None);
        assert_ne!(secret.version(), longer.version());
    }

    #[test]
    fn lifetimes_are_read_in_whole_units() {
        let minutes = |minutes: u64| Ok(Lifetime::Span(Duration::from_secs(60 * minutes)));
        let wrong = |text: &str| Err(LifetimeSyntaxError(text.to_owned()));
        for (text, lifetime) in [
            ("never", Ok(Lifetime::Unending)),
            ("1m", minutes(1)),
            ("24h", minutes(24 * 60)),
            ("365d", minutes(365 * 24 * 60)),
            ("0m", wrong("0m")),
            ("366d", wrong("366d")),
            ("1.5h", wrong("1.5h")),
            ("18446744073709551615d", wrong("18446744073709551615d")),
            ("", wrong("")),
        ] {
            assert_eq!(text.parse::<Lifetime>(), lifetime);
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

    #[test]
    fn arrays_are_opened_element_by_element() {
        let secret = TokenSecret::new("0".repeat(32));
        let keys = secret.tokens("a", None, "d").unwrap();
        let (hash, other) = ("0".repeat(HASH_DIGITS), "1".repeat(HASH_DIGITS));
        let token = keys.stamp(hash.as_bytes()).unwrap();
        assert_eq!(token.len(), TOKEN_LENGTH);
        let opened = |array: &str| {
            let opened = keys.open_array(array)?;
            Some((opened.text, opened.has_other, opened.has_hash))
        };
        let all = |text: String| Some((text, false, false));
        assert_eq!(opened("{}"), all("{}".to_owned()));
        assert_eq!(opened(&format!("{{{token}}}")), all(format!("{{{hash}}}")));
        assert_eq!(
            opened(&format!(" {{ \"{token}\" , NULL,null}} ")),
            all(format!("{{{hash},NULL,null}}"))
        );
        assert_eq!(
            opened(&format!("{{{token},\"null\"}}")),
            Some((format!("{{{hash},\"null\"}}"), true, false))
        );
        assert_eq!(
            opened(&format!("{{{other}}}")),
            Some((format!("{{{other}}}"), true, true))
        );
        for array in [
            "",
            "x",
            "{",
            "{,}",
            "{{x}}",
            "{\"a,b\"}",
            "{\"a\\\\b\"}",
            "[1:1]={x}",
        ] {
            assert_eq!(opened(array), None, "{array}");
        }
    }
}
