//! The file of tokens: who holds which, and until when.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use palisade::session::Principal;
use serde::{Deserialize, Serialize};

use crate::{file_stamp::FileStamp, token::TokenName};

/// A token as it is kept: its hash, never itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenEntry {
    /// What it is called.
    pub name: TokenName,
    /// Who asks with it, for example `Agent::"support-bot"`.
    pub principal: String,
    /// SHA-256 of it, in hexadecimal.
    pub sha256: String,
    /// When it was made, in seconds since 1970-01-01 UTC.
    pub created: u64,
    /// When it ends, in the same seconds; without it, when it is revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
}

impl TokenEntry {
    /// Whether it has ended by `now`, in seconds since 1970-01-01 UTC.
    #[must_use]
    pub fn is_expired(&self, now: u64) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}

/// What is in the file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    tokens: Vec<TokenEntry>,
}

/// Why a file of tokens cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenFileError {
    /// It cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It is no file of tokens.
    #[error("{}: {why}; `palisade token create` writes this file", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Others than its owner may write it, and so may let themselves in.
    #[error("{path}: others than its owner may write it; make it `chmod 600 {path}`", path = .path.display())]
    Shared {
        /// The file.
        path: PathBuf,
    },
    /// There is a token of this name.
    #[error("there is a token `{0}`; revoke it first, or choose another name")]
    Taken(TokenName),
    /// There is none.
    #[error("there is no token `{0}`; `palisade token list` names them")]
    Missing(TokenName),
    /// The store that several servers share does not work, or holds something else.
    #[error("access tokens cannot be read from the state: {0}")]
    Store(String),
    /// No random bytes.
    #[error("the machine has no random bytes: {0}")]
    Random(#[from] getrandom::Error),
}

/// What was read last.
#[derive(Debug, Default)]
struct Seen {
    stamp: Option<FileStamp>,
    entries: Arc<Vec<TokenEntry>>,
}

/// A file of tokens. Clones share what was read of it.
#[derive(Debug, Clone)]
pub struct TokenFile {
    path: PathBuf,
    seen: Arc<Mutex<Seen>>,
}

impl TokenFile {
    /// The file at `path`, which need not be there yet.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            seen: Arc::default(),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The tokens in it now; none where it is not there.
    ///
    /// # Errors
    /// If it cannot be read, is no file of tokens, or others than its owner may write it.
    pub fn entries(&self) -> Result<Arc<Vec<TokenEntry>>, TokenFileError> {
        let stamp = self.stamp()?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.stamp != stamp || stamp.is_none() {
            // What cannot be read knows no token, and is read again the next time.
            *seen = Seen::default();
            let entries = Arc::new(self.read()?);
            *seen = Seen { stamp, entries };
        }
        Ok(Arc::clone(&seen.entries))
    }

    /// Writes the hash of a token.
    pub(crate) fn add(&self, entry: &TokenEntry) -> Result<(), TokenFileError> {
        self.change(|tokens| match tokens.iter().any(|t| t.name == entry.name) {
            true => Err(TokenFileError::Taken(entry.name.clone())),
            false => {
                tokens.push(entry.clone());
                Ok(())
            }
        })
    }

    /// Revokes a token: requests with it are refused from now on.
    ///
    /// # Errors
    /// If there is none of this name, or the file cannot be read or written.
    pub fn revoke(&self, name: &TokenName) -> Result<TokenEntry, TokenFileError> {
        let mut revoked = None;
        self.change(|tokens| {
            let at = tokens.iter().position(|entry| entry.name == *name);
            let at = at.ok_or_else(|| TokenFileError::Missing(name.clone()))?;
            revoked = Some(tokens.remove(at));
            Ok(())
        })?;
        revoked.ok_or_else(|| TokenFileError::Missing(name.clone()))
    }

