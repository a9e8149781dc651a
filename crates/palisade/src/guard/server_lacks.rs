//! What the server at hand lacks, of what other versions of it, and other products of its family, have. Said once it has refused a
//! statement: nothing is decided by a server's version.

use crate::{
    catalog::{
        Catalog,
        functions::{registry, shown_name},
    },
    dialect::Dialect,
    guard::engine_fault::{EngineFault, FaultClass},
    resolve::find_counterpart,
    rewrite::RewrittenStatement,
    syntax,
};

/// What the server of `catalog` lacks of what `statement` has, where that is what it found.
pub(in crate::guard) fn find_lack(
    fault: &EngineFault,
    statement: &RewrittenStatement,
    catalog: &Catalog,
) -> Option<String> {
    // What came while rows were worked on may tell of those that a filter hides.
    if !fault.is_of_preparation && !statement.is_unrestricted() {
        return None;
    }
    let engine = catalog.engine()?;
    let text = statement.text();
    match fault.class {
        FaultClass::NoSuchCall | FaultClass::NoSuchFunction | FaultClass::Syntax => {}
        FaultClass::NoSuchOperator if catalog.dialect() == Dialect::Postgres => {
            return truth_operator(text, fault.position?).map(str::to_owned);
        }
        _ => return None,
    }
    let mut calls = statement.engine_functions().iter();
    let call = calls.find_map(|uid| lacking_function(uid, engine, catalog));
    call.or_else(|| {
        let is_read_otherwise = fault.class == FaultClass::Syntax && engine.starts_with("MariaDB ");
        let lack = is_read_otherwise.then(|| syntax::mariadb_lack(text))??;
        Some(format!("MariaDB has no {lack}"))
    })
}

/// What to write for the operator at this place, which is one of truth values elsewhere.
fn truth_operator(text: &str, position: usize) -> Option<&'static str> {
    let rest = text.char_indices().nth(position)?.0;
    let rest = text.get(rest..)?;
    if rest.starts_with("&&") {
        Some("`&&` is of arrays and ranges on PostgreSQL; write AND")
    } else if rest.starts_with("||") {
        Some(
            "`||` puts texts together on PostgreSQL; write OR between conditions, and cast what is no text",
        )
    } else {
        None
    }
}

/// That `engine` lacks the function with this id, and what to write instead.
fn lacking_function(uid: &str, engine: &str, catalog: &Catalog) -> Option<String> {
    let dialect = catalog.dialect();
    let servers = registry(dialect).servers(uid)?;
    if servers.include(engine) {
        return None;
    }
    let name = shown_name(uid);
    let instead = match find_counterpart(name, dialect) {
        Some(text) => format!("; write {text}"),
        None => String::new(),
    };
    Some(format!(
        "this server, {engine}, has no function `{name}`{instead}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_of_truth_values_are_told_by_their_place() {
        for (text, position, told) in [
            ("SELECT true && false", 12, Some("AND")),
            ("SELECT 'é' = 'é' || true", 17, Some("OR between")),
            ("SELECT 1 + 'a'", 9, None),
            ("SELECT 1", 90, None),
        ] {
            let found = truth_operator(text, position);
            let is_told = told.is_none_or(|told| found.is_some_and(|text| text.contains(told)));
            assert!(
                is_told && found.is_some() == told.is_some(),
                "{text}: {found:?}"
            );
        }
    }
}
