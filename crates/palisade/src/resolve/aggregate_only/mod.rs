//! Columns that COUNT, SUM and AVG alone may see, over groups that are large enough.
//!
//! Such a column is NULL like one behind any mask. Where an aggregate of the permitted form is computed from it, its values stand
//! in the relation's place, and the aggregate becomes `CASE WHEN count(c) >= 5 THEN avg(c) END`. Whatever else the statement does
//! with the column is then refused, so that nothing but guarded aggregates sees the values. An aggregate of a small group is
//! computed all the same, and so it is written in a form that cannot fail ([`unfailing`]).
//!
//! Which uses there are is not searched for: each name that is resolved is counted as another use, but for the two that are known
//! to be none. These are the argument of a guarded aggregate, and an item of a derived table that gives the column as it is.

mod unfailing;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
};

use sqlparser::ast::{
    BinaryOperator, CaseWhen, DataType, DuplicateTreatment, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName, ObjectNamePart,
    Query, UnaryOperator, Value, Visit, helpers::attached_token::AttachedToken,
};

use self::unfailing::{Kind, SumForm};
use crate::resolve::{
    Resolver,
    expr::{
        ExprContext,
        user_cast::{MAX_DOMAINS, is_called},
    },
    scope::{Columns, Found, Origin, Scope},
};
use crate::{
    access::{ColumnUses, Usage},
    catalog::{ColumnId, RelationKind, TypeKind, functions::Safety},
    code::Code,
    dialect::Dialect,
    policy::obligation::ColumnLevel,
    rejection::Rejection,
    syntax::{
        Role, TreeVisitor, each_expr_mut, read_plain_arguments, read_plain_call, role, visit_tree,
    },
};

/// What a statement does with columns that aggregates alone may see.
#[derive(Debug, Default)]
pub(in crate::resolve) struct AggregateOnlyUses {
    /// Whether any relation of a principal's statement so far has such columns. Where none has, nothing pays for them, and below
    /// what a principal sees they are columns like others.
    pub(in crate::resolve) is_present: bool,
    /// Whether what is read is the argument of a guarded aggregate, or is passed on.
    is_exempt: bool,
    /// The columns that guarded aggregates are computed from.
    opened: BTreeSet<ColumnId>,
    /// Every other use of any column.
    others: ColumnUses,
    /// Of columns that other aggregates are computed from: why the first of these may not see them.
    misuses: BTreeMap<ColumnId, String>,
}

impl AggregateOnlyUses {
    /// Counts a use of `column`, unless it is one of the two that are permitted.
    pub(in crate::resolve) fn note(&mut self, column: ColumnId, usage: Usage) {
        if self.is_present && !self.is_exempt {
            self.others.insert(column, usage);
        }
    }
}

/// An aggregate that may see a column.
struct GuardedAggregate {
    column: ColumnId,
    smallest: u32,
    /// The call that counts the values which the aggregate puts together.
    count: Function,
    /// The aggregate in a form that cannot fail.
    aggregate: Expr,
}

/// A column of one of a query's own sources.
struct OwnColumn<'s, 'a> {
    id: ColumnId,
    /// Whether one row of its table may be several rows of the query.
    repeats: bool,
    /// The source, where that is the table itself.
    table: Option<(&'s str, &'s Columns<'a>)>,
}

/// The column that an aggregate is computed from, and of which rows.
struct AggregatedValue<'e> {
    column: &'e Expr,
    /// Of `CASE WHEN condition THEN column END`, the outermost first.
    conditions: Vec<Expr>,
    /// What the column is cast to.
    cast: Option<&'e DataType>,
}

