//! What earlier runs of a draw found: a run that was stopped goes on, and one with new tests tries those alone that were missed.

use std::{collections::BTreeMap, fs, path::PathBuf};

use super::list::Mutant;
use crate::run::Result;

/// A draw, and what was noticed of it.
#[derive(Default)]
pub(super) struct Memory {
    path: PathBuf,
    /// Each by what it changes, whatever its line by now.
    drawn: Vec<String>,
    /// The test program, and its test.
    noticed: BTreeMap<String, (String, String)>,
}

impl Memory {
    /// Of the draw that is kept at `path`.
    ///
    /// # Errors
    /// If what stands there is something else.
    pub(super) fn recall(path: PathBuf) -> Result<Self> {
        let Ok(text) = fs::read(&path) else {
            return Ok(Self {
                path,
                ..Self::default()
            });
        };
        let (drawn, noticed) = serde_json::from_slice(&text)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self {
            path,
            drawn,
            noticed,
        })
    }

    /// Those that were drawn before, as far as they are still there; else what `draw` takes of all.
    pub(super) fn choose(
        &mut self,
        all: Vec<Mutant>,
        draw: impl FnOnce(Vec<Mutant>) -> Vec<Mutant>,
    ) -> Result<Vec<Mutant>> {
        if self.drawn.is_empty() {
            let drawn = draw(all);
            self.drawn = drawn.iter().map(Mutant::key).collect();
            self.save()?;
            return Ok(drawn);
        }
        let mut by_key: BTreeMap<String, Mutant> = all
            .into_iter()
            .map(|mutant| (mutant.key(), mutant))
            .collect();
        let mut drawn = Vec::new();
        for key in &self.drawn {
            match by_key.remove(key) {
                Some(mutant) => drawn.push(mutant),
                None => println!("gone since it was drawn: {}", key.replace('\t', " ")),
            }
        }
        Ok(drawn)
    }

    pub(super) fn find(&self, mutant: &Mutant) -> Option<&(String, String)> {
        self.noticed.get(&mutant.key())
    }

    pub(super) fn note(&mut self, mutant: &Mutant, stage: &str, test: &str) -> Result {
        let by = (stage.to_owned(), test.to_owned());
        self.noticed.insert(mutant.key(), by);
        self.save()
    }

    fn save(&self) -> Result {
        let text = serde_json::to_vec_pretty(&(&self.drawn, &self.noticed));
        let text = text.map_err(|error| error.to_string())?;
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        }
        fs::write(&self.path, text).map_err(|error| format!("{}: {error}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    fn mutants(first_line: usize) -> Vec<Mutant> {
        let source = format!(
            "{}let a = b && c;\nlet d = e || f;\n",
            "\n".repeat(first_line - 1)
        );
        let row = |line: usize, replacement: &str| {
            json!({
                "name": format!("f.rs:{line}: {replacement}"), "file": "f.rs", "genre": "BinaryOperator",
                "replacement": replacement, "span": {"start": {"line": line, "column": 11}},
            })
        };
        let rows = [row(first_line, "||"), row(first_line + 1, "&&")];
        rows.iter()
            .map(|row| Mutant::read(row, &source).unwrap())
            .collect()
    }

    #[test]
    fn a_draw_stays_the_same_while_lines_move() {
        let folder = std::env::temp_dir().join(format!("palisade-draw-{}", std::process::id()));
        let path = folder.join("1-1.json");
        let mut memory = Memory::recall(path.clone()).unwrap();
        let only = |mut all: Vec<Mutant>| all.split_off(1);
        let drawn = memory.choose(mutants(1), only).unwrap();
        assert_eq!(drawn.first().unwrap().name, "f.rs:2: &&");
        memory.note(drawn.first().unwrap(), "a lib", "t").unwrap();
        let mut memory = Memory::recall(path).unwrap();
        let drawn = memory.choose(mutants(7), |_| Vec::new()).unwrap();
        let moved = drawn.first().unwrap();
        assert_eq!((drawn.len(), moved.name.as_str()), (1, "f.rs:8: &&"));
        assert_eq!(memory.find(moved).unwrap().1, "t");
        fs::remove_dir_all(folder).unwrap();
    }
}
