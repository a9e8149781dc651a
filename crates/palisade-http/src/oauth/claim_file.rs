//! The file of claims, read again when it changes.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use crate::oauth::claim_map::{ClaimMap, ClaimMapError};

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

/// A file that says who asks, by what a token claims. When it changes, later requests are asked by the new one. What cannot be read
/// is told in the log, and the old one stays in force. Clones share everything.
#[derive(Debug, Clone)]
pub struct ClaimFile {
    path: PathBuf,
    current: Arc<Mutex<Current>>,
}

#[derive(Debug)]
struct Current {
    map: Arc<ClaimMap>,
    stamp: Stamp,
    looked: Instant,
}

/// What the file was when it was read; none where it was not there.
type Stamp = Option<(Option<SystemTime>, u64)>;

impl ClaimFile {
    /// The file at `path`.
    ///
    /// # Errors
    /// If it cannot be read, or maps no claims.
    pub fn read(path: PathBuf) -> Result<Self, ClaimFileError> {
        let stamp = stamp(&path);
        let map = Arc::new(read_map(&path)?);
        Ok(Self {
            path,
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
            let stamp = stamp(&self.path);
            if stamp != current.stamp {
                match read_map(&self.path) {
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

fn stamp(path: &Path) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok(), metadata.len()))
}

fn read_map(path: &Path) -> Result<ClaimMap, ClaimFileError> {
    let text = fs::read_to_string(path).map_err(|source| ClaimFileError::Io {
        path: path.to_owned(),
        source,
    })?;
    text.parse().map_err(|source| ClaimFileError::Content {
        path: path.to_owned(),
        source,
    })
}
