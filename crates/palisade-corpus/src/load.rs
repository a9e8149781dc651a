//! Reading a corpus from its folder. Everything is strict: an unknown key, a name that is used twice
//! or an expectation that contradicts itself is an error with its file and case.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use palisade::{
    did_you_mean,
    policy::{PolicyFile, PolicySources},
};
use palisade_host::{PolicyFolder, PolicyFolderError};

use crate::{
    case::{Case, Suite},
    survivor::Survivor,
    test_server::TestServer,
    written::{Ground, Part, Text, WrittenError, dialect, read_parts, read_survivors},
};

/// Cases with the catalogs and policies they are about.
#[derive(Debug, Clone)]
pub struct Corpus {
    /// The texts of `catalogs/*.sql`, by name; that of a dialect other than SQLite ends in it
    /// (`desk.postgres`).
    pub catalogs: BTreeMap<String, String>,
    /// The policy folders, by name.
    pub policies: BTreeMap<String, PolicySources>,
    /// The techniques that [`Case::ids`] name, by id: `techniques.toml`.
    pub techniques: BTreeMap<String, String>,
    /// Mutants of a folder's policies that no case has to notice.
    pub survivors: Vec<Survivor>,
    /// The servers that run the cases of catalogs other than SQLite's, by catalog: `servers.toml` of a policy folder.
    pub servers: BTreeMap<String, TestServer>,
    /// The policies of cases that name none.
    pub default_policies: Option<String>,
    /// The cases, in the order of suites, files and text.
    pub cases: Vec<Case>,
}

/// What is wrong with a corpus.
#[derive(Debug, thiserror::Error)]
pub enum CorpusError {
    /// A file or folder cannot be read.
    #[error("cannot read `{path}`: {source}")]
    Read {
        /// Which.
        path: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A policy folder is none.
    #[error("{0}")]
    Policies(#[from] PolicyFolderError),
    /// A file is not of the format.
    #[error("{path}: {message}")]
    Format {
        /// Which, with line and column where they are known.
        path: String,
        /// What is wrong.
        message: String,
    },
    /// A case contradicts itself or names what is not there.
    #[error("{path}: case `{case}`: {message}")]
    Case {
        /// The file, with line and column.
        path: String,
        /// The case's name.
        case: String,
        /// What is wrong.
        message: String,
    },
}

/// Where something is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// Its line, from 1, if that is known.
    pub line: Option<u32>,
    /// The line's character, from 1, if that is known.
    pub column: Option<u32>,
}

impl Place {
    /// The place that a text names: `tests/desk.toml:3:7`.
    fn parse(text: &str) -> Self {
        let cut = |text: &str| {
            let (rest, number) = text.rsplit_once(':')?;
            Some((rest.to_owned(), number.parse::<u32>().ok()?))
        };
        let (file, line, column) = match cut(text) {
            None => (text.to_owned(), None, None),
            Some((rest, last)) => match cut(&rest) {
                None => (rest, Some(last), None),
                Some((file, line)) => (file, Some(line), Some(last)),
            },
        };
        Self {
            file: file.into(),
            line,
            column,
        }
    }
}

impl CorpusError {
    /// Where it is wrong; none where the policies are.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        match self {
            Self::Read { path, .. } | Self::Format { path, .. } | Self::Case { path, .. } => {
                Some(Place::parse(path))
            }
            Self::Policies(_) => None,
        }
    }

    /// What is wrong, without the place.
    #[must_use]
    pub fn message(&self) -> String {
        match self {
            Self::Read { source, .. } => format!("cannot be read: {source}"),
            Self::Format { message, .. } => message.clone(),
            Self::Case { case, message, .. } => format!("case `{case}`: {message}"),
            Self::Policies(error) => error.to_string(),
        }
    }
}

