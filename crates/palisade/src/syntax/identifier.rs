//! Identifiers as the parser keeps them. With `unescape = false` a quoted identifier holds its text
//! as written, inner quotes still doubled.

use std::borrow::Cow;

use sqlparser::ast::Ident;

use crate::dialect::Dialect;

/// What an identifier is called, quotes undone.
pub(crate) fn decode(ident: &Ident) -> Cow<'_, str> {
    let (quote, doubled) = match ident.quote_style {
        Some('"') => (b'"', "\"\""),
        Some('`') => (b'`', "``"),
        Some('\'') => (b'\'', "''"),
        // `[…]` has no way to write a bracket inside; an unquoted word is itself.
        Some(_) | None => return Cow::Borrowed(&ident.value),
    };
    if ident.value.as_bytes().contains(&quote) && ident.value.contains(doubled) {
        Cow::Owned(
            ident
                .value
                .replace(doubled, doubled.get(..1).unwrap_or_default()),
        )
    } else {
        Cow::Borrowed(&ident.value)
    }
}

/// Whether it is a quotation mark that word processors make. To each engine it is no quote, and may be part of a name.
pub(crate) fn is_typographic_quote(c: char) -> bool {
    matches!(
        c,
        '\u{2018}'..='\u{201f}' | '\u{b4}' | '\u{ab}' | '\u{bb}' | '\u{2032}' | '\u{2033}'
    )
}

/// The key by which the engine compares a column, alias or function called `ident`.
pub(crate) fn key(ident: &Ident, dialect: Dialect) -> Cow<'_, str> {
    let quoted = ident.quote_style.is_some();
    match decode(ident) {
        Cow::Borrowed(name) => dialect.fold_written(name, quoted),
        Cow::Owned(name) => Cow::Owned(dialect.fold_written(&name, quoted).into_owned()),
    }
}

/// An identifier that the engine reads as `name`, exactly.
pub(crate) fn encode(name: &str, dialect: Dialect) -> Ident {
    let quote = dialect.quote();
    let mut ident = if name.contains(quote) {
        Ident::new(name.replace(quote, &format!("{quote}{quote}")))
    } else {
        Ident::new(name)
    };
    ident.quote_style = Some(quote);
    ident
}
