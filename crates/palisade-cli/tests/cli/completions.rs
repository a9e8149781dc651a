//! Completions as a shell loads them.

use std::process::Command;

use crate::desk::{Answer, Desk};

/// What bash offers where a line of `words` ends, as it calls what the script has registered.
fn complete(desk: &Desk, words: &[&str]) -> Vec<String> {
    let script = r#"
        set -u
        source palisade.bash
        [[ "$(complete -p palisade)" =~ -F\ ([A-Za-z_]+) ]] || exit 9
        function=${BASH_REMATCH[1]}
        COMP_WORDS=("$@")
        COMP_CWORD=$(($# - 1))
        COMP_LINE="$*"
        COMP_POINT=${#COMP_LINE}
        "$function" palisade "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let mut bash = desk.command("bash");
    bash.args(["--norc", "--noprofile", "-c", script, "bash"])
        .args(words);
    let answer = Answer::from_command(&mut bash, b"").expect_exit(0);
    assert_eq!(answer.err, "");
    answer.out.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    let desk = Desk::empty();
    desk.shell("palisade completions bash > palisade.bash", 0, b"")
        .expect_exit(0);
    for (words, offered, not_offered) in [
        (
            &["palisade", "ex"][..],
            &["execute", "explain"][..],
            "query",
        ),
        (&["palisade", "policy", ""], &["check", "prove"], "doctor"),
        (&["palisade", "query", "--po"], &["--policies"], "--format"),
        (
            &["palisade", "query", "--format", ""],
            &["text", "json"],
            "xml",
        ),
        (
            &["palisade", "completions", ""],
            &["bash", "elvish", "fish", "powershell", "zsh"],
            "csh",
        ),
        (
            &["palisade", "mcp-config", "c"],
            &["claude-code", "codex", "cursor"],
            "zed",
        ),
    ] {
        let found = complete(&desk, words);
        for word in offered {
            assert!(found.iter().any(|one| one == word), "{words:?}: {found:?}");
        }
        assert!(!found.iter().any(|one| one == not_offered), "{found:?}");
    }
}

/// Every shell's script names the commands; where the shell is there, it reads the script.
#[test]
fn each_shell_has_its_script() {
    let desk = Desk::empty();
    for (shell, registers, check) in [
        ("bash", "complete -F", &["-n"][..]),
        ("zsh", "#compdef palisade", &["-n"]),
        ("fish", "complete -c palisade", &["--no-execute"]),
        ("powershell", "Register-ArgumentCompleter", &[]),
        ("elvish", "edit:completion:arg-completer[palisade]", &[]),
    ] {
        let script = desk.run(&["completions", shell]).expect_exit(0).out;
        assert!(script.contains(registers), "{shell}: {script}");
        assert!(script.contains("setup-sql"), "{shell}");
        desk.write("script", &script);
        if check.is_empty() || Command::new(shell).arg("--version").output().is_err() {
            continue;
        }
        let read = Answer::from_command(desk.command(shell).args(check).arg("script"), b"");
        assert_eq!((read.exit, &*read.err), (0, ""), "{shell}");
    }
    desk.run(&["completions", "csh"]).fails(2, &["csh", "bash"]);
}
