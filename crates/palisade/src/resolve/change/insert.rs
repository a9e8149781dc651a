//! INSERT, REPLACE and upserts.

use std::{collections::BTreeSet, ops::ControlFlow, sync::Arc};

use sqlparser::ast::{
    Assignment, ConflictTarget, DoUpdate, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, Insert, InsertAliases, ObjectName,
    ObjectNamePart, OnConflict, OnConflictAction, OnInsert, Parens, Query, SetExpr,
    TableAliasWithoutColumns, TableObject, Values,
};

use crate::resolve::{
    Mode, Resolver,
    change::{Conflict, Target, conflict_key::ConflictArbiter, is_default},
    expr::{ExprContext, user_cast::AssignedValue},
    not_as_decided,
    query::Ctes,
    refuse_unsupported, refuse_with_replacement,
    scope::{Columns, EXCLUDED, Origin, Output, Scope, Source},
};
use crate::{
    access::Usage,
    catalog::{Change, ColumnId, Relation},
    code::Code,
    dialect::Dialect,
    lineage::Lineage,
    policy::obligation::ColumnLevel,
    rejection::Rejection,
    syntax::each_expr_mut,
};

impl<'a> Resolver<'a> {
    pub(in crate::resolve) fn insert(
        &mut self,
        insert: &mut Insert,
        ctes: Ctes<'_>,
    ) -> Result<Vec<Output>, Rejection> {
        let Insert {
            insert_token: _,
            optimizer_hints,
            or,
            ignore: _,
            into,
            table,
            table_alias,
            columns,
            overwrite,
            source,
            assignments,
            partitioned,
            after_columns,
            has_table_keyword,
            on,
            returning,
            output,
            replace_into,
            priority,
            insert_alias,
            settings,
            format_clause,
            multi_table_insert_type,
            multi_table_into_clauses,
            multi_table_when_clauses,
            multi_table_else_clause,
        } = insert;
        optimizer_hints.clear();
        // It chooses when, and nothing else.
        *priority = None;
        *into = true;
        for (present, what) in [
            (*overwrite, "INSERT OVERWRITE"),
            (partitioned.is_some(), "PARTITION in INSERT"),
            (!after_columns.is_empty(), "columns after PARTITION"),
            (*has_table_keyword, "INSERT INTO TABLE"),
            (output.is_some(), "OUTPUT"),
            (settings.is_some(), "SETTINGS"),
            (format_clause.is_some(), "FORMAT"),
            (
                multi_table_insert_type.is_some(),
                "INSERT into several tables",
            ),
            (
                !multi_table_into_clauses.is_empty(),
                "INSERT into several tables",
            ),
            (
                !multi_table_when_clauses.is_empty(),
                "INSERT into several tables",
            ),
            (
                multi_table_else_clause.is_some(),
                "INSERT into several tables",
            ),
        ] {
            if present {
                return Err(refuse_unsupported(what));
            }
        }
        self.require_no_with_before(ctes)?;
        let replaces = *replace_into || self.conflict_clause(or.as_ref())?;
        let name = match table {
            TableObject::TableName(name) => name,
            TableObject::TableFunction(_) => {
                return Err(refuse_unsupported("INSERT into a function"));
            }
            TableObject::TableQuery(_) => return Err(refuse_unsupported("INSERT into a query")),
        };
        let relation = self.target_relation(name, Change::Insert)?;
        let own = self.encode(&relation.name);
        let alias = match table_alias {
            Some(TableAliasWithoutColumns {
                explicit: false,
                alias: _,
            }) if self.catalog.dialect() == Dialect::Sqlite => {
                return Err(Rejection::new(
                    Code::SyntaxInvalid,
                    "an alias of INSERT needs AS before it",
                ));
            }
            Some(TableAliasWithoutColumns { explicit, alias }) => {
                *explicit = true;
                self.normalise_table(alias);
                alias.clone()
            }
            None => own,
        };
        self.change(relation, Change::Insert, true);
        if replaces {
            self.change(relation, Change::Delete, true);
        }

        // Without a list the values are those of the columns in order.
        let positional = columns.is_empty() && assignments.is_empty();
        let mut assigned = Vec::new();
        for column in columns.iter_mut() {
            assigned.push(self.assigned_column(relation, column)?);
        }
        if positional {
            assigned = self.assignable(relation)?;
        }
        let mut is_given = Vec::new();
        if let Some(source) = source {
            let given;
            (is_given, given) =
                self.inserted_rows(source, relation, &assigned, positional, ctes)?;
            if positional {
                assigned.truncate(is_given.len());
                *columns = self.column_names(relation, &assigned);
            }
            self.assign(&assigned, &given)?;
        }
        let nothing = Scope::new(self.catalog.dialect(), None);
        let own = self.assignments(assignments, (relation, &alias), &nothing, ctes)?;
        assigned.extend(own.assigned);
        is_given.extend(assignments.iter().map(|a| !is_default(&a.value)));
        let found = ConflictArbiter::from_insert(on.as_ref().filter(|_| !replaces));

        let mut conflict = if replaces {
            Conflict::Replaces
        } else {
            Conflict::DoNothing
        };
        let given = assigned.iter().zip(is_given);
        let given = given.filter_map(|(id, is_given)| is_given.then_some(*id));
        let given = given.collect();
        if let Some(on) = on
            && self.on_conflict(on, relation, &alias, insert_alias.take(), given, ctes)?
        {
            if conflict == Conflict::Replaces {
                return Err(refuse_unsupported("ON CONFLICT after REPLACE"));
            }
            conflict = Conflict::Updates;
        } else if insert_alias.is_some() {
            return Err(refuse_unsupported("an alias for the inserted row"));
        }
        if conflict != Conflict::DoNothing {
            // The conflicting row must be one that may be seen.
            self.require_readable(relation)?;
            self.access.relations.insert(relation.id);
            self.check_conflict_key(relation, &found, &assigned)?;
        }
        let outputs = self.returning(returning, relation, &alias, ctes)?;
        self.changes.targets.push(Target {
            relation: relation.id,
            reference: None,
            qualifier: alias,
            joined: false,
            conditioned: true,
            returns: returning.is_some(),
            on_conflict: conflict,
            untold: std::mem::take(&mut self.changes.has_untold_names),
            conditions: Vec::new(),
            merged: BTreeSet::new(),
            in_the_open: None,
        });
        Ok(outputs)
    }

