//! Canonical printing, and the gate behind which text may be executed.

use sqlparser::ast::Query;

use super::{dialect, parse};
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
    let mut text = query.to_string();
    let unstable = || {
        Rejection::new(
            Code::SyntaxNotStable,
            "the statement does not read back the same after printing",
        )
    };
    let mut tokens = parse::tokenize(&text, dialect).map_err(|_| unstable())?;
    if let Some(restored) = dialect::restored(&tokens, dialect) {
        text = restored;
        tokens = parse::tokenize(&text, dialect).map_err(|_| unstable())?;
    }
    let again = parse::parse_tokens(tokens, dialect, limits).map_err(|_| unstable())?;
    if *again == *query {
        Ok((text, again))
    } else {
        Err(unstable())
    }
}
