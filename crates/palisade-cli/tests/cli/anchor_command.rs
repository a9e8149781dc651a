//! Anchors that a program takes away from the machine.

use std::{
    fs,
    time::{Duration, Instant},
};

use crate::{desk::Desk, serve::Client};

const CONFIG: [&str; 2] = ["--config", "palisade.toml"];

/// The demonstration, whose anchors this script takes.
fn desk(script: &str, lines: &str) -> Desk {
    let desk = Desk::new();
    desk.write("keep.sh", format!("#!/bin/sh\n{script}\n"));
    desk.shell("chmod +x keep.sh && mkdir elsewhere", 0, b"")
        .expect_exit(0);
    desk.write(
        "palisade.toml",
        format!(
            "policies = \"demo-policies\"\nprincipal = 'Agent::\"support-bot\"'\n\
             [audit]\nfile = \"audit.jsonl\"\nanchor_command = [\"./keep.sh\", \"a word; and $more\"]\n{lines}\n\
             [connections.desk]\nurl = \"sqlite:demo.db\"\n"
        ),
    );
    desk
}

fn verify(desk: &Desk, more: &[&str]) -> crate::desk::Answer {
    desk.run(&[&["audit", "verify"][..], &CONFIG, more].concat())
}

/// Waits until a file holds so many lines.
fn wait_for(desk: &Desk, file: &str, lines: usize) -> String {
    let began = Instant::now();
    loop {
        let text = fs::read_to_string(desk.path(file)).unwrap_or_default();
        if text.lines().count() >= lines {
            return text;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{file}: {text}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn anchors_that_were_taken_away_find_a_tail_that_was_cut() {
    let desk = desk(
        "cat >> elsewhere/anchors; echo \"$# $1\" > elsewhere/words; env > elsewhere/env",
        "anchor_records = 2",
    );
    let mut client = Client::new(&desk, &CONFIG);
    for _ in 0..3 {
        client.query("SELECT 1 AS n");
    }
    wait_for(&desk, "elsewhere/anchors", 1);
    client.query("SELECT 2 AS n");
    client.end();
    let anchors = fs::read_to_string(desk.path("elsewhere/anchors")).unwrap();
    let log = fs::read_to_string(desk.path("audit.jsonl")).unwrap();
    let last = anchors.lines().last().unwrap();
    let records = log.lines().count();
    assert!(last.contains(&format!("\"seq\":{records}")), "{last}");
    let words = fs::read_to_string(desk.path("elsewhere/words")).unwrap();
    assert_eq!(words, "1 a word; and $more\n");
    let taken = ["--anchors", "elsewhere/anchors"];
    let whole = verify(&desk, &taken).expect_exit(0).out;
    assert!(!whole.contains("anchor_command"), "{whole}");
    let cut: Vec<&str> = log.lines().take(records - 1).collect();
    desk.write("audit.jsonl", format!("{}\n", cut.join("\n")));
    verify(&desk, &[]).expect_exit(0);
    let found = verify(&desk, &taken).expect_exit(1).out;
    assert!(found.contains("its end was cut off"), "{found}");
}

/// The environment of the server can hold secrets.
#[test]
fn the_program_gets_no_secret_and_may_write_what_it_likes() {
    let desk = desk(
        "env > elsewhere/env; echo '{\"jsonrpc\"'",
        "anchor_records = 1",
    );
    let mut command = desk.command(env!("CARGO_BIN_EXE_palisade"));
    let command = command.env("DATABASE_PASSWORD", "geheim").arg("serve");
    let mut client = Client::start(command.args(CONFIG));
    client.query("SELECT 1 AS n");
    wait_for(&desk, "elsewhere/env", 1);
    let answer = client.query("SELECT 2 AS n");
    assert_eq!(answer["isError"], false, "{answer}");
    client.end();
    let environment = fs::read_to_string(desk.path("elsewhere/env")).unwrap();
    assert!(
        environment.contains("PATH=") && !environment.contains("geheim"),
        "{environment}"
    );
}

#[test]
fn a_program_that_fails_or_hangs_is_told_of_and_stops_no_call() {
    let desk = desk(
        "echo $$ >> elsewhere/began; exec sleep 60",
        "anchor_records = 1\nanchor_command_seconds = 1",
    );
    let mut client = Client::new(&desk, &CONFIG);
    let began = Instant::now();
    for _ in 0..5 {
        client.query("SELECT 1 AS n");
    }
    assert!(began.elapsed() < Duration::from_millis(1500));
    wait_for(&desk, "elsewhere/began", 1);
    let began = Instant::now();
    let log = client.end();
    // Nothing is left that runs.
    assert!(began.elapsed() < Duration::from_secs(20));
    assert!(
        log.contains("an anchor was not taken away") && log.contains("did not end within 1 s"),
        "{log}"
    );
    let told = verify(&desk, &[]).expect_exit(0).out;
    assert!(
        told.contains("note: `anchor_command` did not take the last anchor")
            && told.contains("it has taken none"),
        "{told}"
    );
    let machine = verify(&desk, &["--format", "json"]).expect_exit(0).out;
    assert!(
        machine.contains("\"anchor_command\":\"`anchor_command` did not"),
        "{machine}"
    );
    let doctor = desk.run(&[&["doctor", "connection:desk"][..], &CONFIG].concat());
    let doctor = doctor.expect_exit(0).out;
    let doctor = doctor.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(doctor.contains("did not take the last anchor"), "{doctor}");
    // What is killed is gone.
    let began = fs::read_to_string(desk.path("elsewhere/began")).unwrap();
    let first = began.lines().next().unwrap();
    assert!(!std::path::Path::new(&format!("/proc/{first}")).exists());
    // The next anchor that is taken ends the matter.
    desk.write("keep.sh", "#!/bin/sh\ncat > elsewhere/anchors\n");
    let run = ["query", "connection:desk", "SELECT 1 AS n"];
    desk.run(&[&run[..], &CONFIG].concat()).expect_exit(0);
    wait_for(&desk, "elsewhere/anchors", 1);
    let told = verify(&desk, &["--anchors", "elsewhere/anchors"]);
    let told = told.expect_exit(0).out;
    assert!(!told.contains("anchor_command"), "{told}");
}

#[test]
fn the_command_of_anchors_is_strict() {
    let desk = desk("", "");
    let configuration = fs::read_to_string(desk.path("palisade.toml")).unwrap();
    let with = |command: &str| {
        let changed = configuration.replace("[\"./keep.sh\", \"a word; and $more\"]", command);
        desk.write("palisade.toml", changed);
        desk.run(&[&["query", "connection:desk", "SELECT 1"][..], &CONFIG].concat())
    };
    with("[]").fails(3, &["`anchor_command` names no program"]);
    with("\"./keep.sh\"").fails(3, &["palisade.toml"]);
    with("[\"./nothing.sh\"]").fails(3, &["nothing.sh", "anchor_command"]);
    with("[\"./keep.sh\"]\nanchor_command_seconds = 61").fails(3, &["from 1 to 60"]);
}
