//! Foreign keys' actions on relations with row policies.
//!
//! No write filter can stand between the engine and the rows that a foreign key's action reaches. So a row may be changed only
//! if each dependent row, direct or indirect, passes three tests:
//!
//! * The session sees it.
//! * The session may change it.
//! * Policy admits it as the action leaves it.
//!
//! This is a condition of the change's own rows. A precheck looks for a row that fails it, and refuses the change as a key
//! without an action would.

use std::collections::{BTreeMap, BTreeSet};

use sqlparser::ast::{Assignment, AssignmentTarget, BinaryOperator, Expr, Ident, TableFactor};

use crate::rewrite::{
    ast,
    change::{
        ChangeRewriter,
        new_row::{converted::StoredValue, fold::Constant},
        precheck::{ProbedRows, Violation, ViolationQuery},
    },
    relation_source::{
        row_filter,
        row_filter::{ColumnSet, Qualifier},
    },
};
use crate::{
    catalog::{
        Catalog, Change, Column, ColumnId, ReferenceAction, Relation, RelationId, computed_from,
    },
    code::Code,
    dialect::Dialect,
    policy::obligation::{Operand, Predicate, ReferredRows, RowFilter},
    rejection::Rejection,
    resolve::{Link, WriteFilter, links, stays},
    syntax::{encode, key, visit_tree_mut},
};

/// Foreign keys that are looked through for one change.
const MOST: usize = 40;

impl ChangeRewriter<'_> {
    /// That nothing hangs on a row of the target that its change would reach and that policy hides or protects; none where the change
    /// reaches no relation of which it does.
    ///
    /// # Errors
    /// `obligation.inapplicable` where that cannot be looked for.
    pub(in crate::rewrite) fn no_filtered_dependents(
        &self,
        relation: &Relation,
        change: Change,
        updated: &[ColumnId],
        looked: &mut ProbedRows,
        functions: &mut BTreeSet<String>,
    ) -> Result<Option<Expr>, Rejection> {
        if self.permit.filtered_cascades().is_empty() {
            return Ok(None);
        }
        let mut below = Child {
            job: self,
            looked,
            functions,
            path: vec![relation.id],
            count: 0,
        };
        let own = &self.target.qualifier;
        let conditions = below.conditions(relation, own, change, updated)?;
        Ok((!conditions.is_empty()).then(|| ast::join_by(conditions, &BinaryOperator::And, true)))
    }

    /// Puts that into the write filter of a change, and gives what must be looked for before it.
    pub(in crate::rewrite) fn filter_dependents(
        &self,
        write_filter: &mut Option<WriteFilter>,
        untouched: Expr,
        relation: &Relation,
        reads: &ColumnSet,
        looked: &ProbedRows,
    ) -> Result<ViolationQuery, Rejection> {
        let mut columns = reads.clone();
        columns.extend(looked.reads.get(&relation.id).into_iter().flatten());
        let within = write_filter.take();
        let own = within
            .iter()
            .map(|write_filter| ast::parens(write_filter.condition.clone()));
        let conditions = own.chain([untouched.clone()]).collect();
        *write_filter = Some(WriteFilter {
            condition: ast::join_by(conditions, &BinaryOperator::And, true),
            placement: self.placement(relation, &columns)?,
        });
        Ok(ViolationQuery::Target {
            within: within.map(Box::new),
            admitted: Box::new(untouched),
            violation: Violation::OutOfReach,
        })
    }

    /// Checks that an upsert reaches no such row by what it assigns.
    pub(in crate::rewrite) fn require_no_filtered_cascade(
        &self,
        assignments: &[Assignment],
        relation: &Relation,
        looked: &mut ProbedRows,
        functions: &mut BTreeSet<String>,
    ) -> Result<(), Rejection> {
        let updated = self.updated_columns(assignments, relation);
        let change = Change::Update;
        match self.no_filtered_dependents(relation, change, &updated, looked, functions)? {
            None => Ok(()),
            Some(_) => Err(unreachable_change(
                change,
                "send an UPDATE instead of an upsert that assigns the key",
            )),
        }
    }

    /// The columns of the target to which `assignments` may give another value: what is assigned to itself stays, and sets off nothing.
    pub(in crate::rewrite) fn updated_columns(
        &self,
        assignments: &[Assignment],
        relation: &Relation,
    ) -> Vec<ColumnId> {
        let mut found = Vec::new();
        for Assignment { target, value } in assignments {
            let (names, is_one) = match target {
                AssignmentTarget::ColumnName(name) => (std::slice::from_ref(name), true),
                AssignmentTarget::Tuple(names) => (names.as_slice(), false),
            };
            let own = &self.target.qualifier;
            let keeps = |column: &Column| is_one && stays(value, column, own, self.catalog);
            let columns = names.iter().filter_map(|name| self.column(relation, name));
            let changed = columns.filter(|(_, column)| !keeps(column));
            found.extend(changed.map(|(index, _)| ColumnId {
                relation: relation.id,
                index,
            }));
        }
        found
    }
}

