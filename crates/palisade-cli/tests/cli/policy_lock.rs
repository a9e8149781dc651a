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
