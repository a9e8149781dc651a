//! Masks as SQL. Every mask is a total function: it cannot raise, whatever the value, because the
//! engine may compute it for rows a filter hides.

use std::{cmp::Reverse, collections::BTreeSet};

use sqlparser::ast::{BinaryOperator, Expr};

use super::sql;
use crate::{dialect::Dialect, policy::obligation::Mask};

/// `mask` of the column `name`.
pub(super) fn expression(
    mask: &Mask,
    name: &str,
    dialect: Dialect,
    functions: &mut BTreeSet<String>,
) -> Expr {
    let column = || sql::column(dialect, name);
    match mask {
        Mask::Null => sql::null(),
        Mask::Fixed(text) => sql::case(
            vec![(
                Expr::IsNotNull(Box::new(column())),
                sql::text(dialect, text),
            )],
            None,
        ),
        Mask::Last(Reverse(n)) => {
            let n = i64::from(*n);
            let text = || sql::cast_text(dialect, column());
            let stars = "*".repeat(usize::try_from(n).unwrap_or_default());
            let mut call = |name: &str, args| {
                let uid = match dialect {
                    Dialect::Sqlite | Dialect::Mysql => name.to_owned(),
                    Dialect::Postgres => format!("pg_catalog.{name}"),
                };
                functions.insert(uid);
                sql::call(dialect, name, args)
            };
            let (length, end) = match dialect {
                Dialect::Sqlite => {
                    let length = call("length", vec![text()]);
                    functions.insert("substr".to_owned());
                    (length, sql::substr_from(text(), sql::integer(-n)))
                }
                Dialect::Postgres => (
                    call("length", vec![text()]),
                    call("right", vec![text(), sql::integer(n)]),
                ),
                Dialect::Mysql => (
                    call("char_length", vec![text()]),
                    call("right", vec![text(), sql::integer(n)]),
                ),
            };
            let stars = sql::text(dialect, &stars);
            let masked = match dialect {
                Dialect::Sqlite | Dialect::Postgres => {
                    sql::binary(stars, BinaryOperator::StringConcat, end)
                }
                Dialect::Mysql => sql::call(dialect, "concat", vec![stars, end]),
            };
            sql::case(
                vec![(
                    sql::binary(length, BinaryOperator::GtEq, sql::integer(2 * n)),
                    masked,
                )],
                None,
            )
        }
    }
}

/// Whether the engine reads the column to compute the mask.
pub(super) fn reads(mask: &Mask) -> bool {
    match mask {
        Mask::Null => false,
        Mask::Fixed(_) | Mask::Last(_) => true,
    }
}
