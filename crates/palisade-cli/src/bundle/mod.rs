//! Policies that come in a signed bundle: pulled again and again, checked whole, and kept for the next start.
//!
//! | bundle | is |
//! |---|---|
//! | newest | what was pulled last and is sound; connections load it |
//! | kept | what some connection took up last; on the disk |
//! | previous | what all of them had before, for one that the kept one does not fit; on the disk |
//!
//! No bundle is older than the kept one, unless the operator names its serial number.

#[cfg_attr(not(feature = "bundles"), path = "../absent/bundle_fetch.rs")]
mod fetch;
mod kept;
#[cfg(feature = "bundles")]
mod registry;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use palisade::policy::PolicyOrigin;
use palisade_host::PolicyBundle;
use tokio::{
    sync::watch::{Receiver, Sender, channel},
    task::spawn_blocking,
};

pub(crate) use kept::read_file;

use crate::{
    bundle::{fetch::Fetcher, kept::Kept},
    config::bundle::{BundleSetup, BundleSource},
    exit::Failure,
    policies::Policies,
    watch::{Hangups, every},
};

/// What a source has.
enum Fetched {
    /// What it had.
    Same,
    /// Bytes, and a mark by which it knows them again.
    New {
        bytes: Vec<u8>,
        mark: Option<String>,
    },
}

/// A bundle that is sound.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pulled {
    pub(crate) origin: PolicyOrigin,
    pub(crate) signers: Vec<String>,
    pub(crate) policies: Policies,
    bytes: Vec<u8>,
}

impl Pulled {
    /// Reads what must be a bundle of `setup`.
    fn read(bytes: Vec<u8>, setup: &BundleSetup) -> Result<Self, String> {
        let bundle = PolicyBundle::open(&bytes, &setup.keys).map_err(|error| error.to_string())?;
        let PolicyBundle {
            origin,
            signers,
            files: _,
            sources,
        } = bundle;
        if origin.name != setup.name.to_string() {
            return Err(format!(
                "its name is `{}`, and `name` says `{}`",
                origin.name, setup.name
            ));
        }
        Ok(Self {
            origin,
            signers,
            policies: Policies::bundled(sources),
            bytes,
        })
    }
}

/// A source of bundles, for all connections that have it.
pub(crate) struct BundleFeed {
    setup: Arc<BundleSetup>,
    fetcher: Fetcher,
    kept: Kept,
    state: Mutex<State>,
    /// Told when the newest is another.
    news: Sender<u64>,
}

struct State {
    newest: Arc<Pulled>,
    kept: Option<Arc<Pulled>>,
    previous: Option<Arc<Pulled>>,
    /// What connections have taken up.
    running: BTreeMap<String, PolicyOrigin>,
    /// By which the source knows what it had, and what was found of that.
    mark: Option<(String, Verdict)>,
    /// What became of the last try.
    verdict: Verdict,
    /// When what the source had was sound last; before that, when it was asked first.
    pulled: Instant,
    failures: u64,
}

/// Whether something is sound, or why it is not.
type Verdict = Result<(), String>;

/// All of this process.
static FEEDS: Mutex<Vec<Arc<BundleFeed>>> = Mutex::new(Vec::new());

fn lock_feeds() -> MutexGuard<'static, Vec<Arc<BundleFeed>>> {
    FEEDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The feed of `setup`, with policies in it. The first who asks waits for its source.
pub(crate) fn find(setup: &Arc<BundleSetup>) -> Result<Arc<BundleFeed>, Failure> {
    let mut feeds = lock_feeds();
    if let Some(feed) = feeds.iter().find(|feed| feed.setup == *setup) {
        return Ok(Arc::clone(feed));
    }
    let feed = Arc::new(BundleFeed::open(setup)?);
    feeds.push(Arc::clone(&feed));
    Ok(feed)
}

/// Seconds since the source that answered longest ago had a sound bundle; none where there are no bundles.
pub(crate) fn find_age() -> Option<u64> {
    let feeds = lock_feeds();
    let ages = feeds.iter().map(|feed| feed.lock().pulled.elapsed());
    ages.max().map(|age| age.as_secs())
}

/// The serial number of the newest bundle; none where there is not one source.
pub(crate) fn find_serial() -> Option<u64> {
    match lock_feeds().as_slice() {
        [only] => Some(only.lock().newest.origin.serial),
        [] | [_, _, ..] => None,
    }
}

/// How often a source had no sound bundle; none where there are no bundles.
pub(crate) fn count_failures() -> Option<u64> {
    let feeds = lock_feeds();
    let counts = feeds.iter().map(|feed| feed.lock().failures);
    counts.reduce(u64::saturating_add)
}

