//! Names to entries of the visible catalog.
//!
//! The walk is an exhaustive match over the parser's tree: no catch-all arm and no `..`, so that
//! syntax added by a parser upgrade does not compile until it is answered. What is not modelled is
//! refused by name. While it walks it normalises the tree in place: relations get their schema, CTEs
//! whose name a relation has get another, double-quoted strings become strings, unnamed items get
//! the name the engine would have given them.

mod aggregate_only;
mod change;
mod change_permission;
mod ddl;
mod expr;
mod from;
mod names;
mod places;
mod query;
mod scope;
mod state;
mod statement;
mod steps;
mod token;
mod usage;
mod visible;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use sqlparser::{
    ast::Ident,
    tokenizer::{Location, Span},
};

use crate::resolve::expr::operand_class::OperandClass;
use crate::{
    access::{AccessSet, StatementShape, Touched, Usage},
    catalog::{Catalog, ColumnId, RelationId, may_fail},
    code::Code,
    dialect::Dialect,
    limits::Limits,
    policy::obligation::ColumnLevel,
    rejection::Rejection,
    syntax::{self, Outline, ParsedQuery},
    value::Placeholder,
};

pub(crate) use change::join_visibility::{Seeing, joins_that_see};
pub(crate) use change::self_assignment::{is_itself, is_named, stays};
pub(crate) use change::side_effects::{Link, links, sets_off_triggers};
pub(crate) use change::write_filter::{Admission, Placement, Prefix, TermPlacement, WriteFilter};
pub(crate) use change::{Conflict, Target, is_default};
pub(crate) use change_permission::Changes;
pub(crate) use ddl::{ResolvedDdl, resolve_ddl};
pub(crate) use expr::cast::is_engine_type;
pub(crate) use expr::other_engines::find_counterpart;
pub(crate) use from::{find_source_name, reference_index, source_name};
pub(crate) use query::view::{read_view, unpermitted_call};
pub(crate) use scope::{EXCLUDED, Output};
pub(crate) use statement::{
    Mode, PlacedSource, Reference, ResolvedStatement, ViewBody, WriteObligations,
};
pub(crate) use token::{TokenParameter, token_index};
pub(crate) use visible::Visible;

/// The most characters that calls inside calls may ask for together: without a bound, a short statement asks for any amount of memory.
const MAX_SIZE: u64 = 1_000_000;

/// Resolves `parsed` against what `visible` holds of `catalog`.
///
/// # Errors
/// Codes of the stages `name`, `function`, `syntax` and `limit`, and `policy.*` for relations that
/// may be known of but not read.
pub(crate) fn resolve(
    parsed: ParsedQuery<'_>,
    catalog: &Catalog,
    visible: &dyn Visible,
    mode: Mode<'_>,
    limits: &Limits,
) -> Result<ResolvedStatement, Rejection> {
    let ParsedQuery {
        text,
        mut query,
        outline,
        explain,
    } = parsed;
    let mut resolver = Resolver::new(catalog, visible, mode, limits, text, &outline);
    resolver.failures.stores = syntax::is_change_within(&query.body);
    let outputs = resolver.top(&mut query)?;
    resolver.number_names(&mut query)?;
    if explain.is_some() && !resolver.changes.targets.is_empty() {
        return Err(refuse_unsupported(
            "EXPLAIN of a statement that changes data",
        ));
    }
    resolver.settle()?;
    resolver.open_aggregated()?;
    resolver.confined_operators();
    resolver.use_through_views()?;
    resolver.access.facts = resolver.facts(&query, explain);
    if resolver.shortens_values() {
        // Nothing but filters may look at what is stored.
        resolver.needs_fence = true;
        (resolver.references.iter_mut()).for_each(|reference| reference.narrowed_by = None);
    }
    Ok(ResolvedStatement {
        references: resolver.references,
        access: resolver.access,
        places: resolver.places,
        placeholders: resolver.placeholders,
        token_parameters: resolver.tokens.parameters,
        needs_fence: resolver.needs_fence || resolver.failures.depend_on_plan(),
        has_open_conditions: resolver.has_open_conditions,
        fails_by_plan: resolver.failures.depend_on_plan(),
        may_fail: resolver.failures.planned,
        sources: resolver.failures.sources,
        ctes: resolver.engine_names.ctes,
        aliases: resolver.engine_names.aliases,
        quoted_texts: resolver.engine_names.quoted_texts,
        whole_rows: resolver.engine_names.has_whole_rows,
        levels: outline.levels + resolver.work.view_levels,
        targets: resolver.changes.targets,
        explain,
        steps: resolver.work.steps,
        arms: resolver.work.arms,
        query,
        outputs,
    })
}

