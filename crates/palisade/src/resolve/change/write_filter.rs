//! The condition that keeps a change within the rows that may be changed: how it stands in the text that
//! runs. The rewriter puts it there; the second look at our own output takes it off again, and refuses if
//! it is not exactly there.

use std::collections::BTreeSet;

use sqlparser::ast::{
    BinaryOperator, CaseWhen, Cte, Expr, Query, Value, With, helpers::attached_token::AttachedToken,
};

/// The condition of rows, and how it stands with the statement's own conditions.
#[derive(Debug, Clone)]
pub(crate) struct WriteFilter {
    pub(crate) condition: Expr,
    pub(crate) placement: Placement,
}

/// How a write filter stands with conditions of the statement's own.
#[derive(Debug, Clone)]
pub(crate) enum Placement {
    /// Beside them: they are leak-proof, and an index serves both.
    Beside,
    /// Around each of them: `CASE` tries its arms in order and nothing of a later one, so that the agent's
    /// condition cannot fail on a row that the write filter leaves out.
    Around,
    /// Around what of them is not leak-proof; the rest stands beside that, where an index serves it. What may fail is tried on
    /// rows that meet all of the rest alone, whichever condition the engine looks at first.
    Apart {
        prefix: Prefix,
        /// For the statement's own condition, then for each condition of a join that can see the target: how its
        /// [`conjuncts`] stand; none where it is not taken apart.
        places: Vec<Vec<TermPlacement>>,
    },
}

/// How a term of a condition stands with a write filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TermPlacement {
    /// It cannot fail, and stands beside the write filter, where an index serves it.
    Beside,
    /// It cannot fail, and stands behind the write filter.
    Behind,
    /// It may fail, and is tried where the write filter and every term that cannot fail hold.
    Tried,
}

impl TermPlacement {
    fn is_beside(self) -> bool {
        self == Self::Beside
    }
}

/// What of a write filter stands before all else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prefix {
    /// Nothing: the target stands alone, so that nothing else can be seen to run for a row of it.
    Nothing,
    /// The write filter as it is.
    Plain,
    /// The write filter where the planner does not see into it: an engine that knows a column's value from one condition puts it in
    /// the place of the column in others, and would decide a write filter before any row.
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

impl WriteFilter {
    /// The write filter around the statement's own condition, which is that of `place`.
    pub(crate) fn wrap(&self, own: Option<Expr>, place: usize) -> Expr {
        let write_filter = nest(self.condition.clone());
        match (&self.placement, own) {
            (Placement::Beside | Placement::Around, None) => write_filter,
            (Placement::Beside, Some(own)) => and(write_filter, nest(own)),
            (Placement::Around, Some(own)) => choice(write_filter, nest(own)),
            (Placement::Apart { prefix, places }, own) => {
                let mut all: Vec<Expr> = self.prefix_filter(*prefix).into_iter().collect();
                let terms = places.get(place);
                let tried_where = self.tried_where(own.as_ref(), terms);
                for Part {
                    is_beside,
                    mut terms,
                } in split_terms(own, terms)
                {
                    let own = if terms.len() == 1 {
                        terms.pop()
                    } else {
                        terms.into_iter().map(nest).reduce(and)
                    };
                    let own = nest(own.unwrap_or_else(|| boolean(true)));
                    all.push(if is_beside {
                        own
                    } else {
                        choice(tried_where.clone(), own)
                    });
                }
                all.into_iter().reduce(and).unwrap_or(write_filter)
            }
        }
    }

    /// The write filter and all terms of a condition that cannot fail: where those that may are tried.
    fn tried_where(&self, own: Option<&Expr>, terms: Option<&Vec<TermPlacement>>) -> Expr {
        let write_filter = nest(self.condition.clone());
        let (Some(own), Some(terms)) = (own, terms) else {
            return write_filter;
        };
        let all = conjuncts(own);
        if all.len() != terms.len() {
            return write_filter;
        }
        let terms = all
            .into_iter()
            .zip(terms)
            .filter_map(|(own, term)| match term {
                TermPlacement::Beside | TermPlacement::Behind => Some(nest(own.clone())),
                TermPlacement::Tried => None,
            });
        terms.fold(write_filter, and)
    }

