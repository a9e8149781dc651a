//! Properties of policies as they are written: what no principal may see or do, whatever it asks.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use palisade::session::Principal;
use serde::Deserialize;
use toml::Spanned;

use crate::{
    load::CorpusError,
    written::{Text, WrittenError, parse_toml},
};

/// A file of properties.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Properties {
    /// The file.
    pub path: PathBuf,
    /// The policy folder that they are about.
    pub folder: PathBuf,
    /// In their order.
    pub all: Vec<Property>,
}

/// Something that is to hold for policies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Property {
    /// Unique in its file.
    pub name: String,
    /// Why it is to hold.
    pub why: String,
    /// File, line and column.
    pub place: String,
    /// The catalog that it is about; none for all of the folder's tests.
    pub catalog: Option<String>,
    /// What is claimed.
    pub claim: Claim,
}

/// What a property claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// Principals see or do no more than this.
    AtMost {
        /// Which principals.
        who: Who,
        /// Tags; a column with any of them is meant.
        tagged: Vec<String>,
        /// Columns as policies name them; `*` stands for any text.
        columns: Vec<String>,
        /// Tables as policies name them, likewise.
        tables: Vec<String>,
        /// The most that is seen of each value.
        shows: Option<Bound>,
        /// The most that is seen of the rows.
        rows: Option<RowBound>,
        /// What is not permitted: names of actions.
        may_not: Vec<String>,
    },
    /// Nothing is permitted or shown that the policies of this folder do not.
    NoWiderThan(PathBuf),
    /// Without the policy of this id, each principal sees and may do the same.
    Redundant(String),
}

/// Which principals a property is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
    /// All.
    Everyone,
    /// Those that are none of these, and in none of them.
    Outside(Vec<Principal>),
    /// Those that are one of these, or in one.
    Within(Vec<Principal>),
}

/// How much of a value may be seen, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// There is no such column.
    Hidden,
    /// It is NULL.
    Null,
    /// It is a token.
    Token,
    /// It has any mask.
    Mask,
}

/// How many rows may be seen, the fewest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RowBound {
    /// None.
    None,
    /// Those of a condition.
    Some,
}

/// Actions that `may_not` can name.
const ACTIONS: [&str; 6] = ["select", "insert", "update", "delete", "truncate", "write"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// The policy folder. Without it, the one beside this file.
    policies: Option<String>,
    /// Properties, each with a name.
    #[serde(default)]
    property: Vec<Written>,
}

/// A property as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    /// What it is called.
    name: Spanned<String>,
    /// Why it must hold. It is shown where it does not.
    #[serde(default)]
    why: String,
    /// The tables, where there are several catalogs.
    catalog: Option<String>,
    /// It is about principals that are none of these, and in none of them.
    outside: Option<OneOrMore>,
    /// It is about principals that are one of these, or in one.
    within: Option<OneOrMore>,
    /// It is about columns and tables with one of these tags.
    tagged: Option<OneOrMore>,
    /// It is about these columns: `main.customers.email`, `*` for any text.
    columns: Option<OneOrMore>,
    /// It is about these tables.
    tables: Option<OneOrMore>,
    /// The most that is seen of the columns.
    shows: Option<Bound>,
    /// The most rows that are seen of the tables.
    rows: Option<RowBound>,
    /// Actions that are not permitted.
    may_not: Option<OneOrMore>,
    /// A policy folder that permits and shows all that these policies do.
    no_wider_than: Option<String>,
    /// The id of a policy without which everything is the same.
    redundant: Option<String>,
}

/// A text, or a list of such.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    fn list(this: Option<&Self>) -> Vec<String> {
        match this {
            None => Vec::new(),
            Some(Self::One(one)) => vec![one.clone()],
            Some(Self::More(more)) => more.clone(),
        }
    }
}

impl Properties {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// At the first thing that is wrong, with its line.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, CorpusError> {
        let path = path.as_ref();
        let content = fs::read_to_string(path).map_err(|source| CorpusError::Read {
            path: path.display().to_string(),
            source,
        })?;
        let text = Text::new(path, &content);
        let file: File = parse_toml(&text)?;
        let beside = path.parent().unwrap_or(Path::new(""));
        let beside = match beside.as_os_str().is_empty() {
            true => Path::new("."),
            false => beside,
        };
        let folder = match &file.policies {
            Some(folder) => beside.join(folder),
            None => beside.to_owned(),
        };
        let mut names = BTreeSet::new();
        let mut all = Vec::new();
        for written in &file.property {
            let property = written.read(&text, beside)?;
            if !names.insert(property.name.clone()) {
                return Err(written
                    .fault(&text, "another property has this name".to_owned())
                    .into());
            }
            all.push(property);
        }
        if all.is_empty() {
            return Err(WrittenError {
                place: text.place(None),
                case: None,
                message: "there is no `[[property]]` in it".to_owned(),
            }
            .into());
        }
        Ok(Self {
            path: path.to_owned(),
            folder,
            all,
        })
    }
}

impl Written {
    fn fault(&self, text: &Text<'_>, message: String) -> WrittenError {
        WrittenError {
            place: text.place(Some(self.name.span())),
            case: None,
            message: format!("property `{}`: {message}", self.name.get_ref()),
        }
    }

