//! Policy folders: mistakes, and what the shipped ones do.

use std::fs;

use crate::desk::Desk;

#[test]
fn mistakes_in_policies_point_at_their_line() {
    let desk = Desk::new();
    let check = |told: &[&str]| {
        desk.run(&[
            "policy",
            "check",
            "--catalog",
            "sqlite:demo.db",
            "--policies",
            "p",
        ])
        .fails(3, told);
        let mut query = vec!["query", "sqlite:demo.db", "--policies", "p", "SELECT 1"];
        desk.run(&query).fails(3, told);
        query[0] = "explain";
        desk.run(&query).fails(3, told);
    };
    desk.policy("permit (principal, action, resource);\n\nforbid (principal, action, resorce);\n");
    check(&[
        "p/base.cedar:3:28",
        "3 | forbid (principal, action, resorce);",
    ]);
    desk.policy("permit (principal, action == Action::\"see\", resource is row::main::tickets)\nwhen { resource.tenat_id == 1 };");
    check(&["p/base.cedar:2:", "tenat_id"]);
    desk.policy("forbid (principal, action, resource == Column::\"main.tickets.boddy\");");
    check(&[
        "p/base.cedar:1:",
        "main.tickets.boddy",
        "did you mean `Column::\"main.tickets.body\"`?",
    ]);
    desk.policy(
        "@maks(\"last(4)\")\nforbid (principal, action == Action::\"read_plain\", resource);",
    );
    check(&["p/base.cedar:1:1", "@maks", "did you mean `@mask`?"]);
    desk.policy("permit (principal, action, resource);");
    desk.write(
        "p/classification.toml",
        "[[column]]\nname = \"main.customers.emial\"\ntags = []\n",
    );
    check(&[
        "p/classification.toml:2:",
        "did you mean `main.customers.email`?",
    ]);
    desk.write("p/classification.toml", "");
    desk.write("p/entities.json", "[{]");
    check(&["p/entities.json"]);
    fs::remove_file(desk.path("p/entities.json")).unwrap();
    desk.write("p/clasification.toml", "");
    check(&[
        "`clasification.toml` has no meaning there",
        "did you mean `classification.toml`?",
    ]);
    fs::remove_file(desk.path("p/clasification.toml")).unwrap();
    desk.write("p/base.cedar", b"// \xFF");
    check(&["base.cedar", "UTF-8"]);
    fs::remove_file(desk.path("p/base.cedar")).unwrap();
    check(&["no `*.cedar` file"]);
}

#[test]
fn odd_policies_are_warned_of() {
    let desk = Desk::new();
    desk.policy("permit (principal, action == Action::\"select\", resource);");
    let told = desk
        .run(&[
            "policy",
            "check",
            "--catalog",
            "sqlite:demo.db",
            "--policies",
            "p",
        ])
        .expect_exit(0);
    assert!(
        told.out.contains(
            "warning[no-rows]: `main.tickets` can be selected, but no principal sees a row"
        ),
        "{}",
        told.out
    );
    assert!(told.out.contains("p/base.cedar:1:1"), "{}", told.out);
}

/// What only misleads an author is told by the check, with its place, and not as a statement is decided.
#[test]
fn policies_that_do_nothing_are_warned_of() {
    let desk = Desk::new();
    desk.policy(
        "permit (principal, action in [Action::\"select\", Action::\"see\", Action::\"update\"], resource);\n\
         permit (principal in Role::\"night\", action in Action::\"read\", resource);\n\
         permit (principal, action == Action::\"discover\", resource)\n\
         when { context.transport == \"cli\" && context.transport == \"stdio\" };\n\
         forbid (principal, action == Action::\"discover\", resource);\n",
    );
    desk.write(
        "p/entities.json",
        r#"[{"uid": {"type": "Role", "id": "night"}, "attrs": {}, "parents": []}]"#,
    );
    desk.write(
        "p/classification.toml",
        "[[column]]\npattern = \"*.*.emial\"\ntags = [\"contact\"]\n",
    );
    desk.write(
        "p/templates.toml",
        "[[template]]\nname = \"open\"\ndescription = \"d\"\nsql = \"SELECT id FROM tikets\"\n",
    );
    let check = [
        "policy",
        "check",
        "--catalog",
        "sqlite:demo.db",
        "--policies",
        "p",
    ];
    let told = desk.run(&check).expect_exit(0).out;
    assert!(!told.contains("warning: "), "{told}");
    for (message, place) in [
        ("no policy permits `call` of a function", "p/base.cedar:1:1"),
        ("no policy permits `write` of a column", "p/base.cedar:1:1"),
        ("no policy permits `change` of a row", "p/base.cedar:1:1"),
        ("no policy permits `add` of a row", "p/base.cedar:1:1"),
        (
            "`Role::\"night\"` has no members in entities.json",
            "p/base.cedar:2:",
        ),
        ("are never true together", "p/base.cedar:3:1"),
        (
            "this permits nothing: the forbid `base.cedar:5`",
            "p/base.cedar:3:1",
        ),
        ("`*.*.emial` matches no column", "p/classification.toml:2:"),
        ("the template `open` cannot be run", "p/templates.toml:4:"),
    ] {
        let warning = told.split("warning[").find(|told| told.contains(message));
        assert!(
            warning.is_some_and(|told| told.contains(place)),
            "{message}: {told}"
        );
    }
    let query = ["query", "sqlite:demo.db", "--policies", "p", "SELECT 1"];
    assert!(!desk.run(&query).err.contains("never true"));
    // The shipped ones are told of nothing.
    for policies in [&["--policies", "demo-policies"][..], &[]] {
        let told = desk
            .run(&[&check[..4], policies].concat())
            .expect_exit(0)
            .out;
        assert!(told.contains("warnings: 0."), "{told}");
    }
    desk.run(&["policy", "print-starter", "--dir", "mine"])
        .expect_exit(0);
    let told = desk
        .run(&[&check[..4], &["--policies", "mine"]].concat())
        .expect_exit(0)
        .out;
    assert!(told.contains("warnings: 0."), "{told}");
}

