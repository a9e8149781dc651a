//! Where passwords are kept.

use std::path::{Path, PathBuf};

use palisade_broker::{
    CredentialStore, Identity, KernelStore, KeyringStore, Layout, PasswordStore, StoreError,
    StoredPassword,
};
use zeroize::Zeroizing;

use crate::{
    args::broker::StoreKind,
    broker::door::refuse,
    exit::Failure,
    secret::{CREDENTIALS, Password, Secret},
    target::Target,
};

/// The store that is written to.
pub(super) enum Store {
    /// One of a user's, which is named.
    Of(Place, Places),
    /// None is named: all of a user's.
    Any(Places),
    /// The service manager's.
    Credentials(CredentialStore),
}

/// Where a user's password can be. It has one place among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    File,
    Kernel,
    Keyring,
}

/// In the order in which the broker looks. Those that ask no person come first.
const PLACES: [Place; 3] = [Place::File, Place::Kernel, Place::Keyring];

/// All of them.
pub(super) struct Places {
    files: PasswordStore,
    kernel: KernelStore,
    keyring: KeyringStore,
    has_keyring: bool,
}

impl Place {
    /// As `--store` has it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Kernel => "kernel",
            Self::Keyring => KeyringStore::NAME,
        }
    }
}

impl Store {
    /// Opens it. Credentials are root's, and the folder of the broker may be another user's.
    pub(super) fn open(
        kind: Option<StoreKind>,
        layout: &Layout,
        credentials: &Path,
    ) -> Result<Self, Failure> {
        let places = || {
            layout.open().map_err(|error| refuse(&error))?;
            let files = PasswordStore::open(layout.passwords()).map_err(|error| refuse(&error))?;
            let keyring = KeyringStore::new(layout.root());
            Ok::<_, Failure>(Places {
                files,
                kernel: KernelStore::new(layout.root()),
                has_keyring: keyring.is_there(),
                keyring,
            })
        };
        match kind {
            None => Ok(Self::Any(places()?)),
            Some(StoreKind::File) => Ok(Self::Of(Place::File, places()?)),
            Some(StoreKind::Kernel) => Ok(Self::Of(Place::Kernel, places()?)),
            Some(StoreKind::SecretService) => Ok(Self::Of(Place::Keyring, places()?)),
            Some(StoreKind::SystemdCreds) => {
                Ok(Self::Credentials(CredentialStore::new(credentials)))
            }
        }
    }

    /// What keeps the password of an account, by its name; none if it is not stored.
    pub(super) fn find(&self, identity: &Identity) -> Result<Option<&'static str>, StoreError> {
        match self {
            Self::Of(place, places) => {
                let is_there = places.has(*place, identity)?
                    // That an account goes without a password is kept in a file.
                    || places.files.find(identity)? == Some(StoredPassword::None);
                Ok(is_there.then(|| place.name()))
            }
            Self::Any(places) => Ok(places.find(identity)?.map(Place::name)),
            Self::Credentials(credentials) => {
                let is_there = credentials.path(identity).exists();
                Ok(is_there.then_some("systemd-creds"))
            }
        }
    }

    /// Stores one, and forgets what another store of the same user has; what keeps it now. An empty one says that the account goes
    /// without.
    pub(super) fn store(
        &self,
        identity: &Identity,
        password: &Zeroizing<String>,
    ) -> Result<&'static str, StoreError> {
        let (place, places) = match self {
            Self::Credentials(_) if password.is_empty() => {
                return Err(StoreError::Unavailable {
                    store: "systemd-creds",
                    why: "there is no password to encrypt".to_owned(),
                    help: "say that the account goes without one by `--store file`",
                });
            }
            Self::Credentials(credentials) => {
                credentials.store(identity, password)?;
                return Ok("systemd-creds");
            }
            Self::Of(place, places) => (*place, places),
            // Another password of an account stays where the one before is.
            Self::Any(places) => match places.find(identity)? {
                Some(place) => (place, places),
                None if places.has_keyring => (Place::Keyring, places),
                None => (Place::File, places),
            },
        };
        let place = if password.is_empty() {
            Place::File
        } else {
            place
        };
        places.store(place, identity, password)?;
        Ok(place.name())
    }

    pub(super) fn forget(&self, name: &str) -> Result<usize, StoreError> {
        match self {
            Self::Of(place, places) => {
                let removed = places.forget(*place, name)?;
                // As of an account without a password.
                Ok(removed + places.forget(Place::File, name)?)
            }
            Self::Any(places) => {
                let mut removed = 0;
                for place in places.list() {
                    removed += places.forget(place, name)?;
                }
                Ok(removed)
            }
            Self::Credentials(credentials) => credentials.forget(name),
        }
    }

    pub(super) fn names(&self) -> Result<Vec<String>, StoreError> {
        match self {
            Self::Of(place, places) => places.names(*place),
            Self::Any(places) => {
                let mut names = Vec::new();
                for place in places.list() {
                    names.extend(places.names(place)?);
                }
                names.sort();
                names.dedup();
                Ok(names)
            }
            Self::Credentials(credentials) => credentials.names(),
        }
    }
}

