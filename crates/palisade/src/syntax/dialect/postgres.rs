//! The parser's PostgreSQL with what PostgreSQL has besides.

use std::any::TypeId;

use sqlparser::{
    ast::{
        BinaryOperator, CastKind, DataType, Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName,
    },
    dialect::{Dialect as ParserDialect, PostgreSqlDialect, Precedence},
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::{Token, TokenWithSpan},
};

use crate::syntax::dialect::{
    any_all,
    prefix_fast_path::{bare, names_column, simple},
    token_edit::{Edits, Solid, has_keyword, is_word},
};
use crate::syntax::dialect::{call::build_call, delegate::delegate};

/// See the module.
#[derive(Debug)]
pub(super) struct Postgres(PostgreSqlDialect);

pub(super) const POSTGRES: Postgres = Postgres(PostgreSqlDialect {});

/// Words that are names here where nothing of their construct follows
/// (<https://www.postgresql.org/docs/current/sql-keywords-appendix.html>).
const BARE: &[Keyword] = &[Keyword::EXISTS, Keyword::INTERVAL, Keyword::TRIM];

impl ParserDialect for Postgres {
    fn dialect(&self) -> TypeId {
        self.0.dialect()
    }

    delegate! {
        identifier_quote_style(identifier: &str) -> Option<char>;
        is_delimited_identifier_start(ch: char) -> bool;
        is_identifier_start(ch: char) -> bool;
        is_identifier_part(ch: char) -> bool;
        supports_unicode_string_literal() -> bool;
        is_reserved_for_identifier(keyword: Keyword) -> bool;
        is_table_alias(keyword: &Keyword, parser: &mut Parser) -> bool;
        is_custom_operator_part(ch: char) -> bool;
        supports_filter_during_aggregation() -> bool;
        supports_group_by_expr() -> bool;
        supports_alter_user_as_alter_role() -> bool;
        prec_value(precedence: Precedence) -> u8;
        allow_extract_custom() -> bool;
        allow_extract_single_quotes() -> bool;
        supports_create_index_with_clause() -> bool;
        supports_explain_with_utility_options() -> bool;
        supports_listen_notify() -> bool;
        supports_exclude_constraint() -> bool;
        supports_factorial_operator() -> bool;
        supports_bitwise_shift_operators() -> bool;
        supports_comment_on() -> bool;
        supports_load_extension() -> bool;
        supports_named_fn_args_with_colon_operator() -> bool;
        supports_named_fn_args_with_expr_name() -> bool;
        supports_empty_projections() -> bool;
        supports_nested_comments() -> bool;
        supports_string_escape_constant() -> bool;
        supports_numeric_literal_underscores() -> bool;
        supports_array_typedef_with_brackets() -> bool;
        supports_geometric_types() -> bool;
        supports_order_by_using_operator() -> bool;
        supports_set_names() -> bool;
        supports_alter_column_type_using() -> bool;
        supports_left_associative_joins_without_parens() -> bool;
        supports_notnull_operator() -> bool;
        supports_interval_options() -> bool;
        supports_insert_table_alias() -> bool;
        supports_create_table_like_parenthesized() -> bool;
        supports_select_wildcard_with_alias() -> bool;
        supports_comma_separated_trim() -> bool;
        supports_xml_expressions() -> bool;
        supports_aliased_function_args() -> bool;
        supports_comment_optimizer_hint() -> bool;
    }

