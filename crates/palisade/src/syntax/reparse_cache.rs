//! Trees that printed texts were read as, remembered without their literals.
//!
//! Printed text must read back as the tree it was printed from, which takes as long as to read the statement. The texts of a
//! session are few when their literals are left out. So plain literals are taken out of the tree, each for a name that no SQL
//! text can contain, and the rest is printed. If that text was read before, the remembered tree is compared with this one. The
//! comparison gives the answer that reading would give:
//!
//! * The parser has no state: one text gives one tree.
//! * A literal is taken out only if it is one token whatever stands around it. Digits are, where no letter, digit or period
//!   follows. So is a string that is not empty and has no quotes, backslashes or control characters. With other literals the same
//!   tokens follow one another.
//! * The parser reads a number or a string the same way whatever its value. Numbers that are part of a type or of a limit are no
//!   literals of the tree, and stay in the text.
//!
//! Builds with debug assertions read every whole text back as well.

use std::{fmt, fmt::Write as _, ops::ControlFlow, sync::Arc};

use quick_cache::{Weighter, sync::Cache};
use sqlparser::ast::{Query, Value, ValueWithSpan};

use crate::syntax::{
    print::{TYPICAL_BYTES, print_stable, refuse_unstable},
    visit::{TreeVisitorMut, visit_tree_mut},
};
use crate::{dialect::Dialect, limits::Limits, rejection::Rejection};

/// Texts that were read back, without literals, each with the tree it gave; bounded in bytes.
pub(crate) struct Readings(Cache<Box<str>, Arc<Query>, Weight>);

/// Bytes that they may take: the least used are forgotten first.
const BYTES: u64 = 8 * 1024 * 1024;

/// Bytes of one, about, for a first guess of how many fit.
const EACH: u64 = 4096;

impl Default for Readings {
    fn default() -> Self {
        let items = usize::try_from(BYTES / EACH).unwrap_or(usize::MAX);
        Self(Cache::with_weighter(items, BYTES, Weight))
    }
}

impl fmt::Debug for Readings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Readings").field(&self.0.len()).finish()
    }
}

#[derive(Clone)]
struct Weight;

impl Weighter<Box<str>, Arc<Query>> for Weight {
    fn weight(&self, text: &Box<str>, _: &Arc<Query>) -> u64 {
        /// Bytes of a tree for each of its text, about.
        const TREE: usize = 24;
        u64::try_from(text.len() * (TREE + 1)).unwrap_or(u64::MAX)
    }
}

impl Readings {
    /// As [`print_stable`], for a tree without parameters. It may give the same tree back.
    ///
    /// # Errors
    /// `syntax.not-stable`.
    pub(crate) fn print(
        &self,
        mut query: Box<Query>,
        dialect: Dialect,
        limits: &Limits,
    ) -> Result<(String, Box<Query>), Rejection> {
        let mut literals = Literals::default();
        literals.take(&mut query);
        if literals.are_too_many {
            literals.put_back(&mut query);
            return print_stable(&query, dialect, limits);
        }
        let mut skeleton = String::with_capacity(TYPICAL_BYTES);
        write!(skeleton, "{query}").map_err(|_| refuse_unstable())?;
        let is_known = self
            .0
            .get(skeleton.as_str())
            .is_some_and(|tree| *tree == *query);
        let text = literals.put_into(&skeleton);
        literals.put_back(&mut query);
        match text {
            Some(text) if is_known => Ok((text, query)),
            text => {
                let (read, mut again) = print_stable(&query, dialect, limits)?;
                // What was put in another order after it was printed is read each time.
                if text.is_some_and(|text| text == read) {
                    Literals::default().take(&mut again);
                    self.0.insert(skeleton.into(), Arc::new(*again));
                }
                Ok((read, query))
            }
        }
    }
}

/// The literals that were taken out of a tree, in the order of a visit.
#[derive(Debug, Default)]
struct Literals {
    texts: Vec<String>,
    are_too_many: bool,
}

impl Literals {
    /// What the first is called; each has a letter of its own, and none of those with which other names begin that
    /// no text can spell.
    const FIRST: u8 = b'0';
    /// How many are taken at most: a text with more is hardly one of which another differs in literals alone.
    const MOST: u8 = 32;

