//! `palisade load-connections`: passwords from a real terminal, to a server that wants them.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::fs::MetadataExt as _,
    process::{Command, Stdio},
};

use palisade_testkit::servers::PostgresServer;
use serde_json::json;

use crate::{
    broker::{Broker, relay},
    desk::{Answer, Desk},
};

pub(crate) const PASSWORD: &str = "p@ss w/rd geheim";

const LOAD: &str = "load-connections --config palisade.toml";

/// Runs the command in a terminal, at which a line is typed each time it asks.
pub(crate) fn at_terminal(desk: &Desk, arguments: &str, typed: &[&str]) -> Answer {
    at_terminal_by("", desk, arguments, typed)
}

/// As [`at_terminal`], started by another command.
pub(crate) fn at_terminal_by(by: &str, desk: &Desk, arguments: &str, typed: &[&str]) -> Answer {
    let program = env!("CARGO_BIN_EXE_palisade");
    let mut child = desk
        .command("script")
        .args(["-qec", &format!("{by}{program} {arguments}"), "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut keys = child.stdin.take().unwrap();
    let mut screen = child.stdout.take().unwrap();
    let (mut shown, mut typed) = (Vec::new(), typed.iter());
    let mut piece = [0; 1024];
    let mut asked = 0;
    loop {
        let count = screen.read(&mut piece).unwrap();
        if count == 0 {
            break;
        }
        shown.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&shown);
        // It asks once nothing that is typed is shown any more.
        let questions = text.matches("(none: Enter): ").count();
        while asked < questions {
            asked += 1;
            writeln!(keys, "{}", typed.next().unwrap()).unwrap();
        }
    }
    assert_eq!(typed.next(), None, "{}", String::from_utf8_lossy(&shown));
    Answer {
        exit: child.wait().unwrap().code().unwrap(),
        out: String::from_utf8(shown).unwrap(),
        err: String::new(),
    }
}

#[test]
fn passwords_go_from_a_terminal_to_the_broker_and_nowhere_else() {
    let server = PostgresServer::start().unwrap();
    server
        .query(
            "postgres",
            &format!(
                "CREATE TABLE t (a int); INSERT INTO t VALUES (7);
                 CREATE ROLE ann LOGIN PASSWORD '{PASSWORD}'; GRANT SELECT ON t TO ann;
                 CREATE ROLE bea LOGIN PASSWORD '{PASSWORD}'; GRANT SELECT ON t TO bea;
                 COPY (SELECT 'host all postgres 127.0.0.1/32 trust' UNION ALL
                       SELECT 'host all all 127.0.0.1/32 scram-sha-256') TO PROGRAM 'cat > pg_hba.conf';
                 SELECT pg_reload_conf();"
            ),
        )
        .unwrap();
    let desk = Desk::new();
    let configure = |user: &str| {
        desk.write(
            "palisade.toml",
            format!(
                "[grants]\nhosts = [\"{}:{}\"]\n[connections.demo]\nurl = \"sqlite:demo.db\"\n[connections.sales]\nurl = \"{}\"\n",
                server.host(),
                server.port(),
                server.url_as(user, "postgres")
            ),
        );
    };
    configure("ann");
    let list = || {
        desk.run(&["load-connections", "--config", "palisade.toml", "--list"])
            .expect_exit(0)
            .out
    };
    assert_eq!(
        list(),
        "demo  needs none here\nsales  new or changed: not stored\n"
    );
    desk.run(&["broker", "--config", "palisade.toml"])
        .fails(3, &["no password is stored", "load-connections"]);

    // A wrong one is asked for again, and none of it stays.
    let answer = at_terminal(&desk, LOAD, &["wrong geheim", "\x03"]);
    assert_eq!(answer.exit, 2, "{}{}", answer.out, answer.err);
    assert!(answer.out.contains("Password of `ann`"), "{}", answer.out);
    assert!(!answer.out.contains("geheim"), "{}", answer.out);
    assert_eq!(
        fs::read_dir(desk.path("broker/passwords")).unwrap().count(),
        0
    );

    let answer = at_terminal(&desk, LOAD, &[PASSWORD]);
    assert_eq!(answer.exit, 0, "{}{}", answer.out, answer.err);
    assert!(!answer.out.contains("geheim"), "{}", answer.out);
    assert_eq!(list(), "demo  needs none here\nsales  stored: file\n");
    let files: Vec<_> = fs::read_dir(desk.path("broker/passwords"))
        .unwrap()
        .collect();
    assert_eq!(files.len(), 1);
    let metadata = files[0].as_ref().unwrap().metadata().unwrap();
    assert_eq!(metadata.mode() & 0o777, 0o600);
    // Nothing is asked for twice, so that no terminal is needed.
    desk.run(&["load-connections", "--config", "palisade.toml"])
        .expect_exit(0);

    let broker = Broker::start(&desk);
    let mut client = relay(&desk);
    let answer = client.call(
        "query",
        &json!({"connection": "sales", "sql": "SELECT a FROM t"}),
    );
    assert!(answer.to_string().contains("{\"a\":7}"), "{answer}");
    let answer = client.call(
        "query",
        &json!({"connection": "demo", "sql": "SELECT count(*) AS n FROM tickets"}),
    );
    assert_eq!(answer["isError"], false, "{answer}");
    for id in [broker.id(), client.id()] {
        for file in ["cmdline", "environ"] {
            let text = fs::read(format!("/proc/{id}/{file}")).unwrap();
            assert!(
                !String::from_utf8_lossy(&text).contains("geheim"),
                "{id} {file}"
            );
        }
    }
    let found = Command::new("grep")
        .args(["-rl", "geheim"])
        .arg(desk.path("."))
        .output()
        .unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    assert_eq!(found.lines().count(), 1, "{found}");
    assert!(found.contains("/broker/passwords/sales."), "{found}");
    let log = client.end() + &broker.log();
    assert!(!log.contains("geheim"), "{log}");
    drop(broker);

    // Another account is asked for again, and the old password is not tried on it.
    configure("bea");
    assert_eq!(
        list(),
        "demo  needs none here\nsales  new or changed: not stored\n"
    );
    desk.run(&["broker", "--config", "palisade.toml"])
        .fails(3, &["no password is stored"]);
    let answer = at_terminal(&desk, LOAD, &[PASSWORD]);
    assert_eq!(answer.exit, 0, "{}{}", answer.out, answer.err);
    let rotate = format!("{LOAD} --rotate sales");
    let answer = at_terminal(&desk, &rotate, &["wrong", "wrong", "wrong"]);
    assert_eq!(answer.exit, 4, "{}{}", answer.out, answer.err);
    // The one before stays until another is taken.
    assert_eq!(list(), "demo  needs none here\nsales  stored: file\n");
    let forget = [
        "load-connections",
        "--config",
        "palisade.toml",
        "--forget",
        "sales",
    ];
    desk.run(&forget).expect_exit(0);
    desk.run(&forget)
        .fails(2, &["no password is stored", "--list"]);
    assert_eq!(
        fs::read_dir(desk.path("broker/passwords")).unwrap().count(),
        0
    );
}

#[test]
fn what_cannot_be_asked_or_stored_says_what_to_do() {
    let desk = Desk::new();
    let load = |arguments: &[&str]| {
        let mut command = desk.command("setsid");
        command.args(["-w", env!("CARGO_BIN_EXE_palisade"), "load-connections"]);
        Answer::from_command(command.args(arguments), b"geheim\n")
    };
    load(&["--config", "nowhere.toml"]).fails(3, &["nowhere.toml"]);
    desk.write("palisade.toml", "");
    load(&[]).fails(3, &["names no connection"]);
    desk.write(
        "palisade.toml",
        "[grants]\nhosts = [\"127.0.0.1:1\"]\n[connections.a]\nurl = \"postgres://ann@127.0.0.1:1/d\"\n[connections.b]\nurl = \"sqlite:demo.db\"\n",
    );
    // Standard input is no terminal, and is not read.
    load(&[]).fails(2, &["no terminal", "-it"]);
    load(&["--rotate", "b"]).fails(2, &["not stored here"]);
    load(&["--rotate", "c"]).fails(2, &["there is no connection `c`"]);
    assert_eq!(
        fs::read_dir(desk.path("broker/passwords")).unwrap().count(),
        0
    );
}
