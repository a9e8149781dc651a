//! Unique keys.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use mysql_async::{Conn, Row};
use palisade::{
    catalog::{Relation, RelationDef, RelationKind, UniqueKeyDef, may_name},
    dialect::Dialect,
    past::TO,
};

use super::{
    IntrospectError, Name, Product, columns, indexes,
    read::{optional, query, text},
};
use crate::{grants::Account, settings::literal};

/// The parts of the unique keys of tables, by the names of the keys.
#[derive(Debug, Default, PartialEq, Eq)]
struct Keys(HashMap<Name, BTreeMap<String, Vec<Part>>>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Column(String),
    Prefix(String),
    Expression(String),
}

impl Keys {
    /// Takes a row of [`indexes::sql`]; of an index that is no key it takes nothing.
    fn put(&mut self, row: &Row) -> Result<(), IntrospectError> {
        if !indexes::is_unique(row)? {
            return Ok(());
        }
        let part = match (optional(row, 3)?, optional(row, 4)?, optional(row, 5)?) {
            (Some(column), None, _) => Part::Column(column),
            (Some(column), Some(_), _) => Part::Prefix(column),
            (None, _, text) => Part::Expression(text.unwrap_or_default()),
        };
        let keys = self.0.entry((text(row, 0)?, text(row, 1)?)).or_default();
        keys.entry(text(row, 2)?).or_default().push(part);
        Ok(())
    }

    /// The keys of the table called `name` as a catalog has them; `beside` says what the catalog does not know of columns. None
    /// if one of them looks at what is none of `columns`.
    fn catalog_keys(
        &self,
        name: &Name,
        columns: &[&str],
        beside: &Beside,
    ) -> Option<Vec<UniqueKeyDef>> {
        let is_column = |name: &str| {
            columns
                .iter()
                .any(|column| column.eq_ignore_ascii_case(name))
        };
        let mut keys = Vec::new();
        for (index, parts) in self.0.get(name).into_iter().flatten() {
            let mut key = UniqueKeyDef {
                name: Some(index.clone()),
                plain: true,
                ..UniqueKeyDef::default()
            };
            let mut is_counted = false;
            for part in parts {
                match part {
                    // By it, past rows are told apart, and no present ones.
                    Part::Column(column)
                        if column.eq_ignore_ascii_case(TO) && !is_column(column) => {}
                    Part::Column(column) => {
                        is_counted |= !is_column(column) && beside.is_counted(name, column);
                        key.equal.push(column.clone());
                        key.columns.push(column.clone());
                    }
                    Part::Prefix(column) => {
                        key.plain = false;
                        key.columns.push(column.clone());
                    }
                    Part::Expression(text) => {
                        key.plain = false;
                        // Without its text it is not known what it looks at.
                        let named = (columns.iter())
                            .filter(|c| text.is_empty() || may_name(text, c, Dialect::Mysql));
                        key.columns.extend(named.map(|c| (*c).to_owned()));
                    }
                }
            }
            // A column that no statement can name, and that is counted up: no row ever conflicts by it.
            if is_counted {
                continue;
            }
            if !key.columns.iter().all(|column| is_column(column)) {
                return None;
            }
            let filled = key
                .columns
                .iter()
                .filter(|column| beside.is_filled(name, column));
            key.filled = filled.cloned().collect();
            keys.push(key);
        }
        Some(keys)
    }
}

/// What a catalog does not say of columns.
#[derive(Debug, Default)]
struct Beside {
    /// Those that have a default.
    filled: HashSet<(Name, String)>,
    /// Those that the server counts up.
    counted: HashSet<(Name, String)>,
}

impl Beside {
    /// Takes a row of [`columns::sql`].
    fn put(&mut self, row: &Row, product: Product) -> Result<(), IntrospectError> {
        let column = ((text(row, 0)?, text(row, 1)?), text(row, 2)?);
        // MariaDB says that there is no default by the word for it, and quotes what is a text.
        let default = optional(row, 8)?.filter(|text| match product {
            Product::MariaDb => !text.eq_ignore_ascii_case("NULL"),
            Product::MySql => true,
        });
        let extra = text(row, 6)?.to_ascii_lowercase();
        if extra.contains("auto_increment") {
            self.counted.insert(column);
        } else if default.is_some()
            // Without a word it holds the first of its values.
            || (text(row, 3)?.starts_with("enum(") && text(row, 4)? == "NO")
        {
            self.filled.insert(column);
        }
        Ok(())
    }

    fn is_filled(&self, table: &Name, column: &str) -> bool {
        self.filled.contains(&(table.clone(), column.to_owned()))
    }

    fn is_counted(&self, table: &Name, column: &str) -> bool {
        self.counted.contains(&(table.clone(), column.to_owned()))
    }
}

/// Puts the keys where they belong. Of a table on which the account has rights on columns alone, the server leaves out what is
/// of other columns: its keys are not known then.
pub(super) fn read(
    product: Product,
    account: &Account,
    column_rows: &[Row],
    index_rows: &[Row],
    relations: &mut [RelationDef],
) -> Result<(), IntrospectError> {
    let mut keys = Keys::default();
    for row in index_rows {
        keys.put(row)?;
    }
    let mut beside = Beside::default();
    for row in column_rows {
        beside.put(row, product)?;
    }
    for def in relations {
        if def.kind != RelationKind::Table || !account.sees_every_column(&def.schema, &def.name) {
            continue;
        }
        let name = (def.schema.clone(), def.name.clone());
        let columns: Vec<&str> = def.columns.iter().map(|c| c.name.as_str()).collect();
        def.unique_keys = keys.catalog_keys(&name, &columns, &beside);
    }
    Ok(())
}

