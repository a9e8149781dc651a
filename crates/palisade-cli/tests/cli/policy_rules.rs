//! The rules of the policy check and of tests.

use std::fs;

use palisade::policy::Rule;
use palisade_corpus::{EXAMPLE_FILES, TestRule};

use crate::{
    desk::{Answer, Desk},
    workbench::{READ, TABLES, case, folder, test},
};

/// A case that no policy could make fail, and a principal that nothing else names, are told.
#[test]
fn tests_that_prove_nothing_are_told() {
    let cases = case("names", READ)
        + &case(
            "nonsense",
            "sql = \"SELECT FROM\"\ndecision = \"reject\"\ncode = \"syntax.invalid\"",
        )
        + "[[case]]\nname = \"nobody\"\nas = 'Agent::\"anne\"'\nsql = \"SELECT name FROM tea\"\ndecision = \"reject\"\ncode = \"name.unknown-relation\"\n";
    let desk = folder(&cases);
    let told = test(&desk, &["--lint", "--format", "json"])
        .expect_exit(0)
        .json();
    let codes = |told: &serde_json::Value| -> Vec<String> {
        let warnings = told["lint"]["warnings"].as_array().unwrap();
        warnings
            .iter()
            .map(|one| format!("{}:{}", one["code"].as_str().unwrap(), one["line"]))
            .collect()
    };
    assert_eq!(codes(&told), ["proves-nothing:7"], "{told}");
    assert_eq!(told["lint"]["not_checked"][0][0], "only-in-tests");
    let text = test(&desk, &["--lint"]).expect_exit(0).out;
    assert!(
        text.contains("warning[proves-nothing] p/tests/tea.toml:7: `nonsense`"),
        "{text}"
    );
    assert!(
        text.contains("Not checked: only-in-tests, since there is no entities.json."),
        "{text}"
    );

    desk.write(
        "p/entities.json",
        "[{\"uid\": {\"type\": \"Agent\", \"id\": \"ann\"}, \"attrs\": {}, \"parents\": []}]",
    );
    let told = test(&desk, &["--lint", "--format", "json"])
        .expect_exit(0)
        .json();
    assert_eq!(
        codes(&told),
        ["proves-nothing:7", "only-in-tests:13"],
        "{told}"
    );
    let failed = test(&desk, &["--lint", "--fail-on", "warning"])
        .expect_exit(1)
        .out;
    assert!(failed.contains("FAILED warning[only-in-tests]"), "{failed}");
}

