//! What an error of the server means to the one who asked.

use palisade::guard::{
    BackendError, BackendErrorKind, ConstraintKind, EngineFault, FaultClass, ViolatedConstraint,
};
use tokio_postgres::error::{DbError, ErrorPosition, Severity};

use crate::introspect::chain;

/// The kind of an error, and its text for the operator.
pub(crate) fn engine(error: &tokio_postgres::Error) -> BackendError {
    match error.as_db_error() {
        Some(db) => {
            let kind = match kind(db.code().code()) {
                BackendErrorKind::SecondLock if lacks_grant(db) => BackendErrorKind::NotGranted,
                // An internal error of one statement, such as a value that a type's own code refuses: the session goes on.
                BackendErrorKind::Unavailable
                    if db.code().code() == "XX000"
                        && db.parsed_severity() == Some(Severity::Error) =>
                {
                    BackendErrorKind::Rejected
                }
                kind => kind,
            };
            let failure = BackendError::new(kind, detail(db));
            match kind {
                BackendErrorKind::Rejected => failure.with_fault(fault(db, false)),
                _ => failure,
            }
        }
        // A broken connection, or an answer that is not as the protocol says: either way nothing
        // more is to be had from this session.
        None => BackendError::new(BackendErrorKind::Unavailable, chain(error)),
    }
}

/// As [`engine`], for the moment when a statement that was prepared becomes a cursor's. That is when the
/// server's own grammar says that it is no query.
pub(crate) fn cursor(error: &tokio_postgres::Error) -> BackendError {
    let Some(db) = error.as_db_error() else {
        return engine(error);
    };
    // The text parsed a moment ago, so that what is wrong is what kind of statement it is. The second is
    // a query that writes: `transformDeclareCursorStmt` in src/backend/parser/analyze.c.
    let is_no_query = is_of_grammar(db)
        || matches!(
            db.routine(),
            Some("transformDeclareCursorStmt" | "PerformCursorOpen")
        );
    if is_no_query {
        BackendError::second_lock(detail(db))
    } else {
        engine(error)
    }
}

/// Whether the server's own parser says that a text is not of its grammar. Types have grammars of their own, whose errors
/// have the same code (ltree); they stand in other files than src/backend/parser.
fn is_of_grammar(db: &DbError) -> bool {
    let is_of_parser = |file: &str| {
        file.starts_with("parse_")
            || matches!(
                file,
                "scan.l" | "scan.c" | "gram.y" | "gram.c" | "parser.c" | "analyze.c"
            )
    };
    db.code().code() == "42601" && db.file().is_none_or(is_of_parser)
}

/// Whether the account lacks a privilege on a relation. The routine is the same for all kinds of objects (`aclcheck_error` in
/// src/backend/catalog/aclchk.c), but for numbers of a sequence; a server that speaks another language says no more than that it refuses.
fn lacks_grant(db: &DbError) -> bool {
    let object = db.message().strip_prefix("permission denied for ");
    let kinds = [
        "table ",
        "view ",
        "materialized view ",
        "foreign table ",
        "sequence ",
        "schema ",
    ];
    db.code().code() == "42501"
        && matches!(db.routine(), Some("aclcheck_error" | "nextval_internal"))
        && object.is_some_and(|object| kinds.iter().any(|kind| object.starts_with(kind)))
}

