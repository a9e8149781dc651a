//! The parts of schemas that are the same for everybody, read once a process: reading them takes some milliseconds.

use std::sync::LazyLock;

use cedar_policy::SchemaFragment;

use crate::policy::cedar::schema;

static FIXED: LazyLock<Option<SchemaFragment>> = LazyLock::new(|| read(&schema::fixed_text()));

static FIXED_FOR_ROWS: LazyLock<Option<SchemaFragment>> =
    LazyLock::new(|| read(&schema::fixed_text_for_rows()));

static ROW_ACTIONS: LazyLock<Option<SchemaFragment>> =
    LazyLock::new(|| read(schema::NO_ROW_ACTIONS));

/// The types and actions that every catalog has, those of rows aside.
pub(in crate::policy) fn fixed_types() -> Option<&'static SchemaFragment> {
    FIXED.as_ref()
}

/// The same types for decisions about rows, in which the other actions are names alone.
pub(in crate::policy) fn fixed_types_for_rows() -> Option<&'static SchemaFragment> {
    FIXED_FOR_ROWS.as_ref()
}

/// The actions on rows where no row type is known.
pub(in crate::policy) fn row_actions() -> Option<&'static SchemaFragment> {
    ROW_ACTIONS.as_ref()
}

/// Reads what loading policies needs and what depends on none of them, so that the first load finds it read. A program that opens a
/// database may do this on a thread of its own meanwhile; without it, the first load takes some milliseconds more.
pub fn read_ahead() {
    let _ = (
        LazyLock::force(&FIXED),
        LazyLock::force(&ROW_ACTIONS),
        LazyLock::force(&FIXED_FOR_ROWS),
    );
}

/// None if Cedar does not take it, which would be a defect of ours: then no policies load.
fn read(text: &str) -> Option<SchemaFragment> {
    let (fragment, _) = SchemaFragment::from_cedarschema_str(text).ok()?;
    Some(fragment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cedar_reads_our_types() {
        read_ahead();
        assert!(fixed_types().is_some() && row_actions().is_some());
        assert!(fixed_types_for_rows().is_some());
    }
}