/// The walk's own state.
struct Resolver<'a> {
    catalog: &'a Catalog,
    visible: &'a dyn Visible,
    mode: Mode<'a>,
    limits: &'a Limits,
    text: &'a str,
    outline: &'a Outline,
    references: Vec<Reference>,
    access: AccessSet,
    /// Where the statement says what it touches.
    places: places::Places,
    placeholders: BTreeMap<Placeholder, u32>,
    tokens: state::TokenState,
    /// What is done with columns that aggregates alone may see.
    aggregate_only: aggregate_only::AggregateOnlyUses,
    /// Whether the next query is a derived table, which may pass such columns on.
    is_derived: bool,
    /// The classes of the one column that subqueries give (PostgreSQL), by where their first SELECTs stand.
    subquery_classes: HashMap<Location, OperandClass>,
    /// Where the SELECTs stand that give one row for all they read.
    single_rows: HashSet<Location>,
    needs_fence: bool,
    /// Whether a condition of more than comparisons stands beside filters without a fence.
    has_open_conditions: bool,
    failures: expr::plan_failures::PlanFailures,
    engine_names: state::EngineNames,
    user_types: state::UserTypes,
    changes: state::StatementChanges,
    work: state::Work,
    /// Names that the select lists around give so far.
    listed: Vec<Arc<str>>,
    /// The names that are whole terms of windows of a SELECT, where they may be names of its outputs.
    window_names: Vec<(String, Usage)>,
    /// The names of CTEs that were renamed so far.
    fresh_ctes: BTreeSet<String>,
    /// How the statement is built, as far as it is read.
    shape: StatementShape,
}

impl<'a> Resolver<'a> {
    fn new(
        catalog: &'a Catalog,
        visible: &'a dyn Visible,
        mode: Mode<'a>,
        limits: &'a Limits,
        text: &'a str,
        outline: &'a Outline,
    ) -> Self {
        Self {
            catalog,
            visible,
            mode,
            limits,
            text,
            outline,
            references: Vec::new(),
            access: AccessSet::default(),
            places: places::Places::default(),
            placeholders: BTreeMap::new(),
            tokens: state::TokenState::default(),
            aggregate_only: aggregate_only::AggregateOnlyUses::default(),
            is_derived: false,
            subquery_classes: HashMap::new(),
            single_rows: HashSet::new(),
            // Our own output has its fences already.
            needs_fence: mode.is_output(),
            has_open_conditions: false,
            failures: if mode.is_output() {
                expr::plan_failures::PlanFailures::unchecked()
            } else {
                expr::plan_failures::PlanFailures::default()
            },
            engine_names: state::EngineNames::default(),
            user_types: state::UserTypes::default(),
            changes: state::StatementChanges::default(),
            work: state::Work::default(),
            listed: Vec::new(),
            window_names: Vec::new(),
            fresh_ctes: BTreeSet::new(),
            shape: StatementShape::default(),
        }
    }

    fn touch(&mut self, column: ColumnId, usage: Usage) {
        self.aggregate_only.note(column, usage);
        self.access.columns.insert(column, usage);
        self.note_generated(column);
    }

    /// That the name at `span` means `relation`.
    fn note_relation(&mut self, span: Span, relation: RelationId) {
        if self.is_statement() {
            self.places.note(span, Touched::Relation(relation));
        }
    }

    /// That what stands at `span` uses `column`.
    fn note_column(&mut self, span: Span, column: ColumnId, usage: Usage) {
        if self.is_statement() {
            self.places.note(span, Touched::Column(column, usage));
        }
    }

    /// Settles what stars take along. In a change, a masked column that nothing uses is as if it had been left out: its source
    /// gives a mask in its place, which is not used.
    fn settle(&mut self) -> Result<(), Rejection> {
        let is_change = !self.access.changes.is_empty() && self.access.definitions.is_empty();
        let mut masked = BTreeSet::new();
        if is_change {
            for (id, _) in self.access.columns.iter() {
                let decision = self.visible.relation(id.relation)?;
                let column = decision.columns.get(usize::from(id.index));
                if matches!(column.map(|c| &c.level), Some(ColumnLevel::Masked(_))) {
                    masked.insert(id);
                }
            }
        }
        self.access.columns.settle(|id| masked.contains(&id));
        Ok(())
    }

    /// That a star takes `column` along.
    fn take_along(&mut self, column: ColumnId) {
        self.aggregate_only.note(column, Usage::Output);
        self.access.columns.take_along(column);
        self.note_generated(column);
    }

    /// Notes that a column is read, which may be computed of others: where that can fail, the statement needs a fence.
    fn note_generated(&mut self, column: ColumnId) {
        // Wherever it is used, it is computed of rows that are shown alone.
        if !(self.needs_fence && self.failures.planned)
            && self
                .catalog
                .relation(column.relation)
                .is_some_and(|relation| may_fail(column.index, relation, self.catalog.dialect()))
        {
            self.needs_fence = true;
            self.failures.planned = true;
        }
    }

    fn fold(&self, name: &str) -> String {
        self.catalog.dialect().fold(name)
    }

