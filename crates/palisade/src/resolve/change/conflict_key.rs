//! By which columns an INSERT finds the conflicting row, which it changes or removes: which row that is, and
//! whether there is one, tells what they hold.

use sqlparser::ast::{ConflictTarget, ObjectNamePart, OnConflict, OnConflictAction, OnInsert};

use crate::resolve::Resolver;
use crate::{
    catalog::{ColumnId, Relation, UniqueKey, computed_from},
    code::Code,
    dialect::Dialect,
    rejection::Rejection,
    syntax::key,
};

/// The keys that find the conflicting row of an INSERT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::resolve) enum ConflictArbiter {
    /// None is changed, or by columns that the statement says, which are read then.
    AsRead,
    /// By the constraint of this name.
    Constraint(String),
    /// By any unique key.
    AnyKey,
}

impl ConflictArbiter {
    /// By what `on` finds it, if not by any key.
    fn from_clause(on: &OnInsert) -> Option<Self> {
        match on {
            OnInsert::OnConflict(OnConflict {
                conflict_target: Some(ConflictTarget::Columns(_)),
                action: _,
            })
            | OnInsert::OnConflict(OnConflict {
                conflict_target: _,
                action: OnConflictAction::DoNothing,
            }) => Some(Self::AsRead),
            OnInsert::OnConflict(OnConflict {
                conflict_target: Some(ConflictTarget::OnConstraint(name)),
                action: OnConflictAction::DoUpdate(_),
            }) => match name.0.as_slice() {
                [ObjectNamePart::Identifier(name)] => {
                    Some(Self::Constraint(key(name, Dialect::Postgres).into_owned()))
                }
                _ => None,
            },
            // The parser's list is open.
            _ => None,
        }
    }

    /// By what an INSERT, or a REPLACE without `on`, finds it.
    pub(in crate::resolve) fn from_insert(on: Option<&OnInsert>) -> Self {
        on.and_then(Self::from_clause).unwrap_or(Self::AnyKey)
    }
}

impl Resolver<'_> {
    /// Refuses a change of the conflicting row where columns that are not shown say which row that is. A plain key with a column
    /// that is left out finds no row: the column is NULL then, or counted up.
    ///
    /// # Errors
    /// `write.masked-read`.
    pub(in crate::resolve) fn check_conflict_key(
        &self,
        relation: &Relation,
        found: &ConflictArbiter,
        assigned: &[ColumnId],
    ) -> Result<(), Rejection> {
        let is_shown = |index: u16| {
            self.is_plain_base(ColumnId {
                relation: relation.id,
                index,
            })
        };
        let all = || relation.unique_keys.as_deref();
        let keys = match found {
            ConflictArbiter::AsRead => return Ok(()),
            ConflictArbiter::Constraint(name) => {
                match all().and_then(|keys| find_key(keys, name)) {
                    Some(key) => Some(std::slice::from_ref(key)),
                    None => all(),
                }
            }
            ConflictArbiter::AnyKey => all(),
        };
        let is_assigned = |index: &u16| assigned.iter().any(|id| id.index == *index);
        let Some(keys) = keys else {
            // Any of them may be of a key, and have a default.
            return match relation.column_ids().find(|(id, _)| !is_shown(id.index)) {
                Some((id, _)) => Err(self.unseen_key(relation, id.index, is_assigned(&id.index))),
                None => Ok(()),
            };
        };
        for key in keys {
            // Of a generated column, those that it is made of decide as well.
            let looked = computed_from(
                key.columns.iter().copied(),
                relation,
                self.catalog.dialect(),
            );
            let is_simple = key.plain && looked.len() == key.columns.len();
            for index in looked.into_iter().filter(|index| !is_shown(*index)) {
                if !is_simple || is_assigned(&index) || key.filled.contains(&index) {
                    return Err(self.unseen_key(relation, index, is_assigned(&index)));
                }
            }
        }
        Ok(())
    }

    /// The refusal of a key with a column that is not shown. The text names the column only if the statement does.
    fn unseen_key(&self, relation: &Relation, index: u16, is_assigned: bool) -> Rejection {
        let name = relation.column(index).map_or("", |c| &*c.name);
        let what = if is_assigned {
            format!("column `{name}` is not shown as it is, and may be")
        } else {
            "a column that is not shown as it is may be".to_owned()
        };
        let instead = match (self.catalog.dialect(), is_assigned) {
            (Dialect::Sqlite | Dialect::Postgres, true) => {
                "name the key's columns in ON CONFLICT, or leave the column out"
            }
            (Dialect::Sqlite | Dialect::Postgres, false) => "name the key's columns in ON CONFLICT",
            (Dialect::Mysql, true) => "leave the column out, or INSERT and UPDATE by themselves",
            (Dialect::Mysql, false) => "INSERT and UPDATE by themselves",
        };
        Rejection::new(
            Code::WriteMaskedRead,
            format!("{what} of a key that finds the conflicting row: {instead}"),
        )
    }
}

/// The only key called so.
fn find_key<'k>(keys: &'k [UniqueKey], name: &str) -> Option<&'k UniqueKey> {
    let mut named = keys.iter().filter(|key| key.name.as_deref() == Some(name));
    named.next().filter(|_| named.next().is_none())
}
