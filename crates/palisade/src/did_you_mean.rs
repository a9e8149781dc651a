//! "Did you mean …?": the name that was probably meant.

/// The candidate closest to `wanted` within a third of its length, for "did you mean" hints. Any name of one letter is as near
/// as any other, so that none is meant.
///
/// Give only candidates the reader may see: a hint must not reveal a hidden name.
pub fn closest<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Names are short; comparing a huge one with everything would cost more than the hint is worth.
    if wanted.len() > 128 {
        return None;
    }
    let wanted = wanted.to_lowercase();
    let length = wanted.chars().count();
    let limit = (length / 3).max(1).min(length.saturating_sub(1));
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(&wanted, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance, where two neighbours that have changed places are one mistake; three rows at a time.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    let mut last = None;
    for (i, x) in a.chars().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let at = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX - 1);
            let mut cost = at(&above, j) + usize::from(x != *y);
            cost = cost.min(at(&above, j + 1) + 1).min(at(&row, j) + 1);
            let swapped = j.checked_sub(1).filter(|j| b.get(*j) == Some(&x));
            if let Some(j) = swapped.filter(|_| last == Some(*y)) {
                cost = cost.min(at(&before, j) + 1);
            }
            row.push(cost);
        }
        before = std::mem::replace(&mut above, row);
        last = Some(x);
    }
    above.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closest_is_close() {
        assert_eq!(closest("tikets", ["tickets", "customers"]), Some("tickets"));
        assert_eq!(closest("emial", ["name", "email"]), Some("email"));
        assert_eq!(closest("pirce", ["prices", "price"]), Some("price"));
        assert_eq!(closest("ab", ["ba"]), Some("ba"));
        assert_eq!(closest("ca", ["abc"]), None);
        assert_eq!(closest("x", ["y"]), None);
        assert_eq!(closest("X", ["x"]), Some("x"));
        assert_eq!(closest("", ["x"]), None);
        assert_eq!(closest("xyzzy", ["tickets", "customers"]), None);
        assert_eq!(closest(&"t".repeat(129), [&*"t".repeat(129)]), None);
    }
}
