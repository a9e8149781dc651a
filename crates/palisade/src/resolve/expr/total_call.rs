//! Which calls have a value for all that their arguments can be.

use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgumentClause, FunctionArgumentList, FunctionArguments,
    Value, WindowSpec, WindowType,
};

use crate::resolve::{
    Resolver,
    expr::{
        constant_form::{is_literal, is_unit, plain_argument},
        operand_class::OperandClass,
    },
    scope::Scope,
};
use crate::{
    catalog::{ClassSet, TypeClass},
    dialect::Dialect,
};

impl<'a> Resolver<'a> {
    /// The key and the arguments of a call of one of the engine's own functions, whose name the database gives to none of its own.
    pub(in crate::resolve) fn read_own_call<'c>(
        &self,
        call: &'c Function,
    ) -> Option<(String, &'c [FunctionArg])> {
        let Function {
            name,
            uses_odbc_syntax: false,
            parameters: FunctionArguments::None,
            args,
            within_group,
            filter: _,
            null_treatment: None,
            over: _,
        } = call
        else {
            return None;
        };
        let args: &[FunctionArg] = match args {
            FunctionArguments::None => &[],
            FunctionArguments::List(FunctionArgumentList {
                duplicate_treatment: _,
                args,
                clauses,
            }) if clauses.is_empty() => args,
            FunctionArguments::List(_) | FunctionArguments::Subquery(_) => return None,
        };
        let key = self.key(name.0.last().and_then(|part| part.as_ident())?);
        let is_own = self.is_engines_function(&key) && within_group.is_empty();
        is_own.then(|| (key.into(), args))
    }

    /// Whether a call of one of the engine's own functions has a value for all that its arguments can be.
    pub(in crate::resolve) fn is_total_call(&self, call: &Function, scope: &Scope<'a, '_>) -> bool {
        if self.gathers(call, scope) {
            return true;
        }
        let Some((key, args)) = self.read_own_call(call) else {
            return false;
        };
        let over = &call.over;
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
            // Of two arguments, PostgreSQL's reads bytes as a text.
            ("length", _) => args.len() == 1,
            ("coalesce", _) => self.become_one_type(args.iter().filter_map(plain_argument), scope),
            (
                "count" | "min" | "max" | "lower" | "upper" | "now" | "current_date"
                | "current_timestamp",
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
            ("sum" | "avg", Dialect::Postgres) => first.is_some_and(|first| {
                let column = self.column_side(first, scope);
                let is_bounded = column.is_some_and(|column| {
                    column.class == TypeClass::Decimal && column.type_name.contains('(')
                });
                is_bounded
                    || self.classes_of(first, scope) == ClassSet::from_list(&[TypeClass::Integer])
            }),
            ("json_build_object" | "jsonb_build_object", Dialect::Postgres) => {
                let values: Vec<&Expr> = args.iter().filter_map(plain_argument).collect();
                values.len() == args.len()
                    && values.len().is_multiple_of(2)
                    && values.chunks(2).all(|pair| match pair {
                        [key, value] => {
                            is_text_literal(key) && self.is_written_as_json(value, scope)
                        }
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
}

impl<'a> Resolver<'a> {
    /// Whether a call puts the values of a group together, those as they are stored: by themselves they always go together.
    fn gathers(&self, call: &Function, scope: &Scope<'a, '_>) -> bool {
        let Function {
            name,
            uses_odbc_syntax: false,
            parameters: FunctionArguments::None,
            args:
                FunctionArguments::List(FunctionArgumentList {
                    duplicate_treatment,
                    args,
                    clauses,
                }),
            within_group,
            filter: _,
            null_treatment: None,
            over: None,
        } = call
        else {
            return false;
        };
        let Some(name) = name.0.last().and_then(|part| part.as_ident()) else {
            return false;
        };
        let key = self.key(name);
        let values: Option<Vec<&Expr>> = args.iter().map(plain_argument).collect();
        let Some(values) = values else {
            return false;
        };
        let is_sorted = clauses.iter().all(|clause| match clause {
            FunctionArgumentClause::OrderBy(terms) => {
                terms.iter().all(|term| self.sorts(&term.expr, scope))
            }
            FunctionArgumentClause::Separator(_) => self.catalog.dialect() == Dialect::Mysql,
            _ => false,
        });
        let is_own = self.is_engines_function(&key) && within_group.is_empty() && is_sorted;
        let is_distinct = duplicate_treatment.is_some();
        is_own
            && match (self.catalog.dialect(), &*key, values.as_slice()) {
                (Dialect::Postgres, "string_agg", [of, between]) => {
                    is_literal(between) && self.is_column_of_text(of, scope)
                }
                (Dialect::Postgres, "array_agg", [of]) => self.sorts(of, scope),
                (Dialect::Postgres, "json_agg" | "jsonb_agg", [of]) => {
                    !is_distinct
                        && (self.is_written_as_json(of, scope) || self.builds_json(of, scope))
                }
                // What is too long is cut off, with a warning.
                (Dialect::Mysql, "group_concat", _) => !self.failures.stores,
                (_, _, _) => false,
            }
    }

    /// Whether PostgreSQL compares any two values of a column.
    fn sorts(&self, expr: &Expr, scope: &Scope<'a, '_>) -> bool {
        let class = self.plain_class(expr, scope);
        let is_sorted = class.is_some_and(|class| {
            let operand = OperandClass::from_class(class);
            !matches!(class, TypeClass::Other | TypeClass::Json)
                && self.chooses_engines_own("<", operand, operand)
        });
        is_sorted || self.catalog.dialect() != Dialect::Postgres
    }

    /// Whether any value of a column can stand in a document: texts of JSON may hold what no text can.
    fn is_written_as_json(&self, expr: &Expr, scope: &Scope<'a, '_>) -> bool {
        let column = self.column_side(expr, scope);
        let is_written = column.is_some_and(|column| {
            &*column.type_name == "jsonb"
                || !matches!(column.class, TypeClass::Json | TypeClass::Other)
        });
        (is_written && !self.has_casts_to_json()) || is_literal(expr)
    }

    fn builds_json(&self, expr: &Expr, scope: &Scope<'a, '_>) -> bool {
        match expr {
            Expr::Function(call) => {
                let name = call.name.0.last().and_then(|part| part.as_ident());
                let is_object = name.is_some_and(|name| {
                    matches!(&*self.key(name), "json_build_object" | "jsonb_build_object")
                });
                is_object && self.is_total_call(call, scope)
            }
            _ => false,
        }
    }
}

fn is_text_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => matches!(value.value, Value::SingleQuotedString(_)),
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
}
