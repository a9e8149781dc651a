//! The stages between a permit and a text: each takes the value of the one before by move, so that none can be left out.
//!
//! ```text
//! Authorized → Sourced → Constrained → Replaced → Prechecked → Filtered → Bounded → Numbered → Printed → Prepared
//! ```
//!
//! Nothing here is run or shown before [`Prepared::verify`] has resolved the printed text a second time.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use sqlparser::ast::Query;

use crate::rewrite::{
    authorized::Authorized,
    change::{
        self, ChangeRewriter, FailureRisk,
        precheck::{
            self, ViolationQuery,
            cascade_count::{self, CascadeProbe},
            foreign_keys,
        },
        write_filter_cache::PrintedFilters,
    },
    draft::{Context, Draft, Facts, Parts, Printed, UnprintedCount, UnprintedPrecheck},
    explain::unplannable_read,
    limit,
    output::{
        expected_access::ExpectedAccess,
        parameter_values::ParameterValues,
        parameters::{self, Binding},
    },
    refusal::not_as_decided,
    relation_source::{
        self,
        cache::{PrintedSource, PrintedSources, SourceCache},
        replace::{has_obligations, replace_references},
        row_filter,
    },
    statement::{Prepared, RewrittenStatement},
};
use crate::{
    dialect::Dialect,
    limits::Limits,
    policy::obligation::RowFilter,
    rejection::Rejection,
    resolve::{Reference, ResolvedStatement, Target, WriteObligations},
    syntax,
    value::Params,
};

/// Applies the obligations of a permit to its statement.
///
/// # Errors
/// `obligation.inapplicable`, `write.row-not-admitted`, `syntax.not-stable`, `syntax.unsupported` for a LIMIT that cannot be
/// bounded, `internal` if the result is not within what was permitted.
pub(crate) fn rewrite(
    authorized: Authorized,
    params: &Params,
    context: Context<'_>,
) -> Result<RewrittenStatement, Rejection> {
    // Views deepen the tree.
    let levels = authorized.resolved().levels;
    let prepared = syntax::with_stack(levels, || {
        let printed = choose_sources(authorized, params, context)?
            .constrain_changes()?
            .replace_references()?
            .collect_prechecks()?
            .put_write_filters()?
            .bound_rows()?
            .number_parameters()?
            .print()?;
        Prepared::verify(printed)
    })?;
    Prepared::bind(&Arc::new(prepared), params)
}

/// Each relation with obligations has its source subquery.
struct Sourced<'a> {
    draft: Draft<'a>,
    query: Box<Query>,
}

/// Each change has its write filter, the rows that it may add, and the rows that would refuse it.
struct Constrained<'a> {
    draft: Draft<'a>,
    query: Box<Query>,
    obligations: Vec<WriteObligations>,
    violations: Vec<Vec<ViolationQuery>>,
    /// Conditions of the rows with which an INSERT conflicts, where they are known.
    conflicts: Vec<Option<Vec<sqlparser::ast::Expr>>>,
}

/// Source subqueries stand in the place of their relations.
struct Replaced<'a> {
    constrained: Constrained<'a>,
    source_names: usize,
}

/// The queries that must give no row before a change are made, of the tree without write filters.
struct Prechecked<'a> {
    replaced: Replaced<'a>,
    prechecks: Vec<UnprintedPrecheck>,
}

/// Write filters stand around the changes.
struct Filtered<'a> {
    parts: Parts<'a>,
    query: Box<Query>,
}

/// The outermost query gives a bounded number of rows.
struct Bounded<'a> {
    parts: Parts<'a>,
    query: Box<Query>,
    /// The position, from 1, of a `?` that is gone with the limit it stood in.
    removed_parameter: Option<usize>,
}

/// Every parameter has its number.
struct Numbered<'a> {
    parts: Parts<'a>,
    query: Box<Query>,
    binding: Binding,
    /// Whether the numbering is known only of a tree that was read from the text.
    is_positional: bool,
}

