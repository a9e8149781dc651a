//! Names that differ in the case of letters beyond ASCII, on MySQL and MariaDB.

use std::collections::BTreeMap;

use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::{code::Code, dialect::Dialect, rejection::Rejection};

/// Refuses two names of a statement that are one or two by the engine's version: MariaDB takes `é` and `É` for one letter, and
/// `ẞ` and `ß` for two (`my_strcasecmp` in its source). We could take another column for what a name means than it does.
///
/// # Errors
/// `syntax.unsupported`.
pub(in crate::syntax) fn check(
    tokens: &[TokenWithSpan],
    dialect: Dialect,
) -> Result<(), Rejection> {
    match dialect {
        Dialect::Mysql => {}
        Dialect::Sqlite | Dialect::Postgres => return Ok(()),
    }
    let mut spellings: BTreeMap<String, String> = BTreeMap::new();
    for TokenWithSpan { token, span: _ } in tokens {
        let Token::Word(word) = token else { continue };
        if word.value.is_ascii() {
            continue;
        }
        // The case of ASCII letters is the same to all of them.
        let spelled = word.value.to_ascii_lowercase();
        let first = spellings
            .entry(word.value.to_lowercase())
            .or_insert_with(|| spelled.clone());
        if *first != spelled {
            return Err(Rejection::new(
                Code::SyntaxUnsupported,
                format!(
                    "`{first}` and `{spelled}`, names that differ in the case of letters beyond ASCII, are not supported: \
                     spell a name alike wherever it stands"
                ),
            ));
        }
    }
    Ok(())
}
