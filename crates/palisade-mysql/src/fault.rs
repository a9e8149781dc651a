//! What an error of the server means to the one who asked.

use mysql_async::{DriverError, Error, IoError, ServerError};
use mysql_common::proto::codec::error::PacketCodecError;
use palisade::guard::{
    BackendError, BackendErrorKind, ConstraintKind, EngineFault, FaultClass, ViolatedConstraint,
    read_constraint_name,
};

/// The kind of an error, and its text for the operator.
pub(crate) fn engine(error: &Error) -> BackendError {
    let kind = match error {
        Error::Server(server) => kind(server),
        Error::Driver(_) | Error::Io(_) if is_too_large(error) => BackendErrorKind::Resource,
        // A broken connection, or an answer that is not as the protocol says: either way nothing
        // more is to be had from this session.
        Error::Driver(_) | Error::Io(_) | Error::Other(_) | Error::Url(_) => {
            BackendErrorKind::Unavailable
        }
    };
    let failure = BackendError::new(kind, error.to_string());
    match (error, kind) {
        (Error::Server(server), BackendErrorKind::Rejected) => failure.with_fault(fault(server)),
        (
            Error::Server(_) | Error::Driver(_) | Error::Io(_) | Error::Other(_) | Error::Url(_),
            _,
        ) => failure,
    }
}

/// Whether a row has more bytes than the server's `max_allowed_packet`, which the driver takes for the most that comes.
fn is_too_large(error: &Error) -> bool {
    match error {
        Error::Driver(DriverError::PacketTooLarge) => true,
        Error::Io(IoError::Io(io)) => {
            let cause = io.get_ref().and_then(|cause| cause.downcast_ref());
            matches!(cause, Some(PacketCodecError::PacketTooLarge))
        }
        Error::Server(_) | Error::Driver(_) | Error::Io(_) | Error::Other(_) | Error::Url(_) => {
            false
        }
    }
}

/// What a server denied to the account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeniedGrant<'d> {
    /// The privilege, or several with commas between them.
    pub(crate) privilege: &'d str,
    /// The column that it is about, where it is not about the table.
    pub(crate) column: Option<&'d str>,
    /// The table's database, which some versions tell.
    pub(crate) database: Option<&'d str>,
    /// The table.
    pub(crate) table: &'d str,
}

/// What was denied, of the text of an error about the lack of a privilege on a table or on a column.
pub(crate) fn read_denied_grant(detail: &str) -> Option<DeniedGrant<'_>> {
    let of_table = detail.split_once("ERROR 1142 (42000): ");
    let of_column = detail.split_once("ERROR 1143 (42000): ");
    let (_, rest) = of_table.or(of_column)?;
    let (privilege, rest) = rest.split_once(" command denied to user ")?;
    let (column, table) = match of_table {
        Some(_) => (None, rest.rsplit_once(" for table ")?.1),
        None => {
            let (rest, table) = rest.rsplit_once(" in table ")?;
            let (_, column) = rest.rsplit_once(" for column ")?;
            (Some(column.trim_matches(is_quote)), table)
        }
    };
    let (database, table) = read_table(table)?;
    let is_privilege = privilege
        .bytes()
        .all(|b| b.is_ascii_uppercase() || b == b' ' || b == b',');
    is_privilege.then_some(DeniedGrant {
        privilege,
        column,
        database,
        table,
    })
}

/// The database, where it is told, and the table. MySQL and some versions of MariaDB write 'table', others `database`.`table`.
fn read_table(text: &str) -> Option<(Option<&str>, &str)> {
    let text = text.trim_end_matches(|c: char| !is_quote(c));
    let (rest, table) = text.trim_end_matches(is_quote).rsplit_once(is_quote)?;
    let database = rest.strip_suffix('.');
    Some((database.map(|name| name.trim_matches(is_quote)), table))
}

/// Whether it stands around a name in a message.
fn is_quote(c: char) -> bool {
    matches!(c, '\'' | '`')
}

