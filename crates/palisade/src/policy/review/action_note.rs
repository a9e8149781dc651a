//! What each action permits, for the manual and for editors.

/// An action that policies name, `Action::"select"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActionNote {
    /// Its id.
    pub name: &'static str,
    /// What it is asked about.
    pub resource: &'static str,
    /// What whoever may do it can do.
    pub permits: &'static str,
}

const fn note(name: &'static str, resource: &'static str, permits: &'static str) -> ActionNote {
    ActionNote {
        name,
        resource,
        permits,
    }
}

/// Every action, the group `read` among them.
pub const ACTIONS: &[ActionNote] = &[
    note(
        "select",
        "table or view",
        "to name it in a statement that reads",
    ),
    note("discover", "table or view", "to find its name in a listing"),
    note(
        "approve",
        "table",
        "to approve changes of it that another principal proposes",
    ),
    note("see", "row", "to read the row"),
    note(
        "read",
        "column",
        "the group of `read_plain` and `read_masked`",
    ),
    note("read_plain", "column", "to read its values"),
    note(
        "read_masked",
        "column",
        "to read what its mask makes of them",
    ),
    note(
        "read_token",
        "column",
        "to read tokens in place of its values",
    ),
    note("call", "function", "to call it"),
    note("run", "template", "to run it by name"),
    note("insert", "table", "to add rows to it"),
    note("update", "table", "to change rows of it"),
    note("delete", "table", "to delete rows of it"),
    note("truncate", "table", "to empty it"),
    note("write", "column", "to assign it"),
    note("change", "row", "to change or delete the row as it was"),
    note("add", "row", "to leave the row as it would be afterwards"),
    note("create", "table or view", "to define it"),
    note("alter", "table or view", "to define it otherwise"),
    note("drop", "table or view", "to take it away"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::ACTIONS;
    use crate::policy::cedar::schema::PolicyAction;

    #[test]
    fn every_action_has_one_note() {
        let noted: Vec<&str> = ACTIONS.iter().map(|note| note.name).collect();
        let mut expected: BTreeSet<&str> = BTreeSet::new();
        for action in PolicyAction::ALL {
            expected.insert(action.name());
            expected.extend(action.group());
        }
        assert_eq!(noted.iter().copied().collect::<BTreeSet<_>>(), expected);
        assert_eq!(noted.len(), expected.len());
    }
}
