//! The keyring of the system, where it was not built in.

use zeroize::Zeroizing;

use crate::password_store::{Identity, StoreError};

/// Passwords in the keyring that the system keeps for a person. It is not built in.
#[derive(Debug)]
pub struct KeyringStore;

impl KeyringStore {
    /// What it is called on this system.
    pub const NAME: &str = if cfg!(target_os = "macos") {
        "keychain"
    } else {
        "secret-service"
    };

    /// The items of the broker whose folder this is.
    #[must_use]
    pub fn new(_: &std::path::Path) -> Self {
        Self
    }

    /// Whether this program was built with it, and the system has one: no.
    #[must_use]
    pub fn is_there(&self) -> bool {
        false
    }

    /// The password of an account: none.
    ///
    /// # Errors
    /// None.
    pub fn find(&self, _: &Identity) -> Result<Option<Zeroizing<String>>, StoreError> {
        Ok(None)
    }

    /// Stores nothing.
    ///
    /// # Errors
    /// Always.
    pub fn store(&self, _: &Identity, _: &Zeroizing<String>) -> Result<(), StoreError> {
        Err(StoreError::Unavailable {
            store: Self::NAME,
            why: "it is not built in".to_owned(),
            help: "build with the feature `keyring`, or use `--store file`",
        })
    }

    /// Removes nothing.
    ///
    /// # Errors
    /// None.
    pub fn forget(&self, _: &str) -> Result<usize, StoreError> {
        Ok(0)
    }

    /// No names.
    ///
    /// # Errors
    /// None.
    pub fn names(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }
}
