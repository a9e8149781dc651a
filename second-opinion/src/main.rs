//! What PostgreSQL's own parser makes of the statements that the firewall has allowed, and of the statements to run in
//! their place. Reads the lines of `cargo run -p palisade-corpus --example decided`; fails on the first difference of
//! a kind, after all are printed.
//!
//! Compared are the kind of statement, the relations, the functions and the names of columns. The two parsers may group
//! operators differently: nothing is decided by that, and text keeps its order.

use std::{
    collections::BTreeSet,
    io::{BufRead, stdin},
    process::ExitCode,
};

use pg_query::{NodeEnum, NodeRef, ParseResult, protobuf::Node};
use serde::Deserialize;

/// What was decided about a statement.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Decided {
    case: String,
    sql: String,
    printed: String,
    /// Qualified names.
    relations: BTreeSet<String>,
    /// Names of the columns that the statement itself reads.
    columns: BTreeSet<String>,
    /// Ids of the functions.
    functions: BTreeSet<String>,
}

/// Functions that PostgreSQL's grammar calls for syntax, and what the firewall counts for them; nothing where what
/// is behind it is no function of anybody's.
const GRAMMAR: &[(&str, &str)] = &[
    ("btrim", "trim"),
    ("ltrim", "trim"),
    ("rtrim", "trim"),
    ("like_escape", ""),
    ("similar_to_escape", ""),
    ("timezone", ""),
    ("is_normalized", "normalize"),
    ("overlaps", ""),
    ("xmlexists", "xmlexists"),
];

/// What is allowed: queries, changes of rows, and plans.
const KINDS: &[&str] = &[
    "SelectStmt",
    "InsertStmt",
    "UpdateStmt",
    "DeleteStmt",
    "MergeStmt",
    "ExplainStmt",
];