    /// Refuses a WITH before the statement where the engine has it before the query of the rows alone.
    fn require_no_with_before(&self, ctes: Ctes<'_>) -> Result<(), Rejection> {
        let Ctes { entry } = ctes;
        let is_refused = match self.catalog.dialect() {
            Dialect::Mysql => entry.is_some(),
            Dialect::Sqlite | Dialect::Postgres => false,
        };
        if is_refused {
            let instead = "INSERT INTO t WITH q AS (…) SELECT … FROM q";
            return Err(refuse_with_replacement("WITH before INSERT", instead));
        }
        Ok(())
    }

    /// The rows of an INSERT: of each column that they have, whether every row says what its value is, and what is known of
    /// those values.
    fn inserted_rows(
        &mut self,
        source: &mut Box<Query>,
        relation: &'a Relation,
        assigned: &[ColumnId],
        positional: bool,
        ctes: Ctes<'_>,
    ) -> Result<(Vec<bool>, Vec<AssignedValue>), Rejection> {
        let admission = match self.mode {
            Mode::Rewritten { sources: _, writes } => writes
                .get(self.changes.targets.len())
                .and_then(|write| write.admission.as_ref()),
            Mode::Statement | Mode::View { within: _ } => None,
        };
        let source = match admission {
            Some(admission) => admission
                .extract_source(source)
                .map_err(|_| not_as_decided("the rows are not those that were admitted"))?,
            None => source,
        };
        let fits = |width: usize| {
            if positional {
                match self.catalog.dialect() {
                    Dialect::Postgres => width <= assigned.len(),
                    Dialect::Sqlite | Dialect::Mysql => width == assigned.len(),
                }
            } else {
                width == assigned.len()
            }
        };
        let wrong = |width: usize| {
            let columns = assigned.len();
            Rejection::new(
                Code::SyntaxInvalid,
                format!(
                    "{width} values for {columns} columns of `{}`",
                    relation.name
                ),
            )
        };
        let Some(rows) = plain_values(source) else {
            let outputs = self.query(source, None, ctes, false)?;
            if !fits(outputs.len()) {
                return Err(wrong(outputs.len()));
            }
            let given = outputs.iter().map(|output| AssignedValue {
                columns: output.lineage.columns.iter().copied().collect(),
                operand: self.origin_operand(&Origin::Derived(&output.lineage)),
            });
            return Ok((vec![true; outputs.len()], given.collect()));
        };
        let width = rows.first().map_or(0, |row| row.content.len());
        // MySQL's `() VALUES ()`: every column by default.
        let empty = width == 0 && positional && self.catalog.dialect() == Dialect::Mysql;
        if !(fits(width) || empty) || rows.iter().any(|row| row.content.len() != width) {
            return Err(wrong(width));
        }
        let scope = Scope::new(self.catalog.dialect(), None);
        let mut is_given = vec![true; width];
        let mut given = vec![AssignedValue::from_default(); width];
        for row in rows {
            let Parens {
                opening_token: _,
                content,
                closing_token: _,
            } = row;
            let columns = is_given.iter_mut().zip(&mut given);
            for (value, (is_given, given)) in content.iter_mut().zip(columns) {
                *is_given &= !is_default(value);
                given.add(self.assigned_value(value, &scope, ctes)?);
            }
        }
        Ok((is_given, given))
    }

