//! LIMIT: the outermost query gives at most one row more than the cap, to know of truncation.

use sqlparser::ast::{
    Expr, LimitClause, Query, SelectItem, SetExpr, TableFactor, UnaryOperator, Value as SqlValue,
    helpers::attached_token::AttachedToken,
};

use super::sql;
use crate::{
    code::Code,
    rejection::Rejection,
    value::{Params, Placeholder, Value},
};

/// Bounds `query` to `cap + 1` rows; a smaller limit of the agent's own stays.
pub(super) fn bound(query: &mut Query, cap: u64, params: &Params) -> Result<(), Rejection> {
    let most = i64::try_from(cap.saturating_add(1)).unwrap_or(i64::MAX);
    if matches!(*query.body, SetExpr::Values(_)) {
        // SQLite takes no LIMIT after VALUES.
        let inner = std::mem::replace(query, sql::query(SetExpr::Values(empty_values())));
        *query = sql::select(
            vec![SelectItem::Wildcard(plain_star())],
            TableFactor::Derived {
                lateral: false,
                subquery: Box::new(inner),
                alias: None,
                sample: None,
            },
            None,
        );
    }
    let limit = match &mut query.limit_clause {
        Some(LimitClause::LimitOffset {
            limit,
            offset: _,
            limit_by: _,
        }) => limit,
        Some(LimitClause::OffsetCommaLimit { offset: _, limit }) => {
            if !is_within(limit, most, params)? {
                *limit = sql::integer(most);
            }
            return Ok(());
        }
        None => {
            query.limit_clause = Some(LimitClause::LimitOffset {
                limit: Some(sql::integer(most)),
                offset: None,
                limit_by: Vec::new(),
            });
            return Ok(());
        }
    };
    match limit {
        Some(expr) if is_within(expr, most, params)? => {}
        Some(_) | None => *limit = Some(sql::integer(most)),
    }
    Ok(())
}

/// Whether a limit is a number from 0 to `most`. A negative one means no limit on SQLite.
fn is_within(limit: &Expr, most: i64, params: &Params) -> Result<bool, Rejection> {
    let within = |value: i64| (0..most).contains(&value);
    match limit {
        Expr::Nested(inner) => is_within(inner, most, params),
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } if matches!(**expr, Expr::Value(_)) => Ok(false),
        Expr::Value(value) => match &value.value {
            // A number too large for 64 bits is larger than any cap.
            SqlValue::Number(text, _) if text.bytes().all(|b| b.is_ascii_digit()) => {
                Ok(text.parse().is_ok_and(within))
            }
            SqlValue::Placeholder(text) => {
                let number = text.strip_prefix('?').and_then(|n| n.parse().ok());
                let value = match (number, params) {
                    (Some(n), Params::Positional(_)) => params.lookup(&Placeholder::Number(n)),
                    // Names were numbered in their own order.
                    (Some(n), Params::Named(values)) => n
                        .checked_sub(1)
                        .and_then(|n| usize::try_from(n).ok())
                        .and_then(|i| values.values().nth(i)),
                    (_, Params::None) | (None, _) => None,
                };
                match value {
                    Some(Value::Integer(value)) => Ok(within(*value)),
                    _ => Err(Rejection::new(
                        Code::ParameterMismatch,
                        "the parameter of LIMIT must be an integer",
                    )),
                }
            }
            _ => Err(not_a_number()),
        },
        _ => Err(not_a_number()),
    }
}

fn not_a_number() -> Rejection {
    Rejection::new(
        Code::SyntaxUnsupported,
        "a LIMIT that is neither an integer nor a parameter is not supported",
    )
}

fn empty_values() -> sqlparser::ast::Values {
    sqlparser::ast::Values {
        explicit_row: false,
        value_keyword: false,
        rows: Vec::new(),
    }
}

fn plain_star() -> sqlparser::ast::WildcardAdditionalOptions {
    sqlparser::ast::WildcardAdditionalOptions {
        wildcard_token: AttachedToken::empty(),
        opt_ilike: None,
        opt_exclude: None,
        opt_except: None,
        opt_replace: None,
        opt_rename: None,
        opt_alias: None,
    }
}
