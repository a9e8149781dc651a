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
