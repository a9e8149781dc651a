//! Canonical printing, and the gate behind which text may be executed.

use std::fmt::Write as _;

use sqlparser::ast::{Query, Statement};

use crate::syntax::{
    dialect, lexer,
    parse::{self, Tree},
};
use crate::{code::Code, dialect::Dialect, limits::Limits, rejection::Rejection};

/// Bytes of a printed statement, about: to grow from nothing costs as much as to print.
pub(super) const TYPICAL_BYTES: usize = 512;

/// The text of `query` and the tree that text parses to, which is the same tree.
///
/// The parser prints some trees as text that means another (`- - 1` as a comment). What does not
/// come back equal is never executed.
///
/// # Errors
/// `syntax.not-stable`.
pub(crate) fn print_stable(
    query: &Query,
    dialect: Dialect,
    limits: &Limits,
) -> Result<(String, Box<Query>), Rejection> {
    let mut text = String::with_capacity(TYPICAL_BYTES);
    write!(text, "{query}").map_err(|_| refuse_unstable())?;
    let (text, again) = read_back(text, dialect, limits)?;
    match again {
        Tree::Query(again) if *again == *query => Ok((text, again)),
        Tree::Query(_) | Tree::Explain(_, _) | Tree::Definition(_) => Err(refuse_unstable()),
    }
}

/// The query that a text of our own reads as.
///
/// # Errors
/// `syntax.not-stable`.
pub(crate) fn read_query(
    text: &str,
    dialect: Dialect,
    limits: &Limits,
) -> Result<Box<Query>, Rejection> {
    match read_back(text.to_owned(), dialect, limits)?.1 {
        Tree::Query(query) => Ok(query),
        Tree::Explain(_, _) | Tree::Definition(_) => Err(refuse_unstable()),
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
    let (text, again) = read_back(statement.to_string(), dialect, limits)?;
    match again {
        Tree::Definition(again) if *again == *statement => Ok((text, again)),
        Tree::Query(_) | Tree::Explain(_, _) | Tree::Definition(_) => Err(refuse_unstable()),
    }
}

fn read_back(
    mut text: String,
    dialect: Dialect,
    limits: &Limits,
) -> Result<(String, Tree), Rejection> {
    let mut tokens = lexer::tokenize(&text, dialect).map_err(|_| refuse_unstable())?;
    if let Some(restored) = dialect::restore(&tokens, dialect) {
        text = restored;
        tokens = lexer::tokenize(&text, dialect).map_err(|_| refuse_unstable())?;
    }
    let again = parse::parse_tokens(tokens, dialect, limits).map_err(|_| refuse_unstable())?;
    Ok((text, again))
}

pub(super) fn refuse_unstable() -> Rejection {
    Rejection::new(
        Code::SyntaxNotStable,
        "the statement does not read back the same after printing",
    )
}
