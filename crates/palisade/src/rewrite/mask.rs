//! Masks as SQL. Every mask is a total function: it cannot raise, whatever the value, because the
//! engine may compute it for rows a filter hides.

use std::{cmp::Reverse, collections::BTreeSet};

use sqlparser::ast::{BinaryOperator, DataType, ExactNumberInfo, Expr, TimezoneInfo};

use super::{formula, hash, null, sql};
use crate::{
    catalog::{Catalog, Column, TypeClass},
    dialect::Dialect,
    policy::obligation::{DatePart, Mask},
};

/// `mask` of `column`. One that the column's type does not take is NULL.
pub(super) fn expression(
    mask: &Mask,
    column: &Column,
    catalog: &Catalog,
    functions: &mut BTreeSet<String>,
) -> Expr {
    let dialect = catalog.dialect();
    let mut masking = Masking {
        column,
        dialect,
        functions,
    };
    match mask {
        Mask::Null => null::typed(column, catalog),
        Mask::Fixed(text) => {
            let is_there = Expr::IsNotNull(Box::new(masking.value()));
            let fixed = sql::case(vec![(is_there, sql::text(dialect, text))], None);
            // Of these characters every other text has some.
            if text.is_ascii() {
                fixed
            } else {
                sql::mysql_text(fixed, dialect)
            }
        }
        Mask::First(Reverse(n)) => sql::mysql_text(masking.first(*n), dialect),
        Mask::Last(Reverse(n)) => sql::mysql_text(masking.last(*n), dialect),
        Mask::Email => sql::mysql_text(masking.email(), dialect),
        Mask::Hash(mask) => match &mask.key {
            Some(key) => {
                let hash = hash::expression(key, masking.value(), dialect, functions);
                sql::mysql_text(hash, dialect)
            }
            None => null::typed(column, catalog),
        },
        Mask::Token(mask) => match &mask.keys {
            Some(keys) => {
                let hash = hash::expression(&keys.source, masking.value(), dialect, functions);
                sql::mysql_text(hash::shortened(hash, dialect, functions), dialect)
            }
            None => null::typed(column, catalog),
        },
        Mask::Expr(mask) => formula::expression(&mask.formula, column, dialect, functions)
            .unwrap_or_else(|| null::typed(column, catalog)),
        Mask::Date(part) => masking
            .date(*part)
            .unwrap_or_else(|| null::typed(column, catalog)),
        Mask::Bucket(width) => masking.bucket(i64::from(*width)),
    }
}

/// Whether the engine reads the column to compute the mask.
pub(super) fn reads(mask: &Mask) -> bool {
    match mask {
        Mask::Null => false,
        Mask::Expr(mask) => mask.formula.reads(),
        Mask::Date(_)
        | Mask::Bucket(_)
        | Mask::First(_)
        | Mask::Last(_)
        | Mask::Email
        | Mask::Hash(_)
        | Mask::Token(_)
        | Mask::Fixed(_) => true,
    }
}

struct Masking<'m> {
    column: &'m Column,
    dialect: Dialect,
    functions: &'m mut BTreeSet<String>,
}

