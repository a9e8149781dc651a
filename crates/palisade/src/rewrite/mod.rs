//! Before the database: the permit becomes a statement that is safe to run exactly as printed.
//!
//! Obligations hold at the source: each physical reference to a relation that is masked, hidden in
//! part or filtered is replaced by a derived table that projects what may be seen. Everything above
//! it computes on masked values. The result is printed, parsed and resolved again: it must be the
//! same tree, and touch nothing that was not permitted.

mod compare;
mod filter;
mod hash;
mod limit;
mod mask;
mod null;
mod parameters;
mod plan;
mod source;
mod sql;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, ops::ControlFlow, sync::Arc};

use sqlparser::ast::{Query, TableFactor, VisitMut, VisitorMut};

pub(crate) use plan::Plan;

use crate::{
    catalog::{Catalog, RelationId, RelationKind, system_relation},
    code::Code,
    dialect::Dialect,
    ident,
    limits::Limits,
    policy::{Permit, obligation::ColumnLevel},
    rejection::Rejection,
    resolve::{self, Mode, Output, Reference, ResolvedStatement, Visible},
    scan::{OutputColumn, ScanPlan},
    syntax::{self, Outline, ParsedQuery},
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
}

impl RewrittenStatement {
    /// Uids of every relation it reads, views and what stands below them included.
    #[must_use]
    pub fn relations(&self) -> &[String] {
        &self.plan.relations
    }

    /// What it is made of beside the values of its parameters, if other values would not change that.
    pub(crate) fn plan(&self) -> Option<&Arc<Plan>> {
        (!self.plan.by_value).then_some(&self.plan)
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

    /// How the answer must be scanned.
    #[must_use]
    pub fn scan_plan(&self) -> &ScanPlan {
        &self.plan.scan_plan
    }

    /// The (relation, column) pairs, folded, that the engine may read while it runs this: the second
    /// lock. A relation that is read without any column stands with an empty column name.
    #[must_use]
    pub fn engine_reads(&self) -> &BTreeSet<(String, String)> {
        &self.plan.engine_reads
    }

    /// The functions, folded, that the engine may call while it runs this.
    #[must_use]
    pub fn engine_functions(&self) -> &BTreeSet<String> {
        &self.plan.engine_functions
    }

    /// What it may cost.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.plan.limits
    }

    /// Ids of the policies that determined the permit; the operator's.
    #[must_use]
    pub fn policies(&self) -> &[String] {
        &self.plan.policies
    }

