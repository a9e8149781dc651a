//! Prints what is decided about the corpus's statements of PostgreSQL, one line of JSON a statement that is allowed: what
//! `second-opinion` compares with PostgreSQL's own parser.

use std::{collections::BTreeSet, error::Error, path::PathBuf};

use palisade::{
    catalog::RelationId,
    dialect::Dialect,
    policy::obligation::{Predicate, RowFilter},
};
use palisade_corpus::{Corpus, Runner};

/// The tables in which `rows` look up what their rows refer to.
fn collect_referred(rows: &RowFilter, into: &mut BTreeSet<RelationId>) {
    let RowFilter::Where(predicate) = rows else {
        return;
    };
    let mut pending = vec![predicate];
    while let Some(part) = pending.pop() {
        match part {
            Predicate::RefersToSeen(_, referred) => {
                into.insert(referred.table);
                collect_referred(&referred.rows, into);
            }
            Predicate::And(parts) | Predicate::Or(parts) => pending.extend(parts),
            Predicate::Not(inner) => pending.push(inner),
            Predicate::If(condition, then, otherwise) => {
                pending.extend([&**condition, &**then, &**otherwise]);
            }
            Predicate::Constant(_)
            | Predicate::Column(_)
            | Predicate::Has(_)
            | Predicate::Compare(_, _, _)
            | Predicate::In(_, _)
            | Predicate::Like(_, _) => {}
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let corpus = Corpus::load(folder)?;
    let runner = Runner::new(&corpus)?;
    for case in &corpus.cases {
        if case.dialect != Dialect::Postgres {
            continue;
        }
        let firewall = runner.firewall(case).ok_or("a case without a catalog")?;
        let session = case.session();
        let (_, trace) = firewall.explain(&case.sql, &case.params, &session)?;
        let Some(printed) = &trace.rewritten else {
            continue;
        };
        // Definitions make the names that they hold, and one of what is not there does nothing.
        let verb = printed.split(' ').next().unwrap_or_default();
        if ["", "CREATE", "ALTER", "DROP", "TRUNCATE"].contains(&verb) {
            continue;
        }
        // What a view reads, and what a foreign key's action looks at and sets, may stand in no text of the agent's.
        let access = firewall.resolve_access(&case.sql, &session).ok();
        let followed: BTreeSet<&String> = access
            .iter()
            .flat_map(|access| access.changes())
            .filter(|change| change.cascaded)
            .filter_map(|change| firewall.catalog().relation(change.relation))
            .flat_map(|relation| &relation.foreign_keys)
            .flat_map(|key| key.columns.iter().chain(&key.references))
            .collect();
        let direct = |column: &&palisade::firewall::ColumnTrace| {
            !column.usages.contains(&"write")
                && !column.usages.contains(&"view")
                && !followed.contains(&column.column)
        };
        let columns: Vec<&str> = trace
            .relations
            .iter()
            .flat_map(|relation| relation.columns.iter().filter(direct))
            .map(|column| column.column.as_str())
            .collect();
        // Policies may call a schema otherwise than statements do.
        let mut relations: Vec<String> = trace
            .relations
            .iter()
            .map(|traced| {
                let mut known = firewall.catalog().relations().iter();
                let found = known.find(|relation| relation.uid == traced.relation);
                found.map_or_else(|| traced.relation.clone(), |one| one.database_name())
            })
            .collect();
        // What filters look up stands in no text of the agent's either.
        let mut referred = BTreeSet::new();
        let seen = firewall.seen_rows(&session);
        for seen in seen.map_err(|why| why.to_string())? {
            let own = firewall.catalog().relation(seen.relation);
            if own.is_some_and(|own| relations.contains(&own.database_name())) {
                collect_referred(&seen.rows, &mut referred);
            }
        }
        let referred = referred.into_iter();
        let referred = referred.filter_map(|id| firewall.catalog().relation(id));
        relations.extend(referred.map(|relation| relation.database_name()));
        let line = serde_json::json!({
            "case": case.id(),
            "sql": case.sql,
            "printed": printed,
            "relations": relations,
            "columns": columns,
            "functions": trace.functions,
        });
        println!("{line}");
    }
    Ok(())
}
