//! Expressions of the operator over one value. Every construct here gives a result for every value: what could
//! raise for one is not in the tree, so that nothing has to look for it later.
//!
//! An engine may compute a mask for rows that a filter hides, and its error would tell of them.

pub(in crate::syntax) mod bounds;
pub(in crate::syntax) mod functions;
pub(in crate::syntax) mod parse;
pub(in crate::syntax) mod types;

pub(crate) use crate::syntax::mask_expr::parse::{Read, read};
pub(crate) use crate::syntax::mask_expr::types::{ValueKind, compared_kind};

/// Why an expression is none for a mask, and what to do.
#[derive(Debug)]
pub(crate) struct Unread {
    pub(crate) message: String,
    pub(crate) help: Option<String>,
}

impl Unread {
    pub(in crate::syntax) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            help: None,
        }
    }

    pub(in crate::syntax) fn help(self, help: impl Into<String>) -> Self {
        Self {
            help: Some(help.into()),
            ..self
        }
    }
}

/// An expression over a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Formula {
    /// The value.
    Value,
    Null,
    Text(String),
    /// Digits with an optional sign and point, as [`read`] bounds them.
    Number(String),
    Truth(bool),
    Case {
        operand: Option<Box<Formula>>,
        arms: Vec<(Formula, Formula)>,
        otherwise: Option<Box<Formula>>,
    },
    Condition(FormulaCondition),
    /// `||`, which is OR on MySQL and never there.
    Concat(Box<Formula>, Box<Formula>),
    /// Of numbers whose bounds are known, and the result's with them.
    Arithmetic(Box<Formula>, Arithmetic, Box<Formula>),
    AsText(Box<Formula>),
    Coalesce(Vec<Formula>),
    Nullif(Box<Formula>, Box<Formula>),
    /// A call whose first argument is text and whose others are constants; of `concat` all are text.
    Call(&'static str, Vec<Formula>),
    /// `TRIM([side] [what FROM] text)`.
    Trim {
        side: Option<TrimSide>,
        what: Option<String>,
        text: Box<Formula>,
    },
}

/// What is true, false, or neither where something in it is NULL.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FormulaCondition {
    Compare(Box<Formula>, Comparing, Box<Formula>),
    Between {
        operand: Box<Formula>,
        low: Box<Formula>,
        high: Box<Formula>,
        negated: bool,
    },
    In {
        operand: Box<Formula>,
        list: Vec<Formula>,
        negated: bool,
    },
    IsNull {
        operand: Box<Formula>,
        negated: bool,
    },
    /// The pattern has no escapes, of which a last one would raise on PostgreSQL.
    Like {
        operand: Box<Formula>,
        pattern: String,
        negated: bool,
    },
    And(Box<Formula>, Box<Formula>),
    Or(Box<Formula>, Box<Formula>),
    Not(Box<Formula>),
}

/// How two sides are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Comparing {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// What is done with two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Arithmetic {
    Plus,
    Minus,
    Times,
}

/// Which end is trimmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum TrimSide {
    Both,
    Leading,
    Trailing,
}

impl Formula {
    /// Whether the value is in it at all.
    pub(crate) fn reads(&self) -> bool {
        *self == Self::Value || self.parts().into_iter().any(Self::reads)
    }

    /// What it is made of, one level down.
    fn parts(&self) -> Vec<&Self> {
        match self {
            Self::Value | Self::Null | Self::Text(_) | Self::Number(_) | Self::Truth(_) => {
                Vec::new()
            }
            Self::Case {
                operand,
                arms,
                otherwise,
            } => {
                let arms = arms.iter().flat_map(|(when, then)| [when, then]);
                let outer = operand.as_deref().into_iter().chain(otherwise.as_deref());
                outer.chain(arms).collect()
            }
            Self::Condition(condition) => condition.parts(),
            Self::Concat(left, right)
            | Self::Arithmetic(left, _, right)
            | Self::Nullif(left, right) => vec![left, right],
            Self::AsText(inner)
            | Self::Trim {
                side: _,
                what: _,
                text: inner,
            } => vec![inner],
            Self::Coalesce(parts) | Self::Call(_, parts) => parts.iter().collect(),
        }
    }

    /// Whether every value that is not NULL can be read off the result.
    pub(crate) fn shows_all(&self) -> bool {
        match self {
            Self::Value => true,
            Self::Null
            | Self::Text(_)
            | Self::Number(_)
            | Self::Truth(_)
            | Self::Condition(_)
            | Self::Arithmetic(_, _, _)
            | Self::Trim {
                side: _,
                what: _,
                text: _,
            } => false,
            Self::Case {
                operand: _,
                arms,
                otherwise,
            } => {
                let results = arms.iter().map(|(_, then)| then);
                let mut shown = results
                    .chain(otherwise.as_deref())
                    .filter(|result| **result != Self::Null)
                    .peekable();
                shown.peek().is_some() && shown.all(Self::shows_all)
            }
            Self::Concat(left, right) => left.shows_all() || right.shows_all(),
            Self::AsText(inner) | Self::Nullif(inner, _) => inner.shows_all(),
            Self::Coalesce(parts) => parts.first().is_some_and(Self::shows_all),
            Self::Call(name, args) => *name == "concat" && args.iter().any(Self::shows_all),
        }
    }
}

impl FormulaCondition {
    /// What it is made of, one level down.
    fn parts(&self) -> Vec<&Formula> {
        match self {
            Self::Compare(left, _, right) | Self::And(left, right) | Self::Or(left, right) => {
                vec![left, right]
            }
            Self::Between {
                operand,
                low,
                high,
                negated: _,
            } => vec![operand, low, high],
            Self::In {
                operand,
                list,
                negated: _,
            } => std::iter::once(&**operand).chain(list).collect(),
            Self::IsNull {
                operand: inner,
                negated: _,
            }
            | Self::Like {
                operand: inner,
                pattern: _,
                negated: _,
            }
            | Self::Not(inner) => vec![inner],
        }
    }
}

/// Whether a function gives a number; the others give text.
pub(crate) fn gives_number(name: &str) -> bool {
    matches!(name, "length" | "char_length" | "instr" | "strpos")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

    use super::*;
    use crate::dialect::Dialect;

    #[test]
    fn what_shows_all_is_known() {
        for (text, all) in [
            ("value", true),
            ("coalesce(value, 'none')", true),
            ("CAST(value AS text)", true),
            ("'x' || value", true),
            ("CASE WHEN value IS NULL THEN NULL ELSE value END", true),
            (
                "CASE WHEN length(value) > 3 THEN 'long' ELSE value END",
                false,
            ),
            ("coalesce('none', value)", false),
            ("lower(value)", false),
            ("'x'", false),
            ("NULL", false),
        ] {
            let formula = read(text, Dialect::Postgres).unwrap().formula;
            assert_eq!(formula.shows_all(), all, "{text}");
        }
    }
}