/// The kind of an error by its SQLSTATE
/// (<https://www.postgresql.org/docs/current/errcodes-appendix.html>).
fn kind(code: &str) -> BackendErrorKind {
    use BackendErrorKind as Kind;
    let (class, _) = code.split_at_checked(2).unwrap_or((code, ""));
    match (class, code) {
        // Cancelled; idle in a transaction; a transaction that took too long; a lock.
        (_, "55P03") => Kind::Locked,
        (_, "57014" | "25P03" | "25P04") => Kind::Timeout,
        // More than one statement where one was prepared is 42601 at that point too: see `prepare`.
        // Read-only transaction, its mode or a session's to be changed, privileges, a function that writes.
        (_, "25006" | "25001" | "42501" | "2F002" | "2F003" | "2F004") => Kind::SecondLock,
        ("38", "38002" | "38003" | "38004") => Kind::SecondLock,
        ("28" | "0L" | "0P", _) => Kind::SecondLock,
        // Too many connections.
        (_, "53300") => Kind::Unavailable,
        // Whether anything was kept is not known.
        (_, "40003") => Kind::Unavailable,
        // Another transaction's change, a deadlock, or recovery on a standby, which may pass.
        ("40", _) => Kind::Conflict,
        ("53" | "54", _) => Kind::Resource,
        ("08" | "57" | "58" | "F0" | "XX", _) => Kind::Unavailable,
        (_, _) => Kind::Rejected,
    }
}

/// As [`engine`], for the moment when a statement that was prepared is planned, which the grammar of `EXPLAIN` allows to
/// few kinds.
pub(crate) fn plan(error: &tokio_postgres::Error) -> BackendError {
    match error.as_db_error() {
        // The second is a change in WITH, which is no part of another statement.
        Some(db) if is_of_grammar(db) || db.routine() == Some("analyzeCTE") => {
            BackendError::second_lock(detail(db))
        }
        Some(_) | None => engine(error),
    }
}

/// As [`engine`], for what changes rows: violated constraints have a kind of their own.
pub(crate) fn change(error: &tokio_postgres::Error) -> BackendError {
    let class = error.as_db_error().and_then(|db| db.code().code().get(..2));
    let kind = match class {
        // Integrity constraints; a view's WITH CHECK OPTION.
        Some("23" | "44") => Some(BackendErrorKind::Constraint),
        Some(_) | None => None,
    };
    let violated = error.as_db_error().and_then(read_violated);
    let error = engine(error);
    BackendError {
        kind: kind.unwrap_or(error.kind),
        ..error
    }
    .of_constraint(violated)
}

/// Which constraint refused a change, by the fields of the error. What a function raises by itself can hold anything.
fn read_violated(db: &DbError) -> Option<ViolatedConstraint> {
    let of_partitions = ["ExecFindPartition", "ExecPartitionCheckEmitError"];
    let is_of_partitions = || db.routine().is_some_and(|one| of_partitions.contains(&one));
    let (kind, name) = match db.code().code() {
        "23502" => (ConstraintKind::NotNull, db.column()),
        "23505" => (ConstraintKind::Unique, db.constraint()),
        "23503" => (ConstraintKind::ForeignKey, db.constraint()),
        "23514" if is_of_partitions() => (ConstraintKind::Partition, None),
        "23514" => (ConstraintKind::Check, db.constraint()),
        "23P01" => (ConstraintKind::Exclusion, db.constraint()),
        _ => return None,
    };
    (db.routine() != Some("exec_stmt_raise")).then(|| ViolatedConstraint {
        kind,
        table: db.table().map(str::to_owned),
        name: name.map(str::to_owned),
    })
}

/// Whether an answer to COMMIT says that nothing was kept. An error that ends the session does not, nor what a proxy
/// says of a connection that it lost.
pub(crate) fn is_rolled_back(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|db| {
        let code = db.code().code();
        // `statement_completion_unknown`.
        let is_unknown = code.starts_with("08") || code == "40003";
        db.parsed_severity() == Some(Severity::Error) && !is_unknown
    })
}

