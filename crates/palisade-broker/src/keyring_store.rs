//! Passwords of connections in the secret service of a desktop, or in the keychain of macOS.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use keyring_core::{CredentialStore, Entry, Error};
use zeroize::Zeroizing;

use crate::{
    password_store::{Identity, StoreError, check_password},
    secret::name_scope,
};

/// How long the system has for an answer: it may ask a person to unlock the keyring.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long it has to say whether there is a keyring at all.
const SHORT: Duration = Duration::from_secs(5);

/// Passwords in the keyring that the system keeps for a person, where other programs' items are not touched. Calls block, for a minute
/// at most. What the system's own libraries keep of a password in memory is not wiped.
#[derive(Debug)]
pub struct KeyringStore {
    /// What its items are of.
    service: String,
}

impl KeyringStore {
    /// What it is called on this system.
    pub const NAME: &str = if cfg!(target_os = "macos") {
        "keychain"
    } else {
        "secret-service"
    };

    /// The items of the broker whose folder this is.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self {
            service: format!("palisade:{}", name_scope(folder)),
        }
    }

    /// Whether this program was built with it, and the system has one.
    #[must_use]
    pub fn is_there(&self) -> bool {
        ask_within(SHORT, || open_keyring().map(drop)).is_ok()
    }

    /// The password of an account, if there is one.
    ///
    /// # Errors
    /// If the keyring is absent or stays locked, or if several items are of the account.
    pub fn find(&self, identity: &Identity) -> Result<Option<Zeroizing<String>>, StoreError> {
        let (service, stem) = (self.service.clone(), identity.file_stem());
        ask_within(PATIENCE, move || {
            let store = open_keyring()?;
            read(&store.build(&service, &stem, None)?)
        })
    }

    /// Stores a password, reads it back, and removes whatever else was stored under the connection's name.
    ///
    /// # Errors
    /// If the keyring is absent or stays locked. No item is left then, unless it is one of before.
    pub fn store(
        &self,
        identity: &Identity,
        password: &Zeroizing<String>,
    ) -> Result<(), StoreError> {
        check_password(password)?;
        let (service, stem) = (self.service.clone(), identity.file_stem());
        let (label, password) = (print_label(identity.name()), password.clone());
        let is_there = ask_within(PATIENCE, move || {
            let store = open_keyring()?;
            let entry = name_item(&*store, &service, &stem, &label)?;
            let before = read(&entry)?;
            let written = entry.set_secret(password.as_bytes());
            let found = read(&entry);
            let is_whole = matches!(&found, Ok(Some(found)) if *found == password);
            if written.is_err() || !is_whole {
                // Half of it may be there, whatever was said.
                if !matches!(&found, Ok(found) if *found == before) {
                    let _ = entry.delete_credential();
                }
                return written.map(|()| false);
            }
            Ok(true)
        })?;
        if !is_there {
            return Err(unavailable(
                "the item is not there after it was written".to_owned(),
            ));
        }
        self.remove(identity.name(), Some(identity.file_stem()))
            .map(drop)
    }

    /// Removes what is stored under a connection's name; how many passwords that were.
    ///
    /// # Errors
    /// If the keyring is absent or stays locked.
    pub fn forget(&self, name: &str) -> Result<usize, StoreError> {
        self.remove(name, None)
    }

    /// The names under which something is stored, sorted.
    ///
    /// # Errors
    /// If the keyring is absent or stays locked.
    pub fn names(&self) -> Result<Vec<String>, StoreError> {
        let service = self.service.clone();
        let items = ask_within(PATIENCE, move || list_items(&*open_keyring()?, &service))?;
        let stems = items.into_iter().map(|(stem, _)| stem);
        let mut names: Vec<String> = stems
            .filter_map(|stem| Identity::name_in_stem(&stem))
            .collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    fn remove(&self, name: &str, but: Option<String>) -> Result<usize, StoreError> {
        let (service, name) = (self.service.clone(), name.to_owned());
        ask_within(PATIENCE, move || {
            let mut removed = 0;
            for (stem, item) in list_items(&*open_keyring()?, &service)? {
                let is_of = Identity::name_in_stem(&stem).is_some_and(|of| of == name);
                if is_of && but.as_ref() != Some(&stem) {
                    item.delete_credential()?;
                    removed += 1;
                }
            }
            Ok(removed)
        })
    }
}

