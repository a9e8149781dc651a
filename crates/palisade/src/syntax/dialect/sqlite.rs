//! The parser's SQLite with what SQLite has besides.

use std::{any::TypeId, collections::BTreeSet};

use sqlparser::{
    ast::{BinaryOperator, Expr, Statement, UnaryOperator},
    dialect::{Dialect as ParserDialect, Precedence, SQLiteDialect},
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::{Token, TokenWithSpan},
};

use crate::syntax::dialect::{delegate::delegate, token_edit::is_word};
use crate::syntax::dialect::{
    prefix_fast_path::{bare, names_column, simple},
    token_edit::{Edits, Solid, has_keyword, word},
};

/// See the module.
#[derive(Debug)]
pub(super) struct Sqlite(SQLiteDialect);

pub(super) const SQLITE: Sqlite = Sqlite(SQLiteDialect {});

/// Words that are names here where nothing follows of what they begin elsewhere
/// (<https://www.sqlite.org/lang_keywords.html>).
const BARE: &[Keyword] = &[
    Keyword::INTERVAL,
    Keyword::LOCALTIME,
    Keyword::LOCALTIMESTAMP,
    Keyword::TRIM,
];

impl ParserDialect for Sqlite {
    fn dialect(&self) -> TypeId {
        self.0.dialect()
    }

    delegate! {
        is_delimited_identifier_start(ch: char) -> bool;
        identifier_quote_style(identifier: &str) -> Option<char>;
        is_identifier_start(ch: char) -> bool;
        is_identifier_part(ch: char) -> bool;
        supports_filter_during_aggregation() -> bool;
        supports_start_transaction_modifier() -> bool;
        parse_statement(parser: &mut Parser) -> Option<Result<Statement, ParserError>>;
        supports_in_empty_list() -> bool;
        supports_limit_comma() -> bool;
        supports_asc_desc_in_column_definition() -> bool;
        supports_dollar_placeholder() -> bool;
        supports_notnull_operator() -> bool;
        supports_comma_separated_trim() -> bool;
        supports_numeric_literal_underscores() -> bool;
    }

    /// `(a)` and `(a AS b)` where a table stands.
    fn supports_parens_around_table_factor(&self) -> bool {
        true
    }

    /// `INSERT INTO t AS a`.
    fn supports_insert_table_alias(&self) -> bool {
        true
    }

    fn supports_cross_join_constraint(&self) -> bool {
        true
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        let is = |n: usize, text: &str| {
            matches!(&parser.peek_nth_token_ref(n).token, Token::Word(word)
                if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text))
        };
        if is(0, "ISNULL") {
            Some(Ok(self.prec_value(Precedence::Is)))
        } else if is(0, "NOT") && is(1, "GLOB") {
            Some(Ok(self.prec_value(Precedence::Like)))
        } else {
            None
        }
    }

    fn is_column_alias(&self, keyword: &Keyword, _: &mut Parser) -> bool {
        names_column(*keyword)
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        bare(parser, BARE).or_else(|| simple(parser))
    }

    fn parse_infix(
        &self,
        parser: &mut Parser,
        left: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        let own = [general_is, shift, postfix]
            .into_iter()
            .find_map(|parse| parse(parser, left, precedence).transpose());
        own.or_else(|| self.0.parse_infix(parser, left, precedence))
    }
}

