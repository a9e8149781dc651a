//! A statement before values are bound to it: built here alone, once what was printed has been verified.

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
};

use crate::rewrite::{
    change::precheck::{
        self, Precheck, Violation,
        cascade_count::{self, CascadeCount, CascadeOrigin},
    },
    draft::{Context, Draft, Parts, Printed, PrintedDefinition, UnprintedCount, UnprintedPrecheck},
    output::{
        bound::Bound,
        columns,
        expected_access::{self, ExpectedReads},
        masked_uses::masked_uses,
        parameters,
        text_facts::{SkeletonFacts, TextFacts, read_skeleton},
    },
    refusal::{not_as_decided, refuse_unresolved},
    relation_source::{self, replace::has_obligations},
    statement::{
        Effect, PastRead, RewrittenStatement,
        change_facts::{ChangeFacts, join_facts, read_changes},
    },
};
use crate::{
    access::AccessSet,
    answer::{EmptyReason, MaskedUse, OutputColumn, QuotedText, RowBound, ScanPlan},
    catalog::{Catalog, Change, Companion, RelationId, functions::Safety},
    code::Code,
    ident,
    limits::{EstimateCaps, Limits},
    policy::{ApprovalDemand, PendingEstimatePolicies, SpentPermit},
    rejection::Rejection,
    resolve::{self, Mode, Reference},
    session::Principal,
    syntax::{self, Explain, Outline, ParsedDefinition, ParsedQuery},
    value::{Params, Placeholder, Value},
};

/// Words in double quotes of which an answer tells that they were read as texts: one shows the mistake.
const MAX_QUOTED_TEXTS: usize = 8;

/// A rewritten statement before values are bound to it, for one principal. Only `verify` and `verify_definition` make
/// one, of a text that was resolved again and touches what was permitted.
///
/// ```compile_fail,E0451
/// use palisade::rewrite::Prepared;
/// fn forge(prepared: Prepared) -> Prepared {
///     Prepared { sql: "DELETE FROM customers".into(), ..prepared }
/// }
/// ```
#[derive(Debug)]
pub struct Prepared {
    pub(in crate::rewrite::statement) principal: Principal,
    pub(in crate::rewrite::statement) sql: String,
    /// The version of the catalog over which it was decided.
    pub(in crate::rewrite::statement) catalog_version: String,
    /// The placeholders of the statement as it was written.
    pub(in crate::rewrite::statement) used: BTreeSet<Placeholder>,
    /// What is bound, the first to the first parameter.
    pub(in crate::rewrite::statement) bound: Vec<Bound>,
    /// Queries that must give no row before it, with what is bound there.
    pub(in crate::rewrite::statement) prechecks: PreparedPrechecks,
    /// Queries for rows that foreign keys follow, with what is bound there.
    pub(in crate::rewrite::statement) cascade_counts: PreparedCounts,
    /// Parameters whose values were looked at: with other values the statement might be another.
    pub(in crate::rewrite::statement) looked_at: BTreeSet<Placeholder>,
    pub(in crate::rewrite::statement) scan_plan: ScanPlan,
    pub(in crate::rewrite::statement) engine_reads: ExpectedReads,
    pub(in crate::rewrite::statement) engine_functions: BTreeSet<String>,
    pub(in crate::rewrite::statement) effect: Effect,
    pub(in crate::rewrite::statement) max_affected: u64,
    pub(in crate::rewrite::statement) body_after_changes: Option<usize>,
    pub(in crate::rewrite::statement) engine_writes: BTreeSet<(Change, String, String)>,
    pub(in crate::rewrite::statement) named_writes: BTreeSet<(Change, String, String)>,
    pub(in crate::rewrite::statement) engine_triggers: BTreeSet<String>,
    pub(in crate::rewrite::statement) change_facts: Vec<ChangeFacts>,
    pub(in crate::rewrite::statement) text_facts: Option<TextFacts>,
    pub(in crate::rewrite::statement) estimate_caps: Option<EstimateCaps>,
    /// What policies have to say of the engine's estimates, where those may be looked at.
    pub(in crate::rewrite::statement) reserved: Option<PendingEstimatePolicies>,
    pub(in crate::rewrite::statement) gathers: bool,
    pub(in crate::rewrite::statement) counts_failures: bool,
    pub(in crate::rewrite::statement) may_fail_over_filters: bool,
    /// Whether it reads, and nothing of what it reads is withheld: no mask, no filter, no function of the database's own.
    pub(in crate::rewrite::statement) is_unrestricted: bool,
    pub(in crate::rewrite::statement) limits: Limits,
    pub(in crate::rewrite::statement) policies: Vec<String>,
    /// Without which it must not run.
    pub(in crate::rewrite::statement) approval: Option<ApprovalDemand>,
    /// What the permit obliged to, for records.
    pub(in crate::rewrite::statement) obligations: Vec<String>,
    pub(in crate::rewrite::statement) sources: Vec<(String, Arc<str>)>,
    pub(in crate::rewrite::statement) past: Option<PastRead>,
    pub(in crate::rewrite::statement) relations: Vec<String>,
}

