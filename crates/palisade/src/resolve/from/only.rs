//! `ONLY t`: a table without the rows of what inherits from it
//! (<https://www.postgresql.org/docs/current/sql-select.html#SQL-FROM>).

use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, ObjectNamePart, TableAlias, TableFactor,
    TableFunctionArgs,
};

use crate::resolve::{
    Resolver,
    from::{mark_schema, reference_index},
    query::Ctes,
    refuse_unsupported,
    scope::Source,
};
use crate::{
    catalog::RelationId, code::Code, dialect::Dialect, policy::obligation::Visibility,
    rejection::Rejection,
};

impl<'a> Resolver<'a> {
    /// Whether a call in FROM is the reserved word `ONLY` before a table.
    pub(in crate::resolve) fn is_only(&self, name: &ObjectName) -> bool {
        self.catalog.dialect() == Dialect::Postgres
            && matches!(name.0.as_slice(), [ObjectNamePart::Identifier(ident)]
                if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("only"))
    }

    /// Takes ONLY from before the target of a change from which nothing inherits that is there for the session: it is the table.
    ///
    /// # Errors
    /// `policy.evaluation-failed`.
    pub(in crate::resolve) fn drop_only(&self, factor: &mut TableFactor) -> Result<(), Rejection> {
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
            return Ok(());
        };
        let table = args.as_ref().filter(|_| self.is_only(name));
        let Some(table) = table.and_then(function_name) else {
            return Ok(());
        };
        let keys: Vec<_> = table.0.iter().filter_map(|part| part.as_ident()).collect();
        let keys: Vec<_> = keys.into_iter().map(|ident| self.key(ident)).collect();
        let relation = match keys.as_slice() {
            [key] => self.catalog.lookup(key),
            [schema, key] => self.catalog.find(schema, key),
            _ => None,
        };
        // What is not there is refused by its name.
        let is_parent = match relation {
            Some(relation) => self.has_children(relation.id)?,
            None => false,
        };
        if !is_parent {
            *name = table;
            *args = None;
        }
        Ok(())
    }

    /// Whether anything that is there for the session inherits from `relation`. A child that is not there has none that are.
    fn has_children(&self, relation: RelationId) -> Result<bool, Rejection> {
        for child in self.catalog.relations() {
            if child.parents.contains(&relation)
                && self.visible.relation(child.id)?.visibility != Visibility::Absent
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The table in `ONLY (t)`. Where nothing that is there for the session inherits from it, it is the table: rows of children
    /// that are not there are rows of their parent, and without them it would tell which those are.
    ///
    /// What stands in the place of a table with obligations has the rows of its children too.
    pub(in crate::resolve) fn only(
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
        let inherited = match reference {
            Some((index, relation)) => self.has_children(relation)?.then_some(index),
            None => None,
        };
        let Some(index) = inherited else {
            *name = table;
            return Ok(source);
        };
        if source.columns.has_obligation() {
            return Err(Rejection::new(
                Code::ObligationInapplicable,
                "ONLY cannot be kept before this table, of which not everything is shown",
            ));
        }
        *name = ObjectName(vec![ObjectNamePart::Identifier(mark_schema(
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
fn function_name(args: &TableFunctionArgs) -> Option<ObjectName> {
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
    refuse_unsupported("ONLY before anything but a table's name")
}
