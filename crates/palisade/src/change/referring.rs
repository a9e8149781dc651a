//! Rows that refer to rows which an inverse removes: engines refuse that, and do not tell of which rows.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    catalog::{Catalog, ForeignKey, ReferenceAction, Relation},
    change::{
        difference::spell,
        inverse::Inverse,
        row_image::{ImageCells, RowImage},
    },
    value::Value,
};

/// Rows of a table that keep an inverse from being written, if there are any.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Referring<'c> {
    /// The schema of their table, as declared.
    pub(crate) schema: &'c str,
    /// Their table, as declared.
    pub(crate) table: &'c str,
    /// The columns by which they refer.
    pub(crate) columns: &'c [String],
    /// What stands in these columns, of each row that is removed.
    pub(crate) values: Vec<Vec<Value>>,
}

impl Inverse {
    /// What to look for where an engine refuses to write this: rows that refer to those that are removed, or get another key.
    pub(crate) fn find_referring<'c>(&self, catalog: &'c Catalog) -> Vec<Referring<'c>> {
        let mut found = Vec::new();
        for relation in catalog.relations() {
            for key in &relation.foreign_keys {
                let values = self.list_vanishing(key);
                if !values.is_empty() {
                    found.push(Referring {
                        schema: &relation.schema,
                        table: &relation.name,
                        columns: &key.columns,
                        values,
                    });
                }
            }
        }
        found
    }

    /// What vanishes of what `key` refers to, where the engine refuses that.
    fn list_vanishing(&self, key: &ForeignKey) -> Vec<Vec<Value>> {
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        let of_table = (self.images().iter())
            .filter(|image| image.schema == key.schema && image.table == key.table);
        for image in of_table {
            let Some(values) = find_vanishing(image, key) else {
                continue;
            };
            // NULL is referred to by no row.
            let is_null = |value: &Value| matches!(value, Value::Null);
            let spelled: Vec<String> = values.iter().map(spell).collect();
            if !values.iter().any(is_null) && seen.insert(spelled) {
                found.push(values);
            }
        }
        found
    }

    /// Whether this itself removes the row of `relation` that has this key, or writes columns by which it refers.
    pub(crate) fn releases(
        &self,
        relation: &Relation,
        key: &BTreeMap<String, Value>,
        columns: &[String],
    ) -> bool {
        let is_row = |image: &&RowImage| {
            let names = image.key.keys().eq(key.keys());
            let values = image.key.values().map(spell).eq(key.values().map(spell));
            image.schema == relation.schema && image.table == relation.name && names && values
        };
        let mut images = self.images().iter().filter(is_row);
        images.any(|image| match &image.cells {
            ImageCells::Inserted(_) => true,
            ImageCells::Updated(cells) => columns.iter().any(|column| cells.contains_key(column)),
            ImageCells::Deleted(_) => false,
        })
    }
}

