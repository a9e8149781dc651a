//! The recommended posture: a broker with a user of its own, and agents of other users that reach it by a group.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::json;

use crate::{
    broker::{Broker, configure, give_to_user, relay_command, status_command},
    desk::{Answer, Desk},
    serve::Client,
};

const CARD: &str = "SELECT national_id FROM customers WHERE id = 1";

/// A command as root has it run; it succeeds.
fn do_it(program: &str, arguments: &[&str]) -> String {
    let done = Command::new(program)
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(done.status.success(), "{program} {arguments:?}");
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

/// A group of the system's database, a user that belongs to it beside its own, and a stranger. They end with this value.
struct Users {
    group: String,
    member: String,
    stranger: String,
}

impl Users {
    fn make() -> Self {
        let name = |what: &str| format!("pal-{what}-{}", std::process::id());
        let users = Self {
            group: name("g"),
            member: name("m"),
            stranger: name("s"),
        };
        do_it("groupadd", &["--system", &users.group]);
        let base = ["--system", "--no-create-home", "--user-group"];
        do_it(
            "useradd",
            &[&base[..], &["--groups", &users.group, &users.member]].concat(),
        );
        do_it("useradd", &[&base[..], &[&users.stranger]].concat());
        users
    }

    fn group_id(&self) -> String {
        let line = do_it("getent", &["group", &self.group]);
        line.split(':').nth(2).unwrap().to_owned()
    }
}

impl Drop for Users {
    fn drop(&mut self) {
        for (program, name) in [
            ("userdel", &self.member),
            ("userdel", &self.stranger),
            ("groupdel", &self.group),
        ] {
            let _ = Command::new(program)
                .arg(name)
                .stderr(Stdio::null())
                .status();
        }
    }
}

/// `command` as a user with the groups of the system's database.
fn as_user(command: &Command, user: &str) -> Command {
    let (id, group) = (do_it("id", &["-u", user]), do_it("id", &["-g", user]));
    as_ids(command, (&id, &group), &["--init-groups"])
}

fn as_ids(command: &Command, (user, group): (&str, &str), groups: &[&str]) -> Command {
    let mut other = Command::new("setpriv");
    other
        .args(["--reuid", user, "--regid", group])
        .args(groups)
        .arg("--")
        .arg(command.get_program())
        .args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        other.current_dir(folder);
    }
    other
}

fn mode_and_group(path: &Path) -> (u32, u32) {
    let metadata = fs::metadata(path).unwrap();
    (metadata.mode() & 0o777, metadata.gid())
}

