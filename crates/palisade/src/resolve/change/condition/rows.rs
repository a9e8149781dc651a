//! Which rows the names of a condition are of.

use std::{
    collections::{BTreeSet, HashMap},
    ops::ControlFlow,
};

use sqlparser::ast::{
    Expr, Function, GroupByExpr, Ident, Join, JoinConstraint, JoinOperator, ObjectName,
    ObjectNamePart, Query, Select, SelectItem, TableAlias, TableFactor, TableWithJoins,
};

use crate::{
    catalog::{ColumnId, Relation},
    dialect::Dialect,
    policy::obligation::ColumnLevel,
    resolve::{Resolver, from::reference_index},
    syntax::{Role, each_expr, each_expr_mut, role},
};

/// A column that a name means.
#[derive(Debug, Clone)]
pub(super) struct RowColumn {
    pub(super) source: usize,
    pub(super) key: String,
    /// The catalog's, where its table stands there by itself.
    pub(super) id: Option<ColumnId>,
    pub(super) nullable: bool,
}

/// A table in FROM.
struct RowSource<'a> {
    id: usize,
    qualifier: Option<String>,
    /// What stands there by itself, with its index among the references.
    relation: Option<(&'a Relation, usize)>,
}

/// The rows that conditions of one change can look at, and which of them go with the target's.
pub(in crate::resolve) struct TargetRows<'r, 'a> {
    resolver: &'r Resolver<'a>,
    /// Columns of the statement's own tables that subqueries name.
    reached: &'r [ColumnId],
    /// Sources of the statement, then those of each subquery around the place.
    frames: Vec<Vec<RowSource<'a>>>,
    next: usize,
    /// Sources whose rows hang on the target's: itself, and what is joined to it.
    linked: BTreeSet<usize>,
    target: Option<usize>,
    /// The first source of each FROM that was entered, by where it stands.
    entered: HashMap<usize, usize>,
    /// What was found of parts of the condition, by where they stand.
    known: HashMap<Asked, bool>,
}

/// An expression by its place, whether it has to hold, and how many sources were linked.
pub(super) type Asked = (usize, bool, usize);

/// What an outer join adds to the target: rows that go with its own, if the condition says so.
struct Outer<'e> {
    sources: Vec<usize>,
    constraint: &'e JoinConstraint,
}

/// What joins demand of the target's rows.
#[derive(Default)]
struct Demands<'e> {
    /// What holds for every row that is changed.
    conditions: Vec<&'e Expr>,
    /// Columns that joins merge: of which sources.
    merged: Vec<(&'e ObjectName, Vec<usize>)>,
    outer: Vec<Outer<'e>>,
}

impl<'r, 'a> TargetRows<'r, 'a> {
    fn new(resolver: &'r Resolver<'a>, reached: &'r [ColumnId]) -> Self {
        Self {
            resolver,
            reached,
            frames: Vec::new(),
            next: 0,
            linked: BTreeSet::new(),
            target: None,
            entered: HashMap::new(),
            known: HashMap::new(),
        }
    }

    /// Whether rows are changed, and not only read.
    pub(super) fn is_change(&self) -> bool {
        self.target.is_some()
    }

    pub(super) fn linked_count(&self) -> usize {
        self.linked.len()
    }

    /// What is asked of `expr`: the statement is borrowed, so that each part has one place.
    pub(super) fn ask(&self, expr: &Expr, holds: bool) -> Asked {
        let place = std::ptr::from_ref(expr).addr();
        (place, holds, self.linked.len())
    }

    pub(super) fn recall(&self, asked: Asked) -> Option<bool> {
        self.known.get(&asked).copied()
    }

    pub(super) fn note(&mut self, asked: Asked, says: bool) {
        self.known.insert(asked, says);
    }

    pub(super) fn is_linked(&self, source: usize) -> bool {
        self.linked.contains(&source)
    }

    pub(super) fn link(&mut self, source: usize) {
        self.linked.insert(source);
    }

    /// Puts the tables of a FROM into sight; what [`leave`](Self::leave) takes.
    pub(super) fn enter(&mut self, from: &[TableWithJoins]) -> usize {
        let depth = self.frames.len();
        self.frames.push(Vec::new());
        // The same tables whenever they are looked at, or what links them would seem new for ever.
        let before = self.next;
        self.next = *self.entered.entry(from.as_ptr().addr()).or_insert(before);
        for table in from {
            self.add_joined(table);
        }
        self.next = self.next.max(before);
        depth
    }

    pub(super) fn leave(&mut self, depth: usize) {
        self.frames.truncate(depth);
    }

