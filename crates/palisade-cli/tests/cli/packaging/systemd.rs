//! The unit of `palisade serve --http`.

use std::process::Command;

use crate::{
    desk::{Answer, Desk},
    packaging::{check_arguments, check_configuration, read, split_words},
};

/// What only one of the two units says.
const OWN: [&str; 7] = [
    "Description=",
    "ExecStart=",
    "ExecReload=",
    "LoadCredential=",
    "StateDirectory",
    "User=",
    "ReadWritePaths=",
];

fn directives(unit: &str) -> Vec<&str> {
    let (_, unit) = unit.split_once("[Unit]").unwrap();
    let lines = unit.lines().filter(|line| {
        let is_own = OWN.iter().any(|own| line.starts_with(own));
        // The broker alone locks its memory, and says how long it may take to end.
        let differs = ["ProtectHome=", "LimitMEMLOCK=", "TimeoutStopSec="]
            .iter()
            .any(|one| line.starts_with(one));
        !is_own && !line.is_empty() && !differs
    });
    lines.collect()
}

/// The unit forbids what that of the broker forbids.
#[cfg(unix)]
#[test]
fn the_unit_is_as_hard_as_the_broker_s() {
    let desk = Desk::empty();
    desk.write(
        "palisade.toml",
        "audit = \"broker/audit.jsonl\"\n[broker]\ndirectory = \"broker\"\n[connections.desk]\nurl = \"sqlite:demo.db\"\n",
    );
    let asked = [
        "broker",
        "--config",
        "palisade.toml",
        "install-service",
        "--print",
    ];
    let broker = desk.run(&asked).expect_exit(0).out;
    let unit = read("systemd/palisade.service");
    assert_eq!(directives(&unit), directives(&broker));
    // It has no business in homes at all.
    assert!(unit.contains("\nProtectHome=yes\n"));
}

#[test]
fn the_unit_s_command_and_configuration_load() {
    let unit = read("systemd/palisade.service");
    let start = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="))
        .unwrap();
    let words = split_words(start);
    assert_eq!(words[0], "/usr/local/bin/palisade");
    check_arguments(&words[1..]);
    let desk = check_configuration("systemd/palisade.toml", &[]);
    desk.run(&["config", "check"]).expect_exit(0);
    let text = read("systemd/palisade.toml");
    // What it may write, and the credential that it reads.
    assert!(unit.contains("\nStateDirectory=palisade\n"));
    assert!(text.contains("\"/var/lib/palisade/audit.jsonl\""));
    let credential = unit
        .lines()
        .find_map(|line| line.strip_prefix("LoadCredential="))
        .unwrap();
    let (name, _) = credential.split_once(':').unwrap();
    let file = format!("\"/run/credentials/palisade.service/{name}\"");
    assert_eq!(text.matches(&file).count(), 2, "{file}");
}

#[test]
fn systemd_takes_the_unit() {
    if Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .is_err()
    {
        return;
    }
    let desk = Desk::empty();
    let unit = read("systemd/palisade.service");
    desk.write(
        "palisade.service",
        unit.replace("/usr/local/bin/palisade", env!("CARGO_BIN_EXE_palisade")),
    );
    let analyze = |arguments: &[&str]| {
        let mut command = desk.command("systemd-analyze");
        let answer = Answer::from_command(command.args(arguments), b"");
        assert_eq!(answer.exit, 0, "{}{}", answer.out, answer.err);
        answer
    };
    let told = analyze(&["verify", "./palisade.service"]);
    assert!(!told.err.contains("palisade.service:"), "{}", told.err);
    // Exposure below 2.5 of 10.
    analyze(&[
        "security",
        "--offline=yes",
        "--no-pager",
        "--threshold=25",
        "./palisade.service",
    ]);
}