/// What `key` refers to in the row of `image`, if the inverse takes that away and the engine refuses to.
fn find_vanishing(image: &RowImage, key: &ForeignKey) -> Option<Vec<Value>> {
    let is_refused = |action: ReferenceAction| match action {
        // A default may refer to nothing, too.
        ReferenceAction::Refuse | ReferenceAction::SetDefault => true,
        ReferenceAction::Cascade | ReferenceAction::SetNull => false,
    };
    match &image.cells {
        ImageCells::Inserted(cells) if is_refused(key.on_delete) => {
            let values = key.references.iter().map(|name| cells.get(name).cloned());
            values.collect()
        }
        ImageCells::Updated(cells) if is_refused(key.on_update) => {
            let changes = key.references.iter().any(|name| cells.contains_key(name));
            let left = |name: &String| match cells.get(name) {
                Some((_, left)) => Some(left.clone()),
                None => image.key.get(name).cloned(),
            };
            changes.then(|| key.references.iter().map(left).collect())?
        }
        ImageCells::Inserted(_) | ImageCells::Updated(_) | ImageCells::Deleted(_) => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const TABLES: &str = "
        CREATE TABLE p (id integer PRIMARY KEY, code integer UNIQUE, part integer, UNIQUE (code, part));
        CREATE TABLE c (id integer PRIMARY KEY, p integer REFERENCES p (id), code integer REFERENCES p (code) ON UPDATE CASCADE);
        CREATE TABLE d (id integer PRIMARY KEY, p integer REFERENCES p (id) ON DELETE CASCADE);
        CREATE TABLE e (a integer, b integer, FOREIGN KEY (a, b) REFERENCES p (code, part));";

    fn image(key: i64, cells: ImageCells) -> RowImage {
        RowImage {
            schema: "public".to_owned(),
            table: "p".to_owned(),
            key: BTreeMap::from([("id".to_owned(), Value::Integer(key))]),
            cells,
        }
    }

    fn row(cells: &[(&str, Option<i64>)]) -> BTreeMap<String, Value> {
        let cell = |value: Option<i64>| value.map_or(Value::Null, Value::Integer);
        let cells = cells.iter();
        cells
            .map(|(name, value)| ((*name).to_owned(), cell(*value)))
            .collect()
    }

    fn look(images: Vec<RowImage>) -> Vec<String> {
        let catalog = crate::catalog::test_ddl::postgres(TABLES, "d").unwrap();
        let inverse = Inverse::new(images);
        let found = inverse.find_referring(&catalog);
        let spelled = found.iter().map(|one| {
            format!("{} {:?} {:?}", one.table, one.columns, one.values).replace("Integer", "")
        });
        // Servers list keys by their names.
        let mut spelled: Vec<String> = spelled.collect();
        spelled.sort();
        spelled
    }

    #[test]
    fn rows_are_looked_for_where_engines_refuse() {
        let whole = row(&[("id", Some(1)), ("code", Some(5)), ("part", None)]);
        let found = look(vec![image(1, ImageCells::Inserted(whole.clone()))]);
        assert_eq!(
            found,
            ["c [\"code\"] [[(5)]]", "c [\"p\"] [[(1)]]"],
            "{found:?}"
        );
        let other = row(&[("id", Some(1)), ("code", Some(5)), ("part", Some(6))]);
        let found = look(vec![image(1, ImageCells::Inserted(other))]);
        assert!(
            found.contains(&"e [\"a\", \"b\"] [[(5), (6)]]".to_owned()),
            "{found:?}"
        );
        assert_eq!(
            look(vec![image(1, ImageCells::Deleted(whole))]),
            [] as [&str; 0]
        );
        // Another key, as the change left it.
        let cells = BTreeMap::from([("id".to_owned(), (Value::Integer(1), Value::Integer(2)))]);
        let found = look(vec![image(2, ImageCells::Updated(cells))]);
        assert_eq!(found, ["c [\"p\"] [[(2)]]", "d [\"p\"] [[(2)]]"]);
    }

    #[test]
    fn rows_that_go_too_are_no_obstacle() {
        let catalog = crate::catalog::test_ddl::postgres(TABLES, "d").unwrap();
        let child = catalog.find("public", "c").unwrap();
        let columns = ["p".to_owned()];
        let own = |cells| RowImage {
            table: "c".to_owned(),
            ..image(7, cells)
        };
        let releases = |cells, id| {
            let key = BTreeMap::from([("id".to_owned(), Value::Integer(id))]);
            Inverse::new(vec![own(cells)]).releases(child, &key, &columns)
        };
        let pointed = |name: &str| {
            let cells = (Value::Null, Value::Integer(1));
            ImageCells::Updated(BTreeMap::from([(name.to_owned(), cells)]))
        };
        assert!(releases(ImageCells::Inserted(row(&[])), 7));
        assert!(!releases(ImageCells::Inserted(row(&[])), 8));
        assert!(releases(pointed("p"), 7));
        assert!(!releases(pointed("code"), 7));
    }
}
