//! A file of claims, read again when it changes.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::{
    claim_map::{ClaimMap, ClaimMapError, Claimant},
    file_stamp::FileStamp,
};

/// How often it is looked whether the file is another.
const LOOK: Duration = Duration::from_secs(1);

/// Why a file of claims cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimFileError {
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It maps no claims.
    #[error("{}: {source}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: ClaimMapError,
    },
}

/// A file that says who asks, by what a token or a certificate claims. When it changes, later requests are asked by the new one. What cannot be read
/// is told in the log, and the old one stays in force. Clones share everything.
#[derive(Debug, Clone)]
pub struct ClaimFile {
    path: PathBuf,
    of: Claimant,
    current: Arc<Mutex<Current>>,
}

#[derive(Debug)]
struct Current {
    map: Arc<ClaimMap>,
    stamp: Option<FileStamp>,
    looked: Instant,
}

impl ClaimFile {
    /// The file at `path`, for tokens of authorization servers.
    ///
    /// # Errors
    /// If it cannot be read, or maps no claims.
    pub fn read(path: PathBuf) -> Result<Self, ClaimFileError> {
        Self::read_of(path, Claimant::Token)
    }

    /// The same for client certificates, which claim `uri`, `dns`, `email` and `common_name`.
    ///
    /// # Errors
    /// If it cannot be read, maps no claims, or names what no certificate claims.
    pub fn read_for_certificates(path: PathBuf) -> Result<Self, ClaimFileError> {
        Self::read_of(path, Claimant::Certificate)
    }

    fn read_of(path: PathBuf, of: Claimant) -> Result<Self, ClaimFileError> {
        let stamp = FileStamp::look(&path);
        let map = Arc::new(read_map(&path, of)?);
        Ok(Self {
            path,
            of,
            current: Arc::new(Mutex::new(Current {
                map,
                stamp,
                looked: Instant::now(),
            })),
        })
    }

    /// What is in force now.
    pub(crate) fn map(&self) -> Arc<ClaimMap> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.looked.elapsed() >= LOOK {
            current.looked = Instant::now();
            let stamp = FileStamp::look(&self.path);
            if stamp != current.stamp {
                match read_map(&self.path, self.of) {
                    Ok(map) => {
                        tracing::info!("{} was read again", self.path.display());
                        current.map = Arc::new(map);
                    }
                    Err(error) => {
                        tracing::error!("the map of claims stays the old one: {error}");
                    }
                }
                current.stamp = stamp;
            }
        }
        Arc::clone(&current.map)
    }
}

fn read_map(path: &Path, of: Claimant) -> Result<ClaimMap, ClaimFileError> {
    let text = fs::read_to_string(path).map_err(|source| ClaimFileError::Io {
        path: path.to_owned(),
        source,
    })?;
    ClaimMap::read(&text, of).map_err(|source| ClaimFileError::Content {
        path: path.to_owned(),
        source,
    })
}
