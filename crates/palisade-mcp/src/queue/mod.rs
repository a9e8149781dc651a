//! Who may run next, where more is asked for than runs at once.
//!
//! The rule. Of the [`FULL`] places, one caller holds [`SHARE`] at most and one principal [`SHARE_OF_PRINCIPAL`], so
//! that no principal takes every place. A free place goes to the principal that holds the fewest, among equals to the
//! principal that was served longest ago. Within a principal the same rule chooses the caller; within a caller the
//! first call is taken.
//!
//! Beside them stand [`QUICK`] places for what may be tried: a statement that only waits is begun there with [`TRIAL`] of time, the
//! newest of its caller first, one of each caller at a time. What ends within that has not waited behind what is slow. What does not goes back into
//! the queue, for a full place. Whoever cannot be stopped there in time (deciding cannot) no longer counts as quick: the place is given
//! out again, and the caller tries no more until that one has ended.
//!
//! A statement waits to the deadline of its request, and the wait is part of it. How many wait, and how much
//! memory they take, is bounded by caller and in all.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::oneshot,
    time::{Instant, sleep, timeout_at},
};

/// Statements that run at once with all their time.
pub(crate) const FULL: usize = 6;
/// Those of one caller.
pub(crate) const SHARE: usize = 4;
/// Those of all callers of one principal.
pub(crate) const SHARE_OF_PRINCIPAL: usize = 5;
/// Statements that are tried at once.
pub(crate) const QUICK: usize = 2;
/// Trials that may be overdue before no more are begun.
const MOST_OVERDUE: usize = 8;
/// What a trial may take.
pub(crate) const TRIAL: Duration = Duration::from_millis(200);
/// When a trial that has not ended counts as one no more.
const OVERDUE: Duration = Duration::from_millis(300);

/// Calls that wait, in all and of one caller.
const MAX_WAITING: usize = 1024;
const MAX_WAITING_OF_ONE: usize = 256;
/// Bytes of calls that wait, in all and of one caller.
const MAX_BYTES: usize = 64 << 20;
const MAX_BYTES_OF_ONE: usize = 16 << 20;

/// After how long somebody may come again: at least and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(30));

/// Who asks, as far as the server itself knows; what clients say of themselves is no part of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Caller {
    pub(crate) principal: String,
    /// The authenticated client, if there is one.
    pub(crate) client: Option<String>,
    /// The number of the connection with the client, where it lasts.
    pub(crate) door: u64,
}

/// What is asked for.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) caller: Caller,
    /// Whether it may be begun, stopped and begun again.
    pub(crate) may_be_tried: bool,
    /// What it takes while it waits.
    pub(crate) bytes: usize,
}

/// What a place is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// All the time that the request has left.
    Full,
    /// [`TRIAL`].
    Trial,
}

/// There is no place, nor room to wait for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Busy {
    /// When there may be one, by what statements took lately.
    pub(crate) retry_after: Duration,
}

/// The rule without clock and threads: who waits, who runs, who is next.
#[derive(Debug, Default)]
struct Schedule {
    /// By number, so the oldest first.
    waiting: BTreeMap<u64, Ask>,
    running: BTreeMap<u64, (Caller, Held)>,
    /// When each principal and each caller was served last, while any of theirs waits or runs.
    served: BTreeMap<Caller, u64>,
    next: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    Full,
    Trial,
    /// A trial that was to have ended.
    Overdue,
}

impl Schedule {
    /// Puts `ask` into the queue; its number.
    fn enter(&mut self, ask: Ask) -> Option<u64> {
        let theirs = || self.waiting.values().filter(|a| a.caller == ask.caller);
        let bytes: usize = self.waiting.values().map(|a| a.bytes).sum();
        let of_one: usize = theirs().map(|a| a.bytes).sum();
        if self.waiting.len() >= MAX_WAITING
            || theirs().count() >= MAX_WAITING_OF_ONE
            || bytes.saturating_add(ask.bytes) > MAX_BYTES
            || of_one.saturating_add(ask.bytes) > MAX_BYTES_OF_ONE
        {
            return None;
        }
        let number = self.number();
        self.waiting.insert(number, ask);
        Some(number)
    }

    /// Gives the next place, if there is one and somebody for it.
    fn give(&mut self) -> Option<(u64, Kind)> {
        let (number, kind) = self
            .next_full()
            .map(|number| (number, Kind::Full))
            .or_else(|| Some((self.next_trial()?, Kind::Trial)))?;
        let ask = self.waiting.remove(&number)?;
        let now = self.number();
        self.served.insert(ask.caller.clone(), now);
        let held = match kind {
            Kind::Full => Held::Full,
            Kind::Trial => Held::Trial,
        };
        self.running.insert(number, (ask.caller, held));
        Some((number, kind))
    }

    fn next_full(&self) -> Option<u64> {
        if self.count(|_, held| held == Held::Full) >= FULL {
            return None;
        }
        let may = |ask: &Ask| {
            let of_caller = |other: &Caller, held| *other == ask.caller && held == Held::Full;
            let of_principal = |other: &Caller, held| {
                other.principal == ask.caller.principal && held == Held::Full
            };
            self.count(of_caller) < SHARE && self.count(of_principal) < SHARE_OF_PRINCIPAL
        };
        self.first(may, |number| number)
    }

    fn next_trial(&self) -> Option<u64> {
        if self.count(|_, held| held == Held::Trial) >= QUICK
            || self.count(|_, held| held == Held::Overdue) >= MOST_OVERDUE
        {
            return None;
        }
        let may = |ask: &Ask| {
            ask.may_be_tried
                && self.count(|caller, held| *caller == ask.caller && held != Held::Full) == 0
        };
        self.first(may, |number| u64::MAX - number)
    }

