//! Expressions: every variant of the parser's enum is answered.

use sqlparser::ast::{
    BinaryOperator, CaseWhen, DataType, DuplicateTreatment, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArgumentClause, FunctionArgumentList, FunctionArguments, Ident,
    ObjectNamePart, UnaryOperator, Value, ValueWithSpan, WindowFrame, WindowFrameBound, WindowSpec,
    WindowType,
};

use super::{
    Resolver,
    from::unknown_column,
    query::Ctes,
    scope::{Found, Scope},
    unsupported,
};
use crate::{
    access::Usage,
    catalog::{
        ColumnId,
        functions::{FunctionDef, Kinds, registry},
    },
    code::Code,
    lineage::Lineage,
    rejection::Rejection,
    syntax::{decode, named},
    value::Placeholder,
};

impl<'a> Resolver<'a> {
    /// Resolves an expression and gives the columns it is made from.
    pub(super) fn expr(
        &mut self,
        expr: &mut Expr,
        scope: &Scope<'a, '_>,
        ctes: Ctes<'_>,
        usage: Usage,
    ) -> Result<Vec<ColumnId>, Rejection> {
        let mut columns = Vec::new();
        self.walk(expr, &Place { scope, ctes, usage }, &mut columns)?;
        Ok(columns)
    }