/// As [`engine`], for a text that is being prepared.
pub(crate) fn prepare(error: &tokio_postgres::Error) -> BackendError {
    match error.as_db_error() {
        // `exec_parse_message` in src/backend/tcop/postgres.c: several statements in one text.
        Some(db) if db.routine() == Some("exec_parse_message") => {
            BackendError::second_lock(detail(db))
        }
        Some(db) if is_missing(db.code().code()) => {
            BackendError::new(BackendErrorKind::NameNotFound, detail(db))
                .with_fault(fault(db, true))
        }
        Some(db) => match engine(error) {
            failure @ BackendError {
                kind: BackendErrorKind::Rejected,
                detail: _,
                fault: _,
                violated: _,
            } => failure.with_fault(fault(db, true)),
            failure => failure,
        },
        None => engine(error),
    }
}

/// Whether a text was not looked at since another one of its transaction has failed (`in_failed_sql_transaction`).
pub(crate) fn is_of_aborted(error: &tokio_postgres::Error) -> bool {
    error
        .as_db_error()
        .is_some_and(|db| db.code().code() == "25P02")
}

/// What the server found wrong.
fn fault(db: &DbError, is_of_preparation: bool) -> EngineFault {
    let position = match db.position() {
        Some(ErrorPosition::Original(at)) => usize::try_from(*at).ok(),
        Some(ErrorPosition::Internal {
            position: _,
            query: _,
        })
        | None => None,
    };
    // What another statement said below this one, in a function, is not the server's own.
    let is_own = db.where_().is_none_or(|context| {
        context.starts_with("JSON data,") || context.contains("portal parameter $")
    });
    EngineFault {
        code: db.code().code().to_owned(),
        class: class(&Said::new(db)),
        message: if is_own {
            db.message().to_owned()
        } else {
            String::new()
        },
        // Another text goes to the server than the one that was prepared, once it runs.
        position: position
            .filter(|_| is_of_preparation && is_own)
            .map(|at| at.saturating_sub(1)),
        is_of_preparation,
    }
}

/// What of an error says what it is about.
#[derive(Debug, Clone, Copy)]
struct Said<'a> {
    code: &'a str,
    /// The server's routine that found it, where it says so.
    routine: &'a str,
    /// Its message, in whatever language the server speaks: only a superuser may set `lc_messages`. Key words are the same in each.
    message: &'a str,
    is_of_grammar: bool,
}

impl<'a> Said<'a> {
    fn new(db: &'a DbError) -> Self {
        Self {
            code: db.code().code(),
            routine: db.routine().unwrap_or_default(),
            message: db.message(),
            is_of_grammar: is_of_grammar(db),
        }
    }
}

/// What an error is about, by its SQLSTATE
/// (<https://www.postgresql.org/docs/current/errcodes-appendix.html>), and where that says little, by the routine that found it.
fn class(said: &Said<'_>) -> FaultClass {
    use FaultClass as Class;
    let (class, _) = said.code.split_at_checked(2).unwrap_or((said.code, ""));
    match (class, said.code) {
        (_, "22012") => Class::DivisionByZero,
        (_, "22003") => Class::OutOfRange,
        (_, "22007" | "22008") => Class::InvalidDate,
        (_, "22P02" | "22P03" | "22018") => Class::InvalidText,
        (_, "22001") => Class::TooLong,
        (_, "2201B" | "22019" | "2200C" | "22025" | "2200D" | "22P06") => Class::InvalidPattern,
        (_, "2201W" | "2201X") => Class::InvalidLimit,
        (_, "22021" | "22P05") => Class::InvalidEncoding,
        (_, code) if code.starts_with("2203") => Class::InvalidJson,
        ("22", _) => Class::InvalidArgument,
        (_, "21000") => Class::ManyRows,
        (_, "42601") => syntax(said),
        (_, "42883") if said.routine == "op_error" => Class::NoSuchOperator,
        (_, "42883") => Class::NoSuchCall,
        (_, "42725") => Class::AmbiguousCall,
        (_, "42804") => Class::TypeMismatch,
        (_, "42846") => Class::NoSuchCast,
        (_, "42P18" | "42P08") => Class::UnknownParameterType,
        (_, "42803") => aggregate(said),
        (_, "42809") => match said.routine {
            "ParseFuncOrColumn" => Class::OtherKindOfCall,
            "unknown_attribute" => Class::UnknownName,
            _ => Class::TypeMismatch,
        },
        (_, "42P21" | "42P22") => Class::Collation,
        (_, "42703" | "42P01" | "3F000" | "42704") => Class::UnknownName,
        (_, "42702" | "42P09") => Class::AmbiguousName,
        (_, "42701" | "42712") => Class::NameTwice,
        (_, "428C9") => Class::GeneratedColumn,
        (_, "42P10") => match said.routine {
            "findTargetlistEntrySQL92" => Class::NoSuchPosition,
            "transformDistinctOnClause" | "transformDistinctClause" => Class::OrderOfDistinct,
            "infer_arbiter_indexes" => Class::NoConflictTarget,
            _ => Class::Misplaced,
        },
        (_, "42P19") => Class::InvalidRecursion,
        (_, "42P20") => match said.routine {
            "transformWindowFuncCall" if stands_in_condition(said) => Class::WindowInCondition,
            "transformWindowFuncCall" => Class::Misplaced,
            // Of a window's frame.
            _ => Class::InvalidArgument,
        },
        ("0A", _) => Class::NotSupported,
        ("P0" | "38" | "39", _) => Class::Raised,
        (_, _) => Class::Other,
    }
}

