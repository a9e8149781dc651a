//! Which expressions have a value for every row, and where a missing value would be noticed.
//!
//! An expression fails on some rows, and the plan decides on which rows it is evaluated: a join whose one side is empty never
//! looks at the other. The planner chooses by statistics of every row of a table, those that a filter hides included. So a
//! statement that combines several row sources and may fail anywhere below its answer tells of hidden rows, by failing or not,
//! unless every filtered source is fenced.

use std::collections::BTreeSet;

use sqlparser::ast::{
    BinaryOperator, CastKind, DataType, DateTimeField, Expr, ExtractSyntax, Function, FunctionArg,
    FunctionArgExpr, FunctionArgumentList, FunctionArguments, UnaryOperator, Value, WindowSpec,
    WindowType,
};

use crate::resolve::{
    Resolver,
    scope::{Output, Scope},
};
use crate::{
    catalog::{ColumnId, TypeClass},
    dialect::Dialect,
    rejection::Rejection,
};

/// On which rows the expression that is being read is evaluated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum RowChoice {
    /// On rows that the plan chooses.
    #[default]
    Planned,
    /// On the rows of the answer, or on those that are changed: the same ones by every plan.
    Answered,
    /// On rows of a change's target that meet its write filter and every condition that cannot fail, by every plan.
    Filtered,
    /// As [`Answered`](Self::Answered), unless another clause uses the output or term before the rows are joined.
    Output,
}

/// What is known so far of expressions that may fail.
#[derive(Debug, Default)]
pub(in crate::resolve) struct PlanFailures {
    /// Whether one may, on rows that the plan chooses.
    pub(in crate::resolve) planned: bool,
    /// Row sources so far: tables, functions, VALUES and the like, wherever they stand.
    pub(in crate::resolve) sources: usize,
    /// Whether a query inside of the statement takes some of its rows alone: which of them are computed is the plan's choice.
    pub(in crate::resolve) has_limit_inside: bool,
    rows: RowChoice,
    /// Whether the outermost SELECT is being read, and none inside of it.
    outermost: bool,
    /// Whether the next SELECT is the outermost one.
    awaits_outermost: bool,
    /// Whether the term that is being read may fail.
    term_fails: bool,
    /// Whether it has an aggregate or a window, and so is evaluated after rows are joined.
    over_rows: bool,
    /// Positions of the outermost SELECT's outputs that may fail before rows are joined.
    outputs: BTreeSet<usize>,
    /// Common table expressions that were read from so far.
    ctes: BTreeSet<String>,
}

/// What [`PlanFailures`] held outside of a query.
#[derive(Debug)]
pub(in crate::resolve) struct Outside {
    rows: RowChoice,
    outermost: bool,
    term_fails: bool,
    over_rows: bool,
    outputs: BTreeSet<usize>,
}

impl PlanFailures {
    /// For our own output, which has its fences already.
    pub(in crate::resolve) fn unchecked() -> Self {
        Self {
            planned: true,
            ..Self::default()
        }
    }

    /// Whether the statement fails or not by what the plan evaluates.
    pub(in crate::resolve) fn depend_on_plan(&self) -> bool {
        self.planned && (self.sources > 1 || self.has_limit_inside)
    }

    /// That an expression which may fail was met.
    fn note(&mut self) {
        match self.rows {
            RowChoice::Planned => self.planned = true,
            RowChoice::Answered | RowChoice::Filtered => {}
            RowChoice::Output => self.term_fails = true,
        }
    }

    /// That a common table expression is read: the first time it is one with its own sources.
    pub(in crate::resolve) fn read_cte(&mut self, key: &str) {
        if !self.ctes.insert(key.to_owned()) {
            self.sources += 1;
        }
    }

    /// That the next SELECT is the outermost one.
    pub(in crate::resolve) fn await_outermost(&mut self) {
        self.awaits_outermost = true;
    }

    /// Begins a SELECT.
    pub(in crate::resolve) fn begin_select(&mut self) {
        self.outermost = std::mem::take(&mut self.awaits_outermost);
    }

    /// Whether the SELECT that is being read is the outermost one.
    pub(in crate::resolve) fn is_outermost(&self) -> bool {
        self.outermost
    }

