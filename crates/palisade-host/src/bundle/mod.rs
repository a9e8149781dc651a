//! Policies as a signed bundle: one file that says who made it, and whose every byte is checked before it is read.
//!
//! | layer | is |
//! |---|---|
//! | envelope | DSSE: the payload in Base64, and signatures of its type and bytes |
//! | payload | JSON: format, name, serial number, and each file with its digest and its text |
//!
//! Nothing of a payload is read before a trusted key is known to have signed it.

mod content;
mod envelope;
mod key;

use palisade::policy::{PolicyOrigin, PolicySources};

pub use content::{BundleFile, BundleName, BundleNameError};
pub use key::{BundleKey, BundleKeyError, BundlePublicKey};

use crate::{
    audit::sha256_hex, bundle::content::Content, policy_folder::add_policy_file,
    policy_folder::list_policy_files,
};

/// Bytes of a bundle.
pub const BUNDLE_LIMIT: usize = 32 * 1024 * 1024;

/// A bundle that was signed by a trusted key, and is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyBundle {
    /// What it is called, its serial number, and the digest of what was signed.
    pub origin: PolicyOrigin,
    /// The ids of the trusted keys that signed it, one or more.
    pub signers: Vec<String>,
    /// Its files, sorted by name.
    pub files: Vec<BundleFile>,
    /// Their texts, for [`Firewall::builder`](palisade::firewall::Firewall::builder).
    pub sources: PolicySources,
}

/// Why a bundle is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BundleError {
    /// It is longer than [`BUNDLE_LIMIT`].
    #[error("it is longer than {BUNDLE_LIMIT} bytes")]
    TooLong,
    /// It is no envelope. With what is wrong.
    #[error("it is no bundle of policies: {0}")]
    Envelope(String),
    /// No trusted key signed it. With the ids that its signatures name.
    #[error("no trusted key signed it; its signatures name the keys {0}")]
    Untrusted(String),
    /// Its format is of another time.
    #[error("its format is {0}, and this palisade reads format 1")]
    Format(u64),
    /// What was signed is no bundle. With what is wrong.
    #[error("what was signed is wrong: {0}")]
    Content(String),
}

impl PolicyBundle {
    /// Reads a bundle. One of `keys` must have signed it.
    ///
    /// # Errors
    /// If it is not signed by any of them, or anything of it is not as it must be.
    pub fn open(bytes: &[u8], keys: &[BundlePublicKey]) -> Result<Self, BundleError> {
        if bytes.len() > BUNDLE_LIMIT {
            return Err(BundleError::TooLong);
        }
        let (payload, signers) = envelope::open(bytes, keys)?;
        let Content {
            name,
            serial,
            files,
        } = Content::read(&payload)?;
        let origin = PolicyOrigin {
            name: name.to_string(),
            serial,
            digest: sha256_hex(&payload),
        };
        let mut sources = PolicySources::default();
        for file in &files {
            add_policy_file(&mut sources, &file.name, file.text.clone());
        }
        sources.origin = Some(origin.clone());
        Ok(Self {
            origin,
            signers,
            files,
            sources,
        })
    }
}

/// The bytes of a bundle of `sources`, signed by each of `keys`. The same arguments give the same bytes.
///
/// # Errors
/// If it could not be read again: there are no keys or no policies, it is too long, or a name or the serial number is none for a bundle.
///
/// ```
/// use palisade::policy::{PolicyFile, PolicySources};
/// use palisade_host::{BundleKey, PolicyBundle, pack_bundle};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let main = PolicyFile { name: "main.cedar".to_owned(), text: "permit (principal, action, resource);".to_owned() };
/// let sources = PolicySources { policies: vec![main], ..PolicySources::default() };
/// let key = BundleKey::generate()?;
/// let bytes = pack_bundle(&sources, &"shop".parse()?, 7, &[&key])?;
/// let bundle = PolicyBundle::open(&bytes, &[key.public()])?;
/// assert_eq!((bundle.origin.name.as_str(), bundle.origin.serial), ("shop", 7));
/// # Ok(())
/// # }
/// ```
pub fn pack_bundle(
    sources: &PolicySources,
    name: &BundleName,
    serial: u64,
    keys: &[&BundleKey],
) -> Result<Vec<u8>, BundleError> {
    let files = list_policy_files(sources)
        .into_iter()
        .map(|(name, text)| BundleFile {
            name: name.to_owned(),
            sha256: sha256_hex(text.as_bytes()),
            text: text.to_owned(),
        })
        .collect();
    let content = Content {
        name: name.clone(),
        serial,
        files,
    };
    let bytes = envelope::seal(&content.write()?, keys)?;
    let public: Vec<_> = keys.iter().map(|key| key.public()).collect();
    PolicyBundle::open(&bytes, &public)?;
    Ok(bytes)
}

/// Characters of an error that are told.
const TOLD: usize = 200;

/// What is wrong with a text. It can hold what a stranger wrote: no line end or other control character of it goes into a log.
fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let signs = text.chars().take(TOLD);
    signs
        .map(|sign| if sign.is_control() { ' ' } else { sign })
        .collect()
}

#[cfg(test)]
mod tests;
