//! `palisade policy fmt`: the layout of policies.

use std::{fs, path::Path};

use crate::desk::Desk;

const LOOSE: &str = "// Who reads.
@id(\"all\")permit(principal,action,// any
resource)when{principal==Agent::\"ann\"};
";

const TIDY: &str = "// Who reads.
@id(\"all\")
permit (principal, action, // any
  resource)
when { principal == Agent::\"ann\" };
";

const BROKEN: &str =
    "permit (principal, action, resource);\n\nforbid (principal, action,  resorce);\n";

#[test]
fn policies_are_formatted_and_their_comments_stay() {
    let desk = Desk::empty();
    desk.policy(LOOSE);
    let check = desk.run(&["policy", "fmt", "p", "--check"]).expect_exit(1);
    assert!(check.out.contains("--- p/base.cedar\n"), "{}", check.out);
    assert!(check.out.contains("+@id(\"all\")\n"), "{}", check.out);
    let text = || fs::read_to_string(desk.path("p/base.cedar")).unwrap();
    assert_eq!(text(), LOOSE);
    let told = desk.run(&["policy", "fmt", "p", "--check", "--format", "json"]);
    let told = told.expect_exit(1).json();
    assert_eq!(told["files"][0]["formatted"], false, "{told}");

    let written = desk.run(&["policy", "fmt", "p"]).expect_exit(0).out;
    assert_eq!(written, "formatted p/base.cedar\n");
    assert_eq!(text(), TIDY);
    let check = desk.run(&["policy", "fmt", "p", "--check"]).expect_exit(0);
    assert_eq!(check.out, "1 file, nothing to format\n");
}

/// A file that does not parse keeps its bytes, whatever becomes of the others.
#[test]
fn a_policy_that_does_not_parse_stays_as_it_is() {
    let desk = Desk::empty();
    desk.policy(LOOSE);
    desk.write("p/wrong.cedar", BROKEN);
    let answer = desk.run(&["policy", "fmt", "p"]).expect_exit(3);
    assert_eq!(answer.out, "formatted p/base.cedar\n");
    assert!(answer.err.contains("p/wrong.cedar:3:29"), "{}", answer.err);
    let text = |name: &str| fs::read_to_string(desk.path(name)).unwrap();
    assert_eq!(text("p/wrong.cedar"), BROKEN);
    assert_eq!(text("p/base.cedar"), TIDY);
    let told = desk.run(&["policy", "fmt", "p", "--format", "json"]);
    let told = told.expect_exit(3).json();
    assert_eq!(told["problems"][0]["line"], 3, "{told}");
    assert_eq!(told["files"][0]["formatted"], true, "{told}");
}

#[test]
fn the_shipped_policies_are_formatted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies");
    for policies in ["demo", "starter"] {
        let folder = root.join(policies);
        let check = ["policy", "fmt", folder.to_str().unwrap(), "--check"];
        Desk::empty().run(&check).expect_exit(0);
    }
}