    /// As [`fold`](Self::fold), of a name that mostly is its own key.
    fn fold_shared(&self, name: &Arc<str>) -> Arc<str> {
        if self.catalog.dialect().is_folded(name) {
            Arc::clone(name)
        } else {
            self.fold(name).into()
        }
    }

    /// The key of a column, alias or function as the statement spells it.
    fn key<'i>(&self, ident: &'i Ident) -> Cow<'i, str> {
        syntax::key(ident, self.catalog.dialect())
    }

    /// The key of a relation, schema or qualifier as the statement spells it.
    fn table_key<'i>(&self, ident: &'i Ident) -> Cow<'i, str> {
        let quoted = ident.quote_style.is_some();
        match syntax::decode(ident) {
            Cow::Borrowed(name) => self.catalog.fold_relation_written(name, quoted),
            Cow::Owned(name) => Cow::Owned(
                self.catalog
                    .fold_relation_written(&name, quoted)
                    .into_owned(),
            ),
        }
    }

    fn encode(&self, name: &str) -> Ident {
        syntax::encode(name, self.catalog.dialect())
    }

    /// Refuses a string where a name is given. PostgreSQL takes none: what stands before it is a type there.
    fn refuse_text_as_name(&self, ident: &Ident) -> Result<(), Rejection> {
        match (self.catalog.dialect(), ident.quote_style) {
            (Dialect::Postgres, Some('\'')) => Err(Rejection::new(
                Code::SyntaxInvalid,
                "a string is no name; write names in double quotes",
            )),
            (Dialect::Sqlite | Dialect::Postgres | Dialect::Mysql, _) => Ok(()),
        }
    }

    /// Refuses a column's alias that the engine would cut off (MySQL and MariaDB) or refuse.
    fn require_short_alias(&self, alias: &Ident) -> Result<(), Rejection> {
        let most = match self.catalog.dialect() {
            // <https://dev.mysql.com/doc/refman/8.4/en/identifier-length.html>
            Dialect::Mysql => MAX_MYSQL_ALIAS,
            // PostgreSQL cuts every name, and so do we.
            Dialect::Sqlite | Dialect::Postgres => return Ok(()),
        };
        if syntax::decode(alias).chars().count() <= most {
            return Ok(());
        }
        Err(Rejection::new(
            Code::SyntaxInvalid,
            format!("an alias has at most {most} characters; give the column a shorter one"),
        ))
    }

    /// Rewrites an identifier so that every reader takes it for the same name.
    fn normalise(&self, ident: &mut Ident) {
        let name = match self.catalog.dialect() {
            Dialect::Sqlite if ident.quote_style.is_none_or(|quote| quote == '"') => return,
            Dialect::Sqlite | Dialect::Mysql => syntax::decode(ident),
            Dialect::Postgres => self.key(ident),
        };
        let spelling = self.respelling(ident, name);
        self.respell(ident, spelling);
    }

    /// What must stand between quotes for `name`, where it does not stand in `ident` already.
    fn respelling(&self, ident: &Ident, name: Cow<'_, str>) -> Option<String> {
        if name.contains(self.catalog.dialect().quote()) {
            Some(self.encode(&name).value)
        } else if *name == ident.value {
            None
        } else {
            Some(name.into_owned())
        }
    }

    /// Gives an identifier the spelling that every reader takes for the same name.
    fn respell(&self, ident: &mut Ident, spelling: Option<String>) {
        if let Some(spelling) = spelling {
            ident.value = spelling;
        }
        ident.quote_style = Some(self.catalog.dialect().quote());
    }

    /// Counts a reference against the limit.
    fn count_relation(&mut self, count: usize) -> Result<(), Rejection> {
        self.work.relations = self.work.relations.saturating_add(count);
        if self.work.relations > self.limits.max_relations {
            return Err(Rejection::new(
                Code::LimitRelations,
                format!(
                    "the statement references more than {} relations",
                    self.limits.max_relations
                ),
            ));
        }
        Ok(())
    }
}

/// Characters of a column's alias that MySQL and MariaDB keep.
const MAX_MYSQL_ALIAS: usize = 255;

/// The refusal of a construct that is not modelled, by name.
fn refuse_unsupported(what: &str) -> Rejection {
    Rejection::new(Code::SyntaxUnsupported, format!("{what} is not supported"))
}

/// The same, with what to write in its place.
fn refuse_with_replacement(what: &str, instead: &str) -> Rejection {
    let message = format!("{what} is not supported: write {instead}");
    Rejection::new(Code::SyntaxUnsupported, message)
}

/// The fault that a statement did not become what was decided; `detail` is for the operator, and the agent sees `internal`.
pub(crate) fn not_as_decided(detail: &str) -> Rejection {
    Rejection::new(Code::Internal, "the rewritten statement is not as decided")
        .with_operator_detail(detail)
}

#[cfg(test)]
mod tests;
