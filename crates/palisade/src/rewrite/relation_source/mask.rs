//! Masks as SQL. Every mask is a total function: it cannot raise, whatever the value, because the
//! engine may compute it for rows a filter hides.

use std::{cmp::Reverse, collections::BTreeSet, sync::Arc};

use sqlparser::ast::{BinaryOperator, DataType, Expr, TimezoneInfo};

use crate::rewrite::{
    ast,
    relation_source::{json_paths, keyed_hash, mask_expr, typed_null},
};
use crate::{
    catalog::{Catalog, Column, TypeClass},
    dialect::Dialect,
    policy::obligation::{DatePart, Mask},
    syntax::mask_expr::ValueKind,
};

/// `mask` of `column`; NULL where the column's type does not take the mask.
pub(in crate::rewrite) fn expression(
    mask: &Mask,
    column: &Column,
    catalog: &Catalog,
    functions: &mut BTreeSet<String>,
) -> Expr {
    let dialect = catalog.dialect();
    let mut masking = MaskWriter {
        column,
        dialect,
        functions,
    };
    match mask {
        Mask::Null | Mask::AggregateOnly(_) => typed_null::typed_null(column, catalog),
        Mask::Inherited(_) => masking.value(),
        Mask::Fixed(text) => {
            let is_there = Expr::IsNotNull(Box::new(masking.value()));
            let fixed = ast::case(vec![(is_there, ast::text(dialect, text))], None);
            // Of these characters every other text has some.
            if text.is_ascii() {
                fixed
            } else {
                ast::mysql_text(fixed, dialect)
            }
        }
        Mask::First(Reverse(n)) => ast::mysql_text(masking.first(*n), dialect),
        Mask::Last(Reverse(n)) => ast::mysql_text(masking.last(*n), dialect),
        Mask::Email => ast::mysql_text(masking.email(), dialect),
        Mask::Hash(mask) => match &mask.key {
            Some(key) => {
                let hash = keyed_hash::expression(key, masking.value(), dialect, functions);
                ast::mysql_text(hash, dialect)
            }
            None => typed_null::typed_null(column, catalog),
        },
        Mask::Token(mask) => match &mask.keys {
            Some(keys) => {
                let hash =
                    keyed_hash::expression(&keys.source, masking.value(), dialect, functions);
                ast::mysql_text(keyed_hash::shorten(hash, dialect, functions), dialect)
            }
            None => typed_null::typed_null(column, catalog),
        },
        Mask::Expr(mask) => mask_expr::expression(&mask.formula, column, dialect, functions)
            .unwrap_or_else(|| typed_null::typed_null(column, catalog)),
        Mask::Paths(paths) => json_paths::expression(paths, column, dialect, functions)
            .unwrap_or_else(|| typed_null::typed_null(column, catalog)),
        Mask::Date(part) => masking
            .date(*part)
            .unwrap_or_else(|| typed_null::typed_null(column, catalog)),
        Mask::Bucket(width) => masking
            .bucket(i64::from(*width))
            .unwrap_or_else(|| typed_null::typed_null(column, catalog)),
    }
}

/// Whether the engine reads the column to compute the mask.
pub(in crate::rewrite) fn reads_column(mask: &Mask) -> bool {
    match mask {
        Mask::Null | Mask::AggregateOnly(_) => false,
        Mask::Expr(mask) => mask.formula.reads(),
        Mask::Date(_)
        | Mask::Bucket(_)
        | Mask::First(_)
        | Mask::Last(_)
        | Mask::Email
        | Mask::Hash(_)
        | Mask::Token(_)
        | Mask::Paths(_)
        | Mask::Inherited(_)
        | Mask::Fixed(_) => true,
    }
}

/// The type that `mask` gives, where that is not the column's own.
pub(crate) fn type_name(mask: &Mask, column: &Column, dialect: Dialect) -> Option<Arc<str>> {
    let text = || {
        let stays = match dialect {
            Dialect::Postgres => false,
            Dialect::Sqlite | Dialect::Mysql => column.class == TypeClass::Text,
        };
        let name = match dialect {
            Dialect::Sqlite => "TEXT",
            Dialect::Postgres | Dialect::Mysql => "text",
        };
        (!stays).then_some(name)
    };
    let name = match mask {
        Mask::Null
        | Mask::AggregateOnly(_)
        | Mask::Date(_)
        | Mask::Paths(_)
        | Mask::Inherited(_) => None,
        Mask::Bucket(width) => match (dialect, integer_bytes(column)) {
            (Dialect::Sqlite | Dialect::Mysql, _) => None,
            (Dialect::Postgres, Some(4)) if i32::try_from(*width).is_ok() => Some("integer"),
            (Dialect::Postgres, Some(_)) => Some("bigint"),
            (Dialect::Postgres, None) if column.class == TypeClass::Number => {
                Some("double precision")
            }
            (Dialect::Postgres, None) => Some("numeric"),
        },
        Mask::First(_)
        | Mask::Last(_)
        | Mask::Email
        | Mask::Hash(_)
        | Mask::Token(_)
        | Mask::Fixed(_) => text(),
        Mask::Expr(mask) => {
            let value = ValueKind::from_class(column.class, dialect);
            match mask.formula.kind(value) {
                Ok(ValueKind::Text) => text(),
                Ok(ValueKind::Truth) if dialect == Dialect::Postgres => Some("boolean"),
                Ok(ValueKind::Number) if value == Some(ValueKind::Number) => None,
                Ok(ValueKind::Number) if dialect == Dialect::Sqlite => Some("INTEGER"),
                Ok(ValueKind::Number) => Some("integer"),
                Ok(ValueKind::Truth | ValueKind::Moment(_) | ValueKind::Null) | Err(_) => None,
            }
        }
    };
    name.map(Arc::from)
}

