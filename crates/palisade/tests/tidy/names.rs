//! Names that may not come back.

use std::collections::BTreeMap;

use regex::Regex;

use crate::{code_of, core, imports::texts, is_test_only, prose::cases, sources};

/// Verbs that end like participles.
const VERBS: &[&str] = &[
    "embed", "exceed", "feed", "need", "proceed", "seed", "shed", "succeed",
];

/// A function is a verb with its object. A preposition says nothing of what a function does, nor does a participle. A method
/// that takes `self` alone may bear the name of what it gives, and a constructor that of a kind of value.
#[test]
fn no_function_is_a_bare_preposition_or_participle() {
    let function =
        Regex::new(r"\bfn ([a-z]+)\s*(?:<[^(]*>)?\(\s*([^)]*)\)(\s*->\s*Self\b)?").unwrap();
    let preposition = Regex::new(
        r"^(of|within|without|before|after|above|below|between|among|inside|outside|around|beside|beyond|alone|apart|instead|unless|already|whole)$",
    )
    .unwrap();
    let participle = Regex::new(
        r"^([a-z]+ed|known|kept|found|met|held|made|given|chosen|shown|written|spelt|hidden|forbidden|taken|seen|lost|said|told|spent|meant|bound)$",
    )
    .unwrap();
    let mut wrong = Vec::new();
    for (path, text) in texts(&["crates", "benches", "fuzz"]) {
        if path.contains("/tests/") || path.ends_with("tests.rs") {
            continue;
        }
        for found in function.captures_iter(&code_of(&text)) {
            let (name, parameters) = (&found[1], found[2].trim().trim_end_matches(','));
            let names_a_value =
                found.get(3).is_some() || ["self", "&self", "&mut self"].contains(&parameters);
            let is_participle =
                participle.is_match(name) && !VERBS.contains(&name) && !names_a_value;
            if preposition.is_match(name) || is_participle {
                wrong.push(format!("{path}: `fn {name}`"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of them: {wrong:#?}", wrong.len());
}

/// Where a type may be named: in one file, or in every file below a folder.
#[derive(Debug)]
enum Reach {
    File(String),
    Folder(String),
}

impl Reach {
    fn of_definition(path: &str, visibility: &str) -> Self {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let is_root = path.ends_with("/mod.rs");
        match visibility {
            "" => Self::File(path.to_owned()),
            "pub" | "pub(crate)" => Self::Folder(String::new()),
            "pub(super)" if is_root => {
                let above = folder.rsplit_once('/').map_or("", |(above, _)| above);
                Self::Folder(above.to_owned())
            }
            "pub(super)" => Self::Folder(folder.to_owned()),
            within => {
                let within = within
                    .trim_start_matches("pub(in crate::")
                    .trim_end_matches(')');
                Self::Folder(within.replace("::", "/"))
            }
        }
    }

    fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(one), Self::File(another)) => one == another,
            (Self::File(file), Self::Folder(folder)) | (Self::Folder(folder), Self::File(file)) => {
                file.starts_with(folder.as_str())
            }
            (Self::Folder(one), Self::Folder(another)) => {
                one.starts_with(another.as_str()) || another.starts_with(one.as_str())
            }
        }
    }
}

/// No two types of the core have one name where both can be named in one file. A type of a single file may have the name of
/// another that this file does not use.
#[test]
fn no_two_types_that_meet_have_one_name() {
    let definition =
        Regex::new(r"(?m)^(pub(?:\([^)]*\))?)\s+(?:struct|enum|type|trait|union) (\w+)").unwrap();
    let mut types: BTreeMap<String, Vec<(String, Reach)>> = BTreeMap::new();
    for path in sources(&core()) {
        if is_test_only(&path) {
            continue;
        }
        let name = path.strip_prefix(core()).unwrap().display().to_string();
        for found in definition.captures_iter(&crate::code(&path)) {
            let reach = Reach::of_definition(&name, &found[1]);
            types
                .entry(found[2].to_owned())
                .or_default()
                .push((name.clone(), reach));
        }
    }
    let mut wrong = Vec::new();
    for (name, places) in &types {
        for (at, (file, reach)) in places.iter().enumerate() {
            for (other, its_reach) in &places[at + 1..] {
                if reach.meets(its_reach) {
                    wrong.push(format!("`{name}` in {file} and {other}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of them: {wrong:#?}", wrong.len());
}

/// Marks of a list that is not in the repository: a comment, or the text of a case, says what is meant.
#[test]
fn no_comment_refers_to_a_list_that_is_not_here() {
    let mark = Regex::new(r#"(?://|^why = ").*\b[A-Z][0-9]{1,2}\b"#).unwrap();
    let mut wrong = Vec::new();
    let mut files = texts(&["crates", "benches", "fuzz"]);
    files.extend(cases());
    for (path, text) in files {
        for (line, text) in (1..).zip(text.lines()) {
            // The corpus names techniques by ids of its own.
            if mark.is_match(text) && !text.contains("ids = [") {
                wrong.push(format!("{path}:{line}: {}", text.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
