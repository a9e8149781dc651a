//! Whether what runs long is still wanted.

use std::{fmt, sync::Arc};

use crate::cores::Cores;

/// Whether somebody still waits for a run.
#[derive(Clone, Default)]
pub(crate) struct Wish(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Wish {
    pub(crate) fn new(is_wanted: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(is_wanted)))
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.0.as_ref().is_none_or(|is_wanted| is_wanted())
    }

    /// What a run may take: where a person waits for it, they work meanwhile.
    pub(crate) fn cores(&self) -> Cores {
        match self.0 {
            Some(_) => Cores::One,
            None => Cores::All,
        }
    }
}

impl fmt::Debug for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Wish").field(&self.cores()).finish()
    }
}
