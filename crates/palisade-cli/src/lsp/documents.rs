//! The files that the editor has open.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    str::FromStr as _,
    sync::Arc,
};

use lsp_types::Uri;

/// A file as the editor has it.
#[derive(Debug, Clone)]
pub(super) struct Document {
    /// What the editor calls it.
    pub(super) uri: Uri,
    /// Its version there.
    pub(super) version: i32,
    pub(super) text: Arc<str>,
}

/// The open files, by path.
#[derive(Debug, Clone, Default)]
pub(super) struct Documents(BTreeMap<PathBuf, Document>);

impl Documents {
    /// Takes up a file, or its next version. What is no file is left aside.
    pub(super) fn put(&mut self, uri: Uri, version: i32, text: &str) {
        if let Some(path) = find_path(&uri) {
            let text = text.into();
            let document = Document { uri, version, text };
            self.0.insert(path, document);
        }
    }

    /// Forgets a file that is closed.
    pub(super) fn remove(&mut self, uri: &Uri) {
        if let Some(path) = find_path(uri) {
            self.0.remove(&path);
        }
    }

    /// The file at `path`, if it is open.
    pub(super) fn get(&self, path: &Path) -> Option<&Document> {
        self.0.get(path)
    }

    /// What the editor calls the file at `path`, or would call it.
    pub(super) fn uri_of(&self, path: &Path) -> Option<Uri> {
        match self.get(path) {
            Some(document) => Some(document.uri.clone()),
            None => make_uri(path),
        }
    }

    /// The text of the file at `path`: the editor's, or the disk's.
    pub(super) fn read(&self, path: &Path) -> Option<Arc<str>> {
        match self.get(path) {
            Some(document) => Some(Arc::clone(&document.text)),
            None => Some(std::fs::read_to_string(path).ok()?.into()),
        }
    }

    /// The texts of the open files right in `folder`, by name.
    pub(super) fn list_in(&self, folder: &Path) -> BTreeMap<String, String> {
        let files = self.0.iter();
        let within = files.filter(|(path, _)| path.parent() == Some(folder));
        within
            .filter_map(|(path, document)| {
                let name = path.file_name()?.to_str()?.to_owned();
                Some((name, document.text.to_string()))
            })
            .collect()
    }

    /// The folder of the first open file of policies.
    pub(super) fn find_policy_folder(&self) -> Option<PathBuf> {
        let mut paths = self.0.keys();
        let policies = paths.find(|path| path.extension().is_some_and(|ext| ext == "cedar"))?;
        policies.parent().map(Path::to_owned)
    }
}

/// The path of a `file:` URI.
pub(super) fn find_path(uri: &Uri) -> Option<PathBuf> {
    let path = uri.as_str().strip_prefix("file://")?;
    // What is before the path would be another machine.
    let path = path.get(path.find('/')?..)?;
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || (rest.next()? as char).to_digit(16);
            let (high, low) = (digit()?, digit()?);
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    let path = String::from_utf8(bytes).ok()?;
    // `/c:/policies` of Windows.
    let is_drive = cfg!(windows) && path.get(2..3) == Some(":");
    let path = if is_drive { path.get(1..)? } else { &path };
    Some(PathBuf::from(path))
}

/// The `file:` URI of a path.
pub(super) fn make_uri(path: &Path) -> Option<Uri> {
    let path = path.to_str()?.replace(std::path::MAIN_SEPARATOR, "/");
    let mut out = "file://".to_owned();
    if !path.starts_with('/') {
        out.push('/');
    }
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    Uri::from_str(&out).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    #[cfg(unix)]
    fn paths_and_addresses_are_each_others() {
        for path in ["/tmp/a b/é%.cedar", "/x"] {
            let uri = make_uri(Path::new(path)).unwrap();
            assert_eq!(find_path(&uri), Some(PathBuf::from(path)));
        }
        let uri = |text: &str| Uri::from_str(text).unwrap();
        assert_eq!(find_path(&uri("untitled:one")), None);
        assert_eq!(find_path(&uri("file://host")), None);
        let found = find_path(&uri("file://localhost/a%2Eb"));
        assert_eq!(found, Some(PathBuf::from("/a.b")));
    }
}
