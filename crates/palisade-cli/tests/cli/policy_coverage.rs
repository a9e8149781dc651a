//! What `palisade policy test --coverage` measures of policies.

use std::fs;

use serde_json::json;

use crate::workbench::{READ, case, folder, test};

/// Of each condition it is told whether it was seen true and seen false; of rows, over those of the fixture.
#[test]
fn coverage_tells_of_conditions_and_actions() {
    let policies = "@id(\"all\")\npermit (principal, action, resource)\nwhen { principal == Agent::\"ann\" };
@id(\"rows\")\nforbid (principal, action == Action::\"see\", resource is row::main::tea)\nwhen { resource.id == 2 };
@id(\"none\")\nforbid (principal, action == Action::\"see\", resource is row::main::tea)\nwhen { resource.id == 9 };
@id(\"later\")\nforbid (principal, action == Action::\"select\", resource)\nwhen { context has statement && context.statement.joins > 3 };\n";
    let desk = folder(&case("names", READ));
    desk.policy(policies);
    let told = test(
        &desk,
        &[
            "--coverage",
            "--format",
            "json",
            "--lcov",
            "c.info",
            "--html",
            "c.html",
        ],
    );
    let told = told.expect_exit(0).json();
    let kinds = told["coverage"]["kinds"].as_array().unwrap();
    let untested = |kind: &str| {
        let found = kinds.iter().find(|one| one["kind"] == kind);
        found.unwrap_or_else(|| panic!("{told}"))["untested"].clone()
    };
    assert_eq!(
        untested("clauses"),
        json!([
            "all when { principal == Agent::\"ann\" } never false",
            "none when { resource.id == 9 } never true"
        ])
    );
    let actions = untested("actions");
    assert!(
        !actions.as_array().unwrap().contains(&json!("select")),
        "{told}"
    );
    assert!(
        actions.as_array().unwrap().contains(&json!("delete")),
        "{told}"
    );
    let rows = &told["coverage"]["policies"][1];
    assert_eq!(
        (&rows["policy"], &rows["first_line"], &rows["last_line"]),
        (&json!("rows"), &json!(4), &json!(6))
    );
    assert_eq!(
        rows["clauses"][0]["seen"],
        json!({"holding": 1, "failing": 1})
    );
    // What a statement alone shows is not measured, and is no part of the sum.
    assert!(
        told["coverage"]["policies"][3]["clauses"][0]["seen"].is_null(),
        "{told}"
    );

    let lcov = fs::read_to_string(desk.path("c.info")).unwrap();
    for line in [
        "SF:p/base.cedar",
        "FNDA:1,all",
        "FNDA:0,later",
        "DA:4,1",
        "BRDA:6,0,0,1",
        "BRDA:9,0,0,0",
        "end_of_record",
    ] {
        assert!(
            lcov.lines().any(|one| one == line),
            "`{line}` is not in\n{lcov}"
        );
    }
    let page = fs::read_to_string(desk.path("c.html")).unwrap();
    assert!(
        page.contains("<li>none when { resource.id == 9 } never true</li>"),
        "{page}"
    );
    assert!(
        page.contains("<div class=\"missed\" title=\"0 times true, 2 times false\">")
            && page.contains("<span>when { resource.id == 9 };</span>"),
        "{page}"
    );
    assert!(
        !page.contains("<script") && !page.contains("src="),
        "{page}"
    );
    let failed = test(&desk, &["--coverage", "--fail-under", "clauses=80"])
        .expect_exit(1)
        .out;
    assert!(
        failed.contains("coverage: 66 % of clauses are tested, less than 80 %"),
        "{failed}"
    );
}

/// Uses of columns count where policies tell them apart.
#[test]
fn uses_of_columns_that_policies_name_are_tested_or_told() {
    let desk = folder(&case("names", READ));
    let told = test(&desk, &["--coverage"]).expect_exit(0).out;
    assert!(!told.contains("usages"), "{told}");
    desk.write(
        "p/usages.cedar",
        "@id(\"unordered\")\nforbid (principal == Agent::\"zed\", action == Action::\"read_plain\", resource)\n\
         when { context has usage && context.usage.containsAny([\"aggregate\", \"output\", \"group\"]) };\n",
    );
    let failed = test(&desk, &["--coverage", "--fail-under", "usages=50"]);
    let failed = failed.expect_exit(1).out;
    assert!(
        failed.contains("untested usages: aggregate, group\n"),
        "{failed}"
    );
    assert!(
        failed.contains("33 % of usages are tested, less than 50 %"),
        "{failed}"
    );
    let grouped =
        "sql = \"SELECT name FROM tea GROUP BY name ORDER BY name\"\ndecision = \"allow\"";
    desk.write("p/tests/more.toml", case("grouped", grouped));
    let told = test(&desk, &["--coverage"]).expect_exit(0).out;
    assert!(told.contains("untested usages: aggregate\n"), "{told}");
    assert!(told.contains("2 of 3 usages"), "{told}");
}

/// Of policies, those alone count whose lines changed since a revision, or whose file is new.
#[test]
fn coverage_since_a_revision_is_of_what_changed() {
    let desk = folder(&case("names", READ));
    let git = |arguments: &str| {
        desk.shell(
            &format!("git -c user.name=a -c user.email=a@example.org {arguments}"),
            0,
            b"",
        )
        .expect_exit(0);
    };
    git("init --quiet .");
    git("add .");
    git("commit --quiet --message first");
    let text = fs::read_to_string(desk.path("p/base.cedar")).unwrap();
    let since = |revision: &str| {
        let told = test(
            &desk,
            &["--coverage", "--format", "json", "--since", revision],
        );
        let told = told.expect_exit(0).json();
        let policies = told["coverage"]["policies"].as_array().unwrap().clone();
        let names = policies
            .iter()
            .map(|one| one["policy"].as_str().unwrap().to_owned());
        (
            names.collect::<Vec<_>>(),
            told["coverage"]["kinds"][0]["total"].clone(),
        )
    };
    assert_eq!(since("HEAD"), (vec![], json!(0)));
    desk.policy(&text.replace("@mask(\"null\")", "@mask(\"bucket(10)\")"));
    assert_eq!(since("HEAD"), (vec!["price".to_owned()], json!(1)));
    desk.write(
        "p/more.cedar",
        "@id(\"more\") forbid (principal == User::\"x\", action, resource);\n",
    );
    assert_eq!(since("HEAD").0, ["price", "more"]);
    test(&desk, &["--coverage", "--since", "nowhere"])
        .fails(2, &["Git does not tell", "--since main"]);
}
