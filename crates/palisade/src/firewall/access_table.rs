//! What each principal may do with each table and column, in whatever circumstances: for review, and for whoever has to
//! account for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZero,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use serde::Serialize;

use crate::firewall::{
    Firewall,
    access_level::{AccessLevel, after_approval},
    trace::describe_level,
};
use crate::{
    catalog::{Change, Relation, RelationKind},
    code::Code,
    error::Error,
    policy::{
        ApprovalLevel, PolicySet, SessionView,
        obligation::{
            ColumnLevel, Comparison, Literal, Mask, Operand, PatternPiece, Predicate, RowFilter,
            Visibility,
        },
    },
    rejection::Rejection,
    session::{Principal, Session},
};

/// Relations about which all principals are asked before the next: what a decision needs of a relation is remembered, and of no
/// more than some hundreds.
const TOGETHER: usize = 128;

/// What a thread has that asks Cedar, in bytes: policies may be nested deeply.
const STACK: usize = 16 * 1024 * 1024;

/// Principals that may do the same, and what that is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AccessClass {
    /// Who they are, sorted: `Agent::"bot"`, or `any other Agent` for all that neither entities nor policies name.
    pub members: Vec<String>,
    /// What they may do, sorted. What no cell names is never permitted.
    pub cells: Vec<AccessCell>,
}

impl AccessClass {
    /// A principal as [`members`](Self::members) has it.
    #[must_use]
    pub fn describe_member(principal: &Principal) -> String {
        match principal.id() {
            PolicySet::OTHERS => format!("any other {}", principal.kind()),
            _ => principal.to_string(),
        }
    }
}

/// What is decided of one action on a table or a column. It holds for every statement outside of templates.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct AccessCell {
    /// The table or view, as policies name it, or `template NAME`.
    pub table: String,
    /// The column; none where the action is on the table.
    pub column: Option<String>,
    /// `select`, `see`, `read`, `insert`, `update`, `delete`, `truncate`, `change`, `add`, `write` or `run`.
    pub action: &'static str,
    /// `allow`, `plain`, `mask …`, `token`, `hidden`, `all rows`, or the condition of rows; with `after approval (operator)` where
    /// a person has to approve first. Where circumstances decide, all that may come of it, and the policies that look at them.
    pub value: String,
}

impl AccessCell {
    /// The table, with the column where there is one.
    #[must_use]
    pub fn resource(&self) -> String {
        match &self.column {
            Some(column) => format!("{}.{column}", self.table),
            None => self.table.clone(),
        }
    }
}