    fn is_column_alias(&self, keyword: &Keyword, _: &mut Parser) -> bool {
        names_column(*keyword)
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        let is = |text: &str| {
            matches!(&parser.peek_token_ref().token, Token::Word(word)
                if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text))
        };
        let own = if is("variadic") {
            variadic(parser)
        } else if is("name") {
            name(parser)
        } else if is("xmlexists") {
            xml_exists(parser)
        } else if is("trim") {
            trim_blanks(parser)
        } else if is("collation") {
            collation_for(parser)
        } else if is("content") || is("document") {
            // Words before the argument of XMLSERIALIZE.
            None
        } else if matches!(&parser.peek_token_ref().token, Token::Word(word) if word.quote_style.is_none())
        {
            typed_literal(parser)
        } else {
            None
        };
        own.or_else(|| bare(parser, BARE))
            .or_else(|| simple(parser))
    }

    fn parse_infix(
        &self,
        parser: &mut Parser,
        left: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        if is_word(&parser.peek_token_ref().token, &["isnull"]) {
            parser.next_token();
            return Some(Ok(Expr::IsNull(Box::new(left.clone()))));
        }
        // The parser looks for it behind what begins an expression alone, and not behind a cast.
        if is_word(&parser.peek_token_ref().token, &["collate"]) {
            parser.next_token();
            return Some(parser.parse_object_name(false).map(|collation| {
                let expr = Box::new(left.clone());
                Expr::Collate { expr, collation }
            }));
        }
        let own = any_all::parse(parser, left).transpose();
        own.or_else(|| self.distance(parser, left))
            .or_else(|| self.0.parse_infix(parser, left, precedence))
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        if is_word(&parser.peek_token_ref().token, &["isnull"]) {
            return Some(Ok(self.prec_value(Precedence::Is)));
        }
        // `NOT NULL` in two words follows a column of XMLTABLE, and no expression.
        if is_word(&parser.peek_token_ref().token, &["not"])
            && is_word(&parser.peek_nth_token_ref(1).token, &["null"])
        {
            return Some(Ok(self.prec_unknown()));
        }
        if parser.peek_token_ref().token == Token::Spaceship {
            return Some(Ok(self.prec_value(Precedence::PgOther)));
        }
        self.0.get_next_precedence(parser)
    }
}

impl Postgres {
    /// `a <=> b`: a distance of extensions' (pgvector, cube, rum), which binds as every operator that PostgreSQL does not
    /// know by its sign. The parser takes it for MySQL's equality.
    fn distance(&self, parser: &mut Parser, left: &Expr) -> Option<Result<Expr, ParserError>> {
        if parser.peek_token_ref().token != Token::Spaceship {
            return None;
        }
        parser.next_token();
        let right = parser.parse_subexpr(self.prec_value(Precedence::PgOther));
        Some(right.map(|right| Expr::BinaryOp {
            left: Box::new(left.clone()),
            op: BinaryOperator::Custom("<=>".to_owned()),
            right: Box::new(right),
        }))
    }
}

/// `VARIADIC array`, before the last argument of a call.
fn variadic(parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
    match parser.peek_nth_token_ref(1).token {
        Token::Period | Token::Comma | Token::RParen | Token::Eq | Token::EOF => return None,
        _ => {}
    }
    parser.next_token();
    Some(parser.parse_expr().map(|value| Expr::Prefixed {
        prefix: Ident::new("VARIADIC"),
        value: Box::new(value),
    }))
}

/// `NAME element`, before the first argument of `xmlelement` and `xmlpi`; `name 'literal'`.
fn name(parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
    let next = |n: usize| parser.peek_nth_token_ref(n).token.clone();
    match (next(1), next(2)) {
        // Elsewhere it is a column's name, and the word after it an alias or a direction.
        (Token::Word(word), Token::Comma | Token::RParen) if begins_markup(parser) => {
            parser.next_token();
            parser.next_token();
            let mut ident = Ident::new(word.value);
            ident.quote_style = word.quote_style;
            Some(Ok(Expr::Prefixed {
                prefix: Ident::new("NAME"),
                value: Box::new(Expr::Identifier(ident)),
            }))
        }
        _ => typed_literal(parser),
    }
}

/// Whether the first argument of `xmlelement` or `xmlpi` stands next.
fn begins_markup(parser: &Parser) -> bool {
    parser.get_current_token().token == Token::LParen
        && is_word(&parser.get_previous_token().token, &["xmlelement", "xmlpi"])
}

