//! Where passwords are kept.

use std::path::{Path, PathBuf};

use palisade_broker::{
    CredentialStore, Identity, KernelStore, Layout, PasswordStore, StoreError, StoredPassword,
};
use zeroize::Zeroizing;

use crate::{
    broker::door::refuse,
    broker_args::StoreKind,
    exit::Failure,
    secret::{CREDENTIALS, Password, Secret},
    target::Target,
};

/// The store that is written to.
pub(super) enum Store {
    Files(PasswordStore, KernelStore),
    Credentials(CredentialStore),
    Kernel(KernelStore, PasswordStore),
}

impl Store {
    /// Opens it. Credentials are root's, and the folder of the broker may be another user's.
    pub(super) fn open(
        kind: StoreKind,
        layout: &Layout,
        credentials: &Path,
    ) -> Result<Self, Failure> {
        let files = || {
            layout.open().map_err(|error| refuse(&error))?;
            PasswordStore::open(layout.passwords()).map_err(|error| refuse(&error))
        };
        match kind {
            StoreKind::File => Ok(Self::Files(files()?, KernelStore::new(layout.root()))),
            StoreKind::SystemdCreds => Ok(Self::Credentials(CredentialStore::new(credentials))),
            StoreKind::Kernel => {
                let files = files()?;
                Ok(Self::Kernel(KernelStore::new(layout.root()), files))
            }
            StoreKind::SecretService => Err(Failure::Usage(
                "the store `secret-service` is not built in\n  help: `--store file` keeps passwords in files that only their owner may read; `systemd-creds` and `kernel` are built in too"
                    .to_owned(),
            )),
        }
    }

    /// Whether a password is stored for an account.
    pub(super) fn has(&self, identity: &Identity) -> Result<bool, StoreError> {
        match self {
            Self::Files(files, _) => Ok(files.find(identity)?.is_some()),
            Self::Credentials(credentials) => Ok(credentials.path(identity).exists()),
            Self::Kernel(keys, files) => Ok(keys.find(identity)?.is_some()
                || files.find(identity)? == Some(StoredPassword::None)),
        }
    }

    /// Stores one, and forgets what another store of the same user has. An empty one says that the account goes without.
    pub(super) fn store(
        &self,
        identity: &Identity,
        password: &Zeroizing<String>,
    ) -> Result<(), StoreError> {
        match self {
            Self::Files(files, keys) => {
                files.store(identity, password)?;
                // Where the kernel has no keys there is none to forget.
                let _ = keys.forget(identity.name());
                Ok(())
            }
            Self::Credentials(_) if password.is_empty() => Err(StoreError::Unavailable {
                store: "systemd-creds",
                why: "there is no password to encrypt".to_owned(),
                help: "say that the account goes without one by `--store file`",
            }),
            Self::Credentials(credentials) => credentials.store(identity, password),
            Self::Kernel(keys, files) if password.is_empty() => {
                files.store(identity, password)?;
                keys.forget(identity.name()).map(drop)
            }
            Self::Kernel(keys, files) => {
                keys.store(identity, password)?;
                files.forget(identity.name()).map(drop)
            }
        }
    }

    pub(super) fn forget(&self, name: &str) -> Result<usize, StoreError> {
        match self {
            Self::Files(files, _) => files.forget(name),
            Self::Credentials(credentials) => credentials.forget(name),
            Self::Kernel(keys, files) => Ok(keys.forget(name)? + files.forget(name)?),
        }
    }

    pub(super) fn names(&self) -> Result<Vec<String>, StoreError> {
        match self {
            Self::Files(files, _) => files.names(),
            Self::Credentials(credentials) => credentials.names(),
            Self::Kernel(keys, _) => keys.names(),
        }
    }
}

/// The target with the password that is stored for it; none where none is. A service's credentials go first.
pub(super) fn equip(
    target: Target,
    identity: &Identity,
    layout: &Layout,
) -> Result<Option<Target>, Failure> {
    if let Some(path) = credential(identity) {
        return Ok(Some(target.with_secret(Secret::File(path))));
    }
    let files = PasswordStore::open(layout.passwords()).map_err(|error| refuse(&error))?;
    match files.find(identity).map_err(|error| refuse(&error))? {
        Some(StoredPassword::File(path)) => {
            return Ok(Some(target.with_secret(Secret::File(path))));
        }
        Some(StoredPassword::None) => return Ok(Some(target)),
        None => {}
    }
    // A kernel without keys has none of this.
    let key = KernelStore::new(layout.root())
        .find(identity)
        .ok()
        .flatten();
    Ok(key.map(|password| target.with_typed(Password::typed(&password))))
}

/// The file that the service manager opened for this process.
fn credential(identity: &Identity) -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os(CREDENTIALS)?);
    Some(folder.join(CredentialStore::credential(identity))).filter(|path| path.exists())
}
