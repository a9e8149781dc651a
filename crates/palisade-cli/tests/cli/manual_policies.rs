//! The policies that the manual and README show are tested: each is covered whole, and each change of it is noticed.
//!
//! They are read from their pages. A file of `manual_policies` has the cases of a page, and what stands beside its policies.

use std::{fs, path::Path};

use serde::Deserialize;
use serde_json::Value;

use crate::{
    desk::Desk,
    manual::{blocks, pages, root},
};

/// The file that holds the blocks of a page.
const SHOWN: &str = "example.cedar";

/// A page, a block of Cedar in it, from 1, and why the block is not tested.
type LeftOut = (&'static str, usize, &'static str);

const LEFT_OUT: &[LeftOut] = &[
    (
        "docs/getting-started.md",
        3,
        "it shows a mistake, a misspelt column, and does not load",
    ),
    (
        "docs/policies/lint-messages.md",
        1,
        "it shows a mistake, a misspelt annotation, and does not load",
    ),
];

/// The cases of a page.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    example: Vec<Example>,
}

/// Blocks of a page that are policies together, with their tests.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Example {
    /// Which of the page's blocks of Cedar, from 1.
    blocks: Vec<usize>,
    /// The file of tables.
    tables: String,
    /// The file that says which tables and columns have tags.
    classification: Option<String>,
    /// Policies beside those that are shown.
    other: Option<String>,
    /// The text of `templates.toml`.
    templates: Option<String>,
    #[serde(default)]
    idle: Vec<Idle>,
    /// A file of tests.
    tests: toml::Table,
}

/// A change that does nothing.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Idle {
    policy: String,
    change: String,
    reason: String,
}

macro_rules! test_pages {
    ($($name:ident: $page:literal,)+) => {
        /// The pages whose policies are tested.
        const PAGES: &[&str] = &[$($page),+];

        $(
            /// The tests of the page's policies leave nothing out.
            #[test]
            fn $name() {
                hold($page);
            }
        )+
    };
}

test_pages! {
    policies_of_readme: "README.md",
    policies_of_approvals: "docs/approvals.md",
    policies_of_broker: "docs/broker.md",
    policies_of_postgres: "docs/databases/postgres.md",
    policies_of_getting_started: "docs/getting-started.md",
    policies_of_http: "docs/http.md",
    policies_of_access: "docs/policies/access.md",
    policies_of_actions: "docs/policies/actions.md",
    policies_of_changes: "docs/policies/changes.md",
    policies_of_concepts: "docs/policies/concepts.md",
    policies_of_context: "docs/policies/context.md",
    policies_of_lint_messages: "docs/policies/lint-messages.md",
    policies_of_masks: "docs/policies/masks.md",
    policies_of_row_filters: "docs/policies/row-filters.md",
    policies_of_testing: "docs/policies/testing.md",
    policies_of_templates: "docs/policies/templates.md",
    policies_of_tokens: "docs/policies/tokens.md",
    policies_of_proposed_changes: "docs/proposed-changes.md",
    policies_of_functions: "docs/reference/functions.md",
}

/// Each block of Cedar is tested once, or named as left out.
#[test]
fn every_policy_of_the_manual_is_tested_or_left_out() {
    let mut left_out = 0;
    for page in pages() {
        let mut known = Vec::new();
        if PAGES.contains(&page.as_str()) {
            for example in read_cases(&page).example {
                known.extend(example.blocks);
            }
        }
        for (of, block, reason) in LEFT_OUT {
            if *of == page {
                assert!(!reason.is_empty(), "{page}, block {block}");
                known.push(*block);
                left_out += 1;
            }
        }
        known.sort_unstable();
        let shown: Vec<usize> = (1..=read_policies(&page).len()).collect();
        assert_eq!(
            known, shown,
            "{page}: blocks with tests or in `LEFT_OUT`, and blocks of the page"
        );
    }
    assert_eq!(left_out, LEFT_OUT.len());
}

