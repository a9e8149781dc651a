//! The names that SQLite gives to columns of a subquery in FROM, or of a common table expression, where names repeat.

use std::{collections::HashSet, sync::Arc};

use crate::rejection::Rejection;
use crate::resolve::{refuse_unsupported, scope::Output};

/// How often a name may repeat: SQLite counts up to this, and then takes a random number.
const COUNTED: u32 = 3;

/// Names repeated columns as SQLite does, by `sqlite3ColumnsFromExprList`: the second `id` is called `id:1`, the third `id:2`.
///
/// # Errors
/// `syntax.unsupported` where SQLite would take a random number.
pub(super) fn number_repeated_names(outputs: &mut [Output]) -> Result<(), Rejection> {
    let mut seen: HashSet<Arc<str>> = HashSet::with_capacity(outputs.len());
    for output in outputs {
        let mut count = 0;
        while seen.contains(&output.key) {
            if count == COUNTED {
                return Err(refuse_unsupported(
                    "a subquery of more than four columns of one name (give them aliases)",
                ));
            }
            count += 1;
            output.key = numbered(&output.key, count);
            output.name = numbered(&output.name, count);
        }
        seen.insert(Arc::clone(&output.key));
    }
    Ok(())
}

/// `name` with this number, in the place of the one that it ends with.
fn numbered(name: &str, count: u32) -> Arc<str> {
    let digits = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let base = digits.strip_suffix(':').unwrap_or(name);
    format!("{base}:{count}").into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::lineage::Lineage;

    fn numbered_names(names: &[&str]) -> Option<Vec<String>> {
        let mut outputs: Vec<Output> = names
            .iter()
            .map(|name| Output {
                name: Arc::from(*name),
                key: name.to_ascii_lowercase().into(),
                lineage: Lineage::default(),
            })
            .collect();
        number_repeated_names(&mut outputs).ok()?;
        Some(outputs.iter().map(|o| o.name.to_string()).collect())
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
