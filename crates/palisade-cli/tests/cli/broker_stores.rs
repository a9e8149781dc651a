//! Where the broker's passwords are kept beside files: real keys of the kernel, and real credentials of systemd.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
    process::Command,
};

use palisade_testkit::servers::PostgresServer;
use serde_json::json;

use crate::{
    broker::{Broker, relay},
    broker_load::{PASSWORD, at_terminal, at_terminal_by},
    desk::{Answer, Desk},
};

/// A desk beside a server that wants a password of `ann`.
pub(crate) fn set_up() -> (Desk, PostgresServer) {
    let server = PostgresServer::start().unwrap();
    server
        .query(
            "postgres",
            &format!(
                "CREATE TABLE t (a int); INSERT INTO t VALUES (7);
                 CREATE ROLE ann LOGIN PASSWORD '{PASSWORD}'; GRANT SELECT ON t TO ann;
                 COPY (SELECT 'host all postgres 127.0.0.1/32 trust' UNION ALL
                       SELECT 'host all all 127.0.0.1/32 scram-sha-256') TO PROGRAM 'cat > pg_hba.conf';
                 SELECT pg_reload_conf();"
            ),
        )
        .unwrap();
    let desk = Desk::new();
    desk.write(
        "palisade.toml",
        format!(
            "[grants]\nhosts = [\"{}:{}\"]\n[connections.sales]\nurl = \"{}\"\n",
            server.host(),
            server.port(),
            server.url_as("ann", "postgres")
        ),
    );
    (desk, server)
}

fn load(desk: &Desk, more: &[&str]) -> Answer {
    desk.run(&[&["load-connections", "--config", "palisade.toml"], more].concat())
}

/// No file of the desk has the password.
#[track_caller]
pub(crate) fn is_in_no_file(desk: &Desk) {
    is_in_no_file_of(&desk.path("."));
}

/// No file of a folder has it.
#[track_caller]
pub(crate) fn is_in_no_file_of(folder: &Path) {
    let found = Command::new("grep")
        .args(["-rl", "geheim"])
        .arg(folder)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(found.stdout).unwrap(), "");
}

#[track_caller]
pub(crate) fn is_served(desk: &Desk) {
    let mut client = relay(desk);
    let answer = client.call("query", &json!({"sql": "SELECT a FROM t"}));
    assert!(answer.to_string().contains("{\"a\":7}"), "{answer}");
    client.end();
}

#[test]
fn a_password_in_the_kernel_serves_until_it_is_gone() {
    let (desk, _server) = set_up();
    let kernel = ["--store", "kernel"];
    let arguments = "load-connections --config palisade.toml --store kernel";
    let answer = at_terminal(&desk, arguments, &["wrong geheim", PASSWORD]);
    assert_eq!(answer.exit, 0, "{}{}", answer.out, answer.err);
    assert!(!answer.out.contains("geheim"), "{}", answer.out);
    let list = |more: &[&str]| {
        load(&desk, &[more, &["--list"]].concat())
            .expect_exit(0)
            .out
    };
    assert_eq!(list(&kernel), "sales  stored: kernel\n");
    is_in_no_file(&desk);
    let broker = Broker::start(&desk);
    is_served(&desk);
    assert!(!broker.log().contains("geheim"));
    drop(broker);
    // Gone, as at a reboot: the broker says what to do.
    load(&desk, &["--store", "kernel", "--forget", "sales"]).expect_exit(0);
    desk.run(&["broker", "--config", "palisade.toml"]).fails(
        3,
        &["no password is stored", "load-connections", "three days"],
    );
    // A password has one place.
    let answer = at_terminal(&desk, arguments, &[PASSWORD]);
    assert_eq!(answer.exit, 0, "{}", answer.out);
    assert_eq!(list(&[]), "sales  stored: kernel\n");
    let files = "load-connections --config palisade.toml --store file";
    assert_eq!(at_terminal(&desk, files, &[PASSWORD]).exit, 0);
    assert_eq!(list(&kernel), "sales  new or changed: not stored\n");
    assert_eq!(at_terminal(&desk, arguments, &[PASSWORD]).exit, 0);
    assert_eq!(
        list(&["--store", "file"]),
        "sales  new or changed: not stored\n"
    );
    is_in_no_file(&desk);
    load(&desk, &["--forget", "sales"]).expect_exit(0);
    assert_eq!(list(&[]), "sales  new or changed: not stored\n");
}

