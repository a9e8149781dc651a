//! Rows that the engine changes by itself, where policy keeps rows of their relation apart: the actions of foreign keys.
//!
//! Nothing can stand between the engine and the rows that a foreign key's action reaches. So a row may be changed only
//! if nothing hangs on it that may not be: of the rows that reference it, and of those that reference these, each must be one that
//! the session sees and may change, and be admitted as the action leaves it. That is a condition of the change's own rows, and a
//! row of which it does not hold is looked for first, since it refuses the change as it would where the key had no action.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
};

use sqlparser::ast::{
    Assignment, AssignmentTarget, BinaryOperator, Expr, Ident, TableFactor, VisitMut, VisitorMut,
};

use crate::rewrite::{
    ast,
    change::{
        Job, Reads,
        new_row::{converted::Held, fold::Constant},
        precheck::{Doubt, Found, one, refused},
    },
    source::row_filter,
};
use crate::{
    catalog::{
        Catalog, Change, Column, ColumnId, ReferenceAction, Relation, RelationId, computed_from,
    },
    code::Code,
    dialect::Dialect,
    policy::obligation::RowFilter,
    rejection::Rejection,
    resolve::{Link, WriteGuard, links, stays},
    syntax::{encode, key},
};

/// Foreign keys that are looked through for one change.
const MOST: usize = 40;

/// What is looked for of what a change reaches by foreign keys.
#[derive(Debug, Default)]
pub(in crate::rewrite) struct Looked {
    /// The columns that are read for it.
    pub(in crate::rewrite) reads: BTreeMap<RelationId, Reads>,
    /// The changes that it is about.
    pub(in crate::rewrite) changes: BTreeSet<(RelationId, Change)>,
}

impl Looked {
    fn reads(&mut self, relation: &Relation) -> &mut Reads {
        self.reads.entry(relation.id).or_default()
    }
}

