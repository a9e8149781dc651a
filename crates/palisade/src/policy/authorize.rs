//! The permit: proof that everything a statement touches was decided and permitted.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::obligation::{Caps, ColumnLevel, RelationDecision, RowFilter, Visibility};
use crate::policy::{
    approval::ApprovalDemand,
    cedar::schema::row_type,
    decide::{
        foreign_key::refuse_hidden_key,
        functions::FunctionDecision,
        writes::{ActionDecision, WriteDecision},
    },
    session_view::SessionView,
    statement_conditions::{PendingEstimatePolicies, check_conditions},
};
use crate::{
    access::{AccessSet, ChangeAccess, DefinedObject, DefinitionAccess},
    catalog::{
        Change, ColumnId, RelationId, computed_from,
        functions::{FunctionDef, shown_name},
        system_relation,
    },
    code::Code,
    rejection::Rejection,
    session::Principal,
};

/// Proof that a statement's whole access set is permitted, with the obligations of the permission.
///
/// Only `authorize` makes one, and it is used once:
///
/// ```compile_fail,E0599
/// fn twice(permit: palisade::policy::Permit) -> (palisade::policy::Permit, palisade::policy::Permit) {
///     (permit.clone(), permit)
/// }
/// ```
///
/// ```compile_fail,E0451
/// let forged = palisade::policy::Permit { max_affected: None, ..todo!() };
/// ```
#[derive(Debug)]
pub struct Permit {
    principal: Principal,
    relations: BTreeMap<RelationId, Arc<RelationDecision>>,
    writes: BTreeMap<RelationId, Arc<WriteDecision>>,
    policies: Vec<String>,
    approval: Option<ApprovalDemand>,
    obligations: Vec<String>,
    caps: Caps,
    max_affected: Option<u64>,
    filtered_cascades: BTreeSet<(RelationId, Change)>,
    reserved: Option<PendingEstimatePolicies>,
}

impl Permit {
    /// Uses it up: what is left of it belongs to the statement.
    pub(crate) fn spent(self) -> SpentPermit {
        SpentPermit {
            principal: self.principal,
            policies: self.policies,
            approval: self.approval,
            obligations: self.obligations,
        }
    }

    /// The decision about each relation the statement touches.
    pub(crate) fn relations(&self) -> &BTreeMap<RelationId, Arc<RelationDecision>> {
        &self.relations
    }

    /// The decision about each relation the statement changes.
    pub(crate) fn writes(&self) -> &BTreeMap<RelationId, Arc<WriteDecision>> {
        &self.writes
    }

    /// The smallest cap on changed rows that policies demand.
    pub(crate) fn max_affected(&self) -> Option<u64> {
        self.max_affected
    }

    /// Changes that the engine makes by itself to relations whose rows policy filters. They cannot be filtered, so a precheck
    /// looks for the rows that they would reach.
    pub(crate) fn filtered_cascades(&self) -> &BTreeSet<(RelationId, Change)> {
        &self.filtered_cascades
    }

    /// What policies have still to say when the engine's estimates are known.
    pub(crate) fn reserved(&self) -> Option<&PendingEstimatePolicies> {
        self.reserved.as_ref()
    }

    /// Ids of the policies that determined the permission, sorted, each once.
    pub(crate) fn policies(&self) -> &[String] {
        &self.policies
    }

    /// The approval without which it permits nothing.
    pub(crate) fn approval(&self) -> Option<&ApprovalDemand> {
        self.approval.as_ref()
    }

    /// The tightest caps on the answer that policies demand, and on the time of the statement.
    pub(crate) fn caps(&self) -> Caps {
        self.caps
    }
}

/// What a statement keeps of its permit.
#[derive(Debug)]
pub(crate) struct SpentPermit {
    /// For whom it was given.
    pub(crate) principal: Principal,
    /// Ids of the policies that determined it.
    pub(crate) policies: Vec<String>,
    /// The approval without which it permits nothing.
    pub(crate) approval: Option<ApprovalDemand>,
    /// What it obliges to, for records.
    pub(crate) obligations: Vec<String>,
}

