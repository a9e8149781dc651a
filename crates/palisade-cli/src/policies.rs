//! Policy folders: read from disk or compiled in, and the report of what is wrong with one.

use std::path::{Path, PathBuf};

use palisade::{
    error::Error,
    policy::{PolicyProblem, PolicySources},
};
use palisade_host::{PolicyFolder, add_policy_file};

use crate::{
    exit::Failure,
    snippet::{Note, render},
};

/// A file of a policy folder that is compiled in, or in a bundle.
pub(crate) type Embedded<'a> = (&'a str, &'a str);

/// The policies used where the operator gives none.
pub(crate) const STARTER: &[Embedded<'static>] = &[
    ("base.cedar", include_str!("../policies/starter/base.cedar")),
    (
        "classification.toml",
        include_str!("../policies/starter/classification.toml"),
    ),
    (
        "principals.cedarschema",
        include_str!("../policies/starter/principals.cedarschema"),
    ),
    (
        "tests/names.sql",
        include_str!("../policies/starter/tests/names.sql"),
    ),
    (
        "tests/names.toml",
        include_str!("../policies/starter/tests/names.toml"),
    ),
    (
        "tests/others.mysql.sql",
        include_str!("../policies/starter/tests/others.mysql.sql"),
    ),
    (
        "tests/others.toml",
        include_str!("../policies/starter/tests/others.toml"),
    ),
];

/// The policies of the demonstration.
pub(crate) const DEMO: &[Embedded<'static>] = &[
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
    ("access.lock", include_str!("../policies/demo/access.lock")),
    (
        "properties.toml",
        include_str!("../policies/demo/properties.toml"),
    ),
    (
        "tests/demo.sql",
        include_str!("../policies/demo/tests/demo.sql"),
    ),
    (
        "tests/matrix.toml",
        include_str!("../policies/demo/tests/matrix.toml"),
    ),
    (
        "tests/support-bot.toml",
        include_str!("../policies/demo/tests/support-bot.toml"),
    ),
];

/// Policies and where they came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Policies {
    /// Their texts.
    pub(crate) sources: PolicySources,
    /// The folder they were read from; none if they are compiled in, or of a bundle.
    folder: Option<PathBuf>,
}

const PRINCIPALS: &str = "principals.cedarschema";
const ENTITIES: &str = "entities.json";
const CLASSIFICATION: &str = "classification.toml";
const SCHEMAS: &str = "schemas.toml";
const TEMPLATES: &str = "templates.toml";

impl Policies {
    /// The starter policies.
    pub(crate) fn starter() -> Self {
        Self::embedded(STARTER)
    }

    fn embedded(files: &[Embedded<'_>]) -> Self {
        let mut sources = PolicySources::default();
        for (name, text) in files.iter().filter(|(name, _)| !is_test(name)) {
            add_policy_file(&mut sources, name, (*text).to_owned());
        }
        Self {
            sources,
            folder: None,
        }
    }

    /// Those of a bundle.
    pub(crate) fn bundled(sources: PolicySources) -> Self {
        Self {
            sources,
            folder: None,
        }
    }

    /// Reads a folder. A file it has no use for is an error: it may be a policy with a misspelt name.
    pub(crate) fn read(folder: &Path) -> Result<Self, Failure> {
        let read = PolicyFolder::read(folder).map_err(|error| {
            let help = error
                .help
                .as_deref()
                .map(|help| format!("\n  help: {help}"));
            Failure::Configuration(format!("error: {error}{}", help.unwrap_or_default()))
        })?;
        Ok(read.into())
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

    /// Whether they could decide which tools a server lists of a database that is only read: they have templates, or speak of
    /// approvals anywhere.
    pub(crate) fn decide_tools(&self) -> bool {
        let mut policies = self.sources.policies.iter();
        self.sources.templates.is_some() || policies.any(|file| file.text.contains("approval"))
    }

    /// Other texts, as if of the same folder.
    pub(crate) fn with_sources(&self, sources: PolicySources) -> Self {
        Self {
            sources,
            folder: self.folder.clone(),
        }
    }

    /// The folder they were read from; none if they are compiled in.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Where one of its files is; none if they are compiled in.
    pub(crate) fn path_of(&self, file: &str) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.join(file))
    }

    /// A problem with the line it is on.
    pub(crate) fn render(&self, kind: &str, problem: &PolicyProblem) -> String {
        let file = self.shown_file(problem);
        render(&Note {
            kind,
            message: &problem.message,
            file: &file,
            text: self.text(&problem.file),
            span: problem.span.map(|span| (span.offset, span.length)),
            help: problem.help.as_deref(),
        })
    }

    /// The file of a problem, as the reader can open it.
    pub(crate) fn shown_file(&self, problem: &PolicyProblem) -> String {
        match (&self.folder, &self.sources.origin) {
            (Some(folder), _) => folder.join(&problem.file).display().to_string(),
            (None, Some(bundle)) => {
                format!(
                    "(bundle {} {})/{}",
                    bundle.name, bundle.serial, problem.file
                )
            }
            (None, None) => format!("(starter policies)/{}", problem.file),
        }
    }

    /// The text of one of its files.
    pub(crate) fn text(&self, file: &str) -> Option<&str> {
        let sources = &self.sources;
        match file {
            PRINCIPALS => sources.principals_schema.as_deref(),
            ENTITIES => sources.entities.as_deref(),
            CLASSIFICATION => sources.classification.as_deref(),
            SCHEMAS => sources.schemas.as_deref(),
            TEMPLATES => sources.templates.as_deref(),
            other => sources
                .policies
                .iter()
                .find(|p| p.name == other)
                .map(|p| p.text.as_str()),
        }
    }
}

impl From<PolicyFolder> for Policies {
    fn from(read: PolicyFolder) -> Self {
        Self {
            sources: read.sources,
            folder: Some(read.path),
        }
    }
}

/// Writes the files into `folder`, which must not exist or be empty.
pub(crate) fn write(files: &[Embedded<'_>], folder: &Path) -> Result<(), Failure> {
    let shown = folder.display();
    let fault = |why: String| Failure::Usage(format!("cannot write to `{shown}`: {why}"));
    std::fs::create_dir_all(folder).map_err(|error| fault(error.to_string()))?;
    let mut entries = std::fs::read_dir(folder).map_err(|error| fault(error.to_string()))?;
    if entries.next().is_some() {
        return Err(fault("it is not empty".to_owned()));
    }
    for (name, text) in files {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|error| fault(error.to_string()))?;
        }
        std::fs::write(path, text).map_err(|error| fault(error.to_string()))?;
    }
    Ok(())
}

/// Whether a file of a policy folder is of its tests.
pub(crate) fn is_test(name: &str) -> bool {
    name.starts_with("tests/")
}
