//! What every session of ours sets, so that text means what the firewall took it to mean.

use std::time::Duration;

use palisade::{ident, limits::Limits};

/// Settings of a transaction that prints or reads text, with the value each is pinned to. None of them comes
/// from outside.
///
/// A role or a database can have any of these set otherwise (`ALTER ROLE … SET`), and each changes what a
/// statement means or how a value is printed.
const PINNED: &[(&str, &str)] = &[
    // What a statement means.
    ("standard_conforming_strings", "on"),
    ("backslash_quote", "off"),
    ("transform_null_equals", "off"),
    ("array_nulls", "on"),
    ("xmloption", "content"),
    // An error rather than rows left out would be `off`; `on` is the policies' plain meaning.
    ("row_security", "on"),
    // How values are read and printed.
    ("client_encoding", "UTF8"),
    ("TimeZone", "UTC"),
    // The order of days and months stays the one of the role and the database.
    ("DateStyle", "ISO"),
    ("IntervalStyle", "postgres"),
    ("bytea_output", "hex"),
    ("extra_float_digits", "1"),
    ("lc_monetary", "C"),
    ("lc_numeric", "C"),
    ("lc_time", "C"),
    ("xmlbinary", "base64"),
    ("quote_all_identifiers", "off"),
    // A cursor's rows are all fetched: by default the planner prefers what gives a tenth of them soonest.
    ("cursor_tuple_fraction", "1"),
    // A cursor has no workers: a plan that is shown is the one that runs.
    ("max_parallel_workers_per_gather", "0"),
    // Nothing of the server's chatter is of use, and notices can hold data.
    ("client_min_messages", "error"),
];

/// One string of `SET LOCAL`s: everything pinned, and a search path of nothing but `pg_catalog`, which is searched first,
/// and temporary objects.
pub(crate) fn set_local() -> String {
    let mut sql = String::new();
    for (name, value) in PINNED {
        sql.push_str(&format!("SET LOCAL {name} = '{value}'; "));
    }
    sql.push_str("SET LOCAL search_path = pg_temp");
    sql
}

/// The longest wait for a lock. Queries wait only for what needs a table to itself.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// How many of the values that [`pins`] takes differ between statements.
const OWN: usize = 4;

/// The settings of one statement beside those of all.
pub(crate) struct Own([String; OWN]);

impl Own {
    /// Before the schemas of `search_path`, `pg_catalog` is searched, and after them temporary objects are.
    pub(crate) fn new(search_path: &[String], limits: &Limits) -> Self {
        let time = limits.statement_timeout();
        // 0 would mean for ever.
        let ms = |time: Duration| {
            let ms = time.as_millis().clamp(1, i32::MAX.unsigned_abs().into());
            ms.to_string()
        };
        let mut path = String::new();
        for schema in search_path {
            path.push_str(&ident::quote(schema));
            path.push_str(", ");
        }
        // Unless it is named, it comes before everything else.
        path.push_str("pg_temp");
        // The session ends with the last, so that our own clock gets its chance first.
        let whole = time.saturating_add(Duration::from_secs(1));
        Self([path, ms(time), ms(time.min(LOCK_TIMEOUT)), ms(whole)])
    }

    /// The values for the query of [`pins`].
    pub(crate) fn values(&self, features: Features) -> &[String] {
        let most = if features.has_transaction_timeout() {
            OWN
        } else {
            OWN - 1
        };
        self.0.get(..most).unwrap_or_default()
    }
}

/// The query that sets all of it for the rest of the transaction. Under whatever settings it is read, it means the same:
/// its operators name their schema, and no text in it has a backslash.
///
/// One query that a session keeps rather than a `SET LOCAL` for each: reading these takes the server longer than most
/// statements do. What a session was once given is not relied on, for behind a pooler it may be another's. What is so already is not
/// set: looking takes the server less time than setting and taking back, and another statement cannot change it in between.
pub(crate) fn pins(features: Features) -> String {
    let mut sql = "SELECT ".to_owned();
    for (name, value) in PINNED {
        sql.push_str(&format!(
            "CASE WHEN pg_catalog.current_setting('{name}') OPERATOR(pg_catalog.=) '{value}' THEN NULL \
             ELSE pg_catalog.set_config('{name}', '{value}', true) END, "
        ));
    }
    sql.push_str(
        "pg_catalog.set_config('search_path', $1, true), \
         pg_catalog.set_config('statement_timeout', $2, true), \
         pg_catalog.set_config('idle_in_transaction_session_timeout', $2, true), \
         pg_catalog.set_config('lock_timeout', $3, true)",
    );
    if features.checks_connection {
        sql.push_str(", pg_catalog.set_config('client_connection_check_interval', '1000', true)");
    }
    if features.has_transaction_timeout() {
        sql.push_str(", pg_catalog.set_config('transaction_timeout', $4, true)");
    }
    sql
}

/// What the server is capable of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Features {
    /// `server_version_num`.
    pub(crate) version: i32,
    /// Whether it can look after its clients while it works: not on every system.
    pub(crate) checks_connection: bool,
}

impl Features {
    fn has_transaction_timeout(self) -> bool {
        self.version >= TRANSACTION_TIMEOUT_SINCE
    }
}

/// The first version with `transaction_timeout`.
const TRANSACTION_TIMEOUT_SINCE: i32 = 17_00_00;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_path_is_quoted() {
        let path = |schemas: &[&str]| {
            let schemas: Vec<String> = schemas.iter().map(|&s| s.to_owned()).collect();
            Own::new(&schemas, &Limits::default()).0[0].clone()
        };
        assert_eq!(
            path(&["public", "a\"; DROP"]),
            r#""public", "a""; DROP", pg_temp"#
        );
        assert_eq!(path(&[]), "pg_temp");
    }

    #[test]
    fn no_time_is_not_for_ever() {
        let limits = Limits {
            statement_timeout_ms: 0,
            ..Limits::default()
        };
        let Own([_, whole, lock, session]) = Own::new(&[], &limits);
        assert_eq!((&*whole, &*lock, &*session), ("1", "1", "1000"));
    }

    #[test]
    fn as_many_values_as_the_query_takes() {
        for version in [15_00_00, 17_00_00] {
            let features = Features {
                version,
                checks_connection: true,
            };
            let own = Own::new(&[], &Limits::default());
            let count = own.values(features).len();
            let sql = pins(features);
            assert!(
                sql.contains(&format!("${count}")) && !sql.contains(&format!("${}", count + 1))
            );
        }
    }
}