    /// Takes the plain literals out of `query`.
    fn take(&mut self, query: &mut Query) {
        let _ = visit_tree_mut(query, &mut Taking(self));
    }

    /// Puts them back.
    fn put_back(mut self, query: &mut Query) {
        if !self.texts.is_empty() {
            let left = self.texts.len();
            let _ = visit_tree_mut(query, &mut PuttingBack(&mut self, left));
        }
    }

    /// Which of them `name` stands for.
    fn index(name: &str) -> Option<usize> {
        match name.as_bytes() {
            [0, letter] => letter.checked_sub(Self::FIRST).map(usize::from),
            _ => None,
        }
    }

    /// `skeleton` with each in its place; none if one has not exactly one, or might be read with what follows it.
    fn put_into(&self, skeleton: &str) -> Option<String> {
        let length: usize = self.texts.iter().map(String::len).sum();
        let mut out = String::with_capacity(skeleton.len() + length);
        let (mut rest, mut found) = (skeleton, 0_u64);
        while let Some(at) = rest.find('\0') {
            let (before, name) = rest.split_at(at);
            let index = name.get(..2).and_then(Self::index);
            let Some(index) = index.filter(|index| *index < usize::from(Self::MOST)) else {
                // Another name.
                let (name, after) = name.split_at(1);
                out.push_str(before);
                out.push_str(name);
                rest = after;
                continue;
            };
            let (literal, after) = (self.texts.get(index)?, name.get(2..)?);
            let bit = 1 << index;
            let continues = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '$');
            if found & bit != 0 || after.starts_with(continues) {
                return None;
            }
            found |= bit;
            out.push_str(before);
            out.push_str(literal);
            rest = after;
        }
        out.push_str(rest);
        let all = self.texts.len();
        (usize::try_from(found.count_ones()) == Ok(all)).then_some(out)
    }
}

/// Whether `digits` is one token wherever no letter, digit or period follows.
fn is_plain_number(digits: &str) -> bool {
    let (whole, part) = digits.split_once('.').unwrap_or((digits, "0"));
    let are_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    are_digits(whole) && are_digits(part)
}

/// Whether `text` is one token wherever it stands in quotes.
fn is_plain_text(text: &str) -> bool {
    let ends = |c: char| c.is_control() || matches!(c, '\'' | '\\');
    !text.is_empty() && !text.contains(ends)
}

struct Taking<'l>(&'l mut Literals);

impl TreeVisitorMut for Taking<'_> {
    fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<()> {
        let text = match &mut value.value {
            Value::Number(digits, false) if is_plain_number(digits) => digits,
            Value::SingleQuotedString(text) if is_plain_text(text) => text,
            _ => return ControlFlow::Continue(()),
        };
        let Ok(index @ ..Literals::MOST) = u8::try_from(self.0.texts.len()) else {
            self.0.are_too_many = true;
            return ControlFlow::Break(());
        };
        let name = String::from_iter(['\0', char::from(Literals::FIRST + index)]);
        self.0.texts.push(std::mem::replace(text, name));
        ControlFlow::Continue(())
    }
}

/// With how many are left.
struct PuttingBack<'l>(&'l mut Literals, usize);

