//! Whether tests notice when deciding code says something else: a sample of small changes, made by `cargo-mutants`.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::run::{Result, cargo, exists, root, run};

const HELP: &str = "\
Usage: cargo xtask mutants [--sample N] [--seed S] [--list]

Changes the deciding code in N places (20), one at a time, and runs the tests of the core and the corpus. A change that
no test notices is shown, unless `crates/xtask/mutants.json` says why it is equivalent. Takes some minutes each.

  --sample N      how many changes are drawn
  --seed S        which ones (1)
  --list          prints those that are drawn, and runs nothing

Example:
  cargo xtask mutants --sample 5 --seed 7 --list";

/// The packages that decide: what they say otherwise must not go unnoticed.
const CODE: [&str; 6] = [
    "palisade",
    "palisade-sqlite",
    "palisade-postgres",
    "palisade-mysql",
    "palisade-pool",
    "palisade-state",
];

/// The packages whose tests are run.
const TESTS: &str = "palisade,palisade-corpus,palisade-sqlite";

/// The version that is installed where there is none.
const CARGO_MUTANTS: &str = "cargo-mutants";

/// A change of the code.
struct Mutant {
    name: String,
    place: Place,
}

/// Which change it is, wherever its line has moved to.
#[derive(PartialEq, Eq)]
struct Place {
    file: String,
    /// The first line that it changes.
    line: String,
    replacement: String,
}

impl Place {
    /// From a row of `--list --json`.
    fn from_mutant(row: &Value) -> Option<Self> {
        let diff = row.get("diff")?.as_str()?;
        let changed = diff
            .lines()
            .find(|line| line.starts_with('-') && !line.starts_with("---"))?;
        Some(Self {
            file: row.get("file")?.as_str()?.to_owned(),
            line: changed.trim_start_matches('-').trim().to_owned(),
            replacement: row.get("replacement")?.as_str()?.to_owned(),
        })
    }

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
}

/// Draws changes and runs the tests over each, as `args` say.
pub(crate) fn run_sample(args: &[String]) -> Result {
    let Some(wanted) = Wanted::parse(args)? else {
        println!("{HELP}");
        return Ok(());
    };
    let program = install()?;
    let tree = fresh_tree()?;
    let drawn = draw(list(&program, &tree)?, &wanted);
    for mutant in &drawn {
        println!("{}", mutant.name);
    }
    if wanted.lists {
        return Ok(());
    }
    let equivalents = read_equivalents()?;
    let (equivalent, tested): (Vec<_>, Vec<_>) = drawn
        .iter()
        .partition(|mutant| equivalents.contains(&mutant.place));
    let outcomes = test(&program, &tree, &tested)?;
    report(&outcomes, equivalent.len())
}

struct Wanted {
    sample: usize,
    seed: u64,
    lists: bool,
}

impl Wanted {
    fn parse(args: &[String]) -> Result<Option<Self>> {
        let mut wanted = Self {
            sample: 20,
            seed: 1,
            lists: false,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut number = || -> Result<u64> {
                let value = args.next().and_then(|value| value.parse().ok());
                value.ok_or_else(|| format!("`{arg}` needs a number\n\n{HELP}"))
            };
            match arg.as_str() {
                "--sample" => wanted.sample = usize::try_from(number()?).unwrap_or(usize::MAX),
                "--seed" => wanted.seed = number()?,
                "--list" => wanted.lists = true,
                "--help" | "-h" => return Ok(None),
                other => return Err(format!("there is no option `{other}`\n\n{HELP}")),
            }
        }
        Ok(Some(wanted))
    }
}

