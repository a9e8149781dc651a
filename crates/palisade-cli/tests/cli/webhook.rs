//! Who outside is told of requests that wait, as a receiver gets it that the test itself is.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::mpsc::{self, Receiver, Sender},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::{desk::Desk, serve::Client};

const POLICIES: &str = r#"
permit (principal, action in [Action::"select", Action::"see", Action::"read", Action::"write"], resource);
permit (principal, action in [Action::"change", Action::"add"], resource);
@approval("required")
permit (principal, action in [Action::"update", Action::"delete"], resource);
"#;

const CLOSE: &str = "UPDATE tickets SET subject = 'geheim' WHERE id = ?";

const SECRET: &str = "0123456789abcdef0123456789abcdef";

const CONFIG: [&str; 2] = ["--config", "palisade.toml"];

/// What was posted.
struct Post {
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

/// What a receiver says to the first posts, one after the other; to further ones it says thanks.
#[derive(Clone, Copy)]
enum Say {
    Status(&'static str),
    /// Nothing, for long.
    Nothing,
}

/// A receiver, and what it is sent.
fn receive(words: &'static [Say]) -> (u16, Receiver<Post>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, posts) = mpsc::channel();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let (stream, sender) = (stream.unwrap(), sender.clone());
            let say = words.get(number).copied();
            thread::spawn(move || take(&stream, say, &sender));
        }
    });
    (port, posts)
}

fn take(stream: &TcpStream, say: Option<Say>, sender: &Sender<Post>) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert!(line.starts_with("POST /hook?key=abc HTTP/1.1"), "{line}");
    let mut headers = BTreeMap::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        let Some((name, value)) = header.trim().split_once(": ") else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let mut body = vec![0; headers["content-length"].parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    // There is no listener once the test is over.
    let _ = sender.send(Post { headers, body });
    let status = match say {
        Some(Say::Status(status)) => status,
        Some(Say::Nothing) => {
            thread::sleep(Duration::from_secs(60));
            return;
        }
        None => "204 No Content",
    };
    let mut stream = stream;
    let answer = format!(
        "HTTP/1.1 {status}\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(answer.as_bytes()).unwrap();
}

/// What a receiver computes.
fn signature(secret: &str, post: &Post) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(post.headers["palisade-timestamp"].as_bytes());
    mac.update(b".");
    mac.update(&post.body);
    let tag = mac.finalize().into_bytes();
    let digits: String = tag.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("v1={digits}")
}

fn desk(port: u16, lines: &str) -> Desk {
    let desk = Desk::new();
    desk.policy(POLICIES);
    desk.write("webhook.secret", SECRET);
    let chmod = desk.shell("chmod 600 webhook.secret", 0, b"");
    chmod.expect_exit(0);
    desk.write(
        "palisade.toml",
        format!(
            "policies = \"p\"\nprincipal = 'Agent::\"bot\"'\naudit = \"audit.jsonl\"\n\
             [approvals.webhook]\nurl = \"http://127.0.0.1:{port}/hook?key=abc\"\nsecret_file = \"webhook.secret\"\n{lines}\n\
             [grants]\nhosts = [\"127.0.0.1:{port}\"]\nfiles = [\"webhook.secret\"]\n\
             [connections.desk]\nurl = \"sqlite:demo.db\"\nwritable = true\n"
        ),
    );
    desk
}

fn execute(client: &mut Client, id: u32) -> String {
    let answer = client.call("execute", &json!({"sql": CLOSE, "params": [id]}));
    let answer = &answer["structuredContent"];
    assert_eq!(answer["code"], "approval.required", "{answer}");
    answer["approval"]["id"].as_str().unwrap().to_owned()
}

fn next(posts: &Receiver<Post>) -> Post {
    posts.recv_timeout(Duration::from_secs(20)).unwrap()
}

#[test]
fn people_outside_are_told_what_waits_and_no_value() {
    let (port, posts) = receive(&[]);
    let desk = desk(port, "");
    let mut client = Client::new(&desk, &CONFIG);
    let id = execute(&mut client, 424_242);
    let post = next(&posts);
    assert_eq!(post.headers["content-type"], "application/json");
    assert_eq!(post.headers["palisade-signature"], signature(SECRET, &post));
    let other = signature("another secret that is long enough.", &post);
    assert_ne!(post.headers["palisade-signature"], other);
    let sent: u64 = post.headers["palisade-timestamp"].parse().unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    assert!(now.as_secs() - sent < 60);
    let told: Value = serde_json::from_slice(&post.body).unwrap();
    let (created, expires) = (&told["created_ms"], &told["expires_ms"]);
    assert_eq!(
        expires.as_u64().unwrap() - created.as_u64().unwrap(),
        15 * 60 * 1000
    );
    assert_eq!(
        told,
        json!({
            "version": 1,
            "event": "approval.waiting",
            "kind": "statement",
            "id": id,
            "principal": "Agent::\"bot\"",
            "connection": "desk",
            "template": null,
            "approval": "required",
            "actions": ["update"],
            "tables": ["main.tickets"],
            "statements": ["update tickets set subject = ? where id = ?"],
            "created_ms": created,
            "expires_ms": expires,
            "approve": format!("palisade approve {id}"),
        })
    );
    // A request that waits already is not told of again.
    assert_eq!(execute(&mut client, 424_242), id);
    let second = execute(&mut client, 424_243);
    let post = next(&posts);
    let told: Value = serde_json::from_slice(&post.body).unwrap();
    assert_eq!(told["id"], second);

    // Of a change in steps, once it has been validated.
    let statements = json!([{"sql": "DELETE FROM tickets WHERE subject = 'geheim'"}]);
    let proposal = json!({"statements": statements, "reason": "geheim"});
    let proposed = client.call("propose_change", &proposal);
    let change = &proposed["structuredContent"]["change"];
    client.call("validate_change", &json!({"change": change}));
    let post = next(&posts);
    assert_eq!(post.headers["palisade-signature"], signature(SECRET, &post));
    let text = String::from_utf8(post.body.clone()).unwrap();
    assert!(!text.contains("geheim"), "{text}");
    let told: Value = serde_json::from_slice(&post.body).unwrap();
    assert_eq!(told["kind"], "change");
    assert_eq!(&told["id"], change);
    assert_eq!(told["actions"], json!(["delete"]));
    assert_eq!(
        told["statements"],
        json!(["delete from tickets where subject = ?"])
    );
    // The line it names works.
    let line = told["approve"].as_str().unwrap();
    desk.shell(&format!("{line} {}", CONFIG.join(" ")), 0, b"")
        .expect_exit(0);
    let log = client.end();
    assert!(!log.contains("webhook"), "{log}");
}

