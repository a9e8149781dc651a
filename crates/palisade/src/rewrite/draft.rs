//! A statement on its way through the stages: what each may look at, and the printed text that nothing has verified yet.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use sqlparser::{
    ast::{Query, Statement},
    tokenizer::Location,
};

use crate::rewrite::{
    change::{
        precheck::{Violation, cascade_count::CascadeOrigin},
        write_filter_cache::PrintedFilters,
    },
    output::{
        expected_access::ExpectedAccess, parameter_values::ParameterValues, parameters::Binding,
    },
    relation_source::cache::{PrintedSources, SourceCache},
};
use crate::{
    access::AccessSet,
    answer::RowBound,
    catalog::Catalog,
    limits::Limits,
    policy::Permit,
    resolve::{Output, Reference, Target, TokenParameter, Visible, WriteObligations},
    syntax::Explain,
    value::Placeholder,
};

/// What every stage may look at.
#[derive(Clone, Copy)]
pub(crate) struct Context<'c> {
    pub(crate) catalog: &'c Catalog,
    pub(crate) visible: &'c dyn Visible,
    pub(crate) cache: &'c SourceCache,
    pub(crate) limits: &'c Limits,
}

/// The facts of a statement that no stage changes.
pub(in crate::rewrite) struct Facts<'p> {
    pub(in crate::rewrite) permit: Permit,
    pub(in crate::rewrite) references: Vec<Reference>,
    pub(in crate::rewrite) outputs: Vec<Output>,
    pub(in crate::rewrite) access: AccessSet,
    pub(in crate::rewrite) targets: Vec<Target>,
    pub(in crate::rewrite) explain: Option<Explain>,
    pub(in crate::rewrite) placeholders: BTreeMap<Placeholder, u32>,
    pub(in crate::rewrite) token_parameters: Vec<TokenParameter>,
    pub(in crate::rewrite) parameter_values: ParameterValues<'p>,
    /// The number of each `?` of a change by its place in the statement.
    pub(in crate::rewrite) positions: HashMap<Location, u32>,
    /// How often each placeholder stands in a change, by its text.
    pub(in crate::rewrite) uses: BTreeMap<String, usize>,
    /// Names of the common table expressions, folded.
    pub(in crate::rewrite) ctes: BTreeSet<String>,
    /// Words in double quotes that were read as texts.
    pub(in crate::rewrite) quoted_texts: BTreeSet<String>,
    pub(in crate::rewrite) needs_fence: bool,
    pub(in crate::rewrite) has_open_conditions: bool,
    pub(in crate::rewrite) fails_by_plan: bool,
    pub(in crate::rewrite) combines_sources: bool,
    /// Whether query plans and estimates may be shown of all that it reads.
    pub(in crate::rewrite) is_plannable: bool,
}

/// What is made for a statement on its way, beside its tree.
pub(in crate::rewrite) struct Draft<'a> {
    pub(in crate::rewrite) context: Context<'a>,
    pub(in crate::rewrite) facts: Facts<'a>,
    pub(in crate::rewrite) sources: PrintedSources,
    pub(in crate::rewrite) write_filters: PrintedFilters,
    pub(in crate::rewrite) expected: ExpectedAccess,
}

impl Draft<'_> {
    /// The most rows of the answer: the policies' and the firewall's.
    pub(in crate::rewrite) fn max_rows(&self) -> u64 {
        let permitted = self.facts.permit.caps().most_rows().unwrap_or(u64::MAX);
        permitted.min(self.context.limits.max_rows)
    }

    /// Who says how many.
    pub(in crate::rewrite) fn row_bound(&self) -> RowBound {
        let caps = self.facts.permit.caps();
        match caps.most_rows() {
            Some(permitted) if permitted <= self.context.limits.max_rows => {
                match caps.refuses_more() {
                    true => RowBound::PolicyOrRefusal,
                    false => RowBound::Policy,
                }
            }
            Some(_) | None => RowBound::Limit,
        }
    }

    /// The limits under which it runs: the firewall's, with the policies' time.
    pub(in crate::rewrite) fn limits(&self) -> Limits {
        let limits = self.context.limits.clone();
        let time = self.facts.permit.caps().time_ms.unwrap_or(u64::MAX);
        Limits {
            statement_timeout_ms: limits.statement_timeout_ms.min(time),
            ..limits
        }
    }
}

/// All that is made for a statement before it is printed, beside its tree.
pub(in crate::rewrite) struct Parts<'a> {
    pub(in crate::rewrite) draft: Draft<'a>,
    pub(in crate::rewrite) obligations: Vec<WriteObligations>,
    pub(in crate::rewrite) source_names: usize,
    pub(in crate::rewrite) prechecks: Vec<UnprintedPrecheck>,
    pub(in crate::rewrite) cascade_counts: Vec<UnprintedCount>,
}

/// A precheck before it is printed.
pub(in crate::rewrite) struct UnprintedPrecheck {
    pub(in crate::rewrite) query: Query,
    pub(in crate::rewrite) binding: Binding,
    pub(in crate::rewrite) violation: Violation,
}

/// A query for rows that foreign keys follow: the first of the candidates that gives the same rows until the change is taken.
pub(in crate::rewrite) struct UnprintedCount {
    pub(in crate::rewrite) candidates: Vec<(Query, Binding)>,
    pub(in crate::rewrite) origin: Arc<CascadeOrigin>,
}

/// A printed statement that has read back as its own tree, and that nothing has verified yet.
pub(in crate::rewrite) struct Printed<'a> {
    pub(in crate::rewrite) parts: Parts<'a>,
    pub(in crate::rewrite) binding: Binding,
    /// The text, with names in the place of remembered texts.
    pub(in crate::rewrite) skeleton: String,
    /// The tree that the skeleton was read as.
    pub(in crate::rewrite) again: Box<Query>,
    /// The tree, in builds with debug assertions: the whole text is read back there as well.
    pub(in crate::rewrite) whole: Option<Box<Query>>,
    /// The text of a WITH in which rows are changed.
    pub(in crate::rewrite) changing_with: Option<String>,
}

/// A printed definition that nothing has verified yet.
pub(in crate::rewrite) struct PrintedDefinition {
    /// The text and what it was read as; none of a definition that does nothing.
    pub(in crate::rewrite) text: Option<(String, Box<Statement>)>,
    pub(in crate::rewrite) access: AccessSet,
    pub(in crate::rewrite) permit: Permit,
}