    /// The statement's own condition in `expr`; an error if the write filter is not around it.
    pub(in crate::resolve) fn extract_own(
        &self,
        expr: Expr,
        place: usize,
    ) -> Result<Option<Expr>, FilterMissing> {
        let whole = expr.clone();
        let own = self.taken_out(expr, place)?;
        if self.wrap(own.clone(), place) == whole {
            Ok(own)
        } else {
            Err(FilterMissing)
        }
    }

    /// What stands in `expr` where the statement's own condition would; [`extract_own`](Self::extract_own) says whether it is one.
    fn taken_out(&self, expr: Expr, place: usize) -> Result<Option<Expr>, FilterMissing> {
        match &self.placement {
            Placement::Beside | Placement::Around if self.is_write_filter(&expr) => Ok(None),
            Placement::Beside => match expr {
                Expr::BinaryOp {
                    left,
                    op: BinaryOperator::And,
                    right,
                } if self.is_write_filter(&left) => unwrap_nested(*right).map(Some),
                _ => Err(FilterMissing),
            },
            Placement::Around => self.take_tried(expr).map(Some),
            Placement::Apart { prefix, places } => {
                let mut all = chain(expr);
                match self.prefix_filter(*prefix) {
                    Some(leading) if all.first() == Some(&leading) => {
                        all.remove(0);
                    }
                    Some(_) => return Err(FilterMissing),
                    None => {}
                }
                let terms = places
                    .get(place)
                    .map_or(&[] as &[TermPlacement], Vec::as_slice);
                if terms.is_empty() {
                    return match (all.pop(), all.is_empty(), prefix) {
                        (None, _, Prefix::Plain | Prefix::Opaque) => Ok(None),
                        (Some(write_filter), true, Prefix::Nothing)
                            if self.is_write_filter(&write_filter) =>
                        {
                            Ok(None)
                        }
                        (Some(own), true, _) => self.take_tried(own).map(Some),
                        (None, _, Prefix::Nothing) | (Some(_), false, _) => Err(FilterMissing),
                    };
                }
                let runs = terms.chunk_by(|one, next| !one.is_beside() && !next.is_beside());
                let mut parts = all.into_iter();
                let mut own = Vec::new();
                for run in runs {
                    let part = parts.next().ok_or(FilterMissing)?;
                    own.push(nest(match run.first() {
                        Some(TermPlacement::Beside) => unwrap_nested(part)?,
                        Some(TermPlacement::Behind | TermPlacement::Tried) | None => {
                            self.take_tried(part)?
                        }
                    }));
                }
                match (parts.next(), own.len()) {
                    (None, 1) => own.pop().map(unwrap_nested).transpose(),
                    (None, _) => Ok(own.into_iter().reduce(and)),
                    (Some(_), _) => Err(FilterMissing),
                }
            }
        }
    }

    /// The conditions of joins that it stands around.
    pub(crate) fn joins(&self) -> usize {
        match &self.placement {
            Placement::Beside | Placement::Around => 0,
            Placement::Apart { prefix: _, places } => places.len().saturating_sub(1),
        }
    }

    fn prefix_filter(&self, prefix: Prefix) -> Option<Expr> {
        let write_filter = nest(self.condition.clone());
        match prefix {
            Prefix::Nothing => None,
            Prefix::Plain => Some(write_filter),
            Prefix::Opaque => Some(choice(write_filter, boolean(true))),
        }
    }

    /// What is tried where the write filter holds.
    fn take_tried(&self, expr: Expr) -> Result<Expr, FilterMissing> {
        match expr {
            Expr::Case {
                case_token: _,
                end_token: _,
                operand: None,
                mut conditions,
                else_result: Some(otherwise),
            } if *otherwise == boolean(false) && conditions.len() == 1 => match conditions.pop() {
                Some(CaseWhen { condition, result }) => {
                    // `extract_own` compares what stands after the write filter.
                    match chain(condition).first() {
                        Some(first) if self.is_write_filter(first) => unwrap_nested(result),
                        Some(_) | None => Err(FilterMissing),
                    }
                }
                None => Err(FilterMissing),
            },
            _ => Err(FilterMissing),
        }
    }

    fn is_write_filter(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::Nested(inner) if **inner == self.condition)
    }
}

/// Terms of a condition that stand together: one beside the write filter, or some within it.
struct Part {
    is_beside: bool,
    terms: Vec<Expr>,
}

