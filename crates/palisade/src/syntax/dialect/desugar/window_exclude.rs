//! `EXCLUDE …` at the end of a window's frame, for which the parser's tree has no place.
//!
//! In the tree it is the name of the window that this one continues, in words that no text can spell
//! together; printed text gets it back where it belongs. The gate reads that text once more and compares
//! trees, so that a fault here refuses.

use sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

use crate::syntax::dialect::token_edit::{Edits, Solid, has_keyword, word};

const KINDS: [&[&str]; 4] = [
    &["CURRENT", "ROW"],
    &["GROUP"],
    &["TIES"],
    &["NO", "OTHERS"],
];

/// How `kind` is called in the tree.
fn name(kind: &[&str]) -> String {
    format!("EXCLUDE {}", kind.join(" "))
}

/// Whether a window's name is an exclusion.
pub(crate) fn is_exclusion(name: &sqlparser::ast::Ident) -> bool {
    name.quote_style.is_none() && KINDS.iter().any(|kind| self::name(kind) == name.value)
}

/// Moves the exclusions of frames to where the parser keeps them. A window that continues another keeps its
/// own, and is refused.
pub(in crate::syntax) fn moved_in(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !has_keyword(&tokens, &[Keyword::EXCLUDE]) {
        return tokens;
    }
    let solid = Solid::new(&tokens);
    let mut edits = Edits::default();
    for n in 0..solid.len() {
        if !solid.is_word(n, &["exclude"]) {
            continue;
        }
        let kind = KINDS.into_iter().find(|kind| {
            solid.are_words(n + 1, kind) && solid.is(n + 1 + kind.len(), &Token::RParen)
        });
        if let Some(kind) = kind
            && let Some(open) = solid.find_opening(n + 1 + kind.len())
            && open
                .checked_sub(1)
                .is_some_and(|n| solid.is_word(n, &["over", "as"]))
            && solid.is_word(open + 1, &["partition", "order", "rows", "range", "groups"])
        {
            edits.put(&solid, open + 1, word(&name(kind), Keyword::NoKeyword));
            (n..=n + kind.len()).for_each(|n| edits.take(&solid, n));
        }
    }
    edits.apply(tokens)
}

/// Moves the exclusions in printed text, read as `tokens`, back to the ends of their frames. None if there
/// are none.
pub(in crate::syntax) fn moved_out(tokens: &[TokenWithSpan]) -> Option<String> {
    if !has_keyword(tokens, &[Keyword::EXCLUDE]) {
        return None;
    }
    let solid = Solid::new(tokens);
    let mut edits = Edits::default();
    for n in 0..solid.len() {
        if !solid.is_word(n, &["exclude"]) {
            continue;
        }
        let open = n
            .checked_sub(1)
            .filter(|open| solid.is(*open, &Token::LParen));
        let kind = KINDS.into_iter().find(|kind| solid.are_words(n + 1, kind));
        if let (Some(kind), Some(open)) = (kind, open)
            && open
                .checked_sub(1)
                .is_some_and(|n| solid.is_word(n, &["over", "as"]))
            && let Some(close) = solid.find_closing(open)
            && close > n + 1 + kind.len()
        {
            edits.take_until(&solid, n, n + kind.len() + 1);
            edits.put(
                &solid,
                close,
                Token::make_word(&format!(" {}", name(kind)), None),
            );
        }
    }
    let edited = edits.apply(tokens.to_vec());
    Some(edited.iter().map(|t| t.token.to_string()).collect())
}