    /// The column that an already resolved expression is.
    pub(super) fn column_of(
        &self,
        expr: &Expr,
        scope: &Scope<'a, '_>,
    ) -> Option<(Lineage, String)> {
        let found = match expr {
            Expr::Nested(inner) => return self.column_of(inner, scope),
            Expr::Identifier(ident) => scope.find(None, &self.key(ident)),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [qualifier, name] => scope.find(Some(&self.key(qualifier)), &self.key(name)),
                _ => return None,
            },
            _ => return None,
        };
        match found {
            Found::Column(lineage, name)
            | Found::RowIdAlias {
                lineage,
                qualifier: _,
                name,
            } => Some((lineage, name)),
            Found::RowId => Some((Lineage::default(), "rowid".to_owned())),
            Found::Alias(_) | Found::Ambiguous | Found::Nothing => None,
        }
    }

    fn walk(
        &mut self,
        expr: &mut Expr,
        at: &Place<'a, '_, '_>,
        out: &mut Vec<ColumnId>,
    ) -> Result<(), Rejection> {
        match expr {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => self.column(expr, at, out),
            Expr::Value(value) => {
                let ValueWithSpan { value, span } = value;
                self.value(value, span.start)?;
                // `0xffffffffffffffff` is -1, which is a sign and a number.
                if let Value::Number(text, long) = value
                    && let Some(digits) = text.strip_prefix('-')
                {
                    let digits = Value::Number(digits.to_owned(), *long);
                    *expr = Expr::Nested(Box::new(Expr::UnaryOp {
                        op: UnaryOperator::Minus,
                        expr: Box::new(Expr::Value(digits.into())),
                    }));
                }
                Ok(())
            }
            Expr::Nested(inner)
            | Expr::IsFalse(inner)
            | Expr::IsNotFalse(inner)
            | Expr::IsTrue(inner)
            | Expr::IsNotTrue(inner)
            | Expr::IsNull(inner)
            | Expr::IsNotNull(inner) => self.walk(inner, at, out),
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
                self.walk(left, at, out)?;
                self.walk(right, at, out)
            }
            Expr::InList {
                expr,
                list,
                negated: _,
            } => {
                self.walk(expr, at, out)?;
                self.walk_all(list, at, out)
            }
            Expr::InSubquery {
                expr,
                subquery,
                negated: _,
            } => {
                self.walk(expr, at, out)?;
                self.subquery(subquery, at, out)
            }
            Expr::Between {
                expr,
                negated: _,
                low,
                high,
            } => {
                self.walk(expr, at, out)?;
                self.walk(low, at, out)?;
                self.walk(high, at, out)
            }
            Expr::BinaryOp { left, op, right } => {
                if let Some(function) = operator(op)? {
                    self.access.functions.insert(function.to_owned());
                }
                self.walk(left, at, out)?;
                self.walk(right, at, out)
            }
            Expr::Like {
                negated: _,
                any,
                expr,
                pattern,
                escape_char,
            } => {
                if *any {
                    return Err(unsupported("LIKE ANY"));
                }
                self.access.functions.insert("like".to_owned());
                self.walk(expr, at, out)?;
                self.walk(pattern, at, out)?;
                match escape_char {
                    Some(escape) => self.walk(escape, at, out),
                    None => Ok(()),
                }
            }
            Expr::UnaryOp { op, expr } => {
                match op {
                    UnaryOperator::Plus
                    | UnaryOperator::Minus
                    | UnaryOperator::Not
                    | UnaryOperator::BitwiseNot => {}
                    UnaryOperator::AtDashAt
                    | UnaryOperator::BangNot
                    | UnaryOperator::DoubleAt
                    | UnaryOperator::Hash
                    | UnaryOperator::PGAbs
                    | UnaryOperator::PGCubeRoot
                    | UnaryOperator::PGPostfixFactorial
                    | UnaryOperator::PGPrefixFactorial
                    | UnaryOperator::PGSquareRoot
                    | UnaryOperator::QuestionDash
                    | UnaryOperator::QuestionPipe => {
                        return Err(unsupported("an operator of another engine"));
                    }
                }
                self.walk(expr, at, out)?;
                // `- - 1` would be printed as a comment (F1).
                if matches!(**expr, Expr::UnaryOp { op: _, expr: _ }) {
                    let inner = std::mem::replace(&mut **expr, Expr::Identifier(Ident::new("")));
                    **expr = Expr::Nested(Box::new(inner));
                }
                Ok(())
            }
            Expr::Cast {
                kind,
                expr,
                data_type,
                format,
            } => {
                if *kind != sqlparser::ast::CastKind::Cast {
                    return Err(unsupported("a cast other than CAST(… AS …)"));
                }
                if format.is_some() {
                    return Err(unsupported("FORMAT in a cast"));
                }
                cast_type(data_type)?;
                self.walk(expr, at, out)
            }
            Expr::Collate { expr, collation } => {
                let known = match collation.0.as_mut_slice() {
                    [ObjectNamePart::Identifier(ident)] => {
                        self.normalise(ident);
                        matches!(self.key(ident).as_str(), "binary" | "nocase" | "rtrim")
                    }
                    _ => false,
                };
                if !known {
                    return Err(unsupported(
                        "a collation other than BINARY, NOCASE or RTRIM",
                    ));
                }
                self.walk(expr, at, out)
            }
            Expr::Case {
                case_token: _,
                end_token: _,
                operand,
                conditions,
                else_result,
            } => {
                if let Some(operand) = operand {
                    self.walk(operand, at, out)?;
                }
                for CaseWhen { condition, result } in conditions {
                    self.walk(condition, at, out)?;
                    self.walk(result, at, out)?;
                }
                match else_result {
                    Some(result) => self.walk(result, at, out),
                    None => Ok(()),
                }
            }
            Expr::Exists {
                subquery,
                negated: _,
            } => self.subquery(subquery, at, out),
            Expr::Subquery(subquery) => self.subquery(subquery, at, out),
            Expr::Tuple(exprs) => self.walk_all(exprs, at, out),
            Expr::Function(function) => self.function(function, at, out),
            // SQLite has these as functions with special spellings in the parser.
            Expr::Ceil { expr, field } => {
                self.access.functions.insert("ceil".to_owned());
                no_field(field)?;
                self.walk(expr, at, out)
            }
            Expr::Floor { expr, field } => {
                self.access.functions.insert("floor".to_owned());
                no_field(field)?;
                self.walk(expr, at, out)
            }
            Expr::Substring {
                expr,
                substring_from,
                substring_for,
                special,
                shorthand,
            } => {
                if !*special {
                    return Err(unsupported("SUBSTRING … FROM … FOR"));
                }
                self.access
                    .functions
                    .insert(if *shorthand { "substr" } else { "substring" }.to_owned());
                self.walk(expr, at, out)?;
                for part in [substring_from, substring_for].into_iter().flatten() {
                    self.walk(part, at, out)?;
                }
                Ok(())
            }
            Expr::Trim {
                trim_where,
                trim_what,
                expr,
                trim_characters,
            } => {
                if trim_where.is_some() || trim_what.is_some() {
                    return Err(unsupported("TRIM … FROM"));
                }
                self.access.functions.insert("trim".to_owned());
                self.walk(expr, at, out)?;
                match trim_characters {
                    Some(characters) => self.walk_all(characters, at, out),
                    None => Ok(()),
                }
            }
            Expr::CompoundFieldAccess {
                root: _,
                access_chain: _,
            } => Err(unsupported("field access or a subscript")),
            Expr::JsonAccess { value: _, path: _ } => Err(unsupported("`:` path access")),
            Expr::IsUnknown(_) | Expr::IsNotUnknown(_) => Err(unsupported("IS UNKNOWN")),
            Expr::IsJson {
                expr: _,
                kind: _,
                unique_keys: _,
                negated: _,
            } => Err(unsupported("IS JSON")),
            Expr::IsNormalized {
                expr: _,
                form: _,
                negated: _,
            } => Err(unsupported("IS NORMALIZED")),
            Expr::InUnnest {
                expr: _,
                array_expr: _,
                negated: _,
            } => Err(unsupported("IN UNNEST")),
            Expr::ILike {
                negated: _,
                any: _,
                expr: _,
                pattern: _,
                escape_char: _,
            } => Err(unsupported(
                "ILIKE (LIKE ignores the case of ASCII letters here)",
            )),
            Expr::SimilarTo {
                negated: _,
                expr: _,
                pattern: _,
                escape_char: _,
            } => Err(unsupported("SIMILAR TO")),
            Expr::RLike {
                negated: _,
                expr: _,
                pattern: _,
                regexp: _,
            } => Err(Rejection::new(
                Code::FunctionUnknown,
                "there is no function `regexp`",
            )),
            Expr::AnyOp {
                left: _,
                compare_op: _,
                right: _,
                is_some: _,
            } => Err(unsupported("ANY")),
            Expr::AllOp {
                left: _,
                compare_op: _,
                right: _,
            } => Err(unsupported("ALL")),
            Expr::Convert {
                is_try: _,
                expr: _,
                data_type: _,
                charset: _,
                target_before_value: _,
                styles: _,
            } => Err(unsupported("CONVERT")),
            Expr::AtTimeZone {
                timestamp: _,
                time_zone: _,
            } => Err(unsupported("AT TIME ZONE")),
            Expr::Extract {
                field: _,
                syntax: _,
                expr: _,
            } => Err(unsupported("EXTRACT (use strftime)")),
            Expr::Position { expr: _, r#in: _ } => Err(unsupported("POSITION (use instr)")),
            Expr::Overlay {
                expr: _,
                overlay_what: _,
                overlay_from: _,
                overlay_for: _,
            } => Err(unsupported("OVERLAY")),
            Expr::Prefixed {
                prefix: _,
                value: _,
            } => Err(unsupported("a prefixed literal")),
            Expr::TypedString(_) => Err(unsupported("a typed literal such as DATE '…'")),
            Expr::GroupingSets(_) | Expr::Cube(_) | Expr::Rollup(_) => Err(unsupported(
                "GROUPING SETS, CUBE or ROLLUP (SQLite has none)",
            )),
            Expr::Struct {
                values: _,
                fields: _,
            } => Err(unsupported("STRUCT")),
            Expr::Named { expr: _, name: _ } => Err(unsupported("a named expression")),
            Expr::Dictionary(_) | Expr::Map(_) => Err(unsupported("a map literal")),
            Expr::Array(_) => Err(unsupported("an array")),
            Expr::Interval(_) => Err(unsupported("INTERVAL")),
            Expr::MatchAgainst {
                columns: _,
                match_value: _,
                opt_search_modifier: _,
            } => Err(unsupported("MATCH … AGAINST")),
            Expr::Wildcard(_) | Expr::QualifiedWildcard(_, _) => {
                Err(unsupported("`*` in an expression"))
            }
            Expr::OuterJoin(_) => Err(unsupported("(+)")),
            Expr::Prior(_) => Err(unsupported("PRIOR")),
            Expr::Lambda(_) => Err(unsupported("a lambda")),
            Expr::MemberOf(_) => Err(unsupported("MEMBER OF")),
        }
    }

    fn walk_all(
        &mut self,
        exprs: &mut [Expr],
        at: &Place<'a, '_, '_>,
        out: &mut Vec<ColumnId>,
    ) -> Result<(), Rejection> {
        exprs
            .iter_mut()
            .try_for_each(|expr| self.walk(expr, at, out))
    }

    fn subquery(
        &mut self,
        query: &mut sqlparser::ast::Query,
        at: &Place<'a, '_, '_>,
        out: &mut Vec<ColumnId>,
    ) -> Result<(), Rejection> {
        let outputs = self.query(query, Some(at.scope), at.ctes, false)?;
        for output in outputs {
            for column in output.lineage.columns {
                self.touch(column, at.usage);
                out.push(column);
            }
        }
        Ok(())
    }

    fn column(
        &mut self,
        expr: &mut Expr,
        at: &Place<'a, '_, '_>,
        out: &mut Vec<ColumnId>,
    ) -> Result<(), Rejection> {
        let (qualifier, ident) = match expr {
            Expr::Identifier(ident) => (None, ident),
            Expr::CompoundIdentifier(parts) => {
                if parts.len() == 3 {
                    let schema = self.key(&parts.remove(0));
                    if schema != self.catalog.default_schema() {
                        return Err(unknown_column(&schema, &[]));
                    }
                }
                match parts.as_mut_slice() {
                    [qualifier, ident] => {
                        self.normalise(qualifier);
                        (Some(self.key(qualifier)), ident)
                    }
                    _ => return Err(unsupported("a column name of this form")),
                }
            }
            _ => return Err(unsupported("a column name of this form")),
        };
        let shown = decode(ident).into_owned();
        let key = self.fold(&shown);
        let lineage = match at.scope.find(qualifier.as_deref(), &key) {
            Found::Column(lineage, _) | Found::Alias(lineage) => {
                self.normalise(ident);
                lineage
            }
            Found::RowIdAlias {
                lineage,
                qualifier,
                name,
            } => {
                let name = self.encode(&name);
                *expr = match qualifier {
                    Some(qualifier) => {
                        Expr::CompoundIdentifier(vec![self.encode(&qualifier), name])
                    }
                    None => Expr::Identifier(name),
                };
                lineage
            }
            Found::RowId => return Ok(()),
            Found::Ambiguous => {
                return Err(Rejection::new(
                    Code::NameAmbiguous,
                    format!("`{shown}` could be a column of more than one table"),
                ));
            }
            // SQLite takes a double-quoted word that names nothing for a string.
            Found::Nothing if qualifier.is_none() && ident.quote_style == Some('"') => {
                let literal = Value::SingleQuotedString(shown.replace('\'', "''"));
                *expr = Expr::Value(literal.into());
                return Ok(());
            }
            Found::Nothing => {
                let candidates = at.scope.visible_names(qualifier.as_deref());
                return Err(unknown_column(&shown, &candidates));
            }
        };
        for column in lineage.columns {
            self.touch(column, at.usage);
            out.push(column);
        }
        Ok(())
    }

    fn value(
        &mut self,
        value: &mut Value,
        start: sqlparser::tokenizer::Location,
    ) -> Result<(), Rejection> {
        match value {
            Value::Number(text, _) => {
                // `1_000` is one number to SQLite 3.46 and later, and two tokens before.
                text.retain(|c| c != '_');
                Ok(())
            }
            Value::SingleQuotedString(_) | Value::Boolean(_) | Value::Null => Ok(()),
            Value::HexStringLiteral(digits) => {
                // The parser reads `0x1F`, an integer, like `x'1F'`, a blob.
                if self.outline.is_hex_number(start) {
                    let digits = digits.replace('_', "");
                    let number = u64::from_str_radix(&digits, 16).map_err(|_| {
                        Rejection::new(Code::SyntaxInvalid, "a number is too large")
                    })?;
                    *value = Value::Number(number.cast_signed().to_string(), false);
                }
                Ok(())
            }
            Value::Placeholder(text) => {
                let written = text.strip_prefix('?').and_then(|n| n.parse().ok());
                let placeholder = match written.or(self.outline.positional.get(&start).copied()) {
                    Some(number) => {
                        *text = format!("?{number}");
                        Placeholder::Number(number)
                    }
                    None => named(text).ok_or_else(|| {
                        Rejection::new(Code::SyntaxInvalid, "a placeholder of this form")
                    })?,
                };
                let number = match placeholder {
                    Placeholder::Number(number) => number,
                    Placeholder::Name(_) => 0,
                };
                self.placeholders.insert(placeholder, number);
                Ok(())
            }
            Value::DollarQuotedString(_)
            | Value::TripleSingleQuotedString(_)
            | Value::TripleDoubleQuotedString(_)
            | Value::EscapedStringLiteral(_)
            | Value::UnicodeStringLiteral(_)
            | Value::SingleQuotedByteStringLiteral(_)
            | Value::DoubleQuotedByteStringLiteral(_)
            | Value::TripleSingleQuotedByteStringLiteral(_)
            | Value::TripleDoubleQuotedByteStringLiteral(_)
            | Value::SingleQuotedRawStringLiteral(_)
            | Value::DoubleQuotedRawStringLiteral(_)
            | Value::TripleSingleQuotedRawStringLiteral(_)
            | Value::TripleDoubleQuotedRawStringLiteral(_)
            | Value::NationalStringLiteral(_)
            | Value::QuoteDelimitedStringLiteral(_)
            | Value::NationalQuoteDelimitedStringLiteral(_)
            | Value::DoubleQuotedString(_) => Err(unsupported("a literal of another engine")),
        }
    }

    fn function(
        &mut self,
        function: &mut Function,
        at: &Place<'a, '_, '_>,
        out: &mut Vec<ColumnId>,
    ) -> Result<(), Rejection> {
        let Function {
            name,
            uses_odbc_syntax,
            parameters,
            args,
            within_group,
            filter,
            null_treatment,
            over,
        } = function;
        if *uses_odbc_syntax {
            return Err(unsupported("{fn …}"));
        }
        if !matches!(parameters, FunctionArguments::None) {
            return Err(unsupported("a parametric function"));
        }
        if !within_group.is_empty() {
            return Err(unsupported("WITHIN GROUP"));
        }
        if null_treatment.is_some() {
            return Err(unsupported("IGNORE or RESPECT NULLS"));
        }
        let [ObjectNamePart::Identifier(ident)] = name.0.as_mut_slice() else {
            return Err(Rejection::new(
                Code::FunctionUnknown,
                format!("there is no function `{name}`"),
            ));
        };
        let key = self.key(ident);
        let Some(def) = registry(self.catalog.dialect()).get(&key) else {
            return Err(Rejection::new(
                Code::FunctionUnknown,
                format!("there is no function `{key}`"),
            ));
        };
        *ident = Ident::new(&def.name);
        self.access.functions.insert(def.uid.clone());
        let count = match args {
            FunctionArguments::None => None,
            FunctionArguments::Subquery(_) => return Err(unsupported("a bare subquery argument")),
            FunctionArguments::List(FunctionArgumentList {
                duplicate_treatment,
                args,
                clauses,
            }) => {
                if matches!(duplicate_treatment, Some(DuplicateTreatment::All)) {
                    return Err(unsupported("ALL in an aggregate"));
                }
                for clause in clauses {
                    match clause {
                        FunctionArgumentClause::OrderBy(terms) => {
                            self.order_terms(terms, at.scope, at.ctes)?;
                        }
                        FunctionArgumentClause::IgnoreOrRespectNulls(_)
                        | FunctionArgumentClause::Where(_)
                        | FunctionArgumentClause::Limit(_)
                        | FunctionArgumentClause::OnOverflow(_)
                        | FunctionArgumentClause::Having(_)
                        | FunctionArgumentClause::Separator(_)
                        | FunctionArgumentClause::JsonNullClause(_)
                        | FunctionArgumentClause::JsonReturningClause(_) => {
                            return Err(unsupported("a clause inside a function call"));
                        }
                    }
                }
                let mut star = false;
                for arg in args.iter_mut() {
                    match arg {
                        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => {
                            self.walk(expr, at, out)?;
                        }
                        FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => star = true,
                        FunctionArg::Unnamed(
                            FunctionArgExpr::QualifiedWildcard(_)
                            | FunctionArgExpr::WildcardWithOptions(_),
                        ) => return Err(unsupported("a qualified `*` as an argument")),
                        FunctionArg::Named {
                            name: _,
                            arg: _,
                            operator: _,
                        }
                        | FunctionArg::ExprNamed {
                            name: _,
                            arg: _,
                            operator: _,
                        } => {
                            return Err(unsupported("a named argument"));
                        }
                    }
                }
                if star && (def.name != "count" || args.len() != 1) {
                    return Err(unsupported("`*` as an argument of anything but count"));
                }
                Some(args.len())
            }
        };
        let aggregate = def.kinds.is_over_rows(count);
        match count {
            None if def.kinds.niladic => {}
            None => {
                return Err(Rejection::new(
                    Code::SyntaxInvalid,
                    format!("`{key}` is not called in this form"),
                ));
            }
            Some(_) if def.kinds == NILADIC => {
                return Err(Rejection::new(
                    Code::SyntaxInvalid,
                    format!("`{key}` is not called in this form"),
                ));
            }
            Some(_) if def.kinds.table => {
                return Err(Rejection::new(
                    Code::FunctionUnknown,
                    format!("`{key}` is a table function; it stands in FROM"),
                ));
            }
            Some(count) => check_arity(def, count)?,
        }
        if !aggregate && (filter.is_some() || over.is_some()) {
            return Err(Rejection::new(
                Code::SyntaxInvalid,
                format!("`{key}` is not an aggregate: it takes neither FILTER nor OVER"),
            ));
        }
        if let Some(filter) = filter {
            let place = Place {
                usage: Usage::Filter,
                ..*at
            };
            self.walk(filter, &place, out)?;
        }
        match over {
            None => Ok(()),
            Some(WindowType::NamedWindow(name)) => {
                self.normalise(name);
                Ok(())
            }
            Some(WindowType::WindowSpec(spec)) => {
                out.extend(self.window(spec, at.scope, at.ctes)?);
                Ok(())
            }
        }
    }

    /// A window; its columns.
    pub(super) fn window(
        &mut self,
        spec: &mut WindowSpec,
        scope: &Scope<'a, '_>,
        ctes: Ctes<'_>,
    ) -> Result<Vec<ColumnId>, Rejection> {
        let WindowSpec {
            window_name,
            partition_by,
            order_by,
            window_frame,
        } = spec;
        if let Some(name) = window_name {
            self.normalise(name);
        }
        let mut columns = Vec::new();
        for expr in partition_by {
            columns.extend(self.expr(expr, scope, ctes, Usage::Group)?);
        }
        for term in order_by.iter_mut() {
            columns.extend(self.expr(&mut term.expr.clone(), scope, ctes, Usage::Order)?);
        }
        self.order_terms(order_by, scope, ctes)?;
        if let Some(WindowFrame {
            units: _,
            start_bound,
            end_bound,
        }) = window_frame
        {
            for bound in [Some(start_bound), end_bound.as_mut()]
                .into_iter()
                .flatten()
            {
                match bound {
                    WindowFrameBound::CurrentRow => {}
                    WindowFrameBound::Preceding(expr) | WindowFrameBound::Following(expr) => {
                        if let Some(expr) = expr {
                            self.expr(expr, scope, ctes, Usage::Order)?;
                        }
                    }
                }
            }
        }
        Ok(columns)
    }
}

