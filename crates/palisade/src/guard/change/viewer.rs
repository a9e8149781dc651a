//! Who looks at a change, and what is told of it beside the rows that policy shows.
//!
//! A change may reach rows and values that whoever looks may not see: it is decided as its proposer's. How many rows a statement took, and
//! why one failed, follow from all of them. So both are for its proposer, and for those from whom nothing of its tables is withheld.

use std::collections::BTreeSet;

use crate::{
    catalog::{Relation, RelationKind},
    change::{ChangeBody, Receipt, TableCount},
    code::Code,
    guard::Guard,
    policy::obligation::RowFilter,
    rejection::Rejection,
    session::Session,
};

/// For whom a change is run: it is decided as its proposer's, and it counts for whoever asks, and is recorded as theirs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asking<'a> {
    proposer: &'a Session,
    asker: &'a Session,
    is_own: bool,
}

impl<'a> Asking<'a> {
    /// A principal that asks about a change of its own.
    pub(super) fn own(session: &'a Session) -> Self {
        Self {
            proposer: session,
            asker: session,
            is_own: true,
        }
    }

    /// `asker` asks about a change, which `proposer` proposed.
    pub(super) fn about(body: &ChangeBody, proposer: &'a Session, asker: &'a Session) -> Self {
        Self {
            proposer,
            asker,
            is_own: came_by_the_same_door(body, asker),
        }
    }

    /// By whom it is decided.
    pub(super) fn proposer(self) -> &'a Session {
        self.proposer
    }

    /// Who is counted, recorded and answered.
    pub(super) fn asker(self) -> &'a Session {
        self.asker
    }

    /// Whether who asks is who proposed it.
    pub(super) fn is_own(self) -> bool {
        self.is_own
    }

    /// Who proposed it, for the record of another principal.
    pub(super) fn name_proposer(self) -> Option<String> {
        let proposer = self.proposer.principal();
        (proposer != self.asker.principal()).then(|| proposer.to_string())
    }
}

/// How somebody stands to a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ViewerStanding {
    /// Who proposed it, by the door by which it was proposed.
    Proposer,
    /// Somebody else, who sees every row of all tables that it touches, and every column plain.
    SeesAll,
    /// Somebody else, from whom something of them may be hidden.
    SeesPart,
}

/// Of which columns somebody is told that other values may be written into them when a change is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToldGenerated {
    /// Of all that exist for whoever looks.
    All,
    /// Of those in which a cell is shown. That a value is made anew tells that there is a row which the change reaches.
    ThoseShown,
}

/// Whether `session` proposed a change. Policies look at the door, so that the same principal sees less by another.
pub(super) fn came_by_the_same_door(body: &ChangeBody, session: &Session) -> bool {
    body.principal == session.principal().to_string()
        && body.transport == session.transport().name()
        && body.client.as_deref() == session.client()
}

/// The tables and views that a change reads or writes, foreign keys included, as the database calls them. What triggers write is not in it.
pub(super) fn list_touched(body: &ChangeBody) -> BTreeSet<&str> {
    let written = body.writes.iter().map(|write| write.table.as_str());
    let named = body.tables.iter().map(String::as_str);
    named.chain(written).collect()
}

/// A refusal or failure of a change, for somebody else than who proposed it. Of which kind it is can follow from rows and names that this
/// one may not see. What is about the caller, or passes by itself, is told as it is.
pub(super) fn withhold_reason(rejection: Rejection) -> Rejection {
    let tells_of_no_row = [
        Code::Internal,
        Code::LimitBudget,
        Code::LimitBusy,
        Code::LimitCancelled,
        Code::LimitFailures,
        Code::LimitTime,
        Code::ChangeBusy,
        Code::DatabaseConflict,
        Code::DatabaseNotGranted,
        Code::DatabaseSchemaChanged,
        Code::DatabaseUnavailable,
    ];
    let code = rejection.code();
    if tells_of_no_row.contains(&code) {
        return rejection;
    }
    // An engine's message can hold values, and this goes into the record of the call.
    let detail = rejection.recorded_detail().map_or_else(
        || code.slug().to_owned(),
        |detail| format!("{}: {detail}", code.slug()),
    );
    Rejection::new(
        Code::ChangeConflict,
        "the change cannot be run now; whoever proposed it is told why as soon as it is validated again",
    )
    .with_operator_detail(detail)
}

impl Guard {
    /// How `session` stands to a change.
    pub(super) fn find_standing(&self, body: &ChangeBody, session: &Session) -> ViewerStanding {
        if came_by_the_same_door(body, session) {
            ViewerStanding::Proposer
        } else if self.sees_all_touched(body, session) {
            ViewerStanding::SeesAll
        } else {
            ViewerStanding::SeesPart
        }
    }

