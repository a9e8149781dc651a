//! Whether a file has changed since it was read.

use std::{
    fs::{self, Metadata},
    path::Path,
    time::SystemTime,
};

/// What a file was when it was read: another length, time or inode is another file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileStamp {
    modified: Option<SystemTime>,
    length: u64,
    inode: u64,
}

impl FileStamp {
    /// Of the file at `path`; none where it cannot be looked at.
    pub(crate) fn look(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self::from_metadata(&metadata))
    }

    /// Of the file that has this.
    pub(crate) fn from_metadata(metadata: &Metadata) -> Self {
        Self {
            modified: metadata.modified().ok(),
            length: metadata.len(),
            inode: inode(metadata),
        }
    }
}

#[cfg(unix)]
fn inode(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn inode(_: &Metadata) -> u64 {
    0
}
