#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use proptest::prelude::*;

use super::*;

fn caller(principal: u8, door: u64) -> Caller {
    Caller {
        principal: format!("Agent::\"{principal}\""),
        client: None,
        door,
    }
}

fn ask(caller: Caller, may_be_tried: bool) -> Ask {
    Ask {
        caller,
        may_be_tried,
        bytes: 100,
    }
}

/// Gives what places there are.
fn give_all(schedule: &mut Schedule) -> Vec<(u64, Kind)> {
    std::iter::from_fn(|| schedule.give()).collect()
}

#[test]
fn one_caller_takes_its_share_and_a_newcomer_does_not_wait() {
    let mut schedule = Schedule::default();
    for _ in 0..40 {
        schedule.enter(ask(caller(1, 1), false)).unwrap();
    }
    assert_eq!(give_all(&mut schedule).len(), SHARE);
    let newcomer = schedule.enter(ask(caller(1, 2), false)).unwrap();
    assert_eq!(give_all(&mut schedule), [(newcomer, Kind::Full)]);
}

#[test]
fn what_only_waits_is_tried_the_newest_first_and_one_at_a_time() {
    let mut schedule = Schedule::default();
    let numbers: Vec<_> = (0..10)
        .map(|_| schedule.enter(ask(caller(1, 1), true)).unwrap())
        .collect();
    let given = give_all(&mut schedule);
    let (trials, full): (Vec<(u64, Kind)>, Vec<_>) = given
        .into_iter()
        .partition(|(_, kind)| *kind == Kind::Trial);
    assert_eq!(full.len(), SHARE);
    assert_eq!(trials, [(numbers[9], Kind::Trial)]);
    // A trial that does not end in time keeps no other caller from one, and its caller from another.
    schedule.mark_overdue(numbers[9]);
    assert_eq!(give_all(&mut schedule), []);
    for door in 2..10 {
        schedule.enter(ask(caller(1, door), true)).unwrap();
    }
    let given = give_all(&mut schedule);
    assert_eq!(given.len(), SHARE_OF_PRINCIPAL - SHARE + QUICK);
    schedule.leave(numbers[9]);
    assert_eq!(give_all(&mut schedule), []);
}

#[test]
fn principals_come_before_their_clients() {
    let mut schedule = Schedule::default();
    let mut first = Vec::new();
    for door in 0..20 {
        first.push(schedule.enter(ask(caller(1, door), false)).unwrap());
    }
    let other = schedule.enter(ask(caller(2, 99), false)).unwrap();
    let running = give_all(&mut schedule);
    assert!(running.contains(&(other, Kind::Full)), "{running:?}");
    // Nor do all of them together take every place.
    let mut schedule = Schedule::default();
    for door in 0..20 {
        schedule.enter(ask(caller(1, door), false)).unwrap();
    }
    assert_eq!(give_all(&mut schedule).len(), SHARE_OF_PRINCIPAL);
    let late = schedule.enter(ask(caller(2, 99), false)).unwrap();
    assert_eq!(give_all(&mut schedule), [(late, Kind::Full)]);
}

#[test]
fn those_who_wait_are_bounded_by_number_and_bytes() {
    let mut schedule = Schedule::default();
    let entered = (0..1000).filter_map(|_| schedule.enter(ask(caller(1, 1), true)));
    assert_eq!(entered.count(), MAX_WAITING_OF_ONE);
    let large = Ask {
        bytes: MAX_BYTES_OF_ONE,
        ..ask(caller(1, 2), true)
    };
    assert!(schedule.enter(large.clone()).is_some());
    assert!(schedule.enter(large).is_none());
    assert!(schedule.enter(ask(caller(1, 3), true)).is_some());
    let entered = (0..5000).filter_map(|n| schedule.enter(ask(caller(1, n / 100 + 4), true)));
    assert!(entered.count() < MAX_WAITING);
}

/// What happens to a queue, step by step.
#[derive(Debug, Clone)]
enum Step {
    Enter(u8, u64, bool),
    /// The running one at this place ends.
    End(usize),
    Overdue(usize),
    /// The waiting one at this place gives up.
    GiveUp(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..3_u8, 0..3_u64, any::<bool>()).prop_map(|(p, d, t)| Step::Enter(p, d, t)),
        3 => (0..20_usize).prop_map(Step::End),
        1 => (0..20_usize).prop_map(Step::Overdue),
        1 => (0..20_usize).prop_map(Step::GiveUp),
    ];
    prop::collection::vec(step, 1..200)
}

/// Whether a caller, or its principal, holds as many full places as it may.
fn has_its_share(schedule: &Schedule, caller: &Caller) -> bool {
    let full = |is_meant: &dyn Fn(&Caller) -> bool| {
        schedule.count(|other, held| is_meant(other) && held == Held::Full)
    };
    full(&|other| other == caller) >= SHARE
        || full(&|other| other.principal == caller.principal) >= SHARE_OF_PRINCIPAL
}

