//! Names to entries of the visible catalog.
//!
//! The walk is an exhaustive match over the parser's tree: no catch-all arm and no `..`, so that
//! syntax added by a parser upgrade does not compile until it is answered. What is not modelled is
//! refused by name. While it walks it normalises the tree in place: relations get their schema, CTEs
//! whose name a relation has get another, double-quoted strings become strings, unnamed items get
//! the name the engine would have given them.

mod change;
mod ddl;
mod expr;
mod from;
mod query;
mod scope;
mod steps;
mod token;
mod usage;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use sqlparser::{
    ast::{Ident, Query},
    tokenizer::Location,
};

pub(crate) use change::guard::{Admission, Guard, Lead, Stance, Term};
pub(crate) use change::join_visibility::{Seeing, seeing};
pub(crate) use change::merge::{ClauseForm, MergeForm};
pub(crate) use change::self_assignment::{is_itself, is_named, stays};
pub(crate) use change::side_effects::{Link, links, sets_off_triggers};
pub(crate) use change::{Conflict, Target, is_default};
pub(crate) use ddl::{ResolvedDefinition, resolve_definition};
pub(crate) use expr::cast::is_engine_type;
pub(crate) use from::{form_name, form_place, reference_index};
pub(crate) use query::view::read as read_view;
pub(crate) use scope::{EXCLUDED, Output};
pub(crate) use token::{TokenParameter, token_index};

use crate::resolve::token::SubqueryColumn;
use crate::{
    access::{AccessSet, Usage},
    catalog::{Catalog, ColumnId, RelationId, SystemRelation, may_fail},
    code::Code,
    dialect::Dialect,
    limits::Limits,
    policy::{
        WriteDecision,
        obligation::{ColumnLevel, RelationDecision},
    },
    rejection::Rejection,
    syntax::{self, Explain, Outline, ParsedQuery},
    token::TokenKeys,
    value::Placeholder,
};

/// The most characters that calls inside calls may ask for together (F11).
const MAX_SIZE: u64 = 1_000_000;

/// What exists: a session's view of the catalog, or everything.
pub(crate) trait Visible {
    /// What is decided about a relation.
    ///
    /// # Errors
    /// `policy.evaluation-failed`.
    fn relation(&self, id: RelationId) -> Result<Arc<RelationDecision>, Rejection>;

    /// What is decided about changing a relation.
    ///
    /// # Errors
    /// `policy.evaluation-failed`.
    fn write(&self, id: RelationId) -> Result<Arc<WriteDecision>, Rejection>;

    /// Whether any policy permits anybody to change anything.
    fn may_write(&self) -> bool;

    /// Whether a relation of the engine's own that no policy names may be read.
    ///
    /// # Errors
    /// `policy.evaluation-failed`.
    fn reads_system(&self, known: &SystemRelation) -> Result<bool, Rejection>;

    /// Names of the relations that may be known of, for "did you mean".
    fn names(&self) -> Vec<String>;

    /// The resolved query of a view, if it was kept: it depends on the session alone.
    fn kept_view(&self, id: RelationId) -> Option<Arc<ViewBody>>;

