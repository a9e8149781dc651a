//! The broker's passwords in a real keyring of a desktop: unlocked, locked and absent.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

use crate::{
    broker::Broker,
    broker_load::{PASSWORD, at_terminal_by},
    broker_stores::{is_in_no_file, is_in_no_file_of, is_served, set_up},
    desk::{Answer, Desk},
};

const LOAD: &str = "load-connections --config palisade.toml";

/// The session of a person at a desktop: a message bus, and a keyring that it starts when it is asked for.
struct Session {
    home: TempDir,
    bus: Child,
    address: String,
}

impl Session {
    fn start(home: TempDir) -> Self {
        let mut bus = Self::command("dbus-daemon", home.path())
            .args(["--session", "--nofork", "--nopidfile", "--print-address=1"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("`dbus-daemon`, of Debian's package dbus");
        let mut address = String::new();
        BufReader::new(bus.stdout.take().unwrap())
            .read_line(&mut address)
            .unwrap();
        Self {
            home,
            bus,
            address: address.trim().to_owned(),
        }
    }

    fn command(program: &str, home: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_remove("DISPLAY")
            .env_remove("WAYLAND_DISPLAY")
            .env("HOME", home)
            .env("XDG_DATA_HOME", home)
            .env("XDG_CONFIG_HOME", home)
            .env("XDG_CACHE_HOME", home)
            .env("XDG_RUNTIME_DIR", home);
        command
    }

    /// Unlocks the keyring, as the login does; the first time it makes one. The daemon ends with the bus.
    fn unlock(&self) {
        let mut daemon = Self::command("gnome-keyring-daemon", self.home.path())
            .args(["--unlock", "--components=secrets"])
            .env("DBUS_SESSION_BUS_ADDRESS", &self.address)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("`gnome-keyring-daemon`, of Debian's package gnome-keyring");
        let mut input = daemon.stdin.take().unwrap();
        input.write_all(b"the login's").unwrap();
        drop(input);
        assert!(daemon.wait().unwrap().success());
    }

    /// The same person after a new login.
    fn restart(mut self) -> Self {
        self.end();
        let home = std::mem::replace(&mut self.home, tempfile::tempdir().unwrap());
        Self::start(home)
    }

    fn end(&mut self) {
        let _ = self.bus.kill();
        let _ = self.bus.wait();
    }

    fn run(&self, desk: &Desk, arguments: &[&str]) -> Answer {
        let mut command = desk.command(env!("CARGO_BIN_EXE_palisade"));
        command
            .env("DBUS_SESSION_BUS_ADDRESS", &self.address)
            .args(["load-connections", "--config", "palisade.toml"]);
        Answer::from_command(command.args(arguments), b"")
    }

    fn list(&self, desk: &Desk, more: &[&str]) -> String {
        let listed = self.run(desk, &[more, &["--list"]].concat());
        listed.expect_exit(0).out
    }

    fn at_terminal(&self, desk: &Desk, more: &str, typed: &[&str]) -> Answer {
        let by = format!("env DBUS_SESSION_BUS_ADDRESS={} ", self.address);
        at_terminal_by(&by, desk, &format!("{LOAD}{more}"), typed)
    }

    fn broker(&self, desk: &Desk) -> Command {
        let mut command = Broker::command(desk);
        command.env("DBUS_SESSION_BUS_ADDRESS", &self.address);
        command
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}

#[test]
fn a_password_in_the_keyring_serves_while_it_is_unlocked() {
    let (desk, _server) = set_up();
    let session = Session::start(tempfile::tempdir().unwrap());
    session.unlock();
    // Nothing says where: the keyring is there.
    let answer = session.at_terminal(&desk, "", &["wrong geheim", PASSWORD]);
    assert_eq!(answer.exit, 0, "{}", answer.out);
    assert!(!answer.out.contains("geheim"), "{}", answer.out);
    assert!(
        answer.out.contains("stored: secret-service"),
        "{}",
        answer.out
    );
    let stored = "sales  stored: secret-service\n";
    assert_eq!(session.list(&desk, &[]), stored);
    assert_eq!(
        session.list(&desk, &["--store", "file"]),
        "sales  new or changed: not stored\n"
    );
    // Nothing is asked for twice.
    session.run(&desk, &[]).expect_exit(0);
    is_in_no_file(&desk);
    is_in_no_file_of(session.home.path());
    let broker = Broker::run(&mut session.broker(&desk));
    is_served(&desk);
    assert!(!broker.log().contains("geheim"));
    drop(broker);

    // What another broker stores is not touched.
    let other = Desk::new();
    fs::copy(desk.path("palisade.toml"), other.path("palisade.toml")).unwrap();
    let answer = session.at_terminal(&other, "", &[PASSWORD]);
    assert_eq!(answer.exit, 0, "{}", answer.out);
    // The one before stays until another is taken, and where it is.
    let answer = session.at_terminal(&desk, " --rotate sales", &["no", "no", "no"]);
    assert_eq!(answer.exit, 4, "{}", answer.out);
    let answer = session.at_terminal(&desk, " --rotate sales", &[PASSWORD]);
    assert_eq!(answer.exit, 0, "{}", answer.out);
    assert_eq!(session.list(&desk, &[]), stored);

    // A new login has not unlocked it, and no person is there to be asked.
    let session = session.restart();
    for command in [&["--list"][..], &["--forget", "sales"]] {
        let answer = session.run(&desk, command);
        answer.fails(3, &["secret-service", "locked", "unlock", "--store file"]);
    }
    let answer = Answer::from_command(&mut session.broker(&desk), b"");
    answer.fails(3, &["no password is stored", "locked", "unlock"]);
    let answer = session.at_terminal(&desk, " --rotate sales", &[PASSWORD]);
    assert_eq!(answer.exit, 3, "{}", answer.out);
    assert!(answer.out.contains("unlock its keyring"), "{}", answer.out);
    is_in_no_file(&desk);

    let session = session.restart();
    session.unlock();
    assert_eq!(session.list(&desk, &[]), stored);
    // A password has one place.
    let answer = session.at_terminal(&desk, " --store file --rotate sales", &[PASSWORD]);
    assert_eq!(answer.exit, 0, "{}", answer.out);
    assert_eq!(session.list(&desk, &[]), "sales  stored: file\n");
    let keyring = ["--store", "secret-service"];
    assert_eq!(
        session.list(&desk, &keyring),
        "sales  new or changed: not stored\n"
    );
    let answer = session.at_terminal(&desk, " --store secret-service", &[PASSWORD]);
    assert_eq!(answer.exit, 0, "{}", answer.out);
    assert_eq!(session.list(&desk, &[]), stored);
    is_in_no_file(&desk);
    session.run(&desk, &["--forget", "sales"]).expect_exit(0);
    session
        .run(&desk, &["--forget", "sales"])
        .fails(2, &["no password is stored", "--list"]);
    assert_eq!(
        session.list(&desk, &[]),
        "sales  new or changed: not stored\n"
    );
    assert_eq!(session.list(&other, &[]), stored);
}

/// As in a container, or over SSH.
#[test]
fn without_a_keyring_passwords_are_in_files() {
    let (desk, _server) = set_up();
    let keyring = " --store secret-service";
    // No password is asked for in vain.
    let answer = at_terminal_by("", &desk, &format!("{LOAD}{keyring}"), &[]);
    assert_eq!(answer.exit, 3, "{}", answer.out);
    assert!(answer.out.contains("--store file"), "{}", answer.out);
    is_in_no_file(&desk);
    Answer::from_command(&mut Broker::command(&desk), b"")
        .fails(3, &["no password is stored", "load-connections"]);
    let answer = at_terminal_by("", &desk, LOAD, &[PASSWORD]);
    assert_eq!(answer.exit, 0, "{}", answer.out);
    assert!(answer.out.contains("stored: file"), "{}", answer.out);
    let _broker = Broker::start(&desk);
    is_served(&desk);
}
