//! `palisade sandbox` with real bubblewrap, and the unit for systemd.

use std::{fs, process::Command};

use crate::{
    broker::{Broker, configure, give_to_user, run_as},
    desk::{Answer, Desk},
    serve::Client,
};

/// Says what to do where there is no sandbox: a test that passed without one would show nothing.
#[track_caller]
pub(crate) fn require_sandbox(desk: &Desk) {
    let answer = desk.run(&["sandbox", "--check"]);
    assert_eq!(answer.exit, 0, "{}", answer.err);
}

fn sandbox(desk: &Desk, words: &[&str]) -> Answer {
    let mut all = vec!["sandbox", "--config", "palisade.toml", "--"];
    all.extend(words);
    desk.run(&all)
}

#[test]
fn a_relay_in_a_sandbox_queries_and_reaches_nothing_else() {
    let desk = Desk::new();
    configure(&desk, "principal = 'Agent::\"support-bot\"'");
    require_sandbox(&desk);
    let broker = Broker::start(&desk);
    let mut command = desk.command(env!("CARGO_BIN_EXE_palisade"));
    command.args(["sandbox", "--config", "palisade.toml", "--", "sh", "-c"]);
    let line = format!(
        "exec {} relay --run \"$PALISADE_RUN\" --secret \"$PALISADE_SECRET\"",
        env!("CARGO_BIN_EXE_palisade")
    );
    let mut client = Client::start(command.arg(line));
    let answer = client
        .query("SELECT national_id FROM customers WHERE id = 1")
        .to_string();
    assert!(answer.contains("****4821"), "{answer}");

    let folder = fs::canonicalize(desk.path("broker")).unwrap();
    let folder = folder.display();
    let id = broker.id();
    // Each of these would be an attack; each has to fail.
    for attack in [
        "touch \"$PALISADE_SECRET/x\"".to_owned(),
        "rm -f \"$PALISADE_SECRET/token\"".to_owned(),
        "rm -f \"$PALISADE_RUN/palisade.sock\"".to_owned(),
        "mv \"$PALISADE_RUN/palisade.sock\" \"$PALISADE_RUN/other\"".to_owned(),
        "touch \"$PALISADE_RUN/palisade.sock2\"".to_owned(),
        format!("ls {folder}/passwords"),
        format!("cat {folder}/admin/token"),
        format!("cat {}", desk.path("palisade.toml").display()),
        format!("cat {}", desk.path("demo.db").display()),
        format!("cat /proc/{id}/environ"),
        "cat /root/.profile".to_owned(),
        "grep -v -e lo: -e Inter -e face /proc/net/dev".to_owned(),
        // What bubblewrap leaves open, and Landlock does not.
        "touch /x".to_owned(),
    ] {
        let answer = sandbox(&desk, &["sh", "-c", &attack]);
        assert_ne!(answer.exit, 0, "{attack}: {}", answer.out);
        assert_eq!(answer.out, "", "{attack}");
    }
    // And the shell itself works there.
    let answer = sandbox(
        &desk,
        &[
            "sh",
            "-c",
            "cat \"$PALISADE_SECRET/token\" > /dev/null && echo read",
        ],
    );
    assert_eq!(answer.out, "read\n", "{}", answer.err);
    client.end();
}

/// Where there is no bubblewrap: files and TCP are closed, and what stays open is said.
#[test]
fn landlock_alone_closes_files_and_tcp() {
    let desk = Desk::new();
    configure(&desk, "principal = 'Agent::\"support-bot\"'");
    fs::create_dir(desk.path("work")).unwrap();
    let user = give_to_user(&desk);
    let mut command = Broker::command(&desk);
    run_as(&mut command, user);
    let broker = Broker::run(&mut command);
    let base = [
        "sandbox",
        "--config",
        "palisade.toml",
        "--landlock-only",
        "--writable",
        "work",
        "--",
        "sh",
        "-c",
    ];
    let mut command = desk.command(env!("CARGO_BIN_EXE_palisade"));
    let line = format!(
        "exec {} relay --run \"$PALISADE_RUN\" --secret \"$PALISADE_SECRET\"",
        env!("CARGO_BIN_EXE_palisade")
    );
    run_as(&mut command, user);
    let mut client = Client::start(command.args(base).arg(line));
    let answer = client
        .query("SELECT national_id FROM customers WHERE id = 1")
        .to_string();
    assert!(answer.contains("****4821"), "{answer}");
    client.end();

    let open = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = open.local_addr().unwrap().port();
    let folder = fs::canonicalize(desk.path("broker")).unwrap();
    let folder = folder.display();
    let run = |script: &str| {
        let mut command = desk.command(env!("CARGO_BIN_EXE_palisade"));
        run_as(&mut command, user);
        Answer::from_command(command.args(base).arg(script), b"")
    };
    for attack in [
        "touch \"$PALISADE_SECRET/x\"".to_owned(),
        "rm -f \"$PALISADE_SECRET/token\"".to_owned(),
        "rm \"$PALISADE_RUN/palisade.sock\"".to_owned(),
        "touch \"$PALISADE_RUN/palisade.sock2\"".to_owned(),
        format!("ls {folder}/passwords"),
        format!("cat {folder}/admin/token"),
        format!("cat {}", desk.path("palisade.toml").display()),
        format!("cat {}", desk.path("demo.db").display()),
        format!("cat /proc/{}/environ", broker.id()),
        "ls /dev".to_owned(),
        "echo \"$HOME\" | grep -v /work".to_owned(),
        format!("bash -c 'echo > /dev/tcp/127.0.0.1/{port}'"),
    ] {
        let answer = run(&attack);
        assert_ne!(answer.exit, 0, "{attack}: {}", answer.out);
        assert_eq!(answer.out, "", "{attack}");
    }
    let answer = run("echo made > here && cat here && echo lost > /dev/null");
    assert_eq!(answer.out, "made\n", "{}", answer.err);
    assert!(
        answer.err.contains("Landlock alone confines the command"),
        "{}",
        answer.err
    );
    if user.is_some() {
        desk.run(&[&base[..], &["true"]].concat())
            .fails(2, &["does not confine root"]);
    }
}

