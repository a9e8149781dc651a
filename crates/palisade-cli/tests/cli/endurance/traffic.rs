//! Clients that ask the fleet, and know what must come back.

use std::{
    collections::BTreeSet,
    fmt,
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::atomic::{AtomicBool, Ordering},
    thread::sleep,
    time::{Duration, Instant},
};

use rustls::{ClientConnection, StreamOwned, pki_types::ServerName};
use serde_json::{Value, json};

use super::fleet::{COUNTERS, CUSTOMERS, Fleet, MASKS, SECRETS, TENANTS};
use crate::cancel::SLOW;
use crate::http::{PATIENCE, Request, Response, read_response};

/// What came of all calls.
#[derive(Default)]
pub(super) struct Tally {
    /// With what was asked for, or with the refusal that policy wants.
    pub(super) answered: u32,
    /// Calls of each kind among them.
    kinds: [u32; KINDS.len()],
    /// Refused as something to try again, or with a connection that broke.
    pub(super) put_off: u32,
    /// Changes that were acknowledged.
    pub(super) changed: u64,
    /// Changes that may have happened.
    pub(super) perhaps_changed: u64,
    /// Traces of all calls that were answered.
    pub(super) traces: BTreeSet<String>,
}

impl Tally {
    pub(super) fn add(&mut self, other: Self) {
        let Self {
            answered,
            kinds,
            put_off,
            changed,
            perhaps_changed,
            traces,
        } = other;
        self.answered += answered;
        for (own, theirs) in self.kinds.iter_mut().zip(kinds) {
            *own += theirs;
        }
        self.put_off += put_off;
        self.changed += changed;
        self.perhaps_changed += perhaps_changed;
        self.traces.extend(traces);
    }

    /// Every kind of call was answered.
    pub(super) fn check_kinds(&self) {
        assert!(self.kinds.iter().all(|count| *count > 0), "{self}");
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} answered, {:?} of them {:?}; {} put off; {} changes, and {} more at most",
            self.answered, self.kinds, KINDS, self.put_off, self.changed, self.perhaps_changed
        )
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Rows,
    Count,
    NoTable,
    NoColumn,
    Change,
    Abandoned,
}

const KINDS: [Kind; 6] = [
    Kind::Rows,
    Kind::Count,
    Kind::NoTable,
    Kind::NoColumn,
    Kind::Change,
    Kind::Abandoned,
];

impl Kind {
    fn sql(self, number: u64) -> String {
        match self {
            Self::Rows => {
                format!(
                    "SELECT id, tenant, name, email FROM customers ORDER BY id LIMIT {}",
                    5 + number % 20
                )
            }
            Self::Count => "SELECT count(*) AS n FROM customers".to_owned(),
            Self::NoTable => "SELECT service, api_key FROM credentials".to_owned(),
            Self::NoColumn => "SELECT national_id FROM customers".to_owned(),
            Self::Change => {
                format!(
                    "UPDATE counters SET n = n + 1 WHERE id = {}",
                    1 + number % COUNTERS
                )
            }
            Self::Abandoned => SLOW.to_owned(),
        }
    }

    fn tool(self) -> &'static str {
        match self {
            Self::Rows | Self::Count | Self::NoTable | Self::NoColumn | Self::Abandoned => "query",
            Self::Change => "execute",
        }
    }
}

/// A client of one tenant.
pub(super) struct Worker<'a> {
    fleet: &'a Fleet,
    number: usize,
    tenant: &'static str,
    calls: u64,
    tally: Tally,
}

impl<'a> Worker<'a> {
    pub(super) fn new(fleet: &'a Fleet, number: usize) -> Self {
        Self {
            fleet,
            number,
            tenant: TENANTS[number % TENANTS.len()],
            calls: 0,
            tally: Tally::default(),
        }
    }

    pub(super) fn run(mut self, is_over: &AtomicBool) -> Tally {
        while !is_over.load(Ordering::Relaxed) {
            self.calls += 1;
            let kind = KINDS[usize::try_from(self.calls).unwrap() % KINDS.len()];
            self.ask(kind);
            // What is measured is no throughput.
            sleep(Duration::from_millis(5));
        }
        self.tally
    }

