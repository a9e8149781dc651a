//! Which calls have a value whatever is stored.

use sqlparser::ast::{Expr, Function, Value};

use crate::resolve::{
    Resolver,
    expr::constant_form::{
        is_count, is_interval, is_json_path, is_literal, is_number, is_plain_format,
        is_short_search, is_unit, plain_argument,
    },
    scope::Scope,
};
use crate::{catalog::TypeClass, dialect::Dialect, limits::SQLITE_QUADRATIC};

/// The longest format of SQLite's `strftime`, in bytes.
const MAX_FORMAT_BYTES: usize = 20;

impl<'a> Resolver<'a> {
    /// Whether a call of one of the engine's own functions, of columns as they are stored and constants, has a value whatever those
    /// hold.
    pub(in crate::resolve) fn call_never_fails(
        &self,
        call: &Function,
        scope: &Scope<'a, '_>,
    ) -> bool {
        let Some((key, args)) = self.read_own_call(call) else {
            return false;
        };
        if call.over.is_some() {
            return false;
        }
        if let ("count" | "min" | "max" | "sum" | "avg" | "total", [arg]) = (&*key, args) {
            let is_column = plain_argument(arg)
                .is_none_or(|of| is_literal(of) || self.plain_column(of, scope).is_some());
            return is_column && self.is_total_call(call, scope);
        }
        let values: Option<Vec<&Expr>> = args.iter().map(plain_argument).collect();
        let Some(values) = values else {
            return false;
        };
        match self.catalog.dialect() {
            Dialect::Sqlite => self.sqlite_never_fails(&key, &values, scope),
            Dialect::Postgres => self.postgres_never_fails(&key, &values, scope),
            Dialect::Mysql => self.mysql_never_fails(&key, &values, scope),
        }
    }

    /// Whether SQLite looks at short values alone in this statement, and fails on longer ones: those with which a function takes long.
    pub(in crate::resolve) fn shortens_values(&self) -> bool {
        self.catalog.dialect() == Dialect::Sqlite
            && (self.access.functions.iter()).any(|uid| SQLITE_QUADRATIC.contains(&uid.as_str()))
    }

    fn is_stored(&self, expr: &Expr, scope: &Scope<'a, '_>) -> bool {
        self.plain_column(expr, scope).is_some()
    }

    fn sqlite_never_fails(&self, key: &str, args: &[&Expr], scope: &Scope<'a, '_>) -> bool {
        let is_given = |expr: &Expr| is_literal(expr) || is_number(expr);
        let is_value = |expr: &Expr| is_given(expr) || self.is_stored(expr, scope);
        match (key, args) {
            ("lower" | "upper" | "length" | "typeof", [of]) => is_value(of),
            ("date" | "time" | "datetime" | "julianday", [of, rest @ ..]) => {
                is_value(of) && rest.iter().all(|expr| is_given(expr))
            }
            ("strftime", [format, of, rest @ ..]) => {
                is_short(format) && is_value(of) && rest.iter().all(|expr| is_given(expr))
            }
            ("round" | "substr" | "substring", [of, rest @ ..]) => {
                is_value(of) && rest.iter().all(|expr| is_given(expr))
            }
            ("coalesce" | "ifnull" | "nullif", all) => all.iter().all(|expr| is_value(expr)),
            ("current_date" | "current_time" | "current_timestamp", []) => true,
            _ => false,
        }
    }