impl Job<'_> {
    /// That nothing hangs on a row of the target that its change would reach and that policy keeps apart; none where the change
    /// reaches no relation of which it does.
    ///
    /// # Errors
    /// `obligation.inapplicable` where that cannot be looked for.
    pub(in crate::rewrite) fn untouched(
        &self,
        relation: &Relation,
        change: Change,
        updated: &[ColumnId],
        looked: &mut Looked,
        functions: &mut BTreeSet<String>,
    ) -> Result<Option<Expr>, Rejection> {
        if self.permit.kept_apart().is_empty() {
            return Ok(None);
        }
        let mut below = Below {
            job: self,
            looked,
            functions,
            path: vec![relation.id],
            count: 0,
        };
        let own = &self.target.qualifier;
        let conditions = below.conditions(relation, own, change, updated)?;
        Ok((!conditions.is_empty()).then(|| ast::joined(conditions, &BinaryOperator::And, true)))
    }

    /// Puts that into the guard of a change, and gives what must be looked for before it.
    pub(in crate::rewrite) fn keep_untouched(
        &self,
        guard: &mut Option<WriteGuard>,
        untouched: Expr,
        relation: &Relation,
        reads: &Reads,
        looked: &Looked,
    ) -> Result<Doubt, Rejection> {
        let mut columns = reads.clone();
        columns.extend(looked.reads.get(&relation.id).into_iter().flatten());
        let within = guard.take();
        let own = within
            .iter()
            .map(|guard| ast::parens(guard.condition.clone()));
        let conditions = own.chain([untouched.clone()]).collect();
        *guard = Some(WriteGuard {
            condition: ast::joined(conditions, &BinaryOperator::And, true),
            placement: self.placement(relation, &columns)?,
        });
        Ok(Doubt::Target {
            within: within.map(Box::new),
            admitted: Box::new(untouched),
            found: Found::OutOfReach,
        })
    }

    /// Checks that an upsert reaches no such row by what it assigns.
    pub(in crate::rewrite) fn reaches_nothing(
        &self,
        assignments: &[Assignment],
        relation: &Relation,
        looked: &mut Looked,
        functions: &mut BTreeSet<String>,
    ) -> Result<(), Rejection> {
        let updated = self.assigned(assignments, relation);
        let change = Change::Update;
        match self.untouched(relation, change, &updated, looked, functions)? {
            None => Ok(()),
            Some(_) => Err(beyond(
                change,
                "send an UPDATE instead of an upsert that assigns the key",
            )),
        }
    }

    /// The columns of the target to which `assignments` may give another value: what is assigned to itself stays, and sets off nothing.
    pub(in crate::rewrite) fn assigned(
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
struct Below<'b, 'j> {
    job: &'b Job<'j>,
    looked: &'b mut Looked,
    functions: &'b mut BTreeSet<String>,
    /// Relations from the target to the one that is looked at.
    path: Vec<RelationId>,
    count: usize,
}

impl Below<'_, '_> {
    /// That none of the rows that reference one of `parent`, called `name`, is kept apart from a `change` of it.
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
            if !self.reaches(link.child, link.change, &link.own) {
                continue;
            }
            self.count += 1;
            if self.path.contains(&link.child.id) {
                return Err(beyond(
                    link.change,
                    "foreign keys lead in a circle, along which rows cannot be looked for",
                ));
            }
            if self.count > MOST {
                return Err(beyond(
                    link.change,
                    "too many foreign keys lead to rows for all of them to be looked for",
                ));
            }
            self.looked.changes.insert((link.child.id, link.change));
            conditions.push(self.none(parent, name, &link, updated)?);
        }
        Ok(conditions)
    }

    /// That no row of `link` that references one of `parent` is kept apart.
    fn none(
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
            beyond(
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
            return Err(beyond(
                *change,
                "the columns of a foreign key have types or collations that it compares in a way of its own",
            ));
        }
        let mut conditions = Vec::with_capacity(own.len() + 1);
        for (id, index) in own.iter().zip(keys) {
            let theirs = parent.column(index).ok_or_else(unknown)?;
            let ours = child.column(id.index).ok_or_else(unknown)?;
            self.looked.reads(parent).insert(index);
            self.looked.reads(child).insert(id.index);
            // SQLite takes the collation of what stands first, as the key does.
            conditions.push(ast::binary(
                of(name, theirs, dialect),
                BinaryOperator::Eq,
                of(&alias, ours, dialect),
            ));
        }
        let mut admitted = self.admitted(parent, link, &alias, updated)?;
        self.path.push(child.id);
        let below = self.conditions(child, &alias, *change, own);
        self.path.pop();
        admitted.extend(below?);
        let admitted = ast::joined(admitted, &BinaryOperator::And, true);
        conditions.push(refused(admitted));
        let table = called(child, &alias, dialect);
        let condition = ast::joined(conditions, &BinaryOperator::And, true);
        Ok(Expr::Exists {
            subquery: Box::new(ast::select(vec![one(dialect)], table, Some(condition))),
            negated: true,
        })
    }

    /// What a row that is reached must be like for the session to change it so.
    fn admitted(
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
        let undecided = || beyond(*change, "rows that it reaches were not decided");
        let seen = &permit
            .relations()
            .get(&child.id)
            .ok_or_else(undecided)?
            .rows;
        let write = permit.writes().get(&child.id).ok_or_else(undecided)?;
        let left = match change {
            Change::Update => {
                let row = self.left(parent, link, updated);
                let left = self.job.after(&write.add, seen, &row, child);
                let left = left.and_then(|left| {
                    self.job.stays_in_sight(seen, &row, child)?;
                    Ok(left)
                });
                left.map_err(|why| {
                    beyond(
                        *change,
                        "what the key leaves in them decides whether policy admits them",
                    )
                    .with_operator_detail(why.message().to_owned())
                })?
            }
            Change::Insert | Change::Delete | Change::Truncate => RowFilter::Everything,
        };
        let dialect = self.job.catalog.dialect();
        let mut conditions = Vec::new();
        for filter in [seen, &write.change, &left] {
            let mut condition = match filter {
                RowFilter::Everything => continue,
                RowFilter::Nothing => ast::boolean(false),
                RowFilter::Where(predicate) => {
                    row_filter::columns(predicate, self.looked.reads(child));
                    row_filter::expression(predicate, child, dialect, self.functions)?
                }
            };
            let _ = VisitMut::visit(&mut condition, &mut Qualifying { qualifier: alias });
            if !conditions.contains(&condition) {
                conditions.push(condition);
            }
        }
        Ok(conditions)
    }

    /// What is known of the columns of a row that an action of its foreign key leaves.
    fn left(
        &self,
        parent: &Relation,
        link: &Link<'_>,
        updated: &[ColumnId],
    ) -> BTreeMap<u16, Held> {
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
            let held = match action {
                // PostgreSQL can be told to set some of them.
                ReferenceAction::SetNull if dialect != Dialect::Postgres || own.len() == 1 => {
                    Held::Known(Constant::Null)
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
                    Held::Unknown
                }
                ReferenceAction::SetNull
                | ReferenceAction::SetDefault
                | ReferenceAction::Refuse => Held::Unknown,
            };
            row.insert(id.index, held);
        }
        for (id, column) in child.column_ids() {
            if column.generated.is_some()
                && computed_from([id.index], child, dialect)
                    .iter()
                    .any(|from| row.contains_key(from))
            {
                row.insert(id.index, Held::Unknown);
            }
        }
        row
    }

    /// Whether a `change` of rows of `relation`, of the columns `updated`, is or sets off one of rows that policy keeps apart.
    fn reaches(&self, relation: &Relation, change: Change, updated: &[ColumnId]) -> bool {
        let kept_apart = self.job.permit.kept_apart();
        let mut done = BTreeSet::new();
        reaches(
            (relation, change, updated),
            self.job.catalog,
            kept_apart,
            &mut done,
        )
    }

    /// A name that neither the target nor any relation on the way to the one that is looked at has.
    fn alias(&self) -> Ident {
        let dialect = self.job.catalog.dialect();
        let mut name = format!("reached_{}", self.path.len());
        while *key(&self.job.target.qualifier, dialect) == *name {
            name.push('_');
        }
        encode(&name, dialect)
    }
}

