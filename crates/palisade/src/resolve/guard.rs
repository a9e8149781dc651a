//! The condition that keeps a change within the rows that may be changed: how it stands in the text that
//! runs. The rewriter puts it there; the second look at our own output takes it off again, and refuses if
//! it is not exactly there.

use std::collections::BTreeSet;

use sqlparser::ast::{
    BinaryOperator, CaseWhen, Cte, Expr, Query, Value, With, helpers::attached_token::AttachedToken,
};

/// The condition of rows, and how it stands with the statement's own conditions.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    pub(crate) condition: Expr,
    pub(crate) stance: Stance,
}

/// How a guard stands with conditions of the statement's own.
#[derive(Debug, Clone)]
pub(crate) enum Stance {
    /// Beside them: they are leak-proof, and an index serves both.
    Beside,
    /// Around each of them: `CASE` tries its arms in order and nothing of a later one, so that the agent's
    /// condition cannot fail on a row that the guard keeps apart.
    Around,
    /// Around what of them is not leak-proof; the rest stands beside that, where an index serves it.
    Apart {
        lead: Lead,
        /// For the statement's own condition, then for each condition of a join that can see the target: which of its
        /// [`conjuncts`] stand beside; none where it is not taken apart.
        places: Vec<Vec<bool>>,
    },
}

/// What of a guard stands before all else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lead {
    /// Nothing: the target stands alone, so that nothing else can be seen to run for a row of it.
    Nothing,
    /// The guard as it is.
    Plain,
    /// The guard where the planner does not see into it: an engine that knows a column's value from one condition puts it in
    /// the place of the column in others, and would decide a guard before any row.
    Opaque,
}

/// The columns of the target that a leak-proof part of a condition names; none where it is not leak-proof.
pub(crate) type Conjunct = Option<BTreeSet<u16>>;

/// The conditions of which all must hold where `expr` does.
pub(crate) fn conjuncts(expr: &Expr) -> Vec<&Expr> {
    let mut out = Vec::new();
    collect(expr, &mut out);
    out
}

fn collect<'e>(expr: &'e Expr, out: &mut Vec<&'e Expr>) {
    match expr {
        Expr::BinaryOp {
            left,
            op: BinaryOperator::And,
            right,
        } => {
            collect(left, out);
            collect(right, out);
        }
        Expr::Nested(inner) => collect(inner, out),
        other => out.push(other),
    }
}

impl Guard {
    /// The guard around the statement's own condition, which is that of `place`.
    pub(crate) fn around(&self, own: Option<Expr>, place: usize) -> Expr {
        let guard = nested(self.condition.clone());
        match (&self.stance, own) {
            (Stance::Beside | Stance::Around, None) => guard,
            (Stance::Beside, Some(own)) => and(guard, nested(own)),
            (Stance::Around, Some(own)) => choice(guard, nested(own)),
            (Stance::Apart { lead, places }, own) => {
                let (beside, rest) = apart(own, places.get(place));
                let mut all: Vec<Expr> = self.leading(*lead).into_iter().collect();
                all.extend(beside.into_iter().map(nested));
                if let Some(rest) = rest {
                    all.push(choice(guard.clone(), nested(rest)));
                }
                all.into_iter().reduce(and).unwrap_or(guard)
            }
        }
    }

