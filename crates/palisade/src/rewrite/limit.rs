//! LIMIT: the outermost query gives at most one row more than the cap, to know of truncation.

use sqlparser::ast::{
    BinaryOperator, Expr, Fetch, Ident, LimitClause, Offset, Query, SelectItem, SetExpr,
    TableFactor, UnaryOperator, Value as SqlValue, helpers::attached_token::AttachedToken,
};

use crate::rewrite::{
    ast,
    output::{parameter_values::ParameterValues, parameters},
};
use crate::{code::Code, dialect::Dialect, rejection::Rejection, value::Value};

/// Bounds `query` to `cap + 1` rows; a smaller limit of the agent's own stays.
///
/// What is done to each form:
/// * `LIMIT n`, `LIMIT m, n` and `FETCH FIRST n ROWS ONLY` stay if `n` is within the cap, else `n` is
///   replaced; so is a negative one (no limit to SQLite) and, on PostgreSQL, NULL (no limit there);
/// * a parameter is looked at;
/// * `FETCH … WITH TIES`, which gives more rows than it says, gets a LIMIT around it;
/// * a limit that is computed gets one around it on PostgreSQL, and is replaced on SQLite where it is beyond
///   the cap;
/// * VALUES gets one around it on SQLite, which takes none after it.
///
/// Gives the position, from 1, of a `?` that is gone with the limit it stood in, on MySQL, which knows its parameters by
/// position alone.
pub(super) fn bound_rows(
    query: &mut Query,
    cap: u64,
    given: &ParameterValues<'_>,
    dialect: Dialect,
) -> Result<Option<usize>, Rejection> {
    let cap = Cap {
        most: i64::try_from(cap.saturating_add(1)).unwrap_or(i64::MAX),
        given,
        dialect,
    };
    bound_query(query, &cap)
}

fn bound_query(query: &mut Query, own: &Cap<'_>) -> Result<Option<usize>, Rejection> {
    let dialect = own.dialect;
    let wrapped = match dialect {
        // SQLite's VALUES takes no LIMIT.
        Dialect::Sqlite => match &*query.body {
            SetExpr::Values(_) => true,
            SetExpr::Select(_)
            | SetExpr::Query(_)
            | SetExpr::SetOperation {
                op: _,
                set_quantifier: _,
                left: _,
                right: _,
            }
            | SetExpr::Insert(_)
            | SetExpr::Update(_)
            | SetExpr::Delete(_)
            | SetExpr::Merge(_)
            | SetExpr::Table(_) => false,
        },
        Dialect::Postgres | Dialect::Mysql => false,
    };
    if wrapped {
        wrap(query, None);
    }
    // PostgreSQL takes one limit for a query and the parentheses around it.
    if dialect == Dialect::Postgres
        && !has_limit(query)
        && let SetExpr::Query(inner) = &mut *query.body
        && is_limited(inner)
    {
        return bound_query(inner, own);
    }
    if let Some(fetch) = query.fetch.take() {
        own.fetch(query, fetch)?;
        return Ok(None);
    }
    // Only MySQL knows its parameters by position, and only a limit that has one asks for it.
    let total = match dialect {
        Dialect::Mysql => parameters::count(query),
        Dialect::Sqlite | Dialect::Postgres => 0,
    };
    let (limit, after) = match &mut query.limit_clause {
        Some(LimitClause::LimitOffset {
            limit,
            offset,
            limit_by: _,
        }) => {
            let after = offset.as_ref().map_or(0, |offset| {
                let Offset { value, rows: _ } = offset;
                parameters::count(value)
            });
            match limit {
                Some(limit) => (limit, after),
                None => {
                    *limit = Some(ast::integer(own.most));
                    return Ok(None);
                }
            }
        }
        Some(LimitClause::OffsetCommaLimit { offset: _, limit }) => (limit, 0),
        None => {
            query.limit_clause = Some(own.clause(None));
            return Ok(None);
        }
    };
    // The limit stands last in the text, its offset aside.
    let position = total.saturating_sub(after);
    match own.compare_to_cap(limit, position)? {
        LimitValue::Within => return Ok(None),
        LimitValue::Beyond => {}
        // A derived table has no two columns of one name on SQLite.
        LimitValue::Computed if dialect == Dialect::Sqlite => {
            let computed = std::mem::replace(limit, ast::null());
            *limit = own.at_most(computed);
            return Ok(None);
        }
        LimitValue::Computed => {
            wrap(query, Some("bounded"));
            query.limit_clause = Some(own.clause(None));
            return Ok(None);
        }
    }
    let gone = parameters::count(limit) > 0 && dialect == Dialect::Mysql;
    *limit = ast::integer(own.most);
    Ok(gone.then_some(position))
}