/// Permits everything in `access`, or nothing.
///
/// # Errors
/// The first refusal, in this order: of a relation, of a change or a definition as such, of a column, of a function, of
/// the rows and columns that are changed. So a session that may not change a table learns nothing else of it. A name
/// that does not exist for the session is refused in the words for a name that does not exist at all.
pub(crate) fn authorize(
    session_view: &Arc<SessionView>,
    access: &AccessSet,
) -> Result<Permit, Rejection> {
    let relations = permit_relations(session_view, access)?;
    let changes = permit_changes(session_view, access)?;
    let mut changing = permit_definitions(session_view, access)?;
    check_given_columns(session_view, access)?;
    let mut reading = Determining::default();
    for decision in relations.values() {
        reading.add(&decision.policies);
    }
    permit_columns(session_view, access, &relations, &mut reading)?;
    permit_system_relations(session_view, access)?;
    let calls = permit_calls(session_view, access)?;
    for decision in &calls {
        reading.add(&decision.policies);
    }
    let Changed {
        writes,
        caps: changing_caps,
        filtered_cascades,
    } = check_changed_rows(session_view, access, changes, &mut changing)?;
    let reserved = check_conditions(session_view, access)?;
    reading.add(session_view.run_policies());
    let policies = reading.ids(&changing);
    let approval = session_view.demanded_approval(&policies, || reading.ids(&BTreeSet::new()));
    let caps = relations.values().map(|decision| decision.caps).fold(
        Caps {
            time_ms: changing_caps.time_ms,
            ..Caps::default()
        },
        Caps::tightest,
    );
    let max_affected = changing_caps.most_rows();
    let obligations = name_obligations(session_view, access, &relations, caps, max_affected);
    Ok(Permit {
        principal: session_view.principal().clone(),
        relations,
        writes,
        policies,
        approval,
        obligations,
        caps,
        max_affected,
        filtered_cascades,
        reserved,
    })
}

type Relations = BTreeMap<RelationId, Arc<RelationDecision>>;

/// Every relation that is touched, each permitted to be selected from.
fn permit_relations(
    session_view: &Arc<SessionView>,
    access: &AccessSet,
) -> Result<Relations, Rejection> {
    let touched: BTreeSet<RelationId> = access.relations().chain(access.relations_read()).collect();
    let mut relations = Relations::new();
    for id in touched {
        let decision = session_view.relation(id)?;
        require_selectable(&decision)?;
        relations.insert(id, decision);
    }
    Ok(relations)
}

/// Permits every definition, by the policies that are returned.
fn permit_definitions(
    session_view: &SessionView,
    access: &AccessSet,
) -> Result<BTreeSet<String>, Rejection> {
    let mut policies = BTreeSet::new();
    for definition in access.definitions() {
        let decided = session_view.decide_definition(definition)?;
        if !decided.permitted {
            return Err(refuse_definition(session_view, definition, &decided));
        }
        policies.extend(decided.policies);
    }
    Ok(policies)
}

/// Refuses a definition that gives values to a column which would be read as tokens or hashes.
fn check_given_columns(session_view: &SessionView, access: &AccessSet) -> Result<(), Rejection> {
    for column in access.given_columns() {
        let decided = session_view.decide_given(column)?;
        let read_as = decided.as_ref().and_then(|decided| decided.level.read_as());
        if let Some((decided, read_as)) = decided.as_ref().zip(read_as) {
            let message = format!(
                "column `{}` would be read as {read_as}, which could be guessed by the values that this definition gives it; \
                 give the column another name, or no values",
                column.name
            );
            return Err(Rejection::new(Code::WriteMaskedRead, message)
                .with_policies(decided.policies.clone()));
        }
    }
    Ok(())
}

