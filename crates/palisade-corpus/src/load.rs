//! Reading a corpus from its folder. Everything is strict: an unknown key, a name that is used twice
//! or an expectation that contradicts itself is an error with its file and case.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use palisade::{
    answer::Action,
    code::Code,
    dialect::Dialect,
    limits::Limits,
    moment,
    policy::{PolicyFile, PolicySources},
    session::Principal,
    token::{Lifetime, LifetimeSyntaxError},
    value::Params,
};
use serde::Deserialize;

use crate::case::{Case, Expectation, Suite, Verdict};

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
    /// A file is not of the format.
    #[error("{path}: {message}")]
    Format {
        /// Which.
        path: String,
        /// What is wrong, with line and column.
        message: String,
    },
    /// A case contradicts itself or names what is not there.
    #[error("{path}: case `{case}`: {message}")]
    Case {
        /// The file.
        path: String,
        /// The case's name.
        case: String,
        /// What is wrong.
        message: String,
    },
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
        let mut names = BTreeSet::new();
        for suite in Suite::ALL {
            for path in entries(&folder.join(suite.folder()), "toml")? {
                let cases = corpus.parse(*suite, &path, &read(&path)?)?;
                for case in &cases {
                    if !names.insert(case.name.clone()) {
                        return Err(in_case(&path, &case.name, "another case has this name"));
                    }
                }
                corpus.cases.extend(cases);
            }
        }
        Ok(corpus)
    }

    /// The cases of the text of one file. `path` is for messages and, without folders and extension,
    /// the topic.
    ///
    /// # Errors
    /// If the text is not of the format, or names a catalog or policies that are not here.
    pub fn parse(&self, suite: Suite, path: &Path, text: &str) -> Result<Vec<Case>, CorpusError> {
        let mut cases = Vec::new();
        for part in parts(path, text)? {
            cases.extend(self.part(suite, path, &part)?);
        }
        Ok(cases)
    }

    fn part(&self, suite: Suite, path: &Path, part: &Part) -> Result<Vec<Case>, CorpusError> {
        let catalogs = part.catalog.names();
        if let Some(unknown) = catalogs
            .iter()
            .find(|catalog| !self.catalogs.contains_key(**catalog))
        {
            return Err(CorpusError::Format {
                path: path.display().to_string(),
                message: format!("there is no catalog `{unknown}`"),
            });
        }
        if !self.policies.contains_key(&part.policies) {
            return Err(CorpusError::Format {
                path: path.display().to_string(),
                message: format!("there are no policies `{}`", part.policies),
            });
        }
        let all = catalogs
            .iter()
            .flat_map(|catalog| part.case.iter().map(move |written| (catalog, written)));
        all.map(|(catalog, written)| {
            case(suite, path, part, catalog, written)
                .map_err(|message| in_case(path, &written.name, &message))
        })
        .collect()
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

/// The parts of a file: its `[[part]]` tables or, where there are none, the file as a whole.
fn parts(path: &Path, text: &str) -> Result<Vec<Part>, CorpusError> {
    let read = || {
        let keys: toml::Table = toml::from_str(text)?;
        if keys.contains_key("part") {
            toml::from_str(text).map(|file: Parts| file.part)
        } else {
            toml::from_str(text).map(|part| vec![part])
        }
    };
    read().map_err(|error: toml::de::Error| CorpusError::Format {
        path: path.display().to_string(),
        message: error.to_string(),
    })
}

/// A file of several parts.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    part: Vec<Part>,
}

/// Cases with the keys that they share.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    catalog: Catalogs,
    policies: String,
    r#as: String,
    at: Option<String>,
    token_lifetime: Option<String>,
    /// Added to that of every case.
    #[serde(default)]
    never: Vec<String>,
    #[serde(default)]
    case: Vec<Written>,
}

/// The catalogs of a part. Each case runs on every catalog; its name has the dialect at the end on all but the first.
#[derive(Deserialize)]
#[serde(untagged)]
enum Catalogs {
    One(String),
    Each(Vec<String>),
}

impl Catalogs {
    fn names(&self) -> Vec<&str> {
        match self {
            Self::One(name) => vec![name],
            Self::Each(names) => names.iter().map(String::as_str).collect(),
        }
    }
}

