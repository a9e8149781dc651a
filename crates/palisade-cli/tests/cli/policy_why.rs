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
