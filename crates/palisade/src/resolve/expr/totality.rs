//! Which expressions have a value for every row.

use sqlparser::ast::{
    Array, BinaryOperator, CaseWhen, CastKind, DataType, DateTimeField, ExactNumberInfo, Expr,
    ExtractSyntax, Function, FunctionArguments, TypedString, UnaryOperator, Value,
};

use crate::resolve::{
    Resolver,
    expr::{
        constant_form::{
            MOST_UNITS, is_count, is_interval, is_json_path, is_literal, is_number, is_number_type,
            is_of_moments, is_short_interval, is_to_text, plain_argument,
        },
        total_comparison::Side,
    },
    scope::{Found, Scope},
};
use crate::{
    catalog::{ClassSet, TypeClass},
    dialect::Dialect,
};

impl<'a> Resolver<'a> {
    /// Whether `expr` has a value wherever what it is made from has.
    pub(in crate::resolve) fn is_total(&self, expr: &Expr, scope: &Scope<'a, '_>) -> bool {
        let dialect = self.catalog.dialect();
        match expr {
            Expr::Identifier(_)
            | Expr::CompoundIdentifier(_)
            | Expr::Value(_)
            | Expr::Nested(_)
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsTrue(_)
            | Expr::IsNotTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsNotFalse(_)
            | Expr::IsUnknown(_)
            | Expr::IsNotUnknown(_)
            | Expr::Exists {
                subquery: _,
                negated: _,
            } => true,
            Expr::Case {
                case_token: _,
                end_token: _,
                operand,
                conditions,
                else_result,
            } => {
                let whens = conditions.iter().map(
                    |CaseWhen {
                         condition,
                         result: _,
                     }| condition,
                );
                let results = conditions.iter().map(
                    |CaseWhen {
                         condition: _,
                         result,
                     }| result,
                );
                let results: Vec<_> = results.chain(else_result.as_deref()).collect();
                let compares = operand.as_deref().is_none_or(|operand| {
                    let sides: Vec<_> = std::iter::once(operand).chain(whens).collect();
                    self.compares(&sides, scope)
                });
                compares && self.unifies(&results, scope)
            }
            Expr::UnaryOp { op, expr: _ } => match op {
                UnaryOperator::Not | UnaryOperator::Plus => true,
                UnaryOperator::Minus => dialect == Dialect::Sqlite || is_number(expr),
                _ => false,
            },
            Expr::BinaryOp { left, op, right } => match op {
                BinaryOperator::And | BinaryOperator::Or | BinaryOperator::Xor => true,
                BinaryOperator::Eq
                | BinaryOperator::NotEq
                | BinaryOperator::Lt
                | BinaryOperator::LtEq
                | BinaryOperator::Gt
                | BinaryOperator::GtEq => self.compares(&[&**left, &**right], scope),
                // SQLite makes a number of anything, NULL of a division by zero, and floats of what is too large.
                BinaryOperator::Plus | BinaryOperator::Minus => {
                    dialect == Dialect::Sqlite || self.is_near_now(left, right)
                }
                BinaryOperator::Multiply => dialect == Dialect::Sqlite,
                // MySQL gives NULL for a division by zero where nothing is stored.
                BinaryOperator::Divide | BinaryOperator::Modulo => dialect != Dialect::Postgres,
                BinaryOperator::BitwiseAnd
                | BinaryOperator::BitwiseOr
                | BinaryOperator::PGBitwiseShiftLeft
                | BinaryOperator::PGBitwiseShiftRight => dialect == Dialect::Sqlite,
                BinaryOperator::Arrow
                | BinaryOperator::LongArrow
                | BinaryOperator::HashArrow
                | BinaryOperator::HashLongArrow
                | BinaryOperator::AtArrow
                | BinaryOperator::Question => self.reads_json(left, op, right, scope),
                BinaryOperator::StringConcat => {
                    dialect != Dialect::Postgres
                        || (self.is_text(left, scope) && self.is_text(right, scope))
                }
                _ => false,
            },
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
                self.compares(&[&**left, &**right], scope)
            }
            Expr::Between {
                expr,
                negated: _,
                low,
                high,
            } => self.compares(&[&**expr, &**low, &**high], scope),
            Expr::InList {
                expr,
                list,
                negated: _,
            } => {
                let sides: Vec<_> = std::iter::once(&**expr).chain(list).collect();
                self.compares(&sides, scope)
            }
            Expr::InSubquery {
                expr,
                subquery,
                negated: _,
            } => {
                let side = self.read_side(expr, scope);
                match dialect {
                    Dialect::Sqlite => true,
                    Dialect::Mysql => self.only_warns() && side.is_one(),
                    Dialect::Postgres => {
                        let given = Side::Given(self.subquery_operand(subquery));
                        self.sides_compare(&[side, given])
                    }
                }
            }
            Expr::Subquery(query) => dialect == Dialect::Sqlite || self.gives_one_row(query),
            Expr::AnyOp {
                left,
                compare_op:
                    BinaryOperator::Eq
                    | BinaryOperator::NotEq
                    | BinaryOperator::Lt
                    | BinaryOperator::LtEq
                    | BinaryOperator::Gt
                    | BinaryOperator::GtEq,
                right,
                is_some: _,
            } => match &**right {
                Expr::Array(Array { elem, named: true }) => {
                    let sides: Vec<_> = std::iter::once(&**left).chain(elem).collect();
                    self.compares(&sides, scope)
                }
                _ => false,
            },
            Expr::Array(Array { elem, named: true }) => elem.iter().all(is_literal),
            Expr::Like {
                negated: _,
                any: false,
                expr,
                pattern,
                escape_char: None,
            }
            | Expr::ILike {
                negated: _,
                any: false,
                expr,
                pattern,
                escape_char: None,
            } => self.is_plain_pattern(pattern) && self.is_matched(expr, scope),
            Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr,
                data_type,
                format: None,
            } => match dialect {
                Dialect::Sqlite => true,
                Dialect::Postgres => self.casts_safely(expr, data_type, scope),
                Dialect::Mysql => is_to_text(data_type) || self.warns_of(data_type),
            },
            // The engine reads it before any row.
            Expr::TypedString(TypedString {
                data_type,
                value: _,
                uses_odbc_syntax: false,
            }) => is_of_moments(data_type),
            Expr::Interval(interval) => match dialect {
                Dialect::Sqlite => false,
                Dialect::Postgres => is_literal(&interval.value),
                Dialect::Mysql => true,
            },
            Expr::Extract {
                field,
                syntax: ExtractSyntax::From,
                expr,
            } => {
                let is_day = matches!(
                    field,
                    DateTimeField::Year
                        | DateTimeField::Quarter
                        | DateTimeField::Month
                        | DateTimeField::Week(None)
                        | DateTimeField::Day
                );
                is_day && (self.only_warns() || self.is_of_days(expr, scope))
            }
            Expr::Substring {
                expr,
                substring_from,
                substring_for,
                special: _,
                shorthand: _,
            } => {
                let mut bounds = [substring_from, substring_for].into_iter().flatten();
                dialect != Dialect::Postgres
                    || (self.known_operand(expr, scope).is_text()
                        && bounds.all(|bound| is_count(bound)))
            }
            Expr::Trim {
                trim_where: _,
                trim_what,
                expr,
                trim_characters: None,
            } => {
                dialect != Dialect::Postgres
                    || (trim_what.as_deref().is_none_or(is_literal)
                        && self.known_operand(expr, scope).is_text())
            }
            Expr::Function(call) => self.is_total_call(call, scope),
            _ => false,
        }
    }

    /// Whether what may fail elsewhere gives NULL and a warning: MySQL, where nothing is stored.
    pub(in crate::resolve) fn only_warns(&self) -> bool {
        self.catalog.dialect() == Dialect::Mysql && !self.failures.stores
    }

    /// Whether PostgreSQL casts every value of `expr`.
    fn casts_safely(&self, expr: &Expr, data_type: &DataType, scope: &Scope<'a, '_>) -> bool {
        if !self.catalog.casts().is_empty() {
            return false;
        }
        let from = match expr {
            Expr::Nested(inner) => return self.casts_safely(inner, data_type, scope),
            // It is read before any row, unless it has to be made shorter.
            Expr::Value(value)
                if matches!(value.value, Value::SingleQuotedString(_) | Value::Null) =>
            {
                return is_to_text(data_type)
                    || is_of_moments(data_type)
                    || is_number_type(data_type);
            }
            // It is computed when the plan is made.
            number if is_number(number) => return is_number_type(data_type),
            other => self.known_operand(other, scope).classes(),
        };
        let is_from = |classes: &[TypeClass]| {
            !from.is_empty() && from.is_within(ClassSet::from_list(classes))
        };
        match data_type {
            // What a database adds may be written by a function of its own.
            _ if is_to_text(data_type) => !from.is_empty() && !from.contains(TypeClass::Other),
            DataType::Date => is_from(&[
                TypeClass::Date,
                TypeClass::Timestamp,
                TypeClass::TimestampTz,
            ]),
            DataType::BigInt(None)
            | DataType::Numeric(ExactNumberInfo::None)
            | DataType::Decimal(ExactNumberInfo::None)
            | DataType::Real
            | DataType::DoublePrecision => is_from(&[TypeClass::Integer]),
            _ => false,
        }
    }

    /// Whether MySQL gives something of the type, and a warning, for any value.
    fn warns_of(&self, data_type: &DataType) -> bool {
        self.only_warns()
            && matches!(
                data_type,
                DataType::Signed
                    | DataType::SignedInteger
                    | DataType::Unsigned
                    | DataType::UnsignedInteger
                    | DataType::Decimal(_)
                    | DataType::Date
                    | DataType::Datetime(_)
                    | DataType::Time(_, _)
                    | DataType::Double(_)
                    | DataType::Float(_)
            )
    }

    /// Whether an operator reads a JSON document whatever it holds. Texts of JSON may hold what no text can.
    fn reads_json(
        &self,
        left: &Expr,
        op: &BinaryOperator,
        right: &Expr,
        scope: &Scope<'a, '_>,
    ) -> bool {
        let is_key = || is_literal(right) || is_number(right);
        match self.catalog.dialect() {
            Dialect::Sqlite => false,
            Dialect::Postgres => {
                self.is_engines_own(&op.to_string()) && is_key() && self.is_binary_json(left, scope)
            }
            Dialect::Mysql => {
                self.plain_class(left, scope) == Some(TypeClass::Json) && is_json_path(right)
            }
        }
    }

    /// Whether `expr` is a column of `jsonb`, or a part of it.
    fn is_binary_json(&self, expr: &Expr, scope: &Scope<'a, '_>) -> bool {
        match expr {
            Expr::Nested(inner) => self.is_binary_json(inner, scope),
            Expr::BinaryOp {
                left,
                op: BinaryOperator::Arrow | BinaryOperator::HashArrow,
                right: _,
            } => self.is_binary_json(left, scope),
            other => self
                .column_side(other, scope)
                .is_some_and(|column| &*column.type_name == "jsonb"),
        }
    }

    /// Whether a sum or a difference is a point in time not far from now, or gives NULL where it is too far.
    fn is_near_now(&self, left: &Expr, right: &Expr) -> bool {
        match self.catalog.dialect() {
            Dialect::Sqlite => true,
            Dialect::Mysql => self.only_warns() && [left, right].into_iter().any(is_interval),
            Dialect::Postgres => {
                self.is_now(left) && (is_short_interval(right) || self.is_day_count(left, right))
            }
        }
    }

    /// Whether `expr` is the day or the point in time of the statement.
    fn is_now(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Nested(inner) => self.is_now(inner),
            Expr::Function(call) => {
                let no_arguments = match &call.args {
                    FunctionArguments::None => true,
                    FunctionArguments::List(list) => list.args.is_empty(),
                    FunctionArguments::Subquery(_) => false,
                };
                let name = call.name.0.last().and_then(|part| part.as_ident());
                no_arguments
                    && name.is_some_and(|name| {
                        let key = self.key(name);
                        matches!(
                            &*key,
                            "now" | "current_date" | "current_timestamp" | "localtimestamp"
                        ) && self.is_engines_function(&key)
                    })
            }
            _ => false,
        }
    }

    /// Whether a few days are added to today.
    fn is_day_count(&self, left: &Expr, right: &Expr) -> bool {
        let is_today = match left {
            Expr::Function(call) => {
                let name = call.name.0.last().and_then(|part| part.as_ident());
                name.is_some_and(|name| &*self.key(name) == "current_date")
            }
            _ => false,
        };
        let days = match right {
            Expr::Value(value) => match &value.value {
                Value::Number(text, _) => text.parse::<u32>().ok(),
                _ => None,
            },
            _ => None,
        };
        is_today && days.is_some_and(|days| days <= MOST_UNITS)
    }

    /// Whether an expression fails on extreme values alone: a text that is put together and too long for the engine, a day too far
    /// away for a point in time.
    pub(in crate::resolve) fn fails_on_extremes(&self, expr: &Expr, scope: &Scope<'a, '_>) -> bool {
        let only_warns = self.catalog.dialect() == Dialect::Mysql;
        match expr {
            // An output of the same query, which was looked at where it stands.
            Expr::Identifier(name) => {
                let key = self.key(name);
                matches!(scope.find(None, &key), Found::Alias(_))
                    && self.failures.fails_as_output(|| {
                        let mut outputs = scope.aliases.iter();
                        outputs.position(|output| *output.key == *key)
                    })
            }
            _ if only_warns => false,
            Expr::BinaryOp {
                left: _,
                op: BinaryOperator::StringConcat,
                right: _,
            } => true,
            Expr::Function(call) => {
                let name = call.name.0.last().and_then(|part| part.as_ident());
                name.is_some_and(|name| match &*self.key(name) {
                    "concat" | "concat_ws" => true,
                    "date_trunc" => !self.truncates_moment(call, scope),
                    _ => false,
                })
            }
            _ => false,
        }
    }

    fn truncates_moment(&self, call: &Function, scope: &Scope<'a, '_>) -> bool {
        match &call.args {
            FunctionArguments::List(list) => match list.args.as_slice() {
                [_, of] => plain_argument(of).is_some_and(|of| self.is_of_moments(of, scope)),
                _ => false,
            },
            FunctionArguments::None | FunctionArguments::Subquery(_) => false,
        }
    }
}
