//! Statements that change rows: INSERT, REPLACE, upserts, UPDATE, DELETE.
//!
//! What they read is read as in a query. Nothing can stand in the place of their target, so that a masked column of it would be
//! read as it is. `authorize` refuses every masked column in a statement that changes anything. Row filters become a
//! write filter around the condition.

pub(in crate::resolve) mod condition;
pub(in crate::resolve) mod conflict_key;
pub(in crate::resolve) mod insert;
pub(in crate::resolve) mod join_visibility;
pub(in crate::resolve) mod merge;
pub(in crate::resolve) mod returning;
pub(in crate::resolve) mod self_assignment;
pub(in crate::resolve) mod side_effects;
pub(in crate::resolve) mod target;
pub(in crate::resolve) mod write_filter;

use sqlparser::ast::{
    Assignment, AssignmentTarget, Delete, Expr, FromTable, Ident, ObjectName, ObjectNamePart,
    OrderByExpr, SetExpr, SqliteOnConflict, Statement, TableFactor, TableWithJoins, Update,
    UpdateTableFromKind,
};

use crate::resolve::{
    Mode, Resolver,
    change::{
        self_assignment::stays, side_effects::Updated, target::target_name,
        write_filter::WriteFilter,
    },
    change_permission::Changes,
    expr::user_cast::AssignedValue,
    names::unknown_column,
    not_as_decided,
    query::{Ctes, not_reading, terms::TermNames},
    refuse_unsupported, refuse_with_replacement,
    scope::{Output, Scope},
};
use crate::{
    access::Usage,
    catalog::{Change, ColumnId, Relation},
    dialect::Dialect,
    policy::obligation::ColumnLevel,
    rejection::Rejection,
    syntax::decode,
};

pub(crate) use target::{Conflict, Target};

impl<'a> Resolver<'a> {
    /// The body of the outermost query, if it changes anything; the columns of what it returns.
    pub(in crate::resolve) fn write(
        &mut self,
        body: &mut SetExpr,
        ctes: Ctes<'_>,
    ) -> Result<Option<Vec<Output>>, Rejection> {
        let verb = match body {
            SetExpr::Insert(_) => "INSERT",
            SetExpr::Update(_) => "UPDATE",
            SetExpr::Delete(_) => "DELETE",
            SetExpr::Merge(_) => "MERGE",
            SetExpr::Select(_)
            | SetExpr::Query(_)
            | SetExpr::SetOperation {
                op: _,
                set_quantifier: _,
                left: _,
                right: _,
            }
            | SetExpr::Values(_)
            | SetExpr::Table(_) => return Ok(None),
        };
        // Where no policy permits a change, no statement is looked at further.
        match self.visible.changes() {
            Changes::Permitted => {}
            Changes::NotHere => return Err(not_reading(verb)),
            Changes::Unpermitted => return Err(self.refuse_changes(verb)),
        }
        match body {
            SetExpr::Insert(Statement::Insert(insert)) => self.insert(insert, ctes).map(Some),
            SetExpr::Update(Statement::Update(update)) => self.update(update, ctes).map(Some),
            SetExpr::Delete(Statement::Delete(delete)) => self.delete(delete, ctes).map(Some),
            SetExpr::Merge(Statement::Merge(merge)) => self.merge_into(merge, ctes).map(Some),
            _ => Err(refuse_unsupported(verb)),
        }
    }

    /// What SQLite's `OR …` asks for; whether it removes conflicting rows.
    pub(in crate::resolve) fn conflict_clause(
        &self,
        clause: Option<&SqliteOnConflict>,
    ) -> Result<bool, Rejection> {
        let instead = match self.catalog.dialect() {
            Dialect::Sqlite => None,
            Dialect::Postgres => Some("INSERT … ON CONFLICT (columns) DO NOTHING or DO UPDATE SET"),
            Dialect::Mysql => Some("INSERT IGNORE or INSERT … ON DUPLICATE KEY UPDATE"),
        };
        if let (Some(_), Some(instead)) = (clause, instead) {
            return Err(refuse_with_replacement("OR … (it is SQLite's)", instead));
        }
        match clause {
            None
            | Some(SqliteOnConflict::Abort | SqliteOnConflict::Fail | SqliteOnConflict::Ignore) => {
                Ok(false)
            }
            Some(SqliteOnConflict::Replace) => Ok(true),
            // It would end the transaction that the statement runs in.
            Some(SqliteOnConflict::Rollback) => Err(refuse_unsupported("OR ROLLBACK")),
        }
    }