/// A comment with a reason silences a rule of tests; one without a reason, or that silences nothing, is told.
#[test]
fn comments_silence_warnings_of_their_case() {
    let stranger = |comment: &str, name: &str, who: &str| {
        format!(
            "{comment}[[case]]\nname = \"{name}\"\nas = 'Agent::\"{who}\"'\nsql = \"SELECT name FROM tea\"\ndecision = \"reject\"\ncode = \"name.unknown-relation\"\n\n"
        )
    };
    let ignore = "# palisade:ignore only-in-tests It stands for any other.\n";
    let tests = stranger(ignore, "a", "stranger")
        + &stranger("", "b", "zoe")
        + &stranger("# palisade:ignore only-in-tests\n", "c", "carl")
        + "# palisade:ignore only-in-test A reason.\n\n"
        + &case("names", READ).replace("[[case]]", &format!("{ignore}[[case]]"));
    let desk = folder(&tests);
    desk.write(
        "p/entities.json",
        "[{\"uid\": {\"type\": \"Agent\", \"id\": \"ann\"}, \"attrs\": {}, \"parents\": []}]",
    );
    let sarif = test(&desk, &["--lint", "--format", "sarif"])
        .expect_exit(0)
        .json();
    let run = &sarif["runs"][0];
    let results = run["results"].as_array().unwrap();
    let told: Vec<String> = (results.iter())
        .map(|one| {
            let place = &one["locations"][0]["physicalLocation"];
            assert_eq!(place["artifactLocation"]["uri"], "p/tests/tea.toml");
            format!(
                "{}:{}",
                one["ruleId"].as_str().unwrap(),
                place["region"]["startLine"]
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            "only-in-tests:10",
            "ignore-unexplained:16",
            "only-in-tests:18",
            "ignore-unknown:24",
            "ignore-unused:26"
        ],
        "{sarif}"
    );
    assert_eq!(run["tool"]["driver"]["rules"].as_array().unwrap().len(), 6);
    let github = test(
        &desk,
        &["--lint", "--format", "github", "--fail-on", "warning"],
    );
    let github = github.expect_exit(1).out;
    assert!(
        github.contains("::error file=p/tests/tea.toml,line=10,title=only-in-tests::`Agent::\"zoe\"` is not in entities.json, and no policy names it"),
        "{github}"
    );
    assert_eq!(github.lines().count(), 5, "{github}");
    // A case that fails is an error of its line.
    desk.write(
        "p/tests/tea.toml",
        case("names", READ).replace("allow", "reject"),
    );
    desk.write(
        "p/tests/tea.toml",
        case(
            "names",
            &READ.replace("\"allow\"", "\"reject\"\ncode = \"policy.forbidden\""),
        ),
    );
    let github = test(&desk, &["--format", "github"]).expect_exit(1).out;
    assert!(
        github.starts_with("::error file=p/tests/tea.toml,line=2,title=case-fails::names: "),
        "{github}"
    );
}

/// The example that the manual gives of a rule of tests is one.
#[test]
fn each_rule_of_tests_warns_of_its_example() {
    for rule in TestRule::ALL {
        let desk = Desk::empty();
        for (file, text) in EXAMPLE_FILES {
            desk.write(&format!("p/{file}"), text);
        }
        desk.write("p/tests/tea.toml", rule.example());
        let told = test(&desk, &["--lint", "--format", "json"]).json();
        let warnings = told["lint"]["warnings"].as_array().unwrap();
        let codes: Vec<&str> = warnings
            .iter()
            .map(|one| one["code"].as_str().unwrap())
            .collect();
        assert!(codes.contains(&rule.slug()), "{rule}: {told}");
    }
}

/// The example that the manual gives of a rule is one.
#[test]
fn each_rule_warns_of_its_example() {
    for rule in Rule::ALL {
        let Some(example) = rule.example() else {
            let has_none = matches!(
                rule,
                Rule::Sampled | Rule::TriggerRefused | Rule::ViewCalls | Rule::ViewUnread
            );
            assert!(has_none, "{rule:?}");
            continue;
        };
        let desk = Desk::empty();
        for (file, text) in example.files {
            desk.write(&format!("p/{file}"), text);
        }
        desk.write("tables.sql", example.tables());
        desk.write(
            "secret.toml",
            "token_secret_env = \"TOKEN_SECRET\"\n[grants]\nenv = [\"TOKEN_SECRET\"]\n",
        );
        let mut command = desk.command(env!("CARGO_BIN_EXE_palisade"));
        command.args([
            "policy",
            "check",
            "--policies",
            "p",
            "--config",
            "secret.toml",
        ]);
        command.args([
            "--catalog",
            "tables.sql",
            "--dialect",
            example.dialect.name(),
        ]);
        command
            .args(["--format", "json"])
            .args(rule.is_deep().then_some("--deep"))
            .env("TOKEN_SECRET", "0".repeat(64));
        let told = Answer::from_command(&mut command, b"").json();
        let problems = told["problems"].as_array().unwrap();
        let of_rule = problems.iter().find(|one| one["code"] == rule.slug());
        let of_rule = of_rule.unwrap_or_else(|| panic!("{rule}: {told}"));
        let (first, _) = example.files[0];
        assert_eq!(of_rule["file"], format!("p/{first}"), "{rule}: {told}");
        assert_eq!(of_rule["level"], "warning");
    }
}

#[test]
fn ignores_that_silence_nothing_are_taken_away() {
    let desk = Desk::empty();
    desk.write("tables.sql", TABLES);
    let text = "// Who reads.\n// palisade:ignore no-rows Only names are read.\n@id(\"all\")\npermit (principal, action, resource); // palisade:ignore no-members Later.\n";
    desk.policy(text);
    let fix = |more: &[&str]| {
        let base = [
            "policy",
            "check",
            "--catalog",
            "tables.sql",
            "--policies",
            "p",
            "--fix",
        ];
        desk.run(&[&base[..], more].concat()).expect_exit(0).out
    };
    let is = || fs::read_to_string(desk.path("p/base.cedar")).unwrap();
    let told = fix(&["--dry-run"]);
    assert!(
        told.contains("-// palisade:ignore no-rows Only names are read.\n"),
        "{told}"
    );
    assert!(
        told.ends_with("2 of 2 warnings would be mended\n"),
        "{told}"
    );
    assert_eq!(is(), text);
    fix(&[]);
    assert_eq!(
        is(),
        "// Who reads.\n@id(\"all\")\npermit (principal, action, resource);\n"
    );
    assert_eq!(fix(&[]), "0 of 0 warnings were mended\n");
}

/// A policy is vacuous, shadowed, overridden or redundant only where that is known, and what is not known is named.
#[test]
fn a_deep_check_tells_of_policies_that_change_nothing() {
    let check = |policies: &str| {
        let desk = Desk::empty();
        desk.write("tables.sql", TABLES);
        desk.write("p/base.cedar", policies);
        let told = desk
            .run(&[
                "policy",
                "check",
                "--policies",
                "p",
                "--catalog",
                "tables.sql",
                "--dialect",
                "sqlite",
                "--deep",
                "--format",
                "json",
            ])
            .expect_exit(0)
            .json();
        let deep = [
            "vacuous",
            "shadowed",
            "overridden",
            "redundant",
            "ignore-unused",
        ];
        let problems = told["problems"].as_array().unwrap().iter();
        let problems = problems.filter(|one| deep.contains(&one["code"].as_str().unwrap()));
        let codes: Vec<String> = problems
            .map(|one| format!("{}:{}", one["code"].as_str().unwrap(), one["line"]))
            .collect();
        let unchecked = told["not_checked"].as_array().unwrap().iter();
        let unchecked = unchecked.filter_map(|one| one["policy"].as_str().map(str::to_owned));
        (codes, unchecked.collect::<Vec<_>>())
    };
    let read = "@id(\"read\") permit (principal, action in [Action::\"select\", Action::\"see\", Action::\"read_plain\"], resource);\n";
    let nothing: &[&str] = &[];
    for (more, codes, unchecked) in [
        ("", nothing, nothing),
        (
            "@id(\"b\") permit (principal, action == Action::\"select\", resource == Table::\"main.tea\");",
            &["shadowed:2"],
            nothing,
        ),
        (
            "// palisade:ignore shadowed it is kept for the day that `read` goes\n@id(\"b\") permit (principal, action == Action::\"select\", resource == Table::\"main.tea\");",
            nothing,
            nothing,
        ),
        (
            "// palisade:ignore vacuous why\n@id(\"b\") forbid (principal, action == Action::\"read_plain\", resource == Column::\"main.tea.price\");",
            &["ignore-unused:2"],
            nothing,
        ),
        (
            "@id(\"b\") permit (principal == Agent::\"x\", action == Action::\"call\", resource);",
            nothing,
            &["b"],
        ),
        (
            "@id(\"b\") permit (principal, action == Action::\"select\", resource) when { context.transport == \"cli\" };",
            nothing,
            &["b"],
        ),
    ] {
        let (found, not) = check(&format!("{read}{more}"));
        assert_eq!(found, codes, "{more}");
        assert_eq!(not, unchecked, "{more}");
    }
}
