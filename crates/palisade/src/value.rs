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

impl Value {
    /// Text from a Rust string.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into().into_bytes())
    }
}

/// The parameters that came with a statement.
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

impl Params {
    /// Parameters from the JSON that a client sends: an array, an object, or null.
    ///
    /// # Errors
    /// A text for the client if it is anything else, or holds arrays or objects.
    pub fn from_json(json: &serde_json::Value) -> Result<Self, String> {
        use serde_json::Value as Json;
        let scalar = |json: &Json| match json {
            Json::Null => Ok(Value::Null),
            Json::Bool(b) => Ok(Value::Bool(*b)),
            Json::Number(n) => match n.as_i64() {
                Some(i) => Ok(Value::Integer(i)),
                None if n.is_u64() => Err("a parameter is larger than 64-bit integers".to_owned()),
                None => n
                    .as_f64()
                    .map(Value::Real)
                    .ok_or_else(|| "a parameter is not a number".to_owned()),
            },
            Json::String(s) => Ok(Value::text(s.clone())),
            Json::Array(_) | Json::Object(_) => {
                Err("a parameter must be null, a boolean, a number or a string".to_owned())
            }
        };
        match json {
            Json::Null => Ok(Self::None),
            Json::Array(items) => Ok(Self::Positional(
                items.iter().map(scalar).collect::<Result<_, _>>()?,
            )),
            Json::Object(map) => map
                .iter()
                .map(|(name, json)| Ok((name.clone(), scalar(json)?)))
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
            (Self::Positional(values), Placeholder::Number(n)) => {
                values.get(usize::try_from(*n).ok()?.checked_sub(1)?)
            }
            (Self::Named(values), Placeholder::Name(name)) => values.get(name),
            (Self::None | Self::Positional(_) | Self::Named(_), _) => None,
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
                if *used == given {
                    Ok(())
                } else {
                    Err(format!(
                        "the statement uses {} numbered parameters and {} are given",
                        used.len(),
                        values.len()
                    ))
                }
            }
            Self::Named(values) => {
                let given: BTreeSet<_> = values.keys().cloned().map(Placeholder::Name).collect();
                if *used == given {
                    Ok(())
                } else {
                    Err(
                        "the names of the parameters given are not those the statement uses"
                            .to_owned(),
                    )
                }
            }
        }
    }
}

/// A placeholder in a statement.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Placeholder {
    /// `?`, `?3`: counted from 1.
    Number(u32),
    /// `:a`, `@a`, `$a`, without the sigil.
    Name(String),
}

/// Takes the rows of an answer, one at a time.
pub trait RowSink {
    /// The names the engine gives the columns, before the first row. A break means that the answer
    /// has another shape than was decided; nothing more is read.
    fn columns(&mut self, names: &[&str]) -> ControlFlow<()>;

    /// One row, a cell for each column. A break means that no more rows are wanted.
    fn row(&mut self, cells: Vec<Value>) -> ControlFlow<()>;
}