/// The items of a service, each with what it is of.
fn list_items(store: &CredentialStore, service: &str) -> Result<Vec<(String, Entry)>, Error> {
    let found = store.search(&HashMap::from([("service", service)]))?;
    let found = found.into_iter().filter_map(|item| {
        let (of, stem) = item.get_specifiers()?;
        (of == service).then_some((stem, item))
    });
    Ok(found.collect())
}

/// The password of an item; none if it is not there.
fn read(item: &Entry) -> Result<Option<Zeroizing<String>>, Error> {
    let bytes = match item.get_secret() {
        Ok(bytes) => Zeroizing::new(bytes),
        Err(Error::NoEntry) => return Ok(None),
        Err(error) => return Err(error),
    };
    // The bytes of something else are not part of the error.
    let text = std::str::from_utf8(&bytes).map_err(|_| Error::BadEncoding(Vec::new()))?;
    Ok(Some(Zeroizing::new(text.to_owned())))
}

#[cfg(target_os = "linux")]
fn open_keyring() -> Result<Arc<CredentialStore>, Error> {
    let store: Arc<CredentialStore> = zbus_secret_service_keyring_store::Store::new()?;
    Ok(store)
}

#[cfg(target_os = "macos")]
fn open_keyring() -> Result<Arc<CredentialStore>, Error> {
    let store: Arc<CredentialStore> = apple_native_keyring_store::keychain::Store::new()?;
    Ok(store)
}

/// What a person who looks at the keyring reads.
fn print_label(name: &str) -> String {
    format!("Palisade: the password of `{name}`")
}

/// The item that is written to.
#[cfg(target_os = "linux")]
fn name_item(
    store: &CredentialStore,
    service: &str,
    stem: &str,
    label: &str,
) -> Result<Entry, Error> {
    store.build(service, stem, Some(&HashMap::from([("label", label)])))
}

/// The item that is written to. The keychain shows what it is of.
#[cfg(target_os = "macos")]
fn name_item(store: &CredentialStore, service: &str, stem: &str, _: &str) -> Result<Entry, Error> {
    store.build(service, stem, None)
}

/// What `work` gives, on a thread of its own: it drives a connection, and may wait for a person.
fn ask_within<T: Send + 'static>(
    time: Duration,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, StoreError> {
    let (tell, told) = mpsc::channel();
    let begun = thread::Builder::new().spawn(move || {
        // Whoever asked may have gone.
        let _ = tell.send(work());
    });
    begun.map_err(|error| unavailable(error.to_string()))?;
    match told.recv_timeout(time) {
        Ok(result) => result.map_err(|error| refuse(&error)),
        Err(mpsc::RecvTimeoutError::Timeout) => Err(unavailable(format!(
            "it gave no answer within {} seconds",
            time.as_secs()
        ))),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            Err(unavailable("its library failed".to_owned()))
        }
    }
}

fn refuse(error: &Error) -> StoreError {
    unavailable(match error {
        Error::NoStorageAccess(why) => format!("it is locked, or refuses: {why}"),
        Error::PlatformFailure(why) => why.to_string(),
        Error::Ambiguous(items) => format!(
            "{} items are of this connection; `--forget` removes them",
            items.len()
        ),
        other => other.to_string(),
    })
}

fn unavailable(why: String) -> StoreError {
    StoreError::Unavailable {
        store: KeyringStore::NAME,
        why,
        help: "log in at a desktop and unlock its keyring; where there is none, use `--store file`",
    }
}
