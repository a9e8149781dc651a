//! Before the database: the permit becomes a statement that is safe to run exactly as printed.
//!
//! Obligations hold at the source: each physical reference to a relation that is masked, hidden in
//! part or filtered is replaced by a derived table that projects what may be seen. Everything above
//! it computes on masked values. The result is printed, parsed and resolved again: it must be the
//! same tree, and touch nothing that was not permitted.

mod ast;
mod change;
mod ddl;
mod limit;
mod output;
mod source;
#[cfg(test)]
mod tests;

pub(crate) use change::precheck::foreign_keys::keys_read;
pub(crate) use ddl::define;
pub(crate) use source::row_filter::columns as columns_of_condition;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::ControlFlow,
    sync::{Arc, OnceLock},
    time::Duration,
};

use sqlparser::ast::{Query, TableFactor, VisitMut, VisitorMut};

pub use change::precheck::cascade_count::Reach;
pub use change::precheck::{Found, Proviso};
pub(crate) use output::columns::{Below, below as shown_below};
pub use output::expected_access::ANY_COLUMN;
pub(crate) use output::plan::Plan;
pub(crate) use source::cache::FormCache;
pub(crate) use source::mask::type_name as type_of_mask;

use change::guard_cache::Conditions;
use change::precheck::cascade_count::Look;
use output::expected_access::Engine;
use output::parameter_values::Given;
use output::parameters::Binding;
use source::cache::{Form, Forms};

use crate::{
    access::AccessSet,
    catalog::{Catalog, Change, RelationId},
    code::Code,
    dialect::Dialect,
    ident,
    limits::{EstimateCaps, Limits},
    policy::Permit,
    rejection::Rejection,
    resolve::{self, Mode, Reference, ResolvedStatement, Target, Visible},
    scan::{EmptyReason, OutputColumn, ScanPlan},
    session::Principal,
    syntax::{self, Explain, Outline, ParsedQuery},
    value::{Params, Value},
};

/// A statement that may be run exactly as printed. Only the rewriter makes one, from a permit taken
/// by value; it cannot be serialised or built from text.
///
/// ```compile_fail,E0451
/// use palisade::rewrite::RewrittenStatement;
/// fn forge(statement: RewrittenStatement) -> RewrittenStatement {
///     RewrittenStatement { params: Vec::new(), ..statement }
/// }
/// ```
///
/// ```compile_fail
/// fn serialisable<T: serde::Serialize>() {}
/// serialisable::<palisade::rewrite::RewrittenStatement>();
/// ```
#[derive(Debug)]
pub struct RewrittenStatement {
    plan: Arc<Plan>,
    params: Vec<Value>,
    provisos: Vec<Proviso>,
    reaches: Vec<Reach>,
    /// Why policies refused it once the engine's estimates were known.
    refused: OnceLock<Rejection>,
    /// Those of the plan, with the time that is left.
    limits: Limits,
}

/// What a statement does to a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It reads.
    Read,
    /// It asks how the engine would find an answer, without finding it.
    Explain,
    /// It changes rows.
    Write,
    /// It changes the schema, or empties tables.
    Define,
    /// It drops, if that is there, what is not for who asks: it has no text, and is not run.
    Nothing,
}

