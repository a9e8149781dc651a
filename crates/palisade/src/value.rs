//! Raw values: what parameters carry in and what engines give back, before any scan.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
};

/// A value as an engine holds it. It cannot be serialised: only scanned rows become JSON.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// SQL NULL.
    Null,
    /// A boolean (parameters only on SQLite, where it is bound as 0 or 1).
    Bool(bool),
    /// A 64-bit integer.
    Integer(i64),
    /// A double.
    Real(f64),
    /// Text in the engine's encoding; not necessarily valid UTF-8.
    Text(Vec<u8>),
    /// Bytes.
    Blob(Vec<u8>),
}

/// Whether `text` is a uuid as engines print it.
pub(crate) fn is_canonical_uuid(text: &str) -> bool {
    text.len() == 36
        && text.char_indices().all(|(i, c)| {
            if [8, 13, 18, 23].contains(&i) {
                c == '-'
            } else {
                matches!(c, '0'..='9' | 'a'..='f')
            }
        })
}

impl Value {
    /// Text from a Rust string.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into().into_bytes())
    }

    /// One parameter, as [`Params::from_json`] takes it.
    ///
    /// # Errors
    /// A text for the client if it is an array, another object, or a number beyond 64 bits.
    pub fn from_json(json: &serde_json::Value) -> Result<Self, String> {
        use serde_json::Value as Json;
        match json {
            Json::Null => Ok(Self::Null),
            Json::Bool(b) => Ok(Self::Bool(*b)),
            Json::Number(n) => match n.as_i64() {
                Some(i) => Ok(Self::Integer(i)),
                None if n.is_u64() => Err(
                    "a parameter is larger than 64-bit integers; send it as a string of digits"
                        .to_owned(),
                ),
                None => n
                    .as_f64()
                    .map(Self::Real)
                    .ok_or_else(|| "a parameter is not a number".to_owned()),
            },
            Json::String(s) => Ok(Self::text(s.clone())),
            Json::Object(map) => map
                .iter()
                .next()
                .filter(|_| map.len() == 1)
                .and_then(|(kind, text)| Self::spell_value(kind, text.as_str()?))
                .ok_or_else(|| UNFIT.to_owned()),
            Json::Array(_) => Err(ARRAY.to_owned()),
        }
    }

    /// A value of a kind that JSON has no form for, from the text that stands for it in answers.
    fn spell_value(kind: &str, text: &str) -> Option<Self> {
        match kind {
            "bytes" => decode_hex(text.strip_prefix("\\x")?).map(Self::Blob),
            "integer" => text.parse().ok().map(Self::Integer),
            "real" => match text {
                "NaN" => Some(f64::NAN),
                "Infinity" => Some(f64::INFINITY),
                "-Infinity" => Some(f64::NEG_INFINITY),
                // Rust's parser also takes other spellings of these.
                _ => text.parse().ok().filter(|number: &f64| number.is_finite()),
            }
            .map(Self::Real),
            _ => None,
        }
    }
}

impl From<i64> for Value {
    fn from(integer: i64) -> Self {
        Self::Integer(integer)
    }
}

impl From<f64> for Value {
    fn from(real: f64) -> Self {
        Self::Real(real)
    }
}

impl From<bool> for Value {
    fn from(bool: bool) -> Self {
        Self::Bool(bool)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

/// Bytes, also where they are those of a text: text is made of a `String` or a `&str`.
impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Blob(bytes)
    }
}

/// `None` is NULL.
impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// What is said of a parameter that is none.
const UNFIT: &str = "a parameter must be null, a boolean, a number, a string, {\"bytes\": \"\\\\x00ff\"}, \
                     {\"integer\": \"9223372036854775807\"} or {\"real\": \"Infinity\"}; \
                     a document of JSON is given as its text";

/// What is said of a list in the place of a value.
const ARRAY: &str = "a parameter is one value and no list: write a placeholder for each value, as in IN (?, ?) or IN ($1, $2); \
                     PostgreSQL also takes = ANY($1) with the text \"{a,b}\"";

/// The bytes that pairs of hexadecimal digits spell.
fn decode_hex(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    digits
        .as_bytes()
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => u8::try_from(digit(high)? << 4 | digit(low)?).ok(),
            _ => None,
        })
        .collect()
}

