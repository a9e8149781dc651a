//! Views, materialised views, and tables made of queries.

use crate::{
    DdlError,
    cursor::Cursor,
    state::{SchemaState, Table},
    view::{finish, names, put, rename_columns, without_tail},
    view_columns,
};
use palisade::catalog::{DefaultValue, RelationDef, RelationKind};

pub(super) fn view(cursor: Cursor<'_>, state: &mut SchemaState) -> Result<(), DdlError> {
    let mut cursor = cursor;
    let name = cursor.name()?;
    let (schema, name) = state.place(&name, &cursor)?;
    let names = names(&mut cursor)?;
    if cursor.eat("with") {
        cursor.group()?;
    }
    cursor.expect("as")?;
    let query = without_tail(
        cursor,
        &[
            "with cascaded check option",
            "with local check option",
            "with check option",
        ],
    );
    put(
        RelationDef::new(schema, name, RelationKind::View, Vec::new()),
        query,
        &names,
        state,
    )
}

pub(super) fn create_materialized(
    cursor: Cursor<'_>,
    state: &mut SchemaState,
) -> Result<(), DdlError> {
    let mut cursor = cursor;
    cursor.eat("if not exists");
    let name = cursor.name()?;
    let (schema, name) = state.place(&name, &cursor)?;
    let names = names(&mut cursor)?;
    cursor.until(&["as"]);
    cursor.expect("as")?;
    let query = without_tail(cursor, &["with no data", "with data"]);
    let def = RelationDef::new(schema, name, RelationKind::Materialized, Vec::new());
    put(def, query, &names, state)
}

/// `CREATE RECURSIVE VIEW` is short for a view over a recursive query of that name.
pub(super) fn recursive(cursor: Cursor<'_>, state: &mut SchemaState) -> Result<(), DdlError> {
    let mut cursor = cursor;
    let name = cursor.name()?;
    let (schema, name) = state.place(&name, &cursor)?;
    let names = names(&mut cursor)?;
    cursor.until(&["as"]);
    cursor.expect("as")?;
    let quoted: Vec<String> = names.iter().map(|n| palisade::ident::quote(n)).collect();
    let own = palisade::ident::quote(&name);
    let list = quoted.join(", ");
    let mut def = RelationDef::new(schema, name, RelationKind::View, Vec::new());
    def.definition = Some(format!(
        "WITH RECURSIVE {own} ({list}) AS ({}) SELECT {list} FROM {own}",
        cursor.written()
    ));
    let Some(columns) = rename_columns(view_columns::columns(cursor, state), &names) else {
        return Err(cursor.error("it is not certain which columns the view has"));
    };
    def.columns = columns;
    finish(def, cursor, state)
}

/// `CREATE TABLE … AS`: rows that the query gave, and nothing to read them from again.
pub(super) fn table_as(
    cursor: Cursor<'_>,
    state: &mut SchemaState,
    new: Table,
) -> Result<(), DdlError> {
    let mut cursor = cursor;
    let names = names(&mut cursor)?;
    cursor.until(&["as"]);
    cursor.expect("as")?;
    let query = without_tail(cursor, &["with no data", "with data"]);
    let Some(columns) = rename_columns(view_columns::columns(query, state), &names) else {
        return Err(cursor.error("it is not certain which columns the table has"));
    };
    let mut def = new.def;
    def.columns = columns;
    // Nothing of the kind comes with a query.
    for column in &mut def.columns {
        column.filled = DefaultValue::Null;
    }
    finish(def, query, state)
}