const NILADIC: Kinds = Kinds {
    niladic: true,
    scalar: false,
    ..Kinds::SCALAR
};

/// Where an expression stands.
struct Place<'a, 's, 'c> {
    scope: &'s Scope<'a, 's>,
    ctes: Ctes<'c>,
    usage: Usage,
}

/// Refuses a call with too few or too many arguments.
pub(super) fn check_arity(def: &FunctionDef, count: usize) -> Result<(), Rejection> {
    let few = count < usize::from(def.min_args);
    let many = def.max_args.is_some_and(|max| count > usize::from(max));
    if few || many {
        return Err(Rejection::new(
            Code::SyntaxInvalid,
            format!("`{}` does not take {count} arguments", def.name),
        ));
    }
    Ok(())
}

/// The function behind an operator, if it is one to the engine.
fn operator(op: &BinaryOperator) -> Result<Option<&'static str>, Rejection> {
    match op {
        BinaryOperator::Plus
        | BinaryOperator::Minus
        | BinaryOperator::Multiply
        | BinaryOperator::Divide
        | BinaryOperator::Modulo
        | BinaryOperator::StringConcat
        | BinaryOperator::Gt
        | BinaryOperator::Lt
        | BinaryOperator::GtEq
        | BinaryOperator::LtEq
        | BinaryOperator::Eq
        | BinaryOperator::NotEq
        | BinaryOperator::And
        | BinaryOperator::Or
        | BinaryOperator::BitwiseOr
        | BinaryOperator::BitwiseAnd
        | BinaryOperator::PGBitwiseShiftLeft
        | BinaryOperator::PGBitwiseShiftRight => Ok(None),
        BinaryOperator::Arrow => Ok(Some("->")),
        BinaryOperator::LongArrow => Ok(Some("->>")),
        BinaryOperator::Glob => Ok(Some("glob")),
        BinaryOperator::Match => Err(unsupported("MATCH")),
        BinaryOperator::Regexp => Err(Rejection::new(
            Code::FunctionUnknown,
            "there is no function `regexp`",
        )),
        BinaryOperator::Spaceship
        | BinaryOperator::Xor
        | BinaryOperator::BitwiseXor
        | BinaryOperator::DuckIntegerDivide
        | BinaryOperator::MyIntegerDivide
        | BinaryOperator::Custom(_)
        | BinaryOperator::PGBitwiseXor
        | BinaryOperator::PGExp
        | BinaryOperator::PGOverlap
        | BinaryOperator::PGRegexMatch
        | BinaryOperator::PGRegexIMatch
        | BinaryOperator::PGRegexNotMatch
        | BinaryOperator::PGRegexNotIMatch
        | BinaryOperator::PGLikeMatch
        | BinaryOperator::PGILikeMatch
        | BinaryOperator::PGNotLikeMatch
        | BinaryOperator::PGNotILikeMatch
        | BinaryOperator::PGStartsWith
        | BinaryOperator::HashArrow
        | BinaryOperator::HashLongArrow
        | BinaryOperator::AtAt
        | BinaryOperator::AtArrow
        | BinaryOperator::ArrowAt
        | BinaryOperator::HashMinus
        | BinaryOperator::AtQuestion
        | BinaryOperator::Question
        | BinaryOperator::QuestionAnd
        | BinaryOperator::QuestionPipe
        | BinaryOperator::PGCustomBinaryOperator(_)
        | BinaryOperator::Overlaps
        | BinaryOperator::DoubleHash
        | BinaryOperator::LtDashGt
        | BinaryOperator::AndLt
        | BinaryOperator::AndGt
        | BinaryOperator::LtLtPipe
        | BinaryOperator::PipeGtGt
        | BinaryOperator::AndLtPipe
        | BinaryOperator::PipeAndGt
        | BinaryOperator::LtCaret
        | BinaryOperator::GtCaret
        | BinaryOperator::QuestionHash
        | BinaryOperator::QuestionDash
        | BinaryOperator::QuestionDashPipe
        | BinaryOperator::QuestionDoublePipe
        | BinaryOperator::At
        | BinaryOperator::TildeEq
        | BinaryOperator::Assignment => Err(unsupported("an operator of another engine")),
    }
}

/// SQLite's casts know five affinities; a type's name only chooses one, so nothing runs for a type.
/// Names that hold expressions or nested types are refused all the same.
fn cast_type(data_type: &DataType) -> Result<(), Rejection> {
    let plain = data_type
        .to_string()
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b' ' | b'_' | b'(' | b')' | b','));
    if plain {
        Ok(())
    } else {
        Err(unsupported("a type of this form in a cast"))
    }
}

fn no_field(field: &sqlparser::ast::CeilFloorKind) -> Result<(), Rejection> {
    match field {
        sqlparser::ast::CeilFloorKind::DateTimeField(sqlparser::ast::DateTimeField::NoDateTime) => {
            Ok(())
        }
        sqlparser::ast::CeilFloorKind::DateTimeField(_)
        | sqlparser::ast::CeilFloorKind::Scale(_) => Err(unsupported("CEIL or FLOOR … TO")),
    }
}
