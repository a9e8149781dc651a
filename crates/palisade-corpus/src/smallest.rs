//! The smallest part in which two things differ.

use similar::{ChangeTag, TextDiff};

/// Words that are in one text alone: `[-…-]` what was expected, `{+…+}` what came, `…` what is equal.
pub(crate) fn of_texts(expected: &str, got: &str) -> Option<String> {
    if expected.is_empty() || got.is_empty() {
        return None;
    }
    let diff = TextDiff::from_words(expected, got);
    let mut out = String::new();
    let mut last = None;
    for change in diff.iter_all_changes() {
        let tag = change.tag();
        if last != Some(tag) {
            out.push_str(match last {
                Some(ChangeTag::Delete) => "-]",
                Some(ChangeTag::Insert) => "+}",
                Some(ChangeTag::Equal) | None => "",
            });
            out.push_str(match tag {
                ChangeTag::Delete => "[-",
                ChangeTag::Insert => "{+",
                ChangeTag::Equal => "…",
            });
            last = Some(tag);
        }
        match tag {
            ChangeTag::Equal => {}
            ChangeTag::Delete | ChangeTag::Insert => out.push_str(change.value()),
        }
    }
    out.push_str(match last {
        Some(ChangeTag::Delete) => "-]",
        Some(ChangeTag::Insert) => "+}",
        Some(ChangeTag::Equal) | None => "",
    });
    Some(out)
}

/// What is in one list alone; of the same entries, that their order differs.
pub(crate) fn of_lists(expected: &[String], got: &[String]) -> Option<String> {
    let only = |these: &[String], those: &[String]| {
        let mut rest = those.to_vec();
        let mut only = Vec::new();
        for one in these {
            match rest.iter().position(|other| other == one) {
                Some(at) => {
                    rest.swap_remove(at);
                }
                None => only.push(one.clone()),
            }
        }
        only
    };
    let (missing, surplus) = (only(expected, got), only(got, expected));
    let told = |what: &str, names: &[String]| {
        (!names.is_empty()).then(|| format!("{what} {}", names.join(", ")))
    };
    let told: Vec<String> = [told("missing", &missing), told("surplus", &surplus)]
        .into_iter()
        .flatten()
        .collect();
    match (told.as_slice(), missing.len() == expected.len()) {
        ([], _) => Some("in their order".to_owned()),
        (_, true) => None,
        (told, false) => Some(told.join("; ")),
    }
}

/// The cells of the one row that differs, or the rows that are in one alone.
pub(crate) fn of_rows(expected: &[Vec<String>], got: &[Vec<String>]) -> Option<String> {
    let mut differing = expected
        .iter()
        .zip(got)
        .zip(1..)
        .filter(|((a, b), _)| a != b);
    if expected.len() == got.len()
        && let Some(((one, other), number)) = differing.next()
        && differing.next().is_none()
        && one.len() == other.len()
    {
        let cells = one.iter().zip(other).zip(1..).filter(|((a, b), _)| a != b);
        let told: Vec<String> = cells
            .map(|((a, b), column)| format!("row {number}, column {column}: {a} and not {b}"))
            .collect();
        return Some(told.join("; "));
    }
    let join = |rows: &[Vec<String>]| -> Vec<String> {
        let row = |row: &Vec<String>| format!("[{}]", row.join(", "));
        rows.iter().map(row).collect()
    };
    of_lists(&join(expected), &join(got))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_parts_are_left_out() {
        let told = of_texts(
            "SELECT id FROM a WHERE b = 1",
            "SELECT id FROM a WHERE b = 2",
        );
        assert_eq!(told.as_deref(), Some("…[-1-]{+2+}"));
        let list = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let told = of_lists(&list(&["a", "b", "b"]), &list(&["b", "c", "b"]));
        assert_eq!(told.as_deref(), Some("missing a; surplus c"));
        let told = of_lists(&list(&["a", "b"]), &list(&["b", "a"]));
        assert_eq!(told.as_deref(), Some("in their order"));
        let rows = [list(&["1", "2"]), list(&["3", "4"])];
        let other = [list(&["1", "2"]), list(&["3", "5"])];
        let told = of_rows(&rows, &other);
        assert_eq!(told.as_deref(), Some("row 2, column 2: 4 and not 5"));
        assert_eq!(
            of_rows(&rows, &rows[..1]).as_deref(),
            Some("missing [3, 4]")
        );
    }
}
