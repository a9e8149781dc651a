//! What the gate decides about.

use crate::{limits::Limits, session::Session, syntax::Wording, value::Params};

/// A statement as it is decided about.
#[derive(Clone, Copy)]
pub(in crate::guard) struct Question<'a> {
    pub(in crate::guard) wording: Wording<'a>,
    pub(in crate::guard) params: &'a Params,
    /// Whose it is: of a template, the session under which its text runs.
    pub(in crate::guard) session: &'a Session,
    pub(in crate::guard) limits: &'a Limits,
}
