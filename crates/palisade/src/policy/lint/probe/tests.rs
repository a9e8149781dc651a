//! What is warned of, and what is not.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use crate::{
    policy::tests::fixture::{load, set, sources},
    token::TokenSecret,
};

const SELECT: &str =
    "permit(principal, action == Action::\"select\", resource == Table::\"main.tickets\");\n";

#[test]
fn a_table_without_rows_is_warned_of() {
    let set = set(SELECT);
    assert_eq!(set.warnings().len(), 1, "{:?}", set.warnings());
    assert!(
        set.warnings()[0]
            .message
            .contains("`main.tickets` can be selected")
    );
    assert_eq!(set.warnings()[0].line, Some(1));
    let set = self::set(&format!(
        "{SELECT}permit(principal, action == Action::\"see\", resource);"
    ));
    assert!(set.warnings().is_empty(), "{:?}", set.warnings());
}

#[test]
fn rows_that_are_inserted_unseen_are_warned_of() {
    let base = "permit(principal, action in [Action::\"select\", Action::\"insert\"], resource == Table::\"main.tickets\");
         permit(principal, action in [Action::\"see\", Action::\"change\"], resource is row::main::tickets) when { resource has id && resource.id == 1 };";
    let open = "permit(principal, action == Action::\"add\", resource is row::main::tickets);";
    let set = self::set(&format!("{base}\n{open}"));
    let [warning] = set.warnings() else {
        panic!("{:?}", set.warnings())
    };
    assert!(warning.message.contains("into `main.tickets`"), "{warning}");
    let closed = open.replace(";", " when { resource has id && resource.id == 1 };");
    let set = self::set(&format!("{base}\n{closed}"));
    assert!(set.warnings().is_empty(), "{:?}", set.warnings());
}

#[test]
fn demands_that_differ_are_warned_of() {
    let read = "permit(principal, action in [Action::\"select\", Action::\"see\", Action::\"read\"], resource);\n";
    let forbid = |id: &str, mask: &str, id_of: &str| {
        format!(
            "@id(\"{id}\")\n@mask(\"{mask}\") forbid(principal, action == Action::\"read_plain\", {id_of});\n"
        )
    };
    let title = "resource == Column::\"main.tickets.title\"";
    let tickets = "resource in Table::\"main.tickets\"";
    let warnings = |policies: &str| -> Vec<String> {
        let mut sources = sources(policies);
        sources.secret = Some(TokenSecret::new("0".repeat(32)));
        let set = load(&sources).unwrap_or_else(|errors| panic!("{errors}"));
        set.warnings().iter().map(ToString::to_string).collect()
    };
    let told = warnings(&format!(
        "{read}{}{}",
        forbid("b", "null", title),
        forbid("a", "last(2)", tickets)
    ));
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].contains(
            "base.cedar:5:1: `@mask` demands `last(2)` of `main.tickets.title`, and that of `b` (base.cedar, line 2) demands `null`, which holds"
        ),
        "{told:?}"
    );
    // The same of two, or others of two principals, is no conflict.
    for other in [
        forbid("a", "null", tickets),
        forbid("a", "last(2)", tickets)
            .replace("(principal,", "(principal == Agent::\"bot\",")
            .replace("title", "id"),
    ] {
        let told = warnings(&format!(
            "{read}{}{other}",
            forbid("b", "null", "resource == Column::\"main.customers.ssn\"")
        ));
        assert!(told.is_empty(), "{told:?}");
    }
    let capped = read.replace("permit", "@id(\"many\") @max_rows(\"500\") permit")
        + "@id(\"few\") @max_rows(\"20\") permit(principal, action == Action::\"see\", resource is row::main::tickets);";
    let told = warnings(&capped);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("`@max_rows` demands `500` of `main.tickets`, and that of `few` (base.cedar, line 2) demands `20`"), "{told:?}");
    let tokens = format!(
        "{read}forbid(principal, action == Action::\"read_plain\", {title});
         @id(\"one\") @domain(\"people\") permit(principal, action == Action::\"read_token\", {title});
         @id(\"two\") permit(principal, action == Action::\"read_token\", {title});"
    );
    let told = warnings(&tokens);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].contains("`@domain` demands `people` of `main.tickets.title`, and that of `two`"),
        "{told:?}"
    );
}