    /// ON CONFLICT or ON DUPLICATE KEY; whether it updates.
    fn on_conflict(
        &mut self,
        on: &mut OnInsert,
        relation: &'a Relation,
        alias: &Ident,
        row_alias: Option<InsertAliases>,
        given: Vec<ColumnId>,
        ctes: Ctes<'_>,
    ) -> Result<bool, Rejection> {
        let dialect = self.catalog.dialect();
        if let Some(message) = other_engines(on, dialect) {
            return Err(Rejection::new(Code::SyntaxUnsupported, message));
        }
        match on {
            OnInsert::OnConflict(_) if row_alias.is_some() => {
                Err(refuse_unsupported("an alias for the inserted row"))
            }
            OnInsert::OnConflict(OnConflict {
                conflict_target,
                action,
            }) => {
                match conflict_target {
                    None => {}
                    Some(ConflictTarget::Columns(columns)) => {
                        for column in columns {
                            let id = self.visible_column(relation, column)?;
                            self.touch(id, Usage::Filter);
                        }
                    }
                    Some(ConflictTarget::OnConstraint(name)) => match name.0.as_mut_slice() {
                        [ObjectNamePart::Identifier(name)] => self.normalise(name),
                        _ => return Err(refuse_unsupported("a constraint's name of this form")),
                    },
                }
                let DoUpdate {
                    assignments,
                    selection,
                } = match action {
                    OnConflictAction::DoNothing => return Ok(false),
                    OnConflictAction::DoUpdate(update) => update,
                };
                let mut excluded = Scope::new(dialect, None);
                let own = self.own_values(relation, given);
                let proposed = self.proposed_source(relation, EXCLUDED, &own)?;
                excluded.sources.push(proposed);
                // The row that is there comes first; the proposed one by its name only.
                let mut scope = Scope::new(dialect, Some(&excluded));
                scope
                    .sources
                    .push(self.target_source(relation, Some(alias))?);
                let updated = self.assignments(assignments, (relation, alias), &scope, ctes)?;
                self.change_columns(relation, Change::Update, true, &updated);
                scope.conflicting_row = Some(alias.clone());
                self.change_condition(selection, &scope, ctes)?;
                Ok(true)
            }
            OnInsert::DuplicateKeyUpdate(assignments) => {
                let own = self.own_values(relation, given);
                let mut proposed = Scope::new(dialect, None);
                let row_key = row_alias.map(|alias| self.row_key(alias)).transpose()?;
                if let Some(key) = &row_key {
                    if self.table_key(alias) == *key {
                        return Err(refuse_unsupported(
                            "one name for the table and the inserted row",
                        ));
                    }
                    let source = self.proposed_source(relation, key, &own)?;
                    proposed.sources.push(source);
                }
                let mut scope = Scope::new(dialect, Some(&proposed));
                scope
                    .sources
                    .push(self.target_source(relation, Some(alias))?);
                self.changes.proposed = Some((relation.id, own));
                let done = self.assignments(assignments, (relation, alias), &scope, ctes);
                self.changes.proposed = None;
                self.change_columns(relation, Change::Update, true, &done?);
                if let Some(key) = &row_key {
                    self.spell_proposed(assignments, key)?;
                }
                Ok(true)
            }
            // The parser's list is open.
            _ => Err(refuse_unsupported("what an INSERT does on a conflict")),
        }
    }

