//! The target of a change: what it is, and where it stands in the statement.

use std::{collections::BTreeSet, sync::Arc};

use sqlparser::ast::{
    Assignment, AssignmentTarget, Ident, ObjectName, ObjectNamePart, Spanned as _, TableAlias,
    TableFactor, TableWithJoins,
};

use crate::resolve::{
    Reference, Resolver,
    change::write_filter::Conjunct,
    from::mark_schema,
    refuse_unsupported,
    scope::{Columns, Source},
};
use crate::{
    catalog::{Change, Relation, RelationId, RelationKind},
    policy::obligation::{ColumnLevel, RelationDecision, Visibility},
    rejection::Rejection,
};

/// What a statement changes.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) relation: RelationId,
    /// Its index among the references; none for an INSERT, whose target is not read.
    pub(crate) reference: Option<usize>,
    /// What its columns are qualified with, where other tables stand beside it.
    pub(crate) qualifier: Ident,
    /// Whether other tables stand beside it.
    pub(crate) joined: bool,
    /// Whether each change of rows that are there has a condition on them; that of an INSERT is by a key.
    pub(crate) conditioned: bool,
    /// Whether rows of the target are given back.
    pub(crate) returns: bool,
    /// Whether an INSERT changes or removes the conflicting row.
    pub(crate) on_conflict: Conflict,
    /// Whether a name in a subquery of an upsert's condition cannot say of which row it is.
    pub(crate) untold: bool,
    /// Its own condition, then each condition of a join that sees the target, taken apart; nothing where none of them can
    /// fail on any row.
    pub(crate) conditions: Vec<Vec<Conjunct>>,
    /// Columns of the target that joins merge.
    pub(crate) merged: BTreeSet<u16>,
    /// What looks at rows of the target where no write filter can be put around it.
    pub(crate) in_the_open: Option<&'static str>,
}

/// What an INSERT does with the conflicting row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conflict {
    /// It fails, or does nothing.
    DoNothing,
    /// It updates the row.
    Updates,
    /// It removes the row.
    Replaces,
}

/// A target that is expected in FROM, by its qualifier.
pub(in crate::resolve) struct ExpectedTarget {
    key: String,
    change: Change,
}

