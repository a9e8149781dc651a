//! Columns that policies show, and that the account of a connection may not read, though it may read others of the same tables: a
//! migration has added them.

use std::collections::BTreeSet;

use palisade::{
    firewall::Firewall,
    session::{Principal, Session},
};

/// How many of them are named.
const NAMED: usize = 5;

/// What the operator is told of them; nothing where there are none.
pub(crate) fn describe(firewall: &Firewall, principals: &BTreeSet<Principal>) -> Option<String> {
    let sessions = principals.iter().map(|one| Session::new(one.clone()));
    let uids: BTreeSet<String> = sessions
        .flat_map(|session| firewall.withheld_columns(&session))
        .collect();
    let named: Vec<String> = (uids.iter().take(NAMED))
        .map(|uid| format!("`{uid}`"))
        .collect();
    let more = match uids.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let them = match uids.len() {
        0 => return None,
        1 => "it",
        _ => "them",
    };
    Some(format!(
        "policies show {}{more}, which the account may not read, so that no agent sees {them}; `palisade setup-sql --update` prints the GRANT",
        named.join(", ")
    ))
}