impl Corpus {
    /// Reads the corpus in `folder`.
    ///
    /// # Errors
    /// At the first thing that is wrong.
    pub fn load(folder: impl AsRef<Path>) -> Result<Self, CorpusError> {
        let folder = folder.as_ref();
        let mut corpus = Self {
            catalogs: BTreeMap::new(),
            policies: BTreeMap::new(),
            techniques: techniques(&folder.join("techniques.toml"))?,
            survivors: Vec::new(),
            servers: BTreeMap::new(),
            default_policies: None,
            cases: Vec::new(),
        };
        for path in entries(&folder.join("catalogs"), "sql")? {
            dialect(&stem(&path)).map_err(|message| CorpusError::Format {
                path: path.display().to_string(),
                message,
            })?;
            corpus.catalogs.insert(stem(&path), read(&path)?);
        }
        for path in entries(&folder.join("policies"), "")? {
            corpus.policies.insert(stem(&path), policy_sources(&path)?);
        }
        for suite in Suite::ALL {
            for path in entries(&folder.join(suite.folder()), "toml")? {
                corpus
                    .cases
                    .extend(corpus.parse(*suite, &path, &read(&path)?)?);
            }
        }
        require_unique(&corpus.cases)?;
        Ok(corpus)
    }

    /// Reads the policy folder `folder` with its tests: `tests/*.sql` are the catalogs, `tests/*.toml` the cases.
    ///
    /// # Errors
    /// At the first thing that is wrong.
    pub fn load_policy_folder(folder: impl AsRef<Path>) -> Result<Self, CorpusError> {
        let folder = folder.as_ref();
        let sources = PolicyFolder::read(folder)?.sources;
        let (corpus, faults) = Self::load_tests(folder, sources, &BTreeMap::new());
        match faults.into_iter().next() {
            Some(first) => Err(first),
            None => Ok(corpus),
        }
    }

    /// The tests of a policy folder by the policies `sources`, with everything that is wrong. The texts of `open` files, by
    /// name, are in the place of what is written.
    pub(crate) fn load_tests(
        folder: &Path,
        sources: PolicySources,
        open: &BTreeMap<String, String>,
    ) -> (Self, Vec<CorpusError>) {
        let mut corpus = Self {
            catalogs: BTreeMap::new(),
            policies: BTreeMap::from([(OWN_POLICIES.to_owned(), sources)]),
            techniques: BTreeMap::new(),
            survivors: Vec::new(),
            servers: BTreeMap::new(),
            default_policies: Some(OWN_POLICIES.to_owned()),
            cases: Vec::new(),
        };
        let mut faults = Vec::new();
        let files = corpus
            .read_test_files(&folder.join("tests"), open, &mut faults)
            .unwrap_or_else(|fault| {
                faults.push(fault);
                Vec::new()
            });
        for (path, text) in files {
            let text = Text::new(&path, &text);
            if path.file_stem().is_some_and(|name| name == "servers") {
                match TestServer::read_all(&text, &corpus.catalogs) {
                    Ok(servers) => corpus.servers = servers,
                    Err(fault) => faults.push(fault.into()),
                }
                continue;
            }
            let cases = corpus.parse_all(Suite::Tests, (&path, &text), &mut faults);
            corpus.cases.extend(cases);
        }
        faults.extend(find_taken_names(&corpus.cases));
        (corpus, faults)
    }