#[test]
fn a_receiver_that_says_nothing_holds_up_no_call() {
    let (port, posts) = receive(&[Say::Nothing, Say::Nothing, Say::Nothing]);
    let desk = desk(port, "timeout_seconds = 2");
    let mut client = Client::new(&desk, &CONFIG);
    // Its database opens behind its start.
    client.query("SELECT 1");
    let began = Instant::now();
    execute(&mut client, 1);
    next(&posts);
    // It has the first one and does not answer.
    execute(&mut client, 2);
    execute(&mut client, 3);
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    let log = client.end();
    assert!(
        log.contains("the webhook was not told of a request that waits")
            && log.contains("did not answer in time"),
        "{log}"
    );
    // The address can hold a secret.
    assert!(!log.contains("key=abc"), "{log}");
}

#[test]
fn what_fails_is_sent_again_and_redirects_are_not_followed() {
    let (port, posts) = receive(&[
        Say::Status("503 Service Unavailable"),
        Say::Status("200 OK"),
        Say::Status("302 Found"),
    ]);
    let desk = desk(port, "");
    let mut client = Client::new(&desk, &CONFIG);
    execute(&mut client, 1);
    let (first, again) = (next(&posts), next(&posts));
    assert_eq!(first.body, again.body);
    execute(&mut client, 2);
    next(&posts);
    // Sent once: the third receiver's word is final.
    execute(&mut client, 3);
    let third = next(&posts);
    let told: Value = serde_json::from_slice(&third.body).unwrap();
    let log = client.end();
    assert!(
        log.contains("answered 302, and redirects are not followed"),
        "{log}"
    );
    assert!(
        log.contains("failed=1") && !log.contains("failed=2"),
        "{log}"
    );
    assert_eq!(told["event"], "approval.waiting");
}

#[test]
fn a_command_that_ends_sends_first() {
    let (port, posts) = receive(&[]);
    let desk = desk(port, "");
    let sql = "UPDATE tickets SET subject = 'geheim' WHERE id = 1";
    let run = ["execute", "connection:desk", sql];
    desk.run(&[&run[..], &CONFIG].concat()).expect_exit(1);
    assert!(
        !String::from_utf8(next(&posts).body)
            .unwrap()
            .contains("geheim")
    );
}

#[test]
fn the_configuration_of_a_webhook_is_strict() {
    let configure = |lines: &str, grants: &str| {
        let desk = Desk::empty();
        desk.write(
            "palisade.toml",
            format!("[approvals.webhook]\n{lines}\n[grants]\n{grants}\n"),
        );
        desk.run(&["config", "check"])
    };
    let secret = "secret_env = \"HOOK\"";
    for (lines, grants, told) in [
        (secret, "", "missing field `url`"),
        (
            "url = \"http://hooks.example.org/a\"\nsecret_env = \"HOOK\"",
            "hosts = [\"hooks.example.org:80\"]\nenv = [\"HOOK\"]",
            "write `https://`",
        ),
        (
            "url = \"https://hooks.example.org/a\"\nsecret_env = \"HOOK\"",
            "env = [\"HOOK\"]",
            "hosts = [\"hooks.example.org:443\"]",
        ),
        (
            "url = \"https://hooks.example.org/a\"",
            "hosts = [\"hooks.example.org:443\"]",
            "openssl rand -hex 32",
        ),
        (
            "url = \"https://hooks.example.org/a\"\nsecret_env = \"HOOK\"",
            "hosts = [\"hooks.example.org:443\"]",
            "env = [\"HOOK\"]",
        ),
        (
            "url = \"https://hooks.example.org/a\"\nsecret_env = \"HOOK\"\ntimeout_seconds = 0",
            "hosts = [\"hooks.example.org:443\"]\nenv = [\"HOOK\"]",
            "write a number from 1 to 60",
        ),
    ] {
        configure(lines, grants).fails(3, &[told]);
    }
    configure(
        "url = \"https://hooks.example.org/a\"\nsecret_env = \"HOOK\"",
        "hosts = [\"hooks.example.org:443\"]\nenv = [\"HOOK\"]",
    )
    .expect_exit(0);
    // Requests in memory cannot be approved from outside.
    let desk = desk(1, "");
    let configuration = std::fs::read_to_string(desk.path("palisade.toml")).unwrap();
    desk.write(
        "palisade.toml",
        configuration.replace("audit.jsonl", "/dev/null"),
    );
    let serve = ["serve", "--config", "palisade.toml"];
    desk.run(&serve).fails(3, &["`state = \"approvals.db\"`"]);
    desk.write("webhook.secret", "too short");
    desk.write("palisade.toml", configuration);
    desk.run(&serve).fails(3, &["shorter than 32 bytes"]);
}
