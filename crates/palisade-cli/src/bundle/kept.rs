//! What is kept of bundles on the disk: files of mode 0600 in a folder of mode 0700, each written whole.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, ErrorKind, Read as _, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use palisade::policy::PolicyOrigin;
use palisade_host::BUNDLE_LIMIT;

use crate::{bundle::Pulled, config::bundle::BundleSetup, exit::Failure};

/// Where bundles of one name are kept.
pub(super) struct Kept {
    folder: PathBuf,
    name: String,
}

impl Kept {
    pub(super) fn find(setup: &BundleSetup) -> Self {
        Self {
            folder: setup.keep.clone(),
            name: setup.name.to_string(),
        }
    }

    /// The file of the one in force.
    pub(super) fn path(&self) -> PathBuf {
        self.folder.join(format!("{}.palisade", self.name))
    }

    fn previous(&self) -> PathBuf {
        self.folder.join(format!("{}.previous.palisade", self.name))
    }

    /// The one in force and the one before, verified again.
    pub(super) fn read_both(
        &self,
        setup: &BundleSetup,
    ) -> (Option<Arc<Pulled>>, Option<Arc<Pulled>>) {
        let read = |path: PathBuf| match read_if_there(&path, setup) {
            Ok(pulled) => pulled.map(Arc::new),
            Err(why) => {
                tracing::error!(
                    "the bundle that was kept at `{}` cannot be used: {why}",
                    path.display()
                );
                None
            }
        };
        (read(self.path()), read(self.previous()))
    }

    /// Makes the folder, which must be its owner's alone.
    pub(super) fn prepare(&self) -> Result<(), Failure> {
        let shown = self.folder.display();
        let fault = |why: &str, help: &str| {
            Failure::Configuration(format!(
                "error: bundles cannot be kept in `{shown}`: {why}\n  help: {help}"
            ))
        };
        let named = "name a folder at `keep` that this account can make and write";
        self.make_folder()
            .map_err(|error| fault(&error.to_string(), named))?;
        let metadata = fs::metadata(&self.folder);
        let metadata = metadata.map_err(|error| fault(&error.to_string(), named))?;
        if !metadata.is_dir() {
            return Err(fault("it is no folder", named));
        }
        #[cfg(unix)]
        {
            let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions());
            if mode & 0o077 != 0 {
                return Err(fault(
                    "others than its owner may use it",
                    &format!("chmod 700 {shown}"),
                ));
            }
        }
        // A mount for reading alone shows at the first write.
        let probe = self.folder.join(format!(".{}.probe", std::process::id()));
        let tried = write_whole(&probe, b"").and_then(|()| fs::remove_file(&probe));
        tried.map_err(|error| fault(&error.to_string(), named))
    }

    fn make_folder(&self) -> io::Result<()> {
        if self.folder.is_dir() {
            return Ok(());
        }
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.folder)
    }

    /// Keeps the bundle that was in force before.
    pub(super) fn write_previous(&self, bytes: &[u8]) -> Result<(), String> {
        let path = self.previous();
        write_whole(&path, bytes).map_err(|error| format!("`{}`: {error}", path.display()))
    }

    /// Keeps the bundle in force, unless another server of this machine has kept a bundle for which `is_newer` holds.
    pub(super) fn write(
        &self,
        bytes: &[u8],
        setup: &BundleSetup,
        is_newer: impl Fn(&PolicyOrigin) -> bool,
    ) -> Result<(), String> {
        let path = self.path();
        if let Ok(Some(there)) = read_if_there(&path, setup)
            && is_newer(&there.origin)
        {
            return Ok(());
        }
        write_whole(&path, bytes).map_err(|error| format!("`{}`: {error}", path.display()))
    }
}

fn read_if_there(path: &Path, setup: &BundleSetup) -> Result<Option<Pulled>, String> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Ok(_) | Err(_) => read_file(path)
            .and_then(|bytes| Pulled::read(bytes, setup))
            .map(Some),
    }
}

/// The bytes of a file, as many as a bundle can have.
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let shown = |error: io::Error| format!("`{}`: {error}", path.display());
    let metadata = fs::metadata(path).map_err(shown)?;
    if !metadata.is_file() {
        return Err(format!("`{}` is not a file", path.display()));
    }
    let limit = u64::try_from(BUNDLE_LIMIT).unwrap_or(u64::MAX);
    let file = fs::File::open(path).map_err(shown)?;
    let mut bytes = Vec::new();
    // One more is too many, which the reader of bundles says.
    let mut file = file.take(limit.saturating_add(1));
    file.read_to_end(&mut bytes).map_err(shown)?;
    Ok(bytes)
}

/// Writes a file that only its owner reads, whole or not at all.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // Servers in containers share a folder and have one number.
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let moment = since.map_or(0, |since| since.as_nanos());
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}-{moment}", std::process::id()));
    let draft = PathBuf::from(draft);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&draft)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    let renamed = written.and_then(|()| fs::rename(&draft, path));
    if renamed.is_err() {
        let _ = fs::remove_file(&draft);
    }
    renamed
}
