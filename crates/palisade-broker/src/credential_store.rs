//! Passwords of connections as credentials of systemd: files that only this machine's root and its service manager can open.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use zeroize::Zeroizing;

use crate::{
    password_store::{Identity, StoreError, check_password},
    private::{at, write_file},
};

/// The program of systemd that encrypts.
const PROGRAM: &str = "systemd-creds";

/// Bytes of an encrypted password.
const MOST: u64 = 64 * 1024;

/// What a credential's name begins with.
const PREFIX: &str = "palisade.";

/// Passwords in a folder of encrypted credentials. A unit's `LoadCredentialEncrypted=` has them opened for a service.
#[derive(Debug)]
pub struct CredentialStore {
    folder: PathBuf,
}

impl CredentialStore {
    /// The folder from which systemd takes encrypted credentials.
    pub const FOLDER: &str = "/etc/credstore.encrypted";

    /// The credentials in `folder`, which is made where the first is stored.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// What a credential is called, for a unit and in the folder that a service is given.
    #[must_use]
    pub fn credential(identity: &Identity) -> String {
        format!("{PREFIX}{}", identity.file_stem())
    }

    /// The file of a credential.
    #[must_use]
    pub fn path(&self, identity: &Identity) -> PathBuf {
        self.folder.join(Self::credential(identity))
    }

    /// Encrypts a password by the host's key, opens it again, and stores it in the place of whatever was stored under the connection's
    /// name.
    ///
    /// # Errors
    /// If systemd's program is not there or refuses, as it does where this is not root, or the folder cannot be written to.
    pub fn store(
        &self,
        identity: &Identity,
        password: &Zeroizing<String>,
    ) -> Result<(), StoreError> {
        check_password(password)?;
        let name = Self::credential(identity);
        let named = format!("--name={name}");
        let text = run(
            &["encrypt", "--with-key=host", &named, "-", "-"],
            password.as_bytes(),
        )?;
        let opened = run(&["decrypt", &named, "-", "-"], &text)?;
        if opened.as_slice() != password.as_bytes() {
            return Err(refuse("what it encrypts, it does not open again"));
        }
        match fs::create_dir(&self.folder) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(at(&self.folder)(error).into()),
        }
        let path = self.path(identity);
        write_file(&path, &text, None)?;
        self.remove(identity.name(), Some(&path)).map(drop)
    }

    /// Removes what is stored under a connection's name; how many passwords that were.
    ///
    /// # Errors
    /// If the folder cannot be written to.
    pub fn forget(&self, name: &str) -> Result<usize, StoreError> {
        self.remove(name, None)
    }

    /// The names under which something is stored, sorted.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn names(&self) -> Result<Vec<String>, StoreError> {
        let mut names: Vec<String> = self.files()?.into_iter().map(|(name, _)| name).collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    fn remove(&self, name: &str, but: Option<&Path>) -> Result<usize, StoreError> {
        let mut removed = 0;
        for (of, path) in self.files()? {
            if of == name && but != Some(path.as_path()) {
                fs::remove_file(&path).map_err(at(&path))?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    fn files(&self) -> Result<Vec<(String, PathBuf)>, StoreError> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(at(&self.folder)(error).into()),
        };
        let mut files = Vec::new();
        for entry in entries {
            let entry = entry.map_err(at(&self.folder))?;
            let file_name = entry.file_name();
            let stem = file_name
                .to_str()
                .and_then(|name| name.strip_prefix(PREFIX));
            if let Some(name) = stem.and_then(Identity::name_in_stem) {
                files.push((name, entry.path()));
            }
        }
        Ok(files)
    }
}

fn refuse(why: &str) -> StoreError {
    StoreError::Unavailable {
        store: PROGRAM,
        why: why.to_owned(),
        help: "it needs systemd 250 or newer, and root, who alone reads the host's key; otherwise `--store file`",
    }
}

/// What systemd's program makes of `input`. Nothing of it is an argument or an environment variable.
fn run(arguments: &[&str], input: &[u8]) -> Result<Zeroizing<Vec<u8>>, StoreError> {
    let fail = |error: io::Error| refuse(&error.to_string());
    let mut child = Command::new(PROGRAM)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(fail)?;
    if let Some(mut to) = child.stdin.take() {
        // Why it takes no more is what it says itself.
        let _ = to.write_all(input);
    }
    let mut made = Zeroizing::new(Vec::with_capacity(16 * 1024));
    if let Some(from) = child.stdout.take() {
        from.take(MOST).read_to_end(&mut made).map_err(fail)?;
    }
    let ended = child.wait_with_output().map_err(fail)?;
    if ended.status.success() {
        return Ok(made);
    }
    let told = String::from_utf8_lossy(&ended.stderr);
    Err(refuse(told.trim()))
}
