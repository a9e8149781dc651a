//! Why rows have no attribute that says whether the row is seen to which a column refers.

use crate::{
    catalog::{Catalog, Column, ForeignKey, Relation, RelationKind},
    dialect::Dialect,
    policy::cedar::{
        attribute_type::{AttributeType, attribute_type},
        seen_attribute::{SUFFIX, find_seen_attribute},
    },
};

/// Why rows of `relation` have no attribute called `name`, where it is the name of one of their columns with the ending.
pub(in crate::policy) fn explain_absence(
    catalog: &Catalog,
    relation: &Relation,
    name: &str,
) -> Option<String> {
    let column = relation.position(name.strip_suffix(SUFFIX)?)?;
    let column = relation.column(column)?;
    let is_there = relation.position(name).is_some();
    if is_there || find_seen_attribute(catalog, relation, name).is_some() {
        return None;
    }
    match relation.kind {
        RelationKind::Table => explain_column(catalog, relation, column),
        RelationKind::View => Some(format!(
            "`{}` is a view: the tables below it follow, each by its own policy",
            relation.uid
        )),
        RelationKind::Materialized | RelationKind::Virtual | RelationKind::System => Some(format!(
            "`{}` has no foreign keys: let its rows be decided by its own columns",
            relation.uid
        )),
    }
}

fn explain_column(catalog: &Catalog, relation: &Relation, column: &Column) -> Option<String> {
    let uid = &column.uid;
    let dialect = catalog.dialect();
    let has_column = |key: &&ForeignKey| {
        key.columns
            .iter()
            .any(|own| is_called(column, own, dialect))
    };
    let keys: Vec<&ForeignKey> = relation.foreign_keys.iter().filter(has_column).collect();
    if keys.is_empty() {
        return Some(format!(
            "`{uid}` is no foreign key: rows follow where the database declares one"
        ));
    }
    let single = keys.into_iter().filter(|key| key.columns.len() == 1);
    let single: Vec<&ForeignKey> = single.collect();
    let mut reasons = single
        .iter()
        .filter_map(|key| explain_key(catalog, relation, column, key));
    match (single.len(), reasons.next()) {
        (0, _) => Some(format!(
            "`{uid}` is one of several columns of a key: rows follow by a key of one column"
        )),
        (_, Some(reason)) => Some(reason),
        (1, None) => None,
        (_, None) => Some(format!(
            "`{uid}` refers to several tables: rows follow by a column that refers to one"
        )),
    }
}

/// Why rows do not follow by this key of one column.
fn explain_key(
    catalog: &Catalog,
    relation: &Relation,
    column: &Column,
    key: &ForeignKey,
) -> Option<String> {
    let uid = &column.uid;
    let dialect = catalog.dialect();
    let Some(parent) = catalog.find(&key.schema, &key.table) else {
        return Some(format!(
            "`{uid}` refers to `{}.{}`, which is not in the catalog",
            key.schema, key.table
        ));
    };
    if parent.id == relation.id {
        return Some(format!(
            "`{uid}` refers to its own table: rows follow those of another table alone"
        ));
    }
    if parent.kind != RelationKind::Table || parent.has_children {
        return Some(format!(
            "`{uid}` refers to `{}`: rows follow those of a table without partitions and children",
            parent.uid
        ));
    }
    match attribute_type(column, dialect) {
        Some(AttributeType::Long | AttributeType::Text) => {}
        Some(AttributeType::Bool | AttributeType::Decimal | AttributeType::Datetime) | None => {
            return Some(format!(
                "`{uid}` is of the type `{}`: rows follow by whole numbers, texts and uuids",
                column.type_name
            ));
        }
    }
    let theirs = key.references.first()?;
    let mut all = parent.column_ids();
    let (id, theirs) = all.find(|(_, other)| is_called(other, theirs, dialect))?;
    if column.class != theirs.class {
        return Some(format!(
            "`{uid}` and `{}` are of different types: rows follow where both are of one",
            theirs.uid
        ));
    }
    if column.collation != theirs.collation {
        return Some(format!(
            "`{uid}` and `{}` have different collations: rows follow where both have one",
            theirs.uid
        ));
    }
    let mut unique = parent.unique_keys.iter().flatten();
    let is_unique = parent.primary_key == [id.index]
        || unique.any(|key| key.plain && key.columns == [id.index]);
    (!is_unique).then(|| {
        format!(
            "`{}` is not unique by itself: rows follow by a key that leads to one row",
            theirs.uid
        )
    })
}

