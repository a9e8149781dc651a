//! Unique keys as texts have them.

use crate::{DdlError, cursor::Cursor};
use palisade::{
    catalog::{RelationDef, TypeClass, UniqueKeyDef, may_name, may_name_rows},
    dialect::Dialect,
};

/// The longest name that PostgreSQL gives, in bytes.
const MAX_NAME: usize = 63;

/// A unique key of a table whose columns may not all be known yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeclaredKey {
    /// None where the text does not say it and the engine's own choice is not certain.
    pub(super) name: Option<String>,
    pub(super) columns: Vec<String>,
    /// Those that are whole parts of it, and compared as everywhere.
    equal: Vec<String>,
    /// Columns of which it takes so many characters.
    prefixes: Vec<(String, String)>,
    /// Expressions and conditions.
    texts: Vec<String>,
    plain: bool,
}

impl DeclaredKey {
    /// The key over these columns as they are.
    pub(super) fn new(columns: Vec<String>) -> Self {
        Self {
            name: None,
            equal: columns.clone(),
            columns,
            prefixes: Vec::new(),
            texts: Vec::new(),
            plain: true,
        }
    }

    /// The key over the columns and expressions of `group`.
    pub(super) fn parse(group: &Cursor<'_>, dialect: Dialect) -> Result<Self, DdlError> {
        let mut key = Self::new(Vec::new());
        for part in group.parts() {
            key.part(part, dialect)?;
        }
        Ok(key)
    }

    fn part(&mut self, part: Cursor<'_>, dialect: Dialect) -> Result<(), DdlError> {
        let mut rest = part;
        let name = match rest.sees_name() {
            true => Some(rest.ident()?),
            false => None,
        };
        let is_call = dialect != Dialect::Mysql && (rest.sees("(") || rest.sees("."));
        let Some(name) = name.filter(|_| !is_call) else {
            self.add_expression(part.written());
            return Ok(());
        };
        let is_prefix = rest.sees("(");
        if is_prefix {
            let length = rest.group()?.written().to_owned();
            self.prefixes.push((name.clone(), length));
        }
        rest.eat_any(&["asc", "desc"]);
        rest.eat_any(&["nulls first", "nulls last"]);
        // A collation, a class of operators, an operator.
        self.plain &= rest.is_empty();
        if rest.is_empty() && !is_prefix {
            self.equal.push(name.clone());
        }
        self.columns.push(name);
        Ok(())
    }

    /// What is no column, or says which rows.
    pub(super) fn add_expression(&mut self, text: &str) {
        self.plain = false;
        self.texts.push(text.to_owned());
    }

    /// Rows that differ, or have NULL, can be in each other's way.
    pub(super) fn compare_otherwise(&mut self) {
        self.plain = false;
        self.equal.clear();
    }

    /// The same key under another name; none if its name is not known.
    pub(super) fn with_name(mut self, name: Option<String>) -> Self {
        self.name = name;
        self
    }

    /// Whether it is the same key under any name.
    pub(super) fn is_same_key(&self, other: &Self) -> bool {
        let Self {
            name: _,
            columns,
            equal,
            prefixes,
            texts,
            plain,
        } = self;
        (columns, equal, prefixes, texts, plain)
            == (
                &other.columns,
                &other.equal,
                &other.prefixes,
                &other.texts,
                &other.plain,
            )
    }

    /// Whether there is anything in it that a server could call otherwise than by its columns.
    pub(super) fn has_texts(&self) -> bool {
        !self.texts.is_empty()
    }

    /// After a column has another name.
    pub(super) fn rename_column(&mut self, old: &str, new: &str, dialect: Dialect) {
        for name in self
            .columns
            .iter_mut()
            .chain(&mut self.equal)
            .chain(self.prefixes.iter_mut().map(|prefix| &mut prefix.0))
        {
            if dialect.fold(name) == dialect.fold(old) {
                new.clone_into(name);
            }
        }
        if self.texts.iter().any(|text| may_name(text, old, dialect)) {
            self.columns.push(new.to_owned());
        }
    }

    /// Whether it looks at the column called `name`.
    pub(super) fn has(&self, name: &str, dialect: Dialect) -> bool {
        self.columns
            .iter()
            .any(|column| dialect.fold(column) == dialect.fold(name))
            || self.texts.iter().any(|text| may_name(text, name, dialect))
    }

    /// The name that PostgreSQL gives it, if that is certain; `kind` is the last word of it.
    pub(super) fn postgres_name(&self, table: &str, kind: &str, taken: &[Self]) -> Option<String> {
        if self.has_texts() {
            return None;
        }
        let name = match kind {
            "pkey" => format!("{table}_{kind}"),
            _ => format!("{table}_{}_{kind}", self.columns.join("_")),
        };
        let is_certain = name.len() <= MAX_NAME
            && taken
                .iter()
                .all(|other| other.name.as_ref().is_some_and(|other| *other != name));
        is_certain.then_some(name)
    }

    /// What a catalog says of it, as a key of `relation`, in whose columns called `filled` new rows have values by themselves.
    pub(super) fn to_catalog(
        &self,
        relation: &RelationDef,
        filled: &[String],
        dialect: Dialect,
    ) -> UniqueKeyDef {
        let column = |name: &str| {
            let mut columns = relation.columns.iter();
            columns.find(|c| dialect.fold(&c.name) == dialect.fold(name))
        };
        let is_whole = |(name, length): &(String, String)| {
            column(name).is_some_and(|column| {
                let declared = column
                    .type_name
                    .split_once('(')
                    .and_then(|(_, rest)| rest.split_once(')'));
                column.class == TypeClass::Text && declared.is_some_and(|(most, _)| most == *length)
            })
        };
        let mut columns = self.columns.clone();
        for text in &self.texts {
            let every = may_name_rows(text, &relation.name, dialect);
            let named =
                (relation.columns.iter()).filter(|c| every || may_name(text, &c.name, dialect));
            columns.extend(named.map(|c| c.name.clone()));
        }
        // MySQL's has the first of its values where it may not be NULL, without a word.
        let is_enum = |name: &String| {
            dialect == Dialect::Mysql
                && column(name).is_some_and(|c| {
                    !c.nullable && c.type_name.to_ascii_lowercase().starts_with("enum")
                })
        };
        let is_filled = |name: &&String| {
            is_enum(name)
                || filled
                    .iter()
                    .any(|other| dialect.fold(other) == dialect.fold(name))
        };
        let whole = (self.prefixes.iter()).filter(|prefix| is_whole(prefix));
        // A column may be gone since.
        let equal = (self.equal.iter())
            .chain(whole.map(|(name, _)| name))
            .filter(|name| self.columns.contains(name));
        UniqueKeyDef {
            name: self.name.clone(),
            filled: columns.iter().filter(is_filled).cloned().collect(),
            equal: equal.cloned().collect(),
            columns,
            plain: self.plain && self.prefixes.iter().all(is_whole),
        }
    }
}