impl Masking<'_> {
    fn value(&self) -> Expr {
        sql::column(self.dialect, &self.column.name)
    }

    fn text(&self) -> Expr {
        sql::cast_text(self.dialect, self.value())
    }

    /// Whether searching in the column's text raises for some values: on PostgreSQL under a collation that is not
    /// deterministic, of which alone the catalog tells.
    fn cannot_be_searched(&self) -> bool {
        match self.dialect {
            Dialect::Postgres => !self.column.collation.is_empty(),
            Dialect::Sqlite | Dialect::Mysql => false,
        }
    }

    /// A call of the engine's own function.
    fn call(&mut self, name: &str, args: Vec<Expr>) -> Expr {
        self.functions.insert(match self.dialect {
            Dialect::Sqlite | Dialect::Mysql => name.to_owned(),
            Dialect::Postgres => format!("pg_catalog.{name}"),
        });
        sql::call(self.dialect, name, args)
    }

    fn length(&mut self, text: Expr) -> Expr {
        let name = match self.dialect {
            Dialect::Sqlite | Dialect::Postgres => "length",
            Dialect::Mysql => "char_length",
        };
        self.call(name, vec![text])
    }

    fn concat(&mut self, left: Expr, right: Expr) -> Expr {
        match self.dialect {
            Dialect::Sqlite | Dialect::Postgres => {
                sql::binary(left, BinaryOperator::StringConcat, right)
            }
            Dialect::Mysql => self.call("concat", vec![left, right]),
        }
    }

    /// `shown` where the value has at least `2n` characters.
    fn if_long(&mut self, n: u16, shown: Expr) -> Expr {
        let text = self.text();
        let length = self.length(text);
        let least = sql::integer(2 * i64::from(n));
        sql::case(
            vec![(sql::binary(length, BinaryOperator::GtEq, least), shown)],
            None,
        )
    }

    fn stars(&self, n: u16) -> Expr {
        sql::text(self.dialect, &"*".repeat(usize::from(n)))
    }

    fn first(&mut self, n: u16) -> Expr {
        let text = self.text();
        let count = sql::integer(i64::from(n));
        let start = match self.dialect {
            Dialect::Sqlite => {
                self.functions.insert("substr".to_owned());
                sql::substr(text, sql::integer(1), Some(count))
            }
            Dialect::Postgres | Dialect::Mysql => self.call("left", vec![text, count]),
        };
        let stars = self.stars(n);
        let shown = self.concat(start, stars);
        self.if_long(n, shown)
    }

    fn last(&mut self, n: u16) -> Expr {
        let text = self.text();
        let count = i64::from(n);
        let end = match self.dialect {
            Dialect::Sqlite => {
                self.functions.insert("substr".to_owned());
                sql::substr(text, sql::integer(-count), None)
            }
            Dialect::Postgres | Dialect::Mysql => {
                self.call("right", vec![text, sql::integer(count)])
            }
        };
        let stars = self.stars(n);
        let shown = self.concat(stars, end);
        self.if_long(n, shown)
    }

    /// With two `@`, what is behind one of them may be of the name.
    fn email(&mut self) -> Expr {
        let (mut text, at) = (self.text(), sql::text(self.dialect, "@"));
        if self.cannot_be_searched() {
            text = sql::collate(text, "C", self.dialect);
        }
        let without = vec![text.clone(), at.clone(), sql::text(self.dialect, "")];
        let without = self.call("replace", without);
        let rest = self.length(without);
        let length = self.length(text.clone());
        let count = sql::parens(sql::binary(length, BinaryOperator::Minus, rest));
        let domain = match self.dialect {
            Dialect::Sqlite => {
                let position = self.call("instr", vec![text.clone(), at]);
                let after = sql::binary(position, BinaryOperator::Plus, sql::integer(1));
                self.functions.insert("substr".to_owned());
                sql::substr(text, after, None)
            }
            Dialect::Postgres => self.call("split_part", vec![text, at, sql::integer(2)]),
            Dialect::Mysql => self.call("substring_index", vec![text, at, sql::integer(-1)]),
        };
        let hidden = sql::text(self.dialect, "***@");
        let shown = self.concat(hidden, domain);
        let one = sql::binary(count, BinaryOperator::Eq, sql::integer(1));
        let domain = sql::case(vec![(one, shown)], None);
        if self.cannot_be_searched() {
            return sql::collate(sql::parens(domain), "default", self.dialect);
        }
        domain
    }

    /// The value, where it is from `low` on and before `high`. PostgreSQL's dates reach further than
    /// its points in time, and MySQL has days and months 0.
    fn between(&self, low: Expr, high: Expr, shown: Expr) -> Expr {
        let from = sql::binary(self.value(), BinaryOperator::GtEq, low);
        let to = sql::binary(self.value(), BinaryOperator::Lt, high);
        let within = sql::joined(vec![from, to], &BinaryOperator::And, true);
        sql::case(vec![(within, shown)], None)
    }

    fn date(&mut self, part: DatePart) -> Option<Expr> {
        let own = match (self.dialect, self.column.class) {
            (Dialect::Postgres | Dialect::Mysql, TypeClass::Date) => DataType::Date,
            (Dialect::Postgres, TypeClass::Timestamp) => {
                DataType::Timestamp(None, TimezoneInfo::None)
            }
            (Dialect::Postgres, TypeClass::TimestampTz) => {
                DataType::Timestamp(None, TimezoneInfo::WithTimeZone)
            }
            (Dialect::Mysql, TypeClass::Timestamp | TypeClass::TimestampTz) => {
                DataType::Datetime(None)
            }
            (Dialect::Sqlite, _) => {
                let format = sql::text(self.dialect, start(part));
                let value = self.value();
                return Some(self.call("strftime", vec![format, value]));
            }
            _ => return None,
        };
        let dialect = self.dialect;
        let bound = |text: &str| sql::cast(sql::text(dialect, text), own.clone());
        let cut = match self.dialect {
            Dialect::Postgres => {
                let unit = sql::text(self.dialect, part.name());
                if self.column.class == TypeClass::Date {
                    let at = DataType::Timestamp(None, TimezoneInfo::None);
                    let at = sql::cast(self.value(), at);
                    let cut = self.call("date_trunc", vec![unit, at]);
                    sql::cast(cut, own.clone())
                } else {
                    let mut args = vec![unit, self.value()];
                    if self.column.class == TypeClass::TimestampTz {
                        args.push(sql::text(self.dialect, "UTC"));
                    }
                    self.call("date_trunc", args)
                }
            }
            Dialect::Mysql => {
                let format = sql::text(self.dialect, start(part));
                let value = self.value();
                let cut = self.call("date_format", vec![value, format]);
                sql::cast(cut, own.clone())
            }
            Dialect::Sqlite => return None,
        };
        let bounds = (bound("0001-01-01"), bound("9999-12-31"));
        Some(self.between(bounds.0, bounds.1, cut))
    }

    /// Nothing here can overflow: the result is nearer to zero than the value.
    fn bucket(&mut self, width: i64) -> Expr {
        let width = sql::integer(width);
        let value = match self.dialect {
            // A value of another type than declared is made a whole number first.
            Dialect::Sqlite => sql::cast(self.value(), DataType::Integer(None)),
            Dialect::Postgres | Dialect::Mysql => self.value(),
        };
        let floating = match self.dialect {
            Dialect::Sqlite => false,
            Dialect::Postgres | Dialect::Mysql => self.column.class == TypeClass::Number,
        };
        if !floating {
            let rest = sql::parens(sql::binary(value.clone(), BinaryOperator::Modulo, width));
            return sql::binary(value, BinaryOperator::Minus, rest);
        }
        // Remainders of floating-point numbers leave traces in the last digits, and dividing very
        // large or small ones raises on PostgreSQL.
        let trunc = |masking: &mut Self, value| match masking.dialect {
            Dialect::Postgres => {
                let exact = sql::cast(value, DataType::Numeric(ExactNumberInfo::None));
                masking.call("trunc", vec![exact])
            }
            Dialect::Sqlite | Dialect::Mysql => {
                masking.call("truncate", vec![value, sql::integer(0)])
            }
        };
        let whole = trunc(self, value);
        let parts = sql::binary(whole, BinaryOperator::Divide, width.clone());
        let parts = trunc(self, parts);
        let bucket = sql::binary(parts, BinaryOperator::Multiply, width);
        let bucket = match self.dialect {
            Dialect::Postgres => sql::cast(bucket, DataType::DoublePrecision),
            Dialect::Sqlite | Dialect::Mysql => bucket,
        };
        let bound = sql::integer(LARGEST_FLOAT);
        self.between(sql::integer(-LARGEST_FLOAT), bound, bucket)
    }
}

/// Beyond it floating-point numbers are no longer all whole; such values become NULL.
const LARGEST_FLOAT: i64 = 1_000_000_000_000_000;

/// The format of the point in time at which `part` begins, for `strftime` and `date_format`.
fn start(part: DatePart) -> &'static str {
    match part {
        DatePart::Year => "%Y-01-01",
        DatePart::Month => "%Y-%m-01",
        DatePart::Day => "%Y-%m-%d",
        DatePart::Hour => "%Y-%m-%d %H:00:00",
    }
}