/// Changes that make no difference, each with the reason why.
fn read_equivalents() -> Result<Vec<Place>> {
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
fn install() -> Result<PathBuf> {
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

/// A work tree of what is committed, so that no change is ever made to yours. What was built in it the last time stays.
fn fresh_tree() -> Result<PathBuf> {
    let tree = root().join("target/mutants/tree");
    let git =
        |args: &[&str], folder: &Path| run(Command::new("git").args(args).current_dir(folder));
    if !tree.exists() {
        git(&["worktree", "prune"], &root())?;
        let path = tree.to_string_lossy().into_owned();
        git(&["worktree", "add", "--detach", &path], &root())?;
    }
    let head = Command::new("git")
        .args(["rev-parse", "HEAD"])
        .current_dir(root())
        .output()
        .map_err(|error| format!("git: {error}"))?;
    let head = String::from_utf8_lossy(&head.stdout).trim().to_owned();
    git(&["reset", "--hard", &head], &tree)?;
    Ok(tree)
}

fn list(program: &Path, tree: &Path) -> Result<Vec<Mutant>> {
    let mut command = mutants(program, tree);
    let output = command
        .args(["--list", "--json"])
        .args(CODE.iter().flat_map(|package| ["--package", package]))
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let rows = read_rows(&output.stdout)?;
    let read = |row: &Value| {
        let name = row.get("name")?.as_str()?.to_owned();
        let place = Place::from_mutant(row)?;
        Some(Mutant { name, place })
    };
    rows.iter()
        .map(|row| read(row).ok_or_else(|| format!("not a change: {row}")))
        .collect()
}

fn mutants(program: &Path, tree: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .arg("mutants")
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", root().join("target/mutants/target"))
        .stdin(Stdio::null());
    command
}

/// So many of them, in an order that the seed alone decides.
fn draw(mut all: Vec<Mutant>, wanted: &Wanted) -> Vec<Mutant> {
    // `splitmix64`: any mix that is the same everywhere would do.
    let mut state = wanted.seed;
    let mut keyed: BTreeMap<u64, Mutant> = BTreeMap::new();
    for mutant in all.drain(..) {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut key = state;
        key = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        key = (key ^ (key >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        keyed.insert(key ^ (key >> 31), mutant);
    }
    keyed.into_values().take(wanted.sample).collect()
}

/// How each ended: by the names of `cargo-mutants`.
fn test(program: &Path, tree: &Path, tested: &[&Mutant]) -> Result<Vec<(String, String)>> {
    let mut outcomes = Vec::new();
    for mutant in tested {
        let out = root().join("target/mutants/out");
        let name = format!("^{}$", escape(&mutant.name));
        let mut command = mutants(program, tree);
        command
            .args([
                "--in-place",
                "--baseline=skip",
                "--timeout=600",
                "--no-shuffle",
            ])
            .args(["--workspace", "--file", &mutant.place.file, "--re", &name])
            .args(["--test-package", TESTS])
            .arg("--output")
            .arg(&out);
        // What it ends with tells how the change ended, and so does its report.
        let _ = command.status();
        outcomes.push((mutant.name.clone(), read_outcome(&out)?));
    }
    Ok(outcomes)
}

fn read_outcome(out: &Path) -> Result<String> {
    let path = out.join("mutants.out/outcomes.json");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let json: Value =
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    let count = |name: &str| json.get(name).and_then(Value::as_u64);
    ["caught", "missed", "timeout", "unviable"]
        .into_iter()
        .find(|name| count(name) == Some(1))
        .map(str::to_owned)
        .ok_or_else(|| format!("{} tells of no change, or of several", path.display()))
}

/// `name` as an expression that means itself.
fn escape(name: &str) -> String {
    let mut out = String::new();
    for char in name.chars() {
        if char.is_ascii() && !char.is_ascii_alphanumeric() && char != ' ' {
            out.push('\\');
        }
        out.push(char);
    }
    out
}

fn report(outcomes: &[(String, String)], equivalent: usize) -> Result {
    let count = |kind: &str| outcomes.iter().filter(|(_, o)| o == kind).count();
    let caught = count("caught") + count("timeout");
    let missed: Vec<&str> = (outcomes.iter().filter(|(_, outcome)| outcome == "missed"))
        .map(|(name, _)| name.as_str())
        .collect();
    println!(
        "\n{caught} of {} changes were noticed; {equivalent} are equivalent, {} do not compile",
        caught + missed.len(),
        count("unviable")
    );
    if missed.is_empty() {
        return Ok(());
    }
    Err(format!(
        "no test notices:\n  {}\nwrite a test, or say in crates/xtask/mutants.json why it makes no difference",
        missed.join("\n  ")
    ))
}
