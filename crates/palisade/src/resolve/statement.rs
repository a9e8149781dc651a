//! Resolved statements, and how names are looked up in them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use sqlparser::ast::{Expr, Query};

use crate::resolve::{Admission, Output, Target, TokenParameter, WriteFilter, places::Places};
use crate::{
    access::AccessSet, catalog::RelationId, policy::obligation::RelationDecision, syntax::Explain,
    value::Placeholder,
};

/// A query whose every name is resolved.
#[derive(Debug)]
pub(crate) struct ResolvedStatement {
    /// The normalised tree; physical references carry their index into `references`.
    pub(crate) query: Box<Query>,
    /// The physical references, in the order they were found.
    pub(crate) references: Vec<Reference>,
    /// The columns of the answer.
    pub(crate) outputs: Vec<Output>,
    /// Everything it touches.
    pub(crate) access: AccessSet,
    /// Where in its text it says so.
    pub(crate) places: Places,
    /// Placeholders as they were written, each with the number it now has.
    pub(crate) placeholders: BTreeMap<Placeholder, u32>,
    /// The parameters that are compared with tokens; a placeholder in the tree has the index of its own.
    pub(crate) token_parameters: Vec<TokenParameter>,
    /// Whether a predicate goes beyond the leak-proof list, or the plan decides whether the statement fails, so that filters
    /// need a fence.
    pub(crate) needs_fence: bool,
    /// Whether a condition of more than comparisons stands beside filters without a fence, because it never fails.
    pub(crate) has_open_conditions: bool,
    /// Whether the plan decides whether the statement fails, over several row sources.
    pub(crate) fails_by_plan: bool,
    /// Whether an expression may fail on rows that the plan chooses.
    pub(crate) may_fail: bool,
    /// How many row sources it combines, those of views included.
    pub(crate) sources: usize,
    /// Names of the common table expressions, folded, as they are in the normalised tree.
    pub(crate) ctes: BTreeSet<String>,
    /// Aliases, folded, by which SQLite may say that it reads derived tables.
    pub(crate) aliases: BTreeSet<String>,
    /// Words in double quotes that are read as texts: on SQLite for want of a column, on MySQL and MariaDB beside one.
    pub(crate) quoted_texts: BTreeSet<String>,
    /// Whether the engine reads whole rows of what it joins: SQLite does for a join in parentheses.
    pub(crate) whole_rows: bool,
    /// Levels of the tree with the views in it, for the stack.
    pub(crate) levels: usize,
    /// What it changes, in the order in which the changes stand; nothing of a query.
    pub(crate) targets: Vec<Target>,
    /// Set if the plan is asked for, and not the answer.
    pub(crate) explain: Option<Explain>,
    /// What reading it took.
    pub(crate) steps: u64,
    /// The arms of set operations that it is made from.
    pub(crate) arms: u64,
}

impl ResolvedStatement {
    /// Whether any column of the answer is of tokens, or has them among its values.
    pub(in crate::resolve) fn gives_tokens(&self) -> bool {
        let mut tokens = self.outputs.iter().map(|output| &output.lineage.tokens);
        tokens.any(|tokens| {
            tokens
                .as_ref()
                .is_some_and(|tokens| tokens.keys().is_some())
        })
    }
}

/// What stands around a change's own condition and rows in our own output.
#[derive(Debug, Default)]
pub(crate) struct WriteObligations {
    /// Around the condition of the target, or of ON CONFLICT … DO UPDATE.
    pub(crate) write_filter: Option<WriteFilter>,
    /// Around the rows of an INSERT.
    pub(crate) admission: Option<Admission>,
}

/// A place where a relation of the catalog stands.
#[derive(Debug)]
pub(crate) struct Reference {
    pub(crate) relation: RelationId,
    pub(crate) decision: Arc<RelationDecision>,
    /// For a view: its own query, resolved.
    pub(crate) body: Option<Arc<ViewBody>>,
    /// The columns, by position, whose values guarded aggregates of the statement see, and nothing else does.
    pub(crate) opened: Vec<u16>,
    /// A term of the WHERE clause around it that says which keys its rows have, by the bare name of the key: rows of which it is not
    /// true are not in the result.
    pub(crate) narrowed_by: Option<Expr>,
}

impl Reference {
    /// Whether the values of the column at `index` stand in its place, for guarded aggregates alone.
    pub(crate) fn opens(&self, index: u16) -> bool {
        self.opened.contains(&index)
    }
}

/// The query of a view.
#[derive(Debug)]
pub(crate) struct ViewBody {
    pub(crate) resolved: ResolvedStatement,
    /// Whether anything below it is masked, hidden or filtered.
    pub(crate) has_obligation: bool,
}

/// How a relation's source subquery stands in our own output.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PlacedSource<'f> {
    /// As this tree, in the place of a table.
    Tree(&'f Query),
    /// By a name of ours ([`source_name`](crate::resolve::source_name)); its text takes the name's place after everything is checked.
    Named,
}

/// How names are looked up.
#[derive(Clone, Copy)]
pub(crate) enum Mode<'a> {
    /// The statement of a principal.
    Statement,
    /// The query of a view, below what the principal sees: hidden columns exist here.
    View {
        /// Views this one stands in, outermost first.
        within: &'a [RelationId],
    },
    /// Our own output, read back: a relation with obligations may stand only as its source subquery.
    Rewritten {
        /// The source subquery of each such relation; a name stands for the one at its index.
        sources: &'a [(RelationId, PlacedSource<'a>)],
        /// For each change of rows in the statement, in their order: what must stand around it.
        writes: &'a [WriteObligations],
    },
}

impl Mode<'_> {
    /// Whether what is read is our own output: in it fences stand already, and its cost has been bounded.
    pub(in crate::resolve) fn is_output(self) -> bool {
        match self {
            Self::Rewritten {
                sources: _,
                writes: _,
            } => true,
            Self::Statement | Self::View { within: _ } => false,
        }
    }
}
