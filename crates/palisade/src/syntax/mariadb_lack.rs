//! What MySQL reads and MariaDB does not, so that it is told by name and not as a mistake.
//!
//! Looked at only after MariaDB has refused a statement: nothing is decided here.

use sqlparser::tokenizer::Token;

use crate::dialect::Dialect;
use crate::syntax::{dialect::Solid, lexer};

/// What of `text` MariaDB does not read, with what to write instead
/// (<https://mariadb.com/kb/en/incompatibilities-and-feature-differences-between-mariadb-and-mysql-unmaintai/>).
pub(crate) fn mariadb_lack(text: &str) -> Option<&'static str> {
    let tokens = lexer::tokenize(text, Dialect::Mysql).ok()?;
    let solid = Solid::new(&tokens);
    (0..solid.len()).find_map(|n| {
        if solid.is(n, &Token::LongArrow) {
            Some("operator `->>`: write JSON_VALUE(x, '$.key')")
        } else if solid.is(n, &Token::Arrow) {
            Some("operator `->`: write JSON_EXTRACT(x, '$.key')")
        } else if solid.is_word(n, &["as"])
            && solid.is_word(n + 1, &["json"])
            && solid.is(n + 2, &Token::RParen)
        {
            Some("cast to JSON: leave it out, JSON is a text there")
        } else if solid.is_word(n, &["member"]) && solid.is_word(n + 1, &["of"]) {
            Some("MEMBER OF: write JSON_CONTAINS(array, value)")
        } else {
            None
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_mysql_alone_reads_is_known() {
        for (text, told) in [
            ("SELECT a ->> '$.b' FROM t", Some("operator `->>`")),
            ("SELECT a->'$.b' FROM t", Some("operator `->`")),
            ("SELECT CAST(a AS JSON) FROM t", Some("cast to JSON")),
            ("SELECT 1 MEMBER OF (a) FROM t", Some("MEMBER OF")),
            ("SELECT '->' AS json FROM t", None),
        ] {
            let found = mariadb_lack(text);
            let is_told = told.is_none_or(|told| found.is_some_and(|lack| lack.starts_with(told)));
            assert!(
                is_told && found.is_some() == told.is_some(),
                "{text}: {found:?}"
            );
        }
    }
}