/// What hangs on rows of a target.
struct Child<'b, 'j> {
    job: &'b ChangeRewriter<'j>,
    looked: &'b mut ProbedRows,
    functions: &'b mut BTreeSet<String>,
    /// Relations from the target to the current one.
    path: Vec<RelationId>,
    count: usize,
}

impl Child<'_, '_> {
    /// Conditions: policy lets the session make this `change` to every row that references a row of `parent`, which is called `name`.
    fn conditions(
        &mut self,
        parent: &Relation,
        name: &Ident,
        change: Change,
        updated: &[ColumnId],
    ) -> Result<Vec<Expr>, Rejection> {
        let catalog = self.job.catalog;
        let mut conditions = Vec::new();
        for link in links(parent, change, updated, catalog) {
            if !self.reaches_filtered_rows(link.child, link.change, &link.own) {
                continue;
            }
            self.count += 1;
            if self.path.contains(&link.child.id) {
                return Err(unreachable_change(
                    link.change,
                    "the foreign keys form a circle, which no precheck can follow",
                ));
            }
            if self.count > MOST {
                return Err(unreachable_change(
                    link.change,
                    "there are too many foreign keys for a precheck to follow",
                ));
            }
            self.looked.changes.insert((link.child.id, link.change));
            conditions.push(self.no_filtered_child(parent, name, &link, updated)?);
        }
        Ok(conditions)
    }

    /// The condition that policy hides no row of `link` that references a row of `parent`, and lets each be changed.
    fn no_filtered_child(
        &mut self,
        parent: &Relation,
        name: &Ident,
        link: &Link<'_>,
        updated: &[ColumnId],
    ) -> Result<Expr, Rejection> {
        let Link {
            child,
            change,
            action: _,
            own,
            referenced,
        } = link;
        let dialect = self.job.catalog.dialect();
        let alias = self.alias();
        let unknown = || {
            unreachable_change(
                *change,
                "the catalog does not know the columns of a foreign key",
            )
        };
        if own.is_empty() || own.len() != referenced.len() {
            return Err(unknown());
        }
        let referencing: Vec<u16> = own.iter().map(|id| id.index).collect();
        let keys = referenced.iter().map(|key| parent.position(key));
        let keys: Vec<u16> = keys.collect::<Option<_>>().ok_or_else(unknown)?;
        let catalog = self.job.catalog;
        if !catalog.finds_referencing(parent, &keys, child, &referencing) {
            return Err(unreachable_change(
                *change,
                "the columns of a foreign key have types or collations that it compares in a way of its own",
            ));
        }
        let mut conditions = Vec::with_capacity(own.len() + 1);
        for (id, index) in own.iter().zip(keys) {
            let theirs = parent.column(index).ok_or_else(unknown)?;
            let ours = child.column(id.index).ok_or_else(unknown)?;
            self.looked.columns_of(parent).insert(index);
            self.looked.columns_of(child).insert(id.index);
            // SQLite takes the collation of what stands first, as the key does.
            conditions.push(ast::binary(
                child_column(name, theirs, dialect),
                BinaryOperator::Eq,
                child_column(&alias, ours, dialect),
            ));
        }
        let mut admitted = self.child_conditions(parent, link, &alias, updated)?;
        self.path.push(child.id);
        let below = self.conditions(child, &alias, *change, own);
        self.path.pop();
        admitted.extend(below?);
        let admitted = ast::join_by(admitted, &BinaryOperator::And, true);
        conditions.push(ast::not_true(admitted));
        let table = aliased_table(child, &alias, dialect);
        let condition = ast::join_by(conditions, &BinaryOperator::And, true);
        Ok(Expr::Exists {
            subquery: Box::new(ast::select(
                vec![ast::select_one(dialect)],
                table,
                Some(condition),
            )),
            negated: true,
        })
    }

