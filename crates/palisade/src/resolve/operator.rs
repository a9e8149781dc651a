//! Operators: which an engine has, and which functions stand behind them.

use sqlparser::ast::{BinaryOperator, UnaryOperator};

use super::{Resolver, unsupported};
use crate::{code::Code, dialect::Dialect, rejection::Rejection, syntax};

impl Resolver<'_> {
    /// A binary operator; the functions behind it are counted as called.
    pub(super) fn binary_operator(&mut self, op: &BinaryOperator) -> Result<(), Rejection> {
        match self.catalog.dialect() {
            Dialect::Sqlite => {
                if let Some(function) = sqlite(op)? {
                    self.access.functions.insert(function.to_owned());
                }
                Ok(())
            }
            Dialect::Postgres => self.postgres_operator(op),
            Dialect::Mysql => mysql(op),
        }
    }

    /// A prefix or postfix operator.
    pub(super) fn unary_operator(&mut self, op: UnaryOperator) -> Result<(), Rejection> {
        match op {
            UnaryOperator::Plus
            | UnaryOperator::Minus
            | UnaryOperator::Not
            | UnaryOperator::BitwiseNot => self.user_operator(&op.to_string()),
            UnaryOperator::BangNot if self.catalog.dialect() == Dialect::Mysql => Ok(()),
            UnaryOperator::AtDashAt
            | UnaryOperator::DoubleAt
            | UnaryOperator::Hash
            | UnaryOperator::PGAbs
            | UnaryOperator::PGCubeRoot
            | UnaryOperator::PGSquareRoot
            | UnaryOperator::QuestionDash
            | UnaryOperator::QuestionPipe
                if self.catalog.dialect() == Dialect::Postgres =>
            {
                self.user_operator(&op.to_string())
            }
            UnaryOperator::AtDashAt
            | UnaryOperator::DoubleAt
            | UnaryOperator::Hash
            | UnaryOperator::PGAbs
            | UnaryOperator::PGCubeRoot
            | UnaryOperator::PGSquareRoot
            | UnaryOperator::QuestionDash
            | UnaryOperator::QuestionPipe
            | UnaryOperator::BangNot
            | UnaryOperator::PGPostfixFactorial
            | UnaryOperator::PGPrefixFactorial => Err(unsupported("an operator of another engine")),
        }
    }

    fn postgres_operator(&mut self, op: &BinaryOperator) -> Result<(), Rejection> {
        match op {
            BinaryOperator::PGCustomBinaryOperator(parts) => match parts.as_slice() {
                [schema, name] if schema == "pg_catalog" => self.user_operator(name),
                _ => Err(Rejection::new(
                    Code::FunctionUnknown,
                    "only operators of pg_catalog can be named by OPERATOR(…)",
                )),
            },
            BinaryOperator::And | BinaryOperator::Or => Ok(()),
            BinaryOperator::Plus
            | BinaryOperator::Minus
            | BinaryOperator::Multiply
            | BinaryOperator::Divide
            | BinaryOperator::Modulo
            | BinaryOperator::StringConcat
            | BinaryOperator::Gt
            | BinaryOperator::Lt
            | BinaryOperator::GtEq
            | BinaryOperator::LtEq
            | BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::BitwiseOr
            | BinaryOperator::BitwiseAnd
            | BinaryOperator::BitwiseXor
            | BinaryOperator::PGBitwiseXor
            | BinaryOperator::PGBitwiseShiftLeft
            | BinaryOperator::PGBitwiseShiftRight
            | BinaryOperator::PGExp
            | BinaryOperator::PGOverlap
            | BinaryOperator::PGRegexMatch
            | BinaryOperator::PGRegexIMatch
            | BinaryOperator::PGRegexNotMatch
            | BinaryOperator::PGRegexNotIMatch
            | BinaryOperator::PGLikeMatch
            | BinaryOperator::PGILikeMatch
            | BinaryOperator::PGNotLikeMatch
            | BinaryOperator::PGNotILikeMatch
            | BinaryOperator::PGStartsWith
            | BinaryOperator::Arrow
            | BinaryOperator::LongArrow
            | BinaryOperator::HashArrow
            | BinaryOperator::HashLongArrow
            | BinaryOperator::AtAt
            | BinaryOperator::AtArrow
            | BinaryOperator::ArrowAt
            | BinaryOperator::HashMinus
            | BinaryOperator::AtQuestion
            | BinaryOperator::Question
            | BinaryOperator::QuestionAnd
            | BinaryOperator::QuestionPipe
            | BinaryOperator::Overlaps
            | BinaryOperator::DoubleHash
            | BinaryOperator::LtDashGt
            | BinaryOperator::AndLt
            | BinaryOperator::AndGt
            | BinaryOperator::LtLtPipe
            | BinaryOperator::PipeGtGt
            | BinaryOperator::AndLtPipe
            | BinaryOperator::PipeAndGt
            | BinaryOperator::LtCaret
            | BinaryOperator::GtCaret
            | BinaryOperator::QuestionHash
            | BinaryOperator::QuestionDash
            | BinaryOperator::QuestionDashPipe
            | BinaryOperator::QuestionDoublePipe
            | BinaryOperator::At
            | BinaryOperator::TildeEq
            | BinaryOperator::Custom(_) => self.user_operator(&op.to_string()),
            BinaryOperator::Spaceship
            | BinaryOperator::Xor
            | BinaryOperator::DuckIntegerDivide
            | BinaryOperator::MyIntegerDivide
            | BinaryOperator::Glob
            | BinaryOperator::Match
            | BinaryOperator::Regexp
            | BinaryOperator::Assignment => Err(unsupported("an operator of another engine")),
        }
    }

    /// Counts the functions of the database's own operators with this symbol: which of the candidates
    /// the engine takes depends on types.
    pub(super) fn user_operator(&mut self, symbol: &str) -> Result<(), Rejection> {
        let path = self.catalog.search_path();
        for operator in self.catalog.operators() {
            if operator.name == symbol && path.contains(&operator.schema) {
                self.access.functions.insert(operator.function.clone());
            }
        }
        Ok(())
    }

    /// `ORDER BY … USING operator`.
    pub(super) fn ordering_operator(
        &mut self,
        name: &sqlparser::ast::ObjectName,
    ) -> Result<(), Rejection> {
        let parts: Vec<_> = name
            .0
            .iter()
            .filter_map(|part| part.as_ident())
            .map(|ident| syntax::decode(ident).into_owned())
            .collect();
        match (self.catalog.dialect(), parts.as_slice()) {
            (Dialect::Postgres, [symbol]) => self.user_operator(symbol),
            (Dialect::Postgres, [schema, symbol]) if schema == "pg_catalog" => {
                self.user_operator(symbol)
            }
            (Dialect::Sqlite | Dialect::Postgres | Dialect::Mysql, _) => {
                Err(unsupported("ORDER BY … USING"))
            }
        }
    }
}

