//! Mistakes that authors of policies make, and what `palisade policy check` says of each.
//!
//! A file holds the mistakes of one kind. A mistake is a file of a policy folder, wrong and right. The rest of the
//! folder is from `world`, and one policy of `base` stands beside it. What is right is told of nothing.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::Path};

use serde::Deserialize;
use serde_json::Value;

use crate::desk::{Answer, Desk};

/// The fewest mistakes of a kind.
const FEWEST: usize = 15;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kind {
    /// The policy that stands beside each mistake, a file of `base` or `none`.
    base: String,
    /// The file that is wrong.
    file: Option<String>,
    #[serde(default)]
    deep: bool,
    mistake: Vec<Mistake>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mistake {
    name: String,
    base: Option<String>,
    file: Option<String>,
    #[serde(default)]
    deep: bool,
    /// A file of `world` that the folder lacks.
    without: Option<String>,
    wrong: String,
    right: String,
    /// Each problem with its place, whole.
    told: String,
}

#[test]
fn mistakes_of_syntax() {
    hold("syntax");
}

#[test]
fn mistakes_of_names() {
    hold("names");
}

#[test]
fn mistakes_of_types() {
    hold("types");
}

#[test]
fn mistakes_of_annotations() {
    hold("annotations");
}

#[test]
fn policies_that_never_apply() {
    hold("unsatisfiable");
}

#[test]
fn policies_that_others_make_idle() {
    hold("shadowed");
}

#[test]
fn mistakes_of_entities() {
    hold("entities");
}

/// Each mistake of the kind is told as its file says, and what is right is told of nothing.
fn hold(kind: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/mistakes");
    let text = fs::read_to_string(folder.join(format!("{kind}.toml"))).unwrap();
    let kind: Kind = toml::from_str(&text).unwrap();
    let names: BTreeSet<_> = kind.mistake.iter().map(|mistake| &mistake.name).collect();
    let texts: BTreeSet<_> = kind.mistake.iter().map(|mistake| &mistake.wrong).collect();
    assert!(names.len() >= FEWEST, "{}", names.len());
    assert_eq!(names.len(), kind.mistake.len(), "names");
    assert_eq!(texts.len(), kind.mistake.len(), "texts");
    let mut wrong = String::new();
    for mistake in &kind.mistake {
        let told = check(&folder, &kind, mistake, &mistake.wrong);
        let silent = check(&folder, &kind, mistake, &mistake.right);
        if told != mistake.told || !silent.is_empty() {
            let name = &mistake.name;
            let _ = writeln!(
                wrong,
                "== {name}\n{told}-- expected\n{}-- mended\n{silent}",
                mistake.told
            );
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// What the check says of the folder with `text`, a line for each problem and for each help.
fn check(folder: &Path, kind: &Kind, mistake: &Mistake, text: &str) -> String {
    let desk = Desk::empty();
    for entry in fs::read_dir(folder.join("world")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let place = match name.as_str() {
            "tables.sql" => name,
            _ if mistake.without.as_ref() == Some(&name) => continue,
            _ => format!("p/{name}"),
        };
        desk.write(&place, fs::read(entry.path()).unwrap());
    }
    let base = mistake.base.as_ref().unwrap_or(&kind.base);
    if base != "none" {
        let base = folder.join("base").join(format!("{base}.cedar"));
        desk.write("p/base.cedar", fs::read(base).unwrap());
    }
    let file = mistake.file.as_ref().or(kind.file.as_ref());
    let file = file.map_or("mistake.cedar", String::as_str);
    desk.write(&format!("p/{file}"), text);
    // Masks and tokens ask for a secret.
    desk.write(
        "secret.toml",
        "token_secret_env = \"TOKEN_SECRET\"\n[grants]\nenv = [\"TOKEN_SECRET\"]\n",
    );
    let mut command = desk.command(env!("CARGO_BIN_EXE_palisade"));
    command.args(["policy", "check", "--policies", "p"]);
    command.args(["--config", "secret.toml", "--catalog", "tables.sql"]);
    command.args(["--dialect", "sqlite", "--format", "json"]);
    command.args((kind.deep || mistake.deep).then_some("--deep"));
    command.env("TOKEN_SECRET", "0".repeat(64));
    let answer = Answer::from_command(&mut command, b"");
    let told = answer.json();
    let problems = told["problems"].as_array().unwrap();
    let is_loaded = problems.iter().all(|problem| problem["level"] == "warning");
    let name = &mistake.name;
    assert_eq!(answer.exit, if is_loaded { 0 } else { 3 }, "{name}: {told}");
    problems.iter().map(describe).collect()
}

/// `base.cedar:3:1 warning[no-rows]: …`, and what to do below it.
fn describe(problem: &Value) -> String {
    let text = |key: &str| problem[key].as_str();
    let mut out = text("file").unwrap().trim_start_matches("p/").to_owned();
    for place in ["line", "column"] {
        if let Some(number) = problem[place].as_u64() {
            let _ = write!(out, ":{number}");
        }
    }
    let _ = write!(out, " {}", text("level").unwrap());
    match text("code").unwrap() {
        "not-loaded" => {}
        rule => {
            let _ = write!(out, "[{rule}]");
        }
    }
    let _ = writeln!(out, ": {}", text("message").unwrap());
    if let Some(help) = text("help") {
        let _ = writeln!(out, "  help: {help}");
    }
    out
}