    /// The one whose turn it is, among those that may.
    fn first(&self, may: impl Fn(&Ask) -> bool, order: impl Fn(u64) -> u64) -> Option<u64> {
        // Everything but the order is the same for all that one caller asks.
        let mut ranks = BTreeMap::new();
        self.waiting
            .iter()
            .filter_map(|(number, ask)| {
                let rank = ranks.entry((&ask.caller, ask.may_be_tried));
                let rank = *rank.or_insert_with(|| may(ask).then(|| self.rank(&ask.caller)));
                Some((rank?, order(*number), *number))
            })
            .min()
            .map(|(_, _, number)| number)
    }

    /// How much a caller has had: that of its principal first.
    fn rank(&self, caller: &Caller) -> (usize, u64, usize, u64) {
        let of_principal = |other: &Caller| other.principal == caller.principal;
        let served = self.served.iter().filter(|(other, _)| of_principal(other));
        (
            self.count(|other, _| of_principal(other)),
            served.map(|(_, at)| *at).max().unwrap_or_default(),
            self.count(|other, _| other == caller),
            self.served.get(caller).copied().unwrap_or_default(),
        )
    }

    fn count(&self, is_meant: impl Fn(&Caller, Held) -> bool) -> usize {
        let running = self.running.values();
        running
            .filter(|(caller, held)| is_meant(caller, *held))
            .count()
    }

    /// A trial was to have ended by now.
    fn mark_overdue(&mut self, number: u64) {
        if let Some((_, held)) = self.running.get_mut(&number)
            && *held == Held::Trial
        {
            *held = Held::Overdue;
        }
    }

    /// It has ended, or waits no more.
    fn leave(&mut self, number: u64) {
        self.waiting.remove(&number);
        self.running.remove(&number);
        let (waiting, running) = (&self.waiting, &self.running);
        if waiting.is_empty() && running.is_empty() {
            self.served.clear();
        } else if self.served.len() > MAX_WAITING {
            self.served.retain(|caller, _| {
                waiting.values().any(|ask| ask.caller == *caller)
                    || running.values().any(|(other, _)| other == caller)
            });
        }
    }

    fn number(&mut self) -> u64 {
        self.next = self.next.saturating_add(1);
        self.next
    }
}

/// The queue of one database. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Queue {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    schedule: Schedule,
    /// Those who wait are told here.
    told: BTreeMap<u64, oneshot::Sender<Place>>,
    /// What statements take, the later ones weighing more.
    usual: Duration,
}

/// Held while something runs.
#[derive(Debug)]
pub(crate) struct Place {
    kind: Kind,
    number: u64,
    began: Instant,
    queue: Queue,
}

impl Place {
    /// What it is good for.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let took = self.began.elapsed();
        let mut state = self.queue.lock();
        state.usual = (state.usual * 7 + took) / 8;
        self.queue.leave(state, self.number);
    }
}

/// Leaves the queue if the caller has stopped waiting.
struct Waiting<'a> {
    queue: &'a Queue,
    number: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        // Without an entry there, a place was given, and goes back by itself.
        if state.told.remove(&self.number).is_some() {
            self.queue.leave(state, self.number);
        }
    }
}

impl Queue {
    /// How many run now, and how many wait.
    pub(crate) fn count(&self) -> (usize, usize) {
        let state = self.lock();
        let schedule = &state.schedule;
        (schedule.running.len(), schedule.waiting.len())
    }

    /// A place for `ask`, after a wait to `deadline` at most.
    ///
    /// # Errors
    /// If too many wait already, or there was no place in time.
    pub(crate) async fn place(&self, ask: Ask, deadline: Instant) -> Result<Place, Busy> {
        let (tell, told) = oneshot::channel();
        let number = {
            let mut state = self.lock();
            let Some(number) = state.schedule.enter(ask) else {
                return Err(state.busy());
            };
            state.told.insert(number, tell);
            self.give_out(state);
            number
        };
        let waiting = Waiting {
            queue: self,
            number,
        };
        let place = timeout_at(deadline, told).await;
        drop(waiting);
        match place {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) | Err(_) => Err(self.lock().busy()),
        }
    }

    fn leave(&self, mut state: MutexGuard<'_, State>, number: u64) {
        state.schedule.leave(number);
        self.give_out(state);
    }

    /// Gives out what places there are.
    fn give_out(&self, mut state: MutexGuard<'_, State>) {
        let mut given = Vec::new();
        while let Some((number, kind)) = state.schedule.give() {
            let place = Place {
                kind,
                number,
                began: Instant::now(),
                queue: self.clone(),
            };
            given.push((state.told.remove(&number), place));
        }
        // A place that no caller takes comes back here.
        drop(state);
        for (tell, place) in given {
            let (number, kind) = (place.number, place.kind);
            let is_taken = tell.is_some_and(|tell| tell.send(place).is_ok());
            if is_taken && kind == Kind::Trial {
                self.watch(number);
            }
        }
    }

    /// Gives the place out again when the trial is overdue.
    fn watch(&self, number: u64) {
        // Places are given back on threads that may know no runtime only after it has ended.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let queue = self.clone();
            runtime.spawn(async move {
                sleep(OVERDUE).await;
                let mut state = queue.lock();
                state.schedule.mark_overdue(number);
                queue.give_out(state);
            });
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn busy(&self) -> Busy {
        let rounds = self.schedule.waiting.len() / SHARE + 1;
        let rounds = u32::try_from(rounds).unwrap_or(u32::MAX);
        let (least, most) = RETRY;
        Busy {
            retry_after: self.usual.saturating_mul(rounds).clamp(least, most),
        }
    }
}

#[cfg(test)]
mod tests;
