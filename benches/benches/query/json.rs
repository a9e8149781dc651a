//! Rows as the JSON of an envelope: an array of objects.

use std::ops::ControlFlow;

use palisade::{guard::RowSink, value::Value};

/// The array as far as it is written.
#[derive(Default)]
pub(crate) struct Rows {
    json: Vec<u8>,
    /// `"name":` for each column.
    keys: Vec<Vec<u8>>,
    column: usize,
}

impl Rows {
    pub(crate) fn with_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let key = |name| {
            let mut key = serde_json::to_vec(name).unwrap();
            key.push(b':');
            key
        };
        Self {
            json: b"[".to_vec(),
            keys: names.into_iter().map(key).collect(),
            column: 0,
        }
    }

    /// What begins the next cell.
    fn begin(&mut self) {
        if self.column == 0 {
            let begins = self.json.len() > 1;
            self.json
                .extend_from_slice(if begins { b",{" } else { b"{" });
        } else {
            self.json.push(b',');
        }
        self.json.extend_from_slice(&self.keys[self.column]);
        self.column += 1;
    }

    fn end(&mut self) {
        if self.column == self.keys.len() {
            self.json.push(b'}');
            self.column = 0;
        }
    }

    pub(crate) fn null(&mut self) {
        self.raw(b"null");
    }

    /// A number as it is printed.
    pub(crate) fn raw(&mut self, text: &[u8]) {
        self.begin();
        self.json.extend_from_slice(text);
        self.end();
    }

    pub(crate) fn integer(&mut self, number: i64) {
        self.begin();
        serde_json::to_writer(&mut self.json, &number).unwrap();
        self.end();
    }

    pub(crate) fn real(&mut self, number: f64) {
        self.begin();
        serde_json::to_writer(&mut self.json, &number).unwrap();
        self.end();
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.begin();
        serde_json::to_writer(&mut self.json, text).unwrap();
        self.end();
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.json.push(b']');
        self.json
    }
}

/// Writes what a backend answers.
#[derive(Default)]
pub(crate) struct JsonSink(Rows);

impl JsonSink {
    pub(crate) fn finish(self) -> Vec<u8> {
        self.0.finish()
    }
}

impl RowSink for JsonSink {
    fn columns(&mut self, names: &[&str]) -> ControlFlow<()> {
        self.0 = Rows::with_names(names.iter().copied());
        ControlFlow::Continue(())
    }

    fn row(&mut self, cells: Vec<Value>) -> ControlFlow<()> {
        for cell in cells {
            match cell {
                Value::Null => self.0.null(),
                Value::Integer(number) => self.0.integer(number),
                Value::Real(number) => self.0.real(number),
                Value::Text(bytes) => self.0.text(std::str::from_utf8(&bytes).unwrap()),
                Value::Bool(_) | Value::Blob(_) => panic!("the table has no such cell"),
            }
        }
        ControlFlow::Continue(())
    }
}