    /// Begins a query inside of what is being read.
    pub(in crate::resolve) fn enter_query(&mut self) -> Outside {
        Outside {
            rows: std::mem::take(&mut self.rows),
            outermost: std::mem::take(&mut self.outermost),
            term_fails: std::mem::take(&mut self.term_fails),
            over_rows: std::mem::take(&mut self.over_rows),
            outputs: std::mem::take(&mut self.outputs),
        }
    }

    /// Goes back to what stands around it.
    pub(in crate::resolve) fn leave_query(&mut self, outside: Outside) {
        let Outside {
            rows,
            outermost,
            term_fails,
            over_rows,
            outputs,
        } = outside;
        self.rows = rows;
        self.outermost = outermost;
        self.term_fails = term_fails;
        self.over_rows = over_rows;
        self.outputs = outputs;
    }
}

impl<'a> Resolver<'a> {
    /// Reads with `read` what is evaluated on the rows of the answer, or on those that are changed, alone.
    pub(in crate::resolve) fn on_answered_rows<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Rejection>,
    ) -> Result<T, Rejection> {
        let before = std::mem::replace(&mut self.failures.rows, RowChoice::Answered);
        let result = read(self);
        self.failures.rows = before;
        result
    }

    /// Reads with `read` the condition of a change whose target is filtered. MySQL's joins have conditions of their own, which
    /// the engine may look at later.
    pub(in crate::resolve) fn on_filtered_rows<T>(
        &mut self,
        is_joined: bool,
        read: impl FnOnce(&mut Self) -> Result<T, Rejection>,
    ) -> Result<T, Rejection> {
        let rows = match (self.catalog.dialect(), is_joined) {
            (Dialect::Mysql, true) => RowChoice::Planned,
            (Dialect::Mysql, false) | (Dialect::Sqlite | Dialect::Postgres, _) => {
                RowChoice::Filtered
            }
        };
        let before = std::mem::replace(&mut self.failures.rows, rows);
        let result = read(self);
        self.failures.rows = before;
        result
    }

    /// Reads an output or a term of the outermost SELECT with `read`; whether it may fail before rows are joined.
    fn watch<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Rejection>,
    ) -> Result<(T, bool), Rejection> {
        let before = std::mem::replace(&mut self.failures.rows, RowChoice::Output);
        self.failures.term_fails = false;
        self.failures.over_rows = false;
        let result = read(self);
        self.failures.rows = before;
        let fails = self.failures.term_fails && !self.failures.over_rows;
        Ok((result?, fails))
    }

    /// Reads the output at `position` with `read`.
    pub(in crate::resolve) fn watch_output<T>(
        &mut self,
        position: usize,
        read: impl FnOnce(&mut Self) -> Result<T, Rejection>,
    ) -> Result<T, Rejection> {
        if !self.failures.outermost {
            return read(self);
        }
        let (result, fails) = self.watch(read)?;
        if fails {
            self.failures.outputs.insert(position);
        }
        Ok(result)
    }

    /// Reads a term of GROUP BY or ORDER BY with `read`: the engine may group or sort before it joins.
    pub(in crate::resolve) fn watch_term<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Rejection>,
    ) -> Result<T, Rejection> {
        if !self.failures.outermost {
            return read(self);
        }
        let (result, fails) = self.watch(read)?;
        self.failures.planned |= fails;
        Ok(result)
    }

    /// That a term of GROUP BY or ORDER BY is the output at `position`.
    pub(in crate::resolve) fn use_output(&mut self, position: usize) {
        self.failures.planned |= self.failures.outputs.contains(&position);
    }

    /// Notes whether `expr` may fail by itself: what it is made from is looked at where that is read.
    pub(in crate::resolve) fn note_failure(&mut self, expr: &Expr, scope: &Scope<'a, '_>) {
        if !self.failures.planned
            && matches!(self.failures.rows, RowChoice::Planned | RowChoice::Output)
            && !self.is_total(expr, scope)
        {
            self.failures.note();
        }
    }

    /// Reads the arguments of a call with `read`: those of an aggregate or a window are evaluated after rows are joined.
    pub(in crate::resolve) fn within_call<T>(
        &mut self,
        is_over_rows: bool,
        read: impl FnOnce(&mut Self) -> Result<T, Rejection>,
    ) -> Result<T, Rejection> {
        if !is_over_rows || !self.failures.outermost {
            return read(self);
        }
        self.failures.over_rows = true;
        self.on_answered_rows(read)
    }

    /// Whether `call` looks at a group or window of rows, whatever the engine takes it for.
    pub(in crate::resolve) fn is_over_rows(&self, call: &Function) -> bool {
        if call.over.is_some() {
            return true;
        }
        let args = match &call.args {
            FunctionArguments::List(list) => Some(list.args.len()),
            FunctionArguments::None | FunctionArguments::Subquery(_) => None,
        };
        let Some(name) = call.name.0.last().and_then(|part| part.as_ident()) else {
            return false;
        };
        let key = self.key(name);
        let mut named = self.catalog.functions_named(&key).peekable();
        named.peek().is_some() && named.all(|def| def.kinds.is_over_rows(args))
    }

    /// Notes what bounds a query's rows: PostgreSQL fails on a bound below zero, when the first row is asked for. Every plan
    /// asks for the first row of the outermost query.
    pub(in crate::resolve) fn note_bounds<'e>(
        &mut self,
        bounds: impl IntoIterator<Item = &'e Expr>,
        is_outermost: bool,
    ) {
        if !is_outermost && !bounds.into_iter().all(is_count) {
            self.failures.planned = true;
        }
    }

    /// Notes that rows are grouped by `outputs`: PostgreSQL finds only when it compares that the parts of a value cannot be.
    pub(in crate::resolve) fn note_grouped<'o>(
        &mut self,
        outputs: impl IntoIterator<Item = &'o Output>,
    ) {
        for output in outputs {
            self.note_compared(&output.lineage.columns);
        }
    }

    /// As [`note_grouped`](Self::note_grouped), of what rows are grouped or sorted by.
    pub(in crate::resolve) fn note_compared(&mut self, columns: &[ColumnId]) {
        if self.failures.planned || self.catalog.dialect() != Dialect::Postgres {
            return;
        }
        self.failures.planned = columns.iter().any(|id| {
            let class = self.catalog.column(*id).map(|column| column.class);
            matches!(class, Some(TypeClass::Other | TypeClass::Json) | None)
        });
    }

    /// Whether `expr` has a value wherever what it is made from has.
    fn is_total(&self, expr: &Expr, scope: &Scope<'a, '_>) -> bool {
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
            | Expr::Exists {
                subquery: _,
                negated: _,
            }
            | Expr::Case {
                case_token: _,
                end_token: _,
                operand: None,
                conditions: _,
                else_result: _,
            } => true,
            Expr::Case {
                case_token: _,
                end_token: _,
                operand: Some(operand),
                conditions,
                else_result: _,
            } => {
                let whens = conditions.iter().map(|when| &when.condition);
                let sides: Vec<_> = std::iter::once(&**operand).chain(whens).collect();
                self.compares(&sides, scope)
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
                BinaryOperator::Plus | BinaryOperator::Minus | BinaryOperator::Multiply => {
                    dialect == Dialect::Sqlite
                }
                // MySQL gives NULL for a division by zero where nothing is stored.
                BinaryOperator::Divide | BinaryOperator::Modulo => dialect != Dialect::Postgres,
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
            Expr::Like {
                negated: _,
                any: false,
                expr,
                pattern,
                escape_char: None,
            } => is_plain_pattern(pattern) && self.is_text(expr, scope),
            Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr: _,
                data_type,
                format: None,
            } => {
                let is_text = matches!(
                    data_type,
                    DataType::Text | DataType::Varchar(None) | DataType::Char(None)
                );
                is_text || dialect == Dialect::Sqlite
            }
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
                is_day && (dialect == Dialect::Mysql || self.is_of_days(expr, scope))
            }
            Expr::Substring {
                expr: _,
                substring_from: _,
                substring_for: _,
                special: _,
                shorthand: _,
            }
            | Expr::Trim {
                trim_where: _,
                trim_what: _,
                expr: _,
                trim_characters: _,
            } => dialect != Dialect::Postgres,
            Expr::Function(call) => self.is_total_call(call, scope),
            _ => false,
        }
    }

    /// Whether a comparison of all sides has a result, whatever they are. PostgreSQL finds only when it compares that the
    /// collations of two texts differ.
    fn compares(&self, sides: &[&Expr], scope: &Scope<'a, '_>) -> bool {
        let dialect = self.catalog.dialect();
        if dialect == Dialect::Sqlite {
            return true;
        }
        let texts = || {
            let computed = sides.iter().filter(|side| !is_literal(side)).count();
            (dialect == Dialect::Mysql || computed <= 1)
                && sides.iter().all(|side| self.is_text(side, scope))
        };
        texts() || self.comparable(sides, scope)
    }

    /// Whether a call of one of the engine's own functions has a value for all that its arguments can be.
    fn is_total_call(&self, call: &Function, scope: &Scope<'a, '_>) -> bool {
        let Function {
            name,
            uses_odbc_syntax: false,
            parameters: FunctionArguments::None,
            args,
            within_group,
            filter: _,
            null_treatment: None,
            over,
        } = call
        else {
            return false;
        };
        let none: &[FunctionArg] = &[];
        let args = match args {
            FunctionArguments::None => none,
            FunctionArguments::List(FunctionArgumentList {
                duplicate_treatment: _,
                args,
                clauses,
            }) if clauses.is_empty() => args,
            FunctionArguments::List(_) | FunctionArguments::Subquery(_) => return false,
        };
        let Some(ident) = name.0.last().and_then(|part| part.as_ident()) else {
            return false;
        };
        let key = self.key(ident);
        // A function that the database adds may have the same name.
        let is_own = self.catalog.functions_named(&key).all(|def| {
            def.schema
                .as_deref()
                .is_none_or(|schema| schema == "pg_catalog")
        });
        if !is_own || !within_group.is_empty() {
            return false;
        }
        let first = args.first().and_then(plain_argument);
        let dialect = self.catalog.dialect();
        match (&*key, dialect) {
            ("row_number" | "rank" | "dense_rank", _) => over.as_ref().is_some_and(is_unframed),
            (_, _) if over.is_some() => false,
            // PostgreSQL finds only when it compares that the parts of a value cannot be.
            ("count" | "min" | "max", Dialect::Postgres) => {
                let class = first.map(|first| self.plain_class(first, scope));
                match class {
                    None => key == "count",
                    Some(class) => class
                        .is_some_and(|class| !matches!(class, TypeClass::Other | TypeClass::Json)),
                }
            }
            (
                "count" | "min" | "max" | "coalesce" | "lower" | "upper" | "length" | "now"
                | "current_date" | "current_timestamp",
                _,
            ) => true,
            (
                "ifnull" | "trim" | "ltrim" | "rtrim" | "substr" | "instr" | "date" | "time"
                | "datetime" | "strftime" | "julianday" | "round" | "total" | "avg" | "typeof",
                Dialect::Sqlite,
            ) => true,
            (
                "ifnull" | "trim" | "ltrim" | "rtrim" | "concat" | "left" | "right" | "substr"
                | "substring" | "char_length" | "character_length" | "date" | "year" | "quarter"
                | "month" | "week" | "day" | "dayofmonth" | "dayofweek" | "hour" | "date_format",
                Dialect::Mysql,
            ) => true,
            ("sum" | "avg", Dialect::Mysql) => {
                let class = first.and_then(|first| self.plain_class(first, scope));
                matches!(class, Some(TypeClass::Integer | TypeClass::Decimal))
            }
            // Sums of `bigint` are `numeric`, which has room for any number of rows.
            ("sum" | "avg", Dialect::Postgres) => {
                let column = first.and_then(|first| self.column_side(first, scope));
                column.is_some_and(|column| match column.class {
                    TypeClass::Integer => true,
                    TypeClass::Decimal => column.type_name.contains('('),
                    _ => false,
                })
            }
            (
                "concat" | "concat_ws" | "btrim" | "ltrim" | "rtrim" | "char_length"
                | "character_length" | "bool_and" | "bool_or",
                Dialect::Postgres,
            ) => true,
            ("date_trunc", Dialect::Postgres) => match args {
                [unit, of] => {
                    plain_argument(unit).is_some_and(is_unit)
                        && plain_argument(of).is_some_and(|of| self.is_of_days(of, scope))
                }
                _ => false,
            },
            (_, _) => false,
        }
    }

    /// The class of the unmasked column that `expr` is.
    fn plain_class(&self, expr: &Expr, scope: &Scope<'a, '_>) -> Option<TypeClass> {
        self.column_side(expr, scope).map(|column| column.class)
    }

    /// Whether `expr` is a column of days or of points in time.
    fn is_of_days(&self, expr: &Expr, scope: &Scope<'a, '_>) -> bool {
        matches!(
            self.plain_class(expr, scope),
            Some(TypeClass::Date | TypeClass::Timestamp | TypeClass::TimestampTz)
        )
    }

    /// Whether `expr` is a column of text, or a string.
    fn is_text(&self, expr: &Expr, scope: &Scope<'a, '_>) -> bool {
        match expr {
            Expr::Nested(inner) => self.is_text(inner, scope),
            Expr::Value(value) => matches!(value.value, Value::SingleQuotedString(_)),
            Expr::BinaryOp {
                left,
                op: BinaryOperator::StringConcat,
                right,
            } => self.is_text(left, scope) && self.is_text(right, scope),
            Expr::Function(call) => {
                let name = call.name.0.last().and_then(|part| part.as_ident());
                name.is_some_and(|name| {
                    matches!(&*self.key(name), "lower" | "upper" | "btrim" | "concat")
                }) && self.is_total_call(call, scope)
            }
            other => self.plain_class(other, scope) == Some(TypeClass::Text),
        }
    }
}

