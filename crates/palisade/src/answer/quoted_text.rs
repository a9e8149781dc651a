//! Names that mean nothing, which SQLite reads as texts. A reader takes the answer for one about a column unless it is told.

use std::borrow::Cow;

use crate::answer::{Sensitivity, detect, scan_session::Notice, spell_out};

/// Characters of a text that is shown: as many as names have in other engines.
const MAX_SHOWN: usize = 64;

/// The slug of these notices.
const SLUG: &str = "quoted_text";

/// A word in double quotes that names no column, and was read as a text
/// (<https://www.sqlite.org/quirks.html#double_quoted_string_literals_are_accepted>).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QuotedText(pub(crate) String);

impl QuotedText {
    /// The notice of it, the same for a hidden column as for a name that nothing has. A long text is left out, and so is a text
    /// in which a detector finds something.
    pub(crate) fn notice(&self) -> Notice {
        notice(&self.0)
    }
}

fn notice(text: &str) -> Notice {
    let is_shown = text.chars().count() <= MAX_SHOWN
        && detect(text.as_bytes(), Sensitivity::default()).is_empty();
    let message = if is_shown {
        let text = spell_out(text);
        format!(
            "`\"{text}\"` names no column here, and was read as the text '{text}'. Texts are written in single quotes."
        )
    } else {
        "A word in double quotes names no column here, and was read as a text. Texts are written in single quotes."
            .to_owned()
    };
    Notice {
        notice: SLUG,
        column: None,
        usage: Vec::new(),
        count: 1,
        message: Cow::Owned(message),
    }
}
