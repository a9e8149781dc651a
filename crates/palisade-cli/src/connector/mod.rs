//! `palisade doctor --mcp URL`: the way of a client that connects to a server over HTTP, from its first request without a token to
//! the place where it gets one; and which clients can go it.

mod address;
mod challenge;
mod clients;
mod fetch;
mod issuer;
mod report;
mod resource;

use serde::Serialize;

use crate::{
    args::Format,
    connector::{
        address::Address,
        clients::{Verdict, Way},
        fetch::Fetcher,
        issuer::Registration,
        resource::Resource,
    },
    exit::{Exit, Failure},
    stdout,
};

/// Walks the way, and prints what is found. A fault is exit code 1.
pub(crate) fn run(url: &str, format: Format) -> Result<Exit, Failure> {
    let address = Address::read(url).map_err(|why| {
        Failure::Usage(format!(
            "`{url}` {why}\n  help: write the address that clients are given, as `https://palisade.example.com/mcp`"
        ))
    })?;
    let found = walk(&address)?;
    let text = match format {
        Format::Json => {
            serde_json::to_string(&found).map_err(|error| Failure::Internal(error.to_string()))?
                + "\n"
        }
        Format::Text => report::describe(&found),
    };
    stdout::text(&text)?;
    Ok(match found.has_fault() {
        true => Exit::Refused,
        false => Exit::Permitted,
    })
}

/// How a step of the way went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// As clients need it.
    Ok,
    /// Some clients stop here.
    Note,
    /// Clients stop here.
    Fault,
}

/// A step of the way.
#[derive(Debug, Serialize)]
struct Check {
    check: &'static str,
    state: State,
    finding: String,
    remedy: Option<&'static str>,
}

/// The steps so far.
#[derive(Debug, Default)]
struct Checks(Vec<Check>);

impl Checks {
    fn pass(&mut self, check: &'static str, finding: impl Into<String>) {
        self.add(check, State::Ok, finding.into(), None);
    }

    fn note(&mut self, check: &'static str, finding: impl Into<String>, remedy: &'static str) {
        self.add(check, State::Note, finding.into(), Some(remedy));
    }

    fn fault(&mut self, check: &'static str, finding: impl Into<String>, remedy: &'static str) {
        self.add(check, State::Fault, finding.into(), Some(remedy));
    }

    fn add(
        &mut self,
        check: &'static str,
        state: State,
        finding: String,
        remedy: Option<&'static str>,
    ) {
        self.0.push(Check {
            check,
            state,
            finding,
            remedy,
        });
    }

    fn has_fault(&self) -> bool {
        self.0.iter().any(|check| check.state == State::Fault)
    }
}

/// What was found.
#[derive(Debug, Serialize)]
struct Finding<'a> {
    url: &'a str,
    checks: Vec<Check>,
    registration: Registration,
    clients: Vec<Verdict>,
    /// How far they get by themselves.
    #[serde(skip)]
    way: Way,
}

impl Finding<'_> {
    fn has_fault(&self) -> bool {
        self.checks.iter().any(|check| check.state == State::Fault)
    }
}

/// Goes the way.
fn walk(address: &Address) -> Result<Finding<'_>, Failure> {
    let fetcher = Fetcher::new(address.is_own());
    let mut checks = Checks::default();
    match address.is_encrypted() || address.is_own() {
        true => checks.pass(
            "address",
            "tokens go to it encrypted, or stay on this machine",
        ),
        false => checks.fault(
            "address",
            "tokens would go to it in plain text",
            "name a certificate under `[http]`, or put a proxy before the server that encrypts",
        ),
    }
    let answer = fetcher.ask_without_token(address.text()).map_err(|why| {
        Failure::Unavailable(format!(
            "`{}` cannot be reached: {why}\n  help: ask from where clients are, by the address that they are given",
            address.text()
        ))
    })?;
    let named = challenge::check(&answer, &mut checks);
    let resource = resource::find(&fetcher, address, named.as_deref(), &mut checks);
    let mut registration = Registration::default();
    let way = match (checks.has_fault(), &resource) {
        (true, _) => Way::Faulty,
        (false, Some(_)) => Way::Open,
        (false, None) => Way::OwnTokens,
    };
    if let Some(Resource { issuers, scopes }) = resource {
        for (at, issuer) in issuers.iter().enumerate() {
            let found = issuer::check(&fetcher, issuer, &scopes, &mut checks);
            // Clients take the first.
            if at == 0 {
                registration = found;
            }
        }
    }
    // What gives the tokens may have a fault too.
    let way = match checks.has_fault() {
        true => Way::Faulty,
        false => way,
    };
    let clients = clients::judge_all(address, way, registration);
    Ok(Finding {
        way,
        url: address.text(),
        checks: checks.0,
        registration,
        clients,
    })
}
