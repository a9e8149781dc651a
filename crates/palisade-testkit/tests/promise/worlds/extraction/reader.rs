//! Who reads a value by what fails.

use std::cell::Cell;

use palisade::{
    firewall::Decision,
    session::{Principal, Session},
    value::Params,
};
use serde_json::Value;

use crate::worlds::{bare::Bare, stand::Stand};

/// Whom statements are asked of.
pub(crate) trait Oracle {
    /// Whether the engine refuses the statement while it runs.
    async fn fails(&mut self, sql: &str) -> bool;
}

/// A database behind its gate.
pub(crate) struct Gate<'s, D> {
    stand: &'s Stand<D>,
    asked: Cell<u32>,
}

impl<'s, D: Bare> Gate<'s, D> {
    pub(crate) fn new(stand: &'s Stand<D>) -> Self {
        Self {
            stand,
            asked: Cell::new(0),
        }
    }

    /// Everything that an agent is told. Each statement is another agent's: how many fail is bounded for each.
    pub(crate) async fn told(&self, sql: &str) -> Value {
        self.asked.set(self.asked.get() + 1);
        let session = Session::new(Principal::new("Agent", format!("a{}", self.asked.get())));
        self.stand.told(sql, &Params::None, &session).await
    }
}

impl<D: Bare> Oracle for Gate<'_, D> {
    async fn fails(&mut self, sql: &str) -> bool {
        let told = self.told(sql).await;
        match told["code"].as_str() {
            Some(code) if code.starts_with("database.") => true,
            Some(_) => panic!("{sql}: {told}"),
            None => false,
        }
    }
}

/// A database whose gate says what would run, without what keeps the planner from looking below a filter.
pub(crate) struct Bared<'s, D>(pub(crate) &'s mut Stand<D>);

impl<D: Bare> Oracle for Bared<'_, D> {
    async fn fails(&mut self, sql: &str) -> bool {
        let text = self.0.text(sql).unwrap();
        self.0.bare.run(&unfenced(&text)).await.is_err()
    }
}

impl<D: Bare> Stand<D> {
    /// The text that runs in place of `sql`, or why none does.
    pub(crate) fn text(&self, sql: &str) -> Result<String, String> {
        let session = Session::new(Principal::new("Agent", "a"));
        let firewall = self.guard.firewall();
        match firewall.check(sql, &Params::None, &session).unwrap() {
            Decision::Allow(statement) => Ok(palisade::danger::parts(&statement).sql.to_owned()),
            Decision::Reject(why) => Err(why.to_string()),
        }
    }
}

/// `text` without fences, and with columns that are what they are.
pub(crate) fn unfenced(text: &str) -> String {
    let mut text = text.to_owned();
    for fence in [
        " LIMIT -1 OFFSET 0",
        " OFFSET 0",
        " LIMIT 18446744073709551615",
    ] {
        text = text.replace(fence, "");
    }
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some((before, inner)) = rest.split_once("coalesce(") {
        out.push_str(before);
        let opaque = inner.find(')').and_then(|end| {
            let (one, other) = inner[..end].split_once(", ")?;
            (one == other).then_some((one, &inner[end + 1..]))
        });
        match opaque {
            Some((column, after)) => {
                out.push_str(column);
                rest = after
                    .strip_prefix(&format!(" AS {column}"))
                    .unwrap_or(after);
            }
            None => {
                out.push_str("coalesce(");
                rest = inner;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Counts what is asked.
pub(crate) struct Counted<O> {
    oracle: O,
    pub(crate) asked: usize,
}

impl<O> Counted<O> {
    pub(crate) fn new(oracle: O) -> Self {
        Self { oracle, asked: 0 }
    }
}

impl<O: Oracle> Oracle for Counted<O> {
    async fn fails(&mut self, sql: &str) -> bool {
        self.asked += 1;
        self.oracle.fails(sql).await
    }
}

/// Reads a text of `length` small letters, by a question whether many rows hold a text from one on and before another.
pub(crate) async fn read_text(
    oracle: &mut impl Oracle,
    question: impl Fn(&str, &str) -> String,
    length: usize,
    fails_of_many: bool,
) -> String {
    let mut known = String::new();
    for _ in 0..length {
        // The letter is one from `low` on and before `high`.
        let (mut low, mut high) = (b'a', b'z' + 1);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let from = format!("{known}{}", char::from(low));
            let before = format!("{known}{}", char::from(middle));
            match oracle.fails(&question(&from, &before)).await == fails_of_many {
                true => high = middle,
                false => low = middle,
            }
        }
        known.push(char::from(low));
    }
    known
}

/// Reads a number of thirty-two bits, by a question whether many rows hold one of 0 to another.
pub(crate) async fn read_number(
    oracle: &mut impl Oracle,
    question: impl Fn(u32) -> String,
    fails_of_many: bool,
) -> u32 {
    let (mut low, mut high) = (0, u32::MAX);
    while low < high {
        let middle = low + (high - low) / 2;
        match oracle.fails(&question(middle)).await == fails_of_many {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    low
}
