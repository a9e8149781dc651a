//! Words in double quotes that engines read as texts. A reader takes the answer for one about a column unless it is told.

use std::borrow::Cow;

use crate::answer::{Sensitivity, detect, scan_session::Notice, spell_out};

/// Characters of a text that is shown: as many as names have in other engines.
const MAX_SHOWN: usize = 64;

/// The slug of these notices.
const SLUG: &str = "quoted_text";

/// A word in double quotes that was read as a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum QuotedText {
    /// It names no column, so that SQLite takes it for one
    /// (<https://www.sqlite.org/quirks.html#double_quoted_string_literals_are_accepted>).
    NoColumn(String),
    /// It has the name of a column, which MySQL and MariaDB do not look for
    /// (<https://dev.mysql.com/doc/refman/8.4/en/string-literals.html>).
    LikeColumn(String),
}

impl QuotedText {
    /// What stands between the quotes.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::NoColumn(text) | Self::LikeColumn(text) => text,
        }
    }

    /// The notice of it, the same for a hidden column as for a name that nothing has. A long text is left out, and so is a text
    /// in which a detector finds something.
    pub(crate) fn notice(&self) -> Notice {
        let text = self.text();
        let is_shown = text.chars().count() <= MAX_SHOWN
            && detect(text.as_bytes(), Sensitivity::default()).is_empty();
        let (word, text) = match is_shown {
            true => {
                let text = spell_out(text);
                (format!("`\"{text}\"`"), format!("the text '{text}'"))
            }
            false => ("A word in double quotes".to_owned(), "a text".to_owned()),
        };
        let message = match self {
            Self::NoColumn(_) => format!(
                "{word} names no column here, and was read as {text}. Texts are written in single quotes."
            ),
            Self::LikeColumn(_) => format!(
                "{word} was read as {text}, not as the column. Names stand bare or in backticks here, texts in single quotes."
            ),
        };
        Notice {
            notice: SLUG,
            column: None,
            usage: Vec::new(),
            count: 1,
            message: Cow::Owned(message),
        }
    }
}
