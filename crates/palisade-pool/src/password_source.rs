//! Where a password is read again for each session, since it may be rotated.

use std::{fmt, sync::Arc};

/// Reads a password for each new session, so that a rotated one is taken up without a restart.
#[derive(Clone)]
pub struct PasswordSource(Arc<dyn Fn() -> Option<String> + Send + Sync>);

impl PasswordSource {
    /// Asks `read` before each session is made, on the thread that makes it: for a small file, and for nothing that takes long.
    /// Where it gives none, the password that was known stays.
    pub fn new(read: impl Fn() -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// The password by now, unless it cannot be read.
    #[must_use]
    pub fn read(&self) -> Option<String> {
        (self.0)()
    }
}

impl fmt::Debug for PasswordSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordSource(…)")
    }
}
