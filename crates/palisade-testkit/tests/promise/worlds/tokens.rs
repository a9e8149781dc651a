//! Tokens that were handed out earlier and parameters, in statements, and answers of one database in the words of the
//! other.

use std::collections::BTreeMap;

use palisade::{dialect::Dialect, value::Params};
use serde_json::{Map, Value};

use crate::worlds::{cells::Cell, grammar::Statement};

/// A cell of a table: the table, the column, and the id of the row.
pub(crate) type Place = (usize, usize, i64);

/// The tokens that a session was given, by the cells that they stand for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tokens(pub(crate) BTreeMap<Place, String>);

/// What begins a value that is bound, which stands in a statement as a literal.
const BOUND: &str = "{bound ";

/// What ends it, and every mark: no text of a table has it.
const END: char = '»';

/// A value that is bound, as it stands in a statement.
pub(crate) fn bound(value: &Cell) -> String {
    format!("{BOUND}{}{END}", value.literal())
}

/// How a token stands in a statement until it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// As a literal.
    Literal,
    /// As a parameter.
    Parameter,
    /// As a literal whose tag is another.
    Forged,
}

impl Mark {
    const ALL: [Self; 3] = [Self::Literal, Self::Parameter, Self::Forged];

    fn sign(self) -> &'static str {
        match self {
            Self::Literal => "{token ",
            Self::Parameter => "{parameter ",
            Self::Forged => "{forged ",
        }
    }

    /// The mark for the token of a cell.
    pub(crate) fn mark(self, (table, column, id): Place) -> String {
        format!("{}{table} {column} {id}{END}", self.sign())
    }
}

/// A statement with tokens in it, as one session writes it.
pub(crate) struct Spoken {
    pub(crate) sql: String,
    values: Vec<Value>,
    /// The same with its parameters as literals.
    pub(crate) whole: String,
}

impl Spoken {
    pub(crate) fn params(&self) -> Params {
        match self.values.as_slice() {
            [] => Params::None,
            values => Params::from_json(&Value::from(values)).unwrap(),
        }
    }

    /// The parameters as a case of the corpus has them.
    pub(crate) fn written_params(&self) -> String {
        let values = self.values.iter().map(|value| match value {
            Value::Null => "{}".to_owned(),
            value => value.to_string(),
        });
        match values.collect::<Vec<_>>().as_slice() {
            [] => String::new(),
            values => format!("params = [{}]\n", values.join(", ")),
        }
    }
}

impl Statement {
    /// The statement as a session writes it that was given `tokens`.
    pub(crate) fn spoken(&self, tokens: &Tokens, dialect: Dialect) -> Spoken {
        let mut spoken = Spoken {
            sql: String::new(),
            values: Vec::new(),
            whole: String::new(),
        };
        let mut rest = self.sql.as_str();
        loop {
            let signs = Mark::ALL
                .into_iter()
                .map(|mark| (mark.sign(), Some(mark)))
                .chain([(BOUND, None)]);
            let first = signs
                .filter_map(|(sign, mark)| Some((rest.find(sign)?, sign, mark)))
                .min_by_key(|(at, _, _)| *at);
            let Some((at, sign, mark)) = first else {
                break;
            };
            let (before, after) = rest.split_at(at);
            let (said, after) = after[sign.len()..].split_once(END).unwrap();
            rest = after;
            let (literal, value) = match mark {
                Some(mark) => {
                    let token = tokens.at(said, mark);
                    let literal = format!("'{token}'");
                    let value = (mark == Mark::Parameter).then(|| token.into());
                    (literal, value)
                }
                None => (said.to_owned(), Some(value(said))),
            };
            spoken.whole += before;
            spoken.whole += &literal;
            spoken.sql += before;
            match value {
                None => spoken.sql += &literal,
                Some(value) => {
                    spoken.values.push(value);
                    let number = spoken.values.len().try_into().unwrap();
                    spoken.sql += &dialect.placeholder(number);
                }
            }
        }
        spoken.whole += rest;
        spoken.sql += rest;
        spoken
    }

    /// Whether it has parameters.
    pub(crate) fn binds(&self) -> bool {
        [Mark::Parameter.sign(), BOUND]
            .iter()
            .any(|sign| self.sql.contains(sign))
    }

    /// Whether it contains a token that the gate never issued.
    pub(crate) fn forges(&self) -> bool {
        self.sql.contains(Mark::Forged.sign())
    }
}