impl<'a> Resolver<'a> {
    /// The target as a source of its own columns.
    pub(in crate::resolve) fn target_source(
        &self,
        relation: &'a Relation,
        alias: Option<&Ident>,
    ) -> Result<Source<'a>, Rejection> {
        Ok(Source {
            qualifier: Some(match alias {
                Some(alias) => self.table_key(alias).into(),
                None => Arc::clone(&relation.key),
            }),
            // A statement that calls it otherwise cannot name it by its schema.
            schema: alias
                .is_none_or(|alias| *self.table_key(alias) == *relation.key)
                .then(|| Arc::clone(&relation.schema_key)),
            columns: Columns::Relation {
                relation,
                decision: self.visible.relation(relation.id)?,
                hidden_exist: false,
                bare: true,
                body: None,
            },
        })
    }

    /// The relation that a statement changes, by its name, which is completed.
    pub(in crate::resolve) fn target_relation(
        &mut self,
        name: &mut ObjectName,
        change: Change,
    ) -> Result<&'a Relation, Rejection> {
        let (schema, last) = self.schema_and_name(name)?;
        let shown = self.table_name(last).into_owned();
        let key = self.table_key(last);
        let schema = schema.map(|schema| self.table_key(schema));
        let relation = self.in_catalog(schema.as_deref(), &key, &shown)?;
        let decision = self.visible.relation(relation.id)?;
        let write = self.visible.write(relation.id)?;
        if decision.visibility == Visibility::Absent && !write.is_target() {
            return Err(self.absent_relation(relation, &decision, &shown));
        }
        match relation.kind {
            RelationKind::Table => {}
            RelationKind::View => {
                return Err(refuse_unsupported(&format!(
                    "{} through a view",
                    change.name()
                )));
            }
            RelationKind::Materialized | RelationKind::Virtual | RelationKind::System => {
                return Err(refuse_unsupported(&format!(
                    "{} on `{shown}`",
                    change.name()
                )));
            }
        }
        self.count_relation(1)?;
        self.note_relation(name.span(), relation.id);
        *name = ObjectName(vec![
            ObjectNamePart::Identifier(self.encode(&relation.schema)),
            ObjectNamePart::Identifier(self.encode(&relation.name)),
        ]);
        Ok(relation)
    }

    /// A target whose rows are looked at must be readable.
    pub(in crate::resolve) fn require_readable(
        &self,
        relation: &Relation,
    ) -> Result<(), Rejection> {
        let decision = self.visible.relation(relation.id)?;
        match decision.visibility {
            Visibility::Selectable => Ok(()),
            Visibility::Absent => Err(self.absent_relation(relation, &decision, &relation.name)),
            Visibility::Discoverable(code) => {
                let message = decision
                    .message
                    .clone()
                    .unwrap_or_else(|| format!("`{}` may not be read", relation.name));
                Err(Rejection::new(code, message).with_policies(decision.policies.clone()))
            }
        }
    }

    /// The key that qualifies a table in FROM.
    pub(in crate::resolve) fn factor_key(&self, factor: &TableFactor) -> Option<String> {
        let (name, alias) = named_table(factor)?;
        self.name_key(name, alias)
    }

    pub(in crate::resolve) fn name_key(
        &self,
        name: &ObjectName,
        alias: Option<&TableAlias>,
    ) -> Option<String> {
        match alias {
            Some(alias) => Some(self.table_key(&alias.name).into_owned()),
            None => Some(self.table_key(name.0.last()?.as_ident()?).into_owned()),
        }
    }

    /// Puts a table's name before each assigned column that has none, where the principal sees a column of that name in one table of
    /// the join alone.
    pub(in crate::resolve) fn qualify_assignments(
        &self,
        table: &TableWithJoins,
        assignments: &mut [Assignment],
    ) {
        let joined = table.joins.iter().map(|join| &join.relation);
        let factors = std::iter::once(&table.relation).chain(joined);
        let tables: Vec<_> = factors
            .filter_map(|factor| self.factor_relation(factor))
            .collect();
        for assignment in assignments {
            let AssignmentTarget::ColumnName(name) = &mut assignment.target else {
                continue;
            };
            let [ObjectNamePart::Identifier(column)] = name.0.as_slice() else {
                continue;
            };
            let key = self.key(column);
            let mut having = tables.iter().filter(|(_, relation, decision)| {
                let at = relation.position(&key).map(usize::from);
                let decided = at.and_then(|at| decision.columns.get(at));
                decided.is_some_and(|decided| decided.level != ColumnLevel::Hidden)
            });
            if let (Some((qualifier, _, _)), None) = (having.next(), having.next()) {
                name.0
                    .insert(0, ObjectNamePart::Identifier(qualifier.clone()));
            }
        }
    }

    /// The table that a factor of FROM names: what qualifies its columns, and what is decided about it.
    fn factor_relation(
        &self,
        factor: &TableFactor,
    ) -> Option<(Ident, &'a Relation, Arc<RelationDecision>)> {
        let (name, alias) = named_table(factor)?;
        let mut name = name.clone();
        let (schema, last) = self.schema_and_name(&mut name).ok()?;
        let schema = schema.map(|schema| self.table_key(schema));
        let shown = self.table_name(last);
        let found = self.in_catalog(schema.as_deref(), &self.table_key(last), &shown);
        let relation = found.ok()?;
        let decision = self.visible.relation(relation.id).ok()?;
        let qualifier = alias.map_or(&*last, |alias| &alias.name);
        Some((qualifier.clone(), relation, decision))
    }

    /// The qualifier that all assignments have.
    pub(in crate::resolve) fn common_qualifier(
        &self,
        assignments: &[Assignment],
    ) -> Option<String> {
        let qualifier = |assignment: &Assignment| match &assignment.target {
            AssignmentTarget::ColumnName(name) => match name.0.as_slice() {
                [ObjectNamePart::Identifier(qualifier), _] => {
                    Some(self.table_key(qualifier).into_owned())
                }
                _ => None,
            },
            AssignmentTarget::Tuple(_) => None,
        };
        let first = qualifier(assignments.first()?)?;
        assignments
            .iter()
            .all(|a| qualifier(a).as_ref() == Some(&first))
            .then_some(first)
    }

    pub(in crate::resolve) fn expect_target(&mut self, key: Option<String>, change: Change) {
        self.changes.expected_target = key.map(|key| ExpectedTarget { key, change });
    }

    /// The expected target, if it is the table that FROM names here.
    pub(in crate::resolve) fn take_expected(
        &mut self,
        name: &ObjectName,
        alias: Option<&TableAlias>,
    ) -> Option<ExpectedTarget> {
        let key = self.name_key(name, alias)?;
        self.changes
            .expected_target
            .take_if(|expected_target| expected_target.key == key)
    }

    /// The target where it stands in FROM.
    pub(in crate::resolve) fn target_factor(
        &mut self,
        name: &mut ObjectName,
        alias: &mut Option<TableAlias>,
        expected_target: &ExpectedTarget,
    ) -> Result<Source<'a>, Rejection> {
        let relation = self.target_relation(name, expected_target.change)?;
        self.require_readable(relation)?;
        self.access.relations.insert(relation.id);
        self.failures.sources += 1;
        let index = self.references.len();
        if let Some(ObjectNamePart::Identifier(schema)) = name.0.first_mut() {
            *schema = mark_schema(schema.clone(), index);
        }
        let decision = self.visible.relation(relation.id)?;
        self.tokens.are_given |= decision.gives_tokens();
        self.references.push(Reference {
            relation: relation.id,
            decision,
            body: None,
            opened: Vec::new(),
            narrowed_by: None,
        });
        let columns = self.target_source(relation, None)?.columns;
        let source = self.alias_source(
            alias,
            Some(Arc::clone(&relation.key)),
            Some(Arc::clone(&relation.schema_key)),
            columns,
        )?;
        if let Columns::Derived(_) = &source.columns {
            return Err(refuse_unsupported("a column list on the target"));
        }
        let qualifier = match alias {
            Some(alias) => alias.name.clone(),
            None => self.encode(&relation.name),
        };
        self.changes.target_in_from = Some(Target {
            relation: relation.id,
            reference: Some(index),
            qualifier,
            joined: false,
            conditioned: true,
            returns: false,
            on_conflict: Conflict::DoNothing,
            untold: false,
            conditions: Vec::new(),
            merged: BTreeSet::new(),
            in_the_open: None,
        });
        Ok(source)
    }

    pub(in crate::resolve) fn take_target_in_from(
        &mut self,
    ) -> Result<(&'a Relation, Target), Rejection> {
        let target = self.changes.target_in_from.take();
        let relation = target
            .as_ref()
            .and_then(|target| self.catalog.relation(target.relation));
        match (target, relation) {
            (Some(target), Some(relation)) => Ok((relation, target)),
            _ => Err(refuse_unsupported(
                "a change of a join that sets columns of several tables, or columns without their table's name (write one UPDATE a \
                 table, with the table's name before each column),",
            )),
        }
    }
}

/// The name and the alias of a table in FROM.
fn named_table(factor: &TableFactor) -> Option<(&ObjectName, Option<&TableAlias>)> {
    let TableFactor::Table {
        name,
        alias,
        args: None,
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
    Some((name, alias.as_ref()))
}

/// The name of a target that stands by itself.
pub(in crate::resolve) fn target_name(target: &TableWithJoins) -> Result<ObjectName, Rejection> {
    let TableWithJoins { relation, joins } = target;
    match relation {
        TableFactor::Table {
            name,
            alias: None,
            args: None,
            with_hints,
            version: None,
            with_ordinality: false,
            partitions,
            json_path: None,
            sample: None,
            index_hints,
        } if joins.is_empty()
            && with_hints.is_empty()
            && partitions.is_empty()
            && index_hints.is_empty() =>
        {
            Ok(name.clone())
        }
        _ => Err(refuse_unsupported("a target of this form in DELETE")),
    }
}
