//! All that may be there for a principal at each table and column, for whoever proves something of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::firewall::{
    Firewall,
    access_level::AccessLevel,
    access_table::{Cells, Failing, Place, is_enumerated},
};
use crate::{
    catalog::{ColumnId, Relation},
    dialect::Dialect,
    error::Error,
    policy::{Amount, Aspect, PolicySet, Setting, SymbolicQuestion, Whose, template::Template},
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
            outside.push(self.cells_of_view(&view, Failing::EndsAll).map_err(fault)?);
            for template in view.templates().map_err(fault)? {
                let session = session.clone().running(&template.name, Vec::new());
                let view = policies.session(&session);
                inside.push(self.cells_of_view(&view, Failing::EndsAll).map_err(fault)?);
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

    /// Every template, by name, whoever may run it.
    #[must_use]
    pub fn known_templates(&self) -> Vec<Template> {
        self.policies.templates().cloned().collect()
    }

    /// The types of principals.
    #[must_use]
    pub fn principal_kinds(&self) -> Vec<String> {
        self.policies.principal_kinds()
    }

    /// Whether any principal of the type `kind` among `whose`, whatever its attributes and whatever it is in, has any of `amounts`
    /// of a table, or of its column: a question for Cedar's symbolic compiler. Where no principal meets its conditions, the
    /// decisions of this firewall show and permit none of `amounts`.
    ///
    /// # Errors
    /// Why nothing can be said: no such table or column, or a policy that cannot be evaluated or written down.
    pub fn ask_about_any(
        &self,
        kind: &str,
        whose: Whose<'_>,
        setting: Setting,
        (table, column): (&str, Option<&str>),
        amounts: &[Amount],
    ) -> Result<SymbolicQuestion, String> {
        let place = self.find_place(table, column)?;
        self.policies
            .ask_about_any(kind, whose, setting, place, amounts)
    }

    /// Whether any principal of the type `kind` has more of an aspect of a table, or of its column, than by `old`, the same catalog by
    /// other policies: questions for Cedar's symbolic compiler. Where none of them has a principal, none has more.
    ///
    /// # Errors
    /// Why nothing can be said.
    pub fn ask_whether_wider(
        &self,
        old: &Self,
        kind: &str,
        (table, column): (&str, Option<&str>),
        aspect: Aspect,
    ) -> Result<Vec<SymbolicQuestion>, String> {
        let place = self.find_place(table, column)?;
        self.policies
            .ask_whether_wider(&old.policies, kind, place, aspect)
    }

    /// Whether any principal of the type `kind` may run a template that it may not run by `old`, as
    /// [`ask_whether_wider`](Self::ask_whether_wider).
    ///
    /// # Errors
    /// Why nothing can be said.
    pub fn ask_whether_more_runs(
        &self,
        old: &Self,
        kind: &str,
        template: &str,
    ) -> Result<Vec<SymbolicQuestion>, String> {
        self.policies
            .ask_whether_more_runs(&old.policies, kind, template)
    }

    /// A relation by its name, with its column.
    fn find_place(
        &self,
        table: &str,
        column: Option<&str>,
    ) -> Result<(&Relation, Option<ColumnId>), String> {
        let mut relations = self.catalog.relations().iter();
        let relation = relations.find(|relation| relation.uid == table);
        let relation = relation.ok_or_else(|| format!("there is no table `{table}`"))?;
        let Some(name) = column else {
            return Ok((relation, None));
        };
        let found = relation.column_ids().find(|(_, one)| *one.name == *name);
        match found {
            Some((id, _)) => Ok((relation, Some(id))),
            None => Err(format!("there is no column `{table}.{name}`")),
        }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use crate::{catalog::Catalog, dialect::Dialect, firewall::Firewall, policy::PolicySources};

    #[test]
    fn principals_are_of_two_types_whatever_else_is_declared() {
        let declared = "entity Team in [Team]; entity User in [Team]; entity Agent in [Team];";
        for principals_schema in [None, Some(declared)] {
            let catalog = Catalog::builder(Dialect::Sqlite).build().unwrap();
            let sources = PolicySources {
                principals_schema: principals_schema.map(str::to_owned),
                ..PolicySources::default()
            };
            let firewall = Firewall::builder(catalog, sources).build().unwrap();
            let kinds = firewall.principal_kinds();
            assert_eq!(kinds, ["Agent", "User"], "{principals_schema:?}");
        }
    }
}
