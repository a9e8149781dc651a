//! Conditions that fail for no value that may be stored, so that an engine may look at them before a row filter.
//!
//! A condition is made of whatever its author likes: CASE picks the rows on which a gap in this list would show. So the list is
//! short. Functions and casts are of a column as it is stored, with constants beside it, and nothing is put together of them.

use sqlparser::ast::{
    Array, ArrayElemTypeDef, BinaryOperator, CastKind, DataType, DateTimeField, ExactNumberInfo,
    Expr, ExtractSyntax, FunctionArguments, TypedString, UnaryOperator, Value,
};

use crate::resolve::{
    Resolver,
    expr::{
        constant_form::{
            MOST_UNITS, is_count, is_field_of_days, is_interval, is_json_path, is_literal,
            is_number, is_number_type, is_of_moments, is_plain_regex, is_short_interval,
            is_short_search, is_to_text, is_unit, plain_argument,
        },
        operand_class::OperandClass,
        operand_reading::type_operand,
        unfailing_comparison::Side,
    },
    scope::{Found, Scope},
};
use crate::{catalog::TypeClass, dialect::Dialect};

impl<'a> Resolver<'a> {
    /// Whether `expr` has a value whatever is stored, if what it is made of has.
    pub(in crate::resolve) fn never_fails(&self, expr: &Expr, scope: &Scope<'a, '_>) -> bool {
        let dialect = self.catalog.dialect();
        // MySQL fails to store what was made with a warning.
        if dialect == Dialect::Mysql && self.failures.stores {
            return false;
        }
        match expr {
            // An output of the same query was looked at where it stands.
            Expr::Identifier(name) => {
                let key = self.key(name);
                !matches!(scope.find(None, &key), Found::Alias(_))
                    || !self.failures.fails_as_output(|| {
                        let mut outputs = scope.aliases.iter();
                        outputs.position(|output| *output.key == *key)
                    })
            }
            // An engine may go deeper for each part of a long one, once it looks at a row.
            Expr::Value(value) => !is_long_text(&value.value),
            Expr::CompoundIdentifier(_)
            | Expr::Nested(_)
            | Expr::Tuple(_)
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
            Expr::UnaryOp { op, expr: _ } => match op {
                UnaryOperator::Not | UnaryOperator::Plus => true,
                UnaryOperator::Minus => is_number(expr),
                _ => false,
            },
            Expr::BinaryOp { left, op, right } => self.operator_never_fails(left, op, right, scope),
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
                self.compares_safely(&[&**left, &**right], scope)
            }
            Expr::Between {
                expr,
                negated: _,
                low,
                high,
            } => self.compares_safely(&[&**expr, &**low, &**high], scope),
            Expr::InList {
                expr,
                list,
                negated: _,
            } => self.is_listed_safely(expr, list, scope),
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
            } => self.is_among_safely(left, right, scope),
            Expr::Array(Array { elem, named: true }) => elem.iter().all(is_literal),
            Expr::InSubquery {
                expr,
                subquery,
                negated: _,
            } => {
                let side = self.read_side(expr, scope);
                match dialect {
                    Dialect::Sqlite => true,
                    Dialect::Mysql => side.is_one(),
                    Dialect::Postgres => self.sides_compare(&[side, self.subquery_side(subquery)]),
                }
            }
            Expr::Subquery(query) => dialect == Dialect::Sqlite || self.gives_one_row(query),
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
            } => self.casts_safely(expr, data_type, scope),
            // The engine reads it before any row.
            Expr::TypedString(TypedString {
                data_type,
                value: _,
                uses_odbc_syntax: false,
            }) => is_of_moments(data_type),
            Expr::Interval(interval) => {
                dialect != Dialect::Sqlite
                    && (is_literal(&interval.value) || is_number(&interval.value))
            }
            Expr::Extract {
                field,
                syntax: ExtractSyntax::From,
                expr,
            } => self.extracts_safely(field, expr, scope),
            Expr::Substring {
                expr,
                substring_from,
                substring_for,
                special: _,
                shorthand: _,
            } => {
                let mut bounds = [substring_from, substring_for].into_iter().flatten();
                self.is_column_of_text(expr, scope) && bounds.all(|bound| is_count(bound))
            }
            Expr::Trim {
                trim_where: _,
                trim_what: None,
                expr,
                trim_characters: None,
            } => dialect != Dialect::Sqlite && self.is_column_of_text(expr, scope),
            Expr::Function(call) => self.call_never_fails(call, scope),
            _ => false,
        }
    }

    fn operator_never_fails(
        &self,
        left: &Expr,
        op: &BinaryOperator,
        right: &Expr,
        scope: &Scope<'a, '_>,
    ) -> bool {
        match op {
            BinaryOperator::And | BinaryOperator::Or | BinaryOperator::Xor => true,
            BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq => self.compares_safely(&[left, right], scope),
            BinaryOperator::Plus | BinaryOperator::Minus => {
                self.is_near_now(op, left, right, scope)
            }
            BinaryOperator::Arrow
            | BinaryOperator::LongArrow
            | BinaryOperator::HashArrow
            | BinaryOperator::HashLongArrow
            | BinaryOperator::Question => self.reads_json(left, op, right, scope),
            BinaryOperator::AtArrow => {
                self.reads_json(left, op, right, scope) || self.overlaps(left, right, scope)
            }
            BinaryOperator::ArrowAt | BinaryOperator::PGOverlap => {
                self.overlaps(left, right, scope)
            }
            BinaryOperator::AtAt => self.searches(left, right, scope),
            BinaryOperator::PGRegexMatch
            | BinaryOperator::PGRegexIMatch
            | BinaryOperator::PGRegexNotMatch
            | BinaryOperator::PGRegexNotIMatch => {
                is_plain_regex(right) && self.is_matched(left, scope)
            }
            _ => false,
        }
    }

    /// Whether `expr` is a text that is stored. MySQL and SQLite make one of anything.
    pub(in crate::resolve) fn is_column_of_text(&self, expr: &Expr, scope: &Scope<'a, '_>) -> bool {
        self.plain_column(expr, scope).is_some_and(|column| {
            self.catalog.dialect() != Dialect::Postgres || column.class == TypeClass::Text
        })
    }

    /// Whether `expr` is a column of points in time.
    pub(in crate::resolve) fn is_of_moments(&self, expr: &Expr, scope: &Scope<'a, '_>) -> bool {
        matches!(
            self.plain_class(expr, scope),
            Some(TypeClass::Timestamp | TypeClass::TimestampTz)
        )
    }

    fn extracts_safely(&self, field: &DateTimeField, expr: &Expr, scope: &Scope<'a, '_>) -> bool {
        let is_day = is_field_of_days(field);
        let is_time = matches!(
            field,
            DateTimeField::Hour | DateTimeField::Minute | DateTimeField::Second
        );
        match self.catalog.dialect() {
            Dialect::Sqlite => false,
            Dialect::Postgres => {
                (is_day && self.is_of_days(expr, scope))
                    || (is_time && self.is_of_moments(expr, scope))
            }
            Dialect::Mysql => is_day && self.plain_column(expr, scope).is_some(),
        }
    }

    /// Whether every value of a column, or a constant, is cast.
    fn casts_safely(&self, expr: &Expr, data_type: &DataType, scope: &Scope<'a, '_>) -> bool {
        if let Expr::Nested(inner) = expr {
            return self.casts_safely(inner, data_type, scope);
        }
        let column = self.plain_column(expr, scope);
        let is_stored = column.is_some() || is_literal(expr);
        let dialect = self.catalog.dialect();
        let is_near = || self.is_now(expr) || self.is_beginning(expr) || self.is_shifted_now(expr);
        if dialect == Dialect::Postgres && is_point_in_time(data_type) && is_near() {
            return self.catalog.casts().is_empty();
        }
        match dialect {
            Dialect::Sqlite => is_stored,
            Dialect::Mysql => {
                is_stored
                    && matches!(
                        data_type,
                        DataType::Signed
                            | DataType::SignedInteger
                            | DataType::Unsigned
                            | DataType::UnsignedInteger
                            | DataType::Decimal(_)
                            | DataType::Date
                            | DataType::Datetime(_)
                            | DataType::Char(_)
                    )
            }
            Dialect::Postgres if !self.catalog.casts().is_empty() => false,
            Dialect::Postgres => match (expr, column) {
                // It is read before any row.
                (given, _) if self.is_read_once(given) => {
                    self.is_known_type(data_type) || self.is_enumeration(data_type)
                }
                (Expr::Array(Array { elem, named: true }), _) => {
                    elem.iter().all(is_literal)
                        && matches!(data_type, DataType::Array(_))
                        && self.is_known_type(data_type)
                }
                // It is computed when the plan is made.
                (number, _) if is_number(number) => is_number_type(data_type),
                (_, Some(column)) => casts_class(column.class, data_type),
                (_, None) => false,
            },
        }
    }

    /// Whether `expr` is a literal in quotes, NULL, or a parameter that stands nowhere else: the engine reads it as the type it needs.
    fn is_read_once(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Value(value) => match &value.value {
                Value::SingleQuotedString(_) | Value::Null => true,
                Value::Placeholder(text) => self.outline.is_used_once(text),
                _ => false,
            },
            _ => false,
        }
    }

    /// Whether PostgreSQL reads a literal of the type by itself, without a function that a database adds.
    fn is_known_type(&self, data_type: &DataType) -> bool {
        let is_one = |one: &DataType| {
            is_to_text(one)
                || is_of_moments(one)
                || is_number_type(one)
                || matches!(one, DataType::JSON | DataType::JSONB)
        };
        match data_type {
            DataType::Array(ArrayElemTypeDef::SquareBracket(element, None)) => is_one(element),
            one => is_one(one),
        }
    }

    /// Whether a written type is the enumeration of a column, and so no domain with conditions. All columns of types of this name are of it.
    pub(in crate::resolve) fn is_enumeration(&self, data_type: &DataType) -> bool {
        let DataType::Custom(name, modifiers) = data_type else {
            return false;
        };
        let parts: Option<Vec<&str>> = (name.0.iter())
            .map(|part| part.as_ident().map(|ident| ident.value.as_str()))
            .collect();
        let written = parts.map(|parts| parts.join("."));
        modifiers.is_empty() && written.is_some_and(|written| self.catalog.is_enumeration(&written))
    }

    /// Whether a value is looked for in an array, whatever both hold.
    fn is_among_safely(&self, left: &Expr, right: &Expr, scope: &Scope<'a, '_>) -> bool {
        match right {
            Expr::Nested(inner) => self.is_among_safely(left, inner, scope),
            Expr::Array(Array { elem, named: true }) => self.is_listed_safely(left, elem, scope),
            Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr: _,
                data_type: DataType::Array(ArrayElemTypeDef::SquareBracket(element, None)),
                format: None,
            } => {
                // What is looked for may become of the element's type.
                let element = Side::Given(type_operand(element));
                self.sides_compare(&[self.read_side(left, scope), element])
            }
            // It becomes an array of what it is compared with.
            given if self.is_read_once(given) => {
                self.plain_column(left, scope).is_some()
                    && self.compares_safely(&[left, given], scope)
            }
            array => is_literal(left) && self.is_array(array, scope),
        }
    }

    /// Whether an operator reads a JSON document whatever it holds. Texts of JSON may hold what no text can.
    fn reads_json(
        &self,
        left: &Expr,
        op: &BinaryOperator,
        right: &Expr,
        scope: &Scope<'a, '_>,
    ) -> bool {
        let is_document = matches!(
            right,
            Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr,
                data_type: DataType::JSONB,
                format: None,
            } if self.is_read_once(expr)
        );
        let is_key = || is_literal(right) || is_number(right) || is_document;
        match self.catalog.dialect() {
            Dialect::Sqlite => false,
            Dialect::Postgres => {
                let document = OperandClass::from_one(TypeClass::Json);
                self.chooses_engines_own(&op.to_string(), document, OperandClass::Untyped)
                    && is_key()
                    && self.is_binary_json(left, scope)
            }
            Dialect::Mysql => {
                self.plain_class(left, scope) == Some(TypeClass::Json) && is_json_path(right)
            }
        }
    }

    /// Whether `expr` is an unmasked column of an array of texts, numbers or the like.
    fn is_array(&self, expr: &Expr, scope: &Scope<'a, '_>) -> bool {
        let column = self.plain_column(expr, scope);
        let inner = column.and_then(|column| column.type_name.strip_suffix("[]"));
        self.catalog.dialect() == Dialect::Postgres
            && ARRAY_OPERATORS
                .iter()
                .all(|symbol| self.is_engines_own(symbol))
            && self.has_one_collation()
            && inner.is_some_and(|inner| {
                let bare = inner.split('(').next().unwrap_or(inner);
                matches!(
                    bare,
                    "text" | "character varying" | "smallint" | "integer" | "bigint" | "uuid"
                )
            })
    }

    /// Whether an array is compared with a constant.
    fn overlaps(&self, left: &Expr, right: &Expr, scope: &Scope<'a, '_>) -> bool {
        let is_given = |expr: &Expr| match expr {
            Expr::Array(Array { elem, named: true }) => elem.iter().all(is_literal),
            other => is_literal(other),
        };
        (self.is_array(left, scope) && is_given(right))
            || (self.is_array(right, scope) && is_given(left))
    }

    /// Whether a column of `tsvector` is searched for words that are given.
    fn searches(&self, left: &Expr, right: &Expr, scope: &Scope<'a, '_>) -> bool {
        let column = self.plain_column(left, scope);
        let is_words = match right {
            Expr::Function(call) => {
                let name = call.name.0.last().and_then(|part| part.as_ident());
                name.is_some_and(|name| {
                    let key = self.key(name);
                    matches!(
                        &*key,
                        "plainto_tsquery"
                            | "phraseto_tsquery"
                            | "websearch_to_tsquery"
                            | "to_tsquery"
                    ) && self.is_engines_function(&key)
                })
            }
            other => is_short_search(other),
        };
        self.catalog.dialect() == Dialect::Postgres
            && self.is_engines_own("@@")
            && is_words
            && column.is_some_and(|column| &*column.type_name == "tsvector")
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

    /// Whether a sum or a difference is a point in time not far from now; on MySQL one beside an interval, of whatever is stored.
    fn is_near_now(
        &self,
        op: &BinaryOperator,
        left: &Expr,
        right: &Expr,
        scope: &Scope<'a, '_>,
    ) -> bool {
        match self.catalog.dialect() {
            Dialect::Sqlite => false,
            Dialect::Mysql => {
                let is_given = |expr: &Expr| {
                    self.is_now(expr)
                        || is_literal(expr)
                        || self.plain_column(expr, scope).is_some()
                };
                is_interval(right) && is_given(left)
            }
            Dialect::Postgres => {
                self.chooses_engines_own(
                    &op.to_string(),
                    OperandClass::from_one(TypeClass::TimestampTz),
                    OperandClass::from_one(TypeClass::Interval),
                ) && self.is_shift(left, right)
            }
        }
    }

    /// Whether `right` is a short time, by which now or the beginning of a time around it is moved.
    fn is_shift(&self, left: &Expr, right: &Expr) -> bool {
        (self.is_now(left) || self.is_beginning(left))
            && (is_short_interval(right) || self.is_day_count(left, right))
    }

    /// Whether `expr` is a short time from now, or from a beginning.
    fn is_shifted_now(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Nested(inner) => self.is_shifted_now(inner),
            Expr::BinaryOp {
                left,
                op: BinaryOperator::Plus | BinaryOperator::Minus,
                right,
            } => self.is_shift(left, right),
            _ => false,
        }
    }

    /// Whether `expr` is the beginning of the day, month or year around now, or a short time from now (PostgreSQL).
    pub(in crate::resolve) fn is_beginning(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Nested(inner) => self.is_beginning(inner),
            Expr::Function(call) => {
                let Some((key, [unit, of])) = self.read_own_call(call) else {
                    return false;
                };
                let parts = plain_argument(unit).zip(plain_argument(of));
                key == "date_trunc"
                    && parts.is_some_and(|(unit, of)| self.is_beginning_of(unit, of))
            }
            _ => false,
        }
    }

    /// Whether now, or a short time from it, is cut off to a unit.
    pub(in crate::resolve) fn is_beginning_of(&self, unit: &Expr, of: &Expr) -> bool {
        is_unit(unit) && (self.is_now(of) || self.is_moved_now(of))
    }

    /// Whether `expr` is a short time from now itself.
    fn is_moved_now(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Nested(inner) => self.is_moved_now(inner),
            Expr::BinaryOp {
                left,
                op: BinaryOperator::Plus | BinaryOperator::Minus,
                right,
            } => self.is_now(left) && (is_short_interval(right) || self.is_day_count(left, right)),
            _ => false,
        }
    }

    /// Whether `expr` is the day or the point in time of the statement.
    pub(in crate::resolve) fn is_now(&self, expr: &Expr) -> bool {
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
                        let is_today = key == "curdate" && self.catalog.dialect() == Dialect::Mysql;
                        let is_moment = matches!(
                            &*key,
                            "now" | "current_date" | "current_timestamp" | "localtimestamp"
                        );
                        (is_moment || is_today) && self.is_engines_function(&key)
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
}

/// The most bytes of a text in a condition.
const MOST_LITERAL_BYTES: usize = 4096;

fn is_long_text(value: &Value) -> bool {
    matches!(value, Value::SingleQuotedString(text) if text.len() > MOST_LITERAL_BYTES)
}

/// The operators by which arrays are compared.
const ARRAY_OPERATORS: [&str; 9] = ["=", "<>", "<", "<=", ">", ">=", "@>", "<@", "&&"];

fn is_point_in_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Date | DataType::Timestamp(None, _))
}

/// Whether PostgreSQL casts every value of a class to a type.
fn casts_class(class: TypeClass, data_type: &DataType) -> bool {
    match data_type {
        // What a database adds may be written by a function of its own.
        _ if is_to_text(data_type) => class != TypeClass::Other,
        DataType::Date => matches!(
            class,
            TypeClass::Date | TypeClass::Timestamp | TypeClass::TimestampTz
        ),
        DataType::BigInt(None)
        | DataType::Numeric(ExactNumberInfo::None)
        | DataType::Decimal(ExactNumberInfo::None)
        | DataType::Real
        | DataType::DoublePrecision => class == TypeClass::Integer,
        _ => false,
    }
}
