//! Builds the tests of the changed tree, and finds the changes that do not compile.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;

use super::{
    list::Mutant,
    stages::{self, Stage},
    tree::{Marks, Tree},
};
use crate::run::{FULL, Result, root};

/// How far from a change an error may stand that is its fault.
const NEAR_BYTES: usize = 4000;

/// A test program of the tree.
pub(super) struct Binary {
    pub(super) stage: &'static Stage,
    pub(super) program: PathBuf,
    pub(super) folder: PathBuf,
}

/// Changes that are not tested, each with the reason.
#[derive(Default)]
pub(super) struct LeftOut {
    /// They do not compile.
    pub(super) unviable: BTreeMap<u32, String>,
    /// No switch can make them.
    pub(super) unswitched: BTreeMap<u32, String>,
}

impl LeftOut {
    pub(super) fn numbers(&self) -> BTreeSet<u32> {
        let numbers = self.unviable.keys().chain(self.unswitched.keys());
        numbers.copied().collect()
    }
}

/// The test programs of `tree` with all of `drawn` that compile.
pub(super) fn build(
    tree: &mut Tree,
    drawn: &[Mutant],
    left_out: &mut LeftOut,
) -> Result<Vec<Binary>> {
    loop {
        for (number, reason) in tree.write_switches(drawn, &left_out.numbers())? {
            left_out.unswitched.insert(number, reason.to_owned());
        }
        let (built, messages) = run_cargo(&tree.path)?;
        if built {
            return read_binaries(&messages);
        }
        let before = left_out.numbers().len();
        blame(tree, &messages, left_out);
        let after = left_out.numbers().len();
        if before == after {
            let all: Vec<String> = messages.iter().filter_map(read_error_text).collect();
            return Err(format!(
                "the tree does not build, and no change is at fault:\n{}",
                all.join("\n")
            ));
        }
        println!("    {} do not compile or cannot be switched", after);
    }
}