/// A cell's place: table, column, action.
pub(super) type Place = (String, Option<String>, &'static str);

/// What is decided at each place.
pub(super) type Cells = BTreeMap<Place, Decided>;

/// What is decided at one place.
pub(super) struct Decided {
    /// As a person reads it.
    pub(super) value: String,
    /// How much of the place is there.
    pub(super) level: AccessLevel,
    /// Ids of the determining policies.
    pub(super) by: BTreeSet<String>,
}

impl Firewall {
    /// Every principal that the operator's entities or the policies name, and for each type of principals one for
    /// all others.
    #[must_use]
    pub fn known_principals(&self) -> Vec<Principal> {
        self.policies.known_principals()
    }

    /// What each of `principals` may do; those that may do the same stand together.
    ///
    /// # Errors
    /// A policy that cannot be written down. Where one fails to evaluate, a cell says so: `never: quota fails to evaluate`.
    pub fn access_classes(&self, principals: &[Principal]) -> Result<Vec<AccessClass>, Error> {
        let corners = self.policies.corners().map_err(Error::Internal)?;
        let mut classes: BTreeMap<Vec<AccessCell>, Vec<String>> = BTreeMap::new();
        for (principal, cells) in principals
            .iter()
            .zip(self.cells_of_all(principals, &corners)?)
        {
            let shown = AccessClass::describe_member(principal);
            classes.entry(cells).or_default().push(shown);
        }
        let mut classes: Vec<AccessClass> = classes
            .into_iter()
            .map(|(cells, mut members)| {
                members.sort();
                AccessClass { members, cells }
            })
            .collect();
        classes.sort_by(|a, b| a.members.cmp(&b.members));
        Ok(classes)
    }

    /// What each of `principals` may do, in their order; they are shared between the cores, some relations at a time.
    fn cells_of_all(
        &self,
        principals: &[Principal],
        corners: &[PolicySet],
    ) -> Result<Vec<Vec<AccessCell>>, Error> {
        let parts: Vec<Part<'_>> = self.parts().collect();
        let tasks: Vec<(Part<'_>, usize, &Principal)> = (parts.iter())
            .flat_map(|part| {
                let asked = principals.iter().enumerate();
                asked.map(|(index, principal)| (*part, index, principal))
            })
            .collect();
        let next = AtomicUsize::new(0);
        let found = Mutex::new(BTreeMap::new());
        let work = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some((part, index, principal)) = tasks.get(number) else {
                    return;
                };
                let cells = self.cells(principal, *part, corners);
                // A poisoned lock guards finished values; the panic was elsewhere.
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                found.insert((*index, number), cells);
            }
        };
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        thread::scope(|scope| {
            for _ in 1..cores.min(tasks.len()) {
                // Where there is no other thread, this one does it all.
                let _ = thread::Builder::new()
                    .stack_size(STACK)
                    .spawn_scoped(scope, work);
            }
            work();
        });
        let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut all = vec![Vec::new(); principals.len()];
        for ((index, _), cells) in found {
            let cells = cells.map_err(|rejection| Error::Internal(rejection.to_string()))?;
            if let Some(all) = all.get_mut(index) {
                all.extend(cells);
            }
        }
        all.iter_mut().for_each(|cells| cells.sort());
        Ok(all)
    }

    /// The relations in parts; templates are of the first.
    fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let relations = self.catalog.relations();
        let starts = (0..relations.len().max(1)).step_by(TOGETHER);
        starts.map(move |start| {
            let rest = relations.get(start..).unwrap_or_default();
            Part {
                relations: rest.get(..TOGETHER).unwrap_or(rest),
                has_templates: start == 0,
            }
        })
    }

    /// What a principal may do in a part, by what is the same at every corner and what differs between them.
    fn cells(
        &self,
        principal: &Principal,
        part: Part<'_>,
        corners: &[PolicySet],
    ) -> Result<Vec<AccessCell>, Rejection> {
        let session = Session::new(principal.clone());
        let session = match corners {
            [] => {
                let own = self.policies.about_principal(principal);
                let policies = own.as_ref().unwrap_or(&self.policies);
                let view = policies.session(&session);
                let cells = self.cells_of_part(&view, part, Failing::IsTold)?;
                return Ok(cells
                    .into_iter()
                    .map(|(place, decided)| cell(place, decided.value))
                    .collect());
            }
            // Some time and some client; which they are is supposed already.
            [_, ..] => session.at(std::time::Duration::ZERO).of_client("client"),
        };
        let found = corners
            .iter()
            .map(|policies| {
                let own = policies.about_principal(principal);
                let policies = own.as_ref().unwrap_or(policies);
                self.cells_of_part(&policies.session(&session), part, Failing::IsTold)
            })
            .collect::<Result<Vec<Cells>, _>>()?;
        let places: BTreeSet<&Place> = found.iter().flat_map(BTreeMap::keys).collect();
        let mut cells = Vec::new();
        for place in places {
            let mut values: Vec<&str> = Vec::new();
            let mut policies = BTreeSet::new();
            for corner in &found {
                let value = corner.get(place).map_or("never", |decided| &decided.value);
                if !values.contains(&value) {
                    values.push(value);
                }
                policies.extend(corner.get(place).into_iter().flat_map(|one| &one.by));
            }
            let value = match values.as_slice() {
                [one] => (*one).to_owned(),
                several => {
                    let by: Vec<String> = policies
                        .into_iter()
                        .filter_map(|id| {
                            Some(format!("{id} {}", self.policies.circumstances_of(id)?))
                        })
                        .collect();
                    match by.is_empty() {
                        // The circumstances are those of the table that it is in.
                        true => several.join(" or "),
                        false => format!("{}, by {}", several.join(" or "), by.join("; ")),
                    }
                }
            };
            cells.push(cell(place.clone(), value));
        }
        Ok(cells)
    }

    pub(super) fn cells_of_view(
        &self,
        view: &SessionView,
        failing: Failing,
    ) -> Result<Cells, Rejection> {
        let all = Part {
            relations: self.catalog.relations(),
            has_templates: true,
        };
        self.cells_of_part(view, all, failing)
    }

    fn cells_of_part(
        &self,
        view: &SessionView,
        part: Part<'_>,
        failing: Failing,
    ) -> Result<Cells, Rejection> {
        let mut cells = Cells::new();
        for relation in part.relations {
            if !is_enumerated(relation) {
                continue;
            }
            let reads = add_reads(&mut cells, view, relation);
            let is_read = failing.settle(&mut cells, (relation, "select"), reads)?;
            // A change asks what may be read as well, and is refused where that fails.
            if self.changes && is_read {
                let changes = add_changes(&mut cells, view, relation);
                failing.settle(&mut cells, (relation, "change"), changes)?;
            }
        }
        if !part.has_templates {
            return Ok(cells);
        }
        for template in view.templates()? {
            let place = (format!("template {}", template.name), None, "run");
            let by = view.template(&template.name)?.map(|(_, by)| by);
            let approval = view.demanded_level(&by.unwrap_or_default());
            let allowed = Decided::allowed(String::new(), BTreeSet::new());
            cells.insert(place, allowed.with_approval(approval));
        }
        Ok(cells)
    }
}