    /// What a row that is reached must be like for the session to change it so.
    fn child_conditions(
        &mut self,
        parent: &Relation,
        link: &Link<'_>,
        alias: &Ident,
        updated: &[ColumnId],
    ) -> Result<Vec<Expr>, Rejection> {
        let Link {
            child,
            change,
            action: _,
            own: _,
            referenced: _,
        } = link;
        let permit = self.job.permit;
        let undecided = || unreachable_change(*change, "rows that it reaches were not decided");
        let seen = &permit
            .relations()
            .get(&child.id)
            .ok_or_else(undecided)?
            .rows;
        let write = permit.writes().get(&child.id).ok_or_else(undecided)?;
        let left = match change {
            Change::Update => {
                let row = self.values_after_action(parent, link, updated);
                let left = self.job.check_on_old_row(&write.add, seen, &row, child);
                let left = left.and_then(|left| {
                    self.job.require_still_visible(seen, &row, child)?;
                    Ok(left)
                });
                left.map_err(|why| {
                    unreachable_change(
                        *change,
                        "what the key leaves in them decides whether policy admits them",
                    )
                    .with_operator_detail(why.message().to_owned())
                })?
            }
            Change::Insert | Change::Delete | Change::Truncate => RowFilter::Everything,
        };
        let mut conditions = Vec::new();
        for filter in [seen, &write.change, &left] {
            let mut condition = match filter {
                RowFilter::Everything => continue,
                RowFilter::Nothing => ast::boolean(false),
                RowFilter::Where(predicate) => {
                    let predicate = &without_parent(predicate, link, parent);
                    row_filter::columns(predicate, self.looked.columns_of(child));
                    row_filter::columns_referred_to(predicate, &mut self.looked.reads);
                    let catalog = self.job.catalog;
                    row_filter::expression(predicate, child, catalog, self.functions)?
                }
            };
            let _ = visit_tree_mut(&mut condition, &mut Qualifier { qualifier: alias });
            if !conditions.contains(&condition) {
                conditions.push(condition);
            }
        }
        Ok(conditions)
    }

    /// What is known of the columns of a row that an action of its foreign key leaves.
    fn values_after_action(
        &self,
        parent: &Relation,
        link: &Link<'_>,
        updated: &[ColumnId],
    ) -> BTreeMap<u16, StoredValue> {
        let Link {
            child,
            change: _,
            action,
            own,
            referenced,
        } = link;
        let dialect = self.job.catalog.dialect();
        let mut row = BTreeMap::new();
        for (id, key) in own.iter().zip(referenced) {
            let stored = match action {
                // PostgreSQL can be told to set some of them.
                ReferenceAction::SetNull if dialect != Dialect::Postgres || own.len() == 1 => {
                    StoredValue::Known(Constant::Null)
                }
                ReferenceAction::Cascade => {
                    let is_computed = |column: &Column| column.generated.is_some();
                    let stays = parent.position(key).is_some_and(|index| {
                        updated.iter().all(|id| id.index != index)
                            && !parent.column(index).is_some_and(is_computed)
                    });
                    // It is equal to what it references, which stays as it is.
                    if stays {
                        continue;
                    }
                    StoredValue::Unknown
                }
                ReferenceAction::SetNull
                | ReferenceAction::SetDefault
                | ReferenceAction::Refuse => StoredValue::Unknown,
            };
            row.insert(id.index, stored);
        }
        for (id, column) in child.column_ids() {
            if column.generated.is_some()
                && computed_from([id.index], child, dialect)
                    .iter()
                    .any(|from| row.contains_key(from))
            {
                row.insert(id.index, StoredValue::Unknown);
            }
        }
        row
    }

    /// Whether a `change` of rows of `relation`, of the columns `updated`, is or sets off one of rows that policy hides or protects.
    fn reaches_filtered_rows(
        &self,
        relation: &Relation,
        change: Change,
        updated: &[ColumnId],
    ) -> bool {
        let filtered = self.job.permit.filtered_cascades();
        let mut done = BTreeSet::new();
        cascade_reaches(
            (relation, change, updated),
            self.job.catalog,
            filtered,
            &mut done,
        )
    }

