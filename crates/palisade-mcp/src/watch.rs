//! What clients are told of by themselves: other tools, other resources, and resources that say something else.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use palisade::firewall::Firewall;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::tool_set::ToolSet;

/// Resources that a client may watch at once.
pub(crate) const MAX_WATCHED: usize = 100;

/// How often resources are read again where policies look at the time: nothing else says when they say something else.
const TIMED_LOOK: Duration = Duration::from_secs(2);

/// At most so much of the time is spent on that: a part in so many.
const TIMED_SHARE: u32 = 20;

/// What tells one text from another.
pub(crate) type Fingerprint = [u8; 32];

/// The fingerprint of `text`.
pub(crate) fn fingerprint(text: &str) -> Fingerprint {
    Sha256::digest(text).into()
}

/// The resources that a client watches, and what each said when it was last looked at. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watched(Arc<Mutex<BTreeMap<String, Fingerprint>>>);

impl Watched {
    /// Watches `uri`, which says what `seen` is of. Whether there was room.
    pub(crate) fn add(&self, uri: &str, seen: Fingerprint) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = all.len() < MAX_WATCHED || all.contains_key(uri);
        if has_room {
            all.insert(uri.to_owned(), seen);
        }
        has_room
    }

    /// Watches `uri` no longer.
    pub(crate) fn remove(&self, uri: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(uri);
    }

    /// The URIs of all.
    pub(crate) fn uris(&self) -> Vec<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.keys().cloned().collect()
    }

    /// Whether `uri` is watched and says something else than it did, if it says what `now` is of.
    pub(crate) fn has_changed(&self, uri: &str, now: Fingerprint) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = all.get_mut(uri);
        seen.is_some_and(|seen| std::mem::replace(seen, now) != now)
    }
}

/// What a client was told last.
pub(crate) struct Seen {
    /// The tools, as they are listed.
    pub(crate) tools: String,
    /// The tools that prompts name.
    pub(crate) set: ToolSet,
    /// The tables that are listed as resources.
    pub(crate) tables: Option<Fingerprint>,
    /// By what resources were decided. Nothing else changes what they say, the time aside.
    pub(crate) firewalls: Vec<Arc<Firewall>>,
    /// When they were read last, and how long that took.
    pub(crate) read: (Instant, Duration),
}

impl Seen {
    /// Whether resources may say something else by `now`, which is remembered.
    pub(crate) fn may_differ(&mut self, now: Vec<Arc<Firewall>>) -> bool {
        let same = |(one, other): (&Arc<Firewall>, &Arc<Firewall>)| Arc::ptr_eq(one, other);
        let is_same =
            self.firewalls.len() == now.len() && self.firewalls.iter().zip(&now).all(same);
        let looks_at_time = now.iter().any(|one| one.policies().looks_at_time());
        let (read, took) = self.read;
        let pause = TIMED_LOOK.max(took.saturating_mul(TIMED_SHARE));
        self.firewalls = now;
        !is_same || (looks_at_time && read.elapsed() >= pause)
    }
}

/// What a client is to be told.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// That there are other tools.
    pub(crate) tools: bool,
    /// That there are other prompts.
    pub(crate) prompts: bool,
    /// That there are other resources.
    pub(crate) resources: bool,
    /// The resources that say something else.
    pub(crate) updated: Vec<String>,
}
