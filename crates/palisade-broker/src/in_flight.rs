//! What a relay has to know of the lines that it copies: which requests wait for an answer, and how the client began.

use std::{borrow::Cow, collections::BTreeSet};

use serde::Deserialize;
use serde_json::{json, value::RawValue};

/// Requests that wait at a time. More are not read yet.
pub(crate) const WAITING: usize = 1024;

/// Bytes of the lines with which a client begins that are kept.
const BEGIN_BYTES: usize = 64 * 1024;

/// Requests that stay, and bytes of the line of each.
const STANDING: usize = 64;
const STANDING_BYTES: usize = 4 * 1024;

/// The methods of those.
const SUBSCRIBE: &str = "resources/subscribe";
const SET_LEVEL: &str = "logging/setLevel";

/// As much of a message as is looked at.
#[derive(Deserialize)]
struct Head<'l> {
    #[serde(borrow, default)]
    id: Option<&'l RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'l, str>>,
    #[serde(borrow, default)]
    params: Option<&'l RawValue>,
}

/// What a notification that gives up on a request says.
#[derive(Deserialize)]
struct Cancelled<'l> {
    #[serde(borrow, rename = "requestId")]
    request: &'l RawValue,
}

/// What a request about a resource says.
#[derive(Deserialize)]
struct OfResource {
    uri: String,
}

/// What a client asked for that stays for as long as the server: another server is asked for it anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Standing {
    method: &'static str,
    /// The resource, where it is of one.
    pub(crate) uri: Option<String>,
    params: Option<String>,
}

impl Standing {
    /// The line of the request, under an id that is not the client's, and that id as JSON.
    pub(crate) fn ask(&self, number: usize) -> (Vec<u8>, String) {
        let id = json!(format!("palisade-relay-{number}"));
        let params = self.params.as_deref();
        let params: serde_json::Value = params
            .and_then(|params| serde_json::from_str(params).ok())
            .unwrap_or_else(|| json!({}));
        let line = json!({"jsonrpc": "2.0", "id": id, "method": self.method, "params": params});
        (format!("{line}\n").into_bytes(), id.to_string())
    }
}

/// That a resource may be another than it was, for the client.
pub(crate) fn tell_updated(uri: &str) -> Vec<u8> {
    let method = "notifications/resources/updated";
    let line = json!({"jsonrpc": "2.0", "method": method, "params": {"uri": uri}});
    format!("{line}\n").into_bytes()
}

/// The requests that wait, and the client's first lines.
#[derive(Default)]
pub(crate) struct InFlight {
    waiting: BTreeSet<String>,
    /// The line of `initialize`, and its id.
    initialize: Option<(Vec<u8>, String)>,
    /// The line that says that it has the answer.
    initialized: Option<Vec<u8>>,
    standing: Vec<Standing>,
}

impl InFlight {
    /// Looks at a line of the client.
    pub(crate) fn see_request(&mut self, line: &[u8]) {
        let Ok(head) = serde_json::from_slice::<Head<'_>>(line) else {
            return;
        };
        match (head.method.as_deref(), head.id) {
            (Some(method), Some(id)) => {
                if method == "initialize" && line.len() <= BEGIN_BYTES {
                    self.initialize = Some((line.to_vec(), id.get().to_owned()));
                }
                self.see_standing(method, head.params, line.len());
                self.waiting.insert(id.get().to_owned());
            }
            (Some("notifications/initialized"), None) if line.len() <= BEGIN_BYTES => {
                self.initialized = Some(line.to_vec());
            }
            (Some("notifications/cancelled"), None) => {
                let params = head.params.map(RawValue::get).unwrap_or_default();
                if let Ok(cancelled) = serde_json::from_str::<Cancelled<'_>>(params) {
                    self.waiting.remove(cancelled.request.get());
                }
            }
            (Some(_) | None, _) => {}
        }
    }

    /// Looks at a request, of a line of `bytes`, for what stays.
    fn see_standing(&mut self, method: &str, params: Option<&RawValue>, bytes: usize) {
        let params = params.map(RawValue::get);
        let find_uri = || {
            let of: Option<OfResource> =
                params.and_then(|params| serde_json::from_str(params).ok());
            of.map(|of| of.uri)
        };
        let (method, uri, is_wanted) = match method {
            "resources/subscribe" => (SUBSCRIBE, find_uri(), true),
            "resources/unsubscribe" => (SUBSCRIBE, find_uri(), false),
            "logging/setLevel" => (SET_LEVEL, None, true),
            _ => return,
        };
        self.standing
            .retain(|one| one.method != method || one.uri != uri);
        if is_wanted && bytes <= STANDING_BYTES && self.standing.len() < STANDING {
            self.standing.push(Standing {
                method,
                uri,
                params: params.map(str::to_owned),
            });
        }
    }

    /// Looks at a line of the broker; the id of the request that it answers.
    pub(crate) fn see_answer(&mut self, line: &[u8]) -> Option<String> {
        let head: Head<'_> = serde_json::from_slice(line).ok()?;
        let id = head.id.filter(|_| head.method.is_none())?.get();
        self.waiting.remove(id);
        Some(id.to_owned())
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Answers to all that wait, who wait no more. A client that was not answered yet has to begin anew.
    pub(crate) fn give_up(&mut self) -> Vec<Vec<u8>> {
        if let Some((_, id)) = &self.initialize
            && self.waiting.contains(id)
        {
            self.initialize = None;
            self.initialized = None;
            self.standing.clear();
        }
        let waiting = std::mem::take(&mut self.waiting);
        waiting.iter().map(|id| answer_gone(id)).collect()
    }

    /// The lines by which another server is begun like the one before: the first with the id of its answer, and the second.
    pub(crate) fn begin(&self) -> Option<Beginning> {
        let (line, id) = self.initialize.clone()?;
        Some(Beginning {
            line,
            id,
            initialized: self.initialized.clone(),
            standing: self.standing.clone(),
        })
    }
}