    fn ask(&mut self, kind: Kind) {
        let trace = format!("{:016x}{:016x}", self.number + 1, self.calls);
        let params = json!({
            "name": kind.tool(),
            "arguments": {"sql": kind.sql(self.calls), "format": "json"},
            "_meta": {"traceparent": format!("00-{trace}-00000000000000aa-00")},
        });
        let message =
            json!({"jsonrpc": "2.0", "id": self.calls, "method": "tools/call", "params": params});
        let token = &self.fleet.tokens[self.number % TENANTS.len()];
        let request = Request::post("/mcp", &message).bearer(token);
        let patience = match kind {
            Kind::Abandoned => Duration::from_millis(40),
            Kind::Rows | Kind::Count | Kind::NoTable | Kind::NoColumn | Kind::Change => PATIENCE,
        };
        let answer = self.exchange(&request, patience);
        if kind == Kind::Abandoned {
            // Its client does not wait for it; what became of it is told by its record alone.
            self.tally.kinds[KINDS.len() - 1] += 1;
            return;
        }
        let Some(answer) = answer else {
            self.tally.put_off += 1;
            self.tally.perhaps_changed += u64::from(kind == Kind::Change);
            return;
        };
        for secret in SECRETS {
            assert!(!answer.body.contains(secret), "{kind:?}: {answer:?}");
        }
        for other in TENANTS.iter().filter(|tenant| **tenant != self.tenant) {
            assert!(!answer.body.contains(other), "{kind:?}: {answer:?}");
        }
        match answer.status {
            200 => self.judge(kind, &answer.json(), trace),
            // The store of tokens is the database that restarts.
            503 => self.tally.put_off += 1,
            _ => panic!("{kind:?}: {answer:?}"),
        }
    }

    fn judge(&mut self, kind: Kind, told: &Value, trace: String) {
        let body = &told["result"]["structuredContent"];
        let is_error = told["result"]["isError"] == true;
        if is_error && body["retryable"] == true {
            self.tally.put_off += 1;
            self.tally.traces.insert(trace);
            return;
        }
        match kind {
            Kind::Rows => {
                let rows = body["rows"].as_array().unwrap_or_else(|| panic!("{told}"));
                let asked = usize::try_from(5 + self.calls % 20).unwrap();
                assert_eq!(rows.len(), asked, "{told}");
                for row in rows {
                    assert_eq!(row["tenant"], self.tenant, "{told}");
                    let email = row["email"].as_str().unwrap();
                    assert!(MASKS.contains(&email), "{told}");
                }
            }
            Kind::Count => assert_eq!(body["rows"][0]["n"], CUSTOMERS, "{told}"),
            Kind::NoTable => assert_eq!(body["code"], "name.unknown-relation", "{told}"),
            Kind::NoColumn => assert!(is_error && body["code"] != "internal", "{told}"),
            Kind::Change if body["affected_rows"] == 1 => self.tally.changed += 1,
            Kind::Change => {
                // A commit whose answer was lost says so.
                assert_eq!(body["code"], "database.outcome-unknown", "{told}");
                self.tally.perhaps_changed += 1;
            }
            Kind::Abandoned => {}
        }
        self.tally.answered += 1;
        self.tally.kinds[KINDS.iter().position(|one| *one == kind).unwrap()] += 1;
        self.tally.traces.insert(trace);
    }

    /// The answer of one of the servers; nothing if the connection broke, or there is none.
    fn exchange(&self, request: &Request, patience: Duration) -> Option<Response> {
        let at = (usize::try_from(self.calls).unwrap() / KINDS.len() + self.number) % 2;
        let address = self.fleet.machines[at].address()?;
        let stream = TcpStream::connect(&address).ok()?;
        stream.set_read_timeout(Some(patience)).ok()?;
        let name = ServerName::try_from("localhost").unwrap();
        let client = ClientConnection::new(self.fleet.trusted.clone(), name).unwrap();
        let mut stream = StreamOwned::new(client, stream);
        stream
            .write_all(request.write("localhost").as_bytes())
            .ok()?;
        let began = Instant::now();
        let mut text = Vec::new();
        // TLS may end without saying so.
        let _ = stream.read_to_end(&mut text);
        assert!(
            began.elapsed() < PATIENCE || patience < PATIENCE,
            "no answer in {PATIENCE:?}"
        );
        read_response(&text)
    }
}