/// Chooses the source subquery of each relation with obligations.
fn choose_sources<'a>(
    authorized: Authorized,
    params: &'a Params,
    context: Context<'a>,
) -> Result<Sourced<'a>, Rejection> {
    let (resolved, permit) = authorized.into_parts();
    let ResolvedStatement {
        query,
        references,
        outputs,
        access,
        places: _,
        placeholders,
        token_parameters,
        needs_fence,
        has_open_conditions,
        fails_by_plan,
        may_fail: _,
        sources: row_sources,
        ctes,
        aliases,
        quoted_texts,
        whole_rows,
        levels: _,
        targets,
        explain,
        steps: _,
        arms: _,
    } = resolved;
    let Context {
        catalog,
        visible: _,
        cache,
        limits,
    } = context;
    let unplannable = unplannable_read(&references, &access, catalog);
    if let (Some(read), Some(_)) = (&unplannable, &explain) {
        return Err(read.refusal(catalog));
    }
    let is_plannable = unplannable.is_none();
    let dialect = catalog.dialect();
    let mut expected = ExpectedAccess::new(access.functions.clone(), whole_rows);
    expected.allow_ctes(&ctes);
    expected.allow_aliases(&aliases);
    if dialect == Dialect::Sqlite {
        expected.allow_aliases(&ctes);
    }
    expected.allow_system_relations(&access, dialect);
    expected.allow_merged_columns(dialect);
    let narrows = needs_fence
        && targets.is_empty()
        && (dialect != Dialect::Sqlite || !relation_source::computes_masks(&references));
    let mut sources = PrintedSources::new();
    for (index, reference) in references.iter().enumerate() {
        let is_target = targets.iter().any(|target| target.reference == Some(index));
        let is_known = sources.iter().any(|(id, _)| *id == reference.relation);
        if has_obligations(reference) && !is_target && !is_known {
            let place = relation_source::Place {
                catalog,
                // Keys have no place among the parameters of a change, and nothing masked is read in one.
                keyed: targets.is_empty(),
                in_view: false,
                is_alone: references.len() == 1,
                is_narrowed: narrows && is_read_once(reference, &references),
            };
            let is_fenced = needs_fence || reads_changed_table(reference, &targets, dialect);
            let source = source_of(reference, place, is_fenced, cache, &mut expected, limits)?;
            sources.push((reference.relation, source));
        }
        let text = sources.iter().find_map(|(id, source)| match source {
            PrintedSource::Text(text) => (*id == reference.relation).then_some(&**text),
            PrintedSource::Tree(_) => None,
        });
        expected.allow_reference(reference, (is_target, text), catalog, &access);
    }
    expected.allow_table_functions(catalog);
    for write in permit.writes().values() {
        expected.allow_seen_rows(&write.change, catalog);
        expected.allow_seen_rows(&write.add, catalog);
    }
    let has_parameters = !placeholders.is_empty() || !token_parameters.is_empty();
    // Values are looked at of changes alone.
    let (positions, uses) = if targets.is_empty() || !has_parameters {
        (HashMap::new(), BTreeMap::new())
    } else {
        (parameters::positions(&query), parameters::uses(&query))
    };
    let draft = Draft {
        context,
        facts: Facts {
            permit,
            references,
            outputs,
            access,
            targets,
            explain,
            placeholders,
            token_parameters,
            parameter_values: ParameterValues::new(params),
            positions,
            uses,
            ctes,
            quoted_texts,
            needs_fence,
            has_open_conditions,
            fails_by_plan,
            combines_sources: row_sources > 1,
            is_plannable,
        },
        sources,
        write_filters: PrintedFilters::default(),
        expected,
    };
    Ok(Sourced { draft, query })
}

