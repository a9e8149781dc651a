//! What SQLite finds wrong with a statement. It has one number for nearly all of it, so its words are read
//! (`sqlite3_result_error` and `sqlite3ErrorMsg` in its source).

use palisade::guard::{
    ConstraintKind, EngineFault, FaultClass, ViolatedConstraint, read_constraint_name,
};
use rusqlite::ffi;

/// What the engine was doing when it found a mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It compiled the statement, for which it reads the schema and no row.
    Preparing,
    /// It ran a query.
    Reading,
    /// It ran a change.
    Changing,
}

/// The beginnings of its messages, or what stands in them, and what they are about. The first that fits is taken.
const WORDS: &[(&str, FaultClass)] = &[
    ("integer overflow", FaultClass::OutOfRange),
    ("oversized integer", FaultClass::OutOfRange),
    ("hex literal too big", FaultClass::OutOfRange),
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
    ("no such function", FaultClass::NoSuchFunction),
    ("wrong number of arguments", FaultClass::ArgumentCount),
    ("too many arguments on function", FaultClass::ArgumentCount),
    (
        "misuse of aliased aggregate",
        FaultClass::MisplacedAggregate,
    ),
    ("misuse of aggregate", FaultClass::MisplacedAggregate),
    (
        "aggregate functions are not allowed in",
        FaultClass::MisplacedAggregate,
    ),
    (
        "misuse of aliased window function",
        FaultClass::WindowInCondition,
    ),
    ("misuse of window function", FaultClass::Misplaced),
    (
        "may not be used as a window function",
        FaultClass::OtherKindOfCall,
    ),
    ("FILTER may not be used", FaultClass::OtherKindOfCall),
    ("ORDER BY may not be used", FaultClass::OtherKindOfCall),
    ("DISTINCT aggregates must have", FaultClass::ArgumentCount),
    ("HAVING clause on a non-aggregate", FaultClass::NotGrouped),
    (
        "GROUP BY clause is required before HAVING",
        FaultClass::NotGrouped,
    ),
    ("BY term out of range", FaultClass::NoSuchPosition),
    ("ORDER BY term does not match any", FaultClass::Misplaced),
    ("clause should come after", FaultClass::Syntax),
    (
        "SELECTs to the left and right of",
        FaultClass::DifferentColumns,
    ),
    (
        "all VALUES must have the same number",
        FaultClass::ValueCount,
    ),
    (" values for ", FaultClass::ValueCount),
    (" columns assigned ", FaultClass::ValueCount),
    (" values were supplied", FaultClass::ValueCount),
    ("sub-select returns", FaultClass::SubqueryColumns),
    ("IN(...) element has", FaultClass::SubqueryColumns),
    ("row value misused", FaultClass::SubqueryColumns),
    (
        "multiple references to recursive table",
        FaultClass::InvalidRecursion,
    ),
    (
        "multiple recursive references",
        FaultClass::InvalidRecursion,
    ),
    (
        "recursive reference in a subquery",
        FaultClass::InvalidRecursion,
    ),
    ("circular reference", FaultClass::InvalidRecursion),
    ("recursive aggregate queries", FaultClass::InvalidRecursion),
    (
        "window functions in recursive queries",
        FaultClass::InvalidRecursion,
    ),
    (
        "ON CONFLICT clause does not match",
        FaultClass::NoConflictTarget,
    ),
    ("generated column", FaultClass::GeneratedColumn),
    ("duplicate WITH table name", FaultClass::NameTwice),
    ("duplicate column name", FaultClass::NameTwice),
    ("ambiguous column name", FaultClass::AmbiguousName),
    ("ambiguous reference to", FaultClass::AmbiguousName),
    ("no such column", FaultClass::UnknownName),
    ("no such table", FaultClass::UnknownName),
    ("no such window", FaultClass::UnknownName),
    ("has no column named", FaultClass::UnknownName),
    ("column not present in both tables", FaultClass::UnknownName),
    ("no such collation", FaultClass::Collation),
    ("argument of ", FaultClass::InvalidArgument),
    ("argument to ", FaultClass::InvalidArgument),
    ("frame starting offset", FaultClass::InvalidArgument),
    ("frame ending offset", FaultClass::InvalidArgument),
    ("DISTINCT is not supported", FaultClass::NotSupported),
    ("RANGE with offset", FaultClass::NotSupported),
    ("unsupported ", FaultClass::NotSupported),
    ("unable to use function", FaultClass::NotSupported),
    (": syntax error", FaultClass::Syntax),
    ("incomplete input", FaultClass::Syntax),
    ("unrecognized token", FaultClass::Syntax),
];

/// What an error is about that came up at `stage`; `None` where it is none of the statement.
pub(crate) fn read(error: &rusqlite::Error, stage: Stage) -> Option<EngineFault> {
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
    Some(EngineFault {
        code: format!("SQLITE_{}", code.extended_code),
        class: find_class(message, stage),
        message: message.clone(),
        position,
        is_of_preparation: stage == Stage::Preparing,
    })
}