fn main() -> ExitCode {
    let mut compared = 0;
    let mut differences = Vec::new();
    for line in stdin().lock().lines() {
        let decided: Decided = match line
            .map_err(|why| why.to_string())
            .and_then(|line| serde_json::from_str(&line).map_err(|why| why.to_string()))
        {
            Ok(decided) => decided,
            Err(why) => {
                eprintln!("second-opinion: {why}");
                return ExitCode::FAILURE;
            }
        };
        compared += 1;
        for difference in compare(&decided) {
            differences.push(format!(
                "{}: {difference}\n  {}\n  {}",
                decided.case, decided.sql, decided.printed
            ));
        }
    }
    println!(
        "{compared} statements compared, {} differences",
        differences.len()
    );
    println!("{}", differences.join("\n"));
    if compared > 0 && differences.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn compare(decided: &Decided) -> Vec<String> {
    let parse = |what: &str, text: &str| {
        pg_query::parse(text, 0).map_err(|why| vec![format!("{what} is not read: {why}")])
    };
    let parsed = parse("the original", &decided.sql)
        .and_then(|original| Ok((original, parse("what is printed", &decided.printed)?)));
    let (original, printed) = match parsed {
        Ok(both) => both,
        Err(why) => return why,
    };
    let mut found = Vec::new();
    let (theirs, ours) = (original.statement_types(), printed.statement_types());
    if theirs != ours || !matches!(theirs.as_slice(), [kind] if KINDS.contains(kind)) {
        found.push(format!(
            "the original is {theirs:?}, what is printed {ours:?}"
        ));
    }
    let relations: BTreeSet<String> = decided
        .relations
        .iter()
        .map(|name| name.replace('"', ""))
        .collect();
    for name in printed.tables() {
        if !relations.contains(&name) && !is_system(&name) {
            found.push(format!("`{name}` is printed and was not decided about"));
        }
    }
    let known: BTreeSet<&str> = relations.iter().map(|name| last(name)).collect();
    for name in original.tables() {
        if !known.contains(last(&name)) && !is_system(&name) {
            found.push(format!("`{name}` is read and was not decided about"));
        }
    }
    let called: BTreeSet<&str> = decided.functions.iter().map(|uid| last(uid)).collect();
    for name in original.functions() {
        let name = last(&name);
        let counted = GRAMMAR.iter().find(|(own, _)| *own == name);
        let counted = counted.map_or(name, |(_, counted)| *counted);
        if !counted.is_empty() && !called.contains(counted) {
            found.push(format!("`{name}` is called and was not decided about"));
        }
    }
    match (words(&decided.sql), words(&decided.printed)) {
        (Ok(theirs), Ok(kept)) => found.extend(compare_names(decided, &original, &theirs, &kept)),
        (Err(why), _) | (_, Err(why)) => found.push(why),
    }
    found
}

/// What is wrong with the names of columns: those that are gone from what is printed, and those that were decided about
/// and stand nowhere.
fn compare_names(
    decided: &Decided,
    original: &ParseResult,
    theirs: &BTreeSet<String>,
    kept: &BTreeSet<String>,
) -> Vec<String> {
    let (named, whole) = columns(original);
    let schemas: BTreeSet<&str> = decided
        .relations
        .iter()
        .filter_map(|name| name.split('.').next())
        .collect();
    let gone = named
        .iter()
        .filter(|name| !kept.contains(*name) && !schemas.contains(name.as_str()))
        .map(|name| format!("the name `{name}` is gone"));
    // What stands for columns that it does not name.
    let whole = whole
        || ["*", "insert", "table", "natural", "using"]
            .iter()
            .any(|sign| theirs.contains(*sign));
    let unnamed = decided
        .columns
        .iter()
        .filter(|column| !whole && !theirs.contains(*column))
        .map(|column| format!("the column `{column}` was decided about and is not named"));
    gone.chain(unnamed).collect()
}

/// Every word and sign of a text, as PostgreSQL's scanner cuts it; names as they are folded.
fn words(text: &str) -> Result<BTreeSet<String>, String> {
    let scanned = pg_query::scan(text).map_err(|why| why.to_string())?;
    let cut = |start: i32, end: i32| {
        let (start, end) = (usize::try_from(start).ok()?, usize::try_from(end).ok()?);
        text.get(start..end)
    };
    Ok(scanned
        .tokens
        .iter()
        .filter_map(|token| cut(token.start, token.end))
        .map(|word| match word.strip_prefix('"') {
            Some(quoted) => quoted.trim_end_matches('"').replace("\"\"", "\""),
            None => word.to_lowercase(),
        })
        .collect())
}

/// Every part of the names of columns that the parser's own walk finds; and whether one of them is a whole row.
fn columns(result: &ParseResult) -> (BTreeSet<String>, bool) {
    let mut names = BTreeSet::new();
    let mut relations = BTreeSet::new();
    let mut renamed = false;
    let mut waiting: Vec<NodeRef<'_>> = result
        .protobuf
        .nodes()
        .into_iter()
        .map(|(node, _, _, _)| node)
        .collect();
    while let Some(node) = waiting.pop() {
        match node {
            // The parser's own walk ends at what a field or an element is taken from.
            NodeRef::AIndirection(taken) => {
                let parts = taken.arg.as_deref().into_iter().chain(&taken.indirection);
                waiting.extend(parts.flat_map(walk));
            }
            NodeRef::AIndices(indices) => {
                let bounds = [&indices.lidx, &indices.uidx];
                waiting.extend(bounds.into_iter().flatten().flat_map(|bound| walk(bound)));
            }
            NodeRef::ColumnRef(reference) => {
                for field in &reference.fields {
                    if let Some(NodeEnum::String(part)) = &field.node {
                        names.insert(part.sval.clone());
                    }
                }
            }
            NodeRef::RangeVar(table) => {
                let alias = table.alias.as_ref().map(|alias| &alias.aliasname);
                relations.insert(alias.unwrap_or(&table.relname).clone());
                renamed |= table.alias.as_ref().is_some_and(|a| !a.colnames.is_empty());
            }
            _ => {}
        }
    }
    let whole = renamed || names.iter().any(|name| relations.contains(name));
    (names, whole)
}

/// Whatever the parser's own walk finds below a node.
fn walk(below: &Node) -> impl Iterator<Item = NodeRef<'_>> {
    let nodes = below.node.iter().flat_map(|node| node.nodes());
    nodes.map(|(node, _, _, _)| node)
}

/// The last part of a qualified name, quotes undone; of an id such as `pg_catalog.f/2` the name.
fn last(name: &str) -> &str {
    let name = name.rsplit('.').next().unwrap_or(name);
    name.split('/').next().unwrap_or(name).trim_matches('"')
}

/// Whether a relation is one of PostgreSQL's own, which are decided about elsewhere.
fn is_system(name: &str) -> bool {
    name.starts_with("pg_") || name.starts_with("information_schema.")
}
