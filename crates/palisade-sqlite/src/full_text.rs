//! Full-text indexes: virtual tables that keep their rows in tables of their own, which triggers of other tables write.
//!
//! Their module works by statements of its own over those *shadow* tables. It prepares them while the trigger's statement runs, and the
//! authorizer hears of them as of the statement itself, with no accessor. So they are admitted where a permitted trigger reached the
//! index, after the statement alone was compiled and reached nothing of it. In defensive mode the engine itself keeps all other
//! statements from writing shadow tables.

use std::collections::{BTreeSet, HashMap};

use palisade::{
    catalog::{Catalog, RelationKind},
    dialect::Dialect,
    ident,
};
use rusqlite::Connection;

use crate::schema_text;

/// A module that is known, with what it needs.
struct Module {
    name: &'static str,
    /// What follows the name of the index and `_` in the names of its shadow tables.
    shadows: &'static [&'static str],
    /// The options that its arguments can be, in full.
    options: &'static [&'static str],
    /// The pragma that it asks, and sets never.
    pragma: &'static str,
}

const FTS3_SHADOWS: &[&str] = &["content", "segments", "segdir", "docsize", "stat"];

const FTS3_OPTIONS: &[&str] = &[
    "compress",
    "content",
    "languageid",
    "matchinfo",
    "notindexed",
    "order",
    "prefix",
    "tokenize",
    "uncompress",
];

const MODULES: &[Module] = &[
    Module {
        name: "fts5",
        shadows: &["data", "idx", "content", "docsize", "config"],
        options: &[
            "columnsize",
            "content",
            "content_rowid",
            "contentless_delete",
            "contentless_unindexed",
            "detail",
            "locale",
            "prefix",
            "tokendata",
            "tokenize",
        ],
        pragma: "data_version",
    },
    Module {
        name: "fts4",
        shadows: FTS3_SHADOWS,
        options: FTS3_OPTIONS,
        pragma: "page_size",
    },
    Module {
        name: "fts3",
        shadows: FTS3_SHADOWS,
        options: FTS3_OPTIONS,
        pragma: "page_size",
    },
];

/// What the modules' own statements call. None reads more than its arguments.
const FUNCTIONS: &[&str] = &["coalesce", "count", "length", "max", "min", "total"];

/// Whether the modules' own statements call `function`.
pub(crate) fn calls(function: &str) -> bool {
    FUNCTIONS.contains(&function)
}

/// The tables in which a virtual table called `name`, of `module`, keeps its rows; none of a module that is not known.
pub(crate) fn shadows_of(name: &str, module: &str) -> impl Iterator<Item = String> {
    let known = MODULES
        .iter()
        .find(|known| known.name.eq_ignore_ascii_case(module));
    let shadows = match known {
        Some(known) => known.shadows,
        None if ["rtree", "rtree_i32"].contains(&module.to_ascii_lowercase().as_str()) => {
            &["node", "parent", "rowid"]
        }
        None => &[],
    };
    let name = name.to_owned();
    shadows.iter().map(move |shadow| format!("{name}_{shadow}"))
}

/// Whether the text of `CREATE VIRTUAL TABLE` makes a full-text index whose texts another table holds.
pub(crate) fn has_outer_content(text: &str) -> bool {
    let Some((module, arguments)) = schema_text::virtual_table(text) else {
        return false;
    };
    let is_known = |known: &Module| known.name.eq_ignore_ascii_case(&module);
    let names_table = |(option, value): &(Option<String>, Option<String>)| {
        let is_content =
            (option.as_deref()).is_some_and(|name| name.eq_ignore_ascii_case("content"));
        is_content && value.as_deref().is_some_and(|value| !value.is_empty())
    };
    MODULES.iter().any(is_known) && arguments.iter().any(names_table)
}

/// A full-text index.
#[derive(Debug)]
pub(crate) struct FullTextIndex {
    /// As it is spelled.
    name: String,
    /// The folded names of its shadow tables.
    pub(crate) shadows: BTreeSet<String>,
    /// The folded name of the table that holds the texts, if another does.
    pub(crate) content: Option<String>,
    pub(crate) pragma: &'static str,
}

/// The full-text indexes of a database whose working is known, by their folded names.
#[derive(Debug, Default)]
pub(crate) struct FullTextIndexes(HashMap<String, FullTextIndex>);

