//! The form of a line, and how it is chained: its last key is a tag under the chain's key, over the tag of the line before and the
//! line's own bytes.

use std::{fmt, fmt::Write as _};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

/// Between the body of a line and its tag.
const BEFORE_TAG: &str = ",\"mac\":\"";

/// Behind the tag.
const BEHIND_TAG: &str = "\"}";

/// Bytes of a tag.
pub(in crate::audit) type Tag = [u8; 32];

/// The tag before the first line of a chain.
pub(in crate::audit) const NO_TAG: Tag = [0; 32];

/// The key of a chain, derived from a secret.
#[derive(Clone)]
pub struct AuditKey {
    key: Tag,
}

impl fmt::Debug for AuditKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditKey").field("id", &self.id()).finish()
    }
}

impl AuditKey {
    /// The key that is derived from `secret`, of 32 bytes or more that cannot be guessed.
    #[must_use]
    pub fn derive(secret: &[u8]) -> Self {
        Self {
            key: mac(secret, &[b"palisade audit chain 1"]),
        }
    }

    /// By which a file says under which key it is. It tells nothing of the key.
    #[must_use]
    pub fn id(&self) -> String {
        let mut id = hex(&mac(&self.key, &[b"palisade audit key id"]));
        id.truncate(16);
        id
    }

    /// The tag of a line with this body after a line with the tag `before`.
    pub(in crate::audit) fn tag(&self, before: &Tag, body: &[u8]) -> Tag {
        mac(&self.key, &[before, body])
    }
}

/// A place in a chain: what an anchor keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainPlace {
    /// The number of the line, from 1.
    pub seq: u64,
    /// Its tag, 64 hexadecimal digits.
    pub mac: String,
}

/// A line with its tag and its end, and the tag. `record` is a JSON object.
pub(in crate::audit) fn write_line(
    key: &AuditKey,
    before: &Tag,
    seq: u64,
    record: &str,
) -> (Vec<u8>, Tag) {
    let inner = record.strip_prefix('{').unwrap_or(record);
    let inner = inner.strip_suffix('}').unwrap_or(inner);
    let mut line = format!("{{\"seq\":{seq},{inner}");
    let tag = key.tag(before, line.as_bytes());
    line.push_str(BEFORE_TAG);
    line.push_str(&hex(&tag));
    line.push_str(BEHIND_TAG);
    line.push('\n');
    (line.into_bytes(), tag)
}

/// The body of a line without its end, and its tag; none if it has not the form of one.
pub(in crate::audit) fn split_line(line: &[u8]) -> Option<(&[u8], Tag)> {
    let rest = line.strip_suffix(BEHIND_TAG.as_bytes())?;
    let at = rest.len().checked_sub(64)?;
    let (rest, digits) = rest.split_at_checked(at)?;
    let body = rest.strip_suffix(BEFORE_TAG.as_bytes())?;
    Some((body, unhex(digits)?))
}

/// The number of the line with this body.
pub(in crate::audit) fn read_seq(body: &[u8]) -> Option<u64> {
    let rest = body.strip_prefix(b"{\"seq\":")?;
    let end = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    let digits = std::str::from_utf8(rest.get(..end)?).ok()?;
    // One spelling for each number.
    let seq: u64 = digits.parse().ok()?;
    (seq.to_string() == digits && rest.get(end) == Some(&b',')).then_some(seq)
}

fn mac(key: &[u8], parts: &[&[u8]]) -> Tag {
    match Hmac::<Sha256>::new_from_slice(key) {
        Ok(mut mac) => {
            for part in parts {
                mac.update(part);
            }
            mac.finalize().into_bytes().into()
        }
        // It takes keys of every length.
        Err(_) => NO_TAG,
    }
}

/// The SHA-256 of `bytes`, in hexadecimal digits.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The tag that 64 such digits are.
pub(in crate::audit) fn unhex(digits: &[u8]) -> Option<Tag> {
    let mut tag = NO_TAG;
    let digit = |byte: &u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        0..=b'/' | b':'..=b'`' | b'g'..=u8::MAX => None,
    };
    for (byte, pair) in tag.iter_mut().zip(digits.chunks(2)) {
        *byte = match pair {
            [high, low] => digit(high)? << 4 | digit(low)?,
            [] | [_] | [_, _, _, ..] => return None,
        };
    }
    (digits.len() == 64).then_some(tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_are_written() {
        let key = AuditKey::derive(b"a secret");
        let (line, tag) = write_line(&key, &NO_TAG, 7, r#"{"kind":"call","mac":"x"}"#);
        let line = line.strip_suffix(b"\n").unwrap_or_default();
        let split = split_line(line);
        assert_eq!(
            split,
            Some((&br#"{"seq":7,"kind":"call","mac":"x""#[..], tag))
        );
        assert_eq!(split.and_then(|(body, _)| read_seq(body)), Some(7));
        for other in ["", "{}", r#"{"seq":7,"mac":"00"}"#] {
            assert_eq!(split_line(other.as_bytes()), None, "{other}");
        }
        for other in [r#"{"seq":07,"#, r#"{"seq":"#, r#"{"seq":7"#, r#"{"seq":7}"#] {
            assert_eq!(read_seq(other.as_bytes()), None, "{other}");
        }
    }
}