/// A condition taken apart. Its parameters keep their order, by which MySQL tells them.
fn split_terms(own: Option<Expr>, terms: Option<&Vec<TermPlacement>>) -> Vec<Part> {
    let Some(own) = own else {
        return Vec::new();
    };
    let all = conjuncts(&own);
    let Some(terms) = terms.filter(|terms| terms.len() == all.len()) else {
        return vec![Part {
            is_beside: false,
            terms: vec![own],
        }];
    };
    let mut parts: Vec<Part> = Vec::new();
    for (conjunct, term) in all.into_iter().zip(terms) {
        let conjunct = conjunct.clone();
        let is_beside = term.is_beside();
        match parts.last_mut() {
            Some(before) if !before.is_beside && !is_beside => before.terms.push(conjunct),
            Some(_) | None => parts.push(Part {
                is_beside,
                terms: vec![conjunct],
            }),
        }
    }
    parts
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

/// `CASE WHEN write_filter THEN own ELSE false END`
fn choice(write_filter: Expr, own: Expr) -> Expr {
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen {
            condition: write_filter,
            result: own,
        }],
        else_result: Some(Box::new(boolean(false))),
    }
}

fn boolean(value: bool) -> Expr {
    Expr::Value(Value::Boolean(value).into())
}

fn unwrap_nested(expr: Expr) -> Result<Expr, FilterMissing> {
    match expr {
        Expr::Nested(inner) => Ok(*inner),
        _ => Err(FilterMissing),
    }
}

/// The write filter is not where it was put.
#[derive(Debug)]
pub(in crate::resolve) struct FilterMissing;

/// What rows must be like to be added, where a query gives them: `WITH name (columns) AS (query) SELECT
/// columns FROM name WHERE condition`.
#[derive(Debug, Clone)]
pub(crate) struct Admission {
    /// The whole with any query in its place.
    pub(crate) frame: Box<Query>,
}

impl Admission {
    /// The frame with `source` in it.
    pub(crate) fn wrap(&self, source: Box<Query>) -> Box<Query> {
        let mut out = self.frame.clone();
        if let Some(cte) = first_cte(&mut out) {
            cte.query = source;
        }
        out
    }

    /// The source in `query`; an error if the frame is not around it.
    pub(in crate::resolve) fn extract_source<'q>(
        &self,
        query: &'q mut Query,
    ) -> Result<&'q mut Query, FilterMissing> {
        let mut empty = query.clone();
        let mut frame = self.frame.clone();
        match (first_cte(&mut empty), first_cte(&mut frame)) {
            (Some(theirs), Some(ours)) => theirs.query = ours.query.clone(),
            _ => return Err(FilterMissing),
        }
        if empty != *frame {
            return Err(FilterMissing);
        }
        first_cte(query)
            .map(|cte| &mut *cte.query)
            .ok_or(FilterMissing)
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