/// Whether a query has a limit, its own or that of a query which it is the parentheses around.
fn is_limited(query: &Query) -> bool {
    let inner = match &*query.body {
        SetExpr::Query(inner) => is_limited(inner),
        SetExpr::Select(_)
        | SetExpr::SetOperation {
            op: _,
            set_quantifier: _,
            left: _,
            right: _,
        }
        | SetExpr::Values(_)
        | SetExpr::Insert(_)
        | SetExpr::Update(_)
        | SetExpr::Delete(_)
        | SetExpr::Merge(_)
        | SetExpr::Table(_) => false,
    };
    inner || has_limit(query)
}

/// Whether a query says how many rows it gives at most.
fn has_limit(query: &Query) -> bool {
    let limit = match &query.limit_clause {
        Some(LimitClause::LimitOffset {
            limit,
            offset: _,
            limit_by: _,
        }) => limit.is_some(),
        Some(LimitClause::OffsetCommaLimit {
            offset: _,
            limit: _,
        }) => true,
        None => false,
    };
    limit || query.fetch.is_some()
}

/// A limit of the agent's own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LimitValue {
    /// It gives no more than the cap.
    Within,
    /// It gives more, or every row.
    Beyond,
    /// It is known only when the statement runs.
    Computed,
}

/// Whether a limit is an expression and not a value.
fn computes(limit: &Expr) -> bool {
    !matches!(limit, Expr::Value(_))
}

struct Cap<'p> {
    /// One more than may be seen.
    most: i64,
    given: &'p ParameterValues<'p>,
    dialect: Dialect,
}