/// Permits every column that is read, by policies that join those of `reading`.
fn permit_columns<'r>(
    session_view: &SessionView,
    access: &AccessSet,
    relations: &'r Relations,
    reading: &mut Determining<'r>,
) -> Result<(), Rejection> {
    let changes_anything =
        access.changes().next().is_some() || access.definitions().next().is_some();
    // Columns of one relation come after each other.
    let mut of: Option<(RelationId, &Arc<RelationDecision>)> = None;
    for id in access.columns_read() {
        if of.is_none_or(|(relation, _)| relation != id.relation) {
            of = relations
                .get(&id.relation)
                .map(|decision| (id.relation, decision));
        }
        let column = of.and_then(|(_, decision)| decision.columns.get(usize::from(id.index)));
        match column.map(|column| (&column.level, &column.policies)) {
            // What is masked for the reader would be the value itself, or would be lost.
            Some((ColumnLevel::Masked(_), determining)) if changes_anything => {
                return Err(refuse_masked_read(session_view, id, determining));
            }
            Some((ColumnLevel::Plain | ColumnLevel::Masked(_), determining)) => {
                reading.add(determining);
            }
            Some((ColumnLevel::Hidden, determining)) => {
                return Err(refuse_hidden_key(access, id, determining)
                    .unwrap_or_else(|| refuse(Code::NameUnknownColumn, determining)));
            }
            None => return Err(refuse(Code::NameUnknownColumn, &[])),
        }
    }
    Ok(())
}

/// Permits every relation of the engine's own that no policy can name.
fn permit_system_relations(
    session_view: &SessionView,
    access: &AccessSet,
) -> Result<(), Rejection> {
    for (schema, name) in access.system_relations() {
        let known = system_relation(session_view.catalog().dialect(), schema, name);
        if !known.map_or(Ok(false), |known| session_view.reads_system(known))? {
            return Err(refuse(Code::NameSystemRelation, &[]));
        }
    }
    Ok(())
}

/// Every call, each permitted.
fn permit_calls(
    session_view: &SessionView,
    access: &AccessSet,
) -> Result<Vec<Arc<FunctionDecision>>, Rejection> {
    let mut calls = Vec::new();
    for name in access.functions() {
        let Some(def) = session_view.catalog().function(name) else {
            let code = Code::FunctionNotAllowed;
            return Err(Rejection::new(
                code,
                format!("`{}`: {}", shown_name(name), code.summary()),
            ));
        };
        let decision = session_view.function(def)?;
        if !decision.permitted {
            return Err(refuse_call(session_view, def, &decision));
        }
        calls.push(decision);
    }
    Ok(calls)
}

/// What the permission obliges to, by name, for records: filters, masks of the columns that are read, and caps.
fn name_obligations(
    session_view: &SessionView,
    access: &AccessSet,
    relations: &Relations,
    caps: Caps,
    max_affected: Option<u64>,
) -> Vec<String> {
    let catalog = session_view.catalog();
    let mut out = Vec::new();
    for (id, decision) in relations {
        match (&decision.rows, catalog.relation(*id)) {
            (RowFilter::Everything, _) | (_, None) => {}
            (RowFilter::Nothing, Some(relation)) => out.push(format!("no-rows {}", relation.uid)),
            (RowFilter::Where(_), Some(relation)) => out.push(format!("filter {}", relation.uid)),
        }
    }
    for id in access.columns_read() {
        let decided = relations.get(&id.relation);
        let column = decided.and_then(|decision| decision.columns.get(usize::from(id.index)));
        match column.map(|column| &column.level) {
            Some(ColumnLevel::Masked(_)) => {
                let relation = catalog.relation(id.relation).map_or("", |r| r.uid.as_str());
                let name = catalog.column(id).map_or("", |column| &*column.name);
                out.push(format!("mask {relation}.{name}"));
            }
            Some(ColumnLevel::Plain | ColumnLevel::Hidden) | None => {}
        }
    }
    out.extend(
        caps.rows_as_written()
            .map(|rows| format!("max-rows {rows}")),
    );
    out.extend(
        caps.time_as_written()
            .map(|time| format!("max-time {time}")),
    );
    out.extend(max_affected.map(|rows| format!("max-affected-rows {rows}")));
    out
}