/// The columns of `relation` that are read to look for what hangs on a row of it, where rows of `kept_apart` may.
pub(crate) fn keys_read(
    relation: &Relation,
    kept_apart: &BTreeSet<(RelationId, Change)>,
    catalog: &Catalog,
) -> BTreeSet<u16> {
    let every: Vec<ColumnId> = relation.column_ids().map(|(id, _)| id).collect();
    let mut found = BTreeSet::new();
    for (change, updated) in [(Change::Delete, &[][..]), (Change::Update, &every)] {
        for link in links(relation, change, updated, catalog) {
            let next = (link.child, link.change, link.own.as_slice());
            if reaches(next, catalog, kept_apart, &mut BTreeSet::new()) {
                let keys = link.referenced.iter();
                found.extend(keys.filter_map(|key| relation.position(key)));
            }
        }
    }
    found
}

fn reaches(
    (relation, change, updated): (&Relation, Change, &[ColumnId]),
    catalog: &Catalog,
    kept_apart: &BTreeSet<(RelationId, Change)>,
    done: &mut BTreeSet<(RelationId, Change, Vec<ColumnId>)>,
) -> bool {
    if kept_apart.contains(&(relation.id, change)) {
        return true;
    }
    if !done.insert((relation.id, change, updated.to_vec())) {
        return false;
    }
    links(relation, change, updated, catalog)
        .iter()
        .any(|link| {
            let next = (link.child, link.change, link.own.as_slice());
            reaches(next, catalog, kept_apart, done)
        })
}

/// `name.column`.
fn of(name: &Ident, column: &Column, dialect: Dialect) -> Expr {
    Expr::CompoundIdentifier(vec![name.clone(), encode(&column.name, dialect)])
}

fn called(relation: &Relation, name: &Ident, dialect: Dialect) -> TableFactor {
    let mut table = ast::table(dialect, &[&relation.schema, &relation.name]);
    if let TableFactor::Table {
        name: _,
        alias,
        args: _,
        with_hints: _,
        version: _,
        with_ordinality: _,
        partitions: _,
        json_path: _,
        sample: _,
        index_hints: _,
    } = &mut table
    {
        *alias = Some(ast::alias(name.clone()));
    }
    table
}

struct Qualifying<'q> {
    qualifier: &'q Ident,
}

impl VisitorMut for Qualifying<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Identifier(name) = expr {
            *expr = Expr::CompoundIdentifier(vec![self.qualifier.clone(), name.clone()]);
        }
        ControlFlow::Continue(())
    }
}

/// The refusal of a change that sets off `change`.
pub(in crate::rewrite) fn beyond(change: Change, why: &str) -> Rejection {
    Rejection::new(
        Code::ObligationInapplicable,
        format!(
            "by a foreign key, the statement's {} would reach rows that policy keeps apart: {why}",
            change.name()
        ),
    )
}