impl RewrittenStatement {
    /// What it does to the database.
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.plan.effect
    }

    /// The most rows it may change; more must be undone. 0 for one that reads.
    #[must_use]
    pub fn max_affected(&self) -> u64 {
        self.plan.max_affected
    }

    /// Where its body begins in [`sql`](Self::sql), in bytes, if rows are changed in the WITH before it: that
    /// WITH has to stay the outermost (PostgreSQL), and the number of rows of the body is not that of the rows changed.
    #[must_use]
    pub fn body_after_changes(&self) -> Option<usize> {
        self.plan.body_after_changes
    }

    /// What the engine's estimates may say at most, where they are to be looked at before it runs: never over what has
    /// masks or filters, of which an estimate would tell.
    #[must_use]
    pub fn estimate_caps(&self) -> Option<EstimateCaps> {
        self.plan.estimate_caps
    }

    /// Whether policies have still to be asked, with the engine's estimates: never over what has masks or filters.
    #[must_use]
    pub fn awaits_estimate(&self) -> bool {
        self.plan.reserved.is_some()
    }

    /// Asks policies once more, of a statement of which the engine expects this; whether they let it run.
    pub(crate) fn admits(&self, cost: Option<f64>, rows: Option<f64>) -> bool {
        let Some(reserved) = &self.plan.reserved else {
            return true;
        };
        match reserved.confirm(cost, rows) {
            Ok(()) => true,
            Err(rejection) => {
                let _ = self.refused.set(rejection);
                false
            }
        }
    }

    /// Why policies did not let it run.
    pub(crate) fn refused(&self) -> Option<&Rejection> {
        self.refused.get()
    }

    /// Whether a function in it gives one value of many rows, so that all of them may have to be worked on before the
    /// first row comes out, whatever its limit.
    #[must_use]
    pub fn gathers(&self) -> bool {
        self.plan.gathers
    }

    /// Whether the engine may fail on it while it works on a relation with a row filter: such failures are counted.
    #[must_use]
    pub fn may_fail_over_filters(&self) -> bool {
        self.plan.may_fail_over_filters
    }

    /// The (change, relation, column) triples, folded, that the engine may make while it runs this:
    /// with an empty column for inserting and deleting.
    #[must_use]
    pub fn engine_writes(&self) -> &BTreeSet<(Change, String, String)> {
        &self.plan.engine_writes
    }

    /// The triggers, or functions of triggers, folded, that the engine may run with it.
    #[must_use]
    pub fn engine_triggers(&self) -> &BTreeSet<String> {
        &self.plan.engine_triggers
    }

    /// Uids of every relation it reads, views and what stands below them included.
    #[must_use]
    pub fn relations(&self) -> &[String] {
        &self.plan.relations
    }

    /// What it is made of beside the values of its parameters, if other values would not change that.
    pub(crate) fn plan(&self) -> Option<&Arc<Plan>> {
        self.plan.looked_at.is_empty().then_some(&self.plan)
    }

    /// For whom it was permitted.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.plan.principal
    }

    /// The text to run, and nothing else.
    #[must_use]
    pub fn sql(&self) -> &str {
        &self.plan.sql
    }

    /// The values to bind, the first to `?1`.
    #[must_use]
    pub fn params(&self) -> &[Value] {
        &self.params
    }

    /// What must give no row when it runs in the statement's transaction, before it: rows that policy does not admit as
    /// the statement would leave them, or that it would reach and may not. A backend refuses the statement then, as the first
    /// that gives one says, and changes nothing. The transaction must see
    /// the same rows from the first of these to the statement's end, or fail as [`BackendErrorKind::Conflict`]; and the schema
    /// must be looked at as it is under the statement's locks.
    ///
    /// [`BackendErrorKind::Conflict`]: crate::guard::BackendErrorKind::Conflict
    #[must_use]
    pub fn provisos(&self) -> &[Proviso] {
        &self.provisos
    }

    /// Queries for rows that the statement changes and others refer to, on MySQL and MariaDB, where the engine does not count what
    /// foreign keys change: it counts against [`max_affected`](Self::max_affected). The transaction must see the same rows, and
    /// the same time, from these to the statement's end.
    #[must_use]
    pub fn reaches(&self) -> &[Reach] {
        &self.reaches
    }

    /// How the answer must be scanned.
    #[must_use]
    pub fn scan_plan(&self) -> &ScanPlan {
        &self.plan.scan_plan
    }

    /// The (relation, column) pairs, folded, that the engine may read while it runs this: the second
    /// lock. A relation that is read without any column stands with an empty column name, a derived table (on MySQL anything that
    /// is called so) by its alias with [`ANY_COLUMN`].
    #[must_use]
    pub fn engine_reads(&self) -> &BTreeSet<(String, String)> {
        self.plan.engine_reads.pairs()
    }

    /// The functions, folded, that the engine may call while it runs this.
    #[must_use]
    pub fn engine_functions(&self) -> &BTreeSet<String> {
        &self.plan.engine_functions
    }

    /// What it may cost.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Takes off what of its time is `spent` already.
    ///
    /// # Errors
    /// `limit.time` if nothing is left.
    pub(crate) fn spend_time(&mut self, spent: Duration) -> Result<(), Rejection> {
        let spent = u64::try_from(spent.as_millis()).unwrap_or(u64::MAX);
        let left = self.plan.limits.statement_timeout_ms.saturating_sub(spent);
        // The engine answers a statement without time that its time is up.
        if left == 0 && spent > 0 {
            return Err(Rejection::new(
                Code::LimitTime,
                "to decide about the statement took all of its time",
            ));
        }
        self.limits.statement_timeout_ms = left;
        Ok(())
    }

    /// Ids of the policies that determined the permit; the operator's.
    #[must_use]
    pub fn policies(&self) -> &[String] {
        &self.plan.policies
    }

    /// For each relation with obligations, its uid and what stands in its place; the operator's.
    #[must_use]
    pub fn sources(&self) -> &[(String, Arc<str>)] {
        &self.plan.sources
    }
}