impl Prepared {
    /// Resolves the printed text again, and compares it with what was permitted.
    ///
    /// # Errors
    /// `internal` where it touches more, changes something else or has other columns.
    pub(in crate::rewrite) fn verify(printed: Printed<'_>) -> Result<Self, Rejection> {
        let Printed {
            parts:
                Parts {
                    mut draft,
                    obligations,
                    source_names: _,
                    prechecks,
                    cascade_counts,
                },
            binding,
            skeleton,
            again,
            whole,
            changing_with,
        } = printed;
        let context = draft.context;
        let Context {
            catalog,
            visible,
            cache: _,
            limits,
        } = context;
        let dialect = catalog.dialect();
        let bound = binding.bind_printed(&again, dialect)?;
        // Of what runs, and not of what resolving it makes of it.
        let words = read_changes(&again)?;
        let skeleton_facts = read_skeleton(&again, dialect)?;
        let mut outline = Outline::default();
        if !bound.is_empty() {
            outline.positional.extend(parameters::positions(&again));
        }
        let parsed = ParsedQuery {
            text: &skeleton,
            query: again,
            outline,
            explain: None,
        };
        let mode = Mode::Rewritten {
            sources: &relation_source::cache::placed_sources(&draft.sources),
            writes: &obligations,
        };
        let check =
            resolve::resolve(parsed, catalog, visible, mode, limits).map_err(refuse_unresolved)?;
        if bound.is_empty() && !check.placeholders.is_empty() {
            return Err(not_as_decided("a parameter has no value"));
        }
        if check.targets.len() != draft.facts.targets.len() {
            return Err(not_as_decided("it changes something else"));
        }
        if !check.access.is_within(&draft.facts.access) {
            let function = check.access.first_function_beyond(&draft.facts.access);
            let what = function.map_or_else(String::new, |uid| format!(": `{uid}`"));
            return Err(not_as_decided(&format!(
                "it touches more than was permitted{what}"
            )));
        }
        let (names, decided) = (check.outputs.iter(), draft.facts.outputs.iter());
        if !names.map(|o| &o.name).eq(decided.map(|o| &o.name)) {
            return Err(not_as_decided("its columns have other names"));
        }
        let change_facts = join_facts(&words, &check.targets)?;
        let text_facts = skeleton_facts
            .map(|found| draft.complete_facts(found))
            .transpose()?;
        let prechecks = draft.verify_prechecks(prechecks)?;
        let cascade_counts = draft.verify_counts(cascade_counts)?;
        let (sources, write_filters) = (&draft.sources, &draft.write_filters);
        let text = |skeleton| {
            relation_source::cache::fill_texts(
                write_filters.fill_texts(skeleton, dialect)?,
                sources,
                dialect,
            )
        };
        let sql = text(skeleton)?;
        if let Some(whole) = whole
            && !relation_source::cache::reads_back_whole(
                &whole,
                &sql,
                sources,
                write_filters,
                dialect,
                limits,
            )?
        {
            return Err(not_as_decided("it reads back otherwise as a whole"));
        }
        let body_after_changes = changing_with.map(text).transpose()?;
        let has_write_filter = obligations
            .iter()
            .any(|one| one.write_filter.is_some() || one.admission.is_some());
        draft.prepare(
            sql,
            bound,
            Verified {
                prechecks,
                cascade_counts,
                body_after_changes: body_after_changes.map(|with| with.len() + 1),
                has_write_filter,
                change_facts,
                text_facts,
            },
        )
    }

