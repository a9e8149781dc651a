//! The format of a table of functions: nine fields between tabs, which the head of each table
//! explains, sorted by schema and name.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use crate::run::Result;

/// Where a function may stand, in the order in which the words are joined.
const KINDS: [&str; 7] = [
    "niladic",
    "scalar",
    "aggregate",
    "window",
    "table",
    "ordered",
    "procedure",
];

/// What a server knows of a function. Overloads and versions come one by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) schema: String,
    pub(super) name: String,
    /// Where it stands, if the server says so; a new one without is taken for a scalar.
    pub(super) kind: Option<&'static str>,
    pub(super) min: u16,
    /// `None` for any number.
    pub(super) max: Option<u16>,
    /// Names of the columns it gives, joined by commas; empty for a scalar.
    pub(super) out: String,
}

/// What [`Table::widen`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    None,
    Wider,
    New,
}

/// A table, with its head of comments.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Table {
    head: String,
    rows: BTreeMap<(String, String), Row>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    kinds: BTreeSet<usize>,
    safety: String,
    min: u16,
    max: Option<u16>,
    out: Vec<String>,
    bound: String,
    note: String,
}

impl Table {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self> {
        let mut head = String::new();
        let mut rows = BTreeMap::new();
        for line in text.lines() {
            if line.starts_with('#') {
                head.push_str(line);
                head.push('\n');
                continue;
            }
            let (key, row) = Row::parse(line).ok_or_else(|| format!("not a row: {line}"))?;
            if rows.insert(key, row).is_some() {
                return Err(format!("stands twice: {line}"));
            }
        }
        Ok(Self { head, rows })
    }

    pub(super) fn write(&self, path: &Path) -> Result {
        std::fs::write(path, self.print())
            .map_err(|error| format!("{} cannot be written: {error}", path.display()))
    }

    fn print(&self) -> String {
        let mut text = self.head.clone();
        for ((schema, name), row) in &self.rows {
            row.print(schema, name, &mut text);
        }
        text
    }

    /// The names in `schema`.
    pub(super) fn names(&self, schema: &str) -> Vec<String> {
        let names = self.rows.keys().filter(|(own, _)| own == schema);
        names.map(|(_, name)| name.clone()).collect()
    }

    /// Takes in what a server knows. Class, bound and note of a row stay; rows of the grammar and
    /// those whose shape is set by hand stay as they are.
    pub(super) fn widen(&mut self, found: Found) -> Change {
        let index = |word| KINDS.iter().position(|kind| *kind == word);
        let kind = found.kind.and_then(index);
        let key = (found.schema, found.name);
        let Some(row) = self.rows.get_mut(&key) else {
            let out = Some(found.out).filter(|out| !out.is_empty());
            self.rows.insert(
                key,
                Row {
                    kinds: kind.or_else(|| index("scalar")).into_iter().collect(),
                    safety: "unknown".to_owned(),
                    min: found.min,
                    max: found.max,
                    out: out.into_iter().collect(),
                    bound: "-".to_owned(),
                    note: "-".to_owned(),
                },
            );
            return Change::New;
        };
        let by_hand = |word| matches!(word, "grammar" | "shape");
        if row.note.split(' ').any(by_hand) {
            return Change::None;
        }
        let before = row.clone();
        row.kinds.extend(kind);
        row.min = row.min.min(found.min);
        row.max = row.max.zip(found.max).map(|(a, b)| a.max(b));
        if !found.out.is_empty() && !row.out.contains(&found.out) {
            row.out.push(found.out);
        }
        if *row == before {
            Change::None
        } else {
            Change::Wider
        }
    }
}