    fn add_joined(&mut self, table: &TableWithJoins) {
        self.add(&table.relation);
        for join in &table.joins {
            self.add(&join.relation);
        }
    }

    fn add(&mut self, factor: &TableFactor) {
        if let TableFactor::NestedJoin {
            table_with_joins,
            alias: None,
        } = factor
        {
            self.add_joined(table_with_joins);
            return;
        }
        let (name, alias) = name_and_alias(factor).unwrap_or_default();
        let index = name.and_then(reference_index);
        let reference = index.and_then(|index| self.resolver.references.get(index));
        let relation = reference.and_then(|r| self.resolver.catalog.relation(r.relation));
        let is_renamed = alias.is_some_and(|alias| !alias.columns.is_empty());
        let qualifier = match (alias, name) {
            (Some(alias), _) => Some(&alias.name),
            (None, Some(name)) => name.0.last().and_then(ObjectNamePart::as_ident),
            (None, None) => None,
        };
        let source = RowSource {
            id: self.next,
            qualifier: qualifier.map(|name| self.resolver.table_key(name).into_owned()),
            relation: relation.zip(index).filter(|_| !is_renamed),
        };
        self.next += 1;
        if let Some(frame) = self.frames.last_mut() {
            frame.push(source);
        }
    }

    fn source_of_reference(&self, reference: Option<usize>) -> Option<usize> {
        let wanted = reference?;
        let mut sources = self.frames.iter().flatten();
        let is_it =
            |source: &&RowSource<'_>| source.relation.is_some_and(|(_, index)| index == wanted);
        sources.find(is_it).map(|source| source.id)
    }

    /// What a name means; none where it is no column.
    pub(super) fn column(&self, expr: &Expr) -> Option<RowColumn> {
        match expr {
            Expr::Nested(inner) => self.column(inner),
            Expr::Identifier(name) => self.unqualified_column(&self.resolver.key(name)),
            Expr::CompoundIdentifier(parts) => {
                let [.., qualifier, name] = parts.as_slice() else {
                    return None;
                };
                self.qualified_column(qualifier, &self.resolver.key(name))
            }
            _ => None,
        }
    }

    fn qualified_column(&self, qualifier: &Ident, key: &str) -> Option<RowColumn> {
        let qualifier = self.resolver.table_key(qualifier);
        let mut frames = self.frames.iter().rev();
        frames.find_map(|frame| {
            let is_it = |source: &&RowSource<'_>| source.qualifier.as_deref() == Some(&*qualifier);
            frame
                .iter()
                .find(is_it)
                .map(|source| self.name_column(source, key))
        })
    }

    fn unqualified_column(&self, key: &str) -> Option<RowColumn> {
        for (depth, frame) in self.frames.iter().enumerate().rev() {
            let mut own: Vec<RowColumn> = frame
                .iter()
                .filter(|source| self.position(source, key).is_some())
                .map(|source| self.name_column(source, key))
                .collect();
            // Columns that a join has made one.
            own.sort_by_key(|named| !self.is_linked(named.source));
            if let Some(named) = own.into_iter().next() {
                return Some(named);
            }
            let mut unknown = frame.iter().filter(|source| source.relation.is_none());
            if let Some(source) = unknown.next() {
                match (depth > 0).then(|| self.reached_column(key)).flatten() {
                    Some(named) => return Some(named),
                    None => return Some(self.name_column(source, key)),
                }
            }
        }
        // Row ids, system columns and whole rows.
        let is_special = match self.resolver.catalog.dialect() {
            Dialect::Sqlite => matches!(key, "rowid" | "oid" | "_rowid_"),
            Dialect::Postgres => matches!(key, "ctid" | "xmin" | "xmax" | "cmin" | "cmax"),
            Dialect::Mysql => false,
        };
        let mut sources = self.frames.iter().rev().flatten();
        let found = sources.find(|source| {
            (is_special && source.relation.is_some()) || source.qualifier.as_deref() == Some(key)
        });
        found.map(|source| self.name_column(source, key))
    }

    /// A column of the target that a subquery is known to name.
    fn reached_column(&self, key: &str) -> Option<RowColumn> {
        let mut sources = self.frames.first()?.iter();
        let source = sources.find(|source| Some(source.id) == self.target)?;
        let named = self.name_column(source, key);
        named.id.filter(|id| self.reached.contains(id))?;
        Some(named)
    }