    /// Takes up the catalogs of a folder of tests. Its TOML files are given back, that of servers first.
    fn read_test_files(
        &mut self,
        tests: &Path,
        open: &BTreeMap<String, String>,
        faults: &mut Vec<CorpusError>,
    ) -> Result<Vec<(PathBuf, String)>, CorpusError> {
        let mut files = Vec::new();
        for path in test_files(tests, open)? {
            let format = |message| CorpusError::Format {
                path: path.display().to_string(),
                message,
            };
            let name = stem(&path);
            let opened = path.file_name().and_then(|name| open.get(name.to_str()?));
            let text = || opened.map_or_else(|| read(&path), |text| Ok(text.clone()));
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("sql" | "json") => {
                    if let Err(message) = dialect(&name) {
                        faults.push(format(message));
                        continue;
                    }
                    match text() {
                        Ok(text) if self.catalogs.contains_key(&name) => {
                            let message = "there is `*.sql` and `*.json` of this name";
                            faults.push(format(message.to_owned()));
                            drop(text);
                        }
                        Ok(text) => {
                            self.catalogs.insert(name, text);
                        }
                        Err(fault) => faults.push(fault),
                    }
                }
                Some("toml") => match text() {
                    Ok(text) => files.push((path, text)),
                    Err(fault) => faults.push(fault),
                },
                Some("md") => {}
                Some(_) | None => {
                    let message = "a folder of tests holds `*.toml`, `*.sql`, `*.json` and `*.md`";
                    faults.push(format(message.to_owned()));
                }
            }
        }
        // Whether a case runs depends on its server.
        files.sort_by_key(|(path, _)| path.file_stem().is_none_or(|name| name != "servers"));
        Ok(files)
    }

    /// The cases of the text of one file. `path` is for messages and, without folders and extension,
    /// the topic.
    ///
    /// # Errors
    /// If the text is not of the format, or names a catalog or policies that are not here.
    pub fn parse(&self, suite: Suite, path: &Path, text: &str) -> Result<Vec<Case>, CorpusError> {
        let text = Text::new(path, text);
        let mut cases = Vec::new();
        for part in read_parts(&text)? {
            let mut faults = Vec::new();
            cases.extend(self.cases_of_part(suite, (path, &text), &part, &mut faults)?);
            if let Some(first) = faults.into_iter().next() {
                return Err(first.into());
            }
        }
        Ok(cases)
    }

    /// The cases of the text of one file that have no fault, and its survivors.
    fn parse_all(
        &mut self,
        suite: Suite,
        (path, text): (&Path, &Text<'_>),
        faults: &mut Vec<CorpusError>,
    ) -> Vec<Case> {
        let mut cases = Vec::new();
        let parts = match read_parts(text) {
            Ok(parts) => parts,
            Err(fault) => {
                faults.push(fault.into());
                return cases;
            }
        };
        for part in &parts {
            let mut found = Vec::new();
            match self.cases_of_part(suite, (path, text), part, &mut found) {
                Ok(read) => cases.extend(read),
                Err(fault) => faults.push(fault),
            }
            faults.extend(found.into_iter().map(CorpusError::from));
        }
        match read_survivors(text, &parts) {
            Ok(survivors) => self.survivors.extend(survivors),
            Err(fault) => faults.push(fault.into()),
        }
        cases
    }

    fn cases_of_part(
        &self,
        suite: Suite,
        (path, text): (&Path, &Text<'_>),
        part: &Part,
        faults: &mut Vec<WrittenError>,
    ) -> Result<Vec<Case>, CorpusError> {
        let format = |span, message| CorpusError::Format {
            path: text.place(span),
            message,
        };
        let (span, catalogs) = match &part.catalog {
            Some(named) => (Some(named.span()), named.get_ref().names()),
            None => (None, self.catalogs.keys().map(String::as_str).collect()),
        };
        if part.catalog.is_none() && catalogs.len() != 1 {
            let message = match catalogs.len() {
                0 => "there is no catalog: put the tables into `tests/NAME.sql`",
                _ => "there are several catalogs: name one, `catalog = \"NAME\"`",
            };
            return Err(format(None, message.to_owned()));
        }
        if let Some(unknown) = catalogs
            .iter()
            .find(|catalog| !self.catalogs.contains_key(**catalog))
        {
            let known = self.catalogs.keys().map(String::as_str);
            let message = match did_you_mean::closest(unknown, known) {
                Some(close) => {
                    format!("there is no catalog `{unknown}`; did you mean `{close}`?")
                }
                None => format!("there is no catalog `{unknown}`"),
            };
            return Err(format(span, message));
        }
        let policies = match (&part.policies, &self.default_policies) {
            (Some(named), _) => named.get_ref(),
            (None, Some(own)) => own,
            (None, None) => {
                return Err(format(
                    None,
                    "by which policies? `policies = \"NAME\"`".to_owned(),
                ));
            }
        };
        if !self.policies.contains_key(policies) {
            let span = part.policies.as_ref().map(toml::Spanned::span);
            return Err(format(span, format!("there are no policies `{policies}`")));
        }
        let ground = Ground {
            suite,
            text,
            topic: &stem(path),
            part,
            catalogs: &catalogs,
            texts: &self.catalogs,
            servers: &self.servers,
            policies,
        };
        Ok(ground.cases(faults))
    }

    /// The same corpus with `script` run after the catalog `name`: the same tables with other rows.
    #[must_use]
    pub fn with_rows(mut self, name: &str, script: &str) -> Self {
        if let Some(text) = self.catalogs.get_mut(name) {
            text.push_str("\n;\n");
            text.push_str(script);
        }
        self
    }
}

/// What a policy folder is called by its own cases.
pub(crate) const OWN_POLICIES: &str = "policies";

/// Bytes of one file of tests.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

impl From<WrittenError> for CorpusError {
    fn from(error: WrittenError) -> Self {
        let WrittenError {
            place,
            case,
            message,
        } = error;
        match case {
            Some(case) => Self::Case {
                path: place,
                case,
                message,
            },
            None => Self::Format {
                path: place,
                message,
            },
        }
    }
}

/// Whether the text of a catalog is a snapshot of one, over which statements are decided and not run.
pub(crate) fn is_snapshot(text: &str) -> bool {
    text.starts_with('{')
}

/// The file of a catalog in the tests of a policy folder.
#[must_use]
pub fn catalog_file(folder: &Path, catalog: &str) -> PathBuf {
    let tests = folder.join("tests");
    let snapshot = tests.join(format!("{catalog}.json"));
    if snapshot.exists() {
        snapshot
    } else {
        tests.join(format!("{catalog}.sql"))
    }
}

/// Refuses two cases of one name.
fn require_unique(cases: &[Case]) -> Result<(), CorpusError> {
    match find_taken_names(cases).into_iter().next() {
        Some(first) => Err(first),
        None => Ok(()),
    }
}

/// The cases whose name an earlier case has.
fn find_taken_names(cases: &[Case]) -> Vec<CorpusError> {
    let mut names = BTreeMap::new();
    let mut faults = Vec::new();
    for case in cases {
        let place = format!("{}:{}", case.file, case.line);
        if let Some(first) = names.insert(case.name.as_str(), place.clone()) {
            faults.push(CorpusError::Case {
                path: place,
                case: case.name.clone(),
                message: format!("another case has this name: {first}"),
            });
        }
    }
    faults
}

/// The files of a folder of tests, sorted; none if there is no such folder. TOML files that are `open` are there before they
/// are written.
fn test_files(folder: &Path, open: &BTreeMap<String, String>) -> Result<Vec<PathBuf>, CorpusError> {
    let error = |source| CorpusError::Read {
        path: folder.display().to_string(),
        source,
    };
    let opened = open.keys().filter(|name| name.ends_with(".toml"));
    let mut paths: Vec<PathBuf> = opened.map(|name| folder.join(name)).collect();
    if !folder.exists() {
        return Ok(paths);
    }
    for entry in fs::read_dir(folder).map_err(error)? {
        let path = entry.map_err(error)?.path();
        let hidden = path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if !hidden {
            paths.push(path);
        }
    }
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// Reads a policy folder: `*.cedar` in the order of their names, `principals.cedarschema`,
/// `entities.json`, `classification.toml` and `templates.toml`, the last four if they are there.
///
/// # Errors
/// If a file cannot be read.
pub fn policy_sources(folder: &Path) -> Result<PolicySources, CorpusError> {
    let mut policies = Vec::new();
    for path in entries(folder, "cedar")? {
        let name = path
            .file_name()
            .map(|n| n.to_string_lossy().into_owned())
            .unwrap_or_default();
        policies.push(PolicyFile {
            name,
            text: read(&path)?,
        });
    }
    let optional = |name: &str| {
        let path = folder.join(name);
        if path.exists() {
            read(&path).map(Some)
        } else {
            Ok(None)
        }
    };
    Ok(PolicySources {
        policies,
        principals_schema: optional("principals.cedarschema")?,
        entities: optional("entities.json")?,
        classification: optional("classification.toml")?,
        schemas: optional("schemas.toml")?,
        templates: optional("templates.toml")?,
        ..PolicySources::default()
    })
}

/// The techniques in the file at `path`; none if there is no such file.
fn techniques(path: &Path) -> Result<BTreeMap<String, String>, CorpusError> {
    if !path.exists() {
        return Ok(BTreeMap::new());
    }
    toml::from_str(&read(path)?).map_err(|error| CorpusError::Format {
        path: path.display().to_string(),
        message: error.to_string(),
    })
}

/// The files with an extension, or for `""` the folders, in a folder; sorted. None if there is no
/// such folder.
fn entries(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, CorpusError> {
    let error = |source| CorpusError::Read {
        path: folder.display().to_string(),
        source,
    };
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(error)? {
        let path = entry.map_err(error)?.path();
        let wanted = if extension.is_empty() {
            path.is_dir()
        } else {
            path.extension().is_some_and(|e| e == extension)
        };
        if wanted {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn read(path: &Path) -> Result<String, CorpusError> {
    let fault = |source| CorpusError::Read {
        path: path.display().to_string(),
        source,
    };
    if fs::metadata(path).map_err(fault)?.len() > MAX_FILE_BYTES {
        return Err(CorpusError::Format {
            path: path.display().to_string(),
            message: format!("the file is longer than {MAX_FILE_BYTES} bytes; split it"),
        });
    }
    fs::read_to_string(path).map_err(fault)
}

fn stem(path: &Path) -> String {
    path.file_stem()
        .map(|s| s.to_string_lossy().into_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use palisade::dialect::Dialect;

    use super::*;

    /// A corpus without cases, of this catalog and policies called `p`.
    fn corpus_with(catalog: &str) -> Corpus {
        Corpus {
            catalogs: BTreeMap::from([(catalog.to_owned(), String::new())]),
            policies: BTreeMap::from([("p".to_owned(), PolicySources::default())]),
            techniques: BTreeMap::new(),
            survivors: Vec::new(),
            servers: BTreeMap::new(),
            default_policies: None,
            cases: Vec::new(),
        }
    }

    fn parse(case: &str) -> Result<Vec<Case>, CorpusError> {
        let corpus = corpus_with("c");
        let text = format!("catalog = 'c'\npolicies = 'p'\nas = 'Agent::\"a\"'\n[[case]]\n{case}");
        corpus.parse(Suite::Accept, Path::new("accept/x.toml"), &text)
    }

    const HEAD: &str = "name = 'n'\nwhy = 'w'\nsql = 'SELECT 1'\n";

    #[test]
    fn nulls_are_empty_tables() {
        let cases = parse(&format!(
            "{HEAD}decision = 'allow'\nrows = [[1, {{}}, 'a']]\n"
        ))
        .unwrap();
        let rows = cases[0].expect.rows.clone().unwrap();
        assert_eq!(
            rows,
            [[
                serde_json::json!(1),
                serde_json::Value::Null,
                serde_json::json!("a")
            ]]
        );
        assert_eq!(cases[0].id(), "accept/x: n");
    }

    #[test]
    fn a_file_may_have_parts() {
        let corpus = Corpus {
            catalogs: BTreeMap::from([
                ("c".to_owned(), String::new()),
                ("d".to_owned(), String::new()),
            ]),
            policies: BTreeMap::from([("p".to_owned(), PolicySources::default())]),
            techniques: BTreeMap::new(),
            survivors: Vec::new(),
            servers: BTreeMap::new(),
            default_policies: None,
            cases: Vec::new(),
        };
        let part = |catalog: &str, name: &str| {
            format!(
                "[[part]]\ncatalog = '{catalog}'\npolicies = 'p'\nas = 'Agent::\"a\"'\n\
                 [[part.case]]\nname = '{name}'\nwhy = 'w'\nsql = 'SELECT 1'\ndecision = 'allow'\n"
            )
        };
        let read = |text: &str| corpus.parse(Suite::Accept, Path::new("accept/x.toml"), text);
        let text = part("c", "m") + &part("d", "n");
        let cases = read(&text).unwrap();
        let told: Vec<_> = cases
            .iter()
            .map(|case| (case.id(), &case.catalog))
            .collect();
        assert_eq!(
            told,
            [
                ("accept/x: m".to_owned(), &"c".to_owned()),
                ("accept/x: n".to_owned(), &"d".to_owned())
            ]
        );
        // Nothing stands beside the parts.
        let message = read(&format!("catalog = 'c'\n{text}"))
            .unwrap_err()
            .to_string();
        assert!(message.contains("unknown field"), "{message}");
    }

    #[test]
    fn a_catalogs_name_says_its_dialect() {
        assert_eq!(dialect("c"), Ok(Dialect::Sqlite));
        assert_eq!(dialect("c.postgres"), Ok(Dialect::Postgres));
        assert!(dialect("c.oracle").is_err());
        let cases = parse(&format!("{HEAD}decision = 'allow'")).unwrap();
        assert_eq!(cases[0].dialect, Dialect::Sqlite);
        let corpus = corpus_with("c.mysql");
        let text = format!(
            "catalog = 'c.mysql'\npolicies = 'p'\nas = 'Agent::\"a\"'\n[[case]]\n{HEAD}decision = 'allow'"
        );
        let read = |text: &str| corpus.parse(Suite::Accept, Path::new("accept/x.toml"), text);
        assert_eq!(read(&text).unwrap()[0].dialect, Dialect::Mysql);
        let message = read(&(text + "\nrows = [[1]]")).unwrap_err().to_string();
        assert!(message.contains("would not be compared"), "{message}");
    }

    #[test]
    fn names_of_a_matrix_are_told_where_they_stand() {
        let corpus = corpus_with("c");
        let told = |matrix: &str, who: &str, statement: &str| {
            let text = format!(
                "catalog = 'c'\npolicies = 'p'\n[[matrix]]\nname = '{matrix}'\nprincipals = {{ '{who}' = 'Agent::\"a\"' }}\n\
                 [[matrix.statement]]\nname = '{statement}'\nsql = 'SELECT 1'\ncells = {{ '{who}' = 'mask' }}\n"
            );
            let read = corpus.parse(Suite::Accept, Path::new("accept/x.toml"), &text);
            read.map_or_else(|error| error.to_string(), |_| String::new())
        };
        assert_eq!(told("pay", "ana", "sum-of-deals"), "");
        assert_eq!(
            told("pay", "ana", "Sum of deals"),
            "accept/x.toml:7:8: case `Sum of deals`: a statement's name has lower-case letters, digits and dashes, and \
             `Sum of deals` is none; write `sum-of-deals`"
        );
        let matrix = told("pay!", "ana", "n");
        assert!(
            matrix.contains("x.toml:4:8: case `pay!`: a matrix's name")
                && matrix.ends_with("write `pay`"),
            "{matrix}"
        );
        let who = told("pay", "Ana B", "n");
        assert!(
            who.contains("x.toml:5:") && who.ends_with("`Ana B` is none; write `ana-b`"),
            "{who}"
        );
    }

    #[test]
    fn what_is_not_of_the_format_is_an_error() {
        for (case, part) in [
            ("decision = 'allow'\nrwos = []", "unknown field"),
            ("decision = 'maybe'", "unknown variant"),
            ("decision = 'reject'", "needs a `code`"),
            ("decision = 'reject'\ncode = 'no.such'", "no code `no.such`"),
            ("decision = 'allow'\ncode = 'internal'", "no `code`"),
            (
                "decision = 'reject'\ncode = 'internal'\nrows = []",
                "has no columns",
            ),
            ("decision = 'allow'\nas = 'bot'", "is not a principal"),
            ("decision = 'allow'\nat = 'noon'", "is no moment"),
            (
                "decision = 'allow'\nat = 1970-01-01T00:00:00Z",
                "expected a string",
            ),
            (
                "decision = 'allow'\nlimits = { max_row = 1 }",
                "unknown field",
            ),
        ] {
            let message = parse(&format!("{HEAD}{case}\n")).unwrap_err().to_string();
            assert!(message.contains(part), "{case}: {message}");
        }
    }
}