impl Row {
    fn parse(line: &str) -> Option<((String, String), Self)> {
        let mut fields = line.split('\t').filter(|field| !field.is_empty());
        let mut next = || fields.next();
        let key = (next()?.to_owned(), next()?.to_owned());
        let mut kinds = BTreeSet::new();
        for word in next()?.split('+') {
            kinds.insert(KINDS.iter().position(|kind| *kind == word)?);
        }
        let safety = next()?.to_owned();
        let min = next()?.parse().ok()?;
        let max = match next()? {
            "-" => None,
            number => Some(number.parse().ok()?),
        };
        let out = match next()? {
            "-" => Vec::new(),
            lists => lists.split('|').map(str::to_owned).collect(),
        };
        let (bound, note) = (next()?.to_owned(), next()?.to_owned());
        let row = Self {
            kinds,
            safety,
            min,
            max,
            out,
            bound,
            note,
        };
        next().is_none().then_some((key, row))
    }

    fn print(&self, schema: &str, name: &str, text: &mut String) {
        let kinds: Vec<_> = self
            .kinds
            .iter()
            .filter_map(|kind| KINDS.get(*kind))
            .copied()
            .collect();
        let max = self
            .max
            .map_or_else(|| "-".to_owned(), |max| max.to_string());
        let out = match self.out.join("|") {
            out if out.is_empty() => "-".to_owned(),
            out => out,
        };
        let fields = [
            schema,
            name,
            &kinds.join("+"),
            &self.safety,
            &self.min.to_string(),
            &max,
            &out,
            &self.bound,
            &self.note,
        ];
        text.push_str(&fields.join("\t"));
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# head\n\
        -\ttrim\tscalar\tpure\t1\t2\t-\t-\tgrammar\n\
        s\tf\tscalar\tpure\t1\t2\ta,b\t2\tsince=16\n";

    fn found_function(
        name: &str,
        kind: Option<&'static str>,
        min: u16,
        max: Option<u16>,
        out: &str,
    ) -> Found {
        Found {
            schema: if name == "trim" { "-" } else { "s" }.to_owned(),
            name: name.to_owned(),
            kind,
            min,
            max,
            out: out.to_owned(),
        }
    }

    fn after(found: Found) -> (Change, String) {
        let mut table = Table::parse(TEXT).unwrap();
        let change = table.widen(found);
        let text = table.print();
        (change, text.lines().last().unwrap().replace('\t', " "))
    }

    #[test]
    fn a_table_is_printed_as_it_was_read() {
        assert_eq!(Table::parse(TEXT).unwrap().print(), TEXT);
    }

    #[test]
    fn what_is_known_changes_nothing() {
        let (change, _) = after(found_function("f", Some("scalar"), 2, Some(2), "a,b"));
        assert_eq!(change, Change::None);
        let (change, _) = after(found_function("f", None, 1, Some(1), ""));
        assert_eq!(change, Change::None);
        let (change, _) = after(found_function("trim", Some("scalar"), 0, None, ""));
        assert_eq!(change, Change::None);
    }

    #[test]
    fn a_new_overload_widens_and_keeps_what_is_reviewed() {
        let (change, row) = after(found_function("f", Some("table"), 0, None, "c"));
        assert_eq!(change, Change::Wider);
        assert_eq!(row, "s f scalar+table pure 0 - a,b|c 2 since=16");
    }

    #[test]
    fn a_new_name_is_unknown() {
        for kind in [None, Some("scalar")] {
            let (change, row) = after(found_function("g", kind, 1, Some(1), ""));
            assert_eq!(change, Change::New);
            assert_eq!(row, "s g scalar unknown 1 1 - - -");
        }
    }

    #[test]
    fn a_row_that_is_not_one_is_named() {
        for text in [
            "s\tf\n",
            "s\tf\tscalar\tpure\t1\t2\t-\t-\t\n",
            "s\tf\tsorcery\tpure\t1\t2\t-\t-\t-\n",
        ] {
            let error = Table::parse(text).unwrap_err();
            assert!(error.starts_with("not a row: s\tf"), "{error}");
        }
        let twice = format!("{TEXT}s\tf\tscalar\tpure\t1\t2\t-\t-\t-\n");
        assert!(
            Table::parse(&twice)
                .unwrap_err()
                .starts_with("stands twice")
        );
    }
}
