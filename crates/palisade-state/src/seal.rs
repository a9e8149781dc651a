//! Seals on what the store holds of statements, and digests under a key.

use std::fmt;

use ring::{
    aead::{Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    hkdf, hmac,
};

/// The secret behind seals and digests.
#[derive(Clone)]
pub struct StateSecret(Vec<u8>);

impl fmt::Debug for StateSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StateSecret")
    }
}

impl StateSecret {
    /// A secret of 32 bytes or more that cannot be guessed.
    #[must_use]
    pub fn new(secret: impl Into<Vec<u8>>) -> Self {
        Self(secret.into())
    }

    /// A new one.
    ///
    /// # Errors
    /// If the machine has no random bytes.
    pub fn random() -> Result<Self, String> {
        random::<32>().map(|bytes| Self(bytes.to_vec()))
    }
}

/// So many bytes that cannot be guessed.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| format!("no random bytes: {error}"))?;
    Ok(bytes)
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The keys that are derived from a secret.
pub(crate) struct Keys {
    seal: LessSafeKey,
    digest: hmac::Key,
}

impl Keys {
    pub(crate) fn derive(secret: &StateSecret) -> Result<Self, String> {
        let no_key = |_| "no key can be derived".to_owned();
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, b"palisade state 1");
        let base = salt.extract(&secret.0);
        let derived = base.expand(&[b"seal"], &ring::aead::CHACHA20_POLY1305);
        let seal = UnboundKey::from(derived.map_err(no_key)?);
        let derived = base.expand(&[b"digest"], hmac::HMAC_SHA256);
        let digest = hmac::Key::from(derived.map_err(no_key)?);
        Ok(Self {
            seal: LessSafeKey::new(seal),
            digest,
        })
    }

    /// The digest of `text` under the key.
    pub(crate) fn digest(&self, text: &str) -> Vec<u8> {
        hmac::sign(&self.digest, text.as_bytes()).as_ref().to_vec()
    }

    /// `text` under a seal that opens only beside `id`.
    pub(crate) fn seal(&self, id: &str, text: &str) -> Result<Vec<u8>, String> {
        let nonce = random::<NONCE_LEN>()?;
        let mut sealed = text.as_bytes().to_vec();
        self.seal
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(id.as_bytes()),
                &mut sealed,
            )
            .map_err(|_| "the text cannot be sealed".to_owned())?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    /// The text under a seal; none if it was made with another key or for another id, or was changed.
    pub(crate) fn open(&self, id: &str, sealed: &[u8]) -> Option<String> {
        let (nonce, text) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut text = text.to_vec();
        let opened = self
            .seal
            .open_in_place(nonce, Aad::from(id.as_bytes()), &mut text)
            .ok()?;
        String::from_utf8(opened.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn keys(byte: u8) -> Keys {
        Keys::derive(&StateSecret::new([byte; 32])).unwrap()
    }

    #[test]
    fn a_seal_opens_with_its_key_beside_its_id() {
        let sealed = keys(1).seal("a", "text").unwrap();
        let mut changed = sealed.clone();
        changed.push(0);
        let short = sealed.get(..4).unwrap_or_default().to_vec();
        for (keys, id, sealed, expected) in [
            (keys(1), "a", &sealed, Some("text")),
            (keys(2), "a", &sealed, None),
            (keys(1), "b", &sealed, None),
            (keys(1), "a", &changed, None),
            (keys(1), "a", &short, None),
        ] {
            assert_eq!(keys.open(id, sealed).as_deref(), expected, "{id}");
        }
        // No two are alike.
        assert_ne!(keys(1).seal("a", "text").unwrap(), sealed);
    }

    #[test]
    fn digests_are_of_the_text_and_the_key() {
        let digest = keys(1).digest("text");
        assert_eq!(digest.len(), 32);
        assert_eq!(keys(1).digest("text"), digest);
        assert_ne!(keys(1).digest("other"), digest);
        assert_ne!(keys(2).digest("text"), digest);
    }

    #[test]
    fn digits_are_two_for_each_byte() {
        assert_eq!(hex(&[0, 15, 255]), "000fff");
        let (one, other) = (random::<16>().unwrap(), random::<16>().unwrap());
        assert_ne!(one, other);
    }
}
