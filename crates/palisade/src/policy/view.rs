//! What exists for one session: decided when first asked, then remembered.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use cedar_policy::{Context, Entities, PolicyId};

use super::{
    decide::{Circumstances, Failure, Subject, Verdict, decide, decide_among},
    define, inherit,
    load::Loaded,
    masks,
    obligation::{ColumnDecision, ColumnLevel, Mask, RelationDecision, RowFilter, Visibility},
    rows::rows,
    schema::{self, Action},
    store,
    timed::Moment,
    tokens,
    writes::{self, ActionDecision, WriteDecision},
};
use crate::{
    access::DefinitionAccess,
    catalog::{
        Catalog, Change, Column, ColumnId, Relation, RelationId, RelationKind,
        functions::FunctionDef,
    },
    code::Code,
    dialect::Dialect,
    rejection::Rejection,
    session::{Principal, Session},
};

/// What one session may know of the catalog. An answer, once given, does not change.
#[derive(Debug)]
pub struct SessionView {
    principal: Principal,
    pub(super) loaded: Arc<Loaded>,
    pub(super) subject: Result<Subject, Rejection>,
    relations: Mutex<HashMap<RelationId, Result<Arc<RelationDecision>, Rejection>>>,
    functions: Mutex<HashMap<String, Result<Arc<FunctionDecision>, Rejection>>>,
    writes: Mutex<HashMap<RelationId, Result<Arc<WriteDecision>, Rejection>>>,
    /// Set for a session that has a time which policies look at.
    pub(super) moment: Option<Moment>,
}

/// What was decided about a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionDecision {
    /// Whether it may be called.
    pub permitted: bool,
    /// Ids of the policies that determined it, sorted.
    pub policies: Vec<String>,
}

impl SessionView {
    pub(super) fn new(loaded: Arc<Loaded>, session: &Session) -> Self {
        let subject = subject(&loaded, session);
        Self {
            principal: session.principal().clone(),
            loaded,
            subject,
            relations: Mutex::default(),
            functions: Mutex::default(),
            writes: Mutex::default(),
            moment: None,
        }
    }