    /// Where the column is in a table, if the session sees it.
    fn position(&self, source: &RowSource<'a>, key: &str) -> Option<u16> {
        let (relation, reference) = source.relation?;
        let index = relation.position(key)?;
        let decision = &self.resolver.references.get(reference)?.decision;
        let level = &decision.columns.get(usize::from(index))?.level;
        (*level != ColumnLevel::Hidden).then_some(index)
    }

    fn name_column(&self, source: &RowSource<'a>, key: &str) -> RowColumn {
        let index = self.position(source, key);
        let relation = source.relation.map(|(relation, _)| relation);
        let id = relation.zip(index).map(|(relation, index)| ColumnId {
            relation: relation.id,
            index,
        });
        let column = relation.zip(index).and_then(|(r, index)| r.column(index));
        let is_row_id = relation.is_some_and(|r| index.is_some() && r.rowid_alias == index);
        RowColumn {
            source: source.id,
            key: key.to_owned(),
            id,
            // What a join adds may be missing.
            nullable: Some(source.id) != self.target
                || (column.is_none_or(|column| column.nullable) && !is_row_id),
        }
    }

    /// How an expression is spelled where each column has one name.
    pub(super) fn spell(&self, expr: &Expr) -> String {
        let mut expr = expr.clone();
        while let Expr::Nested(inner) = expr {
            expr = *inner;
        }
        let _ = each_expr_mut(&mut expr, &mut |part| {
            if matches!(part, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
                && let Some(named) = self.column(part)
            {
                *part = Expr::CompoundIdentifier(vec![
                    Ident::new(named.source.to_string()),
                    Ident::with_quote('"', named.key),
                ]);
            }
            ControlFlow::Continue(())
        });
        expr.to_string()
    }

    /// Whether the target's row is named in it anywhere.
    pub(super) fn names_target(&self, expr: &Expr) -> bool {
        let found = each_expr(expr, &mut |part| {
            let named = match role(part) {
                Role::Name(_) | Role::Path(_) => self.column(part),
                Role::WholeRow(ObjectName(parts)) => parts
                    .first()
                    .and_then(ObjectNamePart::as_ident)
                    .and_then(|name| self.qualified_column(name, "*")),
                Role::Columns(columns) => columns.first().and_then(|ObjectName(parts)| match parts
                    .as_slice()
                {
                    [ObjectNamePart::Identifier(name)] => {
                        self.unqualified_column(&self.resolver.key(name))
                    }
                    [
                        ObjectNamePart::Identifier(qualifier),
                        ObjectNamePart::Identifier(name),
                    ] => self.qualified_column(qualifier, &self.resolver.key(name)),
                    _ => None,
                }),
                Role::Star
                | Role::Value(_)
                | Role::Access
                | Role::Call(_)
                | Role::Operator(_)
                | Role::Collation
                | Role::Other => None,
            };
            match named {
                Some(named) if self.is_linked(named.source) => ControlFlow::Break(()),
                Some(_) | None => ControlFlow::Continue(()),
            }
        });
        found.is_break()
    }

    /// The name of a call, folded.
    pub(super) fn name_of(&self, function: &Function) -> String {
        let name = function.name.0.last().and_then(ObjectNamePart::as_ident);
        name.map_or_else(String::new, |name| name.value.to_lowercase())
    }

    pub(super) fn is_aggregate(&self, item: &SelectItem) -> bool {
        match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, alias: _ } => {
                self.has_aggregate(expr)
            }
            SelectItem::ExprWithAliases {
                expr: _,
                aliases: _,
            }
            | SelectItem::QualifiedWildcard(_, _)
            | SelectItem::Wildcard(_) => false,
        }
    }

    pub(super) fn has_aggregate(&self, expr: &Expr) -> bool {
        let found = each_expr(expr, &mut |part| match role(part) {
            Role::Call(function) if function.over.is_none() => {
                let name = self.name_of(function);
                let mut named = self.resolver.catalog.functions_named(&name);
                if named.any(|def| def.kinds.aggregate) {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            }
            Role::Call(_)
            | Role::Name(_)
            | Role::Path(_)
            | Role::WholeRow(_)
            | Role::Star
            | Role::Columns(_)
            | Role::Value(_)
            | Role::Access
            | Role::Operator(_)
            | Role::Collation
            | Role::Other => ControlFlow::Continue(()),
        });
        found.is_break()
    }

    /// Notes what the joins of a table demand of the rows that are changed; the sources in it.
    fn demands<'e>(
        &self,
        table: &'e TableWithJoins,
        at: &mut usize,
        out: &mut Demands<'e>,
    ) -> Vec<usize> {
        let mut left = self.factor_demands(&table.relation, at, out);
        for Join {
            relation,
            global: _,
            join_operator,
        } in &table.joins
        {
            let mut inside = Demands::default();
            let right = self.factor_demands(relation, at, &mut inside);
            let is_target = |sources: &[usize]| self.target.is_some_and(|t| sources.contains(&t));
            let all = || left.iter().chain(&right).copied().collect::<Vec<usize>>();
            match join_operator {
                JoinOperator::Join(on)
                | JoinOperator::Inner(on)
                | JoinOperator::StraightJoin(on)
                | JoinOperator::CrossJoin(on) => {
                    out.append(inside);
                    out.demand(on, all());
                }
                JoinOperator::Left(on) | JoinOperator::LeftOuter(on) => {
                    if is_target(&right) {
                        out.append(inside);
                        out.demand(on, all());
                    } else {
                        out.outer.push(Outer {
                            sources: right.clone(),
                            constraint: on,
                        });
                    }
                }
                JoinOperator::Right(on) | JoinOperator::RightOuter(on) => {
                    if is_target(&left) {
                        out.append(inside);
                        out.demand(on, all());
                    } else {
                        *out = inside;
                        out.outer.push(Outer {
                            sources: left.clone(),
                            constraint: on,
                        });
                    }
                }
                JoinOperator::FullOuter(_)
                | JoinOperator::Semi(_)
                | JoinOperator::LeftSemi(_)
                | JoinOperator::RightSemi(_)
                | JoinOperator::Anti(_)
                | JoinOperator::LeftAnti(_)
                | JoinOperator::RightAnti(_)
                | JoinOperator::CrossApply
                | JoinOperator::OuterApply
                | JoinOperator::AsOf {
                    match_condition: _,
                    constraint: _,
                }
                | JoinOperator::ArrayJoin
                | JoinOperator::LeftArrayJoin
                | JoinOperator::InnerArrayJoin => *out = Demands::default(),
            }
            left.extend(right);
        }
        left
    }

    fn factor_demands<'e>(
        &self,
        factor: &'e TableFactor,
        at: &mut usize,
        out: &mut Demands<'e>,
    ) -> Vec<usize> {
        if let TableFactor::NestedJoin {
            table_with_joins,
            alias: None,
        } = factor
        {
            return self.demands(table_with_joins, at, out);
        }
        *at += 1;
        vec![*at - 1]
    }

    /// Whether columns that a join merges compare the target with something else.
    fn merges(&mut self, name: &ObjectName, sources: &[usize]) -> bool {
        let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else {
            return false;
        };
        let key = self.resolver.key(name);
        let named: Vec<RowColumn> = self
            .frames
            .iter()
            .flatten()
            .filter(|source| sources.contains(&source.id))
            .filter(|source| source.relation.is_none() || self.position(source, &key).is_some())
            .map(|source| self.name_column(source, &key))
            .collect();
        let (own, others): (Vec<_>, Vec<_>) = named
            .into_iter()
            .partition(|named| self.is_linked(named.source));
        let Some(own) = own.into_iter().next() else {
            return false;
        };
        let mut says = false;
        for other in others {
            if other.id.is_some() && other.id == own.id {
                self.link(other.source);
            } else {
                says = true;
            }
        }
        says
    }
}

