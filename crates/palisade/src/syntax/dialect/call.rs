//! Calls of functions, where the parser has a form of its own.

use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgumentList, FunctionArguments, Ident, ObjectName,
};

/// A call of the function with this name; without parentheses if there are no arguments.
pub(in crate::syntax::dialect) fn build_call(
    name: Vec<Ident>,
    args: Option<Vec<FunctionArg>>,
) -> Expr {
    let args = match args {
        None => FunctionArguments::None,
        Some(args) => FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: Vec::new(),
        }),
    };
    Expr::Function(Function {
        name: ObjectName::from(name),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args,
        within_group: Vec::new(),
        filter: None,
        null_treatment: None,
        over: None,
    })
}
