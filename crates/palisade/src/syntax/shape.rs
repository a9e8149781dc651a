//! A text without its plain literals: what statements have in common that differ in values alone.
//!
//! A literal is plain if it is one token whatever stands around it, and the parser reads it the same way whatever it
//! says (`readings`). It may be another where only its value matters: compared with something, or written into a column.
//! What stands elsewhere, as in ORDER BY or LIMIT, is part of the shape.

use std::ops::{ControlFlow, Range};

use sqlparser::{
    ast::{
        BinaryOperator, Expr, Query, SetExpr, Statement, Value, ValueWithSpan, VisitMut, VisitorMut,
    },
    tokenizer::{Location, Token},
};

use super::{
    ParsedQuery,
    parse::{Tokens, tokenize},
};
use crate::syntax::{
    prescan::Cursor,
    reparse_cache::{is_plain_number, is_plain_text},
};
use crate::{
    dialect::Dialect,
    value::{self, Placeholder},
};

/// The plain literals of a text.
#[derive(Debug)]
pub(crate) struct Literals<'t> {
    text: &'t str,
    all: Vec<Literal<'t>>,
}

#[derive(Debug)]
struct Literal<'t> {
    start: Location,
    at: Range<usize>,
    /// With the quotation marks of a string.
    written: &'t str,
    kind: Kind,
}

/// What is told apart of literals by whatever looks at trees without looking at values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Digits of a 32-bit integer.
    Integer,
    /// Digits of a 64-bit integer.
    Long,
    /// Digits with a period among them.
    Decimal,
    Text,
}

/// Which of the literals of a text, by a bit for each.
pub(crate) type Which = u64;

impl Kind {
    /// What stands for a literal of this kind in a shape: two characters, the first of which no text holds.
    fn mark(self) -> &'static str {
        match self {
            Self::Integer => "\0i",
            Self::Long => "\0l",
            Self::Decimal => "\0d",
            Self::Text => "\0t",
        }
    }

    /// The kind of a plain literal with these `digits`.
    fn of_number(digits: &str) -> Option<Self> {
        /// Fewer than those of the largest integer of 32 bits.
        const SHORT: usize = 9;
        /// Of 64 bits; and what a double keeps.
        const LONG: usize = 15;
        match digits.len() {
            ..=SHORT if !digits.contains('.') => Some(Self::Integer),
            ..=LONG if !digits.contains('.') => Some(Self::Long),
            ..=LONG => Some(Self::Decimal),
            _ => None,
        }
    }
}

impl<'t> Literals<'t> {
    /// More than these are not told apart.
    const MOST: usize = 32;

    /// Those of `tokens`; none if there are no or too many.
    pub(crate) fn of(tokens: &Tokens<'t>) -> Option<Self> {
        let text = tokens.text();
        let mut cursor = Cursor::new(text);
        let mut all = Vec::new();
        for token in tokens.all() {
            let kind = match &token.token {
                Token::Number(digits, false) if is_plain_number(digits) => Kind::of_number(digits),
                Token::SingleQuotedString(text) if is_plain_text(text) => Some(Kind::Text),
                _ => None,
            };
            let Some(kind) = kind else {
                continue;
            };
            if all.len() == Self::MOST {
                return None;
            }
            let start = cursor.advance(token.span.start)?;
            let end = cursor.advance(token.span.end)?;
            all.push(Literal {
                start: token.span.start,
                at: start..end,
                written: text.get(start..end)?,
                kind,
            });
        }
        (!all.is_empty()).then_some(Self { text, all })
    }

    /// The text, with a mark in the place of each of `which`.
    pub(crate) fn without(&self, which: Which) -> String {
        let mut out = String::with_capacity(self.text.len() + 8);
        let mut from = 0;
        for (_, literal) in self.chosen(which) {
            out.push_str(self.text.get(from..literal.at.start).unwrap_or_default());
            out.push_str(literal.kind.mark());
            from = literal.at.end;
        }
        out.push_str(self.text.get(from..).unwrap_or_default());
        out
    }

