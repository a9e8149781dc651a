//! What a node of the tree is by itself, its parts aside. Whoever looks through a tree for names, calls or operators asks here,
//! where every kind of node is written out.

use sqlparser::ast::{
    BinaryOperator, Expr, Function, Ident, ObjectName, TableFactor, ValueWithSpan,
};

/// What an expression is by itself.
pub(crate) enum Role<'e> {
    /// A name alone.
    Name(&'e Ident),
    /// Names with points between.
    Path(&'e [Ident]),
    /// All columns of a relation: `t.*`.
    WholeRow(&'e ObjectName),
    /// `*`.
    Star,
    /// Columns that are named beside the expressions: those of MATCH.
    Columns(&'e [ObjectName]),
    /// A literal or a parameter.
    Value(&'e ValueWithSpan),
    /// A field or an element of a value.
    Access,
    Call(&'e Function),
    /// An operator between two sides.
    Operator(&'e BinaryOperator),
    /// A collation, which goes up to where the value is compared.
    Collation,
    /// None of these.
    Other,
}

/// What `expr` is by itself.
pub(crate) fn role(expr: &Expr) -> Role<'_> {
    match expr {
        Expr::Identifier(name) => Role::Name(name),
        Expr::CompoundIdentifier(parts) => Role::Path(parts),
        Expr::QualifiedWildcard(name, _) => Role::WholeRow(name),
        Expr::Wildcard(_) => Role::Star,
        Expr::MatchAgainst {
            columns,
            match_value: _,
            opt_search_modifier: _,
        } => Role::Columns(columns),
        Expr::Value(value) => Role::Value(value),
        Expr::CompoundFieldAccess {
            root: _,
            access_chain: _,
        } => Role::Access,
        Expr::Function(function) => Role::Call(function),
        Expr::BinaryOp {
            left: _,
            op,
            right: _,
        } => Role::Operator(op),
        Expr::Collate {
            expr: _,
            collation: _,
        } => Role::Collation,
        Expr::JsonAccess { value: _, path: _ }
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotUnknown(_)
        | Expr::IsDistinctFrom(_, _)
        | Expr::IsNotDistinctFrom(_, _)
        | Expr::IsJson {
            expr: _,
            kind: _,
            unique_keys: _,
            negated: _,
        }
        | Expr::IsNormalized {
            expr: _,
            form: _,
            negated: _,
        }
        | Expr::InList {
            expr: _,
            list: _,
            negated: _,
        }
        | Expr::InSubquery {
            expr: _,
            subquery: _,
            negated: _,
        }
        | Expr::InUnnest {
            expr: _,
            array_expr: _,
            negated: _,
        }
        | Expr::Between {
            expr: _,
            negated: _,
            low: _,
            high: _,
        }
        | Expr::Like {
            negated: _,
            any: _,
            expr: _,
            pattern: _,
            escape_char: _,
        }
        | Expr::ILike {
            negated: _,
            any: _,
            expr: _,
            pattern: _,
            escape_char: _,
        }
        | Expr::SimilarTo {
            negated: _,
            expr: _,
            pattern: _,
            escape_char: _,
        }
        | Expr::RLike {
            negated: _,
            expr: _,
            pattern: _,
            regexp: _,
        }
        | Expr::AnyOp {
            left: _,
            compare_op: _,
            right: _,
            is_some: _,
        }
        | Expr::AllOp {
            left: _,
            compare_op: _,
            right: _,
        }
        | Expr::UnaryOp { op: _, expr: _ }
        | Expr::Convert {
            is_try: _,
            expr: _,
            data_type: _,
            charset: _,
            target_before_value: _,
            styles: _,
        }
        | Expr::Cast {
            kind: _,
            expr: _,
            data_type: _,
            format: _,
        }
        | Expr::AtTimeZone {
            timestamp: _,
            time_zone: _,
        }
        | Expr::Extract {
            field: _,
            syntax: _,
            expr: _,
        }
        | Expr::Ceil { expr: _, field: _ }
        | Expr::Floor { expr: _, field: _ }
        | Expr::Position { expr: _, r#in: _ }
        | Expr::Substring {
            expr: _,
            substring_from: _,
            substring_for: _,
            special: _,
            shorthand: _,
        }
        | Expr::Trim {
            trim_where: _,
            trim_what: _,
            expr: _,
            trim_characters: _,
        }
        | Expr::Overlay {
            expr: _,
            overlay_what: _,
            overlay_from: _,
            overlay_for: _,
        }
        | Expr::Nested(_)
        // Its prefix is a character set or a word of the grammar.
        | Expr::Prefixed { prefix: _, value: _ }
        | Expr::TypedString(_)
        | Expr::Case {
            case_token: _,
            end_token: _,
            operand: _,
            conditions: _,
            else_result: _,
        }
        | Expr::Exists {
            subquery: _,
            negated: _,
        }
        | Expr::Subquery(_)
        | Expr::GroupingSets(_)
        | Expr::Cube(_)
        | Expr::Rollup(_)
        | Expr::Tuple(_)
        | Expr::Struct {
            values: _,
            fields: _,
        }
        | Expr::Named { expr: _, name: _ }
        | Expr::Dictionary(_)
        | Expr::Map(_)
        | Expr::Array(_)
        | Expr::Interval(_)
        | Expr::OuterJoin(_)
        | Expr::Prior(_)
        | Expr::Lambda(_)
        | Expr::MemberOf(_) => Role::Other,
    }
}

/// The parts of the name that `expr` is by itself, from the outermost; none of anything else.
pub(crate) fn name_parts(expr: &Expr) -> &[Ident] {
    match role(expr) {
        Role::Name(name) => std::slice::from_ref(name),
        Role::Path(parts) => parts,
        Role::WholeRow(_)
        | Role::Star
        | Role::Columns(_)
        | Role::Value(_)
        | Role::Access
        | Role::Call(_)
        | Role::Operator(_)
        | Role::Collation
        | Role::Other => &[],
    }
}

/// What an item of FROM is by itself.
pub(crate) enum TableRole<'t> {
    /// A relation or a common table expression.
    Named(&'t ObjectName),
    /// A call of a function.
    Called(&'t ObjectName),
    /// Neither.
    Other,
}

/// What `factor` is by itself.
pub(crate) fn table_role(factor: &TableFactor) -> TableRole<'_> {
    match factor {
        TableFactor::Table {
            name,
            alias: _,
            args: None,
            with_hints: _,
            version: _,
            with_ordinality: _,
            partitions: _,
            json_path: _,
            sample: _,
            index_hints: _,
        } => TableRole::Named(name),
        TableFactor::Table {
            name,
            alias: _,
            args: Some(_),
            with_hints: _,
            version: _,
            with_ordinality: _,
            partitions: _,
            json_path: _,
            sample: _,
            index_hints: _,
        }
        | TableFactor::Function {
            lateral: _,
            name,
            args: _,
            with_ordinality: _,
            alias: _,
        } => TableRole::Called(name),
        TableFactor::Derived {
            lateral: _,
            subquery: _,
            alias: _,
            sample: _,
        }
        | TableFactor::TableFunction { expr: _, alias: _ }
        | TableFactor::UNNEST {
            alias: _,
            array_exprs: _,
            with_offset: _,
            with_offset_alias: _,
            with_ordinality: _,
        }
        | TableFactor::JsonTable {
            json_expr: _,
            json_path: _,
            columns: _,
            alias: _,
        }
        | TableFactor::OpenJsonTable {
            json_expr: _,
            json_path: _,
            columns: _,
            alias: _,
        }
        | TableFactor::NestedJoin {
            table_with_joins: _,
            alias: _,
        }
        | TableFactor::Pivot {
            table: _,
            aggregate_functions: _,
            value_column: _,
            value_source: _,
            default_on_null: _,
            alias: _,
        }
        | TableFactor::Unpivot {
            table: _,
            value: _,
            name: _,
            columns: _,
            null_inclusion: _,
            alias: _,
        }
        | TableFactor::UnpivotExpr {
            expression: _,
            value_alias: _,
            attribute_alias: _,
        }
        | TableFactor::MatchRecognize {
            table: _,
            partition_by: _,
            order_by: _,
            measures: _,
            rows_per_match: _,
            after_match_skip: _,
            pattern: _,
            symbols: _,
            alias: _,
        }
        | TableFactor::XmlTable {
            namespaces: _,
            row_expression: _,
            passing: _,
            columns: _,
            alias: _,
        }
        | TableFactor::SemanticView {
            name: _,
            dimensions: _,
            metrics: _,
            facts: _,
            where_clause: _,
            alias: _,
        } => TableRole::Other,
    }
}
