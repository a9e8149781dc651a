//! `access.lock` over many tables.

use std::fs;

use crate::workbench::{lock, shop};

/// Tables are asked about some at a time: none is left out, and each line stands once and in order.
#[test]
fn a_lock_is_of_every_table() {
    const TABLES: usize = 300;
    let desk = shop(
        "@id(\"ann\") permit (principal == Agent::\"ann\", action in [Action::\"select\", Action::\"see\", Action::\"read\", Action::\"run\"], resource);\n\
         @id(\"ben\") permit (principal == Agent::\"ben\", action == Action::\"select\", resource == Table::\"main.t299\");\n",
    );
    let script: String = (0..TABLES)
        .map(|number| format!("CREATE TABLE t{number} (id INTEGER);\n"))
        .collect();
    desk.write("p/tests/tea.sql", script);
    desk.write(
        "p/templates.toml",
        "[[template]]\nname = \"one\"\ndescription = \"One.\"\nsql = \"SELECT 1\"\nparameters = []\n",
    );
    lock(&desk, &[]).expect_exit(0);
    let text = fs::read_to_string(desk.path("p/access.lock")).unwrap();
    let of = |who: &str| -> Vec<&str> {
        let start = format!("Agent::\"{who}\": ");
        text.lines()
            .filter_map(|line| line.strip_prefix(&start))
            .collect()
    };
    let mut expected: Vec<String> = (0..TABLES)
        .flat_map(|number| {
            ["see: all rows", "select: allow"]
                .map(|cell| format!("main.t{number} {cell}"))
                .into_iter()
                .chain([format!("main.t{number}.id read: plain")])
        })
        .collect();
    expected.push("template one run: allow".to_owned());
    let mut sorted = of("ann");
    sorted.sort_unstable();
    expected.sort_unstable();
    assert_eq!(sorted, expected);
    let tables: Vec<&str> = (of("ann").into_iter())
        .filter_map(|line| line.strip_suffix(" select: allow"))
        .collect();
    assert!(tables.is_sorted(), "{tables:?}");
    let hidden = [
        "main.t299 see: no rows",
        "main.t299 select: allow",
        "main.t299.id read: hidden",
    ];
    assert_eq!(of("ben"), hidden);
}

const OF_TEA: &str = "@id(\"read\") permit (principal == Agent::\"ann\", action in [Action::\"select\", Action::\"see\", Action::\"read_plain\", Action::\"change\", Action::\"add\"], resource);
@id(\"price\") @approval(\"required\") permit (principal == Agent::\"ann\", action == Action::\"read_plain\", resource == Column::\"main.tea.price\");
@id(\"update\") @approval(\"operator\") @max_rows(\"1\") permit (principal == Agent::\"ann\", action in [Action::\"update\", Action::\"write\"], resource);
";

/// Who takes an approval out of the policies, or lowers it, changes the lock and widens what somebody may do.
#[test]
fn approvals_are_reviewed() {
    let desk = shop(OF_TEA);
    desk.write("old/base.cedar", OF_TEA);
    lock(&desk, &[]).expect_exit(0);
    let text = fs::read_to_string(desk.path("p/access.lock")).unwrap();
    for line in [
        "main.tea update: allow, after approval (operator), at most 1 rows\n",
        "main.tea.name write: allow, after approval (operator)\n",
        "main.tea.price read: plain, after approval (required)\n",
        "main.tea.name read: plain\n",
        "main.tea select: allow\n",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let what = desk.run(&[
        "policy",
        "what",
        "Agent::\"ann\"",
        "--catalog",
        "schema.sql",
        "--policies",
        "p",
    ]);
    let what = what.expect_exit(0).out;
    let update = "update  allow, after approval (operator), at most 1 rows";
    assert!(what.contains(update), "{what}");

    desk.write("old/tests/tea.sql", crate::workbench::TABLES);
    let diff = |exit| {
        let told = desk.run(&["policy", "diff", "old", "p"]);
        told.expect_exit(exit).out
    };
    assert_eq!(diff(0), "nothing changes\n");
    let case = "[[case]]\nname = \"waits\"\nas = 'Agent::\"ann\"'\nsql = \"UPDATE tea SET name = 'x' WHERE id = 1\"\ndecision = \"reject\"\ncode = \"approval.required\"\napproval = \"operator\"\n";
    desk.write("p/tests/tea.toml", case);
    desk.run(&["policy", "test", "p"]).expect_exit(0);

    desk.policy(&OF_TEA.replace("\"operator\"", "\"required\""));
    let told = diff(1);
    for text in [
        "with less approval:\n",
        "  Agent::\"ann\": case waits: approval.required (required), was approval.required (operator)\n",
        "  Agent::\"ann\": main.tea update: allow, after approval (required), at most 1 rows, was allow, after approval (operator), at most 1 rows\n",
    ] {
        assert!(told.contains(text), "{text}\n{told}");
    }
    let told = desk.run(&["policy", "test", "p"]).expect_exit(1).out;
    for text in ["approval\n", "expected operator", "got      required"] {
        assert!(told.contains(text), "{text}\n{told}");
    }
    desk.policy(&OF_TEA.replace("@approval(\"required\") ", ""));
    assert!(diff(1).contains("main.tea.price read: plain, was plain, after approval (required)\n"));
    desk.write(
        "p/tests/tea.toml",
        case.replace("approval.required", "name.unknown-column"),
    );
    desk.run(&["policy", "test", "p"])
        .fails(2, &["`approval` is for a case with"]);
}