/// As [`engine`], for a text that is being prepared.
pub(crate) fn prepare(error: &Error) -> BackendError {
    let mut failure = engine(error);
    if let Some(fault) = &mut failure.fault {
        fault.is_of_preparation = true;
    }
    failure
}

/// What the server found wrong. It tells no position but in its words.
///
/// Of what was being prepared, no number says: a mistake of the statement and one within a routine that it calls for a row have
/// the same numbers. The moment says it alone. A statement is resolved when it is prepared, by both servers, and so the numbers
/// of its grammar, names, aggregates and columns come then.
fn fault(server: &ServerError) -> EngineFault {
    let class = class(server.code, &server.message);
    EngineFault {
        code: server.code.to_string(),
        class,
        message: match class {
            // Of a routine of the database's own.
            FaultClass::Raised => String::new(),
            _ => server.message.clone(),
        },
        position: None,
        is_of_preparation: false,
    }
}

/// What an error is about, by its number. MySQL and MariaDB share those below 2000. Above, none of either's that a query or a change
/// meets is another's of the same number.
fn class(code: u16, message: &str) -> FaultClass {
    use FaultClass as Class;
    match code {
        1064 | 1149 => Class::Syntax,
        1365 => Class::DivisionByZero,
        1264 | 1690 | 1367 => Class::OutOfRange,
        // Of numbers and dates alike; what is no label of an ENUM or SET, or a number with letters behind it.
        1366 | 1292 | 1265 | 1416 => Class::InvalidText,
        1411 | 1441 | 1525 => Class::InvalidDate,
        1406 => Class::TooLong,
        1139 | 3685..=3699 => Class::InvalidPattern,
        3140..=3158 | 4036..=4047 => Class::InvalidJson,
        1300 => Class::InvalidEncoding,
        1267 | 1270 | 1271 | 1253 | 1273 | 1115 | 3995 => Class::Collation,
        1242 => Class::ManyRows,
        1241 => Class::SubqueryColumns,
        1222 => Class::DifferentColumns,
        // The last two are a list of names behind a view or a name of WITH.
        1136 | 1058 | 1353 | 4002 => Class::ValueCount,
        // Not permitted is what an account is told that may call none of the database's own.
        1305 | 1370 | 1128 | 1630 => Class::NoSuchFunction,
        1582 | 1318 => Class::ArgumentCount,
        1583 => Class::NoSuchCall,
        1055 | 1140 | 1463 => Class::NotGrouped,
        1054 if is_number(message) => Class::NoSuchPosition,
        1054 | 1109 | 1146 | 1193 | 1247 | 1250 | 1327 | 3579 | 4009 => Class::UnknownName,
        1052 => Class::AmbiguousName,
        1060 | 1066 | 1110 | 3591 | 4004 | 4010 => Class::NameTwice,
        1248 => Class::AliasMissing,
        1111 => Class::MisplacedAggregate,
        1056 | 3028 | 3029 | 3595 | 4016 => Class::Misplaced,
        // In a condition, or within an aggregate, which is worked out before windows are; the third by an alias.
        3593 | 4015 | 3594 | 4074 => Class::WindowInCondition,
        3065 | 3066 => Class::OrderOfDistinct,
        3573..=3577 | 4005 | 4006 | 4008 => Class::InvalidRecursion,
        1093 => Class::TargetRead,
        1906 | 3105 => Class::GeneratedColumn,
        // The last two are of a frame's RANGE.
        4078 | 3587 | 4021 => Class::TypeMismatch,
        // The second to fourth are digits of a type.
        1210 | 1425 | 1426 | 1427 | 1691 | 1692 | 3037 | 3616 => Class::InvalidArgument,
        // The last three are views that take no rows, and MATCH without its index.
        1235 | 1178 | 1221 | 1288 | 1471 | 1191 => Class::NotSupported,
        1644 | 1643 => Class::Raised,
        _ => Class::Other,
    }
}

/// Whether the first name that a message quotes is a number: that of a column in ORDER BY or GROUP BY. The catalog had each
/// column that a statement names.
fn is_number(message: &str) -> bool {
    let name = message.split('\'').nth(1).unwrap_or_default();
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit())
}

