//! Passwords and other secrets: named, read when they are needed, never shown.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use zeroize::Zeroize as _;

use crate::exit::Failure;

/// Bytes of a password file that are looked at.
const MAX_BYTES: u64 = 64 * 1024;

/// Where a password is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Secret {
    /// In the environment, under this name.
    Env(String),
    /// In a file that only its owner may read; one line end at its end does not count.
    File(PathBuf),
}

/// A password. It prints as nothing.
#[derive(Clone)]
pub(crate) struct Password(String);

impl Secret {
    /// The password.
    pub(crate) fn read(&self) -> Result<Password, Failure> {
        let text = match self {
            Self::Env(name) => std::env::var(name).map_err(|error| match error {
                std::env::VarError::NotPresent => Failure::Configuration(format!(
                    "error: there is no `{name}` in the environment\n  help: set it, or name a file of the secret instead"
                )),
                std::env::VarError::NotUnicode(_) => Failure::Configuration(format!(
                    "error: what `{name}` holds is not UTF-8"
                )),
            })?,
            Self::File(path) => read_file(path)?,
        };
        if text.is_empty() {
            return Err(Failure::Configuration(format!(
                "error: {self} is empty\n  help: for an account without a password, leave the option out"
            )));
        }
        if text.contains('\0') {
            return Err(Failure::Configuration(format!(
                "error: the secret of {self} holds a NUL character, which no server takes"
            )));
        }
        Ok(Password(text))
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "`{name}`"),
            Self::File(path) => write!(f, "`{}`", path.display()),
        }
    }
}

impl Password {
    /// What a person typed.
    pub(crate) fn typed(text: &zeroize::Zeroizing<String>) -> Self {
        Self(text.as_str().to_owned())
    }

    /// The text. It goes to the driver and nowhere else.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl Drop for Password {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

/// The variable that names the folder of credentials which the service manager opened for this process.
#[cfg(unix)]
pub(crate) const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";

#[cfg(unix)]
fn is_credential(path: &Path) -> bool {
    let folder = std::env::var_os(CREDENTIALS).filter(|folder| !folder.is_empty());
    folder.is_some_and(|folder| path.parent() == Some(Path::new(&folder)))
}

fn read_file(path: &Path) -> Result<String, Failure> {
    let shown = path.display();
    let fault = |why: &str| {
        Failure::Configuration(format!(
            "error: cannot read the secret's file `{shown}`: {why}"
        ))
    };
    let metadata = std::fs::metadata(path).map_err(|error| fault(&error.to_string()))?;
    if !metadata.is_file() {
        return Err(fault("it is not a file"));
    }
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions());
        // The service manager's list of who may read a credential shows as the mode of its group.
        let admitted = if is_credential(path) { 0o040 } else { 0 };
        if mode & 0o077 & !admitted != 0 {
            return Err(fault(&format!(
                "others than its owner may use it\n  help: chmod 600 {shown}"
            )));
        }
    }
    if metadata.len() > MAX_BYTES {
        return Err(fault(&format!("it is longer than {MAX_BYTES} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| fault(&error.to_string()))?;
    let text = zeroize::Zeroizing::new(text);
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.contains('\n') {
        return Err(fault("it has more than one line"));
    }
    Ok(line.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    #[test]
    fn a_password_file_is_the_owners_and_has_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let check = |text: &str, mode: u32| {
            let path = dir.path().join("password");
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            match Secret::File(path).read() {
                Ok(password) => password.reveal().to_owned(),
                Err(failure) => {
                    let told = failure.to_string();
                    assert!(!told.contains("geheim"), "{told}");
                    told
                }
            }
        };
        assert_eq!(check("geheim", 0o600), "geheim");
        assert_eq!(check("geheim\r\n", 0o400), "geheim");
        assert_eq!(check(" ge heim \n", 0o600), " ge heim ");
        for (text, mode, told) in [
            ("geheim\n", 0o640, "chmod 600"),
            ("geheim\n", 0o604, "chmod 600"),
            ("geheim\nx\n", 0o600, "more than one line"),
            ("\n", 0o600, "is empty"),
            ("geheim\0", 0o600, "NUL"),
        ] {
            let said = check(text, mode);
            assert!(said.contains(told), "{told}: {said}");
        }
        let password = Password("geheim".to_owned());
        assert!(!format!("{password:?}").contains("geheim"));
    }
}
