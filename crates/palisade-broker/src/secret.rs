//! Random secrets of a handshake, and their hashes.

use std::{fmt::Write as _, path::Path};

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// Characters of a secret: 256 bits in hexadecimal.
pub(crate) const SECRET_CHARS: usize = 64;

/// A new secret.
pub(crate) fn make_secret() -> Result<String, getrandom::Error> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes)?;
    Ok(print_hex(&bytes))
}

/// The hash of a text, in hexadecimal.
pub(crate) fn hash_text(text: &str) -> String {
    print_hex(&Sha256::digest(text.as_bytes()))
}

/// What names of keys and items of the broker in `folder` begin with: another broker has others.
pub(crate) fn name_scope(folder: &Path) -> String {
    let folder = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let hash = hash_text(&folder.to_string_lossy());
    hash.chars().take(16).collect()
}

/// Whether both are the same, in a time that does not tell where they differ.
pub(crate) fn are_equal(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

/// Whether a text has the form of a secret.
pub(crate) fn is_secret(text: &str) -> bool {
    text.len() == SECRET_CHARS && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn print_hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(out, "{byte:02x}");
    }
    out
}