    /// The statement with these values.
    ///
    /// # Errors
    /// `parameter.mismatch` if they are not exactly those that the statement uses, `token.foreign` if one is no
    /// token where it must be one.
    pub(crate) fn bind(
        prepared: &Arc<Self>,
        params: &Params,
    ) -> Result<RewrittenStatement, Rejection> {
        let mismatch = |message: String| Rejection::new(Code::ParameterMismatch, message);
        params.check(&prepared.used).map_err(mismatch)?;
        let values = |bound: &[Bound]| -> Result<Vec<Value>, Rejection> {
            bound.iter().map(|bound| bound.value(params)).collect()
        };
        let prechecks = prepared.prechecks.iter().map(|(sql, bound, violation)| {
            let params = values(bound)?;
            Ok::<_, Rejection>(Precheck {
                sql: Arc::clone(sql),
                params,
                violation: *violation,
            })
        });
        let counts = prepared.cascade_counts.iter().map(|(sql, bound, origin)| {
            let params = values(bound)?;
            Ok::<_, Rejection>(CascadeCount {
                sql: Arc::clone(sql),
                params,
                origin: Arc::clone(origin),
            })
        });
        Ok(RewrittenStatement {
            params: values(&prepared.bound)?,
            prechecks: prechecks.collect::<Result<_, _>>()?,
            cascade_counts: counts.collect::<Result<_, _>>()?,
            estimate_refusal: OnceLock::new(),
            limits: prepared.limits.clone(),
            prepared: Arc::clone(prepared),
        })
    }

    /// The same for a definition, in which nothing is rewritten.
    ///
    /// # Errors
    /// `internal` where it touches something else than was permitted.
    pub(in crate::rewrite) fn verify_definition(
        printed: PrintedDefinition,
        context: Context<'_>,
    ) -> Result<Self, Rejection> {
        let PrintedDefinition {
            text,
            access,
            permit,
        } = printed;
        let Context {
            catalog,
            visible,
            cache: _,
            limits,
        } = context;
        let (sql, effect) = match text {
            None => (String::new(), Effect::Nothing),
            Some((sql, statement)) => {
                let parsed = ParsedDefinition {
                    text: &sql,
                    statement,
                    outline: Outline::default(),
                };
                let check = resolve::resolve_ddl(parsed, catalog, visible, limits)
                    .map_err(|inner| not_as_decided(&inner.to_string()))?;
                if check.access != access {
                    return Err(not_as_decided(
                        "it touches something else than was permitted",
                    ));
                }
                (sql, Effect::Define)
            }
        };
        // A permit is used once.
        let SpentPermit {
            principal,
            policies,
            approval,
            obligations,
        } = permit.spent();
        let relations = access.relations();
        Ok(Self {
            catalog_version: catalog.version().to_owned(),
            body_after_changes: None,
            principal,
            used: BTreeSet::new(),
            bound: Vec::new(),
            prechecks: Vec::new(),
            cascade_counts: Vec::new(),
            looked_at: BTreeSet::new(),
            scan_plan: ScanPlan {
                columns: Vec::new(),
                max_rows: limits.max_rows,
                row_bound: RowBound::Limit,
                max_result_bytes: limits.max_result_bytes,
                max_cell_bytes: limits.max_cell_bytes,
                if_empty: EmptyReason::NoMatch,
                masked_uses: Vec::new(),
                quoted_texts: Vec::new(),
                identities: Vec::new(),
                tokens: Vec::new(),
            },
            engine_reads: ExpectedReads::default(),
            engine_functions: access.functions.clone(),
            engine_writes: expected_access::writes(&access, catalog),
            named_writes: expected_access::named_writes(&access, catalog),
            engine_triggers: expected_access::triggers(&access, catalog),
            change_facts: Vec::new(),
            text_facts: None,
            effect,
            max_affected: limits.max_affected_rows,
            estimate_caps: None,
            reserved: None,
            gathers: false,
            counts_failures: false,
            may_fail_over_filters: false,
            is_unrestricted: false,
            limits: limits.clone(),
            policies,
            approval,
            obligations,
            relations: relations
                .filter_map(|id| Some(catalog.relation(id)?.database_name()))
                .collect(),
            sources: Vec::new(),
            past: None,
            sql,
        })
    }