/// Whether `expr` is a number of rows, or none.
fn is_count(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => text.parse::<i64>().is_ok_and(|count| count >= 0),
            Value::Null => true,
            _ => false,
        },
        _ => false,
    }
}

/// Whether a window has no frame of its own, whose bounds could fail.
fn is_unframed(over: &WindowType) -> bool {
    match over {
        WindowType::WindowSpec(WindowSpec {
            window_name: None,
            partition_by: _,
            order_by: _,
            window_frame: None,
        }) => true,
        WindowType::WindowSpec(_) | WindowType::NamedWindow(_) => false,
    }
}

fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_literal(inner),
        Expr::Value(_) => true,
        _ => false,
    }
}

fn plain_argument(arg: &FunctionArg) -> Option<&Expr> {
    match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

/// Whether `expr` is a number with a sign before it.
fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::UnaryOp { op: _, expr } | Expr::Nested(expr) => is_number(expr),
        Expr::Value(value) => matches!(value.value, Value::Number(_, _)),
        _ => false,
    }
}

/// Whether every engine takes the pattern of a LIKE: an escape character at its end fails.
fn is_plain_pattern(pattern: &Expr) -> bool {
    match pattern {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => !text.contains('\\'),
            _ => false,
        },
        _ => false,
    }
}