/// What principals are asked about at a time.
#[derive(Clone, Copy)]
struct Part<'c> {
    relations: &'c [Relation],
    has_templates: bool,
}

/// What becomes of the cells of a relation where a policy fails to evaluate. Every such statement is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failing {
    /// There are none, of any relation.
    EndsAll,
    /// A cell says which policy that is.
    IsTold,
}

impl Failing {
    /// Whether it was decided.
    fn settle(
        self,
        cells: &mut Cells,
        (relation, action): (&Relation, &'static str),
        decided: Result<(), Rejection>,
    ) -> Result<bool, Rejection> {
        match (decided, self) {
            (Err(why), Self::IsTold) if why.code() == Code::PolicyEvaluationFailed => {
                let by: BTreeSet<String> = why.policies().iter().cloned().collect();
                let failing: Vec<&str> = by.iter().map(String::as_str).collect();
                let decided = Decided {
                    value: format!("never: {} fails to evaluate", failing.join(", ")),
                    level: AccessLevel::Never,
                    by,
                };
                cells.insert((relation.uid.clone(), None, action), decided);
                Ok(false)
            }
            (decided, Self::EndsAll | Self::IsTold) => decided.map(|()| true),
        }
    }
}

/// Whether there are cells of a relation.
pub(super) fn is_enumerated(relation: &Relation) -> bool {
    match relation.kind {
        RelationKind::Table | RelationKind::View | RelationKind::Materialized => true,
        RelationKind::Virtual | RelationKind::System => false,
    }
}

impl Decided {
    /// An action that is permitted; `caps` are as they stand behind `allow`.
    fn allowed(caps: String, by: BTreeSet<String>) -> Self {
        Self {
            value: format!("allow{caps}"),
            level: AccessLevel::Allowed(caps),
            by,
        }
    }

    /// The same, once somebody has approved it where that is demanded.
    fn with_approval(self, approval: Option<ApprovalLevel>) -> Self {
        let Some(approval) = approval.filter(|_| !self.level.is_nothing()) else {
            return self;
        };
        let told = after_approval(approval);
        let Self { value, level, by } = self;
        let value = match &level {
            AccessLevel::Allowed(caps) => format!("allow{told}{caps}"),
            AccessLevel::Never
            | AccessLevel::NoRows
            | AccessLevel::NameOnly
            | AccessLevel::Nulls
            | AccessLevel::Token
            | AccessLevel::Masked(_)
            | AccessLevel::Plain
            | AccessLevel::SomeRows(_)
            | AccessLevel::AllRows
            | AccessLevel::AfterApproval(_, _) => format!("{value}{told}"),
        };
        let level = AccessLevel::AfterApproval(approval, Box::new(level));
        Self { value, level, by }
    }