/// Checks what can be without a network: a file, and what is kept.
pub(crate) fn check_offline(setup: &Arc<BundleSetup>) -> Result<(), Failure> {
    let BundleSource::File(path) = &setup.source else {
        // That its authorities and credentials can be read.
        let fetcher = Fetcher::new(setup)?;
        return fetcher.check();
    };
    let read = read_file(path).and_then(|bytes| Pulled::read(bytes, setup));
    read.map(drop).map_err(|why| unusable(setup, &why))
}

fn unusable(setup: &BundleSetup, why: &str) -> Failure {
    Failure::Configuration(format!(
        "error: the bundle `{}` cannot be used: {why}\n  help: `palisade policy bundle verify FILE --key KEY` says what is in one; `palisade policy bundle pack DIR --key FILE` makes another",
        setup.source
    ))
}

impl BundleFeed {
    fn open(setup: &Arc<BundleSetup>) -> Result<Self, Failure> {
        let fetcher = Fetcher::new(setup)?;
        let store = Kept::find(setup);
        let (kept, previous) = store.read_both(setup);
        let fetched = fetch(setup, &fetcher, None);
        let judged = fetched.and_then(|fetched| match fetched {
            Fetched::Same => Err("it has what was never asked for".to_owned()),
            Fetched::New { bytes, mark } => {
                let pulled = judge(bytes, setup, kept.as_deref())?;
                Ok((pulled, mark.map(|mark| (mark, Ok(())))))
            }
        });
        let (newest, mark, verdict) = match (judged, &kept) {
            (Ok((pulled, mark)), _) => (Arc::new(pulled), mark, Ok(())),
            (Err(why), Some(kept)) => {
                tracing::error!(
                    "the policies cannot be pulled from `{}`; the bundle that was kept decides, {} {}: {why}",
                    setup.source,
                    kept.origin.name,
                    kept.origin.serial
                );
                (Arc::clone(kept), None, Err(why))
            }
            (Err(why), None) => {
                return Err(Failure::Configuration(format!(
                    "error: there are no policies: the bundle `{}` cannot be used: {why}\n  help: none was kept at `{}` either; see to it that the address answers with a bundle that one of `public_keys` signed, or put one there by hand",
                    setup.source,
                    store.path().display()
                )));
            }
        };
        if let (Some(number), Some(kept)) = (setup.rollback_to, &kept)
            && kept.origin.serial != number
        {
            tracing::warn!(
                "`rollback_to = {number}` lets an old bundle take the place of a newer one; take it out as soon as it has"
            );
        }
        let failures = u64::from(verdict.is_err());
        Ok(Self {
            setup: Arc::clone(setup),
            fetcher,
            kept: store,
            state: Mutex::new(State {
                newest,
                kept,
                previous,
                running: BTreeMap::new(),
                mark,
                verdict,
                pulled: Instant::now(),
                failures,
            }),
            news: channel(0).0,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bundle by which connections decide, if it fits their databases.
    pub(crate) fn newest(&self) -> Arc<Pulled> {
        Arc::clone(&self.lock().newest)
    }

    /// What a connection that begins can decide by, the best first.
    pub(crate) fn list_candidates(&self) -> Vec<Arc<Pulled>> {
        let state = self.lock();
        let older = [&state.kept, &state.previous].into_iter().flatten();
        let mut all = vec![Arc::clone(&state.newest)];
        for one in older {
            if !all.iter().any(|other| other.origin == one.origin) {
                all.push(Arc::clone(one));
            }
        }
        all
    }

    /// How long it is until the source is asked again.
    pub(crate) fn period(&self) -> Duration {
        self.setup.every
    }

    /// Tells when the newest is another.
    pub(crate) fn subscribe(&self) -> Receiver<u64> {
        self.news.subscribe()
    }

    /// Where it is from, for the operator.
    pub(crate) fn describe(&self) -> String {
        let state = self.lock();
        let origin = &state.newest.origin;
        let by = state.newest.signers.join(", ");
        let from = match &state.verdict {
            Ok(()) => format!("as `{}` has it", self.setup.source),
            Err(why) => format!(
                "as it was kept, since `{}` has none: {why}",
                self.setup.source
            ),
        };
        format!("the policies are the bundle {origin}, signed by the key {by}, {from}")
    }

    /// Makes the folder of what is kept.
    pub(crate) fn prepare(&self) -> Result<(), Failure> {
        self.kept.prepare()
    }

    /// Takes down that a connection decides by `pulled`, which is kept then.
    pub(crate) fn note_running(&self, connection: &str, pulled: &Arc<Pulled>) {
        let mut state = self.lock();
        let is_kept = (state.kept.as_ref()).is_some_and(|kept| kept.origin == pulled.origin);
        if !is_kept {
            let before = state.kept.clone().filter(|kept| {
                let mut running = state.running.values();
                running.all(|other| *other == kept.origin || *other == pulled.origin)
            });
            if let Some(before) = before {
                if let Err(why) = self.kept.write_previous(&before.bytes) {
                    tracing::error!("the bundle of before is not kept: {why}");
                }
                state.previous = Some(before);
            }
            let is_newer = |origin: &PolicyOrigin| {
                origin.serial > pulled.origin.serial
                    && self.setup.rollback_to != Some(pulled.origin.serial)
            };
            if let Err(why) = self.kept.write(&pulled.bytes, &self.setup, is_newer) {
                tracing::error!(
                    "the bundle is not kept, so that the next start needs its address: {why}"
                );
            }
            state.kept = Some(Arc::clone(pulled));
        }
        state
            .running
            .insert(connection.to_owned(), pulled.origin.clone());
    }

    /// Asks the source. A sound bundle is the newest from then on. It blocks, for a bounded time.
    fn pull(&self) {
        let known = self.lock().mark.clone();
        let mark = known.as_ref().map(|(mark, _)| mark.as_str());
        let fetched = fetch(&self.setup, &self.fetcher, mark);
        let mut state = self.lock();
        let (verdict, news) = match fetched {
            Err(why) => (Err(why), None),
            // Nothing else is found of the same.
            Ok(Fetched::Same) => match known {
                Some((_, found)) => (found, None),
                None => (Err("it has what was never asked for".to_owned()), None),
            },
            Ok(Fetched::New { bytes, mark }) => {
                let (found, news) = match judge(bytes, &self.setup, state.kept.as_deref()) {
                    Err(why) => (Err(why), None),
                    Ok(pulled) if pulled.origin == state.newest.origin => (Ok(()), None),
                    Ok(pulled) => (Ok(()), Some(pulled)),
                };
                state.mark = mark.map(|mark| (mark, found.clone()));
                (found, news)
            }
        };
        match &verdict {
            Ok(()) => {
                if state.verdict.is_err() {
                    tracing::info!("policies are pulled again from `{}`", self.setup.source);
                }
                state.pulled = Instant::now();
            }
            Err(why) => {
                state.failures = state.failures.saturating_add(1);
                // Once is enough, however long it lasts.
                if state.verdict.as_ref() != Err(why) {
                    tracing::error!(
                        "the policies cannot be pulled from `{}`; those in force stay: {why}",
                        self.setup.source
                    );
                }
            }
        }
        state.verdict = verdict;
        if let Some(pulled) = news {
            let PolicyOrigin {
                name,
                serial,
                digest,
            } = &pulled.origin;
            let signers = pulled.signers.join(", ");
            tracing::info!(bundle = name, serial, digest, signers, "policies pulled");
            state.newest = Arc::new(pulled);
            drop(state);
            self.news.send_modify(|news| *news = news.wrapping_add(1));
        }
    }
}

fn fetch(setup: &BundleSetup, fetcher: &Fetcher, mark: Option<&str>) -> Result<Fetched, String> {
    match &setup.source {
        BundleSource::File(path) => read_file(path).map(|bytes| Fetched::New { bytes, mark: None }),
        BundleSource::Address(_) | BundleSource::Registry(_) => fetcher.fetch(mark),
    }
}

/// Reads what a source has, and refuses what is older than what is kept.
fn judge(bytes: Vec<u8>, setup: &BundleSetup, kept: Option<&Pulled>) -> Result<Pulled, String> {
    let pulled = Pulled::read(bytes, setup)?;
    let Some(PolicyOrigin { serial, digest, .. }) = kept.map(|kept| &kept.origin) else {
        return Ok(pulled);
    };
    let number = pulled.origin.serial;
    if number < *serial && setup.rollback_to != Some(number) {
        return Err(format!(
            "its serial number {number} is older than {serial}, which was in force; pack the policies anew with a newer number, or write `rollback_to = {number}`"
        ));
    }
    if number == *serial && pulled.origin.digest != *digest {
        return Err(format!(
            "another bundle has its serial number {number}; pack the policies anew with a newer number"
        ));
    }
    Ok(pulled)
}

/// Asks the source each period, and at once on a hangup signal. Runs for ever.
pub(crate) async fn watch(feed: Arc<BundleFeed>) {
    let mut ticks = every(feed.setup.every);
    let mut hangups = Hangups::new();
    // The first is at once, when it has just been asked.
    ticks.tick().await;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = hangups.next() => {}
        }
        let job = Arc::clone(&feed);
        // A fault in it is in the log.
        let _ = spawn_blocking(move || job.pull()).await;
    }
}

/// All feeds that there are.
pub(crate) fn list() -> Vec<Arc<BundleFeed>> {
    lock_feeds().clone()
}