/// How many bytes PostgreSQL computes with where the column's values are whole numbers. Those of a domain are read as
/// the widest.
fn integer_bytes(column: &Column) -> Option<u8> {
    let is_narrow = ["smallint", "int2", "integer", "int4", "int"].contains(&own_name(column));
    (column.class == TypeClass::Integer).then_some(if is_narrow { 4 } else { 8 })
}

/// The type's name without the schema of PostgreSQL's own.
fn own_name(column: &Column) -> &str {
    column.type_name.trim_start_matches("pg_catalog.")
}

struct MaskWriter<'m> {
    column: &'m Column,
    dialect: Dialect,
    functions: &'m mut BTreeSet<String>,
}

impl MaskWriter<'_> {
    fn value(&self) -> Expr {
        ast::column(self.dialect, &self.column.name)
    }

    fn text(&self) -> Expr {
        ast::cast_text(self.dialect, self.value())
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
        ast::call(self.dialect, name, args)
    }

    /// The greatest whole number that is not above `value`: a word of the parser's own, which it reads with a schema only in
    /// quotes.
    fn floor(&mut self, value: Expr) -> Expr {
        match self.dialect {
            Dialect::Postgres => {
                self.functions.insert("pg_catalog.floor".to_owned());
                ast::call_quoted("floor", vec![value])
            }
            Dialect::Sqlite | Dialect::Mysql => {
                self.functions.insert("floor".to_owned());
                ast::floor(value)
            }
        }
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
                ast::binary(left, BinaryOperator::StringConcat, right)
            }
            Dialect::Mysql => self.call("concat", vec![left, right]),
        }
    }

    /// `shown` where the value has at least `2n` characters.
    fn if_long(&mut self, n: u16, shown: Expr) -> Expr {
        let text = self.text();
        let length = self.length(text);
        let least = ast::integer(2 * i64::from(n));
        ast::case(
            vec![(ast::binary(length, BinaryOperator::GtEq, least), shown)],
            None,
        )
    }

    fn stars(&self, n: u16) -> Expr {
        ast::text(self.dialect, &"*".repeat(usize::from(n)))
    }

    fn first(&mut self, n: u16) -> Expr {
        let text = self.text();
        let count = ast::integer(i64::from(n));
        let start = match self.dialect {
            Dialect::Sqlite => {
                self.functions.insert("substr".to_owned());
                ast::substr(text, ast::integer(1), Some(count))
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
                ast::substr(text, ast::integer(-count), None)
            }
            Dialect::Postgres | Dialect::Mysql => {
                self.call("right", vec![text, ast::integer(count)])
            }
        };
        let stars = self.stars(n);
        let shown = self.concat(stars, end);
        self.if_long(n, shown)
    }

    /// With two `@`, what is behind one of them may be of the name.
    fn email(&mut self) -> Expr {
        let (mut text, at) = (self.text(), ast::text(self.dialect, "@"));
        if self.cannot_be_searched() {
            text = ast::collate(text, "C", self.dialect);
        }
        let without = vec![text.clone(), at.clone(), ast::text(self.dialect, "")];
        let without = self.call("replace", without);
        let rest = self.length(without);
        let length = self.length(text.clone());
        let count = ast::parens(ast::binary(length, BinaryOperator::Minus, rest));
        let domain = match self.dialect {
            Dialect::Sqlite => {
                let position = self.call("instr", vec![text.clone(), at]);
                let after = ast::binary(position, BinaryOperator::Plus, ast::integer(1));
                self.functions.insert("substr".to_owned());
                ast::substr(text, after, None)
            }
            Dialect::Postgres => self.call("split_part", vec![text, at, ast::integer(2)]),
            Dialect::Mysql => self.call("substring_index", vec![text, at, ast::integer(-1)]),
        };
        let hidden = ast::text(self.dialect, "***@");
        let shown = self.concat(hidden, domain);
        let one = ast::binary(count, BinaryOperator::Eq, ast::integer(1));
        let domain = ast::case(vec![(one, shown)], None);
        if self.cannot_be_searched() {
            return ast::collate(ast::parens(domain), "default", self.dialect);
        }
        domain
    }

    /// The value, where it is at least `low` and on `to`'s side of `high`. PostgreSQL's dates reach further than
    /// its points in time, and MySQL has days and months 0.
    fn bucket_text(&self, low: Expr, to: BinaryOperator, high: Expr, shown: Expr) -> Expr {
        let from = ast::binary(self.value(), BinaryOperator::GtEq, low);
        let to = ast::binary(self.value(), to, high);
        let within = ast::join_by(vec![from, to], &BinaryOperator::And, true);
        ast::case(vec![(within, shown)], None)
    }

    fn date(&mut self, part: DatePart) -> Option<Expr> {
        // The type of the mask, that of its bounds, and the bounds.
        let (own, bound_type, first, last) = match (self.dialect, self.column.class) {
            (Dialect::Postgres | Dialect::Mysql, TypeClass::Date) => {
                (DataType::Date, DataType::Date, "0001-01-01", "9999-12-31")
            }
            (Dialect::Postgres, TypeClass::Timestamp) => {
                let own = DataType::Timestamp(None, TimezoneInfo::None);
                let last = "9999-12-31 23:59:59.999999";
                (own.clone(), own, "0001-01-01", last)
            }
            (Dialect::Postgres, TypeClass::TimestampTz) => {
                let own = DataType::Timestamp(None, TimezoneInfo::WithTimeZone);
                let last = "9999-12-31 23:59:59.999999+00";
                (own.clone(), own, "0001-01-01 00:00:00+00", last)
            }
            // The last moment of a day has a fraction, which MySQL keeps of a constant only where it is told to.
            (Dialect::Mysql, TypeClass::Timestamp | TypeClass::TimestampTz) => (
                DataType::Datetime(None),
                DataType::Datetime(Some(6)),
                "0001-01-01",
                "9999-12-31 23:59:59.999999",
            ),
            (Dialect::Sqlite, _) => {
                let format = ast::text(self.dialect, period_format(part));
                let value = self.value();
                return Some(self.call("strftime", vec![format, value]));
            }
            _ => return None,
        };
        let dialect = self.dialect;
        let cut = match self.dialect {
            Dialect::Postgres => {
                let unit = ast::text(self.dialect, part.name());
                if self.column.class == TypeClass::Date {
                    let at = DataType::Timestamp(None, TimezoneInfo::None);
                    let at = ast::cast(self.value(), at);
                    let cut = self.call("date_trunc", vec![unit, at]);
                    ast::cast(cut, own)
                } else {
                    let mut args = vec![unit, self.value()];
                    if self.column.class == TypeClass::TimestampTz {
                        args.push(ast::text(self.dialect, "UTC"));
                    }
                    self.call("date_trunc", args)
                }
            }
            Dialect::Mysql => {
                let format = ast::text(self.dialect, period_format(part));
                let value = self.value();
                let cut = self.call("date_format", vec![value, format]);
                ast::cast(cut, own)
            }
            Dialect::Sqlite => return None,
        };
        let bound = |text: &str| ast::cast(ast::text(dialect, text), bound_type.clone());
        Some(self.bucket_text(bound(first), BinaryOperator::LtEq, bound(last), cut))
    }

    fn bucket(&mut self, width: i64) -> Option<Expr> {
        Some(match (self.dialect, self.column.class) {
            (Dialect::Sqlite, _) => self.any_bucket(width),
            (Dialect::Postgres | Dialect::Mysql, TypeClass::Number) => self.float_bucket(width),
            (Dialect::Postgres | Dialect::Mysql, TypeClass::Decimal) => self.decimal_bucket(width),
            (Dialect::Postgres | Dialect::Mysql, TypeClass::Integer) => self.integer_bucket(width),
            _ => return None,
        })
    }

    /// `value` without what is left of a division by `width`: nearer to zero, and so within the type.
    fn cut(value: Expr, width: i64) -> Expr {
        let rest = ast::binary(value.clone(), BinaryOperator::Modulo, ast::integer(width));
        ast::binary(value, BinaryOperator::Minus, ast::parens(rest))
    }

    /// The bucket of a number below zero, of which `next` is the whole number after it.
    fn negative_bucket(next: Expr, width: i64) -> Expr {
        let cut = Self::cut(ast::parens(next), width);
        ast::binary(cut, BinaryOperator::Minus, ast::integer(width))
    }

    /// Whole numbers. The lowest bucket of a type may begin below what the type holds: there it is NULL.
    fn integer_bucket(&self, width: i64) -> Expr {
        let value = match (self.dialect, integer_bytes(self.column)) {
            (Dialect::Postgres, Some(8))
                if !["bigint", "int8"].contains(&own_name(self.column)) =>
            {
                ast::cast(self.value(), DataType::BigInt(None))
            }
            (Dialect::Postgres | Dialect::Sqlite | Dialect::Mysql, _) => self.value(),
        };
        // What PostgreSQL computes of numbers and constants of one size is of this size.
        let lowest = match (self.dialect, integer_bytes(self.column)) {
            (Dialect::Postgres, Some(4)) if i32::try_from(width).is_ok() => i64::from(i32::MIN),
            (Dialect::Postgres | Dialect::Sqlite | Dialect::Mysql, _) => i64::MIN,
        };
        let from = |least| ast::binary(value.clone(), BinaryOperator::GtEq, ast::integer(least));
        let next = ast::binary(value.clone(), BinaryOperator::Plus, ast::integer(1));
        ast::case(
            vec![
                (from(0), Self::cut(value.clone(), width)),
                (
                    from(lowest.saturating_add(width)),
                    Self::negative_bucket(next, width),
                ),
            ],
            None,
        )
    }

    /// Exact numbers, which keep their digits behind the point. Those so far below zero that a type may end there are
    /// NULL.
    fn decimal_bucket(&mut self, width: i64) -> Expr {
        let cut = Self::cut(self.value(), width);
        // The rest itself is no help: of a multiple below zero MariaDB's is a zero below zero.
        let negative = ast::binary(self.value(), BinaryOperator::Lt, ast::parens(cut.clone()));
        let within = ast::binary(self.value(), BinaryOperator::Gt, ast::lowest_decimal());
        let next = ast::binary(cut.clone(), BinaryOperator::Minus, ast::integer(width));
        let below = ast::case(vec![(within, next)], None);
        let bucket = ast::case(vec![(negative, below)], Some(cut));
        // PostgreSQL keeps as many places as the value has, where the type does not say how many: they would tell of it.
        match self.dialect == Dialect::Postgres && !self.column.type_name.contains('(') {
            true => self.call("round", vec![bucket, ast::integer(0)]),
            false => bucket,
        }
    }

    /// Floating-point numbers that are all whole, so that nothing is lost by dividing them. Zero is added because
    /// there is a negative one, whose sign shows.
    fn float_bucket(&mut self, width: i64) -> Expr {
        let value = match self.dialect {
            Dialect::Postgres => ast::cast(self.value(), DataType::DoublePrecision),
            Dialect::Sqlite | Dialect::Mysql => self.value(),
        };
        let whole = self.floor(value);
        let parts = ast::binary(whole, BinaryOperator::Divide, ast::integer(width));
        let parts = self.floor(parts);
        let bucket = ast::binary(parts, BinaryOperator::Multiply, ast::integer(width));
        let bucket = ast::binary(bucket, BinaryOperator::Plus, ast::integer(0));
        let (low, high) = (ast::integer(-LARGEST_FLOAT), ast::integer(LARGEST_FLOAT));
        self.bucket_text(low, BinaryOperator::Lt, high, bucket)
    }

    /// SQLite's numbers of any kind. What is no number has the whole number that a cast makes of it, and is not less
    /// than one.
    fn any_bucket(&self, width: i64) -> Expr {
        let whole = ast::cast(self.value(), DataType::Integer(None));
        let from = |least| ast::binary(whole.clone(), BinaryOperator::GtEq, ast::integer(least));
        // False for fractions below zero, which a cast cuts towards it.
        let whole_or_above = ast::binary(self.value(), BinaryOperator::GtEq, whole.clone());
        let not_below = ast::join_by(
            vec![from(0), whole_or_above.clone()],
            &BinaryOperator::And,
            true,
        );
        let next = ast::binary(
            whole.clone(),
            BinaryOperator::Plus,
            ast::parens(whole_or_above),
        );
        let bucket = ast::case(
            vec![
                (not_below, Self::cut(whole.clone(), width)),
                (
                    from(i64::MIN.saturating_add(width)),
                    Self::negative_bucket(next, width),
                ),
            ],
            None,
        );
        // Changes nothing, and is compared as a column of numbers is.
        ast::cast(bucket, DataType::Integer(None))
    }
}

/// Beyond it floating-point numbers are no longer all whole; such values become NULL.
const LARGEST_FLOAT: i64 = 1_000_000_000_000_000;

/// The format of the point in time at which `part` begins, for `strftime` and `date_format`.
fn period_format(part: DatePart) -> &'static str {
    match part {
        DatePart::Year => "%Y-01-01",
        DatePart::Month => "%Y-%m-01",
        DatePart::Day => "%Y-%m-%d",
        DatePart::Hour => "%Y-%m-%d %H:00:00",
    }
}
