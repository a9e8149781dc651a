//! The pool with sessions that are numbers: who gets one, and what becomes of it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::{
    future::pending,
    ops::ControlFlow,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use palisade::{
    catalog::Change,
    guard::{BackendError, BackendErrorKind, Cancel},
};
use tokio::runtime::Handle;

use crate::{Changes, Connector, Ended, Failed, Pool, PoolError, PoolSize, Statement, commit};

/// Long beside what a test does, short beside what a person waits.
const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(20);

/// What is asked of the connector, and what it answers.
#[derive(Default)]
struct Server {
    made: u32,
    seen: Vec<String>,
    is_gone: bool,
    is_dirty: bool,
    /// Whether it cleans up by itself, as it was told.
    is_cleaning: bool,
    is_silent: bool,
    /// Sessions whose server has fallen behind.
    late: Vec<u32>,
}

#[derive(Clone, Default)]
struct Numbers(Arc<Mutex<Server>>);

impl Numbers {
    fn with<T>(&self, look: impl FnOnce(&mut Server) -> T) -> T {
        look(&mut self.0.lock().unwrap())
    }

    fn see(&self, what: &str, session: u32) {
        self.with(|server| server.seen.push(format!("{what} {session}")));
    }

    fn seen(&self) -> Vec<String> {
        self.with(|server| server.seen.clone())
    }

    fn pool(&self, connections: usize, waiting: usize) -> Pool<Self> {
        let size = PoolSize {
            connections,
            waiting,
        };
        Pool::new(self.clone(), size, Handle::current())
    }
}

impl Connector for Numbers {
    type Session = u32;
    type Error = &'static str;

    async fn connect(&self, _: &Handle) -> Result<u32, &'static str> {
        self.with(|server| {
            server.made += 1;
            Ok(server.made)
        })
    }

    fn is_usable(&self, _: &u32) -> bool {
        self.with(|server| !server.is_gone)
    }

    async fn may_stay(&self, session: &mut u32) -> bool {
        self.with(|server| !server.late.contains(session))
    }

    async fn clean(&self, session: &mut u32) -> bool {
        self.see("clean", *session);
        self.with(|server| !server.is_dirty)
    }

    fn is_cleaning(&self, _: &u32) -> bool {
        self.with(|server| server.is_cleaning)
    }

    async fn end(&self, session: u32) -> bool {
        self.see("end", session);
        self.with(|server| !server.is_silent)
    }

    fn close(&self, session: u32) {
        self.see("close", session);
    }
}

/// What a statement does, one entry for each time it is run.
struct Script {
    steps: Vec<Step>,
    ran_in: Vec<u32>,
    kept: u32,
}

#[derive(Clone, Copy)]
enum Step {
    Clean,
    Overrun,
    Lost,
    Fails,
    Hangs,
}

impl Script {
    fn from_steps(steps: &[Step]) -> Self {
        Self {
            steps: steps.iter().rev().copied().collect(),
            ran_in: Vec::new(),
            kept: 0,
        }
    }
}

impl Statement<u32> for Script {
    async fn attempt(&mut self, session: &mut u32) -> Result<Ended, Failed> {
        self.ran_in.push(*session);
        match self.steps.pop().unwrap() {
            Step::Clean => Ok(Ended::Clean),
            Step::Overrun => Ok(Ended::Overrun),
            Step::Lost => Err(Failed::Lost(BackendError::unavailable("gone"))),
            Step::Fails => Err(Failed::Running(BackendError::rejected("no"))),
            Step::Hangs => pending().await,
        }
    }

    async fn keep(&mut self, _: &mut u32) -> Result<(), BackendError> {
        self.kept += 1;
        Ok(())
    }
}

/// Runs `steps` in a pool whose session 1 was used before.
async fn run(numbers: &Numbers, steps: &[Step]) -> (Script, Option<BackendErrorKind>) {
    let pool = numbers.pool(1, 1);
    pool.lease().await.unwrap().give_back().await;
    numbers.with(|server| server.seen.clear());
    let mut script = Script::from_steps(steps);
    let result = pool.run(SHORT, &Cancel::default(), &mut script).await;
    (script, result.err().map(|error| error.kind))
}

#[tokio::test]
async fn a_statement_is_kept_or_not_and_its_session_used_again_or_not() {
    use BackendErrorKind::{Rejected, Timeout, Unavailable};
    for (steps, sessions, kept, error, seen) in [
        (&[Step::Clean][..], vec![1], 1, None, vec!["clean 1"]),
        (&[Step::Overrun], vec![1], 0, None, vec!["end 1"]),
        (&[Step::Fails], vec![1], 0, Some(Rejected), vec!["clean 1"]),
        (&[Step::Hangs], vec![1], 0, Some(Timeout), vec!["end 1"]),
        // The server was restarted: once more, in a new session.
        (
            &[Step::Lost, Step::Clean],
            vec![1, 2],
            1,
            None,
            vec!["end 1", "clean 2"],
        ),
        // And not a third time.
        (
            &[Step::Lost, Step::Lost],
            vec![1, 2],
            0,
            Some(Unavailable),
            vec!["end 1", "clean 2"],
        ),
    ] {
        let numbers = Numbers::default();
        let (script, found) = run(&numbers, steps).await;
        // What was dropped is ended in a task of its own.
        tokio::time::sleep(SHORT).await;
        assert_eq!(script.ran_in, sessions);
        assert_eq!((script.kept, found), (kept, error), "{sessions:?}");
        assert_eq!(numbers.seen(), seen);
    }
}