/// `a IS b` and `a IS NOT b` with any `b`: SQLite's comparison in which NULL equals NULL
/// (<https://www.sqlite.org/lang_expr.html#is>). It has the standard spelling too, which the parser
/// knows how to print.
fn general_is(
    parser: &mut Parser,
    left: &Expr,
    precedence: u8,
) -> Result<Option<Expr>, ParserError> {
    // Of the words that follow IS elsewhere, UNKNOWN, JSON and NORMALIZED are names here.
    const PREDICATES: [Keyword; 5] = [
        Keyword::NULL,
        Keyword::TRUE,
        Keyword::FALSE,
        Keyword::DISTINCT,
        Keyword::NOT,
    ];
    if !parser.parse_keyword(Keyword::IS) {
        return Ok(None);
    }
    let negated = parser.parse_keyword(Keyword::NOT);
    if parser.parse_one_of_keywords(&PREDICATES).is_some() {
        // The parser's own business: IS, NOT and the predicate go back.
        for _ in 0..2 + usize::from(negated) {
            parser.prev_token();
        }
        return Ok(None);
    }
    let left = Box::new(left.clone());
    let right = Box::new(parser.parse_subexpr(precedence)?);
    Ok(Some(if negated {
        Expr::IsDistinctFrom(left, right)
    } else {
        Expr::IsNotDistinctFrom(left, right)
    }))
}

/// `a << b` and `a >> b`, which the parser knows of PostgreSQL.
fn shift(parser: &mut Parser, left: &Expr, precedence: u8) -> Result<Option<Expr>, ParserError> {
    let op = if parser.consume_token(&Token::ShiftLeft) {
        BinaryOperator::PGBitwiseShiftLeft
    } else if parser.consume_token(&Token::ShiftRight) {
        BinaryOperator::PGBitwiseShiftRight
    } else {
        return Ok(None);
    };
    let right = Box::new(parser.parse_subexpr(precedence)?);
    Ok(Some(Expr::BinaryOp {
        left: Box::new(left.clone()),
        op,
        right,
    }))
}

/// `a ISNULL` and `a NOT GLOB b`.
fn postfix(parser: &mut Parser, left: &Expr, precedence: u8) -> Result<Option<Expr>, ParserError> {
    let is_null = matches!(&parser.peek_token_ref().token,
        Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("isnull"));
    if is_null {
        parser.next_token();
        return Ok(Some(Expr::IsNull(Box::new(left.clone()))));
    }
    if parser.parse_keywords(&[Keyword::NOT, Keyword::GLOB]) {
        let right = Box::new(parser.parse_subexpr(precedence)?);
        let glob = Expr::BinaryOp {
            left: Box::new(left.clone()),
            op: BinaryOperator::Glob,
            right,
        };
        let not = Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr: Box::new(Expr::Nested(Box::new(glob))),
        };
        return Ok(Some(Expr::Nested(Box::new(not))));
    }
    Ok(None)
}

/// Takes planner hints away that change no result and that the parser does not know in this dialect:
/// `[NOT] MATERIALIZED` between `AS` and a parenthesis, `NOT INDEXED` and `INDEXED BY name`.
pub(super) fn without_hints(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let word = |token: &TokenWithSpan, text: &str| {
        matches!(&token.token,
            Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(text))
    };
    let is_index = |t: &TokenWithSpan| is_word(&t.token, &["indexed"]);
    if !has_keyword(&tokens, &[Keyword::MATERIALIZED]) && !tokens.iter().any(is_index) {
        return tokens;
    }
    let solid: Vec<usize> = tokens
        .iter()
        .enumerate()
        .filter(|(_, t)| !matches!(t.token, Token::Whitespace(_)))
        .map(|(index, _)| index)
        .collect();
    let at = |n: usize| solid.get(n).and_then(|index| tokens.get(*index));
    let is = |n: usize, text: &str| at(n).is_some_and(|t| word(t, text));
    let mut gone = BTreeSet::new();
    for n in 0..solid.len() {
        let not = usize::from(is(n + 1, "not"));
        let hint = if is(n, "as")
            && is(n + 1 + not, "materialized")
            && at(n + 2 + not).is_some_and(|t| t.token == Token::LParen)
        {
            n + 1..n + 2 + not
        } else if is(n, "not") && is(n + 1, "indexed") {
            n..n + 2
        } else if is(n, "indexed") && is(n + 1, "by") {
            n..n + 3
        } else {
            continue;
        };
        gone.extend(hint.filter_map(|n| solid.get(n)).copied());
    }
    let mut index = 0;
    tokens.retain(|_| {
        index += 1;
        !gone.contains(&(index - 1))
    });
    tokens
}

