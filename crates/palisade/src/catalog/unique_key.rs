//! Unique keys: by which columns one row can be in another's way.

use crate::dialect::Dialect;

/// A unique key of a table: its primary key, a unique constraint or index, an exclusion constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UniqueKey {
    /// The name of the constraint or index, where it is known.
    pub name: Option<String>,
    /// Positions of the columns that it looks at: in its own order where it is plain, else in the table's, those of its
    /// expressions and its condition among them.
    pub columns: Vec<u16>,
    /// Columns of the key that have a value in a new row although the statement gives none. A value that the engine
    /// counts up is left out.
    pub filled: Vec<u16>,
    /// Columns in which two rows are equal, as the columns compare, and not NULL, wherever they are in each other's way. Of a
    /// plain key it is all columns, and of others those that are whole parts of it.
    pub equal: Vec<u16>,
    /// Whether two rows are in each other's way exactly where they are equal in all of these columns, as the columns compare,
    /// and neither has a NULL there. It is not so of prefixes, expressions, a part of the rows, other collations.
    pub plain: bool,
}

/// What a source knows of a [`UniqueKey`]: columns by their names, each once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UniqueKeyDef {
    /// See [`UniqueKey::name`].
    pub name: Option<String>,
    /// See [`UniqueKey::columns`].
    pub columns: Vec<String>,
    /// See [`UniqueKey::filled`].
    pub filled: Vec<String>,
    /// See [`UniqueKey::equal`]; of a plain key it is not looked at.
    pub equal: Vec<String>,
    /// See [`UniqueKey::plain`].
    pub plain: bool,
}

impl UniqueKey {
    /// The key of `def`; none if one of its columns is none of the table's.
    pub(in crate::catalog) fn from_def(
        def: UniqueKeyDef,
        position: impl Fn(&str) -> Option<u16>,
    ) -> Option<Self> {
        let positions = |names: &[String]| -> Option<Vec<u16>> {
            names.iter().map(|name| position(name)).collect()
        };
        let mut columns = positions(&def.columns)?;
        let mut filled = positions(&def.filled)?;
        let mut equal = match def.plain {
            true => columns.clone(),
            false => positions(&def.equal)?,
        };
        if !def.plain {
            for indexes in [&mut columns, &mut equal] {
                indexes.sort_unstable();
                indexes.dedup();
            }
            equal.retain(|index| columns.contains(index));
        }
        filled.sort_unstable();
        filled.dedup();
        filled.retain(|index| columns.contains(index));
        Some(Self {
            name: def.name,
            columns,
            filled,
            equal,
            plain: def.plain,
        })
    }
}

/// Whether `text`, an expression as an engine or a schema has it, may name the column called `name`: each column that it names is
/// found, and perhaps others, such as those called like a function in it.
#[must_use]
pub fn may_name(text: &str, name: &str, dialect: Dialect) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$') || !c.is_ascii();
    let name = dialect.fold(name);
    let text = dialect.fold(text);
    if name.is_empty() || name.contains(['\'', '"', '`', '\\', '[', ']']) {
        // How it would be quoted is left open.
        return true;
    }
    // PostgreSQL folds what is not quoted, so that case is left open too.
    let (name, text) = (name.to_lowercase(), text.to_lowercase());
    if name.chars().all(is_part) {
        text.split(|c| !is_part(c)).any(|word| word == name)
    } else {
        text.contains(&name)
    }
}

/// Whether `text`, an expression over a table, may name whole rows: `t.*`.
#[must_use]
pub fn may_name_rows(text: &str, table: &str, dialect: Dialect) -> bool {
    text.contains(".*") || may_name(text, table, dialect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_key_is_equal_in_all_of_its_columns() {
        let position = |name: &str| ["a", "b", "c"].iter().position(|known| *known == name);
        let equal = |plain: bool, equal: &[&str]| {
            let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            let def = UniqueKeyDef {
                columns: names(&["b", "a"]),
                equal: names(equal),
                plain,
                ..UniqueKeyDef::default()
            };
            let key = UniqueKey::from_def(def, |name| u16::try_from(position(name)?).ok());
            key.map(|key| key.equal)
        };
        assert_eq!(equal(true, &[]), Some(vec![1, 0]));
        assert_eq!(equal(false, &[]), Some(Vec::new()));
        assert_eq!(equal(false, &["b", "c"]), Some(vec![1]));
        assert_eq!(equal(false, &["d"]), None);
    }

    #[test]
    fn names_in_expressions() {
        for (text, name, expected) in [
            ("lower(email)", "email", true),
            ("lower(\"E mail\")", "E mail", true),
            ("lower(e_mail)", "mail", false),
            ("Lower(EMAIL) || `b`", "email", true),
            ("a + b", "c", false),
            ("x", "we\"ird", true),
            ("naïve + 1", "naïve", true),
        ] {
            for dialect in Dialect::ALL {
                assert_eq!(may_name(text, name, dialect), expected, "{text} {name}");
            }
        }
    }
}
