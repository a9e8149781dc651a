//! SHA-256 and HMAC-SHA-256 as hexadecimal text, for versions, fingerprints and keys.

use std::fmt::Write as _;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

/// The SHA-256 of `bytes`, 64 lower-case hexadecimal digits.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// The HMAC-SHA-256 (RFC 2104) of `bytes`, 64 lower-case hexadecimal digits. What engines without it have
/// as a function of ours.
pub(crate) fn hmac_sha256_hex(key: &[u8], bytes: &[u8]) -> String {
    match Hmac::<Sha256>::new_from_slice(key) {
        Ok(mac) => hex(&mac.chain_update(bytes).finalize().into_bytes()),
        // It takes keys of every length.
        Err(_) => String::new(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(2 * bytes.len()), |mut out, byte| {
            // Writing to a String cannot fail.
            let _ = write!(out, "{byte:02x}");
            out
        })
}

#[cfg(test)]
mod tests {
    use super::hmac_sha256_hex;

    /// <https://www.rfc-editor.org/rfc/rfc4231#section-4.3>
    #[test]
    fn hmacs_are_those_of_the_standard() {
        assert_eq!(
            hmac_sha256_hex(b"Jefe", b"what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }
}
