//! The clients that are known: whether each can go the way, or what to set.

use serde::Serialize;

use crate::connector::{address::Address, issuer::Registration};

/// A client, as its makers describe it.
struct Client {
    name: &'static str,
    /// Whether its requests come from its makers' machines.
    is_hosted: bool,
    /// Whether it becomes known by a metadata document.
    has_document: bool,
    /// Whether it becomes known dynamically.
    is_dynamic: bool,
    /// What to set where it is registered by hand.
    by_hand: &'static str,
    /// How it takes an access token, if it does.
    token: Option<&'static str>,
}

/// What makers of clients say of them, as of autumn 2026. Of what is not said, the worse is taken.
const CLIENTS: [Client; 7] = [
    Client {
        name: "Claude",
        is_hosted: true,
        has_document: false,
        is_dynamic: true,
        by_hand: "register a client with the redirect https://claude.ai/api/mcp/auth_callback; write its id and secret under the connector's advanced settings",
        token: None,
    },
    Client {
        name: "ChatGPT",
        is_hosted: true,
        has_document: true,
        is_dynamic: true,
        by_hand: "register a client with the redirect that its dialog shows; choose a predefined client there",
        token: None,
    },
    Client {
        name: "Claude Code",
        is_hosted: false,
        has_document: false,
        is_dynamic: true,
        by_hand: "register a client with the redirect http://localhost:PORT/callback; name it by --client-id and --callback-port",
        token: Some("claude mcp add --transport http --header"),
    },
    Client {
        name: "Cursor",
        is_hosted: false,
        has_document: false,
        is_dynamic: true,
        by_hand: "register a client with the redirect cursor://anysphere.cursor-mcp/oauth/callback; write `auth.CLIENT_ID` in mcp.json",
        token: Some("`headers` in mcp.json"),
    },
    Client {
        name: "VS Code",
        is_hosted: false,
        has_document: true,
        is_dynamic: true,
        by_hand: "register a client with the redirects http://127.0.0.1:33418 and https://vscode.dev/redirect; it asks for the id",
        token: Some("`headers` in mcp.json"),
    },
    Client {
        name: "Codex",
        is_hosted: false,
        has_document: true,
        is_dynamic: true,
        by_hand: "give it an access token instead: `bearer_token_env_var` in config.toml",
        token: Some("`bearer_token_env_var` in config.toml"),
    },
    Client {
        name: "Gemini CLI",
        is_hosted: false,
        has_document: false,
        is_dynamic: true,
        by_hand: "register a client with the redirect http://localhost:7777/oauth/callback; write `oauth.clientId` in settings.json",
        token: Some("`headers` in settings.json"),
    },
];

/// What is to be expected of a client.
#[derive(Debug, Serialize)]
pub(super) struct Verdict {
    pub(super) client: &'static str,
    /// Whether it connects as things are.
    pub(super) works: bool,
    /// How it does, or what to set.
    pub(super) how: String,
}

/// How far clients get without a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// To the place where they get one.
    Open,
    /// To a fault.
    Faulty,
    /// Nowhere: the server takes tokens of its own alone.
    OwnTokens,
}

/// What is to be expected of each client, on this way and where clients become known so.
pub(super) fn judge_all(address: &Address, way: Way, registration: Registration) -> Vec<Verdict> {
    CLIENTS
        .iter()
        .map(|client| {
            let (works, how) = judge(client, address, way, registration);
            Verdict {
                client: client.name,
                works,
                how,
            }
        })
        .collect()
}

fn judge(
    client: &Client,
    address: &Address,
    way: Way,
    registration: Registration,
) -> (bool, String) {
    if client.is_hosted && !(address.is_encrypted() && address.may_be_public()) {
        let how = "its requests come from its makers' machines: give the server an `https` address that they reach";
        return (false, how.to_owned());
    }
    let how = match (way, client.token) {
        (Way::Open, _) => None,
        (Way::Faulty, Some(place)) => Some(format!(
            "mend the faults, or give it an access token: {place}"
        )),
        (Way::Faulty, None) => Some("mend the faults".to_owned()),
        (Way::OwnTokens, Some(place)) => Some(format!("give it an access token: {place}")),
        (Way::OwnTokens, None) => {
            Some("it takes no access token: configure `[http.oauth]`".to_owned())
        }
    };
    if let Some(how) = how {
        return (false, how);
    }
    // A client that becomes known by itself has no secret.
    if registration.metadata_document && client.has_document && registration.without_secret {
        return (true, "becomes known by its metadata document".to_owned());
    }
    if registration.dynamic && client.is_dynamic {
        return (true, "becomes known dynamically".to_owned());
    }
    (false, client.by_hand.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn names(address: &str, way: Way, registration: Registration) -> Vec<&'static str> {
        let address = Address::read(address).unwrap();
        let all = judge_all(&address, way, registration);
        let working = all.iter().filter(|verdict| verdict.works);
        working.map(|verdict| verdict.client).collect()
    }

    #[test]
    fn a_client_works_where_it_becomes_known() {
        let (all, none) = (
            Registration {
                metadata_document: true,
                dynamic: true,
                without_secret: true,
            },
            Registration::default(),
        );
        let public = "https://palisade.example.com/mcp";
        assert_eq!(names(public, Way::Open, all).len(), CLIENTS.len());
        assert!(names(public, Way::Open, none).is_empty());
        assert!(names(public, Way::Faulty, all).is_empty());
        let document = Registration {
            dynamic: false,
            ..all
        };
        assert_eq!(
            names(public, Way::Open, document),
            ["ChatGPT", "VS Code", "Codex"]
        );
        // Machines elsewhere do not reach this one.
        let own = names("http://127.0.0.1:8080/mcp", Way::Open, all);
        assert_eq!(
            own,
            ["Claude Code", "Cursor", "VS Code", "Codex", "Gemini CLI"]
        );
    }
}
