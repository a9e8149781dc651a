//! What is known at a moment: open files, and what the last check found.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use palisade::{
    error::Error,
    firewall::{AccessClass, Firewall},
    policy::PolicyProblem,
};

use crate::{lsp::documents::Documents, policies::Policies};

/// No check begins before the editor has been quiet for so long,
const QUIET: Duration = Duration::from_millis(150);

/// or has been busy for so long.
const BUSY: Duration = Duration::from_secs(1);

/// Policies that load, and what they make of every principal.
pub(super) struct LoadedPolicies {
    pub(super) firewall: Firewall,
    classes: OnceLock<Result<Vec<AccessClass>, String>>,
    /// Whether no policy is in it, since none has loaded yet.
    pub(super) is_bare: bool,
}

impl LoadedPolicies {
    pub(super) fn new(firewall: Firewall) -> Self {
        Self {
            firewall,
            classes: OnceLock::new(),
            is_bare: false,
        }
    }

    /// Without policies: what is known of tables, tags and entities alone.
    pub(super) fn without_policies(firewall: Firewall) -> Self {
        Self {
            firewall,
            classes: OnceLock::from(Err("the policies do not load".to_owned())),
            is_bare: true,
        }
    }

    /// Who may do what, worked out when it is first asked for.
    pub(super) fn classes(&self) -> Result<&[AccessClass], &str> {
        let classes = self.classes.get_or_init(|| {
            let known = self.firewall.known_principals();
            let classes = self.firewall.access_classes(&known);
            classes.map_err(|error: Error| error.to_string())
        });
        classes.as_deref().map_err(String::as_str)
    }
}

/// What a check found.
#[derive(Clone)]
pub(super) struct Analysis {
    /// The change that it saw.
    pub(super) generation: u64,
    /// The folder.
    pub(super) folder: PathBuf,
    /// The texts; none where the folder cannot be read.
    pub(super) policies: Option<Policies>,
    /// What is odd about them.
    pub(super) warnings: Vec<PolicyProblem>,
    /// These policies, or where they do not load the last ones that did; before any did, none.
    pub(super) loaded: Option<Arc<LoadedPolicies>>,
    /// Whether these policies load.
    pub(super) is_current: bool,
    /// What the editor had open.
    pub(super) documents: Documents,
    /// Of that, the files of tests, by name.
    pub(super) open_tests: BTreeMap<String, String>,
}

/// What all threads share.
#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// Open files, and the last check.
#[derive(Default)]
pub(super) struct State {
    pub(super) documents: Documents,
    /// Counts changes.
    pub(super) generation: u64,
    pub(super) analysis: Option<Arc<Analysis>>,
    /// Whether the editor has asked for lenses.
    shows_lenses: bool,
    /// Whether the server ends.
    ended: bool,
}

impl Shared {
    /// What is known now. A poisoned lock guards finished values; the panic was elsewhere.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes up a change, after which the folder is checked.
    pub(super) fn change(&self, how: impl FnOnce(&mut Documents)) {
        let mut state = self.lock();
        how(&mut state.documents);
        state.generation += 1;
        drop(state);
        self.changed.notify_all();
    }

    /// Ends the checks.
    pub(super) fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
    }

    /// Has whoever waits look again.
    pub(super) fn wake(&self) {
        self.changed.notify_all();
    }

    /// Takes up what a check found.
    pub(super) fn store(&self, analysis: Analysis) {
        self.lock().analysis = Some(Arc::new(analysis));
        self.changed.notify_all();
    }

    /// Whether no change came after this one.
    pub(super) fn is_newest(&self, generation: u64) -> bool {
        let state = self.lock();
        state.generation == generation && !state.ended
    }

    /// Remembers that the editor shows lenses.
    pub(super) fn note_lenses(&self) {
        self.lock().shows_lenses = true;
        self.changed.notify_all();
    }

    /// Waits for the check of a change after `seen`. None at the end.
    pub(super) fn wait_for_analysis(&self, seen: u64) -> Option<Arc<Analysis>> {
        let mut state = self.lock();
        loop {
            if state.ended {
                return None;
            }
            if let Some(analysis) = &state.analysis
                && analysis.generation > seen
            {
                return Some(Arc::clone(analysis));
            }
            state = self.wait(state, None);
        }
    }

    /// Waits until the editor asks for lenses; false once a change comes before.
    pub(super) fn wait_for_lenses(&self, generation: u64) -> bool {
        let mut state = self.lock();
        while !state.shows_lenses && state.generation == generation && !state.ended {
            state = self.wait(state, None);
        }
        state.generation == generation && !state.ended
    }

    /// What `find` finds, once it finds something; none once it is not wanted any more.
    pub(super) fn wait_until<T>(
        &self,
        find: impl Fn() -> Option<T>,
        is_wanted: impl Fn(&State) -> bool,
    ) -> Option<T> {
        let mut state = self.lock();
        loop {
            if let Some(found) = find() {
                return Some(found);
            }
            if state.ended || !is_wanted(&state) {
                return None;
            }
            state = self.wait(state, None);
        }
    }

    /// Waits for a change after `seen`, and until it is followed by quiet: its number, and the open files. None at the end.
    pub(super) fn wait_for_change(&self, seen: u64) -> Option<(u64, Documents)> {
        let mut state = self.lock();
        while state.generation == seen && !state.ended {
            state = self.wait(state, None);
        }
        let begun = Instant::now();
        let (mut generation, mut since) = (state.generation, begun);
        while !state.ended && since.elapsed() < QUIET && begun.elapsed() < BUSY {
            state = self.wait(state, Some(QUIET.saturating_sub(since.elapsed())));
            if state.generation != generation {
                (generation, since) = (state.generation, Instant::now());
            }
        }
        (!state.ended).then(|| (state.generation, state.documents.clone()))
    }

    /// Waits for the check of a change, as long as `is_wanted`.
    pub(super) fn wait_for_check(
        &self,
        generation: u64,
        is_wanted: impl Fn() -> bool,
    ) -> Option<Arc<Analysis>> {
        let mut state = self.lock();
        loop {
            if let Some(analysis) = &state.analysis
                && analysis.generation >= generation
            {
                return Some(Arc::clone(analysis));
            }
            if state.ended || !is_wanted() {
                return None;
            }
            state = self.wait(state, None);
        }
    }

    fn wait<'s>(
        &self,
        state: MutexGuard<'s, State>,
        limit: Option<Duration>,
    ) -> MutexGuard<'s, State> {
        match limit {
            None => (self.changed.wait(state)).unwrap_or_else(PoisonError::into_inner),
            Some(limit) => {
                let waited = self.changed.wait_timeout(state, limit);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }
}
