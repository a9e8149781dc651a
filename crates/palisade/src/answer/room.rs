//! How an answer is written for a model, and how large it may be then.

use crate::answer::{
    OutputColumn,
    cell::Cell,
    line::{write_header, write_row},
    model_tokens::estimate_model_tokens,
    spell_out,
};

/// How the rows of an answer are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// One string: a line for the names of the columns and one for each row.
    #[default]
    Table,
    /// An object with a key for each column.
    Json,
}

/// How much a model may be given of one answer. What does not fit is left out from the first row on that does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// How its rows are written.
    pub form: Form,
    /// Characters of all that the model reads.
    pub max_chars: usize,
    /// Tokens of it, as they are estimated without a model's vocabulary.
    pub max_tokens: usize,
    /// Whether it has as many rows as anybody may ask for, so that a higher limit gives no more.
    pub has_most_rows: bool,
}

/// Characters that are kept for what stands around the rows.
const FRAME_CHARS: usize = 700;
/// Characters that notes on the rows may have.
pub(in crate::answer) const NOTE_CHARS: usize = 3000;
/// Tokens of both.
const FRAME_TOKENS: usize = 900;

/// The longest name of a type that an engine tells.
const LONGEST_TYPE: &str = "timestamp without time zone[]";

/// What is left of a [`Room`].
#[derive(Debug, Clone, Copy)]
pub(in crate::answer) struct Left {
    form: Form,
    chars: usize,
    tokens: usize,
}

impl Left {
    /// What `room` has beside the columns; nothing where they do not fit by themselves.
    pub(in crate::answer) fn measure(room: Room, columns: &[OutputColumn]) -> Option<Self> {
        let Room {
            form,
            max_chars,
            max_tokens,
            has_most_rows: _,
        } = room;
        let all = Self {
            form,
            chars: max_chars.checked_sub(FRAME_CHARS + NOTE_CHARS)?,
            tokens: max_tokens.checked_sub(FRAME_TOKENS)?,
        };
        let mut text = String::new();
        match form {
            Form::Table => write_header(&mut text, columns),
            Form::Json => {
                for column in columns {
                    push_json(&mut text, column);
                    // The engine may tell a type later.
                    if column.type_name.is_empty() {
                        text.push_str(LONGEST_TYPE);
                    }
                }
            }
        }
        all.take(&text)
    }

    /// What is left after one more row; nothing where it does not fit.
    pub(in crate::answer) fn take_row(
        self,
        columns: &[OutputColumn],
        row: &[Cell],
    ) -> Option<Self> {
        let mut text = String::new();
        match self.form {
            Form::Table => write_row(&mut text, row),
            Form::Json => {
                for (column, cell) in columns.iter().zip(row) {
                    push_json(&mut text, &*spell_out(&column.name));
                    text.push(':');
                    push_json(&mut text, &cell.spelled_out());
                    text.push(',');
                }
                text.push_str("{},");
            }
        }
        self.take(&text)
    }

    /// Characters of a row that can fit.
    pub(in crate::answer) fn chars(self) -> usize {
        self.chars
    }

    fn take(self, text: &str) -> Option<Self> {
        Some(Self {
            form: self.form,
            chars: self.chars.checked_sub(text.chars().count())?,
            tokens: self.tokens.checked_sub(estimate_model_tokens(text))?,
        })
    }
}

/// Appends the JSON of a part, of which none is a map whose keys could fail.
fn push_json(text: &mut String, part: &(impl serde::Serialize + ?Sized)) {
    text.push_str(&serde_json::to_string(part).unwrap_or_default());
}