/// Whether the tests were built, and what the compiler said.
fn run_cargo(tree: &Path) -> Result<(bool, Vec<Value>)> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    command
        .args(["test", "--workspace", "--no-run", "--lib"])
        .args(stages::targets().flat_map(|name| ["--test", name]))
        .args(["--message-format", "json"])
        .args(FULL)
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", root().join("target"))
        .env("CARGO_INCREMENTAL", "0")
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let output = command
        .output()
        .map_err(|error| format!("cargo cannot be started: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    Ok((output.status.success(), messages))
}

fn read_binaries(messages: &[Value]) -> Result<Vec<Binary>> {
    let mut binaries: Vec<Binary> = messages.iter().filter_map(read_binary).collect();
    binaries.sort_by_key(|binary| stages::rank(binary.stage));
    if binaries.is_empty() {
        return Err("cargo built no tests".to_owned());
    }
    Ok(binaries)
}

fn read_binary(message: &Value) -> Option<Binary> {
    let is_test = message.get("profile")?.get("test")?.as_bool()?;
    let program = message.get("executable")?.as_str()?;
    let folder = Path::new(message.get("manifest_path")?.as_str()?).parent()?;
    let package = folder.file_name()?.to_str()?;
    let target = message.get("target")?;
    let is_lib = target.get("kind")?.get(0)?.as_str()? == "lib";
    let name = target.get("name")?.as_str()?;
    let stage = stages::find(package, if is_lib { "lib" } else { name })?;
    is_test.then(|| Binary {
        stage,
        program: PathBuf::from(program),
        folder: folder.to_path_buf(),
    })
}

/// Adds the changes that are at fault for the errors in `messages`.
fn blame(tree: &Tree, messages: &[Value], left_out: &mut LeftOut) {
    for message in messages {
        let Some(error) = Error::read(message) else {
            continue;
        };
        let (numbers, exact) = error.find_changes(&tree.marks);
        // `E0015` is a call in a constant; what stands around a change may only lack a switch that can be compiled.
        let unviable = exact && error.code != "E0015";
        for number in numbers {
            let list = if unviable {
                &mut left_out.unviable
            } else {
                &mut left_out.unswitched
            };
            list.entry(number).or_insert_with(|| error.text.clone());
        }
    }
}

/// An error of the compiler.
struct Error {
    code: String,
    text: String,
    /// Where it is, the main places first: file, and bytes of it.
    spans: Vec<(String, usize, usize)>,
}

impl Error {
    fn read(message: &Value) -> Option<Self> {
        let message = message.get("message")?;
        if message.get("level")?.as_str()? != "error" {
            return None;
        }
        let code = message.get("code").and_then(|code| code.get("code"));
        let mut spans = Vec::new();
        for main in [true, false] {
            for span in message.get("spans")?.as_array()? {
                if span.get("is_primary")?.as_bool()? == main {
                    let byte = |name: &str| usize::try_from(span.get(name)?.as_u64()?).ok();
                    let file = span.get("file_name")?.as_str()?.to_owned();
                    spans.push((file, byte("byte_start")?, byte("byte_end")?));
                }
            }
        }
        Some(Self {
            code: code.and_then(Value::as_str).unwrap_or_default().to_owned(),
            text: message.get("message")?.as_str()?.to_owned(),
            spans,
        })
    }

    /// The changes that are at fault, and whether the error stands in the text of one.
    fn find_changes(&self, marks: &BTreeMap<String, Marks>) -> (Vec<u32>, bool) {
        for (file, start, end) in &self.spans {
            let Some(marks) = marks.get(file) else {
                continue;
            };
            // The innermost: the text of outer ones has that of inner ones in it.
            let inside = (marks.changes.iter())
                .filter(|(_, range)| range.start <= *start && *end <= range.end)
                .min_by_key(|(_, range)| range.len());
            if let Some((number, _)) = inside {
                return (vec![*number], true);
            }
        }
        for (file, start, end) in &self.spans {
            let Some(marks) = marks.get(file) else {
                continue;
            };
            let distance = |range: &std::ops::Range<usize>| {
                range.start.saturating_sub(*end) + start.saturating_sub(range.end)
            };
            let nearest = (marks.around.iter())
                .min_by_key(|(_, range)| (distance(range), range.len()))
                .filter(|(_, range)| distance(range) < NEAR_BYTES);
            if let Some((numbers, _)) = nearest {
                return (numbers.clone(), false);
            }
        }
        (Vec::new(), false)
    }
}

fn read_error_text(message: &Value) -> Option<String> {
    let message = message.get("message")?;
    let is_error = message.get("level")?.as_str()? == "error";
    is_error.then(|| Some(message.get("rendered")?.as_str()?.to_owned()))?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Change 1 stands in what change 0 changes; change 2 further behind.
    fn marks() -> BTreeMap<String, Marks> {
        let marks = Marks {
            changes: vec![(0, 10..100), (1, 20..40), (2, 300..400)],
            around: vec![(vec![0], 5..200), (vec![1], 20..60), (vec![2], 290..450)],
        };
        BTreeMap::from([("f.rs".to_owned(), marks)])
    }

    #[test]
    fn an_error_is_the_fault_of_the_innermost_change_or_the_nearest() {
        for (file, start, end, expected) in [
            ("f.rs", 25, 30, (vec![1], true)),
            ("f.rs", 70, 75, (vec![0], true)),
            ("f.rs", 45, 50, (vec![0], true)),
            ("f.rs", 150, 160, (vec![0], false)),
            ("f.rs", 500, 510, (vec![2], false)),
            ("f.rs", 9000, 9010, (vec![], false)),
            ("g.rs", 25, 30, (vec![], false)),
        ] {
            let error = Error {
                code: String::new(),
                text: String::new(),
                spans: vec![(file.to_owned(), start, end)],
            };
            assert_eq!(error.find_changes(&marks()), expected, "{file} {start}");
        }
    }
}