fn nest(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use sqlparser::{dialect::GenericDialect, parser::Parser};

    use super::*;

    fn expr(text: &str) -> Expr {
        let mut parser = Parser::new(&GenericDialect {}).try_with_sql(text).unwrap();
        parser.parse_expr().unwrap()
    }

    fn write_filter(placement: Placement) -> WriteFilter {
        WriteFilter {
            condition: expr("t.tenant = 7"),
            placement,
        }
    }

    fn place_apart(prefix: Prefix, place: &[bool]) -> Placement {
        let term = |is_beside: &bool| match is_beside {
            true => TermPlacement::Beside,
            false => TermPlacement::Tried,
        };
        Placement::Apart {
            prefix,
            places: vec![place.iter().map(term).collect()],
        }
    }

    const OWN: &str = "a = 1 AND (f(b) AND c = 2)";

    #[test]
    fn a_write_filter_stands_so() {
        for (placement, own, expected) in [
            (Placement::Beside, None, "(t.tenant = 7)"),
            (
                Placement::Beside,
                Some("a = 1"),
                "(t.tenant = 7) AND (a = 1)",
            ),
            (Placement::Around, None, "(t.tenant = 7)"),
            (
                Placement::Around,
                Some("f(b) AND a = 1"),
                "CASE WHEN (t.tenant = 7) THEN (f(b) AND a = 1) ELSE false END",
            ),
            (
                place_apart(Prefix::Plain, &[true, false, true]),
                Some(OWN),
                "(t.tenant = 7) AND (a = 1) AND CASE WHEN (t.tenant = 7) AND (a = 1) AND (c = 2) THEN (f(b)) ELSE false END AND (c = 2)",
            ),
            (
                place_apart(Prefix::Nothing, &[true, false, true]),
                Some(OWN),
                "(a = 1) AND CASE WHEN (t.tenant = 7) AND (a = 1) AND (c = 2) THEN (f(b)) ELSE false END AND (c = 2)",
            ),
            (
                place_apart(Prefix::Opaque, &[false, false, true]),
                Some(OWN),
                "CASE WHEN (t.tenant = 7) THEN true ELSE false END AND \
                 CASE WHEN (t.tenant = 7) AND (c = 2) THEN ((a = 1) AND (f(b))) ELSE false END AND (c = 2)",
            ),
            (
                place_apart(Prefix::Opaque, &[true, true, true]),
                Some(OWN),
                "CASE WHEN (t.tenant = 7) THEN true ELSE false END AND (a = 1) AND (f(b)) AND (c = 2)",
            ),
            (
                place_apart(Prefix::Opaque, &[]),
                None,
                "CASE WHEN (t.tenant = 7) THEN true ELSE false END",
            ),
            // What was not taken apart as it stands here is not taken apart at all.
            (
                place_apart(Prefix::Nothing, &[false]),
                Some("a = 1 XOR f(b) AND c = 2"),
                "CASE WHEN (t.tenant = 7) THEN (a = 1 XOR f(b) AND c = 2) ELSE false END",
            ),
        ] {
            let write_filter = write_filter(placement);
            let around = write_filter.wrap(own.map(expr), 0);
            assert_eq!(around.to_string(), expected);
            let inside = write_filter.extract_own(around, 0).unwrap();
            let (inside, own) = (
                inside.map(conjunct_texts),
                own.map(expr).map(conjunct_texts),
            );
            assert_eq!(inside, own, "{expected}");
        }
    }

    fn conjunct_texts(expr: Expr) -> BTreeSet<String> {
        conjuncts(&expr).into_iter().map(Expr::to_string).collect()
    }

    #[test]
    fn what_is_not_so_is_found_out() {
        for (placement, text) in [
            (Placement::Beside, "(t.tenant = 8) AND (a = 1)"),
            (Placement::Beside, "(t.tenant = 7) OR (a = 1)"),
            (Placement::Beside, "a = 1"),
            (
                Placement::Beside,
                "CASE WHEN (t.tenant = 7) THEN (a = 1) ELSE false END",
            ),
            (Placement::Around, "(t.tenant = 7) AND (a = 1)"),
            (
                Placement::Around,
                "CASE WHEN (t.tenant = 7) THEN (a = 1) ELSE true END",
            ),
            (
                Placement::Around,
                "CASE WHEN (t.tenant = 7) THEN (a = 1) END",
            ),
            (
                Placement::Around,
                "CASE WHEN (a = 1) THEN true WHEN (t.tenant = 7) THEN (a = 1) ELSE false END",
            ),
            (place_apart(Prefix::Plain, &[true]), "(a = 1)"),
            (
                place_apart(Prefix::Plain, &[true]),
                "(a = 1) AND (t.tenant = 7)",
            ),
            (
                place_apart(Prefix::Plain, &[false]),
                "(t.tenant = 7) AND (f(a))",
            ),
            (place_apart(Prefix::Nothing, &[]), "(a = 1)"),
            (place_apart(Prefix::Nothing, &[false]), "(f(a))"),
            (
                place_apart(Prefix::Nothing, &[true, false]),
                "(a = 1) AND (f(a))",
            ),
            (
                place_apart(Prefix::Nothing, &[false]),
                "(a = 1) AND CASE WHEN (t.tenant = 7) THEN (f(b)) ELSE false END",
            ),
            (
                place_apart(Prefix::Nothing, &[true, false]),
                "(a = 1) AND CASE WHEN (t.tenant = 8) THEN (f(b)) ELSE false END",
            ),
            (
                place_apart(Prefix::Opaque, &[true, false]),
                "(t.tenant = 7) AND (a = 1) AND CASE WHEN (t.tenant = 7) THEN (f(b)) ELSE false END",
            ),
        ] {
            let found = write_filter(placement.clone()).extract_own(expr(text), 0);
            assert!(found.is_err(), "{placement:?}: {text} is {found:?}");
        }
    }
}
