//! The functions that a mask may call: each gives a result for every value, with arguments as they are said here.

use crate::dialect::Dialect;
use crate::syntax::mask_expr::{Formula, Unread};

/// The largest constant that says how many characters, or where.
const MAX_COUNT: i64 = 10_000;

/// A function that gives a result for every value, with arguments as they are said here.
pub(in crate::syntax) struct Callable {
    pub(in crate::syntax) name: &'static str,
    dialects: &'static [Dialect],
    /// What follows the text.
    rest: &'static [Rest],
    /// How many of those may be left out at the end.
    optional: usize,
}

/// An argument beside the text.
#[derive(Clone, Copy)]
enum Rest {
    /// Any text.
    Text,
    /// A constant text of at least one character.
    Some,
    /// A constant text.
    Constant,
    /// A whole number from 0 on.
    Count,
    /// A whole number from 1 on.
    From,
    /// A whole number, negative too.
    Signed,
}

pub(in crate::syntax) const EVERYWHERE: &[Dialect] =
    &[Dialect::Sqlite, Dialect::Postgres, Dialect::Mysql];
pub(in crate::syntax) const SERVERS: &[Dialect] = &[Dialect::Postgres, Dialect::Mysql];

const fn callable(
    name: &'static str,
    dialects: &'static [Dialect],
    rest: &'static [Rest],
    optional: usize,
) -> Callable {
    Callable {
        name,
        dialects,
        rest,
        optional,
    }
}

const CALLABLE: &[Callable] = &[
    callable("lower", EVERYWHERE, &[], 0),
    callable("upper", EVERYWHERE, &[], 0),
    callable("length", EVERYWHERE, &[], 0),
    callable("char_length", SERVERS, &[], 0),
    callable("reverse", SERVERS, &[], 0),
    // PostgreSQL raises for a negative count, and takes what is before the first character for characters.
    callable(
        "substr",
        &[Dialect::Postgres],
        &[Rest::From, Rest::Count],
        1,
    ),
    callable(
        "substr",
        &[Dialect::Sqlite, Dialect::Mysql],
        &[Rest::Signed, Rest::Count],
        1,
    ),
    callable("left", SERVERS, &[Rest::Count], 0),
    callable("right", SERVERS, &[Rest::Count], 0),
    callable("replace", EVERYWHERE, &[Rest::Some, Rest::Constant], 0),
    callable(
        "ltrim",
        &[Dialect::Sqlite, Dialect::Postgres],
        &[Rest::Constant],
        1,
    ),
    callable(
        "rtrim",
        &[Dialect::Sqlite, Dialect::Postgres],
        &[Rest::Constant],
        1,
    ),
    callable("ltrim", &[Dialect::Mysql], &[], 0),
    callable("rtrim", &[Dialect::Mysql], &[], 0),
    callable("lpad", SERVERS, &[Rest::Count, Rest::Some], 0),
    callable("rpad", SERVERS, &[Rest::Count, Rest::Some], 0),
    callable(
        "instr",
        &[Dialect::Sqlite, Dialect::Mysql],
        &[Rest::Constant],
        0,
    ),
    callable("strpos", &[Dialect::Postgres], &[Rest::Constant], 0),
    // Field 0 raises.
    callable(
        "split_part",
        &[Dialect::Postgres],
        &[Rest::Some, Rest::From],
        0,
    ),
    callable(
        "substring_index",
        &[Dialect::Mysql],
        &[Rest::Some, Rest::Signed],
        0,
    ),
    callable("concat", SERVERS, &[Rest::Text; 15], 15),
];

/// Those of a dialect.
pub(in crate::syntax) fn list_callables(
    dialect: Dialect,
) -> impl Iterator<Item = &'static Callable> {
    CALLABLE
        .iter()
        .filter(move |callable| callable.dialects.contains(&dialect))
}

impl Callable {
    /// Whether these are arguments that it gives a result for.
    ///
    /// # Errors
    /// In words, which one is not.
    pub(in crate::syntax) fn takes(&self, args: &[Formula]) -> Result<(), Unread> {
        let rest = args.get(1..).unwrap_or_default();
        let least = self.rest.len() - self.optional;
        if args.is_empty() || !(least..=self.rest.len()).contains(&rest.len()) {
            return Err(Unread::new(format!(
                "`{}` does not take {} arguments in a mask",
                self.name,
                args.len()
            )));
        }
        for (arg, kind) in rest.iter().zip(self.rest) {
            let number = |least: i64| match arg {
                Formula::Number(digits) => digits
                    .parse::<i64>()
                    .is_ok_and(|number| (least..=MAX_COUNT).contains(&number)),
                _ => false,
            };
            let (right, wants) = match kind {
                Rest::Text => (true, "text"),
                Rest::Some => (
                    matches!(arg, Formula::Text(text) if !text.is_empty()),
                    "a constant text that is not empty",
                ),
                Rest::Constant => (matches!(arg, Formula::Text(_)), "a constant text"),
                Rest::Count => (number(0), "a whole number from 0 to 10000"),
                Rest::From => (number(1), "a whole number from 1 to 10000"),
                Rest::Signed => (number(-MAX_COUNT), "a whole number from -10000 to 10000"),
            };
            if !right {
                return Err(Unread::new(format!(
                    "after the text, `{}` takes {wants} here",
                    self.name
                )));
            }
        }
        Ok(())
    }
}