    /// For each relation with obligations, its uid and what stands in its place; the operator's.
    #[must_use]
    pub fn sources(&self) -> &[(String, String)] {
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
    limits: &Limits,
) -> Result<RewrittenStatement, Rejection> {
    // Views deepen the tree.
    let plan = syntax::with_stack(resolved.levels, || {
        apply(resolved, permit, params, catalog, visible, limits)
    })?;
    Plan::bind(&Arc::new(plan), params)
}

fn apply(
    resolved: ResolvedStatement,
    permit: Permit,
    params: &Params,
    catalog: &Catalog,
    visible: &dyn Visible,
    limits: &Limits,
) -> Result<Plan, Rejection> {
    let (policies, permitted_rows) = (permit.policies().to_vec(), permit.max_rows());
    // A permit is used once.
    drop(permit);
    let ResolvedStatement {
        mut query,
        references,
        outputs,
        access,
        placeholders,
        needs_fence,
        ctes,
        whole_rows,
        levels: _,
    } = resolved;
    let max_rows = permitted_rows.unwrap_or(u64::MAX).min(limits.max_rows);

    let mut engine = Engine {
        reads: BTreeSet::new(),
        functions: access.functions.clone(),
        whole_rows,
    };
    engine.ctes(&ctes);
    engine.system(&access, catalog.dialect());
    let mut forms: Vec<(RelationId, Box<Query>)> = Vec::new();
    for reference in &references {
        engine.reference(reference, catalog, &access);
        if needs_form(reference) && !forms.iter().any(|(id, _)| *id == reference.relation) {
            let form = source::form(
                reference,
                catalog,
                needs_fence,
                false,
                &mut engine.functions,
            )?;
            forms.push((reference.relation, form));
        }
    }
    engine.table_functions(catalog);
    replace_references(&mut query, &references, &forms)?;
    let dialect = catalog.dialect();
    let bounded = limit::bound(&mut query, max_rows, params, dialect)?;
    let bound = parameters::order(&mut query, &placeholders, dialect, bounded.gone)?;

    let (sql, again) = syntax::print_stable(&query, dialect, limits)?;
    let mut outline = Outline::default();
    if !bound.is_empty() {
        outline.positional.extend(parameters::positions(&again));
    }
    let parsed = ParsedQuery {
        text: &sql,
        query: again,
        outline,
    };
    let check = resolve::resolve(
        parsed,
        catalog,
        visible,
        Mode::Rewritten { forms: &forms },
        limits,
    )
    .map_err(|inner| not_as_decided(&inner.to_string()))?;
    if !check.access.within(&access) {
        return Err(not_as_decided("it touches more than was permitted"));
    }
    let names = |outputs: &[Output]| outputs.iter().map(|o| o.name.clone()).collect::<Vec<_>>();
    if names(&check.outputs) != names(&outputs) {
        return Err(not_as_decided("its columns have other names"));
    }

    let filtered = references.iter().any(source::is_filtered);
    Ok(Plan {
        used: placeholders.into_keys().collect(),
        bound,
        by_value: bounded.by_value,
        scan_plan: ScanPlan {
            columns: output_columns(&outputs, &references, catalog, visible)?,
            max_rows,
            max_result_bytes: limits.max_result_bytes,
            max_cell_bytes: limits.max_cell_bytes,
            filtered,
        },
        engine_reads: engine.reads,
        engine_functions: engine.functions,
        limits: limits.clone(),
        policies,
        relations: access
            .relations()
            .filter_map(|id| catalog.relation(id))
            .map(|r| r.uid.clone())
            .chain(
                access
                    .system_relations()
                    .map(|(schema, name)| ident::qualified([schema, name])),
            )
            .collect(),
        sources: forms
            .iter()
            .filter_map(|(id, form)| Some((catalog.relation(*id)?.uid.clone(), form.to_string())))
            .collect(),
        sql,
    })
}

/// Whether a reference must be replaced.
fn needs_form(reference: &Reference) -> bool {
    reference.decision.has_obligation()
        || reference
            .body
            .as_ref()
            .is_some_and(|body| body.has_obligation)
}

/// Puts the source forms where the marked references stand; each must be met exactly once.
fn replace_references(
    query: &mut Query,
    references: &[Reference],
    forms: &[(RelationId, Box<Query>)],
) -> Result<(), Rejection> {
    let mut visitor = Replacing {
        references,
        forms,
        seen: vec![0; references.len()],
    };
    let _ = VisitMut::visit(query, &mut visitor);
    if visitor.seen.iter().any(|count| *count != 1) {
        return Err(not_as_decided("a reference was not met exactly once"));
    }
    Ok(())
}

struct Replacing<'r> {
    references: &'r [Reference],
    forms: &'r [(RelationId, Box<Query>)],
    seen: Vec<usize>,
}

impl VisitorMut for Replacing<'_> {
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
        let Some(reference) = self.references.get(index) else {
            return ControlFlow::Continue(());
        };
        if let Some((_, form)) = self.forms.iter().find(|(id, _)| *id == reference.relation) {
            let own = name.0.last().and_then(|part| part.as_ident()).cloned();
            let alias = alias.take().or_else(|| own.map(sql::alias));
            *factor = TableFactor::Derived {
                lateral: false,
                subquery: form.clone(),
                alias,
                sample: None,
            };
        }
        ControlFlow::Continue(())
    }
}

/// Columns that every table of PostgreSQL has besides its own.
const SYSTEM_COLUMNS: [&str; 6] = ["ctid", "xmin", "cmin", "xmax", "cmax", "tableoid"];

/// What the engine will be seen to do.
struct Engine {
    reads: BTreeSet<(String, String)>,
    functions: BTreeSet<String>,
    whole_rows: bool,
}

