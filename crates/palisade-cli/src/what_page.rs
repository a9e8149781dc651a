//! What a principal may do as a page for a browser: every table and column, also those of which nothing is seen.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use palisade::{
    catalog::{Catalog, Relation, RelationKind},
    firewall::AccessCell,
};

use crate::page::{self, escape};

/// Values by table, column and action.
type Cells<'c> = BTreeMap<(&'c str, Option<&'c str>, &'c str), &'c str>;

/// The page.
pub(crate) fn write(principal: &str, cells: &[AccessCell], catalog: &Catalog) -> String {
    let found: Cells<'_> = cells
        .iter()
        .map(|cell| {
            let place = (cell.table.as_str(), cell.column.as_deref(), cell.action);
            (place, cell.value.as_str())
        })
        .collect();
    let known: BTreeSet<&str> = cells.iter().map(|cell| cell.table.as_str()).collect();
    let own = catalog.relations().iter();
    let (mut seen, mut unseen): (Vec<&Relation>, Vec<&Relation>) =
        own.partition(|relation| known.contains(relation.uid.as_str()));
    // The engine's own are told of where something is seen of them.
    unseen.retain(|one| one.system.is_none() && one.kind != RelationKind::System);
    for list in [&mut seen, &mut unseen] {
        list.sort_by(|a, b| a.uid.cmp(&b.uid));
    }
    let mut body = format!("<h1>What {} may do</h1>\n", page::name(principal));
    body.push_str(&count_all(&seen, &unseen, &found));
    for relation in &seen {
        write_table(relation, &found, &mut body);
    }
    if !unseen.is_empty() {
        body.push_str("<h2>Tables of which nothing is seen</h2>\n<p class=\"names\">");
        let names: Vec<String> = unseen.iter().map(|one| page::name(&one.uid)).collect();
        let _ = writeln!(body, "{}</p>", names.join(" "));
    }
    let of_tables =
        |cell: &&AccessCell| catalog.relations().iter().all(|one| one.uid != cell.table);
    let others: Vec<&AccessCell> = cells.iter().filter(of_tables).collect();
    if !others.is_empty() {
        body.push_str("<h2>Templates</h2>\n<table class=\"wide\">\n");
        for cell in others {
            let _ = writeln!(
                body,
                "<tr><th scope=\"row\">{}</th><td>{}</td></tr>",
                page::name(&cell.table),
                badge(cell.action, &cell.value)
            );
        }
        body.push_str("</table>\n");
    }
    body.push_str(
        "<p class=\"faint\">What is not named here is never permitted. Functions are not listed, nor is what a policy permits within a template alone.</p>\n",
    );
    page::write(&format!("What {principal} may do"), &body)
}

/// How much is seen, in one line.
fn count_all(seen: &[&Relation], unseen: &[&Relation], found: &Cells<'_>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for relation in seen.iter().chain(unseen) {
        for column in &relation.columns {
            let value = found.get(&(relation.uid.as_str(), Some(&*column.name), "read"));
            *counts.entry(kind_of(value.copied())).or_default() += 1;
        }
    }
    let tables = seen.len() + unseen.len();
    let columns: usize = counts.values().sum();
    let mut out = format!(
        "<p>Of {tables} tables {} are known to it. Of {columns} columns:</p>\n<p class=\"names\">",
        seen.len()
    );
    for kind in ["plain", "mask", "token", "hidden", "depends", "never"] {
        if let Some(count) = counts.get(kind) {
            let told = match kind {
                "mask" => "masked",
                "never" => "not seen",
                other => other,
            };
            let _ = write!(out, "<span class=\"badge {kind}\">{count} {told}</span> ");
        }
    }
    out.push_str("</p>\n");
    out
}

/// A table with its rows, its changes and each of its columns.
fn write_table(relation: &Relation, found: &Cells<'_>, out: &mut String) {
    let uid = relation.uid.as_str();
    let of_table = |action: &str| found.get(&(uid, None, action)).copied();
    let _ = writeln!(out, "<h2>{}</h2>\n<dl>", page::name(uid));
    let mut line = |name: &str, told: &str| {
        let _ = writeln!(out, "<div><dt>{name}</dt><dd>{told}</dd></div>");
    };
    if let Some(value) = of_table("select") {
        line("queries", &badge("select", value));
    }
    match (of_table("see"), of_table("select")) {
        (Some(value), _) => line("rows", &badge("see", value)),
        (None, Some("name only")) => {}
        (None, _) => line("rows", &badge("see", "no rows")),
    }
    for (action, name) in [
        ("change", "rows to change"),
        ("add", "rows after a change"),
        ("insert", "insert"),
        ("update", "update"),
        ("delete", "delete"),
        ("truncate", "truncate"),
    ] {
        if let Some(value) = of_table(action) {
            line(name, &badge(action, value));
        }
    }
    out.push_str("</dl>\n");
    let of_column = |name: &str, action: &str| found.get(&(uid, Some(name), action)).copied();
    let is_known = |name: &str| {
        of_column(name, "read")
            .or(of_column(name, "write"))
            .is_some()
    };
    if !relation.columns.iter().any(|column| is_known(&column.name)) {
        out.push_str("<p class=\"faint\">No column is seen.</p>\n");
        return;
    }
    let writes = relation.columns.iter();
    let writes = writes.filter(|column| of_column(&column.name, "write").is_some());
    let is_written = writes.count() > 0;
    let last = if is_written { "<th>write</th>" } else { "" };
    let _ = writeln!(
        out,
        "<table class=\"wide\">\n<tr><th>column</th><th>read</th>{last}</tr>"
    );
    for column in &relation.columns {
        let read = of_column(&column.name, "read").unwrap_or("never");
        let write = of_column(&column.name, "write").unwrap_or("never");
        let write = match is_written {
            true => format!("<td>{}</td>", badge("write", write)),
            false => String::new(),
        };
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td>{}</td>{write}</tr>",
            page::name(&column.name),
            badge("read", read)
        );
    }
    out.push_str("</table>\n");
}

/// A value with the colour of what it lets be seen.
fn badge(action: &str, value: &str) -> String {
    let kind = match action {
        "read" => kind_of(Some(value)),
        "see" if value == "no rows" => "never",
        "see" if value == "all rows" => "plain",
        _ if value == "never" => "never",
        _ if value.contains(" or ") || value.contains(", after approval (") => "depends",
        _ if value.starts_with("allow") => "plain",
        _ => "depends",
    };
    let told = if value == "never" { "–" } else { value };
    format!("<span class=\"badge {kind}\">{}</span>", escape(told))
}

/// What a value of `read` is, by its first word; what circumstances or a person decide is neither.
fn kind_of(value: Option<&str>) -> &'static str {
    match value {
        Some(value) if value.contains(", after approval (") => "depends",
        None | Some("never") => "never",
        Some("plain") => "plain",
        Some("token") => "token",
        Some("hidden") => "hidden",
        Some(value) if value.starts_with("mask ") && !value.contains(" or ") => "mask",
        Some(_) => "depends",
    }
}
