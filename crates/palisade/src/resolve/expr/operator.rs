//! Operators: which an engine has, and which functions stand behind them.

use sqlparser::ast::{BinaryOperator, UnaryOperator};

use crate::resolve::{
    Resolver,
    expr::{cast::is_engine_type, operand_class::Operands, other_engines::find_counterpart},
    refuse_unsupported,
};
use crate::{code::Code, dialect::Dialect, rejection::Rejection, syntax};

impl Resolver<'_> {
    /// A binary operator; the functions behind it are counted as called.
    pub(in crate::resolve) fn binary_operator(
        &mut self,
        op: &BinaryOperator,
        operands: &Operands,
    ) -> Result<(), Rejection> {
        if let BinaryOperator::PGCustomBinaryOperator(parts) = op {
            return match (self.catalog.dialect(), parts.as_slice()) {
                (Dialect::Postgres, [schema, name]) if schema == "pg_catalog" => {
                    self.user_operator(name, operands);
                    Ok(())
                }
                // So the server prints the operators of extensions in views.
                (Dialect::Postgres, [schema, name]) => {
                    match self.named_operator(schema, name, operands) {
                        true => Ok(()),
                        false => Err(Rejection::new(
                            Code::FunctionUnknown,
                            format!("there is no operator `{schema}.{name}` of these operands"),
                        )),
                    }
                }
                (Dialect::Sqlite | Dialect::Postgres | Dialect::Mysql, _) => Err(Rejection::new(
                    Code::FunctionUnknown,
                    "an operator is named by OPERATOR(schema.symbol)",
                )),
            };
        }
        let dialect = self.catalog.dialect();
        match meaning(op, dialect) {
            OperatorMeaning::Own => {
                self.user_operator(&op.to_string(), operands);
                Ok(())
            }
            OperatorMeaning::Function(function) => {
                self.access.functions.insert(function.to_owned());
                Ok(())
            }
            OperatorMeaning::Foreign => Err(refuse_unsupported("an operator of another engine")),
            OperatorMeaning::NotModelled(name) => Err(refuse_unsupported(name)),
            OperatorMeaning::UnknownFunction(function) => Err(Rejection::new(
                Code::FunctionUnknown,
                match find_counterpart(function, dialect) {
                    Some(text) => {
                        format!("there is no function `{function}` on this engine: write {text}")
                    }
                    None => format!("there is no function `{function}`"),
                },
            )),
            OperatorMeaning::Assignment => Err(Rejection::new(
                Code::StatementNotAllowed,
                "assignments to user variables are not permitted",
            )),
        }
    }

    /// A prefix or postfix operator.
    pub(in crate::resolve) fn unary_operator(
        &mut self,
        op: UnaryOperator,
        operand: &Operands,
    ) -> Result<(), Rejection> {
        match op {
            UnaryOperator::Plus
            | UnaryOperator::Minus
            | UnaryOperator::Not
            | UnaryOperator::BitwiseNot => {
                self.user_operator(&op.to_string(), operand);
                Ok(())
            }
            UnaryOperator::AtDashAt
            | UnaryOperator::DoubleAt
            | UnaryOperator::Hash
            | UnaryOperator::PGAbs
            | UnaryOperator::PGCubeRoot
            | UnaryOperator::PGSquareRoot
            | UnaryOperator::QuestionDash
            | UnaryOperator::QuestionPipe
            // The negation of a text search.
            | UnaryOperator::PGPrefixFactorial
                if self.catalog.dialect() == Dialect::Postgres =>
            {
                self.user_operator(&op.to_string(), operand);
                Ok(())
            }
            UnaryOperator::AtDashAt
            | UnaryOperator::DoubleAt
            | UnaryOperator::Hash
            | UnaryOperator::PGAbs
            | UnaryOperator::PGCubeRoot
            | UnaryOperator::PGSquareRoot
            | UnaryOperator::QuestionDash
            | UnaryOperator::QuestionPipe
            // MySQL's is parsed as NOT.
            | UnaryOperator::BangNot
            | UnaryOperator::PGPostfixFactorial
            | UnaryOperator::PGPrefixFactorial => Err(refuse_unsupported("an operator of another engine")),
        }
    }

    /// Counts the functions of the database's own operators with this symbol that the engine may choose for the operands.
    /// Those that only values of the database's own types can choose wait until it is known whether there are any
    /// ([`confined_operators`](Self::confined_operators)).
    pub(in crate::resolve) fn user_operator(&mut self, symbol: &str, operands: &Operands) {
        let path = self.catalog.search_path();
        for operator in self.catalog.operators() {
            if operator.name != symbol || !path.contains(&operator.schema) {
                continue;
            }
            if !operands.may_choose(symbol, &operator.left, &operator.right) {
                continue;
            }
            if operator.confined {
                self.user_types.confined.insert(operator.function.clone());
            } else {
                self.access.functions.insert(operator.function.clone());
            }
        }
    }

    /// Counts the functions of the operators of one schema that operands may choose. False where there is none.
    fn named_operator(&mut self, schema: &str, symbol: &str, operands: &Operands) -> bool {
        let mut is_known = false;
        for operator in self.catalog.operators() {
            if operator.name == symbol
                && operator.schema == schema
                && operands.may_choose(symbol, &operator.left, &operator.right)
            {
                self.access.functions.insert(operator.function.clone());
                is_known = true;
            }
        }
        is_known
    }

    /// Counts the functions of operators that only values of the database's own types can choose, if anything in the
    /// statement may be such a value. That is what is cast to such a type, what a function of the database gives, and what
    /// any column of a relation in the statement holds.
    pub(in crate::resolve) fn confined_operators(&mut self) {
        if self.user_types.confined.is_empty() {
            return;
        }
        let relations = self.access.relations();
        let changed = self.access.changes().map(|change| change.relation);
        let holds = relations.chain(changed).any(|id| {
            self.catalog.relation(id).is_none_or(|relation| {
                let mut columns = relation.columns.iter();
                columns.any(|column| !is_engine_type(&column.type_name))
            })
        });
        let gives = self.access.functions().any(|uid| {
            let schema = self.catalog.function(uid).map(|def| def.schema.as_deref());
            !matches!(
                schema,
                Some(None | Some("pg_catalog" | "information_schema"))
            )
        });
        if self.user_types.has_own_casts || holds || gives {
            self.access.functions.append(&mut self.user_types.confined);
        }
    }

    /// `ORDER BY … USING operator`.
    pub(in crate::resolve) fn ordering_operator(
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
            (Dialect::Postgres, [symbol]) => {
                self.user_operator(symbol, &Operands::unknown());
                Ok(())
            }
            (Dialect::Postgres, [schema, symbol]) if schema == "pg_catalog" => {
                self.user_operator(symbol, &Operands::unknown());
                Ok(())
            }
            (Dialect::Sqlite | Dialect::Postgres | Dialect::Mysql, _) => {
                Err(refuse_unsupported("ORDER BY … USING"))
            }
        }
    }
}