#[test]
fn a_sandbox_is_printed_and_refuses_what_it_must_not_open() {
    let desk = Desk::new();
    // A server over HTTP has the same configuration.
    let http = "[http]\ncertificate = \"server.pem\"\nkey = \"server.key\"\n\
        [http.oauth]\nresource = \"https://palisade.example/mcp\"\n\
        [http.oauth.issuers.login]\nissuer = \"https://login.example\"\n\
        [http.clients]\nauthorities = \"authorities.pem\"\nrevoked = \"revoked.pem\"\n";
    let enrolment = "[broker.enrolments.ci]\nprincipal = 'Agent::\"ci\"'";
    configure(&desk, &format!("{enrolment}\n{http}"));
    let base = ["sandbox", "--config", "palisade.toml"];
    let run = |more: &[&str]| desk.run(&[&base, more].concat());
    run(&["--", "true"]).fails(2, &["palisade broker"]);
    let _broker = Broker::start(&desk);
    let printed = run(&["--print", "--enrolment", "ci", "--", "echo", "a b"])
        .expect_exit(0)
        .out;
    for part in [
        "bwrap --unshare-all",
        "--ro-bind",
        "/broker/run ",
        "enrolments/ci",
        "-- echo 'a b'\n",
    ] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    assert!(!printed.contains("/broker/secret"), "{printed}");
    run(&["--enrolment", "x", "--", "true"]).fails(2, &["no enrolment `x`"]);
    // Folders that hold something of the broker's, or are in it, by whatever name.
    desk.write("elsewhere/there", "");
    let of_http = [
        "server.pem",
        "server.key",
        "access-tokens.json",
        "claims.toml",
        "clients.toml",
        "authorities.pem",
        "revoked.pem",
    ];
    for file in of_http {
        desk.write(file, "");
    }
    std::os::unix::fs::symlink(desk.path("broker"), desk.path("elsewhere/link")).unwrap();
    for option in ["--writable", "--readable"] {
        let others = [
            ".",
            "/",
            "broker",
            "broker/run",
            "broker/passwords",
            "elsewhere/link",
            "palisade.toml",
            "demo.db",
            "demo-policies",
        ];
        for kept in others.into_iter().chain(of_http) {
            let told = ["would let the command reach", "folder beside it"];
            run(&[option, kept, "--", "true"]).fails(2, &told);
            let alone = ["--landlock-only", option, kept, "--", "true"];
            run(&alone).fails(2, &told);
        }
        let printed = run(&[option, "elsewhere", "--print", "--", "true"]).expect_exit(0);
        assert!(printed.out.contains("/elsewhere "), "{}", printed.out);
    }
}

#[test]
fn the_unit_is_what_systemd_takes() {
    let desk = Desk::new();
    configure(&desk, "");
    let base = ["broker", "--config", "palisade.toml", "install-service"];
    let unit = desk
        .run(&[&base[..], &["--print"]].concat())
        .expect_exit(0)
        .out;
    desk.write(
        "palisade-broker.service",
        unit.replace("User=palisade\n", "User=daemon\n"),
    );
    let analyze = |arguments: &[&str]| {
        let mut command = Command::new("systemd-analyze");
        let path = desk.path("palisade-broker.service");
        Answer::from_command(command.args(arguments).arg(path), b"")
    };
    let answer = analyze(&["verify"]).expect_exit(0);
    assert_eq!(answer.out + &answer.err, "");
    let answer = analyze(&["security", "--offline=yes", "--threshold=20", "--no-pager"]);
    assert_eq!(answer.exit, 0, "{}", answer.out);
    assert!(!unit.contains("SupplementaryGroups"), "{unit}");
    // With a group, the broker may give it what it makes.
    configure(&desk, "group = 1");
    let unit = desk.run(&[&base[..], &["--print"]].concat()).expect_exit(0);
    for line in [
        "\nSupplementaryGroups=1\n",
        "\nSystemCallFilter=chown fchown",
    ] {
        assert!(unit.out.contains(line), "{line}: {}", unit.out);
    }
    desk.write(
        "palisade-broker.service",
        unit.out.replace("User=palisade\n", "User=daemon\n"),
    );
    let answer = analyze(&["verify"]).expect_exit(0);
    assert_eq!(answer.out + &answer.err, "");
    let answer = analyze(&["security", "--offline=yes", "--threshold=20", "--no-pager"]);
    assert_eq!(answer.exit, 0, "{}", answer.out);
    let told = desk.run(&[&base[..], &["--unit", "group.service"]].concat());
    let told = told.expect_exit(0).out;
    for part in ["-g 1 -m 710", "usermod --append --groups", "--broker-user"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let file = ["--unit", "made.service"];
    desk.run(&[&base[..], &file].concat()).expect_exit(0);
    desk.run(&[&base[..], &file].concat())
        .fails(2, &["cannot be written"]);
    let list = desk
        .run(&[&base[..], &["--print", "--launchd"]].concat())
        .expect_exit(0)
        .out;
    for part in [
        "<string>palisade-broker</string>",
        "/palisade.toml</string>",
        // The five seconds of what runs, and what a broker takes to end.
        "<integer>35</integer>",
    ] {
        assert!(list.contains(part), "{part}: {list}");
    }
    desk.run(&[&base[..], &["--user", "a b"]].concat())
        .fails(2, &["no name of a user"]);
}