    /// A name that the target does not have, nor any relation of the path.
    fn alias(&self) -> Ident {
        let dialect = self.job.catalog.dialect();
        let mut name = format!("reached_{}", self.path.len());
        while *key(&self.job.target.qualifier, dialect) == *name {
            name.push('_');
        }
        encode(&name, dialect)
    }
}

/// The columns of `relation` that are read to look for what hangs on a row of it, where rows of `filtered` may.
pub(crate) fn keys_read(
    relation: &Relation,
    filtered: &BTreeSet<(RelationId, Change)>,
    catalog: &Catalog,
) -> BTreeSet<u16> {
    let every: Vec<ColumnId> = relation.column_ids().map(|(id, _)| id).collect();
    let mut found = BTreeSet::new();
    for (change, updated) in [(Change::Delete, &[][..]), (Change::Update, &every)] {
        for link in links(relation, change, updated, catalog) {
            let next = (link.child, link.change, link.own.as_slice());
            if cascade_reaches(next, catalog, filtered, &mut BTreeSet::new()) {
                let keys = link.referenced.iter();
                found.extend(keys.filter_map(|key| relation.position(key)));
            }
        }
    }
    found
}

fn cascade_reaches(
    (relation, change, updated): (&Relation, Change, &[ColumnId]),
    catalog: &Catalog,
    filtered: &BTreeSet<(RelationId, Change)>,
    done: &mut BTreeSet<(RelationId, Change, Vec<ColumnId>)>,
) -> bool {
    if filtered.contains(&(relation.id, change)) {
        return true;
    }
    if !done.insert((relation.id, change, updated.to_vec())) {
        return false;
    }
    links(relation, change, updated, catalog)
        .iter()
        .any(|link| {
            let next = (link.child, link.change, link.own.as_slice());
            cascade_reaches(next, catalog, filtered, done)
        })
}

/// `name.column`.
fn child_column(name: &Ident, column: &Column, dialect: Dialect) -> Expr {
    Expr::CompoundIdentifier(vec![name.clone(), encode(&column.name, dialect)])
}

/// `predicate` of rows that refer by `link` to a row of `parent`: that row is seen, since nothing else is reached.
///
/// It is not looked up: MySQL does not let a statement read the table that it changes.
fn without_parent(predicate: &Predicate, link: &Link<'_>, parent: &Relation) -> Predicate {
    let all = |parts: &[Predicate]| {
        let parts = parts.iter().map(|part| without_parent(part, link, parent));
        parts.collect()
    };
    let one = |part: &Predicate| Box::new(without_parent(part, link, parent));
    let is_link = |column: u16, referred: &ReferredRows| {
        let own = matches!(link.own.as_slice(), [own] if own.index == column);
        own && referred.table == parent.id
    };
    match predicate {
        Predicate::RefersToSeen(Operand::Column(column), referred)
            if is_link(*column, referred) =>
        {
            Predicate::Constant(true)
        }
        Predicate::And(parts) => Predicate::And(all(parts)),
        Predicate::Or(parts) => Predicate::Or(all(parts)),
        Predicate::Not(inner) => Predicate::Not(one(inner)),
        Predicate::If(condition, then, otherwise) => {
            Predicate::If(one(condition), one(then), one(otherwise))
        }
        Predicate::RefersToSeen(_, _)
        | Predicate::Constant(_)
        | Predicate::Column(_)
        | Predicate::Has(_)
        | Predicate::Compare(_, _, _)
        | Predicate::In(_, _)
        | Predicate::Like(_, _) => predicate.clone(),
    }
}

fn aliased_table(relation: &Relation, name: &Ident, dialect: Dialect) -> TableFactor {
    let parts = [relation.schema.as_str(), relation.name.as_str()];
    ast::table_as(dialect, &parts, Some(name.clone()))
}

/// The refusal of a change that sets off `change`.
pub(in crate::rewrite) fn unreachable_change(change: Change, why: &str) -> Rejection {
    Rejection::new(
        Code::ObligationInapplicable,
        format!(
            "by a foreign key, the {} would reach rows that row policies protect: {why}",
            change.name()
        ),
    )
}
