//! `palisade policy print-starter --explain`: what the starter policies make of each column of a database.

use std::fmt::Write as _;

use palisade::{
    firewall::ShownColumn,
    session::{Principal, Session},
};
use serde::Serialize;

use crate::{
    args::{Format, PolicyArguments, StarterArguments},
    database::Access,
    database_name::CatalogSource,
    exit::Failure,
    human::{self, Paint},
    policies::Policies,
    setup::Setup,
};

/// What the starter policies make of `database`, as text or as JSON.
pub(crate) fn explain(database: &str, arguments: &StarterArguments) -> Result<String, Failure> {
    let policies = PolicyArguments {
        principal: None,
        policies: None,
        config: arguments.config.clone(),
    };
    let (mut setup, catalog) = Setup::over_catalog(
        CatalogSource::argument(database)?,
        arguments.dialect,
        &arguments.secret,
        &policies,
    )?;
    // Whatever policies the configuration names.
    setup.policies = Policies::starter();
    let firewall = setup.firewall(catalog, Access::Read)?;
    let session = Session::new(Principal::new("Agent", "default"));
    let columns = firewall
        .shown_columns(&session)
        .map_err(|refused| Failure::Internal(refused.to_string()))?;
    match arguments.format {
        Format::Json => {
            let text = serde_json::to_string(&Found { columns: &columns })
                .map_err(|error| Failure::Internal(error.to_string()))?;
            Ok(text + "\n")
        }
        Format::Text => Ok(describe(&columns, Paint::for_stdout())),
    }
}

#[derive(Serialize)]
struct Found<'a> {
    columns: &'a [ShownColumn],
}

const HEADS: [&str; 4] = ["column", "an agent sees", "class", "matched by"];

/// A table of columns under the name of each table, and a line of counts.
fn describe(columns: &[ShownColumn], paint: Paint) -> String {
    let rows: Vec<[String; 4]> = columns.iter().map(describe_column).collect();
    let mut widths = HEADS.map(human::width);
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(human::width(cell));
        }
    }
    let line = |cells: &[String; 4]| {
        let padded = cells.iter().zip(widths).map(|(cell, width)| {
            let blanks = width.saturating_sub(human::width(cell));
            format!("{cell}{}", " ".repeat(blanks))
        });
        let padded: Vec<String> = padded.collect();
        format!("  {}\n", padded.join("  ").trim_end())
    };
    let mut out = String::new();
    let mut table = None;
    for (column, row) in columns.iter().zip(&rows) {
        if table != Some(&column.table) {
            let gap = if table.is_some() { "\n" } else { "" };
            let _ = writeln!(
                out,
                "{gap}{}",
                paint.strong(&human::printable(&column.table))
            );
            out.push_str(&paint.faint(&line(&HEADS.map(str::to_owned))));
            table = Some(&column.table);
        }
        out.push_str(&line(row));
    }
    let count = |level: &str| {
        let of_level = columns
            .iter()
            .filter(|column| column.level.starts_with(level));
        of_level.count()
    };
    let _ = writeln!(
        out,
        "\n{} columns: {} plain, {} masked, {} hidden.",
        columns.len(),
        count("plain"),
        count("mask"),
        count("hidden")
    );
    out.push_str(&human::wrap(
        "The names of columns decide. Look through those that are plain: data that is personal may stand under any name.",
        0,
        0,
    ));
    out
}

fn describe_column(column: &ShownColumn) -> [String; 4] {
    let or_none = |words: &[String]| match words {
        [] => "-".to_owned(),
        [_, ..] => human::printable(&words.join(", ")),
    };
    let matched = match (column.chosen_by.as_slice(), column.tags.as_slice()) {
        ([], [_, ..]) => "what it is computed from".to_owned(),
        (chosen, _) => or_none(chosen),
    };
    [
        human::printable(&column.column),
        column.level.clone(),
        or_none(&column.tags),
        matched,
    ]
}