    /// Keeps the resolved query of a view.
    fn keep_view(&self, id: RelationId, body: &Arc<ViewBody>);
}

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
    /// Placeholders as they were written, each with the number it now has.
    pub(crate) placeholders: BTreeMap<Placeholder, u32>,
    /// The parameters that are compared with tokens; a placeholder in the tree has the index of its own.
    pub(crate) token_parameters: Vec<TokenParameter>,
    /// Whether a predicate goes beyond the leak-proof list, or the plan decides whether the statement fails, so that filters
    /// need a fence.
    pub(crate) needs_fence: bool,
    /// Whether the plan decides whether the statement fails, over several row sources.
    pub(crate) fails_by_plan: bool,
    /// Whether an expression may fail on rows that the plan chooses.
    pub(crate) may_fail: bool,
    /// How many row sources it combines, those of views included.
    pub(crate) sources: usize,
    /// Names of the common table expressions, folded, as they are in the normalised tree.
    pub(crate) ctes: BTreeSet<String>,
    /// Aliases, folded, by which SQLite may say that it reads derived tables, and MariaDB views.
    pub(crate) aliases: BTreeSet<String>,
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
    fn gives_tokens(&self) -> bool {
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
pub(crate) struct WriteForm {
    /// Around the condition of the target, or of ON CONFLICT … DO UPDATE.
    pub(crate) guard: Option<Guard>,
    /// Around the rows of an INSERT.
    pub(crate) admission: Option<Admission>,
    /// In the clauses of a MERGE.
    pub(crate) merge: Option<MergeForm>,
}

/// A place where a relation of the catalog stands.
#[derive(Debug)]
pub(crate) struct Reference {
    pub(crate) relation: RelationId,
    pub(crate) decision: Arc<RelationDecision>,
    /// For a view: its own query, resolved.
    pub(crate) body: Option<Arc<ViewBody>>,
}

/// The query of a view.
#[derive(Debug)]
pub(crate) struct ViewBody {
    pub(crate) resolved: ResolvedStatement,
    /// Whether anything below it is masked, hidden or filtered.
    pub(crate) has_obligation: bool,
}

/// How a relation's source form stands in our own output.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SourceForm<'f> {
    /// As this tree, in the place of a table.
    Tree(&'f Query),
    /// By a name of ours ([`form_name`]); its text takes the name's place after everything is checked.
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
    /// Our own output, read back: a relation with obligations may stand only in its source form.
    Rewritten {
        /// The source form of each such relation; a name stands for the one at its index.
        forms: &'a [(RelationId, SourceForm<'a>)],
        /// For each change of rows in the statement, in their order: what must stand around it.
        writes: &'a [WriteForm],
    },
}

