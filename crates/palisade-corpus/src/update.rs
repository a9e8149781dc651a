//! Expectations written anew from what came out. Comments and order stay.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, Value};

use crate::{
    case::Case,
    compare::{names, rows_of, used_masks},
    report::{CaseResult, Report, Status},
    run::Answer,
};

/// A file of cases as it would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// The file.
    pub file: String,
    /// Its text.
    pub old: String,
    /// Its text with the new expectations.
    pub new: String,
}

impl Update {
    /// What changes, as `diff -u` prints it.
    #[must_use]
    pub fn diff(&self) -> String {
        similar::TextDiff::from_lines(&self.old, &self.new)
            .unified_diff()
            .context_radius(2)
            .header(&self.file, &self.file)
            .to_string()
    }
}

impl Report {
    /// The files whose expectations would be what came out, and the cases that cannot be written so: what must never occur,
    /// what could not be run, and what differs by the order of loading stays as it is.
    ///
    /// # Errors
    /// If a file cannot be read, or is no longer what was run.
    pub fn updates(&self) -> Result<(Vec<Update>, Vec<String>), String> {
        let mut documents: BTreeMap<&str, (String, DocumentMut)> = BTreeMap::new();
        let mut left = Vec::new();
        for result in &self.results {
            let Status::Failed(differences) = &result.status else {
                continue;
            };
            let file = result.case.file.as_str();
            if !documents.contains_key(file) {
                let read = || -> Result<_, String> {
                    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
                    let document: DocumentMut = text.parse().map_err(|error| format!("{error}"))?;
                    Ok((text, document))
                };
                let read = read().map_err(|why| format!("cannot read `{file}`: {why}"))?;
                documents.insert(file, read);
            }
            let Some((_, document)) = documents.get_mut(file) else {
                continue;
            };
            let written = differences
                .iter()
                .filter(|difference| write(document, result, difference.what))
                .count();
            if written < differences.len() {
                left.push(result.case.name.clone());
            }
        }
        let updates = documents.into_iter().map(|(file, (old, document))| Update {
            file: file.to_owned(),
            old,
            new: document.to_string(),
        });
        Ok((
            updates.filter(|update| update.old != update.new).collect(),
            left,
        ))
    }
}

/// Writes what came out for one key of a case; whether it could.
fn write(document: &mut DocumentMut, result: &CaseResult, what: &str) -> bool {
    let (case, Some(answer)) = (&result.case, &result.answer) else {
        return false;
    };
    // The same expectation is that of the first catalog.
    if case.name != case.written_name {
        return false;
    }
    if case.written_name.contains('/') {
        let cell = match (answer.code, answer.shown) {
            (Some(code), _) => code.slug().to_owned(),
            (None, Some(shown)) => shown.to_string(),
            (None, None) => return false,
        };
        return matches!(what, "decision" | "cell") && set_cell(document, case, &cell);
    }
    let Some(table) = find_case(document, &case.written_name) else {
        return false;
    };
    match what {
        "decision" => set_decision(table, answer),
        "message" => set(table, "message", text(answer, "message")),
        "policies" => set(table, "policies", list(&answer.policies)),
        "rewritten" => set(
            table,
            "rewritten",
            answer.rewritten.clone().unwrap_or_default(),
        ),
        "columns" => set(table, "columns", list(&names(&answer.json, |_| true))),
        "masked" => {
            let masked = names(&answer.json, |column| {
                column.get("masked") == Some(&Json::Bool(true))
            });
            set(table, "masked", list(&masked));
        }
        "max time" => match answer.max_time_ms.map(i64::try_from) {
            Some(Ok(most)) => set(table, "max_time_ms", most),
            Some(Err(_)) | None => return false,
        },
        "used masks" => set(table, "used_masks", list(&used_masks(&answer.json))),
        "empty reason" => set(table, "empty_reason", text(answer, "empty_reason")),
        "rows" => set(table, "rows", rows(&rows_of(&answer.json))),
        "affected" => match answer.affected.map(i64::try_from) {
            Some(Ok(affected)) => set(table, "affected", affected),
            Some(Err(_)) | None => return false,
        },
        "after" => match (&answer.after, table.get_mut("after")) {
            (Some(after), Some(Item::Value(Value::InlineTable(written)))) => {
                written.insert("rows", rows(after).into());
            }
            (Some(after), Some(Item::Table(written))) => set(written, "rows", rows(after)),
            (Some(_) | None, _) => return false,
        },
        _ => return false,
    }
    true
}

