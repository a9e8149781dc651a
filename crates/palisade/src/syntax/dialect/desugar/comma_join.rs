//! `(a, b)` where a table stands, which SQLite and MySQL read as a join without a condition, and MySQL's `UPDATE a, b`
//! (<https://www.sqlite.org/lang_select.html#the_from_clause>, <https://dev.mysql.com/doc/refman/8.4/en/join.html>).

use sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

use crate::dialect::Dialect;
use crate::syntax::dialect::token_edit::{Edits, Solid, has_keyword, word};

/// What a query in parentheses begins with.
const QUERIES: &[&str] = &["select", "values", "with", "table"];

/// Writes a join for the comma.
pub(in crate::syntax) fn spelt_out(
    tokens: Vec<TokenWithSpan>,
    dialect: Dialect,
) -> Vec<TokenWithSpan> {
    let updates = dialect == Dialect::Mysql && has_keyword(&tokens, &[Keyword::UPDATE]);
    if !updates && !may_hold_tables(&tokens) {
        return tokens;
    }
    let solid = Solid::new(&tokens);
    let mut edits = Edits::default();
    // For each parenthesis that is open: whether tables stand in it.
    let mut open: Vec<bool> = Vec::new();
    for n in 0..solid.len() {
        if solid.is(n, &Token::RParen) {
            open.pop();
        } else if solid.is(n, &Token::LParen) {
            let tables = holds_tables(&solid, n, open.last() == Some(&true));
            open.push(tables);
            if tables && let Some(close) = solid.find_closing(n) {
                join(&solid, n + 1, close, dialect, &mut edits);
            }
        } else if updates
            && open.is_empty()
            && solid.is_word(n, &["update"])
            && solid.is_name(n + 1)
            && let Some(set) = assignments(&solid, n)
        {
            join(&solid, n + 1, set, dialect, &mut edits);
        }
    }
    edits.apply(tokens)
}

/// Whether anything but a query stands in a parenthesis in FROM.
fn may_hold_tables(tokens: &[TokenWithSpan]) -> bool {
    let solid = tokens.iter().map(|t| &t.token);
    let mut solid = solid.filter(|token| !matches!(token, Token::Whitespace(_)));
    let mut before = false;
    while let Some(token) = solid.next() {
        let opens = before && *token == Token::LParen;
        let inside = if opens { solid.next() } else { None };
        if opens && !inside.is_some_and(|token| crate::syntax::dialect::is_word(token, QUERIES)) {
            return true;
        }
        before = begins(token);
    }
    false
}

/// Whether a table follows in FROM.
fn begins(token: &Token) -> bool {
    crate::syntax::dialect::is_word(token, &["from", "join", "straight_join"])
}

/// Whether the parenthesis at `n` has tables in it; `among` if it stands among some.
fn holds_tables(solid: &Solid<'_>, n: usize, among: bool) -> bool {
    let Some(before) = n.checked_sub(1) else {
        return false;
    };
    let follows = solid.token(before).is_some_and(|t| begins(&t.token));
    // `a IS DISTINCT FROM (b, c)` compares rows.
    let compares = before
        .checked_sub(1)
        .is_some_and(|n| solid.is_word(n, &["distinct"]));
    let listed = among && (solid.is(before, &Token::LParen) || solid.is(before, &Token::Comma));
    let inside =
        solid.is(n + 1, &Token::LParen) || (solid.is_name(n + 1) && !solid.is_word(n + 1, QUERIES));
    ((follows && !compares) || listed) && inside
}

/// Where the assignments of the UPDATE at `n` begin; none if the word belongs to another clause.
fn assignments(solid: &Solid<'_>, n: usize) -> Option<usize> {
    if n > 0 && solid.is_word(n - 1, &["for", "key", "on"]) {
        return None;
    }
    let mut depth = 0usize;
    for n in n + 1..solid.len() {
        if solid.is(n, &Token::LParen) {
            depth += 1;
        } else if solid.is(n, &Token::RParen) {
            depth = depth.checked_sub(1)?;
        } else if depth == 0 && solid.is_word(n, &["set"]) {
            return Some(n);
        }
    }
    None
}

/// Joins what stands between the commas from `start` to `close`.
fn join(solid: &Solid<'_>, start: usize, close: usize, dialect: Dialect, edits: &mut Edits) {
    let mut depth = 0usize;
    let mut commas = Vec::new();
    let mut joins = Vec::new();
    for n in start..close {
        if solid.is(n, &Token::LParen) {
            depth += 1;
        } else if solid.is(n, &Token::RParen) {
            depth = depth.saturating_sub(1);
        } else if depth == 0 && solid.is(n, &Token::Comma) {
            commas.push(n);
        } else if depth == 0 && solid.is_word(n, &["join", "straight_join"]) {
            joins.push(n);
        }
    }
    if commas.is_empty() {
        return;
    }
    let starts = std::iter::once(start).chain(commas.iter().map(|comma| comma + 1));
    let ends = commas.iter().copied().chain([close]);
    for (start, end) in starts.zip(ends) {
        match dialect {
            // A comma binds like JOIN does.
            Dialect::Sqlite => {}
            // It binds less.
            Dialect::Mysql | Dialect::Postgres => {
                if joins.iter().any(|join| (start..end).contains(join)) {
                    edits.put(solid, start, Token::LParen);
                    edits.put(solid, end, Token::RParen);
                }
            }
        }
    }
    for comma in commas {
        if dialect == Dialect::Mysql {
            edits.put(solid, comma, word("CROSS", Keyword::CROSS));
        }
        edits.put(solid, comma, word("JOIN", Keyword::JOIN));
        edits.take(solid, comma);
    }
}