/// Applies what `permit` demands to `resolved`.
///
/// # Errors
/// `obligation.inapplicable`, `syntax.not-stable`, `syntax.unsupported` for a LIMIT that cannot be
/// bounded, `internal` if the result is not within what was permitted.
pub(crate) fn rewrite(
    resolved: ResolvedStatement,
    permit: Permit,
    params: &Params,
    catalog: &Catalog,
    visible: &dyn Visible,
    known: &FormCache,
    limits: &Limits,
) -> Result<RewrittenStatement, Rejection> {
    // Views deepen the tree.
    let plan = syntax::with_stack(resolved.levels, || {
        apply(resolved, permit, params, catalog, visible, known, limits)
    })?;
    Plan::bind(&Arc::new(plan), params)
}

fn apply(
    resolved: ResolvedStatement,
    permit: Permit,
    params: &Params,
    catalog: &Catalog,
    visible: &dyn Visible,
    known: &FormCache,
    limits: &Limits,
) -> Result<Plan, Rejection> {
    let permitted_rows = permit.max_rows();
    let reserved = permit.reserved().cloned();
    let ResolvedStatement {
        mut query,
        references,
        outputs,
        access,
        placeholders,
        token_parameters,
        needs_fence,
        fails_by_plan,
        may_fail: _,
        sources: _,
        ctes,
        aliases,
        whole_rows,
        levels: _,
        targets,
        explain,
        steps: _,
        arms: _,
    } = resolved;
    let obliged = obliged(&references, &access, catalog);
    if let (Some(obliged), Some(_)) = (&obliged, &explain) {
        return Err(unshown(obliged, catalog));
    }
    let tells = obliged.is_none();
    let given = Given::new(params);
    let max_rows = permitted_rows.unwrap_or(u64::MAX).min(limits.max_rows);

    let dialect = catalog.dialect();
    let mut engine = Engine::new(access.functions.clone(), whole_rows);
    engine.ctes(&ctes);
    engine.aliases(&aliases);
    if dialect == Dialect::Sqlite {
        engine.aliases(&ctes);
    }
    engine.system(&access, catalog.dialect());
    engine.merged(catalog.dialect());
    let mut forms = Forms::new();
    for (index, reference) in references.iter().enumerate() {
        let is_target = targets.iter().any(|target| target.reference == Some(index));
        let is_known = forms.iter().any(|(id, _)| *id == reference.relation);
        if needs_form(reference) && !is_target && !is_known {
            let place = source::Place {
                catalog,
                // Keys have no place among the parameters of a change, and nothing masked is read in one.
                keyed: targets.is_empty(),
                in_view: false,
            };
            let form = source_form(reference, place, needs_fence, known, &mut engine, limits)?;
            forms.push((reference.relation, form));
        }
        let ready = forms.iter().find_map(|(id, form)| match form {
            Form::Text(ready) => (*id == reference.relation).then_some(&**ready),
            Form::Tree(_) => None,
        });
        engine.reference(reference, (is_target, ready), catalog, &access);
    }
    engine.table_functions(catalog);
    let changes = change::changes(&query);
    if changes.len() != targets.len() {
        return Err(not_as_decided("a change was not decided"));
    }
    let conditions = Conditions::default();
    let mut writes = Vec::with_capacity(targets.len());
    let mut doubts = Vec::with_capacity(targets.len());
    let has_parameters = !placeholders.is_empty() || !token_parameters.is_empty();
    let mut met = Vec::with_capacity(targets.len());
    let mut looked = BTreeSet::new();
    // Values are looked at of what changes alone.
    let (positions, uses) = if targets.is_empty() || !has_parameters {
        (HashMap::new(), BTreeMap::new())
    } else {
        (
            output::parameters::positions(&query),
            output::parameters::uses(&query),
        )
    };
    for (target, change) in targets.iter().zip(changes) {
        let job = change::Job {
            target,
            permit: &permit,
            catalog,
            given: &given,
            placeholders: &placeholders,
            ctes: &ctes,
            positions: &positions,
            uses: &uses,
            references: &references,
            access: &access,
            visible,
            known,
            conditions: &conditions,
            limits,
            failing: change::Failing {
                needs_fence,
                by_plan: fails_by_plan,
            },
        };
        let formed = job.form(change, &mut engine.functions)?;
        engine.target(target, &formed.reads, &access, catalog);
        engine.looked(&formed.looked.reads, catalog);
        looked.extend(formed.looked.changes);
        engine.ctes([job.unused_name()].iter());
        writes.push(formed.form);
        doubts.push(formed.doubts);
        met.push(formed.met);
    }
    if let Some((_, change)) = permit.kept_apart().difference(&looked).next() {
        return Err(change::precheck::foreign_keys::beyond(
            *change,
            "it cannot be looked for",
        ));
    }
    if dialect == Dialect::Postgres {
        let changes = change::changes_mut(&mut query).into_iter().zip(&writes);
        for ((change, form), target) in changes.zip(&targets) {
            if form.admission.is_some() {
                change::new_row::unknown_literals::spell_types(change, target, catalog);
            }
        }
    }
    let permitted_changes = permit.max_affected();
    // A permit is used once.
    let (principal, policies) = permit.spent();
    let in_place = |id| {
        let mut all = forms.iter().enumerate();
        let (index, (_, form)) = all.find(|(_, (relation, _))| *relation == id)?;
        Some(match form {
            Form::Tree(form) => InPlace::Tree(form.clone()),
            Form::Text(_) => InPlace::Name(index),
        })
    };
    // Where no relation has obligations, all stay as they are.
    let named = if forms.is_empty() {
        0
    } else {
        replace_references(&mut query, &references, &targets, in_place, dialect)?
    };
    let mut provisos = Vec::new();
    let beside: Vec<_> = writes.iter().zip(&targets).collect();
    let changes = change::changes(&query).into_iter().zip(&writes);
    let in_doubt =
        changes
            .zip(targets.iter().zip(&doubts))
            .flat_map(|(change, (target, doubts))| {
                doubts.iter().map(move |doubt| (change, target, doubt))
            });
    for ((change, form), target, doubt) in in_doubt {
        let with = (query.with.as_ref(), beside.as_slice());
        let mut proviso =
            change::precheck::query(change, form, doubt, target.reference, with, catalog)?;
        source::cache::stand_in(&mut proviso, &forms, dialect, limits)?;
        conditions.stand_in(&mut proviso, dialect);
        let binding = output::parameters::order_alone(
            &mut proviso,
            &positions,
            &placeholders,
            &token_parameters,
            dialect,
        )?;
        provisos.push((proviso, binding, doubt.found()));
    }
    let changes = change::changes_mut(&mut query).into_iter().zip(&writes);
    for ((change, form), target) in changes.zip(&targets) {
        change::guard::apply(change, form, target.reference)?;
    }
    let mut looks = Vec::new();
    let changes = change::changes(&query).into_iter();
    for (change, (target, met)) in changes.zip(targets.iter().zip(&met)) {
        let with = (query.with.as_ref(), beside.as_slice());
        let Some(look) =
            change::precheck::cascade_count::look(change, target, met.as_deref(), with, catalog)?
        else {
            continue;
        };
        let Look {
            found,
            every,
            origin,
        } = look;
        let mut ready = Vec::with_capacity(2);
        for mut query in [found, every] {
            source::cache::stand_in(&mut query, &forms, dialect, limits)?;
            conditions.stand_in(&mut query, dialect);
            let binding = output::parameters::order_alone(
                &mut query,
                &positions,
                &placeholders,
                &token_parameters,
                dialect,
            )?;
            ready.push((query, binding));
        }
        looks.push((ready, origin));
    }
    let gone = if change::is_change(&query.body) {
        None
    } else {
        limit::bound(&mut query, max_rows, &given, dialect)?
    };
    // Our own parameters stand in source forms that are trees, and nowhere else.
    let has_own = forms.iter().any(|(_, form)| match form {
        Form::Tree(_) => true,
        Form::Text(_) => false,
    });
    let binds = has_own || has_parameters;
    // A guard repeats conditions of a change, and their parameters.
    let repeats = dialect == Dialect::Mysql && !targets.is_empty();
    let binding = if binds && repeats {
        output::parameters::order_alone(
            &mut query,
            &positions,
            &placeholders,
            &token_parameters,
            dialect,
        )?
    } else if binds {
        output::parameters::order(
            &mut query,
            &mut forms,
            &placeholders,
            &token_parameters,
            dialect,
            gone,
        )?
    } else {
        Binding::default()
    };

    let with_changes = change::changing_with(&query);
    let whole = cfg!(debug_assertions).then(|| query.clone());
    // Which of several `?` is which, and what of ours stands where, is known of a tree that was read from the text.
    let has_places = match dialect {
        Dialect::Sqlite | Dialect::Postgres => has_own || !token_parameters.is_empty(),
        Dialect::Mysql => binds,
    };
    let (skeleton, again) = if has_places {
        syntax::print_stable(&query, dialect, limits)?
    } else {
        known.readings.print(query, dialect, limits)?
    };
    let names = skeleton.bytes().filter(|byte| *byte == 0).count();
    if names != named + conditions.named(&skeleton) {
        return Err(not_as_decided(
            "something else is spelled like a source form's name",
        ));
    }
    let bound = binding.of(&again, dialect)?;
    let mut outline = Outline::default();
    if !bound.is_empty() {
        outline
            .positional
            .extend(output::parameters::positions(&again));
    }
    let parsed = ParsedQuery {
        text: &skeleton,
        query: again,
        outline,
        explain: None,
    };
    let check = resolve::resolve(
        parsed,
        catalog,
        visible,
        Mode::Rewritten {
            forms: &source::cache::known(&forms),
            writes: &writes,
        },
        limits,
    )
    .map_err(unread)?;
    if bound.is_empty() && !check.placeholders.is_empty() {
        return Err(not_as_decided("a parameter has no value"));
    }
    if check.targets.len() != targets.len() {
        return Err(not_as_decided("it changes something else"));
    }
    if !check.access.is_within(&access) {
        return Err(not_as_decided("it touches more than was permitted"));
    }
    let (names, decided) = (check.outputs.iter(), outputs.iter());
    if !names.map(|o| &o.name).eq(decided.map(|o| &o.name)) {
        return Err(not_as_decided("its columns have other names"));
    }

    let mut preceding = Vec::with_capacity(provisos.len());
    for (proviso, binding, found) in provisos {
        let (sql, again) = syntax::print_stable(&proviso, dialect, limits)?;
        let bound = binding.of(&again, dialect)?;
        let reads = change::precheck::reads(&sql, again, catalog, visible, limits)?;
        change::precheck::runs_twice(&reads, catalog)?;
        change::precheck::calls(&reads, &mut engine.functions, catalog)?;
        if let Some(what) = engine.beyond(&reads, catalog) {
            return Err(not_as_decided(&format!(
                "what is looked for has {what} too"
            )));
        }
        preceding.push((Arc::from(sql), bound, found));
    }
    let mut reaches = Vec::with_capacity(looks.len());
    for (ready, origin) in looks {
        for (query, binding) in ready {
            let (sql, again) = syntax::print_stable(&query, dialect, limits)?;
            let bound = binding.of(&again, dialect)?;
            let reads = change::precheck::reads(&sql, again, catalog, visible, limits)?;
            if reads.changes().next().is_some() {
                return Err(not_as_decided("what is looked for is changed"));
            }
            if change::precheck::cascade_count::is_steady(&reads, catalog) {
                reaches.push((Arc::from(sql), bound, origin));
                break;
            }
        }
    }
    let if_empty = source::if_empty(&references);
    let columns = match explain {
        None => output::columns::columns(&outputs, &references, catalog, visible)?,
        Some(_) => Explain::columns(dialect)
            .iter()
            .map(|name| OutputColumn {
                name: (*name).into(),
                type_name: Arc::default(),
                masked: false,
            })
            .collect(),
    };
    let mut tokens = Vec::new();
    for (index, output) in outputs.iter().enumerate() {
        if explain.is_none() {
            tokens.extend(output::columns::token(output).map(|keys| (index, Arc::clone(keys))));
        }
    }
    let sql = source::cache::filled(conditions.filled(skeleton, dialect)?, &forms, dialect)?;
    if let Some(whole) = whole
        && !source::cache::is_whole(&whole, &sql, &forms, &conditions, dialect, limits)?
    {
        return Err(not_as_decided("it reads back otherwise as a whole"));
    }
    let sql = match explain {
        None => sql,
        Some(explain) => explain.prefix(dialect) + &sql,
    };
    // A plan that is shown runs nothing; a guard around a change is a filter.
    let is_guarded = writes
        .iter()
        .any(|form| form.guard.is_some() || form.admission.is_some() || form.merge.is_some());
    let estimable = tells && explain.is_none() && !is_guarded && preceding.is_empty();
    let reserved = match reserved {
        Some(reserved) if !estimable => {
            // Nobody will know more.
            reserved.confirm(None, None)?;
            None
        }
        reserved => reserved,
    };
    let body_after_changes = with_changes
        .map(|with| source::cache::filled(conditions.filled(with, dialect)?, &forms, dialect))
        .transpose()?
        .map(|with| with.len() + 1);
    Ok(Plan {
        body_after_changes,
        provisos: preceding,
        reaches,
        principal,
        used: placeholders.into_keys().collect(),
        bound,
        looked_at: given.looked_at(),
        scan_plan: ScanPlan {
            columns,
            max_rows,
            max_result_bytes: limits.max_result_bytes,
            max_cell_bytes: limits.max_cell_bytes,
            if_empty,
            tokens,
        },
        engine_reads: engine.reads,
        engine_writes: output::expected_access::writes(&access, catalog),
        engine_triggers: output::expected_access::triggers(&access, catalog),
        engine_functions: engine.functions,
        effect: match (targets.is_empty(), explain) {
            (true, None) => Effect::Read,
            (true, Some(_)) => Effect::Explain,
            (false, _) => Effect::Write,
        },
        max_affected: if targets.is_empty() {
            0
        } else {
            permitted_changes
                .unwrap_or(u64::MAX)
                .min(limits.max_affected_rows)
        },
        gathers: access.functions().any(|uid| {
            let kinds = catalog.function(uid).map(|function| function.kinds);
            kinds.is_none_or(|kinds| kinds.aggregate || kinds.window)
        }),
        may_fail_over_filters: needs_fence && (if_empty != EmptyReason::NoMatch || is_guarded),
        estimate_caps: limits.estimate_caps().filter(|_| estimable),
        reserved,
        limits: limits.clone(),
        policies,
        relations: relations(&access, catalog),
        sources: source::cache::texts(&forms)
            .filter_map(|(id, form)| Some((catalog.relation(id)?.uid.clone(), form)))
            .collect(),
        sql,
    })
}

