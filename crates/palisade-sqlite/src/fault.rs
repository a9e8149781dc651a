//! What SQLite finds wrong with a statement. It has one number for nearly all of it, so its words are read
//! (`sqlite3_result_error` and `sqlite3ErrorMsg` in its source).

use palisade::guard::{EngineFault, FaultClass};

/// The beginnings of its messages, or what stands in them, and what they are about.
const WORDS: &[(&str, FaultClass)] = &[
    ("integer overflow", FaultClass::OutOfRange),
    ("malformed JSON", FaultClass::InvalidJson),
    ("bad JSON path", FaultClass::InvalidJson),
    ("JSON path error", FaultClass::InvalidJson),
    ("JSON cannot hold BLOB", FaultClass::InvalidJson),
    ("json_object() ", FaultClass::InvalidJson),
    (
        "LIKE or GLOB pattern too complex",
        FaultClass::InvalidPattern,
    ),
    ("ESCAPE expression must be", FaultClass::InvalidPattern),
    ("datatype mismatch", FaultClass::InvalidLimit),
    ("no such function", FaultClass::NoSuchCall),
    ("wrong number of arguments", FaultClass::NoSuchCall),
    ("misuse of aggregate", FaultClass::Misplaced),
    ("misuse of window function", FaultClass::Misplaced),
    ("misuse of aliased", FaultClass::Misplaced),
    ("sub-select returns", FaultClass::TypeMismatch),
    ("row value misused", FaultClass::TypeMismatch),
    ("ambiguous column name", FaultClass::AmbiguousName),
    ("no such column", FaultClass::UnknownName),
    ("no such table", FaultClass::UnknownName),
    ("no such collation", FaultClass::Collation),
    ("argument of ", FaultClass::InvalidArgument),
    ("frame ", FaultClass::InvalidArgument),
    ("DISTINCT aggregates must have", FaultClass::NoSuchCall),
    ("DISTINCT is not supported", FaultClass::NotSupported),
    ("RANGE with offset", FaultClass::NotSupported),
    ("unsupported ", FaultClass::NotSupported),
];

/// What an error is about; `None` where it is none of the statement.
pub(crate) fn read(error: &rusqlite::Error) -> Option<EngineFault> {
    let (code, message, position) = match error {
        rusqlite::Error::SqlInputError {
            error,
            msg,
            sql,
            offset,
        } => {
            let start = usize::try_from(*offset).ok().and_then(|end| sql.get(..end));
            (error, msg, start.map(|start| start.chars().count()))
        }
        rusqlite::Error::SqliteFailure(error, Some(message)) => (error, message, None),
        _ => return None,
    };
    let found = WORDS.iter().find(|(words, _)| message.contains(words));
    Some(EngineFault {
        code: format!("SQLITE_{}", code.extended_code),
        class: found.map_or(FaultClass::Other, |(_, class)| *class),
        message: message.clone(),
        position,
        is_of_preparation: matches!(error, rusqlite::Error::SqlInputError { .. }),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn messages_have_kinds() {
        let conn = rusqlite::Connection::open_in_memory().unwrap();
        for (sql, expected, position) in [
            (
                "SELECT abs(-9223372036854775808)",
                FaultClass::OutOfRange,
                None,
            ),
            ("SELECT json('{')", FaultClass::InvalidJson, None),
            (
                "SELECT json_extract('{}', 'a')",
                FaultClass::InvalidJson,
                None,
            ),
            (
                "SELECT 'a' LIKE 'b' ESCAPE 'cd'",
                FaultClass::InvalidPattern,
                None,
            ),
            ("SELECT 1 LIMIT 'x'", FaultClass::InvalidLimit, None),
            ("SELECT 'é', nosuch(1)", FaultClass::NoSuchCall, Some(12)),
            ("SELECT abs(1, 2)", FaultClass::NoSuchCall, Some(7)),
            ("SELECT nosuch", FaultClass::UnknownName, Some(7)),
            ("SELECT ntile(0) OVER ()", FaultClass::InvalidArgument, None),
            ("SELECT 1 WHERE sum(1) > 0", FaultClass::Misplaced, Some(15)),
        ] {
            let failed = match conn.prepare(sql) {
                Ok(mut statement) => statement
                    .query([])
                    .and_then(|mut rows| rows.next().map(|_| ()))
                    .unwrap_err(),
                Err(error) => error,
            };
            let fault = read(&failed).unwrap();
            assert_eq!(
                (fault.class, fault.position),
                (expected, position),
                "{sql}: {failed}"
            );
        }
    }
}