    /// Those of the `given` columns whose value in the proposed row is the statement's own and no other, and which are not shown
    /// as they are: reading it there tells nothing of any row. A trigger may have changed it, and a key may have been counted up.
    fn own_values(&self, relation: &Relation, given: Vec<ColumnId>) -> Vec<ColumnId> {
        if self.sets_off_triggers(relation) {
            return Vec::new();
        }
        let is_own = |id: &ColumnId| {
            let column = relation.column(id.index);
            column.is_some_and(|column| column.generated.is_none())
                && !relation.primary_key.contains(&id.index)
                && !self.is_plain_base(*id)
        };
        given.into_iter().filter(is_own).collect()
    }

    /// The row that was to be inserted, under the name `key`; its values in the columns `own` are no column's.
    fn proposed_source(
        &self,
        relation: &'a Relation,
        key: &str,
        own: &[ColumnId],
    ) -> Result<Source<'a>, Rejection> {
        let mut source = self.target_source(relation, None)?;
        source.qualifier = Some(key.into());
        if own.is_empty() {
            return Ok(source);
        }
        let decision = self.visible.relation(relation.id)?;
        let columns = relation.column_ids().map(|(id, column)| {
            let level = decision
                .columns
                .get(usize::from(id.index))
                .map(|c| &c.level);
            let is_own = own.contains(&id);
            let (name, key) = match level {
                // It is part of the whole row, and has no name.
                None | Some(ColumnLevel::Hidden) if !is_own => ("\0".into(), "\0".into()),
                None | Some(ColumnLevel::Hidden | ColumnLevel::Plain | ColumnLevel::Masked(_)) => {
                    (Arc::clone(&column.name), Arc::clone(&column.key))
                }
            };
            let lineage = if is_own {
                Lineage::default()
            } else {
                Lineage::from_column(id)
            };
            Output { name, key, lineage }
        });
        source.columns = Columns::Derived(columns.collect());
        Ok(source)
    }

    /// How the row that was to be inserted is called in ON DUPLICATE KEY UPDATE.
    fn row_key(&self, alias: InsertAliases) -> Result<String, Rejection> {
        let InsertAliases {
            row_alias,
            col_aliases,
        } = alias;
        if col_aliases.is_some_and(|columns| !columns.is_empty()) {
            return Err(refuse_unsupported("column aliases for the inserted row"));
        }
        match row_alias.0.as_slice() {
            [ObjectNamePart::Identifier(name)] => Ok(self.table_key(name).into_owned()),
            _ => Err(refuse_unsupported("an alias of this form")),
        }
    }

    /// Writes `VALUES(column)` for `row.column`, which MariaDB does not know
    /// (<https://dev.mysql.com/doc/refman/8.4/en/insert-on-duplicate.html>). It means nothing in a subquery.
    fn spell_proposed(
        &self,
        assignments: &mut [Assignment],
        row_key: &str,
    ) -> Result<(), Rejection> {
        let mut inside = false;
        for Assignment { target: _, value } in assignments {
            let _ = each_expr_mut(value, &mut |expr| {
                if let Expr::CompoundIdentifier(parts) = expr
                    && let [row, column] = parts.as_slice()
                    && self.table_key(row) == row_key
                {
                    *expr = values_of(column.clone());
                }
                inside |= matches!(
                    expr,
                    Expr::Subquery(_)
                        | Expr::Exists {
                            subquery: _,
                            negated: _
                        }
                        | Expr::InSubquery {
                            expr: _,
                            subquery: _,
                            negated: _
                        }
                );
                ControlFlow::Continue(())
            });
        }
        if inside {
            return Err(refuse_unsupported(
                "a subquery beside an alias for the inserted row",
            ));
        }
        Ok(())
    }

    /// MySQL's `VALUES(column)` in ON DUPLICATE KEY UPDATE: the value that was to be inserted. Whether
    /// `name(args)` is one.
    pub(in crate::resolve) fn proposed_value(
        &mut self,
        name: &ObjectName,
        args: &mut FunctionArguments,
        at: &ExprContext<'a, '_, '_>,
        out: &mut Vec<ColumnId>,
    ) -> Result<bool, Rejection> {
        let (Some((relation, own)), [ObjectNamePart::Identifier(word)]) =
            (&self.changes.proposed, name.0.as_slice())
        else {
            return Ok(false);
        };
        let is_values = word.quote_style.is_none() && word.value.eq_ignore_ascii_case("values");
        let FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses,
        }) = args
        else {
            return Ok(false);
        };
        if let (
            true,
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(column)))],
            Some(relation),
        ) = (
            is_values,
            args.as_mut_slice(),
            self.catalog.relation(*relation),
        ) && clauses.is_empty()
        {
            let index = relation.position(&self.key(column));
            if own.iter().any(|id| Some(id.index) == index) {
                self.normalise(column);
                return Ok(true);
            }
            let id = self.visible_column(relation, column)?;
            self.touch(id, at.usage);
            out.push(id);
            return Ok(true);
        }
        Ok(false)
    }

    /// The list of these columns.
    pub(in crate::resolve) fn column_names(
        &self,
        relation: &Relation,
        ids: &[ColumnId],
    ) -> Vec<ObjectName> {
        ids.iter()
            .filter_map(|id| relation.column(id.index))
            .map(|column| ObjectName::from(self.encode(&column.name)))
            .collect()
    }

    /// The columns that values without a list are for: those that exist for the principal. A hidden column that may be written
    /// is not counted. If no column can be seen, all that may be written count.
    pub(in crate::resolve) fn assignable(
        &self,
        relation: &'a Relation,
    ) -> Result<Vec<ColumnId>, Rejection> {
        let decision = self.visible.relation(relation.id)?;
        let write = self.visible.write(relation.id)?;
        let dialect = self.catalog.dialect();
        let is_shown = |index: u16| {
            let level = decision.columns.get(usize::from(index)).map(|c| &c.level);
            level.is_some_and(|level| *level != ColumnLevel::Hidden)
        };
        let any_shown = relation.column_ids().any(|(id, _)| is_shown(id.index));
        Ok(relation
            .column_ids()
            .filter(|(id, column)| {
                let exists = if any_shown {
                    is_shown(id.index)
                } else {
                    write.assigns(id.index)
                };
                // SQLite has no place for a generated column's value, not even for DEFAULT.
                exists && !(dialect == Dialect::Sqlite && column.generated.is_some())
            })
            .map(|(id, _)| id)
            .collect())
    }
}

