//! Calls at fixed times, by many connections.

use std::{
    sync::{Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

use crate::{connection::Connection, server::Server};

/// Connections that calls go over, and so the most that run at once.
const CONNECTIONS: usize = 48;

/// Calls that may be due and not begun. A server so far behind has not sustained the rate.
const BEHIND: usize = 2_000;

/// What was measured at one rate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    /// Calls a second.
    pub(crate) rate: f64,
    pub(crate) median: Duration,
    /// The 99th percentile.
    pub(crate) late: Duration,
    /// Calls without their row, those that were never begun among them.
    pub(crate) failed: usize,
}

/// A statement, a text that its answer holds, and when it is due.
struct Call {
    sql: String,
    expected: String,
    due: Instant,
}

/// Asks `server` for rows by `keys`, `rate` times a second, for `time`.
pub(crate) fn run(
    server: &Server,
    rate: f64,
    time: Duration,
    keys: &mut impl Iterator<Item = (String, String)>,
) -> Step {
    let (calls, due) = mpsc::sync_channel::<Call>(BEHIND);
    let due = Mutex::new(due);
    let answered: Mutex<Vec<Option<Duration>>> = Mutex::default();
    let mut lost = 0;
    thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                let mut connection = Connection::open(server);
                let mut own = Vec::new();
                loop {
                    let next = due.lock().unwrap().recv();
                    let Ok(call) = next else { break };
                    let is_right = connection.ask(&call.sql, &call.expected);
                    own.push(is_right.then(|| call.due.elapsed()));
                }
                answered.lock().unwrap().extend(own);
            });
        }
        let start = Instant::now();
        let pause = Duration::from_secs_f64(1.0 / rate);
        let mut due = start;
        while due.duration_since(start) < time {
            if let Some(left) = due.checked_duration_since(Instant::now()) {
                thread::sleep(left);
            }
            let (sql, expected) = keys.next().unwrap();
            if calls.try_send(Call { sql, expected, due }).is_err() {
                lost += 1;
            }
            due += pause;
        }
        drop(calls);
    });
    let answered = answered.into_inner().unwrap();
    let mut times: Vec<Duration> = answered.iter().flatten().copied().collect();
    times.sort_unstable();
    Step {
        rate,
        median: share(&times, 50),
        late: share(&times, 99),
        failed: lost + answered.len() - times.len(),
    }
}

/// The time under which so many of a hundred are.
fn share(times: &[Duration], percent: usize) -> Duration {
    let at = times.len() * percent / 100;
    times.get(at).copied().unwrap_or(Duration::MAX)
}
