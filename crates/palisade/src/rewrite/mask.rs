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
    functions: &mut BTreeSet<&'static str>,
) -> Expr {
    let column = || sql::column(name);
    match (dialect, mask) {
        (Dialect::Sqlite, Mask::Null) => sql::null(),
        (Dialect::Sqlite, Mask::Fixed(text)) => sql::case(
            vec![(Expr::IsNotNull(Box::new(column())), sql::text(text))],
            None,
        ),
        (Dialect::Sqlite, Mask::Last(Reverse(n))) => {
            functions.extend(["length", "substr"]);
            let n = i64::from(*n);
            let text = || sql::cast_text(column());
            let stars = "*".repeat(usize::try_from(n).unwrap_or_default());
            sql::case(
                vec![(
                    sql::binary(
                        sql::call("length", vec![text()]),
                        BinaryOperator::GtEq,
                        sql::integer(2 * n),
                    ),
                    sql::binary(
                        sql::text(&stars),
                        BinaryOperator::StringConcat,
                        sql::substr_from(text(), sql::integer(-n)),
                    ),
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
