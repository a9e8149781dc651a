//! The audit log: one JSON line a statement, appended to a file that only its owner reads.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    path::Path,
    sync::{Mutex, PoisonError},
};

use palisade::audit::{AuditRecord, AuditSink};

/// Appends records to a file. Each is one write, so that several processes may share the file.
#[derive(Debug)]
pub struct AuditFile {
    file: Mutex<File>,
}

impl AuditFile {
    /// Opens the file for appending; a new one gets mode 0600.
    ///
    /// # Errors
    /// If the system does not let it be written.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(Self {
            file: Mutex::new(options.open(path)?),
        })
    }
}

impl AuditSink for AuditFile {
    fn record(&self, record: &AuditRecord) -> Result<(), String> {
        let mut line = serde_json::to_vec(record).map_err(|error| error.to_string())?;
        line.push(b'\n');
        // A writer that panicked left at most a torn line; the next one is whole.
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&line)
            .map_err(|error| format!("cannot write the audit log: {error}"))
    }
}
