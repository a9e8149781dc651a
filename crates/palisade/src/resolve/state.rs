//! What the walk over a statement remembers, by what it is for.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use sqlparser::tokenizer::Location;

use crate::{
    catalog::{ColumnId, RelationId},
    resolve::{
        MAX_SIZE, Target, TokenParameter, change::target::ExpectedTarget,
        query::recursive_cte::Comparisons, token::SubqueryColumn,
    },
    token::TokenKeys,
};

/// Columns that are given as tokens, and what is compared with them.
#[derive(Default)]
pub(in crate::resolve) struct TokenState {
    pub(in crate::resolve) parameters: Vec<TokenParameter>,
    /// Whether any relation so far has columns that are given as tokens: where none has, nothing pays for them.
    pub(in crate::resolve) are_given: bool,
    /// What becomes of values that are compared with tokens.
    pub(in crate::resolve) comparisons: Comparisons,
    /// The columns of subqueries that give tokens or are made of constants, by where the first SELECT stands and which column.
    pub(in crate::resolve) subquery_columns: HashMap<(Location, usize), SubqueryColumn>,
    /// The keys of the tokens that literals are, which stand without their tags.
    pub(in crate::resolve) untagged_literals: HashMap<Location, Arc<TokenKeys>>,
}

/// What the engine shows by other names than those of columns and relations: its second lock expects them.
#[derive(Default)]
pub(in crate::resolve) struct EngineNames {
    /// Names of the common table expressions so far.
    pub(in crate::resolve) ctes: BTreeSet<String>,
    pub(in crate::resolve) aliases: BTreeSet<String>,
    pub(in crate::resolve) quoted_texts: BTreeSet<String>,
    pub(in crate::resolve) has_whole_rows: bool,
}

/// Types of the database's own that values of the statement may have: their operators and casts are functions.
#[derive(Default)]
pub(in crate::resolve) struct UserTypes {
    /// Those that something was cast to so far.
    pub(in crate::resolve) cast_to: BTreeSet<(String, String)>,
    /// Whether a function of the database was called, whose result may be of any type.
    pub(in crate::resolve) has_own_calls: bool,
    /// Whether something was made into a type of the database.
    pub(in crate::resolve) has_own_casts: bool,
    /// Functions of operators that only values of such types can choose.
    pub(in crate::resolve) confined: BTreeSet<String>,
}

/// The changes of a statement.
#[derive(Default)]
pub(in crate::resolve) struct StatementChanges {
    /// Whether a change may stand where the next body does.
    pub(in crate::resolve) position: Position,
    pub(in crate::resolve) expected_target: Option<ExpectedTarget>,
    /// Where MySQL's `VALUES(column)` means a proposed row: of which relation, and in which of its columns the value is the
    /// statement's own.
    pub(in crate::resolve) proposed: Option<(RelationId, Vec<ColumnId>)>,
    /// Whether a name in a subquery of an upsert's condition cannot say of which row it is.
    pub(in crate::resolve) has_untold_names: bool,
    /// The target that was found in FROM, until its change is read.
    pub(in crate::resolve) target_in_from: Option<Target>,
    /// The changes read so far.
    pub(in crate::resolve) targets: Vec<Target>,
}

/// Where a query stands, as far as changes of rows may.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::resolve) enum Position {
    /// Anywhere else: it reads.
    #[default]
    Inside,
    /// In the WITH of the statement itself, where PostgreSQL takes changes
    /// (<https://www.postgresql.org/docs/current/queries-with.html#QUERIES-WITH-MODIFYING>).
    With,
    /// It is the statement.
    Outermost,
}

/// What the statement costs so far, by the measures that limits bound.
pub(in crate::resolve) struct Work {
    /// References so far, those inside views included.
    pub(in crate::resolve) relations: usize,
    pub(in crate::resolve) view_levels: usize,
    /// How many characters a call may ask for here: calls inside calls share the budget.
    pub(in crate::resolve) size_budget: u64,
    /// Steps taken so far.
    pub(in crate::resolve) steps: u64,
    /// The arms of set operations that the query read last is made from, with those below it.
    pub(in crate::resolve) arms: u64,
    /// How many queries stand around what is being read.
    pub(in crate::resolve) queries_around: usize,
    /// Windows of the SELECT that is being read, and their terms.
    pub(in crate::resolve) window_terms: usize,
}

impl Default for Work {
    fn default() -> Self {
        Self {
            relations: 0,
            view_levels: 0,
            size_budget: MAX_SIZE,
            steps: 0,
            arms: 1,
            queries_around: 0,
            window_terms: 0,
        }
    }
}
