//! Spans of `tracing` around the stages of a statement, where the feature `tracing` is built in; nothing where it is not.
//!
//! They are of the level `debug` and the target `palisade`, and have no fields: no text, literal or value can be in one.

/// The span of a stage, entered until it is dropped. It must be dropped before the thread does anything else.
pub(crate) struct Entered {
    #[cfg(feature = "tracing")]
    _span: tracing::span::EnteredSpan,
}

#[cfg(feature = "tracing")]
impl Entered {
    /// Enters `span`.
    pub(crate) fn enter(span: tracing::Span) -> Self {
        Self {
            _span: span.entered(),
        }
    }
}

impl Entered {
    /// Ends the span.
    pub(crate) fn end(self) {
        let _ended = self;
    }
}

/// Enters the span of the stage with this name.
macro_rules! enter_stage {
    ($name:literal) => {{
        #[cfg(feature = "tracing")]
        {
            $crate::stage_span::Entered::enter(tracing::debug_span!(target: "palisade", $name))
        }
        #[cfg(not(feature = "tracing"))]
        {
            $crate::stage_span::Entered {}
        }
    }};
}

/// The future with the span of the stage with this name around it.
macro_rules! trace_stage {
    ($name:literal, $future:expr) => {{
        #[cfg(feature = "tracing")]
        {
            tracing::Instrument::instrument(
                $future,
                tracing::debug_span!(target: "palisade", $name),
            )
        }
        #[cfg(not(feature = "tracing"))]
        {
            $future
        }
    }};
}

pub(crate) use {enter_stage, trace_stage};
