//! The page of types: a section for each product, made by the test that ran on it.

use std::{
    env, fs,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

/// Set to have the page written instead of compared.
const WRITE: &str = "PALISADE_WRITE_TYPES";

const HEAD: &str = "\
# Types

What a value of each type is in an answer's JSON, and how it goes back as a parameter. Each row is what happened to the
example on a real server. It was read through the gate, given back as a parameter in an INSERT, and read the same.
It found both rows by the condition in the column *found by*, where `?` stands for the parameter. *Stored*: the
engine has no equality of the type. The column *parameter* says how the value is given where it is not the JSON value itself.

* Integers beyond 2^53 and all exact numbers are strings, so that no reader of JSON rounds them; so are `NaN` and the infinities.
* Bytes are `\\x` and hexadecimal digits.
* A parameter is null, a boolean, a number or a string, or one of `{\"bytes\": \"\\\\x00ff\"}`, `{\"integer\": \"9223372036854775807\"}`,
  `{\"real\": \"Infinity\"}`.
* A null of any type is `null`. Cells longer than the limit are cut, and a notice says so.

A test fails when this page is not what happens; `PALISADE_WRITE_TYPES=1 cargo test -p palisade-testkit --test reads -- types --include-ignored`
writes it anew.

";

/// The products, in the page's order.
const SECTIONS: [&str; 4] = ["SQLite", "PostgreSQL", "MariaDB", "MySQL"];

const TABLE: &str =
    "| type | example | JSON | parameter | found by | |\n|---|---|---|---|---|---|\n";

/// Compares the rows of `product`'s section with the page, or writes them where that is asked for.
pub(crate) fn check(product: &str, rows: &str) {
    // Tests of several products run at a time.
    static PAGE: Mutex<()> = Mutex::new(());
    let _only = PAGE.lock().unwrap_or_else(PoisonError::into_inner);
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/types.md");
    let page = fs::read_to_string(&path).unwrap_or_default();
    let mut current = HEAD.to_owned();
    for name in SECTIONS {
        let title = format!("## {name}\n\n");
        let written = page
            .split_once(&title)
            .and_then(|(_, rest)| rest.split("\n## ").next())
            .map(|section| section.strip_prefix(TABLE).unwrap_or(section).trim_end());
        let rows = if name == product {
            rows.trim_end()
        } else {
            written.unwrap_or_default()
        };
        current.push_str(&format!("{title}{TABLE}{rows}\n\n"));
    }
    let current = format!("{}\n", current.trim_end());
    if env::var_os(WRITE).is_some() {
        fs::write(path, current).unwrap();
    } else {
        assert!(
            page == current,
            "docs/reference/types.md is not what happens; its head says how to write it anew:\n{current}"
        );
    }
}

/// `text` as code in a cell of a table.
pub(crate) fn code(text: &str) -> String {
    if text.is_empty() {
        return "none".to_owned();
    }
    format!("`{}`", text.replace('|', "\\|"))
}