    /// Replaces the file by another one, whole; one change at a time, so that none is lost.
    fn change(
        &self,
        change: impl FnOnce(&mut Vec<TokenEntry>) -> Result<(), TokenFileError>,
    ) -> Result<(), TokenFileError> {
        let failed = |source| TokenFileError::Io {
            path: self.path.clone(),
            source,
        };
        let folder = match self.path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            Some(_) | None => Path::new("."),
        };
        // Waits for whoever changes it meanwhile. The file itself is replaced, so that a lock on it would lock nothing.
        let lock = open_private(&self.path.with_extension("lock")).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let mut tokens = self.read()?;
        change(&mut tokens)?;
        let mut text = serde_json::to_string_pretty(&Content { tokens })
            .map_err(|error| failed(error.into()))?;
        text.push('\n');
        // Only its owner may read it.
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist(&self.path)
            .map_err(|error| failed(error.error))?;
        Ok(())
    }

    fn read(&self) -> Result<Vec<TokenEntry>, TokenFileError> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => {
                return Err(TokenFileError::Io {
                    path: self.path.clone(),
                    source,
                });
            }
        };
        self.check_mode()?;
        let bad = |why: String| TokenFileError::Content {
            path: self.path.clone(),
            why,
        };
        let Content { tokens } =
            serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        for entry in &tokens {
            Principal::parse(&entry.principal)
                .map_err(|error| bad(format!("token `{}`: {error}", entry.name)))?;
            let alike = tokens.iter().filter(|other| other.name == entry.name);
            if alike.count() > 1 {
                return Err(bad(format!("two tokens are called `{}`", entry.name)));
            }
        }
        Ok(tokens)
    }

    #[cfg(unix)]
    fn check_mode(&self) -> Result<(), TokenFileError> {
        use std::os::unix::fs::MetadataExt as _;
        let mode = fs::metadata(&self.path).map(|metadata| metadata.mode());
        match mode {
            Ok(mode) if mode & 0o022 == 0 => Ok(()),
            Ok(_) | Err(_) => Err(TokenFileError::Shared {
                path: self.path.clone(),
            }),
        }
    }

    #[cfg(not(unix))]
    #[expect(clippy::unnecessary_wraps, reason = "as on Unix")]
    fn check_mode(&self) -> Result<(), TokenFileError> {
        Ok(())
    }

    /// What the file is now; `None` where it is not there.
    fn stamp(&self) -> Result<Option<FileStamp>, TokenFileError> {
        match fs::metadata(&self.path) {
            Ok(metadata) => Ok(Some(FileStamp::from_metadata(&metadata))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(TokenFileError::Io {
                path: self.path.clone(),
                source,
            }),
        }
    }
}

/// Opens a file that only its owner may read, and makes it where it is missing.
fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{token::Token, tokens::Tokens};

    fn name(text: &str) -> TokenName {
        text.parse().unwrap()
    }

    #[test]
    fn a_token_is_known_until_it_ends_or_is_revoked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        let file = Tokens::from(TokenFile::new(path.clone()));
        let agent = Principal::new("Agent", "a");
        let (token, _) = file.create(name("one"), &agent, None).unwrap();
        let hour = Some(Duration::from_secs(3600));
        let (long, _) = file.create(name("two"), &agent, hour).unwrap();
        let none = Some(Duration::ZERO);
        let (ended, _) = file.create(name("three"), &agent, none).unwrap();
        let find = |token: &Token| {
            file.find(token)
                .unwrap()
                .map(|entry| entry.name.to_string())
        };
        assert_eq!(find(&token).as_deref(), Some("one"));
        assert_eq!(find(&long).as_deref(), Some("two"));
        assert_eq!(find(&ended), None);
        let unknown = Token::generate().unwrap();
        assert_eq!(find(&unknown), None);
        let text = fs::read_to_string(path).unwrap();
        assert!(!text.contains(token.reveal()), "{text}");
        file.revoke(&name("one")).unwrap();
        assert_eq!(find(&token), None);
        assert_eq!(find(&long).as_deref(), Some("two"));
        assert!(matches!(
            file.revoke(&name("one")),
            Err(TokenFileError::Missing(_))
        ));
        assert!(matches!(
            file.create(name("two"), &agent, None),
            Err(TokenFileError::Taken(_))
        ));
    }

    #[test]
    fn what_is_no_file_of_tokens_knows_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        let file = Tokens::from(TokenFile::new(path.clone()));
        let agent = Principal::new("Agent", "a");
        let (token, entry) = file.create(name("one"), &agent, None).unwrap();
        assert!(file.find(&token).unwrap().is_some());
        let good = fs::read_to_string(&path).unwrap();
        let twice = serde_json::to_string(&[&entry, &entry]).unwrap();
        for bad in [
            "{",
            &good.replace("\"created\"", "\"made\""),
            &good.replace("Agent::\\\"a\\\"", "a"),
            &format!("{{\"tokens\": {twice}}}"),
        ] {
            fs::write(&path, bad).unwrap();
            assert!(file.find(&token).is_err(), "{bad}");
        }
        fs::write(&path, &good).unwrap();
        assert!(file.find(&token).unwrap().is_some());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let open = fs::Permissions::from_mode(0o666);
            fs::remove_file(&path).unwrap();
            fs::write(&path, &good).unwrap();
            fs::set_permissions(&path, open).unwrap();
            assert!(matches!(
                file.find(&token),
                Err(TokenFileError::Shared { .. })
            ));
        }
    }
}
