//! Words of commands that people copy into a shell.

/// A word as a POSIX shell reads it back.
pub(crate) fn quote_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(quote_word("sqlite:/a/b.db"), "sqlite:/a/b.db");
        assert_eq!(quote_word("Agent::\"it's\""), "'Agent::\"it'\\''s\"'");
        assert_eq!(quote_word(""), "''");
    }
}
