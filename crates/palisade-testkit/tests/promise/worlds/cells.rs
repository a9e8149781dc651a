//! Values of generated tables, and what a mask makes of them, as the manual says it.

use std::collections::{BTreeMap, BTreeSet};

use palisade::dialect::Dialect;

use crate::worlds::choices::Choices;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Int,
    Text,
    Date,
    /// Tokens of the domain with this number: what statements see of a token column. Tokens of one domain are compared
    /// with each other, and nothing is computed from them. Results and order would depend on the hash.
    Token(u8),
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Int, Self::Text, Self::Date];

    /// The declared type.
    pub(crate) fn declared(self, dialect: Dialect) -> &'static str {
        match (self, dialect) {
            (Self::Int, Dialect::Sqlite) => "INTEGER",
            (Self::Int, Dialect::Postgres | Dialect::Mysql) => "bigint",
            (Self::Text, Dialect::Sqlite) => "TEXT",
            (Self::Text, Dialect::Postgres) => "text",
            (Self::Text, Dialect::Mysql) => "varchar(100)",
            (Self::Date, _) => "date",
            (Self::Token(_), _) => panic!("no column holds tokens"),
        }
    }
}

/// A value; dates as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cell {
    Null,
    Int(i64),
    Text(String),
}

impl Cell {
    /// A value as an engine prints it.
    pub(crate) fn read(kind: Kind, printed: Option<&str>) -> Self {
        match (kind, printed) {
            (_, None) => Self::Null,
            (Kind::Int, Some(text)) => match text.parse() {
                Ok(value) => Self::Int(value),
                Err(_) => Self::Text(text.to_owned()),
            },
            (Kind::Text | Kind::Date | Kind::Token(_), Some(text)) => Self::Text(text.to_owned()),
        }
    }

    /// The value as a literal of every dialect.
    pub(crate) fn literal(&self) -> String {
        match self {
            Self::Null => "NULL".to_owned(),
            Self::Int(value) => value.to_string(),
            Self::Text(text) => format!("'{}'", text.replace('\'', "''")),
        }
    }

    /// Any value of `kind`.
    pub(crate) fn any(kind: Kind, nullable: bool, choices: &mut Choices<'_>) -> Self {
        if nullable && choices.chance(20) {
            return Self::Null;
        }
        // Often one of few, so that cells are equal.
        let few = choices.chance(40);
        match kind {
            Kind::Int if few => Self::Int(*choices.pick(&INTEGERS[..3])),
            Kind::Text if few => Self::Text((*choices.pick(&TEXTS[..3])).to_owned()),
            Kind::Int => Self::Int(*choices.pick(INTEGERS)),
            Kind::Text => Self::Text((*choices.pick(TEXTS)).to_owned()),
            Kind::Date => Self::Text((*choices.pick(DATES)).to_owned()),
            Kind::Token(_) => panic!("no column holds tokens"),
        }
    }
}

pub(crate) const INTEGERS: &[i64] = &[1, 0, 2, 3, 5, 10, 12, 17, -1, -13, 47];

/// Some are numbers, some are no JSON, no pattern, no date; addresses, long ones and objects are for masks.
pub(crate) const TEXTS: &[&str] = &[
    "a",
    "b",
    "eu",
    "1",
    "2",
    "12",
    "",
    "eu-1",
    "us",
    "EU",
    "{",
    "(",
    "x@y.org",
    "z@y.org",
    "x@y@z",
    "900-12-3456",
    "901-23-3456",
    "900-99-0000",
    "2020-02-03",
    r#"{"a": 1, "b": 2}"#,
    r#"{"a": 1, "b": 3}"#,
    r#"{"b": 5}"#,
];

pub(crate) const DATES: &[&str] = &[
    "2020-02-03",
    "2020-02-17",
    "2020-03-01",
    "2021-02-03",
    "1999-12-31",
];

/// More than the rows that may be seen of any table: no aggregate over it shows anything.
const SMALLEST_GROUP: usize = 31;

/// A mask, as policies write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mask {
    Null,
    /// NULL but for aggregates, over more values than a table has rows that may be seen.
    Aggregates,
    Fixed,
    First(usize),
    Last(usize),
    Email,
    Month,
    Bucket(i64),
    /// Not on SQLite, which has no hash function.
    Hash,
    /// An expression over text.
    Words,
    /// An expression over numbers.
    Clamped,
    /// Of a JSON object one key. Not on PostgreSQL, where it takes columns of JSON alone.
    Paths,
}

