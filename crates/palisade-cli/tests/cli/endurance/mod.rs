//! A fleet of two servers under mixed traffic, while servers are killed, the database restarts, and certificates and policies are
//! replaced: no wrong answer, no lost record, no leak.
//!
//! The tests run it for some seconds, with each mishap at least once. `cargo xtask endure --minutes 60` runs it for an hour.

mod fleet;
mod mishaps;
mod traffic;

use std::{
    collections::BTreeMap,
    env,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use self::{
    fleet::Fleet,
    mishaps::Mishap,
    traffic::{Tally, Worker},
};

/// How long it goes on where nothing is said.
const SHORT: Duration = Duration::from_secs(30);

/// From one mishap to the next: in a long run there is time to recover, and for what only then goes wrong.
const PAUSE: Duration = Duration::from_secs(4);

/// Clients at once.
const WORKERS: usize = 4;

/// What of its answers a fleet has to give in spite of all: with both servers and the database away for a moment each, the rest is
/// refused as something to try again.
const LEAST_ANSWERED: f64 = 0.3;

#[test]
fn a_fleet_endures_mixed_traffic_and_mishaps() {
    let time = match env::var("PALISADE_ENDURE_MINUTES") {
        Ok(minutes) => Duration::from_secs_f64(minutes.parse::<f64>().unwrap() * 60.0),
        Err(_) => SHORT,
    };
    let fleet = Fleet::start();
    let is_over = AtomicBool::new(false);
    let mut tally = Tally::default();
    let mut mishaps: BTreeMap<&'static str, u32> = BTreeMap::new();
    thread::scope(|scope| {
        // Whatever ends this, the workers end.
        let end = End(&is_over);
        let workers: Vec<_> = (0..WORKERS)
            .map(|number| Worker::new(&fleet, number))
            .map(|worker| scope.spawn(|| worker.run(&is_over)))
            .collect();
        let began = Instant::now();
        for mishap in Mishap::ALL.iter().cycle() {
            let is_complete = mishaps.len() == Mishap::ALL.len();
            let has_failed = workers.iter().any(thread::ScopedJoinHandle::is_finished);
            if has_failed || (is_complete && began.elapsed() >= time) {
                break;
            }
            thread::sleep(PAUSE);
            mishap.happen(&fleet);
            *mishaps.entry(mishap.name()).or_default() += 1;
        }
        // What happened last is survived, too.
        thread::sleep(PAUSE);
        drop(end);
        for worker in workers {
            tally.add(worker.join().unwrap());
        }
    });
    println!("{tally}\n{mishaps:?}");
    let (answered, asked) = (tally.answered, tally.answered + tally.put_off);
    assert!(
        f64::from(answered) >= f64::from(asked) * LEAST_ANSWERED,
        "{tally}"
    );
    tally.check_kinds();
    fleet.check_counters(&tally);
    fleet.stop();
    fleet.check_records(&tally);
    fleet.check_logs();
}

/// Tells the workers that it is over, when it is dropped.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