    /// How many rows each statement of a change took, as `session` may know of it. What undoes a change has a statement for each old value,
    /// so that their numbers would tell which values were equal: there is their sum alone.
    pub(super) fn show_affected(
        &self,
        body: &ChangeBody,
        affected: &[u64],
        session: &Session,
    ) -> Option<Vec<u64>> {
        let is_undoing = body.compensates.is_some() || body.reverts.is_some();
        let standing = self.find_standing(body, session);
        match (standing, is_undoing) {
            (ViewerStanding::Proposer | ViewerStanding::SeesAll, false) => Some(affected.to_vec()),
            (ViewerStanding::SeesAll, true) => Some(vec![affected.iter().sum()]),
            (ViewerStanding::Proposer, true) => self
                .sees_all_touched(body, session)
                .then(|| vec![affected.iter().sum()]),
            (ViewerStanding::SeesPart, _) => None,
        }
    }

    /// Of which columns `session` is told that their values are made anew. Its own statements reach rows that it may change. Triggers and
    /// foreign keys reach others too.
    pub(super) fn find_told_generated(
        &self,
        body: &ChangeBody,
        standing: ViewerStanding,
        session: &Session,
    ) -> ToldGenerated {
        let is_told_all = match standing {
            ViewerStanding::SeesAll => true,
            ViewerStanding::SeesPart => false,
            ViewerStanding::Proposer => {
                !(body.sets_off || self.may_cascade(body)) || self.sees_all_touched(body, session)
            }
        };
        match is_told_all {
            true => ToldGenerated::All,
            false => ToldGenerated::ThoseShown,
        }
    }

    /// Whether one of the tables that a change writes refers to one of them: a foreign key may have written it.
    fn may_cascade(&self, body: &ChangeBody) -> bool {
        let firewall = self.firewall();
        let relations = firewall.catalog().relations().iter();
        let written: BTreeSet<&str> = body.writes.iter().map(|one| one.table.as_str()).collect();
        let written = relations.filter(|one| written.contains(one.database_name().as_str()));
        let written: Vec<&Relation> = written.collect();
        let mut keys = written.iter().flat_map(|one| &one.foreign_keys);
        keys.any(|key| {
            let mut written = written.iter();
            written.any(|one| one.schema == key.schema && one.name == key.table)
        })
    }

    /// Whether `session` sees every row of all tables that a change touches, and every column plain. A change that sets off triggers may
    /// touch any table.
    fn sees_all_touched(&self, body: &ChangeBody, session: &Session) -> bool {
        let firewall = self.firewall();
        let catalog = firewall.catalog();
        let mut unknown = list_touched(body);
        if unknown.is_empty() {
            return false;
        }
        let mut touched: Vec<(&str, &str)> = Vec::new();
        for relation in catalog.relations() {
            let is_named = unknown.remove(relation.database_name().as_str());
            let is_reached = body.sets_off && is_table(relation);
            if is_named || is_reached {
                touched.push((&relation.schema, &relation.name));
            }
        }
        let whole = self.find_whole_tables(touched.iter().copied(), session);
        unknown.is_empty() && touched.iter().all(|name| whole.contains(name))
    }

    /// A receipt as whoever asks may know of it: tables are counted for those who see all of their rows, and all columns plain. Digests of
    /// what was done are never told: two equal ones would tell that hidden values are equal. Nor are those of policies and catalog: two
    /// that differ would tell that something hidden is another.
    pub(super) fn show_receipt(&self, receipt: Receipt, session: &Session) -> Receipt {
        let name = |count: &TableCount| (count.schema.clone(), count.table.clone());
        let names: Vec<(String, String)> = receipt.tables.iter().map(name).collect();
        let names = names.iter().map(|(schema, table)| (&**schema, &**table));
        let whole = self.find_whole_tables(names, session);
        let is_seen = |count: &TableCount| whole.contains(&(&*count.schema, &*count.table));
        let tables = receipt.tables.into_iter().filter(is_seen).collect();
        Receipt {
            tables,
            permitted_by: Vec::new(),
            writes: Vec::new(),
            difference: String::new(),
            keys: String::new(),
            policy_version: String::new(),
            catalog_version: String::new(),
            images: String::new(),
            ..receipt
        }
    }

    /// Of these tables, by schema and name, those of which `session` sees every row, and every column plain.
    pub(in crate::guard) fn find_whole_tables<'n>(
        &self,
        tables: impl Iterator<Item = (&'n str, &'n str)>,
        session: &Session,
    ) -> BTreeSet<(&'n str, &'n str)> {
        let firewall = self.firewall();
        let session = self.now(&firewall, session);
        let relations = firewall.relations(&session).unwrap_or_default();
        let view = firewall.policies().session(&session);
        let is_whole = |(schema, table): &(&str, &str)| {
            let relation = firewall.catalog().find(schema, table);
            relation.is_some_and(|relation| {
                relations.iter().any(|one| one.is_plain(relation))
                    && view
                        .relation(relation.id)
                        // What waits for a person is not seen meanwhile.
                        .is_ok_and(|decision| {
                            decision.rows == RowFilter::Everything && !view.reading_waits(&decision)
                        })
            })
        };
        tables.filter(is_whole).collect()
    }
}

/// Whether a relation holds rows of its own, which a trigger may write.
pub(super) fn is_table(relation: &Relation) -> bool {
    match relation.kind {
        RelationKind::Table => true,
        RelationKind::View
        | RelationKind::Materialized
        | RelationKind::Virtual
        | RelationKind::System => false,
    }
}