impl<'a> Sourced<'a> {
    /// Decides what must stand around each change, and which rows would refuse it.
    fn constrain_changes(self) -> Result<Constrained<'a>, Rejection> {
        let Self {
            mut draft,
            mut query,
        } = self;
        let Context {
            catalog,
            visible,
            cache,
            limits,
        } = draft.context;
        let facts = &draft.facts;
        let changes = change::walk::changes(&query);
        if changes.len() != facts.targets.len() {
            return Err(not_as_decided("a change was not decided"));
        }
        let count = facts.targets.len();
        let (mut obligations, mut violations, mut conflicts) = (
            Vec::with_capacity(count),
            Vec::with_capacity(count),
            Vec::with_capacity(count),
        );
        let mut probed = BTreeSet::new();
        for (target, change) in facts.targets.iter().zip(changes) {
            let rewriter = ChangeRewriter {
                target,
                permit: &facts.permit,
                catalog,
                given: &facts.parameter_values,
                placeholders: &facts.placeholders,
                ctes: &facts.ctes,
                positions: &facts.positions,
                uses: &facts.uses,
                references: &facts.references,
                access: &facts.access,
                visible,
                known: cache,
                conditions: &draft.write_filters,
                limits,
                failing: FailureRisk {
                    needs_fence: facts.needs_fence,
                    by_plan: facts.fails_by_plan,
                },
            };
            let rewritten = rewriter.rewrite_change(change, &mut draft.expected.functions)?;
            let expected = &mut draft.expected;
            expected.allow_target(target, &rewritten.reads, &facts.access, catalog);
            expected.allow_probes(&rewritten.looked.reads, catalog);
            expected.allow_ctes([rewriter.unused_name()].iter());
            probed.extend(rewritten.looked.changes);
            obligations.push(rewritten.obligations);
            violations.push(rewritten.violations);
            conflicts.push(rewritten.conflicts);
        }
        if let Some((_, change)) = facts.permit.filtered_cascades().difference(&probed).next() {
            return Err(foreign_keys::unreachable_change(
                *change,
                "no precheck can look for them",
            ));
        }
        if catalog.dialect() == Dialect::Postgres {
            let changes = change::walk::changes_mut(&mut query)
                .into_iter()
                .zip(&obligations);
            for ((change, obligations), target) in changes.zip(&facts.targets) {
                if obligations.admission.is_some() {
                    change::new_row::unknown_literals::spell_types(change, target, catalog);
                }
            }
        }
        Ok(Constrained {
            draft,
            query,
            obligations,
            violations,
            conflicts,
        })
    }
}

impl<'a> Constrained<'a> {
    /// Puts source subqueries, or their names, in the place of relations.
    fn replace_references(self) -> Result<Replaced<'a>, Rejection> {
        let mut constrained = self;
        let draft = &constrained.draft;
        let facts = &draft.facts;
        let dialect = draft.context.catalog.dialect();
        let source_names = replace_references(
            &mut constrained.query,
            &facts.references,
            &facts.targets,
            &draft.sources,
            dialect,
        )?;
        Ok(Replaced {
            constrained,
            source_names,
        })
    }
}

impl Draft<'_> {
    /// Fills `query`, made of parts of the statement, with the trees behind its names, and numbers its parameters.
    fn complete(&self, query: &mut Query) -> Result<Binding, Rejection> {
        let (dialect, limits) = (self.context.catalog.dialect(), self.context.limits);
        relation_source::cache::put_trees(query, &self.sources, dialect, limits)?;
        self.write_filters.put_trees(query, dialect);
        parameters::bind_in_place(
            query,
            &self.facts.positions,
            &self.facts.placeholders,
            &self.facts.token_parameters,
            dialect,
        )
    }
}

impl<'a> Replaced<'a> {
    /// Makes the queries that must give no row before each change.
    fn collect_prechecks(self) -> Result<Prechecked<'a>, Rejection> {
        let Constrained {
            draft,
            query,
            obligations,
            violations,
            conflicts: _,
        } = &self.constrained;
        let catalog = draft.context.catalog;
        let with = query.with.as_ref();
        let mut prechecks = Vec::new();
        let changes = change::walk::changes(query).into_iter().zip(obligations);
        for ((change, obligations), (target, violations)) in
            changes.zip(draft.facts.targets.iter().zip(violations))
        {
            for violation in violations {
                let mut query = precheck::query::violation_query(
                    change,
                    obligations,
                    violation,
                    target.reference,
                    with,
                    catalog,
                )?;
                let binding = draft.complete(&mut query)?;
                prechecks.push(UnprintedPrecheck {
                    query,
                    binding,
                    violation: violation.violation(),
                });
            }
        }
        Ok(Prechecked {
            replaced: self,
            prechecks,
        })
    }
}

