//! Which predicates an engine may run on rows that a filter would hide, without telling.
//!
//! These predicates cannot fail, and cannot be seen to run:
//!
//! * those of unmasked columns in which every expression has a value for every row (`unfailing_condition`), where nothing else of the
//!   statement so far may fail;
//! * comparisons, IN and BETWEEN of an unmasked column with a literal, a parameter or another such column of its class;
//! * comparisons of such a column with a whole number that a query of the statement gives;
//! * IS NULL;
//! * AND, OR and NOT of these.
//!
//! Everything else makes the rewriter fence the filtered tables.

use sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, UnaryOperator, Value,
};

use crate::resolve::{
    Reference, Resolver,
    scope::{Found, Origin, Scope},
};
use crate::{
    catalog::{Column, ColumnId, RelationKind, TypeClass},
    dialect::Dialect,
    syntax::is_hexadecimal,
};

/// A side of a comparison.
enum LeakproofSide<'a> {
    Column(&'a Column),
    Constant(Option<TypeClass>),
}

impl<'a> Resolver<'a> {
    /// Whether a condition over groups stays above them, or tells nothing below them.
    pub(super) fn stays_or_leakproof(&self, expr: &Expr, scope: &Scope<'a, '_>) -> bool {
        match expr {
            Expr::Nested(inner) => self.stays_or_leakproof(inner, scope),
            Expr::BinaryOp {
                left,
                op: BinaryOperator::And,
                right,
            } => self.stays_or_leakproof(left, scope) && self.stays_or_leakproof(right, scope),
            Expr::BinaryOp { left, op: _, right }
                if self.is_aggregate(left, scope) || self.is_aggregate(right, scope) =>
            {
                true
            }
            other => self.is_leakproof(other, scope),
        }
    }

