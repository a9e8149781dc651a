//! Passwords of connections as keys of the kernel: in memory alone, gone at reboot, and after three days in which no one asks.

use linux_keyutils::{Key, KeyError, KeyRing, KeyRingIdentifier};
use zeroize::Zeroizing;

use crate::{
    password_store::{Identity, StoreError, check_password},
    secret::name_scope,
};

/// Keys of a user that are looked at.
const KEYS: usize = 256;

/// Passwords in the keyring that the kernel keeps for a user. Every process of the user can read them.
#[derive(Debug)]
pub struct KernelStore {
    /// What the description of its keys begins with.
    prefix: String,
}

impl KernelStore {
    /// The keys of the broker whose folder this is.
    #[must_use]
    pub fn new(folder: &std::path::Path) -> Self {
        Self {
            prefix: format!("palisade:{}:", name_scope(folder)),
        }
    }

    /// The password of an account; none where the kernel has none, or has it no more.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn find(&self, identity: &Identity) -> Result<Option<Zeroizing<String>>, StoreError> {
        match open()?.search(&self.describe(identity)) {
            Ok(key) => read(key).map(Some),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(refuse(&error)),
        }
    }

    /// Stores a password, reads it back, and removes whatever else was stored under the connection's name.
    ///
    /// # Errors
    /// If the kernel refuses, as it does where the user has too many keys. No key is left then.
    pub fn store(
        &self,
        identity: &Identity,
        password: &Zeroizing<String>,
    ) -> Result<(), StoreError> {
        check_password(password)?;
        let (ring, description) = (open()?, self.describe(identity));
        let added = ring.add_key(&description, password.as_bytes());
        let is_there = self
            .find(identity)
            .is_ok_and(|found| found.as_ref() == Some(password));
        if added.is_err() || !is_there {
            // A key can be there although the kernel said that it is not.
            if let Ok(left) = ring.search(&description) {
                let _ = ring.unlink_key(left);
            }
            return Err(match added {
                Err(error) => refuse(&error),
                Ok(_) => unavailable("the key is not there after it was written".to_owned()),
            });
        }
        self.remove(identity.name(), Some(&description)).map(drop)
    }

    /// Removes what is stored under a connection's name; how many passwords that were.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn forget(&self, name: &str) -> Result<usize, StoreError> {
        self.remove(name, None)
    }

    /// The names under which something is stored, sorted.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn names(&self) -> Result<Vec<String>, StoreError> {
        let mut names: Vec<String> = (self.keys()?.into_iter())
            .map(|(name, _, _)| name)
            .collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    fn describe(&self, identity: &Identity) -> String {
        format!("{}{}", self.prefix, identity.file_stem())
    }

    fn remove(&self, name: &str, but: Option<&str>) -> Result<usize, StoreError> {
        let ring = open()?;
        let mut removed = 0;
        for (of, description, key) in self.keys()? {
            if of == name && but != Some(description.as_str()) {
                ring.unlink_key(key).map_err(|error| refuse(&error))?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// The connections' names, descriptions and keys.
    fn keys(&self) -> Result<Vec<(String, String, Key)>, StoreError> {
        let links = open()?.get_links(KEYS).map_err(|error| refuse(&error))?;
        let own = links.iter().filter_map(|link| {
            let key = link.as_key()?;
            // Another's, or gone since.
            let description = key.metadata().ok()?.get_description().to_owned();
            let stem = description.strip_prefix(&self.prefix)?;
            Some((Identity::name_in_stem(stem)?, description, key))
        });
        Ok(own.collect())
    }
}

/// The keyring of the user, which the kernel keeps without a process. Each look at it makes its three days begin anew. It is linked to
/// this thread, because a session without a keyring of its own could write there and not read.
fn open() -> Result<KeyRing, StoreError> {
    KeyRing::get_persistent(KeyRingIdentifier::Thread).map_err(|error| refuse(&error))
}

fn read(key: Key) -> Result<Zeroizing<String>, StoreError> {
    let bytes = key.read_to_vec().map_err(|error| refuse(&error))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| unavailable("the key holds something else".to_owned()))?;
    Ok(Zeroizing::new(text))
}

fn is_absent(error: &KeyError) -> bool {
    matches!(
        error,
        KeyError::KeyDoesNotExist | KeyError::KeyExpired | KeyError::KeyRevoked
    )
}

fn refuse(error: &KeyError) -> StoreError {
    unavailable(format!("the kernel refuses: {error}"))
}

fn unavailable(why: String) -> StoreError {
    StoreError::Unavailable {
        store: "kernel",
        why,
        help: "in a container its rules for system calls may forbid keys; use `--store file`",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn identity(name: &str, user: &str) -> Identity {
        Identity::new(name, "postgres", &["db:5432".to_owned()], user, "sales")
    }

    #[test]
    fn a_key_is_found_for_what_it_is_for_and_is_gone_when_it_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let store = KernelStore::new(dir.path());
        let (own, other) = (identity("sales/1", "reader"), identity("sales/1", "writer"));
        let password = |text: &str| Zeroizing::new(text.to_owned());
        assert_eq!(store.find(&own).unwrap(), None);
        store.store(&own, &password("geheim")).unwrap();
        assert_eq!(store.find(&own).unwrap(), Some(password("geheim")));
        assert_eq!(store.names().unwrap(), ["sales/1"]);
        // Another account takes its place, and another broker does not see it.
        store.store(&other, &password("new")).unwrap();
        assert_eq!(store.find(&own).unwrap(), None);
        let elsewhere = tempfile::tempdir().unwrap();
        let elsewhere = KernelStore::new(elsewhere.path());
        assert_eq!(elsewhere.find(&other).unwrap(), None);
        assert_eq!(elsewhere.names().unwrap(), [""; 0]);
        // What the kernel does not take leaves nothing: it has 20,000 bytes for a user.
        let lines = password("a\nb");
        store.store(&own, &lines).unwrap_err();
        assert_eq!(store.names().unwrap(), ["sales/1"]);
        assert_eq!(store.forget("sales/1").unwrap(), 1);
        assert_eq!(store.find(&other).unwrap(), None);
        assert_eq!(store.names().unwrap(), [""; 0]);
    }
}