    /// A value that a column gets, or `DEFAULT`.
    pub(in crate::resolve) fn assigned_value(
        &mut self,
        value: &mut Expr,
        scope: &Scope<'a, '_>,
        ctes: Ctes<'_>,
    ) -> Result<AssignedValue, Rejection> {
        if is_default(value) {
            *value = Expr::Identifier(Ident::new("DEFAULT"));
            return Ok(AssignedValue::from_default());
        }
        let operand = self.assigned_operand(value, scope);
        let columns = self.expr(value, scope, ctes, Usage::Output)?;
        Ok(AssignedValue {
            columns: columns.into_iter().collect(),
            operand,
        })
    }

    fn update(&mut self, update: &mut Update, ctes: Ctes<'_>) -> Result<Vec<Output>, Rejection> {
        let Update {
            update_token: _,
            optimizer_hints,
            table,
            assignments,
            from,
            selection,
            returning,
            output,
            or,
            order_by,
            limit,
        } = update;
        optimizer_hints.clear();
        if output.is_some() {
            return Err(refuse_unsupported("OUTPUT"));
        }
        if self.conflict_clause(or.as_ref())? {
            return Err(refuse_unsupported("UPDATE OR REPLACE"));
        }
        let dialect = self.catalog.dialect();
        if dialect == Dialect::Mysql
            && let Some(word) = modifier(&table.relation)
        {
            return Err(refuse_unsupported(&format!("UPDATE {word}")));
        }
        if !table.joins.is_empty() && dialect != Dialect::Mysql {
            return Err(refuse_unsupported("a join as the target of UPDATE"));
        }
        self.drop_only(&mut table.relation)?;
        let key = if table.joins.is_empty() {
            self.factor_key(&table.relation)
        } else {
            self.qualify_assignments(table, assignments);
            self.common_qualifier(assignments)
        };
        self.strip_join_filters(std::slice::from_mut(table), key.as_deref())?;
        let mut scope = Scope::new(dialect, None);
        self.expect_target(key, Change::Update);
        self.table_with_joins(table, &mut scope, ctes)?;
        let (relation, mut target) = self.take_target_in_from()?;
        match from {
            None => {}
            Some(UpdateTableFromKind::AfterSet(tables)) if dialect != Dialect::Mysql => {
                // SQLite makes a table of their rows before it joins the target.
                self.engine_names.has_whole_rows |=
                    tables.len() > 1 || tables.iter().any(|t| !t.joins.is_empty());
                for table in tables {
                    self.table_with_joins(table, &mut scope, ctes)?;
                }
            }
            Some(UpdateTableFromKind::AfterSet(_) | UpdateTableFromKind::BeforeSet(_)) => {
                return Err(refuse_unsupported("FROM in this place of UPDATE"));
            }
        }
        target.joined = scope.sources.len() > 1;
        let updated = self.assignments(assignments, (relation, &target.qualifier), &scope, ctes)?;
        let reached = self.change_condition(selection, &scope, ctes)?;
        let tables = std::slice::from_mut(table);
        self.take_apart(&mut target, selection.as_ref(), tables, relation, &scope);
        let others = match &*from {
            Some(UpdateTableFromKind::AfterSet(tables)) => tables.as_slice(),
            Some(UpdateTableFromKind::BeforeSet(_)) | None => &[],
        };
        let tables: Vec<&TableWithJoins> = std::iter::once(&*table).chain(others).collect();
        let condition: Vec<&Expr> = selection.iter().collect();
        target.conditioned = self.is_conditioned(target.reference, &tables, &condition, &reached);
        self.bound_product(&scope)?;
        self.change_order(order_by, limit, &scope, ctes)?;
        self.change_columns(relation, Change::Update, target.conditioned, &updated);
        target.returns = returning.is_some();
        let outputs = self.returning_in(returning, relation, &scope, ctes)?;
        self.changes.targets.push(target);
        Ok(outputs)
    }