/// A case as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    why: String,
    #[serde(default)]
    ids: Vec<String>,
    sql: String,
    params: Option<toml::Value>,
    r#as: Option<String>,
    at: Option<String>,
    limits: Option<Limits>,
    on_finding: Option<OnFinding>,
    #[serde(default)]
    bench: bool,
    #[serde(default)]
    preserve: bool,
    decision: WrittenDecision,
    code: Option<String>,
    message: Option<String>,
    policies: Option<Vec<String>>,
    rewritten: Option<String>,
    columns: Option<Vec<String>>,
    masked: Option<Vec<String>>,
    used_masks: Option<Vec<String>>,
    empty_reason: Option<String>,
    rows: Option<Vec<Vec<toml::Value>>>,
    ordered: Option<bool>,
    truncated: Option<bool>,
    affected: Option<u64>,
    on_data: Option<String>,
    findings: Option<Vec<String>>,
    #[serde(default)]
    never: Vec<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WrittenDecision {
    Allow,
    Reject,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OnFinding {
    Flag,
    Redact,
    Withhold,
    Block,
}

/// The dialect of a catalog, by its name.
fn dialect(catalog: &str) -> Result<Dialect, String> {
    match catalog.rsplit_once('.') {
        None => Ok(Dialect::Sqlite),
        Some((_, name)) => {
            Dialect::from_name(name).ok_or_else(|| format!("there is no dialect `{name}`"))
        }
    }
}

fn case(
    suite: Suite,
    path: &Path,
    part: &Part,
    catalog: &str,
    written: &Written,
) -> Result<Case, String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if written.name.is_empty() || !written.name.chars().all(plain) {
        return Err("a name has lower-case letters, digits and dashes".to_owned());
    }
    if written.why.trim().is_empty() {
        return Err("`why` is empty".to_owned());
    }
    let dialect = dialect(catalog)?;
    let is_first = part.catalog.names().first() == Some(&catalog);
    let principal = written.r#as.as_ref().unwrap_or(&part.r#as);
    Ok(Case {
        suite,
        topic: stem(path),
        name: if is_first {
            written.name.clone()
        } else {
            format!("{}-{}", written.name, dialect.name())
        },
        why: written.why.clone(),
        ids: written.ids.clone(),
        catalog: catalog.to_owned(),
        dialect,
        policies: part.policies.clone(),
        token_lifetime: match &part.token_lifetime {
            None => Lifetime::default(),
            Some(text) => text
                .parse()
                .map_err(|error: LifetimeSyntaxError| format!("{error}: {}", error.help()))?,
        },
        principal: Principal::parse(principal).map_err(|error| error.to_string())?,
        at: match written.at.as_ref().or(part.at.as_ref()) {
            None => Duration::ZERO,
            Some(text) => moment::since_1970(text).ok_or_else(|| {
                format!("`at` is no moment: `{text}`; write it in UTC, as \"2026-03-01T12:00:00Z\"")
            })?,
        },
        sql: written.sql.clone(),
        params: match &written.params {
            None => Params::None,
            Some(value) => Params::from_json(&json(value)?)?,
        },
        limits: written.limits.clone().unwrap_or_default(),
        on_finding: match written.on_finding {
            None | Some(OnFinding::Flag) => Action::Flag,
            Some(OnFinding::Redact) => Action::Redact,
            Some(OnFinding::Withhold) => Action::Withhold,
            Some(OnFinding::Block) => Action::Block,
        },
        bench: written.bench,
        expect: expectation(part, written, dialect)?,
    })
}

