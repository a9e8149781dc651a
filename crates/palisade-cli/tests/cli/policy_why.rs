//! Which policies a case that fails hangs on.

use crate::workbench::{case, folder, test};

/// Where three forbids together are the cause, all three are named, and no other.
#[test]
fn three_policies_that_decide_together_are_named() {
    let desk = folder(&case(
        "prices",
        "sql = \"SELECT price FROM tea\"\ndecision = \"allow\"",
    ));
    let forbid = |id: &str, what: &str| {
        format!("@id(\"{id}\") forbid (principal, action == Action::\"{what}\", resource);\n")
    };
    let three: String = ["a", "b", "c"]
        .iter()
        .map(|id| forbid(id, "select"))
        .collect();
    let all = "@id(\"all\") permit (principal, action, resource);\n";
    desk.policy(&format!("{all}{three}{}", forbid("other", "delete")));
    let told = test(&desk, &[]).expect_exit(1).out;
    assert!(
        told.contains("  it would hold without a and b and c\n"),
        "{told}"
    );
    // What decides once they are gone is found as well.
    let upper = "sql = \"SELECT upper(name) FROM tea\"\ndecision = \"allow\"";
    desk.write("p/tests/tea.toml", case("names", upper));
    desk.policy(&format!("{all}{three}{}", forbid("d", "call")));
    let told = test(&desk, &[]).expect_exit(1).out;
    assert!(
        told.contains("  it would hold without a and b and c and d\n"),
        "{told}"
    );
}

/// A case that no policies can make hold says so, and why; others do not.
#[test]
fn what_no_policies_can_do_is_told() {
    let allow = |sql: &str, rest: &str| format!("sql = \"{sql}\"\ndecision = \"allow\"\n{rest}");
    let reject = |sql: &str, code: &str| {
        format!("sql = \"{sql}\"\ndecision = \"reject\"\ncode = \"{code}\"")
    };
    for (body, told) in [
        (
            allow("SELECT leaves FROM tea", ""),
            "it is refused where everything is permitted too, with `name.unknown-column`: ",
        ),
        (
            allow("SELECT FROM", ""),
            "it is refused where everything is permitted too, with `syntax.invalid`: ",
        ),
        (
            reject("SELECT name FROM tea", "syntax.invalid"),
            "`syntax.invalid` depends on the statement's text alone, and this text is not refused so",
        ),
        (
            allow("SELECT name AS tea FROM tea", "masked = [\"name\"]"),
            "the statement gives no column `name`, whatever is permitted; it gives `tea`",
        ),
        (
            allow("SELECT name FROM tea", "policies = [\"cards\"]"),
            "there is no policy `cards`; did you mean `card`?",
        ),
    ] {
        let desk = folder(&case("names", &body));
        desk.policy("@id(\"card\") permit (principal, action, resource);\n");
        let text = test(&desk, &[]).expect_exit(1).out;
        let expected = format!("  no policies can make it hold: {told}");
        assert!(text.contains(&expected), "{body}: {text}");
        let json = test(&desk, &["--lint", "--format", "json"]).expect_exit(1);
        let json = json.json();
        let warning = &json["lint"]["warnings"][0];
        assert_eq!(warning["code"], "unreachable", "{json}");
    }
    // A mask that no policy gives yet, and a column that none hides.
    for body in [
        allow("SELECT name FROM tea", "masked = [\"name\"]"),
        reject("SELECT name FROM tea", "name.unknown-column"),
    ] {
        let desk = folder(&case("names", &body));
        desk.policy("@id(\"card\") permit (principal, action, resource);\n");
        let text = test(&desk, &[]).expect_exit(1).out;
        assert!(!text.contains("no policies can make it hold"), "{text}");
    }
    // A cell of a matrix of a statement that reads nothing.
    let desk = folder(
        "[[matrix]]\nname = \"m\"\n\n[matrix.principals]\nann = 'Agent::\"ann\"'\n\n[[matrix.statement]]\nname = \"one\"\nsql = \"SELECT 1\"\ncells = { ann = \"mask\" }\n",
    );
    let text = test(&desk, &[]).expect_exit(1).out;
    assert!(
        text.contains("a statement that reads no table cannot give `mask`"),
        "{text}"
    );
}
