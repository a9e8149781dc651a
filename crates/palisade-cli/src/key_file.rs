//! Files of keys and secrets that are made where they are not there.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use palisade::host::Host as _;
use palisade_host::Machine;

use crate::{
    exit::Failure,
    secret::{Password, Secret},
};

/// Bytes of a new secret.
pub(crate) const SECRET_BYTES: usize = 32;

/// The folder of the file at `path`, where it is missing.
pub(crate) fn find_missing_folder(path: &Path) -> Option<&Path> {
    let folder = path.parent()?;
    // Of a bare name it is the folder that the process is in.
    let is_named = !folder.as_os_str().is_empty();
    (is_named && !folder.is_dir()).then_some(folder)
}

/// The file of the key of what is in `path`.
pub(crate) fn name_key_file(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".key");
    PathBuf::from(name)
}

/// What the file at `path` holds, which is made where it is not there; `what` it is.
pub(crate) fn read_or_make(path: &Path, what: &str) -> Result<Password, Failure> {
    let random = || -> Result<String, String> {
        let machine = Machine::new();
        let mut text = String::new();
        while text.len() < 2 * SECRET_BYTES {
            let bytes = machine.random()?;
            text.extend(bytes.iter().map(|byte| format!("{byte:02x}")));
        }
        Ok(text)
    };
    if !path.exists() {
        match write(path, &random().map_err(Failure::Internal)?) {
            Ok(()) => {}
            // Another process has made it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(Failure::Usage(format!(
                    "cannot write {what}, `{}`: {error}",
                    path.display()
                )));
            }
        }
    }
    Secret::File(path.to_owned()).read()
}

/// Writes a file that only its owner reads, whole or not at all, and over no other.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}", std::process::id()));
    let draft = PathBuf::from(draft);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
        .open(&draft)?
        .write_all(format!("{text}\n").as_bytes())?;
    // Unlike a rename, it fails where there is one.
    let linked = std::fs::hard_link(&draft, path);
    std::fs::remove_file(&draft)?;
    linked
}
