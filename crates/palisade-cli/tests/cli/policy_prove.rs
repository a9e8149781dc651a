//! `palisade policy prove`: what is proved, refuted and left undecided.

use std::fs;

use serde_json::Value;

use crate::desk::{Answer, Desk};

const TABLES: &str =
    "CREATE TABLE staff (id INTEGER PRIMARY KEY, name TEXT, salary INTEGER, team TEXT);
INSERT INTO staff VALUES (1, 'Ada', 90, 'a'), (2, 'Ben', 80, 'b');
CREATE VIEW pay AS SELECT id, salary AS amount FROM staff;
";

const PRINCIPALS: &str = "entity Role;
entity Agent in [Role] { team?: String };
entity User in [Role] { team?: String };
";

const ENTITIES: &str = r#"[
  {"uid": {"type": "Role", "id": "dpo"}, "attrs": {}, "parents": []},
  {"uid": {"type": "Agent", "id": "ann"}, "attrs": {"team": "a"}, "parents": [{"type": "Role", "id": "dpo"}]},
  {"uid": {"type": "Agent", "id": "bob"}, "attrs": {"team": "b"}, "parents": []}
]"#;

const CLASSES: &str = "[[column]]\nname = \"main.staff.salary\"\ntags = [\"pii\"]\n";

pub(crate) const POLICIES: &str = r#"@id("tables")
permit (principal, action == Action::"select", resource);
@id("columns")
permit (principal, action in Action::"read", resource);
@id("rows")
permit (principal, action == Action::"see", resource is row::main::staff)
when { principal has team && resource has team && resource.team == principal.team };
@id("views")
permit (principal, action == Action::"see", resource is row::main::pay);
@id("mask.pii")
@mask("null")
forbid (principal, action == Action::"read_plain", resource)
when { resource.tags.contains("pii") }
unless { principal in Role::"dpo" };
"#;

/// A policy folder `p` over staff.
pub(crate) fn folder(policies: &str) -> Desk {
    let desk = Desk::empty();
    desk.write("p/base.cedar", policies);
    desk.write("p/principals.cedarschema", PRINCIPALS);
    desk.write("p/entities.json", ENTITIES);
    desk.write("p/classification.toml", CLASSES);
    desk.write("p/tests/staff.sql", TABLES);
    desk
}

fn prove(desk: &Desk, properties: &str) -> Answer {
    desk.write("p/properties.toml", properties);
    desk.run(&["policy", "prove", "p", "--format", "json"])
}

/// The outcome of the one property in `properties`, with everything that is told of it.
fn prove_one(policies: &str, property: &str, exit: i32) -> Value {
    let desk = folder(policies);
    let told = prove(&desk, &format!("[[property]]\nname = \"it\"\n{property}\n"))
        .expect_exit(exit)
        .json();
    told["properties"][0].clone()
}

pub(crate) const PII: &str = "outside = 'Role::\"dpo\"'\ntagged = \"pii\"\nshows = \"null\"";

#[test]
fn a_bound_is_proved_over_every_principal_and_column() {
    let told = prove_one(POLICIES, PII, 0);
    assert_eq!(told["outcome"], "proved", "{told}");
    // The view's column is computed from the tagged one. Bob, and any other agent.
    assert_eq!(told["world"]["columns"], 2, "{told}");
    assert_eq!(told["world"]["principals"], 3, "{told}");
}

/// Each way of seeing more is refuted by a statement that was run, and the case holds when it is pasted.
#[test]
fn a_refuted_bound_shows_who_what_and_the_statement() {
    let wider = POLICIES.replace(
        "unless { principal in Role::\"dpo\" }",
        "unless { principal == Agent::\"bob\" }",
    );
    let told = prove_one(&wider, PII, 1);
    assert_eq!(told["outcome"], "refuted");
    let shown = &told["counterexamples"][0];
    assert_eq!(shown["principal"], "Agent::\"bob\"", "{told}");
    assert_eq!(shown["shown"], "plain");
    assert!(shown["answer"].as_str().unwrap().contains("80"), "{told}");
    let resources: Vec<_> = told["counterexamples"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["resource"].clone())
        .collect();
    assert_eq!(
        resources,
        ["main.pay.amount", "main.staff.salary"],
        "{told}"
    );
    let desk = folder(&wider);
    let cases: Vec<&str> = told["counterexamples"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["case"].as_str().unwrap())
        .collect();
    desk.write("p/tests/found.toml", cases.concat());
    desk.run(&["policy", "test", "p"]).expect_exit(0);
    // The same by a mask that leaves a part.
    let partial = POLICIES.replace("@mask(\"null\")", "@mask(\"fixed(***)\")");
    let told = prove_one(&partial, PII, 1);
    assert_eq!(
        told["counterexamples"][0]["shown"], "mask fixed(***)",
        "{told}"
    );
    assert_eq!(
        prove_one(&partial, &PII.replace("null", "mask"), 0)["outcome"],
        "proved"
    );
}