impl<'a> Prechecked<'a> {
    /// Puts write filters around the changes, and makes the queries for rows that foreign keys follow.
    fn put_write_filters(self) -> Result<Filtered<'a>, Rejection> {
        let Self {
            replaced:
                Replaced {
                    constrained:
                        Constrained {
                            draft,
                            mut query,
                            obligations,
                            violations: _,
                            conflicts,
                        },
                    source_names,
                },
            prechecks,
        } = self;
        let changes = change::walk::changes_mut(&mut query)
            .into_iter()
            .zip(&obligations);
        for ((change, obligations), target) in changes.zip(&draft.facts.targets) {
            change::write_filter::put_write_filters(change, obligations, target.reference)?;
        }
        let catalog = draft.context.catalog;
        let with = query.with.as_ref();
        let mut cascade_counts = Vec::new();
        let changes = change::walk::changes(&query).into_iter();
        for (change, (target, conflicts)) in changes.zip(draft.facts.targets.iter().zip(&conflicts))
        {
            let probe = cascade_count::probe(change, target, conflicts.as_deref(), with, catalog)?;
            let Some(CascadeProbe {
                found,
                every,
                origin,
            }) = probe
            else {
                continue;
            };
            let mut candidates = Vec::with_capacity(2);
            for mut query in [found, every] {
                let binding = draft.complete(&mut query)?;
                candidates.push((query, binding));
            }
            cascade_counts.push(UnprintedCount { candidates, origin });
        }
        let parts = Parts {
            draft,
            obligations,
            source_names,
            prechecks,
            cascade_counts,
        };
        Ok(Filtered { parts, query })
    }
}

impl<'a> Filtered<'a> {
    /// Bounds how many rows the outermost query gives.
    fn bound_rows(self) -> Result<Bounded<'a>, Rejection> {
        let Self { parts, mut query } = self;
        let draft = &parts.draft;
        let removed_parameter = if syntax::is_change(&query.body) {
            None
        } else {
            let values = &draft.facts.parameter_values;
            let dialect = draft.context.catalog.dialect();
            limit::bound_rows(&mut query, draft.max_rows(), values, dialect)?
        };
        Ok(Bounded {
            parts,
            query,
            removed_parameter,
        })
    }
}

impl<'a> Bounded<'a> {
    /// Numbers the statement's own parameters, and ours after them.
    fn number_parameters(self) -> Result<Numbered<'a>, Rejection> {
        let Self {
            mut parts,
            mut query,
            removed_parameter,
        } = self;
        let Draft {
            context,
            facts,
            sources,
            write_filters: _,
            expected: _,
        } = &mut parts.draft;
        let dialect = context.catalog.dialect();
        // Our own parameters stand in sources that are trees, and nowhere else.
        let has_own = sources.iter().any(|(_, source)| match source {
            PrintedSource::Tree(_) => true,
            PrintedSource::Text(_) => false,
        });
        let binds = has_own || !facts.placeholders.is_empty() || !facts.token_parameters.is_empty();
        // A write filter repeats conditions of a change, and their parameters.
        let repeats = dialect == Dialect::Mysql && !facts.targets.is_empty();
        let binding = if binds && repeats {
            parameters::bind_in_place(
                &mut query,
                &facts.positions,
                &facts.placeholders,
                &facts.token_parameters,
                dialect,
            )?
        } else if binds {
            let mut trees: Vec<&mut Query> = sources
                .iter_mut()
                .filter_map(|(_, source)| match source {
                    PrintedSource::Tree(tree) => Some(&mut **tree),
                    // It has no parameters.
                    PrintedSource::Text(_) => None,
                })
                .collect();
            parameters::renumber(
                &mut query,
                &mut trees,
                &facts.placeholders,
                &facts.token_parameters,
                dialect,
                removed_parameter,
            )?
        } else {
            Binding::default()
        };
        // Which of several `?` is which, and what of ours stands where, is known of a tree that was read from the text.
        let is_positional = match dialect {
            Dialect::Sqlite | Dialect::Postgres => has_own || !facts.token_parameters.is_empty(),
            Dialect::Mysql => binds,
        };
        Ok(Numbered {
            parts,
            query,
            binding,
            is_positional,
        })
    }
}

