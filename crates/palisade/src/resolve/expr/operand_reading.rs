//! Of which class the value of an expression is, as far as that is plain to see.
//!
//! What a database adds counts as called where the engine may choose it. Known operands rule out most of it.

use sqlparser::ast::{
    BinaryOperator, CaseWhen, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, ObjectName, ObjectNamePart, Query, TypedString, UnaryOperator, Value,
};

use crate::catalog::{ClassSet, TypeClass, postgres_type_name};
use crate::dialect::Dialect;
use crate::resolve::{
    Resolver,
    expr::operand_class::{OperandClass, Operands, text_operand},
    scope::{Found, Origin, Output, Scope},
    token::locate_query,
};

/// How deep an expression is looked into. Deeper ones are unknown, so that a chain of operators is not read again at each
/// of its links.
const MAX_DEPTH: usize = 6;

impl<'a> Resolver<'a> {
    /// The operands of a binary operator. Where a database adds nothing, nothing is looked at.
    pub(in crate::resolve) fn operands(
        &self,
        left: &Expr,
        right: &Expr,
        scope: &Scope<'a, '_>,
    ) -> Operands {
        if self.catalog.operators().is_empty() {
            return Operands::unknown();
        }
        Operands::Binary(
            self.operand(left, scope, MAX_DEPTH),
            self.operand(right, scope, MAX_DEPTH),
        )
    }

    /// The operand of a prefix operator.
    pub(in crate::resolve) fn prefix_operand(
        &self,
        expr: &Expr,
        scope: &Scope<'a, '_>,
    ) -> Operands {
        if self.catalog.operators().is_empty() {
            return Operands::Prefix(OperandClass::Unknown);
        }
        Operands::Prefix(self.operand(expr, scope, MAX_DEPTH))
    }

    /// The values of a row, or the one value, that is compared with what a query gives.
    pub(in crate::resolve) fn row_operands(
        &self,
        expr: &Expr,
        scope: &Scope<'a, '_>,
    ) -> Vec<OperandClass> {
        if self.catalog.operators().is_empty() {
            return vec![OperandClass::Unknown];
        }
        match expr {
            Expr::Nested(inner) => self.row_operands(inner, scope),
            Expr::Tuple(exprs) => {
                let operands = exprs.iter();
                operands
                    .map(|expr| self.operand(expr, scope, MAX_DEPTH))
                    .collect()
            }
            other => vec![self.operand(other, scope, MAX_DEPTH)],
        }
    }

    /// What is known of the columns of a query.
    pub(in crate::resolve) fn output_operands(&self, outputs: &[Output]) -> Vec<OperandClass> {
        if self.catalog.operators().is_empty() {
            return Vec::new();
        }
        outputs
            .iter()
            .map(|output| self.origin_operand(&Origin::Derived(&output.lineage)))
            .collect()
    }

    /// One operand whose counterpart is unknown.
    pub(in crate::resolve) fn value_operand(
        &self,
        expr: &Expr,
        scope: &Scope<'a, '_>,
    ) -> OperandClass {
        if self.catalog.operators().is_empty() {
            return OperandClass::Unknown;
        }
        self.operand(expr, scope, MAX_DEPTH)
    }

    /// A value that a column gets. Where a database adds no cast, nothing is looked at.
    pub(in crate::resolve) fn assigned_operand(
        &self,
        expr: &Expr,
        scope: &Scope<'a, '_>,
    ) -> OperandClass {
        if self.catalog.casts().is_empty() {
            return OperandClass::Unknown;
        }
        self.operand(expr, scope, MAX_DEPTH)
    }

