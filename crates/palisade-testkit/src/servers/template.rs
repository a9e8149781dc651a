//! Data folders that were initialised once and are copied for each server.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use super::error::ServerError;

/// Changes whenever a data folder would be initialised differently.
const RECIPE: u32 = 1;

/// A cached data folder of one version of one server for one account. An account that cannot write
/// under the target folder has no cache, and nothing else changes for it.
#[derive(Debug)]
pub(super) struct Template {
    path: PathBuf,
}

impl Template {
    /// The template for `version` (what the server says of itself) and `uid`. Templates belong to
    /// the account, for no other may read them.
    pub(super) fn new(version: &str, uid: u32) -> Self {
        let version: String = version
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        let path = super::find::tools()
            .join("templates")
            .join(format!("{}-{uid}-{RECIPE}", version.trim_matches('-')));
        Self { path }
    }

    /// Copies the template to `data`, which must not exist; false when there is no template.
    pub(super) fn copy_to(&self, data: &Path) -> Result<bool, ServerError> {
        // Another account's template cannot be looked into; a name holds the account, but a folder
        // on the way may be closed.
        if !self.path.is_dir() {
            return Ok(false);
        }
        if copy(&self.path, data) {
            return Ok(true);
        }
        match fs::remove_dir_all(data) {
            Err(why) if data.exists() => Err(ServerError::system("remove", data, &why)),
            Err(_) | Ok(()) => Ok(false),
        }
    }

    /// Keeps a copy of `data`, which no server has open. Failing to is not an error: the next
    /// server initialises its own.
    pub(super) fn keep(&self, data: &Path) {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let Some(folder) = self.path.parent() else {
            return;
        };
        if fs::create_dir_all(folder).is_err() {
            return;
        }
        // Renaming is atomic: a template is whole or is not there, whoever else makes one now.
        let partial = folder.join(format!(
            ".partial-{}-{}",
            std::process::id(),
            COUNTER.fetch_add(1, Ordering::Relaxed)
        ));
        if !copy(data, &partial) || fs::rename(&partial, &self.path).is_err() {
            let _ = fs::remove_dir_all(&partial);
        }
    }
}

/// `cp -a`: owners and permissions stay, which the servers insist on.
fn copy(from: &Path, to: &Path) -> bool {
    Command::new("cp")
        .arg("-a")
        .arg("--")
        .arg(from)
        .arg(to)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