/// Whether the unique keys of a table are those of the catalog, by whatever names.
pub(crate) async fn are_as_known(
    conn: &mut Conn,
    product: Product,
    relation: &Relation,
) -> Result<bool, IntrospectError> {
    // Nothing was decided by keys that are not known.
    let Some(known) = &relation.unique_keys else {
        return Ok(true);
    };
    let (schema, table) = (literal(&relation.schema), literal(&relation.name));
    let mut keys = Keys::default();
    let condition =
        format!("s.NON_UNIQUE = 0 AND s.TABLE_SCHEMA = {schema} AND s.TABLE_NAME = {table}");
    for row in query(conn, indexes::sql(&condition, product)).await? {
        keys.put(&row)?;
    }
    let mut beside = Beside::default();
    let condition = format!("c.TABLE_SCHEMA = {schema} AND c.TABLE_NAME = {table}");
    for row in query(conn, columns::sql(&condition)).await? {
        beside.put(&row, product)?;
    }
    let name = (relation.schema.clone(), relation.name.clone());
    let columns: Vec<&str> = relation.columns.iter().map(|c| &*c.name).collect();
    let Some(found) = keys.catalog_keys(&name, &columns, &beside) else {
        return Ok(false);
    };
    let named = |indexes: &[u16]| -> Vec<String> {
        let columns = indexes.iter().filter_map(|index| relation.column(*index));
        columns.map(|c| c.name.to_string()).collect()
    };
    let known = known
        .iter()
        .map(|key| facts(named(&key.columns), named(&key.filled), key.plain));
    let found = found
        .into_iter()
        .map(|key| facts(key.columns, key.filled, key.plain));
    Ok(known.collect::<BTreeSet<_>>() == found.collect())
}

/// What is decided by.
fn facts(
    mut columns: Vec<String>,
    mut filled: Vec<String>,
    plain: bool,
) -> (Vec<String>, Vec<String>, bool) {
    if !plain {
        columns.sort();
        columns.dedup();
    }
    filled.sort();
    filled.dedup();
    (columns, filled, plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [&str; 3] = ["id", "Name", "at"];

    fn table() -> Name {
        ("d".to_owned(), "t".to_owned())
    }

    fn column(name: &str) -> Part {
        Part::Column(name.to_owned())
    }

    /// The columns of the only key, those that are filled and whether it is plain; none where the keys are not known.
    type Found = Option<Vec<(Vec<String>, Vec<String>, bool)>>;

    fn find(parts: Vec<Part>, beside: &Beside) -> Found {
        let keys = BTreeMap::from([("k".to_owned(), parts)]);
        let keys = Keys(HashMap::from([(table(), keys)]));
        let found = keys.catalog_keys(&table(), &COLUMNS, beside)?;
        let found = found.into_iter();
        Some(
            found
                .map(|key| (key.columns, key.filled, key.plain))
                .collect(),
        )
    }

    #[test]
    fn a_key_is_plain_where_all_of_its_parts_are_columns() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let one = |columns: &[&str], plain| Some(vec![(names(columns), Vec::new(), plain)]);
        for (parts, expected) in [
            (
                vec![column("id"), column("NAME")],
                one(&["id", "NAME"], true),
            ),
            (
                vec![column("id"), Part::Prefix("Name".to_owned())],
                one(&["id", "Name"], false),
            ),
            (
                vec![Part::Expression("lower(`Name`)".to_owned())],
                one(&["Name"], false),
            ),
            (
                vec![Part::Expression(String::new())],
                one(&["id", "Name", "at"], false),
            ),
            (vec![column("id"), column("hidden")], None),
        ] {
            assert_eq!(
                find(parts.clone(), &Beside::default()),
                expected,
                "{parts:?}"
            );
        }
    }

    #[test]
    fn what_is_beside_the_catalog_is_counted_up_or_filled() {
        let of = |name: &str| HashSet::from([(table(), name.to_owned())]);
        let beside = Beside {
            filled: of("Name"),
            counted: of("hidden"),
        };
        let key = (
            vec!["id".to_owned(), "Name".to_owned()],
            vec!["Name".to_owned()],
            true,
        );
        assert_eq!(
            find(vec![column("id"), column("Name")], &beside),
            Some(vec![key])
        );
        // By such a key no row conflicts.
        assert_eq!(find(vec![column("hidden")], &beside), Some(Vec::new()));
        // One that a statement can name is a key like others.
        let beside = Beside {
            filled: HashSet::new(),
            counted: of("id"),
        };
        let key = (vec!["id".to_owned()], Vec::new(), true);
        assert_eq!(find(vec![column("id")], &beside), Some(vec![key]));
        let other = ("d".to_owned(), "u".to_owned());
        let none = Keys::default().catalog_keys(&other, &COLUMNS, &beside);
        assert!(none.is_some_and(|keys| keys.is_empty()));
    }

    #[test]
    fn the_order_of_columns_matters_in_plain_keys_alone() {
        let names = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        let of = |columns: &str, filled: &str, plain| facts(names(columns), names(filled), plain);
        assert_ne!(of("a,b", "a", true), of("b,a", "a", true));
        assert_eq!(of("a,b,a", "a", false), of("b,a", "a", false));
        assert_eq!(of("a", "b,a,b", true), of("a", "a,b", true));
        assert_ne!(of("a", "a", true), of("a", "a", false));
    }
}