/// Spells both options of a table in the order and without the comma that the parser knows.
pub(super) fn without_comma(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !has_keyword(&tokens, &[Keyword::STRICT]) {
        return tokens;
    }
    let solid = Solid::new(&tokens);
    let mut edits = Edits::default();
    for n in 1..solid.len() {
        if !solid.is(n - 1, &Token::RParen) {
            continue;
        }
        if solid.are_words(n, &["without", "rowid"])
            && solid.is(n + 2, &Token::Comma)
            && solid.is_word(n + 3, &["strict"])
        {
            edits.take(&solid, n + 2);
        } else if solid.is_word(n, &["strict"])
            && solid.is(n + 1, &Token::Comma)
            && solid.are_words(n + 2, &["without", "rowid"])
        {
            edits.take(&solid, n);
            edits.take(&solid, n + 1);
            edits.put(&solid, n + 4, word("STRICT", Keyword::STRICT));
        }
    }
    edits.apply(tokens)
}

/// Printed text, read as `tokens`, with the comma between both options of a table. None if it has not both.
pub(super) fn with_comma(tokens: &[TokenWithSpan]) -> Option<String> {
    if !has_keyword(tokens, &[Keyword::STRICT]) {
        return None;
    }
    let solid = Solid::new(tokens);
    let strict = solid.len().checked_sub(1)?;
    let before = strict.checked_sub(3)?;
    if !solid.is_word(0, &["create"])
        || !solid.is(before, &Token::RParen)
        || !solid.are_words(before + 1, &["without", "rowid", "strict"])
    {
        return None;
    }
    let mut edits = Edits::default();
    edits.put(&solid, strict, Token::Comma);
    let edited = edits.apply(tokens.to_vec());
    Some(edited.iter().map(|t| t.token.to_string()).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use sqlparser::tokenizer::Tokenizer;

    use super::*;
    use crate::{dialect::Dialect, limits::Limits, syntax::read_query};

    #[test]
    fn hints_go_and_nothing_else() {
        for (text, expected) in [
            (
                "SELECT a FROM t INDEXED BY i WHERE a = 1 ORDER BY b",
                "SELECT a FROM t WHERE a = 1 ORDER BY b",
            ),
            (
                "SELECT a FROM t NOT INDEXED WHERE a = 1 ORDER BY b",
                "SELECT a FROM t WHERE a = 1 ORDER BY b",
            ),
            (
                "WITH x AS NOT MATERIALIZED (SELECT 1) SELECT 2 FROM x",
                "WITH x AS (SELECT 1) SELECT 2 FROM x",
            ),
            ("SELECT indexed FROM t", "SELECT indexed FROM t"),
        ] {
            let read = read_query(text, Dialect::Sqlite, &Limits::default()).unwrap();
            assert_eq!(read.to_string(), expected, "{text}");
        }
    }

    #[test]
    fn both_options_of_a_table_have_a_comma_between_them() {
        for (printed, restored) in [
            (
                "CREATE TABLE t (a INTEGER PRIMARY KEY) WITHOUT ROWID STRICT",
                Some("CREATETABLEt(aINTEGERPRIMARYKEY)WITHOUTROWID,STRICT"),
            ),
            ("CREATE TABLE t (a INTEGER PRIMARY KEY) STRICT", None),
            ("CREATE TABLE t (a INTEGER PRIMARY KEY) WITHOUT ROWID", None),
            ("SELECT 1 FROM (a) without rowid strict", None),
            ("SELECT strict FROM t", None),
        ] {
            let tokens = Tokenizer::new(&SQLiteDialect {}, printed)
                .tokenize_with_location()
                .unwrap();
            let found = with_comma(&tokens).map(|text| text.replace(' ', ""));
            assert_eq!(found.as_deref(), restored, "{printed}");
        }
    }
}