#[tokio::test]
async fn what_is_lost_in_a_new_session_is_not_run_again() {
    let numbers = Numbers::default();
    let mut script = Script::from_steps(&[Step::Lost]);
    let result = numbers
        .pool(2, 0)
        .run(LONG, &Cancel::default(), &mut script)
        .await;
    assert_eq!(result.unwrap_err().kind, BackendErrorKind::Unavailable);
    assert_eq!(script.ran_in, [1]);
}

#[tokio::test]
async fn what_is_lost_once_may_be_lost_in_every_idle_session() {
    let numbers = Numbers::default();
    let pool = numbers.pool(3, 0);
    let (one, two) = (pool.lease().await.unwrap(), pool.lease().await.unwrap());
    one.give_back().await;
    two.give_back().await;
    let mut script = Script::from_steps(&[Step::Lost, Step::Clean]);
    pool.run(LONG, &Cancel::default(), &mut script)
        .await
        .unwrap();
    assert_eq!(script.ran_in, [2, 3]);
    assert!(numbers.seen().contains(&"close 1".to_owned()));
}

#[tokio::test]
async fn where_a_server_is_silent_no_session_is_kept() {
    for is_silent in [false, true] {
        let numbers = Numbers::default();
        numbers.with(|server| server.is_silent = is_silent);
        let pool = numbers.pool(2, 0);
        let (one, two) = (pool.lease().await.unwrap(), pool.lease().await.unwrap());
        one.give_back().await;
        two.abandon().await;
        let mut next = pool.lease().await.unwrap();
        let expected = if is_silent { 3 } else { 1 };
        assert_eq!(*next.session().unwrap(), expected);
        assert_eq!(numbers.seen().contains(&"close 1".to_owned()), is_silent);
        next.give_back().await;
    }
}

#[tokio::test]
async fn a_session_whose_server_has_fallen_behind_is_closed() {
    let numbers = Numbers::default();
    let pool = numbers.pool(2, 0);
    let (one, two) = (pool.lease().await.unwrap(), pool.lease().await.unwrap());
    one.give_back().await;
    two.give_back().await;
    numbers.with(|server| server.late = vec![1, 2]);
    let mut lease = pool.lease().await.unwrap();
    assert_eq!((*lease.session().unwrap(), lease.is_reused()), (3, false));
    let closed: Vec<String> = numbers.seen().into_iter().skip(2).collect();
    assert_eq!(closed, ["close 2", "close 1"]);
    lease.give_back().await;
    // Nothing of the two is held any more.
    let both = (pool.lease().await.unwrap(), pool.lease().await.unwrap());
    assert!(
        matches!(pool.lease().await, Err(PoolError::Full)),
        "{both:?}"
    );
}

#[tokio::test]
async fn a_statement_that_is_cancelled_is_ended_soon() {
    for connections_held in [0, 1] {
        let numbers = Numbers::default();
        let pool = numbers.pool(1, 1);
        let held = match connections_held {
            0 => None,
            _ => Some(pool.lease().await.unwrap()),
        };
        let cancel = Cancel::default();
        let mut script = Script::from_steps(&[Step::Hangs]);
        let began = Instant::now();
        let (result, ()) = tokio::join!(pool.run(LONG, &cancel, &mut script), async {
            tokio::time::sleep(SHORT).await;
            cancel.set();
        });
        assert_eq!(result.unwrap_err().kind, BackendErrorKind::Cancelled);
        assert!(began.elapsed() < LONG / 2);
        assert_eq!(script.ran_in.len(), 1 - connections_held);
        drop(held);
    }
}

#[tokio::test]
async fn time_is_up_a_little_after_the_statements_own() {
    let numbers = Numbers::default();
    let pool = numbers.pool(1, 1);
    let began = Instant::now();
    let mut script = Script::from_steps(&[Step::Hangs]);
    let result = pool.run(SHORT, &Cancel::default(), &mut script).await;
    assert_eq!(result.unwrap_err().kind, BackendErrorKind::Timeout);
    // The server has its own clock, and a little more than the statement's time.
    assert!(began.elapsed() > SHORT * 3, "{:?}", began.elapsed());
    let _held = pool.lease().await.unwrap();
    let result = pool
        .run(
            SHORT,
            &Cancel::default(),
            &mut Script::from_steps(&[Step::Clean]),
        )
        .await;
    assert_eq!(result.unwrap_err().kind, BackendErrorKind::Busy);
}