impl<'a> Resolver<'a> {
    /// An aggregate over a column that only aggregates may see, resolved, with what stands in its place; none of any other call.
    ///
    /// # Errors
    /// Those of the call.
    pub(in crate::resolve) fn guard_aggregate(
        &mut self,
        function: &Function,
        at: &ExprContext<'a, '_, '_>,
        out: &mut Vec<ColumnId>,
    ) -> Result<Option<Expr>, Rejection> {
        let uses = &self.aggregate_only;
        if !uses.is_present || uses.is_exempt {
            return Ok(None);
        }
        let mut function = function.clone();
        search_cases(&mut function);
        let Some(guarded) = self.guarded_aggregate(&function, at.scope) else {
            self.note_misuse(&function, at.scope);
            return Ok(None);
        };
        let GuardedAggregate {
            column,
            smallest,
            count,
            aggregate,
        } = guarded;
        let condition = Expr::BinaryOp {
            left: Box::new(Expr::Function(count)),
            op: BinaryOperator::GtEq,
            right: Box::new(Expr::Value(
                Value::Number(smallest.to_string(), false).into(),
            )),
        };
        let mut guarded = choose(condition, aggregate);
        let mut columns = Vec::new();
        self.exempt(|resolver| resolver.walk(&mut guarded, at, &mut columns))?;
        // What comes of it is no value of the column any more.
        out.extend(columns.into_iter().filter(|used| *used != column));
        self.aggregate_only.opened.insert(column);
        Ok(Some(guarded))
    }

    /// Notes why an aggregate may not see the columns that it is computed from. Whatever else uses what it gives is no cause.
    fn note_misuse(&mut self, function: &Function, scope: &Scope<'a, '_>) {
        let Some(why) = self.describe_misuse(function) else {
            return;
        };
        let mut named = NamedColumns {
            resolver: self,
            scope,
            depth: 0,
            found: Vec::new(),
        };
        let _ = visit_tree(&function.args, &mut named);
        let _ = visit_tree(&function.within_group, &mut named);
        let found = named.found;
        for column in found {
            let misuses = &mut self.aggregate_only.misuses;
            misuses.entry(column).or_insert_with(|| why.clone());
        }
    }

