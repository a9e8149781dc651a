//! Requests of the walk. No secret is sent, and no redirect followed: most clients do not follow one either.

use std::{fmt::Display, time::Duration};

use serde_json::{Map, Value};

use crate::connector::address::Address;

/// How long a document may take to come.
const PATIENCE: Duration = Duration::from_secs(5);

/// The largest document, in bytes.
const MAX_DOCUMENT: u64 = 256 * 1024;

/// The first request of a client of revision 2025-11-25.
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"palisade-doctor","version":"1"}}}"#;

/// Asks servers.
pub(super) struct Fetcher {
    agent: ureq::Agent,
    /// Whether it may ask in plain text on this machine: where the server itself is there.
    may_ask_itself: bool,
}

/// What a server answers to a client without a token.
pub(super) struct Answer {
    pub(super) status: u16,
    /// The values of `WWW-Authenticate`.
    pub(super) challenges: Vec<String>,
}

impl Fetcher {
    pub(super) fn new(may_ask_itself: bool) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            // What the environment says decides nothing.
            .proxy(None)
            .timeout_global(Some(PATIENCE))
            .user_agent(concat!("palisade-doctor/", env!("CARGO_PKG_VERSION")))
            .build();
        Self {
            agent: config.into(),
            may_ask_itself,
        }
    }

    /// The answer of the server at `url` to a first request.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn ask_without_token(&self, url: &str) -> Result<Answer, String> {
        let answer = self
            .agent
            .post(url)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .send(INITIALIZE)
            .map_err(|error| error.to_string())?;
        let challenges = answer.headers().get_all("www-authenticate");
        Ok(Answer {
            status: answer.status().as_u16(),
            challenges: challenges
                .iter()
                .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
                .collect(),
        })
    }

    /// The JSON object at `address`.
    ///
    /// # Errors
    /// Why there is none, as a sentence that names the address.
    pub(super) fn read_object(&self, address: &str) -> Result<Map<String, Value>, String> {
        let told = |why: &dyn Display| format!("{address}: {why}");
        let place = Address::read(address).map_err(|why| format!("`{address}` {why}"))?;
        let is_safe = place.is_encrypted() || (place.is_own() && self.may_ask_itself);
        if !is_safe {
            return Err(told(&"it is not encrypted, so that anybody could answer"));
        }
        let mut answer = self
            .agent
            .get(address)
            .header("accept", "application/json")
            .call()
            .map_err(|error| told(&error))?;
        let status = answer.status().as_u16();
        if (300..400).contains(&status) {
            return Err(told(&format!("it answers {status}, which sends elsewhere")));
        }
        if status != 200 {
            return Err(told(&format!("it answers {status}")));
        }
        let body = answer.body_mut().with_config().limit(MAX_DOCUMENT);
        let body = body.read_to_vec().map_err(|error| told(&error))?;
        match serde_json::from_slice(&body) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(_) | Err(_) => Err(told(&"what it answers is no JSON object")),
        }
    }
}

/// The texts under `key`.
pub(super) fn texts(object: &Map<String, Value>, key: &str) -> Option<Vec<String>> {
    let list = object.get(key)?.as_array()?;
    let texts = list.iter().map(|text| text.as_str().map(str::to_owned));
    texts.collect()
}

/// The text under `key`.
pub(super) fn text<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    object.get(key)?.as_str()
}
