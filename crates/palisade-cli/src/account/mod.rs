//! The account behind the gate: what it may do, what it should, and the SQL that makes one.

pub(crate) mod mysql;
pub(crate) mod postgres;

use std::collections::BTreeSet;

use palisade::session::Principal;

use crate::{needs::Needs, weakness::Weak};

/// What a server says of itself and of an account.
pub(crate) struct Account {
    /// What the server is.
    pub(crate) product: &'static str,
    /// Its version, in its own words.
    pub(crate) version: Option<String>,
    /// The worst first.
    pub(crate) weaknesses: Vec<Weak>,
}

/// What a new account is for.
struct Plan<'a> {
    /// What it is called.
    role: &'a str,
    /// For whom policies decide.
    who: String,
    /// What to read.
    needs: &'a Needs,
}

impl<'a> Plan<'a> {
    fn new(role: &'a str, principals: &BTreeSet<Principal>, needs: &'a Needs) -> Self {
        let who: Vec<String> = principals.iter().map(ToString::to_string).collect();
        Self {
            role,
            who: comment(&who.join(", ")),
            needs,
        }
    }

    /// What some principal may know of and cannot read.
    fn notes(&self) -> String {
        let notes = self.needs.notes.iter();
        notes
            .map(|note| format!("-- {}\n", comment(note)))
            .collect()
    }
}

/// Text that stays within its comment.
fn comment(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