impl TreeVisitorMut for PuttingBack<'_> {
    fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<()> {
        if let Value::Number(text, false) | Value::SingleQuotedString(text) = &mut value.value
            && let Some(index) = Literals::index(text)
            && let Some(literal) = self.0.texts.get_mut(index)
        {
            *text = std::mem::take(literal);
            self.1 -= 1;
        }
        if self.1 == 0 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use sqlparser::ast::{BinaryOperator, Expr, SelectItem, SetExpr, UnaryOperator};

    use super::*;
    use crate::syntax::read_query;

    fn query(text: &str, dialect: Dialect) -> Box<Query> {
        read_query(text, dialect, &Limits::default()).unwrap()
    }

    /// `SELECT` of an expression that no text may give.
    fn select(expr: Expr) -> Box<Query> {
        let mut query = query("SELECT 1", Dialect::Sqlite);
        match &mut *query.body {
            SetExpr::Select(select) => select.projection = vec![SelectItem::UnnamedExpr(expr)],
            other => panic!("{other}"),
        }
        query
    }

    fn number(text: &str) -> Expr {
        Expr::Value(Value::Number(text.to_owned(), false).into())
    }

    fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
        Expr::BinaryOp {
            left: Box::new(left),
            op,
            right: Box::new(right),
        }
    }

    #[test]
    fn texts_that_differ_in_literals_are_read_once() {
        let limits = Limits::default();
        for dialect in Dialect::ALL {
            let readings = Readings::default();
            for (text, known) in [
                ("SELECT a FROM t WHERE a = 1 AND b = 'x' LIMIT 10", 1),
                (
                    "SELECT a FROM t WHERE a = 22.50 AND b = 'é; -- /* $1' LIMIT 0",
                    1,
                ),
                ("SELECT a FROM t WHERE a = 00 AND b = '1' LIMIT 7", 1),
                // Not taken out: a skeleton of its own.
                ("SELECT a FROM t WHERE a = 1 AND b = '' LIMIT 10", 2),
                ("SELECT a FROM t WHERE a = 1 AND b = 'it''s' LIMIT 10", 3),
                ("SELECT a FROM t WHERE a = 1e3 AND b = 'x' LIMIT 10", 4),
                ("SELECT a FROM t WHERE a = '1' AND b = 'x' LIMIT 10", 5),
                ("SELECT CAST(a AS decimal(10, 2)) AS c, 0 AS d FROM t", 6),
                ("SELECT CAST(a AS decimal(12, 2)) AS c, 0 AS d FROM t", 7),
                ("SELECT CAST(a AS decimal(12, 2)) AS c, 5 AS d FROM t", 7),
            ] {
                let tree = query(text, dialect);
                let expected = print_stable(&tree, dialect, &limits).unwrap();
                let printed = readings.print(tree, dialect, &limits).unwrap();
                assert_eq!(printed, expected, "{dialect:?} {text}");
                assert_eq!(readings.0.len(), known, "{dialect:?} {text}");
            }
        }
    }

    #[test]
    fn a_text_of_many_literals_is_not_kept() {
        let (readings, limits) = (Readings::default(), Limits::default());
        let values = vec!["(1)"; 33].join(", ");
        let tree = query(&format!("VALUES {values}"), Dialect::Postgres);
        let (text, again) = readings
            .print(tree.clone(), Dialect::Postgres, &limits)
            .unwrap();
        assert_eq!((text, &again), (tree.to_string(), &tree));
        assert_eq!(readings.0.len(), 0);
    }

    #[test]
    fn another_tree_of_the_same_text_is_refused() {
        let (readings, limits) = (Readings::default(), Limits::default());
        let (one, two, three) = (number("1"), number("2"), number("3"));
        let product = binary(two.clone(), BinaryOperator::Multiply, three.clone());
        let right = select(binary(one.clone(), BinaryOperator::Plus, product));
        let sum = binary(one, BinaryOperator::Plus, two);
        let wrong = select(binary(sum, BinaryOperator::Multiply, three));
        assert_eq!(right.to_string(), wrong.to_string());
        for _ in 0..2 {
            assert!(
                readings
                    .print(right.clone(), Dialect::Sqlite, &limits)
                    .is_ok()
            );
            assert!(
                readings
                    .print(wrong.clone(), Dialect::Sqlite, &limits)
                    .is_err()
            );
        }
    }

    #[test]
    fn what_does_not_read_back_is_refused_each_time() {
        let (readings, limits) = (Readings::default(), Limits::default());
        let minus = |expr| Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: Box::new(expr),
        };
        let comment = select(minus(number("-1")));
        for _ in 0..2 {
            assert!(
                readings
                    .print(comment.clone(), Dialect::Sqlite, &limits)
                    .is_err()
            );
        }
        assert_eq!(readings.0.len(), 0);
    }

    #[test]
    fn literals_that_others_would_swallow_are_read_in_full() {
        let literals = |text: &str| Literals {
            texts: vec![text.to_owned()],
            are_too_many: false,
        };
        for (skeleton, expected) in [
            ("a = \x000 AND", Some("a = 7 AND")),
            ("'\x000'", Some("'7'")),
            ("\"\0source 0\" \x000", Some("\"\0source 0\" 7")),
            ("\x000x1", None),
            ("\x000.5", None),
            ("\x000 \x000", None),
            ("\x001", None),
            ("nothing", None),
        ] {
            assert_eq!(
                literals("7").put_into(skeleton).as_deref(),
                expected,
                "{skeleton:?}"
            );
        }
    }
}