/// The parameters that came with a statement.
///
/// ```
/// use palisade::value::{Params, Value};
/// let by_number = Params::from(vec![Value::from(7), "Ann".into(), None::<bool>.into()]);
/// let by_name = Params::by_name([("id", Value::from(7)), ("name", "Ann".into())]);
/// # assert_eq!(by_number, Params::Positional(vec![Value::Integer(7), Value::text("Ann"), Value::Null]));
/// # assert_eq!(by_name, Params::from_json(&serde_json::json!({"name": "Ann", "id": 7})).unwrap());
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Params {
    /// None.
    #[default]
    None,
    /// By number, the first being 1.
    Positional(Vec<Value>),
    /// By name, without the sigil (`:a`, `@a` and `$a` are all `a`).
    Named(BTreeMap<String, Value>),
}

/// By number, the first being 1.
impl From<Vec<Value>> for Params {
    fn from(values: Vec<Value>) -> Self {
        Self::Positional(values)
    }
}

impl Params {
    /// Parameters by name, without the sigil. Of a name that comes twice the last value counts.
    pub fn by_name<N: Into<String>, V: Into<Value>>(
        values: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let pairs = values.into_iter();
        Self::Named(
            pairs
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        )
    }

    /// Parameters from the JSON that a client sends: an array, an object, or null.
    ///
    /// A value is null, a boolean, a number or a string; or an object with one key, for what JSON has no form of its
    /// own for. Each takes the text that stands in answers: `{"bytes": "\\x00ff"}`, `{"integer":
    /// "9223372036854775807"}`, `{"real": "Infinity"}`.
    ///
    /// # Errors
    /// A text for the client if it is anything else, or holds other arrays or objects.
    pub fn from_json(json: &serde_json::Value) -> Result<Self, String> {
        use serde_json::Value as Json;
        match json {
            Json::Null => Ok(Self::None),
            Json::Array(items) => Ok(Self::Positional(
                items
                    .iter()
                    .map(Value::from_json)
                    .collect::<Result<_, _>>()?,
            )),
            Json::Object(map) => map
                .iter()
                .map(|(name, json)| Ok((name.clone(), Value::from_json(json)?)))
                .collect::<Result<_, _>>()
                .map(Self::Named),
            Json::Bool(_) | Json::Number(_) | Json::String(_) => {
                Err("parameters must be a JSON array or object".to_owned())
            }
        }
    }

    /// The value of placeholder `number` (from 1) or `name`.
    #[must_use]
    pub fn lookup(&self, placeholder: &Placeholder) -> Option<&Value> {
        match (self, placeholder) {
            (Self::Positional(values), placeholder) => {
                let n = usize::try_from(placeholder.number()?).ok()?;
                values.get(n.checked_sub(1)?)
            }
            (Self::Named(values), Placeholder::Name(name)) => values.get(name),
            (Self::None, _) | (Self::Named(_), Placeholder::Number(_)) => None,
        }
    }

    /// Checks that exactly the placeholders in `used` are given.
    ///
    /// # Errors
    /// A text that says what is missing or too many.
    pub fn check(&self, used: &BTreeSet<Placeholder>) -> Result<(), String> {
        let numbers = used
            .iter()
            .filter(|p| matches!(p, Placeholder::Number(_)))
            .count();
        if numbers != 0 && numbers != used.len() {
            return Err("the statement mixes numbered and named parameters".to_owned());
        }
        match self {
            Self::None if used.is_empty() => Ok(()),
            Self::None => Err(format!(
                "the statement uses {} parameters and none are given",
                used.len()
            )),
            Self::Positional(values) => {
                let given: BTreeSet<_> = (1..=values.len())
                    .filter_map(|n| u32::try_from(n).ok())
                    .map(Placeholder::Number)
                    .collect();
                let numbers: Option<BTreeSet<_>> = used
                    .iter()
                    .map(|placeholder| placeholder.number().map(Placeholder::Number))
                    .collect();
                match numbers {
                    Some(numbers) if numbers == given => Ok(()),
                    Some(numbers) if numbers.is_empty() => Err(format!(
                        "the statement uses no parameters and {} are given: a placeholder in quotes is text, so write it outside of them",
                        values.len()
                    )),
                    Some(numbers) if has_gap(&numbers) => Err(
                        "the parameters of the statement are not numbered from 1 without a gap: 1 is the first value".to_owned(),
                    ),
                    Some(_) => Err(format!(
                        "the statement uses {} numbered parameters and {} are given",
                        used.len(),
                        values.len()
                    )),
                    None => Err(format!(
                        "the statement uses the named parameters {}: give an object with these names, without a sign before them",
                        list_names(used)
                    )),
                }
            }
            Self::Named(values) => {
                let given: BTreeSet<_> = values.keys().cloned().map(Placeholder::Name).collect();
                if *used == given {
                    return Ok(());
                }
                Err(match (used.is_empty(), numbers) {
                    (true, _) => "the statement uses no parameters: a placeholder in quotes is text, so write it outside of them".to_owned(),
                    (false, 0) => format!(
                        "the statement uses the named parameters {}, and {} are given: write names as they are there, without a sign before them",
                        list_names(used),
                        match given.is_empty() {
                            true => "none".to_owned(),
                            false => list_names(&given),
                        }
                    ),
                    (false, _) => format!(
                        "the statement uses {numbers} numbered parameters: give an array of their values"
                    ),
                })
            }
        }
    }
}

