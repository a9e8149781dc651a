//! Pages of the manual as `man` reads them.

use std::{collections::BTreeSet, fs, process::Command};

use crate::desk::{Answer, Desk};

/// The commands that the help of `command` lists.
fn list_commands(desk: &Desk, command: &[&str]) -> Vec<String> {
    let help = desk.run(&[command, &["--help"]].concat()).expect_exit(0);
    let Some((_, rest)) = help.out.split_once("Commands:\n") else {
        return Vec::new();
    };
    rest.lines()
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

#[test]
fn each_command_has_a_page() {
    let desk = Desk::empty();
    let told = desk.run(&["man", "share/man/man1"]).expect_exit(0).out;
    let mut expected = BTreeSet::from(["palisade.1".to_owned()]);
    for command in list_commands(&desk, &[]) {
        expected.insert(format!("palisade-{command}.1"));
        for one in list_commands(&desk, &[&command]) {
            expected.insert(format!("palisade-{command}-{one}.1"));
            for inner in list_commands(&desk, &[&command, &one]) {
                expected.insert(format!("palisade-{command}-{one}-{inner}.1"));
            }
        }
    }
    assert!(expected.len() > 40, "{expected:?}");
    let folder = desk.path("share/man/man1");
    let found: BTreeSet<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(found, expected);
    assert!(
        told.starts_with(&format!("wrote {} pages", found.len())),
        "{told}"
    );
    // The first is what is printed without a folder; all are made anew.
    let first = fs::read_to_string(folder.join("palisade.1")).unwrap();
    assert_eq!(desk.run(&["man"]).expect_exit(0).out, first);
    desk.write("share/man/man1/palisade.1", "old");
    desk.run(&["man", "share/man/man1"]).expect_exit(0);
    assert_eq!(
        fs::read_to_string(folder.join("palisade.1")).unwrap(),
        first
    );
    desk.write("file", "");
    desk.run(&["man", "file/x"]).fails(2, &["file", "help:"]);
}

/// `groff` warns of what it does not know, and `man` shows the examples line by line.
#[test]
fn man_reads_the_pages() {
    let desk = Desk::empty();
    desk.run(&["man", "share/man/man1"]).expect_exit(0);
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if has("groff") {
        for entry in fs::read_dir(desk.path("share/man/man1")).unwrap() {
            let mut groff = desk.command("groff");
            groff
                .args(["-ww", "-z", "-man", "-Tutf8", "-k"])
                .arg(entry.unwrap().path());
            let read = Answer::from_command(&mut groff, b"");
            assert_eq!((read.exit, &*read.err), (0, ""));
        }
    }
    if !has("man") {
        return;
    }
    let mut man = desk.command("man");
    man.args(["-M", "share/man", "palisade-policy-check"])
        .env("MANWIDTH", "100")
        .env("MANPAGER", "cat")
        .env("LC_ALL", "C.UTF-8");
    let shown = Answer::from_command(&mut man, b"").expect_exit(0);
    for text in [
        "NAME\n",
        "palisade-policy-check",
        "- Load a policy folder",
        "SYNOPSIS\n",
        "--policies",
        "EXAMPLES\n",
    ] {
        assert!(shown.out.contains(text), "{text}: {}", shown.out);
    }
    let help = desk.run(&["policy", "check", "--help"]).expect_exit(0).out;
    let (_, examples) = help.split_once("\nExample").unwrap();
    for line in examples.lines().skip(1).filter(|line| !line.is_empty()) {
        let shown_line = shown.out.lines().any(|one| one.trim() == line.trim());
        assert!(shown_line, "`{line}` is not in\n{}", shown.out);
    }
}