/// How a client began.
pub(crate) struct Beginning {
    pub(crate) line: Vec<u8>,
    pub(crate) id: String,
    pub(crate) initialized: Option<Vec<u8>>,
    pub(crate) standing: Vec<Standing>,
}

/// The answer to a request of this line while no broker is there; none to what is no request.
pub(crate) fn answer_absent(line: &[u8]) -> Option<Vec<u8>> {
    let head: Head<'_> = serde_json::from_slice(line).ok()?;
    head.method?;
    Some(answer_gone(head.id?.get()))
}

/// That the broker went away. `id` is JSON.
fn answer_gone(id: &str) -> Vec<u8> {
    let id: serde_json::Value = serde_json::from_str(id).unwrap_or_default();
    let hint = "Ask again in a few seconds. Whether a change was made is not known: look before it is made again.";
    print_error(&json!({
        "jsonrpc": "2.0",
        "id": id,
        "error": {
            "code": -32001,
            "message": format!("The connection to the broker ended before the answer. {hint}"),
            "data": {"code": "broker.gone", "retryable": true, "remediation_hint": hint},
        },
    }))
}

/// That a line was too long to be handed on.
pub(crate) fn answer_too_long(most: usize) -> Vec<u8> {
    print_error(&json!({
        "jsonrpc": "2.0",
        "id": null,
        "error": {"code": -32600, "message": format!("The message has more than {most} bytes.")},
    }))
}

fn print_error(error: &serde_json::Value) -> Vec<u8> {
    format!("{error}\n").into_bytes()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn what_waits_is_answered_once() {
        let mut flight = InFlight::default();
        flight.see_request(br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#);
        assert_eq!(flight.see_answer(br#"{"id":1,"result":{}}"#).unwrap(), "1");
        flight.see_request(br#"{"method":"notifications/initialized"}"#);
        flight.see_request(br#"{"id":"a","method":"tools/call","params":{"id":7}}"#);
        flight.see_request(br#"{"id":2,"method":"tools/call"}"#);
        flight.see_request(br#"{"id":3,"method":"tools/call"}"#);
        flight.see_request(br#"{"method":"notifications/cancelled","params":{"requestId":3}}"#);
        // A request of the server's, and the client's answer to it.
        assert_eq!(flight.see_answer(br#"{"id":2,"method":"ping"}"#), None);
        flight.see_request(br#"{"id":2,"result":{}}"#);
        flight.see_request(b"nonsense");
        assert_eq!(flight.len(), 2);
        let answers = flight.give_up();
        let told: Vec<serde_json::Value> = (answers.iter())
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect();
        let ids: Vec<_> = told.iter().map(|one| one["id"].clone()).collect();
        assert_eq!(ids, [json!("a"), json!(2)]);
        assert!(
            told.iter()
                .all(|one| one["error"]["data"]["retryable"] == true)
        );
        assert!(flight.give_up().is_empty());
        let Beginning {
            line: _,
            id,
            initialized,
            standing,
        } = flight.begin().unwrap();
        assert!(id == "1" && initialized.is_some() && standing.is_empty());
        flight.see_request(br#"{"id":9,"method":"initialize"}"#);
        assert_eq!(flight.give_up().len(), 1);
        assert!(flight.begin().is_none());
    }

    #[test]
    fn what_stays_is_asked_for_anew() {
        let mut flight = InFlight::default();
        flight.see_request(br#"{"id":1,"method":"initialize","params":{}}"#);
        flight.see_answer(br#"{"id":1,"result":{}}"#);
        for (id, method, params) in [
            (2, "resources/subscribe", json!({"uri": "a:b"})),
            (3, "resources/subscribe", json!({"uri": "a:c"})),
            (4, "resources/subscribe", json!({"uri": "a:b"})),
            (5, "resources/unsubscribe", json!({"uri": "a:c"})),
            (6, "logging/setLevel", json!({"level": "info"})),
            (7, "logging/setLevel", json!({"level": "debug"})),
            (8, "resources/read", json!({"uri": "a:d"})),
        ] {
            let line = json!({"id": id, "method": method, "params": params}).to_string();
            flight.see_request(line.as_bytes());
        }
        let standing = flight.begin().unwrap().standing;
        let asked: Vec<serde_json::Value> = (standing.iter().enumerate())
            .map(|(number, one)| serde_json::from_slice(&one.ask(number).0).unwrap())
            .collect();
        assert_eq!(
            asked,
            [
                json!({"jsonrpc": "2.0", "id": "palisade-relay-0", "method": "resources/subscribe", "params": {"uri": "a:b"}}),
                json!({"jsonrpc": "2.0", "id": "palisade-relay-1", "method": "logging/setLevel", "params": {"level": "debug"}}),
            ]
        );
        assert_eq!(standing[0].ask(0).1, "\"palisade-relay-0\"");
    }
}
