//! `palisade policy who` and `palisade policy what`: what principals may do, by table and by principal.

use palisade::{
    did_you_mean,
    firewall::{AccessCell, AccessClass, Firewall},
};
use serde::Serialize;

use crate::{
    args::{
        PolicyArguments,
        policy::{GroundArguments, TableFormat, WhatArguments, WhoArguments},
    },
    database::Access,
    database_name::CatalogSource,
    exit::Failure,
    human,
    policy::test::replace,
    setup::Setup,
    what_page,
};

/// One line: who, of what, by which action, what.
#[derive(Serialize)]
struct Line {
    principal: String,
    resource: String,
    action: &'static str,
    value: String,
}

/// What every principal sees of a table or a column.
pub(crate) fn who(arguments: &WhoArguments) -> Result<String, Failure> {
    let firewall = firewall(&arguments.ground)?;
    let wanted = find_resource(&firewall, &arguments.resource)?;
    let classes = classes(&firewall, &firewall.known_principals())?;
    let mut lines = Vec::new();
    for class in &classes {
        let cells: Vec<&AccessCell> = class
            .cells
            .iter()
            .filter(|cell| wanted.is_met_by(cell))
            .collect();
        for member in &class.members {
            if cells.is_empty() {
                lines.push(Line {
                    principal: member.clone(),
                    resource: wanted.qualified_name(),
                    action: "any",
                    value: "never".to_owned(),
                });
            }
            lines.extend(cells.iter().map(|cell| line(member, cell)));
        }
    }
    lines.sort_by(|a, b| a.principal.cmp(&b.principal));
    print(&lines, arguments.ground.format)
}

/// Everything a principal may do.
pub(crate) fn what(arguments: &WhatArguments) -> Result<String, Failure> {
    let firewall = firewall(&arguments.ground)?;
    let classes = classes(&firewall, std::slice::from_ref(&arguments.principal))?;
    let cells: Vec<AccessCell> = classes.into_iter().flat_map(|class| class.cells).collect();
    let principal = arguments.principal.to_string();
    if let Some(path) = &arguments.html {
        let page = what_page::write(&principal, &cells, firewall.catalog());
        replace(path, &page)?;
        return Ok(format!("wrote {}\n", path.display()));
    }
    let lines: Vec<Line> = cells.iter().map(|cell| line(&principal, cell)).collect();
    if lines.is_empty() && arguments.ground.format == TableFormat::Text {
        return Ok(format!("{} may do nothing\n", arguments.principal));
    }
    print(&lines, arguments.ground.format)
}

fn line(principal: &str, cell: &AccessCell) -> Line {
    Line {
        principal: principal.to_owned(),
        resource: cell.resource(),
        action: cell.action,
        value: cell.value.clone(),
    }
}

fn firewall(ground: &GroundArguments) -> Result<Firewall, Failure> {
    let policies = PolicyArguments {
        principal: None,
        policies: ground.policies.clone(),
        config: ground.config.clone(),
    };
    let (setup, catalog) = Setup::over_catalog(
        CatalogSource::argument(&ground.catalog)?,
        ground.dialect,
        &ground.secret,
        &policies,
    )?;
    setup.firewall(catalog, Access::Write)
}

fn classes(
    firewall: &Firewall,
    principals: &[palisade::session::Principal],
) -> Result<Vec<AccessClass>, Failure> {
    firewall
        .access_classes(principals)
        .map_err(|error| Failure::Internal(error.to_string()))
}

/// A table, or a column of it.
struct Wanted {
    table: String,
    column: Option<String>,
}

impl Wanted {
    /// Whether a cell is about it: about the table as a whole, too, where a column is meant.
    fn is_met_by(&self, cell: &AccessCell) -> bool {
        cell.table == self.table && (self.column.is_none() || self.column == cell.column)
    }

    fn qualified_name(&self) -> String {
        match &self.column {
            Some(column) => format!("{}.{column}", self.table),
            None => self.table.clone(),
        }
    }
}

/// The table or column that `text` names: `customers`, `main.customers`, `customers.email`, `main.customers.email`.
fn find_resource(firewall: &Firewall, text: &str) -> Result<Wanted, Failure> {
    let mut found = Vec::new();
    let mut known = Vec::new();
    for relation in firewall.catalog().relations() {
        if relation.system.is_some() {
            continue;
        }
        let short = &relation.name;
        for name in [short, &relation.uid] {
            known.push(name.clone());
            if name == text {
                found.push((relation.uid.clone(), None));
            }
            let columns = relation.column_ids().map(|(_, column)| &column.name);
            for column in columns {
                let whole = format!("{name}.{column}");
                if whole == text {
                    found.push((relation.uid.clone(), Some(column.to_string())));
                }
                known.push(whole);
            }
        }
    }
    found.dedup();
    match <[_; 1]>::try_from(found) {
        Ok([(table, column)]) => Ok(Wanted { table, column }),
        Err(found) if found.is_empty() => {
            let close = did_you_mean::closest(text, known.iter().map(String::as_str));
            let hint = close.map(|close| format!("\n  help: did you mean `{close}`?"));
            Err(Failure::Usage(format!(
                "there is no table or column `{text}`{}",
                hint.unwrap_or_default()
            )))
        }
        Err(found) => {
            let tables: Vec<String> = found.into_iter().map(|(table, _)| table).collect();
            Err(Failure::Usage(format!(
                "`{text}` may be in {}\n  help: name the schema too",
                tables.join(" and in ")
            )))
        }
    }
}

fn print(lines: &[Line], format: TableFormat) -> Result<String, Failure> {
    match format {
        TableFormat::Json => {
            let text = serde_json::to_string(&serde_json::json!({ "access": lines }))
                .map_err(|error| Failure::Internal(error.to_string()))?;
            Ok(text + "\n")
        }
        TableFormat::Csv => {
            let mut out = "principal,resource,action,value\n".to_owned();
            for line in lines {
                let cells = [&line.principal, &line.resource, line.action, &line.value];
                out.push_str(&cells.map(quote).join(","));
                out.push('\n');
            }
            Ok(out)
        }
        TableFormat::Text => Ok(describe(lines)),
    }
}

/// A cell of comma-separated values (RFC 4180). What a spreadsheet would take for a formula is quoted text to it.
fn quote(text: &str) -> String {
    let text = match text.chars().next() {
        Some('=' | '+' | '-' | '@' | '\t' | '\r') => format!("'{text}"),
        Some(_) | None => text.to_owned(),
    };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

/// What is said of a principal stands below its name.
fn describe(lines: &[Line]) -> String {
    let width = |of: &dyn Fn(&Line) -> String| {
        let widths = lines.iter().map(|line| human::width(&of(line)));
        widths.max().unwrap_or(0)
    };
    let resource = |line: &Line| human::printable(&line.resource);
    let (first, second) = (width(&resource), width(&|line| line.action.to_owned()));
    let mut out = String::new();
    for chunk in lines.chunk_by(|a, b| a.principal == b.principal) {
        if let Some(line) = chunk.first() {
            out.push_str(&human::printable(&line.principal));
            out.push('\n');
        }
        for line in chunk {
            let name = resource(line);
            let blanks = first.saturating_sub(human::width(&name));
            let action = line.action;
            let value = human::printable(&line.value);
            let name = format!("{name}{}", " ".repeat(blanks));
            out.push_str(&format!("  {name}  {action:second$}  {value}\n"));
        }
    }
    out
}
