//! Calls that run: what they tell while they do, and how they end when their clients give up.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use palisade::guard::Cancel;
use rmcp::{
    RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
    service::Peer,
};
use tokio::time::{Instant, sleep, sleep_until};

/// How often a call that takes long says so, unless an embedder says otherwise.
pub(crate) const PROGRESS: Duration = Duration::from_secs(10);

/// How long the end of cancelled statements is waited for when a client has gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often it is looked whether they have ended.
const LOOK: Duration = Duration::from_millis(10);

/// Cancels a statement when the call that waits for it is given up, by whoever gives it up.
pub(crate) struct CancelOnDrop(pub(crate) Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// How many calls of a client are on threads. Clones count as one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Running(Arc<AtomicUsize>);

/// One of them.
pub(crate) struct Job(Arc<AtomicUsize>);

impl Drop for Job {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Running {
    /// One more.
    pub(crate) fn begin(&self) -> Job {
        self.0.fetch_add(1, Ordering::Relaxed);
        Job(Arc::clone(&self.0))
    }

    /// Waits until none is left, though not for ever: by then they are cancelled, and their databases told.
    pub(crate) async fn ended(&self) {
        let deadline = Instant::now() + PATIENCE;
        while self.0.load(Ordering::Relaxed) > 0 && Instant::now() < deadline {
            sleep(LOOK).await;
        }
    }
}

/// Tells a client that asked for it, by `token`, that its call still runs: one line of text each `interval`. Never ends by itself.
pub(crate) async fn tell_progress(
    peer: Peer<RoleServer>,
    token: Option<ProgressToken>,
    interval: Duration,
) {
    let Some(token) = token else {
        return std::future::pending().await;
    };
    let began = Instant::now();
    let mut steps = 0_u32;
    loop {
        steps += 1;
        sleep_until(began + interval * steps).await;
        let seconds = (interval * steps).as_secs();
        let told = ProgressNotificationParam::new(token.clone(), f64::from(steps)).with_message(
            format!("The statement runs or waits, for {seconds} s by now."),
        );
        // A client that does not listen is found out by others.
        let _ = peer.notify_progress(told).await;
    }
}
