//! Fields of rows, and subscripts: `(expr).field`, `expr[1]`.
//!
//! PostgreSQL reads `(expr).name` as a field where the value is a row that has it. Else it calls a function of this name, or
//! casts to a type of this name: any function, and any type, of any table that is there (`ParseFuncOrColumn` in its source,
//! <https://www.postgresql.org/docs/current/sql-expressions.html#FIELD-SELECTION>). So a field stands where the value is known
//! to be a row that has it, and nowhere else.

use sqlparser::ast::{
    AccessExpr, Array, ArrayElemTypeDef, CastKind, DataType, Expr, FunctionArg, FunctionArguments,
    Ident, ObjectName, ObjectNamePart, Subscript, TypedString,
};

use crate::resolve::{
    Resolver,
    expr::ExprContext,
    refuse_unsupported,
    scope::{Found, Scope},
};
use crate::{
    catalog::ColumnId,
    code::Code,
    dialect::Dialect,
    rejection::Rejection,
    syntax::{self, decode, read_plain_arguments},
};

/// What is known of the fields of a value.
enum Fields {
    Unknown,
    /// It is a row of these.
    Row(Vec<Field>),
    /// It is an array of such rows.
    Rows(Vec<Field>),
}

/// A field of a row.
struct Field {
    name: String,
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
            return Err(refuse_unsupported("field access or a subscript"));
        }
        if self.row_field(expr, at.scope)? {
            return self.walk(expr, at, out);
        }
        let Expr::CompoundFieldAccess { root, access_chain } = expr else {
            return Ok(());
        };
        let is_field = |access: &AccessExpr| matches!(access, AccessExpr::Dot(_));
        let mut value = if access_chain.iter().any(is_field) {
            self.fields(root, at.scope)?
        } else {
            Fields::Unknown
        };
        self.walk(root, at, out)?;
        for access in access_chain {
            value = match access {
                AccessExpr::Dot(Expr::Identifier(field)) => {
                    let key = self.key(field);
                    let below = self.field_of(&value, &key)?;
                    let below = below.ok_or_else(|| refuse_unknown_field(field))?;
                    self.normalise(field);
                    below
                }
                AccessExpr::Dot(_) => return Err(refuse_unsupported("a field of this form")),
                AccessExpr::Subscript(Subscript::Index { index }) => {
                    self.walk(index, at, out)?;
                    match value {
                        Fields::Rows(fields) => Fields::Row(fields),
                        Fields::Row(_) | Fields::Unknown => Fields::Unknown,
                    }
                }
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
                    value
                }
            };
        }
        Ok(())
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
            **root = column;
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
                Found::Column(..)
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

    /// The fields of what has this name in `value`; none where it is not known to be a field of it.
    fn field_of(&mut self, value: &Fields, key: &str) -> Result<Option<Fields>, Rejection> {
        let fields = match value {
            Fields::Row(fields) => fields,
            Fields::Rows(_) | Fields::Unknown => return Ok(None),
        };
        let Some(field) = fields.iter().find(|field| field.name == key) else {
            return Ok(None);
        };
        Ok(Some(match &field.type_name {
            Some(type_name) => self.fields_of_type(type_name)?,
            None => Fields::Unknown,
        }))
    }

    /// What is known of the fields of `expr`.
    fn fields(&mut self, expr: &Expr, scope: &Scope<'a, '_>) -> Result<Fields, Rejection> {
        if let Some(table) = self.named_row(expr, scope) {
            let row = scope.row_columns(&self.table_key(table));
            let fields = row.into_iter().flatten().map(|(name, column)| Field {
                name: name.to_string(),
                type_name: column.and_then(|id| self.plain_type(id)),
            });
            let fields: Vec<Field> = fields.collect();
            return Ok(match fields.is_empty() {
                true => Fields::Unknown,
                false => Fields::Row(fields),
            });
        }
        Ok(match expr {
            Expr::Nested(inner) => self.fields(inner, scope)?,
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
                let column = self.column_of(expr, scope);
                let identity = column.and_then(|(lineage, _)| lineage.identity);
                match identity.and_then(|id| self.plain_type(id)) {
                    Some(type_name) => self.fields_of_type(&type_name)?,
                    None => Fields::Unknown,
                }
            }
            Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr: _,
                data_type,
                format: _,
            }
            | Expr::TypedString(TypedString {
                data_type,
                value: _,
                uses_odbc_syntax: _,
            }) => self.fields_of_cast(data_type)?,
            Expr::Tuple(values) => Fields::Row(
                (1..=values.len())
                    .map(|n| Field {
                        name: format!("f{n}"),
                        type_name: None,
                    })
                    .collect(),
            ),
            Expr::Array(Array { elem, named: _ }) => match elem.first() {
                Some(first) => into_rows(self.fields(first, scope)?),
                None => Fields::Unknown,
            },
            Expr::Function(call) => {
                let FunctionArguments::List(list) = &call.args else {
                    return Ok(Fields::Unknown);
                };
                self.fields_of_call(&call.name, &list.args, scope)?
            }
            _ => Fields::Unknown,
        })
    }

    fn fields_of_call(
        &mut self,
        name: &ObjectName,
        args: &[FunctionArg],
        scope: &Scope<'a, '_>,
    ) -> Result<Fields, Rejection> {
        let parts: Option<Vec<String>> = (name.0.iter())
            .map(|part| Some(self.key(part.as_ident()?).into_owned()))
            .collect();
        let (schema, key) = match parts.as_deref() {
            Some([key]) => (None, key),
            Some([schema, key]) => (Some(schema), key),
            _ => return Ok(Fields::Unknown),
        };
        if key == "row" && schema.is_none() {
            let fields = (1..=args.len()).map(|n| Field {
                name: format!("f{n}"),
                type_name: None,
            });
            return Ok(Fields::Row(fields.collect()));
        }
        let is_own = self.is_engines_function(key);
        if is_own
            && key == "array_agg"
            && let Some(&[arg]) = read_plain_arguments(args).as_deref()
        {
            return Ok(into_rows(self.fields(arg, scope)?));
        }
        let mut lists = Vec::new();
        for def in self.catalog.functions_named(key) {
            if schema.is_some_and(|schema| def.schema.as_ref().is_some_and(|own| own != schema)) {
                continue;
            }
            if def.columns.is_empty() {
                return Ok(Fields::Unknown);
            }
            lists.extend(&def.columns);
        }
        // What gives one column gives a value, and no row.
        Ok(match lists.as_slice() {
            [first, rest @ ..] if first.len() > 1 && rest.iter().all(|list| list == first) => {
                let fields = first.iter().map(|name| Field {
                    name: name.clone(),
                    type_name: None,
                });
                Fields::Row(fields.collect())
            }
            _ => Fields::Unknown,
        })
    }

    fn fields_of_cast(&mut self, data_type: &DataType) -> Result<Fields, Rejection> {
        Ok(match data_type {
            DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => {
                into_rows(self.fields_of_cast(element)?)
            }
            DataType::Custom(ObjectName(parts), _) => {
                let parts: Option<Vec<String>> = parts
                    .iter()
                    .map(|part| Some(syntax::key(part.as_ident()?, Dialect::Postgres).into_owned()))
                    .collect();
                match parts.as_deref() {
                    Some([key]) => self.fields_of_row_type(None, key)?,
                    Some([schema, key]) => self.fields_of_row_type(Some(schema), key)?,
                    _ => Fields::Unknown,
                }
            }
            _ => Fields::Unknown,
        })
    }

    /// Of a type as `format_type` spells it.
    fn fields_of_type(&mut self, type_name: &str) -> Result<Fields, Rejection> {
        if let Some(element) = type_name.strip_suffix("[]") {
            return Ok(into_rows(self.fields_of_type(element)?));
        }
        if type_name.contains(['"', '(', ' ']) {
            return Ok(Fields::Unknown);
        }
        match type_name.split_once('.') {
            Some((schema, key)) => self.fields_of_row_type(Some(schema), key),
            None => self.fields_of_row_type(None, type_name),
        }
    }

    fn fields_of_row_type(&mut self, schema: Option<&str>, key: &str) -> Result<Fields, Rejection> {
        Ok(match self.row_type(schema, key)? {
            Some(fields) => Fields::Row(
                fields
                    .into_iter()
                    .map(|(name, type_name)| Field {
                        name,
                        type_name: Some(type_name),
                    })
                    .collect(),
            ),
            None => Fields::Unknown,
        })
    }

    /// The declared type of a column whose values stand as they are.
    fn plain_type(&self, id: ColumnId) -> Option<String> {
        // What stands for a masked value may be of another type.
        let decision = self.visible.relation(id.relation).ok()?;
        let column = decision
            .is_plain(id.index)
            .then(|| self.catalog.column(id))?;
        column.map(|column| column.type_name.to_string())
    }
}

fn into_rows(fields: Fields) -> Fields {
    match fields {
        Fields::Row(fields) => Fields::Rows(fields),
        Fields::Rows(_) | Fields::Unknown => Fields::Unknown,
    }
}

fn refuse_unknown_field(field: &Ident) -> Rejection {
    let shown = decode(field);
    Rejection::new(
        Code::SyntaxUnsupported,
        format!(
            "the value before `.{shown}` is not known to be a row with this field. Select the field where the row comes from, \
             or cast the value to its row type: `(value::type).{shown}`. Write a call as `{shown}(value)`"
        ),
    )
}