    /// Who asks.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// The catalog of which this is a view.
    #[must_use]
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.loaded.catalog
    }

    /// What was decided about a relation. One that is unreadable by its kind, or of another catalog,
    /// is absent.
    ///
    /// # Errors
    /// `policy.evaluation-failed` if a policy that could matter fails to evaluate;
    /// `policy.no-permit` if the session's principal is of no type that policies can permit anything.
    pub fn relation(&self, id: RelationId) -> Result<Arc<RelationDecision>, Rejection> {
        let subject = self.subject.as_ref().map_err(Clone::clone)?;
        if let Some(known) = lock(&self.relations).get(&id) {
            return known.clone();
        }
        if let (Some(moment), Some(relation)) = (&self.moment, self.loaded.catalog.relation(id))
            && let Some(steady) = moment.steady_relation(&self.loaded, subject, relation)?
        {
            return steady.relation(id);
        }
        // Decided without the lock: two threads may do the work twice, with the same result.
        let decision = self
            .loaded
            .catalog
            .relation(id)
            .filter(|relation| schema::has_entity(relation))
            .map_or_else(
                || Ok(absent(self.loaded.catalog.relation(id))),
                |relation| relation_decision(&self.loaded, subject, relation),
            )
            .map(Arc::new)
            .map_err(Rejection::from);
        lock(&self.relations).insert(id, decision.clone());
        decision
    }

    /// Whether any policy permits anybody to change anything.
    #[must_use]
    pub fn may_write(&self) -> bool {
        Change::ALL
            .into_iter()
            .any(|change| self.loaded.policies.permits(writes::action(change)))
    }

    /// Whether any policy permits anybody to change the schema or to empty tables.
    #[must_use]
    pub fn may_define(&self) -> bool {
        [
            Action::Create,
            Action::Alter,
            Action::Drop,
            Action::Truncate,
        ]
        .into_iter()
        .any(|action| self.loaded.policies.permits(action))
    }

    /// Whether the schema may be changed so.
    ///
    /// # Errors
    /// As [`relation`](Self::relation).
    pub fn define(&self, access: &DefinitionAccess) -> Result<ActionDecision, Rejection> {
        let subject = self.subject.as_ref().map_err(Clone::clone)?;
        // Notes whether it depends on the time; it is not remembered either way.
        let _ = self.steady(&[define::action(access.definition)]);
        define::decision(&self.loaded, subject, access).map_err(Rejection::from)
    }

    /// What may be changed of a relation. Nothing of one that is no table.
    ///
    /// # Errors
    /// As [`relation`](Self::relation).
    pub fn write(&self, id: RelationId) -> Result<Arc<WriteDecision>, Rejection> {
        let subject = self.subject.as_ref().map_err(Clone::clone)?;
        if let Some(known) = lock(&self.writes).get(&id) {
            return known.clone();
        }
        if let Some(steady) = self.steady(writes::ACTIONS) {
            return steady.write(id);
        }
        let decision = match self.loaded.catalog.relation(id) {
            Some(relation) if relation.kind == RelationKind::Table => {
                writes::decision(&self.loaded, subject, relation)
            }
            Some(_) | None => Ok(WriteDecision::nothing()),
        };
        let decision = decision.map(Arc::new).map_err(Rejection::from);
        lock(&self.writes).insert(id, decision.clone());
        decision
    }

    /// Whether a function may be called. One that reaches beyond its arguments needs a permit whose
    /// scope names it; a blanket permit does not count.
    ///
    /// # Errors
    /// As [`relation`](Self::relation).
    pub fn function(&self, def: &FunctionDef) -> Result<Arc<FunctionDecision>, Rejection> {
        let subject = self.subject.as_ref().map_err(Clone::clone)?;
        if let Some(known) = lock(&self.functions).get(&def.uid) {
            return known.clone();
        }
        if let Some(steady) = self.steady(&[Action::Call]) {
            return steady.function(def);
        }
        let decision = function_decision(&self.loaded, subject, def)
            .map(Arc::new)
            .map_err(Rejection::from);
        lock(&self.functions).insert(def.uid.clone(), decision.clone());
        decision
    }

    /// Whether nothing of the catalog is kept from the session: every relation is readable, whole and
    /// without masks. Names in the engine's own relations tell such a session nothing new.
    ///
    /// # Errors
    /// As [`relation`](Self::relation), for the first relation that fails.
    pub fn sees_everything(&self) -> Result<bool, Rejection> {
        for relation in self.loaded.catalog.relations() {
            match relation.kind {
                RelationKind::Table | RelationKind::View | RelationKind::Materialized => {}
                RelationKind::Virtual | RelationKind::System => continue,
            }
            let decision = self.relation(relation.id)?;
            if decision.visibility != Visibility::Selectable || decision.has_obligation() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Every relation that exists for the session, in the catalog's order.
    ///
    /// # Errors
    /// As [`relation`](Self::relation), for the first relation that fails.
    pub fn discoverable(&self) -> Result<Vec<(RelationId, Arc<RelationDecision>)>, Rejection> {
        let mut out = Vec::new();
        for relation in self.loaded.catalog.relations() {
            let decision = self.relation(relation.id)?;
            match decision.visibility {
                Visibility::Selectable | Visibility::Discoverable(_) => {
                    out.push((relation.id, decision));
                }
                Visibility::Absent => {}
            }
        }
        Ok(out)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A poisoned lock guards a map of finished values; the panic was elsewhere.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn subject(loaded: &Loaded, session: &Session) -> Result<Subject, Rejection> {
    let principal = session.principal();
    let uid = store::uid(principal.kind(), principal.id()).filter(|uid| {
        loaded
            .schema
            .principals()
            .any(|kind| kind == uid.type_name())
    });
    let Some(uid) = uid else {
        return Err(
            Rejection::new(Code::PolicyNoPermit, Code::PolicyNoPermit.summary())
                .with_operator_detail(format!(
                    "principal {principal}: `{}` is not a principal type",
                    principal.kind()
                )),
        );
    };
    let store = loaded.store.with_principal(&uid, &loaded.schema);
    let circumstances = Circumstances::of(session);
    Ok(Subject {
        epoch: session.epoch(),
        uid,
        store,
        context: circumstances.context()?,
        circumstances,
    })
}

fn absent(relation: Option<&Relation>) -> RelationDecision {
    let columns = relation.map_or(0, |relation| relation.columns.len());
    RelationDecision {
        visibility: Visibility::Absent,
        columns: hidden(columns),
        rows: RowFilter::Nothing,
        max_rows: None,
        policies: Vec::new(),
        message: None,
    }
}

fn hidden(columns: usize) -> Vec<ColumnDecision> {
    vec![
        ColumnDecision {
            level: ColumnLevel::Hidden,
            policies: Vec::new()
        };
        columns
    ]
}

/// What is decided about a relation, no looser than what is decided about its ancestors and forbidden
/// of its descendants.
fn relation_decision(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
) -> Result<RelationDecision, Failure> {
    let catalog = &loaded.catalog;
    let mut decision = own_decision(loaded, subject, relation)?;
    let above = loaded.inheritance.ancestors(catalog, relation);
    let below = loaded.inheritance.descendants(catalog, relation);
    for other in &above {
        let theirs = if schema::has_entity(other) {
            own_decision(loaded, subject, other)?
        } else {
            absent(Some(other))
        };
        inherit::tighten(&mut decision, relation, other, &theirs);
    }
    let mut known = HashMap::new();
    for other in &below {
        if decision.visibility != Visibility::Selectable {
            break;
        }
        let theirs = forbidden(loaded, subject, relation, other, &mut known)?;
        inherit::tighten(&mut decision, relation, other, &theirs);
    }
    if decision.visibility == Visibility::Selectable {
        if !(above.is_empty() && below.is_empty()) {
            tighten_generated(loaded, relation, &mut decision.columns);
        }
        masks::settle(loaded, subject, relation, &mut decision.columns);
    } else {
        decision.columns = hidden(relation.columns.len());
        decision.rows = RowFilter::Nothing;
        decision.max_rows = None;
    }
    Ok(decision)
}

/// What columns' forbids were decided to, by what policies can tell of a column and its relation.
type KnownColumns<'a> =
    HashMap<(Option<&'a str>, Option<&'a str>, ColumnClass<'a>), ColumnDecision>;

/// What policies forbid of `below`, which inherits from `relation`, as a decision about `below` that is
/// otherwise all permission.
fn forbidden<'a>(
    loaded: &'a Loaded,
    subject: &Subject,
    relation: &Relation,
    below: &'a Relation,
    known: &mut KnownColumns<'a>,
) -> Result<RelationDecision, Failure> {
    let mut out = RelationDecision {
        visibility: Visibility::Selectable,
        columns: vec![
            ColumnDecision {
                level: ColumnLevel::Plain,
                policies: Vec::new()
            };
            below.columns.len()
        ],
        rows: RowFilter::Everything,
        max_rows: None,
        policies: Vec::new(),
        message: None,
    };
    if !schema::has_entity(below) {
        return Ok(absent(Some(below)));
    }
    if loaded.policies.forbids(Action::Select) {
        let table = resource("Table", &below.uid)?;
        let select = decide(loaded, subject, Action::Select, table)?;
        // Cedar names policies in a denial only if they forbid.
        if !select.permitted && !select.policies.is_empty() {
            let table = resource("Table", &relation.uid)?;
            let refused = unreadable(loaded, subject, relation, table, select)?;
            return Ok(RelationDecision {
                columns: hidden(below.columns.len()),
                ..refused
            });
        }
    }
    if loaded.policies.forbids(Action::ReadPlain) {
        let named = loaded.tables_in_attributes || loaded.named_tables.contains(&below.uid);
        let table = named.then_some(below.uid.as_str());
        for ((id, column), decided) in below.column_ids().zip(&mut out.columns) {
            if relation.position(&column.key).is_none() {
                continue;
            }
            let class = ColumnClass::of(loaded, id, &column.uid, column.nullable);
            let key = (Some(below.schema.as_str()), table, class);
            *decided = match known.get(&key) {
                Some(decision) => decision.clone(),
                None => {
                    let decision = column_forbids(loaded, subject, &column.uid)?;
                    known.insert(key, decision.clone());
                    decision
                }
            };
        }
    }
    if loaded.policies.forbids(Action::See) {
        let rows = rows(loaded, subject, below, Action::See)?;
        out.rows = rows.unforbidden;
        out.policies = rows.forbidding.into_iter().collect();
    }
    Ok(out)
}

/// What forbids alone leave of a column.
fn column_forbids(
    loaded: &Loaded,
    subject: &Subject,
    uid: &str,
) -> Result<ColumnDecision, Failure> {
    let column = resource("Column", uid)?;
    let plain = decide(loaded, subject, Action::ReadPlain, column.clone())?;
    if plain.permitted || plain.policies.is_empty() {
        return Ok(ColumnDecision {
            level: ColumnLevel::Plain,
            policies: Vec::new(),
        });
    }
    if let Some(token) = tokens::instead(loaded, subject, &column, &plain)? {
        return Ok(token);
    }
    let masked = decide(loaded, subject, Action::ReadMasked, column)?;
    if !masked.permitted && !masked.policies.is_empty() {
        return Ok(ColumnDecision {
            level: ColumnLevel::Hidden,
            policies: plain.policies.into_iter().chain(masked.policies).collect(),
        });
    }
    let mask = demanded(loaded, plain.policies.iter());
    Ok(ColumnDecision {
        level: ColumnLevel::Masked(mask),
        policies: plain.policies,
    })
}

/// The strictest mask that the policies demand; NULL if none does.
fn demanded<'p>(loaded: &Loaded, policies: impl Iterator<Item = &'p String>) -> Mask {
    loaded.demands(policies).mask.unwrap_or(Mask::Null)
}

/// What policies say of a relation alone.
fn own_decision(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
) -> Result<RelationDecision, Failure> {
    let table = resource("Table", &relation.uid)?;
    let select = decide(loaded, subject, Action::Select, table.clone())?;
    if !select.permitted {
        return unreadable(loaded, subject, relation, table, select);
    }
    let rows = rows(loaded, subject, relation, Action::See)?;
    let demanded = loaded.demands(&select.policies).max_rows;
    let max_rows = demanded.into_iter().chain(rows.max_rows).min();
    let mut policies: BTreeSet<String> = rows.policies;
    policies.extend(select.policies);
    Ok(RelationDecision {
        visibility: Visibility::Selectable,
        columns: columns(loaded, subject, relation)?,
        rows: rows.filter,
        max_rows,
        policies: policies.into_iter().collect(),
        message: None,
    })
}

/// A relation that may not be selected: known of, or absent. Its columns are hidden either way.
fn unreadable(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
    table: cedar_policy::EntityUid,
    select: Verdict,
) -> Result<RelationDecision, Failure> {
    let discover = decide(loaded, subject, Action::Discover, table)?;
    // Cedar names policies in a denial only if they forbid.
    let code = if select.policies.is_empty() {
        Code::PolicyNoPermit
    } else {
        Code::PolicyForbidden
    };
    let visibility = if discover.permitted {
        Visibility::Discoverable(code)
    } else {
        Visibility::Absent
    };
    // What does not exist has nothing to say.
    let message = select
        .policies
        .iter()
        .filter(|_| discover.permitted)
        .find_map(|id| {
            loaded
                .annotations
                .get(id)
                .and_then(|annotations| annotations.message.clone())
        });
    Ok(RelationDecision {
        visibility,
        columns: hidden(relation.columns.len()),
        rows: RowFilter::Nothing,
        max_rows: None,
        policies: select.policies,
        message,
    })
}

/// One decision for each column; columns that no policy can tell apart share theirs.
pub(super) fn columns(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
) -> Result<Vec<ColumnDecision>, Failure> {
    let mut classes: HashMap<ColumnClass<'_>, ColumnDecision> = HashMap::new();
    let mut out = Vec::with_capacity(relation.columns.len());
    for (id, column) in relation.column_ids() {
        let class = ColumnClass::of(loaded, id, &column.uid, column.nullable);
        let decision = match classes.get(&class) {
            Some(decision) => decision.clone(),
            None => {
                let decision = column_decision(loaded, subject, &column.uid)?;
                classes.insert(class, decision.clone());
                decision
            }
        };
        out.push(decision);
    }
    tighten_generated(loaded, relation, &mut out);
    Ok(out)
}

/// A mask that a column cannot have.
pub(super) struct UnfitMask {
    pub(super) mask: Mask,
    /// The column's uid.
    pub(super) column: String,
    /// Why not.
    pub(super) why: String,
}

impl UnfitMask {
    fn new(mask: Mask, column: &Column, dialect: Dialect) -> Self {
        let why = match &mask {
            Mask::Expr(expr) => masks::misfit(expr, column, dialect),
            _ => None,
        };
        Self {
            mask,
            column: column.uid.clone(),
            why: why.unwrap_or_else(|| "its type has no such values".to_owned()),
        }
    }
}

/// The policies whose masks some column of `relation` cannot have.
pub(super) fn unfit_masks(
    loaded: &Loaded,
    subject: &Subject,
    relation: &Relation,
) -> Result<Vec<(String, UnfitMask)>, Failure> {
    let dialect = loaded.catalog.dialect();
    let mut out = Vec::new();
    let decisions = columns(loaded, subject, relation)?;
    for (column, decision) in relation.columns.iter().zip(decisions) {
        let ColumnLevel::Masked(mask) = decision.level else {
            continue;
        };
        if matches!(mask, Mask::Token(_)) && !masks::fits(&mask, column, dialect) {
            let permits = loaded.policies.of(Action::ReadToken);
            let permit = decision.policies.iter().find(|id| {
                permits.is_some_and(|permits| permits.policy(&PolicyId::new(id)).is_some())
            });
            out.extend(permit.map(|id| (id.clone(), UnfitMask::new(mask, column, dialect))));
            continue;
        }
        for id in decision.policies {
            let mask = loaded.annotations.get(&id).and_then(|a| a.mask.clone());
            if let Some(mask) = mask.filter(|mask| !masks::fits(mask, column, dialect)) {
                out.push((id, UnfitMask::new(mask, column, dialect)));
            }
        }
    }
    Ok(out)
}

/// A generated column shows what it is computed from: it is hidden if any of that is, and NULL if
/// any of that is masked, whatever policies say of the column itself.
fn tighten_generated(loaded: &Loaded, relation: &Relation, columns: &mut [ColumnDecision]) {
    // Generated columns may build on each other; each round settles at least one.
    for _ in 0..columns.len() {
        let mut changed = false;
        for (id, column) in relation.column_ids() {
            let Some(from) = loaded
                .flow
                .0
                .get(&id)
                .filter(|_| column.generated.is_some())
            else {
                continue;
            };
            let strictest = from
                .iter()
                .filter_map(|base| columns.get(usize::from(base.index)))
                .max_by_key(|base| strictness(&base.level))
                .cloned();
            let Some(base) = strictest else { continue };
            let Some(own) = columns.get_mut(usize::from(id.index)) else {
                continue;
            };
            let level = match (&base.level, &own.level) {
                (ColumnLevel::Plain, level) => level.clone(),
                (ColumnLevel::Hidden, _) | (_, ColumnLevel::Hidden) => ColumnLevel::Hidden,
                (ColumnLevel::Masked(_), _) => ColumnLevel::Masked(Mask::Null),
            };
            if own.level != level {
                own.level = level;
                own.policies.extend(base.policies);
                own.policies.sort();
                own.policies.dedup();
                changed = true;
            }
        }
        if !changed {
            return;
        }
    }
}

fn strictness(level: &ColumnLevel) -> u8 {
    match level {
        ColumnLevel::Plain => 0,
        ColumnLevel::Masked(_) => 1,
        ColumnLevel::Hidden => 2,
    }
}

/// What policies can tell of a column of a given relation.
#[derive(PartialEq, Eq, Hash)]
struct ColumnClass<'a> {
    tags: Vec<&'a str>,
    nullable: bool,
    /// Set where something may name the column.
    uid: Option<&'a str>,
}

impl<'a> ColumnClass<'a> {
    fn of(loaded: &'a Loaded, id: ColumnId, uid: &'a str, nullable: bool) -> Self {
        let named = loaded.columns_in_attributes || loaded.named_columns.contains(uid);
        Self {
            tags: loaded.tags.of_column(id).collect(),
            nullable,
            uid: named.then_some(uid),
        }
    }
}

fn column_decision(
    loaded: &Loaded,
    subject: &Subject,
    uid: &str,
) -> Result<ColumnDecision, Failure> {
    let column = resource("Column", uid)?;
    let plain = decide(loaded, subject, Action::ReadPlain, column.clone())?;
    if plain.permitted {
        return Ok(ColumnDecision {
            level: ColumnLevel::Plain,
            policies: plain.policies,
        });
    }
    if let Some(token) = tokens::instead(loaded, subject, &column, &plain)? {
        return Ok(token);
    }
    let masked = decide(loaded, subject, Action::ReadMasked, column)?;
    let policies: BTreeSet<String> = plain.policies.into_iter().chain(masked.policies).collect();
    let level = if masked.permitted {
        ColumnLevel::Masked(demanded(loaded, policies.iter()))
    } else {
        ColumnLevel::Hidden
    };
    Ok(ColumnDecision {
        level,
        policies: policies.into_iter().collect(),
    })
}

/// What policies say of calling `def` where `context` holds.
pub(super) fn function_verdict(
    loaded: &Loaded,
    subject: &Subject,
    def: &FunctionDef,
    context: Context,
) -> Result<Verdict, Failure> {
    // A policy that reads a column by way of an attribute needs all of them.
    let known = if loaded.columns_in_attributes {
        &subject.store.entities
    } else {
        &subject.store.few
    };
    let entity = store::function_entity(&loaded.catalog, def)
        .map_err(|error| Failure::new(error.message))?;
    let entities = Entities::clone(known)
        .add_entities([entity], Some(&loaded.schema))
        .map_err(Failure::new)?;
    let function = resource("Function", &def.uid)?;
    decide_among(loaded, subject, Action::Call, function, &entities, context)
}

fn function_decision(
    loaded: &Loaded,
    subject: &Subject,
    def: &FunctionDef,
) -> Result<FunctionDecision, Failure> {
    if loaded.catalog.function(&def.uid) != Some(def) {
        return Ok(FunctionDecision {
            permitted: false,
            policies: Vec::new(),
        });
    }
    let function = resource("Function", &def.uid)?;
    let verdict = function_verdict(loaded, subject, def, subject.context.clone())?;
    let named = || {
        verdict
            .policies
            .iter()
            .any(|id| loaded.named.get(id) == Some(&function))
    };
    let permitted = verdict.permitted && (!def.safety.needs_named_permit() || named());
    Ok(FunctionDecision {
        permitted,
        policies: verdict.policies,
    })
}

pub(super) fn resource(kind: &str, id: &str) -> Result<cedar_policy::EntityUid, Failure> {
    store::uid(kind, id).ok_or_else(|| Failure::new(format!("`{kind}` is not a type name")))
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

    use std::{
        cmp::Reverse,
        collections::{BTreeMap, BTreeSet},
    };

    use super::*;
    use crate::{
        catalog::functions,
        dialect::Dialect,
        policy::{
            ColumnFlow, PolicySet,
            fixture::{self, agent, relation_id, set, sources},
        },
        session::Principal,
        token::TokenSecret,
    };

    const ALL: &str = "permit(principal, action == Action::\"select\", resource);
permit(principal, action == Action::\"see\", resource);
permit(principal, action in Action::\"read\", resource);
";

    fn decision(policies: &str, who: &str, table: &str) -> Arc<RelationDecision> {
        set(policies)
            .session(&agent(who))
            .relation(relation_id(table))
            .unwrap()
    }

    fn levels(policies: &str, who: &str) -> Vec<ColumnLevel> {
        let decision = decision(policies, who, "customers");
        decision
            .columns
            .iter()
            .map(|column| column.level.clone())
            .collect()
    }

    #[test]
    fn visibility_has_three_degrees() {
        assert_eq!(
            decision(ALL, "bot", "tickets").visibility,
            Visibility::Selectable
        );
        assert_eq!(
            decision("", "bot", "tickets").visibility,
            Visibility::Absent
        );
        let discover = "permit(principal, action == Action::\"discover\", resource);\n";
        let no_permit = decision(discover, "bot", "tickets");
        assert_eq!(
            no_permit.visibility,
            Visibility::Discoverable(Code::PolicyNoPermit)
        );
        let forbid = format!(
            "{ALL}{discover}@id(\"closed\") @message(\"tickets are closed\") forbid(principal, action == Action::\"select\", resource == Table::\"main.tickets\");"
        );
        let forbidden = decision(&forbid, "bot", "tickets");
        assert_eq!(
            forbidden.visibility,
            Visibility::Discoverable(Code::PolicyForbidden)
        );
        assert_eq!(forbidden.message.as_deref(), Some("tickets are closed"));
        assert_eq!(forbidden.policies, ["closed"]);
        assert!(
            forbidden
                .columns
                .iter()
                .all(|c| c.level == ColumnLevel::Hidden)
        );
        assert_eq!(forbidden.rows, RowFilter::Nothing);
        assert_eq!(
            decision(&forbid, "bot", "customers").visibility,
            Visibility::Selectable
        );
    }

    #[test]
    fn system_relations_are_absent_whatever_policies_say() {
        let everything = "permit(principal, action, resource);";
        let system = decision(everything, "bot", "sqlite_schema");
        assert_eq!(system.visibility, Visibility::Absent);
        let set = set(everything);
        let listed = set.session(&agent("bot")).discoverable().unwrap();
        let names: Vec<_> = listed.iter().map(|(id, _)| *id).collect();
        assert_eq!(names, ["customers", "tickets", "contacts"].map(relation_id));
    }

    #[test]
    fn a_foreign_id_is_absent() {
        let set = set(ALL);
        let decision = set.session(&agent("bot")).relation(RelationId(99)).unwrap();
        assert_eq!(decision.visibility, Visibility::Absent);
    }

    #[test]
    fn roles_reach_through_roles() {
        let policies = "permit(principal in Role::\"analyst\", action == Action::\"select\", resource in Schema::\"main\");";
        assert_eq!(
            decision(policies, "officer", "tickets").visibility,
            Visibility::Selectable
        );
        assert_eq!(
            decision(policies, "stranger", "tickets").visibility,
            Visibility::Absent
        );
    }

    #[test]
    fn columns_are_plain_masked_or_hidden() {
        let plain = levels(ALL, "bot");
        assert!(plain.iter().all(|level| *level == ColumnLevel::Plain));
        let policies = format!(
            "{ALL}@mask(\"last(4)\") forbid(principal, action == Action::\"read_plain\", resource) when {{ resource.tags.contains(\"pii\") }} unless {{ principal in Role::\"dpo\" }};
            forbid(principal, action == Action::\"read_masked\", resource == Column::\"main.customers.name\");
            forbid(principal, action == Action::\"read_plain\", resource == Column::\"main.customers.name\");
            forbid(principal, action == Action::\"read_plain\", resource == Column::\"main.customers.active\");"
        );
        let last = ColumnLevel::Masked(Mask::Last(Reverse(4)));
        let (plain, null) = (ColumnLevel::Plain, ColumnLevel::Masked(Mask::Null));
        assert_eq!(
            levels(&policies, "bot"),
            [
                plain.clone(),
                ColumnLevel::Hidden,
                last.clone(),
                last,
                plain.clone(),
                null.clone()
            ]
        );
        assert_eq!(
            levels(&policies, "officer"),
            [
                plain.clone(),
                ColumnLevel::Hidden,
                plain.clone(),
                plain.clone(),
                plain,
                null
            ]
        );
    }

    #[test]
    fn the_strictest_mask_wins() {
        let forbid = |mask: &str, tag: &str| {
            format!(
                "@mask(\"{mask}\") forbid(principal, action == Action::\"read_plain\", resource) when {{ resource.tags.contains(\"{tag}\") }};\n"
            )
        };
        let policies = format!(
            "{ALL}{}{}",
            forbid("last(4)", "pii"),
            forbid("last(2)", "secret")
        );
        let levels = levels(&policies, "bot");
        assert_eq!(levels[2], ColumnLevel::Masked(Mask::Last(Reverse(4))));
        assert_eq!(levels[3], ColumnLevel::Masked(Mask::Last(Reverse(2))));
        // The permit of `read_masked` takes part too, and a mask is never lost to a bare permit.
        let policies = format!(
            "permit(principal, action == Action::\"select\", resource);
             @mask(\"fixed(x)\") permit(principal, action == Action::\"read_masked\", resource);
             permit(principal, action == Action::\"read_masked\", resource);
             {}",
            forbid("last(4)", "pii")
        );
        assert!(
            self::levels(&policies, "bot")
                .iter()
                .all(|level| *level == ColumnLevel::Masked(Mask::Fixed("x".to_owned())))
        );
    }

    fn keyed(policies: &str) -> Vec<String> {
        let mut sources = sources(policies);
        sources.secret = Some(TokenSecret::new("0".repeat(32)));
        let set = fixture::load(&sources).unwrap_or_else(|errors| panic!("{errors}"));
        let view = set.session(&agent("bot"));
        let decision = view.relation(relation_id("customers")).unwrap();
        decision
            .columns
            .iter()
            .map(|column| match &column.level {
                ColumnLevel::Plain => "plain".to_owned(),
                ColumnLevel::Masked(mask) => mask.to_string(),
                ColumnLevel::Hidden => "hidden".to_owned(),
            })
            .collect()
    }

    /// Plain, then a token, then a mask, then nothing; and no token by a permit of everything.
    #[test]
    fn tokens_stand_between_plain_and_masked() {
        let tokens = "@domain(\"people\") permit(principal, action == Action::\"read_token\", resource in Table::\"main.customers\");";
        let of_tags = "forbid(principal, action == Action::\"read_plain\", resource) when { resource.tags.contains(\"pii\") };";
        let levels = keyed(&format!("{ALL}{tokens}{of_tags}"));
        assert_eq!(
            levels[..4],
            ["plain", "plain", "token(people)", "token(people)"]
        );
        // A mask that a forbid demands is no token; one that a permit offers is behind it.
        let masked = format!("@mask(\"last(4)\") {of_tags}");
        let levels = keyed(&format!("{ALL}{tokens}{masked}"));
        assert_eq!(levels[2..4], ["last(4)", "last(4)"]);
        let blanket = format!("permit(principal, action, resource);{of_tags}");
        assert_eq!(keyed(&blanket)[2], "null");
        let forbidden = format!(
            "{ALL}{tokens}{of_tags} forbid(principal, action == Action::\"read_token\", resource == Column::\"main.customers.ssn\");"
        );
        assert_eq!(keyed(&forbidden)[2..4], ["token(people)", "null"]);
        // Of two domains the smaller.
        let own = "permit(principal, action == Action::\"read_token\", resource == Column::\"main.customers.ssn\");";
        let levels = keyed(&format!("{ALL}{tokens}{own}{of_tags}"));
        assert_eq!(levels[2..4], ["token(people)", "token"]);
    }

    #[test]
    fn tokens_need_a_secret() {
        let tokens = "permit(principal, action == Action::\"read_token\", resource);";
        let errors = fixture::load(&sources(&format!("{ALL}{tokens}"))).unwrap_err();
        assert_eq!(errors.problems()[0].line, Some(4), "{errors}");
        assert!(errors.to_string().contains("token_secret_env"), "{errors}");
    }

    #[test]
    fn masks_follow_data_into_views() {
        let catalog = fixture::catalog();
        let id = |uid| fixture::column_id(&catalog, uid);
        let flow = ColumnFlow(BTreeMap::from([(
            id("main.contacts.address"),
            BTreeSet::from([id("main.customers.email")]),
        )]));
        let policies = format!(
            "{ALL}forbid(principal, action == Action::\"read_plain\", resource) when {{ resource.tags.contains(\"pii\") }};"
        );
        let set = PolicySet::load(&sources(&policies), &Arc::new(catalog.clone()), &flow).unwrap();
        let view = set
            .session(&agent("bot"))
            .relation(relation_id("contacts"))
            .unwrap();
        assert_eq!(view.columns[0].level, ColumnLevel::Masked(Mask::Null));
    }

    #[test]
    fn a_forbid_that_fails_to_evaluate_denies() {
        // Cedar alone would skip the forbid and allow.
        let policies = format!(
            "{ALL}@id(\"overflow\") forbid(principal, action == Action::\"select\", resource == Table::\"main.tickets\") when {{ 9223372036854775807 + principal.tenant > 0 }};"
        ).replace("when { 9", "when { principal has tenant && 9");
        let set = set(&policies);
        let refused = set
            .session(&agent("bot"))
            .relation(relation_id("tickets"))
            .unwrap_err();
        assert_eq!(refused.code(), Code::PolicyEvaluationFailed);
        assert_eq!(refused.message(), Code::PolicyEvaluationFailed.summary());
        assert_eq!(refused.policies(), ["overflow"]);
        assert!(refused.operator_detail().unwrap().contains("overflow"));
        assert!(
            set.session(&agent("officer"))
                .relation(relation_id("tickets"))
                .is_ok()
        );
        assert!(set.session(&agent("bot")).discoverable().is_err());
    }

    #[test]
    fn unsafe_functions_need_a_permit_that_names_them() {
        let find = |name| functions::registry(Dialect::Sqlite).get(name).unwrap();
        let set = set(
            "permit(principal, action == Action::\"call\", resource);
             permit(principal, action == Action::\"call\", resource == Function::\"randomblob\");
             permit(principal, action == Action::\"call\", resource in Function::\"zeroblob\");
             permit(principal, action == Action::\"call\", resource) when { resource == Function::\"load_extension\" };
             permit(principal, action == Action::\"call\", resource == Function::\"changes\");
             @id(\"no\") forbid(principal, action == Action::\"call\", resource == Function::\"changes\");",
        );
        let view = set.session(&agent("bot"));
        let permitted = |name| view.function(find(name)).unwrap().permitted;
        assert!(permitted("lower") && permitted("random") && permitted("randomblob"));
        assert!(!permitted("zeroblob") && !permitted("load_extension") && !permitted("changes"));
        assert_eq!(view.function(find("changes")).unwrap().policies, ["no"]);
    }

    #[test]
    fn functions_are_classified_for_policies() {
        let find = |name| functions::registry(Dialect::Sqlite).get(name).unwrap();
        let set = set(
            "permit(principal, action == Action::\"call\", resource in Schema::\"main\") when { resource.safety == \"pure\" };",
        );
        let view = set.session(&agent("bot"));
        assert!(view.function(find("lower")).unwrap().permitted);
        assert!(view.function(find("->>")).unwrap().permitted);
        assert!(!view.function(find("random")).unwrap().permitted);
    }

    #[test]
    fn principals_need_a_known_type_only() {
        let set = set(ALL);
        let known = set.session(&agent("never-heard-of"));
        assert_eq!(
            known.relation(relation_id("tickets")).unwrap().visibility,
            Visibility::Selectable
        );
        for kind in ["Robot", "Role", "Table", "not a type", ""] {
            let view = set.session(&Session::new(Principal::new(kind, "x")));
            let refused = view.relation(relation_id("tickets")).unwrap_err();
            assert_eq!(refused.code(), Code::PolicyNoPermit, "{kind}");
            assert!(
                view.function(functions::registry(Dialect::Sqlite).get("lower").unwrap())
                    .is_err()
            );
        }
    }

    #[test]
    fn sessions_are_shared_and_bounded() {
        let set = set(ALL);
        let first = set.session(&agent("bot"));
        assert!(Arc::ptr_eq(&first, &set.session(&agent("bot"))));
        let one = first.relation(relation_id("tickets")).unwrap();
        assert!(Arc::ptr_eq(
            &one,
            &first.relation(relation_id("tickets")).unwrap()
        ));
        for n in 0..super::super::SESSIONS {
            let _ = set.session(&agent(&format!("a{n}")));
        }
        assert!(!Arc::ptr_eq(&first, &set.session(&agent("bot"))));
    }

    #[test]
    fn columns_named_by_attributes_are_decided_one_by_one() {
        let mut sources = sources(
            "permit(principal, action == Action::\"select\", resource);
             permit(principal is Agent, action in Action::\"read\", resource) when { principal.open.contains(resource) };",
        );
        sources.principals_schema =
            Some("entity Role; entity User; entity Agent { open: Set<Column> };".to_owned());
        sources.entities = Some(
            r#"[{ "uid": { "type": "Agent", "id": "bot" }, "parents": [],
                  "attrs": { "open": [{ "type": "Column", "id": "main.customers.name" }] } }]"#
                .to_owned(),
        );
        let set = fixture::load(&sources).unwrap_or_else(|errors| panic!("{errors}"));
        let decision = set
            .session(&agent("bot"))
            .relation(relation_id("customers"))
            .unwrap();
        let plain: Vec<_> = decision
            .columns
            .iter()
            .map(|column| column.level == ColumnLevel::Plain)
            .collect();
        assert_eq!(plain, [false, true, false, false, false, false]);
    }
}
