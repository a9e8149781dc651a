//! Small trees: what the rewriter inserts is built from these, always in parentheses where it meets
//! an operator.

use sqlparser::ast::{
    BinaryOperator, CaseWhen, CastKind, CeilFloorKind, Cte, DataType, DateTimeField, Expr,
    Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    LimitClause, ObjectName, ObjectNamePart, Query, Select, SelectFlavor, SelectItem, SetExpr,
    TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins, TimezoneInfo, UnaryOperator,
    Value, With, helpers::attached_token::AttachedToken,
};

use crate::{dialect::Dialect, moment::utc, syntax::encode};

pub(in crate::rewrite) fn column(dialect: Dialect, name: &str) -> Expr {
    Expr::Identifier(encode(name, dialect))
}

pub(in crate::rewrite) fn integer(value: i64) -> Expr {
    let digits = Expr::Value(Value::Number(value.unsigned_abs().to_string(), false).into());
    if value < 0 {
        Expr::Nested(Box::new(Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: Box::new(digits),
        }))
    } else {
        digits
    }
}

/// A string literal. MySQL's sessions are pinned so that a backslash escapes.
pub(in crate::rewrite) fn text(dialect: Dialect, value: &str) -> Expr {
    let quoted = value.replace('\'', "''");
    let quoted = match dialect {
        Dialect::Sqlite | Dialect::Postgres => quoted,
        Dialect::Mysql => quoted.replace('\\', "\\\\"),
    };
    Expr::Value(Value::SingleQuotedString(quoted).into())
}

pub(in crate::rewrite) fn boolean(value: bool) -> Expr {
    Expr::Value(Value::Boolean(value).into())
}

pub(in crate::rewrite) fn null() -> Expr {
    Expr::Value(Value::Null.into())
}

pub(in crate::rewrite) fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp {
        left: Box::new(left),
        op,
        right: Box::new(right),
    }
}

pub(in crate::rewrite) fn parens(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

pub(in crate::rewrite) fn not(expr: Expr) -> Expr {
    Expr::UnaryOp {
        op: UnaryOperator::Not,
        expr: Box::new(parens(expr)),
    }
}

/// All of `exprs` joined by `op`, each in parentheses; `empty` if there are none.
pub(in crate::rewrite) fn join_by(exprs: Vec<Expr>, op: &BinaryOperator, empty: bool) -> Expr {
    exprs
        .into_iter()
        .map(parens)
        .reduce(|left, right| binary(left, op.clone(), right))
        .unwrap_or_else(|| boolean(empty))
}

pub(in crate::rewrite) fn case(arms: Vec<(Expr, Expr)>, otherwise: Option<Expr>) -> Expr {
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: arms
            .into_iter()
            .map(|(condition, result)| CaseWhen { condition, result })
            .collect(),
        else_result: otherwise.map(Box::new),
    }
}

/// A constant in ten-thousandths.
pub(in crate::rewrite) fn decimal(value: i64) -> Expr {
    let digits = value.unsigned_abs();
    let text = format!("{}.{:04}", digits / 10_000, digits % 10_000);
    let number = Expr::Value(Value::Number(text, false).into());
    if value < 0 {
        parens(Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: Box::new(number),
        })
    } else {
        number
    }
}

/// A number below zero that every exact type can still hold one less of: MySQL's have 65 digits.
pub(in crate::rewrite) fn lowest_decimal() -> Expr {
    let digits = format!("1{}", "0".repeat(60));
    parens(Expr::UnaryOp {
        op: UnaryOperator::Minus,
        expr: Box::new(Expr::Value(Value::Number(digits, false).into())),
    })
}

/// PostgreSQL's constant for a point in time, in milliseconds from 1970, years 1 to 9999.
pub(in crate::rewrite) fn timestamptz(milliseconds: i64) -> Expr {
    let (date, time) = utc(milliseconds);
    let text = format!("{date} {time}+00");
    cast(
        self::text(Dialect::Postgres, &text),
        DataType::Timestamp(None, TimezoneInfo::WithTimeZone),
    )
}

