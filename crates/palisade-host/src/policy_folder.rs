//! A policy folder, read from the disk.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use palisade::{
    did_you_mean,
    policy::{PolicyFile, PolicySources},
};

const PRINCIPALS: &str = "principals.cedarschema";
const ENTITIES: &str = "entities.json";
const CLASSIFICATION: &str = "classification.toml";
const SCHEMAS: &str = "schemas.toml";
const TEMPLATES: &str = "templates.toml";

/// Names a policy folder may hold beside `*.cedar`. What stands in [`IDLE`] decides nothing.
const NAMES: &[&str] = &[
    PRINCIPALS,
    ENTITIES,
    CLASSIFICATION,
    SCHEMAS,
    TEMPLATES,
    "tests",
    "README.md",
    "access.lock",
    "properties.toml",
];

/// What a policy folder may hold that decides nothing.
const IDLE: [&str; 4] = ["tests", "README.md", "access.lock", "properties.toml"];

/// Bytes of one file.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// Policies and the folder that they were read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyFolder {
    /// Where it is.
    pub path: PathBuf,
    /// The texts of its files, for [`Firewall::builder`](palisade::firewall::Firewall::builder).
    pub sources: PolicySources,
}

/// Why a policy folder was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read the policy folder `{}`: {why}", path.display())]
pub struct PolicyFolderError {
    /// The folder.
    pub path: PathBuf,
    /// The file in it that cannot be read or has no meaning, by name.
    pub file: Option<String>,
    /// What is wrong.
    pub why: String,
    /// What a person can do about it.
    pub help: Option<String>,
}

impl PolicyFolder {
    /// Reads the folder at `path`. A file that it has no use for is an error: it may be a policy with a misspelt name.
    ///
    /// # Errors
    /// If a file cannot be read, has no meaning there, or none holds policies.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// std::fs::write(dir.path().join("main.cedar"), "permit (principal, action, resource);")?;
    /// let path: String = dir.path().display().to_string();
    /// let folder = palisade_host::PolicyFolder::read(path)?;
    /// assert_eq!(folder.sources.policies[0].name, "main.cedar");
    /// # Ok(())
    /// # }
    /// ```
    pub fn read(path: impl AsRef<Path>) -> Result<Self, PolicyFolderError> {
        Self::read_under(path.as_ref(), &BTreeMap::new())
    }

    /// As [`read`](Self::read), where the texts of `buffers` stand in for the files of these names. An editor has them before the
    /// disk does.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_under(
        path: &Path,
        buffers: &BTreeMap<String, String>,
    ) -> Result<Self, PolicyFolderError> {
        let fault = |why: String, help: Option<String>| PolicyFolderError {
            path: path.to_owned(),
            file: None,
            why,
            help,
        };
        let entries = std::fs::read_dir(path).map_err(|error| {
            let help = "`palisade policy print-starter --dir DIR` writes one to begin with";
            fault(error.to_string(), Some(help.to_owned()))
        })?;
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(|error| fault(error.to_string(), None))?;
            names.push(name.file_name().into_string().map_err(|name| {
                let why = format!("the name `{}` is not UTF-8", name.to_string_lossy());
                fault(why, None)
            })?);
        }
        names.retain(|name| !is_of_mount(name));
        names.extend(buffers.keys().cloned());
        names.sort();
        names.dedup();
        let mut sources = PolicySources::default();
        for name in names {
            if !is_known_name(&name) {
                let help = match did_you_mean::closest(&name, NAMES.iter().copied()) {
                    Some(close) => format!("did you mean `{close}`?"),
                    None => format!("a policy folder holds `*.cedar` and {}", list_names(NAMES)),
                };
                let error = fault(format!("`{name}` has no meaning there"), Some(help));
                return Err(error.of_file(name));
            }
            if !IDLE.contains(&name.as_str()) {
                let text = match buffers.get(&name) {
                    Some(text) => text.clone(),
                    None => read_file(&path.join(&name)).map_err(|why| {
                        fault(format!("`{name}`: {why}"), None).of_file(name.clone())
                    })?,
                };
                add_policy_file(&mut sources, &name, text);
            }
        }
        if sources.policies.is_empty() {
            let help = "without a policy nothing is permitted; `palisade policy print-starter --dir DIR` writes some";
            let why = "there is no `*.cedar` file in it";
            return Err(fault(why.to_owned(), Some(help.to_owned())));
        }
        Ok(Self {
            path: path.to_owned(),
            sources,
        })
    }
}

impl PolicyFolderError {
    fn of_file(mut self, name: String) -> Self {
        self.file = Some(name);
        self
    }
}

/// Adds the file called `name` to `sources`, as its name says what it holds.
pub fn add_policy_file(sources: &mut PolicySources, name: &str, text: String) {
    match name {
        PRINCIPALS => sources.principals_schema = Some(text),
        ENTITIES => sources.entities = Some(text),
        CLASSIFICATION => sources.classification = Some(text),
        SCHEMAS => sources.schemas = Some(text),
        TEMPLATES => sources.templates = Some(text),
        other => sources.policies.push(PolicyFile {
            name: other.to_owned(),
            text,
        }),
    }
}

/// The files that `sources` are the texts of, sorted by name.
#[must_use]
pub fn list_policy_files(sources: &PolicySources) -> Vec<(&str, &str)> {
    let PolicySources {
        policies,
        principals_schema,
        entities,
        classification,
        schemas,
        templates,
        // They are no files.
        secret: _,
        origin: _,
    } = sources;
    let single = [
        (PRINCIPALS, principals_schema),
        (ENTITIES, entities),
        (CLASSIFICATION, classification),
        (SCHEMAS, schemas),
        (TEMPLATES, templates),
    ];
    let single = single
        .into_iter()
        .filter_map(|(name, text)| Some((name, text.as_deref()?)));
    let policies = policies
        .iter()
        .map(|file| (file.name.as_str(), file.text.as_str()));
    let mut files: Vec<_> = policies.chain(single).collect();
    files.sort_unstable();
    files
}

/// Whether loading reads a file of this name.
pub(crate) fn is_read(name: &str) -> bool {
    is_known_name(name) && !IDLE.contains(&name)
}

/// Whether Kubernetes keeps something by this name in a folder that it mounts: `..data`, and the folder of a time that this leads
/// to. Files of the folder are links into it, and are read by their own names.
fn is_of_mount(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("..") else {
        return false;
    };
    let is_time = rest.starts_with("20")
        && rest
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b"_.".contains(&byte));
    is_time || rest == "data" || rest == "data_tmp"
}

/// Whether a folder may hold something by this name.
fn is_known_name(name: &str) -> bool {
    NAMES.contains(&name) || (name.ends_with(".cedar") && !name.starts_with('.'))
}

fn list_names(names: &[&str]) -> String {
    names
        .iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn read_file(path: &Path) -> Result<String, String> {
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is not a file".to_owned());
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Err(format!("it is longer than {MAX_FILE_BYTES} bytes"));
    }
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}
