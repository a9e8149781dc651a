//! Changes that set a table back to how it was: what they run is made of what the table's history says, and what they do has to be that.

use std::{collections::BTreeMap, sync::Arc};

use super::{ChangeCall, ChangeView, compensation::Statements, preview::SessionLens};
use crate::{
    catalog::Relation,
    change::{ChangeBody, ImageCells, Inverse, InverseFault, RowImage, TableRevert, spell},
    code::Code,
    guard::{Guard, Refusal},
    past::Label,
    rejection::Rejection,
    session::Session,
    value::Value,
};

/// The cells of a row, by column.
type Cells = BTreeMap<String, Value>;

impl Guard {
    /// Keeps a change that sets `table`, with or without its schema, back to how it was at a moment: the name of a snapshot, or a time. From
    /// here on it is a change as any other: validated, approved and committed under the policies of whoever proposes it.
    ///
    /// # Errors
    /// `history.*` where the moment cannot be asked about; `change.not-compensable` for whoever does not see all of the table, and if the
    /// table is as it was.
    pub async fn revert_table(
        &self,
        table: &str,
        (as_of, reason): (&str, Option<&str>),
        call: ChangeCall<'_>,
    ) -> Result<ChangeView, Refusal> {
        let proposed = self.propose_revert(table, (as_of, reason), call).await;
        proposed.map_err(|rejection| self.refusal(rejection))
    }

    async fn propose_revert(
        &self,
        table: &str,
        (as_of, reason): (&str, Option<&str>),
        call: ChangeCall<'_>,
    ) -> Result<ChangeView, Rejection> {
        let live = self.current.get();
        let relation = self.find_past_table(&live, table, call.session)?;
        let (label, told) = self.look_up(as_of)?;
        let body = ChangeBody {
            reverts: Some(TableRevert {
                table: relation.database_name(),
                label: label.as_text().to_owned(),
                snapshot: told.snapshot,
                taken: told.taken,
            }),
            ..self.body(call.session, reason)
        };
        self.keep_proposal(body, call).await
    }

    /// What sets a table back, for `session`, which proposed it.
    ///
    /// # Errors
    /// `change.not-compensable` where it does not see all of the table by now, or the table is as it was.
    pub(super) async fn read_revert(
        &self,
        revert: &TableRevert,
        session: &Session,
    ) -> Result<Statements, Rejection> {
        let live = self.current.get();
        let catalog = live.firewall.catalog();
        let mut relations = catalog.relations().iter();
        let relation = relations
            .find(|one| one.database_name() == revert.table)
            .ok_or_else(|| cannot("the table is not there any more"))?;
        let name = (relation.schema.as_str(), relation.name.as_str());
        if self
            .find_whole_tables([name].into_iter(), session)
            .is_empty()
        {
            return Err(cannot(
                "policy does not show you every row and every column of the table in plain; whoever sees all of it can set it back",
            ));
        }
        let label = Label::parse(catalog.dialect(), &revert.label)
            .ok_or_else(|| Rejection::internal("a label that is kept cannot be read"))?;
        let session = self.now(&live.firewall, session).into_owned();
        let relations = live.firewall.relations(&session)?;
        let mut visible = relations.iter();
        let visible = visible
            .find(|one| one.schema == relation.schema && one.name == relation.name)
            .ok_or_else(|| Rejection::internal("a table that is seen is not in the catalog"))?;
        let lens = |session: Session| {
            let limits = live.firewall.limits().clone();
            SessionLens::new(Arc::clone(&live), session, limits)
        };
        let (before, after) = (lens(session.clone().as_of(label)), lens(session));
        // Its statements are recorded, and no row of it is told by this.
        let mut run = self.begin_reading();
        let looked = self.look_twice(relation, (&before, &after), &mut run);
        let looked = looked.await?;
        let names = visible.list_key_first();
        let images = list_images(relation, &names, looked.before, looked.after);
        let inverse = Inverse::new(images);
        let list = inverse.statements(catalog).map_err(|fault| match fault {
            InverseFault::OtherTable(_) => {
                Rejection::internal("a table is not the table that was read")
            }
            InverseFault::TooMany => cannot("its rows are too many to be set back one by one"),
        })?;
        if list.is_empty() {
            return Err(cannot("the table is as it was"));
        }
        Ok(Statements {
            list,
            inverse: Some(Arc::new(inverse)),
            undone: None,
        })
    }
}