    /// `which` of them as they are written.
    pub(crate) fn written(&self, which: Which) -> Vec<&'t str> {
        let chosen = self.chosen(which);
        chosen.map(|(_, literal)| literal.written).collect()
    }

    /// `which` of them as values.
    pub(crate) fn values(&self, which: Which) -> Option<Vec<value::Value>> {
        let chosen = self.chosen(which);
        chosen
            .map(|(_, literal)| {
                Some(match literal.kind {
                    Kind::Integer | Kind::Long => {
                        value::Value::Integer(literal.written.parse().ok()?)
                    }
                    Kind::Decimal => value::Value::Real(literal.written.parse().ok()?),
                    Kind::Text => value::Value::text(literal.inner()),
                })
            })
            .collect()
    }

    fn chosen(&self, which: Which) -> impl Iterator<Item = (usize, &Literal<'t>)> {
        let all = self.all.iter().enumerate();
        all.filter(move |(index, _)| which >> index & 1 == 1)
    }

    /// Those of `query`, which was read from the same text, that may be others.
    pub(crate) fn free(&self, query: &mut Query) -> Which {
        let mut free = 0;
        each_value(query, &mut |value| {
            if let Some(index) = self.position(value) {
                free |= 1 << index;
            }
        });
        free
    }

    /// Puts a parameter in the place of each of `which`, the first with the number 1.
    pub(crate) fn parametrise(&self, parsed: &mut ParsedQuery<'_>, which: Which, dialect: Dialect) {
        let outline = &mut parsed.outline;
        each_value(&mut parsed.query, &mut |value| {
            let Some(index) = self.position(value) else {
                return;
            };
            let rank = self.chosen(which).position(|(chosen, _)| chosen == index);
            let number = rank.and_then(|rank| u32::try_from(rank + 1).ok());
            if let Some(number) = number {
                let text = dialect.placeholder(number);
                outline.positional.insert(value.span.start, number);
                outline.uses.insert(text.clone(), 1);
                outline.placeholders.insert(Placeholder::Number(number));
                value.value = Value::Placeholder(text);
            }
        });
    }

    /// Which of them `value` is.
    fn position(&self, value: &ValueWithSpan) -> Option<usize> {
        let start = value.span.start;
        let index = self.all.iter().position(|literal| literal.start == start)?;
        let literal = self.all.get(index)?;
        let is_same = match &value.value {
            Value::Number(digits, false) => *digits == literal.written,
            Value::SingleQuotedString(text) => {
                literal.kind == Kind::Text && *text == literal.inner()
            }
            _ => false,
        };
        is_same.then_some(index)
    }
}

impl Literal<'_> {
    /// What stands between the quotation marks.
    fn inner(&self) -> &str {
        self.written.trim_matches('\'')
    }
}

/// The literals of `query` of which nothing but the value can matter: what conditions compare, and what is written. What stands in
/// queries below stays as it is, for a name may be made of it there.
fn each_value(query: &mut Query, with: &mut impl FnMut(&mut ValueWithSpan)) {
    match &mut *query.body {
        SetExpr::Select(select) => {
            let conditions = [&mut select.selection, &mut select.having];
            for condition in conditions.into_iter().flatten() {
                compared(condition, with);
            }
        }
        SetExpr::Update(Statement::Update(update)) => {
            for assignment in &mut update.assignments {
                written(&mut assignment.value, with);
            }
            if let Some(condition) = &mut update.selection {
                conjoined(condition, with);
            }
        }
        SetExpr::Delete(Statement::Delete(delete)) => {
            if let Some(condition) = &mut delete.selection {
                conjoined(condition, with);
            }
        }
        SetExpr::Insert(Statement::Insert(insert)) => {
            if let Some(source) = &mut insert.source
                && let SetExpr::Values(values) = &mut *source.body
            {
                let rows = values.rows.iter_mut();
                for value in rows.flat_map(|row| row.content.iter_mut()) {
                    written(value, with);
                }
            }
        }
        _ => {}
    }
}

fn written(value: &mut Expr, with: &mut impl FnMut(&mut ValueWithSpan)) {
    if let Expr::Value(value) = value {
        with(value);
    }
}

/// As [`compared`], of a change: whether an OR says anything of its rows may hang on the literals in it.
fn conjoined(condition: &mut Expr, with: &mut impl FnMut(&mut ValueWithSpan)) {
    match condition {
        Expr::Nested(inner) => conjoined(inner, with),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::And,
            right,
        } => {
            conjoined(left, with);
            conjoined(right, with);
        }
        other => {
            let mut visitor = Comparisons { with, below: 0 };
            let _ = visitor.pre_visit_expr(other);
        }
    }
}