/// The function behind an operator of SQLite, if it is one to the engine.
fn sqlite(op: &BinaryOperator) -> Result<Option<&'static str>, Rejection> {
    match op {
        BinaryOperator::Plus
        | BinaryOperator::Minus
        | BinaryOperator::Multiply
        | BinaryOperator::Divide
        | BinaryOperator::Modulo
        | BinaryOperator::StringConcat
        | BinaryOperator::Gt
        | BinaryOperator::Lt
        | BinaryOperator::GtEq
        | BinaryOperator::LtEq
        | BinaryOperator::Eq
        | BinaryOperator::NotEq
        | BinaryOperator::And
        | BinaryOperator::Or
        | BinaryOperator::BitwiseOr
        | BinaryOperator::BitwiseAnd
        | BinaryOperator::PGBitwiseShiftLeft
        | BinaryOperator::PGBitwiseShiftRight => Ok(None),
        BinaryOperator::Arrow => Ok(Some("->")),
        BinaryOperator::LongArrow => Ok(Some("->>")),
        BinaryOperator::Glob => Ok(Some("glob")),
        BinaryOperator::Match => Err(unsupported("MATCH")),
        BinaryOperator::Regexp => Err(Rejection::new(
            Code::FunctionUnknown,
            "there is no function `regexp`",
        )),
        BinaryOperator::Spaceship
        | BinaryOperator::Xor
        | BinaryOperator::BitwiseXor
        | BinaryOperator::DuckIntegerDivide
        | BinaryOperator::MyIntegerDivide
        | BinaryOperator::Custom(_)
        | BinaryOperator::PGBitwiseXor
        | BinaryOperator::PGExp
        | BinaryOperator::PGOverlap
        | BinaryOperator::PGRegexMatch
        | BinaryOperator::PGRegexIMatch
        | BinaryOperator::PGRegexNotMatch
        | BinaryOperator::PGRegexNotIMatch
        | BinaryOperator::PGLikeMatch
        | BinaryOperator::PGILikeMatch
        | BinaryOperator::PGNotLikeMatch
        | BinaryOperator::PGNotILikeMatch
        | BinaryOperator::PGStartsWith
        | BinaryOperator::HashArrow
        | BinaryOperator::HashLongArrow
        | BinaryOperator::AtAt
        | BinaryOperator::AtArrow
        | BinaryOperator::ArrowAt
        | BinaryOperator::HashMinus
        | BinaryOperator::AtQuestion
        | BinaryOperator::Question
        | BinaryOperator::QuestionAnd
        | BinaryOperator::QuestionPipe
        | BinaryOperator::PGCustomBinaryOperator(_)
        | BinaryOperator::Overlaps
        | BinaryOperator::DoubleHash
        | BinaryOperator::LtDashGt
        | BinaryOperator::AndLt
        | BinaryOperator::AndGt
        | BinaryOperator::LtLtPipe
        | BinaryOperator::PipeGtGt
        | BinaryOperator::AndLtPipe
        | BinaryOperator::PipeAndGt
        | BinaryOperator::LtCaret
        | BinaryOperator::GtCaret
        | BinaryOperator::QuestionHash
        | BinaryOperator::QuestionDash
        | BinaryOperator::QuestionDashPipe
        | BinaryOperator::QuestionDoublePipe
        | BinaryOperator::At
        | BinaryOperator::TildeEq
        | BinaryOperator::Assignment => Err(unsupported("an operator of another engine")),
    }
}