    /// About how many bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        let Self {
            principal,
            sql,
            catalog_version,
            used,
            bound,
            prechecks,
            cascade_counts,
            looked_at,
            scan_plan,
            engine_reads,
            engine_functions,
            effect: _,
            max_affected: _,
            body_after_changes: _,
            engine_writes,
            named_writes,
            engine_triggers,
            change_facts,
            text_facts,
            estimate_caps: _,
            reserved,
            gathers: _,
            counts_failures: _,
            may_fail_over_filters: _,
            is_unrestricted: _,
            limits: _,
            policies,
            approval,
            obligations,
            sources,
            past,
            relations,
        } = self;
        let writes = engine_writes.iter().chain(named_writes);
        let queries = (prechecks.iter().map(|(sql, bound, _)| (sql, bound)))
            .chain(cascade_counts.iter().map(|(sql, bound, _)| (sql, bound)));
        let approving = approval.iter().flat_map(|demand| &demand.policies);
        let companions = past.iter().flat_map(|past| &past.companions);
        size_of::<Self>()
            + texts([sql, catalog_version])
            + 2 * STRING
            + principal.kind().len()
            + principal.id().len()
            + (reserved.as_ref()).map_or(0, PendingEstimatePolicies::bytes)
            + (used.len() + looked_at.len() + bound.len()) * 4 * STRING
            + queries
                .map(|(sql, bound)| 3 * STRING + sql.len() + bound.len() * 4 * STRING)
                .sum::<usize>()
            + scan_plan_bytes(scan_plan)
            + engine_reads.bytes(2 * STRING)
            + texts(sources.iter().map(|(uid, _)| uid))
            + change_facts.len() * size_of::<ChangeFacts>()
            + (text_facts.as_ref()).map_or(0, |facts| facts.bytes(STRING))
            + texts(obligations)
            + texts(approving)
            + texts(engine_functions)
            + texts(engine_triggers)
            + writes
                .map(|(_, table, column)| 2 * STRING + table.len() + column.len())
                .sum::<usize>()
            + companions.count() * size_of::<Companion>()
            + texts(policies)
            + texts(relations)
    }
}

/// What a string takes beside its text: its own size, and a share of what holds it.
const STRING: usize = 48;

fn texts<'t>(texts: impl IntoIterator<Item = &'t String>) -> usize {
    let texts = texts.into_iter();
    texts.map(|text| STRING + text.len()).sum()
}

fn scan_plan_bytes(plan: &ScanPlan) -> usize {
    let ScanPlan {
        columns,
        max_rows: _,
        row_bound: _,
        max_result_bytes: _,
        max_cell_bytes: _,
        if_empty: _,
        masked_uses,
        quoted_texts,
        identities,
        tokens,
    } = plan;
    (columns.iter())
        .map(|column| 3 * STRING + column.name.len() + column.type_name.len())
        .sum::<usize>()
        + size_of_val(identities.as_slice())
        + size_of_val(tokens.as_slice())
        + (masked_uses.iter())
            .map(|used| 3 * STRING + used.bytes())
            .sum::<usize>()
        + (quoted_texts.iter())
            .map(|text| 2 * STRING + text.text().len())
            .sum::<usize>()
}

/// Texts of prechecks, with what is bound there and what a row says of the change.
type PreparedPrechecks = Vec<(Arc<str>, Vec<Bound>, Violation)>;

/// Texts of queries for rows that foreign keys follow, with what is bound there.
type PreparedCounts = Vec<(Arc<str>, Vec<Bound>, Arc<CascadeOrigin>)>;

/// What the second resolution has shown of a printed statement.
struct Verified {
    prechecks: PreparedPrechecks,
    cascade_counts: PreparedCounts,
    body_after_changes: Option<usize>,
    /// Whether a write filter stands around a change.
    has_write_filter: bool,
    change_facts: Vec<ChangeFacts>,
    text_facts: Option<TextFacts>,
}

