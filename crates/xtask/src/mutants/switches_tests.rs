//! Each kind of change, one in another, and what no switch can make.

use std::collections::BTreeSet;

use serde_json::json;

use super::{super::list::Mutant, switch};

/// A change of `genre` that begins where `at` first stands in `source`.
fn change(source: &str, genre: &str, at: &str, replacement: &str) -> Mutant {
    let before = source.split(at).next().unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before
        .chars()
        .rev()
        .take_while(|char| *char != '\n')
        .count()
        + 1;
    let row = json!({
        "name": at, "file": "f.rs", "genre": genre, "replacement": replacement,
        "span": { "start": { "line": line, "column": column } },
    });
    Mutant::read(&row, source).unwrap_or_else(|| panic!("{row}"))
}

#[track_caller]
fn check(source: &str, changes: &[(&str, &str, &str)], switched: &str) {
    let changes: Vec<Mutant> = (changes.iter())
        .map(|(genre, at, replacement)| change(source, genre, at, replacement))
        .collect();
    let numbered: Vec<(u32, &Mutant)> = (0..).zip(&changes).collect();
    let found = switch(source, &numbered).unwrap_or_else(|error| panic!("{error}"));
    let out: Vec<(u32, &str)> = found.left_out.clone();
    assert_eq!(found.text, switched, "{out:?}");
    let here = found.changes.iter().map(|(number, _)| *number);
    let told: BTreeSet<u32> = here.chain(out.iter().map(|(number, _)| *number)).collect();
    assert_eq!(told.len(), changes.len());
    syn::parse_file(&found.text).unwrap_or_else(|error| panic!("{error}: {}", found.text));
}

#[test]
fn an_operator_has_each_of_its_changes_in_a_branch() {
    check(
        "fn f(é: u8) -> bool { é < 3 }",
        &[("BinaryOperator", "<", "=="), ("BinaryOperator", "<", ">")],
        "fn f(é: u8) -> bool { (if crate::__changed(0) { (é == 3) } else if crate::__changed(1) { (é > 3) } else { (é < 3) }) }",
    );
}

#[test]
fn inner_changes_stand_in_each_branch_of_outer_ones() {
    check(
        "fn f(a: bool, b: bool) -> bool { !a && b }",
        &[
            ("FnValue", "!a", "true"),
            ("BinaryOperator", "&&", "||"),
            ("UnaryOperator", "!a", ""),
        ],
        "fn f(a: bool, b: bool) -> bool { if crate::__changed(0) { return true; } \
         (if crate::__changed(1) { ((if crate::__changed(2) { (a) } else { (!a) }) || b) } \
         else { ((if crate::__changed(2) { (a) } else { (!a) }) && b) }) }",
    );
}

#[test]
fn arms_are_guarded_and_guards_replaced() {
    check(
        "fn f(a: u8) -> u8 { match a { 1 | 2 => 3, x if x > 4 => 5, _ => 6 } }",
        &[
            ("MatchArm", "1 |", ""),
            ("MatchArmGuard", "x >", "true"),
            ("BinaryOperator", "> 4", "<"),
        ],
        "fn f(a: u8) -> u8 { match a { 1 | 2 if !crate::__changed(0)  => 3, \
         x if (if crate::__changed(1) { (true) } else if crate::__changed(2) { (x < 4) } else { (x > 4) }) => 5, _ => 6 } }",
    );
}

#[test]
fn a_field_takes_the_value_of_the_base() {
    check(
        "fn f() -> S { S { a: 1, ..S::default() } }",
        &[("StructField", "a: 1", "")],
        "fn f() -> S { S { a: (if crate::__changed(0) { ({ let base: S = S::default(); base.a }) } else { (1) }), ..S::default() } }",
    );
}

#[test]
fn constants_and_chains_of_let_stay_as_they_are() {
    for source in ["const A: u8 = 1 + 2;", "const fn f() -> u8 { 1 + 2 }"] {
        check(source, &[("BinaryOperator", "+", "-")], source);
    }
    let chain = "fn f() { if let Some(x) = g() && h(x) {} }";
    check(chain, &[("BinaryOperator", "&&", "||")], chain);
}