/// `VALUES(column)`
fn values_of(column: Ident) -> Expr {
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new("VALUES")]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(
                Expr::Identifier(column),
            ))],
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// The rows of `VALUES` that stand alone.
fn plain_values(query: &mut Query) -> Option<&mut Vec<Parens<Vec<Expr>>>> {
    let Query {
        with: None,
        body,
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks,
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators,
    } = query
    else {
        return None;
    };
    match &mut **body {
        SetExpr::Values(Values {
            explicit_row: false,
            value_keyword,
            rows,
        }) if locks.is_empty() && pipe_operators.is_empty() => {
            *value_keyword = false;
            Some(rows)
        }
        _ => None,
    }
}

/// What the parser reads of a conflict, whatever the engine, and the engine does not; and what to write instead.
fn other_engines(on: &OnInsert, dialect: Dialect) -> Option<&'static str> {
    match (on, dialect) {
        (OnInsert::OnConflict(_), Dialect::Mysql) => {
            Some("MySQL and MariaDB have no ON CONFLICT; write ON DUPLICATE KEY UPDATE")
        }
        (OnInsert::DuplicateKeyUpdate(_), Dialect::Sqlite | Dialect::Postgres) => {
            Some("ON DUPLICATE KEY UPDATE is MySQL's; write ON CONFLICT (columns) DO UPDATE SET")
        }
        (
            OnInsert::OnConflict(OnConflict {
                conflict_target: Some(ConflictTarget::OnConstraint(_)),
                action: _,
            }),
            Dialect::Sqlite,
        ) => Some("SQLite has no ON CONFLICT ON CONSTRAINT; write ON CONFLICT (columns)"),
        (
            OnInsert::OnConflict(OnConflict {
                conflict_target: None,
                action: OnConflictAction::DoUpdate(_),
            }),
            Dialect::Postgres,
        ) => Some(
            "PostgreSQL has no ON CONFLICT DO UPDATE without columns; write ON CONFLICT (columns) DO UPDATE SET",
        ),
        // The rest is the engine's own, or refused by what resolves it.
        (_, Dialect::Sqlite | Dialect::Postgres | Dialect::Mysql) => None,
    }
}