fn cannot(why: &str) -> Rejection {
    Rejection::new(Code::ChangeNotCompensable, why)
}

/// What was done to the rows of a table, from how they were to how they are. Each row begins with the columns that are called `names`.
fn list_images(
    relation: &Relation,
    names: &[String],
    was: Vec<Vec<Value>>,
    is: Vec<Vec<Value>>,
) -> Vec<RowImage> {
    let by_name = |row: Vec<Value>| -> Cells { names.iter().cloned().zip(row).collect() };
    let keys: Vec<&str> = (relation.primary_key.iter())
        .filter_map(|at| relation.columns.get(usize::from(*at)))
        .map(|column| &*column.name)
        .collect();
    let take_key = |cells: &Cells| -> Cells {
        let parts = keys.iter().filter_map(|key| cells.get_key_value(*key));
        parts
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    let spell_key =
        |cells: &Cells| -> Vec<String> { take_key(cells).values().map(spell).collect() };
    let is = is.into_iter().map(by_name);
    let mut is: BTreeMap<Vec<String>, Cells> = is.map(|row| (spell_key(&row), row)).collect();
    let mut images = Vec::new();
    let mut note = |key: Cells, cells: ImageCells| {
        images.push(RowImage {
            schema: relation.schema.clone(),
            table: relation.name.clone(),
            key,
            cells,
        });
    };
    for before in was.into_iter().map(by_name) {
        let key = take_key(&before);
        let Some(mut after) = is.remove(&spell_key(&before)) else {
            note(key, ImageCells::Deleted(before));
            continue;
        };
        let mut cells = BTreeMap::new();
        for (name, old) in before {
            match after.remove(&name) {
                Some(new) if new != old => {
                    cells.insert(name, (old, new));
                }
                Some(_) | None => {}
            }
        }
        if !cells.is_empty() {
            note(key, ImageCells::Updated(cells));
        }
    }
    for after in is.into_values() {
        note(take_key(&after), ImageCells::Inserted(after));
    }
    images
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// The rows `(id, n, s)` of a table whose key is its last column.
    fn look(was: &[[i64; 3]], is: &[[i64; 3]]) -> Vec<String> {
        let schema = "CREATE TABLE t (n integer, s integer, id integer PRIMARY KEY);";
        let catalog = crate::catalog::test_ddl::postgres(schema, "d").unwrap();
        let relation = catalog.find("public", "t").unwrap();
        let names = ["id", "n", "s"].map(str::to_owned);
        let rows = |all: &[[i64; 3]]| -> Vec<Vec<Value>> {
            let rows = all.iter();
            rows.map(|row| row.map(Value::Integer).to_vec()).collect()
        };
        let images = list_images(relation, &names, rows(was), rows(is));
        let spelled = images.iter().map(|image| {
            assert_eq!((&*image.schema, &*image.table), ("public", "t"));
            format!("{:?} {:?}", image.key, image.cells).replace("Integer", "")
        });
        spelled.collect()
    }

    #[test]
    fn rows_are_compared_by_their_keys() {
        for (was, is, expected) in [
            (&[][..], &[][..], &[][..]),
            (&[[1, 2, 3]], &[[1, 2, 3]], &[]),
            (
                &[[1, 2, 3], [4, 5, 6]],
                &[[4, 5, 6], [1, 2, 7]],
                &[r#"{"id": (1)} Updated({"s": ((3), (7))})"#],
            ),
            (
                &[[1, 2, 3]],
                &[[4, 2, 3]],
                &[
                    r#"{"id": (1)} Deleted({"id": (1), "n": (2), "s": (3)})"#,
                    r#"{"id": (4)} Inserted({"id": (4), "n": (2), "s": (3)})"#,
                ],
            ),
        ] {
            assert_eq!(look(was, is), expected, "{was:?} {is:?}");
        }
    }
}