/// `type 'literal'`, where the type is none that the parser knows: it takes the string for an alias.
fn typed_literal(parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
    let Token::Word(word) = &parser.peek_token_ref().token else {
        return None;
    };
    let is_type = word.keyword == Keyword::NoKeyword || word.keyword == Keyword::NAME;
    if !is_type
        || parser.get_current_token().token == Token::Period
        || !matches!(
            parser.peek_nth_token_ref(1).token,
            Token::SingleQuotedString(_)
        )
    {
        return None;
    }
    let mut name = Ident::new(word.value.clone());
    name.quote_style = word.quote_style;
    parser.next_token();
    Some(parser.parse_value().map(|value| Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::Value(value)),
        data_type: DataType::Custom(ObjectName::from(vec![name]), Vec::new()),
        format: None,
    }))
}

/// `XMLEXISTS (path PASSING [BY …] document [BY …])`: the grammar's way to write a call of two arguments
/// (<https://www.postgresql.org/docs/current/functions-xml.html#XML-EXISTS>).
fn xml_exists(parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
    let by = |parser: &mut Parser| {
        if parser.parse_keyword(Keyword::BY) {
            // It changes nothing: PostgreSQL passes by value.
            let how = parser.next_token();
            if !is_word(&how.token, &["ref", "value"]) {
                return parser.expected("REF or VALUE", how);
            }
        }
        Ok(())
    };
    // With its schema it is a call like any other.
    if parser.peek_nth_token_ref(1).token != Token::LParen
        || parser.get_current_token().token == Token::Period
    {
        return None;
    }
    let mut call = || {
        parser.next_token();
        parser.expect_token(&Token::LParen)?;
        let path = parser.parse_expr()?;
        parser.expect_keyword_is(Keyword::PASSING)?;
        by(parser)?;
        let document = parser.parse_expr()?;
        by(parser)?;
        parser.expect_token(&Token::RParen)?;
        Ok(own_call("xmlexists", vec![path, document]))
    };
    Some(call())
}

/// `TRIM([side] FROM text)`, as which PostgreSQL prints `trim(text)` in a view: FROM stands there with nothing before it
/// (<https://www.postgresql.org/docs/current/functions-string.html>).
fn trim_blanks(parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
    let has_side = is_word(
        &parser.peek_nth_token_ref(2).token,
        &["both", "leading", "trailing"],
    );
    let from = 2 + usize::from(has_side);
    if parser.peek_nth_token_ref(1).token != Token::LParen
        || !is_word(&parser.peek_nth_token_ref(from).token, &["from"])
        || parser.get_current_token().token == Token::Period
    {
        return None;
    }
    let mut call = || {
        parser.next_token();
        parser.expect_token(&Token::LParen)?;
        let trim_where = if has_side {
            Some(parser.parse_trim_where()?)
        } else {
            None
        };
        parser.expect_keyword_is(Keyword::FROM)?;
        let expr = Box::new(parser.parse_expr()?);
        parser.expect_token(&Token::RParen)?;
        Ok(Expr::Trim {
            trim_where,
            trim_what: None,
            expr,
            trim_characters: None,
        })
    };
    Some(call())
}

/// `COLLATION FOR (value)`.
fn collation_for(parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
    if !is_word(&parser.peek_nth_token_ref(1).token, &["for"])
        || parser.peek_nth_token_ref(2).token != Token::LParen
    {
        return None;
    }
    let mut call = || {
        parser.next_token();
        parser.next_token();
        parser.expect_token(&Token::LParen)?;
        let value = parser.parse_expr()?;
        parser.expect_token(&Token::RParen)?;
        Ok(own_call("pg_collation_for", vec![value]))
    };
    Some(call())
}

/// A call of one of PostgreSQL's own functions.
fn own_call(name: &str, args: Vec<Expr>) -> Expr {
    let args = args
        .into_iter()
        .map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)))
        .collect();
    build_call(vec![Ident::new("pg_catalog"), Ident::new(name)], Some(args))
}

