//! Policy folders: read from disk or compiled in, and the report of what is wrong with one.

use std::path::{Path, PathBuf};

use palisade::{
    did_you_mean,
    error::Error,
    policy::{PolicyFile, PolicyProblem, PolicySources},
};

use crate::{
    exit::Failure,
    snippet::{Note, render},
};

/// A file of a policy folder that is compiled in.
pub(crate) type Embedded = (&'static str, &'static str);

/// The policies used where the operator gives none.
pub(crate) const STARTER: &[Embedded] = &[
    ("base.cedar", include_str!("../policies/starter/base.cedar")),
    (
        "classification.toml",
        include_str!("../policies/starter/classification.toml"),
    ),
    (
        "principals.cedarschema",
        include_str!("../policies/starter/principals.cedarschema"),
    ),
];

/// The policies of the demonstration.
pub(crate) const DEMO: &[Embedded] = &[
    ("base.cedar", include_str!("../policies/demo/base.cedar")),
    (
        "classification.toml",
        include_str!("../policies/demo/classification.toml"),
    ),
    (
        "entities.json",
        include_str!("../policies/demo/entities.json"),
    ),
    (
        "principals.cedarschema",
        include_str!("../policies/demo/principals.cedarschema"),
    ),
];

/// Policies and where they came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Policies {
    /// Their texts.
    pub(crate) sources: PolicySources,
    /// The folder they were read from; none if they are compiled in.
    folder: Option<PathBuf>,
}

const PRINCIPALS: &str = "principals.cedarschema";
const ENTITIES: &str = "entities.json";
const CLASSIFICATION: &str = "classification.toml";
const TEMPLATES: &str = "templates.toml";

/// Names a policy folder may hold beside `*.cedar`. `tests` and `README.md` are for people.
const NAMES: &[&str] = &[
    PRINCIPALS,
    ENTITIES,
    CLASSIFICATION,
    TEMPLATES,
    "tests",
    "README.md",
];

/// Bytes of one file.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

impl Policies {
    /// The starter policies.
    pub(crate) fn starter() -> Self {
        Self::embedded(STARTER)
    }

    fn embedded(files: &[Embedded]) -> Self {
        let mut sources = PolicySources::default();
        for (name, text) in files {
            add(&mut sources, name, (*text).to_owned());
        }
        Self {
            sources,
            folder: None,
        }
    }

    /// Reads a folder. A file it has no use for is an error: it may be a policy with a misspelt name.
    pub(crate) fn read(folder: &Path) -> Result<Self, Failure> {
        let shown = folder.display();
        let fault = |why: String| {
            Failure::Configuration(format!(
                "error: cannot read the policy folder `{shown}`: {why}"
            ))
        };
        let entries = std::fs::read_dir(folder).map_err(|error| {
            let help =
                "\n  help: `palisade policy print-starter --dir DIR` writes one to begin with";
            fault(format!("{error}{help}"))
        })?;
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(|error| fault(error.to_string()))?.file_name();
            names.push(name.into_string().map_err(|name| {
                fault(format!(
                    "the name `{}` is not UTF-8",
                    name.to_string_lossy()
                ))
            })?);
        }
        names.sort();
        let mut sources = PolicySources::default();
        for name in names {
            if !is_known_name(&name) {
                let help = match did_you_mean::closest(&name, NAMES.iter().copied()) {
                    Some(close) => format!("did you mean `{close}`?"),
                    None => format!("a policy folder holds `*.cedar` and {}", list_names(NAMES)),
                };
                return Err(fault(format!(
                    "`{name}` has no meaning there\n  help: {help}"
                )));
            }
            if name != "tests" && name != "README.md" {
                let text =
                    file(&folder.join(&name)).map_err(|why| fault(format!("`{name}`: {why}")))?;
                add(&mut sources, &name, text);
            }
        }
        if sources.policies.is_empty() {
            let help = "\n  help: without a policy nothing is permitted; `palisade policy print-starter --dir DIR` writes some";
            return Err(fault(format!("there is no `*.cedar` file in it{help}")));
        }
        Ok(Self {
            sources,
            folder: Some(folder.to_owned()),
        })
    }

    /// What went wrong while these policies were loaded, each problem with its line.
    pub(crate) fn failure(&self, error: &Error) -> Failure {
        match error {
            Error::Policies(errors) => {
                let texts: Vec<_> = errors
                    .problems()
                    .iter()
                    .map(|p| self.render("error", p))
                    .collect();
                Failure::Configuration(texts.join("\n").trim_end().to_owned())
            }
            // Foreign and open-ended: whatever else there may be is not the policies'.
            other => Failure::Internal(other.to_string()),
        }
    }

    /// The folder they were read from; none if they are compiled in.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// A problem with the line it is on.
    pub(crate) fn render(&self, kind: &str, problem: &PolicyProblem) -> String {
        let file = match &self.folder {
            Some(folder) => folder.join(&problem.file).display().to_string(),
            None => format!("(starter policies)/{}", problem.file),
        };
        render(&Note {
            kind,
            message: &problem.message,
            file: &file,
            text: self.text(&problem.file),
            span: problem.span.map(|span| (span.offset, span.length)),
            help: problem.help.as_deref(),
        })
    }

    fn text(&self, file: &str) -> Option<&str> {
        let sources = &self.sources;
        match file {
            PRINCIPALS => sources.principals_schema.as_deref(),
            ENTITIES => sources.entities.as_deref(),
            CLASSIFICATION => sources.classification.as_deref(),
            TEMPLATES => sources.templates.as_deref(),
            other => sources
                .policies
                .iter()
                .find(|p| p.name == other)
                .map(|p| p.text.as_str()),
        }
    }
}

/// Writes the files into `folder`, which must not exist or be empty.
pub(crate) fn write(files: &[Embedded], folder: &Path) -> Result<(), Failure> {
    let shown = folder.display();
    let fault = |why: String| Failure::Usage(format!("cannot write to `{shown}`: {why}"));
    std::fs::create_dir_all(folder).map_err(|error| fault(error.to_string()))?;
    let mut entries = std::fs::read_dir(folder).map_err(|error| fault(error.to_string()))?;
    if entries.next().is_some() {
        return Err(fault("it is not empty".to_owned()));
    }
    for (name, text) in files {
        std::fs::write(folder.join(name), text).map_err(|error| fault(error.to_string()))?;
    }
    Ok(())
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

fn file(path: &Path) -> Result<String, String> {
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is not a file".to_owned());
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Err(format!("it is longer than {MAX_FILE_BYTES} bytes"));
    }
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

fn add(sources: &mut PolicySources, name: &str, text: String) {
    match name {
        PRINCIPALS => sources.principals_schema = Some(text),
        ENTITIES => sources.entities = Some(text),
        CLASSIFICATION => sources.classification = Some(text),
        TEMPLATES => sources.templates = Some(text),
        other => sources.policies.push(PolicyFile {
            name: other.to_owned(),
            text,
        }),
    }
}
