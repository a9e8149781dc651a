//! Passwords of connections, each in a file that only its owner may read.

use std::{
    fs,
    path::{Path, PathBuf},
};

use zeroize::Zeroizing;

use crate::{
    private::{PrivateError, at, open_folder, read_file, write_file},
    secret::hash_text,
};

/// Bytes of a password.
const PASSWORD_BYTES: u64 = 4096;

/// Characters of the part of a file's name that says what the password is for.
const IDENTITY_CHARS: usize = 32;

/// The end of names of files, and that of files that were being written when a process was killed.
const STORED: &str = "password";
const HALF: &str = ".new";

/// What a password is for. Another host, port, user or database is another identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    name: String,
    hash: String,
}

impl Identity {
    /// The connection `name`, to an account of a database at one of the endpoints.
    #[must_use]
    pub fn new(name: &str, engine: &str, endpoints: &[String], user: &str, database: &str) -> Self {
        let mut parts = vec![engine, user, database];
        parts.extend(endpoints.iter().map(String::as_str));
        // The lengths keep parts apart from each other.
        let named: String = parts
            .iter()
            .map(|part| format!("{}:{part}", part.len()))
            .collect();
        let mut hash = hash_text(&named);
        hash.truncate(IDENTITY_CHARS);
        Self {
            name: name.to_owned(),
            hash,
        }
    }

    /// The connection's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether a password of it could be stored: before it is tried, so that none is tried in vain.
    ///
    /// # Errors
    /// If it has more than a line or is too long, or the connection's name is.
    pub fn check(&self, password: &Zeroizing<String>) -> Result<(), StoreError> {
        check_password(password)?;
        // With the ends of a file, and of a half of one, behind it.
        if self.file_stem().len() > 230 {
            return Err(StoreError::Name);
        }
        Ok(())
    }

    /// What files and keys of its password are called: the name, and what it is for.
    pub(crate) fn file_stem(&self) -> String {
        format!("{}.{}", write_name(&self.name), self.hash)
    }

    /// The connection's name in [`file_stem`](Self::file_stem).
    pub(crate) fn name_in_stem(stem: &str) -> Option<String> {
        let (name, hash) = stem.rsplit_once('.')?;
        read_name(name).filter(|_| hash.len() == IDENTITY_CHARS)
    }
}

/// Refuses a password that no store keeps.
pub(crate) fn check_password(password: &Zeroizing<String>) -> Result<(), StoreError> {
    let is_long = u64::try_from(password.len()).is_ok_and(|length| length > PASSWORD_BYTES);
    if is_long || password.contains(['\n', '\r', '\0']) {
        return Err(StoreError::Password);
    }
    Ok(())
}

/// Why a password is not stored, or not found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A folder or a file is not private, or the system refuses.
    #[error(transparent)]
    Private(#[from] PrivateError),
    /// A password that no file can hold.
    #[error(
        "the password has a line end or a NUL character in it, or more than {PASSWORD_BYTES} bytes"
    )]
    Password,
    /// A store is not there, or refuses.
    #[error("the store `{store}` keeps no password: {why}\n  help: {help}")]
    Unavailable {
        /// Which one.
        store: &'static str,
        /// What it says.
        why: String,
        /// What to do.
        help: &'static str,
    },
    /// A name that is no file name.
    #[error("the connection's name is too long for a file's name\n  help: give it a shorter one")]
    Name,
}

/// Passwords in a folder of the mode 0700, each in a file of the mode 0600.
#[derive(Debug)]
pub struct PasswordStore {
    folder: PathBuf,
}

