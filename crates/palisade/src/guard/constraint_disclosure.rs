//! Names the constraint that refused a change to those from whom nothing of the tables is kept that it could be about.

use std::collections::BTreeSet;

use crate::{
    catalog::{Catalog, Relation, RelationKind},
    code::Code,
    firewall::Firewall,
    guard::{
        BackendError, Guard,
        constraint::{ConstraintKind, ViolatedConstraint},
    },
    policy::obligation::ColumnLevel,
    rejection::Rejection,
    rewrite::RewrittenStatement,
    session::Session,
};

impl Guard {
    /// The refusal of a change by a constraint with what the constraint is, where each of `sessions` sees all that it could be about.
    pub(in crate::guard) fn name_constraint(
        &self,
        rejection: Rejection,
        error: &BackendError,
        statement: &RewrittenStatement,
        sessions: &[&Session],
    ) -> Rejection {
        let Some(violated) = &error.violated else {
            return rejection;
        };
        let firewall = self.firewall();
        let tables = list_concerned(statement, violated, firewall.catalog());
        let sees_all = |session: &&Session| {
            let Some(tables) = &tables else {
                return false;
            };
            let whole = self.find_whole_tables(tables.iter().copied(), session);
            whole.len() == tables.len()
        };
        let is_known = sessions.iter().all(sees_all)
            || sessions
                .iter()
                .all(|session| is_own_column(&firewall, statement, violated, session));
        if rejection.code() != Code::DatabaseConstraint || !is_known {
            return rejection;
        }
        Rejection::new(Code::DatabaseConstraint, violated.describe())
            .with_operator_detail(error.detail.clone())
    }
}

/// Whether a column takes no NULL that `session` sees of the table that the statement itself writes. No hidden row is about it:
/// the value is missing in the rows that are given. Of what triggers write nothing is told. Where they run, the statement itself has
/// to set the column to NULL.
fn is_own_column(
    firewall: &Firewall,
    statement: &RewrittenStatement,
    violated: &ViolatedConstraint,
    session: &Session,
) -> bool {
    if violated.kind != ConstraintKind::NotNull {
        return false;
    }
    let catalog = firewall.catalog();
    let dialect = catalog.dialect();
    let Some(column) = violated
        .name
        .as_deref()
        .and_then(|name| name.rsplit('.').next())
    else {
        return false;
    };
    let key = dialect.fold(column);
    let sets_off = !statement.engine_triggers().is_empty();
    if sets_off && !statement.sets_null(&key, dialect) {
        return false;
    }
    let view = firewall.policies().session(session);
    let sees = |relation: &Relation| {
        let index = relation.position(&key);
        let takes_null = index
            .and_then(|index| relation.column(index))
            .is_none_or(|column| column.nullable);
        let decision = view.relation(relation.id).ok();
        let index = index.map(usize::from);
        let decided = index
            .and_then(|index| Some(decision?.columns.get(index)?.level != ColumnLevel::Hidden));
        decided == Some(true) && !(sets_off && takes_null)
    };
    let mut written = catalog.relations().iter().filter(|relation| {
        let name = relation.database_name();
        let mut writes = statement.named_writes().iter();
        writes.any(|(_, table, _)| *table == name)
    });
    match (written.next(), written.next()) {
        (Some(relation), None) => {
            let table = violated.table.as_ref();
            table.is_none_or(|table| dialect.fold(table) == dialect.fold(&relation.name))
                && sees(relation)
        }
        (None | Some(_), _) => false,
    }
}

/// Schema and name of all that a constraint could be about: what the statement reads and changes, and what foreign keys tie to what it
/// changes. Where triggers run, that is every table. None where it is about something else.
fn list_concerned<'c>(
    statement: &RewrittenStatement,
    violated: &ViolatedConstraint,
    catalog: &'c Catalog,
) -> Option<BTreeSet<(&'c str, &'c str)>> {
    let all = || catalog.relations().iter();
    let touches = |relation: &Relation| statement.relations().contains(&relation.uid);
    let writes = |relation: &Relation| {
        let name = relation.database_name();
        let mut written = statement.named_writes().iter();
        written.any(|(_, table, _)| *table == name)
    };
    let refers = |from: &Relation, to: &Relation| {
        let mut keys = from.foreign_keys.iter();
        keys.any(|key| {
            catalog
                .find(&key.schema, &key.table)
                .is_some_and(|one| one.id == to.id)
        })
    };
    let written: Vec<&Relation> = all().filter(|relation| writes(relation)).collect();
    let sets_off = !statement.engine_triggers().is_empty();
    let is_concerned = |relation: &&Relation| {
        let is_tied = |one: &&Relation| refers(relation, one) || refers(one, relation);
        (sets_off && relation.kind == RelationKind::Table)
            || touches(relation)
            || writes(relation)
            || written.iter().any(is_tied)
    };
    let concerned: Vec<&Relation> = all().filter(is_concerned).collect();
    let is_of_one = violated.table.as_ref().is_none_or(|table| {
        let dialect = catalog.dialect();
        let mut named = concerned.iter();
        named.any(|one| dialect.fold(&one.name) == dialect.fold(table))
    });
    // Each key's other end is known.
    let are_known = written.iter().all(|relation| {
        let mut keys = relation.foreign_keys.iter();
        keys.all(|key| catalog.find(&key.schema, &key.table).is_some())
    });
    let names = concerned.iter();
    let names = names.map(|one| (one.schema.as_str(), one.name.as_str()));
    (is_of_one && are_known && !written.is_empty()).then(|| names.collect())
}
