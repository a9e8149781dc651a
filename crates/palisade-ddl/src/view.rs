//! Views: what they are called, what their columns are, where their queries end.

use crate::{
    DdlError,
    cursor::Cursor,
    state::{SchemaState, Table, Typed, are_unique, column},
    view_columns,
};
use palisade::catalog::{ColumnDef, RelationDef};

pub(super) fn names(cursor: &mut Cursor<'_>) -> Result<Vec<String>, DdlError> {
    if cursor.sees("(") {
        cursor.group()?.idents()
    } else {
        Ok(Vec::new())
    }
}

pub(super) fn without_tail<'t>(query: Cursor<'t>, tails: &[&str]) -> Cursor<'t> {
    let mut rest = query;
    let body = rest.until(tails);
    if tails.iter().any(|tail| rest.eat(tail)) && rest.is_empty() {
        body
    } else {
        query
    }
}

pub(super) fn put(
    mut def: RelationDef,
    query: Cursor<'_>,
    names: &[String],
    state: &mut SchemaState,
) -> Result<(), DdlError> {
    let Some(columns) = rename_columns(view_columns::columns(query, state), names) else {
        return Err(query.error(format!(
            "it is not certain which columns the view `{}` has; name them",
            def.name
        )));
    };
    def.columns = columns;
    def.definition = Some(query.written().to_owned());
    finish(def, query, state)
}

/// Puts the view in; `query` is what its definition says.
pub(super) fn finish(
    def: RelationDef,
    query: Cursor<'_>,
    state: &mut SchemaState,
) -> Result<(), DdlError> {
    if !are_unique(&def.columns, state.dialect) {
        return Err(query.error(format!("`{}` has two columns of one name", def.name)));
    }
    let bound = def.clone();
    state.put(Table::new(def));
    state.bind(&bound, query);
    Ok(())
}

/// Names given outside come first; if they are all there can be, they are enough.
pub(super) fn rename_columns(
    columns: Option<Vec<ColumnDef>>,
    names: &[String],
) -> Option<Vec<ColumnDef>> {
    let Some(mut columns) = columns else {
        // If they are fewer than the query gives, the resolver finds out.
        return (!names.is_empty()).then(|| {
            let unknown = |name: &String| column(name, Typed::unknown());
            names.iter().map(unknown).collect()
        });
    };
    if names.len() > columns.len() {
        return None;
    }
    for (column, name) in columns.iter_mut().zip(names) {
        column.name.clone_from(name);
    }
    Some(columns)
}
