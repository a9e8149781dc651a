//! The unit of `palisade broker install-service`, started by a real systemd. It has its own namespaces, settings and control groups.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use palisade_testkit::servers::PostgresServer;
use serde_json::json;

use crate::{
    broker::wait_for,
    broker_load::{PASSWORD, at_terminal_by},
    broker_stores,
    desk::{Answer, Desk},
    serve::Client,
};

const SYSTEMD: &str = "/lib/systemd/systemd";

/// Where the program is in that system: a unit does not see the folders of temporary files.
const PROGRAM: &str = "/usr/local/bin/palisade";

/// Makes all that a system writes its own, and becomes it: nothing of it is seen outside, and nothing of the host's starts in it.
/// Mounts are shared within, as outside of a container: credentials come to services so.
///
/// Arguments are a folder, and the program.
const BOOT: &str = "
set -e
mount --make-rprivate /
mount -t cgroup2 cgroup2 /sys/fs/cgroup
cp -a /etc \"$1/etc\"
mount --bind \"$1/etc\" /etc
for folder in /run /var/lib /usr/local/bin /lib/systemd/system/*.wants; do
    mount -t tmpfs -o mode=755 tmpfs \"$folder\"
done
touch /usr/local/bin/palisade
mount --bind \"$2\" /usr/local/bin/palisade
rm -rf /etc/systemd/system
mkdir /etc/systemd/system /etc/palisade
printf '[Unit]\\nDescription=All there is\\nDefaultDependencies=no\\n' > /etc/systemd/system/all.target
mkdir /etc/systemd/system/service.d
printf '[Service]\\nStandardOutput=append:/run/log.txt\\nStandardError=append:/run/log.txt\\n' > /etc/systemd/system/service.d/log.conf
mount --make-rshared /
exec env -i container=palisade PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --unit=all.target
";

/// A running systemd. It ends with this value, and what it started does too.
struct System {
    child: Child,
    groups: PathBuf,
    /// What enters its namespaces.
    enter: String,
    _folder: tempfile::TempDir,
}

impl System {
    fn boot() -> Self {
        assert!(
            Path::new(SYSTEMD).exists(),
            "there is no {SYSTEMD}: install Debian's package `systemd`"
        );
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        let groups = mounts.lines().find_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            (words[2] == "cgroup2").then(|| PathBuf::from(words[1]))
        });
        let groups = groups.expect("no control groups of version 2 are mounted");
        let groups = groups.join(format!("palisade-{}", std::process::id()));
        fs::create_dir(&groups).unwrap();
        let start = format!(
            "echo 0 > {}/cgroup.procs && exec unshare --cgroup --fork --kill-child --pid --mount --uts --ipc --mount-proc sh -c \"$0\" boot \"$@\"",
            groups.display()
        );
        let child = Command::new("sh")
            .args(["-c", &start, BOOT])
            .arg(folder.path())
            .arg(env!("CARGO_BIN_EXE_palisade"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let first = || fs::read_to_string(&children).unwrap_or_default();
        wait_for(|| !first().trim().is_empty());
        let enter = format!("nsenter -t {} -m -p -u -i -C -- ", first().trim());
        let system = Self {
            child,
            groups,
            enter,
            _folder: folder,
        };
        wait_for(|| system.run("systemctl is-system-running").out == "running\n");
        system
    }

    /// A shell in it.
    fn shell(&self, line: &str) -> Command {
        let mut words = self.enter.split_whitespace();
        let mut command = Command::new(words.next().unwrap());
        command.args(words).args(["sh", "-c", line]);
        command
    }

    fn run(&self, line: &str) -> Answer {
        Answer::from_command(&mut self.shell(line), b"")
    }

    /// Runs what must succeed; what it prints.
    #[track_caller]
    fn done(&self, line: &str) -> String {
        let answer = self.run(line);
        assert_eq!(answer.exit, 0, "{line}: {}{}", answer.out, answer.err);
        answer.out.trim().to_owned()
    }

    fn write(&self, path: &str, text: &str) {
        let mut command = self.shell(&format!("cat > {path}"));
        Answer::from_command(&mut command, text.as_bytes()).expect_exit(0);
    }
}

impl Drop for System {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // All of it ends with its first process, and its groups are empty then.
        let find = ["-depth", "-type", "d", "-exec", "rmdir", "{}", ";"];
        for _ in 0..50 {
            let done = Command::new("find")
                .arg(&self.groups)
                .args(find)
                .stderr(Stdio::null())
                .status();
            if done.is_ok() && !self.groups.exists() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }
}

fn configuration(server: &PostgresServer, group: &str) -> String {
    format!(
        "policies = \"/etc/palisade/policies\"\n\
         principal = 'Agent::\"stranger\"'\n\
         audit = \"/var/lib/palisade/audit.jsonl\"\n\
         [grants]\nhosts = [\"{}:{}\"]\n\
         [broker]\ndirectory = \"/var/lib/palisade\"\ngroup = {group}\n\
         [broker.groups.{group}]\nprincipal = 'Agent::\"bot\"'\n\
         [connections.sales]\nurl = \"{}\"\n",
        server.host(),
        server.port(),
        server.url_as("ann", "postgres")
    )
}

const POLICIES: &str = "permit (principal == Agent::\"bot\", action in [Action::\"select\", Action::\"read\", Action::\"see\"], resource);\n";

/// What `install-service` prints to be done next, up to what is for each agent.
fn steps(told: &str) -> Vec<&str> {
    let (_, steps) = told.split_once("Next:\n").unwrap();
    let (steps, _) = steps.split_once("For the user of each agent:").unwrap();
    steps.lines().map(str::trim).collect()
}

#[test]
fn systemd_starts_the_unit_as_its_recipe_says() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        // Only root starts one; whoever is not is told so.
        let desk = Desk::new();
        crate::broker::configure(&desk, "");
        let install = ["broker", "--config", "palisade.toml", "install-service"];
        desk.run(&install).fails(2, &["run this as root"]);
        return;
    }
    let (desk, server) = broker_stores::set_up();
    let system = System::boot();
    system.done("groupadd --system agents && useradd --system --user-group agent && useradd --system --user-group stranger");
    let group = system.done("getent group agents | cut -d: -f3");
    system.done("mkdir /etc/palisade/policies");
    system.write("/etc/palisade/policies/base.cedar", POLICIES);
    system.write(
        "/etc/palisade/palisade.toml",
        &configuration(&server, &group),
    );
    // Without a password that systemd has, a file of the broker's user is to hold it.
    let install = format!(
        "{PROGRAM} broker --config /etc/palisade/palisade.toml install-service --user palisade"
    );
    let told = system.done(&install);
    assert!(told.contains("runuser -u palisade -- "), "{told}");
    system.done("rm /etc/systemd/system/palisade-broker.service");

    let load = "load-connections --config /etc/palisade/palisade.toml --store systemd-creds";
    let answer = at_terminal_by(&system.enter, &desk, load, &[PASSWORD]);
    assert_eq!(answer.exit, 0, "{}", answer.out);
    let told = system.done(&install);
    for step in steps(&told) {
        assert!(!step.contains("load-connections"), "{told}");
        system.done(step);
    }
    let show = |what: &str| {
        system.done(&format!(
            "systemctl show --property={what} --value palisade-broker"
        ))
    };
    assert_eq!(show("ActiveState"), "active");
    let joined = told.lines().find(|line| line.contains("usermod")).unwrap();
    system.done(&joined.replace("AGENT", "agent"));

    let relay = told
        .lines()
        .find(|line| line.contains(" relay --run "))
        .unwrap();
    let agent = |line: &str| system.shell(&format!("exec runuser -u agent -- {}", line.trim()));
    wait_for(|| {
        let log = system.run("cat /run/log.txt").out;
        assert!(!log.contains("error"), "{log}");
        log.contains("listening at")
    });
    let mut client = Client::start(&mut agent(relay));
    let ask = |client: &mut Client| {
        let answer = client.call("query", &json!({"sql": "SELECT a FROM t"}));
        answer.to_string()
    };
    let answer = ask(&mut client);
    assert!(answer.contains("{\"a\":7}"), "{answer}");
    let status = format!(
        "runuser -u palisade -- {PROGRAM} broker --config /etc/palisade/palisade.toml status"
    );
    let status = system.done(&status);
    assert!(
        status.contains("agents of a group") && status.contains("Agent::\"bot\""),
        "{status}"
    );

    // The agent reads nothing of what systemd opened for the service, and no file of the system has the password.
    let first = show("MainPID");
    for attack in [
        "ls /var/lib/palisade".to_owned(),
        "ls /run/credentials/palisade-broker.service".to_owned(),
        "sh -c 'cat /etc/credstore.encrypted/*'".to_owned(),
        format!("cat /proc/{first}/environ"),
        format!("sh -c 'cat /proc/{first}/root/run/credentials/*/*'"),
    ] {
        let answer = Answer::from_command(&mut agent(&attack), b"");
        assert!(
            answer.exit != 0 && answer.out.is_empty(),
            "{attack}: {}",
            answer.out
        );
    }
    let found =
        system.run("grep -rl geheim /etc/palisade /etc/credstore.encrypted /etc/systemd /var/lib");
    assert_eq!(found.out, "");
    let other = relay.trim();
    let refused = system.run(&format!("runuser -u stranger -- {other}"));
    refused.fails(4, &["cannot be connected to"]);

    // One that was killed is started again, and the same relay goes on.
    system.done(&format!("kill -KILL {first}"));
    wait_for(|| show("ActiveState") == "active" && show("MainPID") != first);
    wait_for(|| ask(&mut client).contains("{\"a\":7}"));
    assert_eq!(show("NRestarts"), "1");
    client.end();
    system.done("systemctl stop palisade-broker");
    assert_eq!(
        (show("Result"), show("ExecMainStatus")),
        ("success".to_owned(), "0".to_owned())
    );
    system.done(&format!(
        "{PROGRAM} audit verify /var/lib/palisade/audit.jsonl"
    ));
}