    /// Why an aggregate may not see a column, where its form tells that.
    fn describe_misuse(&self, function: &Function) -> Option<String> {
        if !self.is_over_rows(function) {
            return None;
        }
        let name = self.key(function.name.0.last()?.as_ident()?);
        if function.over.is_some() {
            return Some(format!("`{name}` is computed over a window"));
        }
        if !GUARDED.contains(&&*name) {
            return Some(format!(
                "`{name}` is computed from it, which is not among these"
            ));
        }
        let FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment,
            args,
            clauses: _,
        }) = &function.args
        else {
            return None;
        };
        if *duplicate_treatment == Some(DuplicateTreatment::Distinct) && &*name != "count" {
            return Some(format!(
                "`{name}` takes DISTINCT values: write it without DISTINCT"
            ));
        }
        let is_column = match args.as_slice() {
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))] => self
                .aggregated_value(arg)
                .is_some_and(|value| value.conditions.is_empty() && value.cast.is_none()),
            _ => false,
        };
        (!is_column).then(|| {
            format!(
                "`{name}` is computed from an expression: write count, sum or avg of the column itself, \
                 or of CASE WHEN … THEN column END with a condition on other columns"
            )
        })
    }

    /// Reads what may name columns that aggregates alone may see.
    fn exempt<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Rejection>,
    ) -> Result<T, Rejection> {
        let around = std::mem::replace(&mut self.aggregate_only.is_exempt, true);
        let read = read(self);
        self.aggregate_only.is_exempt = around;
        read
    }

    /// Reads an item of a SELECT list. Where `passes`, it may be a column as it is: whoever reads the derived table uses it.
    pub(in crate::resolve) fn read_item<T>(
        &mut self,
        expr: &mut Expr,
        scope: &Scope<'a, '_>,
        passes: bool,
        read: impl FnOnce(&mut Self, &mut Expr) -> Result<T, Rejection>,
    ) -> Result<T, Rejection> {
        let is_passed = passes && self.smallest_group_of(expr, scope).is_some();
        if is_passed {
            self.exempt(|resolver| read(resolver, expr))
        } else {
            read(self, expr)
        }
    }

    /// As [`read_item`](Self::read_item), of a star.
    pub(in crate::resolve) fn read_star(&mut self, passes: bool, read: impl FnOnce(&mut Self)) {
        let around = self.aggregate_only.is_exempt;
        self.aggregate_only.is_exempt |= passes;
        read(self);
        self.aggregate_only.is_exempt = around;
    }

    /// The smallest group of the column that `expr` names, if aggregates alone may see it.
    fn smallest_group_of(&self, expr: &Expr, scope: &Scope<'a, '_>) -> Option<u32> {
        match expr {
            Expr::Nested(inner) => self.smallest_group_of(inner, scope),
            name => self.smallest_group(self.own_column(name, scope)?.id),
        }
    }

    /// The smallest group of a table's column that aggregates alone may see.
    fn smallest_group(&self, column: ColumnId) -> Option<u32> {
        let relation = self.catalog.relation(column.relation)?;
        match relation.kind {
            RelationKind::Table => {}
            // What a view gives was masked below it.
            RelationKind::View
            | RelationKind::Materialized
            | RelationKind::Virtual
            | RelationKind::System => return None,
        }
        let decision = self.visible.relation(column.relation).ok()?;
        match &decision.columns.get(usize::from(column.index))?.level {
            ColumnLevel::Masked(mask) => mask.smallest_group(),
            ColumnLevel::Plain | ColumnLevel::Hidden => None,
        }
    }

    /// The column of a source of `scope` itself that `name` is, unchanged.
    fn own_column<'s>(&self, name: &Expr, scope: &'s Scope<'a, '_>) -> Option<OwnColumn<'s, 'a>> {
        let (qualifier, name) = match name {
            Expr::Identifier(name) => (None, name),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [qualifier, name] | [_, qualifier, name] => (Some(self.table_key(qualifier)), name),
                _ => return None,
            },
            _ => return None,
        };
        let key = self.key(name);
        let source = scope
            .sources
            .get(scope.source_of(qualifier.as_deref(), &key)?)?;
        let (origin, _) = source.columns.find(&key)?;
        let (id, repeats) = match origin {
            Origin::Base(id, _, _) => (id, false),
            Origin::Derived(lineage) => (lineage.identity?, lineage.repeats),
            Origin::Merged(_) => return None,
        };
        let table = match &source.columns {
            Columns::Relation {
                relation: _,
                decision: _,
                hidden_exist: _,
                // It stands as it is, with no source subquery that could be otherwise.
                bare: true,
                body: _,
            } => return None,
            Columns::Relation {
                relation: _,
                decision: _,
                hidden_exist: _,
                bare: false,
                body: _,
            } => Some((source.qualifier.as_deref()?, &source.columns)),
            Columns::Derived(_) => None,
        };
        Some(OwnColumn {
            id,
            repeats: repeats || scope.repeats || scope.sources.len() > 1,
            table,
        })
    }

    /// What `function` is, if it is COUNT, SUM or AVG of a column that only aggregates may see, in a form that can be guarded.
    fn guarded_aggregate(
        &self,
        function: &Function,
        scope: &Scope<'a, '_>,
    ) -> Option<GuardedAggregate> {
        let Function {
            name,
            uses_odbc_syntax: false,
            parameters: FunctionArguments::None,
            args:
                FunctionArguments::List(FunctionArgumentList {
                    duplicate_treatment,
                    args,
                    clauses,
                }),
            filter,
            null_treatment: None,
            over: None,
            within_group,
        } = function
        else {
            return None;
        };
        let [FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))] = args.as_slice() else {
            return None;
        };
        if !clauses.is_empty() || !within_group.is_empty() {
            return None;
        }
        let kinds = [
            ("count", Kind::Count),
            ("sum", Kind::Sum),
            ("avg", Kind::Average),
            ("total", Kind::Total),
        ];
        let mut kinds = kinds.into_iter();
        let (_, kind) = kinds.find(|(own, _)| self.is_own_aggregate(name, own))?;
        match duplicate_treatment {
            None | Some(DuplicateTreatment::All) => {}
            Some(DuplicateTreatment::Distinct) if kind == Kind::Count => {}
            Some(DuplicateTreatment::Distinct) => return None,
        }
        let value = self.aggregated_value(arg)?;
        let is_steady = |condition: &Expr| self.is_steady(condition, scope);
        let mut conditions = value.conditions.iter().chain(filter.as_deref());
        if !conditions.all(is_steady) {
            return None;
        }
        let column = self.own_column(value.column, scope)?;
        let smallest = self.smallest_group(column.id)?;
        let type_name = &self.catalog.column(column.id)?.type_name;
        let type_name = self.base_type(type_name);
        let form = SumForm::choose(kind, self.catalog.dialect(), type_name, value.cast)?;
        let aggregate = form.write(kind, function)?;
        let (members, is_distinct) = self.members(&value, &column);
        let count = Function {
            name: ObjectName(vec![ObjectNamePart::Identifier(Ident::new("count"))]),
            args: FunctionArguments::List(FunctionArgumentList {
                duplicate_treatment: is_distinct.then_some(DuplicateTreatment::Distinct),
                args: vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(members))],
                clauses: Vec::new(),
            }),
            ..function.clone()
        };
        Some(GuardedAggregate {
            column: column.id,
            smallest,
            count,
            aggregate,
        })
    }

    /// What is counted for the size of a group, and whether equal ones count once. One row of the table is one member, however
    /// often a join repeats it: its key says so, or else its value.
    fn members(&self, value: &AggregatedValue<'_>, column: &OwnColumn<'_, 'a>) -> (Expr, bool) {
        let both = |left: Expr, right: Expr| Expr::BinaryOp {
            left: Box::new(left),
            op: BinaryOperator::And,
            right: Box::new(right),
        };
        let nested = |condition: &Expr| Expr::Nested(Box::new(condition.clone()));
        let is_taken = match value.conditions.as_slice() {
            [] => None,
            [condition] => Some(condition.clone()),
            several => several.iter().map(nested).reduce(both),
        };
        let present = match &is_taken {
            None => value.column.clone(),
            Some(condition) => choose(condition.clone(), value.column.clone()),
        };
        if !column.repeats {
            return (present, false);
        }
        let Some(key) = column.table.and_then(|table| self.key_column(table)) else {
            return (present, true);
        };
        let has_value = Expr::IsNotNull(Box::new(value.column.clone()));
        let is_member = match &is_taken {
            None => has_value,
            Some(condition) => both(nested(condition), has_value),
        };
        (choose(is_member, key), true)
    }

    /// The primary key of a table, where that is one column which is shown as it is.
    fn key_column(&self, (qualifier, columns): (&str, &Columns<'a>)) -> Option<Expr> {
        let Columns::Relation {
            relation,
            decision,
            hidden_exist: _,
            bare: _,
            body: _,
        } = columns
        else {
            return None;
        };
        let [key] = relation.primary_key.as_slice() else {
            return None;
        };
        let name = &relation.column(*key)?.name;
        decision
            .is_plain(*key)
            .then(|| Expr::CompoundIdentifier(vec![self.encode(qualifier), self.encode(name)]))
    }

    /// Whether `name` means nothing but the engine's own aggregate `wanted`.
    fn is_own_aggregate(&self, name: &ObjectName, wanted: &str) -> bool {
        let (schema, name) = match name.0.as_slice() {
            [ObjectNamePart::Identifier(name)] => (None, name),
            [
                ObjectNamePart::Identifier(schema),
                ObjectNamePart::Identifier(name),
            ] => (Some(self.table_key(schema)), name),
            _ => return false,
        };
        let key = self.key(name);
        let mut candidates = self
            .catalog
            .functions_named(&key)
            .filter(|def| self.is_reachable(def, schema.as_deref()))
            .peekable();
        wanted == &*key
            && candidates.peek().is_some()
            && candidates.all(|def| {
                let is_own = def.schema.as_deref().is_none_or(|own| own == "pg_catalog");
                is_own && def.kinds.aggregate
            })
    }

    /// Whether a condition is the same however often it is computed for a row, and says nothing of what aggregates alone may see.
    fn is_steady(&self, expr: &Expr, scope: &Scope<'a, '_>) -> bool {
        let is_steady = |expr: &Expr| self.is_steady(expr, scope);
        match expr {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => self.is_shown_column(expr, scope),
            // It would stand twice, and MySQL's have no numbers.
            Expr::Value(value) => {
                !matches!(value.value, Value::Placeholder(_))
                    || self.catalog.dialect() != Dialect::Mysql
            }
            Expr::TypedString(_) => true,
            Expr::Nested(inner)
            | Expr::IsNull(inner)
            | Expr::IsNotNull(inner)
            | Expr::IsTrue(inner)
            | Expr::IsNotTrue(inner)
            | Expr::IsFalse(inner)
            | Expr::IsNotFalse(inner) => is_steady(inner),
            Expr::UnaryOp { op, expr } => {
                matches!(
                    op,
                    UnaryOperator::Not | UnaryOperator::Minus | UnaryOperator::Plus
                ) && is_steady(expr)
            }
            Expr::BinaryOp { left, op, right } => {
                is_ordinary(op) && is_steady(left) && is_steady(right)
            }
            Expr::InList {
                expr,
                list,
                negated: _,
            } => is_steady(expr) && list.iter().all(is_steady),
            Expr::Between {
                expr,
                negated: _,
                low,
                high,
            } => is_steady(expr) && is_steady(low) && is_steady(high),
            Expr::Like {
                negated: _,
                any: false,
                expr,
                pattern,
                escape_char: None,
            } => is_steady(expr) && is_steady(pattern),
            Expr::Cast {
                kind: _,
                expr,
                data_type: _,
                format: None,
            }
            | Expr::Extract {
                field: _,
                syntax: _,
                expr,
            } => is_steady(expr),
            Expr::Function(call) => self.is_steady_call(call, scope),
            _ => false,
        }
    }

    /// Whether a call of a function of the engine's own gives the same for the same arguments, which are steady.
    fn is_steady_call(&self, call: &Function, scope: &Scope<'a, '_>) -> bool {
        let (
            [ObjectNamePart::Identifier(name)],
            FunctionArguments::List(FunctionArgumentList {
                duplicate_treatment: None,
                args,
                clauses,
            }),
            None,
            None,
        ) = (call.name.0.as_slice(), &call.args, &call.filter, &call.over)
        else {
            return false;
        };
        self.is_own_scalar(&self.key(name))
            && clauses.is_empty()
            && args.iter().all(|arg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) => self.is_steady(arg, scope),
                _ => false,
            })
    }

    /// Whether a call of `key` means nothing but functions of the engine's own that only compute.
    fn is_own_scalar(&self, key: &str) -> bool {
        let mut candidates = self
            .catalog
            .functions_named(key)
            .filter(|def| self.is_reachable(def, None))
            .peekable();
        candidates.peek().is_some()
            && candidates.all(|def| {
                let is_own = def.schema.as_deref().is_none_or(|own| own == "pg_catalog");
                is_own && def.safety == Safety::Pure && def.kinds.scalar
            })
    }

    /// The column of `c` and of what chooses its rows or casts it: `CASE WHEN … THEN c [ELSE 0] END`, `if(…, c, 0)`,
    /// `coalesce(c, 0)`, `CAST(c AS …)`. The column is found in its place again by `unfailing::column_place`.
    fn aggregated_value<'e>(&self, arg: &'e Expr) -> Option<AggregatedValue<'e>> {
        match arg {
            Expr::Nested(inner) => self.aggregated_value(inner),
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => Some(AggregatedValue {
                column: arg,
                conditions: Vec::new(),
                cast: None,
            }),
            Expr::Case {
                case_token: _,
                end_token: _,
                operand,
                conditions,
                else_result,
            } => {
                let (None, [CaseWhen { condition, result }]) = (operand, conditions.as_slice())
                else {
                    return None;
                };
                let condition = condition.clone();
                let adds_nothing = else_result.as_deref().is_none_or(is_nothing);
                let value = self.aggregated_value(result)?;
                adds_nothing.then(|| value.of_rows(condition))
            }
            Expr::Cast {
                kind: _,
                expr,
                data_type,
                format: None,
            } => {
                let value = self.aggregated_value(expr)?;
                value.cast.is_none().then_some(AggregatedValue {
                    cast: Some(data_type),
                    ..value
                })
            }
            Expr::Function(call) => {
                let (name, args) = read_plain_call(call)?;
                let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else {
                    return None;
                };
                let key = self.key(name);
                let args = read_plain_arguments(args)?;
                match (&*key, args.as_slice()) {
                    ("coalesce" | "ifnull", [value, other]) if is_nothing(other) => {
                        let value = self.aggregated_value(value)?;
                        self.is_own_scalar(&key).then_some(value)
                    }
                    ("if" | "iif", [condition, value, other]) if is_nothing(other) => {
                        let value = self.aggregated_value(value)?;
                        let condition = Expr::clone(condition);
                        self.is_own_scalar(&key).then(|| value.of_rows(condition))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// What a type is below the domains that narrow it.
    fn base_type<'t>(&self, declared: &'t str) -> &'t str
    where
        'a: 't,
    {
        let mut declared = declared;
        for _ in 0..MAX_DOMAINS {
            let domain = self.catalog.types().iter().find_map(|def| match &def.kind {
                TypeKind::Domain { base, check: _ } => {
                    let name = (def.schema.clone(), def.name.clone());
                    is_called(declared, &name).then_some(base.as_str())
                }
                TypeKind::Enum | TypeKind::Composite(_) | TypeKind::Range | TypeKind::Base => None,
            });
            match domain {
                Some(base) => declared = base,
                None => break,
            }
        }
        declared
    }

    /// Whether `name` is a column as it stands in its table, which aggregates are not alone to see.
    fn is_shown_column(&self, name: &Expr, scope: &Scope<'a, '_>) -> bool {
        let found = match name {
            Expr::Identifier(name) => scope.find(None, &self.key(name)),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [qualifier, name] => scope.find(Some(&self.table_key(qualifier)), &self.key(name)),
                _ => return false,
            },
            _ => return false,
        };
        let Found::Column(origin, _) = found else {
            return false;
        };
        let is_shown = |column: &ColumnId| self.smallest_group(*column).is_none();
        origin.identity().is_some() && origin.columns().iter().all(is_shown)
    }

    /// Whether something in this part of a SELECT may give several rows for one. PostgreSQL takes such calls wherever a target list
    /// grows by what stands there: in the order, the groups and the windows too, those by name included.
    pub(in crate::resolve) fn may_give_rows(&self, part: &impl Visit) -> bool {
        let mut calls = RowCalls { resolver: self };
        self.aggregate_only.is_present
            && self.catalog.dialect() == Dialect::Postgres
            && visit_tree(part, &mut calls).is_break()
    }

    /// Opens the columns that guarded aggregates are computed from, where nothing else uses them.
    ///
    /// # Errors
    /// `obligation.aggregate-only`.
    pub(in crate::resolve) fn open_aggregated(&mut self) -> Result<(), Rejection> {
        if !self.aggregate_only.is_present {
            return Ok(());
        }
        let uses = std::mem::take(&mut self.aggregate_only);
        for (column, usages) in uses.others.iter() {
            let Some(smallest) = self.smallest_group(column) else {
                continue;
            };
            let (computed, given): (Vec<Usage>, Vec<Usage>) =
                usages.iter().partition(|usage| match usage {
                    Usage::Filter
                    | Usage::Join
                    | Usage::Group
                    | Usage::Order
                    | Usage::Aggregate => true,
                    Usage::Output | Usage::View | Usage::Write => false,
                });
            let wrong = computed.first().or_else(|| {
                // As it stands, it is NULL, as long as nothing sees its values.
                given.first().filter(|_| uses.opened.contains(&column))
            });
            if let Some(usage) = wrong {
                // What is ordered or compared may be what the aggregate gives.
                let misuse = uses.misuses.get(&column).map(String::as_str);
                let used = misuse.unwrap_or_else(|| describe_use(*usage));
                return Err(self.refuse_other_use(column, smallest, used));
            }
        }
        for reference in &mut self.references {
            let opened = uses.opened.iter();
            reference.opened = opened
                .filter(|column| column.relation == reference.relation)
                .map(|column| column.index)
                .collect();
        }
        Ok(())
    }

    fn refuse_other_use(&self, column: ColumnId, smallest: u32, used: &str) -> Rejection {
        let relation = self.catalog.relation(column.relation);
        let name = relation.zip(self.catalog.column(column));
        let name = name.map_or_else(String::new, |(relation, column)| {
            format!("{}.{}", relation.name, column.name)
        });
        Rejection::new(
            Code::ObligationAggregateOnly,
            format!(
                "only COUNT, SUM and AVG over {smallest} values or more may use `{name}`, and here {used}"
            ),
        )
    }
}

/// The aggregates that can be guarded.
const GUARDED: [&str; 4] = ["count", "sum", "avg", "total"];

fn describe_use(usage: Usage) -> &'static str {
    match usage {
        Usage::Filter => "a condition compares it",
        Usage::Join => "a join compares it",
        Usage::Group => "groups or DISTINCT are made by it",
        Usage::Order => "rows are ordered by it",
        Usage::Aggregate => {
            "another aggregate is computed from it, or a window, or an aggregate of an expression"
        }
        Usage::Output | Usage::View => "its values would be given beside an aggregate",
        Usage::Write => "it is assigned",
    }
}