/// The refusal of a call. Classes of functions are the same for everybody. Only the operator is told of policies.
fn refuse_call(
    session_view: &SessionView,
    def: &FunctionDef,
    decision: &FunctionDecision,
) -> Rejection {
    let (uid, class) = (&def.uid, def.safety.name());
    let needs_name = def.safety.needs_named_permit();
    let is_forbidden = session_view.forbids_call(&decision.policies);
    let why = match (is_forbidden, needs_name) {
        (true, _) => "which a policy forbids",
        (false, true) => "and no policy permits it by name",
        (false, false) => "and no policy permits it",
    };
    let name = shown_name(uid);
    let operators = session_view.catalog().operators().iter();
    let symbols: BTreeSet<&str> = operators
        .filter(|operator| operator.function == *uid)
        .map(|operator| operator.name.as_str())
        .collect();
    let message = match symbols.first() {
        None => format!("`{name}` is a function of the class `{class}`, {why}"),
        Some(symbol) => format!(
            "`{name}`, the function of the database's operator `{symbol}`, is of the class `{class}`, {why}"
        ),
    };
    let message = match find_replacement(uid) {
        None => message,
        Some(instead) => format!("{message}; {instead}"),
    };
    let detail = match (is_forbidden, needs_name) {
        (true, _) => format!("forbidden by {}", decision.policies.join(", ")),
        (false, true) => suggest_permit(session_view, "call", &Suggested::Function(uid)),
        (false, false) => suggest_permit(session_view, "call", &Suggested::Class(class)),
    };
    Rejection::new(Code::FunctionNotAllowed, message)
        .with_policies(decision.policies.clone())
        .with_operator_detail(detail)
}