/// Which constraint refused a change: by the number of the error, and columns by its words, which are names of the schema and no values
/// (`sqlite3UniqueConstraint` and its neighbours). Of a foreign key it has no name.
pub(crate) fn read_violated(error: &rusqlite::Error) -> Option<ViolatedConstraint> {
    let rusqlite::Error::SqliteFailure(code, message) = error else {
        return None;
    };
    let kind = match code.extended_code {
        ffi::SQLITE_CONSTRAINT_NOTNULL => ConstraintKind::NotNull,
        ffi::SQLITE_CONSTRAINT_UNIQUE
        | ffi::SQLITE_CONSTRAINT_PRIMARYKEY
        | ffi::SQLITE_CONSTRAINT_ROWID => ConstraintKind::Unique,
        ffi::SQLITE_CONSTRAINT_FOREIGNKEY => ConstraintKind::ForeignKey,
        ffi::SQLITE_CONSTRAINT_CHECK => ConstraintKind::Check,
        _ => return None,
    };
    let message = message.as_deref().unwrap_or_default();
    let about = message
        .split_once(" constraint failed: ")
        .map(|(_, about)| about);
    let columns: Option<Vec<(&str, &str)>> =
        about.and_then(|about| about.split(", ").map(|one| one.rsplit_once('.')).collect());
    let (table, name) = match (kind, columns) {
        (ConstraintKind::NotNull | ConstraintKind::Unique, Some(columns)) => {
            let names = columns
                .iter()
                .map(|(_, column)| read_constraint_name(column));
            let names: Option<Vec<String>> = names.collect();
            let table = columns.first().map(|(table, _)| (*table).to_owned());
            (table, names.map(|names| names.join(", ")))
        }
        (ConstraintKind::Check, _) => (None, about.and_then(read_constraint_name)),
        (
            ConstraintKind::NotNull
            | ConstraintKind::Unique
            | ConstraintKind::ForeignKey
            | ConstraintKind::Exclusion
            | ConstraintKind::Partition,
            _,
        ) => (None, None),
    };
    Some(ViolatedConstraint { kind, table, name })
}

