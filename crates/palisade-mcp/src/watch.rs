//! What clients are told of by themselves: other tools, other resources, and resources that say something else.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use palisade::firewall::Firewall;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::{
    server::{LOOK, SESSION_LOOK},
    tool_set::ToolSet,
};

/// Resources that a client may watch at once.
pub(crate) const MAX_WATCHED: usize = 100;

/// How often resources are read again, at most, where policies look at the time, or something is written through the firewall.
pub(crate) const TIMED_LOOK: Duration = Duration::from_secs(2);

/// At most so much of the time is spent on that: a part in so many.
const TIMED_SHARE: u32 = 20;

/// What tells one text from another.
pub(crate) type Fingerprint = [u8; 32];

/// The fingerprint of `text`.
pub(crate) fn fingerprint(text: &str) -> Fingerprint {
    Sha256::digest(text).into()
}

/// The fingerprint of what a resource says. The words around rows are others each time, and say nothing of them.
pub(crate) fn fingerprint_answer(answer: &Value) -> Fingerprint {
    let mut answer = answer.clone();
    drop_frames(&mut answer);
    fingerprint(&answer.to_string())
}

fn drop_frames(answer: &mut Value) {
    if let Value::Object(entries) = answer {
        for frame in ["before_rows", "rows_end"] {
            entries.remove(frame);
        }
        // Rows have no frames in them, whatever their columns are called.
        let parts = entries.iter_mut().filter(|(key, _)| *key != "rows");
        parts.for_each(|(_, part)| drop_frames(part));
    }
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

    /// Whether nothing is watched.
    pub(crate) fn is_empty(&self) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.is_empty()
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

/// When a client is told of news. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hearing {
    /// Whether somebody tells it already.
    is_told: Arc<AtomicBool>,
    /// Of a session: whether its client can be told now.
    is_heard: Option<Arc<AtomicBool>>,
}

impl Hearing {
    /// Of a session, whose client can be told while `is_heard` holds.
    pub(crate) fn of_session(is_heard: Arc<AtomicBool>) -> Self {
        Self {
            is_told: Arc::default(),
            is_heard: Some(is_heard),
        }
    }

    /// Whether it is the first time that somebody begins to tell it.
    pub(crate) fn begin(&self) -> bool {
        !self.is_told.swap(true, Ordering::Relaxed)
    }

    /// Whether the client can be told now.
    pub(crate) fn is_open(&self) -> bool {
        let is_heard = self.is_heard.as_ref();
        is_heard.is_none_or(|is_heard| is_heard.load(Ordering::Relaxed))
    }

    /// How often it is looked for news.
    pub(crate) fn pace(&self) -> Duration {
        match self.is_heard {
            None => LOOK,
            Some(_) => SESSION_LOOK,
        }
    }
}

/// What a client was told last.
pub(crate) struct Seen {
    /// What the tools are declared from. As long as it is the same, they are.
    pub(crate) outline: String,
    /// The tools, as they are listed.
    pub(crate) tools: Fingerprint,
    /// The tools that prompts name.
    pub(crate) set: ToolSet,
    /// The tables that are listed as resources.
    pub(crate) tables: Option<Fingerprint>,
    /// By what resources were decided.
    pub(crate) firewalls: Vec<Arc<Firewall>>,
    /// What was kept of changes, labels and receipts. Nothing else changes what resources say, the time aside.
    pub(crate) kept: Vec<Option<u64>>,
    /// When that was asked last: it is where somebody watches, and no oftener than resources are read again.
    pub(crate) asked: Instant,
    /// When they were read last, and how long that took.
    pub(crate) read: (Instant, Duration),
}

impl Seen {
    /// Whether resources may say something else by `now`, and where this of changes, labels and receipts is `kept`. Both are remembered.
    pub(crate) fn may_differ(&mut self, now: Vec<Arc<Firewall>>, kept: Vec<Option<u64>>) -> bool {
        let same = |(one, other): (&Arc<Firewall>, &Arc<Firewall>)| Arc::ptr_eq(one, other);
        let is_same =
            self.firewalls.len() == now.len() && self.firewalls.iter().zip(&now).all(same);
        let looks_at_time = now.iter().any(|one| one.policies().looks_at_time());
        let (read, took) = self.read;
        let pause = TIMED_LOOK.max(took.saturating_mul(TIMED_SHARE));
        let is_time = read.elapsed() >= pause;
        self.firewalls = now;
        let may_differ = !is_same || (is_time && (looks_at_time || self.kept != kept));
        if may_differ {
            // Before that, what was written meanwhile is news still.
            self.kept = kept;
        }
        may_differ
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
