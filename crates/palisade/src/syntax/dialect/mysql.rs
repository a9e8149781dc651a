//! The parser's MySQL, without what it does to comments and with operators it lacks.

use std::any::TypeId;

use sqlparser::{
    ast::{
        BinaryOperator, CastKind, DataType, DateTimeField, Expr, FunctionArg, FunctionArgExpr,
        Ident, Interval, Statement, UnaryOperator,
    },
    dialect::{Dialect as ParserDialect, MySqlDialect, Precedence},
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::{Token, TokenWithSpan},
};

use crate::syntax::dialect::{call::build_call, delegate::delegate};
use crate::syntax::dialect::{
    prefix_fast_path::{bare, names_column, simple},
    token_edit::{is_hex_number, is_word},
};

/// See the module.
#[derive(Debug)]
pub(super) struct Mysql(MySqlDialect);

pub(super) const MYSQL: Mysql = Mysql(MySqlDialect {});

/// Reserved words that are calls without parentheses, besides those that the parser knows
/// (<https://dev.mysql.com/doc/refman/8.4/en/keywords.html>).
const CALLED_BARE: &[&str] = &["current_user", "utc_date", "utc_time", "utc_timestamp"];

/// Units of several fields, which the parser does not know as units
/// (<https://dev.mysql.com/doc/refman/8.4/en/expressions.html#temporal-intervals>).
const UNITS: &[&str] = &[
    "second_microsecond",
    "minute_microsecond",
    "minute_second",
    "hour_microsecond",
    "hour_second",
    "hour_minute",
    "day_microsecond",
    "day_second",
    "day_minute",
    "day_hour",
    "year_month",
];

/// Binds tighter than every operator between two values.
const PREFIX: u8 = 45;

impl ParserDialect for Mysql {
    fn dialect(&self) -> TypeId {
        self.0.dialect()
    }

    delegate! {
        is_identifier_start(ch: char) -> bool;
        is_identifier_part(ch: char) -> bool;
        is_delimited_identifier_start(ch: char) -> bool;
        identifier_quote_style(identifier: &str) -> Option<char>;
        supports_string_literal_backslash_escape() -> bool;
        supports_string_literal_concatenation() -> bool;
        ignores_wildcard_escapes() -> bool;
        supports_numeric_prefix() -> bool;
        supports_bitwise_shift_operators() -> bool;
        parse_statement(parser: &mut Parser) -> Option<Result<Statement, ParserError>>;
        require_interval_qualifier() -> bool;
        supports_limit_comma() -> bool;
        supports_create_table_select() -> bool;
        supports_insert_set() -> bool;
        supports_user_host_grantee() -> bool;
        is_table_factor_alias(explicit: bool, keyword: &Keyword, parser: &mut Parser) -> bool;
        supports_table_hints() -> bool;
        requires_single_line_comment_whitespace() -> bool;
        supports_match_against() -> bool;
        supports_select_modifiers() -> bool;
        supports_set_names() -> bool;
        supports_comma_separated_set_assignments() -> bool;
        supports_update_order_by() -> bool;
        supports_data_type_signed_suffix() -> bool;
        supports_cross_join_constraint() -> bool;
        supports_double_ampersand_operator() -> bool;
        supports_comment_optimizer_hint() -> bool;
        supports_constraint_keyword_without_name() -> bool;
        supports_key_column_option() -> bool;
        supports_group_by_with_modifier() -> bool;
        supports_left_associative_joins_without_parens() -> bool;
    }

    /// `(a)` and `(a AS b)` where a table stands.
    fn supports_parens_around_table_factor(&self) -> bool {
        true
    }

    fn is_column_alias(&self, keyword: &Keyword, _: &mut Parser) -> bool {
        names_column(*keyword)
    }

    /// `/*! … */` stays a comment here, so that it is refused instead of read as code whatever version
    /// it names.
    fn supports_multiline_comment_hints(&self) -> bool {
        false
    }

    /// `EXTRACT(day_hour FROM …)`.
    fn allow_extract_custom(&self) -> bool {
        true
    }

    /// The parser gives BINARY everything to its right.
    fn supports_binary_kw_as_cast(&self) -> bool {
        false
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        let token = |n: usize| &parser.peek_nth_token_ref(n).token;
        if is_word(token(0), &["mod"]) {
            Some(Ok(self.prec_value(Precedence::MulDivModOp)))
        } else if is_word(token(0), &["sounds"]) && is_word(token(1), &["like"]) {
            Some(Ok(self.prec_value(Precedence::Like)))
        } else {
            None
        }
    }

    fn parse_infix(
        &self,
        parser: &mut Parser,
        left: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        let own = [remainder, sounds_like]
            .into_iter()
            .find_map(|parse| parse(parser, left, precedence).transpose());
        own.or_else(|| self.0.parse_infix(parser, left, precedence))
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        match &parser.peek_token_ref().token {
            Token::ExclamationMark => {
                parser.next_token();
                Some(parser.parse_subexpr(PREFIX).map(|expr| {
                    let not = Expr::UnaryOp {
                        op: UnaryOperator::Not,
                        expr: Box::new(Expr::Nested(Box::new(expr))),
                    };
                    Expr::Nested(Box::new(not))
                }))
            }
            Token::Word(word) if word.quote_style.is_none() && word.keyword == Keyword::BINARY => {
                parser.next_token();
                Some(parser.parse_subexpr(PREFIX).map(|expr| Expr::Cast {
                    kind: CastKind::Cast,
                    expr: Box::new(expr),
                    data_type: DataType::Binary(None),
                    format: None,
                }))
            }
            Token::Word(word)
                if word.quote_style.is_none() && word.keyword == Keyword::INTERVAL =>
            {
                parser.next_token();
                Some(interval(parser))
            }
            Token::Word(word)
                if word.quote_style.is_none()
                    && word.keyword == Keyword::CAST
                    && parser.peek_nth_token_ref(1).token == Token::LParen =>
            {
                parser.next_token();
                Some(cast(parser))
            }
            token if is_word(token, CALLED_BARE) => match parser.peek_nth_token_ref(1).token {
                Token::LParen | Token::Period => None,
                _ => {
                    let name = Ident::new(parser.next_token().token.to_string());
                    Some(Ok(build_call(vec![name], None)))
                }
            },
            _ => bare(parser, &[Keyword::TRIM]).or_else(|| simple(parser)),
        }
    }
}

