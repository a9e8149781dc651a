//! Who is at the other end of a connection, and who asks by it.

use std::collections::BTreeMap;

use palisade::session::Principal;

use crate::{layout::Secrets, places::Owner, secret::are_equal};

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

/// Who may connect, and who asks then. An enrolment goes before a user, and a user before a group.
#[derive(Debug, Clone, Default)]
pub struct PeerRules {
    /// The group whose processes may connect beside those of the broker's user.
    pub group: Option<u32>,
    /// Who asks by users.
    pub users: BTreeMap<u32, Principal>,
    /// Who asks by groups. Of several, the process's primary one counts, and then the one with the lowest number.
    pub groups: BTreeMap<u32, Principal>,
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

/// The process at the other end of a connection, as the system tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) user: u32,
    /// Its primary group.
    pub(crate) group: u32,
    /// Groups of its user, where [rules ask](PeerRules::need_groups) for them.
    pub(crate) groups: Vec<u32>,
}

impl PeerRules {
    /// Whether it makes a difference to which groups a process's user belongs.
    pub(crate) fn need_groups(&self, own: u32, user: u32, group: u32) -> bool {
        let is_asked_by_group = !self.groups.is_empty() && !self.users.contains_key(&user);
        let is_admitted_by_group = user != own && self.group.is_some_and(|open| open != group);
        user != NOBODY && (is_asked_by_group || is_admitted_by_group)
    }

    /// Whether a process may connect to a broker of the user `own`.
    pub(crate) fn admit(&self, own: u32, process: &Process) -> bool {
        let Process {
            user,
            group,
            groups,
        } = process;
        let is_of_group = |open: u32| open == *group || groups.contains(&open);
        *user != NOBODY && (*user == own || self.group.is_some_and(is_of_group))
    }

    /// The group by which a process asks.
    fn find_group(&self, process: &Process) -> Option<u32> {
        let primary =
            std::iter::once(process.group).filter(|group| self.groups.contains_key(group));
        let others = self.groups.keys().copied();
        let others = others.filter(|group| process.groups.contains(group));
        primary.chain(others).next()
    }

    /// How many owners of connections it names.
    pub(crate) fn count_owners(&self) -> usize {
        self.users.len() + self.groups.len() + self.enrolments.len()
    }

    /// What `token` opens for a process, and whose the connection is. Every secret is compared, whichever it is.
    pub(crate) fn open(
        &self,
        secrets: &Secrets,
        token: &str,
        process: &Process,
    ) -> Option<(Opened, Owner)> {
        let mut opened = None;
        if are_equal(&secrets.admin, token) {
            opened = Some((Opened::Admin, Owner::Other));
        }
        if are_equal(&secrets.token, token) {
            let by_group = || {
                let group = self.find_group(process)?;
                Some((self.groups.get(&group)?, Owner::Group(group)))
            };
            let by_user = self.users.get(&process.user);
            let by_user = by_user.map(|principal| (principal, Owner::User(process.user)));
            let (principal, owner) = match by_user.or_else(by_group) {
                Some((principal, owner)) => (Some(principal), owner),
                None => (self.principal.as_ref(), Owner::Other),
            };
            let peer = Peer {
                principal: principal.cloned(),
                enrolment: None,
                user: process.user,
                session: None,
            };
            opened = Some((Opened::Serve(peer), owner));
        }
        for (enrolment, secret) in self.enrolments.iter().zip(&secrets.enrolments) {
            if are_equal(secret, token) {
                let peer = Peer {
                    principal: Some(enrolment.principal.clone()),
                    enrolment: Some(enrolment.name.clone()),
                    user: process.user,
                    session: None,
                };
                let owner = Owner::Enrolment(enrolment.name.clone());
                opened = Some((Opened::Serve(peer), owner));
            }
        }
        opened
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn process(user: u32, group: u32, groups: &[u32]) -> Process {
        Process {
            user,
            group,
            groups: groups.to_vec(),
        }
    }

    #[test]
    fn only_the_own_user_and_a_configured_group_connect() {
        let closed = PeerRules::default();
        let is_let_in = |rules: &PeerRules, user, group, groups: &[u32]| {
            rules.admit(1000, &process(user, group, groups))
        };
        assert!(is_let_in(&closed, 1000, 5, &[]));
        assert!(!is_let_in(&closed, 1001, 1000, &[1000]));
        // Root is another user too.
        assert!(!is_let_in(&closed, 0, 0, &[]));
        let open = PeerRules {
            group: Some(7),
            ..PeerRules::default()
        };
        assert!(is_let_in(&open, 1001, 7, &[]) && !is_let_in(&open, 1001, 8, &[]));
        // Agents have the group beside their own.
        assert!(is_let_in(&open, 1001, 1001, &[3, 7]) && !is_let_in(&open, 1001, 1001, &[3]));
        assert!(!is_let_in(&open, NOBODY, 7, &[7]));
        assert!(!open.admit(NOBODY, &process(NOBODY, 7, &[7])));
        // The database of users is asked where it decides.
        assert!(open.need_groups(1000, 1001, 8) && !open.need_groups(1000, 1001, 7));
        assert!(!open.need_groups(1000, 1000, 8) && !open.need_groups(1000, NOBODY, 8));
        assert!(!closed.need_groups(1000, 1001, 8));
    }

    #[test]
    fn the_secret_says_who_asks() {
        let principal = |name: &str| Principal::new("Agent", name);
        let rules = PeerRules {
            group: None,
            users: BTreeMap::from([(5, principal("five"))]),
            groups: BTreeMap::from([(70, principal("seventy")), (80, principal("eighty"))]),
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
        let who = |token: &str, process: Process| match rules.open(&secrets, token, &process)? {
            (Opened::Serve(peer), _) => peer.principal.map(|principal| principal.id().to_owned()),
            (Opened::Admin, _) => Some("operator".to_owned()),
        };
        assert_eq!(who("t", process(1, 1, &[])).unwrap(), "all");
        assert_eq!(who("t", process(5, 70, &[])).unwrap(), "five");
        assert_eq!(who("t", process(1, 80, &[70])).unwrap(), "eighty");
        assert_eq!(who("t", process(1, 1, &[80, 70])).unwrap(), "seventy");
        assert_eq!(who("e", process(5, 70, &[])).unwrap(), "ci");
        assert_eq!(who("a", process(5, 5, &[])).unwrap(), "operator");
        for wrong in ["", "x", "tt", "T"] {
            assert_eq!(rules.open(&secrets, wrong, &process(1, 1, &[])), None);
        }
        assert!(rules.need_groups(1, 1, 1) && !rules.need_groups(5, 5, 5));
    }
}
