//! The statements of a change, as the command line or a file of JSON lines gives them.

use palisade::{limits::Limits, value::Params};
use serde::Deserialize;

use crate::{
    batch::{Line, read_line},
    changes::args::ProposeArguments,
    exit::Failure,
    statements::{max_input_bytes, open, read_params, read_text},
};

/// A line of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StatementLine {
    sql: String,
    #[serde(default)]
    params: Option<serde_json::Value>,
}

/// The statements and their parameters.
pub(super) fn read_statements(
    arguments: &ProposeArguments,
    limits: &Limits,
) -> Result<Vec<(String, Params)>, Failure> {
    let max = max_input_bytes(limits);
    if let Some(path) = &arguments.batch {
        let mut input = open(path)?;
        let mut list = Vec::new();
        let mut number = 0_u64;
        let unread = |error| Failure::Usage(format!("cannot read the batch: {error}"));
        while let Some(line) = read_line(&mut *input, max).map_err(unread)? {
            number += 1;
            let at = |why: String| {
                Failure::Usage(format!(
                    "line {number} of the batch: {why}\n  help: each line is {{\"sql\": \"…\", \"params\": […]}}, the parameters only where there are some"
                ))
            };
            match line {
                Line::Blank => {}
                Line::TooLong => return Err(at(format!("it is longer than {max} bytes"))),
                Line::Text(bytes) => list.push(read_line_statement(&bytes).map_err(at)?),
            }
        }
        return Ok(list);
    }
    if arguments.params.is_some() && arguments.sql.len() > 1 {
        return Err(Failure::Usage(
            "--params is for one statement\n  help: several statements with parameters come from a file, `--batch FILE`".to_owned(),
        ));
    }
    let params = read_params(arguments.params.as_deref())?;
    let mut list = Vec::with_capacity(arguments.sql.len());
    for sql in &arguments.sql {
        let text = read_text(sql, max)?;
        let text = text.map_err(|(_, why)| Failure::Usage(why))?;
        list.push((text, params.clone()));
    }
    Ok(list)
}

fn read_line_statement(bytes: &[u8]) -> Result<(String, Params), String> {
    let line: StatementLine = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let params = match &line.params {
        Some(json) => Params::from_json(json).map_err(|why| format!("parameters: {why}"))?,
        None => Params::None,
    };
    Ok((line.sql, params))
}
