//! Whether databases answer, for those who send requests here or elsewhere.

use std::{sync::Arc, time::Duration};

use tokio::{sync::Mutex, time::Instant};

use crate::{connections::Connections, server::PalisadeServer};

/// How long an answer is good: anybody may ask.
const LOOK: Duration = Duration::from_secs(1);

/// What was found last, and when. One look at a time.
#[derive(Debug, Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, bool)>>);

impl PalisadeServer {
    /// Whether every database answers. Databases that were not reached yet are tried. The answer is good for a second.
    pub async fn is_ready(&self) -> bool {
        let shared = Arc::clone(&self.shared);
        let mut found = shared.readiness.0.lock().await;
        if let Some((at, is_ready)) = *found
            && at.elapsed() < LOOK
        {
            return is_ready;
        }
        let is_ready = look(&shared.connections).await;
        *found = Some((Instant::now(), is_ready));
        is_ready
    }
}

async fn look(connections: &Connections) -> bool {
    // Whoever asks does not wait for it: it asks again.
    let unopened = connections.unopened();
    let mut are_open = true;
    for late in &unopened {
        // All of them are begun.
        are_open &= late.begin_opening();
    }
    if !are_open {
        return false;
    }
    for connection in connections.opened() {
        if let Err(error) = connection.guard.refresh().await {
            tracing::warn!(connection = connection.name, "not ready: {error}");
            return false;
        }
    }
    true
}