/// The columns that an expression names and that aggregates alone may see; those of its subqueries left out.
struct NamedColumns<'r, 'a, 's> {
    resolver: &'r Resolver<'a>,
    scope: &'r Scope<'a, 's>,
    depth: usize,
    found: Vec<ColumnId>,
}

impl TreeVisitor for NamedColumns<'_, '_, '_> {
    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if self.depth == 0
            && let Some(column) = self.resolver.own_column(expr, self.scope)
            && self.resolver.smallest_group(column.id).is_some()
        {
            self.found.push(column.id);
        }
        ControlFlow::Continue(())
    }
}

/// Looks for calls of functions that give rows.
struct RowCalls<'r, 'a> {
    resolver: &'r Resolver<'a>,
}

impl TreeVisitor for RowCalls<'_, '_> {
    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Role::Call(call) = role(expr)
            && let Some(ObjectNamePart::Identifier(name)) = call.name.0.last()
        {
            let key = self.resolver.key(name);
            let mut named = self.resolver.catalog.functions_named(&key);
            if named.any(|def| def.kinds.table) {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }
}

impl AggregatedValue<'_> {
    /// The same of the rows for which `condition` holds.
    fn of_rows(mut self, condition: Expr) -> Self {
        self.conditions.insert(0, condition);
        self
    }
}