/// Uids of what a statement reads and of what it changes, each once: a key may delete rows of a table in which another changes some.
fn relations(access: &AccessSet, catalog: &Catalog) -> Vec<String> {
    let changed = access.changes().map(|change| change.relation);
    let changed: BTreeSet<RelationId> = changed.collect();
    let read: BTreeSet<RelationId> = access.relations().collect();
    let system = access.system_relations();
    (read.union(&changed))
        .filter_map(|id| Some(catalog.relation(*id)?.uid.clone()))
        .chain(system.map(|(schema, name)| ident::qualified([schema, name])))
        .collect()
}

/// What a statement reads of which no plan is shown.
enum Obliged<'r> {
    /// A relation with masks or filters.
    Reference(&'r Reference),
    /// One of the engine's own.
    System,
}

/// Whose plan would show estimates, conditions and keys of more than what is plain and whole to the reader.
fn obliged<'r>(
    references: &'r [Reference],
    access: &AccessSet,
    catalog: &Catalog,
) -> Option<Obliged<'r>> {
    if let Some(reference) = references.iter().find(|reference| needs_form(reference)) {
        return Some(Obliged::Reference(reference));
    }
    let mut read = access.relations().filter_map(|id| catalog.relation(id));
    let of_engine = access.system_relations().next().is_some()
        || read.any(|relation| relation.system.is_some());
    of_engine.then_some(Obliged::System)
}

