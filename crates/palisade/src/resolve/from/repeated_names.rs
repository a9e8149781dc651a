//! The names that SQLite gives to columns of a subquery in FROM, or of a common table expression, where names repeat.

use std::{collections::HashSet, sync::Arc};

/// How often a name may repeat: SQLite counts up to this, and then takes a random number.
const COUNTED: u32 = 3;

/// A name repeats more often than SQLite counts, so that it would take a random number.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RepeatsTooOften;

/// Names repeated columns as SQLite does, by `sqlite3ColumnsFromExprList`: the second `id` is called `id:1`, the third `id:2`. Each
/// column is its name and the key that it is looked up by.
pub(super) fn number_repeated_names<'n>(
    columns: impl Iterator<Item = (&'n mut Arc<str>, &'n mut Arc<str>)>,
) -> Result<(), RepeatsTooOften> {
    let mut seen: HashSet<Arc<str>> = HashSet::new();
    for (name, key) in columns {
        let mut count = 0;
        while seen.contains(key) {
            if count == COUNTED {
                return Err(RepeatsTooOften);
            }
            count += 1;
            *key = number_name(key, count);
            *name = number_name(name, count);
        }
        seen.insert(Arc::clone(key));
    }
    Ok(())
}

/// `name` with this number, which replaces a number at its end.
fn number_name(name: &str, count: u32) -> Arc<str> {
    let digits = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let base = digits.strip_suffix(':').unwrap_or(name);
    format!("{base}:{count}").into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn numbered_names(names: &[&str]) -> Option<Vec<String>> {
        let mut columns: Vec<(Arc<str>, Arc<str>)> = names
            .iter()
            .map(|name| (Arc::from(*name), name.to_ascii_lowercase().into()))
            .collect();
        number_repeated_names(columns.iter_mut().map(|(name, key)| (name, key))).ok()?;
        Some(columns.iter().map(|(name, _)| name.to_string()).collect())
    }

    #[test]
    fn repeated_names_are_numbered_as_by_the_engine() {
        let check = |names: &[&str], expected: &[&str]| {
            assert_eq!(numbered_names(names).unwrap(), expected, "{names:?}");
        };
        check(&["id", "name"], &["id", "name"]);
        check(&["id", "ID", "x", "Id"], &["id", "ID:1", "x", "Id:2"]);
        check(&["id:1", "id", "id"], &["id:1", "id", "id:2"]);
        check(&["id:7", "id:7"], &["id:7", "id:1"]);
        assert_eq!(numbered_names(&["a", "a", "a", "a", "a"]), None);
    }
}
