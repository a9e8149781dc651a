//! Prints what is decided about the corpus's statements of PostgreSQL, one line of JSON a statement that is allowed: what
//! `second-opinion` compares with PostgreSQL's own parser.

use std::{collections::BTreeSet, error::Error, path::PathBuf};

use palisade::dialect::Dialect;
use palisade_corpus::{Corpus, Runner};

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
        let relations: Vec<String> = trace
            .relations
            .iter()
            .map(|traced| {
                let mut known = firewall.catalog().relations().iter();
                let found = known.find(|relation| relation.uid == traced.relation);
                found.map_or_else(|| traced.relation.clone(), |one| one.database_name())
            })
            .collect();
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