impl Places {
    /// Those that this machine has. Where the kernel has no keys, none is there.
    fn list(&self) -> impl Iterator<Item = Place> {
        PLACES.into_iter().filter(move |place| match place {
            Place::File => true,
            Place::Kernel => self.kernel.names().is_ok(),
            Place::Keyring => self.has_keyring,
        })
    }

    fn find(&self, identity: &Identity) -> Result<Option<Place>, StoreError> {
        for place in self.list() {
            if self.has(place, identity)? {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    fn has(&self, place: Place, identity: &Identity) -> Result<bool, StoreError> {
        match place {
            Place::File => Ok(self.files.find(identity)?.is_some()),
            Place::Kernel => Ok(self.kernel.find(identity)?.is_some()),
            Place::Keyring => Ok(self.keyring.find(identity)?.is_some()),
        }
    }

    fn store(
        &self,
        place: Place,
        identity: &Identity,
        password: &Zeroizing<String>,
    ) -> Result<(), StoreError> {
        match place {
            Place::File => self.files.store(identity, password)?,
            Place::Kernel => self.kernel.store(identity, password)?,
            Place::Keyring => self.keyring.store(identity, password)?,
        }
        if place != Place::File {
            self.files.forget(identity.name())?;
        }
        // The broker finds what has just been stored before it looks where nothing could be forgotten.
        if place != Place::Kernel {
            let _ = self.kernel.forget(identity.name());
        }
        if place != Place::Keyring && self.has_keyring {
            let _ = self.keyring.forget(identity.name());
        }
        Ok(())
    }

    fn forget(&self, place: Place, name: &str) -> Result<usize, StoreError> {
        match place {
            Place::File => self.files.forget(name),
            Place::Kernel => self.kernel.forget(name),
            Place::Keyring => self.keyring.forget(name),
        }
    }

    fn names(&self, place: Place) -> Result<Vec<String>, StoreError> {
        match place {
            Place::File => self.files.names(),
            Place::Kernel => self.kernel.names(),
            Place::Keyring => self.keyring.names(),
        }
    }
}

/// The target with the password that is stored for it; none where none is, with what a store that does not answer says. A service's
/// credentials go first.
pub(super) fn equip(
    target: Target,
    identity: &Identity,
    layout: &Layout,
) -> Result<Result<Target, Option<StoreError>>, Failure> {
    if let Some(path) = find_credential(identity) {
        return Ok(Ok(target.with_secret(Secret::File(path))));
    }
    let files = PasswordStore::open(layout.passwords()).map_err(|error| refuse(&error))?;
    match files.find(identity).map_err(|error| refuse(&error))? {
        Some(StoredPassword::File(path)) => {
            return Ok(Ok(target.with_secret(Secret::File(path))));
        }
        Some(StoredPassword::None) => return Ok(Ok(target)),
        None => {}
    }
    // A kernel without keys has none of this.
    let key = KernelStore::new(layout.root()).find(identity);
    let found = match key.ok().flatten() {
        Some(key) => Ok(Some(key)),
        None => KeyringStore::new(layout.root()).find(identity),
    };
    Ok(match found {
        Ok(Some(password)) => Ok(target.with_typed(Password::typed(&password))),
        Ok(None) => Err(None),
        Err(silent) => Err(Some(silent)),
    })
}

/// The file that the service manager opened for this process.
fn find_credential(identity: &Identity) -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os(CREDENTIALS)?);
    Some(folder.join(CredentialStore::credential(identity))).filter(|path| path.exists())
}