pub(in crate::rewrite) fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expr),
        data_type,
        format: None,
    }
}

pub(in crate::rewrite) fn cast_text(dialect: Dialect, expr: Expr) -> Expr {
    cast(
        expr,
        match dialect {
            Dialect::Sqlite | Dialect::Postgres => DataType::Text,
            Dialect::Mysql => DataType::Char(None),
        },
    )
}

/// The UTF-8 of a text on MySQL: `BINARY x = y` would be read as `BINARY (x = y)` by the parser.
pub(in crate::rewrite) fn mysql_bytes(expr: Expr) -> Expr {
    cast(mysql_convert(expr, "utf8mb4"), DataType::Binary(None))
}

/// `CONVERT(expr USING charset)`.
pub(in crate::rewrite) fn mysql_convert(expr: Expr, charset: &str) -> Expr {
    Expr::Convert {
        is_try: false,
        expr: Box::new(expr),
        data_type: None,
        charset: Some(ObjectName(vec![ObjectNamePart::Identifier(Ident::new(
            charset,
        ))])),
        target_before_value: false,
        styles: Vec::new(),
    }
}

/// `expr COLLATE name`.
pub(in crate::rewrite) fn collate(expr: Expr, name: &str, dialect: Dialect) -> Expr {
    let name = match dialect {
        Dialect::Sqlite | Dialect::Mysql => Ident::new(name),
        Dialect::Postgres => encode(name, dialect),
    };
    Expr::Collate {
        expr: Box::new(expr),
        collation: ObjectName(vec![ObjectNamePart::Identifier(name)]),
    }
}

/// What a mask made, as text that goes with any other.
///
/// MySQL's text has the collation of the session, and clashes with a column of another one. MariaDB cannot convert a constant or
/// a hash to another character set. Both would raise where a query combines the mask with a column. Every collation gives way
/// to `utf8mb4_bin`.
pub(in crate::rewrite) fn mysql_text(expr: Expr, dialect: Dialect) -> Expr {
    match dialect {
        Dialect::Sqlite | Dialect::Postgres => expr,
        Dialect::Mysql => collate(expr, "utf8mb4_bin", dialect),
    }
}

/// A call of the engine's own function `name`.
pub(in crate::rewrite) fn call(dialect: Dialect, name: &str, args: Vec<Expr>) -> Expr {
    let schema = match dialect {
        Dialect::Sqlite | Dialect::Mysql => None,
        Dialect::Postgres => Some("pg_catalog"),
    };
    call_name(schema, name, args)
}

/// A call of what is a keyword of the grammar on every engine, and has no schema.
pub(in crate::rewrite) fn keyword_call(name: &str, args: Vec<Expr>) -> Expr {
    call_name(None, name, args)
}

fn call_name(schema: Option<&str>, name: &str, args: Vec<Expr>) -> Expr {
    let name = schema.into_iter().chain([name]).map(Ident::new);
    function(name.collect(), args)
}

/// A call of PostgreSQL's own function `name`, in quotes.
pub(in crate::rewrite) fn call_quoted(name: &str, args: Vec<Expr>) -> Expr {
    function(
        vec![Ident::new("pg_catalog"), Ident::with_quote('"', name)],
        args,
    )
}

/// `FLOOR(value)`.
pub(in crate::rewrite) fn floor(value: Expr) -> Expr {
    Expr::Floor {
        expr: Box::new(value),
        field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime),
    }
}

fn function(name: Vec<Ident>, args: Vec<Expr>) -> Expr {
    Expr::Function(Function {
        name: ObjectName(name.into_iter().map(ObjectNamePart::Identifier).collect()),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: args
                .into_iter()
                .map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)))
                .collect(),
            clauses: Vec::new(),
        }),
        within_group: Vec::new(),
        filter: None,
        null_treatment: None,
        over: None,
    })
}

