//! Who is at the other end of a connection, and who asks by it.

use std::collections::BTreeMap;

use palisade::session::Principal;

use crate::{layout::Secrets, secret::are_equal};

/// The user that systems show in the place of one they cannot name. By number it may be anybody.
pub(crate) const NOBODY: u32 = 65534;

/// Who asks by a connection, for the server: the broker puts it with each request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Who asks, if the configuration names somebody for this user or enrolment.
    pub principal: Option<Principal>,
    /// The enrolment whose secret was brought.
    pub enrolment: Option<String>,
    /// The user of the process.
    pub user: u32,
    /// The id of its session, once it has begun.
    pub session: Option<String>,
}

/// A name with a secret of its own.
#[derive(Debug, Clone)]
pub struct Enrolment {
    /// The name.
    pub name: String,
    /// Who asks with it.
    pub principal: Principal,
}

/// Who may connect, and who asks then. An enrolment goes before a user.
#[derive(Debug, Clone, Default)]
pub struct PeerRules {
    /// The group whose processes may connect beside those of the broker's user.
    pub group: Option<u32>,
    /// Who asks by users.
    pub users: BTreeMap<u32, Principal>,
    /// Names with secrets of their own.
    pub enrolments: Vec<Enrolment>,
    /// Who asks otherwise; without it, whom a connection of the configuration names.
    pub principal: Option<Principal>,
}

/// What a secret opens.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// MCP, for this peer.
    Serve(Peer),
    /// What the operator asks.
    Admin,
}

impl PeerRules {
    /// Whether a process of this user and group may connect to a broker of the user `own`.
    pub(crate) fn admit(&self, own: u32, user: u32, group: u32) -> bool {
        user != NOBODY && (user == own || self.group == Some(group))
    }

    /// What `token` opens for a process of `user`. Every secret is compared, whichever it is.
    pub(crate) fn open(&self, secrets: &Secrets, token: &str, user: u32) -> Option<Opened> {
        let mut opened = None;
        if are_equal(&secrets.admin, token) {
            opened = Some(Opened::Admin);
        }
        if are_equal(&secrets.token, token) {
            let principal = self.users.get(&user).or(self.principal.as_ref());
            opened = Some(Opened::Serve(Peer {
                principal: principal.cloned(),
                enrolment: None,
                user,
                session: None,
            }));
        }
        for (enrolment, secret) in self.enrolments.iter().zip(&secrets.enrolments) {
            if are_equal(secret, token) {
                opened = Some(Opened::Serve(Peer {
                    principal: Some(enrolment.principal.clone()),
                    enrolment: Some(enrolment.name.clone()),
                    user,
                    session: None,
                }));
            }
        }
        opened
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn only_the_own_user_and_a_configured_group_connect() {
        let closed = PeerRules::default();
        assert!(closed.admit(1000, 1000, 5));
        assert!(!closed.admit(1000, 1001, 1000));
        // Root is another user too.
        assert!(!closed.admit(1000, 0, 0));
        let open = PeerRules {
            group: Some(7),
            ..PeerRules::default()
        };
        assert!(open.admit(1000, 1001, 7) && !open.admit(1000, 1001, 8));
        assert!(!open.admit(1000, NOBODY, 7));
        assert!(!open.admit(NOBODY, NOBODY, 7));
    }

    #[test]
    fn the_secret_says_who_asks() {
        let principal = |name: &str| Principal::new("Agent", name);
        let rules = PeerRules {
            group: None,
            users: BTreeMap::from([(5, principal("five"))]),
            enrolments: vec![Enrolment {
                name: "ci".to_owned(),
                principal: principal("ci"),
            }],
            principal: Some(principal("all")),
        };
        let secrets = Secrets {
            token: "t".to_owned(),
            admin: "a".to_owned(),
            enrolments: vec!["e".to_owned()],
        };
        let who = |token: &str, user| match rules.open(&secrets, token, user)? {
            Opened::Serve(peer) => peer.principal.map(|principal| principal.id().to_owned()),
            Opened::Admin => Some("operator".to_owned()),
        };
        assert_eq!(who("t", 1).unwrap(), "all");
        assert_eq!(who("t", 5).unwrap(), "five");
        assert_eq!(who("e", 5).unwrap(), "ci");
        assert_eq!(who("a", 5).unwrap(), "operator");
        for wrong in ["", "x", "tt", "T"] {
            assert_eq!(rules.open(&secrets, wrong, 1), None);
        }
    }
}