#[test]
fn agents_of_a_group_ask_and_reach_nothing_else_of_the_broker() {
    let desk = Desk::new();
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        // Other users cannot be made: what is shown is to whom the folders are given.
        let group = fs::metadata("/proc/self").unwrap().gid();
        configure(&desk, &format!("group = {group}"));
        let _broker = Broker::start(&desk);
        assert_eq!(mode_and_group(&desk.path("broker/secret")), (0o710, group));
        return;
    }
    let users = Users::make();
    let group = users.group_id();
    // Folders of before the group was configured are opened to it.
    configure(&desk, "");
    let owner = give_to_user(&desk).unwrap().to_string();
    do_it(
        "chmod",
        &["-R", "go=", &desk.path(".").display().to_string()],
    );
    do_it("chmod", &["711", &desk.path(".").display().to_string()]);
    drop(Broker::run(&mut as_ids(
        &Broker::command(&desk),
        (&owner, &owner),
        &["--clear-groups"],
    )));
    configure(
        &desk,
        &format!(
            "group = {group}\n[broker.groups.{group}]\nprincipal = 'Agent::\"support-bot\"'\n\
             [broker.enrolments.ci]\nprincipal = 'Agent::\"stranger\"'"
        ),
    );
    let answer = Answer::from_command(
        &mut as_ids(
            &Broker::command(&desk),
            (&owner, &owner),
            &["--clear-groups"],
        ),
        b"",
    );
    let told = format!("SupplementaryGroups={group}");
    answer.fails(3, &["cannot be given to the group", "chgrp", &told]);
    // As `SupplementaryGroups=` of the unit has it.
    let broker = Broker::run(&mut as_ids(
        &Broker::command(&desk),
        (&owner, &owner),
        &["--groups", &group],
    ));
    let number: u32 = group.parse().unwrap();
    for (path, mode) in [
        ("broker", 0o710),
        ("broker/run", 0o710),
        ("broker/run/palisade.sock", 0o660),
        ("broker/secret", 0o710),
        ("broker/secret/token", 0o640),
        ("broker/enrolments/ci/token", 0o640),
    ] {
        assert_eq!(mode_and_group(&desk.path(path)), (mode, number), "{path}");
    }

    let arguments = ["--secret", "broker/secret", "--broker-user", &owner];
    let relay = relay_command(&desk, &arguments);
    // The agent's group is one beside its own, as `usermod --append --groups` makes it.
    let mut client = Client::start(&mut as_user(&relay, &users.member));
    let answer = client.query(CARD).to_string();
    assert!(answer.contains("****4821"), "{answer}");
    let asked = &mut as_ids(
        &status_command(&desk),
        (&owner, &owner),
        &["--clear-groups"],
    );
    let told = Answer::from_command(asked, b"").expect_exit(0).json();
    assert_eq!(
        told["sessions"][0]["principal"],
        json!("Agent::\"support-bot\"")
    );
    assert!(
        told["posture"]
            .as_str()
            .unwrap()
            .contains("agents of a group")
    );
    for path in [
        "broker/passwords",
        "broker/admin",
        "broker/admin/token",
        "broker/admin/sessions.json",
        "palisade.toml",
        "demo.db",
        "demo-policies",
    ] {
        let path = desk.path(path).display().to_string();
        for (program, arguments) in [("ls", vec![&*path]), ("cat", vec![&*path])] {
            let mut look = Command::new(program);
            look.args(arguments);
            let answer = Answer::from_command(&mut as_user(&look, &users.member), b"");
            let is_named = program == "ls"
                && fs::metadata(&path).unwrap().is_file()
                && !path.contains("admin");
            assert!(
                is_named || answer.exit != 0,
                "{program} {path}: {}",
                answer.out
            );
        }
    }
    for attack in [
        format!("ls {}", desk.path("broker").display()),
        format!("ls {}", desk.path("broker/secret").display()),
        format!("touch {}", desk.path("broker/run/x").display()),
        format!("rm -f {}", desk.path("broker/run/palisade.sock").display()),
        format!("echo x > {}", desk.path("broker/secret/token").display()),
        format!("cat /proc/{}/environ", broker.id()),
        format!("cat /proc/{}/mem", broker.id()),
    ] {
        let mut shell = Command::new("sh");
        shell.args(["-c", &attack]);
        let answer = Answer::from_command(&mut as_user(&shell, &users.member), b"");
        assert!(
            answer.exit != 0 && answer.out.is_empty(),
            "{attack}: {}",
            answer.out
        );
    }

    // A user outside of the group does not come to the socket, nor to the secret.
    let answer = Answer::from_command(&mut as_user(&relay, &users.stranger), b"");
    answer.fails(4, &["cannot be connected to", "`group` under `[broker]`"]);
    // Where the folder has become passable for all, the broker still looks at who connects.
    for (path, mode) in [
        ("broker", "711"),
        ("broker/run", "711"),
        ("broker/run/palisade.sock", "666"),
    ] {
        do_it("chmod", &[mode, &desk.path(path).display().to_string()]);
    }
    let token = fs::read(desk.path("broker/secret/token")).unwrap();
    let known = desk.path("known");
    fs::create_dir(&known).unwrap();
    fs::write(known.join("token"), token).unwrap();
    do_it("chmod", &["-R", "a+rX", &known.display().to_string()]);
    let arguments = ["--secret", "known", "--broker-user", &owner];
    let relay = relay_command(&desk, &arguments);
    let answer = Answer::from_command(&mut as_user(&relay, &users.stranger), b"");
    answer.fails(4, &["broker.user"]);
    client.end();
}
