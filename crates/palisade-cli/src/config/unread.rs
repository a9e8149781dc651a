//! A text that is no configuration: what is told of it, which is never a password.

use palisade::did_you_mean;

use crate::{config::Reader, exit::Failure};

impl Reader<'_> {
    /// That the text is no configuration. Of a word that is not known, the parser's message lists those that its
    /// place takes.
    pub(super) fn unread(&self, error: &toml::de::Error) -> Failure {
        let message = error.message();
        let words: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
        let (told, help) = match words.split_first() {
            Some((unknown, known)) if message.starts_with("unknown ") => (
                message.split(", expected").next().unwrap_or(message),
                match find_meant(unknown, known) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => format!("write one of these here: `{}`", known.join("`, `")),
                },
            ),
            Some((missing, _)) if message.starts_with("missing field ") => {
                (message, format!("write `{missing} = …`"))
            }
            _ if message.starts_with("invalid ") && message.contains(", expected ") => (
                message,
                "write a value of the kind that is expected".to_owned(),
            ),
            Some(_) | None => (
                message,
                "mend what is written there: the file is TOML".to_owned(),
            ),
        };
        match error.span() {
            Some(span) if can_hold_password(self.text, span.start) => {
                self.error_without_source(told, span, &help)
            }
            span => self.fault(told, span, &help),
        }
    }
}

/// Words that people write in the place of keys, each with the key.
const SYNONYMS: [(&str, &str); 6] = [
    ("as", "principal"),
    ("database", "url"),
    ("dsn", "url"),
    ("password", "password_env"),
    ("path", "url"),
    ("policy", "policies"),
];

/// The key that is meant by a word, of those that its place takes.
fn find_meant<'k>(unknown: &str, known: &[&'k str]) -> Option<&'k str> {
    let synonyms = SYNONYMS.iter().filter(|(word, _)| *word == unknown);
    let mut meant = synonyms.map(|(_, key)| *key);
    meant
        .find(|key| known.contains(key))
        .or_else(|| did_you_mean::closest(unknown, known.iter().copied()))
}

/// What is part of the names of keys for secrets, also where they are mistaken.
const SECRET_WORDS: [&str; 4] = ["credential", "pass", "pwd", "secret"];

/// Whether the line of a byte of `text` can hold a password, which no message repeats.
fn can_hold_password(text: &str, offset: usize) -> bool {
    let before = text.get(..offset).unwrap_or_default();
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    let rest = text.get(start..).unwrap_or_default();
    let line = rest.lines().next().unwrap_or_default().to_ascii_lowercase();
    let is_of_secret = SECRET_WORDS.iter().any(|word| line.contains(word));
    is_of_secret || (line.contains("://") && line.contains('@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_keys_are_understood_where_the_keys_are() {
        let keys = ["url", "password_env", "policies", "principal"];
        for (word, meant) in [
            ("as", Some("principal")),
            ("password", Some("password_env")),
            ("dsn", Some("url")),
            ("policie", Some("policies")),
            ("colour", None),
        ] {
            assert_eq!(find_meant(word, &keys), meant, "{word}");
        }
        assert_eq!(find_meant("dsn", &["file", "key"]), None);
    }

    #[test]
    fn lines_that_can_hold_a_password_are_known() {
        for (line, expected) in [
            ("Password = 'x'", true),
            ("b = { url = 'a', passwd = 'x' }", true),
            ("dsn = 'postgres://a:x@h/d'", true),
            ("max_row = 5", false),
            ("url = 'sqlite:demo.db'", false),
        ] {
            let text = format!("# secret\n{line}\n# secret\n");
            assert_eq!(can_hold_password(&text, 10), expected, "{line}");
        }
    }
}