impl Draft<'_> {
    /// The facts of the whole text, of those of its skeleton and of the texts for which names stand there.
    fn complete_facts(&self, found: SkeletonFacts) -> Result<TextFacts, Rejection> {
        let SkeletonFacts {
            mut facts,
            placeholders,
        } = found;
        let catalog = self.context.catalog;
        let dialect = catalog.dialect();
        for name in &placeholders {
            let source = relation_source::cache::find_text(name, &self.sources, dialect);
            let filter = self.write_filters.find(name, dialect);
            let part = match (&source, &filter) {
                (Some(source), None) => source.facts.as_ref(),
                (None, Some(filter)) => filter.facts.as_ref(),
                (None, None) | (Some(_), Some(_)) => None,
            };
            let unknown = || not_as_decided("a name stands for no text of which anything is known");
            facts.add_part(part.ok_or_else(unknown)?);
        }
        Ok(facts.fold_names(catalog))
    }

    /// Prints each precheck, and checks that it touches what the statement does.
    fn verify_prechecks(
        &mut self,
        prechecks: Vec<UnprintedPrecheck>,
    ) -> Result<PreparedPrechecks, Rejection> {
        let Context {
            catalog,
            visible,
            cache: _,
            limits,
        } = self.context;
        let dialect = catalog.dialect();
        let mut verified = Vec::with_capacity(prechecks.len());
        for UnprintedPrecheck {
            query,
            binding,
            violation,
        } in prechecks
        {
            let (sql, again) = syntax::print_stable(&query, dialect, limits)?;
            let bound = binding.bind_printed(&again, dialect)?;
            let reads = precheck::resolution::resolve_reads(&sql, again, catalog, visible, limits)?;
            precheck::resolution::require_repeatable(&reads, catalog)?;
            precheck::resolution::collect_functions(&reads, &mut self.expected.functions, catalog)?;
            if let Some(what) = self.expected.first_beyond(&reads, catalog) {
                return Err(not_as_decided(&format!("a precheck has {what} too")));
            }
            verified.push((Arc::from(sql), bound, violation));
        }
        Ok(verified)
    }

    /// Prints the first steady candidate of each query for rows that foreign keys follow.
    fn verify_counts(&self, counts: Vec<UnprintedCount>) -> Result<PreparedCounts, Rejection> {
        let Context {
            catalog,
            visible,
            cache: _,
            limits,
        } = self.context;
        let dialect = catalog.dialect();
        let mut verified = Vec::with_capacity(counts.len());
        for UnprintedCount { candidates, origin } in counts {
            for (query, binding) in candidates {
                let (sql, again) = syntax::print_stable(&query, dialect, limits)?;
                let bound = binding.bind_printed(&again, dialect)?;
                let reads =
                    precheck::resolution::resolve_reads(&sql, again, catalog, visible, limits)?;
                if reads.changes().next().is_some() {
                    return Err(not_as_decided("what is counted is changed"));
                }
                if cascade_count::is_steady(&reads, catalog) {
                    verified.push((Arc::from(sql), bound, origin));
                    break;
                }
            }
        }
        Ok(verified)
    }

    /// The statement, of a text that was verified.
    fn prepare(
        self,
        sql: String,
        bound: Vec<Bound>,
        verified: Verified,
    ) -> Result<Prepared, Rejection> {
        let max_rows = self.max_rows();
        let row_bound = self.row_bound();
        let refused_rows = (row_bound == RowBound::PolicyOrRefusal).then_some(max_rows);
        let limits = self.limits();
        let Self {
            context:
                Context {
                    catalog,
                    visible,
                    cache: _,
                    limits: _,
                },
            facts,
            sources,
            write_filters: _,
            expected,
        } = self;
        let Verified {
            prechecks,
            cascade_counts,
            body_after_changes,
            has_write_filter,
            change_facts,
            text_facts,
        } = verified;
        let (references, explain) = (&facts.references, facts.explain);
        let columns = match explain {
            None => columns::columns(&facts.outputs, references, catalog, visible)?,
            Some(_) => Explain::columns(catalog.dialect())
                .iter()
                .map(|name| OutputColumn {
                    name: (*name).into(),
                    type_name: Arc::default(),
                    masked: false,
                })
                .collect(),
        };
        let identities = match explain {
            None => facts
                .outputs
                .iter()
                .map(|one| one.lineage.identity)
                .collect(),
            Some(_) => Vec::new(),
        };
        let mut tokens = Vec::new();
        for (index, output) in facts.outputs.iter().enumerate() {
            if explain.is_none() {
                tokens.extend(columns::token(output).map(|keys| (index, Arc::clone(keys))));
            }
        }
        let sql = match explain {
            None => sql,
            Some(explain) => explain.prefix(catalog.dialect()) + &sql,
        };
        // A plan that is shown runs nothing.
        let is_estimable =
            facts.is_plannable && explain.is_none() && !has_write_filter && prechecks.is_empty();
        let reserved = match facts.permit.reserved().cloned() {
            Some(reserved) if !is_estimable => {
                // No estimate will be known.
                reserved.recheck_with_estimates(None, None)?;
                None
            }
            reserved => reserved,
        };
        let access = &facts.access;
        let if_empty = relation_source::if_empty(references);
        let is_row_filtered = if_empty != EmptyReason::NoMatch || has_write_filter;
        let may_fail = facts.needs_fence || facts.has_open_conditions;
        let masked_uses = match explain {
            None => masked_uses(access, references, catalog, visible)?,
            Some(_) => Vec::new(),
        };
        let is_read = facts.targets.is_empty();
        // What a change gives back is known once it is done. So it is refused by the rows that it changes, which are no fewer.
        let returned = refused_rows.filter(|_| !facts.outputs.is_empty());
        let permitted_changes = facts
            .permit
            .max_affected()
            .into_iter()
            .chain(returned)
            .min();
        let permitted_changes = permitted_changes.unwrap_or(u64::MAX);
        let row_bound = match row_bound {
            RowBound::PolicyOrRefusal if !is_read => RowBound::Policy,
            bound @ (RowBound::Limit | RowBound::Policy | RowBound::PolicyOrRefusal) => bound,
        };
        // A permit is used once.
        let SpentPermit {
            principal,
            policies,
            approval,
            obligations: kept,
        } = facts.permit.spent();
        Ok(Prepared {
            catalog_version: catalog.version().to_owned(),
            body_after_changes,
            prechecks,
            cascade_counts,
            principal,
            used: facts.placeholders.into_keys().collect(),
            bound,
            looked_at: facts.parameter_values.looked_at(),
            scan_plan: ScanPlan {
                columns,
                max_rows,
                row_bound,
                max_result_bytes: limits.max_result_bytes,
                max_cell_bytes: limits.max_cell_bytes,
                if_empty: if masked_uses.iter().any(MaskedUse::may_empty) {
                    if_empty.max(EmptyReason::MaskedCondition)
                } else {
                    if_empty
                },
                masked_uses,
                quoted_texts: facts
                    .quoted_texts
                    .into_iter()
                    .map(match catalog.dialect() {
                        crate::dialect::Dialect::Mysql => QuotedText::LikeColumn,
                        crate::dialect::Dialect::Sqlite | crate::dialect::Dialect::Postgres => {
                            QuotedText::NoColumn
                        }
                    })
                    .take(MAX_QUOTED_TEXTS)
                    .collect(),
                identities,
                tokens,
            },
            engine_reads: expected.reads,
            engine_writes: expected_access::writes(access, catalog),
            named_writes: expected_access::named_writes(access, catalog),
            engine_triggers: expected_access::triggers(access, catalog),
            engine_functions: expected.functions,
            change_facts,
            text_facts,
            effect: match (is_read, explain) {
                (true, None) => Effect::Read,
                (true, Some(_)) => Effect::Explain,
                (false, _) => Effect::Write,
            },
            max_affected: match is_read {
                true => 0,
                false => permitted_changes.min(limits.max_affected_rows),
            },
            gathers: access.functions().any(|uid| {
                let kinds = catalog.function(uid).map(|function| function.kinds);
                kinds.is_none_or(|kinds| kinds.aggregate || kinds.window)
            }),
            // What never fails by our lists is counted as if it might.
            counts_failures: is_row_filtered && (may_fail || facts.combines_sources),
            may_fail_over_filters: is_row_filtered && may_fail,
            is_unrestricted: is_read
                && references
                    .iter()
                    .all(|reference| !has_obligations(reference))
                && access.functions().all(|uid| is_known(uid, catalog)),
            estimate_caps: limits.estimate_caps().filter(|_| is_estimable),
            reserved,
            limits,
            policies,
            approval,
            obligations: kept,
            relations: relations(access, catalog),
            past: past_read(references, catalog),
            sources: relation_source::cache::texts(&sources)
                .filter_map(|(id, text)| Some((catalog.relation(id)?.database_name(), text)))
                .collect(),
            sql,
        })
    }
}