fn set(table: &mut Table, key: &str, value: impl Into<Value>) {
    let mut value: Value = value.into();
    // What stands behind the value stays there.
    if let Some(Item::Value(old)) = table.get(key) {
        *value.decor_mut() = old.decor().clone();
    }
    table.insert(key, Item::Value(value));
}

fn text(answer: &Answer, key: &str) -> String {
    let text = answer.json.get(key).and_then(Json::as_str);
    text.unwrap_or_default().to_owned()
}

pub(crate) fn list(names: &[String]) -> Array {
    names.iter().map(String::as_str).collect()
}

pub(crate) fn rows(rows: &[Vec<Json>]) -> Array {
    let row = |row: &Vec<Json>| row.iter().map(cell).collect::<Array>();
    rows.iter().map(row).collect()
}

/// A cell as the format has it; NULL is `{}`.
fn cell(json: &Json) -> Value {
    match json {
        Json::Null => InlineTable::new().into(),
        Json::Bool(value) => (*value).into(),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => integer.into(),
            (None, Some(float)) => float.into(),
            (None, None) => number.to_string().into(),
        },
        Json::String(text) => text.as_str().into(),
        Json::Array(items) => items.iter().map(cell).collect::<Array>().into(),
        Json::Object(map) => {
            let fields = map.iter().map(|(key, value)| (key.as_str(), cell(value)));
            fields.collect::<InlineTable>().into()
        }
    }
}

/// Keys of an answer, which a refusal has not.
const OF_ANSWERS: &[&str] = &[
    "rewritten",
    "rewritten_has",
    "max_time_ms",
    "columns",
    "masked",
    "used_masks",
    "rows",
    "ordered",
    "empty_reason",
    "truncated",
    "affected",
    "on_data",
    "after",
    "findings",
    "preserve",
];

fn set_decision(table: &mut Table, answer: &Answer) {
    match answer.code {
        Some(code) => {
            set(table, "decision", "reject");
            set(table, "code", code.slug());
            for key in OF_ANSWERS {
                table.remove(key);
            }
            table.remove("message");
            match answer.approval {
                Some(level) if table.contains_key("approval") => {
                    set(table, "approval", level.word());
                }
                Some(_) => {}
                None => {
                    table.remove("approval");
                }
            }
        }
        None => {
            set(table, "decision", "allow");
            table.remove("code");
            table.remove("message");
            table.remove("approval");
        }
    }
    if table.contains_key("policies") {
        set(table, "policies", list(&answer.policies));
    }
}

fn set_cell(document: &mut DocumentMut, case: &Case, cell: &str) -> bool {
    let mut parts = case.written_name.splitn(3, '/');
    let (Some(matrix), Some(statement), Some(who)) = (parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let found = tables(document, "matrix").find(|table| name_of(table) == Some(matrix));
    let rows = found.and_then(|table| table.get_mut("statement"));
    let Some(rows) = rows.and_then(Item::as_array_of_tables_mut) else {
        return false;
    };
    let Some(row) = rows
        .iter_mut()
        .find(|table| name_of(table) == Some(statement))
    else {
        return false;
    };
    let cells = row
        .entry("cells")
        .or_insert_with(|| Item::Value(InlineTable::new().into()));
    match cells {
        Item::Value(Value::InlineTable(cells)) => {
            cells.insert(who, cell.into());
        }
        Item::Table(cells) => set(cells, who, cell),
        Item::None | Item::Value(_) | Item::ArrayOfTables(_) => return false,
    }
    true
}

fn find_case<'d>(document: &'d mut DocumentMut, name: &str) -> Option<&'d mut Table> {
    tables(document, "case").find(|table| name_of(table) == Some(name))
}

fn name_of(table: &Table) -> Option<&str> {
    table.get("name").and_then(Item::as_str)
}

/// The tables of the list `key`, of the file or of its parts.
fn tables<'d>(
    document: &'d mut DocumentMut,
    key: &'d str,
) -> Box<dyn Iterator<Item = &'d mut Table> + 'd> {
    let of = |item: &'d mut Item| {
        let list: Option<&mut ArrayOfTables> = item.as_array_of_tables_mut();
        list.into_iter().flat_map(ArrayOfTables::iter_mut)
    };
    if document.contains_key("part") {
        let parts = document.get_mut("part").into_iter().flat_map(of);
        Box::new(parts.filter_map(move |part| part.get_mut(key)).flat_map(of))
    } else {
        Box::new(document.get_mut(key).into_iter().flat_map(of))
    }
}
