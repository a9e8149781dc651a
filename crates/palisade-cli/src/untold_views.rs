//! Views whose definitions a server does not tell the account. They are refused to agents, who are not told why.

use palisade::{
    catalog::{Relation, RelationKind},
    code::Code,
    dialect::Dialect,
    firewall::Firewall,
};

use crate::{exit::Failure, needs::principals, setup::Setup};

/// How many of them are named.
const NAMED: usize = 5;

/// Those that some principal of `setup` could use otherwise.
pub(crate) fn list<'f>(
    firewall: &'f Firewall,
    setup: &Setup,
) -> Result<Vec<&'f Relation>, Failure> {
    let catalog = firewall.catalog();
    let untold: Vec<&Relation> = match catalog.dialect() {
        Dialect::Mysql => (catalog.relations().iter())
            .filter(|relation| is_untold(relation))
            .collect(),
        // They tell it to everybody.
        Dialect::Sqlite | Dialect::Postgres => Vec::new(),
    };
    if untold.is_empty() {
        return Ok(untold);
    }
    let internal = |error: palisade::error::Error| Failure::Internal(error.to_string());
    let prospect = firewall.prospect().map_err(internal)?;
    let principals = principals(setup);
    let sessions = principals.iter().flat_map(|one| prospect.sessions(one));
    let sessions: Vec<_> = sessions
        .filter(|session| session.is_most_permissive())
        .collect();
    let mut found = Vec::new();
    for view in untold {
        let schema = Dialect::Mysql.identifier(&view.schema);
        let name = Dialect::Mysql.identifier(&view.name);
        let sql = format!("SELECT 1 FROM {schema}.{name}");
        for session in &sessions {
            // What no policy shows is refused as a name that is not there.
            let decision = session.check(&sql).map_err(internal)?;
            if decision.is_err_and(|why| why.code() == Code::SyntaxUnsupported) {
                found.push(view);
                break;
            }
        }
    }
    Ok(found)
}

/// What is to be told of them when a database is opened; nothing where there are none.
pub(crate) fn describe(firewall: &Firewall, setup: &Setup) -> Option<String> {
    // A warning that cannot be given stops no start.
    let views = list(firewall, setup).unwrap_or_default();
    let uids: Vec<&str> = views.iter().map(|view| view.uid.as_str()).collect();
    tell(&uids)
}

fn tell(uids: &[&str]) -> Option<String> {
    let named: Vec<String> = (uids.iter().take(NAMED))
        .map(|uid| format!("`{uid}`"))
        .collect();
    let more = match uids.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (whose, them) = match uids.len() {
        0 => return None,
        1 => ("definition of the view", "it"),
        _ => ("definitions of the views", "them"),
    };
    Some(format!(
        "the server does not tell the account the {whose} {}{more}, so that no agent can use {them}; `palisade doctor` prints the GRANT of SHOW VIEW that is missing",
        named.join(", ")
    ))
}

/// Whether `relation` is a view of unknown definition.
fn is_untold(relation: &Relation) -> bool {
    match relation.kind {
        RelationKind::View | RelationKind::Materialized => relation.definition.is_none(),
        RelationKind::Table | RelationKind::Virtual | RelationKind::System => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn views_are_named_up_to_some() {
        assert_eq!(tell(&[]), None);
        let one = tell(&["d.a"]).unwrap();
        assert!(
            one.contains("the definition of the view `d.a`, so that no agent can use it;"),
            "{one}"
        );
        let many = tell(&["a", "b", "c", "d", "e", "f"]).unwrap();
        assert!(
            many.contains("the definitions of the views `a`, `b`, `c`, `d`, `e` and 1 more, so"),
            "{many}"
        );
    }
}
