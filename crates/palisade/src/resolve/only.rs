//! `ONLY t`: a table without the rows of what inherits from it
//! (<https://www.postgresql.org/docs/current/sql-select.html#SQL-FROM>).

use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, ObjectNamePart, TableAlias,
    TableFunctionArgs,
};

use super::{
    Resolver,
    from::{marked, reference_index},
    query::Ctes,
    scope::Source,
    unsupported,
};
use crate::{code::Code, dialect::Dialect, policy::obligation::Visibility, rejection::Rejection};

impl<'a> Resolver<'a> {
    /// Whether a call in FROM is the reserved word `ONLY` before a table.
    pub(super) fn is_only(&self, name: &ObjectName) -> bool {
        self.catalog.dialect() == Dialect::Postgres
            && matches!(name.0.as_slice(), [ObjectNamePart::Identifier(ident)]
                if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("only"))
    }

    /// The table in `ONLY (t)`. Where nothing that is there for the session inherits from it, it is the table: rows of children
    /// that are not there are rows of their parent, and without them it would tell which those are.
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
        let mut inherited = None;
        if let Some((index, relation)) = reference {
            // A child that is not there has none that are.
            for child in self.catalog.relations() {
                if child.parents.contains(&relation)
                    && self.visible.relation(child.id)?.visibility != Visibility::Absent
                {
                    inherited = Some(index);
                    break;
                }
            }
        }
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
