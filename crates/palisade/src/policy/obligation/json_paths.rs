//! Which parts of a JSON document are shown: `@mask("paths(preferences, address.city)")`.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
};

/// The most paths of one mask, and the most keys of one path: the statement that runs holds an expression for each.
const MOST_PATHS: usize = 64;
const MOST_KEYS: usize = 16;

/// The keys of an object that are shown, each with what is shown of its value. It is never empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JsonPaths(BTreeMap<String, ShownValue>);

/// What is shown of the value of a key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShownValue {
    /// All of it, whatever it is: `address`.
    Whole,
    /// All of it, where it is an object: `address.*`.
    Members,
    /// Some keys, where it is an object: `address.city`.
    Keys(JsonPaths),
}

impl JsonPaths {
    /// Reads paths that stand between commas.
    ///
    /// # Errors
    ///
    /// What is wrong with them, and what to write.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let paths: Vec<&str> = text.split(',').map(str::trim).collect();
        if paths.len() > MOST_PATHS {
            return Err(format!(
                "a mask has at most {MOST_PATHS} paths; write the key that several of them begin with"
            ));
        }
        let mut all = Self(BTreeMap::new());
        for path in paths {
            let keys: Vec<&str> = path.split('.').collect();
            if keys.len() > MOST_KEYS {
                return Err(format!("`{path}` has more than {MOST_KEYS} keys"));
            }
            all.add(path, &keys)?;
        }
        Ok(all)
    }

    fn add(&mut self, path: &str, keys: &[&str]) -> Result<(), String> {
        let [key, rest @ ..] = keys else {
            return Err(format!("`{path}` names no key"));
        };
        if key.contains(['[', ']']) {
            return Err(format!(
                "`{path}` leads into an array: write the array's own key, which shows all of it"
            ));
        }
        let is_key =
            |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '@' | ':' | '/' | '$' | ' ');
        if key.is_empty() || !key.chars().all(is_key) {
            return Err(format!(
                "`{path}` is no path: write keys with points between them, as in `address.city`, \
                 and `.*` only at the end"
            ));
        }
        let shown = match rest {
            [] => ShownValue::Whole,
            ["*"] => ShownValue::Members,
            _ => {
                let mut below = Self(BTreeMap::new());
                below.add(path, rest)?;
                ShownValue::Keys(below)
            }
        };
        match self.0.entry((*key).to_owned()) {
            Entry::Vacant(vacant) => {
                vacant.insert(shown);
            }
            Entry::Occupied(mut occupied) => {
                let both = occupied.get().clone().union(shown);
                occupied.insert(both);
            }
        }
        Ok(())
    }

    /// Each key that is shown.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (&str, &ShownValue)> {
        self.0.iter().map(|(key, shown)| (key.as_str(), shown))
    }

    fn union(mut self, other: Self) -> Self {
        for (key, shown) in other.0 {
            let both = match self.0.remove(&key) {
                Some(own) => own.union(shown),
                None => shown,
            };
            self.0.insert(key, both);
        }
        self
    }

    /// What both show; `None` where that is nothing.
    pub(crate) fn intersection(&self, other: &Self) -> Option<Self> {
        let both: BTreeMap<String, ShownValue> = self
            .0
            .iter()
            .filter_map(|(key, own)| Some((key.clone(), own.intersection(other.0.get(key)?)?)))
            .collect();
        (!both.is_empty()).then_some(Self(both))
    }

    fn write(&self, before: &str, out: &mut Vec<String>) {
        for (key, shown) in &self.0 {
            let path = format!("{before}{key}");
            match shown {
                ShownValue::Whole => out.push(path),
                ShownValue::Members => out.push(format!("{path}.*")),
                ShownValue::Keys(keys) => keys.write(&format!("{path}."), out),
            }
        }
    }
}

impl ShownValue {
    fn union(self, other: Self) -> Self {
        match (self, other) {
            (Self::Whole, _) | (_, Self::Whole) => Self::Whole,
            (Self::Members, _) | (_, Self::Members) => Self::Members,
            (Self::Keys(one), Self::Keys(another)) => Self::Keys(one.union(another)),
        }
    }

    fn intersection(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Whole, shown) | (shown, Self::Whole) => Some(shown.clone()),
            (Self::Members, shown) | (shown, Self::Members) => Some(shown.clone()),
            (Self::Keys(one), Self::Keys(another)) => one.intersection(another).map(Self::Keys),
        }
    }
}

/// As they are written between the parentheses.
impl fmt::Display for JsonPaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut paths = Vec::new();
        self.write("", &mut paths);
        f.write_str(&paths.join(", "))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::JsonPaths;

    fn paths(text: &str) -> JsonPaths {
        JsonPaths::parse(text).unwrap()
    }

    #[test]
    fn paths_are_read_and_written() {
        for (text, written) in [
            ("address.city", "address.city"),
            (" b , a.c,a.b ", "a.b, a.c, b"),
            ("preferences.*", "preferences.*"),
            ("a.b, a", "a"),
            ("a.b, a.*", "a.*"),
            ("größe, @type, first name", "@type, first name, größe"),
        ] {
            assert_eq!(paths(text).to_string(), written);
        }
        for (text, message) in [
            ("", "is no path"),
            ("a..b", "is no path"),
            ("*", "is no path"),
            ("a.*.b", "is no path"),
            ("a, ", "is no path"),
            ("a.\"b\"", "is no path"),
            ("items[*].name", "an array"),
            ("items.[0]", "an array"),
            (&["k"; 17].join("."), "more than 16"),
            (&["k"; 65].join(","), "at most 64"),
        ] {
            let told = JsonPaths::parse(text).unwrap_err();
            assert!(told.contains(message), "{text}: {told}");
        }
    }

    #[test]
    fn two_show_what_both_show() {
        for (one, other, both) in [
            ("a, b", "b, c", Some("b")),
            ("a", "b", None),
            ("a.b, c", "a", Some("a.b")),
            ("a.*", "a", Some("a.*")),
            ("a.*", "a.b.c", Some("a.b.c")),
            ("a.b, a.c", "a.c, a.d", Some("a.c")),
            ("a.b", "a.c", None),
        ] {
            let found = paths(one).intersection(&paths(other));
            assert_eq!(found, paths(other).intersection(&paths(one)));
            assert_eq!(found.map(|both| both.to_string()).as_deref(), both);
        }
    }
}