#[test]
fn starter_policies_can_be_edited() {
    let desk = Desk::new();
    let printed = desk.run(&["policy", "print-starter"]).expect_exit(0);
    assert!(
        printed.out.contains("starter.secret") && printed.out.contains("*.*.api_key")
            || printed.out.contains("api_key")
    );
    desk.run(&["policy", "print-starter", "--dir", "mine"])
        .expect_exit(0);
    desk.run(&["policy", "print-starter", "--dir", "mine"])
        .fails(2, &["not empty"]);
    desk.run(&[
        "policy",
        "check",
        "--catalog",
        "sqlite:demo.db",
        "--policies",
        "mine",
    ])
    .expect_exit(0);
    let same = |policies: &[&str]| {
        let mut arguments = vec![
            "query",
            "sqlite:demo.db",
            "--format",
            "json",
            "SELECT * FROM credentials",
        ];
        arguments.extend(policies);
        desk.run(&arguments).expect_exit(0).json()["rows"].clone()
    };
    assert_eq!(same(&[]), same(&["--policies", "mine"]));
    assert_eq!(same(&[])[0].as_object().unwrap().len(), 3);
}

#[test]
fn the_schema_of_policies_is_printed() {
    let desk = Desk::new();
    let printed = desk
        .run(&[
            "policy",
            "schema",
            "--catalog",
            "sqlite:demo.db",
            "--policies",
            "demo-policies",
        ])
        .expect_exit(0);
    assert!(
        printed.out.contains("tenant?: Long")
            && printed
                .out
                .contains("entity tickets in [Table, HasColumn, Tagged]"),
        "{}",
        printed.out
    );
    let schema = ["policy", "schema", "--catalog", "sqlite:demo.db"];
    let more = ["--policies", "demo-policies", "--format", "json"];
    let told = desk.run(&[&schema[..], &more].concat());
    let told = told.expect_exit(0).json();
    for key in ["principals", "catalog"] {
        let text = told[key].as_str().unwrap();
        assert!(printed.out.contains(text.trim_end()), "{key}: {text}");
    }
}

/// Each command about policies answers programs too.
#[test]
fn every_command_about_policies_has_a_format() {
    let desk = Desk::empty();
    let help = |words: &[&str]| {
        let words = [&["policy"], words, &["--help"]].concat();
        desk.run(&words).expect_exit(0).out
    };
    let list = |words: &[&str]| -> Vec<String> {
        let told = help(words);
        let (_, commands) = told.split_once("Commands:\n").unwrap();
        let (commands, _) = commands.split_once("\n\n").unwrap();
        let is_name = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
        let lines = commands.lines().filter(is_name);
        let names = lines.filter_map(|line| line.split_whitespace().next());
        let names = names.filter(|name| !["help", "bundle"].contains(name));
        names.map(str::to_owned).collect()
    };
    let (commands, of_bundles) = (list(&[]), list(&["bundle"]));
    assert!(commands.len() > 12 && of_bundles.len() == 3, "{commands:?}");
    let alone = commands.iter().map(|name| vec![name.as_str()]);
    let bundled = of_bundles.iter().map(|name| vec!["bundle", name.as_str()]);
    for words in alone.chain(bundled) {
        let told = help(&words);
        assert!(told.contains("--format <FORMAT>"), "{words:?}: {told}");
    }
}

/// A principal that is misspelt, or of no type that policies know, is told to the operator, and never to the agent.
#[test]
fn a_principal_that_sees_nothing_is_told_of() {
    let desk = Desk::new();
    desk.run(&["demo"]).expect_exit(0);
    let base = ["sqlite:demo.db", "--policies", "demo-policies"];
    let run = |command: &str, principal: &str, more: &[&str]| {
        let mut run = vec![command];
        run.extend(base);
        run.extend(["--as", principal]);
        run.extend(more);
        desk.run(&run)
    };
    let sql = ["--format", "json", "SELECT id FROM tickets"];
    for command in ["query", "explain"] {
        let told = run(command, "Agent::\"suport-bot\"", &sql);
        let err = told.err.replace("\n      ", " ");
        assert!(
            err.contains("Agent::\"suport-bot\" is not in entities.json, so that it has no roles and no attributes; did you mean Agent::\"support-bot\"?"),
            "{err}"
        );
        assert!(err.contains("sees no table"), "{err}");
        assert!(!told.out.contains("entities"), "{}", told.out);
        let fine = run(command, "Agent::\"support-bot\"", &sql);
        assert!(!fine.err.contains("entities.json"), "{}", fine.err);
        let refused = run(command, "Robot::\"r2\"", &sql);
        assert!(
            refused
                .expect_exit(2)
                .err
                .contains("no principals of the type `Robot`"),
        );
    }
    let doctor = run("doctor", "Agent::\"suport-bot\"", &[]).expect_exit(0);
    assert!(
        doctor.out.contains("is not in entities.json"),
        "{}",
        doctor.out
    );
}