#[test]
fn tokens_that_can_be_guessed_are_warned_of() {
    let mut sources = sources(
        "permit(principal, action in [Action::\"select\", Action::\"see\", Action::\"insert\", Action::\"add\", Action::\"write\"], resource);
         permit(principal, action == Action::\"read_token\", resource == Column::\"main.tickets.title\");",
    );
    sources.secret = Some(TokenSecret::new("0".repeat(32)));
    let set = load(&sources).unwrap_or_else(|errors| panic!("{errors}"));
    let [warning] = set.warnings() else {
        panic!("{:?}", set.warnings())
    };
    assert!(
        warning.message.contains("`main.tickets.title`"),
        "{warning}"
    );
}

#[test]
fn expressions_fit_each_column_or_do_not_load() {
    let mask = |text: &str, column: &str| {
        let mask = format!(
            "\n@mask(\"expr({text})\")\nforbid(principal, action == Action::\"read_plain\", resource == Column::\"main.tickets.{column}\");"
        );
        load(&sources(&format!(
            "{SELECT}permit(principal, action in [Action::\"see\", Action::\"read\"], resource);{mask}"
        )))
    };
    for (text, column, message) in [
        ("value > 5", "title", "it compares text with a number"),
        ("lower(title)", "region", "another column, `title`"),
        ("CASE WHEN value THEN 1 ELSE 'x' END", "open", "in one case"),
    ] {
        let errors = mask(text, column).unwrap_err();
        let [problem] = errors.problems() else {
            panic!("{errors}")
        };
        assert!(problem.message.contains(message), "{problem}");
        assert!(
            problem
                .message
                .contains(&format!("`main.tickets.{column}`")),
            "{problem}"
        );
        assert_eq!((problem.line, problem.column), (Some(3), Some(1)));
    }
    for (text, column) in [("value > 5", "level"), ("LOWER(Title)", "title")] {
        let set = mask(text, column).unwrap_or_else(|errors| panic!("{errors}"));
        assert!(set.warnings().is_empty(), "{:?}", set.warnings());
    }
    let set = mask("coalesce(value, 'none')", "title").unwrap();
    let [warning] = set.warnings() else {
        panic!("{:?}", set.warnings())
    };
    assert!(warning.message.contains("it hides nothing"), "{warning}");
    assert_eq!(warning.line, Some(3));
}

#[test]
fn conditions_are_checked_for_every_kind_of_principal_and_transport() {
    // Only agents with a tenant, over stdio, ever reach the multiplication.
    let text = format!(
        "{SELECT}permit(principal, action == Action::\"see\", resource);\n\
         forbid(principal is Agent, action == Action::\"see\", resource is row::main::tickets)\n\
         when {{ principal has tenant && context.transport == \"stdio\" && resource.id * 2 == principal.tenant }};"
    );
    let errors = load(&sources(&text)).unwrap_err();
    assert_eq!(errors.problems().len(), 1, "{errors}");
    assert_eq!(errors.problems()[0].line, Some(3), "{errors}");
    assert!(
        errors.problems()[0].message.contains("no SQL form"),
        "{errors}"
    );
}

#[test]
fn what_holds_at_some_times_is_looked_at() {
    let see = |condition: &str| {
        set(&format!(
            "{SELECT}permit(principal, action == Action::\"see\", resource is row::main::tickets) when {{ {condition} }};"
        ))
    };
    for condition in [
        "context has time && context.time < datetime(\"2030-01-01\")",
        "context has time && context.time > datetime(\"2030-01-01\") && context.time < datetime(\"2031-01-01\")",
    ] {
        let set = see(condition);
        assert!(
            set.warnings().is_empty(),
            "{condition}: {:?}",
            set.warnings()
        );
    }
    let set = see(
        "context has time && context.time > datetime(\"2020-01-01\") && resource has id && resource.id * 2 == 4",
    );
    let [warning] = set.warnings() else {
        panic!("{:?}", set.warnings())
    };
    assert!(warning.message.contains("has no SQL form"), "{warning}");
}

#[test]
fn hidden_columns_that_may_be_written_are_warned_of() {
    const ALL: &str = "permit(principal, action, resource);\n";
    let hidden = "forbid(principal, action in Action::\"read\", resource == Column::\"main.customers.ssn\");\n";
    let told = |text: &str| -> Vec<String> {
        let set = set(text);
        let warnings = set.warnings().iter().map(ToString::to_string);
        warnings
            .filter(|w| w.contains("may be written by somebody"))
            .collect()
    };
    let found = told(&format!("{ALL}{hidden}"));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].ends_with(
            "`main.customers.ssn` may be written by somebody from whom it is hidden: this permits writing every column, and forbids of reading forbid no writing\n  help: forbid `Action::\"write\"` on it as well, or permit `write` with `resource == Column::\"…\"` where it is meant"
        ),
        "{found:?}"
    );
    for more in [
        "forbid(principal, action == Action::\"write\", resource == Column::\"main.customers.ssn\");",
        "permit(principal, action == Action::\"write\", resource == Column::\"main.customers.ssn\");",
        "forbid(principal, action in [Action::\"insert\", Action::\"update\"], resource);",
        "forbid(principal, action == Action::\"select\", resource == Table::\"main.customers\");",
    ] {
        assert_eq!(told(&format!("{ALL}{hidden}{more}")), [""; 0], "{more}");
    }
    assert_eq!(told(ALL), [""; 0]);
}
