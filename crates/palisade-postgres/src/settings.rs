//! What every session of ours sets, so that text means what the firewall took it to mean.

use palisade::ident;

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
    // Nothing of the server's chatter is of use, and notices can hold data.
    ("client_min_messages", "error"),
];

/// One string of `SET LOCAL`s: everything pinned, and the search path `schemas`, before which `pg_catalog` is
/// searched and after which temporary objects are.
pub(crate) fn set_local(schemas: &[String]) -> String {
    let mut sql = String::new();
    for (name, value) in PINNED {
        sql.push_str(&format!("SET LOCAL {name} = '{value}'; "));
    }
    sql.push_str("SET LOCAL search_path = ");
    for schema in schemas {
        sql.push_str(&ident::quoted(schema));
        sql.push_str(", ");
    }
    // Unless it is named, it comes before everything else.
    sql.push_str("pg_temp");
    sql
}

#[cfg(test)]
mod tests {
    use super::set_local;

    #[test]
    fn the_search_path_is_quoted() {
        let path = ["public".to_owned(), "a\"; DROP".to_owned()];
        assert!(
            set_local(&path).ends_with(r#"SET LOCAL search_path = "public", "a""; DROP", pg_temp"#)
        );
        assert!(set_local(&[]).ends_with("SET LOCAL search_path = pg_temp"));
    }
}