/// SQLite's `substr(expr, from[, count])`, for which the parser has a node of its own.
pub(in crate::rewrite) fn substr(expr: Expr, from: Expr, count: Option<Expr>) -> Expr {
    Expr::Substring {
        expr: Box::new(expr),
        substring_from: Some(Box::new(from)),
        substring_for: count.map(Box::new),
        special: true,
        shorthand: true,
    }
}

pub(in crate::rewrite) fn alias(name: Ident) -> TableAlias {
    TableAlias {
        explicit: true,
        name,
        columns: Vec::new(),
        at: None,
    }
}

pub(in crate::rewrite) fn item(dialect: Dialect, expr: Expr, name: &str) -> SelectItem {
    SelectItem::ExprWithAlias {
        expr,
        alias: encode(name, dialect),
    }
}

/// `schema.name`, or `name` alone.
pub(in crate::rewrite) fn table(dialect: Dialect, parts: &[&str]) -> TableFactor {
    table_as(dialect, parts, None)
}

/// The same, under another name.
pub(in crate::rewrite) fn table_as(
    dialect: Dialect,
    parts: &[&str],
    name: Option<Ident>,
) -> TableFactor {
    TableFactor::Table {
        name: ObjectName(
            parts
                .iter()
                .map(|part| ObjectNamePart::Identifier(encode(part, dialect)))
                .collect(),
        ),
        alias: name.map(alias),
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    }
}

/// `SELECT projection [FROM relation] [WHERE selection]`.
pub(in crate::rewrite) fn select(
    projection: Vec<SelectItem>,
    relation: impl Into<Option<TableFactor>>,
    selection: Option<Expr>,
) -> Query {
    query(SetExpr::Select(Box::new(Select {
        select_token: AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection,
        exclude: None,
        into: None,
        from: relation
            .into()
            .into_iter()
            .map(|relation| TableWithJoins {
                relation,
                joins: Vec::new(),
            })
            .collect(),
        lateral_views: Vec::new(),
        prewhere: None,
        selection,
        connect_by: Vec::new(),
        group_by: sqlparser::ast::GroupByExpr::Expressions(Vec::new(), Vec::new()),
        cluster_by: Vec::new(),
        distribute_by: Vec::new(),
        sort_by: Vec::new(),
        having: None,
        named_window: Vec::new(),
        qualify: None,
        window_before_qualify: false,
        value_table_mode: None,
        flavor: SelectFlavor::Standard,
    })))
}

/// `WITH name (columns) AS (query)`.
pub(in crate::rewrite) fn with_query(name: Ident, columns: Vec<Ident>, query: Query) -> With {
    let columns = columns.into_iter().map(|name| TableAliasColumnDef {
        name,
        data_type: None,
    });
    With {
        with_token: AttachedToken::empty(),
        recursive: false,
        cte_tables: vec![Cte {
            alias: TableAlias {
                explicit: false,
                name,
                columns: columns.collect(),
                at: None,
            },
            query: Box::new(query),
            from: None,
            materialized: None,
            closing_paren_token: AttachedToken::empty(),
        }],
    }
}

pub(in crate::rewrite) fn query(body: SetExpr) -> Query {
    Query {
        with: None,
        body: Box::new(body),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}

/// What each row that is found gives: nothing of its own.
pub(in crate::rewrite) fn select_one(dialect: Dialect) -> SelectItem {
    item(dialect, integer(1), "refused")
}

/// That `admitted` is false or NULL.
pub(in crate::rewrite) fn not_true(admitted: Expr) -> Expr {
    case(
        vec![(parens(admitted), boolean(false))],
        Some(boolean(true)),
    )
}

pub(in crate::rewrite) fn limit_to(limit: Expr) -> LimitClause {
    LimitClause::LimitOffset {
        limit: Some(limit),
        offset: None,
        limit_by: Vec::new(),
    }
}

pub(in crate::rewrite) fn select_from(
    projection: Vec<SelectItem>,
    tables: Vec<TableWithJoins>,
    condition: Option<Expr>,
) -> Query {
    let mut query = select(projection, None, condition);
    if let SetExpr::Select(select) = &mut *query.body {
        select.from = tables;
    }
    query
}
