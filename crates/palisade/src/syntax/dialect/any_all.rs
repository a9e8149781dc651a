//! `a op ANY (…)` and `a op ALL (…)` with the operators that the parser does not take there.

use sqlparser::{
    ast::{BinaryOperator, Expr},
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::Token,
};

use crate::syntax::dialect::token_edit::is_word;

/// Reads the operator and what follows it, if it is one of these.
pub(in crate::syntax) fn parse(
    parser: &mut Parser,
    left: &Expr,
) -> Result<Option<Expr>, ParserError> {
    let token = |n: usize| parser.peek_nth_token_ref(n).token.clone();
    let not = usize::from(is_word(&token(0), &["not"]));
    let (compare_op, length) = match (not, &token(not)) {
        (_, word) if is_word(word, &["like"]) => (
            [BinaryOperator::PGLikeMatch, BinaryOperator::PGNotLikeMatch],
            1,
        ),
        (_, word) if is_word(word, &["ilike"]) => (
            [
                BinaryOperator::PGILikeMatch,
                BinaryOperator::PGNotILikeMatch,
            ],
            1,
        ),
        (0, operator) if is_operator(operator) => {
            let own = BinaryOperator::Custom(operator.to_string());
            ([own.clone(), own], 1)
        }
        (_, _) => return Ok(None),
    };
    let quantifier = not + length;
    if !is_word(&token(quantifier), &["any", "all", "some"])
        || token(quantifier + 1) != Token::LParen
    {
        return Ok(None);
    }
    for _ in 0..quantifier {
        parser.next_token();
    }
    let [plain, negated] = compare_op;
    let compare_op = if not == 1 { negated } else { plain };
    let quantifier = parser.expect_one_of_keywords(&[Keyword::ANY, Keyword::ALL, Keyword::SOME])?;
    parser.expect_token(&Token::LParen)?;
    let is_query = is_word(
        &parser.peek_token_ref().token,
        &["select", "with", "values"],
    );
    let right = Box::new(if is_query {
        Expr::Subquery(parser.parse_query()?)
    } else {
        parser.parse_expr()?
    });
    parser.expect_token(&Token::RParen)?;
    let left = Box::new(left.clone());
    Ok(Some(match quantifier {
        Keyword::ALL => Expr::AllOp {
            left,
            compare_op,
            right,
        },
        quantifier => Expr::AnyOp {
            left,
            compare_op,
            right,
            is_some: quantifier == Keyword::SOME,
        },
    }))
}

/// Operators of PostgreSQL that the parser reads, but not before ANY.
fn is_operator(token: &Token) -> bool {
    matches!(
        token,
        Token::Plus
            | Token::Minus
            | Token::Mul
            | Token::Div
            | Token::Mod
            | Token::Caret
            | Token::StringConcat
            | Token::Ampersand
            | Token::Pipe
            | Token::Sharp
            | Token::ShiftLeft
            | Token::ShiftRight
            | Token::Overlap
            | Token::CaretAt
            | Token::Arrow
            | Token::LongArrow
            | Token::HashArrow
            | Token::HashLongArrow
            | Token::AtArrow
            | Token::ArrowAt
            | Token::HashMinus
            | Token::AtQuestion
            | Token::AtAt
            | Token::Question
            | Token::QuestionAnd
            | Token::QuestionPipe
            | Token::TwoWayArrow
            | Token::AmpersandLeftAngleBracket
            | Token::AmpersandRightAngleBracket
            | Token::TildeEqual
            | Token::CustomBinaryOperator(_)
    )
}