impl Cap<'_> {
    fn clause(&self, offset: Option<Offset>) -> LimitClause {
        LimitClause::LimitOffset {
            limit: Some(ast::integer(self.most)),
            offset,
            limit_by: Vec::new(),
        }
    }

    /// `(SELECT CASE WHEN n BETWEEN 0 AND cap OR n IS NULL THEN n ELSE cap END FROM (SELECT computed AS n …))`:
    /// computed once, whatever calls stand in it.
    fn at_most(&self, computed: Expr) -> Expr {
        let n = || ast::column(self.dialect, "n");
        let stays = Expr::Between {
            expr: Box::new(n()),
            negated: false,
            low: Box::new(ast::integer(0)),
            high: Box::new(ast::integer(self.most)),
        };
        let nothing = Expr::IsNull(Box::new(n()));
        let value = ast::case(
            vec![(ast::binary(stays, BinaryOperator::Or, nothing), n())],
            Some(ast::integer(self.most)),
        );
        let mut once = ast::select(
            vec![ast::item(self.dialect, computed, "n")],
            None::<TableFactor>,
            None,
        );
        once.limit_clause = Some(super::relation_source::fence(self.dialect));
        let computed = TableFactor::Derived {
            lateral: false,
            subquery: Box::new(once),
            alias: None,
            sample: None,
        };
        let query = ast::select(vec![SelectItem::UnnamedExpr(value)], computed, None);
        Expr::Subquery(Box::new(query))
    }

    /// `FETCH FIRST n ROWS ONLY | WITH TIES`, already taken out of the query.
    fn fetch(&self, query: &mut Query, fetch: Fetch) -> Result<(), Rejection> {
        let offset = match query.limit_clause.take() {
            None => None,
            Some(LimitClause::LimitOffset {
                limit: None,
                offset,
                limit_by: _,
            }) => offset,
            Some(
                LimitClause::LimitOffset {
                    limit: Some(_),
                    offset: _,
                    limit_by: _,
                }
                | LimitClause::OffsetCommaLimit {
                    offset: _,
                    limit: _,
                },
            ) => return Err(refuse_unsupported("both LIMIT and FETCH")),
        };
        let Fetch {
            with_ties,
            percent,
            quantity,
        } = &fetch;
        if *percent {
            return Err(refuse_unsupported("FETCH … PERCENT"));
        }
        let limit = match quantity {
            // One row.
            None => LimitValue::Within,
            Some(quantity) => self.compare_to_cap(quantity, 0)?,
        };
        let around = match limit {
            LimitValue::Within | LimitValue::Beyond if *with_ties => Some("ties"),
            LimitValue::Computed => Some("bounded"),
            LimitValue::Within | LimitValue::Beyond => None,
        };
        if around.is_some() || limit == LimitValue::Within {
            query.limit_clause = offset.map(|offset| LimitClause::LimitOffset {
                limit: None,
                offset: Some(offset),
                limit_by: Vec::new(),
            });
            query.fetch = Some(fetch);
            if around.is_some() {
                wrap(query, around);
                query.limit_clause = Some(self.clause(None));
            }
        } else {
            query.limit_clause = Some(self.clause(offset));
        }
        Ok(())
    }

    /// What a limit is to the cap. `position` is that of a `?`, on MySQL.
    fn compare_to_cap(&self, limit: &Expr, position: usize) -> Result<LimitValue, Rejection> {
        let within = |value: i64| {
            if (0..self.most).contains(&value) {
                LimitValue::Within
            } else {
                LimitValue::Beyond
            }
        };
        match limit {
            Expr::Nested(inner) => self.compare_to_cap(inner, position),
            Expr::UnaryOp {
                op: UnaryOperator::Minus,
                expr,
            } if matches!(**expr, Expr::Value(_)) => Ok(LimitValue::Beyond),
            Expr::Value(value) => match &value.value {
                // A number too large for 64 bits is larger than any cap.
                SqlValue::Number(text, _) if text.bytes().all(|b| b.is_ascii_digit()) => {
                    Ok(text.parse().map_or(LimitValue::Beyond, within))
                }
                SqlValue::Null if self.dialect == Dialect::Postgres => Ok(LimitValue::Beyond),
                SqlValue::Placeholder(text) => match self.value(text, position) {
                    Some(Value::Integer(value)) => Ok(within(*value)),
                    Some(Value::Null) if self.dialect == Dialect::Postgres => {
                        Ok(LimitValue::Beyond)
                    }
                    _ => Err(Rejection::new(
                        Code::ParameterMismatch,
                        "the parameter of LIMIT must be an integer",
                    )),
                },
                _ => Err(not_a_number()),
            },
            // MySQL takes nothing else.
            computed if computes(computed) && self.dialect != Dialect::Mysql => {
                Ok(LimitValue::Computed)
            }
            _ => Err(not_a_number()),
        }
    }

    /// The parameter that a placeholder means.
    fn value(&self, text: &str, position: usize) -> Option<&Value> {
        let number: u32 = match self.dialect {
            Dialect::Sqlite => text.strip_prefix('?')?.parse().ok()?,
            Dialect::Postgres => text.strip_prefix('$')?.parse().ok()?,
            Dialect::Mysql => u32::try_from(position).ok()?,
        };
        self.given.by_number(number)
    }
}

/// `SELECT * FROM (query) [AS alias]`.
fn wrap(query: &mut Query, alias: Option<&str>) {
    let inner = std::mem::replace(query, ast::query(SetExpr::Values(empty_values())));
    *query = ast::select(
        vec![SelectItem::Wildcard(plain_star())],
        TableFactor::Derived {
            lateral: false,
            subquery: Box::new(inner),
            alias: alias.map(|name| ast::alias(Ident::new(name))),
            sample: None,
        },
        None,
    );
}

fn not_a_number() -> Rejection {
    refuse_unsupported("a LIMIT that is neither an integer nor a parameter")
}