    fn delete(&mut self, delete: &mut Delete, ctes: Ctes<'_>) -> Result<Vec<Output>, Rejection> {
        let Delete {
            delete_token: _,
            optimizer_hints,
            tables,
            from,
            using,
            selection,
            returning,
            output,
            order_by,
            limit,
        } = delete;
        optimizer_hints.clear();
        if output.is_some() {
            return Err(refuse_unsupported("OUTPUT"));
        }
        let dialect = self.catalog.dialect();
        let FromTable::WithFromKeyword(from) = from else {
            return Err(refuse_unsupported("DELETE without FROM"));
        };
        if dialect == Dialect::Mysql
            && let Some(joined) = using.take()
        {
            // `DELETE FROM t USING t JOIN u …` is MySQL's `DELETE t FROM t JOIN u …`.
            let [target] = from.as_slice() else {
                return Err(refuse_unsupported("DELETE from several tables"));
            };
            tables.push(target_name(target)?);
            *from = joined;
        }
        for table in from.iter_mut() {
            self.drop_only(&mut table.relation)?;
        }
        let key = match (tables.as_mut_slice(), from.as_slice()) {
            ([], [table]) if table.joins.is_empty() => self.factor_key(&table.relation),
            // MySQL's `DELETE t FROM t JOIN u …`, and `DELETE t FROM t, u …`.
            ([name], [_, ..]) if dialect == Dialect::Mysql => match name.0.as_mut_slice() {
                [ObjectNamePart::Identifier(name)] => {
                    self.normalise_table(name);
                    Some(self.table_key(name).into_owned())
                }
                _ => return Err(refuse_unsupported("a target of this form in DELETE")),
            },
            _ => return Err(refuse_unsupported("DELETE from several tables")),
        };
        self.strip_join_filters(from, key.as_deref())?;
        let mut scope = Scope::new(dialect, None);
        self.expect_target(key, Change::Delete);
        for table in from.iter_mut() {
            self.table_with_joins(table, &mut scope, ctes)?;
        }
        let (relation, mut target) = self.take_target_in_from()?;
        if let Some(using) = using.as_mut() {
            if dialect != Dialect::Postgres {
                return Err(refuse_unsupported("USING in DELETE"));
            }
            for table in using {
                self.table_with_joins(table, &mut scope, ctes)?;
            }
        }
        target.joined = scope.sources.len() > 1;
        let reached = self.change_condition(selection, &scope, ctes)?;
        self.take_apart(&mut target, selection.as_ref(), from, relation, &scope);
        let tables: Vec<&TableWithJoins> = from.iter().chain(using.iter().flatten()).collect();
        let condition: Vec<&Expr> = selection.iter().collect();
        target.conditioned = self.is_conditioned(target.reference, &tables, &condition, &reached);
        self.bound_product(&scope)?;
        self.change_order(order_by, limit, &scope, ctes)?;
        self.change(relation, Change::Delete, target.conditioned);
        target.returns = returning.is_some();
        let outputs = self.returning_in(returning, relation, &scope, ctes)?;
        self.changes.targets.push(target);
        Ok(outputs)
    }

    /// The statement's own condition, inside of the write filter where this is our own output; the columns of these tables
    /// that its subqueries name.
    pub(in crate::resolve) fn change_condition(
        &mut self,
        selection: &mut Option<Expr>,
        scope: &Scope<'a, '_>,
        ctes: Ctes<'_>,
    ) -> Result<Vec<ColumnId>, Rejection> {
        if let Some(write_filter) = self.write_filter() {
            let missing = || not_as_decided("the write filter of the target is missing");
            let own = selection.take().ok_or_else(missing)?;
            *selection = write_filter.extract_own(own, 0).map_err(|_| missing())?;
        }
        // What stands before it may have subqueries too.
        scope.reached.take();
        if let Some(expr) = selection {
            self.on_filtered_rows(scope.sources.len() > 1, |resolver| {
                resolver.resolve_condition(expr, scope, ctes, Usage::Filter)
            })?;
        }
        Ok(scope.reached.take())
    }