impl<'e> Demands<'e> {
    fn append(&mut self, inside: Self) {
        let Self {
            conditions,
            merged,
            outer,
        } = inside;
        self.conditions.extend(conditions);
        self.merged.extend(merged);
        self.outer.extend(outer);
    }

    fn demand(&mut self, constraint: &'e JoinConstraint, sources: Vec<usize>) {
        match constraint {
            JoinConstraint::On(condition) => self.conditions.push(condition),
            JoinConstraint::Using(columns) => {
                let columns = columns.iter();
                self.merged
                    .extend(columns.map(|name| (name, sources.clone())));
            }
            // It may find no column that both have.
            JoinConstraint::Natural | JoinConstraint::None => {}
        }
    }
}

impl Resolver<'_> {
    /// Whether a change of what has the reference `target` has a condition on its rows: in `selection`, whose subqueries name
    /// `reached`, or in what joins of `tables` demand, between which commas stand.
    pub(in crate::resolve) fn is_conditioned(
        &self,
        target: Option<usize>,
        tables: &[&TableWithJoins],
        selection: &[&Expr],
        reached: &[ColumnId],
    ) -> bool {
        // What is our own output was looked at before.
        if self.mode.is_output() {
            return true;
        }
        let mut rows = TargetRows::new(self, reached);
        rows.frames.push(Vec::new());
        for table in tables {
            rows.add_joined(table);
        }
        rows.target = rows.source_of_reference(target);
        let Some(target) = rows.target else {
            return false;
        };
        rows.link(target);
        let mut demands = Demands::default();
        let mut at = 0;
        for table in tables {
            let mut own = Demands::default();
            rows.demands(table, &mut at, &mut own);
            demands.append(own);
        }
        let Demands {
            mut conditions,
            merged,
            outer,
        } = demands;
        conditions.extend(selection);
        // What it says would be another's than the engine's.
        conditions.retain(|condition| self.groups_as_parsed(condition));
        loop {
            let linked = rows.linked_count();
            if rows.any_narrows(&conditions) {
                return true;
            }
            for (name, sources) in &merged {
                if rows.merges(name, sources) {
                    return true;
                }
            }
            for Outer {
                sources,
                constraint,
            } in &outer
            {
                if sources.iter().all(|source| rows.is_linked(*source)) {
                    continue;
                }
                let is_tied = match constraint {
                    JoinConstraint::On(on) => self.groups_as_parsed(on) && rows.any_narrows(&[on]),
                    JoinConstraint::Using(columns) => {
                        let all: Vec<usize> = (0..rows.next).collect();
                        columns.iter().any(|name| rows.merges(name, &all))
                    }
                    JoinConstraint::Natural | JoinConstraint::None => false,
                };
                if is_tied {
                    rows.linked.extend(sources);
                }
            }
            if rows.linked_count() == linked {
                return false;
            }
        }
    }

    /// Whether a query has a condition on the rows of its own tables.
    pub(in crate::resolve) fn selects(&self, select: &Select) -> bool {
        let Some(condition) = &select.selection else {
            return false;
        };
        if !self.groups_as_parsed(condition) {
            return false;
        }
        let mut rows = TargetRows::new(self, &[]);
        rows.enter(&select.from);
        rows.linked.extend(0..rows.next);
        rows.any_narrows(&[condition])
    }
}

