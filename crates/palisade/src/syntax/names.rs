//! Identifiers as the parser keeps them. With `unescape = false` a quoted identifier holds its text
//! as written, inner quotes still doubled.

use std::borrow::Cow;

use sqlparser::ast::Ident;

/// What an identifier is called, quotes undone.
pub(crate) fn decode(ident: &Ident) -> Cow<'_, str> {
    let doubled = match ident.quote_style {
        Some('"') => "\"\"",
        Some('`') => "``",
        Some('\'') => "''",
        // `[…]` has no way to write a bracket inside; an unquoted word is itself.
        Some(_) | None => return Cow::Borrowed(&ident.value),
    };
    if ident.value.contains(doubled) {
        Cow::Owned(
            ident
                .value
                .replace(doubled, doubled.get(..1).unwrap_or_default()),
        )
    } else {
        Cow::Borrowed(&ident.value)
    }
}

/// An identifier that every engine mode reads as `name`: in double quotes unless it is a plain word
/// written without them.
pub(crate) fn encode(name: &str) -> Ident {
    let mut ident = Ident::new(name.replace('"', "\"\""));
    ident.quote_style = Some('"');
    ident
}
