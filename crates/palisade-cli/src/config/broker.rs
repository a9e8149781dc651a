//! What the operator decides about the broker: `[broker]` of the configuration.

use std::{
    collections::BTreeMap,
    ops::{Range, RangeInclusive},
    path::{Path, PathBuf},
    time::Duration,
};

use palisade::session::Principal;
use serde::Deserialize;
use toml::Spanned;

use crate::{exit::Failure, principal_name};

/// `[broker]`
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Broker {
    /// The folder of its socket, secrets and passwords. Without it, `broker` beside the configuration.
    pub(crate) directory: Option<PathBuf>,
    /// Who asks, whatever connections say. Without it, whom each connection names.
    pub(crate) principal: Option<Spanned<String>>,
    /// The id of a group whose processes may connect too. Without it, only those of the broker's user may.
    pub(crate) group: Option<Spanned<u64>>,
    /// Connections at a time: 1 to 1000. Without it, 64.
    pub(crate) connections: Option<Spanned<u64>>,
    /// Minutes that a session lasts without a connection: 1 to 1440. Without it, 20.
    pub(crate) idle_minutes: Option<Spanned<u64>>,
    /// Seconds that statements may still run when the broker is asked to end: 2 to 600. Without it, 5. Then they are cancelled.
    pub(crate) drain_seconds: Option<Spanned<u64>>,
    /// Hours that a session lasts: 1 to 168. Without it, 24.
    pub(crate) session_hours: Option<Spanned<u64>>,
    /// Who asks by the ids of users, for processes that may connect.
    #[serde(default)]
    pub(crate) users: BTreeMap<String, BrokerPeer>,
    /// Who asks by the ids of groups, for processes that may connect. Of several groups of a process, its primary one counts, and then
    /// that with the lowest id.
    #[serde(default)]
    pub(crate) groups: BTreeMap<String, BrokerPeer>,
    /// Who asks by names that have a secret of their own.
    #[serde(default)]
    pub(crate) enrolments: BTreeMap<String, BrokerPeer>,
}

/// `[broker.users.UID]`, `[broker.groups.GID]` and `[broker.enrolments.NAME]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BrokerPeer {
    /// Who asks.
    pub(crate) principal: Spanned<String>,
}

/// What numbers can be.
const GROUPS: RangeInclusive<u64> = 0..=4_294_967_294;
const CONNECTIONS: RangeInclusive<u64> = 1..=1000;
const MINUTES: RangeInclusive<u64> = 1..=1440;
const SECONDS: RangeInclusive<u64> = 2..=600;
const HOURS: RangeInclusive<u64> = 1..=168;

/// The id that systems show in the place of one they cannot name.
const NO_ID: u32 = 65534;

/// The folder, beside the configuration.
const DIRECTORY: &str = "broker";

/// The same, read; paths are from the folder of the configuration.
#[derive(Debug, Clone)]
pub(crate) struct BrokerSetup {
    pub(crate) directory: PathBuf,
    pub(crate) principal: Option<Principal>,
    pub(crate) group: Option<u32>,
    pub(crate) connections: usize,
    pub(crate) idle: Duration,
    pub(crate) absolute: Duration,
    pub(crate) drain: Duration,
    pub(crate) users: BTreeMap<u32, Principal>,
    pub(crate) groups: BTreeMap<u32, Principal>,
    pub(crate) enrolments: BTreeMap<String, Principal>,
}

impl Broker {
    /// Reads it. `fault` says what is wrong at a place, and what to do.
    pub(crate) fn read(
        self,
        folder: &Path,
        fault: impl Fn(&str, Option<Range<usize>>, &str) -> Failure,
    ) -> Result<BrokerSetup, Failure> {
        let principal = |text: &Spanned<String>| {
            principal_name::parse(text.get_ref())
                .map_err(|error| fault(&error.to_string(), Some(text.span()), "name who asks"))
        };
        let number = |value: Option<Spanned<u64>>, key: &str, range: RangeInclusive<u64>| {
            let Some(value) = value else { return Ok(None) };
            if range.contains(value.get_ref()) {
                return Ok(Some(value.into_inner()));
            }
            let (least, most) = (range.start(), range.end());
            let help = format!("write a number from {least} to {most}");
            let message = format!("`{key}` cannot be {}", value.get_ref());
            Err(fault(&message, Some(value.span()), &help))
        };
        let by_id = |peers: &BTreeMap<String, BrokerPeer>, what: &str, option: &str| {
            let read = |(id, peer): (&String, &BrokerPeer)| {
                let span = || Some(peer.principal.span());
                let number: u32 = id.parse().map_err(|_| {
                    let help = format!("write its number, as `id {option} NAME` prints it");
                    fault(&format!("`{id}` is no id of a {what}"), span(), &help)
                })?;
                if number == NO_ID {
                    let message = format!(
                        "`{id}` is no {what} of its own: systems show it for each that they cannot name"
                    );
                    let help = format!("name another {what}, or an enrolment");
                    return Err(fault(&message, span(), &help));
                }
                Ok((number, principal(&peer.principal)?))
            };
            peers.iter().map(read).collect::<Result<_, Failure>>()
        };
        let users = by_id(&self.users, "user", "-u")?;
        let groups = by_id(&self.groups, "group", "-g")?;
        let mut enrolments = BTreeMap::new();
        for (name, peer) in &self.enrolments {
            let is_name = !name.is_empty()
                && name.len() <= 64
                && name
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
            if !is_name {
                let help = "write letters, digits, `-` and `_`, 64 at most";
                let message = format!("`{name}` is no name of an enrolment");
                return Err(fault(&message, Some(peer.principal.span()), help));
            }
            enrolments.insert(name.clone(), principal(&peer.principal)?);
        }
        if let Some(group) =
            (self.group.as_ref()).filter(|group| *group.get_ref() == u64::from(NO_ID))
        {
            let message = format!(
                "`group` cannot be {NO_ID}: systems show it for each that they cannot name"
            );
            return Err(fault(&message, Some(group.span()), "name another group"));
        }
        let group = number(self.group, "group", GROUPS)?;
        let connections = number(self.connections, "connections", CONNECTIONS)?;
        let minutes = number(self.idle_minutes, "idle_minutes", MINUTES)?.unwrap_or(20);
        let hours = number(self.session_hours, "session_hours", HOURS)?.unwrap_or(24);
        let seconds = number(self.drain_seconds, "drain_seconds", SECONDS)?.unwrap_or(5);
        Ok(BrokerSetup {
            directory: folder.join(self.directory.unwrap_or_else(|| PathBuf::from(DIRECTORY))),
            principal: self.principal.as_ref().map(principal).transpose()?,
            group: group.and_then(|group| u32::try_from(group).ok()),
            connections: connections
                .and_then(|count| usize::try_from(count).ok())
                .unwrap_or(64),
            idle: Duration::from_secs(60 * minutes),
            absolute: Duration::from_secs(3600 * hours),
            drain: Duration::from_secs(seconds),
            users,
            groups,
            enrolments,
        })
    }
}