/// Whether `expr` is a unit that `date_trunc` takes for days and points in time
/// (<https://www.postgresql.org/docs/current/functions-datetime.html#FUNCTIONS-DATETIME-TRUNC>).
fn is_unit(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => matches!(
                text.as_str(),
                "second" | "minute" | "hour" | "day" | "week" | "month" | "quarter" | "year"
            ),
            _ => false,
        },
        _ => false,
    }
}

/// Whether a call in FROM of a function called `name` gives its rows whatever they are: a series of given numbers.
pub(in crate::resolve) fn is_series(name: &str, args: &[FunctionArg]) -> bool {
    let number = |arg: &FunctionArg| match plain_argument(arg)? {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => text.parse::<i32>().ok(),
            _ => None,
        },
        _ => None,
    };
    let numbers: Option<Vec<i32>> = args.iter().map(number).collect();
    name == "generate_series"
        && match numbers.as_deref() {
            Some([_, _]) => true,
            Some([_, _, step]) => *step != 0,
            Some(_) | None => false,
        }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "tests")]

    use sqlparser::{dialect::PostgreSqlDialect, parser::Parser};

    use super::*;

    fn parse(text: &str) -> Expr {
        Parser::new(&PostgreSqlDialect {})
            .try_with_sql(text)
            .and_then(|mut parser| parser.parse_expr())
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn check(is: fn(&Expr) -> bool, cases: &[(&str, bool)]) {
        for (text, expected) in cases {
            assert_eq!(is(&parse(text)), *expected, "{text}");
        }
    }

    #[test]
    fn a_count_of_rows_is_a_whole_number_that_is_not_below_zero() {
        check(
            is_count,
            &[
                ("0", true),
                ("5", true),
                ("NULL", true),
                ("-1", false),
                ("1.5", false),
                ("9223372036854775808", false),
                ("'1'", false),
                ("$1", false),
                ("a", false),
            ],
        );
    }

    #[test]
    fn a_number_is_one_with_its_signs_and_parentheses() {
        check(
            is_number,
            &[
                ("1", true),
                ("-1", true),
                ("-(+1)", true),
                ("'1'", false),
                ("-a", false),
                ("1 + 1", false),
            ],
        );
    }

    #[test]
    fn a_literal_is_one_with_its_parentheses() {
        check(
            is_literal,
            &[("1", true), ("('a')", true), ("a", false), ("-a", false)],
        );
    }

    #[test]
    fn a_pattern_is_plain_where_nothing_is_escaped() {
        check(
            is_plain_pattern,
            &[
                ("'a%'", true),
                (r"'a\%'", false),
                ("5", false),
                ("a", false),
            ],
        );
    }

    #[test]
    fn units_are_those_of_days_and_points_in_time() {
        check(
            is_unit,
            &[
                ("'second'", true),
                ("'minute'", true),
                ("'hour'", true),
                ("'day'", true),
                ("'week'", true),
                ("'month'", true),
                ("'quarter'", true),
                ("'year'", true),
                ("'timezone'", false),
                ("'YEAR'", false),
                ("5", false),
                ("year", false),
            ],
        );
    }

    fn call(text: &str) -> Function {
        match parse(text) {
            Expr::Function(call) => call,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_series_is_of_given_numbers_and_goes_somewhere() {
        for (text, expected) in [
            ("generate_series(1, 5)", true),
            ("generate_series(1, 5, 2)", true),
            ("generate_series(1, 5, 0)", false),
            ("generate_series(1)", false),
            ("generate_series(1, 5, 2, 1)", false),
            ("generate_series(1, a)", false),
            ("generate_series(1, 3000000000)", false),
            ("generate_series('1', 5)", false),
            ("other(1, 5)", false),
        ] {
            let call = call(text);
            let FunctionArguments::List(list) = &call.args else {
                panic!("{text}")
            };
            let name = call.name.to_string();
            assert_eq!(is_series(&name, &list.args), expected, "{text}");
        }
    }

    #[test]
    fn a_window_is_unframed_where_it_has_no_frame_and_no_name() {
        for (text, expected) in [
            ("rank() OVER (PARTITION BY a ORDER BY b)", true),
            ("rank() OVER ()", true),
            ("rank() OVER w", false),
            ("rank() OVER (w ORDER BY b)", false),
            ("rank() OVER (ROWS UNBOUNDED PRECEDING)", false),
        ] {
            let over = call(text).over;
            assert_eq!(over.as_ref().map(is_unframed), Some(expected), "{text}");
        }
    }

    #[test]
    fn failures_depend_on_the_plan_where_there_are_several_sources() {
        for (planned, sources, expected) in [(true, 2, true), (true, 1, false), (false, 2, false)] {
            let failures = PlanFailures {
                planned,
                sources,
                ..PlanFailures::default()
            };
            assert_eq!(failures.depend_on_plan(), expected);
        }
        let mut failures = PlanFailures::unchecked();
        for (key, sources) in [("a", 0), ("b", 0), ("a", 1), ("b", 2)] {
            failures.read_cte(key);
            assert_eq!(failures.sources, sources, "{key}");
        }
        assert!(failures.depend_on_plan());
    }

    #[test]
    fn what_may_fail_is_noted_by_where_it_is_evaluated() {
        for (rows, planned, term_fails) in [
            (RowChoice::Planned, true, false),
            (RowChoice::Answered, false, false),
            (RowChoice::Filtered, false, false),
            (RowChoice::Output, false, true),
        ] {
            let mut failures = PlanFailures {
                rows,
                ..PlanFailures::default()
            };
            failures.note();
            let found = (failures.planned, failures.term_fails);
            assert_eq!(found, (planned, term_fails), "{rows:?}");
        }
    }

    #[test]
    fn a_query_inside_begins_anew_and_leaves_what_was() {
        let mut failures = PlanFailures::default();
        failures.await_outermost();
        failures.begin_select();
        assert!(failures.is_outermost());
        failures.rows = RowChoice::Answered;
        failures.term_fails = true;
        failures.over_rows = true;
        failures.outputs.insert(3);
        let outside = failures.enter_query();
        failures.begin_select();
        assert!(!failures.is_outermost() && failures.rows == RowChoice::Planned);
        assert!(!failures.term_fails && !failures.over_rows && failures.outputs.is_empty());
        failures.leave_query(outside);
        assert!(failures.is_outermost() && failures.rows == RowChoice::Answered);
        assert!(failures.term_fails && failures.over_rows);
        assert!(failures.outputs.contains(&3));
    }
}