    /// The write filter of the change that is read, where this is our own output.
    pub(in crate::resolve) fn write_filter(&self) -> Option<&'a WriteFilter> {
        match self.mode {
            Mode::Rewritten { sources: _, writes } => writes
                .get(self.changes.targets.len())
                .and_then(|write| write.write_filter.as_ref()),
            Mode::Statement | Mode::View { within: _ } => None,
        }
    }

    /// MySQL's ORDER BY and LIMIT of UPDATE and DELETE.
    fn change_order(
        &mut self,
        order_by: &mut [OrderByExpr],
        limit: &mut Option<Expr>,
        scope: &Scope<'a, '_>,
        ctes: Ctes<'_>,
    ) -> Result<(), Rejection> {
        if (!order_by.is_empty() || limit.is_some()) && self.catalog.dialect() != Dialect::Mysql {
            return Err(refuse_unsupported("ORDER BY or LIMIT in UPDATE or DELETE"));
        }
        self.order_terms(order_by, TermNames::Expressions, scope, ctes)?;
        if let Some(limit) = limit {
            let nothing = Scope::new(self.catalog.dialect(), None);
            self.expr(limit, &nothing, ctes, Usage::Filter)?;
        }
        Ok(())
    }

    /// `column = value`, several of them; the columns of `relation`, called `own`, that get values.
    pub(in crate::resolve) fn assignments(
        &mut self,
        assignments: &mut [Assignment],
        (relation, own): (&'a Relation, &Ident),
        scope: &Scope<'a, '_>,
        ctes: Ctes<'_>,
    ) -> Result<Updated, Rejection> {
        let (mut assigned, mut changed) = (Vec::new(), Vec::new());
        let mut values = Vec::new();
        for Assignment { target, value } in assignments {
            match target {
                AssignmentTarget::ColumnName(name) => {
                    let id = self.assigned_column(relation, name)?;
                    assigned.push(id);
                    let column = relation.column(id.index);
                    if !column.is_some_and(|column| stays(value, column, own, self.catalog)) {
                        changed.push(id);
                    }
                }
                AssignmentTarget::Tuple(names) => {
                    for name in names {
                        let id = self.assigned_column(relation, name)?;
                        assigned.push(id);
                        changed.push(id);
                    }
                }
            }
            let given =
                self.on_answered_rows(|resolver| resolver.assigned_value(value, scope, ctes))?;
            // Of a row each column may get any of its values.
            values.resize(assigned.len(), given);
        }
        self.assign(&assigned, &values)?;
        Ok(Updated { assigned, changed })
    }

    /// The column that an assignment names, if it may be read or written.
    pub(in crate::resolve) fn assigned_column(
        &mut self,
        relation: &'a Relation,
        name: &mut ObjectName,
    ) -> Result<ColumnId, Rejection> {
        let ident = match name.0.as_mut_slice() {
            [ObjectNamePart::Identifier(ident)] => ident,
            // On PostgreSQL this would be a field of a column.
            [
                ObjectNamePart::Identifier(qualifier),
                ObjectNamePart::Identifier(ident),
            ] if self.catalog.dialect() == Dialect::Mysql => {
                self.normalise_table(qualifier);
                ident
            }
            _ => return Err(refuse_unsupported("an assigned column of this form")),
        };
        let shown = decode(ident).into_owned();
        let key = self.key(ident);
        let decision = self.visible.relation(relation.id)?;
        let write = self.visible.write(relation.id)?;
        let exists = |index: u16| {
            let level = decision.columns.get(usize::from(index)).map(|c| &c.level);
            write.assigns(index) || level.is_some_and(|level| *level != ColumnLevel::Hidden)
        };
        let Some(index) = relation.position(&key).filter(|index| exists(*index)) else {
            let names: Vec<String> = relation
                .column_ids()
                .filter(|(id, _)| exists(id.index))
                .map(|(_, column)| column.name.to_string())
                .collect();
            return Err(unknown_column(&shown, &names, self.catalog.dialect()));
        };
        let column = ColumnId {
            relation: relation.id,
            index,
        };
        self.note_column(ident.span, column, Usage::Write);
        self.normalise(ident);
        Ok(column)
    }

    /// A column of the target that may be read, by its name.
    pub(in crate::resolve) fn visible_column(
        &mut self,
        relation: &'a Relation,
        ident: &mut Ident,
    ) -> Result<ColumnId, Rejection> {
        let source = self.target_source(relation, None)?;
        let key = self.key(ident);
        let id = source
            .columns
            .find(&key)
            .and_then(|(origin, _)| origin.identity());
        let Some(id) = id else {
            let columns = source.columns.list().into_iter();
            let names: Vec<String> = columns.map(|o| o.name.to_string()).collect();
            return Err(unknown_column(
                &decode(ident),
                &names,
                self.catalog.dialect(),
            ));
        };
        self.normalise(ident);
        Ok(id)
    }
}

/// The keyword where a value could stand.
pub(crate) fn is_default(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(ident)
        if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// A word before MySQL's target that the parser takes for its name, and the name for an alias. Without quotes it is no name
/// (<https://dev.mysql.com/doc/refman/8.4/en/keywords.html>).
fn modifier(factor: &TableFactor) -> Option<&'static str> {
    let TableFactor::Table {
        name,
        alias: Some(_),
        args: _,
        with_hints: _,
        version: _,
        with_ordinality: _,
        partitions: _,
        json_path: _,
        sample: _,
        index_hints: _,
    } = factor
    else {
        return None;
    };
    let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else {
        return None;
    };
    ["IGNORE", "LOW_PRIORITY"]
        .into_iter()
        .find(|word| name.quote_style.is_none() && name.value.eq_ignore_ascii_case(word))
}
