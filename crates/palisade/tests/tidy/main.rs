//! The rules that no compiler checks: layers, foreign crates, file sizes, catch-all arms, names, prose.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod imports;
mod names;
mod prose;
mod rooms;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use regex::Regex;

/// The modules of the core, each layer above those that may import from it (ARCHITECTURE.md).
const LAYERS: &[&[&str]] = &[
    &[
        "did_you_mean",
        "ident",
        "dialect",
        "code",
        "digest",
        "limits",
        "moment",
        "past",
        "rejection",
        "stage_span",
        "tool_names",
        "token",
        "value",
        "host",
    ],
    &["catalog", "session", "access"],
    &["syntax"],
    &["policy"],
    &["lineage", "resolve"],
    &["answer"],
    &["rewrite"],
    &["approval", "audit", "change"],
    &["error", "firewall"],
    &["guard"],
    &["danger"],
];

fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.file_name().unwrap() != "target" {
                files.extend(sources(&path));
            }
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn core() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The text of a file without its tests and comments.
fn code(path: &Path) -> String {
    code_of(&fs::read_to_string(path).unwrap())
}

fn code_of(text: &str) -> String {
    let text = text
        .split("#[cfg(test)]\nmod tests")
        .next()
        .unwrap()
        .to_owned();
    text.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n")
}

