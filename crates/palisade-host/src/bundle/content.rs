//! What is signed: a manifest with the files in it.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{
    audit::sha256_hex,
    bundle::{BundleError, describe},
    policy_folder::is_read,
};

/// The format that is written and read.
const FORMAT: u64 = 1;

/// The greatest serial number: all readers of JSON have it exactly.
const MAX_SERIAL: u64 = (1 << 53) - 1;

/// Characters of a name.
const NAME_LENGTH: usize = 64;

/// What a bundle is called: lower-case letters, digits, `-`, `_` and `.`, up to 64, with a letter or a digit first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct BundleName(String);

/// A text that names no bundle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a bundle's name has lower-case letters, digits, `-`, `_` and `.`, up to {NAME_LENGTH}, and begins with a letter or a digit"
)]
pub struct BundleNameError;

impl FromStr for BundleName {
    type Err = BundleNameError;

    fn from_str(text: &str) -> Result<Self, BundleNameError> {
        let is_sign = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let begins_well = text.bytes().next().is_some_and(is_sign);
        let goes_on_well = text
            .bytes()
            .all(|byte| is_sign(byte) || b"-_.".contains(&byte));
        match begins_well && goes_on_well && text.len() <= NAME_LENGTH {
            true => Ok(Self(text.to_owned())),
            false => Err(BundleNameError),
        }
    }
}

impl TryFrom<String> for BundleName {
    type Error = BundleNameError;

    fn try_from(text: String) -> Result<Self, BundleNameError> {
        text.parse()
    }
}

impl fmt::Display for BundleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A file of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleFile {
    /// Its name in a policy folder.
    pub name: String,
    /// The SHA-256 of its text, in hexadecimal digits.
    pub sha256: String,
    /// Its text.
    pub text: String,
}

/// What is signed.
pub(super) struct Content {
    pub(super) name: BundleName,
    pub(super) serial: u64,
    pub(super) files: Vec<BundleFile>,
}

/// Read first: the rest is of this format.
#[derive(Deserialize)]
struct Head {
    format: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    format: u64,
    name: BundleName,
    serial: u64,
    files: Vec<BundleFile>,
}

impl Content {
    pub(super) fn write(&self) -> Result<Vec<u8>, BundleError> {
        let written = Written {
            format: FORMAT,
            name: self.name.clone(),
            serial: self.serial,
            files: self.files.clone(),
        };
        serde_json::to_vec_pretty(&written).map_err(|error| BundleError::Content(error.to_string()))
    }

    /// Reads what a trusted key signed. It can still be wrong: a key can be used by other programs than ours.
    pub(super) fn read(payload: &[u8]) -> Result<Self, BundleError> {
        let wrong = BundleError::Content;
        let unread = |error: serde_json::Error| wrong(describe(&error));
        let Head { format } = serde_json::from_slice(payload).map_err(unread)?;
        if format != FORMAT {
            return Err(BundleError::Format(format));
        }
        let Written {
            format: _,
            name,
            serial,
            files,
        } = serde_json::from_slice(payload).map_err(unread)?;
        if !(1..=MAX_SERIAL).contains(&serial) {
            return Err(wrong(format!(
                "the serial number {serial} is not from 1 to {MAX_SERIAL}"
            )));
        }
        for file in &files {
            check_file(file).map_err(wrong)?;
        }
        let mut pairs = files.iter().zip(files.iter().skip(1));
        if let Some((_, second)) = pairs.find(|(first, second)| first.name >= second.name) {
            return Err(wrong(format!(
                "`{}` is there twice, or not in its place by name",
                second.name
            )));
        }
        if !files.iter().any(|file| file.name.ends_with(".cedar")) {
            return Err(wrong("there is no `*.cedar` file in it".to_owned()));
        }
        Ok(Self {
            name,
            serial,
            files,
        })
    }
}

fn check_file(file: &BundleFile) -> Result<(), String> {
    let BundleFile { name, sha256, text } = file;
    let shown: String = name.chars().take(NAME_LENGTH).collect();
    let shown = shown.escape_debug();
    let is_path = name.contains(|sign: char| sign.is_control() || "/\\:".contains(sign));
    if is_path || !is_read(name) {
        return Err(format!("`{shown}` is no file that policies are read from"));
    }
    match sha256_hex(text.as_bytes()) == *sha256 {
        true => Ok(()),
        false => Err(format!("the text of `{shown}` has another digest")),
    }
}
