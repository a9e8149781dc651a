//! What a change gives back.

use sqlparser::ast::{Expr, Ident, ObjectNamePart, SelectItem, SelectItemQualifiedWildcardKind};

use crate::resolve::{
    Resolver,
    query::{Ctes, select::ItemsPlace},
    scope::{Output, Scope},
};
use crate::{catalog::Relation, dialect::Dialect, rejection::Rejection};

impl<'a> Resolver<'a> {
    pub(in crate::resolve) fn returning(
        &mut self,
        items: &mut Option<Vec<SelectItem>>,
        relation: &'a Relation,
        alias: &Ident,
        ctes: Ctes<'_>,
    ) -> Result<Vec<Output>, Rejection> {
        if items.is_none() {
            return Ok(Vec::new());
        }
        let mut scope = Scope::new(self.catalog.dialect(), None);
        scope
            .sources
            .push(self.target_source(relation, Some(alias))?);
        self.returning_in(items, relation, &scope, ctes)
    }

    /// What is given back of the rows of `scope`. SQLite's RETURNING sees the changed row alone, by the table's own name:
    /// neither the tables of FROM nor an alias (<https://www.sqlite.org/lang_returning.html>, `codeReturningTrigger`).
    pub(in crate::resolve) fn returning_in(
        &mut self,
        items: &mut Option<Vec<SelectItem>>,
        relation: &'a Relation,
        scope: &Scope<'a, '_>,
        ctes: Ctes<'_>,
    ) -> Result<Vec<Output>, Rejection> {
        let Some(items) = items else {
            return Ok(Vec::new());
        };
        let mut alone = Scope::new(self.catalog.dialect(), None);
        let scope = match self.catalog.dialect() {
            Dialect::Sqlite => {
                alone.sources.push(self.target_source(relation, None)?);
                &alone
            }
            Dialect::Postgres | Dialect::Mysql => scope,
        };
        self.require_readable(relation)?;
        self.access.relations.insert(relation.id);
        self.spell_stars(items, scope);
        let listed = self.listed.len();
        let outputs = self.on_answered_rows(|resolver| {
            let place = ItemsPlace {
                named: true,
                passes: false,
                keyword: sqlparser::tokenizer::Location::empty(),
            };
            resolver.projection(items, scope, ctes, place)
        })?;
        self.listed.truncate(listed);
        // No mask stands in the place of what rows of the target hold.
        self.give(&outputs);
        Ok(outputs)
    }

    /// `*` over the target itself would give its hidden columns too.
    pub(in crate::resolve) fn spell_stars(
        &self,
        items: &mut Vec<SelectItem>,
        scope: &Scope<'a, '_>,
    ) {
        let mut out = Vec::with_capacity(items.len());
        for item in std::mem::take(items) {
            let qualifier = match &item {
                SelectItem::Wildcard(_) => None,
                SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(name),
                    _,
                ) => match name.0.as_slice() {
                    [ObjectNamePart::Identifier(name)] => Some(self.table_key(name)),
                    [] | [_, ..] => {
                        out.push(item);
                        continue;
                    }
                },
                SelectItem::UnnamedExpr(_)
                | SelectItem::ExprWithAlias { expr: _, alias: _ }
                | SelectItem::ExprWithAliases {
                    expr: _,
                    aliases: _,
                }
                | SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::Expr(_), _) => {
                    out.push(item);
                    continue;
                }
            };
            let mut found = false;
            for source in &scope.sources {
                let Some(key) = &source.qualifier else {
                    continue;
                };
                if qualifier.as_ref().is_some_and(|wanted| **wanted != **key) {
                    continue;
                }
                found = true;
                out.extend(source.columns.list().into_iter().map(|output| {
                    SelectItem::UnnamedExpr(Expr::CompoundIdentifier(vec![
                        self.encode(key),
                        self.encode(&output.name),
                    ]))
                }));
            }
            if !found {
                out.push(item);
            }
        }
        *items = out;
    }
}
