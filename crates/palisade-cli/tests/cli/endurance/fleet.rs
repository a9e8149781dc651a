//! Two servers over one database and one state, and what must be so when they have ended.

use std::{
    collections::BTreeSet,
    os::unix::fs::PermissionsExt as _,
    sync::{Arc, Mutex, PoisonError},
    thread::sleep,
    time::{Duration, Instant},
};

use palisade_testkit::servers::PostgresServer;
use rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::CertificateDer};
use serde_json::json;

use super::traffic::Tally;
use crate::{
    desk::Desk,
    http::{Server, make_token},
    tls::{Authority, authority, signed},
};

/// Tenants, each with an agent of its own.
pub(super) const TENANTS: [&str; 3] = ["acme", "globex", "initech"];

/// Customers of each of them.
pub(super) const CUSTOMERS: u64 = 40;

/// Counters that clients raise.
pub(super) const COUNTERS: u64 = 8;

/// What is in the database, and is for no agent.
pub(super) const SECRETS: [&str; 2] = ["sk_live_9f27", "DE-77-SECRET"];

/// How e-mail addresses are seen: under the first policies, and under the second.
pub(super) const MASKS: [&str; 2] = ["***", "(hidden)"];

/// The server looks after its clients every second.
const ORPHANED: Duration = Duration::from_secs(3);

/// What both servers are told to ask.
const CONFIG: &str = r#"
policies = "p"
audit = "audit.jsonl"
[grants]
hosts = ["127.0.0.1:PORT"]
files = ["state.key"]
[approvals]
state = "STATE"
secret_file = "state.key"
[http]
share_tokens = true
requests_per_minute = 1000000
certificate = "cert.pem"
key = "key.pem"
[connections.shop]
url = "URL"
writable = true
acknowledge_superuser = true
"#;

pub(super) struct Fleet {
    pub(super) database: PostgresServer,
    name: String,
    authority: Authority,
    /// What clients trust, whichever certificate is in use.
    pub(super) trusted: Arc<ClientConfig>,
    pub(super) machines: [Machine; 2],
    /// Access tokens of the tenants' agents.
    pub(super) tokens: Vec<String>,
}

/// A computer of the fleet, on which a server runs or does not.
pub(super) struct Machine {
    pub(super) desk: Desk,
    server: Mutex<Option<Server>>,
    /// What servers that have ended told.
    logs: Mutex<String>,
}

impl Machine {
    /// Where the server is, if there is one.
    pub(super) fn address(&self) -> Option<String> {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        server.as_ref().map(|server| server.address.clone())
    }

    pub(super) fn start(&self) {
        let started = Server::start(&self.desk);
        *self.server.lock().unwrap() = Some(started);
    }

    /// Ends the server: by asking it to, or without.
    pub(super) fn end(&self, is_asked: bool) {
        let mut ended = self.server.lock().unwrap().take().unwrap();
        if is_asked {
            assert_eq!(ended.terminate(), Some(0), "{}", ended.log.lock().unwrap());
        }
        let log = Arc::clone(&ended.log);
        drop(ended);
        *self.logs.lock().unwrap() += &log.lock().unwrap();
    }

    pub(super) fn hang_up(&self) {
        self.server.lock().unwrap().as_ref().unwrap().hang_up();
    }
}

