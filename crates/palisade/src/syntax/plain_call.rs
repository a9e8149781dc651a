//! Calls without clauses of their own: `f(a, b)`.

use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments,
    ObjectName,
};

/// The name and the arguments of a call without DISTINCT, ORDER BY, FILTER, OVER and their like.
pub(crate) fn read_plain_call(call: &Function) -> Option<(&ObjectName, &[FunctionArg])> {
    let Function {
        name,
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args:
            FunctionArguments::List(FunctionArgumentList {
                duplicate_treatment: None,
                args,
                clauses,
            }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group,
    } = call
    else {
        return None;
    };
    (clauses.is_empty() && within_group.is_empty()).then_some((name, args))
}

/// The arguments, if each is an expression without a name.
pub(crate) fn read_plain_arguments(args: &[FunctionArg]) -> Option<Vec<&Expr>> {
    args.iter()
        .map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
            FunctionArg::Unnamed(_)
            | FunctionArg::Named {
                name: _,
                arg: _,
                operator: _,
            }
            | FunctionArg::ExprNamed {
                name: _,
                arg: _,
                operator: _,
            } => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use sqlparser::{dialect::PostgreSqlDialect, parser::Parser};

    use super::*;

    /// The number of arguments that are read, of a call that is read.
    fn count_arguments(text: &str) -> Option<Option<usize>> {
        let parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(text);
        let Expr::Function(call) = parser.unwrap().parse_expr().unwrap() else {
            panic!("no call: {text}");
        };
        let (_, args) = read_plain_call(&call)?;
        Some(read_plain_arguments(args).map(|args| args.len()))
    }

    #[test]
    fn calls_with_clauses_are_not_plain() {
        for (text, expected) in [
            ("f(a, 1 + 2)", Some(Some(2))),
            ("s.f()", Some(Some(0))),
            ("count(*)", Some(None)),
            ("f(a => 1)", Some(None)),
            ("count(DISTINCT a)", None),
            ("array_agg(a ORDER BY a)", None),
            ("count(a) FILTER (WHERE a > 1)", None),
            ("sum(a) OVER ()", None),
            ("first_value(a) IGNORE NULLS OVER ()", None),
            ("percentile_cont(0.5) WITHIN GROUP (ORDER BY a)", None),
        ] {
            assert_eq!(count_arguments(text), expected, "{text}");
        }
    }
}