#[test]
fn a_credential_of_systemd_is_opened_for_a_service() {
    let (desk, _server) = set_up();
    let arguments =
        "load-connections --config palisade.toml --store systemd-creds --credentials creds";
    // Without systemd's program, and without a password, nothing is stored.
    let answer = at_terminal_by("env PATH=/nowhere ", &desk, arguments, &[PASSWORD]);
    assert_eq!(answer.exit, 3, "{}", answer.out);
    assert!(
        answer.out.contains("systemd 250 or newer"),
        "{}",
        answer.out
    );
    assert!(!desk.path("creds").exists() && !desk.path("broker").exists());
    let answer = at_terminal(&desk, arguments, &[PASSWORD]);
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        // Only root reads the host's key, and is told to.
        assert_eq!(answer.exit, 3, "{}", answer.out);
        assert!(answer.out.contains("root"), "{}", answer.out);
        assert!(!desk.path("creds").exists());
        return;
    }
    assert_eq!(answer.exit, 0, "{}", answer.out);
    is_in_no_file(&desk);
    let creds = ["--store", "systemd-creds", "--credentials", "creds"];
    let list = || {
        load(&desk, &[&creds[..], &["--list"]].concat())
            .expect_exit(0)
            .out
    };
    assert_eq!(list(), "sales  stored: systemd-creds\n");
    // By hand, none has opened it.
    desk.run(&["broker", "--config", "palisade.toml"])
        .fails(3, &["no password is stored", "install-service"]);

    let unit = ["broker", "--config", "palisade.toml", "install-service"];
    let print = ["--print", "--credentials", "creds", "--user", "daemon"];
    let unit = desk.run(&[&unit[..], &print].concat()).expect_exit(0).out;
    let line = unit
        .lines()
        .find_map(|line| line.strip_prefix("LoadCredentialEncrypted="))
        .unwrap();
    let (name, path) = line.split_once(':').unwrap();
    desk.write("palisade-broker.service", &unit);
    let mut verify = Command::new("systemd-analyze");
    verify
        .arg("verify")
        .arg(desk.path("palisade-broker.service"));
    let answer = Answer::from_command(&mut verify, b"").expect_exit(0);
    assert_eq!(answer.out + &answer.err, "");
    // What systemd does for the service.
    fs::create_dir(desk.path("given")).unwrap();
    let opened = desk.path("given").join(name);
    let mut decrypt = Command::new("systemd-creds");
    decrypt.args(["decrypt", &format!("--name={name}"), path]);
    Answer::from_command(decrypt.arg(&opened), b"").expect_exit(0);
    // Its list of who may read shows as the group's mode.
    fs::set_permissions(&opened, fs::Permissions::from_mode(0o440)).unwrap();
    let mut command = Broker::command(&desk);
    let broker = Broker::run(command.env("CREDENTIALS_DIRECTORY", desk.path("given")));
    is_served(&desk);
    assert!(!broker.log().contains("geheim"));
    drop(broker);
    // Others than the group are still refused.
    fs::set_permissions(&opened, fs::Permissions::from_mode(0o444)).unwrap();
    let answer = Answer::from_command(&mut command, b"").expect_exit(3);
    assert!(answer.err.contains("chmod 600"), "{}", answer.err);
    load(&desk, &[&creds[..], &["--forget", "sales"]].concat()).expect_exit(0);
    assert_eq!(list(), "sales  new or changed: not stored\n");
    assert_eq!(fs::read_dir(desk.path("creds")).unwrap().count(), 0);
}