fn expectation(part: &Part, written: &Written, dialect: Dialect) -> Result<Expectation, String> {
    let verdict = match (written.decision, &written.code) {
        (WrittenDecision::Allow, None) => Verdict::Allow,
        (WrittenDecision::Allow, Some(_)) => return Err("an allowed case has no `code`".to_owned()),
        (WrittenDecision::Reject, None) => return Err("a refused case needs a `code`".to_owned()),
        (WrittenDecision::Reject, Some(slug)) => Verdict::Reject(
            Code::from_slug(slug).ok_or_else(|| format!("there is no code `{slug}`"))?,
        ),
    };
    let of_an_answer = written.columns.is_some()
        || written.masked.is_some()
        || written.used_masks.is_some()
        || written.empty_reason.is_some()
        || written.rows.is_some()
        || written.truncated.is_some()
        || written.findings.is_some()
        || written.preserve;
    if verdict != Verdict::Allow && of_an_answer {
        return Err("a refused case has no columns, rows or findings".to_owned());
    }
    if dialect != Dialect::Sqlite && of_an_answer {
        return Err(format!(
            "nothing runs cases of {dialect}: what an answer holds would not be compared"
        ));
    }
    if verdict == Verdict::Allow && written.message.is_some() {
        return Err("an allowed case has no `message`".to_owned());
    }
    let on_data = match (&written.on_data, verdict) {
        (None, _) => None,
        (Some(code), Verdict::Allow) if written.affected.is_none() => {
            Some(Code::from_slug(code).ok_or_else(|| format!("there is no code `{code}`"))?)
        }
        (Some(_), _) => {
            return Err("`on_data` is for what is allowed, and changes nothing".to_owned());
        }
    };
    let rows = match &written.rows {
        None => None,
        Some(rows) => Some(
            rows.iter()
                .map(|row| row.iter().map(json).collect::<Result<Vec<_>, _>>())
                .collect::<Result<Vec<_>, _>>()?,
        ),
    };
    let sorted = |names: &Option<Vec<String>>| {
        names.clone().map(|mut names| {
            names.sort();
            names
        })
    };
    Ok(Expectation {
        verdict,
        message: written.message.clone(),
        policies: sorted(&written.policies),
        rewritten: written.rewritten.clone(),
        columns: written.columns.clone(),
        masked: written.masked.clone(),
        used_masks: sorted(&written.used_masks),
        empty_reason: written.empty_reason.clone(),
        rows,
        ordered: written
            .ordered
            .unwrap_or_else(|| written.sql.to_ascii_uppercase().contains("ORDER BY")),
        truncated: written.truncated,
        affected: written.affected,
        on_data,
        findings: sorted(&written.findings),
        never: part.never.iter().chain(&written.never).cloned().collect(),
        preserve: written.preserve,
    })
}

/// A TOML value as JSON; `{}` is NULL.
fn json(value: &toml::Value) -> Result<serde_json::Value, String> {
    use serde_json::Value as Json;
    Ok(match value {
        toml::Value::String(text) => Json::from(text.as_str()),
        toml::Value::Integer(integer) => Json::from(*integer),
        toml::Value::Float(float) => Json::from(*float),
        toml::Value::Boolean(boolean) => Json::from(*boolean),
        toml::Value::Array(items) => items
            .iter()
            .map(json)
            .collect::<Result<Vec<_>, _>>()?
            .into(),
        toml::Value::Table(table) if table.is_empty() => Json::Null,
        toml::Value::Table(table) => Json::Object(
            table
                .iter()
                .map(|(key, value)| Ok((key.clone(), json(value)?)))
                .collect::<Result<_, String>>()?,
        ),
        toml::Value::Datetime(_) => return Err("dates are written as strings".to_owned()),
    })
}

fn in_case(path: &Path, case: &str, message: &str) -> CorpusError {
    CorpusError::Case {
        path: path.display().to_string(),
        case: case.to_owned(),
        message: message.to_owned(),
    }
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
    fs::read_to_string(path).map_err(|source| CorpusError::Read {
        path: path.display().to_string(),
        source,
    })
}

fn stem(path: &Path) -> String {
    path.file_stem()
        .map(|s| s.to_string_lossy().into_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;

    fn parse(case: &str) -> Result<Vec<Case>, CorpusError> {
        let corpus = Corpus {
            catalogs: BTreeMap::from([("c".to_owned(), String::new())]),
            policies: BTreeMap::from([("p".to_owned(), PolicySources::default())]),
            techniques: BTreeMap::new(),
            cases: Vec::new(),
        };
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
        let corpus = Corpus {
            catalogs: BTreeMap::from([("c.mysql".to_owned(), String::new())]),
            policies: BTreeMap::from([("p".to_owned(), PolicySources::default())]),
            techniques: BTreeMap::new(),
            cases: Vec::new(),
        };
        let text = format!(
            "catalog = 'c.mysql'\npolicies = 'p'\nas = 'Agent::\"a\"'\n[[case]]\n{HEAD}decision = 'allow'"
        );
        let read = |text: &str| corpus.parse(Suite::Accept, Path::new("accept/x.toml"), text);
        assert_eq!(read(&text).unwrap()[0].dialect, Dialect::Mysql);
        let message = read(&(text + "\nrows = [[1]]")).unwrap_err().to_string();
        assert!(message.contains("would not be compared"), "{message}");
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