/// MySQL's operators; none is a function that anybody can define.
fn mysql(op: &BinaryOperator) -> Result<(), Rejection> {
    match op {
        BinaryOperator::Plus
        | BinaryOperator::Minus
        | BinaryOperator::Multiply
        | BinaryOperator::Divide
        | BinaryOperator::Modulo
        | BinaryOperator::MyIntegerDivide
        // Logical OR and AND, since the sessions are pinned without PIPES_AS_CONCAT.
        | BinaryOperator::StringConcat
        | BinaryOperator::PGOverlap
        | BinaryOperator::Gt
        | BinaryOperator::Lt
        | BinaryOperator::GtEq
        | BinaryOperator::LtEq
        | BinaryOperator::Spaceship
        | BinaryOperator::Eq
        | BinaryOperator::NotEq
        | BinaryOperator::And
        | BinaryOperator::Or
        | BinaryOperator::Xor
        | BinaryOperator::BitwiseOr
        | BinaryOperator::BitwiseAnd
        | BinaryOperator::BitwiseXor
        | BinaryOperator::PGBitwiseShiftLeft
        | BinaryOperator::PGBitwiseShiftRight
        | BinaryOperator::Arrow
        | BinaryOperator::LongArrow
        | BinaryOperator::Regexp => Ok(()),
        BinaryOperator::Assignment => Err(Rejection::new(
            Code::StatementNotAllowed,
            "assignments to user variables are not permitted",
        )),
        BinaryOperator::Glob
        | BinaryOperator::Match
        | BinaryOperator::DuckIntegerDivide
        | BinaryOperator::Custom(_)
        | BinaryOperator::PGBitwiseXor
        | BinaryOperator::PGExp
        | BinaryOperator::PGRegexMatch
        | BinaryOperator::PGRegexIMatch
        | BinaryOperator::PGRegexNotMatch
        | BinaryOperator::PGRegexNotIMatch
        | BinaryOperator::PGLikeMatch
        | BinaryOperator::PGILikeMatch
        | BinaryOperator::PGNotLikeMatch
        | BinaryOperator::PGNotILikeMatch
        | BinaryOperator::PGStartsWith
        | BinaryOperator::HashArrow
        | BinaryOperator::HashLongArrow
        | BinaryOperator::AtAt
        | BinaryOperator::AtArrow
        | BinaryOperator::ArrowAt
        | BinaryOperator::HashMinus
        | BinaryOperator::AtQuestion
        | BinaryOperator::Question
        | BinaryOperator::QuestionAnd
        | BinaryOperator::QuestionPipe
        | BinaryOperator::PGCustomBinaryOperator(_)
        | BinaryOperator::Overlaps
        | BinaryOperator::DoubleHash
        | BinaryOperator::LtDashGt
        | BinaryOperator::AndLt
        | BinaryOperator::AndGt
        | BinaryOperator::LtLtPipe
        | BinaryOperator::PipeGtGt
        | BinaryOperator::AndLtPipe
        | BinaryOperator::PipeAndGt
        | BinaryOperator::LtCaret
        | BinaryOperator::GtCaret
        | BinaryOperator::QuestionHash
        | BinaryOperator::QuestionDash
        | BinaryOperator::QuestionDashPipe
        | BinaryOperator::QuestionDoublePipe
        | BinaryOperator::At
        | BinaryOperator::TildeEq => Err(unsupported("an operator of another engine")),
    }
}
