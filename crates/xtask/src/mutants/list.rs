//! Which changes there are, by `cargo-mutants`, and which of them are drawn.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::run::{Result, cargo, exists, root};

/// The packages that decide: what they say otherwise must not go unnoticed.
pub(super) const CODE: [&str; 6] = [
    "palisade",
    "palisade-sqlite",
    "palisade-postgres",
    "palisade-mysql",
    "palisade-pool",
    "palisade-state",
];

/// Parts of functions' names whose bodies only word what others decided.
const WORDS_ONLY: [&str; 5] = [
    "Display for ",
    "Debug for ",
    "std::error::Error for ",
    "error::Error for ",
    "<impl Error for ",
];

const CARGO_MUTANTS: &str = "cargo-mutants";

/// A change of the code.
pub(super) struct Mutant {
    /// File, line, column and what is changed, for people.
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) kind: Kind,
    /// Line and column of the first character that is replaced, both from 1.
    pub(super) start: (usize, usize),
}

/// What of the code is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Body,
    Binary,
    Unary,
    Arm,
    Guard,
    Field,
}

impl Kind {
    fn parse(genre: &str) -> Option<Self> {
        Some(match genre {
            "FnValue" => Self::Body,
            "BinaryOperator" => Self::Binary,
            "UnaryOperator" => Self::Unary,
            "MatchArm" => Self::Arm,
            "MatchArmGuard" => Self::Guard,
            "StructField" => Self::Field,
            _ => return None,
        })
    }
}

/// Which change it is, wherever its line has moved to.
#[derive(PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: String,
    /// The first line that it changes.
    line: String,
    pub(super) replacement: String,
}

impl Mutant {
    /// From a row of `--list --json`, and the text of its file.
    pub(super) fn read(row: &Value, source: &str) -> Option<Self> {
        let start = row.get("span")?.get("start")?;
        let number = |name: &str| {
            let number = start.get(name).and_then(Value::as_u64)?;
            usize::try_from(number).ok()
        };
        let text = |name: &str| Some(row.get(name)?.as_str()?.to_owned());
        let start = (number("line")?, number("column")?);
        Some(Self {
            name: text("name")?,
            place: Place {
                file: text("file")?,
                line: source
                    .lines()
                    .nth(start.0.checked_sub(1)?)?
                    .trim()
                    .to_owned(),
                replacement: text("replacement")?,
            },
            kind: Kind::parse(row.get("genre")?.as_str()?)?,
            start,
        })
    }
}

impl Mutant {
    /// What it changes, whatever its line by now.
    pub(super) fn key(&self) -> String {
        let Place {
            file,
            line,
            replacement,
        } = &self.place;
        format!("{file}\t{line}\t{}\t{replacement}", self.start.1)
    }
}

impl Place {
    /// From a row of the file of those that are equivalent.
    fn from_equivalent(row: &Value) -> Option<Self> {
        let text = |name: &str| Some(row.get(name)?.as_str()?.to_owned());
        text("reason")?;
        Some(Self {
            file: text("file")?,
            line: text("line")?,
            replacement: text("replacement")?,
        })
    }

    /// The row that says that it is equivalent, once the reason is filled in.
    pub(super) fn to_row(&self) -> Value {
        serde_json::json!({
            "file": self.file,
            "line": self.line,
            "replacement": self.replacement,
            "reason": "",
        })
    }
}

/// Changes that make no difference, each with the reason why.
pub(super) fn read_equivalents() -> Result<Vec<Place>> {
    let path = root().join("crates/xtask/mutants.json");
    let rows =
        read_rows(&fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?)?;
    rows.iter()
        .map(|row| {
            Place::from_equivalent(row).ok_or_else(|| {
                let path = path.display();
                format!("{path}: a row needs file, line, replacement and reason: {row}")
            })
        })
        .collect()
}

fn read_rows(json: &[u8]) -> Result<Vec<Value>> {
    serde_json::from_slice(json).map_err(|error| format!("not a list of changes: {error}"))
}

/// The program; installed under `target/tools` where it is missing.
pub(super) fn install() -> Result<PathBuf> {
    let tools = root().join("target/tools");
    let own = tools.join("bin/cargo-mutants");
    if own.exists() {
        return Ok(own);
    }
    if exists(CARGO_MUTANTS, &["--version"]) {
        return Ok(CARGO_MUTANTS.into());
    }
    let tools = tools.to_string_lossy().into_owned();
    cargo(&[
        "install",
        CARGO_MUTANTS,
        "--locked",
        "--debug",
        "--root",
        &tools,
    ])?;
    Ok(own)
}

/// All changes of what decides in `tree`.
pub(super) fn list(program: &Path, tree: &Path) -> Result<Vec<Mutant>> {
    let output = Command::new(program)
        .args(["mutants", "--list", "--json"])
        .args(CODE.iter().flat_map(|package| ["--package", package]))
        .current_dir(tree)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let mut all = Vec::new();
    let mut sources: BTreeMap<String, String> = BTreeMap::new();
    for row in read_rows(&output.stdout)? {
        let file = row.get("file").and_then(Value::as_str).unwrap_or_default();
        let source = sources
            .entry(file.to_owned())
            .or_insert_with(|| fs::read_to_string(tree.join(file)).unwrap_or_default());
        let mutant = Mutant::read(&row, source).ok_or_else(|| format!("not a change: {row}"))?;
        let function = row.get("function").and_then(|f| f.get("function_name"));
        let function = function.and_then(Value::as_str).unwrap_or_default();
        if !WORDS_ONLY.iter().any(|part| function.contains(part)) {
            all.push(mutant);
        }
    }
    Ok(all)
}

/// So many of them, in an order that the seed alone decides.
pub(super) fn draw(mut all: Vec<Mutant>, sample: usize, seed: u64) -> Vec<Mutant> {
    // `splitmix64`: any mix that is the same everywhere would do.
    let mut state = seed;
    let mut keyed: BTreeMap<u64, Mutant> = BTreeMap::new();
    for mutant in all.drain(..) {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut key = state;
        key = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        key = (key ^ (key >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        keyed.insert(key ^ (key >> 31), mutant);
    }
    keyed.into_values().take(sample).collect()
}