/// Whether a number below the highest one is missing.
fn has_gap(numbers: &BTreeSet<Placeholder>) -> bool {
    let highest = numbers.last().and_then(Placeholder::number);
    highest.is_some_and(|highest| usize::try_from(highest) != Ok(numbers.len()))
}

/// Names of placeholders for a message, as many as help.
fn list_names(placeholders: &BTreeSet<Placeholder>) -> String {
    const MOST: usize = 8;
    let names = placeholders.iter().filter_map(|placeholder| {
        let Placeholder::Name(name) = placeholder else {
            return None;
        };
        Some(format!("`{name}`"))
    });
    let mut shown: Vec<String> = names.take(MOST).collect();
    if placeholders.len() > MOST {
        shown.push("…".to_owned());
    }
    shown.join(", ")
}

/// A placeholder in a statement.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Placeholder {
    /// `?`, `?3`: counted from 1.
    Number(u32),
    /// `:a`, `@a`, `$a`, without the sigil.
    Name(String),
}

impl Placeholder {
    /// Which value of an array it stands for. `$1` and `:1` are names to SQLite, and to everybody else numbers.
    fn number(&self) -> Option<u32> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Name(name) => {
                let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
                name.parse().ok().filter(|_| is_number)
            }
        }
    }
}

/// Of which types the columns of an answer are, as an engine tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnTypes<'a> {
    /// A name of the engine's own types for each column, or nothing where it has another type. No text that a database holds
    /// is one.
    Named(&'a [&'static str]),
    /// Each value has a type of its own.
    ByValue,
}

/// Takes the rows of an answer, one at a time.
pub trait RowSink {
    /// The names the engine gives the columns, before the first row. A break means that the answer
    /// has another shape than was decided; nothing more is read.
    fn columns(&mut self, names: &[&str]) -> ControlFlow<()>;