impl Fleet {
    pub(super) fn start() -> Self {
        // What was acknowledged is on disk, whatever kills the server.
        let database = PostgresServer::start_with(&["synchronous_commit=on"]).unwrap();
        let name = database.fresh_database("shop").unwrap();
        let state = database.fresh_database("state").unwrap();
        database.load(&name, &script()).unwrap().clean().unwrap();
        let authority = authority();
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from(authority.der().to_vec()))
            .unwrap();
        let trusted = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let config = CONFIG
            .replace("PORT", &database.port().to_string())
            .replace("STATE", &database.url(&state))
            .replace("URL", &database.url(&name));
        let machines = [0, 1].map(|_| Machine {
            desk: Desk::empty(),
            server: Mutex::new(None),
            logs: Mutex::new(String::new()),
        });
        for machine in &machines {
            let desk = &machine.desk;
            desk.write("palisade.toml", &config);
            desk.policy(&policies(MASKS[0]));
            desk.write(
                "p/principals.cedarschema",
                "entity Agent { tenant: String }; entity User; entity Role;",
            );
            desk.write("p/entities.json", entities());
            desk.write("state.key", "the same secret on each of the machines\n");
            let private = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(desk.path("state.key"), private).unwrap();
        }
        let mut fleet = Self {
            database,
            name,
            authority,
            trusted: Arc::new(trusted),
            machines,
            tokens: Vec::new(),
        };
        fleet.replace_certificates();
        fleet.tokens = TENANTS
            .iter()
            .map(|tenant| {
                let principal = format!("Agent::\"{tenant}\"");
                make_token(&fleet.machines[0].desk, tenant, &principal, &[])
            })
            .collect();
        for machine in &fleet.machines {
            machine.start();
        }
        fleet
    }

    /// New certificates of the same authority.
    pub(super) fn replace_certificates(&self) {
        for machine in &self.machines {
            let (certificate, key) = signed(&self.authority, "localhost");
            machine.desk.write("cert.pem", certificate);
            machine.desk.write("key.pem", key);
        }
    }

    /// Policies under which an e-mail address is seen so.
    pub(super) fn replace_policies(&self, mask: &str) {
        for machine in &self.machines {
            machine.desk.policy(&policies(mask));
        }
    }

    /// Each change that was acknowledged happened once, and each that was refused not at all. Of those without an answer either may be.
    pub(super) fn check_counters(&self, tally: &Tally) {
        let sum = "SELECT sum(n) FROM counters";
        let sum: u64 = self
            .database
            .query(&self.name, sum)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let (least, most) = (tally.changed, tally.changed + tally.perhaps_changed);
        assert!((least..=most).contains(&sum), "{sum}: {tally}");
    }

    /// Ends the servers, which leave nothing running.
    pub(super) fn stop(&self) {
        for machine in &self.machines {
            machine.end(true);
        }
        let active = "SELECT string_agg(query, '; ') FROM pg_stat_activity \
                      WHERE state = 'active' AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
        let began = Instant::now();
        loop {
            let left = self.database.query("postgres", active).unwrap();
            if left.trim().is_empty() {
                return;
            }
            assert!(began.elapsed() < ORPHANED, "{left}");
            sleep(Duration::from_millis(100));
        }
    }

    /// The logs are whole, and have every call that was answered.
    pub(super) fn check_records(&self, tally: &Tally) {
        let mut recorded = BTreeSet::new();
        for machine in &self.machines {
            let verify = ["audit", "verify", "audit.jsonl"];
            machine.desk.run(&verify).expect_exit(0);
            for record in machine.desk.records("audit.jsonl") {
                let text = record.to_string();
                for secret in SECRETS {
                    assert!(!text.contains(secret), "{text}");
                }
                if let Some(trace) = record["trace"].as_str() {
                    recorded.insert(trace.to_owned());
                }
            }
        }
        let lost: Vec<_> = tally.traces.difference(&recorded).collect();
        assert!(
            lost.is_empty(),
            "{} of {}: {lost:?}",
            lost.len(),
            tally.traces.len()
        );
    }

    /// What the servers told.
    pub(super) fn tell_logs(&self) -> String {
        let logs = self.machines.iter().map(|machine| {
            let server = machine
                .server
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let now = server
                .as_ref()
                .map(|server| server.log.lock().unwrap().clone());
            format!(
                "{}{}",
                machine.logs.lock().unwrap(),
                now.unwrap_or_default()
            )
        });
        logs.collect::<Vec<_>>().join("\n")
    }

    /// Nothing of the database, and no token, was told to the operators' logs.
    pub(super) fn check_logs(&self) {
        for machine in &self.machines {
            let logs = machine.logs.lock().unwrap();
            let tokens = self.tokens.iter().map(String::as_str);
            for secret in SECRETS.into_iter().chain(tokens) {
                assert!(!logs.contains(secret), "{logs}");
            }
            assert!(!logs.contains("panicked"), "{logs}");
        }
    }
}

fn script() -> String {
    let mut out = "CREATE TABLE customers (id integer PRIMARY KEY, tenant text NOT NULL, name text, email text, national_id text); \
                   CREATE TABLE counters (id integer PRIMARY KEY, n integer NOT NULL); \
                   CREATE TABLE credentials (service text, api_key text); \
                   CREATE TABLE numbers (n integer); INSERT INTO numbers SELECT generate_series(1, 3000);\n"
        .to_owned();
    let [key, national] = SECRETS;
    out += &format!("INSERT INTO credentials VALUES ('mail', '{key}');\n");
    out += &format!("INSERT INTO counters SELECT i, 0 FROM generate_series(1, {COUNTERS}) i;\n");
    for (number, tenant) in TENANTS.iter().enumerate() {
        let first = u64::try_from(number).unwrap() * CUSTOMERS + 1;
        let last = first + CUSTOMERS - 1;
        out += &format!(
            "INSERT INTO customers SELECT i, '{tenant}', '{tenant} customer ' || i, '{tenant}' || i || '@example.com', \
             '{national}' || i FROM generate_series({first}, {last}) i;\n"
        );
    }
    out
}

fn policies(mask: &str) -> String {
    format!(
        r#"
permit (principal, action in [Action::"select", Action::"read", Action::"call"], resource);
@id("own.customers")
permit (principal, action == Action::"see", resource is row::public::customers)
when {{ principal has tenant && resource.tenant == principal.tenant }};
permit (principal, action == Action::"see", resource is row::public::numbers);
@id("counters")
permit (principal, action in [Action::"see", Action::"change", Action::"add"], resource is row::public::counters);
permit (principal, action == Action::"update", resource == Table::"public.counters");
permit (principal, action == Action::"write", resource == Column::"public.counters.n");
@id("mask.email") @mask("fixed({mask})")
forbid (principal, action == Action::"read_plain", resource == Column::"public.customers.email");
@id("no.national-id")
forbid (principal, action in Action::"read", resource == Column::"public.customers.national_id");
@id("no.credentials")
forbid (principal, action == Action::"select", resource == Table::"public.credentials");
"#
    )
}

fn entities() -> String {
    let agents: Vec<_> = TENANTS
        .iter()
        .map(|tenant| {
            json!({"uid": {"type": "Agent", "id": tenant}, "attrs": {"tenant": tenant}, "parents": []})
        })
        .collect();
    json!(agents).to_string()
}
