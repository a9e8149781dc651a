//! Tells a receiver outside of requests that wait for a person. A thread of its own sends, so that no call waits for it.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, TrySendError},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use hmac::{Hmac, KeyInit as _, Mac as _};
use palisade_host::{Closing, Outbox};
use sha2::Sha256;

use crate::{
    config::webhook::WebhookSetup, exit::Failure, key_file::SECRET_BYTES, notice::Notice,
    secret::Password,
};

/// Notices that wait to be sent; a further one is given up.
const QUEUE: usize = 100;

/// How often one is sent at most.
const ATTEMPTS: u32 = 5;

/// How long it waits before it is sent again; each further time twice as long.
const PAUSE: Duration = Duration::from_secs(1);

/// Sends notices to one receiver.
pub(crate) struct Webhook {
    outbox: Outbox<Notice>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    waiting: AtomicU64,
    failed: AtomicU64,
}

impl Counts {
    /// Logs that people outside were not told.
    fn note_failure(&self, notice: &Notice, why: &str) {
        let failed = self
            .failed
            .fetch_add(1, Ordering::Relaxed)
            .saturating_add(1);
        tracing::error!(
            request = notice.id,
            failed,
            "the webhook was not told of a request that waits: {why}"
        );
    }
}

impl Webhook {
    /// To the receiver of `setup`.
    pub(crate) fn start(setup: &WebhookSetup) -> Result<Self, Failure> {
        let secret = setup.secret.read()?;
        if secret.reveal().len() < SECRET_BYTES {
            return Err(Failure::Configuration(format!(
                "error: the secret of the webhook, {}, is shorter than {SECRET_BYTES} bytes\n  help: make one by `openssl rand -hex 32`",
                setup.secret
            )));
        }
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            // What the environment says decides nothing.
            .proxy(None)
            .timeout_global(Some(setup.timeout))
            .build();
        let counts = Arc::new(Counts::default());
        let sender = Sender {
            agent: config.into(),
            url: setup.url.clone(),
            host: setup.host.clone(),
            secret,
            counts: Arc::clone(&counts),
        };
        let patience = setup.timeout.saturating_add(PAUSE);
        let work = move |notices: &_, closing: &_| sender.send_all(notices, closing);
        let outbox = Outbox::start("webhook", QUEUE, patience, work)
            .map_err(|error| Failure::Internal(error.to_string()))?;
        Ok(Self { outbox, counts })
    }

    /// Sends `notice` soon. It does not block, and does not fail.
    pub(crate) fn tell(&self, notice: Notice) {
        self.counts.waiting.fetch_add(1, Ordering::Relaxed);
        let (notice, why) = match self.outbox.put(notice) {
            Ok(()) => return,
            Err(TrySendError::Full(notice)) => (notice, "too many wait to be sent"),
            Err(TrySendError::Disconnected(notice)) => (notice, "its thread has ended"),
        };
        self.counts.waiting.fetch_sub(1, Ordering::Relaxed);
        self.counts.note_failure(&notice, why);
    }

    /// Sends what waits, once, and then nothing more. It blocks, though not for ever. What was not sent is told, if anything.
    pub(crate) fn finish(&self) -> Option<String> {
        self.outbox.finish();
        let left = (self.counts.waiting.load(Ordering::Relaxed))
            .saturating_add(self.counts.failed.load(Ordering::Relaxed));
        (left > 0).then(|| format!("the webhook was not told of {left} requests that wait"))
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").finish_non_exhaustive()
    }
}

/// What its thread has.
struct Sender {
    agent: ureq::Agent,
    url: String,
    host: String,
    secret: Password,
    counts: Arc<Counts>,
}

/// Why a notice was not taken.
enum Fault {
    /// It may be taken later.
    Later(String),
    /// It never will be.
    Never(String),
}

impl Sender {
    fn send_all(&self, notices: &Receiver<Notice>, closing: &Closing) {
        while let Ok(notice) = notices.recv() {
            let sent = self.send(&notice, closing);
            self.counts.waiting.fetch_sub(1, Ordering::Relaxed);
            if let Err(why) = sent {
                self.counts.note_failure(&notice, &why);
            }
        }
    }

    fn send(&self, notice: &Notice, closing: &Closing) -> Result<(), String> {
        let mut pause = PAUSE;
        let mut attempt = 1;
        loop {
            let why = match self.post(notice) {
                Ok(()) => return Ok(()),
                Err(Fault::Never(why)) => return Err(why),
                Err(Fault::Later(why)) => why,
            };
            let is_over = attempt == ATTEMPTS || unix_time() >= notice.expires;
            if is_over || !closing.wait(pause) {
                return Err(format!("{why}, {attempt} times"));
            }
            attempt += 1;
            pause = pause.saturating_mul(2);
        }
    }

    fn post(&self, notice: &Notice) -> Result<(), Fault> {
        let time = unix_time().as_secs();
        let request = self
            .agent
            .post(&self.url)
            .header("content-type", "application/json")
            .header(
                "user-agent",
                concat!("palisade/", env!("CARGO_PKG_VERSION")),
            )
            .header("palisade-timestamp", time.to_string())
            .header("palisade-signature", sign(&self.secret, time, &notice.body));
        let host = &self.host;
        match request.send(notice.body.as_bytes()) {
            Ok(answer) => match answer.status().as_u16() {
                200..=299 => Ok(()),
                status @ (408 | 429 | 500..=599) => {
                    Err(Fault::Later(format!("`{host}` answered {status}")))
                }
                status @ 300..=399 => Err(Fault::Never(format!(
                    "`{host}` answered {status}, and redirects are not followed"
                ))),
                status => Err(Fault::Never(format!("`{host}` answered {status}"))),
            },
            // What else it says can hold the address, which can hold a secret.
            Err(ureq::Error::Timeout(_)) => {
                Err(Fault::Later(format!("`{host}` did not answer in time")))
            }
            Err(ureq::Error::Io(error)) => Err(Fault::Later(format!("`{host}`: {}", error.kind()))),
            Err(_) => Err(Fault::Later(format!("`{host}` could not be reached"))),
        }
    }
}

/// The signature of `body`, sent at `time` in seconds since 1970: `v1=` and the HMAC-SHA256 under `secret` of the time, a dot and the body.
fn sign(secret: &Password, time: u64, body: &str) -> String {
    // It takes keys of every length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.reveal().as_bytes()) else {
        return String::new();
    };
    mac.update(format!("{time}.").as_bytes());
    mac.update(body.as_bytes());
    let tag = mac.finalize().into_bytes();
    tag.iter().fold("v1=".to_owned(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = fmt::Write::write_fmt(&mut text, format_args!("{byte:02x}"));
        text
    })
}

fn unix_time() -> Duration {
    (SystemTime::now().duration_since(UNIX_EPOCH)).unwrap_or_default()
}