/// Makes `CASE WHEN a = b THEN …` of `CASE a WHEN b THEN …`: engines compare by other types there than by `=`, and the rows that are
/// counted have to be those that are summed.
fn search_cases(function: &mut Function) {
    let _ = each_expr_mut(&mut function.args, &mut |expr| {
        if let Expr::Case {
            case_token: _,
            end_token: _,
            operand,
            conditions,
            else_result: _,
        } = expr
            && let [
                CaseWhen {
                    condition,
                    result: _,
                },
            ] = conditions.as_mut_slice()
            && let Some(operand) = operand.take()
        {
            *condition = Expr::BinaryOp {
                left: Box::new(Expr::Nested(operand)),
                op: BinaryOperator::Eq,
                right: Box::new(Expr::Nested(Box::new(condition.clone()))),
            };
        }
        ControlFlow::Continue(())
    });
}

/// `CASE WHEN condition THEN result END`.
fn choose(condition: Expr, result: Expr) -> Expr {
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result }],
        else_result: None,
    }
}

/// Whether `expr` is NULL or zero.
fn is_nothing(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Null => true,
            Value::Number(text, _) => matches!(text.as_str(), "0" | "0.0"),
            _ => false,
        },
        _ => false,
    }
}

/// Whether an operator computes or compares as every engine knows it.
fn is_ordinary(op: &BinaryOperator) -> bool {
    [
        BinaryOperator::And,
        BinaryOperator::Or,
        BinaryOperator::Eq,
        BinaryOperator::NotEq,
        BinaryOperator::Lt,
        BinaryOperator::LtEq,
        BinaryOperator::Gt,
        BinaryOperator::GtEq,
        BinaryOperator::Plus,
        BinaryOperator::Minus,
        BinaryOperator::Multiply,
        BinaryOperator::Divide,
        BinaryOperator::Modulo,
    ]
    .contains(op)
}