/// What is read as it was.
fn past_read(references: &[Reference], catalog: &Catalog) -> Option<PastRead> {
    let mut labels = references.iter();
    let label = labels.find_map(|reference| reference.decision.past.clone())?;
    Some(PastRead {
        label,
        companions: relation_source::past::companions(references, catalog),
    })
}

/// Whether a function is the engine's own or a known extension's. What one of the database's own says, or an engine says of its
/// query in the place of the call, may be of rows that it reads by itself.
fn is_known(uid: &str, catalog: &Catalog) -> bool {
    catalog
        .function(uid)
        .is_some_and(|def| def.safety != Safety::Unknown)
}

/// The database's names of what a statement reads and of what it changes, each once: a key may delete rows of a table in which another changes some.
fn relations(access: &AccessSet, catalog: &Catalog) -> Vec<String> {
    let changed = access.changes().map(|change| change.relation);
    let changed: BTreeSet<RelationId> = changed.collect();
    let read: BTreeSet<RelationId> = access.relations().collect();
    let system = access.system_relations();
    (read.union(&changed))
        .filter_map(|id| Some(catalog.relation(*id)?.database_name()))
        .chain(system.map(|(schema, name)| ident::qualify([schema, name])))
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use super::*;
    use crate::{
        catalog::test_ddl,
        firewall::{Decision, Firewall},
        policy::{PolicyFile, PolicySources},
        rewrite::statement::change_facts::ChangeKind,
        session::Session,
    };

    /// A statement that is held here alone.
    fn prepared(sql: &str) -> Prepared {
        let schema = "CREATE TABLE t (id integer PRIMARY KEY, n integer);";
        let sources = PolicySources {
            policies: vec![PolicyFile {
                name: "p.cedar".to_owned(),
                text: "permit(principal, action, resource);
                    forbid(principal, action == Action::\"select\", resource)
                    when { context has statement && context.statement has estimated_rows &&
                      context.statement.estimated_rows > 1000 };"
                    .to_owned(),
            }],
            ..PolicySources::default()
        };
        let catalog = test_ddl::postgres(schema, "main").unwrap();
        let firewall = Firewall::builder(catalog, sources).allow_changes();
        let firewall = firewall.build().unwrap();
        let session = Session::new(Principal::new("Agent", "a"));
        let statement = match firewall.check(sql, &Params::None, &session).unwrap() {
            Decision::Allow(statement) => statement,
            Decision::Reject(why) => panic!("{sql}: {why}"),
        };
        drop(firewall);
        Arc::into_inner(statement.prepared).unwrap()
    }

    /// How much is remembered is bounded in bytes.
    #[test]
    fn whatever_a_remembered_statement_holds_counts() {
        let long = "x".repeat(1000);
        let facts = ChangeFacts {
            kind: ChangeKind::Update,
            relation: RelationId(0),
            is_joined: false,
            ignores_errors: false,
            meets_rows: false,
        };
        type Adding<'a> = (&'a str, &'a dyn Fn(&mut Prepared), usize);
        let adding: [Adding<'_>; 10] = [
            ("text", &|it| it.sql.push_str(&long), 1000),
            ("relation", &|it| it.relations.push(long.clone()), 1000),
            ("policy", &|it| it.policies.push(long.clone()), 1000),
            ("obligation", &|it| it.obligations.push(long.clone()), 1000),
            (
                "source",
                &|it| it.sources.push((long.clone(), "".into())),
                1000,
            ),
            (
                "write",
                &|it| {
                    let write = (Change::Update, long.clone(), long.clone());
                    it.engine_writes.insert(write);
                },
                2000,
            ),
            (
                "named write",
                &|it| {
                    let write = (Change::Update, long.clone(), long.clone());
                    it.named_writes.insert(write);
                },
                2000,
            ),
            (
                "trigger",
                &|it| {
                    it.engine_triggers.insert(long.clone());
                },
                1000,
            ),
            (
                "function",
                &|it| {
                    it.engine_functions.insert(long.clone());
                },
                1000,
            ),
            (
                "changes",
                &|it| it.change_facts.extend([facts; 1000]),
                1000 * size_of::<ChangeFacts>(),
            ),
        ];
        for (what, add, more) in adding {
            let mut statement = prepared("UPDATE t SET n = 1 WHERE id = 2");
            let before = statement.bytes();
            add(&mut statement);
            assert!(statement.bytes() >= before + more, "{what}");
        }
    }

    #[test]
    fn policies_that_wait_for_an_estimate_count() {
        let mut statement = prepared("SELECT n FROM t");
        let before = statement.bytes();
        assert!(statement.reserved.take().is_some());
        assert!(statement.bytes() < before);
    }
}