impl FullTextIndexes {
    /// Those of `catalog`, which was read from `conn`. An index with options that are not known, or over texts that no table holds, is
    /// none of them.
    pub(crate) fn read(conn: &Connection, catalog: &Catalog) -> rusqlite::Result<Self> {
        let mut texts =
            conn.prepare("SELECT name, sql FROM main.sqlite_schema WHERE type = 'table'")?;
        let mut rows = texts.query([])?;
        let mut all = HashMap::new();
        while let Some(row) = rows.next()? {
            let (Ok(name), Ok(text)) = (row.get::<_, String>(0), row.get::<_, String>(1)) else {
                continue;
            };
            if let Some(index) = FullTextIndex::read(catalog, name, &text) {
                all.insert(Dialect::Sqlite.fold(&index.name), index);
            }
        }
        Ok(Self(all))
    }

    pub(crate) fn find(&self, table: &str) -> Option<&FullTextIndex> {
        self.0.get(table)
    }

    /// Whether `table` is a shadow table of one of them.
    pub(crate) fn has_shadow(&self, table: &str) -> bool {
        let table = Dialect::Sqlite.fold(table);
        self.0.values().any(|index| index.shadows.contains(&table))
    }

    /// Has the engine connect them, which it does once and otherwise does while a statement is compiled: there, what it asks for would
    /// be told as of the statement. Nothing runs.
    pub(crate) fn connect(&self, conn: &Connection) {
        for index in self.0.values() {
            // What does not compile is told where a trigger uses it.
            let _ = conn.prepare(&format!("SELECT * FROM main.{}", ident::quote(&index.name)));
        }
    }
}

impl FullTextIndex {
    fn read(catalog: &Catalog, name: String, text: &str) -> Option<Self> {
        let (module, arguments) = schema_text::virtual_table(text)?;
        let module = MODULES
            .iter()
            .find(|known| known.name.eq_ignore_ascii_case(&module))?;
        let mut content = None;
        for (option, value) in arguments {
            let Some(option) = option else { continue };
            let option = option.to_ascii_lowercase();
            if !module.options.contains(&option.as_str()) {
                return None;
            }
            if option == "content" && content.replace(value?).is_some() {
                return None;
            }
        }
        let content = content.filter(|content| !content.is_empty());
        if let Some(content) = &content {
            // A view would be read by statements that nothing tells from others'.
            let held_by = catalog.find("main", content)?;
            if held_by.kind != RelationKind::Table {
                return None;
            }
        }
        Some(Self {
            shadows: shadows_of(&Dialect::Sqlite.fold(&name), module.name).collect(),
            content: content.map(|content| Dialect::Sqlite.fold(&content)),
            pragma: module.pragma,
            name,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn an_index_is_known_by_its_module_and_all_of_its_options() {
        let script = "CREATE TABLE notes (id INTEGER PRIMARY KEY, title, body);
            CREATE VIEW seen AS SELECT * FROM notes;
            CREATE TABLE plain (a);
            CREATE VIRTUAL TABLE own USING fts5(title, body);
            CREATE VIRTUAL TABLE \"of Notes\" USING fts5 (title UNINDEXED, content = 'notes', content_rowid=id, tokenize = \"porter ascii\", prefix='2 3');
            CREATE VIRTUAL TABLE bare USING fts5(title, content='');
            CREATE VIRTUAL TABLE room USING FTS4(title TEXT, body TEXT, content=`notes`, tokenize=unicode61 \"remove_diacritics=0\");
            CREATE VIRTUAL TABLE short USING fts5(title, conten='notes');
            CREATE VIRTUAL TABLE over_view USING fts5(title, content='seen');
            CREATE VIRTUAL TABLE gone USING fts5(title, content='nothing');
            CREATE VIRTUAL TABLE words USING fts5vocab(own, row);
            CREATE VIRTUAL TABLE box USING rtree(id, x0, x1);";
        let conn = crate::load::memory(script).unwrap();
        let catalog = crate::catalog(&conn, "desk").unwrap();
        let indexes = FullTextIndexes::read(&conn, &catalog).unwrap();
        let mut found: Vec<_> = (indexes.0.iter())
            .map(|(name, index)| (name.as_str(), index.content.as_deref()))
            .collect();
        found.sort_unstable();
        assert_eq!(
            found,
            [
                ("bare", None),
                ("of notes", Some("notes")),
                ("own", None),
                ("room", Some("notes")),
            ]
        );
        assert!(indexes.has_shadow("of Notes_data") && indexes.has_shadow("room_segdir"));
        assert!(!indexes.has_shadow("notes") && !indexes.has_shadow("short_data"));
        assert!(!indexes.has_shadow("plain") && !indexes.has_shadow("own_segdir"));
    }
}
