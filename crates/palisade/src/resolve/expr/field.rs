//! Fields of rows, and subscripts: `(expr).field`, `expr[1]`.
//!
//! PostgreSQL reads `(expr).name` as a field where the value is a row that has it. Else it calls a function of this name, or
//! casts to a type of this name: any function, and any type, of any table that is there (`ParseFuncOrColumn` in its source,
//! <https://www.postgresql.org/docs/current/sql-expressions.html#FIELD-SELECTION>). So a field stands where the value is known
//! to be a row that has it, and nowhere else.

use sqlparser::ast::{
    AccessExpr, Array, ArrayElemTypeDef, CastKind, DataType, Expr, FunctionArg, FunctionArguments,
    Ident, ObjectName, ObjectNamePart, Subscript, TypedString, Value,
};

use crate::resolve::{
    Resolver,
    expr::ExprContext,
    refuse_unsupported, refuse_with_replacement,
    scope::{Found, Scope},
};
use crate::{
    catalog::{ColumnId, Relation, RelationKind, TypeKind},
    code::Code,
    dialect::Dialect,
    policy::obligation::{ColumnLevel, Mask},
    rejection::Rejection,
    syntax::{decode, read_plain_arguments},
};

/// Functions that give rows like their first argument.
const POPULATED: [&str; 4] = [
    "json_populate_record",
    "json_populate_recordset",
    "jsonb_populate_record",
    "jsonb_populate_recordset",
];

/// The fields that a value is known to have.
///
/// A row without a type of its own has names where it is made, and none behind an array, an aggregate or a function: there the
/// server has `record`, finds no field in it, and calls a function.
pub(in crate::resolve) enum Fields {
    /// It is a row without a type of its own.
    Untyped(Vec<Field>),
    /// It is a row of a table's type or of a composite type.
    Row(Vec<Field>),
    /// It is an array of such rows.
    Rows(Vec<Field>),
}

/// A field of a row.
pub(in crate::resolve) struct Field {
    pub(in crate::resolve) name: String,
    /// As `format_type` spells it, where it is known.
    type_name: Option<String>,
}

