//! Names in expressions: columns, aliases, row ids, whole rows.

use std::{borrow::Cow, sync::Arc};

use sqlparser::ast::{
    Expr, Ident, ObjectName, ObjectNamePart, Spanned as _, Value,
    helpers::attached_token::AttachedToken,
};

use crate::resolve::{
    Resolver,
    expr::ExprContext,
    names::{unknown_column_of, unknown_qualifier},
    refuse_unsupported,
    scope::{Around, Found, Origin, Scope},
};
use crate::{
    catalog::ColumnId, code::Code, dialect::Dialect, lineage::Lineage, rejection::Rejection,
    syntax::decode,
};

impl<'a> Resolver<'a> {
    /// The column that an already resolved expression is.
    pub(in crate::resolve) fn column_of(
        &self,
        expr: &Expr,
        scope: &Scope<'a, '_>,
    ) -> Option<(Lineage, Arc<str>)> {
        let (qualifier, name) = match expr {
            Expr::Nested(inner) => return self.column_of(inner, scope),
            Expr::Identifier(ident) => (None, ident),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [qualifier, name] => (Some(self.table_key(qualifier)), name),
                _ => return None,
            },
            _ => return None,
        };
        let key = self.key(name);
        let found = scope.find(qualifier.as_deref(), &key);
        match found {
            Found::Column(origin, name)
            | Found::RowIdAlias {
                origin,
                qualifier: _,
                name,
            } => Some((origin.into_lineage(), Arc::clone(name))),
            Found::RowId => Some((Lineage::default(), key.into())),
            Found::WholeRow(lineage) => Some((lineage, key.into())),
            Found::Alias(_) | Found::Ambiguous | Found::Nothing => None,
        }
    }

    /// A name, or names with dots between them.
    pub(in crate::resolve) fn column(
        &mut self,
        expr: &mut Expr,
        at: &ExprContext<'a, '_, '_>,
        out: &mut Vec<ColumnId>,
    ) -> Result<(), Rejection> {
        if self.niladic(expr) {
            return Ok(());
        }
        self.no_variable(expr)?;
        let span = expr.span();
        let (qualifier, ident) = match expr {
            Expr::Identifier(ident) => (None, ident),
            Expr::CompoundIdentifier(parts) => {
                self.drop_schema(parts, at.scope)?;
                match parts.as_mut_slice() {
                    [qualifier, ident] => {
                        self.normalise_table(qualifier);
                        (Some(self.table_key(qualifier)), ident)
                    }
                    _ => return Err(refuse_unsupported("a column name of this form")),
                }
            }
            _ => return Err(refuse_unsupported("a column name of this form")),
        };
        let key = self.key(ident);
        self.spend_on_search(at.scope.sources.len())?;
        let found = at.scope.find(qualifier.as_deref(), &key);
        let around = at.scope.find_around(qualifier.as_deref(), &key);
        let beside_target = match qualifier {
            None => at.scope.source_beside_target(&key),
            Some(_) => None,
        };
        let mut beside = Vec::new();
        if let (None, Found::Column(_, _)) = (&qualifier, &found) {
            beside = at.scope.columns_of_outputs_beside(&key);
        }
        self.changes.has_untold_names |= matches!(around, Around::Untold);
        self.spend(match &found {
            Found::Column(origin, _)
            | Found::RowIdAlias {
                origin,
                qualifier: _,
                name: _,
            } => origin.size(),
            Found::Alias(lineage) => lineage.size,
            Found::WholeRow(lineage) => u64::try_from(lineage.columns.len()).unwrap_or(u64::MAX),
            Found::RowId | Found::Ambiguous | Found::Nothing => 0,
        })?;
        let columns = match &found {
            Found::Column(origin, _) => {
                self.normalise(ident);
                if let Around::ConflictingRow(row) = around {
                    *expr = Expr::CompoundIdentifier(vec![row.clone(), ident.clone()]);
                } else if let Some(source) = beside_target {
                    // The target may have a column of this name that the principal does not see.
                    let source = self.encode(source);
                    *expr = Expr::CompoundIdentifier(vec![source, ident.clone()]);
                } else if qualifier.is_none()
                    && matches!(origin, Origin::Merged(_))
                    && at.scope.has_target()
                {
                    return Err(refuse_merged(&decode(ident)));
                }
                origin.columns()
            }
            Found::Alias(lineage) => {
                self.normalise(ident);
                &lineage.columns
            }
            Found::RowIdAlias {
                origin,
                qualifier,
                name,
            } => {
                let name = self.encode(name);
                *expr = match qualifier {
                    Some(qualifier) => Expr::CompoundIdentifier(vec![self.encode(qualifier), name]),
                    None => Expr::Identifier(name),
                };
                origin.columns()
            }
            Found::RowId => return Ok(()),
            Found::WholeRow(lineage) => {
                self.normalise_table(ident);
                // So too here, and to the engine a column comes before a row.
                if at.scope.has_target() {
                    let row = ObjectName::from(vec![ident.clone()]);
                    let row = Expr::QualifiedWildcard(row, AttachedToken::empty());
                    *expr = Expr::Nested(Box::new(row));
                }
                &lineage.columns
            }
            Found::Ambiguous => {
                return Err(Rejection::new(
                    Code::NameAmbiguous,
                    format!(
                        "`{}` could be a column of more than one table",
                        decode(ident)
                    ),
                ));
            }
            // SQLite takes a double-quoted word that names nothing for a string.
            Found::Nothing
                if self.catalog.dialect() == Dialect::Sqlite
                    && qualifier.is_none()
                    && ident.quote_style == Some('"') =>
            {
                let text = decode(ident);
                let literal = Value::SingleQuotedString(text.replace('\'', "''"));
                self.engine_names.quoted_texts.insert(text.into_owned());
                *expr = Expr::Value(literal.into());
                return Ok(());
            }
            Found::Nothing if qualifier.is_none() && self.listed.iter().any(|l| **l == *key) => {
                let shown = decode(ident);
                return Err(Rejection::new(
                    Code::NameUnknownColumn,
                    format!(
                        "`{shown}` is a name that the select list gives; it cannot be used in this place. \
                         Write its expression again, or select from the query as a subquery"
                    ),
                ));
            }
            Found::Nothing => {
                return Err(match qualifier.as_deref() {
                    Some(table) if at.scope.whole_row(table).is_none() => {
                        unknown_qualifier(table, at.scope)
                    }
                    Some(_) | None => {
                        unknown_column_of(qualifier.as_deref(), ident, &key, at.scope)
                    }
                });
            }
        };
        for column in columns {
            self.touch(*column, at.usage);
            self.note_column(span, *column, at.usage);
            out.push(*column);
        }
        for column in beside {
            self.touch(column, at.usage);
            out.push(column);
        }
        Ok(())
    }

    /// Whether `expr` is a keyword that the parser takes for a name and PostgreSQL for a call
    /// (<https://www.postgresql.org/docs/current/functions-info.html>).
    fn niladic(&mut self, expr: &Expr) -> bool {
        let Expr::Identifier(ident) = expr else {
            return false;
        };
        if self.catalog.dialect() != Dialect::Postgres || ident.quote_style.is_some() {
            return false;
        }
        let key = self.key(ident);
        let reserved = matches!(
            &*key,
            "current_catalog"
                | "current_date"
                | "current_role"
                | "current_schema"
                | "current_time"
                | "current_timestamp"
                | "current_user"
                | "localtime"
                | "localtimestamp"
                | "session_user"
                | "system_user"
                | "user"
        );
        if reserved {
            let key = key.into_owned();
            self.access.functions.insert(key);
        }
        reserved
    }

    /// Refuses `@name` and `@@name`, which the parser takes for names of columns on MySQL.
    fn no_variable(&self, expr: &Expr) -> Result<(), Rejection> {
        let first = match expr {
            Expr::Identifier(ident) => Some(ident),
            Expr::CompoundIdentifier(parts) => parts.first(),
            _ => None,
        };
        match first {
            Some(ident)
                if self.catalog.dialect() == Dialect::Mysql
                    && ident.quote_style.is_none()
                    && ident.value.starts_with('@') =>
            {
                let kind = if ident.value.starts_with("@@") {
                    "a variable of the server"
                } else {
                    "a variable of the session"
                };
                Err(Rejection::new(
                    Code::NameVariable,
                    format!("{kind} cannot be read"),
                ))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Takes the schema off `schema.table.column`: the table's qualifier says which it is, and a derived
    /// table that may stand in its place has no schema.
    pub(in crate::resolve) fn drop_schema(
        &self,
        parts: &mut Vec<Ident>,
        scope: &Scope<'a, '_>,
    ) -> Result<(), Rejection> {
        if let [schema, qualifier, _] = parts.as_slice() {
            let (schema, qualifier) = (self.table_key(schema), self.table_key(qualifier));
            if scope.count_of_qualifier(&qualifier) > 1 {
                return Err(Rejection::new(
                    Code::SyntaxUnsupported,
                    format!(
                        "two tables called `{qualifier}` stand in one FROM; give each an alias"
                    ),
                ));
            }
            if !scope.is_of_schema(&qualifier, &schema) {
                return Err(unknown_qualifier(&format!("{schema}.{qualifier}"), scope));
            }
            parts.remove(0);
        }
        Ok(())
    }

    /// Rewrites a qualifier so that every reader takes it for the same name.
    pub(in crate::resolve) fn normalise_table(&self, ident: &mut Ident) {
        match self.catalog.dialect() {
            Dialect::Sqlite => self.normalise(ident),
            Dialect::Postgres | Dialect::Mysql => {
                let spelling = self.respelling(ident, self.table_name(ident));
                self.respell(ident, spelling);
            }
        }
    }

    /// What a relation's name is called in our text: as it is compared, where the engine folds it.
    pub(in crate::resolve) fn table_name<'i>(&self, ident: &'i Ident) -> Cow<'i, str> {
        match self.catalog.dialect() {
            Dialect::Sqlite | Dialect::Mysql => decode(ident),
            Dialect::Postgres => self.table_key(ident),
        }
    }

    /// `t.*` where a value stands: the whole row.
    pub(in crate::resolve) fn whole_row_star(
        &mut self,
        name: &mut ObjectName,
        at: &ExprContext<'a, '_, '_>,
        out: &mut Vec<ColumnId>,
    ) -> Result<(), Rejection> {
        if self.catalog.dialect() != Dialect::Postgres {
            return Err(refuse_unsupported("`*` in an expression"));
        }
        let qualifier = self.star_qualifier(name, at.scope)?;
        let Some(lineage) = at.scope.whole_row(&qualifier) else {
            return Err(unknown_qualifier(&qualifier, at.scope));
        };
        for column in lineage.columns {
            self.touch(column, at.usage);
            out.push(column);
        }
        Ok(())
    }

    /// The folded qualifier of `t.*` or `s.t.*`, whose schema is dropped.
    pub(in crate::resolve) fn star_qualifier(
        &self,
        name: &mut ObjectName,
        scope: &Scope<'a, '_>,
    ) -> Result<String, Rejection> {
        if let [
            ObjectNamePart::Identifier(schema),
            ObjectNamePart::Identifier(table),
        ] = name.0.as_slice()
        {
            let (schema, table) = (self.table_key(schema), self.table_key(table));
            if !scope.is_of_schema(&table, &schema) {
                return Err(unknown_qualifier(&table, scope));
            }
            name.0.remove(0);
        }
        match name.0.as_mut_slice() {
            [ObjectNamePart::Identifier(ident)] => {
                self.normalise_table(ident);
                Ok(self.table_key(ident).into_owned())
            }
            _ => Err(refuse_unsupported("a name of this form before `.*`")),
        }
    }
}

/// The refusal of a column that USING merges beside a target, which may have a column of this name that the principal does not see.
fn refuse_merged(name: &str) -> Rejection {
    Rejection::new(
        Code::NameAmbiguous,
        format!(
            "USING makes one of several columns `{name}` beside the table that is changed: write the table before it"
        ),
    )
}
