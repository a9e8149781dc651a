//! `palisade broker` and `palisade relay`: real processes at both ends of a socket.

use std::{
    collections::VecDeque,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _},
        net::UnixStream,
        process::CommandExt as _,
    },
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{desk::Desk, serve::Client};

/// Time for what a busy machine does late.
const PATIENCE: Duration = Duration::from_secs(20);

const MASKED: &str = "SELECT name, national_id FROM customers WHERE id = 1";

/// A configuration of the demonstration, with more in `[broker]`.
pub(crate) fn configure(desk: &Desk, broker: &str) {
    desk.write(
        "palisade.toml",
        format!(
            r#"
policies = "demo-policies"
principal = 'Agent::"stranger"'
[broker]
{broker}
[connections.demo]
url = "sqlite:demo.db"
"#
        ),
    );
}

/// Gives what is on the desk to a user that is not root, where this is root; that user.
pub(crate) fn give_to_user(desk: &Desk) -> Option<u32> {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    is_root.then(|| {
        let given = Command::new("chown")
            .arg("-R")
            .arg(format!("{USER}:{USER}"))
            .arg(desk.path("."))
            .status();
        assert!(given.unwrap().success());
        USER
    })
}

/// Has `user` run a command, if there is one.
pub(crate) fn run_as(command: &mut Command, user: Option<u32>) {
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
}

/// A broker; it ends with this value.
pub(crate) struct Broker {
    child: Child,
    log: Arc<Mutex<String>>,
}

impl Broker {
    pub(crate) fn start(desk: &Desk) -> Self {
        Self::run(&mut Self::command(desk))
    }

    pub(crate) fn command(desk: &Desk) -> Command {
        let mut command = desk.command(env!("CARGO_BIN_EXE_palisade"));
        command.args(["broker", "--config", "palisade.toml"]);
        command
    }

    pub(crate) fn run(command: &mut Command) -> Self {
        Self::run_with_input(command, Stdio::null())
    }

