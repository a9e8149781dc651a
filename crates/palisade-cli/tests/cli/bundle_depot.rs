//! A place that bundles of policies are pulled from, over real sockets, and how it can go wrong.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read, Write},
    net::TcpListener,
    sync::{Arc, Mutex, MutexGuard},
    thread,
};

use rustls::{ServerConfig, ServerConnection, StreamOwned, crypto::ring, pki_types::PrivateKeyDer};

/// How a depot answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    Fine,
    /// It takes connections, and says nothing.
    Silent,
    /// It says that more comes than does.
    Truncated,
    /// It never ends.
    Endless,
    Status(u16),
    Redirect(String),
}

/// What a depot has.
pub(crate) struct Held {
    /// By path.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    pub(crate) mood: Mood,
    /// Asked of every request but those of `/token`, if anything is.
    pub(crate) ticket: Option<String>,
    /// Heads of requests.
    pub(crate) asked: Vec<String>,
}

/// A server that holds files.
pub(crate) struct Depot {
    /// `HOST:PORT`.
    pub(crate) host: String,
    held: Arc<Mutex<Held>>,
}

impl Depot {
    pub(crate) fn start() -> Self {
        Self::open("127.0.0.1", None)
    }

    /// With TLS; its certificate, which is its own authority, in PEM.
    pub(crate) fn start_encrypted() -> (Self, String) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        (
            Self::open("localhost", Some(Arc::new(config))),
            made.cert.pem(),
        )
    }

    fn open(name: &str, tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let depot = Self {
            host: format!("{name}:{}", listener.local_addr().unwrap().port()),
            held: Arc::new(Mutex::new(Held {
                files: BTreeMap::new(),
                mood: Mood::Fine,
                ticket: None,
                asked: Vec::new(),
            })),
        };
        let held = Arc::clone(&depot.held);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (held, tls) = (Arc::clone(&held), tls.clone());
                thread::spawn(move || match tls {
                    None => answer(stream, &held),
                    Some(config) => {
                        let connection = ServerConnection::new(config).unwrap();
                        answer(StreamOwned::new(connection, stream), &held);
                    }
                });
            }
        });
        depot
    }

    pub(crate) fn lock_held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap()
    }

    /// Holds this at a path from now on, and is fine.
    pub(crate) fn hold(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        let mut held = self.lock_held();
        held.files.insert(path.to_owned(), bytes.into());
        held.mood = Mood::Fine;
    }
}

/// A mark of bytes, as a server has it.
fn etag(bytes: &[u8]) -> String {
    let sum = bytes.iter().fold(17_u64, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u64::from(*byte))
    });
    format!("\"{sum:x}\"")
}

fn answer(stream: impl Read + Write, held: &Mutex<Held>) {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        let read = stream.read_line(&mut head);
        if !read.is_ok_and(|read| read > 0) {
            return;
        }
    }
    let (found, mood, ticket) = {
        let mut held = held.lock().unwrap();
        held.asked.push(head.clone());
        let target = head.split(' ').nth(1).unwrap();
        let path = target.split('?').next().unwrap();
        let is_free = path == "/token" || held.ticket.is_none();
        let ticket = held.ticket.clone().filter(|ticket| {
            !is_free
                && !head
                    .to_lowercase()
                    .contains(&format!("authorization: bearer {ticket}\r\n"))
        });
        (held.files.get(path).cloned(), held.mood.clone(), ticket)
    };
    let host = head.to_lowercase();
    let host = host.split("host: ").nth(1).unwrap();
    let host = host.split("\r\n").next().unwrap().to_owned();
    let stream = stream.get_mut();
    let mut write = |head: &str, body: &[u8]| {
        let head = format!("HTTP/1.1 {head}\r\nConnection: close\r\n\r\n");
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.write_all(body);
        let _ = stream.flush();
    };
    if ticket.is_some() {
        let challenge =
            format!("WWW-Authenticate: Bearer realm=\"http://{host}/token\",service=\"depot\"");
        write(
            &format!("401 Unauthorized\r\n{challenge}\r\nContent-Length: 0"),
            b"",
        );
        return;
    }
    let bytes = found.unwrap_or_default();
    let length = bytes.len();
    match mood {
        Mood::Silent => thread::sleep(std::time::Duration::from_secs(60)),
        Mood::Truncated => write(
            &format!("200 OK\r\nContent-Length: {length}"),
            &bytes[..length / 2],
        ),
        Mood::Endless => {
            write("200 OK", b"{");
            let more = vec![b' '; 1 << 20];
            while stream.write_all(&more).is_ok() {}
        }
        Mood::Status(status) => write(&format!("{status} Odd\r\nContent-Length: 0"), b""),
        Mood::Redirect(place) => write(
            &format!("302 Found\r\nLocation: {place}\r\nContent-Length: 0"),
            b"",
        ),
        Mood::Fine if bytes.is_empty() => write("404 Not Found\r\nContent-Length: 0", b""),
        Mood::Fine => {
            let mark = etag(&bytes);
            match head
                .to_lowercase()
                .contains(&format!("if-none-match: {mark}\r\n"))
            {
                true => write("304 Not Modified\r\nContent-Length: 0", b""),
                false => write(
                    &format!("200 OK\r\nETag: {mark}\r\nContent-Length: {length}"),
                    &bytes,
                ),
            }
        }
    }
}
