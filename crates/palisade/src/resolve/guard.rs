//! The condition that keeps a change within the rows that may be changed: how it stands in the text that
//! runs. The rewriter puts it there; the second look at our own output takes it off again, and refuses if
//! it is not exactly there.

use sqlparser::ast::{
    BinaryOperator, CaseWhen, Cte, Expr, Query, Value, With, helpers::attached_token::AttachedToken,
};

/// The condition of rows, and whether the statement's own condition may be tried only where it holds.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    pub(crate) condition: Expr,
    /// `CASE` tries its arms in order and nothing of a later one, so that the agent's condition cannot
    /// fail on a row that the guard keeps apart. A condition that is leak-proof stands beside the guard,
    /// where an index serves it.
    pub(crate) fenced: bool,
}

impl Guard {
    /// The guard around a statement's own condition.
    pub(crate) fn around(&self, own: Option<Expr>) -> Expr {
        let guard = nested(self.condition.clone());
        match own {
            None => guard,
            Some(own) if self.fenced => Expr::Case {
                case_token: AttachedToken::empty(),
                end_token: AttachedToken::empty(),
                operand: None,
                conditions: vec![CaseWhen {
                    condition: guard,
                    result: nested(own),
                }],
                else_result: Some(Box::new(Expr::Value(Value::Boolean(false).into()))),
            },
            Some(own) => Expr::BinaryOp {
                left: Box::new(guard),
                op: BinaryOperator::And,
                right: Box::new(nested(own)),
            },
        }
    }

    /// The statement's own condition in `expr`; an error if the guard is not around it.
    pub(super) fn inside<'e>(&self, expr: &'e mut Expr) -> Result<Option<&'e mut Expr>, Unguarded> {
        let is_guard =
            |expr: &Expr| matches!(expr, Expr::Nested(inner) if **inner == self.condition);
        if is_guard(expr) {
            return Ok(None);
        }
        let own = match expr {
            Expr::Case {
                case_token: _,
                end_token: _,
                operand: None,
                conditions,
                else_result: Some(otherwise),
            } if self.fenced && is_false(otherwise) => match conditions.as_mut_slice() {
                [CaseWhen { condition, result }] if is_guard(condition) => result,
                _ => return Err(Unguarded),
            },
            Expr::BinaryOp {
                left,
                op: BinaryOperator::And,
                right,
            } if !self.fenced && is_guard(left) => right,
            _ => return Err(Unguarded),
        };
        match own {
            Expr::Nested(inner) => Ok(Some(inner)),
            _ => Err(Unguarded),
        }
    }
}

/// The guard is not where it was put.
#[derive(Debug)]
pub(super) struct Unguarded;

/// What rows must be like to be added, where a query gives them: `WITH name (columns) AS (query) SELECT
/// columns FROM name WHERE condition`.
#[derive(Debug, Clone)]
pub(crate) struct Admission {
    /// The whole with any query in its place.
    pub(crate) frame: Box<Query>,
}

impl Admission {
    /// The frame with `source` in it.
    pub(crate) fn around(&self, source: Box<Query>) -> Box<Query> {
        let mut out = self.frame.clone();
        if let Some(cte) = first_cte(&mut out) {
            cte.query = source;
        }
        out
    }

    /// The source in `query`; an error if the frame is not around it.
    pub(super) fn inside<'q>(&self, query: &'q mut Query) -> Result<&'q mut Query, Unguarded> {
        let mut empty = query.clone();
        let mut frame = self.frame.clone();
        match (first_cte(&mut empty), first_cte(&mut frame)) {
            (Some(theirs), Some(ours)) => theirs.query = ours.query.clone(),
            _ => return Err(Unguarded),
        }
        if empty != *frame {
            return Err(Unguarded);
        }
        first_cte(query).map(|cte| &mut *cte.query).ok_or(Unguarded)
    }
}

fn first_cte(query: &mut Query) -> Option<&mut Cte> {
    let With {
        with_token: _,
        recursive: _,
        cte_tables,
    } = query.with.as_mut()?;
    cte_tables.first_mut()
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

fn is_false(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if value.value == Value::Boolean(false))
}
