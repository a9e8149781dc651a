//! Names that differ in the case of letters beyond ASCII, on MySQL and MariaDB.

use std::collections::BTreeMap;

use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::{code::Code, dialect::Dialect, rejection::Rejection};

/// The letters beyond ASCII that MariaDB makes letters of ASCII where it compares names: `İ` is `i`, and the Kelvin sign `k`.
const FOLDED_TO_ASCII: [char; 2] = ['\u{130}', '\u{212a}'];

/// Refuses an output's name that the engine changes: it leaves out what it cannot show before a name
/// (`Item::set_name` in MariaDB's source), and two letters are others to it.
///
/// # Errors
/// `syntax.unsupported`.
pub(crate) fn check_alias(name: &str) -> Result<(), Rejection> {
    if name.contains(FOLDED_TO_ASCII) {
        return Err(refuse_folded(name));
    }
    if name.starts_with(|c: char| c.is_ascii() && !c.is_ascii_graphic()) {
        return Err(Rejection::new(
            Code::SyntaxUnsupported,
            format!(
                "the name {name:?} begins with a blank, which the engine leaves out: write it without"
            ),
        ));
    }
    Ok(())
}

fn refuse_folded(name: &str) -> Rejection {
    Rejection::new(
        Code::SyntaxUnsupported,
        format!(
            "`{name}` has a letter that the engine takes for one of ASCII: spell it with `i` or `k`"
        ),
    )
}

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
        if word.value.contains(FOLDED_TO_ASCII) {
            return Err(refuse_folded(&word.value));
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