    /// Whether a side is an aggregate over this query's groups. An aggregate over the groups of an outer query
    /// is a constant here, and is none. So its arguments must be made from columns of this query and constants alone.
    pub(in crate::resolve) fn is_aggregate(&self, expr: &Expr, scope: &Scope<'a, '_>) -> bool {
        let Expr::Function(Function {
            name,
            uses_odbc_syntax: false,
            parameters: FunctionArguments::None,
            args:
                FunctionArguments::List(FunctionArgumentList {
                    duplicate_treatment: _,
                    args,
                    clauses,
                }),
            within_group,
            filter: None,
            null_treatment: None,
            over: None,
        }) = expr
        else {
            return false;
        };
        let is_own_argument = |arg: &FunctionArg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => true,
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => self.is_own(expr, scope),
            _ => false,
        };
        if !(within_group.is_empty() && clauses.is_empty() && args.iter().all(is_own_argument)) {
            return false;
        }
        let name = name.0.last().and_then(|part| part.as_ident());
        name.is_some_and(|name| {
            let key = self.key(name);
            let mut named = self.catalog.functions_named(&key).peekable();
            named.peek().is_some() && named.all(|def| def.kinds.aggregate && !def.kinds.scalar)
        })
    }

    /// Whether an expression is made from columns of this query's own tables and constants alone.
    fn is_own(&self, expr: &Expr, scope: &Scope<'a, '_>) -> bool {
        let own = |qualifier: Option<&str>, name| scope.has_column(qualifier, &self.key(name));
        match expr {
            Expr::Identifier(name) => own(None, name),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [qualifier, name] => own(Some(&self.table_key(qualifier)), name),
                _ => false,
            },
            Expr::Value(_) => true,
            Expr::Nested(inner) | Expr::UnaryOp { op: _, expr: inner } => self.is_own(inner, scope),
            Expr::BinaryOp { left, op: _, right } => {
                self.is_own(left, scope) && self.is_own(right, scope)
            }
            _ => false,
        }
    }

    /// Whether `column` is an unmasked column of a table.
    pub(in crate::resolve) fn is_plain_base(&self, column: ColumnId) -> bool {
        self.catalog
            .relation(column.relation)
            .is_some_and(|r| r.kind == RelationKind::Table)
            && self
                .visible
                .relation(column.relation)
                .is_ok_and(|decision| decision.is_plain(column.index))
    }

    /// Whether `column` is an unmasked column of a table, or a view passes such a column on as it is.
    pub(in crate::resolve) fn is_stored_plainly(&self, column: ColumnId) -> bool {
        self.is_plain_base(column) || self.is_passed_on(column, &self.references)
    }

    /// Whether a view among `references` passes on an unmasked column of a table, under the same decision.
    fn is_passed_on(&self, column: ColumnId, references: &[Reference]) -> bool {
        let mut found = references.iter();
        let Some(reference) = found.find(|one| one.relation == column.relation) else {
            return false;
        };
        let kind = self.catalog.relation(column.relation).map(|r| r.kind);
        reference.decision.is_plain(column.index)
            && match (kind, &reference.body) {
                (Some(RelationKind::Table), None) => true,
                (Some(RelationKind::View), Some(body)) => {
                    let output = body.resolved.outputs.get(usize::from(column.index));
                    let passed = output.and_then(|output| output.lineage.identity);
                    passed.is_some_and(|id| self.is_passed_on(id, &body.resolved.references))
                }
                (_, _) => false,
            }
    }

    /// Whether a value of a query is a whole number that the statement itself gives, and that the engine takes for one whatever
    /// it is compared with.
    pub(in crate::resolve) fn is_whole(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Nested(inner)
            | Expr::UnaryOp {
                op: UnaryOperator::Minus,
                expr: inner,
            } => self.is_whole(inner),
            Expr::Value(value) => match &value.value {
                Value::Number(text, _) => text.parse::<i64>().is_ok(),
                _ => false,
            },
            // Of a parameter PostgreSQL knows the type by what is made of it alone.
            Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr,
                data_type,
                format: None,
            } if self.catalog.dialect() == Dialect::Postgres => {
                let is_given = self.is_whole(expr)
                    || matches!(&**expr, Expr::Value(value) if matches!(value.value, Value::Placeholder(_)));
                is_given
                    && matches!(
                        data_type,
                        DataType::SmallInt(None)
                            | DataType::Int(None)
                            | DataType::Integer(None)
                            | DataType::BigInt(None)
                            | DataType::Int2(None)
                            | DataType::Int4(None)
                            | DataType::Int8(None)
                    )
            }
            _ => false,
        }
    }

    /// Whether a condition may run on any row without telling.
    pub(in crate::resolve) fn is_leakproof(&self, expr: &Expr, scope: &Scope<'a, '_>) -> bool {
        match expr {
            Expr::Nested(inner)
            | Expr::UnaryOp {
                op: UnaryOperator::Not,
                expr: inner,
            } => self.is_leakproof(inner, scope),
            Expr::BinaryOp { left, op, right } => match op {
                BinaryOperator::And | BinaryOperator::Or => {
                    self.is_leakproof(left, scope) && self.is_leakproof(right, scope)
                }
                BinaryOperator::Eq
                | BinaryOperator::NotEq
                | BinaryOperator::Lt
                | BinaryOperator::LtEq
                | BinaryOperator::Gt
                | BinaryOperator::GtEq => self.comparable(&[&**left, &**right], scope),
                _ => false,
            },
            Expr::IsNull(inner) | Expr::IsNotNull(inner) => {
                matches!(self.side(inner, scope), Some(LeakproofSide::Column(_)))
            }
            Expr::InList {
                expr,
                list,
                negated: _,
            } => {
                let sides: Vec<_> = std::iter::once(&**expr).chain(list).collect();
                self.comparable(&sides, scope)
            }
            Expr::Between {
                expr,
                negated: _,
                low,
                high,
            } => self.comparable(&[&**expr, &**low, &**high], scope),
            Expr::Value(_) => true,
            _ => false,
        }
    }

    /// Whether a parameter compares with any column. PostgreSQL gives it the type of its first use, and converts what else it is
    /// compared with. MySQL compares values of two types with a warning, by which a statement that stores what it reads fails.
    fn is_parameter_comparable(&self, text: &str) -> bool {
        match self.catalog.dialect() {
            Dialect::Sqlite => true,
            Dialect::Postgres => self.outline.is_used_once(text),
            Dialect::Mysql => !(self.failures.stores && self.failures.reads_sources()),
        }
    }

    /// Whether all sides are columns or constants that compare with each other, whatever their values.
    pub(in crate::resolve) fn comparable(&self, exprs: &[&Expr], scope: &Scope<'a, '_>) -> bool {
        // One of each kind: sides of one kind compare alike, and kinds are few however many sides there are.
        let mut kinds: Vec<LeakproofSide<'a>> = Vec::new();
        for expr in exprs {
            let Some(side) = self.side(expr, scope) else {
                return false;
            };
            let is_known = kinds.iter().any(|kind| self.is_of_kind(&side, kind));
            // Whether a kind compares with itself is asked where there is a second side of it.
            if is_known && !self.compare(&side, &side) {
                return false;
            }
            if is_known {
                continue;
            }
            if !kinds.iter().all(|before| self.compare(before, &side)) {
                return false;
            }
            kinds.push(side);
        }
        true
    }

    /// Whether two sides compare alike with every other: [`compare`](Self::compare) looks at nothing else of them.
    fn is_of_kind(&self, one: &LeakproofSide<'a>, other: &LeakproofSide<'a>) -> bool {
        match (one, other) {
            (LeakproofSide::Constant(one), LeakproofSide::Constant(other)) => one == other,
            (LeakproofSide::Column(one), LeakproofSide::Column(other)) => {
                let is_same = one.uid == other.uid;
                let is_alike = one.class == other.class && one.collation == other.collation;
                let by_uid = self.catalog.dialect() == Dialect::Postgres
                    && matches!(one.class, TypeClass::Text | TypeClass::Padded);
                is_same || (is_alike && !by_uid)
            }
            (LeakproofSide::Column(_), LeakproofSide::Constant(_))
            | (LeakproofSide::Constant(_), LeakproofSide::Column(_)) => false,
        }
    }

    /// Whether the comparison of two sides cannot fail.
    fn compare(&self, one: &LeakproofSide<'a>, other: &LeakproofSide<'a>) -> bool {
        let number = |class| {
            matches!(
                class,
                TypeClass::Integer | TypeClass::Number | TypeClass::Decimal
            )
        };
        let one_engine = self.catalog.dialect() == Dialect::Sqlite;
        match (one, other) {
            (LeakproofSide::Constant(None), _) | (_, LeakproofSide::Constant(None)) => true,
            (LeakproofSide::Constant(Some(one)), LeakproofSide::Constant(Some(other))) => {
                one == other || (!one_engine && number(*one) && number(*other))
            }
            (LeakproofSide::Column(column), LeakproofSide::Constant(Some(class)))
            | (LeakproofSide::Constant(Some(class)), LeakproofSide::Column(column)) => {
                column.class == *class || (!one_engine && number(column.class) && number(*class))
            }
            (LeakproofSide::Column(one), LeakproofSide::Column(other)) => {
                self.columns_compare(one, other)
            }
        }
    }

    /// Whether values of two columns compare without an error, whatever they are. PostgreSQL finds only
    /// when it compares that two collations differ, and a decimal may not fit a floating-point number.
    pub(in crate::resolve) fn columns_compare(&self, one: &Column, other: &Column) -> bool {
        match self.catalog.dialect() {
            Dialect::Sqlite => one.class == other.class,
            Dialect::Postgres | Dialect::Mysql => match (one.class, other.class) {
                (TypeClass::Other, _) | (_, TypeClass::Other) => false,
                (TypeClass::Integer, TypeClass::Decimal | TypeClass::Number)
                | (TypeClass::Decimal | TypeClass::Number, TypeClass::Integer) => true,
                // Two columns of text may have collations that do not go together, which the catalog does not
                // always tell.
                (TypeClass::Text | TypeClass::Padded, _)
                    if self.catalog.dialect() == Dialect::Postgres =>
                {
                    one.uid == other.uid
                }
                (one_class, other_class) => {
                    one_class == other_class && one.collation == other.collation
                }
            },
        }
    }

    /// The unmasked column of a table that `expr` is.
    pub(in crate::resolve) fn column_side(
        &self,
        expr: &Expr,
        scope: &Scope<'a, '_>,
    ) -> Option<&'a Column> {
        match self.side(expr, scope) {
            Some(LeakproofSide::Column(column)) => Some(column),
            Some(LeakproofSide::Constant(_)) | None => None,
        }
    }

    fn plain_base_column(&self, origin: &Origin<'_>) -> Option<&'a Column> {
        let id = origin.identity().filter(|id| self.is_stored_plainly(*id))?;
        self.catalog.column(id)
    }

    /// The same, of whatever type.
    pub(in crate::resolve) fn plain_column(
        &self,
        expr: &Expr,
        scope: &Scope<'a, '_>,
    ) -> Option<&'a Column> {
        let (qualifier, name) = match expr {
            Expr::Nested(inner) => return self.plain_column(inner, scope),
            Expr::Identifier(name) => (None, name),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [qualifier, name] => (Some(self.table_key(qualifier)), name),
                _ => return None,
            },
            _ => return None,
        };
        match scope.find(qualifier.as_deref(), &self.key(name)) {
            Found::Column(origin, _) => self.plain_base_column(&origin),
            _ => None,
        }
    }

    fn side(&self, expr: &Expr, scope: &Scope<'a, '_>) -> Option<LeakproofSide<'a>> {
        let (qualifier, name) = match expr {
            Expr::Nested(inner) => return self.side(inner, scope),
            Expr::UnaryOp {
                op: UnaryOperator::Minus,
                expr: inner,
            } => {
                return match self.side(inner, scope) {
                    Some(LeakproofSide::Constant(Some(TypeClass::Integer))) => {
                        Some(LeakproofSide::Constant(Some(TypeClass::Integer)))
                    }
                    _ => None,
                };
            }
            Expr::Value(value) => {
                return match &value.value {
                    Value::Number(text, _) if text.bytes().all(|b| b.is_ascii_digit()) => {
                        Some(LeakproofSide::Constant(Some(TypeClass::Integer)))
                    }
                    Value::Number(text, _) if is_hexadecimal(text) => None,
                    Value::Number(..) => Some(LeakproofSide::Constant(Some(TypeClass::Number))),
                    // PostgreSQL reads it as whatever it is compared with, before any row.
                    Value::SingleQuotedString(_) if self.catalog.dialect() == Dialect::Postgres => {
                        Some(LeakproofSide::Constant(None))
                    }
                    Value::SingleQuotedString(_) => {
                        Some(LeakproofSide::Constant(Some(TypeClass::Text)))
                    }
                    Value::Boolean(_) => Some(LeakproofSide::Constant(Some(TypeClass::Boolean))),
                    Value::Null => Some(LeakproofSide::Constant(None)),
                    Value::Placeholder(text) => self
                        .is_parameter_comparable(text)
                        .then_some(LeakproofSide::Constant(None)),
                    _ => None,
                };
            }
            // PostgreSQL reads it before any row.
            Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr,
                data_type,
                format: None,
            } => {
                let is_given = matches!(&**expr, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)));
                return (is_given && self.is_enumeration(data_type))
                    .then_some(LeakproofSide::Constant(Some(TypeClass::Enum)));
            }
            Expr::Identifier(name) => (None, name),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [qualifier, name] => (Some(self.table_key(qualifier)), name),
                _ => return None,
            },
            _ => return None,
        };
        match scope.find(qualifier.as_deref(), &self.key(name)) {
            Found::Column(Origin::Derived(lineage), _) if lineage.is_whole => {
                Some(LeakproofSide::Constant(Some(TypeClass::Integer)))
            }
            Found::Column(origin, _) => {
                let column = self.plain_base_column(&origin)?;
                // Comparisons of types that a database adds are functions that it adds.
                let known =
                    self.catalog.dialect() == Dialect::Sqlite || column.class != TypeClass::Other;
                known.then_some(LeakproofSide::Column(column))
            }
            _ => None,
        }
    }
}
