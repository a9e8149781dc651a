//! SQLite: five classes of values, in columns that are declared anyhow.

use palisade_sqlite::{SqliteBackend, create_database};

use super::{Back, Type, gate, of, page, script, there_and_back};

const TYPES: &[Type] = &[
    of("INTEGER", "-5"),
    of("INTEGER", "9007199254740993").beside("9007199254740992"),
    of("INTEGER", "-9223372036854775808").beside("-9223372036854775807"),
    of("BOOLEAN", "TRUE").note("an integer"),
    of("REAL", "0.1 + 0.2").beside("0.3"),
    of("REAL", "5e-324"),
    of("REAL", "1e999").spelt("real"),
    of("REAL", "-1e999").spelt("real"),
    of("DECIMAL(30, 10)", "12345678901234567890.12").note("the engine keeps a double"),
    of("TEXT", "'ü😀' || char(10)"),
    of("TEXT", "'a' || char(0) || 'b'"),
    of("TEXT", "CAST(x'61ff' AS TEXT)")
        .back(Back::Lost)
        .note("bytes that are no UTF-8 are replaced, with the notice `invalid_utf8`; `CAST(v AS BLOB)` gives them"),
    of("VARCHAR(2)", "'long'").note("the engine counts nothing"),
    of("DATETIME", "'2026-01-02 03:04:05.678'").note("text, as all of the engine's dates"),
    of("JSON", "'{\"a\": 1.10, \"a\": [null]}'").note("text, as it was stored"),
    of("BLOB", "x'00ff'").spelt("bytes"),
    of("BLOB", "jsonb('[1]')").spelt("bytes").note("the engine's binary JSON; `json(v)` prints it"),
    of("BLOB", "9007199254740993")
        .spelt("integer")
        .note("a column of no affinity keeps a string a string"),
    of("", "1.5"),
    of("", "'1.5'").note("a column without a type keeps both apart"),
];

/// What only tables have that are STRICT.
const STRICT: &[Type] = &[
    of("INT", "5"),
    of("ANY", "'5'"),
    of("ANY", "5"),
    of("ANY", "x'05'").spelt("bytes"),
];

#[tokio::test]
async fn sqlite_sends_every_class_there_and_back() {
    let mut rows = String::new();
    for (types, end) in [(TYPES, ""), (STRICT, " STRICT")] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("types.db");
        let script = script(types).replace("); INSERT", &format!("){end}; INSERT"));
        create_database(&path, &script).unwrap();
        let backend = SqliteBackend::open_file(&path, "types").unwrap();
        rows.push_str(&there_and_back(&gate(backend.writable()), types, "?").await);
    }
    page::check("SQLite", &rows);
}