/// What a `syntax_error` is about: the analysis of a statement has others than the grammar.
fn syntax(said: &Said<'_>) -> FaultClass {
    match said.routine {
        "transformSubLink" => FaultClass::SubqueryColumns,
        "transformSetOperationTree" => FaultClass::DifferentColumns,
        "transformInsertRow" | "transformValuesClause" | "transformMultiAssignRef" => {
            FaultClass::ValueCount
        }
        // Of the rewriter, which names a column.
        "process_matched_tle" => FaultClass::NameTwice,
        // PostgreSQL 15 asks for one, and has an action of its grammar say so.
        "base_yyparse" if said.message.contains(" in FROM must have an alias") => {
            FaultClass::AliasMissing
        }
        _ if said.is_of_grammar => FaultClass::Syntax,
        // Types have grammars of their own.
        _ => FaultClass::InvalidText,
    }
}

/// What a `grouping_error` is about. The routine that finds a column outside of GROUP BY has other names in other versions.
fn aggregate(said: &Said<'_>) -> FaultClass {
    match said.routine {
        "check_agglevels_and_constraints" if stands_in_condition(said) => {
            FaultClass::AggregateInCondition
        }
        // The first also refuses aggregates in GROUP BY, UPDATE, FILTER and others.
        "check_agglevels_and_constraints" | "check_agg_arguments" => FaultClass::MisplacedAggregate,
        // A window function in an aggregate.
        "check_agg_arguments_walker" => FaultClass::WindowInCondition,
        "finalize_grouping_exprs_walker" => FaultClass::InvalidArgument,
        _ => FaultClass::NotGrouped,
    }
}

/// Whether a message of misplaced expressions is about a condition: WHERE, HAVING or that of a join.
fn stands_in_condition(said: &Said<'_>) -> bool {
    let conditions = ["WHERE", "HAVING", "JOIN"];
    conditions.iter().any(|word| said.message.contains(word))
}

/// Whether a name has no object, by SQLSTATE: a schema, relation or column. The catalog had each of those
/// that a statement of ours names; a function or an operator is missing where only its arguments are wrong.
fn is_missing(code: &str) -> bool {
    matches!(code, "3F000" | "42P01" | "42703")
}

/// What the server said, for the operator.
fn detail(error: &DbError) -> String {
    let place = match lacks_grant(error) && error.where_().is_some() {
        true => IN_FUNCTION,
        false => "",
    };
    format!("{} {}{place}", error.code().code(), error.message())
}

