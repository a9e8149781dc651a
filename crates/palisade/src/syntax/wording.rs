//! A statement as it is asked for: by its text, or with words of ours in front where its plan is asked for.

use crate::{dialect::Dialect, syntax::Explain};

/// The text of a statement. Places in it are those of the caller's own text, whatever stands in front.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wording<'t> {
    whole: &'t str,
    own: &'t str,
    is_plan: bool,
}

impl<'t> Wording<'t> {
    /// The plan that `whole` asks for, which begins with [`Explain::words`].
    pub(crate) fn plan(whole: &'t str, dialect: Dialect) -> Self {
        Self {
            whole,
            own: whole.strip_prefix(Explain::words(dialect)).unwrap_or(whole),
            is_plan: true,
        }
    }

    /// With our words: what it is recorded, approved and remembered as.
    pub(crate) fn full_text(self) -> &'t str {
        self.whole
    }

    /// What the caller wrote: what is read.
    pub(crate) fn own_text(self) -> &'t str {
        self.own
    }

    /// Whether not its answer is asked for, but how the engine would find it.
    pub(crate) fn is_plan(self) -> bool {
        self.is_plan
    }
}

impl<'t> From<&'t str> for Wording<'t> {
    fn from(text: &'t str) -> Self {
        Self {
            whole: text,
            own: text,
            is_plan: false,
        }
    }
}
