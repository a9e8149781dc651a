//! Constants and parameters without a type of their own, in the query that an INSERT of PostgreSQL takes its rows from.

use sqlparser::ast::{Expr, SelectItem, SetExpr, Statement, Value};

use super::{null, sql};
use crate::{
    catalog::{Catalog, TypeClass},
    resolve::Target,
    syntax::key,
};

/// Says of which types the constants and parameters are that a query gives to columns of a target on PostgreSQL, as it would
/// take them if nothing stood between: a query under a name gives text.
pub(super) fn spell_types(change: &mut SetExpr, target: &Target, catalog: &Catalog) {
    let SetExpr::Insert(Statement::Insert(insert)) = change else {
        return;
    };
    let relation = catalog.relation(target.relation);
    let (Some(relation), Some(source)) = (relation, &mut insert.source) else {
        return;
    };
    let SetExpr::Select(select) = &mut *source.body else {
        return;
    };
    for (item, name) in select.projection.iter_mut().zip(&insert.columns) {
        let expr = match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, alias: _ } => expr,
            // How many columns these give is not told here.
            SelectItem::ExprWithAliases {
                expr: _,
                aliases: _,
            }
            | SelectItem::QualifiedWildcard(_, _)
            | SelectItem::Wildcard(_) => return,
        };
        let ident = name.0.last().and_then(|part| part.as_ident());
        let index = ident.and_then(|ident| relation.position(&key(ident, catalog.dialect())));
        let column = index.and_then(|index| relation.column(index));
        if let Some(column) = column.filter(|_| is_untyped(expr))
            && takes_text_as_its_own(column.class)
            && let Some(data_type) = null::data_type(column, catalog)
        {
            *expr = sql::cast(expr.clone(), data_type);
        }
    }
}

/// Whether PostgreSQL gives `expr` the type of what it is assigned to.
fn is_untyped(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_untyped(inner),
        Expr::Value(value) => matches!(
            value.value,
            Value::Null | Value::SingleQuotedString(_) | Value::Placeholder(_)
        ),
        _ => false,
    }
}

/// Whether a cast of a text to this class is what an assignment of it is: it cuts nothing off.
fn takes_text_as_its_own(class: TypeClass) -> bool {
    match class {
        TypeClass::Integer
        | TypeClass::Boolean
        | TypeClass::Decimal
        | TypeClass::Number
        | TypeClass::Date
        | TypeClass::Timestamp
        | TypeClass::TimestampTz
        | TypeClass::Time
        | TypeClass::Interval
        | TypeClass::Uuid
        | TypeClass::Json
        | TypeClass::Network
        | TypeClass::Blob
        | TypeClass::Enum => true,
        TypeClass::Text | TypeClass::Padded | TypeClass::Other => false,
    }
}
