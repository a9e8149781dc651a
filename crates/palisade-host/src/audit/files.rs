//! The files of a log, and how they are opened.

use std::{
    fs::{File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

/// Digits of the number behind an older file's name.
const DIGITS: usize = 6;

/// Opens a file to read and to append; a new one gets mode 0600.
pub(in crate::audit) fn open_to_append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Opens a file to be written anew; it gets mode 0600.
pub(in crate::audit) fn open_to_replace(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).truncate(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// `path` with `ending` behind its name.
pub(in crate::audit) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// The older files of a log with their numbers, oldest first.
pub(in crate::audit) fn list_older(path: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    let name = path.file_name().unwrap_or_default();
    let mut older = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let other = path.with_file_name(entry.file_name());
        if let Some((log, number)) = split_number(&other)
            && log.file_name() == Some(name)
        {
            older.push((number, other));
        }
    }
    older.sort();
    Ok(older)
}

/// The name that the file at `path` gets as the log's older file of this number.
pub(in crate::audit) fn older_name(path: &Path, number: u64) -> PathBuf {
    with_ending(path, &format!(".{number:0DIGITS$}"))
}

/// The log and the number of an older file, by its name.
fn split_number(path: &Path) -> Option<(PathBuf, u64)> {
    let name = path.file_name()?.to_str()?;
    let (log, digits) = name.rsplit_once('.')?;
    let is_number = digits.len() >= DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| is_number)?;
    Some((path.with_file_name(log), number))
}

/// The log of which `path` is a file: itself, or what it was called before it was renamed.
#[must_use]
pub fn audit_log_of(path: &Path) -> PathBuf {
    match split_number(path) {
        Some((log, _)) => log,
        None => path.to_owned(),
    }
}

/// The files of the log at `path`, oldest first.
///
/// # Errors
/// If the folder cannot be read.
pub fn list_audit_files(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = (list_older(path)?.into_iter())
        .map(|(_, path)| path)
        .collect();
    if path.exists() {
        files.push(path.to_owned());
    }
    Ok(files)
}

/// Whether `path` still leads to `file`.
#[cfg(unix)]
pub(in crate::audit) fn is_same(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let there = match std::fs::metadata(path) {
        Ok(there) => there,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let here = file.metadata()?;
    Ok((here.dev(), here.ino()) == (there.dev(), there.ino()))
}

/// Where a file that is open cannot be renamed, a file of that length is the same.
#[cfg(not(unix))]
pub(in crate::audit) fn is_same(file: &File, path: &Path) -> io::Result<bool> {
    match std::fs::metadata(path) {
        Ok(there) => Ok(there.len() == file.metadata()?.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
