//! The parser's MySQL, without what it does to comments and with operators it lacks.

use std::any::TypeId;

use sqlparser::{
    ast::{CastKind, DataType, Expr, Statement, UnaryOperator},
    dialect::{Dialect as ParserDialect, MySqlDialect},
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::Token,
};

use super::{delegate, simple::simple};

/// See the module.
#[derive(Debug)]
pub(super) struct Mysql(MySqlDialect);

pub(super) const MYSQL: Mysql = Mysql(MySqlDialect {});

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
        parse_infix(parser: &mut Parser, expr: &Expr, precedence: u8) -> Option<Result<Expr, ParserError>>;
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
            _ => simple(parser),
        }
    }
}