fn find_class(message: &str, stage: Stage) -> FaultClass {
    if message == "datatype mismatch" {
        // It is said of a row's key too, which is where a change has it from.
        return match stage {
            Stage::Changing => FaultClass::InvalidText,
            Stage::Preparing | Stage::Reading => FaultClass::InvalidLimit,
        };
    }
    let found = WORDS.iter().find(|(words, _)| message.contains(words));
    found.map_or(FaultClass::Other, |(_, class)| *class)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

    use super::*;

    const TABLES: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, a, b, meta, g AS (a + 1));
        INSERT INTO t (id, a, b, meta) VALUES (1, 2, 3, '{}');";

    /// The fault of `sql`, as the backend reads it.
    fn fail(sql: &str) -> (EngineFault, Stage) {
        let conn = rusqlite::Connection::open_in_memory().unwrap();
        conn.execute_batch(TABLES).unwrap();
        let (error, stage) = match conn.prepare(sql) {
            Ok(mut statement) => {
                let stage = match statement.readonly() {
                    true => Stage::Reading,
                    false => Stage::Changing,
                };
                let ran = statement.query([]).and_then(|mut rows| {
                    while rows.next()?.is_some() {}
                    Ok(())
                });
                (ran.expect_err(sql), stage)
            }
            Err(error) => (error, Stage::Preparing),
        };
        (read(&error, stage).unwrap(), stage)
    }

    #[test]
    fn messages_have_kinds() {
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
            (
                "SELECT 'é', nosuch(1)",
                FaultClass::NoSuchFunction,
                Some(12),
            ),
            ("SELECT abs(1, 2)", FaultClass::ArgumentCount, Some(7)),
            ("SELECT nosuch", FaultClass::UnknownName, Some(7)),
            ("SELECT ntile(0) OVER ()", FaultClass::InvalidArgument, None),
            (
                "SELECT 1 WHERE sum(1) > 0",
                FaultClass::MisplacedAggregate,
                Some(15),
            ),
        ] {
            let (fault, _) = fail(sql);
            assert_eq!(
                (fault.class, fault.position),
                (expected, position),
                "{sql}: {}",
                fault.message
            );
        }
    }

    /// What ordinary mistakes give is found before a row is looked at.
    #[test]
    fn mistakes_in_the_text_are_of_preparation() {
        use FaultClass as Class;
        for (sql, expected) in [
            (
                "SELECT id, rank() OVER (ORDER BY a) AS r FROM t WHERE r <= 3",
                Class::WindowInCondition,
            ),
            (
                "SELECT id FROM t WHERE rank() OVER (ORDER BY a) <= 3",
                Class::Misplaced,
            ),
            ("SELECT a FROM t GROUP BY 3", Class::NoSuchPosition),
            ("SELECT a FROM t ORDER BY 5", Class::NoSuchPosition),
            (
                "SELECT a FROM t UNION SELECT b FROM t ORDER BY 7",
                Class::NoSuchPosition,
            ),
            ("SELECT rank() OVER w FROM t", Class::UnknownName),
            ("SELECT upper(a) OVER () FROM t", Class::OtherKindOfCall),
            (
                "SELECT upper(a) FILTER (WHERE b) FROM t",
                Class::OtherKindOfCall,
            ),
            (
                "SELECT count(DISTINCT a) OVER () FROM t",
                Class::NotSupported,
            ),
            (
                "SELECT group_concat(DISTINCT a, ',') FROM t",
                Class::ArgumentCount,
            ),
            (
                "SELECT a, sum(a) AS s FROM t WHERE s > 1",
                Class::MisplacedAggregate,
            ),
            ("SELECT sum(sum(a)) FROM t", Class::MisplacedAggregate),
            (
                "SELECT a, sum(b) FROM t GROUP BY sum(b)",
                Class::MisplacedAggregate,
            ),
            ("UPDATE t SET a = sum(b)", Class::MisplacedAggregate),
            ("SELECT a FROM t HAVING a > 1", Class::NotGrouped),
            (
                "SELECT a FROM t UNION SELECT a, b FROM t",
                Class::DifferentColumns,
            ),
            (
                "SELECT a, b FROM t EXCEPT SELECT a FROM t",
                Class::DifferentColumns,
            ),
            (
                "SELECT a FROM t LIMIT 1 UNION SELECT a FROM t",
                Class::Syntax,
            ),
            (
                "SELECT a FROM t WHERE a IN (SELECT a, b FROM t)",
                Class::SubqueryColumns,
            ),
            ("SELECT a FROM t WHERE (a, b) = 1", Class::SubqueryColumns),
            ("VALUES (1, 2), (3)", Class::ValueCount),
            ("INSERT INTO t (a, b) VALUES (1)", Class::ValueCount),
            ("INSERT INTO t VALUES (1)", Class::ValueCount),
            ("UPDATE t SET (a, b) = (SELECT 1)", Class::ValueCount),
            ("UPDATE t SET g = 1", Class::GeneratedColumn),
            ("INSERT INTO t (g) VALUES (1)", Class::GeneratedColumn),
            (
                "INSERT INTO t (a) VALUES (1) ON CONFLICT (b) DO NOTHING",
                Class::NoConflictTarget,
            ),
            (
                "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT sum(n) FROM r) SELECT * FROM r",
                Class::InvalidRecursion,
            ),
            (
                "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT r.n FROM r, r AS q) SELECT * FROM r",
                Class::InvalidRecursion,
            ),
            ("SELECT t.id FROM t, t", Class::AmbiguousName),
            ("SELECT a b c FROM t", Class::Syntax),
            ("SELECT * FROM", Class::Syntax),
        ] {
            let (fault, stage) = fail(sql);
            assert_eq!(stage, Stage::Preparing, "{sql}: {}", fault.message);
            assert!(fault.is_of_preparation, "{sql}");
            assert_eq!(fault.class, expected, "{sql}: {}", fault.message);
        }
    }

    /// What depends on rows is found while they are worked on, even where its words could be of the text.
    #[test]
    fn mistakes_in_values_are_of_no_preparation() {
        for sql in [
            "SELECT json_extract(meta, 'channel') FROM t",
            "SELECT abs(-9223372036854775806 - a) FROM t",
            "SELECT ntile(a - 2) OVER () FROM t",
            "SELECT sum(a) OVER (ROWS -1 PRECEDING) FROM t",
            "SELECT a FROM t LIMIT (SELECT meta FROM t)",
        ] {
            let (fault, stage) = fail(sql);
            assert_eq!(stage, Stage::Reading, "{sql}: {}", fault.message);
            assert!(!fault.is_of_preparation, "{sql}");
            assert_ne!(fault.class, FaultClass::Other, "{sql}: {}", fault.message);
        }
    }

    #[test]
    fn a_key_of_another_type_is_no_limit() {
        for (sql, expected) in [
            ("INSERT INTO t (id) VALUES ('abc')", FaultClass::InvalidText),
            (
                "INSERT INTO t (id) SELECT meta FROM t",
                FaultClass::InvalidText,
            ),
            ("UPDATE t SET id = 'x'", FaultClass::InvalidText),
            ("SELECT a FROM t LIMIT 'x'", FaultClass::InvalidLimit),
            (
                "SELECT a FROM t LIMIT 1 OFFSET 'x'",
                FaultClass::InvalidLimit,
            ),
        ] {
            let (fault, _) = fail(sql);
            assert_eq!(fault.class, expected, "{sql}: {}", fault.message);
        }
    }
}
