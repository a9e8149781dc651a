//! How far long work is, at a terminal.

use crate::{
    desk::{Answer, Desk},
    workbench::{READ, case, folder},
};

/// At a terminal the work is counted on a line that is gone at the end; elsewhere nothing is written beside the answer.
#[test]
fn long_work_is_counted_at_a_terminal() {
    let cases: String = (0..400)
        .map(|number| case(&format!("case-{number}"), READ))
        .collect();
    let desk = folder(&cases);
    let test = ["policy", "test", "p"];
    let plain = desk.run(&test).expect_exit(0);
    assert_eq!(plain.err, "");
    assert!(plain.out.contains("400 passed"), "{}", plain.out);
    let shown = at_terminal(&desk, &test);
    assert!(shown.contains("cases · "), "{shown:?}");
    assert!(shown.contains(" of 400 · "), "{shown:?}");
    let end = shown.rsplit("\u{1b}[2K").next().unwrap();
    assert!(end.contains("400 passed, 0 failed"), "{shown:?}");
    assert!(!end.contains(" of 400"), "{shown:?}");
    for work in [
        &["policy", "lock", "p"][..],
        &["policy", "test", "p", "--filter", "case-1", "--mutate"],
    ] {
        let shown = at_terminal(&desk, work);
        assert!(shown.contains(" · 0s"), "{work:?}: {shown:?}");
    }
}

/// What a command writes where its output is a terminal.
fn at_terminal(desk: &Desk, arguments: &[&str]) -> String {
    let program = env!("CARGO_BIN_EXE_palisade");
    let command = format!("{program} {}", arguments.join(" "));
    let mut script = desk.command("script");
    script.env("TERM", "xterm");
    script.args(["--quiet", "--return", "--command", &command, "/dev/null"]);
    Answer::from_command(&mut script, b"").out
}