fn unshown(obliged: &Obliged<'_>, catalog: &Catalog) -> Rejection {
    let message = match obliged {
        Obliged::System => "the plan of a statement over system relations is not shown".to_owned(),
        Obliged::Reference(reference) => {
            let name = catalog
                .relation(reference.relation)
                .map_or("", |relation| relation.name.as_str());
            format!("the plan of a statement over `{name}` would show what masks and filters hide")
        }
    };
    Rejection::new(Code::ObligationInapplicable, message)
}

/// Whether a reference must be replaced.
fn needs_form(reference: &Reference) -> bool {
    reference.decision.has_obligation()
        || reference
            .body
            .as_ref()
            .is_some_and(|body| body.has_obligation)
}

/// The source form of `reference`, as it will stand in the statement.
fn source_form(
    reference: &Reference,
    place: source::Place<'_>,
    fence: bool,
    known: &FormCache,
    engine: &mut Engine,
    limits: &Limits,
) -> Result<Form, Rejection> {
    let mut with_parameters = None;
    let ready = known.get(reference, fence, place.keyed, || {
        let mut functions = BTreeSet::new();
        let tree = source::form(reference, place, fence, &mut functions)?;
        let relation = place.catalog.relation(reference.relation);
        let reads = relation.map(|relation| source::reads(reference, relation));
        let (reads, dialect) = (reads.unwrap_or_default(), place.catalog.dialect());
        let ready = source::cache::ready(&tree, &functions, reads, dialect, limits)?;
        if ready.is_none() {
            with_parameters = Some((tree, functions));
        }
        Ok(ready)
    })?;
    match (ready, with_parameters) {
        (Some(ready), _) => {
            engine.calls(&ready.functions);
            Ok(Form::Text(ready))
        }
        (None, Some((tree, functions))) => {
            engine.functions.extend(functions);
            Ok(Form::Tree(tree))
        }
        (None, None) => Err(not_as_decided("a relation has no source form")),
    }
}