/// Each example of the page is covered whole, and each mutant of it is noticed, or named in the file of its cases.
fn hold(page: &str) {
    let policies = read_policies(page);
    for example in read_cases(page).example {
        let place = format!("{page}, blocks {:?}", example.blocks);
        let told = run_tests(&policies, &example);
        assert!(!list_mutants(&told, "noticed").is_empty(), "{place}");
        let survived = list_mutants(&told, "survived");
        assert!(survived.is_empty(), "{place}: {survived:?}");
        let idle: Vec<_> = (example.idle.iter())
            .map(|idle| {
                assert!(!idle.reason.is_empty(), "{place}: {}", idle.policy);
                (idle.policy.as_str(), idle.change.as_str())
            })
            .collect();
        assert_eq!(list_mutants(&told, "equivalent"), idle, "{place}");
        let uncovered = list_uncovered(&told);
        assert!(uncovered.is_empty(), "{place}: {uncovered:?}");
    }
}

/// Tests the example in a folder of its own. All of its cases hold, and no mutant of the policies beside it survives either.
fn run_tests(policies: &[String], example: &Example) -> Value {
    let desk = Desk::empty();
    let mut shown = String::new();
    for block in &example.blocks {
        shown.push_str(&policies[block - 1]);
    }
    desk.write(&format!("p/{SHOWN}"), shown);
    if let Some(other) = &example.other {
        desk.write("p/other.cedar", other);
    }
    for name in ["entities.json", "principals.cedarschema"] {
        desk.write(&format!("p/{name}"), read_data(name));
    }
    if let Some(name) = &example.classification {
        desk.write("p/classification.toml", read_data(name));
    }
    if let Some(templates) = &example.templates {
        desk.write("p/templates.toml", templates);
    }
    let tables = &example.tables;
    desk.write(&format!("p/tests/{tables}"), read_data(tables));
    let tests = toml::to_string(&example.tests).unwrap();
    desk.write("p/tests/cases.toml", tests);
    let run = ["policy", "test", "p", "--coverage", "--mutate"];
    let told = desk.run(&[&run[..], &["--format", "json"]].concat());
    told.expect_exit(0).json()
}

/// The changes of the example that have this fate, each with its policy.
fn list_mutants<'a>(told: &'a Value, fate: &str) -> Vec<(&'a str, &'a str)> {
    let mutants = told["mutation"]["mutants"].as_array().unwrap();
    (mutants.iter())
        .filter(|mutant| mutant["file"] == SHOWN && mutant["fate"] == fate)
        .map(|mutant| {
            let text = |key: &str| mutant[key].as_str().unwrap();
            (text("policy"), text("change"))
        })
        .collect()
}

/// The policies of the example that decided no case, or whose conditions were not seen both true and false.
fn list_uncovered(told: &Value) -> Vec<&str> {
    let policies = told["coverage"]["policies"].as_array().unwrap();
    (policies.iter())
        .filter(|policy| policy["file"] == SHOWN && !is_covered(policy))
        .map(|policy| policy["policy"].as_str().unwrap())
        .collect()
}

fn is_covered(policy: &Value) -> bool {
    let clauses = policy["clauses"].as_array().unwrap();
    let are_seen = clauses.iter().all(|clause| {
        let seen = &clause["seen"];
        // Some conditions are not measured, those on functions among them. Mutants hold them to the cases.
        seen.is_null() || (seen["holding"] != 0 && seen["failing"] != 0)
    });
    policy["cases"] != 0 && are_seen
}

/// The blocks of Cedar in a page.
fn read_policies(page: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let blocks = blocks::read(&text).into_iter();
    let out: Vec<String> = blocks
        .filter(|block| block.language() == "cedar")
        .map(|block| block.text)
        .collect();
    // A fence that does not begin its line would be missed.
    assert_eq!(text.matches("```cedar").count(), out.len(), "{page}");
    out
}

/// The cases of a page, from the file that is called as the page.
fn read_cases(page: &str) -> Cases {
    let name = page.strip_prefix("docs/").unwrap_or(page);
    let name = name.replace('/', "-").replace(".md", ".toml");
    toml::from_str(&read_data(&name)).unwrap_or_else(|why| panic!("{name}: {why}"))
}

fn read_data(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/manual_policies");
    fs::read_to_string(folder.join(name)).unwrap_or_else(|why| panic!("{name}: {why}"))
}