impl PasswordStore {
    /// The passwords in `folder`, which is made where it is not there.
    ///
    /// # Errors
    /// If the folder is another's, or others may use it.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let folder = folder.into();
        open_folder(&folder, None)?;
        Ok(Self { folder })
    }

    /// The file of a password, and whether the account goes without one; none if no password is stored for it.
    ///
    /// # Errors
    /// If the file is another's, or others may use it.
    pub fn find(&self, identity: &Identity) -> Result<Option<StoredPassword>, StoreError> {
        let path = self.path(identity, STORED)?;
        let text = read_file(&path, PASSWORD_BYTES, None)?;
        Ok(text.map(|text| {
            if text.is_empty() {
                StoredPassword::None
            } else {
                StoredPassword::File(path)
            }
        }))
    }

    /// Stores a password, in the place of whatever was stored under the connection's name. An empty one says that the account goes
    /// without.
    ///
    /// # Errors
    /// As [`Identity::check`], or if the folder cannot be written to.
    pub fn store(
        &self,
        identity: &Identity,
        password: &Zeroizing<String>,
    ) -> Result<(), StoreError> {
        identity.check(password)?;
        let path = self.path(identity, STORED)?;
        write_file(&path, password.as_bytes(), None)?;
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
        let mut names: Vec<String> = (self.files()?.into_iter())
            .filter_map(|(name, is_whole, _)| is_whole.then_some(name))
            .collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    fn remove(&self, name: &str, but: Option<&Path>) -> Result<usize, StoreError> {
        let mut removed = 0;
        for (of, _, path) in self.files()? {
            if of == name && but != Some(path.as_path()) {
                fs::remove_file(&path).map_err(at(&path))?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// The files with the names that they are of, and whether each was written to its end.
    fn files(&self) -> Result<Vec<(String, bool, PathBuf)>, StoreError> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(at(&self.folder))? {
            let entry = entry.map_err(at(&self.folder))?;
            let file_name = entry.file_name();
            let Some(file_name) = file_name.to_str() else {
                continue;
            };
            let whole = file_name.strip_suffix(HALF);
            let mut parts = whole.unwrap_or(file_name).rsplitn(3, '.');
            if let (Some(STORED), Some(_), Some(name)) = (parts.next(), parts.next(), parts.next())
                && let Some(name) = read_name(name)
            {
                files.push((name, whole.is_none(), entry.path()));
            }
        }
        Ok(files)
    }

    fn path(&self, identity: &Identity, end: &str) -> Result<PathBuf, StoreError> {
        let name = format!("{}.{end}", identity.file_stem());
        // With the end of a half behind it while it is written.
        if name.len() > 250 {
            return Err(StoreError::Name);
        }
        Ok(self.folder.join(name))
    }
}

/// What is stored for an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredPassword {
    /// It goes without a password.
    None,
    /// Its password is this file.
    File(PathBuf),
}

/// A name with `%` and two digits for each byte that a file name should not hold.
fn write_name(name: &str) -> String {
    name.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => char::from(byte).to_string(),
            other => format!("%{other:02x}"),
        })
        .collect()
}

fn read_name(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.bytes().next() {
        if first == b'%' {
            let digits = rest.get(1..3)?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = rest.get(3..)?;
        } else {
            bytes.push(first);
            rest = rest.get(1..)?;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn identity(name: &str, user: &str) -> Identity {
        Identity::new(name, "postgres", &["db:5432".to_owned()], user, "sales")
    }

    fn store(store: &PasswordStore, identity: &Identity, password: &str) {
        let password = Zeroizing::new(password.to_owned());
        store.store(identity, &password).unwrap();
    }

    #[test]
    fn a_password_is_found_for_what_it_is_for_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let passwords = PasswordStore::open(dir.path().join("p")).unwrap();
        let (own, other) = (
            identity("sales/Ä.1", "reader"),
            identity("sales/Ä.1", "writer"),
        );
        assert_eq!(passwords.find(&own).unwrap(), None);
        store(&passwords, &own, "geheim");
        let Some(StoredPassword::File(path)) = passwords.find(&own).unwrap() else {
            panic!("it was stored")
        };
        assert_eq!(fs::read_to_string(path).unwrap(), "geheim");
        assert_eq!(passwords.find(&other).unwrap(), None);
        assert_eq!(passwords.names().unwrap(), ["sales/Ä.1"]);
        // Another account takes its place.
        store(&passwords, &other, "");
        assert_eq!(passwords.find(&own).unwrap(), None);
        assert_eq!(passwords.find(&other).unwrap(), Some(StoredPassword::None));
        assert_eq!(passwords.forget("sales/Ä.1").unwrap(), 1);
        assert_eq!(fs::read_dir(dir.path().join("p")).unwrap().count(), 0);
    }

    #[test]
    fn a_password_that_no_file_holds_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let passwords = PasswordStore::open(dir.path().join("p")).unwrap();
        let own = identity("sales", "reader");
        for wrong in ["a\nb", "a\0", &"x".repeat(5000)] {
            let wrong = Zeroizing::new(wrong.to_owned());
            let told = passwords.store(&own, &wrong).unwrap_err().to_string();
            assert!(told.contains("line end"), "{told}");
        }
        assert_eq!(fs::read_dir(dir.path().join("p")).unwrap().count(), 0);
    }

    /// What a killed process left half written is no password, and is forgotten with the others.
    #[test]
    fn what_was_written_in_part_is_forgotten_too() {
        let dir = tempfile::tempdir().unwrap();
        let passwords = PasswordStore::open(dir.path().join("p")).unwrap();
        let own = identity("sales", "reader");
        let path = passwords.path(&own, STORED).unwrap();
        fs::write(path.with_extension("password.new"), "gehe").unwrap();
        assert_eq!(passwords.find(&own).unwrap(), None);
        assert_eq!(passwords.names().unwrap(), [""; 0]);
        assert_eq!(passwords.forget("sales").unwrap(), 1);
        assert_eq!(fs::read_dir(dir.path().join("p")).unwrap().count(), 0);
    }
}
