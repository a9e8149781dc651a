//! What may stand in PostgreSQL's FROM and the parser does not know there.

use sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

use crate::syntax::dialect::token_edit::{Edits, Solid, word};

/// The name that `ROWS FROM` has in the tree: one word, which no text can spell.
pub(crate) const ROWS_FROM: &str = "ROWS FROM";

/// Spells so that the parser can read it
///
/// * `ROWS FROM (f(…), g(…))` as a call of one word, which prints the same;
/// * `ONLY t` as `ONLY (t)`, which means the same and reads as a call;
/// * `t *` as `t`, which means the same;
/// * `f(…) AS (a int)` as `f(…) AS f (a int)`: the function's name is its name anyway;
/// * `LATERAL XMLTABLE` as `XMLTABLE`, which sees what stands before it in any case;
/// * `(t).*` as `t.*`, which means the same.
pub(in crate::syntax) fn spelt_out(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !may_hold(&tokens) {
        return tokens;
    }
    let solid = Solid::new(&tokens);
    let mut edits = Edits::default();
    for n in 0..solid.len() {
        if solid.is_word(n, &["rows"]) {
            rows_from(&solid, n, &mut edits);
        } else if solid.is_word(n, &["only"]) {
            only(&solid, n, &mut edits);
        } else if solid.is(n, &Token::Mul) {
            star(&solid, n, &mut edits);
        } else if solid.is_word(n, &["lateral"])
            && solid.is_word(n + 1, &["xmltable", "json_table"])
        {
            edits.take(&solid, n);
        } else if solid.is_word(n, &["as"]) {
            definitions(&solid, n, &mut edits);
        }
    }
    edits.apply(tokens)
}

/// Whether any of it can be there: most statements have none, and are not looked at twice.
fn may_hold(tokens: &[TokenWithSpan]) -> bool {
    let keyword = |token: Option<&Token>| match token {
        Some(Token::Word(word)) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    };
    let mut before = (None, None);
    for TokenWithSpan { token, span: _ } in tokens {
        if matches!(token, Token::Whitespace(_)) {
            continue;
        }
        let (second, first): (Option<&Token>, Option<&Token>) = before;
        let found = match (token, first) {
            (Token::Word(_), Some(Token::Mul)) if is_operand(second) => {
                keyword(Some(token)).is_some_and(|k| k != Keyword::NoKeyword && k != Keyword::FROM)
            }
            (Token::Word(_), _) => {
                matches!(
                    keyword(Some(token)),
                    Some(Keyword::ROWS | Keyword::ONLY | Keyword::LATERAL)
                )
            }
            (Token::RParen | Token::Comma | Token::SemiColon | Token::EOF, Some(Token::Mul)) => {
                is_operand(second)
            }
            (Token::LParen, Some(Token::Word(_))) => {
                keyword(first) == Some(Keyword::AS) && second == Some(&Token::RParen)
            }
            (Token::Mul, Some(Token::Period)) => second == Some(&Token::RParen),
            _ => false,
        };
        if found {
            return true;
        }
        before = (first, Some(token));
    }
    before.1 == Some(&Token::Mul) && is_operand(before.0)
}

/// Whether a star after this may come after a table's name: it is a name, and not where a list of outputs begins.
fn is_operand(token: Option<&Token>) -> bool {
    matches!(token, Some(Token::Word(word)) if word.quote_style.is_some()
        || !matches!(word.keyword, Keyword::SELECT | Keyword::DISTINCT | Keyword::ALL))
}

fn rows_from(solid: &Solid<'_>, n: usize, edits: &mut Edits) {
    if solid.is_word(n + 1, &["from"]) && solid.is(n + 2, &Token::LParen) {
        edits.put(solid, n, word(ROWS_FROM, Keyword::NoKeyword));
        edits.take(solid, n);
        edits.take(solid, n + 1);
    }
}