    fn postgres_never_fails(&self, key: &str, args: &[&Expr], scope: &Scope<'a, '_>) -> bool {
        match (key, args) {
            ("lower" | "upper" | "ltrim" | "rtrim" | "btrim", [of]) => {
                self.is_column_of_text(of, scope)
            }

            ("length" | "char_length" | "character_length", [of]) => matches!(
                self.plain_class(of, scope),
                Some(TypeClass::Text | TypeClass::Padded | TypeClass::Blob)
            ),
            ("substr" | "substring" | "left" | "right", [of, rest @ ..]) => {
                self.is_column_of_text(of, scope) && rest.iter().all(|bound| is_count(bound))
            }
            ("coalesce", [of, rest @ ..]) => {
                // A literal becomes what the column is.
                let is_known = self
                    .plain_class(of, scope)
                    .is_some_and(|class| class != TypeClass::Other);
                is_known && rest.iter().all(|expr| is_literal(expr) || is_number(expr))
            }
            ("nullif", [of, value]) => {
                self.is_stored(of, scope)
                    && is_literal(value)
                    && self.compares_safely(&[*of, *value], scope)
            }
            // A month or a year may begin before the first point in time there is. So may a day, unless the session is in UTC, as ours are.
            ("date_trunc", [unit, of]) => {
                let is_short = ["second", "minute", "hour", "day"]
                    .iter()
                    .any(|name| is_text_literal(unit, name));
                (is_short && self.is_of_moments(of, scope)) || self.is_beginning_of(unit, of)
            }
            ("date_part", [unit, of]) => is_unit(unit) && self.is_of_moments(of, scope),
            ("to_char", [of, format]) => is_plain_format(format) && self.is_of_moments(of, scope),
            ("plainto_tsquery" | "phraseto_tsquery" | "websearch_to_tsquery", all) => {
                all.iter().all(|expr| is_short_search(expr))
            }
            // With both given, the engine computes it when it makes the plan, and fails then or never.
            ("to_tsquery", [language, words]) => {
                is_short_search(language) && is_short_search(words)
            }
            ("now" | "current_date" | "current_timestamp" | "localtimestamp", []) => true,
            _ => false,
        }
    }

    fn mysql_never_fails(&self, key: &str, args: &[&Expr], scope: &Scope<'a, '_>) -> bool {
        let is_given = |expr: &Expr| is_literal(expr) || is_number(expr);
        let is_moment =
            |expr: &Expr| self.is_stored(expr, scope) || is_literal(expr) || self.is_now(expr);
        match (key, args) {
            (
                "lower" | "upper" | "length" | "char_length" | "character_length" | "trim"
                | "ltrim" | "rtrim" | "date" | "year" | "quarter" | "month" | "week" | "day"
                | "dayofmonth" | "dayofweek" | "dayofyear" | "weekday" | "hour" | "minute"
                | "second" | "dayname" | "monthname" | "last_day" | "to_days",
                [of],
            ) => self.is_stored(of, scope) || self.is_now(of),
            ("left" | "right" | "substr" | "substring", [of, rest @ ..]) => {
                self.is_stored(of, scope) && rest.iter().all(|bound| is_given(bound))
            }
            ("date_format", [of, format]) => {
                (self.is_stored(of, scope) || self.is_now(of)) && is_short(format)
            }
            ("datediff", [one, other]) => is_moment(one) && is_moment(other),
            ("date_add" | "date_sub" | "adddate" | "subdate", [of, step]) => {
                is_moment(of) && (is_interval(step) || is_given(step))
            }
            ("coalesce" | "ifnull" | "nullif", [of, rest @ ..]) => {
                self.is_stored(of, scope) && rest.iter().all(|expr| is_given(expr))
            }
            ("json_extract", [of, path]) => {
                self.plain_class(of, scope) == Some(TypeClass::Json) && is_json_path(path)
            }
            ("json_unquote", [Expr::Function(inner)]) => {
                let name = inner.name.0.last().and_then(|part| part.as_ident());
                name.is_some_and(|name| &*self.key(name) == "json_extract")
                    && self.call_never_fails(inner, scope)
            }
            (
                "now" | "curdate" | "curtime" | "current_date" | "current_time"
                | "current_timestamp" | "localtime" | "localtimestamp" | "utc_date"
                | "utc_timestamp",
                [],
            ) => true,
            _ => false,
        }
    }
}

fn is_short(format: &Expr) -> bool {
    match format {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => text.len() <= MAX_FORMAT_BYTES,
            _ => false,
        },
        _ => false,
    }
}

fn is_text_literal(expr: &Expr, wanted: &str) -> bool {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => text == wanted,
            _ => false,
        },
        _ => false,
    }
}
