//! All that may be there for a principal at each table and column, for whoever proves something of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::firewall::{
    Firewall,
    access_level::AccessLevel,
    access_table::{Cells, Place, is_enumerated},
};
use crate::{
    dialect::Dialect,
    error::Error,
    policy::PolicySet,
    session::{Principal, Session},
};

/// All that may be there at one place for a principal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessPlace {
    /// The table or view, as policies name it, or `template NAME`.
    pub table: String,
    /// The column; none where the action is on the table.
    pub column: Option<String>,
    /// As an [`AccessCell`](crate::firewall::AccessCell) has it.
    pub action: &'static str,
    /// What is there outside of templates: once, or where policies look at circumstances at each of their corners.
    pub levels: Vec<AccessLevel>,
    /// What is there within templates that the principal may run.
    pub in_templates: Vec<AccessLevel>,
    /// Ids of the determining policies.
    pub by: BTreeSet<String>,
}

/// A column, and what of it proofs are about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownColumn {
    /// The table or view, as policies name it.
    pub table: String,
    /// Its name.
    pub column: String,
    /// Its tags, those of what it is computed from included.
    pub tags: Vec<String>,
    /// Whether [`Firewall::access_places`] tells of its table. Virtual tables are left out there.
    pub is_enumerated: bool,
}

impl Firewall {
    /// All that may be there for `principal` at each place, in any circumstances and within each template that it may run.
    /// What no place names is never permitted.
    ///
    /// # Errors
    /// A policy that cannot be evaluated or written down.
    pub fn access_places(&self, principal: &Principal) -> Result<Vec<AccessPlace>, Error> {
        let corners = self.policies.corners().map_err(Error::Internal)?;
        let all: Vec<&PolicySet> = match corners.as_slice() {
            [] => vec![&self.policies],
            [_, ..] => corners.iter().collect(),
        };
        // Some time and some client; which they are is supposed already.
        let session = match corners.as_slice() {
            [] => Session::new(principal.clone()),
            [_, ..] => Session::new(principal.clone())
                .at(Duration::ZERO)
                .of_client("client"),
        };
        let fault = |rejection: crate::rejection::Rejection| Error::Internal(rejection.to_string());
        let (mut outside, mut inside) = (Vec::new(), Vec::new());
        for policies in all {
            let view = policies.session(&session);
            outside.push(self.cells_of_view(&view).map_err(fault)?);
            for template in view.templates().map_err(fault)? {
                let session = session.clone().running(&template.name, Vec::new());
                let view = policies.session(&session);
                inside.push(self.cells_of_view(&view).map_err(fault)?);
            }
        }
        let both = outside.iter().chain(&inside);
        let places: BTreeSet<&Place> = both.flat_map(BTreeMap::keys).collect();
        let levels = |found: &[Cells], place: &Place| -> Vec<AccessLevel> {
            let level = |cells: &Cells| match cells.get(place) {
                Some(decided) => decided.level.clone(),
                None => AccessLevel::Never,
            };
            found.iter().map(level).collect()
        };
        let all = places.into_iter().map(|place| {
            let decided = outside.iter().chain(&inside);
            let decided = decided.filter_map(|cells| cells.get(place));
            let (table, column, action) = place.clone();
            AccessPlace {
                levels: levels(&outside, place),
                in_templates: levels(&inside, place),
                by: decided.flat_map(|one| one.by.iter().cloned()).collect(),
                table,
                column,
                action,
            }
        });
        Ok(all.collect())
    }

    /// Whether `principal` is `group`, or in it by the operator's entities.
    #[must_use]
    pub fn is_in(&self, principal: &Principal, group: &Principal) -> bool {
        self.policies.is_in(principal, group)
    }

    /// Every column of the catalog with its tags, in the catalog's order. Relations of the engine's own are left out.
    #[must_use]
    pub fn known_columns(&self) -> Vec<KnownColumn> {
        let mut out = Vec::new();
        for relation in self.catalog.relations() {
            // SQLite keeps these names for tables of its own.
            let is_of_sqlite =
                self.catalog.dialect() == Dialect::Sqlite && relation.name.starts_with("sqlite_");
            if relation.system.is_some() || is_of_sqlite {
                continue;
            }
            for (id, column) in relation.column_ids() {
                out.push(KnownColumn {
                    table: relation.uid.clone(),
                    column: column.name.to_string(),
                    tags: self.policies.tags(id),
                    is_enumerated: is_enumerated(relation),
                });
            }
        }
        out
    }
}
