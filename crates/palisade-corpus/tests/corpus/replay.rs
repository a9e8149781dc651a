//! The statements of the corpus as an audit log holds them, without literals, decided anew.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use palisade::{code::Code, firewall::Decision, value::Params};
use palisade_corpus::{AskedStatement, Case, Corpus, Literals, PolicyTests, Runner};

/// The most statements in a hundred whose decision may hang on a literal that was left out. The corpus has more of them than people
/// write: attacks by sizes, and by positions of outputs.
const MOST_UNDECIDED: f64 = 2.5;

/// What the policies of a folder give way to.
const NEWER: [(&str, Option<&str>); 2] = [
    ("the same", None),
    ("all", Some("permit (principal, action, resource);\n")),
];

#[test]
fn few_statements_hang_on_a_literal() {
    let corpus = crate::corpus();
    let runner = Runner::new(&corpus).unwrap();
    let mut folders: BTreeMap<(&str, &str), Vec<&Case>> = BTreeMap::new();
    for case in corpus.cases.iter().filter(|case| case.template.is_none()) {
        let of = (case.catalog.as_str(), case.policies.as_str());
        folders.entry(of).or_default().push(case);
    }
    for (what, text) in NEWER {
        let (mut all, mut undecided) = (0, Vec::new());
        for (&of, cases) in &folders {
            let asked = list_asked(&runner, cases);
            let old = load(&corpus, of, None);
            let new = load(&corpus, of, text);
            let replay = new.replay(&old, of.0, &asked).unwrap();
            all += asked.len() - replay.not_replayable.len();
            undecided.extend(replay.undecided);
        }
        let share = 100.0 * undecided.len() as f64 / all as f64;
        println!("{what}: {} of {all} ({share:.2} %)", undecided.len());
        assert!(all > 500, "{all} statements are too few to tell");
        assert!(
            share < MOST_UNDECIDED,
            "{what}: {} of {all} ({share:.1} %):\n{}",
            undecided.len(),
            undecided.join("\n")
        );
    }
}

/// Each shape that a principal asks, once.
fn list_asked(runner: &Runner, cases: &[&Case]) -> Vec<AskedStatement> {
    let mut shapes: BTreeMap<(String, String, Option<Code>), AskedStatement> = BTreeMap::new();
    for case in cases {
        let firewall = runner.firewall(case).unwrap();
        let decided = firewall.check(&case.sql, &case.params, &case.session());
        let refused_with = match decided.unwrap() {
            Decision::Allow(_) => None,
            Decision::Reject(rejection) => Some(rejection.code()),
        };
        let sql = firewall.fingerprint(&case.sql).normalized;
        let shape = (case.principal.to_string(), sql.clone(), refused_with);
        let known = shapes.entry(shape).or_insert_with(|| AskedStatement {
            principal: case.principal.clone(),
            sql,
            template: None,
            params: Params::None,
            transport: case.transport,
            first: case.at,
            last: case.at,
            count: 0,
            clean: 0,
            needed_approval: false,
            obligations: BTreeSet::new(),
            literals: Literals::LeftOut,
            was_permitted: Some(refused_with.is_none()),
            refused_with,
        });
        known.count += 1;
    }
    shapes.into_values().collect()
}

/// A policy folder with the tables and policies of the corpus; with `text` in the place of the policies.
fn load(corpus: &Corpus, (catalog, policies): (&str, &str), text: Option<&str>) -> PolicyTests {
    let folder = tempfile::tempdir().unwrap();
    let tests = folder.path().join("tests");
    fs::create_dir(&tests).unwrap();
    let tables = &corpus.catalogs[catalog];
    fs::write(tests.join(format!("{catalog}.sql")), tables).unwrap();
    let case =
        "[[case]]\nname = \"a\"\nas = 'Agent::\"a\"'\nsql = \"SELECT 1\"\ndecision = \"allow\"\n";
    fs::write(tests.join("a.toml"), case).unwrap();
    for file in fs::read_dir(crate::folder().join("policies").join(policies)).unwrap() {
        let from = file.unwrap().path();
        if text.is_none()
            || from
                .extension()
                .is_none_or(|extension| extension != "cedar")
        {
            let to = folder.path().join(from.file_name().unwrap());
            fs::copy(&from, to).unwrap();
        }
    }
    if let Some(text) = text {
        fs::write(folder.path().join("all.cedar"), text).unwrap();
    }
    PolicyTests::load(folder.path()).unwrap()
}