impl Mode<'_> {
    /// Whether what is read is our own output: in it fences stand already, and its cost has been bounded.
    fn is_output(self) -> bool {
        match self {
            Self::Rewritten {
                forms: _,
                writes: _,
            } => true,
            Self::Statement | Self::View { within: _ } => false,
        }
    }
}

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
    let outputs = resolver.top(&mut query)?;
    resolver.number_names(&mut query)?;
    if explain.is_some() && !resolver.targets.is_empty() {
        return Err(unsupported("EXPLAIN of a statement that changes data"));
    }
    resolver.settle()?;
    resolver.confined_operators();
    resolver.use_through_views()?;
    resolver.access.facts = resolver.facts(&query, explain);
    Ok(ResolvedStatement {
        references: resolver.references,
        access: resolver.access,
        placeholders: resolver.placeholders,
        token_parameters: resolver.token_parameters,
        needs_fence: resolver.needs_fence || resolver.failures.across(),
        fails_by_plan: resolver.failures.across(),
        may_fail: resolver.failures.planned,
        sources: resolver.failures.sources,
        ctes: resolver.ctes,
        aliases: resolver.aliases,
        whole_rows: resolver.whole_rows,
        levels: outline.levels + resolver.view_levels,
        targets: resolver.targets,
        explain,
        steps: resolver.steps,
        arms: resolver.arms,
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
    /// References so far, those inside views included.
    relations: usize,
    access: AccessSet,
    placeholders: BTreeMap<Placeholder, u32>,
    token_parameters: Vec<TokenParameter>,
    /// Whether any relation so far has columns that are given as tokens: where none has, nothing pays for them.
    gives_tokens: bool,
    /// What becomes of values that are compared with tokens.
    comparisons: query::recursive_cte::Comparisons,
    /// The columns of subqueries that give tokens or are made of constants, by where the first SELECT stands and which column.
    subquery_columns: HashMap<(Location, usize), SubqueryColumn>,
    /// The keys of the tokens that literals are, which stand without their tags.
    untagged_literals: HashMap<Location, Arc<TokenKeys>>,
    needs_fence: bool,
    failures: expr::totality::Failures,
    /// Names of the common table expressions so far.
    ctes: BTreeSet<String>,
    aliases: BTreeSet<String>,
    whole_rows: bool,
    view_levels: usize,
    /// Types of the database that something was cast to so far.
    cast_to: BTreeSet<(String, String)>,
    /// Whether a function of the database was called, whose result may be of any type.
    calls_own: bool,
    /// Whether something was made into a type of the database.
    names_own: bool,
    /// Functions of operators that only values of such types can choose.
    confined: BTreeSet<String>,
    /// CTEs renamed so far.
    renamed: usize,
    /// How many characters a call may ask for here: calls inside calls share the budget.
    size_budget: u64,
    /// Whether a change may stand where the next body does.
    position: Position,
    awaited: Option<change::Awaited>,
    /// Where MySQL's `VALUES(column)` means a proposed row: of which relation, and in which of its columns the value is the
    /// statement's own.
    proposed: Option<(RelationId, Vec<ColumnId>)>,
    /// Whether a name in a subquery of an upsert's condition cannot say of which row it is.
    untold: bool,
    /// The target that was found in FROM, until its change is read.
    claimed: Option<Target>,
    /// The changes read so far.
    targets: Vec<Target>,
    /// Steps taken so far.
    steps: u64,
    /// The arms of set operations that the query read last is made from, with those below it.
    arms: u64,
    /// Windows of the SELECT that is being read, and their terms.
    window_terms: usize,
}

/// Where a query stands, as far as changes of rows may.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Position {
    /// Anywhere else: it reads.
    #[default]
    Inside,
    /// In the WITH of the statement itself, where PostgreSQL takes changes
    /// (<https://www.postgresql.org/docs/current/queries-with.html#QUERIES-WITH-MODIFYING>).
    With,
    /// It is the statement.
    Outermost,
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
            relations: 0,
            access: AccessSet::default(),
            placeholders: BTreeMap::new(),
            token_parameters: Vec::new(),
            gives_tokens: false,
            comparisons: query::recursive_cte::Comparisons::default(),
            subquery_columns: HashMap::new(),
            untagged_literals: HashMap::new(),
            // Then nobody asks what would need one.
            needs_fence: mode.is_output(),
            failures: if mode.is_output() {
                expr::totality::Failures::unasked()
            } else {
                expr::totality::Failures::default()
            },
            ctes: BTreeSet::new(),
            aliases: BTreeSet::new(),
            whole_rows: false,
            view_levels: 0,
            cast_to: BTreeSet::new(),
            calls_own: false,
            names_own: false,
            confined: BTreeSet::new(),
            renamed: 0,
            size_budget: MAX_SIZE,
            position: Position::Inside,
            awaited: None,
            proposed: None,
            untold: false,
            claimed: None,
            targets: Vec::new(),
            steps: 0,
            arms: 1,
            window_terms: 0,
        }
    }

    fn touch(&mut self, column: ColumnId, usage: Usage) {
        self.access.columns.insert(column, usage);
        self.compute(column);
    }

    /// Settles what stars take along. In a change, a masked column that nothing uses is as if it had been left out: its source
    /// gives a mask in its place, and nobody takes that.
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
        self.access.columns.take_along(column);
        self.compute(column);
    }

    fn compute(&mut self, column: ColumnId) {
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
    fn folded(&self, name: &Arc<str>) -> Arc<str> {
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
    fn is_name(&self, ident: &Ident) -> Result<(), Rejection> {
        match (self.catalog.dialect(), ident.quote_style) {
            (Dialect::Postgres, Some('\'')) => Err(Rejection::new(
                Code::SyntaxInvalid,
                "a string is no name; write names in double quotes",
            )),
            (Dialect::Sqlite | Dialect::Postgres | Dialect::Mysql, _) => Ok(()),
        }
    }

    /// Rewrites an identifier so that every reader takes it for the same name.
    fn normalise(&self, ident: &mut Ident) {
        let name = match self.catalog.dialect() {
            Dialect::Sqlite if ident.quote_style.is_none_or(|quote| quote == '"') => return,
            Dialect::Sqlite | Dialect::Mysql => syntax::decode(ident),
            Dialect::Postgres => self.key(ident),
        };
        let spelling = self.spelt(ident, name);
        self.respell(ident, spelling);
    }

    /// What must stand between quotes for `name`, where it does not stand in `ident` already.
    fn spelt(&self, ident: &Ident, name: Cow<'_, str>) -> Option<String> {
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
        self.relations = self.relations.saturating_add(count);
        if self.relations > self.limits.max_relations {
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

/// The refusal of a construct that is not modelled, by name.
fn unsupported(what: &str) -> Rejection {
    Rejection::new(Code::SyntaxUnsupported, format!("{what} is not supported"))
}
