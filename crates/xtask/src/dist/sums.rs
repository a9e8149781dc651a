//! Checksums, as `sha256sum --check` reads them.

use std::{
    fmt::Write as _,
    fs,
    io::Read as _,
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

use crate::{dist::tell, run::Result};

/// A line for each file of `folder`, by name.
pub(super) fn list(folder: &Path) -> Result<String> {
    let mut files = Vec::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(part) = waiting.pop() {
        let path = folder.join(&part);
        for entry in fs::read_dir(&path).map_err(|error| tell(&path, &error))? {
            let entry = entry.map_err(|error| tell(&path, &error))?;
            let part = part.join(entry.file_name());
            match entry.path().is_dir() {
                true => waiting.push(part),
                false => files.push(part),
            }
        }
    }
    files.sort();
    let mut out = String::new();
    for file in files {
        let sum = sum_file(&folder.join(&file))?;
        let name = file.to_string_lossy().replace('\\', "/");
        let _ = writeln!(out, "{sum}  {name}");
    }
    Ok(out)
}

/// The SHA-256 of a file, in hexadecimal digits.
pub(super) fn sum_file(path: &Path) -> Result<String> {
    let mut file = fs::File::open(path).map_err(|error| tell(path, &error))?;
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 64 * 1024]);
    loop {
        let read = file.read(&mut buffer).map_err(|error| tell(path, &error))?;
        match buffer.get(..read) {
            None | Some([]) => break,
            Some(bytes) => hash.update(bytes),
        }
    }
    Ok(print_digest(hash))
}

/// The SHA-256 of a text, in hexadecimal digits.
pub(super) fn sum_text(text: &str) -> String {
    print_digest(Sha256::new_with_prefix(text))
}

fn print_digest(hash: Sha256) -> String {
    let mut out = String::new();
    for byte in hash.finalize() {
        // Writing to a String cannot fail.
        let _ = write!(out, "{byte:02x}");
    }
    out
}