/// Puts parentheses around `t.*` before a cast: there it is one value, the row, and the parser takes it for a list of
/// outputs, which ends with it (<https://www.postgresql.org/docs/current/rowtypes.html#ROWTYPES-USAGE>).
pub(super) fn whole_rows(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    // Nearly no statement has one, and then nothing is looked at twice.
    let mut last = [None, None];
    let is_cast = tokens
        .iter()
        .filter(|t| !matches!(t.token, Token::Whitespace(_)))
        .any(|TokenWithSpan { token, span: _ }| {
            let found =
                *token == Token::DoubleColon && last == [Some(&Token::Period), Some(&Token::Mul)];
            last = [last[1], Some(token)];
            found
        });
    if !is_cast {
        return tokens;
    }
    let solid = Solid::new(&tokens);
    let mut edits = Edits::default();
    for star in 2..solid.len() {
        let cast = solid.is(star, &Token::Mul)
            && solid.is(star - 1, &Token::Period)
            && solid.is(star + 1, &Token::DoubleColon);
        if !cast || !solid.is_name(star - 2) {
            continue;
        }
        let mut begin = star - 2;
        while begin >= 2 && solid.is(begin - 1, &Token::Period) && solid.is_name(begin - 2) {
            begin -= 2;
        }
        edits.put(&solid, begin, Token::LParen);
        edits.put(&solid, star + 1, Token::RParen);
    }
    edits.apply(tokens)
}

/// Puts parentheses around a literal that bounds a window's frame: the parser takes it for an interval
/// and stops before its cast.
pub(super) fn bounded_frames(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is = |token: &TokenWithSpan, words: &[&str]| {
        matches!(&token.token, Token::Word(word) if word.quote_style.is_none()
            && words.iter().any(|w| word.value.eq_ignore_ascii_case(w)))
    };
    if !has_keyword(&tokens, &[Keyword::PRECEDING, Keyword::FOLLOWING]) {
        return tokens;
    }
    let solid: Vec<usize> = tokens
        .iter()
        .enumerate()
        .filter(|(_, t)| !matches!(t.token, Token::Whitespace(_)))
        .map(|(index, _)| index)
        .collect();
    let at = |n: usize| solid.get(n).and_then(|index| tokens.get(*index));
    // Positions before which a parenthesis opens, and after which it closes.
    let (mut opens, mut closes) = (Vec::new(), Vec::new());
    for n in 0..solid.len() {
        let begins = at(n).is_some_and(|t| is(t, &["between", "and", "range", "rows", "groups"]));
        let literal = at(n + 1).is_some_and(|t| matches!(t.token, Token::SingleQuotedString(_)));
        if !(begins && literal) {
            continue;
        }
        // A cast to a type of one word, or none.
        let end = if at(n + 2).is_some_and(|t| t.token == Token::DoubleColon) {
            n + 3
        } else {
            n + 1
        };
        if at(end + 1).is_some_and(|t| is(t, &["preceding", "following"]))
            && let (Some(open), Some(close)) = (solid.get(n + 1), solid.get(end))
        {
            opens.push(*open);
            closes.push(*close);
        }
    }
    let mut out = Vec::with_capacity(tokens.len() + opens.len() * 2);
    for (index, token) in tokens.into_iter().enumerate() {
        let span = token.span;
        if opens.contains(&index) {
            out.push(TokenWithSpan {
                token: Token::LParen,
                span,
            });
        }
        out.push(token);
        if closes.contains(&index) {
            out.push(TokenWithSpan {
                token: Token::RParen,
                span,
            });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "tests")]

    use crate::{dialect::Dialect, limits::Limits, syntax::read_query};

    #[test]
    fn what_postgres_has_besides_is_read() {
        for (text, expected) in [
            ("SELECT a ISNULL", "SELECT a IS NULL"),
            (
                "SELECT a::text COLLATE \"C\"",
                "SELECT a::TEXT COLLATE \"C\"",
            ),
            ("SELECT a <=> b", "SELECT a <=> b"),
            ("SELECT trim(FROM a)", "SELECT TRIM(a)"),
            ("SELECT trim(BOTH FROM a)", "SELECT TRIM(BOTH a)"),
            (
                "SELECT xmlelement(NAME note, a)",
                "SELECT xmlelement(NAME note, a)",
            ),
            ("SELECT xmlpi(name php)", "SELECT xmlpi(NAME php)"),
            // Elsewhere it is a column's name.
            ("SELECT f(name) FROM t", "SELECT f(name) FROM t"),
        ] {
            let read = read_query(text, Dialect::Postgres, &Limits::default());
            let read = read.unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(read.to_string(), expected, "{text}");
        }
    }
}