/// The kind of an error by its number
/// (<https://dev.mysql.com/doc/mysql-errors/9.0/en/server-error-reference.html>,
/// <https://mariadb.com/kb/en/mariadb-error-code-reference/>), which says more than its SQLSTATE: most have `HY000`.
fn kind(error: &ServerError) -> BackendErrorKind {
    use BackendErrorKind as Kind;
    match error.code {
        // It waited for a lock.
        1205 => Kind::Locked,
        // Interrupted; time limits of MySQL and MariaDB.
        1317 | 3024 | 1969 => Kind::Timeout,
        // Privileges on a database, table, column, or of the server; a read-only transaction or server. Which are the lack of a
        // grant is known with the statement alone.
        1044 | 1045 | 1142 | 1143 | 1227 | 1410 | 1792 | 1290 | 1836 | 1568 => Kind::SecondLock,
        // Not to be prepared; several statements are 1064 like every error of grammar.
        1295 => Kind::SecondLock,
        // Memory, sort and temporary space, stack, packets, JSON too deep, rows to examine.
        1037 | 1038 | 1041 | 1114 | 1119 | 1153 | 1301 | 1436 | 1104 | 3157 | 3636 | 1021
        | 1030 | 1931 | 4038 => Kind::Resource,
        // A deadlock; a row that changed since it was read.
        1213 | 1020 => Kind::Conflict,
        // Too many connections, of all or of one account; shutting down; host blocked; killed.
        1040 | 1203 | 1226 | 1053 | 1129 | 1130 | 1927 | 3169 | 4031 | 2006 | 2013 | 1077
        | 1080 => Kind::Unavailable,
        // Among the rest: a function that this server does not have, or this version of it. To an account that may call none
        // of the database's own it is one that is not permitted (1370), to others one that does not exist (1305).
        _ => Kind::Rejected,
    }
}

/// As [`engine`], for what changes rows or the schema: violated constraints have a kind of their own, and what belongs
/// to a more powerful account is as the database has it.
pub(crate) fn change(error: &Error) -> BackendError {
    let found = engine(error);
    match error {
        // Columns without a value, duplicate keys, foreign keys from both sides, conditions of MySQL and MariaDB, a
        // view's WITH CHECK OPTION, rows that no partition takes.
        Error::Server(server)
            if matches!(
                server.code,
                1048 | 1364
                    | 1062
                    | 1169
                    | 1557
                    | 1586
                    | 1859
                    | 1216
                    | 1217
                    | 1451
                    | 1452
                    | 1761
                    | 1762
                    | 3819
                    | 4025
                    | 1369
                    | 1526
            ) =>
        {
            BackendError::new(BackendErrorKind::Constraint, found.detail)
                .of_constraint(read_violated(server))
        }
        // MySQL keeps a view or a trigger of an account with SYSTEM_USER from those without, whatever else they may.
        Error::Server(server) if server.code == 1227 => BackendError::rejected(found.detail),
        Error::Server(_) | Error::Driver(_) | Error::Io(_) | Error::Other(_) | Error::Url(_) => {
            found
        }
    }
}

/// Which constraint refused a change. The server tells names in its message alone, each where no value of a row stands.
fn read_violated(server: &ServerError) -> Option<ViolatedConstraint> {
    let message = server.message.as_str();
    let within = |open: &str, close: char| {
        let (_, rest) = message.split_once(open)?;
        rest.split_once(close).map(|(name, _)| name)
    };
    let (kind, name) = match server.code {
        1048 | 1364 => (ConstraintKind::NotNull, within("'", '\'')),
        // The value of the row stands before the key.
        1062 | 1586 => {
            let key = message.rsplit_once(" for key ").map(|(_, key)| key);
            let key = key.map(|key| key.trim_matches('\''));
            // MySQL writes the table before it.
            let key = key.map(|key| key.rsplit('.').next().unwrap_or(key));
            (ConstraintKind::Unique, key)
        }
        1216 | 1217 | 1451 | 1452 | 1761 | 1762 => {
            (ConstraintKind::ForeignKey, within("CONSTRAINT `", '`'))
        }
        3819 => (ConstraintKind::Check, within("'", '\'')),
        4025 => (ConstraintKind::Check, within("CONSTRAINT `", '`')),
        1526 => (ConstraintKind::Partition, None),
        _ => return None,
    };
    Some(ViolatedConstraint {
        kind,
        table: None,
        name: name.and_then(read_constraint_name),
    })
}

