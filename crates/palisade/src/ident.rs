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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_collide() {
        assert_ne!(qualify(["a.b", "c"]), qualify(["a", "b.c"]));
        assert_eq!(qualify(["main", "say \"hi\""]), r#"main."say ""hi""""#);
    }
}
