//! The decision: Cedar policies over what a statement touches.
pub mod obligation;