/// The value of a literal.
fn value(literal: &str) -> Value {
    let text = literal
        .strip_prefix('\'')
        .and_then(|text| text.strip_suffix('\''));
    match text {
        Some(text) => text.replace("\'\'", "'").into(),
        None if literal == "NULL" => Value::Null,
        None => literal.parse::<i64>().unwrap().into(),
    }
}

impl Tokens {
    fn at(&self, place: &str, mark: Mark) -> String {
        let mut numbers = place
            .split(' ')
            .map(|number| number.parse::<i64>().unwrap());
        let mut next = || numbers.next().unwrap();
        let place = (
            next().try_into().unwrap(),
            next().try_into().unwrap(),
            next(),
        );
        let Some(token) = self.0.get(&place) else {
            return "no token".to_owned();
        };
        let mut token = token.clone();
        if mark == Mark::Forged {
            let last = if token.ends_with('0') { '1' } else { '0' };
            token.pop();
            token.push(last);
        }
        token
    }
}

/// What tokens of one database are those of the other: by their hashes, the token there and here.
#[derive(Debug)]
pub(crate) struct Renames(BTreeMap<String, (String, String)>);

/// What a token begins with, and how many hexadecimal digits of a hash follow.
pub(crate) const PREFIX: &str = "tok_";
const HASH: usize = 32;

impl Renames {
    /// The names of `other` in those of `one`.
    ///
    /// # Errors
    /// Where one has equal tokens and the other has not: they tell more than equality.
    pub(crate) fn new(one: &Tokens, other: &Tokens) -> Result<Self, String> {
        let (mut there, mut back) = (BTreeMap::new(), BTreeMap::new());
        if !one.0.keys().eq(other.0.keys()) {
            return Err(format!("tokens of other cells:\n  {one:?}\n  {other:?}"));
        }
        for (place, (own, theirs)) in one
            .0
            .iter()
            .zip(&other.0)
            .map(|((place, own), (_, theirs))| (place, (own, theirs)))
        {
            let same = *there.entry(theirs.clone()).or_insert_with(|| own.clone()) == *own
                && *back.entry(own.clone()).or_insert_with(|| theirs.clone()) == *theirs;
            if !same {
                return Err(format!(
                    "tokens are equal in one database alone, at {place:?}:\n  {one:?}\n  {other:?}"
                ));
            }
        }
        let by_hash = there.into_iter().map(|(theirs, own): (String, String)| {
            let hash = theirs[PREFIX.len()..][..HASH].to_owned();
            (hash, (theirs, own))
        });
        Ok(Self(by_hash.collect()))
    }

    /// An answer of the other database, in the words of the one; its rows in order again.
    pub(crate) fn answer(&self, answer: Value) -> Value {
        if self.0.is_empty() {
            return answer;
        }
        let mut answer = self.value(answer);
        if let Some(rows) = answer.get_mut("rows").and_then(|rows| rows.as_array_mut()) {
            rows.sort_by_key(ToString::to_string);
        }
        answer
    }

    fn value(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(values) => values.into_iter().map(|value| self.value(value)).collect(),
            Value::Object(fields) => {
                let fields: Map<String, Value> = fields
                    .into_iter()
                    .map(|(name, value)| (self.text(&name), self.value(value)))
                    .collect();
                Value::Object(fields)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value,
        }
    }

    fn text(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let (piece, length) = self
                .token(rest)
                .or_else(|| self.hash(rest))
                .unwrap_or((&rest[..first.len_utf8()], first.len_utf8()));
            out += piece;
            rest = &rest[length..];
        }
        out
    }

    /// The token that `text` begins with, here, and its length; of a name that was cut off, as much of it as is there.
    fn token(&self, text: &str) -> Option<(&str, usize)> {
        let (theirs, own) = self.0.get(text.strip_prefix(PREFIX)?.get(..HASH)?)?;
        let length = text
            .bytes()
            .zip(theirs.bytes())
            .take_while(|(one, other)| one == other)
            .count();
        Some((&own[..length], length))
    }

    /// The hash that `text` begins with, here.
    fn hash(&self, text: &str) -> Option<(&str, usize)> {
        let (_, own) = self.0.get(text.get(..HASH)?)?;
        Some((&own[PREFIX.len()..][..HASH], HASH))
    }
}