impl<'a> Numbered<'a> {
    /// Prints the tree, and reads the text back as the same tree.
    fn print(self) -> Result<Printed<'a>, Rejection> {
        let Self {
            parts,
            query,
            binding,
            is_positional,
        } = self;
        let Draft {
            context,
            facts: _,
            sources: _,
            write_filters,
            expected: _,
        } = &parts.draft;
        let dialect = context.catalog.dialect();
        let changing_with = change::walk::print_changing_with(&query);
        // A second look at what the look at the skeleton implies: tests pay for it, and statements that run do not.
        let whole = cfg!(debug_assertions).then(|| query.clone());
        let (skeleton, again) = if is_positional {
            syntax::print_stable(&query, dialect, context.limits)?
        } else {
            let readings = &context.cache.readings;
            readings.print(query, dialect, context.limits)?
        };
        let names = skeleton.bytes().filter(|byte| *byte == 0).count();
        if names != parts.source_names + write_filters.count_placeholders(&skeleton) {
            return Err(not_as_decided(
                "something else is spelled like a source's name",
            ));
        }
        Ok(Printed {
            parts,
            binding,
            skeleton,
            again,
            whole,
            changing_with,
        })
    }
}

/// Whether the filter of a source looks rows up in a table that the statement changes. MySQL does not let it, unless the source is worked
/// out before (<https://dev.mysql.com/doc/refman/8.4/en/update.html>).
fn reads_changed_table(reference: &Reference, targets: &[Target], dialect: Dialect) -> bool {
    match dialect {
        Dialect::Mysql => {}
        Dialect::Sqlite | Dialect::Postgres => return false,
    }
    let mut referred = BTreeMap::new();
    if let RowFilter::Where(predicate) = &reference.decision.rows {
        row_filter::columns_referred_to(predicate, &mut referred);
    }
    let below = reference
        .body
        .iter()
        .flat_map(|body| &body.resolved.references);
    targets
        .iter()
        .any(|target| referred.contains_key(&target.relation))
        || below
            .into_iter()
            .any(|below| reads_changed_table(below, targets, dialect))
}

/// Whether no other reference is to the same relation: one source subquery stands for all of them.
fn is_read_once(reference: &Reference, references: &[Reference]) -> bool {
    let mut same = references
        .iter()
        .filter(|other| other.relation == reference.relation);
    same.nth(1).is_none()
}

/// The source subquery of `reference`, from the cache where it has no parameters.
fn source_of(
    reference: &Reference,
    place: relation_source::Place<'_>,
    is_fenced: bool,
    cache: &SourceCache,
    expected: &mut ExpectedAccess,
    limits: &Limits,
) -> Result<PrintedSource, Rejection> {
    let mut with_parameters = None;
    let stands = (place.keyed, place.is_alone);
    let is_narrowed = place.is_narrowed && reference.narrowed_by.is_some();
    let mut print = || {
        let mut functions = BTreeSet::new();
        let tree = relation_source::source_query(reference, place, is_fenced, &mut functions)?;
        let relation = place.catalog.relation(reference.relation);
        let reads = relation.map(|relation| relation_source::columns_read(reference, relation));
        let (reads, dialect) = (reads.unwrap_or_default(), place.catalog.dialect());
        let printed =
            relation_source::cache::print_source(&tree, &functions, reads, dialect, limits)?;
        if printed.is_none() {
            with_parameters = Some((tree, functions));
        }
        Ok(printed)
    };
    let printed = match is_narrowed {
        // What narrows it is the statement's own.
        true => print()?,
        false => cache.get_or_print(reference, is_fenced, stands, print)?,
    };
    match (printed, with_parameters) {
        (Some(printed), _) => {
            expected.allow_functions(&printed.functions);
            Ok(PrintedSource::Text(printed))
        }
        (None, Some((tree, functions))) => {
            expected.functions.extend(functions);
            Ok(PrintedSource::Tree(tree))
        }
        (None, None) => Err(not_as_decided("a relation has no source subquery")),
    }
}
