//! What an error of the server means to the one who asked.

use mysql_async::{DriverError, Error, ServerError};
use palisade::guard::{BackendError, BackendErrorKind, EngineFault, FaultClass};

/// The kind of an error, and its text for the operator.
pub(crate) fn engine(error: &Error) -> BackendError {
    let kind = match error {
        Error::Server(server) => kind(server),
        // An answer larger than we said that we take.
        Error::Driver(DriverError::PacketTooLarge) => BackendErrorKind::Resource,
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

/// As [`engine`], for a text that is being prepared.
pub(crate) fn prepare(error: &Error) -> BackendError {
    let mut failure = engine(error);
    if let Some(fault) = &mut failure.fault {
        fault.is_of_preparation = true;
    }
    failure
}

/// What the server found wrong. It tells no position but in its words.
fn fault(server: &ServerError) -> EngineFault {
    let class = class(server.code);
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

/// What an error is about, by its number.
fn class(code: u16) -> FaultClass {
    use FaultClass as Class;
    match code {
        1365 => Class::DivisionByZero,
        1264 | 1690 | 1367 => Class::OutOfRange,
        // Of numbers and dates alike.
        1366 | 1292 => Class::InvalidText,
        1411 | 1441 | 1525 => Class::InvalidDate,
        1406 | 1265 => Class::TooLong,
        1139 | 3685..=3699 => Class::InvalidPattern,
        3140..=3158 | 4036..=4047 => Class::InvalidJson,
        1300 => Class::InvalidEncoding,
        1267 | 1270 | 1271 | 1253 | 1273 | 1115 | 3995 => Class::Collation,
        1242 => Class::ManyRows,
        1241 | 1222 => Class::TypeMismatch,
        1305 | 1582 | 1583 | 1370 | 1128 => Class::NoSuchCall,
        1055 | 1140 | 1463 => Class::NotGrouped,
        1054 | 1109 | 1146 | 1247 => Class::UnknownName,
        1052 | 1066 | 1060 => Class::AmbiguousName,
        1111 | 1056 | 3029 | 3591 | 3593 | 3594 | 4015 | 4016 => Class::Misplaced,
        4078 => Class::TypeMismatch,
        1210 | 1691 | 1692 | 3037 | 3616 => Class::InvalidArgument,
        1235 | 1178 | 1221 => Class::NotSupported,
        1644 | 1643 => Class::Raised,
        _ => Class::Other,
    }
}

/// The kind of an error by its number
/// (<https://dev.mysql.com/doc/mysql-errors/9.0/en/server-error-reference.html>,
/// <https://mariadb.com/kb/en/mariadb-error-code-reference/>), which says more than its SQLSTATE: most have `HY000`.
fn kind(error: &ServerError) -> BackendErrorKind {
    use BackendErrorKind as Kind;
    match error.code {
        // Interrupted; time limits of MySQL and MariaDB; waits for a lock.
        1317 | 3024 | 1969 | 1205 => Kind::Timeout,
        // Privileges on a database, table, column, or of the server; a read-only transaction or server.
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
        // view's WITH CHECK OPTION.
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
            ) =>
        {
            BackendError::new(BackendErrorKind::Constraint, found.detail)
        }
        // MySQL keeps a view or a trigger of an account with SYSTEM_USER from those without, whatever else they may.
        Error::Server(server) if server.code == 1227 => BackendError::rejected(found.detail),
        Error::Server(_) | Error::Driver(_) | Error::Io(_) | Error::Other(_) | Error::Url(_) => {
            found
        }
    }
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

    #[test]
    fn what_another_account_has_is_refused_and_no_contradiction() {
        let kind = |code| change(&Error::Server(numbered(code))).kind;
        assert_eq!(kind(1227), BackendErrorKind::Rejected);
        assert_eq!(kind(1142), BackendErrorKind::SecondLock);
    }

    #[test]
    fn numbers_have_kinds() {
        use BackendErrorKind as Kind;
        for (code, expected) in [
            (1969, Kind::Timeout),
            (3024, Kind::Timeout),
            (1317, Kind::Timeout),
            (1792, Kind::SecondLock),
            (1142, Kind::SecondLock),
            (1227, Kind::SecondLock),
            (1370, Kind::Rejected),
            (1436, Kind::Resource),
            (1213, Kind::Conflict),
            (1040, Kind::Unavailable),
            (1054, Kind::Rejected),
            (1064, Kind::Rejected),
            (1365, Kind::Rejected),
        ] {
            assert_eq!(kind(&numbered(code)), expected, "{code}");
        }
    }
}