fn is_called(column: &Column, name: &str, dialect: Dialect) -> bool {
    *column.key == *dialect.fold(name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use std::sync::Arc;

    use super::*;
    use crate::{
        catalog::test_ddl,
        policy::{ColumnFlow, PolicySet, PolicySources},
    };

    const SCHEMA: &str = "
        CREATE COLLATION blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
        CREATE TABLE projects (id bigint PRIMARY KEY, tenant bigint NOT NULL, UNIQUE (tenant, id));
        CREATE TABLE people (id bigint PRIMARY KEY, born date UNIQUE, mail text UNIQUE);
        CREATE TABLE tasks (
            id bigint PRIMARY KEY,
            project_id bigint NOT NULL REFERENCES projects (id),
            parent_id bigint NOT NULL REFERENCES tasks (id),
            tenant bigint NOT NULL,
            owner_id bigint NOT NULL REFERENCES people (id),
            born date NOT NULL REFERENCES people (born),
            mail text COLLATE blind NOT NULL REFERENCES people (mail),
            phone text NOT NULL,
            CONSTRAINT other FOREIGN KEY (owner_id) REFERENCES projects (id),
            FOREIGN KEY (tenant, project_id) REFERENCES projects (tenant, id));
        CREATE TABLE notes (id bigint PRIMARY KEY, task_id bigint NOT NULL REFERENCES tasks (id));
        CREATE VIEW own AS SELECT id, project_id FROM tasks;";

    const REASONS: [(&str, &str, &str); 7] = [
        (
            "tasks",
            "parent_id",
            "`public.tasks.parent_id` refers to its own table: rows follow those of another table alone",
        ),
        (
            "tasks",
            "tenant",
            "`public.tasks.tenant` is one of several columns of a key: rows follow by a key of one column",
        ),
        (
            "tasks",
            "owner_id",
            "`public.tasks.owner_id` refers to several tables: rows follow by a column that refers to one",
        ),
        (
            "tasks",
            "born",
            "`public.tasks.born` is of the type `date`: rows follow by whole numbers, texts and uuids",
        ),
        (
            "tasks",
            "mail",
            "`public.tasks.mail` and `public.people.mail` have different collations: rows follow where both have one",
        ),
        (
            "tasks",
            "phone",
            "`public.tasks.phone` is no foreign key: rows follow where the database declares one",
        ),
        (
            "own",
            "project_id",
            "`public.own` is a view: the tables below it follow, each by its own policy",
        ),
    ];

    fn help(catalog: &Arc<Catalog>, scope: &str, condition: &str) -> Option<String> {
        let text = format!(
            "forbid(principal, action == Action::\"see\", resource {scope}) unless {{ {condition} }};"
        );
        let sources = PolicySources::from_cedar("p.cedar", &text);
        let errors = PolicySet::load(&sources, catalog, &ColumnFlow::default()).unwrap_err();
        errors.problems()[0].help.clone()
    }

    #[test]
    fn what_is_not_followed_says_why() {
        let catalog = Arc::new(test_ddl::postgres(SCHEMA, "main").unwrap());
        for (table, column, why) in REASONS {
            let scope = format!("is row::public::{table}");
            for condition in [
                format!("resource.{column}_is_seen"),
                format!("resource has {column}_is_seen && resource.{column}_is_seen"),
            ] {
                let help = help(&catalog, &scope, &condition);
                assert_eq!(help.as_deref(), Some(why), "{condition}");
            }
        }
        // Where many lack it, one reason is told.
        let many = help(&catalog, "", "resource.parent_id_is_seen");
        let (_, _, own_table) = REASONS[0];
        assert_eq!(many.as_deref(), Some(own_table));
        // Some have it.
        let some = help(&catalog, "", "resource.task_id_is_seen").unwrap();
        assert!(
            some.contains("`resource has task_id_is_seen &&` before it"),
            "{some}"
        );
        let misspelt = help(&catalog, "is row::public::notes", "resource.tsk_id_is_seen");
        assert_eq!(misspelt.as_deref(), Some("did you mean `task_id_is_seen`?"));
    }

    #[test]
    fn keys_to_other_columns_and_tables_say_why() {
        let catalog = test_ddl::mysql(
            "CREATE TABLE a (id bigint PRIMARY KEY, number bigint NOT NULL, name varchar(9) NOT NULL UNIQUE, KEY (number));
             CREATE TABLE b (
                 id bigint PRIMARY KEY,
                 number bigint NOT NULL,
                 name bigint NOT NULL,
                 c bigint NOT NULL,
                 a_id bigint NOT NULL,
                 FOREIGN KEY (number) REFERENCES a (number),
                 FOREIGN KEY (name) REFERENCES a (name),
                 FOREIGN KEY (a_id) REFERENCES a (id));",
            "main",
        );
        let catalog = catalog.unwrap();
        let b = catalog.find("main", "b").unwrap();
        let explain = |name: &str| explain_absence(&catalog, b, name);
        assert_eq!(
            explain("number_is_seen").as_deref(),
            Some(
                "`main.a.number` is not unique by itself: rows follow by a key that leads to one row"
            )
        );
        assert_eq!(
            explain("name_is_seen").as_deref(),
            Some(
                "`main.b.name` and `main.a.name` are of different types: rows follow where both are of one"
            )
        );
        assert_eq!(explain("a_id_is_seen"), None);
        assert_eq!(explain("nothing_is_seen"), None);
        assert_eq!(explain("c"), None);
    }
}