    /// The statement's own condition in `expr`; an error if the guard is not around it.
    pub(super) fn inside(&self, expr: Expr, place: usize) -> Result<Option<Expr>, Unguarded> {
        match &self.stance {
            Stance::Beside | Stance::Around if self.is_guard(&expr) => Ok(None),
            Stance::Beside => match expr {
                Expr::BinaryOp {
                    left,
                    op: BinaryOperator::And,
                    right,
                } if self.is_guard(&left) => unnested(*right).map(Some),
                _ => Err(Unguarded),
            },
            Stance::Around => self.chosen(expr).map(Some),
            Stance::Apart { lead, places } => {
                let count = |beside: bool| {
                    let own = places.get(place).into_iter().flatten();
                    own.filter(|is_beside| **is_beside == beside).count()
                };
                let is_whole = places.get(place).is_none_or(Vec::is_empty);
                let mut all = chain(expr);
                if let Some(leading) = self.leading(*lead) {
                    if all.is_empty() || all.remove(0) != leading {
                        return Err(Unguarded);
                    }
                } else if is_whole && all.as_slice() == [nested(self.condition.clone())] {
                    return Ok(None);
                }
                let mut own = Vec::new();
                let has_rest = match (is_whole, count(false)) {
                    (true, _) => !all.is_empty(),
                    (false, rest) => rest > 0,
                };
                let rest = match all.pop_if(|_| has_rest) {
                    Some(rest) => Some(nested(self.chosen(rest)?)),
                    None if has_rest => return Err(Unguarded),
                    None => None,
                };
                if all.len() != count(true) {
                    return Err(Unguarded);
                }
                for part in all {
                    own.push(nested(unnested(part)?));
                }
                own.extend(rest);
                Ok(own.into_iter().reduce(and))
            }
        }
    }

    /// The conditions of joins that it stands around.
    pub(crate) fn joins(&self) -> usize {
        match &self.stance {
            Stance::Beside | Stance::Around => 0,
            Stance::Apart { lead: _, places } => places.len().saturating_sub(1),
        }
    }

    fn leading(&self, lead: Lead) -> Option<Expr> {
        let guard = nested(self.condition.clone());
        match lead {
            Lead::Nothing => None,
            Lead::Plain => Some(guard),
            Lead::Opaque => Some(choice(guard, boolean(true))),
        }
    }

    /// What is tried where the guard holds.
    fn chosen(&self, expr: Expr) -> Result<Expr, Unguarded> {
        match expr {
            Expr::Case {
                case_token: _,
                end_token: _,
                operand: None,
                mut conditions,
                else_result: Some(otherwise),
            } if *otherwise == boolean(false) && conditions.len() == 1 => match conditions.pop() {
                Some(CaseWhen { condition, result }) if self.is_guard(&condition) => {
                    unnested(result)
                }
                _ => Err(Unguarded),
            },
            _ => Err(Unguarded),
        }
    }

    fn is_guard(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::Nested(inner) if **inner == self.condition)
    }
}

/// A condition's conjuncts that stand beside, and all others.
fn apart(own: Option<Expr>, beside: Option<&Vec<bool>>) -> (Vec<Expr>, Option<Expr>) {
    let Some(own) = own else {
        return (Vec::new(), None);
    };
    let parts = conjuncts(&own);
    let Some(beside) = beside.filter(|beside| beside.len() == parts.len()) else {
        return (Vec::new(), Some(own));
    };
    let (mut outside, mut rest) = (Vec::new(), Vec::new());
    for (part, is_beside) in parts.into_iter().zip(beside) {
        if *is_beside {
            outside.push(part.clone());
        } else {
            rest.push(part.clone());
        }
    }
    let rest = match rest.len() {
        1 => rest.pop(),
        _ => rest.into_iter().map(nested).reduce(and),
    };
    (outside, rest)
}

/// The terms of a chain of AND, each in what it stands in.
fn chain(expr: Expr) -> Vec<Expr> {
    match expr {
        Expr::BinaryOp {
            left,
            op: BinaryOperator::And,
            right,
        } => {
            let mut out = chain(*left);
            out.push(*right);
            out
        }
        other => vec![other],
    }
}

fn and(left: Expr, right: Expr) -> Expr {
    Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::And,
        right: Box::new(right),
    }
}

/// `CASE WHEN guard THEN own ELSE false END`
fn choice(guard: Expr, own: Expr) -> Expr {
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen {
            condition: guard,
            result: own,
        }],
        else_result: Some(Box::new(boolean(false))),
    }
}

fn boolean(value: bool) -> Expr {
    Expr::Value(Value::Boolean(value).into())
}

fn unnested(expr: Expr) -> Result<Expr, Unguarded> {
    match expr {
        Expr::Nested(inner) => Ok(*inner),
        _ => Err(Unguarded),
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