/// What stands behind the detail of a missing grant that a function or a trigger needs.
pub(crate) const IN_FUNCTION: &str = " (in a function)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_kinds() {
        use BackendErrorKind as Kind;
        for (code, expected) in [
            ("57014", Kind::Timeout),
            ("55P03", Kind::Locked),
            ("25P03", Kind::Timeout),
            ("25P04", Kind::Timeout),
            ("25006", Kind::SecondLock),
            ("25001", Kind::SecondLock),
            ("42501", Kind::SecondLock),
            ("2F002", Kind::SecondLock),
            ("2F003", Kind::SecondLock),
            ("2F004", Kind::SecondLock),
            ("28000", Kind::SecondLock),
            ("0L000", Kind::SecondLock),
            ("0P000", Kind::SecondLock),
            ("38002", Kind::SecondLock),
            ("38003", Kind::SecondLock),
            ("38004", Kind::SecondLock),
            ("38001", Kind::Rejected),
            ("53200", Kind::Resource),
            ("53300", Kind::Unavailable),
            ("54001", Kind::Resource),
            ("57P01", Kind::Unavailable),
            ("08006", Kind::Unavailable),
            ("40001", Kind::Conflict),
            ("40P01", Kind::Conflict),
            ("40003", Kind::Unavailable),
            ("XX000", Kind::Unavailable),
            ("22012", Kind::Rejected),
            ("22P02", Kind::Rejected),
            ("42703", Kind::Rejected),
            ("0A000", Kind::Rejected),
            ("", Kind::Rejected),
        ] {
            assert_eq!(kind(code), expected, "{code}");
        }
    }

    #[test]
    fn mistakes_have_classes() {
        for (code, expected) in [
            ("22012", FaultClass::DivisionByZero),
            ("22003", FaultClass::OutOfRange),
            ("22007", FaultClass::InvalidDate),
            ("22008", FaultClass::InvalidDate),
            ("22P02", FaultClass::InvalidText),
            ("22018", FaultClass::InvalidText),
            ("22001", FaultClass::TooLong),
            ("2201B", FaultClass::InvalidPattern),
            ("22025", FaultClass::InvalidPattern),
            ("2201W", FaultClass::InvalidLimit),
            ("22021", FaultClass::InvalidEncoding),
            ("22030", FaultClass::InvalidJson),
            ("2203A", FaultClass::InvalidJson),
            ("22023", FaultClass::InvalidArgument),
            ("21000", FaultClass::ManyRows),
            ("42883", FaultClass::NoSuchCall),
            ("42725", FaultClass::AmbiguousCall),
            ("42804", FaultClass::TypeMismatch),
            ("42846", FaultClass::NoSuchCast),
            ("42P18", FaultClass::UnknownParameterType),
            ("42803", FaultClass::NotGrouped),
            ("42P22", FaultClass::Collation),
            ("42703", FaultClass::UnknownName),
            ("42P01", FaultClass::UnknownName),
            ("42702", FaultClass::AmbiguousName),
            ("42P10", FaultClass::Misplaced),
            ("42P19", FaultClass::InvalidRecursion),
            ("42701", FaultClass::NameTwice),
            ("42712", FaultClass::NameTwice),
            ("428C9", FaultClass::GeneratedColumn),
            ("0A000", FaultClass::NotSupported),
            ("38001", FaultClass::Raised),
            ("39004", FaultClass::Raised),
            ("P0001", FaultClass::Raised),
            ("", FaultClass::Other),
        ] {
            let said = Said {
                code,
                routine: "",
                message: "",
                is_of_grammar: true,
            };
            assert_eq!(class(&said), expected, "{code}");
        }
    }

    #[test]
    fn names_are_missing_of_what_the_catalog_has() {
        for (code, expected) in [
            ("3F000", true),
            ("42P01", true),
            ("42703", true),
            ("42883", false),
            ("42501", false),
        ] {
            assert_eq!(is_missing(code), expected, "{code}");
        }
    }
}