impl<'a> Resolver<'a> {
    /// `(expr).field`, `expr[1]`.
    pub(in crate::resolve) fn field_access(
        &mut self,
        expr: &mut Expr,
        at: &ExprContext<'a, '_, '_>,
        out: &mut Vec<ColumnId>,
    ) -> Result<(), Rejection> {
        if self.catalog.dialect() != Dialect::Postgres {
            if let Expr::CompoundFieldAccess {
                root,
                access_chain: _,
            } = expr
                && let Expr::Value(value) = &**root
                && matches!(value.value, Value::DoubleQuotedString(_))
            {
                return Err(refuse_with_replacement(
                    "a name in double quotes",
                    "names bare, or in backticks",
                ));
            }
            return Err(refuse_unsupported("field access or a subscript"));
        }
        if self.row_field(expr, at.scope)? {
            return self.walk(expr, at, out);
        }
        let Expr::CompoundFieldAccess { root, access_chain } = expr else {
            return Ok(());
        };
        let is_field = |access: &AccessExpr| matches!(access, AccessExpr::Dot(_));
        let mut fields = match access_chain.iter().any(is_field) {
            true => self.known_fields(root, at.scope)?,
            false => None,
        };
        self.walk(root, at, out)?;
        for access in access_chain {
            fields = self.fields_of_access(fields, access)?;
            match access {
                AccessExpr::Dot(Expr::Identifier(field)) => self.normalise(field),
                AccessExpr::Dot(_) => return Err(refuse_unsupported("a field of this form")),
                AccessExpr::Subscript(Subscript::Index { index }) => self.walk(index, at, out)?,
                AccessExpr::Subscript(Subscript::Slice {
                    lower_bound,
                    upper_bound,
                    stride,
                }) => {
                    if stride.is_some() {
                        return Err(refuse_unsupported("a stride in a subscript"));
                    }
                    for bound in [lower_bound, upper_bound].into_iter().flatten() {
                        self.walk(bound, at, out)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The fields that a field or an element of a value is known to have, by those of the value.
    ///
    /// # Errors
    /// `syntax.unsupported` where the value is not known to have the field.
    fn fields_of_access(
        &mut self,
        fields: Option<Fields>,
        access: &AccessExpr,
    ) -> Result<Option<Fields>, Rejection> {
        match access {
            AccessExpr::Dot(Expr::Identifier(field)) => {
                let key = self.key(field);
                let found = match fields {
                    Some(Fields::Untyped(fields) | Fields::Row(fields)) => {
                        fields.into_iter().find(|f| f.name == *key)
                    }
                    Some(Fields::Rows(_)) | None => None,
                };
                match found.ok_or_else(|| refuse_unknown_field(field))?.type_name {
                    Some(type_name) => self.fields_of_type(&type_name),
                    None => Ok(None),
                }
            }
            AccessExpr::Dot(_) => Err(refuse_unsupported("a field of this form")),
            AccessExpr::Subscript(Subscript::Index { index: _ }) => Ok(match fields {
                Some(Fields::Rows(fields)) => Some(Fields::Row(fields)),
                Some(Fields::Untyped(_) | Fields::Row(_)) | None => None,
            }),
            AccessExpr::Subscript(Subscript::Slice {
                lower_bound: _,
                upper_bound: _,
                stride: _,
            }) => Ok(fields),
        }
    }

    /// `(t).c` of a table in FROM is `t.c`, with subscripts and fields behind it or not.
    fn row_field(&self, expr: &mut Expr, scope: &Scope<'a, '_>) -> Result<bool, Rejection> {
        let Expr::CompoundFieldAccess { root, access_chain } = expr else {
            return Ok(false);
        };
        let [AccessExpr::Dot(Expr::Identifier(field)), rest @ ..] = access_chain.as_slice() else {
            return Ok(false);
        };
        let Some(table) = self.named_row(root, scope) else {
            return Ok(false);
        };
        let column = Expr::CompoundIdentifier(vec![table.clone(), field.clone()]);
        if rest.is_empty() {
            *expr = column;
        } else {
            // `(t.c).f`: without parentheses it would be the column `f` of `t.c`.
            **root = match rest.first() {
                Some(AccessExpr::Dot(_)) => Expr::Nested(Box::new(column)),
                Some(AccessExpr::Subscript(_)) | None => column,
            };
            access_chain.remove(0);
        }
        Ok(true)
    }

    /// The name of the table in FROM whose whole row this is: `t`, `(t)`, `t.*`.
    fn named_row<'e>(&self, expr: &'e Expr, scope: &Scope<'a, '_>) -> Option<&'e Ident> {
        match expr {
            Expr::Nested(inner) => self.named_row(inner, scope),
            Expr::QualifiedWildcard(ObjectName(parts), _) => match parts.as_slice() {
                [ObjectNamePart::Identifier(table)] => Some(table),
                _ => None,
            },
            Expr::Identifier(table) => match scope.find(None, &self.key(table)) {
                Found::WholeRow(_) => Some(table),
                Found::Column(_, _)
                | Found::RowIdAlias {
                    origin: _,
                    qualifier: _,
                    name: _,
                }
                | Found::RowId
                | Found::Alias(_)
                | Found::Ambiguous
                | Found::Nothing => None,
            },
            _ => None,
        }
    }

    /// The fields that `expr` is known to have.
    pub(in crate::resolve) fn known_fields(
        &mut self,
        expr: &Expr,
        scope: &Scope<'a, '_>,
    ) -> Result<Option<Fields>, Rejection> {
        if let Some(table) = self.named_row(expr, scope) {
            let key = self.table_key(table);
            let is_typed = match scope.row_relation(&key) {
                Some(relation) => self.keeps_row_type(relation, &key, scope)?,
                None => false,
            };
            let row = scope.row_columns(&key);
            return Ok(row.map(|columns| {
                let fields = columns.into_iter().map(|(name, column)| Field {
                    name: name.to_string(),
                    type_name: column.and_then(|id| self.kept_type(id)),
                });
                let fields = fields.collect();
                match is_typed {
                    true => Fields::Row(fields),
                    false => Fields::Untyped(fields),
                }
            }));
        }
        if let Expr::Nested(inner) = expr {
            return self.known_fields(inner, scope);
        }
        if let Expr::CompoundFieldAccess { root, access_chain } = expr {
            let mut fields = self.known_fields(root, scope)?;
            for access in access_chain {
                fields = self.fields_of_access(fields, access)?;
            }
            return Ok(fields);
        }
        if let Some((lineage, _)) = self.column_of(expr, scope) {
            return match lineage.identity.and_then(|id| self.kept_type(id)) {
                Some(type_name) => self.fields_of_type(&type_name),
                None => Ok(None),
            };
        }
        if let Expr::Cast {
            kind: CastKind::Cast | CastKind::DoubleColon,
            expr: _,
            data_type,
            format: _,
        }
        | Expr::TypedString(TypedString {
            data_type,
            value: _,
            uses_odbc_syntax: _,
        }) = expr
        {
            return self.fields_of_cast(data_type);
        }
        if let Expr::Array(Array { elem, named: _ }) = expr {
            return match elem.first() {
                Some(first) => Ok(self.known_fields(first, scope)?.and_then(Fields::into_rows)),
                None => Ok(None),
            };
        }
        if let Expr::Tuple(values) = expr {
            return Ok(Some(numbered_fields(values.len())));
        }
        if let Expr::Function(call) = expr
            && let FunctionArguments::List(list) = &call.args
        {
            return self.fields_of_call(&call.name, &list.args, scope);
        }
        Ok(None)
    }

    fn fields_of_call(
        &mut self,
        name: &ObjectName,
        args: &[FunctionArg],
        scope: &Scope<'a, '_>,
    ) -> Result<Option<Fields>, Rejection> {
        let Some((schema, key)) = self.name_keys(name) else {
            return Ok(None);
        };
        if key == "row" && schema.is_none() {
            return Ok(Some(numbered_fields(args.len())));
        }
        if key == "array_agg"
            && self.is_engines_function(&key)
            && let Some(&[arg]) = read_plain_arguments(args).as_deref()
        {
            return Ok(self.known_fields(arg, scope)?.and_then(Fields::into_rows));
        }
        if POPULATED.contains(&&*key)
            && self.is_engines_function(&key)
            && let Some(&[row, _]) = read_plain_arguments(args).as_deref()
        {
            return Ok(match self.known_fields(row, scope)? {
                Some(Fields::Row(fields)) => Some(Fields::Row(fields)),
                Some(Fields::Untyped(_) | Fields::Rows(_)) | None => None,
            });
        }
        let mut lists = Vec::new();
        for def in self.catalog.functions_named(&key) {
            let is_other = |asked: &String| def.schema.as_ref().is_some_and(|own| own != asked);
            if schema.as_ref().is_some_and(is_other) {
                continue;
            }
            if def.columns.is_empty() {
                return Ok(None);
            }
            lists.extend(&def.columns);
        }
        // What gives one column gives a value, and no row.
        let is_row = |first: &[String]| first.len() > 1 && lists.iter().all(|list| *list == first);
        let first = lists.first().filter(|first| is_row(first));
        Ok(first.map(|names| {
            let fields = names.iter().map(|name| Field {
                name: name.clone(),
                type_name: None,
            });
            Fields::Untyped(fields.collect())
        }))
    }

    /// The folded schema and name that a name of one or two parts has.
    fn name_keys(&self, ObjectName(parts): &ObjectName) -> Option<(Option<String>, String)> {
        let keys = parts.iter().map(|part| Some(self.key(part.as_ident()?)));
        match keys.collect::<Option<Vec<_>>>()?.as_slice() {
            [key] => Some((None, key.to_string())),
            [schema, key] => Some((Some(schema.to_string()), key.to_string())),
            _ => None,
        }
    }

    /// Of the type that a cast names.
    pub(in crate::resolve) fn fields_of_cast(
        &mut self,
        data_type: &DataType,
    ) -> Result<Option<Fields>, Rejection> {
        if let DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) = data_type {
            return Ok(self.fields_of_cast(element)?.and_then(Fields::into_rows));
        }
        let name = match data_type {
            DataType::Custom(name, _) => self.name_keys(name),
            _ => None,
        };
        match name {
            Some((schema, key)) => self.fields_of_row_type(schema.as_deref(), &key),
            None => Ok(None),
        }
    }

    /// Of a type as `format_type` spells it.
    fn fields_of_type(&mut self, type_name: &str) -> Result<Option<Fields>, Rejection> {
        if let Some(element) = type_name.strip_suffix("[]") {
            return Ok(self.fields_of_type(element)?.and_then(Fields::into_rows));
        }
        if type_name.contains(['"', '(', ' ']) {
            return Ok(None);
        }
        match type_name.split_once('.') {
            Some((schema, key)) => self.fields_of_row_type(Some(schema), key),
            None => self.fields_of_row_type(None, type_name),
        }
    }

    fn fields_of_row_type(
        &mut self,
        schema: Option<&str>,
        key: &str,
    ) -> Result<Option<Fields>, Rejection> {
        let row = self.row_type(schema, key)?;
        Ok(row.map(|columns| {
            let fields = columns.into_iter().map(|(name, type_name)| Field {
                name,
                type_name: Some(type_name),
            });
            Fields::Row(fields.collect())
        }))
    }

    /// Whether a row of `relation`, which FROM calls `key`, has the table's own type where the statement runs. What stands in the
    /// place of a table with obligations gives rows without a type. An alias may have given the columns other names.
    fn keeps_row_type(
        &self,
        relation: &Relation,
        key: &str,
        scope: &Scope<'a, '_>,
    ) -> Result<bool, Rejection> {
        if relation.kind != RelationKind::Table
            || self.visible.relation(relation.id)?.has_obligation()
        {
            return Ok(false);
        }
        let Some(columns) = scope.row_columns(key) else {
            return Ok(false);
        };
        let named = columns.iter().map(|(name, _)| &**name);
        Ok(named.eq(relation.columns.iter().map(|column| &*column.key)))
    }

    /// The declared type of a column, where what stands for it is of that type.
    fn kept_type(&self, id: ColumnId) -> Option<String> {
        let decision = self.visible.relation(id.relation).ok()?;
        let column = self.catalog.column(id)?;
        let is_kept = match &decision.columns.get(usize::from(id.index))?.level {
            ColumnLevel::Plain => true,
            // NULL is written with a composite type of the database, and without the type of a table's rows.
            ColumnLevel::Masked(mask) => {
                let element = column.type_name.trim_end_matches("[]");
                matches!(mask, Mask::Null) && self.is_composite(element)
            }
            ColumnLevel::Hidden => false,
        };
        is_kept.then(|| column.type_name.to_string())
    }

    fn is_composite(&self, type_name: &str) -> bool {
        self.catalog.types().iter().any(|def| {
            let is_named =
                type_name == def.name || type_name == format!("{}.{}", def.schema, def.name);
            is_named && matches!(def.kind, TypeKind::Composite(_))
        })
    }
}

impl Fields {
    /// Those of an array of such rows.
    fn into_rows(self) -> Option<Self> {
        match self {
            Self::Row(fields) => Some(Self::Rows(fields)),
            Self::Untyped(_) | Self::Rows(_) => None,
        }
    }

    /// The names, of one row.
    pub(in crate::resolve) fn into_names(self) -> Option<Vec<String>> {
        match self {
            Self::Untyped(fields) | Self::Row(fields) => {
                Some(fields.into_iter().map(|field| field.name).collect())
            }
            Self::Rows(_) => None,
        }
    }
}

/// Those of a row without a type: `f1`, `f2`.
fn numbered_fields(count: usize) -> Fields {
    let fields = (1..=count).map(|n| Field {
        name: format!("f{n}"),
        type_name: None,
    });
    Fields::Untyped(fields.collect())
}

fn refuse_unknown_field(field: &Ident) -> Rejection {
    let shown = decode(field);
    Rejection::new(
        Code::SyntaxUnsupported,
        format!(
            "the value before `.{shown}` is not known to be a row with this field. Select the field where the row comes from, \
             as in `(array_agg(t.{shown} ORDER BY t.id))[1]`, or cast the value to its row type: `(value::type).{shown}`. Write a call as \
             `{shown}(value)`"
        ),
    )
}