/// The conditions of inner joins, and the queries that stand as tables.
pub(super) fn inner_conditions<'e>(
    from: &'e [TableWithJoins],
    out: &mut Vec<&'e Expr>,
    derived: &mut Vec<&'e Query>,
) {
    for TableWithJoins { relation, joins } in from {
        factor_conditions(relation, out, derived);
        for Join {
            relation,
            global: _,
            join_operator,
        } in joins
        {
            // Others leave out nothing, or what is not known.
            if let JoinOperator::Join(on)
            | JoinOperator::Inner(on)
            | JoinOperator::StraightJoin(on)
            | JoinOperator::CrossJoin(on) = join_operator
            {
                factor_conditions(relation, out, derived);
                if let JoinConstraint::On(condition) = on {
                    out.push(condition);
                }
            }
        }
    }
}

fn factor_conditions<'e>(
    factor: &'e TableFactor,
    out: &mut Vec<&'e Expr>,
    derived: &mut Vec<&'e Query>,
) {
    if let TableFactor::NestedJoin {
        table_with_joins,
        alias: _,
    } = factor
    {
        inner_conditions(std::slice::from_ref(table_with_joins), out, derived);
    }
    if let TableFactor::Derived {
        lateral: _,
        subquery,
        alias: _,
        sample: _,
    } = factor
    {
        derived.push(subquery);
    }
}

pub(super) fn is_grouped(select: &Select) -> bool {
    match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(all, _) => !all.is_empty(),
    }
}

fn name_and_alias(factor: &TableFactor) -> Option<(Option<&ObjectName>, Option<&TableAlias>)> {
    match factor {
        TableFactor::Table {
            name,
            alias,
            args,
            with_hints: _,
            version: _,
            with_ordinality: _,
            partitions: _,
            json_path: _,
            sample: _,
            index_hints: _,
        } => Some((args.is_none().then_some(name), alias.as_ref())),
        TableFactor::Derived {
            lateral: _,
            subquery: _,
            alias,
            sample: _,
        }
        | TableFactor::Function {
            lateral: _,
            name: _,
            args: _,
            with_ordinality: _,
            alias,
        }
        | TableFactor::UNNEST {
            alias,
            array_exprs: _,
            with_offset: _,
            with_offset_alias: _,
            with_ordinality: _,
        }
        | TableFactor::JsonTable {
            json_expr: _,
            json_path: _,
            columns: _,
            alias,
        }
        | TableFactor::XmlTable {
            namespaces: _,
            row_expression: _,
            passing: _,
            columns: _,
            alias,
        }
        | TableFactor::NestedJoin {
            table_with_joins: _,
            alias,
        } => Some((None, alias.as_ref())),
        _ => None,
    }
}