/// What takes the place of a reference.
enum InPlace {
    Tree(Box<Query>),
    /// The name of the form with this index.
    Name(usize),
}

/// Puts what `form` gives for a relation where the marked references to it stand; each must be met exactly once. Gives
/// how many names it put.
fn replace_references(
    query: &mut Query,
    references: &[Reference],
    targets: &[Target],
    form: impl Fn(RelationId) -> Option<InPlace>,
    dialect: Dialect,
) -> Result<usize, Rejection> {
    let mut visitor = Replacing {
        references,
        form,
        targets,
        dialect,
        seen: vec![0; references.len()],
        named: 0,
    };
    let _ = VisitMut::visit(query, &mut visitor);
    if visitor.seen.iter().any(|count| *count != 1) {
        return Err(not_as_decided("a reference was not met exactly once"));
    }
    Ok(visitor.named)
}

struct Replacing<'r, F> {
    references: &'r [Reference],
    form: F,
    dialect: Dialect,
    /// Whose references stay as they are: what the statement changes.
    targets: &'r [Target],
    seen: Vec<usize>,
    named: usize,
}

impl<F: Fn(RelationId) -> Option<InPlace>> VisitorMut for Replacing<'_, F> {
    type Break = ();

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let TableFactor::Table {
            name,
            alias,
            args: _,
            with_hints: _,
            version: _,
            with_ordinality: _,
            partitions: _,
            json_path: _,
            sample: _,
            index_hints: _,
        } = factor
        else {
            return ControlFlow::Continue(());
        };
        let Some(index) = resolve::reference_index(name) else {
            return ControlFlow::Continue(());
        };
        if let Some(count) = self.seen.get_mut(index) {
            *count += 1;
        }
        let mut targets = self.targets.iter();
        if targets.any(|target| target.reference == Some(index)) {
            return ControlFlow::Continue(());
        }
        let Some(reference) = self.references.get(index) else {
            return ControlFlow::Continue(());
        };
        if let Some(form) = (self.form)(reference.relation) {
            let own = name.0.last().and_then(|part| part.as_ident()).cloned();
            let alias = alias.take().or_else(|| own.map(ast::alias));
            *factor = match form {
                InPlace::Tree(subquery) => TableFactor::Derived {
                    lateral: false,
                    subquery,
                    alias,
                    sample: None,
                },
                InPlace::Name(index) => {
                    self.named += 1;
                    source::cache::place(index, alias, self.dialect)
                }
            };
        }
        ControlFlow::Continue(())
    }
}

fn not_as_decided(detail: &str) -> Rejection {
    Rejection::new(Code::Internal, "the rewritten statement is not as decided")
        .with_operator_detail(detail)
}

/// The refusal of a text of ours that is not read back: what we add to a statement counts as work on it, and anything else is a
/// fault.
fn unread(inner: Rejection) -> Rejection {
    match inner.code() {
        Code::LimitWork => inner,
        _ => not_as_decided(&inner.to_string()),
    }
}
