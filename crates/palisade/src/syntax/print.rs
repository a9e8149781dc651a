//! Canonical printing, and the gate behind which text may be executed.

use sqlparser::ast::{Query, Statement};

use super::parse::{self, Tree};
use crate::{code::Code, dialect::Dialect, limits::Limits, rejection::Rejection};

/// The text of `query` and the tree that text parses to, which is the same tree.
///
/// The parser prints some trees as text that means another (`- - 1` as a comment, F1). What does not
/// come back equal is never executed.
///
/// # Errors
/// `syntax.not-stable`.
pub(crate) fn print_stable(
    query: &Query,
    dialect: Dialect,
    limits: &Limits,
) -> Result<(String, Box<Query>), Rejection> {
    let text = query.to_string();
    match read_back(&text, dialect, limits)? {
        Tree::Query(again) if *again == *query => Ok((text, again)),
        Tree::Query(_) | Tree::Explain(_, _) | Tree::Definition(_) => Err(unstable()),
    }
}

/// The text of a definition and the tree that text parses to, which is the same tree.
///
/// # Errors
/// `syntax.not-stable`.
pub(crate) fn print_definition(
    statement: &Statement,
    dialect: Dialect,
    limits: &Limits,
) -> Result<(String, Box<Statement>), Rejection> {
    let text = statement.to_string();
    match read_back(&text, dialect, limits)? {
        Tree::Definition(again) if *again == *statement => Ok((text, again)),
        Tree::Query(_) | Tree::Explain(_, _) | Tree::Definition(_) => Err(unstable()),
    }
}

fn read_back(text: &str, dialect: Dialect, limits: &Limits) -> Result<Tree, Rejection> {
    let tokens = parse::tokenize(text, dialect).map_err(|_| unstable())?;
    parse::parse_tokens(tokens, dialect, limits).map_err(|_| unstable())
}

fn unstable() -> Rejection {
    Rejection::new(
        Code::SyntaxNotStable,
        "the statement does not read back the same after printing",
    )
}