#[tokio::test]
async fn a_look_has_its_time_too() {
    let numbers = Numbers::default();
    let pool = numbers.pool(1, 0);
    let seen = pool
        .look(LONG, async |session: &mut u32| Ok::<_, String>(*session))
        .await;
    assert_eq!(seen.unwrap(), 1);
    let failed = pool
        .look(LONG, async |_: &mut u32| Err::<(), _>("no"))
        .await;
    assert_eq!(failed.unwrap_err().kind, BackendErrorKind::Unavailable);
    let late = pool
        .look(SHORT, async |_: &mut u32| {
            pending::<Result<(), String>>().await
        })
        .await;
    assert_eq!(late.unwrap_err().kind, BackendErrorKind::Timeout);
    assert_eq!(numbers.seen(), ["clean 1", "clean 1", "end 1"]);
}

#[tokio::test]
async fn so_many_have_a_session_and_so_many_wait() {
    let numbers = Numbers::default();
    let pool = numbers.pool(2, 1);
    let held = [pool.lease().await.unwrap(), pool.lease().await.unwrap()];
    assert!(held.iter().all(|lease| !lease.is_reused()));
    let (third, fourth) = tokio::join!(tokio::time::timeout(SHORT, pool.lease()), async {
        tokio::task::yield_now().await;
        pool.lease().await.map(|_| ())
    });
    assert!(third.is_err(), "it waits");
    assert!(matches!(fourth, Err(PoolError::Full)));
    let [first, _second] = held;
    first.give_back().await;
    let mut again = pool.lease().await.unwrap();
    assert!(again.is_reused());
    assert_eq!(*again.session().unwrap(), 1);
    // None at all is one.
    assert!(Numbers::default().pool(0, 0).lease().await.is_ok());
}

#[tokio::test]
async fn sessions_that_are_gone_or_not_clean_are_not_given_out() {
    let numbers = Numbers::default();
    let pool = numbers.pool(1, 0);
    pool.lease().await.unwrap().give_back().await;
    numbers.with(|server| server.is_gone = true);
    let mut lease = pool.lease().await.unwrap();
    assert_eq!((*lease.session().unwrap(), lease.is_reused()), (2, false));
    numbers.with(|server| {
        server.is_gone = false;
        server.is_dirty = true;
    });
    lease.give_back().await;
    assert_eq!(numbers.seen(), ["clean 1", "clean 2", "end 2"]);
    assert_eq!(*pool.lease().await.unwrap().session().unwrap(), 3);
}

#[test]
fn a_change_of_too_many_rows_or_with_rows_not_taken_is_none() {
    let (writes, triggers) = (
        std::collections::BTreeSet::<(Change, String, String)>::new(),
        std::collections::BTreeSet::new(),
    );
    let changes = Changes {
        facts: &[],
        writes: &writes,
        triggers: &triggers,
        max_affected: 3,
        body: None,
    };
    for (all, taken, expected) in [
        (3, ControlFlow::Continue(()), Ok(Some(2))),
        (
            4,
            ControlFlow::Continue(()),
            Err(BackendErrorKind::AffectedRows),
        ),
        (3, ControlFlow::Break(()), Err(BackendErrorKind::NotTaken)),
    ] {
        let found = changes.complete(all, Some(2), taken);
        let found = found.map(|done| done.affected).map_err(|error| error.kind);
        assert_eq!(found, expected, "{all}");
    }
}

#[tokio::test]
async fn what_is_being_cleaned_keeps_nobody_waiting_and_is_asked_for_before_it_is_used() {
    let numbers = Numbers::default();
    numbers.with(|server| server.is_cleaning = true);
    let pool = numbers.pool(1, 0);
    pool.lease().await.unwrap().give_back().await;
    assert!(numbers.seen().is_empty());
    let lease = pool.lease().await.unwrap();
    assert!(lease.is_reused());
    lease.give_back().await;
    // The cleaning went wrong.
    numbers.with(|server| server.late.push(1));
    let mut lease = pool.lease().await.unwrap();
    assert_eq!(*lease.session().unwrap(), 2);
    assert_eq!(numbers.seen(), ["close 1"]);
}

#[tokio::test]
async fn a_commit_that_failed_is_unknown_unless_it_is_explained() {
    use BackendErrorKind::{Conflict, OutcomeUnknown};
    for (result, is_explained, expected) in [
        (Ok(()), false, None),
        (Err("no"), true, Some(Conflict)),
        (Err("no"), false, Some(OutcomeUnknown)),
    ] {
        let explain = |_: &&str| is_explained.then(|| BackendError::new(Conflict, "again"));
        let found = commit(async { result }, explain).await;
        assert_eq!(found.err().map(|error| error.kind), expected);
    }
}