impl Engine {
    /// SQLite reports a common table expression of which no column is used as a read of its name.
    fn ctes<'n>(&mut self, names: impl IntoIterator<Item = &'n String>) {
        self.reads
            .extend(names.into_iter().map(|name| (name.clone(), String::new())));
    }

    /// The engine's own relations, whole: who reads them sees everything.
    fn system(&mut self, access: &crate::access::AccessSet, dialect: Dialect) {
        for (schema, name) in access.system_relations() {
            let Some(known) = system_relation(dialect, schema, name) else {
                continue;
            };
            let columns = known.columns.iter().cloned().chain([String::new()]);
            self.reads
                .extend(columns.map(|column| (name.to_owned(), column)));
        }
    }

    /// A table function's columns are reported as read, and the call is not.
    fn table_functions(&mut self, catalog: &Catalog) {
        let called: Vec<_> = self
            .functions
            .iter()
            .filter_map(|uid| catalog.function(uid))
            .filter(|def| def.kinds.table)
            .collect();
        for def in called {
            let hidden = ["", "rowid", "json", "root"].map(str::to_owned);
            for column in def.columns.iter().flatten().cloned().chain(hidden) {
                self.reads.insert((def.name.clone(), column));
            }
        }
    }

    fn reference(
        &mut self,
        reference: &Reference,
        catalog: &Catalog,
        access: &crate::access::AccessSet,
    ) {
        let Some(relation) = catalog.relation(reference.relation) else {
            return;
        };
        let table = catalog.fold_relation(&relation.name);
        self.reads.insert((table.clone(), String::new()));
        let form = needs_form(reference);
        if relation.has_rowid && !form {
            self.reads.insert((table.clone(), "rowid".to_owned()));
        }
        if catalog.dialect() == Dialect::Postgres && relation.kind == RelationKind::Table && !form {
            let columns = SYSTEM_COLUMNS
                .iter()
                .map(|c| (table.clone(), (*c).to_owned()));
            self.reads.extend(columns);
        }
        let view = reference.body.is_some();
        for (id, column) in relation.column_ids() {
            let read = if form {
                view || source::reads(reference, id.index)
            } else {
                view || self.whole_rows || access.columns.contains_key(&id)
            };
            if read {
                self.reads.insert((table.clone(), column.key.clone()));
            }
        }
        if let Some(body) = &reference.body {
            self.functions
                .extend(body.resolved.access.functions.iter().cloned());
            self.ctes(&body.resolved.ctes);
            self.whole_rows |= body.resolved.whole_rows;
            if form {
                self.ctes([source::unused_name(catalog, reference.relation)].iter());
            }
            for inner in &body.resolved.references {
                self.reference(inner, catalog, access);
            }
        }
    }
}

fn output_columns(
    outputs: &[Output],
    references: &[Reference],
    catalog: &Catalog,
    visible: &dyn Visible,
) -> Result<Vec<OutputColumn>, Rejection> {
    outputs
        .iter()
        .map(|output| {
            let type_name = output
                .lineage
                .identity
                .and_then(|id| catalog.column(id))
                .map_or_else(String::new, |c| c.type_name.clone());
            let mut masked = false;
            for column in &output.lineage.columns {
                masked |= is_masked(*column, references, visible)?;
            }
            Ok(OutputColumn {
                name: output.name.clone(),
                type_name,
                masked,
            })
        })
        .collect()
}

/// Whether a mask stands before `column`, or before what a view's column is made from.
fn is_masked(
    column: crate::catalog::ColumnId,
    references: &[Reference],
    visible: &dyn Visible,
) -> Result<bool, Rejection> {
    let decision = visible.relation(column.relation)?;
    let level = decision
        .columns
        .get(usize::from(column.index))
        .map(|c| &c.level);
    if level != Some(&ColumnLevel::Plain) {
        return Ok(true);
    }
    for reference in references {
        if let Some(body) = &reference.body
            && reference.relation == column.relation
            && let Some(output) = body.resolved.outputs.get(usize::from(column.index))
        {
            for below in &output.lineage.columns {
                if is_masked(*below, &body.resolved.references, visible)? {
                    return Ok(true);
                }
            }
            break;
        }
    }
    Ok(false)
}

fn not_as_decided(detail: &str) -> Rejection {
    Rejection::new(Code::Internal, "the rewritten statement is not as decided")
        .with_operator_detail(detail)
}