fn refuse_unsupported(what: &str) -> Rejection {
    Rejection::new(Code::SyntaxUnsupported, format!("{what} is not supported"))
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

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        reason = "tests"
    )]

    use std::collections::BTreeMap;

    use super::*;
    use crate::{
        limits::Limits,
        syntax,
        value::{Params, Placeholder},
    };

    /// The text after bounding to 10 rows, read back, and what is bound to it.
    fn bound_text(
        dialect: Dialect,
        sql: &str,
        params: &[Value],
    ) -> Result<(String, Vec<Value>), String> {
        let limits = Limits::default();
        let params = Params::Positional(params.to_vec());
        let numbers = 1..=u32::try_from(match &params {
            Params::Positional(values) => values.len(),
            Params::Named(_) | Params::None => 0,
        })
        .unwrap();
        let placeholders: BTreeMap<_, _> = numbers.map(|n| (Placeholder::Number(n), n)).collect();
        syntax::parse(sql, dialect, &limits, |mut parsed| {
            let given = ParameterValues::new(&params);
            let gone = bound_rows(&mut parsed.query, 10, &given, dialect)?;
            let asks = ["LIMIT $", "LIMIT ?", "FIRST $"]
                .iter()
                .any(|limit| sql.contains(limit))
                // One that is computed is bounded whatever it comes to.
                && !sql.contains(" + ");
            assert_eq!(!given.looked_at().is_empty(), asks, "{sql}");
            let query = &mut parsed.query;
            let order =
                parameters::renumber(query, &mut Vec::new(), &placeholders, &[], dialect, gone)?;
            let (text, again) = syntax::print_stable(query, dialect, &limits)?;
            let values = order
                .bind_printed(&again, dialect)?
                .iter()
                .map(|bound| bound.value(&params))
                .collect::<Result<_, _>>()?;
            Ok((text, values))
        })
        .map_err(|why| why.to_string())
    }

    fn check(dialect: Dialect, sql: &str, params: &[i64], expect: &str, bound: &[i64]) {
        let values = |numbers: &[i64]| {
            let values: Vec<_> = numbers.iter().map(|n| Value::Integer(*n)).collect();
            values
        };
        let got = bound_text(dialect, sql, &values(params));
        assert_eq!(got, Ok((expect.to_owned(), values(bound))), "{sql}");
    }

    #[test]
    fn limits_of_postgres() {
        for (sql, params, expect, bound) in [
            ("SELECT 1", &[][..], "SELECT 1 LIMIT 11", &[][..]),
            ("SELECT 1 LIMIT 10", &[], "SELECT 1 LIMIT 10", &[]),
            ("SELECT 1 LIMIT 11", &[], "SELECT 1 LIMIT 11", &[]),
            ("SELECT 1 LIMIT 12", &[], "SELECT 1 LIMIT 11", &[]),
            ("SELECT 1 LIMIT ALL", &[], "SELECT 1 LIMIT 11", &[]),
            ("SELECT 1 LIMIT NULL", &[], "SELECT 1 LIMIT 11", &[]),
            ("SELECT 1 LIMIT (-5)", &[], "SELECT 1 LIMIT 11", &[]),
            (
                "SELECT 1 LIMIT ALL OFFSET 3",
                &[],
                "SELECT 1 LIMIT 11 OFFSET 3",
                &[],
            ),
            (
                "SELECT 1 OFFSET 3 ROWS",
                &[],
                "SELECT 1 LIMIT 11 OFFSET 3 ROWS",
                &[],
            ),
            ("SELECT 1 LIMIT $1", &[5], "SELECT 1 LIMIT $1", &[5]),
            ("SELECT $1 LIMIT $2", &[7, 50], "SELECT $1 LIMIT 11", &[7]),
            (
                "SELECT $1 LIMIT $2 OFFSET $3",
                &[7, 50, 2],
                "SELECT $1 LIMIT 11 OFFSET $2",
                &[7, 2],
            ),
            (
                "SELECT $2 LIMIT $1 OFFSET $3",
                &[50, 7, 2],
                "SELECT $1 LIMIT 11 OFFSET $2",
                &[7, 2],
            ),
            ("SELECT $1 LIMIT $1", &[50], "SELECT $1 LIMIT 11", &[50]),
            ("VALUES (1), (2)", &[], "VALUES (1), (2) LIMIT 11", &[]),
            (
                "SELECT 1 FETCH FIRST ROW ONLY",
                &[],
                "SELECT 1 FETCH FIRST ROWS ONLY",
                &[],
            ),
            (
                "SELECT 1 FETCH NEXT 5 ROWS ONLY",
                &[],
                "SELECT 1 FETCH FIRST 5 ROWS ONLY",
                &[],
            ),
            (
                "SELECT 1 OFFSET 2 ROWS FETCH NEXT 50 ROWS ONLY",
                &[],
                "SELECT 1 LIMIT 11 OFFSET 2 ROWS",
                &[],
            ),
            (
                "SELECT 1 FETCH FIRST $1 ROWS ONLY",
                &[50],
                "SELECT 1 LIMIT 11",
                &[],
            ),
            (
                "SELECT a FROM t ORDER BY a OFFSET 2 FETCH FIRST 1 ROW WITH TIES",
                &[],
                "SELECT * FROM (SELECT a FROM t ORDER BY a OFFSET 2 FETCH FIRST 1 ROWS WITH TIES) AS ties LIMIT 11",
                &[],
            ),
            (
                "SELECT $2 LIMIT $1 + 1 OFFSET 2 * 3",
                &[50, 7],
                "SELECT * FROM (SELECT $2 LIMIT $1 + 1 OFFSET 2 * 3) AS bounded LIMIT 11",
                &[50, 7],
            ),
        ] {
            check(Dialect::Postgres, sql, params, expect, bound);
        }
        assert_eq!(
            bound_text(Dialect::Postgres, "SELECT 1 LIMIT $1", &[Value::Null]),
            Ok(("SELECT 1 LIMIT 11".to_owned(), vec![]))
        );
    }

    #[test]
    fn computed_limits_of_sqlite() {
        check(
            Dialect::Sqlite,
            "SELECT 1, 1 LIMIT ?1 + 1 OFFSET 2",
            &[50],
            "SELECT 1, 1 LIMIT (SELECT CASE WHEN \"n\" BETWEEN 0 AND 11 OR \"n\" IS NULL THEN \"n\" ELSE 11 END \
             FROM (SELECT ?1 + 1 AS \"n\" LIMIT -1 OFFSET 0)) OFFSET 2",
            &[50],
        );
    }

    #[test]
    fn limits_of_mysql() {
        for (sql, params, expect, bound) in [
            ("SELECT 1 LIMIT 12", &[][..], "SELECT 1 LIMIT 11", &[][..]),
            ("SELECT 1 LIMIT 3, 5", &[], "SELECT 1 LIMIT 3, 5", &[]),
            ("SELECT 1 LIMIT 3, 50", &[], "SELECT 1 LIMIT 3, 11", &[]),
            ("SELECT ? LIMIT ?", &[7, 5], "SELECT ? LIMIT ?", &[7, 5]),
            ("SELECT ? LIMIT ?", &[7, 50], "SELECT ? LIMIT 11", &[7]),
            (
                "SELECT ? LIMIT ? OFFSET ?",
                &[7, 50, 2],
                "SELECT ? LIMIT 11 OFFSET ?",
                &[7, 2],
            ),
            (
                "SELECT ? LIMIT ?, ?",
                &[7, 2, 50],
                "SELECT ? LIMIT ?, 11",
                &[7, 2],
            ),
            (
                "SELECT ? LIMIT ?, ?",
                &[7, 50, 2],
                "SELECT ? LIMIT ?, ?",
                &[7, 50, 2],
            ),
            (
                "VALUES ROW(1), ROW(2)",
                &[],
                "VALUES ROW(1), ROW(2) LIMIT 11",
                &[],
            ),
        ] {
            check(Dialect::Mysql, sql, params, expect, bound);
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for (dialect, sql, params, code) in [
            (
                Dialect::Mysql,
                "SELECT 1 LIMIT 2 + 3",
                &[][..],
                "syntax.unsupported",
            ),
            (
                Dialect::Postgres,
                "SELECT 1 LIMIT 2.5",
                &[],
                "syntax.unsupported",
            ),
            (
                Dialect::Postgres,
                "SELECT 1 FETCH FIRST 5 PERCENT ROWS ONLY",
                &[],
                "syntax.unsupported",
            ),
            (
                Dialect::Postgres,
                "SELECT 1 LIMIT 5 FETCH FIRST 5 ROWS ONLY",
                &[],
                "syntax.unsupported",
            ),
            (
                Dialect::Postgres,
                "SELECT 1 LIMIT $1",
                &[Value::Text(Vec::new())],
                "parameter.mismatch",
            ),
            (
                Dialect::Mysql,
                "SELECT 1 LIMIT ?",
                &[Value::Null],
                "parameter.mismatch",
            ),
            (
                Dialect::Mysql,
                "SELECT 1 LIMIT NULL",
                &[],
                "syntax.unsupported",
            ),
        ] {
            let refused = bound_text(dialect, sql, params).unwrap_err();
            assert!(refused.starts_with(code), "{sql}: {refused}");
        }
    }
}