proptest! {
    /// Whatever happens: bounds hold, and no place stays free for which a caller may wait. A caller without a place is
    /// passed by no more often than there are others.
    #[test]
    fn the_queue_is_fair(steps in steps()) {
        let mut schedule = Schedule::default();
        // How often a full place went to another principal, or another caller of the same, since a caller that waits and
        // holds nothing was served.
        let mut passed: BTreeMap<(Caller, bool), usize> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Enter(p, d, t) => {
                    schedule.enter(ask(caller(p, d), t));
                }
                Step::End(at) => {
                    if let Some(number) = schedule.running.keys().nth(at).copied() {
                        schedule.leave(number);
                    }
                }
                Step::Overdue(at) => {
                    if let Some(number) = schedule.running.keys().nth(at).copied() {
                        schedule.mark_overdue(number);
                    }
                }
                Step::GiveUp(at) => {
                    if let Some(number) = schedule.waiting.keys().nth(at).copied() {
                        schedule.leave(number);
                    }
                }
            }
            loop {
                let waiting: std::collections::BTreeSet<_> =
                    schedule.waiting.values().map(|ask| ask.caller.clone()).collect();
                passed.retain(|(caller, _), _| waiting.contains(caller));
                let Some((number, kind)) = schedule.give() else { break };
                let (served, _) = schedule.running[&number].clone();
                passed.retain(|(caller, _), _| *caller != served);
                if kind == Kind::Full {
                    for caller in waiting.iter().filter(|caller| **caller != served) {
                        let is_of_principal = served.principal == caller.principal;
                        let holds = schedule.count(|other, _| match is_of_principal {
                            true => other == caller,
                            false => other.principal == caller.principal,
                        });
                        let times = passed.entry((caller.clone(), is_of_principal)).or_default();
                        // Whoever holds something may be passed by for as long as others hold less.
                        *times = if holds == 0 { *times + 1 } else { 0 };
                        // There are two other principals, and two other callers of its own.
                        prop_assert!(*times <= 2, "{caller:?} was passed by {times} times");
                    }
                }
            }
            let full = schedule.count(|_, held| held == Held::Full);
            prop_assert!(full <= FULL);
            prop_assert!(schedule.count(|_, held| held == Held::Trial) <= QUICK);
            for ask in schedule.waiting.values() {
                let theirs = |held| schedule.count(|c, h| *c == ask.caller && h == held);
                prop_assert!(theirs(Held::Full) <= SHARE);
                let of_principal = schedule.count(|c, held| {
                    c.principal == ask.caller.principal && held == Held::Full
                });
                prop_assert!(of_principal <= SHARE_OF_PRINCIPAL);
                prop_assert!(theirs(Held::Trial) + theirs(Held::Overdue) <= QUICK);
                prop_assert!(
                    full == FULL || has_its_share(&schedule, &ask.caller),
                    "a place stays free"
                );
            }
        }
    }
}

#[tokio::test]
async fn places_are_given_back_and_waits_end() {
    let queue = Queue::default();
    let soon = || Instant::now() + Duration::from_millis(50);
    let mut held = Vec::new();
    for _ in 0..SHARE {
        held.push(queue.place(ask(caller(1, 1), false), soon()).await.unwrap());
    }
    let busy = queue
        .place(ask(caller(1, 1), false), soon())
        .await
        .unwrap_err();
    assert!(busy.retry_after >= RETRY.0 && busy.retry_after <= RETRY.1);
    // What may be tried is, and once that is overdue others may be, not of this caller.
    let trial = queue.place(ask(caller(1, 1), true), soon()).await.unwrap();
    assert_eq!(trial.kind(), Kind::Trial);
    queue
        .place(ask(caller(1, 1), true), soon())
        .await
        .unwrap_err();
    drop(trial);
    let trial = queue.place(ask(caller(1, 1), true), soon()).await.unwrap();
    drop(trial);
    // Another caller has the places that are left.
    let other = queue.place(ask(caller(2, 2), false), soon()).await.unwrap();
    assert_eq!(other.kind(), Kind::Full);
    // Whoever waits gets the place that comes back, and whoever gave up does not keep it.
    let given_up = queue.place(
        ask(caller(1, 1), false),
        Instant::now() + Duration::from_secs(60),
    );
    assert!(
        tokio::time::timeout(Duration::from_millis(20), given_up)
            .await
            .is_err()
    );
    let waiting = {
        let queue = queue.clone();
        let deadline = Instant::now() + Duration::from_secs(60);
        tokio::spawn(async move { queue.place(ask(caller(1, 1), false), deadline).await })
    };
    tokio::time::sleep(Duration::from_millis(20)).await;
    drop(held.pop());
    assert_eq!(waiting.await.unwrap().unwrap().kind(), Kind::Full);
    drop((held, other));
    let state = queue.lock();
    assert!(state.schedule.waiting.is_empty() && state.schedule.running.is_empty());
    assert!(state.told.is_empty());
}