    fn run_with_input(command: &mut Command, input: Stdio) -> Self {
        let mut child = command
            .stdin(input)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let log = Arc::new(Mutex::new(String::new()));
        let mut line = String::new();
        while !line.contains("listening at") {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "{log:?}");
            *log.lock().unwrap() += &line;
        }
        let copy = Arc::clone(&log);
        std::thread::spawn(move || {
            let mut line = String::new();
            while lines.read_line(&mut line).is_ok_and(|read| read > 0) {
                *copy.lock().unwrap() += &line;
                line.clear();
            }
        });
        Self { child, log }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits for its end; its exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn relay_command(desk: &Desk, arguments: &[&str]) -> Command {
    let mut command = desk.command(env!("CARGO_BIN_EXE_palisade"));
    command
        .args(["relay", "--run", "broker/run"])
        .args(arguments);
    command
}

pub(crate) fn relay(desk: &Desk) -> Client {
    Client::start(&mut relay_command(desk, &["--secret", "broker/secret"]))
}

pub(crate) fn status_command(desk: &Desk) -> Command {
    let mut command = desk.command(env!("CARGO_BIN_EXE_palisade"));
    command
        .args(["broker", "--config", "palisade.toml", "status"])
        .args(["--format", "json"]);
    command
}

pub(crate) fn status(desk: &Desk) -> Value {
    let asked = crate::desk::Answer::from_command(&mut status_command(desk), b"");
    asked.expect_exit(0).json()
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Waits until `holds`.
#[track_caller]
pub(crate) fn wait_for(mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "it does not become so");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_secret_says_who_asks_through_a_relay() {
    let desk = Desk::new();
    configure(
        &desk,
        "principal = 'Agent::\"support-bot\"'\n[broker.enrolments.ci]\nprincipal = 'Agent::\"stranger\"'",
    );
    let broker = Broker::start(&desk);
    let mut bot = relay(&desk);
    let mut ci = Client::start(&mut relay_command(
        &desk,
        &["--secret", "broker/enrolments/ci"],
    ));
    let answer = bot.query(MASKED).to_string();
    assert!(
        answer.contains("****4821") && answer.contains("Ada Brandt"),
        "{answer}"
    );
    let answer = ci.query(MASKED);
    assert_eq!(answer["isError"], true, "{answer}");
    let told = status(&desk);
    let sessions = told["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 2, "{told}");
    assert_eq!(sessions[0]["principal"], "Agent::\"support-bot\"");
    assert_eq!(sessions[1]["enrolment"], "ci");
    let database = &told["databases"][0];
    assert_eq!(
        json!([database["name"], database["reached"], database["waiting"]]),
        json!(["demo", true, 0])
    );
    let shown = desk.run(&["broker", "--config", "palisade.toml", "status"]);
    let shown = shown.expect_exit(0).out;
    assert!(shown.contains("\ndatabase demo  SQLite"), "{shown}");
    assert!(
        told["posture"]
            .as_str()
            .unwrap()
            .contains("protects from accident only")
    );
    // Ending a session ends its connection; the client is told, and the relay begins another.
    let id = sessions[0]["id"].as_str().unwrap();
    desk.run(&["broker", "--config", "palisade.toml", "end", id])
        .expect_exit(0);
    desk.run(&["broker", "--config", "palisade.toml", "end", id])
        .fails(2, &["no such session", "broker status"]);
    wait_for(|| {
        let told = status(&desk);
        let all = told["sessions"].as_array().unwrap().clone();
        all.len() == 2
            && all
                .iter()
                .all(|one| one["id"] != id && one["connected"] == true)
    });
    ci.end();
    bot.end();
    wait_for(|| status(&desk)["connections"] == 0);
    drop(broker);
}

#[test]
fn folders_are_private_or_refused() {
    let desk = Desk::new();
    configure(&desk, "");
    let mut broker = Broker::start(&desk);
    for (path, mode) in [
        ("broker", 0o700),
        ("broker/run", 0o700),
        ("broker/run/palisade.sock", 0o600),
        ("broker/secret", 0o700),
        ("broker/secret/token", 0o600),
        ("broker/admin", 0o700),
        ("broker/admin/token", 0o600),
        ("broker/passwords", 0o700),
    ] {
        let found = fs::symlink_metadata(desk.path(path)).unwrap().mode() & 0o777;
        assert_eq!(found, mode, "{path}");
    }
    let again = || desk.run(&["broker", "--config", "palisade.toml"]);
    again().expect_exit(3);
    assert!(again().err.contains("another broker runs"));
    broker.kill();
    assert!(desk.path("broker/run/palisade.sock").exists());
    // It is stale, and replaced.
    broker = Broker::start(&desk);
    let mut client = relay(&desk);
    assert_eq!(client.query("SELECT 1 AS a")["isError"], false);
    client.end();
    broker.kill();
    for (path, wide, right) in [
        ("broker", 0o755, 0o700),
        ("broker/run", 0o770, 0o700),
        ("broker/secret", 0o701, 0o700),
        ("broker/secret/token", 0o640, 0o600),
        ("broker/admin", 0o750, 0o700),
        ("broker/admin/token", 0o604, 0o600),
        ("broker/passwords", 0o777, 0o700),
    ] {
        set_mode(&desk.path(path), wide);
        let answer = again().expect_exit(3);
        let help = format!("help: chmod {right:o} ");
        assert!(
            answer.err.contains(&help) && answer.err.contains(path),
            "{}",
            answer.err
        );
        set_mode(&desk.path(path), right);
    }
    fs::rename(desk.path("broker/run"), desk.path("elsewhere")).unwrap();
    std::os::unix::fs::symlink(desk.path("elsewhere"), desk.path("broker/run")).unwrap();
    let answer = again().expect_exit(3);
    assert!(
        answer.err.contains("links are not followed"),
        "{}",
        answer.err
    );
    let long = format!("directory = \"{}\"", "x".repeat(120));
    configure(&desk, &long);
    let answer = again().expect_exit(3);
    assert!(answer.err.contains("shorter `directory`"), "{}", answer.err);
}

#[test]
fn a_relay_says_why_it_does_not_connect() {
    let desk = Desk::new();
    configure(&desk, "");
    let run = |arguments: &[&str]| {
        let mut command = relay_command(&desk, arguments);
        crate::desk::Answer::from_command(&mut command, b"")
    };
    run(&["--secret", "broker/secret"]).fails(4, &["no broker listens", "palisade broker"]);
    let broker = Broker::start(&desk);
    run(&["--secret", "broker/nowhere"]).fails(3, &["broker/nowhere/token"]);
    desk.write("wrong/token", "0".repeat(64));
    run(&["--secret", "wrong"]).fails(4, &["broker.token"]);
    // The operator's secret is for the operator, and not for agents.
    run(&["--secret", "broker/admin"]).fails(4, &["broker.token"]);
    run(&["--secret", "broker/secret", "--broker-user", "12345"])
        .fails(4, &["and not 12345's", "--broker-user"]);
    run(&["--secret", "broker/secret", "--fd", "77"]).fails(2, &["descriptor 77"]);
    // A client that is gone ends it.
    run(&["--secret", "broker/secret"]).expect_exit(0);
    let told = status(&desk);
    let refusals = told["last_refusals"].as_array().unwrap();
    let is_token = |one: &&Value| one["code"] == "broker.token";
    assert_eq!(refusals.iter().filter(is_token).count(), 2, "{told}");
    assert!(!broker.log().contains(&"0".repeat(64)));
}

#[test]
fn a_flood_costs_a_good_relay_nothing() {
    let desk = Desk::new();
    configure(&desk, "principal = 'Agent::\"support-bot\"'");
    let broker = Broker::start(&desk);
    let mut client = relay(&desk);
    let socket = desk.path("broker/run/palisade.sock");
    let wrong = format!(
        "{{\"palisade\":1,\"token\":\"{}\",\"ask\":{{\"serve\":{{\"resume\":null}}}}}}\n",
        "1".repeat(64)
    );
    let long = "x".repeat(5000);
    let mut open = Vec::new();
    for number in 0..1000 {
        let Ok(mut stream) = UnixStream::connect(&socket) else {
            continue;
        };
        // Nothing, half a line, garbage, too much, and a wrong secret.
        let text = match number % 5 {
            0 => "",
            1 => "{\"palisade\":1,\"tok",
            2 => "GET / HTTP/1.1\n",
            3 => long.as_str(),
            _ => wrong.as_str(),
        };
        // One that was refused already takes no more.
        let _ = stream.write_all(text.as_bytes());
        open.push(stream);
        if open.len() > 300 {
            open.remove(0);
        }
        if number % 100 == 0 {
            let begun = Instant::now();
            let answer = client.query(MASKED).to_string();
            assert!(answer.contains("****4821"), "{answer}");
            assert!(
                begun.elapsed() < Duration::from_secs(5),
                "{:?}",
                begun.elapsed()
            );
        }
    }
    // Another comes through while those are still there.
    let mut late = relay(&desk);
    assert!(late.query(MASKED).to_string().contains("****4821"));
    let refused = "{\"refused\":{\"code\":\"broker.";
    let mut told = String::new();
    let mut one = UnixStream::connect(&socket).unwrap();
    one.set_read_timeout(Some(PATIENCE)).unwrap();
    one.write_all(b"{}\n").unwrap();
    one.read_to_string(&mut told).unwrap();
    assert!(told.starts_with(refused), "{told}");
    // Half a handshake is given two seconds.
    let begun = Instant::now();
    let mut slow = UnixStream::connect(&socket).unwrap();
    slow.set_read_timeout(Some(PATIENCE)).unwrap();
    slow.write_all(b"{\"palisade\"").unwrap();
    told.clear();
    slow.read_to_string(&mut told).unwrap();
    assert!(told.contains("broker.slow"), "{told}");
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    drop(open);
    wait_for(|| status(&desk)["connections"] == 2);
    assert!(broker.log().len() < 100_000, "{}", broker.log().len());
}

/// Connects as fast as it can until it is told to end, each time with what `say` writes; how often it did.
fn flood(socket: &Path, say: &'static str) -> (Arc<AtomicBool>, JoinHandle<usize>) {
    let is_over = Arc::new(AtomicBool::new(false));
    let (told, socket) = (Arc::clone(&is_over), socket.to_owned());
    let running = std::thread::spawn(move || {
        let mut open = VecDeque::new();
        let mut count = 0;
        while !told.load(Ordering::Relaxed) {
            let Ok(mut stream) = UnixStream::connect(&socket) else {
                continue;
            };
            let _ = stream.write_all(say.as_bytes());
            count += 1;
            open.push_back(stream);
            if open.len() > 100 {
                open.pop_front();
            }
        }
        count
    });
    (is_over, running)
}

#[test]
fn a_relay_starts_while_others_connect_as_fast_as_they_can() {
    let desk = Desk::new();
    configure(&desk, "principal = 'Agent::\"support-bot\"'");
    let _broker = Broker::start(&desk);
    let socket = desk.path("broker/run/palisade.sock");
    let floods: Vec<_> = ["", "", "{\"palisade\":1,\"tok", "GET / HTTP/1.1\n"]
        .map(|say| flood(&socket, say))
        .into();
    let begun = Instant::now();
    let mut started = 0;
    while begun.elapsed() < Duration::from_secs(2) {
        let mut client = relay(&desk);
        assert!(client.query(MASKED).to_string().contains("****4821"));
        client.end();
        started += 1;
    }
    assert!(started > 2, "{started}");
    // The operator comes through too.
    assert_eq!(status(&desk)["most_connections"], 64);
    let mut count = 0;
    for (is_over, running) in floods {
        is_over.store(true, Ordering::Relaxed);
        count += running.join().unwrap();
    }
    assert!(count > 500, "{count}");
    println!("{started} relays, {count} connections of others");
}

#[test]
fn an_enrolment_that_takes_all_connections_leaves_the_shares_of_others() {
    let desk = Desk::new();
    let enrolments = ["greedy", "calm"]
        .map(|name| format!("[broker.enrolments.{name}]\nprincipal = 'Agent::\"support-bot\"'\n"));
    let principal = "principal = 'Agent::\"support-bot\"'\nconnections = 6\n";
    configure(&desk, &format!("{principal}{}", enrolments.concat()));
    let _broker = Broker::start(&desk);
    let of = |name: &str| {
        let secret = format!("broker/enrolments/{name}");
        relay_command(&desk, &["--secret", &secret])
    };
    // One for each of three is kept; the other three are for who comes first.
    let greedy: Vec<Client> = (0..4).map(|_| Client::start(&mut of("greedy"))).collect();
    crate::desk::Answer::from_command(&mut of("greedy"), b"").fails(4, &["broker.busy"]);
    let mut calm = Client::start(&mut of("calm"));
    assert!(calm.query(MASKED).to_string().contains("****4821"));
    let mut other = relay(&desk);
    assert!(other.query(MASKED).to_string().contains("****4821"));
    crate::desk::Answer::from_command(&mut of("calm"), b"").fails(4, &["broker.busy"]);
    for client in greedy.into_iter().chain([calm, other]) {
        client.end();
    }
}

#[test]
fn a_session_outlives_its_relay_and_its_broker() {
    let desk = Desk::new();
    configure(
        &desk,
        "principal = 'Agent::\"support-bot\"'\nconnections = 2",
    );
    let text = fs::read_to_string(desk.path("palisade.toml")).unwrap();
    desk.write("palisade.toml", format!("audit = \"audit.jsonl\"\n{text}"));
    let mut broker = Broker::start(&desk);
    let arguments = ["--secret", "broker/secret", "--resume", "session"];
    let mut client = Client::start(&mut relay_command(&desk, &arguments));
    client.query(MASKED);
    let session = |told: &Value| {
        let all = told["sessions"].as_array().unwrap().clone();
        assert_eq!(all.len(), 1, "{told}");
        all[0]["id"].clone()
    };
    let id = session(&status(&desk));
    let first = fs::read_to_string(desk.path("session")).unwrap();
    assert_eq!(
        fs::metadata(desk.path("session")).unwrap().mode() & 0o777,
        0o600
    );
    client.kill();
    let mut client = Client::start(&mut relay_command(&desk, &arguments));
    assert_eq!(session(&status(&desk)), id);
    let second = fs::read_to_string(desk.path("session")).unwrap();
    assert_ne!(first, second);
    let kept = fs::read_to_string(desk.path("broker/admin/sessions.json")).unwrap();
    assert!(!kept.contains(&second), "{kept}");

    // The broker goes away, and comes back: the client begins nothing anew.
    broker.kill();
    let call = json!({"jsonrpc": "2.0", "id": "lost", "method": "tools/call",
        "params": {"name": "query", "arguments": {"sql": "SELECT 1"}}});
    let answer: Value = serde_json::from_str(&client.exchange(&call.to_string())).unwrap();
    assert_eq!(answer["id"], "lost");
    assert_eq!(answer["error"]["data"]["retryable"], true, "{answer}");
    assert_eq!(answer["error"]["data"]["code"], "broker.gone");
    broker = Broker::start(&desk);
    wait_for(|| status(&desk)["connections"] == 1);
    assert!(client.query(MASKED).to_string().contains("****4821"));
    assert_eq!(session(&status(&desk)), id);
    assert!(broker.log().contains("resumed=true"), "{}", broker.log());
    // It is one session for whoever reads the audit log too.
    let log = fs::read_to_string(desk.path("audit.jsonl")).unwrap();
    let records: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let queries = records.iter().filter(|record| record["tool"] == "query");
    let named: Vec<&Value> = queries.map(|record| &record["session"]).collect();
    assert_eq!(named, [&id, &id], "{log}");

    // A secret that was used resumes nothing.
    desk.write("used", &first);
    set_mode(&desk.path("used"), 0o600);
    let stale = ["--secret", "broker/secret", "--resume", "used"];
    let other = Client::start(&mut relay_command(&desk, &stale));
    assert_eq!(status(&desk)["sessions"].as_array().unwrap().len(), 2);
    // And there are no more connections than there may be.
    let mut third = relay_command(&desk, &["--secret", "broker/secret"]);
    crate::desk::Answer::from_command(&mut third, b"").fails(4, &["broker.busy"]);
    other.end();
    client.end();
}

#[test]
fn what_a_client_subscribed_to_outlives_a_broker() {
    let desk = Desk::new();
    let everything = "permit (principal, action, resource);";
    desk.policy(everything);
    configure(&desk, "principal = 'Agent::\"support-bot\"'");
    let text = fs::read_to_string(desk.path("palisade.toml")).unwrap();
    desk.write("palisade.toml", text.replace("demo-policies", "p"));
    let mut broker = Broker::start(&desk);
    let mut client = relay(&desk);
    let uri = json!({"uri": "palisade://databases/demo/policy"});
    let answer = client.ask("resources/subscribe", &uri);
    assert!(answer.is_object(), "{answer}");
    // A call is answered whether there is news or not, so that no news fails and does not wait.
    let mut is_told = || {
        let id = client.begin("query", &json!({"sql": MASKED}));
        let mut is_told = false;
        loop {
            let told = client.read();
            if told["id"] == id {
                return is_told;
            }
            is_told |= told["method"] == "notifications/resources/updated" && told["params"] == uri;
        }
    };
    broker.kill();
    broker = Broker::start(&desk);
    wait_for(|| status(&desk)["connections"] == 1);
    // What changed in between, if anything did.
    wait_for(&mut is_told);
    assert!(!is_told());
    let masked = "@mask(\"null\") forbid (principal, action == Action::\"read_plain\", resource == Column::\"main.customers.email\");";
    desk.policy(&format!("{everything}\n{masked}"));
    wait_for(&mut is_told);
    drop(broker);
    client.end();
}

/// What a relay is: small, whatever goes through it. Pages of the program itself are others' too, and of a build with all that
/// debuggers want they are many.
#[test]
fn a_relay_is_small() {
    let desk = Desk::new();
    configure(&desk, "principal = 'Agent::\"support-bot\"'");
    let _broker = Broker::start(&desk);
    let mut client = relay(&desk);
    for _ in 0..200 {
        assert!(client.query(MASKED).to_string().contains("****4821"));
    }
    let long = format!("SELECT 1 AS a /* {} */", "x".repeat(1_000_000));
    let answer = client.query(&long);
    assert_eq!(answer["isError"], true, "{answer}");
    // Requests that wait hold no more than their ids.
    let waiting: Vec<u64> = (0..500)
        .map(|_| client.begin("query", &json!({"sql": MASKED})))
        .collect();
    let own = client.own_memory();
    assert!(own < 10 * 1024, "{own} kB");
    for _ in waiting {
        client.read();
    }
    let own = client.own_memory();
    assert!(own < 10 * 1024, "{own} kB");
    client.end();
}

/// A user that is not root, for whom `/proc` is what it is for others.
const USER: u32 = 54_321;

#[test]
fn a_process_of_the_same_user_cannot_read_the_brokers_memory() {
    let desk = Desk::new();
    configure(&desk, "");
    let user = give_to_user(&desk);
    let mut command = Broker::command(&desk);
    command.env("PALISADE_TEST_SECRET", "geheim");
    let mut look = desk.command("sh");
    run_as(&mut command, user);
    run_as(&mut look, user);
    let broker = Broker::run(&mut command);
    let id = broker.id();
    let script = format!(
        "for f in mem environ maps; do cat /proc/{id}/$f > /dev/null 2>&1 && echo read $f; done; \
         cat /proc/$$/environ > /dev/null && echo own; \
         grep -q geheim /proc/{id}/cmdline && echo told; ls broker/passwords > /dev/null && echo folder"
    );
    let seen = look.args(["-c", &script]).output().unwrap();
    let seen = String::from_utf8(seen.stdout).unwrap();
    // Files of the same user stay open to it: that is what the sandbox is for.
    assert_eq!(seen, "own\nfolder\n");
    let limits = fs::read_to_string(format!("/proc/{id}/limits")).unwrap();
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"))
        .unwrap();
    let numbers: Vec<&str> = core
        .split_whitespace()
        .filter(|word| *word == "0")
        .collect();
    assert_eq!(numbers.len(), 2, "{core}");
    assert!(!broker.log().contains("geheim"));
    // Another user is not let in, whatever it has: root here.
    if user.is_some() {
        let mut stream = UnixStream::connect(desk.path("broker/run/palisade.sock")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut told = String::new();
        stream.read_to_string(&mut told).unwrap();
        assert!(told.contains("broker.user"), "{told}");
    }
}

#[test]
fn the_broker_keeps_no_file_of_whoever_started_it() {
    let desk = Desk::new();
    configure(&desk, "");
    let palisade = env!("CARGO_BIN_EXE_palisade");
    // The shell leaves the pipe's end open in what it starts.
    let (mut read, write) = std::io::pipe().unwrap();
    let script = format!("exec {palisade} broker --config palisade.toml 9>&0 0</dev/null");
    let mut command = desk.command("sh");
    command.args(["-c", &script]);
    let broker = Broker::run_with_input(&mut command, Stdio::from(write));
    drop(command);
    // The end comes when no process holds the other end, while the broker goes on.
    let (send, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut rest = Vec::new();
        let _ = send.send(read.read_to_end(&mut rest).map(|_| rest));
    });
    let rest = ended
        .recv_timeout(PATIENCE)
        .expect("the pipe is still open");
    assert_eq!(rest.unwrap(), b"");
    let told = status(&desk);
    let is_locked = fs::read_to_string(format!("/proc/{}/status", broker.id()))
        .unwrap()
        .lines()
        .any(|line| line.starts_with("VmLck:") && !line.contains(" 0 kB"));
    assert_eq!(told["memory_locked"], is_locked, "{told}");
}

#[test]
fn what_broker_tables_say_is_checked() {
    let desk = Desk::new();
    for (text, told) in [
        ("group = 4294967295", "`group` cannot be"),
        ("group = 65534", "`group` cannot be 65534"),
        ("connections = 0", "`connections` cannot be 0"),
        ("idle_minutes = 2000", "from 1 to 1440"),
        ("session_hours = 0", "from 1 to 168"),
        ("drain_seconds = 1", "from 2 to 600"),
        ("principal = \"x\"", "not a principal"),
        (
            "[broker.users.ann]\nprincipal = 'Agent::\"a\"'",
            "no id of a user",
        ),
        (
            "[broker.groups.staff]\nprincipal = 'Agent::\"a\"'",
            "`id -g NAME`",
        ),
        (
            "[broker.users.65534]\nprincipal = 'Agent::\"a\"'",
            "no user of its own",
        ),
        (
            "[broker.enrolments.\"a/b\"]\nprincipal = 'Agent::\"a\"'",
            "no name of an enrolment",
        ),
        ("tokens = 1", "unknown field"),
    ] {
        configure(&desk, text);
        desk.run(&["broker", "--config", "palisade.toml"])
            .fails(3, &[told]);
    }
    desk.write("palisade.toml", "[broker]\n");
    desk.run(&["broker", "--config", "palisade.toml"])
        .fails(3, &["names no connection"]);
}