/// As [`engine`], for what is looked at before a statement runs: relations that the catalog has.
pub(crate) fn opening(error: &Error) -> BackendError {
    match error {
        // Unknown database or table; a view whose tables changed; no privilege any more, or less than that.
        Error::Server(server) if matches!(server.code, 1049 | 1146 | 1356 | 1044 | 1142 | 1143) => {
            BackendError::schema_changed(format!("the schema changed: {error}"))
        }
        Error::Server(_) | Error::Driver(_) | Error::Io(_) | Error::Other(_) | Error::Url(_) => {
            engine(error)
        }
    }
}

/// Whether the session is gone, which a server that was restarted or closes idle sessions brings about.
pub(crate) fn is_lost(error: &Error) -> bool {
    match error {
        // Shut down; killed; idle for too long (MySQL 8).
        Error::Server(server) => matches!(server.code, 1053 | 1927 | 3169 | 4031),
        Error::Driver(_) | Error::Io(_) | Error::Other(_) | Error::Url(_) => true,
    }
}

/// Whether an answer to COMMIT says that nothing was kept.
pub(crate) fn is_rolled_back(error: &Error) -> bool {
    match error {
        // The engine's own failure while it committed, which does not say how far it had come.
        Error::Server(server) => !is_lost(error) && server.code != 1180,
        Error::Driver(_) | Error::Io(_) | Error::Other(_) | Error::Url(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(code: u16) -> ServerError {
        ServerError {
            code,
            message: String::new(),
            state: "HY000".to_owned(),
        }
    }

    fn server(code: u16) -> Error {
        Error::Server(numbered(code))
    }

    #[test]
    fn a_constraint_is_named_without_values() {
        let told = |code: u16, message: &str| {
            let server = ServerError {
                code,
                message: message.to_owned(),
                state: "23000".to_owned(),
            };
            let violated = change(&Error::Server(server)).violated?;
            Some((violated.kind, violated.name))
        };
        let named = |kind, name: &str| Some((kind, Some(name.to_owned())));
        for (code, message, expected) in [
            (
                1048,
                "Column 'email' cannot be null",
                named(ConstraintKind::NotNull, "email"),
            ),
            (
                1364,
                "Field 'email' doesn't have a default value",
                named(ConstraintKind::NotNull, "email"),
            ),
            (
                1062,
                "Duplicate entry 'a' for key 'b' for key 'u_email'",
                named(ConstraintKind::Unique, "u_email"),
            ),
            (
                1062,
                "Duplicate entry '1' for key 'people.PRIMARY'",
                named(ConstraintKind::Unique, "PRIMARY"),
            ),
            (
                1452,
                "Cannot add or update a child row: a foreign key constraint fails (`d`.`c`, CONSTRAINT `fk` FOREIGN KEY (`p`) REFERENCES `p` (`id`))",
                named(ConstraintKind::ForeignKey, "fk"),
            ),
            (
                3819,
                "Check constraint 'old' is violated.",
                named(ConstraintKind::Check, "old"),
            ),
            (
                4025,
                "CONSTRAINT `old` failed for `d`.`t`",
                named(ConstraintKind::Check, "old"),
            ),
            (
                1526,
                "Table has no partition for value 9",
                Some((ConstraintKind::Partition, None)),
            ),
            (1369, "CHECK OPTION failed `d`.`v`", None),
        ] {
            assert_eq!(told(code, message), expected, "{message}");
        }
    }

    #[test]
    fn what_is_denied_is_read() {
        let text = |table: &str| {
            format!(
                "Server error: `ERROR 1142 (42000): DROP command denied to user 'a'@'localhost' for table {table}'"
            )
        };
        let of = |privilege, column, database| {
            Some(DeniedGrant {
                privilege,
                column,
                database,
                table: "t",
            })
        };
        for (table, database) in [
            ("'t'", None),
            ("`d`.`t`", Some("d")),
            ("`d`.`t``", Some("d")),
        ] {
            let text = text(table);
            let found = read_denied_grant(&text);
            assert_eq!(found, of("DROP", None, database), "{table}");
        }
        for (names, database) in [
            ("'c' in table 't'", None),
            ("`c` in table `d`.`t`", Some("d")),
        ] {
            let text = format!(
                "Server error: `ERROR 1143 (42000): UPDATE command denied to user 'a'@'b' for column {names}'"
            );
            let found = read_denied_grant(&text);
            assert_eq!(found, of("UPDATE", Some("c"), database), "{names}");
        }
        for other in [
            "ERROR 1143 (42000): UPDATE command denied to user 'a'@'b' for table 't'",
            "ERROR 1142 (42000): SELECT command with locking clause command denied to user 'a'@'b' for table 't'",
            "ERROR 1044 (42000): Access denied for user 'a'@'b' to database 'd'",
            "",
        ] {
            assert_eq!(read_denied_grant(other), None, "{other}");
        }
    }

    #[test]
    fn what_another_account_has_is_refused_and_no_contradiction() {
        let kind = |code| change(&server(code)).kind;
        assert_eq!(kind(1227), BackendErrorKind::Rejected);
        assert_eq!(kind(1142), BackendErrorKind::SecondLock);
    }

    #[test]
    fn numbers_have_kinds() {
        use BackendErrorKind as Kind;
        for (codes, expected) in [
            (&[1205][..], Kind::Locked),
            (&[1317, 3024, 1969][..], Kind::Timeout),
            (
                &[1044, 1045, 1142, 1143, 1227, 1410, 1792, 1290, 1836, 1568],
                Kind::SecondLock,
            ),
            (&[1295], Kind::SecondLock),
            (&[1436, 1153, 1114, 3157], Kind::Resource),
            (&[1213, 1020], Kind::Conflict),
            (&[1040, 1053, 1927, 4031], Kind::Unavailable),
            (&[1370, 1054, 1064, 1365, 1062], Kind::Rejected),
        ] {
            for code in codes {
                assert_eq!(kind(&numbered(*code)), expected, "{code}");
            }
        }
    }

    #[test]
    fn numbers_have_classes() {
        use FaultClass as Class;
        for (codes, expected) in [
            (&[1064, 1149][..], Class::Syntax),
            (&[1365], Class::DivisionByZero),
            (&[1264, 1690], Class::OutOfRange),
            (&[1265, 1292, 1366], Class::InvalidText),
            (&[1525], Class::InvalidDate),
            (&[1406], Class::TooLong),
            (&[1139, 3685, 3699], Class::InvalidPattern),
            (&[3140, 3158, 4047], Class::InvalidJson),
            (&[1300], Class::InvalidEncoding),
            (&[1267], Class::Collation),
            (&[1242], Class::ManyRows),
            (&[1241], Class::SubqueryColumns),
            (&[1222], Class::DifferentColumns),
            (&[1136, 1353, 4002], Class::ValueCount),
            (&[1305, 1370, 1128, 1630], Class::NoSuchFunction),
            (&[1582], Class::ArgumentCount),
            (&[1583], Class::NoSuchCall),
            (&[1055, 1140], Class::NotGrouped),
            (&[1054, 1250, 1327, 3579], Class::UnknownName),
            (&[1052], Class::AmbiguousName),
            (&[1060, 1066, 1110, 4004], Class::NameTwice),
            (&[1248], Class::AliasMissing),
            (&[1111], Class::MisplacedAggregate),
            (&[1056, 3029, 4016], Class::Misplaced),
            (&[3593, 3594, 4015, 4074], Class::WindowInCondition),
            (&[3065], Class::OrderOfDistinct),
            (&[3573, 3577, 4005, 4008], Class::InvalidRecursion),
            (&[1093], Class::TargetRead),
            (&[1906, 3105], Class::GeneratedColumn),
            (&[4078, 4021, 3587], Class::TypeMismatch),
            (&[1210, 1426], Class::InvalidArgument),
            (&[1235, 1288, 1191], Class::NotSupported),
            (&[1644], Class::Raised),
            (&[1, 3159, 3700], Class::Other),
        ] {
            for code in codes {
                assert_eq!(class(*code, ""), expected, "{code}");
            }
        }
    }

    #[test]
    fn a_number_that_no_column_has_is_no_name() {
        for (message, expected) in [
            (
                "Unknown column '5' in 'order clause'",
                FaultClass::NoSuchPosition,
            ),
            (
                "Unknown column '12' in 'GROUP BY'",
                FaultClass::NoSuchPosition,
            ),
            (
                "Unbekanntes Tabellenfeld '5' in ORDER BY",
                FaultClass::NoSuchPosition,
            ),
            (
                "Unknown column 'a5' in 'order clause'",
                FaultClass::UnknownName,
            ),
            (
                "Unknown column '' in 'order clause'",
                FaultClass::UnknownName,
            ),
            ("Unknown column", FaultClass::UnknownName),
        ] {
            assert_eq!(class(1054, message), expected, "{message}");
        }
    }

    #[test]
    fn what_a_routine_raises_is_not_quoted() {
        for (code, message) in [(1644, ""), (1054, "words")] {
            let mut error = numbered(code);
            error.message = "words".to_owned();
            assert_eq!(fault(&error).message, message, "{code}");
        }
    }

    #[test]
    fn only_the_statements_own_mistakes_have_a_fault() {
        let of_preparation = |code| prepare(&server(code)).fault.map(|f| f.is_of_preparation);
        assert_eq!(of_preparation(1054), Some(true));
        assert_eq!(of_preparation(1142), None);
        let later = engine(&server(1054)).fault.map(|f| f.is_of_preparation);
        assert_eq!(later, Some(false));
        let lost = engine(&Error::Driver(DriverError::ConnectionClosed));
        assert_eq!(
            (lost.kind, lost.fault.is_none()),
            (BackendErrorKind::Unavailable, true)
        );
        let large = engine(&Error::Driver(DriverError::PacketTooLarge));
        assert_eq!(large.kind, BackendErrorKind::Resource);
    }

    #[test]
    fn violated_constraints_have_a_kind_of_their_own() {
        for code in [
            1048, 1364, 1062, 1169, 1557, 1586, 1859, 1216, 1217, 1451, 1452, 1761, 1762, 3819,
            4025, 1369,
        ] {
            let failure = change(&server(code));
            assert_eq!(failure.kind, BackendErrorKind::Constraint, "{code}");
            assert!(failure.fault.is_none(), "{code}");
        }
        assert_eq!(change(&server(1213)).kind, BackendErrorKind::Conflict);
    }

    #[test]
    fn what_is_missing_when_it_is_opened_was_changed() {
        for (code, expected) in [
            (1049, BackendErrorKind::SchemaChanged),
            (1146, BackendErrorKind::SchemaChanged),
            (1356, BackendErrorKind::SchemaChanged),
            (1044, BackendErrorKind::SchemaChanged),
            (1142, BackendErrorKind::SchemaChanged),
            (1143, BackendErrorKind::SchemaChanged),
            (1045, BackendErrorKind::SecondLock),
            (1205, BackendErrorKind::Locked),
        ] {
            assert_eq!(opening(&server(code)).kind, expected, "{code}");
        }
    }

    #[test]
    fn a_commit_is_rolled_back_where_the_server_lives_to_say_so() {
        let closed = || Error::Driver(DriverError::ConnectionClosed);
        for (error, lost, rolled_back) in [
            (server(1053), true, false),
            (server(1927), true, false),
            (server(3169), true, false),
            (server(4031), true, false),
            (closed(), true, false),
            (server(1180), false, false),
            (server(1213), false, true),
        ] {
            let found = (is_lost(&error), is_rolled_back(&error));
            assert_eq!(found, (lost, rolled_back), "{error}");
        }
    }
}