/// What follows CAST. The parser has no place for a character set in it, and one in CONVERT, which is the same
/// (<https://dev.mysql.com/doc/refman/8.4/en/cast-functions.html#function_cast>). Every CAST to a text in a view has one, as
/// the servers tell its definition.
fn cast(parser: &mut Parser) -> Result<Expr, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let expr = Box::new(parser.parse_expr()?);
    parser.expect_keyword_is(Keyword::AS)?;
    let data_type = parser.parse_data_type()?;
    let has_charset = parser.parse_keywords(&[Keyword::CHARACTER, Keyword::SET])
        || parser.parse_keyword(Keyword::CHARSET);
    let charset = if has_charset {
        Some(parser.parse_object_name(false)?)
    } else {
        None
    };
    parser.expect_token(&Token::RParen)?;
    Ok(match charset {
        None => Expr::Cast {
            kind: CastKind::Cast,
            expr,
            data_type,
            format: None,
        },
        Some(charset) => Expr::Convert {
            is_try: false,
            expr,
            data_type: Some(data_type),
            charset: Some(charset),
            target_before_value: false,
            styles: Vec::new(),
        },
    })
}

/// What follows INTERVAL: a value and its unit.
fn interval(parser: &mut Parser) -> Result<Expr, ParserError> {
    let value = Box::new(parser.parse_expr()?);
    let unit = if is_word(&parser.peek_token_ref().token, UNITS) {
        let unit = parser.next_token().token.to_string().to_ascii_uppercase();
        DateTimeField::Custom(Ident::new(unit))
    } else if parser.next_token_is_temporal_unit() {
        parser.parse_date_time_field()?
    } else {
        return parser.expected("a unit of INTERVAL", parser.peek_token());
    };
    Ok(Expr::Interval(Interval {
        value,
        leading_field: Some(unit),
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    }))
}

/// `a MOD b`, which is `a % b`.
fn remainder(
    parser: &mut Parser,
    left: &Expr,
    precedence: u8,
) -> Result<Option<Expr>, ParserError> {
    if !is_word(&parser.peek_token_ref().token, &["mod"]) {
        return Ok(None);
    }
    parser.next_token();
    Ok(Some(Expr::BinaryOp {
        left: Box::new(left.clone()),
        op: BinaryOperator::Modulo,
        right: Box::new(parser.parse_subexpr(precedence)?),
    }))
}

/// `a SOUNDS LIKE b`, which is `SOUNDEX(a) = SOUNDEX(b)`
/// (<https://dev.mysql.com/doc/refman/8.4/en/string-functions.html#operator_sounds-like>).
fn sounds_like(
    parser: &mut Parser,
    left: &Expr,
    precedence: u8,
) -> Result<Option<Expr>, ParserError> {
    if !is_word(&parser.peek_token_ref().token, &["sounds"])
        || !is_word(&parser.peek_nth_token_ref(1).token, &["like"])
    {
        return Ok(None);
    }
    parser.next_token();
    parser.next_token();
    let soundex = |value| {
        let args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(value))];
        Box::new(build_call(vec![Ident::new("soundex")], Some(args)))
    };
    let right = parser.parse_subexpr(precedence)?;
    Ok(Some(Expr::Nested(Box::new(Expr::BinaryOp {
        left: soundex(left.clone()),
        op: BinaryOperator::Eq,
        right: soundex(right),
    }))))
}

/// Spells `0b101` as `b'101'`, which the parser takes for a name, and tells `0x1F` from `x'1F'`. MariaDB takes the
/// first for a number among numbers, and the second always for a text
/// (<https://mariadb.com/kb/en/hexadecimal-literals/>).
pub(super) fn spelt_out(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    for TokenWithSpan { token, span } in &mut tokens {
        let spelt = match &*token {
            Token::Word(word) if word.quote_style.is_none() => word
                .value
                .strip_prefix("0b")
                .filter(|digits| {
                    !digits.is_empty() && digits.bytes().all(|b| matches!(b, b'0' | b'1'))
                })
                .map(|digits| Token::SingleQuotedByteStringLiteral(digits.to_owned())),
            Token::HexStringLiteral(digits) if is_hex_number(digits, *span) => {
                Some(Token::Number(format!("{HEXADECIMAL}{digits}"), false))
            }
            _ => None,
        };
        if let Some(spelt) = spelt {
            *token = spelt;
        }
    }
    tokens
}

const HEXADECIMAL: &str = "0x";

/// Whether the digits of a number are those of `0x…`: bytes, which are a number only where one is asked for.
pub(crate) fn is_hexadecimal(digits: &str) -> bool {
    digits.starts_with(HEXADECIMAL)
}
