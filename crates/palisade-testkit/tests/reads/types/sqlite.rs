//! SQLite: five classes of values, in columns that are declared anyhow.

use super::{Back, Type, gate, page, roundtrip, script, there_and_back};

use crate::database::TestFile;

const TYPES: &[Type] = &[
    roundtrip("INTEGER", "-5"),
    roundtrip("INTEGER", "9007199254740993").neighbour("9007199254740992"),
    roundtrip("INTEGER", "-9223372036854775808").neighbour("-9223372036854775807"),
    roundtrip("BOOLEAN", "TRUE").note("an integer"),
    roundtrip("REAL", "0.1 + 0.2").neighbour("0.3"),
    roundtrip("REAL", "5e-324"),
    roundtrip("REAL", "1e999").spelt("real"),
    roundtrip("REAL", "-1e999").spelt("real"),
    roundtrip("DECIMAL(30, 10)", "12345678901234567890.12").note("the engine keeps a double"),
    roundtrip("TEXT", "'ü😀' || char(10)"),
    roundtrip("TEXT", "'a' || char(0) || 'b'"),
    roundtrip("TEXT", "CAST(x'61ff' AS TEXT)")
        .back(Back::Lost)
        .note("bytes that are no UTF-8 are replaced, with the notice `invalid_utf8`; `CAST(v AS BLOB)` gives them"),
    roundtrip("VARCHAR(2)", "'long'").note("the engine counts nothing"),
    roundtrip("DATETIME", "'2026-01-02 03:04:05.678'").note("text, as all of the engine's dates"),
    roundtrip("JSON", "'{\"a\": 1.10, \"a\": [null]}'").note("text, as it was stored"),
    roundtrip("BLOB", "x'00ff'").spelt("bytes"),
    roundtrip("BLOB", "jsonb('[1]')").spelt("bytes").note("the engine's binary JSON; `json(v)` prints it"),
    roundtrip("BLOB", "9007199254740993")
        .spelt("integer")
        .note("a column of no affinity keeps a string a string"),
    roundtrip("", "1.5"),
    roundtrip("", "'1.5'").note("a column without a type keeps both apart"),
];

/// What only tables have that are STRICT.
const STRICT: &[Type] = &[
    roundtrip("INT", "5"),
    roundtrip("ANY", "'5'"),
    roundtrip("ANY", "5"),
    roundtrip("ANY", "x'05'").spelt("bytes"),
];

#[tokio::test]
async fn sqlite_sends_every_class_there_and_back() {
    let mut rows = String::new();
    for (types, end) in [(TYPES, ""), (STRICT, " STRICT")] {
        let script = script(types).replace("); INSERT", &format!("){end}; INSERT"));
        let file = TestFile::new(&script);
        let backend = file.reader();
        rows.push_str(&there_and_back(&gate(backend.writable()), types, "?").await);
    }
    page::check("SQLite", &rows);
}
