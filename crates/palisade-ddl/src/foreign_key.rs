//! What a foreign key does when the row it references changes; PostgreSQL and MySQL spell it alike.

use crate::{DdlError, cursor::Cursor};
use palisade::catalog::ReferenceAction;

/// What stands after the columns of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Actions {
    pub(super) on_delete: ReferenceAction,
    pub(super) on_update: ReferenceAction,
}

/// Takes `MATCH`, `ON DELETE` and `ON UPDATE`.
pub(super) fn actions(cursor: &mut Cursor<'_>) -> Result<Actions, DdlError> {
    let mut actions = Actions::default();
    loop {
        if cursor.eat("on delete") {
            actions.on_delete = action(cursor)?;
        } else if cursor.eat("on update") {
            actions.on_update = action(cursor)?;
        } else if cursor
            .eat_any(&["match full", "match partial", "match simple"])
            .is_none()
        {
            return Ok(actions);
        }
    }
}

fn action(cursor: &mut Cursor<'_>) -> Result<ReferenceAction, DdlError> {
    let done = [
        "no action",
        "restrict",
        "cascade",
        "set null",
        "set default",
    ];
    let Some(action) = cursor.eat_any(&done).and_then(ReferenceAction::from_sql) else {
        return Err(cursor.expected_error("what a reference does"));
    };
    // PostgreSQL can name the columns that are set; all of the key's count.
    if cursor.sees("(") {
        cursor.group()?;
    }
    Ok(action)
}