#[test]
fn rows_and_changes_have_bounds_too() {
    let some = "tables = \"main.staff\"\nrows = \"some\"";
    assert_eq!(prove_one(POLICIES, some, 0)["outcome"], "proved");
    let told = prove_one(POLICIES, "tables = \"main.staff\"\nrows = \"none\"", 1);
    assert_eq!(
        told["counterexamples"][0]["principal"], "Agent::\"ann\"",
        "{told}"
    );
    let all = format!(
        "{POLICIES}@id(\"every\") permit (principal == Agent::\"bob\", action == Action::\"see\", resource is row::main::staff);"
    );
    let told = prove_one(&all, some, 1);
    assert_eq!(told["counterexamples"][0]["shown"], "all rows", "{told}");
    let never = "tables = \"*\"\nmay_not = [\"delete\", \"update\"]";
    assert_eq!(prove_one(POLICIES, never, 0)["outcome"], "proved");
    let deletes = format!(
        "{POLICIES}@id(\"d\") permit (principal == Agent::\"ann\", action in [Action::\"delete\", Action::\"change\"], resource);"
    );
    let told = prove_one(&deletes, never, 1);
    assert_eq!(told["counterexamples"][0]["action"], "delete", "{told}");
}

/// What circumstances decide at all of their corners is refuted where a statement shows it, and undecided where none does.
#[test]
fn what_no_statement_shows_is_no_proof() {
    let at_noon = POLICIES.replace(
        "unless { principal in Role::\"dpo\" }",
        "unless { context has time && context.time > datetime(\"2026-01-01\") }",
    );
    let told = prove_one(&at_noon, PII, 1);
    assert_eq!(told["outcome"], "refuted", "{told}");
    let in_a_future = at_noon.replace("2026-01-01", "2099-01-01");
    let told = prove_one(&in_a_future, PII, 6);
    assert_eq!(told["outcome"], "undecided", "{told}");
    assert!(
        told["undecided"][0]
            .as_str()
            .unwrap()
            .contains("circumstances decide"),
        "{told}"
    );
    assert_eq!(told["spurious"], serde_json::json!([]));
    // Hidden at every corner is hidden.
    let hidden = at_noon
        .replace(
            "action == Action::\"read_plain\"",
            "action in Action::\"read\"",
        )
        .replace("@mask(\"null\")\n", "")
        .replace(
            "unless { context has time",
            "unless { false && context has time",
        );
    assert_eq!(
        prove_one(&hidden, &PII.replace("null", "hidden"), 0)["outcome"],
        "proved"
    );
    // Two masks that may come alone: neither corner shows the weaker.
    let two = format!(
        "{POLICIES}@id(\"plain\") forbid (principal, action == Action::\"read_plain\", resource == Column::\"main.staff.name\");
@id(\"one\") @mask(\"first(1)\") forbid (principal, action == Action::\"read_plain\", resource == Column::\"main.staff.name\") when {{ context.transport == \"stdio\" }};
@id(\"two\") @mask(\"null\") forbid (principal, action == Action::\"read_plain\", resource == Column::\"main.staff.name\") when {{ context.transport == \"cli\" }};"
    );
    let told = prove_one(&two, "columns = \"main.staff.name\"\nshows = \"null\"", 6);
    assert!(
        told["undecided"][0]
            .as_str()
            .unwrap()
            .contains("which of them come together"),
        "{told}"
    );
}

/// A property about nothing would hold whatever the policies say.
#[test]
fn a_property_about_nothing_is_refused_or_undecided() {
    let desk = folder(POLICIES);
    for (property, expected) in [
        (
            "tagged = \"pi\"\nshows = \"null\"",
            "there is no tag on a column `pi`; did you mean `pii`?",
        ),
        (
            "columns = \"main.staff.salry\"\nshows = \"null\"",
            "did you mean `main.staff.salary`?",
        ),
        (
            "columns = \"main.nowhere.*\"\nshows = \"null\"",
            "there is no column `main.nowhere.*`",
        ),
        (
            "tables = \"main.stuff\"\nrows = \"none\"",
            "there is no table `main.stuff`; did you mean `main.staff`?",
        ),
        (
            "outside = 'Role::\"dop\"'\ntagged = \"pii\"\nshows = \"null\"",
            "did you mean `Role::\"dpo\"`?",
        ),
        (
            "redundant = \"mask.pi\"",
            "there is no policy `mask.pi`; did you mean `mask.pii`?",
        ),
        (
            "catalog = \"stuff\"\nredundant = \"rows\"",
            "did you mean `staff`?",
        ),
        (
            "no_wider_than = \"nowhere\"",
            "cannot read the policy folder",
        ),
    ] {
        let told = prove(&desk, &format!("[[property]]\nname = \"it\"\n{property}\n"));
        assert!(
            told.err.contains(expected),
            "{property}: {}{}",
            told.out,
            told.err
        );
        assert!([2, 3].contains(&told.exit), "{property}: {}", told.exit);
    }
    let told = prove_one(
        POLICIES,
        "within = 'Role::\"dpo\"'\ntagged = \"pii\"\nshows = \"mask\"",
        1,
    );
    assert_eq!(told["world"]["principals"], 1, "{told}");
    let nobody = POLICIES.replace("Role::\"dpo\"", "Role::\"other\"");
    let told = prove_one(
        &nobody,
        "within = 'Role::\"other\"'\ntagged = \"pii\"\nshows = \"mask\"",
        6,
    );
    assert!(
        told["undecided"][0]
            .as_str()
            .unwrap()
            .contains("about no principal"),
        "{told}"
    );
}

#[test]
fn policies_are_held_to_those_that_were() {
    let against = |new: &str, exit: i32| {
        let desk = folder(new);
        for file in [
            "base.cedar",
            "principals.cedarschema",
            "entities.json",
            "classification.toml",
        ] {
            desk.write(
                &format!("old/{file}"),
                fs::read_to_string(desk.path(&format!("p/{file}"))).unwrap(),
            );
        }
        desk.write("old/base.cedar", POLICIES);
        let told = prove(
            &desk,
            "[[property]]\nname = \"it\"\nno_wider_than = \"../old\"\n",
        )
        .expect_exit(exit)
        .json();
        told["properties"][0].clone()
    };
    assert_eq!(against(POLICIES, 0)["outcome"], "proved");
    let less = format!(
        "{POLICIES}@id(\"no.team\") forbid (principal, action in Action::\"read\", resource == Column::\"main.staff.team\");"
    );
    let told = against(&less, 0);
    assert_eq!(told["outcome"], "proved", "{told}");
    let plainer = POLICIES.replace(
        "unless { principal in Role::\"dpo\" }",
        "unless { principal is Agent }",
    );
    let told = against(&plainer, 1);
    assert_eq!(
        told["counterexamples"][0]["shown"], "plain, was mask null",
        "{told}"
    );
    let rows = POLICIES
        .replace("principal has team && ", "")
        .replace("resource.team == principal.team", "resource.team == \"a\"");
    let told = against(&rows, 1);
    assert!(
        told["counterexamples"]
            .as_array()
            .unwrap()
            .iter()
            .any(|one| one["action"] == "see"),
        "{told}"
    );
    // Another condition for Bob: it may be more, and may be less.
    assert!(
        told["undecided"].to_string().contains("cannot be compared"),
        "{told}"
    );
    let calls = format!(
        "{POLICIES}@id(\"call\") permit (principal, action == Action::\"call\", resource);"
    );
    let told = against(&calls, 6);
    assert!(
        told["undecided"].to_string().contains("not enumerated"),
        "{told}"
    );
}

#[test]
fn a_redundant_policy_is_told_from_the_others() {
    let redundant = |policies: &str, id: &str, exit: i32| {
        let told = prove_one(policies, &format!("redundant = \"{id}\""), exit);
        (
            told["outcome"].as_str().unwrap().to_owned(),
            told.to_string(),
        )
    };
    let (outcome, told) = redundant(POLICIES, "mask.pii", 1);
    assert_eq!(outcome, "refuted");
    assert!(told.contains("plain"), "{told}");
    let twice = format!(
        "{POLICIES}@id(\"again\") permit (principal == Agent::\"ann\", action == Action::\"select\", resource == Table::\"main.staff\");"
    );
    let (outcome, told) = redundant(&twice, "again", 0);
    assert_eq!(outcome, "proved", "{told}");
    let calls = format!(
        "{POLICIES}@id(\"call\") permit (principal, action == Action::\"call\", resource);"
    );
    let (outcome, told) = redundant(&calls, "call", 6);
    assert_eq!(outcome, "undecided");
    assert!(
        told.contains("its actions call are not enumerated"),
        "{told}"
    );
    let timed = format!(
        "{POLICIES}@id(\"timed\") permit (principal, action == Action::\"select\", resource) when {{ context.transport == \"stdio\" }};"
    );
    let (outcome, told) = redundant(&timed, "timed", 6);
    assert_eq!(outcome, "undecided");
    assert!(told.contains("it looks at circumstances"), "{told}");
    let asking = format!(
        "{POLICIES}@id(\"asks\") @approval(\"required\") permit (principal, action == Action::\"select\", resource);"
    );
    let (outcome, told) = redundant(&asking, "asks", 1);
    assert_eq!(outcome, "refuted", "{told}");
    assert!(told.contains("after approval (required)"), "{told}");
}

/// The demonstration's own properties hold, and the text says over what.
#[test]
fn the_demonstration_keeps_its_properties() {
    let desk = Desk::empty();
    desk.run(&["demo"]).expect_exit(0);
    let told = desk
        .run(&["policy", "prove", "demo-policies"])
        .expect_exit(0)
        .out;
    assert!(told.contains("PROVED contact-data-is-never-plain\n  over these entities and this catalog: demo, 4 principals, 3 columns\n"), "{told}");
    assert!(
        told.ends_with("4 proved, 0 refuted, 0 undecided; 0 spurious\n"),
        "{told}"
    );
}