    /// What is known of the arguments of a call. Where a database adds neither operators nor a function of that name, nothing
    /// is looked at.
    pub(in crate::resolve) fn argument_operands(
        &self,
        name: &ObjectName,
        args: &[FunctionArg],
        scope: &Scope<'a, '_>,
    ) -> Vec<OperandClass> {
        let named = name.0.last().and_then(|part| part.as_ident());
        let has_overloads = named.is_some_and(|name| {
            let key = self.key(name);
            (self.catalog.functions_named(&key)).any(|def| !def.parameters.is_empty())
        });
        if !has_overloads && self.catalog.operators().is_empty() {
            return vec![OperandClass::Unknown; args.len()];
        }
        args.iter()
            .map(|arg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => {
                    self.operand(expr, scope, MAX_DEPTH)
                }
                // Where an argument that has a name belongs is not known here.
                _ => OperandClass::Unknown,
            })
            .collect()
    }

    /// What columns that are merged into one are.
    pub(in crate::resolve) fn origin_operand(&self, origin: &Origin<'_>) -> OperandClass {
        let identity = match origin {
            Origin::Base(id, _, _) => Some(*id),
            Origin::Derived(lineage) => lineage.identity,
            // It is of the type that both have in common.
            Origin::Merged(_) => None,
        };
        let column = identity.and_then(|id| {
            let decision = self.visible.relation(id.relation).ok()?;
            // What stands for a masked value may be of another type.
            decision
                .is_plain(id.index)
                .then(|| self.catalog.column(id))?
        });
        match (column, origin) {
            (Some(column), _) => OperandClass::from_class(column.class),
            (None, Origin::Derived(lineage)) => OperandClass::from_classes(lineage.classes),
            (None, Origin::Base(_, _, _) | Origin::Merged(_)) => OperandClass::Unknown,
        }
    }

    /// The class of an expression that is not too deep.
    pub(in crate::resolve) fn known_operand(
        &self,
        expr: &Expr,
        scope: &Scope<'a, '_>,
    ) -> OperandClass {
        self.operand(expr, scope, MAX_DEPTH)
    }

    /// The classes of what an expression gives; none where they are not known.
    pub(in crate::resolve) fn classes_of(&self, expr: &Expr, scope: &Scope<'a, '_>) -> ClassSet {
        self.known_operand(expr, scope).settled().classes()
    }

    /// Notes the class of what a subquery of one column gives.
    pub(in crate::resolve) fn note_subquery_class(&mut self, query: &Query, outputs: &[Output]) {
        if self.catalog.dialect() != Dialect::Postgres {
            return;
        }
        let Some(place) = locate_query(query) else {
            return;
        };
        let class = match outputs {
            [output] => self.origin_operand(&Origin::Derived(&output.lineage)),
            [] | [_, _, ..] => OperandClass::Unknown,
        };
        self.subquery_classes.insert(place, class);
    }

    /// What is noted of a subquery that has been resolved.
    pub(in crate::resolve) fn subquery_operand(&self, query: &Query) -> OperandClass {
        locate_query(query)
            .and_then(|place| self.subquery_classes.get(&place).copied())
            .unwrap_or(OperandClass::Unknown)
    }

    fn operand(&self, expr: &Expr, scope: &Scope<'a, '_>, depth: usize) -> OperandClass {
        if depth == 0 || self.catalog.dialect() != Dialect::Postgres {
            return OperandClass::Unknown;
        }
        let below = |expr: &Expr| self.operand(expr, scope, depth - 1);
        match expr {
            Expr::Nested(inner) => below(inner),
            Expr::Value(value) => match &value.value {
                Value::Number(text, _) if text.bytes().all(|b| b.is_ascii_digit()) => {
                    OperandClass::Known(ClassSet::from_list(&[
                        TypeClass::Integer,
                        TypeClass::Decimal,
                    ]))
                }
                Value::Number(..) => OperandClass::numbers(),
                Value::Boolean(_) => OperandClass::from_one(TypeClass::Boolean),
                Value::SingleQuotedString(_) | Value::Null => OperandClass::Untyped,
                _ => OperandClass::Unknown,
            },
            Expr::Identifier(name) => self.column_operand(scope.find(None, &self.key(name))),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [qualifier, name] => {
                    let qualifier = self.table_key(qualifier);
                    self.column_operand(scope.find(Some(&qualifier), &self.key(name)))
                }
                _ => OperandClass::Unknown,
            },
            Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr: _,
                data_type,
                format: None,
            }
            | Expr::TypedString(TypedString {
                data_type,
                value: _,
                uses_odbc_syntax: false,
            }) => type_operand(data_type),
            Expr::UnaryOp {
                op: op @ (UnaryOperator::Minus | UnaryOperator::Plus),
                expr,
            } => {
                let inner = below(expr);
                if inner.is_number() && self.is_engines_own(&op.to_string()) {
                    inner
                } else {
                    OperandClass::Unknown
                }
            }
            Expr::UnaryOp {
                op: UnaryOperator::Not,
                expr: _,
            }
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsTrue(_)
            | Expr::IsNotTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsNotFalse(_)
            | Expr::Exists {
                subquery: _,
                negated: _,
            } => OperandClass::from_one(TypeClass::Boolean),
            Expr::BinaryOp { left, op, right } => {
                self.result_of(op, || (below(left), below(right)))
            }
            Expr::Case {
                case_token: _,
                end_token: _,
                operand: _,
                conditions,
                else_result,
            } => {
                let results = conditions.iter().map(
                    |CaseWhen {
                         condition: _,
                         result,
                     }| result,
                );
                let results = results.chain(else_result.as_deref()).map(below);
                results
                    .fold(OperandClass::Untyped, OperandClass::or)
                    .settled()
            }
            Expr::Function(function) => self.call_operand(function, scope, depth),
            Expr::Extract {
                field: _,
                syntax: _,
                expr: _,
            } => OperandClass::from_one(TypeClass::Decimal),
            Expr::Position { expr: _, r#in: _ } => OperandClass::from_one(TypeClass::Integer),
            Expr::Substring {
                expr,
                substring_from: _,
                substring_for: _,
                special: _,
                shorthand: _,
            } if below(expr).is_text() => text_operand(),
            Expr::Subquery(query) => self.subquery_operand(query),
            Expr::Trim {
                trim_where: _,
                trim_what: _,
                expr,
                trim_characters: _,
            } if below(expr).is_text() => text_operand(),
            Expr::Interval(_) => OperandClass::from_one(TypeClass::Interval),
            _ => OperandClass::Unknown,
        }
    }

    fn column_operand(&self, found: Found<'_>) -> OperandClass {
        match found {
            Found::Column(origin, _) => self.origin_operand(&origin),
            _ => OperandClass::Unknown,
        }
    }

    /// Whether the database adds no operator of this symbol.
    pub(in crate::resolve) fn is_engines_own(&self, symbol: &str) -> bool {
        !self
            .catalog
            .operators()
            .iter()
            .any(|def| def.name == symbol)
    }

    /// Whether the engine chooses its own operator for these classes.
    pub(in crate::resolve) fn chooses_engines_own(
        &self,
        symbol: &str,
        left: OperandClass,
        right: OperandClass,
    ) -> bool {
        let operands = Operands::Binary(left, right);
        let mut added = self.catalog.operators().iter();
        !added.any(|def| def.name == symbol && operands.may_choose(symbol, &def.left, &def.right))
    }

    /// Whether the engine chooses no operator that the database adds for these operands.
    pub(in crate::resolve) fn is_engines_own_for(
        &self,
        symbol: &str,
        left: &Expr,
        right: &Expr,
        scope: &Scope<'a, '_>,
    ) -> bool {
        if self.is_engines_own(symbol) {
            return true;
        }
        let operands = self.operands(left, right, scope);
        !self
            .catalog
            .operators()
            .iter()
            .any(|def| def.name == symbol && operands.may_choose(symbol, &def.left, &def.right))
    }

    /// Whether no function of the database has this name.
    pub(in crate::resolve) fn is_engines_function(&self, name: &str) -> bool {
        self.catalog
            .functions_named(name)
            .all(|def| matches!(def.schema.as_deref(), None | Some("pg_catalog")))
    }

    fn result_of(
        &self,
        op: &BinaryOperator,
        operands: impl FnOnce() -> (OperandClass, OperandClass),
    ) -> OperandClass {
        match op {
            BinaryOperator::And | BinaryOperator::Or => OperandClass::from_one(TypeClass::Boolean),
            BinaryOperator::Plus
            | BinaryOperator::Minus
            | BinaryOperator::Multiply
            | BinaryOperator::Divide
            | BinaryOperator::Modulo => {
                let (left, right) = operands();
                match op {
                    _ if !self.chooses_engines_own(&op.to_string(), left, right) => {
                        OperandClass::Unknown
                    }
                    BinaryOperator::Plus | BinaryOperator::Minus => shift_operand(left, right),
                    _ if left.or(right).is_number() => OperandClass::numbers(),
                    _ => OperandClass::Unknown,
                }
            }
            // Of JSON alone: what a database adds for it has another class.
            BinaryOperator::LongArrow | BinaryOperator::HashLongArrow
                if self.is_engines_own(&op.to_string()) =>
            {
                text_operand()
            }
            BinaryOperator::StringConcat if self.is_engines_own("||") => {
                let (left, right) = operands();
                if left.or(right).is_text() {
                    text_operand()
                } else {
                    OperandClass::Unknown
                }
            }
            _ => OperandClass::Unknown,
        }
    }

    /// What a call of one of the engine's everyday functions gives, where the database has no function of that name.
    fn call_operand(
        &self,
        function: &Function,
        scope: &Scope<'a, '_>,
        depth: usize,
    ) -> OperandClass {
        // What is printed names the engine's schema, and is read once more.
        let (key, is_own) = match function.name.0.as_slice() {
            [ObjectNamePart::Identifier(ident)] => {
                let key = self.key(ident);
                let is_own = self.catalog.functions_named(&key).all(|def| {
                    def.schema
                        .as_deref()
                        .is_none_or(|schema| schema == "pg_catalog")
                });
                (key, is_own)
            }
            [
                ObjectNamePart::Identifier(schema),
                ObjectNamePart::Identifier(ident),
            ] => (self.key(ident), *self.key(schema) == *"pg_catalog"),
            _ => return OperandClass::Unknown,
        };
        if !is_own {
            return OperandClass::Unknown;
        }
        let args = match &function.args {
            FunctionArguments::List(list) => list.args.as_slice(),
            FunctionArguments::None => &[],
            FunctionArguments::Subquery(_) => return OperandClass::Unknown,
        };
        let values = || {
            args.iter()
                .map(|arg| match arg {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => {
                        self.operand(expr, scope, depth - 1)
                    }
                    _ => OperandClass::Unknown,
                })
                .fold(OperandClass::Untyped, OperandClass::or)
        };
        // A date becomes a point in time.
        let truncated = || match args {
            [_, FunctionArg::Unnamed(FunctionArgExpr::Expr(of))] => {
                match self.operand(of, scope, depth - 1).classes() {
                    days if days == ClassSet::from_list(&[TypeClass::Date]) => {
                        OperandClass::from_one(TypeClass::TimestampTz)
                    }
                    times => OperandClass::from_classes(times),
                }
            }
            _ => OperandClass::Unknown,
        };
        match &*key {
            "count" | "length" | "char_length" | "octet_length" | "row_number" | "rank"
            | "dense_rank" | "strpos" => OperandClass::from_one(TypeClass::Integer),
            "date_part" | "random" => OperandClass::from_one(TypeClass::Number),
            "date_trunc" => truncated(),
            // Of ranges, and of bytes, they give what those hold.
            "lower" | "upper" | "btrim" | "ltrim" | "rtrim" | "string_agg"
                if values().is_text() =>
            {
                text_operand()
            }
            "left" | "right" | "substr" | "substring"
                if args.first().is_some_and(|arg| match arg {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(of)) => {
                        self.operand(of, scope, depth - 1).is_text()
                    }
                    _ => false,
                }) =>
            {
                text_operand()
            }
            "replace" | "concat" | "concat_ws" | "initcap" | "to_char" | "md5" => text_operand(),
            "sum" | "avg" | "abs" | "round" | "floor" | "ceil" | "ceiling" | "mod" | "power"
            | "sqrt"
                if values().is_number() =>
            {
                OperandClass::numbers()
            }
            "min" | "max" | "coalesce" | "greatest" | "least" => values().settled(),
            "now" | "current_timestamp" => OperandClass::from_one(TypeClass::TimestampTz),
            "localtimestamp" => OperandClass::from_one(TypeClass::Timestamp),
            "current_date" => OperandClass::from_one(TypeClass::Date),
            _ => OperandClass::Unknown,
        }
    }
}

/// What a sum or a difference is: of numbers, or of a day or a point in time and how far to go from there.
fn shift_operand(left: OperandClass, right: OperandClass) -> OperandClass {
    let interval = OperandClass::from_one(TypeClass::Interval);
    let date = OperandClass::from_one(TypeClass::Date);
    if left.or(right).is_number() {
        OperandClass::numbers()
    } else if left == date && right.is_number() {
        date
    } else if left == date && right == interval {
        OperandClass::from_one(TypeClass::Timestamp)
    } else if left.is_moment() && right == interval {
        left
    } else {
        OperandClass::Unknown
    }
}

/// What a value of a written type is.
pub(in crate::resolve) fn type_operand(data_type: &DataType) -> OperandClass {
    match data_type {
        DataType::Custom(..) => OperandClass::Unknown,
        other => {
            let written = other.to_string();
            if written.contains('[') {
                return OperandClass::Unknown;
            }
            let name = postgres_type_name(&written);
            OperandClass::from_class(TypeClass::from_name(Dialect::Postgres, &name))
        }
    }
}
