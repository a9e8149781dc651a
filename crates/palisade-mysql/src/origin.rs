//! Where MySQL's result columns come from, where what it reports of them is not enough.
//!
//! Of a column that a list of columns or a derived table renames, it reports the table that is read in the end with the new
//! name. If that table has a column of this name which was not decided, the two cannot be told apart by their names.

use mysql_async::{Column, Conn, Error, Params, consts::ColumnType, prelude::Queryable as _};
use palisade::{
    catalog::{self, Catalog},
    dialect::Dialect,
    guard::PlanText,
};
use palisade_pool::Task;

use crate::{
    execute::find_read,
    introspect::{query, text},
    settings::identifier,
};

/// Whether each of `columns` certainly is a decided column of its table, and not the column that it is reported to be.
pub(crate) async fn are_renamed(
    conn: &mut Conn,
    columns: &[Column],
    catalog: &Catalog,
    task: &Task<'_>,
    params: &Params,
) -> Result<bool, Error> {
    let mut left = Vec::new();
    for column in columns {
        if !is_of_another_type(column, catalog, task) {
            left.push(column);
        }
    }
    if left.is_empty() {
        return Ok(true);
    }
    let Some(resolved) = resolve_origin(conn, task.checks.plan_text(), params).await? else {
        return Ok(false);
    };
    for column in left {
        let (schema, table) = (column.schema_str(), column.org_table_str());
        let table = match find_read(catalog, &schema, &table, task) {
            Some(relation) => relation.key.to_string(),
            None => catalog.fold_relation(&table),
        };
        let is_read = |name: &str| {
            let pair = (table.clone(), Dialect::Mysql.fold(name));
            task.reads.contains(&pair)
        };
        if !comes_from(&resolved, &column.name_str(), is_read) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether the column that is reported has another type than the catalog's column of that name, which keeps its own through
/// whatever gives it on.
fn is_of_another_type(column: &Column, catalog: &Catalog, task: &Task<'_>) -> bool {
    let name = Dialect::Mysql.fold(&column.org_name_str());
    let (schema, table) = (column.schema_str(), column.org_table_str());
    let found = find_read(catalog, &schema, &table, task)
        .and_then(|relation| relation.columns.get(usize::from(relation.position(&name)?)));
    match (found.and_then(family_of), family(column.column_type())) {
        (Some(is), Some(reported)) => is != reported,
        (_, _) => false,
    }
}

/// Types that no column changes between without an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Whole,
    Characters,
}

fn family_of(column: &catalog::Column) -> Option<Family> {
    let end = |c: char| !c.is_ascii_alphabetic();
    match column.type_name.split(end).next()? {
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" => Some(Family::Whole),
        "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" => {
            Some(Family::Characters)
        }
        _ => None,
    }
}

fn family(reported: ColumnType) -> Option<Family> {
    use ColumnType as Type;
    match reported {
        Type::MYSQL_TYPE_TINY
        | Type::MYSQL_TYPE_SHORT
        | Type::MYSQL_TYPE_INT24
        | Type::MYSQL_TYPE_LONG
        | Type::MYSQL_TYPE_LONGLONG => Some(Family::Whole),
        Type::MYSQL_TYPE_VARCHAR
        | Type::MYSQL_TYPE_VAR_STRING
        | Type::MYSQL_TYPE_STRING
        | Type::MYSQL_TYPE_BLOB => Some(Family::Characters),
        _ => None,
    }
}

/// The text that the server makes of a query when it plans it: with the columns of tables in the place of those that give
/// them on.
async fn resolve_origin(
    conn: &mut Conn,
    planned: PlanText<'_>,
    params: &Params,
) -> Result<Option<String>, Error> {
    let explain = conn
        .prep(planned.put_after("EXPLAIN FORMAT=TRADITIONAL"))
        .await?;
    conn.exec_drop(&explain, params.clone()).await?;
    let rows = query(conn, "SHOW WARNINGS".to_owned()).await?;
    // `ER_YES`, a note.
    let note = rows
        .iter()
        .find(|row| text(row, 1).is_ok_and(|code| code == "1003"));
    Ok(note.and_then(|row| text(row, 2).ok()))
}

/// Whether everything that a text calls `name` is a column of a relation for which `is_read` holds. A value, which stands
/// there in the place of a column of a row that was looked up while planning, is none.
fn comes_from(resolved: &str, name: &str, is_read: impl Fn(&str) -> bool) -> bool {
    let called = format!(" AS {}", identifier(name));
    let mut before: Vec<&str> = resolved.split(&called).collect();
    before.pop();
    !before.is_empty()
        && before
            .into_iter()
            .all(|text| column_at_end(text).is_some_and(|c| is_read(&c)))
}

/// The column at the end of a text, if it stands after its relation.
fn column_at_end(text: &str) -> Option<String> {
    let quoted = text.strip_suffix('`')?;
    // A name with a quotation mark in it is none that is known.
    let (path, column) = quoted.rsplit_once('`')?;
    path.ends_with("`.").then(|| column.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_of_families_that_no_column_changes_between() {
        let catalog = palisade_ddl::mysql(
            "CREATE TABLE t (a tinyint, b bigint(20) unsigned, c varchar(9), d longtext, e enum('x'), f decimal(5,2), g double)",
            "d",
        );
        let whole = Some(Family::Whole);
        let characters = Some(Family::Characters);
        let relation = catalog
            .ok()
            .and_then(|catalog| catalog.find("d", "t").cloned());
        let found: Vec<_> = relation
            .iter()
            .flat_map(|relation| &relation.columns)
            .map(family_of)
            .collect();
        assert_eq!(
            found,
            [whole, whole, characters, characters, None, None, None]
        );
        use ColumnType as Type;
        for (reported, expected) in [
            (Type::MYSQL_TYPE_TINY, whole),
            (Type::MYSQL_TYPE_SHORT, whole),
            (Type::MYSQL_TYPE_INT24, whole),
            (Type::MYSQL_TYPE_LONG, whole),
            (Type::MYSQL_TYPE_LONGLONG, whole),
            (Type::MYSQL_TYPE_VARCHAR, characters),
            (Type::MYSQL_TYPE_VAR_STRING, characters),
            (Type::MYSQL_TYPE_STRING, characters),
            (Type::MYSQL_TYPE_BLOB, characters),
            (Type::MYSQL_TYPE_DOUBLE, None),
            (Type::MYSQL_TYPE_DATE, None),
        ] {
            assert_eq!(family(reported), expected, "{reported:?}");
        }
    }

    #[test]
    fn only_a_column_that_was_read_is_one() {
        let is_read = |name: &str| name == "id";
        for (resolved, expected) in [
            ("select `d`.`users`.`id` AS `ssn` from `d`.`users`", true),
            ("select `d`.`u`.`ssn` AS `ssn` from `d`.`users` `u`", false),
            ("select '1-1' AS `ssn` from `d`.`users` where true", false),
            ("select concat(`d`.`u`.`id`) AS `ssn` from `d`.`u`", false),
            (
                "select `d`.`u`.`id` AS `ssn`,(select `d`.`u`.`ssn` AS `ssn`) AS `x`",
                false,
            ),
            ("select `id` AS `ssn`", false),
            ("select `d`.`u`.`ssn` AS `x`", false),
        ] {
            assert_eq!(comes_from(resolved, "ssn", is_read), expected, "{resolved}");
        }
    }
}
