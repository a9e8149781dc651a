//! `ONLY t`: a table without the rows of what inherits from it
//! (<https://www.postgresql.org/docs/current/sql-select.html#SQL-FROM>).

use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, ObjectNamePart, TableAlias, TableFactor,
    TableFunctionArgs,
};

use super::{
    Resolver,
    from::{marked, reference_index},
    query::Ctes,
    scope::Source,
    unsupported,
};
use crate::{code::Code, dialect::Dialect, rejection::Rejection};

impl<'a> Resolver<'a> {
    /// Whether a call in FROM is the reserved word `ONLY` before a table.
    pub(super) fn is_only(&self, name: &ObjectName) -> bool {
        self.catalog.dialect() == Dialect::Postgres
            && matches!(name.0.as_slice(), [ObjectNamePart::Identifier(ident)]
                if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("only"))
    }

    /// Takes ONLY from before the target of a change from which nothing inherits, which is the table.
    pub(super) fn drop_only(&self, factor: &mut TableFactor) {
        let TableFactor::Table {
            name,
            alias: _,
            args,
            with_hints: _,
            version: _,
            with_ordinality: false,
            partitions: _,
            json_path: _,
            sample: _,
            index_hints: _,
        } = factor
        else {
            return;
        };
        let table = args.as_ref().filter(|_| self.is_only(name));
        let Some(table) = table.and_then(named) else {
            return;
        };
        let keys: Vec<_> = table.0.iter().filter_map(|part| part.as_ident()).collect();
        let keys: Vec<_> = keys.into_iter().map(|ident| self.key(ident)).collect();
        let relation = match keys.as_slice() {
            [key] => self.catalog.lookup(key),
            [schema, key] => self.catalog.find(schema, key),
            _ => None,
        };
        // What is not there is refused by its name.
        let id = relation.map(|relation| relation.id);
        let relations = self.catalog.relations();
        if id.is_none_or(|id| !relations.iter().any(|other| other.parents.contains(&id))) {
            *name = table;
            *args = None;
        }
    }

    /// The table in `ONLY (t)`. Where nothing inherits from it, it is the table.
    ///
    /// What stands in the place of a table with obligations has the rows of its children too.
    pub(super) fn only(
        &mut self,
        name: &mut ObjectName,
        args: &mut Option<TableFunctionArgs>,
        alias: &mut Option<TableAlias>,
        ctes: Ctes<'_>,
    ) -> Result<Source<'a>, Rejection> {
        let mut table = match args.take() {
            Some(TableFunctionArgs {
                args,
                settings: None,
            }) => table_name(args)?,
            Some(TableFunctionArgs {
                args: _,
                settings: Some(_),
            })
            | None => return Err(not_a_table()),
        };
        let source = self.table(&mut table, alias, ctes)?;
        let reference = reference_index(&table)
            .and_then(|index| Some((index, self.references.get(index)?.relation)));
        let inherited = reference.filter(|(_, relation)| {
            self.catalog
                .relations()
                .iter()
                .any(|other| other.parents.contains(relation))
        });
        let Some((index, _)) = inherited else {
            *name = table;
            return Ok(source);
        };
        if source.columns.has_obligation() {
            return Err(Rejection::new(
                Code::ObligationInapplicable,
                "ONLY cannot be kept before a table with a mask or filter",
            ));
        }
        *name = ObjectName(vec![ObjectNamePart::Identifier(marked(
            Ident::new("ONLY"),
            index,
        ))]);
        let parts = table.0.iter().filter_map(|part| part.as_ident().cloned());
        let table = Expr::CompoundIdentifier(parts.collect());
        *args = Some(TableFunctionArgs {
            args: vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(table))],
            settings: None,
        });
        Ok(source)
    }
}

/// The name in the parentheses after ONLY, as it stands there.
fn named(args: &TableFunctionArgs) -> Option<ObjectName> {
    let TableFunctionArgs { args, settings } = args;
    if settings.is_some() {
        return None;
    }
    table_name(args.clone()).ok()
}

/// The name in the parentheses after ONLY.
fn table_name(args: Vec<FunctionArg>) -> Result<ObjectName, Rejection> {
    let mut args = args.into_iter();
    let (Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(table))), None) =
        (args.next(), args.next())
    else {
        return Err(not_a_table());
    };
    match table {
        Expr::Identifier(ident) => Ok(ObjectName::from(vec![ident])),
        Expr::CompoundIdentifier(parts) => Ok(ObjectName::from(parts)),
        _ => Err(not_a_table()),
    }
}

fn not_a_table() -> Rejection {
    unsupported("ONLY before anything but a table's name")
}