    /// What is told of the types of columns that have no declared one, such as those that are computed. A backend says it before
    /// the first row. Whoever has no use for it does nothing.
    fn types(&mut self, _types: ColumnTypes<'_>) {}

    /// One row, a cell for each column. A break means that no more rows are wanted.
    fn row(&mut self, cells: Vec<Value>) -> ControlFlow<()>;
}

/// Takes rows and drops them.
#[derive(Debug, Clone, Copy, Default)]
pub struct DroppedRows;

impl RowSink for DroppedRows {
    fn columns(&mut self, _: &[&str]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn row(&mut self, _: Vec<Value>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Takes rows and keeps all of them.
#[derive(Debug, Clone, Default)]
pub struct KeptRows(pub Vec<Vec<Value>>);

impl RowSink for KeptRows {
    fn columns(&mut self, _: &[&str]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn row(&mut self, cells: Vec<Value>) -> ControlFlow<()> {
        self.0.push(cells);
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(json: serde_json::Value, expected: Option<Value>) {
        let found = Params::from_json(&json!([json]));
        let expected = expected.map(|value| Params::Positional(vec![value]));
        assert_eq!(found.ok(), expected, "{json}");
    }

    #[test]
    fn json_becomes_parameters() {
        check(json!(null), Some(Value::Null));
        check(json!(true), Some(Value::Bool(true)));
        check(json!(i64::MIN), Some(Value::Integer(i64::MIN)));
        check(json!(u64::MAX), None);
        check(json!(1.5), Some(Value::Real(1.5)));
        check(json!("\\x00"), Some(Value::text("\\x00")));
        check(json!([1]), None);
        check(json!({}), None);
    }

    #[test]
    fn rust_values_become_parameters() {
        for (made, expected) in [
            (Value::from(i64::MIN), Value::Integer(i64::MIN)),
            (Value::from(1.5), Value::Real(1.5)),
            (Value::from(true), Value::Bool(true)),
            (Value::from("a"), Value::text("a")),
            (Value::from("a".to_owned()), Value::text("a")),
            (Value::from(b"a".to_vec()), Value::Blob(b"a".to_vec())),
            (Value::from(Some("a")), Value::text("a")),
            (Value::from(None::<Vec<u8>>), Value::Null),
        ] {
            assert_eq!(made, expected);
        }
    }

    #[test]
    fn what_json_has_no_form_for_is_spelt() {
        check(json!({"bytes": "\\x00fF"}), Some(Value::Blob(vec![0, 255])));
        check(json!({"bytes": "\\x"}), Some(Value::Blob(Vec::new())));
        check(
            json!({"integer": "-9223372036854775808"}),
            Some(Value::Integer(i64::MIN)),
        );
        check(
            json!({"real": "-Infinity"}),
            Some(Value::Real(f64::NEG_INFINITY)),
        );
        check(json!({"real": "5e-324"}), Some(Value::Real(5e-324)));
        for refused in [
            json!({"bytes": "00"}),
            json!({"bytes": "\\x0"}),
            json!({"bytes": "\\x0g"}),
            json!({"bytes": "\\xé"}),
            json!({"bytes": 1}),
            json!({"integer": "9223372036854775808"}),
            json!({"integer": "1.0"}),
            json!({"real": "inf"}),
            json!({"real": "1e999"}),
            json!({"text": "a"}),
            json!({"integer": "1", "real": "1"}),
        ] {
            check(refused, None);
        }
    }

    #[test]
    fn placeholders_are_given_by_number_or_by_name() {
        let used = |names: &[&str], numbers: u32| -> BTreeSet<Placeholder> {
            let names = names
                .iter()
                .map(|name| Placeholder::Name((*name).to_owned()));
            names
                .chain((1..=numbers).map(Placeholder::Number))
                .collect()
        };
        let array = |count: usize| Params::Positional(vec![Value::Null; count]);
        let object = |names: &[&str]| {
            let pairs = names.iter().map(|name| ((*name).to_owned(), Value::Null));
            Params::Named(pairs.collect())
        };
        for (given, used, told) in [
            (array(2), used(&[], 2), None),
            (
                array(1),
                used(&[], 2),
                Some("uses 2 numbered parameters and 1 are given"),
            ),
            // To SQLite these are names.
            (array(2), used(&["1", "2"], 0), None),
            (
                array(1),
                used(&["2"], 0),
                Some("not numbered from 1 without a gap"),
            ),
            (
                array(1),
                used(&[], 0),
                Some("uses no parameters and 1 are given: a placeholder in quotes is text"),
            ),
            (
                array(1),
                used(&["id"], 0),
                Some("the named parameters `id`: give an object"),
            ),
            (array(2), used(&["1"], 1), Some("mixes numbered and named")),
            (object(&["id"]), used(&["id"], 0), None),
            (object(&["1"]), used(&["1"], 0), None),
            (
                object(&[":id"]),
                used(&["id"], 0),
                Some("`id`, and `:id` are given"),
            ),
            (
                object(&["id"]),
                used(&[], 1),
                Some("uses 1 numbered parameters: give an array"),
            ),
            (object(&["id"]), used(&[], 0), Some("uses no parameters")),
        ] {
            let found = given.check(&used).err();
            match (&found, told) {
                (None, None) => {}
                (Some(found), Some(told)) => assert!(found.contains(told), "{found}"),
                (Some(_), None) | (None, Some(_)) => panic!("{given:?} {used:?}: {found:?}"),
            }
        }
        let values = Params::Positional(vec![Value::Integer(7), Value::Integer(8)]);
        let found = values.lookup(&Placeholder::Name("2".to_owned()));
        assert_eq!(found, Some(&Value::Integer(8)));
        assert_eq!(values.lookup(&Placeholder::Name("two".to_owned())), None);
    }

    /// What is read is what was meant, to the last digit.
    #[test]
    fn numbers_keep_their_last_digit() {
        let mut bits = 0x9E37_79B9_7F4A_7C15_u64;
        for _ in 0..20_000 {
            bits = bits
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let number = f64::from_bits(bits);
            if !number.is_finite() {
                continue;
            }
            let read = serde_json::from_str(&format!("[{number:?}]")).ok();
            let params = read.and_then(|json| Params::from_json(&json).ok());
            assert_eq!(params, Some(Params::Positional(vec![Value::Real(number)])));
        }
    }
}