/// `ONLY` is a reserved word; elsewhere it only ends FETCH FIRST.
fn only(solid: &Solid<'_>, n: usize, edits: &mut Edits) {
    let after_rows = n
        .checked_sub(1)
        .is_some_and(|before| solid.is_word(before, &["row", "rows"]));
    if after_rows || solid.is(n + 1, &Token::LParen) {
        return;
    }
    if let Some(after) = solid.after_name(n + 1) {
        edits.put(solid, n + 1, Token::LParen);
        edits.put(solid, after, Token::RParen);
    }
}

fn star(solid: &Solid<'_>, n: usize, edits: &mut Edits) {
    // `(t).*`
    if let Some(open) = n.checked_sub(4)
        && solid.is(open, &Token::LParen)
        && solid.is_name(open + 1)
        && solid.is(open + 2, &Token::RParen)
        && solid.is(open + 3, &Token::Period)
        // Not the argument of a call.
        && !open.checked_sub(1).is_some_and(|before| {
            solid.is(before, &Token::RBracket) || is_called(solid, before)
        })
    {
        edits.take(solid, open);
        edits.take(solid, open + 2);
        return;
    }
    // `FROM t *`: no value can stand after this star.
    let ends = solid.token(n + 1).is_none_or(|t| {
        matches!(t.token, Token::RParen | Token::Comma | Token::SemiColon)
            || solid.is_word(
                n + 1,
                &[
                    "as", "where", "group", "order", "limit", "join", "left", "right", "inner",
                    "full", "cross", "natural", "union", "having", "offset", "fetch", "on",
                ],
            )
    });
    let mut begin = n;
    while begin.checked_sub(1).is_some_and(|before| {
        solid.is(before, &Token::Period) || (solid.is_name(before) && !is_from(solid, before))
    }) {
        begin -= 1;
    }
    let from = begin.checked_sub(1).is_some_and(|n| is_from(solid, n));
    if ends && from && solid.after_name(begin) == Some(n) {
        edits.take(solid, n);
    }
}

fn is_from(solid: &Solid<'_>, n: usize) -> bool {
    solid.is_word(n, &["from", "join"])
}

/// Whether the word at `n` is called by the parenthesis after it.
fn is_called(solid: &Solid<'_>, n: usize) -> bool {
    match solid.token(n).map(|t| &t.token) {
        Some(Token::Word(word)) => word.quote_style.is_some() || word.keyword == Keyword::NoKeyword,
        _ => false,
    }
}

/// `f(…) AS (a int, b text)`, and not the query of a common table expression.
fn definitions(solid: &Solid<'_>, n: usize, edits: &mut Edits) {
    let defines = solid.is(n + 1, &Token::LParen)
        && solid.is_name(n + 2)
        && solid.is_name(n + 3)
        && !solid.is_word(
            n + 2,
            &[
                "select", "values", "with", "table", "insert", "update", "delete", "merge",
            ],
        );
    let called = n
        .checked_sub(1)
        .filter(|close| defines && solid.is(*close, &Token::RParen))
        .and_then(|close| solid.find_opening(close)?.checked_sub(1));
    if let Some(name) = called.and_then(|name| solid.token(name))
        && matches!(name.token, Token::Word(_))
    {
        edits.put(solid, n + 1, name.token.clone());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "tests")]

    use crate::{dialect::Dialect, limits::Limits, syntax::read_query};

    #[test]
    fn what_stands_in_from_is_read() {
        for (text, expected) in [
            ("SELECT a FROM ONLY t", "SELECT a FROM ONLY(t)"),
            (
                "SELECT a FROM u JOIN ONLY s.t AS x ON true",
                "SELECT a FROM u JOIN ONLY(s.t) AS x ON true",
            ),
            ("SELECT a FROM ONLY (t)", "SELECT a FROM ONLY(t)"),
            ("SELECT a FROM t *", "SELECT a FROM t"),
            ("SELECT (t).* FROM t", "SELECT t.* FROM t"),
        ] {
            let read = read_query(text, Dialect::Postgres, &Limits::default());
            let read = read.unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(read.to_string(), expected, "{text}");
        }
    }
}