    fn read(&self, text: &Text<'_>, beside: &Path) -> Result<Property, WrittenError> {
        let fault = |message: &str| Err(self.fault(text, message.to_owned()));
        let [tagged, columns, tables, may_not] =
            [&self.tagged, &self.columns, &self.tables, &self.may_not]
                .map(|list| OneOrMore::list(list.as_ref()));
        let is_bound = self.shows.is_some() || self.rows.is_some() || !may_not.is_empty();
        let about = [
            &self.outside,
            &self.within,
            &self.tagged,
            &self.columns,
            &self.tables,
        ];
        let is_about = about.iter().any(|key| key.is_some());
        let claim = match (is_bound, &self.no_wider_than, &self.redundant) {
            (true, None, None) => {
                let is_of_columns = !tagged.is_empty() || !columns.is_empty();
                if self.shows.is_some() && !is_of_columns {
                    return fault("`shows` is about columns; name them by `tagged` or `columns`");
                }
                if self.rows.is_some() && tables.is_empty() {
                    return fault("`rows` is about tables; name them by `tables`");
                }
                for action in &may_not {
                    match action.as_str() {
                        "write" if !is_of_columns => {
                            return fault(
                                "`write` is about columns; name them by `tagged` or `columns`",
                            );
                        }
                        "write" => {}
                        known if !ACTIONS.contains(&known) => {
                            let close = palisade::did_you_mean::closest(known, ACTIONS);
                            let hint = match close {
                                Some(close) => format!("did you mean `{close}`?"),
                                None => format!("there are {}", ACTIONS.join(", ")),
                            };
                            return fault(&format!("`{known}` is no action of `may_not`; {hint}"));
                        }
                        _ if tables.is_empty() => {
                            return fault(&format!(
                                "`{action}` is about tables; name them by `tables`"
                            ));
                        }
                        _ => {}
                    }
                }
                Claim::AtMost {
                    who: self.who(text)?,
                    tagged,
                    columns,
                    tables,
                    shows: self.shows,
                    rows: self.rows,
                    may_not,
                }
            }
            (false, Some(folder), None) if !is_about => Claim::NoWiderThan(beside.join(folder)),
            (false, None, Some(id)) if !is_about => Claim::Redundant(id.clone()),
            (false, None, None) => {
                return fault(
                    "it claims nothing; there are `shows`, `rows`, `may_not`, `no_wider_than` and `redundant`",
                );
            }
            (_, _, _) => {
                return fault(
                    "`no_wider_than` and `redundant` are about all principals and tables, each in a property of its own",
                );
            }
        };
        Ok(Property {
            name: self.name.get_ref().clone(),
            why: self.why.clone(),
            place: text.place(Some(self.name.span())),
            catalog: self.catalog.clone(),
            claim,
        })
    }

    fn who(&self, text: &Text<'_>) -> Result<Who, WrittenError> {
        let read = |list: &OneOrMore| {
            let names = OneOrMore::list(Some(list)).into_iter();
            names
                .map(|name| {
                    Principal::parse(&name)
                        .map_err(|error| self.fault(text, format!("`{name}`: {error}")))
                })
                .collect::<Result<Vec<Principal>, _>>()
        };
        match (&self.outside, &self.within) {
            (None, None) => Ok(Who::Everyone),
            (Some(list), None) => Ok(Who::Outside(read(list)?)),
            (None, Some(list)) => Ok(Who::Within(read(list)?)),
            (Some(_), Some(_)) => {
                Err(self.fault(text, "name `outside` or `within`, not both".to_owned()))
            }
        }
    }
}

/// Whether `name` is what `pattern` says; `*` stands for any text.
pub(crate) fn is_matched(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => match name.strip_prefix(before) {
            Some(rest) => rest
                .char_indices()
                .map(|(at, _)| at)
                .chain([rest.len()])
                .any(|at| rest.get(at..).is_some_and(|rest| is_matched(after, rest))),
            None => false,
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::{Properties, is_matched};

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name, expected) in [
            ("main.a.b", "main.a.b", true),
            ("main.a.b", "main.a.bc", false),
            ("main.a.*", "main.a.b", true),
            ("*.email", "main.a.email", true),
            ("*.email", "main.a.email2", false),
            ("main.*.e*l", "main.a.email", true),
            ("*", "", true),
            ("main.*", "other.a", false),
        ] {
            assert_eq!(is_matched(pattern, name), expected, "{pattern}, {name}");
        }
    }

    /// What is wrong is told with its line, and with the name that was probably meant.
    #[test]
    fn a_wrong_property_is_told_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("properties.toml");
        for (text, expected) in [
            ("", "there is no `[[property]]` in it"),
            (
                "[[property]]\nname = \"a\"\nshow = \"mask\"",
                ":3:1: unknown field `show`; did you mean `shows`?",
            ),
            (
                "[[property]]\nname = \"a\"",
                ":2:8: property `a`: it claims nothing",
            ),
            (
                "[[property]]\nname = \"a\"\nshows = \"mask\"",
                "`shows` is about columns",
            ),
            (
                "[[property]]\nname = \"a\"\nrows = \"some\"",
                "`rows` is about tables",
            ),
            (
                "[[property]]\nname = \"a\"\ntables = \"t\"\nmay_not = [\"delte\"]",
                "`delte` is no action of `may_not`; did you mean `delete`?",
            ),
            (
                "[[property]]\nname = \"a\"\ntagged = \"x\"\nshows = \"mask\"\noutside = \"dpo\"",
                "property `a`: `dpo`: ",
            ),
            (
                "[[property]]\nname = \"a\"\nredundant = \"x\"\ntagged = \"y\"",
                "each in a property of its own",
            ),
            (
                "[[property]]\nname = \"a\"\nredundant = \"x\"\n[[property]]\nname = \"a\"\nredundant = \"y\"",
                ":5:8: property `a`: another property has this name",
            ),
            (
                "[[property]]\nname = \"a\"\ntagged = \"x\"\nshows = \"masked\"",
                "unknown variant `masked`",
            ),
        ] {
            std::fs::write(&path, text).unwrap();
            let told = Properties::load(&path).unwrap_err().to_string();
            assert!(told.contains(expected), "{text}\n{told}");
        }
    }
}
