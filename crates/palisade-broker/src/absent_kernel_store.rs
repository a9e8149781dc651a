//! Keys of the kernel, which is Linux's.

use zeroize::Zeroizing;

use crate::password_store::{Identity, StoreError};

/// Passwords in the keyring of Linux. Here it refuses.
#[derive(Debug)]
pub struct KernelStore;

impl KernelStore {
    /// The keys of the broker whose folder this is.
    #[must_use]
    pub fn new(_: &std::path::Path) -> Self {
        Self
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
            store: "kernel",
            why: "it is Linux's".to_owned(),
            help: "use `--store file`",
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