/// What an operator is to an engine.
enum OperatorMeaning {
    /// An operator of the engine's own; on PostgreSQL perhaps also of the database's.
    Own,
    /// A function of this name, which anybody may replace (SQLite).
    Function(&'static str),
    /// The engine has none.
    Foreign,
    /// The engine has it, the firewall does not model it.
    NotModelled(&'static str),
    /// No function is defined.
    UnknownFunction(&'static str),
    /// `@a := 1`
    Assignment,
}

/// One arm for each operator, so that a parser upgrade that adds one does not compile until it is answered
/// for every engine.
fn meaning(op: &BinaryOperator, dialect: Dialect) -> OperatorMeaning {
    let only = |engines: &[Dialect]| {
        if engines.contains(&dialect) {
            OperatorMeaning::Own
        } else {
            OperatorMeaning::Foreign
        }
    };
    let sqlite_function = |name| match dialect {
        Dialect::Sqlite => OperatorMeaning::Function(name),
        Dialect::Postgres | Dialect::Mysql => OperatorMeaning::Own,
    };
    match op {
        BinaryOperator::Plus
        | BinaryOperator::Minus
        | BinaryOperator::Multiply
        | BinaryOperator::Divide
        | BinaryOperator::Modulo
        // On MySQL a logical OR, since its sessions are pinned without PIPES_AS_CONCAT.
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
        | BinaryOperator::PGBitwiseShiftRight => OperatorMeaning::Own,
        BinaryOperator::Arrow => sqlite_function("->"),
        BinaryOperator::LongArrow => sqlite_function("->>"),
        BinaryOperator::Glob => match dialect {
            Dialect::Sqlite => OperatorMeaning::Function("glob"),
            Dialect::Postgres | Dialect::Mysql => OperatorMeaning::Foreign,
        },
        BinaryOperator::Regexp => match dialect {
            Dialect::Sqlite | Dialect::Postgres => OperatorMeaning::UnknownFunction("regexp"),
            Dialect::Mysql => OperatorMeaning::Own,
        },
        BinaryOperator::Assignment => match dialect {
            Dialect::Sqlite | Dialect::Postgres => OperatorMeaning::Foreign,
            Dialect::Mysql => OperatorMeaning::Assignment,
        },
        // `&&` is a logical AND on MySQL.
        BinaryOperator::BitwiseXor | BinaryOperator::PGOverlap => {
            only(&[Dialect::Postgres, Dialect::Mysql])
        }
        BinaryOperator::Spaceship | BinaryOperator::Xor | BinaryOperator::MyIntegerDivide => {
            only(&[Dialect::Mysql])
        }
        BinaryOperator::PGBitwiseXor
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
        | BinaryOperator::Custom(_) => only(&[Dialect::Postgres]),
        BinaryOperator::Match => match dialect {
            Dialect::Sqlite => OperatorMeaning::NotModelled("MATCH"),
            Dialect::Postgres | Dialect::Mysql => OperatorMeaning::Foreign,
        },
        BinaryOperator::DuckIntegerDivide
        // Answered before.
        | BinaryOperator::PGCustomBinaryOperator(_) => OperatorMeaning::Foreign,
    }
}