    fn rows(rows: &RowFilter, relation: &Relation, by: BTreeSet<String>) -> Self {
        let value = describe_rows(rows, relation);
        let level = match rows {
            RowFilter::Everything => AccessLevel::AllRows,
            RowFilter::Nothing => AccessLevel::NoRows,
            RowFilter::Where(_) => AccessLevel::SomeRows(value.clone()),
        };
        Self { value, level, by }
    }
}

fn cell((table, column, action): Place, value: String) -> AccessCell {
    AccessCell {
        table,
        column,
        action,
        value,
    }
}

fn add_reads(cells: &mut Cells, view: &SessionView, relation: &Relation) -> Result<(), Rejection> {
    let decision = view.relation(relation.id)?;
    let by: BTreeSet<String> = decision.policies.iter().cloned().collect();
    let mut add = |column: Option<String>, action, decided: Decided| {
        cells.insert((relation.uid.clone(), column, action), decided);
    };
    match decision.visibility {
        Visibility::Absent => return Ok(()),
        Visibility::Discoverable(_) => {
            let level = AccessLevel::NameOnly;
            let value = "name only".to_owned();
            add(None, "select", Decided { value, level, by });
            return Ok(());
        }
        Visibility::Selectable => {}
    }
    let caps = decision.caps.to_string();
    // No row is seen but by `select`: what both demand is told there.
    let approval = view.demanded_level(&decision.policies);
    let select = Decided::allowed(caps, by.clone()).with_approval(approval);
    add(None, "select", select);
    add(None, "see", Decided::rows(&decision.rows, relation, by));
    for ((_, column), decided) in relation.column_ids().zip(&decision.columns) {
        let by = decided.policies.iter().cloned().collect();
        let value = match &decided.level {
            ColumnLevel::Masked(Mask::Token(_)) => "token".to_owned(),
            level @ (ColumnLevel::Plain | ColumnLevel::Masked(_) | ColumnLevel::Hidden) => {
                describe_level(level)
            }
        };
        let level = AccessLevel::of_column(&decided.level);
        let approval = view.demanded_level(&decided.policies);
        let decided = Decided { value, level, by }.with_approval(approval);
        add(Some(column.name.to_string()), "read", decided);
    }
    Ok(())
}

fn add_changes(
    cells: &mut Cells,
    view: &SessionView,
    relation: &Relation,
) -> Result<(), Rejection> {
    let write = view.write(relation.id)?;
    let (mut reaches, mut leaves) = (false, false);
    for change in Change::ALL {
        let decided = write.action(change);
        if !decided.permitted {
            continue;
        }
        let action = match change {
            Change::Insert => "insert",
            Change::Update => "update",
            Change::Delete => "delete",
            Change::Truncate => "truncate",
        };
        reaches |= matches!(change, Change::Update | Change::Delete);
        leaves |= matches!(change, Change::Insert | Change::Update);
        let approval = view.demanded_level(&decided.policies);
        let by = decided.policies.into_iter().collect();
        let allowed = Decided::allowed(decided.caps.to_string(), by).with_approval(approval);
        cells.insert((relation.uid.clone(), None, action), allowed);
    }
    if reaches {
        let by = write.change_policies.iter().cloned().collect();
        let approval = view.demanded_level(&write.change_policies);
        let rows = Decided::rows(&write.change, relation, by).with_approval(approval);
        cells.insert((relation.uid.clone(), None, "change"), rows);
    }
    if leaves {
        let by = write.add_policies.iter().cloned().collect();
        let approval = view.demanded_level(&write.add_policies);
        let rows = Decided::rows(&write.add, relation, by).with_approval(approval);
        cells.insert((relation.uid.clone(), None, "add"), rows);
        for ((_, column), decided) in relation.column_ids().zip(&write.columns) {
            if decided.permitted {
                let place = (relation.uid.clone(), Some(column.name.to_string()), "write");
                let by = decided.policies.iter().cloned().collect();
                let approval = view.demanded_level(&decided.policies);
                cells.insert(
                    place,
                    Decided::allowed(String::new(), by).with_approval(approval),
                );
            }
        }
    }
    Ok(())
}

fn describe_rows(rows: &RowFilter, relation: &Relation) -> String {
    match rows {
        RowFilter::Everything => "all rows".to_owned(),
        RowFilter::Nothing => "no rows".to_owned(),
        RowFilter::Where(predicate) => describe_predicate(predicate, relation),
    }
}

/// A condition as policies would write it, of columns without `resource.`.
fn describe_predicate(predicate: &Predicate, relation: &Relation) -> String {
    let name = |index: u16| {
        let column = relation.column(index);
        let name = column.map_or_else(|| format!("#{index}"), |column| column.name.to_string());
        let is_plain = |c: char| c.is_alphanumeric() || c == '_';
        match name.as_str() {
            "true" | "false" => format!("{name:?}"),
            plain if plain.chars().all(is_plain) => name,
            _ => format!("{name:?}"),
        }
    };
    let is_joined = |part: &Predicate| match part {
        Predicate::And(_) | Predicate::Or(_) | Predicate::If(..) => true,
        Predicate::Constant(_)
        | Predicate::Not(_)
        | Predicate::Column(_)
        | Predicate::Has(_)
        | Predicate::Compare(..)
        | Predicate::In(..)
        | Predicate::Like(..)
        | Predicate::RefersToSeen(..) => false,
    };
    // `neutral` says nothing beside another part.
    let all = |parts: &[Predicate], operator: &str, neutral: bool| {
        let neutral = neutral.to_string();
        let told: Vec<(bool, String)> = parts
            .iter()
            .map(|part| (is_joined(part), describe_predicate(part, relation)))
            .filter(|(_, text)| *text != neutral)
            .collect();
        match told.as_slice() {
            [] => neutral,
            [(_, one)] => one.clone(),
            several => {
                let several = several.iter().map(|(is_joined, text)| match is_joined {
                    true => format!("({text})"),
                    false => text.clone(),
                });
                several.collect::<Vec<_>>().join(operator)
            }
        }
    };
    let side = |operand: &Operand| match operand {
        Operand::Column(index) => name(*index),
        Operand::Literal(literal) => describe_literal(literal),
    };
    match predicate {
        Predicate::Constant(value) => value.to_string(),
        Predicate::And(parts) => all(parts, " && ", true),
        Predicate::Or(parts) => all(parts, " || ", false),
        Predicate::Not(part) => match &**part {
            Predicate::Not(part) => describe_predicate(part, relation),
            part => format!("!({})", describe_predicate(part, relation)),
        },
        Predicate::If(condition, then, otherwise) => {
            let told = [condition, then, otherwise].map(|part| describe_predicate(part, relation));
            let [condition, then, otherwise] = told;
            format!("if {condition} then {then} else {otherwise}")
        }
        Predicate::Column(index) => name(*index),
        Predicate::Has(index) => format!("has {}", name(*index)),
        Predicate::Compare(left, comparison, right) => {
            let operator = match comparison {
                Comparison::Equal => "==",
                Comparison::NotEqual => "!=",
                Comparison::Less => "<",
                Comparison::LessOrEqual => "<=",
                Comparison::Greater => ">",
                Comparison::GreaterOrEqual => ">=",
            };
            format!("{} {operator} {}", side(left), side(right))
        }
        Predicate::In(operand, literals) => {
            let literals: Vec<String> = literals.iter().map(describe_literal).collect();
            format!("{} in [{}]", side(operand), literals.join(", "))
        }
        Predicate::Like(index, pieces) => {
            let pattern: String = pieces
                .iter()
                .map(|piece| match piece {
                    PatternPiece::Text(text) => text.replace('*', "\\*"),
                    PatternPiece::Any => "*".to_owned(),
                })
                .collect();
            format!("{} like {pattern:?}", name(*index))
        }
        Predicate::RefersToSeen(operand, _) => format!("the row of {} is seen", side(operand)),
    }
}

fn describe_literal(literal: &Literal) -> String {
    match literal {
        Literal::Integer(integer) => integer.to_string(),
        Literal::Boolean(boolean) => boolean.to_string(),
        Literal::Text(text) => format!("{text:?}"),
        Literal::Decimal(tenthousandths) => {
            let sign = if *tenthousandths < 0 { "-" } else { "" };
            let size = tenthousandths.unsigned_abs();
            format!("{sign}{}.{:04}", size / 10_000, size % 10_000)
        }
        Literal::Datetime(milliseconds) => format!("{milliseconds} ms since 1970"),
    }
}
