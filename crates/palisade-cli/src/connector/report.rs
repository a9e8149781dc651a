//! What was found, for people. Texts of servers are shown without what moves the cursor.

use std::fmt::Write as _;

use crate::{
    connector::{Finding, State, clients::Way},
    grid::{self, Cell},
    human::{self, Paint, printable},
};

/// Columns of the names of steps.
const NAMES: usize = 8;

pub(super) fn describe(found: &Finding<'_>) -> String {
    let mut out = format!("{}\n\n", found.url);
    for check in &found.checks {
        let state = match check.state {
            State::Ok => "ok",
            State::Note => "note",
            State::Fault => "FAULT",
        };
        let line = printable(&format!("{state:<5}  {}: {}", check.check, check.finding));
        out.push_str(&human::wrap(&line, 0, NAMES));
        if let Some(remedy) = check.remedy {
            out.push_str(&human::wrap(remedy, NAMES, NAMES));
        }
    }
    let faults = found
        .checks
        .iter()
        .filter(|check| check.state == State::Fault);
    let told = match faults.count() {
        0 if found.way == Way::OwnTokens => "\nClients need an access token.\n\n".to_owned(),
        0 => "\nClients find their way.\n\n".to_owned(),
        1 => "\nClients stop at the fault.\n\n".to_owned(),
        count => format!("\nClients stop at the first of {count} faults.\n\n"),
    };
    out.push_str(&told);
    let rows: Vec<Vec<Cell>> = found
        .clients
        .iter()
        .map(|verdict| {
            let works = match verdict.works {
                true => "works",
                false => "set",
            };
            vec![
                Cell::text(verdict.client),
                Cell::text(works),
                Cell::text(&verdict.how),
            ]
        })
        .collect();
    let names = ["client", "", "how, or what to set"].map(str::to_owned);
    let paint = Paint::for_stdout();
    let _ = write!(out, "{}", grid::draw(&names, &rows, paint, paint.width()));
    out
}
