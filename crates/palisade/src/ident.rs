//! Qualified names: how policies, audit lines and traces spell a relation, a column or a function.

/// `parts` joined by dots, as entity ids are written (`main.users.ssn`); a part that is not a plain
/// lower-case SQL word is quoted as in SQL (`main."Weird.Name"`), so that no two names collide.
///
/// ```
/// assert_eq!(palisade::ident::qualify(["main", "users"]), "main.users");
/// assert_eq!(palisade::ident::qualify(["main", "a.b"]), r#"main."a.b""#);
/// ```
pub fn qualify<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut out = String::new();
    for part in parts {
        if !out.is_empty() {
            out.push('.');
        }
        if is_plain(part) {
            out.push_str(part);
        } else {
            out.push_str(&quote(part));
        }
    }
    out
}

/// `part` in SQL double quotes, inner quotes doubled.
#[must_use]
pub fn quote(part: &str) -> String {
    format!("\"{}\"", part.replace('"', "\"\""))
}

/// Whether `part` is a lower-case word that SQL reads without quotes (keywords aside).
#[must_use]
pub fn is_plain(part: &str) -> bool {
    let mut chars = part.chars();
    chars
        .next()
        .is_some_and(|c| c.is_ascii_lowercase() || c == '_')
        && chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// The candidate closest to `wanted` within a third of its length, for "did you mean" hints.
///
/// Give only candidates the reader may see: a hint must not reveal a hidden name.
pub fn closest<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Names are short; comparing a huge one with everything would cost more than the hint is worth.
    if wanted.len() > 128 {
        return None;
    }
    let wanted = wanted.to_lowercase();
    let limit = (wanted.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(&wanted, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance, two rows at a time.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        let mut next = vec![left];
        for (above, y) in row.iter().skip(1).zip(&b) {
            let cost = diagonal + usize::from(x != *y);
            left = cost.min(above + 1).min(left + 1);
            next.push(left);
            diagonal = *above;
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_collide() {
        assert_ne!(qualify(["a.b", "c"]), qualify(["a", "b.c"]));
        assert_eq!(qualify(["main", "say \"hi\""]), r#"main."say ""hi""""#);
    }

    #[test]
    fn closest_is_close() {
        assert_eq!(closest("tikets", ["tickets", "customers"]), Some("tickets"));
        assert_eq!(closest("xyzzy", ["tickets", "customers"]), None);
        assert_eq!(closest(&"t".repeat(129), [&*"t".repeat(129)]), None);
    }
}
