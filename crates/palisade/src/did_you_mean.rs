//! "Did you mean …?": the name that was probably meant.

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
    fn closest_is_close() {
        assert_eq!(closest("tikets", ["tickets", "customers"]), Some("tickets"));
        assert_eq!(closest("xyzzy", ["tickets", "customers"]), None);
        assert_eq!(closest(&"t".repeat(129), [&*"t".repeat(129)]), None);
    }
}