/// Of what a permit is suggested.
enum Suggested<'s> {
    /// The function with this uid.
    Function(&'s str),
    /// Functions of this class.
    Class(&'s str),
    /// The table with this uid.
    Table(&'s str),
    /// Rows of this type.
    Rows(&'s str),
}

/// The policy that would permit the session's principal what was refused, for the operator.
fn suggest_permit(session_view: &SessionView, action: &str, of: &Suggested<'_>) -> String {
    let more = match of {
        Suggested::Class(_) => " and others of its class",
        Suggested::Function(_) | Suggested::Table(_) | Suggested::Rows(_) => "",
    };
    let resource = match of {
        Suggested::Function(uid) => format!("resource == Function::{uid:?})"),
        Suggested::Class(class) => format!("resource) when {{ resource.safety == \"{class}\" }}"),
        Suggested::Table(uid) => format!("resource == Table::{uid:?})"),
        Suggested::Rows(row_type) => format!("resource is {row_type})"),
    };
    let principal = session_view.principal();
    format!(
        "this policy would permit it{more}: `permit (principal == {principal}, action == Action::\"{action}\", {resource};`"
    )
}

/// What to do without a function that tells of the schema, where the same is told in another way.
fn find_replacement(uid: &str) -> Option<&'static str> {
    let tells_labels = matches!(
        uid,
        "pg_catalog.enum_first" | "pg_catalog.enum_last" | "pg_catalog.enum_range"
    );
    tells_labels.then_some(
        "the description of a table tells the labels of its enum columns: list them in VALUES",
    )
}

type Writes = BTreeMap<RelationId, Arc<WriteDecision>>;

/// A change that is permitted as such.
struct Permitted {
    access: ChangeAccess,
    write: Arc<WriteDecision>,
    action: ActionDecision,
}

/// Every change, each permitted as such; those that the statement makes are asked for before those that the engine makes
/// for them.
fn permit_changes(
    session_view: &SessionView,
    access: &AccessSet,
) -> Result<Vec<Permitted>, Rejection> {
    let mut changes: Vec<ChangeAccess> = access.changes().collect();
    changes.sort_by_key(|change| change.cascaded);
    changes
        .into_iter()
        .map(|access| {
            let write = session_view.write(access.relation)?;
            let action = write.action(access.change);
            if action.permitted {
                Ok(Permitted {
                    access,
                    write,
                    action,
                })
            } else {
                Err(refuse_change(
                    session_view,
                    access.relation,
                    access.change,
                    &action,
                ))
            }
        })
        .collect()
}

/// What was decided about all changes.
struct Changed {
    writes: Writes,
    /// The tightest caps; `rows` are those that it may change.
    caps: Caps,
    filtered_cascades: BTreeSet<(RelationId, Change)>,
}

/// Checks the rows and columns of every change.
fn check_changed_rows(
    session_view: &SessionView,
    access: &AccessSet,
    changes: Vec<Permitted>,
    policies: &mut BTreeSet<String>,
) -> Result<Changed, Rejection> {
    let mut filtered_cascades = BTreeSet::new();
    let mut writes = Writes::new();
    let mut caps = Caps::default();
    for Permitted {
        access:
            ChangeAccess {
                relation,
                change,
                cascaded,
                conditioned,
            },
        write,
        action,
    } in changes
    {
        if !conditioned && !action.unconditional {
            let message = format!(
                "{} without a condition on the table's columns may change any row",
                change.name().to_uppercase()
            );
            return Err(
                Rejection::new(Code::WriteUnconditional, message).with_policies(action.policies)
            );
        }
        let rows = match change {
            Change::Insert => [&write.add, &RowFilter::Everything],
            Change::Update => [&write.change, &write.add],
            Change::Delete | Change::Truncate => [&write.change, &RowFilter::Everything],
        };
        if rows.contains(&&RowFilter::Nothing) {
            let rows = write.row_policies(change).cloned();
            let mut determining: Vec<String> = action.policies.into_iter().chain(rows).collect();
            determining.sort();
            determining.dedup();
            return Err(
                refuse_rows(session_view, relation, change, &write).with_policies(determining)
            );
        }
        // Nothing can stand between the engine and the rows it reaches by itself.
        if cascaded || change == Change::Truncate {
            let seen = session_view.relation(relation)?;
            let whole = |rows: &RowFilter| *rows == RowFilter::Everything;
            if !(rows.into_iter().all(whole) && whole(&seen.rows)) {
                if change == Change::Truncate {
                    let message = "the truncate would reach rows that row policies protect";
                    return Err(Rejection::new(Code::ObligationInapplicable, message)
                        .with_policies(action.policies));
                }
                filtered_cascades.insert((relation, change));
            }
        }
        caps = caps.tightest(action.caps);
        policies.extend(action.policies);
        if !conditioned {
            caps = caps.tightest(action.unconditional_caps);
            policies.extend(action.unconditional_policies);
        }
        policies.extend(write.row_policies(change).cloned());
        writes.insert(relation, write);
    }
    permit_written_columns(session_view, access, policies)?;
    refuse_guesses(session_view, access)?;
    Ok(Changed {
        writes,
        caps,
        filtered_cascades,
    })
}

/// Permits every column that is assigned, by policies that join `policies`.
fn permit_written_columns(
    session_view: &SessionView,
    access: &AccessSet,
    policies: &mut BTreeSet<String>,
) -> Result<(), Rejection> {
    for id in access.columns_written() {
        let write = session_view.write(id.relation)?;
        let column = write.columns.get(usize::from(id.index));
        let determining = column.map_or(&[][..], |column| column.policies.as_slice());
        if !write.assigns(id.index) {
            let name = session_view.catalog().column(id).map_or("", |c| &*c.name);
            let exists = session_view
                .relation(id.relation)?
                .columns
                .get(usize::from(id.index))
                .is_some_and(|column| column.level != ColumnLevel::Hidden);
            return Err(if exists {
                let message = format!("no policy permits writing column `{name}`");
                Rejection::new(Code::PolicyNoPermit, message).with_policies(determining.to_vec())
            } else {
                refuse(Code::NameUnknownColumn, determining)
            });
        }
        policies.extend(determining.iter().cloned());
    }
    Ok(())
}

/// Refuses to write what the session reads as tokens or hashes, and what such columns are generated from: whoever writes a guess and
/// reads what becomes of it knows whether the guess is right.
fn refuse_guesses(session_view: &SessionView, access: &AccessSet) -> Result<(), Rejection> {
    let catalog = session_view.catalog();
    let mut written: BTreeMap<RelationId, BTreeSet<u16>> = BTreeMap::new();
    for id in access.columns_written() {
        written.entry(id.relation).or_default().insert(id.index);
    }
    for (id, written) in written {
        let seen = session_view.relation(id)?;
        let Some(relation) = catalog.relation(id) else {
            continue;
        };
        for ((id, column), decided) in relation.column_ids().zip(&seen.columns) {
            let Some(read_as) = decided.level.read_as() else {
                continue;
            };
            let from = computed_from([id.index], relation, catalog.dialect());
            let name = &column.name;
            let what = match from.intersection(&written).next() {
                None => continue,
                Some(index) if *index == id.index => "writing values to it".to_owned(),
                Some(index) => {
                    let from = relation.column(*index).map_or("", |column| &*column.name);
                    format!("writing values to `{from}`, from which it is generated")
                }
            };
            let message =
                format!("column `{name}` is read as {read_as}, which could be guessed by {what}");
            return Err(Rejection::new(Code::WriteMaskedRead, message)
                .with_policies(decided.policies.clone()));
        }
    }
    Ok(())
}

/// The refusal of a change; what does not exist for the session is refused as unknown.
fn refuse_change(
    session_view: &SessionView,
    relation: RelationId,
    change: Change,
    action: &ActionDecision,
) -> Rejection {
    let exists = session_view
        .relation(relation)
        .is_ok_and(|decision| decision.visibility != Visibility::Absent);
    if !exists {
        return refuse(Code::NameUnknownRelation, &action.policies);
    }
    let name = session_view
        .catalog()
        .relation(relation)
        .map_or("", |relation| relation.name.as_str());
    let message = match &action.message {
        Some(message) => message.clone(),
        None if action.policies.is_empty() => {
            format!("no policy permits {} on `{name}`", change.name())
        }
        None => format!("a policy forbids {} on `{name}`", change.name()),
    };
    let refusal = Rejection::new(action.code(), message).with_policies(action.policies.clone());
    let uid = session_view.catalog().relation(relation).map(|r| &r.uid);
    match uid.filter(|_| action.policies.is_empty()) {
        None => refusal,
        Some(uid) => refusal.with_operator_detail(format!(
            "`{uid}` exists; no policy permits `{}` of it to {}; {}",
            change.name(),
            session_view.shown_principal(),
            suggest_permit(session_view, change.name(), &Suggested::Table(uid)),
        )),
    }
}

/// The refusal of a change of which no row may be reached, or left. The operator is told which permit of rows it lacks.
fn refuse_rows(
    session_view: &SessionView,
    relation: RelationId,
    change: Change,
    write: &WriteDecision,
) -> Rejection {
    let code = Code::PolicyNoPermit;
    let reaches = match change {
        Change::Insert => false,
        Change::Update | Change::Delete | Change::Truncate => true,
    };
    let (action, what) = if reaches && write.change == RowFilter::Nothing {
        ("change", "rows to be changed")
    } else {
        ("add", "what a row may be like after a change")
    };
    let Some(relation) = session_view.catalog().relation(relation) else {
        return Rejection::from(code);
    };
    let detail = format!(
        "no policy permits `{action}` ({what}) on `{}` to {}; {}",
        relation.uid,
        session_view.shown_principal(),
        suggest_permit(session_view, action, &Suggested::Rows(&row_type(relation))),
    );
    Rejection::from(code).with_operator_detail(detail)
}

/// The refusal of a definition.
fn refuse_definition(
    session_view: &SessionView,
    access: &DefinitionAccess,
    decided: &ActionDecision,
) -> Rejection {
    let name = match &access.object {
        DefinedObject::Relation(id) => session_view
            .catalog()
            .relation(*id)
            .map_or_else(String::new, |relation| relation.name.clone()),
        DefinedObject::New {
            schema: _,
            name,
            view: _,
        } => name.clone(),
    };
    let message = decided
        .message
        .clone()
        .unwrap_or_else(|| format!("no policy permits {} of `{name}`", access.definition.name()));
    Rejection::new(decided.code(), message).with_policies(decided.policies.clone())
}

fn refuse_masked_read(session_view: &SessionView, id: ColumnId, policies: &[String]) -> Rejection {
    let name = session_view.catalog().column(id).map_or("", |c| &*c.name);
    Rejection::new(
        Code::WriteMaskedRead,
        format!("column `{name}` is masked, and a statement that changes data cannot read it"),
    )
    .with_policies(policies.to_vec())
}

/// Ids of policies that determined a permission. What was decided alike, as most columns of a statement
/// are, has the same list, which need not be taken apart again.
#[derive(Default)]
struct Determining<'p> {
    lists: Vec<&'p [String]>,
}

impl<'p> Determining<'p> {
    fn add(&mut self, list: &'p [String]) {
        if !self.lists.contains(&list) {
            self.lists.push(list);
        }
    }

    /// Those and `more`, sorted, each once.
    fn ids(&self, more: &BTreeSet<String>) -> Vec<String> {
        let mut ids: Vec<&String> = self.lists.iter().copied().flatten().chain(more).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.into_iter().cloned().collect()
    }
}

fn require_selectable(decision: &RelationDecision) -> Result<(), Rejection> {
    match decision.visibility {
        Visibility::Selectable => Ok(()),
        Visibility::Discoverable(code) => {
            let message = decision.message.as_deref().unwrap_or(code.summary());
            Err(Rejection::new(code, message).with_policies(decision.policies.clone()))
        }
        Visibility::Absent => Err(refuse(Code::NameUnknownRelation, &decision.policies)),
    }
}

fn refuse(code: Code, policies: &[String]) -> Rejection {
    Rejection::from(code).with_policies(policies.to_vec())
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        reason = "tests"
    )]

    use super::*;
    use crate::{
        access::{ColumnUses, StatementFacts, Usage},
        policy::tests::fixture::{agent, catalog, column_id, relation_id, set},
    };

    const POLICIES: &str = "
        @id(\"select\") @max_rows(\"50\") permit(principal, action == Action::\"select\", resource);
        @id(\"see\") permit(principal, action == Action::\"see\", resource);
        @id(\"read\") permit(principal, action in Action::\"read\", resource);
        @id(\"call\") permit(principal, action == Action::\"call\", resource);
        @id(\"discover\") permit(principal, action == Action::\"discover\", resource == Table::\"main.contacts\");
        @id(\"contacts\") @message(\"ask support\") forbid(principal, action == Action::\"select\", resource == Table::\"main.contacts\");
        @id(\"hide\") forbid(principal, action in Action::\"read\", resource == Column::\"main.customers.ssn\");
        @id(\"mask\") forbid(principal, action == Action::\"read_plain\", resource == Column::\"main.customers.email\");
        ";

    fn access(relations: &[&str], columns: &[&str], functions: &[&str]) -> AccessSet {
        let catalog = catalog();
        let mut used = ColumnUses::default();
        for uid in columns {
            used.insert(column_id(&catalog, uid), Usage::Output);
        }
        AccessSet {
            relations: relations.iter().map(|name| relation_id(name)).collect(),
            columns: used,
            functions: functions.iter().map(|name| (*name).to_owned()).collect(),
            system: BTreeSet::new(),
            changes: BTreeSet::new(),
            definitions: BTreeSet::new(),
            given: BTreeSet::new(),
            facts: StatementFacts::default(),
        }
    }

    fn check(access: &AccessSet) -> Result<Permit, Rejection> {
        authorize(&set(POLICIES).session(&agent("bot")), access)
    }

    #[test]
    fn a_permit_carries_what_was_decided() {
        let touched = access(
            &["customers"],
            &["main.customers.email", "main.customers.id"],
            &["lower"],
        );
        let permit = check(&touched).unwrap();
        assert_eq!(permit.policies(), ["call", "mask", "read", "see", "select"]);
        assert_eq!(permit.caps().rows, Some(50));
        assert_eq!(permit.relations().len(), 1);
        assert!(permit.relations().contains_key(&relation_id("customers")));
        assert!(!permit.relations().contains_key(&relation_id("tickets")));
    }

    #[test]
    fn everything_is_checked_again() {
        for (touched, code) in [
            (
                access(&["sqlite_schema"], &[], &[]),
                Code::NameUnknownRelation,
            ),
            (
                access(&["customers", "contacts"], &[], &[]),
                Code::PolicyForbidden,
            ),
            (
                access(&["customers"], &["main.customers.ssn"], &[]),
                Code::NameUnknownColumn,
            ),
            // A column whose relation was left out of the set.
            (
                access(&[], &["main.contacts.address"], &[]),
                Code::PolicyForbidden,
            ),
            (
                access(&["customers"], &[], &["load_extension"]),
                Code::FunctionNotAllowed,
            ),
            (
                access(&["customers"], &[], &["no_such_function"]),
                Code::FunctionNotAllowed,
            ),
        ] {
            let refused = check(&touched).unwrap_err();
            assert_eq!(refused.code(), code, "{refused}");
        }
    }

    #[test]
    fn a_refused_call_tells_its_class_and_the_operator_what_permits_it() {
        let blanket = "permit(principal, action == Action::\"call\", resource);";
        for (policies, function, message, detail) in [
            (
                "",
                "coalesce",
                "`coalesce` is a function of the class `pure`, and no policy permits it",
                "this policy would permit it and others of its class: `permit (principal == Agent::\"bot\", \
                 action == Action::\"call\", resource) when { resource.safety == \"pure\" };`",
            ),
            (
                "permit(principal, action == Action::\"call\", resource) when { resource.safety == \"pure\" };",
                "random",
                "`random` is a function of the class `volatile`, and no policy permits it",
                "when { resource.safety == \"volatile\" };`",
            ),
            (
                blanket,
                "zeroblob",
                "`zeroblob` is a function of the class `resource`, and no policy permits it by name",
                "this policy would permit it: `permit (principal == Agent::\"bot\", action == Action::\"call\", \
                 resource == Function::\"zeroblob\");`",
            ),
            (
                "permit(principal, action == Action::\"call\", resource);
                 @id(\"no\") forbid(principal, action == Action::\"call\", resource == Function::\"lower\");",
                "lower",
                "`lower` is a function of the class `pure`, which a policy forbids",
                "forbidden by no",
            ),
        ] {
            let told = {
                let set = set(policies);
                let view = set.session(&agent("bot"));
                authorize(&view, &access(&[], &[], &[function])).unwrap_err()
            };
            assert_eq!(told.code(), Code::FunctionNotAllowed);
            assert_eq!(told.message(), message);
            let found = told.operator_detail().unwrap_or_default();
            assert!(found.ends_with(detail), "{found}");
            // What it says is a policy that permits the call.
            let policy = found.split('`').nth(1).filter(|policy| policy.starts_with("permit"));
            if let Some(policy) = policy {
                let set = set(&format!("{policies}\n{policy}"));
                let view = set.session(&agent("bot"));
                assert!(authorize(&view, &access(&[], &[], &[function])).is_ok(), "{policy}");
            }
        }
    }

    #[test]
    fn a_refusal_uses_the_policy_message() {
        let refused = check(&access(&["contacts"], &[], &[])).unwrap_err();
        assert_eq!(refused.message(), "ask support");
        assert_eq!(refused.policies(), ["contacts"]);
    }

    #[test]
    fn nothing_touched_is_permitted() {
        assert!(check(&AccessSet::default()).unwrap().relations().is_empty());
    }
}