fn compared(condition: &mut Expr, with: &mut impl FnMut(&mut ValueWithSpan)) {
    let mut visitor = Comparisons { with, below: 0 };
    let _ = VisitMut::visit(condition, &mut visitor);
}

/// With how many queries stand around.
struct Comparisons<'w, F> {
    with: &'w mut F,
    below: usize,
}

impl<F: FnMut(&mut ValueWithSpan)> VisitorMut for Comparisons<'_, F> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.below += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.below -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.below > 0 {
            return ControlFlow::Continue(());
        }
        let is_value = |expr: &Expr| matches!(expr, Expr::Value(_));
        match expr {
            Expr::BinaryOp { left, op, right } if compares(op) => {
                match (is_value(left), is_value(right)) {
                    (true, false) => written(left, self.with),
                    (false, true) => written(right, self.with),
                    // What is constant may be known to be so.
                    (true, true) | (false, false) => {}
                }
            }
            Expr::InList {
                expr,
                list,
                negated: _,
            } if !is_value(expr) => {
                for value in list {
                    written(value, self.with);
                }
            }
            Expr::Between {
                expr,
                low,
                high,
                negated: _,
            } if !is_value(expr) => {
                written(low, self.with);
                written(high, self.with);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn compares(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq
    )
}

/// A text that was printed with parameters, cut where they stand.
#[derive(Debug)]
pub(crate) struct Cut {
    /// One more than there are parameters.
    pieces: Vec<Box<str>>,
    /// Which literal stands after each piece but the last.
    literals: Vec<usize>,
}

impl Cut {
    /// Cuts `printed`, in which `literal` gives for each parameter by its number, from 1, which literal it stands for.
    pub(crate) fn of(
        printed: &str,
        dialect: Dialect,
        literal: impl Fn(usize) -> Option<usize>,
    ) -> Option<Self> {
        let tokens = tokenize(printed, dialect).ok()?;
        let mut cursor = Cursor::new(printed);
        let (mut pieces, mut literals) = (Vec::new(), Vec::new());
        let mut from = 0;
        for token in &tokens {
            let Token::Placeholder(text) = &token.token else {
                continue;
            };
            let number = match dialect {
                Dialect::Sqlite | Dialect::Postgres => text.get(1..)?.parse().ok()?,
                Dialect::Mysql => literals.len() + 1,
            };
            let start = cursor.advance(token.span.start)?;
            let end = cursor.advance(token.span.end)?;
            let before = printed.get(from..start)?;
            let stands_alone = before.ends_with([' ', '('])
                && printed
                    .get(end..)?
                    .chars()
                    .next()
                    .is_none_or(|c| " ,)".contains(c));
            if printed.get(start..end)? != text || !stands_alone {
                return None;
            }
            pieces.push(before.into());
            literals.push(literal(number)?);
            from = end;
        }
        pieces.push(printed.get(from..)?.into());
        Some(Self { pieces, literals })
    }

    /// The text with these literals.
    pub(crate) fn with(&self, literals: &[&str]) -> Option<String> {
        let pieces: usize = self.pieces.iter().map(|piece| piece.len()).sum();
        let inserted: usize = literals.iter().map(|literal| literal.len()).sum();
        let mut out = String::with_capacity(pieces + inserted);
        let mut which = self.literals.iter();
        for piece in &self.pieces {
            out.push_str(piece);
            if let Some(index) = which.next() {
                out.push_str(literals.get(*index)?);
            }
        }
        Some(out)
    }

    /// About how many bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        let pieces = self
            .pieces
            .iter()
            .map(|piece| piece.len() + size_of::<Box<str>>());
        pieces.sum::<usize>() + self.literals.len() * size_of::<usize>()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::{limits::Limits, syntax};

    #[test]
    fn literals_are_plain_tokens() {
        let limits = Limits::default();
        for (text, every) in [
            ("SELECT 1", Some("SELECT \0i")),
            (
                "SELECT a1, t.b2 FROM t3 WHERE \"4\" = 'x'",
                Some("SELECT a1, t.b2 FROM t3 WHERE \"4\" = \0t"),
            ),
            (
                "-- 1 'x'\nSELECT 12.50,\n'é' /* 2 */",
                Some("-- 1 'x'\nSELECT \0d,\n\0t /* 2 */"),
            ),
            (
                "SELECT 1234567890, 1e3, .5, 'it''s', '', 5.",
                Some("SELECT \0l, 1e3, .5, 'it''s', '', 5."),
            ),
            ("SELECT 99999999999999999999", None),
            ("SELECT a", None),
        ] {
            for dialect in Dialect::ALL {
                let tokens = Tokens::read(text, dialect, &limits).unwrap();
                let literals = Literals::of(&tokens);
                let shape = literals
                    .as_ref()
                    .map(|literals| literals.without(Which::MAX));
                assert_eq!(shape.as_deref(), every, "{dialect:?} {text}");
                if let Some(literals) = literals {
                    assert_eq!(literals.without(0), text);
                }
            }
        }
    }

    #[test]
    fn values_alone_are_free() {
        let limits = Limits::default();
        for (text, free) in [
            (
                "SELECT a + 1, 'n' FROM t WHERE b = 2 AND 3 > c ORDER BY 4 LIMIT 5",
                &["2", "3"][..],
            ),
            (
                "SELECT 1 FROM t WHERE 2 = 3 OR b IN (4, c, 'x') OR c BETWEEN 5 AND 6",
                &["4", "'x'", "5", "6"],
            ),
            (
                "SELECT a FROM t WHERE a IN (SELECT b FROM t WHERE c = 1) AND EXISTS (SELECT 2 WHERE b = 3)",
                &[],
            ),
            (
                "SELECT a FROM (SELECT a FROM t WHERE a = 1) AS s JOIN u ON u.b = 2",
                &[],
            ),
            (
                "SELECT a FROM t WHERE f(a, 1) = 2 AND a = -3 AND a = 4 + 5",
                &["2"],
            ),
            ("SELECT a FROM t GROUP BY a HAVING max(b) = 'm'", &["'m'"]),
            (
                "UPDATE t SET a = 1, b = b + 2, c = 'y' WHERE d = 3",
                &["1", "'y'", "3"],
            ),
            // Whether an OR says anything of the rows may hang on its literals.
            ("DELETE FROM t WHERE a = 1 OR a = NULL", &[]),
            ("DELETE FROM t WHERE a = 1 AND b = NULL", &["1"]),
            ("DELETE FROM t WHERE a = 1 AND (b = 2 OR b = NULL)", &["1"]),
            (
                "INSERT INTO t (a, b) VALUES (1, 'x'), (2 + 3, lower('y'))",
                &["1", "'x'"],
            ),
            ("INSERT INTO t (a) SELECT 1 FROM u WHERE b = 2", &[]),
        ] {
            for dialect in Dialect::ALL {
                let tokens = Tokens::read(text, dialect, &limits).unwrap();
                let literals = Literals::of(&tokens).unwrap();
                let found = syntax::parse(text, dialect, &limits, |mut parsed| {
                    Ok(literals.free(&mut parsed.query))
                });
                assert_eq!(literals.written(found.unwrap()), free, "{dialect:?} {text}");
            }
        }
    }

    #[test]
    fn what_touches_a_parameter_is_not_cut() {
        let one = |number: usize| number.checked_sub(1);
        for (printed, expected) in [
            ("a = ?1 AND (?2)", Some("a = 7 AND ('x')")),
            ("a = ?2", Some("a = 'x'")),
            ("a = 1", Some("a = 1")),
            ("a = -?1", None),
            ("a = ?1::int", None),
            ("a = x?1", None),
        ] {
            let cut = Cut::of(printed, Dialect::Sqlite, one);
            let text = cut.and_then(|cut| cut.with(&["7", "'x'"]));
            assert_eq!(text.as_deref(), expected, "{printed}");
        }
        let cut = Cut::of("a = ? OR b = ?", Dialect::Mysql, one).unwrap();
        assert_eq!(cut.with(&["7", "'x'"]).as_deref(), Some("a = 7 OR b = 'x'"));
        assert_eq!(cut.with(&["7"]), None);
    }
}
