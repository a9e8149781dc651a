//! A place of a configuration that is wrong: for people with the line, and for programs in fields.

use std::{fmt, ops::Range};

use serde_json::{Value, json};

use crate::snippet::{Note, find_position, render};

/// What is wrong at a place of a configuration.
#[derive(Debug)]
pub(crate) struct ConfigFault {
    file: String,
    /// Line and column, both counted from 1; none where the whole file is meant.
    place: Option<(usize, usize)>,
    message: String,
    help: String,
    /// As people read it.
    shown: String,
}

impl ConfigFault {
    /// With the line that is wrong, of `file` which holds `text`.
    pub(crate) fn new(
        (file, text): (&str, &str),
        message: &str,
        span: Option<Range<usize>>,
        help: &str,
    ) -> Self {
        let shown = render(&Note {
            kind: "error",
            message,
            file,
            text: Some(text),
            span: span.clone().map(|span| (span.start, span.len())),
            help: Some(help),
        });
        Self {
            file: file.to_owned(),
            place: span.map(|span| find_position(text, span.start)),
            message: message.to_owned(),
            help: help.to_owned(),
            shown: shown.trim_end().to_owned(),
        }
    }

    /// With the place but not its text, which can hold a password.
    pub(crate) fn without_source(
        (file, text): (&str, &str),
        message: &str,
        span: Range<usize>,
        help: &str,
    ) -> Self {
        let (line, column) = find_position(text, span.start);
        Self {
            file: file.to_owned(),
            place: Some((line, column)),
            message: message.to_owned(),
            help: help.to_owned(),
            shown: format!("error: {message}\n  --> {file}:{line}:{column}\n  help: {help}"),
        }
    }

    /// Its fields, which are those of a problem of policies.
    pub(crate) fn json(&self) -> Value {
        let (line, column) = self.place.unzip();
        json!({
            "valid": false,
            "file": self.file,
            "line": line,
            "column": column,
            "message": self.message,
            "help": self.help,
        })
    }
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}