impl Mask {
    /// The masks that columns of `kind` take.
    pub(crate) fn applicable(kind: Kind, dialect: Dialect) -> &'static [Self] {
        match (kind, dialect) {
            (Kind::Int, Dialect::Sqlite) => &[Self::Bucket(10), Self::Clamped, Self::Aggregates],
            (Kind::Int, Dialect::Postgres | Dialect::Mysql) => {
                &[Self::Bucket(10), Self::Null, Self::Aggregates]
            }
            (Kind::Text, Dialect::Sqlite) => &[
                Self::Last(4),
                Self::Null,
                Self::Fixed,
                Self::First(2),
                Self::Email,
                Self::Paths,
            ],
            (Kind::Text, Dialect::Postgres) => &[
                Self::Last(4),
                Self::Null,
                Self::Words,
                Self::First(2),
                Self::Email,
                Self::Hash,
            ],
            (Kind::Text, Dialect::Mysql) => &[
                Self::Last(4),
                Self::Null,
                Self::Words,
                Self::First(2),
                Self::Email,
                Self::Hash,
                Self::Paths,
            ],
            (Kind::Date, _) => &[Self::Month, Self::Null],
            (Kind::Token(_), _) => &[Self::Null],
        }
    }

    /// The annotation.
    pub(crate) fn annotation(self) -> String {
        match self {
            Self::Aggregates => format!("@aggregate_only(\"{SMALLEST_GROUP}\")"),
            other => format!("@mask(\"{}\")", other.written()),
        }
    }

    fn written(self) -> String {
        match self {
            Self::Null | Self::Aggregates => "null".to_owned(),
            Self::Fixed => "fixed(hidden)".to_owned(),
            Self::First(n) => format!("first({n})"),
            Self::Last(n) => format!("last({n})"),
            Self::Email => "email".to_owned(),
            Self::Month => "date(month)".to_owned(),
            Self::Bucket(width) => format!("bucket({width})"),
            Self::Hash => "hash(promise)".to_owned(),
            Self::Paths => "paths(a)".to_owned(),
            Self::Words => "expr(CASE WHEN value LIKE '%@%' THEN substr(value, 1, 1) WHEN substr(value, 7, 1) LIKE '_' THEN 'long' ELSE '-' END)".to_owned(),
            Self::Clamped => {
                "expr(CASE WHEN value < 0 THEN -1 WHEN value > 9 THEN 10 ELSE value END)".to_owned()
            }
        }
    }

    /// The masked form of `cell`, in any form that is equal for equal outputs.
    pub(crate) fn apply(self, cell: &Cell) -> Option<String> {
        let long = |n: usize, text: &str| text.chars().count() >= 2 * n;
        match (self, cell) {
            (Self::Words, Cell::Null) => Some("-".to_owned()),
            (Self::Null | Self::Aggregates, _) | (_, Cell::Null) => None,
            (Self::Words, Cell::Text(text)) if text.contains('@') => {
                text.chars().next().map(String::from)
            }
            (Self::Words, Cell::Text(text)) if text.chars().count() > 6 => Some("long".to_owned()),
            (Self::Words, Cell::Text(_)) => Some("-".to_owned()),
            (Self::Clamped, Cell::Int(number)) => Some((*number).clamp(-1, 10).to_string()),
            (Self::Paths, Cell::Text(text)) => {
                let document: serde_json::Value = serde_json::from_str(text).ok()?;
                let shown = document.as_object()?.get("a");
                Some(shown.map_or_else(String::new, ToString::to_string))
            }
            (Self::Fixed, _) => Some("hidden".to_owned()),
            (Self::First(n), Cell::Text(text)) => {
                long(n, text).then(|| text.chars().take(n).collect())
            }
            (Self::Last(n), Cell::Text(text)) => {
                let skipped = text.chars().count().saturating_sub(n);
                long(n, text).then(|| text.chars().skip(skipped).collect())
            }
            (Self::Email, Cell::Text(text)) => match text.split('@').collect::<Vec<_>>()[..] {
                [_, domain] => Some(domain.to_owned()),
                _ => None,
            },
            (Self::Month, Cell::Text(text)) => Some(text.chars().take(7).collect()),
            (Self::Bucket(width), Cell::Int(value)) => {
                Some((value - value.rem_euclid(width)).to_string())
            }
            (Self::Hash, Cell::Text(text)) => Some(text.clone()),
            (mask, cell) => panic!("{mask:?} of {cell:?}"),
        }
    }
}

/// Which values stand for which others in the other database, in the columns of one domain of tokens: a permutation
/// of the values that there are, so that different values stay different and equal ones equal.
#[derive(Debug, Clone)]
pub(crate) struct Renaming(BTreeMap<String, String>);

impl Renaming {
    /// Values that may stand for each other go to the same columns, and every filter says the same of them.
    pub(crate) fn new(alike: impl Fn(&str) -> Vec<bool>, choices: &mut Choices<'_>) -> Self {
        let integers: Vec<String> = INTEGERS.iter().map(ToString::to_string).collect();
        let all: BTreeSet<&str> = integers
            .iter()
            .map(String::as_str)
            .chain(TEXTS.iter().chain(DATES).copied())
            .collect();
        let mut classes: BTreeMap<Vec<bool>, Vec<&str>> = BTreeMap::new();
        for value in all {
            let mut class = alike(value);
            class.push(integers.iter().any(|integer| integer == value));
            class.push(TEXTS.contains(&value));
            class.push(DATES.contains(&value));
            classes.entry(class).or_default().push(value);
        }
        let mut renaming = BTreeMap::new();
        for values in classes.values() {
            let by = choices.below(values.len());
            let others = values.iter().cycle().skip(by);
            for (value, other) in values.iter().zip(others) {
                renaming.insert((*value).to_owned(), (*other).to_owned());
            }
        }
        Self(renaming)
    }

    /// The value that replaces `cell` in the other database.
    pub(crate) fn rename(&self, cell: &Cell) -> Cell {
        match cell {
            Cell::Null => Cell::Null,
            Cell::Int(value) => Cell::Int(self.0[&value.to_string()].parse().unwrap()),
            Cell::Text(text) => Cell::Text(self.0[text].clone()),
        }
    }
}
