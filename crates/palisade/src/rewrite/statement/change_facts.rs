//! What each change in a statement does, told of the text that runs.

use sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, Insert, Query, SetExpr, SqliteOnConflict, Statement, Value,
};

use crate::rewrite::{change::walk, refusal::not_as_decided};
use crate::{
    catalog::{Change, RelationId},
    dialect::Dialect,
    rejection::Rejection,
    resolve::{Conflict, Target},
    syntax,
};

/// What one change in the text of a statement does. It is told of the tree that this text was read back as, and of what that
/// was resolved to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeFacts {
    /// Which change it is.
    pub kind: ChangeKind,
    /// What it changes, in the catalog of the decision.
    pub relation: RelationId,
    /// Whether other tables stand beside that one.
    pub is_joined: bool,
    /// Whether it leaves out a row that cannot be changed or added, where it would fail otherwise: `INSERT IGNORE`, and SQLite's
    /// `OR IGNORE`.
    pub ignores_errors: bool,
    /// Whether it changes or removes the row with which a new row conflicts: `ON DUPLICATE KEY UPDATE`,
    /// `ON CONFLICT … DO UPDATE` and `REPLACE`.
    pub meets_rows: bool,
}

/// The kinds of statements that change rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// `INSERT`, with whatever it does on a conflict.
    Insert,
    /// `REPLACE`, and SQLite's `INSERT OR REPLACE`.
    Replace,
    /// `UPDATE`.
    Update,
    /// `DELETE`.
    Delete,
    /// `MERGE`, which may be all of them.
    Merge,
}

impl ChangeKind {
    /// What it does to the rows that it is about; of `MERGE` that is not one thing.
    #[must_use]
    pub fn change(self) -> Option<Change> {
        match self {
            Self::Insert | Self::Replace => Some(Change::Insert),
            Self::Update => Some(Change::Update),
            Self::Delete => Some(Change::Delete),
            Self::Merge => None,
        }
    }
}

/// What the words of a change say, before its names are resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::rewrite) struct ChangeWords {
    kind: ChangeKind,
    ignores_errors: bool,
}

/// Reads the words of each change in a tree that was read back, in the order of [`walk::changes`].
///
/// # Errors
/// `internal` for a change that is not modelled.
pub(in crate::rewrite) fn read_changes(query: &Query) -> Result<Vec<ChangeWords>, Rejection> {
    let changes = walk::changes(query).into_iter();
    changes
        .map(|change| {
            let (kind, ignores_errors) = match change {
                SetExpr::Insert(Statement::Insert(insert)) => read_insert(insert),
                SetExpr::Update(Statement::Update(update)) => {
                    (ChangeKind::Update, is_ignore(update.or.as_ref()))
                }
                SetExpr::Delete(Statement::Delete(_)) => (ChangeKind::Delete, false),
                SetExpr::Merge(Statement::Merge(_)) => (ChangeKind::Merge, false),
                _ => return Err(not_as_decided("a change of another form")),
            };
            Ok(ChangeWords {
                kind,
                ignores_errors,
            })
        })
        .collect()
}

fn read_insert(insert: &Insert) -> (ChangeKind, bool) {
    let replaces = insert.replace_into || insert.or == Some(SqliteOnConflict::Replace);
    let kind = match replaces {
        true => ChangeKind::Replace,
        false => ChangeKind::Insert,
    };
    (kind, insert.ignore || is_ignore(insert.or.as_ref()))
}

fn is_ignore(or: Option<&SqliteOnConflict>) -> bool {
    or == Some(&SqliteOnConflict::Ignore)
}

/// Whether an UPDATE in a tree that was read back sets the column called `column`, folded, to the literal NULL.
pub(in crate::rewrite) fn sets_null(query: &Query, column: &str, dialect: Dialect) -> bool {
    let is_nulled = |assignment: &Assignment| {
        let Assignment { target, value } = assignment;
        let name = match target {
            AssignmentTarget::ColumnName(name) => name.0.last().and_then(|part| part.as_ident()),
            AssignmentTarget::Tuple(_) => None,
        };
        let is_null = matches!(value, Expr::Value(literal) if literal.value == Value::Null);
        is_null && name.is_some_and(|name| *syntax::key(name, dialect) == *column)
    };
    let mut changes = walk::changes(query).into_iter();
    changes.any(|change| match change {
        SetExpr::Update(Statement::Update(update)) => update.assignments.iter().any(is_nulled),
        _ => false,
    })
}

/// The facts of each change, of its words and of the target to which it was resolved.
///
/// # Errors
/// `internal` if these are not of one statement.
pub(in crate::rewrite) fn join_facts(
    words: &[ChangeWords],
    targets: &[Target],
) -> Result<Vec<ChangeFacts>, Rejection> {
    if words.len() != targets.len() {
        return Err(not_as_decided("a change was not resolved"));
    }
    let each = words.iter().zip(targets);
    each.map(|(words, target)| {
        let ChangeWords {
            kind,
            ignores_errors,
        } = *words;
        let meets_rows = match (kind, target.on_conflict) {
            (ChangeKind::Replace, Conflict::Replaces) | (ChangeKind::Insert, Conflict::Updates) => {
                true
            }
            (
                ChangeKind::Insert | ChangeKind::Update | ChangeKind::Delete | ChangeKind::Merge,
                Conflict::DoNothing,
            ) => false,
            (ChangeKind::Insert, Conflict::Replaces)
            | (ChangeKind::Replace, Conflict::DoNothing | Conflict::Updates)
            | (
                ChangeKind::Update | ChangeKind::Delete | ChangeKind::Merge,
                Conflict::Updates | Conflict::Replaces,
            ) => return Err(not_as_decided("a change meets rows otherwise")),
        };
        Ok(ChangeFacts {
            kind,
            relation: target.relation,
            is_joined: target.joined,
            ignores_errors,
            meets_rows,
        })
    })
    .collect()
}
