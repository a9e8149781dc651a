//! Tables of cases: many principals and many statements.

use std::collections::BTreeMap;

use palisade::{did_you_mean, session::Principal};
use serde::Deserialize;
use toml::Spanned;

use crate::{
    case::{Case, Expectation, Shown, Verdict},
    written::{Ground, WrittenError, code, require_plain},
};

/// The cell that nothing establishes yet.
const UNVERIFIED: &str = "unverified";

/// A table of cases as it is written. A cell that it leaves out is `deny`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Matrix {
    /// What it is called: lower-case letters, digits and dashes.
    name: Spanned<String>,
    /// Why it must come out so.
    #[serde(default)]
    why: String,
    /// Who asks, by a short name.
    principals: BTreeMap<String, Spanned<String>>,
    /// Statements with what becomes of them.
    statement: Vec<Row>,
}

/// A statement with what becomes of it for each principal.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// What it is called: lower-case letters, digits and dashes.
    name: Spanned<String>,
    /// The statement.
    sql: String,
    /// Why it is not run.
    skip: Option<String>,
    /// What becomes of it for each principal: `allow`, `mask`, `filter`, `mask, filter`, `deny`, a code, or `unverified`.
    #[serde(default)]
    cells: BTreeMap<Spanned<String>, Spanned<String>>,
}

impl Matrix {
    /// A case for each cell, in the order of statements and names of principals.
    pub(crate) fn cases(
        &self,
        ground: &Ground<'_>,
        catalog: &str,
    ) -> Result<Vec<Case>, WrittenError> {
        if self.principals.is_empty() {
            return Err(ground.fault_in(&self.name, "a matrix needs principals".to_owned()));
        }
        // Names of cells are made of these, and a fault is told where it stands.
        require_word(self.name.get_ref(), "a matrix's name")
            .map_err(|message| ground.fault_in(&self.name, message))?;
        for (who, principal) in &self.principals {
            require_word(who, "a principal's short name")
                .map_err(|message| ground.fault_in(principal, message))?;
        }
        let mut cases = Vec::new();
        for row in &self.statement {
            require_word(row.name.get_ref(), "a statement's name")
                .map_err(|message| ground.fault_in(&row.name, message))?;
            let unknown = |cell: &&Spanned<String>| !self.principals.contains_key(cell.get_ref());
            if let Some(cell) = row.cells.keys().find(unknown) {
                let names = self.principals.keys().map(String::as_str);
                let hint = did_you_mean::closest(cell.get_ref(), names)
                    .map(|close| format!("; did you mean `{close}`?"));
                let message = format!(
                    "the matrix has no principal `{}`{}",
                    cell.get_ref(),
                    hint.unwrap_or_default()
                );
                return Err(ground.fault_in(cell, message));
            }
            if row.skip.as_ref().is_some_and(|why| why.trim().is_empty()) {
                let message = "`skip` is a reason, and this one is empty".to_owned();
                return Err(ground.fault_in(&row.name, message));
            }
            for (who, principal) in &self.principals {
                let cell = row.cells.get(who.as_str());
                // Of a cell that is left out the place is its statement's.
                let at = cell.unwrap_or(&row.name);
                let fault = |message| ground.fault_in(at, message);
                let name = format!("{}/{}/{who}", self.name.get_ref(), row.name.get_ref());
                let case = ground.case(catalog, &name, at.span()).map_err(fault)?;
                let (verdict, shown) = read_cell(cell).map_err(fault)?;
                let is_unverified = cell.is_some_and(|cell| cell.get_ref() == UNVERIFIED);
                cases.push(Case {
                    why: self.why.clone(),
                    skip: row.skip.clone(),
                    principal: Principal::parse(principal.get_ref())
                        .map_err(|error| ground.fault_in(principal, error.to_string()))?,
                    sql: row.sql.clone(),
                    is_left_out: cell.is_none(),
                    expect: Expectation {
                        verdict,
                        shown,
                        is_unverified,
                        ..case.expect.clone()
                    },
                    ..case
                });
            }
        }
        Ok(cases)
    }
}

/// That a part of a case's name, `what`, is plain.
fn require_word(name: &str, what: &str) -> Result<(), String> {
    require_plain(name).map_err(|_| {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let spelled: String = name.chars().map(plain).collect();
        let spelled = spelled.to_ascii_lowercase();
        let example = match spelled.trim_matches('-') {
            "" => String::new(),
            word => format!("; write `{word}`"),
        };
        format!("{what} has lower-case letters, digits and dashes, and `{name}` is none{example}")
    })
}

/// What a cell says.
fn read_cell(cell: Option<&Spanned<String>>) -> Result<(Verdict, Option<Shown>), String> {
    let Some(cell) = cell else {
        return Ok((Verdict::Deny, None));
    };
    let mut shown = Shown::default();
    let words: Vec<&str> = cell.get_ref().split(',').map(str::trim).collect();
    match words.as_slice() {
        ["deny"] => return Ok((Verdict::Deny, None)),
        ["allow" | UNVERIFIED] => {}
        [slug] if slug.contains('.') => return Ok((Verdict::Reject(code(slug)?), None)),
        words => {
            for word in words {
                match *word {
                    "mask" => shown.masked = true,
                    "filter" => shown.filtered = true,
                    other => {
                        return Err(format!(
                            "`{other}` is no cell: there are `allow`, `mask`, `filter`, `mask, filter`, `deny`, `unverified`, and codes"
                        ));
                    }
                }
            }
        }
    }
    Ok((Verdict::Allow, Some(shown)))
}
