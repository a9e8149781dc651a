//! What every session of ours sets, so that text means what the firewall took it to mean.

/// Run when a session begins and after each reset: constants only.
///
/// An account, a server's file or `init_connect` can have any of these otherwise, and each changes what a
/// statement means, how a value is printed, or what the session may do.
///
/// `sql_mode` is strict like each product's default, and neither `ANSI_QUOTES` nor `PIPES_AS_CONCAT` nor
/// `NO_BACKSLASH_ESCAPES`, with which the same text is another statement. `ONLY_FULL_GROUP_BY` is in MySQL's default
/// and not in MariaDB's. What only writing notices (`NO_ZERO_DATE`, `NO_AUTO_CREATE_USER`) is left out.
///
/// Statements see what was committed before each of them, so that the schema is looked at as it is. The access
/// mode is the session's: `START TRANSACTION READ ONLY` alone stops no DDL, which would commit it.
pub(crate) const SETUP: &str = "SET SESSION sql_mode = \
     IF(LOCATE('mariadb', LOWER(VERSION())) > 0, \
        'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', \
        'ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'), \
     time_zone = '+00:00', autocommit = 1, sql_auto_is_null = 0, div_precision_increment = 4, \
     lc_time_names = 'en_US', default_week_format = 0, timestamp = DEFAULT, \
     lock_wait_timeout = 1, innodb_lock_wait_timeout = 1; \
     SET NAMES utf8mb4; \
     SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; \
     SET SESSION TRANSACTION READ ONLY";

/// `text` as a string literal under [`SETUP`].
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// `name` as an identifier.
pub(crate) fn identifier(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_kept_in() {
        assert_eq!(literal(r"a'\"), r"'a''\\'");
        assert_eq!(identifier("a`b"), "`a``b`");
    }
}