fn module(path: &Path) -> String {
    let relative = path.strip_prefix(core()).unwrap();
    let first = relative
        .components()
        .next()
        .unwrap()
        .as_os_str()
        .to_str()
        .unwrap();
    first.trim_end_matches(".rs").to_owned()
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// Whether a file of the core is compiled for tests alone: `tests.rs`, and what stands in a folder `tests`.
fn is_test_only(path: &Path) -> bool {
    let within = path.strip_prefix(core()).unwrap();
    within.ends_with("tests.rs") || within.components().any(|part| part.as_os_str() == "tests")
}

#[test]
fn modules_import_only_from_layers_above() {
    let single = Regex::new(r"\bcrate::(\w+)").unwrap();
    let group = Regex::new(r"(?s)use crate::\{(.*?)\n?\};").unwrap();
    let inner = Regex::new(r"(?:^|[,{]\s*)(\w+)").unwrap();
    let mut wrong = Vec::new();
    for path in sources(&core()) {
        let from = module(&path);
        if from == "lib" || is_test_only(&path) {
            continue;
        }
        let own = layer(&from).unwrap_or_else(|| panic!("`{from}` is in no layer"));
        let text = code(&path);
        let mut imports: Vec<String> = single
            .captures_iter(&text)
            .map(|c| c[1].to_owned())
            .collect();
        for capture in group.captures_iter(&text) {
            // Only the first words of a group's items are modules.
            let mut depth = 0;
            let mut top = String::new();
            for c in capture[1].chars() {
                match c {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    _ if depth == 0 => top.push(c),
                    _ => {}
                }
            }
            imports.extend(inner.captures_iter(&top).map(|c| c[1].to_owned()));
        }
        for import in imports {
            if let Some(theirs) = layer(&import)
                && theirs > own
            {
                wrong.push(format!("{}: `{from}` imports `{import}`", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn foreign_crates_stay_where_they_belong() {
    let allowed: &[(&str, &[&str])] = &[
        ("sqlparser", &["syntax", "resolve", "rewrite"]),
        ("cedar_policy", &["policy"]),
        ("stacker", &["syntax"]),
        ("sha2", &["digest"]),
        ("palisade_scan", &["answer"]),
        ("regex", &[]),
        ("toml", &["policy"]),
    ];
    let mut wrong = Vec::new();
    for path in sources(&core()) {
        let from = module(&path);
        let text = code(&path);
        for (krate, modules) in allowed {
            let named = Regex::new(&format!(r"\b{krate}::")).unwrap();
            if named.is_match(&text) && !modules.contains(&from.as_str()) {
                wrong.push(format!("{}: names `{krate}`", path.display()));
            }
        }
        for banned in [
            "std::fs",
            "std::env",
            "std::net",
            "std::process",
            "SystemTime",
            "Instant::",
        ] {
            if text.contains(banned) {
                wrong.push(format!("{}: the core has no `{banned}`", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Each type that visits by the parser's own traits, or a closure that its helpers are given, is another copy of its derived
/// visits: hundreds of functions.
#[test]
fn one_file_visits_by_the_parser() {
    let visits =
        Regex::new(r"\b(Visitor(Mut)?|visit_(expressions|relations|statements)(_mut)?)\b").unwrap();
    let mut found = Vec::new();
    for path in sources(&core()) {
        let text = code(&path);
        if text.contains("sqlparser") && visits.is_match(&text) {
            found.push(path.strip_prefix(core()).unwrap().to_owned());
        }
    }
    assert_eq!(found, [Path::new("syntax/visit.rs")]);
}

#[test]
fn files_are_small() {
    let root = core().join("../../..");
    let mut wrong = Vec::new();
    for dir in ["crates", "benches", "fuzz"] {
        for path in sources(&root.join(dir)) {
            let size = fs::metadata(&path).unwrap().len();
            if size > 40 * 1024 {
                wrong.push(format!("{}: {size} bytes", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// In the code that decides about a tree, a catch-all arm may only refuse, and a pattern names every
/// field: what a parser upgrade adds must not slip through.
///
/// `None`, `false` and `OperandClass::Unknown` say that nothing is known. A function that gives them is named after what is certain: `is_settled`,
/// `key_value`. Going on with a visit admits, so it is no catch-all's answer. The roles of `syntax/role` are there to be written
/// out.
#[test]
fn catch_all_arms_only_refuse() {
    let arm = Regex::new(r"(?m)^\s*(?:_|\(_(?:, _)*\)) => *(\{\s*)?(.*)$").unwrap();
    let refuses = Regex::new(
        r"^(return )?(Found::Ambiguous|OperandClass::Unknown|Err\(|not_as_decided\(|None\b|false\b|unsupported|refuse_unsupported|\w+\(\)\))|^return Err",
    )
    .unwrap();
    let named = Regex::new(r"(?m)^\s*\w+ => !?matches!").unwrap();
    let rest = Regex::new(r"[{,]\s*\.\.\s*[})]").unwrap();
    let mut wrong = Vec::new();
    for path in sources(&core()) {
        if !matches!(module(&path).as_str(), "resolve" | "rewrite") || is_test_only(&path) {
            continue;
        }
        let text = code(&path);
        for capture in arm.captures_iter(&text) {
            if !refuses.is_match(capture[2].trim()) {
                wrong.push(format!("{}: `_ => {}`", path.display(), &capture[2]));
            }
        }
        for found in [named.find(&text), rest.find(&text)].into_iter().flatten() {
            wrong.push(format!("{}: `{}`", path.display(), found.as_str().trim()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Names of the core's public interface that would tie embedders to a parser or policy engine.
#[test]
fn no_foreign_type_is_public() {
    let public =
        Regex::new(r"(?m)^\s*pub (fn|struct|enum|trait|use|type)[^\n]*(sqlparser|cedar_policy)")
            .unwrap();
    for path in sources(&core()) {
        let text = code(&path);
        assert!(!public.is_match(&text), "{}", path.display());
    }
}

/// Each file that the page sends its reader to is there, with every name in backquotes behind it.
#[test]
fn files_to_find_are_there() {
    let root = core().join("../../..");
    let page = fs::read_to_string(root.join("docs/internals/finding-your-way.md")).unwrap();
    let link = Regex::new(r"\| `([^`]+/[^`]+)` \|(.*)").unwrap();
    let name = Regex::new(r"`(\w+(?:::\w+)*)`").unwrap();
    let rows: Vec<_> = link.captures_iter(&page).collect();
    assert!(rows.len() >= 20, "{rows:?}");
    let mut missing = Vec::new();
    for row in &rows {
        let text = fs::read_to_string(root.join(&row[1]))
            .unwrap_or_else(|error| panic!("{}: {error}", &row[1]));
        let words: BTreeSet<&str> = text
            .split(|c: char| !(c.is_alphanumeric() || c == '_'))
            .collect();
        for named in name.captures_iter(&row[2]) {
            if !named[1].split("::").all(|part| words.contains(part)) {
                missing.push(format!("{}: `{}`", &row[1], &named[1]));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn published_crates_hold_what_they_include() {
    let include = Regex::new(r#"include_(?:str|bytes)!\("([^"]+)"\)"#).unwrap();
    let crates = core().join("../..");
    let mut found = 0;
    for manifest in fs::read_dir(&crates).unwrap() {
        let folder = manifest.unwrap().path();
        let text = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        if text.contains("publish = false") {
            continue;
        }
        for path in sources(&folder.join("src")) {
            let text = fs::read_to_string(&path).unwrap();
            for file in include.captures_iter(&text) {
                let depth = path.strip_prefix(&folder).unwrap().components().count() - 1;
                let up = file[1].split('/').take_while(|part| *part == "..").count();
                assert!(up <= depth, "{}: {}", path.display(), &file[1]);
                found += 1;
            }
        }
    }
    assert!(found > 5, "{found}");
}
