//! By which columns an INSERT finds the row that it changes or removes because it is in its way: which row that is, and
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

/// By what the row in the way is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::resolve) enum Found {
    /// None is changed, or by columns that the statement says, which are read then.
    AsRead,
    /// By the constraint of this name.
    Constraint(String),
    /// By any unique key.
    AnyKey,
}

impl Found {
    /// By what `on` finds it, if not by any key.
    fn said(on: &OnInsert) -> Option<Self> {
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
    pub(in crate::resolve) fn by(on: Option<&OnInsert>) -> Self {
        on.and_then(Self::said).unwrap_or(Self::AnyKey)
    }
}

impl Resolver<'_> {
    /// Refuses a change of the row in the way where columns that are not shown say which that is. A plain key by which no row
    /// is met says nothing: one of its columns is left out, and NULL or counted up then.
    pub(in crate::resolve) fn may_meet(
        &self,
        relation: &Relation,
        found: &Found,
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
            Found::AsRead => return Ok(()),
            Found::Constraint(name) => match all().and_then(|keys| called(keys, name)) {
                Some(key) => Some(std::slice::from_ref(key)),
                None => all(),
            },
            Found::AnyKey => all(),
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

    /// That a column that is not shown says which row is in the way. One that the statement does not name is not named.
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
            format!("{what} of a key by which the row in the way is found: {instead}"),
        )
    }
}

/// The only key called so.
fn called<'k>(keys: &'k [UniqueKey], name: &str) -> Option<&'k UniqueKey> {
    let mut named = keys.iter().filter(|key| key.name.as_deref() == Some(name));
    named.next().filter(|_| named.next().is_none())
}
