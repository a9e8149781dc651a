//! The account behind the gate: its rights, the rights it needs, and the SQL that makes one.

#[cfg(feature = "mysql")]
pub(crate) mod mysql;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;

use std::collections::{BTreeMap, BTreeSet};

use palisade::{ident, session::Principal};

use crate::{
    database::Access,
    exit::Failure,
    host, mysql as mysql_server,
    needs::{Changes, Needs},
    postgres as postgres_server,
    setup::Setup,
    target::{Engine, Target},
    weakness::{Weak, excessive_changes, missing_changes},
};

/// What a server says of itself and of an account.
pub(crate) struct Account {
    /// What the server is.
    pub(crate) product: &'static str,
    /// Its version, in its own words.
    pub(crate) version: Option<String>,
    /// The account, as `--role` takes it.
    pub(crate) role: String,
    /// The worst first.
    pub(crate) weaknesses: Vec<Weak>,
    /// What is as it is in every new database, and to know of.
    pub(crate) notes: Vec<String>,
}

impl Account {
    /// That which `target` logs in as.
    pub(crate) fn look(setup: &Setup, target: &Target, access: Access) -> Result<Self, Failure> {
        let runtime = host::runtime()?;
        match target.engine() {
            Engine::Postgres => runtime.block_on(postgres_server::look(setup, target, access)),
            Engine::Mysql => runtime.block_on(mysql_server::look(setup, target, access)),
        }
    }
}

/// The account that SQL is wanted for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// What it is called.
    pub(crate) role: &'a str,
    /// What it does.
    pub(crate) access: Access,
    /// Whether it exists, so that only what it is granted is to be printed.
    pub(crate) is_there: bool,
    /// Whether it changes data in steps.
    pub(crate) in_steps: bool,
}

/// What an account is for.
struct Plan<'a> {
    asked: Asked<'a>,
    /// For whom policies decide.
    who: String,
    /// What to read.
    needs: &'a Needs,
}

impl<'a> Plan<'a> {
    fn new(asked: Asked<'a>, principals: &BTreeSet<Principal>, needs: &'a Needs) -> Self {
        let who: Vec<String> = principals.iter().map(ToString::to_string).collect();
        Self {
            asked,
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

/// Weaknesses of an account that reads do not all apply to an account that changes data: its rights to change are
/// compared with the policies.
fn beside_changes(found: impl Iterator<Item = Weak>) -> Vec<Weak> {
    found
        .filter(|weak| !["can-write", "not-read-only"].contains(&weak.kind))
        .collect()
}

/// How an engine spells what mends an account.
struct Mending<'m> {
    /// The account as people know it.
    user: &'m str,
    identifier: fn(&str) -> String,
    /// `GRANT privileges ON relation TO account;`, of a schema and a name.
    grant: &'m dyn Fn(&[String], &str, &str) -> String,
    /// What takes all changes of a table away, and gives back those that are needed.
    revoke: &'m dyn Fn(&[String], &str, &str) -> String,
}

/// What an account can change, `held`, beside what the policies permit. What it owns is told apart, elsewhere.
fn compare_changes(
    needed: &BTreeMap<(String, String), Changes>,
    held: &BTreeMap<(String, String), Changes>,
    mending: &Mending<'_>,
) -> Vec<Weak> {
    let none = Changes::default();
    let relations: BTreeSet<_> = needed.keys().chain(held.keys()).collect();
    let mut found = Vec::new();
    for key in relations {
        let (schema, name) = key;
        let (needed, held) = (
            needed.get(key).unwrap_or(&none),
            held.get(key).unwrap_or(&none),
        );
        let shown = ident::qualify([schema.as_str(), name.as_str()]);
        let spelled = |changes: &Changes| {
            let mut words = changes.privileges(mending.identifier);
            words.extend(changes.truncate.then(|| "TRUNCATE".to_owned()));
            words
        };
        let lacking = spelled(&needed.subtract(held));
        if !lacking.is_empty() {
            let remedy = (mending.grant)(&lacking, schema, name);
            found.push(missing_changes(
                mending.user,
                &shown,
                &lacking.join(", "),
                remedy,
            ));
        }
        let excess = spelled(&held.subtract(needed));
        if !excess.is_empty() {
            let remedy = (mending.revoke)(&spelled(needed), schema, name);
            found.push(excessive_changes(
                mending.user,
                &shown,
                &excess.join(", "),
                remedy,
            ));
        }
    }
    found
}

/// Text that stays within its comment.
fn comment(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
